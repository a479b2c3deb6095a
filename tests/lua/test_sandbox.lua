-- SPDX-License-Identifier: MIT
-- Code that is not trusted: what it can reach, what stops it, and attempts to get out. Each attempt
-- runs in a sandbox, and the program that runs them all goes on.
local mare, sandbox = require "mare", require "mare.sandbox"
local t = require "t"

-- Time enough for what ends by itself or by another limit.
local function policy(more)
    local made = {time = t.patience, to = function() end}
    for key, value in pairs(more or {}) do made[key] = value end
    return made
end

local function run(text, more, ...) return sandbox.run(policy(more), text, ...) end

local function stopped(code, text, more)
    local ok, message, why = run(text, more)
    t.eq({ok, why}, {nil, code}, text .. "\n" .. tostring(message))
end

-- A text that only its time ends. However late it is ended, it is ended.
local function endless(text)
    t.needs_preemption()
    local ok, message, code, left = run(text, {time = 0.01 * t.slow})
    t.eq({ok, code}, {nil, "time"}, tostring(message))
    if left then t.eq(select(3, left:join(t.patience)), "killed", text) end
end

-- Texts of which each returns true, or a list of what went wrong.
local function holds(texts)
    for _, text in ipairs(texts) do t.eq({run(text)}, {true, true}, text) end
end

local function escapes(list)
    local cases = {}
    for name, texts in pairs(list) do cases[name] = function() holds(texts) end end
    return cases
end

-- ---- What is refused ----------------------------------------------------------------------------

local refused = escapes {
    libraries_that_are_not_allowed_are_not_there = {[[
        for _, name in ipairs {"os", "io", "debug", "package", "dofile", "loadfile", "mare",
            "luaproc", "warn"} do
            if _G[name] ~= nil or pcall(require, name) then return name end
        end
        return string.dump == nil and not pcall(require, "mare._node")
            and not pcall(require, "mare._sandbox") and not pcall(require, "socket")
    ]]},

    strings_lead_to_the_libraries_of_the_sandbox_alone = {
        [[return getmetatable("") == false]],
        [[return ("").dump == nil and ("").rep == string.rep and ("").find == string.find]],
        [[return not pcall(setmetatable, "", {})]],
        [[string.rep, string.sub = print, print
          return ("x"):rep(2) == "xx" and ("xy"):sub(1, 1) == "x"]],
        [[function string.twice(s) return s .. s end return ("x"):twice() == "xx"]],
    },

    no_bytecode_is_loaded = {
        [[local f, message = load("\27Lua") return f == nil and message:find "binary" ~= nil]],
        [[return load("return 1", "x", "b") == nil]],
        [[local sent = false
          local f = load(function() if sent then return nil end sent = true return "\27Lua" end)
          return f == nil]],
        [[return pcall(string.dump or error, print) == false]],
    },

    code_that_is_loaded_has_the_same_environment = {
        [[return load("return os == nil and io == nil and _G")() == _G]],
        [[return load("return _ENV")() == _G]],
        [[return load("return x", "c", "t", {x = true})()]],
        [[return not pcall(load("x = 1", "c", "t", nil))]],
        [[local _ENV = {load = load} return load("return type")() == nil == false]],
        [[local function f() local _ENV = nil return x end return not pcall(f)]],
        [[_G.print = nil return load("return print")() == nil]],
        [[return load(("x"):rep(300000)) == nil]],
    },

    a_finalizer_cannot_be_made = {
        [[return not pcall(setmetatable, {}, {__gc = function() end})]],
        [[local mt = {} setmetatable({}, mt) mt.__gc = function() ran = true end
          collectgarbage() collectgarbage() return ran == nil]],
        [[local mt = setmetatable({}, {__index = {__gc = function() ran = true end}})
          setmetatable({}, mt) collectgarbage() return ran == nil]],
    },

    the_collector_is_not_theirs_to_stop = {
        [[for _, word in ipairs {"stop", "restart", "generational", "incremental", "setpause",
              "isrunning"} do
              if pcall(collectgarbage, word) then return word end
          end
          return collectgarbage "count" > 0 and collectgarbage() == 0]],
    },

    addresses_are_not_shown = {
        [[for _, value in ipairs {{}, print, coroutine.create(print), string.rep} do
              if not tostring(value):find "^%a+: %d+$" then return tostring(value) end
          end
          return not pcall(string.format, "%p", {}) and not pcall(string.format, "%%%-10p", {})]],
        [[return ("%s"):format(setmetatable({}, {__name = "boat"})):find "^boat: %d+$" ~= nil]],
        [[local _, message = pcall(error, {}) return tostring(message):find "^table: %d+$" ~= nil]],
    },

    environments_of_functions_cannot_be_reached = {
        [[return debug == nil and getfenv == nil and setfenv == nil]],
        [[local found for key, value in pairs(_G) do
              if type(value) == "userdata" or type(value) == "thread" then found = key end
          end
          return found == nil]],
        [[local ok, message = pcall(function() return print.x end) return not ok]],
        [[return coroutine.running() ~= nil and select("#", coroutine.running()) == 2]],
    },

    errors_carry_nothing_out = {
        [[return select(2, pcall(error, setmetatable({}, {__index = _G}))).os == nil]],
        [[local ok, value = xpcall(error, function(e) return e end, "x") return value == "x"]],
        [[local ok, value = xpcall(error, function() error "again" end) return not ok]],
    },
}

