-- SPDX-License-Identifier: MIT
-- A coordinator grants, keeps the second one waiting, and grants again after the release
return {
    title = "A central coordinator (Tanenbaum and Van Steen, figure 6.14)",
    text = [[
The coordinator is process 3. Three messages for each entry: REQUEST, GRANT, RELEASE. Each grant
has a fencing number, larger than all before it, by which the resource can tell an old holder.]],
    algorithm = "central",
    n = 4,
    params = {repair = 0},
    network = {delay = "fixed", delay_us = 1000},
    requests = {
        {1, "enter", at_us = 1000, hold_us = 4000},
        {2, "enter", at_us = 2500, hold_us = 2000},
    },
    notes = {
        {1000, "(a) Process 1 asks the coordinator, which grants."},
        {2500, "(b) Process 2 asks. The coordinator does not answer: 2 waits in its queue, "
            .. "and cannot tell that from a coordinator that is dead."},
        {7000, "(c) Process 1 is done and says so. The coordinator answers the first of its "
            .. "queue."},
    },
}
