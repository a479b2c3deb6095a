-- SPDX-License-Identifier: MIT
-- The process behind a member of a group whose engine is a cluster of etcd (_group_host.lua has
-- what it does for its program). All keys of the group are below mare/group/NAME/:
--
--     member/NODE     under the lease of this member: it is in, and may act
--     lock/…          as mare.etcd has them, each wait a routine of its own
--     election/…      the same, with the name of the node as the value
--
-- The client of etcd renews the lease. If the lease has run out by the client's own clock, this
-- member has lost all that it held: that is before the cluster gives it to anybody else.
local mare, etcd = require "mare", require "mare.etcd"
local base, elections = require "mare._group_host", require "mare._group_election"

local PAUSE = 0.05 -- seconds before a cluster that did not answer is asked again

local host = setmetatable({}, base)
host.__index = host

--- The number of the client's lease. What is held under it is held while the lease lives.
function host:epoch()
    local lease = self.db.shared
    return lease and lease:alive() and lease:id() or false
end

function host:holds(lock, reply)
    return lock and lock.holder and lock.holder.reply == reply and lock.holder.lock:held()
end

-- ---- Locks --------------------------------------------------------------------------------------

function host:lock(name)
    local lock = self.locks[name]
    if not lock then
        lock = {line = {}}
        self.locks[name] = lock
    end
    return lock
end

-- Forgets a lock that nobody here has or wants.
local function tidy(self, name, lock)
    if self.locks[name] == lock and not lock.holder and not lock.line[1] then
        self.locks[name] = nil
    end
end

local function ask(self, name)
    local election = name:match "^\1election (.*)$"
    if election then return self.db:election(election):campaign(self.here) end
    return self.db:lock(name, nil, {value = self.here})
end

local function remove(list, item)
    for i, one in ipairs(list) do
        if one == item then return table.remove(list, i) end
    end
end

-- Holds the lock until it is given back or lost.
local function hold(self, name, who, lock)
    local record = self:lock(name)
    remove(record.line, who)
    who.lock, record.holder, record.fence = lock, who, lock:fence()
    if not record.fence then who.over = true else who.reply:trysend(true, record.fence) end
    mare.select {lock, who.done}
    if record.holder == who then record.holder = nil end
    tidy(self, name, record)
    if who.over then lock:unlock() else who.lost:trysend "noquorum" end
end

-- Waits for the lock, however often the cluster does not answer or the lease ends meanwhile.
local function stand(self, name, who)
    while not who.over do
        local lock = ask(self, name)
        if lock and not who.over and lock:held() then return hold(self, name, who, lock) end
        if lock then lock:unlock() end
        if not who.over then mare.sleep(PAUSE) end
    end
end

--- Each process that waits here has its own place in the cluster's line.
function host:want(name)
    for _, who in ipairs(self.locks[name].line) do
        if not who.routine then
            who.done = mare.channel()
            who.routine = mare.go(stand, self, name, who)
            who.routine:detach()
        end
    end
end

local function give_back(who)
    who.over = true
    who.done:close()
    if not who.lock then who.routine:cancel() end
end

function host:withdraw(name, is_it)
    local lock = self.locks[name]
    if not lock then return end
    if lock.holder and is_it(lock.holder) then give_back(lock.holder) end
    for i = #lock.line, 1, -1 do
        if is_it(lock.line[i]) then give_back(table.remove(lock.line, i)) end
    end
    tidy(self, name, lock)
end

-- ---- Who leads, and who is in -------------------------------------------------------------------

--- Nothing to do: the key of the leader tells who it is.
function host.announce() end

function host.objects(_, algorithm)
    return algorithm ~= "first"
        and ("a cluster of etcd elects who stood first, not by '%s'"):format(algorithm) or nil
end

function host.nominate() end

function host.stand_down() end

-- Follows every change of leader while this lease lasts. What the cluster says of this node is
-- known already, or is about an earlier life.
local function follow(self, name, lease)
    while self.lease == lease and lease:alive() do
        pcall(function()
            for leader, epoch in self.db:election(name):changes() do
                if self.lease ~= lease then return end
                if leader ~= self.here then elections.hear(self, leader, name, epoch or 0) end
            end
        end)
        if self.lease == lease then mare.sleep(PAUSE) end
    end
end

function host:attend(name)
    if not self.lease then return end
    local routine = mare.go(follow, self, name, self.lease)
    routine:detach()
    self.hearing[routine] = true
end

-- Keeps this member in the group as long as the lease lasts.
local function be_in(self, lease)
    self.lease = lease
    for name in pairs(self.elections) do self:attend(name) end
    mare.select {lease}
    self.lease = nil
    for routine in pairs(self.hearing) do routine:cancel() end
    self.hearing = {}
    elections.forget(self)
end

-- Gets a lease, and a new one whenever it is lost.
local function keep(self)
    while not self.over do
        local lease = self.db:session(self.db:deadline())
        local put = lease and self.db:put(self.line .. self.here, "", {lease = lease})
        if put then be_in(self, lease) else mare.sleep(PAUSE) end
    end
end

local function list_members(self)
    local listed = self:epoch() and self.db:list(self.line, {keys_only = true})
    local here, names, list = self.here, {}, {}
    for _, name in ipairs(self.names) do names[name] = listed and "down" or "unknown" end
    for _, item in ipairs(listed or {}) do names[item.key:match "/([^/]*)$"] = "up" end
    names[here] = self:epoch() and "up" or "down"
    for name, state in pairs(names) do
        list[#list + 1] = {name = name, state = state, here = name == here or nil}
    end
    table.sort(list, function(a, b) return a.name < b.name end)
    return list
end

--- Asks the cluster, so the answer comes later.
function host:members(tell)
    mare.go(function() tell(list_members(self)) end):detach()
end

-- ---- Its life -----------------------------------------------------------------------------------

local function make(settings, channel, inbox)
    local self = setmetatable(base.fields(settings, channel, inbox), host)
    self.hearing = {} -- routines, one for each election
    self.db = etcd.client(settings.endpoints, settings.client)
    self.line = settings.client.prefix .. "member/"
    return self
end

local function heard(self, which, ...)
    if which == 2 then return self:serve(...) end
    local _, _, kind, reply = host.sender(...)
    self:asked(kind, reply)
end

local function run(self)
    mare.go(keep, self):detach()
    while not self.over do heard(self, mare.select {self.inbox, self.requests}) end
end

--- All that is held is lost now: this gives the lease back, and with it all keys under it.
function host:stop() self.db:close() end

return function(settings, channel, started)
    base.live(settings, channel, started, make, run)
end
