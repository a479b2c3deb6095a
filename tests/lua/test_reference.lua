-- SPDX-License-Identifier: MIT
-- References to processes, and join: what is known of a process from outside.
local mare, t = require "mare", require "t"

local function parked()
    local stay = mare.channel()
    local p = mare.spawn(function() return stay:receive() end)
    t.reaches(function() return p:status() == "blocked" end)
    return p, stay
end

return {
    two_references_to_one_process_are_equal = function()
        local mine = mare.self()
        t.ok(mine == mare.self())
        local p = mare.spawn(function() return mare.self() end)
        local ok, q = p:join(t.patience)
        t.ok(ok)
        t.ok(p == q)
        t.ok(p ~= mine)
    end,

    a_finalizer_makes_none_when_the_state_is_closed = function()
        local said = mare.channel(10)
        t.ok(mare.spawn(function()
            _G.kept = setmetatable({}, {__gc = function()
                for _, make in ipairs {mare.channel, mare.self, function() mare.spawn "" end} do
                    said:trysend(select(2, pcall(make)))
                end
            end})
        end):join(t.patience))
        for _ = 1, 3 do
            local message = said:tryreceive()
            t.ok(message:find "the process has ended$", message)
        end
    end,

    references_are_table_keys = function()
        local p, stay = parked()
        local ch = mare.channel(1)
        ch:send(p)
        local set = {[p] = "here"}
        collectgarbage()
        t.eq(set[ch:receive()], "here")
        stay:send()
        p:join(t.patience)
        t.eq(set[p], "here", "also after its end")
    end,

    -- The first few are found in another way than those that come after them.
    channels_that_come_again_are_the_same = function()
        local channels, road = {}, mare.channel()
        for i = 1, 8 do
            channels[i] = mare.channel()
        end
        local p = mare.spawn(function(road, one, two) -- luacheck: ignore 431
            local seen, same = {[road] = true, [one] = true, [two] = true}, 0
            for _ = 1, 8 do
                seen[road:receive()] = true
            end
            collectgarbage()
            for ch, again in function() return road:receive() end do
                assert(ch == again)
                same = same + (seen[ch] and 1 or 0)
            end
            local count = 0
            for _ in pairs(seen) do
                count = count + 1
            end
            return same, count
        end, road, channels[1], channels[2])
        for i = 1, 8 do
            road:send(channels[i])
        end
        for i = 1, 8 do
            road:send(channels[i], channels[i])
        end
        road:send(nil)
        t.eq({p:join(t.patience)}, {true, 8, 9})
    end,

    -- Tables of methods share a metatable with the globals, until these are an ordinary table.
    methods_are_found_before_and_after_the_globals_become_ordinary = function()
        for _, code in ipairs {
            "local ch = ...; ch:trysend(1)",
            "local ch = ...; pairs(_G); ch:trysend(1)",
            "local ch = ...; ch:capacity(); pairs(_G); ch:trysend(1)",
            "local ch = ...; ch:capacity(); local debug = debug; ch:trysend(1)",
            "local ch = ...; print = nil; ch.trysend(ch, 1); assert(print == nil)",
        } do
            local ch = mare.channel(2)
            t.eq({mare.spawn(code .. "; return ch.nosuch, ch.print, ch[1], ch[ch]", ch)
                :join(t.patience)}, {true, nil, nil, nil, nil})
            t.eq(ch:tryreceive(), 1)
        end
    end,

    references_print_their_id_and_name = function()
        local p, stay = parked()
        t.eq(tostring(p), "process " .. p:id())
        t.eq(math.type(p:id()), "integer")
        t.eq(p:name(), nil)
        local q = mare.spawn({name = "ref.printed"}, function() end)
        t.ok(tostring(q):find("ref.printed", 1, true))
        stay:send()
    end,

    a_reference_works_wherever_it_was_sent = function()
        local p, stay = parked()
        local ok, alive, id = mare.spawn(function(q)
            local alive = q:alive()
            q:kill "from afar"
            return alive, q:id()
        end, p):join(t.patience)
        t.eq({ok, alive, id}, {true, true, p:id()})
        t.eq({p:join(t.patience)}, {nil, "from afar", "killed"})
        stay:close()
    end,

    ids_are_unique = function()
        local seen = {}
        for _ = 1, 200 do
            local p = mare.spawn(function() end)
            t.ok(not seen[p:id()])
            seen[p:id()] = true
        end
    end,

    status_follows_a_life = function()
        t.eq(mare.self():status(), "running")
        local p, stay = parked()
        t.eq(p:status(), "blocked")
        t.ok(p:alive())
        stay:send()
        p:join(t.patience)
        t.eq(p:status(), "finished")
        t.eq(p:alive(), false)
    end,

    status_of_one_that_has_not_begun = function()
        t.with_workers(1, function()
            local status
            for _ = 1, 100 do -- unless this slice ends just then
                local p = mare.spawn(function() end)
                status = p:status()
                if status == "ready" or status == "idle" then return end
            end
            error(status)
        end)
    end,

    methods_refuse_what_is_no_process = function()
        local p = mare.self()
        t.raises("#1.*process expected", p.join, 42)
        t.raises("#1.*process expected", p.alive, mare.channel())
        t.raises("#1.*process expected", p.kill)
        t.raises("field 'nosuch'", function() return p.nosuch.field end)
    end,

    the_live_processes_can_be_listed = function()
        local p = mare.spawn({name = "ref.listed"}, function() mare.channel():receive() end)
        t.reaches(function() return p:status() == "blocked" end)
        local mine, its
        for _, row in ipairs(mare.processes()) do
            if row.id == p:id() then its = row end
            if row.id == mare.self():id() then mine = row end
        end
        t.eq(its.name, "ref.listed")
        t.eq(its.status, "blocked")
        t.ok(its.memory > 1000)
        t.ok(its.slices >= 1)
        t.eq(mine.status, "running")
        p:kill()
        p:join(t.patience)
        for _, row in ipairs(mare.processes()) do t.ok(row.id ~= p:id()) end
    end,

    channels_are_listed = function()
        local ch <close> = mare.channel(3, "ref.channel")
        local function row()
            for _, one in ipairs(mare.channels()) do
                if one.name == "ref.channel" then return one end
            end
        end
        for i = 1, 3 do ch:send(i) end
        local p = mare.spawn(function() ch:send(4) end)
        t.reaches(function() return row().senders == 1 end)
        local got = row()
        t.eq(tostring(ch):match "%d+", tostring(got.id))
        got.id = nil
        t.eq(got, {name = "ref.channel", capacity = 3, buffered = 3, senders = 1, receivers = 0,
                   sent = 3, closed = false})
        for _ = 1, 4 do ch:receive() end
        t.ok(p:join(t.patience))
        got = row()
        t.eq({got.buffered, got.senders, got.sent}, {0, 0, 4})
        ch:close()
        t.eq(row().closed, true)
    end,

    -- Join.

    join_gives_the_results = function()
        local p = mare.spawn(function() return 1, "two", {3} end)
        t.eq({p:join(t.patience)}, {true, 1, "two", {3}})
    end,

    join_of_no_results_gives_true_alone = function()
        t.eq(select("#", mare.spawn(function() end):join(t.patience)), 1)
    end,

    nil_results_keep_their_places = function()
        local p = mare.spawn(function() return nil, 2, nil end)
        t.eq(select("#", p:join(t.patience)), 4)
        t.eq({p:join()}, {true, nil, 2})
    end,

    join_again_gives_the_same_again = function()
        local p = mare.spawn(function() return {1} end)
        local _, first = p:join(t.patience)
        local _, second = p:join()
        t.eq(first, second)
        t.ok(first ~= second, "each gets a copy")
    end,

    join_waits_until_its_deadline = function()
        local p, stay = parked()
        t.fails("timeout", p:join(0))
        t.fails("timeout", p:join(0.001))
        t.fails("timeout", p:join(mare.deadline(0.001)))
        t.fails("timeout", p:join(-5))
        stay:send(9)
        t.eq({p:join(t.patience)}, {true, 9})
        t.eq({p:join(0)}, {true, 9}, "a timeout of 0 is enough for one that has finished")
    end,

    join_refuses_a_bad_timeout = function()
        local p, stay = parked()
        t.raises("#1 to 'join'.*expected, got string", function() p:join "soon" end)
        t.raises("NaN", function() p:join(0 / 0) end)
        t.raises("#1 to 'join'", function() p:join {} end)
        stay:send()
    end,

    an_error_comes_with_its_traceback = function()
        local p = mare.spawn("local function inner() error 'oops' end\ninner()")
        local ok, err, code, traceback = p:join(t.patience)
        t.eq({ok, code}, {nil, "died"})
        t.ok(err:find ":1: oops$", err)
        t.ok(traceback:find "^stack traceback:\n", traceback)
        t.ok(traceback:find "in .*'inner'", traceback)
    end,

    the_traceback_of_an_error_in_a_coroutine_shows_where_wrap_was_called = function()
        local p = mare.spawn("local f = coroutine.wrap(function() error 'inside' end)\n\nf()")
        local _, err, code, traceback = p:join(t.patience)
        t.eq(code, "died")
        t.ok(err:find "inside", err)
        t.ok(traceback:find ":3:", traceback)
    end,

    a_table_as_error_arrives_as_a_table = function()
        local ok, err, code = mare.spawn(error, {code = 7, list = {1, 2}}):join(t.patience)
        t.eq({ok, code}, {nil, "died"})
        t.eq(err, {code = 7, list = {1, 2}})
    end,

    nil_false_and_numbers_are_errors_too = function()
        local function how(value)
            return {mare.spawn(function() error(value) end):join(t.patience)}
        end
        local got = how(nil)
        t.eq({got[1], got[2], got[3]}, {nil, nil, "died"})
        t.eq(how(false)[2], false)
        t.eq(how(42)[2], 42)
        t.eq(math.type(how(42)[2]), "integer")
    end,

    an_error_that_cannot_travel_arrives_as_text = function()
        local ok, err, code = mare.spawn(function() error(io.stdout) end):join(t.patience)
        t.eq({ok, code}, {nil, "died"})
        t.ok(err:find "^file %(0x", err)
        ok, err = mare.spawn(function()
            error(setmetatable({}, {__tostring = function() return "as text" end}))
        end):join(t.patience)
        t.eq({ok, err}, {nil, "as text"})
        ok, err, code = mare.spawn(function()
            error(setmetatable({}, {__tostring = function() error "worse" end}))
        end):join(t.patience)
        t.eq({ok, type(err), code}, {nil, "string", "died"}, "not even as text")
    end,

    a_result_that_cannot_travel_is_told_apart_from_an_error = function()
        local ok, err, code = mare.spawn(function() return 1, {f = io.stdout} end):join(t.patience)
        t.eq({ok, code}, {nil, "badmsg"})
        t.eq(err, "result 2, field 'f': a file cannot travel")
    end,

    a_killed_process_says_so = function()
        local p, stay = parked()
        t.ok(p:kill())
        t.fails("killed", p:join(t.patience))
        t.eq({p:kill(), p:alive()}, {false, false})
        stay:close()
    end,

    many_join_one = function()
        local p, stay = parked()
        local joiners = {}
        for i = 1, 50 do
            joiners[i] = mare.spawn(function() return select(2, p:join()) end)
        end
        for _, joiner in ipairs(joiners) do
            t.reaches(function() return joiner:status() == "blocked" end)
        end
        stay:send("for all")
        for _, joiner in ipairs(joiners) do
            t.eq({joiner:join(t.patience)}, {true, "for all"})
        end
    end,

    a_joiner_that_gave_up_is_forgotten = function()
        local p, stay = parked()
        for _ = 1, 20 do
            t.fails("timeout", p:join(0.0001))
        end
        local joiner = mare.spawn(function() p:join() end)
        t.reaches(function() return joiner:status() == "blocked" end)
        joiner:kill()
        t.fails("killed", joiner:join(t.patience))
        stay:send(1)
        t.eq({p:join(t.patience)}, {true, 1})
    end,

    a_process_cannot_join_itself = function()
        t.raises("itself", function() mare.self():join() end)
    end,

    two_that_join_each_other_time_out = function()
        local a, b = mare.channel(1), mare.channel(1)
        local function body(ch) return select(3, ch:receive():join(0.01)) end
        local p, q = mare.spawn(body, a), mare.spawn(body, b)
        a:send(q)
        b:send(p)
        local _, first = p:join(t.patience)
        local _, second = q:join(t.patience)
        t.ok(first == "timeout" or second == "timeout")
    end,

    buffers_among_the_results_belong_to_one_joiner_each = function()
        local p = mare.spawn(function() return mare.buffer "abc" end)
        local _, first = p:join(t.patience)
        local _, second = p:join(t.patience)
        first:set(1, "X")
        -- In one process the same buffer is the same value; in another it is empty.
        t.ok(rawequal(first, second))
        local _, elsewhere = mare.spawn(function()
            local _, third = p:join()
            return third:moved()
        end):join(t.patience)
        t.eq(elsewhere, true)
    end,

    -- mare.wait.

    wait_gives_up_at_its_deadline = function()
        local p, stay = parked()
        t.fails("timeout", mare.wait(0.001))
        t.fails("timeout", mare.wait(0))
        stay:send()
        p:join(t.patience)
    end,
}
