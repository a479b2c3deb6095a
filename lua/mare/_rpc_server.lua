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

local server = {
    limit = 10000,  -- requests that wait or run; more are refused
    exported = {},  -- name -> function or table, whoever asks
    -- Requests that no handler sees: of other processes that set up rules for this one.
    services = {
        ["synchronizer.join"] = function(request)
            require "mare._synchronized".join(request)
        end,
    },
}

local CAPACITY = 256 -- requests in the inbox; whoever calls when it is full waits
local PATIENCE = 10  -- seconds that an answer waits for room in the caller's channel

-- What a process has from the start. Nobody else may call it, unless it was exported by name.
local STANDARD = {}
for name in ([[_G _VERSION assert collectgarbage coroutine debug dofile error getmetatable io
               ipairs load loadfile luaproc mare math next os package pairs pcall print rawequal
               rawget rawlen rawset require select setmetatable string table tonumber tostring type
               utf8 warn xpcall]]):gmatch "%S+" do
    STANDARD[name] = true
end

local inbox          -- while this process serves
local count = 0      -- open requests
local callers = {}   -- process -> its open requests that want an answer, by their ids

-- ---- Answers ------------------------------------------------------------------------------------

-- The request is over, one way or the other. False if it was before.
local function close(request)
    if not request.open then return false end
    request.open, count = false, count - 1
    local open = request.reply and callers[request.from]
    if open and open[request.id] == request then open[request.id] = nil end
    return true
end

-- Waits until there is room in the caller's channel. It counts as a request meanwhile.
local function deliver(request, ...)
    request.reply:sendwithin(PATIENCE, request.id, ...)
    count = count - 1
end

-- An honest caller has room for its answers. But the way to another node may be full for a while;
-- a routine waits for it, and there are never more of them than there may be requests.
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
    if not close(request) then return end
    if request.reply then
        reply(request, false, message, code)
    else -- nobody waits for it: the error is the routine's, which is printed
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
            reply(request, false, tostring(err), "remote", traceback)
        end
    end
end

-- ---- What can be called -------------------------------------------------------------------------

local ours = setmetatable({}, {__mode = "k"}) -- function -> what it is written in

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

local function traced(err)
    return {err, debug.traceback(tostring(err), 2)}
end

--- Calls the function and answers. In a routine: the function may wait.
function server.run(request)
    if not request.open then return end
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

-- Every request runs in a routine of its own, so that it may wait, and make calls itself.
function server.handler(request)
    request.task = mare.go(server.run, request)
end

-- ---- The inbox ----------------------------------------------------------------------------------

-- Nobody wants the answer any more: what has not begun never will, and what runs waits no longer.
local function drop(request)
    if not close(request) then return end
    if request.task then request.task:cancel() end
    if request.dropped then request.dropped(request) end
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
        return -- not from mare.rpc: there is nobody to tell
    end
    local request = {
        id = id, reply = to or nil, fname = fname, from = from, args = table.pack(...), open = true,
        deadline = tonumber(seconds) and mare.deadline(seconds) or nil,
        chain = origin and {origin, chain} or nil,
    }
    count = count + 1
    if to then watch(request) end
    if server.services[fname] then
        request.task = mare.go(server.services[fname], request)
    elseif count > server.limit then
        server.refuse(request, "too many requests are open", "refused")
    else
        server.handler(request)
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
    elseif callers[kind] then -- has ended
        local open = callers[kind]
        callers[kind] = nil
        for _, request in pairs(open) do drop(request) end
    end
    return kind ~= nil or not inbox:closed()
end

-- Neither a malformed message nor a handler that fails ends the service; the error is printed.
local function guarded(fine, result)
    if fine then return result end
    mare.go(error, result, 0)
    return true
end

local function loop(box)
    local _ <close> = box -- however this process ends, nobody finds it any more
    repeat until not guarded(pcall(dispatch, box:receive()))
    inbox = nil
end

--- Begins to answer requests. The process lives until rpc.stop, unless it is `detached`.
function server.serve(detached)
    if inbox then return true end
    inbox = assert(mare.channel(CAPACITY, who.inbox(mare.self())))
    local routine = mare.go(loop, inbox)
    if detached then routine:detach() end
    return true
end

--- How many requests have neither been answered nor dropped.
function server.open()
    return count
end

--- Takes no more requests; those that have come are still answered.
function server.stop()
    return inbox ~= nil and inbox:close()
end

return server
