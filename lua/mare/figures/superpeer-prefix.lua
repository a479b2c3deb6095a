-- SPDX-License-Identifier: MIT
-- Superpeers in a distributed hash table, m = 8 and k = 3: who answers for id AND 11100000
local sim = require "mare.sim"

local NODES, BITS, PREFIX = 16, 8, 3
local MASK = ((1 << PREFIX) - 1) << (BITS - PREFIX)

local function binary(number)
    local digits = {}
    for bit = BITS - 1, 0, -1 do digits[#digits + 1] = number >> bit & 1 end
    return table.concat(digits)
end

local places, names, requests = sim.places("superpeer-dht", NODES, 0, BITS), {}, {}
for i = 0, NODES - 1 do
    names[i] = binary(places[i])
    requests[i + 1] = {i, "elect", at_us = 1000}
end

-- How many nodes each superpeer serves, and how many superpeers there are.
local function loads(chosen)
    local load, count, most = {}, 0, 0
    for _, superpeer in pairs(chosen) do
        if not load[superpeer] then count = count + 1 end
        load[superpeer] = (load[superpeer] or 0) + 1
        most = math.max(most, load[superpeer])
    end
    return count, most
end

local function remember(event, seen)
    if event.what == "elected" then seen[event.process] = event.peer end
end

-- With every identifier taken the book's formula is exact.
local function full_circle()
    local all = {}
    for i = 0, 255 do all[i + 1] = {i, "elect", at_us = 1000} end
    local outcome = sim.run {algorithm = "superpeer-dht", n = 256, requests = all,
                             params = {repair = 0, bits = BITS, prefix = PREFIX}, see = remember}
    local count, most = loads(outcome.seen)
    return ("N = 256, every identifier taken: %d superpeers, as 2^(k-m) N says, %d nodes at most "
        .. "for each, %.1f messages a lookup"):format(count, most, outcome.sent / 256)
end

return {
    title = "Superpeers by a prefix of identifiers (Tanenbaum and Van Steen, 6.5.3)",
    text = [[
Sixteen nodes of a Chord ring, called by their identifiers of m = 8 bits. The first k = 3 bits are
reserved: the superpeer of a node is the one responsible for id AND 11100000, which is the first
node at or after that key, round the circle. A node looks it up; whose own lookup ends with itself
is a superpeer. LOOKUP goes along fingers, half of the way that is left at least; FOUND goes
straight back.]],
    algorithm = "superpeer-dht",
    n = NODES,
    names = names,
    params = {repair = 0, bits = BITS, prefix = PREFIX},
    network = {delay = "fixed", delay_us = 1000},
    requests = requests,
    see = remember,
    notes = {
        {1000, "All look up. Those responsible for their own pattern find that without a "
            .. "message."},
        {2000, "The others are passed on. A key is a pattern: 0, 32, 64 … 224 are 000, 001, "
            .. "010 … 111 with five zeros behind them; origin is the asking node."},
    },
    report = function(outcome)
        local order, lines = {}, {"identifier  AND 11100000  superpeer"}
        for i = 0, NODES - 1 do order[i + 1] = i end
        table.sort(order, function(a, b) return places[a] < places[b] end)
        for _, i in ipairs(order) do
            lines[#lines + 1] = ("%s    %s      %s%s"):format(names[i], binary(places[i] & MASK),
                names[outcome.seen[i]], outcome.seen[i] == i and "  itself" or "")
        end
        lines[#lines + 1] = ("N = 16: %d superpeers, %d nodes at most for each")
            :format(loads(outcome.seen))
        lines[#lines + 1] = full_circle()
        return table.concat(lines, "\n")
    end,
}
