-- SPDX-License-Identifier: MIT
-- Locks and elections of groups by each algorithm that can be chosen: on real nodes, frozen,
-- killed, restarted with and without their folders, all at once; and members that do not agree.
local group, file, t = require "mare.group", require "mare.file", require "t"
local peers, cases, party = require "peers", require "group_cases", require "mare._party"
local join = cases.join

local LONG, SHORT = 3600, 0.4 * t.slow
local MEMBERS = {"flow", "home", "neap"}
local BOUNDED = {"central", "ricart", "token"} -- what is kept for all locks of one is a bound

local all = {}

-- What is promised of every engine, for the lock `x` by this algorithm.
local function suite(algorithm)
    return cases.of {
        options = function(folder, names, lease)
            return {members = names, folder = folder, lease = lease, algorithm = {x = algorithm}}
        end,
        algorithm = algorithm,
        long = LONG,
        short = SHORT,
        lose = function(peer) peer.signal "STOP" end,
        find = function(peer) peer.signal "CONT" end,
    }
end

for _, algorithm in ipairs(BOUNDED) do
    local cases_of = suite(algorithm)
    for _, name in ipairs {"a_lock_is_had_and_given_back", "one_at_a_time_among_three_nodes",
        "frozen_killed_restarted_cut_off"} do
        all[("%s_%s"):format(name, algorithm)] = cases_of[name]
    end
end
all.one_at_a_time_among_three_nodes_voting = suite "voting".one_at_a_time_among_three_nodes

-- ---- Three programs -----------------------------------------------------------------------------

