-- SPDX-License-Identifier: MIT
-- Timers that a program holds: docs/reference/lua.md, and a million of them.
local mare, t = require "mare", require "t"

local MANY = 1000000 // (t.gc_stress and 1000 or t.slow > 1 and 50 or 1)

local function pending() return mare.stats().timers end

return {
    comes_not_before_its_time_and_once = function()
        local begin = mare.now()
        local timer = mare.timer(0.05)
        t.eq({timer:wait(t.patience)}, {true})
        t.ok(mare.now() - begin >= 0.05)
        t.fails("closed", timer:wait(t.patience))
        t.eq(timer:cancel(), false, "it is not to come any more")
    end,

    one_whose_time_passed_before_anybody_waited_has_come = function()
        local timer = mare.timer(0)
        mare.sleep(0.02)
        t.eq({timer:wait(t.patience)}, {true})
    end,

    a_period_is_counted_from_the_first_time = function()
        local begin = mare.now()
        local timer <close> = mare.timer(0.03, 0.01)
        for i = 0, 9 do
            t.eq({timer:wait(t.patience)}, {true})
            -- However late the earlier ones were taken: the i-th is not before its own time.
            t.ok(mare.now() - begin >= 0.03 + i * 0.01, i)
        end
    end,

    times_that_nobody_waited_for_count_as_one = function()
        local timer <close> = mare.timer(0, 0.01)
        mare.sleep(0.2) -- twenty of them
        local begin = mare.now()
        t.eq({timer:wait(0)}, {true})
        t.eq({timer:wait(t.patience)}, {true})
        t.eq({timer:wait(t.patience)}, {true})
        -- Had they been kept, two would have been there at once. They are 10 ms apart.
        t.ok(mare.now() - begin >= 0.009, mare.now() - begin)
    end,

    cancelled_it_does_not_come = function()
        local timer = mare.timer(3600)
        t.eq(timer:cancel(), true)
        t.eq(timer:cancel(), false)
        t.fails("closed", timer:wait(t.patience))
    end,

    to_close_it_is_to_cancel_it = function()
        local timer = mare.timer(3600)
        local waiter = mare.go(timer.wait, timer)
        mare.yield()
        t.eq(timer:close(), true)
        t.fails("closed", select(2, waiter:join(t.patience)))
        t.eq({timer:close(), timer:cancel()}, {false, false})
        t.fails("closed", timer:wait())
        t.raises("timer expected", timer.close, mare.channel())
    end,

    cancelled_while_somebody_waits_it_tells_him = function()
        local timer, told = mare.timer(3600), mare.channel(1)
        local waiter = mare.go(function() told:send(table.pack(timer:wait())) end)
        mare.yield()
        t.eq(timer:cancel(), true)
        local got = told:receive(t.patience)
        t.eq({got[1], got[3]}, {nil, "closed"})
        waiter:join(t.patience)
    end,

    a_periodic_one_can_be_cancelled_between_two_times = function()
        local timer = mare.timer(0, 0.001)
        t.eq({timer:wait(t.patience)}, {true})
        t.eq(timer:cancel(), true)
        t.fails("closed", timer:wait(t.patience))
    end,

    -- Dropped by one thread in the moment in which another finds that their time has come.
    periodic_ones_are_dropped_while_they_come = function()
        local before, droppers = pending(), {}
        for i = 1, 4 do
            droppers[i] = mare.spawn(function(seed)
                math.randomseed(seed)
                for _ = 1, 40 do
                    local timers = {}
                    for k = 1, 50 do timers[k] = mare.timer(0.001, 0.001) end
                    timers[1]:wait() -- the others come now, too
                    for _ = 1, math.random(3000) do end
                    for k = 1, #timers do timers[k] = nil end
                    collectgarbage()
                end
            end, i)
        end
        for i = 1, 4 do t.eq({droppers[i]:join(t.patience)}, {true}) end
        t.reaches(function() return pending() <= before end)
    end,

    leaving_its_scope_or_being_collected_it_is_cancelled = function()
        t.with_workers(1, function()
            collectgarbage() -- what other cases have left
            collectgarbage()
            local before = pending()
            do
                local timer <close> = mare.timer(3600)
                t.eq(pending(), before + 1)
                t.ok(timer)
            end
            t.eq(pending(), before)
            mare.timer(3600)
            t.eq(pending(), before + 1)
            collectgarbage()
            collectgarbage()
            t.eq(pending(), before)
        end)
    end,

    a_killed_process_takes_its_timers_along = function()
        local before = pending()
        local holder = mare.spawn(function()
            local timers = {}
            for i = 1, 100 do timers[i] = mare.timer(3600) end
            return mare.timer(7200):wait(), #timers
        end)
        t.reaches(function() return pending() >= before + 101 end)
        holder:kill()
        holder:join(t.patience)
        t.reaches(function() return pending() <= before end)
    end,

    in_a_select_it_is_a_case = function()
        local channel, timer = mare.channel(), mare.timer(0.02)
        t.eq((mare.select {channel, timer}), 2)
        timer = mare.timer(3600)
        mare.go(function() channel:send "first" end)
        local which, value = mare.select {channel, timer}
        t.eq({which, value}, {1, "first"})
        timer:cancel()
    end,

    sent_in_a_message_it_changes_hands = function()
        local timer <close> = mare.timer(0.02) -- its scope ends after it has gone
        local other = mare.spawn(function(mine) return mine:wait() end, timer)
        t.eq({other:join(t.patience)}, {true, true})
        t.raises("sent to another process", timer.wait, timer)
        t.raises("timer expected", timer.wait, mare.channel())
    end,

    a_time_that_makes_no_sense_is_refused = function()
        t.raises("negative or infinite", mare.timer, -1)
        t.raises("negative or infinite", mare.timer, math.huge)
        t.raises("negative or infinite", mare.timer, 0 / 0)
        t.raises("0.001 seconds or more", mare.timer, 1, 0)
        t.raises("0.001 seconds or more", mare.timer, 1, 0.0001)
        t.raises("number expected", mare.timer, "soon")
    end,

    a_million_pending_ones = {function()
        local before, timers = pending(), {}
        for i = 1, MANY do timers[i] = mare.timer(3600 + i % 1009) end
        t.eq(pending(), before + MANY)
        local early = mare.timer(0.001) -- the newest is the first to come
        t.eq({early:wait(t.patience)}, {true})
        for i = 1, MANY, 2 do t.eq(timers[i]:cancel(), true) end
        t.eq(pending(), before + MANY // 2)
        timers = nil
        collectgarbage()
        collectgarbage()
        t.eq(pending(), before)
        t.ok(not timers)
    end, timeout = 120},

    thousands_that_come_at_once_all_come = function()
        local timers = {}
        for i = 1, MANY // 100 do timers[i] = mare.timer(0.01 + i % 7 / 1000) end
        for i = 1, #timers do t.eq({timers[i]:wait(t.patience)}, {true}) end
    end,

    one_that_is_over_says_why = function()
        local once, cancelled = mare.timer(0), mare.timer(1000)
        t.ok(once:wait(t.patience))
        t.eq({once:wait()}, {nil, "the timer has fired, and comes once", "closed"})
        local waiter = mare.go(cancelled.wait, cancelled)
        t.settle()
        cancelled:cancel()
        t.eq({waiter:join()}, {true, nil, "the timer was cancelled", "closed"})
        t.eq({cancelled:wait()}, {nil, "the timer was cancelled", "closed"})
    end,
}
