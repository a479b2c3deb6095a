-- SPDX-License-Identifier: MIT
-- Groups: locks that a majority of nodes agrees on, and what each fault does to who has one.
local mare, file, group = require "mare", require "mare.file", require "mare.group"
local child = require "mare.child"
local json, t, peers, shell = require "mare.json", require "t", require "peers", require "shell"

local LONG = 3600 -- seconds: a lease that no noise ends
local SHORT = 0.2 * t.slow

-- A group of this node alone.
local function alone(folder, lease)
    return {members = {"home"}, folder = folder, lease = lease or LONG}
end

-- A group that is left when the case ends: `local bank <close> = join(...)`.
local function join(name, options)
    local joined = t.ok(group.join(name, options))
    return setmetatable({group = joined}, {
        __index = function(_, key)
            return function(_, ...) return joined[key](joined, ...) end
        end,
        __close = function() joined:leave() end,
    })
end

-- Another member, which does what it is told by a channel, and tells what came of it.
local PEER = [[
    local group = require "mare.group"
    local options = {members = {"flow", "home", "neap"}, folder = FOLDER, lease = LEASE}
    if FOUNDS then assert(group.found("bank", options)) end
    local bank = assert(group.join("bank", options))
    local orders = mare.channel(4, "orders")
    local lock
    if bank:election("cashier") then print "stands" end
    for what, a, b in orders:messages() do
        if what == "lock" then
            local message, code
            lock, message, code = bank:lock(a, b)
            print(lock and lock:fence() or code or "lost")
        elseif what == "release" then
            lock:release()
            print "released"
        elseif what == "watch" then
            local _, reason = mare.select {lock}
            print(reason, (lock:fence()))
        end
    end
]]

local MEMBERS = {"flow", "home", "neap"}

local function peer(home, folder, name, lease, founds)
    local words = {FOLDER = ("%q"):format(folder .. "/" .. name), LEASE = tostring(lease),
        FOUNDS = tostring(founds)}
    local made = peers.join(home, {name = name}, PEER:gsub("%u%u%u+", words))
    made.orders = peers.find("orders@" .. name)
    t.eq(made.line(), "stands")
    return made
end

