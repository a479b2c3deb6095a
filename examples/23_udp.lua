-- SPDX-License-Identifier: MIT
-- Services that find each other: whoever looks for one asks a multicast group, and those that are
-- meant answer to him alone. All stays on this machine: the interface is loopback.
local mare, net = require "mare", require "mare.net"

local GROUP, LOOPBACK = "239.255.23.23", "127.0.0.1"

-- A service, in a process of its own: hears the group until it is told to stop.
local function serve(name, ready, port)
    local socket <close> = assert(net.udp(GROUP, port, {reuse = true}))
    assert(socket:join(GROUP, LOOPBACK))
    local answers <close> = assert(net.udp(LOOPBACK))
    ready:send(select(2, socket:address()))
    for question, host, from in function() return socket:receive() end do
        if question == "stop" then return name .. " stops" end
        if name:find(question, 1, true) then answers:send("I am " .. name, host, from) end
    end
end

local ready, services, port = mare.channel(), {}, 0
for i, name in ipairs {"a printer", "a clock", "another printer"} do
    services[i] = mare.spawn(serve, name, ready, port)
    port = ready:receive() -- the first takes one that is free, the others the same
end

local socket <close> = assert(net.udp(LOOPBACK, 0, {interface = LOOPBACK}))

-- Nobody knows how many will answer: it ends when the time is over.
local function find(what, many)
    print("Who is a " .. what .. "?")
    socket:send(what, GROUP, port)
    local found, deadline = {}, mare.deadline(many and 10 or 0.2)
    for answer in function() return socket:receive(deadline) end do
        found[#found + 1] = "  " .. answer
        if #found == many then break end -- but who knows need not wait
    end
    table.sort(found)
    print(#found > 0 and table.concat(found, "\n") or "  nobody answers")
end

find("printer", 2)
find("clock", 1)
find("lighthouse")

socket:send("stop", GROUP, port)
for _, service in ipairs(services) do print(select(2, service:join(10))) end
