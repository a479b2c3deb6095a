-- SPDX-License-Identifier: MIT
-- Processes that are linked to the one that made them and monitored by it, made and ended; the same
-- with nothing but a message from each as it ends; and half as many.
--
--   tied_s, plain_s   to make them all, and to be told that all have ended
--   doubled           time of all divided by that of half of them: 2 when it is linear
--
-- usage: mare links.lua [processes]
local mare = require "mare"
local processes = tonumber(arg[1] or 100000)

local function tied(gate) gate:receive() end

local function plain(gate, told)
  gate:receive()
  told:send(true)
end

-- Each waits at a gate, which opens when the last has been made.
local function live(n, is_tied)
  local gate, told = mare.channel(), mare.channel(64)
  local start = mare.now()
  for _ = 1, n do
    if is_tied then
      mare.spawn({link = true, monitor = told}, tied, gate)
    else
      mare.spawn(plain, gate, told)
    end
  end
  gate:close()
  for _ = 1, n do assert(told:receive()) end
  return mare.now() - start
end

-- In a process of its own, with which all that it left behind goes.
local function measure(n, is_tied)
  local ok, seconds = mare.spawn(live, n, is_tied):join()
  assert(ok, seconds)
  return seconds
end

measure(processes // 10, true)
local half, without = measure(processes // 2, true), measure(processes, false)
local all = measure(processes, true)
print(("tied_s %.3f"):format(all))
print(("plain_s %.3f"):format(without))
print(("doubled %.3f"):format(all / half))
