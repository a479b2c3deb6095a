-- SPDX-License-Identifier: MIT
-- A limit on the memory of one process: an allocation beyond it fails there and nowhere else.
local mare, t = require "mare", require "t"

local MB = 1 << 20

local function limited(bytes, f, ...)
    return mare.spawn({memory = bytes}, f, ...):join(t.patience)
end

local function hoard()
    local list = {}
    for i = 1, math.huge do list[i] = ("x"):rep(20000) .. #list .. i end
end

return {
    a_process_that_hoards_dies_of_it = function()
        local ok, err, code = limited(MB, hoard)
        t.eq({ok, err, code}, {nil, "not enough memory", "died"})
    end,

    inside_pcall_it_can_be_caught_and_life_goes_on = function()
        t.eq({limited(2 * MB, function(f)
            local ok, err = pcall(f)
            collectgarbage()
            local again = ("y"):rep(100000)
            return ok, err, #again
        end, hoard)}, {true, false, "not enough memory", 100000})
    end,

    one_allocation_that_is_too_big_fails_alone = function()
        t.eq({limited(MB, function()
            local ok, err = pcall(string.rep, "x", 10 << 20)
            return ok, err, #("x"):rep(1000)
        end)}, {true, false, "not enough memory", 1000})
    end,

    many_times_over_it_recovers = function()
        t.eq({limited(2 * MB, function(f)
            local failures = 0
            for _ = 1, 20 do
                if not pcall(f) then failures = failures + 1 end
            end
            return failures
        end, hoard)}, {true, 20})
    end,

    garbage_is_collected_before_the_limit_is_felt = function()
        t.eq({limited(2 * MB, function()
            local n = 0
            for i = 1, 500 do n = n + #("z"):rep(100000 + i) end
            return n > 0
        end)}, {true, true})
    end,

    a_coroutine_that_runs_out_dies_and_its_process_goes_on = function()
        t.eq({limited(2 * MB, function(f)
            local co = coroutine.create(f)
            local ok, err = coroutine.resume(co)
            co = nil
            collectgarbage()
            return ok, err, co
        end, hoard)}, {true, false, "not enough memory"})
    end,

    close_handlers_run_when_memory_is_out = function()
        local said = mare.channel(1)
        local ok, _, code = limited(MB, function(f)
            local function close() said:trysend "closed" end
            local _guard <close> = setmetatable({}, {__close = close})
            f()
        end, hoard)
        t.eq({ok, code}, {nil, "died"})
        t.eq(said:tryreceive(), "closed")
    end,

    a_message_that_is_too_big_for_the_receiver_fails_there = function()
        local ch = mare.channel(2)
        ch:send(("m"):rep(4 * MB))
        ch:send("small")
        t.eq({limited(MB, function()
            local ok, err = pcall(function() return ch:receive() end)
            return ok, err, ch:receive()
        end)}, {true, false, "not enough memory", "small"})
    end,

    arguments_that_are_too_big_end_it_at_once = function()
        local ok, err, code = limited(MB, function(s) return #s end, ("a"):rep(4 * MB))
        t.eq({ok, err, code}, {nil, "not enough memory", "died"})
    end,

    results_and_errors_within_the_limit_are_delivered = function()
        local ok, s = limited(4 * MB, function() return ("r"):rep(MB) end)
        t.eq({ok, #s}, {true, MB})
        local _, err, code = limited(4 * MB, function() error(("e"):rep(MB), 0) end)
        t.eq({#err, code}, {MB, "died"})
    end,

    others_do_not_feel_it = function()
        local stop, hoarders = mare.channel(), {}
        local worker = mare.spawn(function()
            local n = 0
            while not stop:closed() do
                local list = {}
                for i = 1, 100 do list[i] = {i} end
                n = n + #list
                mare.yield()
            end
            return n > 0
        end)
        for i = 1, 20 do hoarders[i] = mare.spawn({memory = MB}, hoard) end
        for _, p in ipairs(hoarders) do
            t.eq(select(3, p:join(t.patience)), "died")
        end
        stop:close()
        t.eq({worker:join(t.patience)}, {true, true})
    end,

    a_limit_too_small_to_begin_is_an_error_of_the_process = function()
        local ok, err, code = limited(1, function() return {} end)
        t.eq({ok, err, code}, {nil, "not enough memory", "died"})
    end,

    every_limit_from_nothing_to_enough_is_survived = function()
        -- The n-th allocation fails, for each n: the process dies or ends well, nothing else.
        local ends = {}
        for bytes = 256, 40000, 487 do
            local ok, _, code = limited(bytes, function()
                local s = string.format("%d %s", 1, ("x"):rep(100))
                local list = table.pack(s:byte(1, -1))
                local co = coroutine.wrap(function() coroutine.yield(#list) end)
                local ch = require "mare".channel(1)
                ch:send({co(), tostring(ch)})
                return ch:receive()
            end)
            ends[ok and "ok" or code] = true
        end
        t.eq(ends, {ok = true, died = true})
    end,

    the_limit_is_a_promise_about_memory = function()
        local p = mare.spawn({memory = 4 * MB, name = "memory.watched"}, function()
            local list = {}
            pcall(function() for i = 1, math.huge do list[i] = ("x"):rep(10000) .. i end end)
            for i = 1, 10 do list[i] = nil end
            collectgarbage()
            mare.channel():receive()
            return list
        end)
        t.reaches(function() return p:status() == "blocked" end)
        for _, row in ipairs(mare.processes()) do
            if row.name == "memory.watched" then
                t.ok(row.memory > MB, row.memory)
                t.ok(row.memory < 5 * MB, row.memory)
            end
        end
        p:kill()
    end,
}
