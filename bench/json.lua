-- SPDX-License-Identifier: MIT
-- A document of about 1 MB, of records as services send them, read and written.
--
--   read_ms, written_ms    time for one document
--
-- usage: mare json.lua ours|cjson|dkjson [rounds]
local which, rounds = arg[1] or "ours", tonumber(arg[2]) or 100
local module = {ours = "mare.json", cjson = "cjson", dkjson = "dkjson"}
local json = require(module[which])

math.randomseed(42)
local list = {}
for i = 1, 6000 do
  list[i] = {id = i, name = "user " .. i, email = ("user%d@example.org"):format(i),
    active = i % 3 == 0, score = math.random(0, 10000) / 100, tags = {"a", "bee", "sea " .. i % 10},
    place = {x = math.random(), y = i / 7}}
end
local text = require "mare.json".encode(list)

local function measure(name, f, value)
  local function run(times)
    for _ = 1, times do f(value) end
  end
  run(rounds // 10)
  collectgarbage()
  local start = os.clock()
  run(rounds)
  print(("%s_ms %.4f"):format(name, (os.clock() - start) * 1e3 / rounds))
end

measure("read", function(value) return json.decode(value) end, text)
measure("written", function(value) return json.encode(value) end, list)
