-- SPDX-License-Identifier: MIT
-- Big blocks of bytes. A string is copied when it is sent. A buffer changes hands instead: the
-- receiver gets the very bytes, and the sender's buffer is empty from then on.
local mare = require "mare"

local drawn, painted = mare.channel(), mare.channel()
mare.spawn({name = "painter"}, function()
    for buffer in drawn:messages() do
        buffer:set(1, "painted by " .. mare.self():name()) -- in place: nothing is copied
        painted:send(buffer)
    end
    painted:close()
end)

local buffer = mare.buffer(4 * 1024 * 1024) -- zeros
buffer:set(-3, "end")
print(#buffer, buffer:get(-3), buffer:moved())

drawn:send(buffer)
print(#buffer, buffer:moved())
print(pcall(function() return buffer:get() end))

buffer = painted:receive() -- the same four megabytes, back again
print(#buffer, buffer:get(-3), buffer:get(1, 18))
drawn:close()
