-- SPDX-License-Identifier: MIT
-- mare.go: several routines in one process, each of which waits by itself. How they are cancelled
-- and killed is in test_routine_kill.lua; their turns, coroutines and memory in
-- test_routine_turns.lua.
local mare, t, shell = require "mare", require "t", require "shell"
local settle = t.settle

-- A value to close that adds a word to a list.
local function closing(list, word)
    return setmetatable({}, {__close = function() list[#list + 1] = word end})
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
        t.raises("a userdata %(.*routine%) cannot travel", mare.channel(1).send, mare.channel(1), r)
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

    -- Whole programs.

    an_error_that_nobody_asks_for_is_printed = function()
        local result = program [[
            mare.go(function() error("first", 0) end)
            mare.go(function() error({code = 5, list = {1, "two"}}) end)
            mare.go(function() error("joined too late", 0) end)
            mare.spawn({name = "clerk"}, function()
                mare.go(error, "of a name", 0)
            end)
        ]]
        t.ok(result.err:find "mare: routine 2 of process %d+ %(clerk%) died: of a name\n",
            result.err)
        t.ok(result.err:find "mare: routine %d+ of process 1 died: first\nstack traceback:",
            result.err)
        t.ok(result.err:find('died: {code = 5, list = {1, "two"}}\n', 1, true), result.err)
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
