-- SPDX-License-Identifier: MIT
-- mare.synchronizer between processes: radio buttons, rules that overlap. Those that end are in
-- test_synchronizer_ends.lua, all interleavings of the transaction itself in test_transaction.lua.
local mare, t, rpc = require "mare", require "t", require "mare.rpc"
local radios = require "radios"
local sync, button, radio, group = radios.sync, radios.button, radios.radio, radios.group
local finish, check_log = radios.finish, radios.check_log

return {
    at_most_one_is_lit = function()
        for _, n in ipairs {2, 5, t.gc_stress and 8 or 50} do
            local log = mare.channel(10000)
            local buttons, keepers = group(n, log)
            local rounds = n == 50 and 2 or 5
            local list = t.in_routines(n, function(i)
                for _ = 1, rounds do
                    t.eq(sync(buttons[i], "on")(), "lit")
                    t.eq(sync(buttons[i], "off")(), "dark")
                end
            end)
            for _, r in ipairs(list) do t.ok(r:join(t.patience)) end
            t.eq(check_log(log), n * rounds)
            finish(buttons, keepers)
        end
    end,

    a_blocked_request_runs_when_another_process_makes_it_true = function()
        local log = mare.channel(100)
        local buttons, keepers = group(2, log)
        t.eq(sync(buttons[1], "on")(), "lit")
        local r = mare.go(sync(buttons[2], "on"))
        t.reaches(function() return select(2, sync(buttons[2], "state")()) == 1 end)
        t.eq(sync(buttons[1], "off")(), "dark")
        t.eq({r:join(t.patience)}, {true, "lit"})
        finish(buttons, keepers)
    end,

    who_asks_again_at_once_does_not_starve_the_others = function()
        local log = mare.channel(10000)
        local buttons, keepers = group(2, log)
        local over = false
        local greedy = mare.go(function() -- always there first
            while not over do
                t.eq(sync(buttons[1], "on")(), "lit")
                t.eq(sync(buttons[1], "off")(), "dark")
            end
        end)
        for _ = 1, 5 do
            t.eq(sync(buttons[2], "on")(), "lit")
            t.eq(sync(buttons[2], "off")(), "dark")
        end
        over = true
        t.ok(greedy:join(t.patience))
        check_log(log)
        finish(buttons, keepers)
    end,

    -- Its process lives no longer than for what has arrived.
    what_is_asked_about_when_a_process_stops_is_answered = function()
        for _, waits in ipairs {false, true} do
            local gate, asked, ready = mare.channel(), mare.channel(2), mare.channel()
            local p = mare.spawn(function()
                function f() if waits then gate:receive() end return "f" end
                function halt() return require "mare.rpc".stop() end
                require "mare.rpc".serve()
            end)
            local keeper = mare.spawn(function()
                require "mare.synchronizer".add_constraint(p, "f", function()
                    asked:send(true)
                    if not waits then gate:receive() end
                    return true
                end)
                ready:send()
            end)
            ready:receive(t.patience)
            local list = {mare.go(sync(p, "f")), mare.go(sync(p, "f"))}
            t.ok(asked:receive(t.patience))
            t.ok(not waits or asked:receive(t.patience))
            t.settle()
            t.eq(sync(p, "halt")(), true)
            t.settle(50)
            for _ = 1, 2 do t.ok(gate:sendwithin(t.patience, true)) end
            for _, r in ipairs(list) do t.eq({r:join(t.patience)}, {true, "f"}) end
            t.eq({p:join(t.patience)}, {true})
            keeper:kill()
        end
    end,

    -- The first request is over twice: when it is refused, and when its guard returns.
    the_same_when_a_synchronizer_ended_while_a_guard_waited = function()
        local gates, told, ready = {mare.channel(), mare.channel()}, mare.channel(2),
            mare.channel(2)
        local p = mare.spawn(function()
            local count = 0
            function f() return "f" end
            function g() return "g" end
            function halt() return require "mare.rpc".stop() end
            require "mare.sc".add_constraint("f", function()
                count = count + 1
                if count == 2 then -- the synchronizer has said yes
                    told:send "f"
                    gates[1]:receive()
                end
                return true
            end)
            require "mare.rpc".serve()
        end)
        local function keeper(fname)
            require "mare.synchronizer".add_constraint(p, fname, function()
                if fname == "g" then
                    told:send "g"
                    gates[2]:receive()
                end
                return true
            end)
            ready:send(true)
        end
        local first, second = mare.spawn(keeper, "f"), mare.spawn(keeper, "g")
        for _ = 1, 2 do t.ok(ready:receive(t.patience)) end
        local refused = mare.go(sync(p, "f"))
        t.eq(told:receive(t.patience), "f")
        first:kill()
        t.fails("refused", select(2, refused:join(t.patience)))
        t.ok(gates[1]:sendwithin(t.patience, true))
        for _ = 1, 2 do t.fails("denied", sync(p, "nothing")()) end -- the guard has returned
        local asked = mare.go(sync(p, "g"))
        t.eq(told:receive(t.patience), "g")
        t.eq(sync(p, "halt")(), true)
        t.settle(50)
        t.ok(gates[2]:sendwithin(t.patience, true))
        t.eq({asked:join(t.patience)}, {true, "g"})
        t.eq({p:join(t.patience)}, {true})
        finish {second}
    end,

    a_function_under_rules_that_waits_holds_up_no_other = function()
        local gates, begun, ready = {mare.channel(), mare.channel()}, mare.channel(2),
            mare.channel()
        local p = mare.spawn(function()
            function f(i)
                begun:send(i)
                gates[i]:receive()
                return i
            end
            function free() return "free" end
            require "mare.rpc".serve()
        end)
        local keeper = mare.spawn(function()
            for _, fname in ipairs {"f", "free"} do
                require "mare.synchronizer".add_constraint(p, fname, function() return true end)
            end
            ready:send()
        end)
        ready:receive(t.patience)
        local list = {}
        for i = 1, 2 do
            list[i] = mare.go(sync(p, "f"), i)
            t.eq(begun:receive(t.patience), i)
            t.eq(sync(p, "free")(), "free")
        end
        for i = 2, 1, -1 do
            t.ok(gates[i]:sendwithin(t.patience, true))
            t.eq({list[i]:join(t.patience)}, {true, i})
        end
        finish {p, keeper}
    end,

    who_cannot_go_on_for_want_of_memory_frees_the_locks = function()
        local ready = mare.channel()
        local function server()
            local go = mare.go
            function f() return "f" end
            function short(yes)
                mare.go = yes and function() error("not enough memory", 0) end or go
                return true
            end
            require "mare.rpc".serve()
        end
        local list = {mare.spawn(server), mare.spawn(server)}
        local keeper = mare.spawn(function()
            for _, it in ipairs(list) do
                require "mare.synchronizer".add_constraint(it, "f", function() return true end)
                require "mare.synchronizer".add_trigger(it, "f", function() end)
            end
            ready:send()
        end)
        ready:receive(t.patience)
        t.eq(sync(list[1], "short")(true), true)
        local value, message, code = sync(list[1], "f")()
        t.fails("refused", value, message, code)
        t.ok(message:find "not enough memory", message)
        t.eq(sync(list[2], "f")(), "f")
        t.eq(sync(list[1], "short")(false), true)
        t.eq(sync(list[1], "f")(), "f")
        finish(list, {keeper})
    end,

    synchronizers_that_overlap = function()
        local log = mare.channel(10000)
        local buttons, keepers = group(4, log, 3)
        local list = t.in_routines(4, function(i)
            for _ = 1, 5 do
                t.eq(sync(buttons[i], "on")(), "lit")
                t.eq(sync(buttons[i], "off")(), "dark")
            end
        end)
        for _, r in ipairs(list) do t.ok(r:join(t.patience)) end
        t.eq(check_log(log), 20)
        finish(buttons, keepers)
    end,

    the_second_one_refuses = function()
        local log, ready, buttons = mare.channel(10000), mare.channel(), {}
        for i = 1, 6 do buttons[i] = mare.spawn(button, log) end
        local first = mare.spawn(function() -- the smaller number, so it is asked first
            for _, bt in ipairs(buttons) do
                require "mare.synchronizer".add_constraint(bt, "on", function() return true end)
            end
            ready:send()
        end)
        local second = mare.spawn(radio, buttons, ready)
        for _ = 1, 2 do ready:receive(t.patience) end
        local list = t.in_routines(6, function(i)
            for _ = 1, 10 do
                t.eq(sync(buttons[i], "on")(), "lit")
                t.eq(sync(buttons[i], "off")(), "dark")
            end
        end)
        for _, r in ipairs(list) do t.ok(r:join(t.patience)) end
        t.eq(check_log(log), 60)
        finish(buttons, {first, second})
    end,

    a_change_that_is_told_together_with_the_refusal_counts = function()
        t.needs_preemption()
        local spin, asked, gate, ready = mare.channel(), mare.channel(1), mare.channel(),
            mare.channel()
        local one = mare.spawn(function()
            function put_out() end
            function ping() return true end
            require "mare.rpc".serve()
        end)
        local other = mare.spawn(function()
            mare.go(function() -- while it spins, what comes for its process waits together
                for stop in spin:messages() do
                    repeat until stop:tryreceive()
                end
            end)
            function on() return "lit" end
            require "mare.sc".serial(true) -- so that what is refused waits here
            require "mare.rpc".serve()
        end)
        local keeper = mare.spawn(function()
            local synchronizer, lit = require "mare.synchronizer", true
            synchronizer.add_constraint(other, "on", function()
                asked:send()
                gate:receive()
                return not lit
            end)
            synchronizer.add_trigger(one, "put_out", function() lit = false end)
            synchronizer.add_constraint(one, "ping", function() return true end)
            ready:send()
        end)
        ready:receive(t.patience)
        local r = mare.go(sync(other, "on"))
        asked:receive(t.patience)
        local stop = mare.channel(1)
        spin:send(stop)
        gate:close() -- now it is refused, and then something changes
        sync(one, "put_out")()
        t.ok(sync(one, "ping")())
        stop:send(true)
        t.eq({r:join(t.patience)}, {true, "lit"})
        finish {one, other, keeper}
    end,

    a_request_tells_what_is_asked_for_and_by_whom = function()
        local told = mare.channel(2)
        local p = mare.spawn(function()
            function set(x) return x end
            require "mare.rpc".serve()
        end)
        local keeper = mare.spawn(function()
            local synchronizer = require "mare.synchronizer"
            synchronizer.add_constraint(p, "set", function(r)
                told:send("guard", r.fname, r.args[1], r.from, r.process)
                return r.args[1] == 5
            end)
            synchronizer.add_trigger(p, "set", function(r) told:send("trigger", r.args.n) end)
            told:send "ready"
        end)
        t.eq({told:receive(t.patience)}, {"ready"})
        t.eq(sync(p, "set")(5, nil), 5)
        t.eq({told:receive(t.patience)}, {"guard", "set", 5, mare.self(), p})
        t.eq({told:receive(t.patience)}, {"trigger", 2})
        finish {p, keeper}
    end,

    others_go_on_while_the_synchronizer_thinks = function()
        for _, serial in ipairs {false, true} do
            local gate, asked, ready = mare.channel(), mare.channel(1), mare.channel()
            local p = mare.spawn(function()
                function get() return "got" end
                function set() return "set" end
                require "mare.sc".serial(serial)
                require "mare.rpc".serve()
            end)
            local keeper = mare.spawn(function()
                require "mare.synchronizer".add_constraint(p, "set", function()
                    asked:send()
                    gate:receive()
                    return true
                end)
                ready:send()
            end)
            ready:receive(t.patience)
            local set = mare.go(sync(p, "set"))
            asked:receive(t.patience)
            local get = mare.go(sync(p, "get"))
            if not serial then t.eq({get:join(t.patience)}, {true, "got"}) end
            t.settle(50)
            t.eq(get:status(), serial and "alive" or "done")
            gate:close()
            t.eq({set:join(t.patience)}, {true, "set"})
            t.eq({get:join(t.patience)}, {true, "got"})
            finish {p, keeper}
        end
    end,

    who_changes_nothing_gives_way_to_who_does = function()
        local function door()
            function pass() return "through" end
            function shut() return "shut" end
            require "mare.rpc".serve()
        end
        local doors, ready = {mare.spawn(door), mare.spawn(door)}, mare.channel(1)
        local keeper = mare.spawn(function()
            local synchronizer, open, count = require "mare.synchronizer", true, 0
            for _, it in ipairs(doors) do
                synchronizer.add_constraint(it, "pass", function() return open end)
                synchronizer.add_trigger(it, "shut", function() open = false end)
            end
            function count_passes()
                return synchronizer.add_trigger(doors[1], "pass", function() count = count + 1 end)
            end
            function passes() return count end
            ready:send(true)
            require "mare.rpc".serve()
        end)
        ready:receive()
        local list = t.in_routines(8, function() -- more than may be over without a word
            for _ = 1, 20 do t.eq(sync(doors[1], "pass")(), "through") end
        end)
        for _, r in ipairs(list) do t.ok(r:join(t.patience)) end
        t.eq(sync(keeper, "count_passes")(), true)
        for _ = 1, 5 do t.eq(sync(doors[1], "pass")(), "through") end
        t.eq(sync(doors[2], "pass")(), "through")
        t.reaches(function() return sync(keeper, "passes")() >= 5 end)
        t.eq(sync(doors[1], "shut")(), "shut") -- though the other one may still be passing
        for _, it in ipairs(doors) do t.fails("timeout", rpc.sync(it, "pass", 0.01)()) end
        t.eq(sync(keeper, "passes")(), 5)
        finish(doors, {keeper})
    end,

    local_guards_are_looked_at_again = function()
        local gate, asked, ready = mare.channel(), mare.channel(1), mare.channel()
        local p = mare.spawn(function()
            local open = true
            function shut() open = false end
            function unshut() open = true end
            function enter() return open end
            require "mare.sc".add_constraint("enter", function() return open end)
            require "mare.rpc".serve()
        end)
        local fired = mare.channel(5)
        local keeper = mare.spawn(function()
            local synchronizer = require "mare.synchronizer"
            synchronizer.add_constraint(p, "enter", function()
                asked:send()
                gate:receive()
                return true
            end)
            synchronizer.add_trigger(p, "enter", function() fired:send "fired" end)
            ready:send()
        end)
        ready:receive(t.patience)
        local r = mare.go(sync(p, "enter"))
        asked:receive(t.patience)
        sync(p, "shut")()
        gate:close()
        t.settle()
        t.eq(r:status(), "alive")
        sync(p, "unshut")()
        t.eq({r:join(t.patience)}, {true, true})
        t.eq({fired:receive(t.patience)}, {"fired"})
        t.eq(#fired, 0, "the one that was given up did not fire")
        finish {p, keeper}
    end,

    misuse_names_the_argument = function()
        local synchronizer = require "mare.synchronizer"
        t.raises("bad argument #1 to 'add_trigger' %(process", synchronizer.add_trigger)
        t.raises("bad argument #2 to 'add_constraint' %(string", synchronizer.add_constraint,
            mare.self(), 5)
        t.raises("bad argument #3 to 'add_trigger' %(function", synchronizer.add_trigger,
            mare.self(), "f")
        t.raises("bad argument #4 to 'add_trigger' %(number", synchronizer.add_trigger,
            mare.self(), "f", print, "soon")
        t.raises("bad argument #1 to 'add_exit' %(process", synchronizer.add_exit, "f", print)
        t.fails("noproc", synchronizer.add_exit(mare.self(), print))
        t.fails("noname", synchronizer.add_trigger("no-such-name", "f", print))
    end,
}
