-- SPDX-License-Identifier: MIT
-- The holder of the token dies with it: the others make exactly one anew
return {
    title = "A lost token is replaced by exactly one (the weak point of figure 6.16, repaired)",
    text = [[
Each hop is acknowledged, so that one who is dead is noticed and passed over. If it had the token,
somebody must make a new one, and only one. The highest member that is left opens a new epoch and
asks all others; who answers will accept no token of an older epoch. When all have answered, the
old token cannot be with anybody, nor can it come back.]],
    algorithm = "token",
    n = 4,
    params = {rest_us = 2000, retry_us = 5000},
    network = {delay = "fixed", delay_us = 1000},
    detect_us = 2000,
    faults = "crash:1@3500+0",
    requests = {{3, "enter", at_us = 2000, hold_us = 1500}},
    duration_us = 14000,
    notes = {
        {2000, "0 passes the token to 1. 3 begins to wait."},
        {3500, "1 dies, and the token with it."},
        {5500, "The others hear of it. 3, the highest, asks whether anybody is inside."},
        {7500, "Nobody is: 3 makes a token of epoch 3 and, as it was waiting, goes in."},
        {9200, "The new token goes round without 1. The upper half of its fencing numbers is "
            .. "its epoch."},
    },
}
