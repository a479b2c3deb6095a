-- SPDX-License-Identifier: MIT
-- A connection of HTTP/2, of a server's or a client's. The protocol is in C (src/wire/http2.c, by
-- nghttp2): a session that takes bytes in, makes bytes to send, and reports events. This module has
-- the routines that read and write, and wakes those who wait.
--
--     reader ──▶ session ──▶ events ──▶ dispatch ──▶ a stream's bell ──▶ who waits for it
--     writer ◀── session ◀── submitted by anybody, who rings the connection's bell
--
-- Routines submit what they have to send, and go on. The writer runs after them. So the answers to
-- many requests that came together are sent together.
local mare, raw = require "mare", require "mare._http2"
local http = require "mare.http._shared".http

local http2 = {}

-- Bytes of a body that must have left in the time that a peer has for them.
local stretch = 65536

--- A connection over a stream. The functions in `told` are called, and must not wait:
--- `began(connection, id)` when a head is there, `ended(connection, one)` when a stream is over,
--- `goodbye(connection)` when the peer takes no more streams, `wrote(connection)` when all that was
--- submitted has been sent.
function http2.connection(side, stream, told, limits, methods)
    local session, message, code = raw.session(side, limits, http.http2_streams,
        http.http2_stream_window, http.http2_window, methods)
    if not session then return nil, message, code end
    return {stream = stream, session = session, told = told, streams = {}, bell = mare.channel(1),
        ringing = false, over = false, swept = mare.now()}
end

--- Wakes the writer, which writes in its turn.
function http2.wake(connection)
    if connection.ringing then return end
    connection.ringing = true
    connection.bell:trysend(true)
end

--- One of its two routines has failed, in most cases for want of memory. Events may be lost, so
--- nothing can go on: ends the connection for the other routine, too. Needs no memory.
function http2.give_up(connection)
    connection.stream:close()
    connection.bell:close()
end

-- ---- Streams ------------------------------------------------------------------------------------

--- A stream of a connection, for the routines.
function http2.open(connection, id)
    local one = {connection = connection, session = connection.session, id = id, drained = false,
        closed = false, request = false, worker = false, inside = false, finished = false,
        ended = false}
    connection.streams[id] = one
    return one
end

-- The bell to wait for until something has happened to a stream. The reader and the sender may be
-- two routines, so each has its own. Ask for it first, and then look whether something has
-- happened: so nothing is missed.
local function bell_of(one, name)
    local bell = one[name]
    if not bell then
        bell = mare.channel(1)
        one[name] = bell
    end
    return bell
end

function http2.bell_of(one) return bell_of(one, "reads") end

function http2.ring(one)
    if one.reads then one.reads:trysend(true) end
    if one.sends then one.sends:trysend(true) end
end
local ring = http2.ring

--- A stream has ended: the session says so, or the connection has ended.
function http2.close_stream(one, code)
    local connection = one.connection
    connection.streams[one.id] = nil
    one.closed, one.error = true, code
    ring(one)
    connection.told.ended(connection, one)
end

--- Passes the session's events on to those concerned.
function http2.dispatch(connection)
    local session, streams, told = connection.session, connection.streams, connection.told
    while true do
        local kind, id, code = session:event()
        if not kind then return end
        local one = streams[id]
        if kind == "head" then
            told.began(connection, id)
        elseif kind == "goodbye" then
            told.goodbye(connection, code)
        elseif one and kind == "closed" then
            http2.close_stream(one, code)
        elseif one then
            if kind == "drained" then
                one.drained = true
                if one.finished then one.finished(one) end
            end
            ring(one)
        end
    end
end

-- ---- Bodies -------------------------------------------------------------------------------------

local Body = {}
Body.__index = Body

--- A reader of a body that comes, for `body_reader` of _shared.lua; at most so many bytes.
function http2.reader(one, most)
    return setmetatable({one = one, left = most}, Body)
end

