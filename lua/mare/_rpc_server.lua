-- SPDX-License-Identifier: MIT
-- The side of mare.rpc that is called. A process that serves has a channel, its inbox, which others
-- find under the name "rpc:ID"; one routine receives, and gives each request to the handler.
--
--   to the inbox                                              to the caller's own channel
--   "call", id, reply|false, fname, caller, seconds|false,    id, true, results...
--           origin|false, chain, arguments...                 id, false, error, code, traceback
--   "packed", the same, but for the arguments in one table
--   "cancel", id, reply, caller
--   process, how      a caller has ended: p:monitor says so
--
--   request:  new --handler--> running --> answered       A request is answered once, or dropped
--              \________________|____> dropped            when its caller cancels it, or has ended.
--
-- No clock is shared: a request carries the seconds it has left, counted here from its arrival.
local mare, chains, who = require "mare", require "mare._chain", require "mare._who"
local checks, lead = require "mare._check", require "mare._lead"

local server = {
    limit = 10000,  -- requests that wait or run; more are refused
    exported = {},  -- name -> function or table, whoever asks
    dropped = nil,  -- called for requests that nobody wants any more
    linger = nil,   -- waits until requests without a routine are answered
    -- Requests that no handler sees: other processes use them to set up rules for this one.
    services = {
        ["synchronizer.join"] = function(request)
            require "mare._synchronized".join(request)
        end,
    },
}

local CAPACITY = 256 -- requests in the inbox; when it is full, callers wait
local PATIENCE = 10  -- seconds that an answer waits for room in the caller's channel

-- The functions that every process has. Others cannot call one unless it was exported by name.
local STANDARD = {}
for name in ([[_G _VERSION assert collectgarbage coroutine debug dofile error getmetatable io
               ipairs load loadfile luaproc mare math next os package pairs pcall print rawequal
               rawget rawlen rawset require select setmetatable string table tonumber tostring type
               utf8 warn xpcall]]):gmatch "%S+" do
    STANDARD[name] = true
end

local inbox          -- while this process serves
local count = 0      -- the number of open requests
local handling       -- the request that the handler was just given,
local handler_of     -- and the routine that it was given in
local inlet          -- the routine that receives: see _lead.lua
local callers = {}   -- by process: its open requests that want an answer, by their ids

-- ---- Answers ------------------------------------------------------------------------------------

-- Closes a request. False: it was closed before.
local function close(request)
    if not request.open then return false end
    request.open, count = false, count - 1
    local open = request.reply and callers[request.from]
    if open and open[request.id] == request then open[request.id] = nil end
    return true
end

-- Waits until there is room in the caller's channel. Until then it still counts as a request.
local function deliver(request, ...)
    request.reply:sendwithin(PATIENCE, request.id, ...)
    count = count - 1
end

-- An honest caller has room for its answers. But the way to another node may be full for a while.
-- Then a routine waits; there are never more of these than open requests.
local function reply(request, ...)
    local fine, sent, message, code = pcall(request.reply.trysend, request.reply, request.id, ...)
    if fine and code == "full" and count < 2 * server.limit then
        count = count + 1
        mare.go(deliver, request, ...)
    elseif fine and not sent and code ~= "closed" then
        return nil, message, code
    end
    return fine or nil, sent, "badmsg"
end

--- Answers with an error: `nil, message, code` is what the caller gets.
function server.refuse(request, message, code)
    checks.argument("refuse", request, 1, "table")
    request = request.whole or request -- of what a guard sees: see sc.lua
    if not close(request) then return end
    if request.reply then
        reply(request, false, message, code)
    else -- nobody waits for an answer: raise it here, so that it is printed
        mare.go(error, ("call of '%s' by %s: %s"):format(request.fname, request.from, message), 0)
    end
end

--- Answers with results, or with {error, traceback}.
function server.answer(request, fine, ...)
    if not close(request) then return end
    local sent, message, code
    if fine then
        sent, message, code = reply(request, true, ...)
        if not sent then reply(request, false, "the results: " .. message, code) end
    else
        local err, traceback = (...)[1], (...)[2]
        if not reply(request, false, err, "remote", traceback) then
            reply(request, false, server.text(err), "remote", traceback)
        end
    end
end

-- ---- What can be called -------------------------------------------------------------------------

local ours = setmetatable({}, {__mode = "k"}) -- function -> its language

local function callable(fname)
    local found = server.exported[fname]
    if found == nil and fname:find(".", 1, true) then
        found = server.exported
        for part in fname:gmatch "[^.]+" do
            found = type(found) == "table" and rawget(found, part) or nil
        end
    end
    if type(found) == "function" then return found end
    found = not STANDARD[fname] and rawget(_G, fname)
    if type(found) ~= "function" then return nil end
    if not ours[found] then ours[found] = debug.getinfo(found, "S").what end
    return ours[found] ~= "C" and found or nil
end

--- Text for an error value. Never raises an error itself: if the value cannot be shown, it says so.
function server.text(err)
    return type(err) == "string" and err or require "mare._show"(err)
end

-- The error, and its traceback without the frames of this module that called the function.
local function traced(err)
    local traceback = debug.traceback(server.text(err), 2)
    return {err, (traceback:gsub("\n\t%[C%]: in function 'xpcall'\n\tmare%._rpc_server:.*", ""))}
end

