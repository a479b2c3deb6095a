-- SPDX-License-Identifier: MIT
-- mare.log: what is written, where it goes, and that nothing ever waits for it.
local mare, t, shell = require "mare", require "t", require "shell"
local file, log = require "mare.file", require "mare.log"

-- The log is the program's: one case after the other sets it up, and puts it back.
local function with(options, f)
    t.ok(log.setup(options))
    local results = table.pack(pcall(f))
    t.ok(log.flush(t.patience))
    t.ok(log.setup {level = "off"})
    if not results[1] then error(results[2], 0) end
end

-- Whatever was lost before is mentioned elsewhere.
local function forget_lost()
    with({to = "/dev/null"}, function()
        t.ok(log.flush(t.patience))
        log.info ""
    end)
end

-- The lines that f logs to a file, without their times.
local function lines(options, f)
    local found
    if not options.mentions then forget_lost() end
    options.mentions = nil
    t.in_folder(function(folder)
        options.to = folder .. "/log"
        with(options, f)
        found = file.read(options.to)
    end)()
    return (found:gsub("%d%d%d%d%-%d%d%-%d%dT%d%d:%d%d:%d%d%.%d%d%dZ", "TIME"))
end

local function without_number(text) return (text:gsub("%[%d+%]", "[?]")) end

