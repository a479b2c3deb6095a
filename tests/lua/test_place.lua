-- SPDX-License-Identifier: MIT
-- Positions and network coordinates from Lua: what is computed is tested in C; here is the binding.
local place, t = require "mare.place", require "t"

local function near(value, wanted, within)
    t.ok(math.abs(value - wanted) <= (within or 1e-6), ("%s is not %s"):format(value, wanted))
end

-- Nodes that probe each other; rtt[i][j] in milliseconds.
local function network(rtt, cycles)
    local nodes = {}
    for i = 1, #rtt do nodes[i] = place.vivaldi {dimensions = 2, seed = i} end
    for _ = 1, cycles do
        for i = 1, #rtt do
            for j = 1, #rtt do
                if i ~= j then
                    t.eq(nodes[i]:update("node " .. j, nodes[j]:here(), rtt[i][j]), true)
                end
            end
        end
    end
    return nodes
end

return {
    distance_is_points_plus_heights = function()
        t.eq(place.distance({0, 0, height = 1}, {3, 4, height = 2}), 8.0)
        t.eq(place.distance({}, {5}), 5.0)
    end,
    nodes_find_their_places = function()
        local rtt = {{0, 30, 40}, {30, 0, 50}, {40, 50, 0}}
        local nodes = network(rtt, 200)
        for i = 1, 3 do
            for j = 1, 3 do
                if i ~= j then near(nodes[i]:estimate(nodes[j]:here()), rtt[i][j], 3) end
            end
            t.eq(#nodes[i]:here(), 2)
            t.ok(nodes[i]:here().error < 0.2)
        end
    end,
    absurd_measurements_are_refused = function()
        local node = place.vivaldi()
        local before = node:here()
        for _, rtt in ipairs {0, -1, 0 / 0, 1 / 0, 10001} do
            local ok, message, code = node:update("x", {1, 2}, rtt)
            t.eq({ok, code}, {nil, "invalid"})
            t.ok(message:find "round trip")
        end
        t.eq(select(3, node:update("x", {0 / 0}, 5)), "invalid")
        t.eq(select(2, node:update("x", {1, height = -1}, 5)), "that cannot be a place")
        t.eq(node:here(), before)
    end,
    peers_are_any_value_and_can_be_forgotten = function()
        local node, key = place.vivaldi {dimensions = 3, neighbours = 8}, {}
        for _, peer in ipairs {"name", 7, 1.5, true, key} do
            t.ok(node:update(peer, {10, 0, 0, error = 0.1}, 20))
        end
        node:forget(key)
        node:forget "never seen"
        t.eq(node:choose {}, nil)
        t.eq(node:choose {"name"}, "name")
        local seen = {}
        for _ = 1, 100 do seen[node:choose {"name", 7, "new"}] = true end
        t.eq(seen, {name = true, [7] = true, new = true})
    end,
    landmarks_and_a_node = function()
        -- A square with a side of 10, and its centre.
        local d = math.sqrt(200)
        local marks, sum = place.landmarks {
            rtt = {{0, 10, d, 10}, {10, 0, 10, d}, {d, 10, 0, 10}, {10, d, 10, 0}},
            dimensions = 2}
        near(sum, 0, 1e-6)
        near(place.distance(marks[1], marks[3]), d, 1e-2)
        local centre, rest = place.locate {landmarks = marks, rtt = {d / 2, d / 2, d / 2, d / 2}}
        near(rest, 0, 1e-4)
        for i = 1, 4 do near(place.distance(centre, marks[i]), d / 2, 1e-2) end
        t.eq(select(3, place.locate {landmarks = marks, rtt = {5, 0, 0, 0}}), "invalid")
        t.eq(select(3, place.landmarks {rtt = {{0, 0}, {0, 0}}}), "invalid")
    end,
    a_fix_from_satellites = function()
        local sky = {{15600, 7540, 20140}, {18760, 2750, 18610}, {17610, 14630, 13480},
                     {19170, 610, 18390}, {-5000, 20000, 16000}}
        local here, bias, ranges = {0, 0, 6370}, 300, {}
        for i, at in ipairs(sky) do ranges[i] = place.distance(at, here) + bias end
        local fix = place.fix {references = sky, ranges = ranges}
        for k = 1, 3 do near(fix[k], here[k], 1e-3) end
        near(fix.bias, bias, 1e-3)
        t.ok(fix.dilution > 1 and fix.residual < 1e-3)
        local three = {references = {sky[1], sky[2], sky[3]}, ranges = {1, 2, 3}}
        t.eq({place.fix(three)}, {nil, "too few references", "invalid", 1 / 0})
        t.eq(select(2, place.fix {references = {{1}, {1}}, ranges = {1, 1}}), "geometry")
    end,
    two_circles = function()
        local spec = {references = {{-3, 4}, {3, 4}}, ranges = {5, 5}, bias = false}
        t.eq(select(2, place.fix(spec)), "ambiguous")
        spec.near = {0, -1}
        local fix = place.fix(spec)
        near(fix[1], 0)
        near(fix[2], 0)
    end,
    nearest_and_replicas = function()
        local sites = {{0}, {10}, {100}}
        t.eq(place.nearest({7}, sites), 2)
        t.eq(place.nearest({7}, {}), nil)
        local clients = {{1}, {2}, {99}, {98}}
        local chosen, mean = place.replicas {count = 2, clients = clients, sites = sites}
        table.sort(chosen)
        t.eq({chosen, mean}, {{1, 3}, 1.5})
        t.eq(place.replicas {count = 1, clients = clients, sites = sites, share = {0, 0, 1, 0}},
             {3})
    end,
    dead_ends = function()
        local here, target = {0, 0}, {10, 0}
        t.eq(place.next_hop(here, target, {{-1, 0}, {3, 3}, {2, 0}}), 2)
        t.eq(place.next_hop(here, target, {{-1, 0}, {0, 5}}), nil)
        t.eq(place.next_hop(here, target, {}), nil)
    end,
    lengths_that_cannot_be_are_refused = function()
        local function long(n)
            return setmetatable({}, {__len = function() return n end,
                                     __index = function() return {1} end})
        end
        local node = place.vivaldi()
        for _, n in ipairs {-1, math.mininteger, 100001, math.maxinteger} do
            local what = n < 0 and "negative" or "more than"
            t.raises(what, node.choose, node, long(n))
            t.raises(what, place.nearest, {1}, long(n))
            t.raises(what, place.next_hop, {1}, {2}, long(n))
            t.raises(what, place.distance, {1}, long(n))
            t.raises(what, place.landmarks, {rtt = long(n)})
            t.raises(what, place.locate, {landmarks = long(n), rtt = {}})
            t.raises(what, place.locate, {landmarks = {{1}, {2}}, rtt = long(n)})
            t.raises(what, place.fix, {references = long(n), ranges = {}})
            t.raises(what, place.fix, {references = {{1}}, ranges = long(n)})
            t.raises(what, place.replicas, {count = 1, clients = long(n), sites = {{1}}})
            t.raises(what, place.replicas, {count = 1, clients = {{1}}, sites = long(n)})
        end
    end,
    a_length_is_asked_once = function()
        local asked = 0
        local function growing()
            return setmetatable({}, {__len = function() asked = asked + 1 return asked * 4 end,
                                     __index = function() return {1} end})
        end
        place.fix {references = growing(), ranges = {1, 1, 1, 1}}
        t.eq(asked, 1)
    end,
    a_refused_update_keeps_no_name = function()
        local node, names = place.vivaldi {dimensions = 1}, setmetatable({}, {__mode = "k"})
        local function refused()
            for _ = 1, 10 do
                local peer = {}
                names[peer] = true
                t.eq(node:update(peer, {1}, -1), nil)
                t.eq(node:update(peer, {0 / 0}, 1), nil)
            end
        end
        refused()
        collectgarbage()
        collectgarbage()
        t.eq(next(names), nil)
        local known = {}
        t.ok(node:update(known, {1}, 5))
        names[known] = true
        t.eq(node:update(known, {1}, -1), nil) -- one that is known stays
        known = nil -- luacheck: ignore 311
        collectgarbage()
        t.ok(next(names))
    end,
    misuse_raises = function()
        t.raises("dimensions", place.vivaldi, {dimensions = 9})
        t.raises("neighbours", place.vivaldi, {neighbours = 1})
        t.raises("place", place.distance, 1, {})
        t.raises("at most 8", place.distance, {1, 2, 3, 4, 5, 6, 7, 8, 9}, {})
        t.raises("number", place.distance, {"x"}, {})
        t.raises("references", place.fix, {})
        t.raises("ranges", place.fix, {references = {{1}}, ranges = {}})
        t.raises("count", place.replicas, {count = 4, clients = {{1}}, sites = {{1}}})
        t.raises("fewer", place.landmarks, {rtt = {{0, 1}, {1, 0}}, dimensions = 2})
        t.raises("row", place.landmarks, {rtt = {1, 2, 3}})
        local node = place.vivaldi()
        t.raises("the height of a place must be a number", place.distance, {1, height = "x"}, {})
        local function refused(what, f, options)
            t.raises("test_place.lua:%d+: bad argument #1 to 'f' %(" .. what, function()
                f(options)
            end)
        end
        for _, f in ipairs {place.vivaldi, place.landmarks, place.locate, place.fix,
            place.replicas} do
            refused("unknown option 'colour'", f, {colour = 1})
            refused("unknown option '1'", f, {8})
        end
        for _, wrong in ipairs {{dimensions = 0}, {dimensions = 1.5}, {neighbours = "x"},
            {seed = -1}, {longest = 0}, {longest = "x"}} do
            refused(("option '%s' must be"):format((next(wrong))), place.vivaldi, wrong)
        end
        refused("option 'clients' must be a table, not a nil", place.replicas, {count = 1})
        t.raises("nil", node.update, node, nil, {}, 1)
        t.raises("node", node.update, {}, "x", {}, 1)
    end,
}