local PEER = [[
    local group = require "mare.group"
    local options = OPTIONS
    if FOUNDS then assert(group.found("bank", options)) end
    local bank = assert(group.join("bank", options))
    local orders, held = mare.channel(4, "orders"), {}
    print "joined"
    for what, a, b in orders:messages() do
        if what == "lock" then
            local lock, message, code = bank:lock(a, b)
            held[a] = lock
            print(lock and lock:fence() or code or "lost", (message or ""):gsub("\n.*", ""))
        elseif what == "release" then
            held[a]:release()
            print "released"
        elseif what == "count" then
            print(#bank:locks())
        elseif what == "elect" then
            held[a] = bank:election(a, b)
            print "stands"
        elseif what == "change" then
            local leader, epoch, code = held[a]:change(b)
            print(leader, epoch, code)
        elseif what == "resign" then
            held[a]:resign()
            print "resigned"
        elseif what == "disagrees" then
            for _, member in ipairs(bank:members()) do
                if member.disagrees then print(member.name, member.disagrees) end
            end
            print "."
        end
    end
]]

local function options_of(folder, name, algorithm, lease, more)
    local options = {members = MEMBERS, folder = folder .. "/" .. name, lease = lease,
        algorithm = algorithm}
    for key, value in pairs(more or {}) do options[key] = value end
    return options
end

local function peer(home, folder, name, algorithm, lease, founds, more)
    local words = {OPTIONS = peers.source(options_of(folder, name, algorithm, lease, more)),
        FOUNDS = tostring(founds)}
    local made = peers.join(home, {name = name, listen = "127.0.0.1:0"},
        PEER:gsub("%u%u%u+", words))
    made.orders = peers.find("orders@" .. name)
    t.eq(made.line(), "joined")
    return made
end

-- Has the lock there, whatever noise does to short leases. Returns the fencing number.
local function held_by(who, name)
    local number
    t.reaches(function()
        who.orders:send("lock", name, 1)
        number = math.tointeger(tonumber(who.line():match "^(%d+)\t"))
        return number
    end, "the lock")
    return number
end

local function held_here(bank, name)
    local lock, number
    t.reaches(function()
        lock = bank:lock(name, 1)
        number = lock and lock:fence()
        return number
    end, "the lock here")
    return number, lock
end

-- All are killed at once and come back: nobody was there all the time, and still they go on, with
-- larger numbers; also for a lock that was never used before.
local function all_killed(algorithm)
    return {t.in_folder(function(folder)
        local home <close> = peers.home()
        local by = {x = algorithm, y = algorithm ~= "token" and algorithm or "ricart"}
        local here = options_of(folder, "home", by, SHORT)
        t.ok(group.found("bank", here))
        local fence = 0
        for round = 1, 2 do
            local flow <close> = peer(home, folder, "flow", by, SHORT, round == 1)
            local neap <close> = peer(home, folder, "neap", by, SHORT, round == 1)
            local bank <close> = join("bank", here)
            for _, who in ipairs {flow, neap} do
                local number = held_by(who, "x")
                t.ok(number > fence, ("round %d: %d after %d"):format(round, number, fence))
                fence = number
                who.orders:send("release", "x")
                t.eq(who.line(), "released")
            end
            for _ = 1, round == 1 and 40 or 1 do -- so that a count that begins anew is seen
                local number, lock = held_here(bank, "x")
                t.ok(number > fence)
                fence = number
                lock:release()
            end
            if round == 2 then held_here(bank, "y") end
            flow.signal "KILL"
            neap.signal "KILL"
            flow.child:wait(t.patience)
            neap.child:wait(t.patience)
        end
    end), timeout = 120}
end

for _, algorithm in ipairs {"majority", "central", "ricart", "token", "voting"} do
    all["all_killed_at_once_go_on_" .. algorithm] = all_killed(algorithm)
end

-- One that has lost its folder takes part, and its word does not count: with two of three that
-- remember the others go on; of two that are there, one of which has forgotten, none does.
all.one_that_has_forgotten_does_not_count = {t.in_folder(function(folder)
    local home <close> = peers.home()
    local here = options_of(folder, "home", "ricart", SHORT)
    t.ok(group.found("bank", here))
    local flow <close> = peer(home, folder, "flow", "ricart", SHORT, true)
    local neap <close> = peer(home, folder, "neap", "ricart", SHORT, true)
    local fence
    do
        local bank <close> = join("bank", here)
        fence = held_here(bank, "x")
    end
    neap.signal "KILL"
    neap.child:wait(t.patience)
    file.remove(folder .. "/neap", {tree = true})
    local lost <close> = peer(home, folder, "neap", "ricart", SHORT, false, {lost = true})
    local bank <close> = join("bank", here) -- all have lost their leases or lives since
    local number, lock = held_here(bank, "x")
    t.ok(number > fence)
    lock:release()
    fence = held_by(lost, "x") -- it may ask
    t.ok(fence > number)
    lost.orders:send("release", "x")
    t.eq(lost.line(), "released")
    flow.signal "KILL"
    local message, code, _
    t.reaches(function() -- until the lease of flow is over, others may be waited for
        lock, message, code = bank:lock("x", 0.2)
        if lock then lock:release() end
        return not lock
    end, "no lock any more")
    t.ok(code == "timeout" or code == "noquorum", message)
    bank:leave()
    local later <close> = join("bank", here) -- it has to ask, and only one remembers
    t.reaches(function()
        _, message, code = later:lock("x", 0.2)
        return code == "noquorum" and message:find "too few members that remember"
    end, "the reason")
    local again <close> = peer(home, folder, "flow", "ricart", SHORT, false)
    t.ok(held_by(again, "x") > fence)
    t.reaches(function() -- now another one has it, and that is all
        lock, message, code = later:lock("x", 0.2)
        return code == "timeout"
    end, message)
    again.orders:send("release", "x")
    t.eq(again.line(), "released")
    t.ok(held_here(later, "x") > fence)
end), timeout = 120}

-- A lock that begins in a later life goes on from what was on the disk then, not from where the
-- others have come since: so all come to the same, and the first one's write is for all of them.
function all.locks_of_a_later_life_share_a_write()
    local member = party._member {members = 1, voters = 1, keepers = 1, self = 1, founds = 1,
        first = 0, incarnation = 2, seed = 1, lease_us = 200000, beat_us = 40000, drift_ppm = 0,
        retry_us = 40000}
    t.eq(member:_step(1, nil, "start"), "ok")
    for _, algorithm in ipairs(BOUNDED) do
        local writes = {}
        for i = 1, 3 do
            writes[i] = 0
            for _, effect in ipairs(member:_add(2, algorithm .. i, algorithm)) do
                if effect.what == "save" then writes[i] = writes[i] + 1 end
            end
        end
        t.eq(writes, {1, 0, 0}, algorithm)
    end
end

-- A vote that cannot be read is the end of one lock here, and not of the member.
all.a_damaged_vote_is_refused_and_the_rest_goes_on = t.in_folder(function(folder)
    local _ <close> = peers.home()
    local options = {members = {"home"}, folder = folder, lease = LONG, algorithm = "voting"}
    local path = folder .. "/group-bank/vote-78"
    t.ok(group.found("bank", options))
    local fence
    do
        local bank <close> = join("bank", options)
        fence = t.ok(bank:lock("x", t.patience)):fence()
        t.ok(bank:lock("y", t.patience))
    end
    local good = t.ok(file.read(path))
    t.ok(file.write(path, good:sub(1, -2) .. string.char(good:byte(-1) ~ 1)))
    options.lease = 0.2 -- until it votes again
    local bank <close> = join("bank", options)
    local _, message, code = bank:lock("x", t.patience)
    t.eq(code, "corrupt")
    t.ok(message:find(path, 1, true) and message:find("Restore", 1, true), message)
    t.ok(held_here(bank, "z"))
    t.ok(file.write(path, t.ok(file.read(folder .. "/group-bank/member")))) -- of something else
    _, message, code = bank:lock("x", t.patience)
    t.eq(code, "corrupt")
    t.ok(message:find "is not of this member.*Restore.*'lost = true'", message)
    t.ok(file.write(path, good)) -- as it was
    t.ok(held_here(bank, "x") > fence)
end)

-- What was used once costs nothing on any member; used again, its numbers go on. Also in a later
-- life, where all have to be asked about a lock that is new.
local LOCKS = t.gc_stress and 600 or 1000

local function forgotten_by_three(algorithm)
    return {t.in_folder(function(folder)
        local home <close> = peers.home()
        local here = options_of(folder, "home", algorithm, LONG)
        t.ok(group.found("bank", here))
        local flow <close> = peer(home, folder, "flow", algorithm, LONG, true)
        local neap <close> = peer(home, folder, "neap", algorithm, LONG, true)
        local latest = 0
        for life = 1, 2 do
            local bank <close> = join("bank", here)
            for i = 1, LOCKS do
                local lock = t.ok(bank:lock("lock " .. i, t.patience))
                if i == 1 then
                    local number = t.ok(lock:fence())
                    t.ok(number > latest, ("life %d: %d after %d"):format(life, number, latest))
                    latest = number
                end
                lock:release()
            end
            -- The last ones are forgotten when all have said their last word about them.
            t.reaches(function() return #bank:locks() < LOCKS // 2 end, "most are forgotten here")
            for _, who in ipairs {flow, neap} do
                t.reaches(function()
                    who.orders:send("count")
                    return tonumber(who.line()) < LOCKS // 2
                end, "most are forgotten there")
                local number = held_by(who, "lock 1")
                t.ok(number > latest, ("life %d: %d after %d"):format(life, number, latest))
                latest = number
                who.orders:send("release", "lock 1")
                t.eq(who.line(), "released")
            end
        end
    end), timeout = 240}
end

all.locks_by_central_cost_nothing_on_three = forgotten_by_three "central"
all.locks_by_ricart_cost_nothing_on_three = forgotten_by_three "ricart"

-- ---- Agreement ----------------------------------------------------------------------------------

all.who_names_another_algorithm_is_told_and_so_are_the_others = {t.in_folder(function(folder)
    local home <close> = peers.home()
    local here = options_of(folder, "home", {x = "central"}, LONG)
    t.ok(group.found("bank", here))
    local flow <close> = peer(home, folder, "flow", {x = "ricart"}, LONG, true)
    local bank <close> = join("bank", here)
    local message
    t.reaches(function()
        local _, why, code = bank:lock("x", 0.05)
        t.eq(code, "noquorum")
        message = why
        return why:find "flow"
    end, "the news of flow")
    t.ok(message:find("x=ricart", 1, true) and message:find("x=central", 1, true), message)
    t.reaches(function()
        flow.orders:send("disagrees")
        local line, rest = flow.line(), nil
        if line ~= "." then rest = flow.line() end
        return rest and line:find("^home\t'home' has joined .*x=central")
    end, "the news of home, at flow")
    for _, member in ipairs(bank:members()) do
        t.eq(member.disagrees ~= nil, member.name == "flow")
    end
end), timeout = 60}

all.options_are_checked = t.in_folder(function(folder)
    local _ <close> = peers.home()
    local function try(algorithm)
        return group.join("bank", {members = {"home"}, folder = folder, algorithm = algorithm})
    end
    t.raises("'majority', 'central', 'ricart', 'token' or 'voting'", try, "bully")
    t.raises("'token' for one lock", try, "token")
    t.raises("'token' for one lock", try, {"token"})
    t.raises("'token' for one lock", try, {a = "token", b = "token"})
    t.raises("option 'algorithm'", try, {[2] = "ricart"})
    t.raises("etcd has its own", group.join, "bank",
        {engine = {"etcd", "http://127.0.0.1:1"}, algorithm = "ricart"})
    local options = {members = {"home"}, folder = folder, lease = LONG,
        algorithm = {"central", x = "token"}}
    t.ok(group.found("bank", options))
    t.fails("denied", try "ricart") -- the folder is of a group by others
    local bank <close> = join("bank", options)
    local x <close> = t.ok(bank:lock("x", t.patience, {algorithm = "token"}))
    local y <close> = t.ok(bank:lock("y", t.patience, {algorithm = "central"}))
    t.ok(x:fence() and y:fence())
    local _, message, code = bank:lock("y", t.patience, {algorithm = "ricart"})
    t.eq(code, "denied")
    t.ok(message:find([[algorithm = {["y"] = "ricart"}]], 1, true), message)
    t.raises("unknown option", bank.lock, bank, "x", 1, {algoritm = "token"})
    t.raises("'wireless'", bank.election, bank, "c", {algorithm = "ricart"})
    t.raises("'worth' is for", bank.election, bank, "c", {worth = 3})
    local shown = {}
    for _, lock in ipairs(bank:locks()) do shown[lock.name] = lock.algorithm end
    t.eq(shown, {x = "token", y = "central"})
end)

-- ---- Elections ----------------------------------------------------------------------------------

-- Waits until a member knows this leader. Returns the epoch.
local function led_by(who, name, leader)
    local epoch
    t.reaches(function()
        who.orders:send("change", name, t.patience)
        local now, number = who.line():match "^(%S+)\t(%S+)"
        epoch = math.tointeger(tonumber(number))
        return now == leader
    end, leader .. " as the leader")
    return epoch
end

local function stand(who, name, options)
    who.orders:send("elect", name, options)
    t.eq(who.line(), "stands")
end

-- The highest name leads, of those that stand and are there; one that is higher takes over.
local function highest_leads(algorithm)
    return {t.in_folder(function(folder)
        local home <close> = peers.home()
        local here = options_of(folder, "home", nil, SHORT)
        t.ok(group.found("bank", here))
        local flow <close> = peer(home, folder, "flow", nil, SHORT, true)
        local neap <close> = peer(home, folder, "neap", nil, SHORT, true)
        local bank <close> = join("bank", here)
        local way = {algorithm = algorithm}
        local watcher <close> = t.ok(bank:election("cashier", {candidate = false}))
        local last = 0
        local function seen(leader)
            local who, epoch
            t.reaches(function()
                who, epoch = watcher:change(t.patience)
                return who == leader
            end, leader .. " as seen here")
            t.ok(epoch > last, epoch)
            last = epoch
        end
        stand(flow, "cashier", way) -- alone, and the lowest
        seen "flow"
        stand(neap, "cashier", way)
        seen "neap"
        led_by(flow, "cashier", "neap")
        local mine <close> = t.ok(bank:election("cashier", way)) -- higher than flow only
        neap.orders:send("resign", "cashier")
        t.eq(neap.line(), "resigned")
        seen "home"
        stand(neap, "cashier", way)
        seen "neap"
        neap.signal "KILL"
        seen "home"
        t.ok(mine)
    end), timeout = 120}
end

all.the_highest_leads_by_bully = highest_leads "bully"
all.the_highest_leads_by_ring = highest_leads "ring"

all.the_worthiest_leads = {t.in_folder(function(folder)
    local home <close> = peers.home()
    local here = options_of(folder, "home", nil, SHORT)
    t.ok(group.found("bank", here))
    local flow <close> = peer(home, folder, "flow", nil, SHORT, true)
    local neap <close> = peer(home, folder, "neap", nil, SHORT, true)
    local bank <close> = join("bank", here)
    stand(neap, "cashier", {algorithm = "wireless", worth = 1})
    local first = led_by(neap, "cashier", "neap")
    stand(flow, "cashier", {algorithm = "wireless", worth = 9})
    local second = led_by(neap, "cashier", "flow")
    t.ok(second > first)
    local mine <close> = t.ok(bank:election("cashier", {algorithm = "wireless", worth = 5}))
    flow.signal "KILL"
    t.ok(led_by(neap, "cashier", "home") > second)
    t.ok(mine)
end), timeout = 120}

all.elections_that_differ_are_told = {t.in_folder(function(folder)
    local home <close> = peers.home()
    local here = options_of(folder, "home", nil, LONG)
    t.ok(group.found("bank", here))
    local flow <close> = peer(home, folder, "flow", nil, LONG, true)
    local bank <close> = join("bank", here)
    stand(flow, "cashier", {algorithm = "bully"})
    led_by(flow, "cashier", "flow")
    for _, way in ipairs {{algorithm = "ring"}, {}} do
        local mine <close> = t.ok(bank:election("cashier", way))
        local leader, message, code
        repeat leader, message, code = mine:change(t.patience) until leader == nil
        t.eq(code, "denied")
        t.ok(message:find("is by 'bully' on member 'flow', and by '"
            .. (way.algorithm or "first"), 1, true), message)
        t.reaches(function()
            flow.orders:send("disagrees")
            local line = flow.line()
            if line ~= "." then t.eq(flow.line(), ".") end
            return line:find(("is by '%s' on 'home'"):format(way.algorithm or "first"), 1, true)
        end, "the news at flow")
    end
    local same <close> = t.ok(bank:election("cashier", {algorithm = "bully"}))
    t.reaches(function()
        flow.orders:send("disagrees")
        local line = flow.line()
        if line ~= "." then t.eq(flow.line(), ".") end
        return line == "."
    end, "that they agree")
    t.ok(same)
    local one <close> = t.ok(bank:election("guard", {algorithm = "ring"}))
    local two <close> = t.ok(bank:election("guard", {algorithm = "bully"}))
    t.fails("denied", two:change(t.patience))
    t.ok(one)
end), timeout = 60}

return all
