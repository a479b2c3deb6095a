-- SPDX-License-Identifier: MIT
-- p:kill in every state a process can be in, and what still runs on the way out.
local mare, t = require "mare", require "t"

-- Spawns the body, waits until it has said that it is there and has reached the status, kills it.
-- Its `log` is what it sent after that. The body gets the channel to say so.
local function killed_when(status, body, ...)
    local log = mare.channel(100)
    local p = mare.spawn(body, log, ...)
    t.eq(log:receive(t.patience), "here")
    t.reaches(function() return p:status() == status end)
    t.eq(p:kill "on purpose", true)
    -- A handler that does not end is cut off after as many ticks as a second has: longer when busy.
    t.eq({p:join(2 * t.patience)}, {nil, "on purpose", "killed"})
    t.eq(p:alive(), false)
    local said = {}
    log:close()
    for word in log:messages() do said[#said + 1] = word end
    return said
end

-- The same. One that runs, and perhaps cannot give way, has a worker to itself.
local function killed(status, ...)
    if status ~= "running" then return killed_when(status, ...) end
    local arguments = table.pack(status, ...)
    return t.with_workers(2, function()
        return killed_when(table.unpack(arguments, 1, arguments.n))
    end)
end

return {
    -- Blocked, each way.

    while_it_receives = function()
        t.eq(killed("blocked", function(log)
            log:send "here"
            mare.channel():receive()
            log:send "not reached"
        end), {})
    end,

    while_it_sends = function()
        local ch = mare.channel()
        t.eq(killed("blocked", function(log, to)
            log:send "here"
            to:send "to nobody"
        end, ch), {})
        t.fails("empty", ch:tryreceive())
    end,

    while_it_sends_to_a_full_buffer = function()
        local ch = mare.channel(1)
        killed("blocked", function(log, to)
            to:send(1)
            log:send "here"
            to:send(2)
        end, ch)
        t.eq({ch:receive(0), (ch:tryreceive())}, {1})
    end,

    while_it_selects = function()
        local a, b = mare.channel(), mare.channel()
        killed("blocked", function(log, x, y)
            log:send "here"
            mare.select({x, {y, "value"}, x, y})
        end, a, b)
        t.fails("full", a:trysend(1))
        t.fails("empty", b:tryreceive())
    end,

    while_it_selects_on_nothing = function()
        killed("blocked", function(log)
            log:send "here"
            mare.select({}, 3600)
        end)
    end,

    while_it_sleeps = function()
        killed("blocked", function(log)
            log:send "here"
            mare.sleep(3600)
        end)
    end,

    while_it_waits_with_a_deadline = function()
        killed("blocked", function(log)
            log:send "here"
            mare.channel():receive(3600)
        end)
        killed("blocked", function(log)
            log:send "here"
            mare.channel():sendwithin(3600)
        end)
        killed("blocked", function(log)
            log:send "here"
            mare.select({mare.channel()}, 3600)
        end)
    end,

    while_it_joins = function()
        local stay = mare.channel()
        local q = mare.spawn(function() stay:receive() end)
        killed("blocked", function(log, other)
            log:send "here"
            other:join()
        end, q)
        t.ok(q:alive(), "whom it joined lives on")
        stay:send()
        t.ok(q:join(t.patience))
    end,

    while_it_iterates_over_messages = function()
        killed("blocked", function(log)
            log:send "here"
            for _ in mare.channel():messages() do end
        end)
    end,

    while_it_waits_for_all = function()
        killed("blocked", function(log)
            log:send "here"
            mare.wait()
        end)
    end,

    -- Running and ready.

    while_it_computes_without_end = function()
        t.needs_preemption()
        local log = mare.channel(1)
        local p = mare.spawn(function()
            log:send "here"
            while true do end
        end)
        log:receive(t.patience)
        p:kill()
        t.fails("killed", p:join(t.patience))
    end,

    while_it_computes_inside_pcall = function()
        t.needs_preemption()
        local log = mare.channel(10)
        local p = mare.spawn(function()
            log:send "here"
            pcall(function() while true do end end)
            log:send "pcall must not catch it"
        end)
        log:receive(t.patience)
        p:kill()
        t.fails("killed", p:join(t.patience))
        t.fails("empty", log:tryreceive())
    end,

    while_it_catches_everything_in_a_loop = function()
        local log = mare.channel(1)
        local p = mare.spawn(function()
            log:send "here"
            while true do
                pcall(function() mare.yield() end)
                xpcall(function() local n = 0 for i = 1, 100 do n = n + i end end, print)
            end
        end)
        log:receive(t.patience)
        p:kill()
        t.fails("killed", p:join(t.patience))
    end,

    while_it_computes_in_nested_coroutines = function()
        t.needs_preemption()
        local log = mare.channel(1)
        local p = mare.spawn(function()
            coroutine.wrap(function()
                coroutine.wrap(function()
                    log:send "here"
                    while true do end
                end)()
            end)()
        end)
        log:receive(t.patience)
        p:kill()
        t.fails("killed", p:join(t.patience))
    end,

    while_it_computes_under_its_own_hook = function()
        t.needs_preemption()
        local log = mare.channel(1)
        local p = mare.spawn(function()
            debug.sethook(function() end, "", 1000)
            log:send "here"
            while true do end
        end)
        log:receive(t.patience)
        p:kill()
        t.fails("killed", p:join(t.patience))
    end,

    -- Its next count is some 10,000 calls away, of milliseconds each.
    while_it_calls_c_under_a_hook_that_counts_far = function()
        t.needs_preemption()
        t.eq(killed("running", function(log)
            local long = ("i"):rep(1000000)
            debug.sethook(function() end, "", 1000000)
            log:send "here"
            while true do string.packsize(long) end
        end), {})
    end,

    while_it_computes_where_it_cannot_yield = function()
        t.needs_preemption()
        t.eq(killed("running", function(log)
            log:send "here"
            table.sort({1, 2, 3}, function() while true do end end)
        end), {})
    end,

    -- It has died, and a handler on its way out does not end.
    while_it_computes_in_a_close_handler = function()
        t.needs_preemption()
        t.eq(killed("running", function(log)
            local _close <close> = setmetatable({}, {__close = function()
                log:trysend "here"
                while true do end
            end})
            error "and then"
        end), {})
    end,

    -- The same where the handler is a coroutine's: closed by the kill, by the program, by an error.
    while_a_close_handler_of_a_coroutine_computes = function()
        t.needs_preemption()
        local ways = {
            function(co) coroutine.resume(co) mare.channel():receive() end,
            function(co) coroutine.resume(co) coroutine.close(co) end,
            function(_, endless) coroutine.wrap(function() endless(true) end)() end,
        }
        for number, way in ipairs(ways) do
            t.eq(killed(number == 1 and "blocked" or "running", function(log)
                local function endless(fails)
                    local _close <close> = setmetatable({}, {__close = function()
                        if number > 1 then log:trysend "here" end
                        while true do end
                    end})
                    if fails then error "and then" end
                    if number == 1 then log:send "here" mare.channel():receive() end
                    coroutine.yield()
                end
                way(coroutine.create(endless), endless)
            end), {})
        end
    end,

    -- Each handler has its own time: one that does not end takes it from no other.
    after_a_close_handler_was_cut_off_the_next_has_its_time = function()
        t.needs_preemption()
        t.eq(killed("blocked", function(log)
            local _after <close> = setmetatable({}, {__close = function()
                local start = mare.now()
                while mare.now() - start < 0.05 do end
                log:trysend "after"
            end})
            local _endless <close> = setmetatable({}, {__close = function() while true do end end})
            log:send "here"
            mare.channel():receive()
        end), {"after"})
    end,

    -- But not each of any number: after three that do not end, they are cut off as they begin,
    -- however they are nested.
    all_close_handlers_together_have_a_limited_time = function()
        t.needs_preemption()
        local counts = mare.channel(1)
        killed("blocked", function(log)
            local rounds = {}
            _G.kept = setmetatable({}, {__gc = function() counts:trysend(rounds) end})
            local function nest(depth)
                local _endless <close> = setmetatable({}, {__close = function()
                    local mine = #rounds + 1
                    while true do rounds[mine] = (rounds[mine] or 0) + 1 end
                end})
                if depth > 0 then coroutine.wrap(nest)(depth - 1) end
                log:send "here"
                mare.channel():receive()
            end
            nest(90)
        end)
        t.ok(#counts:receive(t.patience) <= 3)
    end,

    while_its_results_are_packed = function()
        t.needs_preemption()
        t.eq(killed("running", function(log)
            return setmetatable({}, {__travel = function()
                log:send "here"
                while true do end
            end})
        end), {})
    end,

    while_it_packs_a_message_it_will_wait_with = function()
        -- The tick that noticed the kill came inside a C function that ends in a wait: it must not
        -- cut off the handlers, which run next.
        local big = {}
        for i = 1, 5e5 do big[i] = i end
        for _ = 1, 3 do
            local log = mare.channel(1)
            local p = mare.spawn(function(said, values)
                local function close() said:send "closed" end
                local _guard <close> = setmetatable({}, {__close = close})
                said:send "here"
                mare.channel():send(values)
            end, log, big)
            t.eq(log:receive(t.patience), "here")
            p:kill()
            t.eq(log:receive(t.patience), "closed")
        end
    end,

    before_it_ran = function()
        -- With one worker, which is here, it cannot have begun, unless this slice ends just now.
        t.with_workers(1, function()
            for _ = 1, 100 do
                local ran = mare.channel(1)
                local p = mare.spawn(function() ran:send(true) end)
                if p:kill "too early" then
                    t.eq({p:join(t.patience)}, {nil, "too early", "killed"})
                    t.fails("empty", ran:tryreceive())
                    return
                end
            end
            error "always too late"
        end)
    end,

    -- With one worker, which is here, whoever was made ready or preempted has not gone on.

    while_it_is_ready_having_been_preempted = function()
        t.needs_preemption()
        t.with_workers(1, function()
            local log = mare.channel(10)
            local p = mare.spawn(function()
                local _guard <close> = setmetatable({}, {__close = function() log:trysend(1) end})
                log:send "here"
                while true do end
            end)
            t.eq(log:receive(t.patience), "here")
            t.eq(p:status(), "ready")
            p:kill()
            t.fails("killed", p:join(t.patience))
            t.eq(log:tryreceive(), 1)
        end)
    end,

    while_it_is_ready_having_waited = function()
        local woken_by = {
            receive = function(ch) ch:receive() end,
            select = function(ch) mare.select({ch, mare.channel()}) end,
            messages = function(ch)
                local next_one, state = ch:messages()
                next_one(state)
            end,
            coroutine = function(ch) coroutine.wrap(function() ch:receive() end)() end,
        }
        t.with_workers(1, function()
            for name, wait in pairs(woken_by) do
                local ch, log = mare.channel(), mare.channel(10)
                local p = mare.spawn(function()
                    wait(ch)
                    log:send "went on"
                end)
                t.reaches(function() return p:status() == "blocked" end)
                t.eq(ch:trysend "wake", true, name)
                if p:kill() and #log == 0 then -- unless this slice ended just now
                    t.fails("killed", p:join(t.patience))
                    t.eq(#log, 0, name)
                end
                t.fails("full", ch:trysend "again")
            end
        end)
    end,

    while_its_handlers_run = function()
        -- On its way out, well or by an error: a kill may end the one that runs, never the others.
        -- It cannot give way there, so it has a worker to itself.
        t.with_workers(2, function()
            for _, last in ipairs {"return 'result'", "error('own error', 0)"} do
                local log, go = mare.channel(10), mare.channel(1)
                local p = mare.spawn([[
                    local log, go = ...
                    kept = setmetatable({}, {__gc = function() log:trysend "gc" end})
                    local function outer() log:trysend "outer" end
                    local _ <close> = setmetatable({}, {__close = outer})
                    local _ <close> = setmetatable({}, {__close = function()
                        log:trysend "here"
                        while #go == 0 do require "mare".now() end
                        log:trysend "inner"
                    end})
                    ]] .. last, log, go)
                t.eq(log:receive(t.patience), "here")
                p:kill "too late"
                go:send(true)
                local _, _, code = p:join(t.patience)
                t.ok(code == nil or code == "died" or code == "killed", code)
                local said = {}
                log:close()
                for word in log:messages() do said[#said + 1] = word end
                t.eq({table.unpack(said, said[1] == "inner" and 2 or 1)}, {"outer", "gc"})
            end
        end)
    end,

    while_it_yields = function()
        local log = mare.channel(1)
        local p = mare.spawn(function()
            log:send "here"
            while true do coroutine.yield() end
        end)
        log:receive(t.patience)
        p:kill()
        t.fails("killed", p:join(t.patience))
    end,

    when_it_has_finished = function()
        local p = mare.spawn(function() return 1 end)
        p:join(t.patience)
        t.eq(p:kill(), false)
        t.eq({p:join()}, {true, 1}, "its results stay")
    end,

    itself = function()
        local log = mare.channel(10)
        local p = mare.spawn(function()
            local _guard <close> = setmetatable({}, {__close = function() log:trysend "closed" end})
            pcall(function() mare.self():kill "enough" end)
            log:send "not reached"
        end)
        t.eq({p:join(t.patience)}, {nil, "enough", "killed"})
        t.eq(log:tryreceive(), "closed")
        t.fails("empty", log:tryreceive())
    end,

    itself_in_a_coroutine = function()
        local p = mare.spawn(function()
            coroutine.wrap(function() mare.self():kill "inside" end)()
            return "not reached"
        end)
        t.eq({p:join(t.patience)}, {nil, "inside", "killed"})
    end,

    itself_in_a_callback_that_cannot_yield = function()
        t.needs_preemption()
        local p = mare.spawn(function()
            local list = {3, 1, 2}
            table.sort(list, function(a, b)
                mare.self():kill "sorting"
                return a < b
            end)
            while true do end
        end)
        t.eq({p:join(t.patience)}, {nil, "sorting", "killed"})
    end,

    the_first_reason_counts = function()
        local p = mare.spawn(function() mare.channel():receive() end)
        p:kill "first"
        p:kill "second"
        t.eq({p:join(t.patience)}, {nil, "first", "killed"})
    end,

    a_reason_is_text = function()
        local p = mare.spawn(function() mare.channel():receive() end)
        t.raises("#1 to 'kill'.*string expected", function() p:kill {} end)
        t.ok(p:alive())
        p:kill()
        local _, message = p:join(t.patience)
        t.eq(type(message), "string", "there is a message without a reason too")
    end,

    -- What runs on the way out.

    close_handlers_run_inner_first = function()
        t.eq(killed("blocked", function(log)
            local function guard(name)
                return setmetatable({}, {__close = function(_, err)
                    log:trysend(name)
                    log:trysend(err == nil)
                end})
            end
            local _outer <close> = guard "outer"
            local _middle <close> = guard "middle"
            pcall(function()
                local _inner <close> = guard "inner"
                log:send "here"
                mare.channel():receive()
            end)
        end), {"inner", true, "middle", true, "outer", true})
    end,

    close_handlers_of_inner_coroutines_run_before_the_outer = function()
        t.eq(killed("blocked", function(log)
            local function guard(name)
                return setmetatable({}, {__close = function() log:trysend(name) end})
            end
            local _outer <close> = guard "process"
            coroutine.wrap(function()
                local _middle <close> = guard "coroutine"
                for _ in coroutine.wrap(function()
                    local _inner <close> = guard "iterator"
                    log:send "here"
                    mare.channel():receive()
                end) do end
            end)()
        end), {"iterator", "coroutine", "process"})
    end,

    -- What coroutines of handlers and finalizers yield is theirs, however the process was killed.
    generators_work_in_handlers_and_finalizers = function()
        local ways = {
            waits = function() mare.channel():receive() end,
            sleeps = function() mare.sleep(1000) end,
            yields = function() while true do mare.yield() end end,
        }
        if not os.getenv "MARE_TEST_NO_PREEMPTION" then
            ways.computes = function() while true do end end
        end
        local function body(log, way, routines)
            local function count(name)
                local sum = 0
                for i in coroutine.wrap(function()
                    for i = 1, 3 do coroutine.yield(i) end
                end) do sum = sum + i end
                do
                    local co = coroutine.create(coroutine.yield)
                    coroutine.resume(co)
                    log:trysend(name, sum, coroutine.status(co))
                end
                collectgarbage()
            end
            _G.kept = setmetatable({}, {__gc = function() count "finalizer" end}) -- until the end
            local function life()
                coroutine.wrap(function()
                    local _guard <close> = setmetatable({}, {__close = function()
                        count "handler"
                    end})
                    log:send "here"
                    way()
                end)()
            end
            if routines then mare.go(life) else life() end
        end
        for name, way in pairs(ways) do
            for _, routines in ipairs {false, true} do
                t.with_workers(2, function()
                    local log = mare.channel(10)
                    local p = mare.spawn(body, log, way, routines)
                    t.eq({log:receive(t.patience)}, {"here"})
                    p:kill()
                    t.fails("killed", p:join(t.patience))
                    t.eq({log:tryreceive()}, {"handler", 6, "suspended"}, name)
                    t.eq({log:tryreceive()}, {"finalizer", 6, "suspended"}, name)
                end)
            end
        end
    end,

    -- An error that a hook raised once left no hook to stop what runs after it.
    an_endless_handler_ends_wherever_the_kill_came = function()
        t.needs_preemption()
        local function loop() while true do end end
        for _, body in ipairs {function(log)
            local _guard <close> = setmetatable({}, {__close = loop})
            log:send "here"
            table.sort({1, 2, 3}, loop)
        end, function(log)
            log:send "here"
            table.sort({1, 2, 3}, coroutine.wrap(function()
                local _guard <close> = setmetatable({}, {__close = loop})
                loop()
            end))
        end} do
            t.with_workers(2, function() -- one of them is held all the time
                local log = mare.channel(1)
                local p = mare.spawn(body, log)
                log:receive(t.patience)
                p:kill()
                t.fails("killed", p:join(t.patience))
            end)
        end
    end,

    close_handlers_of_a_loop_run = function()
        t.eq(killed("blocked", function(log)
            local closing = setmetatable({}, {__close = function() log:trysend "loop" end})
            for _ in function() return 1 end, nil, nil, closing do
                log:send "here"
                mare.channel():receive()
            end
        end), {"loop"})
    end,

    finalizers_run_after_close_handlers = function()
        t.eq(killed("blocked", function(log)
            _G.kept = setmetatable({}, {__gc = function() log:trysend "gc" end})
            local _guard <close> = setmetatable({}, {__close = function() log:trysend "close" end})
            log:send "here"
            mare.channel():receive()
        end), {"close", "gc"})
    end,

    a_close_handler_that_fails_does_not_stop_the_others = function()
        t.eq(killed("blocked", function(log)
            local _outer <close> = setmetatable({}, {__close = function() log:trysend "outer" end})
            local _inner <close> = setmetatable({}, {__close = function() error "in close" end})
            log:send "here"
            mare.channel():receive()
        end), {"outer"})
    end,

    a_close_handler_cannot_wait_but_can_try = function()
        local said = killed("blocked", function(log)
            local _guard <close> = setmetatable({}, {__close = function()
                local ok, err = pcall(function() mare.channel():receive() end)
                log:trysend(ok)
                log:trysend(err)
            end})
            log:send "here"
            mare.channel():receive()
        end)
        t.eq(said[1], false)
        t.ok(said[2]:find "cannot wait here", said[2])
    end,

    a_channel_in_a_close_variable_is_closed = function()
        local ch = mare.channel()
        killed("blocked", function(log, shared)
            local mine <close> = shared
            log:send "here"
            mine:receive()
        end, ch)
        t.ok(ch:closed())
    end,

    what_it_held_is_let_go = function()
        local live = mare.stats().live
        for _ = 1, 50 do
            local p = mare.spawn(function()
                local held = {}
                for i = 1, 20 do held[i] = mare.channel(1) end
                mare.select(held)
            end)
            p:kill()
            p:join(t.patience)
        end
        t.reaches(function() return mare.stats().live <= live end)
    end,

    a_thousand_die_at_once = function()
        local never = mare.channel()
        local list = {}
        for i = 1, 1000 do
            list[i] = mare.spawn(function() never:receive() end)
        end
        for _, p in ipairs(list) do p:kill() end
        for _, p in ipairs(list) do t.fails("killed", p:join(t.patience)) end
        t.fails("full", never:trysend(1))
    end,
}
