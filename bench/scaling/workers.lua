-- SPDX-License-Identifier: MIT
-- How throughput goes with the number of workers.
--
--   per_s            processes that only compute, finished in a second
--   messages_per_s   messages in a second between 64 pairs that play ping-pong
--
-- usage: mare workers.lua [workers [processes [messages]]]
local mare = require "mare"
local workers = tonumber(arg[1]) or 1
local processes = tonumber(arg[2]) or 96
local messages = tonumber(arg[3]) or 2000000
mare.workers(workers)

local function compute()
  local function fib(i)
    if i < 2 then return i end
    return fib(i - 1) + fib(i - 2)
  end
  return fib(27)
end

local function compute_all(n)
  local start = mare.now()
  local running = {}
  for i = 1, n do
    running[i] = mare.spawn(compute)
  end
  for i = 1, n do
    assert(running[i]:join())
  end
  return n / (mare.now() - start)
end

local function ping(there, back, rounds)
  for i = 1, rounds do
    there:send(i)
    if back:receive() ~= i then error "a message was lost" end
  end
  there:close()
end

local function pong(there, back)
  while true do
    local value = there:receive()
    if not value then return end
    back:send(value)
  end
end

local function play_all(pairs, n)
  local rounds = n // (2 * pairs)
  local start = mare.now()
  local running = {}
  for i = 1, pairs do
    local there, back = mare.channel(), mare.channel()
    mare.spawn(pong, there, back)
    running[i] = mare.spawn(ping, there, back, rounds)
  end
  for i = 1, pairs do
    assert(running[i]:join())
  end
  return 2 * pairs * rounds / (mare.now() - start)
end

compute_all(workers)
print(("per_s %.3f"):format(compute_all(processes)))
play_all(64, messages // 10)
print(("messages_per_s %.3f"):format(play_all(64, messages)))
