-- SPDX-License-Identifier: MIT
-- p1 asks with timestamp 41, p2 with 34, p3 is idle: p2 enters first
return {
    title = "Ricart–Agrawala: 34 before 41 (Coulouris et al., multicast synchronisation)",
    text = [[
p1 and p2 (here 0 and 1) ask at the same time; their timestamps are 41 and 34. p3 (here 2) answers
both at once. When p2 gets the request of p1, its own is older: it keeps it waiting. p1 finds that
p2's is older and answers at once. p2 enters, then p1.]],
    algorithm = "ricart",
    n = 3,
    params = {repair = 0},
    members = {[0] = {clock = 40}, [1] = {clock = 33}},
    network = {delay = "fixed", delay_us = 1000},
    requests = {
        {0, "enter", at_us = 1000, hold_us = 2000},
        {1, "enter", at_us = 1000, hold_us = 2000},
    },
}
