-- SPDX-License-Identifier: MIT
-- Streams and listeners: every promise of docs/reference/net.md, and what can go wrong. What ends a
-- wait, and what becomes of the sockets of processes and workers, is in test_net_wait.lua; whole
-- programs (full descriptors, slow names, hosts) are in test_net_programs.lua.
local mare, net, t = require "mare", require "mare.net", require "t"
local sockets, in_routines = require "sockets", t.in_routines
local pair, MUCH = sockets.pair, sockets.MUCH

local HERE = "127.0.0.1"

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

return {
    failures_say_where_and_what_to_try = function()
        local raw = require "mare._net"
        local bound = assert(raw.open("inet", "stream")) -- its port is nobody else's: it refuses
        assert(raw.bind(bound, HERE, 0))
        local _, port = bound:address()
        local where = HERE .. ":" .. port
        local _, message, code = net.connect(HERE, port)
        t.eq({message, code}, {"cannot connect to " .. where
            .. ": Connection refused (is the server running, and does it listen there?)",
            "refused"})
        _, message = require "mare.http".get("http://" .. where .. "/")
        t.ok(message:find(where, 1, true), message)
        local listener <close> = assert(net.listen(HERE, 0))
        local _, taken = listener:address()
        _, message, code = net.listen(HERE, taken)
        t.eq({message, code}, {"cannot listen at " .. HERE .. ":" .. taken
            .. ": Address already in use (another program listens there, or this one does already)",
            "exists"})
        _, message = net.connect "/nowhere/socket"
        t.eq(message, "cannot connect to /nowhere/socket: No such file or directory")
        bound:close()
    end,

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

    a_loop_over_lines_ends_with_the_connection = function()
        local client, server = pair()
        local said = {}
        local reader = mare.go(function()
            for line in server:lines() do said[#said + 1] = line end
            return "the end"
        end)
        client:write "one\ntw"
        t.reaches(function() return #said == 1 end) -- and it waits for the rest
        client:write "o\r\nthree"
        client:close()
        t.eq({reader:join(t.patience)}, {true, "the end"})
        t.eq(said, {"one", "two", "three"})
        client, server = pair()
        client:write "a\r\nb"
        client:close()
        t.eq({server:lines "L"(server), server:lines "L"(server)}, {"a\r\n", "b"})
        t.eq({server:lines()(server)}, {})
        server:close()
        t.eq({server:lines()(server)}, {})
        t.raises("invalid option 'a'", server.lines, server, "a")
        t.raises("stream expected", server.lines, io.stdout)
    end,

    a_loop_over_lines_fails_as_a_read_does = function()
        local client, server = pair()
        local loop = server:lines()
        server:limit(10):timeout(0.01)
        t.raises("^[^:]*:%d+: the deadline passed$", function() for _ in loop, server do end end)
        server:timeout(t.patience)
        client:write(("x"):rep(20))
        t.raises("the line is longer than 10 bytes", loop, server)
        server:limit(100)
        local reader = mare.go(function() for _ in loop, server do end end)
        t.reaches(function() return not reader:cancel() end)
        t.eq((select(3, reader:join(t.patience))), "died")
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

    a_fast_writer_waits_for_a_slow_reader = function() sockets.slow_reader(pair()) end,

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
        local n = t.gc_stress and 200 or 1000
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
        for _, name in ipairs {"listen", "connect", "udp"} do
            for why, wrong in pairs {["the path is too long"] = "/" .. ("x"):rep(107),
                    ["a name cannot contain zero bytes"] = "/tmp/a\0b"} do
                t.raises(("^[^:]*test_net.lua:%%d+: bad argument #1 to '%s' %%(%s%%)$"):format(name,
                    why), function() net[name](wrong) end)
            end
        end
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
        local tls = require "mare.tls"
        for name, f in pairs {connect = tls.connect, listen = tls.listen, udp = net.udp} do
            local here = "test_net.lua:%d+: bad argument #2 to '" .. name .. "' %(a port is"
            t.raises(here, function() return (f(HERE, 99999)) end)
        end
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