-- ---- What is stopped ----------------------------------------------------------------------------

local SHORT = {instructions = 300000}

-- A table of 65 items, whose length is 2^62.
local FEW = "local t = {} for i = 62, 0, -1 do t[1 << i] = true end t[5], t[9] = true, true "

local loops = {
    "while true do end", "::again:: goto again", "repeat until false",
    "for i = 1, math.huge do end", "local function f() return f() end f()",
    "while true do pcall(function() while true do end end) end",
    "while true do coroutine.wrap(function() for i = 1, 900 do end end)() end",
    "local function f() coroutine.wrap(f)() end while true do pcall(f) end",
    [[local f = coroutine.wrap(function() while true do coroutine.yield() end end)
      while true do f() end]],
    "xpcall(error, function() while true do end end)",
    "local t = setmetatable({}, {__index = function(t, k) while true do end end}) return t.x",
    "print(setmetatable({}, {__tostring = function() while true do end end}))",
    "error(setmetatable({}, {__tostring = function() while true do end end}))",
    "return ('%s'):format(setmetatable({}, {__tostring = function() while true do end end}))",
    "local t <close> = setmetatable({}, {__close = function() while true do end end})",
    "for i in function() while true do end end do end",
    "table.sort({3, 2, 1}, function() while true do end end)",
    "('x'):gsub('x', function() while true do end end)",
    "('x'):gsub('x', setmetatable({}, {__index = function() while true do end end}))",
    "load(function() while true do end end)",
    "load(function() return 'x' end) while true do end",
    "for i in ipairs(setmetatable({}, {__index = function() return 1 end})) do end",
    "table.concat(setmetatable({}, {__index = type}), '', 1, 1 << 60)",
    "table.concat(setmetatable({}, {__index = rawlen, __len = function() return 1 << 60 end}))",
    "table.insert(setmetatable({}, {__len = function() return 1 << 60 end}), 1, 1)",
    "table.remove(setmetatable({}, {__len = function() return 1 << 60 end}), 1)",
    "table.sort(setmetatable({}, {__len = function() return 1 << 30 end}))",
    FEW .. "table.insert(t, 1, true)", FEW .. "table.insert(t, '1', true)",
    FEW .. "table.remove(t, 1)", FEW .. "table.remove(t, 1.0)",
    "table.move({1}, 1, 1e15, 1e15)", "table.move({}, '1', '1000000000000000', '2')",
    "table.move({}, 1, 1 << 60, 2)", "table.move({}, -1 << 62, -1, 1)",
    [[local from, to = setmetatable({}, {__index = type}), setmetatable({}, {__newindex = rawlen})
      table.move(from, 1, 1 << 60, 2, to)]],
    "('a'):rep(40):find(('a*'):rep(20) .. 'b')", "('a'):rep(3000):find(('.-'):rep(3) .. 'b')",
    "('a'):rep(100000):match '.-b'", "for _ in ('a'):rep(100000):gmatch '.-b' do end",
    "('('):rep(100000):find '%b()'",
    "('a'):rep(30):gsub(('a?'):rep(30) .. ('a'):rep(30) .. 'b', '')",
    "('x'):rep(40):find('(' .. ('x*'):rep(10) .. ')%1%1y')",
}

