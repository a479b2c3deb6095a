-- SPDX-License-Identifier: MIT
-- Looking into whole programs: profiles, and what is said of a process that stays in C.
local t, shell = require "t", require "shell"

local function slurp(name)
    local file <close> = assert(io.open(name, "rb"))
    return file:read "a"
end

-- A command of the shell that lasts until so many lines were told on standard error, a file.
local function until_told(count)
    return ("until [ $(wc -l </proc/self/fd/2) -ge %s ]; do sleep 0.05; done"):format(count)
end

local busy = [[
    local mare = require "mare"
    local function inner(n) local x = 0 for i = 1, n do x = x + i % 7 end return x end
    local function outer() local c = os.clock() repeat inner(1e4) until os.clock() - c > 0.1 end
    mare.spawn({name = "<clerk>"}, function()
        coroutine.wrap(function() outer() end)()
    end):join()
    outer()
]]

return {
    a_profile_has_the_stacks = function()
        t.needs_preemption()
        local file <close> = shell.file ""
        local code <close> = shell.file(busy)
        local got = shell.run(("%s --profile %s %s"):format(shell.mare, file.name, code.name))
        t.eq({got.code, got.err}, {0, ""})
        local all, of_clerk, of_main = 0, 0, 0
        for line in slurp(file.name):gmatch "[^\n]+" do
            local stack, us = line:match "^(.*) (%d+)$"
            t.ok(stack, line)
            all = all + us
            if stack:find "^<clerk>;.*outer %([^;]*:3%)" then of_clerk = of_clerk + us end
            if stack:find "^main;.*outer %([^;]*:3%)" then of_main = of_main + us end
        end
        -- Each has a tenth of a second of the program's time, at least; much less is lost.
        t.ok(of_clerk > 20000 and of_main > 20000, ("%d, %d of %d"):format(of_clerk, of_main, all))
    end,

    a_flame_graph_is_drawn = t.in_folder(function(folder)
        t.needs_preemption()
        local code <close> = shell.file(busy)
        local got = shell.run(("%s --profile %s/p.svg %s"):format(shell.mare, folder, code.name))
        t.eq({got.code, got.err}, {0, ""})
        local svg = slurp(folder .. "/p.svg")
        t.ok(svg:find '^<svg xmlns="http://www.w3.org/2000/svg"' and svg:find "</svg>\n$", svg)
        t.ok(svg:find "<title>all: [%d.]+ ms, 100.0 %%</title>", svg)
        t.ok(svg:find "<title>&#60;clerk&#62;: [%d.]+ ms, [%d.]+ %%</title>", svg)
        t.ok(svg:find "<title>outer %([^<]*:3%): ", svg)
    end),

    a_profile_needs_a_file_that_can_be_written = function()
        local got = shell.run(shell.mare .. " --profile")
        t.eq(got.code, 2)
        t.ok(got.err:find "%-%-profile needs a file", got.err)
        got = shell.run(shell.mare .. " --profile /nosuch/file -e 'print(1)'")
        t.eq({got.code, got.out}, {1, ""})
        got = shell.run(shell.mare .. " --profile /dev/full -e 'local c = os.clock() "
            .. "repeat until os.clock() - c > 0.02'")
        t.needs_preemption()
        t.eq(got.code, 1)
        t.ok(got.err:find "not all of the profile", got.err)
    end,

    -- Who forgets the file must not find the program overwritten.
    a_profile_or_a_trace_never_overwrites_the_program = t.in_folder(function(folder)
        local program, text = folder .. "/app.lua", "print 'ran'"
        for _, option in ipairs {"--profile", "--trace"} do
            for _, arguments in ipairs {"", " one"} do
                local file <close> = assert(io.open(program, "w"))
                file:write(text)
                file:close()
                local got = shell.run(("%s %s %s%s </dev/null"):format(shell.mare, option,
                    program, arguments))
                t.eq({got.code, got.out, slurp(program)}, {2, "", text})
                t.ok(got.err:find(option .. " would overwrite " .. program, 1, true), got.err)
            end
            local got = shell.run(("%s %s %s/out </dev/null"):format(shell.mare, option, folder))
            t.eq({got.code, (io.open(folder .. "/out"))}, {2})
            t.ok(got.err:find(option .. " needs a file and a program", 1, true), got.err)
        end
    end),

    who_sleeps_in_a_c_function_is_told = function()
        t.needs_preemption()
        local code <close> = shell.file [[
            require("mare").spawn({name = "reader"}, function()
                local pipe <close> = io.popen(os.getenv "SLEEPS")
                pipe:read "a"
            end):join()
        ]]
        local got = shell.run(("SLEEPS='%s' MARE_STUCK=0.3 %s %s"):format(until_told(1), shell.mare,
            code.name))
        t.eq(got.code, 0)
        t.ok(got.err:find("^mare: process %d+ %(reader%) has held a worker for [%d.]+ s, "
            .. "in a C function 'read' called at [^\n]*:3\n"), got.err)
        t.ok(got.err:find("\nmare: process %d+ %(reader%) is back from C after [%d.]+ s, "
            .. "at [^\n]*:%d\n"), got.err)
        got = shell.run("SLEEPS='sleep 1' MARE_STUCK=0 " .. shell.mare .. " " .. code.name)
        t.eq(got.err, "")
    end,

    -- A turn that ends in C leaves nothing behind for the next one.
    each_that_sleeps_in_its_last_call_is_told = function()
        t.needs_preemption()
        local code <close> = shell.file [[
            local mare = require "mare"
            mare.workers(1)
            for i, name in ipairs {"one", "two"} do
                mare.spawn({name = name}, function()
                    local pipe = io.popen((os.getenv "SLEEPS":gsub("COUNT", i)))
                    return pipe:read "a"
                end):join()
            end
            for _ = 1, 2 do
                mare.spawn(function()
                    local clock = os.clock()
                    repeat until os.clock() - clock > 0.1
                end)
            end
        ]]
        local got = shell.run(("SLEEPS='%s' MARE_STUCK=0.2 %s %s"):format(until_told "COUNT",
            shell.mare, code.name))
        local told = "mare: process %d+ %(NAME%) has held a worker for [%d.]+ s, "
            .. "in a C function 'read' called at [^\n]*:6\n"
        t.eq(got.code, 0)
        t.ok(got.err:find("^" .. told:gsub("NAME", "one") .. told:gsub("NAME", "two") .. "$"),
            got.err)
    end,

    who_computes_in_a_c_function_is_told = function()
        t.needs_preemption()
        local code <close> = shell.file [[
            local text = ("x"):rep(10000)
            text:find "^x*x*y"
            local x = 0
            pcall(string.gsub, text, "^x*x*y", "")
            x = 1
        ]]
        local got = shell.run("MARE_STUCK=0.05 " .. shell.mare .. " " .. code.name)
        local told = "mare: process 1 has held a worker for [%d.]+ s, in a C function '"
        local back = "mare: process 1 is back from C after [%d.]+ s, at [^\n]*:"
        t.ok(got.err:find("^" .. told .. "find' called at [^\n]*:2%f[%D][^\n]*\n"
            .. back .. "3\n" .. told .. "pcall' called at [^\n]*:4%f[%D][^\n]*\n"
            .. back .. "5\n$"), got.err)
    end,

    -- A finalizer is not interrupted.
    lua_code_that_cannot_give_way_is_told = function()
        t.needs_preemption()
        local code <close> = shell.file [[
            setmetatable({}, {__gc = function() for _ = 1, 5e7 do end end})
            collectgarbage()
            local x = 0
        ]]
        local got = shell.run("MARE_STUCK=0.05 " .. shell.mare .. " " .. code.name)
        t.ok(got.err:find("^mare: process 1 has held a worker for [%d.]+ s, "
            .. "in Lua code that cannot give way, in 'collectgarbage' called at [^\n]*:2%f[%D]"),
            got.err)
    end,

    who_computes_in_lua_is_not_told_of = function()
        local code <close> = shell.file [[
            local clock = os.clock()
            repeat until os.clock() - clock > 0.15
            table.sort({2, 1}, function(a, b)
                local c = os.clock()
                repeat until os.clock() - c > 0.15
                return a < b
            end)
        ]]
        local got = shell.run("MARE_STUCK=0.1 " .. shell.mare .. " " .. code.name)
        t.eq({got.err, got.code}, {"", 0})
    end,

    -- One program looks at another, and then at one that is gone.
    top_shows_what_processes_do = t.in_folder(function(folder)
        local path = folder .. "/look"
        local code <close> = shell.file [[
            local mare, child = require "mare", require "mare.child"
            local jobs = mare.channel(0, "jobs")
            mare.spawn({name = "clerk\27"}, function() jobs:receive() end)
            local preempted = not os.getenv "MARE_TEST_NO_PREEMPTION"
            mare.spawn({name = "busy"}, preempted and "while true do end"
                or "local mare = require 'mare' while true do mare.yield() end")
            mare.sleep(0.01)
            local out
            -- What it uses of a processor is measured between two looks.
            for _ = 1, 40 do
                out = child.run {arg[1], "top", arg[2], "--once"}.out
                if tonumber(out:match "\n +%d+ busy +%a+ +([%d.]+) " or 0) > 0 then break end
            end
            print(out)
            mare.exit()
        ]]
        local got = shell.run(("%s --inspect %s %s %s %s"):format(shell.mare, path, code.name,
            shell.mare, path))
        t.eq({got.code, got.err}, {0, ""})
        t.ok(got.out:find "^3 processes, %d+ workers?, %d+ channels?; a second: ", got.out)
        t.ok(got.out:find("\n +%d+ clerk%? +blocked +[%d.]+ +[%d.]+ +%d+K?  [^\n]*:3 to receive "
            .. "from channel %d+ %(jobs%)\n"), got.out)
        local share = got.out:match "\n +%d+ busy +%a+ +([%d.]+) "
        t.ok(tonumber(share) > 0, got.out)
        t.ok(not io.open(path), "the socket is removed")
        got = shell.run(("%s --inspect %s -e %s %s %s"):format(shell.mare, path, shell.quote
            "print(require 'mare.child'.run({arg[1], 'top', arg[2], '--once'}).out)", shell.mare,
            path))
        t.ok(got.out:find "^1 process, ", got.out)
        got = shell.run(shell.mare .. " top " .. path)
        t.eq(got.code, 1)
        t.ok(got.err:find("mare top: cannot connect to " .. path .. ": ", 1, true), got.err)
        t.ok(got.err:find("'mare --inspect " .. path .. "'", 1, true), got.err)
        t.eq(shell.run(shell.mare .. " top").code, 2)
        t.eq(shell.run(shell.mare .. " top " .. path .. " --interval x").code, 2)
    end),

    a_socket_that_a_dead_program_left_is_replaced_and_others_are_not = t.in_folder(function(folder)
        local path = folder .. "/look"
        local command = ("%s --inspect %s -e "):format(shell.mare, path)
        assert(io.open(folder .. "/file", "w")):close()
        shell.run(command .. shell.quote "io.popen('kill -9 $PPID'):read 'a'")
        t.ok(require("mare.file").stat(path), "it was left behind")
        local got = shell.run(command .. shell.quote "print 'again'")
        t.eq({got.code, got.out}, {0, "again\n"})
        shell.run("ln -s nowhere " .. folder .. "/link")
        for kind, name in pairs {file = folder .. "/file", folder = folder,
                                 link = folder .. "/link"} do
            got = shell.run(("%s --inspect %s -e 'print(1)'"):format(shell.mare, name))
            t.eq({got.code, got.out, got.err}, {1, "", ("mare: --inspect %s: there is a %s of "
                .. "that name; --inspect makes a socket, and replaces only a socket\n")
                :format(name, kind)})
        end
        got = shell.run(command .. shell.quote(("io.popen(%q, 'r'):close()")
            :format(command .. shell.quote "print(1)")))
        t.eq({got.code, got.out, got.err}, {0, "",
            ("mare: --inspect %s: another program listens at this socket\n"):format(path)})
    end),
}
