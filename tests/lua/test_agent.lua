-- SPDX-License-Identifier: MIT
-- Agents that keep a place, live over loopback: ours with ours, and with the command.
local mare, net, t = require "mare", require "mare.net", require "t"
local agent, place, time = require "mare.agent", require "mare.place", require "mare.time"
local shell = require "shell"
local sockets = require "sockets".count

local HERE = "127.0.0.1"

-- An agent that runs, and its name.
local function open(options)
    local one = assert(agent.open(HERE, 0, options))
    mare.go(one.run, one)
    return one, HERE .. ":" .. select(2, one:address())
end

local function reaches(condition)
    t.reaches(function()
        mare.sleep(0.005)
        return condition()
    end)
end

-- It does not matter how late the answers of another program are read: here always after 50 ms.
local function late(name)
    local one <close> = assert(agent.open(HERE, 0, {peers = {name}}))
    local deadline = mare.deadline(t.patience)
    local peer
    repeat -- the system may have let it lie, too
        one:probe()
        local over = mare.now() + 0.05
        while mare.now() < over do end
        one:take(one.socket:receive(deadline))
        peer = one:peers()[1]
    until peer.measured < 20 or deadline:left() == 0
    t.ok(peer.measured < 20, peer.measured)
end

return {
    agents_find_each_other_and_measure = function()
        local first <close>, name = open {interval = 0.005}
        local second <close> = open {interval = 0.005, peers = {name}}
        local third <close> = open {interval = 0.005, peers = {name}}
        for _, one in ipairs {first, second, third} do
            reaches(function() return #one:peers() == 2 end) -- they tell each other of others
            for _, peer in ipairs(one:peers()) do
                t.eq(peer.host, HERE)
                t.ok(peer.measured > 0 and peer.answers > 0, t.show(peer))
                t.ok(peer.estimated >= 0)
                t.eq(#peer.place, 3)
            end
            local probes, answers = one:counts()
            t.ok(probes >= answers and answers >= 2)
        end
        t.eq(#first:here(), 3)
        reaches(function() return first:here().error < 1.5 end) -- it has learnt something
    end,

    one_that_is_on_its_own_list_is_not_its_own_peer = function()
        local one <close>, name = open {interval = 0.005}
        t.eq(one:add(name), true)
        local other <close> = open {interval = 0.005, peers = {name}}
        reaches(function()
            local answers = other:peers()[1] and other:peers()[1].answers
            local mine = one:peers()[1]
            return answers and answers >= 3 and mine and mine.answers >= 3
        end)
        t.eq(#one:peers(), 1)
        t.eq(one:peers()[1].port, (select(2, other:address())))
    end,

    an_agent_tells_anybody_its_place = function()
        local one <close>, name = open {dimensions = 2}
        local there = assert(agent.ask(name, t.patience))
        t.eq(#there, 2)
        t.eq({there.height, there.error}, {one:here().height, one:here().error})
        t.ok(agent.ask("localhost:" .. select(2, one:address()), t.patience))
        t.eq(#one:peers(), 0) -- who asks is no peer
    end,

    a_lua_agent_and_a_command_agent_are_peers = function()
        local one <close>, name = open {interval = 0.005}
        -- It probes once; then only we do.
        local command = "%s place agent %s:0 --peer %s --interval 60000 --json & echo $!; wait"
        local pipe <close> = assert(io.popen("exec 2>/dev/null; "
            .. command:format(shell.mare, HERE, name)))
        local number = pipe:read "l"
        reaches(function() return one:peers()[1] and one:peers()[1].answers >= 3 end)
        local peer = one:peers()[1]
        local its_name = ("%s:%d"):format(peer.host, peer.port)
        late(its_name)
        t.eq(#assert(agent.ask(its_name, t.patience)), 3)
        os.execute("kill -TERM " .. number) -- it says what it knows
        local said = pipe:read "a"
        local measured, answers = said:match('"address":"' .. name
            .. '","measured_ms":([%d.]+),"estimated_ms":[%d.]+,"answers":(%d+)')
        t.ok(measured and tonumber(measured) > 0, said)
        t.ok(tonumber(answers) >= 1, said)
    end,

    the_command_asks_a_lua_agent = function()
        local one <close>, name = open {dimensions = 2}
        local process = mare.spawn({thread = true}, function(command)
            local pipe <close> = assert(io.popen(command))
            return pipe:read "a"
        end, ("%s place ask %s --json"):format(shell.mare, name))
        local _, said = process:join(t.patience)
        t.ok(said:find('^{"x":%[[-%d.]+,[-%d.]+%],"height":'), said)
        t.eq(#one:peers(), 0)
    end,

    nonsense_is_counted_and_ignored = function()
        local one <close>, name = open()
        local socket <close> = assert(net.udp(HERE))
        for _, text in ipairs {"", "MPLC", ("x"):rep(100), ("x"):rep(60000)} do
            socket:send(text, one:address())
        end
        t.ok(agent.ask(name, t.patience))
        t.eq({one:counts()}, {0, 0, 3}) -- what is too long is not even looked at
    end,

    who_does_not_answer_is_not_waited_for = function()
        local silent <close> = assert(net.udp(HERE))
        local name = HERE .. ":" .. select(2, silent:address())
        t.fails("timeout", agent.ask(name, 0.05))
        t.ok(silent:receive(t.patience))
        silent:close()
        t.fails("refused", agent.ask(name, t.patience))
        t.fails("noname", agent.ask("a..b:9", t.patience))
        local one <close> = open {interval = 0.001, peers = {name}} -- it goes on trying
        reaches(function() return (one:counts()) > 0 end)
        t.eq(#one:peers(), 0)
    end,

    the_address_of_a_name_that_serves_is_found = function()
        local one <close>, name = open {interval = 0.005}
        local resolve = net.resolve
        local _ <close> = setmetatable({}, {__close = function() net.resolve = resolve end})
        name = name:gsub(HERE:gsub("%.", "%%."), "localhost")
        net.resolve = function() return {"127.0.0.2", HERE} end
        t.eq(#assert(agent.ask(name, t.patience)), 3) -- nobody is at the first
        net.resolve = function() return {"::1", HERE} end
        local second <close> = open {interval = 0.005, peers = {name}}
        reaches(function() return #second:peers() == 1 end) -- to the first it cannot even send
        net.resolve = function() return {"::1"} end
        t.fails("noname", second:add(name))
        t.fails("noname", agent.open(HERE, 0, {peers = {name}}))
        reaches(function() return one:counts() > 0 end) -- it was probed, and so probes
    end,

    who_sends_nonsense_without_end_is_not_listened_to_for_ever = function()
        local silent <close> = assert(net.udp(HERE))
        local udp, over = net.udp, mare.deadline(t.patience)
        local _ <close> = setmetatable({}, {__close = function() net.udp = udp end})
        net.udp = function(...)
            local socket = assert(udp(...))
            return setmetatable({receive = function()
                if over:left() == 0 then return nil, "it reads for ever", "io" end
                return "nonsense", HERE, 1
            end}, {__close = function() socket:close() end, __index = function(_, key)
                return function(_, ...) return socket[key](socket, ...) end
            end})
        end
        t.fails("timeout", agent.ask(HERE .. ":" .. select(2, silent:address()), 0.02))
    end,

    a_closed_agent_ends = function()
        local before = sockets()
        local one = assert(agent.open(HERE, 0))
        local routine = mare.go(one.run, one)
        t.fails("timeout", routine:join(0.01))
        t.fails("exists", agent.open(one:address()))
        t.eq(one:close(), true)
        t.fails("closed", select(2, routine:join(t.patience)))
        local second <close> = assert(agent.open(HERE, 0))
        routine = mare.go(second.run, second)
        mare.yield()
        routine:cancel()
        t.fails("cancelled", select(2, routine:join(t.patience)))
        second:close()
        t.reaches(function() return sockets() <= before end, "sockets are left")
    end,

    -- Without a network: the program brings the instants and carries the packets.

    packets_can_be_carried_by_hand = function()
        local a, b = place.agent {seed = 1}, place.agent {seed = 2}
        t.fails("empty", a:probe(0, 1)) -- nobody to probe
        a:add("10.0.0.2", 7)
        local now = 1000000000
        for round = 1, 50 do
            local probe, host, port = assert(a:probe(now, round))
            t.eq({host, port}, {"10.0.0.2", 7})
            local reply = assert(b:receive(now + 5000000, probe, "10.0.0.1", 6))
            t.ok(#reply <= #probe)
            t.fails("empty", a:receive(now + 20000000, reply, "10.0.0.2", 7))
            now = now + 1000000000
        end
        local peer = a:peers()[1]
        t.eq({peer.measured, peer.answers, peer.silent}, {20.0, 50, 0})
        t.ok(math.abs(peer.estimated - 20) < 5, peer.estimated) -- who probes has become a peer
        t.eq({a:counts()}, {50, 50, 0})
        local probe, host, port = b:probe(now, 99)
        t.eq({host, port}, {"10.0.0.1", 6})
        b:wake() -- no answer to that counts any more
        b:receive(now + 1, a:receive(now, probe, "10.0.0.2", 7), "10.0.0.1", 6)
        t.eq({select(2, b:counts())}, {0, 1})
    end,

    a_question_is_answered_once_it_is_that_question = function()
        local a = place.agent {dimensions = 4}
        local question = place.question(17)
        local reply = assert(a:receive(0, question, "::1", 9))
        t.eq(#place.answer(reply, 17), 4)
        t.fails("badmsg", place.answer(reply, 18))
        t.fails("badmsg", place.answer(question, 17))
        t.fails("badmsg", place.answer("", 17))
    end,

    misuse_is_told = function()
        local a = place.agent()
        t.raises("dimensions", place.agent, {dimensions = 9})
        t.raises("numeric address", a.add, a, "localhost", 5)
        t.raises("65535", a.add, a, HERE, 0)
        t.raises("negative", a.probe, a, -1, 1)
        t.raises("string expected", a.receive, a, 1)
        for _, span in ipairs {0, -1, 0 / 0, "1"} do
            for _, option in ipairs {"interval", "hold"} do
                t.raises("#3 to 'open' %(option '" .. option .. "' must be", agent.open, HERE, 0,
                    {[option] = span})
            end
        end
        local function refused(what, options)
            t.raises("test_agent.lua:%d+: bad argument #3 to 'open' %(" .. what, function()
                agent.open(HERE, 0, options)
            end)
        end
        t.raises("test_agent.lua:%d+: bad argument #1 to 'open' %(string expected, got table%)",
            function() agent.open {peers = {}} end)
        refused("unknown option 'peer'", {peer = "localhost:1"})
        refused("option 'peers' must be a list", {peers = "localhost:1"})
        refused("option 'dimensions' must be a whole number from 1 to 8", {dimensions = 9})
        refused("table expected", 5)
        t.raises("test_agent.lua:%d+: bad argument #1 to 'agent' %(unknown option 'dimension'%)",
            function() place.agent {dimension = 3} end)
        t.raises("option 'seed' must be an integer", place.agent, {seed = "x"})
        t.raises("HOST:PORT", agent.ask, "localhost")
        t.raises("HOST:PORT", agent.open, HERE, 0, {peers = {"nowhere"}})
        t.ok(math.type(time.nonce()) == "integer")
    end,
}
