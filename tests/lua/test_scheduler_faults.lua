-- SPDX-License-Identifier: MIT
-- What can go wrong with sources and loops: stopped or removed from inside, killed, failing, too
-- fast, too slow. Each case runs in a process of its own, for a scheduler belongs to a process.
local mare, t, shell = require "mare", require "t", require "shell"
local patience = t.patience -- for those who run in other processes, where t is not

-- Runs the body in a new process with the module and a log; returns what it logged.
local function logged(body, ...)
    local p = mare.spawn(function(f, ...)
        local log = {}
        f(require "mare.scheduler", function(...)
            local words = table.pack(...)
            for i = 1, words.n do words[i] = tostring(words[i]) end
            log[#log + 1] = table.concat(words, " ")
        end, ...)
        return log
    end, body, ...)
    local ok, log = p:join(t.patience)
    t.ok(ok, log)
    return log
end

-- One source of each kind that brings 1, 2, 3 and on, and takes no notice of its end.
local function counting(kind)
    local m = require "mare"
    local n = 0
    local function count() n = n + 1 return n end
    if kind == "channel" then
        local c = m.channel()
        m.go(function() while c:send(count()) do end end):detach()
        return c
    elseif kind == "poll" then
        return {poll = count}
    elseif kind == "wait" then
        return {wait = count}
    end
    return {start = function(_, notify)
        m.go(function() while notify(count()) do end end):detach()
    end}
end

local kinds = {"channel", "poll", "wait", "start"}

-- A source of each kind that never brings anything; a thread's waits for the gate in C.
local function silent(kind)
    local m, net = require "mare", require "mare.net"
    if kind == "channel" then return m.channel()
    elseif kind == "timer" then return m.timer(1e6)
    elseif kind == "poll" then return {poll = function() end}
    elseif kind == "wait" then
        return {wait = function() return require "mare".channel():receive() end}
    elseif kind == "start" then return {start = function() end}
    end
    local listener = assert(net.listen("127.0.0.1", 0))
    if kind == "listener" then return listener end
    local _ = m.go(function() return (listener:accept()) end)
    return assert(net.connect(listener:address()))
end

return {
    a_loop_stopped_inside_a_handler_goes_on_later = function()
        for _, kind in ipairs(kinds) do
            t.eq(logged(function(scheduler, log, make, what)
                scheduler.register_source(make(what), function(x)
                    log(x)
                    scheduler.stop()
                end)
                for _ = 1, 3 do
                    scheduler.loop()
                    log "over"
                end
            end, counting, kind), {"1", "over", "2", "over", "3", "over"}, kind)
        end
    end,

    a_stop_of_long_ago_ends_no_wait = function()
        t.eq(logged(function(scheduler, log)
            local c = mare.channel()
            scheduler.register_source(c, log)
            scheduler.stop()
            mare.go(function() mare.sleep(0.01) c:send "came" end)
            log(scheduler.step(patience))
            log(scheduler.step(0))
        end), {"came", "true", "false"})
    end,

    a_stop_ends_every_loop_that_waits = function()
        t.eq(logged(function(scheduler, log)
            scheduler.register_source(mare.channel(), log)
            local loops = {}
            for i = 1, 3 do
                loops[i] = mare.go(function() scheduler.loop() return "stopped" end)
            end
            loops[4] = mare.go(function() return scheduler.step() end)
            mare.yield()
            scheduler.stop()
            for i = 1, 4 do log(select(2, loops[i]:join(patience))) end
        end), {"stopped", "stopped", "stopped", "false"})
    end,

    a_wait_for_events_can_be_cancelled = function()
        for _, polled in ipairs {false, true} do
            t.eq(logged(function(scheduler, log, polls)
                local source = mare.channel(1)
                scheduler.register_source(source, log)
                if polls then scheduler.register_source({poll = function() end}, log) end
                for _, name in ipairs {"wait_for_events", "get_ready_object", "step", "loop"} do
                    local routine = mare.go(scheduler[name])
                    mare.yield()
                    routine:cancel()
                    local ok, a, _, code = routine:join(patience)
                    log(name, ok, a, code)
                end
                source:send "still heard"
                scheduler.step(patience)
            end, polled), {"wait_for_events true nil cancelled",
                "get_ready_object true nil cancelled", "step true nil cancelled",
                "loop true nil cancelled", "still heard"}, polled)
        end
    end,

    a_handler_may_step_the_scheduler_it_runs_in = function()
        t.eq(logged(function(scheduler, log)
            local c, over = mare.channel(2), mare.channel(1)
            for i = 1, 2 do c:send(i) end
            scheduler.register_source(c, function(x)
                log("begins", x)
                if x == 1 then log("inner", scheduler.step(patience)) end
                log("ends", x)
                if x == 1 then over:send(true) end
            end)
            log("outer", scheduler.step(patience)) -- returns when the first one waits
            over:receive(patience)
        end), {"begins 1", "outer true", "begins 2", "ends 2", "inner true", "ends 1"})
    end,

    a_source_of_each_kind_can_be_removed_by_its_own_handler = function()
        for _, kind in ipairs(kinds) do
            t.eq(logged(function(scheduler, log, make, what)
                local id, source
                source = make(what)
                if type(source) == "table" then source.stop = function() log "stop" end end
                id = scheduler.register_source(source, function(x)
                    log(x, scheduler.remove_source(id), scheduler.remove_source(id))
                end, function() log "it has not ended by itself" end)
                scheduler.loop()
                log "over"
            end, counting, kind), kind == "channel" and {"1 true false", "over"}
                or {"stop", "1 true false", "over"}, kind)
        end
    end,

    a_process_killed_in_any_wait_leaves_nothing = {function()
        local all = {"channel", "timer", "poll", "wait", "start", "listener", "stream"}
        local function round()
            for _, kind in ipairs(all) do
                local begun = mare.channel(1)
                local p = mare.spawn(function(make, what)
                    local scheduler = require "mare.scheduler"
                    scheduler.register_source(make(what), print)
                    mare.go(function() begun:send(true) end)
                    scheduler.loop()
                end, silent, kind)
                t.ok(begun:receive(t.patience), kind)
                p:kill()
                t.fails("killed", p:join(t.patience))
            end
        end
        t.with_workers(1, function() -- another one would have a loop of its own
            local processes = #mare.processes()
            local function are_gone() return #mare.processes() <= processes end
            round() -- which makes what stays: a loop, an attendant
            t.reaches(are_gone, "processes of sources")
            local before = t.descriptors()
            round()
            t.reaches(are_gone, "processes of sources")
            t.reaches(function() return t.descriptors() <= before end, "descriptors")
        end)
    end, timeout = 120},

    a_source_that_ends_says_so_and_the_loop_ends = function()
        t.eq(logged(function(scheduler, log)
            local net = require "mare.net"
            local function over(what)
                return function(_, code) log(what, code) end
            end
            local c = mare.channel(1)
            c:send "last"
            c:close()
            scheduler.register_source(c, log, over "channel")
            scheduler.loop()
            local n = 0
            scheduler.register_source({wait = function()
                n = n + 1
                if n == 1 then return "waited" end
            end}, log, over "thread")
            scheduler.loop()
            scheduler.register_source({start = function(_, notify, finish)
                notify "told"
                finish()
            end}, log, over "asynchronous")
            scheduler.loop()
            local polls = 0
            scheduler.register_source({poll = function()
                polls = polls + 1
                if polls == 1 then return "polled" end
                return nil, "no more", "closed"
            end}, log, over "polled")
            scheduler.loop()
            local listener <close> = assert(net.listen("127.0.0.1", 0))
            local here <close> = assert(net.connect(listener:address()))
            local there = assert(listener:accept())
            there:write "read"
            there:close()
            scheduler.register_source(here, log, over "stream")
            scheduler.loop()
        end), {"last", "channel closed", "waited", "thread closed", "told", "asynchronous closed",
            "polled", "polled closed", "read", "stream closed"})
    end,

    a_timer_that_comes_once_is_a_source_that_ends = function()
        t.eq(logged(function(scheduler, log)
            local timer = mare.timer(0.001)
            scheduler.register_source(timer, function() log "its time" end, function(_, code)
                log(code)
            end)
            scheduler.loop()
            local late = mare.timer(0)
            mare.sleep(0.01)
            log(late:wait(patience))
            log(select(3, late:wait()))
            log(select(3, timer:wait()))
        end), {"its time", "closed", "true", "closed", "closed"})
    end,

    a_source_that_fails_says_why_and_the_others_go_on = function()
        local log = logged(function(scheduler, log)
            local function failed(message, code)
                log(code, message:match "on purpose" or message)
            end
            local c = mare.channel(1)
            scheduler.register_source(c, log)
            scheduler.register_source({poll = function() error "on purpose" end}, log, failed)
            scheduler.step(patience)
            scheduler.register_source({wait = function() error "on purpose" end}, log, failed)
            scheduler.step(patience)
            c:send "goes on"
            c:close()
            scheduler.loop()
        end)
        t.eq(log, {"died on purpose", "died on purpose", "goes on"})
    end,

    a_failure_that_nobody_asked_about_is_printed = function()
        local got = require "shell".lua [[
            local mare, scheduler = require "mare", require "mare.scheduler"
            local c = mare.channel(1)
            scheduler.register_source({poll = function() error "by the polled" end}, print)
            scheduler.register_source({wait = function() error "by the thread" end}, print)
            scheduler.register_source(c, print)
            c:send "handled"
            c:close()
        ]]
        t.eq(got.code, 0)
        t.eq(got.out, "handled\n")
        t.ok(got.err:find "by the polled", got.err)
        t.ok(got.err:find "by the thread", got.err)
    end,

    the_traceback_of_a_handler_that_fails_names_its_functions = function()
        local got = require "shell".lua [[
            local mare, scheduler = require "mare", require "mare.scheduler"
            local function deep() error "on purpose" end
            local c = mare.channel(1)
            scheduler.register_source(c, function() local x = deep() return x end)
            c:send(1)
            c:close()
        ]]
        t.ok(got.err:find "on purpose" and got.err:find "deep", got.err)
    end,

    one_event_of_a_source_is_in_line_and_its_maker_waits = function()
        t.eq(logged(function(scheduler, log)
            local c, sent = mare.channel(), 0
            local id = scheduler.register_source(c, log)
            mare.go(function() for i = 1, 5 do c:send(i) sent = i end end):detach()
            local notified, notify = 0, nil
            local other = scheduler.register_source({start = function(_, n) notify = n end}, log)
            mare.go(function() for i = 1, 1000 do notify(i) notified = i end end):detach()
            local ids = scheduler.wait_for_events(patience)
            for _ = 1, 100 do mare.yield() end
            ids = scheduler.wait_for_events(0) or ids
            local objects = {scheduler.find_object(ids[1]), scheduler.find_object(ids[2])}
            log(#ids, objects[1].source == id, objects[2].source == other)
            log(sent, notified <= scheduler.room + 1)
            scheduler.step(0)
            for _ = 1, 100 do mare.yield() end
            log(sent)
            scheduler.stop()
        end), {"2 true true", "1 true", "1", "2"})
    end,

    -- The program waits, takes and runs by itself; or lets the loop that runs by itself begin, and
    -- then takes over.
    who_asks_for_what_is_ready_drives_the_loop = function()
        local function take_two(asks)
            return logged(function(scheduler, log, seconds, asks_first)
                local c = mare.channel()
                scheduler.register_source(c, log)
                mare.go(function() for i = 1, 3 do c:send(i) end end):detach()
                if asks_first then log(#scheduler.wait_for_events(seconds)) end
                local o = scheduler.get_ready_object(seconds)
                for _ = 1, 100 do mare.yield() end -- nobody takes the next one
                scheduler.run(o)
                log(#scheduler.wait_for_events(seconds))
            end, patience, asks)
        end
        t.eq(take_two(true), {"1", "1", "1"})
        t.eq(take_two(false), {"1", "1"})
        t.eq(logged(function(scheduler, log)
            local c = mare.channel()
            scheduler.register_source(c, log)
            c:send "for free"
            for _ = 1, 100 do mare.yield() end
            log(#scheduler.wait_for_events(0))
            c:send "driven"
            for _ = 1, 100 do mare.yield() end
            log "not yet"
            scheduler.step(0)
        end), {"for free", "0", "not yet", "driven"})
    end,

    an_object_that_is_ready_runs_in_a_program_without_a_loop = function()
        local got = shell.lua [[
            local scheduler = require "mare.scheduler"
            scheduler.make_ready(scheduler.create_object(function(word)
                require "mare".yield()
                print(word)
            end, "ran"))
        ]]
        t.eq({got.out, got.err}, {"ran\n", ""})
    end,

    polled_and_other_sources_do_not_starve_each_other = function()
        t.eq(logged(function(scheduler, log)
            local polls, told, notify = 0, 0, nil
            scheduler.register_source({start = function(_, n) notify = n end}, function()
                told = told + 1
                notify(1) -- there is always one
            end)
            scheduler.register_source({poll = function(_, seconds)
                local till = mare.now() + seconds
                while mare.now() < till do end -- takes all its time
                polls = polls + 1
                if polls % 3 == 0 then return "polled" end
            end}, function()
                if polls >= 9 and told >= 9 then scheduler.stop() end
            end)
            notify(1)
            scheduler.loop()
            log "both"
        end), {"both"})
    end,

    polled_sources_that_need_no_time_do_not_spin = function()
        t.eq(logged(function(scheduler, log)
            local polls = 0
            scheduler.register_source({poll = function() polls = polls + 1 end}, log)
            local began = mare.now()
            log(scheduler.step(0.1))
            log(polls <= (mare.now() - began) / scheduler.poll_time + 2)
            polls = 0
            log(scheduler.step(0), polls)
        end), {"false", "true", "false 1"})
    end,

    a_polled_source_may_remove_others_and_itself = function()
        t.eq(logged(function(scheduler, log)
            local ids = {}
            for i = 1, 3 do
                ids[i] = scheduler.register_source({poll = function()
                    log("poll", i)
                    if i == 1 then scheduler.remove_source(ids[2]) end
                    scheduler.remove_source(ids[i])
                end}, log)
            end
            scheduler.loop()
        end), {"poll 1", "poll 3"})
    end,

    objects_run_when_they_are_made_ready = function()
        t.eq(logged(function(scheduler, log)
            local a = scheduler.create_object(log, "a", 1)
            local b = scheduler.create_object(log, "b")
            log(scheduler.find_object(a.id) == a, scheduler.step(0))
            log(scheduler.make_ready(b), scheduler.make_ready(a), scheduler.make_ready(a))
            local ids = scheduler.wait_for_events()
            log(#ids, ids[1] == b.id, ids[2] == a.id)
            log(scheduler.run(scheduler.get_ready_object()):join(patience))
            scheduler.loop()
            log(scheduler.make_ready(a), scheduler.find_object(a.id), scheduler.get_ready_object())
        end), {"true false", "true true false", "2 true true", "b", "true", "a 1",
            "false nil nil"})
    end,

    what_a_method_returns_reaches_who_joins_it = function()
        t.eq(logged(function(scheduler, log)
            local o = scheduler.create_object(function(a) mare.yield() return a, "more" end, 7)
            scheduler.make_ready(o)
            log(scheduler.run(scheduler.get_ready_object()):join(patience))
        end), {"true 7 more"})
    end,

    what_comes_after_a_handler_comes_also_when_it_fails = function()
        t.eq(logged(function(scheduler, log)
            local o = scheduler.create_object(function()
                coroutine.yield {finally = function(...) log("finally", ...) end}
                error("broken", 0)
            end)
            scheduler.make_ready(o)
            local ok, err, code = scheduler.run(scheduler.get_ready_object()):join(patience)
            log(tostring(ok), err:match "^broken", code)
        end), {"finally nil broken died", "nil broken died"})
    end,

    wrong_signals_close_the_handler = function()
        local got = require "shell".lua [[
            local scheduler = require "mare.scheduler"
            scheduler.make_ready(scheduler.create_object(function()
                local v <close> = setmetatable({}, {__close = function() print "closed" end})
                coroutine.yield {sources = {{42, print}}}
            end))
            scheduler.loop()
        ]]
        t.eq(got.out, "closed\n")
        t.ok(got.err:find "#1 to 'register_source'", got.err)
    end,

    a_process_that_drives_its_loop_ends_with_its_main_script = function()
        for _, kind in ipairs(kinds) do
            local p = mare.spawn(function(make, what)
                local scheduler = require "mare.scheduler"
                scheduler.register_source(make(what), scheduler.stop)
                scheduler.loop()
                return "over"
            end, counting, kind)
            t.eq({p:join(t.patience)}, {true, "over"}, kind)
        end
    end,

    a_detached_routine_is_closed_when_nothing_else_is_left = function()
        local closed = mare.channel(1)
        local p = mare.spawn(function()
            local r = mare.go(function()
                local _ <close> = setmetatable({}, {__close = function()
                    closed:trysend "closed"
                end})
                mare.channel():receive()
            end)
            local answers = {r:detach(), r:detach()}
            mare.yield()
            local other = mare.go(function() mare.yield() mare.yield() end)
            answers[3] = other:detach()
            answers[4] = mare.go(function() return "others are waited for" end):join()
            other:join()
            answers[5] = other:detach()
            return answers
        end)
        t.eq({p:join(t.patience)}, {true, {true, true, true, true, false}})
        t.eq(closed:receive(t.patience), "closed")
    end,

    -- In a C function that does not come back nobody can be ended; nor waited for, once it was.
    a_removed_wait_source_or_a_killed_thread_does_not_keep_the_program = function()
        local program = [[
            local mare, fifo = require "mare", arg[1]
            local begun = mare.channel(1)
            local function blocks()
                begun:send(true)
                os.execute("cat " .. fifo) -- where nobody writes
            end
            %s
            begun:receive()
            %s
            print "last words"
        ]]
        local scheduler = "local scheduler = require 'mare.scheduler' "
        for _, case in ipairs {
            {scheduler .. "local id = scheduler.register_source({wait = blocks}, print)",
                "assert(scheduler.remove_source(id))", shell.lua},
            {"local p = mare.spawn({thread = true}, blocks)", "assert(p:kill())", shell.lua},
            {"local p = mare.spawn({thread = true}, blocks)", "assert(p:kill())",
                shell.has_stock() and shell.stock or nil},
        } do
            local begin, finish, run = table.unpack(case)
            local fifo = os.tmpname()
            os.execute(("rm %s && mkfifo %s"):format(fifo, fifo))
            local got = run and run(program:format(begin, finish), fifo)
            os.execute(("exec 3<>%s && rm %s"):format(fifo, fifo)) -- and cat ends
            if got then t.eq({got.out, got.err, got.code}, {"last words\n", "", 0}, begin) end
        end
    end,
}
