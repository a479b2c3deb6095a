-- SPDX-License-Identifier: MIT
-- Agents that keep a network coordinate by probing each other over UDP. What to send, and what
-- comes of what arrives, is decided in C (mare.place); here are the socket, the clock and the pace.
-- They talk to those of `mare place agent`.
local mare, net = require "mare", require "mare.net"
local place, time = require "mare.place", require "mare.time"
local address_of = require "mare._address"

local agent = {}

local ASKED_TIMES, ASK_TIME = 3, 1 -- seconds

local Agent = {}
Agent.__index = Agent

-- Makes "host:port" a peer. True; or nil, message, code.
function Agent:add(text)
    local host, port = address_of(text)
    if not host then error(("bad argument #1 to 'add' (%s)"):format(port), 2) end
    local addresses, message, code = net.resolve(host)
    if not addresses then return nil, message, code end
    self.core:add(addresses[1], port)
    return true
end

--- An agent at a host and port (0: one that is free), once its `run` is running. Options: `peers`,
--- a list of "host:port"; `dimensions` (3); `interval`, seconds between probes (1).
function agent.open(host, port, options)
    options = options or {}
    local self = setmetatable({
        core = place.agent {dimensions = options.dimensions, seed = time.nonce()},
        interval = options.interval or 1,
    }, Agent)
    for _, peer in ipairs(options.peers or {}) do
        local ok, message, code = self:add(peer)
        if not ok then return nil, message, code end
    end
    local message, code
    self.socket, message, code = net.udp(host, port, {stamps = true, limit = 2048})
    if not self.socket then return nil, message, code end
    self.arrivals = time.arrivals()
    return self
end

function Agent:probe()
    local packet, host, port = self.core:probe(time.now(), time.nonce())
    -- What cannot be sent is lost, and the peer has been silent once more.
    if packet then self.socket:send(packet, host, port, 0) end
end

-- A datagram has come.
function Agent:take(data, host, port, stamp)
    if self.arrivals:woke() then self.core:wake() end
    local age, here = self.arrivals:age(stamp)
    local answer = port > 0 and self.core:receive(here - age, data, host, port)
    if answer then self.socket:send(answer, host, port, 0) end
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
        local data, host, port, stamp = self.socket:receive(round)
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

--- Those that have answered: a list of tables with `host`, `port`, `measured` and `estimated`
--- (milliseconds), `place`, `answers`, `silent`.
function Agent:peers()
    return self.core:peers()
end

--- How many probes were sent, answers came, packets were ignored.
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

--- The place of an agent at "host:port"; or nil, message, code. It is asked up to three times, a
--- second each, within the timeout.
function agent.ask(text, timeout)
    local host, port = address_of(text)
    if not host then error(("bad argument #1 to 'ask' (%s)"):format(port), 2) end
    local deadline = type(timeout) == "number" and mare.deadline(timeout) or timeout
    local addresses, message, code = net.resolve(host, deadline)
    if not addresses then return nil, message, code end
    local family = addresses[1]:find ":" and "::" or "0.0.0.0"
    local socket <close>, why, how = net.udp(family)
    local connected = socket
    if socket then connected, why, how = socket:connect(addresses[1], port) end
    if not connected then return nil, why, how end
    local nonce = time.nonce()
    for _ = 1, ASKED_TIMES do
        local turn = mare.deadline(ASK_TIME)
        if deadline and deadline:left() < ASK_TIME then turn = deadline end
        local data
        data, message, code = socket:write(place.question(nonce), turn)
        while data do
            data, message, code = socket:receive(turn)
            local there = data and place.answer(data, nonce)
            if there then return there end
        end
        if code ~= "timeout" or deadline and deadline:left() == 0 then break end
    end
    return nil, message, code
end

return agent
