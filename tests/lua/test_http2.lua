-- SPDX-License-Identifier: MIT
-- HTTP/2, our server and our client: what handlers and programs see is what they see of HTTP/1.1.
local mare, t = require "mare", require "t"
local net, http, tls = require "mare.net", require "mare.http", require "mare.tls"
local file = require "mare.file"
local patience = t.patience
local certificate, key = tls.selfsigned "localhost"

-- A server, and a client of it: over TLS, or in clear text. Ended with the variable's scope.
local function service(handler, options, client_options, clear)
    options, client_options = options or {}, client_options or {}
    local listener = assert(clear and net.listen("127.0.0.1", 0) or tls.listen("127.0.0.1", 0,
        {certificate = certificate, key = key, protocols = options.protocols}))
    options.protocols = nil
    if clear then options.http2, client_options.http2 = "clear", "clear" end
    client_options.tls = not clear and {authorities = certificate} or nil
    client_options.timeout = client_options.timeout or patience
    local s = {connections = 0, handled = 0, listener = listener,
        client = http.client(client_options)}
    local seen = setmetatable({}, {__mode = "k"})
    s.serving = mare.go(http.serve, listener, function(request)
        if not seen[request.stream] then
            seen[request.stream] = true
            s.connections = s.connections + 1
        end
        s.handled = s.handled + 1
        return handler(request, s)
    end, options)
    local _, port = listener:address()
    s.base = (clear and "http://localhost:" or "https://localhost:") .. port
    function s.ask(what)
        if type(what) == "string" then what = {url = what} end
        what.url = s.base .. what.url
        return s.client:request(what)
    end
    function s.get(path) return s.client:get(s.base .. path) end
    function s.status(path) return (s.get(path)) end
    function s.text(path) return (select(2, s.get(path))) end
    function s.in_line() return #s.client.places[1].line end -- for a stream
    return setmetatable(s, {__close = function()
        s.client:close()
        listener:close()
    end})
end

local function echo(request)
    return {status = 201, headers = {["X-Method"] = request.method, ["x-path"] = request.path,
        ["x-query"] = request.query, ["set-cookie"] = {"a=1", "b=2"}}, body = request:text()}
end

local function text_of(what) return (select(2, http.get(what))) end

-- What a request to a stream's server has for a host.
local function host_of(request)
    return "localhost:" .. select(2, request.stream:address())
end

-- A body of parts: so many of this size.
local function parts(count, size)
    local n = 0
    return function()
        n = n + 1
        return n <= count and ("x"):rep(size) or nil
    end
end

