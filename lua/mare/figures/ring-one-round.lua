-- SPDX-License-Identifier: MIT
-- The same ring, with the improvement that removes the second round on its way
return require "mare._rounds" ({
    title = "The same election with one round removed (Tanenbaum and Van Steen, problem 6.15)",
    text = [[
As in ring-two-rounds 2 and 5 call at once. Now a process that has passed on a round takes note of
who called it, and swallows one of a lower caller: of two rounds, that of 5 survives. Seventeen
messages instead of twenty-eight, and 6 leads all the same.]],
    notes = {
        {2000, "Both leave together, as before."},
        {5000, "[2,3,4] reaches 5, which has called with a higher number: the round of 2 "
            .. "ends here."},
        {9000, "[5,6,0,1,2,3,4] is home. One COORDINATOR goes round."},
    },
}, 1)
