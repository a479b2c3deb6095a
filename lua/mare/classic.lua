-- SPDX-License-Identifier: MIT
-- The coordination library where the programs of its source expect it: as globals, in a process
-- that answers requests from the start.
--
--     require "mare.classic"
--     local isOn = false
--     function on() isOn = true end             -- others call it by rpc
--     function off() isOn = false end
--     sc.add_constraint("on", function(request) return not isOn end)
--     sc.add_constraint("off", function(request) return isOn end)
--
-- The process goes on serving when its main script has ended, until lua.exit().
local mare, rpc = require "mare", require "mare.rpc"

local classic = {
    rpc = rpc,
    crpc = rpc, -- the measuring programs of the source use this name
    monitor = require "mare.monitor",
    sc = require "mare.sc",
    synchronizer = require "mare.synchronizer",
    clock = {},
    lua = {},
}

--- A point in time, in microseconds.
function classic.clock.mark()
    return mare.now() * 1e6
end

--- Takes no more requests; the process ends when what it does has ended.
function classic.lua.exit()
    rpc.stop()
    classic.synchronizer.stop()
end

for name, module in pairs(classic) do rawset(_G, name, module) end
rpc.serve()

return classic
