-- SPDX-License-Identifier: MIT
-- Setting, asking, changing: in and out of hooks and coroutines.
local function f() end
local function show(...)
    local hook, mask, count = ...
    print(select("#", ...), hook == f and "f" or type(hook), mask, count)
end
show(debug.gethook())
for _, set in ipairs {{"", 0}, {"c", 0}, {"lrc", 7}, {"", 5}, {"r", -3}, {"c", 2 ^ 24 - 1}, {"abc"},
                      {"l", 2 ^ 31 + 5}, {"zzz", 0}, {"zzz", 1}} do
    debug.sethook(f, set[1], set[2])
    local result = table.pack(debug.gethook())
    debug.sethook()
    show(table.unpack(result, 1, result.n))
    show(debug.gethook())
end
for _, arguments in ipairs {{}, {nil, "c"}, {f}, {f, {}}, {1, "c"}, {f, "c", "x"}, {f, "c", 1.5},
                            {f, "c", "10"}, {coroutine.create(f), f}, {{}, "c"}} do
    print(select(2, pcall(debug.sethook, table.unpack(arguments, 1, 3))))
    debug.sethook()
end
print(pcall(debug.gethook, 1))

-- A coroutine has the mask and the count of the one that made it, but not the function.
local calls = 0
debug.sethook(function() calls = calls + 1 end, "c", 100000)
local inner
local co = coroutine.create(function()
    inner = coroutine.create(f)
    local before = calls
    math.abs(1)
    return calls == before, coroutine.yield(debug.gethook())
end)
local wrapped = coroutine.wrap(function() return debug.gethook() end)
show(debug.gethook(co))
debug.sethook()
print(calls)
show(select(2, coroutine.resume(co)))
print(coroutine.resume(co))
show(debug.gethook(inner))
show(wrapped())
show(debug.gethook(coroutine.create(f)))
debug.sethook(co)
show(debug.gethook(co))
debug.sethook(inner, f, "l")
show(debug.gethook(inner))

-- Hooks of coroutines are their own, while they run and when they are dead.
local lines = {}
co = coroutine.create(function(x)
    local y = coroutine.yield(x)
    lines[#lines + 1] = y
    coroutine.yield()
    error "oops"
end)
debug.sethook(co, function(event, line) lines[#lines + 1] = event .. tostring(line) end, "lcr")
for i = 1, 4 do
    local ok, value = coroutine.resume(co, i)
    print(ok, value, table.concat(lines, " "))
    lines = {}
end
print(debug.gethook(co) ~= nil, debug.gethook(), coroutine.close(co), select(2, debug.gethook(co)))

-- A hook that changes hooks, fails, or cannot yield.
local events = {}
local function note(event, line) events[#events + 1] = event .. tostring(line) end
debug.sethook(function(event)
    note(event)
    debug.sethook(function(other, line)
        note(other, line)
        debug.sethook(note, "r")
    end, "l")
end, "c")
f()
f()
debug.sethook()
print(table.concat(events, " "))
events = {}
debug.sethook(function(event) note(event) debug.sethook() end, "r")
f()
print(table.concat(events, " "), debug.gethook())
for _, mask in ipairs {"c", "r", "l"} do
    print(pcall(function()
        debug.sethook(function(event) debug.sethook() error("in " .. event) end, mask)
        local x = f()
        return x
    end))
end
print(pcall(function()
    debug.sethook(function() error("enough", 0) end, "", 1000)
    while true do end
end))
debug.sethook()
print(coroutine.wrap(function()
    debug.sethook(function()
        debug.sethook()
        events = {coroutine.isyieldable(), pcall(coroutine.yield)}
    end, "c")
    f()
    return table.unpack(events)
end)())
debug.sethook(function() f(f()) for _ = 1, 10 do end end, "crl", 1) -- no events in it
for _ = 1, 10 do f() end
debug.sethook()

-- What a hook sees of itself and of the function that runs.
debug.sethook(function()
    local info = debug.getinfo(1)
    events = {info.namewhat, info.name, debug.traceback("x"):match "\n\t[^\n]*\n\t([^\n]*)",
              debug.traceback():match "in hook '%?'", debug.getinfo(2, "f").func == f}
    debug.sethook()
end, "c")
f()
print(table.unpack(events))

-- The table of hooks, in the registry.
local registry = debug.getregistry()
print(type(registry), getmetatable(registry._HOOKKEY).__mode, registry == debug.getregistry())
print(registry[1] == coroutine.running(), registry[2] == _G, registry._LOADED == package.loaded,
    registry["FILE*"] == getmetatable(io.stdout))
print(registry._HOOKKEY[coroutine.running()], registry._HOOKKEY[inner] == f)
