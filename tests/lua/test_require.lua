-- SPDX-License-Identifier: MIT
-- Modules: in Lua from a folder, in C from Debian, preloaded, and ones that wait while they load.
local mare, t = require "mare", require "t"

-- A folder with the given files, for package.path; removed when closed.
local function folder(files)
    local name = os.tmpname()
    os.remove(name)
    assert(os.execute("mkdir -p " .. name .. "/sub"))
    for file, text in pairs(files) do
        local handle = assert(io.open(name .. "/" .. file, "w"))
        handle:write(text)
        handle:close()
    end
    return setmetatable({name = name}, {__close = function() os.execute("rm -r " .. name) end})
end

local function there(f, ...)
    local results = table.pack(mare.spawn(f, ...):join(t.patience))
    if not results[1] then error(results[2], 2) end
    return table.unpack(results, 2, results.n)
end

-- Runs a piece of Lua in a new process that finds its modules in the folder.
local function with(dir, code, ...)
    local path = ("package.path = '%s/?.lua;%s/?/init.lua'\n"):format(dir.name, dir.name)
    return there(path .. code, ...)
end

return {
    a_module_in_lua = function()
        local dir <close> = folder {["m.lua"] = "return {name = ..., file = select(2, ...)}"}
        t.eq({with(dir, "local m, where = require 'm'; return m.name, m.file, where")},
            {"m", dir.name .. "/m.lua", dir.name .. "/m.lua"})
    end,

    a_module_is_loaded_once = function()
        local dir <close> = folder {["m.lua"] = "loads = (loads or 0) + 1; return {}"}
        t.eq({with(dir, [[
            local m = require "m"
            return m == require "m", loads, m == package.loaded.m
        ]])}, {true, 1, true})
    end,

    each_process_loads_its_own = function()
        local dir <close> = folder {["m.lua"] = "return {n = 0}"}
        local code = "local m = require 'm'; m.n = m.n + 1; return m.n"
        t.eq({with(dir, code), (with(dir, code))}, {1, 1})
    end,

    modules_in_folders = function()
        local dir <close> = folder {["sub/a.lua"] = "return 'a'", ["sub/init.lua"] = "return 'i'"}
        t.eq({with(dir, "return (require 'sub.a'), (require 'sub')")}, {"a", "i"})
    end,

    a_module_that_returns_nothing_is_true = function()
        local dir <close> = folder {["m.lua"] = "x = 1", ["f.lua"] = "return false"}
        t.eq({with(dir, "return (require 'm'), x, (require 'f')")}, {true, 1, false})
    end,

    a_module_can_set_itself = function()
        local dir <close> = folder {["m.lua"] = "package.loaded[...] = 'set'"}
        t.eq(with(dir, "return (require 'm')"), "set")
    end,

    modules_require_modules = function()
        local dir <close> = folder {
            ["a.lua"] = "return {b = require 'b'}", ["b.lua"] = "return {c = require 'string'}"}
        t.eq(with(dir, "return require 'a'.b.c == string"), true)
    end,

    a_module_that_is_not_there_tells_where_it_looked = function()
        local dir <close> = folder {}
        local err = with(dir, "return select(2, pcall(require, 'nosuch.module'))")
        t.ok(err:find "module 'nosuch.module' not found:", err)
        t.ok(err:find("no field package.preload['nosuch.module']", 1, true), err)
        t.ok(err:find("no file '" .. dir.name .. "/nosuch/module.lua'", 1, true), err)
    end,

    a_module_with_a_mistake = function()
        local dir <close> = folder {["m.lua"] = "x =", ["e.lua"] = "error 'while loading'"}
        t.ok(with(dir, "return select(2, pcall(require, 'm'))"):find "error loading module 'm'")
        t.ok(with(dir, "return select(2, pcall(require, 'e'))"):find "while loading")
        t.eq(with(dir, "pcall(require, 'e'); return package.loaded.e"), nil)
    end,

    preload_comes_first = function()
        t.eq({there [[
            package.preload.mine = function(name, where) return {name, where} end
            local m, where = require "mine"
            return m[1], m[2], where
        ]]}, {"mine", ":preload:", ":preload:"})
    end,

    searchers_can_be_added = function()
        t.eq(there [[
            table.insert(package.searchers, function(name)
                if name:find "^made%." then return function(n, x) return n .. x end, "!" end
                return "nothing of mine"
            end)
            return (require "made.up")
        ]], "made.up!")
        t.ok(there [[
            package.searchers = nil
            return select(2, pcall(require, "x"))
        ]]:find "'package.searchers' must be a table")
    end,

    searchpath_works = function()
        local dir <close> = folder {["m.lua"] = ""}
        t.eq(with(dir, "return package.searchpath('m', package.path)"), dir.name .. "/m.lua")
    end,

    a_module_that_waits_while_it_loads = function()
        local dir <close> = folder {["slow.lua"] = [[
            local mare = require "mare"
            mare.sleep(0.001)
            local ch = mare.channel()
            mare.spawn(function() ch:send "made while loading" end)
            return {value = ch:receive()}
        ]]}
        t.eq(with(dir, "return require 'slow'.value"), "made while loading")
        t.eq(with(dir, "return coroutine.wrap(function() return require 'slow'.value end)()"),
            "made while loading")
    end,

    a_module_as_an_upvalue_is_required_by_the_receiver = function()
        local dir <close> = folder {["m.lua"] = "return {f = function() return 'called' end}"}
        t.eq({with(dir, [[
            local mare, m = require "mare", require "m"
            return mare.spawn(function() return m.f() end):join()
        ]])}, {true, "called"})
        t.eq(with(dir, [[
            local mare, m = require "mare", require "m"
            local ch = mare.channel(1)
            ch:send(m)
            return ch:receive() == m
        ]]), true)
    end,

    the_paths_are_inherited = function()
        local dir <close> = folder {["m.lua"] = "return 'found'"}
        t.eq({with(dir, [[
            local mare = require "mare"
            package.cpath = "/nowhere/?.so"
            local function paths() return package.path, package.cpath end
            local function deeper() return require "mare".spawn(paths):join() end
            local child, grandchild = {mare.spawn(paths):join()}, {mare.spawn(deeper):join()}
            package.cpath = "/elsewhere/?.so"
            local later = {mare.spawn(paths):join()}
            local _, m = mare.spawn(function() return (require "m") end):join()
            local path = package.path
            return child[2] == path, child[3], grandchild[3] == path, grandchild[4], later[3], m
        ]])}, {true, "/nowhere/?.so", true, "/nowhere/?.so", "/elsewhere/?.so", "found"})
        t.ok(there "return package.path" == package.path, "what nobody has changed")
    end,

    preloaded_modules_are_inherited = function()
        t.eq({there [[
            local mare, loads = require "mare", {"a list that goes along"}
            package.preload.one = function(name, data) return {name, data, loads[1]} end
            package.preload.slow = function() mare.sleep(0.001) return "waited" end
            local function get()
                local m = require "one"
                return m[1], m[2], m[3], (require "slow")
            end
            local first = table.pack(mare.spawn(get):join())
            local function deeper()
                package.preload.two = function() return "second" end
                return require "mare".spawn(function()
                    return require "one"[3], (require "two")
                end):join()
            end
            local second = table.pack(mare.spawn(deeper):join())
            package.preload.one = nil
            local _, gone = mare.spawn(function() return pcall(require, "one") end):join()
            package.preload["socket.core"] = nil
            local _, ours = mare.spawn(function() return package.preload["socket.core"] end):join()
            return first[2], first[3], first[4], first[5], second[3], second[4], gone, ours
        ]]}, {"one", ":preload:", "a list that goes along", "waited", "a list that goes along",
            "second", false, nil})
    end,

    a_loader_that_cannot_be_inherited_says_so = function()
        local err = there [[
            local mare, stuck = require "mare", coroutine.create(print)
            package.preload.mine = function() return stuck end
            return select(3, mare.spawn(function() return pcall(require, "mine") end):join())
        ]]
        t.ok(err:find("package.preload of the process that started this one was not copied", 1,
            true), err)
        t.ok(err:find("upvalue 'stuck'", 1, true), err)
        err = there [[return select(2, pcall(require, "nosuch"))]]
        t.ok(err:find("(a process has the package.path, package.cpath and package.preload of", 1,
            true), err)
    end,

    loaders_that_change_the_loaders_while_they_are_copied = function()
        t.eq({there [[
            local mare = require "mare"
            local odd = setmetatable({}, {__travel = function()
                for i = 1, 300 do package.preload["more" .. i] = function() return i end end
                package.preload.first = nil
                return "odd", 7
            end})
            package.preload.odd = function() return {arrive = function(v) return v end} end
            for _, name in ipairs {"first", "second", "third"} do
                package.preload[name] = function() return odd end
            end
            local function load_all()
                return require "first", require "third", (pcall(require, "more3"))
            end
            local ok, first, third, more = mare.spawn(load_all):join()
            package.preload.first = function() return 1 end
            package.preload.third = nil
            local function load_more() return (require "more3") end
            return ok, first, third, more, mare.spawn(load_more):join()
        ]]}, {true, 7, 7, false, true, 3})
    end,

    -- What is read was inherited, and what reads it inherits something else.
    a_loader_whose_module_spawns_as_it_arrives = function()
        t.eq({there [[
            local mare = require "mare"
            package.preload.odd = function()
                return {arrive = function(v)
                    package.preload.mine = nil
                    require "mare".spawn(function() end)
                    return v
                end}
            end
            local function odd(v)
                return setmetatable({}, {__travel = function() return "odd", v end})
            end
            local values = {odd(("x"):rep(1000)), odd(2), ("y"):rep(1000)}
            package.preload.mine = function() return values end
            local go = mare.channel()
            local p = mare.spawn(function()
                go:receive()
                local values = require "mine"
                return #values[1], values[2], values[3] == ("y"):rep(1000)
            end)
            package.path = "?.lua"
            mare.spawn(function() end):join() -- now only p has what it inherited
            go:send()
            return p:join()
        ]]}, {true, 1000, 2, true})
    end,

    a_loader_that_is_not_inherited_keeps_nothing = function()
        t.eq(there [[
            local mare = require "mare"
            local function count()
                collectgarbage()
                local n = 0
                for _, c in ipairs(mare.channels()) do n = n + (c.capacity == 77 and 1 or 0) end
                return n
            end
            local ch = mare.channel(77)
            package.preload.mine = function() return ch end
            mare.spawn(function() end):join()
            package.preload.mine, ch = nil, nil
            return count()
        ]], 0)
    end,

    who_has_handed_on_paths_of_its_own_looks_there = function()
        local err = there [[
            package.path = "/nowhere/?.lua"
            require "mare".spawn(function() end):join()
            return select(2, pcall(require, "nosuch"))
        ]]
        t.ok(err:find("no file '/nowhere/nosuch.lua'", 1, true), err)
        t.ok(not err:find("the one that started it", 1, true), err)
    end,

    -- As the stock interpreter says it, where nothing is inherited any more.
    what_is_not_found_where_a_process_looks_itself = function()
        t.eq(there [[
            package.path, package.cpath = "?.lua;?/?", "?.so"
            return select(2, pcall(require, "XXX"))
        ]], "module 'XXX' not found:\n\tno field package.preload['XXX']\n\tno file 'XXX.lua'"
            .. "\n\tno file 'XXX/XXX'\n\tno file 'XXX.so'")
    end,

    what_is_inherited_by_many = function()
        -- Shared by all and freed with the last, whoever ends first.
        t.eq({there [[
            local mare, sum = require "mare", 0
            package.preload.number = function() return 7 end
            local list = {}
            for i = 1, 50 do
                list[i] = mare.spawn(function(n) return (require "number") * n end, i)
                if i % 10 == 0 then package.path = package.path .. ";/x" .. i end
            end
            for _, p in ipairs(list) do sum = sum + select(2, p:join()) end
            return sum
        ]]}, {7 * 50 * 51 // 2})
    end,

    c_modules_of_debian = function()
        t.eq({there [[
            local lpeg = require "lpeg"
            local number = lpeg.C(lpeg.R "09" ^ 1) / tonumber
            return lpeg.match(lpeg.Ct(number * ("," * number) ^ 0), "1,22,333")[3]
        ]]}, {333})
        t.eq(there [[
            local json = require "cjson"
            local value = json.decode '{"a": [1, 2.5, null, "x"], "b": true}'
            return json.encode(value.a[4]) .. value.a[2] .. tostring(value.a[3] == json.null)
        ]], '"x"2.5true')
    end,

    sockets_of_debian = function()
        t.eq({there [[
            package.preload["socket.core"] = nil -- ours (test_luasocket.lua)
            local socket = require "socket"
            local server = assert(socket.bind("127.0.0.1", 0))
            local _, port = server:getsockname()
            local client = assert(socket.connect("127.0.0.1", port))
            local peer = assert(server:accept())
            client:send "hello\n"
            local line = peer:receive()
            client:close()
            peer:close()
            server:close()
            return line, debug.getinfo(socket.tcp, "S").what
        ]]}, {"hello", "C"})
    end,

    sockets_between_processes = function()
        -- Each end holds a worker while it waits, for LuaSocket knows nothing of processes; ticks
        -- interrupt its system calls meanwhile.
        t.with_workers(3, function()
            local port = mare.channel(1)
            local server = mare.spawn(function()
                package.preload["socket.core"] = nil
                local socket = require "socket"
                local listener = assert(socket.bind("127.0.0.1", 0))
                port:send((select(2, listener:getsockname())))
                local peer = assert(listener:accept())
                local lines = 0
                for line in function() return peer:receive() end do
                    lines = lines + 1
                    assert(peer:send(line:upper() .. "\n"))
                end
                return lines
            end)
            local client = mare.spawn(function(number)
                package.preload["socket.core"] = nil
                local peer = assert(require "socket".connect("127.0.0.1", number))
                for i = 1, 200 do
                    assert(peer:send("line " .. i .. "\n"))
                    assert(peer:receive() == "LINE " .. i)
                end
                return peer:close()
            end, port:receive(t.patience))
            t.ok(client:join(t.patience))
            t.eq({server:join(t.patience)}, {true, 200})
        end)
    end,

    c_modules_in_many_processes_at_once = function()
        local done = mare.channel(20)
        for i = 1, 20 do
            mare.spawn(function(n)
                local json, lpeg = require "cjson", require "lpeg"
                local list = {}
                for k = 1, 50 do list[k] = {n = n, k = k} end
                local back = json.decode(json.encode(list))
                done:send(lpeg.match(lpeg.P "x" ^ 0, ("x"):rep(n)) - 1 + back[50].k * 0 == n)
            end, i)
        end
        for _ = 1, 20 do t.eq(done:receive(t.patience), true) end
    end,

    callbacks_of_c_modules_cannot_wait = function()
        local err = there [[
            local lpeg, mare = require "lpeg", require "mare"
            local waits = lpeg.P(1) / function() mare.channel():receive() end
            return select(2, pcall(lpeg.match, waits, "x"))
        ]]
        t.ok(err:find "cannot wait here", err)
    end,
}
