-- SPDX-License-Identifier: MIT
-- Programs that start others, as wholes: what is left when they end, however they do; what they do
-- without descriptors; and under the stock interpreter.
local t, shell = require "t", require "shell"

local HEAD = "local mare, child = require 'mare', require 'mare.child'\n"

-- Whether an operating-system process is there and is not only waiting to be forgotten.
local function runs(pid)
    local file <close> = io.open("/proc/" .. pid .. "/stat")
    local state = file and (file:read "a" or ""):match "%) (%a)"
    return state ~= nil and state ~= "Z"
end

-- A program that prints the numbers of its children; none is there when it has ended.
local function leaves_none(text, code)
    local got = shell.lua(HEAD .. text)
    local count = 0
    for pid in got.out:gmatch "%d+" do
        t.eq(runs(pid), false, "child " .. pid)
        count = count + 1
    end
    t.ok(count > 0, got.out .. got.err)
    t.eq(got.code, code, got.err)
end

local SPAWN = "local c = assert(child.spawn {'sleep', '1000'}) print(c:pid())\n"
-- One that has said that it ignores requests to end.
local STUBBORN = [[
    local c = assert(child.spawn {"sh", "-c", "trap '' TERM; echo; while :; do sleep 0.05; done",
        stdout = "pipe", grace = 0.2})
    c.stdout:read "l"
    print(c:pid())
]]

-- Runs a program that calls `answer` when the disk shall; `made` is a path that is there afterwards
-- or not.
local function with_slow_files(text)
    local made = os.tmpname()
    os.remove(made)
    local got = shell.slow_files(HEAD .. ("local made = %q\n"):format(made) .. text)
        or t.skip "slow_files.so is missing: run by meson"
    return got, os.remove(made) ~= nil
end

