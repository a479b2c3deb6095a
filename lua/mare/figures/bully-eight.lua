-- SPDX-License-Identifier: MIT
-- Eight processes: 7 is dead, 4 notices, 6 wins; 7 returns and takes over
return {
    title = "The bully algorithm (Tanenbaum and Van Steen, figure 6.19)",
    text = [[
Eight processes. 7 led, and has just died; 4 is the first to notice. The highest process that is
up becomes the coordinator, whoever calls the election. The number behind a leader is its epoch: a
count times eight, plus the leader, so that two leaders can never have the same.]],
    algorithm = "bully",
    n = 8,
    params = {repair = 0, answer_us = 4000},
    network = {delay = "fixed", delay_us = 1000},
    detector = "none",
    faults = "crash:7@500+11500",
    requests = {{4, "elect", at_us = 1000}},
    notes = {
        {1000, "(a) 4 calls an election: it asks all that are above it, 5, 6 and 7."},
        {2000, "(b) 5 and 6 answer OK: 4 is out of it. 7 says nothing.\n(c) 5 and 6 call "
            .. "elections of their own, and ask those above themselves."},
        {3000, "4 has got the first OK, and only waits to hear who wins. (d) 6 tells 5 to "
            .. "stop."},
        {6000, "(e) For 4 ms nobody above 6 has answered. 6 wins, and tells everybody."},
        {12000, "7 returns. Nobody is above it: it bullies its way to the top at once."},
    },
}
