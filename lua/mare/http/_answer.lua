-- SPDX-License-Identifier: MIT
-- What a handler answers. This module checks the answer before it sends a byte of it, as it checks
-- options. Then it frames and sends it.
local net, raw = require "mare.net", require "mare._http"
local checks, bodies = require "mare._check", require "mare.http._body"
local Message, gone = require "mare.http._shared".Message, require "mare.http._gone"

local date, date_at = nil, -1

-- The time, as the header has it.
local function date_now()
    local now = os.time()
    if now ~= date_at then date, date_at = os.date("!%a, %d %b %Y %H:%M:%S GMT", now), now end
    return date
end

-- Writes to the log, if the program has set it up; else to standard error.
local function report(text)
    if require "mare._log".version() == 0 then
        return io.stderr:write("mare: http: ", text, "\n")
    end
    local message, traceback = tostring(text):match "^(.-)\n(.*)$"
    require "mare.log".new("mare.http").error(message or text, {traceback = traceback})
end

local failure = {status = 500, body = "500 Internal Server Error\n"}

-- ---- What it is ---------------------------------------------------------------------------------

local answer_fields = checks.set("status", "headers", "body", "file", "length", "finally",
    "upgrade")

local function refuse_field(name, expected, ...)
    error(("%s must be %s"):format(name, expected):format(...), 0)
end

-- Checks the fields that are rarely given.
local function check_others(response)
    local body, file, finally, upgrade = response.body, response.file, response.finally,
        response.upgrade
    if body ~= nil and not bodies.is_one(body) then
        refuse_field("body", bodies.KINDS .. ", not a %s", type(body))
    elseif file ~= nil and type(file) ~= "string" then
        refuse_field("file", "the path of a file")
    elseif file ~= nil and body ~= nil then
        refuse_field("file", "without a body")
    elseif finally ~= nil and type(finally) ~= "function" then
        refuse_field("finally", "a function")
    elseif upgrade ~= nil and type(upgrade) ~= "string" then
        refuse_field("upgrade", "a string")
    end
end

-- Splits a table into its parts.
local function take_apart(response)
    for key in next, response do
        if not answer_fields[key] then error(("unknown field '%s'"):format(tostring(key)), 0) end
    end
    local status, body, length, upgrade = response.status, response.body, response.length,
        response.upgrade
    if type(body) ~= "string" or upgrade ~= nil or response.file ~= nil
        or response.finally ~= nil then
        check_others(response)
    end
    if status == nil then
        status = 200
    else
        local number = type(status) == "number" and math.tointeger(status)
        if not number or number < 200 or number > 999 then
            refuse_field("status", "an integer from 200 to 999")
        end
        status = number
    end
    if length ~= nil then
        length = bodies.length_of(length) or refuse_field("length", bodies.LENGTH)
    end
    if body == nil then body = "" end
    return status, response.headers, body, length, upgrade
end

-- Status, headers, body, length and upgrade of what a handler returned.
local function parts_of(response)
    local kind = type(response)
    if kind == "string" or kind == "number" then return 200, nil, response end
    if response == nil then return 204 end
    if kind == "table" then return take_apart(response) end
    error(("a string, a table or nil expected, got %s"):format(kind), 0)
end

-- ---- How it is sent -----------------------------------------------------------------------------

