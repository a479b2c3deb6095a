-- SPDX-License-Identifier: MIT
-- How a program ends: it waits for its processes, or exits, or is stuck, or is told to.
local t, shell = require "t", require "shell"

local function ends(expected, text)
    local got = shell.lua("local mare = require 'mare'\n" .. text)
    t.eq({out = got.out, err = got.err, code = got.code}, expected)
end

-- Runs the text beside the lines of a shell, for which it is $pid and its output is at 3. Returns
-- what they print, and its exit code.
local function beside(text, lines)
    local file <close> = shell.file("local mare = require 'mare'\n" .. text)
    local fifo = os.tmpname()
    os.remove(fifo)
    return shell.run(([[
        mkfifo %s
        %s %s >%s & pid=$!
        exec 3<%s
        %s
        wait $pid; code=$?; rm %s; exit $code
    ]]):format(fifo, shell.mare, file.name, fifo, fifo, lines, fifo))
end

-- Runs the text, sends it the signals once it has printed "ready", one for each further "ready".
local function signalled(text, ...)
    local lines = {}
    for i, signal in ipairs {...} do
        lines[i] = "while read -r line <&3; do echo $line; [ \"$line\" = ready ] && break; done; "
            .. "kill -" .. signal .. " $pid"
    end
    return beside(text, table.concat(lines, "\n") .. "\ncat <&3")
end

-- Runs the text, whose output nobody reads after the line "ready"; sends it the signal then, if
-- there is one. Returns its exit code.
local function unread(text, signal)
    local kill = signal and "kill -" .. signal .. " $pid" or ""
    local got = beside(text, "read -r line <&3\n" .. kill)
    t.eq(got.err, "")
    return got.code
end

