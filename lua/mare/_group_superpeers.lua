-- SPDX-License-Identifier: MIT
-- Superpeers of a group: a few members that all others turn to. This finds the one that this member
-- should ask. A machine of superpeer-dht or superpeer-tokens, under the lease of the member
-- (_group.lua), chooses it. A member that hears of one runs it, too: tokens need all members.
--
--     bank:superpeer {prefix = 3}  ──▶  "\4superpeer-dht 3"     by name: one for each of 2^3 parts
--     bank:superpeer {tokens = 8}  ──▶  "\4superpeer-tokens 8"  by place: eight, far apart
--
-- The choice counts only while this member and the chosen one both have a lease.
local mare, node = require "mare", require "mare.node"

local superpeers = {}

local MARK = "\4" -- programs cannot use this name
local MOST = {["superpeer-dht"] = 8, ["superpeer-tokens"] = 32}
local SIDE, EVERY_US = 1023, 1000000 -- a side of a machine's space; between looks at places

--- The name of a machine.
function superpeers.key(algorithm, count) return ("%s%s %d"):format(MARK, algorithm, count) end

-- The algorithm and the number in such a name; or nil.
local function parse(key)
    local algorithm, count = key:match "^\4(superpeer%-%a+) (%d%d?)$"
    count = math.tointeger(tonumber(count))
    local least = algorithm == "superpeer-tokens" and 1 or 0
    if not MOST[algorithm] or count < least or count > MOST[algorithm] then return nil end
    return algorithm, count
end

-- ---- Where they are -----------------------------------------------------------------------------

--- Fits the known places (by name) into a machine's cube. Members without a known place are in its
--- middle.
function superpeers.lay_out(host, known)
    local low, side = {}, 1e-9
    for i = 1, 3 do
        local least, most = math.huge, -math.huge
        for _, place in pairs(known) do
            least, most = math.min(least, place[i]), math.max(most, place[i])
        end
        low[i], side = least, math.max(side, most - least)
    end
    for peer, name in ipairs(host.names) do
        local place, at = known[name], {SIDE // 2, SIDE // 2, SIDE // 2}
        for i = 1, place and 3 or 0 do at[i] = math.floor((place[i] - low[i]) / side * SIDE) end
        host.member:_place(peer, at[1], at[2], at[3])
    end
end

-- Takes the places that heartbeats have found since the last time.
local function look_at_places(host)
    mare.go(function()
        local known = {}
        for _, one in ipairs(node.list() or {}) do known[one.name] = one.place end
        superpeers.lay_out(host, known)
    end):detach()
    host.timers:set("places", math.floor(mare.now() * 1e6) + EVERY_US,
        function() look_at_places(host) end)
end

-- ---- Machines -----------------------------------------------------------------------------------

--- Begins the machine of a name that was heard or asked for. Returns its record; nil: there is no
--- such machine.
function superpeers.begin(host, key)
    local known, algorithm, count = host.superpeers[key], parse(key)
    if known or not algorithm then return known end
    known = {waiting = {}}
    host.superpeers[key] = known
    if not host.timers:has "places" then look_at_places(host) end
    host:add(key, algorithm, nil, count)
    return known
end

--- The members have changed: begins all machines anew.
function superpeers.begin_anew(host)
    local before = host.superpeers
    host.superpeers = {}
    for key, known in pairs(before) do
        superpeers.begin(host, key).waiting = known.waiting
    end
end

-- The superpeer to ask now, or nil.
local function chosen(host, known)
    local peer = known.peer
    local here = peer and host.names[peer] == host.here
    return host:epoch() and peer and (here or not host.member:_down(peer)) and host.names[peer]
        or nil
end

--- Answers the callers for which there is a superpeer now.
function superpeers.answer(host)
    for _, known in pairs(host.superpeers) do
        local name = known.waiting[1] and chosen(host, known)
        for i = 1, name and #known.waiting or 0 do
            known.waiting[i]:trysend(name)
            known.waiting[i] = nil
        end
    end
end

--- A machine has chosen.
function superpeers.elected(host, key, peer)
    local known = host.superpeers[key]
    if not known then return false end
    known.peer = peer
    superpeers.answer(host)
    return true
end

--- A message of a machine.
function superpeers.hear(host, peer, key, epoch, data)
    if superpeers.begin(host, key) then host:step(key, "message", peer, 0, data, epoch) end
end

--- A process here wants to know its superpeer.
function superpeers.ask(host, reply, key)
    local known = superpeers.begin(host, key)
    table.insert(known.waiting, reply)
    superpeers.answer(host)
end

--- A caller stops waiting. It learns whether this member has a lease.
function superpeers.give_up(host, answer, key, reply)
    local waiting = host.superpeers[key] and host.superpeers[key].waiting or {}
    for i = #waiting, 1, -1 do
        if waiting[i] == reply then table.remove(waiting, i) end
    end
    answer:trysend(host:epoch() and "timeout" or "noquorum")
end

--- What bank:look() shows: a list of {algorithm =, count =, superpeer =}.
function superpeers.look(host)
    local list = {}
    for key, known in pairs(host.superpeers or {}) do
        local algorithm, count = parse(key)
        list[#list + 1] = {algorithm = algorithm, count = count, superpeer = chosen(host, known)}
    end
    table.sort(list, function(a, b)
        if a.algorithm ~= b.algorithm then return a.algorithm < b.algorithm end
        return a.count < b.count
    end)
    return list
end

return superpeers
