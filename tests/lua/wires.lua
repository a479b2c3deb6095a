-- SPDX-License-Identifier: MIT
-- Hosts in network namespaces of their own, with wires between them that can be cut, lose and be
-- late, each direction for itself (tests/support/wires.py).
--
--     wires.start(count)          left out with a reason where namespaces can not be made
--     wires.hosts[i].address      of host i
--     wires.hosts[i].inside       the words before a command that is to run there
--     wires.set(from, to, what)   `loss` of 1, `delay` and `jitter` in seconds; nil: a good wire
local child, t = require "mare.child", require "t"

local wires = {}

local here = debug.getinfo(1, "S").source:match "^@(.*)/[^/]*$"

function wires.start(count)
    local switch = child.spawn {"python3", here .. "/../support/wires.py", tostring(count),
        stdin = "pipe", stdout = "pipe", stderr = "inherit", grace = 0}
    if not switch then t.skip "python3 is not there" end
    local made = {hosts = {}}
    local function line() return switch.stdout:read("l", t.patience) end
    for i = 1, count do
        local said = line() or "nothing"
        local address, path = said:match "^(%d[%d.]*) (/%S*)$"
        if not address then
            switch:close()
            t.skip("no network namespaces here: " .. said)
        end
        made.hosts[i] = {address = address, inside = {"nsenter", "--net=" .. path}}
    end
    function made.set(from, to, what)
        what = what or {}
        assert(switch.stdin:write(("set %d %d %f %f %f\n"):format(from, to, what.loss or 0,
            what.delay or 0, what.jitter or 0)))
        t.eq(line(), "ok")
    end
    return setmetatable(made, {__close = function() switch:close() end})
end

return wires
