-- SPDX-License-Identifier: MIT
-- The side of a process whose requests are subject to synchronizers. "synchronizer.join" tells it
-- of a synchronizer. It asks the synchronizers, by _transaction.lua, before mare.sc lets a request
-- run.
local mare, transaction = require "mare", require "mare._transaction"
local line, who = require "mare._post", require "mare._who"
local sc, server, lent = require "mare.sc", require "mare._rpc_server", require "mare._lent"
local lead = require "mare._lead"

local post, synchronized = line.send, {}

local CAPACITY = 256

local box                  -- where the synchronizers' messages arrive
local inlet                -- the routine that reads them: see _lead.lua
local busy = 0             -- requests asked about and not parked, or run in that routine
local idle                 -- told when `busy` becomes 0
local synchronizers = {}   -- key -> {key, channel, process, gone, caller: the last it was told of}
local keys_of = {}         -- process -> key of the synchronizer
local rules = {}           -- fname -> sorted list of keys, with `number` and `told`
local lists = {}           -- the keys as text -> the only list of them; `gone`: it has ended
local list_count = 0
local accepts              -- function(process, fname), or nil: whether it may set rules here
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

-- The number by which a synchronizer knows a list of several keys. It was told in an earlier
-- message.
local function number_for(it, list)
    if not list.told[it.key] then
        list.told[it.key] = true
        post(it.channel, it.process, "list", me.key, list.number, addresses(list))
    end
    return list.number
end

local function refuse(request, message)
    server.refuse(request, message, "refused")
end

local function count(tx)
    tx.counts, busy = true, busy + 1
end

-- Uncounts a request, unless that was done: a guard may wait, and the synchronizer end meanwhile.
local function discount(tx)
    if not tx.counts then return end
    tx.counts, busy = false, busy - 1
    if busy == 0 and idle then idle:trysend(true) end
end

-- The request is not parked any more.
local function unpark(tx)
    if tx.parked then tx.parked, sc.parked = nil, sc.parked - 1 end
end

local coordinator

-- An error: aborts what was begun. Otherwise the synchronizers and the caller would wait for ever.
local function give_up(tx, err)
    coordinator:abort(tx)
    refuse(tx.request, "it could not be run: " .. server.text(err))
end

-- All synchronizers have answered about a request: goes on with it, in this routine.
local function go_on(tx, ...)
    local request = tx.request
    local fine, err = server.proceed(inlet, request, ...)
    if not fine then give_up(tx, err) end
    discount(tx)
end

-- The outcome of the questions about a request; or that a synchronizer has parked it.
local function settle(tx, outcome, detail)
    local request = tx.request
    if outcome == "parked" then
        tx.parked, sc.parked = true, sc.parked + 1
        return discount(tx)
    end
    if tx.parked then
        unpark(tx)
        count(tx)
    end
    if outcome == "ready" then
        return go_on(tx, sc.conclude, request, tx)
    elseif outcome == "no" then
        return go_on(tx, sc.finish, request, false, tx.reloads)
    elseif outcome == "error" then
        refuse(request, "a synchronizer's guard failed: " .. tostring(detail))
    elseif outcome == "gone" then
        refuse(request, ("a synchronizer of '%s' has ended"):format(request.fname))
    else
        refuse(request, "a synchronizer's answer makes no sense")
    end
    go_on(tx, sc.finish, request, nil)
end

coordinator = transaction.coordinator(function(to, kind, id, floor, list, request, park)
    local it = synchronizers[to]
    if not it then return end -- it was forgotten
    if kind == "ask" then
        local number, args, from = list[2] and number_for(it, list) or false, request.args,
            request.from
        post(it.channel, it.process, kind, me.key, id, floor, number, request.fname,
            from ~= it.caller and from, park, args.n > 0 and lent.copy(args))
        it.caller = from
    else
        post(it.channel, it.process, kind, me.key, id)
    end
end, settle)

local function ended(key)
    local it = synchronizers[key]
    if not it or it.gone then return end
    it.gone = true
    for _, list in pairs(lists) do
        for i = 1, #list do
            if list[i] == key then list.gone = it.process end
        end
    end
    coordinator:ended(it.key)
    sc.reload() -- what it had refused is refused for good now
end

local function dispatch(kind, ...)
    if kind == "vote" or kind == "ack" or kind == "recall" then
        coordinator[kind](coordinator, ...)
    elseif kind == "changed" then
        sc.reload()
    elseif kind == "gone" then
        ended(...)
    elseif getmetatable(kind) == "process" and keys_of[kind] and not kind:alive() then
        ended(keys_of[kind])
    end
