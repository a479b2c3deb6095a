-- SPDX-License-Identifier: MIT
-- Two locks of our own, written against the interface of the algorithms in C, and given to the
-- simulator: the first looks right and is not.
local sim = require "mare.sim"

-- Ask everybody whether they are inside; go in when all say no. But two can ask at the same moment.
local naive = {
    name = "naive", title = "a lock that only asks who is inside",
    promises = {"EM1", "EM2"}, tolerates = {"reorder"},
    messages = {{"ASK"}, {"FREE"}},
}

function naive.init(self) self.free = 0 end

function naive.enter(self)
    self.free = 0
    self:broadcast "ASK"
end

function naive.receive(self, from, message)
    if message.kind == "ASK" then
        if not self.inside then self:send(from, "FREE") end
    elseif self.waiting then
        self.free = self.free + 1
        if self.free == self.n - 1 then self:grant() end
    end
end

function naive.exit() end

-- Ricart and Agrawala: requests carry a time, the older goes first, the other is answered later.
local fair = {
    name = "fair", title = "a lock that lets the older request go first",
    promises = {"EM1", "EM2", "EM3", "fencing"}, tolerates = {"reorder", "pause", "drift"},
    messages = {{"ASK", "clock"}, {"OK", "clock", "stamp"}},
}

function fair.init(self) self.clock, self.later = 0, {} end

local function answer(self, to, stamp)
    self.clock = self.clock + 1
    self:send(to, "OK", {clock = self.clock, stamp = stamp})
end

local function answer_later(self)
    self.stamp = nil
    for from, stamp in pairs(self.later) do answer(self, from, stamp) end
    self.later = {}
end

function fair.enter(self)
    self.clock = self.clock + 1
    self.stamp, self.oks = self.clock, 0
    self:broadcast("ASK", {clock = self.clock})
end

function fair.receive(self, from, message)
    self.clock = math.max(self.clock, message.clock) + 1
    if message.kind == "ASK" then
        local mine = self.stamp
        local first = mine and (mine < message.clock or mine == message.clock and self.id < from)
        if not first then
            answer(self, from, message.clock)
        else -- a request that was given up can arrive after the next one
            self.later[from] = math.max(self.later[from] or 0, message.clock)
        end
    elseif self.waiting and message.stamp == self.stamp then
        self.oks = self.oks + 1
        if self.oks == self.n - 1 then self:grant(self.stamp * self.n + self.id) end
    end
end

fair.exit, fair.abandon = answer_later, answer_later

for _, lock in ipairs {naive, fair} do
    local broken, seeds = sim.sweep({algorithm = lock, duration_us = 200000}, 200)
    if broken then
        print(("%s: %s is violated by seed %d"):format(lock.name, broken.violation, seeds))
    else
        print(("%s: %d seeds, no violation"):format(lock.name, seeds))
    end
end
