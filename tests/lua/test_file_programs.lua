-- SPDX-License-Identifier: MIT
-- Whole programs in which a thread is stuck, in a lookup (slow_names.c makes it hang for ten
-- minutes) or in a file system: they go on, and they end when they want to. And programs without
-- descriptors.
local t, shell = require "t", require "shell"

local HEAD = "local mare, net, file = require 'mare', require 'mare.net', require 'mare.file'\n"

-- Runs a program with the resolver that hangs. What `shell.run` has to end by force fails the case.
local function with_slow_names(text)
    local names = os.getenv "MARE_SLOW_NAMES"
    if not names then t.skip "slow_names.so is missing: run by meson" end
    local program <close> = shell.file(HEAD .. text)
    return shell.run(("LD_PRELOAD=%s %s %s"):format(names, shell.mare, program))
end

local function prints(expected, got)
    t.eq({out = got.out, err = got.err, code = got.code}, {out = expected, err = "", code = 0})
end

-- Runs a program with a folder in which there is a pipe; its path is `fifo`.
local function with_fifo(text, run)
    local name = os.tmpname()
    os.remove(name)
    assert(os.execute(("mkdir %s && mkfifo %s/fifo"):format(name, name)))
    local got = run(HEAD .. ("local fifo = %q\n"):format(name .. "/fifo") .. text)
    os.execute("rm -r " .. name)
    return got
end

