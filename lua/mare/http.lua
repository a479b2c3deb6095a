-- SPDX-License-Identifier: MIT
-- HTTP/1.1, server and client. Reading and checking messages is C (src/wire/http.c, strict, with a
-- limit on everything); here is what a server and a client do with them.
local mare, net, raw = require "mare", require "mare.net", require "mare._http"
local checks = require "mare._check"

local http = {}

-- ---- What both share ----------------------------------------------------------------------------

--- The defaults, in seconds: how long a kept connection may be silent; how long a head, once begun,
--- and each part of a body may take; how long a write may. And the bytes of a body that must come
--- in each second that is waited for it, beyond `message_time`. And how long a kept connection may
--- be silent when the server serves no more.
http.idle_time, http.message_time, http.write_time, http.least_rate = 60, 10, 30, 256
http.end_time = 1

-- Bytes of a body, unless limits say otherwise: as in src/wire/http.h.
local body_most = 1048576

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

-- Writes what a function returns part after part: in chunks, or with `length` so many bytes, or
-- with neither until the connection's end. It must not look complete if the function fails.
local function write_parts(stream, next_part, chunked, length, deadline)
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
            length = length and length - #part
            if length and length < 0 then return nil, "the body is too long", "badmsg" end
            ok, message, code = write(stream, deadline, "", part, "")
        end
        if not ok then return nil, message, code end
    end
    if length and length > 0 then return nil, "the body is too short", "badmsg" end
    return not chunked or write(stream, deadline, "", "0\r\n\r\n", "")
end

local limits = checks.set("start_line", "field_line", "head", "fields", "body")
local server_options = checks.set("idle_time", "message_time", "write_time", "least_rate", "limits",
    "failed", "end_time", "log")
local request_options = checks.set("url", "method", "headers", "body", "length", "timeout",
    "limits", "tls")
local client_options = checks.set("most", "idle_time", "timeout", "limits", "tls")

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

-- ---- The server ---------------------------------------------------------------------------------

local date, date_at = nil, -1

local function date_now()
    local now = os.time()
    if now ~= date_at then date, date_at = os.date("!%a, %d %b %Y %H:%M:%S GMT", now), now end
    return date
end

local function refuse(stream, status, reason)
    local text = ("%d %s: %s\n"):format(status, raw.phrase(status), reason)
    stream:write(raw.response(status, {["content-type"] = "text/plain"}, #text, 1, false,
        date_now()), text)
    net.linger(stream)
end

-- What a handler returned, as status, headers and body.
local function parts_of(response)
    if type(response) == "table" then
        return response.status or 200, response.headers, response.body or "", response.length
    elseif response == nil then
        return 204, nil, nil
    end
    return 200, nil, response
end

local function on_error(err)
    return debug.traceback(type(err) == "string" and err or
        ("(error object is a %s value)"):format(type(err)), 2)
end

local function report(text) io.stderr:write("mare: http: ", text, "\n") end

local printed_at, unprinted = -math.huge, 0

-- What becomes of a handshake that failed, if the program does not want to hear of it itself. It is
-- printed once a second at the most, for anybody can make it fail as often as he likes; and not
-- when somebody only came and went.
local function print_failure(message, code, stream)
    if code == "closed" then return end
    local now, more = mare.now(), ""
    if now - printed_at < 1 then
        unprinted = unprinted + 1
        return
    end
    if unprinted > 0 then more = (" (and %d more before)"):format(unprinted) end
    printed_at, unprinted = now, 0
    local who = stream:peer() or "somebody"
    report(("the handshake with %s failed: %s%s"):format(who, message, more))
end

-- The handshake of a connection over TLS, before its first request. False: it failed.
local function shake_hands(stream, failed)
    if not stream:tls() then return true end
    local ok, message, code = stream:handshake()
    if ok then return true end
    if failed == nil then failed = print_failure end
    if failed and code ~= "cancelled" then failed(message, code, stream) end
    return false
end

local failure = {status = 500, body = "500 Internal Server Error\n"}

