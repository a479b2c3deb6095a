-- SPDX-License-Identifier: MIT
-- Spawn a process, let it run and finish, know that it did; one worker.
--
--   ns        one after the other, told by join: the row's figure
--   batch_ns  64 at a time, told by mare.wait
--   recycled  share of the measured processes that ran in a state that another had used
--
-- usage: mare spawn.lua fresh|recycled [processes]
local mare = require "mare"
local kind = arg[1] or "fresh"
local processes = (tonumber(arg[2]) or 100000) // 64 * 64
mare.workers(1)
mare.recycle(kind == "recycled" and 64 or 0)

-- What is measured is a process that could use any library, not one that was given none.
local complete = mare.spawn(function()
  local names = {"coroutine", "debug", "io", "math", "os", "package", "string", "table", "utf8"}
  for _, name in ipairs(names) do
    assert(type(_G[name]) == "table", name)
  end
  return ("%d"):format(#names)
end)
assert(complete:join())

local function body() end

local function single(n)
  for _ = 1, n do
    mare.spawn(body):join()
  end
end

local function batches(n)
  for _ = 1, n, 64 do
    for _ = 1, 64 do
      mare.spawn(body)
    end
    mare.wait()
  end
end

local warming = processes // 640 * 64

local function measure(work)
  work(warming)
  local start = mare.now()
  work(processes)
  return (mare.now() - start) * 1e9 / processes
end

-- In a process of its own, so that its switches are those of a process and not of the main script.
local recycled = mare.stats().recycled
local ok, ns = mare.spawn(measure, single):join()
assert(ok, ns)
recycled = (mare.stats().recycled - recycled) / (processes + warming)
print(("ns %.3f"):format(ns))
print(("batch_ns %.3f"):format(measure(batches)))
print(("recycled %.3f"):format(recycled))
