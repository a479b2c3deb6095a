-- SPDX-License-Identifier: MIT
-- The transaction of mare.synchronizer in the simulator: every member is a radio button, the first
-- one or three are synchronizers as well, and members crash. To be lit is to be inside; at most one
-- is. With one synchronizer a button looks whether all are dark before it asks to be lit.
--
--     mare sim_synchronizer.lua [SEEDS [FROM [PROFILE OF FAULTS]]]
local sim, transaction = require "mare.sim", require "mare._transaction"

local radio = {
    name = "radio", title = "radio buttons under synchronizers", params = {synchronizers = 3},
    messages = {
        {"ASK", "tx", "floor", "on", "park"}, {"VOTE", "tx", "answer"}, {"COMMIT", "tx"},
        {"ABORT", "tx"}, {"RECALL", "tx"},
        {"ACK", "tx"}, {"CHANGED"}, {"ORPHAN", "member", "tx"}, {"QUERY", "member", "tx"},
        {"STATE", "member", "tx", "answer"}, {"DECIDE", "member", "tx", "answer"}, {"ENDED"},
    },
}

-- Keys are letters and numbers: m is the button of a member, s its synchronizer.
local function key(letter, id) return ("%s%03d"):format(letter, id) end
local function id_of(text) return tonumber(text:sub(2)) end

local SYNCHRONIZERS -- their keys, in a run
local WORDS = {"yes", "no", "parked", "committed", "aborted", "prepared", "shared"}
local NUMBERS = {}
for i, word in ipairs(WORDS) do NUMBERS[word] = i end

-- To whom each kind goes, and how what the machines say becomes numbers, and back.
local PACK = {
    ask = function(tx, floor, _, request, park)
        return {tx = tx, floor = floor, on = request.on, park = park and 1 or 0}
    end,
    vote = function(tx, answer) return {tx = tx, answer = NUMBERS[answer]} end,
    commit = function(tx) return {tx = tx} end,
    changed = function() return {} end,
    orphan = function(member, tx) return {member = id_of(member), tx = tx} end,
    state = function(member, tx, answer)
        return {member = id_of(member), tx = tx, answer = NUMBERS[answer]}
    end,
}
PACK.abort, PACK.ack, PACK.recall = PACK.commit, PACK.commit, PACK.commit
PACK.query, PACK.decide = PACK.orphan, PACK.state

local function unpacked(from, message)
    local kind = message.kind
    if kind == "ASK" then
        local request = {member = key("m", from), on = message.on}
        return key("m", from), message.tx, message.floor, SYNCHRONIZERS, request,
            message.park == 1
    elseif kind == "COMMIT" or kind == "ABORT" then
        return key("m", from), message.tx
    elseif kind == "VOTE" or kind == "ACK" or kind == "RECALL" or kind == "CHANGED" then
        return key("s", from), message.tx, WORDS[message.answer]
    end
    return key("s", from), key("m", message.member), message.tx, WORDS[message.answer]
end

-- What one says to itself does not go over the network: it is next in line.
local function sender(self)
    return function(to, kind, ...)
        local fields = PACK[kind](...)
        if id_of(to) == self.id then
            fields.kind = kind:upper()
            table.insert(self.own, fields)
        elseif not self.down[id_of(to)] then
            self:send(id_of(to), kind:upper(), fields)
        end
    end
end

-- ---- A button -----------------------------------------------------------------------------------

local OFF, ON, LOOK = 0, 1, 2
local lit = {} -- in a run, the buttons that are

local function try(self)
    if self.busy or self.gone or self.want == self.lit then return end
    self.busy = true
    local what = self.want and ON or OFF
    if what == ON and not SYNCHRONIZERS[2] and not self.looked then what = LOOK end
    local request = {member = key("m", self.id), on = what}
    self.tx = self.button:begin(SYNCHRONIZERS, request, true)
end

-- The call that was allowed begins.
local function call(self, what)
    self.looked = what == LOOK
    if what == LOOK then
        if self.all_live and next(lit) then error("one is lit, and another looks") end
        return
    end
    self.lit = what == ON
    lit[self.id] = self.lit or nil
    if self.lit and self.want then self:grant() end
end

