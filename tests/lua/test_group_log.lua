-- SPDX-License-Identifier: MIT
-- The log of replicas and multicasts (lua/mare/_group_log.lua), many members in one process: what
-- they say is lost, repeated and reordered, they crash and come back with what was on their disks,
-- and several lead at a time. Then all is well again, and they must agree.
local t, log = require "t", require "mare._group_log"

-- ---- A world ------------------------------------------------------------------------------------

local World = {}
World.__index = World

-- A disk: what was synced stays; of the rest a crash leaves some, from the beginning.
local function new_disk()
    return {kept = {promised = 0, base = 0, base_epoch = 0, entries = {}}, waiting = {}}
end

local function write_one(kept, what, a, b, c)
    if what == "promise" then
        kept.promised = math.max(kept.promised, a)
    elseif what == "cut" then
        for i = #kept.entries, math.max(1, a - kept.base), -1 do kept.entries[i] = nil end
    elseif a > kept.base then
        kept.entries[a - kept.base] = {epoch = b, data = c}
    end
end

local function sync(disk, upto)
    for i = 1, upto or #disk.waiting do write_one(disk.kept, table.unpack(disk.waiting[i])) end
    disk.waiting = {}
end

-- A state at `base`: the entries before are gone.
local function rebase(disk, base, epoch, keeps)
    local entries = {}
    if keeps then
        table.move(disk.kept.entries, base - disk.kept.base + 1, #disk.kept.entries, 1, entries)
    end
    disk.kept.base, disk.kept.base_epoch, disk.kept.entries = base, epoch, entries
end

-- The members of the generation that this one is in.
function World:list_of(i) return self.lists[self.generations[i]] end

function World:start(i)
    local disk, io = self.disks[i], {}
    function io.send(to, ...)
        self.air[#self.air + 1] = {from = i, to = to, generation = self.generations[i], ...}
    end
    function io.is_busy() return false end
    function io.promise(...) table.insert(disk.waiting, {"promise", ...}) end
    function io.write(...) table.insert(disk.waiting, {"entry", ...}) end
    function io.cut(...) table.insert(disk.waiting, {"cut", ...}) end
    function io.sync() sync(disk) end
    function io.snapshot() -- of two pieces
        return ("state at %d"):format(self.members[i].base) .. (" "):rep(70000)
    end
    function io.install(base, epoch, text, keeps)
        assert(text:match "%d+" == tostring(base))
        sync(disk)
        rebase(disk, base, epoch, keeps)
    end
    local kept = {here = i, members = self:list_of(i), votes = true, promised = disk.kept.promised,
        base = disk.kept.base, base_epoch = disk.kept.base_epoch,
        entries = table.move(disk.kept.entries, 1, #disk.kept.entries, 1, {}), batch = self.batch}
    self.members[i] = log.new(io, kept)
end

function World:crash(i)
    sync(self.disks[i], self.random(0, #self.disks[i].waiting))
    self.members[i] = nil
end

-- What is committed anywhere is the same everywhere, for good.
function World:check(i)
    local member = self.members[i]
    for index = member.base + 1, member.commit do
        local entry = member.epochs[index] .. " " .. member.data[index]
        local known = self.committed[index]
        if known and known ~= entry then
            error(("entry %d of member %d: %s, and %s"):format(index, i, known, entry))
        end
        self.committed[index] = entry
    end
    self.most = math.max(self.most, member.commit)
end

function World:settle(i)
    self.members[i]:flush()
    self:check(i)
end

function World:hand_over()
    local number = self.random(#self.air)
    local message = self.air[number]
    if self.random() >= self.repeated then
        self.air[number] = self.air[#self.air]
        self.air[#self.air] = nil
    end
    local to = self.members[message.to]
    local same = message.generation == self.generations[message.to]
    local cut_off = not same or (self.side[message.to] or 0) ~= (self.side[message.from] or 0)
    if to and not cut_off and self.random() >= self.loss then
        to:hear(message.from, table.unpack(message, 1, 8))
        if self.random() < 0.7 then self:settle(message.to) end -- else with what comes next
    end
end

function World:lead(i)
    if self.generations[i] ~= #self.lists then return end -- no numbers of earlier ones any more
    self.epoch = self.epoch + 1
    self.members[i]:lead(self.epoch)
    self:settle(i)
end

function World:append(i)
    if self.members[i].stage ~= "leading" then return end
    self.values = self.values + 1
    self.members[i]:append(tostring(self.values))
    self:settle(i)
end

function World:compact(i)
    local member = self.members[i]
    local index = member.commit
    if index > member.base then
        member:flush()
        sync(self.disks[i])
        rebase(self.disks[i], index, member:epoch_at(index), true)
        member:compact(index)
    end
end

-- Whether the members may change: a majority of them knows that the log has worked since they did.
local function is_settled(self)
    local list, settled = self.lists[#self.lists], 0
    for _, i in ipairs(list) do
        local member = self.generations[i] == #self.lists and self.members[i]
        if member and member:has_worked_after(self.before[i]) then settled = settled + 1 end
    end
    return 2 * settled > #list or #self.lists == 1 or self.hasty
end

-- One comes, whose disk is empty, or one goes: in that order if there are few.
local function change_members(self)
    local list, others, inside = self.lists[#self.lists], {}, {}
    for _, i in ipairs(list) do inside[i] = true end
    for i = 1, self.count do
        if not inside[i] then others[#others + 1] = i end
    end
    local next_list = table.move(list, 1, #list, 1, {})
    if #list > 1 and (#others == 0 or self.random() < 0.5) then
        table.remove(next_list, self.random(#next_list))
    else
        local new = others[self.random(#others)]
        next_list[#next_list + 1] = new
        self.disks[new], self.members[new] = new_disk(), nil
        self.generations[new], self.before[new] = #self.lists + 1, 0
    end
    self.lists[#self.lists + 1] = next_list
end

-- A member hears of the present list: it is in it, or it ends.
local function catch_up(self, i)
    if self.generations[i] == #self.lists then return end
    local inside
    for _, one in ipairs(self.lists[#self.lists]) do inside = inside or one == i end
    if not inside then
        self.members[i] = nil
    else
        self.generations[i] = #self.lists
        self.before[i] = math.max(self.disks[i].kept.promised,
            self.members[i] and self.members[i].promised or 0)
        if self.members[i] then self.members[i]:reform(self:list_of(i)) end
    end
end

function World:change()
    if self.random() < 0.3 and is_settled(self) then change_members(self) end
    catch_up(self, self.random(self.count))
end

function World:step()
    local i, dice = self.random(self.count), self.random()
    local function happens(share)
        dice = dice - share
        return dice < 0
    end
    if self.changing and self.random() < 0.05 then self:change() end
    if not self.members[i] then
        local out = self.changing and self.generations[i] ~= #self.lists
        if dice < 0.1 and not out then self:start(i) end
    elseif happens(self.crashes) then
        self:crash(i)
    elseif happens(self.leads) then
        self:lead(i)
    elseif happens(0.1) then
        self:append(i)
    elseif happens(0.1) then
        self.members[i]:tick()
        self:settle(i)
    elseif happens(self.compacts) then
        self:compact(i)
    elseif happens(0.01) then -- some are cut off from the others, or all are together again
        for j = 1, self.count do self.side[j] = self.random() < 0.7 and 0 or 1 end
    elseif #self.air > 0 then
        self:hand_over()
    end
    while #self.air > 100 do self.air[self.random(#self.air)] = table.remove(self.air) end
end

-- All live, one leads, nothing is lost: all get to know all that was committed, and one thing more.
function World:heal()
    self.loss, self.repeated, self.side = 0, 0, {}
    local list = self.lists[#self.lists]
    for i = 1, self.count do catch_up(self, i) end
    for _, i in ipairs(list) do
        if not self.members[i] then self:start(i) end
    end
    local leader = list[self.random(#list)]
    self:lead(leader)
    local asked
    for _ = 1, 400 do
        if not asked and self.members[leader].stage == "leading" then
            self:append(leader)
            asked = self.members[leader].last
        end
        while #self.air > 0 do self:hand_over() end
        for _, i in ipairs(list) do
            self.members[i]:tick()
            self:settle(i)
        end
        local behind = false
        for _, i in ipairs(list) do
            behind = behind or self.members[i].commit < (asked or math.huge)
        end
        if not behind then return end
    end
    error "they do not get on"
end

local function world(count, random)
    local made = setmetatable({count = count, random = random, members = {}, disks = {}, air = {},
        committed = {}, most = 0, epoch = 0, values = 0, loss = random() * 0.3,
        repeated = random() * 0.2, side = {}, crashes = random() * 0.03, leads = random() * 0.03,
        compacts = random() * 0.02, batch = random() < 0.5 and random(3) or nil, lists = {{}},
        generations = {}, before = {}}, World)
    for i = 1, count do
        made.lists[1][i], made.generations[i], made.before[i] = i, 1, 0
        made.disks[i] = new_disk()
    end
    for i = 1, count do made:start(i) end
    return made
end

-- A sequence of numbers of its own, from a seed.
local function generator(seed)
    local state = seed * 2 + 1
    return function(low, high)
        state = state * 6364136223846793005 + 1442695040888963407
        local fraction = (state >> 11) * (1.0 / (1 << 53))
        if not low then return fraction end
        if not high then low, high = 1, low end
        return low + math.floor(fraction * (high - low + 1))
    end
end

local function run(seed, steps, options)
    local random = generator(seed)
    local made = world(random(4) + 1, random)
    for key, value in pairs(options or {}) do made[key] = value end
    for _ = 1, steps do made:step() end
    made:heal()
    return made
end

return {
    logs_agree_whatever_happens_and_go_on_when_it_is_over = function()
        local first = t.seed() % (1 << 40)
        local committed = 0
        for seed = first, first + 199 do
            local ok, result = xpcall(run, debug.traceback, seed, 600)
            if not ok then error(("seed %d: %s"):format(seed, result), 0) end
            committed = committed + result.most
        end
        t.ok(committed > 1000, committed)
    end,

    logs_agree_while_members_come_and_go = function()
        local first = t.seed() % (1 << 40)
        local changes = 0
        for seed = first, first + 59 do
            local ok, result = xpcall(run, debug.traceback, seed, 1000, {changing = true})
            if not ok then error(("seed %d: %s"):format(seed, result), 0) end
            changes = changes + #result.lists - 1
        end
        t.ok(changes > 60, changes)
    end,

    -- A state that a member was being sent, and got from another one meanwhile, was sent to it for
    -- ever when it asked for what is behind it.
    a_state_that_is_of_no_use_any_more_is_not_sent = function()
        t.ok(run(2271, 1500, {changing = true}))
    end,

    members_that_change_before_the_log_has_worked_lose_entries = function()
        for seed = 1, 2000 do
            if not pcall(run, seed, 1500, {changing = true, hasty = true}) then return end
        end
        error "nothing was lost"
    end,

    -- Committed is what a majority has from the first entry of the leader's epoch on: here a
    -- leader has sent a majority an earlier entry, but not its own first one, and another log is
    -- the best one then.
    what_is_of_an_earlier_epoch_is_not_committed_alone = function() t.ok(run(103, 600)) end,
}
