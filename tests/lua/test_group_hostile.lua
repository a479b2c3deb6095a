-- SPDX-License-Identifier: MIT
-- Nodes that are let in, and lie: what a member believes of others is what their nodes have proved
-- to be, and nobody else reads or closes its inbox.
local mare, group, t = require "mare", require "mare.group", require "t"
local party, roll = require "mare._party", require "mare._group_roll"
local peers, cases = require "peers", require "group_cases"
local join = cases.join

local LONG = 3600 -- seconds: a lease that no noise ends
local FAR = 1 << 40 -- an epoch that none of a test reaches
local DIGEST = ("bank flow,home %d 1000"):format(LONG * 1000000) -- as members have it

-- The other member, which tells `home` what the test wants told.
local FLOW = [[
    local group = require "mare.group"
    local options = OPTIONS
    assert(group.found("bank", options))
    local bank = assert(group.join("bank", options))
    local orders = mare.channel(4, "orders")
    print "in"
    for what, a, b, c in orders:messages() do
        if what == "lead" then
            find "group.bank@home":send(a, DIGEST, "leader", "cashier", b, "")
        elseif what == "lock" then
            local lock = bank:lock("x", 60)
            print(lock:fence() > 0)
            lock:release()
        elseif what == "roll" then
            find "group.bank@home":send("flow", DIGEST, "roll", "", 0, a)
        elseif what == "add" then
            print((bank:add(a, 60)))
        end
    end
]]

-- A node that is in no group. It answers when the member has read what came before.
local EEL = [[
    local orders = mare.channel(4, "bad orders")
    local inbox = find "group.bank@home"
    print "in"
    for what, a, b in orders:messages() do
        if what == "lead" then inbox:send(a, DIGEST, "leader", "cashier", b, "") end
        if what == "roll" then inbox:send("eel", DIGEST, "roll", "", 0, a) end
        if what == "hello" then inbox:send("eel", DIGEST, "hello", "", 0, a) end
        if what == "receive" then print(select(3, inbox:receive(60))) end
        if what == "tell" then -- who joins only now, and answers nothing
            inbox:send("eel", DIGEST, "roll", "", 0, a)
            print "told"
        elseif what == "close" then
            inbox:close()
            for _ = 1, 100 do find "group.bank@home" end -- it has left by now
            print "closed"
        else
            local reply = mare.channel(1)
            inbox:send("", "", "look", reply)
            print(reply:receive(60) ~= nil)
        end
    end
]]

local function options_of(folder, name)
    return {members = {"flow", "home"}, folder = folder .. "/" .. name, lease = LONG}
end

local function start(home, name, orders, text, folder, members)
    local options = folder and options_of(folder, name)
    if members then options.members = members end
    local words = {OPTIONS = options and peers.source(options),
        DIGEST = ("%q"):format(DIGEST)}
    local peer = peers.join(home, {name = name, listen = "127.0.0.1:0"},
        (text:gsub("%u%u%u%u%u%u+", words)))
    t.eq(peer.line(), "in")
    peer.orders = peers.find(orders .. "@" .. name)
    return peer
end

-- A group of two, both with a lease; and a stranger.
local function scene(f)
    return {t.in_folder(function(folder)
        local home <close> = peers.home()
        local here = options_of(folder, "home")
        t.ok(group.found("bank", here))
        local flow <close> = start(home, "flow", "orders", FLOW, folder)
        local bank <close> = join("bank", here)
        t.ok(bank:lock("x", t.patience)):release()
        local eel <close> = start(home, "eel", "bad orders", EEL)
        f(bank, flow, eel)
    end), timeout = 120}
end

-- What a message has that tells of later members.
local function later(names, more)
    local list = {names = names, slots = {}, ids = {}, former = {table.unpack(names)},
        founders = {"flow", "home"}}
    local value = {generation = 1, bounds = {majority = 1}, roll = list}
    for i = 1, #names do list.slots[i], list.ids[i] = i, "" end
    for key, one in pairs(more or {}) do (list[key] and list or value)[key] = one end
    return (t.ok(party._pack(value)))
end

local function many_names()
    local names = {"flow", "home"}
    for i = 3, 256 do names[i] = "n" .. i end
    return names
end

local function unchanged_names(bank)
    local names = {}
    for i, member in ipairs(t.ok(bank:members())) do names[i] = member.name end
    t.eq(names, {"flow", "home"})
end

-- Both are members still, and nobody else is.
local function unchanged(bank, flow)
    unchanged_names(bank)
    flow.orders:send("lock")
    t.eq(flow.line(), "true")
    t.ok(bank:lock("x", t.patience)):release()
end

local function settled(eel) t.eq(eel.line(), "true") end

