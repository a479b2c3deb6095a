-- SPDX-License-Identifier: MIT
-- luacheck: globals late
-- Lua code that runs in the middle of an operation: finalizers and __travel that use channels
-- themselves, references used after their end.
local mare, t = require "mare", require "t"

package.preload.reentry = function() return {arrive = function(v) return v end} end

-- An object that arrives as what the function returns.
local function travels(f)
    return setmetatable({}, {__travel = function() return "reentry", f() end})
end

-- From here on the collector never rests. The k-th finalizer that it calls runs the function. What
-- this returns calls those that are left.
local function in_finalizer(k, f)
    local calls = 0
    local function arm()
        setmetatable({}, {__gc = function()
            calls = calls + 1
            if calls == k then f() end
            if calls < k then arm() end
        end})
    end
    arm()
    collectgarbage("incremental", 1, 1000, 0)
    collectgarbage()
    return function() while calls < k do collectgarbage() end end
end

return {
    a_finalizer_may_send_while_a_message_is_unpacked = function()
        local log, c = mare.channel(100000), mare.channel()
        local p = mare.spawn(function(said, from)
            for _ = 1, 100 do
                setmetatable({}, {__gc = function() said:trysend("gc") end})
                local list = from:receive()
                if #list ~= 100 or list[100].x ~= "v100" then error "spoilt" end
            end
            return "fine"
        end, log, c)
        for _ = 1, 100 do
            local list = {}
            for j = 1, 100 do list[j] = {x = "v" .. j} end
            c:sendwithin(t.patience, list)
        end
        t.eq({p:join(t.patience)}, {true, "fine"})
    end,

    a_travel_function_may_send = function()
        local ok, first, second = mare.spawn(function()
            local here, other = mare.channel(1), mare.channel(1)
            package.preload.stamp = function() return {arrive = function(v) return v end} end
            local stamp = setmetatable({}, {__travel = function()
                other:trysend("meanwhile")
                return "stamp", "posted"
            end})
            here:send({1, 2, stamp})
            return here:receive()[3], other:receive()
        end):join(t.patience)
        t.eq({ok, first, second}, {true, "posted", "meanwhile"})
    end,

    a_reference_used_after_its_finalizer_is_an_error = function()
        t.raises("finalized", function()
            local ch = mare.channel(1)
            debug.getmetatable(ch).__gc(ch)
            ch:send(1)
        end)
        -- Finalizers run in reverse order at the end: the channel goes first.
        t.ok(mare.spawn(function()
            local _late = setmetatable({}, {__gc = function() late:trysend(1) end})
            late = mare.channel(1)
        end):join(t.patience))
    end,

    a_refused_message_does_not_take_its_buffers_along_later = function()
        local ch, b = mare.channel(5), mare.buffer "abc"
        t.raises("file", function() ch:send(b, io.stdout) end)
        ch:send(1)
        t.eq(b:get(), "abc")
    end,

    a_routine_that_a_finalizer_starts_while_one_is_started_is_kept = function()
        for k = 1, 12 do -- the one of the finalizers that does
            local p = mare.spawn(function(patience)
                local c, back, calls = mare.channel(), mare.channel(1), 0
                local function arm()
                    setmetatable({}, {__gc = function()
                        calls = calls + 1
                        if calls == k then mare.go(function() back:send(c:receive()) end) end
                        if calls < k then arm() end
                    end})
                end
                arm()
                collectgarbage("incremental", 1, 1000, 0)
                mare.go(function() end)
                while calls < k do collectgarbage() end
                mare.yield()
                collectgarbage()
                collectgarbage()
                c:sendwithin(patience, k)
                return back:receive(patience)
            end, t.patience)
            t.eq({p:join(t.patience)}, {true, k})
        end
    end,

    a_reference_that_a_finalizer_receives_too_stays_one = function()
        for k = 1, 16 do
            for _, kind in ipairs {"process", "channel"} do
                local first, second = mare.channel(1), mare.channel(1)
                local object = kind == "process" and mare.self() or mare.channel()
                first:send(object)
                second:send(object)
                local p = mare.spawn(function()
                    local other
                    local finish = in_finalizer(k, function() other = second:receive() end)
                    local one = first:receive()
                    finish()
                    return rawequal(one, other)
                end)
                t.eq({p:join(t.patience)}, {true, true})
            end
        end
    end,

    a_reference_that_a_finalizer_makes_beside_the_first_is_found = function()
        for k = 1, 16 do
            local p = mare.spawn(function()
                local made
                local finish = in_finalizer(k, function() made = mare.channel(1) end)
                local first = mare.channel(1)
                finish()
                first:send(first)
                made:send(made)
                return rawequal(first:receive(), first), rawequal(made:receive(), made)
            end)
            t.eq({p:join(t.patience)}, {true, true, true})
        end
    end,

    two_links_are_one = function()
        local stop, patience = mare.channel(), t.patience
        local p = mare.spawn(function()
            local child = mare.spawn(function() stop:receive() error "bad" end)
            child:link()
            child:link()
            child:unlink()
            stop:send(true)
            child:join(patience)
            return "alive"
        end)
        t.eq({p:join(t.patience)}, {true, "alive"})
    end,

    an_error_object_that_cannot_be_shown = function()
        local _, err, code = mare.spawn(function()
            error(setmetatable({}, {__tostring = function() error("no words", 0) end}))
        end):join(t.patience)
        t.eq({err, code}, {"no words", "died"})
    end,

    -- What a send or a select prepares is its own, whatever runs meanwhile.

    a_travel_function_may_select = function()
        local ch = mare.channel(4)
        local object = travels(function()
            mare.select({}, 0)
            for _ = 1, 50 do mare.select({mare.channel(1)}, 0) end
            return 1
        end)
        t.eq({mare.select({{ch, object, "x"}}, 0)}, {1, true})
        t.eq({ch:receive()}, {1, "x"})
    end,

    a_travel_function_may_fail_in_a_select = function()
        local ch, b = mare.channel(4), mare.buffer "mine"
        local fails = setmetatable({}, {__travel = function() error "not today" end})
        t.raises("case 2.*not today", mare.select, {{ch, b}, {ch, fails}}, 0)
        t.eq({#ch, b:moved()}, {0, false})
        t.eq({mare.select({{ch, b}}, 0)}, {1, true})
        t.ok(b:moved())
    end,

    finalizers_may_select_while_a_select_is_made = function()
        local ch, other = mare.channel(1), mare.channel(1)
        for _ = 1, 2000 do
            setmetatable({}, {__gc = function() mare.select({other}, 0) end})
            local list = {}
            for j = 1, 40 do list[j] = {j} end
            t.eq({mare.select({{ch, list}, other}, 0)}, {1, true})
            t.eq(#ch:receive(), 40)
        end
    end,

    finalizers_may_send_while_a_message_is_made = function()
        local log, ch = mare.channel(100000), mare.channel(1)
        for i = 1, 1000 do
            setmetatable({}, {__gc = function() log:trysend(i) end})
            local b, list = mare.buffer "data", {}
            for j = 1, 40 do list[j] = {j} end
            ch:send(b, list, function() return i end)
            t.ok(b:moved(), "sent, and still the sender's")
            local got, again, f = ch:receive()
            t.eq({got:moved(), #again, f()}, {false, 40, i})
        end
    end,

    what_travel_returns_is_kept_while_the_message_is_made = function()
        local ch, list = mare.channel(1), {}
        for i = 1, t.gc_stress and 300 or 3000 do
            list[i] = travels(function() return {i, tostring(i)} end)
        end
        for _ = 1, 3 do
            ch:send(list)
            local got = ch:receive()
            for i = 1, #list do t.eq(got[i], {i, tostring(i)}) end
        end
    end,

    what_was_written_before_a_travel_is_kept_too = function()
        local ch, root = mare.channel(1), {}
        for i = 1, 200 do root[2 * i - 1] = {i} end
        for i = 1, 200 do
            root[2 * i] = travels(function() -- takes the table before it away, and makes others
                root[2 * i - 1] = false
                collectgarbage()
                return {-i}
            end)
        end
        ch:send(root)
        local got = ch:receive()
        for i = 1, 200 do t.eq({got[2 * i - 1], got[2 * i]}, {{i}, {-i}}) end
    end,

    a_travel_function_may_take_pairs_away_deep_down = function()
        local ch, inner = mare.channel(1), {1, 2, gone = true}
        inner[2] = travels(function()
            inner.gone = nil
            return "here"
        end)
        local deep, levels = inner, 30
        for _ = 1, levels do deep = {deep} end
        ch:send(deep)
        local got = ch:receive()
        for _ = 1, levels do got = got[1] end
        t.eq(got, {1, "here"})
    end,

    buffers_that_travel_returns_leave = function()
        local ch = mare.channel(1)
        for _ = 1, 5 do
            local list = {}
            for i = 1, 300 do list[i] = travels(function() return mare.buffer("b" .. i) end) end
            t.ok(ch:send(list))
            local got = ch:receive()
            for i = 1, 300 do t.eq(got[i]:get(), "b" .. i) end
        end
    end,

    lengths_are_read_raw = function()
        local ch = mare.channel(4)
        local function odd(n, ...) return setmetatable({...}, {__len = function() return n end}) end
        for _, n in ipairs {(1 << 32) + 5, -1, 1 << 62, 0, "x"} do
            t.eq({pcall(mare.select, {odd(n, ch, 1)}, 0)}, {true, 1, true})
            t.eq({ch:receive()}, {1})
            ch:send(2)
            t.eq({mare.select(odd(n, ch), 0)}, {1, 2})
        end
    end,

    the_table_of_cases_is_read_once = function()
        local ch, p = mare.channel(), mare.spawn(function() mare.channel():receive() end)
        local cases = {}
        local waits = mare.go(function()
            for i = 1, 300 do
                cases[1] = ch
                t.eq({mare.select(cases, t.patience)}, {1, i})
            end
        end)
        for i = 1, 300 do
            t.settle(3)
            cases[1] = i % 3 == 0 and p or i % 3 == 1 and mare.buffer "x" or nil
            t.ok(ch:sendwithin(t.patience, i))
        end
        t.ok(waits:join(t.patience))
        p:kill()
    end,

    the_table_of_cases_may_change_while_it_is_read = function()
        local first, second, other = mare.channel(1), mare.channel(1), mare.channel(1)
        second:send "second"
        other:send "other"
        first:send "in the way"
        local cases
        local changes = travels(function() cases[2], cases[3] = other, other return 1 end)
        cases = {{first, changes}, second}
        t.eq({mare.select(cases, t.patience)}, {2, "second"})
        t.eq(#other, 1)
    end,

    -- A finalizer runs as the stack grows, after the cases were counted.
    the_table_of_cases_may_grow_before_it_is_read = function()
        local ch, select = mare.channel(), mare.select
        local cases, times, ended = {}, 0, false
        local function garbage() -- anew with each cycle of the collector
            setmetatable({}, {__gc = function()
                times = times + 1
                for i = #cases + 1, #cases + 500 do cases[i] = ch end
                if not ended then garbage() end
            end})
        end
        local function deep(depth) -- so that the stack ends at any place
            if depth > 0 then
                local result = deep(depth - 1)
                return result
            end
            local many = {}
            cases = many
            for i = 1, 900 do many[i] = ch end
            local result = select(many, 0)
            return result
        end
        collectgarbage("incremental", 0, 1000) -- a cycle a step
        garbage()
        for depth = 1, 400 do coroutine.wrap(deep)(depth) end
        ended = true
        collectgarbage "generational"
        t.ok(times > 100, times)
    end,

    what_stands_in_two_cases_leaves_with_the_one_that_fired = function()
        local a, b = mare.channel(1), mare.channel(1)
        for _, full in ipairs {a, b} do
            local free, first, second = full == a and b or a, mare.buffer "1", mare.buffer "2"
            full:send "in the way"
            local fired = mare.select({{a, first, second}, {b, first}}, t.patience)
            t.eq(fired, full == a and 2 or 1)
            t.ok(first:moved())
            t.eq(second:moved(), full == b) -- which stood in the first case alone
            t.eq(free:receive():get(), "1")
            full:receive()
            t.eq(#a + #b, 0)
        end
    end,

    a_buffer_that_is_being_sent_is_nobody_elses = function()
        local ch, other, b = mare.channel(1), mare.channel(1), mare.buffer "mine"
        local tried
        local object = travels(function()
            tried = {pcall(other.send, other, b)}
            return 1
        end)
        t.ok(ch:send(b, object))
        t.eq(tried[1], false)
        t.ok(tried[2]:find "sent before", tried[2])
        t.eq({#other, ch:receive():get()}, {0, "mine"})
    end,

    a_buffer_whose_reference_is_collected_while_it_waits = function()
        local ch, got = mare.channel(), {}
        local list = {mare.buffer "first", mare.buffer "second"}
        local r = mare.go(function() return ch:send(list) end)
        t.settle()
        list[1], list[2] = nil, nil
        collectgarbage()
        for i, buffer in ipairs(ch:receive()) do got[i] = buffer:get() end
        t.eq(got, {"first", "second"})
        t.eq({r:join(t.patience)}, {true, true})
    end,

    a_buffer_costs_the_same_in_a_large_message_as_in_a_small_one = function()
        local ch = mare.channel(1)
        local function cost(n) -- processor time of each, the least of some
            local list, least = {}, math.huge
            collectgarbage "stop" -- what it costs to look at so many is not meant
            for i = 1, n do list[i] = mare.buffer "x" end
            for _ = 1, 3 do
                local began = os.clock()
                t.ok(ch:send(list))
                list = ch:receive()
                least = math.min(least, os.clock() - began)
            end
            collectgarbage "restart"
            return least / n
        end
        local small, large = cost(1000), cost(32000) -- 32 times as much, where all are compared
        t.ok(large < 8 * small, ("%g s each, then %g s"):format(small, large))
    end,
}
