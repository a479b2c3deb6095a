-- SPDX-License-Identifier: MIT
-- Who is there: names, addresses, lives of a node, and what its loss does to those who wait.
local mare, node = require "mare", require "mare.node"
local net, file = require "mare.net", require "mare.file"
local t, peers, hostile = require "t", require "peers", require "hostile"

-- A peer with a channel of a name that answers each message with what it got.
local ECHO = [[
    local ch = mare.channel(4, "echo")
    for reply, a, b, c in ch:messages() do reply:send(a, b, c) end
]]

-- The loops (descriptors of epoll) that watch TCP sockets of this program, and how many sockets
-- those are.
local function loops_of_sockets()
    local sockets, loops, count = {}, {}, 0
    for line in file.read "/proc/self/net/tcp":gmatch "[^\n]+" do
        local inode = line:match("^%s*%d+:" .. ("%s+%S+"):rep(8) .. "%s+(%d+)")
        if inode then sockets[tonumber(inode)] = true end
    end
    for _, fd in ipairs(file.list "/proc/self/fdinfo") do
        for inode in (file.read("/proc/self/fdinfo/" .. fd) or ""):gmatch "tfd:[^\n]*ino:(%x+)" do
            if sockets[tonumber(inode, 16)] then
                loops[fd], count = true, count + 1
            end
        end
    end
    return loops, count
end

