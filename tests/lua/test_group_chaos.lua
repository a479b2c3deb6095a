-- SPDX-License-Identifier: MIT
-- A group of real programs to which whatever can happen does (group_world.lua), over loopback and
-- in network namespaces, and the history of which is checked when it is over (group_history.lua).
-- For seconds here, for as long as one likes by make chaos.
local mare, t = require "mare", require "t"
local history, wires = require "group_history", require "wires"
local group_world = require "group_world"

local LONG = tonumber(os.getenv "MARE_CHAOS_SECONDS")
local SECONDS = LONG or 3
local ALL = {"a", "b", "c", "d", "e", "f", "g", "h", "i"}

local function names(count) return table.move(ALL, 1, count, 1, {}) end

-- One fault, or two at a time, and the end of them after a while.
local function trouble(world, kinds, round)
    local ends, hit = {}, {}
    for n = 1, math.random(2) do
        local kind = (LONG or n > 1) and kinds[math.random(#kinds)] or kinds[round % #kinds + 1]
        local i = math.random(#world.names)
        -- A wire can fail beside anything else; a program fails in one way at a time.
        local whose = (group_world.of_one[kind] and i) or (kind == "restart_all" and "all")
        if not whose or not (hit.all or hit[i] or whose == "all" and next(hit)) then
            if whose then hit[whose] = true end
            ends[#ends + 1] = group_world.faults[kind](world, i)
        end
    end
    mare.sleep(math.random() * 3 * world.lease)
    for _, over in ipairs(ends) do over() end
end

-- Each plants something that whoever looks must see. Returns whether there was anything to spoil.
local plants = {}

plants["holds it by number"] = function(h) -- one that comes too late
    table.sort(h.grants, function(a, b) return a.fence < b.fence end)
    local first, last = h.grants[1], h.grants[#h.grants]
    if not first or first.fence == last.fence then return false end
    table.insert(h.grants, {who = first.who, fence = first.fence, began = last.ended + 1,
        ended = last.ended + 2})
    return true
end

plants["both lead in epoch"] = function(h)
    for _, one in ipairs(h.news) do
        if one.leader then
            table.insert(h.news, {who = "z/0", leader = "z", epoch = one.epoch})
            return true
        end
    end
end

plants["was told to be at"] = function(h) -- acknowledged, and lost
    for _, one in ipairs(h.appends) do
        local seen = false -- what nobody has read, the answer alone says
        for _, read in ipairs(one.at and h.reads or {}) do
            local i = one.at - read.base
            if read.list[i] then read.list[i], seen = "another", true end
        end
        if seen then return true end
    end
end

plants["list %d+"] = function(h) -- one message was not delivered to one member
    for _, list in ipairs(h.lists) do
        local count, second = {}, {}
        for i, value in ipairs(list) do
            local sender = value:match "^%S+"
            count[sender] = (count[sender] or 0) + 1
            if count[sender] == 2 then second[sender] = i end
            if count[sender] == 3 then return table.remove(list, second[sender]) ~= nil end
        end
    end
end

-- The history is a good one; and if something is planted in it, it is not.
local function check(world, rounds)
    local stories = world:finish()
    local told = history.read(stories)
    local locks, leaders, list, heard = history.check(told)
    print(("# %d rounds of faults: %d grants, %d leaders heard of, %d operations, %d deliveries, "
        .. "%d members replaced"):format(rounds, locks, leaders, list, heard, told.added))
    t.ok(locks + leaders + list + heard > 0) -- how much depends on the machine
    for message, plant in pairs(plants) do
        local h = history.read(stories)
        if plant(h) then t.raises(message, history.check, h) end
    end
end

local function chaos(folder, options, kinds)
    t.seed()
    local world <close> = group_world.new(folder, options)
    world:go_on(50)
    local deadline, round = mare.deadline(SECONDS), math.random(#kinds)
    local first = round
    repeat
        trouble(world, kinds, round)
        world:go_on(60)
        round = round + 1
    until deadline:left() == 0
    check(world, round - first)
end

local function in_namespaces(count, lease)
    return {t.in_folder(function(folder)
        local hosts <close> = wires.start(count)
        chaos(folder, {names = names(count), lease = lease * t.slow, wires = hosts},
            {"split", "one_way", "freeze", "delay", "restart", "lossy", "cut", "half_wires",
                "lose_disk", "restart_all"})
    end), timeout = 240 + 2 * SECONDS}
end

return {
    whatever_fails_the_history_is_one_that_was_promised = {t.in_folder(function(folder)
        chaos(folder, {names = names(LONG and 5 or 3), lease = 0.4 * t.slow},
            {"freeze", "restart", "cut", "freeze", "cut", "restart_all", "lose_disk"})
    end), timeout = 240 + 2 * SECONDS},

    members_are_replaced = {t.in_folder(function(folder)
        chaos(folder, {names = names(LONG and 5 or 3), lease = 0.4 * t.slow},
            {"replace", "freeze", "replace", "restart", "replace", "cut", "restart_all"})
    end), timeout = 240 + 2 * SECONDS},

    -- More members, more work for this machine: their leases are longer.
    three_in_namespaces = in_namespaces(3, 0.4),
    five_in_namespaces = in_namespaces(5, 0.6),
    nine_in_namespaces = in_namespaces(9, 1),
}
