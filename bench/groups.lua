-- SPDX-License-Identifier: MIT
-- A group of three programs on loopback, each a node with its own folder.
--
--   groups.lua lock N [ALGORITHM]    a lock that nobody else wants, taken and given back, one at a
--                                    time, by the member with the lowest name: a coordinator is
--                                    another one
--   groups.lua own N ALGORITHM       the same by the one with the highest name, which coordinates,
--                                    or has the token
--   groups.lua alone N               the same in a group of one: nobody has to be asked
--   groups.lua handover N            a lock that two members want all the time
--   groups.lua kill N LEASE          the holder is killed, N times: until the next one is inside
--   groups.lua many N                N locks, each used once: the memory that stays
--   groups.lua multicast N [ORDER]   N messages of 64 bytes from each, delivered at each; pipelined
--   groups.lua replica N             N operations, by 256 routines at a time
--   groups.lua idle N                N members that do nothing: what each is sent, and computes
--   groups.lua call N                the yardstick of `lock`: plain calls between two of the nodes
local mare, node, group = require "mare", require "mare.node", require "mare.group"
local child, file, rpc = require "mare.child", require "mare.file", require "mare.rpc"

local ROLE, N, WHAT = arg[1], tonumber(arg[2]), arg[3]
local TEXT = ("x"):rep(64)
local LEASE = ROLE == "kill" and tonumber(WHAT) or nil
local HERE = (ROLE == "lock" or arg[3] == "lock") and "a" or "z" -- who measures

local function names_of(kind, count)
    if kind == "alone" then return {"z"} end
    if kind == "lock" then return {"b", "c", "a"} end -- the last is who measures
    if kind ~= "idle" then return {"a", "b", "z"} end
    local names = {}
    for i = 1, count - 1 do names[i] = ("m%03d"):format(i) end
    names[count] = "z"
    return names
end

-- That of the lock `x`; beside a token, `y` is there to work with.
local function algorithm_of(kind, what)
    if kind ~= "lock" and kind ~= "own" then return nil end
    return what == "token" and {x = "token", y = "central"} or what
end

local function member(folder, names, lease, algorithm)
    local options = {members = names, folder = folder, lease = lease, algorithm = algorithm}
    local ok, message, code = group.found("bench", options)
    assert(ok or code == "exists", message)
    return assert(group.join("bench", options))
end

local function add(state, value) return state + value end

local function wait_for(condition)
    while not condition() do mare.sleep(0.01) end
end

-- Bytes that this program has in memory.
local function memory()
    for _ = 1, 3 do collectgarbage() end
    return tonumber(file.read "/proc/self/status":match "VmRSS:%s*(%d+)") * 1024
end

-- ---- The other members --------------------------------------------------------------------------

local roles = {}

function roles.replica(bench)
    assert(bench:replica("sum", 0, add))
end

function roles.call()
    mare.spawn({name = "server"}, function()
        function nothing() end -- luacheck: ignore
        require "mare.rpc".serve()
    end)
end

