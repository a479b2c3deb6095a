-- SPDX-License-Identifier: MIT
-- The evaluating half of the REPL: a process that gets numbered pieces of text from the terminal's
-- thread and answers each with its number and whether it is only the beginning of something.
--
-- An interrupt is an error at any place, be it between two evaluations. None of them ends this
-- process, once it has said 0 for the first time: later the answer 0 stands for one that may have
-- been lost. What the code uses is local, for the person at the terminal may change any global.
local mare = require "mare"
local load, pcall, xpcall, select, type, tostring = load, pcall, xpcall, select, type, tostring
local getmetatable, find, gsub, traceback = getmetatable, string.find, string.gsub, debug.traceback
local stdout, stderr, pack, unpack = io.stdout, io.stderr, table.pack, table.unpack
local as_text = require "mare._show"
local WIDTH = 78

-- Tables as they would be written in a program, unless they say themselves how they look.
local function readable(...)
    local values = pack(...)
    for i = 1, values.n do
        local meta = type(values[i]) == "table" and getmetatable(values[i])
        if type(values[i]) == "table" and not (type(meta) == "table" and meta.__tostring) then
            values[i] = as_text(values[i], WIDTH)
        end
    end
    return unpack(values, 1, values.n)
end

local function show(ok, ...)
    if not ok then
        stderr:write(tostring((...)), "\n")
    elseif select("#", ...) > 0 then
        local shown, message = pcall(print, readable(...))
        if not shown then
            stderr:write("error calling 'print' (", tostring(message), ")\n")
        end
    end
end

local function is_beginning(message)
    return message and find(message, "<eof>", -5, true)
end

-- The chunk; or nil and a message, which is nil when the text is only a beginning. A local `mare`
-- goes along with functions that are spawned, as in a program; a global would not.
local function compile(text)
    text = gsub(text, "^%s*=", "return ") -- as in older interpreters
    local chunk, message = load("local mare = mare return " .. text, "=stdin")
    local expected = is_beginning(message)
    if not chunk then
        chunk, message = load("local mare = mare " .. text, "=stdin")
    end
    if not chunk and (expected or is_beginning(message)) then
        return nil, nil
    end
    return chunk, message
end

-- As the stock interpreter does, without the frames below the line that was typed.
local function explain(message)
    if type(message) ~= "string" then
        local meta = getmetatable(message)
        if type(meta) == "table" and meta.__tostring then
            return tostring(message)
        elseif type(message) ~= "number" then
            message = "(error object is a " .. type(message) .. " value)"
        end
    end
    return (gsub(traceback(message, 2), "^(.*)\n\t%[C%]: in function 'xpcall'.*$", "%1"))
end

local function evaluate(text)
    local chunk, message = compile(text)
    if chunk then
        show(xpcall(chunk, explain))
    elseif message then
        stderr:write(message, "\n")
    else
        return true
    end
    stdout:flush()
    return false
end

local function serve(input, output)
    for number, text in input:messages() do
        local ok, more = true, false
        if text then
            ok, more = pcall(evaluate, text)
        end
        if not ok then -- outside the code itself: an interrupt, or a standard output that fails
            stderr:write((gsub(tostring(more), "^mare%._repl:%d+: ", "")), "\n")
        end
        output:send(number, ok and more)
    end
end

-- Until there is no more input. At the start, and after an interrupt, by which an answer may have
-- been lost, it says 0. There is room for one answer: if one was not taken yet, 0 takes its place.
local function serve_between_interrupts(input, output)
    local over
    repeat
        output:tryreceive()
        output:trysend(0)
        over = pcall(serve, input, output)
    until over
end

-- A program that comes before the first line.
local function run(name, ...)
    _G.arg = {[0] = name, ...}
    local chunk, message = loadfile(name)
    if not chunk then
        stderr:write(message, "\n")
        return
    end
    local ok, why = xpcall(chunk, explain, ...)
    if not ok then stderr:write(tostring(why), "\n") end
    stdout:flush()
end

return function(input, output, program, ...)
    local _ <close> = input -- whatever ends this process, the terminal's thread is not left waiting
    local _ <close> = output
    _G.mare = mare
    if program then pcall(run, program, ...) end
    -- One pcall in another: an interrupt that comes between two calls of serve leads to this loop,
    -- and the next does not come before serve runs again.
    repeat until pcall(serve_between_interrupts, input, output)
end
