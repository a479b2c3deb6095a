-- SPDX-License-Identifier: MIT
-- Chains of synchronous calls: who waits for whom. A routine that calls another process and waits
-- lends it its chain, and the routine that runs the request there is part of it. So whoever holds
-- something can tell its own call, come back by way of others, from a stranger's.
local mare = require "mare"

local chain = {}

local current = setmetatable({}, {__mode = "k"}) -- coroutine -> {process, number}
local made = 0

--- The chain of this coroutine; a new one, unless it runs a request that has one.
function chain.here()
    local running = coroutine.running()
    local found = current[running]
    if not found then
        made = made + 1
        found = {mare.self(), made}
        current[running] = found
    end
    return found
end

--- From now on this coroutine belongs to the chain.
function chain.enter(found)
    current[coroutine.running()] = found
end

function chain.same(a, b)
    return a and b and a[1] == b[1] and a[2] == b[2] or false
end

return chain
