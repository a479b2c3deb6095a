-- SPDX-License-Identifier: MIT
-- `mare group`: asks a member of a group what it knows. For that time this program is a node.
local mare, node, json = require "mare", require "mare.node", require "mare.json"
local arguments = require "mare._arguments"

local PATIENCE = 10

local function fail(code, ...) arguments.fail("group", code, ...) end

local function ask(name, options)
    local started, message = node.start {name = options["--name"] or ("look-%x"):format(os.time()),
        keys = options["--keys"], secret = options["--secret"], insecure = options["--insecure"],
        group = options["--group"]}
    if not started then fail(1, "%s", message) end
    local peer, problem = node.connect(options["--join"], PATIENCE)
    if not peer then fail(1, "%s", problem) end
    local inbox = mare.find(("group.%s@%s"):format(name, peer), PATIENCE)
    if not inbox then fail(1, "'%s' is not a member of a group '%s'", peer, name) end
    local reply = mare.channel(1)
    inbox:sendwithin(PATIENCE, "", "", "look", reply)
    local known = reply:receive(PATIENCE)
    if not known then fail(1, "'%s' does not answer", peer) end
    return known
end

local function print_text(known)
    print(("%-24s %s"):format("member", "state"))
    for _, member in ipairs(known.members) do
        print(("%-24s %s%s"):format(member.name, member.state, member.here and "  (asked)" or ""))
    end
    if #known.locks == 0 then return end
    print(("\n%-24s %-16s %s"):format("lock", "held there", "wait there"))
    for _, lock in ipairs(known.locks) do
        print(("%-24s %-16s %d"):format(lock.name, lock.fence or "-", lock.waiting))
    end
end

return function(...)
    local words, options = arguments.read({["--insecure"] = true, ["--json"] = true}, ...)
    if #words ~= 1 then fail(2, "one group is asked about: mare group NAME --join HOST:PORT") end
    if not options["--join"] then fail(2, "which node is to be asked? Give --join HOST:PORT") end
    local known = ask(words[1], options)
    if options["--json"] then
        known.locks = json.array(known.locks)
        print(json.encode(known))
    else
        print_text(known)
    end
    node.stop(1)
end
