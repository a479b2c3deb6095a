-- SPDX-License-Identifier: MIT
-- A thousand processes, all alive at once. Each waits for a number, squares it and answers.
-- A waiting process holds no thread, only a few kilobytes.
local mare = require "mare"

local questions, answers = mare.channel(), mare.channel()
for _ = 1, 1000 do
    mare.spawn(function()
        local n = questions:receive()
        answers:send(n * n)
    end)
end
print("processes alive:", mare.stats().live) -- a thousand, and this one

mare.spawn(function()
    for n = 1, 1000 do questions:send(n) end
end)

local sum = 0
for _ = 1, 1000 do sum = sum + answers:receive() end
print("sum of squares:", sum)
