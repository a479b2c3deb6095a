-- SPDX-License-Identifier: MIT
-- mare.select: the first of several things.
local mare, t = require "mare", require "t"

local function blocked(f, ...)
    local p = mare.spawn(f, ...)
    t.reaches(function() return p:status() == "blocked" end)
    return p
end

local function pack(...)
    return {n = select("#", ...), ...}
end

return {
    a_receive_gives_its_index_and_the_values = function()
        local a, b = mare.channel(1), mare.channel(1)
        b:send("x", nil, 3, nil)
        t.eq(pack(mare.select({a, b})), {n = 5, 2, "x", nil, 3, nil})
    end,

    a_send_gives_its_index_and_true = function()
        local full, room = mare.channel(), mare.channel(1)
        t.eq({mare.select({{full, 1}, {room, "a", "b"}})}, {2, true})
        t.eq({room:receive()}, {"a", "b"})
    end,

    a_send_of_nothing_is_a_message = function()
        local ch = mare.channel(1)
        t.eq({mare.select({{ch}})}, {1, true})
        t.eq(select("#", ch:receive(0)), 0)
    end,

    a_process_gives_what_join_gives = function()
        local stay = mare.channel()
        local p = mare.spawn(function() return stay:receive() end)
        local q = blocked(function() return mare.select({mare.channel(), p}) end)
        stay:send("result")
        t.eq({q:join(t.patience)}, {true, 2, true, "result"})
        t.eq({mare.select({stay, p})}, {2, true, "result"}, "one that has ended already")
        local dead = mare.spawn(error, {code = 5})
        local index, ok, err, code, traceback = mare.select({dead}, t.patience)
        t.eq({index, ok, err, code}, {1, nil, {code = 5}, "died"})
        t.eq(type(traceback), "string")
        dead = blocked(function() mare.channel():receive() end)
        dead:kill "reason"
        t.eq({mare.select({dead}, t.patience)}, {1, nil, "reason", "killed"})
    end,

    it_waits_until_one_is_ready = function()
        local a, b, c = mare.channel(), mare.channel(), mare.channel()
        local function all() return mare.select({a, {b, "sent"}, c}) end
        local p = blocked(all)
        t.eq(c:send("to the third"), true)
        t.eq({p:join(t.patience)}, {true, 3, "to the third"})
        p = blocked(all)
        t.eq(b:receive(t.patience), "sent")
        t.eq({p:join(t.patience)}, {true, 2, true})
        p = blocked(all)
        t.eq(a:trysend("to the first"), true)
        t.eq({p:join(t.patience)}, {true, 1, "to the first"})
        for _, ch in ipairs {a, b, c} do
            t.fails("full", ch:trysend(1))
            t.fails("empty", ch:tryreceive())
        end
    end,

    zero_polls = function()
        local ch = mare.channel(1)
        t.fails("timeout", mare.select({ch}, 0))
        t.fails("timeout", mare.select({{mare.channel(), 1}}, 0))
        t.fails("timeout", mare.select({}, 0))
        ch:send(1)
        t.eq({mare.select({ch}, 0)}, {1, 1})
    end,

    zero_polls_even_where_waiting_is_impossible = function()
        local ch = mare.channel(1)
        ch:send(1)
        local got
        table.sort({2, 1}, function(a, b)
            got = got or {mare.select({ch}, 0)}
            return a < b
        end)
        t.eq(got, {1, 1})
    end,

    it_gives_up_at_its_deadline = function()
        t.fails("timeout", mare.select({mare.channel()}, 0.001))
        t.fails("timeout", mare.select({}, 0.001))
        t.fails("timeout", mare.select({mare.self()}, mare.deadline(0.001)))
        local ch = mare.channel()
        t.fails("timeout", mare.select({ch, {ch, 1}}, 0.001))
        t.fails("empty", ch:tryreceive())
        t.fails("full", ch:trysend(1))
    end,

    a_closed_channel_is_ready = function()
        local ch = mare.channel()
        ch:close()
        t.eq({mare.select({mare.channel(), ch})}, {2, nil, "the channel is closed", "closed"})
        t.eq({mare.select({{ch, "value"}})}, {1, nil, "the channel is closed", "closed"})
    end,

    closing_wakes_a_select = function()
        for case = 1, 2 do
            local ch = mare.channel()
            local p = blocked(function(n)
                return mare.select({mare.channel(), n == 1 and ch or {ch, 1}})
            end, case)
            ch:close()
            t.eq({p:join(t.patience)}, {true, 2, nil, "the channel is closed", "closed"})
        end
    end,

    both_ways_on_one_channel_does_not_meet_itself = function()
        local ch = mare.channel()
        t.fails("timeout", mare.select({ch, {ch, "mine"}}, 0.001))
        local function either() return mare.select({ch, {ch, "theirs"}}, 60) end
        local p, q = mare.spawn(either), mare.spawn(either)
        local _, i, v = p:join(t.patience)
        local _, j, w = q:join(t.patience)
        t.eq(i + j, 3, "one received and the other sent")
        t.eq({v, w}, i == 1 and {"theirs", true} or {true, "theirs"})
    end,

    both_ways_on_a_buffered_channel = function()
        local ch = mare.channel(1)
        local counts = {0, 0}
        for _ = 1, 100 do
            local i = mare.select({ch, {ch, 1}})
            counts[i] = counts[i] + 1
        end
        t.eq(counts, {50, 50})
    end,

    the_same_channel_twice = function()
        local ch = mare.channel()
        local p = blocked(function() return mare.select({ch, ch, ch}) end)
        t.eq(ch:send(1), true)
        local ok, index, value = p:join(t.patience)
        t.eq({ok, value}, {true, 1})
        t.ok(index >= 1 and index <= 3)
        t.fails("full", ch:trysend(2)) -- it waits no more
    end,

    ready_cases_are_chosen_fairly = function()
        local cases, hits = {}, {}
        for i = 1, 5 do
            cases[i] = mare.channel(1)
            cases[i]:close()
            hits[i] = 0
        end
        for _ = 1, 500 do
            local i = mare.select(cases)
            hits[i] = hits[i] + 1
        end
        for i = 1, 5 do t.ok(hits[i] >= 50, t.show(hits)) end
    end,

    -- With one worker the order is Maré's alone: each has its turn.
    busy_senders_take_turns = function()
        local hits = t.with_workers(1, function()
            local cases, hits, senders = {}, {0, 0, 0, 0}, {}
            for i = 1, 4 do
                local ch = mare.channel()
                cases[i] = ch
                senders[i] = mare.spawn(function() while ch:send(true) do end end)
            end
            for _ = 1, 2000 do
                local i = mare.select(cases)
                hits[i] = hits[i] + 1
            end
            for i = 1, 4 do cases[i]:close() end
            for i = 1, 4 do t.ok(senders[i]:join(t.patience)) end
            return hits
        end)
        for i = 1, 4 do t.ok(hits[i] > 400, t.show(hits)) end
    end,

    -- With several, and threads that the system stops and starts as it likes, nobody is forgotten.
    busy_senders_are_all_heard = function()
        local cases, senders = {}, {}
        for i = 1, 4 do
            local ch = mare.channel()
            cases[i] = ch
            senders[i] = mare.spawn(function() while ch:send(true) do end end)
        end
        local hits, unheard = {0, 0, 0, 0}, 4
        while unheard > 0 do
            local i = t.ok(mare.select(cases, t.patience))
            hits[i] = hits[i] + 1
            if hits[i] == 100 then unheard = unheard - 1 end
        end
        for i = 1, 4 do
            cases[i]:close()
            t.ok(senders[i]:join(t.patience))
        end
    end,

    a_thousand_cases = function()
        local cases = {}
        for i = 1, 1000 do
            cases[i] = i % 2 == 0 and mare.channel() or {mare.channel(), i}
        end
        local p = blocked(function(list) return mare.select(list) end, cases)
        t.eq(cases[777][1]:receive(t.patience), 777)
        t.eq({p:join(t.patience)}, {true, 777, true})
        p = blocked(function(list) return mare.select(list) end, cases)
        t.eq(cases[1000]:send("last"), true)
        t.eq({p:join(t.patience)}, {true, 1000, "last"})
        for i = 2, 1000, 2 do t.fails("full", cases[i]:trysend(1)) end
        for i = 1, 999, 2 do t.fails("empty", cases[i][1]:tryreceive()) end
    end,

    a_thousand_processes = function()
        local go, list = mare.channel(), {}
        for i = 1, 1000 do
            list[i] = mare.spawn(function() return go:receive() end)
        end
        go:send "winner"
        local index, ok, word = mare.select(list, t.patience)
        t.eq({ok, word}, {true, "winner"})
        t.eq(list[index]:status(), "finished")
        go:close()
        for _, p in ipairs(list) do t.ok(p:join(t.patience)) end
    end,

    a_case_can_be_any_of_the_kinds_at_once = function()
        local ch, other, stay = mare.channel(), mare.channel(), mare.channel()
        local p = mare.spawn(function() stay:receive() end)
        local q = blocked(function() return mare.select({ch, {other, 1}, p}, 3600) end)
        stay:send()
        t.eq({q:join(t.patience)}, {true, 3, true})
    end,

    values_that_cannot_travel_are_refused_before_anything_is_sent = function()
        local a, b = mare.channel(1), mare.channel(1)
        t.raises("case 2: .*field 'f': a file cannot travel", mare.select,
            {{a, 1}, {b, {f = io.stdout}}})
        t.eq({#a, #b}, {0, 0})
    end,

    misuse_names_the_case = function()
        t.raises("#1.*table expected", mare.select)
        t.raises("case 2", mare.select, {mare.channel(), 42})
        t.raises("case 1", mare.select, {{}})
        t.raises("#1.*forever", mare.select, {})
        t.raises("case 1", mare.select, {{42, 1}})
        t.raises("#2", mare.select, {mare.channel()}, "soon")
    end,

    nil_values_in_the_middle_of_a_send = function()
        local ch = mare.channel(1)
        mare.select({{ch, 1, nil, 3}})
        t.eq({ch:receive(0)}, {1, nil, 3})
    end,

    a_loop_of_selects_multiplexes = function()
        local jobs, results, quit = mare.channel(), mare.channel(), mare.channel()
        local p = mare.spawn(function()
            local queue, sum = {}, 0
            while true do
                local cases = {quit, jobs}
                if #queue > 0 then cases[3] = {results, queue[1]} end
                local i, value = mare.select(cases)
                if i == 1 then return sum end
                if i == 2 then queue[#queue + 1] = value * 2 end
                if i == 3 then sum = sum + table.remove(queue, 1) end
            end
        end)
        for i = 1, 50 do jobs:send(i) end
        for i = 1, 50 do t.eq(results:receive(t.patience), i * 2) end
        quit:send()
        t.eq({p:join(t.patience)}, {true, 2550})
    end,
}
