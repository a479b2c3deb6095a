-- SPDX-License-Identifier: MIT
-- What a replica or a multicast has on its disk, in a folder of its own:
--
--     state    the state at `base`, and that number: a file as those of _group_state.lua
--     log      records, one after the other: LENGTH CHECKSUM KIND NUMBER EPOCH DATA
--
-- A record is one of: a promise; an entry; a cut, which makes all entries from its number on void;
-- the start of a life; a note that this member lost its earlier promises and does not vote any
-- more. If the last record is not whole, the machine stopped while it was written. Nobody has heard
-- of it, so it is cut off. A broken record in the middle is damage: the log is refused. The length
-- of a record can be the damage. Then the rest of the file looks like one record that is not whole;
-- so the rest is searched for whole records.
local mare, file, party = require "mare", require "mare.file", require "mare._party"
local state = require "mare._group_state"

local disk = {}
disk.__index = disk

local HEAD, BODY = "<I4i8", "<Bi8i8"
local PROMISE, ENTRY, CUT, LIFE, LOST = 1, 2, 3, 4, 5
local HEAD_BYTES, BODY_BYTES = string.packsize(HEAD), string.packsize(BODY)

local function record(kind, number, epoch, data)
    local body = BODY:pack(kind, number, epoch) .. (data or "")
    return HEAD:pack(#body, party._checksum(body)) .. body
end

local function add(self, ...)
    local bytes = record(...)
    self.waiting[#self.waiting + 1] = bytes
    self.size = self.size + #bytes
end

-- ---- Reading ------------------------------------------------------------------------------------

local reads = {}

reads[PROMISE] = function(kept, epoch) kept.promised = math.max(kept.promised, epoch) end

reads[ENTRY] = function(kept, index, epoch, data)
    if index > kept.base then kept.entries[index - kept.base] = {epoch = epoch, data = data} end
end

reads[CUT] = function(kept, index)
    for i = #kept.entries, math.max(1, index - kept.base), -1 do kept.entries[i] = nil end
end

reads[LOST] = function(kept) kept.lost = true end

reads[LIFE] = function(kept, life) kept.life = math.max(kept.life, life) end

-- The body of the record at this place, if it is whole; and where the next one begins, if that is
-- not beyond the end.
local function body_at(whole, at)
    if at + HEAD_BYTES - 1 > #whole then return nil end
    local size, sum, first = HEAD:unpack(whole, at)
    local past = first + size
    if past > #whole + 1 then return nil end
    local body = size >= BODY_BYTES and whole:sub(first, past - 1)
    return body and party._checksum(body) == sum and body or nil, past
end

-- Whether the record at this place is one that was being written when the machine stopped. Then
-- nothing, or only zeros, can be after it.
local function is_last(whole, at, past)
    if past and past <= #whole and whole:find("[^\0]", at) then return false end
    for from = at + 1, #whole do
        if reads[whole:byte(from + HEAD_BYTES)] and body_at(whole, from) then return false end
    end
    return true
end

-- Reads all records; returns how many bytes of the file are good; or nil, message, code.
local function read_records(path, whole, kept)
    local at = 1
    while at <= #whole do
        local body, past = body_at(whole, at)
        if not body and is_last(whole, at, past) then return at - 1 end
        if not body then
            return nil, ("%s is damaged at byte %d: this member cannot know what it has "
                .. "promised. Restore its folder as it was when the member last ran; or remove "
                .. "the folder of the group, and join with 'lost = true'"):format(path, at),
                "corrupt"
        end
        local kind, number, epoch, data_at = BODY:unpack(body)
        if reads[kind] then reads[kind](kept, number, epoch, body:sub(data_at)) end
        at = past
    end
    return #whole
end

local function read_state(self, kept)
    local text, message, code = state.read(self.folder .. "/state")
    if not text and code ~= "noname" then return nil, message, code end
    if text then kept.base, kept.base_epoch, kept.text = ("<i8i8s8"):unpack(text) end
    return true
end

-- ---- Writing ------------------------------------------------------------------------------------

function disk:promise(epoch) add(self, PROMISE, epoch, 0) end

function disk:write(index, epoch, data) add(self, ENTRY, index, epoch, data) end

function disk:cut(index) add(self, CUT, index, 0) end

--- Notes the start of another life of this member.
function disk:live(life)
    self.life = life
    add(self, LIFE, life, 0)
end

local function check(ok, message)
    if not ok then error(message, 0) end -- it must not go on as if that were kept
    return ok
end

--- Returns when all that was written is on the disk.
function disk:sync()
    if #self.waiting == 0 then return end
    local text = table.concat(self.waiting)
    self.waiting = {}
    check(self.file:write(text))
    check(self.file:sync())
end

--- Keeps the state at a number, and of the log only what comes after it: `entries` is called with a
--- function that adds one record.
function disk:replace(base, epoch, text, promised, entries)
    local path = self.folder .. "/log"
    check(state.write(self.folder .. "/state", ("<i8i8s8"):pack(base, epoch, text)))
    self.waiting, self.size = {}, 0
    add(self, LIFE, self.life, 0)
    add(self, PROMISE, promised, 0)
    if self.lost then add(self, LOST, 0, 0) end
    entries(function(...) add(self, ENTRY, ...) end)
    check(file.write(path, table.concat(self.waiting), {atomic = true, permissions = "600"}))
    self.waiting = {}
    self.file:close()
    self.file = check(file.open(path, "a"))
end

--- The text of the kept state.
function disk:text()
    local _, _, text = ("<i8i8s8"):unpack(check(state.read(self.folder .. "/state")))
    return text
end

function disk:close()
    self.file:close()
    self.held:close()
end

local function open_held(self, kept, lost)
    local ok, message, code = read_state(self, kept)
    if not ok then return nil, message, code end
    local path = self.folder .. "/log"
    local whole
    whole, message, code = file.read(path, {limit = math.maxinteger})
    if not whole and code == "noname" then -- a new file: its name must be on the disk too
        ok, message, code = file.write(path, "", {atomic = true, permissions = "600"})
        whole = ok and ""
    end
    if not whole then return nil, message, code end
    local good
    good, message, code = read_records(path, whole, kept)
    if not good then return nil, message, code end
    self.file, message, code = file.open(path, "a")
    if not self.file then return nil, message, code end
    if good < #whole then check(self.file:truncate(good)) end
    self.size = good
    self:live(math.max(kept.life + 1, os.time() << 20 | math.floor(mare.now() * 1e6) & 0xfffff))
    kept.life = self.life
    if lost and not kept.lost then add(self, LOST, 0, 0) end
    kept.lost = kept.lost or lost
    self.lost = kept.lost
    self:sync()
    return self, kept
end

--- Opens what is in this folder, or makes it, for another life. `lost`: an earlier content is gone.
--- Returns the disk, and what was kept: `promised`, `base`, `base_epoch`, `text`, `entries`,
--- `life`, `lost`; or nil, message, code.
function disk.open(folder, lost)
    local self = setmetatable({folder = folder, waiting = {}, size = 0}, disk)
    local made, message, code = state.make_folder(folder)
    if not made then return nil, message, code end
    self.held, message, code = state.hold(folder)
    if not self.held then return nil, message, code end
    local ok
    ok, message, code = open_held(self,
        {promised = 0, base = 0, base_epoch = 0, entries = {}, life = 0}, lost)
    if not ok then self.held:close() end
    return ok, message, code
end

return disk
