-- SPDX-License-Identifier: MIT
-- What the client of HTTP does with servers that speak HTTP/2: all its requests to a place share a
-- connection, which has a routine that reads and one that writes; neither keeps the process alive.
local mare = require "mare"
local shared, http2 = require "mare.http._shared", require "mare.http._http2"
local bodies = require "mare.http._body"
local http, Message, seconds_of = shared.http, shared.Message, shared.seconds_of

local client = {}

-- Codes of RFC 9113 section 7: the server has not touched the request; it is not wanted any more.
local REFUSED, CANCEL = 7, 8

-- The stock interpreter has none, and speaks HTTP/1.1.
local has_routines = pcall(mare._needs_routines, "request")

-- Places that are remembered, with their connections or for having none.
local places_most = 256

-- ---- Connections --------------------------------------------------------------------------------

local told = {}

function told.began(connection, id)
    local one = connection.streams[id]
    if not one then return end
    one.head, one.refused, one.reason = connection.session:response(id)
    http2.ring(one)
end

function told.ended(connection)
    connection.quiet = mare.now()
    if next(connection.streams) == nil then connection.look_again() end
end

function told.goodbye(connection) connection.going = true end

-- Whoever reads is to see how long there is something to wait for.
local function look_again(connection)
    if connection.waiting and connection.routine then
        connection.waiting = false
        connection.routine:cancel()
    end
end

-- Reads until nobody needs the connection: it is silent for too long, or was left.
local function run(connection, idle)
    local _, message, code = pcall(http2.read_all, connection, function()
        if next(connection.streams) then return math.huge end
        if connection.leaving then return 0 end
        return math.max(0, connection.quiet + idle - mare.now())
    end, function(word)
        return next(connection.streams) ~= nil
            or word ~= "timeout" and not connection.leaving and not connection.going
    end)
    connection.going = true
    local said = code and code ~= "closed" -- by TLS, as that the server does not know the client
    for _, one in pairs(connection.streams) do
        one.lost, one.lost_code = not said and connection.failed or message, said and code or nil
        http2.close_stream(one, CANCEL)
    end
    connection.session:goodbye(true)
    connection.over = true
    http2.wake(connection)
    connection.writer:join()
    connection.stream:close()
end

-- Begins to speak HTTP/2 on a stream.
local function begin(stream, limits, idle, write_time)
    local connection, message, code = http2.connection("client", stream, told, limits)
    if not connection then return nil, message, code end
    stream:timeout(write_time)
    connection.quiet = mare.now()
    connection.look_again = function() look_again(connection) end
    connection.writer = mare.go(http2.write_all, connection, write_time)
    connection.writer:detach()
    connection.routine = mare.go(run, connection, idle)
    connection.routine:detach()
    return connection
end

-- ---- Requests -----------------------------------------------------------------------------------

-- For a response that nobody reads to its end: its stream makes room for others.
local Leaver = {}

-- Nothing more is asked of the stream.
local function drop(one)
    if one.dropped then return end
    one.dropped, one.closed = true, true
    one.session:forget(one.id)
    one.connection.streams[one.id] = nil
    http2.wake(one.connection)
    told.ended(one.connection)
end

function Leaver:__gc() drop(self.one) end

-- Sends a body in parts, beside whoever waits for the answer; closes what it was read from.
local function send_body(one, wanted, closer)
    local _ <close> = closer
    local ok, message, code = http2.send_parts(one, bodies.take, wanted.body, wanted.length,
        wanted.deadline)
    if ok then return end
    one.unsent, one.unsent_code = message, code
    http2.ring(one)
end

-- Asks on a connection: the stream, or nil, message, code.
local function ask(connection, wanted)
    local place, body = wanted.place, wanted.body
    local length = math.type(wanted.length) and wanted.length or nil
    local id, message, code = connection.session:ask(wanted.method, place.scheme, place.name,
        place.target, wanted.headers, length, wanted.parts or body)
    if not id then return nil, message, code end
    local one = http2.open(connection, id)
    one.drained = not wanted.parts and (not body or body == "")
    http2.wake(connection)
    if wanted.parts then
        local closer = bodies.closer(wanted.closer.body)
        wanted.closer.body = nil -- it is the sender's now
        mare.go(send_body, one, wanted, closer)
    end
    return one
end

-- Waits for the head of an answer. Of a body that is still being sent the writer sees to it that it
-- moves.
local function await_head(one, wanted)
    local bell = http2.bell_of(one)
    while not one.head do
        if one.refused then return nil, "a response that is too large: " .. one.reason, "toobig" end
        if one.unsent and one.unsent_code ~= "closed" then
            return nil, one.unsent, one.unsent_code
        end
        if one.closed then
            return nil, one.lost or "the server has reset the stream", one.lost_code or "closed"
        end
        local time = wanted.deadline or one.drained and seconds_of(wanted.time) or nil
        local ok, message, code = bell:receive(time)
        if not ok then return nil, message, code end
    end
    return one.head
end

