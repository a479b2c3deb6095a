-- SPDX-License-Identifier: MIT
-- References that one node passes on to another, and whose home is a third: they go on when the one
-- that has passed them on is gone.
local mare, node = require "mare", require "mare.node"
local introductions = require "mare._keeper_introductions"
local net, file = require "mare.net", require "mare.file"
local t, peers = require "t", require "peers"

-- Passes on what it gets to the far one, whose channel it has found itself: a reference to that
-- from here would lead through here.
local BETWEEN = [[
    local ch, to = mare.channel(16, "pass"), find "get@far"
    for a, b, c in ch:messages() do
        to:send(a, b, c)
        if a == "drop" then
            a, b, c = nil, nil, nil
            collectgarbage()
        end
    end
]]

-- Gets channels and processes, and does with them what is asked.
local FAR = [[
    local ch = mare.channel(16, "get")
    local kept = {}
    for what, a, b, c in ch:messages() do
        if what == "keep" then kept[a] = b
        elseif what == "home" then b:send(not kept[a] and "none" or node.home(kept[a]) or "here")
        elseif what == "send" then for i = 1, b do kept[a]:send(i) end
        elseif what == "receive" then mare.go(function() b:send(kept[a]:receive()) end)
        elseif what == "select" then
            mare.go(function() b:send(select(2, mare.select {kept[a], mare.channel()})) end)
        elseif what == "close" then kept[a]:close()
        elseif what == "join" then mare.go(function() b:send(kept[a]:join()) end)
        elseif what == "monitor" then
            local told = mare.channel(1)
            kept[a]:monitor(told)
            mare.go(function() b:send(select(2, told:receive())) end)
        elseif what == "kill" then kept[a]:kill(b)
        elseif what == "link" then
            mare.spawn(function(process, done)
                process:link()
                done:send(true)
                mare.sleep(1000)
            end, kept[a], b)
        elseif what == "back" then b:send(kept[a])
        elseif what == "drop" then kept[a] = nil collectgarbage()
        end
    end
]]

-- `home`, which is this program, with `between` and `far` joined to it, and to each other.
local function three()
    local home = peers.home()
    local between = peers.join(home, {name = "between"}, BETWEEN)
    local far = peers.join(home, {name = "far", listen = "127.0.0.1:0"}, FAR)
    local all = {home = home, between = between, far = far}
    all.pass, all.get = peers.find "pass@between", peers.find "get@far"
    function all.lose_between()
        local watch = t.ok(node.monitor())
        between.signal "KILL"
        repeat
            local what, name = watch:receive(t.patience)
            t.ok(what, name)
        until name == "between" and what == "down"
    end
    -- Gives `far` a reference by way of the one between, and waits until it has it.
    function all.give(name, object)
        t.ok(all.pass:send("keep", name, object))
        local reply = mare.channel(1)
        local where
        t.reaches(function()
            t.ok(all.get:send("home", name, reply))
            where = reply:receive(t.patience)
            return where ~= "none"
        end)
        return where
    end
    return setmetatable(all, {__close = function()
        for _, one in ipairs {far, between, home} do getmetatable(one).__close(one) end
    end})
end

