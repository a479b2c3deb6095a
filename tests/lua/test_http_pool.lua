-- SPDX-License-Identifier: MIT
-- How many connections a client has to a host: those beyond the limit wait in line, in order, until
-- one is free or their time is over; those that are unused are closed in time.
local mare, t = require "mare", require "t"
local net, http = require "mare.net", require "mare.http"
local patience = t.patience

-- A server that says which connection a request came on, counts those that are open and the most
-- that were, and holds back requests for "/held" until they are let go, one by one.
local function server()
    local s = {open = 0, most = 0, made = 0, held = mare.channel(), let_go = mare.channel()}
    local listener = assert(net.listen("127.0.0.1", 0))
    mare.go(net.serve, listener, function(stream)
        s.open, s.made = s.open + 1, s.made + 1
        s.most = math.max(s.most, s.open)
        local number = tostring(s.made)
        http.handle(stream, function(request)
            if request.path == "/held" then
                s.held:send(true)
                s.let_go:receive()
            end
            if request.path == "/large" then return ("x"):rep(100000) end
            if request.path == "/close" then return request:answer(number) end
            return number
        end, {cancel = false}) -- who is held stays so
        s.open = s.open - 1
    end)
    local _, port = listener:address()
    s.base = ("http://127.0.0.1:%d"):format(port)
    return setmetatable(s, {__close = function()
        s.held:close()
        s.let_go:close()
        listener:close()
    end})
end

local function new_client(options)
    options.timeout = options.timeout or patience
    return http.client(options)
end

-- A request in a routine of its own, that has come to where the server holds it back.
local function hold(s, client)
    local routine = mare.go(function() return client:get(s.base .. "/held") end)
    t.ok(s.held:receive(patience))
    return routine
end

-- How many connections the client has to its only host. (The server hears of an end later.)
local function counted(client) return select(2, next(client.pool.hosts)).count end

local function in_line(client)
    local _, host = next(client.pool.hosts)
    return #host.line
end

