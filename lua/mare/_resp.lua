-- SPDX-License-Identifier: MIT
-- The protocol of Redis, RESP 2 and 3: commands into bytes, and answers out of a stream. What comes
-- is believed nothing: every length is checked before it is waited for, and an answer as a whole
-- has a limit.
local resp = {}

--- What Redis has for nothing, where it stands in a list or a map. Alone it is nil.
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

--- A command as it is sent: strings and numbers.
function resp.encode(words, n)
    local parts = {("*%d\r\n"):format(n)}
    for i = 1, n do
        local word = words[i]
        local kind = math.type(word) or type(word)
        if kind == "float" then
            word = ("%.17g"):format(word)
        elseif kind == "integer" then
            word = tostring(word)
        elseif kind ~= "string" then
            error(("bad argument #%d to a command of Redis (string or number expected, got %s)")
                :format(i, word == nil and "no value" or type(word)), 0)
        end
        parts[#parts + 1] = ("$%d\r\n%s\r\n"):format(#word, word)
    end
    return table.concat(parts)
end

local DEEPEST = 32

-- Answers are read by functions that raise what went wrong with the stream, as a table.
local function fail(message, code) error({message = message, code = code}, 0) end

local function malformed(text)
    fail(("this is no answer of Redis: '%s'"):format(text:sub(1, 20)), "badmsg")
end

local function line(reader)
    local text, why, code = reader.stream:read("l", reader.deadline)
    if not text then fail(why, code) end
    reader.left = reader.left - #text
    if reader.left < 0 then fail("the answer is longer than the limit", "toobig") end
    return text
end

local function length(text)
    local n = text:find "^%d+$" and #text < 16 and math.tointeger(tonumber(text))
    if not n then malformed(text) end
    return n
end

local function bytes(reader, text)
    local n = length(text)
    if n > reader.left then fail("the answer is longer than the limit", "toobig") end
    reader.left = reader.left - n
    local data, why, code = reader.stream:read(n + 2, reader.deadline)
    if not data or #data < n + 2 then
        fail(why or "the server closed the connection", code or "closed")
    end
    if data:sub(-2) ~= "\r\n" then malformed(data:sub(-20)) end
    return data:sub(1, -3)
end

local read

-- So many values; each takes three bytes at least, so a count that cannot be is refused at once.
local function list(reader, count, depth)
    if depth > DEEPEST then fail("the answer is nested too deep", "badmsg") end
    if count * 3 > reader.left then fail("the answer is longer than the limit", "toobig") end
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
    ["("] = function(_, text) return text end, -- too large for an integer
    ["!"] = function(reader, text) return resp.failure(bytes(reader, text)) end,
    ["="] = function(reader, text) return (bytes(reader, text):sub(5)) end, -- "txt:..."
    ["~"] = function(reader, text, depth) return list(reader, length(text), depth) end,
    ["%"] = function(reader, text, depth)
        return pairs_of(list(reader, 2 * length(text), depth))
    end,
    ["|"] = function(reader, text, depth) -- what is said about an answer, which comes next
        list(reader, 2 * length(text), depth)
        return read(reader, depth)
    end,
}

-- What a line and what follows it say.
local function value_of(reader, text, depth)
    local kind = kinds[text:sub(1, 1)]
    if not kind then malformed(text) end
    return kind(reader, text:sub(2), depth)
end

function read(reader, depth) return value_of(reader, line(reader), depth) end

--- The next thing that a stream says, of at most `limit` bytes: true, the value, and whether it
--- came unasked (a push); or nil, message, code.
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

--- The same for the next answer.
function resp.read(stream, deadline, limit)
    while true do
        local ok, value, pushed = resp.next(stream, deadline, limit)
        if not ok or not pushed then return ok, value, pushed end
    end
end

return resp
