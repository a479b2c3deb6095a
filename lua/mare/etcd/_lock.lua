-- SPDX-License-Identifier: MIT
-- Locks. To get one, a client puts a key of its own, under a lease, below the lock's. The oldest
-- key has the lock. The revision that made it is its fencing number, which only grows.
--
--     mare/lock/NAME/LEASE.1   created 17   has the lock
--     mare/lock/NAME/LEASE.1   created 21   watches the one before it, and no other
--     mare/lock/NAME/LEASE.2   created 25   watches the one before it
--
-- A request without an answer may be carried out later, even after the key was deleted; then nobody
-- would ever delete the new key. So the request has a condition: there must be no key
-- mare/void/LEASE.1. A holder that leaves after such a request makes that key, in the transaction
-- that deletes its own. The lease removes it at the end.
local mare, checks = require "mare", require "mare._check"
local Client = require "mare.etcd._client"
local encode, int, list_of = Client.encode, Client.int, Client.list_of

local ENDED <const> = "the lease ended before the lock was got"

-- ---- A place in line ----------------------------------------------------------------------------

-- Escapes a name: without slashes, so that no lock lies below another one.
local function escape(name)
    return (name:gsub("[%%/]", function(letter) return ("%%%02X"):format(letter:byte()) end))
end

--- The prefix of the keys of a line.
function Client:line_of(kind, name) return self.prefix .. kind .. "/" .. escape(name) .. "/" end

-- The request for the newest keys of a line before a revision.
local function newest(line, count, before)
    local request = Client.range_of(line, nil, true)
    request.sort_order, request.sort_target, request.limit = "DESCEND", "CREATE", count
    request.keys_only, request.max_create_revision = true, before
    return {request_range = request}
end

local function first_of(response) return list_of(list_of(response.response_range).kvs)[1] end

-- The key and its revision, from an answer; nil: there is none.
local function place_of(kv)
    return kv and {key = Client.bytes(kv.key), created = int(kv.create_revision)}
end

-- Asks again whether the key is there, and which is before it. Returns its own place, the one
-- before it and the revision; or nil, message, code.
local function look(self, deadline)
    local own, ahead, revision = self.client:ask("kv/txn", {success = {
        {request_range = Client.range_of(self.key)},
        newest(self.line, 1, self.created - 1),
    }}, {deadline = deadline, again = true, decode = function(answer)
        local responses = list_of(answer.responses)
        return place_of(first_of(responses[1])) or false, place_of(first_of(responses[2])),
            int(list_of(answer.header).revision)
    end})
    if own and own.created == self.created then return own, ahead, revision end
    if own == nil then return nil, ahead, revision end
    return nil, ENDED, "lost"
end

-- Takes a place in the line. Returns as `look` does.
local function enter(self, deadline)
    local how = {deadline = deadline, again = true, decode = function(answer)
        local responses = list_of(answer.responses)
        if not answer.succeeded then return place_of(first_of(responses[1])) or false end
        local revision = int(list_of(answer.header).revision)
        local before = list_of(list_of(responses[2].response_range).kvs)[2]
        return {key = self.key, created = revision}, place_of(before), revision
    end}
    local own, ahead, revision = self.client:ask("kv/txn", {
        compare = {
            {key = encode(self.key), target = "CREATE", create_revision = 0},
            {key = encode(self.void), target = "VERSION", version = 0},
        },
        success = {
            {request_put = {key = encode(self.key), value = encode(self.value),
                lease = self.lease.number}},
            newest(self.line, 2),
        },
        failure = {{request_range = Client.range_of(self.key)}},
    }, how)
    self.doubtful = how.doubtful
    if own then self.created = own.created end
    if own and not revision then return look(self, deadline) end -- an earlier try has put it there
    if own == nil and revision ~= "noname" then return nil, ahead, revision end
    if own == nil then self.lease:ended() end
    if not own then return nil, ENDED, "lost" end
    return own, ahead, revision
end

-- Leaves the line. Returns whether the key was there; or nil, message, code.
local function leave(self, deadline)
    local request = {success = {{request_delete_range = Client.range_of(self.key)}}}
    if self.doubtful then
        table.insert(request.success, {request_put = {key = encode(self.void),
            lease = self.lease.number}})
    end
    local how = {deadline = deadline, again = true, decode = function(answer)
        local gone = list_of(list_of(answer.responses)[1].response_delete_range)
        return int(gone.deleted) > 0
    end}
    local there, message, code = self.client:ask("kv/txn", request, how)
    if code == "noname" then return false end -- the lease is gone, with all its keys
    if there == false then there = self.doubtful or how.doubtful or false end
    return there, message, code
