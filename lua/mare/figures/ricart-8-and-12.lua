-- SPDX-License-Identifier: MIT
-- Two want in at once, with timestamps 8 and 12: the lower one wins
return {
    title = "Ricart–Agrawala: 8 wins over 12 (Tanenbaum and Van Steen, figure 6.15)",
    text = [[
Processes 0 and 2 ask at the same moment, with timestamps 8 and 12; process 1 does not compete. It
answers both. 2 sees that it has lost and lets 0 go first; 0 goes in, and answers 2 when it is
done.]],
    algorithm = "ricart",
    n = 3,
    params = {repair = 0},
    members = {[0] = {clock = 7}, [2] = {clock = 11}},
    network = {delay = "fixed", delay_us = 1000},
    requests = {
        {0, "enter", at_us = 1000, hold_us = 2000},
        {2, "enter", at_us = 1000, hold_us = 2000},
    },
    notes = {
        {1000, "(a) Both ask everybody. A request carries its timestamp: 8 and 12."},
        {2000, "1 wants nothing and answers both. 2 has asked too, with 12: the 8 of 0 is "
            .. "lower, so it answers. 0 finds its own lower, and keeps the request of 2 for "
            .. "later."},
        {3000, "(b) 0 has both answers and is inside. 2 has one, and waits."},
        {5000, "(c) 0 is done, and answers what it kept. Now 2 has both."},
    },
}
