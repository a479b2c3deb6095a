-- SPDX-License-Identifier: MIT
-- What the server of HTTP/2 makes of frames that RFC 9113 wants refused, section by section; and of
-- floods of those that it does not.
local mare, http, tls, t = require "mare", require "mare.http", require "mare.tls", require "t"
local frames = require "frames2"
local frame, request, fields, block = frames.frame, frames.request, frames.fields, frames.block
local hear, serve = frames.hear, frames.serve
local DATA, HEADERS, PRIORITY, RST, SETTINGS = frames.DATA, frames.HEADERS, frames.PRIORITY,
    frames.RST_STREAM, frames.SETTINGS
local PING, GOAWAY, WINDOW, CONTINUATION, PUSH = frames.PING, frames.GOAWAY,
    frames.WINDOW_UPDATE, frames.CONTINUATION, frames.PUSH_PROMISE
local OPEN = frames.END_HEADERS -- of a request whose body is to come

local function setting(id, value) return frame(SETTINGS, 0, 0, string.pack(">I2I4", id, value)) end
local function window(stream, size) return frame(WINDOW, 0, stream, string.pack(">I4", size)) end
local function reset(stream, code) return frame(RST, 0, stream, string.pack(">I4", code or 8)) end

-- A request with this block.
local function whole(bytes) return frame(HEADERS, 5, 1, bytes) end

