-- SPDX-License-Identifier: MIT
-- The booking service of 29_seats.lua on three nodes, each a program of its own. Offices in two of
-- them answer calls (rpc) under a lock (monitor), a rule and a counter that are kept here
-- (synchronizer), put tickets on a shelf here (tuple), and publish what they sell (pubsub). Then
-- one of the nodes is killed, and the others go on.
local mare, node, child = require "mare", require "mare.node", require "mare.child"

-- What runs in the offices: this same file, started again as another node.
if arg[1] == "office" then
    assert(node.start {name = arg[2], join = {arg[3]}})
    node.export("office", function(counter, news, shelf)
        local monitor, here = require "mare.monitor", mare.self():name()
        book = monitor.doWhenFree(counter, function(client)
            -- One at a time, on all nodes together.
            shelf:out("ticket", client, here, monitor.fence(counter))
            news:publish("sold/" .. here, client)
            return here
        end)
        require "mare.rpc".serve()
    end)
    mare.find "ready@harbour":send(arg[2])
    mare.sleep(3600)
end

local rpc, monitor = require "mare.rpc", require "mare.monitor"
local pubsub, tuple = require "mare.pubsub", require "mare.tuple"

local SEATS = 12
local address = assert(node.start {name = "harbour", listen = "127.0.0.1:0"})
local ready = mare.channel(2, "ready")
local counter, news, shelf = monitor.create(), pubsub.create(), tuple.create()

local programs, offices = {}, {}
for i, name in ipairs {"recife", "natal"} do
    programs[i] = assert(child.spawn {"/proc/self/exe", arg[0], "office", name, address,
        grace = 0})
end
for _ = 1, 2 do ready:receive(30) end
for i, name in ipairs {"recife", "natal"} do
    offices[i] = assert(mare.spawn({node = name, name = name}, "office", counter, news, shelf))
end

-- Counts what all offices sell, and lets none sell more.
local rules = mare.spawn(function()
    local synchronizer, sold = require "mare.synchronizer", 0
    for _, office in ipairs(offices) do
        synchronizer.add_constraint(office, "book", function() return sold < SEATS end)
        synchronizer.add_trigger(office, "book", function() sold = sold + 1 end)
    end
    ready:send "rules"
end)
ready:receive()

-- Four clients book at the same time, each at the offices in turn.
local function sell(seats, open)
    local clients, sold = {}, 0
    for c = 1, 4 do
        clients[c] = mare.spawn(function()
            local book = require "mare.rpc"
            for k = 1, seats // 4 do
                assert(book.sync(open[(c + k) % #open + 1], "book", 30)(c))
            end
            return seats // 4
        end)
    end
    for c = 1, 4 do sold = sold + select(2, clients[c]:join()) end
    return sold
end

local sub = news:subscribe("sold/#", {size = 100})
print("sold by two offices", sell(8, offices))
programs[2]:kill "KILL"
programs[2]:wait()
print("natal", select(3, rpc.sync(offices[2], "book", 30)(1)))
print("sold by the other", sell(4, {offices[1]}))
print("one more", select(3, rpc.sync(offices[1], "book", 0.1)(99)))

-- They come over two links, so perhaps in another order than that of the lock's numbers.
local tickets, numbers, apart = 0, {}, true
while true do
    local _, _, _, fence = shelf:inp("ticket", tuple.integer, tuple.string, tuple.integer)
    if not fence then break end
    tickets, apart, numbers[fence] = tickets + 1, apart and not numbers[fence], true
end
local told = 0
while told < tickets and sub:receive(10) do told = told + 1 end
print("tickets", tickets, "each under a number of its own", apart)
print("told of", told)

programs[1]:close()
rules:kill()
mare.exit()
