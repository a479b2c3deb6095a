-- SPDX-License-Identifier: MIT
-- Variables, results and arguments, as a hook and others can look at them.
local function locals(level)
    local list = {}
    for i = 1, 100 do
        local name, value = debug.getlocal(level + 1, i)
        if not name or name == "(temporary)" then break end
        if type(value) == "function" or type(value) == "table" then value = type(value) end
        list[#list + 1] = name .. "=" .. tostring(value)
    end
    return table.concat(list, ",")
end

local out = {}
local function hook(event)
    local info = debug.getinfo(2, "nru")
    local moved = {}
    for i = info.ftransfer, info.ftransfer + info.ntransfer - 1 do
        local _, value = debug.getlocal(2, i)
        moved[#moved + 1] = tostring(value)
    end
    out[#out + 1] = ("%s %s (%s)"):format(event, info.name, table.concat(moved, ","))
end
local function given(a, b, ...) local c = a return b, c, ... end
local function closing(...)
    local _x <close> = setmetatable({}, {__close = function() out[#out + 1] = "x" end})
    local _y <close> = setmetatable({}, {__close = function() debug.sethook(hook, "r") end})
    return ...
end
debug.sethook(hook, "cr")
math.max(3, 4, 2)
select(2, "a", "b", "c")
given(1, 2, 3, 4)
string.rep("x", 3, ",")
debug.sethook()
print(table.concat(out, "\n"))
out = {}
print(closing(10, 20, 30))
debug.sethook()
print(table.concat(out, "\n"))

out = {}
debug.sethook(function(event)
    if debug.getinfo(2, "n").name == "given" then out[#out + 1] = event .. " " .. locals(2) end
end, "cr")
given(10, 20, 30)
debug.sethook()
print(table.concat(out, "\n"))

-- Locals by level, of coroutines, temporaries, and setting them.
print(debug.getlocal(0, 1))
print(debug.getlocal(0, 2))
print(debug.getlocal(0, 3))
print(debug.getlocal(given, 1), debug.getlocal(given, 2), debug.getlocal(given, 3))
print(pcall(debug.getlocal, 50, 1))
print(pcall(debug.setlocal, -1, 1, 10))
print(pcall(debug.getlocal, print, "x"))
local function outer(a, ...)
    local b = 2
    local function inner()
        print(debug.setlocal(2, 1, "A"), debug.setlocal(2, 2, "B"), debug.setlocal(2, -1, "V"),
            debug.setlocal(2, 99, 1))
    end
    inner()
    return a, b, ...
end
print(outer(1, 3, 4))
print((function(a, b)
    local function change() debug.setlocal(2, 4, 10) return 20 end
    return (a + 1) + change()
end)(0, 0))
local co = coroutine.create(function(x) local a = coroutine.yield(x) return x, a end)
coroutine.resume(co, 5)
print(debug.getlocal(co, 1, 1))
print(debug.setlocal(co, 1, 1, 6), debug.setlocal(co, 1, 9, 6))
print(coroutine.resume(co, 7))

-- Upvalues.
local u, v = 1, 2
local function first() return u, v end
local function second() return v end
print(debug.getupvalue(first, 1), debug.getupvalue(first, 2), debug.getupvalue(first, 3))
print(debug.setupvalue(first, 1, "U"), debug.setupvalue(first, 3, 0), u)
print(debug.upvalueid(first, 2) == debug.upvalueid(second, 1))
debug.upvaluejoin(second, 1, first, 1)
print(second(), (debug.getupvalue(string.gmatch("x", "x"), 1)))
print(pcall(debug.upvaluejoin, print, 1, first, 1))
print(pcall(debug.setupvalue, first, 1))
print(pcall(debug.setupvalue, 1, 1, 1))
print(debug.setuservalue(io.stdin, 10), debug.getuservalue(io.stdin, 10), debug.getuservalue(1))
print(pcall(debug.setuservalue, {}, 1))
print(debug.getmetatable("").__index == string, debug.getmetatable(1),
    debug.getmetatable(io.stdout).__name)
print(pcall(debug.setmetatable, 1, 2))
