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
-- With {engine = {"etcd", "http://…"}} a cluster of etcd decides instead of the members. The
-- process behind a member is in _group_host.lua; its engine is _group.lua or _group_etcd.lua; what
-- it has on its disk is in _group_state.lua. The options are checked in _group_options.lua.
local mare, checks, file = require "mare", require "mare._check", require "mare.file"
local given = require "mare._group_options"
local state, shared = require "mare._group_state", require "mare._group_shared"
local where, start_process = require "mare._group_where", require "mare._launch"
local comings, superpeers = require "mare._group_members", require "mare._group_superpeers"
local roll = require "mare._group_roll"

local group, group_type, lock_type = {}, {__name = "group"}, {__name = "lock"}
group_type.__index, lock_type.__index = {}, {}

local PATIENCE, COMING = 15, 60 -- seconds for an answer; for members to join and leave
local races = checks.set("first", "bully", "ring", "wireless")

-- ---- Joining ------------------------------------------------------------------------------------

local function check_member(settings, comes)
    if not mare.find "mare.node" then
        return nil, "this program is not a node: call node.start first", "nonode"
    end
    if comes then return true end
    for _, name in ipairs(settings.names) do
        if name == settings.here then return true end
    end
    return nil, ("this node, '%s', is not among the members"):format(settings.here), "denied"
end

local function own_digest(settings) return settings.digest .. " " .. settings.here end

--- Makes this member's state. Call it on each member the first time, and never again, whatever the
--- member has lost. A cluster of etcd does not need it.
function group.found(name, options)
    local settings = given.settings("found", name, options)
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
        local ok
        ok, message, code = comings.open(settings)
        if not ok then
            channel:close()
            return nil, message, code
        end
    end
    return start_process("member", engine, settings, channel)
end

--- Makes this node a member again. Returns the group; or nil, message, code.
function group.join(name, options)
    local settings = given.settings("join", name, options)
    settings.lost, settings.newcomer = options.lost, options.newcomer
    settings.timeout = options.timeout or COMING
    local has_changed, message, code = false, nil, nil
    if settings.folder then
        has_changed, message, code = file.exists(settings.folder .. "/roll")
    end
    if has_changed == nil then return nil, message, code end
    local ok
    ok, message, code = check_member(settings, options.newcomer or has_changed)
    if not ok then return nil, message, code end
    local channel
    channel, message, code = launch(name, settings)
    if not channel then return nil, message, code end
    return setmetatable({name = name, channel = channel}, group_type)
end

--- The group that a process of this program has joined.
function group.find(name)
    checks.argument("find", name, 1, "string")
    local channel = roll.is_name(name) and mare.find("mare.group." .. name)
    if not channel then
        return nil, ("this program has not joined '%s'"):format(name), "noname"
    end
    return setmetatable({name = name, channel = channel}, group_type)
end

-- ---- Asking -------------------------------------------------------------------------------------

local function left(self)
    return nil, ("this program is not a member of '%s' any more"):format(self.name), "closed"
end

-- What a call returns when the member has ended; or has not taken a request, or not answered it, in
-- time: then it is still a member, but waits, for instance for its disk.
local function unanswered(self, code)
    if code ~= "timeout" or self.channel:closed() then return left(self) end
    return nil, ("the member of '%s' in this program does not answer"):format(self.name), code
end

-- Sends a request, even from a routine that was cancelled. Returns true; or nil, message, code.
local function tell(self, ...)
    local ok, message, code
    repeat ok, message, code = self.channel:sendwithin(PATIENCE, ...) until code ~= "cancelled"
    return ok, message, code
end

-- The same for a request that must not be lost: if there is no room for it in time, goes on waiting
-- for room when this has returned. A process that ends cannot; but the member hears of its end.
local function insist(self, ...)
    local ok, message, code = tell(self, ...)
    local goes_on, routine = code == "timeout", nil
    if goes_on then goes_on, routine = pcall(mare.go, self.channel.send, self.channel, ...) end
    if goes_on then routine:detach() end
    return ok, message, code
end

local function ask(self, what, ...)
    local answer = mare.channel(1)
    local sent, _, why = tell(self, what, answer, ...)
    if not sent then return unanswered(self, why) end
    local result, message, code = answer:receive(PATIENCE)
    if code == "cancelled" then return nil, message, code end
    if result == nil then return unanswered(self, code) end
    return result
