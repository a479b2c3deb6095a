-- SPDX-License-Identifier: MIT
-- WebSocket, server and client, over HTTP (lua/mare/http.lua) and streams. C code reads, checks and
-- writes frames (src/wire/websocket.c). This file decides which routine writes when, and how a
-- conversation ends.
--
--            close is written             the peer's is read, or it takes too long
--     open ------------------> closing ------------------------------------------> over
--       \_______________________ an error, the peer is gone __________________________/
--
-- There are three locks, each for one routine at a time: `receiving` to read, `sending` for a whole
-- message, `writing` for one frame. So a ping can go between two parts of a message.
local mare, http, net = require "mare", require "mare.http", require "mare.net"
local raw, sockets = require "mare._websocket", require "mare._socket"
local checks, shared = require "mare._check", require "mare.http._shared"
local server_of, turns = shared.server_of, require "mare._turns"
local handshake = require "mare._handshake"

local websocket = {}

--- The defaults: bytes of a message; seconds for a write, for the closing handshake, for the
--- opening handshake; and seconds of silence until a ping is sent. The peer then has the same time
--- to answer.
websocket.limit = 1048576
websocket.write_time, websocket.close_time, websocket.open_time = 30, 5, 10
websocket.ping_time = 20

local Socket = {__name = "mare.websocket"}
Socket.__index = Socket

-- ---- The end ------------------------------------------------------------------------------------

-- The conversation is over. The first routine that notices says why.
local function finish(self, code, reason)
    if self.over then return end
    self.reader:direct()
    self.over, self.code, self.reason = true, code, reason
    self.parts, self.whole = nil, nil
    if self.server then self.server.told[self] = nil end
    self.stream:close()
end

local function gone(self)
    local why = self.reason ~= "" and self.reason or nil
    return nil, why and "the connection is closed: " .. why or "the connection is closed", "closed",
        self.code, self.reason
end

-- ---- Writing ------------------------------------------------------------------------------------

local function as_deadline(timeout, usual)
    timeout = timeout or usual
    if type(timeout) == "number" then return mare.deadline(timeout) end
    return timeout
end

-- Writes frames; the caller has the lock. If only a part of a frame was written, nothing can be
-- written after it.
local function write(self, frame, deadline)
    if self.over then return gone(self) end
    local ok, message, code = self.stream:writewithin(deadline, frame)
    if not ok then
        finish(self, 1006, message)
        return nil, message, code
    end
    return true
end

-- A ping was read while another routine has the lock `writing`: that routine sends the pong. (Only
-- the latest ping needs an answer: RFC 6455 section 5.5.3.)
local function write_pong(self)
    while self.pong and not self.closing and not self.over do
        local data = self.pong
        self.pong = false
        write(self, raw.frame("pong", true, data, self.masks), mare.deadline(websocket.write_time))
    end
end

local function send_frame(self, deadline, kind, last, data, compressed)
    local lock <close>, message, code = self.writing:enter(deadline)
    if not lock then return nil, message, code end
    if self.closing and not self.over then
        return nil, "this side has closed the connection", "closed"
    end
    local ok
    ok, message, code = write(self, raw.frame(kind, last, data, self.masks, compressed), deadline)
    write_pong(self)
    return ok, message, code
end

local function answer_ping(self, data)
    self.pong = data
    local lock <close> = self.writing:tryenter()
    if lock then write_pong(self) end
end

-- Writes the closing frame. Nothing is written after it.
local function send_close(self, code, reason, deadline)
    local frame = raw.close(code, reason, self.masks)
    local lock <close> = self.writing:enter(deadline)
    if not lock or self.closing or self.over then return end
    write(self, frame, deadline)
    self.closing = true
end

local function check_data(name, data)
    if type(data) ~= "string" and type(data) ~= "function" then
        error(("bad argument #1 to '%s' (string or function expected, got %s)"):format(name,
            data == nil and "no value" or type(data)), 3)
    end
end

local function next_part(kind, data)
    if kind == "text" and not utf8.len(data) then
        return nil, "a text must be UTF-8; other bytes are sent with sendbinary", "badmsg"
    end
    return data
end

-- Sends a message in fragments, one for each part. Which part is the last is not known in advance,
-- so the last fragment is empty. If the message cannot be completed, the conversation ends.
local function send_parts(self, deadline, kind, parts)
    local frame = kind
    local _ <close> = setmetatable({}, {__close = function(_, err)
        if err ~= nil then finish(self, 1006, "a message was not completed") end
    end})
    for data in parts do
        local ok, message, code = next_part(kind, data)
        if ok then ok, message, code = send_frame(self, deadline, frame, false, data) end
        if not ok then
            finish(self, 1006, message)
            return nil, message, code
        end
        frame = "more"
    end
    local ok, message, code = send_frame(self, deadline, frame, true, "")
    return ok, message, code
