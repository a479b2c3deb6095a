-- SPDX-License-Identifier: MIT
-- Nodes: what crosses between two programs, and what each fault does to those who wait.
local mare, node = require "mare", require "mare.node"
local t, peers = require "t", require "peers"

-- A peer with a channel of a name that answers each message with what it got.
local ECHO = [[
    local ch = mare.channel(4, "echo")
    for reply, a, b, c in ch:messages() do reply:send(a, b, c) end
]]

return {
    values_cross_as_they_are = function()
        local home <close> = peers.home()
        local _ <close> = peers.join(home, {name = "flow"}, ECHO)
        local echo, reply = peers.find "echo@flow", mare.channel(1)
        t.eq(node.home(echo), "flow")
        t.eq(node.home(reply), nil)
        local list = {1, 2.5, "three", {four = true}, [10] = false}
        list.self = list
        t.ok(echo:send(reply, list, nil, ("x"):rep(100000)))
        local a, b, c = reply:receive(t.patience)
        t.eq(a[3], "three")
        t.eq(a[4].four, true)
        t.eq(a.self, a)
        t.eq(b, nil)
        t.eq(#c, 100000)
    end,

    a_channel_that_comes_home_is_the_channel = function()
        local home <close> = peers.home()
        local _ <close> = peers.join(home, {name = "flow"}, ECHO)
        local echo, reply = peers.find "echo@flow", mare.channel(1)
        t.ok(echo:send(reply, reply, echo, mare.self()))
        local a, b, c = reply:receive(t.patience)
        t.eq(a, reply)
        t.eq(b, echo)
        t.eq(c, mare.self())
    end,

    messages_keep_their_order = function()
        local home <close> = peers.home()
        local _ <close> = peers.join(home, {name = "flow"}, [[
            local ch, to = mare.channel(10, "numbers"), nil
            to = ch:receive()
            for n in ch:messages() do to:send(n) end
        ]])
        local numbers, back = peers.find "numbers@flow", mare.channel(10)
        t.ok(numbers:send(back))
        local COUNT = t.gc_stress and 200 or 5000
        mare.spawn(function()
            for i = 1, COUNT do assert(numbers:send(i)) end
        end)
        for i = 1, COUNT do t.eq(back:receive(t.patience), i) end
        t.fails("timeout", back:receive(0.01))
    end,

    who_receives_from_another_node_gets_one_message_each = function()
        local home <close> = peers.home()
        local work, done = mare.channel(0, "work"), mare.channel(100, "done")
        local text = [[
            local work, done = find "work@home", find "done@home"
            for n in work:messages() do done:send(n) end
        ]]
        local _ <close> = peers.join(home, {name = "one"}, text)
        local _ <close> = peers.join(home, {name = "two"}, text)
        local seen = {}
        for i = 1, 100 do
            t.ok(work:sendwithin(t.patience, i))
        end
        for _ = 1, 100 do
            local n = t.ok(done:receive(t.patience))
            t.eq(seen[n], nil)
            seen[n] = true
        end
        work:close()
        done:close()
    end,

    a_message_that_nobody_wants_any_more_is_not_lost = function()
        local home <close> = peers.home()
        local jobs = mare.channel(0, "jobs")
        local told = mare.channel(10, "told")
        local _ <close> = peers.join(home, {name = "flow"}, [[
            local jobs, told = find "jobs@home", find "told@home"
            for _ = 1, 20 do jobs:receive(0.001) end
            told:send(true)
            mare.sleep(1000)
        ]])
        mare.spawn(function() for i = 1, 50 do jobs:send(i) mare.sleep(0.0005) end end)
        local sum = 0
        t.ok(told:receive(t.patience))
        -- Those that it got are gone; none of the others is.
        local before
        repeat
            local n = jobs:receive(0.3)
            if n then sum = sum + 1 before = n end
        until not n
        t.ok(sum >= 30, "%d came", sum)
        t.eq(before, 50)
        jobs:close()
        told:close()
    end,

    references_are_given_back = function()
        local home <close> = peers.home()
        local _ <close> = peers.join(home, {name = "flow"}, ECHO)
        local echo, reply = peers.find "echo@flow", mare.channel(1)
        local COUNT = t.gc_stress and 50 or 2000
        local before = #mare.channels()
        for _ = 1, COUNT do
            t.ok(echo:send(reply, mare.channel(1), mare.spawn(function() end)))
            t.ok(reply:receive(t.patience))
        end
        t.reaches(function() -- the peer collects, and says so
            t.ok(echo:send(reply, ("x"):rep(100000)))
            t.ok(reply:receive(t.patience))
            collectgarbage()
            return #mare.channels() < before + COUNT / 2
        end)
    end,

    a_node_may_be_this_one = function()
        local _ <close> = peers.home()
        t.ok(node.export("double", function(x) return 2 * x end))
        t.eq({t.ok(mare.spawn({node = "home"}, "double", 4)):join(t.patience)}, {true, 8})
        local process, told = mare.spawn({node = "home", monitor = true}, function() return 5 end)
        t.eq({process:join(t.patience)}, {true, 5})
        t.eq(select(2, told:receive(t.patience)), "normal")
        t.eq({mare.spawn({node = "home"}, {source = "return ..."}, 6):join(t.patience)}, {true, 6})
        t.fails("noname", mare.spawn({node = "home"}, "treble"))
        t.fails("syntax", mare.spawn({node = "home"}, {source = "return return"}))
    end,

    nothing_is_lost_or_doubled_while_receivers_come_and_go = function()
        local home <close> = peers.home()
        local _ <close> = peers.join(home, {name = "flow"}, [[
            local ch = mare.channel(10, "numbers")
            local to = ch:receive()
            for n in ch:messages() do to:send(n) end
        ]])
        local numbers, back = peers.find "numbers@flow", mare.channel(10)
        t.ok(numbers:send(back))
        local COUNT = t.gc_stress and 100 or 1000
        local sender = mare.spawn(function()
            for i = 1, COUNT do assert(numbers:send(i)) end
        end)
        local seen, count, over = {}, 0, false
        local taker = mare.go(function() -- which takes some of them itself, and mostly gives up
            while not over do
                local n = numbers:receive(0.001)
                if n then back:send(n) end
            end
        end)
        while count < COUNT do
            local n = t.ok(back:receive(t.patience))
            t.eq(seen[n], nil, "twice")
            seen[n], count = true, count + 1
        end
        over = true
        t.eq(taker:join(t.patience), true)
        t.eq(sender:join(t.patience), true)
        t.eq(count, COUNT)
    end,

    what_was_sent_arrives_before_the_goodbye = function()
        local home <close> = peers.home()
        local slow = mare.channel(1, "slow")
        local _ <close> = peers.join(home, {name = "flow"}, [[
            local slow = find "slow@home"
            for i = 1, 300 do slow:send(i) end
            node.stop(60)
        ]])
        for i = 1, 300 do t.eq(slow:receive(t.patience), i) end
        slow:close()
    end,

    what_another_process_has_sent_arrives_before_the_goodbye = function()
        local home <close> = peers.home()
        local last = mare.channel(10, "last")
        local _ <close> = peers.start({name = "flow", join = {home.address}}, [[
            for i = 1, 20 do
                local last, done = find "last@home", mare.channel(1)
                last:send(0)
                mare.spawn(function()
                    last:send(i)
                    done:send(true)
                end)
                done:receive()
                node.stop(60)
                assert(node.start(options))
            end
            mare.sleep(1000)
        ]])
        for i = 1, 20 do
            t.eq(last:receive(t.patience), 0)
            t.eq(last:receive(t.patience), i)
        end
        last:close()
    end,

    what_a_process_here_leaves_for_others_and_cannot_cross_ends_nothing = function()
        local log = mare.channel(10)
        local home <close> = peers.home {log = log}
        local mixed, told = mare.channel(0, "mixed"), mare.channel(1, "told")
        local _ <close> = peers.join(home, {name = "flow"}, [[
            find "told@home":send(find "mixed@home":receive())
            mare.sleep(1000)
        ]])
        t.ok(mixed:sendwithin(t.patience, mare.buffer "mine"))
        t.ok(mixed:sendwithin(t.patience, ("x"):rep(5 << 20)))
        t.ok(mixed:sendwithin(t.patience, "plain"))
        t.eq(told:receive(t.patience), "plain")
        for _ = 1, 2 do t.ok(t.ok(log:receive(t.patience)):find "could not go to flow") end
        mixed:close()
        told:close()
    end,

    a_monitor_needs_nobody_who_keeps_the_process = function()
        local home <close> = peers.home()
        local _ <close> = peers.join(home, {name = "flow"}, [[
            node.export("wait", function(ch) ch:receive() end)
            mare.channel(0, "ready") mare.sleep(1000)
        ]])
        peers.find "ready@flow"
        local go = mare.channel(0)
        local monitor = select(2, t.ok(mare.spawn({node = "flow", monitor = true}, "wait", go)))
        collectgarbage()
        collectgarbage()
        t.ok(go:sendwithin(t.patience, true))
        t.eq(select(2, monitor:receive(t.patience)), "normal")
    end,

    a_peer_cannot_raise_its_limit = function()
        local home <close> = peers.home {memory = 1000000}
        node.export("eat", function() return pcall(string.rep, "x", 20000000) end)
        local told = mare.channel(1, "told")
        local _ <close> = peers.join(home, {name = "flow"}, [[
            local p = assert(mare.spawn({node = "home", memory = 1000000000}, "eat"))
            find "told@home":send(select(2, p:join(20)))
            mare.sleep(1000)
        ]])
        t.eq(told:receive(t.patience), false)
        told:close()
    end,

    a_peer_does_not_choose_what_is_loaded = function()
        t.in_folder(function(folder)
            local mark = folder .. "/mark"
            local module = assert(io.open(folder .. "/chosen.lua", "w"))
            module:write(("io.open(%q, 'w'):close() return {arrive = type}"):format(mark))
            module:close()
            package.path = folder .. "/?.lua;" .. package.path
            local home <close> = peers.home()
            local got, done = mare.channel(1, "got"), mare.channel(1, "done")
            local _ <close> = peers.join(home, {name = "flow"}, [[
                local odd = setmetatable({}, {__travel = function() return "chosen", 1 end})
                local got, done = find "got@home", find "done@home"
                for _ = 1, 2 do got:send(odd) end
                mare.spawn({node = "home", timeout = 0.01}, "nothing", odd)
                for i = 1, 2 do got:send(odd) got:send(i) end
                done:receive()
                got:send(odd)
                mare.sleep(1000)
            ]])
            t.fails("badmsg", got:receive(t.patience))
            t.fails("badmsg", select(2, mare.select({got}, t.patience)))
            local count = 0
            for n in got:messages() do
                count = count + n
                if n == 2 then break end
            end
            t.eq(count, 3)
            t.eq(io.open(mark), nil)
            require "chosen" -- the program does
            done:send(true)
            t.eq(got:receive(t.patience), "number")
            got:close()
            done:close()
        end)()
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
                t.ok(node.stop(5))
            end
            local peer <close> = peers.start {name = "flow", listen = path}
            t.fails("exists", node.start {name = "ebb", listen = path})
            peer.signal "KILL"
            t.eq(peer.child:wait(t.patience), "signal")
            t.eq(node.start {name = "ebb", listen = path}, path)
            t.ok(node.stop(5))
        end)()
    end,

    without_keys_a_node_dials_nobody_else = function()
        local home <close> = peers.home()
        t.fails("denied", node.connect("192.0.2.1:7000", t.patience))
        t.fails("denied", node.connect("127.example.org:7000", t.patience))
        t.ok(home)
    end,

    select_knows_channels_of_other_nodes = function()
        local home <close> = peers.home()
        local _ <close> = peers.join(home, {name = "flow"}, [[
            local out, into = mare.channel(1, "out"), mare.channel(1, "into")
            into:receive()
            out:send "from there"
            mare.sleep(1000)
        ]])
        local out, into = peers.find "out@flow", peers.find "into@flow"
        local never = mare.channel()
        t.fails("timeout", mare.select({never, out}, 0.01))
        t.eq(mare.select({never, {into, "go"}}, t.patience), 2)
        local which, text = mare.select({never, out}, t.patience)
        t.eq(which, 2)
        t.eq(text, "from there")
    end,

    a_slow_receiver_holds_back_the_sender = function()
        local home <close> = peers.home()
        local _ <close> = peers.join(home, {name = "flow"}, [[
            local ch = mare.channel(1, "slow")
            find "go@home":receive()
            for n in ch:messages() do if n == "last" then break end end
            find "got@home":send "all"
            mare.sleep(1000)
        ]])
        local go, got = mare.channel(1, "go"), mare.channel(1, "got")
        local slow, sent = peers.find "slow@flow", 0
        while slow:sendwithin(0.2, ("x"):rep(1000)) do
            sent = sent + 1
            t.ok(sent < 1000, "it is never full")
        end
        go:send(true)
        t.ok(slow:sendwithin(t.patience, "last"))
        t.eq(got:receive(t.patience), "all")
        go:close()
        got:close()
    end,

    closing_is_seen_on_both_sides = function()
        local home <close> = peers.home()
        local mine = mare.channel(4, "mine")
        local _ <close> = peers.join(home, {name = "flow"}, [[
            local theirs = mare.channel(4, "theirs")
            local mine = find "mine@home"
            mine:send "one" mine:send "two" mine:close()
            for n in theirs:messages() do find "said@home":send(n) end
            find "said@home":send("closed", select(3, theirs:receive()))
            mare.sleep(1000)
        ]])
        local said = mare.channel(10, "said")
        t.eq(mine:receive(t.patience), "one")
        t.eq(mine:receive(t.patience), "two")
        t.fails("closed", mine:receive(t.patience))
        local theirs = peers.find "theirs@flow"
        t.ok(theirs:send "three")
        t.ok(theirs:close())
        t.eq(said:receive(t.patience), "three")
        t.eq(table.concat({said:receive(t.patience)}, " "), "closed closed")
        t.fails("closed", theirs:send "four")
        said:close()
    end,

    what_cannot_cross_is_refused_before_it_leaves = function()
        local home <close> = peers.home()
        local _ <close> = peers.join(home, {name = "flow", message = 10000}, ECHO)
        local echo = peers.find "echo@flow"
        local _, message = t.fails("badmsg", echo:send(mare.buffer "mine"))
        t.ok(tostring(message or select(2, echo:send(mare.buffer "x"))):find "another node")
        t.fails("toobig", echo:send(("x"):rep(20000)))
        t.raises("another node", mare.select, {{echo, mare.buffer "mine"}})
        local reply = mare.channel(1)
        t.ok(echo:send(reply, 1))
        t.eq(reply:receive(t.patience), 1)
    end,

    processes_are_started_and_end_on_other_nodes = function()
        local home <close> = peers.home()
        local _ <close> = peers.join(home, {name = "flow"}, [[
            node.export("add", function(a, b) return a + b end)
            node.export("fail", function() error "on purpose" end)
            node.export("wait", function() require "mare".sleep(1000) end)
            mare.channel(0, "ready") mare.sleep(1000)
        ]])
        peers.find "ready@flow"
        local p = t.ok(mare.spawn({node = "flow"}, "add", 3, 4))
        t.eq(node.home(p), "flow")
        local ok, sum = p:join(t.patience)
        t.eq(ok, true)
        t.eq(sum, 7)
        t.eq(p:alive(), false)
        local monitor
        p, monitor = t.ok(mare.spawn({node = "flow", monitor = true}, "fail"))
        local what, text, code = p:join(t.patience)
        t.eq(what, nil)
        t.ok(text:find "on purpose")
        t.eq(code, "died")
        local who, how, why = monitor:receive(t.patience)
        t.eq(who, p)
        t.eq(how, "died")
        t.ok(why:find "on purpose")
        p, monitor = t.ok(mare.spawn({node = "flow", monitor = true}, "wait"))
        t.fails("timeout", p:join(0.01))
        t.eq(p:alive(), true)
        t.eq(p:kill "enough", true)
        t.eq(table.concat({select(2, monitor:receive(t.patience))}, " "), "killed enough")
        t.fails("killed", p:join(t.patience))
        t.fails("noname", mare.spawn({node = "flow"}, "nothing"))
        t.fails("denied", mare.spawn({node = "flow"}, {source = "return 1"}))
        t.fails("nonode", mare.spawn({node = "nowhere"}, "add"))
    end,

    supervisors_have_children_on_other_nodes = function()
        local home <close> = peers.home()
        local _ <close> = peers.join(home, {name = "flow", code = {home = "bytecode"}})
        local told = mare.channel(10)
        local tree = t.ok(require "mare.supervisor".start {report = function() end, children = {
            {id = "far", spawn = {node = "flow"}, args = {told}, start = function(ch)
                local there = require "mare".channel(1)
                ch:send(there)
                there:receive()
                error "on purpose"
            end}}})
        local first = t.ok(told:receive(t.patience))
        t.eq((node.home(first)), "flow")
        first:send(true)
        local second = t.ok(told:receive(t.patience))
        t.ok(second ~= first)
        t.eq(tree:children()[1].restarts, 1)
        t.ok(tree:stop())
    end,

    who_is_dialled_must_be_who_is_wanted = function()
        local home <close> = peers.home()
        local flow <close> = peers.start({name = "flow", listen = "127.0.0.1:0"})
        local _, message = t.fails("exists", node.connect("ebb@" .. flow.address, t.patience))
        t.ok(not message or message:find "is called 'flow', not 'ebb'")
        t.eq(node.connect("flow@" .. flow.address, t.patience), "flow")
        t.ok(home)
    end,

    links_go_both_ways = function()
        local home <close> = peers.home()
        local _ <close> = peers.join(home, {name = "flow"}, [[
            node.export("fail", function(ch) ch:receive() error "on purpose" end)
            node.export("wait", function() require "mare".sleep(1000) end)
            mare.channel(0, "ready") mare.sleep(1000)
        ]])
        peers.find "ready@flow"
        local go = mare.channel(1)
        local here = mare.spawn(function()
            local there = assert(mare.spawn({node = "flow", link = true}, "fail", go))
            there:join()
            mare.sleep(1000)
        end)
        go:send(true)
        local _, why, code = here:join(t.patience)
        t.eq(code, "killed")
        t.ok(why:find "on purpose")
        local started = mare.channel(1)
        here = mare.spawn(function()
            started:send(assert(mare.spawn({node = "flow", link = true}, "wait")))
            mare.sleep(1000)
        end)
        local there = started:receive(t.patience)
        here:kill()
        t.fails("killed", there:join(t.patience))
    end,

    code_crosses_as_far_as_the_policy_says = function()
        local home <close> = peers.home {code = {source = "source", bytes = "bytecode"}}
        local text = [[
            local told = find "told@home"
            local function try(body)
                local p, _, code = mare.spawn({node = "home", timeout = 5}, body, 20)
                return p and select(2, p:join()) or code
            end
            told:send(options.name, try {source = "return 1 + ..."}, try {source = "1 +"},
                try {source = string.dump(function() return 1 end)},
                try(function(n) return 2 * n end))
            mare.sleep(1000)
        ]]
        local told = mare.channel(10, "told")
        for _, expected in ipairs {{"none", "denied", "denied", "denied", "denied"},
                {"source", 21, "syntax", "syntax", "denied"},
                {"bytes", 21, "syntax", "syntax", 40}} do
            local _ <close> = peers.join(home, {name = expected[1], code = "bytecode"}, text)
            t.eq(table.pack(told:receive(t.patience)), table.pack(table.unpack(expected)))
        end
        told:close()
    end,

    functions_of_libraries_are_code_too = function()
        -- The peer asks by hand, because its own `mare.spawn` would not even try.
        local home <close> = peers.home {code = {source = "source", bytes = "bytecode"}}
        local told = mare.channel(10, "told")
        for name, expected in pairs {none = "denied", source = "denied", bytes = true} do
            local _ <close> = peers.join(home, {name = name}, [[
                local told, reply = find "told@home", mare.channel(1)
                local service = assert(node._service("home", nil, 100)).channel
                service:send(reply, "spawn", {}, os.getenv, "HOME")
                local ok, _, code = reply:receive()
                service:send(reply, "spawn", {name = "mare.mine"}, "none")
                told:send(ok or code, select(3, reply:receive()))
                mare.sleep(1000)
            ]])
            local got, reserved = told:receive(t.patience)
            t.eq(got, expected, name)
            t.eq(reserved, "denied")
        end
        told:close()
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

    two_nodes_cannot_have_one_name = function()
        local home <close> = peers.home()
        local _ <close> = peers.join(home, {name = "flow"}, ECHO)
        local second <close> = peers.start({name = "flow"}, ([[
            print(select(2, node.connect(%q)))
            mare.sleep(1000)
        ]]):format(home.address))
        t.ok(second.line():find "another node called 'flow'")
        local third <close> = peers.start({name = "home"}, ([[
            print(select(2, node.connect(%q)))
            mare.sleep(1000)
        ]]):format(home.address))
        t.ok(third.line():find "is called 'home' itself")
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
            find "told@home":send(reply:receive(10))
            mare.sleep(1000)
        ]])
        local told = mare.channel(1, "told")
        t.eq(told:receive(t.patience), "over the shortest way")
        told:close()
        local names = {}
        for _, item in ipairs(t.ok(node.list())) do names[#names + 1] = item.name end
        t.eq(table.concat(names, " "), "home one two")
    end,

    a_reference_passed_on_works_there = function()
        local home <close> = peers.home()
        local _ <close> = peers.join(home, {name = "one"}, ECHO)
        local _ <close> = peers.join(home, {name = "two"}, [[
            local ch = mare.channel(1, "passes")
            local echo, reply = ch:receive(), mare.channel(1)
            echo:send(reply, "round about")
            find "told@home":send(reply:receive(10))
            mare.sleep(1000)
        ]])
        local told = mare.channel(1, "told")
        peers.find "passes@two":send(peers.find "echo@one")
        t.eq(told:receive(t.patience), "round about")
        told:close()
    end,

    heartbeats_find_out_where_nodes_are = function()
        local home <close> = peers.home {silence = 1}
        t.eq(t.ok(node.near()), {})
        local _ <close> = peers.join(home, {name = "one", silence = 1})
        local _ <close> = peers.join(home, {name = "two", silence = 1})
        local near
        t.reaches(function()
            near = t.ok(node.near())
            return #near == 2
        end, "two places")
        t.ok(near[1].estimate > 0 and near[1].estimate <= near[2].estimate)
        t.eq(#near[1].place, 3)
        t.eq(t.ok(node.near(1))[1].name, near[1].name)
        t.eq(#t.ok(node.near(1)), 1)
        for _, member in ipairs(t.ok(node.list())) do
            t.ok(member.place)
            t.eq(member.estimate == nil, member.here == true)
        end
    end,

    who_leaves_says_so = function()
        local home <close> = peers.home()
        local watch = t.ok(node.monitor())
        local _ <close> = peers.join(home, {name = "flow"}, [[
            node.connect(options.join[1])
            node.stop()
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
}
