-- SPDX-License-Identifier: MIT
-- An HTTP server whose listener is closed: what has begun is finished, kept connections are not
-- kept any longer, WebSockets are told, and the process that serves comes to its end.
local mare, t, frames = require "mare", require "t", require "frames"
local net, http, websocket = require "mare.net", require "mare.http", require "mare.websocket"
local patience = t.patience
local ASK = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"

-- A server in a process of its own, which closes its listener when `stop` is closed. Connections
-- may be idle for longer than any test takes.
local function server(handler, end_time)
    local ready, stop = mare.channel(1), mare.channel()
    local process = mare.spawn(function(f, seconds)
        local listener = assert(net.listen("127.0.0.1", 0))
        local _, port = listener:address()
        mare.go(function()
            stop:receive()
            listener:close()
        end)
        ready:send(port)
        http.serve(listener, function(request)
            if request.path == "/witness" then return "here" end
            return f(request)
        end, {idle_time = 3600, message_time = 3600, end_time = seconds})
    end, handler, end_time)
    local port = ready:receive(patience)
    return setmetatable({port = port, stop = stop, process = process},
        {__close = function() process:kill() end})
end

local function connect(s)
    return assert(net.connect("127.0.0.1", s.port, patience)):timeout(patience)
end

-- The head and the body of an answer with a length.
local function read_answer(stream)
    local head = {}
    for line in function() return stream:read "l" end do
        if line == "" then break end
        head[#head + 1] = line:lower()
    end
    local text = table.concat(head, "\n")
    return text, stream:read(tonumber(text:match "content%-length: (%d+)") or 0)
end

local function says_close(head) return head:find "\nconnection: close" ~= nil end

local function hello() return "hello" end

-- Ends the server, and returns when the time of those who say nothing has passed.
local function stop(s)
    local silent <close> = connect(s)
    silent:write((ASK:gsub("/", "/witness", 1)))
    read_answer(silent)
    s.stop:close()
    t.eq(silent:read "a", "")
end

-- Waits until nobody is let in any more, and leaves nobody waiting there.
local function until_it_is_closed(s)
    t.reaches(function()
        local late <close> = net.connect("127.0.0.1", s.port, patience)
        return not late
    end, "the end")
end

local function ended(s) t.eq({s.process:join(patience)}, {true}) end

-- A server whose requests say that they have come, and wait for a word.
local function holding_server(end_time)
    local asked, go_on = mare.channel(1), mare.channel(1)
    return server(function()
        asked:send(true)
        go_on:receive()
        return "hello"
    end, end_time), asked, go_on
end

-- The answer is the connection's last, and the server's.
local function answers_last(stream, s)
    local head, body = read_answer(stream)
    t.eq({says_close(head), body}, {true, "hello"})
    t.eq(stream:read "a", "")
    stream:close()
    ended(s)
end

-- What the peer of a WebSocket is sent: 1001, which says "going away".
local GOES_AWAY = string.pack(">I2", 1001) .. "the server ends"

local CLOSE = frames.FINAL | frames.CLOSE

-- A server of WebSockets, which tells what they receive, up to the end.
local function talking_server(end_time)
    local heard = mare.channel(10)
    return server(function(request)
        local w <close> = websocket.accept(request, {close_time = 3600})
        local got
        repeat
            got = table.pack(w:receive())
            heard:send(table.unpack(got, 1, got.n))
        until not got[1]
        heard:send(w:send "more")
    end, end_time), heard
end

local function goes_away(stream) t.eq({frames.read(stream)}, {CLOSE, GOES_AWAY}) end

return {
    a_kept_connection_that_is_silent_is_closed = function()
        local s <close> = server(hello, 0.05)
        local stream <close> = connect(s)
        stream:write(ASK)
        t.ok(not says_close(read_answer(stream)))
        s.stop:close()
        t.eq(stream:read "a", "")
        ended(s)
    end,

    without_connections_it_ends_at_once = function()
        local s <close> = server(hello, 3600)
        s.stop:close()
        ended(s)
    end,

    a_request_that_runs_is_answered_as_the_last = function()
        local s <close>, asked, go_on = holding_server(0.01)
        local stream <close> = connect(s)
        stream:write(ASK)
        asked:receive(patience)
        stop(s)
        go_on:send(true)
        answers_last(stream, s)
    end,

    a_request_that_has_begun_is_waited_for = function()
        local s <close> = server(hello, 0.05)
        local begun <close> = connect(s)
        local other <close> = connect(s)
        begun:write(ASK:sub(1, 5))
        other:write(ASK)
        read_answer(other) -- by now the other's bytes have been seen
        stop(s)
        begun:write(ASK:sub(6))
        local head, body = read_answer(begun)
        t.eq({says_close(head), body}, {true, "hello"})
        begun:close()
        ended(s)
    end,

    who_is_about_to_ask_has_a_moment = function()
        local s <close> = server(hello, 3600)
        local new <close> = connect(s)
        local kept <close> = connect(s)
        kept:write(ASK)
        read_answer(kept)
        s.stop:close()
        until_it_is_closed(s)
        for _, stream in ipairs {new, kept} do
            stream:write(ASK)
            t.ok(says_close(read_answer(stream)))
            stream:close()
        end
        ended(s)
    end,

    an_answer_that_had_begun_is_finished = function()
        local asked, go_on = mare.channel(1), mare.channel(1)
        local s <close> = server(function()
            local part = 0
            return {length = 2, body = function()
                part = part + 1
                if part == 2 then
                    asked:send(true)
                    go_on:receive()
                end
                return part <= 2 and "x" or nil
            end}
        end, 0.01)
        local stream <close> = connect(s)
        stream:write(ASK)
        asked:receive(patience)
        stop(s)
        go_on:send(true)
        local head, body = read_answer(stream)
        t.eq({says_close(head), body}, {false, "xx"})
        t.eq(stream:read "a", "") -- it was told that the connection is kept, but it is silent
        ended(s)
    end,

    -- Clients that never pause would keep a server for ever. It waits for them for as long as they,
    -- and the machine, may stand still between two requests.
    no_request_of_busy_clients_is_lost = function()
        local s <close> = server(hello, patience)
        local counts, clients = mare.channel(8), {}
        for i = 1, 8 do
            clients[i] = mare.go(function()
                local stream <close> = connect(s)
                for n = 1, math.huge do
                    stream:write(ASK)
                    local head, body = read_answer(stream)
                    t.eq(body, "hello")
                    if n == 20 then counts:send(true) end
                    if says_close(head) then return true end
                end
            end)
        end
        for _ = 1, 8 do counts:receive(patience) end
        s.stop:close()
        for _, client in ipairs(clients) do t.eq({client:join(patience)}, {true, true}) end
        ended(s)
    end,

    -- WebSockets.

    a_websocket_hears_that_the_server_ends = function()
        local s <close>, heard = talking_server(3600)
        local url = ("ws://127.0.0.1:%d/"):format(s.port)
        local w = assert(websocket.connect(url, {timeout = patience}))
        w:send "hello"
        t.eq({heard:receive(patience)}, {"hello", "text"})
        s.stop:close()
        local _, message, code, number, reason = w:receive(patience)
        t.eq({message, code, number, reason},
            {"the connection is closed: the server ends", "closed", 1001, "the server ends"})
        t.eq({select(3, heard:receive(patience))}, {"closed", 1001, ""})
        t.fails("closed", heard:receive(patience)) -- and to send
        ended(s)
    end,

    what_the_peer_has_sent_before_it_answers_is_received = function()
        local s <close>, heard = talking_server(3600)
        local stream <close> = frames.client(s)
        s.stop:close()
        goes_away(stream)
        stream:write(frames.make(frames.FINAL | frames.TEXT, "last", "mask"),
            frames.make(frames.FINAL | frames.TEXT, "words", "mask"),
            frames.make(CLOSE, string.pack(">I2", 1001), "mask"))
        t.eq({heard:receive(patience)}, {"last", "text"})
        t.eq({heard:receive(patience)}, {"words", "text"})
        t.eq({select(3, heard:receive(patience))}, {"closed", 1001, ""})
        t.eq(stream:read "a", "")
        ended(s)
    end,

    a_peer_that_does_not_answer_is_gone_in_time = function()
        local s <close>, heard = talking_server(0.05)
        local stream <close> = frames.client(s)
        s.stop:close()
        goes_away(stream)
        t.eq({select(3, heard:receive(patience))},
            {"closed", 1006, "the peer did not close in time"})
        t.eq(stream:read "a", "")
        ended(s)
    end,

    a_peer_that_does_not_read_is_gone_in_time = function()
        local s <close> = server(function(request)
            local w <close> = websocket.accept(request)
            while w:sendbinary(("x"):rep(1 << 20), 3600) do end
        end, 0.05)
        local _ <close> = frames.client(s)
        s.stop:close()
        ended(s)
    end,

    a_websocket_that_begins_when_the_server_has_ended_hears_of_it_too = function()
        local asked, go_on = mare.channel(1), mare.channel(1)
        local s <close> = server(function(request)
            asked:send(true)
            go_on:receive()
            local w <close> = websocket.accept(request)
            w:receive()
        end, 3600)
        local stream <close> = connect(s)
        stream:write(frames.request())
        asked:receive(patience)
        s.stop:close()
        until_it_is_closed(s)
        go_on:send(true)
        t.ok(frames.head(stream):find "^HTTP/1.1 101 ")
        goes_away(stream)
        stream:write(frames.make(CLOSE, string.pack(">I2", 1001), "mask"))
        t.eq(stream:read "a", "")
        ended(s)
    end,

    a_select_is_ready_when_the_server_ends = function()
        local heard = mare.channel(1)
        local s <close> = server(function(request)
            local w <close> = websocket.accept(request, {close_time = 3600})
            heard:send "begins"
            local which = mare.select {mare.channel(), w}
            heard:send(which, w:receive(0))
        end, 3600)
        local url = ("ws://127.0.0.1:%d/"):format(s.port)
        local w = assert(websocket.connect(url, {timeout = patience}))
        t.eq(heard:receive(patience), "begins")
        s.stop:close()
        t.eq(select(4, w:receive(patience)), 1001)
        local which, _, _, code, number = heard:receive(patience)
        t.eq({which, code, number}, {2, "closed", 1001})
        ended(s)
    end,

    one_that_is_over_is_told_nothing = function()
        local s <close>, heard = talking_server(3600)
        local url = ("ws://127.0.0.1:%d/"):format(s.port)
        local w = assert(websocket.connect(url, {timeout = patience}))
        w:close(4000, "enough")
        t.eq({select(3, heard:receive(patience))}, {"closed", 4000, "enough"})
        s.stop:close()
        ended(s)
    end,

    pipelined_requests_that_were_sent_do_not_spoil_the_last_answer = function()
        local s <close>, asked, go_on = holding_server()
        local stream <close> = connect(s)
        mare.go(stream.write, stream, ASK:rep(10000)) -- more than is read with the first
        asked:receive(patience)
        s.stop:close()
        until_it_is_closed(s)
        go_on:send(true)
        answers_last(stream, s)
    end,
}
