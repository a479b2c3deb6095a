-- SPDX-License-Identifier: MIT
-- The crash of ricart-crash with the repair: every request is answered, and the dead are left out
return {
    title = "Ricart–Agrawala: answer always, leave out the dead (Tanenbaum and Van Steen, 6.3.4)",
    text = [[
As in ricart-crash, process 2 dies and 0 and 1 ask. Now who will not let another one in yet says
so (DENY), and silence means something: ask again, and if the detector says that it is down, do
without its permission.]],
    algorithm = "ricart",
    n = 3,
    params = {retry_us = 5000},
    network = {delay = "fixed", delay_us = 1000},
    detect_us = 7000,
    faults = "crash:2@1500+0",
    requests = {
        {0, "enter", at_us = 2000, hold_us = 2000},
        {1, "enter", at_us = 3000, hold_us = 2000},
    },
    duration_us = 30000,
    notes = {
        {2000, "0 asks both others, then 1 does. 2 is dead."},
        {4000, "Both have the stamp 1, and 0 comes first by its number: it does not let 1 in, "
            .. "but it says so."},
        {7000, "2 has said nothing for 5 ms: it is asked again, and stays silent."},
        {8500, "The detectors say that 2 is down. 0 has the permission of all that live."},
    },
}