function Body:body(_, seconds)
    local one = self.one
    local bell, deadline = http2.bell_of(one), mare.deadline(seconds)
    while true do
        local part, message, code = one.session:body(one.id)
        if part ~= true then
            if not part then return part, message, code end
            http2.wake(one.connection) -- tells the peer that it may send more
            self.left = self.left - #part
            if self.left >= 0 then return part end
            return nil, "the body is too large", "toobig", 413
        elseif one.closed then
            return nil, one.lost or "the peer has ended the stream", "closed"
        end
        local ok
        ok, message, code = bell:receive(deadline)
        if not ok then return nil, message, code end
    end
end

--- Waits until all that was given to be sent has left: true, or nil, message, code.
function http2.await_sent(one, deadline)
    local bell = bell_of(one, "sends")
    while true do
        if one.closed and one.error ~= 0 then
            return nil, "the peer has ended the stream", "closed"
        elseif one.drained or one.closed then -- an end without an error says as much
            return true
        end
        local ok, message, code = bell:receive(deadline)
        if not ok then return nil, message, code end
    end
end

--- Sends what a function returns part after part; `length`: all of it together, if known. Returns
--- true; or nil, message, code, and then the stream is reset. `take` is that of _body.lua.
function http2.send_parts(one, take, next_part, length, deadline)
    local session, id, left = one.session, one.id, math.type(length) and length
    while true do
        if one.closed then return nil, "the peer has ended the stream", "closed" end
        local part, message, code = take(next_part)
        if part and left then
            left = left - #part
            if left < 0 then part, message, code = nil, "the body is too long", "badmsg" end
        elseif part == false and left and left > 0 then
            part, message, code = nil, "the body is too short", "badmsg"
        end
        local ok = part ~= nil
        if ok and part ~= "" then
            one.drained = false
            ok, message, code = session:give(id, part or "", not part)
            http2.wake(one.connection)
            if ok then ok, message, code = http2.await_sent(one, deadline) end
        end
        if not ok then
            session:reset(id, code == "closed" and "cancel" or "internal")
            http2.wake(one.connection)
            return nil, message, code
        elseif not part then
            return true
        end
    end
end

-- ---- The two that move bytes --------------------------------------------------------------------

-- Resets streams that the peer reads too slowly.
local function sweep(connection, seconds)
    local now = mare.now()
    if now - connection.swept < seconds then return end
    connection.swept = now
    if (connection.session:sweep(stretch) or 0) > 0 then http2.wake(connection) end
end

-- For a <close> variable of the writer.
local Writing = {}

function Writing:__close(err)
    if err ~= nil then http2.give_up(self.connection) end
end

--- Writes whenever there is something to send, until the connection is over. `seconds`: the time
--- that the peer has to take something.
function http2.write_all(connection, seconds)
    local _ <close> = setmetatable({connection = connection}, Writing)
    local session, stream, bell = connection.session, connection.stream, connection.bell
    repeat
        local over = connection.over
        connection.ringing = false
        local ok, message = session:write(stream)
        http2.dispatch(connection)
        if not ok then
            connection.failed = connection.failed or message
            stream:close() -- so that the reader notices, too
            return
        end
        connection.told.wrote(connection)
        sweep(connection, seconds)
        local some = next(connection.streams) ~= nil
        if not over and not connection.ringing then bell:receive(some and seconds or nil) end
    until over
end

--- Reads until the connection is over, and passes events on. `patience()` returns how long to wait
--- for bytes; after that, `go_on()` returns whether to wait again. Returns why it ended.
function http2.read_all(connection, patience, go_on)
    local session, stream = connection.session, connection.stream
    while true do
        connection.waiting = true
        local more, message, code = session:read(stream, patience())
        connection.waiting = false
        http2.dispatch(connection)
        http2.wake(connection)
        if more == false then return session:fault() or "the connection has come to its end" end
        if more == nil and code ~= "timeout" and code ~= "cancelled" then return message, code end
        if not go_on(code) then return "the connection has come to its end" end
    end
end

return http2
