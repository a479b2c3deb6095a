-- SPDX-License-Identifier: MIT
-- Who may submit code, and what that code may do: the options of jobs.serve and of the file of
-- `mare serve`. Options in a section for a peer override those for all. Options in a section for
-- the code's signer override both.
local checks, settings = require "mare._check", require "mare._settings"
local sandbox, pattern = require "mare.sandbox", require "mare._pattern"

local policy = {}

-- Raises an error for an entry that no job could use, by trying it in a sandbox. (If the sandbox
-- was ended because the machine is slow, the entry counts as good.)
local function try(item, where)
    local name, text = item, ""
    if type(item) == "table" then
        name, text = item[1], "local owner, name = ... assert(require(owner)[name])"
    end
    local owner, member = name:match "^(.+)%.([^.]+)$"
    local _, _, code = sandbox.run({allow = {item}, memory = 256 << 20, time = 60}, text, owner,
        member)
    if code == "invalid" then
        error(("%s: there is no '%s'"):format(where, name), 0)
    elseif code == "failed" then
        error(("%s: '%s' is no function: it has no arguments to check"):format(where, name), 0)
    end
end

-- Turns a word into the check of an argument.
local function check_of(word, where)
    if word == "*" then return true end
    local low, high = word:match "^(%-?[%d.]+)%.%.(%-?[%d.]+)$"
    low, high = tonumber(low), tonumber(high)
    if low and high then
        if low <= high then return {low, high} end
        error(("%s: nothing is in %s: the least comes first"):format(where, word), 0)
    end
    local ok, why = pcall(pattern.check, word)
    if not ok then error(("%s: '%s': %s"):format(where, word, why), 0) end
    return word
end

-- "os.getenv LANG", "math.floor 0..10", "io.open /srv/%w+ r": a name and checks of arguments.
local function entry(line, before, where)
    local words = {}
    for word in line:gmatch "%S+" do
        words[#words + 1] = #words > 0 and check_of(word, where) or word
    end
    if #words == 0 then error(where .. ": there is no name", 0) end
    local list, item = before or {}, #words == 1 and words[1] or words
    if type(item) == "table" and not item[1]:find("%.[^.]") then
        error(("%s: '%s' is no function: it has no arguments to check"):format(where, item[1]), 0)
    end
    try(item, where)
    list[#list + 1] = item
    return list
end

local bytes, number, flag = settings.bytes, settings.number, settings.flag

-- The options, by name: how to read them from a file, how to check them, and their defaults.
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

--- For settings.gather: the options of a policy, and of its sections.
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

--- Raises an error for an invalid option, at the line of the caller's caller.
function policy.check(options)
    checks.options("serve", options, 1, KNOWN, 4)
    check_values(options, {PER_JOB, PER_SERVICE}, 4)
    checks.option("serve", options, 1, "trusted", "string", "a string", 4)
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

--- The rules for code from a peer, signed by somebody or nobody (nil).
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

--- The part of the rules that mare.sandbox takes.
function policy.sandbox(rules)
    return {allow = rules.allow, memory = rules.memory, time = rules.time, output = rules.output,
        instructions = rules.instructions, source = rules.source}
end

return policy