return {
    -- Waiting for the others.

    the_end_of_main_waits_for_processes = function()
        ends({out = "main\nother\n", err = "", code = 0}, [[
            mare.spawn(function(main)
                while main:alive() do mare.yield() end
                print "other"
            end, mare.self())
            print "main"
        ]])
    end,

    also_for_those_that_processes_spawn = function()
        ends({out = "4\n", err = "", code = 0}, [[
            local function chain(n)
                if n == 4 then print(n) else require "mare".spawn(chain, n + 1) end
            end
            mare.spawn(chain, 0)
        ]])
    end,

    also_when_main_died = function()
        local got = shell.lua [[
            local mare = require "mare"
            mare.spawn(function(main)
                while main:alive() do mare.yield() end
                print "other"
            end, mare.self())
            error "main died"
        ]]
        t.eq({got.out, got.code}, {"other\n", 1})
        t.ok(got.err:find "main died")
    end,

    wait_waits_for_all = function()
        ends({out = "1\n2\n3\nall\n", err = "", code = 0}, [[
            local turn = {mare.channel(), mare.channel(), mare.channel()}
            for i = 1, 3 do
                mare.spawn(function()
                    turn[i]:receive()
                    print(i)
                    if i < 3 then turn[i + 1]:send() end
                end)
            end
            mare.spawn(function(main) -- the first of them begins when the wait has
                while main:status() ~= "blocked" do mare.yield() end
                turn[1]:send()
            end, mare.self())
            assert(mare.wait() == true)
            print "all"
        ]])
    end,

    finalizers_and_close_of_main_run = function()
        ends({out = "close\ngc\n", err = "", code = 0}, [[
            kept = setmetatable({}, {__gc = function() print "gc" end})
            local c <close> = setmetatable({}, {__close = function() print "close" end})
        ]])
    end,

    -- Exits.

    exit_codes_of_main = function()
        for code, call in pairs {[0] = "os.exit()", [7] = "os.exit(7)", [1] = "os.exit(false)",
                                 [9] = "mare.exit(9)", [255] = "os.exit(-1)"} do
            ends({out = "", err = "", code = code}, call .. " print 'not reached'")
        end
        ends({out = "", err = "", code = 0}, "os.exit(true)")
        ends({out = "", err = "", code = 0}, "mare.exit()")
        ends({out = "", err = "", code = 1}, "mare.exit(false)")
    end,

    exit_of_another_process_ends_the_program = function()
        for _, call in ipairs {"os.exit(5)", "require 'mare'.exit(5)"} do
            ends({out = "", err = "", code = 5}, ([[
                mare.spawn(function() %s print "not reached" end)
                mare.channel():receive()
                print "not reached either"
            ]]):format(call))
        end
    end,

    exit_inside_pcall_and_coroutines = function()
        t.needs_preemption()
        ends({out = "", err = "", code = 3}, [[
            pcall(function() coroutine.wrap(function() os.exit(3) end)() end)
            print "not reached"
        ]])
        ends({out = "", err = "", code = 4}, [[
            pcall(table.sort, {2, 1}, function() os.exit(4) end)
            while true do end
        ]])
    end,

    exit_runs_close_handlers_everywhere = function()
        local got = shell.lua [[
            local mare = require "mare"
            local ready = mare.channel()
            for i = 1, 3 do
                mare.spawn(function()
                    local function close() print("closed", i) end
                    local c <close> = setmetatable({}, {__close = close})
                    ready:send()
                    mare.channel():receive()
                end)
                ready:receive()
            end
            local c <close> = setmetatable({}, {__close = function() print "closed\tmain" end})
            os.exit(2)
        ]]
        local lines = {}
        for line in got.out:gmatch "[^\n]+" do lines[#lines + 1] = line end
        table.sort(lines)
        t.eq(lines, {"closed\t1", "closed\t2", "closed\t3", "closed\tmain"})
        t.eq({got.err, got.code}, {"", 2})
    end,

    exit_ends_what_computes_without_end = function()
        t.needs_preemption()
        ends({out = "", err = "", code = 6}, [[
            local here = mare.channel()
            for _ = 1, 4 do
                mare.spawn(function()
                    here:send()
                    while true do end
                end)
            end
            for _ = 1, 4 do here:receive() end
            os.exit(6)
        ]])
    end,

    the_first_exit_counts = function()
        ends({out = "", err = "", code = 8}, [[
            local c <close> = setmetatable({}, {__close = function() os.exit(9) end})
            os.exit(8)
        ]])
    end,

    processes_spawned_during_the_end_are_refused_or_ended = function()
        local got = shell.lua [[
            local mare = require "mare"
            local c <close> = setmetatable({}, {__close = function()
                pcall(mare.spawn, function() while true do mare.yield() end end)
            end})
            os.exit(0)
        ]]
        t.eq({got.err, got.code}, {"", 0})
    end,

    -- Errors of processes.

    an_error_that_nobody_noticed_is_printed_once = function()
        local got = shell.lua [[
            require "mare".spawn({name = "worker"}, function() error("unnoticed", 0) end)
        ]]
        t.eq({got.out, got.code}, {"", 1})
        t.ok(got.err:find "^mare: process %d+ %(worker%) died: unnoticed\nstack traceback:",
            got.err)
        t.eq(select(2, got.err:gsub("unnoticed", "")), 1)
    end,

    an_error_value_is_printed_as_it_would_be_written = function()
        local got = shell.lua [[
            local mare = require "mare"
            mare.spawn(function()
                local err = {code = 5, path = "/moon", [true] = {1, {2}}}
                err["a b"], err["end"] = 1.5, 0
                err.self = err
                error(err)
            end)
            mare.spawn(function() error(true) end)
            mare.spawn(function() error(12) end)
            mare.spawn(function()
                error(setmetatable({}, {__tostring = function() return "by itself" end}))
            end)
            mare.spawn(function()
                local deep = {}
                for _ = 1, 1000 do deep = {deep, setmetatable({}, {__index = error})} end
                error(deep)
            end)
        ]]
        t.ok(got.err:find('died: {["a b"] = 1.5, code = 5, ["end"] = 0, path = "/moon", '
            .. 'self = <cycle>, [true] = {1, {2}}}\n', 1, true), got.err)
        t.ok(got.err:find("died: (error object is a boolean value)\n", 1, true), got.err)
        t.ok(got.err:find("died: 12\n", 1, true), got.err)
        t.ok(got.err:find("died: by itself\n", 1, true), got.err)
        t.ok(got.err:find("died: {{{{{{...}, {}}, {}}, {}}, {}}, {}}\n", 1, true), got.err)
        got = shell.lua [[error {reason = "main"}]]
        t.ok(got.err:find('^mare: {reason = "main"}\n'), got.err)
        got = shell.lua [[error(2.5)]]
        t.ok(got.err:find "^mare: 2%.5\n", got.err)
    end,

    an_error_that_somebody_noticed_is_not_printed = function()
        ends({out = "died\tdied\tdied\tkilled\n", err = "", code = 0}, [[
            local function fail() error("noticed", 0) end
            local _, _, joined = mare.spawn(fail):join()
            local _, news = mare.spawn({monitor = true}, fail)
            local _, monitored = news:receive()
            local _, _, _, selected = mare.select({mare.spawn(fail)})
            local linked = mare.spawn(function()
                mare.spawn({link = true}, fail)
                mare.channel():receive()
            end)
            local _, _, killed = linked:join()
            print(joined, monitored, selected, killed)
        ]])
    end,

    a_kill_is_not_printed = function()
        ends({out = "", err = "", code = 0}, [[
            local p = mare.spawn(function() mare.channel():receive() end)
            p:kill "quietly"
        ]])
    end,

    -- Stuck.

    a_deadlock_of_main_is_told = function()
        local got = shell.lua "require 'mare'.channel():receive()"
        t.eq({got.out, got.code}, {"", 1})
        t.ok(got.err:find "^mare: .*deadlock: every process waits", got.err)
        -- In a module of ours, but at the program's line.
        got = shell.lua [[
            local tuple = require "mare.tuple"
            local space = tuple.create()
            local _ = space:in_ "nothing"]]
        t.ok(got.err:find "^mare: [^\n]*:3: deadlock: every process waits", got.err)
    end,

    processes_that_wait_for_ever_are_ended_and_counted = function()
        local got = shell.lua [[
            local mare = require "mare"
            for _ = 1, 3 do mare.spawn(function()
                local c <close> = setmetatable({}, {__close = function() print "closed" end})
                mare.channel():receive()
            end) end
            print "main ends"
        ]]
        t.eq({got.out, got.code}, {"main ends\nclosed\nclosed\nclosed\n", 1})
        t.ok(got.err:find "^mare: deadlock: 3 processes wait", got.err)
    end,

    who_waits_where_and_for_what = function()
        local code = [[
            local mare = require "mare"
            local jobs = mare.channel(0, "jobs")
            local p = mare.spawn({name = "worker"}, function()
                jobs:receive()
            end)
            mare.spawn(function() p:join() end)
            mare.spawn(function()
                coroutine.wrap(function()
                    mare.channel():send(1)
                end)()
            end)
            mare.spawn(function()
                mare.go(function() mare.channel():receive() end)
                mare.select {mare.channel(), mare.channel()}
            end)
            if arg and arg[1] == "main" then mare.channel():receive() end
        ]]
        local lines = {
            "process %d+ %(worker%) waits at [^ ]+:4 to receive from channel %d+ %(jobs%)",
            "process %d+ waits at [^ ]+:6 for the end of process %d+ %(worker%)",
            "process %d+ waits at [^ ]+:9 to send to channel %d+, made at [^ ]+:9",
            "process %d+ waits at [^ ]+:14 in a select of 2 cases, the first: to receive from "
                .. "channel %d+, made at [^ ]+:14",
            "routine 2 of process %d+ waits at [^ ]+:13 to receive from channel %d+, made at "
                .. "[^ ]+:13"}
        local alone, main = shell.lua(code), shell.lua(code, "main")
        t.ok(alone.err:find "^mare: deadlock: 4 processes wait", alone.err)
        for _, line in ipairs(lines) do
            t.ok(alone.err:find("\nmare:   " .. line .. "\n"), alone.err)
            t.ok(main.err:find("\nmare:   " .. line .. "\n"), main.err)
        end
        t.ok(main.err:find "^mare: [^\n]*:16: deadlock", main.err)
        t.ok(main.err:find "\nmare:   process 1 waits at [^ ]+:16 to receive", main.err)
        local many = shell.lua [[
            local mare = require "mare"
            for i = 1, 15 do mare.spawn(function() mare.channel():receive() end) end
        ]]
        t.ok(many.err:find "\nmare:   and 5 more\n$", many.err)
    end,

    -- A call names who was called, and its function; a server that calls others, too.
    calls_name_the_process_and_the_function = function()
        local got = shell.lua [[
            local mare, rpc = require "mare", require "mare.rpc"
            local till = mare.spawn({name = "till"}, function()
                rpc.export("pay", function()
                    local drawn = rpc.sync("bank", "draw")()
                    return drawn
                end)
                rpc.serve()
            end)
            mare.spawn({name = "bank"}, function()
                rpc.export("draw", function() mare.channel():receive() end)
                rpc.serve()
            end)
            mare.spawn(function()
                local paid = rpc.sync(till, "pay")()
                return paid
            end)
        ]]
        t.ok(got.err:find("\nmare:   process %d+ waits at [^ ]+:14 %(in mare.rpc%) for the answer "
            .. "of process %d+ %(till%) to 'pay'\n"), got.err)
        t.ok(got.err:find("\nmare:   routine %d+ of process %d+ %(till%) waits at [^ ]+:4 "
            .. "%(in mare.rpc%) for the answer of process %d+ %(bank%) to 'draw'\n"), got.err)
    end,

    -- Two that take two locks, each in another order: both lines, and which lock it is.
    locks_are_named_by_the_line_that_made_them = function()
        local got = shell.lua [[
            local mare, monitor = require "mare", require "mare.monitor"
            local a = monitor.create()
            local b = monitor.create()
            local here, both = mare.channel(2), mare.channel()
            local function take(first, second)
                monitor.take(first)
                here:send(true)
                both:receive()
                monitor.take(second)
            end
            mare.spawn({name = "ab"}, take, a, b)
            mare.spawn({name = "ba"}, take, b, a)
            here:receive()
            here:receive()
            both:close()
            mare.wait()
        ]]
        for name, made in pairs {ab = 3, ba = 2} do
            t.ok(got.err:find("\nmare:   process %d+ %(" .. name .. "%) waits at [^ ]+:9 %(in "
                .. "mare.monitor%) in a select of 2 cases, the first: to receive from channel "
                .. "%d+, made at [^ ]+:" .. made .. "\n"), got.err)
        end
    end,

    who_asks_for_it_gets_the_exit_code_of_the_main_script_alone = function()
        local stuck = "local m = require 'mare' m.spawn(function() m.channel():receive() end)"
        local died = "local p = require 'mare'.spawn(error, 'x') require 'mare'.wait() "
        local function code(text)
            return shell.run(shell.mare .. text).code
        end
        t.eq({code(" -e " .. shell.quote(stuck)), code(" -e " .. shell.quote(died))}, {1, 1})
        t.eq({code(" --lenient -e " .. shell.quote(stuck)), code(" --lenient -e "
            .. shell.quote(died))}, {0, 0})
        t.eq(code(" --lenient -e " .. shell.quote(died .. "error 'y'")), 1)
        t.eq(code(" -e " .. shell.quote(died .. "os.exit(0)")), 0)
    end,

    a_sleeper_is_no_deadlock = function()
        ends({out = "woken\n", err = "", code = 0}, "mare.sleep(0.05) print 'woken'")
        ends({out = "timeout\n", err = "", code = 0},
            "print((select(3, mare.channel():receive(0.05))))")
    end,

    -- Signals.

    an_interrupt_ends_the_program_in_order = function()
        for signal, code in pairs {INT = 130, TERM = 143, HUP = 129} do
            local got = signalled([[
                local c <close> = setmetatable({}, {__close = function() print "closed" end})
                print "ready"
                mare.channel():receive(3600)
                print "not reached"
            ]], signal)
            t.eq({got.out, got.code}, {"ready\nclosed\n", code}, signal)
        end
    end,

    an_interrupt_ends_endless_loops = function()
        t.needs_preemption()
        local got = signalled([[
            for _ = 1, 4 do mare.spawn(function() while true do end end) end
            print "ready"
            while true do end
        ]], "INT")
        t.eq({got.out, got.code}, {"ready\n", 130})
    end,

    exit_does_not_wait_for_a_c_function = function()
        t.needs_preemption() -- else no tick gets into the system call, and main stays behind it
        -- On a worker, and on a thread of its own.
        for _, options in ipairs {"{}", "{thread = true}"} do
            ends({out = "stuck\n", err = "", code = 7}, [[
                local begun = mare.channel()
                mare.workers(2)
                mare.spawn(]] .. options .. [[, function()
                    local sleeper = io.popen "exec sleep 600 >/dev/null 2>&1"
                    begun:send(true)
                    sleeper:read "a"
                end)
                begun:receive()
                mare.sleep(0.05)
                print "stuck"
                os.exit(7)
            ]])
        end
    end,

    a_program_ends_though_nobody_reads_what_it_prints = function()
        -- The one that prints cannot be ended, and has standard output for itself meanwhile.
        t.eq(unread([[print "ready" io.write(("x"):rep(1e6))]], "TERM"), 143)
        t.eq(unread([[print "ready" print(("x"):rep(1e6))]], "INT"), 130)
        t.eq(unread [[
            mare.workers(2)
            local p = mare.spawn({thread = true}, function()
                print "ready"
                io.write(("x"):rep(1e6))
            end)
            while p:status() ~= "running" do mare.yield() end
            os.exit(7)
        ]], 7)
    end,

    a_signal_ends_a_program_that_only_has_to_write_what_it_printed = function()
        t.eq(unread([[
            print "ready"
            io.stdout:setvbuf("full", 1e6)
            io.write(("x"):rep(9e5))
        ]], "TERM"), 143)
    end,

    what_was_printed_is_written_before_the_end = function()
        -- However long whoever reads it takes, if no signal comes.
        local got = beside([[
            io.stdout:setvbuf("full", 1e6)
            io.write(("x"):rep(9e5))
            os.exit(3)
        ]], "sleep 1\nwc -c <&3")
        t.eq({got.out, got.err, got.code}, {"900000\n", "", 3})
    end,

    a_second_interrupt_ends_it_at_once = function()
        local got = signalled([[
            mare.workers(2)
            mare.workers(1) -- also with a thread that has ended, and is to be joined some time
            local c <close> = setmetatable({}, {__close = function()
                print "ready"
                while true do end
            end})
            mare.sleep(0.1)
            print "ready"
            mare.channel():receive(3600)
        ]], "INT", "INT")
        t.eq({got.out, got.err, got.code}, {"ready\nready\n", "", 130})
    end,

    a_signal_during_the_end = function()
        local got = signalled([[
            local c <close> = setmetatable({}, {__close = function()
                print "ready"
                local start = mare.now()
                while mare.now() - start < 0.2 do end
                print "closed"
            end})
            os.exit(5)
        ]], "TERM")
        t.ok(got.code == 5 or got.code == 143, got.code)
        t.eq(got.out, "ready\nclosed\n")
    end,

    a_signal_and_a_machine_that_stands_still = function()
        -- The second that the program has for its end is not over because nobody could run in it.
        local got = signalled([[
            local c <close> = setmetatable({}, {__close = function()
                print "ready"
                for _ = 1, 3 do
                    local start = mare.now()
                    while mare.now() - start < 0.01 do end
                end
                print "closed"
            end})
            print "ready"
            mare.channel():receive(3600)
        ]], "TERM", "STOP $pid; sleep 1.5; kill -CONT")
        t.eq({got.out, got.code}, {"ready\nready\nclosed\n", 143})
    end,

    a_signal_at_any_time_of_the_end = {function()
        -- It is sent when main is about to end, or while the others are killed, or when the runtime
        -- stops, or too late.
        local programs = {
            [[print "ready"]],
            [[print "ready" os.exit(0)]],
            [[for _ = 1, 50 do mare.spawn(function() mare.channel():receive() end) end
              print "ready"
              os.exit(0)]],
            [[for _ = 1, 50 do mare.spawn(function()
                  local c <close> = setmetatable({}, {__close = function() mare.yield() end})
                  mare.sleep(3600)
              end) end
              kept = setmetatable({}, {__gc = function() for _ = 1, 1e5 do end end})
              print "ready"
              mare.exit(0)]],
        }
        for _, program in ipairs(programs) do
            for _ = 1, t.slow > 1 and 3 or 8 do
                for signal, code in pairs {INT = 130, TERM = 143} do
                    local got = signalled(program, signal)
                    t.ok(got.code == 0 or got.code == code, got.code)
                    t.eq(got.out, "ready\n")
                end
            end
        end
    end, timeout = 120},
}
