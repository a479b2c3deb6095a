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

-- The same for one that waits for other things first.
local function comes_to(p, waits, line, text)
    local row
    t.reaches(function()
        row = row_of(p)
        return row.waits == waits and row.waits_text:find(text)
    end, "process " .. p:id() .. " waits " .. text)
    t.eq(row.at:match ":(%d+)[^:]*$", tostring(line))
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
        end), "select", line() - 1,
            "^in a select of 3 cases, the first: to receive from channel %d+, made at [^ ]+$")
        waits_as(mare.spawn(function()
            mare.select {mare.channel()}
        end), "select", line() - 1,
            "^in a select of 1 case: to receive from channel %d+, made at [^ ]+$")
        local row = waits_as(mare.spawn(function()
            mare.select {awaited, mare.channel()}
        end), "select", line() - 1, "^in a select of 2 cases, the first: for the end of process "
            .. "%d+ %(look%-awaited%)$")
        t.eq({row.process, row.channel}, {awaited:id(), nil})
        waits_as(mare.spawn(function()
            mare.select {mare.timer(1e6), mare.channel()}
        end), "select", line() - 1, "^in a select of 2 cases, the first: for a timer$")
        waits_as(awaited, "time", line() - 20, "time")
    end,

    a_lock_is_named_by_its_module_at_the_program_s_line = function()
        local monitor = require "mare.monitor"
        local lock, held, go = monitor.create(), mare.channel(1), mare.channel()
        local holder = mare.spawn(function()
            monitor.doWhenFree(lock, function() held:send(true) go:receive() end)()
        end)
        t.ok(held:receive(t.patience))
        local waiter = mare.spawn({name = "waiter"}, load([[
            require "mare.monitor".doWhenFree(..., function() end)()
        ]], "=queue"), lock)
        t.reaches(function()
            for _, p in ipairs(mare.processes()) do
                if p.name == "waiter" and p.status == "blocked" then
                    return p.at == "queue:1 (in mare.monitor)"
                end
            end
        end)
        go:send(true)
        t.eq({holder:join(t.patience), waiter:join(t.patience)}, {true, true})
    end,

    a_socket_tells_its_address = function()
        local net = require "mare.net"
        local l <close> = net.listen("127.0.0.1", 0)
        local _, port = l:address()
        local here = "127%.0%.0%.1:" .. port .. "$"
        comes_to(mare.spawn(function()
            net.connect("127.0.0.1", port):read()
        end), "event", line() - 1, "^to read from the stream " .. here)
        local s = t.ok(l:accept(t.patience))
        s:close()
        comes_to(mare.spawn(function()
            net.listen("127.0.0.1", 0):accept()
        end), "event", line() - 1, "^to accept at 127%.0%.0%.1:%d+$")
        comes_to(mare.spawn(function()
            net.udp("127.0.0.1", 0):receive()
        end), "event", line() - 1, "^to read from the datagram socket at 127%.0%.0%.1:%d+$")
        comes_to(mare.spawn(function()
            mare.select {net.listen("127.0.0.1", 0), mare.channel()}
        end), "select", line() - 1,
            "^in a select of 2 cases, the first: to accept at 127%.0%.0%.1:%d+$")
    end,

    a_local_socket_tells_its_path = t.in_folder(function(folder)
        local net = require "mare.net"
        local path = folder .. "/s"
        local l <close> = net.listen(path)
        comes_to(mare.spawn(function()
            net.connect(path):read()
        end), "event", line() - 1, "^to read from the stream /.*/s$")
        comes_to(mare.spawn(function()
            net.listen(path .. "2"):accept()
        end), "event", line() - 1, "^to accept at /.*/s2$")
        t.ok(l:accept(t.patience)):close()
        local client <close> = net.connect(path)
        local answers = mare.spawn(function(s) s:read() end, t.ok(l:accept(t.patience)))
        t.ok(client)
        comes_to(answers, "event", line() - 2, "^to read from the stream at /.*/s$")
    end),

    -- A stream whose descriptor is closed and used again, by others, while somebody looks.
    sockets_come_and_go_while_somebody_looks = function()
        local net = require "mare.net"
        local l <close> = net.listen("127.0.0.1", 0)
        local _, port = l:address()
        local server = mare.spawn(function(listener)
            while true do
                local s = listener:accept()
                mare.go(function() s:read() s:close() end)
            end
        end, l)
        local client = mare.spawn(function()
            for _ = 1, 100 do
                local s <close> = net.connect("127.0.0.1", port)
                local reader = mare.go(function() s:read() end)
                mare.yield()
                s:close()
                reader:join()
            end
        end)
        while client:alive() do
            for _, row in ipairs(mare.processes()) do
                t.ok(row.id ~= client:id() or not row.waits_text or #row.waits_text > 0)
            end
            mare.yield()
        end
        server:kill()
        t.ok(client:join(t.patience))
    end,

    other_events_tell_what_they_are = t.in_folder(function(folder)
        local child, file = require "mare.child", require "mare.file"
        comes_to(mare.spawn(function() mare.timer(1e6):wait() end), "event", line(),
            "^for a timer$")
        comes_to(mare.spawn(function() file.watch(folder):next() end), "event", line(),
            "^for a change of " .. folder:gsub("%W", "%%%0") .. "$")
        local pid = mare.channel(1)
        comes_to(mare.spawn(function()
            local cat = child.spawn {"cat", stdin = "pipe"}
            pid:send(cat:pid())
            cat:wait()
        end), "event", line() - 1,
            "^for the end of the program with pid " .. t.ok(pid:receive(t.patience)) .. "$")
    end),

    a_call_tells_whom_and_which_function = function()
        local rpc, sc = require "mare.rpc", require "mare.sc"
        local bank = mare.spawn({name = "look-bank"}, function()
            rpc.export("transfer", function() mare.sleep(1e6) end)
            rpc.export("get", function() end)
            sc.add_constraint("get", function() return false end)
            rpc.serve()
        end)
        local text = "^for the answer of process " .. bank:id() .. " %(look%-bank%) to '"
        local row = comes_to(mare.spawn(function()
            local _ = rpc.sync(bank, "transfer")()
        end), "call", line() - 1, text .. "transfer'$")
        t.eq({row.process, row.channel}, {bank:id(), nil})
        comes_to(mare.spawn(function() -- its guard says no
            local _ = rpc.sync("look-bank", "get", 1e6)()
        end), "call", line() - 1, text .. "get'$")
        bank:kill()
    end,

    -- The request itself cannot be sent yet.
    a_call_tells_that_the_process_does_not_serve_or_has_no_room = function()
        local rpc = require "mare.rpc"
        local idle = mare.spawn({name = "look-idle"}, function() mare.sleep(1e6) end)
        local row = comes_to(mare.spawn(function()
            rpc.patience = 1e6
            local _ = rpc.sync(idle, "pay")()
        end), "serve", line() - 1,
            "^for process " .. idle:id() .. " %(look%-idle%) to serve its function 'pay'$")
        t.eq({row.process, row.channel}, {idle:id(), nil})
        idle:kill()
        local computes = mare.spawn({name = "look-busy"}, function()
            rpc.serve()
            mare.sleep(0)
            while true do local _ = {} end
        end)
        row = comes_to(mare.spawn(function()
            for _ = 1, 1e6 do rpc.async(computes, "pay")("twice") end
        end), "room", line() - 1,
            "^for room in the inbox of process " .. computes:id()
                .. " %(look%-busy%) for a call of 'pay'$")
        t.eq({row.process, row.channel}, {computes:id(), nil})
        computes:kill()
    end,

    -- Lua forgets the line of a tail call, if what is called is a function in Lua.
    a_tail_call_is_called_that = function()
        local rpc, ch = require "mare.rpc", mare.channel()
        local bank = mare.spawn(function()
            rpc.export("pay", function() mare.sleep(1e6) end)
            rpc.serve()
        end)
        waits_as(mare.spawn(function() return ch:receive() end), "receive", line(), "channel")
        local p, row = mare.spawn(function() return rpc.sync(bank, "pay")() end), nil
        t.reaches(function()
            row = row_of(p)
            return row.waits == "call"
        end)
        t.eq(row.at, "a tail call (in mare.rpc)")
        t.ok(row.waits_text:find "to 'pay'$", row.waits_text)
        p:kill()
        p = mare.spawn(function() -- here the line that called the caller is there
            local function pay() return rpc.sync(bank, "pay")() end
            local _ = pay()
        end)
        comes_to(p, "call", line() - 2, "to 'pay'$")
        bank:kill()
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
