-- SPDX-License-Identifier: MIT
-- A token goes round a ring of eight: who wants in waits for it, and lets it go before asking again
return {
    title = "A token ring (Tanenbaum and Van Steen, figure 6.16)",
    text = [[
Eight processes in a logical ring. Process 0 has the token first; it goes from k to k + 1, modulo
8. Only who has it may enter, so nobody has to be asked. While nobody wants in it goes round for
nothing: messages for an entry can be one (all want in, always) or without end (nobody does).]],
    algorithm = "token",
    n = 8,
    params = {repair = 0, rest_us = 0},
    network = {delay = "fixed", delay_us = 1000},
    requests = {
        {2, "enter", at_us = 500, hold_us = 1500},
        {5, "enter", at_us = 2500, hold_us = 1000},
        {2, "enter", at_us = 4000, hold_us = 1000},
    },
    duration_us = 14000,
    notes = {
        {1, "0 did not want in, and has passed the token on at once."},
        {500, "2 wants in, and waits until the token comes by."},
        {2000, "It is there: 2 goes in and keeps the token. Meanwhile 5 begins to wait."},
        {3500, "2 goes out and passes the token on."},
        {4000, "2 wants in again, just after it has let the token go, and must wait for a "
            .. "whole round: nobody enters twice with one visit of the token, and so nobody "
            .. "starves."},
        {6500, "It reaches 5, which goes in."},
        {12500, "Round the ring, and 2 has its second turn."},
    },
}
