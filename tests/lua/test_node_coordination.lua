-- SPDX-License-Identifier: MIT
-- Calls, locks, rules, tuples and topics between nodes: as between processes of one.
local mare, rpc = require "mare", require "mare.rpc"
local monitor, tuple, pubsub = require "mare.monitor", require "mare.tuple", require "mare.pubsub"
local net, t, peers = require "mare.net", require "t", require "peers"

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

-- A way to an address that can be cut: after so many bytes more, in both directions together. The
-- next connection lasts until that is asked for again.
local function cutter(address)
    local listener = t.ok(net.listen("127.0.0.1", 0))
    local port = address:match ":(%d+)$"
    local left = math.maxinteger
    local function pass(from, to)
        while true do
            local bytes = from:read()
            if not bytes then break end
            local part = bytes:sub(1, left)
            left = left - #part
            to:write(part)
            if #part < #bytes or left == 0 then break end
        end
        from:close()
        to:close()
    end
    mare.go(function()
        while true do
            local near = listener:accept()
            if not near then return end
            local far = t.ok(net.connect("127.0.0.1", tonumber(port)))
            left = math.maxinteger
            mare.go(pass, near, far)
            mare.go(pass, far, near)
        end
    end)
    local host, own = listener:address()
    return setmetatable({
        address = ("%s:%d"):format(host, own),
        after = function(bytes) left = bytes end,
    }, {__close = function() listener:close() end})
