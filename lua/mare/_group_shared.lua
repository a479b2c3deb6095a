-- SPDX-License-Identifier: MIT
-- Replicas and multicasts of a group, as programs see them. The process behind one is
-- _group_replica.lua.
local mare, checks, party = require "mare", require "mare._check", require "mare._party"
local launch = require "mare._launch"

local shared = {each = 1} -- seconds for a member that is asked for a state, until another is, too

local PATIENCE, LOG_BYTES = 15, 8 << 20
local BACKLOG = 4096 -- the most bundles that a receiver of a multicast may be behind
local VALUE_BYTES = 1 << 20 -- of one value, which must cross to the other members in one message

-- What both have in common: they belong to a process of this program, and can be left.
local common = {}

local function ended(self)
    return nil, ("this program has no '%s' any more"):format(self.title), "closed"
end

-- The result of a wait. If the channel was closed, the process behind it has ended.
local function given(self, first, ...)
    if first == nil and select(2, ...) == "closed" then return ended(self) end
    return first, ...
end

local function ask(self, what, deadline, ...)
    local reply = mare.channel(1)
    local sent, message, code = self.channel:sendwithin(deadline, what, reply, ...)
    if not sent then return given(self, nil, message, code) end
    return given(self, reply:receive(deadline))
end

--- The state of its log here: {leader =, epoch =, last =, committed =, applied =, …}.
function common:look() return ask(self, "look", PATIENCE) end

--- Leaves. It can be made again later.
function common:leave() return ask(self, "leave", PATIENCE) end

local function start(group, settings, kind, name, log_bytes, ...)
    if not settings.folder then
        return nil, ("a %s needs a folder: see the option of group.join"):format(kind), "nostate"
    end
    local title = kind .. "." .. name
    local channel, message, code = mare.channel(256, ("mare.group.%s.%s"):format(group.name, title))
    if not channel then return nil, message, code end
    settings.inbox = ("group.%s.%s"):format(group.name, title)
    settings.folder = ("%s/log-%s-%s"):format(settings.folder, kind, name)
    settings.group, settings.title, settings.log_bytes = group.name, title, log_bytes or LOG_BYTES
    return launch(kind, "mare._group_replica", settings, channel, ...)
end

local function found(group, kind, name)
    return mare.find(("mare.group.%s.%s.%s"):format(group.name, kind, name))
end

