-- SPDX-License-Identifier: MIT
-- The remote scheduling service: what is submitted to another node, what stops it, who may do what,
-- and what hostile submitters try.
local mare, node, jobs = require "mare", require "mare.node", require "mare.jobs"
local file, keys = require "mare.file", require "mare.keys"
local certificate, t, peers = require "mare._certificate", require "t", require "peers"

-- A program that serves, with these options (as source); what it logs goes to a file.
local SERVER = [[
    local log = require "mare.log"
    assert(log.setup {to = %q})
    assert(require "mare.jobs".serve %s)
    local ready = mare.channel(1, "ready")
    ready:receive()
    require "mare.jobs".stop(30)
    node.stop(30)
]]

local LIBRARIES = [[allow = {"string", "table", "math", "mare.sleep"}]]
local LONG = "print 'begun' require 'mare'.sleep(1000)" -- longer than any test

-- Calls f with the name of a server and its log, a function.
local function with_server(options, f, home_options, server_options)
    t.in_folder(function(folder)
        local path = folder .. "/log"
        local given = {name = "ebb"}
        for key, value in pairs(server_options or {}) do given[key] = value end
        local home <close> = peers.home(home_options)
        local server <close> = peers.join(home, given,
            SERVER:format(path, ("{time = 100, %s, %s}"):format(LIBRARIES, options)))
        peers.find "ready@ebb"
        t.reaches(function() return select(3, jobs.list "ebb") ~= "noname" end, "the service")
        f(server, function() return file.read(path) or "" end, home)
    end)()
end

