-- SPDX-License-Identifier: MIT
-- The connections of a client: the unused ones; and, if there is a limit for a host, how many it
-- has, and the requests that wait in line for one.
--
-- If there is a limit, each connection has a slot of its host, also while it is unused. When the
-- connection is closed, the slot goes to the first in line, or back to the host:
--
--     in line ──▶ slot ──▶ connection in use ──▶ unused ──▶ in use …
--                  ▲            │ closed            │ closed: idle for too long, too many
--                  └────────────┴───────────────────┘
--
-- Between two waits no other routine of the process runs. So code without a wait in it is atomic.
local mare, take_in = require "mare", require "mare._websocket".take
local seconds_of = require "mare.http._shared".seconds_of

local Pool = {}
Pool.__index = Pool

-- ---- Slots --------------------------------------------------------------------------------------

local Slot = {}
Slot.__index = Slot

-- Also frees the slot of an answer that the program has dropped.
function Slot:__gc() self:free() end

--- The connection was closed, or could not be made.
function Slot:free()
    if self.freed then return end
    self.freed = true
    local host = self.host
    local first = table.remove(host.line, 1)
    if first then
        first.turn:trysend(true) -- there is always room in its channel
    else
        host.count = host.count - 1
    end
end

-- Frees the slot if no connection was made for it, also after an error.
function Slot:__close()
    if not self.taken then self:free() end
end

local function new_slot(host) return setmetatable({host = host}, Slot) end

local function fits(connection, wanted)
    return connection.name == wanted.place.name and connection.scheme == wanted.place.scheme
        and connection.tls == wanted.tls
end

-- Whether the server has sent nothing since its answer, and has not closed. Unasked bytes would
-- pass for the next answer (RFC 9112 section 6.3).
local function is_silent(connection) return take_in(connection.stream) == false end

--- Closes a connection.
function Pool:drop(connection) -- luacheck: no self
    connection.stream:close()
    if connection.slot then connection.slot:free() end
end

-- ---- Unused connections -------------------------------------------------------------------------

-- Closes connections that were unused for too long. Returns how long the oldest of the others may
-- still be.
local function expire(self)
    local unused, now = self.unused, mare.now()
    while unused[1] and now - unused[1].since >= self.idle_time do
        self:drop(table.remove(unused, 1))
    end
    return unused[1] and self.idle_time - (now - unused[1].since)
end

-- Runs in the background while there are unused connections; not in a host, which has no routines.
-- There the next request does this work.
local function watch(self)
    if self.watched or self.idle_time == math.huge then return end
    self.watched = pcall(function()
        mare.go(function()
            local _ <close> = setmetatable({}, {__close = function() self.watched = false end})
            local left = expire(self)
            while left do
                if select(3, mare.sleep(math.max(left, 0.001))) then return end
                left = expire(self)
            end
        end):detach()
    end)
end

-- Takes the newest connection that fits, and closes those that cannot be used.
local function take(self, wanted)
    local unused = self.unused
    expire(self)
    for i = #unused, 1, -1 do
        if fits(unused[i], wanted) then
            local one = table.remove(unused, i)
            if is_silent(one) then return one end
            self:drop(one)
        end
    end
end

-- The place of the oldest unused connection to the same host, and how many there are.
local function oldest_of(self, connection)
    local first, count = nil, 0
    for i, one in ipairs(self.unused) do
        if one.name == connection.name and one.scheme == connection.scheme then
            first, count = first or i, count + 1
        end
    end
    return first, count
end

--- A connection has served a request. `reusable`: it can serve another one.
function Pool:put(connection, reusable)
    if not reusable or self.closed then return self:drop(connection) end
    local slot = connection.slot
    local first = slot and slot.host.line[1]
    if first then
        if not (first.usable and fits(connection, first.wanted)) then
            return self:drop(connection) -- and so the first in line has the slot
        end
        table.remove(slot.host.line, 1)
        first.connection = connection
        first.turn:trysend(true)
        return
    end
    connection.since = mare.now()
    table.insert(self.unused, connection)
    local oldest, count = oldest_of(self, connection)
    if count > self.host_idle then
        self:drop(table.remove(self.unused, oldest))
    elseif #self.unused > self.most then
        self:drop(table.remove(self.unused, 1))
    end
    watch(self)
