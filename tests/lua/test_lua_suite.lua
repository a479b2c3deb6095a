-- SPDX-License-Identifier: MIT
-- The test suite of Lua itself passes: as the main script, in a process that is spawned, and in one
-- from which the worker is taken all the time. It is not part of this repository. Who has it (it is
-- at lua.org, one archive for each version; the one for the `lua5.4` that is installed) says where:
-- MARE_LUA_TESTS=folder. A file of it that fails under lua5.4 too is left out.
local t, shell = require "t", require "shell"

-- At the top level of a process one can yield (docs/reference/lua.md, coroutine.yield). So these
-- lines of the suite, and no others, are left out.
local elsewhere = {
    ["coroutine.lua"] = {
        "assert%(not coroutine%.isyieldable%(main%) and not coroutine%.isyieldable%(%)%)",
        "assert%(not pcall%(coroutine%.yield%)%)",
    },
    ["errors.lua"] = {'checkmessage%("coroutine%.yield%(%)", "outside a coroutine"%)'},
}

-- What runs a file: without what its README calls not portable, and as a chunk of its name.
local prologue = [[
    local file, text = ...
    local function run(file, text)
        _port, Message = true, function() end
        package.path = "./?.lua;" .. package.path
        return assert(load(text, "@" .. file))()
    end
]]

local ways = {
    main = "run(file, text)",
    process = [[
        local mare = require "mare"
        local ok, why, _, trace = mare.spawn(run, file, text):join()
        assert(ok, tostring(why) .. "\n" .. tostring(trace))
    ]],
    rivals = [[
        local mare = require "mare"
        mare.workers(1)
        local rival = mare.spawn(function() while true do end end)
        local ok, why, _, trace = mare.spawn(run, file, text):join()
        assert(ok, tostring(why) .. "\n" .. tostring(trace))
        rival:kill()
    ]],
}

-- Runs a text of the suite, by its name, in its folder, by an interpreter.
local function result_of(folder, interpreter, way, name, text)
    local program <close> = shell.file(prologue .. ways[way])
    local input <close> = shell.file(text)
    local feed <close> = shell.file(([[
        local f = assert(io.open(%q))
        local text = f:read "a"
        f:close()
        return assert(loadfile(%q))(%q, text)
    ]]):format(tostring(input), tostring(program), name))
    return shell.run(("cd '%s' && exec %s %s 2>&1"):format(folder, interpreter, tostring(feed)))
end

local cases, folder = {}, os.getenv "MARE_LUA_TESTS"
if not folder then
    return {the_suite_of_lua = function() t.skip "MARE_LUA_TESTS does not say where it is" end}
end
for path in shell.run(("ls '%s'/*.lua"):format(folder)).out:gmatch "[^\n]+" do
    local name = path:match "[^/]+$"
    local f <close> = assert(io.open(path, "rb"))
    local text = f:read "a"
    if name ~= "all.lua" and name ~= "main.lua" and name ~= "heavy.lua" then
        for way in pairs(ways) do
            cases[name:gsub("%.lua$", "") .. "_" .. way] = {function()
                if way == "rivals" then t.needs_preemption() end
                if result_of(folder, "lua5.4", "main", name, text).code ~= 0 then
                    t.skip "it fails under lua5.4 too"
                end
                local ours = text
                for _, line in ipairs(elsewhere[name] or {}) do
                    ours = ours:gsub("\n" .. line, "\n")
                end
                local got = result_of(folder, shell.mare, way, name, ours)
                t.eq(got.code, 0, got.out:sub(-2000))
            end, timeout = 300}
        end
    end
end
return cases
