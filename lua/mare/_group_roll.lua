-- SPDX-License-Identifier: MIT
-- The roll of a group says who its members are. This also reads and writes what a member has of it
-- on its disk. The first roll is what the members were founded with; each change makes the next,
-- one generation later (_group_members.lua).
--
-- A roll is {names =, slots =, ids =, former =, founders =}. `names` are the members, in order.
-- `slots` has a number for each, which stays the same as long as the member is in; logs use it.
-- `ids` has an id for each, empty for founders: it tells a newcomer from an earlier member of the
-- same name. `former` has, for each number, the last member that had it. `founders` are the names
-- of the first roll. They tell two groups of one name apart, if one was founded anew where a member
-- of the other had been.
local party, state = require "mare._party", require "mare._group_state"

local roll = {}

local SLOTS = 255 -- the most that a byte can number
local ID = 16 -- bytes of an id, at most
local LISTS = {names = true, slots = true, ids = true, former = true, founders = true}

--- Whether it can be the name of a member.
function roll.is_name(value)
    return type(value) == "string" and #value <= 63 and value:find "^[a-z][a-z0-9._-]*$" ~= nil
end

--- Whether it can be the id of a member.
function roll.is_id(value) return type(value) == "string" and #value <= ID end

--- Whether it can be a list of members: 255 at most, each once.
function roll.is_list(value)
    if type(value) ~= "table" or #value < 1 or #value > SLOTS then return false end
    local seen = {}
    for i = 1, #value do
        if not roll.is_name(value[i]) or seen[value[i]] then return false end
        seen[value[i]] = true
    end
    return true
end

-- Whether it names the last member of each number, up to the largest number that was ever used.
local function is_former(value)
    local count, last = 0, 0
    for slot, name in pairs(value) do
        if math.type(slot) ~= "integer" or not roll.is_name(name) then return false end
        count, last = count + 1, math.max(last, slot)
    end
    return count == last and last <= SLOTS
end

--- Whether the value can be a roll, whoever sent it: each member is in once, and has a number.
function roll.is_sound(value)
    if type(value) ~= "table" or not roll.is_list(value.names) then return false end
    for key in pairs(LISTS) do
        if type(value[key]) ~= "table" then return false end
    end
    for key in pairs(value) do
        if not LISTS[key] then return false end
    end
    local seen = {}
    for i, name in ipairs(value.names) do
        local slot = value.slots[i]
        local own = math.type(slot) == "integer" and not seen[slot] and value.former[slot] == name
        if not own or not roll.is_id(value.ids[i]) then return false end
        seen[slot] = true
    end
    return is_former(value.former) and roll.is_list(value.founders)
end

--- The roll of the founders.
function roll.first(names)
    local self = {names = names, slots = {}, ids = {}, former = {}, founders = {}}
    for i, name in ipairs(names) do
        self.slots[i], self.ids[i], self.former[i], self.founders[i] = i, "", name, name
    end
    return self
end

--- A text that is the same for all rolls that come from the same first roll.
function roll.lineage(founders)
    return ("%016x"):format(party._checksum(table.concat(founders, ",")))
end

--- The place of the name, or nil.
function roll.find(self, wanted)
    for i, name in ipairs(self.names) do
        if name == wanted then return i end
    end
end

local function copy(self)
    local made = {}
    for key, list in pairs(self) do made[key] = table.move(list, 1, #list, 1, {}) end
    return made
end

-- A free number: one that nobody ever had, as long as there is one.
local function free_slot(self)
    local used = {}
    for _, slot in ipairs(self.slots) do used[slot] = true end
    for slot = math.min(#self.former + 1, SLOTS), 1, -1 do
        if not used[slot] then return slot end
    end
end

--- The roll with one more.
function roll.with(self, name, id)
    local made, at = copy(self), 1
    while made.names[at] and made.names[at] < name do at = at + 1 end
    local slot = free_slot(made)
    table.insert(made.names, at, name)
    table.insert(made.slots, at, slot)
    table.insert(made.ids, at, id)
    made.former[slot] = name
    return made
end

--- The roll with one less.
function roll.without(self, name)
    local made, at = copy(self), roll.find(self, name)
    for _, key in ipairs {"names", "slots", "ids"} do table.remove(made[key], at) end
    return made
end

-- ---- On the disk --------------------------------------------------------------------------------

local function path_of(folder) return folder .. "/roll" end

--- What was kept: {generation =, roll =, bounds =, promised =, ballot =, value =, out =}; false:
--- nothing; or nil, message, code.
function roll.read(folder)
    local text, message, code = state.read(path_of(folder))
    if not text and code == "noname" then return false end
    if not text then return nil, message, code end
    local kept = party._unpack(text)
    if kept and (not kept.roll or roll.is_sound(kept.roll)) then return kept end
    return nil, path_of(folder) .. " is damaged, or of an earlier version", "corrupt"
end

--- Writes it: true, it is on the disk; or nil, message, code.
function roll.write(folder, kept) return state.write(path_of(folder), party._pack(kept)) end

--- The same for a member that runs. It must not go on as if that were kept.
function roll.must_write(...)
    local ok, message = roll.write(...)
    if not ok then error(message, 0) end
end

return roll
