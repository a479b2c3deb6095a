-- SPDX-License-Identifier: MIT
-- Groups whose engine is a real cluster of etcd: what all engines promise (group_cases.lua).
local mare, group = require "mare", require "mare.group"
local t, cases = require "t", require "group_cases"
local cluster, peers = require "etcd_cluster", require "peers"
cluster.election_ms = 500 -- so that a lease can be as short as a second

local function all(signal)
    local members = cluster.get()
    for i in ipairs(members.endpoints) do members.signal(i, signal) end
end

-- Each folder is another group: nothing of the case before is in the way.
local function options(folder, names, lease)
    local engine = {"etcd", table.unpack(cluster.get().endpoints)}
    engine.prefix = folder:match ".*(mare%-[^/]*)" .. "/"
    return {members = names, engine = engine, lease = lease}
end

local etcd = cases.of {
    options = options,
    long = 300,
    short = 1,
    lose = function() all "SIGSTOP" end,
    find = function() all "SIGCONT" end,
}

etcd.the_cluster_says_who_is_in = t.in_folder(function(folder)
    local home <close> = peers.home()
    local given = options(folder, nil, 300)
    t.ok(group.found("bank", given)) -- nothing to be done
    local bank <close> = cases.join("bank", given)
    local other <close> = cluster.connect()
    t.reaches(function() return bank:members()[1].state == "up" end)
    t.ok(other:put(given.engine.prefix .. "group/bank/member/flow", ""))
    t.eq(bank:members(),
        {{name = "flow", state = "up"}, {name = "home", state = "up", here = true}})
    t.ok(home)
end)

etcd.replicas_and_multicasts_are_between_the_members = t.in_folder(function(folder)
    local home <close> = peers.home()
    local given = options(folder, {"home"}, 300)
    do
        local bank <close> = cases.join("bank", given)
        t.fails("nostate", bank:replica("sum", 0, math.max)) -- where should it be kept?
    end
    given.folder = folder
    local function add(sum, value) return sum + value end
    for life = 1, 2 do
        local bank <close> = cases.join("bank", given)
        local sum = t.ok(bank:replica("sum", 0, add))
        t.ok(sum:apply(5, cluster.patience))
        t.eq({sum:read(cluster.patience)}, {true, 5 * life})
        local news = t.ok(bank:multicast "news")
        t.ok(news:send(life))
        t.eq({news:receive(cluster.patience)}, {"home", life})
        t.ok(news:leave() and sum:leave())
    end
    t.ok(home)
end)

-- What a log has asked for outlives the lease, and is not in the way of the next one.
etcd.a_member_with_a_replica_gets_another_lease = {t.in_folder(function(folder)
    local home <close> = peers.home()
    local given = options(folder, {"home"}, 1)
    given.folder = folder
    local bank <close> = cases.join("bank", given)
    t.ok(bank:replica("sum", 0, math.max))
    local lock = t.ok(bank:lock("x", cluster.patience))
    all "SIGSTOP"
    t.eq(select(2, mare.select({lock}, cluster.patience)), "noquorum")
    all "SIGCONT"
    t.reaches(function() return bank:look().lease end, "another lease")
    t.reaches(function() return bank:members()[1].state == "up" end, "to be in")
    t.ok(bank:lock("x", cluster.patience))
    t.ok(home)
end), timeout = 120}

etcd.a_monitor_whose_lock_is_the_clusters = t.in_folder(function(folder)
    local monitor = require "mare.monitor"
    local home <close> = peers.home()
    local bank <close> = cases.join("bank", options(folder, {"home"}, 300))
    local mnt = monitor.create {group = "bank", name = "till"}
    local before = 0
    for _ = 1, 3 do
        local add = monitor.doWhenFree(mnt, function()
            t.fails("timeout", bank:lock("till", 0.01))
            return monitor.fence(mnt)
        end, cluster.patience)
        local fence = t.ok(add())
        t.ok(fence > before, "numbers grow")
        before = fence
    end
    t.eq(monitor.fence(mnt), nil)
    local chosen = monitor.create {group = "bank", name = "till", algorithm = "etcd"}
    t.ok(monitor.take(chosen, cluster.patience) > before)
    t.ok(monitor.release(chosen))
    t.fails("denied", bank:superpeer {prefix = 1})
    local other = monitor.create {group = "bank", name = "till", algorithm = "ricart"}
    t.fails("denied", monitor.take(other, cluster.patience))
    t.ok(home)
end)

etcd.wrong_arguments_are_refused = function()
    t.raises('a list: "etcd", then URLs', group.join, "bank", {engine = {"zookeeper"}})
    t.raises("option 'engine'", group.join, "bank", {engine = {"etcd"}})
    t.raises("option 'engine'", group.join, "bank", {engine = {"etcd", "ftp://x"}})
end

return cluster.cases(etcd)
