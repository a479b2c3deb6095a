-- SPDX-License-Identifier: MIT
-- What a handler may answer with, and a client ask with: what is wrong with it is said by name, and
-- nothing of it is sent.
local mare, t, shell = require "mare", require "t", require "shell"
local net, http = require "mare.net", require "mare.http"
local patience = t.patience

-- A handler in a server of its own, until the end of the scope.
local function server(handler, options)
    local listener = assert(net.listen("127.0.0.1", 0))
    mare.go(http.serve, listener, handler, options)
    local _, port = listener:address()
    return setmetatable({base = "http://127.0.0.1:" .. port .. "/", port = port},
        {__close = function() listener:close() end})
end

-- All that a server says to these bytes until it closes.
local function said(s, ...)
    local stream <close> = assert(net.connect("127.0.0.1", s.port, patience)):timeout(patience)
    stream:write(...)
    return stream:read "a"
end

-- A function that returns part after part.
local function in_parts(...)
    local parts = {...}
    return function() return table.remove(parts, 1) end
end

-- What is an integer that is not negative, and what is not.
local LENGTHS = {5, 5.0, "5", "05"}
local NO_LENGTHS = {true, false, -1, -5.0, 5.5, "-5", "5.0", "0x5", " 5", "5 ", "", "five",
    "18446744073709551615", "9223372036854775808", 2^63, 2^64, 1/0, 0/0, {}, print}

-- Answers, and what is wrong with them.
local WRONG = {
    {'{bdy = "x"}', "unknown field 'bdy'"},
    {'{"x"}', "unknown field '1'"},
    {'true', "a string, a table or nil expected, got boolean"},
    {'print', "a string, a table or nil expected, got function"},
    {'{status = "404"}', "status must be an integer from 200 to 999"},
    {'{status = "404", body = "x"}', "status must be an integer from 200 to 999"},
    {'{status = 100}', "status must be an integer from 200 to 999"},
    {'{status = 1000}', "status must be an integer from 200 to 999"},
    {'{status = 200.5}', "status must be an integer from 200 to 999"},
    {'{body = true}', "body must be a string or a function, a file or a stream, not a boolean"},
    {'{body = {}}', "body must be a string or a function, a file or a stream, not a table"},
    {'{length = "x", body = print}', "length must be an integer that is not negative"},
    {'{length = 2, body = "x"}', "length must be that of the body, 1"},
    {'{file = true}', "file must be the path of a file"},
    {'{file = "/etc/passwd", body = "x"}', "file must be without a body"},
    {'{file = "/nowhere/x"}', "/nowhere/x: No such file or directory"},
    {'{file = "/"}', "file /: it is a folder"},
    {'{file = "a\\0b"}', "a path cannot have a zero byte"},
    {'{body = listener}',
        "body must be a string or a function, a file or a stream, not a userdata"},
    {'{finally = true}', "finally must be a function"},
    {'{upgrade = true}', "upgrade must be a string"},
    {'{headers = "a: b"}', "headers must be a table, not a string"},
    {'{headers = "a: b", body = "x"}', "headers must be a table, not a string"},
    {'{headers = {vary = true}, body = "x"}',
        "header 'vary' must be a string or a number, not a boolean"},
    {'{headers = {"a: b"}}', "the names of headers must be strings"},
    {'{headers = {["a b"] = "c"}}', "header 'a b' has a name that may not be sent"},
    {'{headers = {[""] = "c"}}', "header '' has a name that may not be sent"},
    {'{headers = {a = "b\\r\\nc: d"}}', "header 'a' has a value that may not be sent"},
    {'{headers = {a = {"b", "\\0"}}}', "header 'a' has a value that may not be sent"},
    {'{headers = {a = true}}', "header 'a' must be a string or a number, not a boolean"},
    {'{headers = {["Content-Length"] = 5}}',
        "header 'Content-Length' is written by the module itself"},
    {'{headers = {date = "now"}}', "header 'date' is written by the module itself"},
}

