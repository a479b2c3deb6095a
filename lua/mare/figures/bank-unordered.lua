-- SPDX-License-Identifier: MIT
-- A replicated account without an agreed order: 1,111 in San Francisco, 1,110 in New York
local account = require "mare._account"

return account {
    title = "Two copies of an account and no common order (Tanenbaum and Van Steen, figure 6.11)",
    text = [[
An account of 1,000 has a copy in San Francisco (SF) and one in New York (NY). A customer deposits
100 in San Francisco while the bank adds 1 % of interest in New York. Both updates go to both
copies, but each copy takes its own one first: FIFO order, which is kept here, does not help.]],
    algorithm = "fifo",
    notes = {
        {1000, "Both are multicast at the same moment. The sender is its own first "
            .. "receiver."},
        {2000, "What comes from the other city comes second: (1,000 + 100) · 1.01 here, "
            .. "1,000 · 1.01 + 100 there."},
    },
}