return {
    -- Names.

    a_lookup_under_way_does_not_delay_the_end = function()
        prints("timeout\n", with_slow_names "print(select(3, net.resolve('slow.example', 0.05)))")
    end,

    slow_names_hold_back_neither_names_nor_files = function()
        prints("true\ttrue\n", with_slow_names [[
            for i = 1, 10 do mare.go(net.resolve, "slow" .. i .. ".example") end
            mare.yield()
            print(net.resolve("localhost", 60) ~= nil, file.read("/proc/self/status", 60) ~= nil)
            os.exit(0)
        ]])
    end,

    -- More than there can be threads for those who wait.
    names_that_nobody_waits_for_hold_back_nobody = function()
        prints("true\n", with_slow_names [[
            for i = 1, 40 do
                assert(select(3, net.resolve("slow" .. i .. ".example", 0.002)) == "timeout")
            end
            print(net.resolve("localhost", 60) ~= nil)
        ]])
    end,

    who_listens_at_a_name_that_nobody_knows_can_give_up = function()
        prints(("timeout\n"):rep(7), with_slow_names [[
            local tls, ntp, agent = require "mare.tls", require "mare.ntp", require "mare.agent"
            local certificate, key = tls.selfsigned "localhost"
            local function say(_, _, code) print(code) end
            say(net.listen("slow.example", 0, nil, 0.02))
            say(net.listen("slow.example", 0, {backlog = 1}, mare.deadline(0.02)))
            say(net.udp("slow.example", 0, nil, 0.02))
            say(tls.listen("slow.example", 0, {certificate = certificate, key = key}, 0.02))
            say(ntp.server({host = "slow.example", port = 0}, 0.02))
            say(agent.open("slow.example", 0, nil, 0.02))
            say(agent.open("127.0.0.1", 0, {peers = {"slow.example:1"}}, 0.02))
        ]])
    end,

    a_process_killed_in_a_lookup_is_gone = function()
        prints("killed\n", with_slow_names [[
            local process = mare.spawn(function() net.resolve "slow.example" end)
            while process:status() ~= "blocked" do mare.yield() end
            process:kill()
            print(select(3, process:join()))
        ]])
    end,

    who_waits_for_a_lookup_is_not_stuck_but_who_gave_up_may_be = function()
        local got = with_slow_names [[
            print(select(3, net.resolve("slow.example", 0.3)))
            mare.channel():receive()
        ]]
        t.eq({got.out, got.code}, {"timeout\n", 1})
        t.ok(got.err:find "deadlock", got.err)
    end,

    an_interrupt_ends_a_program_in_a_lookup = function()
        local names = os.getenv "MARE_SLOW_NAMES"
        if not names then t.skip "slow_names.so is missing: run by meson" end
        local ready <close> = shell.file ""
        local program <close> = shell.file(HEAD .. ([[
            mare.spawn(function() net.resolve "slow.example" end)
            mare.go(function() io.open(%q, "w"):write "x":close() end)
            net.resolve "slow.example"
        ]]):format(ready.name))
        local got = shell.run(("LD_PRELOAD=%s %s %s & until test -s %s; do sleep 0.05; done; "
            .. "kill -INT $!; wait $!"):format(names, shell.mare, program, ready))
        t.eq({got.out, got.err, got.code}, {"", "", 130})
    end,

    -- Files.

    a_file_that_is_stuck_does_not_delay_the_end = function()
        prints("timeout\n", with_fifo("print(select(3, file.open(fifo, 'r', 0.05)))", shell.lua))
    end,

    exit_ends_those_who_wait_for_files = function()
        prints("", with_fifo([[
            mare.go(file.open, fifo)
            mare.go(file.read, fifo)
            mare.spawn(function() file.open(fifo) end)
            mare.go(function() file.stat "/" os.exit(0) end)
        ]], shell.lua))
    end,

    who_waits_for_a_file_is_not_stuck = function()
        prints("late\n", with_fifo([[
            local writer = io.popen("sleep 0.2; echo late >" .. fifo)
            print((file.read(fifo):gsub("\n", "")))
            writer:close() -- not by the collector before, which would wait for it
        ]], shell.lua))
    end,

    a_file_that_nobody_waits_for_does_not_hide_a_deadlock = function()
        local got = with_fifo([[
            Kept = assert(file.open "/dev/null")
            print(select(3, file.open(fifo, "r", 0.01)))
            mare.channel():receive()
        ]], shell.lua)
        t.eq({got.out, got.code}, {"timeout\n", 1})
        t.ok(got.err:find "deadlock", got.err)
    end,

    without_descriptors_files_cannot_be_opened = function()
        local program <close> = shell.file(HEAD .. [[
            local files = {}
            repeat
                local f, message, code = file.open "/dev/null"
                files[#files + 1] = f
                assert(f or code == "io" and message:find "Too many open files", message)
            until not f
            assert(select(3, file.read "/dev/null") == "io")
            assert(select(3, file.write("/dev/null", "x")) == "io")
            assert(select(3, file.list "/") == "io")
            assert(select(3, file.tempfile()) == "io")
            assert(files[1]:close() and file.stat "/dev/null")
            print(file.read "/dev/null")
        ]])
        prints("\n", shell.run(("ulimit -n 64; %s %s"):format(shell.mare, program)))
    end,

    without_descriptors_a_name_is_not_said_to_be_unknown = function()
        local program <close> = shell.file(HEAD .. [[
            local socket, files = net.udp(), {}
            repeat
                local f = file.open "/dev/null"
                files[#files + 1] = f
            until not f
            print(net.resolve "localhost")
            print(net.connect("localhost", 1))
            print(socket:send("x", "localhost", 1))
            for _, f in ipairs(files) do f:close() end
            print(net.resolve "localhost" ~= nil, select(3, net.resolve "nobody.invalid"))
        ]])
        local said = "nil\tcannot resolve 'localhost': Too many open files\tio\n"
        prints(said:rep(3) .. "true\tnoname\n",
            shell.run(("ulimit -n 64; %s %s"):format(shell.mare, program)))
    end,

    -- What else reads files.

    certificates_and_services_on_a_disk_that_does_not_answer_hold_back_nobody = function()
        prints("others go on\ntimeout\ntrue\nhangs\tnoname\n", shell.slow_files(HEAD .. [[
            local tls, socket = require "mare.tls", require "socket"
            local certificate, key = tls.selfsigned "localhost"
            local listener = assert(tls.listen("127.0.0.1", 0,
                {certificate = certificate, key = key}))
            local _, port = listener:address()
            mare.go(function()
                while true do
                    local stream = listener:accept()
                    if stream then mare.go(stream.handshake, stream) end
                end
            end)
            local making = mare.go(tls.context, {authorities = "/hangs/none.pem"})
            local binding = mare.go(function() return socket.tcp():bind("127.0.0.1", "hangs") end)
            print(select(2, mare.spawn(function() return "others go on" end):join()))
            -- It needs the system's authorities, which are in a file with "hangs" in its name.
            print(select(3, tls.connect("127.0.0.1", port, {name = "localhost"}, 0.2)))
            answer()
            local _, context, message, code = making:join()
            print(context == nil and code == "io" and message:find "none.pem" ~= nil)
            print("hangs", select(3, binding:join()) == "service not supported for socket type"
                and "noname")
            os.exit(0)
        ]], "SSL_CERT_FILE=/hangs/system.pem") or t.skip "slow_files.so is missing: run by meson")
    end,

    who_needs_them_from_there_can_give_up = function()
        local path = os.tmpname() .. "-hangs" -- one that exists, or it is not even opened
        io.open(path, "w"):close()
        local got = shell.slow_files(HEAD .. ("local path = %q\n"):format(path) .. [[
            local tls, http = require "mare.tls", require "mare.http"
            local certificate, key = tls.selfsigned "localhost"
            local there, mine = {authorities = path}, {certificate = certificate, key = key}
            local listener = assert(tls.listen("127.0.0.1", 0, mine, 60))
            local _, port = listener:address()
            local function say(_, _, code) print(code) end
            say(tls.context(there, 0.02))
            say(tls.context(there, mare.deadline(0.02)))
            say(tls.listen("127.0.0.1", 0, {certificate = path}, 0.02))
            say(tls.connect("127.0.0.1", port, there, 0.02))
            say(http.request {url = "https://127.0.0.1:" .. port, tls = there, timeout = 0.02})
            mine.names = {["b.example"] = {certificate = path}}
            say(tls.context(mine, 0.02))
            local stream = assert(net.connect("127.0.0.1", port))
            say(tls.wrap(stream, there, 0.02))
            print(select(3, stream:read()) == "closed")
            local _, message = pcall(function() for _ in file.lines(path, "l", 0.02) do end end)
            print(message:match "the deadline passed$")
            answer()
            print(select(3, tls.context(there, 60)))
            os.exit(0)
        ]])
        os.remove(path)
        os.remove(path:match "^(.*)%-hangs")
        prints(("timeout\n"):rep(7) .. "true\nthe deadline passed\nbadmsg\n",
            got or t.skip "slow_files.so is missing: run by meson")
    end,

    services_are_looked_up_within_the_timeout = function()
        prints(("timeout\n"):rep(5) .. "cancelled\nservice not supported for socket type\n",
            shell.slow_files(HEAD .. [[
            local socket = require "socket"
            local function object(make, seconds, mode)
                local made = make()
                made:settimeout(seconds, mode)
                return made
            end
            local function say(_, why) print(why) end
            say(object(socket.tcp, 0.02):bind("127.0.0.1", "hangs"))
            say(object(socket.tcp, 0.02):connect("127.0.0.1", "hangs"))
            say(object(socket.tcp, 0.02, "t"):connect("127.0.0.1", "hangs"))
            say(object(socket.udp, 0.02):setpeername("127.0.0.1", "hangs"))
            say(object(socket.udp, 0.02):sendto("x", "127.0.0.1", "hangs"))
            local waits = mare.go(function() return socket.tcp():bind("127.0.0.1", "hangs") end)
            mare.yield()
            waits:cancel()
            say(select(2, waits:join()))
            answer()
            say(object(socket.tcp, 60):bind("127.0.0.1", "hangs"))
            os.exit(0)
        ]]) or t.skip "slow_files.so is missing: run by meson")
    end,

    a_program_ends_while_the_authorities_are_read = function()
        local program <close> = shell.file(HEAD .. [[
            local tls = require "mare.tls"
            mare.workers(1)
            local certificate, key = tls.selfsigned "localhost"
            local listener = assert(tls.listen("127.0.0.1", 0,
                {certificate = certificate, key = key}))
            local _, port = listener:address()
            mare.go(function() listener:accept():handshake() end)
            print(select(3, tls.connect("127.0.0.1", port, {name = "localhost"}, 0.0001)))
            os.exit(0)
        ]])
        for _ = 1, t.slow > 1 and 5 or 20 do
            prints("timeout\n", shell.run(shell.mare .. " " .. program.name))
        end
    end,

    -- Hosts.

    a_host_without_standard_input_output_and_error_ends_well = function()
        if not shell.has_stock() then t.skip "no lua5.4 that can load mare.so" end
        local result <close> = shell.file ""
        local program <close> = shell.file(HEAD .. ([[
            local listener = assert(net.listen("127.0.0.1", 0))
            local _, _, code = listener:accept(0.01)
            listener:close()
            local f = io.open(%q, "w")
            f:write(code)
            f:close()
        ]]):format(result.name))
        local folder = shell.mare:match "^(.*)/"
        local library = debug.getinfo(1, "S").source:match "^@(.*)tests/lua/" .. "lua/?.lua;;"
        t.eq(shell.run(("LUA_PATH='%s' LUA_CPATH='%s/?.so;;' lua5.4 %s <&- >&- 2>&-")
            :format(library, folder, program)).code, 0)
        t.eq(io.open(result.name):read "a", "timeout")
    end,

    a_host_has_files_and_ends_when_it_wants_to = function()
        if not shell.has_stock() then t.skip "no lua5.4 that can load mare.so" end
        local library = debug.getinfo(1, "S").source:match "^@(.*)tests/lua/" .. "lua/?.lua"
        local path = ("package.path = %q .. package.path\n"):format(library .. ";")
        prints("3\ttimeout\n", with_fifo([[
            local name = os.tmpname()
            local f = assert(file.open(name, "w+"))
            assert(f:write "one\ntwo\nthree\n" and f:seek "set" == 0)
            local lines = 0
            for _ in f:lines() do lines = lines + 1 end
            f:seek "set"
            assert(f:read "a" == "one\ntwo\nthree\n" and f:close())
            assert(file.write(name, ("x"):rep(10000000)))
            assert(#assert(file.open(name)):read "a" == 10000000)
            os.remove(name)
            print(lines, select(3, file.open(fifo, "r", 0.05)))
        ]], function(text) return shell.stock(path .. text) end))
    end,
}
