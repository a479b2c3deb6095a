-- SPDX-License-Identifier: MIT
-- Members of a group as real programs: frozen, killed, started again with and without their disks,
-- cut off from each other, while each takes a lock, appends to a replica, sends and hears, and
-- watches an election. What happened is written down, and checked when it is over: see
-- group_history.lua. For seconds here, for as long as one likes, and with five members, by make
-- chaos.
local mare, net, file = require "mare", require "mare.net", require "mare.file"
local t, peers, history = require "t", require "peers", require "group_history"

local LONG = tonumber(os.getenv "MARE_CHAOS_SECONDS")
local SECONDS = LONG or 3
local NAMES = LONG and {"a", "b", "c", "d", "e"} or {"a", "b", "c"}
local LEASE = 0.4 * t.slow

-- Writes one line for each thing that was asked for, with when it began and ended by the clock that
-- all programs of this machine share. An append is also written down before.
local PEER = [[
    local group = require "mare.group"
    local given, life = OPTIONS, LIFE
    if not given.lost and not require "mare.file".stat(given.folder) then
        assert(group.found("bank", given))
    end
    local bank = assert(group.join("bank", given))
    local list = assert(bank:replica("list", {}, function(list, value)
        list[#list + 1] = value
        return list, #list
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
            local began, ended, lock = timed(bank.lock, bank, "x", 0.5)
            local fence = lock and lock.number
            if lock then tell("lock", fence, began, ended) end
            for _ = 1, lock and 3 or 0 do
                mare.sleep(0.002)
                began, ended, fence = timed(lock.fence, lock)
                if fence then tell("lock", fence, began, ended) end
            end
            if lock then lock:release() end
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
            if ok then tell("read", began, ended, table.concat(state, ",")) end
        end
        mare.sleep(0.002)
    end
]]

-- ---- The network --------------------------------------------------------------------------------

-- A way to a member, whose address may change, that can be cut.
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

-- ---- The members --------------------------------------------------------------------------------

local World = {}
World.__index = World

local function read_lines(self, i, peer, whose)
    for line in function() return peer.child.stdout:read("l", 3600) end do
        table.insert(whose, line)
        self.lines = self.lines + 1
    end
end

function World:start(i, lost)
    local name, joins = NAMES[i], {}
    for j = 1, i - 1 do joins[#joins + 1] = self.ways[j][i].address end
    self.lives[i] = self.lives[i] + 1
    local words = {NAME = ("%q"):format(name), LIFE = tostring(self.lives[i]),
        OPTIONS = peers.source {members = NAMES, folder = self.folder .. "/" .. name,
            lease = LEASE, lost = lost or nil}}
    local peer = peers.start({name = name, listen = "127.0.0.1:0", join = joins, silence = 1},
        (PEER:gsub("%u%u%u+", words)))
    for j = i + 1, #NAMES do self.ways[i][j].target = peer.address end
    local whose = {name = name}
    self.peers[i], self.stories[#self.stories + 1] = peer, whose
    self.readers[#self.readers + 1] = mare.go(read_lines, self, i, peer, whose)
end

function World:kill(i)
    self.peers[i].signal "KILL"
    t.ok(self.peers[i].child:wait(t.patience))
end

local function new_world(folder)
    local self = setmetatable({folder = folder, ways = {}, lives = {}, peers = {}, stories = {},
        readers = {}, lines = 0}, World)
    for i = 1, #NAMES do
        self.ways[i], self.lives[i] = {}, 0
        for j = i + 1, #NAMES do self.ways[i][j] = way() end
    end
    for i = 1, #NAMES do self:start(i) end
    return self
end

World.__close = function(self)
    for i = 1, #NAMES do
        local _ <close> = self.peers[i]
        for j = i + 1, #NAMES do self.ways[i][j].close() end
    end
end

-- Until so many things have been written down by a program.
function World:go_on(count)
    local goal = self.lines + count
    local deadline = mare.deadline(6 * t.patience) -- lost links are tried again after 10 s
    while self.lines < goal do
        t.ok(deadline:left() > 0, "the group does not go on")
        mare.sleep(0.01)
    end
end

-- ---- Faults -------------------------------------------------------------------------------------

local faults = {}

function faults.freeze(self, i)
    self.peers[i].signal "STOP"
    mare.sleep(math.random() * 3 * LEASE)
    self.peers[i].signal "CONT"
end

function faults.restart(self, i)
    self:kill(i)
    mare.sleep(math.random() * 2 * LEASE)
    self:start(i)
end

function faults.cut(self, i)
    for a = 1, #NAMES do
        for b = a + 1, #NAMES do
            if a == i or b == i then self.ways[a][b].set(true) end
        end
    end
    mare.sleep(math.random() * 3 * LEASE)
    for a = 1, #NAMES do
        for b = a + 1, #NAMES do self.ways[a][b].set(false) end
    end
end

function faults.restart_all(self)
    for i = 1, #NAMES do self:kill(i) end
    for i = 1, #NAMES do self:start(i) end
end

-- Once, for a member without its disk votes no more.
function faults.lose_disk(self, i)
    if self.lost then return end
    self.lost = true
    self:kill(i)
    t.ok(file.remove(("%s/%s"):format(self.folder, NAMES[i]), {tree = true}))
    self:start(i, true)
    self.wiped = i
end

-- ---- What happened ------------------------------------------------------------------------------

local function numbers(...)
    local list = table.pack(...)
    for i = 1, list.n do list[i] = tonumber(list[i]) end
    return table.unpack(list, 1, list.n)
end

local tells = {}

function tells.lock(h, who, fence, began, ended)
    fence, began, ended = numbers(fence, began, ended)
    table.insert(h.grants, {who = who, fence = fence, began = began, ended = ended})
end

function tells.leader(h, who, leader, epoch)
    table.insert(h.news, {who = who, leader = leader ~= "-" and leader, epoch = tonumber(epoch)})
end

tells["try"] = function(h, _, value, began)
    h.appends[value] = {value = value, began = tonumber(began), ended = math.huge, state = "maybe"}
end

function tells.append(h, _, value, began, ended, what)
    began, ended = numbers(began, ended)
    local state = not tonumber(what) and (what == "unsure" and "maybe" or "no") or nil
    h.appends[value] = {value = value, began = began, ended = ended, at = tonumber(what),
        state = state}
end

function tells.read(h, _, began, ended, values)
    local list = {}
    for value in (values or ""):gmatch "[^,]+" do list[#list + 1] = value end
    began, ended = numbers(began, ended)
    table.insert(h.reads, {began = began, ended = ended, list = list})
end

function tells.hears(h) table.insert(h.lists, {}) end

function tells.heard(h, _, what) table.insert(h.lists[#h.lists], what) end

-- Each life of a member is somebody else, who has to hear of epochs in their order.
local function check(stories)
    local h = {grants = {}, news = {}, appends = {}, reads = {}, lists = {}}
    for life, story in ipairs(stories) do
        for _, line in ipairs(story) do
            local words = {}
            for word in line:gmatch "[^\t]*" do words[#words + 1] = word end
            local tell = tells[words[1]]
            if tell then tell(h, ("%s/%d"):format(story.name, life), table.unpack(words, 2)) end
        end
    end
    local final, appends = {list = {}, began = -math.huge}, {}
    for _, one in ipairs(h.reads) do
        if #one.list >= #final.list then final = one end
    end
    for _, one in pairs(h.appends) do
        if not one.at or one.ended < final.began then appends[#appends + 1] = one end
        if one.at and one.ended >= final.began then -- after the last look
            one.at, one.state, appends[#appends + 1] = nil, "maybe", one
        end
    end
    return history.check_locks(h.grants), history.check_leaders(h.news),
        history.check_list(appends, h.reads, final.list), history.check_order(h.lists)
end

return {
    whatever_fails_the_history_is_one_that_was_promised = {t.in_folder(function(folder)
        t.seed()
        local world <close> = new_world(folder)
        world:go_on(50)
        local kinds = {"freeze", "restart", "cut", "freeze", "cut", "restart_all", "lose_disk"}
        local deadline = mare.deadline(SECONDS)
        local round = 0
        repeat
            round = round + 1
            local kind = LONG and kinds[math.random(#kinds)] or kinds[(round - 1) % 6 + 1]
            local i = math.random(#NAMES)
            if i ~= world.wiped or kind ~= "restart" then faults[kind](world, i) end
            world:go_on(60)
        until deadline:left() == 0
        for i = 1, #NAMES do world:kill(i) end
        for _, reader in ipairs(world.readers) do t.ok(reader:join(t.patience)) end
        local locks, leaders, list, heard = check(world.stories)
        print(("# %d faults: %d grants, %d leaders heard of, %d operations, %d deliveries"):format(
            round, locks, leaders, list, heard))
        t.ok(locks + leaders + list + heard > 0) -- how much depends on the machine
    end), timeout = 120 + 2 * SECONDS},
}
