-- SPDX-License-Identifier: MIT
-- The client's side of HTTP/2. All requests to one place share a connection. It has one routine
-- that reads and one that writes; neither keeps the process alive.
local mare = require "mare"
local shared, http2 = require "mare.http._shared", require "mare.http._http2"
local bodies = require "mare.http._body"
local http, Message, seconds_of = shared.http, shared.Message, shared.seconds_of

local client = {}

-- Codes of RFC 9113 section 7: the server has not processed the request; the client does not want
-- it any more.
local REFUSED, CANCEL = 7, 8

-- The stock interpreter has no routines, so it uses HTTP/1.1.
local has_routines = pcall(mare._needs_routines, "request")

-- How many places are remembered, with their connections or as without HTTP/2.
local places_most = 256

-- ---- Connections --------------------------------------------------------------------------------

local told = {}

function told.began(connection, id)
    local one = connection.streams[id]
    if not one then return end
    one.head, one.refused, one.reason = connection.session:response(id)
    http2.ring(one)
end

-- Wakes the first in line: there may be room now.
local function call_next(known)
    local first = known and known.line[1]
    if first then first:trysend(true) end
end

function told.ended(connection)
    connection.quiet = mare.now()
    if next(connection.streams) == nil then connection.look_again() end
    call_next(connection.known)
end

function told.goodbye(connection) connection.going = true end

-- A stream that was given up counts until the server was told of it.
function told.wrote(connection) call_next(connection.known) end

-- Makes the reader check how long there is something to wait for.
local function look_again(connection)
    if connection.waiting and connection.routine then
        connection.waiting = false
        connection.routine:cancel()
    end
end

-- Reads until nobody needs the connection: it was silent for too long, or is not used any more.
local function run(connection, idle)
    local good, message, code = pcall(http2.read_all, connection, function()
        if next(connection.streams) then return math.huge end
        if connection.leaving then return 0 end
        return math.max(0, connection.quiet + idle - mare.now())
    end, function(word)
        return next(connection.streams) ~= nil
            or word ~= "timeout" and not connection.leaving and not connection.going
    end)
    connection.going = true
    if not good then http2.give_up(connection) end
    local said = code and code ~= "closed" -- an error of TLS: it may reject the client
    for _, one in pairs(connection.streams) do
        one.lost, one.lost_code = not said and connection.failed or message, said and code or nil
        http2.close_stream(one, CANCEL)
    end
    connection.session:goodbye(true)
    connection.over = true
    http2.wake(connection)
    connection.writer:join()
    connection.stream:close()
    if connection.slot then connection.slot:free() end
    call_next(connection.known)
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

-- Frees the stream of a response that the program does not read to its end, so that others have
-- room.
local Leaver = {}

-- The stream is not needed any more.
local function drop(one)
    if one.dropped then return end
    one.dropped, one.closed = true, true
    one.session:forget(one.id)
    one.connection.streams[one.id] = nil
    if one.sender then one.sender:cancel() end
    http2.wake(one.connection)
    told.ended(one.connection)
end

function Leaver:__gc() drop(self.one) end

-- Sends a body in parts, while another routine waits for the answer; then closes what it was read
-- from. An error of the function that makes the body is for that routine.
local function send_body(one, wanted, closer)
    local _ <close> = closer
    local good, ok, message, code = pcall(http2.send_parts, one, bodies.take, wanted.body,
        wanted.length, wanted.deadline)
    one.sender = nil
    if good and ok then return end
    if not good then
        one.session:reset(one.id, "internal")
        http2.wake(one.connection)
        if one.answered then error(ok, 0) end -- nobody else hears of it
        wanted.raised, message, code = {error = ok}, "the body could not be made", "badmsg"
    end
    one.unsent, one.unsent_code = message, code
    http2.ring(one)
end

-- Sends a request on a connection: the stream, or nil, message, code.
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
        wanted.closer.body = nil -- the sender closes it
        one.sender = mare.go(send_body, one, wanted, closer)
    end
    return one
end

-- Waits for the head of an answer. `write_all` makes sure that a body that is still being sent
-- makes progress.
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

-- The response for the program.
local function complete(one, wanted)
    local response = one.head
    one.answered = true
    one.head = nil -- otherwise it would never be collected, nor noticed as unread
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

-- Makes one request on a connection: the response; or nil, message, code and whether the server may
-- have got the request.
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

-- The record of a place: its `connections`, whether one is `opening`, whether it is `plain` (speaks
-- only HTTP/1.1), and the bells of those who wait in `line` for a stream.
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
    local new = {name = name, tls = wanted.tls, connections = {}, line = {}}
    table.insert(self.places, new)
    return new
end

-- A connection with room for another request. Forgets connections that take no more.
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

-- Marks that a connection is being made, until that is over, also by an error.
local Opening = {}

function Opening:__close() self.known.opening = false end

