-- SPDX-License-Identifier: MIT
-- Frames of HTTP/2, written and read by hand, for the tests of what a peer may send: as RFC 9113
-- has them, or not. Heads are written as RFC 7541 lets them be written most simply, without Huffman
-- codes and without the table.
local mare, net, http, t = require "mare", require "mare.net", require "mare.http", require "t"

local frames = {}

frames.PREFACE = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

--- Types and flags (sections 6 and 6.1 to 6.10), and codes of errors (section 7).
frames.DATA, frames.HEADERS, frames.PRIORITY, frames.RST_STREAM, frames.SETTINGS = 0, 1, 2, 3, 4
frames.PUSH_PROMISE, frames.PING, frames.GOAWAY, frames.WINDOW_UPDATE, frames.CONTINUATION =
    5, 6, 7, 8, 9
frames.END_STREAM, frames.ACK, frames.END_HEADERS, frames.PADDED = 1, 1, 4, 8
frames.errors = {[0] = "none", "protocol", "internal", "flow", "settings", "closed", "size",
    "refused", "cancel", "compression", "connect", "calm"}

--- A frame; its length may be a lie.
function frames.frame(kind, flags, stream, payload, length)
    payload = payload or ""
    return string.pack(">I3I1I1I4", length or #payload, kind, flags, stream) .. payload
end

local function text(s)
    if #s < 127 then return string.char(#s) .. s end
    local rest, bytes = #s - 127, {string.char(127)}
    while rest >= 128 do
        bytes[#bytes + 1] = string.char(rest % 128 + 128)
        rest = rest // 128
    end
    return table.concat(bytes) .. string.char(rest) .. s
end

--- A block of fields: name, value, name, value; `indexed`: each goes into the table.
function frames.block(fields, indexed)
    local parts = {}
    for i = 1, #fields, 2 do
        parts[#parts + 1] = (indexed and "\x40" or "\0") .. text(fields[i]) .. text(fields[i + 1])
    end
    return table.concat(parts)
end

local usual = {":method", "GET", ":scheme", "http", ":path", "/", ":authority", "a"}

--- The fields of a request, and more.
function frames.fields(more)
    local all = table.move(usual, 1, #usual, 1, {})
    return table.move(more or {}, 1, #(more or {}), #all + 1, all)
end

--- A request of these fields, in one frame; with `flags` other than that it is whole.
function frames.request(stream, fields, flags)
    return frames.frame(frames.HEADERS, flags or frames.END_STREAM | frames.END_HEADERS, stream,
        frames.block(fields or usual))
end

-- The next frame that a peer gets: a table; or nil, message, code.
local function read_frame(stream)
    local head, message, code = stream:read(9, t.patience)
    if not head or #head < 9 then return nil, message or "cut", code or "closed" end
    local size, kind, flags, id = string.unpack(">I3I1I1I4", head)
    local payload = size > 0 and assert(stream:read(size, t.patience)) or ""
    return {kind = kind, flags = flags, stream = id, payload = payload}
end
frames.read = read_frame

local function name_of(bytes) return frames.errors[string.unpack(">I4", bytes)] or "?" end

--- What a peer is told next, in words: "reset 1 protocol", "goaway calm too many …", "head 1",
--- "data 1", "ping", "closed"; settings, and windows that open, are passed over.
function frames.hear(stream)
    while true do
        local one = read_frame(stream)
        if not one then return "closed" end
        if one.kind == frames.RST_STREAM then
            return ("reset %d %s"):format(one.stream, name_of(one.payload))
        elseif one.kind == frames.GOAWAY then
            return ("goaway %s %s"):format(name_of(one.payload:sub(5)), one.payload:sub(9)), one
        elseif one.kind == frames.HEADERS then
            return "head " .. one.stream, one
        elseif one.kind == frames.DATA then
            return "data " .. one.stream, one
        elseif one.kind == frames.PING then
            return one.flags == frames.ACK and "pong " .. one.payload or "ping", one
        end
    end
end

--- A server of a handler, over a pair in memory, and the client's end of it, which has said what
--- one says first. Ended with the variable's scope.
function frames.serve(handler, options, first)
    local client, server = net.pair(1 << 20)
    options = options or {}
    options.http2 = "clear"
    local routine = mare.go(function()
        http.handle(server, handler, options)
        server:close()
    end)
    client:write(frames.PREFACE, first or frames.frame(frames.SETTINGS, 0, 0))
    return client, routine
end

return frames
