-- SPDX-License-Identifier: MIT
-- A program that kills itself at the n-th line of what it does with locks, tuples, topics, calls
-- and rules of another node, or of what it does for another node with those that it keeps itself,
-- for every n: wherever it was, those who are left go on. Some n here, all of them by make chaos.
local mare, tuple, rpc = require "mare", require "mare.tuple", require "mare.rpc"
local monitor, node, pubsub = require "mare.monitor", require "mare.node", require "mare.pubsub"
local t, peers, countdown = require "t", require "peers", require "countdown"

local CHAOS = os.getenv "MARE_CHAOS_SECONDS"
local STEP = CHAOS and 1 or countdown.step(math.random(29, 41))

-- Counts the lines of this routine, and of all that begin from now on: `left` more are to come.
local HEAD = [[
    local signal, left = require "mare.signal", math.huge
    local function hook()
        left = left - 1
        if left == 0 then signal.send(signal.pid(), "KILL") end
    end
    local function counted(make) -- a routine does not inherit it
        return function(f, ...)
            return make(function(...)
                debug.sethook(hook, "l")
                return f(...)
            end, ...)
        end
    end
    mare.go, mare._heir = counted(mare.go), counted(mare._heir)
    debug.sethook(hook, "l")
    local rpc, monitor, tuple = require "mare.rpc", require "mare.monitor", require "mare.tuple"
]]

local CLIENT = HEAD .. [[
    local count, lock, space, broker = find "things@home":receive()
    local on, off = rpc.sync("button@home", "on"), rpc.sync("button@home", "off")
    local under_lock = monitor.doWhenFree(lock, function() return monitor.fence(lock) end)
    left = count
    assert(under_lock())
    local _, turn = space:in_("token", tuple.integer)
    space:out("token", turn + 1)
    rpc.sync("button@home", "add")()
    assert(on())
    assert(off())
    local sub = assert(broker:subscribe "word/#")
    assert(broker:publish("word/of", options.name))
    assert(sub:receive() == "word/of")
    sub:close()
    left = math.huge
    print "survived"
]]

-- What it keeps is used by others.
local SERVER = HEAD .. [[
    local sc, on = require "mare.sc", false
    function turn_on() on = true return true end
    function turn_off() on = false return true end
    sc.add_constraint("turn_on", function() return not on end)
    sc.add_constraint("turn_off", function() return on end)
    rpc.serve()
    find "served@home":send(mare.self(), monitor.create(), tuple.create(),
        require "mare.pubsub".create())
    left = find "go@home":receive()
    mare.sleep(1000)
]]

-- One of two synchronizers that make the same rules for each button in turn.
local KEEPER = [[
    require "mare".spawn({name = "keeper"}, function()
        local synchronizer, fired, ended = require "mare.synchronizer", {}, {}
        function rule(n, button)
            local lit = false
            fired[n] = 0
            local function change(to)
                return function() lit, fired[n] = to, fired[n] + 1 end
            end
            assert(synchronizer.add_constraint(button, "turn_on", function() return not lit end))
            assert(synchronizer.add_trigger(button, "turn_on", change(true)))
            assert(synchronizer.add_trigger(button, "turn_off", change(false)))
            assert(synchronizer.add_exit(button, function() ended[n] = true end))
            return true
        end
        function outcome(n) return ended[n] and fired[n] end
        require "mare.rpc".serve()
    end)
]]

-- Rules for a button that is called at the same time.
local RULER = HEAD .. [[
    local synchronizer = require "mare.synchronizer"
    local count = find "things@home":receive()
    local button, lit = find "button@home", false
    local known = mare.channel(1)
    find "rulers@home":send(mare.self(), known)
    known:receive()
    left = count
    local presses = 0
    assert(synchronizer.add_trigger(button, "off", function()
        lit, presses = false, presses + 1
        if presses == 3 then print "survived" end
    end))
    assert(synchronizer.add_trigger(button, "on", function() lit = true end))
    assert(synchronizer.add_constraint(button, "on", function() return not lit end)) -- from now on
    mare.sleep(1000)
]]

