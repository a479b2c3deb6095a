-- SPDX-License-Identifier: MIT
-- The process behind a member of a group. It steps the machines of the lease and the locks
-- (mare._party, the same object code that the simulator tests) when something arrives and when time
-- has passed. Then it carries out their effects in order. So what must be kept is on the disk
-- before anybody hears of it.
--
--     other members ──▶ inbox ──┐                  ┌──▶ outbox of each member ─▶ its inbox
--     processes here ─▶ requests ├──▶ step ──▶ act ─┼──▶ disk
--     the time ──────────────────┘                  └──▶ who waits for a lock, or has one
--
-- A member has one machine for each lock. All members name the lock's algorithm when they join. A
-- member that names another one has another digest, and the two do not listen to each other.
-- Processes of this program that want the same lock stand in a line here; after each of them the
-- other members have their turn.
local mare, party, state = require "mare", require "mare._party", require "mare._group_state"
local base, elections = require "mare._group_host", require "mare._group_election"
local race, members = require "mare._group_race", require "mare._group_members"
local outbox, timers = require "mare._group_outbox", require "mare._group_timers"
local superpeers = require "mare._group_superpeers"

local PATIENCE = 1 -- seconds to tell a stranger
local TIMERS = 8 -- of a machine, at most
local DIGITS = {[0] = "0 ", "1 ", "2 ", "3 ", "4 ", "5 ", "6 ", "7 "} -- a timer's key: and its lock
local IDLE = 256 -- locks that are kept although nobody wants them any more
local FORGETS = {majority = true, central = true, ricart = true}
local STRANGERS = 100 -- members with other settings that are remembered
local LONGEST = 110 -- bytes of a name: 100, and the prefix of an election
local AGAIN_US = 300000 -- between two announcements of a leader
local SILENCE_US = 30000000 -- a leader that was not announced for so long does not count

local host = setmetatable({}, base)
host.__index = host

local function now_us() return math.floor(mare.now() * 1e6) end

-- ---- To others ----------------------------------------------------------------------------------

-- The lease has an outbox of its own: all locks need it, so many of their messages must not delay
-- it.
local function post(self, peer, effect)
    local kind = not effect.lock and "lease" or self.races[effect.lock] and "race"
        or self.superpeers[effect.lock] and "superpeer" or "lock"
    local box = effect.lock and self.outboxes[peer] or self.leases[peer]
    box:send(kind, effect.lock, effect.epoch, effect.data)
end

--- Says something to one other member, or to all, without a machine.
function host:tell_one(peer, kind, name, data) self.outboxes[peer]:send(kind, name, 0, data) end

function host:tell_all(...)
    for peer in pairs(self.outboxes) do self:tell_one(peer, ...) end
end

-- Whether messages to all others wait unsent: then nothing is repeated.
local function is_busy(self)
    for _, box in pairs(self.outboxes) do
        if not box:busy() then return false end
    end
    return next(self.outboxes) ~= nil
end

-- ---- Effects ------------------------------------------------------------------------------------

local acts = {}

function acts.save(self, effect)
    local ok, message
    if effect.algorithm == "majority" then
        ok, message = state.save(self.folder, self.kept, effect.data)
    elseif effect.algorithm == "voting" then
        ok, message = state.save_lock(self.folder, effect.lock, effect.data)
    else
        self.more[effect.algorithm] = effect.data
        ok, message = state.save_more(self.folder, self.more)
    end
    if not ok then error(message, 0) end -- it must not go on as if that were kept
end

function acts.send(self, effect) post(self, effect.peer, effect) end

function acts.broadcast(self, effect)
    for peer in pairs(self.outboxes) do post(self, peer, effect) end
end

-- Timers of locks are apart: of those, only one is taken at a time.
local function timers_of(self, effect) return effect.lock and self.retries or self.timers end

local function timer_of(effect) return DIGITS[effect.timer] .. (effect.lock or "") end

acts["set-timer"] = function(self, effect)
    timers_of(self, effect):set(timer_of(effect), now_us() + effect.number, effect)
end

acts["cancel-timer"] = function(self, effect) timers_of(self, effect):cancel(timer_of(effect)) end

function acts.elected(self, effect)
    if superpeers.elected(self, effect.lock, effect.peer) then return end
    race.elected(self, effect.lock, self.names[effect.peer])
end

-- Writing the vote to the disk may have taken long. If the lease has ended meanwhile the grant is
-- void, and the process goes on waiting.
function acts.granted(self, effect)
    local lock = self.locks[effect.lock]
    if not self:epoch() then return end
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
    superpeers.answer(self)
end

function acts.up(self) superpeers.answer(self) end

function acts.down(self, effect) elections.forget(self, self.names[effect.peer]) end

function acts.unleased(self) elections.forget(self) end

