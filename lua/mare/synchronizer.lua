-- SPDX-License-Identifier: MIT
-- Synchronizers: rules over a group of processes, kept by a process of their own. Constraints look
-- at the state that it keeps, triggers update it when a call is executed.
--
--     local synchronizer = require "mare.synchronizer"
--     local lit = false                                        -- at most one lamp is on
--     for _, lamp in ipairs(lamps) do                          -- processes that serve on and off
--         synchronizer.add_constraint(lamp, "on", function(request) return not lit end)
--         synchronizer.add_trigger(lamp, "on", function(request) lit = true end)
--         synchronizer.add_trigger(lamp, "off", function(request) lit = false end)
--     end                                                      -- and it goes on serving
--
-- Check and trigger are one transaction, also where several synchronizers have rules for the same
-- function: _transaction.lua says how, and what each crash leaves.
local mare, check = require "mare", require "mare._check"
local rpc, transaction = require "mare.rpc", require "mare._transaction"
local post, who, server = require "mare._post".send, require "mare._who", require "mare._rpc_server"
local time = require "mare.time"
local math_type = math.type

local synchronizer = {}

local CAPACITY = 256

local box              -- where messages arrive
local addresses = {}   -- key -> {key, channel, process, caller}, members and other synchronizers
local keys = {}        -- process -> key; several references may be the same process
local homes = {}       -- process -> all its keys: it may be a member, and a synchronizer
local stopped = {}     -- keys of synchronizers that have stopped, in processes that live
local constraints, triggers = {}, {} -- key of a member -> fname -> list of functions
local exits = {}       -- key of a member -> list of functions
local pending = {}     -- number -> a rule that a process was asked to accept
local lists = {}       -- key of a member -> number -> keys of those who have rules for a request
local machine, me      -- me: its own {key, channel, process}
local alone            -- the list of itself

-- ---- The rules ----------------------------------------------------------------------------------

local NONE = {}

local function listed(rules, member, request)
    local of_member = rules[member]
    return of_member and of_member[request.fname] or NONE
end

local function guard(request, member)
    local of_member = constraints[member]
    local list = of_member and of_member[request.fname] or NONE
    for i = 1, #list do
        local fine, result = pcall(list[i], request)
        if not fine then return "error", server.text(result) end
        if not result then return "no" end
    end
    return "yes"
end

local function changes(request, member)
    local of_member = triggers[member]
    return of_member ~= nil and of_member[request.fname] ~= nil
end

-- A decision stands: if a trigger fails, the error is printed, and the others run.
local function run_all(list, ...)
    for _, f in ipairs(list) do
        local fine, err = pcall(f, ...)
        if not fine then pcall(mare.go, error, err, 0) end
    end
end

-- No request that asks one that has ended is ever executed: so the lists with it are not needed.
local function drop_lists(key)
    for _, of_member in pairs(lists) do
        for number, list in pairs(of_member) do
            for _, other in ipairs(list) do
                if other == key then of_member[number] = nil end
            end
        end
    end
end

local rules = {
    guard = guard,
    changes = changes,
    fire = function(request, member) run_all(listed(triggers, member, request), request) end,
    ended = function(key)
        local actions = exits[key]
        run_all(actions or NONE, addresses[key] and addresses[key].process)
        constraints[key], triggers[key], exits[key], addresses[key] = nil, nil, nil, nil
        lists[key] = nil
        for process, its_key in pairs(keys) do
            if its_key == key then keys[process] = nil end
        end
        drop_lists(key)
        return actions ~= nil
    end,
    knows = function(key) return addresses[key] ~= nil end,
}

-- ---- Messages -----------------------------------------------------------------------------------

-- Messages to other synchronizers include this one's address, because they may not know it yet.
local BETWEEN = {orphan = true, query = true, state = true, decide = true}

local function send(to, kind, ...)
    local it = addresses[to]
    if it then post(it.channel, it.process, kind, BETWEEN[kind] and me or me.key, ...) end
end

-- Raised for a malformed message, which is then ignored: anybody can send anything here.
local MALFORMED = {}
local function insist(fine)
    if not fine then error(MALFORMED, 0) end
end

local function learn(it)
    insist(who.is_address(it))
    local key, process = it.key, it.process
    if not addresses[key] and key ~= me.key and not stopped[key] then
        addresses[key], keys[process] = it, key
        if not homes[process] then
            homes[process] = {}
            process:monitor(box)
        end
        table.insert(homes[process], key)
    end
    return key
end

-- A process has ended, and all that it was here.
local function hear_end(process)
    local its_keys = homes[process]
    homes[process] = nil
    for _, key in ipairs(its_keys) do
        if not stopped[key] then machine:ended(key) end
        stopped[key] = nil
    end
end

-- A process says who it is, and that it has accepted a rule.
local function hear_member(it, number)
    local key, rule = learn(it), pending[number]
    if not rule then return end
    pending[number] = nil
    local of_member = rule.list[key] or {}
    rule.list[key] = of_member
    of_member[rule.fname] = of_member[rule.fname] or {}
    table.insert(of_member[rule.fname], rule.f)
    if rule.list == triggers then machine:recall() end
