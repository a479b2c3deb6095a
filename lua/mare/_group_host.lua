-- SPDX-License-Identifier: MIT
-- What the process behind a member of a group does for the processes of its program, whatever the
-- engine is: they ask for locks, take part in elections, and want to know who is in. Locks of one
-- name have a line of those who wait here, in front of which one holds it.
--
-- An engine (_group.lua, _group_etcd.lua) adds: epoch(), of the lease that this member holds now,
-- or false; lock(name), the record of one; want(name), to have the first in line served;
-- withdraw(name, is_it); members(reply), which answers; attend(name, election) and announce(name,
-- election), for an election that is known here, and for one that is led from here.
local elections, time = require "mare._group_election", require "mare.time"

local host = {}
host.__index = host

--- The fields that every engine has.
function host.fields(settings, channel, inbox)
    return {here = settings.here, names = settings.names, digest = settings.digest, locks = {},
        elections = {}, watched = {}, requests = channel, inbox = inbox, settings = settings}
end

--- The end of the process is told here.
function host:watch(process)
    if not self.watched[process] then
        self.watched[process] = true
        process:monitor(self.requests)
    end
end

--- Whether this one has the lock, now.
function host:holds(lock, reply)
    return self:epoch() and lock and lock.holder and lock.holder.reply == reply
end

--- A list of {name =, fence =, waiting =}.
function host:list_locks()
    local list = {}
    for name, lock in pairs(self.locks) do
        local shown = name:gsub("[\1\2]", "") -- that of an election, or of a replica's
        list[#list + 1] = {name = shown, fence = lock.holder and lock.fence, waiting = #lock.line}
    end
    table.sort(list, function(a, b) return a.name < b.name end)
    return list
end

-- ---- What is asked for --------------------------------------------------------------------------

local requests = {}

function requests.lock(self, reply, name, lost, process)
    table.insert(self:lock(name).line, {reply = reply, lost = lost, process = process})
    self:watch(process)
    self:want(name)
end

function requests.release(self, reply, name)
    self:withdraw(name, function(who) return who.reply == reply end)
end

-- Who gives up learns whether it waited for another one, or for a majority.
function requests.drop(self, reply, name, answer)
    self:withdraw(name, function(who) return who.reply == reply end)
    answer:trysend(self:epoch())
end

-- Whether it still has the lock: what the time has done to the lease is found out first.
function requests.check(self, reply, name, answer)
    local lock = self.locks[name]
    answer:trysend(self:holds(lock, reply) and lock.fence or false)
end

function requests.members(self, reply)
    self:members(function(list) reply:trysend(list) end)
end

function requests.locks(self, reply) reply:trysend(self:list_locks()) end

function requests.election(self, ...) elections.join(self, ...) end

function requests.resign(self, ...) elections.leave(self, ...) end

function requests.epoch(self, reply) reply:trysend(self:epoch()) end

-- What a replica or a multicast of this group has to know.
function requests.settings(self, reply)
    local settings = self.settings
    local lost = settings.lost or settings.kept and not settings.kept.votes
    reply:trysend {names = self.names, here = self.here, digest = self.digest,
        folder = settings.folder or false, lost = lost or false,
        drift = settings.drift_ppm / 1e6}
end

function requests.leave(self, reply) self.over = reply end

local function end_of(self, process)
    self.watched[process] = nil
    elections.ended(self, process)
    for name in pairs(self.locks) do
        self:withdraw(name, function(who) return who.process == process end)
    end
end

--- What a process here has sent.
function host:serve(what, ...)
    if requests[what] then
        requests[what](self, ...)
    elseif getmetatable(what) == "process" then
        end_of(self, what)
    end
end

--- What another node asks, member or not: `mare group`, what is known here; the group's clock, what
--- the clock says here. Returns whether it was such a question.
function host:asked(kind, reply)
    if getmetatable(reply) ~= "channel" then return false end
    if kind == "look" then
        self:members(function(list) reply:trysend {members = list, locks = self:list_locks()} end)
    elseif kind == "clock" then
        reply:trysend((select(2, time.now())))
    end
    return true
end

--- Whoever has a lock here is told that this ends, and why.
function host:give_up(why)
    self.ended = true
    for _, lock in pairs(self.locks) do
        if lock.holder then lock.holder.lost:trysend(why) end
        for _, who in ipairs(lock.line) do who.reply:trysend(false, why) end
    end
    for _, election in pairs(self.elections) do
        for channel in pairs(election.watchers) do channel:close() end
    end
end

--- The engine has no more to do.
function host.stop() end

--- The whole life of a member: `make` returns it, `run` serves until it is over.
function host.live(settings, channel, started, queue, make, run)
    local inbox, message, code = require "mare".channel(queue, settings.inbox)
    if not inbox then
        channel:close()
        return started:send(nil, message, code)
    end
    local self = make(settings, channel, inbox)
    started:send(true)
    local ok, problem = xpcall(run, debug.traceback, self)
    self:give_up(ok and "left" or "failed")
    self:stop()
    inbox:close()
    channel:close()
    if not ok then error(problem, 0) end
    self.over:trysend(true) -- now it can be joined again
end

return host
