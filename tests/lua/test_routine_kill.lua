-- SPDX-License-Identifier: MIT
-- Routines that are cancelled, and routines of a process that is killed, in every wait.
local mare, t = require "mare", require "t"
local settle = t.settle

-- Every way to wait, none of which ends by itself.
local waits = {
    receive = function() return mare.channel():receive() end,
    receive_within = function() return mare.channel():receive(3600) end,
    send = function() return mare.channel():send(1) end,
    send_large = function() return mare.channel():send(("x"):rep(5000), {1, 2, 3}) end,
    send_buffer = function() return mare.channel():send(mare.buffer(10)) end,
    send_within = function() return mare.channel():sendwithin(3600, 1) end,
    send_to_full = function()
        local ch = mare.channel(1)
        ch:send(1)
        return ch:send(2)
    end,
    messages = function() return mare.channel():messages()(mare.channel()) end,
    select = function()
        local a, b = mare.channel(), mare.channel()
        return mare.select {a, {b, "value", mare.buffer(1)}, a, b}
    end,
    select_within = function() return mare.select({mare.channel()}, 3600) end,
    select_nothing = function() return mare.select({}, 3600) end,
    select_process = function()
        local p = mare.spawn(function() mare.channel():receive(3600) end)
        local _kill <close> = setmetatable({}, {__close = function() p:kill() end})
        return mare.select {p}
    end,
    sleep = function() return mare.sleep(3600) end,
    sleep_for_ever = function() return mare.sleep(math.huge) end,
    join_process = function()
        local p = mare.spawn(function() mare.channel():receive(3600) end)
        local _kill <close> = setmetatable({}, {__close = function() p:kill() end})
        return p:join()
    end,
    join_process_within = function()
        local p = mare.spawn(function() mare.channel():receive(3600) end)
        local _kill <close> = setmetatable({}, {__close = function() p:kill() end})
        return p:join(3600)
    end,
    join_routine = function()
        local stop = mare.channel()
        local r = mare.go(function() stop:receive() end)
        local _stop <close> = stop
        return r:join()
    end,
    join_routine_within = function()
        local stop = mare.channel()
        local r = mare.go(function() stop:receive() end)
        local _stop <close> = stop
        return r:join(3600)
    end,
    wait_for_others = function()
        local p = mare.spawn(function() mare.channel():receive(3600) end)
        local _kill <close> = setmetatable({}, {__close = function() p:kill() end})
        return mare.wait()
    end,
    in_a_coroutine = function()
        return coroutine.wrap(function()
            return coroutine.wrap(function() return mare.channel():receive() end)()
        end)()
    end,
    in_pcall = function() return select(2, pcall(mare.sleep, 3600)) end,
}

