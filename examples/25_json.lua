-- SPDX-License-Identifier: MIT
-- JSON: read, change, write; say what is wrong and where; read a large document in parts.
--
--   build/mare examples/25_json.lua
local json = require "mare.json"

local order = assert(json.decode [[
    {"id": 9007199254740993, "total": 12.10, "paid": null, "lines": [], "tags": ["tide", "moon"]}
]])
print(order.id, order.total, order.paid == json.null, #order.tags)
order.lines[1] = {item = "almanac", count = 2}
order.paid = true
print(json.encode(order, {sorted = true}))

print(json.decode '{"id": 1,\n "tags": ["tide" "moon"]}')
print(pcall(json.encode, {lines = {{item = "almanac", price = 0 / 0}}}))

-- As it would come from a file, a request or another server: part after part.
local parts = {'[{"station": "Brest", "m"', ': 6.95}, {"station": ', '"Faro", "m": 3.42}]'}
local function next_part() return table.remove(parts, 1) end
for tide in json.values(next_part, {each = true}) do
    print(tide.station, tide.m)
end
