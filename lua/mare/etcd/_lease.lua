-- SPDX-License-Identifier: MIT
-- Leases that are kept alive by a routine of the process that has them.
--
-- A lease is alive for this process until `ends`, by its own monotonic clock: so long after the
-- last renewal was *sent* as the cluster has granted, less a bound for the drift of clocks. The
-- cluster counts from when it got the renewal, so it never ends a lease that is alive here. Once it
-- has ended it is never alive again, whatever the cluster says: others may have been told of its
-- end.
local mare, checks = require "mare", require "mare._check"
local Client = require "mare.etcd._client"
local int = Client.int

local Lease = {__name = "mare.etcd.lease"}
Lease.__index = Lease

-- The part of a lease that is left if clocks differ by up to 1 %.
local SURE <const> = 0.99

-- The lease has ended here. Tells those who wait for that.
local function lose(self, message, code)
    if self.reason then return end
    self.reason, self.code = message, code
    self.client.open[self] = nil
    self.gone:close()
end

--- Whether it is alive; or nil, why not, and "lost", or "closed" if this process ended it.
function Lease:alive()
    if not self.reason and mare.now() >= self.ends then
        lose(self, "the lease was not renewed in time", "lost")
    end
    if self.reason then return nil, self.reason, self.code end
    return true
end

--- The cluster says that the lease does not exist.
function Lease:ended() lose(self, "the lease has ended", "lost") end

--- How many seconds it lives if it is not renewed.
function Lease:left()
    return self:alive() and math.max(0, self.ends - mare.now()) or 0
end

--- Its number for etcd.
function Lease:id() return self.number end

-- A lease as a case of a select: ready when it has ended. Its routine may be delayed, so this looks
-- at the clock, too.
function Lease:__select()
    local alive, message, code = self:alive()
    if not alive then return true, nil, message, code end
    return self.gone, self:left()
end

-- Renews it once. Leaves a member without an answer early, so that all members can be asked in
-- time.
local function renew(self)
    local sent, third = mare.now(), self.ttl / 3
    local seconds, message, code = self.client:ask("lease/keepalive", {ID = self.number},
        {deadline = mare.deadline(math.min(third, self:left())), again = true, time = third / 2,
            decode = function(answer) return int(answer.TTL) end})
    if not self:alive() then return end
    if seconds and seconds > 0 then
        self.ends, self.ttl = sent + seconds * SURE, seconds
    elseif seconds or code == "noname" then
        self:ended()
    end
    return seconds, message
end

-- After a failure try again soon: there may still be time.
local PAUSE <const> = 0.05

local function keep(self)
    while self:alive() do
        mare.sleep(self.renewed and self.ttl / 3 or math.min(PAUSE, self:left()))
        if self:alive() then self.renewed = renew(self) end
    end
end

--- A new lease of so many seconds, which is kept alive for as long as this process lives; or nil,
--- message, code.
function Client:lease(ttl, options)
    ttl = ttl or self.ttl
    if not checks.span(ttl) then
        error("bad argument #1 to 'lease' (seconds above 0 expected)", 2)
    end
    options = Client.check("lease", 2, options, checks.set("timeout"))
    local sent = mare.now()
    local number, granted, code = self:ask("lease/grant", {TTL = math.ceil(ttl)},
        {deadline = self:deadline(options.timeout), again = true, decode = function(answer)
            return int(answer.ID), int(answer.TTL)
        end})
    if not number then return nil, granted, code end
    if self.closed then return nil, "the client is closed", "closed" end
    local lease = setmetatable({client = self, number = number, ttl = granted, renewed = true,
        ends = sent + granted * SURE, gone = mare.channel()}, Lease)
    self.open[lease] = true
    lease.routine = mare.go(keep, lease)
    lease.routine:detach()
    return lease
end

--- Ends the lease, and with it every key under it. Returns true; false if it had ended; or nil,
--- message, code: then it ends by itself.
function Lease:revoke(timeout)
    if not self:alive() then return false end
    lose(self, "the lease was ended", "closed")
    self.routine:cancel()
    local answer, message, code = self.client:ask("lease/revoke", {ID = self.number},
        {deadline = self.client:deadline(timeout), again = true, last = true})
    if answer or code == "noname" then return true end
    return nil, message, code
end

-- Runs in a process of its own.
local function revoke_for(endpoints, options, number)
    local client <close> = require "mare.etcd".client(endpoints, options)
    client:ask("lease/revoke", {ID = number}, {deadline = client:deadline(), again = true})
end

--- Ends it where nothing can wait. In the <close> of a routine that fails, another routine does it.
--- In a process that dies of an error or is killed, a new process does. If that fails too, the
--- lease ends by itself.
function Lease:abandon()
    if not self:alive() then return end
    if pcall(mare.go, Lease.revoke, self) then return end
    lose(self, "its process ends", "closed")
    pcall(mare.spawn, revoke_for, self.client.endpoints, self.client.options, self.number)
end

Lease.close = Lease.revoke
function Lease:__close()
    if coroutine.isyieldable() then self:revoke() else self:abandon() end
end

--- The lease that the locks and elections of this client share. Makes a new one if that was lost.
function Client:session(deadline)
    while not (self.shared and self.shared:alive()) do
        if self.asking then -- another routine is asking
            local _, message, code = self.asking:receive(deadline)
            if code ~= "closed" then return nil, message, code end
        else
            local asking <close> = mare.channel()
            self.asking = asking
            local lease, message, code = self:lease(self.ttl, {timeout = deadline})
            self.asking = nil
            if not lease then return nil, message, code end
            self.shared = lease
        end
    end
    return self.shared
end

return Client