-- The body, a string or a function, and its length as the head tells it: a number; true: it is sent
-- in chunks; false: it ends with the connection.
local function frame(request, status, body, length)
    if status == 204 then return nil, nil end -- a 204 has no body, whatever was given
    if status == 205 then return "", 0 end -- RFC 9110 section 15.3.6
    if status == 304 then return nil, length end
    if type(body) == "function" then return body, length or request.minor > 0 end
    if type(body) ~= "string" then body = tostring(body) end
    local described = body == "" and request.method == "HEAD" -- the handler gives only the length
    if length and length ~= #body and not described then
        refuse_field("length", "that of the body, %d", #body)
    end
    return body, length or #body
end

-- ---- Sending ------------------------------------------------------------------------------------

-- If a metatable raises an error here, the error names the code that checks the answer.
local function look_at(response) return response.body, response.finally, response.file end

-- Whether the body comes from somewhere while it is sent: perhaps from the body of the request. (An
-- answer that cannot be looked at is none.)
local function is_made_later(response)
    if type(response) ~= "table" then return false end
    local good, body = pcall(look_at, response)
    return good and body ~= nil and type(body) ~= "string"
end

-- A value for a <close> variable that cleans up when the answer was sent, or could not be; nil:
-- nothing to clean up. A function that makes a body may raise an error.
local function closer_of(response)
    if type(response) ~= "table" or getmetatable(response) and not pcall(look_at, response) then
        return nil
    end
    local body, finally = response.body, response.finally
    if finally == nil and response.file == nil then
        local kind = type(body)
        if kind ~= "userdata" and kind ~= "table" then return nil end
    end
    return bodies.closer(body, finally)
end

-- Status, headers, body, length and upgrade of an answer, as `frame` returns them, and the rest of
-- a file, as body.open returns it. Or raises an error.
local function describe(request, response, closer)
    local status, headers, body, length, upgrade = parts_of(response)
    if request.method == "CONNECT" and status // 100 == 2 then -- RFC 9110 section 9.3.6
        error("to grant CONNECT, take the stream (request.taken)", 0)
    end
    if body == request then error("body must be read before it can be answered with", 0) end
    local code, rest
    if closer and response.file then
        closer.body, length, code = bodies.open_file(response.file, length)
        body = closer.body
    end
    if closer and not code then body, length, code, rest = bodies.open(body, length) end
    if code then error(length, 0) end
    body, length = frame(request, status, body, length)
    return status, headers, body, length, upgrade, rest
end

-- Makes the head of an answer. Returns the head, the body, and its length as the head tells it.
-- Notes in the request what is sent: `answered`, the status, and `kept`, whether the connection
-- serves another request. Or raises an error.
local function compose(request, response, keep, closer)
    local status, headers, body, length, upgrade, rest = describe(request, response, closer)
    keep = keep and length ~= false
    local head = raw.response(status, headers, length, request.minor, keep, date_now(), upgrade)
    request.answered, request.kept = status, keep
    return head, body, length, rest
end

local function send(stream, request, head, body, length, rest)
    if not body or request.method == "HEAD" then return stream:write(head) end
    if type(body) == "string" then return bodies.write(stream, nil, head, body, "") end
    if rest and rest.left > 0 then head = raw.begin(stream, head) end -- the file is in memory
    if head ~= "" then
        local ok, message, code = stream:write(head)
        if not ok then return nil, message, code end
    end
    return bodies.write_parts(stream, body, length, nil, rest)
end

-- Reports an answer that cannot be sent, with the line of its handler. Wrappers around handlers
-- (such as routes) note in the request which handler they call.
local function blame(connection, request, why)
    local handler = request.handler
    local info = debug.getinfo(type(handler) == "function" and handler or connection.handler, "S")
    local place = info.what == "C" and "" or ("%s:%d: "):format(info.short_src, info.linedefined)
    report(("%sbad answer (%s)"):format(place, why))
end

-- Sends any answer of a handler: true, or nil, message, code.
local function answer_any(connection, request, response, keep)
    local closer <close> = closer_of(response)
    local good, head, body, length, rest = pcall(compose, request, response, keep, closer)
    if not good then
        blame(connection, request, head)
        head, body, length = compose(request, failure, false)
    end
    if type(body) == "function" then
        local next_part = body
        body = function() return gone.call(connection, request, next_part) end
    end
    local ok, message, code = send(connection.stream, request, head, body, length, rest)
    return ok, message, code
end

local plain, bodiless = checks.set("status", "headers", "body"), checks.set(204, 205, 304)

-- Status, headers and body of a simple answer: a table with nothing else, whose status allows a
-- body. nil: the slow path must look at it.
local function plain_parts(response)
    if getmetatable(response) then return nil end
    for key in next, response do
        if not plain[key] then return nil end
    end
    local status = response.status
    if status == nil then
        status = 200
    elseif math.type(status) ~= "integer" or status < 200 or bodiless[status] then
        return nil
    end
    return status, response.headers, response.body
end

-- As above. Fast path: most answers are a text that can be sent at once.
local function answer(connection, request, response, keep)
    local status, headers, body = 200, nil, response
    if type(response) == "table" then status, headers, body = plain_parts(response) end
    local method = request.method
    if type(body) ~= "string" or method == "HEAD" or method == "CONNECT" then
        return answer_any(connection, request, response, keep)
    end
    local good, head = pcall(raw.response, status, headers, #body, request.minor, keep, date_now())
    if not good then return answer_any(connection, request, response, keep) end
    request.answered, request.kept = status, keep
    return bodies.write(connection.stream, nil, head, body, "")
end

-- Drops what a handler returned: the client is gone.
local function release(response) local _ <close> = closer_of(response) end

--- Answers a request now, as if its handler had returned the response, and then ends the
--- connection.
function Message:answer(response)
    local closer <close> = closer_of(response)
    local good, head, body, length, rest = pcall(compose, self, response, false, closer)
    if not good then error(("bad argument #1 to 'answer' (%s)"):format(head), 2) end
    self.taken, self.continued = true, true -- nobody is asked for a body in the middle of an answer
    local ok, message, code = send(self.stream, self, head, body, length, rest)
    net.linger(self.stream)
    return ok, message, code
end

-- Tells a client why its request is refused, and that the connection ends after this.
local function refuse(stream, status, reason)
    local text = ("%d %s: %s\n"):format(status, raw.phrase(status), reason)
    stream:write(raw.response(status, {["content-type"] = "text/plain"}, #text, 1, false,
        date_now()), text)
    net.linger(stream)
end

return {answer = answer, is_made_later = is_made_later, failure = failure, refuse = refuse,
    release = release, report = report,
    describe = describe, plain_parts = plain_parts, closer_of = closer_of, parts_of = parts_of,
    blame = blame, date_now = date_now, phrase = raw.phrase}
