-- SPDX-License-Identifier: MIT
-- A program drawn from a seed, in which every callback may do any operation: values with __travel,
-- modules whose `arrive` runs as values come, finalizers, handlers of <close> and of errors, hooks,
-- __select, __index, __tostring, callbacks of C functions and other routines send, receive, select,
-- spawn, kill, cancel, detach, collect, wait, fail, change the number of workers, exit.
--
--     mare tests/lua/anything.lua SEED [OPERATIONS]
--
-- It prints "done" when everybody has ended, or exits with 7. Nothing is checked here but that a
-- buffer has one owner; crashes, hangs and races are found by who runs it: see test_anything.lua.
local mare = require "mare"

-- What each process does: `share` is the channels that all have, `left` how many operations.
local function life(seed, share, left, generation, body)
    -- Its own random numbers: where the program's go depends on how threads run.
    local state = seed
    local function random(n)
        state = (state * 6364136223846793005 + 1442695040888963407)
        return (state >> 33) % n + 1
    end
    local function one_of(list) return list[random(#list)] end

    local depth, mine, routines, values, anything = 0, {}, {}, nil, nil
    local operations = {}

    -- Every callback comes here. It may fail, and so may what it does.
    local function callback()
        if depth > 3 or left <= 0 then return end
        depth = depth + 1
        local ok, message = pcall(anything)
        depth = depth - 1
        if not ok and random(3) == 1 then error(message, 0) end
    end

    package.preload.anything = function()
        return {arrive = function(v) callback() return v end}
    end

    -- Values to send, some of them odd.
    local kinds = {
        function() return random(1000) end,
        function() return ("s"):rep(random(300)) end,
        function() return {random(9), {random(9)}, k = {1}} end,
        function() local list = {} list[1], list.self = list, list return list end,
        function() return one_of(share) end,
        function() return mare.self() end,
        function() return function() return state end end,
        function() return string.format end,
        function() return #mine > 0 and one_of(mine) or nil end,
        function() -- a buffer, marked by whoever has it
            local b = mare.buffer("owner")
            mine[random(4)] = b
            return b
        end,
        function()
            return setmetatable({}, {__travel = function()
                callback()
                return "anything", values()
            end})
        end,
        function() return setmetatable({}, {__gc = callback}) end, -- refused, or collected
        function()
            return setmetatable({}, {__len = function() callback() return random(99) end})
        end,
        function() return io.stdout end, -- refused
        function() return coroutine.create(callback) end, -- refused
    }
    function values()
        return one_of(kinds)()
    end

    -- Nobody else has it: what is written is read again.
    local function use(value)
        if type(value) == "userdata" and tostring(value):find "^buffer" and not value:moved() then
            local mark = ("%d.%d"):format(seed, state)
            value:set(mark)
            if random(4) == 1 then mare.yield() end
            if not value:moved() and value:get() ~= mark then
                print "two owners of a buffer"
                os.exit(9)
            end
            mine[random(4)] = value
        elseif type(value) == "table" then
            for _, inner in pairs(value) do
                if type(inner) == "userdata" then use(inner) end
            end
        end
    end
    local function use_all(...)
        for i = 1, select("#", ...) do use((select(i, ...))) end
    end

    local function moment() return random(4) == 1 and 0 or random(3) / 1000 end

    local function case()
        local which = random(7)
        if which <= 2 then return one_of(share) end
        if which <= 4 then return {one_of(share), values(), values()} end
        if which == 5 then return mare.timer(moment()) end
        if which == 6 then return mare.spawn(function() end) end
        return setmetatable({}, {__select = function()
            callback()
            if random(2) == 1 then return true, 1 end
            return one_of(share), moment()
        end})
    end

    operations.send = function() return one_of(share):sendwithin(moment(), values(), values()) end
    operations.trysend = function() return one_of(share):trysend(values(), values(), values()) end
    operations.receive = function() use_all(one_of(share):receive(moment())) end
    operations.tryreceive = function() use_all(one_of(share):tryreceive()) end
    operations.select = function()
        local cases = {}
        for i = 1, random(4) do cases[i] = case() end
        if random(4) == 1 then
            mare.go(function() cases[random(4)] = case() end)
        end
        use_all(select(2, mare.select(cases, moment())))
    end
    operations.collect = function() collectgarbage(one_of {"collect", "step"}) end
    operations.garbage = function() setmetatable({}, {__gc = callback}) end
    operations.hoard = function() -- all that a limit leaves, if there is one
        local list = {}
        pcall(function()
            for i = 1, 1000 do list[i] = ("x"):rep(random(999)) .. i end
        end)
        if random(2) == 1 then mine[random(4)] = mare.buffer(random(5000)) end
        callback()
        return #list
    end
    operations.yield = function() mare.yield() end
    operations.sleep = function() mare.sleep(moment()) end
    -- One that nobody catches ends the process, or the routine, and is shown.
    local shown = setmetatable({}, {__tostring = function() callback() return "shown" end})
    operations.fail = function() error(one_of {"failed", {1}, false, shown}) end
    operations.handle = function()
        xpcall(callback, function(message) callback() return message end)
    end
    operations.routine = function()
        local r = mare.go(callback)
        routines[random(4)] = r
        if random(3) == 1 then r:cancel() end
        if random(3) == 1 then r:join(moment()) end
    end
    operations.others = function() -- may be the one that runs, or one that has ended
        local r = one_of(routines)
        local what = random(4)
        if what == 1 then r:cancel()
        elseif what == 2 then r:join(moment())
        elseif what == 3 then r:detach()
        else mare.select({r, one_of(share)}, moment()) end
    end
    operations.coroutine = function()
        local co = coroutine.wrap(function() callback() coroutine.yield() callback() end)
        co()
        if random(2) == 1 then co() end
    end
    operations.closing = function() -- one that is suspended, or waits in another routine
        local co = coroutine.create(function()
            local _ <close> = setmetatable({}, {__close = callback})
            coroutine.yield()
            mare.sleep(moment())
        end)
        coroutine.resume(co)
        if random(2) == 1 then
            mare.go(coroutine.resume, co)
            mare.yield()
        end
        coroutine.close(co)
    end
    operations.close = function()
        local _ <close> = setmetatable({}, {__close = callback})
        callback()
    end
    operations.sort = function()
        table.sort({1, 2, 3}, function(a, b) callback() return a < b end)
    end
    operations.inside = function() -- of C functions that cannot yield
        if random(2) == 1 then string.gsub("abc", ".", function() callback() end)
        else load(function() callback() end) end
    end
    operations.meta = function()
        -- Not __concat: Lua 5.4.4 itself reads freed memory when it collects in there under a hook.
        local odd = setmetatable({}, {__index = callback, __unm = callback, __eq = callback})
        return odd.x, -odd, odd == setmetatable({}, getmetatable(odd))
    end
    operations.messages = function() -- nobody waits for its end
        local detached = false -- a hook may fail before it is
        local r = mare.go(function(channel)
            if not detached then return end
            for value in channel:messages() do
                use(value)
                callback()
            end
        end, one_of(share))
        r:detach()
        detached = true
    end
    operations.workers = function()
        if random(10) == 1 then mare.workers(random(3)) end
        if random(10) == 1 then mare.recycle(random(4) - 1) end
        if random(10) == 1 then collectgarbage(one_of {"generational", "incremental"}) end
    end
    operations.hook = function()
        debug.sethook(random(2) == 1 and callback or nil, one_of {"c", "r", "l", ""}, random(50))
    end
    operations.spawn = function()
        if generation > 2 or left < 20 then return end
        local part = left // 3
        left = left - part
        local options = {monitor = share[1]}
        if random(4) == 1 then options.link = true end
        if random(4) == 1 then options.memory = 20000 + random(300000) end
        if random(8) == 1 then options.thread = true end
        local p = mare.spawn(options, body, state, share, part, generation + 1, body)
        if random(4) == 1 then p:kill("drawn") end
        if random(4) == 1 then p:join(moment()) end
        if random(4) == 1 then p:link() p:unlink() end
        mine[random(4)] = p
    end
    operations.kill = function()
        local p = one_of {1, 2, 3, 4}
        if type(mine[p]) == "userdata" and tostring(mine[p]):find "^process" then mine[p]:kill() end
        if random(20) == 1 then mare.self():kill() end
    end
    operations.timer = function()
        local timer = mare.timer(moment(), random(2) == 1 and 0.001 or nil)
        if random(2) == 1 then timer:wait(moment()) end
        if random(2) == 1 then timer:cancel() end
    end
    operations.channel = function()
        local i = random(#share - 2) + 2 -- never the one that everybody is told through
        if random(30) == 1 then share[i]:close() end
        share[i] = mare.channel(random(3) - 1)
    end
    operations.exit = function()
        if random(300) == 1 then os.exit(7) end
    end
    local names = {}
    for name in pairs(operations) do names[#names + 1] = name end
    table.sort(names)

    function anything()
        left = left - 1
        operations[one_of(names)]()
    end
    while left > 0 do pcall(anything) end
    debug.sethook()
    for i = 1, #share do share[i] = nil end
    if random(5) == 1 then setmetatable({}, {__gc = callback}) end
    return values()
end

local seed, left = math.tointeger(arg[1]) or 1, math.tointeger(arg[2]) or 400
mare.workers(seed % 3 + 1)
local share = {mare.channel(1000000), mare.channel(), mare.channel(1), mare.channel(4)}
share[5] = mare.channel()
for i = 1, 3 do mare.spawn({monitor = share[1]}, life, seed + i, share, left, 1, life) end
local patience = mare.deadline(45 * tonumber(os.getenv "MARE_TEST_SLOW" or "1"))
while #mare.processes() > 1 do
    if patience:left() == 0 then
        for _, p in ipairs(mare.processes()) do print(p.id, p.status) end
        print "somebody does not end"
        os.exit(8)
    end
    pcall(share[1].receive, share[1], 0.01) -- what comes may have a module that is not here
end
print "done"
