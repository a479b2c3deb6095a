-- SPDX-License-Identifier: MIT
-- Calls functions of other processes, and waits for the result or gives it to a callback.
--
--     local mare, rpc = require "mare", require "mare.rpc"
--     local tide = mare.spawn(function()
--         local level = 0
--         function rise(by) level = level + by return level end   -- a global: others can call it
--         require "mare.rpc".serve()
--     end)
--     local rise = rpc.sync(tide, "rise", 5)           -- a function; each call may take 5 seconds
--     print(rise(2), rise(3))                          --> 2  5
--     rpc.async(tide, "rise", print)(4)                -- returns at once; prints 9 later
--     print(select(3, rpc.sync(tide, "os.exit")()))    --> denied
--
-- A request is sent once and run at most once. A call ends with the results, with an error of the
-- function ("remote"), with the end of the process ("noproc") or of its node ("nonode"), by its
-- deadline ("timeout") or because somebody cancelled it. How requests look: _rpc_server.lua.
local mare, check, chains = require "mare", require "mare._check", require "mare._chain"
local who, server = require "mare._who", require "mare._rpc_server"
local box_of = require "mare._rpc_box"

local rpc = {
    stop = server.stop, run = server.run, refuse = server.refuse, open = server.open,
}

--- How long a call waits for a process that lives but does not serve yet, in seconds.
rpc.patience = 10

local peers = setmetatable({}, {__mode = "k"}) -- process -> {process, inbox}
local spare = {}                               -- reply channels where nothing can arrive any more
local number = 0

-- ---- Where a request goes -----------------------------------------------------------------------

-- Looks a name up again if its process has ended: another process may have it now.
local function peer_of(dest)
    local process = dest
    if type(dest) == "string" then
        local message, code
        process, message, code = mare.find(dest)
        if not process then return nil, message, code end
        if getmetatable(process) ~= "process" then
            return nil, ("'%s' is a %s"):format(dest, getmetatable(process)), "noproc"
        end
    end
    local peer = peers[process] or {process = process}
    peers[process] = peer
    return peer
end

local function shorter(deadline, seconds)
    return deadline and deadline:left() < seconds and deadline or seconds
end

-- Functions below that wait have the local variables `callee` and `fname`, and `awaits` while the
-- request cannot be sent yet. src/sched/look.c reads them by name, to show what a process waits
-- for.

-- A new process may not serve yet: waits for its inbox. An inbox with its name may belong to
-- another process with the same number, in a later life of its node: then this process has ended. A
-- pause counts with its planned length: when the machine is suspended, so is the process that shall
-- serve.
local function wait_for_inbox(peer, fname, deadline) -- luacheck: ignore 212/fname
    local callee, awaits = peer.process, "serve" -- luacheck: ignore 211/awaits
    local pause, left = 0.001, rpc.patience
    while true do
        local before = mare.now()
        local inbox = mare.find(who.inbox(callee))
        peer.inbox = callee:alive() and inbox or nil
        if peer.inbox then return inbox end
        left = left - (mare.now() - before) -- on another node this may take long
        if left <= 0 then return nil, ("%s does not serve calls"):format(callee), "noproc" end
        pause = math.min(pause, left)
        local which, a, b, c = mare.select({callee}, shorter(deadline, pause))
        if which then return who.ended(callee, a, b, c) end
        if b ~= "timeout" then return nil, a, b end -- cancelled
        if deadline and deadline:left() == 0 then return nil, a, b end
        left = left - pause
        pause = math.min(2 * pause, 0.05)
    end
end

-- ---- One call -----------------------------------------------------------------------------------

-- The request as one message, to wait for room with. A select drops nils at the end of a message,
-- so the arguments are packed.
local function wait_for_room(call, inbox, seconds, chain, arguments)
    local callee, fname = call.peer.process, call.fname
    local awaits = "room" -- luacheck: ignore 211
    local which, a, b, c = mare.select({
        {inbox, "packed", call.id, call.reply or false, fname, mare.self(), seconds,
         chain[1], chain[2], arguments},
        callee}, call.deadline)
    if which == 1 and a then return true end
    if which == 1 then
        return nil, ("%s does not serve calls"):format(callee), c == "nonode" and c or "noproc"
    end
    if which == 2 then return who.ended(callee, a, b, c) end
    return nil, a, b
end

local NO_CHAIN = {false, false}

local function post(call, ...)
    local peer, message, code = peer_of(call.dest)
    if not peer then return nil, message, code end
    call.peer = peer
    local inbox = peer.inbox
    if not inbox or inbox:closed() then
        inbox, message, code = wait_for_inbox(peer, call.fname, call.deadline)
        if not inbox then return nil, message, code end
    end
    if call.cb then box_of.enter(call) end
    local chain = call.chain or NO_CHAIN
    local seconds = call.deadline and call.deadline:left() or false
    if inbox:trysend("call", call.id, call.reply or false, call.fname, mare.self(), seconds,
                     chain[1], chain[2], ...) then
        return true
    end
    return wait_for_room(call, inbox, seconds, chain, table.pack(...))
end

local function begin(dest, fname, timeout, wanted, chain)
    number = number + 1
    local deadline = type(timeout) == "number" and mare.deadline(timeout) or timeout
    return { -- with room for all fields that it will get
        dest = dest, fname = fname, id = number, deadline = deadline, chain = chain, peer = false,
        reply = wanted and (table.remove(spare) or mare.channel(1)) or nil, cb = nil, box = nil,
    }
end

local outcome

