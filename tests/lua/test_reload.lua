-- SPDX-License-Identifier: MIT
-- New versions of a module in processes that run: who gets them, what stays, and what is said of
-- versions that fail.
local mare, t, file = require "mare", require "t", require "mare.file"

-- Calls f(write), where write(text) makes a new version of the module `name`.
local function with_module(name, f)
    return t.in_folder(function(folder)
        local before = package.path
        package.path = folder .. "/?.lua;" .. before
        local ok, why = pcall(f, function(text)
            assert(file.write(folder .. "/" .. name .. ".lua", text))
        end, folder)
        package.path = before
        if not ok then error(why, 0) end
    end)
end

-- A process that follows the module, and answers each request with what a function of it returns.
local function server(name)
    local requests, answers, ready = mare.channel(), mare.channel(), mare.channel(1)
    local p = mare.spawn(function()
        local module = require "mare.reload".follow(name)
        ready:send(true)
        for method in requests:messages() do answers:send(module[method]()) end
    end)
    t.ok(ready:receive(t.patience))
    return p, function(method)
        requests:send(method)
        return answers:receive(t.patience)
    end, requests
end

return {
    all_who_follow_it_get_it = with_module("reload_a", function(write)
        local reload = require "mare.reload"
        write "return {say = function() return 'one' end}"
        local all = {}
        for i = 1, 40 do all[i] = {server "reload_a"} end
        for _, one in ipairs(all) do t.eq(one[2] "say", "one") end
        write "return {say = function() return 'two' end}"
        t.eq(all[1][2] "say", "one")
        t.eq({reload "reload_a"}, {40, {}})
        for _, one in ipairs(all) do t.eq(one[2] "say", "two") end
        write "return {say = function() return 'three' end}"
        t.eq({reload("reload_a", {processes = {all[1][1], all[2][1]}})}, {2, {}})
        t.eq({all[1][2] "say", all[2][2] "say", all[3][2] "say"}, {"three", "three", "two"})
        all[1][1]:kill()
        t.fails("killed", all[1][1]:join(t.patience))
        t.eq({reload "reload_a"}, {39, {}})
        for _, one in ipairs(all) do one[3]:close() end
        for i = 2, 40 do t.ok(all[i][1]:join(t.patience)) end
        t.eq({reload "reload_a"}, {0, {}})
    end),

    there_is_one_of_each_table = with_module("reload_b", function(write)
        local reload = require "mare.reload"
        write [[local M, Class = {count = 1, gone = true}, {}
            Class.__index = Class
            M.Class = Class
            function M.new() return setmetatable({}, Class) end
            function Class:say() return "old" end
            return M]]
        local b = reload.follow "reload_b"
        local say, object, class = b.new, b.new(), b.Class
        write [[local M, Class = {}, {}
            Class.__index = Class
            M.Class = Class
            local function bump() M.count = M.count + 1 end
            function M.new() bump() return setmetatable({}, Class) end
            function M.same(class) return class == Class end
            function Class:say() return "new" end
            function M.__reload(old) M.count = old.count + 10 end
            return M]]
        t.eq({reload "reload_b"}, {1, {}})
        t.eq(require "reload_b", b)
        t.eq(object:say(), "new") -- an object of before
        t.ok(b.same(class))
        t.eq(getmetatable(b.new()), class)
        t.eq(b.count, 12) -- the hook's, and bump's: M is b
        t.eq(b.gone, nil)
        t.ok(b.new ~= say)
        t.eq(getmetatable(say()), class) -- who has kept a function has the old one
        t.eq(b.count, 12)
    end),

    a_version_that_fails_changes_nothing = with_module("reload_c", function(write, folder)
        local reload = require "mare.reload"
        write "return {v = 1, f = function() return 1 end}"
        local c = reload.follow "reload_c"
        local _, ask, requests = server "reload_c"
        write "return {\n  v = = 2}"
        local done, why, code = reload "reload_c"
        t.eq({done, code}, {nil, "syntax"})
        t.ok(why:find(folder .. "/reload_c.lua:2:", 1, true), why)
        for text, expected in pairs {
            ["local x = nil\nreturn x.y"] = "reload_c.lua:2: attempt to index a nil value",
            ["return {v = 2, __reload = function(old)\n  error 'no' end}"] = "reload_c.lua:2: no",
            ["return 5"] = "module 'reload_c' is not a table but a number",
        } do
            write(text)
            local failures
            done, failures = reload "reload_c"
            t.eq({done, #failures}, {0, 2})
            for _, failure in ipairs(failures) do
                t.ok(failure.message:find(expected, 1, true), failure.message)
            end
            t.eq({c.v, c.f(), ask "f"}, {1, 1, 1})
        end
        requests:close()
        t.fails("noname", reload "reload_none")
        t.ok(select(2, reload "reload_none"):find "^module 'reload_none' not found:\n\tno file ")
        t.raises("^[^:]*test_reload.lua:%d+: module 'reload_none' not found:\n",
            function() local module = reload.follow "reload_none" return module end)
        t.raises("bad argument #1 to 'reload'", reload)
        t.raises("unknown option 'process'", reload, "reload_c", {process = {}})
    end),

    it_comes_where_the_process_waits = with_module("reload_d", function(write)
        local reload = require "mare.reload"
        write "return {v = 1}"
        local started, go_on, seen = mare.channel(1), mare.channel(1), mare.channel(2)
        local p = mare.spawn(function()
            local d = require "mare.reload".follow "reload_d"
            started:send(true)
            local n = 0
            repeat n = n + d.v until #go_on > 0 -- it calls nothing that waits
            seen:send(n > 0 and d.v)
            mare.sleep(0)
            repeat mare.sleep(0.001) until d.v == 2
            seen:send(d.v)
        end)
        t.ok(started:receive(t.patience))
        write "return {v = 2}"
        local done, failures = reload("reload_d", {timeout = 0.02})
        t.eq({done, #failures, failures[1].process}, {0, 1, p:id()})
        t.ok(failures[1].message:find "it did not wait in time")
        go_on:send(true)
        t.eq(seen:receive(t.patience), 1)
        t.eq(seen:receive(t.patience), 2)
        t.ok(p:join(t.patience))
    end),
}
