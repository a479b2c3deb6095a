-- SPDX-License-Identifier: MIT
-- Groups with their own engine: what all engines promise (group_cases.lua), and what is kept on the
-- disk.
local mare, node, group = require "mare", require "mare.node", require "mare.group"
local file, t = require "mare.file", require "t"
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
    t.fails("timeout", bank:lock("x", 0.05))
    t.ok(home)
end)

own.heartbeats_find_out_which_members_are_near = t.in_folder(function(folder)
    local home <close> = peers.home {silence = 1}
    local flow <close> = peers.join(home, {name = "flow", silence = 1})
    local stranger <close> = peers.join(home, {name = "stranger", silence = 1})
    local options = {members = {"flow", "home"}, folder = folder, lease = LONG}
    t.ok(group.found("bank", options))
    local bank <close> = join("bank", options)
    t.reaches(function() return #node.near() == 2 end, "places of all")
    local near = t.ok(bank:near())
    t.eq(#near, 1)
    t.eq(near[1].name, "flow")
    t.eq(bank:near(1)[1].place, near[1].place)
    t.eq(#t.ok(bank:place(1)), 1)
    t.fails("empty", bank:place(3))
    t.fails("noquorum", bank:now()) -- the other member is not there
    t.raises("a number above 0", bank.near, bank, 0)
    t.ok(flow and stranger)
end)

own.wrong_arguments_are_refused = function()
    t.raises("a group needs 'members'", group.join, "bank", {folder = "x"})
    t.raises("a group needs 'folder'", group.join, "bank", {members = {"a"}})
    t.raises("each once", group.join, "bank", {members = {"a", "a"}, folder = "x"})
    t.raises("0.2 at least", group.found, "bank", {members = {"a"}, folder = "x", lease = 0.1})
    t.raises("bad argument #1 to 'join'", group.join, "Bank", {members = {"a"}, folder = "x"})
    require "mare.node".stop(5) -- what a case that failed has left
    t.fails("nonode", group.join("bank", {members = {"a"}, folder = "x"}))
end

return own
