-- SPDX-License-Identifier: MIT
-- NTP live: asking servers, following them with a disciplined clock, and serving. C (mare.time)
-- decides what packets mean and how good the numbers are. This file has the sockets, the pace, and
-- the choice of servers to believe. All instants and spans are integers of nanoseconds, as in
-- mare.time; what a program waits is in seconds, as everywhere.
local mare, net, time = require "mare", require "mare.net", require "mare.time"
local address_of, checks = require "mare._address", require "mare._check"

local ntp = {keys = require "mare._ntp_keys"}

local PORT, SECOND, DAY = 123, 1000000000, 86400 * 1000000000
local UNSYNCHRONISED, SLOWEST = 16, 10
local SILENT = 8 -- unanswered questions before an address is given up
local PACKET = 512 -- bytes, with extension fields; nobody sends more

-- ---- Options ------------------------------------------------------------------------------------

-- What an option can be, where that is not checked in C.
local kinds = {
    samples = {function(n) return (math.tointeger(n) or 0) > 0 end, "an integer above 0"},
    interval = {function(s) return type(s) == "number" and s >= 0 end, "a number of seconds"},
    wait = {checks.span, "a number of seconds above 0"},
    liars = {function(n) return n == false or (math.tointeger(n) or -1) >= 0 end,
        "an integer from 0"},
    error = {function(n) return (math.tointeger(n) or -1) >= 0 end, "an integer of nanoseconds"},
    follow = {function(f) return f == false or type(f) == "table" and f.shown ~= nil end,
        "a follower"},
    told = {function(f) return f == false or type(f) == "function" end, "a function"},
}

-- The options, with defaults for those left out. Raises an error for an unknown one.
local function options_of(name, given, index, defaults)
    given = given == nil and {} or given
    checks.argument(name, given, index, "table", 4)
    checks.options(name, given, index, setmetatable({}, {__index = function(_, key)
        return defaults[key] ~= nil
    end}), 4)
    for key, kind in pairs(kinds) do
        checks.option(name, given, index, key, kind[1], kind[2], 4)
    end
    return setmetatable({}, {__index = function(_, key)
        local value = given[key]
        if value == nil then return defaults[key] end
        return value
    end})
end

local function list_of(name, servers)
    local list = type(servers) == "string" and {servers} or servers
    if type(list) ~= "table" or #list == 0 or #list > 32 then
        error(("bad argument #1 to '%s' (a server or a list of up to 32 expected)"):format(name), 3)
    end
    for _, server in ipairs(list) do
        local host, why = address_of(server, PORT)
        if not host then error(("bad argument #1 to '%s' (%s)"):format(name, why), 3) end
    end
    return list
end

-- ---- One server that is asked -------------------------------------------------------------------

local Server = {}
Server.__index = Server

-- The `poll` of questions that are `interval` seconds apart: 2^poll is at most that.
local function poll_of(interval)
    local poll = 0
    while poll < SLOWEST and 1 << poll < interval do poll = poll + 1 end
    return poll
end

local function new_server(name, poll, client)
    return setmetatable({
        name = name, rest = math.mininteger, given_up = 0, silent = 0,
        pace = (1 << poll) * SECOND, client = client,
    }, Server)
end

-- The servers that function `called` will ask.
local function new_servers(called, names, options)
    local _, utc = time.now()
    local poll, servers = poll_of(options.interval), {}
    local settings = {drift = options.drift, near = utc, key = options.key or nil, poll = poll,
        slowest = SLOWEST}
    for i, name in ipairs(names) do
        servers[i] = new_server(name, poll, checks.pass(called, 2, 4, time.client, settings))
    end
    return servers
end

