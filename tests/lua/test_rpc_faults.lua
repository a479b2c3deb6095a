-- SPDX-License-Identifier: MIT
-- mare.rpc when processes die, at every line that they run, and under load.
local mare, t, rpc = require "mare", require "t", require "mare.rpc"
local countdown = require "countdown"

local function sync(p, fname) return rpc.sync(p, fname, t.patience) end

-- A server that notes what it was asked to run, in the order in which it began.
local function noting()
    local ran, r = {}, require "mare.rpc"
    function note(x) ran[#ran + 1] = x return x end
    function wait(x) note(x) mare.sleep(0) return x end
    function all() return ran end
    function open() return r.open() end
    r.serve()
end

return {
    answers_come_also_when_memory_is_short = function()
        local p = mare.spawn(function()
            function double(x) return 2 * x end
            require "mare.rpc".serve()
        end)
        local heir, go, got, failed = mare._heir, mare.go, mare.channel(8), mare.channel(1)
        local function none() error("not enough memory", 0) end
        local _ <close> = setmetatable({}, {__close = function()
            mare._heir, mare.go = heir, go
        end})
        local double = rpc.async(p, "double", function(x) got:send(x) end)
        mare._heir = none -- the routine that takes answers can have none
        for x = 1, 3 do double(x) end
        for x = 1, 3 do t.eq({got:receive(t.patience)}, {2 * x}) end
        -- Nor can a callback have one: the routine that takes answers ends, and another begins.
        double(4)
        mare.go = function()
            failed:send(true)
            error("not enough memory", 0)
        end
        t.ok(failed:receive(t.patience))
        mare.yield() -- so that it has ended
        mare._heir, mare.go = heir, go
        double(5)
        t.eq({got:receive(t.patience)}, {10})
        p:kill()
    end,

    the_callee_dies_in_the_call = function()
        local begun = mare.channel(1)
        local p = mare.spawn(function()
            function hang() begun:send() mare.channel():receive() end
            function fall() error "in the main routine" end
            require "mare.rpc".serve()
        end)
        local r = mare.go(sync(p, "hang"))
        begun:receive(t.patience)
        p:kill "enough"
        local _, value, message, code = r:join(t.patience)
        t.fails("noproc", value, message, code)
        t.ok(message:find "killed: enough", message)
        t.fails("noproc", sync(p, "hang")())
    end,

    an_answer_counts_also_when_the_callee_has_ended_since = function()
        t.needs_preemption()
        for _ = 1, 20 do
            local p = mare.spawn(function()
                function last() require "mare.rpc".stop() return "answer" end
                require "mare.rpc".serve()
            end)
            local got
            rpc.async(p, "last", function(x) got = x end)()
            while p:alive() do end -- no other routine of this process has a turn meanwhile
            t.reaches(function() return got ~= nil end)
            t.eq(got, "answer")
        end
    end,

    what_a_dead_caller_asked_for_is_dropped = function()
        local told = mare.channel(1)
        local p = mare.spawn(function()
            function hang() told:send "runs" told:send(select(3, mare.channel():receive())) end
            require "mare.rpc".serve()
        end)
        local caller = mare.spawn(function() require "mare.rpc".sync(p, "hang")() end)
        t.eq({told:receive(t.patience)}, {"runs"})
        caller:kill()
        t.eq({told:receive(t.patience)}, {"cancelled"})
        p:kill()
    end,

    a_cancel_that_finds_no_room_is_not_lost = function()
        local go, got = mare.channel(1), mare.channel(10)
        local p = mare.spawn(function()
            local inbox = mare.channel(1, "rpc:" .. mare.self():id())
            while go:receive() do
                for _ = 1, 2 do got:send(inbox:receive()) end
            end
        end)
        local function is_withdrawn()
            go:send(true)
            local kind, id = got:receive(t.patience)
            local next_kind, next_id = got:receive(t.patience)
            t.eq({kind, next_kind, next_id}, {"call", "cancel", id})
        end
        t.reaches(function() return mare.find("rpc:" .. p:id()) end)
        t.fails("timeout", rpc.sync(p, "f", 0)()) -- that call has filled the inbox
        is_withdrawn()
        local code = mare.channel(1)
        local call = rpc.async(p, "f", function(_, _, why) code:send(why) end)()
        t.ok(call:cancel())
        t.eq(code:receive(t.patience), "cancelled")
        is_withdrawn()
        p:kill()
    end,

    what_is_given_up_at_once_does_not_stay_open = function()
        local p = mare.spawn(function()
            local r = require "mare.rpc"
            function hang() mare.channel():receive() end
            function open() return r.open() end
            r.serve()
        end)
        t.ok(sync(p, "open")())
        local hang = rpc.sync(p, "hang", 0)
        for _ = 1, t.gc_stress and 600 or 3000 do hang() end -- more than the inbox has room for
        t.reaches(function() return sync(p, "open")() == 1 end)
        p:kill()
    end,

    an_answer_to_something_else_is_not_taken = function()
        local p = mare.spawn(function()
            local inbox = mare.channel(1, "rpc:" .. mare.self():id())
            local _, id, reply = inbox:receive()
            reply:send(id - 1, true, "wrong")
            reply:send(id, true, "right")
        end)
        t.eq(sync(p, "f")(), "right")
    end,

    the_callee_ends_after_its_last_answer = function()
        for _ = 1, 20 do
            local p = mare.spawn(function()
                function last() require "mare.rpc".stop() return "answer" end
                require "mare.rpc".serve()
            end)
            t.eq(sync(p, "last")(), "answer")
        end
    end,

    the_callee_is_killed_at_every_line = function()
        local outcomes = {}
        local killed = countdown.each(countdown.step(1), function(n)
            local p = mare.spawn(countdown.body, n, noting)
            local value, message, code = sync(p, "wait")(n)
            if value then
                t.eq(value, n)
            else
                t.fails("noproc", value, message, code)
                p:join(t.patience) -- the call ends a little earlier than the process
            end
            outcomes[code or "done"] = true
            countdown.rest(p)
            return p
        end)
        t.ok(killed > 5, killed)
        t.ok(outcomes.done and outcomes.noproc)
    end,

    the_caller_is_killed_at_every_line = function()
        local p = mare.spawn(noting)
        t.eq(sync(p, "open")(), 1)
        local killed = countdown.each(countdown.step(3), function(n)
            local caller = mare.spawn(countdown.body, n, function(id)
                local r = require "mare.rpc"
                r.async(p, "wait", function() end)(id)
                assert(r.sync(p, "wait", 60)(-id) == -id)
                return "done"
            end, n)
            caller:join(t.patience)
            return caller
        end)
        t.ok(killed > 5, killed)
        local times = {}
        for _, x in ipairs(sync(p, "all")()) do
            times[x] = (times[x] or 0) + 1
            t.eq(times[x], 1, "a request was run twice")
        end
        t.reaches(function() return sync(p, "open")() == 1 end, "requests of the dead are dropped")
        p:kill()
    end,

    thousands_of_calls_in_flight = function()
        local n, gate = t.gc_stress and 200 or 3000, mare.channel()
        local p = mare.spawn(function()
            function hold(x) gate:receive() return x end
            function open() return require "mare.rpc".open() end
            require "mare.rpc".serve()
        end)
        local seen, count = {}, 0
        local hold = rpc.async(p, "hold", function(x)
            t.ok(math.type(x) == "integer" and not seen[x])
            seen[x], count = true, count + 1
        end, t.patience)
        for i = 1, n do hold(i) end
        t.eq(sync(p, "open")(), n + 1)
        t.eq(count, 0)
        gate:close()
        t.reaches(function() return count == n end)
        t.eq(sync(p, "open")(), 1)
        p:kill()
    end,

    no_request_is_lost_or_run_twice = function()
        t.seed()
        local p, rounds = mare.spawn(noting), t.gc_stress and 5 or 40
        local clients, done = {}, mare.channel(1000)
        for i = 1, 6 do
            clients[i] = mare.spawn(function()
                local r = require "mare.rpc"
                for k = 1, rounds do
                    local id = i * 1000 + k
                    local f = r[k % 2 == 0 and "sync" or "async"](p, "wait",
                        k % 2 == 1 and function(x) if x then done:send(x) end end or 60)
                    if k % 2 == 0 then done:send((assert(f(id)))) else f(id) end
                end
            end)
        end
        local victim = clients[math.random(6)]
        for _ = 1, math.random(100) do mare.yield() end
        victim:kill()
        for _, client in ipairs(clients) do t.ok(client:join(t.patience) or client == victim) end
        local ran, answered = {}, 0
        for _, x in ipairs(sync(p, "all")()) do
            t.ok(not ran[x], "run twice")
            ran[x] = true
        end
        while #done > 0 do
            answered = answered + 1
            t.ok(ran[done:receive()], "answered, but not run")
        end
        t.ok(answered >= 5 * rounds, answered)
        p:kill()
    end,

    handlers_that_fail_after_a_wait_refuse_their_own_requests = function()
        local gates, begun = {one = mare.channel(1), two = mare.channel(1)}, mare.channel(2)
        local p = mare.spawn(function(gate_of, tells)
            local r = require "mare.rpc"
            r.handler(function(request)
                tells:send(true)
                gate_of[request.fname]:receive()
                error "on purpose"
            end)
            r.serve()
        end, gates, begun)
        local one = mare.go(sync(p, "one"))
        t.ok(begun:receive(t.patience))
        local two = mare.go(sync(p, "two"))
        t.ok(begun:receive(t.patience))
        for _, name in ipairs {"one", "two"} do
            gates[name]:send(true)
            local _, value, message, code = (name == "one" and one or two):join(t.patience)
            t.fails("refused", value, message, code)
            t.ok(message:find "^the handler failed: .*on purpose$", message)
        end
        p:kill()
    end,

    nonsense_in_the_inbox_does_no_harm = function()
        local p = mare.spawn(noting)
        t.eq(sync(p, "open")(), 1)
        local inbox = mare.find("rpc:" .. p:id())
        for _, junk in ipairs {
            {}, {"call"}, {"call", 1, "x", "note", 5}, {"cancel"}, {"cancel", 1, {}},
            {"call", 1, false, "note", false}, {"packed", 1}, {5}, {{}}, {"call", 1, p, "note", p},
            {"packed", 1, false, "note", p, 1, 1, 1, {n = -1}},
            {"call", 1, false, "note", p, 0 / 0},
            {"call", 1, false, "note", p, -1}, {"call", 1, false, "note", p, "x", 7, {}, "x"},
        } do
            t.ok(inbox:send(table.unpack(junk, 1, 9)))
        end
        t.eq(sync(p, "note")("still here"), "still here")
        t.reaches(function() return sync(p, "open")() == 1 end)
        p:kill()
    end,
}
