-- SPDX-License-Identifier: MIT
-- Connections for the tests of what goes over the network, and how many sockets there are.
local net, t = require "mare.net", require "t"

local sockets = {}

--- More bytes than the system takes while nobody reads.
sockets.MUCH = 32 << 20

--- Two ends of a connection.
function sockets.pair()
    local listener <close> = assert(net.listen("127.0.0.1", 0))
    local client = assert(net.connect(listener:address()))
    return client, assert(listener:accept(t.patience))
end

--- How many sockets this program has open.
function sockets.count()
    local pipe <close> = assert(io.popen "ls -l /proc/$PPID/fd | grep -c socket:")
    return pipe:read "n"
end

return sockets
