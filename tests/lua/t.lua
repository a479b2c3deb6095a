-- SPDX-License-Identifier: MIT
-- What a test says: t.eq(got, expected), t.ok(value), t.raises(pattern, f, ...),
-- t.fails(code, f(...)), t.reaches(condition), t.skip(reason). Each raises an error that tells what
-- was found instead.
local t = {}

local function show(value, seen)
    if type(value) == "string" then
        return string.format("%q", value):gsub("\\\n", "\\n")
    elseif type(value) ~= "table" then
        return tostring(value)
    elseif seen[value] then
        return "<cycle>"
    end
    seen[value] = true
    local parts, keys, length = {}, {}, #value
    for key in pairs(value) do
        if not (math.type(key) == "integer" and key >= 1 and key <= length) then
            keys[#keys + 1] = key
        end
    end
    table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
    for i = 1, length do
        parts[#parts + 1] = show(value[i], seen)
    end
    for _, key in ipairs(keys) do
        local name = type(key) == "string" and key or "[" .. show(key, seen) .. "]"
        parts[#parts + 1] = name .. " = " .. show(value[key], seen)
    end
    seen[value] = nil
    return "{" .. table.concat(parts, ", ") .. "}"
end

--- The value as a line of text, tables in full.
function t.show(value)
    return (show(value, {}))
end

-- `partners` maps each table of `a` that was met to the one in `b`: cycles must agree.
local function same(a, b, partners)
    if a == b then
        return math.type(a) == math.type(b)
    elseif type(a) ~= "table" or type(b) ~= "table" then
        return a ~= a and b ~= b -- both are NaN
    elseif partners[a] then
        return partners[a] == b
    end
    partners[a] = b
    for key, value in pairs(a) do
        if not same(value, b[key], partners) then
            return false
        end
    end
    for key in pairs(b) do
        if a[key] == nil then
            return false
        end
    end
    return true
end

local function fail(message, text, level)
    error((message and message .. ": " or "") .. text, level + 1)
end

--- Equal: tables by content (shared references and cycles alike), integers apart from floats.
function t.eq(got, expected, message)
    if not same(got, expected, {}) then
        fail(message, "expected " .. t.show(expected) .. ", got " .. t.show(got), 2)
    end
end

--- True in the sense of `if`. Returns its arguments, as assert does.
function t.ok(value, message, ...)
    if not value then
        fail(type(message) == "string" and message or nil, "got " .. t.show(value), 2)
    end
    return value, message, ...
end

--- The call raises an error whose text matches the Lua pattern. Returns the error.
function t.raises(pattern, f, ...)
    local ok, err = pcall(f, ...)
    if ok then
        fail(nil, "expected an error like " .. t.show(pattern) .. ", got none", 2)
    elseif not tostring(err):find(pattern) then
        fail(nil, "expected an error like " .. t.show(pattern) .. ", got " .. t.show(err), 2)
    end
    return err
end

--- The values are `nil, message, code`, as operations that fail return them.
function t.fails(code, ...)
    local value, message, got = ...
    if value ~= nil or type(message) ~= "string" or got ~= code then
        fail(nil, "expected nil, a message, " .. t.show(code) .. "; got " .. t.show({...}), 2)
    end
end

--- Gives way to other processes until the condition holds: for what sends no message, as a status.
function t.reaches(condition, message)
    local mare = require "mare"
    local deadline = mare.deadline(t.patience)
    while not condition() do
        if deadline:left() == 0 then
            fail(message, "not reached in time", 2)
        end
        mare.yield()
    end
end

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

--- Calls f until it has returned something and nobody lost a turn in the middle meanwhile. When
--- that happens depends on when the system lets this program run; the order of turns is Maré's own
--- only in between. Returns what f returned.
function t.undisturbed(f)
    local mare = require "mare"
    local deadline = mare.deadline(t.patience)
    repeat
        local before = mare.stats().preemptions
        local result = f()
        if result ~= nil and mare.stats().preemptions == before then
            return result
        end
    until deadline:left() == 0
    fail(nil, "never undisturbed", 2)
end

--- Ends the case here, neither passed nor failed.
function t.skip(reason)
    error({skip = reason or "no reason given"}, 0)
end

--- Leaves the case out where a loop that calls nothing is never interrupted: ThreadSanitizer holds
--- signals back until the next call that it knows, so such a loop cannot be preempted or killed.
function t.needs_preemption()
    if os.getenv "MARE_TEST_NO_PREEMPTION" then
        t.skip "no preemption of tight loops in this build"
    end
end

--- How many times slower than usual this run is: for the deadlines of a test, never for an assert.
t.slow = tonumber(os.getenv "MARE_TEST_SLOW" or "1")

--- Whether the collector runs all the time, so that many objects take very long.
t.gc_stress = os.getenv "MARE_GC_STRESS" ~= nil

--- A deadline for what must happen, in seconds: only a failing test waits that long.
t.patience = 20 * t.slow

--- A seed for a randomised case, new each time, or MARE_SEED. Prints the line that replays it.
function t.seed()
    local seed = tonumber(os.getenv "MARE_SEED" or "")
    if not seed then
        seed = math.random(0) >> 1
    end
    print(string.format("# replay with: MARE_SEED=%d", seed))
    math.randomseed(seed)
    return seed
end

return t
