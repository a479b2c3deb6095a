-- SPDX-License-Identifier: MIT
-- What a large group costs its members while it does nothing. The machines of all members run here,
-- in a time that is made up, with the settings that live members give them.
local party, members, t = require "mare._party", require "mare._group_members", require "t"

local LEASE_US, BEGIN_US = 3000000, 1000000 -- the default; all have a lease by then

-- One member's machine, as _group.lua makes it.
local function make(names, numbers, here)
    local self = {names = names, numbers = numbers, here = here, list = {generation = 0},
        settings = {lease_us = LEASE_US, drift_ppm = 1000}, kept = {votes = true, incarnation = 1}}
    local member = party._member(members.setup(self))
    for peer = members.keepers(self) + 1, #names do
        if names[peer] ~= here then member:_step(0, nil, "join", peer) end
    end
    return {machine = member, timers = {}, received = 0,
        keeps = numbers[here] <= members.keepers(self)}
end

local function new_group(count)
    local names, numbers, group = {}, {}, {now = 1}
    for i = 1, count do
        names[i] = ("m%03d"):format(i)
        numbers[names[i]] = i
    end
    for i = 1, count do group[i] = make(names, numbers, names[i]) end
    return group
end

local function deliver(group, from, to, data)
    if to == from or group[to].frozen then return end
    group[to].received = group[to].received + 1
    group.step(to, "message", from, 0, data)
end

-- Steps the lease of a member. What it sends arrives at once.
local function run_step(group, i, ...)
    local member = group[i]
    local _, effects = member.machine:_step(group.now, nil, ...)
    for _, effect in ipairs(effects) do
        if effect.what == "set-timer" then
            member.timers[effect.timer] = group.now + effect.number
        elseif effect.what == "cancel-timer" then
            member.timers[effect.timer] = nil
        elseif effect.what == "send" then
            deliver(group, i, effect.peer, effect.data)
        elseif effect.what == "broadcast" then
            for to = 1, #group do deliver(group, i, to, effect.data) end
        end
    end
end

local function begin(group)
    group.step = function(...) run_step(group, ...) end
    for _, member in ipairs(group) do member.frozen = true end
    for i = 1, #group do -- nobody hears anybody before all have begun
        group.now = group.now + 1
        group.step(i, "start")
    end
    for _, member in ipairs(group) do member.frozen = nil end
end

-- The next timer of all members that is due until then.
local function next_timer(group, till)
    local who, which, at = nil, nil, till
    for i, member in ipairs(group) do
        for timer, due in pairs(member.timers) do
            if due < at and not member.frozen then who, which, at = i, timer, due end
        end
    end
    group.now = math.max(group.now, at)
    return who, which
end

local function pass(group, microseconds)
    local till = group.now + microseconds
    for who, which in function() return next_timer(group, till) end do
        group[who].timers[which] = nil
        group.step(who, "timer", nil, which)
    end
end

-- Messages a second: the most that one of the members that keep the lease, or do not, is sent; and
-- of all members the mean.
local function rates(count, seconds)
    local group = new_group(count)
    begin(group)
    pass(group, BEGIN_US)
    for _, member in ipairs(group) do
        t.ok(member.machine:_epoch(group.now))
        member.received = 0
    end
    pass(group, seconds * 1000000)
    local most, sum = {[true] = 0, [false] = 0}, 0
    for _, member in ipairs(group) do
        t.ok(member.machine:_epoch(group.now))
        most[member.keeps] = math.max(most[member.keeps], member.received / seconds)
        sum = sum + member.received / seconds
    end
    return most[false], sum / count, most[true]
end

return {
    a_hundred_members_that_do_nothing_say_little = {function()
        local others, mean = rates(100, 3)
        t.ok(others > 0 and others <= 20, others)
        t.ok(mean <= 20, mean)
    end, timeout = 240},

    -- It does not grow with the members, but for those few that keep the lease.
    what_one_is_sent_does_not_depend_on_how_many_there_are = {function()
        local of_many, _, keeper_of_many = rates(60, 3)
        local of_few, _, keeper_of_few = rates(20, 3)
        t.eq(of_many, of_few)
        t.ok(keeper_of_many < 4 * keeper_of_few, keeper_of_many)
    end, timeout = 240},

    in_a_small_group_all_keep_the_lease = function()
        local others, _, keeper = rates(5, 3)
        t.eq(others, 0)
        t.eq(keeper, 2 * 4 / 0.3)
    end,

    who_stands_still_is_down_for_all_and_up_again = {function()
        local group = new_group(20)
        begin(group)
        pass(group, BEGIN_US)
        for _, who in ipairs {20, 1} do -- one of many, and one that keeps the lease
            group[who].frozen = true
            pass(group, LEASE_US + 2 * BEGIN_US)
            for i, member in ipairs(group) do
                if i ~= who then t.ok(member.machine:_down(who), i) end
            end
            group[who].frozen = nil
            pass(group, 2 * LEASE_US)
            for i, member in ipairs(group) do
                t.ok(member.machine:_epoch(group.now), i)
                t.ok(not member.machine:_down(who), i)
            end
        end
    end, timeout = 240},

    without_most_of_those_who_keep_it_nobody_has_a_lease = function()
        local group = new_group(20)
        begin(group)
        pass(group, BEGIN_US)
        for i = 1, 3 do group[i].frozen = true end
        pass(group, 2 * LEASE_US)
        for i = 4, 20 do t.ok(group[i].machine:_epoch(group.now), i) end
        group[4].frozen = true
        pass(group, LEASE_US)
        for i = 5, 20 do t.ok(not group[i].machine:_epoch(group.now), i) end
        for i = 1, 4 do group[i].frozen = nil end
        pass(group, 2 * LEASE_US)
        for i = 1, 20 do t.ok(group[i].machine:_epoch(group.now), i) end
    end,
}