-- Makes a connection, of HTTP/2 or HTTP/1.1; or nil, message, code.
local function make(self, known, wanted, connect)
    local _ <close> = setmetatable({known = known}, Opening)
    known.opening = true
    if self.pool then return self.pool:obtain(wanted, false, connect) end
    return connect(wanted)
end

-- Opens a connection for all that wait for one there. Returns nil, message, code, or a connection
-- of HTTP/1.1. If connections are counted, it takes a slot.
local function open(self, known, wanted, connect)
    local opened, message, code = make(self, known, wanted, connect)
    local facts = opened and opened.stream:tls()
    local connection
    if opened and (facts and facts.protocol == "h2" or not wanted.place.secure) then
        connection, message, code = begin(opened.stream, wanted.limits, self.idle_time,
            seconds_of(self.timeout or wanted.time))
        if not connection then
            opened.stream:close()
            if opened.slot then opened.slot:free() end
        end
    elseif opened then
        known.plain = true
    end
    if connection then
        connection.limits, connection.slot, connection.known = wanted.limits, opened.slot, known
        table.insert(known.connections, connection)
    end
    call_next(known)
    if known.plain then return nil, opened end
    return connection, message, code
end

-- The time until which a request may wait in line.
local function last_moment(wanted)
    local time, most = wanted.time, wanted.connect_time
    if most and seconds_of(time) > most then time = most end
    return type(time) == "number" and mare.deadline(time) or time
end

-- Waits in line until something may have changed; nil, message, code.
local function wait(self, known, wanted, bell, deadline)
    local pool, place = self.pool, wanted.place.name
    -- While a connection is being made all wait for it, and may then find room. So the line counts
    -- as full only for those who come after that.
    local counts = pool and pool.host_most and not known.opening and known.line[#known.line] == bell
    if counts and #known.line > pool.line then
        return nil, ("%d requests wait for a connection to %s"):format(pool.line, place), "full"
    end
    local ok, message, code = bell:receive(deadline)
    if not ok and code == "timeout" then
        message = ("no connection to %s became free in time"):format(place)
    end
    return ok, message, code
end

-- Takes a request out of the line of a place, also after an error.
local Turn = {}

function Turn:__close()
    for i, bell in ipairs(self.known.line) do
        if bell == self.bell then
            table.remove(self.known.line, i)
            break
        end
    end
    call_next(self.known)
end

-- As `take`, but in line: first come, first served.
local function take_in_turn(self, known, wanted, connect)
    local bell, deadline = mare.channel(1), last_moment(wanted)
    local _ <close> = setmetatable({known = known, bell = bell}, Turn)
    table.insert(known.line, bell)
    while not known.plain do
        local first = known.line[1] == bell
        local connection = first and find(known, wanted)
        if connection then return connection end
        local full = #known.connections > 0 and self.pool and self.pool:is_full(wanted.place)
        if first and not known.opening and not full then
            local message, code
            connection, message, code = open(self, known, wanted, connect)
            if connection then return connection, nil, nil, true end
            if known.plain then return false, message end
            return nil, message, code
        end
        if full then client.give_way(self, known.name) end
        local ok, message, code = wait(self, known, wanted, bell, deadline)
        if not ok then return nil, message, code end
    end
    return false
end

-- A connection for a request, and whether it is a new one. Or false if the place speaks HTTP/1.1,
-- and the connection, if one was made; or nil, message, code.
local function take(self, wanted, connect)
    local known = place_of(self, wanted)
    local connection = #known.line == 0 and find(known, wanted)
    if connection then return connection end
    return take_in_turn(self, known, wanted, connect)
end

-- ---- For _client.lua ----------------------------------------------------------------------------

--- Whether the option lets a request go over HTTP/2.
function client.is_wanted(option, wanted)
    if not option or not has_routines then return false end
    return wanted.place.secure or option == "clear" and not wanted.way
end

--- Makes a request, as `exchange`. False: the server speaks HTTP/1.1; and a connection to it, if
--- one was made. Tries once more if the server has not processed the request; or if it can be
--- repeated, and a kept connection ended without an answer.
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

--- The same, on a connection of its own that ends with the answer.
function client.once(wanted, connect)
    local self = {places = {}, idle_time = 0}
    local response, message, code, sent = client.perform(self, wanted, connect)
    client.close(self)
    return response, message, code, sent
end

--- Another request needs a connection to a place where no more are allowed: ends one that is
--- unused.
function client.give_way(self, name)
    for _, known in ipairs(self.places) do
        for _, connection in ipairs(known.name == name and known.connections or {}) do
            if connection.session:status() == 0 and not connection.leaving then
                connection.leaving, connection.going = true, true
                connection.look_again()
                return
            end
        end
    end
end

--- Closes the connections that are not in use now, and the others after their use.
function client.close(self)
    for _, known in ipairs(self.places) do
        for _, connection in ipairs(known.connections) do
            connection.leaving, connection.going = true, true
            if next(connection.streams) == nil then connection.look_again() end
        end
    end
end

return client
