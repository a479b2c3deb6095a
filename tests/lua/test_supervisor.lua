-- SPDX-License-Identifier: MIT
-- mare.supervisor: who is started again, in which order, and what is left when something fails.
local mare, t = require "mare", require "t"
local supervisor = require "mare.supervisor"

local function quiet() end

local PERIOD = 3600 -- seconds: however slow this machine is, restarts count together

local function start(options)
    options.report, options.period = options.report or quiet, options.period or PERIOD
    return supervisor.start(options)
end

-- A child that says in a channel that it begins and ends, and does what it is told meanwhile.
local function talker(id, events)
    local orders = mare.channel()
    return {id = id, ready = 1000, start = function()
        local _ <close> = setmetatable({}, {__close = function() events:trysend("-" .. id) end})
        events:send("+" .. id)
        supervisor.ready()
        local order = orders:receive()
        if order == "fail" then error("told to", 0) end
    end}, orders
end

-- The next n events, in one string.
local function take(events, n)
    local list = {}
    for i = 1, n do list[i] = t.ok(events:receive(t.patience)) end
    return table.concat(list, " ")
end

local function three(strategy, more)
    local events, orders, children = mare.channel(64), {}, {}
    for i, id in ipairs {"a", "b", "c"} do
        children[i], orders[id] = talker(id, events)
        for key, value in pairs(more or {}) do children[i][key] = value end
    end
    local s = t.ok(start {strategy = strategy, children = children, intensity = 10})
    t.eq(take(events, 3), "+a +b +c")
    return s, events, orders
end

local function dead(p)
    t.ok(p, "a process")
    p:join(t.patience)
    return not p:alive()
end

