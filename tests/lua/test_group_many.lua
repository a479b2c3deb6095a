-- SPDX-License-Identifier: MIT
-- A group of real programs so large that only seven of them keep its lease: one of the others takes
-- a lock and dies, the seventh is removed, and in the end so few are left that all keep it.
local group, t = require "mare.group", require "t"
local peers, cases = require "peers", require "group_cases"

local LEASE = t.slow
local NAMES = {"home"}
for i = 1, 16 do NAMES[i + 1] = ("m%02d"):format(i) end -- home and m01 to m06 keep the lease

local PEER = [[
    local group = require "mare.group"
    if FOUNDS then assert(group.found("bank", OPTIONS)) end
    local bank = assert(group.join("bank", OPTIONS))
    local orders = mare.channel(4, "orders")
    local lock
    print "joined"
    for what, a in orders:messages() do
        if what == "lock" then
            lock = bank:lock("x", 1)
            print(lock and lock:fence() or "none")
        elseif what == "release" then
            lock:release()
            print "released"
        else
            for _, member in ipairs(bank:members()) do
                if member.name == a then print(member.state) end
            end
        end
    end
]]

local function options_of(folder, name)
    return {members = NAMES, folder = folder .. "/" .. name, lease = LEASE, timeout = t.patience}
end

local function start(home, folder, name, founds)
    local words = {OPTIONS = peers.source(options_of(folder, name)), FOUNDS = tostring(founds)}
    local made = peers.join(home, {name = name, listen = "127.0.0.1:0"},
        (PEER:gsub("%u%u%u+", words)))
    t.eq(made.line(), "joined")
    made.orders = peers.find("orders@" .. name)
    return made
end

-- Another member takes the lock, and keeps it.
local function fence_of(who)
    local number
    t.reaches(function()
        who.orders:send("lock")
        number = math.tointeger(tonumber(who.line()))
        return number
    end, "the lock there")
    return number
end

local function sees(who, name, state)
    t.reaches(function()
        who.orders:send("state", name)
        return who.line() == state
    end, ("%s %s"):format(name, state))
end

local function remove(bank, name)
    local ok, message
    t.reaches(function()
        ok, message = bank:remove(name, t.patience)
        return ok
    end, name)
    t.ok(ok, message)
end

return {
    seven_keep_the_lease_of_seventeen = {t.in_folder(function(folder)
        local home <close> = peers.home()
        t.ok(group.found("bank", options_of(folder, "home")))
        local bank <close> = cases.join("bank", options_of(folder, "home"))
        local all <close> = setmetatable({}, {__close = function(list)
            for _, peer in pairs(list) do peer.child:close() end
        end})
        for i = 2, #NAMES do all[NAMES[i]] = start(home, folder, NAMES[i], true) end

        local fence = fence_of(all.m16) -- it keeps no lease but its own
        all.m16.signal "KILL"
        t.ok(all.m16.child:wait(t.patience))
        local later = cases.fence(bank)
        t.ok(later > fence, later)
        sees(all.m15, "m16", "down") -- neither keeps it: one hears of the other by the seven
        all.m16.child:close()
        all.m16 = start(home, folder, "m16", false)
        sees(all.m15, "m16", "up")
        sees(all.m16, "m15", "up")

        remove(bank, "m06") -- m07 keeps the lease now
        fence = fence_of(all.m16)
        t.ok(fence > later, fence)
        all.m16.orders:send "release"
        t.eq(all.m16.line(), "released")
        remove(bank, "m05") -- there are fifteen: all keep it
        later = cases.fence(bank)
        t.ok(later > fence, later)
        t.ok(fence_of(all.m15) > later)
        sees(all.m16, "m01", "up")
    end), timeout = 300},
}
