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
local elections = require "mare._group_election"

local QUEUE, PATIENCE = 256, 1 -- messages for a member that may be away; seconds for one of them
local LONGEST = 110 -- bytes of a name: 100, and what is before that of an election
local BEAT_US, RETRY_US = 300000, 50000 -- at the longest, however long the lease is

local host = {}
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

--- The same to all others, of what is no machine's.
function host:tell_all(kind, name, epoch, data)
    for _, queue in pairs(self.queues) do queue:trysend(kind, name, epoch, data) end
end

-- ---- Effects ------------------------------------------------------------------------------------

local acts = {}

function acts.save(self, effect)
    local ok, message = state.save(self.folder, effect.lock, effect.data)
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
        local effects = self.member:_add(now_us(), name, self.saved[name])
        if not effects then error(("what was kept of lock '%s' is damaged"):format(name), 0) end
        self.saved[name] = nil
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

-- Its end is told here.
function host:watch(process)
    if not self.watched[process] then
        self.watched[process] = true
        process:monitor(self.requests)
    end
end

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
    answer:trysend(self.member:_epoch(now_us()))
end

-- Whether it still has the lock: what the time has done to the lease is found out first.
function requests.check(self, reply, name, answer)
    local _, effects = self.member:_epoch(now_us())
    self:act(effects)
    local holder = self.locks[name].holder
    answer:trysend(holder and holder.reply == reply and self.locks[name].fence or false)
end

local function members_of(self)
    local epoch, effects = self.member:_epoch(now_us())
    self:act(effects)
    local list = {}
    for i, name in ipairs(self.names) do
        local here = name == self.here
        local up = here and epoch or not here and epoch and not self.member:_down(i)
        list[i] = {name = name, here = here or nil,
            state = up and "up" or (here or epoch) and "down" or "unknown"}
    end
    return list
end

local function locks_of(self)
    local list = {}
    for name, lock in pairs(self.locks) do
        local shown = name:gsub("^\1", "") -- that of an election
        list[#list + 1] = {name = shown, fence = lock.holder and lock.fence, waiting = #lock.line}
    end
    table.sort(list, function(a, b) return a.name < b.name end)
    return list
end

function requests.members(self, reply) reply:trysend(members_of(self)) end

function requests.locks(self, reply) reply:trysend(locks_of(self)) end

function requests.election(self, ...) elections.join(self, ...) end

function requests.resign(self, ...) elections.leave(self, ...) end

function requests.leave(self, reply) self.over = reply end

local function end_of(self, process)
    self.watched[process] = nil
    elections.ended(self, process)
    for name in pairs(self.locks) do
        self:withdraw(name, function(who) return who.process == process end)
    end
end

function host:serve(what, ...)
    if requests[what] then
        requests[what](self, ...)
    elseif getmetatable(what) == "process" then
        end_of(self, what)
    end
end

-- ---- From others --------------------------------------------------------------------------------

function host:hear(from, digest, kind, lock, epoch, data)
    if kind == "look" and getmetatable(lock) == "channel" then -- `mare group`: where to tell it
        lock:trysend {members = members_of(self), locks = locks_of(self)}
        return
    end
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
    local self = setmetatable({here = settings.here, names = settings.names, numbers = {},
        digest = settings.digest, folder = settings.folder, saved = kept.locks, locks = {},
        timers = {}, pending = {}, watched = {}, queues = {}, elections = {}, requests = channel,
        inbox = inbox}, host)
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

-- Whoever has a lock here is told, however this ends.
local function give_up(self, why)
    for _, lock in pairs(self.locks) do
        if lock.holder then lock.holder.lost:trysend(why) end
        for _, who in ipairs(lock.line) do who.reply:trysend(false, why) end
    end
end

return function(settings, channel, started)
    local inbox, message, code = mare.channel(QUEUE, settings.inbox)
    if not inbox then
        channel:close()
        return started:send(nil, message, code)
    end
    local self = make(settings, channel, inbox)
    started:send(true)
    local ok, problem = xpcall(run, debug.traceback, self)
    give_up(self, ok and "left" or "failed")
    inbox:close()
    channel:close()
    if not ok then error(problem, 0) end
    self.over:trysend(true) -- now it can be joined again
end
