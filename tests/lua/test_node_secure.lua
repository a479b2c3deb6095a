-- SPDX-License-Identifier: MIT
-- Who may come in: nodes with keys, with secrets, with neither; and `mare node`.
local mare, node, keys = require "mare", require "mare.node", require "mare.keys"
local net, file = require "mare.net", require "mare.file"
local t, peers, shell = require "t", require "peers", require "shell"

local ECHO = [[
    local ch = mare.channel(4, "echo")
    for reply, text in ch:messages() do reply:send(text) end
]]

-- Says what came of an attempt to connect.
local ATTEMPT = [[
    print(select(2, node.connect(%q, 1000)))
    mare.sleep(1000)
]]

local function with_keys(f)
    t.in_folder(function(folder)
        local here, there = folder .. "/here", folder .. "/there"
        for _, where in ipairs {here, there} do
            t.ok(keys.authority(where, "tides"))
            t.ok(keys.issue(where, "home", {hosts = {"127.0.0.1"}}))
            t.ok(keys.issue(where, "flow", {hosts = {"127.0.0.1"}}))
        end
        f(here, there)
    end)()
end

local function echoes()
    local reply = mare.channel(1)
    t.ok(peers.find "echo@flow":send(reply, "through TLS"))
    t.eq(reply:receive(t.patience), "through TLS")
end

