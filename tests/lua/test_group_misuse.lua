-- SPDX-License-Identifier: MIT
-- Groups in the hands of programs that do odd things, or at odd moments: what is asked for while
-- the group is left, many locks, names that are the group's own, members that do not agree on what
-- the group is.
local mare, group, ntp = require "mare", require "mare.group", require "mare.ntp"
local file, child, t = require "mare.file", require "mare.child", require "t"
local peers, cases, shell = require "peers", require "group_cases", require "shell"
local log_disk = require "mare._group_disk"
local join = cases.join

local LONG = 3600 -- seconds: a lease that no noise ends
local MANY = t.gc_stress and 200 or 10000 -- a collection looks at all of them

local function alone(folder) return {members = {"home"}, folder = folder, lease = LONG} end

-- Another member of a group of two, which stands for "cashier" until it is told to resign.
local PEER = [[
    local group = require "mare.group"
    local options = OPTIONS
    assert(group.found("bank", options))
    local bank = assert(group.join("bank", options))
    local cashier = bank:election "cashier"
    local orders = mare.channel(4, "orders")
    print "in"
    orders:receive()
    cashier:resign()
    print "resigned"
    orders:receive()
]]

local function pair(folder, name, lease)
    return {members = {"flow", "home"}, folder = folder .. "/" .. name, lease = lease}
end

local function flow_of(home, folder, lease)
    local flow = peers.join(home, {name = "flow"},
        PEER:gsub("OPTIONS", peers.source(pair(folder, "flow", lease))))
    t.eq(flow.line(), "in")
    return flow
end

-- Calls of this group wait for a member only for a moment.
local function make_impatient(bank)
    local tell
    for i = 1, 10 do
        local name, value = debug.getupvalue(bank.leave, i)
        if name == "ask" then
            for j = 1, 10 do
                local inner, f = debug.getupvalue(value, j)
                if inner == "tell" then tell = f end
            end
        end
    end
    for i = 1, 10 do
        if debug.getupvalue(tell, i) == "PATIENCE" then return debug.setupvalue(tell, i, 0.01) end
    end
    error "no patience was found"
end

