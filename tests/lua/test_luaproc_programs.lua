-- SPDX-License-Identifier: MIT
-- Whole programs as people wrote them for luaproc, unchanged: under mare, and under lua5.4 with the
-- shared object.
local t, shell = require "t", require "shell"

local function prints(expected, text)
    local got = shell.lua(text)
    t.eq({got.out, got.err, got.code}, {expected, "", 0}, "mare")
    if shell.has_stock() then
        got = shell.stock(text)
        t.eq({got.out, got.err, got.code}, {expected, "", 0}, "lua5.4")
    end
end

return {
    hello = function()
        prints("hello world\n", [[
            local luaproc = require "luaproc"
            luaproc.newproc [=[ print "hello world" ]=]
        ]])
    end,

    a_ring = function()
        prints("503\n", [=[
            luaproc = require "luaproc"
            luaproc.setnumworkers(2)
            local n = 503
            for i = 1, n do luaproc.newchannel("c" .. i) end
            luaproc.newchannel "main"
            for i = 1, n do
                assert(luaproc.newproc(string.format([[
                    local token = luaproc.receive("c%d")
                    if %d == %d then
                        luaproc.send("main", token + 1)
                    else
                        luaproc.send("c%d", token + 1)
                    end
                ]], i, i, n, i + 1)))
            end
            luaproc.send("c1", 0)
            print(luaproc.receive "main")
            luaproc.wait()
        ]=])
    end,

    a_parallel_sum = function()
        prints("500000500000\n", [=[
            local luaproc = require "luaproc"
            luaproc.setnumworkers(4)
            luaproc.newchannel "sums"
            local parts, size = 10, 100000
            for i = 1, parts do
                local first, last = (i - 1) * size + 1, i * size
                luaproc.newproc(function()
                    local sum = 0
                    for k = first, last do sum = sum + k end
                    luaproc.send("sums", sum)
                end)
            end
            local total = 0
            for i = 1, parts do total = total + luaproc.receive "sums" end
            print(total)
        ]=])
    end,

    polling_with_async_receives = function()
        prints("no senders waiting on channel 'news'\nnews at last\n", [=[
            local luaproc = require "luaproc"
            luaproc.newchannel "news"
            print(select(2, luaproc.receive("news", true)))
            luaproc.newproc [[ luaproc.send("news", "news at last") ]]
            local got
            repeat got = luaproc.receive("news", true) until got
            print(got)
        ]=])
    end,

    wait_and_go_on = function()
        prints("10\nafter\n", [=[
            local luaproc = require "luaproc"
            luaproc.newchannel "count"
            for i = 1, 10 do
                luaproc.newproc [[ luaproc.send("count", 1) ]]
            end
            local n = 0
            for i = 1, 10 do n = n + luaproc.receive "count" end
            luaproc.wait()
            print(n)
            luaproc.newproc [[ print "after" ]]
            luaproc.wait()
        ]=])
    end,

    recycled_processes = function()
        prints("1000\tnil\n", [=[
            local luaproc = require "luaproc"
            luaproc.recycle(10)
            luaproc.newchannel "r"
            local n, leak = 0, nil
            for i = 1, 1000 do
                luaproc.newproc [[ luaproc.send("r", leaked); leaked = 1 ]]
                leak = leak or luaproc.receive "r"
                n = n + 1
            end
            luaproc.wait()
            print(n, leak)
        ]=])
    end,

    producer_and_consumer = function()
        prints("consumer got 1\nconsumer got 2\nconsumer got 3\nconsumer ends\n", [=[
            require "luaproc".newchannel "items"
            local luaproc = require "luaproc"
            luaproc.newproc [[
                for i = 1, 3 do luaproc.send("items", i) end
                luaproc.send("items", false)
            ]]
            luaproc.newproc [[
                while true do
                    local item = luaproc.receive "items"
                    if not item then break end
                    print("consumer got " .. item)
                end
                print "consumer ends"
            ]]
        ]=])
    end,

    the_end_of_main_waits = function()
        prints("main\nprocess\n", [=[
            local luaproc = require "luaproc"
            luaproc.newchannel "go"
            luaproc.newproc [[ luaproc.receive "go" luaproc.newproc "print 'process'" ]]
            print "main"
            luaproc.send "go"
        ]=])
    end,

    a_program_in_which_nothing_can_move_says_so_and_ends = function()
        -- As any wait does; luaproc itself would hang. A loop that ignored it would never end.
        for _, call in ipairs {"receive 'box'", "send('box', 1)", "wait()"} do
            local got = shell.lua(([=[
                local luaproc = require "luaproc"
                luaproc.newchannel "box"
                luaproc.newchannel "other"
                luaproc.newproc [[ luaproc.receive "other" ]]
                while true do luaproc.%s end
            ]=]):format(call))
            t.eq({got.out, got.code}, {"", 1}, call)
            t.ok(got.err:find "^mare: .*deadlock: every process waits", got.err)
        end
    end,
}
