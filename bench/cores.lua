-- SPDX-License-Identifier: MIT
-- Two processes that only compute, on one worker and then on two.
--
--   one_ms, two_ms   time until both have finished, the least of several turns
--   speedup          one_ms / two_ms
--
-- usage: mare cores.lua [work]
local mare = require "mare"
local turns = 5
local work = (tonumber(arg[1]) or 120) // turns

local function compute(n)
  local function fib(i)
    if i < 2 then return i end
    return fib(i - 1) + fib(i - 2)
  end
  local sum = 0
  for _ = 1, n do
    sum = sum + fib(25)
  end
  return sum
end

local function both(workers)
  mare.workers(workers)
  mare.sleep(0.01)
  local start = mare.now()
  local a, b = mare.spawn(compute, work), mare.spawn(compute, work)
  local _, x = assert(a:join())
  local _, y = assert(b:join())
  assert(x == y)
  return (mare.now() - start) * 1e3
end

both(2)
local one, two = math.huge, math.huge
for _ = 1, turns do
  one, two = math.min(one, both(1)), math.min(two, both(2))
end
print(("one_ms %.3f"):format(one))
print(("two_ms %.3f"):format(two))
print(("speedup %.4f"):format(one / two))
