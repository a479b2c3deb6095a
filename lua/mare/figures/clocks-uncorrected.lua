-- SPDX-License-Identifier: MIT
-- Clocks that tick 6, 8 and 10: m3 leaves at 60 and arrives at 56, m4 at 64 and at 54
local figure = require "mare._tickers" (false, "left")

figure.title = "Three clocks that tick at different rates (Tanenbaum and Van Steen, figure 6.9a)"
figure.text = [[
While the clock of P1 goes on by 6, that of P2 goes on by 8 and that of P3 by 10: the number in
brackets. A message carries the time at which it left. To a faster clock that looks well; at a
slower one messages arrive before they have left.]]
figure.notes = {
    {1000, "m1 leaves P1 at 6, and arrives at P2 at 16: ten ticks on its way, which can be."},
    {3000, "m2 leaves P2 at 24, and arrives at P3 at 40: sixteen ticks, which can be too."},
    {6000, "m3 leaves P3 at 60, and when it arrives the clock of P2 shows 56. That cannot "
        .. "be."},
    {8000, "m4 leaves P2 at 64, and arrives at P1 at 54. Lamport's rule is in "
        .. "clocks-corrected."},
}

return figure
