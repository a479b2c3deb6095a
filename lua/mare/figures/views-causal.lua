-- SPDX-License-Identifier: MIT
-- Causal order when members die: what depends on a lost message is lost with it, for all
return {
    title = "Causally ordered multicast in views (Tanenbaum and Van Steen, 8.4.3)",
    text = [[
m* is multicast by one that has delivered m, and must not be delivered without it. When the sender
of m dies, the survivors get m from whoever has it, and then m*. When nobody is left that has it,
they have m* in their hands, and none delivers it: there is nothing to deliver before it. In
brackets: the vector clock, which counts the messages of the present view.]],
    algorithm = "views",
    n = 5,
    params = {order = 1},
    network = {delay = "fixed", delay_us = 1000},
    detect_us = 2000,
    -- What the network loses: m on its way to all but 1, and n to all but 2.
    route = function(message)
        if message.kind ~= "CAST" then return end
        if message.from == 0 and message.to ~= 1 then return false end
        if message.from == 1 and message.time_us > 20000 and message.to ~= 2 then return false end
    end,
    faults = "crash:0@4500+0,crash:1@24500+0,crash:2@24500+0",
    requests = {
        {0, "multicast", data = "m", at_us = 1000},
        {1, "multicast", data = "m*", at_us = 3000},
        {1, "multicast", data = "n", at_us = 21000},
        {2, "multicast", data = "n*", at_us = 23000},
    },
    duration_us = 45000,
    notes = {
        {1000, "0 multicasts m. Three of the four copies are lost on the way."},
        {3000, "1 has delivered m, and multicasts m*. It carries one pair: of 0, one message."},
        {4000, "At 2, 3 and 4 m* is held back, for they have none of 0."},
        {4500, "0 dies: it will not send m again."},
        {6400, "1 leads the change. The others lack m, and get a copy of it; when the view ends "
            .. "they deliver m, then m*. In the new one all count from zero."},
        {21000, "1 multicasts n, which reaches 2 alone. 2 delivers it, and multicasts n*."},
        {24000, "3 and 4 hold n* back. Then 1 and 2, which had n, die."},
        {26400, "3 leads the change. It and 4 have n*, and n is nowhere any more: the view ends "
            .. "without either of them, for both."},
    },
}
