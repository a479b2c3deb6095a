-- SPDX-License-Identifier: MIT
-- Check and trigger as one transaction, over any number of synchronizers: two machines that know
-- nothing of processes, channels or time. They are told what arrived and who ended, and send.
-- mare.synchronizer runs them; a test runs all interleavings of small groups of them.
--
--   member (coordinator)               synchronizer (participant)
--   ask, one after the other, in the   queued: waits for its turn
--   order of their keys  ------------> prepared: the guard is true, and the state locked until the
--   <---- vote yes | no | parked       outcome is known; or no, and nothing is kept; or, at the
--                                      first one, parked: asked again, before younger ones, when
--                                      something has changed
--   all yes: the call begins, and
--   commit -------------------------->  the triggers fire, the lock is free, `ack` goes back
--   else: abort --------------------->  the lock is free
--
-- A request under one synchronizer that has no trigger for it is a *reader*: the vote is "shared",
-- readers do not exclude each other, and no commit is sent. The synchronizer learns that it is over
-- when the member asks next, by `floor`; or it asks, if somebody is to change the state:
--
--   <---- recall                       the next one in the queue, or an end, needs the lock alone
--   abort ---------------------------> at once, if it is over; else the outcome, when it is
--
-- No deadlock: a request that waits for a lock holds only locks of smaller keys, and a parked one
-- holds none. A reader that holds one waits for nobody. No starvation, as far as the first one
-- refuses: there the oldest goes first. What crashes leave:
--
--   - A synchronizer ends before the outcome: the member aborts, and the request is refused. After
--     the outcome: nothing to do, its state is gone with it.
--   - The member ends, and a synchronizer is prepared: if it is the only one, there was no commit,
--     for that would have come first: abort. Else it asks the *arbiter*, the smallest of the
--     synchronizers concerned that lives. One that was asked before it and forgot has aborted.
--     The arbiter, if it does not know itself, asks the others: one has committed: commit, else
--     abort; and tells them. If the arbiter ends, the next one is asked.
--   - A participant answers an arbiter only when it has itself heard that the member and all
--     smaller ones have ended, and so has read the last that they said.
--
-- Assumed: messages from one to another arrive in order, and the end of a process is told after the
-- last of them, of the dead alone. A participant keeps what it has committed until the member says,
-- by `floor`, that all have acknowledged it; or until the member has ended: then it tells the other
-- participants its state, and forgets. Whoever asks later has heard that before the answer.
local transaction = {}

-- ---- The member ---------------------------------------------------------------------------------

local coordinator = {}
coordinator.__index = coordinator

--- `settle(tx, outcome, detail)` is called for a transaction that waits. "ready": then the caller
--- decides to commit or abort it; "no", "error" or "gone"; or "parked": then it goes on waiting.
function transaction.coordinator(send, settle)
    return setmetatable({send = send, settle = settle, last = 0, floor = 1, open = {}}, coordinator)
end

-- The smallest number that a synchronizer may still ask about.
local function floor_of(self)
    local floor, last, open = self.floor, self.last, self.open
    while floor <= last and not open[floor] do floor = floor + 1 end
    self.floor = floor
    return floor
end

--- Begins to ask the participants, a sorted list of keys, about a request. With `park` the first of
--- them keeps it if it may not run now.
function coordinator:begin(participants, request, park)
    local floor = floor_of(self)
    self.last = self.last + 1
    local tx = {id = self.last, list = participants, request = request, at = 1, state = "asking"}
    self.send(participants[1], "ask", tx.id, floor, participants, request, park or false)
    self.open[tx.id] = tx -- only now: if sending failed, there is nothing to keep
    return tx
end

local LAG = 64 -- the most readers that are over and were not told

-- A reader is over. The synchronizer learns that with the next question, unless it has asked.
local function end_reader(self, tx, outcome)
    tx.state, self.open[tx.id] = outcome, nil
    if tx.recalled or tx.id - self.floor >= LAG then self.send(tx.list[1], outcome, tx.id) end
end

local function close(self, tx, outcome, upto)
    tx.state = outcome
    for i = 1, upto do self.send(tx.list[i], outcome, tx.id) end
    if outcome == "commit" and tx.list[2] then
        tx.missing = {}
        for _, key in ipairs(tx.list) do
            tx.missing[key] = not (tx.dead and tx.dead[key]) or nil
        end
        if not next(tx.missing) then self.open[tx.id] = nil end
    else
        self.open[tx.id] = nil
    end
