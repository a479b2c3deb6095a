-- SPDX-License-Identifier: MIT
-- Channels: rendezvous and buffered, names, closing, deadlines, iteration.
local mare, t = require "mare", require "t"

-- A process that calls the method of the channel, and has blocked in it.
local function blocked(ch, method, ...)
    local p = mare.spawn(function(...) return ch[method](ch, ...) end, ...)
    t.reaches(function() return p:status() == "blocked" end)
    return p
end

return {
    -- Rendezvous.

    a_rendezvous_hands_over_when_both_are_there = function()
        local ch = mare.channel()
        local sender = blocked(ch, "send", 1, nil, "three", nil)
        t.eq(#ch, 0)
        local got = table.pack(ch:receive())
        t.eq(got, {1, nil, "three", nil, n = 4})
        t.eq({sender:join(t.patience)}, {true, true})
        local receiver = blocked(ch, "receive")
        t.eq(ch:send("to it"), true)
        t.eq({receiver:join(t.patience)}, {true, "to it"})
    end,

    an_empty_message_is_a_message = function()
        local ch = mare.channel(1)
        ch:send()
        t.eq(select("#", ch:receive()), 0)
    end,

    senders_are_served_in_the_order_they_came = function()
        local ch = mare.channel()
        for i = 1, 20 do blocked(ch, "send", i) end
        for i = 1, 20 do t.eq(ch:receive(), i) end
    end,

    receivers_are_served_in_the_order_they_came = function()
        local ch = mare.channel()
        local receivers = {}
        for i = 1, 20 do receivers[i] = blocked(ch, "receive") end
        for i = 1, 20 do ch:send(i) end
        for i = 1, 20 do t.eq({receivers[i]:join(t.patience)}, {true, i}) end
    end,

    -- Buffers.

    a_buffer_takes_as_many_as_it_holds = function()
        local ch = mare.channel(3)
        t.eq({ch:capacity(), #ch}, {3, 0})
        for i = 1, 3 do t.eq(ch:send(i), true) end
        t.eq(#ch, 3)
        t.fails("full", ch:trysend(4))
        t.fails("timeout", ch:sendwithin(0, 4))
        for i = 1, 3 do t.eq(ch:receive(), i) end
        t.fails("empty", ch:tryreceive())
    end,

    a_sender_that_waits_for_room_keeps_its_place = function()
        local ch = mare.channel(2)
        ch:send(1)
        ch:send(2)
        local third = blocked(ch, "send", 3)
        local fourth = blocked(ch, "send", 4)
        t.fails("full", ch:trysend(5))
        for i = 1, 4 do t.eq(ch:receive(t.patience), i) end
        t.ok(third:join(t.patience))
        t.ok(fourth:join(t.patience))
    end,

    a_buffer_goes_round_many_times = function()
        local ch = mare.channel(3)
        local count = 0
        for i = 1, 1000 do
            if not ch:trysend(i) then
                count = count + 1
                t.eq(ch:receive(), i - 3)
                ch:send(i)
            end
        end
        t.eq(count, 997)
    end,

    order_is_kept_from_one_sender_to_one_receiver = function()
        for _, capacity in ipairs {0, 1, 7} do
            local ch = mare.channel(capacity)
            mare.spawn(function()
                for i = 1, 2000 do ch:send(i) end
                ch:close()
            end)
            local last = 0
            for i in ch:messages() do
                t.eq(i, last + 1)
                last = i
            end
            t.eq(last, 2000)
        end
    end,

    many_to_many_loses_nothing_and_doubles_nothing = function()
        for _, capacity in ipairs {0, 5} do
            local ch, sums = mare.channel(capacity), mare.channel(8)
            local senders = {}
            for s = 1, 8 do
                senders[s] = mare.spawn(function(base)
                    for i = 1, 200 do ch:send(base * 1000 + i) end
                end, s)
                mare.spawn(function()
                    local seen = {}
                    for v in ch:messages() do seen[#seen + 1] = v end
                    sums:send(seen)
                end)
            end
            for _, p in ipairs(senders) do t.ok(p:join(t.patience)) end
            ch:close()
            local all = {}
            for _ = 1, 8 do
                for _, v in ipairs(sums:receive(t.patience)) do
                    t.eq(all[v], nil)
                    all[v] = true
                end
            end
            for s = 1, 8 do
                for i = 1, 200 do t.ok(all[s * 1000 + i]) end
            end
        end
    end,

    a_big_capacity_costs_nothing_until_it_is_used = function()
        local ch = mare.channel(1 << 40)
        for i = 1, 100 do ch:send(i) end
        t.eq({#ch, ch:capacity()}, {100, 1 << 40})
    end,

    -- The forms that do not wait.

    trysend_wants_a_receiver_that_waits = function()
        local ch = mare.channel()
        t.fails("full", ch:trysend(1))
        local receiver = blocked(ch, "receive")
        t.reaches(function() return ch:trysend(2) end)
        t.eq({receiver:join(t.patience)}, {true, 2})
    end,

    tryreceive_takes_from_a_sender_that_waits = function()
        local ch = mare.channel()
        t.fails("empty", ch:tryreceive())
        local sender = blocked(ch, "send", 5)
        local got
        t.reaches(function()
            got = ch:tryreceive()
            return got
        end)
        t.eq(got, 5)
        t.eq({sender:join(t.patience)}, {true, true})
    end,

    -- Deadlines.

    a_wait_ends_at_its_deadline = function()
        local ch = mare.channel()
        t.fails("timeout", ch:receive(0))
        t.fails("timeout", ch:receive(0.002))
        t.fails("timeout", ch:sendwithin(0, 1))
        t.fails("timeout", ch:sendwithin(0.002, 1))
        t.fails("timeout", ch:receive(-1))
        t.fails("timeout", ch:receive(mare.deadline(0.001)))
        t.fails("empty", ch:tryreceive())
    end,

    a_message_in_time_beats_the_deadline = function()
        local ch = mare.channel()
        local receiver = blocked(ch, "receive", 3600)
        t.ok(ch:sendwithin(3600, "soon"))
        t.eq({receiver:join(t.patience)}, {true, "soon"})
    end,

    no_timeout_and_an_infinite_one_are_the_same = function()
        local ch = mare.channel()
        local receiver = blocked(ch, "receive", math.huge)
        ch:sendwithin(math.huge, 1)
        t.eq({receiver:join(t.patience)}, {true, 1})
        receiver = blocked(ch, "receive", nil)
        ch:send(2)
        t.eq({receiver:join(t.patience)}, {true, 2})
    end,

    what_is_at_hand_is_received_even_with_a_deadline_that_has_passed = function()
        local ch = mare.channel(1)
        ch:send "at hand"
        t.eq(ch:receive(0), "at hand")
        t.eq(ch:sendwithin(0, "room"), true)
        t.eq(ch:receive(-1), "room")
    end,

    bad_timeouts_raise = function()
        local ch = mare.channel()
        t.raises("#1 to 'receive'", function() ch:receive "soon" end)
        t.raises("#1 to 'sendwithin'", function() ch:sendwithin({}, 1) end)
        t.raises("#1 to 'sendwithin'", function() mare.channel(1):sendwithin() end)
        t.raises("NaN", function() ch:receive(0 / 0) end)
    end,

    -- Closing.

    closing_wakes_receivers = function()
        local ch = mare.channel()
        local a, b = blocked(ch, "receive"), blocked(ch, "receive", 3600)
        t.eq(ch:closed(), false)
        t.eq(ch:close(), true)
        t.eq(ch:closed(), true)
        t.eq({select(4, a:join(t.patience))}, {"closed"})
        t.eq({select(4, b:join(t.patience))}, {"closed"})
        t.eq(ch:close(), false, "once is enough")
    end,

    closing_wakes_senders = function()
        local ch = mare.channel(1)
        ch:send "stored"
        local a, b = blocked(ch, "send", 1), blocked(ch, "sendwithin", 3600, 2)
        ch:close()
        t.eq({a:join(t.patience)}, {true, nil, "the channel is closed", "closed"})
        t.eq({b:join(t.patience)}, {true, nil, "the channel is closed", "closed"})
        t.eq(ch:receive(), "stored")
        t.fails("closed", ch:receive())
    end,

    what_was_buffered_can_still_be_received = function()
        local ch = mare.channel(5)
        for i = 1, 3 do ch:send(i) end
        ch:close()
        t.eq(#ch, 3)
        t.eq(ch:receive(), 1)
        t.eq(ch:tryreceive(), 2)
        t.eq({mare.select({ch})}, {1, 3})
        t.fails("closed", ch:receive())
        t.fails("closed", ch:tryreceive())
        t.fails("closed", ch:receive(0))
    end,

    a_closed_channel_takes_nothing = function()
        local ch = mare.channel(5)
        ch:close()
        t.fails("closed", ch:send(1))
        t.fails("closed", ch:trysend(1))
        t.fails("closed", ch:sendwithin(1, 1))
        t.eq(#ch, 0)
    end,

    a_channel_is_accepted_by_close = function()
        local seen
        do
            local ch <close> = mare.channel()
            seen = ch
        end
        t.ok(seen:closed())
        pcall(function()
            local ch <close> = mare.channel(1)
            seen = ch
            error "on the way out"
        end)
        t.ok(seen:closed())
    end,

    -- Iteration.

    messages_ends_when_closed_and_drained = function()
        local ch = mare.channel(10)
        ch:send(1, "a")
        ch:send(2, "b")
        ch:close()
        local got = {}
        for n, s in ch:messages() do got[n] = s end
        t.eq(got, {"a", "b"})
    end,

    messages_ends_at_a_nil = function()
        local ch = mare.channel(10)
        ch:send(1)
        ch:send(nil, "ends here")
        ch:send(2)
        local got = {}
        for n in ch:messages() do got[#got + 1] = n end
        t.eq(got, {1})
        t.eq(ch:receive(), 2)
    end,

    messages_waits_for_the_next = function()
        local ch = mare.channel()
        local p = mare.spawn(function()
            local sum = 0
            for n in ch:messages() do sum = sum + n end
            return sum
        end)
        for i = 1, 10 do ch:send(i) end
        ch:close()
        t.eq({p:join(t.patience)}, {true, 55})
    end,

    a_loop_that_breaks_leaves_the_rest = function()
        local ch = mare.channel(10)
        for i = 1, 5 do ch:send(i) end
        for n in ch:messages() do
            if n == 2 then break end
        end
        t.eq(ch:receive(), 3)
    end,

    -- Names.

    a_named_channel_is_found_until_it_is_closed = function()
        local ch = mare.channel(1, "channel.named")
        t.eq(ch:name(), "channel.named")
        t.ok(mare.find "channel.named" == ch)
        t.fails("exists", mare.channel(0, "channel.named"))
        mare.spawn(function() mare.find "channel.named":send "by name" end)
        t.eq(ch:receive(t.patience), "by name")
        ch:close()
        t.fails("noname", mare.find "channel.named")
        local again <close> = mare.channel(0, "channel.named")
        t.ok(again ~= ch)
    end,

    a_named_channel_outlives_its_references = function()
        mare.spawn(function() mare.channel(1, "channel.kept"):send "kept" end):join(t.patience)
        collectgarbage()
        local ch <close> = mare.find "channel.kept"
        t.eq(ch:receive(0), "kept")
    end,

    nobody_has_a_name_never_given = function()
        t.fails("noname", mare.find "channel.never")
        t.raises("#1", mare.find)
        t.eq(mare.channel():name(), nil)
    end,

    -- References and misuse.

    references_are_equal_when_the_channel_is = function()
        local ch = mare.channel(2)
        ch:send(ch)
        local got = ch:receive()
        t.ok(got == ch)
        t.ok(ch ~= mare.channel(2))
        t.eq(({[ch] = 1})[got], 1)
        t.ok(tostring(ch):find "^channel %d+$")
        t.eq(tostring(ch), tostring(got))
    end,

    a_channel_travels_through_a_channel = function()
        local server = mare.channel()
        mare.spawn(function()
            for reply, n in server:messages() do reply:send(n * n) end
        end)
        local reply = mare.channel()
        for i = 1, 10 do
            server:send(reply, i)
            t.eq(reply:receive(t.patience), i * i)
        end
        server:close()
    end,

    what_comes_where_a_channel_was_is_not_taken_for_it = function()
        -- A process remembers which references it found to be channels. Here each is collected,
        -- and a reference of another kind, of the same size, is made, mostly in the same place.
        local send = mare.channel(1).send
        for _ = 1, 200 do
            local ch = mare.channel(1)
            ch:send(1)
            ch = nil -- luacheck: ignore
            collectgarbage()
            local timer = mare.timer(1000)
            t.raises("channel expected", send, timer, 1)
            timer:cancel()
        end
    end,

    misuse_raises_and_names_the_argument = function()
        t.raises("#1.*negative", mare.channel, -1)
        t.raises("#1.*number expected", mare.channel, "big")
        t.raises("#1.*integer", mare.channel, 1.5)
        t.raises("#2.*string expected", mare.channel, 0, {})
        local ch = mare.channel()
        t.raises("channel expected", ch.send, 42, 1)
        t.raises("channel expected", ch.receive, mare.self())
        t.raises("channel expected", ch.close)
    end,
}
