-- SPDX-License-Identifier: MIT
-- What the server and the client of HTTP share: the module's table with its defaults, messages, and
-- how their bodies are read.
local mare, checks = require "mare", require "mare._check"

-- What `require "mare.http"` returns. _server.lua and _client.lua put their functions there.
local http = {}

--- The defaults, in seconds: how long a kept connection may be silent; how long a head, once begun,
--- and each part of a body may take; how long a write may. And the bytes of a body that must come
--- in each second that is waited for it, beyond `message_time`. And how long a kept connection may
--- be silent when the server serves no more.
http.idle_time, http.message_time, http.write_time, http.least_rate = 60, 10, 30, 256
http.end_time = 1

--- How long a client waits before it tries again, in seconds, more or less; each next wait is twice
--- as long.
http.retry_time = 0.1

--- Of HTTP/2: streams that a client may have open at once, and bytes of bodies that may come on
--- each, and on all of a connection, before somebody reads them.
http.http2_streams, http.http2_stream_window, http.http2_window = 100, 262144, 1048576

-- What may be done twice without harm (RFC 9110 section 9.2.2).
local idempotent = {GET = true, HEAD = true, OPTIONS = true, TRACE = true, PUT = true,
    DELETE = true}

-- Bytes of a body, unless limits say otherwise: as in src/wire/http.h.
local body_most = 1048576

-- How many seconds a timeout leaves: all of them, if it is one for each step; of a deadline, which
-- is for all steps together, the rest.
local function seconds_of(timeout)
    return type(timeout) == "number" and timeout or timeout:left()
end

-- A body that may be long: a function that returns its next part, or nil, message, code. When all
-- of it has come `at_end` is called. Who trickles gets no more time than the rate allows, unless
-- there is a deadline; only what is spent waiting counts, for the program may be slow itself. With
-- a time of its own a call may come too early, and be made again.
local function body_reader(reader, stream, timeout, rate, at_end)
    local over, waited, got = false, 0, 0
    local trickles = type(timeout) == "number"
    return function(own_time)
        if over then return nil end
        local begin = mare.now()
        local left = seconds_of(own_time or timeout)
        if trickles and not own_time then
            left = math.max(0, math.min(left, left + got / rate - waited))
        end
        local part, message, code, status = reader:body(stream, left, left)
        if not own_time then waited = waited + mare.now() - begin end
        if part then
            got = got + #part
            return part
        end
        if own_time and code == "timeout" then return nil, message, code end
        over = true
        if part == nil then
            if code == "closed" then -- in the middle, which is no end
                message, code = "the message was cut short: " .. message, "badmsg"
            end
            return nil, message, code, status
        end
        if at_end then at_end() end
    end
end

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

--- The next part of the body; nil at its end, or nil, message, code. With a timeout, or deadline, a
--- part that has not come by then can be asked for again.
function Message:read(timeout)
    if not self.next_part then return nil end
    return self.next_part(timeout)
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

--- The same of a request whose client may wait to be told to send it, by go_on(): what fails is
--- noted in the request.
local function request_reader(request, read, go_on)
    return function(own_time)
        if request.expects and not request.continued then
            request.continued = true
            go_on()
        end
        local part, message, code, status = read(own_time)
        if message and not (own_time and code == "timeout") then
            request.failed, request.status = message, status or code == "timeout" and 408 or 400
        end
        return part, message, code
    end
end

return {http = http, Message = Message, seconds_of = seconds_of, body_reader = body_reader,
    request_reader = request_reader,
    server_of = server_of, body_most = body_most, check_options = check_options,
    is_token = is_token, idempotent = idempotent}