return {
    a_channel_goes_on_without_the_node_that_passed_it_on = function()
        local all <close> = three()
        local mine, reply = mare.channel(10), mare.channel(1)
        t.eq(all.give("mine", mine), "home")
        all.lose_between()
        local COUNT = t.gc_stress and 50 or 2000
        t.ok(all.get:send("send", "mine", COUNT))
        for i = 1, COUNT do t.eq(mine:receive(t.patience), i) end -- and in order
        t.ok(all.get:send("receive", "mine", reply))
        t.ok(mine:send "one")
        t.eq(reply:receive(t.patience), "one")
        t.ok(all.get:send("select", "mine", reply))
        t.ok(mine:send "two")
        t.eq(reply:receive(t.patience), "two")
        t.ok(all.get:send("back", "mine", reply))
        t.eq(reply:receive(t.patience), mine) -- it has come home
        t.ok(all.get:send("close", "mine"))
        t.reaches(function() return select(3, mine:trysend(1)) == "closed" end)
    end,

    a_process_goes_on_without_it = function()
        local all <close> = three()
        local reply = mare.channel(4)
        local stop = mare.channel(1)
        local worker = mare.spawn(function() return stop:receive() end)
        local victim = mare.spawn(function() mare.sleep(1000) end)
        local tied = mare.spawn(function() mare.sleep(1000) end)
        t.eq(all.give("worker", worker), "home")
        t.eq(all.give("victim", victim), "home")
        t.eq(all.give("tied", tied), "home")
        all.lose_between()
        t.ok(all.get:send("join", "worker", reply))
        t.ok(stop:send "done")
        t.eq({reply:receive(t.patience)}, {true, "done"})
        t.ok(all.get:send("monitor", "victim", reply))
        t.ok(all.get:send("kill", "victim", "enough"))
        t.eq({victim:join(t.patience)}, {nil, "enough", "killed"})
        t.eq(reply:receive(t.patience), "killed")
        t.ok(all.get:send("link", "tied", reply))
        t.ok(reply:receive(t.patience))
        t.ok(all.get:send("back", "tied", reply))
        t.eq(reply:receive(t.patience), tied)
        all.far.signal "KILL"
        t.eq(select(3, tied:join(t.patience)), "killed")
    end,

    what_a_process_returns_is_passed_on_too = function()
        local home <close> = peers.home()
        local between <close> = peers.join(home, {name = "between", code = "source"}, [[
            local mine = mare.channel(1, "mine")
            node.export("give", function()
                local found
                repeat found = mare.find "echo@far" until found
                return found, mare.find "mine"
            end)
            mare.sleep(1000)
        ]])
        -- Its `echo` lives there, and comes to this node as the result of a process between.
        local _ <close> = peers.join(home, {name = "far", listen = "127.0.0.1:0"}, [[
            local ch = mare.channel(4, "echo")
            for reply, a in ch:messages() do reply:send(a) end
        ]])
        local echo, reply = peers.find "echo@far", mare.channel(1)
        local process = t.ok(mare.spawn({node = "between"}, "give"))
        local ok, same, other = process:join(t.patience)
        t.ok(ok, same)
        t.eq(same, echo) -- and not a second one, by way of the node between
        t.eq(node.home(other), "between")
        between.signal "KILL"
        t.ok(same:send(reply, 5))
        t.eq(reply:receive(t.patience), 5)
    end,

    who_cannot_reach_the_home_goes_through_the_node_between = function()
        -- Neither this node nor the far one listens: they cannot dial each other.
        local between <close> = peers.start({name = "between", listen = "127.0.0.1:0"}, [[
            local pass = mare.channel(16, "pass")
            for reply in pass:messages() do reply:send(find "get@far") end
        ]])
        local _ <close> = peers.start({name = "far", join = {between.address}}, FAR)
        node.stop(5)
        t.ok(node.start {name = "home", join = {between.address}, silence = 60})
        local _ <close> = setmetatable({}, {__close = function() node.stop(5) end})
        local mine, reply = mare.channel(10), mare.channel(1)
        t.ok(peers.find "pass@between":send(reply))
        local get = t.ok(reply:receive(t.patience))
        t.eq(node.home(get), "between")
        t.ok(get:send("keep", "mine", mine))
        t.ok(get:send("send", "mine", 3))
        for i = 1, 3 do t.eq(mine:receive(t.patience), i) end
    end,

    who_passes_it_on_may_leave_at_once = function()
        local home <close> = peers.home()
        local _ <close> = peers.join(home, {name = "far", listen = "127.0.0.1:0"}, FAR)
        local get, mine, reply = peers.find "get@far", mare.channel(1), mare.channel(1)
        local COUNT = t.gc_stress and 5 or 60
        for _ = 1, t.gc_stress and 1 or 3 do
            local _ <close> = peers.join(home, {name = "between"}, ([[
                local pass, to = mare.channel(1, "pass"), find "get@far"
                local object = pass:receive()
                for i = 1, %d do to:send("keep", i, object) end
                node.stop(60)
            ]]):format(COUNT))
            t.ok(peers.find "pass@between":send(mine))
            for i = 1, COUNT do
                local where
                t.reaches(function()
                    t.ok(get:send("home", i, reply))
                    where = reply:receive(t.patience)
                    return where ~= "none"
                end)
                t.eq(where, "home", i)
                t.ok(get:send("keep", i, nil))
            end
        end
    end,

    who_leaves_waits_for_what_others_still_take = function()
        -- More than the far one takes at once, which begins to take them after a while.
        local COUNT, SLOW = 100, 2 -- seconds
        local home <close> = peers.home()
        local far <close> = peers.join(home, {name = "far", listen = "127.0.0.1:0"}, [[
            local all = mare.channel(1, "all")
            print(mare.channel(1, "begin"):receive())
        ]] .. ("mare.sleep(%d)\n"):format(SLOW) .. [[
            for object in all:messages() do print((node.home(object))) end
        ]])
        local mine = mare.channel(1)
        local _ <close> = peers.join(home, {name = "between"}, ([[
            local pass, all = mare.channel(1, "pass"), find "all@far"
            local object = pass:receive()
            mare.go(function() for _ = 1, %d do all:send(object) end end)
            mare.yield()
            find "begin@far":send "begun"
            assert(node.stop(60))
        ]]):format(COUNT))
        t.ok(peers.find "pass@between":send(mine))
        t.eq(far.line(), "begun")
        for i = 1, COUNT do t.eq(far.line(), "home", i) end
    end,

    an_order_of_messages_is_kept_around_a_reference = function()
        local all <close> = three()
        local reply = mare.channel(10)
        local COUNT = t.gc_stress and 20 or 300
        -- Each other message has a reference that must be claimed first.
        mare.go(function()
            for i = 1, COUNT do
                t.ok(all.pass:send("keep", i, i % 2 == 0 and mare.channel(1) or i))
                t.ok(all.pass:send("back", i, reply))
            end
        end)
        for i = 1, COUNT do
            local got = t.ok(reply:receive(t.patience))
            if i % 2 == 1 then t.eq(got, i) else t.eq(node.home(got), nil) end
        end
    end,

    what_was_passed_on_and_let_go_is_gone = function()
        local all <close> = three()
        local before = #mare.channels()
        local COUNT = t.gc_stress and 20 or 500
        for i = 1, COUNT do
            t.ok(all.pass:send("keep", "one", mare.channel(1)))
            if i % 50 == 0 then all.give("one", mare.channel(1)) end
        end
        t.ok(all.get:send("drop", "one"))
        t.reaches(function()
            collectgarbage()
            all.pass:send("drop", "one")
            return #mare.channels() < before + 10
        end)
    end,

    who_guesses_or_was_not_meant_gets_nothing = function()
        local mine, reply = mare.channel(1), mare.channel(1)
        local SECRET, WRONG = ("s"):rep(16), ("s"):rep(15) .. "t"
        introductions.add("between", mine, 7, SECRET, "far")
        t.eq(introductions.claim("far", reply, "between", 7, WRONG), true) -- and the log says so
        t.fails("denied", reply:receive(t.patience))
        local thief, other, again = mare.channel(1), mare.channel(1), mare.channel(1)
        introductions.claim("thief", thief, "between", 7, SECRET) -- it was not meant
        introductions.claim("far", other, "other", 7, SECRET) -- nor introduced by that one
        t.eq(introductions.claim("far", reply, "between", 7, SECRET), false)
        t.eq({reply:receive(t.patience)}, {true, mine})
        introductions.claim("far", again, "between", 7, SECRET) -- once, and not again
        for _, channel in ipairs {thief, other, again} do
            t.fails("noname", channel:receive(t.patience))
        end
    end,

    a_claim_may_come_before_the_introduction = function()
        local mine, reply, SECRET = mare.channel(1), mare.channel(1), ("s"):rep(16)
        introductions.come "between"
        introductions.claim("far", reply, "between", 8, SECRET)
        t.fails("empty", reply:tryreceive())
        introductions.add("between", mine, 8, SECRET, "far")
        t.eq({reply:receive(t.patience)}, {true, mine})
        introductions.go "between"
    end,

    a_claim_does_not_wait_for_who_has_gone = function()
        local SECRET, waits, comes_late = ("s"):rep(16), mare.channel(2), mare.channel(1)
        introductions.come "between"
        introductions.come "another"
        introductions.claim("far", waits, "between", 9, SECRET)
        introductions.claim("far", waits, "another", 9, SECRET)
        introductions.go "between"
        t.fails("noname", waits:tryreceive())
        t.fails("empty", waits:tryreceive()) -- the other one may still come
        introductions.claim("far", comes_late, "between", 10, SECRET)
        t.fails("noname", comes_late:tryreceive())
        introductions.go "another"
        t.fails("noname", waits:tryreceive())
    end,

    what_is_kept_for_others_is_bounded = function()
        local mine, SECRET = mare.channel(1), ("s"):rep(16)
        local replies, taken = mare.channel(10000), 0
        introductions.come "crowd"
        for i = 1, 5000 do introductions.add("crowd", mine, i, SECRET, "far") end
        for i = 1, 5000 do introductions.claim("far", replies, "crowd", i, SECRET) end
        t.eq(#replies, 5000 - 256) -- 256 may have come too early, and wait; the others are refused
        introductions.go "crowd"
        for _ = 1, 5000 do
            if replies:tryreceive() then taken = taken + 1 end
        end
        t.eq(taken, 4096)
        t.eq(#replies, 0)
    end,

    only_references_are_kept_for_others = function()
        local mine, reply, SECRET = mare.channel(1), mare.channel(1), ("s"):rep(16)
        t.eq(pcall(introductions.add, "between", ("x"):rep(100000), 9, SECRET, "far"), false)
        introductions.claim("far", reply, "between", 9, SECRET)
        t.fails("noname", reply:receive(t.patience))
        for _, odd in ipairs {false, "reply", mare.self(), {}} do -- nobody could be answered
            t.eq(pcall(introductions.claim, "far", odd, "between", 10, SECRET), false)
        end
        for _, odd in ipairs {false, "", SECRET .. "s", {}} do
            t.eq(pcall(introductions.claim, "far", reply, "between", 10, odd), false)
        end
        introductions.add("between", mine, 10, SECRET, "far")
        introductions.claim("far", reply, "between", 10, SECRET)
        t.eq({reply:receive(t.patience)}, {true, mine})
    end,

    all_who_want_the_same_home_wait_until_it_is_reached = function()
        local asked, answered = mare.channel(100), mare.channel(100)
        local function reach(_, _, reply) t.ok(asked:trysend(reply)) end
        local session = {_claimed = function(_, number) t.ok(answered:trysend(number)) end}
        local function claim(number, home, introducer)
            mare.go(introductions.claimed, {}, reach, session, false, number,
                introducer or "between", home, 1, "a:1", number, ("s"):rep(16))
        end
        for i = 1, 40 do claim(i, "same") end
        t.reaches(function() return #asked + #answered == 40 end)
        t.eq(#asked, 40)
        for i = 1, 40 do claim(i, "other" .. i) end -- of 16 nodes that are dialled, one is `same`
        t.reaches(function() return #asked + #answered == 80 end)
        t.eq(#asked, 40 + 15)
        for _ = 1, #asked do t.ok(asked:receive():trysend(nil, "not reached", "nonode")) end
        t.reaches(function() return #answered == 80 end)
        claim(81, "one more", "other") -- those before count no longer
        t.ok(asked:receive(t.patience)):trysend(nil, "not reached", "nonode")
    end,

    the_bytes_of_the_documentation_are_understood = function()
        local folder = debug.getinfo(1, "S").source:match "^@(.*)tests/lua/"
        local page = t.ok(file.read(folder .. "docs/reference/wire.md"))
        local text = t.ok(page:match "with the socket `/a`:\n\n```\n(.-)```")
        local vector = text:gsub("%s+", ""):gsub("..", function(two)
            return string.char(tonumber(two, 16))
        end)
        local home <close> = peers.home()
        local host, port = home.address:match "^(.*):(%d+)$"
        local stream <close> = t.ok(net.connect(host, tonumber(port), t.patience))
        local function say(bytes) t.ok(stream:write((">s4"):pack(bytes))) end
        local function control(bytes) say("\x93\x20\0\xc4" .. ("s1"):pack(bytes)) end
        -- Reads until a frame begins so: what follows.
        local function until_said(start)
            while true do
                local size = (">I4"):unpack(t.ok(stream:read(4, t.patience)))
                local frame = t.ok(stream:read(size, t.patience))
                local _, last = frame:find("^" .. start)
                if last then return frame:sub(last + 1) end
            end
        end
        -- HELLO, with bit 32 of the features; its service; messages to that of the node in flow 2.
        say "\x98\1\xa4mare\1\1\xcf\0\0\0\1\0\0\0\0\x95\xa7between\xa0\1\1\x90\z
            \x95\xcd\1\0\xcd\x10\0\xce\3\x93\x87\0\xcd\1\0\xce\0\x10\0\0\xc4\0"
        local service = until_said("\x93\x20\0\xc4.\x95\1"):match "^(.-)\0\xc4\0\xc4\0$"
        control "\x95\1\1\0\xc4\0\xc4\0"
        control("\x95\2" .. service .. "\1\xc4\0\xc4\0")
        until_said "\x95\x23\2" -- OPEN
        -- Nobody knows node `a`, so the answer goes to what `between` passes on: its channel 5.
        say("\x93\x20\2\xc4" .. ("s1"):pack(vector))
        t.ok(until_said "\x93\x20\0\xc4.\x95\2\5") -- ATTACH
    end,
}
