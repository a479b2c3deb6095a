-- SPDX-License-Identifier: MIT
-- A counter, a queue and news in Redis. Without a server the example says so and ends: start one
-- with `redis-server`.
local mare, redis = require "mare", require "mare.redis"

local r, why = redis.connect {timeout = 2}
if not r then
    print("no Redis on this machine: " .. why)
    return
end

-- Several commands at once, one answer each.
local answers = r:pipeline {{"DEL", "tide:visits", "tide:jobs"}, {"INCR", "tide:visits"},
    {"INCR", "tide:visits"}}
print("visits:", answers[3])

-- Another process works through a queue. It waits in Redis, and holds no worker meanwhile.
local worker = mare.spawn(function()
    local own <close> = assert(redis.connect {timeout = 5})
    local done = {}
    for i = 1, 3 do done[i] = own:blpop("tide:jobs", 0)[2] end
    return table.concat(done, " ")
end)
r:rpush("tide:jobs", "wash", "dry", "fold")
print("done:", select(2, worker:join()))

-- Either all of it or nothing, and nobody in between.
r:transaction(function(tx, now)
    tx:set("tide:visits", now:get "tide:visits" * 10)
end, {watch = {"tide:visits"}})
print("ten times:", r:get "tide:visits")

local news <close> = assert(r:subscribe "tide:news")
r:publish("tide:news", "the sea is back")
print("news:", select(2, news:next(5)))
r:del("tide:visits", "tide:jobs")
