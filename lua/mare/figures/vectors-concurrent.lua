-- SPDX-License-Identifier: MIT
-- Lamport's clocks order everything, vector clocks tell what is concurrent
local GOES_TO = {m1 = 1, m2 = 1, m3 = 0}

local function text_of(vector) return "(" .. table.concat(vector, ",", 1, 3) .. ")" end

-- Each message carries both clocks. They go on before every event; a message that arrives brings
-- along what its sender knew, and then the arrival is an event of its own.
local both = {
    name = "both-clocks", title = "Lamport's clock and a vector clock", family = "order",
    source = "Tanenbaum and Van Steen 6.2.2", formula = "1",
    messages = {{"m1", "clock", "v1", "v2", "v3"}, {"m2", "clock", "v1", "v2", "v3"},
                {"m3", "clock", "v1", "v2", "v3"}},
}

local function count(self)
    self.clock, self.vector[self.id + 1] = self.clock + 1, self.vector[self.id + 1] + 1
end

function both.init(self) self.clock, self.vector = 0, {0, 0, 0} end

-- "work" is an event of this process alone; any other word is the message that it sends.
function both.multicast(self, word)
    local v = self.vector
    count(self)
    self:mark(("%s %d %s"):format(word == "work" and "works" or "sends", self.clock, text_of(v)))
    if word ~= "work" then
        local stamp = {clock = self.clock, v1 = v[1], v2 = v[2], v3 = v[3]}
        self:send(GOES_TO[word], word, stamp)
    end
end

function both.receive(self, _, message)
    self.clock = math.max(self.clock, message.clock)
    for i, other in ipairs {message.v1, message.v2, message.v3} do
        self.vector[i] = math.max(self.vector[i], other)
    end
    count(self)
    self:mark(("receives %d %s"):format(self.clock, text_of(self.vector)))
end

return {
    title = "What Lamport's clocks cannot tell (Tanenbaum and Van Steen, figure 6.12)",
    text = [[
P1 sends m1 to P2, which then sends m3; P3 sends m2. Each event is marked with its Lamport time
and its vector clock. m1 was received before m3 was sent, and before m2 was sent, by Lamport's
times. But m3 may depend on m1, and m2 cannot: P3 knew nothing of it. The vector clocks tell.]],
    algorithm = both,
    n = 3,
    names = {[0] = "P1", "P2", "P3"},
    network = {delay = "fixed", delay_us = 1000},
    requests = {
        {0, "multicast", data = "m1", at_us = 1000},
        {2, "multicast", data = "work", at_us = 1500},
        {2, "multicast", data = "work", at_us = 2500},
        {2, "multicast", data = "m2", at_us = 3000},
        {1, "multicast", data = "m3", at_us = 3500},
    },
    notes = {
        {1000, "m1 leaves at 1, as the first event of P1: (1,0,0). Meanwhile P3 works by "
            .. "itself."},
        {2000, "P2 receives it at 2: it now knows of one event of P1, and this is its own "
            .. "first."},
        {3000, "P3 sends m2 at 3, and 2 < 3. But (1,1,0) and (0,0,3): each knows something "
            .. "that the other does not. Neither came before the other; they are "
            .. "concurrent."},
        {3500, "P2 sends m3 at 3 as well. (1,1,0) < (1,2,0) in every place: m3 may depend "
            .. "on m1."},
        {4000, "Both arrive, and bring what their senders knew."},
    },
}