local function pack(what, value)
    if value == nil then error(("bad argument #1 to '%s' (value expected)"):format(what), 3) end
    local bytes, message = party._pack(value)
    if not bytes then error(("bad argument #1 to '%s' (%s)"):format(what, message), 3) end
    if #bytes > VALUE_BYTES and what ~= "replica" then
        return nil, ("a value has %d bytes at most, this one has %d"):format(VALUE_BYTES, #bytes),
            "toobig"
    end
    return bytes
end

-- ---- Replicas -----------------------------------------------------------------------------------

local replica = {__name = "replica", __index = setmetatable({}, {__index = common})}

function shared.replica(group, settings, name, initial, change, options)
    local channel, message, code
    if change == nil and initial == nil then
        channel = found(group, "replica", name)
        if not channel then
            return nil, ("this program has no replica '%s'"):format(name), "noname"
        end
    else
        checks.argument("replica", change, 3, "function", 4)
        options = options or {}
        checks.options("replica", options, 4, checks.set "log", 4)
        checks.option("replica", options, 4, "log", checks.span, "a number of bytes", 4)
        if initial ~= nil then pack("replica", initial) end
        channel, message, code = start(group, settings, "replica", name, options.log, initial,
            change)
        if not channel then return nil, message, code end
    end
    return setmetatable({channel = channel, title = name}, replica)
end

local function answered(self, what, reply, first, ...)
    local _, code = ...
    if first == nil and code == "timeout" then
        local answer = mare.channel(1)
        if not self.channel:sendwithin(PATIENCE, "drop", answer, reply) then return ended(self) end
        local why, on_its_way = answer:receive(PATIENCE)
        if what == "apply" and (on_its_way or not why) then
            return nil, "it is not known to be done, and may be yet", "unsure"
        end
        return nil, "it was not done in time", why or "timeout"
    end
    return given(self, first, ...)
end

local function request(self, what, value, timeout)
    local deadline = timeout and checks.deadline(what, timeout, value and 2 or 1)
    local reply = mare.channel(1)
    local sent, message, code
    if deadline then
        sent, message, code = self.channel:sendwithin(deadline, what, reply, value)
    else
        sent, message, code = self.channel:send(what, reply, value)
    end
    if not sent then return given(self, nil, message, code) end
    if not deadline then return given(self, reply:receive()) end
    return answered(self, what, reply, reply:receive(deadline))
end

--- Applies the value on every member, in the same order. Returns when that is done here: true, and
--- what the function returned after the state; or nil, message, code. With `failed`, `timeout`,
--- `noquorum` and `toobig` it was not applied; with `unsure` it may be.
function replica.__index:apply(value, timeout)
    local bytes, message, code = pack("apply", value)
    if not bytes then return nil, message, code end
    return request(self, "apply", bytes, timeout)
end

--- The state, with everything that was acknowledged to anybody before this call: true, state; or
--- nil, message, code.
function replica.__index:read(timeout)
    return request(self, "read", nil, timeout)
end

--- The state as it is here: true, state. It may be old.
function replica.__index:peek() return ask(self, "peek", PATIENCE) end

-- Asks a member for the state of a replica: true, state; or nil, message, code.
local function peek_at(address, settings, deadline)
    local reply, sent = mare.channel(1), nil
    local inbox, message, code = mare.find(address, deadline)
    if inbox then
        sent, message, code = inbox:sendwithin(deadline, settings.here, settings.digest, "peek", 0,
            reply)
    end
    if not sent then return nil, message, code end
    return reply:receive(deadline)
end

-- Asks members side by side. `asked.next()` asks the next one; `asked.answer(deadline)` waits until
-- one has answered: its number, or nil, message, code.
local function questions(count, ask_one)
    local told, routines, asked = mare.channel(count), {}, {count = 0, open = 0}
    function asked.next()
        local i = asked.count + 1
        asked.count, asked.open = i, asked.open + 1
        routines[i] = mare.go(function()
            ask_one(i)
            told:trysend(i)
        end)
        routines[i]:detach()
    end
    function asked.answer(deadline)
        local i, message, code = told:receive(deadline)
        if i then asked.open = asked.open - 1 end
        return i, message, code
    end
    return setmetatable(asked, {__close = function()
        for _, routine in ipairs(routines) do routine:cancel() end
    end})
end

-- The state of the first of these members that tells it: true, the state, the member; or nil,
-- message, code. One that is slow may be the only one that has it: it is waited for while the next
-- one is asked.
local function peek_among(names, settings, name, deadline)
    local answers = {}
    local asked <close> = questions(#names, function(i)
        answers[i] = table.pack(peek_at(("group.%s.replica.%s@%s"):format(settings.group, name,
            names[i]), settings, deadline))
    end)
    while asked.open > 0 or asked.count < #names do
        if asked.count < #names then asked.next() end
        local last = asked.count == #names
        local i, message, code = asked.answer(last and deadline
            or mare.deadline(math.min(shared.each, deadline:left())))
        if i and answers[i][1] then return true, answers[i][2], names[i] end
        if code == "cancelled" then return nil, message, code end
        if not i and last then break end
    end
    if deadline:left() == 0 then return nil, "no member has answered in time", "timeout" end
    return nil, ("no member that is up has the replica '%s' open"):format(name), "noname"
end

--- The state that this member has, or another one: true, the state, the member; or nil, message,
--- code.
function shared.peek(group, settings, names, name, deadline)
    local own = found(group, "replica", name)
    if own then
        local ok, state, code = ask({channel = own, title = name}, "peek", deadline)
        if ok then return ok, state, settings.here end
        if code == "cancelled" then return nil, state, code end
    end
    settings.group = group.name
    return peek_among(names, settings, name, deadline)
end

-- ---- Multicasts ---------------------------------------------------------------------------------

local multicast = {__name = "multicast", __index = setmetatable({}, {__index = common})}

local orders = checks.set("fifo", "causal", "total")

function shared.multicast(group, settings, name, options)
    options = options or {}
    checks.argument("multicast", options, 2, "table", 4)
    checks.options("multicast", options, 2, checks.set("order", "timeout", "log"), 4)
    checks.option("multicast", options, 2, "order", function(word) return orders[word] end,
        '"fifo", "causal" or "total"', 4)
    checks.option("multicast", options, 2, "log", checks.span, "a number of bytes", 4)
    local known = found(group, "multicast", name)
    local channel, message, code = known
    if not channel then
        channel, message, code = start(group, settings, "multicast", name, options.log)
    end
    if not channel then return nil, message, code end
    local self = setmetatable({channel = channel, title = name, news = mare.channel(BACKLOG),
        values = {n = 0}, at = 1}, multicast)
    local deadline = mare.deadline(options.timeout or PATIENCE)
    local ok
    ok, message, code = ask(self, "receive", deadline, self.news, mare.self())
    if ok then return self end
    if not known then self:leave() end
    if code == "cancelled" or code == "closed" then return nil, message, code end
    return nil, "this member does not reach a majority of the group", "noquorum"
end

--- Sends a value to every member. Returns when this member has accepted it.
function multicast.__index:send(value, timeout)
    local bytes, message, code = pack("send", value)
    if not bytes then return nil, message, code end
    local sent
    if timeout then
        sent, message, code = self.channel:sendwithin(checks.deadline("send", timeout, 2), "send",
            false, bytes)
    else
        sent, message, code = self.channel:send("send", false, bytes)
    end
    if sent then return true end
    return given(self, nil, message, code)
end

-- Takes a bundle: its values are received one after the other.
local function unpack_bundle(self, from, payload)
    self.sender, self.values, self.at = from, table.pack(party._unpack(payload)), 1
end

local function next_value(self)
    local at = self.at
    self.at = at + 1
    return self.sender, self.values[at]
end

local function over(self, code, message)
    if code == "timeout" or code == "cancelled" then return nil, message, code end
    return nil, ("'%s' has ended here: it was left, or this receiver fell too far behind"):format(
        self.title), "closed"
end

--- The next value, and before it the name of the node that has sent it; or nil, message, code.
function multicast.__index:receive(timeout)
    if self.at > self.values.n then
        local from, payload, code
        if timeout then
            from, payload, code = self.news:receive(checks.deadline("receive", timeout, 1))
        else
            from, payload, code = self.news:receive()
        end
        if not from then return over(self, code, payload) end
        unpack_bundle(self, from, payload)
    end
    return next_value(self)
end

--- for from, value in orders:messages() do … end
function multicast.__index:messages()
    return function() return self:receive() end
end

--- A case of mare.select: ready when there is a value, with its sender and itself.
function multicast:__select(case, from, payload)
    if case and from then unpack_bundle(self, from, payload) end
    if self.at <= self.values.n then return true, next_value(self) end
    if case then return true, over(self) end
    return self.news
end

return shared
