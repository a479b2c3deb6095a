-- SPDX-License-Identifier: MIT
-- Whoever has the channel of a service can send it anything. What is malformed, or says that
-- somebody has ended who lives, changes nothing for the others.
local mare, t, rpc = require "mare", require "t", require "mare.rpc"
local monitor, tuple = require "mare.monitor", require "mare.tuple"

local function sync(p, fname) return rpc.sync(p, fname, t.patience) end

local random = math.random

-- Values of all sorts; `other` is a process of no importance.
local function odd_values(other)
    local closed = mare.channel(1)
    closed:close()
    return {
        function() return nil end, function() return true end, function() return false end,
        function() return random(-1, 5) end, function() return 0 / 0 end,
        function() return math.mininteger end, function() return 1.5 end,
        function() return "" end, function() return "f" end, function() return "a/+/#" end,
        function() return {} end, function() return {n = math.maxinteger} end,
        function() return {n = -1} end, function() return {n = 1, "x"} end,
        function() return {key = "k", channel = closed, process = other} end,
        function() return {key = 5, channel = {}, process = "p"} end,
        function() return mare.channel() end, function() return mare.channel(1) end,
        function() return closed end, function() return other end, function() return tuple.any end,
    }
end

-- Sends messages to the channel: one of the kinds, then values of all sorts. What the process that
-- they speak of has got by them goes with it.
local function pester(channel, kinds, count)
    t.seed()
    local other = mare.spawn(function() mare.channel():receive() end)
    local values = odd_values(other)
    for _ = 1, count do
        local message = {kinds[random(#kinds)]}
        for i = 2, random(1, 9) do message[i] = values[random(#values)]() end
        t.ok(channel:send(table.unpack(message, 1, 9)))
    end
    other:kill()
    other:join()
end

-- A process that does f and serves calls; what f returns can be asked for.
local function serving(f)
    local p = mare.spawn(function()
        local thing = f()
        function what() return thing end -- luacheck: ignore
        require "mare.rpc".serve()
    end)
    return p, sync(p, "what")()
end

-- What a process that takes part in rules by its own means gets and sends: it answers the request
-- to be subject to a synchronizer itself.
local function false_member(told)
    local inbox = mare.channel(10, "rpc:" .. mare.self():id())
    told:send()
    local _, id, reply, fname, _, _, _, _, _, box, _, number = inbox:receive()
    assert(fname == "synchronizer.join")
    local mine = mare.channel(1000)
    box:send("member", {key = "key of its own", channel = mine, process = mare.self()}, number)
    reply:send(id, true, "key of its own")
    told:send(box)
    mare.channel():receive()
end

return {
    a_monitor_goes_on = function()
        local creator, mnt = serving(function() return require "mare.monitor".create() end)
        pester(mnt.channel, {"take", "drop", "release", "wait", "wake", "signal", "x"}, 300)
        local fence = t.ok(monitor.take(mnt, t.patience))
        local waits = mare.go(monitor.take, mnt, t.patience)
        pester(mnt.channel, {"take", "drop", "wake", "signal"}, 100)
        t.eq(waits:status(), "alive")
        t.ok(monitor.release(mnt))
        t.ok(select(2, waits:join(t.patience)) > fence)
        creator:kill()
    end,

    a_tuple_space_goes_on = function()
        local creator, space = serving(function() return require "mare.tuple".create() end)
        pester(space.channel, {"out", "find", "done", "drop", "x"}, 300)
        t.ok(space:out("job", 1))
        t.eq({space:inwithin(t.patience, "job", tuple.integer)}, {"job", 1})
        creator:kill()
    end,

    a_broker_goes_on = function()
        local creator, broker = serving(function() return require "mare.pubsub".create() end)
        pester(broker.channel, {"publish", "subscribe", "close", "x"}, 300)
        for _, odd in ipairs {{1, "no such policy"}, {0, "oldest"}, {1 << 40, "close"}} do
            t.ok(broker.channel:send("subscribe", 1, mare.channel(1), mare.self(), "a/b",
                table.unpack(odd)))
        end
        local sub = t.ok(broker:subscribe "a/b")
        pester(broker.channel, {"subscribe", "close"}, 100)
        for i = 1, 3 do t.ok(broker:publish("a/b", i)) end -- more than some have room for
        for i = 1, 3 do t.eq({sub:receive(t.patience)}, {"a/b", i}) end
        creator:kill()
    end,

    a_process_with_rules_goes_on = function()
        local p = mare.spawn(function()
            function f() return 1 end -- luacheck: ignore
            require "mare.rpc".serve()
        end)
        local told = mare.channel(1)
        local keeper = mare.spawn(function()
            local synchronizer, r = require "mare.synchronizer", require "mare.rpc"
            assert(synchronizer.add_constraint(p, "f", function() return true end))
            told:send(r.sync(p, "synchronizer.join")("f", mare.channel(1), "odd"))
            r.serve()
        end)
        t.eq(select(2, told:receive(t.patience)), "no function, or no address of its own")
        local mine = mare.channel(1000) -- this one joins in its own way
        t.ok(sync(p, "synchronizer.join")("g", mine, "key of this process"))
        local box = select(2, mine:receive(t.patience)).channel
        pester(box, {"vote", "ack", "recall", "changed", "gone", "x"}, 300)
        t.eq(sync(p, "f")(), 1)
        for _, odd in ipairs {{}, {5}, {"f"}, {"f", box}, {"f", box, 5}, {"f", 5, "k"}} do
            t.fails("badmsg", sync(p, "synchronizer.join")(table.unpack(odd)))
        end
        t.eq(sync(p, "f")(), 1)
        keeper:kill()
        p:kill()
    end,

    a_synchronizer_goes_on = function()
        local told, p = mare.channel(), mare.spawn(function()
            function f() return 1 end -- luacheck: ignore
            require "mare.rpc".serve()
        end)
        local odd = mare.spawn(false_member, told)
        told:receive(t.patience)
        local keeper = mare.spawn(function()
            local synchronizer, count = require "mare.synchronizer", 0
            assert(synchronizer.add_constraint(odd, "g", function() return true end))
            assert(synchronizer.add_constraint(p, "f", function() return true end))
            assert(synchronizer.add_trigger(p, "f", function() count = count + 1 end))
            function fired() return count end -- luacheck: ignore
            require "mare.rpc".serve()
        end)
        local box = told:receive(t.patience)
        t.eq(sync(keeper, "fired")(), 0)
        for _, message in ipairs {
            {1, 1, 99, "g", mare.self(), false}, -- a list that it was not told of
            {2, "x", false, "g", mare.self(), false}, {"x", 1, false, "g", mare.self(), false},
            {0 / 0, 1, false, "g", mare.self(), false}, {3, 1, false, {}, mare.self(), false},
            {4, 1, false, "g", mare.self(), false, "arguments"}, {},
        } do
            t.ok(box:send("ask", "key of its own", table.unpack(message, 1, 7)))
        end
        pester(box, {"ask", "commit", "abort", "member", "list", "orphan", "query", "state",
                     "decide", "gone", "x"}, 300)
        for i = 1, 3 do
            t.eq(sync(p, "f")(), 1)
            t.reaches(function() return sync(keeper, "fired")() == i end)
        end
        for _, it in ipairs {odd, keeper, p} do it:kill() end
    end,

    that_somebody_has_ended_is_believed_of_the_dead_alone = function()
        local creator, mnt = serving(function() return require "mare.monitor".create() end)
        local me, gate = mare.self(), mare.channel()
        t.ok(monitor.take(mnt, t.patience))
        t.ok(mnt.channel:send(me, "killed"))
        local other = mare.go(function() -- would have the lock now
            return monitor.doWhenFree(mnt, function() return true end, 0.01)()
        end)
        t.fails("timeout", select(2, other:join(t.patience)))
        monitor.release(mnt)

        local p = mare.spawn(function()
            function wait() return gate:receive() end -- luacheck: ignore
            function fast() return true end -- luacheck: ignore
            require "mare.rpc".serve()
        end)
        local call = mare.go(sync(p, "wait"))
        t.ok(sync(p, "fast")())
        t.ok(mare.find("rpc:" .. p:id()):send(me, "killed"))
        t.ok(sync(p, "fast")())
        gate:send "waited for"
        t.eq({call:join(t.patience)}, {true, "waited for"})
        creator:kill()
        p:kill()
    end,
}
