-- SPDX-License-Identifier: MIT
-- Radio buttons for tests of synchronizers: of each group at most one is lit.
local mare, t, rpc = require "mare", require "t", require "mare.rpc"

local radios = {}

function radios.sync(p, fname) return rpc.sync(p, fname, t.patience) end

--- A button that may be lit and put out in turns. It notes what it does where all can read it.
function radios.button(log)
    -- luacheck: globals on off state
    local sc, isOn = require "mare.sc", false
    function on() isOn = true log:send("on", mare.self():id()) return "lit" end
    function off() isOn = false log:send("off", mare.self():id()) return "dark" end
    function state() return isOn, sc.blocked() end
    sc.add_constraint("on", function() return not isOn end)
    sc.add_constraint("off", function() return isOn end)
    require "mare.rpc".serve()
end

--- At most one of them is lit. `ready` is told when the rules are set.
function radios.radio(buttons, ready)
    local synchronizer, lit = require "mare.synchronizer", nil
    for _, bt in ipairs(buttons) do
        if synchronizer.add_constraint(bt, "on", function() return not lit end) then
            synchronizer.add_trigger(bt, "on", function() lit = bt end)
            synchronizer.add_trigger(bt, "off", function() lit = nil end)
            synchronizer.add_exit(bt, function() if lit == bt then lit = nil end end)
        end
    end
    ready:send(true)
end

--- So many buttons, and synchronizers for all of them.
function radios.group(n, log, count)
    local buttons, keepers = {}, {}
    count = count or 1
    local ready = mare.channel(count)
    for i = 1, n do buttons[i] = mare.spawn(radios.button, log) end
    for i = 1, count do keepers[i] = mare.spawn(radios.radio, buttons, ready) end
    for _ = 1, count do t.ok(ready:receive(t.patience)) end
    return buttons, keepers
end

function radios.finish(...)
    for _, list in ipairs {...} do
        for _, p in ipairs(list) do p:kill() end
    end
end

--- What the buttons noted: on and off in turns, and never two lit; one that is dead is dark.
-- Returns how often one was lit.
function radios.check_log(log, dead)
    local lit, count = nil, 0
    while #log > 0 do
        local word, id = log:receive()
        if word == "on" then
            t.ok(lit == nil or dead and dead[lit], "two are lit")
            lit, count = id, count + 1
        else
            t.eq(lit, id)
            lit = nil
        end
    end
    return count
end

return radios
