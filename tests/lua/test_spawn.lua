-- SPDX-License-Identifier: MIT
-- mare.spawn: what a process can be made from, what it is given, and what is refused in the caller.
local mare, t = require "mare", require "t"

local function results(...)
    return {select(2, assert(mare.spawn(...):join(t.patience)))}
end

return {
    a_function_runs_in_a_process_of_its_own = function()
        local outer = mare.self()
        local inner = results(function() return mare.self() end)[1]
        t.ok(inner ~= outer)
        t.ok(inner:id() ~= outer:id())
    end,

    a_string_of_lua_is_compiled_here_and_runs_there = function()
        t.eq(results("local a, b = ...; return a + b, _VERSION", 40, 2), {42, "Lua 5.4"})
    end,

    a_binary_chunk_does_as_well_as_text = function()
        local chunk = string.dump(assert(load "return ..., 'binary'"))
        t.eq(results(chunk, 7), {7, "binary"})
    end,

    a_stripped_binary_chunk_runs_too = function()
        t.eq(results(string.dump(function(...) return select("#", ...) end, true), nil, nil), {2})
    end,

    a_library_function_is_a_body = function()
        t.eq(results(string.rep, "ab", 3, "-"), {"ab-ab-ab"})
        t.eq(results(select, "#", nil, nil), {2})
        t.eq(results(math.type, 1.0), {"float"})
    end,

    a_function_of_mare_is_a_body = function()
        local ch = results(mare.channel, 3)[1]
        t.eq(ch:capacity(), 3)
    end,

    upvalues_are_copied_when_it_is_spawned = function()
        local n, list = 1, {10}
        local start = mare.channel()
        local p = mare.spawn(function()
            start:receive()
            n = n + 1
            list[1] = list[1] + 1
            return n, list[1]
        end)
        n, list[1] = 100, 100
        start:send()
        t.eq({p:join(t.patience)}, {true, 2, 11})
        t.eq({n, list[1]}, {100, 100}, "the process changed its own copies only")
    end,

    functions_that_share_an_upvalue_share_its_copy = function()
        local count = 0
        local function up() count = count + 1 end
        local function get() return count end
        t.eq(results(function()
            up()
            up()
            return get()
        end), {2})
        t.eq(count, 0)
    end,

    a_recursive_local_function_calls_its_own_copy = function()
        local function factorial(n) return n <= 1 and 1 or n * factorial(n - 1) end
        t.eq(results(factorial, 20), {2432902008176640000})
    end,

    functions_that_call_each_other_still_do = function()
        local odd
        local function even(n) return n == 0 or odd(n - 1) end
        function odd(n) return n ~= 0 and even(n - 1) end
        t.eq(results(even, 101), {false})
        t.eq(results(odd, 101), {true})
    end,

    a_hundred_upvalues_arrive_in_their_places = function()
        local declared, used = {}, {}
        for i = 1, 100 do
            declared[i] = ("local v%d = %d"):format(i, i)
            used[i] = ("v%d * %d"):format(i, i)
        end
        local code = table.concat(declared, "\n") .. "\nreturn function() return "
            .. table.concat(used, " + ") .. " end"
        t.eq(results(assert(load(code))()), {338350})
    end,

    mare_and_libraries_travel_as_upvalues = function()
        local lib, rep, format = string, string.rep, ("x").format
        t.eq(results(function()
            return lib == string, rep == string.rep, format("%d", 3), mare == require "mare"
        end), {true, true, "3", true})
    end,

    globals_are_those_of_the_new_process = function()
        _G.a_global_of_the_parent = 1
        t.eq(results(function()
            local seen = rawget(_G, "a_global_of_the_parent")
            _G.a_global_of_the_child = 2
            return seen
        end), {})
        t.eq(rawget(_G, "a_global_of_the_child"), nil)
        _G.a_global_of_the_parent = nil
    end,

    an_environment_of_its_own_is_an_upvalue_like_any_other = function()
        local f = assert(load("x = (x or 0) + 1; return x", "env", "t", {x = 41}))
        t.eq(results(f), {42})
    end,

    the_globals_table_as_a_value_means_the_receivers = function()
        local globals = _G
        t.eq(results(function() return globals == _G, globals.print == print end), {true, true})
    end,

    arguments_of_every_kind_arrive = function()
        local ch = mare.channel()
        local got = results(function(...)
            local a, b, c, d, e, f, g, h = ...
            return select("#", ...), a, b, math.type(c), math.type(d), e, f.x, g(), h == mare.self()
        end, nil, true, 1, 1.0, "s\0s", {x = {1}}, function() return "called" end, ch, nil)
        t.eq(got, {9, nil, true, "integer", "float", "s\0s", {1}, "called", false})
    end,

    trailing_nils_are_counted = function()
        t.eq(results(function(...) return (select("#", ...)) end, nil, nil, nil), {3})
        t.eq(results(function(...) return (select("#", ...)) end), {0})
    end,

    two_hundred_arguments_and_results_arrive = function()
        local many = {}
        for i = 1, 200 do many[i] = i end
        t.eq(results(function(...) return ... end, table.unpack(many)), many)
    end,

    a_process_spawns_processes = function()
        local function tree(depth)
            if depth == 0 then return 1 end
            local spawn = require "mare".spawn
            local left, right = spawn(tree, depth - 1), spawn(tree, depth - 1)
            return select(2, left:join()) + select(2, right:join())
        end
        t.eq(results(tree, 7), {128})
    end,

    -- Options.

    a_name_can_be_found_while_the_process_lives = function()
        local stay = mare.channel()
        local p = mare.spawn({name = "spawn.found"}, function() stay:receive() end)
        t.ok(mare.find "spawn.found" == p)
        t.eq(p:name(), "spawn.found")
        t.fails("exists", mare.spawn({name = "spawn.found"}, function() end))
        stay:send()
        p:join(t.patience)
        t.fails("noname", mare.find "spawn.found")
        t.eq(p:name(), "spawn.found", "the reference remembers")
        local again = mare.spawn({name = "spawn.found"}, function() end)
        t.ok(again, "the name is free again")
        again:join(t.patience)
    end,

    a_process_and_a_channel_share_the_space_of_names = function()
        local _ch <close> = mare.channel(0, "spawn.shared")
        t.fails("exists", mare.spawn({name = "spawn.shared"}, function() end))
    end,

    the_channel_of_a_monitor_comes_after_the_reference = function()
        local p, ended = mare.spawn({monitor = true}, function() return 1 end)
        local who, how = ended:receive(t.patience)
        t.ok(who == p)
        t.eq(how, "normal")
        local mine = mare.channel(2)
        local q, same = mare.spawn({monitor = mine}, error, "oops")
        t.ok(same == mine)
        who, how = mine:receive(t.patience)
        t.ok(who == q)
        t.eq(how, "died")
    end,

    the_table_of_options_can_be_used_again = function()
        local options = {monitor = true}
        local _, first = mare.spawn(options, function() end)
        local _, second = mare.spawn(options, function() end)
        t.ok(first ~= second)
        t.eq(options, {monitor = true})
        first:receive(t.patience)
        second:receive(t.patience)
    end,

    -- A thread of its own.

    a_process_that_blocks_in_c_holds_back_nobody_if_it_has_a_thread = function()
        local fifo, here = os.tmpname(), mare.channel(1)
        os.remove(fifo)
        assert(os.execute("mkfifo " .. fifo))
        local before = mare.workers()
        mare.workers(1)
        local p = mare.spawn({thread = true}, function()
            here:send(true)
            return io.open(fifo):read "a" -- blocks until somebody writes
        end)
        here:receive(t.patience)
        local other = mare.spawn(function() return "served" end)
        t.eq({other:join(t.patience)}, {true, "served"})
        mare.workers(before)
        local out = io.open(fifo, "w")
        out:write "done"
        out:close()
        t.eq({p:join(t.patience)}, {true, "done"})
        os.remove(fifo)
    end,

    one_with_a_thread_waits_sleeps_and_is_killed_as_others = function()
        local c = mare.channel()
        local p = mare.spawn({thread = true}, function() mare.sleep(0.01) return c:receive() end)
        t.eq(c:sendwithin(t.patience, 7), true)
        t.eq({p:join(t.patience)}, {true, 7})
        local q = mare.spawn({thread = true}, function() return c:receive() end)
        t.reaches(function() return q:status() == "blocked" end)
        q:kill()
        t.fails("killed", q:join(t.patience))
    end,

    those_with_threads_end_while_they_are_being_woken = function()
        -- Whoever wakes one for the last time must be done with its thread before it ends.
        for i = 1, 200 do
            local p = mare.spawn({thread = true}, function() mare.sleep(3600) end)
            if i % 2 == 0 then
                t.reaches(function() return p:status() == "blocked" end)
            end
            p:kill()
        end
    end,

    many_with_threads_come_and_go = function()
        local c = mare.channel()
        for i = 1, 40 do mare.spawn({thread = true}, function() c:send(i) end) end
        local sum = 0
        for _ = 1, 40 do sum = sum + c:receive(t.patience) end
        t.eq(sum, 820)
    end,

    options_that_say_no_mean_nothing = function()
        t.eq(select("#", mare.spawn({link = false, monitor = false}, function() end)), 1)
    end,

    bad_options_raise_and_name_themselves = function()
        local function f() end
        t.raises("unknown option 'nmae'", mare.spawn, {nmae = "x"}, f)
        t.raises("#1.*'name'", mare.spawn, {name = 1}, f)
        t.raises("#1.*'memory'", mare.spawn, {memory = "lots"}, f)
        t.raises("#1.*'memory'", mare.spawn, {memory = 0}, f)
        t.raises("#1.*'memory'", mare.spawn, {memory = -1}, f)
        t.raises("#1.*'memory'.*whole", mare.spawn, {memory = 2e6 + 0.5}, f)
        t.raises("#1.*'memory'", mare.spawn, {memory = "1000000"}, f)
        t.eq({mare.spawn({memory = 2e6}, "return 1"):join(t.patience)}, {true, 1})
        t.raises("#1.*'link'", mare.spawn, {link = 1}, f)
        t.raises("#1.*'monitor'", mare.spawn, {monitor = "yes"}, f)
        t.raises("#1", mare.spawn, {"name"}, f)
    end,

    -- Failures in the caller.

    a_body_that_is_neither_function_nor_string_raises = function()
        t.raises("#1.*got no value", mare.spawn)
        t.raises("#1.*got number", mare.spawn, 42)
        t.raises("#1.*got nil", mare.spawn, nil)
        t.raises("#2.*got no value", mare.spawn, {})
        t.raises("#2.*got boolean", mare.spawn, {}, true)
    end,

    a_syntax_error_raises_here = function()
        t.raises("unexpected symbol near '='", mare.spawn, "= 1")
        t.raises("near <eof>", mare.spawn, "for i = 1")
        t.raises("truncated", mare.spawn, string.dump(function() end):sub(1, 20))
    end,

    an_upvalue_that_cannot_travel_is_named = function()
        local log = io.stdout
        t.raises("arg 1, upvalue 'log': a file cannot travel", mare.spawn,
            function() return log end)
        local co = coroutine.create(print)
        t.raises("arg 1, upvalue 'co': a coroutine cannot travel", mare.spawn,
            function() return co end)
        local object = setmetatable({}, {})
        t.raises("upvalue 'object': a table with a metatable", mare.spawn,
            function() return object end)
    end,

    an_argument_that_cannot_travel_is_named = function()
        t.raises("arg 2, field 'log': a file cannot travel", mare.spawn, print, {log = io.stdout})
        t.raises("arg 3, index 2", mare.spawn, print, 1, {1, io.stdout})
        t.raises("arg 2, upvalue 'inner', field 'deep', index 1: a file", function()
            local inner = {deep = {io.stdout}}
            mare.spawn(print, function() return inner end)
        end)
    end,

    with_options_arguments_are_still_counted_as_they_are_written = function()
        t.raises("arg 3, field 'log': a file cannot travel", mare.spawn, {}, print,
            {log = io.stdout})
    end,

    a_c_function_of_no_library_cannot_be_a_body = function()
        t.raises("C function", mare.spawn, coroutine.wrap(print))
    end,

    nothing_is_left_of_a_spawn_that_failed = function()
        local live = mare.stats().live
        for _ = 1, 100 do
            pcall(mare.spawn, {name = "spawn.failed", link = true, monitor = true}, print,
                io.stdout)
        end
        t.ok(mare.stats().live <= live) -- one of the case before may still have been ending
        t.fails("noname", mare.find "spawn.failed")
        t.ok(mare.spawn({name = "spawn.failed"}, function() end):join(t.patience))
    end,

    a_body_that_fails_at_once_does_not_fail_the_caller = function()
        local p = mare.spawn("error 'at once'")
        local ok, err, code = p:join(t.patience)
        t.eq(ok, nil)
        t.eq(code, "died")
        t.ok(err:find "at once")
    end,

    a_global_that_is_not_there_is_explained = function()
        for _, body in ipairs {"helper()", "return config.port", "count = count + 1"} do
            local _, err = mare.spawn(body):join(t.patience)
            t.ok(err:find "%(global '%w+'%); unless it is misspelt: globals are not copied", err)
        end
        local _, err = mare.spawn("local x; x()"):join(t.patience)
        t.ok(err:find "%(local 'x'%)$", err)
    end,

    a_stream_that_the_function_names_moves = function()
        local here, there = require "mare.net".pair()
        local p = mare.spawn(function() return there:write "from there\n" end)
        t.eq(here:read("l", t.patience), "from there")
        t.raises("the stream was sent to another process", there.write, there, "x")
        t.raises("upvalue 'there': a stream that was sent before cannot travel", mare.spawn,
            function() return there end)
        t.ok(p:join(t.patience))
        t.eq(here:read("l", t.patience), nil) -- its owner has ended
    end,

    a_file_can_be_spawned = function()
        local name = os.tmpname() .. ".lua"
        local file = assert(io.open(name, "w"))
        file:write "local a, b = ...\nreturn a * b, debug.getinfo(1, 'S').source"
        file:close()
        t.eq({mare.spawn(name, 6, 7):join(t.patience)}, {true, 42, "@" .. name})
        os.remove(name)
        local function spawns() mare.spawn(name) end
        local _, message = pcall(spawns)
        local line = debug.getinfo(spawns, "S").linedefined
        t.ok(message:find(("test_spawn.lua:%d: cannot open %s: "):format(line, name), 1, true),
            message) -- the caller's line
        t.ok(message:find "relative to the working folder", message)
        t.raises("syntax error near 'x'", mare.spawn, "worker.lua\nx")
        t.raises("near '/' %(a string is Lua code; the name of a file ends with .lua%)$",
            mare.spawn, "workers/worker")
        t.raises("near 'worker'$", mare.spawn, "a worker")
        local _, err = mare.spawn("a = {} return a.lua"):join(t.patience)
        t.eq(err, nil)
    end,

    a_thousand_processes_live_at_a_time = function()
        local done, go = mare.channel(1000), mare.channel()
        for i = 1, 1000 do
            mare.spawn(function(n)
                go:receive()
                done:send(n)
            end, i)
        end
        go:close()
        local sum = 0
        for _ = 1, 1000 do sum = sum + done:receive(t.patience) end
        t.eq(sum, 500500)
    end,
}
