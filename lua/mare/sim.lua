-- SPDX-License-Identifier: MIT
-- The simulator from Lua: docs/reference/sim.md. C code in sim/ does the work; this file has sweeps
-- and the command `mare sim FILE.lua`.
local core = require "mare._sim"

local sim = {algorithms = core.algorithms, replicas = core.replicas, risk = core.risk,
             places = core.places}

-- A copy with other fields on top.
local function with(spec, more)
    local copy = {}
    for key, value in pairs(spec) do copy[key] = value end
    for key, value in pairs(more) do copy[key] = value end
    return copy
end

-- A script ends after its last request, unless it says otherwise.
local function settled(spec)
    return spec.requests and not spec.settle_us and with(spec, {settle_us = 0}) or spec
end

-- Runs once. A senseless specification raises an error at the line of the caller of `level` (0: no
-- line). An error of a function of the specification keeps its own line.
local function run(spec, level)
    local ok, outcome = pcall(core.run, spec)
    if ok then return outcome end
    local placed = type(outcome) ~= "string" or outcome:find "^[^\n]-:%d+: "
    error(outcome, placed and 0 or level)
end

local function check_spec(spec, level)
    if type(spec) == "table" then return end
    error("a specification is a table, not " .. type(spec), level + 1)
end

--- Runs once. Returns the outcome; raises what a function of the specification raised.
function sim.run(spec)
    check_spec(spec, 2)
    return (run(settled(spec), 3)) -- no tail call: it would hide the caller
end

-- The specification of one run of a sweep, drawn by its seed.
local function drawn(spec, seed)
    return with(settled(spec), {seed = seed, vary = true})
end

-- The specification that repeats a shrunk run.
local function again(spec, outcome)
    return with(spec, {
        faults = outcome.faults, abandon_ppm = outcome.abandon_ppm, drift_ppm = outcome.drift_ppm,
        network = with(spec.network or {}, {loss_ppm = outcome.loss_ppm,
                                            duplicate_ppm = outcome.duplicate_ppm})})
end

-- Shrinks the run of a seed that broke a promise, and shows it as `show` says.
local function shrink(spec, seed, show)
    local one = drawn(spec, seed)
    local outcome = run(with(one, with(show, {shrink = true})), 0)
    outcome.again = again(one, outcome)
    return outcome
end

-- Calls each(done, outcome) after every run. Returns the seed that broke an unexpected promise; or
-- nil and how many runs broke the expected one.
local function sweep(spec, count, from, each, level)
    local met = 0
    for seed = from, from + count - 1 do
        local outcome = run(drawn(spec, seed), level)
        each(seed - from + 1, outcome)
        if outcome.violation and outcome.violation == spec.expect then
            met = met + 1
        elseif outcome.violation then
            return seed
        end
    end
    return nil, met
end

--- Runs seeds from, …, from + count − 1, each with its own network and faults. Returns nil, the
--- number of runs and how many broke the promise that `expect` names, or else the outcome of the
--- first that broke another, shrunk, and its seed. `outcome.again` is the specification that
--- repeats it.
function sim.sweep(spec, count, from)
    from = from or 1
    check_spec(spec, 2)
    if math.type(count) ~= "integer" or math.type(from) ~= "integer" or count < 1 or from < 0 or
        from > math.maxinteger - count + 1 then
        error("a sweep is of 1 seed or more, from 0 or above to math.maxinteger", 2)
    end
    local seed, met = sweep(spec, count, from, function() end, 4)
    if not seed then return nil, count, met end
    return shrink(spec, seed, {}), seed
end

local function is_algorithm(name)
    for _, known in ipairs(core.algorithms()) do
        if known == name then return true end
    end
    return false
end

local function load_scenario(name)
    if is_algorithm(name) then return {algorithm = name} end
    if not name:find "%.lua$" then
        return require("mare.figures." .. name)
    end
    local chunk, err = loadfile(name)
    if not chunk then error(err, 0) end
    local spec = chunk()
    if type(spec) ~= "table" then error(name .. " returns no table", 0) end
    return spec
end

local function fail(message)
    io.stderr:write("mare sim: ", tostring(message), "\n")
    os.exit(2)
end

-- ---- Sweeps from the command line --------------------------------------------------------------

local BAR_WIDTH, LINE_WIDTH = 24, 79 -- a line that wraps cannot be overwritten

