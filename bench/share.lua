-- SPDX-License-Identifier: MIT
-- Equal loops on all cores: how far the least served and the most served are apart.
--
--   apart   per cent that the most served has done more than the least served
--
-- usage: mare share.lua [loops [seconds]]
local mare = require "mare"
local loops, seconds = tonumber(arg[1] or 100), tonumber(arg[2] or 10)

local function count(till)
  local rounds, now = 0, mare.now
  repeat
    for _ = 1, 1000 do end
    rounds = rounds + 1
  until now() > till
  return rounds
end

local list, till = {}, mare.now() + seconds
for i = 1, loops do
  list[i] = mare.spawn(count, till)
end
local least, most = math.huge, 0
for i = 1, loops do
  local ok, rounds = list[i]:join()
  assert(ok, rounds)
  least, most = math.min(least, rounds), math.max(most, rounds)
end
print(("apart %.3f"):format((most / least - 1) * 100))
