-- SPDX-License-Identifier: MIT
-- Resident bytes of a process that is blocked in a receive, everything included.
--
--   bytes   growth of the resident set divided by the number of processes
--
-- "shared": all wait on one channel, so that the figure is the process alone (the row's figure);
-- "own": each waits on a channel of its own, kept by the main script.
--
-- usage: mare parked.lua shared|own [processes]
local mare = require "mare"
local kind = arg[1] or "shared"
local processes = tonumber(arg[2]) or 100000

local function resident()
  local status <close> = assert(io.open("/proc/self/status"))
  return tonumber(status:read("a"):match("VmRSS:%s*(%d+) kB")) * 1024
end

local function wait(channel)
  channel:receive()
end

-- A few are looked at to know that all are parked; keeping every reference would be measured too.
local function settle(sample)
  for _, p in ipairs(sample) do
    while p:status() ~= "blocked" do
      mare.sleep(0.01)
    end
  end
  mare.sleep(0.1)
end

local shared = mare.channel()
local channels, sample = {}, {}
for i = 1, kind == "own" and processes or 0 do
  channels[i] = false -- The list itself is resident before the first reading.
end
settle {mare.spawn(wait, shared)}
collectgarbage()

local before = resident()
for i = 1, processes do
  local channel = shared
  if kind == "own" then
    channel = mare.channel()
    channels[i] = channel
  end
  local p = mare.spawn(wait, channel)
  if i % 1000 == 0 or i == processes then
    sample[#sample + 1] = p
  end
end
settle(sample)
collectgarbage()
local bytes = (resident() - before) / processes
assert(mare.stats().live > processes, "some processes are gone")
assert(kind ~= "own" or #channels == processes)
print(("bytes %.1f"):format(bytes))
mare.exit(0)
