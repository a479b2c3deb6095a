-- SPDX-License-Identifier: MIT
-- The evaluating half of the REPL: a process that gets pieces of text from the terminal's thread
-- and answers "done", or "more" when a piece is only the beginning of something.
local function show(ok, ...)
    if not ok then
        io.stderr:write(tostring((...)), "\n")
    elseif select("#", ...) > 0 then
        local shown, message = pcall(print, ...)
        if not shown then
            io.stderr:write("error calling 'print' (", tostring(message), ")\n")
        end
    end
end

local function compile(text)
    local chunk = load("return " .. text, "=stdin")
    if chunk then
        return chunk
    end
    local message
    chunk, message = load(text, "=stdin")
    if not chunk and message:find("<eof>", -5, true) then
        return nil, "more"
    end
    return chunk, message
end

local function traceback(message)
    return debug.traceback(tostring(message), 2)
end

return function(input, output)
    mare = require "mare"
    for text in input:messages() do
        local chunk, message = compile(text)
        if chunk then
            show(xpcall(chunk, traceback))
        elseif message ~= "more" then
            io.stderr:write(message, "\n")
        end
        io.stdout:flush()
        output:send(not chunk and message == "more" and "more" or "done")
    end
end
