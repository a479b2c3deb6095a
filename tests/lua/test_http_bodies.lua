-- SPDX-License-Identifier: MIT
-- Bodies that come from somewhere: functions that end as a read does, files, streams, what another
-- server answers. However it went, what was given to be sent is closed.
local mare, t = require "mare", require "t"
local net, http, file = require "mare.net", require "mare.http", require "mare.file"
local tls = require "mare.tls"
local patience = t.patience
local TEXT = ("0123456789"):rep(20000) -- more than is read at once

-- A server with a handler; what it logs of requests that did not go well is in `failed`.
local function server(handler)
    local listener = assert(net.listen("127.0.0.1", 0))
    local s = {failed = mare.channel(10)}
    mare.go(http.serve, listener, handler, {limits = {body = 1 << 30},
        log = function(_, status, message) if message then s.failed:send(status, message) end end})
    local _, port = listener:address()
    s.base, s.port = "http://127.0.0.1:" .. port .. "/", port
    return setmetatable(s, {__close = function() listener:close() end})
end

-- A stream from which these bytes can be read, up to its end; with `cut`, it is reset then.
local function stream_of(bytes, cut)
    local listener <close> = assert(net.listen("127.0.0.1", 0))
    local stream = assert(net.connect(listener:address()))
    local other = assert(listener:accept(patience))
    if cut then stream:write "unread" end
    mare.go(function()
        local _ <close> = other
        if cut then mare.select({other}, patience) end -- to close it now is to reset it
        other:write(bytes)
    end)
    return stream
end

local function in_file(text, ...)
    local name = os.tmpname()
    assert(file.write(name, text))
    local opened = assert(file.open(name, ...))
    return opened, setmetatable({name = name}, {__close = function() os.remove(name) end})
end

-- By this side: to be at its end is another thing.
local function was_closed(object)
    local _, message, code = object:read()
    return code == "closed" and message:find "is closed$" ~= nil
end

local function is_closed(object) t.reaches(function() return was_closed(object) end, "its end") end