local function run(text, options)
    local job = t.ok(jobs.submit("ebb", text, options))
    local parts = {}
    for piece in job:output() do parts[#parts + 1] = piece end
    return t.ok(job:wait(t.patience)), table.concat(parts)
end

local function begun(options)
    local job = t.ok(jobs.submit("ebb", LONG, options))
    t.eq(job:read(t.patience), "begun\n")
    return job
end

local function serves_on()
    local ended, output = run("print 'fine'")
    t.eq({ended.code, output}, {"done", "fine\n"})
end

local function state_of(name)
    local job = t.ok(jobs.show("ebb", name))
    return job.state == "ended" and job.code or job.state
end

local function becomes(name, state)
    t.reaches(function() return state_of(name) == state end, name .. " becomes " .. state)
end

local function fails(code, message, ok, text, why)
    t.eq({ok, why}, {nil, code}, tostring(text))
    t.ok(text:find(message), text)
end

local function logged(log, text)
    t.reaches(function() return log():find(text) end, "in the log: " .. text)
end

-- ---- What it is for -----------------------------------------------------------------------------

local uses = {
    what_it_prints_and_its_status_come_back = function()
        with_server("", function()
            local ended, output = run("print('hello', ...) print(arg[0], #arg) return 7",
                {arguments = {"a", "b c"}, file = "x.lua"})
            t.eq({ended.code, ended.status, output}, {"done", 7, "hello\ta\tb c\nx.lua\t2\n"})
            t.eq({ended.from, ended.file, ended.bytes}, {"home", "x.lua", #output})
            for text, expected in pairs {["return false"] = 1, ["return true"] = 0, [""] = 0} do
                t.eq(run(text).status, expected, text)
            end
            ended = run("error 'oh'", {file = "x.lua"})
            t.eq({ended.code, ended.message, ended.status}, {"failed", "x.lua:1: oh", 1})
            t.eq(run("x = = 1").code, "syntax")
            t.eq(run("\27Lua").code, "syntax")
            t.eq(run("return {}").code, "invalid")
            t.eq(run("return 256").code, "invalid")
            t.eq(state_of(run("return 0, 'x', 'left'").name), "done") -- the first alone counts
            t.eq(run("return os == nil and io == nil and 5").status, 5)
        end)
    end,

    last_words_have_a_bound = function()
        with_server("", function(_, log)
            local cut = "x" .. ("\u{e9}"):rep(2047) .. " ... (cut: it had 2000001 bytes)"
            for _, text in ipairs {"error(long, 0)",
                "error(setmetatable({}, {__tostring = function() return long end}))"} do
                local ended = run("local long = 'x' .. ('\u{e9}'):rep(1000000) " .. text)
                t.eq({ended.code, ended.message, ended.status}, {"failed", cut, 1})
                t.eq(jobs.show("ebb", ended.name).message, cut)
            end
            t.eq(jobs.list("ebb")[2].message, cut)
            logged(log, "cut: it had 2000001 bytes")
            t.ok(#log() < 20000, #log())
            t.eq(run("error(('x'):rep(4096), 0)").message, ("x"):rep(4096))
            t.eq(run("error('\\xff' .. ('\\x80'):rep(5000), 0)").message,
                "\xff" .. ("\x80"):rep(4092) .. " ... (cut: it had 5001 bytes)")
        end)
    end,

    limits_end_a_job_and_nothing_else = function()
        with_server("memory = 1 << 20, instructions = 1000000, output = 3000", function()
            t.eq(run("while true do end").code, "instructions")
            t.eq(run("return ('x'):rep(1 << 24)").code, "memory")
            local ended, output = run("while true do print(('x'):rep(99)) end")
            t.eq({ended.code, #output, ended.bytes}, {"output", 3000, 3000})
            serves_on()
        end)
    end,

    time_ends_a_job_that_waits = function()
        with_server("time = 0.05", function()
            local ended = run(LONG)
            t.eq({ended.code, ended.message}, {"time", "it took longer than 0.05 seconds"})
        end)
    end,

    all_that_is_printed_comes_in_order_and_waits_for_the_reader = function()
        with_server("output = 1 << 24", function()
            local job = t.ok(jobs.submit("ebb",
                "for i = 1, 5000 do print(i, ('x'):rep(100)) end"))
            t.settle()
            local size, last, rest = 0, 0, ""
            for piece in job:output() do
                size = size + #piece
                for line in (rest .. piece):gmatch "(%d+)\tx+\n" do
                    t.eq(tonumber(line), last + 1)
                    last = last + 1
                end
                rest = (rest .. piece):match "[^\n]*$"
            end
            t.eq({last, size, job:wait().bytes}, {5000, size, size})
        end)
    end,

    a_detached_job_is_listed_shown_and_cancelled = function()
        with_server("", function()
            local name = t.ok(jobs.submit("ebb", LONG, {detach = true, file = "long.lua"}))
            t.eq(type(name), "string")
            t.reaches(function() return jobs.show("ebb", name).output == "begun\n" end, "output")
            local list = t.ok(jobs.list "ebb")
            t.eq({#list, list[1].name, list[1].state, list[1].file, list[1].detached},
                {1, name, "running", "long.lua", true})
            t.ok(jobs.cancel("ebb", name))
            becomes(name, "cancelled")
            fails("ended", "ended already", jobs.cancel("ebb", name))
            fails("noname", "no such job", jobs.show("ebb", "17-0000"))
            fails("noname", "no such job", jobs.cancel("ebb", "17-0000"))
        end)
    end,

    old_jobs_are_forgotten = function()
        with_server("history = 2", function()
            for _ = 1, 4 do run "" end
            t.reaches(function() return #jobs.list "ebb" == 2 end, "two are left")
        end)
    end,
}

-- ---- Load ---------------------------------------------------------------------------------------

local load = {
    the_queue_has_a_bound_and_its_order = function()
        with_server("jobs = 1, queue = 2", function(_, log)
            local first = begun()
            local second = t.ok(jobs.submit("ebb", "print 'second'"))
            local third = t.ok(jobs.submit("ebb", "print 'third'", {detach = true}))
            fails("full", "the queue is full: 2 jobs wait", jobs.submit("ebb", "print 'fourth'"))
            logged(log, "refused code=full peer=home why=\"the queue is full")
            t.eq({state_of(second.name), state_of(third)}, {"queued", "queued"})
            t.ok(jobs.cancel("ebb", third)) -- while it waits
            becomes(third, "cancelled")
            t.ok(first:cancel())
            t.eq(t.ok(first:wait(t.patience)).code, "cancelled")
            t.eq(second:read(t.patience), "second\n")
            t.eq(second:wait(t.patience).code, "done")
            serves_on()
        end)
    end,

    one_submitter_has_a_share = function()
        with_server("jobs = 9, submitter_jobs = 1, submitter_queue = 1", function()
            local first = begun()
            local second = t.ok(jobs.submit("ebb", ""))
            t.eq(state_of(second.name), "queued")
            fails("full", "1 jobs of 'everybody' wait", jobs.submit("ebb", ""))
            t.ok(first:cancel())
            t.eq(second:wait(t.patience).code, "done")
        end)
    end,

    memory_is_shared_out_too = function()
        with_server("jobs = 9, memory = 4 << 20, submitter_memory = 5 << 20", function()
            local first = begun()
            local second = t.ok(jobs.submit("ebb", ""))
            t.eq(state_of(second.name), "queued")
            t.ok(first:cancel())
            t.eq(second:wait(t.patience).code, "done")
        end)
    end,

    time_of_an_hour_runs_out = function()
        with_server("submitter_time = 0.001", function()
            run "require 'mare'.sleep(0.01)"
            t.reaches(function()
                return select(3, jobs.submit("ebb", "", {detach = true})) == "full"
            end, "no time is left")
        end)
    end,
}

-- ---- Faults -------------------------------------------------------------------------------------

-- Another submitter, which prints the name of its job when that has begun.
local SUBMITTER = [[
    assert(node.connect(%q))
    local jobs = require "mare.jobs"
    local job = assert(jobs.submit("ebb", %q))
    job:read()
    print(job.name)
    mare.sleep(1000)
]]

local faults = {
    a_job_ends_with_its_submitter = function()
        with_server("", function(server)
            for _, signal in ipairs {"SIGKILL", "SIGTERM"} do
                local submitter <close> = peers.start({name = "flow"},
                    SUBMITTER:format(server.address, LONG))
                local name = t.ok(submitter.line())
                t.eq(state_of(name), "running")
                submitter.signal(signal)
                becomes(name, "cancelled")
                t.eq(jobs.show("ebb", name).message, "its submitter is gone")
            end
            serves_on()
        end, nil, {listen = "127.0.0.1:0"})
    end,

    a_job_that_waits_ends_with_its_submitter = function()
        with_server("jobs = 1", function()
            local first = begun()
            local name
            mare.spawn(function(ch)
                ch:send(require "mare.jobs".submit("ebb", "").name)
            end, (function() name = mare.channel(1) return name end)()):join(t.patience)
            becomes(name:receive(t.patience), "cancelled")
            t.eq(state_of(first.name), "running")
        end)
    end,

    a_server_that_is_lost_is_told_at_once = function()
        with_server("", function(server)
            local job = begun()
            server.signal "SIGKILL"
            fails("nonode", "'ebb' was lost", job:read(t.patience))
            fails("nonode", "'ebb' was lost", job:wait(t.patience))
        end)
    end,

    a_server_that_stops_says_so = function()
        with_server("jobs = 1", function()
            local job, waiting = begun(), t.ok(jobs.submit("ebb", ""))
            t.ok(mare.find "ready@ebb":send "stop")
            for _, each in ipairs {job, waiting} do
                local ended = t.ok(each:wait(t.patience))
                t.eq({ended.code, ended.message}, {"cancelled", "the server stops"})
            end
        end)
    end,

    who_does_not_read_keeps_nothing_running = function()
        with_server("time = 0.05, grace = 0.05, output = 1 << 30", function()
            local job = t.ok(jobs.submit("ebb", "while true do print(('x'):rep(8000)) end"))
            becomes(job.name, "time") -- though what it printed is still on its way
            local piece, message, code
            repeat piece, message, code = job:read(t.patience) until not piece
            if code == "closed" then -- there was still room for the last word
                t.eq(job:wait(t.patience).code, "time")
            else
                fails("timeout", "not read in time", nil, message, code)
                fails("timeout", "not read in time", job:wait(t.patience))
            end
        end)
    end,

    who_closes_what_it_gave_ends_its_job = function()
        with_server("", function()
            local job = t.ok(jobs.submit("ebb",
                "while true do print 'x' require 'mare'.sleep(0.001) end"))
            t.ok(job:read(t.patience))
            job.events:close()
            becomes(job.name, "cancelled")
            serves_on()
        end)
    end,
}

-- ---- Hostile submitters -------------------------------------------------------------------------

-- What the service answers to a request as a hostile peer might make it.
local function raw(operation, details)
    local reply = mare.channel(1)
    t.ok(mare.spawn({node = "ebb"}, "jobs", reply, operation, details))
    return reply:receive(t.patience)
end

local hostile = {
    requests_that_are_none_are_refused = function()
        with_server("", function(_, log)
            for _, request in ipairs {{}, {"submit"}, {"submit", 5}, {"no such", {}}, {5, {}},
                {"submit", {}}, {"show", {name = {}}}, {"cancel", {}}} do
                local answer = table.pack(raw(request[1], request[2]))
                t.eq(answer[1], nil)
                t.ok(answer[3] == "invalid" or answer[3] == "noname", answer[2])
                serves_on() -- so that it is not refused too often
            end
            for _, reply in ipairs {5, "x", mare.self(), mare.find "ready@ebb", {}} do
                t.ok(mare.spawn({node = "ebb"}, "jobs", reply, "list", {}))
            end
            t.ok(mare.spawn({node = "ebb"}, "jobs", nil, "x", "closed"))
            logged(log, "a request of nobody")
            t.eq(select(3, mare.find "mare.jobs@ebb"), "noname")
            t.eq(select(3, mare.find "mare.jobs.control@ebb"), "noname")
        end)
    end,

    odd_jobs_are_refused = function()
        with_server("source = 1000", function()
            local events, other = mare.channel(4), mare.find "ready@ebb"
            local function good()
                return {source = "", file = "x", arguments = {}, events = events,
                    client = mare.self()}
            end
            local many = {}
            for i = 1, 101 do many[i] = "x" end
            for _, change in ipairs {{"source", 5}, {"file", {}}, {"file", ("x"):rep(256)},
                {"arguments", many}, {"arguments", {("x"):rep(70000)}}, {"arguments", {{}}},
                {"arguments", {"x", nil, events, "x"}}, {"events", other}, {"events", 5},
                {"events", mare.self()}, {"client", events}, {"client", other}, {"signature", 5},
                {"source", ("x"):rep(1001)}} do
                local details = good()
                details[change[1]] = change[2]
                local ok, message, code = raw("submit", details)
                t.ok(not ok and (code == "invalid" or code == "toobig"),
                    change[1] .. ": " .. tostring(message))
                t.ok(jobs.submit("ebb", "", {detach = true})) -- so that it is not refused too often
            end
        end)
    end,

    who_is_refused_too_often_is_not_listened_to = function()
        with_server("source = 10", function(_, log)
            for _ = 1, 4 do
                fails("toobig", "has 11 bytes; 10 are allowed",
                    jobs.submit("ebb", ("x"):rep(11)))
            end
            fails("denied", "refused too often", jobs.submit("ebb", ""))
            logged(log, "refused too often")
        end)
    end,

    a_very_large_file_does_not_get_through = function()
        with_server("", function()
            local ok, _, code = jobs.submit("ebb", ("x"):rep(8 << 20))
            t.ok(not ok and (code == "toobig" or code == "invalid"), tostring(code))
            serves_on()
        end)
    end,

    many_at_once_and_each_cancelled_at_some_moment = function()
        with_server("jobs = 3, submitter_jobs = 3, submitter_queue = 60", function()
            local routines = t.in_routines(12, function(i)
                local job = t.ok(jobs.submit("ebb", LONG))
                if i % 3 == 0 then job:read(t.patience) end
                for _ = 1, i % 4 do mare.yield() end
                job:cancel()
                return t.ok(job:wait(t.patience)).code
            end)
            for _, routine in ipairs(routines) do
                t.eq({routine:join(t.patience)}, {true, "cancelled"})
            end
            serves_on()
        end)
    end,
}

-- ---- Rights -------------------------------------------------------------------------------------

-- A server with keys, and two submitters: this program (home), and one that is called flow.
local function with_keys(options, f)
    t.in_folder(function(folder)
        local there = folder .. "/keys"
        t.ok(keys.authority(there, "tides"))
        for _, name in ipairs {"home", "ebb", "flow"} do
            t.ok(keys.issue(there, name, {hosts = {"127.0.0.1"}}))
        end
        for _, name in ipairs {"ana", "ben"} do t.ok(keys.issue(there, name, {code = true})) end
        with_server(("trusted = %q, %s"):format(there, options), function(server, log)
            f(there, server, log)
        end, {keys = there}, {keys = there, listen = "127.0.0.1:0"})
    end)()
end

local rights = {
    names_are_proved_and_jobs_have_owners = function()
        with_keys("peer = {home = {manage = true}, flow = {time = 50}}", function(there, server)
            local mine = t.ok(jobs.submit("ebb", LONG, {detach = true}))
            -- Two programs with one key: each has a mark behind its name.
            local flow <close> = peers.start({name = "flow+1", keys = there}, ([[
                assert(node.connect("ebb@%s"))
                local jobs = require "mare.jobs"
                print(jobs.submit("ebb", %q, {detach = true}))
                print(#jobs.list "ebb", select(3, jobs.cancel("ebb", %q)),
                    select(3, jobs.show("ebb", %q)))
                mare.sleep(1000)
            ]]):format(server.address, LONG, mine, mine))
            local theirs = t.ok(flow.line())
            t.eq(flow.line(), "1\tnoname\tnoname")
            local other <close> = peers.start({name = "flow+2", keys = there}, ([[
                assert(node.connect("ebb@%s"))
                print(#require "mare.jobs".list "ebb")
                mare.sleep(1000)
            ]]):format(server.address))
            t.eq(other.line(), "1")
            t.eq(#jobs.list "ebb", 2)
            t.ok(jobs.cancel("ebb", theirs)) -- by who may manage
            becomes(theirs, "cancelled")
            t.eq(state_of(mine), "running")
        end)
    end,

    a_name_with_a_mark_needs_the_certificate_of_the_name = function()
        with_keys("", function(there, server)
            local forged = there .. "/forged" -- what flow has, as if it were home's
            t.ok(file.mkdir(forged, {permissions = 448}))
            t.ok(os.execute(("cd %s && cp trusted.pem forged && cp flow.key forged/home.key && "
                .. "cp flow.pem forged/home.pem"):format(there)))
            local liar <close> = peers.start({name = "home+1", keys = forged}, ([[
                print(select(2, node.connect("ebb@%s")))
                mare.sleep(1000)
            ]]):format(server.address))
            t.ok(liar.line():find "the certificate is for 'flow'")
        end)
    end,

    a_peer_that_may_not_submit_is_refused_and_that_is_logged = function()
        with_keys("peer = {home = {submit = false}}", function(_, _, log)
            fails("denied", "'home' may not submit code", jobs.submit("ebb", "print 1"))
            logged(log, "refused code=denied peer=home why=\"'home' may not submit")
        end)
    end,

    a_signature_decides_what_code_may_do = function()
        with_keys([[unsigned = false, signed = {ana = {allow = {"os.time"}}}]], function(there)
            local text = "print(type(os.time()))"
            local function submit(signature)
                return jobs.submit("ebb", text, {signature = signature})
            end
            fails("denied", "must be signed", submit(nil))
            local signature = t.ok(keys.sign(there, "ana", text))
            local job = t.ok(submit(signature))
            t.eq(job:read(t.patience), "number\n")
            local ended = t.ok(job:wait(t.patience))
            t.eq({ended.code, ended.signer}, {"done", "ana"})
            fails("denied", "'ben' has signed", submit(t.ok(keys.sign(there, "ben", text))))
            fails("denied", "signature is not good", jobs.submit("ebb", text .. " ",
                {signature = signature}))
        end)
    end,

    a_signature_that_is_none_or_revoked_is_refused = function()
        with_keys([[signed = {ana = {}}]], function(there)
            local signature = t.ok(keys.sign(there, "ana", ""))
            fails("denied", "no signature", jobs.submit("ebb", "", {signature = "x"}))
            t.ok(jobs.submit("ebb", "", {signature = signature, detach = true}))
            t.ok(keys.revoke(there, "ana")) -- the server need not be told
            fails("denied", "revoked", jobs.submit("ebb", "", {signature = signature}))
        end)
    end,

    a_signature_of_a_stranger_or_of_long_ago_is_refused = function()
        with_keys([[signed = {ana = {}}]], function(there, server)
            local other, text = there .. "/other", "print 'high tide'"
            t.ok(keys.authority(other, "tides")) -- of the same name, and so is its ana
            t.ok(keys.issue(other, "ana", {code = true}))
            fails("denied", "unable to get local issuer", jobs.submit("ebb", text,
                {signature = t.ok(keys.sign(other, "ana", text))}))
            t.ok(keys.issue(there, "old", {code = true, days = -1}))
            local old = t.ok(keys.load(there, "old"))
            local digits = certificate.sign(old.key, text):gsub(".", function(byte)
                return ("%02x"):format(byte:byte())
            end)
            fails("denied", "certificate has expired", jobs.submit("ebb", text,
                {signature = ("ed25519 %s\n%s"):format(digits, old.certificate)}))
            -- It is the text that is signed for, whoever submits it; see docs/guide/security.md.
            local flow <close> = peers.start({name = "flow", keys = there}, ([[
                assert(node.connect("ebb@%s"))
                local job = assert(require "mare.jobs".submit("ebb", %q, {signature = %q}))
                local ended = job:wait()
                print(ended.code, ended.signer, ended.from)
                mare.sleep(1000)
            ]]):format(server.address, text, t.ok(keys.sign(there, "ana", text))))
            t.eq(flow.line(), "done\tana\tflow")
        end)
    end,

    keys_that_others_may_change_are_not_believed = function()
        with_keys([[signed = {ana = {}}]], function(there, _, log)
            local signature = t.ok(keys.sign(there, "ana", ""))
            t.ok(os.execute("chmod 666 " .. there .. "/trusted.pem"))
            fails("denied", "cannot check signatures now",
                jobs.submit("ebb", "", {signature = signature}))
            logged(log, "others may change it")
        end)
    end,

    calls_that_a_check_refuses_are_logged = function()
        with_server([[allow = {"string", {"os.getenv", "LANG"}}]], function(_, log)
            t.eq(run("os.getenv 'HOME'").code, "failed")
            logged(log, "os.getenv: argument 1")
        end)
    end,
}

local cases = {
    misuse_is_refused = function()
        t.raises("table expected", jobs.serve)
        t.raises("unknown option 'tiem'", jobs.serve, {tiem = 1})
        t.raises("option 'time' must be", jobs.serve, {time = "x"})
        t.raises("unknown option 'jobs'", jobs.serve, {peer = {ana = {jobs = 1}}})
        t.eq(select(3, jobs.serve {}), "nonode")
        t.eq(select(3, jobs.submit("ebb", "")), "nonode")
        t.eq(select(3, jobs.list "ebb"), "nonode")
        t.eq(select(3, jobs.stop()), "noname")
        t.raises("option 'trusted' must be", jobs.serve, {trusted = 5})
        t.raises("option 'file' must be", jobs.submit, "ebb", "", {file = io.stdout})
        t.raises("option 'arguments' must be", jobs.submit, "ebb", "", {arguments = {5}})
        t.raises("option 'signature' must be", jobs.submit, "ebb", "", {signature = true})
        t.raises("option 'detach' must be", jobs.submit, "ebb", "", {detach = 1})
        for _, odd in ipairs {mare.self(), "1", {}} do
            t.raises("number expected", jobs.submit, "ebb", "", {timeout = odd})
            t.raises("number expected", jobs.list, "ebb", odd)
        end
        local _ <close> = peers.home()
        t.eq(select(3, jobs.submit("ebb", "")), "nonode")
        t.eq(node.export("x", print), true)
    end,
}
for _, group in ipairs {uses, load, faults, hostile, rights} do
    for name, case in pairs(group) do cases[name] = case end
end
return cases