end

-- A fast write has sent only a part of a message, or nothing: does the rest.
local function send_left(self, left, message, code, timeout)
    if not left then
        finish(self, 1006, message)
        return nil, message, code
    end
    local _ <close> = self.writing:enter() -- nobody has it: this does not wait
    local ok
    ok, message, code = write(self, left, timeout or self.time or websocket.write_time)
    write_pong(self)
    return ok, message, code
end

local function send(self, kind, data, timeout)
    local deadline = timeout or self.time or websocket.write_time -- of the write only
    if self.sending.held or self.writing.held or type(data) == "function" then -- wait in line
        deadline = as_deadline(deadline)
    end
    local lock <close>, message, code = self.sending:enter(deadline)
    if not lock then return nil, message, code end
    if self.over then return gone(self) end
    if type(data) == "function" then return send_parts(self, deadline, kind, data) end
    data, message, code = next_part(kind, data)
    if not data then return nil, message, code end
    local smaller = self.bits and require "mare._deflate".message(data, self.bits) or nil
    return send_frame(self, deadline, kind, true, smaller or data, smaller ~= nil)
end

-- Fast path: most messages can be written at once, and need no lock.

--- Sends a text, which must be UTF-8: a string, or a function that returns part after part, each of
--- whole characters. Returns true when the system has it, or nil, message, code.
function Socket:send(text, timeout)
    check_data("send", text)
    if type(text) == "string" and not (self.sending.held or self.writing.held or self.bits
        or self.over or self.closing or self.pong) then
        local left, message, code = next_part("text", text)
        if not left then return nil, message, code end
        left, message, code = raw.send(self.stream, true, text, self.masks)
        if left == true then return true end
        return send_left(self, left, message, code, timeout)
    end
    return send(self, "text", text, timeout)
end

--- Sends bytes, likewise.
function Socket:sendbinary(bytes, timeout)
    if type(bytes) == "string" and not (self.sending.held or self.writing.held or self.bits
        or self.over or self.closing or self.pong) then
        local left, message, code = raw.send(self.stream, false, bytes, self.masks)
        if left == true then return true end
        return send_left(self, left, message, code, timeout)
    end
    check_data("sendbinary", bytes)
    return send(self, "binary", bytes, timeout)
end

