-- SPDX-License-Identifier: MIT
-- What the server and the client of HTTP share: the module's table with its defaults, messages, and
-- how bodies are read and written.
local mare, checks = require "mare", require "mare._check"

-- What `require "mare.http"` returns. _server.lua and _client.lua put their functions there.
local http = {}

--- The defaults, in seconds: how long a kept connection may be silent; how long a head, once begun,
--- and each part of a body may take; how long a write may. And the bytes of a body that must come
--- in each second that is waited for it, beyond `message_time`. And how long a kept connection may
--- be silent when the server serves no more.
http.idle_time, http.message_time, http.write_time, http.least_rate = 60, 10, 30, 256
http.end_time = 1

-- How many seconds a timeout leaves: all of them, if it is one for each step; of a deadline, which
-- is for all steps together, the rest.
local function seconds_of(timeout)
    return type(timeout) == "number" and timeout or timeout:left()
end

-- A body that may be long: a function that returns its next part, or nil, message, code. When all
-- of it has come `at_end` is called. Who trickles gets no more time than the rate allows, unless
-- there is a deadline; only what is spent waiting counts, for the program may be slow itself.
local function body_reader(reader, stream, timeout, rate, at_end)
    local over, waited, got = false, 0, 0
    local trickles = type(timeout) == "number"
    return function()
        if over then return nil end
        local begin = mare.now()
        local left = seconds_of(timeout)
        if trickles then left = math.max(0, math.min(left, left + got / rate - waited)) end
        local part, message, code, status = reader:body(stream, left, left)
        waited = waited + mare.now() - begin
        if part then
            got = got + #part
            return part
        end
        over = true
        if part == nil then return nil, message, code, status end
        if at_end then at_end() end
    end
end

-- Bytes that are written at a time. A peer that is slow, but takes them, is not to be cut off
-- because there are many.
local piece_most = 65536

-- Writes a text and what stands before and after it: within the deadline, or without one in pieces,
-- each of which may take as long as the stream says.
local function write(stream, deadline, before, text, after)
    if deadline then return stream:writewithin(deadline, before, text, after) end
    if #text <= piece_most then return stream:write(before, text, after) end
    local ok, message, code = stream:write(before)
    for at = 1, #text, piece_most do
        if not ok then return nil, message, code end
        ok, message, code = stream:write(text:sub(at, at + piece_most - 1))
    end
    if not ok then return nil, message, code end
    return stream:write(after)
end

-- Writes what a function returns part after part: so many bytes; with true instead of a length, in
-- chunks; with false, up to the connection's end. It must not look complete if the function fails.
local function write_parts(stream, next_part, length, deadline)
    local chunked, left = length == true, math.type(length) and length
    while true do
        local part, message, code = next_part()
        if not part then
            if message then return nil, message, code end
            break
        end
        local ok = true
        if chunked and #part > 0 then
            ok, message, code = write(stream, deadline, ("%x\r\n"):format(#part), part, "\r\n")
        elseif not chunked then
            left = left and left - #part
            if left and left < 0 then return nil, "the body is too long", "badmsg" end
            ok, message, code = write(stream, deadline, "", part, "")
        end
        if not ok then return nil, message, code end
    end
    if left and left > 0 then return nil, "the body is too short", "badmsg" end
    return not chunked or write(stream, deadline, "", "0\r\n\r\n", "")
end

-- The length of a body as the program gives it: an integer, maybe written as a float or in digits.
-- With anything else the peer would look for the end of the body where it is not: nil.
local function length_of(value)
    if type(value) == "string" then value = value:find "^%d+$" and tonumber(value) end
    local length = type(value) == "number" and math.tointeger(value)
    return length and length >= 0 and length or nil
end

local LENGTH = "an integer that is not negative"

-- Whether it can be a method (RFC 9110 section 5.6.2).
local function is_token(name) return name:find "^[%w!#$%%&'*+.^_`|~-]+$" ~= nil end

-- The server that a stream is a connection of, for who speaks another protocol there: `ending`,
-- whether its listener is closed; `end_time`, how long a silent peer has then; and `told`: what is
-- in it is a function's argument, and is given to it in a routine of its own when the server ends.
local server_of = setmetatable({}, {__mode = "k"})

local limits = checks.set("start_line", "field_line", "head", "fields", "body")

local function check_options(name, options, index, allowed, level)
    checks.options(name, options, index, allowed, level)
    checks.options(name, options.limits or {}, index, limits, level)
end

local Message = {}
Message.__index = Message

--- The next part of the body; nil at its end, or nil, message, code.
function Message:read()
    if not self.next_part then return nil end
    return self.next_part()
end

--- The whole body, as a string.
function Message:text()
    local parts = {}
    while true do
        local part, message, code = self:read()
        if not part then
            if message then return nil, message, code end
            return table.concat(parts)
        end
        parts[#parts + 1] = part
    end
end

return {http = http, Message = Message, seconds_of = seconds_of, body_reader = body_reader,
    server_of = server_of, write = write, write_parts = write_parts, check_options = check_options,
    length_of = length_of, LENGTH = LENGTH, is_token = is_token}
