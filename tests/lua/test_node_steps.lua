-- SPDX-License-Identifier: MIT
-- A program that kills itself at the n-th line of what it does with locks, tuples, calls and rules
-- of another node, for every n: wherever it was, those who are left go on. Some n here, all of them
-- by make chaos.
local mare, tuple, rpc = require "mare", require "mare.tuple", require "mare.rpc"
local monitor, node = require "mare.monitor", require "mare.node"
local t, peers = require "t", require "peers"

local STEP = os.getenv "MARE_CHAOS_SECONDS" and 1 or math.random(29, 41)

local HEAD = [[
    local rpc, monitor, tuple = require "mare.rpc", require "mare.monitor", require "mare.tuple"
    local synchronizer, signal = require "mare.synchronizer", require "mare.signal"
    local left, lock, space = find "things@home":receive()
    local function hook() -- routines inherit it
        left = left - 1
        if left == 0 then signal.send(signal.pid(), "KILL") end
    end
]]

local CLIENT = HEAD .. [[
    local on, off = rpc.sync("button@home", "on"), rpc.sync("button@home", "off")
    local under_lock = monitor.doWhenFree(lock, function() return monitor.fence(lock) end)
    debug.sethook(hook, "l")
    assert(under_lock())
    local _, turn = space:in_("token", tuple.integer)
    space:out("token", turn + 1)
    rpc.sync("button@home", "add")()
    assert(on())
    assert(off())
    debug.sethook()
    print "survived"
]]

-- Rules for a button that is called at the same time.
local RULER = HEAD .. [[
    local button, lit = find "button@home", false
    local known = mare.channel(1)
    find "rulers@home":send(mare.self(), known)
    known:receive()
    debug.sethook(hook, "l")
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
        local peer <close> = peers.join(home, {name = "peer" .. n}, text)
        peer.name = "peer" .. n
        t.ok(things.channel:sendwithin(t.patience, n, things.lock, things.space))
        if round(peer, watch) then return died end
        died = died + 1
    end
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
        local things = {channel = channel, lock = monitor.create(), space = tuple.create()}
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
            return line == "survived"
        end)
        t.ok(died >= 2, died)
        t.ok(ways["dark 0"] and ways["dark 1"], "some died before the call, some after it")
        server:kill()
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