return {
    a_disk_that_does_not_answer_holds_back_nobody = function()
        local got = with_slow_files [[
            local begun = {
                mare.go(child.spawn, {"./hangs-and-is-not-there"}),
                mare.go(child.spawn, {"true", stdin = "/hangs/neither"}),
                mare.go(child.run, {"echo", "written", stdout = made .. "-hangs"}),
                mare.go(child.run, {"cat", made .. "-hangs"}),
            }
            print(select(2, mare.spawn(function() return "others go on" end):join()))
            print(select(3, child.run {"hangs", timeout = 0.05}))
            answer()
            print(select(3, begun[1]:join()))
            print(select(3, begun[2]:join()))
            print(select(2, begun[3]:join()).ok)
            print(select(2, begun[4]:join()).how)
            os.remove(made .. "-hangs")
        ]]
        t.eq({got.out, got.err, got.code}, {"others go on\ntimeout\n"
            .. "no such program: './hangs-and-is-not-there'\tnoname\n"
            .. "cannot open '/hangs/neither': No such file or directory\tnoname\n"
            .. "true\nexit\n", "", 0})
    end,

    what_was_killed_while_it_started_a_program_does_not_start_it = function()
        local got, exists = with_slow_files [[
            local process = mare.spawn(function(path)
                child.spawn {"touch", path, stdout = path .. "-hangs"}
            end, made)
            while process:status() ~= "blocked" do mare.yield() end
            process:kill()
            print(select(3, process:join()))
            answer()
            -- What comes after it in the same threads is over, so it could have been started.
            child.run {"true", stdin = "/hangs"}
            os.remove(made .. "-hangs")
        ]]
        t.eq({got.out, got.err, got.code, exists}, {"killed\n", "", 0, false})
    end,

    a_stream_being_given_to_a_program_is_nobody_elses = function()
        local got = with_slow_files [[
            local cat = assert(child.spawn {"cat", stdin = "pipe", stdout = "pipe"})
            local giving = mare.go(child.spawn, {"hangs-and-is-not-there", stdout = cat.stdin})
            mare.yield()
            print(cat.stdin:write "early")
            print(pcall(child.spawn, {"true", stdout = cat.stdin}))
            answer()
            print(select(4, giving:join()))
            print(cat.stdin:write "late\n" ~= nil, cat.stdout:read "l")
        ]]
        t.eq({got.code, got.err}, {0, ""})
        t.ok(got.out:find("^nil\t[^\n]*\tclosed\t0\nfalse\t[^\n]*the stream is closed[^\n]*\n"
            .. "noname\ntrue\tlate\n$"), got.out)
    end,

    a_program_ends_though_another_is_still_being_started = function()
        local got = with_slow_files [[
            mare.go(child.spawn, {"hangs"})
            mare.go(function() print "out" os.exit(0) end)
            mare.sleep(60)
        ]]
        t.eq({got.out, got.err, got.code}, {"out\n", "", 0})
    end,

    the_end_of_a_program_ends_children = function()
        leaves_none(SPAWN, 0)
        leaves_none(STUBBORN .. SPAWN, 0)
        leaves_none(SPAWN .. "error 'x'", 1)
        leaves_none(SPAWN .. "os.exit(3)", 3)
        leaves_none(STUBBORN .. "mare.spawn(function() os.exit(4) end) c:wait()", 4)
        -- In a message that nobody takes, and in the results of a process that nobody asks for.
        leaves_none(SPAWN .. "local ch = mare.channel(1) ch:send(c) ch = nil", 0)
        leaves_none("mare.spawn(function() " .. SPAWN:gsub("child%.", "require 'mare.child'.")
            .. " return c end) mare.wait()", 0)
    end,

    signals_end_children_in_order = function()
        for _, signal in ipairs {"INT", "TERM", "HUP"} do
            local number = ({INT = 2, TERM = 15, HUP = 1})[signal]
            leaves_none((signal == "INT" and STUBBORN or "") .. SPAWN .. [[
                io.stdout:flush()
                local self = io.open("/proc/self/stat"):read "n"
                child.run {"kill", "-]] .. signal .. [[", self}
                c:wait()
            ]], 128 + number)
        end
    end,

    a_grace_may_be_longer_than_the_second_of_an_interrupt = function()
        -- It takes its time, and is given it: it says that it has come to its end.
        local got = shell.lua(HEAD .. [[
            local c = assert(child.spawn {"sh", "-c",
                "trap 'sleep 1.2; echo in order >&2; exit' TERM; echo; "
                .. "while :; do sleep 0.05; done",
                stdout = "pipe", stderr = "inherit", grace = 30})
            c.stdout:read "l" -- now it minds signals
            child.run {"kill", "-TERM", io.open("/proc/self/stat"):read "n"}
            c:wait()
        ]])
        t.eq({got.err, got.code}, {"in order\n", 143})
    end,

    who_is_killed_outright_leaves_children_without_pipes = function()
        local got = shell.lua(HEAD .. [[
            local c = assert(child.spawn {"cat", stdin = "pipe"})
            local d = assert(child.spawn {"sleep", "1000"})
            print(c:pid(), d:pid())
            child.run {"kill", "-KILL", io.open("/proc/self/stat"):read "n"}
        ]])
        local reads, sleeps = got.out:match "(%d+)%s+(%d+)"
        t.reaches(function() return not runs(reads) end) -- the end of its input
        t.eq(runs(sleeps), true)
        os.execute("kill " .. sleeps)
    end,

    detached_children_stay = function()
        local got = shell.lua(HEAD .. [[
            local c = assert(child.spawn {"sleep", "1000", detached = true, stdout = "null",
                stderr = "null"})
            print(c:pid())
        ]])
        t.eq({got.code, got.err}, {0, ""})
        local pid = got.out:match "%d+"
        t.eq(runs(pid), true)
        t.ok(os.execute("kill " .. pid))
    end,

    a_program_does_not_wait_for_those_who_hold_no_pipe = function()
        local got = shell.lua(HEAD .. [[
            mare.spawn(function() mare.channel():receive() end)
            local c = assert(child.spawn {"sleep", "0.3"})
            print(c:wait())
            mare.channel():receive() -- and now nothing can move
        ]])
        t.eq({got.out, got.code}, {"exit\t0\n", 1})
        t.ok(got.err:find "wait", got.err)
    end,

    without_descriptors_it_says_so_and_leaks_nothing = function()
        local text = HEAD .. [[
            mare.workers(1) -- another one would have a loop of its own, which needs some too
            mare.sleep(0.01)
            assert(child.run {"true"})
            local function count() -- those that are open, among a few
                local n = 0
                for fd = 0, 99 do
                    local file = io.open("/proc/self/fdinfo/" .. fd)
                    if file then n = n + 1 file:close() end
                end
                return n
            end
            local before, held, failures = count(), {}, 0
            for round = 1, 3 do
                while true do
                    local c, message, code = child.spawn {"sleep", "1000", stdin = "pipe",
                        stdout = "pipe", stderr = "pipe"}
                    if not c then
                        assert(code == "io" and message:find "Too many open files", message)
                        failures = failures + 1
                        break
                    end
                    held[#held + 1] = c
                end
                -- With one less at a time, so that each step is the one that fails.
                for k = 1, 8 do
                    if held[k] and held[k].stdin then held[k].stdin:close() end
                    local c, message, code = child.spawn {"true", stdin = "pipe", stdout = "pipe"}
                    if c then c:close() c:wait() else assert(code == "io", message) end
                end
                assert(#held > 1)
                for _, c in ipairs(held) do c:close() end
                for _, c in ipairs(held) do assert(c:wait()) end
                held = {}
                local deadline = mare.deadline(20)
                while count() > before and deadline:left() > 0 do mare.yield() end
                assert(count() <= before, "descriptors were lost")
            end
            print(failures, child.run {"echo", "again"}.out)
        ]]
        local file <close> = shell.file(text)
        local got = shell.run(("ulimit -n 40; exec %s %s"):format(shell.mare, file))
        t.eq(got, {out = "3\tagain\n\n", err = "", code = 0})
    end,

    what_the_parent_did_to_signals_is_undone = function()
        -- It ignores the end of children, which then nobody would be told of, and one more, and
        -- blocks a third; all of that is inherited.
        local file <close> = shell.file(HEAD .. [[
            print(child.run {"sh", "-c", "exit 5"}.code)
            local got = child.run {"grep", "^Sig", "/proc/self/status"}.out
            for _, name in ipairs {"SigBlk", "SigIgn"} do -- 32 and 33 are the C library's own
                print(tonumber(got:match(name .. ":%s*(%x+)"), 16) & ~0x180000000)
            end
        ]])
        local got = shell.run(([[python3 -c "import os, signal
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
signal.signal(signal.SIGUSR1, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])
os.execl('%s', 'mare', '%s')"]]):format(shell.mare, file))
        t.eq(got, {out = "5\n0\n0\n", err = "", code = 0})
    end,

    under_the_stock_interpreter = function()
        if not shell.has_stock() then t.skip "no lua5.4 that can load mare.so" end
        local library = debug.getinfo(1, "S").source:match "^@(.*)tests/lua/" .. "lua/?.lua"
        local got = shell.stock(("package.path = %q .. package.path\n"):format(library .. ";")
            .. HEAD .. [[
            local c = assert(child.spawn {"sh", "-c", "read a; echo got $a; exit 3",
                stdin = "pipe", stdout = "pipe"})
            print(c:wait(0.01))
            c.stdin:write "x\n"
            print(c.stdout:read "a", c:wait())
            print(child.run {"cat", input = "all of it"}.out)
            print(select(3, child.run {"sleep", "1000", timeout = 0.05}))
            print(assert(child.spawn {"sleep", "1000"}):pid())
        ]])
        local pid = got.out:match "(%d+)\n$"
        t.eq(got, {out = "nil\tthe deadline passed\ttimeout\ngot x\n\texit\t3\nall of it\ntimeout\n"
            .. pid .. "\n", err = "", code = 0})
        t.eq(runs(pid), false)
    end,

    a_program_in_its_own_group_is_not_interrupted_by_the_terminal = function()
        -- What is asked for: the group of the child is its own, or this program's.
        local got = shell.lua(HEAD .. [[
            local function group(pid)
                return io.open("/proc/" .. pid .. "/stat"):read "a":match "%) %a %d+ (%d+)"
            end
            local a = child.spawn {"sleep", "1000"}
            local b = child.spawn {"sleep", "1000", group = true}
            local own = group "self"
            print(group(a:pid()) == own, group(b:pid()) == tostring(b:pid()))
        ]])
        t.eq(got, {out = "true\ttrue\n", err = "", code = 0})
    end,
}
