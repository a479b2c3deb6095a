-- SPDX-License-Identifier: MIT
-- A monitor whose lock is that of a group of nodes (mare.group): no single process keeps it. It
-- travels as two names, and is found again in a program that has joined the group.
local check = require "mare._check"

local grouped = {type = {__name = "monitor", __index = {}}}

local known = setmetatable({}, {__mode = "v"}) -- "group lock" -> monitor, one in each process

function grouped.type.__travel(self)
    return "mare._monitor_group", {self.group, self.name}
end

--- What makes it again where it arrives.
function grouped.arrive(value)
    local key = value[1] .. " " .. value[2]
    if not known[key] then
        known[key] = setmetatable({group = value[1], name = value[2]}, grouped.type)
    end
    return known[key]
end

--- The monitor with this `name` of this `group`, one that this program has joined or its name.
function grouped.create(options)
    check.argument("create", options, 1, "table", 4)
    check.options("create", options, 1, check.set("group", "name"), 4)
    local group = type(options.group) == "table" and options.group.name or options.group
    check.option("create", {group = group}, 1, "group", "string", "a group or its name", 4)
    check.option("create", options, 1, "name", "string", "a string", 4)
    if not group or not options.name then
        error("bad argument #1 to 'create' (the monitor of a group needs 'group' and 'name')", 3)
    end
    return grouped.arrive {group, options.name}
end

--- Waits for the lock. Returns it, or nil, message, code.
function grouped.type.__index:lock(deadline)
    local group, message, code = require "mare.group".find(self.group)
    if not group then return nil, message, code end
    return group:lock(self.name, deadline)
end

return grouped
