-- SPDX-License-Identifier: MIT
-- A group of five loses two, one frozen, one cut off, while all take locks and append to a replica:
-- nothing is held twice, nothing that was acknowledged is lost, and every caller is told the truth
-- in time. The same program, with the group's own engine and with a cluster of etcd, in network
-- namespaces (wires.lua).
local mare, child, file = require "mare", require "mare.child", require "mare.file"
local t, wires, history = require "t", require "wires", require "group_history"
local group_world, cluster, shell = require "group_world", require "etcd_cluster", require "shell"

local NAMES = {"a", "b", "c", "d", "e"}
local CUT, FROZEN = 4, 5

-- Each of the two that will be lost has a lock of its own, for as long as it can. The others take
-- these as soon as they are told to by a file.
local MORE = [[
    local file = require "mare.file"
    local function hold()
        local lock = assert(bank:lock("of " .. NAME, 60))
        while true do
            local began, ended, fence, _, code = timed(lock.fence, lock)
            if not fence then return tell("lost", NAME, code) end
            tell("held", NAME, fence, began, ended)
            mare.select({lock}, 0.01)
        end
    end
    local function take(name)
        repeat mare.sleep(0.01) until file.stat(given.folder .. "/../go")
        local began, ended, lock
        repeat began, ended, lock = timed(bank.lock, bank, "of " .. name, 0.5) until lock
        tell("held", name, lock.number, began, ended)
        lock:release()
    end
    if NAME == "d" or NAME == "e" then
        mare.go(hold):detach()
    else
        mare.go(take, "d"):detach()
        mare.go(take, "e"):detach()
    end
]]

-- ---- A cluster of etcd, in namespaces -----------------------------------------------------------

