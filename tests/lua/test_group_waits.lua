-- SPDX-License-Identifier: MIT
-- What ends each call of a group that waits: its deadline, a cancel, the end of the member here,
-- the end of the process that waits, and the loss of the majority.
local mare, group = require "mare", require "mare.group"
local t, peers, cases = require "t", require "peers", require "group_cases"
local join = cases.join

local LONG = 3600 -- seconds: a lease that no noise ends

-- Of two members the other one is never there, so nobody has a majority, and all of these wait.
local function options(folder)
    return {members = {"flow", "home"}, folder = folder, lease = LONG}
end

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

-- Begins all of them. Returns the routines, by name, when all of them wait.
local function begin_all(its, timeout)
    local routines = {}
    for name, f in pairs(waits) do routines[name] = mare.go(f, its, timeout) end
    t.settle()
    t.ok(its.bank:members()) -- the member has read what they asked before
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
        t.ok(group.found("bank", options(folder)))
        local bank = t.ok(group.join("bank", options(folder)))
        local _ <close> = setmetatable({}, {__close = function() bank:leave() end})
        f({bank = bank, sum = t.ok(bank:replica("sum", 0, add)), folder = folder})
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
        local bank <close> = join("bank", options(its.folder)) -- its folder and its names are free
        t.ok(bank:members())
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
            end
        end
        local bank <close> = join("bank", options(folder))
        t.ok(bank:members())
        t.ok(home)
    end),

    -- Nobody else comes in by what a process wanted that was killed.
    who_waits_is_killed = scene(function(its)
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
