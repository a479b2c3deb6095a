-- SPDX-License-Identifier: MIT
-- Chooses who shall lead by an algorithm: bully, ring or wireless. The algorithm is a machine under
-- the lease of the member (_group.lua). It only decides who asks for the election's lock
-- (_group_election.lua). So even if the machine is wrong, there is only one leader, and its epoch
-- is the lock's fencing number.
--
--     candidate ──▶ machine ── elected: this member ──▶ stands for the lock ──▶ leads
--                      └────── elected: another one ──▶ stands back
--
-- Only candidates have a machine. The other machines treat a member without one as down. A member
-- that gets a message for a machine that it does not have answers "absent". A member whose machine
-- begins says "present". A member that has another algorithm for the same election says which.
local elections = require "mare._group_election"

local race = {}

local MARK = "\3" -- programs cannot use this name
local FIRST = "first" -- the first to stand leads: that is the lock's own order, without a machine

local function key_of(algorithm, name) return MARK .. algorithm .. " " .. name end

-- The algorithm and the election in such a key.
local function parse(key) return key:match "^\3(%a+) (.*)$" end

--- This member becomes a candidate.
function race.begin(host, name, election)
    local key = key_of(election.algorithm, name)
    if host.races[key] then return end
    if election.algorithm ~= FIRST then
        host.races[key] = {name = name, election = election}
        host:add(key, election.algorithm, nil, election.worth)
    end
    host:tell_all("present", key, "")
end

--- This member is no candidate any more.
function race.stop(host, name, election)
    local key = key_of(election.algorithm, name)
    if not host.races[key] then return end
    host.races[key] = nil
    host:remove(key)
    host:tell_all("absent", key, "")
end

--- A machine has chosen a leader.
function race.elected(host, key, leader)
    local known = host.races[key]
    if known then elections.nominated(host, known.name, known.election, leader == host.here) end
end

-- The algorithm by which this member is a candidate in an election, or nil.
local function own_algorithm(host, name)
    local election = host.elections[name]
    return election and next(election.candidates) and election.algorithm
end

-- Whether this member uses another algorithm for the same election; then tells both.
local function differs(host, from, peer, key)
    local algorithm, name = parse(key)
    local own, dispute = own_algorithm(host, name), host.disputes[from]
    if not own or own == algorithm then
        if dispute and dispute.name == name then host.disputes[from] = nil end
        return false
    end
    host.disputes[from] = {name = name, algorithm = algorithm}
    host:tell_one(peer, "absent", key, own)
    return true
end

--- What is wrong with a member that elects by another algorithm than this one; or nil.
function race.dispute_with(host, member)
    local dispute = host.disputes[member]
    local own = dispute and own_algorithm(host, dispute.name)
    return own and own ~= dispute.algorithm and ("election '%s' is by '%s' on '%s', and by '%s' "
        .. "here"):format(dispute.name, dispute.algorithm, member, own) or nil
end

local function hear_absent(host, from, peer, key, data)
    local algorithm, name = parse(key)
    local election = host.elections[name]
    if host.races[key] then
        host.races[key][peer] = true
        host:step(key, "peer-down", peer)
    end
    if data ~= "" and election and election.algorithm == algorithm then
        elections.refuse(host, name, election, from, data)
    end
end

--- A message of a machine, or about one.
function race.hear(host, from, peer, kind, key, epoch, data)
    local known = host.races[key]
    if not parse(key) or kind ~= "absent" and differs(host, from, peer, key) then return end
    if kind == "absent" then
        hear_absent(host, from, peer, key, data)
    elseif known then
        if known[peer] then host:step(key, "peer-up", peer) end
        known[peer] = nil
        if kind == "race" then host:step(key, "message", peer, 0, data, epoch) end
    elseif kind == "race" then
        host:tell_one(peer, "absent", key, "")
    end
end

return race
