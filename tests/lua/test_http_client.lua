-- SPDX-License-Identifier: MIT
-- The HTTP client and the connections that it keeps: against our server, and against servers made
-- by hand, which close when they should not. nginx is in tests/e2e.
local mare, t = require "mare", require "t"
local net, http, tls = require "mare.net", require "mare.http", require "mare.tls"
local websocket = require "mare.websocket"
local patience = t.patience

-- Our server, with the number of the connection that a request came through in its answer; ended
-- with the variable's scope.
local function server(handler, listener, options)
    listener = listener or assert(net.listen("127.0.0.1", 0))
    local _, port = listener:address()
    local numbers, count = setmetatable({}, {__mode = "k"}), 0
    mare.go(http.serve, listener, function(request)
        if not numbers[request.stream] then
            count = count + 1
            numbers[request.stream] = count
        end
        return handler(request, numbers[request.stream])
    end, options)
    return setmetatable({base = "http://127.0.0.1:" .. port, port = port},
        {__close = function() listener:close() end})
end

local function number_of(request, number) return request.method .. number end

-- A server made by hand: each function serves one connection, in turn, and what it returns is
-- collected.
local function by_hand(...)
    local listener = assert(net.listen("127.0.0.1", 0))
    local _, port = listener:address()
    local turns = {...}
    local routine = mare.go(function()
        local results = {}
        for i, turn in ipairs(turns) do
            local stream <close> = assert(listener:accept(patience)):timeout(patience)
            results[i] = turn(stream)
        end
        listener:close()
        return table.unpack(results)
    end)
    return "http://127.0.0.1:" .. port .. "/", routine
end

