-- SPDX-License-Identifier: MIT
-- The agreement on the next list of members (_group_agree.lua), in a world that loses, repeats and
-- reorders what is said, and in which members crash at any moment: one list is decided, whoever
-- wants another; it is decided only when more than half have stopped, also of the keepers of the
-- lease; what they had voted for is below its bounds; and when nothing fails any more there is a
-- decision.
local agree, t = require "mare._group_agree", require "t"

local World = {}
World.__index = World

local function start(self, i)
    local disk = self.disks[i]
    local io = {}
    function io.send(name, what, ballot, ...)
        if self.random() < self.loss then return end
        local copies = self.random() < 0.1 and 2 or 1
        for _ = 1, copies do
            table.insert(self.flying, {to = name, from = self.names[i], what, ballot, ...})
        end
    end
    function io.keep(one)
        if self.forgetful then return end
        disk.promised, disk.ballot, disk.value = one.promised, one.ballot, one.value
    end
    function io.busy() return self.busy[i] end
    function io.stop()
        self.stopped[i] = true
        return {majority = self.votes[i]}
    end
    function io.decided(value, bounds)
        self.decided = self.decided or value
        t.eq(value, self.decided)
        for _, most in ipairs {#self.names, self.keepers} do
            local stopped = 0
            for n = 1, most do
                if self.stopped[n] then stopped = stopped + 1 end
            end
            t.ok(2 * stopped > most, "decided, and too few have stopped")
        end
        local missed = 0 -- who votes for more than this cannot be a majority
        for n = 1, #self.names do
            if self.votes[n] > bounds.majority then missed = missed + 1 end
        end
        t.ok(2 * missed < #self.names, "numbers of a majority are above the bounds")
        self.count = self.count + 1
    end
    self.members[i] = agree.new(io, {here = self.names[i], names = self.names,
        keepers = self.unaware and #self.names or self.keepers, votes = true,
        promised = disk.promised, ballot = disk.ballot, value = disk.value})
    self.stopped[i] = disk.value ~= nil or self.stopped[i]
end

local function hand_over(self)
    local at = 1 + math.floor(self.random() * #self.flying)
    local message = table.remove(self.flying, at)
    for n, name in ipairs(self.names) do
        if name == message.to then
            self.members[n]:hear(message.from, table.unpack(message, 1, 4))
        end
    end
end

local function step(self)
    local i, dice = 1 + math.floor(self.random() * #self.names), self.random()
    if dice < 0.02 and not self.alone then
        self.members[i]:propose(self.names[i]) -- each wants something else
    elseif dice < 0.04 and not self.calm then
        start(self, i) -- it was killed, and is there again
    elseif dice < 0.25 then
        self.members[i]:tick()
    elseif dice < 0.35 and not self.stopped[i] then
        self.votes[i] = self.votes[i] + 1
    elseif self.flying[1] then
        hand_over(self)
    end
end

local function generator(seed)
    local state = seed
    return function()
        state = state * 6364136223846793005 + 1442695040888963407
        return (state >> 33) / (1 << 31)
    end
end

local function world(count, seed, options)
    local self = setmetatable({random = generator(seed), names = {}, disks = {}, members = {},
        stopped = {}, votes = {}, busy = {}, flying = {}, count = 0}, World)
    for key, value in pairs(options or {}) do self[key] = value end
    self.loss = self.loss or 0.3 * self.random()
    self.keepers = 1 + seed % count
    for i = 1, count do
        self.names[i], self.disks[i], self.votes[i] = ("m%d"):format(i), {}, 0
    end
    for i = 1, count do start(self, i) end
    return self
end

-- Anything fails for a while, and then nothing any more.
local function run(seed, options)
    local self = world(1 + seed % 5, seed, options)
    for i = 1, #self.names do self.busy[i] = self.random() < 0.2 and "a log is behind" or nil end
    for _ = 1, 400 do step(self) end
    self.calm, self.loss = true, 0
    for i = 1, #self.names do self.busy[i] = nil end
    self.members[1]:propose "m1"
    for _ = 1, 100 do
        while self.flying[1] and self.count == 0 do hand_over(self) end
        if self.count > 0 then break end
        for i = 1, #self.names do self.members[i]:tick() end
    end
    t.ok(self.count > 0, "nothing was decided")
    for _ = 1, 200 do step(self) end -- whoever decides again decides the same
end

return {
    one_list_is_decided_whatever_fails = function()
        local first = t.seed() & 0xffffff
        for seed = first, first + 300 do
            local ok, problem = pcall(run, seed)
            t.ok(ok, ("seed %d: %s"):format(seed, problem))
        end
    end,

    who_forgets_what_it_has_promised_is_noticed = function()
        for seed = 1, 300 do
            if not pcall(run, seed, {forgetful = true}) then return end
        end
        error "nothing was noticed"
    end,

    too_few_keepers_that_stop_are_noticed = function()
        for seed = 1, 300 do
            if not pcall(run, seed, {unaware = true}) then return end
        end
        error "nothing was noticed"
    end,

    -- Two lists by one ballot could both be decided.
    no_ballot_is_used_twice_whatever_is_promised = function()
        for _, votes in ipairs {true, false} do
            local disk, last = {}, 0
            for _ = 1, 3 do -- it is killed, and is there again
                local io = {send = function() end, busy = function() return "behind" end}
                function io.keep(one) disk.promised = one.promised end
                local member = agree.new(io, {here = "a", names = {"a", "b", "c"}, votes = votes,
                    promised = disk.promised})
                member:propose "x"
                t.ok(member.mine > last, member.mine)
                last = member.mine
            end
        end
    end,

    -- It does not vote any more, but it can want a list.
    who_has_lost_its_disk_uses_no_ballot_of_before = function()
        local used = {}
        local io = {send = function() end, keep = function() end, busy = function() end}
        local names = {"a", "b", "c"}
        for life = 1, 3 do -- the first of them with its disk
            local member = agree.new(io, {here = "a", names = names, votes = life == 1,
                life = life > 1 and os.time() + 20 * life or nil})
            for _ = 1, 200 do -- ticks: twenty seconds
                member:propose "x"
                member:tick()
                t.ok((used[member.mine] or life) == life, member.mine)
                used[member.mine] = life
                t.ok(member.mine < 1 << 51)
            end
        end
    end,

    -- It would be on the disk, and no later one could ever be made.
    a_ballot_beyond_all_others_is_not_heard = function()
        local self = world(3, 1, {loss = 0, calm = true, alone = true})
        for _, ballot in ipairs {math.maxinteger, 1 << 52} do
            for _, what in ipairs {"prepare", "accept", "stale"} do
                self.members[1]:hear("m2", what, ballot, "m2")
            end
        end
        self.members[1]:propose "m1"
        t.reaches(function()
            step(self)
            return self.count > 0
        end, "a decision")
        t.eq(self.decided, "m1")
    end,

    who_is_busy_is_waited_for = function()
        local self = world(3, 1, {loss = 0, calm = true, alone = true})
        self.busy[2], self.busy[3] = "a log is behind", "a log is behind"
        self.members[1]:propose "m1"
        for _ = 1, 300 do step(self) end
        t.eq(self.count, 0)
        t.reaches(function()
            step(self)
            return self.members[1].trouble
        end, "the reason")
        t.eq(self.members[1].trouble, "a log is behind")
        t.ok(not self.members[1]:is_open()) -- it can be given up, and nothing will come of it
        t.ok(not self.stopped[1])
        self.busy = {}
        t.reaches(function()
            step(self)
            return self.count > 0
        end, "a decision")
    end,
}
