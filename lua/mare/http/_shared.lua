-- SPDX-License-Identifier: MIT
-- What the server and the client of HTTP share: the module's table with its defaults, messages, and
-- how their bodies are read.
local mare, checks = require "mare", require "mare._check"
local gather = require "mare.http._text".gather

-- What `require "mare.http"` returns. _server.lua and _client.lua put their functions there.
local http = {}

--- The defaults, in seconds. idle_time: how long a kept connection may be silent. message_time: how
--- long a head, once begun, and each part of a body may take. write_time: how long a write may
--- take. least_rate: bytes of a body that must come in each second of waiting beyond
--- `message_time`. And how long a kept connection may be silent while the server ends.
http.idle_time, http.message_time, http.write_time, http.least_rate = 60, 10, 30, 256
http.end_time = 1

--- Seconds, more or less, before a client tries again. Each next wait is twice as long.
http.retry_time = 0.1

--- For HTTP/2: how many streams a client may have open at once; how many bytes of bodies may come
--- on each stream, and on the whole connection, before somebody reads them.
http.http2_streams, http.http2_stream_window, http.http2_window = 100, 262144, 1048576

-- Methods that can be repeated without harm (RFC 9110 section 9.2.2).
local idempotent = {GET = true, HEAD = true, OPTIONS = true, TRACE = true, PUT = true,
    DELETE = true}

-- Bytes of a body, unless limits say otherwise: as in src/wire/http.h.
local body_most = 1048576

-- The seconds that a timeout leaves. A timeout of seconds holds for each step; a deadline for all
-- steps together, so what is left until then.
local function seconds_of(timeout)
    return type(timeout) == "number" and timeout or timeout:left()
end

-- Reads a body that may be long: returns a function that returns its next part, or nil, message,
-- code. Calls `at_end` when all of it has come. A peer that sends slowly gets only the time that
-- the rate allows, unless there is a deadline. Only time spent waiting counts, because the program
-- itself may be slow. A call that has its own timeout may fail with it, and can be made again.
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
        if over then return nil end -- another routine has read the end
        if not own_time then waited = waited + mare.now() - begin end
        if part then
            got = got + #part
            return part
        end
        if own_time and code == "timeout" then return nil, message, code end
        over = true
        if part == nil then
            if code == "closed" then -- closed in the middle: that is no proper end
                message, code = "the message was cut short: " .. message, "badmsg"
            end
            return nil, message, code, status
        end
        if at_end then at_end() end
    end
end

-- Whether the name can be a method (RFC 9110 section 5.6.2).
local function is_token(name) return name:find "^[%w!#$%%&'*+.^_`|~-]+$" ~= nil end

-- By stream: the server of a connection whose handler speaks another protocol. `ending`: whether
-- its listener is closed. `end_time`: how long a silent peer then has. `told`: functions to call,
-- each with its argument in a routine of its own, when the server ends.
local server_of = setmetatable({}, {__mode = "k"})

local limits = checks.set("start_line", "field_line", "head", "fields", "body")

local function check_options(name, options, index, allowed, level)
    checks.options(name, options, index, allowed, level)
    checks.options(name, options.limits or {}, index, limits, level)
end

local Message = {}
Message.__index = Message

--- The next part of the body; nil at its end; or nil, message, code. With a timeout or deadline: if
--- no part has come by then, the call can be made again.
function Message:read(timeout)
    if not self.next_part then return nil end
    return self.next_part(timeout)
end

--- The whole body, as a string.
function Message:text()
    return gather(function() return self:read() end)
end

--- The same for a request whose client may wait to be asked for the body: go_on() asks. Failures
--- are noted in the request.
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
