-- SPDX-License-Identifier: MIT
-- mare.monitor: mutual exclusion between processes, fencing numbers, conditions, and all of it when
-- holders, those in line and the creator die.
local mare, t = require "mare", require "t"
local rpc, monitor = require "mare.rpc", require "mare.monitor"
local countdown = require "countdown"

-- Reads what was written under a lock: each that came in went out before the next did, or died
-- inside, and the numbers only grow. Returns how many went out.
local function check_log(log)
    local inside, last, out = nil, 0, 0
    while #log > 0 do
        local word, fence = log:receive()
        if word == "in" then
            t.ok(fence > last, "a fencing number came twice")
            inside, last = fence, fence
        else
            t.eq(fence, inside, "two were inside")
            inside, out = nil, out + 1
        end
    end
    return out
end

-- A process that takes the lock until it is over, and notes when it is inside.
local function visitor(mnt, log, times, pause)
    local m = require "mare.monitor"
    local visit = m.doWhenFree(mnt, function()
        log:send("in", m.fence(mnt))
        mare.sleep(pause or 0)
        log:send("out", m.fence(mnt))
    end)
    for _ = 1, times do visit() end
end

-- A process that holds the lock, and tells so.
local function holder(mnt)
    local told = mare.channel(1)
    local p = mare.spawn(function()
        told:send(require "mare.monitor".take(mnt))
        mare.channel():receive()
    end)
    return p, told:receive(t.patience)
end

