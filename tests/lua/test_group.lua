-- SPDX-License-Identifier: MIT
-- Groups with their own engine: what all engines promise (group_cases.lua), and what is kept on the
-- disk.
local mare, node, group = require "mare", require "mare.node", require "mare.group"
local child, json = require "mare.child", require "mare.json"
local file, t, shell = require "mare.file", require "t", require "shell"
local peers, cases = require "peers", require "group_cases"
local join = cases.join

local LONG = 3600 -- seconds: a lease that no noise ends

-- A group of this node alone.
local function alone(folder, lease)
    return {members = {"home"}, folder = folder, lease = lease or LONG}
end

local own = cases.of {
    options = function(folder, names, lease)
        return {members = names, folder = folder, lease = lease}
    end,
    algorithm = "majority",
    long = LONG,
    short = 0.4 * t.slow, -- with a disk that is busy
    lose = function(peer) peer.signal "STOP" end,
    find = function(peer) peer.signal "CONT" end,
}

own.a_monitor_of_a_group = t.in_folder(function(folder)
    local monitor = require "mare.monitor"
    local home <close> = peers.home()
    t.ok(group.found("bank", alone(folder)))
    local mnt = monitor.create {group = "bank", name = "till"}
    t.fails("noname", monitor.take(mnt, 1))
    do
        local bank <close> = join("bank", alone(folder))
        t.ok(rawequal(mnt, monitor.create {group = bank.group, name = "till"}))
        local fence = t.ok(monitor.take(mnt, t.patience))
        t.eq(monitor.fence(mnt), fence)
        t.raises("held by this very chain", monitor.take, mnt)
        t.fails("timeout", bank:lock("till", 0.01))
        local tried = mare.channel(1)
        local p = mare.spawn(function() -- it travels, and excludes there
            local m = require "mare.monitor"
            local function inside() return m.fence(mnt) end
            local _, message, code = m.doWhenFree(mnt, inside, 0.01)()
            assert(code == "timeout", message)
            tried:send(true)
            return m.doWhenFree(mnt, inside)()
        end)
        t.ok(tried:receive(t.patience))
        monitor.release(mnt)
        local ok, later = p:join(t.patience)
        t.ok(ok and later > fence, later)
        t.eq(monitor.fence(mnt), nil)
        local failing = monitor.doWhenFree(mnt, function() error "inside" end)
        t.raises("inside", failing)
        t.ok(monitor.take(mnt, t.patience) > later)
    end
    t.fails("left", monitor.fence(mnt))
    t.ok(monitor.release(mnt))
    t.raises("needs 'group' and 'name'", monitor.create, {group = "bank"})
    t.raises("unknown option", monitor.create, {grup = "bank"})
    t.ok(home)
end)

-- Cancelled after so many turns: on its way, in line, when it has just got the lock.
own.who_gives_up_a_monitor_at_any_step_does_not_keep_it = t.in_folder(function(folder)
    local monitor = require "mare.monitor"
    local home <close> = peers.home()
    t.ok(group.found("bank", alone(folder)))
    local bank <close> = join("bank", alone(folder))
    local mnt = monitor.create {group = bank.group, name = "till"}
    for turns = 1, 400 do
        local r = mare.go(function()
            local fence, message, code = monitor.take(mnt)
            if fence then monitor.release(mnt) end
            return fence and "taken" or code, message
        end)
        for _ = 1, turns do mare.yield() end
        r:cancel()
        local ok, what, message = r:join(t.patience)
        t.ok(ok and (what == "taken" or what == "cancelled"), message or what)
        t.ok(monitor.take(mnt, t.patience), "it was kept")
        monitor.release(mnt)
    end
    t.ok(home)
end)

