-- SPDX-License-Identifier: MIT
-- HTTP/1.1, server and client. Reading and checking messages is C (src/wire/http.c, strict, with a
-- limit on everything); here is what a server and a client do with them.
local mare, net, raw = require "mare", require "mare.net", require "mare._http"

local http = {}

-- ---- What both share ----------------------------------------------------------------------------

--- The defaults, in seconds: how long a kept connection may be silent; how long a head, once begun,
--- and each part of a body may take; how long a write may.
http.idle_time, http.message_time, http.write_time = 60, 10, 30

-- A body that may be long: a function that returns its next part, or nil, message, code.
local function body_reader(reader, stream, time)
    local over = false
    return function()
        if over then return nil end
        local part, message, code = reader:body(stream, time, time)
        if part then return part end
        over = true
        if part == nil then return nil, message, code end
    end
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

-- ---- The server ---------------------------------------------------------------------------------

local date, date_at = nil, -1

local function date_now()
    local now = os.time()
    if now ~= date_at then date, date_at = os.date("!%a, %d %b %Y %H:%M:%S GMT", now), now end
    return date
end

-- Closing with bytes unread would reset the connection, and the client might lose the answer: what
-- it still sends is thrown away for a little while.
local function linger(stream)
    local deadline = mare.deadline(1)
    stream:shutdown()
    for _ = 1, 64 do
        if not stream:read(nil, deadline) then return end
    end
end

local function refuse(stream, status, reason)
    local text = ("%d %s: %s\n"):format(status, raw.phrase(status), reason)
    stream:write(raw.response(status, {["content-type"] = "text/plain"}, #text, 1, false,
        date_now()), text)
    linger(stream)
end

-- What a handler returned, as status, headers and body.
local function parts_of(response)
    if type(response) == "table" then
        return response.status or 200, response.headers, response.body or ""
    elseif response == nil then
        return 204, nil, nil
    end
    return 200, nil, response
end

