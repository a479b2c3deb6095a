-- SPDX-License-Identifier: MIT
-- Functions of another process: called in a straight line, with a callback, and in vain.
local mare, rpc = require "mare", require "mare.rpc"

local gauge = mare.spawn({name = "gauge"}, function()
    local server, level = require "mare.rpc", 1.5

    function rise(by)
        if by > 5 then error("no tide rises by " .. by) end
        level = level + by
        return level
    end

    function high() mare.sleep(3600) end

    server.export("tide", {name = function() return "Porto do Mucuripe" end})
    server.serve()
end)

local rise = rpc.sync("gauge", "rise", 5)  -- by name; each call may take five seconds
print("straight", rise(0.5), rise(1))

local done = mare.channel()
rpc.async(gauge, "rise", function(level)   -- the function sends; the callback runs later
    done:send(level)
end)(2)
print("callback", done:receive())

print("exported", rpc.sync(gauge, "tide.name")())
print("remote", (select(3, rise(50))))
print("denied", select(3, rpc.sync(gauge, "os.execute")()))
print("timeout", select(3, rpc.sync(gauge, "high", 0.01)()))
gauge:kill()
gauge:join()
print("gone", select(3, rpc.sync(gauge, "rise")(1)))