local function button()
    local sc, on, added = require "mare.sc", false, 0
    function _G.on() on = true return true end
    function _G.off() on = false return true end
    function _G.add() added = added + 1 end
    function _G.state() return on, added end
    sc.add_constraint("on", function() return not on end)
    sc.add_constraint("off", function() return on end)
    function _G.forget(process) return require "mare.synchronizer".forget(process) end
    require "mare.rpc".serve()
end

local function call(fname, ...) return rpc.sync("button", fname, t.patience)(...) end

-- The last word of a program that lives, or nil; then nothing of what it has sent is on its way.
local function last_word(peer, watch)
    local line = peer.line()
    while not line do
        local what, name = watch:receive(t.patience)
        t.ok(what, name)
        if what == "down" and name == peer.name then return nil end
    end
    return line
end

-- Starts programs that die at their line 1, 1 + STEP … Returns how many did before round(peer) said
-- that one came to the end.
local function each(home, text, things, round)
    local died, watch = 0, mare.channel(1000)
    assert(node.monitor(watch))
    for n = 1, math.huge, STEP do
        local peer <close> = peers.join(home, {name = "peer" .. n, listen = "127.0.0.1:0"}, text)
        peer.name = "peer" .. n
        if things then
            t.ok(things.channel:sendwithin(t.patience, n, things.lock, things.space, things.broker))
        end
        if round(peer, watch, n) then return died end
        died = died + 1
    end
end

-- Publishes, and reads what has come before that: each name at most once, or once if it `lives`.
local function check_words(broker, sub, seen, name, lives)
    t.ok(broker:publish("word/home", name))
    repeat
        local topic, of = sub:receive(t.patience)
        t.ok(topic, of)
        if topic == "word/of" then
            t.eq(seen[of], nil, of .. " came twice")
            seen[of] = true
        end
    until topic == "word/home" and of == name
    t.ok(seen[name] or not lives, name)
end

-- What others do with what a program keeps. Each returns something, or nil, message, code.
local use = {}

function use.lock(things)
    return monitor.doWhenFree(things.lock, function() return true end, t.patience)()
end

use.the_same_lock = use.lock

function use.space(things)
    local ok, message, code = things.space:out("token", 1)
    if not ok then return nil, message, code end
    return things.space:inwithin(t.patience, "token", tuple.integer)
end

function use.broker(things)
    local sub, message, code = things.broker:subscribe "word/#"
    if not sub then return nil, message, code end
    local ok
    ok, message, code = things.broker:publish("word/of", 1)
    if not ok then return nil, message, code end
    return sub:receive(t.patience)
end

function use.button(things)
    local ok, message, code = rpc.sync(things.button, "turn_on", t.patience)()
    if not ok then return nil, message, code end
    return rpc.sync(things.button, "turn_off", t.patience)()
end

-- All at the same time. Returns how many heard that the node is gone; the others got what they
-- wanted.
local function use_all(things)
    local running, gone = {}, 0
    for name, f in pairs(use) do running[name] = mare.go(f, things) end
    for name, routine in pairs(running) do
        local ok, result, message, code = routine:join(t.patience)
        t.ok(ok, result)
        t.ok(result or code == "nonode", ("%s: %s: %s"):format(name, code, message))
        gone = gone + (result and 0 or 1)
    end
    return gone
end

