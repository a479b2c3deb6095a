-- SPDX-License-Identifier: MIT
-- Clocks, sleeps, and deadlines shared by several calls.
local mare, t = require "mare", require "t"

return {
    now_never_goes_back = function()
        local last = mare.now()
        for _ = 1, 1000 do
            local now = mare.now()
            t.ok(now >= last)
            last = now
        end
        t.eq(math.type(last), "float")
    end,

    a_sleep_lasts_at_least_as_long_as_asked = function()
        local start = mare.now()
        mare.sleep(0.01)
        t.ok(mare.now() - start >= 0.01)
    end,

    a_sleep_takes_a_deadline = function()
        local deadline = mare.deadline(0.01)
        mare.sleep(deadline)
        t.eq(deadline:left(), 0.0)
        mare.sleep(deadline)
    end,

    no_time_at_all_is_a_sleep_too = function()
        mare.sleep(0)
        mare.sleep(-1)
        t.raises("#1", mare.sleep)
        t.raises("#1", mare.sleep, "long")
        t.raises("NaN", mare.sleep, 0 / 0)
    end,

    sleepers_wake_in_the_order_of_their_deadlines = function()
        local gap = 0.001
        -- All of them must be asleep before the first is due, with deadlines that are late by less
        -- than what lies between two; if not, there is more time. One that wakes ends at once.
        local function round(from_here)
            gap = gap * 2
            local late, ends, list = mare.channel(10), mare.channel(10), {}
            local start = mare.now() + 4 * gap
            for i = 10, 1, -1 do
                list[i] = mare.spawn(function()
                    local before = mare.now()
                    local deadline = mare.deadline(start - before + i * gap)
                    late:send(mare.now() - before)
                    return mare.sleep(deadline)
                end)
                list[i]:monitor(ends)
            end
            local asleep = true
            for _ = 1, 10 do asleep = late:receive(t.patience) < gap and asleep end
            for i = 1, 10 do
                t.reaches(function() return list[i]:status() ~= "ready" end)
                asleep = list[i]:status() == "blocked" and asleep
            end
            asleep = mare.now() < start + gap and asleep
            from_here()
            mare.sleep(start + 11 * gap - mare.now())
            local order = {}
            for i = 1, 10 do
                local ended = ends:receive(t.patience)
                for k, process in ipairs(list) do
                    if process == ended then order[i] = k end
                end
            end
            return asleep and order or nil
        end
        t.with_workers(1, function()
            t.eq(t.undisturbed(round), {1, 2, 3, 4, 5, 6, 7, 8, 9, 10})
        end)
    end,

    a_sleep_holds_no_worker = function()
        t.with_workers(1, function()
            local sleepers = {}
            for i = 1, 100 do sleepers[i] = mare.spawn(function() mare.sleep(3600) end) end
            t.eq({mare.spawn(function() return 6 * 7 end):join(t.patience)}, {true, 42})
            for _, p in ipairs(sleepers) do p:kill() end
            for _, p in ipairs(sleepers) do p:join(t.patience) end
        end)
    end,

    a_deadline_counts_down_and_stops_at_zero = function()
        local d = mare.deadline(3600)
        local left = d:left()
        t.ok(left > 3000 and left <= 3600)
        t.ok(d:left() <= left)
        t.eq(mare.deadline(0):left(), 0.0)
        t.eq(mare.deadline(-1):left(), 0.0)
        t.eq(mare.deadline(math.huge):left(), math.huge)
    end,

    one_deadline_serves_several_calls = function()
        local d, ch = mare.deadline(0.02), mare.channel()
        t.fails("timeout", ch:receive(d))
        -- It has passed: nothing waits on it any more.
        t.fails("timeout", ch:sendwithin(d, 1))
        t.fails("timeout", mare.select({ch}, d))
        local other = mare.spawn(function() mare.channel():receive(3600) end)
        t.fails("timeout", other:join(d))
        t.eq(d:left(), 0.0)
        other:kill()
    end,

    a_deadline_wants_a_number = function()
        t.raises("#1", mare.deadline)
        t.raises("#1", mare.deadline, {})
        t.raises("NaN", mare.deadline, 0 / 0)
    end,

    a_thousand_timeouts_at_once = function()
        local done = mare.channel(1000)
        for i = 1, 1000 do
            mare.spawn(function() done:send(select(3, mare.channel():receive(i % 10 * 0.001))) end)
        end
        for _ = 1, 1000 do t.eq(done:receive(t.patience), "timeout") end
    end,

    timers_are_gone_when_their_waits_are = function()
        local before = mare.stats().timers
        local ch = mare.channel()
        local list = {}
        for i = 1, 100 do list[i] = mare.spawn(function() ch:receive(3600) end) end
        for _ = 1, 50 do ch:send(1) end
        for i = 1, 100 do list[i]:kill() end
        for i = 1, 100 do list[i]:join(t.patience) end
        t.reaches(function() return mare.stats().timers <= before end)
    end,

    yield_lets_others_run = function()
        t.with_workers(1, function()
            local ran = mare.channel(1)
            mare.spawn(function() ran:send(true) end)
            local got
            for _ = 1, 100 do -- the other may lose its turn in the middle
                mare.yield()
                got = got or ran:tryreceive()
            end
            t.eq(got, true)
        end)
    end,
}
