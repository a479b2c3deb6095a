-- SPDX-License-Identifier: MIT
-- A program written for luaproc runs as it is: `require "luaproc"` gives the published interface.
-- In a process the global `luaproc` is there without require, as luaproc has it.
local luaproc = require "luaproc"

luaproc.setnumworkers(2)
luaproc.newchannel("achannel")
luaproc.newchannel("done")

for _ = 1, 3 do
    luaproc.newproc([[
        local n = luaproc.receive("achannel")
        luaproc.send("done", n * 2)
    ]])
end

for i = 1, 3 do luaproc.send("achannel", i) end

local sum = 0
for _ = 1, 3 do sum = sum + luaproc.receive("done") end
print("sum", sum)

print(luaproc.receive("done", true))
print(luaproc.send("nowhere", 1))
print(luaproc.newchannel("done"))
print(luaproc.delchannel("achannel"), luaproc.delchannel("done"))
luaproc.wait()
print("workers", luaproc.getnumworkers())
