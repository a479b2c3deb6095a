-- SPDX-License-Identifier: MIT
-- A million processes live at once, each parked on a channel of its own, while messages flow.
--
--   bytes      resident bytes of the whole program
--   answered   answers from the randomly chosen processes that were asked
--   trip_us    time of one question and answer, while the others are parked
--   spawn_us   time to spawn and park one process
--
-- usage: mare million.lua [processes [questions]]
local mare = require "mare"
local processes = tonumber(arg[1]) or 1000000
local questions = tonumber(arg[2]) or 1000

local function resident()
  local status <close> = assert(io.open("/proc/self/status"))
  return tonumber(status:read("a"):match("VmRSS:%s*(%d+) kB")) * 1024
end

local function serve(requests, answers)
  while true do
    answers:send(requests:receive() + 1)
  end
end

local inbox, answers = {}, mare.channel()
local start = mare.now()
for i = 1, processes do
  inbox[i] = mare.channel()
  mare.spawn(serve, inbox[i], answers)
end
-- The last to be spawned has run when it answers; with several workers a few before it may not
-- have, so every thousandth is asked as well.
for i = processes, 1, -1000 do
  inbox[i]:send(i)
  assert(answers:receive() == i + 1)
end
local spawned = mare.now() - start

math.randomseed(20031)
local answered = 0
start = mare.now()
for i = 1, questions do
  inbox[math.random(processes)]:send(i)
  if answers:receive() == i + 1 then
    answered = answered + 1
  end
end
local asked = mare.now() - start

local live = mare.stats().live
assert(live >= processes, ("only %d processes live"):format(live))
print(("bytes %.0f"):format(resident()))
print(("answered %d"):format(answered))
print(("trip_us %.3f"):format(asked * 1e6 / questions))
print(("spawn_us %.3f"):format(spawned * 1e6 / processes))
io.stdout:flush()
mare.exit(0)
