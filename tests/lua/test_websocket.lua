-- SPDX-License-Identifier: MIT
-- WebSockets: every promise of docs/reference/websocket.md, ours against ours and against frames
-- made by hand. What goes wrong is in test_websocket_faults.lua; others' programs, in tests/e2e.
local mare, t, frames = require "mare", require "t", require "frames"
local shell = require "shell"
local websocket, tls = require "mare.websocket", require "mare.tls"
local patience, make = t.patience, frames.make
local TEXT, BINARY, CONTINUES, FINAL = frames.TEXT, frames.BINARY, frames.CONTINUES, frames.FINAL
local PING, PONG, CLOSE = frames.PING | FINAL, frames.PONG | FINAL, frames.CLOSE | FINAL
local MASK = "\x37\xfa\x21\x3d"

local function open(server, options) return assert(websocket.connect(server.url, options)) end

return {
    -- Messages.

    messages_come_back_as_they_were = function()
        local s <close> = frames.server(frames.echo)
        local w <close> = open(s)
        for _, size in ipairs {0, 1, 125, 126, 127, 65535, 65536, 300000} do
            local text = ("é"):rep(size // 2) .. ("x"):rep(size % 2)
            t.eq({w:send(text), w:receive(patience)}, {true, text, "text"}, size)
        end
        local bytes = {}
        for i = 0, 255 do bytes[#bytes + 1] = string.char(i) end
        bytes = table.concat(bytes):rep(300)
        t.eq({w:sendbinary(bytes), w:receive(patience)}, {true, bytes, "binary"})
    end,

    the_handshake_of_the_standard_is_answered_as_it_says = function()
        local s <close> = frames.server(frames.echo)
        local _ <close>, head = frames.client(s)
        t.ok(head:find "^HTTP/1.1 101 Switching Protocols\n", head)
        t.ok(head:find ": s3pPLMBiTxaQ9kYGzzhZRbK%+xOo=\n", head)
        for _, line in ipairs {"upgrade: websocket", "connection: upgrade"} do
            t.ok(head:lower():find("\n" .. line, 1, true), head)
        end
    end,

    an_extension_is_not_agreed_to = function()
        local s <close> = frames.server(frames.echo)
        local _ <close>, head = frames.client(s, {["Sec-WebSocket-Extensions"] =
            "permessage-deflate; client_max_window_bits"})
        t.ok(not head:lower():find "extensions", head)
    end,

    bytes_that_came_with_the_handshake_are_not_lost = function()
        local s <close> = frames.server(frames.echo)
        local stream <close> = frames.connect(s.port)
        stream:write(frames.request() .. make(TEXT | FINAL, "early", MASK))
        frames.head(stream)
        t.eq({frames.read(stream)}, {TEXT | FINAL, "early"})
    end,

    fragments_are_put_together_and_pings_between_them_answered = function()
        local s <close> = frames.server(frames.echo)
        local stream <close> = frames.client(s)
        stream:write(make(TEXT, "a\xc3", MASK), make(PING, "are you there?", MASK),
            make(CONTINUES, "", MASK), make(CONTINUES, "\xa9", MASK), make(PONG, "unasked", MASK),
            make(CONTINUES | FINAL, "b", MASK))
        t.eq({frames.read(stream)}, {PONG, "are you there?"})
        t.eq({frames.read(stream)}, {TEXT | FINAL, "aéb"})
        stream:write(make(BINARY, "\xff", MASK), make(CONTINUES | FINAL, "\xfe", MASK))
        t.eq({frames.read(stream)}, {BINARY | FINAL, "\xff\xfe"})
    end,

    frames_may_come_byte_by_byte = function()
        local s <close> = frames.server(frames.echo)
        local stream <close> = frames.client(s)
        for byte in make(TEXT | FINAL, ("x"):rep(130), MASK):gmatch "." do
            stream:write(byte)
            mare.yield()
        end
        t.eq({frames.read(stream)}, {TEXT | FINAL, ("x"):rep(130)})
    end,

    what_a_client_writes_is_masked_with_another_mask_each_time = function()
        local w <close>, stream = frames.served()
        w:send "one"
        w:send "one"
        local masks = {}
        for i = 1, 2 do
            t.eq({stream:read(2):byte(1, 2)}, {TEXT | FINAL, 0x80 | 3})
            masks[i] = stream:read(4)
            local at = 0
            t.eq(stream:read(3):gsub(".", function(byte)
                at = at + 1
                return string.char(byte:byte() ~ masks[i]:byte(at))
            end), "one")
        end
        t.ok(masks[1] ~= masks[2]) -- but for one time in four thousand million
        stream:close()
    end,

    -- What is absent is looked for in the metatable, too, at each send.
    what_a_send_asks_for_is_there = function()
        local absent, of_server = {}, mare.channel(1)
        local function watch(w)
            local inner = {[getmetatable(w)] = "", [getmetatable(w.sending)] = "sending."}
            for class, prefix in pairs(inner) do
                local methods = class.__index
                class.__index = function(_, name)
                    if methods[name] == nil then absent[#absent + 1] = prefix .. name end
                    return methods[name]
                end
                inner[class] = methods
            end
            local sent = {w:send "text", w:sendbinary "bytes"}
            for class, methods in pairs(inner) do class.__index = methods end
            t.eq(sent, {true, true})
        end
        local s <close> = frames.server(function(w)
            watch(w)
            of_server:send(true)
            w:receive(patience)
        end)
        local w <close> = open(s)
        t.ok(of_server:receive(patience))
        watch(w)
        t.eq(absent, {})
    end,

    a_message_can_be_sent_and_received_in_parts = function()
        local s <close> = frames.server(function(w)
            local got = {}
            repeat
                local part, kind, last = w:receivepart(patience)
                got[#got + 1] = part
                t.eq(kind, "text")
            until last
            local again = 0
            w:send(function()
                again = again + 1
                return got[again]
            end)
            w:receive(patience)
        end)
        local stream <close> = frames.client(s)
        stream:write(make(TEXT, "one ", MASK), make(CONTINUES | FINAL, "two", MASK))
        local first, text = frames.read(stream)
        t.eq(first, TEXT)
        repeat
            local more
            first, more = frames.read(stream)
            t.eq(first & 0x0f, CONTINUES)
            text = text .. more
        until first & FINAL > 0
        t.eq(text, "one two")
    end,

    a_text_must_be_utf8_also_when_it_is_ours = function()
        local s <close> = frames.server(frames.echo)
        local w <close> = open(s)
        for _, bytes in ipairs {"\xff", "\xc3", "\xed\xa0\x80", "\xc0\x80", "\xf4\x90\x80\x80"} do
            t.fails("badmsg", w:send(bytes))
        end
        t.eq({w:send "fine", w:receive(patience)}, {true, "fine", "text"})
        t.raises("bad argument #1 to 'send' %(string or function expected, got no value%)",
            w.send, w)
        t.raises("bad argument #1 to 'sendbinary'", w.sendbinary, w, {})
        t.raises("bad argument #1 to 'ping'", w.ping, w, ("x"):rep(126))
        t.raises("may not be sent", w.close, w, 1006)
        t.raises("may not be sent", w.close, w, 1000, ("x"):rep(124))
        t.eq({w:send "still fine", w:receive(patience)}, {true, "still fine", "text"})
    end,

    -- Several routines.

    messages_of_several_routines_are_not_mixed = function()
        local count = mare.channel()
        local s <close> = frames.server(function(w)
            local seen = {}
            for data in w:messages() do
                local who, rest = data:match "^(%d)(.*)$"
                t.eq(rest, (who):rep(#rest))
                seen[who] = (seen[who] or 0) + 1
            end
            count:send(seen)
        end)
        local w = open(s)
        local routines = {}
        for i = 1, 4 do
            routines[i] = mare.go(function()
                for n = 1, 10 do
                    local name = tostring(i)
                    if i == 4 then
                        local parts = {name, name:rep(n * 1000), name}
                        t.ok(w:send(function() return table.remove(parts, 1) end, patience))
                    else
                        t.ok(w:send(name:rep(n * 5000 * i), patience))
                    end
                    t.ok(w:ping(name, patience))
                end
            end)
        end
        for _, routine in ipairs(routines) do t.eq(routine:join(patience), true) end
        t.eq(w:close(), true)
        t.eq(count:receive(patience), {["1"] = 10, ["2"] = 10, ["3"] = 10, ["4"] = 10})
    end,

    several_routines_may_receive = function()
        local s <close> = frames.server(function(w)
            for i = 1, 20 do w:send(tostring(i)) end
            w:receive(patience)
        end)
        local w <close> = open(s)
        local sum, routines = 0, {}
        for i = 1, 4 do
            routines[i] = mare.go(function()
                for _ = 1, 5 do sum = sum + t.ok(w:receive(patience)) end
            end)
        end
        for _, routine in ipairs(routines) do t.eq(routine:join(patience), true) end
        t.eq(math.tointeger(sum), 210)
    end,

    others_go_on_while_one_waits = function()
        local s <close> = frames.server(frames.echo)
        local w <close> = open(s)
        local ticks = 0
        local waiting = mare.go(function() return w:receive(patience) end)
        for _ = 1, 10 do
            mare.sleep(0.001)
            ticks = ticks + 1
        end
        t.eq(ticks, 10)
        w:send "at last"
        t.eq({waiting:join(patience)}, {true, "at last", "text"})
    end,

    a_channel_carries_it_to_a_select = function()
        local s <close> = frames.server(function(w)
            w:send "from afar"
            w:receive(patience)
        end)
        local w <close> = open(s)
        local inbox, other = mare.channel(), mare.channel()
        mare.go(function()
            for data in w:messages() do inbox:send(data) end
            inbox:close()
        end)
        t.eq({mare.select({other, inbox}, patience)}, {2, "from afar"})
    end,

    -- Deadlines.

    a_receive_that_takes_too_long_can_be_repeated = function()
        local s <close> = frames.server(frames.echo)
        local stream <close> = frames.client(s)
        local w <close>, peer = frames.served()
        t.fails("timeout", w:receive(0))
        peer:write(make(TEXT, "one ", nil))
        t.fails("timeout", w:receive(0.02))
        peer:write(make(CONTINUES | FINAL, "two", nil))
        t.eq({w:receive(patience)}, {"one two", "text"})
        w:timeout(0.001)
        t.fails("timeout", w:receive())
        t.fails("timeout", w:receive(mare.deadline(0.001)))
        stream:close()
        peer:close()
    end,

    a_receive_can_be_cancelled = function()
        local s <close> = frames.server(frames.echo)
        local w <close> = open(s)
        local waiting = mare.go(function() return w:receive() end)
        mare.yield()
        waiting:cancel()
        t.fails("cancelled", select(2, waiting:join(patience)))
        t.eq({w:send "on", w:receive(patience)}, {true, "on", "text"})
    end,

    a_peer_that_reads_nothing_makes_the_writer_wait = function()
        local told = mare.channel(1)
        local s <close> = frames.server(function(w)
            local text, sent, ok, code, _ = ("x"):rep(1 << 20), -1, true, nil, nil
            while ok do
                ok, _, code = w:send(text, 0.3)
                sent = sent + 1
            end
            told:send(sent, code, collectgarbage "count")
        end)
        local stream <close> = frames.client(s)
        local sent, code, memory = told:receive(patience)
        t.eq(code, "timeout")
        t.ok(sent < 64, sent) -- megabytes in the system's buffers
        t.ok(memory < 20000, memory) -- kilobytes, of one message and not of all
        stream:close()
    end,

    -- The end.

    a_close_is_told_and_answered = function()
        local told = mare.channel(1)
        local s <close> = frames.server(function(w)
            local data, _, code, number, reason = w:receive(patience)
            t.eq({w:send "too late"}, {w:receive()})
            told:send(data, code, number, reason)
        end)
        local w = open(s)
        t.eq(w:close(4001, "enough"), true)
        t.eq({told:receive(patience)}, {nil, "closed", 4001, "enough"})
        local _, _, code, number = w:receive()
        t.eq({code, number}, {"closed", 4001})
        t.fails("closed", w:send "x")
        t.fails("closed", w:ping())
        t.eq(w:close(), false)
    end,

    a_close_by_hand_is_answered_with_its_code = function()
        for sent, expected in pairs {
            ["\x03\xe8bye"] = "\x03\xe8",
            ["\x0f\xa0"] = "\x0f\xa0",
            [""] = "",
        } do
            local s <close> = frames.server(frames.echo)
            local stream <close> = frames.client(s)
            stream:write(make(CLOSE, sent, MASK))
            t.eq({frames.read(stream)}, {CLOSE, expected})
            t.eq(frames.read(stream), nil)
        end
    end,

    messages_before_the_close_are_received = function()
        local s <close> = frames.server(function(w)
            w:send "one"
            w:send "two"
            w:close(1001, "goes")
        end)
        local w <close> = open(s)
        local got = {}
        for data in w:messages() do got[#got + 1] = data end
        t.eq(got, {"one", "two"})
        t.eq({select(4, w:receive())}, {1001, "goes"})
    end,

    a_close_while_another_routine_receives = function()
        local s <close> = frames.server(frames.echo)
        local w = open(s)
        local waiting = mare.go(function() return w:receive() end)
        mare.yield()
        t.eq(w:close(1000), true)
        t.fails("closed", select(2, waiting:join(patience)))
    end,

    a_peer_that_does_not_answer_a_close_is_left = function()
        local w, stream = frames.served {close_time = 0.05}
        local waiting = mare.go(function() return w:receive() end)
        t.eq(w:close(1000), true)
        local _, _, _, code, number, reason = waiting:join(patience)
        t.eq({code, number, reason}, {"closed", 1006, "the peer did not close in time"})
        t.ok(#stream:read "a" > 0) -- it was told, and then the connection ended
        stream:close()
    end,

    a_scope_that_ends_closes = function()
        local s <close> = frames.server(function() end)
        local w <close> = open(s)
        local data, _, code, number = w:receive(patience)
        t.eq({data, code, number}, {nil, "closed", 1000})
    end,

    -- Life.

    a_ping_is_answered_while_another_routine_waits = function()
        local w, stream = frames.served()
        mare.go(function() return w:receive() end)
        stream:write(make(PING, "1", nil))
        t.eq({stream:read(2):byte(1, 2)}, {PONG, 0x80 | 1})
        stream:close()
    end,

    a_silent_peer_is_asked_and_then_given_up = function()
        local w, stream = frames.served {ping_time = 0.05}
        local waiting = mare.go(function() return w:receive() end)
        t.eq({stream:read(2):byte(1, 2)}, {PING, 0x80})
        local _, _, _, code, number, reason = waiting:join(patience)
        t.eq({code, number, reason}, {"closed", 1006, "the peer does not answer"})
        t.ok(stream:read "a")
        stream:close()
    end,

    a_peer_that_reads_a_long_message_slowly_is_not_given_up = function()
        local w, stream = frames.served {ping_time = 0.05}
        local size = 8 << 20
        local waiting = mare.go(function() return w:receive() end)
        local sending = mare.go(function() return w:sendbinary(("x"):rep(size), patience) end)
        while sending:status() == "alive" do
            t.ok(stream:read())
            mare.sleep(0.002) -- altogether longer than it may be silent
        end
        w.ping_time = patience -- now it could be asked
        t.eq({sending:join(patience)}, {true, true})
        stream:write(make(TEXT | FINAL, "I have it all", nil))
        t.eq({waiting:join(patience)}, {true, "I have it all", "text"})
        stream:close()
    end,

    any_sign_of_life_counts = function()
        local w, stream = frames.served {ping_time = patience}
        w.asked, w.silence = true, patience / 2 -- as if it had been asked then
        stream:write(make(PONG, "", nil))
        t.reaches(function()
            t.fails("timeout", w:receive(0.01))
            return not w.asked
        end)
        t.ok(w.silence < patience / 2, w.silence)
        stream:close()
    end,

    -- The beginning.

    a_protocol_is_chosen_by_the_server = function()
        local s <close> = frames.server(function(w) w:send(tostring(w.protocol)) end,
            {protocols = {"best", "good"}})
        for _, case in ipairs {{{"good"}, "good"}, {{"good", "best"}, "best"}, {{"other"}}, {}} do
            local w <close> = open(s, {protocols = case[1]})
            t.eq({w.protocol, w:receive(patience)}, {case[2], tostring(case[2]), "text"})
        end
    end,

    it_runs_over_tls = function()
        local certificate, key = tls.selfsigned "localhost"
        local listener = assert(tls.listen("127.0.0.1", 0, {certificate = certificate, key = key}))
        local s <close> = frames.server(frames.echo, nil, nil, listener)
        local url = "wss://localhost:" .. s.port .. "/"
        local w <close> = assert(websocket.connect(url, {tls = {authorities = certificate}}))
        local text = ("é"):rep(100000)
        t.eq({w:send(text), w:receive(patience)}, {true, text, "text"})
        t.eq(w:close(1000), true)
        t.eq((websocket.connect(url)), nil) -- signed by nobody we know
    end,

    the_stock_interpreter_can_connect = function()
        if not shell.mare or not shell.has_stock() then t.skip "no lua5.4 that fits" end
        local file <close> = shell.file [[
            local mare, websocket = require "mare", require "mare.websocket"
            local ready = mare.channel(1)
            mare.spawn(function()
                local net, http = require "mare.net", require "mare.http"
                local listener = net.listen("127.0.0.1", 0)
                ready:send((select(2, listener:address())))
                http.serve(listener, function(request)
                    local w <close> = websocket.accept(request)
                    for text in w:messages() do w:send(text) end
                end)
            end)
            local w = assert(websocket.connect("ws://127.0.0.1:" .. ready:receive(100)))
            print(w:send "hello", w:receive(20))
            print(select(3, w:receive(0.01)))
            print(w:close(), select(3, w:receive()))
            os.exit(0)
        ]]
        local here = debug.getinfo(1, "S").source:match "^@(.*)/tests/lua/"
        local got = shell.run(("LUA_PATH='%s/lua/?.lua;;' LUA_CPATH='%s/?.so;;' lua5.4 %s"):format(
            here, shell.mare:match "^(.*)/", file.name))
        t.eq({got.out, got.err}, {"true\thello\ttext\ntimeout\ntrue\tclosed\t1000\t\n", ""})
    end,

    a_misspelt_option_is_an_error = function()
        local listener = assert(require "mare.net".listen("127.0.0.1", 0))
        local url = "ws://127.0.0.1:" .. select(2, listener:address()) .. "/"
        t.raises("test_websocket.lua:%d+: bad argument #2 to 'connect' %(unknown option 'pingtime'",
            function() local _ = websocket.connect(url, {pingtime = 1}) end)
        t.raises("unknown option 'origin'", websocket.connect, url, {origin = false})
        t.raises("#2 to 'connect' %(table expected, got string%)", websocket.connect, url, "chat")
        t.fails("timeout", listener:accept(0)) -- before anybody was asked
        local request = {} -- which is not looked at
        t.raises("test_websocket.lua:%d+: bad argument #2 to 'accept' %(unknown option 'orign'%)",
            function() local _ = websocket.accept(request, {orign = false}) end)
        t.raises("unknown option 'timeout'", websocket.accept, request, {timeout = 3})
        t.raises("#2 to 'accept' %(table expected, got number%)", websocket.accept, request, 3)
        listener:close()
    end,

    a_value_that_an_option_cannot_have_is_an_error_there = function()
        local url, request = "ws://127.0.0.1:1/", {} -- which are not looked at
        local function check(name, value, expected)
            for _, f in ipairs {"connect", "accept"} do
                if not (f == "accept" and name == "timeout" or f == "connect" and name == "origin")
                then
                    t.raises("test_websocket.lua:%d+: bad argument #2 to '" .. f .. "' %(option '"
                        .. name .. "' must be " .. expected, function()
                            local _ = websocket[f](f == "accept" and request or url,
                                {[name] = value})
                        end)
                end
            end
        end
        for _, value in ipairs {"x", -1, 0/0, true} do
            check("ping_time", value, "a number of seconds, or false")
            check("close_time", value, "a number of seconds")
            check("timeout", value, "seconds or a deadline")
        end
        for _, value in ipairs {"x", 0, 1.5, true} do
            check("limit", value, "a positive integer")
        end
        for _, value in ipairs {"chat", {"a b"}, {5}, {""}, {"a\r\nb"}} do
            check("protocols", value, "a list of names")
        end
        check("headers", "x", "a table")
        check("origin", "https://example.com", "a list, a function or false")
        check("compress", 1, "true or false")
        t.raises("test_websocket.lua:%d+: bad argument #2 to 'connect' %(header 'a' has a value",
            function() local _ = websocket.connect(url, {headers = {a = "b\n"}}) end)
    end,

    headers_can_be_added = function()
        local s <close> = frames.server(function(w, request) w:send(request.headers["x-name"]) end,
            {headers = {["set-cookie"] = "a=b"}})
        local w <close> = open(s, {headers = {["x-name"] = "value"}})
        t.eq(w:receive(patience), "value")
        local _ <close>, head = frames.client(s, {["X-Name"] = "x"})
        t.ok(head:find "\nset%-cookie: a=b\n", head)
    end,
}
