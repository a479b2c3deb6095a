-- SPDX-License-Identifier: MIT
-- The creator's side of a monitor: one routine, one channel, one message after the other.
--
--   to the monitor                                        to the channel of who waits
--   "take", ticket, reply, process, origin, chain         ticket, fence      the lock is yours
--   "drop", ticket, reply      waits no longer            ticket, false      you have it already
--   "release", fence
--   "wait", fence, name, ticket, reply     of the holder: release, and wait for a signal
--   "wake", ticket, reply      a wait is over without one: back into the line
--   "signal", fence, name, all
--   process, how               has ended: p:monitor says so, after all that it has sent
--
--   entry:   line --grant--> holder --release--> gone       A fence, the number of a grant, never
--             ^                 |                           comes again: who names an old one is
--             +---- signal --- waits                        too late, and nothing happens.
local chains, service = require "mare._chain", require "mare._service"

local methods = {}
local server_type = {__index = methods}

-- Those who wait, first come, first served. Who is gone is passed over.
local function push(line, entry)
    line.last = line.last + 1
    line[line.last] = entry
    entry.place = line
end

local function pop(line)
    while line.first <= line.last do
        local entry = line[line.first]
        line[line.first] = nil
        line.first = line.first + 1
        if entry.place == line then return entry end
    end
end

local function new_line()
    return {first = 1, last = 0}
end

-- ---- The lock -----------------------------------------------------------------------------------

function methods:forget(entry)
    entry.place = nil
    self.entries[entry.reply] = nil
    self.processes[entry.from][entry] = nil
end

-- Gives the free lock to the first in line.
function methods:grant()
    while not self.holder do
        local entry = pop(self.line)
        if not entry then return end
        self.fence = self.fence + 1
        entry.fence, entry.place = self.fence, nil
        self.holder = entry
        if not entry.reply:trysend(entry.ticket, entry.fence) then self:free() end
    end
end

function methods:free()
    local entry = self.holder
    self.holder = nil
    self:forget(entry)
end

--- In the creator's own process, without a message: the lock if it is free and nobody was before.
function methods:grab(from, chain)
    if self.holder or self.line.first <= self.line.last or #self.channel > 0 then return nil end
    self.fence = self.fence + 1
    local own = self.processes[from] or {}
    self.processes[from] = own
    self.holder = {fence = self.fence, reply = self.channel, from = from, chain = chain}
    own[self.holder] = true
    return self.fence
end

function methods:leave(entry)
    if entry ~= self.holder then return self:forget(entry) end
    self:free()
    self:grant()
end

-- ---- Messages -----------------------------------------------------------------------------------

function methods:take(ticket, reply, from, origin, chain)
    local entry = {ticket = ticket, reply = reply, from = from, chain = {origin, chain}}
    if self.holder and chains.same(self.holder.chain, entry.chain) then
        return reply:trysend(ticket, false)
    end
    service.watch(self, from)
    self.processes[from] = self.processes[from] or {}
    self.processes[from][entry] = true
    self.entries[reply] = entry
    push(self.line, entry)
    self:grant()
end

function methods:drop(ticket, reply)
    local entry = self.entries[reply]
    if entry and entry.ticket == ticket then self:leave(entry) end
end

function methods:release(fence)
    if self.holder and self.holder.fence == fence then self:leave(self.holder) end
end

function methods:wait(fence, name, ticket, reply)
    local entry = self.holder
    if not entry or entry.fence ~= fence then return end
    self:free()
    entry.ticket, entry.reply = ticket, reply
    self.entries[reply] = entry
    self.processes[entry.from][entry] = true
    self.conditions[name] = self.conditions[name] or new_line()
    push(self.conditions[name], entry)
    self:grant()
end

function methods:wake(ticket, reply)
    local entry = self.entries[reply]
    if entry and entry.ticket == ticket and entry.place and entry.place ~= self.line then
        push(self.line, entry)
        self:grant()
    end
end

function methods:awaken(name, all)
    local waiters = self.conditions[name]
    repeat
        local entry = pop(waiters)
        if entry then push(self.line, entry) end
    until not entry or not all
    if waiters.first > waiters.last then self.conditions[name] = nil end
end

function methods:signal(fence, name, all)
    if self.conditions[name] and self.holder and self.holder.fence == fence then
        self:awaken(name, all)
    end
end

function methods:ended(process)
    local entries, concerned = self.processes[process] or {}, false
    for entry in pairs(entries) do
        concerned = true
        if entry ~= self.holder then self:forget(entry) end
    end
    -- It may have been the one to signal, or taken a signal along: the others look for themselves.
    if self.holder and self.holder.from == process then self:free() end
    if concerned then
        for name in pairs(self.conditions) do self:awaken(name, true) end
    end
    self.processes[process] = nil
    self:grant()
end

local KINDS = {take = true, drop = true, release = true, wait = true, wake = true, signal = true}

--- Begins to serve a new monitor. Returns its channel, and what serves it.
return function()
    local server = setmetatable({
        fence = 0, line = new_line(),
        conditions = {}, -- name -> line
        entries = {},    -- reply channel -> who waits there
        processes = {},  -- process -> its entries
    }, server_type)
    return service.serve(server, KINDS), server
end
