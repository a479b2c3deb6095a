-- SPDX-License-Identifier: MIT
-- One integer to and fro between two processes over two rendezvous channels, one worker.
--
--   ns   time of one message, half a round trip
--
-- usage: mare pingpong.lua [messages]
local mare = require "mare"
local rounds = (tonumber(arg[1]) or 1000000) // 2
mare.workers(1)

local there, back = mare.channel(), mare.channel()

-- Methods in locals, as a program does that counts nanoseconds, and as the floor has its function.
mare.spawn(function(there, back)
  local send, receive = back.send, there.receive
  while true do
    local value = receive(there)
    if not value then return end
    send(back, value)
  end
end, there, back)

local ping = mare.spawn(function(there, back)
  local send, receive = there.send, back.receive
  local function play(n)
    local start = mare.now()
    for i = 1, n do
      send(there, i)
      if receive(back) ~= i then error "a message was lost" end
    end
    return mare.now() - start
  end
  play(rounds // 10)
  local taken = play(rounds)
  there:close()
  return taken
end, there, back)

local ok, taken = ping:join()
assert(ok, taken)
print(("ns %.3f"):format(taken * 1e9 / (2 * rounds)))
