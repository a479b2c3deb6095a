-- SPDX-License-Identifier: MIT
-- The options of group.found and group.join: what they must be, and the settings that follow from
-- them.
local checks, raw = require "mare._check", require "mare._node"
local comings, roll = require "mare._group_members", require "mare._group_roll"

local given = {}

local allowed = checks.set("members", "folder", "lease", "drift", "lost", "engine", "algorithm",
    "newcomer", "timeout", "voters", "clock")

--- The algorithms of locks, as a set, and for messages.
given.algorithms = checks.set("majority", "central", "ricart", "token", "voting")
given.ALGORITHMS = "'majority', 'central', 'ricart', 'token' or 'voting'"

local function between(least, most)
    return function(value) return type(value) == "number" and value >= least and value <= most end
end

-- Splits {"etcd", url, …, and options of etcd.client}: its endpoints and its options.
local function cluster_of(what, name, options)
    local endpoints, client = {}, {}
    for key, value in pairs(options.engine) do
        if math.type(key) == "integer" then
            endpoints[key - 1] = value
        else
            client[key] = value
        end
    end
    endpoints[0] = nil
    client.ttl = options.lease or 3
    client.prefix = ("%sgroup/%s/"):format(client.prefix or "mare/", name)
    local ok, message = pcall(require "mare.etcd".client, endpoints, client)
    if not ok then
        error(("bad argument #2 to '%s' (option 'engine': %s)"):format(what, message), 4)
    end
    return endpoints, client
end

-- Whether the value is one algorithm for all locks; or a table by the names of locks, whose entry 1
-- is for all other locks. A token goes round for each lock that uses `token`, wanted or not. So
-- that algorithm can be chosen only for single locks.
local function is_algorithm(value)
    if type(value) ~= "table" then return given.algorithms[value] and value ~= "token" end
    local tokens = 0
    for name, algorithm in pairs(value) do
        local named = type(name) == "string" and name ~= "" and #name <= 100 and name:byte() >= 32
        if not (named or name == 1) or not given.algorithms[algorithm] then return false end
        if algorithm == "token" then tokens = tokens + (named and 1 or 2) end
    end
    return tokens <= 1
end

-- The text that is compared with the other members' choice; empty for the default.
local function algorithm_text(value)
    local parts = {}
    for name, algorithm in pairs(value) do
        parts[#parts + 1] = ("%s=%s"):format(name == 1 and "*" or name:gsub("[^%w._-]", function(c)
            return ("%%%02x"):format(c:byte())
        end), algorithm)
    end
    table.sort(parts)
    local text = table.concat(parts, ",")
    return (text == "" or text == "*=majority") and "" or " " .. text
end

local function is_engine(value) return type(value) == "table" and value[1] == "etcd" end

local function is_clock(value)
    if type(value) ~= "table" or value[1] ~= "ntp" or not value[2] then return false end
    for i = 2, #value do
        if type(value[i]) ~= "string" then return false end
    end
    return true
end

local function check_options(what, options)
    checks.argument(what, options, 2, "table", 5)
    checks.options(what, options, 2, allowed, 5)
    local function option(key, good, expected)
        checks.option(what, options, 2, key, good, expected, 6)
    end
    option("members", roll.is_list, "a list of the names of 1 to 255 nodes, each once")
    option("voters", roll.is_list, "a list of the names of members, each once")
    option("folder", "string", "the path of a folder")
    option("lease", between(0.2, 3600), "a number of seconds, 0.2 at least, 3600 at most")
    option("drift", between(0, 0.4), "a number, 0.4 at most")
    option("lost", "boolean", "a boolean")
    option("newcomer", "boolean", "a boolean")
    option("timeout", between(0, math.huge), "a number of seconds")
    option("clock", is_clock, 'a list: "ntp", then servers')
    option("engine", is_engine, 'a list: "etcd", then URLs')
    option("algorithm", is_algorithm,
        given.ALGORITHMS .. ", or a table of them by lock; 'token' for one lock")
    if options.engine and options.algorithm then
        error(("bad argument #2 to '%s' (option 'algorithm': etcd has its own)"):format(what), 4)
    end
    for _, key in ipairs {"members", "folder"} do
        if options[key] == nil and not options.engine then
            error(("bad argument #2 to '%s' (a group needs '%s')"):format(what, key), 4)
        end
    end
end

-- The members in their order, first those that vote; and how many vote, or nil for all.
local function in_order(what, members, voters)
    local votes, is_member = {}, {}
    for _, name in ipairs(members) do is_member[name] = true end
    for _, name in ipairs(voters or members) do
        if not is_member[name] then
            error(("bad argument #2 to '%s' (option 'voters': '%s' is not among the members)")
                :format(what, name), 4)
        end
        votes[name] = true
    end
    local names = table.move(members, 1, #members, 1, {})
    table.sort(names, function(a, b)
        if votes[a] ~= votes[b] then return votes[a] or false end
        return a < b
    end)
    return names, voters and #voters < #names and #voters or nil
end

--- The settings that found and join have in common: which node this is, and which group.
function given.settings(what, name, options)
    checks.argument(what, name, 1, "string", 4)
    if not roll.is_name(name) then
        error(("bad argument #1 to '%s' (a letter, then letters, digits, '.', '_' and '-')"):format(
            what), 3)
    end
    check_options(what, options)
    local here = raw._name()
    local names, voters = in_order(what, options.members or {here}, options.voters)
    local by = options.algorithm or {}
    by = type(by) == "table" and by or {by}
    local settled = algorithm_text(by) .. (voters and (" %d vote"):format(voters) or "")
    local settings = {name = name, names = names, here = here, inbox = "group." .. name,
        voters = voters, algorithms = by,
        clock = options.clock and table.move(options.clock, 2, #options.clock, 1, {}),
        digest = comings.digest(name, 0, {names = names}, settled),
        folder = options.folder and ("%s/group-%s"):format(options.folder, name),
        lease_us = math.floor((options.lease or 3) * 1e6),
        drift_ppm = math.floor((options.drift or 0.001) * 1e6)}
    -- A promise is valid for the length of a lease. So members with other lengths must not count on
    -- it.
    settings.rest = ("%s %d %d"):format(settled, settings.lease_us, settings.drift_ppm)
    settings.own_rest = ("%s %s"):format(settled, here)
    if options.engine then
        settings.endpoints, settings.client = cluster_of(what, name, options)
    end
    return settings
end

return given
