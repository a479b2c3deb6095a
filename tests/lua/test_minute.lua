-- SPDX-License-Identifier: MIT
-- Writers that are faster than their readers, for twenty seconds (three in slow builds, and as long
-- as `make soak` runs: MARE_STRESS_SECONDS): each is held back, and the program does not grow.
local mare, net, tls, http, websocket, child, file, t = require "mare", require "mare.net",
    require "mare.tls", require "mare.http", require "mare.websocket", require "mare.child",
    require "mare.file", require "t"

local SECONDS = tonumber(os.getenv "MARE_STRESS_SECONDS" or t.slow > 1 and 3 or 20)
local HERE, PART = "127.0.0.1", ("x"):rep(65536)
-- What may lie between a writer and its reader: buffers of the system's, for loopback 4 MiB to
-- send and 6 MiB to receive at the most, and a part on each side.
local BETWEEN = 12 << 20
local GROWTH = 32 << 20 -- far less than a writer writes that nobody holds back
local LIMITS = {body = 1 << 40}

local function resident()
    local statm <close> = assert(io.open "/proc/self/statm")
    local _, pages = statm:read("n", "n")
    return pages * 4096
end

-- A reader that takes a part now and then, and counts; `read` returns the next bytes, or nil.
local function slowly(flow, read, from)
    while true do
        local part = read(from)
        if not part or flow.over then return end
        flow.got = flow.got + #part
        mare.sleep(0.05)
    end
end

-- A writer in a hurry.
local function pour(flow, write, to)
    while not flow.over and write(to, PART) do flow.put = flow.put + #PART end
end

-- The same as a body of HTTP.
local function pouring(flow)
    return function()
        if flow.over then return nil end
        flow.put = flow.put + #PART
        return PART
    end
end

local function served(handler, options)
    local listener = assert(net.listen(HERE, 0))
    mare.go(http.serve, listener, handler, options)
    local _, port = listener:address()
    return listener, ("http://%s:%d/"):format(HERE, port)
end

local function through(flow, listener, connect, ...)
    local _ <close> = listener
    mare.go(net.serve, listener, function(writer) pour(flow, writer.write, writer) end)
    local reader <close> = assert(connect(...))
    slowly(flow, reader.read, reader)
end

-- Each begins a writer and a reader, and ends when it is cancelled.
local flows = {}

function flows.stream(flow)
    local listener = assert(net.listen(HERE, 0))
    through(flow, listener, net.connect, listener:address())
end

function flows.path(flow)
    local path = os.tmpname()
    os.remove(path)
    through(flow, assert(net.listen(path)), net.connect, path)
    os.remove(path)
end

function flows.luasocket(flow)
    local socket = require "socket.core"
    local server <close> = assert(socket.tcp())
    assert(server:bind(HERE, 0))
    assert(server:listen())
    local writer <close> = assert(socket.tcp())
    assert(writer:connect(server:getsockname()))
    local reader <close> = assert(server:accept())
    mare.go(pour, flow, writer.send, writer)
    slowly(flow, function(from) return from:receive(#PART) end, reader)
end

-- A named pipe, to which threads write for us.
function flows.file(flow)
    local path = os.tmpname()
    os.remove(path)
    assert(child.run {"mkfifo", path}.ok)
    local reader <close> = assert(file.open(path, "r+"))
    local writer <close> = assert(file.open(path, "w"))
    mare.go(pour, flow, writer.write, writer)
    slowly(flow, reader.read, reader)
    os.remove(path)
end

function flows.tls(flow)
    local certificate, key = assert(tls.selfsigned(HERE))
    local listener = assert(tls.listen(HERE, 0, {certificate = certificate, key = key}))
    local host, port = listener:address()
    through(flow, listener, tls.connect, host, port, {authorities = certificate})
end

function flows.download(flow)
    local listener <close>, url = served(function() return {body = pouring(flow)} end,
        {write_time = 600})
    local response = assert(http.request {url = url, limits = LIMITS})
    local _ <close> = response.stream
    slowly(flow, response.read, response)
    t.ok(listener)
end

function flows.upload(flow)
    local listener <close>, url = served(function(request)
        slowly(flow, request.read, request)
        return "thanks"
    end, {limits = LIMITS})
    http.request {url = url, body = pouring(flow), timeout = 600}
    t.ok(listener)
end

function flows.websocket(flow)
    local listener <close>, url = served(function(request)
        local w <close> = websocket.accept(request)
        pour(flow, w.sendbinary, w)
    end)
    local w <close> = assert(websocket.connect((url:gsub("^http", "ws"))))
    slowly(flow, w.receive, w)
    t.ok(listener)
end

function flows.websocket_of_a_client(flow)
    local listener <close>, url = served(function(request)
        local w <close> = websocket.accept(request)
        slowly(flow, w.receive, w)
    end)
    local w <close> = assert(websocket.connect((url:gsub("^http", "ws"))))
    pour(flow, w.sendbinary, w)
    t.ok(listener)
end

function flows.channel(flow)
    local channel <close> = mare.channel(16)
    mare.go(slowly, flow, channel.receive, channel)
    pour(flow, channel.send, channel)
end

-- Nobody counts what the child writes; it would fill the memory in a minute.
function flows.child(flow)
    local yes <close> = assert(child.spawn {"yes", stdout = "pipe"})
    slowly(flow, yes.stdout.read, yes.stdout)
end

function flows.input_of_a_child(flow)
    local cat <close> = assert(child.spawn {"cat", stdin = "pipe", stdout = "pipe"})
    mare.go(pour, flow, cat.stdin.write, cat.stdin)
    slowly(flow, cat.stdout.read, cat.stdout)
end

return {
    writers_that_are_faster_than_their_readers_are_held_back = {function()
        local running, list = {}, {}
        for name, begin in pairs(flows) do
            local flow = {name = name, put = 0, got = 0, over = false}
            list[#list + 1] = flow
            running[#running + 1] = mare.go(begin, flow)
        end
        local first, most, warm = nil, 0, mare.now() + SECONDS / 3
        for _ = 1, SECONDS * 10 do
            mare.sleep(0.1)
            for _, flow in ipairs(list) do
                t.ok(flow.put - flow.got <= BETWEEN, ("%s: %d bytes were written, %d read"):format(
                    flow.name, flow.put, flow.got))
            end
            if not first and mare.now() >= warm then
                first = resident()
                for _, flow in ipairs(list) do flow.warm = flow.got end
            elseif first then
                most = math.max(most, resident() - first)
            end
        end
        -- Allocators that keep freed blocks back, as sanitizers do, cannot be judged.
        t.ok(most <= GROWTH or t.slow > 1, ("the program grew by %d bytes"):format(most))
        for _, flow in ipairs(list) do
            t.reaches(function() return flow.got > flow.warm end, flow.name .. " stood still")
            flow.over = true
        end
        for _, routine in ipairs(running) do
            routine:cancel()
            routine:join(t.patience)
        end
    end, timeout = SECONDS + 120},
}
