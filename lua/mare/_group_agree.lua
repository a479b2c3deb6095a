-- SPDX-License-Identifier: MIT
-- Which list of members comes next? The members of the present list decide it by Paxos for one
-- value. So each generation of a group has one successor, whoever fails meanwhile. This module does
-- no input or output itself, but calls `io`. So a test can run many members in one process, and
-- lose, repeat and reorder their messages (tests/lua/test_group_agree.lua).
--
--     propose ──▶ prepare ── promises of a majority ──▶ accept ── a majority has ──▶ decided
--                    ▲                                    │
--                    └───── a later ballot, or silence ◀──┘
--
-- A member that accepts a list stops: from then on it takes part in nothing else of its generation
-- (io.stop). Its answer carries its bounds, the largest numbers that it has voted for. When a list
-- is decided, more than half of the present members have stopped, and more than half of the keepers
-- of its lease. So no lease of this generation is renewed any more, and no fencing number of it is
-- larger than the largest bounds. A member that has stopped and hears no decision proposes the list
-- that it has accepted.
--
-- Sources: Lamport, "Paxos made simple" (2001); Lamport, Malkhi and Zhou, "Reconfiguring a state
-- machine" (2010): a command that stops the old machine.
--
-- io.send(name, what, ballot, ...)   may be lost
-- io.keep(self)                      `promised`, `ballot`, `value` are on the disk when it returns
-- io.busy() -> text                  why this member cannot let the list change now, or nil
-- io.stop() -> bounds                takes part in nothing else; called again, it says the same
-- io.decided(value, bounds)          by this member's own ballot
local agree = {}
agree.__index = agree

local NUMBERS = 256 -- a ballot is a round times this, plus the member's number
local LIMIT = 1 << 52 -- honest members never get there; beyond it ballots would run out
local LIFE = 16 * NUMBERS -- ballots between two lives that do not know of each other
local PATIENCE = 4  -- ticks without progress; later members wait longer, so that one tries first

--- One member's part: `here`, its place in `names`, how many of these are `keepers` of the lease
--- (the first ones; nil: all), whether it `votes`, and what it kept: `promised`, and the `ballot`
--- in which it has accepted the `value`. `life`: of a member that may have forgotten ballots of its
--- own, a number that grows faster than ballots are made (seconds). Its ballots begin above it: two
--- lists in one ballot could both be decided.
function agree.new(io, kept)
    local self = setmetatable({io = io, here = kept.here, names = kept.names, votes = kept.votes,
        keepers = kept.keepers or #kept.names,
        promised = kept.promised or 0, ballot = kept.ballot or 0, value = kept.value,
        latest = (kept.life or 0) * LIFE, ticks = 0}, agree)
    for i, name in ipairs(self.names) do
        if name == self.here then self.number = i end
    end
    return self
end

local function tell(self, name, ...)
    if name == self.here then return self:hear(name, ...) end
    self.io.send(name, ...)
end

-- Sends the request of this phase to those that have not answered.
local function ask(self)
    for _, name in ipairs(self.names) do
        if self.phase and not self.answers[name] then
            tell(self, name, self.phase, self.mine, self.phase == "accept" and self.choice or nil)
        end
    end
end

local function begin(self)
    local round = math.max(self.promised, self.latest, self.mine or 0) // NUMBERS + 1
    self.mine = round * NUMBERS + self.number
    if self.mine > self.promised then -- also without its own promise: no ballot is used twice
        self.promised = self.mine
        self.io.keep(self)
    end
    self.phase, self.answers, self.ticks, self.trouble = "prepare", {}, 0, nil
    ask(self)
end

--- This member wants the value. Another one may be decided.
function agree:propose(value)
    self.wanted = value
    if not self.phase then begin(self) end
end

--- Stops wanting a value. A value that was accepted somewhere is still brought to a decision.
function agree:relent() self.wanted = nil end

--- Whether there is something to do, so that tick() must be called.
function agree:is_busy() return self.phase or self.wanted or self.value and true or false end

--- Whether the proposal may still be decided, because somebody may have accepted it.
function agree:is_open() return (self.offered or self.value) and true or false end

-- ---- What is heard ------------------------------------------------------------------------------

-- How many of the first so many members have answered.
local function count(self, most)
    local n = 0
    for i = 1, most do n = n + (self.answers[self.names[i]] and 1 or 0) end
    return n
end

local function is_enough(self)
    return 2 * count(self, #self.names) > #self.names
        and 2 * count(self, self.keepers) > self.keepers
end

local hears = {}

function hears.prepare(self, from, ballot)
    local why = not self.value and self.io.busy()
    if why then return tell(self, from, "busy", ballot, why) end
    if ballot < self.promised then return tell(self, from, "stale", self.promised) end
    if ballot > self.promised then
        self.promised = ballot
        self.io.keep(self)
    end
    tell(self, from, "promise", ballot, self.ballot, self.value)
end

-- With a majority of promises: the value that one of them accepted in the latest ballot is
-- proposed; only if there is none, the value wanted here.
function hears.promise(self, from, ballot, accepted, value)
    if self.phase ~= "prepare" or ballot ~= self.mine then return end
    self.answers[from] = {ballot = accepted, value = value}
    if not is_enough(self) then return end
    local last, choice = 0, self.wanted
    for _, one in pairs(self.answers) do
        if one.ballot > last then last, choice = one.ballot, one.value end
    end
    self.phase, self.answers, self.choice, self.ticks = "accept", {}, choice, 0
    if not choice then
        self.phase = nil -- there is no value to propose
        return
    end
    self.offered = true
    ask(self)
end

function hears.accept(self, from, ballot, value)
    if ballot < self.promised then return tell(self, from, "stale", self.promised) end
    local bounds = self.io.stop()
    if ballot > self.ballot then
        self.promised, self.ballot, self.value, self.ticks = ballot, ballot, value, 0
        self.io.keep(self)
    end
    tell(self, from, "accepted", ballot, bounds)
end

function hears.accepted(self, from, ballot, bounds)
    if self.phase ~= "accept" or ballot ~= self.mine then return end
    self.answers[from] = bounds
    if not is_enough(self) then return end
    local most = {}
    for _, one in pairs(self.answers) do
        for what, number in pairs(one) do most[what] = math.max(most[what] or 0, number) end
    end
    self.phase = nil
    self.io.decided(self.choice, most)
end

function hears.stale(self, _, ballot)
    self.latest = math.max(self.latest, ballot)
    if self.phase and ballot > self.mine then self.phase, self.ticks = nil, 0 end
end

function hears.busy(self, _, ballot, why)
    if ballot == self.mine then self.trouble = why end
end

local asks = {prepare = true, accept = true}

--- A message from a member of the same generation, unchecked.
function agree:hear(from, what, ballot, ...)
    if not hears[what] or asks[what] and not self.votes or ballot >= LIMIT then return end
    hears[what](self, from, ballot, ...)
end

--- Call it now and then: requests without an answer are repeated, and in the end a new ballot
--- begins.
function agree:tick()
    self.ticks = self.ticks + 1
    if self.ticks > PATIENCE + self.number then
        if self.wanted or self.value then begin(self) else self.phase = nil end
    elseif self.phase then
        ask(self)
    end
end

return agree
