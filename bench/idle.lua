-- SPDX-License-Identifier: MIT
-- A server of connections that say nothing: prints its port, and, for each line that it reads, how
-- many connections it has and the bytes of its memory.
local mare, net = require "mare", require "mare.net"

local held = 0
local listener = assert(net.listen("127.0.0.1", 0))
mare.go(net.serve, listener, function(stream)
    held = held + 1
    stream:read()
    held = held - 1
end)

local function resident()
    for line in io.lines "/proc/self/status" do
        local kib = line:match "^VmRSS:%s*(%d+)"
        if kib then return tonumber(kib) * 1024 end
    end
end

local _, port = listener:address()
print("port", port)
-- Standard input is read in a process with a thread of its own, for reading blocks.
local lines = mare.channel()
mare.spawn({thread = true}, function()
    for line in io.lines() do lines:send(line) end
    lines:close()
end)
for _ in lines:messages() do
    collectgarbage()
    print("held", held)
    print("bytes", resident())
    io.stdout:flush()
end
os.exit(0)