local function settled(self, tx, outcome)
    if outcome == "parked" then return end
    self.busy = false
    if outcome == "ready" then
        self.button:decide(tx)
        call(self, tx.request.on)
        self.button:commit(tx)
        try(self)
    elseif outcome == "gone" then
        self.gone = true
        if self.want and not self.lit then self:revoke "a synchronizer has ended" end
    end -- else it was refused, and is told when something has changed
end

-- ---- A synchronizer -----------------------------------------------------------------------------

local function rules_of(self)
    return {
        guard = function(request)
            return (request.on == OFF or not self.group) and "yes" or "no"
        end,
        changes = function(request) return request.on ~= LOOK end,
        fire = function(request) self.group = request.on == ON and request.member or nil end,
        ended = function(who)
            local was = self.group == who
            if was then self.group = nil end
            return was
        end,
        knows = function(who) return not self.down[id_of(who)] end,
    }
end

-- ---- A member -----------------------------------------------------------------------------------

function radio.init(self)
    SYNCHRONIZERS, lit = {}, {}
    self.all_live = radio.promises[2]
    for i = 1, math.min(self.params.synchronizers, self.n) do
        SYNCHRONIZERS[i] = key("s", i - 1)
    end
    self.own, self.down, self.want, self.lit = {}, {}, false, false
    self.button = transaction.coordinator(sender(self), function(...) settled(self, ...) end)
    if self.id < #SYNCHRONIZERS then
        self.group_rules = transaction.participant(key("s", self.id), sender(self), rules_of(self))
    end
end

-- A process that has ended does not come back: who takes its place says that it is gone, in case
-- nobody has noticed, and does nothing else.
function radio.start(self)
    self.dead = self.lived
    self.lived = true
    if self.dead then self:broadcast "ENDED" end
end

local BUTTON = {VOTE = "vote", ACK = "ack", RECALL = "recall"}

local function hear(self, from, message)
    local kind = message.kind
    if kind == "CHANGED" then
        try(self)
    elseif BUTTON[kind] then
        self.button[BUTTON[kind]](self.button, unpacked(from, message))
    else
        self.group_rules[kind:lower()](self.group_rules, unpacked(from, message))
    end
end

local function settle(self)
    while self.own[1] do hear(self, self.id, table.remove(self.own, 1)) end
end

-- Whatever still comes from one that has ended came too late.
function radio.receive(self, from, message)
    if self.dead or self.down[from] then return end
    if message.kind == "ENDED" then return radio.peer(self, "down", from) end
    hear(self, from, message)
    settle(self)
end

function radio.enter(self)
    if self.dead or self.gone then return false end
    self.want = true
    try(self)
    settle(self)
end

local function out(self)
    self.want = false
    if self.busy and self.inside == false then -- abandoned: given up, if it has not been decided
        self.button:abort(self.tx)
        self.busy = false
    end
    try(self)
    settle(self)
end

radio.exit, radio.abandon = out, out

function radio.peer(self, what, member)
    if self.dead or what ~= "down" or self.down[member] then return end
    self.down[member] = true
    if self.group_rules then
        self.group_rules:ended(key("m", member))
        if member < #SYNCHRONIZERS then self.group_rules:ended(key("s", member)) end
    end
    if member < #SYNCHRONIZERS then
        self.gone = true
        self.button:ended(key("s", member))
        if self.want and not self.lit then self:revoke "a synchronizer has ended" end
    end
    settle(self)
end

-- Nobody waits for ever while all live. When some do not, there are still never two.
local CASES = {
    {"all live", promises = {"EM1", "EM2"}, tolerates = {"pause"}, settle_us = 100000000},
    {"some crash", promises = {"EM1"}, tolerates = {"crash"}, settle_us = 0},
}
local SEEDS, FROM = tonumber(arg[1]) or 60, tonumber(arg[2]) or 1
local kept = true
for _, synchronizers in ipairs {3, 1} do
    for _, case in ipairs(CASES) do
        radio.promises, radio.tolerates = case.promises, case.tolerates
        local broken, seeds = sim.sweep({algorithm = radio, duration_us = 100000,
            settle_us = case.settle_us, profile = arg[3],
            params = {synchronizers = synchronizers}}, SEEDS, FROM)
        local words = broken and ("%s is violated by seed %d: %s"):format(broken.violation, seeds,
            broken.detail) or ("%d seeds, no violation"):format(seeds)
        print(("%d, %s: %s"):format(synchronizers, case[1], words))
        kept = kept and not broken
    end
end
if not kept then os.exit(1) end
