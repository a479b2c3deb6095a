-- SPDX-License-Identifier: MIT
-- How late a timer of a millisecond resolution is on an idle machine. Argument: how many waits.
local mare = require "mare"

local late = {}
for i = 1, tonumber(arg[1] or 500) do
    local wait = 0.001 + i % 10 * 0.001
    local begin = mare.now()
    mare.timer(wait):wait()
    late[i] = (mare.now() - begin - wait) * 1e3
end
table.sort(late)
print("p50_ms", late[#late // 2])
print("p99_ms", late[math.ceil(#late * 0.99)])
print("least_ms", late[1])
