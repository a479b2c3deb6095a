-- SPDX-License-Identifier: MIT
-- mare.etcd while members of a real cluster are killed, frozen and wiped and connections are cut,
-- and clients take locks, write and watch: nothing is held twice, fencing numbers only grow, what
-- was acknowledged is there, and everybody is told the truth.
--
-- `make chaos` does it at random, for CHAOS_SECONDS, and takes the quorum away.
local mare, t = require "mare", require "t"
local child, shell, cluster = require "mare.child", require "shell", require "etcd_cluster"
local connect, patience = cluster.connect, cluster.patience
cluster.election_ms = 1000 -- as etcd has it

-- What a write may be told; nobody knows then whether it was done.
local open_end = {unsure = true}

-- What a lock may be told in chaos, where leases are short.
local honest = {lost = true, timeout = true, unavailable = true, unsure = true}

-- Who holds the lock of the crowds, and the greatest fencing number.
local holder, greatest = nil, 0

local function enter(lock)
    local fence = lock:fence()
    if not fence then return false end
    -- Who was inside before has left, or has been told that it lost the lock.
    assert(not holder or not holder:held(), "held twice")
    assert(fence > greatest, "a fencing number that does not grow")
    holder, greatest = lock, fence
    return true
end

-- Clients that take turns with a lock and write, each in a routine, until `stop()`, which looks
-- whether all that was promised is true. `options` are those of the clients; `leases_end`: locks
-- may be lost.
local function crowd(count, options, leases_end)
    local state = {rounds = 0, over = false}
    local folder = leases_end and "written/lost-" or "written/"
    local function work(db, i, record)
        local lock, message, code = db:lock("crowd", patience)
        if not lock then
            assert(leases_end and honest[code], tostring(code) .. ": " .. tostring(message))
            return
        end
        local inside = enter(lock)
        assert(inside or leases_end)
        record.tried = record.tried + 1
        local revision
        revision, message, code = db:put(folder .. i, tostring(record.tried))
        if revision then
            record.sure = record.tried
        else
            assert(open_end[code] or honest[code], tostring(code) .. ": " .. tostring(message))
        end
        if holder == lock then holder = nil end
        local ok
        ok, message, code = lock:unlock()
        assert(ok or leases_end and honest[code], tostring(code) .. ": " .. tostring(message))
        state.rounds = state.rounds + 1
    end
    local records = {}
    local routines = t.in_routines(count, function(i)
        local db <close> = connect(options)
        local record = {tried = 0, sure = 0}
        records[i] = record
        while not state.over do work(db, i, record) end
    end)
    --- Waits for so many more rounds.
    function state.go_on(rounds)
        local goal, deadline = state.rounds + rounds, mare.deadline(2 * patience)
        while state.rounds < goal do
            for _, routine in ipairs(routines) do
                if routine:status() == "died" then error(select(2, routine:join()), 0) end
            end
            t.ok(deadline:left() > 0, "nobody gets on")
            mare.sleep(0.005)
        end
    end
    function state.stop()
        state.over = true
        for _, routine in ipairs(routines) do
            local ok, err = routine:join(2 * patience)
            t.ok(ok, tostring(err))
        end
        local db <close> = connect()
        for i, record in ipairs(records) do
            local value = tonumber((db:get(folder .. i) or "0"))
            t.ok(value >= record.sure and value <= record.tried,
                ("%d is there, %d was acknowledged, %d tried"):format(value, record.sure,
                    record.tried))
        end
    end
    return state
end

