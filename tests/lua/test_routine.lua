-- SPDX-License-Identifier: MIT
-- mare.go: several routines in one process, each of which waits by itself.
local mare, t, shell = require "mare", require "t", require "shell"

-- Fewer where each allocation starts the collector, which looks at them all.
local MANY = t.gc_stress and 300 or 10000

-- A value to close that adds a word to a list.
local function closing(list, word)
    return setmetatable({}, {__close = function() list[#list + 1] = word end})
end

-- Every way to wait, none of which ends by itself.
local waits = {
    receive = function() return mare.channel():receive() end,
    receive_within = function() return mare.channel():receive(3600) end,
    send = function() return mare.channel():send(1) end,
    send_large = function() return mare.channel():send(("x"):rep(5000), {1, 2, 3}) end,
    send_buffer = function() return mare.channel():send(mare.buffer(10)) end,
    send_within = function() return mare.channel():sendwithin(3600, 1) end,
    send_to_full = function()
        local ch = mare.channel(1)
        ch:send(1)
        return ch:send(2)
    end,
    messages = function() return mare.channel():messages()(mare.channel()) end,
    select = function()
        local a, b = mare.channel(), mare.channel()
        return mare.select {a, {b, "value", mare.buffer(1)}, a, b}
    end,
    select_within = function() return mare.select({mare.channel()}, 3600) end,
    select_nothing = function() return mare.select({}, 3600) end,
    select_process = function()
        local p = mare.spawn(function() mare.channel():receive(3600) end)
        local _kill <close> = setmetatable({}, {__close = function() p:kill() end})
        return mare.select {p}
    end,
    sleep = function() return mare.sleep(3600) end,
    sleep_for_ever = function() return mare.sleep(math.huge) end,
    join_process = function()
        local p = mare.spawn(function() mare.channel():receive(3600) end)
        local _kill <close> = setmetatable({}, {__close = function() p:kill() end})
        return p:join()
    end,
    join_process_within = function()
        local p = mare.spawn(function() mare.channel():receive(3600) end)
        local _kill <close> = setmetatable({}, {__close = function() p:kill() end})
        return p:join(3600)
    end,
    join_routine = function()
        local stop = mare.channel()
        local r = mare.go(function() stop:receive() end)
        local _stop <close> = stop
        return r:join()
    end,
    join_routine_within = function()
        local stop = mare.channel()
        local r = mare.go(function() stop:receive() end)
        local _stop <close> = stop
        return r:join(3600)
    end,
    wait_for_others = function()
        local p = mare.spawn(function() mare.channel():receive(3600) end)
        local _kill <close> = setmetatable({}, {__close = function() p:kill() end})
        return mare.wait()
    end,
    in_a_coroutine = function()
        return coroutine.wrap(function()
            return coroutine.wrap(function() return mare.channel():receive() end)()
        end)()
    end,
    in_pcall = function() return select(2, pcall(mare.sleep, 3600)) end,
}

-- Gives every other routine its turns: who had little to do has waited or ended.
local function settle(n)
    for _ = 1, n or 10 do mare.yield() end
end

-- Spawns a process that runs the body in a routine, beside a main one that runs `main` (or ends),
-- kills it when it is blocked, and returns what it said after "here".
local function killed(body, main)
    local log = mare.channel(100)
    local p = mare.spawn(function()
        mare.go(function()
            local _guard <close> = setmetatable({}, {__close = function() log:trysend "closed" end})
            log:send "here"
            body(log)
            log:send "not reached"
        end)
        if main then main(log) end
    end)
    t.eq(log:receive(t.patience), "here")
    t.reaches(function() return p:status() == "blocked" end)
    t.eq(p:kill "on purpose", true)
    t.eq({p:join(t.patience)}, {nil, "on purpose", "killed"})
    local said = {}
    log:close()
    for word in log:messages() do said[#said + 1] = word end
    return said
end

-- Runs a program, which must end with the code, and returns what it printed.
local function program(text, code)
    if not shell.mare then t.skip "needs the command line" end
    local result = shell.lua("local mare = require 'mare'\n" .. text)
    t.eq(result.code, code or 0, result.err)
    return result
end

return {
    -- What a routine is.

    it_runs_beside_its_maker_and_shares_its_variables = function()
        local shared = {}
        local r = mare.go(function(given, ...)
            t.ok(rawequal(given, shared), "no copy")
            t.eq({...}, {1, nil, "x"})
            shared.seen = true
        end, shared, 1, nil, "x")
        t.eq({r:join(t.patience)}, {true})
        t.ok(shared.seen)
    end,

    a_wait_holds_back_only_the_one_that_waits = function()
        local ch, seen, list = mare.channel(), {}, {}
        for i = 1, 3 do
            list[i] = mare.go(function()
                for n in ch:messages() do seen[n] = i end
            end)
        end
        for n = 1, 6 do t.ok(ch:sendwithin(t.patience, n)) end
        ch:close()
        for i = 1, 3 do t.ok(list[i]:join(t.patience)) end
        t.eq(#seen, 6)
    end,

    they_make_others = function()
        local function tree(depth)
            if depth == 0 then return 1 end
            local a, b = mare.go(tree, depth - 1), mare.go(tree, depth - 1)
            local _, x = a:join()
            local _, y = b:join()
            return x + y
        end
        t.eq({mare.go(tree, 8):join(t.patience)}, {true, 256})
    end,

    one_is_made_inside_a_coroutine_or_a_finalizer = function()
        local got = {}
        coroutine.wrap(function()
            mare.go(function() got.coroutine = true end)
        end)()
        setmetatable({}, {__gc = function()
            mare.go(function() got.finalizer = true end)
        end})
        collectgarbage()
        settle()
        t.eq(got, {coroutine = true, finalizer = true})
    end,

    identity_and_text = function()
        local a, b = mare.go(type, nil), mare.go(function() end)
        t.eq(math.type(a:id()), "integer")
        t.ok(a:id() ~= b:id())
        t.eq(tostring(a), "routine " .. a:id())
        t.ok(a ~= b)
        t.eq(getmetatable(a), "routine")
        a:join()
        b:join()
    end,

    misuse = function()
        t.raises("bad argument #1 to '.*go' %(function expected, got no value%)", mare.go)
        t.raises("bad argument #1 to '.*go' %(function expected, got string%)", mare.go, "return 1")
        local r = mare.go(function() return 1 end)
        t.raises("routine expected, got channel", r.join, mare.channel())
        t.raises("routine expected, got no value", r.cancel)
        t.raises("number of seconds or deadline expected, got boolean", r.join, r, true)
        t.raises("NaN", r.join, r, 0 / 0)
        t.raises("a userdata cannot travel", mare.channel(1).send, mare.channel(1), r)
        t.raises("case 1: expected a channel", mare.select, {r.join}, 0)
        t.eq({r:join(t.patience)}, {true, 1})
        t.raises("function expected, got table", mare.go, setmetatable({}, {__call = print}))
    end,

    -- Their end, and the end of the process.

    join_gives_what_it_returned_as_often_as_asked = function()
        local result = {}
        local r = mare.go(function() mare.yield() return result, nil, 2, nil end)
        t.eq(r:status(), "alive")
        for _ = 1, 3 do
            local all = table.pack(r:join(t.patience))
            t.eq(all.n, 5)
            t.ok(all[1] == true and rawequal(all[2], result) and all[4] == 2)
            t.eq(r:status(), "done")
        end
        t.eq(table.pack(mare.go(function() end):join(t.patience)), {true, n = 1})
    end,

    join_gives_many_results = function()
        local r = mare.go(function() return table.unpack({}, 1, 50000) end)
        t.eq(select("#", r:join(t.patience)), 50001)
        t.eq(select("#", r:join(t.patience)), 50001)
    end,

    several_join_the_same = function()
        local r = mare.go(function() mare.sleep(0.001) return "x" end)
        local list = {}
        for i = 1, 5 do list[i] = mare.go(function() return r:join(t.patience) end) end
        for i = 1, 5 do t.eq({list[i]:join(t.patience)}, {true, true, "x"}) end
    end,

    join_has_a_timeout = function()
        local stop = mare.channel()
        local r = mare.go(function() return stop:receive() end)
        t.fails("timeout", r:join(0))
        t.fails("timeout", r:join(0.001))
        t.fails("timeout", r:join(mare.deadline(0.001)))
        stop:send "now"
        t.eq({r:join(t.patience)}, {true, "now"})
        t.eq({r:join(0)}, {true, "now"})
    end,

    one_cannot_join_itself = function()
        local r
        r = mare.go(function() return pcall(r.join, r) end)
        local _, ok, message = r:join(t.patience)
        t.eq(ok, false)
        t.ok(message:find "a routine cannot join itself", message)
    end,

    join_is_refused_where_nobody_can_wait = function()
        local r = mare.go(function() mare.yield() end)
        t.raises("cannot wait here", table.sort, {1, 2}, function() r:join() end)
        t.ok(r:join(t.patience))
        table.sort({1, 2}, function() t.ok(r:join()) return false end) -- no wait
    end,

    one_that_fails_leaves_the_others_alone = function()
        local closed = {}
        local r = mare.go(function()
            local _a <close> = closing(closed, "a")
            local _b <close> = closing(closed, "b")
            mare.yield()
            error "on purpose"
        end)
        local other = mare.go(function() mare.sleep(0.001) return "well" end)
        local ok, err, code, traceback = r:join(t.patience)
        t.eq({ok, code}, {nil, "died"})
        t.ok(err:find "test_routine.lua:%d+: on purpose$", err)
        t.ok(traceback:find "^stack traceback:\n.*in function 'error'.*test_routine.lua", traceback)
        t.eq(closed, {"b", "a"})
        t.eq(r:status(), "died")
        t.eq({other:join(t.patience)}, {true, "well"})
        local again = {r:join()}
        t.eq(again, {nil, err, "died", traceback})
    end,

    any_value_is_an_error = function()
        local object = setmetatable({}, {__tostring = function() return "object" end})
        for _, value in ipairs {object, 42, false} do
            local _, err, code = mare.go(error, value):join(t.patience)
            t.ok(rawequal(err, value))
            t.eq(code, "died")
        end
        local _, err, code = mare.go(error):join(t.patience)
        t.eq({err, code}, {nil, "died"})
    end,

    an_error_in_a_close_handler_takes_the_place_of_the_first = function()
        local r = mare.go(function()
            local _x <close> = setmetatable({}, {__close = function(_, err)
                error("second after " .. err, 0)
            end})
            error("first", 0)
        end)
        local _, err, code = r:join(t.patience)
        t.eq({err, code}, {"second after first", "died"})
    end,

    a_stack_overflow_is_an_error = function()
        local function deep() return 1 + deep() end
        local _, err, code = mare.go(deep):join(t.patience)
        t.eq(code, "died")
        t.ok(err:find "stack overflow", err)
    end,

    the_process_ends_with_its_last_routine = function()
        local go_on = mare.channel()
        local p = mare.spawn(function()
            mare.go(function()
                mare.go(function() go_on:receive() end)
                go_on:receive()
            end)
            return "main", {1}
        end)
        for _ = 1, 2 do
            t.reaches(function() return p:status() == "blocked" end)
            t.fails("timeout", p:join(0.001))
            t.eq(p:alive(), true)
            t.ok(go_on:sendwithin(t.patience))
        end
        t.eq({p:join(t.patience)}, {true, "main", {1}})
    end,

    results_of_the_main_script_are_kept_meanwhile = function()
        local p = mare.spawn(function()
            mare.go(function()
                for _ = 1, 20 do
                    local junk = {}
                    for i = 1, 1000 do junk[i] = {i} end
                    assert(#junk == 1000)
                    collectgarbage()
                    mare.yield()
                end
            end)
            return {"kept"}, ("x"):rep(1000), function() return "called" end
        end)
        local ok, list, text, f = p:join(t.patience)
        t.eq({ok, list, #text, f()}, {true, {"kept"}, 1000, "called"})
    end,

    an_error_of_the_main_script_ends_them_all = function()
        local log = mare.channel(10)
        local p = mare.spawn(function()
            local inside = {}
            local function guarded(word)
                local _ <close> = setmetatable({}, {__close = function() log:trysend(word) end})
                coroutine.wrap(function()
                    local _ <close> = setmetatable({}, {__close = function()
                        log:trysend(word .. " inside")
                    end})
                    inside[word] = true
                    mare.channel():receive()
                end)()
            end
            mare.go(guarded, "first")
            mare.go(guarded, "second")
            mare.go(function() while true do mare.yield() end end)
            mare.go(guarded, "never ran")
            local _ <close> = setmetatable({}, {__close = function() log:trysend "main" end})
            repeat mare.yield() until inside.first and inside.second
            mare.go(guarded, "never ran")
            error("on purpose", 0)
        end)
        local ok, err, code = p:join(t.patience)
        t.eq({ok, err, code}, {nil, "on purpose", "died"})
        local said = {}
        log:close()
        for word in log:messages() do said[#said + 1] = word end
        -- The youngest first, the main script last.
        t.eq({said[#said], said[#said - 1], said[#said - 2]}, {"main", "first", "first inside"})
        t.eq({said[#said - 3], said[#said - 4]}, {"second", "second inside"})
    end,

    none_begins_when_the_process_ends = function()
        local log = mare.channel(10)
        local p = mare.spawn(function()
            local _ <close> = setmetatable({}, {__close = function()
                log:send(pcall(mare.go, print))
            end})
            error "the end"
        end)
        p:join(t.patience)
        t.eq({log:receive(0)}, {false, "cannot start a routine: the process is ending"})
        -- In the finalizers that run after everything else it is not worth an error.
        local q = mare.spawn(function()
            _G.kept = setmetatable({}, {__gc = function() mare.go(print, "never") end})
        end)
        t.ok(q:join(t.patience))
    end,

    a_select_that_fails_in_a_close_handler_leaves_nothing = function() -- AddressSanitizer looks
        mare.spawn(function()
            local function body()
                local _ <close> = setmetatable({}, {__close = function()
                    pcall(mare.select, {mare.channel(), 5}, 0)
                end})
                mare.channel():receive()
            end
            for _ = 1, 3 do mare.go(body) end
            mare.go(function() mare.self():kill() end)
            body()
        end):join(t.patience)
    end,

    others_link_and_monitor_as_ever = function()
        local stop = mare.channel()
        local _, news = mare.spawn({monitor = true}, function()
            mare.go(function() stop:receive() end)
        end)
        t.fails("timeout", news:receive(0.001))
        stop:send()
        t.eq({select(2, news:receive(t.patience))}, {"normal"})
        -- A routine dies: nobody is linked to that.
        local q, more = mare.spawn({monitor = true, link = true}, function()
            return mare.go(error, "on purpose"):join()
        end)
        t.eq({select(2, more:receive(t.patience))}, {"normal"})
        t.eq({select(3, q:join())}, {"on purpose", "died", (select(5, q:join()))})
        -- A routine that is linked to one that dies takes its process along.
        local victim = mare.spawn(function()
            mare.go(function()
                mare.spawn(function() error "on purpose" end):link()
                mare.channel():receive()
            end)
            mare.channel():receive()
        end)
        t.fails("killed", victim:join(t.patience))
    end,

    -- Cancelling.

    cancel_in_each_wait = function()
        local count = 0
        for name, wait in pairs(waits) do
            local r = mare.go(wait)
            settle()
            t.eq({name, r:status()}, {name, "alive"})
            t.eq(r:cancel(), true)
            local all = table.pack(r:join(t.patience))
            t.eq({name, all[1], all[2], all[3], all[4]},
                {name, true, nil, "the operation was cancelled", "cancelled"})
            t.eq(r:cancel(), false)
            count = count + 1
        end
        t.ok(count > 15)
    end,

    cancel_before_a_wait = function()
        for name, wait in pairs(waits) do
            local r = mare.go(wait)
            r:cancel() -- before it has run at all
            local all = table.pack(r:join(t.patience))
            t.eq({name, all[1], all[4]}, {name, true, "cancelled"})
        end
    end,

    cancel_ends_one_wait = function()
        local stop = mare.channel()
        local r = mare.go(function()
            local codes = {}
            for i = 1, 4 do codes[i] = select(3, mare.channel():receive(0.001)) end
            codes[5] = stop:receive()
            return codes
        end)
        r:cancel()
        r:cancel() -- before the first took effect: it is the same
        t.ok(stop:sendwithin(t.patience, "end"))
        t.eq({r:join(t.patience)}, {true, {"cancelled", "timeout", "timeout", "timeout", "end"}})
    end,

    cancel_twice_ends_this_wait_and_the_next = function()
        local r = mare.go(function()
            local codes = {}
            for i = 1, 3 do codes[i] = select(3, mare.channel():receive(0.001 + 10 * (3 - i))) end
            return codes
        end)
        settle()
        r:cancel() -- the wait has ended now, but it has not gone on
        r:cancel()
        t.eq({r:join(t.patience)}, {true, {"cancelled", "cancelled", "timeout"}})
    end,

    cancel_does_not_disturb_what_need_not_wait = function()
        local ch = mare.channel(5)
        local r = mare.go(function()
            t.ok(ch:send(1))
            t.ok(ch:trysend(2))
            t.eq(ch:receive(), 1)
            t.eq(ch:tryreceive(), 2)
            t.eq(mare.select({ch}, 0), nil)
            mare.yield()
            return select(3, ch:receive())
        end)
        r:cancel()
        t.eq({r:join(t.patience)}, {true, "cancelled"})
    end,

    one_cancels_itself = function()
        local r
        r = mare.go(function()
            r:cancel()
            return mare.sleep(3600)
        end)
        t.eq({select(4, r:join(t.patience))}, {"cancelled"})
    end,

    what_was_cancelled_holds_no_place_in_line = function()
        local ch = mare.channel()
        local a = mare.go(function() return ch:receive() end)
        local b = mare.go(function() return ch:send "lost" end)
        settle()
        t.eq({a:join(t.patience)}, {true, "lost"}) -- they met
        t.eq({b:join(t.patience)}, {true, true})
        local c = mare.go(function() return ch:receive() end)
        settle()
        c:cancel()
        t.fails("full", ch:trysend(1))
        c:join(t.patience)
        local d = mare.go(function() return ch:send "not sent" end)
        settle()
        d:cancel()
        t.fails("empty", ch:tryreceive())
        d:join(t.patience)
    end,

    -- Killing.

    kill_in_each_wait = function()
        for name, wait in pairs(waits) do
            t.eq({name, killed(wait)}, {name, {"closed"}})
            t.eq({name, killed(wait, wait)}, {name, {"closed"}})
        end
    end,

    kill_runs_every_handler_and_the_youngest_goes_first = function()
        local said = killed(function(log)
            coroutine.wrap(function()
                local _ <close> = setmetatable({}, {__close = function() log:trysend "inner" end})
                mare.channel():receive()
            end)()
        end, function(log)
            local _ <close> = setmetatable({}, {__close = function() log:trysend "main" end})
            mare.channel():receive()
        end)
        t.eq(said, {"inner", "closed", "main"})
    end,

    kill_while_they_compute = function()
        t.needs_preemption()
        for _, how in ipairs {"loop", "pcall", "sort", "coroutine", "hook"} do
            local log = mare.channel(10)
            local p = mare.spawn(function()
                local function endless() while true do end end
                local ways = {
                    loop = endless,
                    pcall = function() while true do pcall(endless) end end,
                    sort = function() table.sort({1, 2, 3}, endless) end,
                    coroutine = function() coroutine.wrap(endless)() end,
                    hook = function() debug.sethook(function() end, "", 1000) endless() end,
                }
                for _ = 1, 2 do
                    mare.go(function()
                        local _ <close> = setmetatable({}, {__close = function()
                            local n = 0
                            for i = 1, 1e6 do n = n + i end -- it has its time
                            log:trysend "closed"
                        end})
                        log:send "here"
                        ways[how]()
                    end)
                end
                mare.go(function() mare.channel():receive() end)
            end)
            t.eq(log:receive(t.patience), "here")
            p:kill() -- the second never begins
            t.fails("killed", p:join(t.patience))
            local said = {here = 1, closed = 0}
            log:close()
            for word in log:messages() do said[word] = said[word] + 1 end
            t.eq(said.closed, said.here, how)
        end
    end,

    kill_from_one_of_them = function()
        local log = mare.channel(10)
        local p = mare.spawn(function()
            mare.go(function()
                local _ <close> = setmetatable({}, {__close = function() log:send "closed" end})
                mare.channel():receive()
            end)
            mare.go(function()
                mare.self():kill "itself"
                log:send "not reached"
            end)
            return "not this"
        end)
        t.eq({p:join(t.patience)}, {nil, "itself", "killed"})
        t.eq(log:receive(0), "closed")
        t.fails("empty", log:tryreceive())
    end,

    kill_before_one_has_run = function()
        local log = mare.channel(10)
        local p = mare.spawn(function()
            string.gsub("x", "x", function() -- where no turn can end
                for _ = 1, 10 do mare.go(function() log:send "not reached" end) end
                mare.self():kill()
            end)
        end)
        t.fails("killed", p:join(t.patience))
        t.fails("empty", log:tryreceive())
    end,

    -- Whoever has claimed a routine's wait and the end of its process meet in every order.
    kill_while_others_wake_them = function()
        for round = 1, 200 do
            local ch, ready = mare.channel(), mare.channel(1)
            local p = mare.spawn(function()
                for i = 1, 8 do
                    mare.go(function()
                        if i % 3 == 0 then mare.sleep(0.001) end
                        if i % 3 == 1 then mare.select({ch, {ch, i}}, 0.001) end
                        while ch:receive() do end
                    end)
                end
                ready:send()
                ch:receive()
            end)
            local waker = mare.spawn(function() while ch:sendwithin(1, 1) do end end)
            ready:receive(t.patience)
            for _ = 1, round % 10 do mare.yield() end
            p:kill()
            t.fails("killed", p:join(t.patience))
            ch:close()
            t.ok(waker:join(t.patience))
        end
    end,

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

    -- Whole programs.

    an_error_that_nobody_asks_for_is_printed = function()
        local result = program [[
            mare.go(function() error("first", 0) end)
            mare.go(function() error({}) end)
            mare.go(function() error("joined too late", 0) end)
        ]]
        t.ok(result.err:find "mare: routine %d+ of process 1 died: first\nstack traceback:",
            result.err)
        t.ok(result.err:find "died: %(error object is a table value%)", result.err)
    end,

    an_error_is_printed_after_a_while_though_the_process_goes_on = function()
        local result = program [[
            local r = mare.go(function() mare.sleep(0.01) error("long ago", 0) end)
            r:join(0) -- too early: it knows nothing
            mare.sleep(1.5)
            io.stderr:write "and then\n"
            print(select(2, r:join()))
        ]]
        t.ok(result.err:find "died: long ago\n.*and then\n$", result.err)
        t.ok(result.out:find "^long ago\tdied\t", result.out)
    end,

    an_error_that_somebody_asks_for_is_not_printed = function()
        local result = program [[
            local r = mare.go(function() error("asked for", 0) end)
            local waits = mare.go(function() error("waited for", 0) end)
            waits:join()
            for _ = 1, 10 do mare.yield() end
            print(select(2, r:join()))
        ]]
        t.eq(result.err, "")
        t.ok(result.out:find "^asked for\tdied\t", result.out)
    end,

    exit_from_one_of_them = function()
        for _, call in ipairs {"mare.exit(3)", "os.exit(3)", "coroutine.wrap(mare.exit)(3)",
                               "table.sort({1, 2}, function() os.exit(3) end)"} do
            local result = program([[
                mare.go(function()
                    local _ <close> = setmetatable({}, {__close = function() print "closed" end})
                    mare.channel():receive()
                end)
                mare.go(function() mare.yield() ]] .. call .. [[ print "not reached" end)
                mare.sleep(3600)
            ]], 3)
            t.eq({result.out, result.err}, {"closed\n", ""})
        end
    end,

    a_deadlock_is_the_main_scripts_error = function()
        local result = program([[
            for _ = 1, 3 do mare.go(function() mare.channel():receive() end) end
            mare.channel():receive()
        ]], 1)
        t.ok(result.err:find "deadlock", result.err)
        t.ok(result.err:find "in method 'receive'", result.err)
    end,

    a_deadlock_after_the_end_of_the_main_script = function()
        local result = program([[
            mare.go(function()
                local _ <close> = setmetatable({}, {__close = function() print "closed" end})
                mare.channel():receive()
            end)
        ]], 1)
        t.eq(result.out, "closed\n")
        t.ok(result.err:find "deadlock" or result.err:find "wait", result.err)
    end,

    no_deadlock_while_one_can_move = function()
        local result = program [[
            local ch = mare.channel()
            mare.go(function() mare.sleep(0.05) ch:send "moved" end)
            print(ch:receive())
        ]]
        t.eq({result.out, result.err}, {"moved\n", ""})
    end,

    the_program_goes_on_until_the_last_has_ended = function()
        local result = program [[
            mare.go(function() mare.sleep(0.02) print "routine" end)
            print "main"
        ]]
        t.eq(result.out, "main\nroutine\n")
    end,

    an_error_of_the_main_script_is_the_programs = function()
        local result = program([[
            mare.go(function() mare.sleep(3600) end)
            error("on purpose", 0)
        ]], 1)
        t.ok(result.err:find "^mare: on purpose\n", result.err)
    end,

    the_stock_interpreter_has_none = function()
        if not shell.mare or not shell.has_stock() then t.skip "needs lua5.4 and mare.so" end
        local result = shell.stock [[
            local mare = require "mare"
            print(pcall(mare.go, print))
            print(mare.spawn(function() return mare.go(function() return 1 end):join() end):join())
        ]]
        t.eq(result.out, "false\troutines need a process of mare: run the program by 'mare', or " ..
            "call go in a process that it spawns\ntrue\ttrue\t1\n")
    end,
}