-- Nobody is reminded, unless it says so: so a signal that is lost keeps whoever waits.
own.conditions_of_a_monitor_of_a_group = t.in_folder(function(folder)
    local monitor = require "mare.monitor"
    local home <close> = peers.home()
    t.ok(group.found("bank", alone(folder)))
    local bank <close> = join("bank", alone(folder))
    local mnt = monitor.create {group = bank.group, name = "till"}
    t.raises("'wait' %(this process does not hold", monitor.wait, mnt)
    local told = mare.channel(10)
    local function waiter(name, timeout, reminder)
        return mare.spawn(function()
            local m, mr = require "mare.monitor", require "mare"
            require "mare._monitor_group".reminder = reminder or 1e6
            assert(m.take(mnt))
            local r = mr.go(function() mr.yield() end)
            told:send "in line" -- with the lock: whoever has it next finds it waiting
            local ok, _, code = m.wait(mnt, name, timeout)
            assert(m.fence(mnt), "it has the lock again")
            told:send(ok or code)
            r:join()
            m.release(mnt)
        end)
    end
    local function waits(...)
        local p = waiter(...)
        t.eq(told:receive(t.patience), "in line")
        return p
    end
    local function with_lock(f, ...)
        t.ok(monitor.take(mnt, t.patience))
        t.eq(f(mnt, ...), true)
        monitor.release(mnt)
    end
    local list = {waits("a"), waits("a"), waits("b"), waits("a"), waits("a")}
    with_lock(monitor.signal, "none")
    with_lock(monitor.signal, "a")
    t.eq(told:receive(t.patience), true)
    t.ok(list[1]:join(t.patience)) -- the first in line
    list[2]:kill()
    t.fails("killed", list[2]:join(t.patience))
    with_lock(monitor.signal, "b")
    t.eq(told:receive(t.patience), true)
    t.ok(list[3]:join(t.patience))
    t.eq(#told, 0)
    with_lock(monitor.broadcast, "a")
    for i = 4, 5 do
        t.eq(told:receive(t.patience), true)
        t.ok(list[i]:join(t.patience))
    end
    local p = waits("a", 0.01)
    t.eq(told:receive(t.patience), "timeout")
    t.ok(p:join(t.patience))
    p = waits("a", nil, 0.01) -- a reminder
    t.eq(told:receive(t.patience), true)
    t.ok(p:join(t.patience))
    t.ok(home)
end)

-- Whoever gives up just when it is woken passes that on.
own.a_signal_to_who_gives_up_reaches_another = t.in_folder(function(folder)
    local monitor = require "mare.monitor"
    local home <close> = peers.home()
    t.ok(group.found("bank", alone(folder)))
    local bank <close> = join("bank", alone(folder))
    local mnt = monitor.create {group = bank.group, name = "till"}
    local grouped = require "mare._monitor_group"
    local before <close> = setmetatable({grouped.reminder}, {__close = function(it)
        grouped.reminder = it[1]
    end})
    grouped.reminder = 1e6
    for turns = 0, 12 do
        local inside = mare.channel(2)
        local list = t.in_routines(2, function()
            t.ok(monitor.take(mnt))
            inside:send(true)
            local ok, _, code = monitor.wait(mnt)
            monitor.release(mnt)
            return ok or code
        end)
        for _ = 1, 2 do t.ok(inside:receive(t.patience)) end
        t.ok(monitor.take(mnt, t.patience))
        t.ok(monitor.signal(mnt))
        monitor.release(mnt)
        for _ = 1, turns do mare.yield() end
        list[1]:cancel()
        local woken = 0
        local _, first = list[1]:join(t.patience)
        if first == true then -- it had been woken: the other one waits
            t.ok(monitor.take(mnt, t.patience))
            t.ok(monitor.signal(mnt))
            monitor.release(mnt)
            woken = 1
        end
        t.ok(first == true or first == "cancelled", first)
        t.eq({list[2]:join(t.patience)}, {true, true}, "woken " .. woken)
    end
    t.ok(before and home)
end)

-- In another program of the group, which looks only when it is woken.
local WAITER = [[
    local group, monitor = require "mare.group", require "mare.monitor"
    require "mare._monitor_group".reminder = 1e6
    local options = OPTIONS
    assert(group.found("bank", options))
    assert(group.join("bank", options))
    local mnt = monitor.create {group = "bank", name = "till"}
    local told = find "told@home"
    for _, name in ipairs {"one", "all"} do
        assert(monitor.take(mnt))
        told:send "in line"
        told:send(monitor.wait(mnt, name))
        monitor.release(mnt)
    end
    mare.sleep(1000)
]]

own.a_signal_reaches_who_waits_in_another_program = t.in_folder(function(folder)
    local monitor = require "mare.monitor"
    local home <close> = peers.home()
    local told = mare.channel(10, "told")
    local names = {"flow", "home"}
    local there = {members = names, folder = folder .. "/flow", lease = LONG}
    local _ <close> = peers.join(home, {name = "flow", listen = "127.0.0.1:0"},
        (WAITER:gsub("OPTIONS", peers.source(there))))
    local here = {members = names, folder = folder .. "/home", lease = LONG}
    t.ok(group.found("bank", here))
    local bank <close> = join("bank", here)
    local mnt = monitor.create {group = bank.group, name = "till"}
    for _, what in ipairs {"signal", "broadcast"} do
        t.eq(told:receive(t.patience), "in line")
        t.ok(monitor.take(mnt, t.patience))
        t.eq(monitor[what](mnt, what == "signal" and "one" or "all"), true)
        monitor.release(mnt)
        t.eq({told:receive(t.patience)}, {true})
    end
    local bell = mare.find "monitor.bell@flow"
    for _, word in ipairs {"wait", "leave", "signal", "ring", "nonsense"} do -- does no harm
        bell:send(word)
        bell:send(word, bell, bell, "key")
        bell:send(word, "bank", 0.5, -1)
    end
    t.eq(bell:sendwithin(t.patience, "ring", "key", 1), true)
    t.ok(not bell:closed())
    told:close()
end)

own.a_monitor_is_kept_by_the_algorithm_that_was_chosen = t.in_folder(function(folder)
    local monitor = require "mare.monitor"
    local home <close> = peers.home()
    local options = alone(folder)
    options.algorithm = {"ricart", a = "majority", b = "central", c = "token", d = "voting"}
    t.ok(group.found("bank", options))
    local bank <close> = join("bank", options)
    local function of(name, algorithm)
        return monitor.create {group = bank.group, name = name, algorithm = algorithm}
    end
    options.algorithm.e, options.algorithm[1] = "ricart", nil
    for name, algorithm in pairs(options.algorithm) do
        local mnt = of(name, algorithm)
        local function inside() return monitor.fence(mnt) end
        local first = t.ok(monitor.doWhenFree(mnt, inside, t.patience)())
        local p = mare.spawn(function() -- what was chosen travels
            local m = require "mare.monitor"
            return m.doWhenFree(mnt, function() return m.fence(mnt) end)()
        end)
        local ok, second = p:join(t.patience)
        t.ok(ok and second > first, second)
        for _, other in ipairs {"majority", "central", "token", "voting", "ricart", "etcd"} do
            if other ~= algorithm then
                local entered, message, code = monitor.doWhenFree(of(name, other), inside)()
                t.eq({entered, code}, {nil, "denied"})
                t.ok(message:find(("'%s', not by '%s'"):format(algorithm, other)), message)
            end
        end
        -- The same lock, whether the algorithm is named or not.
        t.ok(monitor.take(mnt, t.patience))
        t.raises("held by this very chain", monitor.take, of(name))
        t.ok(monitor.fence(of(name)))
        t.ok(monitor.release(of(name)))
        t.eq(monitor.fence(mnt), nil)
    end
    t.eq(getmetatable(monitor.create {algorithm = "central"}), getmetatable(monitor.create()))
    t.raises("option 'algorithm' must be 'majority'", of, "a", "bully")
    t.raises("needs 'group' and 'name'", monitor.create, {algorithm = "ricart"})
    t.raises("needs 'group' and 'name'", monitor.create, {algorithm = "central", name = "x"})
    t.ok(home)
end)

own.a_name_is_any_bytes = t.in_folder(function(folder)
    local _ <close> = peers.home()
    t.ok(group.found("bank", alone(folder)))
    local names = {"\0", "a\0b", ("\0"):rep(100), ("\255"):rep(100), ("x"):rep(100), "../x"}
    local fences = {}
    for _, lease in ipairs {LONG, 0.2 * t.slow} do -- the second life reads what the first has kept
        local bank <close> = join("bank", alone(folder, lease))
        for _, name in ipairs(names) do
            local fence
            repeat -- a machine that stands still loses a short lease
                local lock <close> = t.ok(bank:lock(name, t.patience))
                fence = lock:fence()
            until fence
            t.ok(fence > (fences[name] or 0), ("%q"):format(name))
            fences[name] = fence
            t.ok(bank:election(name))
        end
        t.raises("1 to 100 bytes", bank.group.lock, bank.group, ("x"):rep(101))
        t.raises("1 to 100 bytes", bank.group.election, bank.group, ("x"):rep(101))
        t.ok(bank:members())
    end
end)

own.who_is_cancelled_loses_no_lock_and_keeps_none = t.in_folder(function(folder)
    local _ <close> = peers.home()
    t.ok(group.found("bank", alone(folder)))
    local bank <close> = join("bank", alone(folder))
    local told = mare.channel()
    local holder = mare.go(function()
        local lock <close> = bank:lock("x", t.patience)
        told:send()
        told:receive()
        local fence, message, code
        repeat -- an answer that is there already leaves the cancel to the next wait
            fence, message, code = lock:fence()
        until not fence
        t.fails("cancelled", fence, message, code)
        t.ok(lock:fence())
    end)
    told:receive(t.patience)
    told:send()
    holder:cancel()
    t.ok(holder:join(t.patience))
    local lock = t.ok(bank:lock("x", t.patience)) -- the end of the scope has released it
    local waiting = mare.go(function()
        told:send()
        return bank:lock("x", t.patience)
    end)
    told:receive(t.patience)
    waiting:cancel()
    t.eq(select(4, waiting:join(t.patience)), "cancelled")
    lock:release()
    t.ok(bank:lock("x", t.patience))
end)

own.what_is_on_the_disk_is_looked_at = t.in_folder(function(folder)
    local home <close> = peers.home()
    local options = alone(folder)
    t.fails("nostate", group.join("bank", options))
    t.ok(group.found("bank", options))
    t.fails("exists", group.found("bank", options))
    local fence
    do
        local bank <close> = join("bank", options)
        t.fails("exists", group.join("bank", options))
        fence = t.ok(bank:lock("x", t.patience)):fence()
    end
    t.ok(file.write(folder .. "/group-bank/member.tmp", "half of a wr"))
    do -- goes on where it was; what was left of a write is gone
        options.lease = 0.2
        local bank <close> = join("bank", options)
        local again
        t.reaches(function() -- within a lease, which is short
            local lock <close> = t.ok(bank:lock("x", t.patience))
            again = lock:fence()
            return again
        end)
        t.ok(again > fence)
        t.eq(file.list(folder .. "/group-bank"), {"member"})
    end
    t.fails("denied", group.join("bank", {members = {"home", "other"}, folder = folder}))
    t.fails("denied", group.join("bank", {members = {"other"}, folder = folder}))
    local path = folder .. "/group-bank/member"
    local good = t.ok(file.read(path))
    local last = good:byte(-1)
    t.ok(file.write(path, good:sub(1, -2) .. string.char(last ~ 1)))
    t.fails("corrupt", group.join("bank", options))
    t.ok(select(2, group.join("bank", options)):find("lost = true", 1, true))
    t.ok(home)
end)

own.who_has_lost_its_state_votes_no_more = t.in_folder(function(folder)
    local home <close> = peers.home()
    local options = alone(folder, 0.2)
    options.lost = true
    local bank <close> = join("bank", options)
    t.reaches(function() return bank:members()[1].state == "up" end, "a lease")
    t.fails("noquorum", bank:lock("x", 0.05))
    t.ok(home)
end)

own.heartbeats_find_out_which_members_are_near = t.in_folder(function(folder)
    local home <close> = peers.home {silence = t.slow} -- short: so heartbeats come soon
    local flow <close> = peers.join(home, {name = "flow", silence = t.slow})
    local stranger <close> = peers.join(home, {name = "stranger", silence = t.slow})
    local options = {members = {"flow", "home"}, folder = folder, lease = LONG}
    t.ok(group.found("bank", options))
    local bank <close> = join("bank", options)
    t.reaches(function() return #node.near() == 2 end, "places of all")
    local near, nearest
    t.reaches(function() -- heartbeats go on: none came between the first look and the last
        near, nearest = t.ok(bank:near()), t.ok(bank:near(1))
        return t.show(bank:near()) == t.show(near)
    end, "places that stay for a moment")
    t.eq(#near, 1)
    t.eq(near[1].name, "flow")
    t.eq(nearest, near)
    t.eq(#t.ok(bank:place(1)), 1)
    t.fails("empty", bank:place(3))
    t.fails("noquorum", bank:now()) -- the other member is not there
    t.raises("a number above 0", bank.near, bank, 0)
    t.ok(flow and stranger)
end)

-- More locks than are remembered: what is held is not forgotten, and no number comes again.
local function forgotten_by(algorithm)
    return t.in_folder(function(folder)
        local home <close> = peers.home()
        local options = alone(folder)
        options.algorithm = algorithm
        t.ok(group.found("bank", options))
        local bank <close> = join("bank", options)
        local held = t.ok(bank:lock("held", t.patience))
        local first = t.ok(bank:lock("lock 1", t.patience))
        local latest = first:fence()
        t.ok(first:release())
        for i = 2, 1000 do
            local lock = t.ok(bank:lock("lock " .. i, t.patience))
            lock:release()
        end
        local known = bank:locks()
        t.ok(#known < 300, #known)
        t.ok(home and first:release()) -- of one that is forgotten
        t.ok(held:fence())
        t.fails("timeout", bank:lock("held", 0.01))
        local again = t.ok(bank:lock("lock 1", t.patience))
        t.ok(again:fence() > latest, latest)
    end)
end

own.locks_that_nobody_wants_are_forgotten = forgotten_by "majority"
own.locks_by_central_are_forgotten = forgotten_by "central"
own.locks_by_ricart_are_forgotten = forgotten_by "ricart"

-- Three members, each of which knows a part: who holds, who waits, who leads, how far a log is.
own.the_command_puts_together_what_all_know = t.in_folder(function(folder)
    local home <close> = peers.home()
    local names = {"flow", "home", "neap"}
    local function options(name)
        return {members = names, folder = folder .. "/" .. name, lease = LONG}
    end
    local PEER = [[
        local group = require "mare.group"
        assert(group.found("bank", OPTIONS))
        local bank = assert(group.join("bank", OPTIONS))
        local orders = mare.channel(1, "orders")
        local sum = assert(bank:replica("sum", 0, function(s, v) return s + v end))
        mare.go(function() bank:lock("a"):fence() end):detach()
        mare.go(bank.superpeer, bank, {prefix = 0}, 60):detach()
        print "in"
        orders:receive()
    ]]
    local function start(name)
        return peers.join(home, {name = name, listen = "127.0.0.1:0"},
            PEER:gsub("OPTIONS", peers.source(options(name))))
    end
    t.ok(group.found("bank", options "home"))
    local bank <close> = join("bank", options "home")
    local function command(...)
        local words = {shell.mare, "group", "bank", "--join", home.address, ...}
        words.timeout = t.patience
        return t.ok(child.run(words))
    end
    local lonely = command() -- its own promise is no majority
    t.eq(lonely.code, 3)
    t.ok(lonely.err:find("'home' has no lease: it reaches no majority of 'bank'", 1, true),
        lonely.err)
    t.ok(lonely.out:find "flow +unknown  %(does not answer this command%)\n", lonely.out)

    local flow <close> = start "flow"
    t.eq(flow.line(), "in")
    local cashier <close> = t.ok(bank:election "cashier")
    repeat local leader = cashier:change(t.patience) until leader ~= false
    t.eq(cashier.now, "home")
    local sum = t.ok(bank:replica("sum", 0, function(s, v) return s + v end))
    t.ok(sum:apply(5, t.patience))
    local neap <close> = start "neap"
    t.eq(neap.line(), "in")
    t.ok(bank:superpeer({prefix = 0}, t.patience))
    local adding = mare.go(bank.group.add, bank.group, "reef")
    local known
    local function have_superpeers()
        local row = known.superpeers[1] or {members = {}}
        for _, one in ipairs(row.members) do
            if not one.superpeer then return false end
        end
        return #row.members == 3
    end
    t.reaches(function() -- all have come so far that each knows its part
        known = json.decode(command("--json").out)
        local lock = known.locks[1] or {}
        return known.elections[1] and known.logs[1] and #known.logs[1].members == 3
            and known.logs[1].leader and lock.fence and lock.waiting > 0 and have_superpeers()
    end, "what all three know")
    t.eq(#known.locks[1].line, known.locks[1].waiting)
    t.ok(known.locks[1].line[1].process:find "^%d+", known.locks[1].line[1].process)
    t.ok(known.locks[1].line[1].member ~= known.locks[1].member)
    t.eq(known.elections, {{name = "cashier", leader = "home", epoch = cashier.epoch,
        algorithm = "first", candidates = {"home"}}})
    t.eq({known.logs[1].kind, known.logs[1].name}, {"replica", "sum"})
    for i, one in ipairs(known.logs[1].members) do t.eq(one.name, names[i]) end
    for _, member in ipairs(known.members) do t.eq({member.state, member.answers}, {"up", true}) end
    t.eq(known.superpeers[1].name, "superpeer-dht 0")
    t.eq(known.changes, {{name = "reef", what = "add",
        line = {{member = "home", process = known.changes[1].line[1].process}}}})
    local told = command()
    t.eq({told.code, told.err}, {0, ""})
    t.ok(told.out:find "\nsuperpeer%-dht 0 +flow (%l+), home %1, neap %1\n", told.out)
    t.ok(told.out:find "\nadd reef +home %d+", told.out)
    adding:cancel()
    t.ok(told.out:find "\na +%l+ %d+.- +%d+ +%d: %l+ %d+", told.out)
    t.ok(told.out:find("\ncashier +home +%d+ +home\n"), told.out)
    t.ok(told.out:find "\nreplica sum +%l+ +%d+ +flow %d+/%d+, home %d+/%d+, neap %d+/%d+\n",
        told.out)
    t.ok(neap and sum:leave())
end)

-- Others may name a lock as they like: neither a terminal nor JSON is in their hands.
own.what_the_command_prints_is_text = t.in_folder(function(folder)
    local home <close> = peers.home {listen = "127.0.0.1:0"}
    local options = {members = {"home"}, folder = folder, lease = LONG}
    t.ok(group.found("bank", options))
    local bank <close> = join("bank", options)
    local lock <close> = t.ok(bank:lock("a\27[2J\xff\xc2\x9bz", t.patience))
    local function command(...)
        local words = {shell.mare, "group", "bank", "--join", home.address, ...}
        words.timeout = t.patience
        local result = t.ok(child.run(words))
        t.eq({result.code, result.err}, {0, ""})
        return result.out
    end
    local name = "a?[2J\u{FFFD}?z"
    local locks = json.decode(command "--json").locks
    t.eq({#locks, locks[1].name, locks[1].fence}, {1, name, lock:fence()})
    local told = command()
    t.ok(told:find("\n" .. name .. (" "):rep(25 - #name) .. "home", 1, true), told)
    t.ok(not told:find "[^\n%g \x80-\xff]", told)
end)

own.wrong_arguments_are_refused = function()
    t.raises("a group needs 'members'", group.join, "bank", {folder = "x"})
    t.raises("a group needs 'folder'", group.join, "bank", {members = {"a"}})
    t.raises("each once", group.join, "bank", {members = {"a", "a"}, folder = "x"})
    local crowd = {}
    for i = 1, 256 do crowd[i] = "n" .. i end
    t.raises("1 to 255 nodes", group.found, "bank", {members = crowd, folder = "x"})
    t.raises("0.2 at least", group.found, "bank", {members = {"a"}, folder = "x", lease = 0.1})
    t.raises("bad argument #1 to 'join'", group.join, "Bank", {members = {"a"}, folder = "x"})
    require "mare.node".stop(5) -- what a case that failed has left
    t.fails("nonode", group.join("bank", {members = {"a"}, folder = "x"}))
end

return own
