-- SPDX-License-Identifier: MIT
-- Tokens that repel each other spread in the plane; who keeps one for long enough is a superpeer
local sim = require "mare.sim"

local NODES, TOKENS, SALT = 9, 2, 26

-- Who has a superpeer, and which; and the ways of the tokens.
local function remember(event, seen)
    if event.what == "elected" then seen[event.process] = event.peer end
end

local function remember_ways(event, seen)
    remember(event, seen)
    seen.ways = seen.ways or {}
    if event.what == "mark" then
        seen.moves = event.process -- by what it sends next
    elseif event.what == "sent" and event.process == seen.moves then
        table.insert(seen.ways, {from = event.process + 1, to = event.peer + 1, kind = "way"})
        seen.moves = nil
    end
end

local function distance(places, a, b)
    local dx, dy = places[a][1] - places[b][1], places[a][2] - places[b][2]
    return math.sqrt(dx * dx + dy * dy)
end

local function superpeers(seen)
    local is = {}
    for node, superpeer in pairs(seen) do
        if math.type(node) then is[superpeer] = true end
    end
    local list = {}
    for superpeer in pairs(is) do list[#list + 1] = superpeer end
    table.sort(list)
    return list
end

-- The mean way of a node to the nearest of the chosen, the way between their nearest two, and how
-- many nodes are nearest to one of them at most.
local function measure(places, n, chosen)
    local way, gap, load, most = 0, math.huge, {}, 0
    for i = 0, n - 1 do
        local best
        for _, c in ipairs(chosen) do
            if not best or distance(places, i, c) < distance(places, i, best) then best = c end
        end
        way = way + distance(places, i, best) / n
        load[best] = (load[best] or 0) + 1
        most = math.max(most, load[best])
    end
    for i, a in ipairs(chosen) do
        for j = i + 1, #chosen do gap = math.min(gap, distance(places, a, chosen[j])) end
    end
    return way, gap, most
end

-- The plane from above: a node is its number, in brackets if it has a token.
local function map(places, chosen)
    local rows, has = {}, {}
    for _, c in ipairs(chosen) do has[c] = true end
    for y = 1, 9 do rows[y] = {} for x = 1, 48 do rows[y][x] = " " end end
    for i = 0, NODES - 1 do
        local x, y = 2 + places[i][1] * 44 // 1024, 1 + places[i][2] * 9 // 1024
        rows[y][x] = tostring(i)
        if has[i] then rows[y][x - 1], rows[y][x + 1] = "(", ")" end
    end
    for y = 1, 9 do rows[y] = "  | " .. table.concat(rows[y]) .. " |" end
    return table.concat(rows, "\n")
end

-- Three panels: who has a token at first, where each goes, and who ends as a superpeer of whom.
local function panels_of(outcome)
    local places, seen = sim.places("superpeer-tokens", NODES, SALT, 2), outcome.seen
    local function nodes_with(mark, list)
        local nodes = {}
        for i = 0, NODES - 1 do
            nodes[i + 1] = {x = places[i][1], y = places[i][2], name = i}
        end
        for _, i in ipairs(list) do nodes[i + 1].mark = mark end
        return nodes
    end
    local belongs = {}
    for i = 0, NODES - 1 do
        if seen[i] and seen[i] ~= i then
            belongs[#belongs + 1] = {from = i + 1, to = seen[i] + 1, kind = "weak"}
        end
    end
    return {
        {title = "Two tokens, at nodes picked at random", nodes = nodes_with("token", {0, 1})},
        {title = "Each pushes the other away", nodes = nodes_with("token", {0, 1}),
            lines = seen.ways},
        {title = "Superpeers, and the nodes that are theirs",
            nodes = nodes_with("leader", superpeers(seen)), lines = belongs},
    }
end

-- The four requirements, on a larger network.
local function requirements()
    local n, tokens, seed_nodes = 256, 8, {}
    for i = 0, tokens - 1 do seed_nodes[i + 1] = i end
    local outcome = sim.run {algorithm = "superpeer-tokens", n = n, requests = {},
                             params = {tokens = tokens, salt = SALT}, duration_us = 3000000,
                             see = remember}
    local places = sim.places("superpeer-tokens", n, SALT, 2)
    local chosen = superpeers(outcome.seen)
    local way, gap, most = measure(places, n, chosen)
    local way_before, gap_before, most_before = measure(places, n, seed_nodes)
    return table.concat({
        "256 nodes and 8 tokens, a square of side 1,024   began   rest",
        ("  low latency: mean way to a superpeer         %6.0f %6.0f"):format(way_before, way),
        ("  even spread: way between the nearest two     %6.0f %6.0f"):format(gap_before, gap),
        ("  set proportion: superpeers                   %6d %6d"):format(tokens, #chosen),
        ("  bounded load: most nodes of one superpeer    %6d %6d"):format(most_before, most),
    }, "\n")
end

return {
    title = "Tokens with repulsion forces (Tanenbaum and Van Steen, figure 6.22)",
    text = [[
Nine nodes at places in a plane, two tokens at nodes that were picked at random (0 and 1). A token
pushes every other one away, harder when it is near. Each node has a table of where the tokens
are, and sends it to a random other one in each period (GOSSIP). A holder that finds the sum of
the forces above a threshold sends its token on, to a node in the direction of that sum. Who has
kept one for some periods promotes itself: superpeer of the nodes that are nearest to it.]],
    algorithm = "superpeer-tokens",
    n = NODES,
    params = {tokens = TOKENS, salt = SALT, hold = 3},
    network = {delay = "fixed", delay_us = 1000},
    requests = {},
    duration_us = 140000,
    see = remember_ways,
    map = panels_of,
    notes = {
        {1, "Everybody gossips. The number after + is the length of the table in bytes, 12 "
            .. "a token."},
        {12500, "0 holds a token and has another one beside it: its token goes to 4, up in "
            .. "the plane."},
        {16000, "1 does not know that yet, and sends its own off too: to 3, on the left."},
        {17700, "Now they rest, for neither is pushed hard any more. Gossip tells "
            .. "everybody."},
        {81000, "3 and 4 have kept theirs for three periods: they are superpeers, and the "
            .. "word spreads. Each node takes the nearer one. As long as it knows only one "
            .. "of them, it takes that."},
    },
    report = function(outcome)
        local places = sim.places("superpeer-tokens", NODES, SALT, 2)
        return table.concat({
            "Where the tokens began:", map(places, {0, 1}),
            "Where they rest, with the superpeers:", map(places, superpeers(outcome.seen)),
            "", requirements(),
        }, "\n")
    end,
}
