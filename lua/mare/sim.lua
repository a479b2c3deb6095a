-- SPDX-License-Identifier: MIT
-- The simulator from Lua: docs/reference/sim.md. The work is done by sim/ in C; here are sweeps and
-- what `mare sim FILE.lua` does.
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

--- Runs once. Returns the outcome; raises what a function of the specification raised.
function sim.run(spec)
    if spec.requests and not spec.settle_us then
        spec = with(spec, {settle_us = 0})
    end
    return core.run(spec)
end

--- Runs seeds from, …, from + count − 1, each with its own network and faults. Returns nil and the
--- number of runs when all promises were kept, otherwise the outcome of the first that broke one,
--- shrunk, and its seed.
function sim.sweep(spec, count, from)
    from = from or 1
    for seed = from, from + count - 1 do
        local more = {seed = seed, vary = true, n = spec.n or 2 + seed % 7}
        local outcome = core.run(with(spec, more))
        if not outcome.kept then
            more.shrink = true
            return core.run(with(spec, more)), seed
        end
    end
    return nil, count
end

local function load_scenario(name)
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

local function sweep(spec, count, from)
    local broken, seed = sim.sweep(spec, count, from)
    if not broken then
        print(("%d seeds, no violation"):format(seed))
        os.exit(0)
    end
    local again = core.run(with(spec, {seed = seed, vary = true, n = spec.n or 2 + seed % 7,
                                       faults = broken.faults, text = true}))
    io.write(("seed %d: %s is violated: %s\nfaults    %s\n\n"):format(
        seed, broken.violation, broken.detail, broken.faults), again.text)
    os.exit(1)
end

--- What `mare sim FILE.lua` and `mare sim FIGURE` do; the command line gives the arguments.
function sim.main(name, trace, json, draw, shiviz, from, to, seed, seeds)
    local function set(text) return text ~= "" and text or nil end
    local ok, spec = pcall(load_scenario, name)
    if not ok then fail(spec) end
    if tonumber(seeds) > 0 then sweep(spec, tonumber(seeds), tonumber(seed)) end
    local more = {trace = set(trace) ~= nil, json = set(json) ~= nil, draw = set(draw),
                  shiviz = set(shiviz), from_us = tonumber(from), to_us = tonumber(to), text = true,
                  about = spec.text}
    more.trace = more.trace or not (more.json or more.draw or more.shiviz)
    if set(seed) then more.seed = tonumber(seed) end
    local done, outcome = pcall(sim.run, with(spec, more))
    if not done then fail(outcome) end
    if not more.json and spec.title then
        print(spec.title)
        if spec.text then print(spec.text) end
        print()
    end
    io.write(outcome.text)
    if spec.report and not more.json then
        local said, words = pcall(spec.report, outcome)
        if not said then fail(words) end
        print("\n" .. words)
    end
    if not outcome.written then os.exit(2) end
    -- A figure may show how a promise breaks: then that is what must happen.
    os.exit(outcome.violation == spec.expect and 0 or 1)
end

return sim
