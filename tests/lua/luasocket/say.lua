-- SPDX-License-Identifier: MIT
-- What the programs here print with: values as they are, but for what differs from run to run.
local say = {}

local function show(value)
    if type(value) ~= "table" then return (tostring(value):gsub("0x%x+", "ADDRESS")) end
    local parts = {}
    for key, member in pairs(value) do parts[#parts + 1] = show(key) .. "=" .. show(member) end
    table.sort(parts)
    return "{" .. table.concat(parts, ",") .. "}"
end

--- Prints a label and values, nils too.
function say.values(label, ...)
    local parts = {label .. ":"}
    for i = 1, select("#", ...) do parts[i + 1] = show((select(i, ...))) end
    print(table.concat(parts, " "))
end

--- Prints what the function returns, or that it raises what. It must not end in a call: of a Lua
--- function's name nothing would be known there.
function say.try(label, f, ...)
    local results = table.pack(pcall(f, ...))
    if results[1] then
        say.values(label, table.unpack(results, 2, results.n))
    else
        local text = type(results[2]) == "string" and results[2]:gsub("^[^:]*:%d+: ", "")
        say.values(label, "raises", text or type(results[2]))
    end
end

--- The members of a table by name, functions as such.
function say.members(label, members)
    local parts = {}
    for key, value in pairs(members) do
        parts[#parts + 1] = tostring(key) .. "=" ..
            (type(value) == "table" and "table" or type(value) == "function" and "function"
            or tostring(value))
    end
    table.sort(parts)
    print(label .. ": " .. table.concat(parts, " "))
end

return say
