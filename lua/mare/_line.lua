-- SPDX-License-Identifier: MIT
-- Lines that people type, for the REPL and for consoles of nodes: what they mean, and how values
-- and errors look. The code uses only locals, because the person who types may change any global.
local load, type, tostring = load, type, tostring
local getmetatable, find, gsub, traceback = getmetatable, string.find, string.gsub, debug.traceback
local pack, unpack = table.pack, table.unpack
local as_text = require "mare._show"
local WIDTH = 78

local line = {}

-- Text for values: tables as they would be written in a program, unless they have a __tostring.
function line.readable(...)
    local values = pack(...)
    for i = 1, values.n do
        local meta = type(values[i]) == "table" and getmetatable(values[i])
        if type(values[i]) == "table" and not (type(meta) == "table" and meta.__tostring) then
            values[i] = as_text(values[i], WIDTH)
        end
    end
    return unpack(values, 1, values.n)
end

local function is_beginning(message)
    return message and find(message, "<eof>", -5, true)
end

-- Compiles the text: the chunk; or nil and a message, which is nil if the text is only the
-- beginning of a chunk. A local `mare` goes along with functions that are spawned, as in a program;
-- a global would not.
function line.compile(text)
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

-- Explains an error as the stock interpreter does, without the frames below the typed line. Tables
-- are shown.
function line.explain(message)
    if type(message) ~= "string" then
        local meta = getmetatable(message)
        if type(meta) == "table" and meta.__tostring then
            return tostring(message)
        elseif type(message) == "table" then
            message = as_text(message, WIDTH)
        elseif type(message) ~= "number" then
            message = "(error object is a " .. type(message) .. " value)"
        end
    end
    return (gsub(traceback(message, 2), "^(.*)\n\t%[C%]: in function 'xpcall'.*$", "%1"))
end

return line