end

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

    a_call_runs_at_most_once_whenever_the_link_is_cut = function()
        local home <close> = peers.home()
        local cuts <close> = cutter(home.address)
        local _ <close> = peers.join({address = cuts.address}, {name = "flow"}, [[
            mare.spawn({name = "list"}, function()
                local runs = {}
                function run(id) runs[id] = (runs[id] or 0) + 1 return id end
                function times() return runs end
                require "mare.rpc".serve()
            end)
            mare.sleep(1000)
        ]])
        local answered, id = {}, 0
        for round = 1, 3 do
            local list = peers.find "list@flow"
            t.eq(rpc.sync(list, "run", t.patience)(0), 0)
            cuts.after(300 * round + 37 * #answered % 300) -- bytes, somewhere in a message
            repeat
                id = id + 1
                local result, message, code = rpc.sync(list, "run", t.patience)(id)
                t.ok(result == id or code == "nonode", message)
                answered[#answered + 1] = result
            until not result
        end
        local runs = rpc.sync(peers.find "list@flow", "times", t.patience)()
        for _, number in ipairs(answered) do t.eq(runs[number], 1) end
        for number = 1, id do t.ok((runs[number] or 0) <= 1, "it ran twice") end
        t.eq(runs[0], 3)
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
            local put = require "mare.rpc".sync("store@home", "put", 1000)
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
            local read = rpc.sync("count@home", "read", 1000)
            local write = rpc.sync("count@home", "write", 1000)
            local lock = find "things@home":receive()
            local add = monitor.doWhenFree(lock, function() write(read() + 1) return true end, 1000)
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

    -- The lock is kept by one node, held by a process of the second, and taken again by the third,
    -- which that process has called.
    a_chain_of_calls_over_nodes_is_told_from_a_stranger = function()
        local home <close> = peers.home()
        local things, lock = mare.channel(0, "things"), monitor.create()
        local TEXT = [[
            local rpc, monitor = require "mare.rpc", require "mare.monitor"
            local lock = find "things@home":receive()
            mare.spawn({name = "office"}, function()
                local r, m = require "mare.rpc", require "mare.monitor"
                inner = m.doWhenFree(lock, function() return "inside" end)
                function outer(name) return m.doWhenFree(lock, r.sync(name, "inner"))() end
                function through(name, fname, ...) return r.sync(name, fname)(...) end
                r.serve()
            end)
            mare.sleep(1000)
        ]]
        local _ <close> = peers.join(home, {name = "east", listen = "127.0.0.1:0"}, TEXT)
        t.ok(things:sendwithin(t.patience, lock))
        local _ <close> = peers.join(home, {name = "west", listen = "127.0.0.1:0"}, TEXT)
        t.ok(things:sendwithin(t.patience, lock))
        local east, west = peers.find "office@east", peers.find "office@west"
        for from, to in pairs {[east] = "office@west", [west] = "office@east"} do
            local through = rpc.sync(from, "through", t.patience)
            t.reaches(function() return through(to, "inner") == "inside" end, "they have met")
        end
        for _, way in ipairs {
            {east, "outer", "office@west"}, {west, "outer", "office@east"},
            {east, "outer", "office@east"}, {east, "outer", west},
            {west, "through", "office@east", "outer", "office@west"},
        } do
            local value, message, code =
                rpc.sync(way[1], way[2], t.patience)(table.unpack(way, 3))
            t.eq({value, code}, {nil, "remote"}, message)
            t.ok(message:find "held by this very chain of calls", message)
            t.eq(rpc.sync(west, "inner", t.patience)(), "inside", "it is free again")
        end
        -- The chain begins here, where the lock is kept.
        local outer = monitor.doWhenFree(lock, rpc.sync(east, "through", t.patience))
        local value, message, code = outer("office@west", "inner")
        t.eq({value, code}, {nil, "remote"}, message)
        t.eq(rpc.sync(east, "through", t.patience)("office@west", "inner"), "inside")
        things:close()
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

    who_asks_again_at_once_starves_nobody_on_another_node = function()
        local home <close> = peers.home()
        local button <close> = server("button", function()
            function on() return true end -- luacheck: ignore
            function off() return true end -- luacheck: ignore
            require "mare.rpc".serve()
        end)
        local lock, things, told = monitor.create(), mare.channel(0, "things"),
            mare.channel(0, "told")
        local _ <close> = peers.join(home, {name = "flow", listen = "127.0.0.1:0"}, [[
            local rpc, monitor = require "mare.rpc", require "mare.monitor"
            mare.spawn({name = "button"}, function()
                function on() return true end
                function off() return true end
                require "mare.rpc".serve()
            end)
            local on, off = rpc.sync("button", "on", 1000), rpc.sync("button", "off", 1000)
            local lock = find "things@home":receive()
            local enter = monitor.doWhenFree(lock, function() return true end, 1000)
            for _ = 1, 10 do assert(enter()) end
            find "told@home":send "entered"
            for _ = 1, 5 do assert(on() and off()) end
            find "told@home":send "lit"
            mare.sleep(1000)
        ]])
        local ready, near, far = mare.channel(1), button.process, peers.find "button@flow"
        local rules = mare.spawn(function()
            local synchronizer, lit = require "mare.synchronizer", false
            for _, it in ipairs {near, far} do
                assert(synchronizer.add_constraint(it, "on", function() return not lit end))
                assert(synchronizer.add_trigger(it, "on", function() lit = true end))
                assert(synchronizer.add_trigger(it, "off", function() lit = false end))
            end
            ready:send(true)
        end)
        t.ok(ready:receive(t.patience))
        -- Here both are there first, each time: the lock's own process, and a button beside its
        -- rules.
        local over, entries, presses = false, 0, 0
        local inside = monitor.doWhenFree(lock, function() entries = entries + 1 end)
        local on, off = rpc.sync("button", "on", t.patience), rpc.sync("button", "off", t.patience)
        local greedy = {
            mare.go(function() repeat inside() until over end),
            mare.go(function() repeat presses = presses + (on() and off() and 1) until over end),
        }
        t.ok(things:sendwithin(t.patience, lock))
        t.eq(told:receive(t.patience), "entered")
        t.eq(told:receive(t.patience), "lit")
        over = true
        for _, routine in ipairs(greedy) do t.ok(routine:join(t.patience)) end
        t.ok(entries > 0 and presses > 0)
        rules:kill()
        things:close()
        told:close()
    end,

    sixty_four_clients_of_one_lock_and_one_synchronizer = function()
        local home <close> = peers.home()
        local ready, lock = mare.channel(1), monitor.create()
        local lamp <close> = server("lamp", function()
            local count, lit = 0, false
            function read() return count end -- luacheck: ignore
            function write(n) count = n end -- luacheck: ignore
            function on() -- luacheck: ignore
                assert(not lit, "it is lit")
                lit = true
                return true
            end
            function off() lit = false return true end -- luacheck: ignore
            require "mare.rpc".serve()
        end)
        local rules = mare.spawn(function()
            local synchronizer, lit = require "mare.synchronizer", false
            synchronizer.add_constraint("lamp", "on", function() return not lit end)
            synchronizer.add_trigger("lamp", "on", function() lit = true end)
            synchronizer.add_trigger("lamp", "off", function() lit = false end)
            ready:send(true)
        end)
        t.ok(ready:receive(t.patience))
        local things, told = mare.channel(0, "things"), mare.channel(64, "told")
        local text = [[
            local lock, told = find "things@home":receive(), find "told@home"
            for _ = 1, 32 do
                mare.spawn(function()
                    local rpc, monitor = require "mare.rpc", require "mare.monitor"
                    local function call(name) return rpc.sync("lamp@home", name) end
                    local add = monitor.doWhenFree(lock, function()
                        call "write"(call "read"() + 1)
                        return monitor.fence(lock)
                    end)
                    local on, off = call "on"(), call "off"()
                    told:send(add(), on, off)
                end)
            end
            mare.sleep(1000)
        ]]
        local _ <close> = peers.join(home, {name = "one"}, text)
        local _ <close> = peers.join(home, {name = "two"}, text)
        for _ = 1, 2 do t.ok(things:sendwithin(t.patience, lock)) end
        local fences = {}
        for i = 1, 64 do
            local fence, on, off = told:receive(t.patience)
            fences[i] = fence
            t.eq({on, off}, {true, true})
        end
        table.sort(fences)
        for i = 1, 64 do t.eq(fences[i], i) end
        t.eq(rpc.sync(lamp.process, "read", t.patience)(), 64)
        rules:kill()
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
