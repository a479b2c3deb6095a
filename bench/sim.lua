-- SPDX-License-Identifier: MIT
-- The simulator, checkers and all, on one core.
--
--   messages ALGORITHM N   per_second: messages delivered in a second of real time
--   round ALGORITHM N      seconds: one entry of each of N, or one election among them
--
-- usage: mare sim.lua messages|round ALGORITHM N
local mare, sim = require "mare", require "mare.sim"
local what, algorithm, n = arg[1] or "messages", arg[2] or "ricart", tonumber(arg[3] or 16)

local known = false
for _, name in ipairs(sim.algorithms()) do known = known or name == algorithm end
if not known then
    print "absent 1"
    os.exit(0)
end

local function measure(spec)
    spec.algorithm, spec.n, spec.settle_us = algorithm, n, 0
    local start = mare.now()
    local outcome = sim.run(spec)
    assert(outcome.kept, outcome.violation)
    return mare.now() - start, outcome
end

if what == "messages" then
    measure {duration_us = 4000000}
    local taken, outcome = measure {duration_us = 40000000}
    print(("per_second %.0f"):format(outcome.delivered / taken))
else
    local requests = {{0, "elect"}}
    for who = 0, algorithm == "ring" and -1 or n - 1 do requests[who + 1] = {who, "enter"} end
    local taken, outcome = measure {params = {repair = 0}, requests = requests,
                                    duration_us = 10000000000}
    assert(outcome.grants + outcome.elections >= n, "not all came of it")
    print(("seconds %.4f"):format(taken))
    print(("messages %d"):format(outcome.sent))
end
