-- SPDX-License-Identifier: MIT
-- Request and reply with a deadline. Every call that can wait takes one, and what happened is
-- told by a short word: "timeout" is not "closed" is not "died".
local mare = require "mare"

local requests = mare.channel()
local server = mare.spawn(function()
    for question, reply in requests:messages() do
        if question == "crash" then error("the server is tired") end
        if question == "think" then mare.sleep(60) end
        reply:send("the answer to " .. question)
    end
end)

-- One deadline for the whole call: what the send uses up, the receive no longer has.
local function ask(question, seconds)
    local deadline, reply = mare.deadline(seconds), mare.channel(1)
    local sent, message, code = requests:sendwithin(deadline, question, reply)
    if not sent then return nil, message, code end
    local which, answer, why, word = mare.select({reply, server}, deadline)
    if which == 1 then return answer end
    if which == 2 then return nil, why, word end -- what server:join() would say
    return nil, answer, why                      -- nothing in time
end

print(ask("life", 5))
print(ask("crash", 5))

-- Nobody receives any more, so not even the question gets across.
print(ask("life", 0.05))

requests:close()
print(ask("life", 5))
