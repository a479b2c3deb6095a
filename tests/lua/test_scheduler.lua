-- SPDX-License-Identifier: MIT
-- The event scheduler under its own names: sources of each kind, steps, loops and their ends. Each
-- case runs in a process of its own, for a scheduler belongs to a process.
local mare, t = require "mare", require "t"
local patience = t.patience -- for those who run in other processes, where t is not

-- Runs the body in a new process with the modules and a log; returns what it logged.
local function logged(body, ...)
    local p = mare.spawn(function(f, ...)
        local log = {}
        f(require "mare.scheduler", function(...)
            log[#log + 1] = table.concat({...}, " ")
        end, ...)
        return log
    end, body, ...)
    local ok, log = p:join(t.patience)
    t.ok(ok, log)
    return log
end

return {
    a_channel_is_a_source_and_its_end_ends_the_loop = function()
        t.eq(logged(function(scheduler, log)
            local c = mare.channel()
            scheduler.register_source(c, log)
            mare.go(function()
                c:send("one", 1)
                c:send "two"
                c:close()
            end)
            scheduler.loop()
            log "over"
        end), {"one 1", "two", "over"})
    end,

    handlers_wait_without_holding_back_others = function()
        t.eq(logged(function(scheduler, log)
            local c, gate = mare.channel(), mare.channel()
            scheduler.register_source(c, function(x)
                if x == 1 then log(gate:receive()) else gate:send "opened by the second" end
                log(x)
                if x == 1 then scheduler.stop() end
            end)
            mare.go(function() c:send(1) c:send(2) end)
            scheduler.loop()
            c:close()
        end), {"2", "opened by the second", "1"}) -- a send to one who waits does not wait
    end,

    a_step_handles_one_event_at_the_most = function()
        t.eq(logged(function(scheduler, log)
            local notify
            local id = scheduler.register_source({start = function(_, n) notify = n end}, log)
            log(tostring(scheduler.step(0)))
            notify "a"
            notify "b"
            log(tostring(scheduler.step(0)))
            log "between"
            log(tostring(scheduler.step(0)))
            log(tostring(scheduler.step(0)))
            scheduler.remove_source(id)
        end), {"false", "a", "true", "between", "b", "true", "false"})
    end,

    polled_sources_take_turns_within_their_time = function()
        t.eq(logged(function(scheduler, log)
            local given, turns = {}, {0, 0}
            local ids = {}
            for i = 1, 2 do
                ids[i] = scheduler.register_source({poll = function(_, seconds)
                    given[#given + 1] = seconds
                    turns[i] = turns[i] + 1
                    if turns[i] == 5 then return "fifth of", i end
                end}, function(what, which)
                    log(what, which)
                    scheduler.remove_source(ids[which])
                end)
            end
            scheduler.loop()
            local sum = 0
            for i = 1, 2 do sum = sum + given[i] end
            log(tostring(sum <= scheduler.poll_time))
            log(tostring(math.abs(turns[1] - turns[2]) <= 1))
        end), {"fifth of 1", "fifth of 2", "true", "true"})
    end,

    a_source_that_blocks_has_a_thread = function()
        t.eq(logged(function(scheduler, log)
            local n = 0
            scheduler.register_source({wait = function()
                n = n + 1
                os.execute "true" -- a C function that takes its time
                if n <= 3 then return "call", n end
            end}, log)
            scheduler.loop()
        end), {"call 1", "call 2", "call 3"})
    end,

    a_socket_is_a_source_of_datagrams = function()
        t.eq(logged(function(scheduler, log)
            local net = require "mare.net"
            local socket = assert(net.udp("127.0.0.1", 0, {limit = 3}))
            local sender = assert(net.udp "127.0.0.1")
            local _, port = sender:address()
            scheduler.register_source(socket, function(data, host, from)
                log(data, host, tostring(from == port))
                if data == "two" then scheduler.stop() end
            end)
            for _, text in ipairs {"one", "too long", "two"} do
                sender:send(text, socket:address())
            end
            scheduler.loop()
            socket:close()
        end), {"one 127.0.0.1 true", "two 127.0.0.1 true"})
    end,

    timers_listeners_and_streams_are_sources = function()
        local log = mare.channel(10)
        local p = mare.spawn(function()
            local scheduler, net = require "mare.scheduler", require "mare.net"
            local listener = assert(net.listen("127.0.0.1", 0))
            local host, port = listener:address()
            scheduler.register_source(listener, function(connection)
                log:send "connection"
                scheduler.register_source(connection, function(bytes)
                    log:send(bytes)
                    scheduler.stop()
                end)
            end)
            scheduler.register_source(mare.timer(0.01), function()
                log:send "timer"
                local c <close> = assert(net.connect(host, port))
                c:write "hello"
                mare.sleep(patience)
            end)
            scheduler.loop()
            log:send "stopped"
        end)
        for _, expected in ipairs {"timer", "connection", "hello", "stopped"} do
            t.eq(log:receive(t.patience), expected)
        end
        p:kill() -- the other routines still wait
        t.fails("killed", p:join(t.patience))
    end,

    the_loop_is_free_for_who_never_mentions_it = function()
        local log = mare.channel(10)
        local c = mare.channel()
        local p = mare.spawn(function()
            require "mare.scheduler".register_source(c, function(x) log:send(x) end)
        end)
        c:send "heard"
        t.eq(log:receive(t.patience), "heard")
        t.eq(p:alive(), true)
        c:close()
        t.eq(p:join(t.patience), true)
    end,

    signals_register_wait_and_come_last = function()
        t.eq(logged(function(scheduler, log)
            local notify, other
            scheduler.register_source({start = function(_, n) notify = n end}, function()
                local new = {start = function(_, n) other = n end}
                coroutine.yield {sources = {{new, log}}, timer = 0.001,
                    finally = function(result) log("finally", result) other "new" end}
                log "resumed"
                return "result"
            end)
            notify(1)
            for _ = 1, 2 do scheduler.step(patience) end
            scheduler.stop()
        end), {"resumed", "finally result", "new"})
    end,

    a_source_removed_by_its_own_handler_is_silent = function()
        t.eq(logged(function(scheduler, log)
            local c = mare.channel()
            local id
            id = scheduler.register_source(c, function(x)
                log(x, tostring(scheduler.remove_source(id)), tostring(scheduler.remove_source(id)))
            end)
            mare.go(function() c:send "first" end)
            scheduler.loop()
            log(tostring(c:trysend "second"))
        end), {"first true false", "nil"})
    end,

    a_handler_that_fails_closes_and_the_others_go_on = function()
        local shell = require "shell"
        local got = shell.lua [[
            local mare, scheduler = require "mare", require "mare.scheduler"
            local c = mare.channel()
            scheduler.register_source(c, function(x)
                local v <close> = setmetatable({}, {__close = function() print("closed", x) end})
                if x == 1 then error "on purpose" end
                print("handled", x)
            end)
            c:send(1) c:send(2) c:close()
        ]]
        t.eq(got.code, 0)
        t.eq(got.out, "closed\t1\nhandled\t2\nclosed\t2\n")
        t.ok(got.err:find "on purpose", got.err)
    end,

    misuse_names_the_argument = function()
        local scheduler = require "mare.scheduler"
        t.raises("#1 to 'register_source'", scheduler.register_source, 42, print)
        t.raises("#1 to 'register_source'", scheduler.register_source, {}, print)
        t.raises("#2 to 'register_source'", scheduler.register_source, mare.channel(), 42)
        t.raises("#1 to 'create_object'", scheduler.create_object, 42)
        t.raises("#1 to 'run'", scheduler.run, {})
        t.eq(scheduler.remove_source(12345), false)
        local object = scheduler.create_object(print, 1, nil, 3)
        t.eq(scheduler.find_object(object.id), object)
        t.eq({object.parameters.n, scheduler.find_object(-1)}, {3, nil})
    end,
}
