-- SPDX-License-Identifier: MIT
-- What a process is called where a reference will not do: as text that can be sorted, and as part
-- of the names of its channels. The only place that knows how.
local who = {}

--- A text of its own for each process, and an order between them that is the same for everybody.
function who.key(process)
    return ("%016d"):format(process:id())
end

--- The name of the channel at which it takes requests: see _rpc_server.lua.
function who.inbox(process)
    return "rpc:" .. process:id()
end

return who
