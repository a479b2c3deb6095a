-- SPDX-License-Identifier: MIT
-- Servers, clients and processes that streams are handed on to, all of which are killed at random
-- while the number of workers changes. What comes back is what was sent; nobody hangs; no socket is
-- left. MARE_STRESS_SECONDS makes it longer; the seed is printed.
local mare, net, t = require "mare", require "mare.net", require "t"
local sockets = require "sockets".count

local SECONDS = tonumber(os.getenv "MARE_STRESS_SECONDS" or "2")

-- Sends back what comes, until the end or a whim.
local function echo(stream)
    while math.random(100) > 1 do
        local piece = stream:read(nil, math.random(20) == 1 and 0 or 0.5)
        if not piece or not stream:write(piece) then break end
    end
    return stream:close()
end

-- Accepts, and hands some of the streams on. Its port is none that the system gives away: when it
-- has been killed, clients that still come would disturb who has it then.
local function server(seed, ports, others)
    math.randomseed(seed)
    local listener, port
    repeat
        port = math.random(10240, 32767)
        listener = net.listen("127.0.0.1", port)
    until listener
    ports:send(port)
    net.serve(listener, function(stream)
        if math.random(3) == 1 and others:sendwithin(0.05, stream) then return end
        echo(stream)
    end)
end

-- Continues with streams that others have begun, and hands some on again.
local function successor(seed, others)
    math.randomseed(seed)
    for stream in others:messages() do
        mare.go(function()
            if math.random(4) == 1 then
                local piece = stream:read(nil, 0.1)
                if piece then stream:write(piece) end
                if others:sendwithin(0.02, stream) then return end
            end
            echo(stream)
        end)
    end
end

local EXPECTED = {closed = true, timeout = true, refused = true, cancelled = true}

-- Talks to servers in several routines, some of which close or cancel each other.
local function client(seed, ports)
    math.randomseed(seed)
    local function check(...)
        local value, message, code = ...
        assert(value or EXPECTED[code], message)
        return ...
    end
    local function talk()
        local port = ports:receive()
        ports:send(port)
        local stream <close> = check(net.connect(math.random(8) == 1 and "localhost" or "127.0.0.1",
            port, math.random(10) == 1 and 0.001 or 1))
        if not stream then return end
        if math.random(4) == 1 then stream:timeout(math.random() / 20) end
        for _ = 1, math.random(10) do
            local text = string.char(math.random(97, 122)):rep(math.random(5) == 1
                and math.random(200000) or math.random(200))
            local writer = mare.go(function() return check(stream:write(text)) end)
            if math.random(30) == 1 then mare.go(function() stream:close() end) end
            if math.random(30) == 1 then writer:cancel() end
            local got = check(stream:read(#text, 0.5))
            if got and #got == #text then assert(got == text, "it came back changed") end
            if not writer:join(1) or got ~= text then
                writer:cancel()
                writer:join()
                return
            end
        end
    end
    while true do
        local routines = {}
        for i = 1, math.random(8) do routines[i] = mare.go(talk) end
        for _, routine in ipairs(routines) do
            local ok, message = routine:join()
            assert(ok, message)
        end
    end
end

return {
    sockets_and_processes_at_random = {function()
        local seed = t.seed()
        math.randomseed(seed)
        local base, workers = sockets(), mare.workers()
        local ports, others = mare.channel(1000), mare.channel(3)
        local makers = {
            function() return mare.spawn(server, math.random(0), ports, others) end,
            function() return mare.spawn(successor, math.random(0), others) end,
            function() return mare.spawn(client, math.random(0), ports) end,
        }
        local crowd = {}
        for i = 1, 12 do
            local make = makers[i % 3 + 1]
            crowd[i] = {make = make, process = make()}
        end
        local deadline = mare.deadline(SECONDS)
        while deadline:left() > 0 do
            mare.sleep(math.random() / 50)
            local member = crowd[math.random(#crowd)]
            if math.random(3) == 1 then mare.workers(math.random(4)) end
            if not member.process:alive() then
                local ok, message = member.process:join()
                t.ok(ok, message) -- nobody ends by himself, so this one has failed
            end
            member.process:kill()
            t.fails("killed", member.process:join(t.patience))
            if ports:trysend(0) then ports:receive() end -- which port is served is soon forgotten
            while ports:tryreceive() and math.random(4) > 1 do end
            member.process = member.make()
        end
        mare.workers(workers)
        for _, member in ipairs(crowd) do
            member.process:kill()
            t.fails("killed", member.process:join(t.patience))
        end
        others:close()
        while others:tryreceive() do collectgarbage() end
        ports:close()
        collectgarbage()
        collectgarbage()
        t.reaches(function() return sockets() <= base end, "sockets are left")
    end, timeout = SECONDS + 120},
}
