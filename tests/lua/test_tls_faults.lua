-- SPDX-License-Identifier: MIT
-- TLS with peers, and people between, who do what they should not: each has its answer, and it is
-- never taken for an ordinary end.
local mare, net, t = require "mare", require "mare.net", require "t"
local tls, raw, http = require "mare.tls", require "mare._tls", require "mare.http"
local shell = require "shell"

local HERE, patience, in_routines = "127.0.0.1", t.patience, t.in_routines
tls.handshake_time = patience
local certificate, key = assert(tls.selfsigned({"localhost", HERE}))
local server_context = assert(tls.context {certificate = certificate, key = key, verify = false})
local client_context = assert(tls.context {authorities = certificate})
local old_context = assert(tls.context {authorities = certificate, max_version = "1.2"})

-- Both ends of a connection agree.
local function shake_hands(client, server)
    local shaking = mare.go(function() return client:handshake(patience) end)
    assert(server:handshake(patience))
    t.eq({shaking:join(patience)}, {true, client})
end

-- Bytes from one stream to another, `limit` at the most; then the other is closed.
local function pump(from, to, limit)
    local left = limit or math.huge
    while left > 0 do
        local piece = from:read()
        if not piece then break end
        piece = piece:sub(1, math.tointeger(math.min(#piece, left)))
        if not to:write(piece) then break end
        left = left - #piece
    end
    to:close()
end

-- A client behind whose back somebody cuts the connection when so many bytes have come from the
-- server; the server; and what cuts it at once.
local function cut_pair(limit, context)
    local listener <close> = assert(tls.listen(HERE, 0, {context = server_context}))
    local middle <close> = assert(net.listen(HERE, 0))
    local client = assert(net.connect(middle:address()))
    local near, far = assert(middle:accept(patience)), assert(net.connect(listener:address()))
    mare.go(pump, near, far)
    mare.go(pump, far, near, limit)
    assert(raw.secure(client, context or client_context, patience, false, "localhost"))
    return client, assert(listener:accept(patience)), function()
        near:close()
        far:close()
    end
end

-- Clients whose handshakes fail, each in its own way: what a server hears of them.
local strangers = {
    badmsg = function(port)
        local stream <close> = assert(net.connect(HERE, port))
        stream:write "GET / HTTP/1.1\r\nhost: here\r\n\r\n"
        stream:read("a", patience)
    end,
    denied = function(port)
        t.fails("denied", tls.connect(HERE, port, nil, patience)) -- it trusts others
    end,
    closed = function(port) assert(net.connect(HERE, port)):close() end,
    refused = function(port)
        tls.connect(HERE, port, {authorities = certificate, max_version = "1.2"}, patience)
    end,
}

return {
    a_server_of_http_hears_of_handshakes_that_fail = function()
        local heard, handled = mare.channel(1), 0
        local listener <close> = assert(tls.listen(HERE, 0,
            {certificate = certificate, key = key, min_version = "1.3"}))
        local _, port = listener:address()
        mare.go(http.serve, listener, function()
            handled = handled + 1
            return "hello"
        end, {failed = function(message, code, stream)
            heard:send(code, #message > 0, (stream:peer()) or HERE) -- of one who left, nobody knows
        end})
        for code, stranger in pairs(strangers) do
            stranger(port)
            t.eq({heard:receive(patience)}, {code, true, HERE})
        end
        t.eq(handled, 0)
        local url = ("https://%s:%d/"):format(HERE, port)
        t.eq(select(2, http.get {url = url, tls = {authorities = certificate}}), "hello")
        t.fails("empty", heard:tryreceive())
        t.raises("'failed' must be a function, or false", http.serve, listener, print,
            {failed = "print"})
    end,

    a_handshake_that_takes_too_long_is_heard_of = function()
        local heard = mare.channel(1)
        local listener <close> = assert(tls.listen(HERE, 0,
            {certificate = certificate, key = key, handshake_time = 0.01}))
        mare.go(http.serve, listener, print,
            {failed = function(_, code) heard:send(code) end})
        local silent <close> = assert(net.connect(listener:address()))
        t.eq(heard:receive(patience), "timeout")
        t.fails("closed", silent:read(nil, patience))
    end,

    the_handler_of_other_servers_hears_of_them_by_its_first_call = function()
        local heard = mare.channel(1)
        local listener <close> = assert(tls.listen(HERE, 0,
            {certificate = certificate, key = key, min_version = "1.3"}))
        local _, port = listener:address()
        mare.go(net.serve, listener, function(stream)
            heard:send(select(3, stream:read(nil, patience)))
        end)
        for code, stranger in pairs(strangers) do
            stranger(port)
            t.eq(heard:receive(patience), code)
        end
    end,

    who_does_not_want_to_hear_of_them_sees_them_printed = function()
        if not shell.mare then t.skip "needs the command line" end
        local function run(option, code)
            return shell.lua(([[
                local mare, net = require "mare", require "mare.net"
                local tls, http = require "mare.tls", require "mare.http"
                local certificate, key = tls.selfsigned "localhost"
                local listener = tls.listen("127.0.0.1", 0, {certificate = certificate, key = key})
                local _, port = listener:address()
                mare.go(http.serve, listener, print, {failed = %s})
                for _ = 1, 20 do
                    local stream <close> = net.connect("127.0.0.1", port)
                    if %q == "badmsg" then stream:write "no TLS\n" stream:read "a" end
                end
                local last <close> = tls.connect("127.0.0.1", port, {verify = false})
                listener:close()
            ]]):format(option, code))
        end
        local got = run("nil", "badmsg")
        t.eq({got.out, got.code}, {"", 0})
        local line = "mare: http: the handshake with 127.0.0.1 failed: "
        t.eq(got.err:sub(1, #line), line)
        local _, lines = got.err:gsub("\n", "")
        t.ok(lines < 20, got.err) -- one a second, however slow this is
        t.eq(run("false", "badmsg").err, "")
        t.eq(run("nil", "closed").err, "", "of who came and went nothing is said")
    end,

    a_stream_that_is_cut_off_is_no_end = function()
        for _, context in ipairs {old_context, client_context} do
            local client, server, cut = cut_pair(nil, context)
            shake_hands(client, server)
            server:write "whole, half"
            t.eq(client:read(6, patience), "whole,")
            local readers = in_routines(3, function() return client:read "a" end)
            mare.yield()
            cut()
            for _, reader in ipairs(readers) do
                local _, got, message, code = reader:join(patience)
                t.eq({got, code}, {nil, "io"})
                t.ok(message:find "cut off", message)
            end
            t.eq(client:read(), " half") -- what came is not lost
            t.fails("io", client:read()) -- and how it ended stays known
            t.fails("io", client:write "x")
            t.fails("io", server:read "a")
        end
    end,

    a_connection_that_is_cut_anywhere = function()
        local codes = {}
        for limit = 0, 3000, t.slow > 1 and 300 or 100 do
            local client, server = cut_pair(limit)
            mare.go(function()
                if server:handshake() then server:write(("x"):rep(2000)) end
                server:close()
            end)
            local got, message, code = client:read("a", patience)
            t.ok(not got or limit >= 2000 and #got == 2000, limit)
            t.ok(got or code == "closed" or code == "io", message)
            codes[code or "whole"] = true
        end
        t.ok(codes.closed and codes.io, t.show(codes)) -- in the handshake, and after it
    end,

    what_is_not_tls_is_refused = function()
        local noise = {"GET / HTTP/1.0\r\n\r\n", "SSH-2.0-x\r\n", ("\0"):rep(99), ("\xff"):rep(99),
            "\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00", "\x17\x03\x03\x00\x10" .. ("z"):rep(16),
            "\x16\x03\x01\xff\xff" .. ("a"):rep(65535)}
        for i, bytes in ipairs(noise) do
            for _, serves in ipairs {true, false} do
                local listener <close> = assert(net.listen(HERE, 0))
                local peer = assert(net.connect(listener:address()))
                local stream = assert(listener:accept(patience))
                assert(raw.secure(stream, serves and server_context or client_context, patience,
                    serves, "localhost"))
                peer:write(bytes)
                peer:shutdown()
                local ok, message, code = stream:handshake(patience)
                t.eq({ok, code}, {nil, "badmsg"}, i .. message)
                t.fails("badmsg", stream:read())
                t.fails("badmsg", stream:write "x")
                t.fails("badmsg", stream:shutdown())
            end
        end
    end,

    a_broken_record_ends_the_session = function()
        local listener <close> = assert(tls.listen(HERE, 0, {context = server_context}))
        local plain = assert(net.connect(listener:address()))
        local middle <close> = assert(net.listen(HERE, 0))
        local client = assert(net.connect(middle:address()))
        local near, server = assert(middle:accept(patience)), assert(listener:accept(patience))
        assert(raw.secure(client, client_context, patience, false, "localhost"))
        mare.go(pump, plain, near)
        local flip = false
        mare.go(function()
            for piece in function() return near:read() end do
                if flip then piece = piece:sub(1, -2) .. string.char(piece:byte(-1) ~ 1) end
                plain:write(piece)
            end
        end)
        shake_hands(client, server)
        flip = true
        client:write "nothing of this is to be believed"
        t.fails("badmsg", server:read(nil, patience))
        local got, message, code = client:read(nil, patience)
        t.eq({got, code}, {nil, "refused"}, message) -- the server has said why it goes
        t.ok(message:find "bad record mac", message)
        near:close()
        plain:close()
    end,

    bytes_may_come_one_by_one = function()
        local listener <close> = assert(tls.listen(HERE, 0, {context = server_context}))
        local middle <close> = assert(net.listen(HERE, 0))
        local client <close> = assert(net.connect(middle:address()))
        local near, far = assert(middle:accept(patience)), assert(net.connect(listener:address()))
        local server = assert(listener:accept(patience))
        local function trickle(from, to)
            for byte in function() return from:read(1) end do
                if not to:write(byte) then break end
                mare.yield() -- it is read before the next comes
            end
            to:close()
        end
        mare.go(trickle, near, far)
        mare.go(trickle, far, near)
        assert(raw.secure(client, client_context, patience, false, "localhost"))
        shake_hands(client, server)
        client:write "slow\n"
        t.eq(mare.select({server}, patience), 1)
        t.eq(server:read("l", patience), "slow")
        server:close()
        t.eq(client:read("a", patience), "")
    end,

    the_peer_resets = function()
        local listener <close> = assert(tls.listen(HERE, 0, {context = server_context}))
        local middle <close> = assert(net.listen(HERE, 0))
        local client <close> = assert(net.connect(middle:address()))
        local near = assert(middle:accept(patience))
        local far = assert(require "socket".tcp()) -- it can do what ours does not
        assert(far:connect(listener:address()))
        local server = assert(listener:accept(patience))
        local reset = false
        mare.go(function()
            far:settimeout(0)
            while not reset do
                local up = near:read(nil, 0)
                if up then far:send(up) end
                local down, _, rest = far:receive(4096)
                if #(down or rest) > 0 then near:write(down or rest) end
                mare.yield()
            end
            far:setoption("linger", {on = true, timeout = 0})
            far:close()
            near:close()
        end)
        assert(raw.secure(client, client_context, patience, false, "localhost"))
        shake_hands(client, server)
        local reader = mare.go(function() return server:read() end)
        mare.yield()
        reset = true
        t.fails("closed", select(2, reader:join(patience)))
        t.fails("closed", server:read "a")
        t.fails("closed", server:write "x")
        t.fails("closed", server:shutdown())
        t.eq(server:close(), true)
    end,

    a_process_that_is_killed_while_it_writes_has_not_said_all = function()
        local listener <close> = assert(tls.listen(HERE, 0, {context = server_context}))
        local writing = mare.channel(1)
        local _, port = listener:address()
        local process = mare.spawn(function(context)
            local stream = assert(tls.connect("127.0.0.1", port,
                {context = context, name = "localhost"}, patience))
            mare.go(function() writing:send(true) end)
            stream:write(("x"):rep(32 << 20))
        end, client_context)
        local server <close> = assert(listener:accept(patience))
        t.ok(server:handshake(patience))
        t.eq(writing:receive(patience), true)
        process:kill()
        t.fails("killed", process:join(patience))
        t.fails("io", server:read("a", patience)) -- it waited in the middle of a record
    end,

    a_server_that_says_nothing_is_left = function()
        local listener <close> = assert(net.listen(HERE, 0))
        local host, port = listener:address()
        t.fails("timeout", tls.connect(host, port,
            {context = client_context, handshake_time = 0.05}))
        -- It has gone: its hello is all there is.
        t.ok(#assert(listener:accept(patience)):read("a", patience) > 100)
        local leaver = mare.go(function() return assert(listener:accept(patience)):close() end)
        t.fails("closed", tls.connect(host, port, client_context, patience))
        leaver:join(patience)
    end,
}
