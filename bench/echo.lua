-- SPDX-License-Identifier: MIT
-- An echo server: prints its port, and serves until it is ended. Argument: on how many workers,
-- each with a process that accepts.
local mare, net = require "mare", require "mare.net"

local workers = tonumber(arg[1] or 1)
mare.workers(workers)

local function echo(stream)
    while true do
        local bytes = stream:read()
        if not bytes then return end
        stream:write(bytes)
    end
end

local listener = assert(net.listen("127.0.0.1", 0, {shared = true}))
local _, port = listener:address()
for _ = 2, workers do
    mare.spawn(function()
        net.serve(assert(net.listen("127.0.0.1", port, {shared = true})), echo)
    end)
end
print(port)
net.serve(listener, echo)