-- Carries out effects in their order, also those that result from carrying one out.
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

--- Begins a machine. Returns whether `saved` belongs to this member.
function host:add(name, algorithm, saved, worth)
    local effects = self.member:_add(now_us(), name, algorithm, saved, worth)
    if effects then self:act(effects) end
    return effects ~= nil
end

--- Ends a machine, and its timers.
function host:remove(name)
    for timer = 0, TIMERS - 1 do
        self.retries:cancel(timer_of {timer = timer, lock = name})
    end
    self.member:_remove(name)
end

-- What a lock keeps in a file of its own; or nil, and what is wrong with the file.
local function kept_of(self, name, algorithm)
    if algorithm == "majority" then return self.saved end
    if algorithm ~= "voting" then return nil end
    local saved, message, code = state.read_lock(self.folder, name)
    return saved, code ~= "noname" and message or nil
end

-- Whether nothing here depends on the lock.
local function is_idle(lock)
    return not lock.holder and not lock.line[1] and not lock.asked
end

-- A lock that nobody wants is forgotten after IDLE other locks were used: by then everybody has
-- received the last messages about it. One that must be kept, or was used since, goes to the end of
-- the line.
local function forget_oldest(self)
    local name = self.oldest[self.first]
    local lock = self.locks[name]
    self.oldest[self.first] = nil
    self.first = self.first + 1
    if lock and lock.place == self.first - 1 then
        if not lock.fresh and is_idle(lock) and self.member:_forget(name) then
            for timer = 0, TIMERS - 1 do
                self.retries:cancel(timer_of {timer = timer, lock = name})
            end
            self.locks[name] = nil
        else
            lock.fresh = false
            self:used(name)
        end
    end
end

--- Moves a lock to the end of the line of those to be forgotten.
function host:used(name)
    local lock = self.locks[name]
    if not FORGETS[lock.algorithm] then return end
    self.last = self.last + 1
    self.oldest[self.last], lock.place = name, self.last
end

--- Called between two messages.
function host:tidy()
    local most = self.last - self.first + 1
    if most <= IDLE then return end
    forget_oldest(self)
    forget_oldest(self)
end

-- Makes the machine of a new lock. If its file is damaged, it is unknown how this member has voted.
-- So the member takes no part in that lock, as if it were down. The file is read again at each
-- request.
local function make_lock(self, name, algorithm)
    local lock = {line = {}, algorithm = algorithm}
    local saved
    saved, lock.damage = kept_of(self, name, algorithm)
    if lock.damage then return lock end
    self.locks[name] = lock
    if self:add(name, algorithm, saved) then
        self:used(name)
    else
        self.locks[name] = nil
        lock.damage = ("what %s has of lock '%s' is not of this member. %s"):format(self.folder,
            name, state.ADVICE)
    end
    return lock
end

function host:lock(name)
    local lock = self.locks[name]
    if not lock then
        local own = name:byte() < 32 -- it belongs to an election
        local algorithm = not own and self.algorithms[name] or self.algorithms[own and 0 or 1]
        lock = make_lock(self, name, algorithm or "majority")
    end
    lock.fresh = true
    return lock
end

-- Asks the others for the lock, if somebody here waits and nobody here has it. Without a lease the
-- machine refuses; the next request asks again.
function host:want(name)
    local lock = self.locks[name]
    if lock.line[1] and not lock.asked then
        lock.asked = true
        lock.asked = self:step(name, "enter") == "ok" and lock.asked
    end
end

-- Gives the lock back, or stops waiting; then the next one in line here has its turn.
function host:leave(name)
    local lock = self.locks[name]
    local word = lock.holder and "exit" or "abandon"
    lock.holder, lock.asked = nil, false
    if self:step(name, word) ~= "ok" then self:step(name, "exit") end
    self:want(name)
end

-- Takes a process out of the line, or the lock away from it.
function host:withdraw(name, is_it)
    local lock = self.locks[name]
    if not lock then return end -- the lock was lost, and is forgotten
    if lock.holder and is_it(lock.holder) then return self:leave(name) end
    for i = #lock.line, 1, -1 do
        if is_it(lock.line[i]) then table.remove(lock.line, i) end
    end
    if lock.asked and not lock.holder and not lock.line[1] then self:leave(name) end
end

-- ---- Who leads, and who is in -------------------------------------------------------------------

--- The epoch of the lease, or false. Steps the lease first, because it may have run out.
function host:epoch()
    local epoch, effects = self.member:_epoch(now_us())
    self:act(effects)
    return epoch
end

--- This member leads: tells the others, again and again.
function host:announce(name, election)
    if election.leader ~= self.here then return end
    for _, box in pairs(self.outboxes) do box:send("leader", name, election.epoch, "") end
    self.timers:set("leader " .. name, now_us() + AGAIN_US,
        function() self:announce(name, election) end)
