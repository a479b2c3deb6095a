-- SPDX-License-Identifier: MIT
-- The bank with three copies, one of which dies in the middle of its update: the others end equal
local apply = {
    deposit = function(balance) return balance + 100 end,
    interest = function(balance) return balance + balance // 100 end,
}

return {
    title = "Totally ordered multicast in views (Tanenbaum and Van Steen, 6.2.1 and 8.4.3)",
    text = [[
The deposit and the interest of bank-total, with a third copy. 0 dies when its deposit has reached
1 alone, and bank-total would stop there: nobody delivers before all have acknowledged. Here the
survivors agree on what there is, deliver it in the order of the stamps and go on without 0.]],
    algorithm = "views",
    n = 3,
    params = {order = 2},
    network = {delay = "fixed", delay_us = 1000},
    detect_us = 2000,
    -- What the network loses: the deposit on its way to 2.
    route = function(message)
        if message.kind == "CAST" and message.from == 0 and message.to == 2 then return false end
    end,
    faults = "crash:0@1500+0",
    requests = {
        {0, "multicast", data = "deposit", at_us = 1000},
        {1, "multicast", data = "interest", at_us = 1000},
        {2, "multicast", data = "interest", at_us = 15000},
    },
    duration_us = 25000,
    see = function(event, seen)
        if event.what == "deliver" then
            seen[event.process] = apply[event.data](seen[event.process] or 1000)
        end
    end,
    report = function(outcome)
        return ("balance   p1 %d, p2 %d"):format(outcome.seen[1], outcome.seen[2])
    end,
    notes = {
        {1000, "Both updates have the stamp 1; that of 0 comes first. One copy of the deposit is "
            .. "lost."},
        {1500, "0 dies: nobody will hear of it again."},
        {2000, "2 has the interest, and must not deliver it: something earlier may come from 0. 1 "
            .. "has both, and may not either: it does not know that 2 has the deposit."},
        {3400, "1 leads the change; 2 gets its copy of the deposit. At the end of the view both "
            .. "deliver the deposit, then the interest: 1,111."},
        {15000, "In the new view two are enough: the message, its acknowledgement, delivered. "
            .. "1,122."},
    },
}
