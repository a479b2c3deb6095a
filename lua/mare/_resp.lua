-- SPDX-License-Identifier: MIT
-- The protocol of Redis, RESP 2 and 3: writes commands, and reads answers from a stream. It trusts
-- nothing that arrives, and checks every length before it waits for the bytes. The limit of an
-- answer is for the memory that it takes here, because three bytes (`*0` and a line break) can ask
-- for a whole table.
local resp = {}

--- Redis's null, inside a list or a map. Alone it is nil.
resp.null = setmetatable({}, {
    __name = "redis.null",
    __tostring = function() return "redis.null" end,
})

local Failure = {__name = "redis.failure"}
Failure.__index = Failure
function Failure:__tostring() return self.message end

--- An answer that is an error.
function resp.failure(message)
    return setmetatable({message = message, code = "remote"}, Failure)
end

--- Whether a value is one.
function resp.failed(value) return getmetatable(value) == Failure end

--- A command as it is sent: strings and numbers. The level is that of `error`, 0 unless given.
function resp.encode(words, n, level)
    local parts = {("*%d\r\n"):format(n)}
    for i = 1, n do
        local word = words[i]
        local kind = math.type(word) or type(word)
        if kind == "float" then
            word = ("%.17g"):format(word)
        elseif kind == "integer" then
            word = tostring(word)
        elseif kind ~= "string" then
            local name = i > 1 and tostring(words[1]):upper() or "call"
            error(("bad argument #%d to '%s' (string or number expected, got %s)"):format(
                i > 1 and i - 1 or 1, name, word == nil and "no value" or type(word)), level or 0)
        end
        parts[#parts + 1] = ("$%d\r\n%s\r\n"):format(#word, word)
    end
    return table.concat(parts)
end

local DEEPEST <const> = 32
local SLOT <const>, TABLE <const>, STRING <const> = 16, 56, 24 -- bytes of memory, about

-- The functions that read answers raise failures of the stream, as a table.
local function fail(message, code) error({message = message, code = code}, 0) end

local function malformed(text)
    fail(("this is not an answer of Redis: '%s'"):format(text:sub(1, 20)), "badmsg")
end

-- Charges bytes to the limit of the answer.
local function charge(reader, bytes)
    reader.left = reader.left - bytes
    if reader.left < 0 then fail("the answer is larger than the limit", "toobig") end
end

local function line(reader)
    local text, why, code = reader.stream:read("l", reader.deadline)
    if not text then fail(why, code) end
    charge(reader, #text)
    return text
end

local function length(text)
    local n = text:find "^%d+$" and #text < 16 and math.tointeger(tonumber(text))
    if not n then malformed(text) end
    return n
end

local function bytes(reader, text)
    local n = length(text)
    charge(reader, n + STRING)
    local data, why, code = reader.stream:read(n + 2, reader.deadline)
    if not data or #data < n + 2 then
        fail(why or "the server closed the connection", code or "closed")
    end
    if data:sub(-2) ~= "\r\n" then malformed(data:sub(-20)) end
    return data:sub(1, -3)
end

local read

-- Reads so many values. They are charged before they arrive, so an impossible count is refused at
-- once.
local function list(reader, count, depth)
    if depth > DEEPEST then fail("the answer is nested too deep", "badmsg") end
    charge(reader, TABLE + count * SLOT)
    local values = {}
    for i = 1, count do
        local value = read(reader, depth + 1)
        values[i] = value == nil and resp.null or value
    end
    return values
end

local function pairs_of(values)
    local map = {}
    for i = 1, #values, 2 do
        local key = values[i]
        map[key ~= key and "nan" or key] = values[i + 1]
    end
    return map
end

local function number(text)
    local special = {inf = math.huge, ["-inf"] = -math.huge, nan = 0 / 0}
    local value = special[text] or tonumber(text)
    if not value then malformed(text) end
    return value + 0.0
end

local kinds = {
    ["+"] = function(_, text) return text end,
    ["-"] = function(_, text) return resp.failure(text) end,
    [":"] = function(_, text)
        local value = math.tointeger(tonumber(text))
        if not value then malformed(text) end
        return value
    end,
    ["$"] = function(reader, text) return text ~= "-1" and bytes(reader, text) or nil end,
    ["*"] = function(reader, text, depth)
        return text ~= "-1" and list(reader, length(text), depth) or nil
    end,
    ["_"] = function() return nil end,
    ["#"] = function(_, text) return text == "t" end,
    [","] = function(_, text) return number(text) end,
    ["("] = function(_, text) return text end, -- an integer that is too large for Lua
    ["!"] = function(reader, text) return resp.failure(bytes(reader, text)) end,
    ["="] = function(reader, text) return (bytes(reader, text):sub(5)) end, -- "txt:..."
    ["~"] = function(reader, text, depth) return list(reader, length(text), depth) end,
    ["%"] = function(reader, text, depth)
        return pairs_of(list(reader, 2 * length(text), depth))
    end,
    ["|"] = function(reader, text, depth) -- attributes of an answer: the answer follows
        list(reader, 2 * length(text), depth)
        return read(reader, depth)
    end,
}

-- The value of a line and what follows it.
local function value_of(reader, text, depth)
    local kind = kinds[text:sub(1, 1)]
    if not kind then malformed(text) end
    return kind(reader, text:sub(2), depth)
end

function read(reader, depth) return value_of(reader, line(reader), depth) end

--- The next value that the server sends, of at most `limit` bytes: true, the value, and whether the
--- server sent it unasked (a push); or nil, message, code.
function resp.next(stream, deadline, limit)
    local reader = {stream = stream, deadline = deadline, left = limit}
    local ok, value, pushed = pcall(function()
        local text = line(reader)
        local push = text:sub(1, 1) == ">"
        return value_of(reader, push and "*" .. text:sub(2) or text, 1), push
    end)
    if ok then return true, value, pushed end
    if type(value) ~= "table" then error(value, 0) end
    return nil, value.message, value.code
end

--- The next answer: skips pushes. A server that only pushes cannot keep us beyond the deadline.
function resp.read(stream, deadline, limit)
    while true do
        local ok, value, pushed = resp.next(stream, deadline, limit)
        if not ok or not pushed then return ok, value, pushed end
        if deadline and deadline:left() == 0 then return nil, "the deadline passed", "timeout" end
    end
end

return resp
