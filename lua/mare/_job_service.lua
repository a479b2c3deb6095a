-- SPDX-License-Identifier: MIT
-- The process behind jobs.serve. It takes submitted code, runs it in sandboxes, as many at a time
-- as the limits allow, and reports to the submitters. One routine serves requests; each job has a
-- routine from its submission to its end. They share the variables of this file, and wait only
-- where these are consistent.
--
--     submit --> queued --(its turn)--> running --> ended, kept for a while
--                   \___ cancelled, the submitter is gone ___/
--
-- A request is `reply, operation, details`. It comes through a function that the node exports
-- (jobs.lua), because peers could close a channel that they know. The peer is the home node of the
-- reply channel: a peer cannot pass off another node's channel as its own.
local mare, node, log = require "mare", require "mare.node", require "mare.log".new "jobs"
local sandbox, policy, keys = require "mare.sandbox", require "mare._policy", require "mare.keys"

local TAIL, BATCH = 64 << 10, 16 << 10 -- the last bytes of output that are kept; bytes in a message
local MOST_ARGUMENTS, ARGUMENT_BYTES, NAME_BYTES = 100, 64 << 10, 255
local MESSAGE_BYTES = 4 << 10 -- the most bytes of the reason why a job has ended
local MISTAKES, PENALTY, WORST, FORGIVEN = 3, 1, 30, 60 -- refusals in a row; then seconds
local HOUR, EVERYBODY = 3600, "everybody"

local options, limits -- of the service
local proves          -- whether certificates prove the names of nodes
local jobs, ended = {}, {} -- jobs by name; names of ended ones, oldest first
local queue, running, number, mark = {}, 0, 0, nil
local accounts, stopping = {}, nil

-- ---- Who submits --------------------------------------------------------------------------------

-- Without certificates a peer may take any name, so all peers share one account.
local function account_of(from)
    local name = proves and from:match "^[^+]*" or EVERYBODY
    local account = accounts[name]
    if not account then
        account = {name = name, running = 0, queued = 0, memory = 0, used = 0, since = mare.now(),
            mistakes = 0, last = 0}
        accounts[name] = account
    end
    return account
end

-- The seconds that an account has used of its share per hour. They are given back as time passes.
local function seconds_used(account, share)
    local now = mare.now()
    account.used = math.max(account.used - (now - account.since) * share / HOUR, 0)
    account.since = now
    return account.used
end

-- For how many more seconds an account is ignored, because it was refused too often.
local function penalty(account)
    if account.mistakes <= MISTAKES or mare.now() - account.last > FORGIVEN then return 0 end
    local pause = math.min(PENALTY * 2 ^ (account.mistakes - MISTAKES - 1), WORST)
    return math.max(account.last + pause - mare.now(), 0)
end

-- ---- Telling ------------------------------------------------------------------------------------

local MISTAKEN = {denied = true, invalid = true, toobig = true}

local function refuse(reply, from, account, message, code)
    if MISTAKEN[code] then
        if mare.now() - account.last > FORGIVEN then account.mistakes = 0 end
        account.mistakes, account.last = account.mistakes + 1, mare.now()
    end
    log.warn("refused", {peer = from, why = message, code = code})
    reply:trysend(nil, message, code)
end

-- The description of a job for others.
local function picture(job)
    return {name = job.name, state = job.state, from = job.from, file = job.file,
        signer = job.signer, submitted = job.submitted, bytes = job.bytes, code = job.code,
        message = job.message, status = job.status, detached = job.events == nil,
        seconds = job.began and (job.finished or mare.now()) - job.began or nil}
end

-- ---- Running ------------------------------------------------------------------------------------

-- Starts the jobs that can run now, in the order of submission. Jobs whose submitter has reached
-- its limits are passed over.
local function give_turns()
    local i = 1
    while i <= #queue and running < limits.jobs do
        local job = queue[i]
        local account, rules = job.account, job.rules
        if account.running < rules.submitter_jobs
            and account.memory + rules.memory <= rules.submitter_memory then
            table.remove(queue, i)
            running, account.running = running + 1, account.running + 1
            account.queued, account.memory = account.queued - 1, account.memory + rules.memory
            job.state, job.began = "running", mare.now()
            job.turn:trysend(true)
        else
            i = i + 1
        end
    end
