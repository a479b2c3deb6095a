-- SPDX-License-Identifier: MIT
-- The mare command: ways to give it a program, exit codes, what is printed.
local t, shell = require "t", require "shell"

local function prints(expected, result)
    t.eq({result.out, result.err, result.code}, {expected, "", 0})
end

return {
    a_file_with_arguments = function()
        local file <close> = shell.file [[
            print(arg[0] == ..., select("#", ...), arg[1], arg[2], #arg, arg[3])
            print(select(2, ...))
        ]]
        local got = shell.run(shell.mare .. " " .. file.name .. " one 'two words'")
        prints("false\t2\tone\ttwo words\t2\tnil\ntwo words\n", got)
        got = shell.lua("print(arg[0])")
        t.ok(got.out:find "^/tmp/", got.out)
    end,

    a_piece_of_code = function()
        prints("2\n", shell.run(shell.mare .. " -e 'print(1 + 1)'"))
        prints("a b\n", shell.run(shell.mare .. " -e 'print(table.concat({...}, \" \"))' a b"))
        local got = shell.run(shell.mare .. " -e")
        t.eq(got.code, 2)
        t.ok(got.err:find "%-e", got.err)
    end,

    standard_input = function()
        prints("hi\t1\n", shell.run("echo 'print(\"hi\", ...)' | " .. shell.mare .. " - 1"))
        prints("piped\n", shell.run("echo 'print \"piped\"' | " .. shell.mare))
    end,

    a_program_reads_its_own_standard_input = function()
        local file <close> = shell.file "print(io.read 'n', io.read 'l', io.read 'L', io.read 'a')"
        prints("1\t\tline\n\trest\n", shell.run("printf '1\\nline\\nrest' | " .. shell.mare .. " "
            .. file.name))
    end,

    a_file_that_begins_with_a_hash = function()
        prints("ok\n", shell.lua "#!/usr/bin/env mare\nprint 'ok'")
        local line = "print(debug.getinfo(1, 'l').currentline)"
        prints("2\n", shell.lua("#!/usr/bin/env mare\n" .. line))
        prints("", shell.lua "#!/usr/bin/env mare")
        prints("2\n", shell.run("printf '#!x\\n%s' " .. shell.quote(line) .. " | " .. shell.mare
            .. " -"))
    end,

    a_file_that_begins_with_a_byte_order_mark = function()
        prints("ok\n", shell.lua "\xEF\xBB\xBFprint 'ok'")
        prints("2\n", shell.lua "\xEF\xBB\xBF#!mare\nprint(debug.getinfo(1, 'l').currentline)")
        -- Half of one is no mark.
        local got = shell.lua "\xEF\xBBprint 'no'"
        t.eq({got.code, got.out}, {1, ""})
        t.ok(got.err:find "unexpected symbol near '<\\239>'", got.err)
    end,

    an_empty_file = function()
        prints("", shell.lua "")
    end,

    what_is_no_program = function()
        local got = shell.run(shell.mare .. " /tmp")
        t.eq({got.err, got.code}, {"mare: cannot read /tmp: Is a directory\n", 1})
        got = shell.run(shell.mare .. " /proc/self/mem") -- it opens, but cannot be read
        t.eq({got.err, got.code}, {"mare: cannot read /proc/self/mem: Input/output error\n", 1})
        got = shell.lua "\27Lua and then something else"
        t.ok(got.err:find "^mare: /tmp/[^:]*: bad binary format", got.err)
        t.eq(got.code, 1)
        local binary = string.dump(load "print 'whole'")
        for length = 4, #binary - 1, 7 do -- cut off anywhere
            got = shell.lua(binary:sub(1, length))
            t.ok(got.err:find "^mare: /tmp/[^:]*: bad binary format %(truncated chunk%)", got.err)
            t.eq({got.code, got.out}, {1, ""})
        end
    end,

    a_file_that_may_not_be_read = function()
        local file <close> = shell.file "print 'read'"
        assert(os.execute("chmod 000 " .. file.name))
        local copy <close> = shell.file ""
        local mare = shell.mare
        if io.open(file.name) then -- root may read everything; let nobody try, with a copy of it
            assert(os.execute(("cp %s %s; chmod 755 %s"):format(mare, copy.name, copy.name)))
            -- Nobody may not read a sanitizer's list of suppressions either.
            mare = "env -u TSAN_OPTIONS -u LSAN_OPTIONS " ..
                "setpriv --reuid=65534 --regid=65534 --clear-groups " .. copy.name
        end
        local got = shell.run(mare .. " " .. file.name)
        t.eq({got.err, got.code}, {"mare: cannot open " .. file.name .. ": Permission denied\n", 1})
    end,

    a_precompiled_file = function()
        local file <close> = shell.file(string.dump(load "print('compiled', ...)"))
        prints("compiled\tx\n", shell.run(shell.mare .. " " .. file.name .. " x"))
    end,

    help_and_version = function()
        local got = shell.run(shell.mare .. " help")
        t.eq({got.code, got.err}, {0, ""})
        for _, word in ipairs {"mare app.lua", "help", "-e", "-v"} do
            t.ok(got.out:find(word, 1, true), got.out)
        end
        for _, word in ipairs {"help", "-e", "-", "-v"} do
            local one = shell.run(shell.mare .. " help " .. word)
            t.eq(one.code, 0)
            t.ok(one.out:find("mare " .. word, 1, true), one.out)
        end
        t.eq(shell.run(shell.mare .. " help nosuch").code, 2)
        t.ok(shell.run(shell.mare .. " -v").out:find "^Maré %d+%.%d+")
        t.eq(shell.run(shell.mare .. " --help").out, got.out)
    end,

    an_unknown_option_is_wrong_usage = function()
        local got = shell.run(shell.mare .. " --nosuch")
        t.eq({got.code, got.out}, {2, ""})
        t.ok(got.err:find("--nosuch", 1, true), got.err)
    end,

    a_missing_file = function()
        local got = shell.run(shell.mare .. " /nonexistent/app.lua")
        t.eq({got.code, got.out}, {1, ""})
        t.eq(got.err, "mare: cannot open /nonexistent/app.lua: No such file or directory\n")
    end,

    a_syntax_error = function()
        local got = shell.lua "x ="
        t.eq({got.code, got.out}, {1, ""})
        t.ok(got.err:find "^mare: /tmp/[^:]*:1: unexpected symbol near <eof>\n$", got.err)
    end,

    an_error_in_main_comes_with_a_traceback = function()
        local got = shell.lua "local function f() error 'oops' end\nf()"
        t.eq({got.code, got.out}, {1, ""})
        t.ok(got.err:find "^mare: /tmp/[^:]*:1: oops\nstack traceback:\n", got.err)
        t.ok(got.err:find ":2: in main chunk", got.err)
        t.eq(select(2, got.err:gsub("oops", "")), 1, "printed once")
    end,

    an_error_that_is_no_string = function()
        local got = shell.lua "error {}"
        t.eq(got.code, 1)
        t.ok(got.err:find "^mare: ", got.err)
        got = shell.lua "error(setmetatable({}, {__tostring = function() return 'as text' end}))"
        t.eq(got.code, 1)
        t.ok(got.err:find "as text", got.err)
        t.eq(shell.lua "error()".code, 1)
    end,

    output_is_not_lost_when_it_dies = function()
        local got = shell.lua "io.write 'partial'; error 'oops'"
        t.eq({got.out, got.code}, {"partial", 1})
        t.eq(shell.lua "io.write 'partial'; os.exit(3)".out, "partial")
    end,

    lines_of_many_processes_stay_whole = function()
        local got = shell.lua [[
            local mare = require "mare"
            for i = 1, 20 do
                mare.spawn(function() for _ = 1, 50 do print(("x"):rep(100), i) end end)
            end
        ]]
        local count = 0
        for line in got.out:gmatch "[^\n]+" do
            t.ok(line:find "^x+\t%d+$" and #line:match "x+" == 100, line)
            count = count + 1
        end
        t.eq({count, got.code}, {1000, 0})
    end,

    a_full_disk_is_noticed = function()
        local got = shell.run(shell.mare .. [[ -e "
            local ok, message = io.stdout:write(('x'):rep(100000))
            if ok then ok, message = io.stdout:flush() end
            io.stderr:write(tostring(ok), ' ', tostring(message))
        " >/dev/full]])
        t.eq({got.err, got.code}, {"nil No space left on device", 0})
        -- What is only found out at the end still makes the program fail.
        got = shell.run(shell.mare .. [[ -e "io.write 'x'" >/dev/full]])
        t.eq({got.err, got.code}, {"mare: standard output: No space left on device\n", 1})
        got = shell.run(shell.mare .. [[ -e "print 'x'" >/dev/full]])
        t.eq({got.err, got.code}, {"mare: standard output: No space left on device\n", 1})
        got = shell.run(shell.mare .. [[ -e "print(('x'):rep(100000))" >/dev/full]]) -- in two parts
        t.eq({got.err, got.code}, {"mare: standard output: No space left on device\n", 1})
        got = shell.run(shell.mare .. [[ -e "error 'oops'" 2>/dev/full]])
        t.eq(got.code, 1)
    end,

    a_closed_output_is_survived = function()
        -- As any program does, it ends by the signal of a pipe that nobody reads.
        local got = shell.run("{ " .. shell.mare
            .. [[ -e "while true do print 'x' end"; echo ended $? >&2; } | head -1]])
        t.eq({got.out, got.err}, {"x\n", "ended 141\n"})
        got = shell.run("{ " .. shell.mare .. [[ -e "
            require 'mare'.spawn(function() while true do print 'x' end end):join()
        "; echo ended $? >&2; } | head -1]])
        t.eq({got.out, got.err}, {"x\n", "ended 141\n"})
        got = shell.run(shell.mare .. [[ -e "print 'x'" >&-; echo ended $?]])
        t.ok(got.out == "ended 0\n" or got.out == "ended 1\n", got.out)
        got = shell.run(shell.mare .. [[ -e "error 'x'" 2>&-; echo ended $?]])
        t.eq(got.out, "ended 1\n")
    end,

    no_standard_input_at_all = function()
        local got = shell.run(shell.mare .. [[ -e "print(io.read())" <&-]])
        t.ok(got.out:find "^nil", got.out)
        t.eq(got.code, 0)
        got = shell.run(shell.mare .. " - <&-")
        t.eq({got.out, got.code}, {"", 1})
        t.ok(got.err:find "^mare: cannot read stdin", got.err)
    end,

    descriptors_that_are_closed_are_nobody_elses = function()
        local name = os.tmpname()
        local got = shell.run(shell.mare .. ([[ -e "
            local net, child = require 'mare.net', require 'mare.child'
            local out = assert(io.open('%s', 'w'))
            local listener = assert(net.listen('127.0.0.1', 0))
            out:write(tostring(listener:accept(0.01)), ' ', tostring(io.write 'x'), ' ')
            print 'not in the file'
            out:write(child.spawn {'sh', '-c', 'echo neither is this'}:wait())
            out:close()
        " <&- >&- 2>&-; echo ended $?]]):format(name))
        t.ok(got.out:find "^ended [01]\n", got.out) -- by itself: print has failed
        local file <close> = assert(io.open(name))
        os.remove(name)
        t.ok(file:read "a":find "^nil file %(0x%x+%) exit", "others had their numbers")
    end,

    paths_come_from_the_environment = function()
        local got = shell.run("LUA_PATH='/from/env/?.lua;;' LUA_CPATH='/c/env/?.so' " .. shell.mare
            .. [[ -e "print(package.path:sub(1, 15), package.cpath);
                     require 'mare'.spawn(function() print(package.cpath) end)"]])
        t.eq(got.out, "/from/env/?.lua\t/c/env/?.so\n/c/env/?.so\n")
    end,

    the_main_script_is_a_process_like_others = function()
        prints("running\ttrue\n1\n", shell.lua [[
            local mare = require "mare"
            print(mare.self():status(), mare.self():id() > 0)
            local ch = mare.channel()
            mare.spawn(function() ch:send(1) end)
            print(coroutine.wrap(function() return ch:receive() end)())
        ]])
    end,

    warnings = function()
        local got = shell.lua "warn '@on'; warn('one ', 'two'); warn '@off'; warn 'three'"
        t.eq({got.err, got.code}, {"Lua warning: one two\n", 0})
    end,

    -- A limit on pending signals is a limit on timers. What becomes ready behind an endless loop is
    -- run all the same, by the other worker.
    workers_without_a_timer = function()
        local mare = "prlimit --sigpending=0 " .. shell.quote(shell.mare)
        local got = shell.run(mare .. " -e " .. shell.quote [[
            local mare = require "mare"
            mare.workers(2)
            local p = mare.spawn(function() return 42 end)
            while p:alive() do end
            print(p:join())]])
        t.eq({got.out, got.code}, {"true\t42\n", 0})
        t.ok(got.err:find("no timer for mare-0", 1, true), got.err)
        -- And timers expire on a worker that is busy.
        got = shell.run(mare .. " -e " .. shell.quote [[
            local mare = require "mare"
            mare.workers(1)
            local there, back = mare.channel(), mare.channel()
            local p = mare.spawn(function() while back:send(there:receive()) do end end)
            local q = mare.spawn(function() while there:send(1) do back:receive() end end)
            mare.sleep(0.05)
            p:kill()
            q:kill()
            print "slept"]])
        t.eq({got.out, got.code}, {"slept\n", 0})
    end,

    a_trace_tells_what_processes_do = function()
        local file <close> = shell.file ""
        local code = shell.quote [[
            local mare = require "mare"
            local ch = mare.channel()
            local p = mare.spawn(function() return ch:receive() end)
            ch:send(...)
            print(p:join())
        ]]
        local got = shell.run(("%s --trace %s -e %s one"):format(shell.mare, file.name, code))
        prints("true\tone\n", got)
        local events, at, by = {}, {}, {}
        for line in io.lines(file.name) do
            local event = {name = line:match '"event":"(%a+)"'}
            for name, value in line:gmatch '"(%a+)":(%d+)' do
                event[name] = math.tointeger(value) or value
            end
            events[#events + 1] = event
            t.eq(event.number, #events, line)
            at[event.name] = event
            by[event.name .. event.process] = event
        end
        for _, name in ipairs {"spawn", "start", "send", "receive", "block", "wake", "end"} do
            t.ok(at[name], name)
        end
        local main = events[1].other
        local child = by["spawn" .. main].other
        t.eq(by["receive" .. child].cause, by["send" .. main].number)
        t.eq(by["receive" .. child].channel, by["send" .. main].channel)
        t.eq(by["receive" .. main].cause, by["end" .. child].number)
        t.eq(events[#events].name, "end")
    end,

    a_trace_tells_names = function()
        local file <close> = shell.file ""
        local code = shell.quote [[
            local mare = require "mare"
            local ch = mare.channel(1, 'jo"bs\\ \n\xff')
            mare.spawn({name = ("\u{e9}"):rep(40)}, function() ch:send(1) end):join()
            ch:receive()
            mare.channel(1):send(2)
        ]]
        prints("", shell.run(("%s --trace %s -e %s"):format(shell.mare, file.name, code)))
        local named = {}
        for line in io.lines(file.name) do
            local event = t.ok(require "mare.json".decode(line))
            local name = event.name or event.channel_name
            named[event.event] = name or named[event.event]
        end
        t.eq(named, {start = ("\u{e9}"):rep(31), send = 'jo"bs\\ \n?', receive = 'jo"bs\\ \n?'})
    end,

    a_trace_needs_a_file_that_can_be_written = function()
        local got = shell.run(shell.mare .. " --trace")
        t.eq(got.code, 2)
        t.ok(got.err:find "%-%-trace", got.err)
        got = shell.run(shell.mare .. " --trace /nosuch/file -e 'print(1)'")
        t.eq({got.out, got.code}, {"", 1})
        t.ok(got.err:find("/nosuch/file", 1, true), got.err)
        got = shell.run(shell.mare .. " --trace /dev/full -e 'print(1)'")
        t.eq({got.out, got.code}, {"1\n", 1})
        t.eq(got.err, "mare: /dev/full: not all of the trace could be written: "
            .. "No space left on device\n")
        t.in_folder(function(folder)
            local path = folder .. "/full.svg"
            t.ok(require "mare.file".symlink("/dev/full", path))
            got = shell.run(shell.mare .. " --profile " .. path .. " -e 'print(1)'")
            t.eq({got.out, got.code}, {"1\n", 1})
            t.eq(got.err, "mare: " .. path .. ": not all of the profile could be written: "
                .. "No space left on device\n")
            shell.run(shell.mare .. " --trace " .. folder .. "/trace -e 'print(1)'")
            got = shell.run(shell.mare .. " trace draw " .. folder .. "/trace --out " .. path)
            t.eq({got.out, got.code}, {"", 1})
            t.eq(got.err, "mare: " .. path .. ": not all of the drawing could be written: "
                .. "No space left on device\n")
        end)()
    end,

    tests_of_users = t.in_folder(function(folder)
        t.needs_preemption()
        local file = require "mare.file"
        os.execute("mkdir -p " .. folder .. "/tests/deep")
        t.ok(file.write(folder .. "/tests/helper.lua", [[
            return {two = 2, check = function(t, x) t.eq(x, 2) end}
        ]]))
        t.ok(file.write(folder .. "/tests/deep/odd_test.lua", "return {deep = function() end}"))
        t.ok(file.write(folder .. "/tests/test_some.lua", [[
            local t, helper = require "mare.test", require "helper"
            return {
                adds = function() t.eq(1 + 1, helper.two) end,
                differs = function() t.eq({1, a = {2}}, {1, a = {3}}) end,
                helped = function() helper.check(t, 3) end,
                dies = function() error {code = 5} end,
                hangs = {function() require "mare".channel():receive() end, timeout = 1},
                spins = {function() while true do end end, timeout = 0.01},
                left_out = function() t.skip "today" end,
            }
        ]]))
        local got = shell.run(("cd %s && %s test"):format(folder, shell.mare))
        t.eq(got.code, 1)
        local lines = {}
        for line in got.out:gmatch "[^\n]+" do
            lines[#lines + 1] = line:gsub("[%d.]+ seconds?", "SPAN"):gsub("l %d+,", "l N,")
                :gsub(" in .*$", "")
        end
        -- Tracebacks have the frames of the test, not those of the runner, and only if they say
        -- more than the message.
        t.eq(lines, {"ok 1 - deep", "ok 2 - adds", "not ok 3 - dies", "#   {code = 5}",
            "#   stack traceback:", "#   \ttests/test_some.lua:6:", "not ok 4 - differs",
            "#   tests/test_some.lua:4: expected {1, a = {3}}, got {1, a = {2}}",
            "not ok 5 - hangs",
            "#   still running after SPAN: it waits at tests/test_some.lua:7 to receive from "
                .. "channel N, made at tests/test_some.lua:7",
            "not ok 6 - helped", "#   tests/helper.lua:1: expected 2, got 3",
            "#   stack traceback:", "#   \ttests/helper.lua:1:", "#   \ttests/test_some.lua:5:",
            "ok 7 - left_out # SKIP today",
            "not ok 8 - spins", "#   still running after SPAN: it computes", "1..8"})
        local function code(arguments)
            return shell.run(("cd %s && %s test %s"):format(folder, shell.mare, arguments)).code
        end
        t.eq({code "adds", code "nothing", code "--loud", code "--timeout x", code "tests/deep",
            code "--timeout 30 tests/test_some.lua adds"}, {0, 1, 2, 2, 0, 0})
        local function says(arguments)
            got = shell.run(("cd %s && %s test %s"):format(folder, shell.mare, arguments))
            return got.out .. got.err
        end
        t.eq(says "nothing", "1..0\nmare test: no case has a name that matches 'nothing'\n")
        t.eq(says "nowhere.lua", "not ok 1 - nowhere.lua (died)\n"
            .. "#   cannot open nowhere.lua: No such file or directory\n1..1\n")
        for text, said in pairs {
            ["return {}}"] = "wrong.lua:1: <eof> expected near '}'",
            ["return 5"] = "wrong.lua: a test file must return a table of cases, got number",
            ["return {function() end}"] = "wrong.lua: case 1: a case is name = function, or name = "
                .. "{function, timeout = seconds}",
        } do
            t.ok(file.write(folder .. "/wrong.lua", text))
            got = shell.run(("cd %s && %s test wrong.lua"):format(folder, shell.mare))
            t.eq(got.code, 1)
            t.ok(got.out:find("not ok 1 - wrong.lua (died)\n#   " .. said .. "\n", 1, true),
                got.out)
        end
    end),

    -- Whatever a case does to the report, and to the program, a run that is not whole has failed.
    tests_that_would_lie = t.in_folder(function(folder)
        t.needs_preemption()
        local file = require "mare.file"
        local function run(cases)
            t.ok(file.write(folder .. "/test_odd.lua", "return {" .. cases .. "}"))
            return shell.run(("cd %s && %s test"):format(folder, shell.mare))
        end
        for code = 0, 2 do
            local got = run("b = function() os.exit(" .. code .. ") end, a = function() end")
            t.eq(got.code, 1)
            t.ok(got.out:find(("Bail out! The tests ended early, with exit code %d: did a case "
                .. "call os.exit?\n"):format(code), 1, true), got.out)
        end
        local got = run [=[["a\nnot ok 7 # x"] = function() end, fine = function() end,
            red = function() error "\27[31m" end]=]
        t.eq({got.code, got.out}, {1, "ok 1 - a\\x0anot ok 7 \\# x\nok 2 - fine\n"
            .. "not ok 3 - red\n#   test_odd.lua:2: \\x1b[31m\n1..3\n"})
        for _, field in ipairs {"timeout = 'x'", "timeout = -1", "timeout = 0", "timout = 3"} do
            got = run("a = {function() end, " .. field .. "}")
            t.eq({got.code, got.err}, {1, ""})
            t.ok(got.out:find('test_odd.lua: case "a": a case is name = function, or name = '
                .. "{function, timeout = seconds}", 1, true), got.out)
        end
        t.ok(file.write(folder .. "/test_odd.lua", "while true do end"))
        got = shell.run(("cd %s && %s test --timeout 0.1"):format(folder, shell.mare))
        t.ok(got.out:find "has not returned its cases after [%d.]+ seconds: it computes", got.out)
    end),

    what_came_before_the_program = function()
        local file <close> = shell.file [[
            local list = {}
            for i = -10, #arg do list[#list + 1] = arg[i] end
            print(table.concat(list, " ", 2), arg[-1])
        ]]
        prints(file.name .. " x\t" .. shell.mare .. "\n",
            shell.run(("%s %s x"):format(shell.mare, file.name)))
        prints(("--lenient -l s=string %s\ts=string\n"):format(file.name),
            shell.run(("%s --lenient -l s=string %s"):format(shell.mare, file.name)))
        prints("-e - x\t-e\n", shell.run(("%s -e %s x"):format(shell.mare,
            shell.quote(assert(io.open(file.name)):read "a"))))
    end,

    modules_before_the_program = function()
        prints("[1]\ttrue\n", shell.run(shell.mare .. " -l cjson -l pack=table -e "
            .. shell.quote "print(cjson.encode {1}, pack == table)"))
        local got = shell.run(shell.mare .. " -l no.such -e 'print(1)'")
        t.eq({got.out, got.code}, {"", 1})
        t.ok(got.err:find "module 'no.such' not found", got.err)
        t.eq(shell.run(shell.mare .. " -l").code, 2)
    end,

    help_of_functions = function()
        local got = shell.run(shell.mare .. " help mare.spawn")
        t.eq({got.err, got.code}, {"", 0})
        t.ok(got.out:find("^mare.spawn%(%[options,%] body, ...%)\n\nCreates a process"), got.out)
        got = shell.run(shell.mare .. " help spawn")
        t.ok(got.out:find "^mare.spawn%(.*\nchild.spawn%(options%)\n", got.out) -- ours first
        got = shell.run(shell.mare .. " help supervisor.asked") -- for a terminal
        t.ok(not got.out:find "```" and got.out:find "\n\n    local tree = ", got.out)
        for line in got.out:gmatch "[^\n]+" do t.ok(#line <= 92 or line:find "^    ", line) end
        got = shell.run(shell.mare .. " help spaw")
        t.eq({got.out, got.code}, {"", 2})
        t.ok(got.err:find "no command, function or module 'spaw'.*mare.spawn%(", got.err)
    end,
}
