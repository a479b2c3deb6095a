-- SPDX-License-Identifier: MIT
-- Guards, triggers, functions under a lock, handlers and callbacks that do what they should not:
-- fail in odd ways, kill, cancel, collect, wait, call back, change the rules. Each caller gets an
-- answer, and the others go on.
local mare, t, rpc = require "mare", require "t", require "mare.rpc"
local monitor, pubsub = require "mare.monitor", require "mare.pubsub"
local odd = require "odd"
local sync, serving, wordless, ruled = odd.sync, odd.serving, odd.wordless, odd.ruled

return {
    -- ---- Guards of a process ------------------------------------------------------------------

    a_guard_whose_error_has_no_words_refuses = function()
        local p = serving(function(error_of)
            function f() end -- luacheck: ignore
            function free() return "free" end -- luacheck: ignore
            require "mare.sc".add_constraint("f", function() error(error_of()) end)
        end, wordless)
        t.fails("refused", sync(p, "f")())
        t.eq(sync(p, "free")(), "free")
        p:kill()
    end,

    guards_that_collect_kill_answer_and_change_the_rules = function()
        local p = serving(function()
            local sc, r, added = require "mare.sc", require "mare.rpc", 0
            local other = mare.spawn(function() mare.channel():receive() end)
            for name in ("collect kill answer run cancel add serial reload yield"):gmatch "%a+" do
                _G[name] = function() return name end
            end
            sc.add_constraint("collect", function() collectgarbage() return true end)
            sc.add_constraint("kill", function() return other:kill() or true end)
            sc.add_constraint("answer", function(request)
                r.refuse(request, "the guard says no", "refused")
                return true
            end)
            sc.add_constraint("run", function(request) r.run(request) return true end)
            sc.add_constraint("cancel", function() return mare._routine():cancel() or true end)
            sc.add_constraint("add", function()
                added = added + 1
                if added < 5 then sc.add_constraint("add", function() return true end) end
                return true
            end)
            sc.add_constraint("serial", function()
                sc.serial(true)
                sc.serial(false)
                return true
            end)
            sc.add_constraint("reload", function() sc.reload() return true end)
            sc.add_constraint("yield", function() mare.yield() return true end)
        end)
        t.fails("refused", sync(p, "answer")())
        for name in ("collect kill run cancel add serial reload yield"):gmatch "%a+" do
            for _ = 1, 3 do t.eq(sync(p, name)(), name) end
        end
        t.eq(rpc.sync(p, "free", t.patience)(), nil)
        p:kill()
    end,

    who_gives_up_a_blocked_request_disturbs_no_other = function()
        for _, serial in ipairs {true, false} do
            local gate, begun = mare.channel(), mare.channel(1)
            local p = serving(function()
                local sc = require "mare.sc"
                function never() end -- luacheck: ignore
                function waits() begun:send() return gate:receive() end -- luacheck: ignore
                sc.add_constraint("never", function() return false end)
                sc.serial(serial)
            end)
            local blocked = rpc.async(p, "never", function() end)()
            local call = mare.go(sync(p, "waits")) -- runs after that one was blocked
            t.ok(begun:receive(t.patience) == nil)
            t.ok(blocked:cancel())
            t.settle(50)
            t.ok(gate:sendwithin(t.patience, "waited for"))
            t.eq({call:join(t.patience)}, {true, "waited for"})
            p:kill()
        end
    end,

    each_request_runs_once_however_they_are_taken = function()
        local p = serving(function()
            local sc, runs, turn = require "mare.sc", {}, 0
            function f(i) -- luacheck: ignore
                runs[i] = (runs[i] or 0) + 1
                turn = turn + 1
                sc.serial(turn % 3 ~= 0)
                if turn % 2 == 0 then sc.serial(false) sc.serial(true) end
                mare.yield()
                return i
            end
            function all() return runs end -- luacheck: ignore
            sc.serial(true)
        end)
        local list = t.in_routines(40, function(i) t.eq({sync(p, "f")(i)}, {i}) end)
        for _, r in ipairs(list) do t.eq({r:join(t.patience)}, {true}) end
        local runs = t.ok(sync(p, "all")())
        for i = 1, 40 do t.eq(runs[i], 1) end
        p:kill()
    end,

    a_request_that_just_stood_in_line_is_not_lost_when_there_is_no_line_any_more = function()
        local p = serving(function()
            local sc = require "mare.sc"
            function f(i) return i end -- luacheck: ignore
            mare.go(function()
                while true do
                    sc.serial(true)
                    mare.yield()
                    sc.serial(false)
                    mare.yield()
                end
            end):detach()
        end)
        local list = t.in_routines(40, function(i)
            for _ = 1, 20 do t.eq(sync(p, "f")(i), i) end
        end)
        for _, r in ipairs(list) do t.ok(r:join(t.patience)) end
        p:kill()
    end,

    a_request_with_a_guard_is_not_overtaken_by_one_without = function()
        local p = serving(function()
            local sum = 0
            function add() sum = sum + 1 end -- luacheck: ignore
            function total() return sum end -- luacheck: ignore
            require "mare.sc".add_constraint("add", function() return true end)
        end)
        local totals = mare.channel(1)
        local add = rpc.async(p, "add", function() end)
        local total = rpc.async(p, "total", function(n) totals:send(n) end)
        for i = 1, 300 do
            add()
            total()
            t.eq(totals:receive(t.patience), i)
        end
        p:kill()
    end,

    a_guard_that_waits_misses_no_change = function()
        local gate, asked = mare.channel(), mare.channel(10)
        local p = serving(function()
            local open = false
            function enter() return "in" end -- luacheck: ignore
            function fall() open = true end -- luacheck: ignore
            require "mare.sc".add_constraint("enter", function()
                local now = open
                asked:send(now)
                gate:receive()
                return now
            end)
        end)
        local r = mare.go(sync(p, "enter"))
        t.eq(asked:receive(t.patience), false)
        t.eq(select("#", sync(p, "fall")()), 0) -- looks at the blocked: there are none
        gate:send(true)
        t.eq(asked:receive(t.patience), true)
        gate:send(true)
        t.eq({r:join(t.patience)}, {true, "in"})
        p:kill()
    end,

    a_change_between_a_guard_and_its_consequence_counts = function()
        for _, serial in ipairs {false, true} do
            local p = serving(function()
                local sc, open = require "mare.sc", false
                function enter() return "in" end -- luacheck: ignore
                sc.add_constraint("enter", function()
                    mare.go(function()
                        if not open then
                            open = true
                            sc.reload()
                        end
                    end)
                    return open
                end)
                sc.serial(serial)
            end)
            t.eq(sync(p, "enter")(), "in")
            p:kill()
        end
    end,

    a_guard_that_spoils_the_request_for_the_synchronizers = function()
        for _, serial in ipairs {false, true} do
            local p = serving(function()
                local sc = require "mare.sc"
                function f() return "f" end -- luacheck: ignore
                sc.add_constraint("f", function(request)
                    if request.args[1] then request.args[1] = coroutine.create(print) end
                    return true
                end)
                sc.serial(serial)
            end)
            local keeper = ruled(p, function(synchronizer)
                synchronizer.add_constraint(p, "f", function() return true end)
            end)
            t.fails("refused", sync(p, "f")(1))
            for _ = 1, 3 do t.eq(sync(p, "f")(), "f") end
            p:kill()
            keeper:kill()
        end
    end,

    a_synchronizer_is_not_asked_about_what_a_guard_refuses = function()
        local asked = mare.channel(10)
        local p = serving(function()
            local open = false
            function f() return "f" end -- luacheck: ignore
            function fall() open = true end -- luacheck: ignore
            require "mare.sc".add_constraint("f", function() return open end)
        end)
        local keeper = ruled(p, function(synchronizer)
            synchronizer.add_constraint(p, "f", function() asked:send(true) return true end)
        end)
        local r = mare.go(sync(p, "f"))
        for _ = 1, 3 do t.fails("denied", sync(p, "nothing")()) end -- each has f looked at again
        t.eq(#asked, 0)
        sync(p, "fall")()
        t.eq({r:join(t.patience)}, {true, "f"})
        t.eq(#asked, 1)
        p:kill()
        keeper:kill()
    end,

    -- Cancelled after so many turns: on its way, in line, asked about, in the call, answered.
    who_gives_up_at_any_step_holds_up_nobody = function()
        for _, serial in ipairs {false, true} do
            local p = serving(function()
                function f() mare.yield() return "f" end -- luacheck: ignore
                local sc = require "mare.sc"
                sc.add_constraint("f", function() mare.yield() return true end)
                sc.serial(serial)
            end)
            local keepers = {}
            for i = 1, 2 do
                keepers[i] = ruled(p, function(synchronizer)
                    synchronizer.add_constraint(p, "f", function() mare.yield() return true end)
                    synchronizer.add_trigger(p, "f", function() end)
                end)
            end
            for turns = 1, 60 do
                local r, behind = mare.go(sync(p, "f")), mare.go(sync(p, "f"))
                for _ = 1, turns do mare.yield() end
                r:cancel()
                local ok, value, _, code = r:join(t.patience)
                t.ok(ok and (value == "f" or code == "cancelled"), code)
                t.eq({behind:join(t.patience)}, {true, "f"})
            end
            for _, keeper in ipairs(keepers) do keeper:kill() end
            p:kill()
        end
    end,

    guards_that_kill_yield_never_return_and_fail_in_odd_ways = function()
        local p = serving(function()
            local sc = require "mare.sc"
            for name in ("raw wait none deep close back free"):gmatch "%a+" do
                _G[name] = function() return name end
            end
            function left() return require "mare.rpc".open(), sc.blocked() end -- luacheck: ignore
            sc.add_constraint("raw", function() coroutine.yield() return true end)
            sc.add_constraint("wait", function() return mare.channel():receive() end)
            sc.add_constraint("none", function() error() end)
            sc.add_constraint("deep", function(request)
                local function down(n) return 1 + down(n + 1) end
                return down(#request.fname)
            end)
            sc.add_constraint("close", function()
                local _ <close> = setmetatable({}, {__close = function() error {} end})
                return true
            end)
            sc.add_constraint("back", function()
                return require "mare.rpc".sync(mare.self(), "free")() == "free"
            end)
        end)
        t.eq(sync(p, "raw")(), "raw")
        t.eq(sync(p, "back")(), "back")
        for name in ("none deep close"):gmatch "%a+" do t.fails("refused", sync(p, name)()) end
        t.fails("timeout", rpc.sync(p, "wait", 0.01)())
        local waiting = mare.go(sync(p, "wait"))
        t.eq(sync(p, "free")(), "free")
        waiting:cancel()
        t.fails("cancelled", select(2, waiting:join(t.patience)))
        t.reaches(function() return select("#", sync(p, "left")()) == 2
            and sync(p, "left")() == 1 and select(2, sync(p, "left")()) == 0 end)
        p:kill()
    end,

    a_guard_that_empties_a_request = function()
        for _, serial in ipairs {false, true} do
            local p = serving(function()
                local sc = require "mare.sc"
                function f() return "f" end -- luacheck: ignore
                function free() return "free" end -- luacheck: ignore
                function open() return rpc.open() end -- luacheck: ignore
                sc.add_constraint("f", function(request)
                    if request.args[1] then
                        for key in pairs(request) do request[key] = nil end
                    end
                    return true
                end)
                sc.serial(serial)
            end)
            t.eq(sync(p, "f")(), "f")
            t.eq(sync(p, "f")(1), "f")
            t.eq(sync(p, "f")(), "f")
            t.eq(sync(p, "free")(), "free")
            t.eq(sync(p, "open")(), 1) -- this one
            p:kill()
        end
    end,

    a_guard_that_kills_its_process = function()
        for _, serial in ipairs {false, true} do
            local p = serving(function()
                local sc = require "mare.sc"
                function f() end -- luacheck: ignore
                function free() return "free" end -- luacheck: ignore
                sc.add_constraint("f", function() mare.self():kill() return true end)
                sc.serial(serial)
            end)
            t.eq(sync(p, "free")(), "free")
            t.fails("noproc", sync(p, "f")())
        end
    end,

    -- At first it says no; when it is asked again the request has a routine of its own. What it
    -- spoils is what it sees: of the request itself, only the arguments.
    a_guard_that_spoils_a_blocked_request = function()
        for _, serial in ipairs {false, true} do
            local p = serving(function()
                local sc, open = require "mare.sc", false
                function f(...) return ... end -- luacheck: ignore
                function fall() open = true end -- luacheck: ignore
                function blocked() return sc.blocked() end -- luacheck: ignore
                sc.add_constraint("f", function(request)
                    local of = request.args[1] == "n" and request.args or request
                    if open then of[request.args[1]] = request.args[2] end
                    return open
                end)
                sc.serial(serial)
            end)
            local list = t.in_routines(4, function(i)
                local key, value = table.unpack({"args", nil, "fname", 5, "fname", nil}, 2 * i - 1,
                    2 * i)
                if not key then return t.fails("refused", sync(p, "f")("n", "many")) end
                t.eq({sync(p, "f")(key, value)}, {key, value})
            end)
            t.reaches(function() return sync(p, "blocked")() == 4 end)
            t.eq(select("#", sync(p, "fall")()), 0)
            for _, r in ipairs(list) do t.ok(r:join(t.patience)) end
            t.eq(sync(p, "f")("task", nil), "task")
            p:kill()
        end
    end,

    -- ---- Functions under a lock ---------------------------------------------------------------

    functions_under_a_lock_that_give_it_away = function()
        local mnt = monitor.create()
        local function under(f) return monitor.doWhenFree(mnt, f, t.patience) end
        t.eq(under(function() monitor.release(mnt) return 1 end)(), 1)
        t.eq(under(function()
            monitor.release(mnt)
            return monitor.take(mnt) ~= nil
        end)(), true)
        t.raises("deadlock", under(function() return under(function() end)() end))
        t.raises("on purpose", under(function() monitor.release(mnt) error "on purpose" end))
        local other = mare.spawn(function()
            local m = require "mare.monitor"
            return m.doWhenFree(mnt, function() mare.self():kill() end)()
        end)
        t.fails("killed", other:join(t.patience))
        t.eq(under(function() -- it is sent away, and comes back, while it is held
            local ch = mare.channel(1)
            ch:send(mnt)
            local same = ch:receive()
            return rawequal(same, mnt) and monitor.fence(same) ~= nil
        end)(), true)
        t.ok(monitor.take(mnt, t.patience))
        monitor.release(mnt)
    end,

    a_lock_that_is_held_is_found_again = function()
        local p = mare.spawn(function()
            local m, box = require "mare.monitor", mare.channel(1)
            box:send(m.create()) -- the only reference is in a message
            local mnt = box:receive()
            box:send(mnt)
            assert(m.take(mnt))
            mnt = nil -- luacheck: ignore
            for _ = 1, 3 do collectgarbage() end
            mnt = box:receive()
            return m.fence(mnt), m.release(mnt), m.take(mnt, 5)
        end)
        t.eq({p:join(t.patience)}, {true, 1, true, 2})
    end,

    -- ---- Handlers and callbacks ---------------------------------------------------------------

    a_handler_that_fails_refuses = function()
        local p = serving(function(error_of)
            local r = require "mare.rpc"
            local before
            before = r.handler(function(request)
                if request.fname == "odd" then error(error_of()) end
                before(request)
            end)
            function f() return r.open() end -- luacheck: ignore
        end, wordless)
        t.fails("refused", sync(p, "odd")())
        t.eq(sync(p, "f")(), 1)
        p:kill()
    end,

    an_error_without_words_is_told = function()
        local p = serving(function(error_of)
            function f() error(error_of()) end -- luacheck: ignore
        end, wordless)
        local _, _, code, trace = sync(p, "f")()
        t.eq(code, "remote")
        t.ok(trace:find "traceback", trace)
        p:kill()
    end,

    callbacks_that_cancel_collect_and_call_again = function()
        local p, done, calls, codes = serving(odd.plain), mare.channel(1), {}, {}
        local again
        local function callback(value, _, code)
            codes[#codes + 1] = value or code
            collectgarbage()
            for i, call in ipairs(calls) do
                if i % 2 == 0 then call:cancel() end
            end
            if #codes == 20 then again(7) elseif #codes == 21 then done:send(true) end
            if #codes == 3 then error "on purpose, after all" end -- it is printed
        end
        again = rpc.async(p, "f", callback)
        for i = 1, 20 do calls[i] = again(i) end
        t.ok(done:receive(t.patience))
        for _, got in ipairs(codes) do t.ok(math.type(got) or got == "cancelled", got) end
        p:kill()
    end,

    subscribers_that_publish_close_and_subscribe = function()
        local broker, got = pubsub.create(), mare.channel(100)
        local sub, second
        sub = broker:subscribe("n/#", function(topic, n)
            if n < 3 then broker:publish("n/next", n + 1) end
            if n == 1 then
                second = broker:subscribe("n/#", function(_, m) got:send("second", m) end)
            end
            got:send(topic, n)
            if n == 3 then
                sub:close()
                sub:close()
                broker:publish("n/next", 4)
            end
        end)
        broker:publish("n/first", 1)
        local seen = {}
        repeat
            local who, n = got:receive(t.patience)
            seen[#seen + 1] = ("%s %s"):format(who, n)
        until who == "second" and n == 4
        table.sort(seen)
        t.eq(seen, {"n/first 1", "n/next 2", "n/next 3", "second 3", "second 4"})
        second:close()
    end,
}
