-- SPDX-License-Identifier: MIT
-- The part of a member's process that is the same for every engine. It serves the processes of this
-- program: they ask for locks, take part in elections, and want to know who is a member. Each lock
-- has a line of the processes here that wait for it; the first one in it may hold the lock.
--
-- An engine (_group.lua, _group_etcd.lua) adds these methods:
--   epoch()                     the epoch of the lease that this member holds now, or false
--   lock(name)                  the record of a lock
--   want(name)                  gets the lock for the first in line
--   withdraw(name, is_it)       takes a process out of the line
--   members(reply)              answers who is in
--   attend(name, election)      an election has become known here
--   announce(name, election)    this member leads it
--   nominate(name, election)    this member is a candidate
--   stand_down(name, election)  this member is no candidate any more
--   objects(algorithm)          why an election cannot use that algorithm
local elections, time = require "mare._group_election", require "mare.time"
local look = require "mare._group_look"

local host = {}
host.__index = host

--- The fields that every engine has.
function host.fields(settings, channel, inbox)
    return {here = settings.here, names = settings.names, digest = settings.digest, locks = {},
        elections = {}, watched = {}, followers = {}, requests = channel, inbox = inbox,
        settings = settings}
end

--- Watches a process: its end is told to this one.
function host:watch(process)
    if not self.watched[process] then
        self.watched[process] = true
        process:monitor(self.requests)
    end
end

--- Whether this caller has the lock now.
function host:holds(lock, reply)
    return self:epoch() and lock and lock.holder and lock.holder.reply == reply
end

-- ---- What is asked for --------------------------------------------------------------------------

local requests = {}

function requests.lock(self, reply, name, process, algorithm)
    local lock = self:lock(name)
    local its = lock.algorithm or "etcd"
    if lock.damage then return reply:trysend(nil, lock.damage, "corrupt") end
    if algorithm and algorithm ~= its then
        local how = algorithm == "etcd" and "engine = {\"etcd\", …}"
            or ("algorithm = {[\"%s\"] = \"%s\"}"):format(name, algorithm)
        return reply:trysend(nil, ("lock '%s' is by '%s', not by '%s': name it when you join, %s")
            :format(name, its, algorithm, how), "denied")
    end
    table.insert(lock.line, {reply = reply, lost = reply, process = process})
    self:watch(process)
    self:want(name)
end

function requests.release(self, reply, name)
    self:withdraw(name, function(who) return who.reply == reply end)
end

-- A caller gives up. It learns whether it waited for another holder, or for a majority, and why
-- there is none if that is known.
function requests.drop(self, reply, name, answer)
    self:withdraw(name, function(who) return who.reply == reply end)
    local trouble = self:trouble(name)
    answer:trysend(not trouble and self:epoch(), trouble)
end

-- Whether the caller still has the lock. The engine first checks whether the lease has run out.
function requests.check(self, reply, name, answer)
    local lock = self.locks[name]
    answer:trysend(self:holds(lock, reply) and lock.fence or false)
end

function requests.members(self, reply)
    self:members(function(list) reply:trysend(list) end)
end

function requests.locks(self, reply) reply:trysend(look.locks(self, true)) end

function requests.look(self, reply) look.tell(self, function(known) reply:trysend(known) end) end

function requests.election(self, ...) elections.join(self, ...) end

function requests.resign(self, ...) elections.leave(self, ...) end

function requests.epoch(self, reply) reply:trysend(self:epoch()) end

--- The settings of this group that a replica or a multicast needs.
function host:log_settings()
    local settings, list = self.settings, self.list
    local lost = settings.lost or settings.kept and not settings.kept.votes
    return {names = self.names, voters = settings.voters, here = self.here, digest = self.digest,
        folder = settings.folder or false, lost = lost or false, drift = settings.drift_ppm / 1e6,
        clock = settings.clock,
        generation = list and list.generation or 0, slots = list and list.roll.slots,
        former = list and list.roll.former}
end

function requests.settings(self, reply) reply:trysend(self:log_settings()) end

-- Notes the process of a log, to tell it of later settings. It may have begun with earlier ones.
function requests.follow(self, channel, process, title, requests_of_it)
    self.followers[channel] = {process = process, title = title, requests = requests_of_it}
    self:watch(process)
    channel:trysend(self:log_settings())
end

function requests.change(self, ...) self:change(...) end

