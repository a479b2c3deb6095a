-- SPDX-License-Identifier: MIT
-- Nodes: messages and channels that cross between two programs.
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
            local got = {}
            for _ = 1, 20 do got[#got + 1] = jobs:receive(0.001) end
            told:send(got)
            mare.sleep(1000)
        ]])
        mare.spawn(function() for i = 1, 50 do jobs:send(i) mare.sleep(0.0005) end end)
        local seen, count = {}, 0
        local function take(n)
            t.eq(seen[n], nil, "twice")
            seen[n], count = true, count + 1
        end
        -- Those that it got are gone; none of the others is.
        for _, n in ipairs(t.ok(told:receive(t.patience))) do take(n) end
        while count < 50 do take(t.ok(jobs:receive(t.patience))) end
        t.fails("timeout", jobs:receive(0.01))
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

    -- On this side 1 MiB at the most, or one message; as many as before when they have left.
    large_messages_that_wait_are_few = function()
        local home <close> = peers.home()
        local _ <close> = peers.join(home, {name = "flow"}, [[
            local ch = mare.channel(1, "slow")
            find "go@home":receive()
            for n in ch:messages() do if n == "last" then break end end
            find "got@home":send "all"
            mare.sleep(1000)
        ]])
        local go, got = mare.channel(1, "go"), mare.channel(1, "got")
        local slow, sent, text = peers.find "slow@flow", 0, ("x"):rep(1 << 19)
        while slow:sendwithin(0.2, text) do
            sent = sent + 1
            t.ok(sent < 40, "it is never full") -- 2 here; 16 there, which the link has room for
        end
        go:send(true)
        t.ok(slow:sendwithin(t.patience, "last"))
        t.eq(got:receive(t.patience), "all")
        for _ = 1, 64 do t.ok(slow:trysend "small") end
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

    a_reference_passed_on_works_there = function()
        local home <close> = peers.home()
        local _ <close> = peers.join(home, {name = "one"}, ECHO)
        local _ <close> = peers.join(home, {name = "two"}, [[
            local ch = mare.channel(1, "passes")
            local echo, reply = ch:receive(), mare.channel(1)
            echo:send(reply, "round about")
            find "told@home":send(reply:receive(1000))
            mare.sleep(1000)
        ]])
        local told = mare.channel(1, "told")
        peers.find "passes@two":send(peers.find "echo@one")
        t.eq(told:receive(t.patience), "round about")
        told:close()
    end,
}