return {
    an_error_while_one_is_made_gives_its_room_back = function()
        local listener <close> = assert(net.listen("127.0.0.1", 0)) -- which nobody comes to
        local url = ("https://127.0.0.1:%d/"):format(select(2, listener:address()))
        for _, options in ipairs {{host_most = 1}, {host_most = 1, http2 = false}, {}} do
            options.tls = {nonsense = 1}
            local client <close> = new_client(options)
            for _ = 1, 3 do
                local fine, why = pcall(client.get, client, url)
                t.eq(fine, false)
                t.ok(why:find "unknown option .nonsense.", why)
            end
        end
    end,

    no_more_than_so_many_to_a_host = function()
        local s <close> = server()
        local client <close> = new_client {host_most = 3}
        local routines = t.in_routines(20, function() return client:get(s.base .. "/held") end)
        for _ = 1, 20 do
            t.ok(s.held:receive(patience))
            t.ok(s.let_go:sendwithin(patience, true))
        end
        for _, routine in ipairs(routines) do
            t.eq(select(2, routine:join(patience)), 200)
        end
        t.eq({s.made, s.most}, {3, 3})
    end,

    each_host_has_its_own = function()
        local one <close> = server()
        local two <close> = server()
        local client <close> = new_client {host_most = 1}
        local held = hold(one, client)
        t.eq((client:get(two.base)), 200)
        one.let_go:send(true)
        t.eq(select(2, held:join(patience)), 200)
    end,

    who_came_first_is_served_first = function()
        local s <close> = server()
        local client <close> = new_client {host_most = 1}
        local held, order, routines = hold(s, client), {}, {}
        for i = 1, 5 do
            routines[i] = mare.go(function()
                -- What cannot be repeated gets the place, and a connection of its own.
                local status = client:get {url = s.base, method = i % 2 == 0 and "POST" or "GET"}
                order[#order + 1] = i
                return status
            end)
            t.reaches(function() return in_line(client) == i end)
        end
        s.let_go:send(true)
        held:join(patience)
        for _, routine in ipairs(routines) do t.eq(select(2, routine:join(patience)), 200) end
        t.eq(order, {1, 2, 3, 4, 5})
        t.eq(counted(client), 1)
    end,

    -- RFC 9112 section 6.3: what a server says unasked is not for who waits, though it comes only
    -- when the connection has been given to him.
    what_nobody_has_asked_for_is_not_for_who_waits = function()
        local said, asked, port = mare.channel(1), mare.channel(1), mare.channel(1)
        local server_process = mare.spawn({thread = true}, function(seconds)
            local listener = assert(require "mare.net".listen("127.0.0.1", 0))
            port:send((select(2, listener:address())))
            local function read_head(stream)
                repeat local line = stream:read "l" until line == "" or not line
            end
            local function answer(text)
                return ("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s"):format(#text, text)
            end
            local first = assert(listener:accept(seconds)):timeout(seconds)
            read_head(first)
            asked:receive(seconds)
            first:write(answer "one")
            asked:receive(seconds)
            first:write(answer "false")
            said:send(true)
            local second = assert(listener:accept(seconds)):timeout(seconds)
            read_head(second)
            second:write(answer "two")
        end, patience)
        local url = "http://127.0.0.1:" .. port:receive(patience)
        local client <close> = new_client {host_most = 1}
        local held = mare.go(function()
            local response = assert(client:request(url))
            local text = response:text() -- with which it is given to who waits
            asked:trysend(true)
            repeat until said:tryreceive() -- and nobody else here has a turn
            return text
        end)
        t.reaches(function() return next(client.pool.hosts) ~= nil end)
        local waiting = mare.go(function() return select(2, client:get(url)) end)
        t.reaches(function() return in_line(client) == 1 end)
        asked:send(true)
        t.eq({select(2, held:join(patience)), (select(2, waiting:join(patience)))}, {"one", "two"})
        collectgarbage()
        t.eq(counted(client), 1) -- the place of the first is that of the second
        t.eq(server_process:join(patience), true)
    end,

    who_waits_too_long_is_told = function()
        local s <close> = server()
        local client <close> = new_client {host_most = 1}
        local held = hold(s, client)
        for _, time in ipairs {{timeout = 0.01}, {timeout = mare.deadline(0.01)},
            {connect_time = 0.01}} do
            time.url = s.base
            local response, message, code = client:request(time)
            t.eq({response, code}, {nil, "timeout"})
            t.ok(message:find "no connection to 127%.0%.0%.1:%d+ became free in time", message)
        end
        t.eq(in_line(client), 0)
        s.let_go:send(true)
        t.eq(select(2, held:join(patience)), 200)
        t.eq((client:get(s.base)), 200) -- nothing was lost by it
        t.eq(s.made, 1)
    end,

    who_is_cancelled_leaves_the_line = function()
        local s <close> = server()
        local client <close> = new_client {host_most = 1}
        local held = hold(s, client)
        local waiting = mare.go(function() return select(3, client:get(s.base)) end)
        t.reaches(function() return in_line(client) == 1 end)
        waiting:cancel()
        t.eq(select(2, waiting:join(patience)), "cancelled")
        t.eq(in_line(client), 0)
        s.let_go:send(true)
        held:join(patience)
        t.eq((client:get(s.base)), 200)
    end,

    a_turn_that_comes_too_late_goes_to_the_next = function()
        local s <close> = server()
        local client <close> = new_client {host_most = 1}
        local held = hold(s, client)
        local first = mare.go(function() return client:get(s.base) end)
        t.reaches(function() return in_line(client) == 1 end)
        local second = mare.go(function() return client:get(s.base) end)
        t.reaches(function() return in_line(client) == 2 end)
        -- Both happen to it before it runs: it is given the connection, and cancelled.
        local pool = client.pool
        local put = pool.put
        function pool.put(...)
            pool.put = nil
            put(...)
            first:cancel()
        end
        s.let_go:send(true)
        held:join(patience)
        first:join(patience)
        t.eq(select(2, second:join(patience)), 200)
        t.eq((client:get(s.base)), 200)
        t.eq(counted(client), 1)
    end,

    the_line_has_an_end = function()
        local s <close> = server()
        local client <close> = new_client {host_most = 1, line = 1}
        local held = hold(s, client)
        local waiting = mare.go(function() return client:get(s.base) end)
        t.reaches(function() return in_line(client) == 1 end)
        t.fails("full", client:request(s.base))
        s.let_go:send(true)
        held:join(patience)
        t.eq(select(2, waiting:join(patience)), 200)
    end,

    every_end_of_an_answer_makes_room = function()
        local s <close> = server()
        local client <close> = new_client {host_most = 1}
        for _ = 1, 3 do
            assert(client:request(s.base .. "/large")):close() -- given up
            t.eq((client:get(s.base .. "/close")), 200) -- the server's end
            t.fails("toobig", client:get {url = s.base .. "/large", limits = {body = 10}})
            local held = hold(s, client)
            held:cancel() -- it fails before there is an answer
            t.eq(select(4, held:join(patience)), "cancelled")
            t.ok(s.let_go:sendwithin(patience, true))
            t.ok(client:request(s.base .. "/large")) -- forgotten
            t.reaches(function()
                collectgarbage()
                return counted(client) == 0
            end)
        end
        local dead <close> = assert(net.listen("127.0.0.1", 0))
        local nobody = ("http://127.0.0.1:%d/"):format(select(2, dead:address()))
        dead:close()
        for _ = 1, 3 do t.fails("refused", client:get(nobody)) end
    end,

    unused_ones_are_closed_in_time = function()
        local s <close> = server()
        local client <close> = new_client {idle_time = 0.02}
        t.eq((client:get(s.base)), 200)
        t.eq(#client.pool.unused, 1)
        t.reaches(function() return #client.pool.unused == 0 and s.open == 0 end)
        t.eq((client:get(s.base)), 200) -- and once more
        t.reaches(function() return #client.pool.unused == 0 and s.open == 0 end)
        t.eq(s.made, 2)
    end,

    so_many_unused_ones_to_a_host = function()
        local one <close> = server()
        local two <close> = server()
        local client <close> = new_client {host_idle = 2}
        for _, s in ipairs {one, two} do
            local answers = {}
            for i = 1, 4 do answers[i] = assert(client:request(s.base)) end
            for i = 1, 4 do answers[i]:text() end
            t.reaches(function() return s.open == 2 end)
        end
        t.eq(#client.pool.unused, 4)
        local none <close> = new_client {host_idle = 0}
        none:get(one.base)
        t.eq(#none.pool.unused, 0)
    end,

    an_unused_one_of_another_kind_gives_way = function()
        local s <close> = server()
        local client <close> = new_client {host_most = 1}
        t.eq((client:get(s.base)), 200)
        t.eq(#client.pool.unused, 1)
        t.eq((client:get {url = s.base, method = "POST"}), 200) -- which wants a new one
        t.eq({s.made, counted(client)}, {2, 1})
    end,

    a_client_that_is_closed_tells_who_waits = function()
        local s <close> = server()
        local client = new_client {host_most = 1}
        local held = hold(s, client)
        local waiting = mare.go(function() return select(3, client:get(s.base)) end)
        t.reaches(function() return in_line(client) == 1 end)
        client:close()
        t.eq(select(2, waiting:join(patience)), "closed")
        s.let_go:send(true)
        t.eq(select(2, held:join(patience)), 200)
        t.reaches(function() return s.open == 0 end)
    end,

    limits_are_numbers = function()
        for _, name in ipairs {"host_most", "host_idle", "line"} do
            for _, value in ipairs {-1, 1.5, "x", true} do
                t.raises(("option '%s' must be "):format(name), http.client, {[name] = value})
            end
        end
        t.raises("option 'host_most' must be a positive integer", http.client, {host_most = 0})
    end,
}
