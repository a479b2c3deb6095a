-- SPDX-License-Identifier: MIT
-- What a member of a group and its replicas keep (lua/mare/_group_state.lua, _group_disk.lua), on a
-- disk that forgets: a machine stops at any step of a life, and what was not forced to the disk is
-- gone, or a part of it, or it has become zeros; also the names of files and folders, which are
-- forced by their folder. Then what anybody was told of must be there.
local t = require "t"

local STOP = {} -- the machine has stopped

-- ---- A disk -------------------------------------------------------------------------------------

local Disk = {}
Disk.__index = Disk

local function new_disk(random)
    return setmetatable({nodes = {["/"] = {folder = true, named = true}}, steps = math.huge,
        random = random}, Disk)
end

local function tidy(path)
    path = path:gsub("/+$", "")
    return path == "" and "/" or path
end

local function above(path)
    local parent = path:match "^(.*)/[^/]+$"
    return parent == "" and "/" or parent
end

-- Each change is a step, before which the machine may stop.
function Disk:step()
    self.steps = self.steps - 1
    if self.steps < 0 then error(STOP) end
end

function Disk:make(path, node)
    assert(self.nodes[above(path)], "no folder for " .. path)
    self.nodes[path] = node
    return node
end

function Disk:sync_names(folder)
    for path, node in pairs(self.nodes) do
        if path ~= "/" and above(path) == folder then node.named = true end
    end
    self.replaced = {} -- what a rename has put out of the way
end

