-- SPDX-License-Identifier: MIT
-- How many connections a server has at once: those beyond the limit are left with the system, and
-- are served when others have ended. Handlers that fail are in test_net_programs.lua.
local mare, net, t = require "mare", require "mare.net", require "t"
local http, websocket = require "mare.http", require "mare.websocket"
local patience = t.patience

local HERE = "127.0.0.1"

-- A server that greets, and then waits for the client to go. Who it has, and the most it has had.
local function greeter(listener)
    local state = {now = 0, most = 0, served = 0}
    state.routine = mare.go(net.serve, listener, function(stream)
        state.now, state.served = state.now + 1, state.served + 1
        state.most = math.max(state.most, state.now)
        local _ <close> = setmetatable({}, {__close = function() state.now = state.now - 1 end})
        stream:write "hello\n"
        stream:read()
    end)
    return state
end

local function connect(listener)
    return assert(net.connect(listener:address())):timeout(patience)
end

-- Sees that two are served, a third is not, and is when one of them goes.
local function third_waits(listener)
    local server = greeter(listener)
    local first, second, third = connect(listener), connect(listener), connect(listener)
    t.eq({first:read "l", second:read "l"}, {"hello", "hello"})
    t.fails("timeout", third:read("l", 0.05))
    t.settle()
    t.eq(server.served, 2)
    first:close()
    t.eq(third:read "l", "hello")
    t.eq({server.served, server.most}, {3, 2})
    second:close()
    third:close()
    listener:close()
    t.fails("closed", select(2, server.routine:join(patience)))
end

return {
    a_third_client_is_served_when_one_of_two_has_ended = function()
        third_waits(assert(net.listen(HERE, 0, {limit = 2})))
    end,

    the_same_at_a_path = function()
        local path = os.tmpname()
        os.remove(path)
        third_waits(assert(net.listen(path, nil, {limit = 2})))
        os.remove(path)
    end,

    the_same_over_tls = function()
        local tls = require "mare.tls"
        local certificate, key = tls.selfsigned "localhost"
        local listener <close> = assert(tls.listen(HERE, 0,
            {certificate = certificate, key = key, limit = 1}))
        greeter(listener)
        local wanted = {authorities = certificate, name = "localhost"}
        local _, port = listener:address()
        local first = assert(tls.connect(HERE, port, wanted, patience))
        t.eq(first:read("l", patience), "hello")
        t.fails("timeout", tls.connect(HERE, port, wanted, 0.05)) -- nobody shakes hands
        local second = mare.go(tls.connect, HERE, port, wanted, patience)
        first:close()
        local stream <close> = select(2, second:join(patience))
        t.eq(stream:read("l", patience), "hello")
    end,

    many_clients_at_a_server_of_few = function()
        local listener <close> = assert(net.listen(HERE, 0, {limit = 3}))
        local server = greeter(listener)
        local clients = t.in_routines(40, function()
            local client <close> = connect(listener)
            return client:read "l"
        end)
        for _, client in ipairs(clients) do t.eq({client:join(patience)}, {true, "hello"}) end
        t.eq({server.served, server.most}, {40, 3})
    end,

    a_server_that_is_full_ends_when_its_listener_is_closed = function()
        local listener = assert(net.listen(HERE, 0, {limit = 1}))
        local server = greeter(listener)
        local client = connect(listener)
        t.eq(client:read "l", "hello")
        t.settle()
        listener:close()
        t.fails("closed", select(2, server.routine:join(patience)))
        client:write "x"
        t.fails("closed", client:read())
        t.reaches(function() return server.now == 0 end)
    end,

    a_server_that_is_full_can_be_cancelled = function()
        local listener <close> = assert(net.listen(HERE, 0, {limit = 1}))
        local server = greeter(listener)
        local client <close> = connect(listener)
        t.eq(client:read "l", "hello")
        t.settle()
        server.routine:cancel()
        t.fails("cancelled", select(2, server.routine:join(patience)))
    end,

    the_limit_can_be_changed_while_it_serves = function()
        local listener <close> = assert(net.listen(HERE, 0, {limit = 1}))
        local server = greeter(listener)
        local first, second, third = connect(listener), connect(listener), connect(listener)
        t.eq(first:read "l", "hello")
        t.fails("timeout", second:read("l", 0.05))
        t.eq(listener:limit(2), listener)
        t.eq(second:read "l", "hello")
        t.fails("timeout", third:read("l", 0.05))
        listener:limit(1)
        second:close()
        t.reaches(function() return server.now == 1 end)
        t.fails("timeout", third:read("l", 0.05)) -- there is one too many no more, but no room
        first:close()
        t.eq(third:read "l", "hello")
        third:close()
    end,

    two_that_serve_one_listener_share_its_limit = function()
        local listener <close> = assert(net.listen(HERE, 0, {limit = 2}))
        local a, b = greeter(listener), greeter(listener)
        local clients = {}
        for i = 1, 6 do clients[i] = connect(listener) end
        for i = 1, 6 do
            t.eq(clients[i]:read "l", "hello")
            t.ok(a.now + b.now <= 2, a.now + b.now)
            clients[i]:close()
        end
        t.eq(a.served + b.served, 6)
    end,

    http_and_websockets_have_the_limit_of_their_listener = function()
        local listener <close> = assert(net.listen(HERE, 0, {limit = 2}))
        mare.go(http.serve, listener, function(request)
            if request.path ~= "/talk" then return "hello" end
            local socket = websocket.accept(request)
            for message in socket:messages() do socket:send(message) end
        end)
        local place = HERE .. ":" .. select(2, listener:address())
        local talk = assert(websocket.connect("ws://" .. place .. "/talk", {timeout = patience}))
        local client = http.client()
        t.eq(client:get("http://" .. place, patience), 200) -- which keeps its connection
        t.fails("timeout", http.get("http://" .. place, 0.05))
        local waits = mare.go(http.get, "http://" .. place, patience)
        t.eq({talk:send "still", talk:receive(patience)}, {true, "still", "text"})
        talk:close()
        t.eq(select(2, waits:join(patience)), 200)
        client:close()
    end,

    misuse = function()
        t.raises("'limit' must be a positive integer", net.listen, HERE, 0, {limit = 0})
        t.raises("'limit' must be a positive integer", net.listen, HERE, 0, {limit = "2"})
        local listener <close> = assert(net.listen(HERE, 0))
        t.raises("a limit is positive", listener.limit, listener, 0)
        t.raises("integer", listener.limit, listener, 1.5)
    end,
}
