-- SPDX-License-Identifier: MIT
-- Connections for the tests of what goes over the network, and what becomes of their sockets.
local mare, net, t = require "mare", require "mare.net", require "t"

local sockets = {}

--- More bytes than the system takes while nobody reads.
sockets.MUCH = 32 << 20

--- Two ends of a connection.
function sockets.pair()
    local listener <close> = assert(net.listen("127.0.0.1", 0))
    local client = assert(net.connect(listener:address()))
    return client, assert(listener:accept(t.patience))
end

--- Writes a text again and again, until the system takes no more, and not a moment later either:
--- when it first says so, the other side has yet to confirm what it has got, which it does 40 ms
--- later, and then there is some room.
function sockets.fill(stream, text)
    text = text or ("x"):rep(1 << 20)
    local refused = 0
    while refused < 20 do
        local ok, _, code = stream:writewithin(0.02, text)
        t.ok(ok or code == "timeout", code)
        refused = ok and 0 or refused + 1
    end
end

--- Writes much on one end before anything is read on the other, and sees that the writer waits.
function sockets.slow_reader(client, server)
    local size, written = 40, 0 -- in megabytes
    local before = collectgarbage "count"
    local writer = mare.go(function()
        for _ = 1, size do
            assert(client:write(("x"):rep(1 << 20)))
            written = written + 1
        end
        client:close()
    end)
    t.fails("timeout", writer:join(0.2)) -- it cannot be done: nobody has read
    t.ok(written < 32, written) -- the system's buffers are smaller than that
    local got = 0
    for piece in function() return server:read() end do
        got = got + #piece
        t.ok(collectgarbage "count" - before < 8192, "memory grows")
    end
    t.eq(got, size << 20)
    t.eq(writer:join(t.patience), true)
end

--- Sends one end of a connection from process to process, each of which waits for what comes.
function sockets.wander(client, server)
    local box, home = mare.channel(), mare.channel()
    for _ = 1, 4 do
        mare.spawn(function()
            for stream in box:messages() do
                stream:write(stream:read "l", "\n")
                home:send(stream)
            end
        end)
    end
    for i = 1, 150 do
        mare.go(function() box:send(server) end)
        client:write(i, "\n")
        t.eq(client:read("l", t.patience), tostring(i))
        server = home:receive(t.patience)
    end
    box:close()
end

--- How many sockets this program has open.
function sockets.count()
    return t.descriptors "socket:"
end

--- Kills a process in each of the waits, and sees that its sockets go with it. A wait is a function
--- that returns the call that waits and what must stay referred to. The process needs its own: it
--- gets them from the file that calls this, whose cases have `waits()` in their metatable.
function sockets.go_when_killed(waits)
    local file, before = debug.getinfo(2, "S").source:sub(2), sockets.count()
    for name in pairs(waits) do
        local waiting = mare.channel()
        local process = mare.spawn(function()
            package.path = file:match "^(.*)/" .. "/?.lua;" .. package.path
            local call, a, b, c = assert(loadfile(file))().waits()[name]()
            local _ <close> = setmetatable({a, b, c}, {__close = function() end})
            mare.go(function() waiting:send(true) end)
            call()
        end)
        t.eq(waiting:receive(t.patience), true, name)
        process:kill()
        t.fails("killed", process:join(t.patience))
    end
    t.reaches(function() return sockets.count() <= before end, "sockets are left")
end

return sockets
