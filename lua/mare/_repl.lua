-- SPDX-License-Identifier: MIT
-- The evaluating half of the REPL: a process that gets numbered pieces of text from the terminal's
-- thread and answers each with its number and whether it is only the beginning of something.
--
-- An interrupt (Ctrl-C) is an error that may come anywhere, also between two evaluations. After its
-- first answer, 0, no interrupt ends this process: another 0 stands for an answer that may have
-- been lost. The code uses only locals, because the user may change any global.
local mare = require "mare"
local pcall, xpcall, select, tostring, gsub = pcall, xpcall, select, tostring, string.gsub
local stdout, stderr, line = io.stdout, io.stderr, require "mare._line"
local readable, compile, explain = line.readable, line.compile, line.explain
local complete = require "mare._complete"

-- The number of the last text that came to its end, or of whose end the user was told; and whether
-- it was only a beginning.
local told, begun

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

-- An error that was raised outside the user's code: an interrupt, or a failing standard output.
local function report(number, message)
    stderr:write((gsub(tostring(message), "^mare%.[%w_]+:%d+: ", "")), "\n")
    begun = false
    told = number
end

local function serve(input, output)
    for number, text, completes in input:messages() do
        local ok, more = true, false
        if completes then
            local _, added, names = pcall(complete, text)
            output:send(number, added, names)
        elseif text then
            ok, more = pcall(evaluate, text)
            if ok then
                begun = more
                told = number
            else
                report(number, more)
            end
        elseif told == number then -- only its answer was lost
            more = begun
        else -- an interrupt took the text of this number
            report(number, "interrupted!")
        end
        if not completes then output:send(number, ok and more) end
    end
end

-- Serves until there is no more input. At the start, and after an interrupt, when an answer may
-- have been lost, it answers 0. There is room for one answer: 0 replaces one not taken yet.
local function serve_between_interrupts(input, output)
    local over
    repeat
        output:tryreceive()
        output:trysend(0)
        over = pcall(serve, input, output)
    until over
end

-- Runs a program before the first line (`mare -i app.lua`).
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
    -- Two loops with pcall: an interrupt between two calls of serve ends the inner one and comes
    -- here. The next interrupt does not come before serve runs again.
    repeat until pcall(serve_between_interrupts, input, output)
end