return {
    -- Whichever worker the keeper runs on when it dials, or lets somebody in.
    one_worker_watches_all_links = function()
        t.with_workers(4, function()
            local home <close> = peers.home()
            local _ <close> = peers.join(home, {name = "in1"})
            local _ <close> = peers.join(home, {name = "in2"})
            for i = 1, 4 do
                local name = "out" .. i
                local out = peers.start {name = name, listen = "127.0.0.1:0"}
                mare.go(function()
                    local _ <close> = out
                    mare.channel():receive()
                end):detach()
                t.eq(node.connect(name .. "@" .. out.address, t.patience), name)
            end
            t.reaches(function() return select(2, loops_of_sockets()) == 7 end, "7 are watched")
            local loops = loops_of_sockets()
            t.ok(next(loops) and not next(loops, next(loops)))
        end)
    end,

    who_asks_a_node_that_is_lost_is_told = function()
        local home <close> = peers.home {silence = 0.5}
        local peer <close> = peers.join(home, {name = "flow", silence = 0.5}, ECHO)
        peers.find "echo@flow"
        peer.signal "STOP"
        local before = mare.now()
        local asks = {mare.go(mare.find, "echo@flow"), mare.go(mare.spawn, {node = "flow"}, "f")}
        for _, routine in ipairs(asks) do
            t.eq(select(4, routine:join(t.patience)), "nonode")
        end
        t.ok(mare.now() - before < 5 * t.slow)
        peer.signal "CONT"
    end,

    a_path_can_be_listened_to_again = function()
        t.in_folder(function(folder)
            local path = folder .. "/node"
            for _ = 1, 2 do
                t.ok(node.start {name = "ebb", listen = path})
                t.ok(node.stop(t.patience))
            end
            local peer <close> = peers.start {name = "flow", listen = path}
            t.fails("exists", node.start {name = "ebb", listen = path})
            peer.signal "KILL"
            t.eq(peer.child:wait(t.patience), "signal")
            t.eq(node.start {name = "ebb", listen = path}, path)
            t.ok(node.stop(t.patience))
        end)()
    end,

    -- Whatever path its own end of the socket has, or none: all of these count as one.
    who_comes_by_a_path_is_a_local_program = function()
        t.in_folder(function(folder)
            local lines = mare.channel(100)
            local home <close> = peers.home {listen = folder .. "/home", log = lines}
            local there = folder .. "/flow"
            local _ <close> = peers.join(home, {name = "flow", listen = there})
            for _, one in ipairs(node.list()) do
                if one.name == "flow" then t.eq(one.address, there) end
            end
            local stream <close> = t.ok(net.connect(home.address))
            t.ok(stream:write "GET / HTTP/1.1\r\n\r\n")
            local line = t.ok(lines:receive(t.patience))
            t.ok(line:find("refused a local program: ", 1, true), line)
        end)()
    end,

    an_address_that_is_none_is_told_as_such = function()
        local _ <close> = peers.home()
        local _, message = node.connect("nowhere", t.patience)
        t.ok(message:find("'nowhere' is not HOST:PORT", 1, true), message)
    end,

    without_keys_a_node_dials_nobody_else = function()
        local home <close> = peers.home()
        t.fails("denied", node.connect("192.0.2.1:7000", t.patience))
        t.fails("denied", node.connect("127.example.org:7000", t.patience))
        t.ok(home)
    end,

    who_is_dialled_must_be_who_is_wanted = function()
        local home <close> = peers.home()
        local flow <close> = peers.start({name = "flow", listen = "127.0.0.1:0"})
        local _, message = t.fails("exists", node.connect("ebb@" .. flow.address, t.patience))
        t.ok(not message or message:find "is called 'flow', not 'ebb'")
        t.eq(node.connect("flow@" .. flow.address, t.patience), "flow")
        t.ok(home)
    end,

    -- It may have moved, or somebody may have told where it is not.
    who_is_dialled_where_nobody_answers_may_come_in = function()
        local home <close> = peers.home {silence = 3600}
        local silent <close> = t.ok(net.listen("127.0.0.1", 0))
        mare.go(node.connect, ("late@127.0.0.1:%d"):format(select(2, silent:address()))):detach()
        local stream <close> = t.ok(silent:accept(t.patience)) -- and says nothing
        t.ok(stream:read(1, t.patience))
        local late <close> = peers.start({name = "late"},
            ("print(node.connect(%q, 1000))"):format(home.address))
        t.eq(late.line(), "home")
    end,

    a_node_that_is_killed_is_missed_at_once = function()
        local home <close> = peers.home()
        local watch = t.ok(node.monitor())
        local peer <close> = peers.join(home, {name = "flow"}, [[
            mare.channel(0, "never")
            node.export("wait", function() require "mare".sleep(1000) end)
            mare.channel(0, "ready") mare.sleep(1000)
        ]])
        peers.find "ready@flow"
        local never = peers.find "never@flow"
        local p, monitor = mare.spawn({node = "flow", monitor = true}, "wait")
        local there = mare.channel(1)
        local linked = mare.spawn(function()
            assert(mare.spawn({node = "flow", link = true}, "wait"))
            there:send(true)
            mare.sleep(1000)
        end)
        t.ok(there:receive(t.patience))
        local waiting = {
            mare.go(function() return never:receive() end),
            mare.go(function() return select(2, mare.select {mare.channel(), never}) end),
            mare.go(function() return p:join() end),
        }
        mare.yield() -- they wait
        peer.signal "KILL"
        for _, routine in ipairs(waiting) do
            local ok, a, b, code = routine:join(t.patience)
            t.eq(ok, true)
            t.eq(code or b, "nonode", tostring(a))
        end
        t.eq(select(2, monitor:receive(t.patience)), "nonode")
        t.fails("killed", linked:join(t.patience))
        t.fails("nonode", never:send(1))
        t.fails("nonode", never:receive(1))
        t.eq(p:alive(), false)
        repeat local what = watch:receive(t.patience) until what == "down"
    end,

    a_node_that_stands_still_is_missed_after_the_silence = function()
        local home <close> = peers.home {silence = 0.5}
        local peer <close> = peers.join(home, {name = "flow", silence = 0.5}, ECHO)
        local echo = peers.find "echo@flow"
        peer.signal "STOP"
        local before = mare.now()
        t.fails("nonode", echo:receive(t.patience))
        t.ok(mare.now() - before < 5 * t.slow)
        peer.signal "CONT"
    end,

    a_new_life_of_a_node_is_another_node = function()
        local home <close> = peers.home()
        local first <close> = peers.join(home, {name = "flow"}, ECHO)
        local echo, reply = peers.find "echo@flow", mare.channel(1)
        first.signal "KILL"
        t.fails("nonode", echo:receive(t.patience))
        local _ <close> = peers.join(home, {name = "flow"}, ECHO)
        t.fails("nonode", echo:send(reply, 1))
        peers.find "echo@flow"
        t.ok(mare.find "echo@flow":send(reply, 2))
        t.eq(reply:receive(t.patience), 2)
    end,

    -- The first bytes that a node says of itself have its silence, in microseconds.
    who_is_silent_for_three_seconds_is_lost_unless_one_says_otherwise = function()
        for given, expected in pairs {[3] = 3000000, [0.2] = 200000} do
            node.stop(t.patience)
            local address = t.ok(node.start {name = "home", listen = "127.0.0.1:0",
                silence = given ~= 3 and given or nil})
            local peer <close> = hostile.come_in(address, "peer")
            local head = (">I4"):unpack(t.ok(peer.stream:read(4, t.patience)))
            local welcome = t.ok(peer.stream:read(head, t.patience))
            local limits = "\x95\xce\0\1\0\0\xce\0\2\0\0\xce" .. (">I4"):pack(expected)
            t.eq(welcome:byte(2), 2) -- WELCOME
            t.ok(welcome:find(limits, 1, true))
        end
        node.stop(t.patience)
    end,

    who_is_silent_is_suspected_and_who_speaks_again_is_trusted = function()
        local home <close> = peers.home {silence = 10 * t.slow}
        local watch = t.ok(node.monitor())
        local peer <close> = hostile.enter(home.address, "peer", nil, nil, 3600)
        t.eq({watch:receive(t.patience)}, {"up", "peer"})
        t.eq({watch:receive(t.patience)}, {"suspected", "peer"})
        t.eq(peer:ask(70, hostile.text "ping"), "\0\xc3")
        t.eq({watch:receive(t.patience)}, {"trusted", "peer"})
        peer.stream:close()
        t.eq((watch:receive(t.patience)), "down")
    end,

    two_nodes_cannot_have_one_name = function()
        local log = mare.channel(100)
        local home <close> = peers.home {log = log}
        local _ <close> = peers.join(home, {name = "flow"}, ECHO)
        local second <close> = peers.start({name = "flow"}, ([[
            print(select(2, node.connect(%q)))
            mare.sleep(1000)
        ]]):format(home.address))
        t.ok(second.line():find "another node called 'flow'")
        t.eq(log:receive(t.patience), "two nodes called 'flow' at the same time") -- on both sides
        t.eq(log:receive(t.patience),
            "refused 127.0.0.1: there is another node called 'flow', and it is alive")
        local third <close> = peers.start({name = "home"}, ([[
            print(select(2, node.connect(%q)))
            mare.sleep(1000)
        ]]):format(home.address))
        t.ok(third.line():find "is called 'home' itself")
        t.eq(log:receive(t.patience), "refused 127.0.0.1: this node is called 'home' itself")
        local reply = mare.channel(1)
        t.ok(peers.find "echo@flow":send(reply, 1)) -- which goes on
        t.eq(reply:receive(t.patience), 1)
    end,

    nodes_hear_of_each_other = function()
        local home <close> = peers.home()
        local _ <close> = peers.join(home, {name = "one", listen = "127.0.0.1:0"}, ECHO)
        local _ <close> = peers.join(home, {name = "two"}, [[
            local reply = mare.channel(1)
            local echo = find "echo@one"
            echo:send(reply, "over the shortest way")
            find "told@home":send(reply:receive(1000))
            mare.sleep(1000)
        ]])
        local told = mare.channel(1, "told")
        t.eq(told:receive(t.patience), "over the shortest way")
        told:close()
        local names = {}
        for _, item in ipairs(t.ok(node.list())) do names[#names + 1] = item.name end
        t.eq(table.concat(names, " "), "home one two")
    end,

    -- It told no address that others could use: they are told where it was met.
    who_listens_anywhere_is_dialled_where_it_was_met = function()
        local home <close> = peers.home()
        local function address_of(name)
            for _, item in ipairs(t.ok(node.list())) do
                if item.name == name then return item.address end
            end
        end
        local anywhere = {name = "one", listen = "0.0.0.0:0", insecure = true}
        local one <close> = peers.join(home, anywhere)
        t.eq(address_of "one", "127.0.0.1:" .. one.address:match "%d+$")
        anywhere.name, anywhere.join = "two", nil
        local two <close> = peers.start(anywhere)
        local port = two.address:match "%d+$"
        t.eq(node.connect("127.0.0.1:" .. port, t.patience), "two")
        t.eq(address_of "two", "127.0.0.1:" .. port)
        local three <close> = peers.join(home, {name = "three"}, [[
            while true do
                for _, item in ipairs(node.list()) do
                    if item.name == "one" then print(item.address) end
                end
                mare.sleep(0.01)
            end
        ]])
        t.eq(three.line(), address_of "one")
    end,

    heartbeats_find_out_where_nodes_are = function()
        local home <close> = peers.home {silence = t.slow} -- short: so heartbeats come soon
        t.eq(t.ok(node.near()), {})
        local _ <close> = peers.join(home, {name = "one", silence = t.slow})
        local _ <close> = peers.join(home, {name = "two", silence = t.slow})
        local near
        t.reaches(function()
            near = t.ok(node.near())
            return #near == 2
        end, "two places")
        t.ok(near[1].estimate > 0 and near[1].estimate <= near[2].estimate)
        t.eq(#near[1].place, 3)
        local nearest
        t.reaches(function() -- heartbeats go on: none came between the first look and the last
            near, nearest = t.ok(node.near()), t.ok(node.near(1))
            return t.show(node.near()) == t.show(near)
        end, "places that stay for a moment")
        t.eq(nearest, {near[1]})
        for _, member in ipairs(t.ok(node.list())) do
            t.ok(member.place)
            t.eq(member.estimate == nil, member.here == true)
        end
    end,

    -- Nothing shows more clearly that a peer is there than what it says all the time. But only a
    -- heartbeat measures the way to it.
    a_link_that_is_never_idle_is_measured_too = function()
        local silence = 2 * t.slow
        local home <close> = peers.home {silence = silence}
        local _ <close> = peers.join(home, {name = "flow", silence = silence}, ECHO)
        t.reaches(function()
            mare.find "echo@flow" -- asks the node, each time
            return #t.ok(node.near()) == 1
        end, "the place of the other node")
    end,

    who_leaves_says_so = function()
        local home <close> = peers.home()
        local watch = t.ok(node.monitor())
        local _ <close> = peers.join(home, {name = "flow"}, [[
            node.connect(options.join[1])
            node.stop(60)
        ]])
        local what, name, why
        repeat what, name, why = watch:receive(t.patience) until what ~= "up"
        t.eq(what, "left", why)
        t.eq(name, "flow")
        t.fails("nonode", mare.find "echo@flow")
    end,

    misuse_is_refused_in_words = function()
        t.raises("a node needs a 'name'", node.start, {})
        t.raises("option 'name' must be", node.start, {name = "Big"})
        t.raises("unknown option 'lisen'", node.start, {name = "a", lisen = "x"})
        t.raises("option 'silence' must be", node.start, {name = "a", silence = 0.1})
        t.raises("option 'code' must be", node.start, {name = "a", code = "all"})
        t.raises("option 'silence' must be", node.start, {name = "a", silence = math.huge})
        t.raises("option 'address' must be", node.start, {name = "a", address = ("x"):rep(256)})
        t.raises("option 'allow' must be", node.start, {name = "a", allow = {1}})
        t.raises("option 'log' must be a channel", node.start, {name = "a", log = mare.self()})
        for _, odd in ipairs {0 / 0, "x", {}, mare.self()} do
            t.raises("channel expected", node.monitor, odd)
        end
        t.raises("a name is 'name@node'", node.find, "name")
        t.fails("nonode", mare.find "a@b")
        t.fails("nonode", node.list())
        local _, message = node.start {name = "a", listen = "0.0.0.0:0"}
        t.ok(message:find "can be reached by others")
        t.fails("denied", node.start {name = "a", join = {"b@example.org:7000"}})
        local home <close> = peers.home()
        t.fails("exists", node.start {name = "b"})
        t.fails("nonode", node.connect("127.0.0.1:1", 5))
        t.fails("nonode", mare.find "a@nobody")
        t.ok(home)
    end,

    misuse_is_told_with_the_line_of_the_program = function()
        local home <close> = peers.home()
        local _ <close> = peers.join(home, {name = "flow"}, [[
            node.export("f", print)
            mare.channel(0, "ready")
            mare.sleep(1000)
        ]])
        peers.find "ready@flow"
        t.ok(node.export("f", print))
        local here, odd = debug.getinfo(1, "S").short_src, coroutine.create(print)
        local function blames(what, f)
            local ok, message = pcall(f)
            t.ok(not ok and message:sub(1, #here + 1) == here .. ":", message)
            t.ok(message:find(what, 1, true), message)
        end
        for _, name in ipairs {"home", "flow"} do
            local function spawn(what, key, value, ...)
                local options, more = {node = name, [key] = value}, table.pack(...)
                blames(what, function()
                    mare.spawn(options, table.unpack(more, 1, more.n))
                end)
            end
            spawn("unknown option 'lnk'", "lnk", true, "f")
            spawn("option 'name' must be", "name", 5, "f")
            spawn("option 'name' must be", "name", "a\0b", "f")
            spawn("option 'memory' must be", "memory", 0.5, "f")
            spawn("option 'link' must be", "link", 1, "f")
            spawn("option 'monitor' must be", "monitor", "x", "f")
            spawn("number expected", "timeout", mare.self(), "f")
            spawn("cannot be NaN", "timeout", 0 / 0, "f")
            spawn("got boolean", "timeout", 1, true)
            spawn("no 'source'", "timeout", 1, {})
            spawn("option 'source' must be", "timeout", 1, {source = print})
            spawn("option 'name' must be", "timeout", 1, {source = "", name = {}})
            spawn("arg 4: a coroutine cannot travel", "timeout", 5, "f", 1, odd)
        end
        blames("option 'node' must be", function() mare.spawn({node = 5}, "f") end)
        blames("number expected", function() mare.find("a@flow", mare.self()) end)
        blames("number expected", function() node.connect("flow:1", mare.self()) end)
        blames("number expected", function() node.stop(mare.self()) end)
        blames("channel expected", function() node.home() end)
        blames("cannot be NaN", function() node.near(0 / 0) end)
        blames("option 'keys' must be", function() node.start {name = "a", keys = "\0"} end)
        t.eq(#node.near(-1), 0)
        t.eq(#node.near(math.huge), 0)
    end,

    an_address_that_cannot_be_one_is_like_any_that_is_not_reached = function()
        local _ <close> = peers.home {insecure = true}
        for _, address in ipairs {"/" .. ("x"):rep(200), "/\0", "a\0b:1"} do
            t.fails("nonode", node.connect(address, t.patience))
            t.fails("nonode", node.find("a@nobody", t.patience)) -- nothing is dialled any more
        end
    end,

    who_falls_silent_after_the_handshake_keeps_nobody_out = function()
        local SILENCE = 600 -- seconds, until the node gives them up
        local home <close> = peers.home {silence = SILENCE}
        local host, port = home.address:match "^(.*):(%d+)$"
        local silent <close> = setmetatable({}, {__close = function(all)
            for _, stream in ipairs(all) do stream:close() end
        end})
        for i = 1, 256 do -- as many handshakes as there are at once
            silent[i] = t.ok(net.connect(host, tonumber(port), t.patience))
            t.ok(silent[i]:write((">s4"):pack("\x98\1\xa4mare\1\1\0\x95" .. -- HELLO
                ("\xa7s%06d"):format(i) .. "\xa0\1\1\x90\z
                \x95\xcd\1\0\xcd\x10\0\xce\x23\xc3\x46\0\xcd\1\0\xce\0\x10\0\0\xc4\0")))
        end
        for i = 1, 256 do t.ok(silent[i]:read(4, t.patience)) end -- WELCOME, and then nothing
        local _ <close> = peers.join(home, {name = "late", silence = SILENCE})
    end,
}