-- A socket to the first of its addresses that there is a way to, after those given up. True; or
-- nil, message, code.
function Server:open(deadline)
    local host, port = address_of(self.name, PORT)
    local addresses, message, code = net.resolve(host, deadline)
    for i = 1, #(addresses or {}) do
        local address = addresses[(self.given_up + i - 1) % #addresses + 1]
        local socket
        socket, message, code = net.udp(address:find ":" and "::" or "0.0.0.0", 0,
            {limit = PACKET, stamps = true})
        if socket then
            self.arrivals = time.arrivals()
            local connected
            connected, message, code = socket:connect(address, port)
            if connected then
                self.socket, self.address = socket, address
                return true
            end
            socket:close()
        end
    end
    return nil, message, code
end

function Server:close()
    if self.socket then self.socket:close() end
end

-- The address does not answer: the next question goes to the next address of the name, looked up
-- again.
function Server:give_up_address()
    self:close()
    self.socket, self.given_up, self.silent = nil, self.given_up + 1, 0
end

-- Waits for the answer to a question. Returns the verdict on the packet that ended the wait; or
-- nil, message, code.
function Server:answer(deadline)
    while true do
        local data, message, code, stamp = self.socket:receive(deadline)
        if data then
            local age, here = self.arrivals:age(stamp)
            local verdict, open = self.client:take(here - age, data)
            if verdict == "kiss" then self.rest = here + self.client:wait() end
            if not open then return verdict end
        elseif code ~= "toobig" then
            return nil, message, code
        end
        -- A peer that sends endless wrong packets cannot hold us up beyond the deadline.
        if deadline:left() == 0 then return nil, "no answer in time", "timeout" end
    end
end

-- Sends a question. True; false if the server wants none yet; or nil, message, code.
function Server:ask(deadline)
    local ok, message, code = true, nil, nil
    if not self.socket then ok, message, code = self:open(deadline) end
    if not ok then return nil, message, code end
    local now = time.now()
    if now < self.rest then return false end
    local question
    question, message, code = self.client:ask(now, time.nonce())
    if not question then return nil, message, code end
    -- A client that was once asked to slow down stays slow.
    local wait = self.client:wait()
    if wait > self.pace then self.rest = now + wait end
    ok, message, code = self.socket:write(question, deadline)
    if code == "refused" then -- an error of an earlier packet
        ok, message, code = self.socket:write(question, deadline)
    end
    return ok, message, code
end

-- The machine was suspended: earlier measurements are worthless.
function Server:wake()
    local woke = self.arrivals and self.arrivals:woke()
    if woke then self.client:forget() end
    return woke
end

-- Asks once. True if that gave a sample; else false, or nil, message, code. A fault of the server
-- itself is noted in `why`.
function Server:exchange(deadline)
    local asked, message, code = self:ask(deadline)
    if asked == false then return false end
    local verdict
    if asked then verdict, message, code = self:answer(deadline) end
    self.silent = code == "timeout" and self.silent + 1 or 0
    if asked and code == "refused" or self.silent == SILENT then self:give_up_address() end
    if self:wake() then return false end
    self.why = not verdict and code ~= "timeout" and message or nil
    self.code = verdict == "kiss" and "refused" or self.why and code
    if not verdict then return nil, message, code end
    return verdict == "taken"
end

-- Why a server gives nothing: its fault, or the most common verdict.
function Server:excuse(status)
    local most, why = 0, self.why or "no answer"
    for verdict, count in pairs(status.packets) do
        if verdict ~= "taken" and count > most then most, why = count, verdict end
    end
    return why == "kiss" and status.kiss and "kiss " .. status.kiss or why
end

-- ---- Several servers ----------------------------------------------------------------------------

-- What we know about one server now, and its estimate.
local function entry_of(server, here, utc, width)
    server:wake()
    local status = server.client:status()
    -- A server that is silent now: its old samples are still true, but do not follow it.
    local best = status.reach ~= 0 and server.client:best(here)
    local entry = {server = server.name, packets = status.packets, kiss = status.kiss}
    if not best then
        entry.why, entry.code = server:excuse(status), server.code
        return entry
    end
    for name, value in pairs(best) do entry[name] = value end
    entry.offset, entry.error = best.time - utc, best.error + width
    return entry, best
end

-- What is known of all servers, and what they agree on, if they do: `time` and the fields after it.
-- More servers must agree than may lie, out of all that were asked: with three or five, a majority.
local function look(servers, liars)
    local here, utc, width = time.now()
    local view = {here = here, servers = {}}
    local estimates, indices = {}, {}
    for i, server in ipairs(servers) do
        local entry, best = entry_of(server, here, utc, width)
        view.servers[i] = entry
        if best then
            estimates[#estimates + 1], indices[#indices + 1] = best, i
        end
    end
    local choice = time.select(estimates, liars or (#servers - 1) // 2)
    if not choice then return view end
    local peer = estimates[choice.peer]
    view.peer, view.server = indices[choice.peer], servers[indices[choice.peer]].name
    view.time, view.offset = choice.time, choice.time - utc
    view.error, view.bound = choice.error + width, choice.error
    view.stratum, view.delay, view.root_delay = choice.stratum, peer.delay, peer.root_delay
    view.leap, view.reference_id = peer.leap, peer.reference_id
    for _, i in ipairs(choice.outliers) do view.servers[indices[i]].outlier = true end
    for _, i in ipairs(choice.survivors) do view.servers[indices[i]].survivor = true end
    return view
end

-- Why there is no time, and the code for it. If nobody answers: the reason that all have in common.
local function disagreement(servers, view)
    local said, code = {}, nil
    for i, entry in ipairs(view.servers) do
        if entry.why then
            said[#said + 1] = entry.server .. ": " .. entry.why
            local this = servers[i].code or "timeout"
            code = (code or this) == this and this or "timeout"
        end
    end
    if #said == #servers then return table.concat(said, "; "), code end
    said[#said + 1] = "those that answer do not agree, or are too few"
    return table.concat(said, "; "), "invalid"
end

-- The earlier of two ends of a wait: seconds from now, or a deadline, or nil.
local function earlier(seconds, deadline)
    if deadline and deadline:left() < seconds then return deadline end
    return mare.deadline(seconds)
end

-- Questions to one server, one after the other. nil, message, code: this routine shall end.
local function sample(server, options, deadline)
    for turn = 1, options.samples do
        if turn > 1 then
            local _, message, code = mare.sleep(earlier(options.interval, deadline):left())
            if code == "cancelled" then return nil, message, code end
        end
        -- Do not wait for a server that was silent twice.
        local silent = turn > 2 and server.client:status().reach == 0
        if silent or deadline and deadline:left() == 0 then break end
        local _, message, code = server:exchange(earlier(options.wait, deadline))
        if code == "cancelled" then return nil, message, code end
    end
    return true
end

-- Does `each(server)` for all of them at once: in routines, so that none holds back the others.
-- nil, message, code when this routine was cancelled.
local function for_all(servers, each)
    if #servers == 1 then return each(servers[1]) end
    local routines <close> = setmetatable({}, {__close = function(all)
        for _, routine in ipairs(all) do routine:cancel() end
    end})
    for i, server in ipairs(servers) do routines[i] = mare.go(each, server) end
    for _, routine in ipairs(routines) do
        local ok, result, code = routine:join()
        if not ok and code == "cancelled" then return nil, result, code end
        if not ok then error(result, 0) end
    end
    return true
end

local function close_all(servers)
    for _, server in ipairs(servers) do server:close() end
end

local Asker = {}
Asker.__index = Asker

local ask_options = {samples = 8, interval = 0.05, wait = 1, drift = 100000, key = false,
    liars = false}

--- Makes an asker, which asks servers as often as the program wants: see `asker:ask`.
function ntp.asker(servers, options)
    local names = list_of("asker", servers)
    options = options_of("asker", options, 2, ask_options)
    return setmetatable({options = options, servers = new_servers("asker", names, options)}, Asker)
end

-- The answer as `query` returns it, from the questions so far.
function Asker:answer()
    local view = look(self.servers, self.options.liars)
    if view.time then return view end
    local message, code = disagreement(self.servers, view)
    return nil, message, code, view
end

--- Asks each server once, all at the same time. Uses the last eight answers of each. Returns what
--- `query` returns.
function Asker:ask(timeout)
    local deadline = checks.deadline("ask", timeout, 1)
    local ok, message, code = for_all(self.servers, function(server)
        local _, why, how = server:exchange(earlier(self.options.wait, deadline))
        if how == "cancelled" then return nil, why, how end
        return true
    end)
    if not ok then return nil, message, code end
    return self:answer()
end

function Asker:close()
    close_all(self.servers)
end
Asker.__close = Asker.close

--- Asks servers ("host", "host:port", or a list of up to 32), and returns what they agree on: a
--- table with `time`, `error` and more; or nil, message, code and what is known of each.
function ntp.query(servers, options, timeout)
    local names = list_of("query", servers)
    options = options_of("query", options, 2, ask_options)
    local deadline = checks.deadline("query", timeout, 3)
    local asked = new_servers("query", names, options)
    local asker <close> = setmetatable({options = options, servers = asked}, Asker)
    local ok, message, code = for_all(asked, function(server)
        return sample(server, options, deadline)
    end)
    if not ok then return nil, message, code end
    return asker:answer()
end

-- ---- Following ----------------------------------------------------------------------------------

local Follower = {}
Follower.__index = Follower

--- A disciplined clock that follows servers, once its `run` is running.
function ntp.follower(servers, options)
    local names = list_of("follower", servers)
    options = options_of("follower", options, 2,
        {interval = 4, wait = 1, drift = 100000, slew = 500000, key = false, liars = false})
    checks.option("follower", options, 2, "interval", checks.span, "a number of seconds above 0")
    local follower = setmetatable({options = options, stop = mare.channel(),
        servers = new_servers("follower", names, options), suspension = time.arrivals()}, Follower)
    checks.pass("follower", 2, 3, follower.begin, follower)
    return follower
end

-- A clock that was not set yet.
function Follower:begin()
    self.clock = time.clock {drift = self.options.drift, slew = self.options.slew}
    self.stratum, self.root_delay, self.reference, self.leap = UNSYNCHRONISED, 0, 0, 0
    self.peer, self.reference_id = nil, 0
end

-- The machine was suspended: there is no time until a server has answered again.
function Follower:wake()
    if self.suspension:woke() then self:begin() end
end

-- Our stratum, from the followed server's present one, which may have risen. Once that server is
-- not among those that agree, its stratum does not count.
function Follower:stratum_now(view)
    local peer = self.stratum < UNSYNCHRONISED and view.servers[self.peer]
    return peer and peer.survivor and math.min(peer.stratum + 1, UNSYNCHRONISED) or UNSYNCHRONISED
end

-- There is a new sample.
function Follower:adjust()
    local view = look(self.servers, self.options.liars)
    if not view.time or not time.follows(self:stratum_now(view), view.stratum) then return end
    self.clock:set(view.here, view.time, view.bound)
    self.peer, self.stratum, self.root_delay = view.peer, view.stratum + 1, view.root_delay
    self.reference, self.leap = view.time, view.leap
    self.reference_id = time.reference(self.servers[view.peer].address)
end

-- The followed server was silent for long: its stratum does not count any more.
function Follower:forget_lost_peer()
    local peer = self.peer and self.servers[self.peer]
    if peer and peer.client:status().reach == 0 then self.stratum = UNSYNCHRONISED end
end

function Follower:keep(server)
    while true do
        local round = mare.deadline(self.options.interval)
        self:forget_lost_peer()
        local taken, message, code = server:exchange(mare.deadline(self.options.wait))
        if self.stop:closed() then server:close() end -- it may have been opened since
        if code == "cancelled" or self.stop:closed() then return nil, message, code end
        self:wake()
        if taken then self:adjust() end
        local _, why, how = self.stop:receive(round)
        if how ~= "timeout" then return nil, why, how end
    end
end

--- Asks the servers in turn until the follower is closed: for a routine of its own. Returns nil,
--- message, code.
function Follower:run()
    for_all(self.servers, function(server) return self:keep(server) end)
    if self.stop:closed() then return nil, "the follower is closed", "closed" end
    return nil, "the routine was cancelled", "cancelled"
end

-- Leap seconds may have come since the clock was set; it does not know of them.
function Follower:with_leaps(now, bound)
    if not bound or bound >= DAY then return now, bound end -- unknown, or too inexact
    return now, bound + time.leaps(self.reference, now + bound + SECOND, self.leap) * SECOND
end

--- The time and its error bound; the bound is nil while nothing is known. Time never goes back.
function Follower:read()
    self:wake()
    return self:with_leaps(self.clock:read((time.now())))
end

-- What the clock showed at a local instant a while ago.
function Follower:shown(here)
    self:wake()
    local now, bound = self.clock:target(here)
    local gap = self.clock:gap(here)
    return self:with_leaps(now - gap, bound and bound + math.abs(gap))
end

--- What is known of each server, and what they agree on: as `query` returns it.
function Follower:look()
    return look(self.servers, self.options.liars)
end

function Follower:close()
    close_all(self.servers)
    return self.stop:close()
end
Follower.__close = Follower.close

-- ---- Serving ------------------------------------------------------------------------------------

local Service = {}
Service.__index = Service

local LOCAL_CLOCK = 0x7f7f0101 -- 127.127.1.1, which everybody takes for an undisciplined clock

--- A server on a socket of its own, once its `run` is running: of the system's clock, with the
--- stratum and the error that its owner gives it, or of a follower (`follow`). The timeout is for
--- the name of the host.
function ntp.server(options, timeout)
    local deadline = checks.deadline("server", timeout, 2)
    options = options_of("server", options, 1, {host = "0.0.0.0", port = PORT, stratum = 10,
        error = 100000000, follow = false, keys = false, authenticated = false, told = false})
    local core = checks.pass("server", 1, 3, time.server, {
        stratum = options.follow and UNSYNCHRONISED or options.stratum,
        reference_id = options.stratum == 1 and string.unpack(">I4", "LOCL") or LOCAL_CLOCK,
        keys = options.keys or nil, authenticated = options.authenticated,
    })
    local socket, message, code = net.udp(options.host, options.port,
        {limit = PACKET, stamps = true, both = true}, deadline)
    if not socket then return nil, message, code end
    return setmetatable({
        socket = socket, arrivals = time.arrivals(), core = core, follow = options.follow,
        bound = options.error, told = options.told, answered = 0,
    }, Service)
end

-- The leap indicator: from the table; or as the followed server said, until the end of that day.
function Service:leap(utc)
    local change = time.leaptoday(utc)
    if change ~= 0 then return change > 0 and 1 or 2 end
    local follow = self.follow
    return follow and utc // DAY == follow.reference // DAY and follow.leap or 0
end

-- The answer to a question that came `age` ago.
function Service:answer(question, age, here, utc, width)
    local follow, received, bound, leaves, leaves_bound = self.follow
    if follow then
        received, bound = follow:shown(here - age)
        leaves, leaves_bound = follow:read()
        self.core:tell {stratum = follow.stratum, root_delay = follow.root_delay,
            reference = follow.reference, reference_id = follow.reference_id}
    else
        received, bound = utc - age, self.bound + width
        leaves, leaves_bound = select(2, time.now())
        leaves_bound = leaves_bound + self.bound
    end
    self.core:tell {leap = self:leap(leaves)}
    return self.core:answer(question, received, bound, leaves, leaves_bound)
end

--- Answers until the server is closed: for a routine of its own. Returns nil, message, code.
function Service:run()
    while true do
        local question, host, port, stamp = self.socket:receive()
        local code = not question and port
        if question then
            local answer = self:answer(question, self.arrivals:age(stamp))
            -- If there is no room now the packet is lost, as any datagram may be.
            if answer and self.socket:send(answer, host, port, 0) then
                self.answered = self.answered + 1
                if self.told then self.told(host, port, answer) end
            end
        elseif code == "closed" or code == "cancelled" then
            return nil, host, code
        elseif code ~= "toobig" then -- an error of the system: try again a little later
            local _, message, how = mare.sleep(0.05)
            if how then return nil, message, how end
        end
    end
end

--- Host and port.
function Service:address()
    return self.socket:address()
end

function Service:close()
    return self.socket:close()
end
Service.__close = Service.close

return ntp
