-- SPDX-License-Identifier: MIT
-- mare.synchronizer between processes: radio buttons, rules that overlap, and whoever dies. All
-- interleavings of the transaction itself are in test_transaction.lua.
local mare, t, rpc = require "mare", require "t", require "mare.rpc"
local countdown = require "countdown"

local function sync(p, fname) return rpc.sync(p, fname, t.patience) end

-- A button that may be lit and put out in turns. It notes what it does where all can read it.
local function button(log)
    local sc, isOn = require "mare.sc", false
    function on() isOn = true log:send("on", mare.self():id()) return "lit" end
    function off() isOn = false log:send("off", mare.self():id()) return "dark" end
    function state() return isOn, sc.blocked() end
    sc.add_constraint("on", function() return not isOn end)
    sc.add_constraint("off", function() return isOn end)
    require "mare.rpc".serve()
end

-- At most one of them is lit. `ready` is told when the rules are set.
local function radio(buttons, ready)
    local synchronizer, lit = require "mare.synchronizer", nil
    for _, bt in ipairs(buttons) do
        if synchronizer.add_constraint(bt, "on", function() return not lit end) then
            synchronizer.add_trigger(bt, "on", function() lit = bt end)
            synchronizer.add_trigger(bt, "off", function() lit = nil end)
            synchronizer.add_exit(bt, function() if lit == bt then lit = nil end end)
        end
    end
    ready:send(true)
end

local function group(n, log, radios)
    local buttons, keepers = {}, {}
    local ready = mare.channel(radios or 1)
    for i = 1, n do buttons[i] = mare.spawn(button, log) end
    for i = 1, radios or 1 do keepers[i] = mare.spawn(radio, buttons, ready) end
    for _ = 1, radios or 1 do t.ok(ready:receive(t.patience)) end
    return buttons, keepers
end

local function finish(...)
    for _, list in ipairs {...} do
        for _, p in ipairs(list) do p:kill() end
    end
end

-- What the buttons noted: on and off in turns, and never two lit; one that is dead is dark. Returns
-- how often one was lit.
local function check_log(log, dead)
    local lit, count = nil, 0
    while #log > 0 do
        local word, id = log:receive()
        if word == "on" then
            t.ok(lit == nil or dead and dead[lit], "two are lit")
            lit, count = id, count + 1
        else
            t.eq(lit, id)
            lit = nil
        end
    end
    return count
