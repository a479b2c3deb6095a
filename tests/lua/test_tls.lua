-- SPDX-License-Identifier: MIT
-- Streams over TLS: what docs/reference/net.md promises of streams holds here too, and what can go
-- wrong. Bad peers are in test_tls_faults.lua, certificates in test_tls_verify.lua, other
-- people's programs in test_tls_peers.lua.
local mare, net, t = require "mare", require "mare.net", require "t"
local tls, raw = require "mare.tls", require "mare._tls"
local sockets = require "sockets"
local fill, go_when_killed = sockets.fill, sockets.go_when_killed

local HERE, patience, in_routines = "127.0.0.1", t.patience, t.in_routines
tls.handshake_time = patience
local certificate, key = assert(tls.selfsigned({"localhost", HERE}))
local server_context = assert(tls.context {certificate = certificate, key = key, verify = false})
local client_context = assert(tls.context {authorities = certificate})
local old_context = assert(tls.context {authorities = certificate, max_version = "1.2"})

-- More than the system takes while nobody reads, and what goes into one record of TLS.
local MUCH, RECORD = 16 << 20, 16384

-- Two ends of a connection; the handshake has begun on neither side.
local function bare_pair(time, context)
    local listener <close> = assert(tls.listen(HERE, 0,
        {context = server_context, handshake_time = time}))
    local client = assert(net.connect(listener:address()))
    assert(raw.secure(client, context or client_context, time or 60, false, "localhost"))
    return client, assert(listener:accept(patience))
end

-- Two ends of a connection.
local function pair(context)
    local client, server = bare_pair(nil, context)
    local shaking = mare.go(function() return client:handshake(patience) end)
    assert(server:handshake(patience))
    t.eq({shaking:join(patience)}, {true, client})
    return client, server
end

-- The calls that wait, each in a state in which it does; what it returns must stay referred to.
local waits = {
    handshake = function()
        local client, server = bare_pair()
        return function() return server:handshake() end, server, client
    end,
    handshake_of_a_client = function()
        local client, server = bare_pair()
        return function() return client:read() end, client, server
    end,
    read = function()
        local client, server = pair()
        return function() return client:read() end, client, server
    end,
    write = function()
        local client, silent = pair()
        return function() return client:write(("x"):rep(MUCH)) end, client, silent
    end,
    shutdown = function()
        local client, silent = pair()
        fill(client) -- there is no room for a farewell
        return function() return client:shutdown() end, client, silent
    end,
}

