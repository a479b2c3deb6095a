-- SPDX-License-Identifier: MIT
-- A finished process's state serves a later one, which sees nothing of its predecessor.
local mare, t = require "mare", require "t"

-- Runs the first piece of Lua in one process after the other, and the second after each: the state
-- of the one serves the other. Returns what the second gave, which must always be the same.
local function later(before, after, ...)
    local limit = mare.recycle()
    mare.recycle(8)
    local expected
    for round = 1, 20 do
        mare.spawn(before, ...):join(t.patience)
        local results = table.pack(mare.spawn(after, ...):join(t.patience))
        t.ok(results[1], tostring(results[2]))
        results = table.pack(table.unpack(results, 2, results.n))
        if round == 1 then
            expected = results
        else
            t.eq(results, expected)
        end
    end
    mare.recycle(limit)
    return table.unpack(expected, 1, expected.n)
end

-- The same, for what must not keep the state from being used again. (The builds that run slower may
-- close every state: they look for other mistakes.)
local function successor(...)
    local recycled = mare.stats().recycled
    local results = table.pack(later(...))
    t.ok(t.slow > 1 or mare.stats().recycled > recycled, "the states were closed")
    return table.unpack(results, 1, results.n)
end

-- Everything that can be reached from the globals, the registry and the metatables of types, as
-- lines of text: where it is, and what.
local function inventory()
    local seen, lines = {}, {}
    local function visit(value, place)
        local kind = type(value)
        if seen[value] or kind == "nil" then
            lines[#lines + 1] = place .. " is " .. (seen[value] or "nil")
            return
        end
        if kind == "table" or kind == "function" or kind == "userdata" then seen[value] = place end
        local plain = kind == "string" or kind == "number" or kind == "boolean"
        lines[#lines + 1] = place .. " " .. (plain and tostring(value) or kind)
        if kind == "table" then
            local names = {}
            for key in next, value do
                if type(key) == "string" then names[#names + 1] = key end
            end
            table.sort(names)
            for _, name in ipairs(names) do visit(rawget(value, name), place .. "." .. name) end
        elseif kind == "function" and debug.getinfo(value, "S").what == "C" then
            for i = 1, 255 do
                local name, upvalue = debug.getupvalue(value, i)
                if not name then break end
                visit(upvalue, place .. "^" .. i)
            end
        end
        if kind == "table" or kind == "userdata" then
            visit(debug.getmetatable(value), place .. "<>")
        end
    end
    visit(_G, "_G")
    local registry = {}
    for key, value in pairs(debug.getregistry()) do registry[key] = value end
    visit(registry, "registry")
    for kind, value in pairs {string = "", number = 1, boolean = true, ["function"] = print} do
        visit(debug.getmetatable(value), kind)
    end
    visit(debug.getmetatable(nil), "nil")
    visit(debug.gethook(), "hook")
    table.sort(lines)
    return table.concat(lines, "\n")
end

-- Changes all of that, as far as the debug library can.
local function spoil()
    local set, setmeta, seen = debug.setupvalue, debug.setmetatable, {}
    local hook, registry, getinfo = debug.sethook, debug.getregistry(), debug.getinfo
    local function visit(value)
        if seen[value] then return end
        seen[value] = true
        if type(value) == "function" and getinfo(value, "S").what == "C" then
            for i = 1, 5 do pcall(set, value, i, {"spoiled"}) end
        elseif type(value) == "table" then
            for _, inner in next, value do
                if type(inner) == "table" or type(inner) == "function" then visit(inner) end
            end
            value.spoiled = "spoiled"
        end
    end
    local try = pcall
    visit(_G)
    registry.spoiled = "spoiled"
    try(setmeta, print, {__index = {"spoiled"}})
    try(setmeta, nil, {__index = {"spoiled"}})
    try(setmeta, "", {__index = {"spoiled"}})
    try(hook, function() end, "c")
end

return {
    nothing_that_can_be_reached_is_another = function()
        local limit = mare.recycle()
        mare.recycle(0)
        local ok, expected = mare.spawn(inventory):join(t.patience)
        t.ok(ok, tostring(expected))
        mare.recycle(limit)
        t.ok(#expected > 2000 and expected:find "_G.coroutine.wrap function", expected)
        t.eq(later(spoil, inventory), expected)
        for _, change in ipairs {"debug.getregistry().it = 1", "debug.setmetatable(print, {})",
                                 "package.loadlib = print"} do -- it would be seen
            t.ok(select(2, mare.spawn(function()
                load(change)()
                return inventory()
            end):join(t.patience)) ~= expected, change)
        end
    end,

    states_are_used_again = function()
        t.eq({successor("return 1", "return 2")}, {2})
    end,

    none_is_kept_when_the_cap_is_zero = function()
        local limit = mare.recycle()
        mare.recycle(0)
        mare.spawn("return 1"):join(t.patience)
        local before = mare.stats().recycled
        for _ = 1, 20 do mare.spawn("return 1"):join(t.patience) end
        t.eq(mare.stats().recycled, before)
        mare.recycle(limit)
    end,

    the_cap_can_be_read_and_set = function()
        local limit = mare.recycle()
        t.eq(mare.recycle(17), 17)
        t.eq(mare.recycle(), 17)
        mare.recycle(limit)
        t.raises("#1", mare.recycle, -1)
        t.raises("#1", mare.recycle, "many")
    end,

    globals_are_gone = function()
        t.eq({successor("leaked = 1; print = nil; _G.x = {}; string = 5",
            "return leaked, x, type(print), type(string)")}, {nil, nil, "function", "table"})
    end,

    changed_libraries_are_as_new = function()
        t.eq({later("string.rep = nil; string.mine = 1; math.pi = 3; table.concat = 1; os.exit = 1",
            [[return type(string.rep), string.mine, math.pi > 3.1, type(table.concat{}),
                type(os.exit)]])}, {"function", nil, true, "string", "function"})
    end,

    the_metatable_of_strings_is_as_new = function()
        t.eq({later([[
            local mt = getmetatable ""
            mt.__index = function() return "spoilt" end
            mt.__add = function() return "spoilt" end
            mt.__call = function() return "spoilt" end
        ]], "return ('x'):rep(2), '1' + 1, (pcall(function() return ('x')() end))")},
            {"xx", 2, false})
    end,

    metatables_of_other_types_are_gone = function()
        t.eq({later([[
            debug.setmetatable(1, {__index = {leak = "number"}})
            debug.setmetatable(nil, {__index = {leak = "nil"}})
            debug.setmetatable(true, {__index = {leak = "boolean"}})
            debug.setmetatable(print, {__index = {leak = "function"}})
            debug.setmetatable(coroutine.running(), {__index = {leak = "thread"}})
        ]], [[return debug.getmetatable(1), debug.getmetatable(nil), debug.getmetatable(true),
                debug.getmetatable(print), debug.getmetatable(coroutine.running()), "none"
        ]])}, {nil, nil, nil, nil, nil, "none"})
    end,

    the_metatable_of_the_globals_is_gone = function()
        t.eq({later("setmetatable(_G, {__index = function() return 'leak' end})",
            "return anything, getmetatable(_G), 'none'")}, {nil, nil, "none"})
    end,

    the_registry_is_as_new = function()
        t.eq({later([[
            local registry = debug.getregistry()
            registry.leak = "leak"
            registry[print] = "leak"
            registry._LOADED.leak = {}
            registry._PRELOAD.leak = function() return "leak" end
        ]], [[
            local registry = debug.getregistry()
            return registry.leak, registry[print], registry._LOADED.leak,
                (pcall(require, "leak"))
        ]])}, {nil, nil, nil, false})
    end,

    hooks_are_gone = function()
        t.eq({later("debug.sethook(function() error 'the hook of another' end, 'cl', 1)",
            "for _ = 1, 1000 do end; return debug.gethook(), 'none'")}, {nil, "none"})
    end,

    loaded_modules_are_gone = function()
        t.eq({later([[
            package.preload.mine = function() return {leak = true} end
            require "mine"
            package.loaded.string = {leak = true}
            package.path = "leak"
        ]], [[return package.loaded.mine, package.preload.mine, package.loaded.string == string,
            package.path ~= "leak"]])}, {nil, nil, true, true})
    end,

    mare_itself_is_as_new = function()
        t.eq({later("local mare = require 'mare'; mare.spawn = nil; mare.leak = 1",
            "local mare = require 'mare'; return type(mare.spawn), mare.leak")}, {"function", nil})
    end,

    the_metatables_of_channels_are_as_new = function()
        t.eq({later([[
            local mare = require "mare"
            local mt = debug.getmetatable(mare.channel())
            mt.__index, mt.__len, mt.__tostring = nil, nil, nil
        ]], [[
            local ch = require "mare".channel(1)
            ch:send "fine"
            return ch:receive()
        ]])}, {"fine"})
    end,

    random_numbers_are_not_the_same_again = function()
        local limit = mare.recycle()
        mare.recycle(8)
        local seen = {}
        for _ = 1, 50 do
            local _, n = mare.spawn("return math.random(0)"):join(t.patience)
            t.eq(seen[n], nil, "drawn before")
            seen[n] = true
        end
        mare.recycle(limit)
    end,

    the_collector_is_as_new = function()
        t.eq({later("collectgarbage 'generational'; collectgarbage 'stop'",
            "return collectgarbage 'isrunning', collectgarbage 'incremental'")},
            {true, "incremental"})
    end,

    warnings_are_off_again = function()
        t.eq({successor("warn '@on'", "warn 'must not be seen'; return 1")}, {1})
    end,

    one_that_died_or_was_killed_leaves_nothing_either = function()
        t.eq({successor("leaked = 1; error 'oops'", "return leaked, 'none'")}, {nil, "none"})
        t.eq({successor([[
            leaked = 1
            coroutine.wrap(function() require "mare".self():kill() end)()
        ]], "return leaked, 'none'")}, {nil, "none"})
    end,

    a_memory_limit_is_not_inherited = function()
        local limit = mare.recycle()
        mare.recycle(8)
        for _ = 1, 10 do
            mare.spawn({memory = 100000}, "local s = ('x'):rep(1000000)"):join(t.patience)
            local ok, n = mare.spawn("return #('x'):rep(1000000)"):join(t.patience)
            t.eq({ok, n}, {true, 1000000})
        end
        mare.recycle(limit)
    end,

    finalizers_ran_before_it_was_used_again = function()
        local said = mare.channel(100)
        later([[
            local said = ...
            kept = setmetatable({}, {__gc = function() said:trysend "gc" end})
        ]], "return 1", said)
        t.eq(#said, 20)
    end,

    one_with_c_modules_is_fit_or_closed = function()
        t.eq({later("require 'lpeg'; require 'cjson'; leaked = 1",
            "return leaked, package.loaded.lpeg, require 'cjson'.encode {1}")}, {nil, nil, "[1]"})
    end,

    files_left_open_are_closed = function()
        local name = os.tmpname()
        later("file = io.open(..., 'w'); file:write 'written'", "return 1", name)
        local file = assert(io.open(name))
        t.eq(file:read "a", "written")
        file:close()
        os.remove(name)
    end,

    channels_held_are_let_go = function()
        local live = mare.stats().live
        t.eq({successor("held = {}; for i = 1, 100 do held[i] = require 'mare'.channel(1) end",
            "return held")}, {})
        t.reaches(function() return mare.stats().live <= live end)
    end,

    a_thousand_in_a_row = function()
        local limit = mare.recycle()
        mare.recycle(4)
        local before = mare.stats().recycled
        for i = 1, 1000 do
            local ok, sum = mare.spawn(function(n)
                _G.total = (_G.total or 0) + n
                return _G.total
            end, i):join(t.patience)
            t.eq({ok, sum}, {true, i})
        end
        t.ok(t.slow > 1 or mare.stats().recycled - before > 500)
        mare.recycle(limit)
    end,
}
