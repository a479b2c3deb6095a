-- SPDX-License-Identifier: MIT
-- What monitors, tuple spaces and brokers have in common: an object that one process serves, its
-- creator, through one channel, and that others refer to as {channel, from}. Who asks sends a
-- number, its ticket, and a channel with room for one message, at which one answer arrives.
local mare = require "mare"

local service = {}

local CAPACITY = 64 -- messages that the creator has not looked at; who sends more waits

-- ---- The creator --------------------------------------------------------------------------------

-- A malformed message ends nothing but itself; the error is printed.
local function guarded(fine, result)
    if fine then return result end
    mare.go(error, result, 0)
    return true
end

local function dispatch(self, kinds, kind, ...)
    if kinds[kind] then
        self[kind](self, ...)
    elseif getmetatable(kind) == "process" then
        self:ended(kind)
    end
    return kind ~= nil or not self.channel:closed()
end

local function loop(self, kinds)
    local _ <close> = self.channel
    repeat until not guarded(pcall(dispatch, self, kinds, self.channel:receive()))
end

--- Begins to serve: a message "kind", ... becomes self:kind(...), the end of a process that is
--- watched self:ended(process). The service ends with this process, which does not live longer for
--- it.
function service.serve(self, kinds)
    self.channel = mare.channel(CAPACITY)
    self.watched = {}
    mare.go(loop, self, kinds):detach()
    return self.channel
end

--- From now on its end is told, once, after the last that it has sent.
function service.watch(self, process)
    if self.watched[process] then return end
    self.watched[process] = true
    process:monitor(self.channel)
end

-- ---- The others ---------------------------------------------------------------------------------

--- A metatable for references to such objects, which travel, and are one object in each process.
function service.type(name, module)
    local known = setmetatable({}, {__mode = "v"}) -- channel -> reference
    local meta = {__name = name}
    function meta.__travel(self)
        return module, {self.channel, self.from}
    end
    function meta.arrive(value)
        local ref = known[value[1]]
        if not ref then
            ref = setmetatable({channel = value[1], from = value[2]}, meta)
            known[value[1]] = ref
        end
        return ref
    end
    return meta
end

local never = mare.channel() -- stands for the end of this very process

local function creator_of(ref)
    return ref.from == mare.self() and never or ref.from
end

local function gone(ref, _, _, code)
    return nil, ("%s, which serves the %s, has ended"):format(ref.from, getmetatable(ref).__name),
        code == "nonode" and code or "noproc"
end

--- Sends, the last value not nil. Returns true, or nil, message, code.
function service.tell(ref, deadline, ...)
    local sent, _, code = ref.channel:trysend(...)
    if sent then return true end
    if code == "closed" then return gone(ref) end
    local which, message
    which, sent, message, code = mare.select({{ref.channel, ...}, creator_of(ref)}, deadline)
    if which == 1 and sent then return true end
    if which then return gone(ref, sent, message, code) end
    return nil, sent, message
end

--- The same for what must not be left unsaid: a cancel ends one wait only.
function service.insist(ref, ...)
    local sent, message, code
    repeat
        sent, message, code = service.tell(ref, nil, ...)
    until sent or code ~= "cancelled"
    return sent, message, code
end

local spare, number = {}, 0

--- A number and a channel for one answer.
function service.ticket()
    number = number + 1
    return number, table.remove(spare) or mare.channel(1)
end

--- Waits for the answer with the ticket, one value; or nil, message, code. Only a channel at which
--- its answer has arrived is used again.
function service.answer(ref, ticket, reply, deadline)
    local which, a, b, c
    repeat
        which, a, b, c = mare.select({reply, creator_of(ref)}, deadline)
    until which ~= 1 or a == ticket
    if which == 2 and #reply > 0 then
        which, a, b = 1, reply:tryreceive()
    end
    if which == 1 and a == ticket then
        spare[#spare + 1] = reply
        return b
    end
    if which then return gone(ref, a, b, c) end
    return nil, a, b
end

return service
