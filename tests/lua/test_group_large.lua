-- SPDX-License-Identifier: MIT
-- Large values in replicas and multicasts: they cross in messages that nodes take, and what waits
-- for somebody who is slow has its limit in bytes, too.
local mare, group, t = require "mare", require "mare.group", require "t"
local peers, join = require "peers", require "group_cases".join

local LONG = 3600
local VALUES, BYTES = 30, 300000 -- together more than a node takes in a message

local PEER = [[
    local group = require "mare.group"
    assert(group.found("bank", OPTIONS))
    local bank = assert(group.join("bank", OPTIONS))
    local sum = assert(bank:replica("sum", 0, function(s, v) return s + #v end))
    local cast = assert(bank:multicast("news", {timeout = PATIENCE}))
    print "in"
    for _ = 1, VALUES do assert(cast:receive(PATIENCE)) end
    print(select(2, assert(sum:read(PATIENCE))))
    mare.sleep(3600)
]]

local function options_of(folder, name)
    return {members = {"flow", "home"}, folder = folder .. "/" .. name, lease = LONG}
end

return {
    many_at_a_time_cross_to_the_others = {t.in_folder(function(folder)
        local home <close> = peers.home()
        local words = {OPTIONS = peers.source(options_of(folder, "flow")),
            PATIENCE = tostring(t.patience), VALUES = tostring(VALUES)}
        local flow <close> = peers.join(home, {name = "flow", listen = "127.0.0.1:0"},
            PEER:gsub("%u%u%u+", words))
        t.ok(group.found("bank", options_of(folder, "home")))
        local bank <close> = join("bank", options_of(folder, "home"))
        local sum = t.ok(bank:replica("sum", 0, function(s, v) return s + #v end))
        local cast = t.ok(bank:multicast("news", {timeout = t.patience}))
        t.eq(flow.line(), "in")
        local value = ("x"):rep(BYTES)
        local routines = t.in_routines(VALUES, function() return sum:apply(value, t.patience) end)
        for i = 1, VALUES do t.eq({routines[i]:join()}, {true, true}) end
        for _ = 1, VALUES do t.ok(cast:send(value, t.patience)) end
        for _ = 1, VALUES do t.eq({cast:receive(t.patience)}, {"home", value}) end
        t.eq(flow.line(), tostring(VALUES * BYTES))
    end), timeout = 240},

    one_that_is_too_large_is_refused = t.in_folder(function(folder)
        local _ <close> = peers.home()
        local options = {members = {"home"}, folder = folder, lease = LONG}
        t.ok(group.found("bank", options))
        local bank <close> = join("bank", options)
        local sum = t.ok(bank:replica("sum", 0, function(s, v) return s + #v end))
        local cast = t.ok(bank:multicast "news")
        local large = ("x"):rep(1 << 20) -- and some bytes that say what it is
        t.fails("toobig", sum:apply(large))
        t.fails("toobig", sum:apply(large, 1))
        t.fails("toobig", cast:send(large))
        t.eq({sum:apply(large:sub(6), t.patience)}, {true})
        t.eq({sum:read(t.patience)}, {true, #large - 5})
        t.ok(cast:send(large:sub(6)))
        t.eq(#select(2, cast:receive(t.patience)), #large - 5)
    end),

    who_does_not_receive_fills_no_memory = t.in_folder(function(folder)
        local _ <close> = peers.home()
        local options = {members = {"home"}, folder = folder, lease = LONG}
        t.ok(group.found("bank", options))
        local bank <close> = join("bank", options)
        local slow, quick = t.ok(bank:multicast "news"), t.ok(bank:multicast "news")
        local value, count = ("x"):rep(1 << 19), 140 -- 70 MiB
        local sender = mare.go(function()
            for _ = 1, count do assert(quick:send(value, t.patience)) end
        end)
        for _ = 1, count do t.eq(#select(2, quick:receive(t.patience)), #value) end
        t.ok(sender:join())
        local got = 0
        local from, _, code
        repeat
            from, _, code = slow:receive(t.patience)
            got = got + (from and 1 or 0)
        until not from
        t.eq(code, "closed")
        t.ok(got > 0 and got < count, got)
        t.ok(quick:send(1) and quick:receive(t.patience)) -- who keeps up goes on
    end),
}
