-- SPDX-License-Identifier: MIT
-- Workers come and go while everything runs; ready processes run in order and none starves.
local mare, t = require "mare", require "t"

-- Restores the number of workers.
local function restore()
    local before = mare.workers()
    return setmetatable({}, {__close = function() mare.workers(before) end})
end

return {
    the_number_can_be_read_and_set = function()
        local _restore <close> = restore()
        t.ok(mare.workers() >= 1)
        for _, n in ipairs {1, 2, 5, 3, 1, 4} do
            t.eq(mare.workers(n), n)
            t.eq(mare.workers(), n)
            t.eq(mare.stats().workers, n)
        end
    end,

    numbers_that_make_no_sense_raise = function()
        local before = mare.workers()
        for _, n in ipairs {0, -1, -1000, 1025, math.maxinteger, math.mininteger} do
            t.raises("#1.*1 to 1024", mare.workers, n)
        end
        t.raises("#1", mare.workers, 1.5)
        t.raises("#1", mare.workers, "two")
        t.eq(mare.workers(), before)
    end,

    a_thousand_and_back = function()
        local _restore <close> = restore()
        mare.workers(1000 // t.slow)
        local list = {}
        for i = 1, 2000 do list[i] = mare.spawn(function(n) return n * 2 end, i) end
        for i, p in ipairs(list) do t.eq({p:join(t.patience)}, {true, i * 2}) end
        mare.workers(1)
        t.eq({mare.spawn(function() return "here" end):join(t.patience)}, {true, "here"})
    end,

    changed_from_within_many_processes_at_once = function()
        local _restore <close> = restore()
        local list = {}
        for i = 1, 50 do
            list[i] = mare.spawn(function(seed)
                for k = 1, 10 do
                    mare.workers((seed * 7 + k * 3) % 6 + 1)
                    mare.yield()
                end
                return seed
            end, i)
        end
        for i, p in ipairs(list) do t.eq({p:join(t.patience)}, {true, i}) end
    end,

    work_goes_on_while_workers_leave = function()
        local _restore <close> = restore()
        mare.workers(8)
        local ch, sums = mare.channel(), {}
        for i = 1, 20 do
            sums[i] = mare.spawn(function()
                local sum = 0
                for n in ch:messages() do
                    for k = 1, 1000 do sum = sum + n % k end
                end
                return sum
            end)
        end
        for i = 1, 1000 do
            if i % 50 == 0 then mare.workers(i // 50 % 8 + 1) end
            ch:send(i)
        end
        ch:close()
        for _, p in ipairs(sums) do t.ok(p:join(t.patience)) end
    end,

    sleepers_wake_when_their_worker_has_left = function()
        local _restore <close> = restore()
        local list = {}
        mare.workers(4)
        for i = 1, 40 do
            list[i] = mare.spawn(function() mare.sleep(0.005 + i % 10 * 0.001) return i end)
        end
        mare.workers(1)
        for i, p in ipairs(list) do t.eq({p:join(t.patience)}, {true, i}) end
    end,

    with_one_worker_the_order_is_that_of_becoming_ready = function()
        -- Each is in C from its first step until it stands in line, so none can lose its turn.
        local luaproc = require "luaproc"
        t.with_workers(1, function()
            luaproc.newchannel "workers.order"
            for i = 1, 1000 do mare.spawn(luaproc.send, "workers.order", i) end
            for i = 1, 1000 do t.eq(luaproc.receive "workers.order", i) end
            luaproc.delchannel "workers.order"
        end)
    end,

    one_that_yields_goes_to_the_end = function()
        t.with_workers(1, function()
            t.eq(t.undisturbed(function(from_here)
                local order, go = mare.channel(100), mare.channel()
                local list = {}
                for i = 1, 3 do
                    list[i] = mare.spawn(function(n)
                        go:receive()
                        for round = 1, 3 do
                            order:send(n * 10 + round)
                            if n == 2 then coroutine.yield() else mare.yield() end
                        end
                    end, i)
                    t.reaches(function() return list[i]:status() == "blocked" end)
                end
                from_here()
                go:close()
                for _, p in ipairs(list) do t.ok(p:join(t.patience)) end
                local got = {}
                for i = 1, 9 do got[i] = order:receive(0) end
                return got
            end), {11, 21, 31, 12, 22, 32, 13, 23, 33})
        end)
    end,

    two_that_chat_do_not_starve_a_third = function()
        t.with_workers(1, function()
            local a, b = mare.channel(), mare.channel()
            local ping = mare.spawn(function() while a:send(1) do b:receive() end end)
            local pong = mare.spawn(function() while a:receive() do b:send(1) end end)
            for _ = 1, 20 do
                t.eq({mare.spawn(function() return "had its turn" end):join(t.patience)},
                    {true, "had its turn"})
            end
            a:close()
            b:close()
            t.ok(ping:join(t.patience))
            t.ok(pong:join(t.patience))
        end)
    end,

    spinners_do_not_starve_the_others = function()
        t.needs_preemption()
        local _restore <close> = restore()
        mare.workers(2)
        local spinners = {}
        for i = 1, 6 do spinners[i] = mare.spawn(function() while true do end end) end
        for i = 1, 20 do
            t.eq({mare.spawn(function() return i end):join(t.patience)}, {true, i})
        end
        for _, p in ipairs(spinners) do p:kill() end
        for _, p in ipairs(spinners) do t.fails("killed", p:join(t.patience)) end
    end,

    one_that_yields_for_ever_does_not_starve_the_others = function()
        t.with_workers(1, function()
            local p = mare.spawn(function() while true do mare.yield() end end)
            for i = 1, 100 do
                t.eq({mare.spawn(function() return i end):join(t.patience)}, {true, i})
            end
            p:kill()
            t.fails("killed", p:join(t.patience))
        end)
    end,

    several_workers_run_at_the_same_time = function()
        local _restore <close> = restore()
        mare.workers(2)
        -- Each spins, without a wait, until the other is there: one worker alone would have to
        -- preempt, two need not.
        local here = {mare.channel(1), mare.channel(1)}
        local function meet(mine, other)
            mine:send(true)
            while #other == 0 do end
            return true
        end
        local a = mare.spawn(meet, here[1], here[2])
        local b = mare.spawn(meet, here[2], here[1])
        t.eq({a:join(t.patience)}, {true, true})
        t.eq({b:join(t.patience)}, {true, true})
    end,

    a_ring_of_503 = function()
        local function node(from, to)
            for token in from:messages() do
                to:send(token - 1)
                if token <= 503 then return end
            end
        end
        local first = mare.channel()
        local from, list = first, {}
        for i = 1, 503 do
            local to = mare.channel()
            list[i] = mare.spawn(node, from, to)
            from = to
        end
        local token = 503 * 4
        while token > 0 do
            first:send(token)
            token = from:receive(t.patience)
        end
        t.eq(token, 0)
        for _, p in ipairs(list) do t.ok(p:join(t.patience)) end
    end,
}
