-- SPDX-License-Identifier: MIT
-- How message time goes with size: a string, which is copied, and a buffer, which is handed over.
-- The same value goes to and fro between two processes, one worker.
--
--   ns   time of one message, half a round trip
--
-- usage: mare sizes.lua string|buffer bytes [messages]
local mare = require "mare"
local kind = arg[1] or "string"
local size = tonumber(arg[2]) or 1024
local rounds = math.max(1, (tonumber(arg[3]) or 10000) // 2)
mare.workers(1)

local there, back = mare.channel(), mare.channel()

mare.spawn(function()
  while true do
    local value = there:receive()
    if not value then return end
    back:send(value)
  end
end)

local ok, taken = mare.spawn(function()
  local value = ("x"):rep(size)
  if kind == "buffer" then
    value = mare.buffer(value)
  end
  local function play(n)
    local start = mare.now()
    for _ = 1, n do
      there:send(value)
      value = back:receive()
    end
    return mare.now() - start
  end
  play(math.max(1, rounds // 10))
  local seconds = play(rounds)
  if #value ~= size then error "bytes were lost" end
  there:close()
  return seconds
end):join()
assert(ok, taken)
print(("ns %.3f"):format(taken * 1e9 / (2 * rounds)))
