-- SPDX-License-Identifier: MIT
-- The time of a group, and which members are near. Each member's process tells its clock to anybody
-- who asks (_group_host.lua), or NTP servers tell the time; the links of nodes find the places.
local mare, checks, node = require "mare", require "mare._check", require "mare.node"
local time, place = require "mare.time", require "mare.place"

local where = {}

local PATIENCE, FRESH = 2, 1 -- seconds for an answer; for which a measurement is good enough
local POLITE = 4 -- seconds between two questions to the same servers

-- ---- Place --------------------------------------------------------------------------------------

local function is_count(value) return math.type(value) == "integer" and value > 0 end

--- The members whose distance is known, nearest first, as rows of node.list.
function where.near(names, count)
    if count ~= nil and not is_count(count) then
        error("bad argument #1 to 'near' (a number above 0 expected)", 3)
    end
    local list, message, code = node.near()
    if not list then return nil, message, code end
    local near = {}
    for _, one in ipairs(list) do
        if names[one.name] and not one.here and #near < (count or math.huge) then
            near[#near + 1] = one
        end
    end
    return near
end

--- The names of the other members that may be up, the nearest first; then those whose distance is
--- not known.
function where.in_order(members)
    local rank, names = {}, {}
    for i, one in ipairs(node.near() or {}) do rank[one.name] = i end
    for _, member in ipairs(members) do
        if not member.here and member.state ~= "down" then names[#names + 1] = member.name end
    end
    table.sort(names, function(a, b)
        local first, second = rank[a] or math.huge, rank[b] or math.huge
        if first ~= second then return first < second end
        return a < b
    end)
    return names
end

--- The names of the members, so many, that are nearest to all; of those whose places are known.
function where.place(names, count)
    if not is_count(count) then
        error("bad argument #1 to 'place' (a number above 0 expected)", 3)
    end
    local list, message, code = node.list()
    if not list then return nil, message, code end
    local sites, known = {}, {}
    for _, one in ipairs(list) do
        if names[one.name] and one.place then
            sites[#sites + 1], known[#known + 1] = one.place, one.name
        end
    end
    if #sites < count then
        return nil, ("the places of %d members are known"):format(#sites), "empty"
    end
    local chosen = {}
    for i, index in ipairs((place.replicas {count = count, clients = sites, sites = sites})) do
        chosen[i] = known[index]
    end
    return chosen
end

-- ---- Time ---------------------------------------------------------------------------------------

-- Measures a member's clock against the oscillator here, by Cristian's method: the offset, and how
-- far it may be wrong.
local function measure(address)
    local inbox = mare.find(address, PATIENCE)
    local reply = mare.channel(1)
    local sent = time.now()
    if not inbox or not inbox:sendwithin(PATIENCE, "", "", "clock", reply) then return nil end
    local clock = reply:receive(PATIENCE)
    local got = time.now()
    if math.type(clock) ~= "integer" then return nil end
    return clock - (sent + (got - sent) // 2), (got - sent + 1) // 2
end

-- Measures the clocks of all members that are up, at the same time: offsets and bounds; or nil,
-- message, code.
local function measure_all(group, members)
    local routines, offsets, bounds = {}, {}, {}
    for _, member in ipairs(members) do
        if member.here and member.state == "up" then
            local here, system, within = time.now()
            offsets[1], bounds[1] = system - here, within
        elseif member.state == "up" then
            routines[#routines + 1] = mare.go(measure, ("group.%s@%s"):format(group, member.name))
        end
    end
    for _, routine in ipairs(routines) do
        local ok, offset, bound = routine:join()
        if bound == "cancelled" then return nil, offset, bound end
        if ok and offset then offsets[#offsets + 1], bounds[#bounds + 1] = offset, bound end
    end
    return offsets, bounds
end

--- The mean of the clocks of the members that are up, in seconds since 1970, and how far it may be
--- wrong; or nil, message, code. The caller keeps `known` between two calls.
function where.now(group, members, drift, known)
    local now = time.now()
    if not known.at or now - known.at > FRESH * 1e9 then
        local offsets, bounds, code = measure_all(group, members)
        if not offsets then return nil, bounds, code end
        if 2 * #offsets <= #members then
            return nil, "this member does not reach a majority of the group", "noquorum"
        end
        local sum = 0
        for _, bound in ipairs(bounds) do sum = sum + bound end
        known.offset, known.bound = time.berkeley(offsets), sum // #bounds + 1
        now = time.now()
        known.at = now
    end
    return (now + known.offset) / 1e9, (known.bound + (now - known.at) * 2 * drift) / 1e9
end

--- The time that these NTP servers agree on, in seconds since 1970, and how far it may be wrong; or
--- nil, message, code. They are asked again after a while. If they are silent, the bound grows.
function where.ntp_now(servers, drift, known)
    local now = time.now()
    if not known.at or now - known.at > POLITE * 1e9 then
        known.asker = known.asker or require "mare.ntp".asker(servers)
        local said, message, code = known.asker:ask(PATIENCE)
        if not said and (not known.at or code == "cancelled") then return nil, message, code end
        if said then
            local here, system, within = time.now()
            known.at, known.offset = here, system - here + said.offset
            known.bound = said.error + within
        end
        now = time.now()
    end
    return (now + known.offset) / 1e9, (known.bound + (now - known.at) * drift) / 1e9
end

--- Waits until this time is past on every member, or until the timeout.
function where.after(read, instant, timeout)
    if type(instant) ~= "number" then
        error("bad argument #1 to 'after' (a time in seconds since 1970 expected)", 3)
    end
    local deadline = timeout and checks.deadline("after", timeout, 2)
    while true do
        local now, bound, code = read()
        if not now then return nil, bound, code end
        local left = instant - (now - bound)
        if left < 0 then return true end
        if deadline and deadline:left() == 0 then
            return nil, "the time is not past yet", "timeout"
        end
        local pause = math.min(left + 1e-6, deadline and deadline:left() or math.huge, FRESH)
        local _, message, why = mare.sleep(pause) -- not for long: the group may be left
        if why then return nil, message, why end
    end
end

return where
