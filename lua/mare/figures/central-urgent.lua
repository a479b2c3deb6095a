-- SPDX-License-Identifier: MIT
-- A coordinator that lets in who needs it most, and nobody waits for ever: waiting counts, too
local COORDINATOR, AGE_US = 0, 2000

local urgent = {
    name = "urgent", family = "mutex", promises = {"EM1", "EM2"}, tolerates = {"reorder"},
    messages = {{"REQUEST", "urgency"}, {"GRANT"}, {"RELEASE"}},
    params = {urgency = 0}, formula = "3", cost = 3,
}

function urgent.init(self) self.queue = {} end

function urgent.enter(self)
    self:send(COORDINATOR, "REQUEST", {urgency = self.params.urgency})
end

function urgent.exit(self) self:send(COORDINATOR, "RELEASE") end

-- Who is most urgent now; of equals, who came first.
local function serve(self)
    local best
    for i, one in ipairs(self.queue) do
        one.worth = one.urgency + (self.now_us - one.since_us) // AGE_US
        if not best or one.worth > self.queue[best].worth then best = i end
    end
    if best and not self.holder then
        self.holder = table.remove(self.queue, best).from
        self:send(self.holder, "GRANT")
    end
end

function urgent.receive(self, from, message)
    if message.kind == "GRANT" then return self:grant() end
    if message.kind == "RELEASE" then
        self.holder = nil
    else
        table.insert(self.queue, {from = from, urgency = message.urgency, since_us = self.now_us})
    end
    serve(self)
end

local function remember(event, seen)
    if event.what == "granted" then seen[#seen + 1] = event.process end
end

return {
    title = "Another order for the queue (Tanenbaum and Van Steen, chapter 6, exercise 9)",
    text = [[
The coordinator (process 0) need not serve who came first. Here each request says how urgent it is:
1 asks with 0, 2 with 0, 3 with 1, 4 with 9. Who waits becomes more urgent by 1 every 2 ms: without
that, one that is not urgent would wait for ever beside those that are.]],
    algorithm = urgent,
    n = 5,
    members = {[3] = {urgency = 1}, [4] = {urgency = 9}},
    network = {delay = "fixed", delay_us = 1000},
    requests = {
        {1, "enter", at_us = 1000, hold_us = 4000},
        {2, "enter", at_us = 2000, hold_us = 4000},
        {3, "enter", at_us = 5500, hold_us = 4000},
        {4, "enter", at_us = 6000, hold_us = 4000},
    },
    see = remember,
    report = function(outcome) return "In the order " .. table.concat(outcome.seen, ", ") end,
    notes = {
        {1000, "Process 1 asks, and is let in: nobody else wants to."},
        {8000, "1 has gone out. 4 came last, and goes first: it needs it most."},
        {14000, "2 has waited longer than 3, and that counts more than what 3 is ahead by."},
    },
}
