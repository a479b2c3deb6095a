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

-- The function that other nodes start for each request: it passes the request on, or refuses it.
-- Malformed requests must not make it fail.
local function door(reply, operation, details)
    local requests = require "mare".find "mare.jobs"
    local ok, sent = pcall(function() return requests:trysend(reply, operation, details) end)
    if (not ok or not sent) and getmetatable(reply) == "channel" then
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

local UNREADABLE = "the server's answer cannot be read"

-- What a server tells of a job: the types, with "?" if it may be absent.
local PICTURE = {name = "string", state = "string", from = "string", file = "string",
    signer = "string?", submitted = "integer", bytes = "integer", code = "string?",
    message = "string?", status = "integer?", detached = "boolean", seconds = "number?",
    output = "string?"}

local function is_of(value, wanted)
    local kind = wanted:match "^%a+"
    if value == nil then return kind ~= wanted end
    return type(value) == kind or math.type(value) == kind
end

-- A copy of a server's description of a job, with only these fields; nil if it is malformed.
local function picture_of(answer)
    if type(answer) ~= "table" then return nil end
    local picture = {}
    for key, wanted in pairs(PICTURE) do
        local value = rawget(answer, key)
        if not is_of(value, wanted) then return nil end
        picture[key] = value
    end
    if picture.state == "ended" and not picture.code then return nil end
    local status = picture.status
    if picture.code == "done" and not status then return nil end
    return (not status or status >= 0 and status <= 255) and picture or nil
end

local function pictures_of(answer)
    if type(answer) ~= "table" then return nil end
    local list = {}
    for i = 1, rawlen(answer) do
        list[i] = picture_of(rawget(answer, i))
        if not list[i] then return nil end
    end
    return list
end

-- The answer to a request, checked by `reader`; or nil, message, code.
local function checked(reader, ok, answer, code)
    local found = ok == true and reader(answer)
    if found then return found end
    if ok == nil and type(answer) == "string" and (code == nil or type(code) == "string") then
        return nil, answer, code
    end
    return nil, UNREADABLE, "badmsg"
end

-- One request, and what came of it. It is called in tail calls, by which its caller is the program.
local function request(name, server, timeout, operation, details)
    checks.argument(name, server, 1, "string")
    local deadline = checks.deadline(name, timeout or PATIENCE, 3)
    local watch, message, code = node.monitor()
    if not watch then return nil, message, code end
    local answer
    answer, message, code = checked(operation == "list" and pictures_of or picture_of,
        ask(server, deadline, watch, operation, details))
    watch:close()
    return answer, message, code
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

--- The next piece of output; or nil, message, code: `closed` at its end, `nonode` if the server was
--- lost, `timeout` if it was not read for too long, `badmsg` if the server sends anything else.
function Job:read(timeout)
    if self.ended then return nil, "it has ended", "closed" end
    if self.lost then return nil, self.lost, self.why end
    local what, value, code = node._await(self.events, self.server, self.watch,
        checks.deadline("read", timeout, 1))
    if what == "output" and type(value) == "string" then return value end
    if what == nil and code == "timeout" then return nil, value, code end
    self.watch:close()
    self.ended = what == "ended" and picture_of(value) or nil
    if self.ended then
        return nil, "it has ended", "closed"
    elseif what ~= nil then
        self.lost, self.why = UNREADABLE, "badmsg"
    elseif code == "nonode" and type(value) == "string" then
        self.lost, self.why = value, code
    else
        self.lost, self.why = UNREAD, "timeout"
    end
    return nil, self.lost, self.why
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

local function are_texts(list)
    if type(list) ~= "table" then return false end
    for _, item in pairs(list) do
        if type(item) ~= "string" then return false end
    end
    return true
end

local function check_submit(server, text, options)
    checks.argument("submit", server, 1, "string", 4)
    checks.argument("submit", text, 2, "string", 4)
    checks.options("submit", options, 3, OPTIONS, 4)
    checks.option("submit", options, 3, "file", "string", "a string", 4)
    checks.option("submit", options, 3, "arguments", are_texts, "a list of strings", 4)
    checks.option("submit", options, 3, "signature", "string", "a string", 4)
    checks.option("submit", options, 3, "detach", "boolean", "a boolean", 4)
end

--- Submits a text to a node. Returns a job, whose `state` is "running" or "queued" at first; with
--- the option `detach`, only its name.
function jobs.submit(server, text, options)
    options = options or {}
    check_submit(server, text, options)
    local deadline = checks.deadline("submit", options.timeout or PATIENCE, 3)
    local watch, message, code = node.monitor()
    if not watch then return nil, message, code end
    local events = not options.detach and mare.channel(EVENTS) or nil
    local answer
    answer, message, code = checked(picture_of, ask(server, deadline, watch, "submit",
        {source = text, file = options.file or "submitted", arguments = options.arguments or {},
            signature = options.signature, detach = options.detach or nil, events = events,
            client = events and mare.self() or nil}))
    if not answer or options.detach then watch:close() end
    if not answer then return nil, message, code end
    if options.detach then return answer.name end
    return setmetatable({name = answer.name, state = answer.state, server = server,
        events = events, watch = watch}, Job)
end

return jobs