local function respond(stream, request, response, keep)
    local status, headers, body, length = parts_of(response)
    if status == 204 or status == 304 then body = nil end
    local parts = type(body) == "function"
    if body ~= nil and not parts and type(body) ~= "string" then body = tostring(body) end
    if not parts then length = body and #body end
    local known = not parts or length -- where the body ends, before it is sent
    local chunked = not known and request.minor > 0
    if not known then length = chunked end
    local good, head = xpcall(raw.response, on_error, status, headers, length, request.minor,
        keep and (known or chunked), date_now(),
        type(response) == "table" and response.upgrade or nil)
    if not good then
        report(head)
        return respond(stream, request, failure, false)
    end
    request.answered = status
    if not body or request.method == "HEAD" then return stream:write(head) end
    if not parts then return write(stream, nil, head, body, "") end
    local ok, message, code = stream:write(head)
    if not ok then return nil, message, code end
    return write_parts(stream, body, chunked, known and length)
end

-- Sends the response, and calls its `finally` however that went: its body may raise an error.
local function answer(stream, request, response, keep)
    local finally = type(response) == "table" and response.finally
    if not finally then return respond(stream, request, response, keep) end
    local _ <close> = setmetatable({}, {__close = function() finally() end})
    local ok, message, code = respond(stream, request, response, keep)
    return ok, message, code
end

--- Answers a request now, as if its handler had returned the response, and then ends the
--- connection.
function Message:answer(response)
    self.taken = true
    local ok, message, code = answer(self.stream, self, response, false)
    net.linger(self.stream)
    return ok, message, code
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
    local read = body_reader(reader, stream, options.message_time or http.message_time,
        options.least_rate or http.least_rate)
    request.next_part = function()
        if request.expects and not request.continued then
            request.continued = true
            stream:write "HTTP/1.1 100 Continue\r\n\r\n"
        end
        local part, message, code, status = read()
        if message then
            request.failed, request.status = message, status or code == "timeout" and 408 or 400
        end
        return part, message, code
    end
end

-- Tells the program's log, whose errors are not the client's.
local function note(options, request, status, message)
    if not options.log then return end
    local ok, err = xpcall(options.log, on_error, request, status, message)
    if not ok then report(err) end
end

-- Requests of one connection until it is the turn of other routines.
local turn_most = 100

-- Waits for the next request. Meanwhile the stream is among those that an ending server closes.
local function next_request(server, stream, reader, idle, hurry)
    if server.ending then idle = math.min(idle, server.end_time) end
    server.waiting[stream] = reader
    local request, message, code, status = reader:head(stream, idle, hurry)
    server.waiting[stream] = nil
    return request, message, code, status
end

-- As http.handle. `server` is what the connections of one listener share: whether it is `ending`,
-- how long it then waits for requests, and the readers of streams that are `waiting` for one.
local function handle(stream, handler, options, server)
    local reader = raw.reader("requests", options.limits)
    local idle = options.idle_time or http.idle_time
    local hurry = options.message_time or http.message_time
    local most = options.limits and options.limits.body or body_most
    local peer = stream:peer() -- which nobody can say any more when it has gone
    stream:timeout(options.write_time or http.write_time)
    if not shake_hands(stream, options.failed) then return end
    local count = 0
    while true do
        count = count + 1 -- one whose requests are there already is never waited for
        if count % turn_most == 0 then mare.yield() end
        local request, message, _, status = next_request(server, stream, reader, idle, hurry)
        if not request then
            if status then
                refuse(stream, status, message)
                note(options, {stream = stream, peer = peer}, status, message)
            end
            return
        end
        setmetatable(request, Message)
        request.stream, request.peer = stream, peer
        if request.length and request.length > most then
            refuse(stream, 413, "the body is too large")
            return note(options, request, 413, "the body is too large")
        end
        if request.has_body then give_body(reader, stream, request, options) end
        local ok, response = xpcall(handler, on_error, request)
        if not ok then
            report(response)
            response = failure
        end
        if request.failed and (not ok or response == nil) then -- it is not the handler's fault
            response = {status = request.status, body = request.failed .. "\n"}
        end
        if request.taken then -- the handler has spoken another protocol, or answered
            return note(options, request, request.answered or 101)
        end
        local read = not request.has_body or skip_body(request)
        local last = server.ending
        local keep = request.keep_alive and ok and read and not last
        local sent, why = answer(stream, request, response, keep)
        note(options, request, request.answered, not sent and why or request.failed)
        if not sent then return end
        if not read or last then net.linger(stream) end
        if not keep then return end
    end
