-- SPDX-License-Identifier: MIT
-- Who waits and wakes is served soon, who computes has its share, and nobody starves. What is
-- counted is turns, not time: how many those who compute have had while something else happened.
local mare, t = require "mare", require "t"

-- One that only computes. (It calls something, so that ThreadSanitizer lets the tick through.)
local function compute()
    local now = require "mare".now
    while true do now() end
end

-- Runs `f` with so many workers beside `n` that compute; `f` gets what counts their turns.
local function beside(n, workers, f)
    return t.with_workers(workers, function()
        local those, ids = {}, {}
        for i = 1, n do
            those[i] = mare.spawn(compute)
            ids[those[i]:id()] = i
        end
        local function turns()
            local sum, each = 0, {}
            for _, row in ipairs(mare.processes()) do
                if ids[row.id] then
                    each[ids[row.id]] = row.slices
                    sum = sum + row.slices
                end
            end
            return sum, each
        end
        t.reaches(function() -- each has begun
            local _, each = turns()
            return #each == n and math.min(table.unpack(each)) > 0
        end)
        f(turns)
        for _, p in ipairs(those) do p:kill() end
        for _, p in ipairs(those) do t.fails("killed", p:join(t.patience)) end
    end)
end

return {
    two_that_talk_do_not_wait_for_those_who_compute = function()
        beside(20, 1, function(turns)
            local there, back = mare.channel(), mare.channel()
            mare.spawn(function() for n in there:messages() do back:send(n) end end)
            local before, rounds = turns(), 300
            for i = 1, rounds do
                there:send(i)
                t.eq(back:receive(t.patience), i)
            end
            local passed = turns() - before
            there:close()
            -- Behind all of them it would be 2 * 20 * rounds. At each tick one of them has a turn,
            -- and on a busy machine there may be several ticks in a round.
            t.ok(passed < 10 * rounds, passed)
        end)
    end,

    those_who_talk_do_not_keep_others_from_computing = function()
        t.with_workers(1, function()
            local list, channels = {}, {}
            for i = 1, 10 do
                local ch = mare.channel()
                channels[i] = ch
                list[2 * i - 1] = mare.spawn(function() while ch:send(1) do end end)
                list[2 * i] = mare.spawn(function() while ch:receive() do end end)
            end
            local sum = mare.spawn(function()
                local n = 0
                for i = 1, 200000 do n = n + i % 7 end
                return n
            end)
            t.ok(sum:join(t.patience))
            for _, ch in ipairs(channels) do ch:close() end
            for _, p in ipairs(list) do t.ok(p:join(t.patience)) end
        end)
    end,

    -- To take the worker from it, Lua looks at all of its calls. That must not be all it does.
    one_with_many_calls_gets_on = function()
        t.with_workers(1, function()
            local rival = mare.spawn(compute)
            local function deep(f)
                local left = 900000
                local function one()
                    if left == 0 then f() else left = left - 1 one() end
                end
                one()
            end
            local in_c = mare.spawn(function()
                deep(function() debug.traceback() end) -- which counts them several times
                return "seen"
            end)
            t.eq({in_c:join(t.patience)}, {true, "seen"})
            local unyieldable = mare.spawn(function()
                table.sort({2, 1}, function(a, b)
                    deep(function() for _ = 1, 1000000 do end end)
                    return a < b
                end)
                return "sorted"
            end)
            t.eq({unyieldable:join(t.patience)}, {true, "sorted"})
            rival:kill()
        end)
    end,

    all_who_compute_have_the_same_share = function()
        beside(20, 2, function(turns)
            local _, before = turns()
            local least, most
            t.reaches(function()
                local _, now = turns()
                least, most = math.huge, 0
                for i, n in ipairs(now) do
                    least, most = math.min(least, n - before[i]), math.max(most, n - before[i])
                end
                return most >= 30
            end)
            t.ok(3 * least >= most, least)
        end)
    end,

    who_gives_way_lets_those_who_compute_go_on = function()
        beside(1, 1, function(turns)
            local before = turns()
            for _ = 1, 100 do mare.yield() end
            t.ok(turns() - before >= 50, turns() - before)
        end)
    end,
}