-- Asks with a client that keeps its connection, twice: the body, and how its end was known.
local function body_of(s, method)
    local client <close> = http.client {timeout = patience, limits = {body = 1 << 30}}
    for turn = 1, 2 do
        local response = assert(client:request {url = s.base, method = method})
        local text = assert(response:text())
        t.eq({response.status, #client.pool.unused}, {200, 1})
        if turn == 2 then return text, response.headers["content-length"] end
    end
end

-- Calls f with a listener, its URL and the certificate that its clients trust; then so over TLS.
local function plain_and_secure(f)
    local certificate, key = tls.selfsigned "localhost"
    for scheme, listen in pairs {http = net.listen, https = function(host, port)
        return tls.listen(host, port, {certificate = certificate, key = key})
    end} do
        local listener <close> = assert(listen("127.0.0.1", 0))
        f(listener, ("%s://localhost:%d/"):format(scheme, (select(2, listener:address()))),
            certificate)
    end
end

return {
    -- Functions.

    a_function_may_end_as_a_read_does = function()
        local s <close> = server(function()
            local parts = {"one,", "two"}
            return {body = function()
                local part = table.remove(parts, 1)
                if part then return part end
                return nil, "there is no more", "closed"
            end}
        end)
        t.eq({body_of(s)}, {"one,two"})
    end,

    as_the_reads_of_files_and_streams_do = function()
        local opened, named <close> = in_file(TEXT)
        local s <close> = server(function(request)
            local stream = stream_of(TEXT)
            opened:seek "set"
            return {body = function()
                if request.path == "/file" then return opened:read(65536) end
                return stream:read()
            end}
        end)
        local base = s.base
        for _, path in ipairs {"file", "stream"} do
            s.base = base .. path
            t.ok(body_of(s) == TEXT, path)
        end
        t.ok(named)
    end,

    another_end_is_a_failure = function()
        local message, code, length
        local s <close> = server(function()
            local parts = {"one", "two"}
            return {length = length, body = function()
                local part = table.remove(parts, 1)
                if part then return part end
                return nil, message, code
            end}
        end)
        for _, how in ipairs {{"it is broken"}, {"it is broken", "io"}, {"slow", "timeout"},
            {"it was cut short", "badmsg"}, {"", "cancelled"}, {"closed", "closed", 7}} do
            message, code, length = table.unpack(how)
            t.fails("badmsg", http.get(s.base, patience))
            t.eq(s.failed:receive(patience), 200)
        end
    end,

    a_part_is_a_string = function()
        local part
        local s <close> = server(function() return {body = function() return part end} end)
        for _, wrong in ipairs {5, true, {}} do
            part = wrong
            t.fails("badmsg", http.get(s.base, patience))
            local _, message = s.failed:receive(patience)
            t.ok(message:find "a part of a body must be a string, not a ", message)
        end
    end,

    -- Files.

    a_file_is_a_body_with_its_length = function()
        local opened, path
        local s <close> = server(function()
            opened = assert(file.open(path))
            return {body = opened}
        end)
        for _, text in ipairs {"", "x", TEXT, TEXT:rep(20)} do
            local _, named <close> = in_file(text)
            path = named.name
            local got, length = body_of(s)
            t.ok(got == text, #got)
            t.eq(length, tostring(#text))
            is_closed(opened)
            local head, told = body_of(s, "HEAD")
            t.eq({head, told}, {"", tostring(#text)})
            is_closed(opened)
        end
    end,

    from_where_it_is_and_for_so_long = function()
        local _, named <close> = in_file "0123456789"
        local length
        local s <close> = server(function()
            local opened = assert(file.open(named.name))
            opened:read(3)
            return {body = opened, length = length}
        end)
        t.eq({body_of(s)}, {"3456789", "7"})
        length = 4
        t.eq({body_of(s)}, {"3456", "4"})
        length = 8 -- more than there is
        t.fails("badmsg", http.get(s.base, patience))
        t.eq({s.failed:receive(patience)}, {200, "the body is too short"})
    end,

    a_file_of_the_io_library_is_one_too = function()
        local _, named <close> = in_file(TEXT)
        local opened
        local s <close> = server(function()
            opened = assert(io.open(named.name))
            opened:read(10)
            return {body = opened}
        end)
        local got, length = body_of(s)
        t.ok(got == TEXT:sub(11))
        t.eq({length, io.type(opened)}, {tostring(#TEXT - 10), "closed file"})
    end,

    what_is_no_file_of_bytes_comes_in_chunks = function()
        local s <close> = server(function() return {body = assert(file.open "/dev/null")} end)
        t.eq({body_of(s)}, {""})
    end,

    a_path_is_enough = function()
        local _, named <close> = in_file(TEXT)
        local descriptors = t.descriptors(named.name)
        local s <close> = server(function() return {file = named.name} end)
        local got, length = body_of(s)
        t.ok(got == TEXT)
        t.eq(length, tostring(#TEXT))
        t.eq(select(2, body_of(s, "HEAD")), tostring(#TEXT))
        t.eq(t.descriptors(named.name), descriptors)
        os.remove(named.name)
        t.eq((http.get(s.base, patience)), 500) -- and the path is printed
        named.name = "/"
        t.eq((http.get(s.base, patience)), 500)
    end,

    -- Streams, and other messages.

    a_stream_is_a_body = function()
        local stream
        local s <close> = server(function()
            stream = stream_of(TEXT)
            return {body = stream}
        end)
        t.ok(body_of(s) == TEXT)
        is_closed(stream)
    end,

    one_that_was_reset_is_not_taken_for_whole = function()
        local s <close> = server(function() return {body = stream_of(TEXT, "cut")} end)
        t.fails("badmsg", http.get(s.base, patience))
        t.eq(s.failed:receive(patience), 200)
    end,

    so_much_of_a_stream = function()
        local s <close> = server(function() return {body = stream_of(TEXT), length = 100000} end)
        local got, length = body_of(s)
        t.ok(got == TEXT:sub(1, 100000))
        t.eq(length, "100000")
    end,

    what_another_server_answers_is_a_body = function()
        local cut
        local behind <close> = server(function(request)
            if request.path == "/" then return {body = stream_of(TEXT)} end
            return request:text()
        end)
        local s <close> = server(function(request)
            local url = behind.base .. (request.has_body and "echo" or "")
            cut = assert(http.request {url = url, body = request.has_body and request or nil,
                method = request.method, timeout = patience})
            return {body = cut}
        end)
        t.ok(body_of(s) == TEXT)
        is_closed(cut.stream)
        t.eq(assert(http.request {url = s.base, body = "there and back"}):text(), "there and back")
        local echo <close> = server(function(request) return {body = request} end)
        t.eq(http.request {url = echo.base, body = "x"}.status, 500) -- it has been skipped by then
    end,

    of_which_not_all_came_is_none = function()
        local cutting <close> = assert(net.listen("127.0.0.1", 0))
        mare.go(net.serve, cutting, function(stream)
            stream:read "l" -- and not the rest, so that the connection is reset
            stream:write "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"
        end)
        local url = "http://127.0.0.1:" .. select(2, cutting:address())
        local s <close> = server(function()
            return {body = assert(http.request {url = url, timeout = patience})}
        end)
        t.fails("badmsg", http.get(s.base, patience))
    end,

    -- However it goes.

    what_cannot_be_sent_is_closed = function()
        local opened, named <close> = in_file(TEXT)
        local answer
        local s <close> = server(function()
            opened = assert(file.open(named.name))
            answer.body = opened
            return answer
        end)
        for _, case in ipairs {{status = 204}, {status = 304}, {bdy = "x"}, {length = -1},
            {headers = {["a b"] = "c"}}, {file = named.name}} do
            answer = case
            http.get(s.base, patience)
            t.reaches(function() return was_closed(opened) end, t.show(case))
        end
    end,

    -- Who reads slowly makes the server wait: without a copy of what it is sent.
    a_large_text_is_not_copied = function()
        local large = ("0123456789abcdef"):rep(1 << 20)
        plain_and_secure(function(listener, url, certificate)
            local grown = mare.channel(1)
            mare.go(http.serve, listener, function(request)
                local before = collectgarbage "count"
                local part = request.path == "/parts" and large or nil
                local function finally() grown:send(collectgarbage "count" - before) end
                return {finally = finally, body = part and function()
                    local now = part
                    part = nil
                    return now
                end or large}
            end)
            for _, path in ipairs {"text", "parts"} do
                local reads = mare.spawn(function(address, trusted, seconds)
                    local response = assert(require "mare.http".request {url = address,
                        tls = {authorities = trusted}, limits = {body = 1 << 30},
                        timeout = seconds})
                    local got = 0
                    for more in function() return response:read() end do got = got + #more end
                    return got
                end, url .. path, certificate, patience)
                collectgarbage "stop"
                t.eq({reads:join(patience)}, {true, #large})
                collectgarbage "restart"
                local kilobytes = grown:receive(patience)
                t.ok(kilobytes < 1024, ("%s%s: %.0f KiB"):format(url, path, kilobytes))
            end
        end)
    end,

    -- An answer that is only a text, and of which C sends the beginning; the same connection twice.
    nor_is_one_that_needs_nothing_of_lua = function()
        local function text()
            local lines = {}
            for i = 1, 8192 do lines[i] = ("%d%s"):format(i, ("x"):rep(1000)) end
            return table.concat(lines, "\n")
        end
        local large = text()
        plain_and_secure(function(listener, url, certificate)
            mare.go(http.serve, listener, function(request)
                if request.path == "/text" then return large end
                return {status = 201, headers = {["x-before"] = "1"}, body = large}
            end, {http2 = false})
            local function read(address, trusted, seconds)
                local client <close> = require "mare.http".client {tls = {authorities = trusted},
                    limits = {body = 1 << 30}, timeout = seconds}
                local expected, count = text(), 0
                for _, path in ipairs {"text", "table", "text"} do
                    local response = assert(client:request {url = address .. path})
                    assert(response:text() == expected, "it is another text")
                    count = count + #client.pool.unused
                end
                return count
            end
            local reads = mare.spawn(read, url, certificate, patience)
            collectgarbage "stop"
            local before = collectgarbage "count"
            local ok, kept = reads:join(patience)
            local kilobytes = collectgarbage "count" - before
            collectgarbage "restart"
            t.eq({ok, kept}, {true, 3})
            t.ok(kilobytes < 1024, ("%s: %.0f KiB"):format(url, kilobytes))
        end)
    end,

    on_this_machine_little_of_it_is_kept_by_the_system = function()
        local large, little = ("x"):rep(1 << 20), 512 << 10
        local before, after = mare.channel(1), mare.channel(1)
        local listener <close> = assert(net.listen("127.0.0.1", 0))
        mare.go(http.serve, listener, function(request)
            local kept = request.stream:option "send_buffer"
            if request.path == "/after" then after:send(kept) return "" end
            before:send(kept)
            return large
        end)
        local url = ("http://127.0.0.1:%d/"):format((select(2, listener:address())))
        local client <close> = http.client {timeout = patience}
        t.eq(#select(2, assert(client:get(url))), #large)
        if before:receive(patience) <= little then t.skip "it keeps little anyhow" end
        assert(client:get(url .. "after"))
        t.ok(after:receive(patience) <= little)
    end,

    nor_that_of_a_request = function()
        local large = ("0123456789abcdef"):rep(1 << 20)
        local port = mare.channel(1)
        local reads = mare.spawn(function()
            local listener = assert(require "mare.net".listen("127.0.0.1", 0))
            port:send((select(2, listener:address())))
            require "mare.http".serve(listener, function(request)
                local got = 0
                for part in function() return request:read() end do got = got + #part end
                return tostring(got)
            end, {limits = {body = 1 << 30}})
        end)
        local url = "http://127.0.0.1:" .. port:receive(patience)
        collectgarbage "stop"
        local before = collectgarbage "count"
        t.eq(assert(http.request {url = url, body = large, timeout = patience}):text(),
            tostring(#large))
        local kilobytes = collectgarbage "count" - before
        collectgarbage "restart"
        reads:kill()
        t.ok(kilobytes < 1024, ("%.0f KiB"):format(kilobytes))
    end,

    -- Requests.

    a_request_can_send_them_too = function()
        local _, named <close> = in_file(TEXT)
        local s <close> = server(function(request)
            return ("%s %s"):format(request.length, request:text() == TEXT)
        end)
        local function ask(what)
            what.url, what.timeout = s.base, patience
            local response = assert(http.request(what))
            t.eq(response.status, 200)
            return response:text()
        end
        local opened, stream = assert(file.open(named.name)), stream_of(TEXT)
        t.eq(ask {body = opened}, "200000 true")
        t.eq(ask {body = stream}, "nil true")
        t.eq(ask {file = named.name}, "200000 true")
        t.eq(ask {body = stream_of(TEXT), length = #TEXT}, "200000 true")
        t.eq(ask {body = assert(io.open(named.name))}, "200000 true")
        is_closed(opened)
        is_closed(stream)
        t.fails("noname", http.request {url = s.base, file = named.name .. "/none"})
        opened = assert(file.open(named.name))
        t.fails("refused", http.request {url = "http://127.0.0.1:1/", body = opened})
        is_closed(opened)
        t.raises("option 'file' must be the path of a file", http.request,
            {url = s.base, file = true})
        t.raises("option 'file' must be without a body", http.request,
            {url = s.base, file = named.name, body = "x"})
    end,
}
