-- SPDX-License-Identifier: MIT
-- Synchronization constraints: a request runs only when its guard says so; until then it waits.
--
--     local sc, rpc = require "mare.sc", require "mare.rpc"
--     local items = {}
--     function put(x) items[#items + 1] = x end
--     function get() return table.remove(items, 1) end
--     sc.add_constraint("put", function(request) return #items < 10 end)
--     sc.add_constraint("get", function(request) return #items > 0 end)
--     rpc.serve()                       -- callers of get wait until there is something
--
-- The algorithm is separate from the rules. It is a handler of mare.rpc:
--
--   request --> guards --true--> synchronizers --yes--> guards again --true--> runs
--                 |false              |no                   |false              |
--                 +------> blocked <--+---------------------+       the blocked are looked at again
local mare, check, rpc = require "mare", require "mare._check", require "mare.rpc"
local server = require "mare._rpc_server"

local sc = {
    parked = 0, -- requests that wait at a synchronizer, which keeps them: see _synchronized.lua
}

local guards = {}    -- fname -> list of guards
local blocked = {}   -- requests that may not run now, oldest first
local arrived, reloads = 0, 0
local line           -- with sc.serial(true): requests that wait for their turn
local turns = setmetatable({}, {__mode = "k"}) -- request -> its line, while it has its turn
local remote         -- asks the synchronizers: see _synchronized.lua

-- ---- May it run? --------------------------------------------------------------------------------

-- Asks the guards: true, false, or nil if one failed; then the request was refused. Guards get a
-- copy of the request. If they change the copy, the request stays as it was; only its arguments are
-- shared.
local function allowed(request)
    local list = guards[request.fname]
    if not list then return true end
    local seen = request.seen
    if not seen then
        seen = {fname = request.fname, args = request.args, from = request.from, whole = request}
        request.seen = seen
    end
    for i = 1, #list do
        local fine, result = pcall(list[i], seen)
        if not fine then
            rpc.refuse(request, "a guard failed: " .. server.text(result), "refused")
            return nil
        end
        if not result then return false end
    end
    return true
end

-- Adds a blocked request by its age, so that a request that is often refused keeps its place.
local function block(request)
    local place = #blocked + 1
    while place > 1 and blocked[place - 1].arrived > request.arrived do place = place - 1 end
    table.insert(blocked, place, request)
end

-- Nobody wants the answer any more, and the request has not begun: drops it.
local function drop(request)
    if remote then remote.drop(request) end
    for i, other in ipairs(blocked) do
        if other == request then return table.remove(blocked, i) end
    end
end

-- Refuses a request: there is no memory, or a guard has put something into it that cannot be sent.
local function refuse(request, err)
    rpc.refuse(request, "it could not be run: " .. server.text(err), "refused")
end

local start

--- Puts the blocked requests back in line: what their guards look at may have changed.
function sc.reload()
    local list = blocked
    reloads = reloads + 1
    if not list[1] then return end
    blocked = {}
    for _, request in ipairs(list) do
        local fine, err = pcall(start, request)
        if not fine then refuse(request, err) end
    end
end

-- ---- One request --------------------------------------------------------------------------------

--- With one request at a time: gives the next one its turn. Called when a request's routine ends,
--- or it is given up.
function sc.over(request)
    local own = turns[request]
    turns[request] = nil
    if own then own.over:trysend(true) end
end

local turn_type = {__close = function(turn) sc.over(turn.request) end}
local reloading = setmetatable({}, {__close = sc.reload})

-- Runs a request that may run; when it ends, in whatever way, the blocked ones are looked at again.
-- Blocks one that may not; unless there was a reload since `before`: then the rules are asked
-- again.
local function go_on(request, may, before)
    if may then
        local _ <close> = reloading
        server.run(request)
    elseif may == false and request.open and before == reloads then
        block(request)
    elseif may == false and request.open then
        start(request)
    end
end

--- Does the rest, once it is known whether the request may run; nil: it was refused. In a routine
--- of its own, or one with an heir. `before`: the number of reloads when the rules were asked.
--- Nothing waits between the guards and the call, so what the guards saw is still true when the
--- call begins.
function sc.finish(request, may, before)
    local _ <close> = turns[request] and setmetatable({request = request}, turn_type) or nil
    go_on(request, may, before)
end

--- The same after the synchronizers have said yes. Others ran meanwhile, so the guards are asked
--- again.
function sc.conclude(request, tx)
    local _ <close> = turns[request] and setmetatable({request = request}, turn_type) or nil
    local before = reloads
    local may = request.open and (not guards[request.fname] or allowed(request))
    go_on(request, remote.conclude(tx, may), before)
end

-- Asks the guards, and then the synchronizers, which answer later. `own`: in a routine of its own.
local function consider(request, own)
    local before = reloads
    local may = request.open and (not guards[request.fname] or allowed(request))
    if may and remote and remote.rules[request.fname] then
        if remote.ask(request, not line, reloads) then return end
        may = nil
    end
    if own then return sc.finish(request, may, before) end
    server.begin(request, sc.finish, request, may, before)
end

local function serve_line(own)
    while line == own and own[1] do
        turns[own[1]], own.begun = own, true
        local fine, err = pcall(consider, own[1])
        if fine then own.over:receive() else refuse(own[1], err) end
        own.begun = false
        table.remove(own, 1)
    end
end

-- Begins a request. A guard should not wait, but it may: then another routine takes over. Where
-- there is none, this does not wait.
function start(request)
    if line then
        if not line[1] then mare.go(serve_line, line) end -- first: there may be no memory for it
        line[#line + 1] = request
    elseif guards[request.fname] then
        server.begin(request, consider, request, true)
    else
        consider(request)
    end
end

local function handler(request)
    arrived = arrived + 1
    request.arrived = arrived
    start(request)
end

-- ---- Rules --------------------------------------------------------------------------------------

--- Requests for `fname` run only when `guard(request)` is true, besides all other guards.
function sc.add_constraint(fname, guard)
    check.argument("add_constraint", fname, 1, "string")
    check.argument("add_constraint", guard, 2, "function")
    guards[fname] = guards[fname] or {}
    table.insert(guards[fname], guard)
    sc.install()
end

--- Makes this the handler of requests.
function sc.install()
    if rpc.handler() ~= handler then rpc.handler(handler) end
    server.dropped = drop
end

--- Takes requests one at a time (true); or lets others go on while one waits for its synchronizers
--- (false, the default).
function sc.serial(yes)
    if yes and not line then
        line = {over = mare.channel(1)}
    elseif not yes and line then
        -- The first one is being served already, unless its routine has not run yet.
        local rest = table.move(line, line.begun and 2 or 1, #line, 1, {})
        line = nil
        for _, request in ipairs(rest) do start(request) end
    end
    sc.install()
end

--- How many requests are blocked.
function sc.blocked()
    return #blocked + sc.parked
end

--- For mare._synchronized. `asker` has these fields:
---   rules                        a table with the names of functions that need somebody's consent
---   ask(request, park, reloads)  returns whether it asks. If so, it later calls sc.conclude or
---                                sc.finish
---   drop(request)                nobody wants the request any more
---   conclude(tx, runs)           `runs`: the guards still let it run. Returns whether it runs
function sc.ask_first(asker)
    remote = asker
    sc.install()
end

return sc
