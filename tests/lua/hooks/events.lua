-- SPDX-License-Identifier: MIT
-- Calls, returns and lines of every kind of function, with what can be known of each.
local lines
local function hook(event, line)
    local info = debug.getinfo(2, "nSltru")
    lines[#lines + 1] = table.concat({event, tostring(line), tostring(info.name), info.namewhat,
        info.what, info.currentline, tostring(info.istailcall), info.ftransfer, info.ntransfer,
        info.nparams, tostring(info.isvararg)}, " ")
end

local function nothing() end
local function one(x) return x end
local function several(...) return select("#", ...), ... end
local function tail(n)
    if n == 0 then return one(n) end
    return tail(n - 1)
end
local object = setmetatable({}, {
    __index = function(_, key) return key end,
    __newindex = function(_, key, value) return nothing(key, value) end,
    __call = function(_, x) return one(x) end,
    __add = one, __sub = several, __len = function() return 3 end, __concat = one,
    __eq = function() return true end, __lt = function() return false end, __le = one,
    __unm = one, __close = function() nothing() end,
})

local function run()
    nothing()
    one(1) one(nothing(one(2)))
    several(several(1, nil, 2))
    tail(2)
    local x = object.field .. tostring(object + 1 - 1)
    object.other = x
    x = {object(1), #object, -object, object .. object}
    if object == setmetatable({}, getmetatable(object)) then x[1] = object < object end
    x[2] = object <= 1 and
        object > 2
    pcall(error) pcall(error, "x") pcall(one, 1) xpcall(error, one, 2)
    assert(load "return ...")(1)
    do
        local _c <close> = object
        nothing()
    end
    for _, v in ipairs {1, 2} do one(v) end
    for i in one, nil do one(i) end
    for i = 3, 1, -1 do
        if i == 2 then goto continue end
        one(i)
        ::continue::
    end
    table.sort({2, 1, 3}, function(a, b) return a < b end)
    string.gsub("ab", ".", one)
    local step = coroutine.wrap(function(a)
        one(a)
        local b = coroutine.yield(a)
        one(b)
    end)
    step(1) step(2) pcall(step)
    collectgarbage "step"
    require "string" math.max(1, 2) tostring(object) next {} rawget({}, 1) setmetatable({}, nil)
    return several(x[1], 2)
end

for _, mask in ipairs {"c", "r", "l", "cr", "cl", "rl", "crl", "lrc", "xyz c"} do
    lines = {}
    debug.sethook(hook, mask)
    run()
    debug.sethook()
    print(mask, #lines)
    print(table.concat(lines, "\n"))
end
