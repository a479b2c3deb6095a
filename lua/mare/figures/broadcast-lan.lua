-- SPDX-License-Identifier: MIT
-- What mutual exclusion costs on a network that broadcasts, and how long a hand-over takes
local sim = require "mare.sim"

local N, DELAY_US = 8, 1000

-- What a process sends to several at once is one frame there.
local function count(event, seen)
    seen.frames = seen.frames or 0
    if event.what == "sent" then
        local frame = ("%d %d %s"):format(event.time_us, event.process, event.message.kind)
        seen.frames = seen.frames + (frame == seen.last and 0 or 1)
        seen.last = frame
    elseif event.what == "exit" then
        seen.exit_us = seen.exit_us or event.time_us
    elseif event.what == "granted" then
        seen.granted_us = event.time_us -- the last one
    end
end

local function run(algorithm, requests)
    return sim.run {algorithm = algorithm, n = N, params = {repair = 0},
        network = {delay = "fixed", delay_us = DELAY_US}, requests = requests, see = count}
end

-- One entry of a process that is not the coordinator, on a ring with the token beside it.
local function entry_of(algorithm)
    local outcome = run(algorithm, {{1, "enter", at_us = 10 * DELAY_US, hold_us = 1}})
    return outcome.sent, outcome.seen.frames
end

-- From the exit of one to the entry of the next, which has been waiting.
local function hand_over(algorithm)
    local seen = run(algorithm, {{1, "enter", at_us = 10 * DELAY_US, hold_us = 50 * DELAY_US},
        {2, "enter", at_us = 20 * DELAY_US, hold_us = 1}}).seen
    return (seen.granted_us - seen.exit_us) / DELAY_US
end

local function report()
    local lines = {("One entry among %d, and the time from an exit to the next entry"):format(N),
        "             messages   frames   message times"}
    for _, algorithm in ipairs {"central", "ricart", "majority"} do
        local messages, frames = entry_of(algorithm)
        lines[#lines + 1] = ("  %-10s %8d %8d %12g"):format(algorithm, messages, frames,
            hand_over(algorithm))
    end
    return table.concat(lines, "\n")
end

return {
    title = "Broadcast by the network itself (Tanenbaum and Van Steen, chapter 6, exercise 12)",
    text = [[
Where a network carries one frame to everybody, a request to all is one frame. Answers still come
one by one. So Ricart and Agrawala's 2(n-1) become n, and those of a majority 3(n-1) become n + 1:
a request, n - 1 votes, a release. A coordinator is asked, answers and is told: 3, as before. The
last column is the synchronisation delay: a coordinator, or a majority, has to hear of the exit and
to tell the next one; where everybody is asked, who goes out tells it.]],
    algorithm = "ricart",
    n = N,
    params = {repair = 0},
    network = {delay = "fixed", delay_us = DELAY_US},
    requests = {{1, "enter", at_us = 10 * DELAY_US, hold_us = 1}},
    report = report,
    notes = {
        {10 * DELAY_US, "A request to seven others: seven messages, or one frame."},
        {11 * DELAY_US, "Seven answers, from seven processes: seven frames in any case."},
    },
}
