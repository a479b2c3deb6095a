-- SPDX-License-Identifier: MIT
-- The HTTP server. It reads the requests of a connection one after the other and writes what the
-- handler answers. When its listener is closed, it ends in good order.
local mare, net, raw = require "mare", require "mare.net", require "mare._http"
local checks, shared = require "mare._check", require "mare.http._shared"
local http, Message, body_reader = shared.http, shared.Message, shared.body_reader
local check_options, answers = shared.check_options, require "mare.http._answer"
local answer, failure = answers.answer, answers.failure
local refuse, report, release = answers.refuse, answers.report, answers.release
local gone, bodies = require "mare.http._gone", require "mare.http._body"

local server_options = checks.set("idle_time", "message_time", "write_time", "least_rate", "limits",
    "failed", "end_time", "log", "methods", "targets", "cancel", "processes", "http2")

local function on_error(err)
    return debug.traceback(type(err) == "string" and err or require "mare._show"(err), 2)
end

local printed_at, unprinted = -math.huge, 0

-- Reports a failed handshake, if the program has no function for that. At most once a second,
-- because anybody can make one fail as often as he likes; and not when a client only connected and
-- left.
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
local function shake_hands(stream, failed, http2)
    if not stream:tls() then return true end
    if http2 ~= false then require "mare._tls".offer(stream) end
    local ok, message, code = stream:handshake()
    if ok then return true end
    if failed == nil then failed = print_failure end
    if failed and code ~= "cancelled" then failed(message, code, stream) end
    return false
end

-- Whether the client still waits to be asked for the body. Once an answer begins it is not asked.
local function is_unasked(request)
    local unasked = request.expects and not request.continued
    request.continued = true
    return unasked
end

-- Reads the rest of a request's body, so that the next request can be found; false: close instead.
local function skip_body(request)
    for _ = 1, 64 do
        if not request:read() then return not request.failed end
    end
    return false
end

local function give_body(reader, stream, request, options)
    local read = body_reader(reader, stream, options.message_time or http.message_time,
        options.least_rate or http.least_rate)
    request.next_part = shared.request_reader(request, read, function()
        stream:write "HTTP/1.1 100 Continue\r\n\r\n"
    end)
end

-- Tells the program's log. Its errors must not hit the client.
local function note(options, request, status, message)
    if not options.log then return end
    local ok, err = xpcall(options.log, on_error, request, status, message)
    if not ok then report(err) end
end

-- The forms of a target that are not a path (RFC 9112 section 3.2), and the status for each that
-- the server does not want.
local forms = {authority = 501, asterisk = 501, absolute = 421}

-- The status and the reason to refuse a request before its handler sees it; or nothing.
local function objection(server, request)
    local length, form = request.length, request.form
    if length and length > server.body_most then
        return 413, "the body is too large"
    elseif form and not server.targets[form] then
        return forms[form], "the target is not a path"
    end
end

-- The client has gone while its request was handled: nothing is sent. The handler's wait was
-- cancelled, so its error is no news.
local function lose(connection, request, ok, response)
    local message = "the client has gone away"
    if ok then release(response) else message = message .. ": " .. response:match "[^\n]*" end
    note(connection.options, request, 499, message)
    return false
end

-- Answers a request after its handler. False: the connection ends.
local function conclude(connection, request, ok, response)
    local stream, options, server = connection.stream, connection.options, connection.server
    if request.gone then mare.sleep(0) end -- takes a cancellation that no wait has taken
    if request.taken then -- the handler switched protocols, or answered itself
        note(options, request, request.answered or 101)
        return false
    end
    if request.gone then return lose(connection, request, ok, response) end
    if not ok then
        report(response)
        response = failure
    end
    if request.failed and (not ok or response == nil) then -- the failure is not the handler's
        response = {status = request.status, body = request.failed .. "\n"}
    end
    local read, later = not request.has_body, false
    if not read and not is_unasked(request) then
        later = ok and answers.is_made_later(response) -- it may need what there is to read
        read = later or skip_body(request)
    end
    local keep = request.keep_alive and ok and read and not server.ending
    local sent, why = answer(connection, request, response, keep)
    if sent and later and request.kept then
        read = skip_body(request)
        request.kept = read
    end
    if request.gone then why = "the client has gone away" end
    note(options, request, request.answered, not sent and why or request.failed)
    if sent and not request.kept and (request.keep_alive or not read) then
        net.linger(stream) -- what the client still sends is thrown away
    end
    return sent and request.kept -- as its head has said
