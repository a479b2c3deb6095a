-- SPDX-License-Identifier: MIT
-- Buffers: bytes that change hands without being copied.
local mare, t = require "mare", require "t"

return {
    a_buffer_of_a_size_is_zeros = function()
        local b = mare.buffer(4)
        t.eq({#b, b:get(), b:moved()}, {4, "\0\0\0\0", false})
        t.eq(#mare.buffer(0), 0)
    end,

    a_buffer_of_a_string_is_its_bytes = function()
        local b = mare.buffer "a\0b"
        t.eq({#b, b:get()}, {3, "a\0b"})
    end,

    indices_are_those_of_string_sub = function()
        local s = "abcdef"
        local b = mare.buffer(s)
        for i = -8, 8 do
            t.eq(b:get(i), s:sub(i))
            for j = -8, 8 do
                t.eq(b:get(i, j), s:sub(i, j), i .. ", " .. j)
            end
        end
        t.eq(b:get(math.mininteger, math.maxinteger), s)
        t.eq(b:get(math.maxinteger), "")
        t.eq(b:get(1, math.mininteger), "")
    end,

    set_overwrites = function()
        local b = mare.buffer "......"
        b:set(1, "ab")
        b:set(-1, "z")
        b:set(3, "")
        t.eq(b:get(), "ab...z")
        t.raises("outside", b.set, b, 6, "xy")
        t.raises("outside", b.set, b, 0, "x")
        t.raises("outside", b.set, b, -7, "x")
        t.raises("outside", b.set, b, math.maxinteger, "x")
        t.raises("outside", b.set, b, math.mininteger, "x")
        t.eq(b:get(), "ab...z")
    end,

    a_send_moves_it = function()
        local b, ch = mare.buffer "payload", mare.channel(1)
        ch:send(b)
        t.eq({#b, b:moved()}, {0, true})
        t.raises("sent to another process", function() b:get() end)
        t.raises("sent to another process", function() b:set(1, "x") end)
        t.raises("arg 1: a buffer that was sent before", ch.trysend, ch, b)
        local got = ch:receive()
        t.eq({got:get(), got:moved()}, {"payload", false})
    end,

    a_rendezvous_moves_it = function()
        local ch = mare.channel()
        local p = mare.spawn(function()
            local b = ch:receive()
            b:set(1, "P")
            return b
        end)
        local b = mare.buffer "payload"
        ch:send(b)
        t.ok(b:moved())
        local _, back = p:join(t.patience)
        t.eq(back:get(), "Payload")
    end,

    a_big_one_goes_a_long_way = function()
        local b = mare.buffer(16 << 20)
        b:set(1, "head")
        b:set(-4, "tail")
        local first, ch = nil, mare.channel(1)
        ch:send(b)
        for _ = 1, 20 do
            local next_one = mare.channel(1)
            mare.spawn(function(from, to) to:send(from:receive()) end, first or ch, next_one)
            first = next_one
        end
        local got = first:receive(t.patience)
        t.eq({#got, got:get(1, 4), got:get(-4)}, {16 << 20, "head", "tail"})
    end,

    inside_a_table_it_moves_too = function()
        local ch, a, b = mare.channel(1), mare.buffer "a", mare.buffer "b"
        ch:send({x = {a}, b}, 1)
        t.eq({a:moved(), b:moved()}, {true, true})
        local got = ch:receive()
        t.eq({got.x[1]:get(), got[1]:get()}, {"a", "b"})
    end,

    twice_in_one_message_is_refused_or_shared_but_never_lost = function()
        local ch, b = mare.channel(1), mare.buffer "one"
        local ok, err = pcall(ch.send, ch, b, b)
        if ok then
            local x, y = ch:receive()
            t.ok(x == y)
            t.eq(x:get(), "one")
        else
            t.ok(err:find "buffer", err)
            t.eq({b:moved(), b:get()}, {false, "one"})
        end
    end,

    a_send_that_fails_gives_it_back = function()
        local b = mare.buffer "mine"
        local ch = mare.channel()
        t.fails("full", ch:trysend(b))
        t.fails("timeout", ch:sendwithin(0, b))
        t.fails("timeout", ch:sendwithin(0.001, b))
        t.fails("timeout", mare.select({{ch, b}}, 0))
        t.fails("timeout", mare.select({{ch, b}}, 0.001))
        ch:close()
        t.fails("closed", ch:send(b))
        t.eq({b:moved(), b:get()}, {false, "mine"})
    end,

    a_refused_message_gives_it_back = function()
        local b, ch = mare.buffer "mine", mare.channel(1)
        t.raises("cannot travel", ch.send, ch, b, io.stdout)
        t.raises("cannot travel", mare.spawn, print, b, io.stdout)
        t.raises("cannot travel", mare.select, {{ch, b}, {ch, io.stdout}})
        t.eq({b:moved(), b:get()}, {false, "mine"})
    end,

    a_close_while_the_send_waits_gives_it_back = function()
        local ch = mare.channel()
        local p = mare.spawn(function()
            local b = mare.buffer "mine"
            local sent, _, code = ch:send(b)
            return sent, code, b:moved(), b:get()
        end)
        t.reaches(function() return p:status() == "blocked" end)
        ch:close()
        t.eq({p:join(t.patience)}, {true, nil, "closed", false, "mine"})
    end,

    select_moves_the_one_that_was_sent_and_keeps_the_others = function()
        local a, b = mare.buffer "a", mare.buffer "b"
        local full, room = mare.channel(), mare.channel(1)
        t.eq({mare.select({{full, a}, {room, b}})}, {2, true})
        t.eq({a:moved(), b:moved()}, {false, true})
        t.eq({a:get(), room:receive():get()}, {"a", "b"})
    end,

    an_argument_moves = function()
        local b = mare.buffer "argument"
        local p = mare.spawn(function(mine) return mine:get() end, b)
        t.eq(b:moved(), true)
        t.eq({p:join(t.patience)}, {true, "argument"})
    end,

    an_upvalue_moves = function()
        local b = mare.buffer "upvalue"
        local p = mare.spawn(function() return b:get() end)
        t.eq({p:join(t.patience)}, {true, "upvalue"})
        t.eq(b:moved(), true)
    end,

    one_that_nobody_received_is_freed_with_its_channel = function()
        for _ = 1, 50 do mare.channel(1):send(mare.buffer(1 << 20)) end
        collectgarbage()
    end,

    -- The collector knows what hangs on a hundred bytes of reference: it does not let hundreds of
    -- megabytes pile up.
    garbage_does_not_pile_up = function()
        local alive, most = setmetatable({}, {__mode = "k"}), 0
        for i = 1, 1000 // t.slow do
            alive[mare.buffer(1 << 20)] = true
            if i % 10 == 0 then
                local count = 0
                for _ in pairs(alive) do count = count + 1 end
                most = math.max(most, count)
            end
        end
        t.ok(most < 50, ("%d MiB at once"):format(most))
    end,

    -- Also not what is kept for a while, by the generational collector that the main script has.
    nor_do_those_that_have_grown_old = function()
        for _, mode in ipairs {"generational", "incremental"} do
            local ok, most = mare.spawn(function()
                collectgarbage(mode)
                local alive, kept, highest = setmetatable({}, {__mode = "k"}), {}, 0
                for i = 1, 1000 do
                    local buffer = mare.buffer(1 << 20)
                    alive[buffer], kept[i % 4] = true, buffer
                    if i % 10 == 0 then
                        local count = 0
                        for _ in pairs(alive) do count = count + 1 end
                        highest = math.max(highest, count)
                    end
                end
                return highest, #kept
            end):join(t.patience)
            t.ok(ok, most)
            t.ok(most < 50, ("%s: %d MiB at once"):format(mode, most))
        end
    end,

    -- Nor does it start when the program has stopped it.
    a_stopped_collector_stays_stopped = function()
        local p = mare.spawn(function()
            collectgarbage "stop"
            local watched = setmetatable({{}}, {__mode = "v"})
            for _ = 1, 100 do mare.buffer(1 << 16) end
            return watched[1] ~= nil, collectgarbage "isrunning"
        end)
        t.eq({p:join(t.patience)}, {true, true, false})
    end,

    misuse_raises = function()
        t.raises("#1", mare.buffer)
        t.raises("#1", mare.buffer, {})
        t.raises("#1.*negative", mare.buffer, -1)
        t.fails("nomem", mare.buffer(math.maxinteger))
        local b = mare.buffer(1)
        t.raises("buffer expected", b.get, 42)
        t.raises("buffer expected", b.moved, mare.channel())
    end,
}