local function show_progress(done, all, messages)
    local filled = done * BAR_WIDTH // all
    local words = (" %3d %%  %d of %d seeds, %.1f M messages "):format(
        done * 100 // all, done, all, messages / 1e6)
    io.stderr:write("\r", ("█"):rep(filled), ("░"):rep(BAR_WIDTH - filled),
                    words:sub(1, LINE_WIDTH - BAR_WIDTH))
    io.stderr:flush()
end

-- Adds up what the runs did, under the names that reports use.
local function counting(asked)
    local total = {entries = 0, messages = 0, lost = 0, deliveries = 0, elections = 0}
    local source = {entries = "grants", messages = "sent"}
    local step = asked.seeds // 200 + 1
    return total, function(done, outcome)
        for name in pairs(total) do
            total[name] = total[name] + outcome[source[name] or name]
        end
        if asked.bar and done % step == 0 then show_progress(done, asked.seeds, total.messages) end
    end
end

local function quote(word)
    return word:find "^[%w%.,:+@%%/=_-]+$" and word or "'" .. word:gsub("'", [['\'']]) .. "'"
end

-- The command that repeats a shrunk run; for a scenario, a sweep of one seed.
local function replay(name, asked, outcome)
    return ("mare sim %s %s%s"):format(quote(name), asked.algorithm and "" or "--seeds 1 ",
                                       outcome.replay)
end

local function report_violation(name, spec, asked, seed)
    local stem = name:match "([^/]+)$":gsub("%.lua$", "")
    local draw = asked.draw or ("mare-sim-%s-%d.html"):format(stem, seed)
    local outcome = shrink(spec, seed, {
        trace = asked.trace, json = asked.json, draw = draw, shiviz = asked.shiviz,
        from_us = asked.from, to_us = asked.to, text = true, about = spec.text})
    local line = replay(name, asked, outcome)
    if asked.json then
        io.write(outcome.text)
        io.stderr:write(line, "\n")
    else
        io.write(("seed %d: %s is violated: %s\n"):format(seed, outcome.violation, outcome.detail),
                 ("shrunk from %d faults to %d in %d runs:\n\n"):format(
                     outcome.faults_before, outcome.faults_after, outcome.shrink_runs),
                 outcome.text, ("drawn     %s\nreplay    %s\n"):format(draw, line))
    end
    return outcome.written and 1 or 2
end

local function report_sweep(name, spec, asked, total, met)
    if asked.json then
        io.write(('{"%s":"%s","seeds":%d,"entries":%d,"messages":%d,"lost":%d,' ..
                  '"deliveries":%d,"elections":%d,"expected":%d,"violation":null}\n'):format(
            asked.algorithm and "algorithm" or "scenario", name:gsub('[%c"\\]', "?"), asked.seeds,
            total.entries, total.messages, total.lost, total.deliveries, total.elections, met))
    else
        io.write(("%s: %d seeds, %d messages (%d lost)"):format(
            name, asked.seeds, total.messages, total.lost))
        for _, what in ipairs {"entries", "elections", "deliveries"} do
            if total[what] > 0 then io.write((", %d %s"):format(total[what], what)) end
        end
        print(spec.expect and (", %s is broken in %d, as it is to be; nothing else is"):format(
            spec.expect, met) or ", no violation")
    end
    return spec.expect and met == 0 and 1 or 0
end

local function sweep_scenario(name, spec, asked)
    local total, each = counting(asked)
    local seed, met = sweep(spec, asked.seeds, asked.seed or 1, each, 0)
    if asked.bar then io.stderr:write "\r\27[K" end
    if seed then return report_violation(name, spec, asked, seed) end
    return report_sweep(name, spec, asked, total, met)
end

-- ---- What the command line asks for ------------------------------------------------------------

local flags = {trace = true, json = true, bar = true}
local texts = {draw = true, map = true, shiviz = true, faults = true, profile = true}

-- Parts in a million. Numbers are that already; "5%" is converted.
local function amount(text)
    local percent = text:match "^(.*)%%$"
    return math.tointeger(percent and tonumber(percent) * 10000 // 1 or tonumber(text))
end

-- Reads "--n", "5", "--json" …: `mare sim` has checked them.
local function read_words(words)
    local asked, i = {param = {}}, 1
    while i <= #words do
        local name, value = words[i]:match "^%-%-(.*)$", words[i + 1]
        if name == "param" then
            table.insert(asked.param, value)
        elseif flags[name] then
            asked[name] = true
        else
            asked[name] = texts[name] and value or amount(value)
        end
        i = i + (flags[name] and 1 or 2)
    end
    return asked
end

-- The specification with what was given on the command line in the place of its own.
local function override(spec, asked)
    local params = {}
    for _, param in ipairs(asked.param) do
        local name, value = param:match "^([^=]*)=(-?%d+)$"
        if not name then error("--param is NAME=VALUE, not '" .. param .. "'", 0) end
        params[name] = math.tointeger(value)
    end
    return with(spec, {
        n = asked.n, rounds = asked.rounds, faults = asked.faults, drift_ppm = asked.drift,
        abandon_ppm = asked.abandon, profile = asked.profile,
        params = with(spec.params or {}, params),
        network = with(spec.network or {}, {loss_ppm = asked.loss,
                                            duplicate_ppm = asked.duplicate})})
end

-- Writes the map of a scenario that has one. Returns whether that worked.
local function write_map(spec, outcome, path)
    local text = require "mare._sim_map"(spec.map(outcome))
    local out, message = io.open(path, "w")
    local ok = out and out:write(text) and out:close()
    if not ok then io.stderr:write("mare sim: ", message or path .. " can not be written", "\n") end
    return ok
end

local function run_scenario(spec, asked)
    if asked.map and not spec.map then error("--map: this scenario has no map", 0) end
    local more = {trace = asked.trace, json = asked.json, draw = asked.draw, seed = asked.seed,
                  shiviz = asked.shiviz, from_us = asked.from, to_us = asked.to, text = true,
                  about = spec.text}
    more.trace = more.trace or not (more.json or more.draw or more.shiviz or asked.map)
    local outcome = run(settled(with(spec, more)), 0)
    if not more.json and spec.title then
        print(spec.title)
        if spec.text then print(spec.text) end
        print()
    end
    io.write(outcome.text)
    local words = spec.report and not more.json and spec.report(outcome)
    if words then print("\n" .. tostring(words)) end
    if asked.map and not write_map(spec, outcome, asked.map) then return 2 end
    if not outcome.written then return 2 end
    -- A figure may show how a promise breaks: then it must break.
    return outcome.violation == spec.expect and 0 or 1
end

--- What `mare sim FILE.lua`, `mare sim FIGURE` and sweeps do; the command line gives the
--- arguments.
function sim.main(name, ...)
    local ok, code = pcall(function(...)
        local asked = read_words {...}
        asked.algorithm = is_algorithm(name)
        local spec = override(load_scenario(name), asked)
        return asked.seeds and sweep_scenario(name, spec, asked) or run_scenario(spec, asked)
    end, ...)
    if not ok then fail(code) end
    os.exit(code)
end

return sim
