-- SPDX-License-Identifier: MIT
-- Streams and listeners: every promise of docs/reference/net.md, and what can go wrong. Whole
-- programs (full descriptors, slow names, hosts) are in test_net_programs.lua.
local mare, net, t = require "mare", require "mare.net", require "t"

local HERE = "127.0.0.1"

-- Two ends of a connection.
local function pair()
    local listener <close> = assert(net.listen(HERE, 0))
    local client = assert(net.connect(listener:address()))
    return client, assert(listener:accept(t.patience))
end

-- More than the system takes while nobody reads.
local MUCH = 32 << 20

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

-- How many sockets this program has open.
local function sockets()
    local pipe <close> = assert(io.popen "ls -l /proc/$PPID/fd | grep -c socket:")
    return pipe:read "n"
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

-- A peer that is not ours, so that it can do what ours does not: reset the connection.
local function resets(port, before)
    local peer = assert(require "socket".tcp())
    assert(peer:connect(HERE, port))
    if before then assert(peer:send(before)) end
    return function()
        assert(peer:setoption("linger", {on = true, timeout = 0}))
        peer:close()
    end
end

local function in_routines(n, f)
    local routines = {}
    for i = 1, n do routines[i] = mare.go(f, i) end
    return routines
end

local cases = {
    -- Reading and writing.

    read_gives_what_there_is = function()
        local client, server = pair()
        t.eq(client:write("a", 1, "b", 2.5), true)
        t.eq(server:read(), "a1b2.5")
        client:close()
        t.fails("closed", server:read())
        t.fails("closed", server:read())
    end,

    a_number_of_bytes_is_waited_for = function()
        local client, server = pair()
        local reader = mare.go(function()
            return server:read(6), server:read(2.0), server:read(9)
        end)
        client:write "abc"
        mare.yield()
        client:write "defgh"
        mare.yield()
        client:write "ij"
        client:close()
        t.eq({reader:join(t.patience)}, {true, "abcdef", "gh", "ij"}) -- fewer only at the end
        t.fails("closed", server:read(1))
    end,

    lines_end_in_lf_or_crlf = function()
        local client, server = pair()
        client:write "one\ntwo\r\n\n\r\nfour\r\nfive\nsix\rseven"
        client:shutdown()
        local lines = {}
        for i = 1, 4 do lines[i] = server:read "l" end
        t.eq(lines, {"one", "two", "", ""})
        for i = 1, 3 do lines[i] = server:read "L" end
        t.eq(lines, {"four\r\n", "five\n", "six\rseven", ""})
        t.fails("closed", server:read "l")
    end,

    all_is_up_to_the_end = function()
        local client, server = pair()
        local text = ("0123456789"):rep(50000)
        mare.go(function()
            client:write(text)
            client:shutdown()
        end)
        t.eq(server:read "l" == nil, true) -- too long, and still there
        t.ok(server:read "a" == text)
        t.eq(server:read "a", "")
    end,

    a_line_beyond_the_limit_is_refused_however_it_comes = function()
        local client, server = pair()
        t.eq(server:limit(10), server)
        client:write("0123456789\r\n", "0123456789\n", "01234567890\n")
        t.eq(server:read "l", "0123456789")
        t.eq(server:read "L", "0123456789\n")
        t.fails("toobig", server:read "l")
        t.fails("toobig", server:read "L")
        t.eq(server:read(12), "01234567890\n") -- it can be read otherwise
        client:write "0123456789\r" -- may yet become a line that is not too long
        t.fails("timeout", server:read("l", 0.01))
        client:write "\n"
        t.eq(server:read("l", t.patience), "0123456789")
        client:write "01234567890" -- cannot
        t.fails("toobig", server:read("l", t.patience))
        client:close()
        t.fails("toobig", server:read "l")
    end,

    many_pieces_arrive_in_order = function()
        local client, server = pair()
        local pieces = {}
        for i = 1, 5000 do
            pieces[i] = i % 3 == 0 and "" or i % 3 == 1 and i or ("<%d>"):format(i)
        end
        mare.go(function() client:write(table.unpack(pieces)) client:close() end)
        t.ok(server:read "a" == table.concat(pieces))
        t.eq(server:write(), true) -- nothing, and that works always
    end,

    each_side_can_stop_to_send = function()
        local client, server = pair()
        client:write "question"
        t.eq(client:shutdown(), true)
        t.eq(server:read "a", "question")
        t.fails("closed", server:read())
        t.eq(server:write "answer", true)
        t.fails("closed", client:write "more")
        server:shutdown()
        t.eq(client:read "a", "answer")
        t.fails("closed", server:write "more")
    end,

    what_was_not_asked_for_stays = function()
        local client, server = pair()
        client:write "one\ntwo\nthree"
        t.eq({server:read "l", server:read(2), server:read()}, {"one", "tw", "o\nthree"})
        client:write "par"
        t.fails("timeout", server:read("l", 0.01))
        t.fails("timeout", server:read(7, 0.01))
        client:write "tial\n"
        t.eq(server:read("l", t.patience), "partial")
    end,

    a_fast_writer_waits_for_a_slow_reader = function()
        local client, server = pair()
        local chunk, written = ("x"):rep(1 << 20), 0
        local before = collectgarbage "count"
        local writer = mare.go(function()
            for _ = 1, 64 do
                assert(client:write(chunk))
                written = written + 1
            end
            client:close()
        end)
        t.fails("timeout", writer:join(0.2)) -- it cannot be done: nobody has read
        local stopped = written
        t.ok(stopped < 32, stopped) -- the system's buffers are smaller than that
        local got = 0
        for piece in function() return server:read() end do
            got = got + #piece
            t.ok(collectgarbage "count" - before < 8192, "memory grows")
        end
        t.eq(got, 64 << 20)
        t.eq(writer:join(t.patience), true)
    end,

    megabytes_pass_through_a_tiny_buffer = function()
        local listener <close> = assert(net.listen(HERE, 0))
        local _, port = listener:address()
        local peer = assert(require "socket".tcp4())
        assert(peer:setoption("recv-buffer-size", 1024))
        assert(peer:connect(HERE, port))
        local server = listener:accept()
        local text = ("0123456789abcdef"):rep(3 << 16)
        local writer = mare.go(function()
            assert(server:write(text))
            server:shutdown()
        end)
        local got, closed = {}, false
        peer:settimeout(0)
        while not closed do
            local piece, why, rest = peer:receive(4096)
            got[#got + 1] = piece or rest
            closed = why == "closed"
            mare.yield()
        end
        t.ok(table.concat(got) == text)
        t.eq(writer:join(t.patience), true)
        assert(peer:send(text:sub(1, 1000)))
        t.ok(server:read(1000) == text:sub(1, 1000)) -- the other way is open
        peer:close()
    end,

    -- Several routines at one stream.

    one_reads_while_another_writes = function()
        local client, server = pair()
        local text = ("y"):rep(5 << 20)
        local echo = mare.go(function()
            for piece in function() return server:read() end do assert(server:write(piece)) end
            server:close()
        end)
        local reader = mare.go(function() return client:read "a" end)
        t.eq(client:write(text), true)
        client:shutdown()
        local _, got = reader:join(t.patience)
        t.ok(got == text)
        t.eq(echo:join(t.patience), true)
    end,

    every_writer_is_told_that_there_is_room = function()
        local client, server = pair()
        local size = 4 << 20
        local writers = in_routines(5, function() return client:write(("w"):rep(size)) end)
        t.fails("timeout", writers[5]:join(0.05))
        t.eq(#assert(server:read(5 * size, t.patience)), 5 * size)
        for _, writer in ipairs(writers) do t.eq({writer:join(t.patience)}, {true, true}) end
    end,

    every_reader_of_lines_gets_its_line = function()
        local client, server = pair()
        local readers = in_routines(5, function() return server:read "l" end)
        mare.sleep(0.01) -- all wait
        client:write "line\nline\nline\nline\nline\n"
        for _, reader in ipairs(readers) do t.eq({reader:join(t.patience)}, {true, "line"}) end
    end,

    every_reader_is_told_of_the_end = function()
        local client, server = pair()
        local readers = in_routines(5, function() return server:read() end)
        mare.sleep(0.01)
        client:close()
        for _, reader in ipairs(readers) do
            local _, value, _, code = reader:join(t.patience)
            t.eq({value, code}, {nil, "closed"})
        end
    end,

    several_can_accept = function()
        local listener <close> = assert(net.listen(HERE, 0))
        local acceptors = in_routines(5, function() return listener:accept() end)
        for _ = 1, 5 do t.ok(net.connect(listener:address())) end
        for _, acceptor in ipairs(acceptors) do t.ok(select(2, acceptor:join(t.patience))) end
    end,

    -- Connections that are not, or not any more.

    nobody_listens = function()
        local listener = assert(net.listen(HERE, 0))
        local _, port = listener:address()
        listener:close()
        t.reaches(function() return select(3, net.connect(HERE, port)) == "refused" end)
    end,

    the_peer_resets = function()
        local listener <close> = assert(net.listen(HERE, 0))
        local _, port = listener:address()
        local reset = resets(port, "hello")
        local stream = listener:accept()
        t.eq(stream:read(), "hello")
        reset()
        for _ = 1, 3 do t.fails("closed", stream:read(nil, t.patience)) end
        t.fails("closed", stream:write "x")
        t.fails("closed", stream:read("l", t.patience))
    end,

    the_peer_resets_while_a_routine_waits = function()
        local listener <close> = assert(net.listen(HERE, 0))
        local _, port = listener:address()
        local reset = resets(port)
        local stream = listener:accept()
        local chunk = ("x"):rep(65536)
        local reader = mare.go(function() return stream:read() end)
        local writer = mare.go(function()
            while true do
                local ok, message, code = stream:write(chunk)
                if not ok then return ok, message, code end
            end
        end)
        t.fails("timeout", writer:join(0.1))
        reset()
        t.fails("closed", select(2, reader:join(t.patience)))
        t.fails("closed", select(2, writer:join(t.patience)))
    end,

    the_peer_goes_while_a_routine_writes = function()
        local client, silent = pair()
        local writer = mare.go(function() return client:write(("x"):rep(MUCH)) end)
        t.fails("timeout", writer:join(0.05))
        silent:close() -- unread bytes: a reset
        t.fails("closed", select(2, writer:join(t.patience)))
    end,

    a_connection_that_was_reset_in_line_is_passed_over = function()
        local listener <close> = assert(net.listen(HERE, 0))
        local _, port = listener:address()
        resets(port)()
        local client <close> = assert(net.connect(HERE, port))
        client:write "hi"
        local stream = assert(listener:accept(t.patience))
        local got, _, code = stream:read(nil, t.patience)
        if not got then -- the system hands out one that was reset
            t.eq(code, "closed")
            got = assert(listener:accept(t.patience)):read(nil, t.patience)
        end
        t.eq(got, "hi")
    end,

    -- Names.

    numbers_resolve_to_themselves = function()
        t.eq(net.resolve "127.0.0.1", {"127.0.0.1"})
        t.eq(net.resolve("::1", 1), {"::1"})
    end,

    names_resolve = function()
        local found = {}
        for _, address in ipairs(assert(net.resolve("localhost", t.patience))) do
            found[address] = true
        end
        t.ok(found["127.0.0.1"] or found["::1"])
        local listener <close> = assert(net.listen("localhost", 0))
        local host, port = listener:address()
        t.ok(found[host], host)
        t.ok(net.connect("localhost", port, t.patience)) -- every address is tried
    end,

    names_that_cannot_be = function()
        for _, name in ipairs {"a..b", ("x"):rep(300), ("x."):rep(200), "bad name", "-"} do
            local ok, message, code = net.resolve(name, t.patience)
            t.eq({ok, code}, {nil, "noname"}, name)
            t.ok(message:find(name, 1, true), message)
        end
        t.fails("noname", net.connect("a..b", 80))
        t.fails("noname", net.listen("a..b", 80))
    end,

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
        local before = sockets()
        for name in pairs(waits) do
            local file, waiting = debug.getinfo(1, "S").source:sub(2), mare.channel()
            local process = mare.spawn(function()
                package.path = file:match "^(.*)/" .. "/?.lua;" .. package.path
                local call, a, b, c = assert(loadfile(file))().waits()[name]()
                local _ <close> = setmetatable({a, b, c}, {__close = function() end})
                mare.go(function() waiting:send(true) end)
                call()
            end)
            t.eq(waiting:receive(t.patience), true, name)
            process:kill()
            t.fails("killed", process:join(t.patience))
        end
        t.reaches(function() return sockets() <= before end, "sockets are left")
    end,

    sockets_are_closed_when_a_process_ends = function()
        local before = sockets()
        t.ok(mare.spawn(function()
            local listener = assert(net.listen("127.0.0.1", 0))
            local client = assert(net.connect(listener:address()))
            debug.getregistry().kept = {listener, client, listener:accept()}
            client:read(nil, 0.001)
        end):join(t.patience))
        t.reaches(function() return sockets() <= before end, "sockets are left")
    end,

    sockets_that_nothing_refers_to_are_collected = function()
        local before = sockets()
        for _ = 1, 50 do
            local client, server = pair()
            t.fails("timeout", client:read(nil, 0))
            server:write "x"
        end
        collectgarbage()
        collectgarbage()
        t.reaches(function() return sockets() <= before end, "sockets are left")
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

    -- Servers.

    serve_runs_a_routine_for_each = function()
        local listener = assert(net.listen(HERE, 0))
        local server = mare.go(net.serve, listener, function(stream, a, b)
            stream:write(a, b, stream:read "l", "\n")
        end, "x", 1)
        local clients = {}
        for i = 1, 20 do clients[i] = assert(net.connect(listener:address())) end
        for i = 20, 1, -1 do clients[i]:write(i, "\n") end
        for i = 1, 20 do t.eq(clients[i]:read("a", t.patience), "x1" .. i .. "\n") end
        listener:close()
        t.fails("closed", select(2, server:join(t.patience)))
    end,

    serve_can_be_cancelled = function()
        local listener = assert(net.listen(HERE, 0))
        local server = mare.go(net.serve, listener, function(stream)
            stream:write(stream:read "l")
        end)
        local client = assert(net.connect(listener:address()))
        t.fails("timeout", server:join(0.01))
        t.eq(server:cancel(), true)
        t.fails("cancelled", select(2, server:join(t.patience)))
        client:write "served\n" -- by a routine that goes on
        t.eq(client:read("a", t.patience), "served")
        t.eq(listener:close(), true)
    end,

    a_thousand_at_once = {function()
        local pipe <close> = assert(io.popen "ulimit -n")
        local n = 1000
        if (tonumber(pipe:read "l") or math.huge) < 2 * n + 100 then
            t.skip "too few descriptors"
        end
        local listener = assert(net.listen(HERE, 0))
        mare.go(net.serve, listener, function(stream)
            for line in function() return stream:read "l" end do stream:write(line, "!\n") end
        end)
        local clients = {}
        for i = 1, n do clients[i] = assert(net.connect(listener:address())) end
        for round = 1, 3 do
            for i = 1, n do clients[i]:write(i, ".", round, "\n") end
            for i = n, 1, -1 do
                t.eq(clients[i]:read("l", t.patience), i .. "." .. round .. "!")
            end
        end
        for i = 1, n do clients[i]:close() end
        listener:close()
    end, timeout = 120},

    a_port_can_be_shared = function()
        local first = assert(net.listen(HERE, 0, {shared = true}))
        local _, port = first:address()
        t.fails("exists", net.listen(HERE, port)) -- only by those who say so
        local names = mare.channel(100)
        local function server(listener, name)
            while true do
                local stream = listener:accept()
                if not stream then return end
                stream:write(name)
                stream:close()
            end
        end
        local second = mare.spawn(function()
            local listener = assert(net.listen("127.0.0.1", port, {shared = true}))
            names:send "listens"
            server(listener, "second")
        end)
        t.eq(names:receive(t.patience), "listens")
        mare.go(server, first, "first")
        local counts = {first = 0, second = 0}
        for _ = 1, 100 do
            local name = assert(net.connect(HERE, port)):read("a", t.patience)
            counts[name] = counts[name] + 1
        end
        t.ok(counts.first > 0 and counts.second > 0, t.show(counts)) -- 1 in 2^99 otherwise
        first:close()
        second:kill()
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

    a_waiting_stream_wanders_through_processes = function()
        local client, server = pair()
        local box, home = mare.channel(), mare.channel()
        for _ = 1, 4 do
            mare.spawn(function()
                for stream in box:messages() do
                    stream:write(stream:read "l", "\n")
                    home:send(stream)
                end
            end)
        end
        for i = 1, 200 do
            mare.go(function() box:send(server) end)
            client:write(i, "\n")
            t.eq(client:read("l", t.patience), tostring(i))
            server = home:receive(t.patience)
        end
        box:close()
    end,

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

    -- Unix-domain sockets.

    paths = function()
        local path = os.tmpname()
        t.fails("exists", net.listen(path))
        os.remove(path)
        local listener = assert(net.listen(path))
        t.eq({listener:address()}, {path})
        t.fails("exists", net.listen(path))
        local client = assert(net.connect(path))
        local server = assert(listener:accept(t.patience))
        t.eq({client:peer()}, {path})
        t.eq({server:address()}, {path})
        t.eq({server:peer()}, {""})
        client:write "through\n"
        t.eq(server:read "l", "through")
        listener:close()
        t.fails("refused", net.connect(path)) -- the path stays, and nobody is behind it
        t.fails("exists", net.listen(path))
        os.remove(path)
        t.fails("io", net.connect(path))
        t.fails("io", net.listen "/nowhere/at/all")
        t.eq(server:write "still", true)
        t.eq(client:read(5), "still")
        t.raises("the path is too long", net.listen, "/" .. ("x"):rep(107))
        t.raises("the path is too long", net.connect, "/" .. ("x"):rep(200))
        t.fails("io", net.connect("/" .. ("x"):rep(106)))
    end,

    -- Addresses, and misuse.

    ipv6 = function()
        local listener, message = net.listen("::1", 0)
        if not listener then t.skip("no IPv6: " .. message) end
        local host, port = listener:address()
        t.eq(host, "::1")
        local client = assert(net.connect(host, port))
        local server = assert(listener:accept(t.patience))
        t.eq({client:peer()}, {"::1", port})
        t.eq({server:peer()}, {client:address()})
        client:write "six"
        t.eq(server:read(), "six")
    end,

    addresses = function()
        local listener <close> = assert(net.listen(HERE, 0))
        local client = assert(net.connect(listener:address()))
        local server = assert(listener:accept(t.patience))
        t.eq({client:peer()}, {listener:address()})
        t.eq({server:peer()}, {client:address()})
        t.eq({server:address()}, {listener:address()})
        t.fails("exists", net.listen(listener:address()))
        t.fails("io", net.listen("192.0.2.1", 0)) -- no address of this machine
        t.ok(tostring(client):find "^stream %d+$")
        t.ok(tostring(listener):find "^listener %d+$")
    end,

    misuse_is_an_error = function()
        local client, server = pair()
        local listener <close> = assert(net.listen(HERE, 0))
        for _, port in ipairs {-1, 65536, 1 << 40} do
            t.raises("between 0 and 65535", net.connect, HERE, port)
            t.raises("between 0 and 65535", net.listen, HERE, port)
        end
        t.raises("integer", net.connect, HERE, 1.5)
        t.raises("#1 to 'connect' %(string expected, got no value", net.connect)
        t.raises("#1 to 'listen' %(string expected, got table", net.listen, {}, 1)
        t.raises("#2 to 'connect' %(number expected, got no value", net.connect, HERE)
        t.raises("#2 to 'connect' %(number expected, got string", net.connect, HERE, "80")
        t.raises("#3 to 'connect' %(number expected, got string", net.connect, HERE, 80, "soon")
        t.raises("#2 to 'listen' %(number expected, got no value", net.listen, HERE)
        t.raises("#3 to 'listen' %(table expected, got number", net.listen, HERE, 0, 5)
        t.raises("a backlog is between", net.listen, HERE, 0, {backlog = 0})
        t.raises("string expected", net.resolve)
        t.raises("string", net.resolve, {})
        t.raises("positive", server.read, server, 0)
        t.raises("positive", server.read, server, -1)
        t.raises("integer", server.read, server, 1.5)
        t.raises("expected a number of bytes", server.read, server, "x")
        t.raises("expected a number of bytes", server.read, server, "*l")
        t.raises("expected a number of bytes", server.read, server, {})
        t.raises("deadline", server.read, server, nil, "x")
        t.raises("deadline", server.read, server, nil, {})
        t.raises("#2 to 'write' %(string expected, got table", function() client:write("x", {}) end)
        t.raises("string expected, got nil", client.write, client, nil)
        t.raises("deadline", client.writewithin, client)
        t.raises("deadline", client.writewithin, client, "x")
        t.raises("negative", client.timeout, client, -1)
        t.raises("negative", client.timeout, client, 0 / 0)
        t.raises("number expected", client.timeout, client, "x")
        t.raises("positive", client.limit, client, 0)
        t.raises("number expected", client.limit, client)
        t.raises("stream expected", client.read, listener)
        t.raises("stream expected", client.read, 5)
        t.raises("listener expected", listener.accept, client)
        t.raises("stream expected", client.close, mare.channel())
        t.eq(select(3, server:read(nil, 0)), "timeout") -- nothing of it was written
    end,

    where_one_cannot_wait_it_is_said = function()
        local client, server = pair()
        t.raises("cannot wait here", table.sort, {2, 1}, function() return client:read() end)
        t.eq(server:write "x", true)
    end,
}

-- For a process that shall wait in one of them: see sockets_are_closed_when_a_process_is_killed.
return setmetatable(cases, {__index = {waits = function() return waits end}})
