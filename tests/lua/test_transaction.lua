-- SPDX-License-Identifier: MIT
-- mare._transaction: all interleavings of small groups. Every message that is on its way may be the
-- next to arrive, every process may crash at any moment, and what it had on its way to another may
-- be lost with it. A search of our own, and not a model for spin, since it runs the very machines
-- that mare.synchronizer runs.
local t, transaction = require "t", require "mare._transaction"

-- ---- A world: machines, what is on its way, what each has done ----------------------------------

local W -- the world whose machines run

local function send_from(key)
    return function(to, ...)
        local way = key .. ">" .. to
        W.ways[way] = W.ways[way] or {from = key, to = to}
        table.insert(W.ways[way], {...})
    end
end

-- Radio buttons: a request is "on" or "off"; or "look", which may run while none is lit, or "see",
-- while one is, which change nothing. A synchronizer keeps who is lit; a member that died is not.
local READERS = {look = true, see = true}

local function synchronizer(key)
    return transaction.participant(key, send_from(key), {
        guard = function(request)
            local lit = W.lit[key] ~= nil
            return (request.fname == "off" or lit == (request.fname == "see")) and "yes" or "no"
        end,
        changes = function(request) return not READERS[request.fname] end,
        fire = function(request)
            W.lit[key] = request.fname == "on" and request.member or nil
            table.insert(W.fired[key], request.member .. request.fname)
        end,
        ended = function(member)
            local was = W.lit[key] == member
            if was then W.lit[key] = nil end
            W.buried[key][member] = true
            return was
        end,
        knows = function(other) return not W.buried[key][other] end,
    })
end

local function member(key)
    return transaction.coordinator(send_from(key), function(tx, outcome)
        t.ok(not W.decided[key], "an outcome after the decision")
        if outcome == "ready" then
            table.insert(W.ready, {key = key, tx = tx})
        elseif outcome == "no" then
            W.blocked[key] = tx
        end
        W.outcome[key] = outcome
    end)
end

-- Begins with the first word of what is to be done.
local function begin(key, list, words)
    local fname, rest = words:match "(%a+) ?(.*)"
    W.machines[key]:begin(list, {fname = fname, member = key, rest = rest}, W.park)
end

-- The call begins. A reader is over for the protocol then; others are when the commit is sent.
local function calls(i)
    local it = table.remove(W.ready, i)
    local key, tx, fname = it.key, it.tx, it.tx.request.fname
    if tx.state ~= "ready" then return end -- a synchronizer has ended meanwhile
    W.machines[key]:decide(tx)
    if READERS[fname] then
        local lives = W.machines[tx.list[1]]
        t.ok(fname == "see" or not next(W.on), "one is lit, and another looks")
        t.ok(fname == "look" or not lives or W.lit[tx.list[1]], "there is no light to see")
        W.machines[key]:commit(tx)
        if tx.request.rest ~= "" then begin(key, tx.list, tx.request.rest) end
    else
        W.decided[key] = {list = tx.list}
        W.on[key] = fname == "on" or nil
        table.insert(W.commits, it)
    end
end

-- ---- What can happen next -----------------------------------------------------------------------

local function receive(to, from, kind, ...)
    if kind == "changed" then
        local tx = W.blocked[to]
        W.blocked[to] = nil
        if tx then begin(to, tx.list, tx.request.fname .. " " .. tx.request.rest) end
    else
        local machine = W.machines[to]
        machine[kind](machine, from, ...)
    end
end

local function arrives(way)
    local message = table.remove(W.ways[way], 1)
    local from, to = W.ways[way].from, W.ways[way].to
    if not W.ways[way][1] then W.ways[way] = nil end
    if message[1] == "ended" then
        W.machines[to]:ended(from)
        -- As requests that nobody can allow any more.
        for _, key in ipairs(W.blocked[to] and W.blocked[to].list or {}) do
            if key == from then W.blocked[to], W.outcome[to] = nil, "gone" end
        end
    else
        receive(to, from, table.unpack(message, 1, 8))
    end
end

-- `lost` is a set of bits: to whom nothing of what is on its way arrives.
local function crash(key, lost)
    W.crashes, W.machines[key], W.on[key], W.blocked[key] = W.crashes - 1, nil, nil, nil
    for i, other in ipairs(W.keys) do
        local way = key .. ">" .. other
        W.ways[other .. ">" .. key] = nil
        if W.machines[other] then
            W.ways[way] = W.ways[way] or {from = key, to = other}
            if lost >> (i - 1) & 1 == 1 then W.ways[way] = {from = key, to = other} end
            table.insert(W.ways[way], {"ended"})
        end
    end
    for _, list in ipairs {W.commits, W.ready} do
        for i = #list, 1, -1 do
            if list[i].key == key then table.remove(list, i) end
        end
    end
end

local function commits(i)
    local it = table.remove(W.commits, i)
    W.machines[it.key]:commit(it.tx)
end

