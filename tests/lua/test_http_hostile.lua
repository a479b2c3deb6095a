-- SPDX-License-Identifier: MIT
-- Who means no good: headers that are made to be read slowly, bodies made of crumbs; and handlers
-- that pull the rug from under the server while it answers for them.
local mare, t = require "mare", require "t"
local net, http, file = require "mare.net", require "mare.http", require "mare.file"
local cookie, form, events = require "mare.http.cookie", require "mare.http.form",
    require "mare.http.events"
local frames = require "frames2"

local ASK = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"

-- A server of a handler over a pair in memory, and the client's end; and what ended it.
local function serve(handler, options)
    local client, server = net.pair(1 << 16)
    local over = mare.channel(1)
    mare.go(function()
        over:send(pcall(http.handle, server, handler, options))
        pcall(server.close, server)
    end)
    return client, over
end

-- The next answer: its status and its body.
local function answer(client)
    local head = {}
    repeat
        local line = assert(client:read("l", t.patience))
        head[#head + 1] = line
    until line == ""
    local status, length = head[1]:match " (%d%d%d)", nil
    for _, line in ipairs(head) do
        length = length or line:lower():match "^content%-length: (%d+)"
    end
    length = tonumber(length or 0)
    return tonumber(status), length > 0 and assert(client:read(length, t.patience)) or ""
end

-- More than any pattern that is not linear comes to an end with.
local BLANKS <const> = "x" .. (" "):rep(1 << 20) .. "y"
local LETTERS <const> = ("x"):rep(1 << 20)

-- What `proxied` makes of these headers.
local function client_of(options, headers)
    local request = {peer = "10.0.0.1", host = "h", headers = headers,
        stream = {tls = function() end}}
    require "mare.http.proxied".trust({"10.0.0.0/8"}, options)(function() end)(request)
    return request.client, request.scheme
end

-- A message whose body comes in pieces of a byte, so many of them.
local function crumbs(count, at_end)
    return {headers = {}, next_part = function()
        count = count - 1
        if count >= 0 then return "x" end
        if at_end then at_end() end
    end, read = function(self) return self.next_part() end}
end

return {
    -- Each of these would take minutes, and nothing could end it.
    what_is_read_of_headers_takes_no_longer_than_they_are = function()
        t.eq(cookie.of {headers = {cookie = "a=" .. BLANKS .. "; b = 1 "}}, {a = BLANKS, b = "1"})
        t.eq(cookie.of {headers = {cookie = LETTERS}}, {})
        local _, lists = form.query {query = "a=" .. LETTERS}
        t.eq(#lists.a[1], #LETTERS)
        for _, said in ipairs {BLANKS, LETTERS, LETTERS .. ",y", BLANKS .. ",1.2.3.4 "} do
            local expected = said:find "1%.2" and "1.2.3.4" or "10.0.0.1"
            t.eq({client_of({}, {["x-forwarded-for"] = said, ["x-forwarded-proto"] = said})},
                {expected, "http"})
            t.eq({client_of({header = "forwarded"}, {forwarded = "for=" .. said .. ";" .. said})},
                {"10.0.0.1", "http"})
        end
        t.eq(require "mare._deflate".accept("permessage-deflate; x=" .. BLANKS), nil)
        local folder = assert(file.tempfolder())
        assert(file.write(folder .. "/a", "1"))
        for _, tags in ipairs {BLANKS, LETTERS, '"' .. LETTERS} do
            local got = require "mare.http.static".files(folder) {method = "GET", path = "/a",
                headers = {["if-none-match"] = tags, range = tags, ["if-range"] = tags}}
            t.eq(got.status, nil)
            got.body:close()
        end
        assert(file.remove(folder, {tree = true}))
        t.eq(require "mare.http.gzip".is_wanted {headers = {["accept-encoding"] =
            LETTERS .. ";" .. BLANKS}}, false)
    end,

    so_are_the_heads_of_parts = function()
        for _, about in ipairs {'name="a"; filename=' .. BLANKS, "name=a;" .. BLANKS, 'name="'
            .. LETTERS, (';name="'):rep(1 << 18), "name=a\r\nX: " .. BLANKS, "name=a;" .. LETTERS,
            'name=a; b="' .. ("\\"):rep(1 << 20)} do
            local text = "--XX\r\nContent-Disposition: form-data; " .. about
                .. "\r\n\r\n1\r\n--XX--"
            local next_part = assert(form.parts({headers = {["content-type"] =
                "multipart/form-data; boundary=XX"}, read = function()
                    local all = text
                    text = nil
                    return all
                end}, {head = 1 << 23}))
            local part, _, code = next_part()
            t.ok(part and #part.name < 8 or code == "badmsg", about:sub(1, 20))
        end
    end,

    parameters_are_read_as_the_rfc_has_them = function()
        local parameters = require "mare.http._text".parameters
        t.eq(parameters 'form-data; filename="; name=x; \\"y\\\\"; NAME = b ; c=;d=1;d=2;e',
            {filename = '; name=x; "y\\', name = "b", d = "1"})
        t.eq(parameters 'x; a="open; b=1', {})
        t.eq({parameters "", parameters ";", parameters ";;=1; =2"}, {{}, {}, {}})
    end,

    -- A slot for each crumb would be sixteen times as much.
    a_text_that_comes_in_crumbs_is_no_larger_for_that = function()
        local count, most = (1 << 18) // t.slow, 0
        local Message = require "mare.http._shared".Message
        collectgarbage()
        local before = collectgarbage "count"
        local function look() most = collectgarbage "count" - before end
        t.eq(#Message.text(crumbs(count, function()
            collectgarbage()
            look()
        end)), count)
        t.ok(most * 1024 < 6 * count, most)
    end,

    an_event_that_comes_in_crumbs_takes_no_longer_for_that = function()
        local next_event = events.read(crumbs((1 << 21) // t.slow), (1 << 20) // t.slow)
        t.fails("toobig", next_event())
    end,

    an_event_is_told_when_its_end_has_come = function()
        local asked, pieces = 0, {"data: a\r", "\r", "data: ", "b\r\n", "\r", "", "\ndata: c\r",
            "\n\r\ndata: d\n\r"}
        local next_event = events.read {read = function()
            asked = asked + 1
            return pieces[asked]
        end}
        t.eq(next_event(), {data = "a"})
        t.eq(asked, 2) -- though it may be half a line break
        t.eq(next_event(), {data = "b"})
        t.eq(asked, 5)
        t.eq({next_event(), next_event()}, {{data = "c"}, {data = "d"}})
        t.eq(next_event(), nil)
    end,

    -- What a handler returned is taken away while the server asks for the date, in Lua.
    a_hook_that_takes_the_answer_away = function()
        local met = 0
        local client <close> = serve(function(request)
            local response = {headers = {}, body = ("x"):rep(1000) .. request.path}
            local co = coroutine.running()
            debug.sethook(co, function()
                if not debug.getinfo(2, "S").source:find "_answer" then return end
                debug.sethook(co)
                response.body, met = nil, met + 1
                collectgarbage()
            end, "", 1)
            return response
        end)
        client:write(ASK)
        t.eq({answer(client)}, {200, ""})
        t.eq(met, 1)
    end,

    a_hook_that_closes_or_gives_away_the_stream = function()
        for _, how in ipairs {"close", "give"} do
            local client, over = serve(function(request)
                local co = coroutine.running()
                debug.sethook(co, function()
                    if not debug.getinfo(2, "S").source:find "_answer" then return end
                    debug.sethook(co)
                    if how == "close" then return request.stream:close() end
                    mare.spawn(function(stream) stream:write "mine" end, request.stream)
                end, "", 1)
                return "no"
            end)
            client:write(ASK)
            local said = client:read("a", t.patience)
            t.ok(said == "mine" or said == "" or not said, said)
            over:receive(t.patience)
        end
    end,

    a_stream_that_another_process_has_taken_is_its = function()
        local client, over = serve(function(request)
            request.taken = true
            mare.spawn(function(stream)
                stream:write(stream:read("l"), "\n")
                stream:close()
            end, request.stream)
        end)
        client:write(ASK)
        client:write "and now for something else\n"
        t.eq(client:read("l", t.patience), "and now for something else")
        t.eq(over:receive(t.patience), true)
    end,

    -- The fields of an answer call a function that ends the stream, or the session.
    fields_that_end_the_stream_they_are_for = function()
        for _, how in ipairs {"forget", "close"} do
            local client = frames.serve(function(request)
                return {headers = {x = setmetatable({}, {__len = function()
                    request.one.session[how](request.one.session, request.one.id)
                    collectgarbage()
                    return 0
                end})}, body = "text"}
            end, {log = function() end})
            client:write(frames.request(1))
            t.ok(frames.hear(client))
            client:close()
        end
    end,

    a_number_is_no_part_of_a_body = function()
        local told = mare.channel(1)
        local client = frames.serve(function(request)
            local one = request.one
            one.session:respond(one.id, 200, nil, nil, true)
            told:send(pcall(one.session.give, one.session, one.id, 12345, true))
            return "late"
        end)
        client:write(frames.request(1))
        t.eq((told:receive(t.patience)), false)
        client:close()
    end,

    -- It is sent from one process while another one gets it.
    a_file_that_is_given_away_while_it_is_sent = function()
        local folder = assert(file.tempfolder())
        assert(file.write(folder .. "/body", ("0123456789abcdef"):rep(1 << 20)))
        local listener = assert(net.listen("127.0.0.1", 0))
        local got, told = mare.channel(), mare.channel(1)
        local keeper = mare.spawn(function()
            local opened = got:receive()
            opened:close()
        end)
        mare.go(http.serve, listener, function()
            local opened = assert(file.open(folder .. "/body"))
            mare.go(function()
                mare.sleep(0.05)
                told:send(pcall(got.send, got, opened))
            end)
            return {body = opened}
        end, {log = function() end})
        local client = assert(net.connect(listener:address()))
        client:option("receive_buffer", 65536)
        client:write "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
        client:read(100, t.patience)
        t.ok(told:receive(t.patience) ~= nil)
        repeat until not client:read(nil, t.patience) -- cut off, or sent
        client:close()
        listener:close()
        keeper:kill()
        assert(file.remove(folder, {tree = true}))
    end,

    -- The server is told of the end of a body by who reads it; who reads on gets nothing of what
    -- the client asks for next.
    who_still_reads_a_body_when_it_is_answered_gets_no_other = function()
        local told = mare.channel(10)
        local client = serve(function(request)
            if request.path == "/next" then return request:text() .. "!" end
            mare.go(function()
                while true do
                    local part, _, code = request:read()
                    if not part then return told:send(code or "end") end
                    told:send(part)
                end
            end)
            mare.yield()
            return "done"
        end)
        client:write "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n"
        t.settle()
        client:write "abc"
        t.eq({answer(client)}, {200, "done"})
        client:write "POST /next HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n"
        t.settle()
        client:write "next"
        t.eq({answer(client)}, {200, "next!"})
        client:close()
        local said = {}
        repeat
            local one = told:receive(t.patience)
            said[#said + 1] = one
        until one ~= "abc"
        t.ok(#said <= 2 and said[#said] ~= nil, table.concat(said, " "))
    end,

    -- Whatever handlers do, their connection ends or goes on, and others are served.
    handlers_that_do_anything = function()
        local listener = assert(net.listen("127.0.0.1", 0))
        local what, logged = {}, 0
        function what.answers_twice(request)
            request:answer "one"
            request:answer "two"
            return "three"
        end
        function what.answers_late(request)
            mare.go(function()
                mare.sleep(0.02)
                pcall(request.answer, request, "late")
            end)
            return "early"
        end
        function what.closes(request) request.stream:close() return "x" end
        function what.shuts(request) request.stream:shutdown() return "x" end
        function what.writes(request) request.stream:write "no HTTP at all" return "x" end
        function what.reads(request) request.stream:read(nil, 0.01) return "x" end
        function what.wraps(request)
            return coroutine.wrap(function() coroutine.yield(request.path) end)()
        end
        function what.nests(request)
            http.handle(request.stream, function() return "inner" end, {idle_time = 0.01})
            return "outer"
        end
        function what.fails_in_body() return {body = function() error "in the body" end} end
        function what.fails_in_its_end() return {body = "x", finally = function() error "f" end} end
        function what.fails_in_close()
            return {body = function()
                local _ <close> = setmetatable({}, {__close = function() error "c" end})
                return nil
            end}
        end
        function what.waits_in_body()
            local n = 0
            return {body = function()
                mare.sleep(0.001)
                n = n + 1
                return n < 5 and "part" or nil
            end}
        end
        function what.is_its_own_body(request) return {body = request} end
        function what.is_the_request(request) return request end
        function what.is_a_number() return 5 end
        function what.is_a_loop()
            local loop = {}
            loop.headers, loop.body = loop, loop
            return loop
        end
        function what.has_many_headers()
            local headers = {}
            for i = 1, 1000 do headers["x" .. i] = "y" end
            return {headers = headers}
        end
        function what.lies_of_its_length() return {body = "abc", length = 5} end
        function what.gives_less() return {body = function() return nil end, length = 5} end
        function what.gives_more()
            return {body = function() return ("x"):rep(10) end, length = 5}
        end
        function what.gives_no_string() return {body = function() return {} end} end
        function what.raises_nothing() error() end
        function what.raises_a_table() error(setmetatable({}, {__tostring = error})) end
        -- Without the collector: a finalizer that Lua calls where the stack is full fails, and what
        -- it should have freed (of a connection before) is lost. So it is with any library in C.
        local function overflow() return overflow() .. "" end
        function what.overflows()
            collectgarbage "stop"
            return overflow()
        end
        function what.spoils_the_request(request)
            for key in pairs(request) do request[key] = nil end
            setmetatable(request, nil)
            return "spoilt"
        end
        function what.changes_the_request(request)
            request.method, request.minor, request.keep_alive = "CONNECT", "x", {}
            return "changed"
        end
        function what.cancels_itself() mare.go(function() end):cancel() return "x" end
        function what.kills_a_routine() coroutine.close(coroutine.create(print)) return "x" end
        function what.hooks()
            debug.sethook(function() error "hooked" end, "c")
            return "x"
        end
        function what.goes_on_when_gone(request)
            request.gone = true
            return "x"
        end
        mare.go(http.serve, listener, function(request)
            return what[request.path:sub(2)](request)
        end, {log = function() logged = logged + 1 end, message_time = 0.2, write_time = 1})
        what.hello = function()
            collectgarbage "restart"
            return "hello"
        end
        local _, port = listener:address()
        local stderr = io.stderr
        for name in pairs(what) do
            for _, close in ipairs {true, false} do
                local client = assert(net.connect("127.0.0.1", port, t.patience))
                client:write(("GET /%s HTTP/1.1\r\nHost: a\r\n\r\n"):format(name))
                if close then client:close() else client:read(nil, t.patience) end
                client:close()
            end
            t.eq(select(2, http.get(("http://127.0.0.1:%d/hello"):format(port), t.patience)),
                "hello", name)
        end
        t.eq(io.stderr, stderr)
        t.ok(logged > 0)
        listener:close()
    end,

    an_answer_that_cannot_be_read_is_a_500 = function()
        local odd = setmetatable({}, {__index = function() error "index" end})
        local client = serve(function() return odd end)
        client:write(ASK)
        t.eq((answer(client)), 500)
        local other = frames.serve(function() return odd end)
        other:write(frames.request(1))
        local _, head = frames.hear(other)
        t.eq(head.payload:byte(), 0x8e) -- ":status: 500" of RFC 7541's table
        client:close()
        other:close()
    end,

    a_handler_that_ends_its_process_takes_its_connections_along = function()
        local there = mare.channel(1)
        local server = mare.spawn({link = false}, function()
            local listener = assert(net.listen("127.0.0.1", 0))
            there:send((select(2, listener:address())))
            http.serve(listener, function() mare.self():kill() end)
        end)
        local port = there:receive(t.patience)
        local client <close> = assert(net.connect("127.0.0.1", port, t.patience))
        client:write(ASK)
        t.ok(not client:read(nil, t.patience))
        t.ok(not server:join(t.patience))
    end,
}
