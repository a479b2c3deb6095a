-- SPDX-License-Identifier: MIT
-- WebSocket: messages that are compressed (RFC 7692), between ours and by hand.
local t, frames = require "t", require "frames"
local websocket, deflate = require "mare.websocket", require "mare._deflate"
local zip = require "mare._zip"
local patience = t.patience
local TEXT, BINARY, FINAL, COMPRESSED = frames.TEXT, frames.BINARY, frames.FINAL, 0x40
local MASK = "\1\2\3\4"

-- As a sender would: without the last four bytes.
local function compress(text)
    return (zip.deflater("raw"):write(text, "sync"):sub(1, -5))
end

local function undo(data)
    return (assert(zip.inflater("raw"):write(data .. "\0\0\xff\xff")))
end

-- A client by hand that has agreed to compress: its stream, and the head of the answer.
local function client(s, offer)
    return frames.client(s, {["Sec-WebSocket-Extensions"] = offer or "permessage-deflate"})
end

local echo = {compress = true, limit = 100000}

-- What is said to frames, by a server that echoes: the first byte and the data of its next frame.
local function said(...)
    local s <close> = frames.server(frames.echo, echo)
    local stream <close> = client(s)
    stream:write(...)
    return frames.read(stream)
end

-- The code that these frames make the server close with.
local function closed_with(...)
    local first, data = said(...)
    t.eq(first, FINAL | frames.CLOSE)
    return string.unpack(">I2", data)
end