-- The response as the program sees it.
local function complete(one, wanted)
    local response = one.head
    one.head = nil -- or it would never be collected, and nobody know that it is not read
    local limits = wanted.limits or {}
    response.stream, response.http2, response.minor = one.connection.stream, true, nil
    response.leaver = setmetatable({one = one}, Leaver)
    local function at_end() drop(one) end
    response.close = at_end
    if response.has_body then
        response.next_part = shared.body_reader(http2.reader(one, limits.body or shared.body_most),
            nil, wanted.time, http.least_rate, at_end)
    else
        at_end()
    end
    return setmetatable(response, Message)
end

-- One request on a connection: the response; or nil, message, code and, if so, that the server may
-- have got it.
local function exchange(connection, wanted)
    local one, message, code = ask(connection, wanted)
    if not one then return nil, message, code, false end
    local response
    response, message, code = await_head(one, wanted)
    if response then return complete(one, wanted) end
    local untouched = one.closed and one.error == REFUSED
    drop(one)
    return nil, message, code, not untouched
end

-- ---- Places -------------------------------------------------------------------------------------

-- What a client knows of a place: its `connections`, whether one is `opening`, and whether it is
-- `plain`, for it speaks HTTP/1.1 only.
local function place_of(self, wanted)
    local name = wanted.place.scheme .. "://" .. wanted.place.name
    for _, known in ipairs(self.places) do
        if known.name == name and known.tls == wanted.tls then return known end
    end
    if #self.places >= places_most then
        local kept = {}
        for _, known in ipairs(self.places) do
            if known.opening or #known.connections > 0 then kept[#kept + 1] = known end
        end
        self.places = kept
    end
    local new = {name = name, tls = wanted.tls, connections = {}, waiting = {}}
    table.insert(self.places, new)
    return new
end

-- A connection that takes another request; those that take none any more are forgotten.
local function find(known, wanted)
    local connections = known.connections
    for i = #connections, 1, -1 do
        local one = connections[i]
        local open, most, going = one.session:status()
        if going or one.going or one.over then
            table.remove(connections, i)
        elseif open < most and one.limits == wanted.limits then
            return one
        end
    end
end

-- Opens a connection for whoever wants one there; nil, message, code, or a connection of HTTP/1.1.
local function open(self, known, wanted, connect)
    known.opening = true
    local opened, message, code = connect(wanted)
    known.opening = false
    local facts = opened and opened.stream:tls()
    local connection
    if opened and (facts and facts.protocol == "h2" or not wanted.place.secure) then
        connection, message, code = begin(opened.stream, wanted.limits, self.idle_time,
            seconds_of(self.timeout or wanted.time))
    elseif opened then
        known.plain = true
    end
    if connection then
        connection.limits = wanted.limits
        table.insert(known.connections, connection)
    end
    for bell in pairs(known.waiting) do bell:trysend(true) end
    known.waiting = {}
    if known.plain then return nil, opened end
    return connection, message, code
end

-- A connection for a request; or false, if it is one of HTTP/1.1's, with it if there is one; or
-- nil, message, code. And whether it is a new one.
local function take(self, wanted, connect)
    local known = place_of(self, wanted)
    while not known.plain do
        local connection = find(known, wanted)
        if connection then return connection end
        if not known.opening then
            local message, code
            connection, message, code = open(self, known, wanted, connect)
            if connection then return connection, nil, nil, true end
            if known.plain then return false, message end
            return nil, message, code
        end
        local bell = mare.channel(1)
        known.waiting[bell] = true
        local ok, message, code = bell:receive(wanted.time)
        known.waiting[bell] = nil
        if not ok then return nil, message, code end
    end
    return false
end

-- ---- For _client.lua ----------------------------------------------------------------------------

--- Whether a request may go over HTTP/2, as the option says.
function client.is_wanted(option, wanted)
    if not option or not has_routines then return false end
    return wanted.place.secure or option == "clear" and not wanted.way
end

--- Makes a request: as `exchange`. False: the server speaks HTTP/1.1, and a connection to it, if
--- one was made. What the server has not touched, and what can be repeated when a connection that
--- was there before ends without an answer, is tried again once.
function client.perform(self, wanted, connect)
    local again = shared.idempotent[wanted.method]
    for try = 1, 2 do
        local connection, message, code, new = take(self, wanted, connect)
        if not connection then return connection, message, code end
        local response, sent
        response, message, code, sent = exchange(connection, wanted)
        local repeatable = code == "closed" and not wanted.parts and (not sent or again and not new)
        if response or try == 2 or not repeatable then return response, message, code, sent end
    end
end

--- The same on a connection of its own, which ends with the answer.
function client.once(wanted, connect)
    local self = {places = {}, idle_time = 0}
    local response, message, code, sent = client.perform(self, wanted, connect)
    client.close(self)
    return response, message, code, sent
end

--- Closes the connections that are not in use; those that are, when they have been.
function client.close(self)
    for _, known in ipairs(self.places) do
        for _, connection in ipairs(known.connections) do
            connection.leaving, connection.going = true, true
            if next(connection.streams) == nil then connection.look_again() end
        end
    end
end

return client