end

-- ---- The line -----------------------------------------------------------------------------------

-- Waits in line for a slot, or for a connection that has one. Or nil, message, code.
local function wait(self, host, wanted, usable)
    if #host.line >= self.line then
        return nil, ("%d requests wait for a connection to %s"):format(#host.line,
            wanted.place.name), "full"
    end
    local own = {turn = mare.channel(1), wanted = wanted, usable = usable}
    table.insert(host.line, own)
    local time = wanted.time
    if wanted.connect_time and seconds_of(time) > wanted.connect_time then
        time = wanted.connect_time
    end
    local ok, message, code = own.turn:receive(time)
    if ok then return own.connection or new_slot(host) end
    for i, one in ipairs(host.line) do
        if one == own then
            table.remove(host.line, i)
            return nil, code == "timeout" and ("no connection to %s became free in time")
                :format(wanted.place.name) or message, code
        end
    end
    if own.connection then -- its turn came at the same moment: pass it on
        self:put(own.connection, true)
    elseif code ~= "closed" then
        new_slot(host):free()
    end
    return nil, message, code
end

local function host_of(self, place)
    local key = place.scheme .. "://" .. place.name
    local host = self.hosts[key]
    if not host then
        host = {count = 0, line = {}}
        self.hosts[key] = host
    end
    if self.host_most and host.count >= self.host_most and #host.line == 0 then
        local oldest = oldest_of(self, {name = place.name, scheme = place.scheme})
        if oldest then self:drop(table.remove(self.unused, oldest)) end -- close it to make room
    end
    return host, key
end

--- Whether no other connection to a place may be made now, unused ones aside.
function Pool:is_full(place)
    if not self.host_most then return false end
    local host = host_of(self, place)
    return host.count >= self.host_most or #host.line > 0
end

-- Gets a slot for a new connection, or a connection that became free; or nil, message, code.
local function queue(self, wanted, usable)
    local host, key = host_of(self, wanted.place)
    if host.count >= self.host_most or #host.line > 0 then
        if self.give_way then self.give_way(key) end
        return wait(self, host, wanted, usable)
    end
    host.count = host.count + 1
    return new_slot(host)
end

--- A connection for a request. If `usable`, an unused one and `true`, if there is one; else a new
--- one, made by `connect(wanted)`. Or nil, message, code.
function Pool:obtain(wanted, usable, connect)
    local kept = usable and take(self, wanted)
    if kept then return kept, true end
    local slot, message, code
    if self.host_most then
        slot, message, code = queue(self, wanted, usable)
        if not slot then return nil, message, code end
        if slot.stream then
            if is_silent(slot) then return slot, true end -- check again: it was put back earlier
            slot.stream:close()
            slot = slot.slot
        end
    end
    if slot then slot.taken = false end -- perhaps of a closed connection
    local _ <close> = slot
    local connection
    connection, message, code = connect(wanted)
    if connection and slot then connection.slot, slot.taken = slot, true end
    return connection, message, code
end

--- Closes unused connections now, and the others after their use. Requests in line fail.
function Pool:close()
    self.closed = true
    local unused, hosts = self.unused, self.hosts
    self.unused = {}
    for _, host in pairs(hosts) do
        local line = host.line
        host.line = {}
        for _, one in ipairs(line) do one.turn:close() end
    end
    for _, connection in ipairs(unused) do self:drop(connection) end
end

--- Makes the pool of a client: at most `most` unused connections in all, `host_idle` to one host,
--- each unused for `idle_time` at most; `host_most` connections to one host (nil: any number), and
--- so many requests in `line` for them. `give_way(host)` is called when there are as many as
--- allowed: it may end a connection that something else keeps.
local function new(options)
    options.unused = {} -- the one used last is the last
    options.hosts = {}
    return setmetatable(options, Pool)
end

return {new = new}
