-- SPDX-License-Identifier: MIT
-- Starts a background process that others reach through a channel: the process of a node, of a
-- member of a group, of a replica or of a multicast.
local mare = require "mare"

local SIZE = 256 -- messages from other nodes that wait in an inbox

-- Ends a process that nobody waits for any more. It holds nothing when this returns.
local function stop(process)
    process:kill()
    local code
    repeat code = select(3, process:join()) until code ~= "cancelled"
end

--- Runs the function that the module returns, with the settings, the channel, a channel for its
--- report (true and a value; or nil, message, code) and the other arguments. Returns the channel
--- and that value; or closes the channel and returns nil, message, code. If `settings.held` is a
--- file, it goes to the process; if there is no process, it is closed. If `settings.inbox` is a
--- name, an inbox for messages of other nodes gets it, and goes to the process as `settings.box`.
--- It is made here, and closed here if nothing begins: a name is taken until its channel is closed,
--- and the process may be killed before it can see to that. If the routine that waits for the
--- report is cancelled, the process is ended.
return function(what, module, settings, channel, ...)
    local started = mare.channel(1)
    local process, problem, why
    if settings.inbox then
        settings.box, problem, why = require "mare._node"._box(SIZE, settings.inbox)
    end
    if settings.box or not settings.inbox then
        process, problem, why = mare.spawn({_background = true},
            function(name, ...) return require(name)(...) end, module, settings, channel, started,
            ...)
    end
    local function close()
        channel:close()
        if settings.box then settings.box:close() end
    end
    if not process then
        close()
        if settings.held then settings.held:close() end
        return nil, problem, why
    end
    local which, ok, text, word = mare.select {started, process}
    if which == 2 and #started > 0 then which, ok, text, word = 1, started:tryreceive() end
    if which == 1 and ok then return channel, text end
    if not which then stop(process) end
    close()
    if not which then return nil, ok, text end
    if which == 1 then return nil, text, word end
    return nil, ("the %s has ended: %s"):format(what, text), "died"
end
