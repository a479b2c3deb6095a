-- SPDX-License-Identifier: MIT
-- A process killed in each kind of wait for events: it ends, and leaves no descriptor behind.
-- (Streams, datagrams, TLS, files, children and signals have such cases in files of their own.)
local mare, t, shell = require "mare", require "t", require "shell"

-- A server that accepts and says nothing.
local function silent()
    local net = require "mare.net"
    local listener = assert(net.listen("127.0.0.1", 0))
    local held = {}
    mare.go(function()
        while true do
            local stream = listener:accept()
            if not stream then return end
            held[#held + 1] = stream
        end
    end)
    local _, port = listener:address()
    return listener, port, held
end

-- What a process does for ever, given a port where nobody answers and the path of a FIFO.
local waits = {
    http_answer = function(port)
        require "mare.http".get("http://127.0.0.1:" .. port, 3600)
    end,
    http_client = function(port)
        local client <close> = require "mare.http".client()
        client:get("http://127.0.0.1:" .. port, 3600)
    end,
    http_body = function() -- as a server, while a client does not send what it has announced
        local net, http = require "mare.net", require "mare.http"
        local listener <close> = assert(net.listen("127.0.0.1", 0))
        mare.go(http.serve, listener, function(request) return request:text() end,
            {message_time = 3600})
        local client <close> = assert(net.connect(listener:address()))
        client:write "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nabc"
        client:read()
    end,
    websocket_message = function()
        local net, http = require "mare.net", require "mare.http"
        local websocket = require "mare.websocket"
        local listener <close> = assert(net.listen("127.0.0.1", 0))
        mare.go(http.serve, listener, function(request)
            local w <close> = websocket.accept(request)
            w:receive()
        end)
        local _, port = listener:address()
        local w <close> = assert(websocket.connect("ws://127.0.0.1:" .. port))
        w:receive()
    end,
    websocket_handshake = function(port)
        require "mare.websocket".connect("ws://127.0.0.1:" .. port, {timeout = 3600})
    end,
    luasocket = function(port)
        local tcp = require "socket.core".tcp()
        tcp:connect("127.0.0.1", port)
        tcp:receive "*l"
    end,
    luasocket_select = function(port)
        local core = require "socket.core"
        local tcp = core.tcp()
        tcp:connect("127.0.0.1", port)
        core.select({tcp})
    end,
    device = function(_, fifo)
        local device <close> = assert(require "mare.scheduler".device(fifo))
        device:next()
    end,
    polled_source = function()
        local scheduler = require "mare.scheduler"
        scheduler.register_source({poll = function() end}, print)
        scheduler.loop()
    end,
    asynchronous_source = function()
        local scheduler = require "mare.scheduler"
        scheduler.register_source({start = function() end}, print)
        scheduler.loop()
    end,
    blocking_source = function() -- in a thread of its own
        local scheduler = require "mare.scheduler"
        scheduler.register_source({wait = function() require "mare".sleep(3600) end}, print)
        scheduler.loop()
    end,
    watcher = function(_, fifo)
        local watcher <close> = assert(require "mare.file".watch(fifo))
        watcher:next()
    end,
    timer = function() mare.timer(3600):wait() end,
    select = function(_, fifo)
        local device <close> = assert(require "mare.scheduler".device(fifo))
        mare.select {device, mare.timer(3600), mare.channel()}
    end,
    routine = function() mare.go(mare.sleep, 3600):join() end,
    serve = function()
        local net = require "mare.net"
        local listener <close> = assert(net.listen("127.0.0.1", 0))
        net.serve(listener, print)
    end,
}

local cases = {}
for name, wait in pairs(waits) do
    -- On one worker, for the loop of another would be taken for descriptors that are left.
    cases["in_a_wait_for_" .. name] = function() t.with_workers(1, function()
        local listener <close>, port, held = silent()
        local fifo = os.tmpname()
        os.remove(fifo)
        t.eq(shell.run("mkfifo " .. fifo).code, 0)
        local function one()
            local begun = mare.channel()
            local process = mare.spawn(function()
                begun:send(true)
                wait(port, fifo)
            end)
            begun:receive(t.patience)
            t.reaches(function() return process:status() == "blocked" end, name)
            mare.sleep(0.01)
            process:kill()
            t.eq(select(3, process:join(t.patience)), "killed", name)
        end
        one() -- makes loops, threads and modules
        t.ok(listener)
        local function left()
            for i = #held, 1, -1 do table.remove(held, i):close() end
            return t.descriptors()
        end
        local before = left()
        for _ = 1, 5 do one() end
        t.reaches(function() return left() <= before end, name .. ": descriptors")
        os.remove(fifo)
    end) end
end
return cases
