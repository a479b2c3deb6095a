-- SPDX-License-Identifier: MIT
-- Code that only computes, for stock Lua and for Maré: calls, tables, strings.
--
-- Run by a stock interpreter the kernels run as they are. Given "process" they run in a process of
-- Maré with the workers running, alone and so never preempted: the difference is what the
-- possibility
-- of preemption costs. Times are os.clock's, the processor time of all threads, so that a runtime
-- which kept another core busy in order to look fast would be found out.
--
-- usage: lua5.4 preemption.lua stock [scale [kernel]]
--        mare preemption.lua process [scale [kernel]]
local place, scale, only = arg[1] or "stock", tonumber(arg[2]) or 1, arg[3]

local function calls(n)
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

local function tables(n)
  local sum = 0
  for _ = 1, n do
    local list = {}
    for i = 1, 20000 do
      list[i] = {key = i * 7919 % 20011, next = list[i - 1]}
    end
    table.sort(list, function(a, b) return a.key < b.key end)
    for i = 1, #list, 3 do
      sum = sum + list[i].key
    end
  end
  return sum
end

local function strings(n)
  local sum = 0
  for _ = 1, n do
    local parts = {}
    for i = 1, 10000 do
      parts[i] = ("%d:%s"):format(i, "item" .. i % 100)
    end
    local text = table.concat(parts, ",")
    for number in text:gmatch("(%d+):") do
      sum = sum + #number
    end
    sum = sum + #text:upper():gsub("ITEM", "x")
  end
  return sum
end

local kernels = {
  {"calls", calls, 80},
  {"tables", tables, 18},
  {"strings", strings, 45},
}

local function timed(kernel, n)
  kernel(1)
  local start = os.clock()
  kernel(n)
  return os.clock() - start
end

for _, kernel in ipairs(kernels) do
  local name, body, n = table.unpack(kernel)
  n = math.max(1, math.floor(n * scale))
  if not only or only == name then
    local seconds
    if place == "process" then
      local mare = require "mare"
      local _
      _, seconds = assert(mare.spawn(timed, body, n):join())
    else
      seconds = timed(body, n)
    end
    print(("%s_ms %.3f"):format(name, seconds * 1e3))
  end
end
