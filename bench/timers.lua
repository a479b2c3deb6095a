-- SPDX-License-Identifier: MIT
-- Pending timers: how many are made and cancelled in a second. Argument: how many.
local mare = require "mare"

local count = tonumber(arg[1] or 1000000)
local timers = table.move({}, 1, count, 1, {})
collectgarbage()
local begin = mare.now()
for i = 1, count do timers[i] = mare.timer(1000 + i % 97) end
local made = mare.now()
for i = 1, count do timers[i]:cancel() end
local over = mare.now()
print("create_per_second", count / (made - begin))
print("cancel_per_second", count / (over - made))
print("per_second", 2 * count / (over - begin))