-- An answer of the callee. The reply channel is used again only if nothing more can arrive at it.
local function received(call, id, fine, ...)
    if id ~= call.id then -- the answer to an older call, or no answer at all
        if not call.reply:closed() then return outcome(call) end
        return nil, ("%s closed the channel for the answer"):format(call.peer.process), "badmsg"
    end
    spare[#spare + 1] = call.reply
    if fine then return ... end
    return nil, ...
end

-- The select has ended: with an answer, by the end of the callee, or because the caller stops
-- waiting.
local function settled(call, which, ...)
    if which == 1 then return received(call, ...) end
    if which == 2 then
        if #call.reply > 0 then return received(call, call.reply:tryreceive()) end
        return who.ended(call.peer.process, ...)
    end
    box_of.withdraw(call)
    return nil, ...
end

function outcome(call)
    local callee, fname = call.peer.process, call.fname -- luacheck: ignore 211/fname
    return settled(call, mare.select({call.reply, callee}, call.deadline))
end

-- ---- Functions ----------------------------------------------------------------------------------

-- The level is that of `error`: 3 blames the caller of the function that calls this.
local function check_call(name, dest, fname, timeout, index, level)
    if type(dest) ~= "string" and getmetatable(dest) ~= "process" then
        error(("bad argument #1 to '%s' (process or name expected, got %s)"):format(name,
            dest == nil and "no value" or type(dest)), level)
    end
    check.argument(name, fname, 2, "string", level + 1)
    check.deadline(name, timeout, index, level + 1)
end

-- A call that this routine waits for.
local function call_and_wait(dest, fname, timeout, chain, ...)
    local call = begin(dest, fname, timeout, true, chain)
    local sent, message, code = post(call, ...)
    if not sent then return nil, message, code end
    return outcome(call)
end

--- A function that calls `fname` in the process, waits, and returns the results.
function rpc.sync(dest, fname, timeout)
    check_call("sync", dest, fname, timeout, 3, 3)
    return function(...)
        return call_and_wait(dest, fname, timeout, chains.here(), ...)
    end
end

local methods = {}
local call_type = {__index = methods, __name = "call"}

--- Ends a call that waits for its answer: its callback gets `nil, message, "cancelled"`.
methods.cancel = box_of.cancel

--- A function that sends a request and returns at once. `cb` runs later, with the results.
function rpc.async(dest, fname, cb, timeout)
    check_call("async", dest, fname, timeout, 4, 3)
    if cb ~= nil then check.argument("async", cb, 3, "function") end
    return function(...)
        local call = setmetatable(begin(dest, fname, timeout), call_type)
        call.cb = cb
        if not cb then return post(call, ...) end
        local fine, sent, message, code = pcall(post, call, ...)
        if not fine then -- an argument cannot travel
            box_of.forget(call)
            error(sent, 0)
        end
        if not sent then box_of.fail(call, nil, message, code) end
        return call
    end
end

local function check_list(name, dests, fname, cb, timeout)
    check.argument(name, dests, 1, "table", 4)
    for _, dest in ipairs(dests) do check_call(name, dest, fname, timeout, 4, 4) end
    if cb ~= nil then check.argument(name, cb, 3, "function", 4) end
end

--- A function that calls all of them; `cb(dest, ...)` runs for each, as it answers.
function rpc.each(dests, fname, cb, timeout)
    check_list("each", dests, fname, cb, timeout)
    return function(...)
        local calls = {}
        for i, dest in ipairs(dests) do
            calls[i] = rpc.async(dest, fname, cb and function(...) cb(dest, ...) end, timeout)(...)
        end
        return calls
    end
end

local function gather(dests, fname, timeout, arguments)
    local routines, results, deadline = {}, {}, timeout
    if type(timeout) == "number" then deadline = mare.deadline(timeout) end
    for i, dest in ipairs(dests) do
        routines[i] = mare.go(call_and_wait, dest, fname, deadline, nil,
            table.unpack(arguments, 1, arguments.n))
    end
    for i, routine in ipairs(routines) do
        local got = table.pack(routine:join())
        while not got[1] and got[3] == "cancelled" do -- this routine was cancelled: end all
            for _, other in ipairs(routines) do other:cancel() end
            got = table.pack(routine:join())
        end
        results[i] = got[1] and table.pack(table.unpack(got, 2, got.n)) or got
    end
    return results
end

--- A function that calls all of them, and when each has answered or failed gives `cb` a list of
--- the packed results; without `cb` it waits and returns that list.
function rpc.all(dests, fname, cb, timeout)
    check_list("all", dests, fname, cb, timeout)
    return function(...)
        local arguments = table.pack(...)
        if not cb then return gather(dests, fname, timeout, arguments) end
        mare.go(function() cb(gather(dests, fname, timeout, arguments)) end)
    end
end

-- ---- The side that is called --------------------------------------------------------------------

--- Begins to answer requests, in a routine of its own: the process lives until `rpc.stop`.
function rpc.serve()
    return server.serve()
end

--- Lets others call a function under a name, or those of a table as `name.field`; nil ends it.
function rpc.export(name, what)
    check.argument("export", name, 1, "string")
    if what ~= nil and type(what) ~= "table" then check.argument("export", what, 2, "function") end
    if name:find "%." then error("bad argument #1 to 'export' (a name has no dots)", 2) end
    server.exported[name] = what
end

--- What is done with each request: `handler(request)`, which must not wait. Returns the one before.
function rpc.handler(handler)
    local before = server.handler
    if handler ~= nil then
        check.argument("handler", handler, 1, "function")
        server.handler = handler
    end
    return before
end

--- How many requests may be open: `rpc.limit(n)` sets, both forms return it.
function rpc.limit(n)
    if n ~= nil then
        check.argument("limit", n, 1, "number")
        server.limit = n
    end
    return server.limit
end

return rpc
