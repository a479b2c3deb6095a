-- SPDX-License-Identifier: MIT
-- Programs that use the network, as wholes: how they end, what they do without descriptors, with a
-- resolver that does not answer, and under the stock interpreter.
local t, shell = require "t", require "shell"

local HEAD = "local mare, net = require 'mare', require 'mare.net'\n"

local function prints(expected, text)
    local got = shell.lua(HEAD .. text)
    t.eq({out = got.out, err = got.err, code = got.code}, {out = expected, err = "", code = 0})
end

-- A program for the stock interpreter, which finds what is written in Lua beside these tests.
local function stock(text)
    if not shell.has_stock() then t.skip "no lua5.4 that can load mare.so" end
    local library = debug.getinfo(1, "S").source:match "^@(.*)tests/lua/" .. "lua/?.lua"
    local path = ("package.path = %q .. package.path\n"):format(library .. ";")
    return shell.stock(path .. HEAD .. text)
end

-- Runs a program whose only name server never answers: 127.77.77.77, where a socket of its own
-- listens and is never read; the resolver waits so many seconds. Needs a file system of one's own.
local function with_silent_server(seconds, text)
    local server <close> = shell.file(("nameserver 127.77.77.77\noptions timeout:%d attempts:1\n")
        :format(seconds))
    local program <close> = shell.file(HEAD .. [[
        local silent = require "socket".udp()
        if not silent:setsockname("127.77.77.77", 53) then print "cannot" os.exit(3) end
    ]] .. text)
    local got = shell.run(("unshare -m sh -c 'mount --bind %s /etc/resolv.conf || exit 3; "
        .. "exec %s %s'"):format(server, shell.mare, program))
    if got.code == 3 or got.err:find "unshare" then t.skip "no name server of one's own here" end
    return got
end

-- Runs a program in a network of its own: 10.83.0.1 on the interface `full`, behind which nobody
-- says where 10.83.0.2 is, so that what is sent there is kept: for three seconds, or where that can
-- be said for longer than a machine stands still.
local function with_silent_neighbour(text)
    local program <close> = shell.file(HEAD .. text)
    local got = shell.run(("unshare -n sh -c '(ip link add full type veth peer name other && "
        .. "ip addr add 10.83.0.1/24 dev full && ip link set full up && ip link set other up) || "
        .. "exit 3; ip ntable change name arp_cache dev full mcast_probes 100 2>/dev/null; "
        .. "exec %s %s'"):format(shell.mare, program))
    if got.code == 3 or got.err:find "unshare" then t.skip "no network of one's own here" end
    return got
end