end

local function release(job)
    local account = job.account
    if job.began then
        running, account.running = running - 1, account.running - 1
        account.memory = account.memory - job.rules.memory
        seconds_used(account, job.rules.submitter_time)
        account.used = account.used + mare.now() - job.began
    else
        for i, other in ipairs(queue) do
            if other == job then table.remove(queue, i) break end
        end
        account.queued = account.queued - 1
    end
    give_turns()
end

-- The exit status of a program that has ended by itself, from its first result.
local function status_of(value)
    if value == nil or value == true then return 0 end
    if value == false then return 1 end
    return math.type(value) == "integer" and value >= 0 and value <= 255 and value or nil
end

-- Cuts the last message of a program, between two characters. The program chooses its length, and
-- it goes to the log, the history and whoever asks.
local function bounded(message)
    if message == nil then return nil end
    message = tostring(message)
    if #message <= MESSAGE_BYTES then return message end
    local last = MESSAGE_BYTES
    while last > MESSAGE_BYTES - 3 and message:find("^[\x80-\xbf]", last + 1) do last = last - 1 end
    return ("%s ... (cut: it had %d bytes)"):format(message:sub(1, last), #message)
end

-- Records how a job has ended and tells its submitter, who has `grace` seconds to take that.
local function conclude(job, code, message, status)
    message = bounded(message)
    job.state, job.code, job.message, job.status = "ended", code, message, status
    job.finished, job.source, job.arguments, job.box = mare.now(), nil, nil, nil
    log.info("ended", {job = job.name, peer = job.from, code = code, why = message,
        status = status, bytes = job.bytes})
    if job.events and not job.events:sendwithin(limits.grace, "ended", picture(job)) then
        job.events:close() -- otherwise it would wait for ever
    end
end

-- Joins all output that is there into one piece.
local function batched(box, piece)
    local parts, size = {piece}, #piece
    while size < BATCH do
        local more = box.output:tryreceive()
        if not more then break end
        parts[#parts + 1], size = more, size + #more
    end
    return table.concat(parts)
end

local UNREAD = "its submitter does not read what it prints"

-- Passes on what the program prints until it ends. Returns nil, or why the program must be ended.
local function relay(job, box, gone)
    local deadline = mare.deadline(job.rules.time + limits.grace) -- it must have ended by then
    while true do
        local which, piece = mare.select {box.output, job.cancel, gone}
        if which == 2 then return piece end
        if which == 3 then return "its submitter is gone" end
        if not piece then return nil end
        piece = batched(box, piece)
        job.bytes = job.bytes + #piece
        job.tail = (job.tail .. piece):sub(-TAIL)
        if job.events then
            local sent, why = mare.select({{job.events, "output", piece}, job.cancel, gone},
                deadline)
            if not sent then return UNREAD end
            if sent == 2 then return why end
            if sent == 3 or not why then return "its submitter is gone" end
        end
    end
end

-- The text of a file, as Lua reads files: without a byte order mark and a first line that begins
-- with '#'. The numbers of the lines stay.
local function as_file(text)
    return (text:gsub("^\xef\xbb\xbf", ""):gsub("^#[^\n]*", ""))
end

local function run(job, gone)
    local rules = policy.sandbox(job.rules)
    local refused = mare.channel(16)
    rules.name, rules.refused = job.file, refused
    local box, message, code = sandbox.start(rules, as_file(job.source),
        table.unpack(job.arguments))
    if not box then return conclude(job, code, message) end
    local why = relay(job, box, gone)
    if why then box:kill() end
    local alive, ok, text, reason, left = box.process:join()
    for name, index in function() return refused:tryreceive() end do
        log.warn("refused", {peer = job.from, job = job.name, code = "denied",
            why = ("%s: argument %d"):format(name, index)})
    end
    if why and why ~= UNREAD then
        conclude(job, "cancelled", why)
    elseif not alive then -- there was no memory or no thread to start it
        conclude(job, "failed", "the server could not run it", 1)
    elseif ok then
        local status = status_of(text)
        conclude(job, status and "done" or "invalid", not status
            and "the program must return nothing, a boolean, or a number from 0 to 255" or nil,
            status)
    else conclude(job, reason or "failed", text, 1) end
    if not ok and left then left:join() end -- it keeps its place until it is really gone
end

-- The life of a job, from its submission on.
local function attend(job)
    local gone = job.client and job.client:monitor() or mare.channel()
    local which, why = mare.select {job.turn, job.cancel, gone}
    local ok, message
    if which ~= 1 then
        ok, message = pcall(conclude, job, "cancelled", which == 2 and why
            or "its submitter is gone")
    else
        ok, message = pcall(run, job, gone)
    end
    if not ok then
        log.error("failed", {job = job.name, why = message})
        pcall(conclude, job, "failed", "the server has failed", 1)
    end
    release(job)
    ended[#ended + 1] = job.name
    while #ended > limits.history do jobs[table.remove(ended, 1)] = nil end
end

-- ---- Requests -----------------------------------------------------------------------------------

local asked = {}

-- Whether all arguments are text. With a channel the program could get out of its sandbox. False,
-- with why there are too many; or without.
local function are_arguments(list)
    if type(list) ~= "table" or getmetatable(list) then return false end
    if #list > MOST_ARGUMENTS then
        return false, ("a job has at most %d arguments"):format(MOST_ARGUMENTS)
    end
    local size = 0
    for i = 1, #list do
        if type(list[i]) ~= "string" then return false end
        size = size + #list[i]
    end
    if size <= ARGUMENT_BYTES then return true end
    return false, ("the arguments of a job have at most %d bytes"):format(ARGUMENT_BYTES)
end

-- Whether a reference in a request belongs to the node that sent the request, and has the right
-- type.
local function is_own(value, from, method)
    local known, home = pcall(node.home, value)
    return known and home == from and value[method] ~= nil
end

-- Returns who signed the code: a name, nil for nobody; or false, message.
local function signer_of(details)
    if details.signature == nil then return nil end
    if not options.trusted then return false, "this server believes no signatures" end
    local trusted, message = keys.trusted(options.trusted)
    if not trusted then
        log.error("cannot check signatures", {why = message})
        return false, "this server cannot check signatures now"
    end
    local facts
    facts, message = keys.check(details.source, details.signature, trusted)
    if not facts then return false, "the signature is not good: " .. message end
    return facts.names[1]
end

-- Whether the submission is allowed: its rules, or nil, message, code.
local function judged(account, details)
    local signer, message = signer_of(details)
    if signer == false then return nil, message, "denied" end
    local known = signer and options.signed and options.signed[signer]
    local rules = policy.of(options, account.name, known and signer or nil)
    if not rules.submit then
        return nil, ("'%s' may not submit code"):format(account.name), "denied"
    elseif not rules.unsigned and not known then
        return nil, signer and ("nothing is allowed for code that '%s' has signed"):format(signer)
            or "the code must be signed: see 'mare keys sign'", "denied"
    elseif #details.source > rules.source then
        return nil, ("the code has %d bytes; %d are allowed"):format(#details.source, rules.source),
            "toobig"
    elseif #queue >= limits.queue then
        return nil, ("the queue is full: %d jobs wait"):format(#queue), "full"
    elseif account.queued >= rules.submitter_queue then
        return nil, ("%d jobs of '%s' wait already"):format(account.queued, account.name), "full"
    elseif seconds_used(account, rules.submitter_time) >= rules.submitter_time then
        return nil, ("'%s' has used its %g seconds of this hour"):format(account.name,
            rules.submitter_time), "full"
    end
    rules.memory = math.min(rules.memory, rules.submitter_memory)
    return rules, signer
end

function asked.submit(reply, from, account, details)
    local attached = not details.detach
    local fine, why = are_arguments(details.arguments)
    if type(details.source) ~= "string" or not fine
        or type(details.file) ~= "string" or #details.file > NAME_BYTES
        or details.signature ~= nil and type(details.signature) ~= "string"
        or attached and not (is_own(details.events, from, "trysend")
            and is_own(details.client, from, "monitor")) then
        return refuse(reply, from, account, why or "this is not a job",
            why and "toobig" or "invalid")
    end
    local rules, message, code = judged(account, details)
    if not rules then return refuse(reply, from, account, message, code) end
    number = number + 1
    local job = {name = ("%d-%s"):format(number, mark), state = "queued", from = from,
        account = account, rules = rules, signer = message, file = details.file,
        source = details.source, arguments = details.arguments, submitted = os.time(),
        events = attached and details.events or nil, client = attached and details.client or nil,
        bytes = 0, tail = "", turn = mare.channel(1), cancel = mare.channel(1)}
    jobs[job.name], queue[#queue + 1], account.queued = job, job, account.queued + 1
    account.mistakes = 0
    log.info("submitted", {job = job.name, peer = from, file = job.file, signer = job.signer,
        bytes = #job.source})
    job.routine = mare.go(attend, job)
    give_turns()
    reply:trysend(true, picture(job)) -- it tells whether the job has its turn, or waits
end

-- The job of that name, if it is the account's own, or the account may manage all jobs.
local function theirs(account, name)
    local job = type(name) == "string" and jobs[name]
    local manages = policy.of(options, account.name).manage
    return job and (job.account == account or manages) and job or nil
end

function asked.list(reply, _, account)
    local list = {}
    for name, job in pairs(jobs) do
        if theirs(account, name) then list[#list + 1] = picture(job) end
    end
    table.sort(list, function(a, b)
        return tonumber(a.name:match "^%d+") < tonumber(b.name:match "^%d+")
    end)
    reply:trysend(true, list)
end

function asked.show(reply, from, account, details)
    local job = theirs(account, details.name)
    if not job then return refuse(reply, from, account, "there is no such job", "noname") end
    local found = picture(job)
    found.output = job.tail
    reply:trysend(true, found)
end

function asked.cancel(reply, from, account, details)
    local job = theirs(account, details.name)
    if not job then return refuse(reply, from, account, "there is no such job", "noname") end
    if job.state == "ended" then
        return refuse(reply, from, account, "it has ended already", "ended")
    end
    job.cancel:trysend(("cancelled by %s"):format(from))
    reply:trysend(true, picture(job))
end

local function serve(reply, operation, details)
    local known, from = pcall(node.home, reply)
    if not known or not from or not reply.trysend then
        return log.warn("refused", {why = "a request of nobody", code = "invalid"})
    end
    local account = account_of(from)
    local left = penalty(account)
    if left > 0 then
        if account.warned ~= account.last then -- once only: otherwise it would fill the disk
            account.warned = account.last
            log.warn("refused", {peer = from, why = "refused too often", code = "denied"})
        end
        reply:trysend(nil, ("refused too often; come again in %d seconds"):format(
            math.ceil(left)), "denied")
    elseif stopping then
        refuse(reply, from, account, "the server is stopping", "closed")
    elseif type(operation) ~= "string" or not asked[operation]
        or type(details) ~= "table" or getmetatable(details) then
        refuse(reply, from, account, "no such request", "invalid")
    else
        asked[operation](reply, from, account, details)
    end
end

-- ---- The process --------------------------------------------------------------------------------

-- Ends all jobs, and waits until their submitters were told.
local function stop()
    stopping = true
    for _, job in pairs(jobs) do
        if job.state ~= "ended" then job.cancel:trysend "the server stops" end
    end
    local deadline = mare.deadline(2 * limits.grace)
    for _, job in pairs(jobs) do job.routine:join(deadline) end
end

--- Serves until `control` gets a channel to answer to, or is closed.
return function(given, requests, control, started)
    local _ <close> = setmetatable({}, {__close = function() requests:close() end})
    options, limits, proves = given, policy.service(given), node._proves()
    limits.jobs = limits.jobs or mare.workers()
    mark = ("%04x"):format(math.random(0) & 0xffff)
    started:send(true)
    while true do
        local outcome = table.pack(pcall(mare.select, {requests, control}))
        if outcome[1] and outcome[2] == 2 then
            stop()
            if outcome[3] then outcome[3]:trysend(true) end
            break
        elseif requests:closed() then
            break
        elseif outcome[1] and outcome[3] ~= nil then
            local ok, message = pcall(serve, outcome[3], outcome[4], outcome[5])
            if not ok then log.warn("refused", {why = message, code = "invalid"}) end
        else -- a message that cannot be read here: it has code, or objects
            log.warn("refused", {why = tostring(outcome[1] and outcome[4] or outcome[2]),
                code = "invalid"})
        end
    end
    mare.self():kill() -- ends this process and all its routines
end
