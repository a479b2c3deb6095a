-- SPDX-License-Identifier: MIT
-- A server in several processes, so that its handlers run on all cores. The process that has the
-- listener accepts connections, and gives each to the next process that has room. The processes
-- report when a connection has ended, so that the listener's limit holds for all of them together.
--
--     listener ── accept ──▶ way ──▶ process: handle ──┐
--                       ╲──▶ way ──▶ process: handle ──┤
--                  counts ◀──────────── left ◀─────────┘
local mare, net = require "mare", require "mare.net"

local spread = {}

-- How many connections may wait for one busy process.
local waiting_most = 16

-- Runs in each process, until its way is closed. `handle` and `finish` are the server's own.
function spread.serve_given(way, left, server, handle, finish)
    local Leaver = {__close = function() left:send(true) end}
    while true do
        local stream = way:receive()
        if not stream then break end
        mare.go(function()
            local _ <close> = setmetatable({}, Leaver)
            local _ <close> = stream
            handle(stream)
        end)
    end
    finish(server)
end

-- Gives a connection to a process; starts with the one after the last.
local function give(ways, last, stream)
    for i = 1, #ways do
        local at = (last + i - 1) % #ways + 1
        if ways[at]:trysend(stream) then return at end
    end
    local at = last % #ways + 1
    ways[at]:send(stream)
    return at
end

-- As http.serve, in `count` processes that run `work(way, left, handler, options)`.
function spread.serve(listener, count, work, handler, options)
    local ways, left, last = {}, mare.channel(1024), 0
    for i = 1, count do
        ways[i] = mare.channel(waiting_most)
        mare.spawn({link = true}, work, ways[i], left, handler, options)
    end
    mare.go(function()
        while left:receive() do net._left(listener) end
    end)
    local stream, message, code
    repeat
        stream, message, code = net._accept(listener)
        if stream then
            last = give(ways, last, stream)
        elseif code ~= "closed" and code ~= "cancelled" then
            local _, why, how = mare.sleep(0.05)
            if how then message, code = why, how end
        end
    until code == "closed" or code == "cancelled"
    for _, way in ipairs(ways) do way:close() end
    left:close()
    return nil, message, code
end

return spread
