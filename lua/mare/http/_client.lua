-- SPDX-License-Identifier: MIT
-- The HTTP client: requests on a new connection each, and on connections that are kept.
local net, raw = require "mare.net", require "mare._http"
local checks, shared = require "mare._check", require "mare.http._shared"
local http, Message, body_reader = shared.http, shared.Message, shared.body_reader
local check_options, seconds_of = shared.check_options, shared.seconds_of
local bodies, pools = require "mare.http._body", require "mare.http._pool"
local sending = require "mare.http._sending"

local request_options = checks.set("url", "method", "headers", "body", "file", "length",
    "timeout", "connect_time", "limits", "tls", "kept", "http2")
local client_options = checks.set("most", "idle_time", "timeout", "connect_time", "limits", "tls",
    "redirects", "cookies", "gzip", "proxy", "retries", "host_most", "host_idle", "line",
    "http2")

local usual_port = {http = 80, ws = 80, https = 443, wss = 443}

-- Encodes what RFC 3986 does not allow in a URL; also a % without two digits.
local function encode(text)
    text = text:gsub("%%()", function(behind)
        if not text:find("^%x%x", behind) then return "%25" end
    end)
    return (text:gsub("[^%w%-._~:/?#%[%]@!$&'()*+,;=%%]", function(byte)
        return ("%%%02X"):format(byte:byte())
    end))
end

--- Takes a URL apart: a table with `scheme`, `host`, `port`, `secure`, `target`, in which spaces
--- and letters beyond ASCII are encoded, and `name`, the value of Host. nil: this is no URL that we
--- can follow; with a message if it looks like one.
function http.locate(url)
    checks.argument("locate", url, 1, "string")
    local scheme, host, port, target = url:match "^(%a+)://([^/:?#%[%]@]+):?(%d*)([^#]*)"
    if not scheme then
        scheme, host, port, target = url:match "^(%a+)://(%[[^%]]+%]):?(%d*)([^#]*)"
    end
    scheme = scheme and scheme:lower()
    local usual, number = usual_port[scheme], tonumber(port)
    if not usual or not (target == "" or target:find "^[/?]") or (number or 0) > 65535 then
        return nil
    end
    local bare = host:match "^%[(.*)%]$" or host
    if bare:find(bare == host and "[^%w!$%%&'()*+,%-.;=_~]" or "[^%w!$%%&'()*+,%-.;=_~:]") then
        return nil, "the URL's host has a character that the name of a host cannot have"
    elseif target:find "%c" then
        return nil, "the URL has a control character in it"
    end
    if not target:find "^/" then target = "/" .. target end
    number = number or usual
    return {scheme = scheme, host = bare, port = number, target = encode(target),
        secure = usual == 443, name = number == usual and host or ("%s:%d"):format(host, number)}
end

-- The options of `tls.connect` with HTTP/2 offered, too.
local function offering(options)
    local new = {_http2 = true, context = type(options) == "userdata" and options or nil}
    for key, value in pairs(type(options) == "table" and options or {}) do new[key] = value end
    return new
end

--- Opens a stream to a place that `http.locate` has returned; if it is secure, over TLS with these
--- options of `tls.connect`.
function http.open(place, timeout, options)
    checks.argument("open", place, 1, "table")
    if not place.secure then return net.connect(place.host, place.port, timeout) end
    return require "mare.tls".connect(place.host, place.port, options, timeout)
end

-- How many interim answers a server may send.
local interim_most = 100

-- As reader:head. While the request is being `sent`, the answer has more time.
local function read_head(reader, stream, timeout, sent)
    local seconds = seconds_of(timeout)
    while true do
        local response, message, code = reader:head(stream, seconds, seconds)
        seconds = code == "timeout" and sent and sent:patience(timeout)
        if not seconds then return response, message, code end
    end
end