end

-- Calls the handler for a request, and answers it. False: the connection ends.
local function serve_request(connection, request)
    local stream, options, server = connection.stream, connection.options, connection.server
    local status, message = objection(server, request)
    if status then
        refuse(stream, status, message)
        note(options, request, status, message)
        return false
    end
    if request.has_body then give_body(connection.reader, stream, request, options) end
    connection.reader:enter(request)
    if not server.looking then gone.look(server) end
    local ok, response = xpcall(connection.handler, on_error, request)
    connection.reader:leave()
    return conclude(connection, request, ok, response)
end

-- Sends the rest of a file, after the rest of a head. False: the connection ends.
local function send_rest(connection, request, file, head, left)
    local stream, _ <close> = connection.stream, file
    if head ~= "" and not raw.write(stream, head, "", "") then return false end
    local next_part, length, _, rest = bodies.open(file, left)
    return (bodies.write_parts(stream, function()
        return gone.call(connection, request, next_part)
    end, length, nil, rest))
end

-- Does what reader:serve, which is in C, leaves to Lua. False: the connection ends.
local function go_on(connection, peer, what, request, ...)
    if what == "request" then return serve_request(connection, request) end
    if what == "response" then return conclude(connection, request, ...) end
    if what == "rest" then
        local head, body, sent = ...
        return (raw.write(connection.stream, head, body, "", sent))
    end
    if what == "file" then return send_rest(connection, request, ...) end
    if what == "turn" then
        mare.yield()
        return true
    end
    local message, _, status = request, ...
    if what == nil and status then
        refuse(connection.stream, status, message)
        note(connection.options, {stream = connection.stream, peer = peer}, status, message)
    end
    return false
end

local clock = raw.clock(answers.date_now)

-- Registers a connection while its requests are served, so that a server that ends can close it.
local Waiting = {}

function Waiting:__close() self.waiting[self.stream] = nil end

-- Whether the client speaks HTTP/2: TLS has agreed on it; or clear-text HTTP/2 is allowed, and the
-- first bytes are its preface.
local function speaks_http2(stream, option, idle)
    if option == false then return false end
    local facts = stream:tls()
    if facts then return facts.protocol == "h2" end
    return option == "clear" and require "mare._http2".is_spoken(stream, idle)
end

-- As http.handle. `server` is what all connections of a listener share: whether it is `ending`; how
-- long it then waits for requests; `waiting`, the readers that may be waiting for a request;
-- `watched`, by routine, the connections whose clients are watched; whether a routine is `looking`
-- at those; and which requests it accepts. (src/lua/http_serve.c reads `ending` and `looking`.)
local function handle(stream, handler, options, server)
    local reader = raw.reader("requests", options.limits, server.methods)
    local connection = {stream = stream, reader = reader, handler = handler, options = options,
        server = server}
    local _ <close> = gone.watch(connection)
    local idle = options.idle_time or http.idle_time
    local hurry = options.message_time or http.message_time
    local peer = stream:peer() -- now: after the client has gone this is unknown
    stream:timeout(options.write_time or http.write_time)
    shared.server_of[stream] = server
    local http2 = options.http2
    if not mare._routine() then http2 = false end
    if not shake_hands(stream, options.failed, http2) then return end
    if speaks_http2(stream, http2, idle) then
        return require "mare.http._http2_server".serve(stream, handler, options, server,
            {note = note, objection = objection, on_error = on_error})
    end
    local _ <close> = setmetatable({waiting = server.waiting, stream = stream}, Waiting)
    server.waiting[stream] = reader
    repeat
        if server.ending then idle = math.min(idle, server.end_time) end
    until not go_on(connection, peer, reader:serve(stream, idle, hurry, nil, nil, handler, on_error,
        server, Message, not options.log and clock or nil, peer))
