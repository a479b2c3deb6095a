-- SPDX-License-Identifier: MIT
-- Members that come and go while a group of real programs runs: nothing is held twice, fencing
-- numbers grow, a replica is whole on whoever comes, and one that was lost for good is replaced.
local mare, group, file = require "mare", require "mare.group", require "mare.file"
local t, peers, cases = require "t", require "peers", require "group_cases"

local roll, state = require "mare._group_roll", require "mare._group_state"
local members = require "mare._group_members"

local join = cases.join
local LONG, SHORT = 3600, 0.4 * t.slow -- leases: one that no noise ends, and a short one
local MEMBERS = {"flow", "home", "neap"}

local function alone(folder) return {members = {"home"}, folder = folder, lease = LONG} end

local function note(list, value)
    list[#list + 1] = value
    return list, #list
end

-- Another member: it does what it is told, and tells what came of it.
local PEER = [[
    local group = require "mare.group"
    local options = OPTIONS
    if FOUNDS then assert(group.found("bank", options)) end
    local bank, message, code = group.join("bank", options)
    if not bank then print(code) return end
    local list = assert(bank:replica("list", {}, function(list, value)
        list[#list + 1] = value
        return list, #list
    end))
    local orders, held = mare.channel(4, "orders")
    print "joined"
    for what, a, b in orders:messages() do
        if what == "lock" then
            held = bank:lock(a, b)
            print(held and held:fence() or "none")
        elseif what == "release" then
            held:release()
            print "released"
        elseif what == "read" then
            local ok, state = list:read(a)
            print(ok and table.concat(state, ",") or "none")
        elseif what == "join" then
            options.newcomer = a
            print(select(3, group.join("bank", options)))
        elseif what == "locks" then
            print(bank:locks() and "in" or "out")
        end
    end
]]

local function options_of(folder, name, more)
    local options = {members = MEMBERS, folder = folder .. "/" .. name, lease = SHORT,
        timeout = t.patience}
    for key, value in pairs(more or {}) do options[key] = value end
    return options
end

-- Starts a program; `founds`; `more`: further options. What it says first is for the caller.
local function start(home, folder, name, founds, more, others)
    local words = {OPTIONS = peers.source(options_of(folder, name, more)),
        FOUNDS = tostring(founds)}
    return peers.join(home, {name = name, listen = "127.0.0.1:0", join = others},
        (PEER:gsub("%u%u%u+", words)))
end

local function peer(...)
    local made = start(...)
    t.eq(made.line(), "joined")
    made.orders = peers.find("orders@" .. select(3, ...))
    return made
end

local function fence_of(who)
    local number
    t.reaches(function()
        who.orders:send("lock", "x", 1)
        number = math.tointeger(tonumber(who.line()))
        return number
    end, "the lock there")
    who.orders:send "release"
    t.eq(who.line(), "released")
    return number
end

local function list_of(who)
    local text
    t.reaches(function()
        who.orders:send("read", 1)
        text = who.line()
        return text ~= "none"
    end, "the list")
    return text
end

local function names_of(bank)
    local names = {}
    for i, member in ipairs(bank:members()) do names[i] = member.name end
    return table.concat(names, ",")
end

-- Until it is done: a machine that stands still may lose the majority for a while.
local function change(bank, what, name)
    t.reaches(function() return (bank[what](bank, name, t.patience)) end, what .. " " .. name)
end

-- The same, and it may be refused: true, or the code.
local function try_to_remove(bank, name)
    local ok, code
    t.reaches(function()
        local done, _, word = bank:remove(name, t.patience)
        ok, code = done, word
        return ok or code == "denied" or code == "closed"
    end, "an answer about " .. name)
    return ok or code
end

return {
    one_becomes_two_and_one_again = {t.in_folder(function(folder)
        local home <close> = peers.home()
        local options = {members = {"home"}, folder = folder .. "/home", lease = SHORT}
        t.ok(group.found("bank", options))
        local before
        do
            local bank <close> = join("bank", options)
            local list = t.ok(bank:replica("list", {}, note))
            cases.apply(list, "a")
            before = cases.fence(bank)
            t.fails("timeout", bank:add("flow", 0.01))
            local flow <close> = start(home, folder, "flow", false,
                {members = {"home"}, newcomer = true})
            change(bank, "add", "flow")
            t.eq(flow.line(), "joined")
            flow.orders = peers.find "orders@flow"
            t.eq(names_of(bank), "flow,home")
            t.ok(bank:add("flow", t.patience)) -- it is
            local later = fence_of(flow)
            t.ok(later > before, later)
            before = cases.fence(bank)
            t.ok(before > later, before)
            cases.apply(list, "b")
            t.ok(list_of(flow):find("^a,b"))
            change(bank, "remove", "flow") -- numbers are made of fewer members, and grow
            t.eq(names_of(bank), "home")
            later = cases.fence(bank)
            t.ok(later > before, later)
            before = later
            t.fails("denied", bank:remove("home", t.patience))
            t.reaches(function() -- it hears of that a moment after the others
                flow.orders:send "locks"
                return flow.line() == "out"
            end, "the end of its membership")
            flow.orders:send("join", false)
            t.eq(flow.line(), "denied")
            flow.orders:send("join", true) -- its folder is of another time
            t.eq(flow.line(), "denied")
        end
        local bank <close> = join("bank", options) -- goes on where it was
        t.ok(cases.fence(bank) > before)
        t.eq(names_of(bank), "home")
    end), timeout = 120},

    -- The second would leave nobody.
    of_two_one_stays_whoever_is_removed_at_once = {t.in_folder(function(folder)
        local home <close> = peers.home()
        local options = {members = {"home"}, folder = folder .. "/home", lease = SHORT}
        t.ok(group.found("bank", options))
        local bank <close> = join("bank", options)
        local list = t.ok(bank:replica("list", {}, note))
        local flow <close> = start(home, folder, "flow", false,
            {members = {"home"}, newcomer = true})
        change(bank, "add", "flow")
        t.eq(flow.line(), "joined")
        flow.orders = peers.find "orders@flow"
        cases.apply(list, "a")
        local answers = mare.channel(2)
        for _, name in ipairs {"flow", "home"} do
            mare.go(function() answers:send(name, try_to_remove(bank, name)) end):detach()
        end
        local said = {}
        for _ = 1, 2 do
            local name, answer = answers:receive(2 * t.patience)
            said[name] = answer
        end
        if said.flow == true then
            t.eq(said.home, "denied")
            t.ok(cases.fence(bank))
        else
            t.eq(said.flow, "closed")
            t.eq(said.home, true)
            t.ok(fence_of(flow))
        end
        list:leave() -- it writes no more
    end), timeout = 120},

    -- The other one cannot decide anything without it: it goes when the other knows.
    of_two_one_removes_itself = {t.in_folder(function(folder)
        local home <close> = peers.home()
        local options = {members = {"home"}, folder = folder .. "/home", lease = SHORT}
        t.ok(group.found("bank", options))
        local bank <close> = join("bank", options)
        local list = t.ok(bank:replica("list", {}, note))
        local flow <close> = start(home, folder, "flow", false,
            {members = {"home"}, newcomer = true})
        change(bank, "add", "flow")
        t.eq(flow.line(), "joined")
        flow.orders = peers.find "orders@flow"
        cases.apply(list, "a")
        local before = cases.fence(bank)
        t.eq(try_to_remove(bank, "home"), true)
        t.ok(fence_of(flow) > before)
        list:leave() -- it writes no more
    end), timeout = 120},

    -- And if it was killed before it had told, it tells when it is started again.
    who_was_removed_tells_when_it_is_back = {t.in_folder(function(folder)
        local home <close> = peers.home()
        local two, kept = {"flow", "home"}, {}
        local options = {members = two, folder = folder .. "/home", lease = SHORT}
        for _, name in ipairs(two) do
            kept[name] = ("%s/%s/group-bank"):format(folder, name)
        end
        t.ok(group.found("bank", options))
        t.ok(state.make_folder(kept.flow))
        local first = roll.first(two)
        local next_roll = roll.without(first, "home")
        roll.write(kept.flow, {generation = 0, roll = first, bounds = {}, promised = 258,
            ballot = 258, value = next_roll})
        roll.write(kept.home, {generation = 1, roll = next_roll, bounds = {majority = 65536},
            out = true})
        local flow <close> = peer(home, folder, "flow", true, {members = two})
        t.reaches(function()
            t.fails("denied", group.join("bank", options))
            flow.orders:send("lock", "x", 1)
            local number = math.tointeger(tonumber(flow.line()))
            t.ok(not number or number >= 65536, number)
            return number
        end, "the lock there")
    end), timeout = 120},

    a_log_that_is_behind_is_waited_for = {t.in_folder(function(folder)
        local home <close> = peers.home()
        local options = {members = {"home"}, folder = folder .. "/home", lease = SHORT}
        t.ok(group.found("bank", options))
        local log = folder .. "/home/group-bank/log-replica-list"
        do
            local bank <close> = join("bank", options)
            local list = t.ok(bank:replica("list", {}, note))
            cases.apply(list, "a")
            local flow <close> = start(home, folder, "flow", false,
                {members = {"home"}, newcomer = true})
            change(bank, "add", "flow")
            change(bank, "remove", "flow")
            t.eq(flow.line(), "joined")
            list:leave() -- it writes no more
        end
        local settled = t.ok(state.read(log .. "/settled"))
        t.ok(state.write(log .. "/settled", (settled:gsub("^%d+", "0"))))
        local bank <close> = join("bank", options) -- does not open it
        local reef <close> = start(home, folder, "reef", false,
            {members = {"home"}, newcomer = true})
        local message, code
        t.reaches(function()
            local ok
            ok, message, code = bank:add("reef", 0.1)
            t.ok(not ok)
            return message:find "has not worked"
        end, "the reason")
        t.ok(message:find("replica 'list'", 1, true), message)
        t.eq(code, "timeout")
        t.eq(names_of(bank), "home")
        local again = t.ok(bank:replica("list", {}, note))
        change(bank, "add", "reef")
        t.eq(reef.line(), "joined")
        again:leave()
    end), timeout = 120},

    -- Who has accepted a list tells of nothing else, so that no lease is renewed by it.
    who_has_stopped_takes_no_part = {t.in_folder(function(folder)
        local home <close> = peers.home()
        local flow <close> = peers.join(home, {name = "flow", listen = "127.0.0.1:0"}, [[
            for _, _, kind in mare.channel(64, "group.bank"):messages() do print(kind) end
        ]])
        local options = {members = MEMBERS, folder = folder, lease = 0.2}
        t.ok(group.found("bank", options))
        local first = roll.first(MEMBERS)
        roll.write(folder .. "/group-bank", {generation = 0, roll = first, bounds = {},
            promised = 257, ballot = 257, value = roll.without(first, "neap")})
        local bank <close> = join("bank", options)
        for _ = 1, 10 do t.eq(flow.line(), "agree") end
        t.fails("noquorum", bank:lock("x", 0.01))
    end), timeout = 60},

    one_that_is_gone_for_good_is_replaced = {t.in_folder(function(folder)
        local home <close> = peers.home()
        local flow <close> = peer(home, folder, "flow", true)
        local neap <close> = peer(home, folder, "neap", true, nil, {flow.address})
        t.ok(group.found("bank", options_of(folder, "home")))
        local bank <close> = join("bank", options_of(folder, "home"))
        local list = t.ok(bank:replica("list", {}, note))
        local fence = fence_of(flow)
        for i = 1, 3 do cases.apply(list, i) end
        local whole = list_of(neap)

        -- Its machine has burnt down. Another takes its place, under the same name.
        flow.signal "KILL"
        flow.child:wait(t.patience)
        t.ok(file.remove(folder .. "/flow", {tree = true}))
        local lock
        t.reaches(function()
            lock = bank:lock("x", 1)
            return lock and lock:fence()
        end, "the lock")
        t.ok(lock:fence() or true)
        change(bank, "remove", "flow")
        local _, reason = mare.select({lock}, t.patience)
        t.ok(reason == "changed" or reason == "noquorum", reason)
        t.eq(names_of(bank), "home,neap")
        local number = cases.fence(bank)
        t.ok(number > fence, number)
        fence = number
        cases.apply(list, "without")
        local new <close> = start(home, folder, "flow", false, {newcomer = true}, {neap.address})
        change(bank, "add", "flow")
        t.eq(new.line(), "joined")
        new.orders = peers.find "orders@flow"
        t.eq(names_of(bank), "flow,home,neap")
        number = fence_of(new)
        t.ok(number > fence, number)
        fence = number
        t.eq(list_of(new):sub(1, #whole), whole)

        -- It votes: with it the group goes on without neap, which comes back after that.
        neap.signal "KILL"
        neap.child:wait(t.patience)
        cases.apply(list, "again")
        number = cases.fence(bank)
        t.ok(number > fence, number)
        local back <close> = peer(home, folder, "neap", false, nil, {new.address})
        t.ok(fence_of(back) > number)
        t.eq(list_of(back), list_of(new))
        t.ok(list_of(back):find "again")
    end), timeout = 120},

    -- Its machine was started again without its disk, before anybody could remove it.
    one_that_is_back_as_a_newcomer_can_be_removed = {t.in_folder(function(folder)
        local home <close> = peers.home()
        local flow <close> = peer(home, folder, "flow", true)
        local neap <close> = peer(home, folder, "neap", true, nil, {flow.address})
        t.ok(group.found("bank", options_of(folder, "home")))
        local bank <close> = join("bank", options_of(folder, "home"))
        local list = t.ok(bank:replica("list", {}, note)) -- or that of neap works with nobody
        flow.signal "KILL"
        flow.child:wait(t.patience)
        t.ok(file.remove(folder .. "/flow", {tree = true}))
        local new <close> = start(home, folder, "flow", false, {newcomer = true}, {neap.address})
        t.reaches(function() -- it says hello
            local ok, _, code = bank:add("flow", 0.1)
            return not ok and code == "denied"
        end, "the newcomer")
        change(bank, "remove", "flow")
        t.eq(names_of(bank), "home,neap")
        change(bank, "add", "flow")
        t.eq(new.line(), "joined")
        t.eq(names_of(bank), "flow,home,neap")
        list:leave() -- it writes no more
    end), timeout = 120},

    -- With it the group would wait for a member that none of the others listens to.
    a_newcomer_that_joins_in_another_way_stays_out = t.in_folder(function(folder)
        local home <close> = peers.home()
        t.ok(group.found("bank", alone(folder)))
        local bank <close> = join("bank", alone(folder))
        local flow <close> = start(home, folder, "flow", false,
            {members = {"home"}, newcomer = true})
        local message
        t.reaches(function()
            local ok
            ok, message = bank:add("flow", 0.1)
            t.ok(not ok)
            return message:find "another lease"
        end, "the reason")
        t.eq(names_of(bank), "home")
        t.ok(flow)
    end),

    who_has_missed_a_change_hears_of_it = {t.in_folder(function(folder)
        local home <close> = peers.home()
        local flow <close> = peer(home, folder, "flow", true)
        local neap <close> = peer(home, folder, "neap", true, nil, {flow.address})
        t.ok(group.found("bank", options_of(folder, "home")))
        local bank <close> = join("bank", options_of(folder, "home"))
        local list = t.ok(bank:replica("list", {}, note))
        cases.apply(list, "a")
        local fence = fence_of(neap)
        neap.signal "STOP"
        local reef <close> = start(home, folder, "reef", false, {newcomer = true}, {flow.address})
        change(bank, "add", "reef")
        t.eq(reef.line(), "joined")
        reef.orders = peers.find "orders@reef"
        local number = fence_of(reef)
        t.ok(number > fence, number)
        neap.signal "CONT"
        t.ok(fence_of(neap) > number)
        t.eq(list_of(neap), list_of(reef))
        change(bank, "remove", "home") -- itself
        t.reaches(function() return not bank:locks() end, "the end")
        t.fails("denied", group.join("bank", options_of(folder, "home")))
        t.ok(fence_of(flow) > number)
    end), timeout = 120},

    -- One was founded anew where a member of the other had been: neither tells the other anything.
    groups_of_one_name_are_told_apart_by_their_founders = t.in_folder(function(folder)
        local first = roll.first {"ebb", "flow", "reef"}
        local second = roll.with(roll.without(first, "reef"), "neap", "id")
        local old = members.digest("bank", 0, first, " 3")
        local new = members.digest("bank", 2, second, " 3")
        t.ok(members.is_older(old, new))
        t.ok(not members.is_older(new, old))
        t.ok(members.is_older(members.digest("bank", 1, roll.without(first, "reef"), " 3"), new))
        local other = roll.with(roll.first {"ebb", "reef"}, "flow", "id")
        t.ok(not members.is_older(old, members.digest("bank", 1, other, " 3")))
        t.ok(not members.is_older(members.digest("bank", 1, other, " 3"), new))

        roll.write(folder, {generation = 1, roll = other, bounds = {}})
        t.eq(t.ok(roll.read(folder)).roll, other)
        other.founders = nil
        roll.write(folder, {generation = 1, roll = other, bounds = {}})
        t.fails("corrupt", roll.read(folder))
        t.ok(select(2, roll.read(folder)):find("Restore", 1, true)) -- what to do about it
    end),

    what_cannot_be_is_said = t.in_folder(function(folder)
        local home <close> = peers.home()
        t.ok(group.found("bank", alone(folder)))
        local bank <close> = join("bank", alone(folder))
        t.raises("the name of a node", bank.group.add, bank.group, "Not One")
        t.fails("timeout", bank:add("flow", 0.01))
        t.ok(select(2, bank:add("flow", 0.01)):find("newcomer = true", 1, true))
        t.ok(bank:remove("flow", t.patience)) -- it is none
        t.fails("denied", bank:remove("home", t.patience))
        local options = alone(folder .. "/other")
        options.newcomer, options.timeout, options.members = true, 0.01, {"flow"}
        t.fails("timeout", group.join("other", options))
        t.fails("timeout", group.join("other", options)) -- the same newcomer
        options.newcomer = nil
        t.fails("nostate", group.join("other", options))
        t.ok(home)
    end),
}