--- Reads the head of the answer to a request of that method. The timeout is seconds or a deadline.
--- Or nil, message, code.
function http.read_response(stream, method, timeout, reader, sent)
    checks.object("read_response", stream, 1, "stream")
    checks.argument("read_response", method, 2, "string")
    reader = reader or raw.reader "responses"
    reader:expect(method)
    for _ = 0, interim_most do
        local response, message, code = read_head(reader, stream, timeout, sent)
        if not response then return nil, message, code end
        if not response.interim then return response end
    end
    return nil, "the server does not come to its answer", "badmsg"
end

-- Checks an option of a request.
local function check_option(name, good, expected)
    if not good then
        error(("bad argument #1 to 'request' (option '%s' must be %s)"):format(name, expected), 5)
    end
end

local function is_http2(value)
    return value == nil or type(value) == "boolean" or value == "clear"
end

-- Checks what a program asks for.
local function check_request(what, method, time)
    local body, file, length = what.body, what.file, what.length
    check_option("timeout", type(time) == "userdata" or type(time) == "number" and time >= 0,
        "seconds or a deadline")
    check_option("connect_time", what.connect_time == nil or checks.span(what.connect_time),
        "seconds")
    check_option("method", type(method) == "string" and shared.is_token(method), "a word")
    check_option("body", body == nil or type(body) ~= "number" and bodies.is_one(body),
        bodies.KINDS)
    check_option("file", file == nil or type(file) == "string", "the path of a file")
    check_option("file", file == nil or body == nil, "without a body")
    check_option("length", length == nil or bodies.length_of(length), bodies.LENGTH)
    check_option("kept", what.kept == nil or type(what.kept) == "boolean", "true or false")
    check_option("http2", is_http2(what.http2), "true or false, or 'clear'")
    local text = body == nil and file == nil and "" or type(body) == "string" and body
    check_option("length", length == nil or not text or bodies.length_of(length) == #text,
        "that of the body")
end

-- Opens the body that a program gives: true, or nil, message, code.
local function open_body(wanted, what)
    local body, length = what.body, bodies.length_of(what.length)
    local code, rest
    if what.file then body, length, code = bodies.open_file(what.file, length) end
    if code then return nil, length, code end
    wanted.closer.body = body
    body, length, code, rest = bodies.open(body, length)
    if code then return nil, length, code end
    wanted.body, wanted.parts, wanted.rest = body, type(body) == "function", rest
    wanted.length = length or wanted.parts or body and #body
    return true
end

-- Prepares the request that the program asks for. Also returns what to close afterwards; or nil,
-- message, code.
local function prepare(what, keep, usual_time, way)
    if type(what) == "string" then what = {url = what} end
    checks.argument("request", what, 1, "table", 4)
    check_options("request", what, 1, request_options, 5)
    checks.option("request", what, 1, "url", "string", "a string", 4)
    local place, wrong = http.locate(what.url or "")
    if wrong then return nil, wrong, "invalid" end
    if not place or not place.scheme:find "^http" then
        error("bad argument #1 to 'request' (an http:// or https:// URL expected)", 3)
    end
    local method = what.method or (what.body or what.file) and "POST" or "GET"
    local time = what.timeout or usual_time or http.message_time
    check_request(what, method, time)
    local wanted = {place = place, method = method, time = time, limits = what.limits,
        tls = what.tls, deadline = type(time) == "userdata" and time or nil,
        connect_time = what.connect_time, kept = what.kept, closer = bodies.closer(), way = way,
        headers = what.headers, http2 = what.http2}
    local ok, message, code = open_body(wanted, what)
    local good, head = true, nil
    if ok then
        local target, headers = place.target, what.headers
        if way and not place.secure then target, headers = way.ask(place, headers) end
        good, head = pcall(raw.request, method, target, place.name, headers, wanted.length, keep,
            false)
        if good then
            wanted.head = head
            return wanted
        end
    end
    local _ <close> = wanted.closer
    if not good then error(("bad argument #1 to 'request' (%s)"):format(head), 3) end
    return nil, message, code
