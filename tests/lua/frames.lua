-- SPDX-License-Identifier: MIT
-- A WebSocket server, and a peer whose frames are made here by hand, so that it can do what ours
-- does not.
local mare, t = require "mare", require "t"
local net, http, websocket = require "mare.net", require "mare.http", require "mare.websocket"

local frames = {CONTINUES = 0x0, TEXT = 0x1, BINARY = 0x2, CLOSE = 0x8, PING = 0x9, PONG = 0xa,
    FINAL = 0x80}

-- What a handler does that only sends back what it gets.
function frames.echo(w)
    for data, kind in w:messages() do
        if kind == "text" then w:send(data) else w:sendbinary(data) end
    end
end

--- A server whose connections are given to `handler(w, request)`; ended with the variable's scope.
--- What accept returned instead of a WebSocket is sent to `refused`.
function frames.server(handler, options, refused, listener)
    listener = listener or assert(net.listen("127.0.0.1", 0))
    local _, port = listener:address()
    mare.go(http.serve, listener, function(request)
        if request.path == "/plain" then return "plain" end
        local w, message, code, status = websocket.accept(request, options)
        if not w then
            if refused then refused:send(message, code, status) end
            return
        end
        local _ <close> = w
        handler(w, request)
    end, {message_time = t.patience})
    return setmetatable({port = port, url = "ws://127.0.0.1:" .. port .. "/"},
        {__close = function() listener:close() end})
end

--- A frame: its first byte, its data, and a mask of four bytes or none.
function frames.make(first, data, mask)
    local size, masked = #data, mask and 0x80 or 0
    local head
    if size < 126 then
        head = string.pack("BB", first, masked | size)
    elseif size < 65536 then
        head = string.pack(">BBI2", first, masked | 126, size)
    else
        head = string.pack(">BBI8", first, masked | 127, size)
    end
    if not mask then return head .. data end
    local at = 0
    return head .. mask .. data:gsub(".", function(byte)
        at = at + 1
        return string.char(byte:byte() ~ mask:byte((at - 1) % 4 + 1))
    end)
end

--- Reads a frame that is not masked: its first byte and its data, or nil. One that is masked is
--- unmasked if it is short.
function frames.read(stream)
    local head = stream:read(2)
    if not head or #head < 2 then return nil end
    local first, size = head:byte(1, 2)
    if size >= 128 then
        local mask, data = stream:read(4), size > 128 and stream:read(size - 128) or ""
        return first, (frames.make(0, data, mask):sub(7))
    end
    if size == 126 then size = string.unpack(">I2", stream:read(2)) end
    if size == 127 then size = string.unpack(">I8", stream:read(8)) end
    return first, size > 0 and stream:read(size) or ""
end

--- The request of RFC 6455 section 1.2, with other headers if wanted.
function frames.request(changes)
    local headers = {Host = "server.example.com", Upgrade = "websocket", Connection = "Upgrade",
        ["Sec-WebSocket-Key"] = "dGhlIHNhbXBsZSBub25jZQ==", ["Sec-WebSocket-Version"] = "13"}
    for name, value in pairs(changes or {}) do headers[name] = value or nil end
    local text = {(changes and changes[1] or "GET /chat HTTP/1.1") .. "\r\n"}
    for name, value in pairs(headers) do
        if type(name) == "string" then text[#text + 1] = name .. ": " .. value .. "\r\n" end
    end
    return table.concat(text) .. "\r\n"
end

function frames.connect(port)
    return assert(net.connect("127.0.0.1", port, t.patience)):timeout(t.patience)
end

-- The lines of a head.
function frames.head(stream)
    local lines = {}
    repeat
        lines[#lines + 1] = stream:read "l"
    until lines[#lines] == "" or not lines[#lines]
    return table.concat(lines, "\n")
end

--- A connection to a server that has become a WebSocket.
function frames.client(server, changes)
    local stream = frames.connect(server.port)
    stream:write(frames.request(changes))
    local head = frames.head(stream)
    t.ok(head:find "^HTTP/1.1 101 ", head)
    return stream, head
end

--- The other way about: a WebSocket of ours to a server made by hand; its stream is the second.
function frames.served(options)
    local listener <close> = assert(net.listen("127.0.0.1", 0))
    local _, port = listener:address()
    local routine = mare.go(websocket.connect, "ws://127.0.0.1:" .. port .. "/", options)
    local stream = assert(listener:accept(t.patience)):timeout(t.patience)
    local key = frames.head(stream):match "[Ss]ec%-[Ww]eb[Ss]ocket%-[Kk]ey: (%S+)"
    local accept = require "mare._websocket".response(nil, key):match "Accept: (%S+)"
    stream:write("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n",
        "Connection: Upgrade\r\nSec-WebSocket-Accept: ", accept, "\r\n\r\n")
    local _, w = routine:join(t.patience)
    return t.ok(w), stream
end

return frames
