-- SPDX-License-Identifier: MIT
-- What the log of an HTTP server is told: every answer, with the status that was sent.
local mare, t = require "mare", require "t"
local net, http, websocket = require "mare.net", require "mare.http", require "mare.websocket"
local patience = t.patience

local pages = {
    ["/page"] = function() return "page" end,
    ["/nothing"] = function() end,
    ["/missing"] = function() return {status = 404, body = "not here"} end,
    ["/fails"] = function() error("on purpose", 0) end,
    ["/wrong"] = function() return {headers = {["a\nb"] = "c"}} end,
    ["/reads"] = function(request) return request:text() end,
    ["/answers"] = function(request) request:answer {status = 418} end,
    ["/talks"] = function(request)
        local w <close> = websocket.accept(request)
        if w then w:receive() end
    end,
    ["/parts"] = function() return {body = function() return nil, "the disk is gone" end} end,
}

-- Sends the bytes to a server with these options, waits for the end of the connection, and returns
-- what its log was told: path, status and message.
local function told(bytes, options)
    local listener <close> = assert(net.listen("127.0.0.1", 0))
    local news = mare.channel(10)
    options = options or {}
    options.limits = {body = 10}
    function options.log(request, status, message)
        t.eq(request.peer, "127.0.0.1")
        news:send(request.path or "?", status, message or "")
    end
    local function handler(request) return pages[request.path](request) end
    mare.go(http.serve, listener, handler, options)
    local stream <close> = assert(net.connect(listener:address()))
    stream:write(bytes)
    if not options.message_time then stream:shutdown() end
    stream:read("a", patience)
    return {news:receive(patience)}
end

local function get(path, ...) return told("GET " .. path .. " HTTP/1.1\r\nHost: a\r\n\r\n", ...) end

local function post(path, more)
    return told("POST " .. path .. " HTTP/1.1\r\nHost: a\r\n" .. more)
end

return {
    answers_of_handlers = function()
        t.eq(get "/page", {"/page", 200, ""})
        t.eq(get "/nothing", {"/nothing", 204, ""})
        t.eq(get "/missing", {"/missing", 404, ""})
        t.eq(get "/answers", {"/answers", 418, ""})
    end,

    what_a_handler_did_wrong = function()
        t.eq(get "/fails", {"/fails", 500, ""})
        t.eq(get "/wrong", {"/wrong", 500, ""})
        t.eq(get "/parts", {"/parts", 200, "the disk is gone"})
    end,

    what_no_handler_has_seen = function()
        local what = told "nonsense\r\n\r\n"
        t.eq({what[1], what[2]}, {"?", 400})
        t.eq(post("/reads", "Content-Length: 11\r\n\r\n"),
            {"/reads", 413, "the body is too large"})
        t.eq(told("GET / HT", {message_time = 0.05})[2], 408)
    end,

    a_body_that_is_refused_while_it_is_read = function()
        local what = post("/reads", "Transfer-Encoding: chunked\r\n\r\nb\r\n01234567890\r\n")
        t.eq({what[1], what[2]}, {"/reads", 413})
        t.ok(#what[3] > 0)
    end,

    other_protocols = function()
        local what = told("GET /talks HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\n"
            .. "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
            .. "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
        t.eq(what, {"/talks", 101, ""})
        t.eq(get("/talks")[2], 426)
    end,

    a_log_that_fails_disturbs_nobody = function()
        local listener <close> = assert(net.listen("127.0.0.1", 0))
        mare.go(http.serve, listener, pages["/page"], {log = function() error("no ink", 0) end})
        local _, port = listener:address()
        local client <close> = http.client()
        for _ = 1, 2 do
            local status, body = client:get("http://127.0.0.1:" .. port .. "/page", patience)
            t.eq({status, body}, {200, "page"})
        end
    end,
}
