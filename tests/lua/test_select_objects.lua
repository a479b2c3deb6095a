-- SPDX-License-Identifier: MIT
-- mare.select over what says itself what to wait for: routines, WebSockets, LuaSocket's objects and
-- those of a program.
local mare, t, shell, frames = require "mare", require "t", require "shell", require "frames"
local net, http, tls = require "mare.net", require "mare.http", require "mare.tls"
local file, websocket = require "mare.file", require "mare.websocket"
local patience, make = t.patience, frames.make
local TEXT, CONTINUES, FINAL = frames.TEXT, frames.CONTINUES, frames.FINAL
local PING, PONG, CLOSE = frames.PING | FINAL, frames.PONG | FINAL, frames.CLOSE | FINAL

-- A routine that waits until its channel is closed, and then returns, or fails.
local function waiting(outcome, ...)
    local stay = mare.channel()
    return mare.go(function(...)
        stay:receive()
        if outcome == "fails" then error(..., 0) end
        return ...
    end, ...), stay
end

local function pack(...) return {n = select("#", ...), ...} end

local function program(text, run, code)
    if not shell.mare then t.skip "needs the command line" end
    local result = (run or shell.lua)("local mare = require 'mare'\n" .. text)
    t.eq(result.code, code or 0, result.err)
    return result
end

-- Runs a function of the process in a routine; ready when it has come to wait.
local function begun(f, ...)
    local routine = mare.go(f, ...)
    for _ = 1, 10 do mare.yield() end
    return routine
end

-- A folder with a FIFO in it that nobody writes to.
local function with_fifo(f)
    local folder = assert(file.tempfolder())
    local _ <close> = setmetatable({}, {__close = function()
        file.remove(folder, {tree = true})
    end})
    assert(os.execute("mkfifo " .. folder .. "/fifo"))
    return f(folder .. "/fifo")
end

