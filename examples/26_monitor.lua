-- SPDX-License-Identifier: MIT
-- One lock for functions in several processes. One of them dies with the lock in its hands, and the
-- others go on; its number, the fence, is how a store knows that it comes too late.
local mare, rpc, monitor = require "mare", require "mare.rpc", require "mare.monitor"

local store = mare.spawn(function() -- keeps a value, and takes no writes from the past
    local newest, value = 0, 0
    function read() return value end
    function write(new, fence)
        if fence < newest then error("too late: " .. fence .. " after " .. newest) end
        newest, value = fence, new
    end
    require "mare.rpc".serve()
end)

local mnt = monitor.create()

local function add(times)
    local m, r = require "mare.monitor", require "mare.rpc"
    local read, write = r.sync(store, "read"), r.sync(store, "write")
    local increment = m.doWhenFree(mnt, function()
        write(read() + 1, m.fence(mnt)) -- nobody else reads or writes in between
    end)
    for _ = 1, times do increment() end
end

local workers = {}
for i = 1, 4 do workers[i] = mare.spawn(add, 25) end
for i = 1, 4 do workers[i]:join() end
print("four processes, 25 each", rpc.sync(store, "read")())

local told = mare.channel()
local forgetful = mare.spawn(function()
    told:send(require "mare.monitor".take(mnt))
    mare.channel():receive() -- never releases
end)
local old = told:receive()
print("held by another", select(3, monitor.take(mnt, 0.01)))
forgetful:kill()
local new = monitor.take(mnt, 5)
print("its number is larger", new > old)
rpc.sync(store, "write")(0, new)
print("the old one", (select(3, rpc.sync(store, "write")(99, old))))
monitor.release(mnt)
store:kill()
