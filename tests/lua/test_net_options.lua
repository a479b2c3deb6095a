-- SPDX-License-Identifier: MIT
-- What a stream, a listener and a socket can be told, step by step and by option; how long a call
-- may stand still; how much of a write went; and datagrams by path.
local mare, net, raw, t = require "mare", require "mare.net", require "mare._net", require "t"
local sockets = require "sockets"

local HERE <const> = "127.0.0.1"

return {
    -- Options.

    what_is_set_is_told = function()
        local client, server = sockets.pair()
        for name, value in pairs {keepalive = true, keepalive_idle = 7, keepalive_interval = 3,
            keepalive_count = 2, nodelay = false, broadcast = false} do
            t.eq(client:option(name, value), client, name)
            t.eq(client:option(name), value, name)
        end
        t.ok(client:option("send_buffer", 20000):option "send_buffer" >= 20000)
        t.eq(client:option("linger", true, 3), client)
        t.eq({client:option "linger"}, {true, 3})
        t.eq({client:option "error"}, {nil})
        t.eq(server:option "keepalive", false)
    end,

    what_is_written_goes_at_once = function()
        local client, server = sockets.pair()
        t.eq({client:option "nodelay", server:option "nodelay"}, {true, true})
        local listener <close> = assert(net.listen(HERE, 0))
        t.eq(listener:option "reuseaddr", true)
        t.eq(listener:option("nodelay", false), listener) -- of those that it accepts from now on
        local other <close> = assert(net.connect(listener:address()))
        t.eq({other:option "nodelay", listener:accept(t.patience):option "nodelay"}, {true, false})
    end,

    misuse_of_options = function()
        local client = sockets.pair()
        t.raises("invalid option 'colour'", client.option, client, "colour")
        t.raises("boolean expected", client.option, client, "nodelay", 1)
        t.raises("seconds cannot be negative", client.option, client, "linger", true, -1)
        t.raises("cannot be set", client.option, client, "error", 1)
        t.raises("number expected", client.option, client, "send_buffer", "much")
        t.raises("cannot be negative", client.option, client, "send_buffer", -1)
        t.fails("io", (net.pair()):option "nodelay") -- there is no socket
        client:close()
        t.fails("closed", client:option "nodelay")
    end,

    -- Step by step.

    a_stream_is_made_in_steps = function()
        local listener <close> = assert(net.listen(HERE, 0))
        local _, port = listener:address()
        local stream <close> = assert(raw.open("inet", "stream"))
        t.fails("closed", stream:peer()) -- it has none yet
        t.eq(raw.bind(stream, HERE, 0), stream)
        local _, from = stream:address()
        t.ok(from > 0)
        t.eq(raw.connect(stream, HERE, port, t.patience), stream)
        t.eq({stream:address()}, {HERE, from})
        local server = listener:accept(t.patience)
        t.eq({server:peer()}, {HERE, from})
        t.eq(raw.connect(stream, HERE, port), stream) -- the system says so once more
        t.fails("io", raw.connect(stream, HERE, port))
    end,

    a_stream_becomes_a_listener = function()
        local stream = assert(raw.open("inet", "stream"))
        assert(raw.bind(stream, HERE, 0))
        local listener <close> = assert(raw.listen(stream, 5))
        t.eq(tostring(stream), "stream (closed)")
        t.eq(stream:close(), false)
        t.fails("closed", stream:read())
        t.fails("closed", stream:handshake())
        t.eq(stream:tls(), nil)
        t.fails("closed", raw.listen(stream, 5))
        local client <close> = assert(net.connect(listener:address()))
        t.ok(listener:accept(t.patience))
        t.fails("closed", listener:peer())
        t.raises("backlog is between", raw.listen, client, 0)
    end,

    -- A connection that is given no time is under way all the same.
    to_connect_may_take_several_calls = function()
        local listener <close> = assert(net.listen(HERE, 0))
        local _, port = listener:address()
        local stream <close> = assert(raw.open("inet", "stream"))
        t.fails("timeout", raw.connect(stream, HERE, port, 0))
        local server = assert(listener:accept(t.patience))
        t.eq(stream:write "there", true)
        t.eq(server:read(5, t.patience), "there")
    end,

    nobody_is_there = function()
        local listener = assert(net.listen(HERE, 0))
        local _, port = listener:address()
        listener:close()
        local stream <close> = assert(raw.open("inet", "stream"))
        t.fails("refused", raw.connect(stream, HERE, port, t.patience))
    end,

    misuse_of_steps = function()
        local stream <close> = assert(raw.open("inet", "stream"))
        t.raises("invalid option 'dgrams'", raw.open, "inet", "dgrams")
        t.raises("not a numeric address", raw.bind, stream, "localhost", 1)
        t.raises("a port is between", raw.bind, stream, HERE, 65536)
        t.raises("the path is too long", raw.bind, stream, "/" .. ("x"):rep(200))
        t.raises("stream expected", raw.connect, {}, HERE, 1)
        t.raises("stream expected", raw.listen, net.listen(HERE, 0), 1)
        stream:close()
        t.fails("closed", raw.bind(stream, HERE, 0))
        t.fails("closed", raw.connect(stream, HERE, 1))
    end,

    -- Standing still.

    a_call_may_take_long_if_it_does_not_stand_still = function()
        local a, b = net.pair()
        t.eq(b:timeout(nil, 5 * t.slow), b)
        local reads = mare.go(function() return b:read "l" end)
        for _ = 1, 20 do -- each is a wait of its own
            mare.sleep(0.01)
            a:write "."
        end
        a:write "\n"
        t.eq({reads:join(t.patience)}, {true, ("."):rep(20)})
        b:timeout(nil, 0.01)
        a:write "half"
        t.fails("timeout", b:read "l")
        t.eq(b:read(), "half") -- it stays
        t.eq(b:timeout(), b) -- for ever again
        local waits = mare.go(function() return b:read() end)
        mare.sleep(0.03)
        t.eq(waits:status(), "alive")
        a:close()
        t.ok(waits:join(t.patience))
        t.raises("negative", b.timeout, b, nil, -1)
    end,

    who_has_no_time_looks_once = function()
        for _, make in ipairs {sockets.pair, net.pair} do
            local a, b = make()
            b:timeout(nil, 0)
            t.fails("timeout", b:read())
            for i = 1, 50 do -- the last read took all there was, which is no reason not to look
                a:write(i, "\n")
                t.reaches(function() return b:read "l" == tostring(i) end)
            end
        end
    end,

    -- Where nothing can wait, only to wait is an error.
    who_has_no_time_need_not_wait = function()
        local a, b = sockets.pair()
        local listener <close> = assert(net.listen(HERE, 0))
        local results = {}
        table.sort({1, 2}, function()
            results[1] = {b:read(nil, 0)}
            results[2] = {listener:accept(0)}
            results[3] = {pcall(b.read, b)}
            return false
        end)
        t.eq({results[1][3], results[2][3]}, {"timeout", "timeout"})
        t.ok(results[3][2]:find "cannot wait here", results[3][2])
        a:close()
    end,

    -- Writes.

    a_write_that_failed_tells_how_much_went = function()
        local a, b = net.pair(10)
        t.eq({select(3, a:writewithin(0, "12345", "67", "89abc"))}, {"timeout", 10})
        t.eq(b:read(), "123456789a")
        a:timeout(0)
        t.eq({select(3, a:write(("x"):rep(25)))}, {"timeout", 10})
        b:close()
        t.eq({select(3, a:write "y")}, {"closed", 0})
        a:close()
        t.eq({select(3, a:write "y")}, {"closed", 0})
    end,

    -- Datagrams by path.

    datagrams_between_paths = function()
        t.in_folder(function(folder)
            local one <close> = assert(net.udp(folder .. "/one"))
            local two <close> = assert(net.udp(folder .. "/two"))
            t.eq({one:address()}, {folder .. "/one"})
            t.eq(one:send("hello", folder .. "/two"), true)
            t.eq({two:receive(t.patience)}, {"hello", folder .. "/one", nil})
            t.eq(two:connect(folder .. "/one"), two)
            t.eq(two:write "back", true)
            t.eq(one:receive(t.patience), "back")
            t.fails("exists", net.udp(folder .. "/one"))
            t.raises("number expected", one.send, net.udp(HERE), "x", HERE)
            t.raises("path is too long", one.send, one, "x", "/" .. ("x"):rep(200))
        end)()
    end,
}
