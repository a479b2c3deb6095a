-- SPDX-License-Identifier: MIT
-- Long enough to lose the worker many times. What is seen becomes a few numbers.
local function one(x) return x end
local function tail(n)
    if n == 0 then return one(n) end
    return tail(n - 1)
end
local less = setmetatable({}, {__lt = function(_, x) for _ = 1, 3 do x = one(x) end return x end})
local function work(n)
    local t = {}
    for i = 1, n do
        local x = one(i) + #t
        t[i % 7 + 1] = tail(i % 5)
        if i % 11 == 0 then x = pcall(error, i) end
        if i % 13 == 0 then
            for v in coroutine.wrap(function() coroutine.yield(1) end) do one(v) end
        end
        if i % 17 == 0 then x = less < i end
        if i % 19 == 0 then
            local c <close> = setmetatable({}, {__close = one})
            one(c)
        end
        if i % 23 == 0 then for v in function(_, k) return one(not k or nil) end do one(v) end end
        if i % 29 == 0 then table.sort({3, 2, 1}, function(a, b) return one(a) < one(b) end) end
        if i % 31 == 0 then
            local a, b = (function(...) return select("#", ...), ... end)(i, x)
            one(a, b)
        end
    end
end

local part = tonumber(os.getenv "MARE_HOOKS_PART" or 1) -- of it, where everything is slow
local function trace(mask, count, n)
    local hash, number = 0, 0
    debug.sethook(function(event, line)
        number = number + 1
        hash = (hash * 31 + #event + event:byte() + (line or debug.getinfo(2, "l").currentline))
            % 4294967291
    end, mask, count)
    work(n)
    debug.sethook()
    print(mask, count, number, hash)
end
for _, set in ipairs {{"", 1, 1000}, {"", 7, 5000}, {"", 100, 30000}, {"", 1000, 200000},
                      {"", 60000, 200000}, {"c", 0, 20000}, {"r", 0, 20000}, {"l", 0, 10000},
                      {"crl", 0, 5000}, {"c", 3, 3000}, {"l", 5, 3000}, {"crl", 1, 1000},
                      {"crl", 13, 3000}, {"cr", 100, 10000}} do
    trace(set[1], set[2], set[3] // part)
    coroutine.wrap(trace)(set[1], set[2], set[3] // part)
end
