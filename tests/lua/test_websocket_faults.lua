-- SPDX-License-Identifier: MIT
-- What can go wrong with a WebSocket: handshakes that are none, frames that break a rule, peers
-- that vanish, processes that are killed. Each has its answer, and the server goes on.
local mare, t, frames = require "mare", require "t", require "frames"
local net, http, websocket = require "mare.net", require "mare.http", require "mare.websocket"
local sockets, go_when_killed = require "sockets".count, require "sockets".go_when_killed
local patience, make = t.patience, frames.make
local TEXT, BINARY, CONTINUES, FINAL = frames.TEXT, frames.BINARY, frames.CONTINUES, frames.FINAL
local PING, CLOSE = frames.PING | FINAL, frames.CLOSE | FINAL
local MASK = "\x37\xfa\x21\x3d"

-- That the server still serves.
local function serves(s)
    local w <close> = assert(websocket.connect(s.url))
    t.eq({w:send "fine", w:receive(patience)}, {true, "fine", "text"})
end

-- Sends bytes on a WebSocket made by hand; the code of the close that comes back, and what the
-- server's receive returned.
local function told_of(bytes, options)
    local told = mare.channel(1)
    local s <close> = frames.server(function(w, request)
        if request.path == "/chat" then
            local data, message, code, number
            repeat data, message, code, number = w:receive(patience) until not data
            told:send(code, number, message)
        else
            frames.echo(w)
        end
    end, options)
    local stream <close> = frames.client(s)
    stream:write(bytes)
    local first, data = frames.read(stream)
    t.eq(first, CLOSE)
    stream:close()
    local code, number = told:receive(patience)
    t.eq(number, (string.unpack(">I2", data)))
    serves(s)
    return number, code
end

-- The calls that wait, each in a state in which it does; what it returns must stay referred to.
local waits = {
    receive = function()
        local w, stream = frames.served()
        return function() return w:receive() end, w, stream
    end,
    receive_second = function()
        local w, stream = frames.served()
        mare.go(function() return w:receive() end)
        return function() return w:receive() end, w, stream
    end,
    send = function()
        local w, stream = frames.served()
        return function() return w:sendbinary(("x"):rep(32 << 20)) end, w, stream
    end,
    send_second = function()
        local w, stream = frames.served()
        mare.go(function() return w:sendbinary(("x"):rep(32 << 20)) end)
        mare.yield()
        return function() return w:send "x" end, w, stream
    end,
    close = function()
        local w, stream = frames.served()
        return function() return w:close(1000, "", 1000) end, w, stream
    end,
    scope = function()
        local w, stream = frames.served {close_time = 1000}
        return function() local _ <close> = w end, w, stream
    end,
    connect = function()
        local listener = assert(net.listen("127.0.0.1", 0))
        local _, port = listener:address()
        return function() return websocket.connect("ws://127.0.0.1:" .. port) end, listener
    end,
}

