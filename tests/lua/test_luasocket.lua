-- SPDX-License-Identifier: MIT
-- LuaSocket's interface: the programs in tests/lua/luasocket print the same with Debian's C module
-- and with ours; a wait in one routine does not hold back another; how the module is put in place.
local mare, t, shell = require "mare", require "t", require "shell"

local HERE <const> = debug.getinfo(1, "S").source:match "^@(.*)test_luasocket.lua$"
local LIBRARY <const> = HERE .. "../../lua/?.lua"

local function lines(text)
    local list = {}
    for line in text:gmatch "[^\n]*" do list[#list + 1] = line end
    return list
end

-- What a program prints, run by a command in a folder of its own.
local function output(command, name)
    local folder = os.tmpname()
    os.remove(folder)
    assert(os.execute("mkdir " .. folder))
    -- Where no name server answers, one is not waited for long.
    local got = shell.run(("RES_OPTIONS='timeout:1 attempts:1' %s %sluasocket/%s.lua %s")
        :format(command, HERE, name, folder))
    os.execute("rm -rf " .. folder)
    t.eq({err = got.err, code = got.code}, {err = "", code = 0}, command)
    return lines(got.out)
end

-- Compares line by line, so that a failure shows the one that differs.
local function same(name, command)
    local expected, got = output("lua5.4", name), output(command or shell.mare, name)
    t.ok(#expected > 20, "the program prints something")
    for number, line in ipairs(expected) do
        t.eq(got[number], line, ("%s, line %d"):format(name, number))
    end
    t.eq(#got, #expected)
end

-- The stock interpreter with our module in place of Debian's.
local function stock_with_ours()
    if not shell.has_stock() then t.skip "no lua5.4 that can load mare.so" end
    return ([[LUA_CPATH='%s/?.so;;' lua5.4 -e "
        package.path = '%s;' .. package.path
        for _, name in ipairs {'core', 'unix'} do
            package.preload['socket.' .. name] = function()
                return require('mare.luasocket.' .. name)
            end
        end"]]):format(shell.mare:match "^(.*)/", LIBRARY)
end

-- Runs a piece of a program, and returns what it returned.
local function there(f, ...)
    local results = table.pack(mare.spawn(f, ...):join(t.patience))
    if not results[1] then error(results[2], 2) end
    return table.unpack(results, 2, results.n)
end

-- How many sockets this program has open.
local function open_sockets()
    local pipe <close> = assert(io.popen "ls -l /proc/$PPID/fd | grep -c socket:")
    return pipe:read "n"
end

-- The first processor that this program may run on.
local function first_processor()
    for line in io.lines "/proc/self/status" do
        local number = line:match "^Cpus_allowed_list:%s*(%d+)"
        if number then return number end
    end
end

-- That others have their turns while a routine waits, for as long as they like.
local function goes_on_during(wait)
    local waiting = mare.go(wait)
    for _ = 1, 5 do
        mare.sleep(0.001)
        t.eq(waiting:status(), "alive")
    end
    waiting:cancel()
    t.ok(waiting:join(t.patience))
end

return {
    -- The same as the C module.

    connections_as_there = function() same "tcp" end,
    datagrams_as_there = function() same "udp" end,
    unix_sockets_as_there = function() same "unix" end,
    the_rest_as_there = function() same "rest" end,
    dispatcher_as_there = function() same "dispatcher" end,

    connections_under_the_stock_interpreter = function() same("tcp", stock_with_ours()) end,
    the_rest_under_the_stock_interpreter = function() same("rest", stock_with_ours()) end,

    the_rest_with_a_socket_module_of_ours = function()
        -- ltn12 is taken from where it is; socket.lua is not found.
        local program <close> = shell.file(([[
            local ltn12 = assert(package.searchpath("ltn12", package.path))
            package.preload.ltn12 = function() return dofile(ltn12) end
            package.path = "/nowhere/?.lua"
            arg[0] = "%sluasocket/rest.lua"
            dofile(arg[0])
        ]]):format(HERE))
        local got = shell.run("RES_OPTIONS='timeout:1 attempts:1' " .. shell.mare .. " "
            .. program.name)
        t.eq({err = got.err, code = got.code}, {err = "", code = 0})
        t.eq(lines(got.out), output("lua5.4", "rest"))
    end,

    -- How it is put in place.

    it_is_ours_and_the_original_can_be_had = function()
        t.eq({there [[
            local ours = require "socket.core"
            return ours == require "mare.luasocket.core", require "socket" == ours,
                debug.getinfo(ours.tcp, "S").what
        ]]}, {true, true, "Lua"})
        t.eq({there [[
            package.preload["socket.core"] = nil
            return debug.getinfo(require "socket.core".tcp, "S").what
        ]]}, {"C"})
    end,

    unix_sockets_are_ours_too = function()
        t.eq(there [[return require "socket.unix" == require "mare.luasocket.unix"]], true)
    end,

    a_function_that_uses_it_can_be_sent = function()
        -- The same table has three names, and only one of them brings what socket.lua adds.
        local socket = require "socket"
        t.eq({there(function() return type(socket.bind), type(socket.try) end)},
            {"function", "function"})
    end,

    what_is_not_there_is_still_not_found = function()
        local err = there [[
            package.path, package.cpath = "/nowhere/?.lua", ""
            return select(2, pcall(require, "socket.http"))
        ]]
        t.ok(err:find "module 'socket.http' not found:", err)
    end,

    -- Beside others.

    a_wait_does_not_hold_back_others = function()
        t.with_workers(1, function()
            local socket = require "socket"
            local server = assert(socket.bind("127.0.0.1", 0))
            local client = assert(socket.connect("127.0.0.1", (select(2, server:getsockname()))))
            local peer = assert(server:accept())
            for _, wait in ipairs {
                function() server:settimeout(3600) return server:accept() end,
                function() peer:settimeout(3600) return peer:receive() end,
                function() client:settimeout(3600) return client:send(("x"):rep(16000000)) end,
                function() return select(3, socket.select({server}, nil, 3600)) end,
                function() return socket.sleep(3600) end,
                function()
                    local u = socket.udp4()
                    u:settimeout(3600)
                    return u:receive()
                end,
            } do
                goes_on_during(wait)
            end
        end)
    end,

    who_polls_gives_others_their_turn = function()
        t.with_workers(1, function()
            local socket = require "socket"
            local server = assert(socket.bind("127.0.0.1", 0))
            server:settimeout(0)
            local accepted
            local poller = mare.go(function()
                repeat accepted = server:accept() until accepted
                accepted:settimeout(0)
                local line
                repeat line = accepted:receive() until line
                repeat local readable = socket.select({accepted}, nil, 0) until #readable > 0
                return line
            end)
            local client = assert(socket.connect("127.0.0.1", (select(2, server:getsockname()))))
            t.reaches(function() return accepted end)
            client:send "found\n"
            mare.sleep(0.01)
            client:send "more"
            t.eq({poller:join(t.patience)}, {true, "found"})
        end)
    end,

    many_routines_talk_at_once = function()
        local socket = require "socket"
        local server = assert(socket.bind("127.0.0.1", 0, 128))
        local port = select(2, server:getsockname())
        mare.go(function()
            while true do
                local peer = server:accept()
                if not peer then return end
                mare.go(function()
                    for line in function() return peer:receive() end do
                        assert(peer:send(line:upper() .. "\n"))
                    end
                    peer:close()
                end)
            end
        end)
        local clients = {}
        for i = 1, 50 do
            clients[i] = mare.go(function()
                local client = assert(socket.connect("127.0.0.1", port))
                for k = 1, 10 do
                    assert(client:send(("line %d of %d\n"):format(k, i)))
                    assert(client:receive() == ("LINE %d OF %d"):format(k, i))
                end
                client:close()
                return i
            end)
        end
        for i = 1, 50 do t.eq({clients[i]:join(t.patience)}, {true, i}) end
        server:close()
    end,

    several_wait_for_one_socket = function()
        local socket = require "socket"
        local server = assert(socket.bind("127.0.0.1", 0))
        local port, waiting = select(2, server:getsockname()), {}
        for i = 1, 5 do
            waiting[i] = mare.go(function() return (assert(server:accept()):receive()) end)
        end
        local sent = {}
        for i = 1, 5 do
            sent[i] = assert(socket.connect("127.0.0.1", port))
            sent[i]:send(i .. "\n")
        end
        local sum = 0
        for i = 1, 5 do
            local _, line = assert(waiting[i]:join(t.patience))
            sum = sum + tonumber(line)
        end
        t.eq(sum, 15)
    end,

    who_selects_and_who_sends_wait_for_the_same = function()
        -- To be writable is told once: whoever takes note of it passes it on.
        local socket = require "socket"
        local server = assert(socket.bind("127.0.0.1", 0))
        local client = assert(socket.connect("127.0.0.1", (select(2, server:getsockname()))))
        local peer = assert(server:accept())
        client:settimeout(0)
        local size = 0
        repeat -- until nothing more goes
            local _, why, sent = client:send(("x"):rep(1000000))
            size = size + (sent or 1000000)
        until why == "timeout" and sent == 0
        client:settimeout(t.patience)
        local waits = {}
        for i = 1, 4 do
            waits[i] = mare.go(function()
                if i % 2 == 0 then return client:send "y" end
                return #select(2, socket.select({server}, {client}, t.patience))
            end)
        end
        mare.sleep(0.01)
        t.eq(#assert(peer:receive(size)), math.tointeger(size))
        for i = 1, 4 do
            local ok, count = waits[i]:join(t.patience)
            t.eq({ok, count}, {true, i % 2 == 0 and 1.0 or 1})
        end
    end,

    -- The end.

    a_socket_closed_under_those_who_wait = function()
        local socket = require "socket"
        local server = assert(socket.bind("127.0.0.1", 0))
        local client = assert(socket.connect("127.0.0.1", (select(2, server:getsockname()))))
        local waits = {
            mare.go(function() server:accept() return server:accept() end),
            mare.go(function() return client:receive "*a" end),
            mare.go(function() return client:send(("x"):rep(16000000)) end),
            mare.go(function() return #socket.select({server, client}, nil, 10) end),
        }
        mare.sleep(0.01)
        server:close()
        client:close()
        t.eq({waits[1]:join(t.patience)}, {true, nil, "closed"})
        t.eq({waits[2]:join(t.patience)}, {true, nil, "closed", ""})
        local ok, sent, why = waits[3]:join(t.patience)
        t.eq({ok, sent, why}, {true, nil, "closed"})
        t.ok(waits[4]:join(t.patience))
    end,

    a_routine_that_is_cancelled = function()
        local socket = require "socket"
        local server = assert(socket.bind("127.0.0.1", 0))
        local waits = mare.go(function() return server:accept() end)
        local selects = mare.go(function() return select(3, socket.select({server}, nil)) end)
        mare.sleep(0.01)
        waits:cancel()
        selects:cancel()
        t.eq({waits:join(t.patience)}, {true, nil, "cancelled"})
        t.eq({selects:join(t.patience)}, {true, "cancelled"})
    end,

    a_process_that_is_killed_leaves_no_descriptor = function()
        local before = open_sockets()
        local ready = mare.channel()
        local processes = {}
        for i, how in ipairs {"accept", "receive", "send", "select", "udp", "unix"} do
            processes[i] = mare.spawn(function()
                local socket = require "socket"
                local server = assert(socket.bind("127.0.0.1", 0))
                local client = assert(socket.connect("127.0.0.1",
                    (select(2, server:getsockname()))))
                local peer = assert(server:accept())
                ready:send(true)
                if how == "accept" then server:accept()
                elseif how == "receive" then peer:receive()
                elseif how == "send" then client:send(("x"):rep(16000000))
                elseif how == "select" then
                    local foreign = {getfd = function() return client:getfd() end}
                    socket.select({server, peer, foreign})
                elseif how == "udp" then socket.udp4():receive()
                else require "socket.unix".dgram():receive() end
            end)
            ready:receive(t.patience)
        end
        mare.sleep(0.01)
        t.ok(open_sockets() > before)
        for _, process in ipairs(processes) do
            process:kill()
            t.fails("killed", process:join(t.patience))
        end
        t.reaches(function() return open_sockets() <= before end, "descriptors are closed")
    end,

    what_nothing_refers_to_is_closed = function()
        local socket = require "socket"
        socket.tcp4():close()
        collectgarbage()
        local before = open_sockets()
        for _ = 1, 20 do socket.tcp4() socket.udp4() end
        do local _ <close> = socket.tcp4() end
        collectgarbage()
        collectgarbage()
        t.reaches(function() return open_sockets() <= before end)
    end,

    a_descriptor_changes_hands = function()
        local socket = require "socket"
        local server = assert(socket.bind("127.0.0.1", 0))
        local client = assert(socket.connect("127.0.0.1", (select(2, server:getsockname()))))
        local peer = assert(server:accept())
        peer:settimeout(0.01)
        t.eq({peer:receive()}, {nil, "timeout", ""}) -- so it has been watched
        local fd = peer:getfd()
        peer:setfd(-1)
        t.eq({peer:getfd(), (select(2, peer:receive()))}, {-1.0, "closed"})
        local heir = assert(socket.tcp())
        heir:setfd(fd)
        t.eq(heir:getfd(), fd)
        heir:close()
        client:settimeout(t.patience)
        t.eq({client:receive()}, {nil, "closed", ""})
    end,

    without_descriptors = function()
        -- On one processor, so with one worker: another would need descriptors for its loop.
        local got = shell.run(("ulimit -n 60; exec taskset -c %s %s -")
            :format(first_processor(), shell.mare) .. [[ <<'END'
            local mare, socket = require "mare", require "socket"
            local server = assert(socket.bind("127.0.0.1", 0))
            local port = select(2, server:getsockname())
            mare.go(function() server:settimeout(0.01) server:accept() end):join()
            local kept, why = {}, nil
            repeat
                local s
                s, why = socket.tcp4()
                kept[#kept + 1] = s
            until not s
            print(why, #kept > 5)
            print(socket.udp4())
            print(socket.connect("127.0.0.1", port))
            kept[#kept]:close()
            local client = assert(socket.connect("127.0.0.1", port))
            print(server:accept())
            kept[1]:close()
            print(server:accept() ~= nil)
END]])
        local refused = "nil\tToo many open files\n"
        t.eq({got.out, got.err},
            {"Too many open files\ttrue\n" .. refused:rep(3) .. "true\n", ""})
    end,

    copas_runs = function()
        -- Debian has it for older Luas; it runs in ours.
        local file = io.open "/usr/share/lua/5.2/copas.lua"
        if not file then t.skip "no lua-copas" end
        file:close()
        package.path = package.path .. ";/usr/share/lua/5.2/?.lua"
        local copas, socket = require "copas", require "socket"
        local server = assert(socket.bind("127.0.0.1", 0))
        local port = select(2, server:getsockname())
        copas.addserver(server, function(s)
            s = copas.wrap(s)
            for line in function() return s:receive() end do s:send(line:upper() .. "\n") end
        end)
        local finished = 0
        for i = 1, 10 do
            copas.addthread(function()
                local s = socket.tcp()
                s:settimeout(0)
                assert(copas.connect(s, "127.0.0.1", port))
                for k = 1, 5 do
                    assert(copas.send(s, ("line %d of %d\n"):format(k, i)))
                    t.eq(copas.receive(s), ("LINE %d OF %d"):format(k, i))
                end
                s:close()
                finished = finished + 1
            end)
        end
        local deadline = mare.deadline(t.patience)
        while finished < 10 and deadline:left() > 0 do copas.step(1) end
        t.eq(finished, 10)
    end,

    what_one_call_receives_has_a_limit = function()
        local socket, unix = require "socket", require "socket.unix"
        local server = assert(socket.bind("127.0.0.1", 0))
        local port = select(2, server:getsockname())
        t.eq(server:getoption "receive-limit", 64 << 20)
        t.eq(server:setoption("receive-limit", 10), 1.0)
        local function pair(...)
            local here = assert(socket.connect("127.0.0.1", port))
            local accepted = assert(server:accept())
            accepted:settimeout(t.patience)
            for _, text in ipairs {...} do here:send(text) end
            here:shutdown "send"
            return accepted
        end
        local s = pair("0123456789\r\n", "0123456789\n", "01234567890\n\n", "x")
        t.eq(s:getoption "receive-limit", 10)
        t.eq({s:receive()}, {nil, "toobig", "0123456789"}, "it has eleven: CR is one")
        t.eq({s:receive()}, {""})
        t.eq({s:receive()}, {"0123456789"})
        t.eq({s:receive "*l"}, {nil, "toobig", "0123456789"})
        t.eq({s:receive()}, {"0"}, "what was not taken stays")
        t.eq({s:receive()}, {""})
        t.eq({s:receive(11)}, {nil, "toobig", ""})
        t.eq({s:receive(11, "prefix")}, {nil, "toobig", "prefix"})
        t.eq({s:receive("*l", "0123456789a")}, {nil, "toobig", "0123456789a"})
        t.eq({s:receive "*a"}, {"x"})
        t.eq({pair "0123456789":receive "*a"}, {"0123456789"})
        t.eq({pair "0123456789":receive(10)}, {"0123456789"})
        s = pair "0123456789a"
        t.eq({s:receive "*a"}, {nil, "toobig", "0123456789"})
        t.eq({s:receive "*a"}, {"a"})
        t.eq({pair "56789":receive("*a", "01234")}, {"0123456789"})
        s = pair(("x"):rep(100000), "\n") -- over many reads
        s:setoption("receive-limit", 99999)
        t.eq({s:receive()}, {nil, "toobig", ("x"):rep(99999)})
        t.eq({s:receive()}, {"x"})
        s = pair(("x"):rep(100000))
        s:setoption("receive-limit", math.huge)
        t.eq({s:receive "*a"}, {("x"):rep(100000)})
        t.raises("a limit is positive", s.setoption, s, "receive-limit", 0)
        t.raises("a limit is positive", s.setoption, s, "receive-limit")
        t.raises("a limit is positive", s.setoption, s, "receive-limit", 0 / 0)
        t.raises("unsupported option", socket.udp().getoption, socket.udp(), "receive-limit")
        t.eq(socket.receivelimit(20), 64 << 20)
        t.eq({socket.tcp():getoption "receive-limit", socket.receivelimit()}, {20, 20})
        t.eq(unix.stream():setoption("receive-limit", 5), 1.0)
        t.raises("a limit is positive", socket.receivelimit, -1)
        t.raises("number expected", socket.receivelimit, "many")
    end,

    where_one_cannot_wait = function()
        local socket = require "socket"
        local server = assert(socket.bind("127.0.0.1", 0))
        t.raises("cannot wait here", table.sort, {2, 1}, function() server:accept() end)
        server:settimeout(0)
        local why
        table.sort({2, 1}, function() why = select(2, server:accept()) end)
        t.eq(why, "timeout")
    end,
}
