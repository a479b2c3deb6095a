-- SPDX-License-Identifier: MIT
-- Elections of a group, in the process behind its member (_group_host.lua). Each election has a
-- lock of its own. Its holder is the leader, and its fencing number is the epoch. So there is no
-- second leader before the first one's lease is over, and epochs only grow. The engine tells the
-- other members who leads. They forget the leader when it is down, or when they have no majority to
-- tell.
--
-- With an algorithm (_group_race.lua) only the candidate that the algorithm has chosen asks for the
-- lock. A candidate that is not chosen any more gives the lock back.
local LOCK = "\1election " -- programs cannot use this name

local elections = {}

local function tell(election)
    for channel in pairs(election.watchers) do
        while not channel:closed() and not channel:trysend(election.leader, election.epoch) do
            channel:tryreceive() -- drop the old state: only the latest counts
        end
    end
end

local function set(election, leader, epoch)
    if election.leader ~= leader or election.epoch ~= epoch then
        election.leader, election.epoch = leader, epoch
        tell(election)
    end
end

-- Asks for the lock like a process would. The answers to this "process" come back here.
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

local function stand_back(host, name, election)
    local candidate = election.candidate
    if not candidate then return end
    election.candidate = nil
    host:withdraw(LOCK .. name, function(who) return who == candidate end)
    if election.leader == host.here then
        set(election, false, election.epoch)
        host:retire(name, election.epoch)
    end
end

-- Forgets an election that no process here takes part in. Unless another member leads: then this
-- one must still hear the end of that.
local function forget_idle(host, name, election)
    if not next(election.watchers) and not election.candidate and not election.leader then
        host.elections[name] = nil
    end
end

local function withdraw(host, name, election)
    if not next(election.candidates) then
        if election.algorithm then host:stand_down(name, election) end
        stand_back(host, name, election)
    end
    forget_idle(host, name, election)
end

-- What is wrong with this way to elect, or nil.
local function objection(host, name, election, way)
    if next(election.candidates) and election.algorithm ~= way.algorithm then
        return ("election '%s' is by '%s' in this program, not by '%s'"):format(name,
            election.algorithm, way.algorithm)
    end
    return host:objects(way.algorithm)
end

--- A process joins an election. `channel` gets each change, and the present state first. `way` says
--- how it takes part: {stands =, algorithm =, worth =}.
function elections.join(host, channel, name, way, process)
    local election = election_of(host, name)
    local problem = way.stands and objection(host, name, election, way)
    if problem then
        channel:trysend(nil, problem, "denied")
        forget_idle(host, name, election)
        return channel:close()
    end
    election.watchers[channel] = process
    host:watch(process)
    channel:trysend(election.leader, election.epoch)
    if not way.stands then return end
    election.algorithm, election.worth = way.algorithm, way.worth
    election.candidates[channel] = true
    host:nominate(name, election)
    if way.algorithm == "first" and not election.candidate then stand(host, name, election) end
end

--- The algorithm has chosen this member (`here`), or another one.
function elections.nominated(host, name, election, here)
    if not here then
        stand_back(host, name, election)
    elseif not election.candidate then
        stand(host, name, election)
    end
end

--- Another member, which was there before, elects by another algorithm: this one is no candidate
--- any more.
function elections.refuse(host, name, election, from, algorithm)
    local message = ("election '%s' is by '%s' on member '%s', and by '%s' here"):format(name,
        algorithm, from, election.algorithm)
    for channel in pairs(election.candidates) do
        channel:trysend(nil, message, "denied")
        channel:close()
        election.watchers[channel], election.candidates[channel] = nil, nil
    end
    withdraw(host, name, election)
end

--- A process leaves an election.
function elections.leave(host, channel, name)
    local election = host.elections[name]
    if not election then return end
    election.watchers[channel], election.candidates[channel] = nil, nil
    withdraw(host, name, election)
end

--- A process has ended: it leaves all elections.
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

--- Another member says that it leads; or (`epoch` false) that it leads no more.
function elections.hear(host, from, name, epoch)
    local election = election_of(host, name)
    if epoch > election.epoch or (epoch == election.epoch and not (from and election.leader)) then
        set(election, from, epoch)
    end
end

--- The leader of this epoch leads no more, another member says.
function elections.drop(host, name, epoch)
    elections.hear(host, false, name, epoch)
    forget_idle(host, name, host.elections[name])
end

--- A member is down; or (nil) this one cannot tell any more who leads.
function elections.forget(host, member)
    for _, election in pairs(host.elections) do
        if election.leader and (not member or election.leader == member) then
            set(election, false, election.epoch)
        end
    end
end

return elections
