-- SPDX-License-Identifier: MIT
-- Groups: named sets of nodes that agree on who holds a lock.
--
--     local group = require "mare.group"
--     group.found("bank", {members = {"a", "b", "c"}, folder = "state"})    -- once, on each member
--
--     local bank = assert(group.join("bank", {members = {"a", "b", "c"}, folder = "state"}))
--     local lock <close> = assert(bank:lock("account-7", 5))   -- at most 5 s; released at the end
--     db:write(account, lock:fence())                          -- a number that only grows
--     mare.select({lock, inbox}, 10)                           -- ready when it has been lost
--
-- With {engine = {"etcd", "http://…"}} the same is agreed on by a cluster of etcd. The process
-- behind it is _group_host.lua, with _group.lua or _group_etcd.lua as its engine; what it has on
-- its disk, _group_state.lua.
local mare, checks, raw = require "mare", require "mare._check", require "mare._node"
local state, shared = require "mare._group_state", require "mare._group_shared"
local where, start_process = require "mare._group_where", require "mare._launch"

local group, group_type, lock_type = {}, {__name = "group"}, {__name = "lock"}
group_type.__index, lock_type.__index = {}, {}

local PATIENCE = 15
local allowed = checks.set("members", "folder", "lease", "drift", "lost", "engine")

-- ---- Joining ------------------------------------------------------------------------------------

local function is_name(value)
    return type(value) == "string" and #value <= 63 and value:find "^[a-z][a-z0-9._-]*$"
end

local function is_list(value)
    if type(value) ~= "table" or #value < 1 or #value > 255 then return false end
    local seen = {}
    for _, name in ipairs(value) do
        if not is_name(name) or seen[name] then return false end
        seen[name] = true
    end
    return true
end

local function between(least, most)
    return function(value) return type(value) == "number" and value >= least and value <= most end
end

-- {"etcd", url, …, and options of etcd.client}: its endpoints and its options.
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

local function is_engine(value) return type(value) == "table" and value[1] == "etcd" end

local function check_options(what, options)
    checks.argument(what, options, 2, "table", 5)
    checks.options(what, options, 2, allowed, 5)
    local function option(key, good, expected)
        checks.option(what, options, 2, key, good, expected, 6)
    end
    option("members", is_list, "a list of the names of nodes, each once")
    option("folder", "string", "the path of a folder")
    option("lease", between(0.2, 3600), "a number of seconds, 0.2 at least, 3600 at most")
    option("drift", between(0, 0.4), "a number, 0.4 at most")
    option("lost", "boolean", "a boolean")
    option("engine", is_engine, 'a list: "etcd", then URLs')
    for _, key in ipairs {"members", "folder"} do
        if options[key] == nil and not options.engine then
            error(("bad argument #2 to '%s' (a group needs '%s')"):format(what, key), 4)
        end
    end
end

