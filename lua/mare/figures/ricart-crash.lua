-- SPDX-License-Identifier: MIT
-- A crash stops Ricart-Agrawala as the sources have it: nobody enters any more
return {
    title = "Ricart–Agrawala: one crash and nobody enters (the weak point that the sources name)",
    text = [[
Process 2 dies. Its silence cannot be told from a "wait", so 0 and 1 wait for ever. With repair =
1 every request is answered and the dead are left out.]],
    algorithm = "ricart",
    n = 3,
    params = {repair = 0},
    network = {delay = "fixed", delay_us = 1000},
    faults = "crash:2@1500+0",
    requests = {
        {0, "enter", at_us = 2000},
        {1, "enter", at_us = 3000},
    },
    notes = {
        {1500, "2 dies. As the sources have it, nobody takes note of deaths."},
        {2000, "0 asks both others, then 1 does. What they send to 2 finds nobody there."},
        {4000, "0 has the answer of 1, and 1 will never have that of 0, which was first. "
            .. "Both lack 2's."},
        {21000, "A detector tells both that 2 is down; without repair that changes nothing."},
    },
    settle_us = 100000,
    expect = "EM2",
}