end

local function new_server(options)
    local cancels = options.cancel ~= false
    return {ending = false, end_time = options.end_time or http.end_time, waiting = {},
        watched = cancels and {} or nil, looking = not cancels,
        told = setmetatable({}, {__mode = "k"}),
        body_most = options.limits and options.limits.body or shared.body_most,
        methods = options.methods and table.concat(options.methods, " "),
        targets = checks.set(table.unpack(options.targets or {}))}
end

--- Serves one connection: reads requests, calls the handler, writes what it returns. Closes the
--- connection at the end.
function http.handle(stream, handler, options)
    options = options or {}
    checks.object("handle", stream, 1, "stream")
    checks.argument("handle", handler, 2, "function")
    local _ <close> = stream
    handle(stream, handler, options, new_server(options))
end

-- The listener was closed. A request that has begun is answered, as the last one of its connection.
-- A client that is about to send one has a moment; silent clients are disconnected. Connections
-- with another protocol are told.
local function finish(server)
    server.ending = true
    for what, tell in pairs(server.told) do mare.go(tell, what):detach() end
    mare.go(function()
        mare.sleep(server.end_time)
        for stream, reader in pairs(server.waiting) do
            if reader:idle() then stream:close() end
        end
    end):detach()
end

-- Checks the values of options now, not when the first client comes.
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
    local count = options.processes
    check("processes", count == true or math.type(count) == "integer" and count >= 1
        and count <= 1024, "true, or an integer from 1 to 1024")
    check("cancel", type(options.cancel) == "boolean", "true or false")
    check("http2", type(options.http2) == "boolean" or options.http2 == "clear",
        "true or false, or 'clear'")
    local function check_list(name, is, expected)
        local value, good = options[name], true
        for _, one in ipairs(type(value) == "table" and value or {}) do good = good and is(one) end
        check(name, type(value) == "table" and good, "a list of " .. expected)
    end
    check_list("methods", function(name)
        return type(name) == "string" and #name <= 24 and shared.is_token(name)
    end, "methods, of 1 to 24 characters that may stand there")
    check_list("targets", function(form) return forms[form] end,
        "'absolute', 'asterisk' and 'authority'")
    raw.reader("requests", options.limits)
end

-- Runs in each process of a server that has several: see _spread.lua.
function shared.serve_given(way, left, handler, options)
    local server = new_server(options)
    return require "mare.http._spread".serve_given(way, left, server, function(stream)
        return handle(stream, handler, options, server)
    end, finish)
end

local function work(...)
    require "mare.http"
    return require "mare.http._shared".serve_given(...)
end

-- As http.serve, but in several processes.
local function serve_spread(listener, handler, options)
    mare._needs_routines "serve"
    local count, rest = options.processes, {}
    for name, value in pairs(options) do
        if name ~= "processes" then rest[name] = value end
    end
    if count == true then count = mare.workers() end
    return require "mare.http._spread".serve(listener, count, work, handler, rest)
end

--- Serves what a listener accepts, each connection in a routine of its own, for as long as it is
--- open. A handler gets the request (`method`, `path`, `query`, `headers` by names in lower case,
--- `request:read()` and `request:text()` for the body) and returns a string, or a table with
--- `status`, `headers` and `body`, a string or a function that returns part after part.
function http.serve(listener, handler, options)
    options = options or {}
    checks.object("serve", listener, 1, "listener")
    checks.argument("serve", handler, 2, "function")
    check_options("serve", options, 3, server_options, 4)
    check_values(options)
    if options.processes then return serve_spread(listener, handler, options) end
    local server = new_server(options)
    local _, message, code = net.serve(listener, handle, handler, options, server)
    if code == "closed" then finish(server) end
    return nil, message, code
end
