-- SPDX-License-Identifier: MIT
-- The HTTP server and client: against each other, against bytes written by hand, against curl.
local mare, t, shell = require "mare", require "t", require "shell"
local net, http = require "mare.net", require "mare.http"
local patience = t.patience

-- A server in a process of its own, so that this one may block; its port and base URL, ended with
-- the variable's scope.
local function server(handler, options)
    local ready = mare.channel(1)
    local process = mare.spawn(function(f, o)
        local listener = assert(net.listen("127.0.0.1", 0))
        local _, port = listener:address()
        ready:send(port)
        http.serve(listener, f, o)
    end, handler, options)
    local port = ready:receive(patience)
    return setmetatable({port = port, base = "http://127.0.0.1:" .. port, process = process},
        {__close = function() process:kill() end})
end

local function connect(s)
    return assert(net.connect("127.0.0.1", s.port, patience)):timeout(patience)
end

-- Sends the bytes on a new connection, and returns all that comes back until it is closed.
local function answer(s, ...)
    local stream <close> = connect(s)
    stream:write(...)
    stream:shutdown()
    return stream:read "a"
end

local function status_of(text) return tonumber((text or ""):match "^HTTP/1%.1 (%d%d%d) ") end

local function body_of(text) return text:match "\r\n\r\n(.*)$" end

local function echo(request)
    return {headers = {["x-method"] = request.method, ["x-query"] = request.query},
        body = request:text()}
end