local greedy = {
    "local t = {} for i = 1, math.huge do t[i] = {i} end",
    "local s = 'x' while true do s = s .. s end",
    "return ('x'):rep(1 << 30)", "return ('x'):rep(1 << 20, ('y'):rep(1 << 20))",
    "local t = {} for i = 1, 10 do t[i] = ('x'):rep(1 << 20) end return table.concat(t, t[1])",
    "local t = {} while true do t = {t, t, setmetatable({}, t)} end",
    "local t = {} for i = 1, math.huge do t[i] = coroutine.create(print) end",
    "local t = {} for i = 1, math.huge do t[i] = function() return i end end",
}

local stops = {
    what_loops_is_stopped_by_its_instructions = function()
        for _, text in ipairs(loops) do stopped("instructions", text, SHORT) end
    end,

    what_hoards_is_stopped_by_its_memory = function()
        if t.gc_stress then t.skip "each of very many allocations collects" end
        for _, text in ipairs(greedy) do
            stopped("memory", text, {memory = 1 << 20})
        end
    end,

    what_is_refused_memory_again_and_again_is_stopped_too = function()
        stopped("instructions", "while true do pcall(string.rep, 'x', 1 << 30) end",
            {memory = 4 << 20, instructions = 100000})
    end,

    what_prints_without_end_is_stopped_by_its_output = function()
        for _, text in ipairs {"while true do print 'x' end", "print(('x'):rep(1 << 20))",
            "while true do pcall(print, ('x'):rep(1000)) end",
            "coroutine.wrap(function() while true do print 'x' end end)()"} do
            local bytes = 0
            stopped("output", text, {output = 5000,
                to = function(piece) bytes = bytes + #piece end})
            t.eq(bytes, 5000, text)
        end
    end,

    endless_loops_are_stopped_by_their_time = function() endless "while true do end" end,
    protected_loops_are_stopped_by_their_time = function()
        endless "while true do pcall(function() while true do end end) end"
    end,
    loops_in_handlers_of_the_end_are_stopped_by_their_time = function()
        endless "local t <close> = setmetatable({}, {__close = function() while true do end end})"
    end,
    sleepless_coroutines_are_stopped_by_their_time = function()
        endless "while true do coroutine.wrap(function() coroutine.yield() end)() end"
    end,
    a_text_that_keeps_the_compiler_busy_is_stopped_by_its_time = function()
        local deep = {}
        for _ = 1, 60 do
            deep[#deep + 1] = "return function() local " .. ("a,"):rep(199) .. "a "
        end
        endless(table.concat(deep) .. ("x=x "):rep(40000) .. ("end "):rep(60))
    end,
    who_does_not_read_what_it_prints_is_not_waited_for = function()
        local job = t.ok(sandbox.start(policy {time = 0.01 * t.slow},
            "while true do print 'x' end"))
        local ended, ok, _, code = job.process:join(t.patience)
        t.eq({ended, ok, code}, {true, nil, "time"})
    end,

    deep_recursion_ends_by_itself_or_by_a_limit = function()
        for _, text in ipairs {"local function f() return 1 + f() end f()",
            "local function f() return pcall(f) end f() local function g() error(g()) end g()",
            "local t = setmetatable({}, {}) getmetatable(t).__index = t return t.x",
            "local f = print for i = 1, 300 do f = coroutine.wrap(f) end f() error 'x'",
            "return load(('('):rep(1000))()", "return load(('a='):rep(1000) .. '1')()",
            "error(setmetatable({}, {__tostring = function(t) return tostring(t) end}))"} do
            local ok, _, code = run(text, SHORT)
            t.ok(not ok and (code == "failed" or code == "memory" or code == "instructions"),
                text .. ": " .. tostring(code))
        end
    end,
}

-- ---- What it is for -----------------------------------------------------------------------------

local ITEMS = {"a", "b", ".", "%a", "[ab]", "[^a]", "[%w_]", "[a-c]", "%b()", "%f[%w]", "(a)",
    "()", "(%a+)", "%1", "[]", "$"}
local REPEATS, LETTERS = {"", "", "*", "+", "-", "?"}, {"a", "b", "c", "1", "(", ")", "_"}

local function drawn(count, ...)
    local parts, lists = {}, {...}
    for _ = 1, math.random(0, count) do
        for _, list in ipairs(lists) do parts[#parts + 1] = list[math.random(#list)] end
    end
    return table.concat(parts)
end

local function all(gmatch, s, p)
    local found = {}
    for a, b in gmatch(s, p) do found[#found + 1] = ("%s %s"):format(a, b) end
    return table.concat(found, ",")
end

local function agree(what, s, p, own, other, ...)
    local got, expected = table.pack(pcall(own, ...)), table.pack(pcall(other, ...))
    if not expected[1] then got[2], expected[2] = nil, nil end -- the words may differ
    t.eq(got, expected, ("%s of %q and %q"):format(what, s, p))
end

local uses = {
    patterns_are_those_of_lua = function()
        t.seed()
        local own = require "mare._sandbox_string"(tostring)
        local matcher = require "mare._pattern"
        for _ = 1, 1000 // t.slow do
            local s, p = drawn(8, LETTERS), (math.random(4) == 1 and "^" or "")
                .. drawn(4, ITEMS, REPEATS)
            if select(2, p:gsub("[*+?-]", "")) < 2 then s = s:rep(20) end -- too much for C
            local init = math.random(-3, #s + 2)
            agree("find", s, p, own.find, string.find, s, p, init)
            agree("find", s, p, own.find, string.find, s, p, init, true)
            agree("match", s, p, own.match, string.match, s, p, init)
            agree("gmatch", s, p, function() return all(own.gmatch, s, p) end,
                function() return all(string.gmatch, s, p) end)
            agree("gsub", s, p, own.gsub, string.gsub, s, p, "<%0%%>", math.random(0, 9))
            agree("gsub", s, p, own.gsub, string.gsub, s, p,
                function(a) return a == "a" and "A" end)
            if p:find "%W" then
                init = math.random(1, #s + 1)
                agree("matcher", s, p, matcher.find, string.find, s, p, init)
            end
        end
        for _, count in ipairs {-1, 0, 1, 999, 1000, 1001, 2000, 2500} do
            t.eq(own.rep("xy", count, ","), ("xy"):rep(count, ","))
        end
    end,

    -- As many items as these are shifted by Lua code.
    long_lists_are_those_of_lua = function()
        local own = require "mare._sandbox_base".tables
        local function lists()
            local mine, other = {}, {}
            for i = 1, 100010 do mine[i], other[i] = i, i end
            return mine, other
        end
        for name, cases in pairs {insert = {{"x"}, {5}, {1, "x"}, {"2", "x"}, {3.0, "x"},
            {100011, "x"}, {100012, "x"}, {0, "x"}, {-1 << 63, "x"}, {1.5, "x"}, {{}, "x"},
            {1, 2, 3}},
            remove = {{}, {1}, {"2"}, {3.0}, {100010}, {100011}, {100012}, {0}, {{}}}} do
            for _, case in ipairs(cases) do
                local mine, other = lists()
                local got = table.pack(pcall(own[name], mine, table.unpack(case)))
                local expected = table.pack(pcall(table[name], other, table.unpack(case)))
                if not expected[1] then got[2], expected[2] = nil, nil end -- the words may differ
                local what = ("%s %s"):format(name, case[1])
                t.eq(got, expected, what)
                t.eq(#mine, #other, what)
                for i = 1, #other do
                    if mine[i] ~= other[i] then t.eq(mine[i], other[i], what) end
                end
            end
        end
    end,

    what_is_no_pattern_is_known_without_a_match = function()
        t.seed()
        local check = require "mare._pattern".check
        for _, p in ipairs {"", "%bxy", "%f[%w]", "[]]", "[^]]", "[%]]", "()%1", "(a(b))%2%1", "%%",
            "^a-$", "a$b", "]", "*"} do
            check(p)
            string.find("ab", p)
        end
        for _, p in ipairs {"[", "a[]", "[^]", "[%]", "%", "a%", "%b", "%bx", "%f", "%fa", "%f[a",
            "(", "(()", ")", "a)", "%1", "(a%1)", "(a)%2", ("()"):rep(33)} do
            t.eq((pcall(check, p)), false, p)
        end
        for _ = 1, 1000 // t.slow do
            local s, p = drawn(8, LETTERS), drawn(4, ITEMS, REPEATS)
            if not pcall(string.find, s, p) then t.eq((pcall(check, p)), false, p) end
        end
    end,

    results_come_back = function()
        t.eq({run("return 1, 'two', nil, {3, {four = true}}")}, {true, 1, "two", nil,
            {3, {four = true}}})
        t.eq({run("return 1, 'memory'")}, {true, 1, "memory"}) -- not the code of a limit
        t.eq({run("local t = {} t.t = t return #t")}, {true, 0})
        t.eq({run("return ...", nil, 1, "x", {y = 2})}, {true, 1, "x", {y = 2}})
        t.eq({run("return arg[0], arg[1]", {name = "tide.lua"}, "x")}, {true, "tide.lua", "x"})
    end,

    what_is_no_data_stays_there = function()
        for _, text in ipairs {"return print", "return {f = print}", "return setmetatable({}, {})",
            "return coroutine.create(print)", "return {[{}] = {{{string.rep}}}}"} do
            t.eq({run(text)}, {nil, "result 1 is not plain data", "badmsg"})
        end
    end,

    errors_say_where = function()
        t.eq({run("\nerror 'oh'", {name = "x.lua"})}, {nil, "x.lua:2: oh", "failed"})
        t.eq({run("error {}")}, {nil, "table: 1", "failed"})
        t.eq({run("error()")}, {nil, "the program failed with nil", "failed"})
        t.eq({run("error(setmetatable({}, {__tostring = function() return 'told' end}))")},
            {nil, "told", "failed"})
        t.eq({run("error(setmetatable({}, {__tostring = error}))")},
            {nil, "(an error that is no text)", "failed"})
        t.eq({run("x = = 1", {name = "x.lua"})}, {nil, "x.lua:1: unexpected symbol near '='",
            "syntax"})
        t.eq({run("\27Lua")}, {nil,
            "attempt to load a binary chunk (mode is 't')", "syntax"})
        t.eq(select(3, run(("x"):rep(100), {source = 99})), "toobig")
    end,

    functions_are_allowed_one_by_one = function()
        t.eq({run("return os.time() > 0, os.exit == nil, os.remove == nil",
            {allow = {"os.time"}})}, {true, true, true, true})
        t.eq({run("return string == nil, table == nil, pcall(function() return ('').rep(2) end)",
            {allow = {"os.time"}})}, {true, true, true, false,
            "sandbox:1: attempt to call a nil value (field 'rep')"})
        t.eq({run("return require 'mare.json'.encode {1, 2}", {allow = {"mare.json"}})},
            {true, "[1,2]"})
        t.eq({run("local m = require 'mare' m.sleep(0) return m.spawn == nil, m.channel == nil",
            {allow = {"mare.sleep"}})}, {true, true, true})
        t.eq({run("return 1", {allow = {"no.such.thing"}})},
            {nil, "the policy allows 'no.such.thing', which there is not", "invalid"})
    end,

    arguments_are_checked = function()
        local allow, refused_calls = {{"os.getenv", "LA%u+"}, {"math.floor", {0, 10}},
            {"string.upper", function(s) return #s < 3 end}, {"os.time"}, {"os.date", "%%Y", true}},
            mare.channel(10)
        t.eq({run([[return pcall(os.getenv, "LANG"), pcall(os.getenv, "HOME"),
            pcall(os.getenv, "xLANG"), pcall(os.getenv, "LANGx"), pcall(os.getenv),
            pcall(os.getenv, {}), math.floor(1.5), pcall(math.floor, 11), pcall(math.floor, "1"),
            string.upper "ab", pcall(string.upper, "abc"), type(os.time()), pcall(os.time, {}),
            #os.date("%Y", 0)]], {allow = allow, refused = refused_calls})},
            {true, true, false, false, false, false, false, 1, false, false, "AB", false, "number",
                false, 4})
        t.eq({refused_calls:tryreceive()}, {"os.getenv", 1})
        t.eq({run("os.getenv 'HOME'", {allow = allow})}, {nil,
            "sandbox:1: bad argument #1 to 'os.getenv' (the policy does not allow it)", "failed"})
        stopped("instructions", 'os.getenv "' .. ('a'):rep(40) .. '"', {instructions = 1000000,
            allow = {{"os.getenv", ("a*"):rep(20) .. "b"}}})
    end,

    it_ends_with_who_started_it = function()
        local told = mare.channel(1)
        local starter = mare.spawn(function(ch)
            local job = require "mare.sandbox".start({time = 1000}, "while true do end")
            ch:send(job.process)
            mare.sleep(1000)
        end, told)
        t.needs_preemption()
        local guard = t.ok(told:receive(t.patience))
        starter:kill()
        t.ok(select(3, guard:join(t.patience)) ~= "timeout")
    end,

    it_can_be_killed = function()
        local job = t.ok(sandbox.start(policy(), "print 'here' while true do print 'x' end"))
        t.eq(job:read(t.patience), "here\n")
        job:kill()
        t.eq(select(3, job:wait(t.patience)), "killed")
    end,

    misuse_of_a_library_is_told_with_the_programs_line = function()
        local calls = {[ [[("x"):find "("]] ] = "unfinished capture",
            [ [[(("x"):rep(1000)):match(("x-"):rep(9) .. "%")]] ] = "malformed pattern",
            [ [[for _ in ("x"):gmatch "[" do end]] ] = "malformed pattern",
            [ [[("%y"):format(1)]] ] = "invalid conversion '%y' to 'format'",
            [ [[("%d"):format("x")]] ] = "bad argument #2 to 'format' (number expected",
            [ [[table.concat({{}})]] ] = "invalid value (table) at index 1 in table for 'concat'",
            [ [[table.concat({}, {})]] ] = "bad argument #2 to 'concat' (string expected",
            [ [[table.concat(setmetatable({}, {}), {})]] ] = "bad argument #2 to 'concat' (string",
            [ [[table.insert({}, 5, 1)]] ] = "bad argument #2 to 'insert' (position out of bounds)",
            [ [[table.remove({}, {})]] ] = "bad argument #2 to 'remove' (number expected",
            [ [[table.move({}, 1, {}, 1)]] ] = "bad argument #3 to 'move' (number expected",
            [ [[table.sort {1, "x"}]] ] = "attempt to compare",
            [ [[setmetatable(1, {})]] ] = "bad argument #1 to 'setmetatable' (table expected",
            [ [[table.sort({1, 2}, function() error("mine", 0) end)]] ] = "mine",
            [ [[table.sort {setmetatable({}, {__lt = function() error("mine", 0) end}), 1}]] ] =
                "mine"}
        for call, expected in pairs(calls) do
            local where = expected ~= "mine" and "x.lua:3: " or ""
            local text = ("local function f()\nlocal a = 1\n%s\nreturn a end\n\nf()"):format(call)
            local ok, message, code = sandbox.run({name = "x.lua"}, text)
            t.eq({ok, code}, {nil, "failed"}, call)
            t.eq(message:sub(1, #where + #expected), where .. expected, call)
        end
        t.fails("memory", sandbox.run({memory = 4 << 20}, "return table.concat({('x'):rep(1 << 20),\
            ('x'):rep(1 << 20), ('x'):rep(1 << 20)})"))
    end,

    misuse_is_refused = function()
        t.raises("table expected", sandbox.run, nil, "")
        t.raises("unknown option 'tiem'", sandbox.run, {tiem = 1}, "")
        t.raises("option 'memory' must be", sandbox.run, {memory = "x"}, "")
        t.raises("option 'time' must be", sandbox.run, {time = 0}, "")
        t.raises("option 'allow' must be", sandbox.run, {allow = {{"os.time", 5}}}, "")
        t.raises("string expected", sandbox.run, {}, print)
        for _, name in ipairs {"run", "start"} do -- in the caller's line, by the name it called
            local here = ("test_sandbox.lua:%%d+: bad argument #%%d to '%s' "):format(name)
            t.raises(here .. "%(unknown option 'tiem'", function()
                local _ = sandbox[name]({tiem = 1}, "")
            end)
            t.raises(here .. "%(option 'time'", function()
                local _ = sandbox[name]({time = 0}, "")
            end)
            t.raises(here .. "%(string expected", function() local _ = sandbox[name]({}, 5) end)
        end
    end,
}

local cases = {}
for _, group in ipairs {refused, stops, uses} do
    for name, case in pairs(group) do cases[name] = case end
end
return cases
