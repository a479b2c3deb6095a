-- SPDX-License-Identifier: MIT
-- Who is there, as a node knows it, and the news of it that go from node to node. Part of the
-- process that keeps a node: see _keeper.lua.
local mare = require "mare"

local KNOWN, PAUSE = 10000, 0.2 -- nodes that are remembered; seconds between news of them

local members = {
    by_name = {}, -- {address, incarnation, session, service, behind, ...}
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
    local list = {{self.name, self.address or "", self.incarnation}}
    for name, member in pairs(members.by_name) do
        if member.incarnation then
            list[#list + 1] = {name, member.address or "", member.incarnation}
        end
    end
    return list
end

-- ---- Spreading ----------------------------------------------------------------------------------
-- News go to every neighbour: at once if there were none lately, else with those that come before
-- the pause is over. One that cannot take them now gets all there is the next time.

local fresh, source, told, due = {}, nil, -math.huge, false -- source: who told all of it, if one
local spread

local function spread_later(seconds)
    if due then return end
    due = true
    mare.go(function()
        mare.sleep(seconds)
        due = false
        spread()
    end)
end

function spread()
    local since = mare.now() - told
    if since < PAUSE then return spread_later(PAUSE - since) end
    local list, from, behind, all = {}, source, false, nil
    for _, item in pairs(fresh) do list[#list + 1] = item end
    fresh, source, told = {}, nil, mare.now()
    for name, member in pairs(members.by_name) do
        if member.session and (member.behind or list[1] and name ~= from) then
            all = all or member.behind and members.news()
            member.behind = not member.service:trysend(nil, "gossip", member.behind and all or list)
            behind = behind or member.behind
        end
    end
    if behind then spread_later(PAUSE) end
end

--- These are news, from a node of this name.
function members.tell(list, from)
    source = (next(fresh) == nil or source == from) and from or false
    for _, item in ipairs(list) do fresh[item[1]] = item end
    spread()
end

--- A peer has sent a list.
function members.hear(list, from)
    local learned = {}
    for _, item in ipairs(list) do
        local name, address, incarnation = item[1], item[2], item[3]
        local sane = type(name) == "string" and #name <= 63 and type(address) == "string"
            and #address <= 255 and math.type(incarnation) == "integer"
            and (members.by_name[name] or known < KNOWN)
        if sane and members.learn(name, address, incarnation) then
            learned[#learned + 1] = {name, address, incarnation}
        end
    end
    if learned[1] then members.tell(learned, from) end
end

return members
