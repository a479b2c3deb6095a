-- SPDX-License-Identifier: MIT
-- `mare group`: asks the members of a group what they know, and puts the answers together. While it
-- runs, this program is a node.
local mare, node, json = require "mare", require "mare.node", require "mare.json"
local arguments, utf = require "mare._arguments", require "mare._utf8"

local PATIENCE, OTHERS = 10, 2 -- seconds for the member that is named; for each of the others
local DEEP = 6 -- levels of tables in an answer
local NO_LEASE = 3 -- exit code

local function fail(code, ...) arguments.fail("group", code, ...) end

-- ---- Asking -------------------------------------------------------------------------------------

-- Names may have any bytes. Replaces those that could control a terminal, or that are not UTF-8,
-- which JSON needs.
local function clean(value, depth)
    if type(value) == "string" then
        return (utf.clean(value):gsub("%c", "?"):gsub("\xc2[\x80-\x9f]", "?"))
    elseif type(value) ~= "table" or depth == DEEP then
        return value
    end
    local made = {}
    for key, one in pairs(value) do made[key] = clean(one, depth + 1) end
    return made
end

local function ask(group, member, patience)
    local inbox = mare.find(("group.%s@%s"):format(group, member), patience)
    if not inbox then return nil, "absent" end
    local reply = mare.channel(1)
    inbox:sendwithin(patience, "", "", "look", reply)
    return clean(reply:receive(patience), 0)
end

local function begin(options)
    local name = options["--name"] or ("look-%x"):format(math.random(0, 1 << 40))
    local started, message = node.start {name = name, keys = options["--keys"],
        secret = options["--secret"], insecure = options["--insecure"], group = options["--group"]}
    if not started then fail(1, "%s", message) end
    local peer, problem = node.connect(options["--join"], PATIENCE)
    if not peer then
        fail(1, "%s. Is a node listening there? See 'mare help group'", problem)
    end
    return peer
end

-- What each member says, by name: the member that was named, and those that it believes to be up.
local function ask_all(group, peer)
    local first, why = ask(group, peer, PATIENCE)
    if why == "absent" then
        fail(1, "'%s' is not a member of a group '%s', or its program has not called group.join "
            .. "yet", peer, group)
    elseif not first then
        fail(1, "'%s' does not answer; ask another member", peer)
    end
    local told, routines = {[peer] = first}, {}
    for _, member in ipairs(first.members) do
        if member.name ~= peer and member.state ~= "down" then
            routines[member.name] = mare.go(ask, group, member.name, OTHERS)
        end
    end
    for name, routine in pairs(routines) do told[name] = select(2, routine:join()) end
    return told
end

-- ---- Putting it together ------------------------------------------------------------------------

