-- SPDX-License-Identifier: MIT
-- mare.synchronizer: synchronizers and processes under their rules that stop, are killed or fail.
local mare, t, rpc = require "mare", require "t", require "mare.rpc"
local countdown = require "countdown"
local radios = require "radios"
local sync, button, radio, group = radios.sync, radios.button, radios.radio, radios.group
local finish, check_log = radios.finish, radios.check_log

return {
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
}
