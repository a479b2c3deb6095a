-- SPDX-License-Identifier: MIT
-- What the tests of this project say: what mare.test has, and more.
local t = {}
for name, value in pairs(require "mare.test") do t[name] = value end

--- Gives every other routine its turns: who had little to do has waited or ended.
function t.settle(n)
    local mare = require "mare"
    for _ = 1, n or 10 do mare.yield() end
end

--- Runs f(i) in n routines. Returns them.
function t.in_routines(n, f)
    local mare, routines = require "mare", {}
    for i = 1, n do routines[i] = mare.go(f, i) end
    return routines
end

-- What the descriptors of this program lead to, as `ls -l` shows it. No pipe leads to who looks: he
-- might see it before its other end has been closed here.
local function open_ends()
    local name, ends = os.tmpname(), {}
    os.execute(("ls -l /proc/$PPID/fd >%s 2>/dev/null"):format(name))
    for line in io.lines(name) do ends[#ends + 1] = line:match "%-> (.*)$" end
    os.remove(name)
    return ends
end

--- How many descriptors this program has open; or only those that lead to something with the word
--- in its name.
function t.descriptors(word)
    local count = 0
    for _, name in ipairs(open_ends()) do
        if name:find(word or "", 1, true) then count = count + 1 end
    end
    return count
end

--- How many descriptors lead to children: pidfds, and pipes of which the other end is elsewhere
--- (the loops have some with both ends here).
function t.ways_to_children()
    local count, pipes = 0, {}
    for _, name in ipairs(open_ends()) do
        if name:find "pidfd" then count = count + 1 end
        if name:find "^pipe:" then pipes[name] = (pipes[name] or 0) + 1 end
    end
    for _, ends in pairs(pipes) do count = count + (ends == 1 and 1 or 0) end
    return count
end

--- How many bytes of Lua memory f(i) leaves behind in this process, called n times: after as many
--- calls that fill what is made once. `after` waits until all that f began is over.
function t.growth(n, f, after)
    local function memory()
        for i = 1, n do f(i) end
        if after then after() end
        t.settle()
        collectgarbage()
        collectgarbage()
        return collectgarbage "count" * 1024
    end
    local before = memory()
    return memory() - before
end

--- A case that calls f with the path of a new folder, which is removed in the end.
function t.in_folder(f)
    return function()
        local file = require "mare.file"
        local folder = assert(file.tempfolder())
        local results = table.pack(pcall(f, folder))
        assert(file.remove(folder, {tree = true}))
        if not results[1] then error(results[2], 0) end
    end
end

-- How many threads of this program are workers, by their names.
local function worker_threads()
    local pipe = assert(io.popen "cat /proc/$PPID/task/*/comm 2>/dev/null")
    local count = 0
    for name in pipe:lines() do
        count = count + (name:find "^mare%-%d+$" and 1 or 0)
    end
    pipe:close()
    return count
end

--- Calls f while there are exactly n workers: none that was dismissed is left. Then as before.
function t.with_workers(n, f)
    local mare = require "mare"
    local before = mare.workers()
    mare.workers(n)
    t.reaches(function() return worker_threads() == n end, "the number of worker threads")
    mare.yield() -- a new slice
    local results = table.pack(pcall(f))
    mare.workers(before)
    if not results[1] then
        error(results[2], 0)
    end
    return table.unpack(results, 2, results.n)
end

--- Calls f with 0.02 seconds, and with twice as many each time that it returns false: for what fits
--- into some time, on a machine that may be busy.
function t.in_some_time(f)
    local time = 0.02
    while not f(time) do
        time = time * 2
        if time > t.patience then error("not in time", 2) end
    end
end

--- Calls f until it has returned something and nobody lost a turn in the middle after f had called
--- its argument. When that happens depends on when the system lets this program run; the order of
--- turns is Maré's own only in between. Returns what f returned.
function t.undisturbed(f)
    local mare = require "mare"
    local deadline = mare.deadline(t.patience)
    repeat
        local before
        local result = f(function() before = mare.stats().preemptions end)
        if result ~= nil and mare.stats().preemptions == before then
            return result
        end
    until deadline:left() == 0
    error("never undisturbed", 2)
end

--- Leaves the case out where a loop that calls nothing is never interrupted: ThreadSanitizer holds
--- signals back until the next call that it knows, so such a loop cannot be preempted or killed.
function t.needs_preemption()
    if os.getenv "MARE_TEST_NO_PREEMPTION" then
        t.skip "no preemption of tight loops in this build"
    end
end

--- Whether the collector runs all the time, so that many objects take very long.
t.gc_stress = os.getenv "MARE_GC_STRESS" ~= nil

return t
