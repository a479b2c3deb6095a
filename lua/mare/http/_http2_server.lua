-- SPDX-License-Identifier: MIT
-- The server's side of HTTP/2: each request has a routine of its own, which calls the handler just
-- as for HTTP/1.1.
local mare, net = require "mare", require "mare.net"
local shared, http2 = require "mare.http._shared", require "mare.http._http2"
local answers, bodies = require "mare.http._answer", require "mare.http._body"
local http, Message, body_reader = shared.http, shared.Message, shared.body_reader

local server = {}

-- Requests that a routine serves before others have their turn.
local turn_most = 100

-- ---- Answers ------------------------------------------------------------------------------------

-- The whole answer was sent. If the client still sends, tells it to stop.
local function finished(one)
    if one.ended or one.closed then return end
    one.ended = true
    if one.request.has_body and one.session:ended(one.id) == false then
        one.session:reset(one.id, "none")
        http2.wake(one.connection)
    end
end

-- Nobody reads the rest of the request, and the last part of the answer is on its way.
local function let_go(one, has_body)
    if one.request.has_body then one.session:ignore(one.id) end
    one.finished = finished
    if not has_body or one.drained then finished(one) end
end

-- Calls a function that makes a body. It is cancelled if the client goes.
local function call_inside(one, f)
    one.inside = true
    local part, message, code = f()
    one.inside = false
    if one.request.gone then mare.sleep(0) end -- takes a cancellation that no wait has taken
    return part, message, code
end

-- Sends an answer. Returns true when it was sent, or, if `waits` is false, when it is about to be;
-- or nil, message, code.
local function send(one, status, headers, body, length, waits)
    local request, content = one.request, body
    if not body or request.method == "HEAD" then content = nil end
    local in_parts = type(content) == "function"
    local ok, message, code = one.session:respond(one.id, status, headers,
        math.type(length) and length or nil, in_parts or content, answers.date_now())
    if not ok then return nil, message, code end
    request.answered = status
    http2.wake(one.connection)
    if in_parts then
        mare.yield() -- send the head now: the first part may take long
        ok, message, code = http2.send_parts(one, bodies.take, function()
            return call_inside(one, body)
        end, length)
    elseif waits and content and content ~= "" then
        ok, message, code = http2.await_sent(one)
    end
    let_go(one, content and content ~= "")
    return ok, message, code
end

