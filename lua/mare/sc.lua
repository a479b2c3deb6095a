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
-- The algorithm knows nothing of the policy. This is a handler of mare.rpc:
--
--   request --> guards --true--> synchronizers --yes--> guards again --true--> runs
--                 |false              |no                   |false              |
--                 +------> blocked <--+---------------------+       the blocked are looked at again
local mare, check, rpc = require "mare", require "mare._check", require "mare.rpc"

local sc = {
    parked = 0, -- requests that wait at a synchronizer, which keeps them: see _synchronized.lua
}

local guards = {}    -- fname -> list of guards
local blocked = {}   -- requests that may not run now, oldest first
local arrived, reloads = 0, 0
local line, worker   -- requests that wait for their turn, if they are taken one at a time
local remote         -- what asks the synchronizers: see _synchronized.lua

-- ---- May it run? --------------------------------------------------------------------------------

local NONE = {}

-- True, false, or nil if a guard failed; then the request was refused.
local function allowed(request)
    for _, guard in ipairs(guards[request.fname] or NONE) do
        local fine, result = pcall(guard, request)
        if not fine then
            rpc.refuse(request, "a guard failed: " .. tostring(result), "refused")
            return nil
        end
        if not result then return false end
    end
    return true
end

-- By their age, so that one that is often refused does not fall behind.
local function block(request)
    local place = #blocked + 1
    while place > 1 and blocked[place - 1].arrived > request.arrived do place = place - 1 end
    table.insert(blocked, place, request)
end

local function unblock(request)
    for i, other in ipairs(blocked) do
        if other == request then return table.remove(blocked, i) end
    end
end

local start

--- Puts the blocked requests back in line: what their guards look at may have changed.
function sc.reload()
    local list = blocked
    reloads = reloads + 1
    if not list[1] then return end
    blocked = {}
    for _, request in ipairs(list) do
        if request.open then start(request) end
    end
end

local reloading = setmetatable({}, {__close = function() sc.reload() end})

-- ---- One request --------------------------------------------------------------------------------

-- From the guards to the call nothing waits, so what they saw is still true when it begins.
local function process(request)
    local may, before = request.open and allowed(request), reloads
    if may and remote then
        local commit, tx
        may, commit, tx = remote(request, not line)
        -- Others ran while the synchronizers were asked.
        if may and commit then may = commit(tx, request.open and allowed(request)) end
    end
    if may then
        local _ <close> = reloading -- however it ends
        rpc.run(request)
    elseif may == false and request.open and reloads == before then
        block(request)
    elseif may == false and request.open then
        start(request) -- what refused it may have changed before it was known
    end
end

local function serve_line()
    while line and line[1] do
        line[1].task = worker
        local fine, err = pcall(process, line[1])
        if not fine then mare.go(error, err, 0) end
        if line then table.remove(line, 1) end
    end
end

function start(request)
    if not line then
        request.task = mare.go(process, request)
    else
        line[#line + 1] = request
        if #line == 1 then worker = mare.go(serve_line) end
    end
end

local function handler(request)
    arrived = arrived + 1
    request.arrived, request.dropped = arrived, unblock
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
end

--- Takes requests one at a time (true), or lets others go on while one waits for its synchronizers
--- (false, as from the start).
function sc.serial(yes)
    if yes and not line then
        line = {}
    elseif not yes and line then
        local rest = table.move(line, 2, #line, 1, {})
        line = nil
        for _, request in ipairs(rest) do start(request) end
    end
    sc.install()
end

--- How many requests are blocked.
function sc.blocked()
    return #blocked + sc.parked
end

--- For mare._synchronized: what is asked after the guards. `ask(request, wait)` returns true, false
--- (unless it is to wait) or nil, if it has refused it; after true, a function that is told, after
--- the third result, whether the guards still let it run.
function sc.ask_first(ask)
    remote = ask
    sc.install()
end

return sc
