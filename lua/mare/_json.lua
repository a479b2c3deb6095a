-- SPDX-License-Identifier: MIT
-- The only function of mare.json that is written in Lua (src/lua/json.c gets it from here): it
-- reads values from any source.
local checks = require "mare._check"

-- Returns a function that reads a source part after part.
local function parts_of(source)
    if type(source) == "function" then return source end
    if type(source) == "string" then
        local text = source
        return function()
            local part = text
            text = nil
            return part
        end
    end
    if io.type(source) == "file" then return function() return source:read(65536) end end
    local kind = type(source)
    local good = (kind == "table" or kind == "userdata")
        and pcall(function() return assert(source.read) end)
    if not good then
        error(("bad argument #1 to 'values' (something to be read expected, got %s)"):format(
            source == nil and "no value" or kind), 3)
    end
    return function() return source:read() end
end

--- An iterator over the JSON values of a source: a function that returns part after part, a request
--- or response, a file, a stream, a string. With `each`, over the members of the arrays and objects
--- in it, and their keys. Raises an error if the text is not JSON, or cannot be read.
local function values(source, options)
    local next_part = parts_of(source)
    if options ~= nil then checks.argument("values", options, 2, "table") end
    local reader = checks.pass("values", 2, 3, require "mare.json".reader, options)
    local ended = false
    return function()
        while true do
            local value, key, code = reader:next()
            if value ~= nil then return value, key end
            if code then error(key, 2) end
            if ended then return nil end
            local part, message, why = next_part()
            if part then
                assert(reader:feed(part))
            elseif message and why ~= "closed" then
                error(message, 2)
            else
                reader:finish()
                ended = true
            end
        end
    end
end

return values
