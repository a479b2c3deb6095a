-- SPDX-License-Identifier: MIT
-- select: wait for whatever comes first. Here: readings from two sensors, the end of a process,
-- and time running out.
local mare = require "mare"

local warm, cold, go = mare.channel(), mare.channel(), mare.channel()
mare.spawn(function() go:receive() warm:send(31.5) end)
mare.spawn(function() go:receive() cold:send(-4) end)

local seen = {}
for _ = 1, 2 do
    go:send(true)
    local which, degrees = mare.select {warm, cold}
    seen[which] = degrees
end
print("warm", seen[1], "cold", seen[2])

-- A process in the list means its end; what follows the index is what join returns.
local job = mare.spawn(function() return "done", 42 end)
print(mare.select {warm, job})

-- A table {channel, values...} is a send. The first case that can go on does.
local out = mare.channel(1)
print(mare.select {warm, {out, "stored"}})
print(out:receive())

-- Nothing comes: the deadline passes. A timeout of 0 only looks.
print(mare.select({warm, cold}, 0.01))
print(mare.select({warm, cold}, 0))

-- A closed channel is always ready, and says so.
cold:close()
print(mare.select {warm, cold})
