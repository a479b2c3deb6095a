-- SPDX-License-Identifier: MIT
-- The bully algorithm when one direction fails: two leaders at once, never of one epoch
return {
    title = "Two leaders at once, of different epochs (bully, one-way loss)",
    text = [[
What 1, 2 and 3 send to 0 is lost for a while; what 0 sends arrives. The algorithm takes silence
for death, so 0 ends up leading although 3 is there. An epoch is a count times four, plus the
leader: 4 is an epoch of 0, 7 one of 3, and nobody who has heard of 7 follows 4.]],
    algorithm = "bully",
    n = 4,
    params = {repair = 0, answer_us = 4000},
    network = {delay = "fixed", delay_us = 1000},
    detector = "none",
    faults = "one-way:1.2.3@500+11500",
    requests = {
        {0, "elect", at_us = 1000},
        {3, "elect", at_us = 13000},
    },
    notes = {
        {1000, "0 calls, and is heard by all three."},
        {2000, "All answer, and no answer arrives. 3 takes the lead, in epoch 7; 1 and 2 hear of "
            .. "it, 0 does not."},
        {5000, "0 has heard nobody for 4 ms, and takes the lead in epoch 4. The others have a "
            .. "later one and stay with 3. Now 0 and 3 both lead: work of epoch 4 is "
            .. "refused by those that have seen work of epoch 7."},
        {12000, "The network is whole again. The next COORDINATOR of 3 ends it."},
    },
}
