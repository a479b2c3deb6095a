-- SPDX-License-Identifier: MIT
-- A bag of tasks in a tuple space: workers come and go, and one that dies loses no task. Who wants
-- to know how it goes on subscribes to it.
local mare, tuple, pubsub = require "mare", require "mare.tuple", require "mare.pubsub"

local space, broker = tuple.create(), pubsub.create()

local function worker(name)
    local any = require "mare.tuple".any
    while true do
        local _, id, n = space:in_("task", any, any) -- waits for one; nobody else gets it
        if not id then return end
        space:out("result", id, n * n)
        broker:publish("work/" .. name .. "/done", id)
    end
end

local all = broker:subscribe("work/+/done", {size = 100})
local workers = {}
for i = 1, 3 do workers[i] = mare.spawn(worker, "w" .. i) end
for id = 1, 9 do space:out("task", id, id * 10) end

local sum = 0
for id = 1, 9 do
    local _, _, square = space:in_("result", id, tuple.integer)
    sum = sum + square
end
print("sum of squares", sum)

local seen = 0
for _ = 1, 9 do
    local topic = all:receive(5)
    if topic:find "^work/w[1-3]/done$" then seen = seen + 1 end
end
print("told of", seen)

for i = 1, 3 do workers[i]:kill() end
print("left", select(3, space:rdp("task", tuple.any, tuple.any)))
