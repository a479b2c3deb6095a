-- SPDX-License-Identifier: MIT
-- The process behind a member of a group: it steps the lease and the locks (mare._party, the object
-- code that the simulator sweeps) with what arrives and with the time, and carries out what they
-- want done, in its order. So what is to be kept is on the disk before anybody hears of it.
--
--     other members ──▶ inbox ──┐                  ┌──▶ queue of each member ──▶ its inbox
--     processes here ─▶ requests ├──▶ step ──▶ act ─┼──▶ disk
--     the time ──────────────────┘                  └──▶ who waits for a lock, or has one
--
-- A member has one machine for each lock. Processes here that want the same one stand in a line of
-- their own; after each of them the others of the group have their turn.
local mare, party, state = require "mare", require "mare._party", require "mare._group_state"
local base, elections = require "mare._group_host", require "mare._group_election"

local QUEUE, PATIENCE = 256, 1 -- messages for a member that may be away; seconds for one of them
local LONGEST = 110 -- bytes of a name: 100, and what is before that of an election
local BEAT_US, RETRY_US = 300000, 50000 -- at the longest, however long the lease is
local AGAIN_US = 300000 -- between two announcements of a leader

local host = setmetatable({}, base)
host.__index = host

local function now_us() return math.floor(mare.now() * 1e6) end

-- ---- To others ----------------------------------------------------------------------------------

-- What cannot be sent now is lost: machines ask again.
local function deliver(self, queue, address)
    local channel
    for kind, lock, epoch, data in queue:messages() do
        channel = channel or mare.find(address, PATIENCE)
        if channel and not channel:sendwithin(PATIENCE, self.here, self.digest, kind, lock, epoch,
            data) then
            channel = nil
        end
    end
end

local function post(self, peer, effect)
    self.queues[peer]:trysend(effect.lock and "lock" or "lease", effect.lock, effect.epoch,
        effect.data)
end

-- ---- Effects ------------------------------------------------------------------------------------

local acts = {}

function acts.save(self, effect)
    local ok, message = state.save(self.folder, self.kept, effect.data)
    if not ok then error(message, 0) end -- it must not go on as if it were kept
end

function acts.send(self, effect) post(self, effect.peer, effect) end

function acts.broadcast(self, effect)
    for peer in pairs(self.queues) do post(self, peer, effect) end
end

local function timer_of(effect) return ("%d %s"):format(effect.timer, effect.lock or "") end

acts["set-timer"] = function(self, effect)
    self.timers[timer_of(effect)] = {due = now_us() + effect.number, effect = effect}
end

acts["cancel-timer"] = function(self, effect) self.timers[timer_of(effect)] = nil end

function acts.granted(self, effect)
    local lock = self.locks[effect.lock]
    lock.holder = table.remove(lock.line, 1)
    if not lock.holder then return self:leave(effect.lock) end
    lock.fence = effect.number
    lock.holder.reply:trysend(true, effect.number)
end

function acts.revoked(self, effect)
    local lock = self.locks[effect.lock]
    lock.asked = false
    if lock.holder then lock.holder.lost:trysend(effect.text) end
    lock.holder = nil
end

function acts.leased(self)
    for name in pairs(self.locks) do self:want(name) end
end

function acts.down(self, effect) elections.forget(self, self.names[effect.peer]) end

function acts.unleased(self) elections.forget(self) end

