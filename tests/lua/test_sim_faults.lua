-- SPDX-License-Identifier: MIT
-- What the simulator can do to a group: each fault does what its name says. If one did nothing,
-- every sweep would be clean, and prove nothing.
local sim, t = require "mare.sim", require "t"

-- Everybody tells everybody how often its timer rang, once a millisecond.
local function chatter()
    return {
        name = "chatter", messages = {{"TICK", "count"}},
        init = function(self) self.count = 0 end,
        start = function(self) self:after(0, 1000) end,
        timer = function(self)
            self.count = self.count + 1
            self:broadcast("TICK", {count = self.count})
            self:after(0, 1000)
        end,
        receive = function() end,
    }
end

-- Runs it for 100 ms. Returns the outcome and what happened, a list of events: all, or those of one
-- kind, for many take a collector that never rests very long.
local function watch(spec, what)
    local events = {}
    spec.algorithm, spec.n, spec.requests = chatter(), spec.n or 3, {}
    spec.duration_us, spec.settle_us = 100000, 0
    spec.network = spec.network or {delay = "fixed", delay_us = 100}
    spec.see = function(event)
        if not what or event.what == what then events[#events + 1] = event end
    end
    return sim.run(spec), events
end

local function count(events, wanted)
    local found = 0
    for _, event in ipairs(events) do
        local fits = true
        for key, value in pairs(wanted) do
            if type(value) == "table" then
                fits = fits and event[key] and event[key] > value[1] and event[key] < value[2]
            else
                fits = fits and event[key] == value
            end
        end
        if fits then found = found + 1 end
    end
    return found
end

local function near(value, wanted, part)
    t.ok(math.abs(value - wanted) <= part * wanted, ("%s is not near %s"):format(value, wanted))
end

-- How long each message took, and how many came after one that was sent later.
local function travels(network)
    local sent, last, times, overtaken = {}, {}, {}, 0
    local _, events = watch {n = 2, network = network}
    for _, event in ipairs(events) do
        local way = event.what == "sent" and event.process or event.peer
        if event.what == "sent" then
            sent[way] = sent[way] or {}
            sent[way][event.message.count] = event.time_us
        elseif event.what == "message" then
            times[#times + 1] = event.time_us - sent[way][event.message.count]
            if event.message.count < (last[way] or 0) then overtaken = overtaken + 1 end
            last[way] = math.max(last[way] or 0, event.message.count)
        end
    end
    t.ok(#times > 150)
    table.sort(times)
    local sum = 0
    for _, time in ipairs(times) do sum = sum + time end
    return {mean = sum / #times, least = times[1], most = times[#times],
            middle = times[#times // 2], overtaken = overtaken}
end

return {
    nothing_happens_to_a_calm_group = function()
        local out, events = watch {}
        t.eq({out.lost, out.duplicated}, {0, 0})
        t.eq(count(events, {what = "timer", process = 1}), 100)
        t.eq(out.sent, 3 * 2 * 100)
    end,
    who_pauses_does_nothing_and_then_everything = function()
        local out, events = watch {faults = "pause:1@20500+30000"}
        local during = {20500, 50500}
        t.eq(count(events, {what = "timer", process = 1, time_us = during}), 0)
        t.eq(count(events, {what = "message", process = 1, time_us = during}), 0)
        t.eq(count(events, {what = "timer", process = 0, time_us = during}), 30)
        t.eq(count(events, {what = "message", process = 1, time_us = {50499, 50501}}), 2 * 30)
        t.eq(out.lost, 0)
    end,
    a_partition_cuts_both_ways_and_heals = function()
        local _, events = watch {faults = "partition:0@20500+30000"}
        t.eq(count(events, {what = "lost", peer = 0, text = "cut"}), 2 * 30)
        t.eq(count(events, {what = "lost", process = 0, text = "cut"}), 2 * 30)
        t.eq(count(events, {what = "lost"}), 4 * 30)
        t.eq(count(events, {what = "lost", time_us = {50500, 100001}}), 0)
    end,
    one_way_lets_through_what_comes_from_the_other_side = function()
        local _, events = watch {faults = "one-way:0@20500+30000"}
        t.eq(count(events, {what = "lost", peer = 0, text = "cut"}), 2 * 30)
        t.eq(count(events, {what = "lost"}), 2 * 30)
    end,
    a_burst_loses_so_many_in_a_hundred = function()
        for _, percent in ipairs {100, 40} do
            local _, events = watch {faults = ("burst:%d@20500+60000"):format(percent)}
            near(count(events, {what = "lost", time_us = {20500, 80500}}), 3.6 * percent, 0.2)
            t.eq(count(events, {what = "lost"}),
                 count(events, {what = "lost", time_us = {20500, 80500}}))
        end
    end,
    losses_and_copies_are_as_many_as_asked_for = function()
        local out, events = watch {network = {loss_ppm = 300000, duplicate_ppm = 200000}}
        near(out.lost, 0.3 * out.sent, 0.2)
        near(out.duplicated, 0.2 * (out.sent - out.lost), 0.25)
        near(count(events, {what = "message"}), out.sent - out.lost + out.duplicated, 0.02)
    end,
    who_crashes_is_silent_and_is_told_nothing = function()
        for _, kind in ipairs {"crash", "amnesia"} do
            local _, events = watch {faults = kind .. ":1@20500+30000", detect_us = 5000}
            local during = {20500, 50500}
            t.eq(count(events, {process = 1, what = "timer", time_us = during}), 0)
            t.eq(count(events, {process = 1, what = "message", time_us = during}), 0)
            t.eq(count(events, {process = 1, what = "crashed"}), 1)
            t.eq(count(events, {process = 1, what = "restarted"}), 1)
            local after = {50499, 60000}
            t.eq(count(events, {process = 0, what = "peer-down", peer = 1, time_us = during}), 1)
            t.eq(count(events, {process = 0, what = "peer-up", peer = 1, time_us = after}), 1)
            local first = kind == "crash" and 21 or 1 -- its memory goes on counting, or not
            for _, event in ipairs(events) do
                if event.what == "sent" and event.process == 1 and event.time_us > 50500 then
                    t.eq(event.message.count, first)
                    break
                end
            end
        end
    end,
    who_leaves_is_gone_and_who_joins_is_told_to_all = function()
        local _, events = watch {faults = "leave:1@20500+0,join:3@40500+0"}
        t.eq(count(events, {process = 1, what = "timer", time_us = {20500, 100001}}), 0)
        for _, other in ipairs {0, 2} do
            t.eq(count(events, {process = other, what = "leave", peer = 1}), 1)
            t.eq(count(events, {process = other, what = "join", peer = 3}), 1)
        end
        t.ok(count(events, {process = 3, what = "timer"}) >= 58)
        t.ok(count(events, {process = 0, what = "message", peer = 3}) >= 58)
    end,
    clocks_drift_by_what_was_allowed = function()
        local function rings(ppm)
            local list = {}
            local _, events = watch({n = 8, drift_ppm = ppm}, "timer")
            for who = 0, 7 do list[who + 1] = count(events, {process = who}) end
            table.sort(list)
            return list
        end
        local right, wrong = rings(0), rings(100000)
        t.eq({right[1], right[8]}, {100, 100})
        t.ok(wrong[1] < 97 and wrong[8] > 103, table.concat(wrong, " "))
        t.ok(wrong[1] >= 90 and wrong[8] <= 112, table.concat(wrong, " "))
    end,
    delays_are_drawn_as_their_names_say = function()
        local fixed = travels {delay = "fixed", delay_us = 2000}
        t.eq({fixed.least, fixed.most, fixed.overtaken}, {2000, 2000, 0})
        local uniform = travels {delay = "uniform", delay_us = 2000}
        near(uniform.mean, 2000, 0.15)
        t.ok(uniform.least < 200 and uniform.most > 3800 and uniform.most <= 4000)
        local exponential = travels {delay = "exponential", delay_us = 2000}
        near(exponential.mean, 2000, 0.25)
        near(exponential.middle, 2000 * math.log(2), 0.3)
        t.ok(exponential.most > 6000)
        local spiky = travels {delay = "spiky", delay_us = 2000}
        near(spiky.middle, 2000, 0.3)
        t.ok(spiky.most > 8000)
    end,
    messages_overtake_each_other_unless_told_not_to = function()
        t.ok(travels({delay = "exponential", delay_us = 3000}).overtaken > 20)
        t.eq(travels({delay = "exponential", delay_us = 3000, fifo = true}).overtaken, 0)
    end,
}
