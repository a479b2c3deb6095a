-- SPDX-License-Identifier: MIT
-- Remembers hosts that have failed to come in, and ignores them for a while: longer each time. Also
-- limits how many handshakes each host may have at the same time, and how many lines of the log.
-- Part of the process that keeps a node: see _keeper.lua.
local failures = {
    most = 10000, -- the most origins that are remembered; an attacker with more gets past this
    count = 0,
}

local MISTAKES, PENALTY, WORST, FORGIVEN = 3, 1, 30, 60 -- failures in a row; then seconds
local SHARE = 64 -- the most handshakes of one origin, out of the 256 of a node
local QUIET = 1 -- seconds between lines of the log, once the first lines are used up

local known, swept = {}, -math.huge -- by origin: {times, failed, last, ...}

--- The origin of a host: hosts that count as one. An IPv6 host owns the 2^64 addresses of its
--- network.
function failures.origin(host)
    if not host:find(":", 1, true) or host:find "^::" or host:find "^fe80:" then return host end
    local head, tail = host:match "^(.-)::(.*)$"
    local groups, rest = {}, {}
    for group in (head or host):gmatch "%x+" do groups[#groups + 1] = group end
    for group in (tail or ""):gmatch "%x+" do rest[#rest + 1] = group end
    for _ = #groups + #rest + 1, 8 do groups[#groups + 1] = "0" end
    table.move(rest, 1, #rest, #groups + 1, groups)
    return table.concat(groups, ":", 1, 4) .. "::/64"
end

local function is_forgiven(theirs, now) return now - theirs.failed > FORGIVEN end

local function forget(origin)
    if known[origin] then known[origin], failures.count = nil, failures.count - 1 end
end

-- Called only now and then: it looks at all origins.
local function sweep(now)
    if failures.count >= failures.most then known, failures.count = {}, 0 end
    if now - swept <= FORGIVEN then return end
    swept = now
    for origin, theirs in pairs(known) do
        if now - theirs.last > FORGIVEN then forget(origin) end
    end
end

local function entry(host, now)
    local origin = failures.origin(host)
    local theirs = known[origin]
    if not theirs then
        sweep(now)
        theirs = {times = 0, failed = -math.huge, told = -math.huge, untold = 0}
        known[origin], failures.count = theirs, failures.count + 1
    end
    theirs.last = now
    return theirs
end

--- Notes one more failure.
function failures.note(host, now)
    local theirs = entry(host, now)
    theirs.times = is_forgiven(theirs, now) and 1 or theirs.times + 1
    theirs.failed = now
end

--- Whether a line about a host or a node may go to the log: else anybody could fill the disk.
--- `at_once` lines may go at once, and then one a second. Returns nil if not; else the end of the
--- line, which tells how many lines before it were left out.
function failures.line(whom, now, at_once)
    local theirs = entry(whom, now)
    if theirs.told > now + (at_once - 1) * QUIET then
        theirs.untold = theirs.untold + 1
        return nil
    end
    local more = theirs.untold > 0 and (" (and %d more since the last line)"):format(theirs.untold)
    theirs.told, theirs.untold = math.max(theirs.told, now) + QUIET, 0
    return more or ""
end

local shaking = {} -- by origin: how many of its handshakes are under way

local Place = {__close = function(place)
    local left = shaking[place.origin] - 1
    shaking[place.origin] = left > 0 and left or nil
end}

-- Only a program on this machine could use up their share; and a machine may have many nodes.
local HERE = {["127.0.0.1"] = true, ["::1"] = true, ["a local program"] = true}

--- Takes a place for a handshake, to be closed after it; nil: its origin has its share already. So
--- a host that connects and says nothing cannot keep out all others.
function failures.place(host)
    local origin = failures.origin(host)
    local taken = shaking[origin] or 0
    if taken >= SHARE and not HERE[host] then return nil end
    shaking[origin] = taken + 1
    return setmetatable({origin = origin}, Place)
end

--- For how many more seconds a host is ignored.
function failures.penalty(host, now)
    local theirs = known[failures.origin(host)]
    if not theirs or is_forgiven(theirs, now) or theirs.times <= MISTAKES then return 0 end
    local pause = math.min(PENALTY << math.min(theirs.times - MISTAKES - 1, 10), WORST)
    return math.max(theirs.failed + pause - now, 0)
end

--- A host has come in: forgets its failures.
function failures.forgive(host)
    forget(failures.origin(host))
end

return failures
