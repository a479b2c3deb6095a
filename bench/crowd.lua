-- SPDX-License-Identifier: MIT
-- A process that sleeps for 1 ms, again and again, beside endless loops, on all cores.
--
--   spawn_ms           to make all the loops
--   worst_ms, p99_ms   how long a sleep took, of all of them
--
-- usage: mare crowd.lua [loops [seconds]]
local mare = require "mare"
local loops, seconds = tonumber(arg[1] or 1000), tonumber(arg[2] or 10)

local start = mare.now()
for _ = 1, loops do
  mare.spawn(function() while true do end end)
end
print(("spawn_ms %.3f"):format((mare.now() - start) * 1e3))

local taken, till = {}, mare.now() + seconds
repeat
  local before = mare.now()
  mare.sleep(0.001)
  taken[#taken + 1] = mare.now() - before
until mare.now() > till
table.sort(taken)
print(("worst_ms %.3f"):format(taken[#taken] * 1e3))
print(("p99_ms %.3f"):format(taken[math.ceil(0.99 * #taken)] * 1e3))
os.exit(0)