return {
    -- The end.

    open_streams_do_not_keep_a_program = function()
        prints("over\n", [[
            local listener = assert(net.listen("127.0.0.1", 0))
            local client = assert(net.connect(listener:address()))
            local server = listener:accept()
            mare.spawn(function(server) mare.self():kill() server:read() end, server)
            print "over"
        ]])
    end,

    exit_ends_those_who_wait = function()
        prints("", [[
            local listener = assert(net.listen("127.0.0.1", 0))
            local client = assert(net.connect(listener:address()))
            mare.go(function() client:read() end)
            mare.go(function() listener:accept(1000) listener:accept(1000) end)
            mare.go(function() net.resolve "localhost" os.exit(0) end)
            mare.spawn(function(text) net.connect("127.0.0.1", 1) end)
        ]])
    end,

    who_waits_for_a_stream_is_not_stuck = function()
        prints("late\n", [[
            local listener = assert(net.listen("127.0.0.1", 0))
            local _, port = listener:address()
            io.popen(("sleep 0.2; python3 -c 'import socket; "
                .. "socket.create_connection((\"127.0.0.1\", %d)).sendall(b\"late\")'")
                :format(port))
            print(listener:accept():read "a")
        ]])
    end,

    a_stream_that_nobody_waited_for_does_not_hide_a_deadlock = function()
        local got = shell.lua(HEAD .. [[
            local listener = assert(net.listen("127.0.0.1", 0))
            mare.channel():receive()
        ]])
        t.eq(got.code, 1)
        t.ok(got.err:find "wait", got.err)
    end,

    who_waits_for_a_stream_in_memory_may_be_stuck = function()
        local got = shell.lua(HEAD .. [[
            local a, b = net.pair()
            a:read()
        ]])
        t.eq(got.code, 1)
        t.ok(got.err:find "deadlock: every process waits", got.err)
    end,

    a_handler_that_fails_closes_its_stream_and_no_other = function()
        local got = shell.lua(HEAD .. [[
            local listener = assert(net.listen("127.0.0.1", 0))
            mare.go(net.serve, listener, function(stream)
                if stream:read "l" == "fail" then error "as told" end
                stream:write "fine"
            end)
            local bad = assert(net.connect(listener:address()))
            local good = assert(net.connect(listener:address()))
            bad:write "fail\n"
            print(bad:read("a", 100))
            good:write "go\n"
            print(good:read("a", 100))
            listener:close()
        ]])
        t.eq({got.out, got.code}, {"\nfine\n", 0})
        t.ok(got.err:find "as told", got.err)
    end,

    handlers_that_fail_leave_room_for_others = function()
        local got = shell.lua(HEAD .. [[
            local listener = assert(net.listen("127.0.0.1", 0, {limit = 2}))
            local now, most = 0, 0
            mare.go(net.serve, listener, function(stream)
                now = now + 1
                most = math.max(most, now)
                local _ <close> = setmetatable({}, {__close = function() now = now - 1 end})
                stream:write "hello\n"
                stream:read()
                error "on purpose"
            end)
            local clients, served = {}, 0
            for i = 1, 7 do clients[i] = assert(net.connect(listener:address())) end
            for _, client in ipairs(clients) do
                if client:read("l", 60) == "hello" then served = served + 1 end
                client:close()
            end
            print(served, most)
            os.exit(0)
        ]])
        t.eq({got.out, got.code}, {"7\t2\n", 0})
        t.ok(got.err:find "on purpose", got.err)
    end,

    -- Without descriptors.

    a_server_outlives_a_want_of_descriptors = function()
        local program <close> = shell.file(HEAD .. [[
            local listener = assert(net.listen("127.0.0.1", 0))
            local host, port = listener:address()
            mare.go(net.serve, listener, function(stream)
                for line in function() return stream:read "l" end do stream:write(line, "\n") end
            end)
            local first = assert(net.connect(host, port))
            local function echo(stream, text, patience)
                stream:write(text, "\n")
                return stream:read("l", patience)
            end
            assert(echo(first, "a", 10) == "a")
            local files = {}
            repeat
                local file = io.open "/dev/null"
                files[#files + 1] = file
            until not file
            assert(select(3, net.connect(host, port)) == "io") -- neither for this side
            files[1]:close()
            local second = assert(net.connect(host, port))
            assert(select(3, echo(second, "b", 0.3)) == "timeout") -- nor for the other
            assert(echo(first, "c", 100) == "c") -- who was served is served
            for i = 2, 10 do files[i]:close() end
            assert(second:read("l", 100) == "b") -- and who waited is, in the end
            print "served"
            os.exit(0)
        ]])
        local got = shell.run(("ulimit -n 64; %s %s"):format(shell.mare, program))
        t.eq({got.out, got.err, got.code}, {"served\n", "", 0})
    end,

    -- However many descriptors are left when the first loop is made.
    without_descriptors_nothing_can_be_watched = function()
        local program <close> = shell.file(HEAD .. [[
            local listener = assert(net.listen("127.0.0.1", 0))
            local host, port = listener:address()
            local files = {}
            repeat
                local file = io.open "/dev/null"
                files[#files + 1] = file
            until not file
            for i = 1, tonumber(arg[1]) do files[i]:close() end
            local stream, message, code = listener:accept(0.01)
            assert(code == "timeout" or code == "nomem" or code == "io", code)
            for i = tonumber(arg[1]) + 1, #files do files[i]:close() end
            assert(select(3, listener:accept(0.01)) == "timeout")
            local client = assert(net.connect(host, port))
            assert(client:write "fine" and listener:accept():read(4) == "fine")
            os.exit(0)
        ]])
        for left = 0, 10 do
            local got = shell.run(("ulimit -n 64; %s %s %d"):format(shell.mare, program, left))
            t.eq({got.err, got.code}, {"", 0}, left .. " left")
        end
    end,

    -- A worker has a loop of its own, if there are descriptors for one.
    without_descriptors_for_its_own_loop_a_worker_has_anothers = function()
        local program <close> = shell.file(HEAD .. [[
            mare.workers(4)
            local listener = assert(net.listen("127.0.0.1", 0))
            local clients, streams = {}, {}
            for i = 1, 16 do
                clients[i] = assert(net.connect(listener:address()))
                streams[i] = assert(listener:accept())
            end
            assert(select(3, listener:accept(0.01)) == "timeout") -- there is a loop
            local files = {}
            repeat
                local file = io.open "/dev/null"
                files[#files + 1] = file
            until not file
            local waited, readers = mare.channel(), {}
            for i = 1, 16 do
                readers[i] = mare.spawn(function(stream)
                    for _ = 1, 1e6 do end -- so that each worker takes some
                    waited:send(select(3, stream:read(nil, 0.01)))
                    return stream:read(5)
                end, streams[i])
            end
            for _ = 1, 16 do assert(waited:receive() == "timeout") end
            for i = 1, 16 do
                clients[i]:write "hello"
                assert(select(2, readers[i]:join()) == "hello")
            end
            os.exit(0)
        ]])
        local got = shell.run(("ulimit -n 96; %s %s"):format(shell.mare, program))
        t.eq({got.err, got.code}, {"", 0})
    end,

    -- Names.

    a_slow_name_obeys_deadlines_and_holds_back_nobody = function()
        local got = with_silent_server(30, [[
            mare.workers(1)
            local began = mare.now()
            local asking = mare.go(net.resolve, "name.example")
            for _ = 1, 5 do mare.sleep(0.01) end
            print(mare.spawn(function() mare.sleep(0.01) end):join(), asking:status())
            asking:cancel()
            print(select(3, net.resolve("name.example", 0.2)))
            print(select(3, net.connect("name.example", 80, mare.deadline(0.05))))
            local socket = assert(net.udp())
            print(select(3, socket:send("x", "name.example", 80, 0.05)))
            local routine = mare.go(net.resolve, "name.example")
            mare.sleep(0.05)
            routine:cancel()
            print(select(4, routine:join()))
            local process = mare.spawn(function() net.resolve "name.example" end)
            mare.sleep(0.05)
            process:kill()
            print(select(3, process:join()))
            print(#net.resolve "127.0.0.1")
            print(mare.now() - began < 30)
        ]])
        t.eq({got.out, got.err, got.code}, {"true\talive\ntimeout\ntimeout\ntimeout\ncancelled\n"
            .. "killed\n1\ntrue\n", "", 0})
    end,

    a_name_that_nobody_answers_for_does_not_resolve = function()
        local got = with_silent_server(1, "print(select(3, net.resolve 'name.example'))")
        t.eq({got.out, got.err, got.code}, {"noname\n", "", 0})
    end,

    -- Hosts.

    a_host_serves_and_asks = function()
        local got = stock [[
            local listener = assert(net.listen("127.0.0.1", 0))
            local host, port = listener:address()
            local process = mare.spawn(function(port)
                local stream = assert(net.connect("localhost", port))
                for _ = 1, 3000 do assert(stream:write(("x"):rep(1000))) end
                stream:shutdown()
                return #stream:read "a"
            end, port)
            local stream = assert(listener:accept(20))
            print(select(3, listener:accept(0.01)))
            print(#stream:read(3000000))
            local text = ("y"):rep(20000000) -- waits thousands of times, on one stack
            print(stream:write(text), stream:close(), process:join())
            print(select(3, net.connect(host, 1)), select(3, stream:read()))
            print(pcall(mare.go, print))
        ]]
        t.eq(got.err, "")
        t.eq(got.out:match "^(.-)false",
            "timeout\n3000000\ntrue\ttrue\ttrue\t20000000\nrefused\tclosed\n")
        t.eq(got.code, 0)
    end,

    a_reader_in_a_host_may_wait_as_often_as_it_likes = function()
        local got = stock [[
            local listener = assert(net.listen("127.0.0.1", 0))
            mare.spawn(function(port)
                local stream = assert(net.connect("127.0.0.1", port))
                for _ = 1, 1000 do
                    stream:write "x"
                    mare.sleep(0.0005)
                end
            end, select(2, listener:address()))
            print(#listener:accept():read "a")
        ]]
        t.eq({got.out, got.err, got.code}, {"1000\n", "", 0})
    end,

    a_host_that_ends_closes_all = function()
        local got = stock [[
            local listener = assert(net.listen("127.0.0.1", 0))
            Client = assert(net.connect(listener:address()))
            mare.spawn(function(stream) print(#stream:read "a") end, assert(listener:accept()))
        ]]
        t.eq({got.out, got.err, got.code}, {"0\n", "", 0})
    end,

    what_needs_routines_says_so_at_once_in_a_host = function()
        local got = stock [[
            local http, scheduler = require "mare.http", require "mare.scheduler"
            local listener = assert(net.listen("127.0.0.1", 0)) -- nobody comes
            local function try(f, ...) print((select(2, pcall(f, ...)):gsub("process.*", ""))) end
            try(function() local _ = net.serve(listener, print) end)
            try(function() local _ = http.serve(listener, print) end)
            try(function() scheduler.loop() end)
            try(function() scheduler.step(0) end)
            try(function() scheduler.register_source(mare.channel(), print) end)
            local process = mare.spawn(function()
                net.serve(assert(net.listen("127.0.0.1", 0)), print)
            end)
            print(select(3, process:join(0.05)))
            process:kill()
        ]]
        local names = {"serve", "serve", "loop", "step", "register_source"}
        local lines = {}
        for line in got.out:gmatch "[^\n]+" do
            lines[#lines + 1] = line:match "^.-:%d+: (%S+) needs routines, and these a " or line
        end
        names[#names + 1] = "timeout"
        t.eq({lines, got.err, got.code}, {names, "", 0})
    end,

    -- Datagrams.

    a_sender_waits_while_the_system_has_no_room = function()
        local got = with_silent_neighbour [[
            local socket = assert(net.udp("10.83.0.1", 0, {send_buffer = 4096}))
            local sent, ok, message, code = 0
            repeat
                ok, message, code = socket:send(("x"):rep(1000), "10.83.0.2", 9, 0.1)
                sent = sent + 1
            until not ok
            print(sent < 100, code)
            local waiting = mare.go(function()
                return socket:send(("x"):rep(1000), "10.83.0.2", 9)
            end)
            print(select(3, waiting:join(0.05)))
            os.execute "ip neigh replace 10.83.0.2 lladdr 02:00:00:00:00:02 dev full"
            print(waiting:join(60)) -- there is room again
        ]]
        t.eq({got.out, got.err}, {"true\ttimeout\ntimeout\ntrue\ttrue\n", ""})
    end,
}