end

local function new_server(options)
    return {ending = false, end_time = options.end_time or http.end_time, waiting = {}}
end

--- Serves one connection: reads requests, calls the handler, writes what it returns.
function http.handle(stream, handler, options)
    options = options or {}
    return handle(stream, handler, options, new_server(options))
end

-- The listener is closed. A request that has begun is answered, as the last of its connection; a
-- client that is about to send one has a moment; those that stay silent are closed.
local function finish(server)
    server.ending = true
    mare.go(function()
        mare.sleep(server.end_time)
        for stream, reader in pairs(server.waiting) do
            if reader:idle() then stream:close() end
        end
    end):detach()
end

-- That the values of options can be used, before the first client comes to find out.
local function check_values(options)
    local function check(name, good, expected)
        if options[name] ~= nil and not good then
            error(("bad argument #3 to 'serve' (option '%s' must be %s)"):format(name, expected), 4)
        end
    end
    for _, name in ipairs {"idle_time", "message_time", "write_time", "end_time", "least_rate"} do
        local value = options[name]
        check(name, type(value) == "number" and value >= 0, "a number that is not negative")
    end
    for _, name in ipairs {"failed", "log"} do
        local value = options[name]
        check(name, value == false or type(value) == "function", "a function, or false")
    end
    raw.reader("requests", options.limits)
end

--- Serves what a listener accepts, each connection in a routine of its own, for as long as it is
--- open. A handler gets the request (`method`, `path`, `query`, `headers` by names in lower case,
--- `request:read()` and `request:text()` for the body) and returns a string, or a table with
--- `status`, `headers` and `body`, a string or a function that returns part after part.
function http.serve(listener, handler, options)
    options = options or {}
    checks.argument("serve", handler, 2, "function")
    check_options("serve", options, 3, server_options, 4)
    check_values(options)
    local server = new_server(options)
    local _, message, code = net.serve(listener, handle, handler, options, server)
    if code == "closed" then finish(server) end
    return nil, message, code
end

-- ---- The client ---------------------------------------------------------------------------------

local usual_port = {http = 80, ws = 80, https = 443, wss = 443}

--- Where a URL leads: a table with `scheme`, `host`, `port`, `secure`, `target`, and `name`, the
--- value of Host. nil for what is no URL that we can follow.
function http.locate(url)
    local scheme, host, port, target = url:match "^(%a+)://([^/:?#%[%]@]+):?(%d*)([^#]*)"
    if not scheme then
        scheme, host, port, target = url:match "^(%a+)://(%[[^%]]+%]):?(%d*)([^#]*)"
    end
    scheme = scheme and scheme:lower()
    local usual, number = usual_port[scheme], tonumber(port)
    if not usual or not (target == "" or target:find "^[/?]") or (number or 0) > 65535 then
        return nil
    end
    if not target:find "^/" then target = "/" .. target end
    number = number or usual
    return {scheme = scheme, host = host:match "^%[(.*)%]$" or host, port = number, target = target,
        secure = usual == 443, name = number == usual and host or ("%s:%d"):format(host, number)}
end

--- A stream to where `http.locate` says that a URL leads; over TLS, with these options of
--- `tls.connect`, if it is secure.
function http.open(place, timeout, options)
    if not place.secure then return net.connect(place.host, place.port, timeout) end
    return require "mare.tls".connect(place.host, place.port, options, timeout)