end

--- The members, and whether they can act: a list of {name =, state =, here =}.
function group_type.__index:members() return ask(self, "members") end

--- The locks that this member knows of: a list of {name =, fence =, waiting =, holder =, line =}.
function group_type.__index:locks() return ask(self, "locks") end

--- All that this member knows: its lease, members, locks, elections, replicas and multicasts.
function group_type.__index:look() return ask(self, "look") end

-- The epoch of the lease that this member holds now, or false.
function group_type.__index:_epoch() return ask(self, "epoch") end

-- For a log: the channel is told of the members now, and at every change. `requests` is asked when
-- somebody looks at the group.
function group_type.__index:_follow(channel, title, requests)
    tell(self, "follow", channel, mare.self(), title, requests)
end

local function alter(self, what, name, timeout)
    checks.argument(what, name, 1, "string", 4)
    if not roll.is_name(name) then
        error(("bad argument #1 to '%s' (the name of a node expected)"):format(what), 3)
    end
    local deadline = checks.deadline(what, timeout or COMING, 2)
    local reply, answer = mare.channel(1), mare.channel(1)
    local sent, _, problem = tell(self, "change", reply, what, name, mare.self())
    if not sent then return unanswered(self, problem) end
    local ok, message, code = reply:receive(deadline)
    if ok == nil and code == "closed" then return left(self) end
    if ok ~= nil then return ok or nil, message, code end
    local _, _, unsent = insist(self, "unchange", answer, reply)
    if unsent == "closed" then return left(self) end
    local word, why = answer:receive(unsent and 0 or PATIENCE)
    if code == "cancelled" then return nil, message, code end
    return nil, why or message, word or "unsure"
end

--- Makes a node a new member. The node has joined, or joins now, with `newcomer = true`. Locks that
--- are held are lost, as with every change of members. Returns true; or nil, message, code:
--- `timeout`, `noquorum`, `denied`; `unsure`: it may still happen.
function group_type.__index:add(name, timeout) return alter(self, "add", name, timeout) end

--- Removes a member, whether it is up or gone for good.
function group_type.__index:remove(name, timeout) return alter(self, "remove", name, timeout) end

--- Leaves the group: locks that are held here are lost.
function group_type.__index:leave() return ask(self, "leave") end

-- ---- Locks --------------------------------------------------------------------------------------

local words = {
    noquorum = "this member does not reach a majority of the group",
    left = "this program has left the group",
    failed = "the member of the group has failed",
    changed = "the members of the group have changed",
}

local function lost(reason)
    return nil, ("the lock is lost: %s"):format(words[reason] or reason), reason
end

-- Ends a wait: leaves the line. If the lock came at this very moment, gives it back.
local function give_up(self, name, reply, message, code)
    local answer = mare.channel(1)
    local _, _, unsent = insist(self, "drop", reply, name, answer)
    if unsent == "closed" then return left(self) end
    if code == "cancelled" then return nil, message, code end
    local leased, trouble = answer:receive(unsent and 0 or PATIENCE)
    if leased == false then return nil, trouble or words.noquorum, "noquorum" end
    return nil, ("lock '%s' was not had in time"):format(name), "timeout"
end

local function check_name(what, name)
    checks.argument(what, name, 1, "string", 4)
    if #name == 0 or #name > 100 then
        error(("bad argument #1 to '%s' (a name has 1 to 100 bytes)"):format(what), 3)
    end
    if name:find "^[\1-\4]" then -- see _group_election.lua and _group_replica.lua
        error(("bad argument #1 to '%s' (names that begin with bytes 1 to 4 are the group's own)")
            :format(what), 3)
    end
end

local LOCK_OPTIONS = checks.set "algorithm"

local function check_algorithm(options)
    if options == nil then return nil end
    checks.argument("lock", options, 3, "table", 4)
    checks.options("lock", options, 3, LOCK_OPTIONS, 4)
    checks.option("lock", options, 3, "algorithm", function(word)
        return given.algorithms[word] or word == "etcd"
    end, given.ALGORITHMS .. ", or the engine, 'etcd'", 4)
    return options.algorithm
end

