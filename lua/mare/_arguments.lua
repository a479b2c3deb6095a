-- SPDX-License-Identifier: MIT
-- What the commands in Lua share: their arguments, which src/cli has checked for form, and how they
-- end.
local signal = require "mare.signal"

local arguments = {}

--- The words and the options among the arguments of a command: a list, a table from the name of an
--- option ("--count") to its last value, and one from the name to all of them. `flags` are the
--- options that have no value.
function arguments.read(flags, ...)
    local words, options, all = {}, {}, {}
    local given, i = {...}, 1
    while i <= #given do
        local word = given[i]
        if word:sub(1, 1) ~= "-" or word == "-" then
            words[#words + 1] = word
        elseif flags[word] then
            options[word] = true
        else
            i = i + 1
            options[word] = given[i]
            all[word] = all[word] or {}
            table.insert(all[word], given[i])
        end
        i = i + 1
    end
    return words, options, all
end

--- A value for JSON: text, which may have anything in it.
function arguments.quoted(text)
    return '"' .. text:gsub('[%c"\\]', function(letter)
        return letter:find "%c" and ("\\u%04x"):format(letter:byte()) or "\\" .. letter
    end) .. '"'
end

--- "127.0.0.1:7001", "[::1]:7001".
function arguments.address(host, port)
    return (host:find ":" and "[%s]:%d" or "%s:%d"):format(host, port)
end

--- Says on standard error what is wrong, and ends the program with a code: 1, something failed; 2,
--- wrong usage.
function arguments.fail(command, code, format, ...)
    io.stderr:write(("mare %s: " .. format .. "\n"):format(command, ...))
    os.exit(code)
end

--- Watches for the signals that end a program, before it has said its first word: a function that
--- returns when one has come.
function arguments.ending()
    local watch = signal.watch("SIGINT", "SIGTERM", "SIGHUP")
    return function() watch:next() end
end

return arguments