-- That what is wrong with the answers of a handler that is served so is said with its line.
local function said_by_name(served, http2)
    local program = {([[
        local mare, net, http = require "mare", require "mare.net", require "mare.http"
        local listener, answer = assert(net.listen("127.0.0.1", 0)), nil
        local function handler() return answer end
        local route, version = require "mare.http.route", %s
        mare.go(http.serve, listener, %s, {http2 = version})
        local client <close> = http.client {http2 = version}
        local base = "http://127.0.0.1:" .. select(2, listener:address())
        local function try(what)
            answer = what
            assert(client:get {url = base, headers = {["accept-encoding"] = "gzip"}} == 500)
            io.stderr:write "500\n"
        end]]):format(http2, served)}
    for _, case in ipairs(WRONG) do program[#program + 1] = ("try(%s)"):format(case[1]) end
    program[#program + 1] = "listener:close()"
    local got = shell.lua(table.concat(program, "\n"))
    t.eq(got.code, 0, got.err)
    local line = got.err:gmatch "[^\n]+"
    for _, case in ipairs(WRONG) do
        t.eq(line():match "^mare: http: [^:]+:3: bad answer (.*)$", "(" .. case[2] .. ")", served)
        t.eq(line(), "500")
    end
    t.eq(line(), nil)
end

return {
    -- Whether the connection is kept.

    a_connection_ends_when_its_head_says_so = function()
        local s <close> = server(function(request)
            if request.path == "/parts" then return {body = in_parts("ab", "c")} end
            if request.path == "/status" then return {status = 2000} end
            if request.path == "/header" then return {headers = {["a b"] = "c"}} end
            if request.path == "/length" then return {length = -1, body = in_parts "x"} end
            if request.path == "/fails" then error("on purpose", 0) end
        end)
        local old = "HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"
        local new = "HTTP/1.1\r\nHost: a\r\n\r\n"
        for path, version in pairs {parts = old, status = new, header = new, length = new,
            fails = new} do
            local ask = ("GET /%s %s"):format(path, version)
            local got = said(s, ask, ask)
            t.ok(got, path .. ": the connection stays open")
            local _, heads = got:gsub("HTTP/1.1 %d%d%d ", "")
            t.eq({heads, got:find "\r\nConnection: close\r\n" ~= nil}, {1, true}, path)
            if path == "parts" then t.eq(got:match "\r\n\r\n(.*)", "abc") end
        end
    end,

    an_old_client_that_asks_for_it_is_kept = function()
        local s <close> = server(function(request)
            return {length = request.path == "/parts" and 3 or nil,
                body = request.path == "/parts" and in_parts("ab", "c") or "abc"}
        end)
        for _, path in ipairs {"/text", "/parts"} do
            local ask = ("GET %s HTTP/1.0\r\n%%s\r\n"):format(path)
            local got = said(s, ask:format "Connection: keep-alive\r\n", ask:format "")
            local _, bodies = got:gsub("\r\n\r\nabc", "")
            t.eq({bodies, got:find "\r\nConnection: keep%-alive\r\n" ~= nil}, {2, true}, path)
        end
    end,

    -- Lengths.

    a_length_is_a_whole_number = function()
        local length
        local s <close> = server(function()
            return {length = length, body = in_parts("ab", "cde")}
        end)
        for _, given in ipairs(LENGTHS) do
            length = given
            local status, text, headers = http.get(s.base, patience)
            t.eq({status, text, headers["content-length"], headers["transfer-encoding"]},
                {200, "abcde", "5", nil}, t.show(given))
        end
    end,

    another_length_is_refused_and_nothing_is_sent = function()
        local length
        local s <close> = server(function()
            return {length = length, body = in_parts "HTTP/1.1 200 OK\r\n\r\nforged"}
        end)
        for _, wrong in ipairs(NO_LENGTHS) do
            length = wrong
            for _, method in ipairs {"GET", "HEAD"} do
                local got = said(s, method, " / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
                t.ok(got:find "^HTTP/1.1 500 " and not got:find "forged", t.show {wrong, got})
            end
        end
    end,

    a_length_is_that_of_the_text = function()
        local answer
        local s <close> = server(function() return answer end)
        answer = {length = 5, body = "abcde"}
        t.eq(select(2, http.get(s.base, patience)), "abcde")
        for _, wrong in ipairs {{length = 4, body = "abcde"}, {length = 6, body = "abcde"},
            {length = 5}} do
            answer = wrong
            t.eq((http.get(s.base, patience)), 500, t.show(wrong))
        end
        answer = {length = 5} -- but to HEAD one need not make the body
        local response = assert(http.request {url = s.base, method = "HEAD", timeout = patience})
        t.eq({response.status, response.headers["content-length"]}, {200, "5"})
    end,

    the_length_of_a_request_likewise = function()
        local s <close> = server(function(request)
            return ("%s %s"):format(request.length, request:text())
        end)
        local function ask(length, body)
            return assert(http.request {url = s.base, length = length, body = body,
                timeout = patience}):text()
        end
        for _, given in ipairs(LENGTHS) do
            t.eq(ask(given, in_parts("ab", "cde")), "5 abcde", t.show(given))
            t.eq(ask(given, "abcde"), "5 abcde", t.show(given))
        end
        for _, wrong in ipairs(NO_LENGTHS) do
            t.raises("bad argument #1 to 'request' %(option 'length' must be", ask, wrong,
                in_parts "abcde")
            t.raises("option 'length' must be", ask, wrong, "abcde")
        end
        for _, wrong in ipairs {4, 6} do
            t.raises("option 'length' must be that of the body", ask, wrong, "abcde")
        end
        t.raises("option 'length' must be that of the body", ask, 5, nil)
    end,

    -- Everything else.

    what_is_wrong_with_an_answer_is_said_by_name_at_the_handlers_line = function()
        said_by_name("handler", "false")
        said_by_name("handler", "'clear'")
    end,

    whatever_stands_around_the_handler = function()
        local routes = [[route.new():use(require "mare.http.gzip".answers())
            :use(function(inner) return function(...) return inner(...) end end)
            :get("/", handler):handler()]]
        for _, served in ipairs {routes, "require 'mare.http.gzip'.answers {least = 0} (handler)",
            "require 'mare.http.rate'.limit(1e6)(handler)",
            "require 'mare.http.proxied'.trust {} (handler)"} do
            said_by_name(served, "false")
        end
        said_by_name(routes, "'clear'")
    end,

    what_is_answered_now_is_blamed_on_who_answers = function()
        local told
        local s <close> = server(function(request)
            local ok, err = pcall(function() request:answer {bdy = "x"} end)
            told = not ok and err
            return "can still be answered"
        end)
        t.eq(select(2, http.get(s.base, patience)), "can still be answered")
        t.ok(told:find "_answers.lua:%d+: bad argument #1 to 'answer' %(unknown field 'bdy'%)",
            told)
    end,

    what_is_right_is_sent = function()
        local answer
        local s <close> = server(function() return answer end)
        for _, case in ipairs {
            {"text", "200 text"}, {42, "200 42"}, {{body = 42}, "200 42"}, {{}, "200 "},
            {{status = 201.0, body = "x"}, "201 x"}, {{status = 599, body = "x"}, "599 x"},
            {{status = 200, headers = {["x-a"] = 1, ["x-b"] = {"a", 2}}, body = "x"}, "200 x"},
            {setmetatable({body = "x"}, {__name = "mine"}), "200 x"},
        } do
            answer = case[1]
            local status, text = http.get(s.base, patience)
            t.eq(("%d %s"):format(status, text), case[2])
        end
    end,

    what_waits_for_a_slow_client_is_kept = function()
        -- Garbage is collected, and its memory used again, while the server sees that the client is
        -- slow: what is still to be sent must not be among it.
        local count, other = 0
        local function text(i) return ("%09d,"):format(i):rep(6000) end
        local meta = {__gc = function() other = ("x"):rep(#(other or text(0))) end}
        local before = collectgarbage "generational"
        local s <close> = server(function(request)
            request.stream:option("send_buffer", 4096)
            count = count + 1
            collectgarbage "stop"
            setmetatable({}, meta)
            local body = text(count)
            collectgarbage "restart" -- so that it comes with the next new value
            return body
        end)
        for round = 0, 4 do
            local stream <close> = assert(net.connect("127.0.0.1", s.port, patience))
            stream:timeout(patience)
            stream:write(("GET / HTTP/1.1\r\nHost: a\r\n\r\n"):rep(5))
            mare.sleep(0.002)
            for i = 1, 5 do
                repeat until assert(stream:read "l") == ""
                t.ok(stream:read(60000) == text(5 * round + i), "the answer is another")
            end
        end
        collectgarbage(before)
    end,

    what_is_wrong_with_a_request_is_said_by_name = function()
        local function ask(what)
            what.url = what.url or "http://127.0.0.1:1/"
            return (http.request(what))
        end
        for _, case in ipairs {
            {{headers = {["a b"] = "c"}}, "header 'a b' has a name that may not be sent"},
            {{headers = {a = "b\nc"}}, "header 'a' has a value that may not be sent"},
            {{headers = {Host = "b"}}, "header 'Host' is written by the module itself"},
            {{headers = {a = {}, b = true}}, "header 'b' must be a string or a number"},
            {{headers = "a: b"}, "headers must be a table, not a string"},
            {{method = "GET /x"}, "option 'method' must be a word"},
            {{method = 5}, "option 'method' must be a word"},
            {{body = true}, "option 'body' must be a string"},
        } do
            t.raises("test_http_answers.lua:%d+: bad argument #1 to 'request' %(" .. case[2], ask,
                case[1])
        end
        t.raises("bad argument #1 to 'request' %(table expected, got no value%)", http.request)
    end,
}
