-- SPDX-License-Identifier: MIT
-- What a member of a group has on its disk: a folder with a file for the member, which says who is
-- in the group, how often it was started, and a bound on what it has voted for. The bound is set
-- far ahead, so a vote costs no write (src/coord/mutex/majority.c, decision 402). A file is
-- replaced as a whole (written beside, forced to the disk, renamed), so a write that was cut short
-- is never seen; what it has left beside is removed. A file is its bytes behind a line
-- "mare group 2 CHECKSUM LENGTH": one that does not match was damaged, and is refused.
local file, party = require "mare.file", require "mare._party"

local state = {}

local HEAD = "mare group 2 %016x %d\n"

local function pack(text)
    return HEAD:format(party._checksum(text), #text) .. text
end

local function unpack_text(path, whole)
    local sum, length, text = whole:match "^mare group 2 (%x+) (%d+)\n(.*)$"
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

-- The member's own file: whose it is, how often it was started, whether it votes, and what its
-- locks have saved.
local function write_member(folder, kept)
    return write(folder .. "/member", ("%s\n%d\n%s\n%s"):format(kept.digest, kept.incarnation,
        kept.votes and "votes" or "lost", kept.saved or ""))
end

local function parse_member(folder, text, digest)
    local whose, incarnation, votes, saved = text:match "^([^\n]*)\n(%d+)\n(%a+)\n(.*)$"
    if whose ~= digest then
        return nil, ("%s is of another member or group: %s"):format(folder, whose), "denied"
    end
    return {digest = digest, incarnation = math.tointeger(tonumber(incarnation)),
        votes = votes == "votes", saved = saved ~= "" and saved or nil}
end

-- Removes what a write has left that was cut short.
local function tidy(folder)
    for _, name in ipairs(file.list(folder) or {}) do
        if name ~= "member" and not name:find "^log%-" then file.remove(folder .. "/" .. name) end
    end
end

--- The first start of a member of this group, ever.
function state.found(folder, digest)
    local ok, message, code = file.mkdir(folder, {parents = true, permissions = "700"})
    if not ok and code ~= "exists" then return nil, message, code end
    if file.stat(folder .. "/member") then
        return nil, ("%s has the state of a member: it was founded before"):format(folder), "exists"
    end
    return write_member(folder, {digest = digest, incarnation = 0, votes = true})
end

--- What is there, counting this start: {digest =, incarnation =, votes =, saved =}. With `lost` a
--- member that has nothing begins, which does not vote.
function state.open(folder, digest, lost)
    local kept
    local text, message, code = read(folder .. "/member")
    if not text and code == "noname" and lost then
        local ok, why, what = file.mkdir(folder, {parents = true, permissions = "700"})
        if not ok and what ~= "exists" then return nil, why, what end
        kept = {digest = digest, incarnation = os.time(), votes = false}
    elseif not text and code == "noname" then -- os.time: more than any life before
        return nil, ("there is no state of a member in %s. The first time, found the group: "
            .. "group.found, once on each member; if this member has lost its state, join with "
            .. "'lost = true'"):format(folder), "nostate"
    elseif text then
        kept, message, code = parse_member(folder, text, digest)
    end
    if not kept then return nil, message, code end
    tidy(folder)
    kept.incarnation = kept.incarnation + 1
    local ok, problem, word = write_member(folder, kept)
    if not ok then return nil, problem, word end
    return kept
end

--- Keeps what the locks of this member must not forget. It is on the disk when this returns.
function state.save(folder, kept, data)
    kept.saved = data
    return write_member(folder, kept)
end

state.read, state.write = read, write

return state
