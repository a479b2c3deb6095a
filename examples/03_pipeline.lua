-- SPDX-License-Identifier: MIT
-- A pipeline: numbers go through two stages, each a process, joined by channels.
-- Closing a channel ends the loop of whoever reads it, so that the end travels down the line.
local mare = require "mare"

-- Runs f in a process of its own, between the channel `input` and a new one that is returned.
local function stage(input, f)
    local output = mare.channel()
    mare.spawn(function()
        for value in input:messages() do
            local result = f(value)
            if result then output:send(result) end
        end
        output:close()
    end)
    return output
end

local numbers = mare.channel()
local odd = stage(numbers, function(n) return n % 2 == 1 and n or nil end)
local squares = stage(odd, function(n) return n * n end)

mare.spawn(function()
    for n = 1, 10 do numbers:send(n) end
    numbers:close()
end)

for square in squares:messages() do print(square) end
