-- SPDX-License-Identifier: MIT
-- A million channels: made, some of them used, all let go, and their memory serves the next ones.
local mare, t = require "mare", require "t"

local ALL = 1000000 // (t.gc_stress and 200 or t.slow > 1 and 20 or 1)

-- Resident memory of the whole program, in MiB.
local function resident()
    for line in io.lines "/proc/self/status" do
        local kilobytes = line:match "^VmRSS:%s+(%d+) kB"
        if kilobytes then return kilobytes // 1024 end
    end
end

-- A leak of the rounds after the first would multiply the memory. One worker, for malloc keeps what
-- a thread has freed for that thread. Allocators that keep freed blocks back, as sanitizers do,
-- cannot be judged; there, nothing may be left at the end.
local function rounds_need_no_more_than_the_first(round)
    t.with_workers(1, function()
        round()
        local first = resident()
        for _ = 1, 2 do round() end
        local last = resident()
        if t.slow == 1 then
            t.ok(last < first * 1.5, ("%d MiB after one round, %d after three"):format(first, last))
        end
    end)
end

return {
    in_one_process = {function()
        rounds_need_no_more_than_the_first(function()
            t.eq({mare.spawn(function(count)
                local list = {}
                for i = 1, count do list[i] = mare.channel(i % 3) end
                for i = 1, count, 1000 do
                    local ch = list[i]
                    local sender = mare.spawn(function() ch:send(i) end)
                    assert(ch:receive() == i)
                    assert(sender:join())
                end
                local full = collectgarbage "count"
                for i = #list, 1, -1 do list[i] = nil end
                collectgarbage() -- finalizes them
                collectgarbage() -- and frees them; the tables that held them stay large
                assert(collectgarbage "count" < full / 2, collectgarbage "count")
            end, ALL):join(t.patience * 5)}, {true})
        end)
    end, timeout = 180},

    in_twenty_processes_that_end_holding_them = {function()
        rounds_need_no_more_than_the_first(function()
            local here, go = mare.channel(), mare.channel()
            local holders = {}
            for i = 1, 20 do
                holders[i] = mare.spawn(function(count)
                    local list = {}
                    for k = 1, count do list[k] = mare.channel(1) end
                    list[1]:send {list[count]} -- a channel in a message in a channel
                    here:send(list[2])
                    go:receive()
                    return #list
                end, ALL // 20)
            end
            for _ = 1, 20 do -- while all are there
                local ch = t.ok(here:receive(t.patience * 5))
                ch:send "from outside"
                t.eq(ch:receive(), "from outside")
            end
            go:close()
            for _, p in ipairs(holders) do t.eq({p:join(t.patience)}, {true, ALL // 20}) end
        end)
    end, timeout = 180},

    as_names = {function()
        local count, list = ALL // 20, {}
        for i = 1, count do list[i] = t.ok(mare.channel(1, "many." .. i)) end
        for i = 1, count, 100 do t.ok(mare.find("many." .. i) == list[i]) end
        for i = 1, count do list[i]:close() end
        for i = 1, count, 100 do t.eq(mare.find("many." .. i), nil) end
    end, timeout = 180},
}
