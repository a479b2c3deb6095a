-- SPDX-License-Identifier: MIT
-- What the server of HTTP/2 makes of frames that RFC 9113 wants refused, section by section; and of
-- floods of those that it does not.
local mare, http, t = require "mare", require "mare.http", require "t"
local frames = require "frames2"
local frame, request, fields, block = frames.frame, frames.request, frames.fields, frames.block
local hear, serve = frames.hear, frames.serve
local DATA, HEADERS, PRIORITY, RST, SETTINGS = frames.DATA, frames.HEADERS, frames.PRIORITY,
    frames.RST_STREAM, frames.SETTINGS
local PING, GOAWAY, WINDOW, CONTINUATION = frames.PING, frames.GOAWAY, frames.WINDOW_UPDATE,
    frames.CONTINUATION
local OPEN = frames.END_HEADERS -- of a request whose body is to come

local function setting(id, value) return frame(SETTINGS, 0, 0, string.pack(">I2I4", id, value)) end
local function window(stream, size) return frame(WINDOW, 0, stream, string.pack(">I4", size)) end
local function reset(stream, code) return frame(RST, 0, stream, string.pack(">I4", code or 8)) end

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
    {"4.3", "a block that is none", frame(HEADERS, 5, 1, "\x80"), "goaway compression"},
    {"5.1", "data of a stream that is none", frame(DATA, 0, 1, "x"), "goaway protocol"},
    {"5.1", "the reset of a stream that is none", reset(1), "goaway protocol"},
    {"5.1", "a window of a stream that is none", window(1, 1), "goaway protocol"},
    {"5.1", "data after the end", request(1, nil, 5) .. frame(DATA, 1, 1, "x"), "goaway closed"},
    {"5.1.1", "a stream of an even number", request(2), "goaway protocol"},
    {"5.3.1", "a stream that depends on itself",
        frame(HEADERS, 0x25, 1, string.pack(">I4I1", 1, 1) .. block(fields())), "goaway protocol"},
    {"6.1", "data of no stream", frame(DATA, 0, 0, "x"), "goaway protocol"},
    {"6.1", "more padding than there is", request(1, nil, OPEN) .. frame(DATA, 8, 1, "\5xxxx"),
        "goaway protocol"},
    {"6.2", "a head of no stream", request(0), "goaway protocol"},
    {"6.2", "a head, and another before it is whole",
        frame(HEADERS, 1, 1, block(fields())) .. request(3), "goaway protocol"},
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
    {"8.1.1", "a body that is longer than it says",
        request(1, fields {"content-length", "1"}, OPEN) .. frame(DATA, 1, 1, "xx"),
        "reset 1 protocol"},
    {"8.1.1", "a body that is shorter",
        request(1, fields {"content-length", "3"}, OPEN) .. frame(DATA, 1, 1, "xx"),
        "reset 1 protocol"},
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
    {"8.3.1", "two paths", request(1, fields {":path", "/"}), "reset 1 protocol"},
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

    the_first_frame_must_be_settings = function() -- section 3.4
        local client <close> = serve(function() end, nil, frame(PING, 0, 0, "12345678"))
        t.ok(hear(client):find "^goaway protocol")
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
