-- SPDX-License-Identifier: MIT
-- An echo server: prints its port, and serves until it is ended. Arguments: on how many workers,
-- each with a process that accepts (0: one a core); beside how many endless loops.
local mare, net = require "mare", require "mare.net"

local workers, loops = tonumber(arg[1] or 1), tonumber(arg[2] or 0)
if workers == 0 then workers = mare.workers() else mare.workers(workers) end

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
for _ = 1, loops do
    mare.spawn(function() while true do end end)
end
print(port)
net.serve(listener, echo)
