-- SPDX-License-Identifier: MIT
-- What a member of a group can show of itself, for bank:look() and `mare group`.
local mare, superpeers = require "mare", require "mare._group_superpeers"

local look = {}

local PATIENCE = 1 -- seconds for the answer of a replica, which may be busy

-- The title of a process for people: "3 (till)". The candidate of an election has none.
local function title(who)
    local process = who.process
    if not process then return nil end
    local name = process:name()
    return name and ("%d (%s)"):format(process:id(), name) or tostring(process:id())
end

-- Names that begin with a control character belong to the group itself: to elections, to replicas.
local function is_own(name) return name:byte() < 32 end

local function by_name(list)
    table.sort(list, function(a, b) return a.name < b.name end)
    return list
end

--- The locks: who holds one here, and who waits for it here. With `own`, also those of elections
--- and replicas.
function look.locks(host, own)
    local list = {}
    for name, lock in pairs(host.locks) do
        local line = {}
        for i, who in ipairs(lock.line) do line[i] = title(who) end
        list[#list + 1] = (own or not is_own(name)) and {name = name:gsub("[\1\2]", ""),
            algorithm = lock.algorithm, fence = lock.holder and lock.fence, waiting = #lock.line,
            holder = lock.holder and title(lock.holder), line = line[1] and line} or nil
    end
    return by_name(list)
end

-- Who leads, as far as is known here, and whether a process here is a candidate.
local function elections(host)
    local list = {}
    for name, election in pairs(host.elections) do
        list[#list + 1] = not is_own(name) and {name = name, leader = election.leader or nil,
            epoch = election.epoch, algorithm = election.algorithm,
            candidate = next(election.candidates) ~= nil} or nil
    end
    return by_name(list)
end

local function ask_log(log)
    local reply = mare.channel(1)
    local known = log.requests:sendwithin(PATIENCE, "look", reply) and reply:receive(PATIENCE) or {}
    known.kind, known.name = log.title:match "^(%a+)%.(.*)$"
    return known
end

-- The replicas and multicasts that are open here. One that does not answer is listed by name only.
local function logs(host)
    local routines, list = {}, {}
    for _, log in pairs(host.followers) do routines[#routines + 1] = mare.go(ask_log, log) end
    for i, routine in ipairs(routines) do list[i] = select(2, routine:join()) end
    return by_name(list)
end

-- The changes of the members that processes here wait for.
local function changes(host)
    local list = {}
    for i, one in ipairs(host.changes or {}) do
        list[i] = {what = one.what, name = one.name, process = title(one)}
    end
    return list
end

-- Puts everything together, once all parts have answered.
local function known(host, members)
    local list = host.list
    return {name = host.settings.name, lease = host:epoch() or nil, members = members,
        generation = list and list.generation, changes = changes(host), locks = look.locks(host),
        elections = elections(host), logs = logs(host), superpeers = superpeers.look(host)}
end

-- Starts a look for all who have asked so far. Those who ask while it runs share the next one.
local function begin(host)
    local askers = host.askers
    host.askers = {}
    host:members(function(members)
        mare.go(function()
            local _ <close> = setmetatable({}, {__close = function()
                local more = host.askers[1] and not host.ended
                if more then begin(host) else host.askers = nil end
            end})
            local answer = known(host, members)
            for _, tell in ipairs(askers) do tell(answer) end
        end):detach()
    end)
end

--- Tells what is known here: see bank:look(). The answer comes later. One look serves all who ask
--- meanwhile.
function look.tell(host, tell)
    local is_looking = host.askers
    host.askers = is_looking or {}
    table.insert(host.askers, tell)
    if not is_looking then begin(host) end
end

return look
