-- SPDX-License-Identifier: MIT
-- Streams joined in memory: everything that is promised of streams, without a socket.
local mare, net, tls = require "mare", require "mare.net", require "mare.tls"
local t, sockets = require "t", require "sockets"

-- Both ends over TLS.
local function secured(room)
    local certificate, key = tls.selfsigned "here"
    local client, server = net.pair(room)
    local serving = mare.go(tls.wrap, server,
        {server = true, certificate = certificate, key = key}, t.patience)
    assert(tls.wrap(client, {name = "here", authorities = certificate}, t.patience))
    assert(serving:join(t.patience))
    return client, server
end

return {
    what_one_writes_the_other_reads = function()
        local a, b = net.pair()
        t.eq(a:write("one\n", 2, "\nthree"), true)
        t.eq({b:read "l", b:read(1), b:read "L", b:read(3)}, {"one", "2", "\n", "thr"})
        t.eq(b:write "back", true)
        t.eq(a:read(), "back")
        a:shutdown()
        t.eq(b:read "a", "ee")
        t.fails("closed", b:read())
        t.eq(b:write "still", true)
        t.eq(a:read(), "still")
        t.fails("closed", a:write "x")
    end,

    it_needs_no_descriptor = function()
        local before = t.descriptors ""
        local a, b = net.pair()
        mare.go(function() a:write "x" end)
        t.eq(b:read(1), "x")
        t.eq(t.descriptors "", before)
        t.eq(tostring(a), "stream (in memory)")
        t.eq({a:address(), b:peer()}, {"", ""})
        t.raises("in memory", require "mare.child".spawn, {"cat", stdin = a})
    end,

    the_room_is_the_limit = function()
        local a, b = net.pair(4)
        t.eq(a:write "1234", true)
        t.fails("timeout", a:writewithin(0, "5"))
        t.eq(b:read(), "1234")
        t.eq(a:write "5678", true)
        t.raises("1 byte to 16 MiB", net.pair, 0)
        t.raises("1 byte to 16 MiB", net.pair, 1 << 25)
    end,

    a_slow_reader_holds_back_the_writer = function() sockets.slow_reader(net.pair()) end,
    an_end_wanders = function() sockets.wander(net.pair()) end,

    over_tls_too = function()
        local client, server = secured()
        client:write "said under TLS\n"
        t.eq(server:read("l", t.patience), "said under TLS")
        t.eq(client:tls().peer.names, {"here"})
        t.eq(server:tls().version, "TLSv1.3")
        client:close()
        t.fails("closed", server:read(nil, t.patience))
    end,

    over_tls_with_room_for_three_bytes = function()
        local client, server = secured(3)
        local text = ("0123456789"):rep(3000)
        local writer = mare.go(function()
            client:write(text)
            client:shutdown()
        end)
        t.eq(server:read "a", text)
        t.eq({writer:join(t.patience)}, {true})
    end,

    an_end_that_is_closed = function()
        local a, b = net.pair()
        a:write "last words"
        local waits = mare.go(function() return a:read(nil, t.patience) end)
        t.settle()
        a:close()
        t.eq({select(4, waits:join(t.patience))}, {"closed"})
        t.eq(b:read(), "last words")
        t.fails("closed", b:read())
        t.fails("closed", b:write "x")
        t.fails("closed", a:read())
    end,

    an_end_that_nothing_refers_to = function()
        local a = net.pair()
        collectgarbage()
        collectgarbage()
        t.fails("closed", a:read(nil, t.patience))
        t.fails("closed", a:write "x")
    end,

    an_end_whose_process_is_killed = function()
        local a, b = net.pair()
        local box = mare.channel(1)
        local process = mare.spawn(function()
            local stream = box:receive()
            stream:write "here"
            stream:read()
        end)
        box:send(b)
        t.eq(a:read(4, t.patience), "here")
        process:kill()
        t.fails("closed", a:read(nil, t.patience))
    end,

    in_a_select = function()
        local a, b = net.pair()
        local ch = mare.channel(1)
        t.fails("timeout", mare.select({b, ch}, 0))
        mare.go(function() a:write "x" end)
        t.eq({mare.select({ch, b}, t.patience)}, {2, true})
        t.eq(b:read(), "x")
        a:close()
        t.eq({mare.select({ch, b}, t.patience)}, {2, true})
        t.fails("closed", b:read())
    end,

    -- Who selects takes the message and does nothing about it: the other is told all the same.
    who_selects_and_who_reads_wait_for_the_same = function()
        for _ = 1, 20 do
            local a, b = net.pair()
            local selects = mare.go(function() return mare.select({b}, t.patience) end)
            local reads = mare.go(function() return b:read(nil, t.patience) end)
            t.settle()
            a:write "x"
            t.eq({reads:join(t.patience)}, {true, "x"})
            t.eq({selects:join(t.patience)}, {true, 1, true})
        end
    end,

    several_wait_to_write_and_to_read = function()
        local a, b = net.pair(3)
        local got, writers = {}, {}
        for i = 1, 10 do
            writers[i] = mare.go(function() return a:write(("x"):rep(100)) end)
        end
        local readers = {}
        for i = 1, 10 do
            readers[i] = mare.go(function()
                local all = 0
                for _ = 1, 50 do all = all + #assert(b:read(2, t.patience)) end
                return all
            end)
        end
        for i = 1, 10 do
            t.eq({writers[i]:join(t.patience)}, {true, true})
            got[i] = select(2, readers[i]:join(t.patience))
        end
        local sum = 0
        for _, count in ipairs(got) do sum = sum + count end
        t.eq(sum, 1000)
    end,
}