end

--- Nothing to do: leaders announce themselves, see `announce`.
function host.attend() end

function host.objects() end

function host:nominate(name, election) race.begin(self, name, election) end

function host:stand_down(name, election) race.stop(self, name, election) end

function host:superpeer(...) superpeers.ask(self, ...) end

function host:no_superpeer(...) superpeers.give_up(self, ...) end

function host:change(...) members.want(self, ...) end

function host:unchange(answer, reply) members.give_up(self, answer, reply) end

function host:unchange_for(process) members.ended(self, process) end

--- This member leads no more, and tells the others. Those who do not hear it notice the silence.
function host:retire(name, epoch)
    for _, box in pairs(self.outboxes) do box:send("leader", name, epoch, "no more") end
end

-- Another member leads, it says. A member that is down does not lead, whatever it has said; nor
-- does one that was silent for long.
local function hear_leader(self, from, name, epoch, word)
    local leads = word == "" and self:epoch() and not self.member:_down(self.numbers[from])
    if word == "" and not leads then return end
    if leads then
        self.timers:set("silence " .. name, now_us() + SILENCE_US,
            function() elections.drop(self, name, epoch) end)
        elections.hear(self, from, name, epoch)
    else
        self.timers:cancel("silence " .. name)
        elections.drop(self, name, epoch)
    end
end

--- Why this member knows of no majority, if it can tell.
function host:trouble(name)
    local lock = self.locks[name]
    if not lock then return nil end
    local stuck = self.member:_stuck(name)
    if stuck and lock.algorithm == "majority" then
        return "more than half of the members have lost their votes ('lost = true')"
    elseif stuck then
        return ("too few members that remember lock '%s' are there: more than half must be"):format(
            name)
    end
    local from = not self:epoch() and next(self.notes)
    return from and self.notes[from] or nil
end

function host:members(tell)
    local epoch, list = self:epoch(), {}
    for i, name in ipairs(self.names) do
        local here = name == self.here
        local up = here and epoch or not here and epoch and not self.member:_down(i)
        list[i] = {name = name, here = here or nil,
            disagrees = self.notes[name] or race.dispute_with(self, name),
            state = up and "up" or (here or epoch) and "down" or "unknown"}
    end
    tell(list)
end

-- ---- From others --------------------------------------------------------------------------------

-- Another member has joined with other settings, and is ignored. If it is on our list, it hears our
-- messages too, and so finds out. If it is not, it has to be told.
local function hear_other(self, from, digest, kind)
    if type(from) ~= "string" or type(digest) ~= "string" or from == self.here then return end
    local note = ("'%s' has joined with other members, another lease, drift or algorithm: they "
        .. "must be the same on each member ('%s' there, '%s' here)"):format(from, digest,
        self.digest)
    if #note > 2000 or self.notes[from] == note then return end
    if not self.numbers[from] and not self.notes[from] then
        self.strangers = self.strangers + 1
        if self.strangers > STRANGERS then self.notes, self.strangers = {}, 0 end
    end
    self.notes[from] = note
    if self.numbers[from] or kind == "differs" then return end
    mare.go(function()
        local inbox = mare.find(("%s@%s"):format(self.settings.inbox, from), PATIENCE)
        if inbox then inbox:sendwithin(PATIENCE, self.here, self.digest, "differs") end
    end):detach()
end

local kinds = {}

function kinds.lease(self, _, peer, _, _, data) self:step(nil, "message", peer, 0, data) end

function kinds.lock(self, _, peer, name, epoch, data)
    if self:lock(name).damage then return end
    self:step(name, "message", peer, 0, data, epoch)
end

function kinds.leader(self, from, _, name, epoch, word)
    hear_leader(self, from, name, epoch, word)
end

function kinds.agree(self, from, _, what, ballot, data)
    members.agree(self, from, what, ballot, data)
end

function kinds.superpeer(self, _, peer, name, epoch, data)
    superpeers.hear(self, peer, name, epoch, data)
end

for _, kind in ipairs {"race", "present", "absent"} do
    kinds[kind] = function(self, from, peer, name, epoch, data)
        race.hear(self, from, peer, kind, name, epoch, data)
    end
end

function host:hear(from, digest, kind, name, epoch, data)
    if self:asked(kind, name) then return end
    if digest ~= self.digest or kind == "hello" or kind == "roll" then
        if members.hear(self, from, digest, kind, data) then return end
        return hear_other(self, from, digest, kind)
    end
    self.notes[from] = nil -- it agrees now
    local peer, known = self.numbers[from], kinds[kind]
    local named = type(name) == "string" and name ~= "" and #name <= LONGEST
    if not peer or not known or from == self.here or type(data) ~= "string" then return end
    if kind == "lease" or named and math.type(epoch) == "integer" then
        known(self, from, peer, name, epoch, data)
    end