end

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

    without_its_synchronizer_a_request_is_refused = function()
        local log = mare.channel(100)
        local buttons, keepers = group(2, log)
        t.eq(sync(buttons[1], "on")(), "lit")
        local r = mare.go(sync(buttons[2], "on"))
        t.reaches(function() return select(2, sync(buttons[2], "state")()) == 1 end)
        keepers[1]:kill()
        local _, value, message, code = r:join(t.patience)
        t.fails("refused", value, message, code)
        t.ok(message:find "has ended", message)
        t.fails("refused", sync(buttons[1], "off")())
        t.eq({sync(buttons[1], "state")()}, {true, 0}, "what has no rules goes on")
        finish(buttons)
    end,

    a_synchronizer_that_was_stopped_is_gone_as_well = function()
        local p = mare.spawn(function()
            function f() return 1 end
            require "mare.rpc".serve()
        end)
        local ready, go = mare.channel(), mare.channel()
        local keeper = mare.spawn(function()
            local synchronizer = require "mare.synchronizer"
            synchronizer.add_constraint(p, "f", function() return false end)
            ready:send()
            go:receive()
            assert(synchronizer.stop() and not synchronizer.stop())
            mare.channel():receive() -- and lives
        end)
        ready:receive(t.patience)
        local r = mare.go(sync(p, "f"))
        t.settle()
        go:send()
        local _, value, message, code = r:join(t.patience)
        t.fails("refused", value, message, code)
        t.fails("refused", sync(p, "f")())
        finish {p, keeper}
    end,

    a_synchronizer_that_has_ended_can_be_forgotten = function()
        local log = mare.channel(100)
        local p = mare.spawn(function()
            button(log)
            local gone
            function note(process) gone = process end
            function forget() return require "mare.synchronizer".forget(gone) end
        end)
        local ready = mare.channel()
        local keeper = mare.spawn(radio, {p}, ready)
        ready:receive(t.patience)
        sync(p, "note")(keeper)
        t.eq(sync(p, "forget")(), false, "it lives")
        keeper:kill()
        t.reaches(function() return select(3, rpc.sync(p, "on", t.patience)()) == "refused" end)
        t.eq(sync(p, "forget")(), true)
        t.eq(sync(p, "on")(), "lit")
        p:kill()
    end,

    a_process_says_who_may_make_rules_for_it = function()
        local p = mare.spawn(function()
            local synchronizer, keeper = require "mare.synchronizer", nil
            synchronizer.accept(function(process, fname)
                assert(fname ~= "odd", "no rules for odd")
                return process == keeper and fname == "f"
            end)
            function f() return 1 end
            function g() return 2 end
            function odd() return 3 end
            function trust(process) keeper = process end
            function all() synchronizer.accept(nil) end
            require "mare.rpc".serve()
        end)
        local orders, answers = mare.channel(), mare.channel(1)
        local keeper = mare.spawn(function()
            local synchronizer, may = require "mare.synchronizer", true
            for fname in orders:messages() do
                if fname == "off" then may = false else
                    answers:send(synchronizer.add_constraint(p, fname, function() return may end))
                end
            end
            mare.channel():receive()
        end)
        local function rule(fname)
            orders:send(fname)
            return answers:receive(t.patience)
        end
        t.fails("denied", rule "f")
        sync(p, "trust")(keeper)
        t.fails("denied", rule "g")
        t.fails("denied", rule "odd")
        t.eq(rule "f", true)
        orders:send "off"
        t.eq(sync(p, "g")(), 2, "what was denied does not count")
        t.fails("timeout", rpc.sync(p, "f", 0.01)())
        sync(p, "all")()
        t.eq(rule "g", true)
        t.fails("timeout", rpc.sync(p, "g", 0.01)())
        finish {p, keeper}
        t.raises("bad argument #1 to 'accept'", require "mare.synchronizer".accept, 5)
    end,

    -- The process has heard of the rule, and does not answer in time. What was given up never
    -- counts.
    a_rule_that_is_not_accepted_in_time_is_none = function()
        local gate, asked = mare.channel(), mare.channel(3)
        local p = mare.spawn(function()
            function f() return 1 end
            require "mare.synchronizer".accept(function()
                asked:send(true)
                pcall(gate.receive, gate) -- a cancel ends this wait, and it says yes all the same
                return true
            end)
            require "mare.rpc".serve()
        end)
        t.eq(sync(p, "f")(), 1) -- it serves
        local done = mare.channel(1)
        local keeper = mare.spawn(function(patience)
            local synchronizer = require "mare.synchronizer"
            local function no() return false end
            done:send {select(3, synchronizer.add_constraint(p, "f", no, 0.01)),
                select(3, synchronizer.add_trigger(p, "f", no, mare.deadline(0.01)))}
            done:send(synchronizer.add_constraint(p, "f", function() return true end, patience))
            mare.channel():receive()
        end, t.patience)
        t.eq(done:receive(t.patience), {"timeout", "timeout"})
        for _ = 1, 3 do t.ok(asked:receive(t.patience)) end
        t.ok(gate:sendwithin(t.patience, true))
        t.eq(done:receive(t.patience), true)
        t.eq(sync(p, "f")(), 1)
        finish {p, keeper}
    end,

    a_guard_that_fails_refuses_and_a_trigger_that_fails_is_printed = function()
        local ready = mare.channel()
        local p = mare.spawn(function()
            function f() return 1 end
            require "mare.rpc".serve()
        end)
        local keeper = mare.spawn(function()
            require "mare.synchronizer".add_constraint(p, "f", function() error "broken guard" end)
            ready:send()
        end)
        ready:receive(t.patience)
        local _, message, code = sync(p, "f")()
        t.eq(code, "refused")
        t.ok(message:find "broken guard", message)
        finish {p, keeper}
    end,

    a_button_is_killed_at_every_line = function()
        local lit = 0
        local killed = countdown.each(countdown.step(61), function(n)
            local log, ready = mare.channel(100), mare.channel(1)
            local victim = mare.spawn(countdown.body, n, button, log)
            local other = mare.spawn(button, log)
            local keepers = {}
            for i = 1, 2 do
                keepers[i] = mare.spawn(radio, {victim, other}, ready)
                t.ok(ready:receive(t.patience))
            end
            local r = mare.go(function() return sync(victim, "on")() and sync(victim, "off")() end)
            local s = mare.go(function() return sync(other, "on")() and sync(other, "off")() end)
            t.ok(r:join(t.patience))
            t.eq({s:join(t.patience)}, {true, "dark"}, "the others go on")
            lit = lit + check_log(log, {[victim:id()] = true})
            countdown.rest(victim)
            finish({other}, keepers)
            return victim
        end)
        t.ok(killed > 5 and lit > killed, killed)
    end,

    a_synchronizer_is_killed_at_every_line = function()
        local refused = 0
        local killed = countdown.each(countdown.step(61), function(n)
            local log, ready = mare.channel(100), mare.channel(1)
            local buttons = {mare.spawn(button, log), mare.spawn(button, log)}
            local other = mare.spawn(radio, buttons, ready)
            t.ok(ready:receive(t.patience))
            local victim = mare.spawn(countdown.body, n, radio, buttons, ready)
            mare.select({victim, ready}, t.patience)
            local list = t.in_routines(2, function(i)
                local value, message, code = sync(buttons[i], "on")()
                if value then value, message, code = sync(buttons[i], "off")() end
                if not value then
                    t.fails("refused", value, message, code)
                    refused = refused + 1
                    other:kill() -- a lit one that nobody may put out holds back the other
                end
            end)
            for _, r in ipairs(list) do t.ok(r:join(t.patience), "nobody hangs") end
            check_log(log)
            countdown.rest(victim)
            finish(buttons, {other})
            return victim
        end)
        t.ok(killed > 5, killed)
        t.ok(refused > 0)
    end,

    of_members_that_have_ended_nothing_is_kept = {function()
        local synchronizer, ended, made = require "mare.synchronizer", 0, 0
        local function yes() return true end
        local other = mare.spawn(function()
            local its = require "mare.synchronizer"
            function rule(p) -- luacheck: ignore
                its.add_constraint(p, "f", function() return true end)
                its.add_trigger(p, "f", function() end)
            end
            require "mare.rpc".serve()
        end)
        t.leaves_nothing(t.gc_stress and 20 or 100, function()
            local p = mare.spawn(function()
                function f() return "f" end -- luacheck: ignore
                function g() end -- luacheck: ignore
                require "mare.sc".serial(true) -- who is refused is not kept here
                require "mare.rpc".serve()
            end)
            made = made + 1
            t.ok(synchronizer.add_constraint(p, "f", yes, t.patience))
            t.ok(synchronizer.add_trigger(p, "f", yes, t.patience))
            t.ok(synchronizer.add_constraint(p, "g", function() return false end, t.patience))
            t.ok(synchronizer.add_exit(p, function() ended = ended + 1 end))
            sync(other, "rule")(p)
            t.eq(sync(p, "f")(), "f")
            t.fails("timeout", rpc.sync(p, "g", 0.002)())
            p:kill()
        end, function()
            t.reaches(function() return ended == made end)
        end)
        other:kill()
        synchronizer.stop()
    end, timeout = 120},

    of_synchronizers_that_have_ended_nothing_is_kept = {function()
        local synchronizer, ready = require "mare.synchronizer", mare.channel(1)
        local p = mare.spawn(function()
            function f() return "f" end -- luacheck: ignore
            function forget(k) return require "mare.synchronizer".forget(k) end -- luacheck: ignore
            require "mare.rpc".serve()
        end)
        t.ok(synchronizer.add_constraint(p, "f", function() return true end, t.patience))
        t.leaves_nothing(t.gc_stress and 20 or 100, function()
            local other = mare.spawn(function()
                require "mare.synchronizer".add_constraint(p, "f", function() return true end)
                ready:send(true)
            end)
            t.ok(ready:receive(t.patience))
            t.eq(sync(p, "f")(), "f")
            other:kill()
            t.reaches(function() return sync(p, "forget")(other) end)
            t.eq(sync(p, "f")(), "f")
        end)
        p:kill()
        synchronizer.stop()
    end, timeout = 120},

    -- So the others know it under two keys.
    who_is_a_member_and_a_synchronizer_ends_as_both = function()
        local synchronizer, ended = require "mare.synchronizer", false
        local function yes() return true end
        local p = mare.spawn(function()
            function f() return "f" end -- luacheck: ignore
            require "mare.rpc".serve()
        end)
        local both = mare.spawn(function()
            function g() return "g" end -- luacheck: ignore
            function rule() -- luacheck: ignore
                return require "mare.synchronizer".add_constraint(p, "f", function()
                    return true
                end)
            end
            require "mare.rpc".serve()
        end)
        t.ok(synchronizer.add_constraint(both, "g", yes, t.patience))
        t.ok(synchronizer.add_exit(both, function() ended = true end))
        t.ok(synchronizer.add_constraint(p, "f", yes, t.patience))
        t.ok(sync(both, "rule")())
        t.eq(sync(p, "f")(), "f") -- from now on it is known as a synchronizer, too
        both:kill()
        t.reaches(function() return ended end)
        p:kill()
        synchronizer.stop()
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
