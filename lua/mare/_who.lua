-- SPDX-License-Identifier: MIT
-- Names of processes for where a reference will not do: texts that can be sorted, and parts of the
-- names of their channels. No other file knows how they are made.
local mare, raw, time = require "mare", require "mare._node", require "mare.time"

local who = {}

--- Makes a new text for this process, to be told to others. It is unique, also among processes with
--- the same number in an earlier life of this node. Everybody sorts these texts alike.
function who.key()
    return ("%012x%08x"):format(mare.self():id(), time.nonce() & 0xffffffff)
end

--- Whether a value is an address of a process, as a process tells others its own.
function who.is_address(it)
    return type(it) == "table" and type(it.key) == "string"
        and getmetatable(it.channel) == "channel" and getmetatable(it.process) == "process"
end

--- The name of the channel for requests to a process (_rpc_server.lua): `rpc:7`, or `rpc:7@ebb` for
--- a process of another node.
function who.inbox(process)
    local node, id = raw.home(process)
    return node and ("rpc:%d@%s"):format(id, node) or ("rpc:%d"):format(id)
end

--- Describes the end of a process, given what its join returned: nil, message, code.
function who.ended(process, ok, err, code)
    local how = ok and "normal" or code
    return nil, ("%s has ended (%s%s)"):format(process, how,
        (how == "died" or how == "killed") and ": " .. tostring(err) or ""),
        code == "nonode" and code or "noproc"
end

return who
