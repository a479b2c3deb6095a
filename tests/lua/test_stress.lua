-- SPDX-License-Identifier: MIT
-- Random programs: processes that spawn, kill, link, monitor, talk, select, wait with deadlines and
-- close, in several routines that cancel and join each other, all at once. Whatever happens,
-- everybody must end, and what was counted must add up.
-- MARE_STRESS_SECONDS makes it longer; the seed is printed.
local mare, t = require "mare", require "t"

local SECONDS = tonumber(os.getenv "MARE_STRESS_SECONDS" or "2")

-- One of the crowd. It holds a few channels and processes that it was given or met, and does
-- something at random with them, `steps` times.
local function member(seed, depth, steps, channels, peers)
    math.randomseed(seed)
    local self, random = mare.self(), math.random
    local quiet = mare.channel() -- who monitors through it is told nothing, and nothing is printed
    quiet:close()

    local function any(list) return list[random(#list)] end
    local function timeout() return random(4) == 1 and 0 or random() * 0.002 end
    local function value()
        local kind = random(7)
        if kind == 1 then return random(0) end
        if kind == 2 then return ("s"):rep(random(0, 2000)) end
        if kind == 3 then return {any(channels), {any(peers)}, n = random()} end
        if kind == 4 then return any(peers) end
        if kind == 5 then return function() return seed, channels[1] end end
        if kind == 6 then return mare.buffer(random(100)) end
        return any(channels)
    end
    local function met(thing)
        if type(thing) ~= "userdata" then return end
        local text = tostring(thing)
        if text:find "^process" and #peers < 20 then peers[#peers + 1] = thing end
        if text:find "^channel" and #channels < 20 then channels[#channels + 1] = thing end
    end
    local function cases()
        local list = {}
        for i = 1, random(0, 5) do
            local kind = random(3)
            local other = any(peers)
            list[i] = kind == 1 and any(channels) or kind == 2 and {any(channels), value()}
                or (other ~= self and other or any(channels))
        end
        return list
    end

    -- Routines, and a coroutine that they share: who comes while another waits in it is refused.
    local acts, routines = nil, {}
    local function some(count)
        for _ = 1, count do any(acts)() end
    end
    local shared = coroutine.wrap(function()
        while true do
            met((any(channels):receive(timeout())))
            coroutine.yield()
        end
    end)
    local function go()
        if #routines > 12 then return end
        local way = random(3)
        local function body()
            local function close() channels[1]:trysend(1) end
            local _guard <close> = setmetatable({}, {__close = close})
            some(random(8))
        end
        if way == 1 then -- it may fail, and somebody knows
            local r = mare.go(body)
            routines[#routines + 1] = r
            mare.go(pcall, r.join, r)
        else
            routines[#routines + 1] = mare.go(pcall, way == 2 and body or coroutine.wrap(body))
        end
    end
    go()

    acts = {
        go,
        function() any(routines):cancel() end,
        function() pcall(shared) end,
        function() pcall(any(routines).join, any(routines), timeout()) end,
        function() any(channels):sendwithin(timeout(), value()) end,
        function() any(channels):trysend(value()) end,
        function() met((any(channels):receive(timeout()))) end,
        function() met((any(channels):tryreceive())) end,
        function() met((select(2, mare.select(cases(), timeout())))) end,
        function()
            coroutine.wrap(function() met((any(channels):receive(timeout()))) end)()
        end,
        function() mare.sleep(random() * 0.001) end,
        function() mare.yield() end,
        function()
            if #channels < 20 then channels[#channels + 1] = mare.channel(random(0, 3)) end
        end,
        function() if random(6) == 1 then any(channels):close() end end,
        function()
            if depth > 0 then
                local options = {monitor = random(4) == 1 and any(channels) or quiet}
                if random(4) == 1 then options.link = true end
                if random(4) == 1 then options.memory = random(20000, 400000) end
                met((mare.spawn(options, member, random(0), depth - 1, steps // 2,
                    {any(channels), any(channels)}, {self, any(peers)})))
            end
        end,
        function() if random(5) == 1 then any(peers):kill "stress" end end,
        function() any(peers):unlink() end,
        function() if random(4) == 1 then any(peers):link() end end,
        function() any(peers):monitor(any(channels)) end,
        function()
            local other = any(peers)
            if other ~= self then other:join(timeout()) end
        end,
        function() local n = 0 for i = 1, random(20000) do n = n + i end end,
        function() if random(30) == 1 then error {seed, any(channels)} end end,
        function() collectgarbage "step" end,
        function()
            local function close() channels[1]:trysend(1) end
            local _guard <close> = setmetatable({}, {__close = close})
            mare.yield()
        end,
    }
    some(steps)
end

-- One round: a crowd, and its end.
local function round(seed, patience)
    math.randomseed(seed)
    local random = math.random
    local channels = {}
    for i = 1, 6 do channels[i] = mare.channel(random(0, 4)) end
    local ends, crowd = mare.channel(100), {}
    local stay = mare.spawn(function() mare.channel():receive(3600) end)
    for i = 1, 12 do
        crowd[i] = mare.spawn({monitor = ends}, member, random(0), 3, 60,
            {channels[random(6)], channels[random(6)]}, {crowd[i - 1] or stay, stay})
    end
    if random(2) == 1 then mare.workers(random(1, 4)) end
    if random(2) == 1 then mare.recycle(random(0, 8)) end
    for _ = 1, #crowd do
        local p, how = ends:receive(patience)
        assert(p, "somebody of the crowd does not end")
        assert(how == "normal" or how == "died" or how == "killed", how)
        assert(not p:alive() and p:status() == "finished", p:status())
    end
    stay:kill()
    for _, ch in ipairs(channels) do ch:close() end
end

return {
    a_random_crowd_always_ends = {function()
        local seed = t.seed()
        local live, workers, recycle = mare.stats().live, mare.workers(), mare.recycle()
        local deadline = mare.deadline(SECONDS)
        repeat
            -- In a process of its own, so that a link that somebody made to it kills it and not us.
            local p = mare.spawn(round, seed, t.patience)
            local ok, err, code = p:join(3 * t.patience)
            if not ok and code ~= "killed" then error(("round %d: %s"):format(seed, err), 0) end
            seed = seed + 1
            -- What they spawned and left behind ends too: its channels are closed, its waits short.
            t.reaches(function() return mare.stats().live <= live end, "round " .. seed - 1)
        until deadline:left() == 0
        mare.workers(workers)
        mare.recycle(recycle)
    end, timeout = SECONDS + 120},

    tokens_are_neither_lost_nor_doubled = {function()
        -- Tokens go round between processes through random channels with random ways of sending and
        -- receiving, under deadlines; a token whose send failed stays with its holder. Two routines
        -- of a process hold some each, and a third one cancels what they do.
        local seed = t.seed()
        local deadline = mare.deadline(SECONDS / 2)
        repeat
            local channels, holders, out = {}, {}, mare.channel(1000)
            for i = 1, 5 do channels[i] = mare.channel(i - 1) end
            local stop = mare.channel()
            for h = 1, 8 do
                holders[h] = mare.spawn(function(own)
                    math.randomseed(own)
                    local random = math.random
                    local function hold(first)
                        local held = {first}
                        local function keep(index, token)
                            if index and token then held[#held + 1] = token end
                        end
                        while not stop:closed() do
                            local ch, way = channels[random(5)], random(6)
                            local token = held[#held]
                            if token and way <= 3 then
                                local sent
                                if way == 1 then sent = ch:trysend(token) end
                                if way == 2 then sent = ch:sendwithin(random() * 0.001, token) end
                                if way == 3 then
                                    sent = mare.select({{ch, token}}, random() * 0.001)
                                end
                                if sent then held[#held] = nil end
                            elseif way == 4 then
                                keep(true, (ch:tryreceive()))
                            elseif way == 5 then
                                keep(true, (ch:receive(random() * 0.001)))
                            elseif way == 6 then
                                keep(mare.select({ch, channels[random(5)]}, random() * 0.001))
                            end
                        end
                        return held
                    end
                    local a, b = mare.go(hold, own * 10), mare.go(hold, own * 10 + 1)
                    while not stop:closed() do
                        mare.sleep(random() * 0.001)
                        if random(2) == 1 then a:cancel() else b:cancel() end
                    end
                    local _, all = assert(a:join())
                    local _, others = assert(b:join())
                    out:send(table.move(others, 1, #others, #all + 1, all))
                end, seed % 1000 * 100 + h)
            end
            mare.sleep(0.05)
            stop:close()
            local seen, count = {}, 0
            local function take(token)
                t.eq(seen[token], nil, "doubled, with seed " .. seed)
                seen[token] = true
                count = count + 1
            end
            for _ = 1, #holders do
                for _, token in ipairs(t.ok(out:receive(t.patience))) do take(token) end
            end
            for _, ch in ipairs(channels) do
                for token in function() return (ch:tryreceive()) end do take(token) end
            end
            t.eq(count, 16, "lost, with seed " .. seed)
            seed = seed + 1
        until deadline:left() == 0
    end, timeout = SECONDS + 120},
}