-- Reads a head (and so many bytes), and answers.
local function answer(stream, text, more)
    local first = stream:read "l"
    repeat local line = stream:read "l" until line == "" or not line
    if more then stream:read(more) end
    stream:write("HTTP/1.1 200 OK\r\nContent-Length: ", #text, "\r\n\r\n", text)
    return first
end

-- A server made by hand, whose first connection says something (`said`) to a first request, and
-- more (`late`) when that has been answered; on its second connection it answers "true". Asks it
-- twice, over TLS if `secure`: what was answered to the second, a GET, and how often it was asked.
local function asked_after(method, said, late, secure)
    local certificate, key = tls.selfsigned "localhost"
    local listener = assert(secure and tls.listen("127.0.0.1", 0,
        {certificate = certificate, key = key}) or net.listen("127.0.0.1", 0))
    local heard, answered = 0, mare.channel(1)
    local function read_head(stream)
        if not stream:read "l" then return false end
        repeat local line = stream:read "l" until line == "" or not line
        heard = heard + 1
        return true
    end
    mare.go(net.serve, listener, function(stream)
        stream:timeout(patience)
        read_head(stream)
        if heard > 1 then return stream:write "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ntrue" end
        stream:write(said)
        answered:receive(patience)
        if late then stream:write(late) end
        read_head(stream)
    end)
    local _, port = listener:address()
    local url = ("%s://localhost:%d/"):format(secure and "https" or "http", port)
    local client <close> = http.client {timeout = patience, tls = {authorities = certificate}}
    local response = assert(client:request {url = url, method = method})
    assert(response:text())
    answered:send(true)
    if late then mare.select({client.pool.unused[1].stream}, patience) end -- it has come
    local _, text = client:get(url)
    listener:close()
    return text, heard
end

return {
    requests_go_through_one_connection = function()
        local s <close> = server(number_of)
        local client <close> = http.client()
        for _ = 1, 3 do t.eq(select(2, client:get(s.base .. "/", patience)), "GET1") end
        local response = assert(client:request {url = s.base, method = "HEAD", timeout = patience})
        t.eq({response.status, response:text()}, {200, ""})
        response = assert(client:request {url = s.base, method = "HEAD", timeout = patience})
        t.eq({response.status, response:text()}, {200, ""}) -- also after one without a body
        t.eq(select(2, client:get(s.base, patience)), "GET1")
    end,

    without_a_client_each_has_its_own = function()
        local s <close> = server(number_of)
        t.eq(select(2, http.get(s.base, patience)), "GET1")
        t.eq(select(2, http.get(s.base, patience)), "GET2")
    end,

    bodies_of_all_kinds_leave_the_connection_usable = function()
        local s <close> = server(function(request, number)
            local text = request:text()
            local n = 0
            if request.path == "/chunks" then
                return {body = function()
                    n = n + 1
                    if n <= 3 then return ("x"):rep(n * 1000) end
                end}
            elseif request.path == "/nothing" then
                return nil
            elseif request.path == "/missing" then
                return {status = 404, body = "missing"}
            end
            return number .. ":" .. #text
        end)
        local client <close> = http.client()
        t.eq(select(2, client:get(s.base .. "/", patience)), "1:0")
        t.eq(#select(2, client:get(s.base .. "/chunks", patience)), 6000)
        t.eq(client:get(s.base .. "/nothing", patience), 204)
        t.eq(client:get(s.base .. "/missing", patience), 404)
        local response = assert(client:request {url = s.base, method = "PUT",
            body = ("y"):rep(100000), timeout = patience})
        t.eq(response:text(), "1:100000")
    end,

    two_at_once_need_two = function()
        local gate = mare.channel()
        local s <close> = server(function(_, number)
            gate:receive(patience)
            return tostring(number)
        end)
        local client <close> = http.client()
        local routines = {}
        for i = 1, 2 do
            routines[i] = mare.go(function()
                local _, text = client:get(s.base, patience)
                return text
            end)
        end
        gate:send(1)
        gate:send(2)
        local _, one = routines[1]:join(patience)
        local _, two = routines[2]:join(patience)
        t.ok(one == "1" and two == "2" or one == "2" and two == "1", one .. " and " .. two)
        t.eq(#client.pool.unused, 2)
    end,

    what_cannot_be_repeated_has_a_new_connection = function()
        local s <close> = server(number_of)
        local client <close> = http.client()
        client:get(s.base, patience)
        t.eq(assert(client:request {url = s.base, body = "x", timeout = patience}):text(), "POST2")
    end,

    a_connection_that_was_closed_meanwhile_is_replaced_once = function()
        local closed = mare.channel(1)
        local url, routine = by_hand(function(stream)
            local asked = answer(stream, "one")
            stream:close()
            closed:send(true)
            return asked
        end, function(stream) return answer(stream, "two") end)
        local client <close> = http.client()
        t.eq(select(2, client:get(url, patience)), "one")
        closed:receive(patience)
        t.eq(select(2, client:get(url, patience)), "two")
        t.eq({routine:join(patience)}, {true, "GET / HTTP/1.1", "GET / HTTP/1.1"})
    end,

    a_server_that_always_closes_is_not_asked_for_ever = function()
        local function closes(stream) stream:read "l" end
        local url, routine = by_hand(function(stream) answer(stream, "one") end, closes)
        local client <close> = http.client()
        t.eq(select(2, client:get(url, patience)), "one")
        t.fails("closed", client:get(url, patience))
        t.eq((routine:join(patience)), true)
    end,

    a_server_that_says_it_closes_is_believed = function()
        local url, routine = by_hand(function(stream)
            stream:read "l"
            stream:write "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\na"
            return stream:read "a" ~= nil
        end)
        local client <close> = http.client()
        t.eq(select(2, client:get(url, patience)), "a")
        t.eq(#client.pool.unused, 0)
        t.eq({routine:join(patience)}, {true, true}) -- and this side has closed
    end,

    a_late_408_is_not_an_answer = function()
        local url, routine = by_hand(function(stream)
            answer(stream, "one")
            stream:write("HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n",
                "Content-Length: 0\r\n\r\n")
        end, function(stream) return answer(stream, "two") end)
        local client <close> = http.client()
        t.eq(select(2, client:get(url, patience)), "one")
        t.eq(select(2, client:get(url, patience)), "two")
        t.eq((routine:join(patience)), true)
    end,

    -- RFC 9112 section 6.3: what comes after an answer is nobody's.
    what_no_request_has_asked_for_is_not_the_next_ones_answer = function()
        local false_one = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfalse"
        for name, case in pairs {
            ["a body after 204"] = {"GET", "HTTP/1.1 204 No Content\r\n\r\n" .. false_one},
            ["a body to HEAD"] = {"HEAD", ("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s")
                :format(#false_one, false_one)},
            ["a body after 304"] = {"GET", "HTTP/1.1 304 Not Modified\r\n\r\n" .. false_one},
            ["two answers"] = {"GET", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
                .. false_one},
            ["two answers, one in chunks"] = {"GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked"
                .. "\r\n\r\n2\r\nok\r\n0\r\n\r\n" .. false_one},
            ["half of one"] = {"GET", "HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 200 OK\r\n"},
        } do
            t.eq({asked_after(table.unpack(case))}, {"true", 2}, name)
            t.eq({asked_after(case[1], case[2], nil, true)}, {"true", 2}, name .. ", TLS")
        end
    end,

    also_if_it_comes_later = function()
        local said = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
        local late = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfalse"
        for _, secure in ipairs {false, true} do
            t.eq({asked_after("GET", said, late, secure)}, {"true", 2})
        end
    end,

    one_that_announces_a_body_where_there_can_be_none_is_not_asked_again = function()
        for _, field in ipairs {"Content-Length: 5", "Transfer-Encoding: chunked"} do
            t.eq({asked_after("GET", "HTTP/1.1 204 No Content\r\n" .. field .. "\r\n\r\n")},
                {"true", 2}, field)
        end
        local url = by_hand(function(stream)
            stream:read "l"
            stream:write "HTTP/1.1 103 Early Hints\r\nContent-Length: 5\r\n\r\nHTTP/"
        end)
        t.fails("badmsg", http.get(url, patience))
    end,

    an_answer_that_was_not_read_is_not_the_next_ones = function()
        local s <close> = server(function(request, number)
            return request.path == "/long" and ("x"):rep(500000) or tostring(number)
        end)
        local client <close> = http.client()
        local response = assert(client:request {url = s.base .. "/long", timeout = patience})
        t.ok(response:read())
        response:close()
        t.eq(select(2, client:get(s.base, patience)), "2")
    end,

    a_server_can_ask_again_for_a_part_that_has_not_come = function()
        local more, early = mare.channel(), 0
        local s <close> = server(function(request)
            local parts = {}
            repeat
                local part, message, code = request:read(0.001)
                if code == "timeout" then early = early + 1 end
                if early == 3 then more:close() end
                parts[#parts + 1] = part
            until not part and not message
            return table.concat(parts)
        end)
        local sent = false
        local response = assert(http.request {url = s.base, timeout = patience, body = function()
            more:receive() -- until it has asked too early
            sent = not sent
            return sent and "late" or nil
        end})
        t.eq(response:text(), "late")
    end,

    a_part_that_does_not_come_in_time_can_be_asked_for_again = function()
        local more = mare.channel()
        local s <close> = server(function()
            return {body = function() return more:receive() end}
        end)
        for _, gzip in ipairs {false, true} do
            local client <close> = http.client {timeout = patience, gzip = gzip}
            mare.go(more.send, more, "one")
            local response = assert(client:request(s.base))
            t.eq(response:read(patience), "one")
            for _ = 1, 3 do t.fails("timeout", response:read(0.001)) end
            t.fails("timeout", response:read(mare.deadline(0.001)))
            mare.go(more.send, more, "two")
            t.eq(response:read(patience), "two")
            mare.go(more.send, more, nil)
            t.eq({response:read(patience)}, {})
            t.eq({response:read(0)}, {})
        end
    end,

    what_cannot_be_repeated_goes_on_a_kept_one_if_asked_for = function()
        local s <close> = server(number_of)
        local client <close> = http.client {timeout = patience}
        local function post(kept)
            return client:request({url = s.base, body = "x", kept = kept}):text()
        end
        t.eq({post(), post(true), post(), post(true)}, {"POST1", "POST1", "POST2", "POST2"})
        t.raises("option 'kept' must be true or false", client.request, client,
            {url = s.base, kept = 1})
    end,

    a_kept_one_that_ends_is_told_and_not_repeated = function()
        local heard = 0
        local url, routine = by_hand(function(stream)
            answer(stream, "one", 1)
            heard = heard + 1
            stream:read "l" -- and says nothing
            heard = heard + 1
        end)
        local client <close> = http.client {timeout = patience}
        t.eq(client:request({url = url, body = "x"}):text(), "one")
        local response, _, code, sent = client:request {url = url, body = "x", kept = true}
        t.eq({response, code, sent, n = 4}, {nil, "closed", true, n = 4})
        t.ok(routine:join(patience))
        t.eq(heard, 2)
    end,

    a_failure_says_whether_the_request_may_have_got_there = function()
        local nobody = assert(net.listen("127.0.0.1", 0))
        local _, port = nobody:address()
        nobody:close()
        local url = "http://127.0.0.1:" .. port
        for _, retries in ipairs {0, 1} do
            local client <close> = http.client {timeout = patience, retries = retries}
            local failure = table.pack(client:request(url))
            t.eq({failure[3], failure[4]}, {"refused"})
            local silent <close> = assert(net.listen("127.0.0.1", 0))
            local there = "http://127.0.0.1:" .. select(2, silent:address())
            t.in_some_time(function(time) -- enough to send it
                failure = table.pack(client:request {url = there, timeout = mare.deadline(time)})
                t.eq(failure[3], "timeout")
                return failure[4] == true
            end)
        end
    end,

    connecting_has_a_time_of_its_own = function()
        local silent <close> = assert(net.listen("127.0.0.1", 0)) -- which never shakes hands
        local url = "https://127.0.0.1:" .. select(2, silent:address())
        local client <close> = http.client {connect_time = 0.01, timeout = 1000}
        for _, timeout in ipairs {1000, mare.deadline(1000)} do
            local failure = table.pack(client:request {url = url, timeout = timeout})
            t.eq({failure[3], failure[4]}, {"timeout"})
        end
        t.fails("timeout", http.request {url = url, connect_time = 0.01, timeout = 1000})
        t.raises("option 'connect_time' must be seconds", http.client, {connect_time = 0})
    end,

    so_many_are_kept_and_so_long = function()
        local s <close> = server(function(_, number) return tostring(number) end)
        local client <close> = http.client {most = 2, idle_time = 1000}
        local open = {}
        for i = 1, 4 do
            open[i] = assert(client:request {url = s.base, timeout = patience})
        end
        for i = 1, 4 do t.eq(open[i]:text(), tostring(i)) end
        t.eq(#client.pool.unused, 2)
        t.eq(select(2, client:get(s.base, patience)), "4")
        client.pool.idle_time = 0
        mare.sleep(0.001)
        t.eq(select(2, client:get(s.base, patience)), "5")
        t.eq(#client.pool.unused, 1)
        client:close()
        t.eq(#client.pool.unused, 0)
    end,

    servers_are_told_apart = function()
        local one <close> = server(function() return "one" end)
        local two <close> = server(function() return "two" end)
        local client <close> = http.client()
        for _ = 1, 2 do
            t.eq(select(2, client:get(one.base, patience)), "one")
            t.eq(select(2, client:get(two.base, patience)), "two")
        end
        t.eq(#client.pool.unused, 2)
    end,

    it_keeps_connections_over_tls = function()
        local certificate, key = tls.selfsigned "localhost"
        local listener = assert(tls.listen("127.0.0.1", 0, {certificate = certificate, key = key}))
        local s <close> = server(number_of, listener)
        local client <close> = http.client {tls = {authorities = certificate}}
        local url = "https://localhost:" .. s.port .. "/"
        for _ = 1, 2 do t.eq(select(2, client:get(url, patience)), "GET1") end
        t.eq(client:get("https://127.0.0.1:" .. s.port, patience), nil) -- the wrong name
    end,

    -- Bodies.

    a_body_in_parts_may_have_a_length = function()
        local s <close> = server(function(request)
            return tostring(request.length) .. ":" .. (request:text() or "cut short")
        end)
        local function ask(length, ...)
            local parts = {...}
            return http.request {url = s.base, length = length, timeout = patience,
                body = function() return table.remove(parts, 1) end}
        end
        t.eq(assert(ask(5, "ab", "", "cde")):text(), "5:abcde")
        t.eq(assert(ask(nil, "ab", "cde")):text(), "nil:abcde")
        t.fails("badmsg", ask(5, "ab", "cdef"))
        t.fails("badmsg", ask(5, "ab"))
    end,

    an_answer_in_parts_may_have_a_length = function()
        local s <close> = server(function(request)
            local parts = {"one", "two"}
            return {length = tonumber(request.query), body = function()
                return table.remove(parts, 1)
            end}
        end)
        local client <close> = http.client()
        local status, text, headers = client:get(s.base .. "/?6", patience)
        t.eq({status, text, headers["content-length"]}, {200, "onetwo", "6"})
        local response = assert(client:request {url = s.base .. "/?6", method = "HEAD"})
        t.eq({response.headers["content-length"], response:text()}, {"6", ""})
        t.fails("badmsg", client:get(s.base .. "/?9", patience)) -- cut short, and not as if whole
    end,

    a_body_that_fails_is_not_taken_for_a_whole_one = function()
        local s <close> = server(function()
            local n = 0
            return {body = function()
                n = n + 1
                if n == 1 then return "part" end
                return nil, "the source is gone", "io"
            end}
        end)
        t.fails("badmsg", http.get(s.base, patience))
    end,

    -- Both sides would wait for each other, if nobody read while the request is sent.
    an_answer_may_come_while_the_request_is_sent = function()
        local s <close> = server(function(request)
            return {body = function() return request:read() end}
        end, nil, {limits = {body = 1 << 30}})
        local client <close> = http.client {timeout = patience, limits = {body = 1 << 30}}
        local text = ("x"):rep(16 << 20)
        local function in_parts()
            local at = 0
            return function()
                at = at + 65536
                return at <= #text and text:sub(1, 65536) or nil
            end
        end
        for _, ask in ipairs {http.request, function(what) return client:request(what) end} do
            for _, body in ipairs {text, in_parts()} do
                local response = assert(ask {url = s.base, body = body, timeout = patience,
                    limits = {body = 1 << 30}})
                t.ok(response:text() == text)
            end
        end
        t.eq(#client.pool.unused, 2) -- each was sent whole before its answer ended
    end,

    what_is_sent_in_vain_ends_with_the_answer = function()
        local s <close> = server(function() return {status = 403, body = "no"} end, nil,
            {message_time = 0.2}) -- for so long it waits for a body that nobody wants
        local silent, client <close> = mare.channel(), http.client {host_most = 1}
        local called, woken = 0, mare.channel(1)
        for _, body in ipairs {
            function() called = called + 1 return ("x"):rep(65536) end,
            function() woken:send(select(3, silent:receive())) return nil, "it was cancelled" end,
        } do
            local response = assert(client:request {url = s.base, body = body, timeout = patience})
            t.eq({response.status, response:text()}, {403, "no"})
        end
        t.eq(woken:receive(patience), "cancelled")
        t.settle()
        local now = called
        t.settle()
        t.eq(called, now)
    end,

    an_error_of_a_body_is_that_of_its_caller = function()
        local s <close> = server(function(request) return tostring(request:text()) end, nil,
            {http2 = "clear"})
        for _, http2 in ipairs {false, "clear"} do
            local client <close> = http.client {host_most = 1, http2 = http2, timeout = patience}
            local good, why
            for _ = 1, 2 do -- and its connection makes room for another
                local err = {}
                good, why = pcall(client.request, client,
                    {url = s.base, body = function() error(err) end})
                t.eq({good, why == err}, {false, true})
            end
            t.eq(select(2, client:get(s.base)), "")
            good = pcall(http.request, {url = s.base, http2 = http2, timeout = patience,
                body = function() error() end})
            t.eq(good, false)
        end
    end,

    a_limit_is_that_of_one_request = function()
        local s <close> = server(function(_, number) return ("x"):rep(99) .. number end)
        local client <close> = http.client()
        for _ = 1, 2 do
            t.eq(select(2, client:get {url = s.base, limits = {body = 100}}), ("x"):rep(99) .. 1)
            t.eq(select(2, client:get(s.base, patience)), ("x"):rep(99) .. 1)
        end
        t.fails("toobig", client:get {url = s.base, limits = {body = 99}})
        t.fails("toobig", client:get {url = s.base, limits = {field_line = 5}})
    end,

    a_body_of_which_no_number_tells_the_length_is_refused_at_once = function()
        local url = by_hand(function(stream)
            stream:read "l"
            stream:write "HTTP/1.1 200 OK\r\nContent-Length: 9223372036854775813\r\n\r\nhello"
        end)
        t.fails("toobig", http.request {url = url, limits = {body = math.maxinteger},
            timeout = patience})
    end,

    a_small_limit_is_not_left_behind = function()
        local s <close> = server(function(request, number) return request.path .. number end)
        local client <close> = http.client()
        t.eq(select(2, client:get {url = s.base .. "/", limits = {body = 2}}), "/1")
        t.eq(select(2, client:get(s.base .. "/longer", patience)), "/longer1")
    end,

    finally_is_called_however_it_went = function()
        local called = mare.channel(1)
        local s <close> = server(function(request)
            local response = {finally = function() called:send(request.path) end, body = "fine"}
            if request.path == "/error" then response.body = function() error() end end
            if request.path == "/status" then response.status = "none" end
            if request.path == "/now" then request:answer(response) else return response end
        end)
        for _, path in ipairs {"/", "/error", "/status", "/now"} do
            http.get(s.base .. path, patience)
            t.eq(called:receive(patience), path)
        end
    end,

    a_server_that_never_comes_to_its_answer_is_left = function()
        local interim, last = "HTTP/1.1 102 Processing\r\n\r\n", "HTTP/1.1 204 No Content\r\n\r\n"
        local base, routine = by_hand(function(stream)
            repeat local line = stream:read "l" until line == ""
            stream:write(interim:rep(100), last)
        end, function(stream)
            repeat local line = stream:read "l" until line == ""
            repeat until not stream:write(interim)
        end)
        t.eq(http.get(base, patience), 204)
        t.fails("badmsg", http.get(base, patience))
        t.eq(routine:join(patience), true)
    end,

    a_client_stays_in_its_process = function()
        local client <close> = http.client()
        t.raises("a client belongs to the process that made it", mare.spawn, print, client)
    end,

    cookies_are_a_list = function()
        local s <close> = server(function(request)
            return {headers = {["set-cookie"] = {"a=1; expires=Mon, 01 Jan", "b=2"},
                ["x-a"] = {1, 2}}, body = request.path}
        end)
        local _, _, headers = http.get(s.base, patience)
        t.eq(headers["set-cookie"], {"a=1; expires=Mon, 01 Jan", "b=2"})
        t.eq(headers["x-a"], "1, 2")
    end,

    urls_are_taken_apart = function()
        local function at(url)
            local p = http.locate(url)
            return p and {p.scheme, p.host, p.port, p.target, p.name, p.secure}
        end
        t.eq(at "http://a", {"http", "a", 80, "/", "a", false})
        t.eq(at "HTTPS://a:443/b?c#d", {"https", "a", 443, "/b?c", "a", true})
        t.eq(at "http://a:8080?c", {"http", "a", 8080, "/?c", "a:8080", false})
        t.eq(at "ws://[::1]:81/x", {"ws", "::1", 81, "/x", "[::1]:81", false})
        t.eq(at "wss://[::1]/", {"wss", "::1", 443, "/", "[::1]", true})
        for _, url in ipairs {"ftp://a/", "a", "http://", "http://u@a/", "http://a:b/",
            "http://a:65536/", "http://a:80x/"} do
            t.eq(at(url), nil, url)
        end
    end,

    what_may_not_stand_in_a_target_is_encoded = function()
        local s <close> = server(function(request) return request.target end)
        for target, expected in pairs {
            ["/a b?c d"] = "/a%20b?c%20d",
            ["/\u{e9}/\u{1f30a}?q=\u{fc}#\u{e9}"] = "/%C3%A9/%F0%9F%8C%8A?q=%C3%BC",
            ["/\xff"] = "/%FF", -- what is no UTF-8 is bytes
            ["/\"<>\\^`{|}"] = "/%22%3C%3E%5C%5E%60%7B%7C%7D", -- RFC 3986 section 2
            ["/a%20b%2Fc%zz?100%"] = "/a%20b%2Fc%25zz?100%25", -- what was encoded stays so
            ["/:/?#[]@!$&'()*+,;=-._~"] = "/:/?",
            ["/[]@!$&'()*+,;=-._~:/?[]@!$&'()*+,;=-._~:/?"]
                = "/[]@!$&'()*+,;=-._~:/?[]@!$&'()*+,;=-._~:/?",
        } do
            t.eq(select(2, http.get(s.base .. target, patience)), expected)
        end
    end,

    what_cannot_be_is_refused_as_a_value = function()
        for _, url in ipairs {"http://m\u{fc}nchen.example/", "http://a b/", "http://a\"b/",
            "http://a/\r\nX: y", "http://a/\tb", "http://a/\0", "http://a/\x7f", "http://a\n/",
            "http://[::1\u{e9}]/"} do
            t.fails("invalid", http.get(url, patience))
            t.fails("invalid", http.client():get(url, patience))
            t.fails("invalid", websocket.connect((url:gsub("^http", "ws"))))
            t.eq({http.locate(url)}, {nil, (select(2, http.get(url)))})
        end
    end,
}