local cases = {
    -- Reading and writing.

    bytes_go_both_ways = function()
        local client, server = pair()
        t.eq(client:write("a", 1, "b", 2.5), true)
        t.eq(server:read(nil, patience), "a1b2.5")
        t.eq(server:write "back", true)
        t.eq(client:read(4, patience), "back")
        client:close()
        t.fails("closed", server:read())
        t.fails("closed", server:read())
        t.eq(server:read "a", "")
    end,

    the_first_read_or_write_shakes_hands = function()
        local client, server = bare_pair()
        t.eq(client:tls().version, nil)
        local writer = mare.go(function() return client:write "hello\n" end)
        t.eq(server:read("l", patience), "hello")
        t.eq({writer:join(patience)}, {true, true})
        t.eq(client:tls().version, "TLSv1.3")
        t.eq(client:handshake(), client) -- once more is once too often, and no harm
    end,

    whoever_comes_while_others_shake_hands_waits_for_them = function()
        local client, server = bare_pair()
        local readers = in_routines(3, function() return server:read "l" end)
        local writers = in_routines(3, function(i) return server:write(i, "\n") end)
        local asked = in_routines(3, function() return client:read "l" end)
        mare.yield()
        t.eq(client:writewithin(patience, "a\nb\nc\n"), true)
        local got, heard = {}, {}
        for i = 1, 3 do
            t.eq({writers[i]:join(patience)}, {true, true})
            got[i], heard[i] = select(2, readers[i]:join(patience)),
                select(2, asked[i]:join(patience))
        end
        table.sort(got)
        table.sort(heard)
        t.eq({got, heard}, {{"a", "b", "c"}, {"1", "2", "3"}})
    end,

    lines_numbers_and_all_the_rest = function()
        local client, server = pair()
        client:write "one\ntwo\r\n\n"
        client:write "123456"
        client:write(("rest"):rep(50000))
        client:close()
        t.eq({server:read "l", server:read "L", server:read "l"}, {"one", "two\r\n", ""})
        t.eq({server:read(4), server:read(2)}, {"1234", "56"})
        t.ok(server:read("a", patience) == ("rest"):rep(50000))
        t.fails("closed", server:read "l")
    end,

    many_pieces_arrive_in_order = function()
        local client, server = pair()
        local pieces = {}
        for i = 1, 3000 do
            pieces[i] = i % 3 == 0 and "" or i % 3 == 1 and i or ("<%d>"):format(i):rep(i % 50)
        end
        mare.go(function() client:write(table.unpack(pieces)) client:close() end)
        t.ok(server:read("a", patience) == table.concat(pieces))
        t.eq(server:write(), true)
    end,

    every_size_around_that_of_a_record = function()
        local client, server = pair()
        for _, size in ipairs {1, 16383, 16384, 16385, 32768, 65535, 65536, 65537, 200000} do
            local text = ("%d."):rep(size):sub(1, size)
            local writer = mare.go(function() return client:write("", text, "") end)
            t.ok(server:read(size, patience) == text, size)
            t.eq({writer:join(patience)}, {true, true})
        end
    end,

    much_goes_both_ways_at_once = function()
        for version, context in pairs {["TLSv1.2"] = old_context, ["TLSv1.3"] = client_context} do
            local client, server = pair(context)
            t.eq({client:tls().version, server:tls().version}, {version, version})
            local up, down = ("up and"):rep(1 << 19), ("down."):rep(1 << 19)
            local writers = {mare.go(function() return client:write(up) end),
                mare.go(function() return server:write(down) end)}
            local reader = mare.go(function() return server:read(#up) == up end)
            t.ok(client:read(#down, patience) == down)
            t.eq({reader:join(patience)}, {true, true})
            for _, writer in ipairs(writers) do t.eq({writer:join(patience)}, {true, true}) end
        end
    end,

    a_fast_writer_waits_for_a_slow_reader = function() sockets.slow_reader(pair()) end,

    a_write_that_was_given_up_leaves_no_half_record = function()
        local client, server = pair()
        local text = ("0123456789"):rep(8 * RECORD)
        fill(client, text)
        t.fails("timeout", client:writewithin(0)) -- nothing is not written before what came first
        local reader = mare.go(function() return server:read "a" end)
        t.eq(client:writewithin(patience, "end"), true)
        client:close()
        local _, got = reader:join(patience)
        t.eq(got:sub(-3), "end")
        local place = 1 -- in the text, which was begun again with each write
        for at = 1, #got - 3, RECORD do
            local record = got:sub(at, math.min(at + RECORD - 1, #got - 3))
            if record ~= text:sub(place, place + #record - 1) then place = 1 end
            t.ok(record == text:sub(place, place + #record - 1), at .. " of " .. #got)
            place = place + #record
        end
    end,

    who_cannot_say_yet_that_it_stops_to_send_can_give_up = function()
        local client, server = bare_pair()
        t.fails("timeout", server:shutdown(0.01)) -- nobody has shaken hands
        t.fails("timeout", server:shutdown(mare.deadline(0)))
        local reader = mare.go(function() return client:read() end)
        t.eq(server:shutdown(patience), true)
        t.fails("closed", select(2, reader:join(patience)))
    end,

    each_side_can_stop_to_send = function()
        for _, context in ipairs {old_context, client_context} do
            local client, server = pair(context)
            client:write "question"
            t.eq(client:shutdown(), true)
            t.eq(client:shutdown(), true)
            t.eq(server:read("a", patience), "question")
            t.fails("closed", server:read())
            t.eq(server:write "answer", true)
            t.fails("closed", client:write "more")
            server:shutdown()
            t.eq(client:read("a", patience), "answer")
            t.fails("closed", server:write "more")
        end
    end,

    -- Several routines at one stream.

    every_reader_gets_its_line_and_is_told_of_the_end = function()
        local client, server = pair()
        local readers = in_routines(5, function() return server:read "l" end)
        mare.sleep(0.01) -- all wait
        client:write "line\nline\n"
        client:write "line\nline\n"
        client:write "line\n"
        for _, reader in ipairs(readers) do t.eq({reader:join(patience)}, {true, "line"}) end
        readers = in_routines(5, function() return server:read() end)
        mare.sleep(0.01)
        client:shutdown() -- TLS ends, and the connection does not
        for _, reader in ipairs(readers) do
            local _, value, _, code = reader:join(patience)
            t.eq({value, code}, {nil, "closed"})
        end
    end,

    records_that_came_together_wake_as_many_readers = function()
        local client, server = pair()
        local readers = in_routines(8, function() return server:read() end)
        mare.sleep(0.01)
        for i = 1, 8 do client:write(i) end
        local got = {}
        for i, reader in ipairs(readers) do got[i] = select(2, reader:join(patience)) end
        table.sort(got)
        t.eq(table.concat(got), "12345678")
    end,

    every_writer_is_told_that_there_is_room = function()
        local client, server = pair()
        local size = 4 << 20
        local writers = in_routines(5, function() return client:write(("w"):rep(size)) end)
        t.fails("timeout", writers[5]:join(0.05))
        t.eq(#assert(server:read(5 * size, patience)), 5 * size)
        for _, writer in ipairs(writers) do t.eq({writer:join(patience)}, {true, true}) end
    end,

    one_reads_while_another_writes = function()
        local client, server = pair()
        local text = ("y"):rep(3 << 20)
        local echo = mare.go(function()
            for piece in function() return server:read() end do assert(server:write(piece)) end
            server:close()
        end)
        local reader = mare.go(function() return client:read "a" end)
        t.eq(client:write(text), true)
        client:shutdown()
        local _, got = reader:join(patience)
        t.ok(got == text)
        t.eq(echo:join(patience), true)
    end,

    -- In a select.

    select_sees_what_has_been_decrypted = function()
        local client, server = pair()
        client:write "first"
        client:write "second" -- a record of its own, which comes with the first
        t.eq(mare.select({server}, patience), 1)
        t.eq(server:read(5), "first")
        t.eq(mare.select({server}, patience), 1)
        t.eq(server:read(6), "second")
        t.fails("timeout", server:read(nil, 0.01))
        client:close()
        t.eq(mare.select({server, mare.channel()}, patience), 1)
        t.fails("closed", server:read())
    end,

    select_among_many = function()
        local clients, servers = {}, {}
        for i = 1, 5 do clients[i], servers[i] = pair() end
        for _ = 1, 5 do
            for i = 5, 1, -1 do
                local chosen = mare.go(function()
                    local n, got
                    repeat -- it may be told of what was read meanwhile
                        n = assert(mare.select(servers, patience))
                        got = servers[n]:read(nil, 0)
                    until got
                    return n, got
                end)
                mare.yield()
                clients[i]:write "x"
                t.eq({chosen:join(patience)}, {true, i, "x"})
            end
        end
    end,

    -- Time.

    calls_end_at_their_timeout = function()
        for name, begin in pairs(waits) do
            local call, stream, other = begin()
            t.eq(stream:timeout(0.01), stream)
            t.fails("timeout", call())
            t.ok(other:address(), name)
        end
    end,

    a_writer_that_must_read_first_sleeps = function()
        local client, server = bare_pair()
        local before = mare.stats().switches
        t.fails("timeout", client:writewithin(0.1, "x")) -- there is room, and nobody to agree with
        t.ok(mare.stats().switches - before < 1000, mare.stats().switches - before)
        server:close() -- not collected before
    end,

    a_timeout_changes_nothing = function()
        local client, server = pair()
        for i = 1, 20 do
            t.fails("timeout", server:read("l", i % 2 * 0.001))
            client:write(i, "\n")
            t.eq(server:read("l", patience), tostring(i))
        end
    end,

    a_handshake_has_its_own_time = function()
        local client, server = bare_pair(0.02)
        t.fails("timeout", server:read(nil, patience)) -- the client says nothing
        t.fails("timeout", server:write "x")
        t.fails("timeout", client:handshake(patience))
        local first, second = bare_pair(patience)
        t.fails("timeout", second:handshake(0.01)) -- a timeout of the call is one too
        local shaking = mare.go(function() return first:handshake(patience) end)
        t.eq(second:handshake(patience), second)
        t.eq(shaking:join(patience), true)
    end,

    a_silent_client_holds_back_nobody = function()
        local ends = mare.channel(1)
        local function serve(time)
            local listener = assert(tls.listen(HERE, 0,
                {context = server_context, handshake_time = time}))
            mare.go(net.serve, listener, function(stream)
                local line, _, code = stream:read "l"
                if not line then return ends:send(code) end
                stream:write(line, "\n")
            end)
            return listener, assert(net.connect(listener:address()))
        end
        local listener, silent = serve(1000)
        local host, port = listener:address()
        for i = 1, 5 do
            local client <close> = assert(tls.connect(host, port, client_context, patience))
            client:write(i, "\n")
            t.eq(client:read("l", patience), tostring(i))
        end
        silent:close()
        t.eq(ends:receive(patience), "closed")
        listener:close()
        listener, silent = serve(0.05)
        t.eq(ends:receive(patience), "timeout")
        t.eq(silent:read("a", patience), "") -- it was shown the door
        listener:close()
    end,

    -- Who gives up, and who goes.

    a_wait_can_be_cancelled = function()
        for name, begin in pairs(waits) do
            local all = {begin()}
            local routine = mare.go(all[1])
            mare.sleep(0.01)
            t.eq(routine:cancel(), true, name)
            t.fails("cancelled", select(2, routine:join(patience)))
            t.ok(all[2]:address())
        end
    end,

    close_ends_the_waits_of_others = function()
        for name, begin in pairs(waits) do
            local call, stream = begin()
            local routines = in_routines(3, call)
            mare.sleep(0.01)
            t.eq(stream:close(), true, name)
            for _, routine in ipairs(routines) do
                t.fails("closed", select(2, routine:join(patience)))
            end
        end
    end,

    who_closes_while_another_writes_has_not_said_all = function()
        local client, server = pair()
        local writer = mare.go(function() return client:write(("x"):rep(2 * MUCH)) end)
        t.fails("timeout", writer:join(0.01))
        t.eq(#server:read(2 << 20, patience), 2 << 20) -- there may be room for a farewell now
        client:close()
        t.fails("closed", select(2, writer:join(patience)))
        t.fails("io", server:read("a", patience))
    end,

    sockets_are_closed_when_a_process_is_killed = function()
        go_when_killed(waits)
    end,

    sockets_that_nothing_refers_to_are_collected = function()
        local before = sockets.count()
        for i = 1, 20 do
            local client, server = (i % 2 == 0 and pair or bare_pair)()
            client:read(nil, 0)
            server:read(nil, 0)
        end
        collectgarbage()
        collectgarbage()
        t.reaches(function() return sockets.count() <= before end, "sockets are left")
    end,

    after_close_there_is_nothing = function()
        local client, server = pair()
        t.eq({client:close(), client:close()}, {true, false})
        t.fails("closed", client:read())
        t.fails("closed", client:write "x")
        t.fails("closed", client:shutdown())
        t.fails("closed", client:handshake())
        t.eq(server:read("a", patience), "")
    end,

    -- Other processes.

    a_stream_over_tls_changes_hands = function()
        local client, server = pair()
        client:write "one\ntwo\n"
        client:write "three\n"
        t.eq(server:read("l", patience), "one") -- "two" is read and not given out
        local process = mare.spawn(function(mine)
            local two, three = mine:read "l", mine:read("l", patience)
            mine:write "four\n"
            return two, three, mine
        end, server)
        t.eq(client:read("l", patience), "four")
        local ok, two, three, back = process:join(patience)
        t.eq({ok, two, three}, {true, "two", "three"})
        t.eq(back:tls().version, "TLSv1.3")
        back:write "five\n"
        t.eq(client:read("l", patience), "five")
        t.raises("sent to another process", server.tls, server)
        t.raises("sent to another process", server.handshake, server)
    end,

    it_may_do_so_before_the_handshake = function()
        local client, server = bare_pair()
        local process = mare.spawn(function(mine) return mine:read("l", patience) end, server)
        t.eq(client:writewithin(patience, "hello\n"), true)
        t.eq({process:join(patience)}, {true, "hello"})
    end,

    a_listener_takes_its_context_along = function()
        local listener = assert(tls.listen(HERE, 0, {context = server_context}))
        local host, port = listener:address()
        local process = mare.spawn(function(mine)
            local stream = mine:accept(patience)
            stream:write(stream:read("l", patience), "!\n")
            stream:close()
        end, listener)
        local client = assert(tls.connect(host, port, client_context, patience))
        client:write "hello\n"
        t.eq(client:read("a", patience), "hello!\n")
        t.eq(process:join(patience), true)
    end,

    a_stream_wanders_through_processes_and_workers = function()
        t.with_workers(4, function() sockets.wander(pair()) end)
    end,

    many_at_once_with_few_and_many_workers = {function()
        for workers = 1, 4, 3 do
            t.with_workers(workers, function()
                local listener <close> = assert(tls.listen(HERE, 0, {context = server_context}))
                mare.go(net.serve, listener, function(stream)
                    for line in function() return stream:read "l" end do
                        stream:write(line, "!\n")
                    end
                end)
                local host, port = listener:address()
                local processes = {}
                for i = 1, 4 do
                    processes[i] = mare.spawn(function(context)
                        local done = mare.channel(5)
                        for n = 1, 5 do
                            mare.go(function()
                                local stream <close> = assert(require "mare.tls".connect(host, port,
                                    {context = context, name = "localhost"}, patience))
                                for k = 1, 10 do
                                    stream:write(("%d "):rep(k * 300), n, "\n")
                                    assert(#stream:read("l", patience) == 900 * k + 2)
                                end
                                done:send(true)
                            end)
                        end
                        for _ = 1, 5 do assert(done:receive(patience)) end
                    end, client_context)
                end
                for i = 1, 4 do t.eq(processes[i]:join(patience), true) end
            end)
        end
    end, timeout = 120},
}

-- For a process that shall wait in one of them: see sockets_are_closed_when_a_process_is_killed.
return setmetatable(cases, {__index = {waits = function() return waits end}})