end

-- Keeps the process alive for requests that are being asked about: those have no routine.
local function linger()
    idle = mare.channel(1)
    while busy > 0 do idle:receive() end
end

-- ---- Requests -----------------------------------------------------------------------------------

local asker = {rules = rules}

-- Begins to ask. With `park`, a synchronizer keeps a request that may not run now, so that it runs
-- before later ones.
function asker.ask(request, park, reloads)
    local keys = rules[request.fname]
    if keys.gone then
        refuse(request, ("%s, a synchronizer of '%s', has ended"):format(keys.gone, request.fname))
        return false
    elseif line.waiting(synchronizers[keys[1]].channel) > 2 * server.limit then
        refuse(request, ("%s, a synchronizer of '%s', does not keep up"):format(
            synchronizers[keys[1]].process, request.fname))
        return false
    end
    local tx = coordinator:begin(keys, request, park)
    count(tx)
    tx.reloads, request.asked = reloads, tx
    return true
end

-- Nobody wants the answer any more.
function asker.drop(request)
    local tx = request.asked
    if not tx or tx.state ~= "asking" then return end
    unpark(tx)
    discount(tx)
    coordinator:abort(tx)
    sc.over(request)
end

-- Whether the request runs. Other routines send the commits: they have their turn when the function
-- waits for the first time, or has ended. So nobody hears of a call that has not begun. The commit
-- of a reader is sent by the routine in which the synchronizer asks for it.
function asker.conclude(tx, runs)
    local deadline = tx.request.deadline
    if runs and deadline and deadline:left() == 0 then
        server.refuse(tx.request, "the synchronizers did not say yes in time", "timeout")
        runs = nil
    end
    if tx.state ~= "ready" then return nil end -- one of them has ended since, or nobody wants it
    if not runs then
        coordinator:abort(tx)
        return runs
    end
    if tx.shared then
        coordinator:commit(tx)
    else
        local fine, err = pcall(mare.go, coordinator.commit, coordinator, tx)
        if not fine then return give_up(tx, err) end
        coordinator:decide(tx)
    end
    return true
end

local function begin()
    box = mare.channel(CAPACITY)
    me = {key = who.key(), channel = box, process = mare.self()}
    local routine
    inlet, routine = lead.begin(box, dispatch)
    routine:detach()
    server.linger = linger
    sc.ask_first(asker)
end

-- The keys of a list, except one.
local function without(list, key)
    local rest = {}
    for _, other in ipairs(list) do
        if other ~= key then rest[#rest + 1] = other end
    end
    return rest
end

-- The list of these keys, of which there is only one.
local function listed(keys)
    table.sort(keys)
    local text = table.concat(keys, " ")
    if not lists[text] then
        list_count = list_count + 1
        keys.number, keys.told = list_count, {}
        for _, key in ipairs(keys) do
            local it = synchronizers[key]
            if it.gone then keys.gone = it.process end
        end
        lists[text] = keys
    end
    return lists[text]
end

--- "synchronizer.join": from now on requests for `fname` are subject to it. It is told where to
--- send its answers before it is asked anything.
function synchronized.join(request)
    local fname, channel, key, number = table.unpack(request.args, 1, 4)
    local it = {key = key, channel = channel, process = request.from}
    local known = synchronizers[keys_of[it.process] or key]
    if type(fname) ~= "string" or not who.is_address(it)
        or known and (known.key ~= key or known.process ~= it.process) then
        return server.refuse(request, "no function, or no address of its own", "badmsg")
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
    if not known then
        synchronizers[key], keys_of[it.process] = it, key
        it.process:monitor(box)
    end
    post(channel, it.process, "member", me, number or 0)
    local keys = without(rules[fname] or {}, key)
    keys[#keys + 1] = key
    rules[fname] = listed(keys)
    server.answer(request, true, me.key)
end

--- Sets who may join from now on. Synchronizers that have joined stay.
function synchronized.accept(f)
    accepts = f
end

--- A synchronizer has ended: requests are not subject to it any more. Returns whether it had any.
function synchronized.forget(process)
    local key, had = keys_of[process], false
    if not key or not synchronizers[key].gone then return false end
    for fname, keys in pairs(rules) do
        local rest = without(keys, key)
        had = had or #rest < #keys
        rules[fname] = rest[1] and listed(rest) or nil
    end
    for text, list in pairs(lists) do
        if #without(list, key) < #list then lists[text] = nil end
    end
    synchronizers[key], keys_of[process] = nil, nil
    sc.reload()
    return had
end

return synchronized
