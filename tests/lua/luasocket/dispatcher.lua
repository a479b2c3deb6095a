-- SPDX-License-Identifier: MIT
-- A dispatcher of coroutines, as programs on LuaSocket have it: sockets that never wait, and one
-- select.
local say = dofile((arg[0]:gsub("[^/]*$", "say.lua")))
local socket = require "socket"

local reading, writing, threads = {}, {}, {}

local function remove(list, s)
    for i = #list, 1, -1 do
        if list[i] == s then table.remove(list, i) end
    end
end

-- Waits, in a coroutine, until the socket is ready.
local function until_ready(list, s)
    list[#list + 1] = s
    threads[s] = coroutine.running()
    coroutine.yield()
end

local function receive(s, pattern)
    local got, why, part = s:receive(pattern)
    while not got and why == "timeout" do
        until_ready(reading, s)
        got, why, part = s:receive(pattern, part)
    end
    return got, why, part
end

local function send(s, data)
    local sent, why, last = s:send(data)
    while not sent and why == "timeout" do
        until_ready(writing, s)
        sent, why, last = s:send(data, last + 1)
    end
    return sent, why
end

local function run(f, ...) assert(coroutine.resume(coroutine.create(f), ...)) end

local server = assert(socket.bind("127.0.0.1", 0))
server:settimeout(0)
local port = select(2, server:getsockname())
local CLIENTS <const>, SIZE <const> = 20, 300000
local finished, total = 0, 0

run(function()
    for _ = 1, CLIENTS do
        local s = server:accept()
        while not s do
            until_ready(reading, server)
            s = server:accept()
        end
        s:settimeout(0)
        run(function()
            local name = receive(s, "*l")
            local data = receive(s, SIZE)
            send(s, name .. " sent " .. #data .. "\n")
            s:close()
        end)
    end
end)

for i = 1, CLIENTS do
    run(function()
        local s = socket.tcp()
        s:settimeout(0)
        local ok, why = s:connect("127.0.0.1", port)
        while not ok and why ~= "already connected" do
            until_ready(writing, s)
            ok, why = s:connect("127.0.0.1", port)
        end
        send(s, "client " .. i .. "\n")
        send(s, ("x"):rep(SIZE))
        local answer = receive(s, "*l")
        if answer == ("client %d sent %d"):format(i, SIZE) then total = total + 1 end
        say.values("the end", receive(s, "*a"))
        s:close()
        finished = finished + 1
    end)
end

while finished < CLIENTS do
    local readable, writable, why = socket.select(reading, writing, 20)
    if why then error(why) end
    for i, list in ipairs {readable, writable} do
        for _, s in ipairs(list) do
            remove(i == 1 and reading or writing, s)
            assert(coroutine.resume(threads[s]))
        end
    end
end
say.values("all of them", total, #reading, #writing)
