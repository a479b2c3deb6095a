-- SPDX-License-Identifier: MIT
-- A 10 ms timer in one process while another computes without end, one worker: how late it is.
--
--   p50_ms, p99_ms, max_ms   lateness of the wake-up beyond the 10 ms
--
-- usage: mare timer.lua [ticks]
local mare = require "mare"
local ticks = tonumber(arg[1]) or 500
mare.workers(1)

local spinner = mare.spawn(function()
  while true do end
end)

local clock = mare.spawn(function()
  local late = {}
  for i = 1, ticks do
    local start = mare.now()
    mare.sleep(0.010)
    late[i] = (mare.now() - start - 0.010) * 1e3
  end
  table.sort(late)
  return late
end)

local ok, late = clock:join()
assert(ok, late)
assert(spinner:alive(), "the other process did not spin")

local function quantile(q)
  return late[math.max(1, math.ceil(q * #late))]
end

print(("p50_ms %.3f"):format(quantile(0.50)))
print(("p99_ms %.3f"):format(quantile(0.99)))
print(("max_ms %.3f"):format(late[#late]))
spinner:kill()
