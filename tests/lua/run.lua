-- SPDX-License-Identifier: MIT
-- Runs files of tests, each case in a Maré process of its own, and reports in TAP:
--
--     build/mare tests/lua/run.lua tests/lua/test_channel.lua [pattern]
--
-- A file returns a table: name = function, or name = {function, timeout = seconds}. With a pattern,
-- only the cases whose names match it run. The exit code is 0 when nothing failed.
local mare = require "mare"

local here = arg[0]:match "^(.*)/[^/]*$" or "."
local slow = tonumber(os.getenv "MARE_TEST_SLOW" or "1")
local DEFAULT_TIMEOUT = 60

-- Both run in a new process: nothing of the file is loaded into the process that judges.
local function list(folder, file)
    package.path = folder .. "/?.lua;" .. package.path
    local cases = assert(loadfile(file))()
    assert(type(cases) == "table", "a test file returns a table of cases")
    local found = {}
    for name, case in pairs(cases) do
        found[#found + 1] = {name = name, timeout = type(case) == "table" and case.timeout or nil}
    end
    table.sort(found, function(a, b) return a.name < b.name end)
    return found
end

local function run(folder, file, name)
    package.path = folder .. "/?.lua;" .. package.path
    local case = assert(loadfile(file))()[name]
    local body = type(case) == "table" and case[1] or case
    body()
end

local function comment(text)
    for line in tostring(text):gmatch "[^\n]+" do
        print("#   " .. line)
    end
end

local count, failed = 0, 0

local function report(ok, name, why, traceback)
    count = count + 1
    if ok then
        print(("ok %d - %s"):format(count, name))
    elseif type(why) == "table" and why.skip then
        print(("ok %d - %s # SKIP %s"):format(count, name, why.skip))
    else
        failed = failed + 1
        print(("not ok %d - %s"):format(count, name))
        comment(why)
        if traceback then
            comment(traceback)
        end
    end
    io.stdout:flush()
end

local function run_file(file, pattern)
    local ok, cases, code, traceback = mare.spawn(list, here, file):join(DEFAULT_TIMEOUT * slow)
    if not ok then
        return report(false, file .. " (" .. tostring(code) .. ")", cases, traceback)
    end
    for _, case in ipairs(cases) do
        if case.name:find(pattern or "") then
            local timeout = (case.timeout or DEFAULT_TIMEOUT) * slow
            local process = mare.spawn(run, here, file, case.name)
            local done, err, how, trace = process:join(timeout)
            if how == "timeout" then
                err = ("still running after %g seconds"):format(timeout)
                process:kill()
            end
            report(done, case.name, err, trace)
        end
    end
end

local files = {}
local pattern
for _, argument in ipairs(arg) do
    if argument:find "%.lua$" then
        files[#files + 1] = argument
    else
        pattern = argument
    end
end
if #files == 0 then
    io.stderr:write "usage: mare tests/lua/run.lua FILE.lua... [pattern]\n"
    os.exit(2)
end
for _, file in ipairs(files) do
    run_file(file, pattern)
end
print("1.." .. count)
os.exit((failed == 0 and count > 0) and 0 or 1)
