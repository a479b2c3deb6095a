-- SPDX-License-Identifier: MIT
-- One node that many others are connected with, with heartbeats: what it costs to hold them.
--
--   hub.lua PROGRAM N SECONDS   PROGRAM (floor_peers) dials as N nodes
local mare, node = require "mare", require "mare.node"
local child = require "mare.child"

local PROGRAM, N, SECONDS = arg[1], math.tointeger(tonumber(arg[2])), tonumber(arg[3])

local function resident_kib()
    local file <close> = assert(io.open "/proc/self/statm")
    local _, pages = file:read("n", "n")
    return pages * 4
end

local address = assert(node.start {name = "hub", listen = "127.0.0.1:0"})
local lost = 0
local watch = assert(node.monitor(mare.channel(2 * N)))
mare.go(function()
    for what in watch:messages() do
        if what == "down" or what == "left" then lost = lost + 1 end
    end
end)
local before = resident_kib()
local peers <close> = assert(child.spawn {PROGRAM, "dial", tostring(N), address:match ":(%d+)$",
    tostring(SECONDS + 5), stdin = "null", stdout = "pipe", stderr = "inherit", grace = 0})
local up = assert(peers.stdout:read "l"):match "up (.*)"
local begun, start = os.clock(), mare.now()
mare.sleep(SECONDS)
local passed, held = mare.now() - start, 0
for _, it in ipairs(assert(node.list())) do
    held = held + (it.state == "up" and not it.here and 1 or 0)
end
print(("held %d\nlost %d\nup_s %s\nkib %.2f\ncpu %.1f"):format(held, lost, up,
    (resident_kib() - before) / N, (os.clock() - begun) / passed * 100))
peers:close()
os.exit(0)