-- What is left of what was not forced: as chance has it, nothing, a part, zeros, all of it.
local function torn(self, safe, all)
    local rest = all:sub(#safe + 1)
    local kind = self.random(4)
    if all:sub(1, #safe) ~= safe or kind == 1 then return safe end
    if kind == 2 then return safe .. rest:sub(1, self.random(0, #rest)) end
    if kind == 3 then return safe .. ("\0"):rep(#rest) end
    return all
end

--- The machine stops, and starts again.
function Disk:crash()
    self.steps = math.huge
    local lost = {}
    for path, node in pairs(self.nodes) do
        if node.folder then
            if not node.named then lost[path] = true end
        elseif not node.named and self.random(2) == 1 then
            self.nodes[path] = node.before
        else
            node.text = torn(self, node.safe, node.text)
            node.safe, node.named = node.text, true
        end
    end
    for path in pairs(self.nodes) do
        for folder in pairs(lost) do
            if path == folder or path:sub(1, #folder + 1) == folder .. "/" then
                self.nodes[path] = nil
            end
        end
    end
end

-- ---- It as mare.file ----------------------------------------------------------------------------

local function handle_of(disk, path)
    local node, handle = disk.nodes[path], {}
    function handle.write(_, text)
        disk:step()
        node.text = node.text .. text
        return true
    end
    function handle.sync()
        disk:step()
        if node.folder then disk:sync_names(path) else node.safe = node.text end
        return true
    end
    function handle.truncate(_, size)
        disk:step()
        node.text = node.text:sub(1, size)
        if #node.safe > size then node.safe = node.text end
        return true
    end
    function handle._hold() return true end
    function handle.close() return true end
    return handle
end

function Disk:files()
    local file = {}
    function file.exists(path) return self.nodes[tidy(path)] ~= nil end
    function file.list() return {} end
    function file.read(path)
        local node = self.nodes[tidy(path)]
        if not node then return nil, "there is no " .. path, "noname" end
        return node.text
    end
    function file.mkdir(path, options)
        path = tidy(path)
        local parent = above(path)
        if options.parents and not self.nodes[parent] then file.mkdir(parent, options) end
        if self.nodes[path] then return nil, "it is there", "exists" end
        self:step()
        self:make(path, {folder = true, named = false})
        return true
    end
    function file.open(path, mode)
        path = tidy(path)
        if not self.nodes[path] then
            if mode == "r" then return nil, "there is no " .. path, "noname" end
            self:step()
            self:make(path, {text = "", safe = "", named = false})
        end
        return handle_of(self, path)
    end
    function file.write(path, text, options)
        assert(options.atomic)
        self:step() -- written beside and forced
        local before = self.nodes[path]
        self:make(path, {text = text, safe = text, named = false, before = before})
        self:step() -- renamed
        self:sync_names(above(path))
        return true
    end
    return file
end

-- The modules under test, on this disk.
local function modules(disk)
    local names = {"mare._group_state", "mare._group_disk"}
    local saved = {["mare.file"] = package.loaded["mare.file"]}
    for _, name in ipairs(names) do
        saved[name] = package.loaded[name] or false
        package.loaded[name] = nil
    end
    package.loaded["mare.file"] = disk:files()
    local state, log = require(names[1]), require(names[2])
    for name, module in pairs(saved) do package.loaded[name] = module or nil end
    return state, log
end

-- ---- Lives --------------------------------------------------------------------------------------

-- A life of a log: what it has forced is noted in `told`. `number` makes its entries its own.
local function live(log, told, random, number)
    local opened, kept = assert(log.open("/var/lib/bank/log-replica-x"))
    told.life = math.max(told.life, opened.life)
    local last, base, list = kept.base + #kept.entries, kept.base, {}
    for i, entry in ipairs(kept.entries) do list[base + i] = entry end
    for turn = 1, 6 do
        local epoch = math.max(told.promised, kept.promised) + 1
        opened:promise(epoch)
        if last > base and random(3) == 1 then -- another leader's log is a better one
            opened:cut(last)
            list[last], last = nil, last - 1
            told.least = math.min(told.least, last)
        end
        for _ = 1, random(3) do
            last = last + 1
            list[last] = {epoch = epoch, data = ("%d %d"):format(number, turn)}
            opened:write(last, epoch, list[last].data)
        end
        opened:sync()
        told.promised, told.last, told.least = epoch, last, last
        for i = base + 1, last do told[i] = list[i].data end
        if random(3) == 1 then
            base = random(base, last)
            opened:replace(base, epoch, "state at " .. base, epoch, function(keep)
                for i = base + 1, last do keep(i, list[i].epoch, list[i].data) end
            end)
            told.base = base
        end
    end
    opened:close()
end

-- What was told to others is there.
local function check(log, told)
    local opened, kept = assert(log.open("/var/lib/bank/log-replica-x"))
    local last = kept.base + #kept.entries
    assert(kept.promised >= told.promised, "a promise is lost")
    assert(kept.base >= told.base, "a state is lost")
    assert(last >= told.least, ("entry %d is lost, there are %d"):format(told.least, last))
    assert(opened.life > told.life, "a life is lived twice")
    for i = kept.base + 1, math.min(last, told.least) do
        assert(kept.entries[i - kept.base].data == told[i], "an entry is another one")
    end
    assert(kept.base == 0 or kept.text == "state at " .. kept.base, "the state is another one")
    told.life = opened.life
    opened:close()
    return last
end

local function generator(seed)
    local state = seed * 2 + 1
    return function(low, high)
        state = state * 6364136223846793005 + 1442695040888963407
        if not high then low, high = 1, low end
        return low + (state >> 33) % (high - low + 1)
    end
end

local function stops(f, ...)
    local ok, problem = pcall(f, ...)
    if not ok and problem ~= STOP then error(problem, 0) end
    return not ok
end

local function run(seed)
    local random = generator(seed)
    local disk = new_disk(random)
    local state, log = modules(disk)
    local told = {promised = 0, last = 0, least = 0, base = 0, life = 0}
    assert(state.found("/var/lib/bank", "bank home"))
    for number = 1, 4 do
        disk.steps = random(60)
        local stopped = stops(live, log, told, random, number)
        disk:crash()
        local last = check(log, told)
        if not stopped then assert(last == told.last, "what is over is there") end
        for i = told.least + 1, last do told[i] = nil end
        told.least = math.min(told.least, last)
    end
end

return {
    what_anybody_was_told_of_is_on_the_disk = function()
        local first = t.seed() % (1 << 40)
        for seed = first, first + 299 do
            local ok, problem = pcall(run, seed)
            if not ok then error(("seed %d: %s"):format(seed, problem), 0) end
        end
    end,

    -- Whatever bit of the log changes: the promises and entries after it are not taken for a last
    -- write that was not finished. Only damage to the last record looks like that.
    a_damaged_record_is_not_taken_for_the_end = function()
        local disk = new_disk(generator(1))
        local _, log = modules(disk)
        local folder = "/var/lib/bank/log-replica-x"
        local opened = assert(log.open(folder))
        opened:promise(7)
        opened:write(1, 7, ("an entry "):rep(3))
        opened:sync()
        local first = #disk.nodes[folder .. "/log"].text
        opened:promise(8)
        opened:sync()
        opened:close()
        local whole = disk.nodes[folder .. "/log"].text
        for at = 1, first do
            for bit = 0, 7 do
                disk.nodes[folder .. "/log"].text = whole:sub(1, at - 1)
                    .. string.char(whole:byte(at) ~ 1 << bit) .. whole:sub(at + 1)
                local _, message, code = log.open(folder)
                t.eq(code, "corrupt", ("byte %d, bit %d"):format(at, bit))
                t.ok(message:find("lost = true", 1, true))
            end
        end
        for size = first + 1, #whole - 1 do -- the last write, not finished
            disk.nodes[folder .. "/log"].text = whole:sub(1, size)
            local again, kept = assert(log.open(folder))
            t.eq({kept.promised, #kept.entries}, {7, 1})
            again:close()
        end
    end,

    -- Once group.found has returned, the member is there: to found it again would forget its votes.
    what_is_founded_stays = function()
        for steps = 0, 30 do
            local disk = new_disk(generator(steps))
            local state = modules(disk)
            disk.steps = steps
            local stopped = stops(function()
                assert(state.found("/var/lib/bank", "bank home"))
                for _ = 1, 3 do
                    local kept = assert(state.open("/var/lib/bank", "bank home"))
                    assert(state.save("/var/lib/bank", kept, "votes " .. kept.incarnation))
                end
            end)
            disk:crash()
            local kept, _, code = state.open("/var/lib/bank", "bank home")
            t.ok(kept or code == "nostate" and stopped, code)
            if kept and kept.saved then
                t.ok(kept.incarnation > tonumber(kept.saved:match "%d+"))
            end
            if not stopped then t.eq(kept.saved, "votes 3") end
        end
    end,
}
