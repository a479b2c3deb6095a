-- SPDX-License-Identifier: MIT
-- Files as bodies that are sent without being read: the same bytes as ever, also when the client is
-- slow or goes, and when the file changes meanwhile.
local mare, t = require "mare", require "t"
local net, http, tls, file = require "mare.net", require "mare.http", require "mare.tls",
    require "mare.file"
local raw, static = require "mare._http", require "mare.http.static"
local sockets = require "sockets"

-- So many bytes, no two stretches alike.
local function bytes(size)
    local parts = {}
    for i = 1, size // 4096 + 1 do parts[i] = string.pack(">I4", i):rep(1024) end
    return table.concat(parts):sub(1, size)
end

-- A file with a text, in a folder of its own, to the end of the scope.
local function stored(text)
    local folder = assert(file.tempfolder())
    assert(file.write(folder .. "/body", text))
    return setmetatable({path = folder .. "/body", folder = folder}, {__close = function()
        os.remove(folder .. "/body") -- which can be done on the way out of an error, too
        os.remove(folder)
    end})
end

-- Counts what is sent without being read, to the end of the scope.
local function counted()
    local inner, count = raw.send_file, {sent = 0}
    function raw.send_file(...)
        local sent, message, code = inner(...)
        count.sent = count.sent + (sent or 0)
        return sent, message, code
    end
    return setmetatable(count, {__close = function() raw.send_file = inner end})
end

-- A server, over TLS if it has options for that: its listener, and its URL.
local function serve(handler, secure, options)
    local listener = secure and assert(tls.listen("127.0.0.1", 0, secure))
        or assert(net.listen("127.0.0.1", 0))
    mare.go(http.serve, listener, handler, options)
    local _, port = listener:address()
    return listener, ("http%s://127.0.0.1:%d/"):format(secure and "s" or "", port), port
end

-- A connection that has asked for something, takes little at a time, and has read the head. Unless
-- it is `kept`, it ends with the answer.
local function ask(port, kept)
    local stream = assert(net.connect("127.0.0.1", port, t.patience))
    stream:option("receive_buffer", 65536)
    assert(stream:write(("GET / HTTP/1.1\r\nhost: x\r\n%s\r\n"):format(
        kept and "" or "connection: close\r\n")))
    repeat local line = assert(stream:read("l", t.patience)) until line == ""
    return stream
end

-- More than the system takes while nobody reads.
local MUCH <const> = 8 << 20

-- Whether the system can say what of a file it has in memory: else it is read, as over TLS.
local function needs_memory(path)
    local near, far = sockets.pair()
    local f <close> = assert(file.open(path))
    local sent = raw.send_file(near, f, 1)
    near:close()
    far:close()
    if sent == 0 then t.skip "the file system cannot tell what is in memory" end
end