end

-- Makes a connection, which serves one request after the other.
local function connect(wanted)
    local time, most = wanted.time, wanted.connect_time
    if most and seconds_of(time) > most then time = most end
    local tls = wanted.offers and offering(wanted.tls) or wanted.tls
    local stream, message, code
    if wanted.way then
        stream, message, code = wanted.way.open(wanted.place, time, tls)
    else
        stream, message, code = http.open(wanted.place, time, tls)
    end
    if not stream then return nil, message, code end
    return {stream = stream, reader = raw.reader("responses", wanted.limits),
        limits = wanted.limits, tls = wanted.tls, scheme = wanted.place.scheme,
        name = wanted.place.name}
end

-- Sends the request, and returns the head of its answer. A server may answer and close before it
-- has the whole body; then the answer counts, not the failed write.
local function exchange(connection, wanted)
    local stream, time = connection.stream, wanted.time
    stream:timeout(seconds_of(time))
    local sent = sending.begin(stream, wanted)
    if sent.over and not sent.whole and sent.code ~= "closed" then
        return nil, sent.message, sent.code
    end
    connection.sent = sent
    local response, m, c = http.read_response(stream, wanted.method, time, connection.reader, sent)
    if response and response.status == 101 then -- RFC 9110 section 7.8
        response, m, c = nil, "the server speaks another protocol, unasked", "badmsg"
    elseif not response then
        m, c = sent.message or m, sent.code or c
    end
    sent.answered, wanted.raised = response ~= nil, sent.raised
    if response then return response end
    sent:stop()
    return nil, m, c
end

-- The error of the function that makes a body, in another routine, is the caller's.
local function pass_on(wanted)
    if wanted.raised then error(wanted.raised.error, 0) end
end

-- The response for the program. When its body has been read, `finished` is told whether the
-- connection can be used again.
local function complete(response, connection, wanted, finished)
    local over = false
    local function at_end()
        over = true
        finished(connection, response.keep_alive and connection.sent.whole)
        connection.sent:stop()
    end
    local function give_up()
        if over then return end
        over = true
        finished(connection, false)
        connection.sent:stop()
    end
    response.stream = connection.stream
    function response:close() give_up() end -- luacheck: no self
    if response.has_body then
        local read = body_reader(connection.reader, connection.stream, wanted.time,
            http.least_rate, at_end)
        response.next_part = function(own_time)
            local part, message, code, status = read(own_time)
            if message and not (own_time and code == "timeout") then give_up() end
            return part, message, code, status
        end
    else
        connection.reader:body(connection.stream, 0, 0) -- notes the end, without waiting
        at_end()
    end
    return setmetatable(response, Message)
end

local function close_connection(connection) connection.stream:close() end

-- Makes a request on a new connection.
local function request_on(connection, wanted, finished)
    local response, message, code = exchange(connection, wanted)
    if response then return complete(response, connection, wanted, finished) end
    finished(connection, false)
    pass_on(wanted)
    return nil, message, code, true
end

--- Makes a request: a URL, or a table with these fields:
---   url, method, headers
---   body          a string, a function that returns part after part, a file or a stream; with its
---                 `length`, if that is known
---   file          instead: the path of a file to send
---   timeout       seconds for each step, or a deadline for all of it
---   connect_time  how much of that connecting may take
---   tls           for https, as for `tls.connect`
--- Returns the response (`status`, `headers`, `response:read()`, `response:text()`,
--- `response:close()`). On a failure it returns nil, message, code, and true if the server may have
--- got the request.
function http.request(what)
    local wanted, message, code = prepare(what, false)
    if not wanted then return nil, message, code end
    local _ <close> = wanted.closer
    local http2, connection = wanted.http2 and require "mare.http._http2_client", nil
    if http2 and http2.is_wanted(wanted.http2, wanted) then
        wanted.offers = true
        local response, sent
        response, message, code, sent = http2.once(wanted, connect)
        if not response then pass_on(wanted) end
        if response ~= false then return response, message, code, sent end
        connection = message
    end
    if not connection then connection, message, code = connect(wanted) end
    if not connection then return nil, message, code end
    return request_on(connection, wanted, close_connection)
