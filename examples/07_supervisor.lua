-- SPDX-License-Identifier: MIT
-- A supervisor: starts a child, is told when it dies, and starts another.
-- A monitor tells; a link ties fates: what the child itself started dies with it.
local mare = require "mare"

local function child(jobs, results)
    -- A helper that makes no sense without the child: linked, so that it never stays behind.
    local helper = mare.spawn({link = true}, function() mare.channel():receive() end)
    for a, b in jobs:messages() do
        results:send(a // b, helper) -- fails for b = 0
    end
    helper:kill()
end

local jobs, results = mare.channel(8), mare.channel()
local supervisor = mare.spawn(function()
    local deaths = mare.channel(1)
    for start = 1, 3 do
        print("start " .. start)
        mare.spawn({monitor = deaths}, child, jobs, results)
        local _, how, message = deaths:receive()
        print(how, message)
        if how == "normal" then return "all work is done" end
    end
    return "gave up"
end)

jobs:send(10, 2)
local five, helper = results:receive()
print("result", five)

jobs:send(1, 0) -- kills the child
jobs:send(9, 3) -- waits for the next one
local _, _, code = helper:join()
local three = results:receive()
print("result", three, "the first helper was " .. code)

jobs:close()
print(supervisor:join())
