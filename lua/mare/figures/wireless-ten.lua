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

-- Where they are on the map: column and row.
local PLACES = {a = {3, 5}, b = {14, 1}, c = {31, 1}, d = {48, 1}, e = {36, 5}, f = {54, 5},
                g = {20, 5}, h = {31, 9}, i = {47, 9}, j = {12, 9}}

-- The first message that a node gets is that of its parent; what was asked and reported, and when;
-- and who leads.
local function remember(event, seen)
    seen.asked, seen.told = seen.asked or {}, seen.told or {}
    if event.what == "message" and event.process ~= 0 then
        seen[event.process] = seen[event.process] or event.peer
    elseif event.what == "sent" and event.message.kind == "ELECTION" then
        table.insert(seen.asked, {from = event.peer, by = event.process, at_us = event.time_us})
    elseif event.what == "sent" and event.message.kind == "REPORT" then
        table.insert(seen.told, {from = event.process + 1, to = event.peer + 1, kind = "way",
            text = ("%s, %d"):format(names[event.message.best], event.message.capacity)})
    elseif event.what == "elected" then
        seen.leader = event.peer
    end
end

-- A line of letters between two nodes.
local function connect(rows, a, b, letter)
    local x, y = PLACES[a][1], PLACES[a][2]
    local dx, dy = PLACES[b][1] - x, PLACES[b][2] - y
    local steps = math.max(math.abs(dx) // 2, math.abs(dy))
    for i = 1, steps - 1 do
        rows[(y + dy * i / steps + 0.5) // 1][(x + dx * i / steps + 0.5) // 1] = letter
    end
end

-- The network from above: who hears whom, the tree that ELECTION has built, and capacities.
local function map(seen)
    local rows = {}
    for y = 1, 9 do
        rows[y] = {}
        for x = 1, 58 do rows[y][x] = " " end
    end
    for a, b in LINKS:gmatch "(%a)(%a)" do connect(rows, a, b, ".") end
    for i = 1, #NODES - 1 do connect(rows, names[seen[i]], names[i], "*") end
    for i = 0, #NODES - 1 do
        local x, y = table.unpack(PLACES[names[i]])
        local form = i == seen.leader and "(%s%d)" or " %s%d "
        for letter in form:format(names[i], CAPACITY[i]):gmatch "." do
            rows[y][x - 1], x = letter, x + 1
        end
    end
    for y = 1, 9 do rows[y] = ("  | " .. table.concat(rows[y]) .. " |") end
    return table.concat(rows, "\n")
end

-- The six panels of the figure: the network, four steps of building the tree, and the reports. An
-- arrow is the way of a call; blue: the one by which a node got its parent.
local STEPS = {{"(a) the network", 0}, {"(b) a calls", 1000}, {"(c) b and j call", 2000},
               {"(d) c and g call", 3000}, {"(e) d, e and h call", 4400}}

local function panels_of(outcome)
    local seen, nodes, links, list = outcome.seen, {}, {}, {}
    for i = 0, #NODES - 1 do
        local x, y = table.unpack(PLACES[names[i]])
        nodes[i + 1] = {x = x, y = y, name = names[i], note = CAPACITY[i]}
    end
    for a, b in LINKS:gmatch "(%a)(%a)" do
        links[#links + 1] = {from = NODES:find(a), to = NODES:find(b), kind = "link"}
    end
    local function panel(title, until_us)
        local lines = table.move(links, 1, #links, 1, {})
        for _, call in ipairs(seen.asked) do
            local is_parent = seen[call.from] == call.by
            if call.at_us <= until_us then
                lines[#lines + 1] = {from = call.by + 1, to = call.from + 1,
                    kind = is_parent and "tree" or "way"}
            end
        end
        list[#list + 1] = {title = title, nodes = nodes, lines = lines}
    end
    for _, step in ipairs(STEPS) do panel(table.unpack(step)) end
    local last, lines = table.move(nodes, 1, #nodes, 1, {}), {}
    for i, link in ipairs(links) do lines[i] = link end
    for _, report in ipairs(seen.told) do lines[#lines + 1] = report end
    local best = seen.leader + 1
    last[best] = {x = nodes[best].x, y = nodes[best].y, name = nodes[best].name,
        note = nodes[best].note, mark = "leader"}
    list[#list + 1] = {title = "(f) each tells its parent the best below it", nodes = last,
        lines = lines}
    return list
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
    see = remember,
    map = panels_of,
    report = function(outcome)
        return "The network with the tree (*), each node with its capacity, the leader in "
            .. "brackets:\n" .. map(outcome.seen)
    end,
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