local function write_chunks(stream, next_part)
    for part in next_part do
        if #part > 0 then
            local ok, message, code = stream:write(("%x\r\n"):format(#part), part, "\r\n")
            if not ok then return nil, message, code end
        end
    end
    return stream:write "0\r\n\r\n"
end

local function write_all(stream, next_part)
    for part in next_part do
        local ok, message, code = stream:write(part)
        if not ok then return nil, message, code end
    end
    return true
end

local function on_error(err)
    return debug.traceback(type(err) == "string" and err or
        ("(error object is a %s value)"):format(type(err)), 2)
end

local function report(text) io.stderr:write("mare: http: ", text, "\n") end

local failure = {status = 500, body = "500 Internal Server Error\n"}

local function respond(stream, request, response, keep)
    local status, headers, body = parts_of(response)
    if status == 204 or status == 304 then body = nil end
    local parts, chunked = type(body) == "function", request.minor > 0
    if body ~= nil and not parts and type(body) ~= "string" then body = tostring(body) end
    local length = parts and chunked
    if not parts then length = body and #body end
    local good, head = xpcall(raw.response, on_error, status, headers, length, request.minor,
        keep and (chunked or not parts), date_now())
    if not good then
        report(head)
        return respond(stream, request, failure, false)
    end
    if not body or request.method == "HEAD" then return stream:write(head) end
    if not parts then return stream:write(head, body) end
    local ok, message, code = stream:write(head)
    if not ok then return nil, message, code end
    return (chunked and write_chunks or write_all)(stream, body)
end

-- What is left of a request's body, so that the next request is found; false: close instead.
local function skip_body(request)
    if request.expects and not request.continued then return false end
    for _ = 1, 64 do
        if not request:read() then return not request.failed end
    end
    return false
end

local function give_body(reader, stream, request, options)
    local read = body_reader(reader, stream, options.message_time or http.message_time)
    request.next_part = function()
        if request.expects and not request.continued then
            request.continued = true
            stream:write "HTTP/1.1 100 Continue\r\n\r\n"
        end
        local part, message, code = read()
        request.failed = request.failed or message
        return part, message, code
    end
end

--- Serves one connection: reads requests, calls the handler, writes what it returns.
function http.handle(stream, handler, options)
    options = options or {}
    local reader = raw.reader("requests", options.limits)
    local idle = options.idle_time or http.idle_time
    local hurry = options.message_time or http.message_time
    stream:timeout(options.write_time or http.write_time)
    while true do
        local request, message, _, status = reader:head(stream, idle, hurry)
        if not request then
            if status then refuse(stream, status, message) end
            return
        end
        setmetatable(request, Message)
        request.stream = stream
        if request.has_body then give_body(reader, stream, request, options) end
        local ok, response = xpcall(handler, on_error, request)
        if request.taken then return end -- the handler speaks another protocol now
        if not ok then
            report(response)
            response = failure
        end
        local read = not request.has_body or skip_body(request)
        local keep = request.keep_alive and ok and read
        if not respond(stream, request, response, keep) then return end
        if not read then linger(stream) end
        if not keep then return end
    end
end

--- Serves what a listener accepts, each connection in a routine of its own, for as long as it is
--- open. A handler gets the request (`method`, `path`, `query`, `headers` by names in lower case,
--- `request:read()` and `request:text()` for the body) and returns a string, or a table with
--- `status`, `headers` and `body`, a string or a function that returns part after part.
function http.serve(listener, handler, options)
    if type(handler) ~= "function" then
        error("bad argument #2 to 'serve' (function expected, got " .. type(handler) .. ")", 2)
    end
    return net.serve(listener, http.handle, handler, options)
end

-- ---- The client ---------------------------------------------------------------------------------

local function split(url)
    local scheme, host, port, target = url:match "^(%a+)://([^/:?#%[%]]+):?(%d*)([^#]*)"
    if not scheme then
        scheme, host, port, target = url:match "^(%a+)://%[([^%]]+)%]:?(%d*)([^#]*)"
    end
    if scheme ~= "http" and scheme ~= "https" then return nil end
    if not target:find "^/" then target = "/" .. target end
    local usual = scheme == "https" and 443 or 80
    port = tonumber(port ~= "" and port or usual)
    local name = host:find(":", 1, true) and "[" .. host .. "]" or host
    if port ~= usual then name = ("%s:%d"):format(name, port) end
    return host, port, target, name, scheme == "https"
end

-- TLS is loaded by those who use it.
local function connect(host, port, secure, options, time)
    if secure then return require "mare.tls".connect(host, port, options, time) end
    return net.connect(host, port, time)
end

--- Makes a request: `url`, or a table with `url`, `method`, `headers`, `body` (a string, or a
--- function that returns part after part), `timeout`, and for https `tls`, as for `tls.connect`.
--- Returns the response (`status`, `headers`, `response:read()`, `response:text()`,
--- `response:close()`), or nil, message, code.
function http.request(what)
    if type(what) == "string" then what = {url = what} end
    local host, port, target, name, secure = split(what.url or "")
    if not host then
        error("bad argument #1 to 'request' (an http:// or https:// URL expected)", 2)
    end
    local body, method = what.body, what.method or (what.body and "POST" or "GET")
    local time = what.timeout or http.message_time
    local stream, message, code = connect(host, port, secure, what.tls, time)
    if not stream then return nil, message, code end
    stream:timeout(time)
    local kind = body and (type(body) == "function" or #body) or nil
    local ok, _
    ok, message, code = stream:write(raw.request(method, target, name, what.headers,
        kind, false, false), type(body) == "string" and body or "")
    if ok and type(body) == "function" then _, message, code = write_chunks(stream, body) end
    local reader = raw.reader("responses", what.limits)
    reader:expect(method)
    local response
    repeat
        local m, c
        response, m, c = reader:head(stream, time, time)
        if not response then
            stream:close()
            return nil, message or m, code or c
        end
    until not response.interim
    response.stream = stream
    response.next_part = response.has_body and body_reader(reader, stream, time)
    function response:close() return self.stream:close() end
    return setmetatable(response, Message)
end

--- The status, body and headers of what is at a URL, or of a request as above; or nil, message,
--- code.
function http.get(url, timeout)
    local options = type(url) == "table" and url or {url = url, timeout = timeout}
    local response, message, code = http.request(options)
    if not response then return nil, message, code end
    local text
    text, message, code = response:text()
    response:close()
    if not text then return nil, message, code end
    return response.status, text, response.headers
end

return http
