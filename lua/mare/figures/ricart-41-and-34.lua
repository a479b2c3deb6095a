-- SPDX-License-Identifier: MIT
-- p1 asks with timestamp 41, p2 with 34, p3 is idle: p2 enters first
return {
    title = "Ricart–Agrawala: 34 before 41 (Coulouris et al., multicast synchronisation)",
    text = [[
p1 and p2 ask at the same time; their timestamps are 41 and 34. p3 wants nothing, and answers both
at once. When p2 gets the request of p1, its own is older: it keeps it waiting. p1 finds that p2's
is older and answers at once. p2 enters, then p1.]],
    algorithm = "ricart",
    n = 3,
    names = {[0] = "p1", "p2", "p3"},
    params = {repair = 0},
    members = {[0] = {clock = 40}, [1] = {clock = 33}},
    network = {delay = "fixed", delay_us = 1000},
    requests = {
        {0, "enter", at_us = 1000, hold_us = 2000},
        {1, "enter", at_us = 1000, hold_us = 2000},
    },
    notes = {
        {1000, "The requests leave, with 41 and 34."},
        {2000, "p2 keeps the request of p1 back, for 34 < 41. p3 answers both, and p1 "
            .. "answers p2."},
        {3000, "The second answer lets p2 in. p1 has only that of p3."},
        {5000, "p2 goes out and answers p1, which goes in."},
    },
}
