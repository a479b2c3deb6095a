-- SPDX-License-Identifier: MIT
-- Voting when coordinators forget: how two get in, how improbable that is, and a measurement
local sim = require "mare.sim"

local TRIALS = 2000

-- The first name whose replicas lie with different nodes, none of them 0 or 1, which compete.
local function choose_name(nodes, replicas)
    for name = 0, math.huge do
        local taken, good = {}, true
        for _, home in ipairs(sim.replicas(nodes, name, replicas)) do
            good = good and home > 1 and not taken[home]
            taken[home] = true
        end
        if good then return name end
    end
end

-- One is inside, some coordinators forget, another one asks.
local function scenario(n, m, forgets)
    local nodes = 2 + 2 * n
    local name, faults = choose_name(nodes, n), {}
    for i, home in ipairs(sim.replicas(nodes, name, n)) do
        if forgets(i) then faults[#faults + 1] = ("amnesia:%d@4000+500"):format(home) end
    end
    return {
        algorithm = "voting", n = nodes,
        params = {replicas = n, votes = m, name = name, retry_us = 5000},
        network = {delay = "fixed", delay_us = 1000},
        faults = table.concat(faults, ","),
        requests = {{0, "enter", at_us = 1000, hold_us = false},
                    {1, "enter", at_us = 6000, hold_us = false}},
        detector = "none", settle_us = 0, duration_us = 200000,
    }
end

-- Its own numbers: the trial decides them, on every machine the same (xorshift64*).
local function chances(seed)
    local state = seed * 0x2545F4914F6CDD1D + 88172645463325252
    return function(p)
        state = state ~ (state >> 12)
        state = state ~ (state << 25)
        state = state ~ (state >> 27)
        return ((state * 0x2545F4914F6CDD1D) >> 11) / (1 << 53) < p
    end
end

local function measure(n, m, p)
    local violated = 0
    for trial = 1, TRIALS do
        local chance = chances(trial)
        for _ = 1, 10 do chance(0) end
        local outcome = sim.run(scenario(n, m, function() return chance(p) end))
        if outcome.violation == "EM1" then violated = violated + 1 end
    end
    return violated / TRIALS
end

local figure = scenario(3, 2, function(i) return i == 1 end)
figure.title = "Coordinators that forget their votes (Lin et al.; Tanenbaum and Van Steen, 6.3.3)"
figure.text = [[
A coordinator that restarts has forgotten for whom it voted, and may vote again. Of the m votes
that let one in, 2m - n must be forgotten while it is inside to let in a second one: with n = 3
and m = 2 one is enough. If each coordinator restarts with probability p during a stay, the
probability is
    sum over k = 2m - n ... m of C(m, k) p^k (1 - p)^(m - k)]]
figure.expect = "EM1"
figure.notes = {
    {1000, "0 has two votes, and is inside."},
    {4000, "A coordinator restarts, and has forgotten its vote."},
    {6000, "1 asks. One coordinator gives its vote a second time, the other one keeps it "
        .. "for 0."},
    {11000, "1 asks the third, which has not voted yet: two votes, and two are inside. "
        .. "Where coordinators keep their votes over a restart this cannot happen."},
}

function figure.report()
    local p = 10 / (3 * 3600)
    local lines = {
        ("n = 32, m = 24, a stay of 10 s, a restart every 3 h: p = %.6f, violated with "
            .. "probability %.1e"):format(p, sim.risk(32, 24, p)),
        "", ("Where it happens often enough to be seen (%d runs each):"):format(TRIALS),
        " n  m     p  computed  measured",
    }
    for _, case in ipairs {{3, 2, 0.1}, {5, 3, 0.1}, {5, 4, 0.4}, {8, 6, 0.5}} do
        local n, m, chance = table.unpack(case)
        lines[#lines + 1] = ("%2d %2d  %.2f  %8.3f  %8.3f"):format(n, m, chance,
            sim.risk(n, m, chance), measure(n, m, chance))
    end
    return table.concat(lines, "\n")
end

return figure
