-- SPDX-License-Identifier: MIT
-- mare.rpc: what can be called, what comes back, deadlines, cancelling. Deaths and load are in
-- test_rpc_faults.lua.
local mare, t, rpc = require "mare", require "t", require "mare.rpc"

-- A process that runs f and then serves.
local function serving(f, ...)
    return mare.spawn(function(...)
        f(...)
        require "mare.rpc".serve()
    end, ...)
end

local function sync(p, fname) return rpc.sync(p, fname, t.patience) end

return {
    results_come_back_as_they_are = function()
        local p <close> = setmetatable({}, {__close = function(s) s.p:kill() end})
        p.p = serving(function()
            function echo(...) return ... end
        end)
        local echo = sync(p.p, "echo")
        t.eq(table.pack(echo()), {n = 0})
        t.eq(table.pack(echo(nil, 1, 2.0, nil)), {nil, 1, 2.0, nil, n = 4})
        local shared = {}
        local a, b = echo(shared, {shared})
        t.ok(rawequal(a, b[1]))
        t.eq(echo(p.p), p.p)
        for i = 1, 600 do -- more than there is room for
            rpc.async(p.p, "echo", function(...)
                if i == 600 then shared.n = select("#", ...) end
            end)(nil, i, nil, nil)
        end
        t.reaches(function() return shared.n end)
        t.eq(shared.n, 4)
    end,

    a_process_that_was_just_made_can_be_called = function()
        local go = mare.channel()
        local p = mare.spawn(function()
            go:receive()
            function late() return "here" end
            require "mare.rpc".serve()
        end)
        local r = mare.go(sync(p, "late"))
        t.settle()
        go:send()
        t.eq({r:join(t.patience)}, {true, "here"})
        p:kill()
    end,

    an_error_comes_with_its_traceback = function()
        local p = serving(function()
            function fails(what) error(what) end
            function odd() error(coroutine.create(print)) end
        end)
        local value, err, code, traceback = sync(p, "fails")("the pump")
        t.eq({value, code}, {nil, "remote"})
        t.ok(err:find "test_rpc.lua:%d+: the pump")
        t.ok(traceback:find "in function 'fails'$", traceback) -- who called it there is nobody's
        value, err, code = sync(p, "fails")({reason = 7})
        t.eq({value, err, code}, {nil, {reason = 7}, "remote"})
        value, err, code = sync(p, "odd")()
        t.eq({value, code}, {nil, "remote"})
        t.ok(err:find "^thread:")
        p:kill()
    end,

    what_cannot_travel = function()
        local p = serving(function()
            function result() return io.stdout end
        end)
        local value, message, code = sync(p, "result")()
        t.eq({value, code}, {nil, "badmsg"})
        t.ok(message:find "file", message)
        t.raises("cannot", sync(p, "result"), io.stdout)
        t.ok(select("#", sync(p, "result")()) == 3, "and it goes on")
        p:kill()
    end,

    the_standard_libraries_cannot_be_called = function()
        local p = serving(function()
            local server = require "mare.rpc"
            now, print = mare.now, function() end
            bank = {steal = function() end}
            server.export("shop", {buy = function() return "sold" end, name = "x",
                                   back = {door = function() return "open" end}})
            server.export("clock", mare.now)
        end)
        for _, name in ipairs {"os.execute", "print", "load", "require", "string.rep", "now",
                               "bank", "bank.steal", "shop", "shop.name", "shop.name.rep",
                               "shop.sell",
                               "", ".", "shop.", "nothing", "_G.print", "mare.exit"} do
            t.fails("denied", sync(p, name)())
        end
        t.eq(sync(p, "shop.buy")(), "sold")
        t.eq(sync(p, "shop.back.door")(), "open")
        t.eq(math.type(sync(p, "clock")()), "float")
        p:kill()
    end,

    what_is_exported_can_be_taken_back = function()
        local p = serving(function()
            local server = require "mare.rpc"
            server.export("f", function() return 1 end)
            server.export("close", function() server.export("f", nil) end)
        end)
        t.eq(sync(p, "f")(), 1)
        sync(p, "close")()
        t.fails("denied", sync(p, "f")())
        p:kill()
    end,

    a_deadline_ends_the_call_and_what_the_function_waits_for = function()
        local told = mare.channel(1)
        local p = serving(function()
            function hang() told:send(select(3, mare.channel():receive())) end
            function quick() return 1 end
        end)
        t.eq(sync(p, "quick")(), 1)
        t.fails("timeout", rpc.sync(p, "hang", 0.01)())
        t.eq({told:receive(t.patience)}, {"cancelled"})
        t.fails("timeout", rpc.sync(p, "hang", mare.deadline(0))())
        t.eq(sync(p, "quick")(), 1)
        p:kill()
    end,

    an_answer_that_comes_too_late_disturbs_nobody = function()
        local gate = mare.channel()
        local p = serving(function()
            function slow(x) pcall(gate.receive, gate) return x end
            function fast(x) return x end
        end)
        t.eq(sync(p, "fast")(0), 0)
        for i = 1, 20 do
            t.fails("timeout", rpc.sync(p, "slow", 0.001)("late"))
            t.eq(sync(p, "fast")(i), i)
        end
        p:kill()
    end,

    callbacks_get_the_results = function()
        local got = mare.channel(10)
        local p = serving(function()
            function double(x) return 2 * x end
        end)
        local double = rpc.async(p, "double", function(...) got:send(...) end)
        for i = 1, 3 do double(i) end
        local sum = 0
        for _ = 1, 3 do sum = sum + got:receive(t.patience) end
        t.eq(sum, 12)
        double("x")
        t.eq({select(3, got:receive(t.patience))}, {"remote", select(4, sync(p, "double")("x"))})
        p:kill()
        double(1)
        t.eq(select(3, got:receive(t.patience)), "noproc")
    end,

    a_call_can_be_cancelled = function()
        local got, seen = mare.channel(1), mare.channel(1)
        local p = serving(function()
            function hang() seen:send "runs" seen:send(select(3, mare.channel():receive())) end
        end)
        local call = rpc.async(p, "hang", function(...) got:send(...) end)()
        t.eq({seen:receive(t.patience)}, {"runs"})
        t.ok(call:cancel())
        t.eq({select(3, got:receive(t.patience))}, {"cancelled"})
        t.eq({seen:receive(t.patience)}, {"cancelled"})
        t.ok(not call:cancel(), "it is over")
        local r = mare.go(sync(p, "hang"))
        t.eq({seen:receive(t.patience)}, {"runs"})
        r:cancel()
        local _, value, message, code = r:join(t.patience)
        t.fails("cancelled", value, message, code)
        t.eq({seen:receive(t.patience)}, {"cancelled"})
        p:kill()
    end,

    of_calls_that_were_given_up_nothing_is_left = function()
        local p = serving(function()
            function hang() mare.channel():receive() end -- luacheck: ignore
            function open() return require "mare.rpc".open() end -- luacheck: ignore
        end)
        local n = t.gc_stress and 20 or 100
        local ended = 0
        local function cb() ended = ended + 1 end
        local function all_are_over()
            t.reaches(function() return ended == 2 * n and sync(p, "open")() == 1 end)
            ended = n
        end
        ended = n -- as if there had been such calls before
        t.leaves_nothing(n, function()
            local call = rpc.async(p, "hang", cb)()
            t.settle()
            t.ok(call:cancel())
        end, all_are_over)
        t.leaves_nothing(n, function() t.ok(rpc.async(p, "hang", cb)():cancel()) end, all_are_over)
        t.leaves_nothing(n, function() rpc.async(p, "hang", cb, 0)() end, all_are_over)
        p:kill()
    end,

    who_has_given_up_its_last_call_may_end = function()
        local p = serving(function()
            function hang() mare.channel():receive() end -- luacheck: ignore
        end)
        local caller = mare.spawn(function()
            local r = require "mare.rpc"
            local call = r.async(p, "hang", function() end)()
            mare.sleep(0.001) -- somebody waits for the answer
            call:cancel()
            local odd = r.async(p, "hang", function() end)
            mare.sleep(0.001)
            return pcall(odd, coroutine.create(print)) -- this cannot travel
        end)
        t.eq(select(2, caller:join(t.patience)), false)
        p:kill()
    end,

    -- Two calls with earlier deadlines than those before, before the reader had a turn.
    an_earlier_deadline_ends_no_other_call = function()
        local gate, codes = mare.channel(1), mare.channel(10)
        local p = serving(function()
            function pass() return gate:receive() end -- luacheck: ignore
        end)
        t.fails("timeout", rpc.sync(p, "pass", 0.001)()) -- it serves
        local function call(seconds)
            rpc.async(p, "pass", function(value, _, code) codes:send(value or code) end, seconds)()
        end
        call(1000)
        t.settle()
        call(500)
        call(400)
        t.settle()
        for _ = 1, 3 do t.ok(gate:sendwithin(t.patience, "passed")) end
        for _ = 1, 3 do t.eq(codes:receive(t.patience), "passed") end
        p:kill()
    end,

    each_of_many_calls_in_flight_has_its_own_end = function()
        local go, got = mare.channel(), mare.channel(10)
        local p = serving(function()
            function hang(i) go:receive() return i end
            function quick(i) return i end
        end)
        local function call(fname, timeout, i)
            return rpc.async(p, fname, function(...) got:send(i, ...) end, timeout)(i)
        end
        call("hang", nil, 1)
        local second = call("hang", t.patience, 2)
        call("hang", 0.001, 3) -- sooner than those that are waited for already
        t.eq({got:receive(t.patience)}, {3, nil, "the deadline passed", "timeout"})
        call("quick", nil, 4)
        t.eq({got:receive(t.patience)}, {4, 4})
        t.ok(second:cancel())
        t.eq({got:receive(t.patience)}, {2, nil, "the call was cancelled", "cancelled"})
        t.raises("cannot travel", call, "quick", nil, io.stdout)
        call("quick", nil, 5)
        t.eq({got:receive(t.patience)}, {5, 5})
        go:send()
        t.eq({got:receive(t.patience)}, {1, 1})
        call("hang", nil, 6)
        call("hang", t.patience, 7)
        p:kill()
        local ends = {}
        for _ = 1, 2 do
            local i, _, _, code = got:receive(t.patience)
            ends[i] = code
        end
        t.eq(ends, {[6] = "noproc", [7] = "noproc"})
    end,

    a_name_means_whoever_has_it_now = function()
        local function named(answer)
            return mare.spawn({name = "rpc-test-named"}, function()
                function who() return answer end
                require "mare.rpc".serve()
            end)
        end
        local who = sync("rpc-test-named", "who")
        t.fails("noname", who())
        local first = named "first"
        t.eq(who(), "first")
        first:kill()
        first:join()
        t.fails("noname", who())
        local second = named "second"
        t.eq(who(), "second")
        second:kill()
        local ch <close> = mare.channel(1, "rpc-test-channel")
        t.fails("noproc", sync(ch:name(), "who")())
    end,

    a_server_may_call_its_caller = function()
        local function node(other)
            local r, depth = require "mare.rpc", 0
            function down(n, from)
                depth = depth + 1
                if n == 0 then return depth end
                return r.sync(from, "down")(n - 1, mare.self())
            end
            r.serve()
        end
        local a, b = mare.spawn(node), mare.spawn(node)
        t.eq(sync(a, "down")(20, b), 11)
        a:kill()
        b:kill()
    end,

    without_a_callback_nothing_comes_back = function()
        local got = mare.channel(1)
        local p = serving(function()
            function note(x) got:send(x) end
        end)
        t.eq({rpc.async(p, "note")(5)}, {true})
        t.eq({got:receive(t.patience)}, {5})
        p:kill()
        p:join()
        t.fails("noproc", rpc.async(p, "note")(5))
    end,

    requests_of_a_routine_arrive_in_order = function()
        local p = serving(function()
            local list = {}
            function add(x) list[#list + 1] = x end
            function all() return list end
        end)
        local add, expected = rpc.async(p, "add"), {}
        for i = 1, 500 do
            add(i)
            expected[i] = i
        end
        t.eq(sync(p, "all")(), expected)
        p:kill()
    end,

    a_request_that_waits_holds_up_no_other = function()
        local p = serving(function()
            local gate = mare.channel()
            function wait_here() return gate:receive() end
            function open(x) return gate:send(x) end
            function quick(x) return x end
        end)
        local results = mare.channel(100)
        for _ = 1, 10 do
            rpc.async(p, "wait_here", function(x) results:send(x) end)()
        end
        for i = 1, 200 do t.eq(sync(p, "quick")(i), i) end
        t.eq(#results, 0)
        for i = 1, 10 do t.eq(sync(p, "open")(i), true) end
        local sum = 0
        for _ = 1, 10 do sum = sum + results:receive(t.patience) end
        t.eq(sum, 55)
        p:kill()
    end,

    a_callback_that_waits_or_fails_holds_up_no_other = function()
        local p = serving(function() function same(x) return x end end)
        local gate, results = mare.channel(), mare.channel(300)
        local same = rpc.async(p, "same", function(x)
            if x % 3 == 1 then gate:receive() end
            if x % 3 == 2 then error({}) end -- of a routine, which is printed
            results:send(x)
        end)
        for i = 1, 30 do same(i) end
        for i = 3, 30, 3 do t.eq(results:receive(t.patience), i) end
        t.eq(#results, 0)
        for _ = 1, 10 do gate:send(true) end
        for i = 1, 28, 3 do t.eq(results:receive(t.patience), i) end
        p:kill()
    end,

    callbacks_are_chains_of_their_own = function()
        local monitor = require "mare.monitor"
        local p = serving(function() function same(x) return x end end)
        local mnt, tried, fences = monitor.create(), 0, {}
        local take = rpc.async(p, "same", function() -- the second waits for the lock
            tried = tried + 1
            fences[#fences + 1] = select(2, pcall(monitor.take, mnt, t.patience))
        end)
        take()
        take()
        while tried < 2 do mare.sleep(0.001) end
        t.eq(#fences, 1)
        monitor.release(mnt)
        while #fences < 2 do mare.sleep(0.001) end
        t.ok(math.type(fences[2]) == "integer" and fences[2] > fences[1], fences[2])
        monitor.release(mnt)
        p:kill()
    end,

    who_has_begun_inherits_from_nobody = function()
        local gate = mare.channel()
        local r = mare.go(function() return gate:receive() end)
        t.eq(mare._appoint(r), false)
        mare.yield()
        t.eq(mare._appoint(r), false)
        gate:send "through"
        t.eq({r:join(t.patience)}, {true, "through"})
        t.eq(mare._appoint(r), false)
        local heir = mare._heir(function() return "inherited" end)
        t.eq(mare._appoint(heir), true)
        mare.yield()
        t.eq(mare._appoint(heir), false)
        t.eq({heir:join(t.patience)}, {true, "inherited"})
    end,

    a_cancelled_request_is_cancelled_where_it_runs = function()
        local p = serving(function()
            local told = mare.channel(1)
            function wait_here()
                local _, _, code = mare.channel():receive()
                told:send(code)
            end
            function heard() return told:receive() end
            function quick() return true end
        end)
        local got = mare.channel(1)
        local call = rpc.async(p, "wait_here", function(_, _, code) got:send(code) end)()
        t.eq(sync(p, "quick")(), true) -- so that the first has begun
        t.eq(call:cancel(), true)
        t.eq(got:receive(t.patience), "cancelled")
        t.eq(sync(p, "heard")(), "cancelled")
        t.eq(sync(p, "quick")(), true) -- and nobody else was
        p:kill()
    end,

    the_handler_can_be_replaced = function()
        local p = serving(function()
            local r = require "mare.rpc"
            local before
            before = r.handler(function(request)
                if request.fname == "secret" then
                    r.refuse(request, "not for " .. tostring(request.args[1]), "refused")
                else
                    before(request)
                end
            end)
            function open(x) return x end
            function secret() end
        end)
        t.eq(sync(p, "open")(3), 3)
        local _, message, code = sync(p, "secret")("you")
        t.eq({message, code}, {"not for you", "refused"})
        p:kill()
    end,

    a_handler_that_runs_a_request_twice_has_it_run_once = function()
        local gate, runs = mare.channel(), mare.channel(10)
        local p = mare.spawn(function()
            local r = require "mare.rpc"
            function f(waits)
                runs:send(waits)
                return not waits or gate:receive()
            end
            r.handler(function(request)
                for _ = 1, 2 do mare.go(r.run, request) end
                if not request.args[1] then r.run(request) end
            end)
            r.serve()
        end)
        local call = mare.go(sync(p, "f"), true)
        t.eq(runs:receive(t.patience), true)
        t.eq(sync(p, "f")(false), true)
        t.ok(gate:sendwithin(t.patience, "waited for"))
        t.eq({call:join(t.patience)}, {true, "waited for"})
        t.eq({runs:receive(t.patience), #runs}, {false, 0})
        p:kill()
    end,

    more_requests_than_the_limit_are_refused = function()
        local gate, begun = mare.channel(), mare.channel(2)
        local p = serving(function()
            function hold() begun:send() gate:receive() return "held" end
            require "mare.rpc".limit(2)
        end)
        local first, second = mare.go(sync(p, "hold")), mare.go(sync(p, "hold"))
        for _ = 1, 2 do begun:receive(t.patience) end
        t.fails("refused", sync(p, "hold")())
        gate:close()
        t.eq({first:join(t.patience)}, {true, "held"})
        t.eq({second:join(t.patience)}, {true, "held"})
        t.eq(sync(p, "hold")(), "held")
        p:kill()
    end,

    many_at_once = function()
        local list = {}
        for i = 1, 3 do
            list[i] = serving(function()
                function mine(x) return x * i end
            end)
        end
        t.eq(rpc.all(list, "mine", nil, t.patience)(10),
            {{10, n = 1}, {20, n = 1}, {30, n = 1}})
        list[2]:kill()
        list[2]:join()
        local got = mare.channel(1)
        rpc.all(list, "mine", function(results) got:send(results) end, t.patience)(1)
        local results = got:receive(t.patience)
        t.eq({results[1][1], results[2][3], results[3][1]}, {1, "noproc", 3})
        local each = mare.channel(3)
        rpc.each(list, "mine", function(p, ...) each:send(p, ...) end)(2)
        local seen = {}
        for _ = 1, 3 do
            local p, value, _, code = each:receive(t.patience)
            seen[p] = value or code
        end
        t.eq({seen[list[1]], seen[list[2]], seen[list[3]]}, {2, "noproc", 6})
        list[1]:kill()
        list[3]:kill()
    end,

    who_waits_for_all_can_be_cancelled = function()
        local begun = mare.channel(3)
        local p = mare.spawn(function()
            function quick() return "quick" end
            function never()
                begun:send(true)
                return select(3, mare.channel():receive())
            end
            function call(name) return _G[name]() end
            require "mare.rpc".serve()
        end)
        local all = mare.go(function()
            return rpc.all({p, p}, "call")("never"), rpc.all({p, p}, "call")("quick")
        end)
        for _ = 1, 2 do t.ok(begun:receive(t.patience)) end
        all:cancel()
        local _, first, second = all:join(t.patience)
        for i = 1, 2 do t.fails("cancelled", table.unpack(first[i], 1, first[i].n)) end
        t.eq(second, {{"quick", n = 1}, {"quick", n = 1}})
        p:kill()
    end,

    stop_ends_a_server = function()
        local p = serving(function()
            local r = require "mare.rpc"
            function finish() r.stop() return "last" end
        end)
        t.eq(sync(p, "finish")(), "last")
        t.eq({p:join(t.patience)}, {true})
        t.fails("noproc", sync(p, "finish")())
    end,

    who_never_serves_is_not_waited_for_without_end = function()
        local p = mare.spawn(function() mare.channel():receive() end)
        local before = rpc.patience
        rpc.patience = 0.01
        t.fails("noproc", rpc.sync(p, "f")())
        rpc.patience = before
        t.fails("timeout", rpc.sync(p, "f", 0.01)())
        p:kill()
    end,

    time_in_which_nothing_runs_is_not_waited_for = function()
        local go, ready = mare.channel(1), mare.channel(1)
        local p = mare.spawn(function()
            local r = require "mare.rpc"
            function late() return "here" end
            ready:send(true)
            go:receive()
            r.serve()
        end)
        t.ok(ready:receive(t.patience))
        rpc.patience = 0.3
        t.with_workers(1, function()
            local r = mare.go(sync(p, "late"))
            mare.yield() -- it has looked, and pauses
            go:send()
            os.execute "sleep 0.5" -- which holds up the only worker
            t.eq({r:join(t.patience)}, {true, "here"})
        end)
        p:kill()
    end,

    misuse_is_told_at_the_caller_s_line = function()
        for _, mistake in ipairs {
            function() local _ = rpc.sync(5, "f") end,
            function() local _ = rpc.sync("p") end,
            function() local _ = rpc.sync("p", "f", "soon") end,
            function() local _ = rpc.sync("p", "f", 0 / 0) end,
            function() local _ = rpc.async("p", "f", print, {}) end,
            function() local _ = rpc.async("p", "f", 1) end,
            function() local _ = rpc.each({5}, "f") end,
            function() local _ = rpc.each({"p"}, 5) end,
            function() local _ = rpc.all({"p"}, "f", print, "soon") end,
        } do
            local at = ("test_rpc.lua:%d: bad argument #"):format(
                debug.getinfo(mistake, "S").linedefined)
            local _, why = pcall(mistake)
            t.ok(why:find(at, 1, true), why)
        end
    end,

    misuse_names_the_argument = function()
        t.raises("bad argument #1 to 'sync' %(process or name expected, got no value", rpc.sync)
        t.raises("bad argument #1 to 'sync'.-got userdata", rpc.sync, mare.channel(), "f")
        t.raises("bad argument #2 to 'sync' %(string expected, got no value", rpc.sync, "p")
        t.raises("bad argument #3 to 'sync' %(number expected", rpc.sync, "p", "f", "soon")
        t.raises("bad argument #3 to 'async' %(function expected", rpc.async, "p", "f", 1)
        t.raises("bad argument #4 to 'async'", rpc.async, "p", "f", print, {})
        t.raises("bad argument #1 to 'all' %(table expected", rpc.all, "p", "f")
        t.raises("bad argument #2 to 'export'", rpc.export, "f", 5)
        t.raises("a name has no dots", rpc.export, "a.b", print)
        t.raises("bad argument #1 to 'handler'", rpc.handler, 5)
    end,
}