-- Spawns a process that runs the body in a routine, beside a main one that runs `main` (or ends),
-- kills it when it is blocked, and returns what it said after "here".
local function killed(body, main)
    local log = mare.channel(100)
    local p = mare.spawn(function()
        mare.go(function()
            local _guard <close> = setmetatable({}, {__close = function() log:trysend "closed" end})
            log:send "here"
            body(log)
            log:send "not reached"
        end)
        if main then main(log) end
    end)
    t.eq(log:receive(t.patience), "here")
    t.reaches(function() return p:status() == "blocked" end)
    t.eq(p:kill "on purpose", true)
    t.eq({p:join(t.patience)}, {nil, "on purpose", "killed"})
    local said = {}
    log:close()
    for word in log:messages() do said[#said + 1] = word end
    return said
end

return {
    -- Cancelling.

    cancel_in_each_wait = function()
        local count = 0
        for name, wait in pairs(waits) do
            local r = mare.go(wait)
            settle()
            t.eq({name, r:status()}, {name, "alive"})
            t.eq(r:cancel(), true)
            local all = table.pack(r:join(t.patience))
            t.eq({name, all[1], all[2], all[3], all[4]},
                {name, true, nil, "the operation was cancelled", "cancelled"})
            t.eq(r:cancel(), false)
            count = count + 1
        end
        t.ok(count > 15)
    end,

    cancel_before_a_wait = function()
        for name, wait in pairs(waits) do
            local r = mare.go(wait)
            r:cancel() -- before it has run at all
            local all = table.pack(r:join(t.patience))
            t.eq({name, all[1], all[4]}, {name, true, "cancelled"})
        end
    end,

    cancel_ends_one_wait = function()
        local stop = mare.channel()
        local r = mare.go(function()
            local codes = {}
            for i = 1, 4 do codes[i] = select(3, mare.channel():receive(0.001)) end
            codes[5] = stop:receive()
            return codes
        end)
        r:cancel()
        r:cancel() -- before the first took effect: it is the same
        t.ok(stop:sendwithin(t.patience, "end"))
        t.eq({r:join(t.patience)}, {true, {"cancelled", "timeout", "timeout", "timeout", "end"}})
    end,

    cancel_twice_ends_this_wait_and_the_next = function()
        local r = mare.go(function()
            local codes = {}
            for i = 1, 3 do codes[i] = select(3, mare.channel():receive(0.001 + 10 * (3 - i))) end
            return codes
        end)
        settle()
        r:cancel() -- the wait has ended now, but it has not gone on
        r:cancel()
        t.eq({r:join(t.patience)}, {true, {"cancelled", "cancelled", "timeout"}})
    end,

    cancel_does_not_disturb_what_need_not_wait = function()
        local ch = mare.channel(5)
        local r = mare.go(function()
            t.ok(ch:send(1))
            t.ok(ch:trysend(2))
            t.eq(ch:receive(), 1)
            t.eq(ch:tryreceive(), 2)
            t.eq(mare.select({ch}, 0), nil)
            mare.yield()
            return select(3, ch:receive())
        end)
        r:cancel()
        t.eq({r:join(t.patience)}, {true, "cancelled"})
    end,

    one_cancels_itself = function()
        local r
        r = mare.go(function()
            r:cancel()
            return mare.sleep(3600)
        end)
        t.eq({select(4, r:join(t.patience))}, {"cancelled"})
    end,

    what_was_cancelled_holds_no_place_in_line = function()
        local ch = mare.channel()
        local a = mare.go(function() return ch:receive() end)
        local b = mare.go(function() return ch:send "lost" end)
        settle()
        t.eq({a:join(t.patience)}, {true, "lost"}) -- they met
        t.eq({b:join(t.patience)}, {true, true})
        local c = mare.go(function() return ch:receive() end)
        settle()
        c:cancel()
        t.fails("full", ch:trysend(1))
        c:join(t.patience)
        local d = mare.go(function() return ch:send "not sent" end)
        settle()
        d:cancel()
        t.fails("empty", ch:tryreceive())
        d:join(t.patience)
    end,

    -- Killing.

    kill_in_each_wait = function()
        for name, wait in pairs(waits) do
            t.eq({name, killed(wait)}, {name, {"closed"}})
            t.eq({name, killed(wait, wait)}, {name, {"closed"}})
        end
    end,

    kill_runs_every_handler_and_the_youngest_goes_first = function()
        local said = killed(function(log)
            coroutine.wrap(function()
                local _ <close> = setmetatable({}, {__close = function() log:trysend "inner" end})
                mare.channel():receive()
            end)()
        end, function(log)
            local _ <close> = setmetatable({}, {__close = function() log:trysend "main" end})
            mare.channel():receive()
        end)
        t.eq(said, {"inner", "closed", "main"})
    end,

    kill_while_they_compute = function()
        t.needs_preemption()
        for _, how in ipairs {"loop", "pcall", "sort", "coroutine", "hook"} do
            local log = mare.channel(10)
            local p = mare.spawn(function()
                local function endless() while true do end end
                local ways = {
                    loop = endless,
                    pcall = function() while true do pcall(endless) end end,
                    sort = function() table.sort({1, 2, 3}, endless) end,
                    coroutine = function() coroutine.wrap(endless)() end,
                    hook = function() debug.sethook(function() end, "", 1000) endless() end,
                }
                for _ = 1, 2 do
                    mare.go(function()
                        local _ <close> = setmetatable({}, {__close = function()
                            local n = 0
                            for i = 1, 1e6 do n = n + i end -- it has its time
                            log:trysend "closed"
                        end})
                        log:send "here"
                        ways[how]()
                    end)
                end
                mare.go(function() mare.channel():receive() end)
            end)
            t.eq(log:receive(t.patience), "here")
            p:kill() -- the second never begins
            t.fails("killed", p:join(t.patience))
            local said = {here = 1, closed = 0}
            log:close()
            for word in log:messages() do said[word] = said[word] + 1 end
            t.eq(said.closed, said.here, how)
        end
    end,

    kill_from_one_of_them = function()
        local log = mare.channel(10)
        local p = mare.spawn(function()
            mare.go(function()
                local _ <close> = setmetatable({}, {__close = function() log:send "closed" end})
                mare.channel():receive()
            end)
            mare.go(function()
                mare.self():kill "itself"
                log:send "not reached"
            end)
            return "not this"
        end)
        t.eq({p:join(t.patience)}, {nil, "itself", "killed"})
        t.eq(log:receive(0), "closed")
        t.fails("empty", log:tryreceive())
    end,

    kill_before_one_has_run = function()
        local log = mare.channel(10)
        local p = mare.spawn(function()
            string.gsub("x", "x", function() -- where no turn can end
                for _ = 1, 10 do mare.go(function() log:send "not reached" end) end
                mare.self():kill()
            end)
        end)
        t.fails("killed", p:join(t.patience))
        t.fails("empty", log:tryreceive())
    end,

    -- Whoever has claimed a routine's wait and the end of its process meet in every order.
    kill_while_others_wake_them = function()
        for round = 1, 200 do
            local ch, ready = mare.channel(), mare.channel(1)
            local p = mare.spawn(function()
                for i = 1, 8 do
                    mare.go(function()
                        if i % 3 == 0 then mare.sleep(0.001) end
                        if i % 3 == 1 then mare.select({ch, {ch, i}}, 0.001) end
                        while ch:receive() do end
                    end)
                end
                ready:send()
                ch:receive()
            end)
            local waker = mare.spawn(function() while ch:sendwithin(1, 1) do end end)
            ready:receive(t.patience)
            for _ = 1, round % 10 do mare.yield() end
            p:kill()
            t.fails("killed", p:join(t.patience))
            ch:close()
            t.ok(waker:join(t.patience))
        end
    end,
}
