-- SPDX-License-Identifier: MIT
-- Three processes whose clocks tick 6, 8 and 10 at a time (Tanenbaum and Van Steen, figure 6.9),
-- for the figures clocks-uncorrected and clocks-corrected. The messages m1 … m4 carry the time at
-- which they left.
local TICK_US = 1000
local TICKS = 10

-- By process: how much a tick adds to its clock; and for each tick, the message that it sends and
-- to whom.
local CLOCKS = {
    [0] = {step = 6, sends = {[1] = {"m1", 1}}},
    [1] = {step = 8, sends = {[3] = {"m2", 2}, [8] = {"m4", 0}}},
    [2] = {step = 10, sends = {[6] = {"m3", 1}}},
}

--- The algorithm. `corrects`: whether the receiver of a message sets its clock past the message's
--- time, as Lamport says. `field`: what messages call their time; a field called "clock" is read by
--- the simulator's checker of logical clocks, which ends the run where time goes back.
local function tickers(corrects, field)
    local ticker = {
        name = "tickers", title = "clocks that tick at different rates", family = "order",
        source = "Lamport 1978; Tanenbaum and Van Steen 6.2.1", formula = "1",
        messages = {{"m1", field}, {"m2", field}, {"m3", field}, {"m4", field}},
    }

    function ticker.init(self) self.clock, self.ticks = 0, 0 end

    function ticker.start(self) self:after(0, TICK_US) end

    function ticker.timer(self)
        local own = CLOCKS[self.id]
        self.clock, self.ticks = self.clock + own.step, self.ticks + 1
        local what = own.sends[self.ticks]
        if what then self:send(what[2], what[1], {[field] = self.clock}) end
        self:after(0, TICK_US)
    end

    function ticker.receive(self, _, message)
        local left, shown = message[field], self.clock
        if shown > left then return end
        if corrects then self.clock = left + 1 end
        self:mark((corrects and "from %d to %d" or "shows %d, it left at %d"):format(
            shown, corrects and self.clock or left))
    end

    return ticker
end

--- A scenario with these clocks. A message takes a tick and a half: it arrives between two ticks.
return function(corrects, field)
    return {
        algorithm = tickers(corrects, field), n = 3,
        names = {[0] = "P1", "P2", "P3"},
        network = {delay = "fixed", delay_us = TICK_US + TICK_US // 2},
        requests = {},
        duration_us = TICKS * TICK_US,
        -- When each message left and arrived, by the clocks of its two ends.
        see = function(event, seen)
            local kind = event.message and event.message.kind
            if event.what == "sent" then
                seen[kind] = {left = event.clock}
            elseif event.what == "message" then
                seen[kind].arrived = event.clock
            end
        end,
        report = function(outcome)
            local lines = {"message  left  arrived"}
            for _, name in ipairs {"m1", "m2", "m3", "m4"} do
                local way = outcome.seen[name]
                lines[#lines + 1] = ("%-7s  %4d  %7d%s"):format(name, way.left, way.arrived,
                    way.arrived <= way.left and "  before it left" or "")
            end
            return table.concat(lines, "\n")
        end,
    }
end
