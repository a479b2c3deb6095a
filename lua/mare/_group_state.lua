-- SPDX-License-Identifier: MIT
-- What a member of a group has on its disk, in a folder. The member's own file says who is in the
-- group, how often it was started, and a bound on what it has voted for. The bound is set far
-- ahead, so a vote costs no write (src/coord/mutex/majority.c, decision 402).
--
-- Other files hold what locks by other algorithms keep: `bounds`, for all locks of an algorithm;
-- `vote-…`, for one lock by `voting`; and `roll`, once the members have changed (_group_roll.lua).
--
-- A file is replaced as a whole: written under another name, forced to the disk, renamed. So nobody
-- sees half a write; what an interrupted write has left is removed. A file begins with a line "mare
-- group 2 CHECKSUM LENGTH". If the bytes after it do not match, the file is damaged, and refused.
local file, party = require "mare.file", require "mare._party"

local state = {}

local HEAD = "mare group 2 %016x %d\n"

--- What to do about a damaged file.
state.ADVICE = "Restore its folder as it was when the member last ran; or remove the folder and "
    .. "join with 'lost = true', as one that votes no more"

local function pack(text)
    return HEAD:format(party._checksum(text), #text) .. text
end

local function unpack_text(path, whole)
    local sum, length, text = whole:match "^mare group 2 (%x+) (%d+)\n(.*)$"
    if sum and #text == tonumber(length) and ("%016x"):format(party._checksum(text)) == sum then
        return text
    end
    return nil, ("%s is damaged: this member cannot know how it has voted. %s"):format(path,
        state.ADVICE), "corrupt"
end

--- Reads such a file: its text; or nil, message, code.
local function read(path)
    local whole, message, code = file.read(path)
    if not whole then return nil, message, code end
    return unpack_text(path, whole)
end

-- Makes a folder, and those above it. Their names are on the disk when this returns: a file is lost
-- if its folder is lost.
local function make_folder(path)
    local above = path:match "^(.*/)[^/]+/*$" or "."
    local ok, message, code = true, nil, nil
    if above:find "[^/]" then ok, message, code = file.exists(above) end
    if ok == false then ok, message, code = make_folder(above) end
    if not ok then return nil, message, code end
    ok, message, code = file.mkdir(path, {permissions = "700"})
    if not ok and code ~= "exists" then return nil, message, code end
    local names
    names, message, code = file.open(above, "r")
    if code == "cancelled" then return nil, message, code end
    if not names then return true end -- a folder that we may not read: others have made it
    ok, message, code = names:sync()
    if not ok and code == "invalid" then ok = true end -- some file systems cannot
    if not ok then
        names:close()
        return nil, message, code
    end
    return names:close()
end

--- Locks a folder for this program, as long as the returned file is open: two members that keep
--- their state in one folder would both vote by it. Or nil, message, code.
function state.hold(path)
    local folder, message, code = file.open(path, "r")
    if not folder then return nil, message, code end
    local held
    held, message, code = folder:_hold()
    if held then return folder end
    folder:close()
    if held == nil then return nil, message, code end
    return nil, ("%s is in use: another program is this member already"):format(path), "exists"
end

local function write(path, text)
    return file.write(path, pack(text), {atomic = true, permissions = "600"})
end

-- Writes the member's own file: whose it is, how often it was started, whether it votes, and what
-- its locks have saved.
local function write_member(folder, kept)
    return write(folder .. "/member", ("%s\n%d\n%s\n%s"):format(kept.digest, kept.incarnation,
        kept.votes and "votes" or "lost", kept.saved or ""))
end

-- Reads it. What was saved in an earlier generation of the group does not count in this one.
local function parse_member(folder, text, digest)
    local whose, incarnation, votes, saved = text:match "^([^\n]*)\n(%d+)\n(%a+)\n(.*)$"
    if whose ~= digest and require "mare._group_members".is_older(whose, digest) then
        whose, saved = digest, ""
    end
    if whose ~= digest then
        return nil, ("%s is of another member or group: %s"):format(folder, whose), "denied"
    end
    return {digest = digest, incarnation = math.tointeger(tonumber(incarnation)),
        votes = votes == "votes", saved = saved ~= "" and saved or nil}
end

-- Removes what interrupted writes have left.
local function tidy(folder)
    local names, message, code = file.list(folder)
    if not names then return nil, message, code end
    for _, name in ipairs(names) do
        local known = name == "member" or name == "bounds" or name == "roll" or name:find "^log%-"
            or name:find "^vote%-%x+$"
        local ok = true
        if not known then ok, message, code = file.remove(folder .. "/" .. name) end
        if not ok and code == "cancelled" then return nil, message, code end
    end
    return true
end

--- The very first start of a member of this group.
function state.found(folder, digest)
    local ok, message, code = make_folder(folder)
    if not ok then return nil, message, code end
    local founded
    founded, message, code = file.exists(folder .. "/member") -- if unknown: it may have votes
    if founded then
        return nil, ("%s has the state of a member: it was founded before"):format(folder), "exists"
    end
    if founded == nil then return nil, message, code end
    return write_member(folder, {digest = digest, incarnation = 0, votes = true})
end

--- Reads what is there, and counts this start: {digest =, incarnation =, votes =, saved =}. With
--- `lost`, a member that has nothing begins, and does not vote.
function state.open(folder, digest, lost)
    local kept
    local text, message, code = read(folder .. "/member")
    if not text and code == "noname" and lost then
        local ok, why, what = make_folder(folder)
        if not ok then return nil, why, what end
        kept = {digest = digest, incarnation = os.time(), votes = false}
    elseif not text and code == "noname" then -- os.time is larger than the count of any life before
        return nil, ("there is no state of a member in %s. The first time, found the group: "
            .. "group.found, once on each member; if this member has lost its state, join with "
            .. "'lost = true'"):format(folder), "nostate"
    elseif text then
        kept, message, code = parse_member(folder, text, digest)
    end
    if not kept then return nil, message, code end
    local ok, problem, word = tidy(folder)
    kept.incarnation = kept.incarnation + 1
    if ok then ok, problem, word = write_member(folder, kept) end
    if not ok then return nil, problem, word end
    return kept
end

--- Writes what the locks of this member must not forget. It is on the disk when this returns.
function state.save(folder, kept, data)
    kept.saved = data
    return write_member(folder, kept)
end

--- What locks by other algorithms have kept in this generation, by algorithm; or nil, message,
--- code.
function state.open_more(folder, generation)
    local text, message, code = read(folder .. "/bounds")
    if not text and code ~= "noname" then return nil, message, code end
    local more = text and party._unpack(text)
    if more and (more.generation or 0) == generation then return more end
    return {generation = generation}
end

function state.save_more(folder, more) return write(folder .. "/bounds", party._pack(more)) end

local function path_of(folder, lock)
    return ("%s/vote-%s"):format(folder, lock:gsub(".", function(c)
        return ("%02x"):format(c:byte())
    end))
end

--- What one lock has kept in its own file; nil, message, code: `noname` if there is none.
function state.read_lock(folder, lock) return read(path_of(folder, lock)) end

function state.save_lock(folder, lock, data) return write(path_of(folder, lock), data) end

state.read, state.write, state.make_folder = read, write, make_folder

return state