function roles.multicast(bench, count, order)
    local cast = assert(bench:multicast("bench", {order = order}))
    mare.go(function()
        for _ = 1, count + count // 10 do cast:send(TEXT) end
    end):detach()
    for _ = 1, 3 * (count + count // 10) do assert(cast:receive(60)) end
end

function roles.handover(bench, _, _, name)
    if name ~= "b" then return end
    while true do assert(bench:lock("x", 60)):release() end
end

function roles.kill(bench, _, _, name)
    if name ~= "b" then return end
    assert(bench:lock("x", 60))
    print "inside"
end

-- What stays is told when it is asked for.
function roles.many()
    local orders = mare.channel(1, "orders")
    local before = memory()
    mare.go(function()
        for reply in orders:messages() do reply:send(memory() - before) end
    end):detach()
end

if ROLE == "member" then
    local kind, name, folder, what = arg[3], arg[4], arg[5], arg[6] ~= "-" and arg[6] or nil
    io.stdout:setvbuf "line"
    print(assert(node.start {name = name, listen = "127.0.0.1:0", join = {arg[7], arg[8]}}))
    local bench = member(folder, names_of(kind, N), kind == "kill" and tonumber(what) or nil,
        algorithm_of(kind, what))
    if roles[kind] then roles[kind](bench, N, what, name) end
    mare.sleep(3600)
end

-- ---- The one that measures ----------------------------------------------------------------------

local folder = assert(file.tempfolder())
local names = names_of(ROLE, N)
local address = assert(node.start {name = HERE, listen = "127.0.0.1:0"})
local members, last = {}, address

-- The last one joins both others.
local function start(name)
    local made = assert(child.spawn {arg[-1], arg[0], "member", arg[2], ROLE, name,
        folder .. "/" .. name, WHAT or "-", address, last, stdin = "null",
        stdout = "pipe", stderr = "inherit", grace = 0})
    members[name] = made
    last = assert(made.stdout:read("l", 60))
end

for i = 1, #names - 1 do start(names[i]) end
local bench = member(folder .. "/" .. HERE, names, LEASE, algorithm_of(ROLE, WHAT))

local measure, figures = {}, {}

function measure.lock(n)
    for _ = 1, n do assert(bench:lock("x", 60)):release() end
end
measure.alone = measure.lock

function measure.call(n)
    local process
    wait_for(function()
        process = mare.find "server@b"
        return process
    end)
    local nothing = rpc.sync(process, "nothing")
    for _ = 1, n do nothing() end
end

-- Each has it by turns: between two of ours are two hand-overs.
function measure.handover(n)
    for _ = 1, n // 2 do assert(bench:lock("x", 60)):release() end
end

local cast, sum
function measure.multicast(n)
    cast = cast or assert(bench:multicast("bench", {order = WHAT}))
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

-- ---- Those that are measured in another way -----------------------------------------------------

local others = {}

-- The median of the times, in milliseconds. The dead one comes back with its disk.
function others.kill()
    local times = {}
    for i = 1, N do
        assert(members.b.stdout:read("l", 60) == "inside")
        local waiter = mare.go(function() return assert(bench:lock("x", 60)), mare.now() end)
        mare.sleep(0.05 + LEASE * math.random()) -- and asks; at any time in the holder's beat
        local begin = mare.now()
        assert(members.b:kill "KILL")
        local _, lock, inside = waiter:join()
        times[i] = (inside - begin) * 1000
        lock:release()
        members.b:close()
        if i < N then start "b" end
    end
    table.sort(times)
    figures.ms, figures.worst_ms = times[#times // 2 + 1], times[#times]
end

function others.many()
    local function grown()
        local most = 0
        for _, name in ipairs {"a", "b"} do
            local reply = mare.channel(1)
            wait_for(function() return mare.find("orders@" .. name) end)
            mare.find("orders@" .. name):send(reply)
            most = math.max(most, (reply:receive(60)))
        end
        return most
    end
    local function use(first, last_one)
        for i = first, last_one do assert(bench:lock("lock " .. i, 60)):release() end
    end
    use(1, N // 10)
    local before, before_here = grown(), memory()
    use(N // 10 + 1, N + N // 10)
    figures.bytes = math.max(grown() - before, memory() - before_here) / N
end

local function processor_ticks(pid)
    local stat = file.read(("/proc/%d/stat"):format(pid)):match "%) (.*)"
    local words = {}
    for word in stat:gmatch "%S+" do words[#words + 1] = word end
    return tonumber(words[12]) + tonumber(words[13])
end

-- Messages that this member was sent by the others, ever.
local function received()
    for _, one in ipairs(mare.channels()) do
        if one.name == "group.bench" then return one.sent end
    end
end

-- Waits until so many are up; or a minute. Returns how many are.
local function wait_for_members(count)
    local deadline, up = mare.deadline(60), 0
    wait_for(function()
        up = 0
        for _, one in ipairs(bench:members() or {}) do up = up + (one.state == "up" and 1 or 0) end
        return up == count or deadline:left() == 0
    end)
    return up
end

-- Takes the other lock, which this member coordinates, and gives it back, for so long: a program
-- at work.
local function work(seconds)
    local deadline = mare.deadline(seconds)
    while deadline:left() > 0 do assert(bench:lock("y", 60)):release() end
end

-- A token is here a third of the time, and lets in once each time it comes: so it is asked for at
-- any moment by a program at work, and of the times the tenth part counts that is least.
function others.own()
    local times, by_token = {}, WHAT == "token"
    local count = by_token and math.min(N, 300) or N
    assert(wait_for_members(3) == 3, "not all members are up")
    for i = 1, count do
        if by_token then work(0.05 * math.random()) end
        local begin = mare.now()
        assert(bench:lock("x", 60)):release()
        times[i] = mare.now() - begin
    end
    table.sort(times)
    figures.us = times[count // (by_token and 10 or 2) + 1] * 1e6
end

local SECONDS = 20
function others.idle()
    figures.up = wait_for_members(N) -- if not all are, what is measured is what it costs to fail
    mare.sleep(10)
    local before, ticks = received(), 0
    for _, one in pairs(members) do ticks = ticks - processor_ticks(one:pid()) end
    mare.sleep(SECONDS)
    for _, one in pairs(members) do ticks = ticks + processor_ticks(one:pid()) end
    figures.messages = (received() - before) / SECONDS
    figures.processor = ticks / 100 / SECONDS / (N - 1) * 100 -- per cent, of each
end

if others[ROLE] then
    others[ROLE]()
else
    measure[ROLE](math.max(256, N // 10))
    local begin = mare.now()
    measure[ROLE](N)
    local seconds = mare.now() - begin
    local count = ROLE == "multicast" and 3 * N or N
    figures.us, figures.per_second = seconds / count * 1e6, count / seconds
end
for name, value in pairs(figures) do print(("%s %.3f"):format(name, value)) end
for _, one in pairs(members) do one:close() end
file.remove(folder, {tree = true})
os.exit(0)
