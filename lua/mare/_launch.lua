-- SPDX-License-Identifier: MIT
-- Starts a process in the background that others reach by a channel: that of a member of a group,
-- of a replica, of a multicast.
local mare = require "mare"

--- Runs the function that the module is, with settings, the channel, a channel for its first word
--- (true; or nil, message, code) and the rest. Returns the channel; or closes it, and returns nil,
--- message, code.
return function(what, module, settings, channel, ...)
    local started = mare.channel(1)
    local process, problem, why = mare.spawn({_background = true},
        function(name, ...) return require(name)(...) end, module, settings, channel, started, ...)
    if not process then
        channel:close()
        return nil, problem, why
    end
    local which, ok, text, word = mare.select {started, process}
    if which == 2 and #started > 0 then which, ok, text, word = 1, started:tryreceive() end
    if which == 1 and ok then return channel end
    channel:close()
    if which == 1 then return nil, text, word end
    return nil, ("the %s has ended: %s"):format(what, text), "died"
end
