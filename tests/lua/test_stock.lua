-- SPDX-License-Identifier: MIT
-- The stock lua5.4 with mare.so: its own state takes part, and its end waits for the processes.
local t, shell = require "t", require "shell"

local function ends(expected, text)
    if not shell.has_stock() then t.skip "lua5.4 cannot load this mare.so" end
    local got = shell.stock("local mare = require 'mare'\n" .. text)
    t.eq({out = got.out, err = got.err, code = got.code}, expected)
end

local function prints(expected, text)
    ends({out = expected, err = "", code = 0}, text)
end

return {
    spawn_and_join = function()
        prints("42\tdied\tkilled\ttimeout\n", [[
            local _, a = mare.spawn(function(x) return x * 2 end, 21):join()
            local _, _, b = mare.spawn(error, "oops"):join()
            local p = mare.spawn(function() mare.channel():receive() end)
            local _, _, d = p:join(0.001)
            p:kill()
            local _, _, c = p:join(10)
            print(a, b, c, d)
        ]])
    end,

    channels = function()
        prints("1\tthree\n10\n55\nclosed\n", [[
            local there, back = mare.channel(), mare.channel(2)
            mare.spawn(function() back:send(there:receive()) end)
            there:send(1, "three")
            print(back:receive())
            mare.spawn(function() for i = 1, 10 do there:send(i) end there:close() end)
            local n, sum = 0, 0
            for i in there:messages() do n, sum = n + 1, sum + i end
            print(n)
            print(sum)
            print((select(3, there:receive())))
        ]])
    end,

    -- Their memory goes without a finalizer's word, and may be anything's next.
    references_without_their_metatable_do_no_harm = function()
        local library = debug.getinfo(1, "S").source:match "^@(.*)tests/lua/" .. "lua/?.lua;"
        prints("55\t7\nclosed\n", ("package.path = %q .. package.path\n"):format(library) .. [[
            local net = require "mare.net"
            local kept, listener = {}, assert(net.listen("127.0.0.1", 0))
            listener:accept(0.001) -- so that it is watched
            for round = 1, 5 do
                for i = 1, 200 do
                    local channel = mare.channel(1)
                    kept[i % 10 + 1] = mare.channel(1)
                    channel:send(i)
                    if i % 3 == 0 then debug.setmetatable(channel, nil) end
                    if i % 3 == 1 then debug.setmetatable(channel, {}) end
                end
                local buffer = mare.buffer "sent away"
                kept[1]:send(buffer)
                kept[1]:receive()
                debug.setmetatable(buffer, nil)
                debug.setmetatable(mare.spawn(function() end), nil)
                collectgarbage()
                collectgarbage()
                local others = {}
                for i = 1, 1000 do others[i] = ("%d"):format(i):rep(20) end
            end
            local sum = 0
            for i, channel in ipairs(kept) do
                channel:send(i)
                sum = sum + channel:receive()
            end
            local _, seven = mare.spawn(function() return 7 end):join()
            print(sum, seven)
            debug.getmetatable(kept[2]).__gc = nil
            kept[2] = nil
            debug.setmetatable(listener, nil)
            listener = nil
            collectgarbage()
            kept[1]:close()
            print((select(3, kept[1]:receive())))
        ]])
    end,

    select_of_every_kind = function()
        prints("2\thello\n1\ttrue\n3\ttrue\t7\ntimeout\nclosed\n", [[
            local a, b, sink = mare.channel(), mare.channel(), mare.channel()
            mare.spawn(function() b:send "hello" end)
            print(mare.select({a, b}))
            mare.spawn(function() sink:receive() end)
            print(mare.select({{sink, 1}}))
            local p = mare.spawn(function() return 7 end)
            print(mare.select({a, b, p}))
            print((select(3, mare.select({a}, 0.001))))
            a:close()
            print((select(4, mare.select({a}))))
        ]])
    end,

    waits_inside_coroutines_and_callbacks = function()
        prints("received\t1 2 3\n", [[
            local ch = mare.channel()
            mare.spawn(function() ch:send "received" ch:send(1) ch:send(1) end)
            local got = coroutine.wrap(function() return ch:receive() end)()
            local list = {3, 1, 2}
            local waited = 0
            table.sort(list, function(x, y)
                if waited < 2 then waited = waited + ch:receive() end
                return x < y
            end)
            print(got, table.concat(list, " "))
        ]])
    end,

    coroutines_that_are_older_than_the_library = function()
        -- They know nothing of it, so each function must; those that are made on the way, too.
        if not shell.has_stock() then t.skip "lua5.4 cannot load this mare.so" end
        local got = shell.stock [[
            local co = coroutine.wrap(function(mare, messages, ch, deadline)
                local sum = 0
                for n in messages, ch do sum = sum + n end
                return sum, deadline:left() > 0, type(mare.channel().send)
            end)
            local mare = require "mare"
            local ch = mare.channel(2)
            ch:send(1) ch:send(2) ch:close()
            local messages = ch:messages()
            print(co(mare, messages, ch, mare.deadline(60)))
        ]]
        t.eq({got.out, got.err, got.code}, {"3\ttrue\tfunction\n", "", 0})
    end,

    sleep_deadlines_and_now = function()
        prints("true\ttrue\n", [[
            local start, d = mare.now(), mare.deadline(0.01)
            mare.sleep(0.005)
            mare.sleep(d)
            print(mare.now() - start >= 0.01, d:left() == 0)
        ]])
    end,

    the_end_waits_for_processes = function()
        prints("main\nother\n", [[
            local go = mare.channel(1)
            mare.spawn(function() go:receive() mare.sleep(0.02) print "other" end)
            print "main"
            go:send()
        ]])
    end,

    wait_waits = function()
        prints("other\nmain\ntimeout\n", [[
            mare.spawn(function() mare.sleep(0.01) print "other" end)
            mare.wait()
            print "main"
            local p = mare.spawn(function() mare.channel():receive(60) end)
            print((select(3, mare.wait(0.001))))
            p:kill()
        ]])
    end,

    exits = function()
        ends({out = "", err = "", code = 7}, "os.exit(7)")
        ends({out = "", err = "", code = 7}, "os.exit(7, true)")
        ends({out = "", err = "", code = 8}, [[
            mare.spawn(function() os.exit(8) end)
            mare.channel():receive(10)
        ]])
        ends({out = "", err = "", code = 9}, [[
            mare.spawn(function() while true do end end)
            mare.exit(9)
        ]])
    end,

    an_error_of_main_is_reported_by_the_interpreter = function()
        if not shell.has_stock() then t.skip "lua5.4 cannot load this mare.so" end
        local got = shell.stock "require 'mare'.spawn(print, 'other') error 'oops'"
        t.eq({got.out, got.code}, {"other\n", 1})
        t.ok(got.err:find "^lua5.4: .*oops", got.err)
    end,

    processes_that_wait_for_ever_are_ended = function()
        if not shell.has_stock() then t.skip "lua5.4 cannot load this mare.so" end
        local got = shell.stock [[
            local mare = require "mare"
            for _ = 1, 2 do mare.spawn(function() mare.channel():receive() end) end
        ]]
        t.eq({got.out, got.code}, {"", 0})
        t.ok(got.err:find "^mare: deadlock: 2 processes wait", got.err)
    end,

    messages_and_refusals_are_the_same = function()
        prints("table\t9223372036854775807\tfloat\narg 1, field 'f': a file cannot travel\n", [[
            local ch = mare.channel(1)
            ch:send({x = {}}, math.maxinteger, 1.0)
            local a, b, c = ch:receive()
            print(type(a.x), b, math.type(c))
            print((select(2, pcall(ch.send, ch, {f = io.stdout}))))
        ]])
    end,

    upvalues_travel_from_the_hosts_state = function()
        prints("3\ttrue\n", [[
            local n, list = 1, {2}
            local function f() return n + list[1], mare.self() ~= nil end
            print(select(2, mare.spawn(f):join()))
        ]])
    end,

    self_and_links = function()
        prints("running\tdied\n", [[
            local me = mare.self()
            local _, news = mare.spawn({monitor = true}, error, "x")
            print(me:status(), (select(2, news:receive())))
        ]])
    end,

    -- Objects are finalized in the opposite order of their birth, so this one after the runtime.
    finalizers_that_run_after_the_end = function()
        if not shell.has_stock() then t.skip "lua5.4 cannot load this mare.so" end
        local got = shell.stock [[
            local mare, ch
            Kept = setmetatable({}, {__gc = function()
                print(pcall(mare.spawn, function() end))
                print(pcall(ch.send, ch, 1))
                print(pcall(mare.now))
            end})
            mare = require "mare"
            ch = mare.channel(1)
        ]]
        local ended = "false\tthe runtime has ended\n"
        t.eq({got.out, got.err, got.code}, {ended:rep(3), "", 0})
    end,

    c_modules_and_threads_of_workers = function()
        prints("[1,2]\t4\n", [[
            mare.workers(4)
            local _, s = mare.spawn(function() return require "cjson".encode {1, 2} end):join()
            print(s, mare.workers())
        ]])
    end,
}
