-- SPDX-License-Identifier: MIT
-- Equal Lamport timestamps are told apart by the process number: 40.0 comes before 40.1
return {
    title = "Two events at time 40: 40.0 comes before 40.1 (Tanenbaum and Van Steen, 6.2.1)",
    text = [[
Where no two events may have the same time, the number of the process is put behind it. Processes
0 and 1 both ask for a resource at time 40 (Ricart and Agrawala's algorithm, which needs such an
order). Without the number, both would give way or neither. A clock goes on by one before each
event, and past the time of a message that arrives: the number in brackets.]],
    algorithm = "ricart",
    n = 2,
    params = {repair = 0, clock = 39},
    network = {delay = "fixed", delay_us = 1000},
    requests = {
        {0, "enter", at_us = 1000, hold_us = 2000},
        {1, "enter", at_us = 1000, hold_us = 2000},
    },
    notes = {
        {1000, "Both step from 39 to 40 and send it: requests 40.0 and 40.1."},
        {2000, "Each takes max(40, 40) + 1 = 41. 0 finds its own request earlier, 40.0 < "
            .. "40.1, and does not answer; 1 finds the same and answers at once, at 42."},
        {3000, "The answer of 1 arrives, max(41, 42) + 1 = 43: 0 goes in."},
        {5000, "0 goes out, and answers the request that it had put off."},
    },
}
