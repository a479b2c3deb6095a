-- SPDX-License-Identifier: MIT
-- Tab completion in the REPL: globals and keywords, fields after a dot, methods after a colon,
-- modules after `require`. It calls no metamethods, so that pressing Tab changes nothing.
local debug, next, type, rawget, sort, concat = debug, next, type, rawget, table.sort, table.concat
local package, ipairs, pairs, _G = package, ipairs, pairs, _G

local KEYWORDS <const> = {"and", "break", "do", "else", "elseif", "end", "false", "for", "function",
    "goto", "if", "in", "local", "nil", "not", "or", "repeat", "return", "then", "true", "until",
    "while"}
-- Methods of references are made when a program names them, so a look at the table does not find
-- them.
local METHODS <const> = {
    "accept", "address", "alive", "cancel", "capacity", "close", "closed", "get", "grace", "id",
    "join", "kill", "left", "limit", "lines", "link", "messages", "monitor", "moved", "name",
    "next", "option", "peer", "pid", "read", "receive", "seek", "send", "sendwithin", "set",
    "shutdown", "stat", "status", "sync", "timeout", "truncate", "tryreceive", "trysend",
    "unlink", "wait", "write", "writewithin",
}
local DEPTH <const> = 20 -- of tables that stand behind one another

-- The tables in which Lua looks for a field of the value, nearest first.
local function places(value)
    local found = {}
    for _ = 1, DEPTH do
        if type(value) == "table" then found[#found + 1] = value end
        local meta = debug.getmetatable(value)
        value = type(meta) == "table" and rawget(meta, "__index") or nil
        if type(value) ~= "table" then break end
    end
    return found
end

local function is_c(f) return type(f) == "function" and debug.getinfo(f, "S").what == "C" end

-- Makes the fields that a table of ours supplies on first use. Nothing of the program is called.
local function realise(place, names)
    local meta = debug.getmetatable(place)
    if type(meta) ~= "table" or not is_c(rawget(meta, "__index")) then return end
    if is_c(rawget(meta, "__pairs")) then
        pairs(place)
    else
        for _, name in ipairs(names) do local _ = place[name] end
    end
end

local function field(value, name)
    for _, place in ipairs(places(value)) do
        realise(place, {name})
        local found = rawget(place, name)
        if found ~= nil then return found end
    end
end

-- The fields of a value whose names begin so; after a colon only functions.
local function fields(value, begin, colon, names)
    for _, place in ipairs(places(value)) do
        realise(place, METHODS)
        for name, what in next, place do
            if type(name) == "string" and name:sub(1, #begin) == begin and name:find "^[%a_][%w_]*$"
                and (not colon or type(what) == "function") then
                names[name] = true
            end
        end
    end
end

local function modules(begin, names)
    for _, known in ipairs {package.loaded, package.preload} do
        for name in next, known do
            if type(name) == "string" and name:sub(1, #begin) == begin and not name:find "%._" then
                names[name] = true
            end
        end
    end
end

-- The value that a path such as "a.b:c", without its last name, stands for.
local function value_of(path)
    local value = _G
    for name in path:gmatch "[%a_][%w_]*" do
        value = field(value, name)
        if value == nil then return nil end
    end
    return value
end

--- Returns a list of the names that the end of the text can become, and how many of their letters
--- are typed already.
local function candidates(text)
    local names, list = {}, {}
    local begin = text:match "require%s*%(?%s*[\"']([%w_.]*)$"
    if begin then
        modules(begin, names)
    else
        local whole = text:match "[%w_.:]*$"
        local path, sign
        path, sign, begin = whole:match "^(.-)([.:]?)([%w_]*)$"
        local before = text:sub(1, #text - #whole)
        if sign ~= "" and path:find "^[%a_]" and not path:find "[.:][.:]" then
            local value = value_of(path)
            if value ~= nil then fields(value, begin, sign == ":", names) end
        elseif sign == "" and not before:find "[%)%]}\"']$" and begin:find "^[%a_]" then
            fields(_G, begin, false, names)
            for _, word in ipairs(KEYWORDS) do
                if word:sub(1, #begin) == begin then names[word] = true end
            end
        end
    end
    for name in next, names do list[#list + 1] = name end
    sort(list)
    return list, #begin
end

--- Returns what to add to the text; and if there are several candidates, these, one per line.
return function(text)
    local list, have = candidates(text)
    if #list == 0 then return "", "" end
    local common = list[1]
    for _, name in ipairs(list) do
        while name:sub(1, #common) ~= common do common = common:sub(1, -2) end
    end
    return common:sub(have + 1), #list > 1 and concat(list, "\n") or ""
end