return {
    who_asks_while_the_group_is_left_is_told = t.in_folder(function(folder)
        local home <close> = peers.home()
        t.ok(group.found("bank", alone(folder)))
        for _ = 1, 5 do
            local bank = t.ok(group.join("bank", alone(folder)))
            local routines = {}
            for i = 1, 60 do -- all at once, so some of it waits to be read when the member ends
                routines[i] = mare.go(function()
                    if i == 20 then return bank:leave() end
                    if i % 3 == 0 then return bank:members() end
                    if i % 3 == 1 then return bank:lock("x" .. i) end
                    return bank:lock("y" .. i, t.patience)
                end)
            end
            for i = 1, 60 do
                local ok, result, _, code = routines[i]:join(t.patience)
                t.ok(ok, result)
                t.ok(result or code == "closed", code)
            end
        end
        t.ok(home)
    end),

    -- It has been applied, then, and the member goes on. The bad state is against the rules.
    -- A second program with the folder of a member would vote a second time, and get the same lock.
    -- It waits for its disk, say. What is given back reaches it when it reads again.
    a_member_that_does_not_answer_is_still_one = function()
        local member = mare.channel(1, "mare.group.still")
        local bank = t.ok(group.find "still")
        make_impatient(bank)
        t.fails("timeout", bank:members()) -- it takes the question, and says nothing
        t.fails("timeout", bank:members())
        t.fails("timeout", bank:add("flow", 0.01))
        t.fails("timeout", bank:superpeer({prefix = 1}, 0.01))
        t.fails("timeout", bank:election "cashier")
        t.eq(member:receive(), "members")

        local asks = mare.go(bank.lock, bank, "x", t.patience)
        local what, reply = member:receive()
        reply:send(true, 7)
        local ok, lock = asks:join()
        t.eq({what, ok, lock.number}, {"lock", true, 7})
        member:send "full"
        t.fails("timeout", lock:fence())
        t.eq(lock:release(), true)
        t.eq(member:receive(), "full")
        t.eq({member:receive()}, {"release", reply, "x"})

        asks = mare.go(bank.lock, bank, "x", 0.2)
        what, reply = member:receive()
        member:send "full"
        t.eq(select(4, asks:join()), "timeout")
        t.eq({what, member:receive()}, {"lock", "full"})
        local asked
        what, asked = member:receive(t.patience)
        t.eq({what, asked == reply}, {"drop", true})
        member:close()
        t.fails("closed", bank:members())
        t.fails("closed", bank:lock("x", 1))
    end,

    a_folder_is_of_one_program_at_a_time = t.in_folder(function(folder)
        local home <close> = peers.home()
        local options = alone(folder)
        t.ok(group.found("bank", options))
        local OTHER = [[
            local mare, node, group = require "mare", require "mare.node", require "mare.group"
            assert(node.start {name = "home", listen = "127.0.0.1:0"})
            local options = OPTIONS
            print(select(3, group.join("bank", options)))
            io.read()
            local bank = assert(group.join("bank", options))
            print "joined"
            io.read()
        ]]
        local text = OTHER:gsub("OPTIONS", peers.source(options))
        local bank = t.ok(group.join("bank", options))
        local sum = t.ok(bank:replica("sum", 0, math.max))
        local other <close> = t.ok(child.spawn {shell.mare, "-e", text, stdin = "pipe",
            stdout = "pipe", stderr = "inherit", grace = 0})
        t.eq(other.stdout:read("l", t.patience), "exists")
        t.fails("exists", log_disk.open(folder .. "/group-bank/log-replica-sum"))
        t.ok(bank:leave())
        t.ok(other.stdin:write "go\n")
        t.eq(other.stdout:read("l", t.patience), "joined")
        local _, message, code = group.join("bank", options)
        t.eq(code, "exists")
        t.ok(message:find("another program is this member", 1, true), message)
        t.ok(other:kill "KILL")
        t.ok(other:wait(t.patience))
        t.ok(t.ok(group.join("bank", options)):leave()) -- what is killed holds nothing
        t.ok(file.write(folder .. "/group-bank/member", "damaged"))
        for _ = 1, 2 do t.fails("corrupt", group.join("bank", options)) end
        t.ok(home and sum)
    end),

    answers_that_cannot_be_sent_end_no_replica = t.in_folder(function(folder)
        local _ <close> = peers.home()
        t.ok(group.found("bank", alone(folder)))
        local bank = t.ok(group.join("bank", alone(folder)))
        local sum = t.ok(bank:replica("sum", 0, function(state, value)
            if value < 0 then return {coroutine.create(print)} end
            if value == 0 then return 0 end
            if value == 7 then error(setmetatable({}, {__tostring = error})) end
            return state + value, value == 5 and coroutine.create(print) or nil
        end))
        for _ = 1, 8 do t.eq({sum:apply(1, t.patience)}, {true}) end -- the first are looked at
        t.fails("unsure", sum:apply(5, t.patience))
        t.fails("failed", sum:apply(7, t.patience))
        t.eq({sum:read(t.patience)}, {true, 13})
        t.eq({sum:apply(-1, t.patience)}, {true})
        t.fails("badmsg", sum:read(t.patience))
        t.fails("badmsg", sum:peek())
        t.eq({sum:apply(0, t.patience)}, {true})
        t.eq({sum:read(t.patience)}, {true, 0})
        t.ok(bank:leave())
    end),

    -- Who waits is told what has failed; what was acknowledged is there when there is room again.
    a_full_disk_ends_a_replica_and_says_so = t.in_folder(function(folder)
        local TEXT = [[
            local mare, node, group = require "mare", require "mare.node", require "mare.group"
            assert(node.start {name = "home", listen = "127.0.0.1:0"})
            local options = OPTIONS
            group.found("bank", options)
            local bank = assert(group.join("bank", options))
            local list = assert(bank:replica("list", 0, function(n, value) return n + #value end))
            local done, ok, message, code = 0, nil, nil, nil
            repeat
                ok, message, code = list:apply(("x"):rep(10000))
                done = done + (ok and 1 or 0)
            until not ok
            print(code, message)
            print(done)
            print(select(3, list:apply "x"))
            print(select(2, pcall(function() return bank:lock("x", 30):fence() end)))
            io.read()
        ]]
        local options = alone(folder)
        local limited = [[trap '' XFSZ; ulimit -f 400; exec "$0" -e "$1"]] -- as a disk that is full
        local full <close> = t.ok(child.spawn {"/bin/sh", "-c", limited, shell.mare,
            (TEXT:gsub("OPTIONS", peers.source(options))), stdin = "pipe", stdout = "pipe",
            stderr = "pipe", grace = 0})
        local said = full.stdout:read("l", t.patience)
        t.ok(said:find "^unsure\tit has failed here: .*log: .*: it may be done yet$", said)
        local done = tonumber(full.stdout:read("l", t.patience))
        t.eq(full.stdout:read("l", t.patience), "closed")
        t.ok(tonumber(full.stdout:read("l", t.patience))) -- the rest of the group goes on
        t.ok(full:kill "KILL")
        t.ok(full:wait(t.patience))
        local home <close> = peers.home()
        options.lease = 0.2
        local bank <close> = join("bank", options)
        local list = t.ok(bank:replica("list", 0, function(n, value) return n + #value end))
        local ok, state
        t.reaches(function()
            ok, state = list:read(1)
            return ok
        end, "the list")
        t.ok(done > 0 and state >= 10000 * done and state <= 10000 * (done + 1), state)
        t.ok(home and list:leave())
    end),

    a_state_that_cannot_be_kept_is_refused = t.in_folder(function(folder)
        local home <close> = peers.home()
        t.ok(group.found("bank", alone(folder)))
        local bank <close> = join("bank", alone(folder))
        local list = t.ok(bank:replica("list", {}, function(state, value)
            return value == "code" and print or {state, value}
        end))
        t.fails("failed", list:apply("code", t.patience))
        t.ok(list:apply("fine", t.patience))
        t.eq({list:read(t.patience)}, {true, {{}, "fine"}})
        local _, message = list:apply("code", t.patience)
        t.ok(message:find("cannot be kept: plain values expected", 1, true), message)
        t.ok(home and list:leave())
    end),

    who_waits_for_a_replica_that_is_killed_is_told = t.in_folder(function(folder)
        local home <close> = peers.home()
        t.ok(group.found("bank", alone(folder)))
        local bank <close> = join("bank", alone(folder))
        local function add(state, value)
            if value == 0 then require "mare".self():kill() end
            return state + value
        end
        local sum = t.ok(bank:replica("sum", 0, add))
        t.ok(sum:apply(1))
        local _, message, code = sum:apply(0) -- for ever, if nobody tells
        t.eq({message, code}, {"it was killed here: it may be done yet", "unsure"})
        t.fails("closed", sum:apply(1))
        t.fails("closed", sum:read())
        t.ok(home)
    end),

    who_applies_while_the_replica_is_left_is_told = t.in_folder(function(folder)
        local home <close> = peers.home()
        t.ok(group.found("bank", alone(folder)))
        local bank <close> = join("bank", alone(folder))
        for _ = 1, 5 do
            local sum = t.ok(bank:replica("sum", 0, function(state, value)
                return state + value
            end))
            local routines = {}
            for i = 1, 60 do
                routines[i] = mare.go(function()
                    if i == 20 then return sum:leave() end
                    if i % 2 == 0 then return sum:read() end
                    return sum:apply(1)
                end)
            end
            for i = 1, 60 do
                local ok, result, _, code = routines[i]:join(t.patience)
                t.ok(ok, result)
                t.ok(result or code == "closed" or code == "noquorum" or code == "unsure", code)
            end
            t.fails("closed", sum:apply(1))
        end
        t.ok(home)
    end),

    -- A member that has lost its disk, and whose clock was set back: others know of a later life of
    -- it, and take nothing of an earlier one.
    a_clock_that_was_set_back_stops_no_replica = t.in_folder(function(folder)
        local home <close> = peers.home()
        t.ok(group.found("bank", alone(folder)))
        local disk = require "mare._group_disk"
        local log = t.ok(disk.open(folder .. "/group-bank/log-replica-list"))
        local life = log.life + (1 << 40)
        log:write(1, 1, ("<Bi8i8"):pack(1, life, 1) .. t.ok(require "mare._party"._pack "old"))
        log:sync()
        log:close()
        local bank <close> = join("bank", alone(folder))
        local list = t.ok(bank:replica("list", {}, function(state, value)
            state[#state + 1] = value
            return state, #state
        end))
        local routines = {}
        for i = 1, 50 do routines[i] = mare.go(list.apply, list, i) end
        for i = 1, 50 do t.eq({routines[i]:join(t.patience)}, {true, true, i + 1}) end
        local _, state = t.ok(list:read(t.patience))
        t.eq(#state, 51)
        t.eq(state[1], "old")
        t.ok(list:leave())
        t.ok(disk.open(folder .. "/group-bank/log-replica-list").life > life)
        t.ok(home)
    end),

    a_new_lock_costs_no_write = t.in_folder(function(folder)
        local home <close> = peers.home()
        t.ok(group.found("bank", alone(folder)))
        local bank <close> = join("bank", alone(folder))
        local path, writes, last = folder .. "/group-bank/member", 0, nil
        for i = 1, 50 do
            t.ok(bank:lock("x" .. i, t.patience))
            local now = t.ok(file.read(path))
            writes, last = writes + (now == last and 0 or 1), now
        end
        t.eq(writes, 1)
        t.ok(home)
    end),

    many_locks_are_held_at_once = t.in_folder(function(folder)
        local home <close> = peers.home()
        t.ok(group.found("bank", alone(folder)))
        local bank <close> = join("bank", alone(folder))
        local locks = {}
        for i = 1, MANY do
            locks[i] = t.ok(bank:lock(("lock %d"):format(i), t.patience))
        end
        t.eq(#bank:locks(), MANY)
        for i = 1, MANY, 99 do t.ok(locks[i]:fence()) end
        for i = 1, MANY do t.ok(locks[i]:release()) end
        t.ok(home)
    end),

    timers_of_locks_are_due_in_their_order = function()
        local timers, known, random = require "mare._group_timers".new(), {}, t.seed() % 1000003
        for step = 1, 5000 do
            random = random * 48271 % 2147483647
            local key = random % 50
            if random % 7 == 0 then
                timers:cancel(key)
                known[key] = nil
            elseif random % 7 < 4 then
                timers:set(key, random % 1000, step)
                known[key] = {due = random % 1000, step = step}
            end
            local least = math.huge
            for _, timer in pairs(known) do least = math.min(least, timer.due) end
            t.eq(timers:next() or math.huge, least)
            if random % 7 == 6 and next(known) then
                local taken = timers:take()
                for other, timer in pairs(known) do
                    if timer.step == taken then
                        t.eq(timer.due, least)
                        known[other], taken = nil, nil
                    end
                end
                t.eq(taken, nil)
            end
        end
    end,

    -- With no majority, which the mean of the members' clocks would need.
    the_time_may_be_that_of_servers = t.in_folder(function(folder)
        local home <close> = peers.home()
        local server <close> = t.ok(ntp.server {host = "127.0.0.1", port = 0, stratum = 3})
        mare.go(server.run, server):detach()
        local _, port = server:address()
        local given = pair(folder, "home", LONG)
        given.clock = {"ntp", "127.0.0.1:" .. port}
        t.ok(group.found("bank", given))
        do
            local bank <close> = join("bank", given)
            local now, bound
            t.reaches(function()
                now, bound = bank:now() -- a busy machine may not answer in time
                return now
            end, "a time")
            t.ok(bound > 0 and bound < t.patience, bound)
            local later, wider
            repeat
                later, wider = bank:now()
                t.ok(math.abs(later - os.time()) <= wider + 1.1) -- os.time has no fractions
            until later > now
            t.ok(bank:after(later, t.patience))
            local known = bank.group.clock
            known.at = known.at - 3600 * 1000000000 -- an hour later they do not answer
            known.asker = {ask = function() return nil, "silence", "timeout" end}
            later, wider = bank:now()
            t.ok(later and wider > 3.6, wider)
        end
        t.raises("option 'clock'", group.join, "bank", {members = {"home"}, folder = folder,
            clock = {"ntp"}})
        t.ok(home)
    end),

    a_release_wakes_who_selects = t.in_folder(function(folder)
        local home <close> = peers.home()
        t.ok(group.found("bank", alone(folder)))
        local bank <close> = join("bank", alone(folder))
        local lock = t.ok(bank:lock("x", t.patience))
        local waits = mare.channel()
        local routine = mare.go(function()
            waits:send()
            return mare.select({lock}, t.patience)
        end)
        waits:receive()
        t.ok(lock:release())
        t.eq({routine:join(t.patience)}, {true, 1, "released"})
        t.ok(lock:release())
        t.eq({mare.select({lock}, t.patience)}, {1, "released"})
        t.fails("released", lock:fence())
        t.ok(home)
    end),

    odd_names_and_timeouts_are_refused = t.in_folder(function(folder)
        local home <close> = peers.home()
        t.ok(group.found("bank", alone(folder)))
        local bank <close> = join("bank", alone(folder))
        for _, what in ipairs {"lock", "election"} do
            t.raises("the group's own", bank[what], bank, "\1election cashier")
            t.raises("the group's own", bank[what], bank, "\2replica.balance")
            t.raises("1 to 100 bytes", bank[what], bank, ("x"):rep(1 << 20))
            t.raises("string expected", bank[what], bank, 7)
        end
        t.raises("to 'lock' .a timeout cannot be NaN", bank.lock, bank, "x", 0 / 0)
        t.raises("number expected", bank.lock, bank, "x", "5")
        local lock <close> = t.ok(bank:lock("x", math.huge))
        t.fails("timeout", bank:lock("x", 0))
        t.fails("timeout", bank:lock("x", -math.huge))
        t.fails("noname", group.find "bank@home")
        t.fails("noname", group.find(("x"):rep(1 << 20)))
        t.raises("cannot travel", mare.spawn, print, lock)
        t.ok(home)
    end),

    a_leader_that_resigns_is_known_to_do_so = t.in_folder(function(folder)
        local home <close> = peers.home()
        local flow <close> = flow_of(home, folder, LONG)
        t.ok(group.found("bank", pair(folder, "home", LONG)))
        local bank <close> = join("bank", pair(folder, "home", LONG))
        local cashier <close> = t.ok(bank:election("cashier", {candidate = false}))
        local leader, epoch
        repeat leader, epoch = cashier:change(t.patience) until leader ~= false
        t.eq(leader, "flow")
        peers.find("orders@flow"):send()
        t.eq(flow.line(), "resigned")
        t.eq({cashier:change(t.patience)}, {false, epoch})
    end),

    members_that_mean_another_lease_are_not_believed = t.in_folder(function(folder)
        local home <close> = peers.home()
        local flow <close> = flow_of(home, folder, LONG)
        local options = pair(folder, "home", LONG - 1)
        t.ok(group.found("bank", options))
        local bank <close> = join("bank", options)
        local lock, message, code
        t.reaches(function()
            lock, message, code = bank:lock("x", 0.05)
            return lock or message:find("'flow' has joined with", 1, true)
        end, "why there is no majority")
        t.fails("noquorum", lock, message, code)
        t.ok(flow)
    end),

    who_can_never_vote_again_is_not_waited_for = t.in_folder(function(folder)
        local home <close> = peers.home()
        local bank <close> = join("bank",
            {members = {"home"}, folder = folder, lease = 0.2, lost = true})
        t.reaches(function() return bank:members()[1].state == "up" end, "a lease")
        local lock, message, code
        t.reaches(function()
            lock, message, code = bank:lock("x", 0.05)
            return lock or message:find("have lost their votes", 1, true)
        end, "why it is not had")
        t.fails("noquorum", lock, message, code)
        t.ok(home)
    end),

    -- Members tell each other who leads by names that nobody here may ever ask for.
    elections_that_nobody_asks_for_are_forgotten = function()
        local elections = require "mare._group_election"
        local host = {elections = {}, here = "home", attend = function() end}
        for epoch = 1, 10 do
            elections.hear(host, "flow", "cashier", epoch)
            t.eq(host.elections.cashier.leader, "flow")
        end
        elections.drop(host, "cashier", 9) -- another one leads by now
        t.eq(host.elections.cashier.leader, "flow")
        local watcher = mare.channel(1)
        host.elections.cashier.watchers[watcher] = true
        elections.drop(host, "cashier", 10)
        t.eq(host.elections.cashier.leader, false)
        host.elections.cashier.watchers[watcher] = nil
        elections.drop(host, "cashier", 10)
        t.eq(next(host.elections), nil)
    end,

    bytes_with_more_values_than_fit_are_not_read = function()
        local party = require "mare._party"
        t.eq({party._unpack("\1\2\3")}, {1, 2, 3})
        t.eq(select("#", party._unpack(("\1"):rep(2000000))), 0)
    end,

    -- Also those that this member has led, or that a process of it has watched to its end.
    elections_that_nobody_is_in_any_more_are_forgotten = t.in_folder(function(folder)
        local home <close> = peers.home()
        t.ok(group.found("bank", alone(folder)))
        local bank <close> = join("bank", alone(folder))
        for i, algorithm in ipairs {"first", "bully", "ring"} do
            local election = t.ok(bank:election("e" .. i, {algorithm = algorithm}))
            t.reaches(function() return election:change(t.patience) == "home" end, "to lead")
            t.eq(#bank:look().elections, 1)
            election:resign()
            t.reaches(function() return #bank:look().elections == 0 end, "to forget it")
        end
        mare.spawn(function()
            require "mare.group".find "bank":election("watched", {candidate = false})
            require "mare.group".find "bank":election "led"
        end):join(t.patience)
        t.reaches(function() return #bank:look().elections == 0 end, "to forget them")
        t.ok(home)
    end),

    -- The other side of an election that a C program is in closes when it likes.
    news_of_a_c_program_that_nobody_reads_any_more = {t.in_folder(function(folder)
        local home <close> = peers.home()
        t.ok(group.found("bank", alone(folder)))
        local bank <close> = join("bank", alone(folder))
        local started, orders, news = mare.channel(1), mare.channel(1), mare.channel(1)
        news:close()
        local routine = mare.go(require "mare._group_c".election, started, orders, news, "bank",
            "cashier", "first")
        t.eq(started:receive(t.patience), true)
        t.reaches(function()
            local first = bank:look().elections[1]
            return first and first.leader
        end, "a leader")
        orders:send "resign"
        t.ok(routine:join(t.patience))
        t.ok(home)
    end), timeout = 60},

    a_member_that_cannot_be_spawned_does_not_keep_its_folder = t.in_folder(function(folder)
        local home <close> = peers.home()
        t.ok(group.found("bank", alone(folder)))
        local spawn = mare.spawn
        mare.spawn = function() return nil, "there is no memory", "nomem" end
        local _ <close> = setmetatable({}, {__close = function() mare.spawn = spawn end})
        t.fails("nomem", group.join("bank", alone(folder)))
        mare.spawn = spawn
        local bank <close> = join("bank", alone(folder))
        t.eq(#bank:members(), 1)
        t.ok(home)
    end),

    -- Anybody who is let in may ask, as often as it likes.
    however_many_look_one_is_at_work = function()
        local look = require "mare._group_look"
        local host = {settings = {name = "bank"}, locks = {}, elections = {}, followers = {},
            superpeers = {}, epoch = function() return 3 end}
        local begun, told = {}, mare.channel(200)
        function host.members(_, tell) table.insert(begun, tell) end
        for i = 1, 100 do
            look.tell(host, function(known) told:send(i, known.lease, known.members) end)
        end
        t.eq(#begun, 1)
        begun[1] {"first"}
        t.eq({told:receive(t.patience)}, {1, 3, {"first"}})
        t.reaches(function() return begun[2] end, "one look for those who came meanwhile")
        t.eq(#told, 0)
        begun[2] {"second"}
        for i = 2, 100 do t.eq({told:receive(t.patience)}, {i, 3, {"second"}}) end
        t.reaches(function() return not host.askers end, "the end of it")
        look.tell(host, function() told:send "more" end)
        t.eq(#begun, 3)
        begun[3] {}
        t.eq(told:receive(t.patience), "more")
    end,
}
