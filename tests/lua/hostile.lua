-- SPDX-License-Identifier: MIT
-- A peer of a node that does as it likes, for tests: it writes the bytes of docs/reference/wire.md
-- itself.
local net, tls, t = require "mare.net", require "mare.tls", require "t"

local function number(n)
    if n < 128 then return string.char(n) end
    return n < 1 << 32 and (">BI4"):pack(0xce, n) or (">BI8"):pack(0xcf, n)
end

local function text(s) return "\xdb" .. (">s4"):pack(s) end
local function bytes(s) return "\xc6" .. (">s4"):pack(s) end
local function array(...) return string.char(0x90 + select("#", ...)) .. table.concat {...} end
-- The peer's own.
local function channel(id) return "\xc7\x0c\9" .. (">I4I8"):pack(1 << 24, id) end
local function process(id) return "\xc7\x0c\9" .. (">I4I8"):pack(2 << 24, id) end

-- What one of the values that tests look at says: a number, or a string; and what follows it.
local function value(s, at)
    at = at or 1
    local head = s:byte(at)
    if head < 128 then return head, at + 1 end
    local forms = {[0xcc] = ">I1", [0xcd] = ">I2", [0xce] = ">I4", [0xcf] = ">I8", [0xc4] = ">s1",
        [0xc5] = ">s2", [0xc6] = ">s4", [0xd9] = ">s1", [0xda] = ">s2", [0xdb] = ">s4"}
    local size = head - 0xa0
    if size >= 0 and size < 32 then return s:sub(at + 1, at + size), at + 1 + size end
    if forms[head] then return forms[head]:unpack(s, at + 1) end
    return nil, at + 1
end

local hostile = {number = number, text = text, bytes = bytes, array = array, channel = channel,
    process = process, value = value, NIL = "\xc0"}
hostile.__index = hostile

function hostile:__close() self.stream:close() end

function hostile:frame(kind, ...)
    t.ok(self.stream:write((">s4"):pack(array(number(kind), ...))))
end

function hostile:data(flow, s) self:frame(0x20, number(flow), bytes(s)) end

function hostile:control(kind, a, b, said, body)
    self:data(0, array(number(kind), number(a), number(b), bytes(said or ""), bytes(body or "")))
end

-- The next frame: its kind, then what it has, as far as it is numbers and strings. Nil at the end.
function hostile:read()
    local head = self.stream:read(4, t.patience)
    if not head then return nil end
    local body = t.ok(self.stream:read((">I4"):unpack(head), t.patience))
    local frame, at = {}, 2
    for i = 1, body:byte(1) - 0x90 do frame[i], at = value(body, at) end
    if frame[1] & 0x20 ~= 0 then
        self.counted = self.counted + 1
        if self.counted % 16 == 0 then self:frame(6, number(self.counted)) end -- ACK
    elseif frame[1] == 7 then
        self:frame(8, number(frame[2]), number(self.counted), number(0), bytes "")
    end
    return frame
end

-- The first frame of this kind for which the condition is true; nil: the node has ended the link,
-- and why is in `quit`.
function hostile:wait(kind, condition)
    while true do
        local frame = self:read()
        if not frame then return nil end
        if frame[1] == 9 then self.quit = frame[2] end
        if frame[1] == kind and (not condition or condition(frame)) then return frame end
    end
end

-- Waits for a control message: its two numbers.
function hostile:told(kind, a)
    local found
    self:wait(0x20, function(frame)
        if frame[2] ~= 0 then return false end
        local said, behind = value(frame[3], 2)
        local first, last = value(frame[3], behind)
        found = said == kind and (not a or a == first) and {first, (value(frame[3], last))}
        return found
    end)
    return t.ok(found)
end

-- A channel of the node takes messages of this peer in flow 2 * tag.
function hostile:attach(id, tag)
    self:control(2, id, tag)
    t.ok(self:wait(0x23, function(frame) return frame[2] == 2 * tag end))
end

-- Asks the node for something, the answer goes to the peer's channel `id`: what it begins with.
function hostile:ask(id, ...)
    self:data(2, "\0" .. channel(id) .. table.concat {...})
    local flow = 2 * self:told(2, id)[2]
    self:frame(0x23, number(flow), number(64), number(1 << 23), number(0))
    return t.ok(self:wait(0x20, function(frame) return frame[2] == flow end))[3]
end

-- What a peer says of itself: its name and address, its bounds, the largest message.
local function itself(name, silence)
    return array(text(name), text "", number(1), number(1), array()),
        array(number(65536), number(4096), number((silence or 60) * 1000000), number(1 << 20),
            number(1 << 30)),
        bytes((">I8"):pack(1 << 22))
end

-- WELCOME to the node that has dialled, and its service.
function hostile.welcome(stream, name)
    local self = setmetatable({counted = 0, stream = stream}, hostile)
    t.ok(self:wait(1))
    self:frame(2, number(1), bytes(("s"):rep(16)), number(0), itself(name))
    self:control(1, 1, 0)
    return self
end

-- HELLO; its service; messages to that of the node in flow 2. `options`: of TLS; `silence`: the
-- seconds after which it wants to be lost.
function hostile.come_in(address, name, options, features, silence)
    local host, port = address:match "^(.*):(%d+)$"
    local self = setmetatable({counted = 0}, hostile)
    self.stream = t.ok(net.connect(host, tonumber(port), t.patience))
    if options then self.stream = t.ok(tls.wrap(self.stream, options, t.patience)) end
    self:frame(1, text "mare", number(1), number(1), number(features or 0), itself(name, silence))
    return self
end

function hostile.enter(address, name, options, features, silence)
    local self = hostile.come_in(address, name, options, features, silence)
    t.ok(self:wait(2))
    self:control(1, 1, 0)
    self:attach(self:told(1)[1], 1)
    return self
end

return hostile
