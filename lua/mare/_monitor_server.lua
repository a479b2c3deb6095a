-- SPDX-License-Identifier: MIT
-- The creator's side of a monitor. One routine reads one channel, and handles one message after the
-- other.
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
--             ^ | comes again: one that names an old one is +---- signal --- waits too late, and
--             nothing happens.
local chains, service = require "mare._chain", require "mare._service"

local methods = {}
local server_type = {__index = methods}

local GRABS = 256 -- the most grabs in a row

-- A line is a list of entries, linked by `before` and `after`: first come, first served. Whoever
-- leaves it is unlinked at once: else a lock that is held for long would keep all that gave up.
local function push(line, entry)
    local last = line.last
    entry.place, entry.before = line, last
    if last then last.after = entry else line.first = entry end
    line.last = entry
end

local function unlink(entry)
    local line, before, after = entry.place, entry.before, entry.after
    if before then before.after = after else line.first = after end
    if after then after.before = before else line.last = before end
    entry.place, entry.before, entry.after = nil, nil, nil
end

-- ---- The lock -----------------------------------------------------------------------------------

-- Takes an entry out of its line, if it is in one. A condition for which nobody waits is forgotten.
function methods:withdraw(entry)
    local line = entry.place
    if not line then return end
    unlink(entry)
    if line.condition and not line.first then self.conditions[line.condition] = nil end
end

function methods:forget(entry)
    self:withdraw(entry)
    self.entries[entry.reply] = nil
    self.processes[entry.from][entry] = nil
end

-- Gives the free lock to the first in line.
function methods:grant()
    while not self.holder do
        local entry = self.line.first
        if not entry then return end
        unlink(entry)
        self.fence = self.fence + 1
        entry.fence = self.fence
        self.holder = entry
        if not entry.reply:trysend(entry.ticket, entry.fence) then self:free() end
    end
end

function methods:free()
    local entry = self.holder
    self.holder = nil
    if entry.ticket then self:forget(entry) end -- a lock that was grabbed has no entry in a list
end

--- Takes the lock without a message, for the creator's own process: if it is free and nobody waits.
--- A process that does only this never waits, so the routine would never see that others have come.
--- So after some grabs it has to ask like the others, and wait for its turn.
function methods:grab(from, chain)
    if self.holder or self.line.first or #self.channel > 0 or self.grabs == GRABS then
        return nil
    end
    local entry = self.spare or {fence = 0, from = from, chain = chain}
    self.spare = nil
    self.fence, self.grabs = self.fence + 1, self.grabs + 1
    entry.fence, entry.chain = self.fence, chain
    self.holder = entry
    return self.fence
end

function methods:leave(entry)
    if entry ~= self.holder then return self:forget(entry) end
    self:free()
    self:grant()
end

-- ---- Messages -----------------------------------------------------------------------------------

function methods:take(ticket, reply, from, origin, chain)
    self.grabs = 0
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
    local entry = self.holder
    if not entry or entry.fence ~= fence then return end
    if entry.ticket then return self:leave(entry) end
    self.holder, self.spare = nil, entry -- keep this entry for the next grab
    if self.line.first then self:grant() end
end

function methods:wait(fence, name, ticket, reply)
    local entry = self.holder
    if not entry or entry.fence ~= fence then return end
    self:free()
    entry.ticket, entry.reply = ticket, reply
    self.entries[reply] = entry
    self.processes[entry.from] = self.processes[entry.from] or {}
    self.processes[entry.from][entry] = true
    self.conditions[name] = self.conditions[name] or {condition = name}
    push(self.conditions[name], entry)
    self:grant()
end

function methods:wake(ticket, reply)
    local entry = self.entries[reply]
    if entry and entry.ticket == ticket and entry.place and entry.place ~= self.line then
        self:withdraw(entry)
        push(self.line, entry)
        self:grant()
    end
end

function methods:awaken(name, all)
    local waiters = self.conditions[name]
    repeat
        local entry = waiters.first
        self:withdraw(entry)
        push(self.line, entry)
    until not waiters.first or not all
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
    -- The dead process may have had the duty to signal, or have taken a signal with it. So wake
    -- those who wait: they look for themselves.
    if self.holder and self.holder.from == process then self:free() end
    if concerned then
        for name in pairs(self.conditions) do self:awaken(name, true) end
    end
    self.processes[process] = nil
    self:grant()
end

local KINDS = {
    take = {"number", "channel", "process", "number", "number"},
    drop = {"number", "channel"},
    release = {"number"},
    wait = {"number", "string", "number", "channel"},
    wake = {"number", "channel"},
    signal = {"number", "string"},
}

--- Begins a new monitor. Returns its channel, and the object that serves it.
return function()
    local server = setmetatable({
        fence = 0, line = {}, grabs = 0,
        conditions = {}, -- name -> line, if somebody waits
        entries = {},    -- by reply channel: the entry of the process that waits there
        processes = {},  -- process -> its entries
    }, server_type)
    return service.serve(server, KINDS), server
end
