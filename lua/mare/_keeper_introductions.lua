-- SPDX-License-Identifier: MIT
-- References to a third node's objects. When node b sends node c a reference to an object of node
-- a, b introduces c to a, and c claims the object there. See src/node/introduce.c. Part of the
-- process that keeps a node: see _keeper.lua.
local mare, raw, news = require "mare", require "mare._node", require "mare._keeper_members"

local PATIENCE, AGAIN = 5, 10 -- the least seconds to claim; seconds until a failed node is retried
local DIALS, FAILED = 16, 1000 -- the most nodes dialled for claims at once; remembered as failed
local TRIALS = 16 -- dials in vain for one introducer; one more after each AGAIN seconds
local KEPT, MOST = 30, 4096 -- seconds that an unclaimed object is kept; the most of one node
local CROWD = 256 -- the most claims of a node that may wait for their introductions
local TIDY = 2 -- seconds until references that passed through here are collected

local introductions = {}

local patience = PATIENCE -- as long as a slow node may take before it counts as lost
local here = {}     -- by node: how many of its sessions are served; only these introduce
local given = {}    -- by key: {object, secret, from = introducer, due}
local counts = {}   -- by introducer: how many objects in `given`
local early = {}    -- by key: {reply, secret, from = claimant, introducer, clock}
local crowds = {}   -- by claimant: how many claims in `early`
local failed, failures = {}, 0 -- by node: when it could not be reached
local meeting, dials = {}, 0 -- by node that is dialled: how many claims wait for it
local wasted, wasters = {}, 0 -- by introducer: the time when the next dial in vain is due
local sweeping, tidying = false, false

local function key_of(introducer, claimant, number)
    return ("s1s1j"):pack(introducer, claimant, number)
end

local function count(counters, name, change)
    local now = (counters[name] or 0) + change
    counters[name] = now > 0 and now or nil
end

-- A reference that this process has seen keeps its object until it is collected. This process makes
-- so little garbage that this could take long. So it collects.
local function tidy()
    if tidying then return end
    mare.go(function()
        mare.sleep(TIDY)
        tidying = false
        collectgarbage()
    end)
    tidying = true -- set after mare.go, which raises an error without memory
end

--- Called when a node begins. After `silence` seconds, and not before, a silent peer counts as
--- lost.
function introductions.begin(silence) patience = math.max(PATIENCE, silence) end

-- ---- At home ------------------------------------------------------------------------------------

local function forget(key)
    count(counts, given[key].from, -1)
    given[key] = nil
end

-- Forgets objects that nobody has claimed.
local function sweep()
    while next(given) do
        mare.sleep(KEPT / 4)
        for key, mine in pairs(given) do
            if mine.due < mare.now() then
                forget(key)
                tidy()
            end
        end
    end
    sweeping = false
end

-- Gives the object to the claimant that has come for it, if its secret is right.
local function hand_over(key, reply, secret)
    local mine = given[key]
    if not raw._same(mine.secret, secret) then return false end
    forget(key)
    reply:trysend(true, mine.object)
    tidy()
    return true
end