-- In their order, also those that come of carrying one out.
function host:act(effects)
    table.move(effects, 1, #effects, #self.pending + 1, self.pending)
    if self.acting then return end
    self.acting = true
    local i = 1
    while self.pending[i] do
        local effect = self.pending[i]
        self.pending[i], i = false, i + 1
        if acts[effect.what] then acts[effect.what](self, effect) end
    end
    self.pending, self.acting = {}, false
end

function host:step(...)
    local status, effects = self.member:_step(now_us(), ...)
    self:act(effects)
    return status
end

-- ---- Locks --------------------------------------------------------------------------------------

function host:lock(name)
    local lock = self.locks[name]
    if not lock then
        lock = {line = {}}
        self.locks[name] = lock
        local effects = self.member:_add(now_us(), name, self.saved)
        if not effects then error("what this member has saved is not of this group", 0) end
        self:act(effects)
    end
    return lock
end

-- Asks the others, if somebody here waits and nobody here has it. Refused without a lease: the next
-- one asks again.
function host:want(name)
    local lock = self.locks[name]
    if lock.line[1] and not lock.asked then
        lock.asked = true
        lock.asked = self:step(name, "enter") == "ok" and lock.asked
    end
end

-- Out, or no longer waiting; then the next one here.
function host:leave(name)
    local lock = self.locks[name]
    local word = lock.holder and "exit" or "abandon"
    lock.holder, lock.asked = nil, false
    if self:step(name, word) ~= "ok" then self:step(name, "exit") end
    self:want(name)
end

-- Takes somebody out of the line, or the lock away from it.
function host:withdraw(name, is_it)
    local lock = self.locks[name]
    if lock.holder and is_it(lock.holder) then return self:leave(name) end
    for i = #lock.line, 1, -1 do
        if is_it(lock.line[i]) then table.remove(lock.line, i) end
    end
    if lock.asked and not lock.holder and not lock.line[1] then self:leave(name) end
end

-- ---- Who leads, and who is in -------------------------------------------------------------------

--- The epoch of the lease, or false. What the time has done to it is found out first.
function host:epoch()
    local epoch, effects = self.member:_epoch(now_us())
    self:act(effects)
    return epoch
end

--- This member leads: it says so to the others, again and again.
function host:announce(name, election)
    if election.leader ~= self.here then return end
    for _, queue in pairs(self.queues) do queue:trysend("leader", name, election.epoch, "") end
    self.timers["leader " .. name] = {due = now_us() + AGAIN_US,
        run = function() self:announce(name, election) end}
end

--- Who leads is told by itself: see announce.
function host.attend() end

function host:members(tell)
    local epoch, list = self:epoch(), {}
    for i, name in ipairs(self.names) do
        local here = name == self.here
        local up = here and epoch or not here and epoch and not self.member:_down(i)
        list[i] = {name = name, here = here or nil,
            state = up and "up" or (here or epoch) and "down" or "unknown"}
    end
    tell(list)
end

-- ---- From others --------------------------------------------------------------------------------

function host:hear(from, digest, kind, lock, epoch, data)
    if self:asked(kind, lock) then return end
    local peer = digest == self.digest and self.numbers[from]
    if not peer or from == self.here or type(data) ~= "string" then return end
    if kind == "lease" then
        self:step(nil, "message", peer, 0, data)
    elseif kind == "lock" and type(lock) == "string" and #lock <= LONGEST
        and math.type(epoch) == "integer" then
        self:lock(lock)
        self:step(lock, "message", peer, 0, data, epoch)
    elseif kind == "leader" and type(lock) == "string" and math.type(epoch) == "integer" then
        elections.hear(self, from, lock, epoch)
    end
end

-- Steps what is due; returns how long nothing else is.
function host:pass_time()
    while true do
        local first
        for key, timer in pairs(self.timers) do
            if not first or timer.due < self.timers[first].due then first = key end
        end
        if not first then return 60 end
        local left = self.timers[first].due - now_us()
        if left > 0 then return left / 1e6 end
        local timer = self.timers[first]
        self.timers[first] = nil
        if timer.run then
            timer.run()
        else
            self:step(timer.effect.lock, "timer", nil, timer.effect.timer)
        end
    end
end

local function heard(self, which, ...)
    if which == 1 then self:hear(...) end
    if which == 2 then self:serve(...) end
end

local function run(self)
    self:step(nil, "start")
    while not self.over do
        heard(self, mare.select({self.inbox, self.requests}, self:pass_time()))
    end
end

-- ---- Its life -----------------------------------------------------------------------------------

local function make(settings, channel, inbox)
    local kept = settings.kept
    local self = setmetatable(base.fields(settings, channel, inbox), host)
    self.folder, self.kept, self.saved, self.numbers = settings.folder, kept, kept.saved, {}
    self.timers, self.pending, self.queues = {}, {}, {}
    for i, name in ipairs(self.names) do
        self.numbers[name] = i
        if name ~= self.here then
            local queue = mare.channel(QUEUE)
            self.queues[i] = queue
            mare.go(deliver, self, queue, ("%s@%s"):format(settings.inbox, name)):detach()
        end
    end
    self.member = party._member {members = #self.names, self = self.numbers[self.here],
        founds = kept.votes and 1 or 0, incarnation = kept.incarnation,
        first = kept.votes and kept.incarnation == 1 and 1 or 0, seed = kept.incarnation,
        lease_us = settings.lease_us, beat_us = math.min(settings.lease_us // 5, BEAT_US),
        drift_ppm = settings.drift_ppm, retry_us = math.min(settings.lease_us // 5, RETRY_US)}
    return self
end

return function(settings, channel, started)
    base.live(settings, channel, started, QUEUE, make, run)
end
