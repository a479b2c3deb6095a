-- SPDX-License-Identifier: MIT
-- Processes that are killed at their n-th line, for every n: whatever they were doing, they may
-- have got no further.
--
--     countdown.each(function(n)
--         local p = mare.spawn(countdown.body, n, function() ... end)
--         ...
--         return p                        -- the last round is the one in which it was not killed
--     end)
local mare = require "mare"
local countdown = {}

--- Runs f, and kills its process at the n-th line that any of its routines has come to. Travels.
function countdown.body(n, f, ...)
    local lib = require "mare"
    local left = n
    local function hook()
        left = left - 1
        if left == 0 then lib.self():kill "countdown" end
    end
    local function counted(make)
        return function(g, ...)
            return make(function(...)
                debug.sethook(hook, "l")
                return g(...)
            end, ...)
        end
    end
    lib.go, lib._heir = counted(lib.go), counted(lib._heir)
    debug.sethook(hook, "l")
    return f(...)
end

--- Calls round(n) with n = 1, 1 + step ... until the process that it returns was not killed by the
--- countdown. Returns how many were.
function countdown.each(step, round)
    local killed = 0
    for n = 1, math.huge, step do
        local process = round(n)
        local ok, why, code = process:join(0)
        if code == "timeout" or ok then
            process:kill()
            return killed
        end
        if code ~= "killed" then error(("line %d: %s"):format(n, why), 2) end
        killed = killed + 1
    end
end

--- A step between the numbers: all of them, or fewer where each round takes long.
function countdown.step(usual)
    local slow = os.getenv "MARE_GC_STRESS" or tonumber(os.getenv "MARE_TEST_SLOW" or "1") > 1
    return slow and 3 * usual or usual
end

--- Waits until the process has ended, or the others have had their turns.
function countdown.rest(process)
    for _ = 1, 20 do
        if not process:alive() then return end
        mare.yield()
    end
end

return countdown
