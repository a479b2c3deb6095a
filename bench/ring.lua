-- SPDX-License-Identifier: MIT
-- A token goes round a ring of processes over rendezvous channels, counting down; on one worker, or
-- on one a core.
--
--   ns   time of one hop
--
-- usage: mare ring.lua [hops [processes [all]]]
local mare = require "mare"
local hops = tonumber(arg[1]) or 1000000
local processes = tonumber(arg[2]) or 503
if arg[3] ~= "all" then mare.workers(1) end

local done = mare.channel()

local function hop(from, to, finished)
  local send, receive = to.send, from.receive
  while true do
    local n = receive(from)
    if not n then return end
    if n == 0 then
      finished:send(true)
    else
      send(to, n - 1)
    end
  end
end

local links = {}
for i = 1, processes do
  links[i] = mare.channel()
end
for i = 1, processes do
  mare.spawn(hop, links[i], links[i % processes + 1], done)
end

local function turn(n)
  local start = mare.now()
  links[1]:send(n)
  assert(done:receive())
  return mare.now() - start
end

turn(hops // 10)
print(("ns %.3f"):format(turn(hops) * 1e9 / hops))
for i = 1, processes do
  links[i]:close()
end
