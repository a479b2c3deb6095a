-- SPDX-License-Identifier: MIT
-- What monitors, tuple spaces and brokers have in common: an object that one process serves, its
-- creator, through one channel, and that others refer to as {channel, from}. A caller sends a
-- number, its ticket, and a channel with room for one message, at which one answer arrives.
local mare = require "mare"

local service = {}

local CAPACITY = 64 -- messages that the creator has not read; senders of more wait

-- ---- The creator --------------------------------------------------------------------------------

-- If a message's handler fails, only that ends, and the error is printed.
local function guarded(fine, result)
    if fine then return result end
    pcall(mare.go, error, result, 0) -- without memory it cannot be printed
    return true
end

-- Checks a message: anybody who has the channel can send anything. A malformed message is ignored.
local function is_well_formed(types, ...)
    for i, wanted in ipairs(types) do
        local value = select(i, ...)
        if type(value) ~= wanted and getmetatable(value) ~= wanted then return false end
    end
    return true
end

local function dispatch(self, kinds, kind, ...)
    local types = kinds[kind]
    if types then
        if is_well_formed(types, ...) then self[kind](self, ...) end
    elseif getmetatable(kind) == "process" and not kind:alive() then
        self.watched[kind] = nil
        self:ended(kind)
    end
    return kind ~= nil or not self.channel:closed()
end

local function loop(self, kinds)
    local _ <close> = self.channel
    repeat until not guarded(pcall(dispatch, self, kinds, self.channel:receive()))
end

--- Sends without waiting. Nothing is sent if there is no room; or if a value with one owner is
--- hidden in a function, and has left with an earlier message. Returns whether it was sent, and
--- whether it ever can be.
function service.give(channel, ...)
    local fine, sent = pcall(channel.trysend, channel, ...)
    if not fine then pcall(mare.go, error, sent, 0) end
    return fine and sent, fine
end

--- Begins to serve. A message "kind", ... becomes self:kind(...), if the values have the types in
--- kinds[kind], a list. The end of a watched process becomes self:ended(process). The service does
--- not keep this process alive, and ends with it.
function service.serve(self, kinds)
    self.channel = mare.channel(CAPACITY)
    self.watched = {}
    mare.go(loop, self, kinds):detach()
    return self.channel
end

--- Watches a process: its end is told once, after all messages that it has sent.
function service.watch(self, process)
    if self.watched[process] then return end
    self.watched[process] = true
    process:monitor(self.channel)
end

-- ---- The others ---------------------------------------------------------------------------------

--- Makes a metatable for references to such objects. References can be sent; in each process there
--- is only one for each object.
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

local never = mare.channel() -- stands for the end of this process itself

local function creator_of(ref)
    return ref.from == mare.self() and never or ref.from
end

local function gone(ref, _, _, code)
    return nil, ("%s, which serves the %s, has ended"):format(ref.from, getmetatable(ref).__name),
        code == "nonode" and code or "noproc"
end

--- Sends a message, whose last value must not be nil. Returns true, or nil, message, code.
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

--- The same for messages that must not be lost: a cancel ends only one wait.
function service.insist(ref, ...)
    local sent, message, code
    repeat
        sent, message, code = service.tell(ref, nil, ...)
    until sent or code ~= "cancelled"
    return sent, message, code
end

local number = 0

--- A number and a channel for one answer. The list of processes shows for the channel the line
--- where the object (a lock, say) was made, not the channel's own.
function service.ticket(ref)
    number = number + 1
    local spare = ref.spare
    return number, spare and table.remove(spare) or mare.channel(1, nil, ref.channel)
end

--- Waits for the answer with that ticket, one value; or nil, message, code. A channel is used again
--- only if its answer has arrived.
function service.answer(ref, ticket, reply, deadline)
    local which, a, b, c
    repeat
        which, a, b, c = mare.select({reply, creator_of(ref)}, deadline)
    until which ~= 1 or a == ticket
    if which == 2 and #reply > 0 then
        which, a, b = 1, reply:tryreceive()
    end
    if which == 1 and a == ticket then
        local spare = ref.spare or {}
        ref.spare, spare[#spare + 1] = spare, reply
        return b
    end
    if which then return gone(ref, a, b, c) end
    return nil, a, b
end

return service