--- Takes the lock of this name; waits at most for the timeout, in seconds. Returns the lock, or
--- nil, message, code: `timeout`, `noquorum`, `closed`, `cancelled`; `corrupt`: this member's file
--- about the lock is damaged; `denied`: the option `algorithm` is not the one that the members
--- named when they joined.
function group_type.__index:lock(name, timeout, options)
    check_name("lock", name)
    local algorithm = check_algorithm(options)
    local deadline = timeout and checks.deadline("lock", timeout, 2)
    local reply = mare.channel(2) -- for the grant; later for the reason why the lock was lost
    local ok, fence, code
    if deadline then
        ok, fence, code = self.channel:sendwithin(deadline, "lock", reply, name, mare.self(),
            algorithm)
    else
        ok, fence, code = self.channel:send("lock", reply, name, mare.self(), algorithm)
    end
    if code == "closed" then return left(self) end
    if not ok then return nil, fence, code end
    if deadline then
        ok, fence, code = reply:receive(deadline)
    else
        ok, fence, code = reply:receive()
    end
    if code == "denied" or code == "corrupt" then return nil, fence, code end
    if code == "closed" then return left(self) end
    if ok == nil then return give_up(self, name, reply, fence, code) end
    if not ok then return left(self) end
    return setmetatable({group = self, name = name, reply = reply, number = fence}, lock_type)
end

-- Why the lock is not held any more; nil: it is held.
local function reason_of(lock)
    if not lock.reason then lock.reason = lock.reply:tryreceive() end
    return lock.reason
end

--- The number of this grant, larger than all before: the protected resource can check it. Or nil,
--- message, code, if the lock is not held any more. The member first checks whether its lease has
--- run out.
function lock_type.__index:fence()
    if reason_of(self) then return lost(self.reason) end
    local answer = mare.channel(1)
    local sent, _, code = tell(self.group, "check", self.reply, self.name, answer)
    local fence, message
    if sent then fence, message, code = answer:receive(PATIENCE) end
    if fence then return fence end
    if code == "cancelled" then return nil, message, code end -- it may still be held
    if code == "timeout" and not self.group.channel:closed() then
        return unanswered(self.group, code) -- this, too
    end
    self.reason = reason_of(self) or (code and "left" or "noquorum")
    return lost(self.reason)
end

--- Gives the lock back. A second call does nothing.
function lock_type.__index:release()
    if not self.reason then
        self.reason = "released"
        self.reply:trysend(self.reason) -- wakes a select in another routine
        insist(self.group, "release", self.reply, self.name)
    end
    return true
end

lock_type.__close = lock_type.__index.release

--- A case of mare.select: ready when the lock has been lost, with the reason.
function lock_type:__select(case, reason)
    if case then self.reason = self.reason or reason end
    if self.reason then return true, self.reason end
    return self.reply
end

-- ---- Replicas and multicasts --------------------------------------------------------------------

local function check_shared(what, name)
    checks.argument(what, name, 1, "string", 4)
    if not roll.is_name(name) then
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

--- The state of a replica as the nearest member has it that has opened it: true, the state, and the
--- name of that member; or nil, message, code. It may be old.
function group_type.__index:peek(name, timeout)
    check_shared("peek", name)
    local deadline = checks.deadline("peek", timeout or PATIENCE, 2)
    local members, message, code = ask(self, "members")
    if not members then return nil, message, code end
    local settings
    settings, message, code = ask(self, "settings")
    if not settings then return nil, message, code end
    return shared.peek(self, settings, where.in_order(members), name, deadline)
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

--- The other members, nearest first, at most so many: rows as in node.list.
function group_type.__index:near(count)
    local names, message, code = names_of(self)
    if not names then return nil, message, code end
    return where.near(names, count)
end

--- The names of so many members, chosen so that every member is near one of them.
function group_type.__index:place(count)
    local names, message, code = names_of(self)
    if not names then return nil, message, code end
    return where.place(names, count)
end

