-- SPDX-License-Identifier: MIT
-- A group of three programs on loopback, each a node with its own folder.
--
--   groups.lua lock N        a lock that nobody else wants, taken and given back, one at a time
--   groups.lua alone N       the same in a group of one: nobody has to be asked
--   groups.lua multicast N   N messages of 64 bytes from each, delivered at each; pipelined
--   groups.lua replica N     N operations, by 256 routines at a time
--   groups.lua call N        the yardstick of `lock`: plain calls between two of the nodes
local mare, node, group = require "mare", require "mare.node", require "mare.group"
local child, file, rpc = require "mare.child", require "mare.file", require "mare.rpc"

local ROLE, N = arg[1], tonumber(arg[2])
local NAMES = {"a", "b", "c"}
local TEXT = ("x"):rep(64)

local function member(folder, names)
    local options = {members = names or NAMES, folder = folder}
    assert(group.found("bench", options))
    return assert(group.join("bench", options))
end

local function add(state, value) return state + value end

-- ---- The other members --------------------------------------------------------------------------

if ROLE == "member" then
    local kind, name, folder = arg[3], arg[4], arg[5]
    io.stdout:setvbuf "line"
    print(assert(node.start {name = name, listen = "127.0.0.1:0", join = {arg[6], arg[7]}}))
    local bench = member(folder)
    if kind == "replica" then assert(bench:replica("sum", 0, add)) end
    if kind == "call" then
        mare.spawn({name = "server"}, function()
            function nothing() end -- luacheck: ignore
            require "mare.rpc".serve()
        end)
    end
    if kind == "multicast" then
        local cast = assert(bench:multicast "bench")
        mare.go(function()
            for _ = 1, N + N // 10 do cast:send(TEXT) end
        end):detach()
        for _ = 1, 3 * (N + N // 10) do assert(cast:receive(60)) end
    end
    mare.sleep(3600)
end

-- ---- The one that measures ----------------------------------------------------------------------

local folder = assert(file.tempfolder())
local address = assert(node.start {name = "a", listen = "127.0.0.1:0"})
local members = {}
if ROLE ~= "alone" then
    local join = address -- the last one joins both others
    for i, name in ipairs {"b", "c"} do
        members[i] = assert(child.spawn {arg[-1], arg[0], "member", arg[2], ROLE, name,
            folder .. "/" .. name, address, join, stdin = "null", stdout = "pipe",
            stderr = "inherit", grace = 0})
        join = assert(members[i].stdout:read("l", 20))
    end
end
local bench = member(folder .. "/a", ROLE == "alone" and {"a"} or nil)

local measure = {}

function measure.lock(n)
    for _ = 1, n do assert(bench:lock("x", 60)):release() end
end
measure.alone = measure.lock

function measure.call(n)
    local process
    repeat process = mare.find "server@b" until process or mare.sleep(0.01) == nil
    local nothing = rpc.sync(process, "nothing")
    for _ = 1, n do nothing() end
end

local cast, sum
function measure.multicast(n)
    cast = cast or assert(bench:multicast "bench")
    mare.go(function()
        for _ = 1, n do cast:send(TEXT) end
    end):detach()
    for _ = 1, 3 * n do assert(cast:receive(60)) end
end

function measure.replica(n)
    sum = sum or assert(bench:replica("sum", 0, add))
    local routines = {}
    for i = 1, 256 do
        routines[i] = mare.go(function()
            for _ = 1, n // 256 do assert(sum:apply(1, 60)) end
        end)
    end
    for i = 1, 256 do assert(routines[i]:join()) end
end

measure[ROLE](math.max(256, N // 10))
local begin = mare.now()
measure[ROLE](N)
local seconds = mare.now() - begin
local count = ROLE == "multicast" and 3 * N or N
print(("us %.3f\nper_second %.1f"):format(seconds / count * 1e6, count / seconds))
for _, one in ipairs(members) do one:close() end
file.remove(folder, {tree = true})
os.exit(0)
