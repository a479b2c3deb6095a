-- SPDX-License-Identifier: MIT
-- mare.sc: guards of requests, blocked ones that run once they may, the serial scheme.
local mare, t, rpc = require "mare", require "t", require "mare.rpc"

local function sync(p, fname) return rpc.sync(p, fname, t.patience) end

-- A server of a bounded buffer, whose functions know nothing of bounds.
local function buffer(size, serial)
    local items, sc = {}, require "mare.sc"
    function put(x) items[#items + 1] = x end
    function get() return table.remove(items, 1) end
    function count() return #items, sc.blocked() end
    sc.add_constraint("put", function() return #items < size end)
    sc.add_constraint("get", function() return #items > 0 end)
    sc.serial(serial)
    require "mare.rpc".serve()
end

return {
    a_request_waits_until_its_guard_is_true = function()
        for _, serial in ipairs {false, true} do
            local p = mare.spawn(buffer, 2, serial)
            local r = mare.go(sync(p, "get"))
            t.reaches(function() return select(2, sync(p, "count")()) == 1 end)
            sync(p, "put")("first")
            t.eq({r:join(t.patience)}, {true, "first"})
            for i = 1, 2 do sync(p, "put")(i) end
            r = mare.go(sync(p, "put"), 3)
            t.reaches(function() return select(2, sync(p, "count")()) == 1 end)
            t.eq(sync(p, "get")(), 1)
            t.eq({r:join(t.patience)}, {true})
            t.eq({sync(p, "count")()}, {2, 0})
            p:kill()
        end
    end,

    many_producers_and_consumers = function()
        for _, serial in ipairs {false, true} do
            local p, sum, list = mare.spawn(buffer, 3, serial), 0, {}
            for i = 1, 30 do
                list[#list + 1] = mare.go(function()
                    local first = sync(p, "get")()
                    t.eq(select("#", sync(p, "put")(i)), 0)
                    local second = sync(p, "get")()
                    sum = sum + first + second
                end)
            end
            for _ = 1, 30 do sync(p, "put")(1000) end
            for _, r in ipairs(list) do t.ok(r:join(t.patience)) end
            t.eq(sum, 30 * 1000 + 30 * 31 // 2)
            t.eq(select(2, sync(p, "count")()), 0)
            p:kill()
        end
    end,

    -- Whoever takes the lock in one call may keep it after that. A guard that is asked later,
    -- perhaps in the same routine, is not a part of that chain of calls.
    a_guard_belongs_to_its_own_call = function()
        for _, ruled in ipairs {false, true} do
            local p = mare.spawn(function()
                local m = require "mare.monitor"
                local mnt = m.create()
                function lock() return m.take(mnt) end -- luacheck: ignore
                function free() return "free" end -- luacheck: ignore
                local sc = require "mare.sc"
                sc.add_constraint("free", function() return not m.take(mnt, 0.02) end)
                sc.add_constraint("lock", function() return true end)
                require "mare.rpc".serve()
            end)
            local keeper, ready = nil, mare.channel(1)
            if ruled then -- the guards are asked again in another routine
                keeper = mare.spawn(function()
                    local synchronizer = require "mare.synchronizer"
                    for _, fname in ipairs {"lock", "free"} do
                        synchronizer.add_constraint(p, fname, function() return true end)
                    end
                    ready:send(true)
                end)
                t.ok(ready:receive(t.patience))
            end
            t.eq(sync(p, "lock")(), 1)
            local other = mare.go(sync(p, "free")) -- a chain of its own
            t.eq({other:join(t.patience)}, {true, "free"})
            p:kill()
            if keeper then keeper:kill() end
        end
    end,

    the_oldest_blocked_request_runs_first = function()
        local p, order = mare.spawn(buffer, 5), {}
        local list = {}
        for i = 1, 5 do
            list[i] = mare.go(function() order[sync(p, "get")()] = i end)
            t.reaches(function() return select(2, sync(p, "count")()) == i end)
        end
        for i = 1, 5 do sync(p, "put")(i) end
        for i = 1, 5 do t.ok(list[i]:join(t.patience)) end
        t.eq(order, {1, 2, 3, 4, 5})
        p:kill()
    end,

    -- The guard of the first one waits, and says no after the second one was blocked.
    who_is_blocked_late_keeps_its_place = function()
        local asked, answer, order = mare.channel(1), mare.channel(), {}
        local p = mare.spawn(function()
            local sc, open, waited = require "mare.sc", false, false
            function enter() return true end
            function fall() open = true end
            function blocked() return sc.blocked() end
            sc.add_constraint("enter", function(request)
                if request.args[1] == 1 and not waited then
                    waited = true
                    asked:send(true)
                    answer:receive()
                    return false
                end
                return open
            end)
            require "mare.rpc".serve()
        end)
        local done = mare.channel(2)
        for i = 1, 2 do
            rpc.async(p, "enter", function() done:send(i) end)(i)
            if i == 1 then asked:receive() end
        end
        t.reaches(function() return sync(p, "blocked")() == 1 end)
        answer:send(true)
        t.reaches(function() return sync(p, "blocked")() == 2 end)
        sync(p, "fall")()
        for i = 1, 2 do order[i] = done:receive(t.patience) end
        t.eq(order, {1, 2})
        p:kill()
    end,

    a_guard_is_told_of_the_request = function()
        local told = mare.channel(1)
        local p = mare.spawn(function()
            local sc = require "mare.sc"
            function f(...) return ... end
            sc.add_constraint("f", function(request)
                told:send(request.fname, request.args, request.from)
                return request.args[1] == "yes"
            end)
            require "mare.rpc".serve()
        end)
        t.eq(sync(p, "f")("yes", nil), "yes")
        t.eq({told:receive()}, {"f", {"yes", n = 2}, mare.self()})
        t.fails("timeout", rpc.sync(p, "f", 0.01)("no"))
        p:kill()
    end,

    all_guards_must_be_true = function()
        local p = mare.spawn(function()
            local sc, open = require "mare.sc", {}
            function turn(name, on) open[name] = on end
            function enter() return "in" end
            for _, name in ipairs {"a", "b"} do
                sc.add_constraint("enter", function() return open[name] end)
            end
            require "mare.rpc".serve()
        end)
        local r = mare.go(sync(p, "enter"))
        sync(p, "turn")("a", true)
        t.eq({select(3, r:join(0))}, {"timeout"})
        sync(p, "turn")("a", false)
        sync(p, "turn")("b", true)
        t.eq({select(3, r:join(0))}, {"timeout"})
        sync(p, "turn")("a", true)
        t.eq({r:join(t.patience)}, {true, "in"})
        p:kill()
    end,

    nothing_comes_between_a_guard_and_its_call = function()
        local p = mare.spawn(function()
            local sc, free, worst, inside = require "mare.sc", true, 0, 0
            function enter()
                free, inside = false, inside + 1
                worst = math.max(worst, inside)
                mare.yield()
                free, inside = true, inside - 1
            end
            function most() return worst end
            sc.add_constraint("enter", function() return free end)
            require "mare.rpc".serve()
        end)
        for _, r in ipairs(t.in_routines(50, sync(p, "enter"))) do t.ok(r:join(t.patience)) end
        t.eq(sync(p, "most")(), 1)
        p:kill()
    end,

    a_guard_that_fails_refuses = function()
        local p = mare.spawn(function()
            function f() end
            require "mare.sc".add_constraint("f", function() error "broken" end)
            require "mare.rpc".serve()
        end)
        local _, message, code = sync(p, "f")()
        t.eq(code, "refused")
        t.ok(message:find "broken")
        p:kill()
    end,

    who_waits_no_longer_is_forgotten = function()
        local asks = mare.channel()
        local p = mare.spawn(function()
            mare.go(function() -- no request, which would look at the blocked ones itself
                for reply in asks:messages() do reply:send(require "mare.sc".blocked()) end
            end)
            buffer(1)
        end)
        local function blocked()
            local reply = mare.channel(1)
            asks:send(reply)
            return reply:receive(t.patience)
        end
        local waiting = mare.go(rpc.sync(p, "get", t.patience))
        t.reaches(function() return blocked() == 1 end)
        waiting:cancel()
        t.reaches(function() return blocked() == 0 end)
        local dead = mare.spawn(function()
            require "mare.rpc".sync(p, "get")()
        end)
        t.reaches(function() return select(2, sync(p, "count")()) == 1 end)
        dead:kill()
        t.reaches(function() return select(2, sync(p, "count")()) == 0 end)
        sync(p, "put")("kept")
        t.eq(sync(p, "get")(), "kept")
        p:kill()
    end,

    an_error_lets_the_blocked_go_on = function()
        for _, serial in ipairs {false, true} do
            local p = mare.spawn(function()
                local sc, open = require "mare.sc", false
                function fall() open = true error "after the change" end
                function enter() return "in" end
                sc.add_constraint("enter", function() return open end)
                sc.serial(serial)
                require "mare.rpc".serve()
            end)
            local r = mare.go(sync(p, "enter"))
            t.eq(select(3, sync(p, "fall")()), "remote")
            t.eq({r:join(t.patience)}, {true, "in"})
            p:kill()
        end
    end,

    -- Its error ends the routine that runs it.
    nor_does_one_hold_them_up_whose_answer_nobody_wants = function()
        for _, serial in ipairs {false, true} do
            local p = mare.spawn(function()
                local sc, open = require "mare.sc", false
                function fall() open = true error "expected: nobody waits" end
                function enter() return "in" end
                function blocked() return sc.blocked() end
                sc.add_constraint("enter", function() return open end)
                sc.serial(serial)
                require "mare.rpc".serve()
            end)
            local r = mare.go(sync(p, "enter"))
            t.reaches(function() return sync(p, "blocked")() == 1 end)
            rpc.async(p, "fall")()
            t.eq({r:join(t.patience)}, {true, "in"})
            p:kill()
        end
    end,

    who_cannot_go_on_for_want_of_memory_holds_up_no_other = function()
        for _, serial in ipairs {false, true} do
            local again = mare.channel()
            local p = mare.spawn(function()
                local sc, go, open = require "mare.sc", mare.go, false
                function enter() return "in" end
                function blocked() return sc.blocked() end
                function fall() -- and there is no memory for routines until `again`
                    open, mare.go = true, function() error("not enough memory", 0) end
                end
                mare.go(function() while true do again:receive() mare.go = go end end):detach()
                sc.add_constraint("enter", function() return open end)
                sc.serial(serial)
                require "mare.rpc".serve()
            end)
            local list = t.in_routines(3, function() t.fails("refused", sync(p, "enter")()) end)
            t.reaches(function() return sync(p, "blocked")() == 3 end)
            t.eq(select("#", sync(p, "fall")()), 0)
            for _, r in ipairs(list) do t.ok(r:join(t.patience)) end
            if serial then t.fails("refused", sync(p, "enter")()) end -- nor for one to serve them
            for _ = 1, 2 do t.ok(again:sendwithin(t.patience, true)) end
            t.eq(sync(p, "enter")(), "in")
            p:kill()
        end
    end,

    one_at_a_time_if_it_is_wanted = function()
        for _, serial in ipairs {false, true} do
            local p = mare.spawn(function()
                local worst, inside = 0, 0
                function enter()
                    inside = inside + 1
                    worst = math.max(worst, inside)
                    mare.yield()
                    inside = inside - 1
                end
                function most() return worst end
                require "mare.sc".serial(serial)
                require "mare.rpc".serve()
            end)
            for _, r in ipairs(t.in_routines(20, sync(p, "enter"))) do t.ok(r:join(t.patience)) end
            t.eq(sync(p, "most")() == 1, serial)
            p:kill()
        end
    end,

    misuse_names_the_argument = function()
        local sc = require "mare.sc"
        t.raises("bad argument #1 to 'add_constraint' %(string", sc.add_constraint)
        t.raises("bad argument #2 to 'add_constraint' %(function", sc.add_constraint, "f", true)
    end,
}
