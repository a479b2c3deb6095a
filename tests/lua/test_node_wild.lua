-- SPDX-License-Identifier: MIT
-- A peer that does anything at any time, mostly by the rules of docs/reference/wire.md, and
-- sometimes against them. The node and its program use whatever it gives them. They must go on, and
-- in the end nothing of it may be left.
local mare, node, hostile = require "mare", require "mare.node", require "hostile"
local peers, t = require "peers", require "t"

local number, text, bytes, array = hostile.number, hostile.text, hostile.bytes, hostile.array

local INTRODUCES <const> = 1 << 32 -- the feature
local SESSIONS, STEPS = math.max(40 // t.slow, 4), 400
local MOST = 8 -- of its channels and of its processes, and of its tags

local function chance(one_in) return math.random(one_in) == 1 end
local function any(list) return list[math.random(#list)] end

-- ---- The peer -----------------------------------------------------------------------------------

-- A reference: its own, or one that it was given.
local function reference(self)
    if #self.given > 0 and chance(2) then return any(self.given).bytes end
    return (chance(3) and hostile.process or hostile.channel)(math.random(MOST))
end

local function a_value(self)
    local kind = math.random(8)
    if kind <= 4 then return reference(self) end
    if kind == 5 then return text(("x"):rep(2 ^ math.random(0, 12) // 1)) end
    if kind == 6 then return chance(50) and string.char(math.random(0, 255)) or "\xc3" end
    return kind == 7 and hostile.NIL or number(math.random(0, 200))
end

local function values(self)
    local parts = {}
    for i = 1, math.random(0, 4) do parts[i] = a_value(self) end
    return table.concat(parts)
end

local function introductions()
    local parts = {"\xdd" .. (">I4"):pack(0)}
    local count = math.random(3)
    for i = 1, count do
        parts[i + 1] = array(number(2 * math.random(MOST) + math.random(0, 1)),
            bytes(any {"home", "nobody", "wild"}), number(1),
            bytes(any {"", "127.0.0.1:1", "/nowhere"}), number(i), bytes(("s"):rep(16)))
    end
    parts[1] = "\xdd" .. (">I4"):pack(count)
    return table.concat(parts)
end

local function message(self)
    local flag = chance(100) and math.random(0, 255) or any {0, 0, 0, 0, 1, 2, 4, 4}
    return string.char(flag) .. (flag & 4 ~= 0 and introductions() or "") .. values(self)
end

local requests = {
    function() return hostile.NIL .. text "gossip" .. text(("<s1s1j"):pack("n" .. math.random(9),
        any {"", "127.0.0.1:1"}, math.random(9))) end,
    function(self) return reference(self) .. text "find" .. text(any {"busy", "none"}) end,
    function(self) return hostile.NIL .. text "introduce" .. reference(self)
        .. number(math.random(3)) .. text(("s"):rep(16)) .. text(any {"home", "wild", "x"}) end,
    function(self) return reference(self) .. text "claim" .. text(any {"wild", "nobody"})
        .. number(math.random(3)) .. text(("s"):rep(16)) end,
    function(self) return reference(self) .. text(any {"ping", "code", "spawn", "alua"})
        .. values(self) end,
    function(self) return values(self) end,
}

-- The number of something of the node that it was given, mostly of this kind.
local function theirs(self, kind)
    local fitting = {}
    for _, one in ipairs(self.given) do
        if one.kind == kind then fitting[#fitting + 1] = one.id end
    end
    return #fitting > 0 and not chance(200) and any(fitting) or nil
end

-- Sends in a flow as far as its window goes.
local function send(self, flow, said)
    local window = self.windows[flow]
    if not window or window.sent - window.used >= 60 then return end
    window.sent = window.sent + 1
    self:data(flow, said)
end

local actions = {
    function(self) send(self, 2, "\0" .. any(requests)(self)) end,
    function(self) -- into a channel of the node
        local flows = {}
        for flow in pairs(self.windows) do flows[#flows + 1] = flow end
        local flow = any(flows)
        if flow % 2 == 0 or (self.wanted[flow] or 0) > 0 or chance(300) then
            if flow % 2 == 1 then self.wanted[flow] = (self.wanted[flow] or 0) - 1 end
            send(self, flow, message(self))
        end
    end,
    function(self) -- ATTACH
        local id = theirs(self, 1)
        self.tag = self.tag + 1
        if id and self.attached < 200 then
            self.attached = self.attached + 1
            self:control(2, id, self.tag)
        end
    end,
    function(self) -- WANT, in a flow that the node may send in
        local id = theirs(self, 1)
        if not id then return end
        local tag = self.asks[id]
        if not tag then
            self.tag = self.tag + 1
            tag = self.tag
            self.asks[id] = tag
            self:frame(0x23, number(2 * tag + 1), number(64), number(1 << 20), number(0))
        end
        self:control(chance(3) and 4 or 3, id, tag)
    end,
    function(self) -- UNWANTED, CLOSED: for any of its tags that the node has told
        if #self.tags > 0 then self:control(any {5, 6}, any(self.tags), math.random(0, 3)) end
    end,
    function(self) -- RELEASE
        if #self.given == 0 or chance(2) then return end
        local one = table.remove(self.given, math.random(#self.given))
        self:control(7, one.id * 2 + (one.kind == 2 and 1 or 0), 1)
        for _, other in ipairs(self.given) do
            if other.id == one.id then return end
        end
        self.asks[one.id] = nil
    end,
    function(self) -- WATCH, KILL, TIE, UNTIE
        local id = theirs(self, 2)
        if id then self:control(any {8, 8, 10, 11, 12}, id, 0, any {"", "tired"}) end
    end,
    function(self) -- ENDED. (Results that refer to each other are kept: see security.md.)
        local introduced, id = chance(3), math.random(MOST)
        self:control(9, id, any {0, 0, 1, 5, 9, 12} + (introduced and 65536 or 0),
            any {"", "tired"}, (introduced and introductions() or "")
            .. any {hostile.process(id), hostile.channel(id), number(id), text "result"})
    end,
    function(self) -- CREDIT as if all was used, CLOSE
        for flow, got in pairs(self.received) do
            self:frame(0x24, number(flow), number(got.messages), number(got.bytes))
        end
    end,
    function(self)
        if chance(100) then self:frame(math.random(0, 60), number(math.random(0, 40))) end
    end,
    function(self) -- lets the others run
        if chance(4) then mare.sleep(0.001) end
        return self
    end,
}

-- Notes what the node has given it.
local function note_references(self, said)
    for at, kind, ours, id in said:gmatch "()\xc7\x0c\9([\1\2])\0\0([\0\1])(........)" do
        if ours == "\0" then
            self.given[#self.given + 1] = {kind = kind:byte(), id = (">I8"):unpack(id),
                bytes = "\xc7\x0c\9" .. kind .. "\0\0\1" .. id, at = at}
        end
    end
end

local function note_control(self, said)
    local kind, at = hostile.value(said, 2)
    local a, behind = hostile.value(said, at)
    local b = hostile.value(said, behind)
    if kind == 2 and b then -- ATTACH: the node may send to it
        self.tags[#self.tags + 1] = b
        self:frame(0x23, number(2 * b), number(64), number(1 << 20), number(0))
    elseif kind == 3 and b then -- WANT
        self.wanted[2 * b + 1] = (self.wanted[2 * b + 1] or 0) + 1
    end
    return a
end

local function listen(self)
    while true do
        local fine, frame = pcall(self.read, self)
        if not fine or not frame then break end
        local kind, flow, said = frame[1], frame[2], frame[3]
        if kind == 0x23 then
            self.windows[flow] = {sent = flow == 2 and self.windows[2].sent or 0, used = 0}
        elseif kind == 0x24 and self.windows[flow] then self.windows[flow].used = said
        elseif kind == 0x25 then
            self.windows[flow] = nil
            pcall(self.frame, self, 0x26, number(flow))
        elseif kind == 9 then self.why = flow
        elseif kind == 0x20 and type(said) == "string" then
            note_references(self, said)
            if flow == 0 then pcall(note_control, self, said) end
            local got = self.received[flow] or {messages = 0, bytes = 0}
            got.messages, got.bytes = got.messages + 1, got.bytes + #said
            self.received[flow] = got
        end
    end
    self.over = true
end

-- One session. Returns how many steps it took, and the code with which the node has ended it.
local function misbehave(address)
    local self <close> = hostile.enter(address, "wild", nil, INTRODUCES)
    self.given, self.tags, self.wanted, self.asks, self.received = {}, {}, {}, {}, {}
    self.windows, self.tag, self.attached = {[2] = {sent = 0, used = 0}}, 1, 0
    local listener = mare.go(listen, self)
    send(self, 2, "\0" .. hostile.channel(1) .. text "find" .. text "busy")
    local steps = 0
    while not self.over and steps < STEPS do
        if not pcall(any(actions), self) then break end
        steps = steps + 1
        if steps % 20 == 0 then mare.yield() end
    end
    if self.over or chance(2) then listener:join(chance(2) and 0.01 or 0) end
    self.stream:close()
    listener:join(t.patience)
    return steps, self.why
end

-- ---- The program --------------------------------------------------------------------------------

-- Does anything with what it gets.
local function use(thing, kept, busy)
    local kind = getmetatable(thing)
    if kind == "channel" then
        local what = math.random(7)
        if what == 1 then thing:trysend(thing, busy, mare.self())
        elseif what == 2 then thing:trysend(("y"):rep(math.random(3000)))
        elseif what == 3 then mare.go(thing.receive, thing, 0.01):detach()
        elseif what == 4 then mare.select({thing, mare.channel(1)}, 0)
        elseif what == 5 then mare.go(thing.sendwithin, thing, 0.01, any(kept) or 1):detach()
        elseif what == 6 and math.random(4) == 1 then thing:close()
        else
            local lent = mare.channel(4)
            for i = 1, math.random(4) do lent:trysend(i, thing) end
            thing:trysend(lent, mare.spawn(function(c) c:receive(0.02) return c end, lent))
        end
    elseif kind == "process" then
        local what = math.random(5)
        if what == 1 then mare.go(thing.join, thing, 0.01):detach()
        elseif what == 2 then thing:monitor(mare.channel(1))
        elseif what == 3 then thing:kill "enough"
        elseif what == 4 then
            mare.spawn(function(p)
                p:link()
                require "mare".sleep(0.01)
            end, thing):join(0)
        else thing:alive() end
    end
    if kind then kept[math.random(10)] = thing end
end

local function be_busy()
    local busy, kept = mare.channel(20, "busy"), {}
    for i = 1, 10 do kept[i] = busy end
    for a, b, c, d in busy:messages() do
        for _, thing in ipairs {a or 0, b or 0, c or 0, d or 0} do pcall(use, thing, kept, busy) end
    end
end

return {
    whatever_a_peer_does_the_node_goes_on = {function()
        t.seed()
        local home <close> = peers.home()
        local before, whys, steps = t.descriptors "socket:", {}, 0
        local process = mare.spawn(be_busy)
        t.reaches(function() return mare.find "busy" end)
        for _ = 1, SESSIONS do
            local count, why = misbehave(home.address)
            steps, whys[why or 0] = steps + count, true
            local other <close> = hostile.enter(home.address, "another")
            t.eq(other:ask(70, text "ping"), "\0\xc3")
        end
        t.ok(steps > 20 * SESSIONS, steps) -- most get far
        process:kill()
        process:join(t.patience)
        t.reaches(function() return #t.ok(node.list()) <= 12 end)
        t.reaches(function() return t.descriptors "socket:" <= before end)
        for why in pairs(whys) do t.ok(({[0] = 1, [34] = 1, [35] = 1, [33] = 1, [32] = 1,
            [36] = 1, [37] = 1})[why], why) end
    end, timeout = 300},
}
