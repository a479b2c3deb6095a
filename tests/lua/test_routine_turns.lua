-- SPDX-License-Identifier: MIT
-- Routines in great number, their turns, their coroutines, their messages and their memory.
local mare, t = require "mare", require "t"
local settle = t.settle

-- Fewer where each allocation starts the collector, which looks at them all.
local MANY = t.gc_stress and 300 or 10000

return {
    -- Their number and their turns.

    ten_thousand = function()
        local n = MANY
        local ch, out, list = mare.channel(), mare.channel(10), {}
        for i = 1, n do
            list[i] = mare.go(function()
                local a = ch:receive()
                mare.yield()
                mare.sleep(0.001)
                return a
            end)
        end
        local p = mare.spawn(function() for i = 1, n do ch:send(i) end out:send "all" end)
        local sum = 0
        for i = 1, n do
            local ok, a = list[i]:join(t.patience)
            t.ok(ok)
            sum = sum + a
        end
        t.eq(sum, n * (n + 1) // 2)
        t.eq(out:receive(t.patience), "all")
        t.ok(p:join(t.patience))
    end,

    ten_thousand_die_at_once = function()
        local ready = mare.channel()
        local p = mare.spawn(function()
            local never = mare.channel()
            for i = 1, MANY do
                mare.go(function()
                    if i % 2 == 0 then never:receive() else mare.sleep(3600) end
                end)
            end
            mare.yield()
            ready:send()
            never:receive()
        end)
        ready:receive(t.patience)
        p:kill()
        t.fails("killed", p:join(t.patience))
    end,

    ten_thousand_wait_in_coroutines = function()
        local go_on, list = mare.channel(), {}
        for i = 1, MANY do
            list[i] = mare.go(function()
                local words = {}
                for word in coroutine.wrap(function()
                    coroutine.yield "a"
                    coroutine.yield(go_on:receive())
                end) do
                    words[#words + 1] = word
                end
                return table.concat(words)
            end)
        end
        for _ = 1, MANY do t.ok(go_on:sendwithin(t.patience, "b")) end
        for i = 1, MANY do t.eq({list[i]:join(t.patience)}, {true, "ab"}) end
    end,

    what_has_ended_is_collected = function()
        local function round()
            for _ = 1, 1000 do mare.go(function() return {} end) end
            for _ = 1, 100 do mare.go(pcall, error):join() end
            settle()
            collectgarbage()
            collectgarbage()
            return collectgarbage "count"
        end
        round()
        local before = round()
        for _ = 1, 5 do round() end
        t.ok(round() < before + 100, "kilobytes that stay")
    end,

    one_without_references_goes_on = function()
        local ch, out = mare.channel(), mare.channel(1)
        mare.go(function()
            local sum = 0
            for n in ch:messages() do sum = sum + n end
            out:send(sum)
        end)
        for i = 1, 20 do
            collectgarbage()
            t.ok(ch:sendwithin(t.patience, i))
        end
        ch:close()
        t.eq(out:receive(t.patience), 210)
    end,

    a_turn_ends_only_where_they_wait_or_yield = function()
        t.needs_preemption()
        t.with_workers(1, function()
            local rival = mare.spawn(function() while true do end end) -- takes its slices between
            local seen, preempted = 0, mare.stats().preemptions
            local long = mare.go(function()
                local deadline = mare.deadline(t.patience)
                while mare.stats().preemptions < preempted + 10 and deadline:left() > 0 do end
                return seen, mare.stats().preemptions - preempted
            end)
            local other = mare.go(function() seen = seen + 1 end)
            local ok, during, slices = long:join()
            t.eq({ok, during}, {true, 0}) -- the other has not had a turn meanwhile
            t.ok(slices >= 10, slices)
            t.ok(other:join(t.patience))
            rival:kill()
        end)
    end,

    one_without_end_holds_back_no_other_process = function()
        t.needs_preemption()
        t.with_workers(1, function()
            local here = mare.channel(1)
            local p = mare.spawn(function()
                mare.go(function() here:send(true) while true do end end)
            end)
            t.ok(here:receive(t.patience))
            mare.sleep(0.01)
            t.eq({mare.spawn(function() return "served" end):join(t.patience)}, {true, "served"})
            p:kill()
            t.fails("killed", p:join(t.patience))
        end)
    end,

    busy_routines_leave_other_processes_their_turns = function()
        t.with_workers(1, function()
            local stop, there = mare.channel(), mare.channel()
            local p = mare.spawn(function()
                local a, b, over = mare.channel(), mare.channel(), false
                mare.go(function() while not over do a:send(1) b:receive() end end)
                mare.go(function() while not over do a:receive() b:send(1) end end)
                mare.go(function() while not over do mare.yield() end end)
                there:send()
                stop:receive()
                over = true
                a:close()
                b:close()
            end)
            there:receive(t.patience)
            -- Each yield comes back only when that process has given up the worker.
            for _ = 1, 100 do mare.yield() end
            local before = mare.now()
            mare.sleep(0.002) -- a timer, while somebody is always ready
            t.ok(mare.now() > before)
            t.ok(stop:sendwithin(t.patience))
            t.ok(p:join(t.patience))
        end)
    end,

    yield_goes_to_the_end_of_their_line = function()
        local order = mare.channel(1000)
        local function count(name, yield)
            for _ = 1, 100 do
                order:send(name)
                yield()
            end
        end
        local a, b = mare.go(count, "a", mare.yield), mare.go(count, "b", coroutine.yield)
        t.ok(a:join(t.patience))
        t.ok(b:join(t.patience))
        order:close()
        local ahead = 0
        for name in order:messages() do
            ahead = ahead + (name == "a" and 1 or -1)
            t.ok(math.abs(ahead) <= 2, "in turn, but for a turn that was cut short")
        end
    end,

    the_status_of_their_process = function()
        local go_on = mare.channel()
        local p = mare.spawn(function()
            mare.go(function() go_on:receive() end)
            go_on:receive()
            mare.sleep(3600)
        end)
        t.reaches(function() return p:status() == "blocked" end)
        go_on:send()
        t.reaches(function() return p:status() == "blocked" end)
        for _, row in ipairs(mare.processes()) do
            if row.id == p:id() then t.eq(row.status, "blocked") end
        end
        p:kill()
        t.fails("killed", p:join(t.patience))
        t.eq(p:status(), "finished")
    end,

    -- Coroutines.

    they_are_coroutines = function()
        local main, is_main = coroutine.running()
        t.eq(is_main, true)
        local r = mare.go(function()
            local co, ismain = coroutine.running()
            t.eq(ismain, false)
            t.ok(co ~= main)
            t.ok(coroutine.isyieldable())
            t.eq(coroutine.status(co), "running")
            t.eq(coroutine.status(main), "normal")
            t.eq({coroutine.resume(main)}, {false, "cannot resume non-suspended coroutine"})
            t.raises("cannot close a normal coroutine", coroutine.close, main)
            t.raises("cannot close a running coroutine", coroutine.close, co)
            coroutine.wrap(function()
                t.eq(coroutine.status(co), "normal")
                t.eq({coroutine.resume(co)}, {false, "cannot resume non-suspended coroutine"})
                t.raises("cannot close a normal coroutine", coroutine.close, co)
            end)()
            return co
        end)
        local ok, co = r:join(t.patience)
        t.ok(ok, co)
        -- Its results are still asked for.
        t.eq(coroutine.status(co), "dead")
        t.eq({coroutine.resume(co)}, {false, "cannot resume dead coroutine"})
        t.eq(coroutine.close(co), true)
        t.eq({r:join()}, {true, co})
    end,

    a_main_script_that_has_ended_is_dead = function()
        local out = mare.channel(10)
        mare.spawn(function()
            local main = coroutine.running()
            mare.go(function()
                mare.yield()
                out:send(coroutine.status(main), coroutine.resume(main, 1))
                out:send(coroutine.close(main))
            end)
            return out.send, 5
        end):join(t.patience)
        t.eq({out:receive(0)}, {"dead", false, "cannot resume dead coroutine"})
        t.eq(out:receive(0), true)
    end,

    a_coroutine_in_which_another_waits_is_not_suspended = function()
        local ch = mare.channel()
        local co = coroutine.create(function(...)
            local n = ch:receive()
            coroutine.yield(n)
            return "end"
        end)
        local outer = coroutine.create(function() return coroutine.resume(co) end)
        local r = mare.go(function() return coroutine.resume(outer) end)
        settle()
        for _, held in ipairs {co, outer} do
            t.eq(coroutine.status(held), "normal")
            t.eq({coroutine.resume(held)}, {false, "cannot resume non-suspended coroutine"})
            t.raises("cannot close a normal coroutine", coroutine.close, held)
        end
        t.ok(debug.traceback(co):find "in method 'receive'", debug.traceback(co))
        ch:send(5)
        t.eq({r:join(t.patience)}, {true, true, true, 5})
        -- From here on it is everybody's again.
        t.eq(coroutine.status(outer), "dead")
        t.eq(coroutine.status(co), "suspended")
        t.eq({coroutine.resume(co)}, {true, "end"})
    end,

    an_iterator_is_shared_in_turn = function()
        local next_number = coroutine.wrap(function()
            for i = 1, 100 do
                mare.yield()
                coroutine.yield(i)
            end
        end)
        local seen = {}
        local function take(mine)
            local refused = 0
            repeat
                local ok, n = pcall(next_number)
                if ok then
                    t.eq(seen[n], nil)
                    seen[n] = mine
                else
                    t.ok(n:find "cannot resume non%-suspended coroutine", n)
                    refused = refused + 1
                    mare.yield()
                end
            until ok and n > 50
            return refused
        end
        local a, b = mare.go(take, "a"), mare.go(take, "b")
        local a_ended, a_refused = a:join(t.patience)
        local b_ended, b_refused = b:join(t.patience)
        t.ok(a_ended and b_ended)
        t.ok(a_refused + b_refused > 0)
        t.ok(#seen > 50, "none was lost")
    end,

    debug_sees_them = function()
        local thread, go_on = nil, mare.channel()
        local r = mare.go(function()
            local marked = "here"
            thread = coroutine.running()
            go_on:receive()
            error(marked, 0)
        end)
        settle()
        local trace = debug.traceback(thread, "text")
        t.ok(trace:find "^text\nstack traceback:\n.*in method 'receive'", trace)
        t.eq({debug.getlocal(thread, 1, 1)}, {"marked", "here"})
        go_on:close()
        t.eq({select(2, r:join(t.patience))}, {"here", "died", (select(4, r:join()))})
    end,

    each_has_its_own_hook = function()
        local lines = 0
        local r = mare.go(function()
            debug.sethook(function() lines = lines + 1 end, "l")
            local n = 0
            for _ = 1, 5 do
                n = n + 1
                mare.yield()
            end
            debug.sethook()
            return debug.gethook() == nil
        end)
        for _ = 1, 50 do mare.yield() end
        t.eq({r:join(t.patience)}, {true, true})
        t.ok(lines >= 10 and lines < 40, lines)
        t.eq(debug.gethook(), nil)
    end,

    -- What is on its way.

    a_buffer_that_waits_to_be_sent_is_not_used = function()
        local ch, b, other = mare.channel(), mare.buffer "first", mare.buffer "other"
        local r = mare.go(function() return ch:send(b) end)
        settle()
        t.eq({b:moved(), #b}, {true, 0})
        t.raises("was sent to another process", b.get, b)
        t.raises("was sent to another process", b.set, b, 1, "x")
        t.raises("a buffer that was sent before cannot travel", ch.trysend, ch, b)
        t.raises("a buffer that was sent before", mare.select, {{ch, other, b}}, 0.001)
        t.eq(other:get(), "other")
        r:cancel()
        t.eq({select(4, r:join(t.patience))}, {"cancelled"})
        t.eq({b:moved(), b:get()}, {false, "first"})
        -- The same in a select; and then it is sent.
        r = mare.go(function() return mare.select({{ch, b}, {ch, b, other}}) end)
        settle()
        t.eq({b:moved(), other:moved()}, {true, true})
        r:cancel()
        t.eq({select(4, r:join(t.patience))}, {"cancelled"})
        t.eq({b:moved(), other:moved()}, {false, false})
        r = mare.go(function() return ch:send(b) end)
        settle()
        local arrived = ch:receive()
        t.eq(arrived:get(), "first")
        t.ok(r:join(t.patience))
        t.eq({b:moved(), other:get()}, {true, "other"})
    end,

    a_buffer_that_only_the_message_has_is_collected_meanwhile = function()
        package.preload.parcel = function() return {arrive = function(list) return list[1] end} end
        local parcel = setmetatable({}, {__travel = function()
            return "parcel", {mare.buffer "in the parcel"}
        end})
        local ch, never = mare.channel(), mare.channel()
        local refused = mare.go(function() -- what was refused is nobody's, and goes
            t.raises("a file cannot travel", function() ch:send(mare.buffer(1), io.stdout) end)
            never:receive()
        end)
        local r = mare.go(function() return ch:send(parcel, mare.buffer(1)) end)
        settle()
        collectgarbage()
        collectgarbage()
        for _ = 1, 100 do mare.buffer(100) end
        t.eq(ch:receive():get(), "in the parcel")
        collectgarbage()
        t.eq({r:join(t.patience)}, {true, true})
        never:close()
        t.eq({refused:join(t.patience)}, {true})
    end,

    messages_do_not_mix = function()
        local a, b = mare.channel(), mare.channel()
        local list = {}
        for i = 1, 20 do
            list[i] = mare.go(function()
                for n = 1, 20 do
                    if i % 2 == 0 then
                        a:send({i, n}, ("x"):rep(n * 10))
                    else
                        mare.select({{b, i, n}, {a, {i, n}, ("x"):rep(n * 10)}})
                    end
                end
            end)
        end
        local seen, count = {}, 0
        while count < 400 do
            local which, one, two = mare.select({a, b}, t.patience)
            t.ok(which)
            local i, n = one, two
            if which == 1 then
                i, n = one[1], one[2]
                t.eq(#two, n * 10)
            end
            t.eq((seen[i] or 0) + 1, n, "in order")
            seen[i] = n
            count = count + 1
        end
        for i = 1, 20 do t.ok(list[i]:join(t.patience)) end
    end,

    -- Memory.

    the_limit_hits_the_one_that_exceeds_it = function()
        local p = mare.spawn({memory = 400000}, function()
            local greedy = mare.go(function()
                local list = {}
                for i = 1, 1e9 do list[i] = i end
                return list
            end)
            local other = mare.go(function() mare.sleep(0.001) return "well" end)
            local ok, err, code = greedy:join()
            return ok, err, code, other:join()
        end)
        local all = {p:join(t.patience)}
        t.eq(all, {true, nil, "not enough memory", "died", true, "well"})
    end,

    the_limit_hits_mare_go = function()
        local p = mare.spawn({memory = 300000}, function()
            local stop, n = mare.channel(), 0
            local ok, err
            local list = {reserve = ("x"):rep(100000)} -- for what comes after
            local function start() -- made here: outside of pcall nothing may be allocated
                list[n + 1] = mare.go(function() stop:receive() end)
                n = n + 1
            end
            repeat ok, err = pcall(start) until not ok
            list.reserve = nil
            collectgarbage()
            stop:close()
            for i = 1, n do list[i]:join() end
            return err, n > 10, mare.go(function() return "again" end):join()
        end)
        t.eq({p:join(t.patience)}, {true, "not enough memory", true, true, "again"})
    end,

    a_recycled_state_knows_nothing_of_them = function()
        local before = mare.recycle()
        mare.recycle(4)
        local function body(how)
            local never = mare.channel()
            for i = 1, 5 do
                mare.go(function()
                    if i == 3 then mare.sleep(3600) end
                    coroutine.wrap(function() never:receive() end)()
                end)
            end
            mare.yield()
            if how == "error" then error "on purpose" end
            if how == "kill" then mare.self():kill() end
            never:close()
            error "on purpose, too"
        end
        local function plain()
            local co = coroutine.running()
            return coroutine.status(co), mare.go(function() return 1 end):join()
        end
        for i = 1, 60 do
            mare.spawn(body, ({"error", "kill"})[i % 3]):join(t.patience)
            t.eq({mare.spawn(plain):join(t.patience)}, {true, "running", true, 1})
        end
        mare.recycle(before)
    end,
}