-- The ways of a process that are not empty, as bits: which of them can be lost.
local function losses(key)
    local list = {0}
    for i, other in ipairs(W.keys) do
        local way = W.ways[key .. ">" .. other]
        if way and way[1] then
            for k = 1, #list do list[#list + 1] = list[k] | 1 << (i - 1) end
        end
    end
    return list
end

local function choices()
    local list = {}
    for way, it in pairs(W.ways) do
        if it[1] and W.machines[it.to] then list[#list + 1] = {arrives, way} end
    end
    for i in ipairs(W.commits) do list[#list + 1] = {commits, i} end
    for i in ipairs(W.ready) do list[#list + 1] = {calls, i} end
    local quiet = #list == 0
    if W.crashes > 0 then
        for _, key in ipairs(W.keys) do
            for _, lost in ipairs(W.machines[key] and losses(key) or {}) do
                list[#list + 1] = {crash, key, lost}
            end
        end
    end
    return list, quiet
end

-- ---- What must be true --------------------------------------------------------------------------

local function check_always()
    local lit = 0
    for _, on in pairs(W.on) do lit = lit + (on and 1 or 0) end
    t.ok(lit <= 1, "two are lit")
end

-- Nothing is on its way: no lock is left, nobody waits, and what fired fired everywhere.
local function check_end()
    local all
    for _, key in ipairs(W.keys) do
        local machine = W.machines[key]
        if machine and machine.queue then
            t.ok(not machine.lock, "a lock is left")
            t.ok(machine.reading < 2, "nobody learned that readers are over")
            t.eq(#machine.queue, 0, "somebody waits")
            t.ok(not next(machine.dead), "the dead are not forgotten")
            for who in pairs(machine.committed) do
                t.ok(W.machines[who], "what the dead had committed is not forgotten")
            end
            local fired = table.concat(W.fired[key], " ")
            for who in fired:gmatch "m%d" do t.ok(W.decided[who], "fired, and not decided") end
            if W.common[key] then
                all = all or fired
                t.eq(fired, all, "half fired")
            end
        elseif machine then
            t.ok(W.outcome[key], "a member waits")
            for _, other in ipairs(W.decided[key] and W.decided[key].list or {}) do
                local fired = W.machines[other] and table.concat(W.fired[other], " ")
                t.ok(not fired or fired:find(key, 1, true), "decided, and not fired")
            end
            local waits, reason = W.outcome[key] == "parked", false
            for _, other in ipairs(W.wants[key].list) do
                reason = reason or W.machines[other] and (W.lit[other] == nil) == W.wants[key].see
            end
            t.ok(waits or not next(machine.open), "a transaction is left")
            t.ok(reason or not waits and W.outcome[key] ~= "no", "blocked for no reason")
        end
    end
end

-- ---- The search ---------------------------------------------------------------------------------

-- What never changes is not copied, and but for requests not compared.
local FIXED = {request = true, list = true, rules = true, keys = true, common = true, send = true,
               settle = true, wants = true}

local function copy(value, seen)
    if type(value) ~= "table" then return value end
    if seen[value] then return seen[value] end
    local new = setmetatable({}, getmetatable(value))
    seen[value] = new
    for k, v in next, value do
        if FIXED[k] or type(v) ~= "table" then new[k] = v else new[k] = copy(v, seen) end
    end
    return new
end

local function by_text(a, b) return tostring(a) < tostring(b) end

-- The world as text, the same for the same.
local function text(value, parts)
    local keys, n = {}, #value
    for i = 1, n do keys[i] = i end
    for k in next, value do
        local compared = not FIXED[k] or k == "request"
        if compared and not (math.type(k) == "integer" and k <= n) then keys[#keys + 1] = k end
    end
    if #keys > n + 1 then table.sort(keys, by_text) end
    parts[#parts + 1] = "{"
    for _, k in ipairs(keys) do
        local v = value[k]
        if math.type(k) ~= "integer" or k > n then parts[#parts + 1] = tostring(k) end
        if type(v) == "table" then text(v, parts) else parts[#parts + 1] = tostring(v) end
    end
    parts[#parts + 1] = "}"
end

local NAMES = {[arrives] = "arrives", [crash] = "crash", [commits] = "commits", [calls] = "calls"}

-- Takes a choice in the world; `path` tells how it was reached.
local function take(world, choice, path)
    W = world
    path[#path + 1] = ("%s %s %s"):format(NAMES[choice[1]], choice[2], choice[3])
    local ok, err = pcall(choice[1], choice[2], choice[3])
    if not ok then error(err .. "\n" .. table.concat(path, "\n"), 0) end
end

-- Looks at the world. Returns what can happen next.
local function look(world, path)
    W = world
    local list, quiet = choices()
    local ok, err = pcall(function()
        check_always()
        if quiet then check_end() end
    end)
    if not ok then error(err .. "\n" .. table.concat(path, "\n"), 0) end
    return list
end

-- Visits every state that can be reached.
local function search(world, visited, path)
    local parts = {}
    text(world, parts)
    local state = table.concat(parts, " ")
    if visited[state] then return end
    visited[state], visited.n = true, visited.n + 1
    for _, choice in ipairs(look(world, path)) do
        local next_world = copy(world, {})
        take(next_world, choice, path)
        search(next_world, visited, path)
        path[#path] = nil
    end
end

-- Goes from the beginning to the end, by chance; a crash is as likely as all else together.
local function walk(world)
    local path = {}
    while true do
        local list = look(world, path)
        if #list == 0 then return end
        local choice = list[math.random(#list)]
        if choice[1] == crash and math.random(4) > 1 then
            choice = list[math.random(#list)]
        end
        take(world, choice, path)
    end
end

-- park: who is refused by the first one waits there; members: key -> {list of synchronizers,
-- functions, lit}, "a b" one after the other, "a,b" at the same time; common: the synchronizers at
-- which the same must have fired.
local function beginning(park, members, synchronizers, crashes, common)
    local world = {park = park, wants = {}, machines = {}, ways = {}, lit = {}, on = {},
                   fired = {}, buried = {}, outcome = {}, blocked = {}, decided = {},
                   commits = {}, ready = {}, crashes = crashes, keys = {}, common = {}}
    W = world
    for _, key in ipairs(common or synchronizers) do world.common[key] = true end
    for key in pairs(members) do world.machines[key] = member(key) end
    for _, key in ipairs(synchronizers) do
        world.machines[key], world.fired[key], world.buried[key] = synchronizer(key), {}, {}
    end
    for key in pairs(world.machines) do table.insert(world.keys, key) end
    table.sort(world.keys)
    for key, it in pairs(members) do
        if it[3] then
            world.on[key] = true
            for _, other in ipairs(it[1]) do world.lit[other] = key end
        end
    end
    for key, it in pairs(members) do
        world.wants[key] = {list = it[1], see = it[2] == "see"}
        for words in it[2]:gmatch "[^,]+" do begin(key, it[1], words) end
    end
    return world
end

-- Nothing here depends on how mare was built: builds that are slow search less.
local SLOW = t.gc_stress or t.slow > 1
local WAYS = SLOW and {true} or {true, false}
local CRASHES = SLOW and 0 or 1

local function explore(...)
    local visited = {n = 0}
    for _, park in ipairs(WAYS) do search(beginning(park, ...), visited, {}) end
    print("# " .. visited.n .. " states")
    t.ok(visited.n > 10)
end

-- All of them where programs may run for long (some minutes), else some.
local function sample(...)
    if os.getenv "MARE_STRESS_SECONDS" then return explore(...) end
    t.seed()
    for _, park in ipairs(WAYS) do
        local start = beginning(park, ...)
        for _ = 1, t.gc_stress and 5 or SLOW and 50 or 250 do walk(copy(start, {})) end
    end
end

return {
    two_want_the_same = function()
        explore({m1 = {{"s1", "s2"}, "on"}, m2 = {{"s1", "s2"}, "on"}}, {"s1", "s2"}, 0)
    end,

    one_goes_off_while_another_goes_on = function()
        explore({m1 = {{"s1"}, "off", true}, m2 = {{"s1"}, "on"}}, {"s1"}, CRASHES)
    end,

    synchronizers_that_overlap = function()
        explore({m1 = {{"s1", "s2"}, "on"}, m2 = {{"s2", "s3"}, "on"}}, {"s1", "s2", "s3"}, 0, {})
    end,

    readers_do_not_see_what_changes = function()
        explore({m1 = {{"s1"}, "off", true}, m2 = {{"s1"}, "look look"}}, {"s1"}, 0)
    end,

    readers_and_a_writer = function()
        explore({m1 = {{"s1"}, "look"}, m2 = {{"s1"}, "look look"}, m3 = {{"s1"}, "on"}}, {"s1"}, 0)
    end,

    two_readers_of_one_member = function()
        explore({m1 = {{"s1"}, "look,look"}, m2 = {{"s1"}, "on"}}, {"s1"}, 0)
    end,

    an_end_waits_for_readers = function()
        explore({m1 = {{"s1"}, "see"}, m2 = {{"s1"}, "off", true}}, {"s1"}, CRASHES)
    end,

    a_reader_or_a_writer_crashes = function()
        explore({m1 = {{"s1"}, "look"}, m2 = {{"s1"}, "on"}}, {"s1"}, CRASHES)
    end,

    one_of_three_crashes = function()
        explore({m1 = {{"s1", "s2"}, "on"}}, {"s1", "s2"}, CRASHES)
    end,

    two_want_the_same_and_one_crashes = {function()
        sample({m1 = {{"s1", "s2"}, "on"}, m2 = {{"s1", "s2"}, "on"}}, {"s1", "s2"}, 1)
    end, timeout = 1200},

    two_of_four_crash = {function()
        sample({m1 = {{"s1", "s2", "s3"}, "on"}}, {"s1", "s2", "s3"}, 2)
    end, timeout = 1200},
}
