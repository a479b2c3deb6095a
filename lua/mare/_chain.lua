-- SPDX-License-Identifier: MIT
-- Chains of synchronous calls: which routine waits for which. A routine that calls another process
-- and waits sends its chain along; the routine that runs the request there belongs to the chain,
-- too. So a process that holds a lock can tell a call that comes back to it, over other processes,
-- from a stranger's call. A chain is two integers: they cost less in a message than a process, and
-- are the same everywhere.
local time = require "mare.time"

local chain = {}

local current = setmetatable({}, {__mode = "k"}) -- coroutine -> {origin, number}
local origin, made = time.nonce(), 0             -- origin: a number of this process alone

--- The chain of this coroutine. A new one, unless it runs a request that came with one.
function chain.here()
    local running = coroutine.running()
    local found = current[running]
    if not found then
        made = made + 1
        found = {origin, made}
        current[running] = found
    end
    return found
end

--- From now on this coroutine belongs to the chain.
function chain.enter(found)
    local running = coroutine.running()
    if current[running] ~= found then current[running] = found end
end

function chain.same(a, b)
    return a and b and a[1] == b[1] and a[2] == b[2] or false
end

return chain
