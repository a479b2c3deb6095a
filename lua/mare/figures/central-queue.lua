-- SPDX-License-Identifier: MIT
-- A coordinator grants, keeps the second one waiting, and grants again after the release
return {
    title = "A central coordinator (Tanenbaum and Van Steen, figure 6.14)",
    text = [[
Process 0 asks the coordinator, 3, and is let in. Process 1 asks too and gets no answer: it waits in
the queue. When 0 leaves, the coordinator lets 1 in. Three messages for each.]],
    algorithm = "central",
    n = 4,
    params = {repair = 0},
    network = {delay = "fixed", delay_us = 1000},
    requests = {
        {0, "enter", at_us = 1000, hold_us = 4000},
        {1, "enter", at_us = 2500, hold_us = 2000},
    },
}
