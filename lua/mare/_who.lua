-- SPDX-License-Identifier: MIT
-- What a process is called where a reference will not do: as text that can be sorted, and as part
-- of the names of its channels. The only place that knows how.
local raw = require "mare._node"

local who = {}

--- A text of its own for each process, and an order between them that is the same for everybody.
function who.key(process)
    local node, id = raw.home(process)
    return ("%s/%016d"):format(node or raw._name(), id)
end

--- The name of the channel at which it takes requests: see _rpc_server.lua. Of a process of another
--- node it is to be looked for there.
function who.inbox(process)
    local node, id = raw.home(process)
    return node and ("rpc:%d@%s"):format(id, node) or ("rpc:%d"):format(id)
end

--- What is said of a process that has ended, by what its join returned.
function who.ended(process, ok, err, code)
    local how = ok and "normal" or code
    return nil, ("%s has ended (%s%s)"):format(process, how,
        (how == "died" or how == "killed") and ": " .. tostring(err) or ""),
        code == "nonode" and code or "noproc"
end

return who
