-- SPDX-License-Identifier: MIT
-- A monitor whose lock belongs to a group of nodes (mare.group), not to a single process. In a
-- message it is two names. A program that has joined the group makes it again from those.
local check = require "mare._check"

local grouped = {type = {__name = "monitor", __index = {}}}

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

return grouped