local cases = {
    a_request_and_its_answer = function()
        local s <close> = service(function(request)
            t.eq({request.http2, request.host, request.headers.host, request.length},
                {true, host_of(request), host_of(request), 5})
            return echo(request)
        end)
        local response = assert(s.ask {url = "/a/b?c=d", body = "hello",
            headers = {["X-Name"] = "value", cookie = "k=v"}})
        t.eq({response.status, response.http2}, {201, true})
        local headers = response.headers
        t.eq({headers["x-method"], headers["x-path"], headers["x-query"]}, {"POST", "/a/b", "c=d"})
        t.eq(headers["set-cookie"], {"a=1", "b=2"})
        t.eq(headers["content-length"], "5")
        t.ok(headers.date)
        t.eq(response:text(), "hello")
        t.eq(response:text(), "")
    end,

    many_at_once_share_a_connection = function()
        local waiting, go_on = 0, mare.channel()
        local s <close> = service(function(request)
            waiting = waiting + 1
            if waiting == 60 then go_on:close() end -- all are handled at the same time
            go_on:receive()
            return request.path
        end)
        local routines = t.in_routines(60, function(i) return s.get("/" .. i) end)
        for i, routine in ipairs(routines) do
            local _, status, text = routine:join(patience)
            t.eq({status, text}, {200, "/" .. i})
        end
        t.eq(s.connections, 1)
        t.eq(s.text "/again", "/again")
        t.eq(s.connections, 1)
    end,

    more_than_a_server_allows_take_another_connection = function()
        local go_on = mare.channel()
        local s <close> = service(function()
            go_on:receive()
            return "ok"
        end)
        local most = http.http2_streams
        local routines = t.in_routines(most + 20, function() return s.get "/" end)
        t.reaches(function() return s.connections == 2 end)
        go_on:close()
        for _, routine in ipairs(routines) do
            local _, status = routine:join(patience)
            t.eq(status, 200)
        end
    end,

    so_many_connections_to_a_host = function()
        local go_on, order = mare.channel(), {}
        local s <close> = service(function(request)
            go_on:receive()
            order[#order + 1] = request.path
            return "ok"
        end, nil, {host_most = 1})
        local most, routines = http.http2_streams, {}
        local function ask(i) routines[i] = mare.go(function() return s.get("/" .. i) end) end
        for i = 1, most do ask(i) end
        t.reaches(function() return s.handled == most end)
        for i = most + 1, most + 20 do
            ask(i)
            t.reaches(function() return s.in_line() == i - most end)
        end
        t.fails("timeout", s.client:request {url = s.base, timeout = 0.01})
        t.fails("timeout", s.client:request {url = s.base, connect_time = 0.01})
        go_on:close()
        for _, routine in ipairs(routines) do
            local _, status = routine:join(patience)
            t.eq(status, 200)
        end
        t.eq(s.connections, 1)
        for i = most + 1, most + 20 do t.eq(order[i], "/" .. i) end
    end,

    the_line_for_a_connection_has_an_end = function()
        local go_on = mare.channel()
        local s <close> = service(function(request)
            if request.path ~= "/first" then go_on:receive() end
            return "ok"
        end, nil, {host_most = 1, line = 1})
        t.eq(s.status "/first", 200) -- or all would wait for the connection
        local routines = t.in_routines(http.http2_streams + 1, function() return s.get "/" end)
        t.reaches(function() return s.in_line() == 1 end)
        t.fails("full", s.client:request {url = s.base})
        go_on:close()
        for _, routine in ipairs(routines) do t.eq(select(2, routine:join(patience)), 200) end
    end,

    who_waits_to_hear_what_a_server_speaks_is_not_in_line = function()
        local go_on = mare.channel()
        local s <close> = service(function() go_on:receive() return "ok" end,
            {protocols = {"http/1.1"}}, {host_most = 2, line = 4})
        local routines = t.in_routines(6, function() return s.get "/" end)
        t.reaches(function() return s.handled == 2 end)
        t.fails("full", s.client:request {url = s.base})
        go_on:close()
        for _, routine in ipairs(routines) do t.eq(select(2, routine:join(patience)), 200) end
    end,

    what_others_do_gives_who_waits_no_more_time = function()
        local s <close> = service(function() return {body = parts(math.huge, 1000)} end, nil,
            {host_most = 1, limits = {body = 1 << 40}})
        local held = {}
        for i = 1, http.http2_streams do held[i] = assert(s.ask "/") end
        local waiting = mare.go(s.client.request, s.client, {url = s.base, timeout = 1})
        local deadline = mare.deadline(patience)
        while waiting:status() == "alive" and deadline:left() > 0 do held[1]:read() end
        local _, response, _, code = waiting:join(0)
        t.eq({response, code}, {nil, "timeout"})
        for _, one in ipairs(held) do one:close() end
    end,

    one_that_is_not_used_gives_way = function()
        local s <close> = service(function() return "ok" end, nil,
            {host_most = 1, idle_time = 1000})
        t.eq(s.status "/", 200)
        t.eq(assert(s.ask {url = "/", limits = {body = 2}}):text(), "ok") -- of another reader
        t.eq(assert(s.ask {url = "/", http2 = false}):text(), "ok")
        t.eq(s.status "/", 200)
        t.eq(s.connections, 4)
    end,

    an_answer_that_is_given_up_makes_room_for_who_waits = function()
        local s <close> = service(function(request)
            return request.path == "/large" and {body = parts(math.huge, 1000)} or "ok"
        end, nil, {host_most = 1})
        local held = {}
        for i = 1, http.http2_streams do held[i] = assert(s.ask "/large") end
        local waiting = mare.go(s.get, "/")
        t.reaches(function() return s.in_line() == 1 end)
        held[1]:close()
        t.eq(select(2, waiting:join(patience)), 200)
        t.eq(s.connections, 1)
        for _, response in ipairs(held) do response:close() end
    end,

    where_only_http1_is_spoken_they_are_counted_too = function()
        local go_on = mare.channel()
        local s <close> = service(function() go_on:receive() return "ok" end,
            {protocols = {"http/1.1"}}, {host_most = 2})
        local routines = t.in_routines(6, function() return s.get "/" end)
        t.reaches(function() return s.handled == 2 end)
        go_on:close()
        for _, routine in ipairs(routines) do t.eq(select(2, routine:join(patience)), 200) end
        t.eq(s.connections, 2)
    end,

    what_a_handler_can_answer = function()
        local s <close> = service(function(request)
            local path = request.path
            if path == "/none" then return nil end
            if path == "/number" then return 42 end
            if path == "/parts" then return {body = parts(3, 5)} end
            if path == "/length" then return {body = parts(3, 5), length = 15} end
            if path == "/not_modified" then return {status = 304, headers = {etag = '"a"'}} end
            if path == "/now" then request:answer {status = 202, body = "now"} end
            return {status = 404, body = ""}
        end)
        t.eq(s.status "/none", 204)
        t.eq(s.text "/number", "42")
        t.eq(s.text "/parts", ("x"):rep(15))
        local response = assert(s.ask "/length")
        t.eq({response.headers["content-length"], response:text()}, {"15", ("x"):rep(15)})
        t.eq(assert(s.ask "/not_modified").headers.etag, '"a"')
        t.eq(s.text "/now", "now")
        t.eq(s.status "/nothing", 404)
        response = assert(s.ask {url = "/length", method = "HEAD"})
        t.eq({response.status, response.headers["content-length"], response:text()},
            {200, "15", ""})
    end,

    bodies_in_parts_go_both_ways_at_once = function()
        local s <close> = service(function(request)
            return {body = function() return request:read() end}
        end, {limits = {body = 1 << 24}}, {limits = {body = 1 << 24}})
        local sent, got = 0, 0
        local response = assert(s.ask {url = "/", method = "POST", body = function()
            if sent == 4 << 20 then return nil end
            sent = sent + 65536
            return ("y"):rep(65536)
        end})
        for part in function() return response:read() end do got = got + #part end
        t.eq({sent, got}, {4 << 20, 4 << 20})
    end,

    -- They are read in parts, and on the one connection that is allowed.
    files_go_both_ways = t.in_folder(function(folder)
        local name, text = folder .. "/large", {}
        for i = 1, 1000 do text[i] = i .. ("x"):rep(1000) end
        text = table.concat(text)
        assert(file.write(name, text))
        for _, clear in ipairs {false, true} do
            local s <close> = service(function(request)
                if request.path == "/read" then return request:text() end
                if request.path == "/open" then return {body = assert(file.open(name))} end
                return {file = name}
            end, {limits = {body = 1 << 24}}, {limits = {body = 1 << 24}, host_most = 1}, clear)
            local function opened() return assert(file.open(name)) end
            t.ok(assert(s.ask {url = "/read", method = "POST", file = name}):text() == text)
            t.ok(assert(s.ask {url = "/read", method = "POST", body = opened()}):text() == text)
            local asking = t.in_routines(8, function(i)
                local response = assert(s.ask(i % 2 == 0 and "/open" or "/path"))
                return response.http2 and response.headers["content-length"] == tostring(#text)
                    and response:text() == text
            end)
            for i = 1, 8 do t.eq({asking[i]:join(patience)}, {true, true}) end
            t.eq(s.connections, 1)
            t.fails("noname", s.ask {url = "/read", method = "POST", file = name .. "none"})
        end
    end),

    an_answer_in_many_small_parts_is_no_flood = function()
        local s <close> = service(function() return {body = parts(5000, 10)} end)
        t.eq(#s.text "/", 50000)
    end,

    a_body_that_nobody_reads_is_held_back = function()
        local go_on, sent = mare.channel(), 0
        local s <close> = service(function(request)
            go_on:receive()
            local size = 0
            for part in function() return request:read() end do size = size + #part end
            return tostring(size)
        end, {limits = {body = 1 << 24}})
        local answer = mare.go(function()
            local response = assert(s.ask {url = "/", body = function()
                if sent == 3 << 20 then return nil end
                sent = sent + 65536
                return ("y"):rep(65536)
            end})
            return response:text()
        end)
        t.reaches(function() return sent >= http.http2_stream_window end)
        t.settle(100)
        t.ok(sent <= http.http2_stream_window + 3 * 65536, sent)
        go_on:close()
        t.eq({answer:join(patience)}, {true, tostring(3 << 20)})
    end,

    an_answer_that_nobody_reads_is_held_back = function()
        local made = 0
        local s <close> = service(function(request)
            if request.path == "/small" then return "small" end
            return {body = function()
                made = made + 1
                return made <= 100 and ("z"):rep(65536) or nil
            end}
        end, nil, {limits = {body = 1 << 24}})
        local response = assert(s.ask "/")
        t.reaches(function() return made >= 4 end)
        t.settle(100)
        t.ok(made < 10, made)
        t.eq(s.text "/small", "small") -- which others need not wait for
        t.eq(#assert(response:text()), 100 * 65536)
        t.eq(s.connections, 1)
    end,

    answers_that_are_dropped_make_room = function()
        local s <close> = service(function(request)
            return request.path == "/small" and "small" or {body = parts(100, 65536)}
        end)
        for _ = 1, 10 do assert(s.ask "/") end -- more than the window of a connection
        collectgarbage()
        collectgarbage()
        for _ = 1, 3 do assert(s.ask "/"):close() end
        t.eq(s.text "/small", "small")
        t.eq(s.connections, 1)
    end,

    limits_of_bodies = function()
        local s <close> = service(function(request)
            local text, message, code = request:text()
            if text then return ("x"):rep(2000) end
            t.eq({message, code}, {"the body is too large", "toobig"})
        end, {limits = {body = 1000}}, {limits = {body = 1000}})
        t.eq(assert(s.ask {url = "/", body = ("x"):rep(1001)}).status, 413)
        local response = assert(s.ask {url = "/", body = parts(3, 500)})
        t.eq({response.status, response:text()}, {413, "the body is too large\n"})
        response = assert(s.ask {url = "/", body = parts(2, 500)})
        t.eq(response.status, 200)
        t.fails("toobig", response:text())
    end,

    what_fails_is_said = function()
        local s <close> = service(function(request)
            local path = request.path
            if path == "/body" then
                return {body = function() return nil, "no more paper", "io" end}
            elseif path == "/short" then
                return {body = parts(1, 5), length = 6}
            end
            return {status = 200, headers = {connection = "close"}, body = "x"}
        end)
        for _, path in ipairs {"/body", "/short"} do
            local response = assert(s.ask(path))
            t.eq(response.status, 200)
            t.fails("badmsg", response:text())
        end
        t.eq(s.status "/bad", 500) -- which is printed
        local response, message, code = s.ask {url = "/", body = function()
            return nil, "no ink", "io"
        end}
        t.eq({response, message, code}, {nil, "no ink", "io"})
        t.eq(s.connections, 1)
    end,

    a_client_that_goes_cancels_its_handler = function()
        local begun, told, logged = mare.channel(1), mare.channel(1), mare.channel(4)
        local s <close> = service(function(request)
            if request.path == "/other" then return "other" end
            begun:send(true)
            local _, _, code = mare.channel():receive()
            told:send(code, request.gone)
        end, {log = function(request, ...) logged:send(request.path, ...) end})
        local asking = mare.go(s.ask, "/gone")
        begun:receive(patience)
        asking:cancel()
        t.eq({told:receive(patience)}, {"cancelled", true})
        t.eq({logged:receive(patience)}, {"/gone", 499, "the client has gone away"})
        t.eq(s.text "/other", "other")
        t.eq({logged:receive(patience)}, {"/other", 200})
        t.eq(s.connections, 1)
    end,

    so_does_one_whose_connection_ends = function()
        local begun, told = mare.channel(1), mare.channel(1)
        local s <close> = service(function(request)
            begun:send(true)
            local _, _, code = mare.channel():receive()
            told:send(code, request.gone)
        end)
        local asked
        local asking = mare.go(function()
            asked = {s.ask "/"}
        end)
        begun:receive(patience)
        s.client.places[1].connections[1].stream:close()
        t.eq({told:receive(patience)}, {"cancelled", true})
        t.ok(asking:join(patience))
        t.eq({asked[1], asked[3], asked[4]}, {nil, "closed", true})
    end,

    deadlines = function()
        local s <close> = service(function() mare.channel():receive() end)
        t.fails("timeout", s.ask {url = "/", timeout = 0.01})
        t.fails("timeout", s.ask {url = "/", timeout = mare.deadline(0.01)})
    end,

    the_end_in_order = function()
        local begun, go_on = mare.channel(1), mare.channel(1)
        local s <close> = service(function()
            begun:send(true)
            go_on:receive()
            return "to the end"
        end, {end_time = 0.01})
        local asking = mare.go(s.get, "/")
        begun:receive(patience)
        s.listener:close()
        t.ok(s.serving:join(patience))
        t.reaches(function() return s.client.places[1].connections[1].going end) -- it was told
        go_on:send(true)
        t.eq((select(3, asking:join(patience))), "to the end")
        t.reaches(function() return s.client.places[1].connections[1].over end)
    end,

    a_server_that_says_goodbye_is_asked_anew = function()
        local s <close> = service(echo, {idle_time = 0.02 * t.slow})
        t.eq(assert(s.ask "/").status, 201)
        t.reaches(function() return s.client.places[1].connections[1].going end)
        t.eq(assert(s.ask "/").status, 201)
        t.eq(s.connections, 2)
    end,

    a_client_may_do_without_and_so_may_a_server = function()
        local function version(server_option, client_option, protocols)
            local s <close> = service(function(request) return tostring(request.http2) end,
                {http2 = server_option, protocols = protocols}, {http2 = client_option})
            local text = s.text "/"
            t.eq(s.text "/", text)
            return text
        end
        t.eq(version(), "true")
        t.eq(version(false), "nil")
        t.eq(version(true, false), "nil")
        t.eq(version(nil, nil, {"http/1.1"}), "nil")
        t.eq(version(nil, nil, {"h2"}), "true")
    end,

    one_request_on_its_own = function()
        local s <close> = service(function(request) return tostring(request.http2) end)
        local function once(http2)
            return text_of {url = s.base .. "/", tls = {authorities = certificate}, http2 = http2,
                timeout = patience}
        end
        t.eq({once(true), once(false), once()}, {"true", "nil", "nil"})
    end,

    in_several_processes = function()
        local listener <close> = assert(net.listen("127.0.0.1", 0))
        mare.go(http.serve, listener, function(request)
            return tostring(request.http2)
        end, {processes = 2, http2 = "clear"})
        local _, port = listener:address()
        for _ = 1, 3 do
            t.eq(text_of {url = "http://127.0.0.1:" .. port, http2 = "clear"}, "true")
            t.eq(text_of {url = "http://127.0.0.1:" .. port}, "nil")
        end
    end,

    what_stands_above_it_works = function()
        local route, gzip = require "mare.http.route", require "mare.http.gzip"
        local routes = route.new()
        routes:get("/tides/:name", function(_, parameters)
            return {headers = {["content-type"] = "text/plain"},
                body = parameters.name:rep(1000)}
        end)
        local s <close> = service(gzip.answers()(routes:handler()), nil, {gzip = true})
        t.eq(s.text "/tides/spring", ("spring"):rep(1000))
        t.eq(s.status "/ebb", 404)
        t.eq(s.connections, 1)
    end,

    misuse_is_an_error = function()
        local listener <close> = assert(net.listen("127.0.0.1", 0))
        t.raises("option 'http2' must be true or false, or 'clear'", http.serve, listener, echo,
            {http2 = 2})
        t.raises("http2", http.client, {http2 = "no"})
        t.raises("http2", http.request, {url = "http://a", http2 = 1})
        local s <close> = service(echo)
        t.raises("header 'connection' is written by the module itself", s.ask,
            {url = "/", headers = {connection = "close"}})
    end,
}

return cases
