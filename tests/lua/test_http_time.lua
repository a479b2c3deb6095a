-- SPDX-License-Identifier: MIT
-- How long an HTTP client waits: for each step, for all of them together, as its program or its
-- client says, until somebody cancels it. However it ends, the connection is closed.
local mare, t = require "mare", require "t"
local net, http = require "mare.net", require "mare.http"
local patience = t.patience
local BIG = ("x"):rep(1 << 20)

local function read_head(stream)
    repeat local line = stream:read "l" until not line or line == ""
end

-- Writes the bytes again and again, until the client has gone.
local function trickle(stream, bytes)
    while stream:write(bytes) do mare.sleep(0.01) end
end

-- How long a peer may take no bytes: longer than this program may stand still because the machine
-- does. The first half of them takes longer than that, but where everything is slow anyway.
local WAIT, LARGE = t.slow > 1 and patience or 8, 32 << 20
local PAUSE = t.slow > 1 and 0.001 or 1.5 * WAIT / (LARGE / 2 / 65536)

-- Takes its time, but never stops for long; how many bytes have come. The second half is more than
-- the system holds, so whoever writes it is not done before that is read.
local function read_slowly(stream)
    local got = 0
    while got < LARGE do
        local part = stream:read(65536, patience)
        if not part then break end
        got = got + #part
        if got < LARGE / 2 then mare.sleep(PAUSE) end
    end
    return got
end

-- Servers that never come to an end; each is done when the client has closed the connection.
local servers = {
    says_nothing = function(stream)
        read_head(stream)
        stream:read "a"
    end,
    has_always_another_word = function(stream)
        read_head(stream)
        trickle(stream, "HTTP/1.1 102 Processing\r\n\r\n")
    end,
    trickles = function(stream)
        read_head(stream)
        stream:write "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"
        trickle(stream, "xxxxxxxx") -- more than the least rate
    end,
    stops_in_its_answer = function(stream)
        read_head(stream)
        stream:write "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nfive "
        stream:read "a"
    end,
}

-- Servers that do not read what is sent to them; done when `over` is told.
local uploads = {
    text = BIG:rep(16),
    parts = function() return BIG end,
}

-- Runs a server of one connection; its URL, and the routine, which ends with the connection.
local function run(serve)
    local listener = assert(net.listen("127.0.0.1", 0))
    local _, port = listener:address()
    local routine = mare.go(function()
        local stream <close> = assert(listener:accept(patience)):timeout(patience)
        listener:close()
        serve(stream)
        return true
    end)
    return "http://127.0.0.1:" .. port .. "/", routine
end

-- That a request to such a server ends as expected, and its connection with it.
local function ends(name, serve, code, ask)
    local url, routine = run(serve)
    local _, _, got = ask(url)
    t.eq(got, code, name)
    t.eq({routine:join(patience)}, {true, true}, name)
end

-- The same for all servers; those that read nothing are waited for by who asks.
local function all_end(code, ask)
    for name, serve in pairs(servers) do ends(name, serve, code, ask) end
    for name, body in pairs(uploads) do
        local over = mare.channel()
        ends(name, function(stream)
            over:receive(patience)
            t.reaches(function() return not stream:write "x" end, name)
        end, code, function(url)
            local a, b, c = ask(url, body)
            over:close()
            return a, b, c
        end)
    end
end

local function server_of_a_slow_client()
    local listener <close> = assert(net.listen("127.0.0.1", 0))
    local served
    mare.go(http.serve, listener, function()
        return {body = ("x"):rep(LARGE), finally = function() served = true end}
    end, {write_time = WAIT})
    local stream <close> = assert(net.connect(listener:address()))
    stream:write "GET / HTTP/1.0\r\n\r\n"
    read_head(stream)
    t.eq(read_slowly(stream), LARGE)
    t.reaches(function() return served end, "the end of the answer")
end

local function client_of_a_slow_server()
    local url = run(function(stream)
        read_head(stream)
        t.eq(read_slowly(stream), LARGE)
        stream:write "HTTP/1.1 204 No Content\r\n\r\n"
    end)
    t.eq(http.get {url = url, body = ("x"):rep(LARGE), timeout = WAIT}, 204)
