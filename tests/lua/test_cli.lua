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
        t.ok(got.err:find "^mare: cannot open /nonexistent/app.lua", got.err)
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
        t.ok(got.code ~= 0, "silence about lost output")
    end,

    a_closed_output_is_survived = function()
        local got = shell.run(shell.mare .. [[ -e "for _ = 1, 1e5 do print 'x' end" | head -1]])
        t.eq(got.out, "x\n")
        got = shell.run(shell.mare .. [[ -e "print 'x'" >&-; echo ended $?]])
        t.ok(got.out:find "^ended %d+\n$" and not got.out:find "139", got.out)
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
        t.ok(got.err:find("no timer for a worker", 1, true), got.err)
    end,
}