return {
    who_says_that_it_is_another_is_not_believed = scene(function(bank, flow, eel)
        local cashier <close> = t.ok(bank:election("cashier", {candidate = false}))
        t.eq({cashier:change(t.patience)}, {false, 0})
        eel.orders:send("lead", "flow", FAR) -- a stranger in the name of a member
        settled(eel)
        eel.orders:send("lead", "eel", FAR) -- in its own
        settled(eel)
        flow.orders:send("lead", "home", FAR) -- a member in the name of another
        flow.orders:send("lock")
        t.eq(flow.line(), "true") -- behind it
        flow.orders:send("lead", "flow", 7)
        t.eq({cashier:change(t.patience)}, {"flow", 7})
    end),

    -- Else it could put all of them out; or make each a majority of one, which has every lock.
    who_is_no_member_does_not_say_who_is = scene(function(bank, flow, eel)
        for _, names in ipairs {{"eel"}, {"home"}, {"flow"}, {"eel", "flow", "home"}} do
            eel.orders:send("roll", later(names))
            settled(eel)
            unchanged(bank, flow)
        end
    end),

    -- Not even if it knows what tells the newcomer from others of that name.
    a_newcomer_believes_those_that_it_asks = {t.in_folder(function(folder)
        local home <close> = peers.home()
        local given = {members = {"flow"}, folder = folder, lease = LONG, newcomer = true}
        local joining = mare.go(group.join, "bank", given)
        local id
        t.reaches(function()
            local kept = roll.read(folder .. "/group-bank")
            id = kept and kept.id
            return id and mare.find "group.bank"
        end, "the newcomer")
        local eel <close> = start(home, "eel", "bad orders", EEL)
        eel.orders:send("tell", later({"eel", "home"}, {ids = {"", id}}))
        t.eq(eel.line(), "told")
        local flow <close> = start(home, "flow", "orders", FLOW, folder, {"flow"})
        flow.orders:send("add", "home")
        t.eq(flow.line(), "true")
        local _, bank = joining:join(t.patience)
        unchanged_names(t.ok(bank))
        t.ok(bank:leave())
    end), timeout = 120},

    -- A member keeps the ids of newcomers, and whoever is let in can send them.
    an_id_has_a_limit = scene(function(bank, flow, eel)
        eel.orders:send("hello", (t.ok(party._pack {generation = -1, id = ("a"):rep(17)})))
        settled(eel)
        t.fails("timeout", bank:add("eel", 0.05))
        t.reaches(function() -- a hello counts for some seconds only
            eel.orders:send("hello", (t.ok(party._pack {generation = -1, id = ("a"):rep(16)})))
            settled(eel)
            return bank:add("eel", 1)
        end, "to have it added")
        t.ok(flow)
    end),

    -- It would be on the disk, and the member would fail again whenever it is started.
    a_list_that_cannot_be_is_not_taken = scene(function(bank, flow)
        local two = {"flow", "home"}
        local wrong = {
            later {"flow", "home", "home"}, later(many_names()),
            later {"home", "Not One"}, later {},
            later(two, {slots = {1, 1}}), later(two, {slots = {0, 1}}),
            later(two, {slots = {1, 256}}), later(two, {slots = {2, 1}}),
            later(two, {ids = {""}}), later(two, {former = {"flow", "home", [9] = "x"}}),
            later(two, {former = {"flow", "home", true}}), later(two, {former = true}),
            later(two, {founders = {}}), later(two, {founders = {"a", "a"}}),
            later(two, {bounds = {majority = 1 << 47}}), later(two, {bounds = {central = 1 << 31}}),
            later(two, {bounds = {ricart = -1}}), later(two, {bounds = {voting = 1}}),
            later(two, {bounds = {token = 1.5}}), later(two, {generation = 1 << 47}),
            later(two, {generation = 1.0}), later(two, {roll = {}}), later(two, {roll = 1})}
        for _, bytes in ipairs(wrong) do flow.orders:send("roll", bytes) end
        unchanged(bank, flow)
        t.eq(t.ok(bank:look()).generation, 0)
    end),

    -- Such as one that was founded anew where a member of this one had been.
    a_list_of_another_group_of_this_name_is_not_taken = scene(function(bank, flow)
        flow.orders:send("roll", later({"flow"}, {founders = {"flow", "reef"}}))
        unchanged(bank, flow)
        t.eq(t.ok(bank:look()).generation, 0)
    end),

    who_is_let_in_does_not_read_or_close_an_inbox = scene(function(bank, flow, eel)
        eel.orders:send "receive"
        t.eq(eel.line(), "closed")
        settled(eel)
        eel.orders:send "close"
        t.eq(eel.line(), "closed")
        flow.orders:send("lock")
        t.eq(flow.line(), "true")
        t.ok(bank:lock("x", t.patience)):release()
        t.eq(#bank:members(), 2)
    end),

    -- Its own program may do all this.
    what_this_program_sends_has_no_name_before_it = function()
        local box = t.ok(require "mare._node"._box(4))
        box:send(1, "two")
        t.eq({box:receive()}, {1, "two"})
        t.ok(box:close())
        t.fails("closed", box:receive())
        local named = t.ok(require "mare._node"._box(4, "a box"))
        t.fails("exists", require "mare._node"._box(4, "a box"))
        t.eq(mare.find "a box", named)
    end,
}
