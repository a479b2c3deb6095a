-- SPDX-License-Identifier: MIT
-- Ring election: 2 and 5 start at once, two lists go round, both choose 6
return require "mare._rounds" ({
    title = "An election on a ring, twice at once (Tanenbaum and Van Steen, figure 6.20)",
    text = [[
7 led and has died; 2 and 5 notice at the same time. Each sends a list with its number to its
successor; everybody adds its own and passes it on, leaving 7 out. The number after + is the
length of a list in bytes, eight for each process on it. Both lists come home with the same seven
numbers, so both choose 6: the second one does no harm, and costs fourteen messages.]],
    notes = {
        {2000, "ELECTION of 2, [2], and ELECTION of 5, [5], leave together."},
        {3000, "6 knows that 7 is down and passes [5,6] on to 0."},
        {9000, "Each list is back at its maker: [2,3,4,5,6,0,1] and [5,6,0,1,2,3,4]. "
            .. "The highest number on both is 6. COORDINATOR goes round once more, twice, "
            .. "to tell everybody, with the list: who leads, and who is on the new ring."},
    },
}, 0)
