-- SPDX-License-Identifier: MIT
-- mare.etcd against a real cluster of three members. What it makes of odd answers is in
-- test_etcd.lua, what it does when members fail in test_etcd_faults.lua.
local mare, t = require "mare", require "t"
local child, keys = require "mare.child", require "mare.keys"
local cluster, shell = require "etcd_cluster", require "shell"
local connect, proxy, patience = cluster.connect, cluster.proxy, cluster.patience

-- A member of its own, over TLS: its URL, and what a client with a certificate needs.
local function secure(name, folder, ...)
    t.ok(keys.authority(folder, "tides"))
    t.ok(keys.issue(folder, "server", {hosts = {"127.0.0.1"}}))
    t.ok(keys.issue(folder, "client"))
    local mine = t.ok(keys.load(folder, "client"))
    local options = {count = 1, election_ms = 500, scheme = "https", tls = mine,
        "--cert-file", folder .. "/server.pem", "--key-file", folder .. "/server.key", ...}
    return cluster.get(name, options).endpoints[1], mine
end

-- Keys of the list, in its order.
local function names(list)
    local found = {}
    for i, item in ipairs(list) do found[i] = item.key end
    return table.concat(found, " ")
end

return cluster.cases {
    -- Keys.

    a_key_has_a_value_and_revisions = function()
        local db <close> = connect()
        t.fails("noname", db:get "one")
        local first = t.ok(db:put("one", "a"))
        local second, previous = db:put("one", "b", {previous = true})
        t.ok(second > first)
        t.eq(previous, {key = "one", value = "a", created = first, modified = first, version = 1})
        local value, item = db:get "one"
        t.eq(value, "b")
        t.eq(item, {key = "one", value = "b", created = first, modified = second, version = 2})
        t.eq(db:get("one", {revision = first}), "a")
        t.eq(db:get("one", {serializable = true, revision = first}), "a")
        local count, _, gone = db:delete("one", {previous = true})
        t.eq({count, gone}, {1, {item}})
        t.eq(db:delete "one", 0)
        t.fails("noname", db:get "one")
    end,

    keys_and_values_are_bytes = function()
        local db <close> = connect()
        local all = {}
        for i = 0, 255 do all[i + 1] = string.char(i) end
        local bytes = "bytes/" .. table.concat(all)
        t.ok(db:put(bytes, bytes))
        t.ok(db:put("bytes/\xff\xff", ""))
        t.ok(db:put("bytet", "not below it"))
        t.eq(db:get(bytes), bytes)
        t.eq(db:count "bytes/", 2)
        t.eq(db:count "bytes/\xff\xff", 1)
        t.eq(db:get "bytes/\xff\xff", "")
        t.ok(#db:list "" >= 3)
        t.eq(db:delete("bytes/", {prefix = true}), 2)
        t.eq(db:get "bytet", "not below it")
    end,

    ranges_come_in_pages_of_one_revision = function()
        local db <close> = connect()
        local puts = {}
        for i = 1, 25 do puts[i] = {"put", ("page/%02d"):format(i), tostring(i)} end
        t.ok(db:transaction {success = puts})
        local list, revision = db:list("page/", {page = 7})
        t.eq({#list, list[1].value, list[25].value}, {25, "1", "25"})
        t.eq(names(db:list("page/", {page = 2, limit = 3, descending = true})),
            "page/25 page/24 page/23")
        t.eq(names(db:list("page/10", {to = "page/13"})), "page/10 page/11 page/12")
        t.eq(db:list("page/24", {keys_only = true})[1].value, nil)
        local count = 0
        for item in db:each("page/", {page = 4}) do
            count = count + 1
            t.eq(item.modified, revision)
            if count == 5 then t.ok(db:put("page/99", "later")) end
        end
        t.eq(count, 25)
        t.eq(db:count "page/", 26)
        t.eq(db:count("page/", {revision = revision}), 25)
        t.ok(db:put("page/05", "changed"))
        t.eq(names(db:list("page/", {order = "modified", descending = true, limit = 2})),
            "page/05 page/99")
    end,

    a_transaction_is_all_or_nothing = function()
        local db <close> = connect()
        t.ok(db:put("bank/a", "100"))
        local function move(from)
            return db:transaction {
                compare = {{"bank/a", "value", "=", from}, {"bank/b", "version", "=", 0}},
                success = {{"put", "bank/a", "40", {previous = true}}, {"put", "bank/b", "60"},
                    {"get", "bank/b"}, {"delete", "bank/none"}},
                failure = {{"get", "bank/b"}, {"list", "bank/", {keys_only = true}}},
            }
        end
        local held, results = move "99"
        t.eq({held, results[1], names(results[2])}, {false, false, "bank/a"})
        local revision
        held, results, revision = move "100"
        t.eq(held, true)
        t.eq(results[1].previous.value, "100")
        t.eq({results[3].value, results[3].created, results[4].count}, {"60", revision, 0})
        t.eq(move "100", false)
        for _, case in ipairs {{"created", ">", 0, true}, {"modified", "<", revision, false},
            {"modified", "=", revision, true}, {"lease", "~=", 0, false}} do
            t.eq(db:transaction {compare = {{"bank/b", case[1], case[2], case[3]}}}, case[4],
                case[1])
        end
    end,

    -- Watches.

    a_watch_tells_what_happens = function()
        local db <close> = connect()
        local before = t.ok(db:put("w/0", "before"))
        local watch <close> = t.ok(db:watch("w/", {prefix = true, previous = true}))
        local puts <close> = t.ok(db:watch("w/", {prefix = true, only = "put", revision = before}))
        local r1 = t.ok(db:put("w/1", "a"))
        t.ok(db:put("elsewhere", "x"))
        local count, r2 = db:delete "w/1"
        t.eq(count, 1)
        t.eq(watch:receive(patience), {type = "put", key = "w/1", value = "a", revision = r1,
            created = r1, modified = r1, version = 1})
        local event = watch:receive(patience)
        t.eq({event.type, event.key, event.revision, event.previous.value},
            {"delete", "w/1", r2, "a"})
        t.fails("timeout", watch:receive(0))
        t.ok(db:put("w/2", "b"))
        local which, got = mare.select({watch, mare.channel()}, patience)
        t.eq({which, got.key}, {1, "w/2"})
        local seen = {}
        for one in puts:events() do
            seen[#seen + 1] = one.key
            if one.key == "w/2" then puts:close() end
        end
        t.eq(seen, {"w/0", "w/1", "w/2"})
        t.fails("closed", puts:receive())
        t.eq({mare.select({puts}, patience)}, {1, nil, "the watch is closed", "closed"})
    end,

    a_watch_goes_on_after_its_connection_was_cut = function()
        local way <close> = proxy(cluster.get().endpoints[1])
        local db <close> = connect()
        local through <close> = connect {endpoints = {way.url}}
        local watch <close> = t.ok(through:watch("cut/", {prefix = true, buffer = 3}))
        -- The writer is at most ten ahead, so after each cut there are changes that were made
        -- when it had happened: they come over another connection.
        local total, cuts, room = 120, 0, mare.channel(10)
        local writer = mare.go(function()
            for i = 1, total do
                assert(room:send(true))
                assert(db:put("cut/" .. i % 7, tostring(i)))
            end
        end)
        for i = 1, total do
            t.eq(t.ok(watch:receive(patience)).value, tostring(i))
            t.ok(room:receive(patience))
            if i % 20 == 0 then
                way.cut()
                cuts = cuts + 1
            end
        end
        t.ok(writer:join(patience))
        t.fails("timeout", watch:receive(0))
        t.ok(way.passed >= cuts)
    end,

    a_watch_tells_of_a_compaction = function()
        local way <close> = proxy(cluster.get().endpoints[1])
        local db <close> = connect()
        local through <close> = connect {endpoints = {way.url}}
        local watch <close> = t.ok(through:watch "forgotten")
        t.ok(db:put("forgotten", "1"))
        t.eq(t.ok(watch:receive(patience)).value, "1")
        way.closed = true
        way.cut()
        t.ok(db:put("forgotten", "2"))
        local last = t.ok(db:put("forgotten", "3"))
        t.ok(db:compact(last))
        way.closed = false
        local event, _, code, revision = watch:receive(patience)
        t.eq({event, code, revision, n = 3}, {nil, "compacted", last, n = 3})
        t.fails("compacted", db:get("forgotten", {revision = last - 1}))
        t.eq(db:compact(last), true) -- as it is
        local again <close> = t.ok(db:watch("forgotten", {revision = revision}))
        t.eq(again:receive(patience).value, "3")
        local late <close> = t.ok(db:watch("forgotten", {revision = 1}))
        t.fails("compacted", late:receive(patience))
        t.raises("compacted", late:events())
    end,

    -- Locks.

    nothing_is_held_twice_and_fences_grow = function()
        cluster.get()
        local holder, last, count = nil, 0, 0
        local routines = t.in_routines(6, function(i)
            local db <close> = connect()
            for round = 1, 3 do
                local lock <close> = assert(db:lock("crowd", patience))
                assert(holder == nil and lock:fence() > last)
                holder, last, count = lock, lock:fence(), count + 1
                if (i + round) % 2 == 0 then mare.sleep(0.001) end
                assert(holder == lock and lock:held())
                holder = nil
            end
        end)
        for _, routine in ipairs(routines) do t.ok(routine:join(patience)) end
        t.eq(count, 18)
        local db <close> = connect()
        t.eq(db:count "mare/lock/crowd/", 0)
    end,

    a_lock_is_waited_for_so_long = function()
        local db <close> = connect()
        local other <close> = connect()
        local lock = t.ok(db:lock("late", patience))
        t.fails("timeout", other:lock("late", 0.05))
        t.fails("timeout", other:lock("late", 0))
        t.reaches(function() return db:count "mare/lock/late/" == 1 end, "who has gone is in line")
        local cancelled = mare.go(other.lock, other, "late")
        t.reaches(function() return db:count "mare/lock/late/" == 2 end)
        cancelled:cancel()
        t.eq((select(4, cancelled:join(patience))), "cancelled")
        t.reaches(function() return db:count "mare/lock/late/" == 1 end)
        t.eq(lock:unlock(), true)
        t.eq(lock:unlock(), false)
        t.fails("closed", lock:fence())
        local next_one <close> = t.ok(other:lock("late", patience))
        t.ok(next_one:fence())
    end,

    names_of_locks_do_not_touch_each_other = function()
        local db <close> = connect()
        for _, name in ipairs {"a/b/c", "a/b", "a", "a%2Fb", "/", "", "a/", "é\0"} do
            t.eq(t.ok(db:lock(name, patience)):name(), name)
        end
    end,

    who_waits_watches_only_who_is_before_it = function()
        local db <close> = connect()
        local watched = {}
        local first = t.ok(db:lock("line", patience))
        local routines = {}
        for i = 1, 3 do
            local own = connect()
            local watch = own.watch
            function own.watch(self, key, options)
                watched[#watched + 1] = {i, key}
                return watch(self, key, options)
            end
            routines[i] = mare.go(function()
                local _ <close> = own
                local lock = assert(own:lock("line", patience))
                local key = lock.key
                assert(lock:unlock())
                return key
            end)
            t.reaches(function() return #watched == i end)
        end
        t.eq(first:unlock(), true)
        local before = first.key
        for i = 1, 3 do
            local _, key = t.ok(routines[i]:join(patience))
            t.eq(watched[i], {i, before})
            before = key
        end
        t.eq(#watched, 3)
    end,

    who_gives_up_lets_nobody_in = function()
        local db <close> = connect()
        local other <close> = connect()
        local lock = t.ok(db:lock("between", patience))
        local function wait(i)
            local routine = mare.go(other.lock, other, "between", patience)
            t.reaches(function() return db:count "mare/lock/between/" == i end)
            return routine
        end
        local second, third = wait(2), wait(3)
        second:cancel()
        t.reaches(function() return db:count "mare/lock/between/" == 2 end)
        t.fails("timeout", third:join(0.05))
        local fence = lock:fence()
        t.eq(lock:unlock(), true)
        local _, got = t.ok(third:join(patience))
        t.ok(got:fence() > fence)
    end,

    a_lease_that_ends_while_one_waits_gives_no_lock = function()
        local db <close> = connect()
        local other <close> = connect()
        local third <close> = connect()
        local lock = t.ok(db:lock("ended", patience))
        local lease = t.ok(other:lease(300))
        local waits = mare.go(other.lock, other, "ended", patience, {lease = lease})
        t.reaches(function() return db:count "mare/lock/ended/" == 2 end)
        -- It ends without a word; then the lock is free.
        t.ok(third:call("lease/revoke", {ID = lease:id()}))
        t.eq(lock:unlock(), true)
        local _, got, _, code = waits:join(patience)
        t.eq({got, code, n = 2}, {nil, "lost", n = 2})
        t.ok(third:lock("ended", patience))
    end,

    a_lease_that_has_ended_unheard_is_replaced = function()
        local db <close> = connect()
        local other <close> = connect()
        local first = t.ok(db:lock("first", patience))
        t.ok(other:call("lease/revoke", {ID = db.shared:id()}))
        local second <close> = t.ok(db:lock("second", patience))
        t.ok(second:fence())
        t.fails("lost", first:held()) -- what was heard then counts for all
        local lease = t.ok(db:lease(300))
        t.ok(other:call("lease/revoke", {ID = lease:id()}))
        t.fails("lost", db:lock("third", patience, {lease = lease}))
        t.fails("lost", lease:alive())
    end,

    a_lost_lock_is_told = function()
        local db <close> = connect()
        local other <close> = connect()
        local lock = t.ok(db:lock("taken", patience))
        t.fails("timeout", mare.select({lock}, 0.01))
        t.eq(lock:held(), true)
        local lease = db.shared
        t.ok(other:call("lease/revoke", {ID = lease:id()}))
        lease.routine:cancel() -- it renews the lease now, not in 100 s
        local which, value, message, code = mare.select({mare.channel(), lock}, patience)
        t.eq({which, value, message, code, n = 4}, {2, nil, "the lease has ended", "lost", n = 4})
        t.fails("lost", lock:fence())
        t.fails("lost", lock:unlock())
        local again <close> = t.ok(db:lock("taken", patience)) -- under a new lease
        t.ok(again:fence())
    end,

    a_process_that_is_killed_gives_its_lock_back = function()
        local endpoints, ready = cluster.get().endpoints, mare.channel(1)
        local process = mare.spawn(function()
            local db <close> = require "mare.etcd".client(endpoints, {ttl = 300})
            local lock <close> = assert(db:lock("killed", 20))
            ready:send(lock:fence())
            mare.sleep(1000)
        end)
        local fence = t.ok(ready:receive(patience))
        process:kill()
        local db <close> = connect()
        local lock <close> = t.ok(db:lock("killed", patience))
        t.ok(lock:fence() > fence)
    end,

    locks_take_turns_with_those_of_etcdctl = function()
        local db <close> = connect()
        local etcdctl = cluster.etcdctl() or t.skip "etcdctl is not there: tools/setup.sh test"
        local lock = t.ok(db:lock("both", patience))
        local other <close> = t.ok(child.spawn {etcdctl, "lock", "mare/lock/both",
            "--endpoints", cluster.get().endpoints[1], env = {ETCDCTL_API = "3"},
            stdout = "pipe", grace = 5})
        t.reaches(function() return db:count "mare/lock/both/" == 2 end)
        t.eq(lock:unlock(), true)
        t.ok(t.ok(other.stdout:read("l", patience)):find("mare/lock/both/", 1, true))
        t.fails("timeout", db:lock("both", 0.05))
        other:kill "SIGTERM"
        t.ok(db:lock("both", patience))
    end,

    the_example_writes_its_pages = function()
        local ran = shell.run(("%s %s/../../examples/31_etcd.lua %s"):format(shell.mare,
            cluster.here, table.concat(cluster.get().endpoints, " ")))
        t.eq({ran.code, ran.err}, {0, ""})
        local lines = {}
        for line in ran.out:gmatch "[^\n]+" do
            lines[#lines + 1] = line:gsub("worker %a", "worker")
        end
        t.eq(lines, {"page 1 by worker", "page 2 by worker", "page 3 by worker", "page 4 by worker",
            "page 5 by worker", "page 6 by worker", "6 pages, all by one at a time"})
    end,

    -- Elections.

    one_leads_at_a_time_and_changes_are_told = function()
        local db <close> = connect()
        local other <close> = connect()
        local here, there = db:election "cashier", other:election "cashier"
        t.fails("noname", here:leader())
        local seen = mare.channel(10)
        local watcher = mare.go(function()
            local own <close> = connect()
            for leader, epoch in own:election "cashier":changes() do
                seen:send(leader, epoch)
                if leader == false then break end
            end
        end)
        local term = t.ok(here:campaign("ebb", patience))
        t.fails("exists", here:campaign("ebb", patience))
        t.eq({seen:receive(patience)}, {"ebb", term:fence()})
        t.eq({there:leader()}, {"ebb", term:fence()})
        t.fails("timeout", there:campaign("flow", 0.05))
        t.reaches(function() return db:count "mare/election/cashier/" == 1 end)
        local next_term = mare.go(there.campaign, there, "flow", patience)
        t.reaches(function() return db:count "mare/election/cashier/" == 2 end)
        t.eq(here:resign(), true)
        local _, second = t.ok(next_term:join(patience))
        t.ok(second:fence() > term.created)
        t.eq({seen:receive(patience)}, {"flow", second:fence()})
        t.eq({here:leader()}, {"flow", second:fence()})
        local epoch = second:fence()
        t.eq(there:resign(), true)
        t.eq(here:resign(), false)
        t.eq({seen:receive(patience)}, {false, epoch})
        t.ok(watcher:join(patience))
    end,

    changes_go_on_after_a_compaction = function()
        local way <close> = proxy(cluster.get().endpoints[1])
        local db <close> = connect()
        local through <close> = connect {endpoints = {way.url}}
        local here, seen = db:election "forgotten", mare.channel(10)
        local watcher = mare.go(function()
            for leader, epoch in through:election "forgotten":changes() do
                seen:send(leader, epoch)
                if leader == "flow" then break end
            end
        end)
        local term = t.ok(here:campaign("ebb", patience))
        t.eq({seen:receive(patience)}, {"ebb", term:fence()})
        way.closed = true
        way.cut()
        t.eq(here:resign(), true)
        term = t.ok(here:campaign("flow", patience))
        t.ok(db:compact(t.ok(db:put("elsewhere", "x"))))
        way.closed = false
        t.eq({seen:receive(patience)}, {"flow", term:fence()})
        t.ok(watcher:join(patience))
    end,

    -- Users, TLS.

    a_user_is_known_and_its_token_renewed = t.in_folder(function(folder)
        local url, mine = secure("users", folder)
        local tls = {authorities = mine.authorities}
        local function user(name, password)
            return connect {endpoints = {url}, tls = tls, user = name, password = password}
        end
        local early <close> = user("tide", "ebb") -- before users are asked for
        t.ok(early:put("tide/early", "x"))
        local root <close> = connect {endpoints = {url}, tls = tls}
        local function call(path, request) t.ok(root:call(path, request)) end
        call("auth/user/add", {name = "root", password = "secret"})
        call("auth/user/grant", {user = "root", role = "root"})
        call("auth/user/add", {name = "tide", password = "ebb"})
        call("auth/role/add", {name = "tides"})
        call("auth/role/grant", {name = "tides", perm = {permType = "READWRITE",
            key = root.encode "tide/", range_end = root.encode "tide0"}})
        call("auth/user/grant", {user = "tide", role = "tides"})
        call("auth/enable", {})
        t.fails("denied", root:get "tide/early")
        t.eq(early:get "tide/early", "x")
        root.user, root.password = "root", "secret"
        local tide <close> = user("tide", "ebb")
        t.ok(tide:put("tide/high", "12:30"))
        t.fails("denied", tide:put("other", "x"))
        t.fails("denied", tide:watch "other")
        local stranger <close> = user("tide", "flow")
        t.fails("denied", stranger:get "tide/high")
        local watch <close> = t.ok(tide:watch("tide/", {prefix = true}))
        -- A new password makes all tokens of the user void.
        local token = tide.token
        call("auth/user/changepw", {name = "tide", password = "ebb"})
        t.eq(tide:get "tide/high", "12:30")
        t.ok(tide.token ~= token)
        call("auth/user/changepw", {name = "tide", password = "ebb"})
        local again <close> = t.ok(tide:watch("tide/", {prefix = true}))
        t.ok(tide:put("tide/low", "18:40"))
        t.eq(again:receive(patience).key, "tide/low")
        t.eq(watch:receive(patience).key, "tide/low")
        local lock <close> = t.ok(user("root", "secret"):lock("any", patience))
        t.ok(lock:fence())
    end),

    whom_tls_does_not_know_is_denied = t.in_folder(function(folder)
        local url, mine = secure("certificates", folder, "--client-cert-auth",
            "--trusted-ca-file", folder .. "/authority.pem")
        local db <close> = connect {endpoints = {url}, tls = mine}
        t.ok(db:put("a", "b"))
        local careless <close> = connect {endpoints = {url}}
        t.fails("denied", careless:get "a")
        local nameless <close> = connect {endpoints = {url}, tls = {authorities = mine.authorities}}
        t.fails("denied", nameless:get "a")
    end),
}