-- As send, for any answer of a handler.
local function answer_any(one, response)
    local closer <close> = answers.closer_of(response)
    local request = one.request
    local good, status, headers, body, length = pcall(answers.describe, request, response, closer)
    local sent, message, code
    if good then
        good, sent, message, code = pcall(send, one, status, headers, body, length, true)
        status = sent
    end
    if not good and not request.answered then
        answers.blame(one.connection, request, status)
        return send(one, 500, nil, answers.failure.body, #answers.failure.body, true)
    end
    if not good then error(status, 0) end -- raised by a function that makes a body
    return sent, message, code
end

-- As send, for an answer of a handler. Fast path: most answers are a text that can be sent at once.
-- Then nothing waits, unless the log has to be told.
local function answer(one, response, logged)
    local status, headers, body = 200, nil, response
    if type(response) == "table" then status, headers, body = answers.plain_parts(response) end
    if type(body) ~= "string" or one.request.method == "HEAD" then
        return answer_any(one, response)
    end
    local good, sent, message, code = pcall(send, one, status, headers, body, #body, logged)
    if not good then return answer_any(one, response) end
    return sent, message, code
end

-- request:answer for HTTP/2: the connection stays, and what the handler returns is ignored.
local function answer_now(request, response)
    local one = request.one
    local closer <close> = answers.closer_of(response)
    local good, status, headers, body, length = pcall(answers.describe, request, response, closer)
    if not good then error(("bad argument #1 to 'answer' (%s)"):format(status), 2) end
    request.taken = true
    return send(one, status, headers, body, length, true)
end

-- ---- Requests -----------------------------------------------------------------------------------

local function give_body(one, request)
    local options = one.connection.options
    local read = body_reader(http2.reader(one, one.connection.server.body_most), nil,
        options.message_time or http.message_time, options.least_rate or http.least_rate)
    request.next_part = shared.request_reader(request, read, function()
        one.session:respond(one.id, 100)
        http2.wake(one.connection)
    end)
end

local function refuse(one, status, reason)
    local text = ("%d %s: %s\n"):format(status, answers.phrase(status), reason)
    send(one, status, {["content-type"] = "text/plain"}, text, #text, false)
    one.connection.own.note(one.connection.options, one.request, status, reason)
end

-- Calls the handler and answers. Returns the failure to log, if there is one.
local function handle(one, request)
    local connection = one.connection
    one.inside = true
    local ok, response = xpcall(connection.handler, connection.own.on_error, request)
    one.inside = false
    if request.gone then mare.sleep(0) end -- takes a cancellation that no wait has taken
    if request.taken then return nil end
    if request.gone then
        request.answered = 499
        local message = "the client has gone away"
        if ok then answers.release(response) else message = message .. ": "
            .. response:match "[^\n]*" end
        return message
    end
    if not ok then
        answers.report(response)
        response = answers.failure
    end
    if request.failed and (not ok or response == nil) then -- the failure is not the handler's
        response = {status = request.status, body = request.failed .. "\n"}
    end
    local sent, why = answer(one, response, connection.options.log)
    if request.gone then why = "the client has gone away" end
    return not sent and why or request.failed
end

-- Resets the stream if the handler ends without an answer, in whatever way.
local Leaver = {}

function Leaver:__close()
    local connection = self.connection
    connection.running = connection.running - 1 -- first: what follows may need memory
    if connection.running == 0 then
        connection.quiet = mare.now()
        connection.look_again()
    end
    if not self.closed and not self.finished then
        self.session:reset(self.id, "internal")
        http2.wake(connection)
    end
end

local function serve_one(one)
    local _ <close> = one
    local connection, request = one.connection, one.request
    if one.refused then return refuse(one, one.refused, one.reason) end
    if request.gone then -- the client reset it before its turn
        return connection.own.note(connection.options, request, 499, "the client has gone away")
    end
    local status, message = connection.own.objection(connection.server, request)
    if not status and request.method == "CONNECT" then
        status, message = 501, "CONNECT is not for HTTP/2"
    end
    if status then return refuse(one, status, message) end
    if request.has_body then give_body(one, request) end
    message = handle(one, request)
    connection.own.note(connection.options, request, request.answered, message)
end

-- ---- Connections --------------------------------------------------------------------------------

local start_worker

-- Takes the first request out of the queue.
local function take(connection)
    local first = connection.first
    local one = connection.queue[first]
    connection.queue[first], connection.first = nil, first + 1
    return one
end

-- Serves requests that came together, one after the other, as long as their handlers do not wait.
-- While there are more requests, a second routine is ready: it runs when a handler waits. So no
-- request waits for another one's handler, unless there is no memory for a second routine.
local function work(connection, worker)
    local turn = 0
    connection.spare = nil
    while connection.first <= connection.last do
        local one = take(connection)
        if not connection.spare and connection.first <= connection.last then
            pcall(start_worker, connection)
        end
        one.worker = worker
        serve_one(one)
        turn = turn + 1
        if turn % turn_most == 0 then mare.yield() end
    end
end

function start_worker(connection)
    local worker = {routine = false}
    worker.routine = mare.go(work, connection, worker)
    connection.spare = worker -- set after mare.go, which raises an error without memory
end

local told = {goodbye = function() end, wrote = function() end}

function told.began(connection, id)
    local one = setmetatable(http2.open(connection, id), Leaver)
    local request, status, reason = connection.session:request(id)
    request = setmetatable(request or {has_body = true}, Message)
    one.request, one.refused, one.reason = request, status, reason
    request.stream, request.peer, request.http2 = connection.stream, connection.peer, true
    request.one, request.answer = one, answer_now
    -- Handlers may go on after their clients have gone: the session does not count those.
    if connection.running >= 2 * http.http2_streams then
        connection.session:reset(id, "refused")
        return
    end
    local last = connection.last + 1
    connection.queue[last] = one
    connection.last, connection.running = last, connection.running + 1
    if not connection.spare then start_worker(connection) end
end

-- A stream is over: properly, or because the client did not want it any more.
function told.ended(connection, one)
    if one.error ~= 0 and not one.ended and one.request then -- without one it has just begun
        one.request.gone = true
        if one.inside and connection.server.watched then one.worker.routine:cancel() end
    end
    if next(connection.streams) == nil then
        connection.quiet = mare.now()
        connection.look_again()
    end
end

-- The server stops: it takes no new requests, and answers those that are here.
local function leave(connection)
    local session = connection.session
    session:goodbye(false)
    http2.wake(connection)
    mare.sleep(connection.server.end_time)
    connection.leaving = true
    session:goodbye(true)
    http2.wake(connection)
    connection.look_again()
end

-- How long to wait for the client. A frame that has begun must be complete soon; a client that asks
-- for nothing is sent away after a while.
local function patience_of(connection, idle, hurry)
    local _, _, _, begun = connection.session:status()
    local now = mare.now()
    connection.begun = begun and (connection.begun or now) or nil
    if begun then return math.max(0, connection.begun + hurry - now) end
    if connection.busy() then return idle end
    if connection.leaving then return 0 end
    return math.max(0, connection.quiet + idle - now)
end

-- Whether to go on, after bytes have come or the time was over.
local function goes_on(connection, idle, hurry, code)
    if connection.busy() then
        return not (code == "timeout" and connection.begun)
    end
    return not connection.leaving and code ~= "timeout" and patience_of(connection, idle, hurry) > 0
end

-- Sets up what every connection has.
local function prepare(connection, routine)
    connection.running, connection.quiet = 0, mare.now()
    connection.ended = mare.channel(1) -- now: at the end there may be no memory
    connection.queue, connection.first, connection.last = {}, 1, 0
    connection.busy = function()
        return connection.running > 0 or next(connection.streams) ~= nil
    end
    -- Makes the reader see that there is nothing to wait for.
    connection.look_again = function()
        connection.ended:trysend(true)
        if connection.leaving and connection.waiting and routine and not connection.busy() then
            connection.waiting = false
            routine:cancel()
        end
    end
end

-- The end of the connection: sends what is left, then counts clients as gone, and waits for the
-- handlers.
local function finish(connection, writer, why)
    local stream, own = connection.stream, connection.own
    for _, one in pairs(connection.streams) do http2.close_stream(one, 8) end
    connection.over = true
    connection.session:goodbye(true)
    http2.wake(connection)
    writer:join()
    local fault = connection.session:fault()
    if fault then
        own.note(connection.options, {stream = stream, peer = connection.peer}, 400, fault)
    end
    if why ~= "gone" then net.linger(stream) end
    stream:close()
    while connection.first <= connection.last do -- there was no memory for a routine to serve it
        local _ <close> = take(connection)
    end
    connection.session:close()
    while connection.running > 0 do connection.ended:receive() end
end

--- Serves a connection of HTTP/2. `own` has functions of _server.lua.
function server.serve(stream, handler, options, the_server, own)
    local connection, message = http2.connection("server", stream, told, options.limits,
        the_server.methods)
    if not connection then return nil, message end
    connection.handler, connection.options, connection.own = handler, options, own
    connection.server, connection.peer = the_server, stream:peer()
    prepare(connection, mare._routine())
    local write_time = options.write_time or http.write_time
    local idle = options.idle_time or http.idle_time
    local hurry = options.message_time or http.message_time
    the_server.told[connection] = leave
    if the_server.ending then mare.go(leave, connection):detach() end
    local writer = mare.go(http2.write_all, connection, write_time)
    local good, why, code = pcall(http2.read_all, connection, function()
        return patience_of(connection, idle, hurry)
    end, function(word) return goes_on(connection, idle, hurry, word) end)
    the_server.told[connection] = nil
    if not good then http2.give_up(connection) end
    finish(connection, writer, (code or not good) and "gone")
    if not good then error(why, 0) end
end

return server
