-- SPDX-License-Identifier: MIT
-- A program on LuaSocket as such programs are written: a loop that accepts, and calls that block.
-- Under Maré each of them holds back only the routine that made it, so a client may wait for what
-- another will bring. The post office keeps letters; who fetches one waits until it is there.
local mare, socket = require "mare", require "socket"

local boxes = {}

local function box(name)
    boxes[name] = boxes[name] or mare.channel(10)
    return boxes[name]
end

local function serve(client)
    client:settimeout(10)
    for line in function() return client:receive "*l" end do
        local verb, name, text = line:match "^(%a+) (%a+) ?(.*)$"
        if verb == "post" then
            box(name):send(text)
            client:send "posted\n"
        elseif verb == "fetch" then
            client:send(box(name):receive() .. "\n")
        else
            client:send "what?\n"
        end
    end
    client:close()
end

local function ask(port, request)
    local s = assert(socket.connect("127.0.0.1", port))
    assert(s:send(request .. "\n"))
    local answer = assert(s:receive())
    s:close()
    return answer
end

local server = assert(socket.bind("127.0.0.1", 0))
local _, port = server:getsockname()
mare.go(function()
    while true do
        local client = server:accept()
        if not client then return end
        mare.go(serve, client)
    end
end)

-- These wait first; the letters come later.
local readers = {ana = mare.go(ask, port, "fetch ana"), rui = mare.go(ask, port, "fetch rui")}
mare.yield()
print("rui: " .. ask(port, "post rui low tide at six"))
print("ana: " .. ask(port, "post ana high tide at noon"))
for _, name in ipairs {"ana", "rui"} do
    print(name .. " reads: " .. select(2, readers[name]:join()))
end
print(ask(port, "hello"))
server:close()
