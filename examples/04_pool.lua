-- SPDX-License-Identifier: MIT
-- A pool of workers behind a channel with a name. Whoever knows the name can give them work;
-- each job carries the channel that its answer goes to.
local mare = require "mare"

local jobs = mare.channel(16, "jobs") -- room for 16 jobs that nobody has taken yet
for _ = 1, 4 do
    mare.spawn(function()
        for text, reply in jobs:messages() do
            reply:send(text, text:reverse())
        end
    end)
end

-- A client knows nothing but the name.
local client = mare.spawn(function(words)
    local pool, reply = mare.find("jobs"), mare.channel(#words)
    for _, word in ipairs(words) do pool:send(word, reply) end
    local reversed = {}
    for _ = 1, #words do -- in whatever order they come
        local word, backwards = reply:receive()
        reversed[word] = backwards
    end
    return reversed
end, {"lua", "moon", "tide", "mare"})

local _, reversed = client:join()
for _, word in ipairs {"lua", "moon", "tide", "mare"} do print(word, reversed[word]) end

jobs:close() -- the workers' loops end
mare.wait()
print("processes left:", mare.stats().live)
