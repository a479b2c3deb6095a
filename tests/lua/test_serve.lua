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
        local more = options(folder)
        table.move(more, 1, #more, #words + 1, words)
        words.env = more.env
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

-- A server that answers as it likes: what is asked for by name (`mare jobs show`), or by the first
-- argument (`mare submit`).
local LIAR = [[
    local mare, node = require "mare", require "mare.node"
    local address = assert(node.start {name = "serve", listen = "127.0.0.1:0"})
    assert(node.export("jobs", function(reply, operation, details)
        local function picture(changes)
            local made = {name = "1-x", state = "ended", from = "ana", file = "f", submitted = 1,
                bytes = 0, detached = false, code = "done", status = 0}
            for key, value in pairs(changes or {}) do made[key] = value end
            return made
        end
        local function without(key)
            local made = picture()
            made[key] = nil
            return made
        end
        local rude = picture {name = "\27[2J", code = "\27]0;x\7", from = "\nana\0", status = 1,
            message = "\27[2Jwhy", output = "\27[2Jout"}
        local answers = {good = {true, picture {output = "fine\n", more = reply}},
            rude = {true, rude}, refusal = {nil, "\27[2Jno", "full"}, number = {true, 5},
            empty = {true, {}},
            list = {true, {picture()}}, oddly = {5, picture()}, refused = {nil, {}, "full"},
            coded = {nil, "no", {}}, silent = {}, half = {true, without "code"},
            undone = {true, without "status"}, high = {true, picture {status = 256}}}
        for _, key in ipairs {"name", "state", "from", "file", "submitted", "bytes", "detached"} do
            answers["no_" .. key] = {true, without(key)}
        end
        for key in pairs(picture {seconds = 1, message = "", signer = "", output = ""}) do
            answers["odd_" .. key] = {true, picture {[key] = {}}}
        end
        if operation == "list" then
            reply:send(true, {picture(), rude})
        elseif operation == "show" then
            reply:send(table.unpack(answers[details.name], 1, 3))
        else
            local events = {output = {"output", 5}, junk = {"junk"}, empty = {"ended", {}},
                rude = {"ended", rude}}
            reply:send(true, picture {state = "running"})
            details.events:send(table.unpack(events[details.arguments[1] ] or {"ended",
                answers[details.arguments[1] ][2]}))
            mare.sleep(1000)
        end
    end))
    print(address)
    mare.sleep(1000)
]]

local function lying(f)
    local program <close> = t.ok(child.spawn {shell.mare, "-e", LIAR, stdin = "null",
        stdout = "pipe", stderr = "inherit", grace = 0})
    f(t.ok(program.stdout:read("l", t.patience)))
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
            result = submit(address, "error()")
            t.eq({result.err, result.code}, {"mare submit: the program failed with nil\n", 1})
            result = submit(address, "error('\\27[2J caf\u{e9}\\n\\u{9b}2J\\7', 0)")
            t.eq(result.err, "mare submit: ?[2J caf\u{e9}\n?2J?\n")
            result = submit(address, "error(('x'):rep(2000000), 0)")
            t.eq({result.err, result.code}, {"mare submit: " .. ("x"):rep(4096)
                .. " ... (cut: it had 2000000 bytes)\n", 1})
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
            t.reaches(function() return log():find '"message":"refused"' end, "refused")
            result = command("submit", "127.0.0.1:1", "/dev/null")
            t.eq(result.code, 121)
            t.eq(command("submit", address, "/no/such/file").code, 1)
            t.eq(command("jobs", address, "show", "1-x").code, 1)
        end)
    end,

    the_command_line_overrides_the_environment_and_that_the_file = function()
        local function config(folder)
            t.ok(file.write(folder .. "/config", "output = 2\nsource = 100\n"))
            return {"--config", folder .. "/config"}
        end
        local text <close> = shell.file "print 'six' return 6"
        local function outcome(address, env, flag)
            local words = {shell.mare, "submit", flag or address, flag and address or text.name,
                flag and text.name, env = env, timeout = 3 * t.patience}
            local result = t.ok(child.run(words))
            return result.out, result.code
        end
        serving(config, function(address)
            t.eq({outcome(address)}, {"si", 122}) -- the file's: it may print two bytes
        end)
        serving(function(folder)
            local words = config(folder)
            words.env = {MARE_SERVE_OUTPUT = "4"}
            return words
        end, function(address, _, _, folder)
            t.eq({outcome(address)}, {"six\n", 6})
            t.ok(file.write(folder .. "/mine", "detach = yes\n")) -- and what a submitter is told
            local env = {MARE_SUBMIT_CONFIG = folder .. "/mine"}
            t.ok(outcome(address, env):find "^%d+%-%x+\n$")
            env.MARE_SUBMIT_DETACH = "no"
            t.eq({outcome(address, env)}, {"six\n", 6})
            t.ok(outcome(address, env, "--detach"):find "^%d+%-%x+\n$")
        end)
        serving(function(folder)
            local words = config(folder)
            words[#words + 1], words[#words + 2] = "--output", "1"
            words.env = {MARE_SERVE_OUTPUT = "4"}
            return words
        end, function(address)
            t.eq({outcome(address)}, {"s", 122})
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

    -- What a job is called and what it prints was chosen by its submitter.
    no_job_commands_the_terminal_of_who_looks = function()
        serving(none, function(address)
            for said, shown in pairs {["\27[2J caf\u{e9} \u{9b}2J"] = "?[2J caf\u{e9} ?2J",
                ["\x9b2J \xff"] = "?2J ?"} do
                local program <close> = shell.file(("print(%q)"):format(said))
                local odd = program.name .. said:gsub("%s", "")
                t.ok(os.rename(program.name, odd))
                local name = command("submit", "--detach", address, odd).out:match "^%S+"
                t.ok(os.remove(odd))
                local result
                t.reaches(function()
                    result = command("jobs", address, "show", name).out
                    return result:find "done"
                end, "the end")
                t.eq(result:match "\n(.*)\n$", shown)
                t.ok(result:find(shown:gsub("%s", "") .. "\n", 1, true), result)
            end
        end)
    end,

    a_server_that_lies_is_not_believed = function()
        lying(function(address)
            local result = command("jobs", "--json", address, "show", "good")
            t.eq({result.err, result.code}, {"", 0})
            t.eq(json.decode(result.out), {name = "1-x", state = "ended", from = "ana", file = "f",
                submitted = 1, bytes = 0, detached = false, code = "done", status = 0,
                output = "fine\n"})
            local unreadable = "the server's answer cannot be read"
            result = command("jobs", address, "show", "empty")
            t.eq({result.out, result.err, result.code},
                {"", "mare jobs: empty: " .. unreadable .. "\n", 121})
            result = submit(address, "", "undone")
            t.eq({result.out, result.err, result.code},
                {"", "mare submit: " .. unreadable .. "\n", 121})
            local shown = [[number list oddly refused coded silent half undone high no_name no_state
                no_from no_file no_submitted no_bytes no_detached odd_name odd_state odd_from
                odd_file odd_submitted odd_bytes odd_detached odd_code odd_status odd_message
                odd_signer odd_seconds odd_output]]
            local sent, expected = "output junk empty undone high odd_message", {}
            for name in (shown .. " " .. sent):gmatch "%S+" do
                expected[#expected + 1] = ("%s\tnil\t%s\tbadmsg\n"):format(name, unreadable)
            end
            result = shell.lua(([[
                local node, jobs = require "mare.node", require "mare.jobs"
                assert(node.start {name = "ana"})
                local server = assert(node.connect(arg[1]))
                for name in (%q):gmatch "%%S+" do print(name, jobs.show(server, name)) end
                for name in (%q):gmatch "%%S+" do
                    print(name, assert(jobs.submit(server, "", {arguments = {name}})):wait())
                end
                node.stop(60)
            ]]):format(shown, sent), address)
            t.eq({result.out, result.err}, {table.concat(expected), ""})
        end)
    end,

    no_server_commands_the_terminal_of_who_asks = function()
        lying(function(address)
            local line = "?[2J          ?]0;x?             -  ?ana?                 f\n"
            t.eq(command("jobs", address, "show", "rude").out,
                line .. "  ?[2Jwhy\n?[2Jout")
            t.eq(command("jobs", address).out:match "\n(.*)$",
                line .. "  ?[2Jwhy\n?[2Jout")
            local result = command("jobs", address, "show", "refusal")
            t.eq({result.err, result.code}, {"mare jobs: refusal: ?[2Jno\n", 120})
            result = submit(address, "", "rude")
            t.eq({result.err, result.code}, {"mare submit: ?[2Jwhy\n", 1})
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

    who_waits_for_a_turn_is_told = function()
        local words = {"--jobs", "1", "--allow", "mare.sleep", "--time", "100000"}
        serving(function() return words end, function(address)
            local long <close> = shell.file "print 'begun' require 'mare'.sleep(1000)"
            local short <close> = shell.file "print 'fine'"
            local function begin(...)
                local made = {shell.mare, "submit", ...}
                made.stdin, made.stdout, made.stderr, made.grace = "null", "pipe", "pipe", 0
                return t.ok(child.spawn(made))
            end
            local first <close> = begin(address, long.name)
            t.eq(first.stdout:read("l", t.patience), "begun")
            local second <close> = begin(address, short.name)
            local said = second.stderr:read("l", t.patience)
            t.ok(said:find "^mare submit: job 2%-%x+ waits for its turn$", said)
            local third <close> = begin("--json", address, short.name)
            said = json.decode(third.stdout:read("l", t.patience))
            t.eq({said.event, said.state}, {"submitted", "queued"})
            first:kill "SIGINT"
            t.eq(first.stderr:read("a", t.patience), "") -- it had its turn at once
            t.eq({second.stdout:read("a", t.patience), second:wait(t.patience)},
                {"fine\n", "exit", 0})
            t.eq({third:wait(t.patience)}, {"exit", 0})
        end)
    end,

    -- Killed or stopped, a submitter does nothing any more, nor does a server.
    who_stands_still_or_is_killed_is_told_to_the_other = {function()
        serving(function() return {"--allow", "mare.sleep", "--time", "100"} end,
            function(address, program, log)
                local long <close> = shell.file "print 'begun' require 'mare'.sleep(1000)"
                local function begin()
                    local made = t.ok(child.spawn {shell.mare, "submit", address, long.name,
                        stdin = "null", stdout = "pipe", stderr = "pipe", grace = 0})
                    t.eq(made.stdout:read("l", t.patience), "begun")
                    return made
                end
                local function cancelled()
                    return select(2, log():gsub('"why":"its submitter is gone"', ""))
                end
                for count, signal in ipairs {"SIGKILL", "SIGSTOP"} do
                    local made <close> = begin()
                    made:kill(signal)
                    t.reaches(function() return cancelled() == count end, signal)
                end
                local last <close> = begin()
                program:kill "SIGSTOP"
                t.ok(last.stderr:read("l", t.patience):find "the node 'serve' was lost")
                t.eq({last:wait(t.patience)}, {"exit", 121})
            end)
    end, timeout = 180},

    output_that_cannot_be_written_ends_the_job = function()
        serving(function() return {"--allow", "mare.sleep", "--time", "100"} end,
            function(address, _, log)
                local long <close> = shell.file "print 'begun' require 'mare'.sleep(1000)"
                local result = shell.run(("%s submit %s %s >/dev/full"):format(shell.mare, address,
                    long))
                t.eq({result.err, result.code},
                    {"mare submit: standard output: No space left on device\n", 1})
                t.reaches(function() return log():find '"why":"its submitter is gone"' end, "gone")
                local chatty <close> =
                    shell.file "while true do print 'x' require 'mare'.sleep(0.001) end"
                result = shell.run(("%s submit %s %s | head -c 1"):format(shell.mare, address,
                    chatty))
                t.eq({result.out, result.err}, {"x", ""}) -- as of any program
                t.reaches(function()
                    return select(2, log():gsub('"why":"its submitter is gone"', "")) == 2
                end, "gone")
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

    -- What is no UTF-8 is shown as that, but not a letter that was printed in two halves.
    json_is_made_of_any_output = function()
        serving(none, function(address)
            local program <close> = shell.file [[
                print(("\u{20ac}"):rep(60000) .. "\xff")
                error("\xfe", 0)
            ]]
            local text, ended = "", nil
            local result = command("submit", "--json", address, program.name)
            for line in result.out:gmatch "[^\n]+" do
                local event = json.decode(line)
                if event.event == "output" then text = text .. event.text end
                if event.event == "ended" then ended = event end
            end
            t.eq({ended.message, result.err}, {"\u{fffd}", ""})
            t.eq(text, ("\u{20ac}"):rep(60000) .. "\u{fffd}\n")
            t.eq(json.decode(command("jobs", "--json", address, "show", ended.name).out).message,
                "\u{fffd}")
        end)
    end,

    a_log_on_a_full_disk_stops_no_job = t.in_folder(function(folder)
        local program <close> = t.ok(child.spawn {shell.mare, "serve", "--listen",
            folder .. "/socket", "--log", "/dev/full", stdin = "null", stdout = "null",
            stderr = "pipe", grace = 0})
        t.eq(program.stderr:read("l", t.patience), "mare: the log /dev/full cannot be written: "
            .. "No space left on device (what is logged meanwhile is lost, and counted)")
        local text <close> = shell.file "print 'fine'"
        for _ = 1, 2 do
            t.eq(command("submit", folder .. "/socket", text.name).out, "fine\n")
        end
        t.ok(program:kill "SIGTERM")
        t.eq(program.stderr:read("a", t.patience), "") -- said once is enough
    end),

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

    -- The server runs on, and nobody tells it.
    a_key_that_is_revoked_ends_its_jobs_and_lets_nobody_in = {function()
        t.in_folder(function(folder)
            local trusted = folder .. "/keys"
            t.ok(keys.authority(trusted, "tides"))
            t.ok(keys.issue(trusted, "serve", {hosts = {"127.0.0.1"}}))
            for _, name in ipairs {"ana", "bo"} do t.ok(keys.issue(trusted, name)) end
            local text <close> = shell.file "print 'begun' while true do end"
            local fine <close> = shell.file "print 'fine'"
            serving(function() return {"--keys", trusted, "--time", "100000"} end,
            function(address, _, log)
                local program <close> = t.ok(child.spawn {shell.mare, "submit", "--keys", trusted,
                    "--name", "ana", address, text.name, stdin = "null", stdout = "pipe",
                    stderr = "pipe", grace = 0})
                t.eq(program.stdout:read("l", t.patience), "begun")
                t.eq(keys.revoke(trusted, "ana"), 1)
                local why = program.stderr:read("a", t.patience)
                t.ok(why:find("certificate revoked", 1, true), why)
                t.eq({program:wait(t.patience)}, {"exit", 121})
                t.reaches(function() return log():find '"why":"its submitter is gone"' end, "gone")
                t.reaches(function() return log():find "refused ana%+%w+: certificate revoked" end,
                    "refused") -- another process writes that
                local result = command("submit", "--keys", trusted, "--name", "ana", address,
                    fine.name)
                t.eq({result.err, result.code}, {("mare submit: %s: the peer refused: certificate "
                    .. "revoked\n"):format(address), 120})
                result = command("submit", "--keys", trusted, "--name", "bo", address, fine.name)
                t.eq({result.out, result.code}, {"fine\n", 0})
            end)
        end)()
    end, timeout = 120},

    what_no_job_could_use_is_refused_with_its_line = function()
        for text, expected in pairs {["allow = nope"] = "there is no 'nope'",
            ["allow = math.nope"] = "there is no 'math.nope'", ["allow ="] = "there is no name",
            ["allow = math 1..5"] = "'math' is no function: it has no arguments to check",
            ["allow = mare.net 1..5"] = "'mare.net' is no function: it has no arguments to check",
            ["allow = io.open ["] = "'[': malformed pattern (missing ']')",
            ["allow = io.open x%"] = "'x%': malformed pattern (ends with '%')",
            ["allow = math.abs 5..1"] = "nothing is in 5..1: the least comes first",
            ["time = 5\ntime = 6"] = "'time' has a value already",
            ["[peer ana]\ntime = 1\ntime = 2"] = "'time' has a value already",
            ["[peer ana]\n[peer bo]\n[peer ana]"] = "there is a section 'peer ana' already"} do
            local config <close> = shell.file("memory = 8M # for all\n" .. text .. "\n")
            local result = command("serve", "--listen", "127.0.0.1:0", "--config", config.name)
            local line = 2 + select(2, text:gsub("\n", ""))
            t.eq({result.out, result.err, result.code},
                {"", ("mare serve: %s:%d: %s\n"):format(config.name, line, expected), 2})
        end
        local result = command("serve", "--listen", "127.0.0.1:0", "--allow", "nope")
        t.eq({result.out, result.err, result.code},
            {"", "mare serve: the command line: there is no 'nope'\n", 2})
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
