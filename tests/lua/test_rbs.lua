-- SPDX-License-Identifier: MIT
-- Reference broadcasts live, by multicast over loopback: ours with ours, and with the commands. All
-- receivers are on one machine and read one clock, so that the true difference is known.
local mare, net, t = require "mare", require "mare.net", require "t"
local rbs, time = require "mare.rbs", require "mare.time"
local shell = require "shell"

local GROUP, SECOND = "239.255.84.1", 1000000000

-- A port of the group that nobody else uses.
local function free_port()
    local socket <close> = assert(net.udp "127.0.0.1")
    return (select(2, socket:address()))
end

-- A socket for the length of a test in which the instants of arrival are judged: the kernel notes
-- them only from a moment after the first socket asked for that. It has begun when one that lay
-- for a while was not noted as it was read.
local function stamped()
    local keeper = assert(net.udp("127.0.0.1", 0, {stamps = true}))
    t.reaches(function()
        keeper:send("x", keeper:address())
        mare.sleep(0.01)
        local looked = select(2, time.now())
        local stamp = select(4, keeper:receive(t.patience))
        return looked - stamp > SECOND // 200
    end, "the kernel does not note when datagrams come")
    return keeper
end

local function receiver(port, options)
    return assert(rbs.receiver(GROUP, port, options))
end

-- A socket that hears all that is said in the group.
local function member(port)
    local socket = assert(net.udp(GROUP, port, {reuse = true}))
    return socket:join(GROUP, "127.0.0.1")
end

-- Comparisons until one is by a line.
local function by_line(one)
    for compared in function() return one:next(t.patience) end do
        if compared.line then return compared end
    end
end

