-- SPDX-License-Identifier: MIT
-- Reference broadcasts live, over multicast: a beacon sends numbers; a receiver that hears one
-- notes the instant and tells the others, over the same group. No clock is changed, and the
-- beacon's clock is not even read. The packets are those of `mare clock beacon` and `hear`.
local mare, net, time = require "mare", require "mare.net", require "mare.time"
local checks = require "mare._check"

local rbs = {}

local SILENT = 2000000000 -- nanoseconds of silence after which another beacon may be used
local PEERS = 32
local LATE = 2 * PEERS -- datagrams that are handled after a timeout
local LOOPBACK = "127.0.0.1"
local beacon_options = checks.set("interface", "interval", "count")
local receiver_options = checks.set("interface", "name", "jitter", "drift", "wander", "ahead")

-- A socket that hears the group, and sends to it by the same interface.
local function join(group, port, interface)
    interface = interface or LOOPBACK
    local socket, message, code = net.udp(group, port,
        {reuse = true, stamps = true, interface = interface})
    if not socket then return nil, message, code end
    local joined
    joined, message, code = socket:join(group, interface)
    if joined then return socket end
    socket:close()
    return nil, message, code
end

--- Sends a broadcast each `interval` seconds (1), `count` of them or for ever. Returns true, or
--- nil, message, code. Options: also `interface` ("127.0.0.1").
function rbs.beacon(group, port, options)
    checks.address("beacon", group, port)
    options = options == nil and {} or options
    checks.argument("beacon", options, 3, "table")
    checks.options("beacon", options, 3, beacon_options)
    checks.option("beacon", options, 3, "interface", "string", "an address or a name")
    checks.option("beacon", options, 3, "interval", checks.span, "a number of seconds above 0")
    checks.option("beacon", options, 3, "count", math.tointeger, "an integer")
    local socket <close>, message, code = join(group, port, options.interface)
    if not socket then return nil, message, code end
    local series, number = time.nonce(), 0
    while number ~= options.count do
        if number > 0 then
            local _, why, how = mare.sleep(options.interval or 1)
            if how then return nil, why, how end
        end
        number = number + 1
        local sent, why, how = socket:send(time.broadcast {series = series, number = number},
            group, port)
        if not sent then return nil, why, how end
    end
    return true
end

-- ---- Receivers ----------------------------------------------------------------------------------

local Receiver = {}
Receiver.__index = Receiver

--- A receiver hears the broadcasts of a group, and compares its clock with those of the others.
--- Options: `interface`, `name` (up to 8 letters), `jitter`, `drift`, `wander` (as time.rbs), and
--- `ahead`: nanoseconds by which to pretend that this clock is ahead.
function rbs.receiver(group, port, options)
    checks.address("receiver", group, port)
    options = options == nil and {} or options
    checks.argument("receiver", options, 3, "table")
    checks.options("receiver", options, 3, receiver_options)
    checks.option("receiver", options, 3, "interface", "string", "an address or a name")
    checks.option("receiver", options, 3, "name", "string", "a string")
    checks.option("receiver", options, 3, "ahead", math.tointeger, "an integer of nanoseconds")
    local settings = {jitter = options.jitter, drift = options.drift or 100000,
        wander = options.wander}
    checks.pass("receiver", 3, 3, time.rbs, settings)
    local socket, message, code = join(group, port, options.interface)
    if not socket then return nil, message, code end
    local receiver = setmetatable({
        socket = socket, group = group, port = port, arrivals = time.arrivals(),
        name = options.name or "", ahead = options.ahead or 0, who = time.nonce(),
        settings = settings, compared = 0,
    }, Receiver)
    receiver:begin(nil)
    return receiver
end

function Receiver:begin(series)
    self.series, self.peers = series, {}
    self.last, self.gap = nil, 0
    self.heard = time.rbs(self.settings) -- how the record of a new peer begins
end

-- Of several beacons all receivers must use the same one: that of the lowest series. Another is
-- used once that has left out three broadcasts.
function Receiver:goes_by(series, at)
    return not self.series or series == self.series or math.ult(series, self.series)
        or self.last and at - self.last > math.max(3 * self.gap, SILENT)
end

function Receiver:on_beacon(beacon, at)
    if not self:goes_by(beacon.series, at) then return end
    if beacon.series ~= self.series then
        self:begin(beacon.series)
    elseif self.last then
        self.gap = at - self.last
    end
    self.last = at
    self.heard:hear(beacon.number, at)
    for _, peer in ipairs(self.peers) do peer.rbs:hear(beacon.number, at) end
    self.socket:send(time.broadcast {series = self.series, number = beacon.number, who = self.who,
        when = at, name = self.name}, self.group, self.port, 0)
end

function Receiver:find_peer(who)
    local oldest = 1
    for i, peer in ipairs(self.peers) do
        if peer.who == who then return peer end
        if peer.last < self.peers[oldest].last then oldest = i end
    end
    local fresh = {who = who, last = 0, rbs = self.heard:copy()}
    -- If there is no room, replaces the peer that was silent for longest.
    self.peers[#self.peers < PEERS and #self.peers + 1 or oldest] = fresh
    return fresh
end

-- Another receiver reports: returns a comparison with it, if this makes a new one.
function Receiver:on_report(report)
    if report.who == self.who or report.series ~= self.series then return end
    local peer = self:find_peer(report.who)
    if not peer.rbs:match(report.number, report.when) then return end
    self.compared = self.compared + 1
    peer.last = self.compared
    local now = time.now() + self.ahead
    local mean = peer.rbs:mean(now)
    return mean and {peer = report.name, who = report.who, mean = mean,
        line = peer.rbs:line(now) or nil}
end

--- The next comparison with another receiver: a table with its name (`peer`), `mean` and, after
--- three broadcasts, `line`, as rbs:mean and rbs:line of mare.time return them; or nil, message,
--- code. To be called again and again: what is heard is handled here.
function Receiver:next(timeout)
    local deadline = checks.deadline("next", timeout, 1)
    local late = 0
    while true do
        local data, message, code, stamp = self.socket:receive(deadline)
        if not data and code ~= "toobig" then return nil, message, code end
        -- After a suspend the oscillator cannot be compared with before: for the others this is a
        -- new receiver.
        if self.arrivals:woke() then
            self.who = time.nonce()
            self:begin(self.series)
        end
        local packet = data and time.heard(data)
        if packet then
            local age, here = self.arrivals:age(stamp)
            local compared
            if packet.who then
                compared = self:on_report(packet)
            else
                self:on_beacon(packet, here - age + self.ahead)
            end
            if compared then return compared end
        end
        -- After the deadline, handles datagrams that are here already, but not an endless stream of
        -- them.
        if deadline and deadline:left() == 0 then
            late = late + 1
            if late > LATE then
                return nil, "no readings could be compared before the timeout", "timeout"
            end
        end
    end
end

function Receiver:close()
    return self.socket:close()
end
Receiver.__close = Receiver.close

return rbs