return {
    -- Routines.

    a_routine_gives_what_join_gives = function()
        local r, stay = waiting("returns", "x", nil, 3, nil)
        t.fails("timeout", mare.select({mare.channel(), r}, 0))
        t.fails("timeout", mare.select({mare.channel(), r}, 0.001))
        local selecting = begun(mare.select, {mare.channel(), r})
        t.eq(selecting:status(), "alive")
        stay:close()
        t.eq(pack(selecting:join(patience)), {n = 7, true, 2, true, "x", nil, 3, nil})
        t.eq(pack(mare.select({mare.channel(), r})), {n = 6, 2, true, "x", nil, 3, nil}, "again")
        t.eq(pack(mare.select({r}, 0)), {n = 6, 1, true, "x", nil, 3, nil})
        t.eq({r:join()}, {true, "x", nil, 3, nil})
    end,

    one_that_dies_while_it_is_selected_gives_its_error = function()
        local r, stay = waiting("fails", {code = 5})
        local selecting = begun(mare.select, {r, mare.channel()})
        stay:close()
        local ok, index, result, err, code, traceback = selecting:join(patience)
        t.eq({ok, index, result, err, code}, {true, 1, nil, {code = 5}, "died"})
        t.ok(traceback:find "traceback", traceback)
    end,

    whoever_selects_it_has_looked_at_its_error = function()
        local got = program [[
            local r = mare.go(error, "seen")
            print(mare.select {r})
            local unseen = mare.go(error, "unseen", 0)
            print(select(3, mare.select({mare.channel()}, 0)))
        ]]
        t.ok(got.out:find "^1\tnil\tseen\tdied\t.*\ntimeout\n$", got.out)
        t.ok(got.err:find "routine %d+ of process %d+ died: unseen" and not got.err:find " seen",
            got.err)
    end,

    two_routines_can_select_one = function()
        local r, stay = waiting("returns", "done")
        local a, b = begun(mare.select, {r}), begun(mare.select, {mare.channel(), r}, 3600)
        local c = begun(r.join, r)
        stay:close()
        t.eq({a:join(patience)}, {true, 1, true, "done"})
        t.eq({b:join(patience)}, {true, 2, true, "done"})
        t.eq({c:join(patience)}, {true, true, "done"})
    end,

    it_cannot_select_itself = function()
        local r
        r = mare.go(function() return pcall(mare.select, {mare.channel(), r}, 0.01) end)
        local _, ok, message = r:join(patience)
        t.eq({ok, message}, {false,
            "bad argument #1 to 'select' (case 2: a routine cannot wait for its own end)"})
        r = mare.go(function() mare.select({r}) end)
        _, message = r:join(patience)
        t.ok(message:find "test_select_objects.lua:%d+: bad argument #1 to 'select' %(case 1",
            message)
    end,

    the_wait_can_be_cancelled = function()
        local r, stay = waiting("returns", "alive")
        local selecting = begun(mare.select, {r, mare.channel()})
        selecting:cancel()
        t.fails("cancelled", select(2, selecting:join(patience)))
        t.eq(r:status(), "alive")
        stay:close()
        t.eq({mare.select({r}, patience)}, {1, true, "alive"})
    end,

    cancelling_the_routine_ends_what_it_waits_for = function()
        local r = mare.go(function() return select(3, mare.channel():receive()) end)
        local selecting = begun(mare.select, {r})
        r:cancel()
        t.eq({selecting:join(patience)}, {true, 1, true, "cancelled"})
    end,

    a_process_is_killed_in_it = function()
        local log = mare.channel(2)
        local p = mare.spawn(function()
            local r = mare.go(function() mare.channel():receive() end)
            local _guard <close> = setmetatable({}, {__close = function() log:trysend "closed" end})
            log:send "here"
            mare.select {mare.channel(), r}
        end)
        t.eq(log:receive(patience), "here")
        t.reaches(function() return p:status() == "blocked" end)
        p:kill "on purpose"
        t.eq({p:join(patience)}, {nil, "on purpose", "killed"})
        t.eq(log:receive(patience), "closed")
    end,

    what_is_beside_it_goes_on_as_ever = function()
        local r, stay = waiting()
        local ch, room = mare.channel(), mare.channel(1)
        local p = mare.spawn(function() return "ended" end)
        p:join(patience)
        t.eq({mare.select({r, {room, "sent"}}, patience)}, {2, true})
        t.eq({mare.select({r, room}, patience)}, {2, "sent"})
        t.eq({mare.select({r, p}, patience)}, {2, true, "ended"})
        t.eq({mare.select({mare.timer(0), r}, patience)}, {1, true})
        local selecting = begun(mare.select, {ch, r})
        t.eq(ch:send("a", nil), true)
        t.eq(pack(selecting:join(patience)), {n = 4, true, 1, "a", nil})
        ch:close()
        t.eq({mare.select {r, ch}}, {2, nil, "the channel is closed", "closed"})
        local buffer = mare.buffer "mine"
        t.fails("timeout", mare.select({{mare.channel(), buffer}, r}, 0.001))
        t.eq({buffer:moved(), buffer:get()}, {false, "mine"})
        t.raises("test_select_objects.lua:%d+: bad .*case 2: .*a file cannot travel", function()
            mare.select {r, {room, io.stdout}}
        end)
        t.raises("case 2: expected a channel", mare.select, {r, 42})
        stay:close()
    end,

    -- Had the select not let go of it, nobody would be told how it ended.
    a_process_beside_it_is_watched_no_more_after_it = function()
        local got = program([[
            local go = mare.channel()
            local p = mare.spawn({link = false}, function() go:receive() error("alone", 0) end)
            local r = mare.go(function() return 1 end)
            r:join()
            for _ = 1, 3 do print(mare.select {r, p}) end
            go:send()
        ]], shell.lua, 1)
        t.eq(got.out, ("1\ttrue\t1\n"):rep(3))
        t.ok(got.err:find "alone", got.err)
    end,

    none_has_precedence = function()
        local a, b, ch = mare.go(function() end), mare.go(function() end), mare.channel()
        a:join()
        b:join()
        ch:close()
        local hits = {0, 0, 0}
        for _ = 1, 300 do
            local i = mare.select {a, ch, b}
            hits[i] = hits[i] + 1
        end
        for i = 1, 3 do t.ok(hits[i] >= 30, t.show(hits)) end
    end,

    many_of_them = function()
        local list, go = {}, mare.channel()
        for i = 1, 300 do list[i] = mare.go(function() return go:receive() end) end
        go:send "winner"
        local index, ok, word = mare.select(list, patience)
        t.eq({ok, word, list[index]:status()}, {true, "winner", "done"})
        go:close()
    end,

    zero_polls_even_where_waiting_is_impossible = function()
        local done, lives = mare.go(function() return "x" end), mare.go(mare.sleep, 3600)
        done:join()
        local got
        table.sort({2, 1}, function(a, b)
            got = got or {{mare.select({lives}, 0)}, {mare.select({lives, done}, 0)}}
            return a < b
        end)
        t.eq({got[1][3], got[2]}, {"timeout", {2, true, "x"}})
        lives:cancel()
    end,

    it_works_in_a_coroutine = function()
        local r, stay = waiting("returns", 1)
        local selecting = begun(coroutine.wrap(function() return mare.select {r} end))
        stay:close()
        t.eq({selecting:join(patience)}, {true, 1, true, 1})
    end,

    any_operation_can_be_a_case = function()
        local silent <close> = assert(net.listen("127.0.0.1", 0)) -- connects, and never answers
        local _, port = silent:address()
        local quick <close> = assert(net.listen("127.0.0.1", 0))
        mare.go(http.serve, quick, function() return "hello" end)
        local _, quick_port = quick:address()
        with_fifo(function(fifo)
            local read = mare.go(file.read, fifo)
            local slow = mare.go(http.get, ("http://127.0.0.1:%d/"):format(port))
            t.fails("timeout", mare.select({read, slow}, 0.01))
            local get = mare.go(http.get, ("http://127.0.0.1:%d/"):format(quick_port))
            t.eq({table.unpack({mare.select({read, slow, get}, patience)}, 1, 4)},
                {3, true, 200, "hello"})
            read:cancel()
            t.fails("cancelled", select(3, mare.select({read, slow}, patience)))
            slow:cancel()
            t.fails("cancelled", select(3, mare.select({slow}, patience)))
        end)
    end,

    -- Objects of a program.

    an_object_says_what_is_waited_for = function()
        local inbox = mare.channel(10)
        local calls = {}
        local object = setmetatable({}, {__select = function(self, case, ...)
            calls[#calls + 1] = pack(case, ...)
            if select("#", ...) > 0 and (...) % 2 == 0 then return true, "even", ..., nil end
            return inbox
        end})
        inbox:send(1)
        inbox:send(3)
        inbox:send(4)
        t.eq(pack(mare.select({mare.channel(), object}, patience)), {n = 4, 2, "even", 4, nil})
        t.eq(calls, {{n = 1}, {n = 2, inbox, 1}, {n = 2, inbox, 3}, {n = 2, inbox, 4}})
    end,

    an_object_can_have_itself_asked_again_after_a_time = function()
        local asked = {}
        local object = setmetatable({}, {__select = function(_, ...)
            asked[#asked + 1] = pack(...)
            if #asked == 3 then return true end
            return mare.channel(), 0.001
        end})
        t.eq({mare.select {object}}, {1, true})
        t.eq(asked, {{n = 0}, {n = 1, false}, {n = 1, false}})
        local lazy = setmetatable({}, {__select = function() return mare.channel(), 3600 end})
        t.fails("timeout", mare.select({lazy}, 0.001))
    end,

    an_object_can_fail_and_refuse = function()
        local function with(f) return {setmetatable({}, {__select = f})} end
        t.raises("case 1: not today", mare.select, with(function() return nil, "not today" end))
        t.raises("^oops", mare.select, with(function() error("oops", 0) end))
        t.raises("case 1", mare.select, with(function() return 42 end), 0)
        for _, seconds in ipairs {-1, 0 / 0, "soon"} do
            t.raises("case 1: its __select asks for .* seconds", mare.select,
                with(function() return mare.channel(), seconds end), 0)
        end
        t.eq({mare.select({mare.go(function() return 1 end)}, patience)}, {1, true, 1}, "after it")
    end,

    -- WebSockets.

    a_websocket_is_ready_when_a_message_has_come = function()
        local w <close>, stream = frames.served()
        t.fails("timeout", mare.select({w}, 0))
        t.fails("timeout", mare.select({mare.channel(), w}, 0.001))
        local selecting = begun(mare.select, {mare.channel(), w})
        stream:write(make(TEXT | FINAL, "one"), make(TEXT | FINAL, "two"))
        t.eq({selecting:join(patience)}, {true, 2, true})
        t.eq({w:receive(0)}, {"one", "text"})
        t.eq({mare.select({w})}, {1, true}, "what has been read is not waited for")
        t.eq({mare.select({w}, 0)}, {1, true})
        t.eq({w:receive(0)}, {"two", "text"})
        t.fails("timeout", mare.select({w}, 0.001))
        stream:close()
    end,

    a_ping_is_answered_and_is_nothing_to_receive = function()
        local w <close>, stream = frames.served()
        local selecting = begun(mare.select, {w})
        local masked = 0x80
        for i = 1, 3 do
            stream:write(make(PING, "are you there?" .. i))
            t.eq({stream:read(2):byte(1, 2)}, {PONG, masked | 15})
            stream:read(4 + 15)
            t.eq(selecting:status(), "alive")
        end
        stream:write(make(TEXT | FINAL, "yes"))
        t.eq({selecting:join(patience)}, {true, 1, true})
        t.eq(w:receive(0), "yes")
        stream:close()
    end,

    a_message_that_is_not_whole_is_not_ready = function()
        local w <close>, stream = frames.served()
        stream:write(make(TEXT, "be"), make(PING, ""))
        t.fails("timeout", mare.select({w}, 0.01))
        stream:read(6) -- the pong: all of it has been taken in
        t.fails("timeout", mare.select({w}, 0))
        t.fails("timeout", w:receive(0))
        stream:write(make(CONTINUES, "gin"), make(CONTINUES | FINAL, "ning"))
        t.eq({mare.select({w}, patience)}, {1, true})
        t.eq({w:receive(0)}, {"beginning", "text"})
        stream:write(make(TEXT, "in "), make(CONTINUES | FINAL, "parts"), make(TEXT, "mo"))
        t.eq({mare.select({w}, patience)}, {1, true})
        t.eq({w:receivepart(0)}, {"in parts", "text", true})
        t.fails("timeout", mare.select({w}, 0.01))
        t.eq({w:receivepart(0)}, {"mo", "text", false})
        stream:write(make(CONTINUES | FINAL, "re"))
        t.eq({w:receivepart(patience)}, {"re", "text", true})
        stream:close()
    end,

    the_end_is_ready_and_told_by_receive = function()
        for name, case in pairs {
            close = {make(CLOSE, "\x03\xe8bye"), {"closed", 1000, "bye"}},
            broken = {make(0xf3, ""), {"badmsg", 1002}},
            toobig = {make(TEXT | FINAL, ("x"):rep(200)), {"toobig", 1009}},
            gone = {"", {"closed", 1006, "the peer sends no more"}},
        } do
            local w <close>, stream = frames.served {limit = 100, close_time = 0.01}
            local selecting = begun(mare.select, {mare.channel(), w})
            stream:write(case[1])
            stream:shutdown()
            t.eq({selecting:join(patience)}, {true, 2, true}, name)
            t.eq({mare.select {w}}, {1, true}, name)
            local told = {select(3, w:receive(patience))}
            if name == "gone" then told[3] = case[2][3] end -- the words are the system's
            t.eq(told, case[2], name)
            t.eq({mare.select {w}}, {1, true}, name)
            t.fails("closed", w:receive(patience))
            stream:close()
        end
    end,

    who_receives_gets_what_comes_and_the_select_what_comes_then = function()
        local w <close>, stream = frames.served()
        local receiving = begun(w.receive, w)
        local selecting = begun(mare.select, {w})
        stream:write(make(TEXT | FINAL, "first"))
        t.eq({receiving:join(patience)}, {true, "first", "text"})
        t.eq(selecting:status(), "alive")
        receiving = begun(w.receive, w)
        stream:write(make(TEXT | FINAL, "second"))
        t.eq({receiving:join(patience)}, {true, "second", "text"})
        t.eq(selecting:status(), "alive")
        stream:write(make(TEXT | FINAL, "third"))
        t.eq({selecting:join(patience)}, {true, 1, true})
        t.eq({w:receive(0)}, {"third", "text"})
        receiving, selecting = begun(w.receive, w), begun(mare.select, {w})
        stream:write(make(TEXT | FINAL, "both") .. make(TEXT | FINAL, "in one"))
        t.eq({receiving:join(patience)}, {true, "both", "text"})
        t.eq({selecting:join(patience)}, {true, 1, true}, "the stream has nothing more to tell")
        t.eq({w:receive(0)}, {"in one", "text"})
        stream:close()
    end,

    two_can_select_one = function()
        local w <close>, stream = frames.served()
        local a, b = begun(mare.select, {w}), begun(mare.select, {mare.channel(), w})
        stream:write(make(TEXT | FINAL, "for one of them"))
        t.eq({a:join(patience)}, {true, 1, true})
        t.eq({b:join(patience)}, {true, 2, true})
        t.eq({w:receive(0)}, {"for one of them", "text"})
        t.fails("timeout", mare.select({w}, 0.001))
        stream:close()
    end,

    -- With one worker, which does not look for events between the write and the read.
    what_a_receive_leaves_behind_is_told_to_a_select = function()
        t.with_workers(1, function()
            for _, receive in ipairs {"receive", "receivepart"} do
                local w <close>, stream = frames.served()
                local selecting = begun(mare.select, {w})
                stream:write(make(TEXT | FINAL, "one") .. make(TEXT | FINAL, "two"))
                t.eq(w[receive](w, patience), "one")
                t.eq({selecting:join(patience)}, {true, 1, true})
                t.eq({w:receive(0)}, {"two", "text"})
                stream:close()
            end
        end)
    end,

    the_end_of_a_receive_leaves_no_lock_behind = function()
        local w <close>, stream = frames.served {close_time = 0.01}
        local receiving = begun(w.receive, w)
        local selecting = begun(mare.select, {w}) -- in the line of the lock
        stream:close()
        t.fails("closed", select(2, receiving:join(patience)))
        t.eq({selecting:join(patience)}, {true, 1, true})
        t.fails("closed", w:receive(patience))
    end,

    a_reset_is_told_to_both = function()
        local w <close>, stream = frames.served()
        local selecting = begun(mare.select, {w})
        local receiving = begun(w.receive, w)
        w:send "unread"
        t.ok(stream:read(1))
        stream:close() -- with bytes unread
        t.eq({selecting:join(patience)}, {true, 1, true})
        t.fails("closed", select(2, receiving:join(patience)))
    end,

    a_silent_peer_is_asked_and_given_up_though_other_things_happen = function()
        local w <close>, stream = frames.served {ping_time = 0.05}
        local tick, ticks = mare.timer(0.002, 0.002), 0
        local index
        repeat
            index = mare.select({tick, w}, patience)
            if index == 1 then
                tick:wait(0)
                ticks = ticks + 1
            end
        until index ~= 1
        t.eq(index, 2)
        t.ok(ticks > 1, ticks)
        local _, message, code, status = w:receive()
        t.eq({message, code, status}, {"the connection is closed: the peer does not answer",
            "closed", 1006})
        t.eq({stream:read(2):byte(1, 2)}, {PING, 0x80}, "it was asked")
        stream:close()
    end,

    -- The select could not end if it waited for room.
    a_pong_waits_for_a_peer_that_does_not_read = function()
        local w, stream = frames.served {close_time = 0.01}
        require "sockets".fill(w.stream)
        stream:write(make(PING, "full"))
        t.fails("timeout", mare.select({w}, 0.05))
        t.ok(not w.over and w.pong == "full")
        local selecting = mare.go(mare.select, {w})
        local bytes
        repeat bytes = t.ok(stream:read(nil, patience)) until not bytes:find "^x+$"
        t.eq(bytes:match "^x*(..)", string.char(PONG, 0x80 | 4))
        stream:close()
        t.eq({selecting:join(patience)}, {true, 1, true})
        w:close()
    end,

    a_process_that_selects_it_is_killed = function()
        local ready = mare.channel(1)
        local listener <close> = assert(net.listen("127.0.0.1", 0))
        local _, port = listener:address()
        local p = mare.spawn({link = false}, function()
            local w = assert(websocket.connect("ws://127.0.0.1:" .. port))
            ready:send "here"
            mare.select {w, mare.channel()}
        end)
        mare.go(http.serve, listener, function(request)
            local w = websocket.accept(request)
            ready:send(select(3, w:receive(patience)))
        end)
        t.eq(ready:receive(patience), "here")
        t.reaches(function() return p:status() == "blocked" end)
        p:kill()
        t.eq(ready:receive(patience), "closed")
    end,

    its_wait_can_be_cancelled = function()
        local w <close>, stream = frames.served()
        local selecting = begun(mare.select, {w, mare.channel()})
        selecting:cancel()
        t.fails("cancelled", select(2, selecting:join(patience)))
        stream:write(make(TEXT | FINAL, "still here"))
        t.eq({mare.select({w}, patience)}, {1, true})
        t.eq(w:receive(0), "still here")
        stream:close()
    end,

    over_tls_what_openssl_has_is_not_waited_for = function()
        local certificate, key = tls.selfsigned "localhost"
        local listener = assert(tls.listen("127.0.0.1", 0, {certificate = certificate, key = key}))
        local s <close> = frames.server(function(w)
            for text in w:messages() do
                w.stream:write(make(TEXT | FINAL, text .. 1) .. make(TEXT | FINAL, text .. 2))
            end
        end, nil, nil, listener)
        local url = s.url:gsub("^ws://127.0.0.1", "wss://localhost")
        local w <close> = assert(websocket.connect(url, {tls = {authorities = certificate}}))
        for i = 1, 20 do
            local text = ("x"):rep(i * 1000)
            w:send(text)
            for n = 1, 2 do
                t.eq({mare.select({w}, patience)}, {1, true})
                t.eq(w:receive(0), text .. n)
            end
            t.fails("timeout", mare.select({w}, 0))
        end
    end,

    -- LuaSocket.

    luasockets_objects_are_cases = function()
        local core = require "mare.luasocket.core"
        local server = assert(core.tcp4())
        assert(server:bind("127.0.0.1", 0))
        assert(server:listen())
        local _, port = server:getsockname()
        t.fails("timeout", mare.select({server}, 0))
        local selecting = begun(mare.select, {mare.channel(), server})
        local client = assert(core.connect("127.0.0.1", port))
        t.eq({selecting:join(patience)}, {true, 2, true})
        local there = assert(server:accept())
        selecting = begun(mare.select, {client, there})
        there:send "one\ntwo\n"
        t.eq({selecting:join(patience)}, {true, 1, true})
        t.eq(client:receive(), "one")
        t.eq({mare.select {client}}, {1, true}, "what its buffer has is not waited for")
        t.eq(client:receive(), "two")
        t.fails("timeout", mare.select({client, there}, 0.001))
        selecting = begun(mare.select, {client})
        there:close()
        t.eq({selecting:join(patience)}, {true, 1, true})
        t.eq(select(2, client:receive()), "closed")
        client:close()
        t.eq({mare.select {client}}, {1, true})
        server:close()
    end,

    -- The stock interpreter.

    under_the_stock_interpreter = function()
        if not shell.mare or not shell.has_stock() then t.skip "no lua5.4 that fits" end
        local here = debug.getinfo(1, "S").source:match "^@(.*)tests/lua/"
        local path = ("package.path = %q .. package.path\n"):format(here .. "lua/?.lua;")
        local got = shell.stock(path .. [[
            local mare, websocket = require "mare", require "mare.websocket"
            print((select(2, pcall(mare.go, print)):gsub(":.*", "")))
            local ready = mare.channel(1)
            mare.spawn(function()
                local net, http = require "mare.net", require "mare.http"
                local listener = net.listen("127.0.0.1", 0)
                ready:send((select(2, listener:address())))
                http.serve(listener, function(request)
                    local w <close> = websocket.accept(request)
                    for text in w:messages() do w:send(text) w:ping() w:send(text) end
                end)
            end)
            local w = assert(websocket.connect("ws://127.0.0.1:" .. ready:receive(100)))
            print(select(3, mare.select({w}, 0.01)))
            w:send "hello"
            for _ = 1, 2 do print(mare.select({ready, w}, 20)) print(w:receive(0)) end
            print(select(3, mare.select({ready, w}, 0)))
            local object = setmetatable({}, {__select = function(_, case, ...)
                if case then return true, ... end
                return ready
            end})
            mare.spawn(function() ready:send "a message" end)
            print(mare.select({w, object}, 20))
            local p = mare.spawn(function()
                local r = mare.go(function() return 7 end)
                return mare.select {mare.channel(), r}
            end)
            print(p:join(20))
            os.exit(0)
        ]])
        t.eq({got.out, got.err}, {"routines need a process of mare\ntimeout\n" ..
            ("2\ttrue\nhello\ttext\n"):rep(2) .. "timeout\n2\ta message\ntrue\t2\ttrue\t7\n", ""})
    end,
}
