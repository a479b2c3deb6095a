-- SPDX-License-Identifier: MIT
-- Virtual synchrony: a crash in the middle of a multicast, and all survivors have it or none
return {
    title = "A crash in the middle of a multicast (Tanenbaum and Van Steen, 8.4.3)",
    text = [[
A view is the group that all of it agree on. Who dies leaves it, and the others agree on the next
one; before they go there together, they make sure that all have delivered the same in the old
one. Here 0 dies when m has reached 1 alone: all survivors get it. Then 1 dies when n has reached
nobody: none has it.]],
    algorithm = "views",
    n = 4,
    network = {delay = "fixed", delay_us = 1000},
    detect_us = 2000,
    -- What the network loses: m on its way to 2 and 3, n altogether.
    route = function(message)
        if message.kind ~= "CAST" then return end
        if message.from == 1 or message.to > 1 then return false end
    end,
    faults = "crash:0@1500+0,crash:1@21500+0",
    requests = {
        {0, "multicast", data = "m", at_us = 1000},
        {1, "multicast", data = "n", at_us = 21000},
    },
    duration_us = 40000,
    notes = {
        {1000, "0 multicasts m, and delivers it to itself. Two of the three copies are lost "
            .. "on the way."},
        {1500, "0 dies: it will not send them again. 1 has m, 2 and 3 do not."},
        {3400, "1 is the lowest member that is left. When it hears of the death it asks the "
            .. "others what they have (PROPOSE, STATE), tells them what there is (CUT), "
            .. "and sends what they lack\n(NEED, COPY). When all are READY, all go to the "
            .. "next view (INSTALL)."},
        {21000, "1 multicasts n, which reaches nobody, and dies."},
        {23400, "Now 2 leads the change. Nobody alive has n: the view ends without it, for "
            .. "all of them."},
    },
}
