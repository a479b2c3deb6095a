-- SPDX-License-Identifier: MIT
-- Messages to a channel that is served by a process: sent in order, without ever waiting here. What
-- finds no room waits in a line, for which a routine waits as long as the process lives.
local mare = require "mare"

local lines = setmetatable({}, {__mode = "k"}) -- channel -> messages that found no room

local function drain(channel, process, line)
    local other = process ~= mare.self() and process or nil
    while line[1] do
        local which, sent = mare.select({{channel, table.unpack(line[1])}, other})
        if which == 2 or which == 1 and not sent then break end -- nobody will read them
        if which == 1 then table.remove(line, 1) end            -- else it was cancelled: once more
    end
    lines[channel] = nil
end

--- Sends a message, of which the last value is not nil.
return function(channel, process, ...)
    local line = lines[channel]
    if line then
        line[#line + 1] = {...}
    elseif not channel:trysend(...) and not channel:closed() then
        line = {{...}}
        lines[channel] = line
        mare.go(drain, channel, process, line)
    end
end
