-- SPDX-License-Identifier: MIT
-- `mare test`: runs files of tests, each case in a process of its own, and reports in TAP. A file
-- returns a table: name = function, or name = {function, timeout = seconds}.
local mare, near = require "mare", require "mare._arguments".near

local DEFAULT_TIMEOUT = 60
local slow = tonumber(os.getenv "MARE_TEST_SLOW" or "1")

-- These two run in a new process: nothing of the file is loaded into the process that judges.
local function list(folder, file)
    package.path = folder .. "/?.lua;" .. package.path
    local cases = assert(loadfile(file))()
    assert(type(cases) == "table", "a test file returns a table of cases")
    local found = {}
    for name, case in pairs(cases) do
        local body = type(case) == "table" and case[1] or case
        assert(type(name) == "string" and type(body) == "function",
            "a case is name = function, or name = {function, timeout = seconds}")
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

local function comment(value)
    local text = type(value) == "table" and require "mare._show"(value) or tostring(value)
    for line in text:gmatch "[^\n]+" do
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

local function run_file(file, pattern, timeout)
    local folder = file:match "^(.*)/[^/]*$" or "."
    local ok, cases, code, traceback = mare.spawn(list, folder, file):join(timeout * slow)
    if not ok then
        return report(false, file .. " (" .. tostring(code) .. ")", cases, traceback)
    end
    for _, case in ipairs(cases) do
        if case.name:find(pattern or "") then
            local limit = (case.timeout or timeout) * slow
            local process = mare.spawn(run, folder, file, case.name)
            local done, err, how, trace = process:join(limit)
            if how == "timeout" then
                err = ("still running after %g seconds"):format(limit)
                process:kill()
            end
            report(done, case.name, err, trace)
        end
    end
end

local function fail(...)
    io.stderr:write("mare test: ", ...)
    io.stderr:write "\n"
    os.exit(2)
end

local IS_FOLDER = 21 -- EISDIR

local function is_folder(path)
    local handle <close> = io.open(path)
    return handle ~= nil and select(3, handle:read(1)) == IS_FOLDER
end

-- The files of tests in a folder and those in it, in order: test_NAME.lua or NAME_test.lua.
local function add_folder(folder, files)
    local names = require "mare.file".list(folder)
    if not names then fail("cannot read the folder ", folder) end
    for _, name in ipairs(names) do
        local path = folder == "." and name or folder .. "/" .. name
        if name:sub(1, 1) ~= "." and is_folder(path) then
            add_folder(path, files)
        elseif name:find "^test_.*%.lua$" or name:find "_test%.lua$" then
            files[#files + 1] = path
        end
    end
end

-- The arguments: files and folders, a pattern, --timeout.
local function read(arguments)
    local files, pattern, timeout = {}, nil, DEFAULT_TIMEOUT
    local i = 1
    while i <= #arguments do
        local argument = arguments[i]
        if argument == "--timeout" then
            i = i + 1
            timeout = tonumber(arguments[i])
            if not timeout or timeout <= 0 then
                fail "--timeout needs a number of seconds above 0"
            end
        elseif argument:sub(1, 2) == "--" then
            fail("there is no option '", argument, "'; ", near(argument, {["--timeout"] = true}),
                "'mare help test' lists them")
        elseif argument:find "%.lua$" then
            files[#files + 1] = argument
        elseif is_folder(argument) then
            add_folder(argument, files)
        elseif pattern then
            fail("there is no folder '", argument, "', and only one pattern can be given")
        else
            pattern = argument
        end
        i = i + 1
    end
    return files, pattern, timeout
end

return function(...)
    local files, pattern, timeout = read {...}
    if #files == 0 then
        add_folder(is_folder "tests" and "tests" or is_folder "test" and "test" or ".", files)
    end
    for _, file in ipairs(files) do
        run_file(file, pattern, timeout)
    end
    print("1.." .. count)
    os.exit((failed == 0 and count > 0) and 0 or 1)
end
