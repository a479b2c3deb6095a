-- SPDX-License-Identifier: MIT
-- A process is as good a Lua as the stock interpreter: language and libraries, in fresh processes.
local mare, t = require "mare", require "t"

-- The results of a piece of Lua in a new process, where no library has been named before.
local function fresh(code, ...)
    local results = table.pack(mare.spawn(code, ...):join(t.patience))
    if not results[1] then error(results[2], 2) end
    return table.unpack(results, 2, results.n)
end

-- The error of a piece of Lua in a new process.
local function dies(code, ...)
    local ok, err, how = mare.spawn(code, ...):join(t.patience)
    t.eq({ok, how}, {nil, "died"})
    return err
end

return {
    -- They ask the platform, which here is the machine: as those of the stock interpreter do.
    the_clocks_of_os = function()
        local stamp = io.popen "date +%s"
        local before = stamp:read "n"
        stamp:close()
        local time, date, clock = fresh [[
            return os.time(), os.date "!%Y %m %d %H %M %S", os.clock()
        ]]
        t.eq(math.type(time), "integer")
        t.ok(time >= before and time <= os.time() and os.time() - before < 2 * t.patience)
        local first, last = os.date("!%Y %m %d %H %M %S", before), os.date "!%Y %m %d %H %M %S"
        t.ok(first <= date and date <= last)
        t.ok(math.type(clock) == "float" and clock >= 0)
        local used = fresh "local c = os.clock() for _ = 1, 1e6 do end return os.clock() - c"
        t.ok(used > 0)
        t.eq(fresh "return os.date('!%c', 0), os.time {year = 2001, month = 2, day = 29}",
            os.date("!%c", 0), os.time {year = 2001, month = 3, day = 1})
        t.ok(dies "os.date('%9')":find "bad argument #1 to 'date'")
        t.ok(dies "os.time {hour = 1}":find "field 'year' missing")
    end,

    varargs = function()
        t.eq(table.pack(fresh("return select('#', ...), ...", nil, 1)), {2, nil, 1, n = 3})
        t.eq({fresh("local a = {...}; return #a, select(-1, ...)", 1, 2, 3)}, {3, 3})
        t.eq(fresh "return table.pack(table.unpack({}, 1, 3)).n", 3)
    end,

    goto_and_integer_division = function()
        t.eq(fresh [[
            local n = 0
            ::again::
            n = n + 1
            if n < 10 then goto again end
            return n // 3 | 1 << 4
        ]], 19)
    end,

    close_variables = function()
        t.eq(fresh [[
            local log = {}
            local function guard(name)
                return setmetatable({}, {__close = function(_, e)
                    log[#log + 1] = name .. tostring(e)
                end})
            end
            pcall(function()
                local a <close> = guard "a"
                do local b <close> = guard "b" end
                error("e", 0)
            end)
            return table.concat(log, " ")
        ]], "bnil ae")
    end,

    an_error_in_close_replaces_the_first = function()
        t.ok(dies [[
            local a <close> = setmetatable({}, {__close = function() error "second" end})
            error "first"
        ]]:find "second")
        t.ok(dies [[
            local a <close> = setmetatable({}, {__close = function() error "at the end" end})
        ]]:find "at the end")
    end,

    closing_handlers_run_when_it_dies = function()
        local said = mare.channel(2)
        dies([[
            local said = ...
            local a <close> = setmetatable({}, {__close = function(_, e) said:trysend(e) end})
            error("why", 0)
        ]], said)
        t.eq(said:receive(0), "why")
    end,

    strings_coerce_before_the_library_was_named = function()
        t.eq(fresh "return '10' + 1", 11)
        t.eq(fresh "return 10 .. ''", "10")
        t.eq(fresh "return '0x10' * '2'", 32)
        t.eq(fresh "return '3' - 1.5", 1.5)
        t.eq(fresh "return -'2'", -2)
        t.eq({fresh "return '7' // '2', '7' % '4', '2' ^ '3'"}, {3, 3, 8.0})
        t.eq(fresh "return '7' / '2'", 3.5)
        t.ok(dies "return 'x' + 1":find "%]:1: attempt to add a 'string' with a 'number'")
        t.ok(dies "return {} + '1'":find "%]:1: attempt to add a 'table' with a 'string'")
    end,

    methods_of_strings_before_the_library_was_named = function()
        t.eq(fresh "return ('x'):rep(3)", "xxx")
        t.eq(fresh "local s = 'abc'; return s:upper() .. #s", "ABC3")
        t.eq(fresh "return ('x').nosuch", nil)
        t.ok(dies "return ('x'):nosuch()":find "attempt to call a nil value %(method 'nosuch'%)")
        t.eq(fresh "return getmetatable('').__index == string", true)
    end,

    methods_of_strings_can_be_added = function()
        t.eq(fresh "string.twice = function(s) return s .. s end; return ('ab'):twice()", "abab")
    end,

    deep_recursion_is_an_error_that_can_be_caught = function()
        t.ok(dies "local function f() return 1 + f() end f()":find "stack overflow")
        t.eq({fresh [[
            local function f() return 1 + f() end
            local ok, err = pcall(f)
            return ok, err:find "stack overflow" ~= nil
        ]]}, {false, true})
    end,

    deep_recursion_through_c_is_caught_too = function()
        t.eq({fresh [[
            local function f() return pcall(f) end
            f()
            local g
            g = function() return ("x"):gsub("x", g) end
            local ok, err = pcall(g)
            return ok, err:find "overflow" ~= nil
        ]]}, {false, true})
    end,

    tail_calls_do_not_grow_the_stack = function()
        t.eq(fresh [[
            local function loop(n) if n == 0 then return "done" end return loop(n - 1) end
            return loop(1000000)
        ]], "done")
    end,

    errors_keep_their_levels_and_values = function()
        t.ok(dies "error('at one', 1)":find "^%[string .*%]:1: at one$")
        t.eq(dies "error('bare', 0)", "bare")
        t.eq(dies "error({1})", {1})
        t.ok(dies "local t = nil; t.x = 1":find "index a nil value %(local 't'%)")
        t.ok(dies "x.y.z = 1":find "index a nil value %(global 'x'%)")
        t.ok(dies "assert(false)":find "assertion failed!")
        t.ok(dies "assert(nil, 'because')":find "because$")
    end,

    xpcall_sees_the_stack = function()
        local trace = fresh [[
            local function inner() error "deep" end
            local _, trace = xpcall(inner, debug.traceback)
            return trace
        ]]
        t.ok(trace:find ":1: deep\nstack traceback:\n.*:1: in .*\n.*in main chunk", trace)
    end,

    table_functions_with_callbacks = function()
        t.eq(fresh [[
            local list = {5, 2, 8, 1}
            table.sort(list, function(a, b) return a > b end)
            return table.concat(list, ",")
        ]], "8,5,2,1")
        t.ok(dies "table.sort({1, 2, 3}, function() error 'in compare' end)":find "in compare")
        t.eq(fresh "return (('hello'):gsub('l', function(c) return c:upper() end))", "heLLo")
    end,

    load_compiles_and_reports = function()
        t.eq(fresh "return load('return 1 + 1')()", 2)
        t.eq(fresh "return select(2, load('= 1', '=name'))", "name:1: unexpected symbol near '='")
        t.eq(fresh [[
            local parts, i = {"return ", "42"}, 0
            return load(function() i = i + 1 return parts[i] end)()
        ]], 42)
        t.eq(fresh "return load('x = 1; return x', 'c', 't', {})()", 1)
        t.ok(fresh "return select(2, load(string.dump(load 'return 1'), 'b', 't'))":find "binary")
    end,

    dofile_and_loadfile = function()
        local name = os.tmpname()
        local file = assert(io.open(name, "w"))
        file:write "#!/usr/bin/env mare\nreturn 'from a file', ..."
        file:close()
        t.eq(fresh("return dofile(...)", name), "from a file")
        t.eq({fresh("return loadfile(...)(7)", name)}, {"from a file", 7})
        t.ok(dies("dofile '/nonexistent/x.lua'"):find "cannot open")
        os.remove(name)
    end,

    collectgarbage_has_its_options = function()
        t.eq(fresh "return collectgarbage()", 0)
        t.eq(fresh "return math.type(collectgarbage 'count')", "float")
        t.eq(fresh "collectgarbage 'stop'; return collectgarbage 'isrunning'", false)
        t.eq(fresh "collectgarbage 'restart'; return collectgarbage 'isrunning'", true)
        t.eq(fresh "collectgarbage 'generational'; return collectgarbage 'incremental'",
            "generational")
        t.eq(fresh "return type(collectgarbage 'step')", "boolean")
        t.ok(dies "collectgarbage 'nosuch'":find "invalid option")
        t.eq(fresh [[
            local weak = setmetatable({{}}, {__mode = "v"})
            collectgarbage()
            return #weak
        ]], 0)
    end,

    finalizers_run_while_it_lives_and_at_its_end = function()
        local said = mare.channel(10)
        fresh([[
            local said = ...
            local function made(name)
                return setmetatable({}, {__gc = function() said:trysend(name) end})
            end
            made "collected"
            collectgarbage()
            last = made "at the end"
        ]], said)
        t.eq({said:receive(0), said:receive(0)}, {"collected", "at the end"})
    end,

    an_error_in_a_finalizer_harms_nobody = function()
        t.eq(fresh [[
            setmetatable({}, {__gc = function() error "in gc" end})
            collectgarbage()
            atend = setmetatable({}, {__gc = function() error "in gc at the end" end})
            return "alive"
        ]], "alive")
    end,

    utf8_and_math = function()
        t.eq({fresh "return utf8.char(109, 233), utf8.len('maré')"}, {"mé", 4})
        t.eq(fresh "return math.tointeger(2^53)", 1 << 53)
        t.eq(fresh "return math.ult(1, -1)", true)
        t.eq(fresh "return string.pack('<i4', 1)", "\1\0\0\0")
        t.eq(fresh "return os.time {year = 2000, month = 1, day = 1, hour = 12} > 0", true)
    end,

    random_numbers_are_each_process_own = function()
        local seen = {}
        for i = 1, 100 do
            local n = fresh "return math.random(0)"
            t.eq(seen[n], nil, "drawn before")
            seen[n] = i
        end
        local function seeded() return fresh "math.randomseed(42); return math.random(0)" end
        t.eq(seeded(), seeded())
        -- What one draws does not move the other.
        math.randomseed(7)
        local first = math.random(0)
        math.randomseed(7)
        fresh "for _ = 1, 100 do math.random() end"
        t.eq(math.random(0), first)
    end,

    integers_and_floats_in_for_loops = function()
        t.eq(fresh [[
            local n = 0
            for i = math.maxinteger - 2, math.maxinteger do n = n + 1 end
            for x = 1, 2, 0.25 do n = n + 1 end
            return n
        ]], 8)
    end,

    metamethods = function()
        t.eq(fresh [[
            local V = {}
            V.__index = V
            V.__add = function(a, b) return setmetatable({a[1] + b[1]}, V) end
            V.__eq = function(a, b) return a[1] == b[1] end
            V.__lt = function(a, b) return a[1] < b[1] end
            V.__le = function(a, b) return a[1] <= b[1] end
            V.__call = function(self, x) return self[1] + x end
            V.__concat = function(a, b) return "cat" end
            V.__len = function() return 99 end
            V.__tostring = function(v) return "V" .. v[1] end
            V.__pairs = function() return function(_, k) if not k then return 1, 2 end end end
            local function v(n) return setmetatable({n}, V) end
            local n = 0
            for k, w in pairs(v(1)) do n = n + k + w end
            return table.concat({tostring(v(1) + v(2)), tostring(v(1) == v(1)),
                tostring(v(1) < v(2)), tostring(v(2) <= v(1)), v(1)(10), v(1) .. 1, #v(1), n}, " ")
        ]], "V3 true true false 11 cat 99 3")
    end,
}
