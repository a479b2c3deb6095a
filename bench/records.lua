-- SPDX-License-Identifier: MIT
-- A table of 1,000 small records: through a channel, and built twice in plain Lua.
--
--   twice_us     time to build the table two times, as sender and receiver would have to
--   channel_us   time for the table to go from one process to another (Maré only)
--
-- The garbage of each round is collected within the measured time, in all cases.
--
-- usage: lua5.4 records.lua stock [rounds]
--        mare records.lua process [rounds]
local place, rounds = arg[1] or "stock", tonumber(arg[2]) or 1000

local function build()
  local list = {}
  for i = 1, 1000 do
    list[i] = {id = i, name = "user" .. i, score = i * 0.5}
  end
  return list
end

local function twice(n, clock)
  local function rest(times)
    for _ = 1, times do
      build()
      build()
    end
  end
  rest(n // 10)
  local start = clock()
  rest(n)
  return (clock() - start) * 1e6 / n
end

if place == "stock" then
  print(("twice_us %.3f"):format(twice(rounds, os.clock)))
  return
end

local mare = require "mare"
mare.workers(1)

local function check(list)
  assert(#list == 1000)
  local last = list[1000]
  assert(last.id == 1000 and last.name == "user1000" and last.score == 500.0)
  assert(math.type(last.id) == "integer" and math.type(last.score) == "float")
end

local channel = mare.channel()

local receiver = mare.spawn(function(times)
  check(channel:receive())
  for _ = 1, times // 10 do
    channel:receive()
  end
  local start = mare.now()
  for _ = 1, times do
    channel:receive()
  end
  return (mare.now() - start) * 1e6 / times
end, rounds)

local sender = mare.spawn(function(times)
  local list = build()
  for _ = 1, 1 + times // 10 + times do
    channel:send(list)
  end
end, rounds)

assert(sender:join())
local _, us = assert(receiver:join())
print(("channel_us %.3f"):format(us))

local ok, us_twice = mare.spawn(function(n)
  return twice(n, mare.now)
end, rounds):join()
assert(ok, us_twice)
print(("twice_us %.3f"):format(us_twice))