local function tokens(space)
    local list = {}
    while true do
        local what, turn = space:inp("token", tuple.integer)
        if not what then return list end
        list[#list + 1] = turn
    end
end

return {
    a_client_is_killed_at_its_lines = function()
        local home <close> = peers.home()
        local channel <close> = mare.channel(0, "things")
        local broker, seen = pubsub.create(), {}
        local sub = broker:subscribe "word/#"
        local things = {channel = channel, lock = monitor.create(), space = tuple.create(),
            broker = broker}
        local server = mare.spawn({name = "button"}, button)
        local turn, fence, sum, ways = 1, 0, 0, {}
        local out = {[turn] = true} -- tokens that may still be there, or come back: who took one
        things.space:out("token", turn) -- has died, which the space may not have heard of yet
        local died = each(home, CLIENT, things, function(peer, watch)
            local line = last_word(peer, watch)
            local now = t.ok(monitor.take(things.lock, t.patience))
            monitor.release(things.lock)
            t.ok(now > fence, "numbers grow")
            fence = now
            for _, token in ipairs(tokens(things.space)) do
                local given = out[token] and token or token - 1 -- or the client has put on one more
                t.ok(out[given], token)
                out[given] = nil
            end
            turn = turn + 2
            out[turn] = true
            things.space:out("token", turn)
            local lit, added = call "state"
            t.ok(added == sum or added == sum + 1, added)
            ways[(lit and "lit " or "dark ") .. added - sum] = true
            sum = added
            if lit then t.ok(call "off") end
            t.ok(call "on")
            t.ok(call "off")
            check_words(broker, sub, seen, peer.name, line == "survived")
            return line == "survived"
        end)
        t.ok(died >= 2, died)
        t.ok(ways["dark 0"] and ways["dark 1"], "some died before the call, some after it")
        server:kill()
        t.ok(home)
    end,

    one_that_serves_is_killed_at_its_lines = function()
        local home <close> = peers.home()
        local served <close> = mare.channel(1, "served")
        local go <close> = mare.channel(1, "go")
        local _ <close> = peers.join(home, {name = "east", listen = "127.0.0.1:0"},
            KEEPER .. " mare.sleep(1000)")
        local here = load(KEEPER .. "return require 'mare'.find 'keeper'")()
        local keepers, heard, pressed = {here, peers.find "keeper@east"}, 0, 0
        local died = each(home, SERVER, nil, function(peer, _, n)
            local things = {}
            things.button, things.lock, things.space, things.broker = served:receive(t.patience)
            for _, keeper in ipairs(keepers) do
                t.ok(rpc.sync(keeper, "rule", t.patience)(n, things.button))
            end
            t.ok(go:send(n))
            local gone = use_all(things)
            heard = heard + gone
            pcall(peer.signal, "KILL") -- if it has survived
            local fired = {}
            for i, keeper in ipairs(keepers) do
                t.reaches(function()
                    fired[i] = rpc.sync(keeper, "outcome", t.patience)(n)
                    return fired[i]
                end, "the keeper has heard of the end")
            end
            t.eq(fired[1], fired[2], "all have fired, or none")
            t.ok(fired[1] <= 2, fired[1])
            pressed = pressed + fired[1]
            return gone == 0
        end)
        t.ok(died >= 2 and heard >= died and pressed >= 1, died .. " died, " .. heard
            .. " heard of it, " .. pressed .. " presses")
        here:kill()
        t.ok(home)
    end,

    one_that_makes_rules_is_killed_at_its_lines = function()
        local home <close> = peers.home()
        local channel <close> = mare.channel(0, "things")
        local rulers <close> = mare.channel(1, "rulers")
        local refused = 0
        local died = each(home, RULER, {channel = channel}, function(peer, watch)
            local server = mare.spawn({name = "button"}, button)
            local ruler, known = rulers:receive(t.patience)
            known:send(true)
            local last = mare.go(last_word, peer, watch) -- "survived", or its end
            local value, message, code
            repeat
                value, message, code = call((call "state") and "off" or "on")
                t.ok(value or code == "refused", message)
            until not value or last:status() == "done"
            local _, line = last:join(t.patience)
            local survived = line == "survived"
            if not survived then -- and whoever has lost its rules goes on without, once it says so
                refused = refused + (value and 0 or 1)
                t.reaches(function()
                    call("forget", ruler)
                    return call((call "state") and "off" or "on")
                end)
                if call "state" then t.ok(call "off") end
                t.ok(call "on" and call "off")
            end
            server:kill()
            server:join()
            return survived
        end)
        t.ok(died >= 2 and refused >= 1, died .. " died, " .. refused .. " calls refused")
        t.ok(home)
    end,
}
