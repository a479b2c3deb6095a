-- SPDX-License-Identifier: MIT
-- The programs of the source's figures, with nothing changed but the names of processes. What they
-- leave open (a function to call, who begins) is written around them.
local mare, t, rpc = require "mare", require "t", require "mare.rpc"

local function sync(p, fname) return rpc.sync(p, fname, t.patience) end

local FIGURE_3_2 = [[
get = rpc.sync("classic-procA", "getValue")
set = rpc.sync("classic-procA", "setValue")

while true do
  oldvalue = get()
  newvalue = transform(oldvalue)
  set(newvalue)
end
]]

local FIGURE_3_5 = [[
local isOn = false

local function _off()
  if neighbor_state() then
    isOn = false
  end
end

function init(mnt, neighbor)
  neighbor_state = rpc.sync(neighbor, "get_state")
  off = monitor.doWhenFree(mnt, _off)
end
]]

local FIGURE_3_6 = [[
local isOn = false
local function can_turn_on(request)
    return not isOn
end

local function can_turn_off(request)
    return isOn
end

function on()
    isOn = true
end

function off()
    isOn = false
end

sc.add_constraint("on", can_turn_on)
sc.add_constraint("off", can_turn_off)
]]

local FIGURE_3_7 = [[
local activated = false
local function can_turn_on(request)
    return not activated
end

local function trigger_on(request)
    activated = true
end

local function trigger_off(request)
    activated = false
end

for bt in pairs(buttons) do
    synchronizer.add_trigger(bt, "on", trigger_on)
    synchronizer.add_trigger(bt, "off", trigger_off)
    synchronizer.add_constraint(bt, "on", can_turn_on)
end
]]

local FIGURE_3_10 = [[
max = 1000
count = 0

function cb(val)
    count = count + 1
    if count < max then
        get()
    else
        t2 = clock.mark()
        local total = (t2 - t1) / 1E3
        print(total/max)
        lua.exit()
    end
end

function start()
    get = crpc.async(server, "get", cb)
    t1 = clock.mark()
    get()
end
]]

-- A process that runs a program with the library in its place; `given` becomes globals.
local function classic(program, given, name)
    return mare.spawn({name = name}, [[
        require "mare.classic"
        local program, given = ...
        for key, value in pairs(given) do _G[key] = value end
        assert(load(program, "=program"))()
    ]], program, given or {})
end

return {
    figure_3_2_calls_in_straight_lines = function()
        local server = classic([[
            local value = 1
            function getValue() return value end
            function setValue(new) value = new end
        ]], nil, "classic-procA")
        local client = classic("function transform(x) return x + 1 end " .. FIGURE_3_2)
        t.reaches(function() return sync(server, "getValue")() >= 20 end)
        client:kill()
        server:kill()
    end,

    figure_3_5_a_distributed_monitor = function()
        local monitor = require "mare.monitor"
        local mnt, list = monitor.create(), {}
        for i = 1, 2 do
            list[i] = classic(FIGURE_3_5 .. "isOn = true function get_state() return isOn end")
        end
        for i = 1, 2 do sync(list[i], "init")(mnt, list[3 - i]) end
        local routines = t.in_routines(2, function(i) sync(list[i], "off")() end)
        for _, r in ipairs(routines) do t.ok(r:join(t.patience)) end
        local first, second = sync(list[1], "get_state")(), sync(list[2], "get_state")()
        t.ok(first ~= second, "one was put out while its neighbour was lit, the other stayed")
        for i = 1, 2 do list[i]:kill() end
    end,

    figures_3_6_and_3_7_radio_buttons = function()
        local buttons, list = {}, {}
        for i = 1, 4 do
            list[i] = classic(FIGURE_3_6 .. "function state() return isOn end", nil,
                "classic-button-" .. i)
            buttons["classic-button-" .. i] = true
        end
        local ready = mare.channel()
        local group = classic(FIGURE_3_7 .. "ready:send(true)", {buttons = buttons, ready = ready})
        t.ok(ready:receive(t.patience))
        local done = 0
        local routines = t.in_routines(4, function(i)
            for _ = 1, 5 do
                t.eq(select("#", sync("classic-button-" .. i, "on")()), 0)
                t.eq(select("#", sync("classic-button-" .. i, "off")()), 0)
                done = done + 1
            end
        end)
        for _, r in ipairs(routines) do t.ok(r:join(t.patience)) end
        t.eq(done, 20)
        sync(list[1], "on")()
        t.fails("timeout", rpc.sync(list[1], "on", 0.005)())
        t.fails("timeout", rpc.sync(list[2], "on", 0.005)())
        sync(list[1], "off")()
        sync(list[2], "on")()
        t.eq({sync(list[1], "state")(), sync(list[2], "state")()}, {false, true})
        for i = 1, 4 do list[i]:kill() end
        group:kill()
    end,

    figure_3_10_a_client_that_measures = function()
        local server = classic "function get() return 1 end"
        local printed = mare.channel(1)
        local client = classic(FIGURE_3_10, {server = server,
            print = function(x) printed:send(x) end})
        sync(client, "start")()
        t.ok(printed:receive(t.patience) > 0)
        t.ok(client:join(t.patience), "lua.exit has ended it")
        server:kill()
    end,
}
