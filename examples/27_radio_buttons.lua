-- SPDX-License-Identifier: MIT
-- Radio buttons: each is lit and put out in turns, and at most one of the group is lit. The buttons
-- know nothing of the second rule; a synchronizer keeps it.
local mare, rpc = require "mare", require "mare.rpc"

local function button(name, log)
    local sc, isOn = require "mare.sc", false
    function on() isOn = true log:send(name .. " on") end
    function off() isOn = false log:send(name .. " off") end
    sc.add_constraint("on", function() return not isOn end)
    sc.add_constraint("off", function() return isOn end)
    require "mare.rpc".serve()
end

local log, buttons = mare.channel(1000), {}
for i = 1, 5 do buttons[i] = mare.spawn(button, "button " .. i, log) end

local ready = mare.channel()
local group = mare.spawn(function()
    local synchronizer, activated = require "mare.synchronizer", false
    for _, bt in ipairs(buttons) do
        synchronizer.add_constraint(bt, "on", function() return not activated end)
        synchronizer.add_trigger(bt, "on", function() activated = true end)
        synchronizer.add_trigger(bt, "off", function() activated = false end)
    end
    ready:send(true)
end)
ready:receive()

rpc.sync(buttons[1], "on")()
local second = mare.go(rpc.sync(buttons[2], "on")) -- waits: another one is lit
print("second waits", select(3, second:join(0.01)))
rpc.sync(buttons[1], "off")()
second:join()
while #log > 0 do print(log:receive()) end

rpc.sync(buttons[2], "off")()
log:receive()
local routines, lit, most = {}, 0, 0
for i = 1, 5 do
    routines[i] = mare.go(function()
        for _ = 1, 10 do
            rpc.sync(buttons[i], "on")()
            rpc.sync(buttons[i], "off")()
        end
    end)
end
for i = 1, 5 do routines[i]:join() end
while #log > 0 do
    lit = lit + (log:receive():find "on$" and 1 or -1)
    most = math.max(most, lit)
end
print("lit at the same time, at most", most)

group:kill()
group:join()
print("without its synchronizer", (select(3, rpc.sync(buttons[3], "on")())))
mare.exit()
