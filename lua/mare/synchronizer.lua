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
local post, who = require "mare._post", require "mare._who"

local synchronizer = {}

local CAPACITY = 256

local box              -- where messages arrive
local addresses = {}   -- key -> {key, channel, process}, members and other synchronizers
local constraints, triggers, exits = {}, {}, {} -- key of a member -> fname -> list of functions
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
    for _, f in ipairs(listed(constraints, member, request)) do
        local fine, result = pcall(f, request)
        if not fine then return "error", tostring(result) end
        if not result then return "no" end
    end
    return "yes"
end

-- What was decided is decided: a trigger that fails is printed, and the others run.
local function run_all(list, ...)
    for _, f in ipairs(list) do
        local fine, err = pcall(f, ...)
        if not fine then mare.go(error, err, 0) end
    end
end

local rules = {
    guard = guard,
    changes = function(request, member) return listed(triggers, member, request)[1] ~= nil end,
    fire = function(request, member) run_all(listed(triggers, member, request), request) end,
    ended = function(key)
        local actions = exits[key]
        run_all(actions or NONE, addresses[key] and addresses[key].process)
        constraints[key], triggers[key], exits[key], addresses[key] = nil, nil, nil, nil
        lists[key] = nil
        return actions ~= nil
    end,
}

-- ---- Messages -----------------------------------------------------------------------------------

-- What goes to other synchronizers, who may not know this one yet, says where it is.
local BETWEEN = {orphan = true, query = true, state = true, decide = true}

local function send(to, kind, ...)
    local it = addresses[to]
    if it then post(it.channel, it.process, kind, BETWEEN[kind] and me or me.key, ...) end
end

local function learn(it)
    if not addresses[it.key] and it.key ~= me.key then
        addresses[it.key] = it
        it.process:monitor(box)
    end
    return it.key
end

-- A member says who it is, and which synchronizers a number stands for, before it uses either.
local function hear_list(from, number, list)
    local keys = {}
    for i, it in ipairs(list) do keys[i] = learn(it) end
    lists[from] = lists[from] or {}
    lists[from][number] = keys
end

local function hear_ask(from, id, floor, number, fname, caller, park, args)
    local member = addresses[from]
    if not member then return end -- it has ended
    machine:ask(from, id, floor, number and lists[from][number] or alone,
        {fname = fname, args = args or {n = 0}, from = caller, process = member.process}, park)
end

local function dispatch(kind, from, ...)
    if kind == "ask" then
        hear_ask(from, ...)
    elseif kind == "commit" or kind == "abort" then
        machine[kind](machine, from, ...)
    elseif kind == "member" then
        learn(from)
    elseif kind == "list" then
        hear_list(from, ...)
    elseif BETWEEN[kind] then
        machine[kind](machine, learn(from), ...)
    elseif kind == "gone" then
        machine:ended(from)
    elseif getmetatable(kind) == "process" then
        machine:ended(who.key(kind))
    end
end

local function loop(channel)
    local _ <close> = channel
    while not channel:closed() do
        local fine, err = pcall(dispatch, channel:receive())
        if not fine then mare.go(error, err, 0) end
    end
end

-- ---- What a program calls -----------------------------------------------------------------------

local function begin()
    if box then return end
    box = mare.channel(CAPACITY)
    me = {key = who.key(mare.self()), channel = box, process = mare.self()}
    machine, alone = transaction.participant(me.key, send, rules), {me.key}
    mare.go(loop, box)
end

-- The rule counts when the process knows of it: its requests ask first from then on.
local function add(name, table_of, process, fname, f)
    if type(process) == "string" then
        local found, message, code = mare.find(process)
        if not found then return nil, message, code end
        process = found
    end
    if getmetatable(process) ~= "process" then
        error(("bad argument #1 to '%s' (process or name expected, got %s)"):format(name,
            process == nil and "no value" or type(process)), 3)
    end
    check.argument(name, fname, 2, "string", 4)
    check.argument(name, f, 3, "function", 4)
    begin()
    local key = who.key(process)
    table_of[key] = table_of[key] or {}
    table_of[key][fname] = table_of[key][fname] or {}
    local list = table_of[key][fname]
    list[#list + 1] = f -- the process may ask before its answer is here
    if table_of == triggers then machine:recall() end
    local channel, message, code = rpc.sync(process, "synchronizer.join")(fname, box)
    if not channel then
        for i = #list, 1, -1 do
            if list[i] == f then
                table.remove(list, i)
                break
            end
        end
        return nil, message, code
    end
    learn {key = key, channel = channel, process = process}
    return true
end

--- Requests for `fname` of the process run only when guard(request) is true.
function synchronizer.add_constraint(process, fname, f)
    return add("add_constraint", constraints, process, fname, f)
end

--- action(request) runs when a request for `fname` of the process is executed.
function synchronizer.add_trigger(process, fname, f)
    return add("add_trigger", triggers, process, fname, f)
end

--- action(process) runs when the process, which has other rules here, has ended.
function synchronizer.add_exit(process, f)
    if getmetatable(process) ~= "process" then
        check.argument("add_exit", process, 1, "process")
    end
    check.argument("add_exit", f, 2, "function")
    local key = who.key(process)
    if not addresses[key] then
        return nil, ("%s has no rules here, or has ended"):format(process), "noproc"
    end
    exits[key] = exits[key] or {}
    table.insert(exits[key], f)
    return true
end

--- Ends the service. The processes refuse what was subject to it, until they forget it.
function synchronizer.stop()
    if not box or box:closed() then return false end
    for _, it in pairs(addresses) do post(it.channel, it.process, "gone", me.key) end
    return box:close()
end

--- In a process that others may make rules for: which ones. f(process, fname) returns whether that
--- process may make rules for that function; an error is a no. nil: all may, as from the start.
function synchronizer.accept(f)
    if f ~= nil then check.argument("accept", f, 1, "function") end
    require "mare._synchronized".accept(f)
end

--- In a process that has rules: those of a synchronizer that has ended do not count any more.
function synchronizer.forget(process)
    if getmetatable(process) ~= "process" then
        error("bad argument #1 to 'forget' (process expected)", 2)
    end
    return require "mare._synchronized".forget(process)
end

return synchronizer
