-- SPDX-License-Identifier: MIT
-- What ends each call of a group that waits: its deadline, a cancel, the end of the member here,
-- the end of the process that waits, and the loss of the majority.
local mare, group = require "mare", require "mare.group"
local t, peers, cases = require "t", require "peers", require "group_cases"
local file, group_state = require "mare.file", require "mare._group_state"
local join = cases.join

local LONG = 3600 -- seconds: a lease that no noise ends

-- Of two members the other one is never there, so nobody has a majority, and all of these wait. Or
-- the cluster of etcd is not there (`engine`).
local function options(folder, engine)
    return {members = {"flow", "home"}, folder = folder, lease = not engine and LONG or nil,
        engine = engine}
end

local NO_CLUSTER = {"etcd", "http://127.0.0.1:1"}

local function add(state, value) return state + value end

-- The calls that wait, by name: functions of what `scene` makes, and of a timeout.
local waits = {}

function waits.lock(its, timeout) return its.bank:lock("x", timeout) end

function waits.lock_of_an_election(its, timeout)
    local cashier = t.ok(its.bank:election "cashier")
    t.eq({cashier:change()}, {false, 0})
    return cashier:change(timeout)
end

function waits.apply(its, timeout) return its.sum:apply(1, timeout) end

function waits.read(its, timeout) return its.sum:read(timeout) end

function waits.multicast(its, timeout) return its.bank:multicast("orders", {timeout = timeout}) end

function waits.superpeer(its, timeout) return its.bank:superpeer({prefix = 1}, timeout) end

function waits.add(its, timeout) return its.bank:add("reef", timeout) end

-- The other member, when it is there: it holds the lock `theirs` until it is told to give it back.
local FLOW = [[
    local group = require "mare.group"
    local options = OPTIONS
    assert(group.found("bank", options))
    local bank = assert(group.join("bank", options))
    local sum = assert(bank:replica("sum", 0, function(state, value) return state + value end))
    local orders = assert(bank:multicast("orders", {timeout = 60}))
    local theirs = assert(bank:lock("theirs", 60))
    local told = mare.channel(1, "told")
    print "in"
    told:receive()
    theirs:release()
    told:receive()
]]

-- Begins all of them. Returns the routines, by name, when all of them wait.
local function begin_all(its, timeout)
    local routines = {}
    for name, f in pairs(waits) do
        local has = not its.engine or name ~= "superpeer" and name ~= "add" -- etcd has neither
        routines[name] = has and mare.go(f, its, timeout) or nil
    end
    local function is_open() -- the multicast, which has a process of its own
        for _, log in ipairs(t.ok(its.bank:look()).logs) do
            if log.kind == "multicast" and log.stage then return true end
        end
    end
    if not timeout then t.reaches(is_open, "a multicast") end
    t.settle()
    t.ok(its.bank:look()) -- all have read what they were asked before
    return routines
end

-- Each has failed with this code; `codes`: those that have another one.
local function all_fail(routines, expected, codes)
    for name, routine in pairs(routines) do
        local ok, result, message, code = routine:join(t.patience)
        t.eq({name, ok, result, code}, {name, true, nil, codes and codes[name] or expected})
        t.ok(type(message) == "string" and message ~= "", name)
    end
end

local function scene(f)
    return t.in_folder(function(folder)
        local home <close> = peers.home()
        t.ok(group.found("bank", options(folder .. "/own")))
        for name, engine in pairs {own = false, etcd = NO_CLUSTER} do
            local given = options(folder .. "/" .. name, engine or nil)
            local bank = t.ok(group.join("bank", given))
            local _ <close> = setmetatable({}, {__close = function() bank:leave() end})
            f({bank = bank, sum = t.ok(bank:replica("sum", 0, add)), given = given,
                engine = engine})
            t.reaches(function() return bank:leave() == nil end, "it is gone")
        end
        t.ok(home)
    end)
end

