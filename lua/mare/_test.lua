-- SPDX-License-Identifier: MIT
-- `mare test`: runs files of tests, each case in a process of its own, and reports in TAP. A file
-- returns a table: name = function, or name = {function, timeout = seconds}.
local mare, near = require "mare", require "mare._arguments".near

local DEFAULT_TIMEOUT = 60
local OURS = 240 -- added to the exit code: so src/cli/test.c can tell it from that of a case
local slow = tonumber(os.getenv "MARE_TEST_SLOW" or "1")

-- These three run in a new process, so that nothing of a test file is loaded into the process that
-- judges.
local function cases_of(folder, file)
    package.path = folder .. "/?.lua;" .. package.path
    local chunk, why = loadfile(file)
    if not chunk then error({text = why}, 0) end
    local cases = chunk()
    if type(cases) ~= "table" then
        error(file .. ": a test file must return a table of cases, got " .. type(cases), 0)
    end
    return cases
end

-- Whether it is a function, or {function, timeout = seconds} and nothing else.
local function is_case(case)
    if type(case) ~= "table" then return type(case) == "function" end
    for key in pairs(case) do
        if key ~= 1 and key ~= "timeout" then return false end
    end
    local timeout = case.timeout
    return type(case[1]) == "function"
        and (timeout == nil or (math.type(timeout) and timeout > 0) or false)
end

local function list(folder, file)
    local found = {}
    for name, case in pairs(cases_of(folder, file)) do
        local timeout = type(case) == "table" and case.timeout or nil
        if type(name) ~= "string" or not is_case(case) then
            error(("%s: case %s: a case is name = function, or name = {function, timeout = "
                .. "seconds}"):format(file, require "mare._show"(name)), 0)
        end
        found[#found + 1] = {name = name, timeout = timeout}
    end
    table.sort(found, function(a, b) return a.name < b.name end)
    return found
end

local function run(folder, file, name)
    local case = cases_of(folder, file)[name]
    local body = type(case) == "table" and case[1] or case
    body()
end

-- Text for a report: safe for a terminal, whatever bytes it has.
local function shown(text)
    return (text:gsub("[%c\x7f]", function(c)
        return c ~= "\t" and ("\\x%02x"):format(c:byte()) or nil
    end))
end

local function comment(value)
    local text = type(value) == "table" and require "mare._show"(value) or tostring(value)
    for line in text:gmatch "[^\n]+" do
        print("#   " .. shown(line))
    end
end

-- The traceback without the frames of the test runner; nil if the message says as much.
local function own_frames(why, traceback)
    local lines = {}
    for line in traceback:gmatch "[^\n]+" do
        local ours = line:find "^%s*mare%._?test:" or line:find "^%s*%[C%]: in function 'error'$"
        if not ours then lines[#lines + 1] = line end
    end
    local place = #lines == 2 and lines[2]:match "^%s*(.-:%d+:)"
    if place and type(why) == "string" and why:sub(1, #place) == place then return nil end
    return #lines > 1 and table.concat(lines, "\n") or nil
end

local count, failed = 0, 0

local function report(ok, name, why, traceback)
    count = count + 1
    name = shown(name):gsub("#", "\\#") -- a # would begin a directive of TAP
    if ok then
        print(("ok %d - %s"):format(count, name))
    elseif type(why) == "table" and why.skip then
        print(("ok %d - %s # SKIP %s"):format(count, name, shown(tostring(why.skip))))
    else
        failed = failed + 1
        print(("not ok %d - %s"):format(count, name))
        comment(why)
        traceback = traceback and own_frames(why, traceback)
        if traceback then comment(traceback) end
    end
    io.stdout:flush()
end

-- What a case is doing that has not ended in time.
local function whereabouts(process)
    for _, row in ipairs(mare.processes()) do
        if row.id == process:id() and row.status == "blocked" then
            return ("it waits at %s %s"):format(row.at or "?", row.waits_text or "")
        end
    end
    return "it computes"
end

local function seconds(value)
    return ("%g second%s"):format(value, value == 1 and "" or "s")
end

local function run_file(file, pattern, timeout)
    local folder = file:match "^(.*)/[^/]*$" or "."
    local lister = mare.spawn(list, folder, file)
    local ok, cases, code, traceback = lister:join(timeout * slow)
    if code == "timeout" then
        cases = ("it has not returned its cases after %s: %s"):format(seconds(timeout * slow),
            whereabouts(lister))
        lister:kill()
    end
    if not ok then
        local said = type(cases) == "table" and cases.text -- it cannot be read: our line is no use
        return report(false, file .. " (" .. tostring(code) .. ")", said or cases,
            not said and traceback)
    end
    for _, case in ipairs(cases) do
        if case.name:find(pattern or "") then
            local limit = (case.timeout or timeout) * slow
            local process = mare.spawn(run, folder, file, case.name)
            local done, err, how, trace = process:join(limit)
            if how == "timeout" then
                err = ("still running after %s: %s"):format(seconds(limit),
                    whereabouts(process))
                process:kill()
            end
            report(done, case.name, err, trace)
        end
    end
end

local ends_with = 0 -- plus the code

local function fail(...)
    io.stderr:write("mare test: ", ...)
    io.stderr:write "\n"
    os.exit(ends_with + 2)
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

--- Runs the tests that the arguments name, reports, and ends the program. `marks`: for the command.
return function(marks, ...)
    ends_with = marks and OURS or 0
    local files, pattern, timeout = read {...}
    if #files == 0 then
        add_folder(is_folder "tests" and "tests" or is_folder "test" and "test" or ".", files)
    end
    for _, file in ipairs(files) do
        run_file(file, pattern, timeout)
    end
    print("1.." .. count)
    if #files == 0 then
        io.stderr:write("mare test: there is no file test_NAME.lua or NAME_test.lua\n")
    elseif count == 0 then
        io.stderr:write(pattern and ("mare test: no case has a name that matches '%s'\n"):format(
            pattern) or "mare test: the files have no cases\n")
    end
    os.exit(ends_with + ((failed == 0 and count > 0) and 0 or 1))
end
