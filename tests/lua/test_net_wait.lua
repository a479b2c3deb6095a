-- SPDX-License-Identifier: MIT
-- Waits for the network: how they end in time, by others and with their process; and how sockets
-- get to other processes and outlive workers.
local mare, net, t = require "mare", require "mare.net", require "t"
local sockets, in_routines = require "sockets", t.in_routines
local pair, MUCH, go_when_killed = sockets.pair, sockets.MUCH, sockets.go_when_killed

local HERE = "127.0.0.1"

-- A listener whose line is full, so that a connection to it is neither made nor refused.
local function full_listener()
    local listener = assert(net.listen(HERE, 0, {backlog = 1}))
    local _, port = listener:address()
    local waiting = {}
    repeat
        local stream, _, code = net.connect(HERE, port, 0.2)
        waiting[#waiting + 1] = stream
        t.ok(stream or code == "timeout", code)
    until not stream
    return listener, port, waiting
end

-- The calls that wait, each in a state in which it does; what it returns must stay referred to.
local waits = {
    accept = function()
        local listener = assert(net.listen(HERE, 0))
        return function() return listener:accept() end, listener
    end,
    read = function()
        local client, server = pair()
        return function() return client:read() end, client, server
    end,
    write = function()
        local client, silent = pair()
        return function() return client:write(("x"):rep(MUCH)) end, client, silent
    end,
    connect = function()
        local listener, port, waiting = full_listener()
        return function() return net.connect(HERE, port) end, nil, listener, waiting
    end,
}

local cases = {
    -- Time.

    calls_end_at_their_timeout = function()
        for name, begin in pairs(waits) do
            local call, stream, other = begin()
            local limited = {
                accept = function() return stream:accept(0.01) end,
                read = function() return stream:read(nil, 0.01) end,
                write = function() return stream:writewithin(0.01, ("x"):rep(MUCH)) end,
                connect = function() return net.connect(HERE, select(2, other:address()), 0.01) end,
            }
            t.fails("timeout", limited[name]())
            if stream then -- and at the stream's own, if they have none
                t.eq(stream:timeout(0.01), stream)
                t.fails("timeout", call())
                stream:timeout(nil)
            end
        end
    end,

    a_timeout_of_the_call_overrides_that_of_the_stream = function()
        local client, server = pair()
        server:timeout(0)
        t.fails("timeout", server:read())
        local reader = mare.go(function() return server:read(nil, t.patience) end)
        mare.yield()
        client:write "late"
        t.eq({reader:join(t.patience)}, {true, "late"})
        t.fails("timeout", server:read "l")
        t.fails("timeout", server:read "a")
        client:write "at once"
        t.reaches(function() return server:read() == "at once" end) -- what is there needs no time
        server:timeout()
        t.eq(server:timeout(math.huge), server)
    end,

    deadlines_are_timeouts = function()
        local client, server = pair()
        local listener <close> = assert(net.listen(HERE, 0))
        t.fails("timeout", server:read(nil, mare.deadline(0)))
        t.fails("timeout", listener:accept(mare.deadline(0.01)))
        local deadline = mare.deadline(t.patience)
        local host, port = listener:address()
        t.ok(net.connect(host, port, deadline))
        t.ok(net.resolve("localhost", deadline))
        t.eq(client:writewithin(deadline, "x"), true)
        t.eq(server:read(1, deadline), "x")
    end,

    -- Who gives up, and who goes.

    a_wait_can_be_cancelled = function()
        for name, begin in pairs(waits) do
            local all = {begin()} -- the other ends too
            local call, stream = all[1], all[2]
            local routine = mare.go(call)
            mare.sleep(0.01)
            t.eq(routine:cancel(), true, name)
            t.fails("cancelled", select(2, routine:join(t.patience)))
            if stream then t.ok(stream:address()) end -- which is as it was
        end
    end,

    resolving_can_be_cancelled = function()
        local routine = mare.go(function()
            local addresses, message, code = net.resolve "localhost"
            if addresses then return mare.sleep(3600) end -- it had come before the wait: the next
            return nil, message, code
        end)
        routine:cancel() -- before it waits
        t.fails("cancelled", select(2, routine:join(t.patience)))
    end,

    all_there_is_has_a_limit = function()
        local client, server = pair()
        server:limit(65536, 100000)
        client:write(("x"):rep(100001))
        client:close()
        t.fails("toobig", server:read("a", t.patience))
        t.eq(#server:read(1, t.patience), 1) -- it was left unread
        t.eq(#server:read("a", t.patience), 100000)
        t.raises("a limit is positive", server.limit, server, 1, 0)
    end,

    a_misspelt_option_of_listen_is_an_error = function()
        t.raises("#3 to 'listen' %(unknown option 'share'%)", net.listen, HERE, 0, {share = true})
        net.listen(HERE, 0, {shared = true, backlog = 5}):close()
    end,

    so_many_bytes_have_the_same_limit = function()
        local client, server = pair()
        client:write(("x"):rep(100), "y")
        t.fails("toobig", server:read((64 << 20) + 1, t.patience)) -- before it waits for any
        t.fails("toobig", server:read(math.maxinteger, t.patience))
        server:limit(10, 100)
        t.eq(server:read(100, t.patience), ("x"):rep(100)) -- more than a line may have
        t.fails("toobig", server:read(101, t.patience))
        t.eq(server:read(nil, t.patience), "y", "nothing was read")
        client:close()
        t.fails("toobig", server:read(101)) -- though there is less: it was not asked
        t.fails("closed", server:read(100))
        server:limit(10, 1 << 40)
        t.fails("closed", server:read(1 << 40))
    end,

    close_ends_the_waits_of_others = function()
        for name, begin in pairs(waits) do
            local call, stream = begin()
            if stream then
                local routines = in_routines(3, call)
                mare.sleep(0.01)
                t.eq(stream:close(), true, name)
                for _, routine in ipairs(routines) do
                    t.fails("closed", select(2, routine:join(t.patience)))
                end
            end
        end
    end,

    sockets_are_closed_when_a_process_is_killed = function()
        go_when_killed(waits)
    end,

    sockets_are_closed_when_a_process_ends = function()
        local before = sockets.count()
        t.ok(mare.spawn(function()
            local listener = assert(net.listen("127.0.0.1", 0))
            local client = assert(net.connect(listener:address()))
            debug.getregistry().kept = {listener, client, listener:accept()}
            client:read(nil, 0.001)
        end):join(t.patience))
        t.reaches(function() return sockets.count() <= before end, "sockets are left")
    end,

    sockets_that_nothing_refers_to_are_collected = function()
        local before = sockets.count()
        for _ = 1, 50 do
            local client, server = pair()
            t.fails("timeout", client:read(nil, 0))
            server:write "x"
        end
        collectgarbage()
        collectgarbage()
        t.reaches(function() return sockets.count() <= before end, "sockets are left")
    end,

    variables_that_go_close_their_streams = function()
        local other
        do
            local client <close>, server = pair()
            other = server
            t.eq(client:write "x", true)
        end
        t.eq(other:read "a", "x")
    end,

    after_close_there_is_nothing = function()
        local client, server = pair()
        local listener = assert(net.listen(HERE, 0))
        t.eq({client:close(), client:close()}, {true, false})
        t.eq({listener:close(), listener:close()}, {true, false})
        t.fails("closed", client:read())
        t.fails("closed", client:read "a")
        t.fails("closed", client:write "x")
        t.fails("closed", client:writewithin(1, "x"))
        t.fails("closed", client:shutdown())
        t.fails("closed", client:address())
        t.fails("closed", client:peer())
        t.fails("closed", listener:accept())
        t.fails("closed", listener:address())
        t.eq({tostring(client), tostring(listener)}, {"stream (closed)", "listener (closed)"})
        t.eq(server:read "a", "")
    end,

    -- Other processes.

    streams_and_listeners_change_hands = function()
        local client, server = pair()
        local listener = assert(net.listen(HERE, 0))
        client:write "one\ntwo\n"
        t.eq(server:read "l", "one") -- "two" is read, and not given out
        local results, presents = mare.channel(1), mare.channel(1)
        local process = mare.spawn(function(mine)
            results:send(mine:read "l")
            local also_mine = presents:receive()
            local stream = also_mine:accept()
            stream:write "from the other"
            stream:close()
            return also_mine, mine
        end, server)
        t.eq(results:receive(t.patience), "two")
        t.raises("the stream was sent to another process", server.read, server)
        t.raises("the stream was sent to another process", server.close, server)
        t.raises("a stream that was sent before", mare.spawn, print, server)
        t.eq(tostring(server), "stream (sent)")
        local _, port = listener:address()
        presents:send(listener)
        t.raises("the listener was sent to another process", listener.accept, listener)
        t.raises("a listener that was sent before", presents.trysend, presents, listener)
        t.eq(tostring(listener), "listener (sent)")
        t.eq(assert(net.connect(HERE, port)):read("a", t.patience), "from the other")
        local ok, again, back = process:join(t.patience)
        t.eq(ok, true)
        t.eq(select(2, again:address()), port)
        back:write "back"
        t.eq(client:read(), "back")
    end,

    a_stream_that_somebody_waits_for_stays = function()
        local client, server = pair()
        local box = mare.channel(1)
        local reader = mare.go(function() return server:read() end)
        mare.yield()
        t.raises("a routine waits for", box.send, box, server)
        t.raises("a routine waits for", mare.spawn, print, server)
        client:write "x"
        t.eq({reader:join(t.patience)}, {true, "x"})
        t.eq(box:send(server), true)
        t.eq(box:receive():write "y", true)
    end,

    a_stream_that_is_being_sent_is_away = function()
        local client, server = pair()
        local box = mare.channel()
        local sender = mare.go(function() return box:send(server) end)
        mare.yield()
        t.raises("the stream was sent to another process", server.read, server)
        t.raises("sent before", box.trysend, box, server)
        sender:cancel()
        sender:join(t.patience)
        client:write "x"
        t.eq(server:read(), "x") -- it was not sent after all
    end,

    a_stream_in_a_message_that_nobody_takes_is_closed = function()
        local client, server = pair()
        local box = mare.channel(1)
        box:send(server)
        box:close()
        box = nil -- luacheck: ignore
        collectgarbage()
        collectgarbage()
        t.eq(client:read("a", t.patience), "")
    end,

    a_waiting_stream_wanders_through_processes = function() sockets.wander(pair()) end,

    -- Workers.

    a_computation_does_not_keep_events_waiting = function()
        t.needs_preemption()
        t.with_workers(1, function()
            local client, server = pair()
            local echo = mare.go(function()
                for line in function() return server:read "l" end do server:write(line, "\n") end
            end)
            local spinning = mare.spawn(function() while true do end end)
            for i = 1, 20 do
                client:write(i, "\n")
                t.eq(client:read("l", t.patience), tostring(i))
            end
            t.eq(spinning:alive(), true)
            spinning:kill()
            client:close()
            t.eq(echo:join(t.patience), true)
        end)
    end,

    waits_that_need_not_wait_do_not_keep_others_waiting = function()
        t.with_workers(1, function()
            local client, server = pair()
            local busy = mare.spawn(function()
                local ch = mare.channel(1)
                while true do
                    ch:send(1)
                    mare.select {ch}
                end
            end)
            client:write "x"
            t.eq(server:read(nil, t.patience), "x")
            t.eq(select(3, server:read(nil, 0.01)), "timeout")
            busy:kill()
        end)
    end,

    workers_that_leave_forget_nothing = function()
        local before = mare.workers()
        for _ = 1, 30 do
            mare.workers(4)
            local processes = {}
            for i = 1, 8 do
                processes[i] = mare.spawn(function()
                    local listener = assert(net.listen("127.0.0.1", 0))
                    local client = assert(net.connect(listener:address()))
                    local server = assert(listener:accept())
                    client:read(1, 0.001)
                    local other = mare.spawn(function() mare.sleep(0.001) return 1 end)
                    server:write "x"
                    return client:read(1), select(2, other:join())
                end)
            end
            mare.workers(1)
            for i = 1, 8 do t.eq({processes[i]:join(t.patience)}, {true, "x", 1}) end
        end
        mare.workers(before)
    end,
}

-- For a process that shall wait in one of them: see sockets_are_closed_when_a_process_is_killed.
return setmetatable(cases, {__index = {waits = function() return waits end}})
