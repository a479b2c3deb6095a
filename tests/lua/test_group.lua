-- SPDX-License-Identifier: MIT
-- Groups with their own engine: what all engines promise (group_cases.lua), and what is kept on the
-- disk.
local group, file, t = require "mare.group", require "mare.file", require "t"
local mare, node = require "mare", require "mare.node"
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
    short = 0.2 * t.slow,
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
