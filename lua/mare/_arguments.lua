-- SPDX-License-Identifier: MIT
-- What the commands written in Lua share: how they read their arguments (src/cli has checked the
-- form), and how they end.
local arguments = {}

--- Splits the arguments of a command. Returns a list of the words, a table from the name of each
--- option ("--count") to its last value, and a table from the name to all values. `flags` are the
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

--- Prepares a value for JSON: text may contain any bytes.
function arguments.quoted(text)
    return '"' .. text:gsub('[%c"\\]', function(letter)
        return letter:find "%c" and ("\\u%04x"):format(letter:byte()) or "\\" .. letter
    end) .. '"'
end

--- "127.0.0.1:7001", "[::1]:7001".
function arguments.address(host, port)
    return (host:find ":" and "[%s]:%d" or "%s:%d"):format(host, port)
end

-- The edit distance of two words: how many letters to insert, delete, change, or swap with their
-- neighbour. src/cli/near.c does the same.
local function edits(a, b)
    local rows = {[0] = {}}
    for i = 0, #b do rows[0][i] = i end
    for j = 1, #a do
        local now, last = {[0] = j}, rows[j - 1]
        for i = 1, #b do
            local changed = last[i - 1] + (a:byte(j) == b:byte(i) and 0 or 1)
            now[i] = math.min(changed, last[i] + 1, now[i - 1] + 1)
            if i > 1 and j > 1 and a:sub(j - 1, j) == b:sub(i - 1, i):reverse() then
                now[i] = math.min(now[i], rows[j - 2][i - 2] + 1)
            end
        end
        rows[j] = now
    end
    return rows[#a][#b]
end

--- Guesses what a misspelt word means: returns "is it '--name'? " for the most similar key of a
--- table, or "". The keys may have no dashes.
function arguments.near(word, known)
    local best, least = nil, #word < 8 and 2 or 3 -- edits that are too many
    for name in pairs(known) do
        local whole = word:sub(1, 2) == "--" and name:sub(1, 2) ~= "--" and "--" .. name or name
        local distance = edits(whole, word)
        if distance < least or distance == least and best and whole < best then
            best, least = whole, distance
        end
    end
    return best and ("is it '%s'? "):format(best) or ""
end

--- Prints an error on standard error and ends the program with a code: 1 for a failure, 2 for wrong
--- usage.
function arguments.fail(command, code, format, ...)
    io.stderr:write(("mare %s: " .. format .. "\n"):format(command, ...))
    os.exit(code)
end

--- Watches for the signals that end a program, and returns a function that waits for one. Call it
--- before the program prints anything.
function arguments.ending()
    local watch = require "mare.signal".watch("SIGINT", "SIGTERM", "SIGHUP")
    return function() watch:next() end
end

return arguments
