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
-- Exactly one process takes a tuple. The space keeps the tuple until that process has said that it
-- arrived, and puts it back if the process dies.
--
--   "out", tuple                         "find", ticket, reply, process, pattern, take, try
--   "done", ticket, reply  it arrived    "drop", ticket, reply  waits no longer
--   to the channel of who asks:  ticket, tuple | false
local mare, check, service = require "mare", require "mare._check", require "mare._service"
local lent = require "mare._lent"

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

-- Whether two tables have the same contents. Without metamethods: those are not the space's own
-- code. `seen` has the pairs that were compared already: in cycles they come again, and count as
-- equal unless something else differs. Cycles of different lengths bring other pairs first. A list
-- of pairs instead of recursion, because tables may be nested deeply.
local function same(first, second)
    local todo, n, seen = {first, second}, 2, {}
    while n > 0 do
        local a, b = todo[n - 1], todo[n]
        n = n - 2
        if rawequal(a, b) then
            if math.type(a) ~= math.type(b) then return false end
        elseif type(a) ~= "table" or type(b) ~= "table" then
            if a ~= b then return false end
        elseif not (seen[a] and seen[a][b]) then
            seen[a] = seen[a] or {}
            seen[a][b] = true
            for k, v in next, a do
                todo[n + 1], todo[n + 2], n = v, rawget(b, k), n + 2
            end
            for k in next, b do
                if rawget(a, k) == nil then return false end
            end
        end
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
local KINDS = {
    out = {"table"},
    find = {"number", "channel", "process", "table"},
    done = {"number", "channel"},
    drop = {"number", "channel"},
}
local MOST = 1 << 16 -- values in a tuple

local function is_packed(values)
    return math.type(values.n) == "integer" and values.n >= 0 and values.n <= MOST
end

-- Tuples are kept by their number of values, oldest first.
local function list_of(lists, n)
    lists[n] = lists[n] or {}
    return lists[n]
end

local function remove(list, value)
    for i, other in ipairs(list) do
        if other == value then return table.remove(list, i) end
    end
end

-- Offers a tuple to those who wait. A process that takes it must say that it arrived. Returns
-- whether the tuple is still there for others, and whether this process has it.
function methods:give(entry, values)
    local sent, fine = service.give(entry.reply, entry.ticket, values)
    if not fine then return false, false end
    if sent and entry.take then
        entry.values = values
        return false, true
    end
    self:forget(entry)
    return true, true
end

function methods:forget(entry)
    self.entries[entry.reply] = nil
    self.processes[entry.from][entry] = nil
end

function methods:out(values)
    if not is_packed(values) then return end
    local waiting = list_of(self.waiting, values.n)
    for _, entry in ipairs(table.move(waiting, 1, #waiting, 1, {})) do
        if matches(entry.pattern, values) then
            local stays, served = self:give(entry, values)
            if served then remove(waiting, entry) end
            if not stays then return end
        end
    end
    table.insert(list_of(self.tuples, values.n), values)
end

function methods:find(ticket, reply, from, wanted, take, try)
    if not is_packed(wanted) then return end
    local entry = {ticket = ticket, reply = reply, from = from, pattern = wanted, take = take}
    service.watch(self, from)
    self.processes[from] = self.processes[from] or {}
    self.processes[from][entry], self.entries[reply] = true, entry
    local tuples = list_of(self.tuples, wanted.n)
    local i = 1
    while i <= #tuples do
        local stays, served = true, false
        if matches(wanted, tuples[i]) then stays, served = self:give(entry, tuples[i]) end
        if stays then i = i + 1 else table.remove(tuples, i) end
        if served then return end
    end
    if not try then return table.insert(list_of(self.waiting, wanted.n), entry) end
    self:forget(entry)
    reply:trysend(ticket, false)
end

function methods:done(ticket, reply)
    local entry = self.entries[reply]
    if entry and entry.ticket == ticket and entry.values then self:forget(entry) end
end

-- A caller gives up. It gets an answer all the same: this one, or a tuple that was faster.
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

--- Makes a pattern or a space from a message.
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

local function packed(...)
    if select("#", ...) > MOST then error("too many values in a tuple", 3) end
    return table.pack(...)
end

--- Leaves a tuple.
function space.__index:out(...)
    return service.insist(self, "out", lent.refuse("out", packed(...), 1))
end

-- Returns the values, or nil, message, code.
local function find(self, deadline, take, try, wanted)
    local ticket, reply = service.ticket(self)
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
    return find(self, nil, true, false, packed(...))
end

space.__index["in"] = space.__index.in_ -- a word of the language: space["in"](space, ...)

--- The same, and leaves it there.
function space.__index:rd(...)
    return find(self, nil, false, false, packed(...))
end

--- The same, with the timeout as the first argument.
function space.__index:inwithin(timeout, ...)
    return find(self, check.deadline("inwithin", timeout, 1), true, false, packed(...))
end

function space.__index:rdwithin(timeout, ...)
    return find(self, check.deadline("rdwithin", timeout, 1), false, false, packed(...))
end

--- Without waiting for a tuple: nil, message, "empty" if there is none.
function space.__index:inp(...)
    return find(self, nil, true, true, packed(...))
end

function space.__index:rdp(...)
    return find(self, nil, false, true, packed(...))
end

return tuple
