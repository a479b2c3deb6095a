-- SPDX-License-Identifier: MIT
-- The bell of a program: a process that knows who waits here for conditions of groups' monitors,
-- and brings signals to the bells of the other members. It starts with the first wait or signal.
--
--   of this program                             of another member's bell
--   "wait", reply, process, key                 "ring", key, n    wakes n of those who wait here
--   "leave", reply, key     waits no longer
--   "signal", group, key, n                     to who waits:  true
--
-- A key is that of the monitor, and the name of the condition. A signal wakes n in each program of
-- the group, and may be lost with a link or a node. So whoever waits looks now and then without one
-- (_monitor_group.lua).
local mare = require "mare"

local PATIENCE = 5 -- seconds for a message to another node

local settings, channel -- `name` of such channels; `all`, the n that wakes all; the channel itself
local lines = {}   -- key -> the reply channels of those who wait, oldest first
local keys = {}    -- reply channel -> key, while it waits
local waiting = {} -- process -> its reply channels that wait

-- ---- Those who wait here ------------------------------------------------------------------------

local function forget(reply)
    local key = keys[reply]
    local line, place = lines[key], 1
    while line[place].reply ~= reply do place = place + 1 end
    waiting[table.remove(line, place).process][reply] = nil
    keys[reply] = nil
    if not line[1] then lines[key] = nil end
end

local function ring(key, n)
    while n > 0 and lines[key] do
        local reply = lines[key][1].reply
        forget(reply)
        if reply:trysend(true) then n = n - 1 end
    end
end

-- ---- The other members --------------------------------------------------------------------------

local signals, rings = {}, {} -- group, or node -> key -> how many: not done yet

-- Has act(name, key, n) called in a routine, one at a time for each name. What comes meanwhile is
-- added up.
local function later(list, name, key, n, act)
    local due = list[name]
    if due then
        due[key] = math.min((due[key] or 0) + n, settings.all)
        return
    end
    due = {[key] = n}
    list[name] = due
    mare.go(function()
        local _ <close> = setmetatable({}, {__close = function() list[name] = nil end})
        while next(due) do
            local one, count = next(due)
            due[one] = nil
            act(name, one, count)
        end
    end)
end

local function ring_there(node, key, n)
    local there = mare.find(settings.name .. "@" .. node, PATIENCE)
    if there then there:sendwithin(PATIENCE, "ring", key, n) end
end

local function spread(name, key, n)
    local group = require "mare.group".find(name)
    for _, member in ipairs(group and group:members() or {}) do
        if not member.here then later(rings, member.name, key, n, ring_there) end
    end
end

-- ---- Messages -----------------------------------------------------------------------------------

local hear = {}

-- Other nodes can send to this channel, too: so all is checked.
local function is_one(reply, key)
    return getmetatable(reply) == "channel" and type(key) == "string"
end

local function is_signal(key, n)
    return type(key) == "string" and math.type(n) == "integer" and n > 0 and n <= settings.all
end

function hear.wait(reply, process, key)
    if not is_one(reply, key) or keys[reply] or getmetatable(process) ~= "process" then return end
    if not waiting[process] then
        waiting[process] = {}
        process:monitor(channel)
    end
    waiting[process][reply], keys[reply] = true, key
    lines[key] = lines[key] or {}
    table.insert(lines[key], {reply = reply, process = process})
end

-- If it was woken just now, another is to be woken in its place.
function hear.leave(reply, key)
    if not is_one(reply, key) then return end
    if keys[reply] then forget(reply) else ring(key, 1) end
end

function hear.signal(group, key, n)
    if type(group) ~= "string" or not is_signal(key, n) then return end
    ring(key, n)
    later(signals, group, key, n, spread)
end

function hear.ring(key, n)
    if is_signal(key, n) then ring(key, n) end
end

local function dispatch(kind, ...)
    if hear[kind] then
        hear[kind](...)
    elseif waiting[kind] and not kind:alive() then
        for reply in pairs(waiting[kind]) do forget(reply) end
        waiting[kind] = nil
    end
end

--- The process: see _launch.lua.
return function(its_settings, its_channel, started)
    local _ <close> = its_channel
    settings, channel = its_settings, its_channel
    started:send(true, true)
    while not channel:closed() do
        local fine, err = pcall(dispatch, channel:receive())
        if not fine then pcall(mare.go, error, err, 0) end -- without memory it cannot be printed
    end
end