end

return {
    a_deadline_is_for_all_of_it = function()
        all_end("timeout", function(url, body)
            return http.get {url = url, body = body, timeout = mare.deadline(0.2)}
        end)
    end,

    also_of_a_client_that_keeps_connections = function()
        local client <close> = http.client()
        all_end("timeout", function(url, body)
            return client:get {url = url, body = body, timeout = mare.deadline(0.2)}
        end)
        t.eq(#client.pool.unused, 0)
    end,

    a_deadline_that_is_not_reached_disturbs_nobody = function()
        local url = run(function(stream)
            read_head(stream)
            stream:write "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
        end)
        local status, body = http.get(url, mare.deadline(patience))
        t.eq({status, body}, {200, "ok"})
    end,

    a_client_has_a_time_for_requests_that_have_none = function()
        local client <close> = http.client {timeout = 0.1}
        ends("the client's", servers.says_nothing, "timeout", function(url)
            return client:get(url)
        end)
        local url = run(function(stream)
            read_head(stream)
            mare.sleep(0.3)
            stream:write "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
        end)
        t.eq(client:get(url, patience), 200)
    end,

    -- Both at once, for it takes its time.
    one_who_reads_slowly_is_not_given_up = function()
        local cases = {mare.go(server_of_a_slow_client), mare.go(client_of_a_slow_server)}
        for _, case in ipairs(cases) do t.eq({case:join(3 * patience)}, {true}) end
    end,

    every_wait_can_be_cancelled = function()
        all_end("cancelled", function(url, body)
            local asks = mare.go(http.get, {url = url, body = body, timeout = patience})
            mare.sleep(0.1) -- by now it waits; if not, it is cancelled where it waits first
            asks:cancel()
            return select(2, asks:join(patience))
        end)
    end,

    misuse_is_told_in_the_line_of_who_did_it = function()
        local client <close> = http.client()
        local stream, listener = {}, assert(net.listen("127.0.0.1", 0))
        for expected, misuse in pairs {
            ["#1 to 'get' %(string expected, got number"] = function() http.get(5) end,
            ["#1 to 'get' %(string expected, got no value"] = function() client:get() end,
            ["#2 to 'get' %(seconds or a deadline expected, got table; options go with the URL"] =
                function() http.get("http://127.0.0.1/", {timeout = 1}) end,
            ["#2 to 'get' %(seconds or a deadline expected, got string"] = function()
                client:get("http://127.0.0.1/", "1")
            end,
            ["#1 to 'request' %(option 'url' must be a string"] = function()
                http.request {url = 5}
            end,
            ["#1 to 'locate' %(string expected"] = function() http.locate() end,
            ["#1 to 'open' %(table expected"] = function() http.open "x" end,
            ["#1 to 'read_response' %(stream expected"] = function() http.read_response(5) end,
            ["#2 to 'read_response' %(string expected"] = function() http.read_response(stream) end,
            ["#1 to 'handle' %(stream expected"] = function() http.handle(5, print) end,
            ["#2 to 'handle' %(function expected"] = function() http.handle(stream) end,
            ["#1 to 'client' %(table expected"] = function() http.client(true) end,
            ["#1 to 'serve' %(listener expected, got number"] = function() net.serve(5, print) end,
            ["#1 to 'serve' %(listener expected, got no"] = function() http.serve() end,
            ["#2 to 'serve' %(function expected, got no"] = function() net.serve(listener) end,
            ["#2 to 'serve' %(function expected, got number"] = function()
                http.serve(listener, 5)
            end,
            ["#1 to 'linger' %(stream expected"] = function() net.linger() end,
        } do
            t.raises("test_http_time.lua:%d+: bad argument " .. expected, misuse)
        end
        listener:close()
    end,

    misuse_is_an_error = function()
        for _, wrong in ipairs {"5", -1, true} do
            t.raises("option 'timeout' must be seconds or a deadline", http.request,
                {url = "http://127.0.0.1:1", timeout = wrong})
        end
        for _, wrong in ipairs {12, true, {}} do
            t.raises("option 'body' must be a string or a function", http.request,
                {url = "http://127.0.0.1:1", body = wrong})
        end
    end,
}
