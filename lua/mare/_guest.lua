-- SPDX-License-Identifier: MIT
-- A guest of a node: a program, in any language, that calls exported functions by MessagePack-RPC.
-- Each call is a process of its own. A guest that has `calls` of them under way is not read from
-- until one is answered, and an answer is under way until the guest has taken it.
--
--     stream --> reader --> slot --> process: the function --+
--       ^                                                    |
--       +------------------ answers <------------------------+
local mare, raw = require "mare", require "mare._node"

local function call(guest, kind, id, method, ...)
    local f = guest.exported[method]
    if not kind then return nil, "parameters that cannot be read here" end
    if not f then return nil, ("no function '%s' is exported"):format(method) end
    local process, message = mare.spawn({memory = guest.memory}, f, ...)
    if not process then return nil, message end
    local function outcome(ok, ...)
        if ok and id then return raw._answer(id, ...) end
        local problem, code = ...
        if not ok and code == "timeout" then
            process:kill("it took too long")
            problem = ("it took more than %g seconds"):format(guest.seconds)
        end
        return nil, not ok and tostring(problem) or nil
    end
    return outcome(process:join(guest.seconds))
end

local function run(guest, kind, id, ...)
    local fine, bytes, message = pcall(call, guest, kind, id, ...)
    if not fine then bytes, message = nil, tostring(bytes) end
    if not id then
        if message then guest.log("guest %s: %s", guest.host, message) end
        return guest.slots:receive()
    end
    guest.answers:send(bytes or raw._failure(id, message))
end

local function write(guest)
    for bytes in guest.answers:messages() do
        local ok, message = guest.stream:writewithin(guest.seconds, bytes)
        if not ok then
            guest.stream:close()
            guest.log("guest %s: %s", guest.host, message)
            break
        end
        guest.slots:receive()
    end
    guest.answers:close()
    guest.slots:close()
end

-- Reads requests, until there are no more. Returns why.
local function read(guest)
    local reader = raw._reader()
    local function one(kind, ...)
        if kind == nil then return true end
        if kind == "error" then return nil, ... end
        if not guest.slots:send(true) then return nil, "it does not take its answers" end
        mare.go(run, guest, kind, ...):detach()
        return false
    end
    while true do
        local bytes, message, code = guest.stream:read()
        if not bytes then return code ~= "closed" and message or nil end
        reader:feed(bytes)
        local empty, reason
        repeat
            empty, reason = one(reader:next())
            if empty == nil then return reason end
        until empty
    end
end

--- Serves a guest, until it or this side ends the connection. `guest` has stream, host, exported
--- (functions by name), memory, log, calls and seconds.
return function(guest)
    guest.slots = mare.channel(guest.calls)
    guest.answers = mare.channel(guest.calls)
    local writer = mare.go(write, guest)
    local why = read(guest)
    if why then guest.log("guest %s: %s", guest.host, why) end
    -- What was asked for before the end is answered, if it is still there to take it.
    for _ = 1, why and 0 or guest.calls do
        if not guest.slots:sendwithin(guest.seconds, true) then break end
    end
    guest.answers:close()
    writer:join()
    guest.stream:close()
end