return {
    two_receivers_compare_their_clocks = function()
        local _ <close> = stamped()
        local port = free_port()
        local here <close> = receiver(port, {name = "here"})
        local ahead <close> = receiver(port, {name = "ahead", ahead = 5 * SECOND})
        local beacon = mare.go(rbs.beacon, GROUP, port, {interval = 0.005})
        local other = mare.go(by_line, ahead)
        local ours = by_line(here)
        local _, theirs = other:join(t.patience)
        for _, case in ipairs {{ours, "ahead", -5 * SECOND}, {theirs, "here", 5 * SECOND}} do
            local compared, name, difference = table.unpack(case)
            t.eq(compared.peer, name)
            t.ok(compared.mean.pairs >= 3)
            for _, method in ipairs {"mean", "line"} do
                local found = compared[method]
                t.ok(math.abs(found.offset - difference) <= found.error, t.show(found))
                t.ok(found.error < SECOND, "the bound says nothing")
            end
        end
        beacon:cancel()
        t.fails("cancelled", select(2, beacon:join(t.patience)))
    end,

    a_lua_receiver_and_a_command_compare = function()
        local _ <close> = stamped()
        local port = free_port()
        local command = ("exec %s clock hear %s:%d --name command --ahead 3 --count 4 --json")
        local pipe <close> = assert(io.popen(command:format(shell.mare, GROUP, port)))
        t.ok(pipe:read "l":find "hearing") -- it has joined
        local here <close> = receiver(port, {name = "lua"})
        local beacon = mare.go(rbs.beacon, GROUP, port, {interval = 0.005})
        local compared
        for _ = 1, 4 do compared = assert(here:next(t.patience)) end
        t.eq(compared.peer, "command")
        t.ok(math.abs(compared.mean.offset + 3 * SECOND) <= compared.mean.error)
        local said = pipe:read "a" -- what we reported: it ends by itself
        t.ok(said:find '"peer":"lua","pairs":4,"mean_ns":', said)
        beacon:cancel()
    end,

    a_lua_receiver_hears_the_beacon_of_the_command = function()
        local port = free_port()
        local a <close> = receiver(port, {name = "a"})
        local b <close> = receiver(port, {name = "b"})
        local command = "exec %s clock beacon %s:%d --interval 0.01 --count %d"
        local pipe <close> = assert(io.popen(command:format(shell.mare, GROUP, port, 20)))
        local other = mare.go(b.next, b, t.patience)
        local compared = assert(a:next(t.patience))
        t.eq(compared.peer, "b")
        t.eq(select(2, other:join(t.patience)).peer, "a")
        t.eq(pipe:read "a", "") -- it ends by itself
    end,

    of_two_beacons_all_go_by_the_same = function()
        local port = free_port()
        local one <close> = receiver(port, {name = "one"})
        local socket <close> = assert(net.udp("127.0.0.1", 0, {interface = "127.0.0.1"}))
        local heard <close> = member(port)
        local reader = mare.go(one.next, one)
        local function broadcast(series, number)
            socket:send(time.broadcast {series = series, number = number}, GROUP, port)
        end
        broadcast(9, 1) -- the first that comes
        broadcast(-1, 1) -- the highest there is: not gone by
        broadcast(5, 1) -- a lower one is
        broadcast(9, 2) -- and the first no longer
        broadcast(5, 2)
        local reported = {}
        while #reported < 3 do
            local packet = time.heard(assert(heard:receive(t.patience)))
            if packet.who then reported[#reported + 1] = {packet.series, packet.number} end
        end
        t.eq(reported, {{9, 1}, {5, 1}, {5, 2}})
        reader:cancel()
    end,

    nonsense_and_ones_own_reports_are_ignored = function()
        local port = free_port()
        local one <close> = receiver(port)
        local socket <close> = assert(net.udp("127.0.0.1", 0, {interface = "127.0.0.1"}))
        for _, text in ipairs {"", "x", ("x"):rep(48), ("x"):rep(1000)} do
            socket:send(text, GROUP, port)
        end
        socket:send(time.broadcast {series = 1, number = 1}, GROUP, port)
        t.fails("timeout", one:next(0.05)) -- it hears its own report, too
    end,

    what_comes_without_end_is_not_heard_for_ever = function()
        local one = receiver(free_port())
        one:close()
        for _, bytes in ipairs {"nonsense", time.broadcast {series = 1, number = 1}} do
            local over = mare.deadline(t.patience)
            one.socket = {
                receive = function()
                    if over:left() == 0 then return nil, "it reads for ever", "io" end
                    return bytes, "127.0.0.1", 1
                end,
                send = function() end,
            }
            t.fails("timeout", one:next(0.02))
        end
    end,

    what_lies_there_is_heard_without_waiting = function()
        local port = free_port()
        local one <close> = receiver(port)
        local two <close> = receiver(port)
        local heard <close> = member(port)
        t.eq(rbs.beacon(GROUP, port, {count = 3, interval = 0.001}), true)
        for _ = 1, 3 do t.ok(heard:receive(t.patience)) end -- now they lie there
        t.fails("timeout", one:next(0)) -- three broadcasts, at once
        for _ = 1, 3 do t.ok(heard:receive(t.patience)) end -- and the reports on them
        t.ok(two:next(0)) -- its own, and the report on the first
    end,

    waits_end = function()
        local port = free_port()
        local one = receiver(port)
        t.fails("timeout", one:next(0))
        t.fails("timeout", one:next(mare.deadline(0.01)))
        local waiting = mare.go(one.next, one)
        mare.yield()
        t.eq(one:close(), true)
        t.fails("closed", select(2, waiting:join(t.patience)))
        t.eq(rbs.beacon(GROUP, port, {count = 2, interval = 0.001}), true)
        t.fails("io", rbs.receiver(GROUP, port, {interface = "no-such-interface"}))
        t.fails("io", rbs.beacon(GROUP, port, {interface = "no-such-interface"}))
        t.raises("group", rbs.receiver, "127.0.0.1", port)
    end,

    wrong_options_are_refused_in_the_line_of_who_gave_them = function()
        local port = free_port()
        local function refused(what, f, options)
            t.raises("test_rbs.lua:%d+: bad argument #3 to '%l+' %(" .. what, function()
                f(GROUP, port, options)
            end)
        end
        for _, f in ipairs {rbs.beacon, rbs.receiver} do
            refused("unknown option 'inteface'", f, {inteface = "lo"})
            refused("option 'interface' must be", f, {interface = 1})
            refused("table expected", f, "lo")
        end
        refused("option 'interval' must be", rbs.beacon, {interval = 0})
        refused("option 'count' must be", rbs.beacon, {count = 1.5})
        for _, wrong in ipairs {{jitter = -1}, {drift = "x"}, {wander = 0.5}, {ahead = 0.5},
            {name = 5}} do
            refused(("option '%s' must be"):format((next(wrong))), rbs.receiver, wrong)
        end
    end,

    -- Packets.

    packets_are_told_apart = function()
        t.eq(time.heard(time.broadcast {series = -3, number = 7}), {series = -3, number = 7})
        local report = {series = 1, number = 2, who = -4, when = -5, name = "eightlet"}
        t.eq(time.heard(time.broadcast(report)), report)
        t.fails("badmsg", time.heard "")
        t.fails("badmsg", time.heard(("x"):rep(48)))
        t.raises("option 'when'", time.broadcast, {who = 1, when = math.maxinteger})
        t.raises("unknown option 'nmae'", time.broadcast, {who = 1, nmae = "x"})
        t.raises("table expected", time.broadcast)
    end,

    a_copy_knows_as_much_and_goes_its_own_way = function()
        local first = time.rbs()
        first:hear(1, 100)
        local second = first:copy()
        t.eq(second:match(1, 50), true)
        t.eq(second:mean(100).offset, 50)
        t.fails("empty", first:mean(100))
    end,
}
