-- SPDX-License-Identifier: MIT
-- Calls over a wire that loses packets and is late, between network namespaces (wires.lua): each
-- runs at most once, and each caller is told what came of it.
local file, t = require "mare.file", require "t"
local wires, peers = require "wires", require "peers"

local CALLEE = [[
    mare.spawn({name = "list"}, function()
        local runs = {}
        function run(id) runs[id] = (runs[id] or 0) + 1 return id end
        function times() return runs end
        require "mare.rpc".serve()
    end)
    mare.sleep(1000)
]]

-- Calls that are given up soon, one after the other and all at once; then asks what has run.
local CALLER = [[
    local rpc, file = require "mare.rpc", require "mare.file"
    local list, n, told, left, done = find "list@far", 40, {}, 40, mare.channel(1)
    assert(rpc.sync(list, "run", 60)(0) == 0)
    print "met"
    repeat mare.sleep(0.002) until file.stat "GO"
    local run = rpc.sync(list, "run", 0.02)
    for id = 1, n do
        local result, _, code = run(id)
        told[id] = result or code
    end
    for id = n + 1, 2 * n do
        rpc.async(list, "run", function(result, _, code)
            told[id], left = result or code, left - 1
            if left == 0 then done:send(true) end
        end, 0.05)(id)
    end
    done:receive()
    print "called"
    local times, late = rpc.sync(list, "times", 60)(), 0
    assert(times[0] == 1)
    for id = 1, 2 * n do
        local runs = times[id] or 0
        assert(runs <= 1, "it ran twice")
        assert(told[id] == "timeout" or told[id] == id and runs == 1, told[id])
        late = late + (told[id] == "timeout" and 1 or 0)
    end
    print(late > 0 and "some were late" or "none was late")
    mare.sleep(1000)
]]

local BAD <const> = {loss = 0.2, delay = 0.001, jitter = 0.005}

return {
    a_call_runs_at_most_once_whatever_is_lost = {t.in_folder(function(folder)
        local wire <close> = wires.start(2)
        local function start(i, name, text, join)
            local host = wire.hosts[i]
            return peers.start({name = name, listen = host.address .. ":7000", join = join,
                insecure = true}, text, host.inside)
        end
        local callee <close> = start(1, "far", CALLEE)
        local caller <close> = start(2, "near", CALLER:gsub("GO", folder .. "/go"),
            {callee.address})
        t.eq(caller.line(), "met")
        wire.set(1, 2, BAD)
        wire.set(2, 1, BAD)
        t.ok(file.write(folder .. "/go", "go"))
        t.eq(caller.line(), "called")
        wire.set(1, 2)
        wire.set(2, 1)
        t.eq(caller.line(), "some were late")
    end), timeout = 120},
}