end

-- Leaves the line in a routine of its own. Tries as long as the lease lives, because that keeps the
-- key.
local function leave_later(self)
    if not self.lease:alive() then return end
    mare.go(function()
        local deadline = mare.deadline(self.client.ttl)
        repeat
            local done, _, code = leave(self, self.client:deadline(deadline))
        until done ~= nil or code ~= "cancelled" or not self.lease:alive()
    end)
end

-- Waits until the key before it is gone, or the lease has ended.
local function wait_for(self, ahead, revision, deadline)
    local watch, message, code = self.client:watch(ahead.key, {revision = revision + 1,
        only = "delete", timeout = self.client:deadline(deadline)})
    if not watch then
        if code == "compacted" then return true end
        return nil, message, code
    end
    local _ <close> = watch
    local which, event
    which, event, message, code = mare.select({watch, self.lease}, deadline)
    if which == 1 and (event or code == "compacted") then return true end
    if which then return nil, message, code end
    return nil, event, message
end

-- Waits until the key is at the head of the line. Reads its place again after each wait: the lease
-- may have ended meanwhile, and the key with it.
local function get_to_head(self, deadline)
    local own, ahead, revision = enter(self, deadline or self.client:deadline())
    while own and ahead do
        local ok, message, code = wait_for(self, ahead, revision, deadline)
        if not ok then return nil, message, code end
        own, ahead, revision = look(self, self.client:deadline(deadline))
    end
    if not own then return nil, ahead, revision end
    return self.lease:alive()
end

-- ---- The object ---------------------------------------------------------------------------------

local Lock = {__name = "mare.etcd.lock"}
Lock.__index = Lock

local serial = 0

local function new(client, kind, name, lease, value)
    serial = serial + 1
    local id, line = ("%x.%d"):format(lease.number, serial), client:line_of(kind, name)
    return setmetatable({client = client, lease = lease, title = name, line = line,
        key = line .. id, void = client.prefix .. "void/" .. id, value = value or ""}, Lock)
end

local lock_options = checks.set("lease", "value")

--- Gets a lock of that name and kind. The level is that of `error`.
function Client:acquire(kind, call, name, timeout, options)
    checks.argument(call, name, 1, "string", 4)
    local deadline = checks.deadline(call, timeout, 2)
    options = Client.check(call, 3, options, lock_options, 4)
    checks.option(call, options, 3, "value", "string", "a string", 4)
    while true do
        local lease, message, code = options.lease
        if not lease then
            lease, message, code = self:session(deadline or self:deadline())
            if not lease then return nil, message, code end
        end
        local lock = new(self, kind, name, lease, options.value)
        local ok
        ok, message, code = get_to_head(lock, deadline)
        if ok then return lock end
        leave_later(lock)
        local late = not lock.created and code == "lost" and not options.lease
        if not late then return nil, message, code end
        -- The lease had ended before this began, and nobody had noticed: get a new one.
    end
end

--- Waits for the lock of that name, and takes it: up to the timeout, or without limit. Returns the
--- lock, or nil, message, code.
function Client:lock(name, timeout, options)
    return self:acquire("lock", "lock", name, timeout, options)
end

--- Whether it is held; or nil, why not, and "lost", or "closed" if it was unlocked.
function Lock:held()
    if self.over then return nil, "the lock was released", "closed" end
    return self.lease:alive()
end

--- Its fencing number: larger than that of all earlier holders of this lock. As `held` if it is not
--- held.
function Lock:fence()
    local held, message, code = self:held()
    if not held then return nil, message, code end
    return self.created
end

function Lock:name() return self.title end

-- Ready when it is not held any more, with the reason.
function Lock:__select()
    local held, message, code = self:held()
    if not held then return true, nil, message, code end
    return self.lease.gone, self.lease:left()
end

--- Gives the lock back. Returns true; false if it was unlocked before; or nil, message, code:
--- "lost" if it was lost before. If the cluster does not answer in time, this goes on trying for a
--- while; after that the lease ends.
function Lock:unlock(timeout)
    if self.over then return false end
    local held, message, code = self:held()
    self.over = true
    if not held then return nil, message, code end
    local there
    there, message, code = leave(self, self.client:deadline(timeout))
    if there then return true end
    if there == false then return nil, "the key of the lock was gone", "lost" end
    leave_later(self)
    return nil, message, code
end

Lock.close = Lock.unlock
function Lock:__close()
    if coroutine.isyieldable() then
        self:unlock()
    elseif self:held() then -- no wait is possible here: see Lease:abandon
        self.over = true
        if not pcall(leave_later, self) then self.lease:abandon() end
    end
end

return Client
