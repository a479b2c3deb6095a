-- SPDX-License-Identifier: MIT
-- Messages that are received without anything in Lua between them: what comes in their way, at
-- whatever moment, is as it is elsewhere. The first message of a conversation is not one of them.
local mare, t, frames = require "mare", require "t", require "frames"
local patience, make = t.patience, frames.make
local TEXT, BINARY, CONTINUES, FINAL = frames.TEXT, frames.BINARY, frames.CONTINUES, frames.FINAL
local PING, PONG, CLOSE = frames.PING | FINAL, frames.PONG | FINAL, frames.CLOSE | FINAL

-- A WebSocket that is past its first message, and the stream of its peer.
local function begun(options)
    local w, stream = frames.served(options)
    stream:write(make(TEXT | FINAL, "first"))
    t.eq({w:receive()}, {"first", "text"})
    return w, stream
end

-- One that receives, and waits.
local function waiting(w, ...)
    local routine = mare.go(function(...) return w:receive(...) end, ...)
    t.reaches(function() return routine:status() == "alive" end)
    t.settle()
    return routine
end

local function said(routine)
    local got = table.pack(routine:join(patience))
    return table.unpack(got, 2, got.n)
end

return {
    one_after_the_other = function()
        local w, stream = begun()
        local routine = waiting(w)
        stream:write(make(TEXT | FINAL, "waited for"))
        t.eq({said(routine)}, {"waited for", "text"})
        stream:write(make(BINARY | FINAL, "two"), make(TEXT | FINAL, ""))
        stream:write(make(TEXT | FINAL, "four"))
        t.eq({w:receive()}, {"two", "binary"})
        t.eq({w:receive()}, {"", "text"})
        t.eq({w:receive()}, {"four", "text"})
        t.eq(w.reader:held(), false)
    end,

    in_pieces_of_any_size = function()
        local w, stream = begun()
        local all = make(TEXT | FINAL, "hello") .. make(TEXT, "a ") .. make(PING, "p")
            .. make(CONTINUES | FINAL, "whole") .. make(BINARY | FINAL, ("x"):rep(300))
        for size = 1, 12 do
            local routine = mare.go(function()
                return {w:receive(), w:receive(), (w:receive())}
            end)
            for at = 1, #all, size do
                stream:write(all:sub(at, at + size - 1))
                t.settle()
            end
            t.eq({said(routine)}, {{"hello", "a whole", ("x"):rep(300)}})
            t.eq({frames.read(stream)}, {PONG, "p"})
        end
    end,

    what_is_no_message = function()
        for _, case in ipairs {
            {make(CLOSE, "\3\xe8that was all"), "closed", 1000},
            {make(TEXT | FINAL, "\xff"), "badmsg", 1007},
            {make(0x83, "x"), "badmsg", 1002},
            {make(BINARY | FINAL, ("x"):rep(200)), "toobig", 1009},
        } do
            local w, stream = begun {limit = 100, close_time = 0}
            local routine = waiting(w)
            stream:write(case[1])
            local data, _, code, number = said(routine)
            t.eq({data, code, number}, {nil, case[2], case[3]})
            t.fails("closed", w:receive())
        end
    end,

    a_peer_that_vanishes = function()
        local w, stream = begun()
        local routine = waiting(w)
        stream:close()
        local data, _, code, number = said(routine)
        t.eq({data, code, number}, {nil, "closed", 1006})
    end,

    one_that_is_closed_by_another_routine = function()
        local w = begun()
        local routine = waiting(w)
        w:close(1000, "", 0)
        local data, _, code, number = said(routine)
        t.eq({data, code, number}, {nil, "closed", 1006})
    end,

    a_wait_that_is_cancelled_loses_nothing = function()
        local w, stream = begun()
        for i = 1, 3 do
            local routine = waiting(w)
            routine:cancel()
            t.fails("cancelled", said(routine))
            stream:write(make(TEXT | FINAL, "again " .. i))
            t.eq((w:receive()), "again " .. i)
        end
    end,

    a_silent_peer_is_asked_for_a_sign = function()
        local w, stream = begun {ping_time = 0.01 * t.slow}
        local routine = waiting(w)
        t.eq({frames.read(stream)}, {PING, ""})
        stream:write(make(PONG, ""), make(TEXT | FINAL, "here"))
        t.eq({said(routine)}, {"here", "text"})
        local data, _, code, number = w:receive() -- and now it is silent for good
        t.eq({data, code, number}, {nil, "closed", 1006})
    end,

    others_stand_in_line = function()
        local w, stream = begun()
        local first = waiting(w)
        local second, third = waiting(w, patience), waiting(w)
        t.fails("timeout", w:receive(0))
        stream:write(make(TEXT | FINAL, "1"), make(TEXT | FINAL, "2"), make(TEXT | FINAL, "3"))
        t.eq({(said(first)), (said(second)), (said(third))}, {"1", "2", "3"})
        stream:write(make(TEXT | FINAL, "4"))
        t.eq((w:receive()), "4")
    end,

    a_select_is_next = function()
        local w, stream = begun()
        local first = waiting(w)
        local selecting = mare.go(function()
            return mare.select({w}, patience), w:receive(0)
        end)
        t.settle()
        stream:write(make(TEXT | FINAL, "1"))
        t.eq((said(first)), "1")
        stream:write(make(TEXT | FINAL, "2"))
        t.eq({said(selecting)}, {1, "2", "text"})
    end,

    a_select_of_one_that_asks_for_no_signs = function()
        local w, stream = begun {ping_time = false}
        t.fails("timeout", mare.select({w}, 0))
        local selecting = mare.go(mare.select, {w}, patience)
        t.settle()
        stream:write(make(TEXT | FINAL, "1"))
        t.eq((said(selecting)), 1)
    end,

    what_a_select_has_taken_in_is_received = function()
        local w, stream = begun()
        stream:write(make(TEXT | FINAL, "1"), make(TEXT | FINAL, "2"))
        t.eq(mare.select({w}, patience), 1)
        t.eq((w:receive()), "1")
        t.eq(mare.select({w}, patience), 1)
        t.eq((w:receive()), "2")
    end,

    a_timeout_of_its_own = function()
        local w, stream = begun()
        w:timeout(0)
        t.fails("timeout", w:receive())
        w:timeout(nil)
        stream:write(make(TEXT | FINAL, "1"))
        t.eq((w:receive()), "1")
        t.fails("timeout", w:receive(0))
    end,

    a_timeout_that_is_set_while_one_waits = function()
        local w, stream = begun()
        local routine = waiting(w)
        w:timeout(0)
        stream:write(make(TEXT | FINAL, "1"))
        t.eq((said(routine)), "1")
        t.fails("timeout", said(mare.go(w.receive, w)))
    end,

    where_nothing_can_wait = function()
        local w, stream = begun()
        t.eq((pcall(string.gsub, "x", "x", function() w:receive() end)), false)
        stream:write(make(TEXT | FINAL, "1"))
        t.eq((w:receive(patience)), "1")
    end,

    a_hook_that_receives_takes_the_next = function()
        local w, stream = begun()
        local line, nested
        local routine = mare.go(function()
            debug.sethook(function()
                local ok, data = pcall(w.receive, line and not nested and w, 0) -- if it is free
                nested = nested or ok and data
            end, "return")
            return w:receive()
        end)
        t.reaches(function() return w.reader:held() end)
        t.fails("timeout", w:receive(0)) -- from here on there is a line
        line = true
        stream:write(make(TEXT | FINAL, ("1"):rep(100)) .. make(TEXT | FINAL, ("2"):rep(100)))
        t.eq((said(routine)), ("1"):rep(100))
        t.eq(nested, ("2"):rep(100))
    end,

    a_flood_of_empty_fragments_leaves_others_their_turns = function()
        local w, stream = begun()
        local routine = waiting(w)
        stream:write(make(TEXT, ""))
        t.reaches(function() -- it is given up here, to go where others have theirs
            stream:write(make(CONTINUES, ""))
            return not w.reader:held()
        end)
        stream:write(make(CONTINUES | FINAL, "1"))
        t.eq((said(routine)), "1")
    end,

    a_flood_of_messages_leaves_others_their_turns = function()
        local w, stream = begun()
        stream:write(make(TEXT | FINAL, "x"):rep(1000))
        local turns = 0
        local receiving = mare.go(function()
            for _ = 1, 1000 do t.eq((w:receive()), "x") end
        end)
        while receiving:status() == "alive" do
            mare.yield()
            turns = turns + (w.reader:pending() and 1 or 0)
        end
        t.eq((receiving:join()), true)
        t.ok(turns >= 8, turns)
    end,

    a_reader_that_is_none = function()
        local w = begun()
        t.raises("attempt to index", w.receive)
        t.raises("attempt to", w.receive, {reader = io.stdout})
        t.raises("attempt to", w.receive, {reader = 1})
    end,
}
