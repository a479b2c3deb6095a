-- SPDX-License-Identifier: MIT
-- What is promised of groups on every engine: their own (test_group.lua) and a cluster of etcd
-- (test_group_etcd.lua). An engine is a table:
--
--     engine.options(folder, names, lease)    what `found` and `join` are given
--     engine.long, engine.short               leases: one that no noise ends, and a short one
--     engine.algorithm                        by which lock `x` is, if it has one
--     engine.lose(peer), engine.find(peer)    no majority any more; there is one again. `peer` is
--                                             the only other member that lives
local mare, group = require "mare", require "mare.group"
local child, json, time = require "mare.child", require "mare.json", require "mare.time"
local t, peers, shell = require "t", require "peers", require "shell"

local cases = {}

--- A group that is left when the case ends: `local bank <close> = cases.join(...)`.
function cases.join(name, options)
    local joined = t.ok(group.join(name, options))
    return setmetatable({group = joined}, {
        __index = function(_, key)
            return function(_, ...) return joined[key](joined, ...) end
        end,
        __close = function() joined:leave() end,
    })
end

--- The fencing number of lock `x`, taken here and given back. Noise may end a short lease at any
--- time: then the lock is asked for again.
function cases.fence(bank)
    local number
    t.reaches(function()
        local lock <close> = bank:lock("x", 1)
        number = lock and lock:fence()
        return number
    end, "the lock here")
    return number
end

--- Has a value applied once, although noise may end a short lease: then it was not done; or that is
--- not known, and this member has it done before all that it is asked for later. Returns the
--- result, if it is known.
function cases.apply(list, value)
    local ok, result, code
    t.reaches(function()
        ok, result, code = list:apply(value, t.patience)
        return ok or code == "unsure"
    end, "to apply")
    return ok and result
end

local join = cases.join

-- Another member, which does what it is told by a channel, and tells what came of it.
local PEER = [[
    local group = require "mare.group"
    local options = OPTIONS
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

--- The cases, each a function of a folder and the options of this node.
function cases.of(engine)
    -- A group of this node alone; one of three, as this node sees it.
    local function alone(folder) return engine.options(folder, {"home"}, engine.long) end
    local function three(folder, lease)
        return engine.options(folder .. "/home", MEMBERS, lease)
    end
    local function peer(home, folder, name, lease, founds)
        local options = engine.options(folder .. "/" .. name, MEMBERS, lease)
        local words = {OPTIONS = peers.source(options), FOUNDS = tostring(founds)}
        local made = peers.join(home, {name = name, listen = "127.0.0.1:0"},
            PEER:gsub("%u%u%u+", words))
        made.orders = peers.find("orders@" .. name)
        t.eq(made.line(), "stands")
        return made
    end

    return {
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
            t.eq(select("#", lock:fence()), 1)
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
            local me = tostring(mare.self():id())
            if mare.self():name() then me = ("%s (%s)"):format(me, mare.self():name()) end
            local known = json.decode(told.out)
            t.ok(known.lease)
            known.lease, known.generation = nil, nil
            t.eq(known, {group = "bank", asked = "home", elections = {}, logs = {},
                superpeers = {}, changes = {},
                members = {{name = "home", state = "up", here = true, answers = true}},
                locks = {{name = "x", fence = lock:fence(), waiting = 0, member = "home",
                    holder = me, line = {}, algorithm = engine.algorithm}}})
            t.eq(bank:look().locks, {{name = "x", fence = lock:fence(), waiting = 0, holder = me,
                algorithm = engine.algorithm}})
            told = command("bank", "--join", home.address)
            t.ok(told.out:find "home +up  %(asked%)\n", told.out)
            local row = ("\nx %s home %s %s %d %s 0\n"):format((" "):rep(22), me,
                (" "):rep(18 - #me), lock:fence(), (" "):rep(15 - #tostring(lock:fence())))
            t.ok(told.out:find(row, 1, true), told.out)
            told = command("other", "--join", home.address)
            t.eq(told.code, 1)
            t.ok(told.err:find("not a member of a group 'other'", 1, true), told.err)
            t.eq(command("bank").code, 2)
            t.eq(command("bank", "--jion", "x").code, 2)
        end),

        one_at_a_time_among_three_nodes = t.in_folder(function(folder)
            local home <close> = peers.home()
            local flow <close> = peer(home, folder, "flow", engine.long, true)
            local neap <close> = peer(home, folder, "neap", engine.long, true)
            local options = three(folder, engine.long)
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

            -- All have the clock of this machine, so the bound can be looked at.
            local _, before = time.now()
            local now, bound = t.ok(bank:now())
            local _, after = time.now()
            t.ok((now + bound) * 1e9 >= before - 1000 and (now - bound) * 1e9 <= after + 1000)
            t.ok(bound > 0)
            t.ok(bank:after(now + 0.01, t.patience))
            local later, wrong = t.ok(bank:now())
            t.ok(later - wrong >= now + 0.01)
            t.fails("timeout", bank:after(now + 1000, 0.01))
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
            local flow <close> = peer(home, folder, "flow", engine.short, true)
            local neap <close> = peer(home, folder, "neap", engine.short, true)
            local options = three(folder, engine.short)
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
            -- Takes the lock here; noise may end a lease at any time: then it is asked for again.
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
            local again <close> = peer(home, folder, "flow", engine.short, false)
            held_by(again) -- its votes are what they were
            again.orders:send "release"
            t.eq(again.line(), "released")

            neap.signal "KILL"
            if leader == "neap" then led_by_another_than "neap" end
            local lock = take() -- two of three are enough
            engine.lose(again)
            local _, reason = mare.select({lock}, t.patience)
            t.eq(reason, "noquorum")
            t.eq(select(3, lock:fence()), "noquorum")
            t.fails("noquorum", bank:lock("x", 0.01))
            engine.find(again)
            take():release()
        end), timeout = 120},
    }
end

return cases
