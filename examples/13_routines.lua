-- SPDX-License-Identifier: MIT
-- Routines: several things at once inside one process, where they share variables. A call
-- that waits holds back only the routine that made it.
local mare = require "mare"

-- A cache in front of something slow: each question is asked once, and whoever comes while its
-- answer is on its way waits for that one. Only the main script changes the table: a routine may
-- lose its turn between any two steps, so what several change needs one of them to do it.
local questions, answers = mare.channel(), {}
local server = mare.spawn(function()
    local asked = 0
    for name, reply in questions:messages() do
        asked = asked + 1
        mare.sleep(0.01)
        reply:send(name:upper())
    end
    return asked
end)

local function ask(name)
    local reply = mare.channel()
    questions:send(name, reply)
    return reply:receive()
end

local clients = {}
for i, name in ipairs {"moon", "tide", "moon", "sand", "tide", "moon"} do
    if not answers[name] then answers[name] = mare.go(ask, name) end
    clients[i] = mare.go(function()
        local _, answer = answers[name]:join()
        return name, answer
    end)
end
for i, client in ipairs(clients) do
    print(i, select(2, client:join()))
end
questions:close()
print("asked", select(2, server:join()))

-- One that fails closes what it has open, and tells who joins it; the others go on.
local failing = mare.go(function()
    local file <close> = setmetatable({name = "the letter"}, {
        __close = function() print("put away") end,
    })
    error("no paper for " .. file.name, 0)
end)
local ok, message, code = failing:join()
print(ok, message, code)

-- One that waits for what is not wanted any more is told so.
local waiting = mare.go(function()
    local value, why, word = mare.channel():receive()
    return value, why, word
end)
mare.yield()
waiting:cancel()
print(waiting:join())
