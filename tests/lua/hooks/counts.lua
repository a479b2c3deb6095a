-- SPDX-License-Identifier: MIT
-- Count events: how many, and where, also with the instructions of the hook function, which count.
local count, last

local function spin(n) for _ = 1, n do end return n end
local function work(n)
    local sum = 0
    for i = 1, n do
        sum = sum + (i % 3 == 0 and spin(2) or #tostring(i))
        if i % 50 == 0 then sum = select(2, pcall(spin, i)) end
    end
    return sum
end

local hooks = {
    short = function() count = count + 1 end,
    longer = function(event, line)
        assert(event == "count" and line == nil)
        count = count + 1
        last = debug.getinfo(2, "l").currentline
    end,
    long = function() for _ = 1, 700 do end count = count + 1 end,
}
for _, name in ipairs {"short", "longer", "long"} do
    for _, every in ipairs {1, 2, 3, 4, 5, 7, 10, 64, 100, 499, 500, 501, 1000, 1001, 5000} do
        count, last = 0, nil
        debug.sethook(hooks[name], "", every)
        work(300)
        debug.sethook()
        print(name, every, count, last)
    end
end
-- With others: a count goes on, whatever else is told.
for _, mask in ipairs {"c", "r", "l", "crl"} do
    for _, every in ipairs {1, 2, 3, 10, 500, 777} do
        local seen = {}
        debug.sethook(function(event) seen[event] = (seen[event] or 0) + 1 end, mask, every)
        work(200)
        debug.sethook()
        print(mask, every, seen.count, seen.call, seen["return"], seen.line, seen["tail call"])
    end
end
-- counts of two coroutines are apart.
local totals = {0, 0}
local function body(i)
    debug.sethook(function() totals[i] = totals[i] + 1 end, "", i * 10)
    while true do coroutine.yield(work(20)) end
end
local a, b = coroutine.create(body), coroutine.create(body)
for _ = 1, 5 do
    coroutine.resume(a, 1)
    coroutine.resume(b, 2)
    print(totals[1], totals[2], debug.gethook() == nil)
end
-- It is set again, and again, in the middle.
local log = {}
for i = 1, 20 do
    debug.sethook(function() log[#log + 1] = i end, "", i)
    work(i)
end
debug.sethook()
print(#log, table.concat(log, " ", #log - 20))
-- A long one.
count = 0
debug.sethook(function() count = count + 1 end, "", 120000)
spin(1000000)
debug.sethook()
print(count)
