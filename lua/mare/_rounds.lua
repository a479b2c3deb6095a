-- SPDX-License-Identifier: MIT
-- What the figures ring-two-rounds and ring-one-round have in common: eight processes on a ring, 7
-- has died and everybody has been told, 2 and 5 call at the same time.
return function(figure, single)
    figure.algorithm = "ring"
    figure.n = 8
    figure.params = {repair = 0, single = single}
    figure.network = {delay = "fixed", delay_us = 1000}
    figure.detect_us = 500
    figure.faults = "crash:7@100+0"
    figure.requests = {
        {2, "elect", at_us = 2000},
        {5, "elect", at_us = 2000},
    }
    return figure
end
