-- SPDX-License-Identifier: MIT
-- `mare jobs`: what a server runs and has run; shows one, cancels one.
local jobs, client = require "mare.jobs", require "mare._job_client"

local options, words

local harmless = client.harmless

-- Others have chosen these words: a job must not take more than one line of the list.
local function word(text) return (harmless(text):gsub("%s", "?")) end

local function line_of(job)
    local how = job.state == "ended" and job.code or job.state
    return ("%-12s  %-10s  %8s  %-20s  %s\n"):format(word(job.name), word(how),
        job.seconds and ("%.1f s"):format(job.seconds) or "-", word(job.from), word(job.file))
end

local function show(job)
    if words["--json"] then return client.write_json(job) end
    io.stdout:write(line_of(job))
    if job.message then io.stdout:write("  ", harmless(job.message), "\n") end
    if job.output then io.stdout:write(harmless(job.output)) end
end

local actions = {}

function actions.list(server)
    local found, message, code = jobs.list(server, options.timeout)
    if not found then client.give_up(message, code) end
    for _, job in ipairs(found) do show(job) end
end

for _, name in ipairs {"show", "cancel"} do
    actions[name] = function(server, ...)
        for _, job in ipairs {...} do
            local found, message, code = jobs[name](server, job, options.timeout)
            if not found then client.give_up(("%s: %s"):format(job, message), code) end
            show(found)
        end
    end
end

return function(...)
    local rest
    options, words, rest = client.gather("jobs", {["--json"] = true, ["--insecure"] = true}, {},
        ...)
    if #rest == 0 then client.fail(2, "which server? HOST:PORT") end
    local action = rest[2] or "list"
    if not actions[action] then client.fail(2, "there is no '%s': list, show or cancel", action) end
    if action ~= "list" and #rest < 3 then client.fail(2, "which job?") end
    actions[action](client.connect(rest[1]), table.unpack(rest, 3))
    client.finish(0)
end