local function is_healthy(host)
    local code = ("os.exit(require 'mare.http'.client():get('http://%s:2379/health', 1) == 200)")
        :format(host.address)
    local command = {table.unpack(host.inside)}
    table.move({shell.mare, "-e", code}, 1, 3, #command + 1, command)
    command.timeout = t.patience
    local result = child.run(command)
    return result and result.code == 0
end

-- On the hosts from this one on. Returns the engine of a group, and what ends it.
local function start_etcd(hosts, first, folder)
    local program = cluster.program() or t.skip "etcd is not there: tools/setup.sh test"
    local everybody, members, engine = {}, {}, {"etcd"}
    for i = first, #hosts do
        everybody[#everybody + 1] = ("m%d=http://%s:2380"):format(i, hosts[i].address)
        engine[#engine + 1] = ("http://%s:2379"):format(hosts[i].address)
    end
    for i = first, #hosts do
        local client = ("http://%s:2379"):format(hosts[i].address)
        local peer = ("http://%s:2380"):format(hosts[i].address)
        local command = {table.unpack(hosts[i].inside)}
        for _, word in ipairs {program, "--name", "m" .. i, "--data-dir", folder .. "/m" .. i,
            "--listen-client-urls", client, "--advertise-client-urls", client,
            "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
            "--initial-cluster", table.concat(everybody, ","), "--log-level", "error",
            "--logger", "zap", "--log-outputs", folder .. "/log", "--heartbeat-interval", "60",
            "--election-timeout", "600"} do
            command[#command + 1] = word
        end
        command.stdin, command.stdout, command.stderr, command.grace = "null", "null", "null", 0
        members[#members + 1] = assert(child.spawn(command))
    end
    for i = first, #hosts do
        t.reaches(function() return is_healthy(hosts[i]) end, "a healthy member of etcd")
    end
    return engine, setmetatable({}, {__close = function()
        for _, one in ipairs(members) do one:close() end
    end})
end

-- ---- What happens -------------------------------------------------------------------------------

-- Collects what is awaited: whose locks are held by whom, who was told that one is lost, what
-- those were told who asked for one in vain, and how many appends of each were acknowledged.
local function observer()
    local seen = {held = {}, lost = {}, told = {}, done = {}}
    return seen, function(name, line)
        local what, a, b = line:match "^(%a+)\t([^\t]*)\t?([^\t]*)"
        if what == "held" then seen.held[a .. " by " .. name] = true end
        if what == "lost" then seen.lost[a] = b end
        if what == "nolock" then seen.told[name .. " " .. a] = true end
        if what == "append" and tonumber(line:match "\t(%d+)$") then
            seen.done[name] = (seen.done[name] or 0) + 1
        end
    end
end

local function await(what, condition)
    local deadline = mare.deadline(6 * t.patience)
    while not condition() do
        t.ok(deadline:left() > 0, what)
        mare.sleep(0.01)
    end
end

-- Each of these has so many more appends acknowledged.
local function all_append(seen, names, more)
    local before = {}
    for _, name in ipairs(names) do before[name] = seen.done[name] or 0 end
    for _, name in ipairs(names) do
        local goal = before[name] + more
        await(name .. " appends", function() return (seen.done[name] or 0) >= goal end)
    end
end

local function lose_two_and_find_them(world, seen)
    all_append(seen, NAMES, 10)
    await("both have their locks", function()
        return seen.held["d by d"] and seen.held["e by e"]
    end)
    t.ok(file.write(world.folder .. "/go", ""))
    world.peers[FROZEN].signal "STOP"
    for other = 1, world.hosts do
        if other ~= CUT then
            world:set(CUT, other, {loss = 1})
            world:set(other, CUT, {loss = 1})
        end
    end
    await("who is cut off is told that its lock is lost, and that there is no majority", function()
        return seen.lost.d and seen.told["d noquorum"]
    end)
    for _, name in ipairs {"a", "b", "c"} do
        await("the others get the locks", function()
            return seen.held["d by " .. name] and seen.held["e by " .. name]
        end)
    end
    all_append(seen, {"a", "b", "c"}, 10)
    t.eq(seen.lost.e, nil) -- it knows nothing yet
    world.peers[FROZEN].signal "CONT"
    for other = 1, world.hosts do
        if other ~= CUT then
            world:set(CUT, other)
            world:set(other, CUT)
        end
    end
    await("who was frozen is told", function() return seen.lost.e end)
    t.eq({seen.lost.d, seen.lost.e}, {"noquorum", "noquorum"})
    all_append(seen, NAMES, 10)
end

-- What the two locks were told to be, and how long each call took that had half a second.
local function check(stories)
    local grants = {d = {}, e = {}}
    for _, story in ipairs(stories) do
        for _, line in ipairs(story) do
            local name, fence, began, ended = line:match "^held\t(%a)\t(%d+)\t(%S+)\t(%S+)"
            if name then
                table.insert(grants[name], {who = story.name, fence = tonumber(fence),
                    began = tonumber(began), ended = tonumber(ended)})
            end
            local what
            what, began, ended = line:match "^(%a+)\t%S+\t([%d.]+)\t([%d.]+)"
            if what and what:find "lock$" or what == "append" then
                local seconds = tonumber(ended) - tonumber(began)
                t.ok(story.name == "e" or seconds < 0.5 + t.patience, line) -- e was frozen
            end
        end
    end
    t.ok(history.check_locks(grants.d) > 3 and history.check_locks(grants.e) > 3)
    history.check(history.read(stories))
end

local function five(hosts, folder, lease, engine)
    local seen, heed = observer()
    local world <close> = group_world.new(folder, {names = NAMES, lease = lease, wires = hosts,
        engine = engine, more = MORE, heed = heed})
    world.hosts = #hosts.hosts
    lose_two_and_find_them(world, seen)
    check(world:finish())
end

return {
    their_own_engine = {t.in_folder(function(folder)
        local hosts <close> = wires.start(#NAMES)
        five(hosts, folder, 0.6 * t.slow)
    end), timeout = 20 * t.patience},

    a_cluster_of_etcd = {t.in_folder(function(folder)
        local hosts <close> = wires.start(#NAMES + 3)
        local engine, cluster_end <close> = start_etcd(hosts.hosts, #NAMES + 1, folder)
        t.ok(cluster_end)
        five(hosts, folder, 1, engine)
    end), timeout = 20 * t.patience},
}
