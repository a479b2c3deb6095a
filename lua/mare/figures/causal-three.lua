-- SPDX-License-Identifier: MIT
-- Three processes: m* overtakes m on the way to P2, and is held back until m is there
return {
    title = "Causally ordered multicast (Tanenbaum and Van Steen, figure 6.13)",
    text = [[
P0 multicasts m at (1,0,0). P1 delivers it and multicasts m*, which may be about m. On the way to
P2, m* is faster. In brackets: the vector clock, how many messages of each process were delivered.
It moves when a message is sent or delivered, and at no other event.]],
    algorithm = "causal",
    n = 3,
    names = {[0] = "P0", "P1", "P2"},
    params = {repair = 0},
    network = {delay = "fixed", delay_us = 1000},
    -- The way from P0 to P2 is slow.
    route = function(message) if message.from == 0 and message.to == 2 then return 3500 end end,
    requests = {
        {0, "multicast", data = "m", at_us = 1000},
        {1, "multicast", data = "m*", at_us = 3000},
    },
    notes = {
        {1000, "P0 counts its own message: m carries (1,0,0)."},
        {2000, "At P1 m is the next one of P0, 1 = 0 + 1, and depends on nothing else: "
            .. "delivered."},
        {3000, "P1 multicasts m*, which carries (1,1,0): sent after one message of P0 was "
            .. "delivered."},
        {4000, "At P2 m* is the next one of P1, but P2 has delivered 0 messages of P0, and "
            .. "m* depends on 1. It is held back, and the clock of P2 stays (0,0,0). P0 has "
            .. "nothing to wait for."},
        {4500, "m arrives. Now both can be delivered, m first."},
    },
}
