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

    a_channel_with_a_name_that_cannot_be_paid_for_is_none = function()
        local ok, made, err = limited(MB // 4, function()
            for count = 0, math.huge do
                local fine, why = pcall(mare.channel, 0, "unpaid" .. count)
                if not fine then return count, why end
            end
        end)
        t.eq({ok, made > 0, err}, {true, true, "not enough memory"})
        for n = 0, made - 1 do mare.find("unpaid" .. n):close() end
        t.eq(select(3, mare.find("unpaid" .. made)), "noname")
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

    -- ---- Outside of the state ----------------------------------------------------------------

    buffers_count = function()
        t.eq({limited(2 * MB, function()
            local function fill(list)
                for i = 1, 1000 do list[i] = mare.buffer(100000) end
            end
            local list = {}
            local ok, err = pcall(fill, list)
            local count = #list
            for i = 1, count do list[i] = nil end
            return ok, err, count > 10 and count < 21, #mare.buffer(MB)
        end)}, {true, false, "not enough memory", true, MB})
    end,

    a_buffer_that_is_too_big_fails_alone = function()
        t.eq({limited(MB, function()
            local ok, err = pcall(mare.buffer, 2 * MB)
            return ok, err, #mare.buffer(MB // 2)
        end)}, {true, false, "not enough memory", MB // 2})
    end,

    buffers_that_are_garbage_do_not_count = function()
        t.eq({limited(2 * MB, function()
            collectgarbage("stop") -- so that only need collects
            for _ = 1, 500 do mare.buffer(100000) end
            return true
        end)}, {true, true})
    end,

    garbage_does_not_keep_a_process_from_being_made = function()
        t.eq({limited(2 * MB, function()
            collectgarbage("stop") -- so that only need collects
            local text, one = ("x"):rep(700000), 1
            for _, body in ipairs {function() return true end, function() return one end} do
                for _ = 1, 3 do
                    mare.buffer(#text)
                    assert(mare.spawn(body, text):join())
                end
            end
            return true
        end)}, {true, true})
    end,

    monitors_and_links_count_for_whom_made_them = function()
        t.eq({limited(MB, function()
            local sleeper, ended, made = mare.spawn(mare.sleep, 3600), mare.channel(1), 0
            local reserve = ("x"):rep(100000) -- for what comes after it
            local ok, err = pcall(function()
                while sleeper:monitor(ended) do made = made + 1 end
            end)
            reserve = #reserve
            sleeper:kill()
            return reserve > 0 and ok, err:match("not enough memory$"), made > 1000 and made < 10000
        end)}, {true, false, "not enough memory", true})
        -- Who ends gives back what they took.
        t.eq({limited(MB, function()
            for _ = 1, 20 do
                local p, ended = mare.spawn(mare.sleep, 3600), mare.channel(1)
                for _ = 1, 500 do assert(p:monitor(ended)) end
                assert(p:link() and p:unlink())
                p:kill()
                for _ = 1, 500 do assert(ended:receive()) end
            end
            return true
        end)}, {true, true})
    end,

    messages_that_wait_count_for_whom_sent_them = function()
        local ch = mare.channel(1000)
        t.eq({limited(2 * MB, function()
            local text, sent = ("x"):rep(100000), 0
            local ok, err = pcall(function()
                for _ = 1, 1000 do
                    assert(ch:send(text))
                    sent = sent + 1
                end
            end)
            return ok, err:match("not enough memory$"), sent > 5 and sent < 20 and #ch == sent
        end)}, {true, false, "not enough memory", true})
        ch:close()
    end,

    messages_that_were_received_count_no_more = function()
        local ch, back = mare.channel(4), mare.channel()
        local p = mare.spawn({memory = MB}, function()
            local text = ("x"):rep(100000)
            for i = 1, 200 do
                assert(ch:send(text .. i))
                if i % 4 == 0 then back:receive() end
            end
            return true
        end)
        for i = 1, 200 do
            t.eq(#ch:receive(t.patience), 100000 + #tostring(i))
            if i % 4 == 0 then back:send(true) end
        end
        t.eq({p:join(t.patience)}, {true, true})
    end,

    a_process_that_floods_a_channel_dies_of_it = function()
        local ch = mare.channel(1 << 40)
        local ok, err, code = limited(MB, function()
            while true do ch:send({1, 2, ("x"):rep(1000)}) end
        end)
        t.eq({ok, err:match("not enough memory$"), code}, {nil, "not enough memory", "died"})
        ch:close()
    end,

    small_messages_count_for_who_made_the_channel = function()
        local ok, err, code = limited(MB, function()
            local ch = mare.channel(1 << 40)
            for i = 1, math.huge do ch:send(i) end
        end)
        t.eq({ok, err:match("not enough memory$"), code}, {nil, "not enough memory", "died"})
    end,

    who_sends_to_one_that_has_no_more_is_not_refused = function()
        local theirs = mare.channel(1)
        local p = mare.spawn({memory = 100000}, function()
            local ch = mare.channel(1 << 20)
            theirs:send(ch)
            local go = ch:receive()
            while go ~= "end" do go = ch:receive() end
            return (pcall(mare.buffer, 50000)) -- a small result: there is nothing to pay for it
        end)
        local ch = theirs:receive(t.patience)
        for i = 1, 20000 do assert(ch:send(i)) end -- a ring of more than its limit
        ch:send("end")
        t.eq({p:join(t.patience)}, {true, false})
    end,

    a_buffer_is_paid_for_by_whoever_has_it = function()
        local ch = mare.channel()
        local p = mare.spawn({memory = 3 * MB}, function() -- one in hand, one on its way
            for _ = 1, 20 do ch:send(mare.buffer(MB)) end
            return true
        end)
        local list = {}
        for i = 1, 20 do list[i] = ch:receive(t.patience) end
        t.eq({p:join(t.patience)}, {true, true})
        t.eq(#list[20], MB)
    end,

    a_buffer_on_its_way_is_its_senders = function()
        local ch = mare.channel(100)
        t.eq({limited(2 * MB, function()
            local sent = 0
            local ok, err = pcall(function()
                for _ = 1, 100 do
                    ch:send(mare.buffer(300000))
                    sent = sent + 1
                end
            end)
            return ok, err, sent
        end)}, {true, false, "not enough memory", 6})
        ch:close()
    end,

    a_buffer_too_big_for_the_receiver_fails_there = function()
        local ch = mare.channel(2)
        ch:send(mare.buffer(4 * MB))
        ch:send("small")
        t.eq({limited(MB, function()
            local ok, err = pcall(ch.receive, ch)
            return ok, err, ch:receive(), #mare.buffer(MB // 2)
        end)}, {true, false, "not enough memory", "small", MB // 2})
    end,

    what_waits_outlives_its_sender = function()
        local ch = mare.channel(10)
        for _ = 1, 3 do
            t.eq({limited(MB, function()
                ch:send(("y"):rep(100000), mare.buffer(100000))
                return true
            end)}, {true, true})
        end
        for _ = 1, 3 do
            local text, buffer = ch:receive(t.patience)
            t.eq({#text, #buffer}, {100000, 100000})
        end
    end,

    arguments_of_processes_that_it_starts_count = function()
        local gate = mare.channel()
        local ok, err, code = limited(MB, function()
            local text = ("z"):rep(100000)
            while true do mare.spawn(function(s) gate:receive() return #s end, text) end
        end)
        -- Those that have begun have read theirs; the references to them count all the same.
        t.eq({ok, err:match("not enough memory$"), code}, {nil, "not enough memory", "died"})
        gate:close()
    end,

    a_result_beyond_the_limit_is_refused = function()
        local ok, err, code = limited(MB, function()
            local text = ("r"):rep(100000)
            local list = {}
            for i = 1, 1000 do list[i] = text end -- ten times the limit, once written
            return list
        end)
        t.eq({ok, err:match("not enough memory$"), code}, {nil, "not enough memory", "nomem"})
    end,

    one_with_a_thread_of_its_own_is_no_exception = function()
        local ch = mare.channel(1000)
        local p = mare.spawn({memory = MB, thread = true}, function()
            for _ = 1, 1000 do ch:send(("x"):rep(10000)) end
        end)
        t.eq(select(3, p:join(t.patience)), "died")
        ch:close()
    end,

    the_traceback_of_one_that_dies_of_it_is_kept = function()
        local _, err, code, trace = limited(MB, function()
            local list = {}
            while true do list[#list + 1] = mare.buffer(1000) end
        end)
        t.eq({err, code}, {"not enough memory", "died"})
        t.ok(trace:find("test_memory.lua", 1, true), trace)
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
