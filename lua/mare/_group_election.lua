-- SPDX-License-Identifier: MIT
-- Elections of a group, in the process behind its member (_group_host.lua). Who leads is who holds
-- a lock that is the election's own, and the epoch is its fencing number: so there is no second
-- leader before the lease of the first is over, and epochs only grow. The others hear of it by the
-- engine, and forget it when it is down, or when they cannot tell any more.
local LOCK = "\1election " -- no name that a program can give

local elections = {}

local function tell(election)
    for channel in pairs(election.watchers) do
        while not channel:closed() and not channel:trysend(election.leader, election.epoch) do
            channel:tryreceive() -- the latest is what counts
        end
    end
end

local function set(election, leader, epoch)
    if election.leader ~= leader or election.epoch ~= epoch then
        election.leader, election.epoch = leader, epoch
        tell(election)
    end
end

-- Stands in the line for the lock, as a process would: what it is told comes back here.
local function stand(host, name, election)
    local candidate = {process = false}
    election.candidate = candidate
    candidate.reply = {trysend = function(_, ok, fence)
        if not ok then return end
        set(election, host.here, fence)
        host:announce(name, election)
    end}
    candidate.lost = {trysend = function()
        set(election, false, election.epoch)
        local again = election.candidate == candidate and not host.ended
        if again then stand(host, name, election) end
    end}
    table.insert(host:lock(LOCK .. name).line, candidate)
    host:want(LOCK .. name)
end

local function election_of(host, name)
    local election = host.elections[name]
    if not election then
        election = {watchers = {}, leader = false, epoch = 0, candidates = {}}
        host.elections[name] = election
        host:attend(name, election)
    end
    return election
end

local function withdraw(host, name, election)
    local candidate = election.candidate
    if not candidate or next(election.candidates) then return end
    election.candidate = nil
    host:withdraw(LOCK .. name, function(who) return who == candidate end)
    if election.leader == host.here then set(election, false, election.epoch) end
end

--- A process takes part: `channel` is told of each change, the present state first.
function elections.join(host, channel, name, stands, process)
    local election = election_of(host, name)
    election.watchers[channel] = process
    if stands then election.candidates[channel] = true end
    host:watch(process)
    channel:trysend(election.leader, election.epoch)
    if stands and not election.candidate then stand(host, name, election) end
end

--- It takes part no more.
function elections.leave(host, channel, name)
    local election = election_of(host, name)
    election.watchers[channel], election.candidates[channel] = nil, nil
    withdraw(host, name, election)
end

--- A process has ended, and with it all that it took part in.
function elections.ended(host, process)
    for name, election in pairs(host.elections) do
        for channel, whose in pairs(election.watchers) do
            if whose == process then
                election.watchers[channel], election.candidates[channel] = nil, nil
            end
        end
        withdraw(host, name, election)
    end
end

--- Another member leads, as it says; or (false) it does no more.
function elections.hear(host, from, name, epoch)
    local election = election_of(host, name)
    if epoch > election.epoch or (epoch == election.epoch and not (from and election.leader)) then
        set(election, from, epoch)
    end
end

--- A member is down, or (nil) nobody can tell any more who leads.
function elections.forget(host, member)
    for _, election in pairs(host.elections) do
        if election.leader and (not member or election.leader == member) then
            set(election, false, election.epoch)
        end
    end
end

return elections
