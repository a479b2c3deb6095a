-- SPDX-License-Identifier: MIT
-- The remote scheduling service: a node takes pieces of Lua from others, and runs each as a new
-- process, in a sandbox. `mare serve`, `mare submit` and `mare jobs` are this on the command line.
--
--     jobs.serve {time = 10, memory = 16 << 20}                -- on the node `ebb`
--
--     local job = jobs.submit("ebb", "print('high water at', ...)", {arguments = {"12:30"}})
--     for piece in job:output() do io.write(piece) end         -- on another one
--     print(job:wait().code)
--
-- What the service does is in _job_service.lua, what it may allow in _policy.lua.
local mare, node, checks = require "mare", require "mare.node", require "mare._check"
local policy = require "mare._policy"

local jobs = {}

local SERVICE, CONTROL, DOOR = "mare.jobs", "mare.jobs.control", "jobs" -- others see the last
local PATIENCE, REQUESTS, EVENTS = 15, 64, 64

-- ---- The service --------------------------------------------------------------------------------

-- What others start here with a request: it is passed on, or refused at once. It must not die of
-- what they send.
local function door(reply, operation, details)
    local requests = require "mare".find "mare.jobs"
    local ok, sent = pcall(function() return requests:trysend(reply, operation, details) end)
    if not ok or not sent then
        pcall(function() reply:trysend(nil, "the server has too much to do", "full") end)
    end
end

--- Offers the service on this node. Options as in the file of `mare serve`; `peer` and `signed` are
--- tables of such options by name, `trusted` the folder of keys whose signatures are believed.
function jobs.serve(options)
    checks.argument("serve", options, 1, "table")
    policy.check(options)
    local proves, message, code = node._proves()
    if proves == nil then return nil, message, code end
    local requests
    requests, message, code = mare.channel(REQUESTS, SERVICE)
    if not requests then return nil, message, code end
    local control, started = mare.channel(1, CONTROL), mare.channel(1)
    local process = mare.spawn(function(...) return require "mare._job_service"(...) end, options,
        requests, control, started)
    local which, failure = mare.select {started, process}
    if which == 2 and #started == 0 then
        return nil, ("the service has ended: %s"):format(failure), "died"
    end
    return node.export(DOOR, door)
end

--- Ends all jobs, and the service.
function jobs.stop(timeout)
    local control = mare.find(CONTROL)
    if not control then return nil, "this node offers no jobs", "noname" end
    local reply = mare.channel(1)
    control:send(reply)
    local ok, message, code = reply:receive(timeout or PATIENCE)
    control:close()
    return ok, message, code
end

-- ---- For those who submit -----------------------------------------------------------------------

local function ask(server, deadline, watch, operation, details)
    local reply = mare.channel(1)
    local process, message, code = mare.spawn({node = server, timeout = deadline}, DOOR, reply,
        operation, details)
    if not process then
        if code == "noname" then message = ("node '%s' offers no jobs"):format(server) end
        return nil, message, code
    end
    return node._await(reply, server, watch, deadline)
end

-- One request, and what came of it.
local function request(name, server, timeout, operation, details)
    checks.argument(name, server, 1, "string", 4)
    local deadline = checks.deadline(name, timeout or PATIENCE, 3)
    local watch, message, code = node.monitor()
    if not watch then return nil, message, code end
    local ok, answer, why = ask(server, deadline, watch, operation, details)
    watch:close()
    if not ok then return nil, answer, why end
    return answer
end

--- The jobs that this node may see there.
function jobs.list(server, timeout) return request("list", server, timeout, "list", {}) end

--- One of them, with the end of what it has printed as `output`.
function jobs.show(server, name, timeout)
    checks.argument("show", name, 2, "string")
    return request("show", server, timeout, "show", {name = name})
end

--- Ends one of them.
function jobs.cancel(server, name, timeout)
    checks.argument("cancel", name, 2, "string")
    return request("cancel", server, timeout, "cancel", {name = name})
end

local Job = {}
Job.__index, Job.__name = Job, "job"

local UNREAD = "what it printed was not read in time"

--- The next piece of what it prints; nil, message, code at its end (`closed`), or if that cannot be
--- known any more (`nonode`; `timeout`, if it was not read for too long).
function Job:read(timeout)
    if self.ended then return nil, "it has ended", "closed" end
    if self.lost then return nil, self.lost, self.lost == UNREAD and "timeout" or "nonode" end
    local what, value, code = node._await(self.events, self.server, self.watch,
        checks.deadline("read", timeout, 1))
    if what == "output" then return value end
    if what == "ended" then
        self.ended = value
        self.watch:close()
        return nil, "it has ended", "closed"
    end
    if code ~= "timeout" then
        self.lost = code == "nonode" and value or UNREAD
        self.watch:close()
        return self:read()
    end
    return nil, value, code
end

--- An iterator over all that it prints, until its end.
function Job:output()
    return function() return (self:read()) end
end

--- Waits for its end: what jobs.show tells of it, or nil, message, code.
function Job:wait(timeout)
    local deadline = checks.deadline("wait", timeout, 1)
    while not self.ended do
        local piece, message, code = self:read(deadline)
        if not piece and code ~= "closed" then return nil, message, code end
    end
    return self.ended
end

--- Asks for its end; job:wait() tells when it has come.
function Job:cancel(timeout) return jobs.cancel(self.server, self.name, timeout) end

local OPTIONS = checks.set("file", "arguments", "signature", "detach", "timeout")

--- Submits a text to a node: a job; with the option `detach`, its name alone.
function jobs.submit(server, text, options)
    checks.argument("submit", server, 1, "string")
    checks.argument("submit", text, 2, "string")
    options = options or {}
    checks.options("submit", options, 3, OPTIONS)
    local deadline = checks.deadline("submit", options.timeout or PATIENCE, 3)
    local watch, message, code = node.monitor()
    if not watch then return nil, message, code end
    local events = not options.detach and mare.channel(EVENTS) or nil
    local ok, answer, why = ask(server, deadline, watch, "submit", {source = text,
        file = options.file or "submitted", arguments = options.arguments or {},
        signature = options.signature, detach = options.detach or nil, events = events,
        client = events and mare.self() or nil})
    if not ok or options.detach then watch:close() end
    if not ok then return nil, answer, why end
    if options.detach then return answer.name end
    return setmetatable({name = answer.name, server = server, events = events, watch = watch}, Job)
end

return jobs