end

-- Takes one timer of a lock that is due. Only one, so that messages have their turn in between.
local function pass_time_of_locks(self)
    if (self.retries:next() or math.huge) > now_us() then return end
    local effect = self.retries:take()
    if is_busy(self) then
        self.retries:set(timer_of(effect), now_us() + effect.number, effect)
    else
        self:step(effect.lock, "timer", nil, effect.timer)
    end
end

-- Steps what is due. Returns the time until something else is.
function host:pass_time()
    pass_time_of_locks(self)
    while true do
        local due, now = self.timers:next() or math.huge, now_us()
        if due > now then
            due = math.min(due, self.retries:next() or math.huge)
            return math.max(0, math.min(due - now, 60e6)) / 1e6
        end
        local item = self.timers:take()
        if type(item) == "function" then
            item()
        else
            self:step(nil, "timer", nil, item.timer)
        end
    end
end

local function heard(self, which, ...)
    if which == 1 then self:hear(host.sender(...)) end
    if which == 2 then self:serve(...) end
end

local function run(self)
    self:begin()
    members.try(self)
    local cases = {self.inbox, self.requests}
    while not self.over do
        heard(self, mare.select(cases, self:pass_time()))
        self:tidy()
    end
end

-- ---- Its life -----------------------------------------------------------------------------------

--- Makes outboxes to the other members of this generation.
function host:connect()
    for _, boxes in ipairs {self.outboxes, self.leases} do
        for _, box in pairs(boxes) do box:close() end
    end
    self.outboxes, self.leases, self.numbers = {}, {}, {}
    for i, name in ipairs(self.names) do
        self.numbers[name] = i
        if name ~= self.here then
            local address = ("%s@%s"):format(self.settings.inbox, name)
            self.outboxes[i] = outbox.new(address, self.here, self.digest)
            self.leases[i] = outbox.new(address, self.here, self.digest)
        end
    end
end

-- Makes the lease and the machines of this generation, with what was saved for them.
local function furnish(self)
    local kept = self.kept
    self.member = party._member(members.setup(self))
    for peer = members.keepers(self) + 1, #self.names do
        if self.names[peer] ~= self.here then self:step(nil, "join", peer) end
    end
    self.saved = kept.saved
    for algorithm, saved in pairs {majority = kept.saved, central = self.more.central,
        ricart = self.more.ricart, token = self.more.token} do
        if not self.member:_recall(algorithm, saved) then
            error("what this member has saved is not of this group", 0)
        end
    end
    members.exceed(self)
end

--- Begins the locks that run by a token. A process that waits for a token asks nobody, so the
--- machine that has it must run from the start.
function host:begin()
    if self.stopped then return end
    for name, algorithm in pairs(self.algorithms) do
        if algorithm == "token" then self:lock(name) end
    end
    self:step(nil, "start")
end

--- Begins everything anew, unless this member has stopped. Locks that were held are lost, and their
--- holders are told why; those who wait go on waiting.
function host:rebuild(why)
    local lost = {}
    for name, lock in pairs(self.locks) do
        lost[#lost + 1] = lock.holder and lock.holder.lost
        lock.holder, lock.asked = nil, false
        if not lock.line[1] then self.locks[name] = nil end
    end
    elections.forget(self)
    self.timers, self.retries = self.timers:only "members", timers.new()
    self.oldest, self.first, self.last = {}, 1, 0
    furnish(self)
    for name, lock in pairs(self.locks) do
        assert(self:add(name, lock.algorithm, (kept_of(self, name, lock.algorithm))))
        self:used(name)
    end
    for key, known in pairs(self.races) do
        self.races[key] = {name = known.name, election = known.election}
        self:add(key, known.election.algorithm, nil, known.election.worth)
    end
    superpeers.begin_anew(self)
    self:begin()
    for _, channel in ipairs(lost) do channel:trysend(why) end
end

local function make(settings, channel, inbox)
    if settings.id then
        local ok, message, code = members.enter(settings, inbox)
        if not ok then return nil, message, code end
    end
    local self = setmetatable(base.fields(settings, channel, inbox), host)
    self.folder, self.kept, self.more = settings.folder, settings.kept, settings.more
    self.timers, self.retries, self.pending = timers.new(), timers.new(), {}
    self.outboxes, self.leases = {}, {}
    self.oldest, self.first, self.last = {}, 1, 0
    self.races, self.disputes, self.algorithms = {}, {}, settings.algorithms
    self.notes = {}
    self.superpeers = {}
    self.strangers = 0
    self.list, self.changes, self.guests, self.said = settings.list, {}, {}, {}
    self:connect()
    members.begin_agreement(self)
    furnish(self)
    return self
end

return function(settings, channel, started)
    base.live(settings, channel, started, make, run)
end
