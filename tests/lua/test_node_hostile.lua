-- SPDX-License-Identifier: MIT
-- Peers that have come in and then do as they like: they write the bytes of docs/reference/wire.md
-- themselves.
local mare, node, keys = require "mare", require "mare.node", require "mare.keys"
local net = require "mare.net"
local hostile, peers, shell, t = require "hostile", require "peers", require "shell", require "t"

local TRACES <const> = 1 << 33 -- the feature

local number, text, array = hostile.number, hostile.text, hostile.array
local channel, process, NIL = hostile.channel, hostile.process, hostile.NIL
local value, come_in, enter = hostile.value, hostile.come_in, hostile.enter

-- A channel of the peer, which takes what the program sends into it; or another thing of it.
local function lend(enemy, name, what)
    local given <close> = mare.channel(1, name)
    local box = enemy:ask(5, text "find", text(name))
    enemy:attach((">I8"):unpack(box, #box - 7), 2)
    enemy:data(4, "\0" .. (what or channel(9)))
    return t.ok(given:receive(t.patience))
end

-- Sends the peer large messages, of which it takes none, until nothing more leaves; then it breaks
-- a rule. Returns when this side knows that the link has ended. `takes`: the peer then takes all at
-- once, up to the end of the link, for nobody waits long for that.
local function fill(enemy, takes)
    local theirs, news = lend(enemy, "flood"), t.ok(node.monitor())
    local routine = mare.go(function()
        repeat until not theirs:send(("x"):rep(1 << 21))
    end)
    enemy:frame(0x23, number(2 * enemy:told(2, 9)[2]), number(64), number(1 << 30), number(0))
    local before, same = 0, 0
    t.reaches(function()
        for _, member in ipairs(t.ok(node.list())) do
            if member.name == "enemy" then
                same = member.bytes_out == before and same + 1 or 0
                before = member.bytes_out
            end
        end
        return before > 1 << 20 and same > 20
    end)
    enemy:data(998, "in a flow that is not open")
    if takes then enemy:wait(9) end
    t.eq({news:receive(t.patience)}, {"down", "enemy", "a frame that is out of place"})
    t.ok(routine:join(t.patience)) -- who waits is not kept
end

local function goes_on(address, options)
    local other <close> = enter(address, "another", options)
    t.eq(other:ask(70, text "ping"), "\0\xc3")
end

-- ---- What it tries ------------------------------------------------------------------------------

return {
    -- Both have dialled, and the other connection is kept. The dial is over then: else all who ask
    -- for a node that nobody knows would wait for it.
    who_comes_in_while_it_is_dialled_is_reached = function()
        local listener <close> = t.ok(net.listen("127.0.0.1", 0))
        local home <close> = peers.home {join = {("%s:%d"):format(listener:address())}}
        local stream = t.ok(listener:accept(t.patience))
        local _ <close> = enter(home.address, "flow") -- "flow" < "home": this one is kept
        local dialled <close> = hostile.welcome(stream, "flow")
        t.ok(dialled:wait(9))
        t.fails("nonode", mare.find("tides@nobody", t.patience))
    end,

    -- Nobody stands in line for them, so they would go back; and wait for that as long as the peer
    -- does not take them.
    messages_that_nobody_wanted_end_the_link = function()
        local home <close> = peers.home()
        local enemy <close> = enter(home.address, "enemy")
        local given <close> = mare.channel(1, "given")
        local box = enemy:ask(5, text "find", text "given")
        enemy:attach((">I8"):unpack(box, #box - 7), 2)
        enemy:data(4, "\0" .. channel(9))
        local theirs = t.ok(given:receive(t.patience))
        local receiver = mare.go(function() return theirs:receive(t.patience) end)
        local flow = enemy:wait(0x23, function(frame) return frame[2] % 2 == 1 end)[2]
        enemy:told(3, 9)
        enemy:data(flow, "\0\1") -- this one is wanted
        t.eq({receiver:join()}, {true, 1})
        enemy:data(flow, "\0\2")
        enemy:wait(9)
        t.eq(enemy.quit, 34) -- place
        t.eq({select(3, theirs:receive(t.patience))}, {"nonode"})
        goes_on(home.address)
    end,

    -- It is given reference after reference, and releases none. That takes long on a busy machine:
    -- nobody counts as silent meanwhile.
    what_a_peer_refers_to_is_bounded = {function()
        if t.gc_stress then t.skip "each of very many allocations collects" end
        local SILENCE <const> = 3600
        local home <close> = peers.home {message = 1 << 22, silence = SILENCE}
        local enemy <close> = enter(home.address, "enemy", nil, nil, SILENCE)
        local theirs, news = lend(enemy, "full"), t.ok(node.monitor())
        local giver = mare.go(function()
            local many, given
            repeat
                many = {}
                for i = 1, 2000 do many[i] = mare.channel(1) end
                mare.yield()
                given = theirs:send(many)
            until not given
        end)
        enemy:frame(0x23, number(2 * enemy:told(2, 9)[2]), number(1000), number(1 << 30), number(0))
        local taker = mare.go(function()
            repeat until not enemy:read()
        end)
        t.eq({news:receive()}, {"down", "enemy",
            "more references than it can have, and none released"})
        for _, routine in ipairs {giver, taker} do t.ok(routine:join()) end
        goes_on(home.address)
    end, timeout = 300},

    -- What a peer took, and nobody there wants any more, is the next again, in the order in which
    -- it was taken; even where there is no room, as after the third. What it has never taken is
    -- not.
    what_comes_back_is_the_next_to_be_received = function()
        local home <close> = peers.home()
        local peer <close> = enter(home.address, "peer")
        local box <close> = mare.channel(3, "box")
        for i = 1, 3 do t.ok(box:trysend(i)) end
        local found = peer:ask(5, text "find", text "box")
        local id = (">I8"):unpack(found, #found - 7)
        peer:attach(id, 2)
        peer:frame(0x23, number(5), number(64), number(1 << 20), number(0))
        local taken = {}
        for i = 1, 2 do
            peer:control(3, id, 2)
            local frame = peer:wait(0x20, function(got) return got[2] == 5 end)
            taken[i] = frame[3]:sub(2)
            t.eq(taken[i]:byte(-1), i)
        end
        for i = 4, 5 do t.ok(box:trysend(i)) end
        for i = 1, 2 do peer:data(4, "\1" .. taken[i]) end
        peer:data(4, "\1\9")
        t.reaches(function() return #box == 5 end)
        for i = 1, 5 do t.eq(box:receive(t.patience), i) end
        t.eq(box:receive(t.patience), 9)
        goes_on(home.address)
    end,

    -- It takes three small messages, and gives back three that are large: there is room for so many
    -- bytes as may be under way. The third stands in line like any other.
    what_comes_back_is_bounded = function()
        local home <close> = peers.home {message = 1024}
        local peer <close> = enter(home.address, "peer")
        local box <close> = mare.channel(0, "box")
        local found = peer:ask(5, text "find", text "box")
        local id = (">I8"):unpack(found, #found - 7)
        peer:attach(id, 2)
        peer:frame(0x23, number(5), number(64), number(1 << 20), number(0))
        for i = 1, 3 do
            peer:control(3, id, 2)
            t.ok(box:sendwithin(t.patience, i))
            peer:wait(0x20, function(got) return got[2] == 5 end)
        end
        local large = ("x"):rep(900)
        for i = 1, 3 do
            peer:data(4, "\1" .. text(large .. i))
            if i == 2 then peer:wait(0x24, function(got) return got[2] == 4 end) end
        end
        t.eq(peer:ask(70, text "ping"), "\0\xc3")
        t.eq(#box, 2)
        for i = 1, 3 do t.eq(box:receive(t.patience), large .. i) end
        goes_on(home.address)
    end,

    -- Both had stood in line for one, and do not any more: what was on its way goes home in the
    -- order in which it came, even if home opens the flow only then.
    what_comes_too_late_goes_back_in_order = function()
        local home <close> = peers.home()
        local peer <close> = enter(home.address, "peer")
        local theirs, stop = lend(peer, "late"), mare.channel()
        local routines = {}
        for i = 1, 2 do
            routines[i] = mare.go(function() return mare.select {theirs, stop} end)
        end
        local flow = peer:wait(0x23, function(frame) return frame[2] % 2 == 1 end)[2]
        for _ = 1, 2 do peer:told(3, 9) end -- WANT
        stop:close()
        for _, routine in ipairs(routines) do t.eq((select(2, routine:join(t.patience))), 2) end
        for i = 1, 2 do peer:data(flow, "\0" .. number(i)) end
        local back = 2 * peer:told(2, 9)[2]
        peer:frame(0x23, number(back), number(64), number(1 << 20), number(0))
        for i = 1, 2 do
            t.eq(peer:wait(0x20, function(got) return got[2] == back end)[3], "\1" .. number(i))
        end
        goes_on(home.address)
    end,

    -- Its result would hold it, and it its result.
    a_process_that_returns_itself_is_let_go = function()
        local home <close> = peers.home()
        local peer <close> = enter(home.address, "peer")
        do
            local theirs = lend(peer, "proud", process(9))
            peer:control(9, 9, 0, "", process(9) .. process(9))
            t.eq({theirs:join(t.patience)}, {true, theirs, theirs})
        end
        collectgarbage()
        t.eq({peer:told(7, 19)[2] > 0}, {true}) -- RELEASE
        goes_on(home.address)
    end,

    -- If the node is lost in between, the link between the two processes still stands there, and
    -- ends the other one.
    who_is_linked_is_killed_before_the_link_is_undone = function()
        local home <close> = peers.home()
        local peer <close> = enter(home.address, "peer")
        local theirs, go = lend(peer, "linked", process(9)), mare.channel(1)
        local linked = mare.spawn(function()
            theirs:link()
            go:receive()
            error("oops", 0)
        end)
        peer:told(11, 9) -- TIE
        go:send()
        local told = {}
        peer:wait(0x20, function(frame)
            local said = frame[2] == 0 and value(frame[3], 2)
            if said == 10 or said == 12 then told[#told + 1] = said end
            return #told == 2
        end)
        t.eq(told, {10, 12}) -- KILL, UNTIE
        t.fails("died", linked:join(t.patience))
        goes_on(home.address)
    end,

    -- It takes nothing, so that half a frame is under way when the link ends: it is sent the rest
    -- of the frame, and why.
    who_is_behind_is_told_why_the_link_ends = {t.in_folder(function(folder)
        t.ok(keys.secret(folder, "tide"))
        local options = {psk = t.ok(keys.secrets(folder .. "/tide.psk"))}
        for _, secure in ipairs {false, true} do
            local home <close> = peers.home {secret = secure and folder .. "/tide.psk" or nil}
            local enemy <close> = enter(home.address, "enemy", secure and options)
            fill(enemy, true)
            t.eq(enemy.quit, 34) -- place
            goes_on(home.address, secure and options)
        end
    end), timeout = 120},

    -- But nobody is waited for without end.
    who_never_takes_anything_keeps_no_connection = {function()
        local home <close> = peers.home()
        local before = t.descriptors "socket"
        local enemy <close> = enter(home.address, "enemy")
        t.eq(t.descriptors "socket", before + 2)
        fill(enemy)
        t.reaches(function() return t.descriptors "socket" == before + 1 end)
        goes_on(home.address)
    end, timeout = 120},

    -- A node that is traced tells the numbers of its events to those who know of them, and goes on
    -- from theirs. To others its messages are what they ever were.
    numbers_of_events_are_for_those_who_know_them = t.in_folder(function(folder)
        local trace = shell.quote(folder .. "/trace")
        local peer <close> = peers.start({name = "ebb", listen = "127.0.0.1:0"}, nil,
            {"sh", "-c", ('exec "$0" --trace %s "$@"'):format(trace)})
        local old <close> = enter(peer.address, "old")
        t.eq(old:ask(70, text "ping"), "\0\xc3")
        local new <close> = enter(peer.address, "new", nil, TRACES)
        local answer = new:ask(70, text "ping")
        t.eq({answer:byte(1), answer:sub(10)}, {8, "\xc3"})
        t.ok((">I8"):unpack(answer, 2) > 0)
        new:data(2, ("\8%s%s%s"):format((">I8"):pack(1 << 30), channel(71), text "ping"))
        local flow = 2 * new:told(2, 71)[2]
        new:frame(0x23, number(flow), number(64), number(1 << 23), number(0))
        answer = t.ok(new:wait(0x20, function(frame) return frame[2] == flow end))[3]
        t.eq({answer:byte(1), answer:sub(10)}, {8, "\xc3"})
        t.ok((">I8"):unpack(answer, 2) > 1 << 30)
    end),

    numbers_that_are_none_end_the_link = function()
        local home <close> = peers.home()
        local function tries(features, number_of_event)
            local enemy <close> = enter(home.address, "enemy", nil, features)
            enemy:data(2, "\8" .. number_of_event .. channel(70) .. text "ping")
            enemy:wait(9)
            return enemy.quit
        end
        local good = (">I8"):pack(1)
        t.eq(tries(0, good), 34) -- place: nobody has said that it would come
        t.eq(tries(TRACES, (">I8"):pack(0)), 34)
        t.eq(tries(TRACES, (">I8"):pack(1 << 40)), 34)
        local enemy <close> = enter(home.address, "enemy", nil, TRACES)
        enemy:data(2, "\8\0\0\1")
        enemy:wait(9)
        t.eq(enemy.quit, 34)
        local friend <close> = enter(home.address, "friend", nil, TRACES)
        friend:data(2, "\8" .. good .. channel(70) .. text "ping") -- nobody is traced here
        local flow = 2 * friend:told(2, 70)[2]
        friend:frame(0x23, number(flow), number(64), number(1 << 23), number(0))
        t.eq(t.ok(friend:wait(0x20, function(frame) return frame[2] == flow end))[3], "\0\xc3")
        goes_on(home.address)
    end,

    -- A name has 63 letters; the protocol lets one have 255 bytes, and says so by REFUSE if it has
    -- more.
    names_that_are_none_are_refused = function()
        local lines = mare.channel(100)
        local home <close> = peers.home {log = lines}
        for name, code in pairs {[("x"):rep(255)] = 3, ["\27[2J"] = 3, [("x"):rep(256)] = 1} do
            local enemy <close> = come_in(home.address, name)
            t.eq(t.ok(enemy:wait(3))[2], code)
            local line = t.ok(lines:receive(t.patience))
            t.ok(line:find "^refused 127%.0%.0%.1: " and #line < 200, line)
        end
        t.eq(#t.ok(node.list()), 1)
        goes_on(home.address)
    end,

    lengths_that_cannot_be_end_the_link = function()
        local home <close> = peers.home()
        for _, length in ipairs {"\xff\xff\xff\xff", "\0\0\0\0", "\0\1\0\x21"} do
            local enemy <close> = enter(home.address, "enemy")
            t.ok(enemy.stream:write(length .. "\x93\x20\2\xc6"))
            enemy:wait(9)
            t.eq(enemy.quit, 36) -- toobig
        end
        goes_on(home.address)
    end,

    half_a_frame_is_not_waited_for_longer_than_for_silence = function()
        local home <close> = peers.home()
        local news = t.ok(node.monitor())
        local enemy <close> = enter(home.address, "enemy", nil, nil, 3)
        t.ok(enemy.stream:write "\0\0\1\0\x93\x20\2\xc5\0\xfahalf")
        local what, name, why
        repeat what, name, why = news:receive(t.patience) until what == "down" or not what
        t.eq({what, name}, {"down", "enemy"})
        t.ok(why:find "too long$", why)
        goes_on(home.address)
    end,

    -- It is alive, and never wants what is sent to it: who sends waits as long as he likes, and
    -- nothing more is kept for it than the documentation says.
    who_grants_nothing_is_sent_nothing = function()
        local home <close> = peers.home()
        local enemy <close> = enter(home.address, "enemy")
        local theirs, sent = lend(enemy, "never"), 0
        t.reaches(function() -- 64 wait, and one is about to leave
            sent = sent + (theirs:trysend(("x"):rep(100)) and 1 or 0)
            return sent == 65
        end, "as many as are kept")
        t.fails("timeout", theirs:sendwithin(0.05, 1))
        t.eq({select(3, theirs:trysend(1))}, {"full"})
        t.eq(enemy:ask(70, text "ping"), "\0\xc3") -- the link is as good as any
        goes_on(home.address)
    end,

    -- Neither does a peer learn of the code here, nor is the reason lost.
    who_asks_for_nonsense_is_not_told_of_the_code_here = function()
        local lines = mare.channel(100)
        local home <close> = peers.home {log = lines}
        local enemy <close> = enter(home.address, "enemy")
        local requests = {{text "find", NIL}, {text "find", array()}, {text "spawn", NIL, text "f"},
            {text "claim", number(1)}, {text "introduce"}, {text "nonsense"}, {array()}, {}}
        for i, request in ipairs(requests) do
            local answer = enemy:ask(100 + i, table.unpack(request))
            t.ok(not answer:find "keeper" and not answer:find ":%d+:", answer)
            t.ok(answer:find "invalid" or answer:find "noname" or answer:find "denied", answer)
        end
        t.ok(lines:receive(t.patience):find "^a request of enemy: ")
        goes_on(home.address)
    end,

    -- A table with a function of a library stands for a value with a method of that name. Here the
    -- function would do no harm; debug.debug would stop the node.
    who_sends_functions_for_methods_has_none_called = function()
        local lines, outcome = mare.channel(100), mare.channel(10, "outcome")
        local home <close> = peers.home {log = lines, code = "source"}
        local _ <close> = peers.join(home, {name = "enemy"}, [[
            local outcome = find "outcome@home"
            local service = assert(node._service("home", nil, 60)).channel
            local function ask(...)
                local reply = mare.channel(1)
                assert(service:send(reply, ...))
                outcome:send(select(3, reply:receive(60)))
            end
            ask("find", {find = table.pack})
            ask("spawn", {}, {source = table.pack})
            assert(service:send({trysend = table.pack}, "ping"))
            assert(service:send({send = table.pack}, "alua", 1))
            ask("find", "outcome, but not quite")
            mare.sleep(1000)
        ]])
        for _, code in ipairs {"invalid", "invalid", "noname"} do
            t.eq(outcome:receive(t.patience), code)
        end
        for _, what in ipairs {"string, but a table", "string, but a function",
            "channel, but a table", "channel, but a table"} do
            t.eq(lines:receive(t.patience), "a request of enemy: no " .. what)
        end
        outcome:close()
        goes_on(home.address)
    end,

    who_asks_for_nonsense_all_the_time_does_not_fill_the_disk = function()
        local lines, count, asked = mare.channel(1000), 0, 100
        local home <close> = peers.home {log = lines}
        local enemy <close> = enter(home.address, "enemy")
        local begun, line = mare.now(), nil
        local function ask()
            asked = asked + 1
            enemy:ask(asked, text "nonsense")
            line = lines:tryreceive()
        end
        for _ = 1, 250 do
            ask()
            count = count + (line and 1 or 0)
        end
        t.ok(count >= 100 and count <= 101 + mare.now() - begun, count)
        while not line or not line:find "more" do ask() end
        t.ok(line:find "^a request of enemy: no such request %(and %d+ more since the last line%)$")
    end,

    -- A line of the log is one line, and a terminal shows it and does not obey it.
    nobody_writes_lines_into_the_log = function()
        local lines = mare.channel(100)
        local home <close> = peers.home {log = lines}
        local said = {["no\nrefused 10.0.0.1: so\27[2J\127"] =
            "no\\x0arefused 10.0.0.1: so\\x1b[2J\\x7f", ["caf\u{e9} \u{9b}2J"] =
            "caf\u{e9} \\xc2\\x9b2J", ["\x9b2J \xff"] = "\\x9b2J \\xff"}
        for words, line in pairs(said) do
            local enemy <close> = come_in(home.address, "enemy")
            t.ok(enemy:wait(2))
            enemy:frame(9, number(33), text(words), number(0))
            t.eq(lines:receive(t.patience), "refused 127.0.0.1: " .. line)
        end
    end,

    -- Names that are none are not believed, and not passed on; nor does it matter what others say
    -- of a node that is here and speaks for itself.
    lies_about_nodes_do_no_harm = function()
        local home <close> = peers.home()
        local enemy <close> = enter(home.address, "enemy")
        local honest = enter(home.address, "honest")
        local function item(...) return ("<s1s1j"):pack(...) end
        enemy:data(2, "\0" .. NIL .. text "gossip" .. text(table.concat {
            item("\27[2J", "there:1", 1), item("no name", "there:1", 1),
            item("other", "there:1\n", 1), item(("x"):rep(64), "", 1),
            item("honest", "nowhere:1", math.maxinteger), item("last", "there:2", 1)}))
        local function known()
            local names, last = {}, nil
            for _, member in ipairs(node.list()) do
                names[#names + 1] = member.name
                last = last or member.name == "last"
            end
            return last and names
        end
        t.reaches(known)
        t.eq(known(), {"enemy", "home", "honest", "last"})
        honest.stream:close()
        -- In spite of a later life that was told of.
        local again <close> = enter(home.address, "honest")
        t.eq(again:ask(71, text "ping"), "\0\xc3")
        goes_on(home.address)
    end,
}