return {
    nodes_with_keys_of_one_authority_meet = function()
        with_keys(function(here)
            local home <close> = peers.home {keys = here}
            local _ <close> = peers.join(home, {name = "flow", keys = here}, ECHO)
            echoes()
        end)
    end,

    others_stay_outside = function()
        with_keys(function(here, there)
            local log = mare.channel(100)
            local home <close> = peers.home {keys = here, log = log}
            local stranger <close> = peers.start({name = "flow", keys = there},
                ATTEMPT:format(home.address))
            t.ok(stranger.line():find "certificate")
            t.ok(t.ok(log:receive(t.patience)):find "refused 127%.0%.0%.1")
            local _ <close> = peers.start({name = "flow"}, ATTEMPT:format(home.address))
            t.ok(t.ok(log:receive(t.patience)):find "refused 127%.0%.0%.1")
            for _, member in ipairs(t.ok(node.list())) do t.eq(member.name, "home") end
        end)
    end,

    handshakes_are_begun_as_far_as_they_can_be_finished = function()
        local home <close> = peers.home()
        local host, port = home.address:match "^(.*):(%d+)$"
        local before, idle, most, begun = t.descriptors "socket", {}, 0, mare.now()
        local _ <close> = setmetatable(idle, {__close = function()
            for _, stream in ipairs(idle) do stream:close() end
        end})
        for i = 1, 300 do idle[i] = t.ok(net.connect(host, tonumber(port), t.patience)) end
        -- Those that say nothing have 256 places, for 5 seconds; the others stay with the system.
        local function look()
            most = math.max(most, t.descriptors "socket" - before - 300)
        end
        t.reaches(function()
            look()
            return most >= 256 or mare.now() > begun + 4
        end)
        for _ = 1, 50 do
            t.settle()
            look()
        end
        t.ok(most <= 256, "%d at once", most)
    end,

    a_node_that_has_waited_too_long_may_come_again = function()
        local log = mare.channel(100)
        local home <close> = peers.home {log = log}
        local host, port = home.address:match "^(.*):(%d+)$"
        local function hello()
            local stream = t.ok(net.connect(host, tonumber(port), t.patience))
            t.ok(stream:write((">s4"):pack("\x98\1\xa4mare\1\1\0\x95\xa4late\xa0\1\1\x90\x95\z
                \xcd\1\0\xcd\x10\0\xce\3\x93\x87\0\xcd\1\0\xce\0\x10\0\0\xc4\0")))
            return stream
        end
        for _ = 1, 6 do hello():close() end
        local stream <close> = hello()
        t.eq(#t.ok(stream:read(4, t.patience)), 4) -- it is answered
        t.fails("empty", log:tryreceive())
    end,

    -- Not even to who has dialled it by its address, and asks for no name.
    who_is_dialled_has_one_name_too = function()
        with_keys(function(here)
            t.ok(file.rename(here .. "/flow.pem", here .. "/bank.pem"))
            t.ok(file.rename(here .. "/flow.key", here .. "/bank.key"))
            local home <close> = peers.home {keys = here}
            local bank <close> = peers.start {name = "bank", listen = "127.0.0.1:0", keys = here}
            local _, why, code = node.connect(bank.address)
            t.eq({why, code}, {bank.address .. ": the certificate is for 'flow'", "denied"})
            t.eq(#t.ok(node.list()), 1)
            t.ok(home.address)
        end)
    end,

    -- Without a restart of anything: who is there is told to go, who comes is refused, and comes in
    -- again with a key that is good.
    what_is_revoked_is_refused_by_nodes_that_run = {function()
        with_keys(function(here, there)
            t.ok(file.remove(there, {tree = true}))
            t.ok(file.mkdir(there, {permissions = 0x1c0}))
            local function give(...) -- as with scp
                for _, name in ipairs {...} do
                    t.ok(file.copy(here .. "/" .. name, there .. "/" .. name))
                end
            end
            local log = mare.channel(100)
            local home <close> = peers.home {keys = here, log = log}
            give("flow.pem", "flow.key", "trusted.pem")
            local _ <close> = peers.join(home, {name = "flow", keys = there}, ECHO)
            echoes()
            local news = t.ok(node.monitor())
            t.eq(keys.revoke(here, "flow"), 1)
            t.eq({news:receive(t.patience)}, {"down", "flow", "certificate revoked"})
            t.eq(log:receive(t.patience), "the files of keys were read again")
            t.eq(log:receive(t.patience), "refused flow: certificate revoked")
            t.eq(log:receive(t.patience), "refused 127.0.0.1: the certificate of 'CN = flow' is "
                .. "refused: certificate revoked") -- it has come back
            t.ok(keys.rotate(here, "flow"))
            give("flow.pem", "flow.key")
            t.eq({news:receive(3 * t.patience)}, {"up", "flow"})
            echoes()
        end)
    end, timeout = 180},

    a_file_of_keys_that_is_half_written_changes_nothing = {function()
        with_keys(function(here, there)
            local log = mare.channel(100)
            local home <close> = peers.home {keys = here, log = log}
            local whole = t.ok(file.read(here .. "/trusted.pem"))
            t.ok(file.write(here .. "/trusted.pem", whole:sub(1, 100)))
            local _ <close> = peers.start({name = "flow", keys = there},
                ATTEMPT:format(home.address))
            local line = t.ok(log:receive(t.patience))
            t.ok(line:find "^what was loaded before counts: .*/trusted.pem: ", line)
            t.ok(file.write(here .. "/trusted.pem", whole))
            local _ <close> = peers.join(home, {name = "flow", keys = here}, ECHO)
            echoes()
        end)
    end, timeout = 120},

    a_secret_can_be_exchanged_while_a_node_runs = function()
        t.in_folder(function(folder)
            local path = folder .. "/tide.psk"
            t.ok(keys.secret(folder, "tide"))
            local old = t.ok(file.read(path))
            local log = mare.channel(100)
            local home <close> = peers.home {secret = path, log = log}
            local _ <close> = peers.join(home, {name = "flow", secret = path}, ECHO)
            t.ok(keys.secret(folder, "tide", {replace = true}))
            local _ <close> = peers.join(home, {name = "ebb", secret = path})
            echoes() -- with who came with the one before, as long as the link lasts
            t.ok(file.write(folder .. "/old.psk", old, {permissions = 0x180}))
            local late <close> = peers.start({name = "late", secret = folder .. "/old.psk"},
                ATTEMPT:format(home.address))
            t.ok(late.line():find "127%.0%.0%.1")
            t.eq(log:receive(t.patience), "the files of keys were read again")
            t.ok(t.ok(log:receive(t.patience)):find "^refused 127%.0%.0%.1: ")
        end)()
    end,

    -- One look at a time: the next is not kept waiting by one that has failed.
    an_error_while_files_are_read_again_keeps_nobody_out = t.in_folder(function(folder)
        local path, credentials = folder .. "/tide.psk", require "mare._keeper_keys"
        t.ok(keys.secret(folder, "tide"))
        local options = {secret = path, tls = {psk = t.ok(keys.secrets(path)),
            min_version = "1.3"}}
        t.ok(credentials.begin(options, function() error("the log fails", 0) end))
        t.ok(file.remove(path))
        for _ = 1, 2 do
            local look = mare.go(function() return pcall(credentials.renew) end)
            t.eq({look:join(t.patience)}, {true, false, "the log fails"})
        end
    end),

    -- So have nodes whose handshake over TLS did not get its turn in time.
    who_leaves_during_the_handshake_is_listened_to_again = function()
        with_keys(function(here)
            local log = mare.channel(100)
            local home <close> = peers.home {keys = here, log = log}
            local port = home.address:match "%d+$"
            local function attempt(bytes)
                local stream <close> = t.ok(net.connect("127.0.0.1", tonumber(port), t.patience))
                stream:write(bytes)
                stream:shutdown()
                stream:read("a", t.patience)
            end
            for _ = 1, 8 do attempt "\x16\3\1\2\0\1" end
            t.ok(t.ok(log:receive(t.patience)):find "the peer left during the handshake$")
            attempt "this is no TLS\n"
            local line
            repeat line = t.ok(log:receive(t.patience)) until not line:find "the peer left"
            t.ok(line:find "does not speak TLS$", line)
        end)
    end,

    -- Not even the disk: who only connects and goes costs himself more.
    those_who_leave_at_once_are_told_of_together = function()
        with_keys(function(here)
            local log = mare.channel(1000)
            local home <close> = peers.home {keys = here, log = log}
            local port = tonumber(home.address:match "%d+$")
            local begun = mare.now()
            local told, lines = 0, 0
            for _ = 1, 300 do t.ok(net.connect("127.0.0.1", port, t.patience)):close() end
            repeat
                local line = t.ok(log:receive(t.patience))
                told, lines = told + 1 + (line:match "and (%d+) more" or 0), lines + 1
                if #log == 0 and told < 300 then
                    mare.sleep(1) -- for the next line, which tells of the others
                    t.ok(net.connect("127.0.0.1", port, t.patience)):close()
                end
            until told >= 300
            t.ok(lines <= mare.now() - begun + 2, lines)
        end)
    end,

    who_fails_again_and_again_is_not_listened_to = function()
        with_keys(function(here)
            local log = mare.channel(100)
            local home <close> = peers.home {keys = here, log = log}
            local port = home.address:match "%d+$"
            local function attempt() -- whether anybody listened
                local stream <close> = t.ok(net.connect("127.0.0.1", tonumber(port), t.patience))
                stream:write "this is no TLS\n"
                stream:read("a", t.patience)
                t.ok(node.list()) -- whoever ended it has said so by the time this is answered
                return log:tryreceive() ~= nil
            end
            for _ = 1, 4 do t.eq(attempt(), true) end
            t.reaches(function() return not attempt() end, "an attempt in vain")
            t.reaches(attempt, "the end of the pause")
        end)
    end,

    -- Somebody on the way has recorded how a node came in, and sends the same bytes again.
    a_recorded_handshake_lets_nobody_in = function()
        with_keys(function(here)
            local log = mare.channel(100)
            local home <close> = peers.home {keys = here, log = log}
            local host, port = home.address:match "^(.*):(%d+)$"
            local listener <close> = t.ok(net.listen("127.0.0.1", 0))
            local recorded = {}
            local function pass(from, to, record)
                while true do
                    local bytes = from:read()
                    if not bytes then return to:close() end
                    if record then record[#record + 1] = bytes end
                    to:write(bytes)
                end
            end
            mare.go(net.serve, listener, function(outer)
                local inner = t.ok(net.connect(host, tonumber(port), t.patience))
                recorded = {}
                mare.go(pass, outer, inner, recorded):detach()
                pass(inner, outer)
            end):detach()
            local at, number = listener:address()
            local _ <close> = peers.join({address = ("home@%s:%d"):format(at, number)},
                {name = "flow", keys = here}, ECHO)
            echoes()
            t.ok(#table.concat(recorded) > 1000) -- its certificate is in there
            local stream <close> = t.ok(net.connect(host, tonumber(port), t.patience))
            stream:write(table.concat(recorded))
            stream:shutdown()
            stream:read("a", t.patience)
            t.ok(t.ok(log:receive(t.patience)):find "refused 127%.0%.0%.1")
            echoes() -- the node itself is still there
        end)
    end,

    a_certificate_is_for_one_name = function()
        with_keys(function(here)
            local log = mare.channel(100)
            local home <close> = peers.home {keys = here, log = log}
            -- It has the key of flow, and says that it is another.
            local other = here .. "/../other"
            t.ok(file.mkdir(other, {permissions = "700"}))
            for _, name in ipairs {"trusted.pem", "flow.pem", "flow.key"} do
                local to = name:gsub("flow", "ebb")
                t.ok(file.write(other .. "/" .. to, t.ok(file.read(here .. "/" .. name))))
                os.execute(("chmod 600 %s"):format(shell.quote(other .. "/" .. to)))
            end
            local liar <close> = peers.start({name = "ebb", keys = other},
                ATTEMPT:format(home.address))
            t.ok(liar.line():find "the certificate is for 'flow'")
            t.ok(t.ok(log:receive(t.patience)):find "is for 'flow'")
        end)
    end,

    only_those_who_are_listed_come_in = function()
        with_keys(function(here)
            local home <close> = peers.home {keys = here, allow = {"ebb"}}
            local flow <close> = peers.start({name = "flow", keys = here},
                ATTEMPT:format(home.address))
            t.ok(flow.line():find "may come in")
        end)
    end,

    nodes_with_one_secret_meet = function()
        t.in_folder(function(folder)
            for _, name in ipairs {"tide", "other"} do t.ok(keys.secret(folder, name)) end
            local home <close> = peers.home {secret = folder .. "/tide.psk"}
            local mine = {name = "flow", secret = folder .. "/tide.psk"}
            local _ <close> = peers.join(home, mine, ECHO)
            echoes()
            local stranger <close> = peers.start({name = "ebb", secret = folder .. "/other.psk"},
                ATTEMPT:format(home.address))
            t.ok(stranger.line())
            for _, member in ipairs(t.ok(node.list())) do t.ok(member.name ~= "ebb") end
        end)()
    end,

    what_is_no_node_does_no_harm = function()
        local home <close> = peers.home()
        local host, port = home.address:match "^(.*):(%d+)$"
        local texts = {"GET / HTTP/1.1\r\n\r\n", "\x94\0\1\xa1f\x90", ("\xff"):rep(100000)}
        for _, text in ipairs(texts) do
            local stream <close> = t.ok(net.connect(host, tonumber(port), t.patience))
            stream:write(text)
            stream:shutdown()
            stream:read("a", t.patience)
        end
        local _ <close> = peers.join(home, {name = "flow"}, ECHO)
        echoes()
    end,

    -- Nor is who says nothing, or half of a handshake, waited for: the node ends the connection.
    who_says_nothing_or_half_is_not_waited_for = function()
        local HELLO = (">s4"):pack("\x98\1\xa4mare\1\1\0\x95\xa4late\xa0\1\1\x90\x95\z
            \xcd\1\0\xcd\x10\0\xce\3\x93\x87\0\xcd\1\0\xce\0\x10\0\0\xc4\0")
        with_keys(function(here)
            for _, secure in ipairs {false, true} do
                local home <close> = peers.home {keys = secure and here or nil}
                local host, port = home.address:match "^(.*):(%d+)$"
                local silent <close> = setmetatable({}, {__close = function(all)
                    for _, stream in ipairs(all) do stream:close() end
                end})
                for i, text in ipairs {"", HELLO:sub(1, 3), HELLO:sub(1, -2), "\x16\3\1\2\0\1"} do
                    silent[i] = t.ok(net.connect(host, tonumber(port), t.patience))
                    t.ok(text == "" or silent[i]:write(text))
                end
                for _, stream in ipairs(silent) do
                    local _, _, code = stream:read("a", t.patience)
                    t.ok(code ~= "timeout", code)
                end
                local _ <close> = peers.join(home, {name = "flow", keys = secure and here or nil},
                    ECHO)
                echoes()
            end
        end)
    end,

    the_command_reads_file_environment_and_arguments = function()
        local config <close> = shell.file "name = file\ngroup = tides # ours\nsilence = 1\n"
        local app <close> = shell.file [[
            local node = require "mare.node"
            print(node.list()[1].name, arg[0] ~= nil, arg[1], ...)
        ]]
        local command = ("%s node --config %s"):format(shell.quote(shell.mare), config)
        local got = shell.run(("%s %s x"):format(command, app))
        t.eq(got.out, "file\ttrue\tx\tx\n", got.err)
        got = shell.run(("MARE_NODE_NAME=env %s %s"):format(command, app))
        t.eq(got.out, "env\ttrue\tnil\n", got.err)
        got = shell.run(("MARE_NODE_NAME=env %s --name line %s"):format(command, app))
        t.eq(got.out, "line\ttrue\tnil\n", got.err)
        -- What is repeated in a file: a list grows, anything else is a mistake.
        local lists <close> = shell.file "name = ebb\njoin = 127.0.0.1\njoin = 127.0.0.1:1\n"
        got = shell.run(("%s node --config %s %s"):format(shell.quote(shell.mare), lists, app))
        t.ok(got.code ~= 0 and got.err:find("127.0.0.1'", 1, true), got.err)
        local twice <close> = shell.file "name = ebb\nname = flow\n"
        got = shell.run(("%s node --config %s %s"):format(shell.quote(shell.mare), twice, app))
        t.eq({got.code, got.err},
            {2, ("mare node: %s:2: 'name' has a value already\n"):format(twice)})
        for _, case in ipairs {{"--name a --listen 0.0.0.0:0", 1, "can be reached by others"},
                {"--name A", 2, "lower case"}, {"--nmae a", 2, "no option '--nmae'"},
                {"--name", 2, "no value for '--name'"}, {"--name a --silence 0", 2, "0.2 at least"},
                {"--name a /no/such/app.lua", 1, "app.lua"}} do
            got = shell.run(("%s node %s"):format(shell.quote(shell.mare), case[1]))
            t.eq(got.code, case[2], got.err)
            t.ok(got.err:find(case[3], 1, true), got.err)
        end
    end,

    the_program_may_come_before_the_options = function()
        local app <close> = shell.file 'print(require "mare.node".list()[1].name, ...)'
        local command = ("%s node %s"):format(shell.quote(shell.mare), app)
        local got = shell.run(command .. " --name ebb --json --silence 1 x --name y")
        t.eq({got.out, got.err, got.code}, {"ebb\tx\t--name\ty\n", "", 0})
        got = shell.run("MARE_NODE_NAME=ebb " .. command .. " --mine x")
        t.eq({got.out, got.err, got.code}, {"ebb\t--mine\tx\n", "", 0})
        got = shell.run(command .. " --name")
        t.eq(got.code, 2)
        t.ok(got.err:find("no value for '--name'", 1, true), got.err)
    end,

    files_that_are_no_files_are_refused_by_name = function()
        with_keys(function(here)
            local function refused(words, path, code)
                local got = shell.run(("%s %s"):format(shell.quote(shell.mare), words))
                t.eq({got.out, got.code}, {"", code}, got.err)
                local line = got.err:match "^mare %a+: ([^\n]+)\n$"
                t.ok(line and line:find(path .. ": it is not a file", 1, true), got.err)
            end
            for _, name in ipairs {"trusted.pem", "home.pem", "home.key"} do
                local path = here .. "/" .. name
                t.ok(file.rename(path, path .. ".kept"))
                t.eq(shell.run("mkfifo -m 600 " .. shell.quote(path)).code, 0)
                refused("node --name home --listen 127.0.0.1:0 --keys " .. shell.quote(here),
                    path, 1)
                t.ok(file.remove(path))
                t.ok(file.rename(path .. ".kept", path))
            end
            local pipe = here .. "/pipe"
            t.eq(shell.run("mkfifo -m 600 " .. shell.quote(pipe)).code, 0)
            refused("node --name home --secret " .. shell.quote(pipe), pipe, 1)
            for _, words in ipairs {"node", "serve", "submit", "jobs"} do
                for _, path in ipairs {here, pipe} do
                    refused(("%s --config %s"):format(words, shell.quote(path)), path, 2)
                end
            end
        end)
    end,

    files_with_something_else_in_them_are_named = function()
        with_keys(function(here)
            local function text_of(name) return t.ok(file.read(here .. "/" .. name)) end
            local key, certificate, missing = text_of "flow.key", text_of "flow.pem",
                "no %s in PEM form"
            local for_certificate, for_key = missing:format "certificate",
                missing:format "private key"
            for _, case in ipairs {{"home.pem", "", for_certificate},
                {"home.pem", "garbage\n", for_certificate},
                {"home.pem", "\0" .. certificate, for_certificate},
                {"home.pem", key, for_certificate}, {"home.key", "garbage\n", for_key},
                {"home.key", certificate, for_key},
                {"home.key", key, "it is not the certificate's key"},
                {"trusted.pem", "", for_certificate}, {"trusted.pem", key, for_certificate}} do
                local name, text, why = table.unpack(case)
                local kept, path = text_of(name), here .. "/" .. name
                t.ok(file.write(path, text))
                local got = shell.run(("%s node --name home --listen 127.0.0.1:0 --keys %s"):format(
                    shell.quote(shell.mare), shell.quote(here)))
                t.ok(file.write(path, kept))
                t.eq({got.out, got.err, got.code}, {"", ("mare node: %s: %s\n"):format(path, why),
                    1})
            end
        end)
    end,

    keys_and_a_secret_exclude_each_other = function()
        with_keys(function(here)
            t.ok(keys.secret(here, "tide"))
            local both = ("--keys %s --secret %s"):format(shell.quote(here),
                shell.quote(here .. "/tide.psk"))
            for _, words in ipairs {"node --name home --listen 127.0.0.1:0 %s /dev/null",
                "serve --listen 127.0.0.1:0 --name home %s",
                "submit --name home %s 127.0.0.1:1 /dev/null", "jobs --name home %s 127.0.0.1:1"} do
                local got = shell.run(("%s %s"):format(shell.quote(shell.mare),
                    words:format(both)))
                t.eq({got.out, got.code}, {"", 2}, got.err)
                t.ok(got.err:find "^mare %a+: [^\n]*'keys' or a 'secret', not both\n$", got.err)
            end
        end)
    end,

    what_is_insecure_is_said_loudly = function()
        local app <close> = shell.file ""
        local command = shell.quote(shell.mare) .. " node --name ebb --listen 0.0.0.0:0 "
        local got = shell.run(command .. "--insecure " .. app.name)
        t.eq({got.out, got.code}, {"", 0})
        t.eq(got.err,
            "mare node: WARNING: --insecure: all who reach this node can use it\n")
        t.eq(shell.run(command .. app.name).code, 1) -- without it, it does not listen there
    end,

    the_command_says_whom_it_cannot_join_and_why = function()
        local app <close> = shell.file 'print((require "mare.node".monitor():receive(60)))'
        local got = shell.run(("%s node --name flow --join ebb@127.0.0.1:1 %s"):format(
            shell.quote(shell.mare), app))
        t.eq(got.out, "unreachable\n", got.err)
        t.ok(got.err:find "^mare node: cannot join ebb@127.0.0.1:1: %a", got.err)
    end,

    a_node_does_not_keep_its_program = function()
        for text, code in pairs {[""] = 0, ["error 'on purpose'"] = 1} do
            local got = shell.lua(([[
                require "mare.node".start {name = "ebb", listen = "127.0.0.1:0"} %s
            ]]):format(text))
            t.eq(got.code, code, got.err)
        end
    end,

    the_command_serves_until_it_is_interrupted = function()
        local child = require "mare.child"
        local served <close> = t.ok(child.spawn {shell.mare, "node", "--name", "ebb", "--listen",
            "127.0.0.1:0", "--json", stdout = "pipe"})
        local line = t.ok(served.stdout:read("l", t.patience))
        local address = t.ok(line:match '"event":"up".*"address":"(.-)"')
        local home <close> = peers.home()
        t.eq(node.connect(address, t.patience), "ebb")
        t.ok(t.ok(served.stdout:read("l", t.patience)):find '"event":"up","node":"home"')
        t.ok(served:kill "INT")
        local how, code = served:wait(t.patience)
        t.eq(how, "exit")
        t.eq(code, 0)
        t.ok(home)
    end,
}