-- Merges the rows of all members, one for each key, in order. `add(row, its, member)` adds one to a
-- row.
local function merge(told, what, key_of, add)
    local rows, list = {}, {}
    for member, known in pairs(told) do
        for _, its in ipairs(known[what] or {}) do
            local key = key_of(its)
            if not rows[key] then
                rows[key] = {name = its.name or key}
                list[#list + 1] = rows[key]
            end
            add(rows[key], its, member)
        end
    end
    table.sort(list, function(a, b) return a.name < b.name end)
    return list
end

local function name_of(row) return row.name end

local function title_of_log(row) return row.kind .. row.name end

local function title_of_superpeers(row) return ("%s %d"):format(row.algorithm, row.count) end

local function title_of_change(row) return ("%s %s"):format(row.what, row.name) end

-- If two members say that they hold a lock, one does not know yet that it has lost it. The holder
-- is the one with the larger number.
local function add_lock(row, its, member)
    row.algorithm = its.algorithm
    row.waiting, row.line = (row.waiting or 0) + its.waiting, row.line or json.array {}
    for _, who in ipairs(its.line or {}) do
        table.insert(row.line, {member = member, process = who})
    end
    if its.fence and its.fence > (row.fence or 0) then
        row.fence, row.member, row.holder = its.fence, member, its.holder
    end
end

local function add_election(row, its, member)
    row.candidates = row.candidates or json.array {}
    if its.candidate then
        table.insert(row.candidates, member)
        row.algorithm = its.algorithm
    end
    local later = its.epoch > (row.epoch or -1)
    if later or its.epoch == row.epoch and its.leader then
        row.leader, row.epoch = its.leader, its.epoch
    end
end

local function add_log(row, its, member)
    row.kind, row.members = its.kind, row.members or json.array {}
    table.insert(row.members, {name = member, stage = its.stage, last = its.last,
        committed = its.committed, applied = its.applied})
    if its.epoch and its.epoch >= (row.epoch or 0) then
        row.leader, row.epoch = its.leader or row.leader, its.epoch
    end
end

local function add_superpeers(row, its, member)
    row.algorithm, row.count, row.members = its.algorithm, its.count, row.members or json.array {}
    table.insert(row.members, {name = member, superpeer = its.superpeer})
end

local function add_change(row, its, member)
    row.what, row.line = its.what, row.line or json.array {}
    table.insert(row.line, {member = member, process = its.process})
end

local function whole(group, peer, told)
    local members = json.array {}
    for i, member in ipairs(told[peer].members) do
        members[i] = {name = member.name, state = member.state, here = member.here,
            disagrees = member.disagrees, answers = told[member.name] ~= nil}
    end
    local function sorted(rows)
        for _, row in ipairs(rows) do
            for _, key in ipairs {"candidates", "members", "line"} do
                table.sort(row[key] or {}, function(a, b)
                    if key == "candidates" then return a < b end
                    return (a.member or a.name) < (b.member or b.name)
                end)
            end
        end
        return json.array(rows)
    end
    return {group = group, asked = peer, lease = told[peer].lease or false,
        generation = told[peer].generation, members = members,
        locks = sorted(merge(told, "locks", name_of, add_lock)),
        elections = sorted(merge(told, "elections", name_of, add_election)),
        logs = sorted(merge(told, "logs", title_of_log, add_log)),
        superpeers = sorted(merge(told, "superpeers", title_of_superpeers, add_superpeers)),
        changes = sorted(merge(told, "changes", title_of_change, add_change))}
end

-- ---- Printing -----------------------------------------------------------------------------------

local function print_members(known)
    print(("%-24s %s"):format("member", "state"))
    for _, member in ipairs(known.members) do
        local note = member.here and "  (asked)" or member.answers and ""
            or member.state ~= "down" and "  (does not answer this command)" or ""
        print(("%-24s %s%s"):format(member.name, member.state, note))
        if member.disagrees then print(("%24s %s"):format("", member.disagrees)) end
    end
end

local function print_locks(rows)
    if not rows[1] then return end
    print(("\n%-24s %-24s %-16s %s"):format("lock", "held by, process", "fence", "wait"))
    for _, lock in ipairs(rows) do
        local waits = {}
        for i, who in ipairs(lock.line) do waits[i] = ("%s %s"):format(who.member, who.process) end
        local holder = lock.fence and ("%s %s"):format(lock.member, lock.holder or "") or "-"
        print(("%-24s %-24s %-16s %d%s"):format(lock.name, holder, lock.fence or "-", lock.waiting,
            waits[1] and ": " .. table.concat(waits, ", ") or ""))
    end
end

local function print_elections(rows)
    if not rows[1] then return end
    print(("\n%-24s %-24s %-16s %s"):format("election", "leader", "epoch", "candidates"))
    for _, election in ipairs(rows) do
        local algorithm = (election.algorithm or "first") ~= "first"
            and (" (%s)"):format(election.algorithm) or ""
        print(("%-24s %-24s %-16d %s%s"):format(election.name, election.leader or "-",
            election.epoch, table.concat(election.candidates, ", "), algorithm))
    end
end

local function print_logs(rows)
    if not rows[1] then return end
    print(("\n%-24s %-24s %-16s %s"):format("replica, multicast", "leader", "epoch",
        "applied, of committed"))
    for _, log in ipairs(rows) do
        local parts = {}
        for i, one in ipairs(log.members) do
            parts[i] = one.stage and ("%s %d/%d"):format(one.name, one.applied, one.committed)
                or one.name .. " does not answer"
        end
        print(("%-24s %-24s %-16s %s"):format(log.kind .. " " .. log.name, log.leader or "-",
            log.epoch or "-", table.concat(parts, ", ")))
    end
end

local function print_superpeers(rows)
    if not rows[1] then return end
    print(("\n%-24s %s"):format("superpeers", "each member's"))
    for _, row in ipairs(rows) do
        local parts = {}
        for i, one in ipairs(row.members) do
            parts[i] = ("%s %s"):format(one.name, one.superpeer or "-")
        end
        print(("%-24s %s"):format(row.name, table.concat(parts, ", ")))
    end
end

local function print_changes(known)
    if known.generation and known.generation > 0 then
        print(("\nchanges of the members so far: %d"):format(known.generation))
    end
    if not known.changes[1] then return end
    print(("\n%-24s %s"):format("change", "wanted by, process"))
    for _, row in ipairs(known.changes) do
        local parts = {}
        for i, who in ipairs(row.line) do parts[i] = ("%s %s"):format(who.member, who.process) end
        print(("%-24s %s"):format(row.what .. " " .. row.name, table.concat(parts, ", ")))
    end
end

local function print_text(known)
    print_members(known)
    print_changes(known)
    print_locks(known.locks)
    print_elections(known.elections)
    print_logs(known.logs)
    print_superpeers(known.superpeers)
end

return function(...)
    local words, options = arguments.read({["--insecure"] = true, ["--json"] = true}, ...)
    if #words ~= 1 then fail(2, "one group is asked about: mare group NAME --join HOST:PORT") end
    if not options["--join"] then fail(2, "which node is to be asked? Give --join HOST:PORT") end
    local peer = begin(options)
    local known = whole(words[1], peer, ask_all(words[1], peer))
    if options["--json"] then
        print(json.encode(known))
    else
        print_text(known)
    end
    node.stop(1)
    if not known.lease then
        fail(NO_LEASE, "'%s' has no lease: it reaches no majority of '%s', or has just started. It "
            .. "holds no lock and leads nothing until more than half of the members reach each "
            .. "other", peer, words[1])
    end
end
