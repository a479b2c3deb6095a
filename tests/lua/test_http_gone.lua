-- SPDX-License-Identifier: MIT
-- A client that goes away while its request is handled: what the handler waits for is cancelled,
-- nothing is answered, and the log is told.
local mare, t, shell = require "mare", require "t", require "shell"
local net, http, tls = require "mare.net", require "mare.http", require "mare.tls"
local patience = t.patience
http.look_time = 0.01
local ASK = "GET /x HTTP/1.1\r\nHost: a\r\n\r\n"

-- A server whose handler is told of, as the log is; ended with the variable's scope. Over TLS, if
-- it is given a certificate.
local function server(handler, options, certificate, key)
    local listener = assert(certificate and tls.listen("127.0.0.1", 0,
        {certificate = certificate, key = key}) or net.listen("127.0.0.1", 0))
    local s = {begun = mare.channel(10), told = mare.channel(10), logged = mare.channel(10)}
    options = options or {}
    options.log = options.log or function(request, status, message)
        s.logged:send(request.path, status, message)
    end
    mare.go(http.serve, listener, function(request)
        s.begun:send(request.path)
        return handler(request, s)
    end, options)
    local _, port = listener:address()
    function s.connect()
        if not certificate then return assert(net.connect("127.0.0.1", port, patience)) end
        return assert(tls.connect("127.0.0.1", port, {authorities = certificate,
            name = "localhost"}, patience))
    end
    -- Asks, and goes when that is handled.
    function s.ask_and_go(bytes)
        local stream <close> = s.connect()
        stream:write(bytes or ASK)
        s.begun:receive(patience)
    end
    return setmetatable(s, {__close = function() listener:close() end})
end

local never = mare.channel()

-- A handler that waits for ever, and tells how that ended.
local function waits(request, s)
    local _, _, code = never:receive()
    s.told:send(code, request.gone)
end

-- What the log was told: that the client has gone, or no reason.
local function is_logged(s, status, stayed)
    t.eq({s.logged:receive(patience)},
        {"/x", status, not stayed and "the client has gone away" or nil})
end

