-- SPDX-License-Identifier: MIT
-- The same clocks corrected by Lamport's algorithm: m3 arrives at 61, m4 at 70
local figure = require "mare._tickers" (true, "clock")

figure.title = "Lamport's algorithm corrects the clocks (Tanenbaum and Van Steen, figure 6.9b)"
figure.text = [[
The same three clocks and messages as in clocks-uncorrected. When a message arrives and the clock
of the receiver is not past the time at which the message left, it is put forward to one more than
that; it is never put back. The simulator checks each message: it must arrive later than it left.]]
figure.notes = {
    {1000, "m1 leaves at 6 and arrives at 16; m2 leaves at 24 and arrives at 40. Nothing to "
        .. "correct."},
    {6000, "m3 leaves at 60, so it must arrive at 61 or later: P2, which shows 56, is put "
        .. "to 61."},
    {8000, "P2 ticks on from there, 8 at a time: so m4 leaves at 69, not at 64. P1, which "
        .. "shows 54, is put to 70 when it arrives, and ticks on to 76."},
}

return figure
