-- SPDX-License-Identifier: MIT
-- Elections: the holder of the election's lock is the leader. The value of its key tells who that
-- is, and its fencing number is the epoch.
local checks = require "mare._check"
local Client = require "mare.etcd._client"

local Election = {__name = "mare.etcd.election"}
Election.__index = Election

--- The election of that name.
function Client:election(name)
    checks.argument("election", name, 1, "string")
    return setmetatable({client = self, title = name, line = self:line_of("election", name)},
        Election)
end

--- Waits until this candidate leads: up to the timeout, or without limit. `value` tells others who
--- it is. Returns its term, which is a lock; or nil, message, code.
function Election:campaign(value, timeout, options)
    checks.argument("campaign", value, 1, "string")
    if self.term and self.term:held() then return nil, "it leads already", "exists" end
    local given = Client.check("campaign", 3, options, checks.set("lease"))
    local term, message, code = self.client:acquire("election", "campaign", self.title, timeout,
        {value = value, lease = given.lease})
    self.term = term
    return term, message, code
end

--- Stops leading, if it did. As `lock:unlock`.
function Election:resign(timeout)
    if not self.term then return false end
    return self.term:unlock(timeout)
end

--- Returns the leader and the epoch; or nil, message, code: "noname" if nobody leads.
function Election:leader(timeout)
    local list, message, code = self.client:list(self.line,
        {order = "created", limit = 1, timeout = timeout})
    if not list then return nil, message, code end
    if not list[1] then return nil, "nobody leads", "noname" end
    return list[1].value, list[1].created
end

-- ---- Changes ------------------------------------------------------------------------------------

-- Reads all candidates, and begins a watch on them.
local function begin(self, state)
    local list, revision, code = self.client:list(self.line)
    if not list then return nil, revision, code end
    state.candidates = {}
    for _, item in ipairs(list) do state.candidates[item.key] = item end
    local watch, message
    watch, message, code = self.client:watch(self.line, {prefix = true, revision = revision + 1})
    if not watch and code ~= "compacted" then return nil, message, code end
    state.watch = watch
    return true
end

-- The next event. If etcd has forgotten events, begins again.
local function take(self, state)
    local event, message, code
    if state.watch then
        event, message, code = state.watch:receive()
        if not event and code ~= "compacted" then return nil, message, code end
    end
    if not event then return begin(self, state) end
    state.candidates[event.key] = event.type == "put" and event or nil
    return true
end

local function oldest(candidates)
    local first
    for _, one in pairs(candidates) do
        if not first or one.created < first.created then first = one end
    end
    return first
end

local Changes = {}
function Changes:__close()
    if self.watch then self.watch:close() end
end

--- For a loop: each new leader and its epoch, beginning with the present one; false and the epoch
--- that has ended, if nobody leads. A failure raises an error.
function Election:changes()
    local state = setmetatable({}, Changes)
    return function()
        while true do
            local ok, message, code = take(self, state)
            if code == "closed" then return nil end
            if not ok then error(message, 2) end
            local leader = oldest(state.candidates)
            local epoch = leader and leader.created
            if epoch ~= state.epoch then
                local over = state.epoch
                state.epoch = epoch
                if leader then return leader.value, epoch end
                return false, over
            end
        end
    end, nil, nil, state
end

return Client