function requests.unchange(self, answer, reply) self:unchange(answer, reply) end

function requests.superpeer(self, reply, key) self:superpeer(reply, key) end

function requests.nosuperpeer(self, answer, key, reply) self:no_superpeer(answer, key, reply) end

function requests.leave(self, reply) self.over = reply end

local function end_of(self, process)
    self.watched[process] = nil
    for channel, log in pairs(self.followers) do
        if log.process == process then self.followers[channel] = nil end
    end
    elections.ended(self, process)
    self:unchange_for(process)
    for name in pairs(self.locks) do
        self:withdraw(name, function(who) return who.process == process end)
    end
end

--- Serves a request of a process here.
function host:serve(what, ...)
    if requests[what] then
        requests[what](self, ...)
    elseif getmetatable(what) == "process" then
        end_of(self, what)
    end
end

--- The sender of a message, and the rest of the message; or nothing. The sender's node has proved
--- the first name (mare._node._box). The second is the name that the message gives, or "" if it
--- gives none.
function host.sender(proved, said, ...)
    if proved and (said == proved or said == "") then return proved, ... end
end

--- A question of another node, which need not be a member. `mare group` asks what is known here;
--- the group's clock asks for the time here. Returns whether it was such a question.
function host:asked(kind, reply)
    if getmetatable(reply) ~= "channel" then return false end
    if kind == "look" then
        requests.look(self, reply)
    elseif kind == "clock" then
        reply:trysend((select(2, time.now())))
    end
    return true
end

--- Tells each holder of a lock here that it has lost it, and why.
function host:give_up(why)
    self.ended = true
    for _, lock in pairs(self.locks) do
        if lock.holder then lock.holder.lost:trysend(why) end
    end
end

--- Ends the waits of all others. By then they may join again.
function host:end_waits(why)
    for _, lock in pairs(self.locks) do
        for _, who in ipairs(lock.line) do who.reply:trysend(false, why) end
    end
    for _, election in pairs(self.elections) do
        for channel in pairs(election.watchers) do channel:close() end
    end
    for _, known in pairs(self.superpeers or {}) do
        for _, reply in ipairs(known.waiting) do reply:close() end
    end
    for _, one in ipairs(self.changes or {}) do one.reply:close() end
end

--- Defaults for engines that have nothing to do here. trouble: why nobody will get this lock, if
--- known. retire: tells the others that an election has no leader any more, after one here has
--- resigned.
function host.trouble() end

function host.retire() end

--- With a cluster of etcd the list of members is not fixed: whoever joins is in.
function host.change(_, reply)
    reply:trysend(false, "with etcd a node is a member from join to leave: it cannot be "
        .. "added or removed", "denied")
end

function host.unchange(_, answer) answer:trysend "timeout" end

function host.unchange_for() end

--- With a cluster of etcd members have no numbers or places.
function host.superpeer(_, reply)
    reply:trysend(false, "with etcd a group has no superpeers", "denied")
end

function host.no_superpeer(_, answer) answer:trysend "timeout" end

--- Ends the engine's own work.
function host.stop() end

-- Nobody reads this channel any more. Callers that wait for an answer find theirs closed.
local function refuse_rest(channel)
    for _, first, _, third in channel:messages() do
        if getmetatable(first) == "channel" then first:close() end
        if getmetatable(third) == "channel" then third:close() end
    end
end

--- The whole life of a member: `make` makes it, `run` serves until it is over.
function host.live(settings, channel, started, make, run)
    local function fail(...)
        channel:close()
        if settings.held then settings.held:close() end
        return started:send(nil, ...)
    end
    local inbox <close> = settings.box -- its name is free again, also if this is killed
    local self, message, code = make(settings, channel, inbox)
    if not self then
        inbox:close()
        return fail(message, code)
    end
    started:send(true)
    local ok, problem
    do
        local _ <close> = setmetatable({}, {__close = function() -- runs also if killed
            local why = ok and "left" or "failed"
            self:give_up(why)
            self:stop()
            if settings.held then settings.held:close() end -- another may use it from here on
            inbox:close()
            channel:close() -- a caller that finds it closed may join again
            self:end_waits(why)
            refuse_rest(channel)
        end})
        ok, problem = xpcall(run, debug.traceback, self)
    end
    if not ok then error(problem, 0) end
    self.over:trysend(true) -- the group can be joined again
end

return host