-- The settings that both have: who this is, and which group.
local function settings_of(what, name, options)
    checks.argument(what, name, 1, "string", 4)
    if not is_name(name) then
        error(("bad argument #1 to '%s' (a letter, then letters, digits, '.', '_' and '-')"):format(
            what), 3)
    end
    check_options(what, options)
    local here = raw._name()
    local names = table.move(options.members or {here}, 1, #(options.members or {here}), 1, {})
    table.sort(names)
    local settings = {names = names, here = here, inbox = "group." .. name,
        digest = name .. " " .. table.concat(names, ","),
        folder = options.folder and ("%s/group-%s"):format(options.folder, name),
        lease_us = math.floor((options.lease or 3) * 1e6),
        drift_ppm = math.floor((options.drift or 0.001) * 1e6)}
    if options.engine then
        settings.endpoints, settings.client = cluster_of(what, name, options)
    end
    return settings
end

local function check_member(settings)
    if not mare.find "mare.node" then
        return nil, "this program is not a node: call node.start first", "nonode"
    end
    for _, name in ipairs(settings.names) do
        if name == settings.here then return true end
    end
    return nil, ("this node, '%s', is not among the members"):format(settings.here), "denied"
end

local function own_digest(settings) return settings.digest .. " " .. settings.here end

--- The first time, on each member: makes its state. Never again, whatever the member has lost. A
--- cluster of etcd needs nothing of the kind.
function group.found(name, options)
    local settings = settings_of("found", name, options)
    local ok, message, code = check_member(settings)
    if not ok then return nil, message, code end
    if settings.endpoints then return true end
    return state.found(settings.folder, own_digest(settings))
end

local function launch(name, settings)
    local channel, message, code = mare.channel(64, "mare.group." .. name)
    if not channel then
        if code == "exists" then message = ("this program has joined '%s' already"):format(name) end
        return nil, message, code
    end
    local engine = settings.endpoints and "mare._group_etcd" or "mare._group"
    if not settings.endpoints then
        settings.kept, message, code = state.open(settings.folder, own_digest(settings),
            settings.lost)
        if not settings.kept then
            channel:close()
            return nil, message, code
        end
    end
    return start_process("member", engine, settings, channel)
end

--- Makes this node a member again. Returns the group; or nil, message, code.
function group.join(name, options)
    local settings = settings_of("join", name, options)
    local ok, message, code = check_member(settings)
    if not ok then return nil, message, code end
    settings.lost = options.lost
    local channel
    channel, message, code = launch(name, settings)
    if not channel then return nil, message, code end
    return setmetatable({name = name, channel = channel}, group_type)
end

--- The group that a process of this program has joined.
function group.find(name)
    checks.argument("find", name, 1, "string")
    local channel = mare.find("mare.group." .. name)
    if not channel then
        return nil, ("this program has not joined '%s'"):format(name), "noname"
    end
    return setmetatable({name = name, channel = channel}, group_type)
end

-- ---- Asking -------------------------------------------------------------------------------------

local function left(self)
    return nil, ("this program is not a member of '%s' any more"):format(self.name), "closed"
end

-- What must be said is said, also by a routine that was cancelled.
local function tell(self, ...)
    local ok, _, code
    repeat ok, _, code = self.channel:sendwithin(PATIENCE, ...) until code ~= "cancelled"
    return ok
end

local function ask(self, what, ...)
    local answer = mare.channel(1)
    if not tell(self, what, answer, ...) then return left(self) end
    local result, message, code = answer:receive(PATIENCE)
    if code == "cancelled" then return nil, message, code end
    if result == nil then return left(self) end
    return result
end

--- Who is in, and whether they can act: a list of {name =, state =, here =}.
function group_type.__index:members() return ask(self, "members") end

--- The locks that this member knows of: a list of {name =, fence =, waiting =}.
function group_type.__index:locks() return ask(self, "locks") end

-- The epoch of the lease that this member holds now, or false.
function group_type.__index:_epoch() return ask(self, "epoch") end

--- Leaves: locks that are held here are lost.
function group_type.__index:leave() return ask(self, "leave") end

-- ---- Locks --------------------------------------------------------------------------------------

local words = {
    noquorum = "this member does not reach a majority of the group",
    left = "this program has left the group",
    failed = "the member of the group has failed",
}

local function lost(reason)
    return nil, ("the lock is lost: %s"):format(words[reason] or reason), reason
end

-- The wait is over: out of the line. The lock may have come at this very moment; then it goes back.
local function give_up(self, name, reply, message, code)
    local answer = mare.channel(1)
    tell(self, "drop", reply, name, answer)
    if code == "cancelled" then return nil, message, code end
    local leased = answer:receive(PATIENCE)
    if leased == false then return nil, words.noquorum, "noquorum" end
    return nil, ("lock '%s' was not had in time"):format(name), "timeout"
end

local function check_name(what, name)
    checks.argument(what, name, 1, "string", 4)
    if #name == 0 or #name > 100 then
        error(("bad argument #1 to '%s' (a name has 1 to 100 bytes)"):format(what), 3)
    end
end

--- Takes the lock of this name; waits for it no longer than the timeout, in seconds. Returns it, or
--- nil, message, code: `timeout`, `noquorum`, `closed`, `cancelled`.
function group_type.__index:lock(name, timeout)
    check_name("lock", name)
    local deadline = timeout and checks.deadline("lock", timeout, 2)
    local reply, gone = mare.channel(1), mare.channel(1)
    local ok, fence, code = self.channel:sendwithin(deadline or PATIENCE, "lock", reply, name, gone,
        mare.self())
    if code == "closed" then return left(self) end
    if not ok then return nil, fence, code end
    if deadline then
        ok, fence, code = reply:receive(deadline)
    else
        ok, fence, code = reply:receive()
    end
    if ok == nil then return give_up(self, name, reply, fence, code) end
    if not ok then return left(self) end
    return setmetatable({group = self, name = name, reply = reply, gone = gone, number = fence},
        lock_type)
end

-- Why it is not held any more, if so.
local function reason_of(lock)
    if not lock.reason then lock.reason = lock.gone:tryreceive() end
    return lock.reason
end

--- The number of this grant, larger than all before, for what is protected to check; or nil,
--- message, code, when the lock is not held any more. What the time has done is found out first.
function lock_type.__index:fence()
    if reason_of(self) then return lost(self.reason) end
    local answer = mare.channel(1)
    local sent, fence, message, code = tell(self.group, "check", self.reply, self.name, answer)
    if sent then fence, message, code = answer:receive(PATIENCE) end
    if fence or code then return fence, message, code end -- without an answer it may still be held
    self.reason = reason_of(self) or (sent and "noquorum" or "left")
    return lost(self.reason)
end

--- Gives it back. The second time is nothing.
function lock_type.__index:release()
    if not self.reason then
        self.reason = "released"
        tell(self.group, "release", self.reply, self.name)
    end
    return true
end

lock_type.__close = lock_type.__index.release

--- A case of mare.select: ready when the lock has been lost, with the reason.
function lock_type:__select(case, reason)
    if case then self.reason = self.reason or reason end
    if self.reason then return true, self.reason end
    return self.gone
end

-- ---- Replicas and multicasts --------------------------------------------------------------------

local function check_shared(what, name)
    checks.argument(what, name, 1, "string", 4)
    if not is_name(name) then
        error(("bad argument #1 to '%s' (a letter, then letters, digits, '.', '_' and '-')"):format(
            what), 3)
    end
end

--- A state that is the same on every member: `change(state, value)` returns the next one. Without
--- it, the replica that a process of this program has made.
function group_type.__index:replica(name, initial, change, options)
    check_shared("replica", name)
    local settings, message, code = ask(self, "settings")
    if not settings then return nil, message, code end
    return shared.replica(self, settings, name, initial, change, options)
end

--- Messages that every member gets in the same order.
function group_type.__index:multicast(name, options)
    check_shared("multicast", name)
    local settings, message, code = ask(self, "settings")
    if not settings then return nil, message, code end
    return shared.multicast(self, settings, name, options)
end

-- ---- Time and place -----------------------------------------------------------------------------

-- The names of the members, as a set.
local function names_of(self)
    local members, message, code = ask(self, "members")
    if not members then return nil, message, code end
    local names = {}
    for _, member in ipairs(members) do names[member.name] = true end
    return names
end

--- The other members, the nearest first and at most so many: rows as of node.list.
function group_type.__index:near(count)
    local names, message, code = names_of(self)
    if not names then return nil, message, code end
    return where.near(names, count)
end

--- The names of so many members, chosen so that all members are near to one of them.
function group_type.__index:place(count)
    local names, message, code = names_of(self)
    if not names then return nil, message, code end
    return where.place(names, count)
end

--- The time of the group, in seconds since 1970, and by how much it may be wrong.
function group_type.__index:now()
    local members, message, code = ask(self, "members")
    if not members then return nil, message, code end
    local settings = ask(self, "settings")
    if not settings then return left(self) end
    self.clock = self.clock or {}
    return where.now(self.name, members, settings.drift, self.clock)
end

--- Waits until a time of the group is past on every member.
function group_type.__index:after(instant, timeout)
    return where.after(function() return self:now() end, instant, timeout)
end

-- ---- Elections ----------------------------------------------------------------------------------

local election_type = {__name = "election", __index = {}}

local function check_stands(options)
    if options == nil then return true end
    checks.argument("election", options, 2, "table", 3)
    checks.options("election", options, 2, checks.set "candidate", 3)
    checks.option("election", options, 2, "candidate", "boolean", "a boolean", 3)
    return options.candidate ~= false
end

--- Takes part in the election of this name; with `candidate = false`, only to know who leads.
function group_type.__index:election(name, options)
    check_name("election", name)
    local stands, changes = check_stands(options), mare.channel(8)
    if not tell(self, "election", changes, name, stands, mare.self()) then return left(self) end
    return setmetatable({group = self, name = name, news = changes, now = false, epoch = 0},
        election_type)
end

local function note(election, leader, epoch)
    election.now, election.epoch = leader, epoch
    return leader, epoch
end

--- Waits for the next change: the leader, or false when nobody is known to lead; and the epoch. Or
--- nil, message, code.
function election_type.__index:change(timeout)
    local leader, epoch, code
    if timeout then
        leader, epoch, code = self.news:receive(checks.deadline("change", timeout, 1))
    else
        leader, epoch, code = self.news:receive()
    end
    if leader == nil then return nil, epoch, code end
    return note(self, leader, epoch)
end

--- for leader, epoch in election:changes() do … end
function election_type.__index:changes()
    return function() return self:change() end
end

--- Takes part no more: if this member led, another one can.
function election_type.__index:resign()
    if self.news then
        tell(self.group, "resign", self.news, self.name)
        self.news:close()
    end
    return true
end

election_type.__close = election_type.__index.resign

--- A case of mare.select: ready when there is a change, with the leader and the epoch.
function election_type:__select(case, leader, epoch)
    if case then return true, note(self, leader, epoch) end
    return self.news
end

return group