return {
    -- What is served.

    a_string_is_a_page = function()
        local s <close> = server(function() return "hello" end)
        local got = answer(s, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        t.eq(status_of(got), 200)
        t.eq(body_of(got), "hello")
        t.ok(got:find "\r\n[Cc]ontent%-[Ll]ength: 5\r\n", got)
        t.ok(got:find "\r\n[Dd]ate: %a%a%a, %d%d %a%a%a %d%d%d%d %d%d:%d%d:%d%d GMT\r\n", got)
    end,

    nothing_is_no_content = function()
        local s <close> = server(function() end)
        local got = answer(s, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        t.eq({status_of(got), body_of(got)}, {204, ""})
    end,

    a_head_has_the_length_and_no_body = function()
        local s <close> = server(function() return "hello" end)
        local got = answer(s, "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n")
        t.eq({status_of(got), body_of(got)}, {200, ""})
        t.ok(got:find "[Cc]ontent%-[Ll]ength: 5", got)
    end,

    requests_in_one_write_are_answered_in_order = function()
        local s <close> = server(function(r) return r.path end)
        local got = answer(s, "GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n"
            .. "GET /3 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        local bodies = {}
        for path in got:gmatch "\r\n\r\n(/%d)" do bodies[#bodies + 1] = path end
        t.eq(bodies, {"/1", "/2", "/3"})
    end,

    one_who_asks_without_pause_leaves_others_their_turns = function()
        local listener <close> = assert(net.listen("127.0.0.1", 0))
        local stream <close> = assert(net.connect(listener:address()))
        stream:write(("GET / HTTP/1.1\r\nHost: a\r\n\r\n"):rep(1000))
        stream:shutdown()
        local other = assert(listener:accept(patience))
        local serving, turns = mare.go(http.handle, other, function() end), 0
        while serving:status() == "alive" do
            mare.yield()
            turns = turns + 1
        end
        other:close()
        local _, answers = stream:read "a":gsub("HTTP/1.1 204 ", "")
        t.eq(answers, 1000)
        t.ok(turns >= 8, turns)
    end,

    a_connection_is_kept = function()
        local s <close> = server(function(r) return r.path end)
        local stream <close> = connect(s)
        for i = 1, 3 do
            stream:write("GET /", i, " HTTP/1.1\r\nHost: a\r\n\r\n")
            repeat local line = stream:read "l" until line == ""
            t.eq(stream:read(2), "/" .. i)
        end
    end,

    one_connection_alone_is_closed_in_the_end = function()
        local here, there = net.pair()
        mare.go(http.handle, here, function() return "one" end)
        there:timeout(patience):write "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
        t.ok(assert(there:read "a"):find "\r\n\r\none$")
    end,

    statuses_without_a_body_have_none = function()
        local statuses = {204, 205, 304, 200}
        for _, body in ipairs {"text", function() error "nobody asks" end} do
            local s <close> = server(function(request)
                local status = statuses[tonumber(request.path:sub(2))]
                return {status = status, body = status == 200 and "end" or body}
            end)
            local asked, heads = {}, {}
            for i in ipairs(statuses) do
                asked[i] = ("GET /%d HTTP/1.1\r\nHost: a\r\n\r\n"):format(i)
            end
            local said = assert(answer(s, table.concat(asked)))
            for head, rest in said:gmatch "HTTP/1.1 (%d+)[^\r]*\r\n(.-)\r\n\r\n" do
                heads[#heads + 1] = head .. (rest:match "Content%-Length: (%d+)" or "")
            end
            t.eq(heads, {"204", "2050", "304", "2003"})
            t.ok(not said:find "text" and said:find "\r\n\r\nend$", said)
        end
    end,

    an_old_client_is_closed_on = function()
        local s <close> = server(function() return "x" end)
        local stream <close> = connect(s)
        stream:write "GET / HTTP/1.0\r\n\r\n"
        t.ok(stream:read "a":find "x$") -- comes to its end, though this side has not closed
    end,

    a_function_is_sent_in_chunks = function()
        local s <close> = server(function()
            local n = 0
            return {body = function()
                n = n + 1
                mare.sleep(0.001)
                if n <= 3 then return ("%d,"):format(n) end
            end}
        end)
        local got = answer(s, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        t.eq(body_of(got), "2\r\n1,\r\n2\r\n2,\r\n2\r\n3,\r\n0\r\n\r\n")
        got = answer(s, "GET / HTTP/1.0\r\n\r\n") -- which knows no chunks
        t.eq(body_of(got), "1,2,3,")
    end,

    a_body_in_chunks_is_read = function()
        local s <close> = server(echo)
        local got = answer(s, "PUT /x?a=b HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
            .. "Connection: close\r\n\r\n3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n")
        t.eq(body_of(got), "abcdefg")
        t.ok(got:find "x%-method: PUT\r\n" and got:find "x%-query: a=b\r\n", got)
    end,

    a_body_that_nobody_reads_is_skipped = function()
        local s <close> = server(function(r) return r.path end)
        local got = answer(s, "POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
            "GET /2 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        t.ok(got:find "/1HTTP/1.1 200" and got:find "/2$", got)
    end,

    -- An answer in parts may be made of the body of its request, while that comes. Whoever sends it
    -- reads at the same time, or both sides could wait for each other.
    an_answer_may_be_made_of_what_comes = function()
        local s <close> = server(function(r)
            if r.path == "/unread" then return {body = function() end} end
            return {body = function()
                local part, message, code = r:read()
                return part and part:upper(), message, code
            end}
        end, {limits = {body = 1 << 30}})
        local stream <close> = connect(s)
        local function send(path, head, ...)
            stream:write("POST ", path, " HTTP/1.1\r\nHost: a\r\n", head, "\r\n", ...)
        end
        local function receive() -- in chunks
            t.eq(stream:read "l", "HTTP/1.1 200 OK")
            repeat local line = stream:read "l" until line == "" or not line
            local parts = {}
            while true do
                local size = tonumber(assert(stream:read "l"), 16)
                if size > 0 then parts[#parts + 1] = stream:read(size) end
                t.eq(stream:read "l", "")
                if size == 0 then return table.concat(parts) end
            end
        end
        for _, size in ipairs {5, 100000, 16 << 20} do
            for _, framed in ipairs {true, false} do
                local text = ("x"):rep(size)
                local sends = mare.go(function()
                    if framed then
                        send("/", ("Content-Length: %d\r\n"):format(size), text)
                    else
                        send("/", "Transfer-Encoding: chunked\r\n", ("%x\r\n"):format(size), text,
                            "\r\n0\r\n\r\n")
                    end
                end)
                local got = receive()
                t.eq({#got, got == ("X"):rep(size)}, {size, true})
                sends:join(patience)
            end
        end
        send("/unread", "Content-Length: 5\r\n", "hello") -- and the connection goes on
        t.eq(receive(), "")
    end,

    one_who_expects_a_word_gets_it = function()
        local s <close> = server(echo)
        local stream <close> = connect(s)
        stream:write("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n",
            "Connection: close\r\n\r\n")
        t.eq(stream:read "l", "HTTP/1.1 100 Continue")
        t.eq(stream:read "l", "")
        stream:write "ok"
        t.ok(stream:read "a":find "\r\n\r\nok$")
    end,

    nobody_gets_it_in_the_middle_of_an_answer = function()
        local s <close> = server(function(r)
            return {headers = {["x-a"] = "1"}, body = function() return r:read() end}
        end)
        local stream <close> = connect(s)
        stream:write("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n",
            "Expect: 100-continue\r\n\r\n")
        local head = {}
        repeat head[#head + 1] = stream:read "l" until head[#head] == ""
        local all = table.concat(head, "\n")
        t.ok(head[1]:find "^HTTP/1.1 200 " and all:find "Connection: close", all)
        stream:write "ok"
        t.eq(stream:read "a", "2\r\nok\r\n0\r\n\r\n")
    end,

    headers_have_names_in_lower_case_and_are_joined = function()
        local s <close> = server(function(r)
            return r.headers["x-a"] .. "|" .. tostring(r.headers["X-A"]) .. "|" .. r.host
        end)
        local got = answer(s, "GET / HTTP/1.1\r\nHost: there\r\nX-A: 1\r\nx-a: 2\r\n",
            "Connection: close\r\n\r\n")
        t.eq(body_of(got), "1, 2|nil|there")
    end,

    several_headers_of_a_name_are_sent = function()
        local s <close> = server(function()
            return {headers = {["set-cookie"] = {"a=1", "b=2"}}, body = ""}
        end)
        local got = answer(s, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        t.ok(got:find "set%-cookie: a=1\r\n" and got:find "set%-cookie: b=2\r\n", got)
    end,

    -- What goes wrong.

    a_handler_that_fails_is_a_500_and_the_server_goes_on = function()
        local got = shell.lua [[
            local mare, net, http = require "mare", require "mare.net", require "mare.http"
            local listener = assert(net.listen("127.0.0.1", 0))
            local _, port = listener:address()
            mare.go(http.serve, listener, function(r)
                if r.path == "/bad" then error "on purpose" end
                if r.path == "/worse" then error {code = 5} end
                return "fine"
            end)
            local base = "http://127.0.0.1:" .. port
            print((http.get(base .. "/bad")))
            print((http.get(base .. "/worse")))
            print(select(2, http.get(base .. "/good")) == "fine")
            listener:close()
        ]]
        t.eq({got.out, got.code}, {"500\n500\ntrue\n", 0})
        t.ok(got.err:find "on purpose", got.err)
        t.ok(got.err:find("{code = 5}", 1, true), got.err)
    end,

    a_header_that_would_break_out_is_an_error = function()
        local s <close> = server(function(r)
            return {headers = {["x-a"] = "1\r\nx-b: 2"}, body = r.path}
        end)
        local got = answer(s, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        t.eq(status_of(got), 500)
        t.ok(not got:find "x%-b", got)
    end,

    bad_requests_are_refused_and_the_others_served = function()
        local s <close> = server(function() return "fine" end, {limits = {body = 100}})
        local long = ("a"):rep(9000)
        for request, status in pairs {
            ["nonsense\r\n\r\n"] = 400,
            ["GET / HTTP/1.1\r\n\r\n"] = 400, -- no Host: RFC 9112 section 3.2
            ["GET / HTTP/2.0\r\nHost: a\r\n\r\n"] = 505,
            ["GET /" .. long .. " HTTP/1.1\r\nHost: a\r\n\r\n"] = 414,
            ["GET / HTTP/1.1\r\nHost: a\r\nX: " .. long .. "\r\n\r\n"] = 431,
            ["GET / HTTP/1.1\r\nHost: a\r\n" .. ("X: y\r\n"):rep(200) .. "\r\n"] = 431,
            ["POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n"
                .. "ab"] = 400,
            ["POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n"
                .. "0\r\n\r\n"] = 400,
            ["POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: magic, chunked\r\n\r\n"] = 501,
            ["GET / HTTP/1.1\r\nHost : a\r\n\r\n"] = 400,
        } do
            t.eq(status_of(answer(s, request)), status, request:sub(1, 60))
            t.eq(body_of(answer(s, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")), "fine")
        end
    end,

    -- RFC 9112 section 3.2: forms of a target that a handler must have asked for.
    only_paths_reach_a_handler_that_asked_for_no_other_target = function()
        local s <close> = server(function(r) return "reached by " .. r.path end)
        for line, status in pairs {
            ["CONNECT example.org:443"] = 501,
            ["OPTIONS *"] = 501,
            ["GET http://example.org/x"] = 421,
            ["GET http://a/x"] = 421,
            ["OPTIONS http://example.org"] = 421,
            ["GET evil://x/"] = 421,
        } do
            local got = answer(s, line, " HTTP/1.1\r\nHost: a\r\n\r\n",
                "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            t.eq({status_of(got), got:find "reached" ~= nil}, {status, false}, line)
        end
        t.eq(body_of(answer(s, "OPTIONS /x HTTP/1.1\r\nHost: a\r\n\r\n")), "reached by /x")
    end,

    who_asks_for_them_gets_other_targets = function()
        local s <close> = server(function(r)
            return ("%s|%s|%s|%s"):format(r.method, r.target, r.path, r.host)
        end, {targets = {"absolute", "asterisk"}})
        for line, text in pairs {
            ["GET http://example.org/x?y"] = "GET|http://example.org/x?y|/x|example.org",
            ["OPTIONS *"] = "OPTIONS|*|*|a",
            ["GET /x"] = "GET|/x|/x|a",
        } do
            t.eq(body_of(answer(s, line, " HTTP/1.1\r\nHost: a\r\n\r\n")), text)
        end
        t.eq(status_of(answer(s, "CONNECT b:1 HTTP/1.1\r\nHost: a\r\n\r\n")), 501)
    end,

    a_handler_can_make_a_tunnel = function()
        local s <close> = server(function(r)
            if r.host == "nowhere:1" then return {status = 502} end
            if r.host == "wrong:1" then return "fine" end -- 2xx: the client takes it for a tunnel
            r.taken = true
            r.stream:write "HTTP/1.1 200 OK\r\n\r\n"
            r.stream:write(r.host, " says ", r.stream:read "a")
        end, {targets = {"authority"}})
        local function connect_to(host)
            return answer(s, "CONNECT ", host, " HTTP/1.1\r\nHost: ", host, "\r\n\r\n", "hello")
        end
        t.eq(connect_to "there:443", "HTTP/1.1 200 OK\r\n\r\nthere:443 says hello")
        t.eq(status_of(connect_to "nowhere:1"), 502)
        t.eq(status_of(connect_to "wrong:1"), 500)
        t.eq(status_of(answer(s, "GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n")), 421)
    end,

    methods_of_ones_own_can_be_allowed = function()
        local function handler(r) return r.method .. " " .. r:text() end
        local function ask(s, method)
            return answer(s, method, " / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi")
        end
        local usual <close> = server(handler)
        local s <close> = server(handler, {methods = {"QUERY", "BREW-TEA"}})
        t.eq(status_of(ask(usual, "QUERY")), 501)
        for _, method in ipairs {"QUERY", "BREW-TEA", "PUT"} do
            t.eq(body_of(ask(s, method)), method .. " hi")
        end
        for _, method in ipairs {"QUER", "QUERYX", "query", "BREW", "TEA", "QUERY BREW-TEA"} do
            t.ok(status_of(ask(s, method)) ~= 200, method)
        end
        local response = assert(http.request {url = s.base, method = "QUERY", body = "hi",
            timeout = patience})
        t.eq(response:text(), "QUERY hi")
    end,

    a_body_beyond_the_limit_is_told_to_the_handler = function()
        local s <close> = server(function(r)
            local text, _, code = r:text()
            return {status = text and 200 or 413, body = tostring(code)}
        end, {limits = {body = 10}})
        local got = answer(s, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
            "ff\r\n" .. ("x"):rep(255) .. "\r\n0\r\n\r\n")
        t.eq({status_of(got), body_of(got)}, {413, "toobig"})
    end,

    a_body_that_is_announced_beyond_the_limit_is_refused = function()
        local s <close> = server(function() error "was called" end, {limits = {body = 10}})
        local head = "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: "
        t.eq(status_of(answer(s, head, "11\r\n\r\n")), 413)
        t.eq(status_of(answer(s, head, "11\r\nExpect: 100-continue\r\n\r\n")), 413)
        local usual <close> = server(function() error "was called" end)
        t.eq(status_of(answer(usual, head, "1048577\r\n\r\n")), 413)
        local generous <close> = server(function() error "was called" end,
            {limits = {body = math.maxinteger}})
        for _, length in ipairs {"9223372036854775808", "9223372036854775813",
            "18446744073709550000"} do -- of 2^63 and more no limit is large enough
            t.eq(status_of(answer(usual, head, length, "\r\n\r\n")), 413, length)
            t.eq(status_of(answer(generous, head, length, "\r\n\r\n")), 413, length)
        end
    end,

    a_handler_that_does_not_look_answers_a_bad_body_all_the_same = function()
        local function handler(r)
            if not r:text() then return nil end
            return "fine"
        end
        local s <close> = server(handler, {limits = {body = 10}, message_time = patience})
        local head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
        t.eq(status_of(answer(s, head, "b\r\n" .. ("x"):rep(11) .. "\r\n0\r\n\r\n")), 413)
        t.eq(status_of(answer(s, head, "nonsense\r\n")), 400)
        t.eq(status_of(answer(s, head, "a\r\n" .. ("x"):rep(10) .. "\r\n0\r\n\r\n")), 200)
        local hasty <close> = server(handler, {message_time = 0.1})
        local stream <close> = connect(hasty)
        stream:write(head, "5\r\nxx")
        t.eq(status_of(stream:read "a"), 408)
    end,

    a_client_that_trickles_is_dropped = function()
        local s <close> = server(function() return "fine" end, {message_time = 0.1})
        local stream <close> = connect(s)
        stream:write "GET / HT"
        local got = stream:read "a"
        t.eq(status_of(got), 408)
    end,

    a_body_that_trickles_is_given_up = function()
        local s <close> = server(function(r) return r:text() end,
            {message_time = 0.2, least_rate = 1000})
        local stream <close> = connect(s)
        stream:write "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n"
        local sent, deadline = 0, mare.deadline(t.patience)
        repeat -- each byte comes in time, but all of them would take hours
            mare.sleep(0.02)
            sent = sent + 1
            local gone = stream:read(nil, 0)
        until gone or not stream:write "x" or deadline:left() == 0
        t.ok(deadline:left() > 0, "still read after " .. sent .. " bytes")
    end,

    an_option_that_there_is_not_is_refused = function()
        local listener <close> = assert(net.listen("127.0.0.1", 0))
        local function handler() return "fine" end
        t.raises("test_http.lua:%d+: bad argument #3 to 'serve' %(unknown option 'idle'%)",
            function() http.serve(listener, handler, {idle = 3}) end)
        t.raises("unknown option 'bodies'", http.serve, listener, handler, {limits = {bodies = 3}})
        t.raises("test_http.lua:%d+: bad argument #1 to 'request' %(unknown option 'header'%)",
            function() return (http.request {url = "http://127.0.0.1:1/", header = {}}) end)
        t.raises("unknown option 'idle'", http.client, {idle = 1})
    end,

    a_value_that_an_option_cannot_have_is_refused_before_anybody_comes = function()
        local listener <close> = assert(net.listen("127.0.0.1", 0))
        local function serve(options) http.serve(listener, function() end, options) end
        t.raises("test_http.lua:%d+: bad argument #3 to 'serve' %(option 'idle_time' must be",
            serve, {idle_time = "3"})
        for _, name in ipairs {"message_time", "write_time", "end_time", "least_rate"} do
            t.raises(("option '%s' must be a number"):format(name), serve, {[name] = -1})
        end
        t.raises("option 'log' must be a function, or false", serve, {log = true})
        t.raises("option 'failed' must be a function, or false", serve, {failed = "print"})
        t.raises("option 'cancel' must be true or false", serve, {cancel = "no"})
        t.raises("limit 'body' must be an integer", serve, {limits = {body = "large"}})
        for _, wrong in ipairs {"QUERY", {"A B"}, {""}, {("A"):rep(25)}, {1}, {"QUERY\r"}} do
            t.raises("option 'methods' must be a list of methods", serve, {methods = wrong})
        end
        for _, wrong in ipairs {"absolute", {"absolut"}, {true}} do
            t.raises("option 'targets' must be a list of", serve, {targets = wrong})
        end
    end,

    a_silent_connection_is_closed = function()
        local s <close> = server(function() return "fine" end, {idle_time = 0.05})
        local stream <close> = connect(s)
        t.eq(stream:read "a", "")
    end,

    one_who_leaves_in_the_middle_is_forgotten = function()
        local s <close> = server(function(r) return r:text() or "cut short" end)
        for _, part in ipairs {"GE", "GET / HTTP/1.1\r\nHo",
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc"} do
            connect(s):write(part)
        end
        collectgarbage() -- closes them
        t.eq(status_of(answer(s, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")), 200)
    end,

    -- The client.

    the_client_reads_all_kinds_of_bodies = function()
        local s <close> = server(function(r)
            if r.path == "/chunks" then
                local n = 0
                return {body = function() n = n + 1 if n < 4 then return ("x"):rep(n) end end}
            end
            return {status = 201, headers = {["x-a"] = "b"}, body = r:text()}
        end)
        t.eq(select(2, http.get(s.base .. "/chunks", patience)), "xxxxxx")
        local r = assert(http.request {url = s.base .. "/", body = ("y"):rep(50000),
            timeout = patience})
        t.eq({r.status, r.reason, r.headers["x-a"], #r:text()}, {201, "Created", "b", 50000})
        local parts = {"one ", "two"}
        r = assert(http.request {url = s.base .. "/", timeout = patience,
            body = function() return table.remove(parts, 1) end})
        t.eq(r:text(), "one two")
    end,

    the_client_says_what_went_wrong = function()
        t.fails("refused", http.get("http://127.0.0.1:1/", patience))
        t.fails("noname", http.get("http://no.such.name.invalid/", patience))
        t.raises("URL expected", http.get, "ftp://a/")
        local client <close> = http.client {redirects = 1}
        for _, get in ipairs {http.get, function(...) return client:get(...) end} do
            local here = "test_http.lua:%d+: bad argument #1 to 'get' "
            t.raises(here .. "%(an http:// or", function() return (get "localhost:80") end)
            t.raises(here .. "%(unknown option 'bdy'", function()
                return (get {url = "http://a/", bdy = 1})
            end)
        end
        local listener = assert(net.listen("127.0.0.1", 0))
        local _, port = listener:address()
        local url = "http://127.0.0.1:" .. port .. "/"
        t.fails("timeout", http.get(url, 0.05))
        local liar = mare.spawn(function(l)
            while true do
                local c <close> = l:accept()
                c:read "l"
                c:write "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"
            end
        end, listener)
        local status, message, code = http.get(url, patience)
        t.eq({status, code}, {nil, "badmsg"}, message)
        liar:kill()
    end,

    -- curl.

    curl_is_content = function()
        t.needs_preemption() -- os.execute blocks a worker, which the tick must tell
        local s <close> = server(echo)
        local got = shell.run("curl -sS --max-time 20 -d hello " .. s.base .. "/ "
            .. s.base .. "/two?q=1")
        t.eq({got.out, got.err, got.code}, {"hellohello", "", 0})
        got = shell.run("head -c 300000 /dev/zero | curl -sS --max-time 20 -H 'Transfer-Encoding: "
            .. "chunked' -T - " .. s.base .. "/big | wc -c")
        t.eq({got.out, got.err}, {"300000\n", ""})
    end,
}