return {
    what_a_handler_waits_for_is_cancelled = function()
        local s <close> = server(waits)
        s.ask_and_go()
        t.eq({s.told:receive(patience)}, {"cancelled", true})
        is_logged(s, 499)
        s.ask_and_go(ASK:rep(3)) -- of which one is handled
        t.eq({s.told:receive(patience)}, {"cancelled", true})
        is_logged(s, 499)
        t.eq({#s.begun, #s.logged}, {0, 0})
    end,

    over_tls_too = function()
        local certificate, key = tls.selfsigned "localhost"
        local s <close> = server(waits, nil, certificate, key)
        s.ask_and_go()
        t.eq({s.told:receive(patience)}, {"cancelled", true})
        is_logged(s, 499)
    end,

    so_is_what_a_body_in_parts_waits_for = function()
        local s <close> = server(function(request, s)
            local n = 0
            return {finally = function() s.told:send "finally" end, body = function()
                n = n + 1
                if n == 1 then return "one" end
                s.told:send "waits"
                local value, message, code = never:receive()
                s.told:send(code, request.gone)
                return value, message, code
            end}
        end)
        local stream = s.connect()
        stream:write(ASK)
        t.eq(s.told:receive(patience), "waits")
        stream:close() -- with something unread, so that the connection is reset
        t.eq({s.told:receive(patience)}, {"cancelled", true})
        t.eq(s.told:receive(patience), "finally")
        is_logged(s, 200)
    end,

    only_one_wait_is = function()
        local go_on = mare.channel()
        local s <close> = server(function(request, s)
            s.told:send(select(3, never:receive()), request.gone)
            s.told:send(go_on:receive()) -- what must be done, though nobody hears of it
        end)
        s.ask_and_go()
        t.eq({s.told:receive(patience)}, {"cancelled", true})
        go_on:send "finished"
        t.eq(s.told:receive(patience), "finished")
        is_logged(s, 499)
    end,

    also_the_next_one_if_it_waits_for_nothing = function()
        local s <close> = server(function(request, s)
            repeat mare.yield() until request.gone
            s.told:send(select(3, never:receive()))
        end)
        s.ask_and_go()
        t.eq(s.told:receive(patience), "cancelled")
        is_logged(s, 499)
    end,

    but_not_one_of_the_log = function()
        local logged = mare.channel(1)
        local s <close> = server(function(request)
            repeat mare.yield() until request.gone
            return "nobody reads this"
        end, {log = function(_, status) logged:send(status, mare.sleep(0.001)) end})
        s.ask_and_go()
        t.eq({logged:receive(patience)}, {499})
    end,

    an_option_says_otherwise = function()
        local go_on = mare.channel()
        local patient <close> = server(function(request, s)
            s.told:send(go_on:receive())
            s.told:send(request.gone)
            return "done"
        end, {cancel = false})
        local usual <close> = server(waits)
        patient.ask_and_go()
        usual.ask_and_go()
        t.eq({usual.told:receive(patience)}, {"cancelled", true})
        t.eq(#patient.told, 0)
        go_on:send "finished"
        t.eq(patient.told:receive(patience), "finished")
        t.eq({patient.told:receive(patience)}, {nil})
        t.eq(select(2, patient.logged:receive(patience)), 200)
        -- So one who only sends no more, which looks the same, is answered however long it takes.
        local stream <close> = patient.connect()
        stream:write(ASK)
        stream:shutdown()
        go_on:send "again"
        t.ok(stream:read("a", patience):find "\r\n\r\ndone$")
    end,

    who_is_still_there_is_not_disturbed = function()
        local go_on = mare.channel()
        local s <close> = server(function() return (go_on:receive()) end)
        local usual <close> = server(waits)
        local stream <close> = s.connect()
        stream:write(ASK, ASK)
        usual.ask_and_go()
        usual.told:receive(patience) -- by now it has been looked at
        go_on:send "one"
        go_on:send "two"
        is_logged(s, 200, "stayed")
        is_logged(s, 200, "stayed")
    end,

    another_protocol_is_not_disturbed = function()
        local s <close> = server(function(request, s)
            request.taken = true
            s.told:send(request.stream:read "a") -- to the end, which it expects
            s.told:send(select(3, never:receive(0.1)))
        end)
        s.ask_and_go()
        t.eq(s.told:receive(patience), "")
        t.eq(s.told:receive(patience), "timeout")
        is_logged(s, 101, "stayed")
    end,

    one_connection_alone_too = function()
        local listener <close> = assert(net.listen("127.0.0.1", 0))
        local client = assert(net.connect(listener:address()))
        local stream = assert(listener:accept(patience))
        local told, begun = mare.channel(1), mare.channel(1)
        local handling = mare.go(http.handle, stream, function()
            begun:send(true)
            told:send(select(3, never:receive()))
        end)
        client:write(ASK)
        begun:receive(patience)
        client:close()
        t.eq(told:receive(patience), "cancelled")
        t.eq(handling:join(patience), true)
    end,

    the_main_script_may_handle_one_too = function()
        local program = [[
            local mare, net, http = require "mare", require "mare.net", require "mare.http"
            local listener = assert(net.listen("127.0.0.1", 0))
            local host, port = listener:address()
            local client = mare.spawn(function()
                local _, text = assert(require "mare.http".get("http://127.0.0.1:" .. port))
                return text
            end)
            local stream = assert(listener:accept())
            http.handle(stream, function() return "hello" end)
            stream:close()
            print(client:join())
        ]]
        local library = debug.getinfo(1, "S").source:match "^@(.*)tests/lua/" .. "lua/?.lua;"
        local path = ("package.path = %q .. package.path\n"):format(library)
        for _, run in ipairs {shell.lua, shell.has_stock() and shell.stock or nil} do
            local got = run(path .. program)
            t.eq({got.out, got.err, got.code}, {"true\thello\n", "", 0})
        end
    end,

    an_error_that_comes_of_it_is_only_logged = function()
        local got = shell.lua [[
            local mare, net, http = require "mare", require "mare.net", require "mare.http"
            local listener = assert(net.listen("127.0.0.1", 0))
            local begun, logged = mare.channel(1), mare.channel(1)
            mare.go(http.serve, listener, function()
                begun:send(true)
                assert(mare.channel():receive()) -- raises an error
            end, {log = function(request, status, message) logged:send(status, message) end})
            local stream = assert(net.connect(listener:address()))
            stream:write "GET /x HTTP/1.1\r\nHost: a\r\n\r\n"
            begun:receive()
            stream:close()
            print(logged:receive())
            listener:close()
        ]]
        t.eq({got.err, got.code}, {"", 0})
        t.ok(got.out:find "^499\tthe client has gone away: [^\n]*the operation was cancelled\n$",
            got.out)
    end,
}
