-- SPDX-License-Identifier: MIT
-- Sockets for datagrams: every promise of docs/reference/net.md, and what can go wrong. Loopback
-- loses no datagram that there is room for, and keeps them in order.
local mare, net, t = require "mare", require "mare.net", require "t"
local sockets = require "sockets".count

local HERE = "127.0.0.1"

local function udp(options) return assert(net.udp(HERE, 0, options)) end

-- A port that nobody is at.
local function nobody()
    local socket <close> = udp()
    return select(2, socket:address())
end

local function has_six()
    local socket = net.udp "::1"
    if not socket then t.skip "no IPv6 on this machine" end
    return socket:close()
end

-- An interface to another machine: loopback knows no groups of IPv6, and hears itself always.
local function beyond_loopback()
    local file = io.open "/proc/net/if_inet6"
    for line in file and file:lines() or function() end do
        local name = line:match "(%S+)%s*$"
        if name ~= "lo" then return name end
    end
    t.skip "no interface but loopback"
end

return {
    -- Datagrams.

    a_datagram_comes_with_its_sender = function()
        local a, b = udp(), udp()
        local host, port = a:address()
        t.eq(host, HERE)
        t.eq(b:send("hello", host, port), true)
        t.eq({a:receive(t.patience)}, {"hello", b:address()})
        t.eq(a:send(17, b:address()), true) -- as strings do
        t.eq(b:receive(t.patience), "17")
    end,

    datagrams_keep_their_borders_and_their_order = function()
        local a, b = udp(), udp()
        local host, port = a:address()
        for i = 1, 50 do b:send(("x"):rep(i - 1), host, port) end -- the first is empty
        for i = 1, 50 do t.eq(#a:receive(t.patience), i - 1) end
        t.fails("timeout", a:receive(0))
    end,

    the_longest_arrives_whole_and_a_longer_one_is_refused = function()
        local a, b = udp(), udp()
        local host, port = a:address()
        local text = ("0123456"):rep(9358) .. "!"
        t.eq(#text, 65507)
        t.eq(b:send(text, host, port), true)
        t.ok(a:receive(t.patience) == text)
        t.fails("toobig", b:send(text .. "x", host, port))
        t.eq(b:send("next", host, port), true)
        t.eq(a:receive(t.patience), "next")
    end,

    beyond_the_limit_it_is_dropped_and_said = function()
        local a, b = udp {limit = 10}, udp()
        local host, port = a:address()
        for _, text in ipairs {"0123456789", "0123456789x", "after"} do b:send(text, host, port) end
        t.eq(a:receive(t.patience), "0123456789")
        t.fails("toobig", a:receive(t.patience))
        t.eq(a:receive(t.patience), "after")
        t.eq(a:limit(11), a)
        b:send("0123456789x", host, port)
        t.eq(a:receive(t.patience), "0123456789x")
    end,

    hosts_may_be_names = function()
        local a, b = udp(), udp()
        local _, port = a:address()
        t.eq(b:send("by name", "localhost", port, t.patience), true)
        t.eq(a:receive(t.patience), "by name")
        t.eq(b:connect("localhost", port, t.patience), b)
        t.eq({b:peer()}, {a:address()})
        t.fails("noname", b:send("x", "a..b", port, t.patience))
        t.fails("noname", b:connect("a..b", port, t.patience))
        t.fails("noname", net.udp("a..b"))
        t.eq({b:peer()}, {a:address()}) -- still
        local named <close> = assert(net.udp "localhost")
        t.ok(named:address())
    end,

    without_a_host_it_hears_on_every_address = function()
        local a <close>, b = assert(net.udp()), udp()
        local host, port = a:address()
        t.eq(host, "0.0.0.0")
        t.ok(port > 0)
        b:send("x", "127.0.0.2", port)
        t.eq(a:receive(t.patience), "x")
    end,

    -- A peer.

    who_has_a_peer_hears_nobody_else = function()
        local a, peer, other = udp(), udp(), udp()
        local host, port = a:address()
        t.fails("io", a:write "to whom?")
        t.fails("closed", a:peer())
        t.eq(a:connect(peer:address()), a)
        t.eq({a:peer()}, {peer:address()})
        t.eq(a:write "hello", true)
        t.eq(peer:receive(t.patience), "hello")
        other:send("not for you", host, port)
        peer:send("for you", host, port)
        t.eq(a:receive(t.patience), "for you")
        t.fails("timeout", a:receive(0))
        t.eq(a:send("to another", other:address()), true) -- which it may
        t.eq(other:receive(t.patience), "to another")
        t.eq(a:connect(other:address()), a)
        t.eq(a:write "moved", true)
        t.eq(other:receive(t.patience), "moved")
        t.eq(a:connect(), a) -- nobody in particular
        t.fails("closed", a:peer())
        t.eq({a:address()}, {host, port})
        peer:send("free again", host, port)
        t.eq(a:receive(t.patience), "free again")
    end,

    a_peer_that_is_not_there_refuses = function()
        local a, port = udp(), nobody()
        a:connect(HERE, port)
        for _ = 1, 3 do -- each is told once
            t.eq(a:write "is somebody there?", true)
            t.fails("refused", a:receive(t.patience))
            t.fails("timeout", a:receive(0))
        end
        local waiting = mare.go(function() return a:receive() end)
        mare.yield()
        t.eq(a:write "?", true)
        t.fails("refused", select(2, waiting:join(t.patience)))
        a:write "?"
        t.eq({mare.select({a}, t.patience)}, {1, true}) -- it has come
        t.fails("refused", a:write "the refusal of the one before")
        local peer <close> = assert(net.udp(HERE, port)) -- it comes after all
        t.eq(a:write "hello", true)
        t.eq(peer:receive(t.patience), "hello")
        peer:send("yes", a:address())
        t.eq(a:receive(t.patience), "yes")
    end,

    a_refusal_is_not_told_of_another = function()
        local a, b = udp(), udp()
        a:connect(HERE, nobody())
        a:write "?"
        a:connect(b:address())
        t.eq(a:write "hello", true)
        t.eq(b:receive(t.patience), "hello")
    end,

    without_a_peer_nobody_refuses = function()
        local a, b = udp(), udp()
        t.eq(a:send("?", HERE, nobody()), true)
        b:send("hello", a:address())
        t.eq(a:receive(t.patience), "hello")
    end,

    -- Groups.

    every_member_hears_a_group = function()
        local group, members = "239.255.83.1", {}
        for i = 1, 3 do
            local port = i > 1 and select(2, members[1]:address()) or 0
            members[i] = assert(net.udp(group, port, {reuse = true}))
            t.eq(members[i]:join(group, i == 2 and HERE or "lo"), members[i])
        end
        local _, port = members[1]:address()
        local sender = udp {interface = "lo", multicast_ttl = 0}
        t.eq(sender:send("to all", group, port), true)
        for i = 1, 3 do t.eq({members[i]:receive(t.patience)}, {"to all", sender:address()}) end
        t.eq(members[2]:leave(group, HERE), members[2])
        t.fails("io", members[2]:leave(group, HERE))
        for i = 1, 3 do members[i]:close() end
    end,

    who_has_left_hears_nothing = function()
        local group, a = "239.255.83.2", assert(net.udp("0.0.0.0", 0))
        local _, port = a:address()
        local sender = udp {interface = HERE}
        a:join(group, "lo")
        sender:send("joined", group, port)
        t.eq(a:receive(t.patience), "joined")
        a:leave(group, "lo")
        sender:send("left", group, port)
        sender:send("after", HERE, port) -- loopback keeps the order
        t.eq(a:receive(t.patience), "after")
    end,

    this_machine_need_not_hear_itself = function()
        local interface, group = beyond_loopback(), "239.255.83.5"
        local a = assert(net.udp())
        local _, port = a:address()
        local sender = assert(net.udp("0.0.0.0", 0, {multicast_ttl = 0, interface = interface}))
        if not a:join(group, interface) then t.skip "no IPv4 groups on that interface" end
        t.eq(sender:send("heard", group, port), true)
        t.eq(a:receive(t.patience), "heard")
        sender:option("multicast_loop", false)
        t.eq(sender:send("not heard", group, port), true)
        t.eq(sender:send("after", HERE, port), true)
        t.eq(a:receive(t.patience), "after")
        a:close()
        sender:close()
    end,

    groups_that_cannot_be = function()
        local a = udp()
        t.raises("group", a.join, a, "127.0.0.1")
        t.raises("group", a.join, a, "localhost")
        t.raises("group", a.leave, a, "no group")
        t.raises("string expected", a.join, a)
        t.fails("io", a:join("239.255.83.3", "no-such-interface"))
        t.fails("io", a:join("ff02::1", "lo")) -- of the other family
        t.fails("io", a:option("interface", "no-such-interface"))
    end,

    -- IPv6.

    six_as_four = function()
        has_six()
        local a, b <close> = assert(net.udp "::1"), assert(net.udp "::1")
        t.eq(b:send("six", a:address()), true)
        t.eq({a:receive(t.patience)}, {"six", b:address()})
        t.fails("io", a:send("x", HERE, 9)) -- it speaks one of them
        t.ok(select(2, a:send("x", HERE, 9)):find "family")
        t.fails("io", udp():send("x", a:address()))
        t.eq(a:option("ttl", 7):option "ttl", 7)
        t.eq(a:option("multicast_loop", false):option "multicast_loop", false)
        a:connect("::1", nobody())
        a:write "?"
        t.fails("refused", a:receive(t.patience))
        a:close()
    end,

    one_socket_can_speak_both = function()
        has_six()
        local both, four = assert(net.udp("::", 0, {both = true})), udp()
        local _, port = both:address()
        four:send("four", HERE, port)
        t.eq({both:receive(t.patience)}, {"four", four:address()})
        t.eq(both:send("back", four:address()), true)
        t.eq(four:receive(t.patience), "back")
        local six <close> = assert(net.udp "::1")
        six:send("six", "::1", port)
        t.eq({both:receive(t.patience)}, {"six", six:address()})
        both:close()
    end,

    groups_of_six = function()
        has_six()
        local interface, group = beyond_loopback(), "ff02::83:1"
        local a, sender = assert(net.udp "::"), assert(net.udp("::", 0, {multicast_ttl = 0}))
        local _, port = a:address()
        t.eq(a:join(group, interface), a)
        t.eq(sender:option("interface", interface), sender)
        t.eq(sender:send("to all", group, port), true)
        local data, host, from = a:receive(t.patience)
        t.eq({data, from}, {"to all", select(2, sender:address())})
        t.ok(net.udp(host), host) -- with its scope it is an address of ours
        t.eq(a:leave(group, interface), a)
        t.fails("io", a:leave(group, interface))
        t.eq(a:join(group .. "%" .. interface), a) -- the same said otherwise
        t.eq(sender:send("again", group .. "%" .. interface, port), true)
        t.eq(a:receive(t.patience), "again")
        a:close()
        sender:close()
    end,

    -- Options.

    options_are_the_systems = function()
        local a = udp()
        t.fails("denied", a:send("x", "255.255.255.255", 9))
        for _, name in ipairs {"broadcast", "dontroute", "multicast_loop", "stamps"} do
            for _, value in ipairs {true, false, true} do
                t.eq(a:option(name, value), a)
                t.eq(a:option(name), value, name)
            end
        end
        for _, name in ipairs {"ttl", "multicast_ttl"} do
            t.eq(a:option(name, 3):option(name), 3, name)
        end
        for _, name in ipairs {"receive_buffer", "send_buffer"} do
            t.ok(a:option(name, 50000):option(name) >= 50000, name)
        end
        local set <close> = udp {ttl = 9, broadcast = true}
        t.eq({set:option "ttl", set:option "broadcast"}, {9, true})
    end,

    a_port_can_be_shared = function()
        local a <close> = udp {shared = true}
        local _, port = a:address()
        t.fails("exists", net.udp(HERE, port))
        local b <close> = assert(net.udp(HERE, port, {shared = true}))
        t.eq(select(2, b:address()), port)
    end,

    the_kernel_notes_when_a_datagram_came = function()
        local a, b = udp {stamps = true}, udp()
        local before = os.time()
        b:send("x", a:address())
        local data, _, _, stamp = a:receive(t.patience)
        local second = stamp // 1000000000
        t.eq(data, "x")
        t.ok(before <= second and second <= os.time() + 1, stamp)
        b:send("y", a:address())
        t.ok(select(4, a:receive(t.patience)) >= stamp)
        a:option("stamps", false)
        b:send("z", a:address())
        t.eq(select("#", a:receive(t.patience)), 3)
    end,

    -- Time.

    a_receive_ends_at_its_timeout = function()
        local a = udp()
        t.fails("timeout", a:receive(0))
        t.fails("timeout", a:receive(0.01))
        t.fails("timeout", a:receive(mare.deadline(0.01)))
        t.eq(a:timeout(0.01), a)
        t.fails("timeout", a:receive())
        local waiting = mare.go(function() return a:receive(t.patience) end) -- overrides it
        t.fails("timeout", waiting:join(0.05))
        a:send("late", a:address())
        t.eq(select(2, waiting:join(t.patience)), "late")
        a:timeout()
        a:send("at once", a:address())
        t.eq(a:receive(), "at once")
    end,

    others_go_on_meanwhile = function()
        local a, ticks = udp(), 0
        local ticker = mare.go(function()
            for _ = 1, 20 do
                mare.sleep(0.001)
                ticks = ticks + 1
            end
            a:send("enough", a:address())
        end)
        t.eq(a:receive(t.patience), "enough")
        t.eq(ticks, 20)
        t.eq(ticker:join(t.patience), true)
    end,

    -- Who gives up, and who goes.

    a_wait_can_be_cancelled = function()
        local a = udp()
        local routine = mare.go(function() return a:receive() end)
        mare.sleep(0.01)
        t.eq(routine:cancel(), true)
        t.fails("cancelled", select(2, routine:join(t.patience)))
        a:send("x", a:address())
        t.eq(a:receive(t.patience), "x")
    end,

    close_ends_the_waits_of_others = function()
        local a, routines = udp(), {}
        for i = 1, 3 do routines[i] = mare.go(function() return a:receive() end) end
        mare.sleep(0.01)
        t.eq({a:close(), a:close()}, {true, false})
        for i = 1, 3 do t.fails("closed", select(2, routines[i]:join(t.patience))) end
    end,

    after_close_there_is_nothing = function()
        local a = udp()
        a:close()
        t.eq(tostring(a), "socket (closed)")
        t.fails("closed", a:receive())
        t.fails("closed", a:send("x", HERE, 9))
        t.fails("closed", a:send("x", "localhost", 9))
        t.fails("closed", a:write "x")
        t.fails("closed", a:connect(HERE, 9))
        t.fails("closed", a:connect())
        t.fails("closed", a:join "239.255.83.4")
        t.fails("closed", a:leave "239.255.83.4")
        t.fails("closed", a:option "ttl")
        t.fails("closed", a:option("ttl", 1))
        t.fails("closed", a:option("interface", "lo"))
        t.fails("closed", a:address())
        t.fails("closed", a:peer())
    end,

    variables_that_go_close_their_sockets = function()
        local port
        do
            local a <close> = udp()
            port = select(2, a:address())
        end
        assert(net.udp(HERE, port)):close()
    end,

    sockets_are_closed_when_a_process_is_killed = function()
        local before, waiting = sockets(), mare.channel()
        local process = mare.spawn(function()
            local socket = assert(require "mare.net".udp "127.0.0.1")
            mare.go(function() waiting:send(true) end)
            socket:receive()
        end)
        t.eq(waiting:receive(t.patience), true)
        process:kill()
        t.fails("killed", process:join(t.patience))
        t.reaches(function() return sockets() <= before end, "sockets are left")
    end,

    sockets_that_nothing_refers_to_are_collected = function()
        local before = sockets()
        for _ = 1, 50 do udp():receive(0) end
        collectgarbage()
        collectgarbage()
        t.reaches(function() return sockets() <= before end, "sockets are left")
    end,

    -- Sharing.

    each_datagram_is_for_one_of_the_routines = function()
        local a, b, got = udp(), udp(), {}
        local host, port = a:address()
        local routines = {}
        for i = 1, 5 do
            routines[i] = mare.go(function()
                for data in function() return a:receive() end do
                    got[data] = (got[data] or 0) + 1
                    if data == "99" then return a:close() end
                end
            end)
        end
        for i = 0, 99 do
            b:send(i, host, port)
            if i % 10 == 0 then mare.yield() end
        end
        for i = 1, 5 do t.eq((routines[i]:join(t.patience)), true) end
        for i = 0, 99 do t.eq(got[tostring(i)], 1, i) end
    end,

    with_any_number_of_workers = function()
        for workers = 1, 4 do
            t.with_workers(workers, function()
                local echoes, processes = mare.channel(4), {}
                for i = 1, 4 do
                    processes[i] = mare.spawn(function()
                        local socket <close> = assert(require "mare.net".udp "127.0.0.1")
                        echoes:send(select(2, socket:address()))
                        for _ = 1, 25 do
                            local data, host, port = assert(socket:receive())
                            socket:send(data .. "!", host, port)
                        end
                    end)
                end
                local a <close>, ports = udp(), {}
                for i = 1, 4 do ports[i] = assert(echoes:receive(t.patience)) end
                for round = 1, 25 do
                    for i = 1, 4 do a:send(i .. "." .. round, HERE, ports[i]) end
                    local seen = {}
                    for _ = 1, 4 do seen[assert(a:receive(t.patience))] = true end
                    for i = 1, 4 do t.ok(seen[i .. "." .. round .. "!"], t.show(seen)) end
                end
                for i = 1, 4 do t.eq(processes[i]:join(t.patience), true) end
            end)
        end
    end,

    a_socket_changes_hands = function()
        local a, b = udp(), udp()
        local host, port = a:address()
        b:send("one", host, port)
        local process = mare.spawn(function(socket)
            local data = socket:receive()
            return socket, data
        end, a)
        t.raises("the socket was sent to another process", a.receive, a)
        t.raises("a socket that was sent before", mare.spawn, print, a)
        t.eq(tostring(a), "socket (sent)")
        local _, back, data = process:join(t.patience)
        t.eq(data, "one")
        t.eq({back:address()}, {host, port})
        local waiting = mare.go(function() return back:receive() end)
        mare.yield()
        t.raises("waits for", mare.spawn, print, back)
        b:send("two", host, port)
        t.eq(select(2, waiting:join(t.patience)), "two")
    end,

    select_waits_for_sockets_beside_channels = function()
        local a, b, channel = udp(), udp(), mare.channel(1)
        t.fails("timeout", mare.select({channel, a, b}, 0.01))
        a:send("x", b:address())
        t.eq({mare.select({channel, a, b}, t.patience)}, {3, true})
        t.eq(b:receive(0), "x")
        channel:send "y"
        t.eq({mare.select({channel, a, b}, t.patience)}, {1, "y"})
        b:close()
        t.eq(mare.select({channel, a, b}, t.patience), 3) -- there is nothing to wait for
    end,

    misuse_is_told_by_argument = function()
        local a = udp()
        t.raises("#1 to 'udp' %(string expected, got number", net.udp, 5)
        t.raises("#2 to 'udp'", net.udp, HERE, "x")
        t.raises("#3 to 'udp'", net.udp, HERE, 0, "x")
        t.raises("65535", net.udp, HERE, 65536)
        for pattern, options in pairs {
            ["unknown option 'colour'"] = {colour = true},
            ["option 'broadcast': boolean expected, got number"] = {broadcast = 1},
            ["option 'limit': number expected, got table"] = {limit = {}},
        } do
            t.raises("^[^:]*test_udp.lua:%d+: bad argument #3 to 'udp' %(" .. pattern .. "%)$",
                function() net.udp(HERE, 0, options) end)
        end
        t.raises("255", a.option, a, "ttl", 256)
        t.raises("255", a.option, a, "ttl", 0)
        t.raises("negative", a.option, a, "send_buffer", -1)
        t.raises("#2 to '%?' %(string expected", a.send, a)
        t.raises("#3 to '%?' %(string expected", a.send, a, "x")
        t.raises("#4 to '%?' %(number expected", a.send, a, "x", HERE)
        t.raises("65535", a.send, a, "x", HERE, -1)
        t.raises("deadline", a.send, a, "x", HERE, 9, "x")
        t.raises("#3 to '%?' %(number expected", a.connect, a, HERE)
        t.raises("#2 to '%?' %(string expected", a.write, a, {})
        t.raises("deadline", a.receive, a, "x")
        t.raises("positive", a.limit, a, 0)
        t.raises("socket expected", a.receive, 5)
        t.raises("socket expected", a.receive, mare.channel())
        t.raises("cannot wait here", table.sort, {2, 1}, function() return a:receive() end)
    end,
}
