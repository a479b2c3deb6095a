-- SPDX-License-Identifier: MIT
-- Values as text that people can read: the REPL, error values that nobody looked at, `mare test`.
-- Tables are written as in a program, within limits. The only metamethod called is __tostring, and
-- one that fails is ignored.
local DEPTH, ENTRIES, BYTES = 5, 100, 4000 -- beyond them there is "..."

local next, type, tostring, pcall, getmetatable = next, type, tostring, pcall, getmetatable
local format, gsub, find, rep = string.format, string.gsub, string.find, string.rep
local sort, concat, mathtype = table.sort, table.concat, math.type

local RESERVED = {}
for word in ("and break do else elseif end false for function goto if in local nil not or repeat "
    .. "return then true until while"):gmatch "%a+" do RESERVED[word] = true end

local function quoted(text)
    local bytes = format("%q", text)
    return (gsub(gsub(bytes, "\\\n", "\\n"), "\\9", "\\t"))
end

local function has_text(value)
    local meta = getmetatable(value)
    return type(meta) == "table" and rawget(meta, "__tostring")
end

local ADDRESSED = {["function"] = true, table = true, thread = true, userdata = true}

local function plain(value, discreet)
    if type(value) == "string" then return quoted(value) end
    if discreet and ADDRESSED[type(value)] and not has_text(value) then
        return "(a " .. type(value) .. ")"
    end
    local ok, text = pcall(tostring, value)
    return ok and type(text) == "string" and text or "(a " .. type(value) .. ")"
end

-- The order of keys: numbers, then strings, then the rest.
local function before(a, b)
    local ta, tb = type(a), type(b)
    if ta == tb and (ta == "number" or ta == "string") then return a < b end
    if ta == tb then return plain(a) < plain(b) end
    if ta == "number" or tb == "number" then return ta == "number" end
    if ta == "string" or tb == "string" then return ta == "string" end
    return ta < tb
end

local function keys_of(value, length)
    local keys = {}
    for key in next, value do
        if not (mathtype(key) == "integer" and key >= 1 and key <= length) then
            keys[#keys + 1] = key
        end
    end
    sort(keys, before)
    return keys
end

local function length_of(value)
    local n = 0
    while rawget(value, n + 1) ~= nil do n = n + 1 end
    return n
end

local show

-- The entries of a table, as texts. `state` counts what was written.
local function entries(value, state, depth)
    local parts, length = {}, length_of(value)
    local function add(text)
        parts[#parts + 1] = text
        state.bytes = state.bytes + #text
        local full = #parts == ENTRIES or state.bytes > BYTES
        if full then parts[#parts + 1] = "..." end
        return not full
    end
    for i = 1, length do
        if not add(show(rawget(value, i), state, depth)) then return parts end
    end
    for _, key in next, keys_of(value, length) do
        local name = type(key) == "string" and find(key, "^[%a_][%w_]*$") and not RESERVED[key]
            and key or "[" .. plain(key, state.discreet) .. "]"
        if not add(name .. " = " .. show(rawget(value, key), state, depth)) then return parts end
    end
    return parts
end

function show(value, state, depth)
    if type(value) ~= "table" or has_text(value) then return plain(value, state.discreet) end
    if state.inside[value] then return "<cycle>" end
    if next(value) == nil then return "{}" end
    if depth == DEPTH then return "{...}" end
    state.inside[value] = true
    local parts = entries(value, state, depth + 1)
    state.inside[value] = nil
    local line = "{" .. concat(parts, ", ") .. "}"
    if #line + 2 * depth <= state.width and not find(line, "\n", 1, true) then return line end
    local indent = "\n" .. rep("  ", depth + 1)
    return "{" .. indent .. concat(parts, "," .. indent) .. "\n" .. rep("  ", depth) .. "}"
end

--- The value as text; a table that is longer than the width, if one is given, on several lines. A
--- discreet text has no address of this process, where a function stands for example.
return function(value, width, discreet)
    local state = {inside = {}, bytes = 0, width = width or math.huge, discreet = discreet}
    return (show(value, state, 0))
end
