-- SPDX-License-Identifier: MIT
-- Agents that keep a network coordinate by probing each other over UDP. C (mare.place) decides what
-- to send and how to react; this file has the socket, the clock and the pace. They understand the
-- agents of `mare place agent`.
local mare, net = require "mare", require "mare.net"
local place, time = require "mare.place", require "mare.time"
local address_of, checks = require "mare._address", require "mare._check"

local agent = {}

local ASKED_TIMES, ASK_TIME = 3, 1 -- seconds
local HELD = 256 -- packets that leave later, at most
local open_options = checks.set("peers", "dimensions", "interval", "hold")

local Agent = {}
Agent.__index = Agent

-- The host and port of "host:port".
local function check_address(name, text)
    local host, port = address_of(text)
    if not host then error(("bad argument to '%s' (%s)"):format(name, port), 3) end
    return host, port
end

local function is_six(address) return address:find(":", 1, true) ~= nil end

-- Makes "host:port" a peer, whose name is looked up within the timeout. True; or nil, message,
-- code.
function Agent:add(text, timeout)
    local host, port = check_address("add", text)
    local addresses, message, code = net.resolve(host, timeout)
    if not addresses then return nil, message, code end
    local six = is_six((self.socket:address()))
    for _, address in ipairs(addresses) do
        if is_six(address) == six then
            self.core:add(address, port)
            return true
        end
    end
    return nil, ("'%s' has no address of the socket's family"):format(host), "noname"
end

local function check_open(options)
    checks.argument("open", options, 3, "table", 4)
    checks.options("open", options, 3, open_options, 4)
    checks.option("open", options, 3, "peers", "table", "a list of addresses", 4)
    local spans = "a number of seconds above 0"
    checks.option("open", options, 3, "interval", checks.span, spans, 4)
    checks.option("open", options, 3, "hold", checks.span, spans, 4)
end

--- An agent at a host and port (0: one that is free), once its `run` is running. Options: `peers`,
--- a list of "host:port"; `dimensions` (3); `interval`, seconds between probes (1); `hold`, seconds
--- by which packets leave later, as over a slow line. The timeout is for all the names.
function agent.open(host, port, options, timeout)
    checks.address("open", host, port)
    options = options == nil and {} or options
    check_open(options)
    for _, peer in ipairs(options.peers or {}) do check_address("open", peer) end
    local deadline = checks.deadline("open", timeout, 4)
    local core = checks.pass("open", 3, 3, place.agent,
        {dimensions = options.dimensions, seed = time.nonce()})
    local socket, message, code = net.udp(host, port,
        {stamps = true, limit = 2048, both = true}, deadline)
    if not socket then return nil, message, code end
    local made = setmetatable({core = core, interval = options.interval or 1, socket = socket,
        arrivals = time.arrivals(), hold = options.hold, held = {}}, Agent)
    for _, peer in ipairs(options.peers or {}) do
        local ok
        ok, message, code = made:add(peer, deadline)
        if not ok then
            socket:close()
            return nil, message, code
        end
    end
    return made
end

-- Sends a packet, now or after the delay of `hold`. A packet that cannot be sent, or for which
-- there is no room, is lost, as on a slow line.
function Agent:send(packet, host, port)
    if not self.hold then return self.socket:send(packet, host, port, 0) end
    if #self.held < HELD then
        self.held[#self.held + 1] = {mare.deadline(self.hold), packet, host, port}
    end
end

function Agent:probe()
    local packet, host, port = self.core:probe(time.now(), time.nonce())
    if packet then self:send(packet, host, port) end
end

-- Handles a datagram.
function Agent:take(data, host, port, stamp)
    if self.arrivals:woke() then self.core:wake() end
    local age, here = self.arrivals:age(stamp)
    local answer = port > 0 and self.core:receive(here - age, data, host, port)
    if answer then self:send(answer, host, port) end
end

-- Sends packets whose delay is over. All have the same delay, so the oldest comes first. Returns
-- the time of the next packet or probe.
function Agent:release(round)
    while self.held[1] and self.held[1][1]:left() == 0 do
        local one = table.remove(self.held, 1)
        self.socket:send(one[2], one[3], one[4], 0)
    end
    local next = self.held[1]
    return next and next[1]:left() < round:left() and next[1] or round
end

--- Probes and answers until the agent is closed: for a routine of its own. Returns nil, message,
--- code.
function Agent:run()
    local round = mare.deadline(0)
    while true do
        if round:left() == 0 then
            self:probe()
            round = mare.deadline(self.interval)
        end
        local data, host, port, stamp = self.socket:receive(self:release(round))
        if data then
            self:take(data, host, port, stamp)
        elseif port == "closed" or port == "cancelled" then
            return nil, host, port
        elseif port ~= "timeout" and port ~= "toobig" then -- the system is in trouble: a bit later
            local _, message, code = mare.sleep(0.05)
            if code then return nil, message, code end
        end
    end
end

--- Its place now.
function Agent:here()
    return self.core:here()
end

--- The peers that have answered: a list of tables with `host`, `port`, `measured` and `estimated`
--- (milliseconds), `place`, `answers`, `silent`.
function Agent:peers()
    return self.core:peers()
end

--- Counts of sent probes, answers, and ignored packets.
function Agent:counts()
    return self.core:counts()
end

--- Host and port.
function Agent:address()
    return self.socket:address()
end

function Agent:close()
    return self.socket:close()
end
Agent.__close = Agent.close

-- Waits for the answer to a question until `turn` is over. Other packets are ignored.
local function answer_to(nonce, socket, turn)
    while true do
        local data, message, code = socket:receive(turn)
        local there = data and place.answer(data, nonce)
        if there then return there end
        if not data and code ~= "toobig" then return nil, message, code end
        if turn:left() == 0 then return nil, "no answer in time", "timeout" end
    end
end

-- Asks at one address.
local function ask_at(address, port, deadline)
    local socket <close>, message, code = net.udp(is_six(address) and "::" or "0.0.0.0")
    local connected = socket
    if socket then connected, message, code = socket:connect(address, port) end
    if not connected then return nil, message, code end
    local nonce = time.nonce()
    for _ = 1, ASKED_TIMES do
        local turn = mare.deadline(ASK_TIME)
        if deadline and deadline:left() < ASK_TIME then turn = deadline end
        local there
        there, message, code = socket:write(place.question(nonce), turn)
        if there then there, message, code = answer_to(nonce, socket, turn) end
        if there then return there end
        if code ~= "timeout" or deadline and deadline:left() == 0 then break end
    end
    return nil, message, code
end

--- The place of an agent at "host:port"; or nil, message, code. Asks up to three times, a second
--- each, within the timeout. If nobody answers at one address, tries the next address of the name.
function agent.ask(text, timeout)
    local host, port = check_address("ask", text)
    local deadline = checks.deadline("ask", timeout, 2)
    local addresses, message, code = net.resolve(host, deadline)
    if not addresses then return nil, message, code end
    local there
    for _, address in ipairs(addresses) do
        there, message, code = ask_at(address, port, deadline)
        if there or code == "timeout" or code == "cancelled" then break end
    end
    return there, message, code
end

return agent
