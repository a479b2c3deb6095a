-- SPDX-License-Identifier: MIT
-- What the tests of odd rules share: processes that serve, synchronizers, errors without words.
local mare, t, rpc = require "mare", require "t", require "mare.rpc"

local odd = {}

function odd.sync(p, fname) return rpc.sync(p, fname, t.patience) end

--- A process that has f done, and then serves calls.
function odd.serving(f, ...)
    return mare.spawn(function(...)
        f(...)
        require "mare.rpc".serve()
    end, ...)
end

--- An error that cannot be shown.
function odd.wordless()
    return setmetatable({}, {__tostring = function() error "no words" end})
end

--- A synchronizer for p, whose rules are made by f(synchronizer, p, ...).
function odd.ruled(p, f, ...)
    local ready = mare.channel(1)
    local keeper = mare.spawn(function(...)
        local synchronizer = require "mare.synchronizer"
        f(synchronizer, p, ...)
        ready:send(true)
        require "mare.rpc".serve()
    end, ...)
    t.ok(ready:receive(t.patience))
    return keeper
end

--- What one serves that rules are made for.
function odd.plain()
    function f(x) return x or "f" end -- luacheck: ignore
    function free() return "free" end -- luacheck: ignore
end

return odd
