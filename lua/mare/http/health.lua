-- SPDX-License-Identifier: MIT
-- Tells load balancers and supervisors whether a service is alive and ready.
local mare, checks = require "mare", require "mare._check"

local health = {}

local Health = {}
Health.__index = Health

local known = checks.set("timeout")

--- Makes the health of a service, which is ready at first. Option: `timeout`, seconds for each
--- check (2).
function health.new(options)
    options = options or {}
    checks.argument("new", options, 1, "table")
    checks.options("new", options, 1, known)
    checks.option("new", options, 1, "timeout", checks.span, "a number of seconds")
    return setmetatable({names = {}, checks = {}, timeout = options.timeout or 2, open = true},
        Health)
end

--- Adds a check of what the service needs: a function that returns true, or false or nil and why.
function Health:check(name, f)
    checks.argument("check", name, 1, "string")
    checks.argument("check", f, 2, "function")
    if not self.checks[name] then table.insert(self.names, name) end
    self.checks[name] = f
    return self
end

--- Sets whether the service is ready: false while it starts, and before it ends.
function Health:ready(ready)
    checks.argument("ready", ready, 1, "boolean")
    self.open = ready
    return self
end

-- The result of a check within its time: "ok", or why not.
local function ask(f, timeout)
    local done = mare.channel(1)
    local routine = mare.go(function()
        local called, good, why = pcall(f)
        if not called then good, why = false, good end
        done:send(good and "ok" or tostring(why == nil and "it failed" or why))
    end)
    routine:detach()
    local said, _, code = done:receive(timeout)
    if said then return said end
    routine:cancel()
    return code == "timeout" and "it took too long" or "it was cancelled"
end

local function answer(good, lines)
    return {status = good and 200 or 503, headers = {["content-type"] = "text/plain",
        ["cache-control"] = "no-store"}, body = table.concat(lines, "\n") .. "\n"}
end

--- A handler that says that the program runs: 200, always.
function Health.alive() return function() return answer(true, {"alive"}) end end

--- A handler that says whether requests may come: 200, or 503 and why, one line for each check. The
--- checks run one after the other.
function Health:handler()
    return function()
        local good, lines = self.open, {self.open and "ready" or "not ready"}
        for _, name in ipairs(self.open and self.names or {}) do
            local said = ask(self.checks[name], self.timeout)
            good = good and said == "ok"
            lines[#lines + 1] = name .. ": " .. said
        end
        if not good then lines[1] = "not ready" end
        return answer(good, lines)
    end
end

return health
