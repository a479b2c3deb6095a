-- SPDX-License-Identifier: MIT
-- For values that another process gets a copy of, while we keep them. A value with one owner (a
-- buffer, a stream, a file) would leave with the message. So it is refused, or the other process
-- gets the name of its kind instead.
local lent = {}

local SHARED = {channel = true, process = true}

-- The kind of a value that has one owner, else nil.
local function owned(value)
    local kind = type(value) == "userdata" and getmetatable(value)
    return type(kind) == "string" and not SHARED[kind] and kind or nil
end

-- The kind of the first such value in a table. Without recursion: tables may be nested deeply.
local function has_owned(value)
    if type(value) ~= "table" then return owned(value) end
    local todo, seen = {value}, {[value] = true}
    while todo[1] do
        for k, v in next, table.remove(todo) do
            local kind = owned(k) or owned(v)
            if kind then return kind end
            if type(k) == "table" and not seen[k] then seen[k], todo[#todo + 1] = true, k end
            if type(v) == "table" and not seen[v] then seen[v], todo[#todo + 1] = true, v end
        end
    end
    return nil
end

-- An object that contains such a value is not copied. An object without one is not looked into.
local function copy_of_object(value, meta)
    if not has_owned(value) then return value end
    return type(meta) == "table" and rawget(meta, "__name") or "table"
end

local function copy(whole)
    local copies, todo = {}, {}
    local function copied(value)
        if type(value) ~= "table" then return owned(value) or value end
        local meta = getmetatable(value)
        if copies[value] == nil then
            copies[value] = meta and copy_of_object(value, meta) or {}
            if not meta then todo[#todo + 1] = value end
        end
        return copies[value]
    end
    local result = copied(whole)
    while todo[1] do
        local from = table.remove(todo)
        for k, v in next, from do copies[from][copied(k)] = copied(v) end
    end
    return result
end

--- The packed values, or a copy without those that have one owner.
function lent.copy(packed)
    for i = 1, packed.n do
        local kind = type(packed[i])
        if kind == "table" or kind == "userdata" then
            return has_owned(packed) and copy(packed) or packed
        end
    end
    return packed
end

--- Raises an error at the caller's line if one of the packed values has one owner. `first` is the
--- argument number of the first of them.
function lent.refuse(name, packed, first)
    for i = 1, packed.n do
        local kind = type(packed[i])
        kind = (kind == "table" or kind == "userdata") and has_owned(packed[i])
        if kind then
            error(("bad argument #%d to '%s' (a %s has one owner)"):format(i + first - 1, name,
                kind), 3)
        end
    end
    return packed
end

return lent
