-- SPDX-License-Identifier: MIT
-- Rules of a synchronizer that do what they should not: fail in odd ways, kill, stop, wait, call
-- back, make rules. Each caller gets an answer, and the others go on.
local mare, t, rpc = require "mare", require "t", require "mare.rpc"
local odd = require "odd"
local sync, serving, plain, ruled = odd.sync, odd.serving, odd.plain, odd.ruled
local wordless = odd.wordless

-- Calls f of a process with such rules, and returns what came of it; free can be called afterwards.
local function call_under(rules, ...)
    local p = serving(plain)
    local keeper = ruled(p, rules, ...)
    local value, message, code = sync(p, "f")()
    return value, message, code, p, keeper
end

return {
    a_synchronizers_guard_whose_error_has_no_words_refuses = function()
        local value, message, code, p, keeper = call_under(function(synchronizer, it, error_of)
            synchronizer.add_constraint(it, "f", function() error(error_of()) end)
        end, wordless)
        t.fails("refused", value, message, code)
        t.fails("refused", sync(p, "f")())
        t.eq(sync(p, "free")(), "free")
        keeper:kill()
        p:kill()
    end,

    a_trigger_that_fails_without_words_lets_the_others_fire = function()
        local fired = mare.channel(2)
        local value, _, _, p, keeper = call_under(function(synchronizer, it, error_of)
            synchronizer.add_trigger(it, "f", function() error(error_of()) end)
            synchronizer.add_trigger(it, "f", function() fired:send "fired" end)
        end, wordless)
        t.eq(value, "f")
        t.eq(fired:receive(t.patience), "fired")
        t.eq(sync(p, "f")(), "f")
        keeper:kill()
        p:kill()
    end,

    a_guard_that_kills_who_asks = function()
        local value, message, code, _, keeper = call_under(function(synchronizer, it)
            local other = require "mare.rpc".sync
            function still() return "here" end -- luacheck: ignore
            synchronizer.add_constraint(it, "f", function(request)
                request.process:kill()
                return other ~= nil
            end)
        end)
        t.fails("noproc", value, message, code)
        t.eq(sync(keeper, "still")(), "here")
        keeper:kill()
    end,

    a_guard_that_stops_its_synchronizer = function()
        local value, message, code, p, keeper = call_under(function(synchronizer, it)
            synchronizer.add_constraint(it, "f", function() return synchronizer.stop() end)
            function more() -- luacheck: ignore
                return synchronizer.add_constraint(it, "free", function() return false end)
            end
        end)
        t.ok(value == "f" or code == "refused", message)
        t.reaches(function() return select(3, sync(p, "f")()) == "refused" end)
        t.fails("closed", sync(keeper, "more")())
        t.eq(sync(p, "free")(), "free")
        keeper:kill()
        p:kill()
    end,

    -- Meanwhile others go on, and what would be asked does not pile up without end.
    a_synchronizers_guard_that_does_not_return = function()
        local gate, asked = mare.channel(), mare.channel(1)
        local p = serving(function()
            plain()
            require "mare.rpc".limit(10)
        end)
        local keeper = ruled(p, function(synchronizer)
            synchronizer.add_constraint(p, "f", function()
                asked:trysend(true)
                return gate:receive()
            end)
        end)
        local first, refused, count = mare.go(sync(p, "f")), false, 0
        t.ok(asked:receive(t.patience))
        t.fails("timeout", rpc.sync(p, "f", 0.01)())
        while not refused and count < 2000 do
            count = count + 1
            local call = rpc.async(p, "f", function(_, _, code)
                refused = refused or code == "refused"
            end)()
            t.eq(sync(p, "free")(), "free")
            t.settle() -- if it was refused, that was told before: the callback has had its turn
            call:cancel()
        end
        t.ok(refused, "questions pile up")
        t.fails("refused", sync(p, "f")())
        mare.go(function() while true do gate:send(true) end end):detach()
        t.eq({first:join(t.patience)}, {true, "f"})
        t.reaches(function() return sync(p, "f")() == "f" end)
        keeper:kill()
        p:kill()
    end,

    rules_that_yield_fail_without_an_error_and_never_end = function()
        local fired, gate = mare.channel(10), mare.channel()
        local value, message, _, p, keeper = call_under(function(synchronizer, it)
            synchronizer.add_constraint(it, "f", function() coroutine.yield() return true end)
            synchronizer.add_trigger(it, "f", function() error() end)
            synchronizer.add_trigger(it, "f", function() coroutine.yield() fired:send(1) end)
            synchronizer.add_trigger(it, "f", function() gate:receive() end)
            synchronizer.add_constraint(it, "free", function() return true end)
        end)
        t.eq(value, "f", message)
        t.eq(fired:receive(t.patience), 1)
        t.fails("timeout", rpc.sync(p, "free", 0.01)()) -- the trigger has not ended
        t.ok(gate:sendwithin(t.patience, true))
        t.eq(sync(p, "free")(), "free")
        keeper:kill()
        t.reaches(function() return select(3, sync(p, "free")()) == "refused" end)
        p:kill()
    end,

    a_rule_that_kills_its_synchronizer = function()
        for _, kind in ipairs {"add_constraint", "add_trigger"} do
            local value, message, code, p = call_under(function(synchronizer, it)
                synchronizer[kind](it, "f", function() mare.self():kill() return true end)
            end)
            t.ok(kind == "add_trigger" and value == "f" or code == "refused", message)
            t.reaches(function() return select(3, sync(p, "f")()) == "refused" end)
            t.eq(sync(p, "free")(), "free")
            p:kill()
        end
    end,

    who_may_make_rules_is_asked_by_what_fails_waits_and_kills = function()
        local gate = mare.channel()
        local p = serving(function()
            plain()
            require "mare.synchronizer".accept(function(_, fname)
                if fname == "kill" then mare.self():kill() end
                if fname == "wait" then return gate:receive() end
                error()
            end)
        end)
        local r = mare.spawn(function()
            local synchronizer = require "mare.synchronizer"
            local function yes() return true end
            local waits = mare.go(synchronizer.add_constraint, p, "wait", yes)
            local denied = select(3, synchronizer.add_constraint(p, "f", yes))
            gate:send(true)
            local _, done = waits:join()
            local killed = select(3, synchronizer.add_constraint(p, "kill", yes))
            synchronizer.stop() -- or it would go on living
            return denied, done, killed
        end)
        t.eq({r:join(t.patience)}, {true, "denied", true, "noproc"})
    end,

    rules_that_call_back_and_make_rules = function()
        local log = mare.channel(100)
        local value, message, _, p, keeper = call_under(function(synchronizer, it)
            local r, more = require "mare.rpc", 0
            synchronizer.add_constraint(it, "f", function(request) -- it waits, which it should not
                collectgarbage()
                mare.yield()
                return r.sync(request.process, "free")() == "free"
            end)
            synchronizer.add_trigger(it, "f", function()
                more = more + 1
                log:send(more)
                if more == 1 then
                    synchronizer.add_constraint(it, "f", function() return more < 2 end)
                    synchronizer.add_exit(it, function() log:send "ended" end)
                end
            end)
        end)
        t.eq(value, "f", message)
        t.eq(log:receive(t.patience), 1)
        t.reaches(function() return sync(p, "f")() == "f" end)
        t.eq(log:receive(t.patience), 2)
        t.fails("timeout", rpc.sync(p, "f", 0.01)())
        p:kill()
        t.eq(log:receive(t.patience), "ended")
        keeper:kill()
    end,

    what_only_one_can_have_stays_with_the_function = function()
        local asked = mare.channel(10)
        local p = serving(function()
            function f(buffer, list) -- luacheck: ignore
                return buffer:get(1, 4), list.inner[1]:get(1, 4)
            end
        end)
        local function ask(synchronizer, it)
            synchronizer.add_constraint(it, "f", function(request)
                asked:send(request.args.n, request.args[1], request.args[2].inner[1])
                return true
            end)
        end
        local keepers = {ruled(p, ask), ruled(p, ask)}
        local one, two = sync(p, "f")(mare.buffer "tide", {inner = {mare.buffer "flow"}})
        t.eq({one, two}, {"tide", "flow"})
        for _ = 1, 2 do t.eq({asked:receive(t.patience)}, {2, "buffer", "buffer"}) end
        for _, keeper in ipairs(keepers) do keeper:kill() end
        p:kill()
    end,

    -- Deeper than functions may call each other.
    it_stays_however_deep_it_lies = function()
        local depth, asked = t.gc_stress and 2000 or 190000, mare.channel(1)
        local p = serving(function()
            function f(at) -- luacheck: ignore
                for _ = 1, depth do at = at[1] end
                return at:get(1, 4)
            end
        end)
        local keeper = ruled(p, function(synchronizer)
            synchronizer.add_constraint(p, "f", function(request)
                local at = request.args[1]
                for _ = 1, depth do at = at[1] end
                asked:send(at)
                return true
            end)
        end)
        local at = mare.buffer "tide"
        for _ = 1, depth do at = {at} end
        t.eq({sync(p, "f")(at)}, {"tide"})
        t.eq(asked:receive(t.patience), "buffer")
        keeper:kill()
        p:kill()
    end,

    a_process_that_keeps_rules_for_itself = function()
        local p = mare.spawn(function()
            local synchronizer, on = require "mare.synchronizer", false
            function light() return "lit" end -- luacheck: ignore
            function dark() return "dark" end -- luacheck: ignore
            require "mare.rpc".serve()
            local me = mare.self()
            synchronizer.add_constraint(me, "light", function() return not on end)
            synchronizer.add_trigger(me, "light", function() on = true end)
            synchronizer.add_trigger(me, "dark", function() on = false end)
            function ready() return true end -- luacheck: ignore
        end)
        t.reaches(function() return sync(p, "ready")() end)
        t.eq(sync(p, "light")(), "lit")
        t.fails("timeout", rpc.sync(p, "light", 0.01)())
        t.eq(sync(p, "dark")(), "dark")
        t.eq(sync(p, "light")(), "lit")
        p:kill()
    end,
}
