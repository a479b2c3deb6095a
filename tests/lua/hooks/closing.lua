-- SPDX-License-Identifier: MIT
-- Variables that are closed: what hooks see of it, errors in it, and yields in it.
local out = {}
local function say(...)
    local words = table.pack(...)
    for i = 1, words.n do words[i] = tostring(words[i]) end
    out[#out + 1] = table.concat(words, " ")
end

local function closing(f) return setmetatable({}, {__close = f}) end

local function failing(name)
    return closing(function(_, message)
        say("close", name, message)
        error(name, 0)
    end)
end

-- Hooks of calls and returns, with what moves.
local function hook(event)
    local info = debug.getinfo(2, "nSlr")
    local moved = {}
    for i = info.ftransfer, info.ftransfer + info.ntransfer - 1 do
        local _, value = debug.getlocal(2, i)
        moved[#moved + 1] = type(value) == "number" and tostring(value) or type(value)
    end
    say(event, info.name, info.what, info.currentline, table.concat(moved, ","))
end

local function two(...)
    local _ <close> = closing(function(_, message) say("first", message) end)
    local _ <close> = closing(function(_, message) say("second", message) end)
    return ...
end

for _, mask in ipairs {"r", "c", "cr"} do
    debug.sethook(hook, mask)
    local got = table.pack(two(10, 20, 30))
    debug.sethook()
    say(mask, table.unpack(got, 1, got.n))
end

-- Lines, of loops that are left.
local function count(_, i)
    if i < 2 then return i + 1 end
end
debug.sethook(say, "l")
for i in count, nil, 0, closing(function() say "the loop is closed" end) do
    if i == 2 then break end
end
for i in count, nil, 0 do
    local _ <close> = closing(function() say("turn", i) end)
    if i == 2 then break end
end
debug.sethook()

-- Errors.
say(pcall(function()
    local _ <close> = failing "1"
    local _ <close> = failing "2"
    error("0", 0)
end))
say(pcall(function()
    local _ <close> = failing "1"
    local _ <close> = failing "2"
    return 5
end))
say(pcall(function() local _ <close> = {} end))
say(pcall(function() local x <close> = 34 return x end))
say(pcall(function()
    local x <close> = closing(print)
    getmetatable(x).__close = nil
end))

-- Yields.
local function play(f)
    local co = coroutine.create(f)
    for i = 1, 20 do
        if coroutine.status(co) == "dead" then return end
        say(i, coroutine.resume(co, i))
    end
end

local function yielding(name, fails)
    return closing(function(_, message)
        say(name, message, coroutine.yield(name))
        if fails then error("of " .. name, 0) end
    end)
end

play(function()
    local _ <close> = yielding("a", true)
    local _ <close> = yielding("b", true)
    error("c", 0)
end)
play(function()
    return pcall(pcall, function()
        local _ <close> = yielding("outer")
        local function inner()
            local _ <close> = yielding("inner", true)
            coroutine.yield "before"
            return 1, 2, 3
        end
        return inner()
    end)
end)
play(function()
    local _ <close> = yielding "in"
    debug.sethook(say, "crl")
    return 1
end)

-- From outside.
local co = coroutine.create(function()
    local _ <close> = failing "1"
    local _ <close> = failing "2"
    coroutine.yield()
end)
coroutine.resume(co)
say(coroutine.close(co))
say(coroutine.status(co), coroutine.close(co))

print(table.concat(out, "\n"))