end

local function get(request, url, timeout)
    if type(url) ~= "table" then
        checks.argument("get", url, 1, "string")
        if timeout ~= nil and type(timeout) ~= "number" and type(timeout) ~= "userdata" then
            error(("bad argument #2 to 'get' (seconds or a deadline expected, got %s; options go "
                .. "with the URL: {url = ..., timeout = ...})"):format(type(timeout)), 2)
        end
    end
    local what = type(url) == "table" and url or {url = url, timeout = timeout}
    local good, response, message, code = pcall(request, what)
    if not good then -- it is an error in the line that calls `get`
        local why, ours = tostring(response):gsub("^bad argument #1 to 'request'",
            "bad argument #1 to 'get'")
        error(ours > 0 and why or response, ours > 0 and 2 or 0)
    end
    if not response then return nil, message, code end
    local text
    text, message, code = response:text()
    response:close()
    if not text then return nil, message, code end
    return response.status, text, response.headers
end

--- Status, body and headers of a URL, or of a request as above; or nil, message, code.
function http.get(url, timeout) return get(http.request, url, timeout) end

-- ---- Connections that are kept ------------------------------------------------------------------

local Client = {__name = "mare.http.client"}
Client.__index = Client

function Client.__travel() error("a client belongs to the process that made it", 0) end

--- How many unused connections a client keeps; for how many seconds; how many requests may wait in
--- line for a host that has all its connections in use.
http.client_most, http.client_time, http.client_line = 16, 15, 1000

local function is_count(value) return math.type(value) == "integer" and value >= 0 end

local function is_time(value) return type(value) == "number" and value >= 0 end

-- Checks the options of a client that a single request does not have: the proxy, and the jar.
local function check_client(options)
    local function option(name, good, expected)
        checks.option("client", options, 1, name, good, expected, 5)
    end
    option("most", is_count, "an integer that is not negative")
    option("idle_time", is_time, "seconds")
    option("timeout", function(time) return is_time(time) or type(time) == "userdata" end,
        "seconds or a deadline")
    option("redirects", is_count, "an integer that is not negative")
    option("retries", is_count, "an integer that is not negative")
    option("host_most", function(n) return is_count(n) and n > 0 end, "a positive integer")
    option("host_idle", is_count, "an integer that is not negative")
    option("line", is_count, "an integer that is not negative")
    option("gzip", "boolean", "true or false")
    option("connect_time", checks.span, "seconds")
    option("http2", is_http2, "true or false, or 'clear'")
    option("proxy", function(url)
        return type(url) == "string" and require "mare.http._proxy".way(url)
    end, "the URL of a proxy, http://host:port")
    option("cookies", function(value)
        return type(value) == "boolean" or getmetatable(value) == require "mare.http._jar".Jar
    end, "true or false, or a jar")
end

