-- SPDX-License-Identifier: MIT
-- Calls, locks, rules, tuples and topics between nodes: as between processes of one.
local mare, rpc = require "mare", require "mare.rpc"
local monitor, tuple, pubsub = require "mare.monitor", require "mare.tuple", require "mare.pubsub"
local t, peers = require "t", require "peers"

-- A process here that can be called.
local function server(name, body)
    local process = t.ok(mare.spawn({name = name}, body))
    return setmetatable({process = process}, {__close = function() process:kill() end})
end

local TIDE = [[
    mare.spawn({name = "tide"}, function()
        local level = 0
        function rise(by) level = level + by return level end
        function fail() error "on purpose" end
        require "mare.rpc".serve()
    end)
    mare.sleep(1000)
]]

-- Buttons on each of three nodes, of which one may be lit, by the rules of two synchronizers. Each
-- notes from when until when it was lit; all programs of a machine read the same clock.
local EACH = (t.gc_stress or t.slow > 1) and 4 or 17
local BUTTONS = ("local EACH = %d\n"):format(EACH) .. [[
    local mare = require "mare"
    for i = 1, EACH do
        mare.spawn({name = "button" .. i}, function()
            local times = {}
            function on() times[#times + 1] = mare.now() return true end
            function off() times[#times + 1] = mare.now() return true end
            function history() return times end
            require "mare.rpc".serve()
        end)
    end
    local function one_lit()
        local synchronizer, lit = require "mare.synchronizer", nil
        for _, node in ipairs {"home", "east", "west"} do
            for i = 1, EACH do
                local name, it = ("button%d@%s"):format(i, node), nil
                repeat
                    it = mare.find(name)
                    if not it then mare.sleep(0.002) end
                until it
                assert(synchronizer.add_constraint(it, "on", function() return not lit end))
                assert(synchronizer.add_trigger(it, "on", function() lit = it end))
                assert(synchronizer.add_trigger(it, "off", function() lit = nil end))
                assert(synchronizer.add_exit(it, function() if lit == it then lit = nil end end))
            end
        end
        mare.channel(0, "lit"):receive()
    end
]]
local RULES = [[ mare.spawn({name = "rules"}, one_lit) ]]
local STAY = " mare.sleep(1000)"

-- No two were lit at the same time.
local function check_disjoint()
    local spans = {}
    for _, node in ipairs {"home", "east", "west"} do
        for i = 1, EACH do
            local name = ("button%d@%s"):format(i, node)
            local times = rpc.sync(name, "history", t.patience)()
            t.eq(#times, 2)
            spans[#spans + 1] = times
        end
    end
    table.sort(spans, function(a, b) return a[1] < b[1] end)
    for i = 2, #spans do t.ok(spans[i - 1][2] <= spans[i][1], "two are lit") end
end

return {
    functions_of_other_nodes_are_called = function()
        local home <close> = peers.home()
        local peer <close> = peers.join(home, {name = "flow"}, TIDE)
        local rise = rpc.sync(peers.find "tide@flow", "rise", t.patience)
        t.eq(rise(2), 2)
        t.eq(rise(3), 5)
        t.eq(rpc.sync("tide@flow", "rise", t.patience)(1), 6)
        local _, text, code, trace = rpc.sync("tide@flow", "fail", t.patience)()
        t.ok(text:find "on purpose")
        t.eq(code, "remote")
        t.ok(trace:find "fail")
        t.fails("denied", rpc.sync("tide@flow", "os.exit", t.patience)())
        local waiting = mare.go(rpc.sync("tide@flow", "rise", t.patience), 1)
        t.eq(select(2, waiting:join(t.patience)), 7)
        peer.signal "KILL"
        t.fails("nonode", rise(1))
    end,

    many_calls_in_flight_are_each_answered_once = function()
        local home <close> = peers.home()
        local _ <close> = peers.join(home, {name = "flow"}, TIDE)
        local n, seen, answers, done = t.slow > 1 and 1000 or 2000, {}, 0, mare.channel(1)
        local rise = rpc.async(peers.find "tide@flow", "rise", function(level, message)
            t.ok(level, message)
            t.eq(seen[level], nil)
            seen[level], answers = true, answers + 1
            if answers == n then done:send(true) end
        end)
        for _ = 1, n do t.ok(rise(1)) end
        t.ok(done:receive(t.patience))
    end,

    rules_hold_for_callers_of_other_nodes = function()
        local home <close> = peers.home()
        local _ <close> = server("store", function()
            local items, sc = {}, require "mare.sc"
            function put(x) items[#items + 1] = x end -- luacheck: ignore
            function get() return table.remove(items, 1) end -- luacheck: ignore
            sc.add_constraint("put", function() return #items < 2 end)
            sc.add_constraint("get", function() return #items > 0 end)
            require "mare.rpc".serve()
        end)
        local _ <close> = peers.join(home, {name = "flow"}, [[
            local put = require "mare.rpc".sync("store@home", "put", 20)
            for i = 1, 20 do put(i) end
            mare.sleep(1000)
        ]])
        local get = rpc.sync("store", "get", t.patience)
        for i = 1, 20 do t.eq(get(), i) end
    end,

    radio_buttons_on_three_nodes = function()
        local home <close> = peers.home()
        local _ <close> = peers.join(home, {name = "east", listen = "127.0.0.1:0"},
            BUTTONS .. RULES .. STAY)
        local west <close> = peers.join(home, {name = "west", listen = "127.0.0.1:0"},
            BUTTONS .. STAY)
        local here <close> = server("radio", load(BUTTONS .. RULES))
        for _, name in ipairs {"lit@east", "lit"} do peers.find(name) end
        local function press(node, i)
            local name = ("button%d@%s"):format(i, node)
            return rpc.sync(name, "on", t.patience)(), rpc.sync(name, "off", t.patience)()
        end
        local list = {}
        for _, node in ipairs {"home", "east", "west"} do
            for i = 1, EACH do
                list[#list + 1] = mare.go(function() t.eq({press(node, i)}, {true, true}) end)
            end
        end
        for _, r in ipairs(list) do t.ok(r:join(t.patience)) end
        check_disjoint()
        t.eq(rpc.sync("button1@west", "on", t.patience)(), true)
        west.signal "KILL" -- while one of its buttons is lit
        for _, node in ipairs {"home", "east"} do t.eq({press(node, 1)}, {true, true}) end
        t.ok(here.process:join(t.patience))
        mare.find "rules":kill()
        t.fails("refused", rpc.sync("button1@east", "on", t.patience)())
        for i = 1, EACH do mare.find("button" .. i):kill() end
    end,

    one_lock_is_held_by_one_node_at_a_time = function()
        local home <close> = peers.home()
        local _ <close> = server("count", function()
            local count = 0
            function read() return count end -- luacheck: ignore
            function write(n) count = n end -- luacheck: ignore
            require "mare.rpc".serve()
        end)
        local lock, things, told = monitor.create(), mare.channel(0, "things"),
            mare.channel(2, "told")
        local text = [[
            local rpc, monitor = require "mare.rpc", require "mare.monitor"
            local read = rpc.sync("count@home", "read", 20)
            local write = rpc.sync("count@home", "write", 20)
            local lock = find "things@home":receive()
            local add = monitor.doWhenFree(lock, function() write(read() + 1) return true end, 20)
            local done = 0
            for _ = 1, 20 do if add() then done = done + 1 end end
            find "told@home":send(done)
            mare.sleep(1000)
        ]]
        local _ <close> = peers.join(home, {name = "one"}, text)
        local _ <close> = peers.join(home, {name = "two"}, text)
        for _ = 1, 2 do t.ok(things:sendwithin(t.patience, lock)) end
        for _ = 1, 2 do t.eq(told:receive(t.patience), 20) end
        t.eq(rpc.sync("count", "read", t.patience)(), 40)
        things:close()
        told:close()
    end,

    a_lock_outlives_the_node_that_held_it = function()
        local home <close> = peers.home()
        local lock, things, told = monitor.create(), mare.channel(0, "things"),
            mare.channel(1, "told")
        local peer <close> = peers.join(home, {name = "flow"}, [[
            local lock = find "things@home":receive()
            require "mare.monitor".doWhenFree(lock, function()
                find "told@home":send(true)
                mare.sleep(1000)
            end)()
        ]])
        t.ok(things:sendwithin(t.patience, lock))
        t.ok(told:receive(t.patience))
        t.fails("timeout", monitor.doWhenFree(lock, t.ok, 0.01)())
        peer.signal "KILL"
        t.eq(monitor.doWhenFree(lock, function() return "mine" end, t.patience)(), "mine")
        things:close()
        told:close()
    end,

    a_tuple_is_taken_by_one_node = function()
        local home <close> = peers.home()
        local space, things = tuple.create(), mare.channel(0, "things")
        local text = [[
            local space = find "things@home":receive()
            local tuple = require "mare.tuple"
            while true do
                local _, n = space:in_("job", tuple.integer)
                space:out("done", n, options.name)
            end
        ]]
        local _ <close> = peers.join(home, {name = "one"}, text)
        local _ <close> = peers.join(home, {name = "two"}, text)
        for _ = 1, 2 do t.ok(things:sendwithin(t.patience, space)) end
        for i = 1, 20 do t.ok(space:out("job", i)) end
        for i = 1, 20 do
            t.eq(select(2, space:inwithin(t.patience, "done", i, tuple.string)), i)
        end
        t.fails("empty", space:inp("done", tuple.any, tuple.any))
        things:close()
    end,

    what_is_published_reaches_other_nodes = function()
        local home <close> = peers.home()
        local broker, things, told = pubsub.create(), mare.channel(0, "things"),
            mare.channel(10, "told")
        local _ <close> = peers.join(home, {name = "flow"}, [[
            local sub = find "things@home":receive():subscribe "tide/#"
            find "told@home":send "subscribed"
            while true do find "told@home":send(sub:receive()) end
        ]])
        t.ok(things:sendwithin(t.patience, broker))
        t.eq(told:receive(t.patience), "subscribed")
        for i = 1, 3 do t.ok(broker:publish("tide/recife", i)) end
        for i = 1, 3 do t.eq(select(2, told:receive(t.patience)), i) end
        things:close()
        told:close()
    end,
}
