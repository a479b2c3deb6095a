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
    print(select(2, node.connect(%q, 10)))
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
    end)
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

    who_fails_again_and_again_is_not_listened_to = function()
        with_keys(function(here)
            local log = mare.channel(100)
            local home <close> = peers.home {keys = here, log = log}
            local port = home.address:match "%d+$"
            local function attempt() -- whether anybody listened
                local stream <close> = t.ok(net.connect("127.0.0.1", tonumber(port), t.patience))
                stream:write "this is no TLS\n"
                stream:read("a", t.patience)
                return log:tryreceive() ~= nil
            end
            for _ = 1, 4 do t.eq(attempt(), true) end
            t.reaches(function() return not attempt() end, "an attempt in vain")
            t.reaches(attempt, "the end of the pause")
        end)
    end,

    a_certificate_is_for_one_name = function()
        with_keys(function(here)
            local log = mare.channel(100)
            local home <close> = peers.home {keys = here, log = log}
            -- It has the key of flow, and says that it is another.
            local other = here .. "/../other"
            t.ok(file.makefolder(other, {mode = 448}))
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
        end)
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
        for _, case in ipairs {{"--name a --listen 0.0.0.0:0", 1, "can be reached by others"},
                {"--name A", 2, "lower case"}, {"--nmae a", 2, "no option '--nmae'"},
                {"--name", 2, "no value for '--name'"}, {"--name a --silence 0", 2, "0.2 at least"},
                {"--name a /no/such/app.lua", 1, "app.lua"}} do
            got = shell.run(("%s node %s"):format(shell.quote(shell.mare), case[1]))
            t.eq(got.code, case[2], got.err)
            t.ok(got.err:find(case[3], 1, true), got.err)
        end
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
