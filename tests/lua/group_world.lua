-- SPDX-License-Identifier: MIT
-- A group of real programs to which things happen: they are frozen, killed, started again with and
-- without their disks, cut off, and lose and hear late what the others send, while each takes a
-- lock, appends to a replica, sends and hears, and watches an election. Each writes down what came
-- of it: the stories, for group_history.lua.
--
--     local world <close> = group_world.new(folder, {names =, lease =, wires =, ...})
--     world:start(i)   world:kill(i)   world:go_on(count)   world:finish()
--     group_world.faults.KIND(world, i)    begins a fault; returns what ends it
--
-- With `wires` (wires.lua) each member has a host of its own; without, all are on loopback, and
-- between each two is a way that can be cut.
local mare, net, file = require "mare", require "mare.net", require "mare.file"
local t, peers = require "t", require "peers"

local group_world = {faults = {}}

-- Writes one line for each thing that was asked for, with when it began and ended by the clock that
-- all programs of this machine share. An append is also written down before. Of the list, only how
-- long it is and its end are kept.
local PEER = [[
    local group = require "mare.group"
    local given, life, TAIL = OPTIONS, LIFE, 100
    if not given.lost and not given.newcomer then
        local ok, message, code = group.found("bank", given)
        assert(ok or code == "exists", message)
    end
    local bank = assert(group.join("bank", given))
    local list = assert(bank:replica("list", {n = 0}, function(list, value)
        list.n = list.n + 1
        list[(list.n - 1) % 100 + 1] = value
        return list, list.n
    end, {log = 3000}))
    local function tell(...) print(table.concat({...}, "\t")) end
    local function timed(f, ...)
        local began = mare.now()
        local a, b, c = f(...)
        return began, mare.now(), a, b, c
    end
    mare.go(function()
        local election = bank:election "cashier"
        for leader, epoch in election:changes() do
            tell("leader", leader or "-", epoch)
        end
    end):detach()
    mare.go(function()
        while true do
            local began, ended, lock, _, code = timed(bank.lock, bank, "x", 0.5)
            local fence = lock and lock.number
            tell(lock and "lock" or "nolock", fence or code, began, ended)
            for _ = 1, lock and 3 or 0 do
                mare.sleep(0.002)
                began, ended, fence = timed(lock.fence, lock)
                if fence then tell("lock", fence, began, ended) end
            end
            if lock then lock:release() else mare.sleep(0.002) end
        end
    end):detach()
    mare.go(function() -- what it is told to do with the members, until it is done
        local file = require "mare.file"
        local path = given.folder .. "/order"
        while true do
            mare.sleep(0.05)
            local what, name = (file.read(path) or ""):match "^(%a+) (.*)$"
            local done = what and bank[what](bank, name, 5)
            if done then tell(what, name) end
            if done and what == "remove" then
                file.write(path, "add " .. name, {atomic = true})
            elseif done then
                file.remove(path)
            end
        end
    end):detach()
    mare.go(function()
        local part = 0
        while true do
            local cast = bank:multicast("news", {timeout = 5, log = 3000})
            if cast then tell "hears" end
            part = part + 1 -- who leaves may lose what it has sent last
            local talk = cast and mare.go(function()
                local n = 1
                while cast:send(("%d.%d %d"):format(life, part, n)) do
                    n = n + 1
                    mare.sleep(0.005)
                end
            end)
            for from, value in cast and cast:messages() or function() end do
                tell("heard", from .. "." .. value)
            end
            if cast then cast:leave() end
            if talk then talk:join(5) end
        end
    end):detach()
    MORE
    local n = 0
    while true do
        n = n + 1
        local value = ("%s.%d.%d"):format(NAME, life, n)
        tell("try", value, mare.now())
        local began, ended, ok, at, code = timed(list.apply, list, value, 0.5)
        tell("append", value, began, ended, ok and at or code)
        if n % 5 == 0 then
            local state
            began, ended, ok, state = timed(list.read, list, 0.5)
            local tail = {}
            for i = ok and math.max(1, state.n - TAIL + 1) or 1, ok and state.n or 0 do
                tail[#tail + 1] = state[(i - 1) % TAIL + 1]
            end
            if ok then tell("read", began, ended, state.n, table.concat(tail, ",")) end
        end
        mare.sleep(0.002)
    end
]]

-- ---- The network --------------------------------------------------------------------------------

-- A way to a member on loopback, whose address may change, that can be cut.
local function way()
    local listener = assert(net.listen("127.0.0.1", 0))
    local made, streams = {address = "127.0.0.1:" .. select(2, listener:address())}, {}
    local function copy(from, to)
        for part in function() return from:read() end do
            if not to:write(part) then break end
        end
        from:close()
        to:close()
        streams[from], streams[to] = nil, nil
    end
    mare.go(net.serve, listener, function(stream)
        local host, port = (made.target or ""):match "^(.*):(%d+)$"
        local other = host and not made.cut and net.connect(host, tonumber(port), 1)
        if not other then return stream:close() end
        streams[stream], streams[other] = true, true
        mare.go(copy, other, stream):detach()
        copy(stream, other)
    end):detach()
    function made.set(is_cut)
        made.cut = is_cut
        for stream in pairs(streams) do stream:close() end
    end
    function made.close()
        listener:close()
        made.set(true)
    end
    return made
end

-- What a member is told of where it and the others are.
local function on_loopback(ways, i)
    local joins = {}
    for j = 1, i - 1 do joins[#joins + 1] = ways[j][i].address end
    return {listen = "127.0.0.1:0", join = joins}
end

local function in_namespace(wires, i, count)
    local joins = {}
    for j = 1, count do
        if j ~= i then joins[#joins + 1] = wires.hosts[j].address .. ":7000" end
    end
    return {listen = wires.hosts[i].address .. ":7000", join = joins, insecure = true}
end

-- ---- The members --------------------------------------------------------------------------------

local World = {}
World.__index = World

local function read_lines(self, peer, whose)
    for line in function() return peer.child.stdout:read("l", 3600) end do
        table.insert(whose, line)
        whose.at, self.lines = mare.now(), self.lines + 1
        if self.heed then self.heed(whose.name, line) end
    end
end

function World:start(i)
    local name, count = self.names[i], #self.names
    local options = self.wires and in_namespace(self.wires, i, count) or on_loopback(self.ways, i)
    options.name, options.silence = name, 1
    self.lives[i] = self.lives[i] + 1
    local given = {members = self.names, folder = self.folder .. "/" .. name, lease = self.lease,
        lost = self.wiped[i], engine = self.engine, newcomer = self.fresh[i], timeout = 3600}
    local words = {NAME = ("%q"):format(name), LIFE = tostring(self.lives[i]),
        OPTIONS = peers.source(given), MORE = (self.more or ""):gsub("NAME", ("%q"):format(name))}
    local peer = peers.start(options, (PEER:gsub("%u%u%u%u+", words)),
        self.wires and self.wires.hosts[i].inside)
    for j = i + 1, self.ways and count or 0 do self.ways[i][j].target = peer.address end
    local whose = {name = name, at = mare.now()}
    self.peers[i], self.stories[#self.stories + 1] = peer, whose
    self.readers[#self.readers + 1] = mare.go(read_lines, self, peer, whose)
end

function World:kill(i)
    self.peers[i].signal "KILL"
    t.ok(self.peers[i].child:wait(t.patience))
end

--- The quality of what goes from one to another: see wires.lua. On loopback, only the loss of all.
function World:set(from, to, what)
    if self.wires then
        self.wires.set(from, to, what)
    else
        self.ways[math.min(from, to)][math.max(from, to)].set(what ~= nil)
    end
end

--- Calls f(from, to) for each two of them, in both directions.
function World:each_wire(f)
    for from = 1, #self.names do
        for to = 1, #self.names do
            if from ~= to then f(from, to) end
        end
    end
end

--- `options`: `names`, `lease`; `wires`, `engine`, `more` (what else each program does), `heed`
--- (is called with the name of each that writes, and the line).
function group_world.new(folder, options)
    local self = setmetatable({folder = folder, names = options.names, lease = options.lease,
        wires = options.wires, engine = options.engine, more = options.more, heed = options.heed,
        fresh = {}, lives = {}, peers = {}, stories = {}, readers = {}, wiped = {}, lines = 0},
        World)
    self.ways = not self.wires and {} or nil
    for i = 1, #self.names do
        self.lives[i] = 0
        if self.ways then self.ways[i] = {} end
        for j = i + 1, self.ways and #self.names or 0 do self.ways[i][j] = way() end
    end
    for i = 1, #self.names do self:start(i) end
    return self
end

World.__close = function(self)
    for i = 1, #self.names do
        local _ <close> = self.peers[i]
        for j = i + 1, self.ways and #self.names or 0 do self.ways[i][j].close() end
    end
end

-- What each life has written last, and how long ago.
local function last_words(self)
    local list = {"the group does not go on"}
    for _, whose in ipairs(self.stories) do
        list[#list + 1] = ("%s: %d lines, %.1f s ago: %s"):format(whose.name, #whose,
            mare.now() - whose.at, whose[#whose] or "")
    end
    return table.concat(list, "\n")
end

--- Until so many things have been written down.
function World:go_on(count)
    local goal = self.lines + count
    local deadline = mare.deadline(6 * t.patience) -- lost links are tried again after 10 s
    while self.lines < goal do
        if deadline:left() == 0 then error(last_words(self)) end
        mare.sleep(0.01)
    end
end

--- Kills all. Returns the stories: for each life, its `name` and its lines.
function World:finish()
    for i = 1, #self.names do self:kill(i) end
    for _, reader in ipairs(self.readers) do t.ok(reader:join(t.patience)) end
    return self.stories
end

-- ---- Faults -------------------------------------------------------------------------------------

local faults = group_world.faults

-- Makes wires bad, and returns what makes these good again.
local function spoil(world, choose)
    local spoilt = {}
    world:each_wire(function(from, to)
        local what = choose(from, to)
        if what then
            world:set(from, to, what)
            spoilt[#spoilt + 1] = {from, to}
        end
    end)
    return function()
        for _, wire in ipairs(spoilt) do world:set(wire[1], wire[2]) end
    end
end

function faults.freeze(world, i)
    world.peers[i].signal "STOP"
    return function() world.peers[i].signal "CONT" end
end

function faults.restart(world, i)
    world:kill(i)
    return function() world:start(i) end
end

function faults.cut(world, i)
    return spoil(world, function(from, to) return (from == i or to == i) and {loss = 1} end)
end

--- Two sides, at random: the smaller one has to stop, or both.
function faults.split(world)
    local side = {}
    for i = 1, #world.names do side[i] = math.random(2) end
    return spoil(world, function(from, to) return side[from] ~= side[to] and {loss = 1} end)
end

--- Others hear it, and it hears nobody; or the other way round.
function faults.one_way(world, i)
    local deaf = math.random(2) == 1
    return spoil(world, function(from, to) return (deaf and to or from) == i and {loss = 1} end)
end

--- Some wires work in one direction only.
function faults.half_wires(world)
    return spoil(world, function() return math.random(3) == 1 and {loss = 1} end)
end

function faults.lossy(world)
    local loss = 0.02 + 0.2 * math.random()
    return spoil(world, function() return {loss = loss} end)
end

--- Some wires are late, up to about as much as a lease, and packets overtake each other.
function faults.delay(world)
    return spoil(world, function()
        local delay = math.random() * world.lease / 2
        return math.random(2) == 1 and {delay = delay, jitter = delay}
    end)
end

function faults.restart_all(world)
    for i = 1, #world.names do world:kill(i) end
    return function()
        for i = 1, #world.names do world:start(i) end
    end
end

-- What a member has on its disk; nothing, if it was killed before it came so far.
local function wipe(world, i)
    local ok, message, code = file.remove(("%s/%s"):format(world.folder, world.names[i]),
        {tree = true})
    t.ok(ok or code == "noname", message)
end

--- A member without its disk votes no more, so a minority may lose it.
function faults.lose_disk(world, i)
    local lost = 0
    for _ in pairs(world.wiped) do lost = lost + 1 end
    world:kill(i)
    if world.wiped[i] or lost < (#world.names - 1) // 2 then
        world.wiped[i] = true
        wipe(world, i)
    end
    return function() world:start(i) end
end

--- A machine that is gone for good, and another in its place, under the same name: who is told to
--- put the one out and let the other in does so sooner or later. One at a time.
function faults.replace(world, i)
    local count = #world.names
    local function order_of(n) return ("%s/%s/order"):format(world.folder, world.names[n]) end
    for n = 1, count do
        if file.stat(order_of(n)) then return function() end end
    end
    world:kill(i)
    wipe(world, i)
    local order = "remove " .. world.names[i]
    t.ok(file.write(order_of(i % count + 1), order, {atomic = true}))
    world.fresh[i], world.wiped[i] = true, nil
    world:start(i)
    return function() end
end

--- Those that need one member alone; the others have to do with wires, or with all.
group_world.of_one = {freeze = true, restart = true, lose_disk = true, replace = true}

return group_world