return {
    one_at_a_time_and_numbers_that_grow = function()
        local mnt, log, list = monitor.create(), mare.channel(10000), {}
        for i = 1, 8 do list[i] = mare.spawn(visitor, mnt, log, 25) end
        for i = 1, 8 do t.ok(list[i]:join(t.patience)) end
        t.eq(check_log(log), 200)
    end,

    a_file_written_under_the_lock = t.in_folder(function(folder)
        local mnt, path, list = monitor.create(), folder .. "/log", {}
        for i = 1, 4 do
            list[i] = mare.spawn(function()
                local write = require "mare.monitor".doWhenFree(mnt, function()
                    local file = io.open(path, "r")
                    local n = file and #file:read "a" or 0
                    if file then file:close() end
                    mare.yield()
                    local out <close> = assert(io.open(path, "a"))
                    assert(n == out:seek "end", "somebody else has written meanwhile")
                    out:write(i, "\n")
                end)
                for _ = 1, 20 do write() end
            end)
        end
        for i = 1, 4 do t.ok(list[i]:join(t.patience)) end
        local count = 0
        for line in io.lines(path) do
            t.ok(line:find "^[1-4]$")
            count = count + 1
        end
        t.eq(count, 80)
    end),

    results_and_errors_pass_through = function()
        local mnt = monitor.create()
        local f = monitor.doWhenFree(mnt, function(...)
            if ... == nil then error "nothing given" end
            return ...
        end)
        t.eq(table.pack(f(1, nil, nil)), {1, n = 3})
        t.raises("test_monitor.lua:%d+: nothing given", f)
        t.eq(f(2), 2, "it was released")
        t.eq(monitor.dowhenfree, monitor.doWhenFree)
    end,

    first_come_first_served = function()
        local mnt, order, list = monitor.create(), {}, {}
        monitor.take(mnt)
        for i = 1, 5 do
            list[i] = mare.go(monitor.doWhenFree(mnt, function() order[#order + 1] = i end))
            t.settle()
        end
        monitor.release(mnt)
        for i = 1, 5 do t.ok(list[i]:join(t.patience)) end
        t.eq(order, {1, 2, 3, 4, 5})
    end,

    a_deadline_and_a_cancel_leave_the_line = function()
        local mnt = monitor.create()
        local p, fence = holder(mnt)
        t.fails("timeout", monitor.take(mnt, 0.005))
        t.fails("timeout", monitor.doWhenFree(mnt, error, 0.005)("never called"))
        local r = mare.go(monitor.take, mnt)
        t.settle()
        r:cancel()
        t.eq({select(4, r:join(t.patience))}, {"cancelled"})
        p:kill()
        local next_fence = monitor.take(mnt, t.patience)
        t.eq(next_fence, fence + 1, "nobody else was in line")
        monitor.release(mnt)
    end,

    a_grant_that_comes_too_late_is_given_back = function()
        local mnt = monitor.create()
        for _ = 1, t.gc_stress and 20 or 200 do
            local p = holder(mnt)
            local r = mare.go(monitor.take, mnt, 0.0001)
            p:kill()
            local ok, fence = r:join(t.patience)
            t.ok(ok)
            if fence then monitor.release(mnt) end
            t.ok(monitor.take(mnt, t.patience), "the lock is free")
            monitor.release(mnt)
        end
    end,

    a_second_take_by_the_same_chain_of_calls_says_so = function()
        local mnt = monitor.create()
        local outer = monitor.doWhenFree(mnt, monitor.doWhenFree(mnt, function() end))
        t.raises("held by this very chain of calls", outer)
        local p = mare.spawn(function()
            local m, r = require "mare.monitor", require "mare.rpc"
            inner = m.doWhenFree(mnt, function() return "inside" end)
            function middle(...) return r.sync(mare.self(), "inner")(...) end
            r.serve()
        end)
        t.eq(rpc.sync(p, "middle", t.patience)(), "inside")
        local through = monitor.doWhenFree(mnt, rpc.sync(p, "middle", t.patience))
        local value, err, code = through()
        t.eq({value, code}, {nil, "remote"}, err)
        t.eq(rpc.sync(p, "inner", t.patience)(), "inside", "it is free again")
        local got = mare.channel(1)
        monitor.doWhenFree(mnt, rpc.async(p, "inner", function(x) got:send(x) end))()
        t.eq({got:receive(t.patience)}, {"inside"}, "who does not wait may")
        p:kill()
    end,

    a_cancel_does_not_keep_the_lock = function()
        local mnt, inside = monitor.create(), mare.channel()
        local r = mare.go(monitor.doWhenFree(mnt, function()
            inside:send()
            return select(3, mare.channel():receive())
        end))
        inside:receive(t.patience)
        r:cancel()
        r:cancel() -- and the next wait too
        t.eq({r:join(t.patience)}, {true, "cancelled"})
        t.ok(monitor.take(mnt, t.patience))
    end,

    a_cancel_while_the_release_has_to_wait_does_not_keep_the_lock = function()
        t.needs_preemption()
        local ready, go = mare.channel(), mare.channel(1)
        local creator = mare.spawn(function()
            ready:send(require "mare.monitor".create())
            ready:send "busy"
            repeat until go:tryreceive() -- its other routines have no turn
            mare.channel():receive()
        end)
        local mnt = ready:receive(t.patience)
        monitor.take(mnt, t.patience)
        t.eq({ready:receive(t.patience)}, {"busy"})
        while mnt.channel:trysend "noise" do end
        local r = mare.go(monitor.release, mnt)
        t.settle()
        t.eq(r:status(), "alive", "there is no room")
        r:cancel()
        t.settle()
        go:send(true)
        t.ok(r:join(t.patience))
        t.ok(monitor.take(mnt, t.patience), "it was released")
        creator:kill()
    end,

    the_holder_is_killed_at_every_line = function()
        local mnt, log = monitor.create(), mare.channel(10000)
        local killed = countdown.each(countdown.step(2), function(n)
            local p = mare.spawn(countdown.body, n, visitor, mnt, log, 2)
            p:join(t.patience)
            t.ok(monitor.take(mnt, t.patience), "it was released")
            monitor.release(mnt)
            return p
        end)
        t.ok(killed > 5, killed)
        check_log(log)
    end,

    one_in_line_is_killed_at_every_line = function()
        local mnt, log = monitor.create(), mare.channel(10000)
        local killed = countdown.each(countdown.step(3), function(n)
            monitor.take(mnt)
            local p = mare.spawn(countdown.body, n, visitor, mnt, log, 1)
            t.settle(3)
            monitor.release(mnt)
            p:join(t.patience)
            t.ok(monitor.take(mnt, t.patience))
            monitor.release(mnt)
            return p
        end)
        t.ok(killed > 5, killed)
        check_log(log)
    end,

    the_creator_is_killed_at_every_line = function()
        local killed = countdown.each(countdown.step(3), function(n)
            local ready, log = mare.channel(1), mare.channel(100)
            local creator = mare.spawn(countdown.body, n, function()
                ready:send(require "mare.monitor".create())
                mare.channel():receive()
            end)
            local _, mnt = mare.select({ready, creator}, t.patience)
            local list = {}
            for i = 1, getmetatable(mnt) and 2 or 0 do
                list[i] = mare.spawn(visitor, mnt, log, 1)
            end
            for _, p in ipairs(list) do t.ok(p:join(t.patience), "nobody hangs") end
            check_log(log)
            if #list > 0 and not creator:alive() then t.fails("noproc", monitor.take(mnt)) end
            return creator
        end)
        t.ok(killed > 5, killed)
    end,

    killed_at_random = function()
        t.seed()
        local mnt, log, list = monitor.create(), mare.channel(100000), {}
        for round = 1, t.gc_stress and 10 or 60 do
            for i = 1, 4 do
                list[i] = list[i] and list[i]:alive() and list[i]
                    or mare.spawn(visitor, mnt, log, 1000)
            end
            for _ = 1, math.random(50) do mare.yield() end
            list[math.random(4)]:kill()
        end
        for i = 1, 4 do list[i]:kill() end
        for i = 1, 4 do list[i]:join(t.patience) end
        t.ok(monitor.take(mnt, t.patience))
        t.ok(check_log(log) > 0)
    end,

    -- Conditions.

    of_processes_that_have_ended_nothing_is_kept = function()
        local mnt = monitor.create()
        local grown = t.growth(300, function()
            t.ok(mare.spawn(function()
                local m = require "mare.monitor"
                m.take(mnt)
                m.release(mnt)
            end):join(t.patience))
        end, function()
            monitor.take(mnt, t.patience) -- after all that they have said
            monitor.release(mnt)
        end)
        t.ok(grown < 300 * 24, grown) -- a name in a table takes more than that
    end,

    of_who_gave_up_nothing_is_kept = function()
        local mnt, n = monitor.create(), t.gc_stress and 50 or 300
        local p = holder(mnt)
        local grown = t.growth(n, function() t.fails("timeout", monitor.take(mnt, 0)) end)
        t.ok(grown < n * 24, grown)
        p:kill()
        t.ok(monitor.take(mnt, t.patience))
        grown = t.growth(n, function() t.fails("timeout", monitor.wait(mnt, "none", 0)) end)
        t.ok(grown < n * 24, grown)
        grown = t.growth(n, function(i) t.fails("timeout", monitor.wait(mnt, "none" .. i, 0)) end)
        t.ok(grown < n * 24, grown)
        monitor.release(mnt)
    end,

    who_waits_again_stands_behind_the_others = function()
        local mnt, ready, woken = monitor.create(), mare.channel(1), {}
        local function waiter(name)
            return mare.go(function()
                t.ok(monitor.take(mnt, t.patience))
                repeat ready:send(name) until monitor.wait(mnt, "c")
                woken[#woken + 1] = name
                monitor.release(mnt)
            end)
        end
        local function waits(name) -- who has the lock next comes after that wait
            t.eq(ready:receive(t.patience), name)
            t.ok(monitor.take(mnt, t.patience))
        end
        local first = waiter "first"
        waits "first"
        monitor.release(mnt)
        local second = waiter "second"
        waits "second"
        monitor.release(mnt)
        first:cancel()
        waits "first"
        monitor.signal(mnt, "c")
        monitor.release(mnt)
        t.ok(second:join(t.patience))
        t.ok(monitor.take(mnt, t.patience))
        monitor.signal(mnt, "c")
        monitor.release(mnt)
        t.ok(first:join(t.patience))
        t.eq(woken, {"second", "first"})
    end,

    a_buffer_between_processes = function()
        local mnt = monitor.create()
        local p = mare.spawn(function()
            local m, items = require "mare.monitor", {}
            put = m.doWhenFree(mnt, function(x)
                while #items == 2 do m.wait(mnt, "room") end
                items[#items + 1] = x
                m.signal(mnt, "item")
            end)
            get = m.doWhenFree(mnt, function()
                while #items == 0 do m.wait(mnt, "item") end
                m.signal(mnt, "room")
                return table.remove(items, 1)
            end)
            require "mare.rpc".serve()
        end)
        local put = rpc.async(p, "put")
        for i = 1, 20 do put(i) end
        local sum = 0
        for _ = 1, 20 do sum = sum + rpc.sync(p, "get", t.patience)() end
        t.eq(sum, 210)
        p:kill()
    end,

    a_wait_that_is_over_has_the_lock_again = function()
        local mnt = monitor.create()
        local fence = monitor.take(mnt)
        t.fails("timeout", monitor.wait(mnt, nil, 0.001))
        t.ok(monitor.fence(mnt) > fence)
        local r = mare.go(monitor.doWhenFree(mnt, function()
            return select(3, monitor.wait(mnt)), monitor.fence(mnt)
        end))
        monitor.release(mnt)
        t.settle()
        r:cancel()
        local ok, code, number = r:join(t.patience)
        t.eq({ok, code}, {true, "cancelled"})
        t.ok(number > fence)
        t.ok(monitor.take(mnt, t.patience))
    end,

    broadcast_wakes_all_and_signal_one = function()
        local mnt, inside, woken, list = monitor.create(), 0, 0, {}
        for i = 1, 5 do
            list[i] = mare.go(monitor.doWhenFree(mnt, function()
                inside = inside + 1
                t.eq({monitor.wait(mnt, "tide")}, {true})
                woken = woken + 1
            end))
        end
        t.reaches(function() return inside == 5 end)
        monitor.doWhenFree(mnt, monitor.signal)(mnt, "tide")
        t.reaches(function() return woken == 1 end)
        monitor.doWhenFree(mnt, monitor.signal)(mnt, "another")
        t.settle()
        t.eq(woken, 1)
        monitor.doWhenFree(mnt, monitor.broadcast)(mnt, "tide")
        for i = 1, 5 do t.ok(list[i]:join(t.patience)) end
    end,

    a_signal_that_dies_with_its_receiver_reaches_another = function()
        local mnt, told = monitor.create(), mare.channel(5)
        local function waiter()
            local m = require "mare.monitor"
            m.doWhenFree(mnt, function()
                told:send "waits"
                m.wait(mnt)
                told:send "woken"
            end)()
        end
        local first = mare.spawn(waiter)
        t.eq({told:receive(t.patience)}, {"waits"})
        local second = mare.spawn(waiter)
        t.eq({told:receive(t.patience)}, {"waits"})
        monitor.take(mnt, t.patience)
        monitor.signal(mnt)
        first:kill()
        first:join()
        monitor.release(mnt)
        t.eq({told:receive(t.patience)}, {"woken"})
        t.ok(second:join(t.patience))
    end,

    misuse_names_the_argument = function()
        local mnt = monitor.create()
        t.raises("bad argument #1 to 'take' %(monitor expected, got no value", monitor.take)
        t.raises("bad argument #1 to 'doWhenFree' %(monitor", monitor.doWhenFree, {}, print)
        t.raises("bad argument #2 to 'doWhenFree' %(function", monitor.doWhenFree, mnt)
        t.raises("bad argument #2 to 'take' %(number", monitor.take, mnt, "x")
        for _, name in ipairs {"release", "wait", "signal", "broadcast"} do
            t.raises("'" .. name .. "' %(this process does not hold", monitor[name], mnt)
        end
    end,
}