end

-- How often a server may say that its answer is still to come.
local interim_most = 100

--- The head of what answers a request of that method, within so many seconds, or by a deadline; or
--- nil, message, code.
function http.read_response(stream, method, timeout, reader)
    reader = reader or raw.reader "responses"
    reader:expect(method)
    for _ = 0, interim_most do
        local seconds = seconds_of(timeout)
        local response, message, code = reader:head(stream, seconds, seconds)
        if not response then return nil, message, code end
        if not response.interim then return response end
    end
    return nil, "the server does not come to its answer", "badmsg"
end

-- That an option of a request is what it can be.
local function check_option(name, good, expected)
    if not good then
        error(("bad argument #1 to 'request' (option '%s' must be %s)"):format(name, expected), 4)
    end
end

-- What is to be sent, from what the program asks for.
local function prepare(what, keep, usual_time)
    if type(what) == "string" then what = {url = what} end
    check_options("request", what, 1, request_options, 5)
    local place = http.locate(what.url or "")
    if not place or not place.scheme:find "^http" then
        error("bad argument #1 to 'request' (an http:// or https:// URL expected)", 3)
    end
    local body, method = what.body, what.method or (what.body and "POST" or "GET")
    local time = what.timeout or usual_time or http.message_time
    local parts, deadline = type(body) == "function", type(time) == "userdata" and time or nil
    check_option("timeout", deadline or type(time) == "number" and time >= 0,
        "seconds or a deadline")
    check_option("body", not body or parts or type(body) == "string", "a string or a function")
    local length = what.length or (body and not parts and #body) or nil
    return {
        place = place, method = method, body = body, parts = parts, length = parts and length,
        head = raw.request(method, place.target, place.name, what.headers, length or parts or nil,
            keep, false),
        time = time, deadline = deadline,
        limits = what.limits, tls = what.tls,
    }
end

-- A connection, for one request after the other.
local function connect(wanted)
    local stream, message, code = http.open(wanted.place, wanted.time, wanted.tls)
    if not stream then return nil, message, code end
    return {stream = stream, reader = raw.reader("responses", wanted.limits),
        limits = wanted.limits, tls = wanted.tls, scheme = wanted.place.scheme,
        name = wanted.place.name}
end

-- Sends the request, and returns the head of what answers it. A server may answer before it has all
-- of a body, and close; then the answer is what counts.
local function exchange(connection, wanted)
    local stream, time, deadline = connection.stream, wanted.time, wanted.deadline
    stream:timeout(seconds_of(time))
    local ok, message, code = write(stream, deadline, wanted.head,
        not wanted.parts and wanted.body or "", "")
    if ok and wanted.parts then
        ok, message, code = write_parts(stream, wanted.body, not wanted.length, wanted.length,
            deadline)
    end
    if not ok and code ~= "closed" then return nil, message, code end
    local response, m, c = http.read_response(stream, wanted.method, time, connection.reader)
    if response then
        connection.whole = ok
        return response
    end
    return nil, message or m, code or c
end

-- The response as the program sees it. When its body has been read, `finished` is told whether the
-- connection can be used again.
local function complete(response, connection, wanted, finished)
    local over = false
    local function at_end()
        over = true
        finished(connection, response.keep_alive and connection.whole)
    end
    response.stream = connection.stream
    function response:close()
        if not over then connection.stream:close() end
    end
    if response.has_body then
        response.next_part = body_reader(connection.reader, connection.stream, wanted.time,
            http.least_rate, at_end)
    else
        connection.reader:body(connection.stream, 0, 0) -- takes note of the end, without waiting
        at_end()
    end
    return setmetatable(response, Message)
end

local function close_connection(connection) connection.stream:close() end

-- On a connection of its own.
local function request_once(wanted, finished)
    local connection, message, code = connect(wanted)
    if not connection then return nil, message, code end
    local response
    response, message, code = exchange(connection, wanted)
    if response then return complete(response, connection, wanted, finished) end
    connection.stream:close()
    return nil, message, code
end

--- Makes a request: `url`, or a table with `url`, `method`, `headers`, `body` (a string, or a
--- function that returns part after part, with its `length` if that is known), `timeout` (seconds
--- for each step, or a deadline for all of it), and for https `tls`, as for `tls.connect`. Returns
--- the response (`status`, `headers`, `response:read()`, `response:text()`, `response:close()`), or
--- nil, message, code.
function http.request(what) return request_once(prepare(what, false), close_connection) end

local function get(request, url, timeout)
    local what = type(url) == "table" and url or {url = url, timeout = timeout}
    local response, message, code = request(what)
    if not response then return nil, message, code end
    local text
    text, message, code = response:text()
    response:close()
    if not text then return nil, message, code end
    return response.status, text, response.headers
end

--- The status, body and headers of what is at a URL, or of a request as above; or nil, message,
--- code.
function http.get(url, timeout) return get(http.request, url, timeout) end

-- ---- Connections that are kept ------------------------------------------------------------------

local Client = {__name = "mare.http.client"}
Client.__index = Client

--- How many unused connections a client keeps, and for how long, in seconds.
http.client_most, http.client_time = 16, 15

--- A client that keeps its connections for further requests. Options: `most`, `idle_time`, and
--- `timeout` (seconds), `limits` and `tls` as for `http.request`, for all of its requests.
function http.client(options)
    options = options or {}
    check_options("client", options, 1, client_options, 4)
    return setmetatable({
        most = options.most or http.client_most,
        idle_time = options.idle_time or http.client_time,
        timeout = options.timeout,
        limits = options.limits,
        tls = options.tls,
        unused = {}, -- the one used last is the last
    }, Client)
end

-- Takes the newest connection to that place, and closes those that have waited too long.
local function take(client, wanted)
    local unused, taken = client.unused, nil
    for i = #unused, 1, -1 do
        local one = unused[i]
        if mare.now() - one.since > client.idle_time then
            table.remove(unused, i).stream:close()
        elseif not taken and one.name == wanted.place.name and one.scheme == wanted.place.scheme
            and one.tls == wanted.tls then
            taken = table.remove(unused, i)
        end
    end
    return taken
end

local function keeper(client)
    return function(connection, reusable)
        if not reusable or client.closed then return connection.stream:close() end
        connection.since = mare.now()
        table.insert(client.unused, connection)
        if #client.unused > client.most then table.remove(client.unused, 1).stream:close() end
    end
end

-- What may be done twice without harm (RFC 9110 section 9.2.2).
local idempotent = {GET = true, HEAD = true, OPTIONS = true, TRACE = true, PUT = true,
    DELETE = true}

--- As `http.request`. A kept connection may have been closed by the server just now, which shows
--- only when a request gets no answer; so it serves what can be repeated, once, on a new one.
function Client:request(what)
    local wanted = prepare(what, true, self.timeout)
    wanted.tls, wanted.limits = wanted.tls or self.tls, wanted.limits or self.limits
    local finished = keeper(self)
    local kept = idempotent[wanted.method] and not wanted.parts and take(self, wanted)
    if not kept then return request_once(wanted, finished) end
    if kept.limits ~= wanted.limits then -- those of the request before are not this one's
        kept.reader, kept.limits = raw.reader("responses", wanted.limits), wanted.limits
    end
    local response, message, code = exchange(kept, wanted)
    if response and response.status ~= 408 then
        return complete(response, kept, wanted, finished)
    end
    kept.stream:close()
    if response or code == "closed" then return request_once(wanted, finished) end
    return nil, message, code
end

--- As `http.get`.
function Client:get(url, timeout)
    return get(function(what) return self:request(what) end, url, timeout)
end

--- Closes the connections that are not in use; those that are, when they have been.
function Client:close()
    self.closed = true
    for _, connection in ipairs(self.unused) do connection.stream:close() end
    self.unused = {}
end

Client.__close = Client.close

return http
