-- SPDX-License-Identifier: MIT
-- What a member of a group has on its disk: a folder with a file for the member, which says who is
-- in the group and how often it was started, and one for each lock that it has voted on. A file is
-- replaced as a whole (written beside, forced to the disk, renamed), so a write that was cut short
-- is never seen; what it has left beside is removed. A file is its bytes behind a line
-- "mare group 1 CHECKSUM LENGTH": one that does not match was damaged, and is refused.
local file, party = require "mare.file", require "mare._party"

local state = {}

local HEAD = "mare group 1 %016x %d\n"

local function pack(text)
    return HEAD:format(party._checksum(text), #text) .. text
end

local function unpack_text(path, whole)
    local sum, length, text = whole:match "^mare group 1 (%x+) (%d+)\n(.*)$"
    if sum and #text == tonumber(length) and ("%016x"):format(party._checksum(text)) == sum then
        return text
    end
    return nil, ("%s is damaged: this member can not know how it has voted. Restore its folder as "
        .. "it was when the member last ran; or remove it and join with 'lost = true', as one "
        .. "that votes no more"):format(path), "corrupt"
end

--- The text of such a file; or nil, message, code.
local function read(path)
    local whole, message, code = file.read(path)
    if not whole then return nil, message, code end
    return unpack_text(path, whole)
end

local function write(path, text)
    return file.write(path, pack(text), {atomic = true, permissions = "600"})
end

local LONGEST = 200 -- bytes of a file's name; systems allow 255

local function hex_of(c) return ("%02x"):format(c:byte()) end

local function char_of(hex) return string.char(tonumber(hex, 16)) end

-- A name to read, or one that is always short enough.
local function name_of(lock)
    local name = "lock-" .. lock:gsub("[^%w_-]", function(c) return "%" .. hex_of(c) end)
    return #name <= LONGEST and name or "hex-" .. lock:gsub(".", hex_of)
end

local function lock_of(name)
    local rest, hex = name:match "^lock%-([%w_%%-]*)$", name:match "^hex%-(%x*)$"
    return rest and rest:gsub("%%(%x%x)", char_of) or hex and hex:gsub("%x%x", char_of)
end

-- The locks that have been voted on: name -> what was saved.
local function read_locks(folder)
    local locks = {}
    local entries, message, code = file.list(folder)
    if not entries then return nil, message, code end
    for _, entry in ipairs(entries) do
        local name = entry
        local lock = lock_of(name)
        if lock then
            local text, why, what = read(folder .. "/" .. name)
            if not text then return nil, why, what end
            locks[lock] = text
        elseif name ~= "member" and not name:find "^log%-" then
            file.remove(folder .. "/" .. name) -- what a write has left that was cut short
        end
    end
    return locks
end

--- The first start of a member of this group, ever.
function state.found(folder, digest)
    local ok, message, code = file.mkdir(folder, {parents = true, permissions = "700"})
    if not ok and code ~= "exists" then return nil, message, code end
    if file.stat(folder .. "/member") then
        return nil, ("%s has the state of a member: it was founded before"):format(folder), "exists"
    end
    return write(folder .. "/member", ("%s\n0\nvotes\n"):format(digest))
end

--- What is there, counting this start: {incarnation =, votes =, locks =}. With `lost` a member that
--- has nothing begins, which does not vote.
function state.open(folder, digest, lost)
    local path = folder .. "/member"
    local text, message, code = read(path)
    if not text and code == "noname" and lost then
        local ok, why, what = file.mkdir(folder, {parents = true, permissions = "700"})
        if not ok and what ~= "exists" then return nil, why, what end
        text = ("%s\n%d\nlost\n"):format(digest, os.time()) -- more than any life before
    elseif not text and code == "noname" then
        return nil, ("there is no state of a member in %s. The first time, found the group: "
            .. "group.found, once on each member; if this member has lost its state, join with "
            .. "'lost = true'"):format(folder), "nostate"
    end
    if not text then return nil, message, code end
    local whose, incarnation, votes = text:match "^(.*)\n(%d+)\n(%a+)\n$"
    if whose ~= digest then
        return nil, ("%s is of another member or group: %s"):format(folder, whose), "denied"
    end
    local locks, why, what = read_locks(folder)
    if not locks then return nil, why, what end
    incarnation = math.tointeger(tonumber(incarnation)) + 1
    local ok, problem, word = write(path, ("%s\n%d\n%s\n"):format(digest, incarnation, votes))
    if not ok then return nil, problem, word end
    return {incarnation = incarnation, votes = votes == "votes", locks = locks}
end

--- Keeps what a lock must not forget. It is on the disk when this returns.
function state.save(folder, lock, data)
    return write(folder .. "/" .. name_of(lock), data)
end

state.read, state.write = read, write

return state