end

-- A member says which synchronizers a number stands for, before it uses the number.
local function hear_list(from, number, list)
    insist(addresses[from] and math_type(number) and type(list) == "table")
    local its_keys = {}
    for i, it in ipairs(list) do its_keys[i] = learn(it) end
    lists[from] = lists[from] or {}
    lists[from][number] = its_keys
end

local function hear_ask(from, id, floor, number, fname, caller, park, args)
    local member, list = addresses[from], alone
    if not member then return end -- it has ended
    if number then list = lists[from] and lists[from][number] end
    if caller then member.caller = caller end -- it is named only when it changes
    if not list or math_type(id) ~= "integer" or math_type(floor) ~= "integer"
        or type(fname) ~= "string" or args and type(args) ~= "table" then
        error(MALFORMED, 0)
    end
    machine:ask(from, id, floor, list, {fname = fname, args = args or {n = 0},
        from = member.caller, process = member.process}, park)
end

local function dispatch(kind, from, ...)
    if kind == "ask" then
        hear_ask(from, ...)
    elseif kind == "commit" or kind == "abort" then
        machine[kind](machine, from, ...)
    elseif kind == "member" then
        hear_member(from, ...)
    elseif kind == "list" then
        hear_list(from, ...)
    elseif BETWEEN[kind] then
        machine[kind](machine, learn(from), ...)
    elseif kind == "gone" then
        if addresses[from] and not stopped[from] then
            stopped[from] = true
            machine:ended(from)
        end
    elseif getmetatable(kind) == "process" and homes[kind] and not kind:alive() then
        hear_end(kind)
    end
end

local function loop(channel)
    local _ <close> = channel
    while not channel:closed() do
        local fine, err = pcall(dispatch, channel:receive())
        if not fine and err ~= MALFORMED then pcall(mare.go, error, err, 0) end
    end
end

-- ---- What a program calls -----------------------------------------------------------------------

local function begin()
    if box then return end
    box = mare.channel(CAPACITY)
    me = {key = who.key(), channel = box, process = mare.self()}
    machine, alone = transaction.participant(me.key, send, rules), {me.key}
    mare.go(loop, box)
end

-- Adds a rule. It counts once the process knows of it: from then on its requests ask first.
local function add(name, table_of, process, fname, f, timeout)
    if type(process) == "string" then
        local found, message, code = mare.find(process)
        if not found then return nil, message, code end
        process = found
    end
    if getmetatable(process) ~= "process" then
        error(("bad argument #1 to '%s' (process or name expected, got %s)"):format(name,
            process == nil and "no value" or type(process)), 2)
    end
    check.argument(name, fname, 2, "string")
    check.argument(name, f, 3, "function")
    check.deadline(name, timeout, 4)
    begin()
    if box:closed() then return nil, "this synchronizer was stopped", "closed" end
    local number = time.nonce() -- only that process knows it
    pending[number] = {list = table_of, fname = fname, f = f}
    local key, message, code = rpc.sync(process, "synchronizer.join", timeout)(fname, box, me.key,
        number)
    if not key then
        pending[number] = nil
        return nil, message, code
    end
    keys[process] = key
    return true
end

--- Requests for `fname` of the process run only when guard(request) is true.
function synchronizer.add_constraint(process, fname, f, timeout)
    return add("add_constraint", constraints, process, fname, f, timeout)
end

--- action(request) runs when a request for `fname` of the process is executed.
function synchronizer.add_trigger(process, fname, f, timeout)
    return add("add_trigger", triggers, process, fname, f, timeout)
end

--- action(process) runs when the process, which has other rules here, has ended.
function synchronizer.add_exit(process, f)
    if getmetatable(process) ~= "process" then
        check.argument("add_exit", process, 1, "process")
    end
    check.argument("add_exit", f, 2, "function")
    local key = keys[process]
    if not key or not process:alive() then
        return nil, ("%s has no rules here, or has ended"):format(process), "noproc"
    end
    exits[key] = exits[key] or {}
    table.insert(exits[key], f)
    return true
end

--- Ends the service. The processes refuse requests that were subject to it, until they forget it.
function synchronizer.stop()
    if not box or box:closed() then return false end
    for _, it in pairs(addresses) do post(it.channel, it.process, "gone", me.key) end
    return box:close()
end

--- In a process for which others may make rules: sets which. f(process, fname) returns whether that
--- process may make rules for that function; an error counts as no. nil: all may, the default.
function synchronizer.accept(f)
    if f ~= nil then check.argument("accept", f, 1, "function") end
    require "mare._synchronized".accept(f)
end

--- In a process with rules: drops those of a synchronizer that has ended.
function synchronizer.forget(process)
    if getmetatable(process) ~= "process" then
        error("bad argument #1 to 'forget' (process expected)", 2)
    end
    return require "mare._synchronized".forget(process)
end

return synchronizer