-- A watch of what the crowd writes. `check` looks whether it told all of it, in order.
local function observe(options)
    local db = connect(options)
    local watch = t.ok(db:watch("written/", {prefix = true}))
    local seen = {}
    local routine = mare.go(function()
        local last = 0
        for event in watch:events() do
            assert(event.revision > last, "an event came twice, or late")
            last = event.revision
            seen[#seen + 1] = {event.key, event.value, event.revision}
        end
    end)
    return {check = function()
        local all <close> = connect()
        local first = seen[1] and seen[1][3]
        local value, item = all:get "written/1"
        t.reaches(function()
            return seen[#seen] and seen[#seen][3] >= item.modified
        end, "the watch does not get on")
        watch:close()
        t.ok(routine:join(patience))
        -- A watch from the same revision tells the same.
        local again <close> = t.ok(all:watch("written/", {prefix = true, revision = first}))
        for _, one in ipairs(seen) do
            local event = t.ok(again:receive(patience))
            t.eq({event.key, event.value, event.revision}, one)
        end
        db:close()
        return value
    end}
end

-- A program that takes a lock under a short lease, and says its fencing number, or why it has none,
-- whenever it is asked.
local HOLDER = [[
    local mare, etcd = require "mare", require "mare.etcd"
    local lines = mare.channel()
    mare.spawn({thread = true}, function()
        for line in io.lines() do lines:send(line) end
        lines:close()
    end)
    local db, lock = etcd.client(arg, {ttl = 2, timeout = 30}), nil
    repeat lock = db:lock("held by another", 30) until lock
    print(lock.created)
    for _ in lines:messages() do
        local fence, _, code = lock:fence()
        print(fence, code)
    end
]]

-- A lease is kept alive beyond its time, while another that is not ends. False: the machine stood
-- still for so long that this one ended, too.
local function outlives(db)
    local watch <close> = t.ok(db:watch "leased/b")
    local kept <close> = t.ok(db:lease(2))
    local other = t.ok(db:lease(2))
    other.client = {ask = function() return nil, "held back", "timeout" end, open = {}}
    if not db:put("leased/a", "x", {lease = kept})
        or not db:put("leased/b", "x", {lease = other:id()}) then
        return false
    end
    t.eq({mare.select({other}, patience)}, {1, nil, "the lease was not renewed in time", "lost"})
    repeat local event = t.ok(watch:receive(patience)) until event.type == "delete"
    if db:get "leased/a" ~= "x" or not kept:alive() then return false end
    t.ok(kept:left() > 0)
    t.eq(kept:revoke(), true)
    t.fails("noname", db:get "leased/a")
    t.eq(kept:revoke(), false)
    t.fails("closed", kept:alive())
    return true
end

local cases = {
    a_lease_is_kept_alive_and_one_that_is_not_ends = function()
        local db <close> = connect()
        local deadline = mare.deadline(patience)
        repeat local good = outlives(db) until good or t.ok(deadline:left() > 0)
    end,

    the_leader_is_killed = function()
        local c = cluster.get()
        local db <close> = connect()
        local lock <close> = t.ok(db:lock("kept", patience))
        local fence, people, seen = lock:fence(), crowd(3), observe()
        people.go_on(5)
        local leader = c.leader()
        c.signal(leader, "SIGKILL")
        people.go_on(5)
        t.ok(c.leader() ~= leader)
        c.start(leader)
        c.ready()
        people.go_on(5)
        people.stop()
        seen.check()
        t.eq(lock:fence(), fence)
        t.fails("timeout", db:lock("kept", 0.01))
    end,

    a_member_is_frozen = function()
        local c = cluster.get()
        local frozen = c.leader() % 3 + 1
        local function first(options) -- a client that is with the frozen one
            local db = connect(options)
            db.at = frozen
            return db
        end
        local quick = {try_time = 0.2, silence = 0.2}
        local db <close> = first(quick)
        local watch <close> = t.ok(db:watch("frozen/", {prefix = true}))
        -- This one knows no other member, and has a short lease.
        local alone = connect {endpoints = {c.endpoints[frozen]}, ttl = 2, try_time = 0.2,
            timeout = 0.5}
        local lost
        repeat lost = alone:lock("short", patience) until lost -- while nothing stands still
        local fence = lost.created
        c.signal(frozen, "SIGSTOP")
        local waits = mare.go(function()
            local lock = assert(db:lock("short", patience))
            assert(not lost:held(), "held twice")
            return lock:fence()
        end)
        local writer <close> = connect()
        writer.at = frozen % 3 + 1
        repeat until writer:put("frozen/1", "x")
        t.eq(t.ok(watch:receive(patience)).key, "frozen/1")
        t.eq({mare.select({lost}, patience)},
            {1, nil, "the lease was not renewed in time", "lost"})
        local _, next_fence = t.ok(waits:join(patience))
        t.ok(next_fence > fence)
        c.signal(frozen, "SIGCONT")
        c.ready()
        t.fails("lost", lost:unlock())
        alone:close(0.1)
    end,

    a_holder_is_frozen = function()
        local c = cluster.get()
        local program <close> = t.ok(child.spawn {shell.mare, "-e", HOLDER, c.endpoints[1],
            c.endpoints[2], stdin = "pipe", stdout = "pipe", grace = 0})
        local function ask()
            program.stdin:write "do you have it?\n"
            return program.stdout:read("l", patience)
        end
        local first = t.ok(tonumber((program.stdout:read("l", patience))))
        local db <close> = connect()
        program:kill "SIGSTOP"
        local lock <close> = t.ok(db:lock("held by another", patience))
        t.ok(lock:fence() > first)
        program:kill "SIGCONT"
        t.eq(ask(), "nil\tlost")
    end,

    a_member_is_wiped_and_joins_again = function()
        local c = cluster.get()
        local people, seen = crowd(3), observe()
        people.go_on(3)
        c.remove(2)
        people.go_on(3)
        c.add(2)
        c.ready()
        people.go_on(3)
        people.stop()
        seen.check()
        local db <close> = connect {endpoints = {c.endpoints[2]}}
        t.ok(tonumber((db:get "written/1")) > 0) -- it has learned all
    end,

    connections_are_cut = function()
        local ways <close>, urls = cluster.proxies()
        local people, seen = crowd(3, {endpoints = urls}), observe {endpoints = urls}
        for i = 1, 12 do
            people.go_on(2)
            ways[i % 3 + 1].cut()
        end
        people.stop()
        seen.check()
    end,
}

local function chaos(seconds)
    t.seed()
    local c = cluster.get()
    local ways <close>, urls = cluster.proxies()
    local quick = {endpoints = urls, ttl = 2, try_time = 0.3, silence = 0.5}
    local sure, people = crowd(2, {endpoints = urls, try_time = 0.5}), crowd(4, quick, true)
    local seen = observe(quick)
    local faults = {
        function(i)
            c.signal(i, "SIGKILL")
            mare.sleep(math.random() * 3)
            c.start(i)
        end,
        function(i)
            c.signal(i, "SIGSTOP")
            mare.sleep(math.random() * 5)
            c.signal(i, "SIGCONT")
        end,
        function(i)
            ways[i].closed = true
            ways[i].cut()
            mare.sleep(math.random() * 3)
            ways[i].closed = false
        end,
        function(i) ways[i].cut() end,
    }
    local deadline = mare.deadline(seconds)
    while deadline:left() > 0 do
        faults[math.random(#faults)](math.random(3))
        c.ready()
        people.go_on(1)
    end
    people.stop()
    sure.stop()
    seen.check()
    print(("# %d and %d rounds, fencing number %d"):format(people.rounds, sure.rounds,
        greatest))
end

-- Takes ten seconds: members that come back have to elect.
local function two_of_three_are_frozen()
    local c = cluster.get()
    local db <close> = connect {ttl = 2, try_time = 0.2}
    local lock
    repeat lock = db:lock("without a quorum", patience) until lock
    local fence = lock.created
    local waits = mare.go(function()
        local other <close> = connect()
        return assert(other:lock("without a quorum", 2 * patience)):fence()
    end)
    c.signal(1, "SIGSTOP")
    c.signal(2, "SIGSTOP")
    local _, value, _, code = mare.select({lock}, patience)
    t.eq({value, code, n = 2}, {nil, "lost", n = 2})
    value, _, code = db:get("anything", {timeout = 0.3})
    t.eq(value, nil)
    t.ok(code == "timeout" or code == "unavailable", code)
    t.eq(waits:status(), "alive")
    c.signal(1, "SIGCONT")
    c.signal(2, "SIGCONT")
    c.ready()
    local _, next_fence = t.ok(waits:join(2 * patience))
    t.ok(next_fence > fence)
end

local seconds = tonumber(os.getenv "MARE_CHAOS_SECONDS")
if seconds then
    cases = {chaos = {function() chaos(seconds) end, timeout = 24 * 3600},
        two_of_three_are_frozen = two_of_three_are_frozen}
end

return cluster.cases(cases)
