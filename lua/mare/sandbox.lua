-- SPDX-License-Identifier: MIT
-- Runs code that is not trusted: text alone, in a process of its own, with what a policy allows it
-- and no more.
--
--     local sandbox = require "mare.sandbox"
--     print(sandbox.run({time = 1, memory = 8 << 20}, "return 6 * 7"))       --> true  42
--     print(sandbox.run({time = 0.1}, "while true do end"))                  --> nil  ...  time
--
-- Three processes take part. The caller. The guard, which ends the sandbox when its time is over or
-- the caller has ended. The sandbox itself (_sandbox.lua), on a thread of its own: some operations
-- of Lua cannot be interrupted, and must not hold up others.
local mare, checks = require "mare", require "mare._check"

local sandbox = {}

local DEFAULTS = {memory = 16 << 20, time = 10, output = 1 << 20, source = 256 << 10,
    allow = {"coroutine", "math", "string", "table", "utf8"}, name = "sandbox"}
local OPTIONS = checks.set("allow", "memory", "time", "instructions", "output", "source", "name",
    "to", "refused")
local WIND_UP = 1 -- seconds that a killed sandbox has before it is left behind
local PIECES = 16 -- pieces of output that wait for a reader

-- ---- Policies -----------------------------------------------------------------------------------

local function is_check(value)
    local kind = type(value)
    return value == true or kind == "string" or kind == "function" or kind == "table"
        and type(value[1]) == "number" and type(value[2]) == "number"
end

local function is_entry(entry)
    if type(entry) == "string" then return entry ~= "" end
    if type(entry) ~= "table" or type(entry[1]) ~= "string" then return false end
    for i = 2, #entry do
        if not is_check(entry[i]) then return false end
    end
    return entry[1]:find(".", 1, true) ~= nil
end

local function is_list(value)
    if type(value) ~= "table" then return false end
    for _, entry in ipairs(value) do
        if not is_entry(entry) then return false end
    end
    return true
end

local function is_count(value) return math.type(value) == "integer" and value > 0 end

-- The policy with its defaults, as data for the sandbox.
local function settings_of(name, policy)
    checks.argument(name, policy, 1, "table", 5)
    checks.options(name, policy, 1, OPTIONS, 5)
    local function option(key, good, expected)
        checks.option(name, policy, 1, key, good, expected, 6)
    end
    option("allow", is_list, "a list of names, or of lists: a name and a check for each argument")
    for _, key in ipairs {"memory", "instructions", "output", "source"} do
        option(key, is_count, "a whole number, 1 at least")
    end
    option("time", checks.span, "a number of seconds, above 0")
    option("name", "string", "a string")
    option("to", "function", "a function")
    option("refused", "userdata", "a channel")
    local settings = {instructions = policy.instructions}
    for key, value in pairs(DEFAULTS) do
        settings[key] = policy[key] == nil and value or policy[key]
    end
    return settings
end

-- ---- The guard ----------------------------------------------------------------------------------

local REASONS = {
    time = "it took longer than %g seconds", output = "it wrote more than %d bytes",
    instructions = "it took more than %d instructions", memory = "it needs more than %d bytes",
}

local function limited(settings, code)
    return nil, REASONS[code]:format(settings[code]), code
end

-- The result of the sandbox, from what join returned.
local function judged(settings, verdict, ok, ...)
    if ok then
        local done, _, code = ...
        if not done and code == "memory" then return limited(settings, "memory") end
        return ...
    end
    local message, code = ...
    local reason = verdict:tryreceive()
    if reason then return limited(settings, reason) end
    if code == "died" and message == "not enough memory" or code == "nomem" then
        return limited(settings, "memory")
    elseif code == "died" then
        return nil, tostring(message), "failed"
    end
    return nil, message, code
end

-- The process of the guard. Returns what sandbox.run returns, and after that what it could not end.
local function guard(settings, text, channels, parent, ...)
    local process
    local _ <close> = setmetatable({}, {__close = function()
        if process then process:kill() end
        channels.output:close()
    end})
    process = assert(mare.spawn({memory = settings.memory, thread = true},
        function(...) return require "mare._sandbox"(...) end, settings, text, channels, ...))
    local gone = parent:monitor()
    local outcome = table.pack(mare.select({process, gone, channels.stop}, settings.time))
    if outcome[1] == 1 then
        return judged(settings, channels.verdict, table.unpack(outcome, 2, outcome.n))
    end
    process:kill()
    local left = select(3, process:join(WIND_UP)) == "timeout"
    local message, code = "killed", "killed"
    if not outcome[1] then message, code = select(2, limited(settings, "time")) end
    return nil, message, code, left and process or nil
end

-- ---- For programs -------------------------------------------------------------------------------

local Job = {}
Job.__index, Job.__name = Job, "sandbox"

--- The next piece of what it prints, or nil, message, code: `closed` when it has ended.
function Job:read(timeout) return self.output:receive(timeout) end

--- Waits for its end, as sandbox.run does. What it prints meanwhile goes to `to`.
function Job:wait(timeout)
    local deadline = checks.deadline("wait", timeout, 1)
    while true do
        local piece, message, code = self.output:receive(deadline)
        if piece then self.to(piece)
        elseif code == "closed" then break
        else return nil, message, code end
    end
    local function outcome(ok, ...)
        if ok then return ... end
        return nil, ...
    end
    return outcome(self.process:join(deadline))
end

--- Ends it, whatever it is doing. (The guard does that, and so knows what could not be ended at
--- once.)
function Job:kill() return self.stop:trysend(true) or false end

-- For the function of that name: errors name the line of its caller.
local function start(name, policy, text, ...)
    local settings = settings_of(name, policy)
    checks.argument(name, text, 2, "string", 4)
    if #text > settings.source then
        return nil, ("the text has %d bytes; %d are allowed"):format(#text, settings.source),
            "toobig"
    end
    local channels = {output = mare.channel(PIECES), verdict = mare.channel(1),
        stop = mare.channel(1), refused = policy.refused or mare.channel(1)}
    local process = mare.spawn(guard, settings, text, channels, mare.self(), ...)
    return setmetatable({process = process, output = channels.output, stop = channels.stop,
        to = policy.to or function(piece) io.write(piece) end}, Job)
end

--- Begins to run a text with what a policy allows, and arguments: a job.
function sandbox.start(policy, text, ...)
    local job, message, code = start("start", policy, text, ...)
    return job, message, code -- no tail call: it would hide the caller
end

--- Runs a text, and waits for its end: true and its results; or nil, message, and what ended it:
--- `syntax`, `failed`, `time`, `memory`, `instructions`, `output`, `toobig`, `badmsg`, `invalid`.
function sandbox.run(policy, text, ...)
    local job, message, code = start("run", policy, text, ...)
    if not job then return nil, message, code end
    return job:wait()
end

return sandbox
