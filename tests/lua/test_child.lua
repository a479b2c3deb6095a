-- SPDX-License-Identifier: MIT
-- Programs started by processes: every promise of docs/reference/child.md, and what can go wrong.
-- What becomes of them when processes and programs end is in test_child_end.lua.
local mare, child, net, t = require "mare", require "mare.child", require "mare.net", require "t"

-- A program that writes what the shell's commands do, and its result.
local function sh(commands, more)
    local options = {"sh", "-c", commands}
    for key, value in pairs(more or {}) do options[key] = value end
    return options
end

local function run(commands, more) return assert(child.run(sh(commands, more))) end
local function spawn(commands, more) return assert(child.spawn(sh(commands, more))) end

local function read_file(name)
    local file <close> = assert(io.open(name))
    return file:read "a"
end

-- Calls f with the name of a file that does not exist yet.
local function with_name(f)
    local name = os.tmpname()
    os.remove(name)
    local _ <close> = setmetatable({}, {__close = function() os.remove(name) end})
    return f(name)
end

return {
    -- A program from start to end.

    run_gives_what_a_program_writes_and_how_it_ends = function()
        t.eq(run "echo out; echo err >&2; exit 3",
            {how = "exit", code = 3, ok = false, out = "out\n", err = "err\n"})
        t.eq(run "exit 0", {how = "exit", code = 0, ok = true, out = "", err = ""})
        t.eq(run "kill -9 $$", {how = "signal", code = 9, ok = false, out = "", err = ""})
    end,

    run_gives_input = function()
        t.eq(run("cat", {input = "in\0put"}).out, "in\0put")
        t.eq(run("cat", {input = ""}).out, "")
        t.eq(run("cat").out, "") -- without any there is an empty file
    end,

    input_and_output_flow_at_once = function()
        local much = ("0123456789abcdef"):rep(1 << 16) -- much more than a pipe holds
        local got = run("tee /dev/stderr", {input = much})
        t.ok(got.out == much and got.err == much, "all of it came back")
    end,

    a_program_need_not_read_its_input = function()
        t.eq(run("echo done", {input = ("x"):rep(1 << 20)}).out, "done\n")
    end,

    arguments_are_not_interpreted = function()
        t.eq(assert(child.run {"printf", "%s|", "a b", "$HOME", "*", "", 5}).out, "a b|$HOME|*||5|")
    end,

    run_keeps_to_its_limit = function()
        t.fails("toobig", child.run(sh("yes", {limit = 100000})))
        t.fails("toobig", child.run(sh("yes >&2", {limit = 100000})))
        t.eq(#run("printf 12345", {limit = 5}).out, 5)
        t.fails("toobig", child.run(sh("printf 12345", {limit = 4})))
    end,

    run_ends_what_takes_too_long = function()
        t.fails("timeout", child.run {"sleep", "1000", timeout = 0.05})
        t.fails("timeout", child.run(sh("yes >/dev/null", {timeout = mare.deadline(0.05)})))
        -- The shell ends at once, but something that it started holds its output.
        t.eq(run("sleep 1000 & echo $!", {timeout = t.patience}).how, "exit")
    end,

    -- Waiting.

    wait_tells_how_it_ended = function()
        local c <close> = spawn "read line; exit $line"
        t.eq({c:wait(t.patience)}, {"exit", 1}) -- its input is empty
        t.eq({c:wait()}, {"exit", 1})
        t.eq({c:status()}, {"exit", 1})
        local d <close> = spawn("exec sleep 1000")
        t.eq(d:status(), "running")
        t.fails("timeout", d:wait(0.01))
        t.fails("timeout", d:timeout(0.01):wait())
        t.eq(d:kill "SIGUSR1", true)
        t.eq({d:timeout():wait()}, {"signal", 10, "SIGUSR1"})
        t.fails("noproc", d:kill())
        t.fails("noproc", d:kill(9))
    end,

    several_wait_for_one = function()
        local c <close> = spawn("read line", {stdin = "pipe"})
        local waits = {}
        for i = 1, 10 do
            waits[i] = mare.go(function()
                if i % 2 == 0 then return c:wait(t.patience) end
                return select(2, mare.select({c}, t.patience))
            end)
        end
        t.fails("timeout", c:wait(0.01))
        c.stdin:write "x\n"
        for i = 1, 10 do t.eq({waits[i]:join(t.patience)}, {true, "exit", 0}) end
    end,

    select_tells_of_the_end = function()
        local c <close>, ch = spawn("read line; exit 7", {stdin = "pipe"}), mare.channel()
        t.fails("timeout", mare.select({ch, c}, 0.01))
        t.fails("timeout", mare.select({ch, c}, 0))
        c.stdin:close()
        t.eq({mare.select({ch, c}, t.patience)}, {2, "exit", 7})
        t.eq({mare.select({ch, c}, 0)}, {2, "exit", 7})
        t.eq({mare.select {mare.timer(100), c}}, {2, "exit", 7})
    end,

    a_wait_can_be_cancelled = function()
        local c <close> = spawn("exec sleep 1000")
        local waits = mare.go(function() return c:wait() end)
        mare.yield()
        waits:cancel()
        local ok, value, _, code = waits:join(t.patience)
        t.eq({ok, value, code}, {true, nil, "cancelled"})
        t.eq(c:status(), "running")
    end,

    others_go_on_meanwhile = function()
        t.with_workers(1, function()
            local c <close> = spawn("read line", {stdin = "pipe"})
            local ticks = 0
            mare.go(function()
                for _ = 1, 5 do
                    mare.sleep(0.001)
                    ticks = ticks + 1
                end
                c.stdin:close()
            end)
            t.eq({c:wait(t.patience)}, {"exit", 1})
            t.eq(ticks, 5)
        end)
    end,

    -- Streams.

    pipes_are_streams = function()
        local c <close> = spawn("while read line; do echo \"got $line\"; done; echo bye >&2",
            {stdin = "pipe", stdout = "pipe", stderr = "pipe"})
        t.eq(c.stdin:write("one\n", "two\n"), true)
        t.eq(c.stdout:read("l", t.patience), "got one")
        t.eq(c.stdout:read("l", t.patience), "got two")
        t.fails("timeout", c.stdout:read("l", 0.01))
        t.fails("timeout", mare.select({c.stdout, c}, 0.01))
        c.stdin:close()
        t.eq(c.stderr:read("a", t.patience), "bye\n")
        t.fails("closed", c.stdout:read())
        t.eq({c:wait(t.patience)}, {"exit", 0})
    end,

    who_does_not_read_makes_the_writer_wait = function()
        local c <close> = spawn("exec sleep 1000", {stdin = "pipe"})
        t.fails("timeout", c.stdin:writewithin(0.05, ("x"):rep(1 << 20)))
        t.fails("timeout", c.stdin:timeout(0.05):write("x"))
        -- One that waits is told when it ends.
        local writes = mare.go(function() return c.stdin:timeout():write(("x"):rep(1 << 20)) end)
        mare.yield()
        c:kill "SIGKILL"
        local ok, value, _, code = writes:join(t.patience)
        t.eq({ok, value, code}, {true, nil, "closed"})
    end,

    who_closes_its_input_is_noticed = function()
        local c <close> = spawn("exec <&-; echo closed; exec sleep 1000",
            {stdin = "pipe", stdout = "pipe"})
        t.eq(c.stdout:read("l", t.patience), "closed")
        t.fails("closed", c.stdin:write "x") -- and this program is still there
        t.eq(c:status(), "running")
    end,

    a_flood_waits_for_its_reader = function()
        local c <close> = spawn("exec yes", {stdout = "pipe"})
        local read, ahead = 0, 0
        local function written()
            return tonumber(read_file("/proc/" .. c:pid() .. "/io"):match "wchar: (%d+)")
        end
        local start = written()
        for _ = 1, 200 do
            read = read + #c.stdout:read(nil, t.patience)
            mare.yield()
            ahead = math.max(ahead, written() - start - read)
        end
        t.ok(read > 200000, "it was a flood")
        t.ok(ahead <= 256 << 10, "it was ahead by " .. ahead)
    end,

    output_can_go_elsewhere = function()
        with_name(function(name)
            t.eq(run("echo one; echo two >&2", {stdout = name, stderr = "stdout"}).out, nil)
            t.eq(read_file(name), "one\ntwo\n")
            run("echo three", {stdout = {path = name, append = true}})
            t.eq(read_file(name), "one\ntwo\nthree\n")
            t.eq(run("cat", {stdin = name}).out, "one\ntwo\nthree\n")
            local file <close> = assert(io.open(name, "w"))
            file:write "before\n"
            run("echo after", {stdout = file})
            file:write "last\n"
            file:flush()
            t.eq(read_file(name), "before\nafter\nlast\n")
            t.eq(run("echo x", {stdout = "null"}).out, nil)
        end)
        t.eq(run("echo out; echo err >&2", {stderr = "stdout"}).out, "out\nerr\n")
    end,

    a_named_pipe_without_a_writer_holds_nobody_back = function()
        with_name(function(name)
            t.eq(run("mkfifo " .. name).ok, true)
            local c <close> = spawn("cat", {stdin = name, stdout = "pipe"})
            t.eq({c:wait(t.patience)}, {"exit", 0})
            t.fails("io", child.spawn {"echo", stdout = name})
        end)
    end,

    a_stream_can_be_given_away = function()
        local listener <close> = assert(net.listen("127.0.0.1", 0))
        local client = assert(net.connect(listener:address()))
        local server = assert(listener:accept(t.patience))
        local c <close> = spawn("cat", {stdin = server, stdout = "pipe"})
        t.fails("closed", server:read())
        client:write "over the net\n"
        t.eq(c.stdout:read("l", t.patience), "over the net")
        client:close()
        t.eq({c:wait(t.patience)}, {"exit", 0})
        t.raises("the stream is closed", child.spawn, {"cat", stdin = server})
        -- When there is no child it stays here, and does not hold a worker.
        local a <close> = spawn("exec sleep 1000", {stdin = "pipe", stdout = "pipe"})
        t.fails("noname", child.spawn {"mare-nowhere", stdin = a.stdout})
        t.fails("noname", child.spawn {"cat", stdin = a.stdout, stdout = "/nowhere/at/all"})
        t.fails("timeout", a.stdout:read("l", 0.01))
    end,

    a_stream_with_tls_cannot_be_given_away = function()
        local tls = require "mare.tls"
        local certificate, key = assert(tls.selfsigned {"localhost"})
        local listener <close> = assert(tls.listen("127.0.0.1", 0,
            {context = assert(tls.context {certificate = certificate, key = key, verify = false})}))
        local client <close> = assert(net.connect(listener:address()))
        local server <close> = assert(listener:accept(t.patience)) -- before any handshake
        t.raises("go through TLS", child.spawn, {"cat", stdin = server})
        t.ok(client)
    end,

    pipes_can_be_given_to_another = function()
        local a <close> = spawn("echo through", {stdout = "pipe"})
        local b <close> = spawn("sed s/t/T/", {stdin = a.stdout, stdout = "pipe"})
        t.eq(b.stdout:read("a", t.patience), "Through\n")
    end,

    -- What a child inherits.

    it_has_only_its_own_descriptors = function()
        local listener <close> = assert(net.listen("127.0.0.1", 0))
        local file <close> = assert(io.open(debug.getinfo(1, "S").source:sub(2)))
        local other <close> = spawn("cat", {stdin = "pipe", stdout = "pipe"})
        local got = assert(child.run {"ls", "-l", "/proc/self/fd"}).out
        local numbers = {}
        for number, what in got:gmatch "(%d+) %-> (%S+)" do
            if not what:find "^/proc/" then numbers[#numbers + 1] = number end -- what ls reads
        end
        table.sort(numbers)
        t.eq(numbers, {"0", "1", "2"}, got)
        t.ok(listener and file and other)
    end,

    its_signals_are_as_usual = function()
        local got = assert(child.run {"grep", "^Sig", "/proc/self/status"}).out
        for _, name in ipairs {"SigPnd", "SigBlk", "SigIgn"} do
            -- 32 and 33 are the C library's own, for threads: it resets them itself.
            local set = tonumber(got:match(name .. ":%s*(%x+)"), 16) & ~0x180000000
            t.eq(set, 0, name)
        end
    end,

    environment = function()
        t.eq(run("echo $A-$B", {env = {A = "1", B = 2}}).out, "1-2\n")
        t.ok(run("echo $PATH").out ~= "\n")
        t.eq(run("echo $HOME-$A", {env = {HOME = false, A = "=x y"}}).out, "-=x y\n")
        t.eq(assert(child.run {"env", clean = true, env = {ONLY = "this"}}).out, "ONLY=this\n")
        t.eq(assert(child.run {"env", clean = true}).out, "")
        t.eq(child.environment().PATH, os.getenv "PATH")
    end,

    folder = function()
        t.eq(run("pwd", {cwd = "/usr"}).out, "/usr\n")
        t.eq(assert(child.run {"./env", "pwd", cwd = "/usr/bin"}).out, "/usr/bin\n")
        t.fails("noname", child.spawn {"pwd", cwd = "/nowhere/at/all"})
        t.fails("noname", child.spawn {"pwd", cwd = "/etc/passwd"})
    end,

    -- Programs that cannot be started.

    a_program_that_cannot_be_started = function()
        local function says(code, message, program)
            t.eq({child.spawn {program, stdin = "pipe", stdout = "pipe"}}, {nil, message, code})
        end
        local before = t.ways_to_children()
        for _ = 1, 20 do
            says("noname", "no such program: '/nowhere'", "/nowhere")
            says("noname", "no such program: 'mare-nowhere'", "mare-nowhere")
            says("denied", "cannot run '/etc/passwd': Permission denied", "/etc/passwd")
            says("denied", "cannot run '/': Permission denied", "/")
        end
        with_name(function(name)
            local file = assert(io.open(name, "w"))
            file:write "#!/nowhere/interpreter\n"
            file:close()
            t.eq(run("chmod +x " .. name).ok, true)
            says("noname", ("cannot run '%s': the interpreter that it names does not exist")
                :format(name), name)
            file = assert(io.open(name, "w"))
            file:write "no program at all\n"
            file:close()
            says("io", ("cannot run '%s': Exec format error"):format(name), name)
        end)
        t.fails("toobig", child.spawn {"echo", ("x"):rep(4 << 20)})
        t.eq({child.spawn {"cat", stdin = "/nowhere"}},
            {nil, "cannot open '/nowhere': No such file or directory", "noname"})
        t.reaches(function() return t.ways_to_children() <= before end)
    end,

    -- Sharing, and misuse.

    a_child_changes_hands = function()
        local c = spawn("read line; exit 5", {stdin = "pipe"})
        local input = c.stdin
        local other = mare.spawn(function(ch)
            local theirs = ch:receive()
            return theirs:wait(20)
        end, mare.channel())
        other:kill()
        local ch = mare.channel()
        other = mare.spawn(function(channel)
            local theirs = channel:receive()
            channel:send(tostring(theirs.stdin))
            return theirs:wait()
        end, ch)
        ch:send(c)
        t.eq(tostring(c), "child (sent)")
        t.raises("was sent to another process", c.wait, c)
        t.eq(ch:receive(t.patience), "nil") -- the streams do not go along
        input:close()
        t.eq({other:join(t.patience)}, {true, "exit", 5})
        local d <close> = spawn("exec sleep 1000")
        local waits = mare.go(function() return d:wait() end)
        mare.yield()
        t.raises("wait", ch.send, ch, d)
        d:kill()
        t.eq({waits:join(t.patience)}, {true, "signal", 15, "SIGTERM"})
    end,

    misuse_is_an_error = function()
        local before = t.ways_to_children()
        t.raises("table expected, got no value", child.spawn)
        t.raises("#1 to 'spawn' %(no program is named", child.spawn, {})
        t.raises("#1 to 'run' %(table expected, got string", child.run, "ls")
        t.raises("argument 2 of the program: string expected, got table", child.spawn, {"ls", {}})
        t.raises("argument 2 of the program is missing", child.spawn, {"echo", nil, "x"})
        t.raises("no program is named", child.spawn, {nil, "x"})
        t.raises("unknown option 'stdinn'", child.spawn, {"ls", stdinn = "null"})
        t.raises("unknown option 'timeout'", child.spawn, {"ls", timeout = 1})
        t.raises("option 'cwd': string expected, got number", child.spawn, {"ls", cwd = 5})
        t.raises("option 'stdin': 'stdout' is not a stream", child.spawn, {"ls", stdin = "stdout"})
        t.raises("option 'stdout': 'file' is not a stream", child.spawn, {"ls", stdout = "file"})
        t.raises("option 'stdout': string, stream or file expected, got number", child.spawn,
            {"ls", stdout = 5})
        t.raises("both 'input' and 'stdin'", child.run, {"cat", input = "x", stdin = "null"})
        t.eq(run("cat", {stdin = "pipe"}).out, "") -- nobody could write there
        t.raises("'A=' cannot be a name", child.spawn, {"ls", env = {["A="] = "x"}})
        t.raises("A: string or false expected, got table", child.spawn, {"ls", env = {A = {}}})
        t.raises("zero byte", child.spawn, {"ls", "a\0b", stdin = "pipe"})
        t.raises("zero byte", child.spawn, {"ls", env = {A = "a\0b"}})
        t.raises("zero bytes", child.spawn, {"ls", cwd = "a\0b"})
        t.raises("cannot be negative", child.spawn, {"ls", grace = -1})
        local c <close> = spawn "exit"
        t.raises("there is no such signal", c.kill, c, "SIGNOTHING")
        t.raises("there is no such signal", c.kill, c, 0)
        t.raises("child expected", c.wait, 5)
        t.raises("child expected", c.wait, mare.channel())
        t.raises("deadline", c.wait, c, "x")
        t.raises("cannot be negative", c.timeout, c, -1)
        c:wait()
        t.eq(c.nothing, nil)
        t.ok(tostring(c):find "^child %d+$")
        t.reaches(function() return t.ways_to_children() <= before end)
    end,

    where_one_cannot_wait_it_is_said = function()
        local c <close> = spawn("exec sleep 1000")
        t.raises("cannot wait here", table.sort, {2, 1}, function() return c:wait() end)
    end,
}
