-- SPDX-License-Identifier: MIT
-- A monitor whose lock belongs to a group of nodes (mare.group), not to a single process. In a
-- message it is two names. A program that has joined the group makes it again from those.
local mare, check = require "mare", require "mare._check"

local grouped = {type = {__name = "monitor", __index = {}}}

--- A signal may be lost with a link or a node. After so many seconds whoever waits for one looks
--- without it.
grouped.reminder = 1

local BELL = {name = "monitor.bell", all = 1 << 40} -- see _monitor_bell.lua

local OPTIONS = check.set("group", "name", "algorithm")
local ALGORITHMS = check.set("majority", "central", "ricart", "token", "voting", "etcd")

local known = setmetatable({}, {__mode = "v"}) -- key and algorithm -> monitor, one in each process

function grouped.type.__travel(self)
    return "mare._monitor_group", {self.group, self.name, self.algorithm}
end

--- Makes the monitor again in the process that it arrives in. Monitors that differ only in their
--- wanted algorithm have the same `key`: they are the same lock.
function grouped.arrive(value)
    local key = value[1] .. " " .. value[2]
    local place = (value[3] or "") .. " " .. key
    if not known[place] then
        known[place] = setmetatable({group = value[1], name = value[2], algorithm = value[3],
            key = key}, grouped.type)
    end
    return known[place]
end

--- The monitor called `name` of this `group`: one that this program has joined, or its name. With
--- `algorithm`, only if the members have agreed on that algorithm for it. nil: the monitor belongs
--- to its creator, as with "central" and no group.
function grouped.create(options)
    check.argument("create", options, 1, "table", 4)
    check.options("create", options, 1, OPTIONS, 4)
    local group = type(options.group) == "table" and options.group.name or options.group
    check.option("create", {group = group}, 1, "group", "string", "a group or its name", 4)
    check.option("create", options, 1, "name", "string", "a string", 4)
    check.option("create", options, 1, "algorithm", function(word) return ALGORITHMS[word] end,
        "'majority', 'central', 'ricart', 'token', 'voting' or 'etcd'", 4)
    if options.algorithm == "central" and not group and not options.name then return nil end
    if not group or not options.name then
        error("bad argument #1 to 'create' (the monitor of a group needs 'group' and 'name')", 3)
    end
    return grouped.arrive {group, options.name, options.algorithm}
end

--- Waits for the lock. Returns it, or nil, message, code.
function grouped.type.__index:lock(deadline)
    local group, message, code = require "mare.group".find(self.group)
    if not group then return nil, message, code end
    return group:lock(self.name, deadline, {algorithm = self.algorithm})
end

-- ---- Conditions ---------------------------------------------------------------------------------

-- The channel of this program's bell. It is started if there is none.
local function bell()
    local channel = mare.find(BELL.name)
    while not channel do
        local made, message, code = mare.channel(64, BELL.name)
        if made then return require "mare._launch"("bell", "mare._monitor_bell", BELL, made) end
        if code ~= "exists" then return nil, message, code end
        channel = mare.find(BELL.name)
    end
    return channel
end

-- Sends what must not be lost, also from a routine that was cancelled.
local function tell(channel, ...)
    local ok, message, code
    repeat ok, message, code = channel:send(...) until ok or code ~= "cancelled"
    return ok, message, code
end

local function key_of(mnt, name) return mnt.key .. "\0" .. name end

--- Stands in line for a signal. Returns what `await` needs; or nil, message, code.
function grouped.enter(mnt, name)
    local channel, message, code = bell()
    if not channel then return nil, message, code end
    local it = {bell = channel, reply = mare.channel(1), key = key_of(mnt, name)}
    local ok
    ok, message, code = tell(channel, "wait", it.reply, mare.self(), it.key)
    if not ok then return nil, message, code end
    return it
end

--- Waits for the signal, or for the reminder. Or nil, message, code: `timeout`, `cancelled`.
function grouped.await(it, deadline)
    local seconds = grouped.reminder
    if deadline then seconds = math.min(seconds, deadline:left()) end
    local rung, message, code = it.reply:receive(seconds)
    if rung then return true end
    tell(it.bell, "leave", it.reply, it.key)
    if code == "timeout" and not (deadline and deadline:left() == 0) then return true end
    return nil, message, code
end

--- Wakes one of those who wait, in each program of the group, or all.
function grouped.signal(mnt, name, all)
    local channel, message, code = bell()
    if not channel then return nil, message, code end
    return tell(channel, "signal", mnt.group, key_of(mnt, name), all and BELL.all or 1)
end

return grouped
