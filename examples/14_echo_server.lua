-- SPDX-License-Identifier: MIT
-- An echo server, and clients that try it. With a port, `mare examples/14_echo_server.lua 7007`, it
-- serves for ever: talk to it with `nc 127.0.0.1 7007`.
local mare, net = require "mare", require "mare.net"

-- One connection, top to bottom. Each runs in a routine of its own: a read that waits holds back
-- nobody else. A client has a minute for its next line, and a thousand bytes.
local function echo(stream)
    stream:timeout(60):limit(1000)
    while true do
        local line, message, code = stream:read "l"
        if not line then return code ~= "closed" and stream:write("goodbye: ", message, "\n") end
        stream:write(line, "\n")
    end
end

local listener = assert(net.listen("127.0.0.1", tonumber(arg[1]) or 0))
if arg[1] then return net.serve(listener, echo) end
local server = mare.go(net.serve, listener, echo)
local host, port = listener:address()

-- Clients, each in a process of its own.
local clients = {}
for i = 1, 3 do
    clients[i] = mare.spawn(function()
        local stream <close> = assert(net.connect(host, port, 5))
        stream:write("I am ", i, "\n")
        return stream:read("l", 5)
    end)
end
for i = 1, 3 do print(select(2, clients[i]:join())) end

-- One that says too much at once is told so.
local stream = assert(net.connect(host, port))
stream:write(("x"):rep(2000), "\n")
print(stream:read("l", 5))
stream:close()

listener:close() -- ends serve
print(server:join())
