-- SPDX-License-Identifier: MIT
-- Superpeers of groups: all that are named name themselves, and another one is named when one dies.
local mare, group, t = require "mare", require "mare.group", require "t"
local peers, join = require "peers", require "group_cases".join
local superpeers = require "mare._group_superpeers"

local LONG, SHORT = 3600, 0.4 * t.slow
local SILENCE = t.slow -- short: heartbeats measure where the members are

-- Tells whom it is told to ask, at each change. Nobody asks it: a machine that stands still may
-- lose its links for a while.
local PEER = [[
    local group = require "mare.group"
    assert(group.found("bank", OPTIONS))
    local bank = assert(group.join("bank", OPTIONS))
    print "joined"
    local last
    while true do
        local name, _, code = bank:superpeer(WAY, 1)
        if (name or code) ~= last then
            last = name or code
            print(last)
        end
        mare.sleep(0.01)
    end
]]

local function options_of(folder, name)
    return {members = {"flow", "home", "neap"}, folder = folder .. "/" .. name, lease = SHORT}
end

-- Another member; `told[name]` is always the last that it has told.
local function start(home, folder, name, way, told)
    local words = {OPTIONS = peers.source(options_of(folder, name)), WAY = peers.source(way)}
    local made = peers.join(home, {name = name, listen = "127.0.0.1:0", silence = SILENCE},
        PEER:gsub("%u%u%u+", words))
    t.eq(made.line(), "joined")
    made.reader = mare.go(function()
        for line in function() return made.child.stdout:read("l", LONG) end do told[name] = line end
    end)
    return made
end

-- Waits until all that live agree on one of them. Returns its name.
local function agreed(bank, way, told)
    t.reaches(function()
        local one = bank:superpeer(way, 1)
        told.home = one
        for _, other in pairs(told) do
            if other ~= one then return false end
        end
        return one and told[one]
    end, "a superpeer that names itself")
    return told.home
end

-- One superpeer for all, that is killed: the others have another one.
local function outlived(way)
    return {t.in_folder(function(folder)
        local told = {flow = false, neap = false}
        local home <close> = peers.home {silence = SILENCE}
        local flow <close> = start(home, folder, "flow", way, told)
        local neap <close> = start(home, folder, "neap", way, told)
        local here = options_of(folder, "home")
        t.ok(group.found("bank", here))
        local bank <close> = join("bank", here)
        local first = agreed(bank, way, told)
        local victim = first == "flow" and "flow" or "neap" -- the superpeer, if it is not this one
        local peer = victim == "flow" and flow or neap
        peer.signal "KILL"
        t.ok(peer.reader:join(t.patience))
        told[victim] = nil
        agreed(bank, way, told) -- on one that lives; a token may have gone on meanwhile
    end), timeout = 120}
end

return {
    one_by_prefix_is_outlived = outlived {prefix = 0},
    one_by_tokens_is_outlived = outlived {tokens = 1},

    who_is_alone_asks_itself = t.in_folder(function(folder)
        local _ <close> = peers.home()
        local options = {members = {"home"}, folder = folder, lease = LONG}
        t.ok(group.found("bank", options))
        local bank <close> = join("bank", options)
        t.eq(bank:superpeer({prefix = 3}, t.patience), "home")
        t.eq(bank:superpeer({tokens = 3}, t.patience), "home")
        t.eq(bank:look().superpeers, {{algorithm = "superpeer-dht", count = 3, superpeer = "home"},
            {algorithm = "superpeer-tokens", count = 3, superpeer = "home"}})
        t.eq(bank:locks(), {})
        t.raises("either 'prefix' or 'tokens'", bank.superpeer, bank, {})
        t.raises("either 'prefix' or 'tokens'", bank.superpeer, bank, {prefix = 1, tokens = 1})
        t.raises("8 at most", bank.superpeer, bank, {prefix = 9})
        t.raises("an integer, 1 at least", bank.superpeer, bank, {tokens = 0})
        t.raises("unknown option", bank.superpeer, bank, {token = 1})
    end),

    without_a_majority_nobody_is_named = t.in_folder(function(folder)
        local _ <close> = peers.home()
        local options = {members = {"flow", "home"}, folder = folder, lease = LONG}
        t.ok(group.found("bank", options))
        local bank <close> = join("bank", options)
        t.fails("noquorum", bank:superpeer({prefix = 1}, 0.05))
        local waiting = mare.go(function() return bank:superpeer({prefix = 1}, t.patience) end)
        t.settle()
        t.ok(bank:leave())
        t.eq(select(4, waiting:join(t.patience)), "closed")
    end),

    places_fill_the_space = function()
        local at = {}
        local member = {_place = function(_, peer, ...) at[peer] = {...} end}
        superpeers.lay_out({names = {"a", "b", "c"}, member = member},
            {a = {-2, 1, 0}, c = {8, 6, 0}})
        t.eq(at, {{0, 0, 0}, {511, 511, 511}, {1023, 511, 0}})
        superpeers.lay_out({names = {"a"}, member = member}, {a = {5, 5, 5}})
        t.eq(at[1], {0, 0, 0})
        superpeers.lay_out({names = {"a"}, member = member}, {})
        t.eq(at[1], {511, 511, 511})
    end,

    names_of_others_make_no_machine = function()
        local added = {}
        local host = {superpeers = {}, timers = require "mare._group_timers".new(),
            add = function(_, key) table.insert(added, key) end, step = function() end}
        for _, key in ipairs {"\4superpeer-dht 9", "\4superpeer-tokens 0", "\4superpeer-tokens 33",
            "\4superpeer-dht", "\4superpeer-dht 1 ", "\4bully 1", "superpeer-dht 1",
            "\4superpeer-dht 1", "\4superpeer-dht 1"} do
            superpeers.hear(host, 2, key, 1, "")
        end
        t.eq(added, {"\4superpeer-dht 1"})
    end,
}
