-- SPDX-License-Identifier: MIT
-- Voting: a resource has three coordinators, found by hashing its name; two votes let one in
local sim = require "mare.sim"

local NODES, NAME, REPLICAS = 6, 11, 3
local homes = sim.replicas(NODES, NAME, REPLICAS)

return {
    title = "Voting among replicas of a resource (Lin et al.; Tanenbaum and Van Steen, 6.3.3)",
    text = ([[
The resource is called 11 and has n = 3 replicas, each with a coordinator: the first node at or
after the hash of "11-i" on a ring of nodes. Everybody can work that out: 11-0 is with %d, 11-1
with %d, 11-2 with %d. To enter, m = 2 votes are needed, more than half. Who is denied gives back
the votes that it has, and tries again after a random while.]]):format(table.unpack(homes)),
    algorithm = "voting",
    n = NODES,
    params = {repair = 0, queue = 0, replicas = REPLICAS, votes = 2, name = NAME},
    network = {delay = "fixed", delay_us = 1000},
    requests = {
        {0, "enter", at_us = 1000, hold_us = 7000},
        {3, "enter", at_us = 2500, hold_us = 2000},
    },
    seed = 2,
    notes = {
        {1000, "0 asks two of the coordinators. Each votes for it: 3m = 6 messages with the "
            .. "RELEASEs."},
        {2500, "3 asks as well. A coordinator has one vote, and says so with DENY: 3 cannot "
            .. "get two."},
        {3500, "The one that has not voted votes for 3, the other does not."},
        {4500, "3 gives back what it has, so as not to be in the way, and waits for a "
            .. "random while."},
        {10000, "0 goes out, and gives its votes back."},
        {11500, "3 tries again, first where it had a vote, and now has two: k = 2 attempts, "
            .. "3mk = 12."},
    },
}
