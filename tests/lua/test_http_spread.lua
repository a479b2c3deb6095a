-- SPDX-License-Identifier: MIT
-- A server in several processes.
local mare, t = require "mare", require "t"
local net, http, route = require "mare.net", require "mare.http", require "mare.http.route"
local tls, websocket = require "mare.tls", require "mare.websocket"
local patience = t.patience

-- Until the listener is closed: its URL, and the process that serves.
local function server(handler, options, limit, listener)
    listener = listener or assert(net.listen("127.0.0.1", 0, {limit = limit}))
    local _, port = listener:address()
    local close = mare.channel(1)
    local process = mare.spawn(function(given, on_request, how, closes)
        local m, h = require "mare", require "mare.http"
        m.go(function()
            closes:receive()
            given:close()
        end)
        return select(3, h.serve(given, on_request, how))
    end, listener, handler, options, close)
    return {url = ("http://127.0.0.1:%d/"):format(port), port = port, process = process,
        close = function() close:send(true) end}
end

local function who() return tostring(require "mare".self():id()) end

return {
    connections_are_spread_over_processes = function()
        local before = #mare.processes()
        local s = server(who, {processes = 3})
        local seen, count = {}, 0
        for _ = 1, 12 do
            local _, id = assert(http.get(s.url, patience))
            if not seen[id] then count = count + 1 end
            seen[id] = true
        end
        t.eq(count, 3)
        t.ok(not seen[tostring(s.process:id())])
        s.close()
        t.eq({s.process:join(patience)}, {true, "closed"})
        t.reaches(function() return #mare.processes() <= before end)
    end,

    what_has_begun_is_answered_in_the_end = function()
        local go_on, begun = mare.channel(1), mare.channel(1)
        local s = server(function()
            begun:send(true)
            go_on:receive()
            return "done"
        end, {processes = 2})
        local answer = mare.go(http.get, s.url, patience)
        t.ok(begun:receive(patience))
        s.close()
        t.eq({s.process:join(patience)}, {true, "closed"})
        go_on:send(true)
        local _, status, text, headers = answer:join(patience)
        t.eq({status, text, headers.connection}, {200, "done", "close"})
    end,

    the_limit_holds_for_all_of_them = function()
        local s = server(who, {processes = 2, idle_time = patience}, 2)
        local kept = {}
        for i = 1, 2 do
            kept[i] = http.client()
            t.ok(kept[i]:get(s.url, patience))
        end
        local third = mare.go(http.get, s.url, patience)
        t.settle(50)
        t.eq(third:status() ~= "finished", true)
        kept[1]:close()
        t.eq(select(2, third:join(patience)), 200)
        kept[2]:close()
        s.close()
        s.process:join(patience)
    end,

    they_die_with_the_one_that_accepts = function()
        local before = #mare.processes()
        local s = server(who, {processes = 2})
        t.ok(http.get(s.url, patience))
        s.process:kill()
        t.reaches(function() return #mare.processes() <= before end)
    end,

    routes_can_be_the_handler = function()
        local s = server(route.new():get("/:x", function(_, p) return p.x end):handler(),
            {processes = 1, log = function() end})
        t.eq(select(2, http.get(s.url .. "hi", patience)),
            "hi")
        s.close()
        s.process:join(patience)
    end,

    https_and_websockets_too = function()
        local certificate, key = tls.selfsigned "127.0.0.1"
        local listener = assert(tls.listen("127.0.0.1", 0, {certificate = certificate, key = key}))
        local s = server(function(request)
            if request.path == "/plain" then return request.stream:tls().version end
            local w <close> = require "mare.websocket".accept(request)
            for text in w:messages() do w:send(text .. "!") end
        end, {processes = 2}, nil, listener)
        local trust, base = {authorities = certificate}, "://127.0.0.1:" .. s.port
        for _ = 1, 2 do
            t.eq(select(2, http.get {url = "https" .. base .. "/plain", tls = trust,
                timeout = patience}), "TLSv1.3")
        end
        local w <close> = assert(websocket.connect("wss" .. base, {tls = trust,
            timeout = patience})):timeout(patience)
        w:send "hello"
        t.eq((w:receive()), "hello!")
        s.close()
        t.eq(select(4, w:receive()), 1001) -- it is told that the server ends
        s.process:join(patience)
    end,

    what_cannot_be_is_refused = function()
        local listener <close> = assert(net.listen("127.0.0.1", 0))
        for _, value in ipairs {0, 1.5, "2", 2000, {}} do
            t.raises("option 'processes' must be true, or an integer from 1 to 1024", http.serve,
                listener, who, {processes = value})
        end
        local co = coroutine.create(print)
        t.raises("a coroutine", http.serve, listener, function() return co end, {processes = 1})
    end,
}
