-- SPDX-License-Identifier: MIT
-- Sends messages to a channel that a process serves: in order, and without waiting. If there is no
-- room, messages wait in a queue, which a routine sends as long as that process lives.
local mare = require "mare"

local post = {}

local lines = setmetatable({}, {__mode = "k"}) -- channel -> messages that found no room

local function drain(channel, process, line)
    local other = process ~= mare.self() and process or nil
    while line[1] do
        local which, sent = mare.select({{channel, table.unpack(line[1])}, other})
        if which == 2 or which == 1 and not sent then break end -- nobody will read them
        if which == 1 then table.remove(line, 1) end            -- else it was cancelled: again
    end
    lines[channel] = nil
end

--- Sends a message whose last value is not nil.
function post.send(channel, process, ...)
    local line = lines[channel]
    if line then
        line[#line + 1] = {...}
    elseif not channel:trysend(...) and not channel:closed() then
        line = {{...}}
        lines[channel] = line
        mare.go(drain, channel, process, line)
    end
end

--- How many messages to the channel wait in the line.
function post.waiting(channel)
    return lines[channel] and #lines[channel] or 0
end

return post
