-- SPDX-License-Identifier: MIT
-- Who is there, as a node knows it, and the news of it that go from node to node. Part of the
-- process that keeps a node: see _keeper.lua.
local mare = require "mare"

local KNOWN, FEW = 10000, 100 -- nodes that are remembered; so many that all may hear of all at once
local ITEM = "<s1s1j" -- in news, which are one string: name, address or "", incarnation
local PAUSE, LONGEST = 0.2, 10 -- seconds between news; and until one who took none is tried again

local members = {
    by_name = {}, -- {address, incarnation, session, service, behind, pause, again, ...}
}

local self      -- the options of this node
local known = 0 -- how many

function members.begin(options) self = options end

--- News of a node: true if it is.
function members.learn(name, address, incarnation)
    if name == self.name or type(name) ~= "string" then return false end
    local member = members.by_name[name]
    if member and member.incarnation >= incarnation and (member.address or address == "") then
        return false
    end
    if not member then
        member, known = {}, known + 1
        members.by_name[name] = member
    end
    member.incarnation = math.max(incarnation, member.incarnation or 0)
    if address ~= "" then member.address = address end
    return true
end

function members.forget(name)
    members.by_name[name], known = nil, known - 1
end

--- All that is known.
function members.news()
    local list = {ITEM:pack(self.name, self.address or "", self.incarnation)}
    for name, member in pairs(members.by_name) do
        if member.incarnation then
            list[#list + 1] = ITEM:pack(name, member.address or "", member.incarnation)
        end
    end
    return table.concat(list)
end

-- ---- Spreading ----------------------------------------------------------------------------------
-- News go to every neighbour: at once if there were none lately, else with those that come before
-- the pause is over. One that is `behind`, new or unable to take them now, gets all there is: the
-- next time, or after a longer and longer pause, for that costs a message as long as the list.

-- What is new, by name, as it is sent; who told all of it, if one did; when the last was sent, and
-- when the next will be.
local fresh, source, told, due = {}, nil, -math.huge, math.huge
local spread

local function spread_by(time)
    if due <= time then return end
    due = time
    mare.go(function()
        mare.sleep(time - mare.now())
        if due ~= time then return end -- it was earlier
        due = math.huge
        spread()
    end)
end

local function give(member, items)
    if member.service:trysend(nil, "gossip", items) then
        member.behind, member.pause = false, PAUSE
    else
        member.behind, member.again = true, mare.now() + member.pause
        member.pause = math.min(2 * member.pause, LONGEST)
    end
end

function spread()
    if mare.now() < told + PAUSE then return spread_by(told + PAUSE) end
    local list, from, next_try, all = {}, source, math.huge, nil
    for _, item in pairs(fresh) do list[#list + 1] = item end
    local items = table.concat(list)
    fresh, source, told = {}, nil, mare.now()
    for name, member in pairs(members.by_name) do
        if member.session and member.behind then
            if member.again <= told then
                all = all or members.news()
                give(member, all)
            end
        elseif member.session and items ~= "" and name ~= from then
            give(member, items)
        end
        if member.session and member.behind then next_try = math.min(next_try, member.again) end
    end
    if next_try < math.huge then spread_by(math.max(told + PAUSE, next_try)) end
end

--- A node has come, which knows of nobody yet.
function members.greet(member)
    member.behind, member.pause, member.again = true, PAUSE, -math.huge
    if known <= FEW then give(member, members.news()) end
end

local function note(from, name, address, incarnation)
    source = (next(fresh) == nil or source == from) and from or false
    fresh[name] = ITEM:pack(name, address, incarnation)
end

--- This is news, from a node of this name.
function members.tell(from, ...)
    note(from, ...)
    spread()
end

--- A peer has sent news. What makes no sense is left out.
function members.hear(items, from)
    local at, learned = 1, false
    while type(items) == "string" and at <= #items do
        local read, name, address, incarnation, behind = pcall(ITEM.unpack, ITEM, items, at)
        if not read then break end
        at = behind
        local sane = #name <= 63 and (members.by_name[name] or known < KNOWN)
        if sane and members.learn(name, address, incarnation) then
            note(from, name, address, incarnation)
            learned = true
        end
    end
    if learned then spread() end
end

return members