return {
    a_monitor_of_a_group = t.in_folder(function(folder)
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
            t.raises("has no conditions", monitor.wait, mnt)
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
    end),

    a_lock_is_had_and_given_back = t.in_folder(function(folder)
        local home <close> = peers.home()
        t.ok(group.found("bank", alone(folder)))
        local bank <close> = join("bank", alone(folder))
        local before
        do
            local lock <close> = t.ok(bank:lock("x", t.patience))
            before = t.ok(lock:fence())
            t.fails("timeout", bank:lock("x", 0.01))
            t.fails("timeout", mare.select({lock}, 0.01))
            local _ <close> = t.ok(bank:lock("y", t.patience)) -- has nothing to do with x
        end
        local lock = t.ok(bank:lock("x", t.patience))
        t.ok(lock:fence() > before)
        t.eq(bank:members(), {{name = "home", state = "up", here = true}})
        t.eq(bank:locks()[1].fence, lock:fence())
        t.ok(lock:release())
        t.eq(select(3, lock:fence()), "released")
        t.ok(home)
    end),

    those_who_wait_are_served_in_turn_and_the_dead_give_back = t.in_folder(function(folder)
        local home <close> = peers.home()
        t.ok(group.found("bank", alone(folder)))
        local bank <close> = join("bank", alone(folder))
        local holds = mare.channel(1)
        local holder = mare.spawn(function()
            local mine = assert(require "mare.group".find "bank")
            holds:send(mine:lock("x"):fence())
            require "mare".sleep(1000)
        end)
        local first = t.ok(holds:receive(t.patience))
        t.fails("timeout", bank:lock("x", 0.01))
        holder:kill()
        local lock <close> = t.ok(bank:lock("x", t.patience))
        t.ok(lock:fence() > first)
        t.ok(home)
    end),

    what_is_on_the_disk_is_looked_at = t.in_folder(function(folder)
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
        t.ok(file.write(folder .. "/group-bank/lock-x.tmp", "half of a wr"))
        do -- goes on where it was; what was left of a write is gone
            options.lease = 0.2
            local bank <close> = join("bank", options)
            t.ok(t.ok(bank:lock("x", t.patience)):fence() > fence)
            t.eq(file.list(folder .. "/group-bank"), {"lock-x", "member"})
        end
        t.fails("denied", group.join("bank", {members = {"home", "other"}, folder = folder}))
        t.fails("denied", group.join("bank", {members = {"other"}, folder = folder}))
        for _, name in ipairs {"lock-x", "member"} do
            local path = folder .. "/group-bank/" .. name
            local good = t.ok(file.read(path))
            local last = good:byte(-1)
            t.ok(file.write(path, good:sub(1, -2) .. string.char(last ~ 1)))
            t.fails("corrupt", group.join("bank", options))
            t.ok(select(2, group.join("bank", options)):find("lost = true", 1, true))
            t.ok(file.write(path, good))
        end
        t.ok(home)
    end),

    who_has_lost_its_state_votes_no_more = t.in_folder(function(folder)
        local home <close> = peers.home()
        local options = alone(folder, 0.2)
        options.lost = true
        local bank <close> = join("bank", options)
        t.reaches(function() return bank:members()[1].state == "up" end, "a lease")
        t.fails("timeout", bank:lock("x", 0.05))
        t.ok(home)
    end),

    the_command_tells_what_a_member_knows = t.in_folder(function(folder)
        local home <close> = peers.home()
        t.ok(group.found("bank", alone(folder)))
        local bank <close> = join("bank", alone(folder))
        local function command(...) -- without standing in the way of the node that is asked
            local words = {shell.mare, "group", ...}
            words.timeout = t.patience
            return t.ok(child.run(words))
        end
        local lock <close> = t.ok(bank:lock("x", t.patience))
        local told = command("bank", "--json", "--join", home.address)
        t.eq(told.err, "")
        t.eq(json.decode(told.out), {members = {{name = "home", state = "up", here = true}},
            locks = {{name = "x", fence = lock:fence(), waiting = 0}}})
        told = command("bank", "--join", home.address)
        t.ok(told.out:find "home +up  %(asked%)\n", told.out)
        t.ok(told.out:find(("x +%d +0\n"):format(lock:fence())), told.out)
        told = command("other", "--join", home.address)
        t.eq(told.code, 1)
        t.ok(told.err:find("no member of a group 'other'", 1, true), told.err)
        t.eq(command("bank").code, 2)
        t.eq(command("bank", "--jion", "x").code, 2)
    end),

    a_name_is_any_bytes = t.in_folder(function(folder)
        local _ <close> = peers.home()
        t.ok(group.found("bank", alone(folder)))
        local names = {"\0", "a\0b", ("\0"):rep(100), ("\255"):rep(100), ("x"):rep(100), "../x"}
        local fences = {}
        for _, lease in ipairs {LONG, SHORT} do -- the second life reads what the first has kept
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
    end),

    who_is_cancelled_loses_no_lock_and_keeps_none = t.in_folder(function(folder)
        local _ <close> = peers.home()
        t.ok(group.found("bank", alone(folder)))
        local bank <close> = join("bank", alone(folder))
        local told = mare.channel()
        local holder = mare.go(function()
            local lock <close> = bank:lock("x", t.patience)
            told:send()
            t.fails("cancelled", lock:fence())
            t.ok(lock:fence())
        end)
        told:receive(t.patience)
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
    end),

    wrong_arguments_are_refused = function()
        t.raises("a group needs 'members'", group.join, "bank", {folder = "x"})
        t.raises("a group needs 'folder'", group.join, "bank", {members = {"a"}})
        t.raises("each once", group.join, "bank", {members = {"a", "a"}, folder = "x"})
        t.raises("0.2 at least", group.found, "bank", {members = {"a"}, folder = "x", lease = 0.1})
        t.raises("bad argument #1 to 'join'", group.join, "Bank", {members = {"a"}, folder = "x"})
        require "mare.node".stop(5) -- what a case that failed has left
        t.fails("nonode", group.join("bank", {members = {"a"}, folder = "x"}))
    end,

    one_at_a_time_among_three_nodes = t.in_folder(function(folder)
        local home <close> = peers.home()
        local flow <close> = peer(home, folder, "flow", LONG, true)
        local neap <close> = peer(home, folder, "neap", LONG, true)
        local options = {members = MEMBERS, folder = folder .. "/home", lease = LONG}
        t.ok(group.found("bank", options))
        local bank <close> = join("bank", options)
        local fence = 0
        neap.orders:send("lock", "its own", t.patience) -- so it has its lease
        t.ok(math.tointeger(neap.line()))
        for _ = 1, 3 do
            local lock = t.ok(bank:lock("x", t.patience))
            t.ok(lock:fence() > fence)
            fence = lock:fence()
            flow.orders:send("lock", "x", t.patience)
            neap.orders:send("lock", "x", 0.01)
            t.eq(neap.line(), "timeout")
            lock:release()
            local theirs = math.tointeger(t.ok(flow.line()))
            t.ok(theirs > fence)
            fence = theirs
            flow.orders:send "release"
            t.eq(flow.line(), "released")
        end
        for _, member in ipairs(bank:members()) do t.eq(member.state, "up") end
    end),

    one_leads_and_all_know_who = t.in_folder(function(folder)
        local home <close> = peers.home()
        t.ok(group.found("bank", alone(folder)))
        local bank <close> = join("bank", alone(folder))
        local watcher <close> = t.ok(bank:election("cashier", {candidate = false}))
        t.eq({watcher:change(t.patience)}, {false, 0})
        t.fails("timeout", watcher:change(0.01))
        local cashier = t.ok(bank:election "cashier")
        local leader, epoch = watcher:change(t.patience)
        t.eq(leader, "home")
        t.ok(epoch > 0)
        t.ok(cashier:resign())
        t.eq({watcher:change(t.patience)}, {false, epoch})
        do
            local again <close> = t.ok(bank:election "cashier")
            local which, who, number = mare.select({watcher}, t.patience)
            t.eq({which, who}, {1, "home"})
            t.ok(number > epoch)
            t.ok(again)
        end
        t.eq(watcher:change(t.patience), false)
        t.ok(home)
    end),

    frozen_killed_restarted_cut_off = {t.in_folder(function(folder)
        local home <close> = peers.home()
        local flow <close> = peer(home, folder, "flow", SHORT, true)
        local neap <close> = peer(home, folder, "neap", SHORT, true)
        local options = {members = MEMBERS, folder = folder .. "/home", lease = SHORT}
        t.ok(group.found("bank", options))
        local bank <close> = join("bank", options)
        local cashier <close> = t.ok(bank:election("cashier", {candidate = false}))
        local fence = 0
        -- Waits for a leader that is none of these, in a later epoch than the last.
        local last = 0
        local function led_by_another_than(name)
            local leader, epoch
            repeat leader, epoch = cashier:change(t.patience)
            until leader and leader ~= name or leader == nil
            t.ok(leader, epoch)
            t.ok(epoch > last, epoch)
            last = epoch
            return leader
        end
        -- Takes the lock here; noise may end a lease at any time, and then it is asked for again.
        local function take()
            local lock, number
            t.reaches(function()
                lock = bank:lock("x", 1)
                number = lock and lock:fence()
                return number
            end, "the lock")
            t.ok(number > fence, number)
            fence = number
            return lock
        end
        local function held_by(who)
            local number
            t.reaches(function()
                who.orders:send("lock", "x", 1)
                number = math.tointeger(who.line())
                return number
            end, "the lock of another")
            t.ok(number > fence, number)
            fence = number
        end
        local leader = led_by_another_than ""
        held_by(flow)
        flow.orders:send "watch"
        flow.signal "STOP"
        take():release() -- when its lease is over
        if leader == "flow" then leader = led_by_another_than "flow" end
        flow.signal "CONT"
        t.eq(flow.line(), "noquorum\tnil") -- it finds out before it says that all is well

        held_by(flow)
        flow.signal "KILL"
        take():release()
        flow.child:wait(t.patience)
        local again <close> = peer(home, folder, "flow", SHORT, false)
        held_by(again) -- its votes are what they were
        again.orders:send "release"
        t.eq(again.line(), "released")

        neap.signal "KILL"
        if leader == "neap" then led_by_another_than "neap" end
        local lock = take() -- two of three are enough
        again.signal "STOP"
        local _, reason = mare.select({lock}, t.patience)
        t.eq(reason, "noquorum")
        t.eq(select(3, lock:fence()), "noquorum")
        t.fails("noquorum", bank:lock("x", 0.01))
        again.signal "CONT"
        take():release()
    end), timeout = 120},
}