return {
    a_deadline = scene(function(its)
        all_fail(begin_all(its, 0.05), "noquorum", {lock_of_an_election = "timeout"})
    end),

    a_cancel = scene(function(its)
        local routines = begin_all(its)
        for _, routine in pairs(routines) do routine:cancel() end
        all_fail(routines, "cancelled")
        t.ok(its.bank:members()) -- the member is there
    end),

    -- Calls without a deadline, too, and at once.
    the_group_is_left = scene(function(its)
        local routines = begin_all(its)
        t.ok(its.bank:leave())
        all_fail(routines, "closed")
    end),

    the_member_fails = scene(function(its)
        local routines = begin_all(its)
        its.bank.channel:send "check" -- a request that no program makes
        all_fail(routines, "closed")
        local bank <close> = join("bank", its.given) -- its folder and its names are free
        t.ok(bank:members())
    end),

    -- What waits only while there is a majority.
    a_group_of_one = t.in_folder(function(folder)
        local home <close> = peers.home()
        local given = {members = {"home"}, folder = folder, lease = LONG}
        t.ok(group.found("bank", given))
        for _, ends in ipairs {"cancel", "leave", "check"} do
            local bank = t.ok(group.join("bank", given))
            local lock = t.ok(bank:lock("x", t.patience))
            local orders = t.ok(bank:multicast("orders", {timeout = t.patience}))
            t.reaches(function() return bank:now() end, "a time")
            local lost = mare.go(mare.select, {lock})
            local routines = {receive = mare.go(orders.receive, orders),
                after = mare.go(bank.after, bank, bank:now() + LONG)}
            t.settle()
            if ends == "cancel" then
                for _, routine in pairs(routines) do routine:cancel() end
                all_fail(routines, "cancelled")
                t.ok(lock:fence() and lock:release())
                t.eq({lost:join(t.patience)}, {true, 1, "released"})
                t.ok(orders:leave() and bank:leave())
            else
                if ends == "leave" then bank:leave() else bank.channel:send "check" end
                all_fail(routines, "closed")
                t.eq({lost:join(t.patience)}, {true, 1, ends == "leave" and "left" or "failed"})
            end
            t.reaches(function() return not group.find "bank" end, "it is gone")
        end
        t.ok(home)
    end),

    -- A member that cannot keep what it must not forget does not go on.
    the_disk_fails = t.in_folder(function(folder)
        local home <close> = peers.home()
        local given = {members = {"home"}, folder = folder .. "/disk", lease = LONG,
            algorithm = {"majority", printer = "ricart"}}
        t.ok(group.found("bank", given))
        local bank = t.ok(group.join("bank", given))
        local lock = t.ok(bank:lock("x", t.patience))
        local lost = mare.go(mare.select, {lock})
        local routines = {lock = mare.go(bank.lock, bank, "x"),
            after = mare.go(bank.after, bank, bank:now() + LONG)}
        t.settle()
        t.ok(file.remove(folder .. "/disk", {tree = true}))
        t.fails("closed", bank:lock("printer")) -- its first use is a write
        t.eq({lost:join(t.patience)}, {true, 1, "failed"})
        all_fail(routines, "closed")
        t.eq(select(3, lock:fence()), "failed")
        t.reaches(function() return not group.find "bank" end, "it is gone")
        t.fails("nostate", group.join("bank", given))
        t.ok(home)
    end),

    -- A join that is cancelled leaves nothing behind: neither a process nor a folder in use.
    a_join_is_cancelled = t.in_folder(function(folder)
        local home <close> = peers.home()
        t.ok(group.found("bank", options(folder)))
        local before = #mare.processes()
        for _, given in ipairs {options(folder), {members = {"flow"}, folder = folder .. "/new",
            newcomer = true}} do
            for pause = 0, 5 do
                local routine = mare.go(group.join, "bank", given)
                mare.sleep(pause * 0.001)
                routine:cancel()
                local ok, joined, message, code = routine:join(t.patience)
                t.ok(ok, joined)
                if joined then
                    t.ok(joined:leave()) -- it was quicker
                else
                    t.eq(code, "cancelled", message)
                end
                t.reaches(function() return #mare.processes() == before end, "no process is left")
                t.reaches(function() -- another thread closes what a killed process had open
                    local held = group_state.hold(given.folder .. "/group-bank")
                    return held == nil and not file.exists(given.folder .. "/group-bank")
                        or held and held:close()
                end, "the folder is free")
            end
        end
        local bank <close> = join("bank", options(folder))
        t.ok(bank:members())
        t.ok(home)
    end),

    -- Nor does a process that ends before its first line.
    a_member_that_never_began_has_no_name = function()
        local channel, settings = mare.channel(), {inbox = "group.never"}
        local launch = require "mare._launch"
        local _, message, code = launch("member", "no such module", settings, channel)
        t.eq(code, "died")
        t.ok(message:find("module 'no such module' not found", 1, true), message)
        t.ok(channel:closed() and settings.box:closed())
        t.ok(mare.channel(1, "group.never"), "the name is free"):close()
    end,

    -- The other member freezes. Some calls are told; others go on waiting until it is back.
    the_majority_is_lost = {t.in_folder(function(folder)
        local home <close> = peers.home()
        local given = {members = {"flow", "home"}, folder = folder .. "/flow", lease = t.slow}
        local flow <close> = peers.join(home, {name = "flow", listen = "127.0.0.1:0"},
            FLOW:gsub("OPTIONS", peers.source(given)))
        given.folder = folder .. "/home"
        t.ok(group.found("bank", given))
        local bank <close> = join("bank", given)
        local sum = t.ok(bank:replica("sum", 0, add))
        local orders = t.ok(bank:multicast("orders", {timeout = t.patience}))
        t.eq(flow.line(), "in")
        t.reaches(function() return sum:apply(1, 1) end)
        local cashier = t.ok(bank:election "cashier")
        repeat until t.ok(cashier:change(t.patience) ~= nil) and cashier.now == "home"
        local mine = t.ok(bank:lock("mine", t.patience))

        local theirs = mare.go(bank.lock, bank, "theirs")
        local lost, change = mare.go(mare.select, {mine}), mare.go(cashier.change, cashier)
        local message = mare.go(orders.receive, orders)
        t.settle()
        flow.signal "STOP"
        local apply = mare.go(sum.apply, sum, 1, 3 * t.slow) -- if they come late: with a deadline
        local read = mare.go(sum.read, sum, 3 * t.slow)

        t.eq({lost:join(t.patience)}, {true, 1, "noquorum"})
        t.eq(select(2, change:join(t.patience)), false)
        local _, _, _, code = apply:join(t.patience)
        t.ok(code == "unsure" or code == "noquorum", code)
        t.eq(select(4, read:join(t.patience)), "noquorum")
        t.fails("noquorum", mine:fence())
        t.fails("noquorum", bank:lock("theirs", 0.01))
        t.fails("noquorum", bank:superpeer({prefix = 1}, 0.01))
        t.fails("noquorum", bank:add("reef", 0.01))
        code = select(3, sum:apply(1, 0.01))
        t.ok(code == "unsure" or code == "noquorum", code)
        t.fails("noquorum", sum:read(0.01))
        t.reaches(function() return select(3, bank:now()) == "noquorum" end, "no time")
        t.fails("noquorum", bank:after(math.huge))
        t.ok(orders:send "later")

        flow.signal "CONT"
        peers.find("told@flow"):send()
        local ok, lock = theirs:join(t.patience)
        t.ok(ok and lock, lock)
        t.eq({message:join(t.patience)}, {true, "home", "later"})
        t.reaches(function() return sum:apply(1, 1) end)
    end), timeout = 120},

    -- Nobody else comes in by what a process wanted that was killed.
    who_waits_is_killed = scene(function(its)
        if its.engine then return end
        local ready = mare.channel(1)
        local waiter = mare.spawn(function()
            local m = require "mare"
            local bank = assert(require "mare.group".find "bank")
            m.go(bank.add, bank, "reef", 1000)
            m.go(bank.lock, bank, "x", 1000)
            m.go(function()
                local cashier = bank:election "cashier"
                repeat until not cashier:change(1000)
            end)
            repeat
                local known = bank:look()
                m.sleep(0.001)
            until known.changes[1] and known.elections[1] and known.locks[1]
            ready:send()
            m.sleep(1000)
        end)
        ready:receive(t.patience)
        local function wanted()
            local known = its.bank:look()
            return known.changes[1] or known.elections[1]
                or known.locks[1] and known.locks[1].waiting > 0
        end
        t.ok(wanted())
        waiter:kill()
        t.reaches(function() return not wanted() end, "nothing is wanted any more")
    end),
}