return {
    children_start_in_order_and_end_in_reverse = function()
        local s, events = three "one_for_one"
        t.eq({s:stop(t.patience)}, {true, true})
        t.eq(take(events, 3), "-c -b -a")
        t.eq({s:join(t.patience)}, {true, true})
        t.fails("closed", s:children())
        t.fails("closed", s:stop())
    end,

    one_for_one = function()
        local s, events, orders = three "one_for_one"
        orders.b:send "fail"
        t.eq(take(events, 2), "-b +b")
        local before = s:find("b", t.patience)
        orders.b:send "end" -- permanent: also after a normal end
        t.eq(take(events, 2), "-b +b")
        t.ok(before ~= s:find "b" and dead(before))
        local list = t.ok(s:children())
        t.eq({list[1].restarts, list[2].restarts, list[2].last, list[2].up, list[3].restarts},
            {0, 2, "normal", true, 0})
        s:stop()
    end,

    one_for_all = function()
        local s, events, orders = three "one_for_all"
        orders.b:send "fail"
        t.eq(take(events, 6), "-b -c -a +a +b +c")
        s:stop()
    end,

    rest_for_one = function()
        local s, events, orders = three "rest_for_one"
        orders.b:send "fail"
        t.eq(take(events, 4), "-b -c +b +c")
        s:stop()
    end,

    children_keep_their_order_when_others_come_and_go = function()
        local gate, children = mare.channel(), {}
        local function child(id, restart)
            return {id = id, restart = restart, args = {gate}, start = function(g) g:receive() end}
        end
        for i = 1, 40 do children[i] = child(i) end
        local s = t.ok(start {strategy = "rest_for_one", children = children, intensity = 10})
        local function ids()
            local list = {}
            for i, one in ipairs(t.ok(s:children())) do list[i] = one.id end
            return table.concat(list, " ")
        end
        for i = 1, 39 do
            if i % 3 > 0 then t.ok(s:remove(i)) end
        end
        t.eq(ids(), "3 6 9 12 15 18 21 24 27 30 33 36 39 40")
        t.fails("exists", s:add(child(39)))
        t.ok(s:add(child(1)))
        t.ok(s:add(child("passing", "temporary")))
        t.ok(s:add(child("last")))
        t.eq(ids(), "3 6 9 12 15 18 21 24 27 30 33 36 39 40 1 passing last")
        local before = {}
        for _, id in ipairs {36, 39, 1, "last"} do before[id] = t.ok(s:find(id)) end
        before[39]:kill() -- those behind it are started again, but for the temporary one
        t.reaches(function() return (s:find "last" or before.last) ~= before.last end)
        t.eq(ids(), "3 6 9 12 15 18 21 24 27 30 33 36 39 40 1 last")
        t.eq({s:find(36) == before[36], s:find(39) == before[39], s:find(1) == before[1]},
            {true, false, false})
        s:stop()
    end,

    transient_children_come_back_only_after_a_failure = function()
        local s, events, orders = three("one_for_one", {restart = "transient"})
        orders.a:send "fail"
        t.eq(take(events, 2), "-a +a")
        s:find "c":kill()
        t.eq(take(events, 2), "-c +c")
        orders.b:send "end"
        t.eq(take(events, 1), "-b")
        t.reaches(function() return not s:children()[2].up end)
        t.fails("closed", s:find "b")
        s:stop()
    end,

    temporary_children_never_come_back = function()
        local s, events, orders = three("one_for_all", {restart = "temporary"})
        orders.b:send "fail"
        t.eq(take(events, 1), "-b")
        t.reaches(function() return #s:children() == 2 end)
        t.fails("noname", s:find "b")
        t.ok(s:find "a")
        s:stop()
    end,

    with_a_permanent_one_all_but_the_temporary_come_back = function()
        local events = mare.channel(64)
        local a, orders = talker("a", events)
        local b = talker("b", events)
        b.restart = "temporary"
        local s = start {strategy = "one_for_all", children = {b, a}}
        t.eq(take(events, 2), "+b +a")
        orders:send "fail"
        t.eq(take(events, 3), "-a -b +a")
        t.eq(#s:children(), 1)
        s:stop()
    end,

    too_many_restarts_end_it = function()
        local events = mare.channel(64)
        local a = talker("a", events)
        local s = start {intensity = 2, period = 1000, children = {a,
            {id = "bad", start = function() error({code = 7}) end}}}
        local ok, err, code = s:join(t.patience)
        t.eq({ok, code}, {nil, "died"})
        t.eq(err, "too many restarts: more than 2 within 1000 seconds; the last is of child 'bad'"
            .. ": {code = 7}")
        t.eq(take(events, 2), "+a -a")
        t.fails("closed", s:find "a")
    end,

    restarts_of_long_ago_do_not_count = function()
        local tries = mare.channel(64)
        local s = start {intensity = 1, period = 1e-9, children = {
            {id = "x", start = function() tries:send(1) error "again" end}}}
        for _ = 1, 10 do t.ok(tries:receive(t.patience)) end
        s:stop()
    end,

    a_look_finds_where_it_waits = function()
        local s = start {}
        local at
        t.reaches(function()
            for _, row in ipairs(mare.processes()) do
                if row.id == s.process:id() then at = row.at end
            end
            return at
        end)
        t.ok(at:find "^mare%.supervisor:%d+$", at)
        s:stop()
    end,

    a_child_that_dies_while_starting = function()
        local events = mare.channel(64)
        local a = talker("a", events)
        local s, message, code = start {children = {a,
            {id = "b", ready = 100, start = function() error("no disk", 0) end}}}
        t.eq({s, message, code}, {nil, "child 'b' did not start: no disk", "died"})
        t.eq(take(events, 2), "+a -a")
        t.eq({start {children = {{id = 1, ready = 100, start = function() end}}}},
            {nil, "child '1' did not start: it ended before it was ready", "died"})
        t.eq({start {children = {{id = 1, ready = 0.001, start = "require 'mare'.sleep(100)"}}}},
            {nil, "child '1' did not start: not ready after 0.001 s", "died"})
    end,

    a_child_that_dies_while_it_is_started_again = function()
        local tries, up = mare.channel(1), mare.channel(64)
        tries:send(0)
        local s = start {intensity = 3, children = {{id = "x", ready = 100, start = function()
            local n = tries:receive() + 1
            tries:send(n)
            if n == 2 or n == 3 then error("not yet", 0) end
            supervisor.ready()
            up:send(n)
            if n == 1 then error("after it was ready", 0) end
            mare.channel():receive()
        end}}}
        t.eq({up:receive(t.patience), (up:receive(t.patience))}, {1, 4})
        t.eq(s:children()[1].restarts, 3)
        s:stop()
    end,

    the_next_child_waits_until_one_is_ready = function()
        local events = mare.channel(64)
        local s = start {children = {
            {id = 1, ready = 100, start = function()
                for _ = 1, 20 do mare.yield() end
                events:send "first"
                supervisor.ready()
                mare.channel():receive()
            end},
            {id = 2, start = function() events:send "second" mare.channel():receive() end}}}
        t.eq(take(events, 2), "first second")
        s:stop()
    end,

    a_supervisor_that_is_killed_takes_its_children_along = function()
        local s, events = three "one_for_one"
        local children = s:children()
        s.process:kill()
        for _, child in ipairs(children) do t.ok(dead(child.process)) end
        t.eq(#events, 3)
    end,

    a_supervisor_that_is_killed_at_any_moment = function()
        for pause = 0, 30 do
            local begun = mare.channel(1000)
            local s = start {intensity = 1000, children = {{id = 1, start = function()
                begun:send(mare.self())
                mare.yield()
                error "again"
            end}}}
            for _ = 1, pause do mare.yield() end
            s.process:kill()
            s:join(t.patience)
            for _ = 1, #begun do t.ok(dead((begun:tryreceive()))) end
        end
        t.reaches(function() return #mare.processes() <= 3 end, "nobody is left")
    end,

    a_tree_ends_as_a_whole = function()
        local events = mare.channel(64)
        local a, b, c = talker("a", events), talker("b", events), talker("c", events)
        local function branch(child)
            local options = {children = {child}, report = quiet}
            return {id = "branch of " .. child.id, shutdown = 1000, ready = 1000,
                start = function() return require "mare.supervisor".run(options) end}
        end
        local s = start {children = {a, branch(b), branch(c)}}
        t.eq(take(events, 3), "+a +b +c")
        t.ok(s:stop(t.patience))
        t.eq(take(events, 3), "-c -b -a")
        s = start {children = {a, branch(b), branch(c)}}
        t.eq(take(events, 3), "+a +b +c")
        s.process:kill()
        take(events, 3)
    end,

    a_branch_that_gives_up_is_started_again = function()
        local tries = mare.channel(64)
        local s = start {intensity = 2, children = {{id = "branch", start = function()
            return require "mare.supervisor".run {intensity = 1, period = PERIOD, report = quiet,
                children = {{id = "leaf", start = function() tries:send(1) error "no" end}}}
        end}}}
        t.eq(select(3, s:join(t.patience)), "died")
        t.eq(#tries, 6) -- three times two
    end,

    a_child_that_is_asked_may_take_its_time = function()
        local events = mare.channel(64)
        local s = start {children = {{id = 1, shutdown = 1000, start = function()
            events:send "up"
            local asked = supervisor.asked()
            events:send(select(3, asked:receive()))
            for _ = 1, 20 do mare.yield() end
            events:send "done"
        end}}}
        t.eq(take(events, 1), "up")
        t.ok(s:stop(t.patience))
        t.eq(take(events, 2), "closed done")
    end,

    a_child_that_does_not_end_when_asked_is_killed = function()
        local news = mare.channel(4)
        local s = start {children = {{id = 1, shutdown = 0.001,
            start = function() news:send(mare.self()) mare.channel():receive() end}}}
        local p = news:receive(t.patience)
        t.ok(s:stop(t.patience))
        t.eq(select(3, p:join(t.patience)), "killed")
    end,

    a_child_that_cannot_be_ended_is_left_behind = function()
        local told, path = mare.channel(4), os.tmpname()
        local s = start {patience = 0.001, report = function(event) told:send(event.what) end,
            children = {{id = 1, spawn = {thread = true}, start = function()
                os.execute(("echo >%s.begun; while [ -e %s ]; do sleep 0.01; done")
                    :format(path, path))
            end}}}
        -- Before the shell runs, the child is in Lua, and can be killed.
        while not os.remove(path .. ".begun") do mare.sleep(0.01) end
        local stopped = s:stop(t.patience)
        os.remove(path) -- now it ends
        t.ok(stopped)
        t.eq(told:receive(t.patience), "does not end, and is left behind")
    end,

    children_come_and_go = function()
        local s = t.ok(start {})
        local function wait() mare.channel():receive() end
        local p, id = s:add {start = wait}
        t.eq({p:alive(), id}, {true, 1})
        t.eq(select(2, s:add {start = wait}), 2)
        t.eq(select(2, s:add {id = "named", start = wait, spawn = {name = "sup.child"}}), "named")
        t.eq(mare.find "sup.child", s:find "named")
        t.eq({s:add {id = "named", start = wait}},
            {nil, "there is a child 'named' already", "exists"})
        local again = s:restart "named"
        t.ok(again and again == mare.find "sup.child")
        t.eq({s:remove(1)}, {true})
        t.ok(dead(p))
        t.fails("noname", s:remove(1))
        t.fails("noname", s:restart(1))
        t.fails("died", s:add {start = function() error "x" end, ready = 10})
        local ids = {}
        for i, child in ipairs(s:children()) do ids[i] = child.id end
        t.eq(ids, {2, "named"})
        s:stop()
    end,

    options_of_spawn_are_passed_on = function()
        local s, message = start {children = {{id = 1, start = quiet, spawn = {nodes = "x"}}}}
        t.eq(s, nil)
        t.ok(message:find "child '1' did not start: .*unknown option 'nodes'", message)
        local out = mare.channel(1)
        t.ok(start {children = {{start = function(a, b, c) out:send(a, b, c) end,
            args = {1, nil, 3, n = 3}, restart = "temporary"}}})
        t.eq({out:receive(t.patience)}, {1, nil, 3})
    end,

    what_happens_is_reported = function()
        local told = mare.channel(64)
        local s = start {name = "sup.reports", report = function(event) told:send(event) end,
            intensity = 1,
            children = {{id = "x", start = function() error("why", 0) end}}}
        s:join(t.patience)
        t.eq(told:receive(t.patience), {what = "restarts", child = "x", error = "why",
            restarts = 1, supervisor = "sup.reports"})
        t.eq(#told, 0)
    end,

    it_can_be_asked_by_others = function()
        local s = three "one_for_one"
        local ok, n, found = mare.spawn(function()
            return #s:children(), s:find "a" ~= nil
        end):join(t.patience)
        t.eq({ok, n, found}, {true, 3, true})
        t.eq(s:stop(), true)
    end,

    what_cannot_travel_is_the_callers_mistake = function()
        local log, s = io.stdout, t.ok(supervisor.start {})
        local child = {id = "a", start = function() log:write "x" end}
        t.raises("^[^:]*test_supervisor.lua:%d+: bad argument #1 to 'start' %(field 'children', "
            .. "index 1, field 'start', upvalue 'log': a file cannot travel%)$",
            function() local it = supervisor.start {children = {child}} return it end)
        t.raises("^[^:]*test_supervisor.lua:%d+: bad argument #1 to 'add' %(field 'start', upvalue "
            .. "'log': a file cannot travel%)$", function() local it = s:add(child) return it end)
        t.ok(s:stop(t.patience))
        for _, children in ipairs {{a = {start = print}}, {{start = print}, n = 1}} do
            t.raises("option 'children' must be a list", supervisor.start, {children = children})
        end
    end,

    mistakes_are_the_callers = function()
        local function refused(pattern, options)
            local ok, err = pcall(function() supervisor.start(options) end)
            t.eq(ok, false)
            t.ok(err:find("test_supervisor.lua:%d+: bad argument #1 to 'start' %(" .. pattern), err)
        end
        refused("table expected, got no value", nil)
        refused("unknown option 'childs'", {childs = {}})
        refused("option 'strategy' must be 'one_for_one'", {strategy = "one"})
        refused("option 'intensity' must be a whole", {intensity = -1})
        refused("option 'period' must be", {period = 0})
        refused("child '1' needs 'start'", {children = {{id = 1}}})
        refused("child '2' needs 'start'", {children = {{start = print}, {}}})
        refused("option 'start' must be a function", {children = {{start = 5}}})
        refused("option 'restart' must be", {children = {{start = print, restart = "always"}}})
        refused("option 'shutdown' must be", {children = {{start = print, shutdown = "kill"}}})
        refused("unknown option 'name'", {children = {{start = print, name = "x"}}})
        for _, monitor in ipairs {true, mare.channel(1)} do
            refused("child 'a': only its supervisor can have the channel of 'monitor'",
                {children = {{id = "a", start = print, spawn = {monitor = monitor}}}})
        end
        t.raises("test_supervisor.lua:%d+: bad argument #1 to 'start' %(children%[2%]: a table",
            function() return (supervisor.start {children = {{start = "return"}, print}}) end)
        t.raises("test_supervisor.lua:%d+: child 'db': .*unexpected symbol", function()
            return (supervisor.start {children = {{id = "db", start = "return ="}}})
        end)
        t.raises("a file cannot travel", supervisor.start,
            {children = {{start = print, args = {io.stdout}}}})
        t.eq({start {children = {{id = 1, start = quiet}, {id = 1, start = quiet}}}},
            {nil, "there is a child '1' already", "exists"})
        local s = start {}
        t.raises("test_supervisor.lua:%d+: bad argument #1 to 'add' %(unknown option 'x'",
            function() s:add {start = print, x = 1} end)
        for _, name in ipairs {"children", "find", "add", "remove", "restart", "stop", "join"} do
            t.raises("test_supervisor.lua:%d+: calling '" .. name .. "' on bad self %(supervisor "
                .. "expected, got no value; methods are called with a colon%)$",
                function() s[name]() end)
        end
        s:stop()
    end,
}
