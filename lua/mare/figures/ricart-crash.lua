-- SPDX-License-Identifier: MIT
-- A crash stops Ricart-Agrawala as the sources have it: nobody enters any more
return {
    title = "Ricart–Agrawala: one crash and nobody enters (the weak point that the sources name)",
    text = [[
Process 2 dies. Its silence cannot be told from a "wait", so 0 and 1 wait for ever. With repair = 1
every request is answered and the dead are left out.]],
    algorithm = "ricart",
    n = 3,
    params = {repair = 0},
    network = {delay = "fixed", delay_us = 1000},
    faults = "crash:2@1500+0",
    requests = {
        {0, "enter", at_us = 2000},
        {1, "enter", at_us = 3000},
    },
    settle_us = 100000,
    expect = "EM2",
}