local cases = {
    -- Handshakes.

    a_request_that_is_no_handshake_gets_its_status = function()
        local refused = mare.channel(1)
        local s <close> = frames.server(frames.echo, nil, refused)
        for _, case in ipairs {
            {426, "badmsg", {Upgrade = false}},
            {426, "badmsg", {Upgrade = "h2c"}},
            {426, "badmsg", {["Sec-WebSocket-Version"] = "8"}},
            {400, "badmsg", {["Sec-WebSocket-Version"] = false}},
            {400, "badmsg", {["Sec-WebSocket-Key"] = false}},
            {400, "badmsg", {["Sec-WebSocket-Key"] = "dG9vIHNob3J0"}},
            {405, "badmsg", {"POST /chat HTTP/1.1", ["Content-Length"] = "0"}},
            {403, "denied", {Origin = "https://evil.example"}},
            {403, "denied", {Origin = "null"}},
        } do
            local stream <close> = frames.connect(s.port)
            stream:write(frames.request(case[3]))
            local text = stream:read "a" -- the server closes
            stream:close()
            t.eq(tonumber(text:match "^HTTP/1.1 (%d+) "), case[1], t.show(case))
            t.eq(text:lower():find "\r\nsec%-websocket%-version: 13\r\n" ~= nil, case[1] == 426)
            t.eq(text:lower():find "\r\nupgrade: websocket\r\n" ~= nil, case[1] == 426)
            local _, code, status = refused:receive(patience)
            t.eq({code, status}, {case[2], case[1]})
            serves(s)
        end
    end,

    a_page_of_the_same_host_may_connect = function()
        local s <close> = frames.server(frames.echo)
        for _, origin in ipairs {"http://server.example.com", "https://SERVER.example.com"} do
            frames.client(s, {Origin = origin}):close()
        end
    end,

    origins_can_be_listed_judged_or_ignored = function()
        local function status(option, origin)
            local s <close> = frames.server(frames.echo, {origin = option})
            local stream <close> = frames.connect(s.port)
            stream:write(frames.request {Origin = origin})
            return tonumber(stream:read "l":match " (%d+) ")
        end
        local listed = {"https://a.example", "https://b.example"}
        t.eq(status(listed, "https://b.example"), 101)
        t.eq(status(listed, "http://server.example.com"), 403)
        t.eq(status(false, "https://c.example"), 101)
        local function judge(origin, request) return origin == "x:" .. request.path end
        t.eq(status(judge, "x:/chat"), 101)
        t.eq(status(judge, "x:/else"), 403)
    end,

    a_client_that_says_nothing_is_dropped = function()
        local listener <close> = assert(net.listen("127.0.0.1", 0))
        mare.go(http.serve, listener, function(request) websocket.accept(request) end,
            {message_time = 0.05})
        local stream <close> = frames.connect(select(2, listener:address()))
        stream:write "GET /chat HTTP/1.1\r\nHost: a\r\nUpgrade: webso"
        t.ok(stream:read "a":find "^HTTP/1.1 408 ")
    end,

    a_server_that_is_none_is_told_apart = function()
        local s <close> = frames.server(frames.echo)
        local got = {websocket.connect(s.url .. "plain")}
        t.eq({got[1], got[3], got[4]}, {nil, "denied", 200})
        t.raises("a ws:// or wss:// URL expected", websocket.connect, "http://a/")
        t.raises("a ws:// or wss:// URL expected", websocket.connect, "ws://user@a/")
        t.raises("a ws:// or wss:// URL expected", websocket.connect, nil)
        t.raises("header 'x%-a' has a value that may not be sent", websocket.connect, s.url,
            {headers = {["x-a"] = "1\r\nx-b: 2"}})
        t.fails("refused", websocket.connect("ws://127.0.0.1:1/"))
    end,

    a_wrong_answer_to_a_handshake_is_refused = function()
        local listener = assert(net.listen("127.0.0.1", 0))
        local url = "ws://127.0.0.1:" .. select(2, listener:address())
        for answer, code in pairs {
            ["HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                .. "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"] = "badmsg",
            ["HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"] = "denied",
            ["SSH-2.0-OpenSSH_9.2\r\n"] = "badmsg",
            [""] = "closed",
        } do
            local routine = mare.go(websocket.connect, url)
            local stream <close> = assert(listener:accept(patience)):timeout(patience)
            frames.head(stream)
            stream:write(answer)
            stream:shutdown()
            t.fails(code, select(2, routine:join(patience)))
            t.eq(stream:read "a", "") -- it has closed
        end
        t.fails("timeout", websocket.connect(url, {timeout = 0.05}))
    end,

    -- Frames.

    a_frame_that_breaks_a_rule_is_answered_with_1002 = function()
        for _, bytes in ipairs {
            make(TEXT | FINAL, "not masked"),
            make(TEXT | FINAL | 0x40, "compressed", MASK),
            make(0x3 | FINAL, "unknown", MASK),
            make(CONTINUES | FINAL, "of nothing", MASK),
            make(TEXT, "a", MASK) .. make(TEXT | FINAL, "b", MASK),
            make(PING, ("x"):rep(126), MASK),
            make(frames.PING, "not final", MASK),
            make(CLOSE, "\x03", MASK),
            make(CLOSE, "\x03\xed", MASK), -- 1005
        } do
            t.eq({told_of(bytes)}, {1002, "badmsg"}, t.show(bytes))
        end
    end,

    a_text_that_is_not_utf8_is_answered_with_1007 = function()
        for _, bytes in ipairs {
            make(TEXT | FINAL, "\xff", MASK),
            make(TEXT | FINAL, "half \xc3", MASK),
            make(TEXT, "a\xe2", MASK) .. make(CONTINUES | FINAL, "b", MASK),
            make(CLOSE, "\x03\xe8\xff", MASK),
        } do
            t.eq({told_of(bytes)}, {1007, "badmsg"}, t.show(bytes))
        end
    end,

    a_message_that_is_too_large_is_answered_with_1009 = function()
        local limit = {limit = 1000}
        local function much(size) return make(BINARY | FINAL, ("x"):rep(size), MASK) end
        t.eq({told_of(much(1001), limit)}, {1009, "toobig"})
        t.eq({told_of(make(TEXT, ("x"):rep(900), MASK) .. make(CONTINUES, ("x"):rep(101), MASK),
            limit)}, {1009, "toobig"})
        -- Known from the header alone, however much is announced, and by default, too.
        t.eq({told_of("\x82\xff" .. string.pack(">I8", 1 << 62) .. MASK)}, {1009, "toobig"})
        -- The rest of it, on its way already, does not keep the close from arriving.
        t.eq({told_of(much(t.gc_stress and 30000 or 300000), limit)}, {1009, "toobig"})
    end,

    a_message_may_be_as_large_as_the_limit = function()
        local s <close> = frames.server(frames.echo, {limit = 1000})
        local w <close> = assert(websocket.connect(s.url))
        t.eq({w:send(("x"):rep(1000)), w:receive(patience)}, {true, ("x"):rep(1000), "text"})
        t.raises("limit", websocket.connect, s.url, {limit = 0})
    end,

    a_message_in_many_parts_is_one = function()
        local s <close> = frames.server(frames.echo)
        local stream <close> = frames.client(s)
        local part, parts = make(CONTINUES, "y", MASK), 10000
        stream:write(make(BINARY, "x", MASK), part:rep(parts), make(CONTINUES | FINAL, "z", MASK))
        t.eq({frames.read(stream)}, {BINARY | FINAL, "x" .. ("y"):rep(parts) .. "z"})
    end,

    -- Peers that go.

    a_peer_that_goes_without_a_close_is_1006 = function()
        local told = mare.channel(2)
        local s <close> = frames.server(function(w)
            w:send "hello"
            local data, _, code, number = w:receive(patience)
            told:send(data, code, number)
        end)
        frames.client(s):close() -- with a message unread: a reset
        t.eq({told:receive(patience)}, {nil, "closed", 1006})
        local stream = frames.client(s)
        frames.read(stream)
        stream:write(make(TEXT | FINAL, "hello", MASK):sub(1, -2)) -- in the middle of a frame
        stream:close()
        t.eq({told:receive(patience)}, {nil, "closed", 1006})
    end,

    a_write_to_one_who_has_gone_fails = function()
        local w, stream = frames.served()
        stream:close()
        local code, _
        t.reaches(function() -- the first may still be taken by the system
            _, _, code = w:send "x"
            return code
        end)
        t.eq(code, "closed")
        t.fails("closed", w:receive())
    end,

    a_peer_that_sends_for_ever_cannot_hold_back_a_close = function()
        local w, stream = frames.served()
        local flood = mare.go(function()
            local frame = make(BINARY | FINAL, ("x"):rep(10000))
            repeat until not stream:write(frame)
        end)
        t.eq(w:close(1000, "", 0.05), true)
        t.eq(flood:join(patience), true)
    end,

    a_flood_leaves_others_their_turns = function()
        local w, stream = frames.served()
        stream:write(make(PING, ""):rep(1000), make(TEXT | FINAL, "at last"))
        local receiving, turns = mare.go(function() return w:receive(patience) end), 0
        while receiving:status() == "alive" do
            mare.yield()
            turns = turns + (w.reader:pending() and 1 or 0) -- since they have begun to come
        end
        t.eq({receiving:join()}, {true, "at last", "text"})
        t.ok(turns >= 8, turns)
        stream:close()
    end,

    -- The end of processes.

    nothing_is_left_of_a_process_that_is_killed = function()
        go_when_killed(waits)
    end,

    a_killed_server_leaves_no_sockets = function()
        local before = sockets()
        local port = mare.channel(1)
        local process = mare.spawn(function()
            local listener = assert(net.listen("127.0.0.1", 0))
            port:send(select(2, listener:address()))
            http.serve(listener, function(request)
                local w <close> = websocket.accept(request)
                repeat until not w:send(w:receive() or "")
            end)
        end)
        local w = assert(websocket.connect("ws://127.0.0.1:" .. port:receive(patience)))
        t.eq({w:send "x", w:receive(patience)}, {true, "x", "text"})
        process:kill()
        t.fails("killed", process:join(patience))
        local _, _, code, number = w:receive(patience) -- that was not the end of the conversation
        t.eq({code, number}, {"closed", 1006})
        t.reaches(function() return sockets() <= before end, "sockets are left")
    end,

    a_message_whose_parts_raise_an_error_ends_the_conversation = function()
        local w, stream = frames.served()
        local n = 0
        t.raises("no more of it", w.send, w, function()
            n = n + 1
            return n == 1 and "part" or error "no more of it"
        end)
        t.fails("closed", w:send "another") -- in the middle of the first it would make no sense
        t.eq((frames.read(stream)), TEXT)
        t.fails("closed", stream:read(nil, patience))
    end,

    a_message_for_the_rest_of_which_there_is_no_memory_ends_the_conversation = function()
        local MB = 1 << 20
        t.ok(mare.spawn({memory = 70 * MB}, function()
            local p_frames, p_t = require "frames", require "t"
            local w, stream = p_frames.served()
            p_t.raises("not enough memory", function() w:sendbinary(("x"):rep(32 * MB)) end)
            p_t.fails("closed", w:send("another", 0.01)) -- the peer would take it for more x
            local got, seen = 0, nil
            repeat
                local part = stream:read(nil, p_t.patience)
                got, seen = got + #(part or ""), part and part:find("another", 1, true) or seen
                collectgarbage()
            until not part
            p_t.ok(got > 0 and got < 32 * MB and not seen, "a part of the message, and the end")
        end):join(patience))
    end,

    a_frame_for_which_there_is_no_memory_leaves_nothing = function() -- a leak would be seen
        local MB = 1 << 20
        t.ok(mare.spawn({memory = 20 * MB}, function()
            local p_t, frame = require "t", require "mare._websocket".frame
            local data = ("x"):rep(8 * MB)
            local more = data .. "x"
            p_t.raises("not enough memory", frame, "binary", true, data, true)
            p_t.ok(#more > #data)
        end):join(patience))
    end,

    a_function_that_a_hook_finds_is_not_for_programs = function()
        local found, refused, frame = {}, 0, require "mare._websocket".frame
        debug.sethook(function() found[debug.getinfo(2, "f").func] = true end, "c")
        frame("text", true, "x", true)
        debug.sethook()
        for f in pairs(found) do
            if f ~= debug.sethook and debug.getinfo(f, "S").what == "C" then
                local _, why = pcall(f, io.stdout)
                if tostring(why):find("not for programs", 1, true) then refused = refused + 1 end
            end
        end
        t.eq(refused, 1)
    end,

    a_handler_that_fails_closes = function()
        local s <close> = frames.server(function(w) w:send "x" end)
        local w <close> = assert(websocket.connect(s.url))
        t.eq(w:receive(patience), "x")
        t.eq({select(3, w:receive(patience))}, {"closed", 1000, ""})
    end,
}

-- For a process that shall wait in one of them: see nothing_is_left_of_a_process_that_is_killed.
return setmetatable(cases, {__index = {waits = function() return waits end}})