--- A client that keeps its connections for further requests. Options: `most`, `idle_time`,
--- `host_most`, `host_idle`, `line`, and `timeout` (seconds), `connect_time`, `limits` and `tls` as
--- for `http.request`, for all of its requests; `redirects` and `retries`, how often it follows a
--- redirection and tries again; `cookies`, `gzip`, `proxy`.
function http.client(options)
    options = options or {}
    check_options("client", options, 1, client_options, 4)
    check_client(options)
    local jar = options.cookies
    if jar == true then jar = require "mare.http._jar".new() end
    local most = options.most or http.client_most
    local client = setmetatable({
        redirects = options.redirects or 0,
        retries = options.retries or 0,
        gzip = options.gzip,
        jar = jar or nil,
        way = options.proxy and require "mare.http._proxy".way(options.proxy),
        pool = pools.new {most = most, host_idle = options.host_idle or most,
            idle_time = options.idle_time or http.client_time, host_most = options.host_most,
            line = options.line or http.client_line},
        timeout = options.timeout,
        connect_time = options.connect_time,
        limits = options.limits,
        tls = options.tls,
        http2 = options.http2 == nil or options.http2,
        idle_time = options.idle_time or http.client_time,
        places = {}, -- by place: whether it speaks HTTP/2
    }, Client)
    client.pool.give_way = function(host)
        if #client.places == 0 then return end
        require "mare.http._http2_client".give_way(client, host)
    end
    return client
end

-- Makes a request over HTTP/2. False: not possible, and the HTTP/1.1 connection that was made to
-- find out; else the response; or nil and the failure.
local function perform_http2(self, wanted)
    local option = wanted.http2
    if option == nil then option = self.http2 end
    if not option or not wanted.place.secure and option ~= "clear" then return false end
    local http2 = require "mare.http._http2_client"
    if not http2.is_wanted(option, wanted) then return false end
    wanted.offers = true
    local response, message, code, sent = http2.perform(self, wanted, connect)
    if not response then pass_on(wanted) end
    if response == false then return false, message end
    return response, nil, message, code, sent
end

-- Sends a request. The server may have closed a kept connection just now, and that shows only when
-- the request gets no answer. So a kept connection is used for requests that can be repeated, and
-- such a request is tried once more on a new connection. Other requests use it only if the program
-- says so; then the program is told of the failure.
local function perform(self, wanted)
    local _ <close> = wanted.closer
    wanted.tls, wanted.limits = wanted.tls or self.tls, wanted.limits or self.limits
    wanted.connect_time = wanted.connect_time or self.connect_time
    local response, made, message, code, sent = perform_http2(self, wanted)
    if response ~= false then return response, message, code, sent end
    local again, pool = shared.idempotent[wanted.method], self.pool
    local function finished(connection, reusable) pool:put(connection, reusable) end
    if made then return request_on(made, wanted, finished) end
    local usable = (again or wanted.kept) and not wanted.parts
    local connection
    connection, message, code = pool:obtain(wanted, usable, connect)
    if not connection then return nil, message, code end
    if message ~= true then return request_on(connection, wanted, finished) end
    if connection.limits ~= wanted.limits then -- the limits of the request before do not apply
        connection.reader = raw.reader("responses", wanted.limits)
        connection.limits = wanted.limits
    end
    response, message, code = exchange(connection, wanted)
    if response and (response.status ~= 408 or not again) then
        return complete(response, connection, wanted, finished)
    end
    pool:drop(connection)
    if not again or not response and code ~= "closed" then return nil, message, code, true end
    connection, message, code = pool:obtain(wanted, false, connect)
    if not connection then return nil, message, code, true end
    return request_on(connection, wanted, finished)
end

--- As `http.request`, and what the client's options say.
function Client:request(what)
    local more = self.redirects > 0 or self.retries > 0 or self.gzip or self.jar
    local follow = more and require "mare.http._follow"
    local dressed = more and follow.dress(self, what) or what
    local wanted, message, code = prepare(dressed, true, self.timeout, self.way)
    if not wanted then return nil, message, code end
    if not more then return perform(self, wanted) end
    return follow.run(self, what, dressed, wanted, function(new)
        return prepare(new, true, self.timeout, self.way)
    end, perform)
end

--- As `http.get`.
function Client:get(url, timeout)
    return get(function(what) return self:request(what) end, url, timeout)
end

--- Closes the connections that are not in use now, and the others after their use.
function Client:close()
    self.pool:close()
    if #self.places > 0 then require "mare.http._http2_client".close(self) end
end

Client.__close = Client.close
