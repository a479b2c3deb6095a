-- SPDX-License-Identifier: MIT
-- A tuple space, after Linda: processes leave tuples, and others find them by what is in them.
--
--     local mare, tuple = require "mare", require "mare.tuple"
--     local space = tuple.create()                          -- can be sent to other processes
--     space:out("job", 1, "paint the hull")
--     local _, id, what = space:in_("job", tuple.number, tuple.any)   -- takes one; waits for one
--     space:out("done", id)
--     print(space:rd("done", tuple.number))                 --> done  1    it stays there
--     print(space:inp("job", tuple.any, tuple.any))         --> nil ... empty: does not wait
--
-- A tuple is taken by exactly one. Until who takes it has said that it arrived, the space keeps it,
-- and puts it back if that process dies.
--
--   "out", tuple                         "find", ticket, reply, process, pattern, take, try
--   "done", ticket, reply  it arrived    "drop", ticket, reply  waits no longer
--   to the channel of who asks:  ticket, tuple | false
local mare, check, service = require "mare", require "mare._check", require "mare._service"

local tuple = {}

-- ---- Patterns -----------------------------------------------------------------------------------

local pattern_type = {
    __name = "pattern",
    __travel = function(self) return "mare.tuple", self.what end,
}

local function pattern(what)
    return setmetatable({what = what}, pattern_type)
end

--- Matches anything, nil too.
tuple.any = pattern "any"

--- Match any value of a type.
for _, name in ipairs {"number", "string", "boolean", "table"} do tuple[name] = pattern(name) end
tuple.integer, tuple.float = pattern "integer", pattern "float"

-- Tables match if they have the same in them.
local function same(a, b)
    if a == b then return math.type(a) == math.type(b) end
    if type(a) ~= "table" or type(b) ~= "table" then return false end
    for k, v in pairs(a) do
        if not same(v, b[k]) then return false end
    end
    for k in pairs(b) do
        if a[k] == nil then return false end
    end
    return true
end

local function fits(wanted, value)
    if getmetatable(wanted) ~= pattern_type then return same(wanted, value) end
    local what = wanted.what
    return what == "any" or what == type(value) or what == math.type(value)
end

local function matches(wanted, values)
    if wanted.n ~= values.n then return false end
    for i = 1, wanted.n do
        if not fits(wanted[i], values[i]) then return false end
    end
    return true
end

-- ---- The creator's side -------------------------------------------------------------------------

local methods = {}
local server_type = {__index = methods}
local KINDS = {out = true, find = true, done = true, drop = true}

-- Tuples are kept by how many values they have, oldest first.
local function list_of(lists, n)
    lists[n] = lists[n] or {}
    return lists[n]
end

local function remove(list, value)
    for i, other in ipairs(list) do
        if other == value then return table.remove(list, i) end
    end
end

-- Gives a tuple to who waits. One that takes it has to say that it arrived.
function methods:give(entry, values)
    if not entry.reply:trysend(entry.ticket, values) then return false end
    if entry.take then
        entry.values = values
    else
        self:forget(entry)
    end
    return entry.take
end

function methods:forget(entry)
    self.entries[entry.reply] = nil
    self.processes[entry.from][entry] = nil
end

function methods:out(values)
    local waiting = list_of(self.waiting, values.n)
    for _, entry in ipairs(table.move(waiting, 1, #waiting, 1, {})) do
        if matches(entry.pattern, values) then
            remove(waiting, entry)
            if self:give(entry, values) then return end
        end
    end
    table.insert(list_of(self.tuples, values.n), values)
end

function methods:find(ticket, reply, from, wanted, take, try)
    local entry = {ticket = ticket, reply = reply, from = from, pattern = wanted, take = take}
    service.watch(self, from)
    self.processes[from] = self.processes[from] or {}
    self.processes[from][entry], self.entries[reply] = true, entry
    local tuples = list_of(self.tuples, wanted.n)
    for i, values in ipairs(tuples) do
        if matches(wanted, values) then
            if self:give(entry, values) then table.remove(tuples, i) end
            return
        end
    end
    if not try then return table.insert(list_of(self.waiting, wanted.n), entry) end
    self:forget(entry)
    reply:trysend(ticket, false)
end

function methods:done(ticket, reply)
    local entry = self.entries[reply]
    if entry and entry.ticket == ticket and entry.values then self:forget(entry) end
end

-- Who waits no longer gets an answer all the same: this one, or a tuple that was faster.
function methods:drop(ticket, reply)
    local entry = self.entries[reply]
    if entry and entry.ticket == ticket and not entry.values then
        remove(list_of(self.waiting, entry.pattern.n), entry)
        self:forget(entry)
        reply:trysend(ticket, false)
    end
end

function methods:ended(process)
    local entries = self.processes[process]
    self.processes[process] = nil
    for entry in pairs(entries or {}) do
        self.entries[entry.reply] = nil
        if entry.values then
            self:out(entry.values)
        else
            remove(list_of(self.waiting, entry.pattern.n), entry)
        end
    end
end

-- ---- The others' side ---------------------------------------------------------------------------

local space = service.type("tuple space", "mare.tuple")
space.__index = {}

--- What makes a pattern or a space again where it arrives.
function tuple.arrive(value)
    return type(value) == "string" and tuple[value] or space.arrive(value)
end

--- A new, empty space. It lives as long as the process that made it.
function tuple.create()
    local channel = service.serve(setmetatable({
        tuples = {}, waiting = {}, -- number of values -> list
        entries = {},              -- reply channel -> who asks
        processes = {},            -- process -> its entries
    }, server_type), KINDS)
    return space.arrive {channel, mare.self()}
end

--- Leaves a tuple.
function space.__index:out(...)
    return service.insist(self, "out", table.pack(...))
end

-- Returns the values, or nil, message, code.
local function find(self, deadline, take, try, wanted)
    local ticket, reply = service.ticket()
    local sent, why, what = service.tell(self, deadline, "find", ticket, reply, mare.self(), wanted,
        take, try)
    if not sent then return nil, why, what end
    local values, message, code = service.answer(self, ticket, reply, deadline)
    if values == nil and (code == "timeout" or code == "cancelled") then
        why, what = message, code
        service.insist(self, "drop", ticket, reply)
        repeat
            values, message, code = service.answer(self, ticket, reply)
        until values ~= nil or code ~= "cancelled"
        if values == false then return nil, why, what end
    end
    if values == nil then return nil, message, code end
    if values == false then return nil, "no tuple matches", "empty" end
    if take then service.insist(self, "done", ticket, reply) end
    return table.unpack(values, 1, values.n)
end

--- Takes the oldest tuple that matches, and waits for one if there is none.
function space.__index:in_(...)
    return find(self, nil, true, false, table.pack(...))
end

space.__index["in"] = space.__index.in_ -- a word of the language: space["in"](space, ...)

--- The same, and leaves it there.
function space.__index:rd(...)
    return find(self, nil, false, false, table.pack(...))
end

--- With a timeout first.
function space.__index:inwithin(timeout, ...)
    return find(self, check.deadline("inwithin", timeout, 1), true, false, table.pack(...))
end

function space.__index:rdwithin(timeout, ...)
    return find(self, check.deadline("rdwithin", timeout, 1), false, false, table.pack(...))
end

--- Without waiting for a tuple: nil, message, "empty" if there is none.
function space.__index:inp(...)
    return find(self, nil, true, true, table.pack(...))
end

function space.__index:rdp(...)
    return find(self, nil, false, true, table.pack(...))
end

return tuple
