-- SPDX-License-Identifier: MIT
-- All cores: the rows of a picture are jobs; one process per core computes them.
local mare = require "mare"

local width, height, depth = 64, 22, 2000

local function row(y)
    local line, shades = {}, " .:-=+*#%@"
    for x = 1, width do
        local cr, ci = (x / width) * 3.2 - 2.3, (y / height) * 2.4 - 1.25
        local zr, zi, n = 0.0, 0.0, 0
        while n < depth and zr * zr + zi * zi < 4 do
            zr, zi, n = zr * zr - zi * zi + cr, 2 * zr * zi + ci, n + 1
        end
        local shade = n == depth and #shades or n % (#shades - 1) + 1
        line[x] = shades:sub(shade, shade)
    end
    return table.concat(line)
end

local jobs, rows = mare.channel(height), mare.channel()
for y = 1, height do jobs:send(y) end
jobs:close() -- what is in it can still be received

for _ = 1, mare.workers() do
    mare.spawn(function()
        for y in jobs:messages() do rows:send(y, row(y)) end
    end)
end

local picture = {}
for _ = 1, height do
    local y, line = rows:receive()
    picture[y] = line
end
print((table.concat(picture, "\n"):gsub(" +%f[\n\0]", "")))