--- Calls the function and answers, in a routine, because the function may wait. At most once,
--- however often a handler calls this.
function server.run(request)
    checks.argument("run", request, 1, "table")
    if request.open ~= true then return end
    request.open = "runs"
    local f = callable(request.fname)
    if not f then
        return server.refuse(request, ("there is no function '%s' to be called"):format(
            request.fname), "denied")
    end
    chains.enter(request.chain)
    if request.reply then
        local args = request.args
        return server.answer(request, xpcall(f, traced, table.unpack(args, 1, args.n)))
    end
    close(request)
    f(table.unpack(request.args, 1, request.args.n))
end

local to_begin = 0 -- routines of requests that have not had their first turn

-- If this routine failed before the request is answered (a guard may have changed it), the caller
-- would wait for ever: so that is caught here.
local function later(request, f, ...)
    to_begin = to_begin - 1
    chains.enter(request.chain)
    if not request.reply then return f(...) end
    local fine, err = pcall(f, ...)
    if fine then return end
    server.refuse(request, "it could not be run: " .. server.text(err), "refused")
    error(err, 0)
end

--- Calls f in a routine of its own. No later request begins before that routine has had its first
--- turn.
function server.apart(request, f, ...)
    request.task = mare.go(later, request, f, ...)
    to_begin = to_begin + 1 -- not earlier: without memory there is no routine
end

--- Calls f, as pcall does. f may call server.begin for the request. `of` is the routine that leads
--- here.
function server.handle(of, request, f, ...)
    handling, handler_of = of.heir and request, of.leader
    local fine, err = pcall(f, ...)
    if handling == request then handling = nil end
    return fine, err
end

--- Calls f, which does the work of a request. f may wait, and make calls itself. Inside
--- server.handle, f runs in the leading routine: most do not wait, and if one does, the heir leads
--- in its place. Requests still begin in order. If nobody waits for the answer, an error of f is
--- printed, as in a routine of its own.
function server.begin(request, f, ...)
    if handling ~= request or not request.reply or to_begin > 0 then
        return server.apart(request, f, ...)
    end
    handling = nil
    local task = handler_of
    request.task = task
    f(...)
    if request.task == task then request.task = false end -- if it is blocked, others may run here
end

--- Calls f, as pcall does, in the way that server.begin would inside server.handle.
function server.proceed(of, request, f, ...)
    if not of.heir or not request.reply or to_begin > 0 then
        return pcall(server.apart, request, f, ...)
    end
    local task = of.leader
    request.task = task
    chains.enter(request.chain) -- not that of the request before
    local fine, err = pcall(f, ...)
    if request.task == task then request.task = false end
    return fine, err
end

-- Sets the handler. While a request waits, others run.
function server.handler(request)
    server.begin(request, server.run, request)
end

-- ---- The inbox ----------------------------------------------------------------------------------

-- Nobody wants the answer any more: a request that has not begun never will, and one that runs has
-- its wait cancelled.
local function drop(request)
    if not close(request) then return end
    if request.task then request.task:cancel() end
    if server.dropped then server.dropped(request) end
end

local function watch(request)
    if not callers[request.from] then
        callers[request.from] = {}
        request.from:monitor(inbox)
    end
    callers[request.from][request.id] = request
end

local function accept(id, to, fname, from, seconds, origin, chain, ...)
    if math.type(id) ~= "integer" or type(fname) ~= "string" or getmetatable(from) ~= "process"
        or to and getmetatable(to) ~= "channel" then
        return -- it did not come from mare.rpc: there is nobody to tell
    end
    local request = {
        id = id, reply = to or nil, fname = fname, from = from, args = table.pack(...), open = true,
        deadline = tonumber(seconds) and mare.deadline(seconds) or nil,
        chain = math.type(origin) and math.type(chain) and {origin, chain} or nil,
        task = false, -- room for it from the start
    }
    count = count + 1
    if to then watch(request) end
    chains.enter(request.chain) -- a handler asks guards, in the routine that had the one before
    if server.services[fname] then
        server.begin(request, server.services[fname], request)
    elseif count > server.limit then
        server.refuse(request, "too many requests are open", "refused")
    else
        local fine, err = server.handle(inlet, request, server.handler, request)
        if fine then return end
        server.refuse(request, "the handler failed: " .. server.text(err), "refused")
        error(err, 0)
    end
end

local function unpacked(id, to, fname, from, seconds, origin, chain, arguments)
    return id, to, fname, from, seconds, origin, chain, table.unpack(arguments, 1, arguments.n)
end

local function dispatch(kind, ...)
    if kind == "call" then
        accept(...)
    elseif kind == "packed" then
        accept(unpacked(...))
    elseif kind == "cancel" then
        local id, to, from = ...
        local open = from ~= nil and callers[from]
        local request = open and id ~= nil and open[id]
        if request and request.reply == to then drop(request) end
    elseif callers[kind] and not kind:alive() then -- anybody can send a process: check it
        local open = callers[kind]
        callers[kind] = nil
        for _, request in pairs(open) do drop(request) end
    end
end

-- Whether no request is open, and all that has come was handled.
local function ended()
    inbox = nil
    if server.linger then server.linger() end
end

--- Begins to answer requests. The process lives until rpc.stop, unless it is `detached`.
function server.serve(detached)
    if inbox then return true end
    inbox = assert(mare.channel(CAPACITY, who.inbox(mare.self())))
    local routine
    inlet, routine = lead.begin(inbox, dispatch, ended)
    if detached then routine:detach() end
    return true
end

--- The number of requests that were neither answered nor dropped.
function server.open()
    return count
end

--- Takes no more requests; those that have come are still answered.
function server.stop()
    return inbox ~= nil and inbox:close()
end

return server