-- A request with the usual fields but for one, which is left out or has another value.
local function without(name, value)
    local kept, all = {}, fields()
    for i = 1, #all, 2 do
        if all[i] ~= name then
            kept[#kept + 1], kept[#kept + 2] = all[i], all[i + 1]
        elseif value then
            kept[#kept + 1], kept[#kept + 2] = name, value
        end
    end
    return request(1, kept)
end

-- Section of RFC 9113, what is wrong, the frames, what must be answered first.
local wrong = {
    {"4.2", "a frame larger than was agreed", frame(DATA, 0, 1, "", 16385), "goaway size"},
    {"4.2", "a head larger than was agreed", frame(HEADERS, 5, 1, "", 16385), "goaway size"},
    {"4.3", "a block that is none", frame(HEADERS, 5, 1, "\x80"), "goaway compression"},
    {"4.3", "a field of the table that is not there", whole(block(fields()) .. "\xc6"),
        "goaway compression"}, -- RFC 7541 section 2.3.3
    {"4.3", "a table that changes its size behind a field", whole(block(fields()) .. "\x20"),
        "goaway compression"}, -- section 4.2
    {"4.3", "a table larger than was agreed", whole("\x3f\xe2\x1f" .. block(fields())),
        "goaway compression"}, -- section 6.3
    {"4.3", "a code of Huffman's that ends with zeros", whole(block(fields()) .. "\0\x81\x18\1b"),
        "goaway compression"}, -- section 5.2
    {"4.3", "one that ends with a byte too many", whole(block(fields()) .. "\0\x82\x1f\xff\1b"),
        "goaway compression"},
    {"4.3", "one with the sign of the end", whole(block(fields()) .. "\0\x84\xff\xff\xff\xff\1b"),
        "goaway compression"},
    {"4.3", "a field that is cut off", whole(block(fields()) .. "\0\5abc"), "goaway compression"},
    {"4.3", "a priority inside of a head",
        frame(HEADERS, 1, 1, block(fields())) .. frame(PRIORITY, 0, 1, "\0\0\0\0\1"),
        "goaway protocol"},
    {"5.1", "data of a stream that is none", frame(DATA, 0, 1, "x"), "goaway protocol"},
    {"5.1", "the reset of a stream that is none", reset(1), "goaway protocol"},
    {"5.1", "a window of a stream that is none", window(1, 1), "goaway protocol"},
    {"5.1", "data after the end", request(1, nil, 5) .. frame(DATA, 1, 1, "x"), "goaway closed"},
    {"5.1", "a head after the end", request(1) .. request(1), "goaway closed"},
    {"5.1.1", "a stream of an even number", request(2), "goaway protocol"},
    {"5.3.1", "a stream that depends on itself",
        frame(HEADERS, 0x25, 1, string.pack(">I4I1", 1, 1) .. block(fields())), "goaway protocol"},
    {"5.3.1", "a priority that does", frame(PRIORITY, 0, 1, string.pack(">I4I1", 1, 1)),
        "goaway protocol"},
    {"5.5", "a frame that nobody knows inside of a head",
        frame(HEADERS, 1, 1, block(fields())) .. frame(0x77, 0, 1, "x"), "goaway protocol"},
    {"6.1", "data of no stream", frame(DATA, 0, 0, "x"), "goaway protocol"},
    {"6.1", "more padding than there is", request(1, nil, OPEN) .. frame(DATA, 8, 1, "\5xxxx"),
        "goaway protocol"},
    {"6.2", "a head of no stream", request(0), "goaway protocol"},
    {"6.2", "a head, and another before it is whole",
        frame(HEADERS, 1, 1, block(fields())) .. request(3), "goaway protocol"},
    {"6.2", "data inside of a head",
        frame(HEADERS, 1, 1, block(fields())) .. frame(DATA, 1, 1, "x"), "goaway protocol"},
    {"6.2", "more padding than there is", frame(HEADERS, 0xd, 1, "\255" .. block(fields())),
        "goaway protocol"},
    {"6.3", "a priority of no stream", frame(PRIORITY, 0, 0, "\0\0\0\0\1"), "goaway protocol"},
    {"6.3", "a priority of the wrong size", request(1, nil, OPEN) .. frame(PRIORITY, 0, 1, "\0"),
        "size"},
    {"6.4", "the reset of no stream", reset(0), "goaway protocol"},
    {"6.4", "a reset of the wrong size", request(1, nil, OPEN) .. frame(RST, 0, 1, "\0\0\0"),
        "goaway size"},
    {"6.5", "settings of a stream", frame(SETTINGS, 0, 1), "goaway protocol"},
    {"6.5", "an acknowledgement with something in it", frame(SETTINGS, 1, 0, ("\0"):rep(6)),
        "goaway size"},
    {"6.5", "settings of the wrong size", frame(SETTINGS, 0, 0, "\0\0\0"), "goaway size"},
    {"6.5.2", "push that is neither on nor off", setting(2, 2), "goaway protocol"},
    {"6.5.2", "a window that is too large", setting(4, 1 << 31), "goaway flow"},
    {"6.5.2", "frames that are too small", setting(5, 16383), "goaway protocol"},
    {"6.5.2", "frames that are too large", setting(5, 1 << 24), "goaway protocol"},
    {"6.6", "a push, which only servers may promise",
        frame(PUSH, 4, 1, string.pack(">I4", 2) .. block(fields())), "goaway protocol"},
    {"6.7", "a ping of a stream", frame(PING, 0, 1, "12345678"), "goaway protocol"},
    {"6.7", "a ping of the wrong size", frame(PING, 0, 0, "1234567"), "goaway size"},
    {"6.8", "a goodbye of a stream", frame(GOAWAY, 0, 1, ("\0"):rep(8)), "goaway protocol"},
    {"6.9", "a window that opens by nothing", window(0, 0), "goaway protocol"},
    {"6.9", "one of a stream", request(1, nil, OPEN) .. window(1, 0), "goaway protocol"},
    {"6.9", "a window of the wrong size", frame(WINDOW, 0, 0, "\0\0\1"), "goaway size"},
    {"6.9.1", "a window beyond its most", window(0, 0x7fffffff), "goaway flow"},
    {"6.9.1", "one of a stream", request(1, nil, OPEN) .. window(1, 0x7fffffff), "reset 1 flow"},
    {"6.10", "a continuation of nothing", frame(CONTINUATION, 4, 1, ""), "goaway protocol"},
    {"6.10", "one of another stream",
        frame(HEADERS, 1, 1, block(fields())) .. frame(CONTINUATION, 4, 3, ""), "goaway protocol"},
    {"6.10", "one of no stream", frame(HEADERS, 1, 1, block(fields())) ..
        frame(CONTINUATION, 4, 0, ""), "goaway protocol"},
    {"6.10", "one behind the head's end", request(1, nil, OPEN) .. frame(CONTINUATION, 4, 1, ""),
        "goaway protocol"},
    {"6.10", "one behind data", request(1, nil, OPEN) .. frame(DATA, 0, 1, "x") ..
        frame(CONTINUATION, 4, 1, ""), "goaway protocol"},
    {"8.1", "a second head that is not the end",
        request(1, nil, OPEN) .. frame(HEADERS, 4, 1, block {"x-a", "1"}), "reset 1 protocol"},
    {"8.1", "trailers with a pseudo-field",
        request(1, nil, OPEN) .. frame(HEADERS, 5, 1, block {":method", "GET"}),
        "reset 1 protocol"},
    {"8.1.1", "a body that is longer than it says",
        request(1, fields {"content-length", "1"}, OPEN) .. frame(DATA, 1, 1, "xx"),
        "reset 1 protocol"},
    {"8.1.1", "a body that is shorter",
        request(1, fields {"content-length", "3"}, OPEN) .. frame(DATA, 1, 1, "xx"),
        "reset 1 protocol"},
    {"8.1.1", "one that comes in parts", request(1, fields {"content-length", "1"}, OPEN)
        .. frame(DATA, 0, 1, "x") .. frame(DATA, 1, 1, "x"), "reset 1 protocol"},
    {"8.2.1", "a name in capitals", request(1, fields {"X-A", "1"}), "reset 1 protocol"},
    {"8.2.1", "a value with a line break", request(1, fields {"x-a", "1\r\n2"}),
        "reset 1 protocol"},
    {"8.2.2", "a field of a connection", request(1, fields {"connection", "close"}),
        "reset 1 protocol"},
    {"8.2.2", "chunks", request(1, fields {"transfer-encoding", "chunked"}), "reset 1 protocol"},
    {"8.2.2", "TE for more than trailers", request(1, fields {"te", "gzip"}), "reset 1 protocol"},
    {"8.3", "a pseudo-field that nobody knows", request(1, fields {":x", "1"}), "reset 1 protocol"},
    {"8.3", "one of answers", request(1, fields {":status", "200"}), "reset 1 protocol"},
    {"8.3", "one after the others", request(1, {":method", "GET", ":scheme", "http", "x", "1",
        ":path", "/", ":authority", "a"}), "reset 1 protocol"},
    {"RFC 8441", "an extended CONNECT, which is not offered", request(1, {":method", "CONNECT",
        ":protocol", "websocket", ":scheme", "http", ":path", "/", ":authority", "a"}),
        "reset 1 protocol"},
    {"8.5", "a CONNECT with a path", request(1, {":method", "CONNECT", ":scheme", "http", ":path",
        "/", ":authority", "a:1"}), "reset 1 protocol"},
    {"8.3.1", "two paths", request(1, fields {":path", "/"}), "reset 1 protocol"},
    {"8.3.1", "two methods", request(1, fields {":method", "GET"}), "reset 1 protocol"},
    {"8.3.1", "two schemes", request(1, fields {":scheme", "http"}), "reset 1 protocol"},
    {"8.3.1", "no path", without(":path"), "reset 1 protocol"},
    {"8.3.1", "an empty path", without(":path", ""), "reset 1 protocol"},
    {"8.3.1", "no host", without ":authority", "reset 1 protocol"},
    {"8.3.1", "a host that is none", without(":authority", "a b"), "reset 1 protocol"},
    {"8.3.1", "no method", without ":method", "reset 1 protocol"},
    {"8.3.1", "no scheme", without ":scheme", "reset 1 protocol"},
}

-- What must be answered with a status by the server itself; the byte is RFC 7541's for it, in the
-- static table, or a literal.
local refused = {
    {"400", "\x8c", request(1, fields {"host", "b"})},
    {"400", "\x8c", without(":path", "/a#b")},
    {"400", "\x8c", without(":authority", "a:b")},
    {"501", nil, without(":method", "BREW")},
    {"501", nil, request(1, {":method", "CONNECT", ":authority", "a:1"})},
    {"431", nil, request(1, fields {"x-a", ("x"):rep(9000)})},
    {"414", nil, without(":path", "/" .. ("x"):rep(9000))},
    {"413", nil, request(1, fields {"content-length", "9000000000000000000"}, OPEN)},
}

local cases = {}

for i, case in ipairs(wrong) do
    local section, what, bytes, expected = table.unpack(case)
    cases[("section_%s_%02d_%s"):format(section, i, what):gsub("[ ,.]", "_")] = function()
        local client <close>, server = serve(function(asked)
            asked:text()
            return "ok"
        end)
        client:write(bytes)
        local told
        repeat told = hear(client) until not told:find "^head" and not told:find "^data"
        t.ok(told:find(expected, 1, true), ("section %s: %s: %s"):format(section, what, told))
        client:close()
        t.ok(server:join(t.patience))
    end
end

for _, case in ipairs(refused) do
    cases["refused_with_" .. case[1] .. "_" .. #case[3]] = function()
        local logged = mare.channel(1)
        local client <close> = serve(function() error "not to be called" end, {
            log = function(_, status) logged:send(status) end})
        client:write(case[3])
        local told, head = hear(client)
        t.eq(told, "head 1")
        if case[2] then t.eq(head.payload:sub(1, 1), case[2]) end
        t.eq(hear(client), "data 1")
        t.eq(logged:receive(t.patience), tonumber(case[1]))
    end
end

-- Sends the same again and again until the server has had enough; what it says then.
local function flood(bytes, count, options, handler)
    local client <close>, server = serve(handler or function() return "ok" end, options)
    local writer = mare.go(function()
        for i = 1, count do
            if not client:write(type(bytes) == "function" and bytes(i) or bytes) then return end
        end
    end)
    local told
    repeat told = hear(client) until told:find "^goaway" or told == "closed"
    writer:join(t.patience)
    client:close()
    t.ok(server:join(t.patience))
    return told
end

local IDLE = "goaway calm too many frames that ask for nothing"

local more = {
    what_nobody_knows_is_passed_over = function() -- sections 4.1, 5.5 and 6.5.2
        local client <close> = serve(function() return "ok" end)
        client:write(setting(0x99, 1), frame(0x77, 0xff, 0, "x"), frame(PING, 0, 0, "12345678"),
            request(1))
        t.eq(hear(client), "pong 12345678") -- section 6.7
        t.eq(hear(client), "head 1")
        t.eq(hear(client), "data 1")
    end,

    what_may_be_is_understood = function() -- sections 4.1, 5.1, 6.1, 6.2, 6.3, 6.10, 7 and 8.1
        local head, prior = block(fields()), string.pack(">I4I1", 0, 255)
        local half = #head // 2
        for what, bytes in pairs {
            ["a head in three frames"] = frame(HEADERS, 1, 1, head:sub(1, half))
                .. frame(CONTINUATION, 0, 1, head:sub(half + 1)) .. frame(CONTINUATION, 4, 1, ""),
            ["padding and a priority"] = frame(HEADERS, 0x2d, 1, "\3" .. prior .. head .. "\0\0\0"),
            ["a body with padding"] = request(1, nil, OPEN) .. frame(DATA, 9, 1, "\2x\0\0"),
            ["trailers"] = request(1, nil, OPEN) .. frame(DATA, 0, 1, "x")
                .. frame(HEADERS, 5, 1, block {"x-a", "1"}),
            ["what is told of a stream that has said all"] = request(1) .. window(1, 1)
                .. frame(PRIORITY, 0, 1, prior),
            ["a bit that is kept for later"] = frame(HEADERS, 5, 1 | 1 << 31, head),
            ["flags that nobody knows"] = frame(SETTINGS, 0xfe, 0) .. request(1, nil, 0xd2 | 5),
            ["codes that nobody knows"] = request(1, nil, OPEN) .. reset(1, 0xff) .. request(3),
            ["a table without room"] = frame(HEADERS, 5, 1, "\x20" .. head),
            ["the reset of one that has said all"] = request(1) .. reset(1) .. request(3),
            ["what was sent before a reset was read"] = request(1, nil, OPEN) .. reset(1)
                .. frame(DATA, 0, 1, "x") .. frame(HEADERS, 5, 1, block {"a", "x"}) .. request(3),
            ["names and values in Huffman's code"] = whole(head .. "\0\x81\x1f\x81\x1f"),
            ["a table of other sizes, and fields in every form"] = whole("\x20\x3f\xe1\x1f" .. head
                .. "\x40\1a\1b" .. "\x7e\1c" .. "\x0f\x2f\1d" .. "\x1f\x2f\1e" .. "\x10\1a\1f"
                .. "\xbf"),
        } do
            local asked
            local client <close> = serve(function(request_here)
                asked = request_here:text() .. (request_here.headers.a or "")
                return "ok"
            end)
            client:write(bytes)
            local told
            repeat told = hear(client) until not told:find "^head"
            t.ok(told:find "^data %d", what .. ": " .. told)
            t.eq(asked, ({["a body with padding"] = "x", trailers = "x",
                ["names and values in Huffman's code"] = "a",
                ["a table of other sizes, and fields in every form"] = "b, c, d, e, f, b",
            })[what] or "", what)
        end
    end,

    an_answer_to_a_ping_is_not_answered = function() -- section 6.7
        local client <close> = serve(function() end)
        client:write(frame(PING, frames.ACK, 0, "12345678"), frame(PING, 0, 0, "abcdefgh"))
        t.eq(hear(client), "pong abcdefgh")
    end,

    who_says_goodbye_gets_what_was_asked_for = function() -- section 6.8
        local client <close> = serve(function() return "ok" end)
        client:write(request(1), frame(GOAWAY, 0, 0, string.pack(">I4I4", 0, 0xff)))
        t.eq(hear(client), "head 1")
        t.eq(hear(client), "data 1")
    end,

    no_more_is_sent_than_there_is_room_for = function() -- sections 6.5.3, 6.9.1 and 6.9.2
        local client <close> = serve(function() return "0123456789" end, nil,
            frame(SETTINGS, 0, 0, string.pack(">I2I4I2I4", 4, 100, 4, 3))) -- in their order
        local function hears(payload)
            local told, one = hear(client)
            t.eq({told, one and one.payload}, {"data 1", payload})
        end
        client:write(request(1))
        t.eq(hear(client), "head 1")
        hears "012"
        client:write(setting(4, 2), window(1, 2)) -- so that it is -1, and then 1
        hears "3"
        client:write(setting(4, 4)) -- which opens those that there are, too
        hears "45"
        client:write(window(1, 10))
        hears "6789"
    end,

    nor_on_the_whole_connection = function() -- section 6.9.1
        local client <close> = serve(function() return ("x"):rep(70000) end, nil,
            setting(4, 1 << 20))
        client:write(request(1))
        t.eq(hear(client), "head 1")
        local got = 0
        local function take(most)
            while got < most do
                local told, one = hear(client)
                t.eq(told, "data 1")
                got = got + #one.payload
            end
            t.eq(got, most)
        end
        take(65535)
        client:write(frame(PING, 0, 0, "12345678"))
        t.eq(hear(client), "pong 12345678")
        client:write(window(0, 1))
        take(65536)
        client:write(window(0, 100000))
        take(70000)
    end,

    the_first_frame_must_be_settings = function() -- section 3.4
        local client <close> = serve(function() end, nil, frame(PING, 0, 0, "12345678"))
        t.ok(hear(client):find "^goaway protocol")
    end,

    what_is_no_preface_is_refused = function() -- section 3.4
        local certificate, key = tls.selfsigned "localhost"
        local listener <close> = assert(tls.listen("localhost", 0, {certificate = certificate,
            key = key}))
        mare.go(http.serve, listener, function() error "not to be called" end)
        local _, port = listener:address()
        for _, bytes in ipairs {"INVALID CONNECTION PREFACE\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\n\r\n", (frames.PREFACE:gsub("SM", "MS"))} do
            local client <close> = assert(tls.connect("localhost", port,
                {authorities = certificate, protocols = {"h2"}}, t.patience))
            t.ok(client:write(bytes))
            t.ok(hear(client):find "^goaway protocol", bytes)
            t.eq(hear(client), "closed")
        end
    end,

    -- Section 5.1.1 would have it be an error of the connection; but what belongs to a stream that
    -- was reset may still be on its way, and is not told from it.
    a_stream_that_is_not_newer_is_passed_over = function()
        local client <close> = serve(function() return "ok" end)
        client:write(request(3), request(1), frame(PING, 0, 0, "12345678"))
        local told = {}
        for i = 1, 3 do told[i] = hear(client) end
        table.sort(told)
        t.eq(told, {"data 3", "head 3", "pong 12345678"})
    end,

    settings_are_acknowledged = function() -- section 6.5.3
        local client <close> = serve(function() end)
        local acknowledged
        repeat
            local one = frames.read(client)
            acknowledged = one.kind == SETTINGS and one.flags == frames.ACK
        until acknowledged
    end,

    one_stream_too_many_is_refused = function() -- section 5.1.2
        local never = mare.channel()
        local client <close> = serve(function() never:receive() end)
        for i = 0, http.http2_streams do client:write(request(2 * i + 1)) end
        t.eq(hear(client), ("reset %d refused"):format(2 * http.http2_streams + 1))
    end,

    -- ---- Floods ---------------------------------------------------------------------------------

    streams_that_are_reset_at_once = function() -- CVE-2023-44487
        local called = 0
        local never = mare.channel()
        t.eq(flood(function(i) return request(2 * i - 1) .. reset(2 * i - 1) end, 5000, nil,
            function()
                called = called + 1
                never:receive()
            end), "goaway calm too many streams that were reset")
        t.ok(called < 1000, called)
    end,

    streams_that_the_server_is_made_to_reset = function() -- CVE-2025-8671
        t.eq(flood(function(i)
            return request(2 * i - 1, nil, OPEN) .. window(2 * i - 1, 0x7fffffff)
        end, 5000), "goaway calm too many streams that were reset")
    end,

    handlers_that_outlive_their_streams_are_counted = function()
        local running, most, go_on = 0, 0, mare.channel()
        local client <close> = serve(function()
            running = running + 1
            most = math.max(most, running)
            go_on:receive()
        end, {cancel = false})
        local half = http.http2_streams
        for i = 1, half do client:write(request(2 * i - 1)) end
        t.reaches(function() return running == half end)
        for i = 1, half do client:write(reset(2 * i - 1)) end
        for i = half + 1, 2 * half + 1 do client:write(request(2 * i - 1)) end
        t.eq(hear(client), ("reset %d refused"):format(4 * half + 1))
        t.reaches(function() return running == 2 * half end)
        t.settle()
        t.eq(most, 2 * half)
        go_on:close()
    end,

    a_head_in_too_many_frames = function() -- CVE-2024-28182
        t.eq(flood(function(i)
            return i == 1 and frame(HEADERS, 1, 1, block(fields()))
                or frame(CONTINUATION, 0, 1, block {"x-a", "1"})
        end, 5000), "goaway calm too many CONTINUATION frames")
    end,

    a_head_that_unfolds = function() -- section 10.5.1
        local bomb = frames.block({"x-a", ("x"):rep(4000)}, true) .. ("\xbe"):rep(10000)
        local told = flood(frame(HEADERS, 5, 1, block(fields()) .. bomb), 1)
        t.eq(told, "goaway calm a head that unfolds without end")
    end,

    pings = function() t.eq(flood(frame(PING, 0, 0, "12345678"), 5000), IDLE) end,
    settings = function() t.eq(flood(frame(SETTINGS, 0, 0), 5000), IDLE) end,
    settings_in_one_frame = function()
        t.eq(flood(frame(SETTINGS, 0, 0, string.pack(">I2I4", 3, 1):rep(2000)), 5), IDLE)
    end,
    priorities = function()
        t.eq(flood(function(i) return frame(PRIORITY, 0, 2 * i + 1, "\0\0\0\0\1") end, 5000), IDLE)
    end,
    what_nobody_knows = function() t.eq(flood(frame(0x77, 0, 0), 5000), IDLE) end,
    windows_that_open_by_little = function() t.eq(flood(window(0, 1), 5000), IDLE) end,
    data_with_nothing_in_it = function()
        t.eq(flood(function(i) return i == 1 and request(1, nil, OPEN) or frame(DATA, 0, 1) end,
            5000, nil, function(asked) return asked:text() end), IDLE)
    end,

    -- ---- Slow ones ------------------------------------------------------------------------------

    data_that_is_only_padding = function()
        t.eq(flood(function(i)
            return i == 1 and request(1, nil, OPEN) or frame(DATA, 8, 1, "\255" .. ("\0"):rep(255))
        end, 5000, nil, function(asked) return asked:text() end), IDLE)
    end,
    data_in_small_pieces_is_no_flood = function()
        local client <close> = serve(function(asked) return tostring(#asked:text()) end)
        client:write(request(1, nil, OPEN))
        for i = 1, 5000 do client:write(frame(DATA, i == 5000 and 1 or 0, 1, "x")) end
        local told, answer
        repeat told, answer = hear(client) until told:find "^data" or told:find "^goaway"
        t.eq({told, answer.payload}, {"data 1", "5000"})
    end,
    who_takes_next_to_nothing_is_cut_off = function()
        local ended = mare.channel(1)
        local client <close> = serve(function()
            return {body = ("x"):rep(5000), finally = function() ended:send(true) end}
        end, {write_time = 0.02 * t.slow}, setting(4, 1)) -- a window of 1
        client:write(request(1))
        t.eq(hear(client), "head 1")
        for _ = 1, 5 do
            t.eq(hear(client), "data 1")
            client:write(window(1, 1))
        end
        t.eq(hear(client), "data 1")
        t.eq(hear(client), "reset 1 cancel")
        t.ok(ended:receive(t.patience))
    end,

    a_text_that_waits_stays_though_memory_is_short = function()
        t.ok(mare.spawn({memory = 2 << 20}, function()
            local p_t, net, raw = require "t", require "mare.net", require "mare._http2"
            local session = assert(raw.session("client", nil, 100, 65536, 65536))
            local here, there = net.pair()
            local texts, headers, spent, count = {}, {}, table.pack(table.unpack({}, 1, 250)), 0
            for i = 1, 90 do texts[i] = ("text"):rep(100) .. i end
            local rep, ask, asked = string.rep, session.ask, 0
            for size = 100000, 1000, -33000 do
                local fine, text
                repeat
                    fine, text = pcall(rep, "-", size + count)
                    if fine then count, spent[count + 1] = count + 1, text end
                until not fine
            end
            for i = 1, 90 do -- the list of texts must grow, and cannot
                local fine = pcall(ask, session, "POST", "http", "a", "/", headers, nil, texts[i])
                asked = asked + (fine and 1 or 0)
                texts[i] = fine and i or nil
            end
            for i = 1, count do spent[i] = nil end
            collectgarbage()
            p_t.ok(asked > 0 and asked < 90, "memory was short for some")
            p_t.ok(session:write(here))
            here:close()
            local parts = {}
            for part in function() return there:read(nil, p_t.patience) end do
                parts[#parts + 1] = part
            end
            p_t.eq(select(2, table.concat(parts):gsub("text", "")), 100 * asked)
        end):join(t.patience))
    end,

    a_head_that_stops_half_way = function()
        local client <close>, server = serve(function() end, {message_time = 0.02 * t.slow})
        client:write(request(1):sub(1, 15))
        t.ok(hear(client):find "^goaway none")
        client:close()
        t.ok(server:join(t.patience))
    end,

    who_asks_for_nothing_is_not_waited_for = function()
        local client <close>, server = serve(function() end, {idle_time = 0.02 * t.slow})
        t.ok(hear(client):find "^goaway none")
        client:close()
        t.ok(server:join(t.patience))
    end,
}

for name, case in pairs(more) do cases[name] = case end
return cases
