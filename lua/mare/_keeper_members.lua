-- SPDX-License-Identifier: MIT
-- The nodes that this node knows of, and the news about nodes that they send each other. Part of
-- the process that keeps a node: see _keeper.lua.
local mare, node = require "mare", require "mare.node"

local KNOWN, FEW = 10000, 100 -- the most nodes remembered; with so few, all are told at once
local ITEM = "<s1s1j" -- one node in a string of news: name, address or "", incarnation
local PAUSE, LONGEST = 0.2, 10 -- seconds between news; until a peer that took none is tried again

local members = {
    by_name = {}, -- {address, incarnation, session, service, behind, pause, again, ...}
}

local self      -- the options of this node
local known = 0 -- how many nodes are known

function members.begin(options) self = options end

function members.is_name(name)
    return #name <= 63 and name:find "^%w[%w._-]*%+?%w*$" ~= nil
end

-- The port of a node that listens on all addresses of its machine; nil: it does not. Such a node
-- cannot know which of these addresses others can use.
local function anywhere(address)
    return address:match "^0%.0%.0%.0:(%d+)$" or address:match "^%[::%]:(%d+)$"
end

--- Whether a program at this host is on this machine. `dialled`: the host is a whole address.
function members.is_near(host, dialled)
    if dialled then return node._is_local(host) ~= nil end
    return host == "a local program" or host:find "^127%." ~= nil or host == "::1"
        or host:find "^::ffff:127%." ~= nil
end

-- Whether an address means the machine of whoever reads it: a path, or a loopback address however
-- it is written. (A name that leads there is not recognised.)
local function is_relative(address)
    local host = address:match "^%[([^%]]*)%]:%d+$" or address:match "^([^:]*):%d+$"
    if not host or host == "" or host:lower():find "localhost" then return true end
    if host:find ":" then return host:find "^[0:]" ~= nil end
    if not host:find "^[%d.]+$" and not host:find "^0[xX][%x.xX]*$" then return false end
    return host:find "^0" ~= nil or host:find "^127%." ~= nil
        or not host:find "^%d+%.%d+%.%d+%.%d+$"
end

--- An address that a node has told, of itself or of others. One on another machine could make us
--- dial programs of this machine that only we can reach: then it is "".
function members.believed(address, near)
    return (near or not is_relative(address)) and address or ""
end

--- The address where a node can be dialled: the one that it told. If it listens on all addresses,
--- its port at the host where it was met. If it was dialled, the host is part of an address. "" if
--- the address is not to be believed.
function members.where(told, host, dialled)
    local port = anywhere(told)
    if not port then return members.believed(told, members.is_near(host, dialled)) end
    if dialled then host = host:match "^(.+):%d+$" end
    if not host or host:find "[ /]" then return "" end -- it was not met over the network
    if host:find ":" and not host:find "^%[" then host = "[" .. host .. "]" end
    return host .. ":" .. port
end

--- News of a node. Returns true if it was new.
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

--- All that is known, as news.
function members.news()
    local mine = self.address or ""
    local list = {ITEM:pack(self.name, anywhere(mine) and "" or mine, self.incarnation)}
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

-- fresh: what is new, by name, as it is sent. source: the node that told all of it, if it was one.
-- told: when news were last sent. due: when they will be sent next.
local fresh, source, told, due = {}, nil, -math.huge, math.huge
local spread

local function spread_by(time)
    if due <= time then return end
    due = time
    mare.go(function()
        mare.sleep(time - mare.now())
        if due ~= time then return end -- another routine sends earlier
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

--- A node has connected, and knows of no other node yet.
function members.greet(member)
    member.behind, member.pause, member.again = true, PAUSE, -math.huge
    if known <= FEW then give(member, members.news()) end
end

local function note(from, name, address, incarnation)
    source = (next(fresh) == nil or source == from) and from or false
    fresh[name] = ITEM:pack(name, address, incarnation)
end

--- Tells the others something new, from a node of this name.
function members.tell(from, ...)
    note(from, ...)
    spread()
end

--- A peer, which is on this machine or not, has sent news. Senseless parts are left out.
function members.hear(items, from, near)
    local at, learned = 1, false
    while type(items) == "string" and at <= #items do
        local read, name, address, incarnation, behind = pcall(ITEM.unpack, ITEM, items, at)
        if not read then break end
        at = behind
        local sane = members.is_name(name) and not address:find "%c" and
            (members.by_name[name] or known < KNOWN)
        if sane then address = anywhere(address) and "" -- as older versions send it
            or members.believed(address, near) end
        if sane and members.learn(name, address, incarnation) then
            note(from, name, address, incarnation)
            learned = true
        end
    end
    if learned then spread() end
end

return members
