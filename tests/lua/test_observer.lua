-- SPDX-License-Identifier: MIT
-- The observer by itself: whose events are ready, without a handler and without a loop.
local mare, t = require "mare", require "t"
local observer = require "mare.observer"

-- A source that tells when it is told to, and what it was given.
local function telling()
    local source = {stopped = 0}
    function source:start(notify, finish) self.notify, self.finish = notify, finish end
    function source:stop() self.stopped = self.stopped + 1 end
    return source
end

-- Takes what comes until nothing is left to wait for. Returns it by identifier.
local function all(o)
    local got = {}
    while true do
        local ids = o:wait_for_events()
        if #ids == 0 then return got end
        for _, id in ipairs(ids) do
            got[id] = got[id] or {}
            table.insert(got[id], {o:take(id)})
        end
    end
end

return {
    sources_of_each_kind_are_known_by_the_identifier_they_were_given = function()
        local o <close> = observer.new()
        local channel, told, polls = mare.channel(), telling(), 0
        t.eq(o:register_source(channel, "channel"), "channel")
        o:register_source(told, told)
        o:register_source(mare.timer(0.001), "timer")
        o:register_source({poll = function()
            polls = polls + 1
            if polls == 3 then return "third", polls end
            if polls > 3 then return nil, "enough", "closed" end
        end}, "polled")
        local waits = 0
        o:register_source({wait = function()
            waits = waits + 1
            os.execute "true" -- a C function that takes its time
            if waits < 3 then return waits end
        end}, 3.5)
        mare.go(function()
            channel:send("one", nil, 3)
            channel:send(nil)
            channel:close()
            told.notify "told"
            told.finish()
        end)
        local got = all(o)
        t.eq(got.channel[1], {true, "one", nil, 3})
        t.eq({#got.channel, got.channel[2][1], got.channel[2][2]}, {3, true, nil})
        t.eq(got.channel[3][3], "closed")
        t.eq(got.polled, {{true, "third", 3}, {nil, "enough", "closed"}})
        t.eq({got[told][1], got[told][2][3], #got[told]}, {{true, "told"}, "closed", 2})
        t.eq({got[3.5][1], got[3.5][2], got[3.5][3][3]}, {{true, 1}, {true, 2}, "closed"})
        t.eq({got.timer[1][1], got.timer[#got.timer][3]}, {true, "closed"})
    end,

    what_is_ready_is_named_in_its_order_until_it_is_taken = function()
        local o <close> = observer.new()
        local a, b = telling(), telling()
        t.eq({o:register_source(a), o:register_source(b)}, {1, 2}) -- its own identifiers
        t.eq(o:wait_for_events(0), {})
        b.notify "b"
        t.eq(o:wait_for_events(t.patience), {2})
        a.notify "a"
        t.reaches(function() return #o:wait_for_events(t.patience) == 2 end)
        t.eq(o:wait_for_events(t.patience), {2, 1})
        t.eq({o:take(1)}, {true, "a"})
        t.eq(o:wait_for_events(t.patience), {2})
        t.fails("empty", o:take(1))
        t.fails("empty", o:take "nobody")
        t.eq({o:take(2)}, {true, "b"})
        t.eq(o:wait_for_events(0), {})
    end,

    one_event_of_a_source_waits_here_and_its_maker_waits = function()
        local o <close> = observer.new()
        local channel, sent = mare.channel(), 0
        o:register_source(channel, "c")
        mare.go(function() while channel:send(sent + 1) do sent = sent + 1 end end):detach()
        for i = 1, 5 do
            t.eq(o:wait_for_events(t.patience), {"c"})
            t.settle()
            t.ok(sent <= i, sent) -- not one more, though it could be sent
            t.eq({o:take "c"}, {true, i})
        end
    end,

    polled_sources_have_their_turn_beside_busy_ones = function()
        local o <close> = observer.new {poll_time = 1e-6}
        local channel, polled = mare.channel(), 0
        o:register_source(channel, "busy")
        o:register_source({poll = function()
            polled = polled + 1
            if polled == 10 then return "tenth" end
        end}, "polled")
        mare.go(function() while channel:send "more" do end end):detach()
        local got
        repeat
            for _, id in ipairs(o:wait_for_events(t.patience)) do
                local _, what = o:take(id)
                got = what
            end
        until got == "tenth"
        channel:close()
    end,

    a_removed_source_is_silent_and_what_it_brought_can_be_taken = function()
        local o <close> = observer.new()
        local a = telling()
        o:register_source(a, "a")
        a.notify "last"
        t.eq(o:wait_for_events(t.patience), {"a"})
        a.notify "too late"
        t.eq({o:remove_source "a", o:remove_source "a", a.stopped}, {true, false, 1})
        local again = telling()
        o:register_source(again, "a") -- the identifier is free
        again.notify "again"
        t.eq(o:wait_for_events(t.patience), {"a"})
        t.eq({o:take "a"}, {true, "last"})
        t.eq(o:wait_for_events(t.patience), {"a"})
        t.eq({o:take "a"}, {true, "again"})
        t.eq(o:wait_for_events(0), {})
    end,

    a_source_that_fails_says_why_and_the_others_go_on = function()
        local o <close> = observer.new()
        local a = telling()
        o:register_source(a, "a")
        o:register_source({poll = function() error "on purpose" end}, "polled")
        t.eq(o:wait_for_events(t.patience), {"polled"})
        local ok, message, code = o:take "polled"
        t.eq({ok, code}, {nil, "died"})
        t.ok(message:find "on purpose", message)
        a.notify(1)
        t.eq(o:wait_for_events(t.patience), {"a"})
        t.eq({o:take "a"}, {true, 1})
    end,

    two_observers_do_not_know_each_other = function()
        local a <close> = observer.new()
        local b <close> = observer.new()
        local source = telling()
        a:register_source(source, 1)
        b:register_source(telling(), 1)
        source.notify "for a"
        t.eq(a:wait_for_events(t.patience), {1})
        t.eq(b:wait_for_events(0), {})
        t.fails("empty", b:take(1))
    end,

    a_close_ends_who_waits_and_stops_the_sources = function()
        local o, source = observer.new(), telling()
        o:register_source(source)
        local waits = mare.go(function() return o:wait_for_events() end)
        t.settle()
        t.eq({o:close(), o:close(), source.stopped}, {true, false, 1})
        t.eq({waits:join(t.patience)}, {true, {}})
        t.raises("the observer is closed", o.register_source, o, mare.channel())
    end,

    a_wait_can_be_cancelled_and_the_event_stays = function()
        local o <close> = observer.new()
        local source = telling()
        o:register_source(source, "s")
        local waits = mare.go(function() return o:wait_for_events() end)
        t.settle()
        waits:cancel()
        local ok, _, _, code = waits:join(t.patience)
        t.eq({ok, code}, {true, "cancelled"})
        source.notify(7)
        t.eq(o:wait_for_events(t.patience), {"s"})
        t.eq({o:take "s"}, {true, 7})
    end,

    an_observer_keeps_no_process_alive = function()
        local p = mare.spawn(function()
            local o = require "mare.observer".new()
            o:register_source(require "mare".channel())
            o:register_source(require "mare".timer(1e6))
            return "over"
        end)
        t.eq({p:join(t.patience)}, {true, "over"})
    end,

    misuse_names_the_argument = function()
        local o <close> = observer.new()
        o:register_source(mare.channel(), "taken")
        local here = debug.getinfo(1, "S").short_src
        local function register() o:register_source(42) end
        local _, message = pcall(register)
        t.ok(message:find(here, 1, true), message) -- the caller's line
        t.raises("#1 to 'register_source'", o.register_source, o, {})
        t.raises("'taken' is in use", o.register_source, o, mare.channel(), "taken")
        t.raises("#2 to 'register_source'", o.register_source, o, mare.channel(), 0 / 0)
        t.raises("#1 to 'wait_for_events'", o.wait_for_events, o, "soon")
        t.raises("unknown option 'polltime'", observer.new, {polltime = 1})
        t.raises("option 'poll_time'", observer.new, {poll_time = 0})
        t.raises("option 'room'", observer.new, {room = -1})
        t.eq(o:remove_source "nobody", false)
    end,
}
