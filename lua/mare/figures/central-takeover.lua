-- SPDX-License-Identifier: MIT
-- The coordinator dies with one inside and one in its queue: a new one asks, and goes on
return {
    title = "A new coordinator rebuilds the queue (the weak point of figure 6.14, repaired)",
    text = [[
The queue is in the memory of the coordinator, 3, and goes with it. The highest member that is
left takes over in a new epoch and asks everybody where they stand: inside, waiting, or neither.
From the answers it makes the queue anew. The upper half of a fencing number grows with the epoch,
so that it is larger than all before.]],
    algorithm = "central",
    n = 4,
    network = {delay = "fixed", delay_us = 1000},
    detect_us = 2000,
    faults = "crash:3@4500+0",
    requests = {
        {0, "enter", at_us = 1000, hold_us = 14000},
        {1, "enter", at_us = 2000, hold_us = 2000},
    },
    duration_us = 30000,
    notes = {
        {1000, "0 is let in, and 1 waits in the queue of 3."},
        {4500, "3 dies. Its queue is gone; 0, inside, need not even notice."},
        {6500, "The detectors find out. 2 is the highest now: it opens epoch 6 (1 times four, "
            .. "plus 2) and asks."},
        {7500, "phase=2 is inside, phase=1 is waiting."},
        {17000, "0 releases to the new coordinator, which lets 1 in."},
    },
}
