-- SPDX-License-Identifier: MIT
-- Ten nodes in an ad hoc network: a calls, g reports h with capacity 8 to b, h is elected
local NODES = "abcdefghij"
local CAPACITY = {[0] = 4, 6, 3, 2, 1, 4, 2, 8, 5, 4}
local LINKS = "ab aj bc bg cd ce df ef eg fi gh gj hi"

local C = NODES:find "c" - 1

local names, members, neighbours = {}, {}, {}
for i = 0, #NODES - 1 do
    names[i] = NODES:sub(i + 1, i + 1)
    members[i] = {capacity = CAPACITY[i]}
end
for a, b in LINKS:gmatch "(%a)(%a)" do
    neighbours[a .. b], neighbours[b .. a] = true, true
end

return {
    title = "An election in a wireless network (Tanenbaum and Van Steen, figure 6.21)",
    text = [[
Ten nodes a … j (in messages 0 … 9) hear only their neighbours: ab aj bc bg cd ce df ef eg fi gh
gj hi. Each has a capacity, say what is left of its battery; the best one is to lead: a 4, b 6, c
3, d 2, e 1, f 4, g 2, h 8, i 5, j 4. ELECTION builds a tree: the first one that a node hears
makes the sender its parent. Who asks one that has a parent already gets ACK. When all neighbours
have answered, a node sends its parent REPORT, with the best node below it.]],
    algorithm = "wireless",
    n = 10,
    names = names,
    members = members,
    params = {repair = 0},
    linked = function(a, b) return neighbours[names[a] .. names[b]] or false end,
    network = {delay = "fixed", delay_us = 1000},
    -- c is slow, so that e hears g first and f hears e first, as in the figure.
    route = function(message) if message.from == C then return 1400 end end,
    requests = {{0, "elect", at_us = 1000}},
    notes = {
        {1000, "(b) a calls, and asks b and j."},
        {2000, "(c) b asks c and g; j asks g, which will have heard b first."},
        {3000, "(d) g, now a child of b, asks e, h and j; c asks d and e. The question of j "
            .. "comes too late: g has a parent, and sends ACK."},
        {4000, "(e) e, child of g, asks c and f; h asks i."},
        {5000, "The last ones ask, f and i among them. Everybody has a parent now."},
        {6000, "(f) Answers go up the tree: the best node below, and its capacity. Watch h "
            .. "(7): from i it hears of 5, is better itself, and tells g; g, with 4 from e, "
            .. "tells b: h, 8."},
        {11000, "a has heard from b and j: h, with 8, is the best of all. LEADER is passed "
            .. "on to all."},
    },
}
