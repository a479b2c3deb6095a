-- SPDX-License-Identifier: MIT
-- Signals of the operating system as events: every promise of docs/reference/signal.md.
local mare, signal, t = require "mare", require "mare.signal", require "t"

local function raise(name) assert(signal.send(signal.pid(), name)) end

-- Whether the program catches a signal.
local function catches(number)
    local file <close> = assert(io.open "/proc/self/status")
    local set = tonumber(file:read "a":match "SigCgt:%s*(%x+)", 16)
    return set >> (number - 1) & 1 == 1
end

-- Signals that do nothing when nobody watches, for one may still be on its way when a watch ends.
local WINCH, CONT = 28, 18

local function eventfds()
    local pipe <close> = assert(io.popen "ls -l /proc/$PPID/fd | grep -c eventfd")
    return pipe:read "n"
end

-- A program of its own, as the test of children has it.
local function program(text)
    return require "shell".lua("local mare, signal = require 'mare', require 'mare.signal'\n"
        .. "local function raise(name) signal.send(signal.pid(), name) end\n" .. text)
end

return {
    a_command_that_runs_takes_no_signal_from_who_watches = function()
        local w <close> = assert(signal.watch "SIGINT")
        t.eq({os.execute "kill -INT $PPID"}, {true, "exit", 0})
        t.eq(w:next(t.patience), "SIGINT")
        t.eq({os.execute "exit 3"}, {nil, "exit", 3})
        t.eq({os.execute "kill -KILL $$"}, {nil, "signal", 9})
        t.eq(os.execute(), true)
    end,

    what_is_watched_is_told = function()
        local w <close> = assert(signal.watch("SIGWINCH", "CONT"))
        t.fails("timeout", w:next(0))
        raise "SIGWINCH"
        t.eq(w:next(t.patience), "SIGWINCH")
        raise "SIGCONT"
        t.eq(w:next(t.patience), "SIGCONT")
        t.fails("timeout", w:next(0.01))
        raise(WINCH)
        raise(CONT)
        local both = {[w:next(t.patience)] = true, [w:next(t.patience)] = true}
        t.eq(both, {SIGWINCH = true, SIGCONT = true})
        t.fails("timeout", w:timeout(0.01):next())
    end,

    what_comes_again_before_it_is_taken_is_told_once = function()
        local w <close> = assert(signal.watch "SIGWINCH")
        for _ = 1, 50 do
            raise "SIGWINCH"
            mare.sleep(0.002)
        end
        t.eq(w:next(t.patience), "SIGWINCH")
        -- As usual with signals: some may still be on their way, but not fifty.
        local more = 0
        while w:next(0.05) do more = more + 1 end
        t.ok(more < 10, more)
    end,

    one_that_waits_is_woken = function()
        t.with_workers(1, function()
            local w <close>, ticks = assert(signal.watch "SIGWINCH"), 0
            mare.go(function()
                for _ = 1, 5 do
                    mare.sleep(0.001)
                    ticks = ticks + 1
                end
                raise "SIGWINCH"
            end)
            t.eq(w:next(t.patience), "SIGWINCH")
            t.eq(ticks, 5)
        end)
    end,

    every_watch_and_every_process_is_told = function()
        local ready, told, watches = mare.channel(), mare.channel(), {}
        for i = 1, 4 do watches[i] = assert(signal.watch("SIGWINCH", "SIGPIPE")) end
        for _ = 1, 4 do
            mare.spawn(function(here, there)
                local w <close> = require "mare.signal".watch "SIGWINCH"
                here:send(true)
                there:send(w:next())
            end, ready, told)
        end
        for _ = 1, 4 do t.ok(ready:receive(t.patience)) end
        raise "SIGWINCH"
        for i = 1, 4 do
            t.eq(told:receive(t.patience), "SIGWINCH")
            t.eq(watches[i]:next(t.patience), "SIGWINCH")
            watches[i]:close()
        end
    end,

    several_routines_share_a_watch = function()
        local w <close> = assert(signal.watch "SIGWINCH")
        local got = mare.channel(3)
        for _ = 1, 3 do mare.go(function() got:send(w:next(t.patience)) end) end
        mare.yield()
        for _ = 1, 3 do
            raise "SIGWINCH"
            t.eq(got:receive(t.patience), "SIGWINCH")
        end
    end,

    select_takes_the_next = function()
        local w <close>, ch = assert(signal.watch "SIGWINCH"), mare.channel()
        for _ = 1, 100 do
            t.fails("timeout", mare.select({w, ch}, 0))
            raise "SIGWINCH"
            t.eq({mare.select({ch, w}, t.patience)}, {2, "SIGWINCH"})
            t.fails("timeout", mare.select({w, ch}, 0)) -- it was taken
            raise "SIGWINCH"
            t.eq(w:next(t.patience), "SIGWINCH")
        end
        t.fails("timeout", mare.select({ch, w}, 0.01))
        mare.go(raise, "SIGWINCH")
        t.eq({mare.select({ch, w}, t.patience)}, {2, "SIGWINCH"})
        w:close()
        local which, value, _, code = mare.select {ch, w}
        t.eq({which, value, code}, {2, nil, "closed"})
    end,

    the_scheduler_takes_a_watch = function()
        local owner = mare.spawn(function()
            local m, s, scheduler = require "mare", require "mare.signal", require "mare.scheduler"
            local got, w = {}, s.watch("SIGWINCH", "SIGCONT")
            scheduler.register_source(w, function(name)
                got[#got + 1] = name
                if #got == 2 then w:close() else s.send(s.pid(), "SIGCONT") end
            end)
            m.go(s.send, s.pid(), "SIGWINCH")
            scheduler.loop() -- until it was closed
            return got
        end)
        t.eq({owner:join(t.patience)}, {true, {"SIGWINCH", "SIGCONT"}})
    end,

    close_puts_back_what_a_signal_did = function()
        t.eq(catches(WINCH), false)
        local a, b = assert(signal.watch "SIGWINCH"), assert(signal.watch "SIGWINCH")
        t.eq(catches(WINCH), true)
        t.eq(a:close(), true)
        t.eq(a:close(), false)
        t.eq(catches(WINCH), true)
        raise "SIGWINCH"
        t.eq(b:next(t.patience), "SIGWINCH")
        t.fails("closed", a:next())
        local waits = mare.go(function() return select(3, b:next()) end)
        mare.yield()
        b:close()
        t.eq({waits:join(t.patience)}, {true, "closed"})
        t.eq(catches(WINCH), false)
    end,

    a_watch_ends_with_its_process = function()
        local before = eventfds()
        local ready = mare.channel()
        local owner = mare.spawn(function(here)
            local w = require "mare.signal".watch "SIGWINCH"
            here:send(true)
            w:next()
        end, ready)
        ready:receive(t.patience)
        t.eq(catches(WINCH), true)
        t.reaches(function() return owner:status() == "blocked" end)
        owner:kill()
        t.reaches(function() return not catches(WINCH) end)
        do
            assert(signal.watch "SIGWINCH")
        end
        t.reaches(function()
            collectgarbage()
            return not catches(WINCH)
        end)
        t.reaches(function() return eventfds() <= before + 2 end) -- loops may have been made
    end,

    a_wait_can_be_cancelled = function()
        local w <close> = assert(signal.watch "SIGWINCH")
        local waits = mare.go(function() return select(3, w:next()) end)
        mare.yield()
        waits:cancel()
        t.eq({waits:join(t.patience)}, {true, "cancelled"})
    end,

    a_watch_changes_hands = function()
        local w, ch = assert(signal.watch "SIGWINCH"), mare.channel()
        local other = mare.spawn(function(channel) return channel:receive():next() end, ch)
        ch:send(w)
        t.raises("was sent to another process", w.next, w)
        raise "SIGWINCH"
        t.eq({other:join(t.patience)}, {true, "SIGWINCH"})
    end,

    there_is_an_end_to_watches = function()
        local watches, message, code = {}, nil, nil
        for i = 1, 300 do
            watches[i], message, code = signal.watch "SIGCONT"
            if not watches[i] then break end
        end
        t.eq(code, "toobig", message)
        raise "SIGCONT"
        for _, w in ipairs(watches) do
            t.eq(w:next(t.patience), "SIGCONT")
            w:close()
        end
        assert(signal.watch "SIGCONT"):close()
    end,

    signals_that_come_while_watches_go = function()
        for _ = 1, 200 do
            local keep <close> = assert(signal.watch "SIGWINCH")
            local a = assert(signal.watch "SIGWINCH")
            local b = assert(signal.watch "SIGWINCH")
            raise "SIGWINCH"
            a:close()
            raise "SIGWINCH"
            t.eq(b:next(t.patience), "SIGWINCH")
            b:close()
            t.eq(keep:next(t.patience), "SIGWINCH")
        end
    end,

    send_says_what_went_wrong = function()
        t.eq(signal.send(signal.pid(), 0), true)
        t.fails("noproc", signal.send(0x7fffffff, "SIGTERM"))
        t.raises("there is no signal 'SIGNONE'", signal.send, 1, "SIGNONE")
        t.raises("there is no signal '99'", signal.send, 1, 99)
        t.raises("not the number of a process", signal.send, 0, "SIGTERM")
        t.raises("not the number of a process", signal.send, -1, "SIGTERM")
    end,

    some_cannot_be_watched = function()
        t.raises("SIGKILL cannot be watched: the system lets", signal.watch, "SIGKILL")
        t.raises("SIGSTOP cannot be watched: the system lets", signal.watch, "STOP")
        t.raises("#2 .*SIGURG cannot be watched: it is used", signal.watch, "SIGHUP", "SIGURG")
        t.raises("SIGSEGV cannot be watched: it tells of a fault", signal.watch, 11)
        t.raises("there is no signal 'hup'", signal.watch, "hup")
        t.raises("value expected", signal.watch)
        t.raises("string expected, got table", signal.watch, {})
        local w <close> = assert(signal.watch "SIGWINCH")
        t.raises("watch for signals expected", w.next, 5)
        t.raises("deadline", w.next, w, "x")
        t.raises("negative", w.timeout, w, -1)
        t.raises("cannot wait here", table.sort, {2, 1}, function() return w:next() end)
    end,

    a_watched_signal_does_not_end_the_program = function()
        if not os.getenv "MARE_BINARY" then t.skip "a program of its own is needed" end
        for name, code in pairs {SIGINT = 130, SIGTERM = 143, SIGHUP = 129} do
            local got = program(([[
                local w = signal.watch "%s"
                for _ = 1, 3 do
                    raise "%s"
                    print(w:next(20))
                end
                w:close()
                local _ <close> = setmetatable({}, {__close = function() print "closed" end})
                raise "%s"
                mare.sleep(60)
            ]]):format(name, name, name))
            t.eq(got, {out = (name .. "\n"):rep(3) .. "closed\n", err = "", code = code})
        end
    end,

    who_waits_for_a_signal_is_not_stuck = function()
        if not os.getenv "MARE_BINARY" then t.skip "a program of its own is needed" end
        local got = program [[
            local w = signal.watch "SIGALRM"
            io.popen("sleep 0.2; kill -ALRM " .. signal.pid())
            print(w:next())
        ]]
        t.eq(got, {out = "SIGALRM\n", err = "", code = 0})
    end,
}
