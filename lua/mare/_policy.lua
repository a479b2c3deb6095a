-- SPDX-License-Identifier: MIT
-- What may be submitted, by whom, and what it may do: the options of jobs.serve and of the file of
-- `mare serve`. Options of a section for a peer come before those for all, and those of a section
-- for who signed the code before both.
local checks, settings = require "mare._check", require "mare._settings"

local policy = {}

-- "os.getenv LANG", "math.floor 0..10", "io.open /srv/%w+ r": a name and checks of arguments.
local function entry(line, before, where)
    local words = {}
    for word in line:gmatch "%S+" do
        local low, high = word:match "^(%-?[%d.]+)%.%.(%-?[%d.]+)$"
        low, high = tonumber(low), tonumber(high)
        words[#words + 1] = #words > 0 and (low and high and {low, high} or word == "*")
            or word
    end
    local list = before or {}
    list[#list + 1] = #words == 1 and words[1] or words
    if #words == 0 then error(where .. ": there is no name", 0) end
    return list
end

local bytes, number, flag = settings.bytes, settings.number, settings.flag

-- By name: what the text of a file becomes, what it may be, and its default.
local function is_count(value) return math.type(value) == "integer" and value > 0 end
local function is_span(value) return type(value) == "number" and value > 0 end
local COUNT, SPAN, FLAG = {is_count, "a whole number, 1 at least"},
    {is_span, "a number of seconds, above 0"}, {"boolean", "yes or no"}

local PER_JOB = {
    allow = {entry, {"table", "a list"}},
    memory = {bytes, COUNT, 16 << 20}, time = {number, SPAN, 10},
    instructions = {number, COUNT}, output = {bytes, COUNT, 1 << 20},
    source = {bytes, COUNT, 256 << 10},
    submit = {flag, FLAG, true}, unsigned = {flag, FLAG, true}, manage = {flag, FLAG, false},
    submitter_jobs = {number, COUNT, 4}, submitter_queue = {number, COUNT, 16},
    submitter_memory = {bytes, COUNT, 256 << 20}, submitter_time = {number, SPAN, 3600},
}
local PER_SERVICE = {jobs = {number, COUNT}, queue = {number, COUNT, 64},
    history = {number, COUNT, 100}, grace = {number, SPAN, 5}}

local function makers(...)
    local made = {}
    for _, group in ipairs {...} do
        for name, item in pairs(group) do made[name] = item[1] end
    end
    return made
end

--- For settings.gather: options of a policy, and of its sections.
policy.options = makers(PER_JOB, PER_SERVICE)
policy.sections = {peer = makers(PER_JOB), signed = makers(PER_JOB)}

local KNOWN = {peer = true, signed = true, trusted = true}
for name in pairs(policy.options) do KNOWN[name] = true end

local function check_values(options, groups, level)
    for _, group in ipairs(groups) do
        for name, item in pairs(group) do
            checks.option("serve", options, 1, name, item[2][1], item[2][2], level + 1)
        end
    end
end

--- Raises an error, in the line of who called who calls this, for an option that cannot be.
function policy.check(options)
    checks.options("serve", options, 1, KNOWN, 4)
    check_values(options, {PER_JOB, PER_SERVICE}, 4)
    for _, kind in ipairs {"peer", "signed"} do
        checks.option("serve", options, 1, kind, "table", "a table", 4)
        for _, section in pairs(options[kind] or {}) do
            checks.options("serve", section, 1, policy.sections[kind], 4)
            check_values(section, {PER_JOB}, 4)
        end
    end
end

--- The options of the service itself, with their defaults.
function policy.service(options)
    local made = {}
    for name, item in pairs(PER_SERVICE) do
        made[name] = options[name] == nil and item[3] or options[name]
    end
    return made
end

--- What holds for code that a peer has submitted, and that somebody has signed, or nobody (nil).
function policy.of(options, peer, signer)
    local made = {}
    local layers = {signer and options.signed and options.signed[signer],
        options.peer and options.peer[peer], options}
    for name, item in pairs(PER_JOB) do
        for i = 1, 3 do
            local layer = layers[i]
            if made[name] == nil and layer then made[name] = layer[name] end
        end
        if made[name] == nil then made[name] = item[3] end
    end
    return made
end

--- The part of it that is for mare.sandbox.
function policy.sandbox(rules)
    return {allow = rules.allow, memory = rules.memory, time = rules.time, output = rules.output,
        instructions = rules.instructions, source = rules.source}
end

return policy
