-- SPDX-License-Identifier: MIT
-- How memory and message time go with the number of live processes, one worker.
--
--   bytes     growth of the resident set for each process, its channel included
--   trip_ns   time of a question to a process chosen at random and its answer
--
-- usage: mare processes.lua [processes [trips]]
local mare = require "mare"
local processes = tonumber(arg[1]) or 1000
local trips = tonumber(arg[2]) or 100000
mare.workers(1)

local function resident()
  local status <close> = assert(io.open("/proc/self/status"))
  return tonumber(status:read("a"):match("VmRSS:%s*(%d+) kB")) * 1024
end

local function serve(requests, answers)
  while true do
    local value = requests:receive()
    if not value then return end
    answers:send(value)
  end
end

local inbox, answers = {}, mare.channel()
for i = 1, processes do
  inbox[i] = false -- The list itself is resident before the first reading.
end
resident()
collectgarbage()

local before = resident()
for i = 1, processes do
  inbox[i] = mare.channel()
  mare.spawn(serve, inbox[i], answers)
end
inbox[processes]:send(0)
answers:receive() -- One worker runs them in order: when the last has answered, all are parked.
local bytes = (resident() - before) / processes

local function ask(times)
  local start = mare.now()
  for i = 1, times do
    inbox[math.random(processes)]:send(i)
    if answers:receive() ~= i then error "an answer was lost" end
  end
  return (mare.now() - start) * 1e9 / times
end

ask(trips // 10)
print(("bytes %.1f"):format(bytes))
print(("trip_ns %.3f"):format(ask(trips)))
mare.exit(0)