end

--- A ready transaction is decided: it will be committed, whoever ends from now on.
function coordinator:decide(tx)
    tx.state = "decided"
end

function coordinator:commit(tx)
    if tx.shared then return end_reader(self, tx, "commit") end
    close(self, tx, "commit", #tx.list)
end

--- Gives up a transaction that was not decided.
function coordinator:abort(tx)
    if tx.shared and tx.state == "ready" then return end_reader(self, tx, "abort") end
    if tx.state == "asking" or tx.state == "ready" then close(self, tx, "abort", tx.at) end
end

function coordinator:vote(from, id, answer, detail)
    local tx = self.open[id]
    if not tx or tx.state ~= "asking" or tx.list[tx.at] ~= from then return end
    if answer == "shared" and not tx.list[2] then
        tx.state, tx.shared = "ready", true
        self.settle(tx, "ready")
    elseif answer == "parked" then
        self.settle(tx, answer)
    elseif answer ~= "yes" and answer ~= "shared" then
        close(self, tx, "abort", tx.at - 1)
        self.settle(tx, answer, detail)
    elseif tx.at < #tx.list then
        tx.at = tx.at + 1
        self.send(tx.list[tx.at], "ask", id, floor_of(self), tx.list, tx.request, false)
    else
        tx.state = "ready"
        self.settle(tx, "ready")
    end
end

--- A synchronizer asks for a reader's outcome.
function coordinator:recall(from, id)
    local tx = self.open[id]
    if tx then tx.recalled = true else self.send(from, "abort", id) end
end

function coordinator:ack(from, id)
    local tx = self.open[id]
    if not tx or not tx.missing then return end
    tx.missing[from] = nil
    if not next(tx.missing) then self.open[id] = nil end
end

--- A participant has ended.
function coordinator:ended(who)
    local open = {}
    for id, tx in pairs(self.open) do open[id] = tx end
    for id, tx in pairs(open) do
        local concerned = false
        for _, key in ipairs(tx.list) do concerned = concerned or key == who end
        tx.dead = tx.dead or {}
        tx.dead[who] = true
        if concerned and tx.missing then
            self:ack(who, id)
        elseif concerned and tx.state ~= "decided" then
            self:abort(tx)
            self.settle(tx, "gone", who)
        end
    end
end

-- ---- The synchronizer ---------------------------------------------------------------------------

local participant = {}
participant.__index = participant

--- `rules` has guard(request, member) -> "yes" | "no" | "error", detail; changes(request, member),
--- whether fire(request, member) may change anything; ended(key), which returns whether it has
--- changed anything; and knows(key), of another synchronizer: false from ended(key) on.
function transaction.participant(key, send, rules)
    return setmetatable({
        key = key, send = send, rules = rules,
        lock = nil,     -- the transaction that is prepared
        readers = {},   -- by member: its last reader; readers are prepared together
        reading = 0,    -- how many readers there are in all
        recalled = false, -- whether all readers were asked to say when they are over
        queue = {},     -- transactions that wait for the lock
        parked = {},    -- transactions that may not run now; they go before those in the queue
        committed = {}, -- by member and number: transactions of several synchronizers, their lists
        refused = {},   -- members whose request was refused since the last change; also in order
        dead = {},      -- keys of those that have ended, until the rules are told;
        graves = {},    -- also in order: they are not told while the state is locked
    }, participant)
end

-- Something has changed: refused requests may be tried again.
local function changed(self)
    local refused = self.refused
    self.refused = {}
    for _, member in ipairs(refused) do self.send(member, "changed") end
    self.queue = table.move(self.queue, 1, #self.queue, #self.parked + 1, self.parked)
    self.parked = {}
end

-- Whether there are no readers. If there are, asks each, once, to say when it is over.
local function is_alone(self)
    if self.reading == 0 or self.recalled then return self.reading == 0 end
    self.recalled = true
    local members = {}
    for member in pairs(self.readers) do members[#members + 1] = member end
    table.sort(members)
    for _, member in ipairs(members) do
        local tx = self.readers[member]
        while tx and not tx.recalled do -- those before it were asked together with it
            tx.recalled = true
            self.send(member, "recall", tx.id)
            tx = tx.before
        end
    end
    return false
end

local function begin_to_read(self, tx)
    tx.before = self.readers[tx.member]
    self.readers[tx.member] = tx
    self.reading, self.recalled = self.reading + 1, false
end

-- Removes readers of a member: one, or those before `floor`, or all. Returns one of them.
local function release(self, member, id, floor)
    local tx, behind, out = self.readers[member], nil, nil
    while tx do
        local before = tx.before
        if (id and tx.id ~= id) or (floor and tx.id >= floor) then
            behind = tx
        else
            out, self.reading = tx, self.reading - 1
            if behind then behind.before = before else self.readers[member] = before end
        end
        tx = before
    end
    return out
end

-- Asks the rules whether it may run, and votes. False: it must wait until the readers are over.
local function examine(self, tx)
    local member, request = tx.member, tx.request
    local shared = not tx.list[2] and not self.rules.changes(request, member)
    if not shared and not is_alone(self) then return false end
    local answer, detail = self.rules.guard(request, member)
    if answer == "yes" and shared then
        answer = "shared"
        begin_to_read(self, tx)
    elseif answer == "yes" then
        self.lock = tx
    elseif answer == "no" and tx.park then
        table.insert(self.parked, tx)
        answer = "parked"
    elseif answer == "no" and not self.refused[member] then
        self.refused[member] = true
        table.insert(self.refused, member)
    end
    if answer ~= "parked" or not tx.told then
        self.send(member, "vote", tx.id, answer, detail or false)
        if answer == "parked" then tx.told = true end
    end
    return true
end

local function advance(self)
    while not self.lock and self.graves[1] and is_alone(self) do
        local key = table.remove(self.graves, 1)
        self.dead[key] = nil
        if self.rules.ended(key) then changed(self) end
    end
    local queue = self.queue
    while not self.lock and not self.graves[1] and queue[1] and examine(self, queue[1]) do
        table.remove(queue, 1)
    end
end

local function is_dead(self, key)
    return self.dead[key] or key ~= self.key and not self.rules.knows(key)
end

-- Sends to the other participants of a list that live.
local function spread(self, list, kind, ...)
    for _, key in ipairs(list) do
        if key ~= self.key and not is_dead(self, key) then self.send(key, kind, ...) end
    end
end

-- Keeps what was committed, for those that may ask. If the member has ended, they are told at once
-- what they would hear if they asked.
local function keep(self, tx)
    local member, id = tx.member, tx.id
    if self.dead[member] then return spread(self, tx.list, "state", member, id, "committed") end
    self.committed[member] = self.committed[member] or {}
    self.committed[member][id] = tx.list
    self.send(member, "ack", id)
end

local function finish(self, outcome)
    local tx = self.lock
    self.lock = nil
    if outcome == "committed" then
        self.rules.fire(tx.request, tx.member)
        if #tx.list > 1 then keep(self, tx) end
        changed(self)
    end
    for key in pairs(tx.queries or {}) do self.send(key, "state", tx.member, tx.id, outcome) end
    for key in pairs(tx.orphans or {}) do self.send(key, "decide", tx.member, tx.id, outcome) end
    advance(self)
end

-- The prepared transaction, if it is this one.
local function prepared(self, member, id)
    local tx = self.lock
    return tx and tx.member == member and tx.id == id and tx or nil
end

function participant:ask(member, id, floor, list, request, park)
    local committed = self.committed[member]
    if committed then
        for old in pairs(committed) do
            if old < floor then committed[old] = nil end
        end
    end
    if self.reading > 0 then release(self, member, nil, floor) end
    local tx = {member = member, id = id, list = list, request = request, park = park or nil}
    if self.lock or self.graves[1] or self.queue[1] or not examine(self, tx) then
        self.queue[#self.queue + 1] = tx
        advance(self)
    end
end

-- Removes a member's waiting transactions, or one of them.
local function drop(list, member, id)
    for i = #list, 1, -1 do
        if list[i].member == member and (not id or list[i].id == id) then table.remove(list, i) end
    end
end

function participant:commit(member, id)
    if prepared(self, member, id) then return finish(self, "committed") end
    local tx = release(self, member, id)
    if not tx then return end
    if self.rules.changes(tx.request, member) then -- a trigger was added meanwhile
        self.rules.fire(tx.request, member)
        changed(self)
    end
    advance(self)
end

--- A trigger was added: readers that have not begun are subject to it, too.
function participant:recall()
    is_alone(self)
end

function participant:abort(member, id)
    if prepared(self, member, id) then return finish(self, "aborted") end
    if release(self, member, id) then return advance(self) end
    drop(self.queue, member, id)
    drop(self.parked, member, id)
end

-- ---- Outcomes that a member took along ----------------------------------------------------------

local function arbiter_of(self, tx)
    for _, key in ipairs(tx.list) do
        if not is_dead(self, key) then return key end
    end
end

local function decide(self, outcome)
    local tx = self.lock
    spread(self, tx.list, "decide", tx.member, tx.id, outcome)
    finish(self, outcome)
end

-- The arbiter knows enough when one of the participants that live has committed, or all of them
-- have answered.
local function count_answers(self)
    local tx, all = self.lock, true
    for _, key in ipairs(tx.list) do
        if key ~= self.key and not is_dead(self, key) then
            if tx.news and tx.news[key] then return decide(self, "committed") end
            all = all and tx.answers[key]
        end
    end
    if all then decide(self, "aborted") end
end

-- Answers arbiters, once this one has heard what they have heard.
local function answer_queries(self)
    local tx = self.lock
    for _, key in ipairs(tx.list) do
        if tx.queries and tx.queries[key] and arbiter_of(self, tx) == key then
            tx.queries[key] = nil
            self.send(key, "state", tx.member, tx.id, "prepared")
        end
    end
end

-- The member has ended, and this participant does not know what it decided.
local function resolve(self)
    local tx = self.lock
    if #tx.list == 1 then return finish(self, "aborted") end
    local arbiter = arbiter_of(self, tx)
    if arbiter ~= self.key then
        if tx.asked ~= arbiter then self.send(arbiter, "orphan", tx.member, tx.id) end
        tx.asked = arbiter
        return answer_queries(self)
    end
    if not tx.answers then
        tx.answers = {}
        spread(self, tx.list, "query", tx.member, tx.id)
    end
    count_answers(self)
end

local function outcome_of(self, member, id)
    return self.committed[member] and self.committed[member][id] and "committed" or "aborted"
end

--- Another participant asks for the outcome: it takes this one for the arbiter.
function participant:orphan(from, member, id)
    local tx = prepared(self, member, id)
    if not tx then
        return self.send(from, "decide", member, id, outcome_of(self, member, id))
    end
    tx.orphans = tx.orphans or {} -- those to tell when it is known
    tx.orphans[from] = true
end

--- The arbiter asks.
function participant:query(from, member, id)
    local tx = prepared(self, member, id)
    if not tx then return self.send(from, "state", member, id, outcome_of(self, member, id)) end
    tx.queries = tx.queries or {}
    tx.queries[from] = true
    if self.dead[member] then answer_queries(self) end
end

--- One says what it knows: it was asked, or it has committed and heard that the member has ended.
--- It does not keep that, and might say "aborted" later. But only the arbiter may act on it.
function participant:state(from, member, id, answer)
    local tx = prepared(self, member, id)
    if not tx then return end
    if answer == "committed" then
        tx.news = tx.news or {}
        tx.news[from] = true
    end
    if not tx.answers then return end
    tx.answers[from] = true
    count_answers(self)
end

function participant:decide(from, member, id, outcome)
    local tx = prepared(self, member, id)
    if tx then finish(self, tx.news and tx.news[from] and "committed" or outcome) end
end

-- Forgets what is kept for a member that has ended.
local function forget(self, member)
    drop(self.queue, member)
    drop(self.parked, member)
    release(self, member)
    if self.refused[member] then
        self.refused[member] = nil
        for i = #self.refused, 1, -1 do
            if self.refused[i] == member then table.remove(self.refused, i) end
        end
    end
    local committed, ids = self.committed[member] or {}, {}
    self.committed[member] = nil
    for id in pairs(committed) do ids[#ids + 1] = id end
    table.sort(ids)
    for _, id in ipairs(ids) do
        spread(self, committed[id], "state", member, id, "committed")
    end
end

--- A member or another participant has ended.
function participant:ended(who)
    self.dead[who] = true
    forget(self, who)
    table.insert(self.graves, who)
    if self.lock and self.dead[self.lock.member] then resolve(self) end
    advance(self)
end

return transaction
