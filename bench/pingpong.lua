-- SPDX-License-Identifier: MIT
-- One integer to and fro between two processes over two rendezvous channels, one worker. Each adds
-- one to it, as the states of the floor do, so that in the end a lost or repeated message shows.
--
--   ns   time of one message, half a round trip
--
-- usage: mare pingpong.lua [messages]
local mare = require "mare"
local rounds = (tonumber(arg[1]) or 1000000) // 2
mare.workers(1)

local there, back = mare.channel(), mare.channel()

-- Methods in locals, as a program does that counts nanoseconds, and as the floor has its function.
mare.spawn(function(from, to)
  local send, receive = to.send, from.receive
  while true do
    local value = receive(from)
    if not value then return end
    send(to, value + 1)
  end
end, there, back)

local ping = mare.spawn(function(to, from)
  local send, receive = to.send, from.receive
  local function play(n)
    local start, value = mare.now(), 0
    for _ = 1, n do
      send(to, value + 1)
      value = receive(from)
    end
    assert(value == 2 * n, "a message was lost")
    return mare.now() - start
  end
  play(rounds // 10)
  local taken = play(rounds)
  to:close()
  return taken
end, there, back)

local ok, taken = ping:join()
assert(ok, taken)
print(("ns %.3f"):format(taken * 1e9 / (2 * rounds)))
