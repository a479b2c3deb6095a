-- SPDX-License-Identifier: MIT
-- A meeting of two when one of them dies, at each step of it, and what the other one sees.
local mare, t = require "mare", require "t"

local function blocked(f, ...)
    local p = mare.spawn(f, ...)
    t.reaches(function() return p:status() == "blocked" end)
    return p
end

return {
    a_sender_dies_before_the_receiver_comes = function()
        local ch = mare.channel()
        local sender = blocked(function() ch:send "from the dead" end)
        sender:kill()
        sender:join(t.patience)
        t.fails("empty", ch:tryreceive())
        t.fails("timeout", ch:receive(0.001))
    end,

    a_receiver_dies_before_the_sender_comes = function()
        local ch = mare.channel()
        local receiver = blocked(function() ch:receive() end)
        receiver:kill()
        receiver:join(t.patience)
        t.fails("full", ch:trysend(1))
        t.fails("timeout", ch:sendwithin(0.001, 1))
    end,

    a_sender_killed_but_not_yet_gone_sends_nothing = function()
        for _ = 1, 50 do
            local ch = mare.channel()
            local sender = blocked(function() ch:send "dead" end)
            sender:kill()
            local got = ch:tryreceive()
            t.ok(got == nil or got == "dead")
            t.eq(select(3, sender:join(t.patience)), "killed")
            t.fails("empty", ch:tryreceive())
        end
    end,

    the_next_in_line_is_served_when_the_first_dies = function()
        local ch = mare.channel()
        local first = blocked(function() return ch:receive() end)
        local second = blocked(function() return ch:receive() end)
        first:kill()
        first:join(t.patience)
        ch:send "to the second"
        t.eq({second:join(t.patience)}, {true, "to the second"})
    end,

    one_in_the_middle_of_the_line_dies = function()
        local ch = mare.channel()
        local line = {}
        for i = 1, 9 do line[i] = blocked(function(n) ch:send(n) end, i) end
        for i = 2, 8, 2 do
            line[i]:kill()
            line[i]:join(t.patience)
        end
        for i = 1, 9, 2 do t.eq(ch:receive(t.patience), i) end
        t.fails("empty", ch:tryreceive())
    end,

    a_receiver_gives_up_and_the_message_goes_to_the_next = function()
        local ch = mare.channel()
        t.fails("timeout", ch:receive(0.001))
        local second = blocked(function() return ch:receive() end)
        ch:send(1)
        t.eq({second:join(t.patience)}, {true, 1})
    end,

    a_receiver_that_dies_right_after_is_no_failure_of_the_send = function()
        local ch = mare.channel()
        local receiver = blocked(function()
            ch:receive()
            error "having received"
        end)
        t.eq(ch:send(1), true)
        t.eq(select(3, receiver:join(t.patience)), "died")
    end,

    a_sender_that_dies_right_after_has_sent = function()
        local ch = mare.channel(1)
        local sender = mare.spawn(function()
            ch:send "last words"
            error "gone"
        end)
        t.eq(select(3, sender:join(t.patience)), "died")
        t.eq(ch:receive(0), "last words")
    end,

    -- With one worker, which is here, a partner that was served has not yet seen it.

    a_receiver_dies_after_it_was_served_and_before_it_knows = function()
        t.with_workers(1, function()
            local ch, seen = mare.channel(), mare.channel(1)
            local receiver = blocked(function() seen:send(ch:receive()) end)
            local next_one = blocked(function() return ch:receive() end)
            t.eq(ch:send "taken along", true)
            receiver:kill()
            receiver:join(t.patience)
            t.eq(ch:send "for the next", true)
            t.eq({next_one:join(t.patience)}, {true, "for the next"})
            local got = seen:tryreceive() -- if this slice ended just then, it has gone on
            t.ok(got == nil or got == "taken along", got)
        end)
    end,

    a_sender_dies_after_it_was_served_and_before_it_knows = function()
        t.with_workers(1, function()
            local ch = mare.channel()
            local sender = blocked(function()
                ch:send "already away"
                ch:send "never sent"
            end)
            t.eq(ch:tryreceive(), "already away")
            sender:kill()
            t.eq(select(3, sender:join(t.patience)), "killed")
            t.fails("empty", ch:tryreceive())
        end)
    end,

    both_die_after_they_met_and_before_they_know = function()
        t.with_workers(1, function()
            for _, first in ipairs {"sender", "receiver"} do
                local ch = mare.channel()
                local pair = {}
                pair.receiver = blocked(function() while true do ch:receive() end end)
                pair.sender = mare.spawn(function() while true do ch:send {mare.channel()} end end)
                for _ = 1, 10 do mare.yield() end -- they meet, and meet again
                pair[first]:kill()
                pair.sender:kill()
                pair.receiver:kill()
                t.fails("killed", pair.sender:join(t.patience))
                t.fails("killed", pair.receiver:join(t.patience))
                t.fails("empty", ch:tryreceive())
                t.fails("full", ch:trysend(1))
            end
        end)
    end,

    a_select_dies_after_it_was_served_and_before_it_knows = function()
        t.with_workers(1, function()
            local a, b = mare.channel(), mare.channel()
            local p = blocked(function()
                mare.select({a, {b, "value"}})
                mare.channel():receive()
            end)
            t.eq(b:tryreceive(), "value")
            t.fails("full", a:trysend(1)) -- its other case is no longer there
            p:kill()
            t.fails("killed", p:join(t.patience))
            t.fails("empty", b:tryreceive())
        end)
    end,

    both_die_at_once_and_nothing_is_left = function()
        for _ = 1, 100 do
            local ch = mare.channel()
            local sender = mare.spawn(function() ch:send(1) end)
            local receiver = mare.spawn(function() ch:receive() end)
            sender:kill()
            receiver:kill()
            t.ok(select("#", sender:join(t.patience)) > 0)
            t.ok(select("#", receiver:join(t.patience)) > 0)
            t.fails("empty", ch:tryreceive())
            t.fails("full", ch:trysend(1))
        end
    end,

    a_kill_races_the_meeting_and_the_send_knows_the_outcome = function()
        -- The receiver passes on what it got. A send that returned true was received, even if the
        -- receiver was then killed; one that did not was not.
        for i = 1, 200 do
            local ch, got = mare.channel(), mare.channel(1)
            local receiver = mare.spawn(function()
                got:trysend(ch:receive())
            end)
            local killer = mare.spawn(function() receiver:kill() end)
            local sent = ch:sendwithin(0.002, i)
            killer:join(t.patience)
            receiver:join(t.patience)
            if got:tryreceive() == i then
                t.eq(sent, true, "received, so it was sent")
            end
        end
    end,

    a_close_races_the_meeting = function()
        for _ = 1, 200 do
            local ch = mare.channel()
            local receiver = mare.spawn(function() return ch:receive() end)
            local closer = mare.spawn(function() ch:close() end)
            local sent = ch:send(1)
            local _, got = receiver:join(t.patience)
            t.eq(sent == true, got == 1, "both sides agree")
            closer:join(t.patience)
        end
    end,

    a_deadline_races_the_meeting = function()
        for i = 1, 200 do
            local ch = mare.channel()
            local receiver = mare.spawn(function(s) return ch:receive(s) end, 0.00001 * (i % 20))
            local sent = ch:sendwithin(0.00001 * (i % 13), i)
            local _, got = receiver:join(t.patience)
            t.eq(sent == true, got == i, "both sides agree")
        end
    end,

    select_dies_while_both_sides_wait = function()
        local a, b = mare.channel(), mare.channel()
        local p = blocked(function() mare.select({a, {b, "v"}}) end)
        p:kill()
        p:join(t.patience)
        t.fails("full", a:trysend(1))
        t.fails("empty", b:tryreceive())
    end,

    two_selects_meet_each_other = function()
        for _ = 1, 100 do
            local a, b = mare.channel(), mare.channel()
            local function side(x, y) return mare.select({x, {y, "v"}}, 60) end
            local p, q = mare.spawn(side, a, b), mare.spawn(side, b, a)
            local _, i, v = p:join(t.patience)
            local _, j, w = q:join(t.patience)
            -- One received what the other sent.
            t.eq(i + j, 3)
            t.eq({v, w}, i == 1 and {"v", true} or {true, "v"})
        end
    end,

    a_channel_nobody_holds_goes_with_what_it_holds = function()
        -- The inner channel sits only in the buffer of the outer one.
        for _ = 1, 100 do
            local outer = mare.channel(1)
            outer:send(mare.channel(1), {mare.channel(1)})
            outer = nil
            t.eq(outer, nil)
        end
        collectgarbage()
    end,
}