return {
    messages_come_through_whether_both_compress_or_not = function()
        for _, compresses in ipairs {true, false} do
            local s <close> = frames.server(frames.echo, {compress = compresses})
            for _, wants in ipairs {true, false} do
                local w <close> = assert(websocket.connect(s.url, {compress = wants,
                    timeout = patience})):timeout(patience)
                t.eq(w.compressed, compresses and wants)
                for _, text in ipairs {"", "short", ("long é "):rep(1000), ("x"):rep(100000)} do
                    t.ok(w:send(text))
                    t.eq({w:receive()}, {text, "text"})
                    t.ok(w:sendbinary(text .. "\xff"))
                    t.eq({w:receive()}, {text .. "\xff", "binary"})
                end
                local parts = {"one ", "two ", ("three "):rep(100)}
                t.ok(w:send(function() return table.remove(parts, 1) end))
                t.eq((w:receive()), "one two " .. ("three "):rep(100))
            end
        end
    end,

    what_is_sent_is_smaller = function()
        local long = ("tide "):rep(1000)
        local first, data = said(frames.make(FINAL | TEXT, long, MASK))
        t.eq({first, undo(data)}, {FINAL | TEXT | COMPRESSED, long})
        t.ok(#data < 100)
        first, data = said(frames.make(FINAL | TEXT, "short", MASK))
        t.eq({first, data}, {FINAL | TEXT, "short"})
        t.seed()
        local bytes = {}
        for i = 1, 500 do bytes[i] = string.char(math.random(0, 255)) end
        local noise = table.concat(bytes)
        t.eq({said(frames.make(FINAL | BINARY, noise, MASK))}, {FINAL | BINARY, noise})
    end,

    messages_in_fragments_are_undone = function()
        local text = ("fragment é "):rep(50)
        local data = compress(text)
        local pieces = {frames.make(TEXT | COMPRESSED, data:sub(1, 1), MASK)}
        for i = 2, #data do
            pieces[#pieces + 1] = frames.make(frames.CONTINUES, data:sub(i, i), MASK)
        end
        pieces[#pieces + 1] = frames.make(FINAL | frames.CONTINUES, "", MASK)
        local first, answer = said(table.concat(pieces))
        t.eq({first, undo(answer)}, {FINAL | TEXT | COMPRESSED, text})
        -- something else in between, and one that is not compressed behind it
        local s <close> = frames.server(frames.echo, echo)
        local stream <close> = client(s)
        stream:write(pieces[1], frames.make(FINAL | frames.PING, "p", MASK),
            table.concat(pieces, "", 2), frames.make(FINAL | TEXT, "plain", MASK))
        t.eq({frames.read(stream)}, {FINAL | frames.PONG, "p"})
        t.eq(undo(select(2, frames.read(stream))), text)
        t.eq({frames.read(stream)}, {FINAL | TEXT, "plain"})
    end,

    odd_but_right_messages_are_read = function()
        local function echoed(data)
            return select(2, said(frames.make(FINAL | TEXT | COMPRESSED, data, MASK)))
        end
        t.eq(echoed "\xf2\x48\xcd\xc9\xc9\x07\x00", "Hello") -- of RFC 7692 section 7.2.3.1
        t.eq(echoed "\x00\x05\x00\xfa\xff\x48\x65\x6c\x6c\x6f\x00", "Hello") -- 7.2.3.3
        t.eq(echoed "\xf3\x48\xcd\xc9\xc9\x07\x00\x00", "Hello") -- 7.2.3.4: with a last block
        t.eq(echoed "\xf2\x48\x05\x00\x00\x00\xff\xff\xca\xc9\xc9\x07\x00", "Hello") -- 7.2.3.5
        t.eq(echoed "\0", "")
    end,

    what_is_broken_or_too_large_ends_the_conversation = function()
        local bomb = compress(("\0"):rep(200000))
        t.ok(#bomb < 1000)
        t.eq(closed_with(frames.make(FINAL | BINARY | COMPRESSED, bomb, MASK)), 1009)
        t.eq(closed_with(frames.make(BINARY | COMPRESSED, bomb:sub(1, -2), MASK)), 1009)
        t.eq(closed_with(frames.make(FINAL | BINARY | COMPRESSED, "\xff\xff\xff", MASK)), 1007)
        t.eq(closed_with(frames.make(FINAL | TEXT | COMPRESSED, compress "a\xff", MASK)), 1007)
        t.eq(closed_with(frames.make(FINAL | TEXT | COMPRESSED, compress "\xc3", MASK)), 1007)
        for _, first in ipairs {FINAL | COMPRESSED | frames.PING, FINAL | 0x20 | TEXT,
            FINAL | 0x10 | TEXT} do
            t.eq(closed_with(frames.make(first, "", MASK)), 1002)
        end
        t.eq(closed_with(frames.make(TEXT, "a", MASK), frames.make(
            FINAL | COMPRESSED | frames.CONTINUES, "b", MASK)), 1002)
    end,

    nothing_is_compressed_that_was_not_agreed_on = function()
        local s <close> = frames.server(frames.echo, {})
        local stream <close>, head = client(s)
        t.ok(not head:lower():find "extensions", head)
        stream:write(frames.make(FINAL | TEXT | COMPRESSED, compress "x", MASK))
        t.eq(frames.read(stream), FINAL | frames.CLOSE)
    end,

    offers_are_read_as_the_rfc_has_them = function()
        local full = deflate.OFFER
        for offer, answer in pairs {["permessage-deflate"] = full,
            ["x-other, permessage-deflate; client_max_window_bits"] = full,
            ["permessage-deflate; server_max_window_bits=10"] =
                full .. "; server_max_window_bits=10",
            ['permessage-deflate;server_max_window_bits="12"; client_max_window_bits=8'] =
                full .. "; server_max_window_bits=12",
            ["permessage-deflate; server_max_window_bits=8, permessage-deflate"] = full,
            ["permessage-deflate; what=ever"] = false, ["x-webkit-deflate-frame"] = false,
            ["permessage-deflate; server_no_context_takeover=1"] = false,
            ["permessage-deflate; server_max_window_bits"] = false,
            ["permessage-deflate; server_max_window_bits=16"] = false,
            ["permessage-deflate; client_max_window_bits=7"] = false,
            ["permessage-deflate; server_max_window_bits=9; server_max_window_bits=9"] = false,
            [""] = false} do
            t.eq(deflate.accept(offer) or false, answer, offer)
        end
        t.eq(deflate.accept(nil), nil)
        t.eq(select(2, deflate.accept "permessage-deflate; server_max_window_bits=9"), 9)
        for answer, expected in pairs {[full] = true, [full .. "; server_max_window_bits=9"] = true,
            ["permessage-deflate; server_no_context_takeover"] = true,
            ["permessage-deflate"] = "no", ["x-other"] = "no", [full .. ", " .. full] = "no",
            [full .. "; client_max_window_bits=9"] = "no",
            ["permessage-deflate; server_no_context_takeover; x"] = "no"} do
            local agreed = deflate.check(answer)
            t.eq(agreed == nil and "no" or agreed, expected, answer)
        end
        t.eq(deflate.check(nil), false)
        t.raises("option 'compress' must be true or false", websocket.connect, "ws://h/",
            {compress = 1})
    end,
}
