-- SPDX-License-Identifier: MIT
-- What a handler answers: checked, as options are, before a byte of it is sent; framed; and sent.
local net, raw = require "mare.net", require "mare._http"
local checks, shared = require "mare._check", require "mare.http._shared"
local Message, write, write_parts = shared.Message, shared.write, shared.write_parts

local date, date_at = nil, -1

-- The time, as the header has it.
local function date_now()
    local now = os.time()
    if now ~= date_at then date, date_at = os.date("!%a, %d %b %Y %H:%M:%S GMT", now), now end
    return date
end

local function report(text) io.stderr:write("mare: http: ", text, "\n") end

local failure = {status = 500, body = "500 Internal Server Error\n"}

-- ---- What it is ---------------------------------------------------------------------------------

local answer_fields = checks.set("status", "headers", "body", "length", "finally", "upgrade")

local function need(name, good, expected, ...)
    if not good then error(("%s must be %s"):format(name, expected):format(...), 0) end
end

local bodies = checks.set("string", "number", "function")

-- The parts of a table.
local function take_apart(response)
    for key in pairs(response) do
        if not answer_fields[key] then error(("unknown field '%s'"):format(tostring(key)), 0) end
    end
    local status, body, length = response.status, response.body, response.length
    local finally, upgrade = response.finally, response.upgrade
    if status == nil then status = 200 end
    local number = type(status) == "number" and math.tointeger(status)
    need("status", number and number >= 200 and number <= 999, "an integer from 200 to 999")
    if body == nil then body = "" end
    need("body", bodies[type(body)], "a string or a function, not a %s", type(body))
    need("finally", finally == nil or type(finally) == "function", "a function")
    need("upgrade", upgrade == nil or type(upgrade) == "string", "a string")
    if length ~= nil then
        length = shared.length_of(length)
        need("length", length, shared.LENGTH)
    end
    return number, response.headers, body, length, upgrade
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

-- What is written after the head, a string or a function, and what the head says of it: its length;
-- true, it comes in chunks; false, up to the connection's end.
local function frame(request, status, body, length)
    if status == 204 then return nil, nil end -- which has none, whatever is given
    if status == 304 then return nil, length end
    if type(body) == "function" then return body, length or request.minor > 0 end
    if type(body) ~= "string" then body = tostring(body) end
    local described = body == "" and request.method == "HEAD" -- only its length is given
    need("length", not length or length == #body or described, "that of the body, %d", #body)
    return body, length or #body
end

-- The head of an answer, its body, and what the head says of that. What is sent is noted in the
-- request: `answered`, the status, and `kept`, whether the connection serves another. Or an error.
local function compose(request, response, keep)
    local status, headers, body, length, upgrade = parts_of(response)
    if request.method == "CONNECT" and status // 100 == 2 then -- RFC 9110 section 9.3.6
        error("CONNECT is granted by who takes the stream (request.taken)", 0)
    end
    body, length = frame(request, status, body, length)
    keep = keep and length ~= false
    local head = raw.response(status, headers, length, request.minor, keep, date_now(), upgrade)
    request.answered, request.kept = status, keep
    return head, body, length
end

local function send(stream, request, head, body, length)
    if not body or request.method == "HEAD" then return stream:write(head) end
    if type(body) == "string" then return write(stream, nil, head, body, "") end
    local ok, message, code = stream:write(head)
    if not ok then return nil, message, code end
    return write_parts(stream, body, length)
end

-- Calls its `finally` at the end of the scope, however that comes: its body may raise an error.
local function close_later(response)
    local finally = type(response) == "table" and response.finally
    if type(finally) ~= "function" then return nil end
    return setmetatable({}, {__close = function() finally() end})
end

-- Where a function is, for a message.
local function place_of(f)
    local info = debug.getinfo(f, "S")
    return info.what == "C" and "" or ("%s:%d: "):format(info.short_src, info.linedefined)
end

-- Sends what a handler returned; true, or nil, message, code.
local function answer(connection, request, response, keep)
    local _ <close> = close_later(response)
    local good, head, body, length = pcall(compose, request, response, keep)
    if not good then
        report(("%sbad answer (%s)"):format(place_of(connection.handler), head))
        head, body, length = compose(request, failure, false)
    end
    if type(body) == "function" then
        local guard, next_part = connection.guard, body
        body = function() return guard:call(request, next_part) end
    end
    local ok, message, code = send(connection.stream, request, head, body, length)
    return ok, message, code
end

-- Forgets what a handler returned: there is nobody to send it to.
local function release(response) local _ <close> = close_later(response) end

--- Answers a request now, as if its handler had returned the response, and then ends the
--- connection.
function Message:answer(response)
    local _ <close> = close_later(response)
    local good, head, body, length = pcall(compose, self, response, false)
    if not good then error(("bad argument #1 to 'answer' (%s)"):format(head), 2) end
    self.taken = true
    local ok, message, code = send(self.stream, self, head, body, length)
    net.linger(self.stream)
    return ok, message, code
end

-- Tells a client why its request is refused, and that the connection ends.
local function refuse(stream, status, reason)
    local text = ("%d %s: %s\n"):format(status, raw.phrase(status), reason)
    stream:write(raw.response(status, {["content-type"] = "text/plain"}, #text, 1, false,
        date_now()), text)
    net.linger(stream)
end

return {answer = answer, failure = failure, refuse = refuse, release = release, report = report}