local function superpeer_key(way)
    checks.argument("superpeer", way, 1, "table", 4)
    checks.options("superpeer", way, 1, checks.set("prefix", "tokens"), 4)
    if (way.prefix == nil) == (way.tokens == nil) then
        error("bad argument #1 to 'superpeer' (either 'prefix' or 'tokens' expected)", 3)
    end
    local function option(key, least, most)
        checks.option("superpeer", way, 1, key, function(value)
            return math.type(value) == "integer" and value >= least and value <= most
        end, ("an integer, %d at least, %d at most"):format(least, most), 5)
    end
    option("prefix", 0, 8)
    option("tokens", 1, 32)
    return superpeers.key(way.prefix and "superpeer-dht" or "superpeer-tokens",
        way.prefix or way.tokens)
end

--- The superpeer that this member should ask, out of a few. `{prefix = k}`: one for each of 2^k
--- parts of the members. `{tokens = n}`: n members far from each other; this returns the nearest of
--- them. Returns its name, or nil, message, code.
function group_type.__index:superpeer(way, timeout)
    local key = superpeer_key(way)
    local deadline = checks.deadline("superpeer", timeout or PATIENCE, 2)
    local reply, answer = mare.channel(1), mare.channel(1)
    local sent, _, problem = tell(self, "superpeer", reply, key)
    if not sent then return unanswered(self, problem) end
    local name, message, code = reply:receive(deadline)
    if name or code == "denied" then return name or nil, message, code end
    if code == "closed" then return left(self) end
    local _, _, unsent = insist(self, "nosuperpeer", answer, key, reply)
    if unsent == "closed" then return left(self) end
    local why = answer:receive(unsent and 0 or PATIENCE)
    if code == "cancelled" then return nil, message, code end
    if why == "noquorum" then
        return nil, "this member does not reach a majority of the group", why
    end
    return nil, "no superpeer was found in time", "timeout"
end

--- The time of the group, in seconds since 1970, and how far it may be wrong.
function group_type.__index:now()
    local settings, message, code = ask(self, "settings")
    if not settings then return nil, message, code end
    self.clock = self.clock or {}
    if settings.clock then return where.ntp_now(settings.clock, settings.drift, self.clock) end
    local members
    members, message, code = ask(self, "members")
    if not members then return nil, message, code end
    return where.now(self.name, members, settings.drift, self.clock)
end

--- Waits until a time of the group is past on every member.
function group_type.__index:after(instant, timeout)
    return where.after(function() return self:now() end, instant, timeout)
end

-- ---- Elections ----------------------------------------------------------------------------------

local election_type = {__name = "election", __index = {}}

local function is_worth(value)
    return math.type(value) == "integer" and value >= 0 and value < 1 << 32
end

local function check_way(options)
    options = options or {}
    checks.argument("election", options, 2, "table", 3)
    checks.options("election", options, 2, checks.set("candidate", "algorithm", "worth"), 3)
    local function option(key, good, expected)
        checks.option("election", options, 2, key, good, expected, 4)
    end
    option("candidate", "boolean", "a boolean")
    option("algorithm", function(word) return races[word] end,
        "'first', 'bully', 'ring' or 'wireless'")
    option("worth", is_worth, "an integer, 0 at least, below 2^32")
    if options.worth and options.algorithm ~= "wireless" then
        error("bad argument #2 to 'election' ('worth' is for the algorithm 'wireless')", 3)
    end
    return {stands = options.candidate ~= false, algorithm = options.algorithm or "first",
        worth = options.worth}
end

--- Takes part in the election of this name; with `candidate = false`, only to know who leads.
--- `algorithm` says which candidate asks for the lock: `first` (who stood first), `bully`, `ring`
--- (the highest name), `wireless` (of the largest `worth`).
function group_type.__index:election(name, options)
    check_name("election", name)
    return self:_election(name, check_way(options))
end

-- The same, also with a name that only the group itself can use.
function group_type.__index:_election(name, way)
    local changes = mare.channel(8)
    local sent, _, code = tell(self, "election", changes, name, way, mare.self())
    if not sent then return unanswered(self, code) end
    return setmetatable({group = self, name = name, news = changes, now = false, epoch = 0},
        election_type)
end

local function note(election, leader, epoch)
    election.now, election.epoch = leader, epoch
    return leader, epoch
end

--- Waits for the next change: the leader, or false if no leader is known; and the epoch. Or nil,
--- message, code.
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

--- Leaves the election: if this member led, another one can lead now.
function election_type.__index:resign()
    if self.news then
        insist(self.group, "resign", self.news, self.name)
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