--- Sends a ping, with up to 125 bytes of data. `receive` answers the pings of the peer by itself.
function Socket:ping(data, timeout)
    if data ~= nil and (type(data) ~= "string" or #data > 125) then
        error("bad argument #1 to 'ping' (at most 125 bytes expected)", 2)
    end
    if self.over then return gone(self) end
    return send_frame(self, as_deadline(timeout, self.time or websocket.write_time), "ping", true,
        data or "")
end

-- ---- Reading ------------------------------------------------------------------------------------

-- Codes of a close, and ours.
local failures = {[1009] = "toobig", [1011] = "nomem"}

-- The peer has broken a rule, or there was no memory for what it sent: tells it, and ends the
-- conversation.
local function fail(self, code, reason)
    send_close(self, code, reason, mare.deadline(self.close_time))
    if not self.over then net.linger(self.stream) end
    finish(self, code, reason)
    return nil, reason, failures[code] or "badmsg", code
end

-- The peer has closed. Sends its code back, unless this is its answer to our close.
local function on_close(self, code, reason)
    send_close(self, code, "", mare.deadline(self.close_time))
    finish(self, code, reason)
    return gone(self)
end

-- How long a read may take before something else has to be done.
local function time_to_read(self, deadline)
    local quiet = self.ping_time and math.max(0, self.ping_time - self.silence)
    local left = deadline and deadline:left()
    return quiet and left and math.min(quiet, left) or quiet or left
end

-- If nothing was read for too long, sends a ping; if that was not answered, the peer is gone.
local function mind_silence(self, can_write)
    if not self.ping_time or self.silence < self.ping_time then return end
    if self.asked then return finish(self, 1006, "the peer does not answer") end
    self.silence = 0
    local lock <close> = can_write and self.writing:tryenter() -- else another routine writes,
    if lock and not self.closing then                          -- in its own time
        self.asked = true
        write(self, raw.frame("ping", true, "", self.masks), mare.deadline(self.ping_time))
        write_pong(self)
    end
end

-- A read has timed out: the caller's time is over; or sends a ping; or the peer is gone.
local function on_silence(self, deadline, message)
    mind_silence(self, true)
    if self.over then return gone(self) end
    if deadline and deadline:left() == 0 then return nil, message, "timeout" end
    return "more"
end

-- A read has failed.
local function on_failure(self, deadline, time, message, code)
    if self.over then return gone(self) end
    if code == "timeout" then
        self.silence = self.silence + time
        return on_silence(self, deadline, message)
    elseif code == "cancelled" or code == "nomem" then
        return nil, message, code
    end
    finish(self, 1006, message) -- without a closing handshake
    return gone(self)
end

-- Waits for more bytes, and passes them to the reader: its event, perhaps "more"; or nil, message,
-- code.
local function read(self, deadline)
    local time = time_to_read(self, deadline)
    self.looked = nil -- from here on this routine measures the silence
    local event, data, how, last = self.reader:read(self.stream, time)
    if not event then return on_failure(self, deadline, time, data, how) end
    self.silence, self.asked = 0, false
    return event, data, how, last
end

-- The next event of the reader. Events that a select has found come first.
local function next_event(self, bytes)
    local event = self.event
    if event then
        self.event = nil
        return table.unpack(event)
    end
    if self.reader:tired() and raw.can_wait() then mare.yield() end
    return self.reader:next(bytes)
end

-- The next part of a message, its kind, whether it is the last; or nil, message, code and more.
-- The caller has the lock.
local function receive_part(self, deadline)
    local tried
    while not self.over do
        local event, data, how, last = next_event(self)
        if not event then
            if tried and deadline and deadline:left() == 0 then return nil, "timeout", "timeout" end
            local reason
            event, data, how, last, reason = read(self, deadline)
            if not event then return nil, data, how, last, reason end
            tried = true
        end
        if event == "data" then
            return data, how, last
        elseif event == "ping" then
            answer_ping(self, data)
        elseif event == "close" then
            return on_close(self, how, data)
        elseif event == "error" then
            return fail(self, how, data)
        end
    end
    return gone(self)
end

-- A message may come in a million parts of a byte: they do not stay as many.
local parts_most = 4096

-- Keeps a part of a message, for the next call, until the message is whole.
local function keep_part(self, data, kind, last)
    local parts = self.parts or {}
    parts[#parts + 1] = data
    if #parts == parts_most then parts = {table.concat(parts)} end
    self.parts, self.kind, self.whole = parts, kind, last
end

-- The parts that were kept, their kind, and whether they are a whole message.
local function take_parts(self)
    local data, whole = table.concat(self.parts), self.whole
    self.parts, self.whole = nil, nil
    return data, self.kind, whole
end

-- Events that are left may be for another routine, which waits in a select for the stream. The
-- stream stays silent, so this wakes the next routine.
local function leave(self, ...)
    local left = self.whole or self.event or self.reader:pending()
    if left and self.sleepers > 0 then raw.tell(self.stream) end
    return ...
end

--- The next part of a message as it comes, "text" or "binary", and whether it is the last.
function Socket:receivepart(timeout)
    local deadline = as_deadline(timeout, self.time)
    local lock <close>, message, code = self.receiving:enter(deadline)
    if not lock then return nil, message, code end
    if self.parts then return leave(self, take_parts(self)) end
    return leave(self, receive_part(self, deadline))
end

-- The next message, and its kind; or nil, message, code and more. The caller has the lock.
local function receive_whole(self, deadline)
    while not self.whole do
        local data, kind, last, status, reason = receive_part(self, deadline)
        if not data and not status then return nil, kind, last end
        if not data then return nil, kind, last, status, reason end
        if last and not self.parts then return leave(self, data, kind) end
        keep_part(self, data, kind, last)
    end
    local data, kind = take_parts(self)
    return leave(self, data, kind)
end

-- Lets C receive the next message directly, if nothing prevents that.
local function go_direct(self, data, ...)
    if data and not (self.whole or self.parts or self.event or self.time or self.receiving.channel
        or self.sleepers > 0) then
        self.reader:direct(self.stream, self.ping_time or nil)
    end
    return data, ...
end

local function receive(self, timeout)
    local deadline = as_deadline(timeout, self.time)
    local lock, message, code = self.receiving:enter(deadline)
    if not lock then return nil, message, code end
    local _ <close> = lock
    return receive_whole(self, deadline)
end

--- The next message, and "text" or "binary"; or nil, message, code. When the peer has closed: nil,
--- message, "closed", the code it gave and its reason.
Socket.receive = raw.receiver(function(self, timeout)
    return go_direct(self, receive(self, timeout))
end, function(self, event, data, how, last) -- what C has received may also concern others
    local lock = self.receiving
    lock.held = not lock.channel
    local _ <close> = lock
    if event then
        self.event = {event, data, how, last}
    elseif on_failure(self, nil, self.ping_time, data, how) ~= "more" then
        if self.over then return gone(self) end
        return nil, data, how
    end
    return receive_whole(self)
end)

--- An iterator over the messages, to the end of the conversation.
function Socket:messages()
    return function() return self:receive() end
end

-- ---- In a select --------------------------------------------------------------------------------

-- Reads what has come, without waiting, up to the end of a message or of the conversation. Ending
-- the conversation is left to the routine that receives, because it may wait.
local function take_in(self)
    local bytes, message
    while not self.whole and not self.over and not self.event do
        local event, data, how, last = next_event(self, bytes)
        bytes = nil
        if event == "data" then
            keep_part(self, data, how, last)
        elseif event == "ping" then
            self.pong = data
        elseif event == "close" or event == "error" then
            self.event = {event, data, how}
        elseif not event then
            bytes, message = raw.take(self.stream)
            if bytes == false then return end
            if not bytes then return finish(self, 1006, message) end
            self.silence, self.asked = 0, false
        end
    end
end

-- Seconds before a pong is tried again, if the peer does not read.
local pong_time = 0.1

-- Sends pings and pongs that are due, but only as far as the system has room.
local function give_signs(self)
    if not self.pong and not (self.ping_time and self.silence >= self.ping_time) then return end
    local can_write = sockets.look({self.stream}, {true}) > 0
    if self.pong and can_write then answer_ping(self, self.pong) end
    mind_silence(self, can_write)
end

--- Ready when a whole message is here, or the end: see lua/mare/_select.lua. A routine that
--- receives now gets what comes. The select waits in line for its lock, to be the next.
function Socket:__select(woken)
    local taken = type(woken) == "table" -- the select has taken the lock
    local lock <close> = taken and self.receiving or self.receiving:tryenter()
    if self.over then return true end
    if woken == false or woken == self.stream then self.sleepers = self.sleepers - 1 end
    if not lock then return {self.receiving:line(), true} end
    local now = mare.now()
    if self.looked then self.silence = self.silence + now - self.looked end
    self.looked = now
    take_in(self) -- bytes that lie unread are no silence of the peer
    if not self.over then give_signs(self) end
    if self.whole or self.event or self.over then return leave(self, true) end
    self.sleepers = self.sleepers + 1 -- also selects that have ended: nobody tells of those
    local quiet = self.ping_time and math.max(0, self.ping_time - self.silence)
    return self.stream, self.pong and math.min(pong_time, quiet or pong_time) or quiet or nil
end

-- ---- Closing ------------------------------------------------------------------------------------

-- Waits for the peer's close. If another routine receives meanwhile, it reads that; else messages
-- before it are thrown away.
local function await_close(self, deadline)
    local lock <close> = self.receiving:enter(deadline)
    while lock and not self.over and deadline:left() > 0 do
        if not receive_part(self, deadline) then return end
    end
end

--- Ends the conversation: tells the peer, waits for its answer (`timeout`, 5 seconds) and closes
--- the connection in any case. Returns true; false if it was over before.
function Socket:close(code, reason, timeout)
    if self.over then return false end
    local deadline = as_deadline(timeout, self.close_time)
    send_close(self, code or 1000, reason or "", deadline)
    if not self.over then await_close(self, deadline) end
    finish(self, 1006, "the peer did not close in time")
    return true
end

-- The server ends: tells the peer (RFC 6455 section 7.4.1), which has the server's `end_time` to
-- answer. The routine that receives reads the answer, and messages before it. Nobody else may read
-- those, or the handler would miss them.
local function go_away(self)
    local deadline = mare.deadline(math.min(self.close_time, self.server.end_time))
    send_close(self, 1001, "the server ends", deadline)
    if not self.over then mare.sleep(deadline:left()) end
    finish(self, 1006, "the peer did not close in time")
end

-- Registers a WebSocket with its server, to be told of the server's end.
local function belong(self)
    local server = server_of[self.stream]
    if not server then return self end
    self.server = server
    server.told[self] = go_away
    if server.ending then mare.go(go_away, self):detach() end
    return self
end

-- Runs at the end of a scope. If nothing can wait (the process is killed), cuts the connection.
function Socket:__close()
    if not raw.can_wait() or not pcall(self.close, self) then finish(self, 1006, "cut") end
end

function Socket:__tostring()
    return self.over and "websocket (closed)" or "websocket over " .. tostring(self.stream)
end

--- The timeout of calls that are given none; nil: 30 seconds for what sends, none for what
--- receives. Returns the WebSocket.
function Socket:timeout(seconds)
    if seconds ~= nil and (type(seconds) ~= "number" or seconds < 0) then
        error("bad argument #1 to 'timeout' (a number of seconds expected)", 2)
    end
    self.time = seconds
    self.reader:direct()
    return self
end

-- ---- The beginning ------------------------------------------------------------------------------

-- `bits`: of the window of what this side compresses; nil: nothing is compressed.
-- Each send asks for `bits`, `over`, `closing` and `pong`. So they are never absent: an absent
-- one is looked for in the metatable, too.
local function make(reader, stream, masks, options, protocol, bits)
    local ping_time = options.ping_time
    if ping_time == nil then ping_time = websocket.ping_time end
    stream:timeout(nil) -- each call has its own
    if bits then reader:compresses() end
    return setmetatable({
        stream = stream,
        protocol = protocol,
        compressed = bits ~= nil,
        bits = bits or false,
        over = false,
        closing = false,
        pong = false, -- the data of a ping that has no answer yet
        masks = masks,
        reader = reader,
        close_time = options.close_time or websocket.close_time,
        ping_time = ping_time,
        silence = 0,
        sleepers = 0,
        receiving = turns.lock(reader),
        sending = turns.turn(),
        writing = turns.turn(),
    }, Socket)
end

--- In an HTTP handler: makes the connection of a request a WebSocket. Options: `protocols` (a list,
--- the best first), `origin` (a list of those allowed, a function, or false for any), `limit`,
--- `ping_time`, `close_time`, `headers`, `compress` (messages are, if the client wants it). A
--- request that asks for none, or not as it should, is answered, and nil, message, code returned:
--- the handler has nothing more to do then.
function websocket.accept(request, options)
    checks.argument("accept", request, 1, "table")
    options = handshake.options("accept", options)
    local key, status = raw.check_request(request)
    if not key then return handshake.refuse(request, status) end
    if not handshake.is_welcome(request, options.origin) then
        return handshake.refuse(request, 403)
    end
    local protocol = handshake.protocol(request, options.protocols)
    local reader = raw.reader("server", options.limit or websocket.limit)
    local extension, bits
    if options.compress then
        local offered = request.headers["sec-websocket-extensions"]
        extension, bits = require "mare._deflate".accept(offered)
    end
    local head = checks.pass("accept", 2, 3, raw.response,
        handshake.headers(options.headers, extension), key, protocol)
    request.taken = true
    local ok, message, code = request.stream:writewithin(websocket.write_time, head)
    if not ok then return nil, message, code end
    return belong(make(reader, request.stream, false, options, protocol, bits))
end

--- A WebSocket to a `ws://` or `wss://` URL. Options: `protocols`, `headers`, `timeout` (10 s, for
--- all of it), `limit`, `ping_time`, `close_time`, `compress`, `tls` (as for `tls.connect`). Or
--- nil, message, code; of an answer that is no handshake the status as well.
function websocket.connect(url, options)
    options = handshake.options("connect", options)
    local place, wrong = http.locate(type(url) == "string" and url or "")
    if wrong then return nil, wrong, "invalid" end
    if not place or not place.scheme:find "^ws" then
        error("bad argument #1 to 'connect' (a ws:// or wss:// URL expected)", 2)
    end
    local reader = raw.reader("client", options.limit or websocket.limit)
    local protocols = options.protocols and table.concat(options.protocols, ", ")
    local key = raw.key()
    local head = checks.pass("connect", 2, 3, raw.request, place.target, place.name,
        handshake.headers(options.headers, options.compress and require "mare._deflate".OFFER), key,
        protocols)
    local deadline = as_deadline(options.timeout, websocket.open_time)
    local stream, message, code = http.open(place, deadline, options.tls)
    if not stream then return nil, message, code end
    local response, status
    response, message, code, status = handshake.ask(stream, head, key, protocols, deadline,
        options.compress)
    if not response then
        stream:close()
        return nil, message, code, status
    end
    return make(reader, stream, true, options, response.headers["sec-websocket-protocol"],
        response.deflates and 15 or nil)
end

return websocket
