-- SPDX-License-Identifier: MIT
-- A failure detector that is wrong lets two in: what fencing numbers help, and what not
return {
    title = "Two inside: a detector takes a partition for a death",
    text = [[
0 and 1 cannot reach 2 and 3 for a while. A detector that says DOWN of them is wrong, and each
side goes on without the other: one of each is inside. Here the later one has the larger fencing
number, and a resource can refuse the other. It need not be so: each side counts for itself.]],
    algorithm = "ricart",
    n = 4,
    network = {delay = "fixed", delay_us = 1000},
    detector = "eager",
    detect_us = 5000,
    faults = "partition:0.1@1000+60000",
    requests = {
        {0, "enter", at_us = 2000, hold_us = 40000},
        {3, "enter", at_us = 20000, hold_us = 10000},
    },
    notes = {
        {1000, "The network is cut in two: 0 and 1 here, 2 and 3 there."},
        {2000, "0 asks all three others, and only 1 answers."},
        {6000, "The detectors say DOWN of everybody on the other side. They are wrong: "
            .. "nobody is down. 0 stops waiting for the dead, and goes in."},
        {20000, "3, on the other side, does the same while 0 is still inside: mutual "
            .. "exclusion is broken. A resource that has seen 7 refuses a holder with "
            .. "4."},
    },
    duration_us = 80000,
    expect = "EM1",
}
