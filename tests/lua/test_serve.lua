-- SPDX-License-Identifier: MIT
-- `mare serve`, `mare submit` and `mare jobs` as people use them: options, exit codes, signals.
local file, child = require "mare.file", require "mare.child"
local json, keys = require "mare.json", require "mare.keys"
local t, shell = require "t", require "shell"

-- Starts `mare serve`, with more options, and calls f with its address, its program and its log.
local function serving(options, f)
    t.in_folder(function(folder)
        local path = folder .. "/log"
        local words = {shell.mare, "serve", "--listen", "127.0.0.1:0", "--log", path, "--json",
            stdin = "null", stdout = "null", stderr = "inherit", grace = 0}
        for _, word in ipairs(options(folder)) do words[#words + 1] = word end
        local program <close> = t.ok(child.spawn(words))
        local function log() return file.read(path) or "" end
        local address
        t.reaches(function()
            address = log():match '"address":"([^"]+)"'
            return address
        end, "the server")
        f(address, program, log, folder)
    end)()
end

local function none() return {} end

-- Runs a command against the server: what it printed and its exit code.
local function command(...)
    local words = {}
    for i, word in ipairs {shell.mare, ...} do words[i] = shell.quote(word) end
    return shell.run(table.concat(words, " "))
end

local function submit(address, text, ...)
    local program <close> = shell.file(text)
    return command("submit", address, program.name, ...)
end

return {
    a_file_is_run_there_and_its_status_is_ours = function()
        serving(none, function(address)
            local result = submit(address, "print('hello', ...) return 7", "a", "b c")
            t.eq({result.out, result.err, result.code}, {"hello\ta\tb c\n", "", 7})
            result = submit(address, "error('oh', 0)")
            t.eq({result.out, result.err, result.code}, {"", "mare submit: oh\n", 1})
            result = submit(address, "return os.exit(0)")
            t.eq(result.code, 1)
            t.ok(result.err:find "attempt to index a nil value %(global 'os'%)")
        end)
    end,

    limits_and_refusals_have_exit_codes = function()
        serving(function(folder)
            t.ok(file.write(folder .. "/config", "instructions = 100000 # of each\nsource = 100\n"
                .. "output=5\n time = 20\n"))
            return {"--config", folder .. "/config", "--output", "1K"}
        end, function(address, _, log)
            local result = submit(address, "print('more than 5') while true do end")
            t.eq({result.out, result.err, result.code}, {"more than 5\n",
                "mare submit: it took more than 100000 instructions\n", 122})
            result = submit(address, ("x"):rep(101))
            t.eq({result.err, result.code},
                {"mare submit: the code has 101 bytes; 100 are allowed\n", 120})
            t.ok(log():find '"message":"refused"')
            result = command("submit", "127.0.0.1:1", "/dev/null")
            t.eq(result.code, 121)
            t.eq(command("submit", address, "/no/such/file").code, 1)
            t.eq(command("jobs", address, "show", "1-x").code, 1)
        end)
    end,

    jobs_are_listed_shown_and_cancelled = function()
        serving(function() return {"--allow", "mare.sleep", "--time", "100"} end,
            function(address)
                local long <close> = shell.file "print 'begun' require 'mare'.sleep(1000)"
                local name = command("submit", "--detach", address, long.name).out:match "^%S+"
                t.reaches(function()
                    return command("jobs", address, "show", name).out:find "begun\n"
                end, "output")
                local mark = name:gsub("%-", "%%-")
                t.ok(command("jobs", address).out:find("^" .. mark .. " +running"))
                t.eq(command("jobs", address, "cancel", name).code, 0)
                t.reaches(function()
                    local listed = json.decode(command("jobs", "--json", address).out)
                    return listed.name == name and listed.code == "cancelled"
                end, "cancelled")
            end)
    end,

    an_interrupt_cancels_the_job_and_a_lost_server_is_told = function()
        serving(function() return {"--allow", "mare.sleep", "--time", "100"} end,
            function(address, program, log)
                local long <close> = shell.file "print 'begun' require 'mare'.sleep(1000)"
                local function begin()
                    local made = t.ok(child.spawn {shell.mare, "submit", address, long.name,
                        stdin = "null", stdout = "pipe", stderr = "null"})
                    t.eq(made.stdout:read("l", t.patience), "begun")
                    return made
                end
                local first <close> = begin()
                first:kill "SIGINT"
                t.eq({first:wait(t.patience)}, {"exit", 130})
                t.reaches(function() return log():find '"code":"cancelled"' end, "cancelled")
                local second <close> = begin()
                program:kill "SIGKILL"
                t.eq({second:wait(t.patience)}, {"exit", 121})
            end)
    end,

    a_server_that_is_told_to_end_tells_its_submitters = function()
        serving(function() return {"--allow", "mare.sleep", "--time", "100"} end,
            function(address, program)
                local long <close> = shell.file "print 'begun' require 'mare'.sleep(1000)"
                local made <close> = t.ok(child.spawn {shell.mare, "submit", address, long.name,
                    stdin = "null", stdout = "pipe", stderr = "pipe"})
                t.eq(made.stdout:read("l", t.patience), "begun")
                program:kill "SIGTERM"
                t.eq(made.stderr:read("l", t.patience), "mare submit: the server stops")
                t.eq({made:wait(t.patience)}, {"exit", 123})
                t.eq({program:wait(t.patience)}, {"exit", 0})
            end)
    end,

    json_has_everything = function()
        serving(none, function(address)
            local program <close> = shell.file "print 'x' return 3"
            local events = {}
            local result = command("submit", "--json", address, program.name)
            for line in result.out:gmatch "[^\n]+" do events[#events + 1] = json.decode(line) end
            t.eq({events[1].event, events[2].event, events[2].text, events[3].event,
                events[3].status, result.code}, {"submitted", "output", "x\n", "ended", 3, 3})
        end)
    end,

    keys_and_signatures_go_along = function()
        t.in_folder(function(folder)
            t.ok(keys.authority(folder .. "/keys", "tides"))
            t.ok(keys.issue(folder .. "/keys", "serve", {hosts = {"127.0.0.1"}}))
            t.ok(keys.issue(folder .. "/keys", "ana"))
            t.ok(keys.issue(folder .. "/keys", "signer", {code = true}))
            local config = "unsigned = no\n[peer ana]\nmanage = yes\n[signed signer]\n"
                .. "allow = os.getenv HOME\nallow = string\n"
            t.ok(file.write(folder .. "/config", config))
            serving(function()
                return {"--keys", folder .. "/keys", "--config", folder .. "/config"}
            end, function(address)
                local program = folder .. "/x.lua"
                t.ok(file.write(program, "print(#os.getenv 'HOME' > 0, pcall(os.getenv, 'PATH'))"))
                local function go()
                    return command("submit", "--keys", folder .. "/keys", "--name", "ana", address,
                        program)
                end
                local result = go()
                t.eq({result.err, result.code},
                    {"mare submit: the code must be signed: see 'mare keys sign'\n", 120})
                t.eq(command("keys", "sign", "signer", program, "--folder", folder .. "/keys").code,
                    0)
                result = go()
                t.eq({result.err, result.code}, {"", 0})
                t.ok(result.out:find "^true\tfalse\t")
                result = command("submit", address, program)
                t.eq(result.code, 121, result.err)
            end)
        end)()
    end,

    wrong_usage_is_told = function()
        for words, expected in pairs {
            ["serve"] = "mare serve %-%-listen", ["serve --tiem 5"] = "no option '%-%-tiem'",
            ["serve --time 5"] = "%-%-listen HOST:PORT is needed",
            ["serve --listen 127.0.0.1:0 --time x"] = "'time' must be a number of seconds",
            ["submit"] = "mare submit", ["submit 127.0.0.1:1"] = "which file",
            ["submit --keys x 127.0.0.1:1 /dev/null"] = "%-%-name NAME is needed",
            ["jobs 127.0.0.1:1 frob"] = "there is no 'frob': list, show or cancel",
            ["jobs 127.0.0.1:1 show"] = "which job"} do
            local result = shell.run(shell.mare .. " " .. words)
            t.eq(result.code, 2, words)
            t.ok(result.err:find(expected), result.err)
        end
        local result = shell.run(shell.mare .. " serve --listen 0.0.0.0:0")
        t.eq(result.code, 1)
        t.ok(result.err:find "can be reached by others")
        for _, name in ipairs {"serve", "submit", "jobs"} do
            result = command(name, "--help")
            t.eq({result.code, result.err}, {0, ""})
            t.eq(command("help", name).out, result.out)
        end
    end,
}
