-- SPDX-License-Identifier: MIT
-- Libraries are opened when they are named, and nobody can tell.
local mare, t = require "mare", require "t"

local function fresh(code, ...)
    local results = table.pack(mare.spawn(code, ...):join(t.patience))
    if not results[1] then error(results[2], 2) end
    return table.unpack(results, 2, results.n)
end

-- What the stock interpreter has, by library.
local STOCK = {
    _G = "_G _VERSION assert collectgarbage coroutine debug dofile error getmetatable io ipairs "
        .. "load loadfile math next os package pairs pcall print rawequal rawget rawlen rawset "
        .. "require select setmetatable string table tonumber tostring type utf8 warn xpcall",
    coroutine = "close create isyieldable resume running status wrap yield",
    table = "concat insert move pack remove sort unpack",
    string = "byte char dump find format gmatch gsub len lower match pack packsize rep reverse sub "
        .. "unpack upper",
    utf8 = "char charpattern codepoint codes len offset",
    os = "clock date difftime execute exit getenv remove rename setlocale time tmpname",
    io = "close flush input lines open output popen read stderr stdin stdout tmpfile type write",
    package = "config cpath loaded loadlib path preload searchers searchpath",
}

local LIST = [[
    local names = {}
    for name in %s do names[#names + 1] = name end
    table.sort(names)
    return table.concat(names, " ")
]]

return {
    zero_bytes_are_part_of_a_name = function()
        local p = mare.spawn(function()
            return _G["print\0"], _G["string\0x"], mare["spawn\0"], _G["_G\0"]
        end)
        t.eq({p:join(t.patience)}, {true})
        t.raises("#2.*zero bytes", mare.channel, 0, "a\0b")
        t.raises("#1.*zero bytes", mare.find, "a\0b")
        t.raises("#1.*zero bytes", mare.spawn, {name = "a\0b"}, function() end)
    end,

    pairs_over_the_globals_shows_them_all = function()
        t.eq(fresh(LIST:format "pairs(_G)"), STOCK._G)
        t.eq(fresh(LIST:format "next, _G"), STOCK._G)
    end,

    each_library_is_complete = function()
        for name, list in pairs(STOCK) do
            t.eq(fresh(LIST:format("pairs(" .. name .. ")")), list, name)
        end
    end,

    next_of_an_untouched_environment_is_something = function()
        t.ok(fresh "return next(_G) ~= nil")
        t.ok(fresh "local n, g = next, _G; for k in n, g do return true end")
    end,

    rawget_sees_what_was_never_named = function()
        t.eq(fresh "return rawget(_G, 'string') == string", true)
        t.eq(fresh "return type(rawget(_G, 'print'))", "function")
        t.eq(fresh "return rawget(_G, 'nosuch')", nil)
    end,

    unknown_globals_are_nil = function()
        t.eq(fresh "return nosuch", nil)
        t.eq(fresh "return _G.mare, _G.luaproc", nil)
        t.eq(fresh "x = 1; y = x; x = nil; return x, y, rawget(_G, 'y')", nil)
    end,

    assigned_globals_stay_assigned = function()
        t.eq(fresh "print = 1; return print", 1)
        t.eq(fresh "string = 'mine'; return string, ('x'):rep(2)", "mine")
        t.eq({fresh "local rep = string.rep; string = nil; return rep('x', 2), ('y'):rep(2)"},
            {"xx", "yy"})
    end,

    a_sandbox_that_takes_a_library_away_has_it_no_more = function()
        t.eq(fresh "os = nil; return os", nil)
        t.eq(fresh "os = nil; for k in pairs(_G) do if k == 'os' then return k end end", nil)
        t.eq(fresh "os, io = nil, nil; return rawget(_G, 'os'), next(_G) ~= nil", nil)
        t.eq(fresh "rawset(_G, 'os', nil); return os", nil)
        t.eq(fresh "print(); print = nil; return print", nil)
    end,

    strict_mode_works = function()
        t.eq({fresh [[
            setmetatable(_G, {
                __newindex = function(_, k) error("assignment to undeclared " .. k, 2) end,
                __index = function(_, k) error("undeclared " .. k, 2) end,
            })
            local ok, err = pcall(function() undefined = 1 end)
            local ok2, err2 = pcall(function() return undefined end)
            return ok, err:match "undeclared %w+", ok2, err2:match "undeclared %w+",
                type(string.format), type(debug.traceback)
        ]]}, {false, "undeclared undefined", false, "undeclared undefined", "function", "function"})
    end,

    the_globals_have_no_metatable_to_see = function()
        t.eq(fresh "return getmetatable(_G)", nil)
        t.eq(fresh "return debug.getmetatable(_G)", nil)
        t.eq(fresh "string.len('x'); return getmetatable(_G)", nil)
    end,

    environments_that_inherit_from_the_globals = function()
        t.eq(fresh [[
            local env = setmetatable({}, {__index = _G})
            return load("return string.upper(type(x))", "c", "t", env)()
        ]], "NIL")
    end,

    equal_however_they_are_reached = function()
        t.eq(fresh "return _G._G == _G and _ENV == _G", true)
        t.eq(fresh "return require 'string' == string", true)
        t.eq(fresh "return package.loaded.table == table", true)
        t.eq(fresh "return package.loaded._G == _G", true)
        t.eq(fresh "local a = ('x').rep; return a == string.rep", true)
        t.eq(fresh "return print == print and rawequal(_G.print, print)", true)
        t.eq(fresh "return require 'mare' == package.loaded.mare", true)
    end,

    package_loaded_lists_the_libraries = function()
        t.eq(fresh(LIST:format "pairs(package.loaded)"),
            "_G coroutine debug io math os package string table utf8")
    end,

    changed_libraries_stay_changed = function()
        t.eq(fresh "string.mine = 1; return require 'string'.mine, string.mine", 1)
        t.eq(fresh "math.pi = 3; return math.pi", 3)
    end,

    a_library_opened_first_in_a_coroutine_is_there_for_all = function()
        t.eq(fresh [[
            coroutine.wrap(function() utf8.mine = "set inside" end)()
            return utf8.mine
        ]], "set inside")
    end,

    libraries_that_are_not_named_cost_nothing = function()
        local function memory(name, code)
            local p = mare.spawn({name = name}, code .. " require 'mare'.channel():receive()")
            t.reaches(function() return p:status() == "blocked" end)
            local bytes
            for _, row in ipairs(mare.processes()) do
                if row.name == name then bytes = row.memory end
            end
            p:kill()
            return bytes
        end
        local none = memory("globals.none", "")
        local all = memory("globals.all", "local s = string, table, math, os, io, utf8, debug, "
            .. "coroutine, package")
        t.ok(all > 2 * none, none .. " bytes without, " .. all .. " bytes with libraries")
    end,

    the_version_and_the_type_of_functions = function()
        t.eq({fresh "return _VERSION, type(print), tostring(print):match '^function'"},
            {"Lua 5.4", "function", "function"})
    end,

    mare_lists_its_functions = function()
        local list = " " .. fresh([[
            local names = {}
            for name in pairs(require "mare") do names[#names + 1] = name end
            return table.concat(names, " ")
        ]]) .. " "
        for name in ("buffer channel deadline exit find now processes recycle select self sleep "
            .. "spawn stats version wait workers yield"):gmatch "%w+" do
            t.ok(list:find(" " .. name .. " ", 1, true), name)
        end
        t.eq(fresh "return type(require 'mare'.version)", "string")
    end,

    stats_count = function()
        local stats = mare.stats()
        for name in ("spawned live switches preemptions steals sent received timers recycled "
            .. "workers"):gmatch "%w+" do
            t.eq(math.type(stats[name]), "integer", name)
        end
        local ch = mare.channel(1)
        ch:send(1)
        ch:receive()
        mare.spawn(function() end):join(t.patience)
        local after = mare.stats()
        t.ok(after.spawned > stats.spawned)
        t.ok(after.switches > stats.switches)
        t.ok(after.sent > stats.sent)
        t.ok(after.received > stats.received)
    end,
}