return {
    files_of_any_size_are_sent_whole = function()
        local path
        local _ <close>, url = serve(function() return {file = path} end)
        for _, size in ipairs {0, 1, 65535, 65536, 131073, (1 << 20) + 1, (3 << 20) + 7} do
            local text = bytes(size)
            local f <close> = stored(text)
            if size > 0 then needs_memory(f.path) end
            path = f.path
            local count <close> = counted()
            local status, got, headers = http.get {url = url, timeout = t.patience,
                limits = {body = size + 1}}
            t.eq({status, headers["content-length"]}, {200, tostring(size)})
            t.ok(got == text, size)
            t.eq(count.sent, size)
        end
    end,

    -- Of a plain request on a connection that is kept, nothing of that is done in Lua, if all goes
    -- at once; perhaps not the first time, if others rename files just then, and the system cannot
    -- say at once where this one is. (Where clients are watched, the first request after a pause is
    -- served in Lua, which begins to watch.)
    on_a_kept_connection_too = function()
        local path, stream
        local before = t.descriptors "/body"
        local _ <close>, url = serve(function(request)
            stream = stream or request.stream
            return request.stream == stream and {file = path} or nil -- always the same one
        end, nil, {cancel = false})
        local client <close> = http.client {timeout = t.patience, limits = {body = 1 << 30}}
        for _, size in ipairs {0, 1, 5000, 131073, 1 << 20, (1 << 20) + 1, (3 << 20) + 7} do
            local text = bytes(size)
            local f <close> = stored(text)
            if size > 0 then needs_memory(f.path) end
            path = f.path
            local count <close> = counted()
            for _ = 1, 2 do
                local status, got, headers = client:get(url)
                t.eq({status, headers["content-length"]}, {200, tostring(size)})
                t.ok(got == text, size)
            end
            t.reaches(function()
                local sent = count.sent
                t.eq(#select(2, client:get(url)), size)
                return size > 5000 or count.sent == sent
            end)
            t.reaches(function() return t.descriptors "/body" == before end)
        end
    end,

    what_stands_behind_a_file_is_answered = function()
        local text = bytes(MUCH)
        local f <close> = stored(text)
        local before = t.descriptors "/body"
        local _ <close>, _, port = serve(function(request)
            return request.path == "/" and {file = f.path} or request.path
        end)
        local stream <close> = ask(port, "kept")
        assert(stream:write "GET /two HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        t.ok(stream:read(MUCH, t.patience) == text)
        t.ok(stream:read("a", t.patience):find "^HTTP/1.1 200 .*\r\n\r\n/two$")
        t.reaches(function() return t.descriptors "/body" == before end)
    end,

    who_keeps_a_connection_and_goes_leaves_nothing = function()
        local f <close> = stored(bytes(MUCH))
        local before = t.descriptors "/body"
        local _ <close>, url, port = serve(function(request)
            return request.path == "/" and {file = f.path} or "small"
        end)
        local stream = ask(port, "kept")
        t.eq(#stream:read(1000, t.patience), 1000)
        stream:close()
        t.eq(select(2, http.get(url .. "small", t.patience)), "small")
        t.reaches(function() return t.descriptors "/body" == before end)
    end,

    what_cannot_be_sent_leaves_nothing = function()
        local f <close> = stored(bytes(1000))
        local before, answers = t.descriptors "/body", {
            {file = f.path, headers = {["a b"] = "1"}}, {file = f.path .. "/none"},
            {file = f.folder}, {file = f.path .. "\0"}, {file = f.path, body = "x"},
            {file = f.path, length = 2000}}
        local _ <close>, url = serve(function(request)
            return answers[tonumber(request.path:sub(2))]
        end)
        local client <close> = http.client {timeout = t.patience}
        for i = 1, #answers - 1 do t.eq((client:get(url .. i)), 500, i) end
        t.eq({(client:get(url .. #answers))}, {}) -- it is cut short
        t.reaches(function() return t.descriptors "/body" == before end)
    end,

    an_open_file_is_sent_from_where_it_is = function()
        local text = bytes(300000)
        local f <close> = stored(text .. "\nx")
        local _ <close>, url = serve(function(request)
            local opened = assert(file.open(f.path))
            if request.path == "/line" then opened:read "l" end -- which reads ahead
            if request.path == "/seek" then opened:seek("set", 1000) end
            if request.path == "/ahead" then return {length = #opened:read(10), body = opened} end
            return {body = opened}
        end)
        local line = text:match "^[^\n]*\n" -- the bytes have some of these
        t.ok(select(2, http.get(url .. "line", t.patience)) == (text .. "\nx"):sub(#line + 1))
        t.ok(select(2, http.get(url .. "seek", t.patience)) == (text .. "\nx"):sub(1001))
        t.eq(select(2, http.get(url .. "ahead", t.patience)), text:sub(11, 20))
    end,

    ranges_are_sent_too = function()
        local text = bytes(1 << 20)
        local f <close> = stored(text)
        needs_memory(f.path)
        local _ <close>, url = serve(static.files(f.folder))
        for _, range in ipairs {{0, 0}, {1, 131072}, {131071, 131073}, {1000000, 1048575}} do
            local count <close> = counted()
            local status, got = http.get {url = url .. "body", timeout = t.patience,
                headers = {range = ("bytes=%d-%d"):format(range[1], range[2])}}
            t.eq(status, 206)
            t.ok(got == text:sub(range[1] + 1, range[2] + 1), range[1])
            t.eq(count.sent, #got)
        end
    end,

    a_client_that_is_slow_gets_every_byte = function()
        local text = bytes(MUCH)
        local f <close> = stored(text)
        local count <close> = counted()
        local _ <close>, _, port = serve(function() return {file = f.path} end)
        local slow <close> = ask(port)
        local quick <close> = ask(port)
        t.ok(quick:read("a", t.patience) == text) -- others are served meanwhile
        local parts = {slow:read(100, t.patience), slow:read(7, t.patience)}
        parts[3] = slow:read("a", t.patience)
        t.ok(table.concat(parts) == text)
        t.ok(count.sent > 0 or t.skip "the file system cannot tell what is in memory")
    end,

    a_client_that_goes_ends_it_alone = function()
        local f <close> = stored(bytes(MUCH))
        local told, before = mare.channel(1), t.descriptors "/body"
        local _ <close>, url, port = serve(function(request)
            if request.path == "/small" then return "small" end
            return {file = f.path, finally = function() told:send(true) end}
        end, nil, {log = false})
        local stream = ask(port)
        t.eq(#stream:read(1000, t.patience), 1000)
        stream:close()
        t.eq(told:receive(t.patience), true)
        t.eq(select(2, http.get(url .. "small", t.patience)), "small")
        t.reaches(function() return t.descriptors "/body" == before end)
    end,

    a_file_that_shrinks_is_cut_short = function()
        local f <close> = stored(bytes(MUCH))
        local said = mare.channel(1)
        local _ <close>, _, port = serve(function() return {file = f.path} end, nil,
            {log = function(_, status, message) said:send(status, message) end})
        local stream <close> = ask(port)
        local opened <close> = assert(file.open(f.path, "r+"))
        assert(opened:truncate(1000))
        local got = stream:read("a", t.patience)
        t.ok(#got < MUCH, #got)
        t.eq({said:receive(t.patience)}, {200, "the body is too short"})
    end,

    so_is_one_whose_connection_is_kept = function()
        local f <close> = stored(bytes(MUCH))
        local _ <close>, _, port = serve(function() return {file = f.path} end)
        local stream <close> = ask(port, "kept")
        local opened <close> = assert(file.open(f.path, "r+"))
        assert(opened:truncate(1000))
        local got = stream:read("a", t.patience) -- for the connection ends
        t.ok(#got < MUCH, #got)
    end,

    a_file_that_grows_has_the_length_that_was_said = function()
        local text = bytes(MUCH)
        local f <close> = stored(text)
        local _ <close>, _, port = serve(function() return {file = f.path} end)
        local stream <close> = ask(port)
        local opened <close> = assert(file.open(f.path, "a"))
        assert(opened:write(("y"):rep(100000)))
        t.ok(stream:read("a", t.patience) == text)
    end,

    what_is_on_the_disk_alone_is_read = function()
        local text = bytes(1 << 20)
        local f <close> = stored(text)
        local _ <close>, url = serve(function() return {file = f.path} end)
        -- What the system has in memory of it is given up, if it was asked nicely.
        os.execute(("dd of='%s' oflag=nocache conv=notrunc,fdatasync count=0 2>/dev/null")
            :format(f.path))
        local _, got = http.get(url, t.patience)
        t.ok(got == text)
    end,

    what_is_near_is_opened_without_waiting = function()
        local near, f <close> = require "mare._file".near, stored "hello"
        t.eq({near(f.folder)}, {})
        t.eq({near(f.folder .. "/none")}, {})
        t.eq({near "/dev/null"}, {}) -- to open a device may have effects
        local opened <close>, size = near(f.path)
        if not opened then t.skip "the system cannot say what it has in memory" end
        t.eq({size, opened:read "a"}, {5, "hello"})
    end,

    over_tls_it_is_read = function()
        local text = bytes(200000)
        local f <close> = stored(text)
        local certificate, key = tls.selfsigned "127.0.0.1"
        local _ <close>, url = serve(function() return {file = f.path} end,
            {certificate = certificate, key = key})
        local count <close> = counted()
        local _, got = http.get {url = url, timeout = t.patience, tls = {authorities = certificate}}
        t.ok(got == text)
        t.eq(count.sent, 0)
    end,

    a_client_sends_files_so = function()
        local text = bytes(3 << 20)
        local f <close> = stored(text)
        needs_memory(f.path)
        local count <close> = counted()
        local _ <close>, url = serve(function(request)
            return tostring(request:text() == text)
        end, nil, {limits = {body = #text}})
        for _, timeout in ipairs {t.patience, mare.deadline(t.patience)} do
            local _, same = http.get {url = url, file = f.path, timeout = timeout}
            t.eq(same, "true")
        end
        t.eq(count.sent, 2 * #text)
    end,

    what_cannot_be_sent_so_is_said = function()
        local f <close> = stored(bytes(100))
        local opened = assert(file.open(f.path))
        local one, other = net.pair()
        t.eq(raw.send_file(one, opened, 100), 0) -- not through memory
        local near, far = sockets.pair()
        t.eq(opened:read(1), "\0")
        t.eq(raw.send_file(near, opened, 99), 0) -- it has been read ahead
        opened:seek("set", 100)
        t.eq(raw.send_file(near, opened, 100), 0) -- at its end
        opened:close()
        t.eq(raw.send_file(near, opened, 100), 0)
        near:shutdown()
        opened = assert(file.open(f.path)) -- no signal ends the program where nobody can read
        local sent, _, code = raw.send_file(near, opened, 100)
        t.ok(sent == 0 or code == "closed", sent, code)
        near:close()
        t.fails("closed", raw.send_file(near, opened, 100))
        t.raises("file expected", raw.send_file, far, "x", 1)
        opened:close()
        far:close()
        one:close()
        other:close()
    end,
}
