-- SPDX-License-Identifier: MIT
-- `mare submit`: sends a file to a server, prints its output, and ends with its exit code.
local mare, jobs, client = require "mare", require "mare.jobs", require "mare._job_client"
local settings, file = require "mare._settings", require "mare.file"
local signal = require "mare.signal"

local LIMIT, CANCELLED = 122, 123 -- exit codes; others are in _job_client.lua
local WIND_UP = 3 -- seconds that a job has when we are interrupted
local FLAGS = {["--json"] = true, ["--detach"] = true, ["--insecure"] = true}

local options, words

-- The text of the file, and its signature if there is a file for that beside it.
local function read(path)
    local source, message = file.read(path, {limit = client.largest})
    if not source then client.fail(1, "%s", message) end
    local beside = options.signature or file.exists(path .. ".sig") and path .. ".sig"
    local signature
    if beside then
        signature, message = file.read(beside, {limit = 1 << 20})
        if not signature then client.fail(1, "%s", message) end
    end
    return source, signature
end

-- In JSON a piece ends with a character, or with the output.
local joined = client.joiner()

local function show_piece(piece)
    if words["--json"] then
        local text = joined(piece)
        if text ~= "" then client.write_json {event = "output", text = text} end
    elseif piece then
        io.stdout:write(piece)
    end
    local ok, why = io.stdout:flush()
    if ok then return end
    io.stderr:write(("mare submit: standard output: %s\n"):format(why))
    client.finish(1) -- and the job ends with us
end

local LIMITS = {time = true, memory = true, instructions = true, output = true}

-- The exit code for the way in which the job has ended.
local function code_of(ended)
    if ended.code == "done" then return ended.status end
    if LIMITS[ended.code] then return LIMIT end
    return ended.code == "cancelled" and CANCELLED or 1
end

-- Waits for a signal, then cancels the job, and gives it a little time. A second one ends at once.
local function heed_signals(job, watch)
    local name = watch:next()
    local number = ({SIGINT = 2, SIGTERM = 15, SIGHUP = 1})[name] or 2
    job.interrupted = 128 + number
    mare.go(function() job:cancel(WIND_UP) end)
    mare.select({watch}, WIND_UP)
    client.finish(job.interrupted)
end

local function submit(address, path, rest)
    local source, signature = read(path)
    local server = client.connect(address)
    local watch = signal.watch("SIGINT", "SIGTERM", "SIGHUP")
    local job, message, code = jobs.submit(server, source, {file = path:match "[^/]*$",
        arguments = rest, signature = signature, detach = options.detach,
        timeout = options.timeout})
    if not job then client.give_up(message, code) end
    if options.detach then
        if words["--json"] then client.write_json {event = "submitted", job = job}
        else io.stdout:write(client.harmless(job), "\n") end
        client.finish(0)
    end
    mare.go(heed_signals, job, watch):detach()
    if words["--json"] then
        client.write_json {event = "submitted", job = job.name, state = job.state}
        io.stdout:flush()
    elseif job.state == "queued" then
        io.stderr:write(("mare submit: job %s waits for its turn\n"):format(
            client.harmless(job.name)))
    end
    for piece in job:output() do show_piece(piece) end
    show_piece(nil)
    local ended
    ended, message, code = job:wait()
    if job.interrupted then client.finish(job.interrupted) end
    if not ended then client.give_up(message, code) end
    if words["--json"] then
        ended.event = "ended"
        client.write_json(ended)
    elseif ended.message then
        io.stderr:write(("mare submit: %s\n"):format(client.harmless(ended.message)))
    end
    client.finish(code_of(ended))
end

return function(...)
    local rest
    options, words, rest = client.gather("submit", FLAGS, {signature = settings.text,
        detach = settings.flag}, ...)
    if #rest == 0 then client.fail(2, "which server? HOST:PORT") end
    if #rest < 2 then client.fail(2, "which file?") end
    submit(rest[1], rest[2], table.move(rest, 3, #rest, 1, {}))
end
