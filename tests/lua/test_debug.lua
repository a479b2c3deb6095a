-- SPDX-License-Identifier: MIT
-- The debug library, its hooks, and preemption, which uses the same hook underneath.
local mare, t = require "mare", require "t"

local function there(f, ...)
    local results = table.pack(mare.spawn(f, ...):join(t.patience))
    if not results[1] then error(results[2], 2) end
    return table.unpack(results, 2, results.n)
end

-- Calls f in a process that gets preempted all the time: one worker, and another that never rests.
local function under_pressure(f, ...)
    t.needs_preemption()
    local arguments = table.pack(...)
    return t.with_workers(1, function()
        local rival = mare.spawn(function() while true do end end)
        local before = mare.stats().preemptions
        local p = mare.spawn(f, table.unpack(arguments, 1, arguments.n))
        local results = table.pack(p:join(2 * t.patience))
        rival:kill()
        rival:join(t.patience)
        if not results[1] then error(tostring(results[2]), 0) end
        t.ok(mare.stats().preemptions > before)
        return table.unpack(results, 2, results.n)
    end)
end

-- Long enough for several slices.
local SPIN = "local function spin() local n = 0 for i = 1, 5000000 do n = n + i end return n end\n"

return {
    traceback_of_the_caller_and_of_a_coroutine = function()
        local trace = there "local function f() return debug.traceback('msg') end return f()"
        t.ok(trace:find "^msg\nstack traceback:\n\t.*tail calls", trace)
        trace = there [[
            local co = coroutine.create(function() local x <const> = 1; coroutine.yield(x) end)
            coroutine.resume(co)
            return debug.traceback(co)
        ]]
        t.ok(trace:find "'coroutine.yield'", trace)
    end,

    coroutines_in_which_another_routine_waits = function()
        t.eq({there [[
            local mare = require "mare"
            local routine, inner, calls = nil, nil, 0
            local r = mare.go(function()
                routine = coroutine.running()
                inner = coroutine.create(function() mare.sleep(0.01) return pcall(error) end)
                coroutine.resume(inner)
            end)
            mare.yield()
            local hooks = {}
            for i, co in ipairs {routine, inner} do
                debug.sethook(co, print, "c")
                hooks[2 * i - 1] = debug.gethook(co) == print
                debug.sethook(co)
                hooks[2 * i] = debug.gethook(co)
                debug.sethook(co, function() calls = calls + 1 end, "c")
                debug.traceback(co)
                debug.getlocal(co, 0, 1)
                debug.setlocal(co, 0, 1, 1)
            end
            local ok = r:join()
            return hooks[1], hooks[2], hooks[3], hooks[4], ok, calls > 1
        ]]}, {true, nil, true, nil, true, true})
    end,

    getinfo_and_locals = function()
        t.eq({there [[
            local function f(a, b)
                local c = 3
                return (debug.getlocal(1, 3)), debug.getinfo(1, "l").currentline
            end
            local name, line = f(1, 2)
            return name, line, debug.getinfo(f, "u").nparams, debug.getinfo(1, "S").what
        ]]}, {"c", 3, 2, "main"})
    end,

    upvalues_can_be_seen_and_set = function()
        t.eq({there [[
            local up = 1
            local function f() return up end
            debug.setupvalue(f, 1, 42)
            return debug.getupvalue(f, 1), f()
        ]]}, {"up", 42})
    end,

    a_count_hook_counts = function()
        t.eq(there [[
            local n = 0
            debug.sethook(function(event) assert(event == "count"); n = n + 1 end, "", 100)
            for i = 1, 10000 do end
            debug.sethook()
            return n > 50 and n < 1000
        ]], true)
    end,

    a_line_hook_sees_lines = function()
        t.eq(there [[
            local lines = {}
            debug.sethook(function(_, line) lines[#lines + 1] = line end, "l")
            local x = 1
            x = x + 1
            debug.sethook()
            return table.concat(lines, " ")
        ]], "3 4 5")
    end,

    call_and_return_hooks = function()
        t.eq(there [[
            local events = {}
            local function f() return 1 end
            debug.sethook(function(event) events[event] = (events[event] or 0) + 1 end, "cr")
            local x = f() + 1
            debug.sethook()
            return (events["call"] or 0) >= 2 and (events["return"] or 0) >= 1 and x == 2
        ]], true)
    end,

    gethook_returns_what_was_set = function()
        t.eq({there [[
            local function hook() end
            debug.sethook(hook, "l", 7)
            local f, mask, count = debug.gethook()
            debug.sethook()
            return f == hook, mask, count, debug.gethook()
        ]]}, {true, "l", 7, nil})
    end,

    no_hook_is_seen_that_was_not_set = function()
        t.eq(under_pressure(SPIN .. [[
            for _ = 1, 5 do
                spin()
                if debug.gethook() ~= nil then return "a hook" end
            end
            return "none"
        ]]), "none")
    end,

    a_hook_survives_preemption = function()
        t.eq({under_pressure(SPIN .. [[
            local n = 0
            local function hook() n = n + 1 end
            debug.sethook(hook, "", 1000)
            spin()
            local after = n
            spin()
            return after > 1000, n > after + 1000, debug.gethook() == hook
        ]])}, {true, true, true})
    end,

    -- Every line is seen once, and nothing is left out, whatever comes between.
    a_line_hook_under_preemption = function()
        t.eq({under_pressure [[
            local lines, n = 0, 0
            debug.sethook(function() lines = lines + 1 end, "l")
            for _ = 1, 1000000 do
                n = n + 1
                n = n + 1
            end
            debug.sethook()
            return n, lines
        ]]}, {2000000, 3000002})
    end,

    -- As programs do that limit what others may compute: a count that takes many slices.
    a_long_count_is_reached_in_spite_of_preemption = function()
        t.eq({under_pressure [[
            debug.sethook(function() error "enough" end, "", 100000000)
            local n = 0
            local ok, why = pcall(function() while true do n = n + 1 end end)
            return ok, why:match "enough", n > 24999990, n <= 25000000 -- four instructions a round
        ]]}, {false, "enough", true, true})
    end,

    -- Each has its own, also after it was preempted; one that was preempted and dropped, and one
    -- that was preempted and goes on.
    hooks_of_several_coroutines = function()
        t.eq({under_pressure(SPIN .. [[
            local counts = {}
            local function worker(name, step)
                return coroutine.create(function()
                    debug.sethook(function() counts[name] = counts[name] + 1 end, "", step)
                    while true do
                        local before = counts[name]
                        spin()
                        coroutine.yield(counts[name] - before)
                    end
                end)
            end
            counts.often, counts.seldom, counts.dropped = 0, 0, 0
            local often, seldom = worker("often", 100), worker("seldom", 10000)
            coroutine.resume(worker("dropped", 50))
            local same = true
            for _ = 1, 3 do
                local _, a = coroutine.resume(often)
                local _, b = coroutine.resume(seldom)
                same = same and a > 90 * b and a < 110 * b + 1000 -- the hooks' own count too
            end
            local _, mask, step = debug.gethook(often)
            local _, _, other = debug.gethook(seldom)
            return same, mask, step, other, debug.gethook()
        ]])}, {true, "", 100, 10000, nil})
    end,

    a_process_with_a_hook_is_preempted_too = function()
        t.needs_preemption()
        t.with_workers(1, function()
            local go = mare.channel()
            local hooked = mare.spawn(function()
                debug.sethook(function() end, "", 1000)
                go:send()
                while true do end
            end)
            go:receive(t.patience)
            -- This process runs again only if the other is made to give way.
            t.eq({mare.spawn(function() return 1 end):join(t.patience)}, {true, 1})
            hooked:kill()
            t.fails("killed", hooked:join(t.patience))
        end)
    end,

    a_hook_in_one_coroutine_only = function()
        t.eq({there [[
            local n = 0
            local co = coroutine.create(function() for i = 1, 10000 do end end)
            debug.sethook(co, function() n = n + 1 end, "", 100)
            for i = 1, 10000 do end
            local before = n
            coroutine.resume(co)
            return before, n > 50
        ]]}, {0, true})
    end,

    an_error_in_a_hook_stops_a_program_as_it_always_did = function()
        t.eq(there [[
            debug.sethook(function() error("too long", 0) end, "", 100000)
            local ok, err = pcall(function() while true do end end)
            debug.sethook()
            return err
        ]], "too long")
    end,

    -- Preemption.

    an_endless_loop_does_not_hold_back_a_timer = function()
        t.needs_preemption()
        t.with_workers(1, function()
            local spinner = mare.spawn(function() while true do end end)
            for _ = 1, 5 do
                local start = mare.now()
                mare.sleep(0.005)
                t.ok(mare.now() - start >= 0.005)
            end
            t.ok(spinner:alive())
            spinner:kill()
            t.fails("killed", spinner:join(t.patience))
        end)
    end,

    loops_inside_coroutines_are_preempted = function()
        t.needs_preemption()
        t.with_workers(1, function()
            -- There is one worker: who hears that one is there runs after that one was preempted.
            local here = mare.channel()
            local spinner = mare.spawn(function()
                for _ in coroutine.wrap(function()
                    coroutine.wrap(function()
                        here:send "spinner"
                        while true do end
                    end)()
                end) do end
            end)
            t.eq(here:receive(t.patience), "spinner")
            local generator = mare.spawn(function()
                local f = coroutine.wrap(function() while true do coroutine.yield(1) end end)
                here:send "generator"
                while true do f() end
            end)
            t.eq(here:receive(t.patience), "generator")
            t.eq({spinner:kill(), generator:kill()}, {true, true})
            t.fails("killed", spinner:join(t.patience))
            t.fails("killed", generator:join(t.patience))
        end)
    end,

    what_is_preempted_goes_on_where_it_was = function()
        local expected = load(SPIN .. "return spin()")()
        t.eq(under_pressure(SPIN .. "return spin()"), expected)
        t.eq({under_pressure(SPIN .. [[
            local function generate()
                for i = 1, 10 do
                    spin()
                    coroutine.yield(i)
                end
            end
            local list = {}
            for i in coroutine.wrap(generate) do list[#list + 1] = i end
            local ok, n = pcall(spin)
            local _, err = pcall(function() spin() error("kept", 0) end)
            return #list, list[10], n, err
        ]])}, {10, 10, expected, "kept"})
    end,

    code_that_cannot_yield_is_left_to_finish = function()
        t.eq(under_pressure(SPIN .. [[
            spin() -- where it can
            local list = {3, 1, 2}
            table.sort(list, function(a, b) spin() return a < b end)
            local s = ("abc"):gsub(".", function(c) spin() return c:upper() end)
            return table.concat(list) .. s
        ]]), "123ABC")
    end,

    endless_loops_share_the_workers = function()
        t.needs_preemption()
        t.with_workers(1, function()
            local spinners, counts = {}, mare.channel(1000)
            for i = 1, 5 do
                spinners[i] = mare.spawn(function(n)
                    while true do
                        for _ = 1, 100000 do end
                        counts:trysend(n)
                    end
                end, i)
            end
            local seen, missing = {}, 5
            while missing > 0 do
                local n = t.ok(counts:receive(t.patience))
                if not seen[n] then missing = missing - 1 end
                seen[n] = true
            end
            for _, p in ipairs(spinners) do p:kill() end
            for _, p in ipairs(spinners) do t.fails("killed", p:join(t.patience)) end
        end)
    end,

    -- What gives a reference back when it is garbage is in its metatable.
    metatables_of_references_are_not_to_be_changed = function()
        local p = mare.spawn(function()
            local metatable = debug.getmetatable(mare.channel())
            for key in pairs(metatable) do metatable[key] = nil end
            collectgarbage()
            assert(type(getmetatable(mare.channel())) == "string")
            return type(metatable), pcall(debug.setmetatable, mare.channel(), nil)
        end)
        local ok, kind, changed, why = p:join(t.patience)
        t.eq({ok, kind, changed}, {true, "table", false})
        t.ok(why:find "cannot be changed", why)
        local own = {}
        t.eq(debug.setmetatable(10, {__index = own}), 10) -- others are as ever
        t.eq(debug.getmetatable(10).__index, own)
        debug.setmetatable(10, nil)
        t.eq(debug.getmetatable(10), nil)
        t.raises("nil or table", debug.setmetatable, {}, 1)
    end,
}