-- Raises an error, which is logged, if a peer has sent something that cannot be a secret.
local function check_secret(secret)
    assert(type(secret) == "string" and #secret == 16, "no secret of an introduction")
end

-- Nobody has introduced it, or nobody will.
local function refuse(reply) reply:trysend(nil, "nothing was introduced", "noname") end

local function take_early(key)
    local waiting = early[key]
    early[key] = nil
    count(crowds, waiting.from, -1)
    waiting.clock:cancel()
    return waiting
end

--- A session of a peer begins: its requests are served from now on.
function introductions.come(from) count(here, from, 1) end

--- A session has ended, and all its requests were served.
function introductions.go(from)
    count(here, from, -1)
    if here[from] then return end
    for key, waiting in pairs(early) do
        if waiting.introducer == from then refuse(take_early(key).reply) end
    end
end

--- Node `from` has passed on an object of ours to node `whom`.
function introductions.add(from, object, number, secret, whom)
    check_secret(secret)
    raw.home(object) -- raises an error if it is not a reference: large values are not kept
    if (counts[from] or 0) >= MOST then return end
    local key = key_of(from, whom, number)
    if given[key] then return end
    given[key] = {object = object, secret = secret, from = from, due = mare.now() + KEPT}
    count(counts, from, 1)
    local waiting = early[key]
    if waiting and hand_over(key, waiting.reply, waiting.secret) then
        take_early(key)
    elseif not sweeping then
        mare.go(sweep)
        sweeping = true -- set after mare.go, as in `tidy`
    end
end

--- Node `from` claims what `introducer` has introduced it to. Returns whether the secret was wrong.
function introductions.claim(from, reply, introducer, number, secret)
    check_secret(secret)
    assert(type(reply) == "userdata" and tostring(reply):find "^channel ", "no channel to answer")
    local key = key_of(introducer, from, number)
    if given[key] then
        if hand_over(key, reply, secret) then return false end
        reply:trysend(nil, "that is not the secret", "denied")
        return true
    elseif early[key] or not here[introducer] or (crowds[from] or 0) >= CROWD then
        refuse(reply)
        return false
    end
    local waiting = {reply = reply, secret = secret, from = from, introducer = introducer}
    waiting.clock = mare.go(function()
        mare.sleep(patience)
        if early[key] == waiting then refuse(take_early(key).reply) end
    end)
    early[key] = waiting -- set last, as in `tidy`: the clock is a routine
    count(crowds, from, 1)
    return false
end

-- ---- At the others ------------------------------------------------------------------------------

local function introduced(session)
    session:_introduced()
    tidy()
end

--- A session has passed on an object to node `whom`: tells the object's home.
function introductions.introduce(members, session, whom, object, number, secret)
    local member = members[raw.home(object)]
    local service = member and member.service
    local code
    if service then
        code = select(3, service:trysend(nil, "introduce", object, number, secret, whom))
    end
    if code ~= "full" then return introduced(session) end
    mare.go(function()
        service:sendwithin(patience, nil, "introduce", object, number, secret, whom)
        introduced(session)
    end)
end

-- Notes that a dial for an introducer was in vain. Else one that makes up nodes and addresses could
-- use us to look for programs in our network.
local function waste(introducer)
    if not wasted[introducer] then
        if wasters >= FAILED then wasted, wasters = {}, 0 end
        wasters = wasters + 1
    end
    wasted[introducer] = math.max(wasted[introducer] or -math.huge, mare.now()) + AGAIN
end

-- Waits until there is a session with a node. The introducer has told its address.
local function meet(members, reach, introducer, home, address, deadline)
    local again, first = (failed[home] or -math.huge) + AGAIN, not meeting[home]
    if first and dials >= DIALS or mare.now() < again then return end
    introducer = introducer:match "^[^+]*" -- one certificate is good for many such names
    if (wasted[introducer] or -math.huge) > mare.now() + (TRIALS - 1) * AGAIN then return end
    local member, reached = members[home], mare.channel(1)
    local known = member and member.address
    if first then dials = dials + 1 end
    count(meeting, home, 1)
    reach(home, not known and address ~= "" and address or nil, reached)
    local fine = reached:receive(deadline)
    count(meeting, home, -1)
    if not meeting[home] then dials = dials - 1 end
    if fine then
        failed[home] = nil
    else
        if failures >= FAILED then failed, failures = {}, 0 end
        if not failed[home] then failures = failures + 1 end
        failed[home] = mare.now()
        if first and (known or address ~= "") then waste(introducer) end
    end
end

-- Claims the object at its home: the object, or nil.
local function claim(members, reach, near, introducer, home, incarnation, address, number, secret)
    local deadline, believed = mare.deadline(patience), news.believed(address, near)
    local member = members[home]
    if not (member and member.session) then
        meet(members, reach, introducer, home, believed, deadline)
        member = members[home]
    end
    -- If the home was restarted, its objects are gone.
    if not (member and member.service) or member.life ~= incarnation then return nil end
    local reply, over = mare.channel(1), member.over
    if not member.service:sendwithin(deadline, reply, "claim", introducer, number, secret) then
        return nil
    end
    local which, ok, object = mare.select({reply, over}, deadline)
    return which == 1 and ok and object or nil
end

--- A session has got a reference from a node, which is on this machine or not, to an object of
--- another node.
function introductions.claimed(members, reach, session, near, number, ...)
    local ok, object = pcall(claim, members, reach, near, ...)
    session:_claimed(number, ok and object or nil)
    tidy()
end

return introductions
