-- SPDX-License-Identifier: MIT
-- A booking service in five mechanisms: offices answer calls (rpc), no two sell at the same moment
-- (monitor), an office sells only while it is open (sc), the ferry is never overbooked
-- (synchronizer), what was sold is published (pubsub), and tickets wait to be collected (tuple).
local mare, rpc = require "mare", require "mare.rpc"
local monitor, pubsub, tuple = require "mare.monitor", require "mare.pubsub", require "mare.tuple"

local SEATS, OFFICES, CLIENTS = 12, 3, 4
local counter, news, shelf = monitor.create(), pubsub.create(), tuple.create()

local function office(name)
    local m, sc, open = require "mare.monitor", require "mare.sc", false

    function set_open(yes) open = yes end

    book = m.doWhenFree(counter, function(client) -- one booking at a time, in all offices together
        shelf:out("ticket", client, name, m.fence(counter))
        news:publish("sold/" .. name, client)
        return name
    end)

    sc.add_constraint("book", function() return open end)
    require "mare.rpc".serve()
end

-- Counts what all offices sell, and lets none sell more.
local function ferry(offices, ready)
    local synchronizer, sold = require "mare.synchronizer", 0
    for _, it in ipairs(offices) do
        synchronizer.add_constraint(it, "book", function() return sold < SEATS end)
        synchronizer.add_trigger(it, "book", function() sold = sold + 1 end)
    end
    ready:send(true)
end

local offices, ready = {}, mare.channel()
for i = 1, OFFICES do offices[i] = mare.spawn(office, "office " .. i) end
local rules = mare.spawn(ferry, offices, ready)
ready:receive()

local sub = news:subscribe("sold/#", {size = 100})
local clients = {}
for c = 1, CLIENTS do
    clients[c] = mare.spawn(function()
        local r = require "mare.rpc"
        for k = 1, SEATS // CLIENTS do
            assert(r.sync(offices[(c + k) % OFFICES + 1], "book")(c))
        end
        return SEATS // CLIENTS
    end)
end

rpc.all(offices, "set_open")(true) -- the callers have waited for that
local sold = 0
for c = 1, CLIENTS do sold = sold + select(2, clients[c]:join()) end
print("sold", sold, "of", SEATS)
print("one more", select(3, rpc.sync(offices[1], "book", 0.05)(99)))

local collected, last, growing = 0, 0, true
while true do
    local _, _, _, fence = shelf:inp("ticket", tuple.integer, tuple.string, tuple.integer)
    if not fence then break end
    growing = growing and fence > last
    collected, last = collected + 1, fence
end
print("tickets", collected, "in the order in which they were sold", growing)

local told = 0
while sub:receive(0) do told = told + 1 end
print("told of", told)

rules:kill()
rules:join()
print("without its rules nobody sells", (select(3, rpc.sync(offices[1], "book", 5)(1))))
mare.exit()