return {
    a_line_of_text = function()
        t.eq(without_number(lines({}, function()
            log.info("started", {port = 8080, name = "a b", list = {1, {x = true}}, empty = ""})
            log.new("shop", {region = "eu", n = 1}).warn("two\nlines", {n = 2, eq = "a=b"})
            log.error(setmetatable({}, {__tostring = function() return "an object" end}))
        end)), [[
TIME info -[?]: started empty="" list={1, {x = true}} name="a b" port=8080
TIME warn shop[?]: two\nlines eq="a=b" n=2 region=eu
TIME error -[?]: an object
]])
    end,

    a_line_of_json = function()
        local text = lines({format = "json"}, function()
            log.warn('say "hi"\n', {bytes = "\xff\0\u{e9}", nan = 0 / 0,
                list = {1, 2.5, {a = false}}, mixed = {7, a = 8}, level = "mine", f = print})
        end)
        local value = t.ok(require "cjson".decode(text))
        t.eq({value.level, value.message, value.process == mare.self():id()},
            {"warn", 'say "hi"\n', true})
        t.eq(value.bytes, "\u{FFFD}\0\u{e9}")
        t.eq(#value.list, 3)
        t.ok(text:find('"mixed":{"1":7,"a":8}', 1, true), text)
        t.ok(value.f:find "^function" or value.f:find "builtin", value.f)
        t.ok(value.nan:find "nan", value.nan)
    end,

    levels = function()
        local levels = {shop = "debug", noisy = "off"}
        t.eq(without_number(lines({level = "warn", levels = levels}, function()
            local shop, noisy, other = log.new "shop", log.new "noisy", log.new "other"
            t.eq({log.debug "x", log.info "x", log.warn "1", log.error "2"},
                {false, false, true, true})
            t.eq({shop.debug "3", noisy.error "x", other.info "x"}, {true, false, false})
            t.eq({log.enabled "info", shop.enabled "debug", noisy.enabled "error"},
                {false, true, false})
        end)), "TIME warn -[?]: 1\nTIME error -[?]: 2\nTIME debug shop[?]: 3\n")
    end,

    every_process_has_the_same_settings = function()
        local text = lines({level = "error"}, function()
            local go, done = mare.channel(), mare.channel(1)
            local p = mare.spawn({name = "log.other"}, function()
                local there = require "mare.log"
                there.info "not yet"
                done:send(true)
                go:receive()
                there.info "now"
            end)
            done:receive(t.patience)
            log.setup {level = "info", to = "/dev/null"}
            go:send(true)
            t.ok(p:join(t.patience))
            t.eq(log.stats().waiting >= 0, true)
        end)
        t.eq(text, "")
        local records = mare.channel(10)
        forget_lost()
        with({to = function(record) records:send(record) end}, function()
            t.ok(mare.spawn({name = "log.named"}, function()
                require "mare.log".info("there", {n = 1})
            end):join(t.patience))
            local record = t.ok(records:receive(t.patience))
            t.eq({record.process, record.message, record.n, record.level},
                {"log.named", "there", 1, "info"})
        end)
    end,

    a_function_gets_the_records = function()
        local records = mare.channel(10)
        forget_lost()
        with({to = function(record)
            if record.message == "fails" then error "on purpose" end
            -- The loss is told of before "two" if it is known by then.
            if record.message ~= "records were lost" then
                records:send(record.message, record.what)
            end
        end}, function()
            local lost = log.stats().lost
            log.info("one", {what = {1}})
            log.info "fails"
            log.info("two", {what = coroutine.create(print)})
            t.eq({records:receive(t.patience)}, {"one", {1}})
            local message, what = records:receive(t.patience)
            t.eq(message, "two")
            t.ok(what:find "^thread: ", what)
            t.eq(log.stats().lost, lost + 1)
        end)
    end,

    -- It is said once, until it goes well again; and a flush waits for what the function does.
    a_function_that_fails_is_told = function()
        if not shell.mare then t.skip "needs the command line" end
        local result = shell.lua([[
            local mare, log = require "mare", require "mare.log"
            local begun, go = mare.channel(), mare.channel()
            log.setup {to = function(record)
                if record.message == "waits" then
                    begun:send()
                    go:receive()
                elseif record.message == "asks" then
                    assert(log.flush(60)) -- not for itself
                elseif record.message ~= "records were lost" then
                    error {code = 5}
                end
            end}
            log.info "one"
            log.info "two"
            log.flush(60)
            print(log.stats().lost, log.stats().error)
            log.info "asks"
            log.flush(60)
            log.info "waits"
            begun:receive()
            print(log.flush(0.01))
            go:send()
            print(log.flush(60))
            log.info "three"
            log.flush(60)
        ]])
        local line = "mare: the function that gets the log fails: {code = 5} "
            .. "(what is logged meanwhile is lost, and counted)\n"
        t.eq(result.out, "2\t{code = 5}\nnil\tthe deadline passed\ttimeout\ntrue\n")
        t.eq(result.err, line .. line)
    end,

    a_full_disk = function()
        local before
        with({to = "/dev/full"}, function()
            before = log.stats()
            t.ok(log.info "x") -- one: with the next comes a record that says so, and is lost, too
            t.ok(log.flush(t.patience))
            local stats = log.stats()
            t.eq({stats.lost - before.lost, stats.error}, {1, "No space left on device"})
            for _ = 1, 9 do -- each comes with a record that tells of the losses, and is lost too
                log.info "x"
                t.ok(log.flush(t.patience))
            end
            t.eq(log.stats().lost - before.lost, 10)
        end)
        local text = lines({mentions = true}, function()
            t.ok(log.flush(t.patience))
            log.info "there is room again"
        end)
        t.ok(text:find('^TIME warn mare.log%[%d+%]: records were lost count=10 '
            .. 'error="No space left on device"\nTIME info .*: there is room again\n$'), text)
    end,

    a_full_disk_is_told_on_standard_error_once = function()
        if not shell.mare then t.skip "needs the command line" end
        local result = shell.lua([[
            local log = require "mare.log"
            log.setup {to = "/dev/full"}
            for i = 1, 3 do
                log.info "lost"
                log.flush(60)
            end
            log.setup {to = arg[1]}
            log.info "kept"
            log.flush(60)
            print(log.stats().lost)
        ]], "/dev/null")
        t.eq({result.out, result.err}, {"3\n", "mare: the log /dev/full cannot be written: No "
            .. "space left on device (what is logged meanwhile is lost, and counted)\n"})
    end,

    files_are_put_aside = t.in_folder(function(folder)
        local path = folder .. "/log"
        with({to = path, size = 200, keep = 2}, function()
            for i = 1, 40 do log.info("line", {i = i}) end
        end)
        t.eq(table.concat(file.list(folder), " "), "log log.1 log.2")
        local last = 0
        for _, name in ipairs {"/log.2", "/log.1", "/log"} do
            local text = t.ok(file.read(folder .. name))
            t.ok(#text <= 200 and text:find "\n$", text)
            for i in text:gmatch "i=(%d+)" do
                t.ok(last == 0 or tonumber(i) == last + 1)
                last = tonumber(i)
            end
        end
        t.eq(last, 40)
        with({to = path, size = 1e2, keep = 0.0, room = 1e4}, function() -- floats, but whole
            for i = 1, 10 do log.info("line", {i = i}) end
        end)
        t.ok(#file.read(path) <= 100)
        t.eq(#file.list(folder), 3)
    end),

    -- What is in the way here is a folder; elsewhere the program may not write in the folder.
    a_file_that_cannot_be_put_aside_grows_on = t.in_folder(function(folder)
        if not shell.mare then t.skip "needs the command line" end
        local path = folder .. "/log"
        t.ok(file.mkdir(path .. ".1"))
        local result = shell.lua([[
            local log, file = require "mare.log", require "mare.file"
            local function write(from, to)
                for i = from, to do log.info("line", {i = i}) end
                log.flush(60)
                print(log.stats().lost)
            end
            log.setup {to = arg[1], size = 1000, keep = 1}
            write(1, 100)
            file.remove(arg[1] .. ".1")
            write(101, 200)
        ]], path)
        t.eq({result.out, result.err}, {"0\n0\n", "mare: the log " .. path .. " cannot be rotated: "
            .. "Is a directory (the same file grows on)\n"})
        local text, last = t.ok(file.read(path .. ".1")) .. t.ok(file.read(path)), nil
        for i in text:gmatch "i=(%d+)" do
            t.ok(not last or tonumber(i) == last + 1)
            last = tonumber(i)
        end
        t.eq(last, 200)
        t.ok(#file.read(path) <= 1000)
    end),

    -- A symbolic link to one stands for /dev/null itself, which would have been gone.
    a_device_is_not_put_aside = t.in_folder(function(folder)
        local path = folder .. "/log"
        t.ok(file.symlink("/dev/null", path))
        with({to = path, size = 100}, function()
            for i = 1, 10 do log.info("line", {i = i}) end
        end)
        t.eq(file.list(folder), {"log"})
    end),

    -- By a full disk, or by the kill of an earlier run.
    a_line_that_was_cut_off_is_ended = t.in_folder(function(folder)
        local path = folder .. "/log"
        t.ok(file.write(path, "cut o"))
        with({to = path}, function() log.info "whole" end)
        t.ok(t.ok(file.read(path)):find "^cut o\n%S+ info [^\n]+: whole\n$", file.read(path))
        t.ok(file.write(path, ("x"):rep(90)))
        with({to = path, size = 100, keep = 1}, function() log.info "whole" end)
        t.eq(file.read(path .. ".1"), ("x"):rep(90))
        t.ok(t.ok(file.read(path)):find "^%S+ info [^\n]+: whole\n$", file.read(path))
    end),

    what_cannot_be_opened_is_said_at_once = function()
        t.fails("noname", log.setup {to = "/nowhere/at/all"})
        t.raises("test_log.lua:%d+: bad argument #1 to 'setup' %(unknown option 'lvl'",
            function() log.setup {lvl = "info"} end)
        for option, value in pairs {level = "loud", format = "xml", to = 5, size = 0, keep = -1,
            room = 0, levels = {x = "y"}} do
            t.raises("test_log.lua:%d+: bad argument #1 to 'setup' %(option '" .. option
                .. "' must be", function() log.setup {[option] = value} end)
        end
        for _, size in ipairs {0, 0.5, -1, 1 / 0, 0 / 0, "8"} do
            t.raises("option 'size' must be a whole number of bytes above 0", log.setup,
                {size = size})
        end
        with({to = "/dev/null"}, function()
            t.raises("test_log.lua:%d+: bad argument #2 to 'info' %(table expected, got number",
                function() log.info("x", 5) end)
        end)
    end,

    -- The reader takes nothing before the program has said what became of its 2,000 lines.
    nobody_waits_for_a_reader_that_does_not_read = function()
        if not shell.mare then t.skip "needs the command line" end
        local result, program <close> = os.tmpname(), shell.file [[
            local log = require "mare.log"
            log.setup {room = 100}
            for i = 1, 2000 do log.info(("x"):rep(1000)) end
            local file = io.open(arg[1], "w")
            file:write(log.stats().lost > 500 and "lost some" or "lost too few")
            file:close()
        ]]
        shell.run(("%s %s %s 2>&1 | (while [ ! -s %s ]; do sleep 0.01; done; cat >/dev/null)")
            :format(shell.mare, program.name, result, result))
        t.eq(file.read(result), "lost some")
        os.remove(result)
    end,

    -- What the runtime has to say goes where the program wants its log.
    the_runtime_says_it_there_too = t.in_folder(function(folder)
        if not shell.mare then t.skip "needs the command line" end
        local path = folder .. "/log"
        local code <close> = shell.file(([[
            local mare, net, http = require "mare", require "mare.net", require "mare.http"
            require "mare.log".setup {to = %q, format = "json"}
            mare.go(function() error "a routine\xff" end)
            mare.spawn({name = "clerk"}, function() error "a process" end)
            local listener = assert(net.listen("127.0.0.1", 0))
            mare.go(http.serve, listener, function() error "a handler" end)
            http.get("http://127.0.0.1:" .. select(2, listener:address()))
            listener:close()
            mare.spawn({name = "stuck"}, function() mare.channel(0, "nobody"):receive() end)
        ]]):format(path))
        local got = shell.run(shell.mare .. " " .. code.name)
        t.eq({got.code, got.out, got.err}, {1, "", ""})
        local found = {}
        for line in io.lines(path) do
            local record = assert(require "mare.json".decode(line))
            t.ok(record.level == "error" and record.time, line)
            local what = record.message:match "routine\u{FFFD}" or record.message:match "a process"
                or record.message:match "a handler" or record.message:match "stuck.*nobody"
            t.ok(what, line)
            t.eq(record.module, what == "a handler" and "mare.http" or "mare")
            t.eq(record.traceback ~= nil, not what:find "stuck", line)
            found[#found + 1] = what:match "^%S+ ?%S*"
        end
        t.eq(#found, 4, table.concat(found, ", "))
    end),

    who_comes_back_from_c_is_in_the_log = t.in_folder(function(folder)
        if not shell.mare then t.skip "needs the command line" end
        t.needs_preemption()
        local path = folder .. "/log"
        local code <close> = shell.file(([[
            require "mare.log".setup {to = %q}
            require("mare").spawn({name = "reader"}, function()
                local pipe <close> = io.popen "sleep 1"
                pipe:read "a"
                local x = 0
                for i = 1, 1e6 do x = x + i end
            end):join()
        ]]):format(path))
        local got = shell.run("MARE_STUCK=0.3 " .. shell.mare .. " " .. code.name)
        t.eq(got.code, 0)
        -- While it lasts, a signal handler tells it, which can only write to standard error.
        t.ok(got.err:find "^mare: process %d+ %(reader%) has held a worker [^\n]*\n$", got.err)
        local text = file.read(path)
        t.ok(text:find " warn mare: process %d+ %(reader%) is back from C after ", text)
    end),

    the_end_of_the_program_writes_what_is_left = function()
        if not shell.mare then t.skip "needs the command line" end
        local got = shell.lua [[
            local mare, log = require "mare", require "mare.log"
            log.setup {format = "json"}
            for i = 1, 1000 do log.info("n", {i = i}) end
            mare.spawn({name = "unlucky"}, function() error {code = 5} end)
        ]]
        t.eq({got.code, select(2, got.err:gsub("\n", "\n"))}, {1, 1001})
        local last = t.ok(require "cjson".decode(got.err:match "([^\n]+)\n$"))
        t.eq({last.level, last.module}, {"error", "mare"})
        t.ok(last.message:find "^process %d+ %(unlucky%) died: {code = 5}$", last.message)
        t.ok(last.traceback:find "stack traceback:\n", last.traceback)
        got = shell.lua [[
            local log = require "mare.log"
            log.setup {to = function(record) print(record.message) end}
            for i = 1, 3 do log.info(i) end
        ]]
        t.eq({got.out, got.err, got.code}, {"1\n2\n3\n", "", 0})
    end,
}
