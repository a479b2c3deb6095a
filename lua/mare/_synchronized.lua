-- SPDX-License-Identifier: MIT
-- The side of a process whose requests are subject to synchronizers: it learns of them by
-- "synchronizer.join", and asks them, by _transaction.lua, before mare.sc lets a request run.
local mare, transaction = require "mare", require "mare._transaction"
local post, who = require "mare._post", require "mare._who"
local sc, server = require "mare.sc", require "mare._rpc_server"

local synchronized = {}

local CAPACITY = 256

local box                  -- where the synchronizers' messages arrive
local synchronizers = {}   -- key -> {key, channel, process, gone}
local rules = {}           -- fname -> sorted list of keys, with `number` and `told`
local lists = {}           -- the keys as text -> the list: there is one of each
local list_count = 0
local accepts              -- function(process, fname), or nil: whose rules count here
local me                   -- this process's {key, channel, process}

-- ---- Messages -----------------------------------------------------------------------------------

local function addresses(keys)
    local list = {}
    for i, key in ipairs(keys) do
        local it = synchronizers[key]
        list[i] = {key = key, channel = it.channel, process = it.process}
    end
    return list
end

-- The number by which a synchronizer knows a list, of which it was told in a message before; false
-- if it is the only one.
local function number_for(it, list)
    if not list[2] then return false end
    if not list.told[it.key] then
        list.told[it.key] = true
        post(it.channel, it.process, "list", me.key, list.number, addresses(list))
    end
    return list.number
end

local coordinator = transaction.coordinator(function(to, kind, id, floor, list, request, park)
    local it = synchronizers[to]
    if kind == "ask" then
        local number, args = number_for(it, list), request.args
        post(it.channel, it.process, kind, me.key, id, floor, number, request.fname, request.from,
            park, args.n > 0 and args)
    else
        post(it.channel, it.process, kind, me.key, id)
    end
end, function(tx, outcome, detail)
    tx.wake:trysend(outcome, detail or false)
end)

local function ended(key)
    local it = synchronizers[key]
    if not it or it.gone then return end
    it.gone = true
    coordinator:ended(it.key)
    sc.reload() -- those that it had refused are refused for good now
end

local function dispatch(kind, ...)
    if kind == "vote" or kind == "ack" or kind == "recall" then
        coordinator[kind](coordinator, ...)
    elseif kind == "changed" then
        sc.reload()
    elseif kind == "gone" then
        ended(...)
    elseif getmetatable(kind) == "process" then
        ended(who.key(kind))
    end
end

local function loop()
    local _ <close> = box
    while not box:closed() do
        local fine, err = pcall(dispatch, box:receive())
        if not fine then mare.go(error, err, 0) end
    end
end

-- ---- Requests -----------------------------------------------------------------------------------

local function refuse(request, message)
    server.refuse(request, message, "refused")
end

-- Whether the request runs. Commits are sent by other routines, which have their turn when the
-- function waits for the first time, or has ended: nobody hears of a call that has not begun. That
-- of a reader is sent by the one that is asked for it.
local function conclude(tx, runs)
    if runs and tx.shared then
        coordinator:decide(tx)
        coordinator:commit(tx)
    elseif runs then
        coordinator:decide(tx)
        mare.go(coordinator.commit, coordinator, tx)
    else
        coordinator:abort(tx)
    end
    return runs
end

local spare = {} -- channels at which nothing more can arrive

-- Waits for what becomes of it: a word, or nil if the wait was not long enough.
local function outcome_of(tx, deadline)
    local wake = table.remove(spare) or mare.channel(2)
    tx.wake = wake
    local outcome, detail = wake:receive(deadline)
    if outcome == "parked" then
        sc.parked = sc.parked + 1
        outcome, detail = wake:receive(deadline)
        sc.parked = sc.parked - 1
    end
    if outcome then spare[#spare + 1] = wake end
    return outcome, detail
end

-- In the routine of the request: waits until all have answered. With `park` a synchronizer keeps
-- what may not run now, so that it runs before younger ones.
local function ask(request, park)
    local keys = rules[request.fname]
    if not keys then return true end
    for _, key in ipairs(keys) do
        if synchronizers[key].gone then
            return refuse(request, ("%s, a synchronizer of '%s', has ended"):format(
                synchronizers[key].process, request.fname))
        end
    end
    local tx = coordinator:begin(keys, request, park)
    local outcome, detail = outcome_of(tx, request.deadline)
    if tx.state == "ready" then
        return true, conclude, tx
    elseif outcome == "no" then
        return false
    elseif outcome == "error" then
        return refuse(request, "a synchronizer's guard failed: " .. tostring(detail))
    elseif outcome == "gone" or outcome == "ready" then
        return refuse(request, ("a synchronizer of '%s' has ended"):format(request.fname))
    end
    coordinator:abort(tx) -- the deadline, or nobody wants the answer any more
    return server.refuse(request, "the synchronizers did not say yes in time", "timeout")
end

local function begin()
    box = mare.channel(CAPACITY)
    me = {key = who.key(mare.self()), channel = box, process = mare.self()}
    mare.go(loop):detach()
    sc.ask_first(ask)
end

-- The one list of these keys.
local function listed(keys)
    table.sort(keys)
    local text = table.concat(keys, " ")
    if not lists[text] then
        list_count = list_count + 1
        keys.number, keys.told = list_count, {}
        lists[text] = keys
    end
    return lists[text]
end

--- "synchronizer.join": from now on requests for `fname` are subject to it. Answers with where its
--- answers are to be sent.
function synchronized.join(request)
    local fname, channel = table.unpack(request.args, 1, 2)
    if type(fname) ~= "string" or getmetatable(channel) ~= "channel" then
        return server.refuse(request, "no function, or no channel", "badmsg")
    end
    if accepts then
        local fine, yes = pcall(accepts, request.from, fname)
        if not fine then mare.go(error, yes, 0) end
        if not fine or not yes then
            return server.refuse(request, ("%s may not make rules for '%s'"):format(request.from,
                fname), "denied")
        end
    end
    if not box then begin() end
    local key = who.key(request.from)
    if not synchronizers[key] then
        synchronizers[key] = {key = key, channel = channel, process = request.from}
        request.from:monitor(box)
        post(channel, request.from, "member", me)
    end
    local keys = {key}
    for _, other in ipairs(rules[fname] or {}) do
        if other ~= key then keys[#keys + 1] = other end
    end
    rules[fname] = listed(keys)
    server.answer(request, true, box)
end

--- Who may join from now on. Those who have joined stay.
function synchronized.accept(f)
    accepts = f
end

--- Requests are no longer subject to a synchronizer that has ended. Returns whether it had any.
function synchronized.forget(process)
    local key, had = who.key(process), false
    if not synchronizers[key] or not synchronizers[key].gone then return false end
    for fname, keys in pairs(rules) do
        local rest = {}
        for _, other in ipairs(keys) do
            if other ~= key then rest[#rest + 1] = other end
        end
        had = had or #rest < #keys
        rules[fname] = rest[1] and listed(rest) or nil
    end
    sc.reload()
    return had
end

return synchronized
