-- SPDX-License-Identifier: MIT
-- What mare.processes() tells of a program that runs: who waits, where, for what, and who had the
-- processor.
local mare, t = require "mare", require "t"

-- The row of a process, once it is at rest.
local function row_of(p, status)
    local found
    t.reaches(function()
        for _, row in ipairs(mare.processes()) do
            if row.id == p:id() then found = row end
        end
        return found and found.status == (status or "blocked")
    end, "process " .. p:id() .. " waits")
    return found
end

local function waits_as(p, waits, line, text)
    local row = row_of(p)
    t.eq({row.waits, row.at and row.at:match ":(%d+)$"}, {waits, tostring(line)})
    t.ok(row.at:find "test_look.lua", row.at)
    t.ok(row.waits_text:find(text), row.waits_text)
    p:kill()
    return row
end

local function line()
    return debug.getinfo(2, "l").currentline
end

return {
    a_receive_names_the_channel = function()
        local ch = mare.channel(0)
        local made = line() - 1
        local p = mare.spawn(function() ch:receive() end)
        local row = waits_as(p, "receive", line() - 1, "^to receive from channel %d+, made at ")
        t.eq(row.waits_text:match "made at .*:(%d+)$", tostring(made))
        t.eq(row.channel, tonumber(tostring(ch):match "%d+"))
        local named = mare.channel(0, "look-jobs")
        p = mare.spawn(function() named:receive() end)
        waits_as(p, "receive", line() - 1, "^to receive from channel %d+ %(look%-jobs%)$")
        named:close()
    end,

    a_send_a_join_a_select_and_a_sleep = function()
        local ch = mare.channel(0)
        local p = mare.spawn(function() ch:send(1) end)
        waits_as(p, "send", line() - 1, "^to send to channel %d+")
        local awaited = mare.spawn({name = "look-awaited"}, function() mare.sleep(1e6) end)
        waits_as(mare.spawn(function()
            awaited:join()
        end), "join", line() - 1, "^for the end of process %d+ %(look%-awaited%)$")
        waits_as(mare.spawn(function()
            mare.select {mare.channel(), mare.channel(), mare.channel()}
        end), "select", line() - 1, "^in a select of 3 cases$")
        waits_as(awaited, "time", line() - 7, "time")
    end,

    a_socket_is_an_event = function()
        local net = require "mare.net"
        local p = mare.spawn(function()
            local l <close> = net.listen("127.0.0.1", 0)
            l:accept()
        end)
        waits_as(p, "event", line() - 2, "socket")
    end,

    -- A path as long as Lua's messages have room for ends with the name of its file.
    a_long_path_keeps_the_name_of_its_file = function()
        local name = "@/" .. ("folder/"):rep(7) .. "app.lua"
        local p = mare.spawn(assert(load("require 'mare'.sleep(1e6)", name)))
        t.eq(row_of(p).at, name:sub(2) .. ":1")
        p:kill()
    end,

    a_coroutine_tells_its_own_line = function()
        local p = mare.spawn(function()
            coroutine.wrap(function()
                mare.channel():receive()
            end)()
        end)
        waits_as(p, "receive", line() - 3, "channel")
    end,

    each_routine_is_told_of = function()
        local p = mare.spawn(function()
            mare.go(function() mare.channel():receive() end)
            mare.go(function() mare.sleep(1e6) end)
            mare.channel():send(1)
        end)
        local first, row = line() - 4, nil
        t.reaches(function()
            row = row_of(p)
            return #(row.routines or {}) == 3
        end)
        local got = {}
        for i, routine in ipairs(row.routines) do
            t.eq(routine.id, i)
            got[i] = routine.waits .. routine.at:match ":(%d+)$"
        end
        t.eq(got, {"send" .. first + 2, "receive" .. first, "time" .. first + 1})
        t.eq({row.waits, row.at}, {row.routines[1].waits, row.routines[1].at})
        p:kill()
    end,

    one_that_computes_is_charged = function()
        local p = mare.spawn(function() while true do local _ = {} end end)
        t.reaches(function() return row_of(p, "running").cpu > 0.01 end, "it had the processor")
        p:kill()
        for _, row in ipairs(mare.processes()) do t.ok(row.cpu >= 0, row.cpu) end
    end,

    -- Each of its turns is shorter than a tick, and the worker sleeps between them.
    one_that_computes_a_little_at_a_time_is_charged_too = function()
        local begun = os.clock()
        local p = mare.spawn(function()
            while true do
                local x = 0
                for i = 1, 20000 do x = x + i end
                mare.sleep(0.0005)
            end
        end)
        local id = p:id()
        t.reaches(function()
            mare.sleep(0.02)
            local used = os.clock() - begun
            for _, row in ipairs(mare.processes()) do
                if row.id == id then return used > 0.1 and row.cpu > used / 10 end
            end
        end, "ticks meet it as often as they should")
        p:kill()
    end,

    looking_is_safe_while_all_is_in_motion = function()
        local stop = mare.channel(1)
        local function pair()
            local a, b = mare.channel(), mare.channel(2)
            for _, way in ipairs {{a, b}, {b, a}} do
                mare.spawn(function()
                    local from, to = way[1], way[2]
                    mare.go(function() while true do mare.yield() mare.sleep(0) end end):detach()
                    for i = 1, 1e9 do
                        if not to:send(1, i) then return end
                        if i % 7 == 0 then mare.spawn(function() return {} end):join() end
                        if not from:receive(1) then return end
                    end
                end)
            end
            return a, b
        end
        local channels = {}
        for _ = 1, 3 do
            channels[#channels + 1], channels[#channels + 2] = pair()
        end
        local lookers = {}
        for i = 1, 2 do
            lookers[i] = mare.spawn(function()
                local n = 0
                while select(3, stop:tryreceive()) ~= "closed" do
                    for _, row in ipairs(mare.processes()) do
                        assert(row.id > 0 and (not row.at or #row.at > 0))
                        n = n + 1
                    end
                end
                return n
            end)
        end
        mare.sleep(0.1)
        stop:close()
        for _, p in ipairs(lookers) do
            local ok, n = p:join(t.patience)
            t.ok(ok and n > 0, n)
        end
        for _, ch in ipairs(channels) do ch:close() end
    end,
}
