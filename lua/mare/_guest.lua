-- SPDX-License-Identifier: MIT
-- A guest of a node: a program in any language that calls exported functions by MessagePack-RPC.
-- Each call runs as a process. When a guest has `calls` of them in progress, the node reads nothing
-- more from it until one is finished. A call is finished when the guest has taken the answer.
--
--     stream --> reader --> slot --> process: the function --+
--       ^                                                    |
--       +------------------ answers <------------------------+
local mare, raw, show = require "mare", require "mare._node", require "mare._show"

-- An error value as text for a guest, without any memory address.
local function words(problem)
    return type(problem) == "string" and problem or show(problem, nil, true)
end

-- The same for an error of this module, without the line number.
local function without_line(problem)
    return (words(problem):gsub("^[^\n]-:%d+: ", "", 1))
end

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
        return nil, not ok and words(problem) or nil
    end
    return outcome(process:join(guest.seconds))
end

local function run_one(guest, kind, id, ...)
    local fine, bytes, message = pcall(call, guest, kind, id, ...)
    if not fine then bytes, message = nil, without_line(bytes) end
    if not id then
        if message then guest.log("guest %s: %s", guest.host, message) end
        return guest.slots:receive()
    end
    guest.answers:send(bytes or raw._failure(id, message))
end

local function run(guest, ...)
    if not pcall(run_one, guest, ...) then guest.stream:close() end -- there is no memory
end

-- Writes answers. However this ends, it closes the connection, so that nobody waits for it.
local function write(guest)
    local stream <close> = guest.stream
    local slots <close> = guest.slots
    local answers <close> = guest.answers
    for bytes in answers:messages() do
        local ok, message = stream:writewithin(guest.seconds, bytes)
        if not ok then
            stream:close()
            guest.log("guest %s: %s", guest.host, message)
            break
        end
        slots:receive()
    end
end

-- Reads requests until there are no more. Returns the reason.
local function read(guest)
    local reader = raw._reader()
    local function one(kind, ...)
        if kind == nil then return true end
        if kind == "error" then return nil, ... end
        if not guest.slots:send(true) then return nil, "it does not take its answers" end
        mare.go(run, guest, kind, ...):detach()
        return false
    end
    local deadline -- for the rest of a message that has begun
    while true do
        local bytes, message, code = guest.stream:read(nil, deadline)
        if code == "timeout" then return "half a message, and no more of it" end
        if not bytes then return code ~= "closed" and message or nil end
        reader:feed(bytes)
        local empty, reason
        repeat
            empty, reason = one(reader:next())
            if empty == nil then return reason end
            if not empty then deadline = nil end
        until empty
        if not reader:begun() then deadline = nil
        else deadline = deadline or mare.deadline(guest.seconds) end
    end
end

local function serve(guest)
    local _ <close> = guest.stream
    local slots <close> = mare.channel(guest.calls)
    local answers <close> = mare.channel(guest.calls) -- both the reader and the writer use this
    guest.slots, guest.answers = slots, answers
    local writer = mare.go(write, guest)
    local why = read(guest)
    if why then guest.log("guest %s: %s", guest.host, why) end
    -- Requests that came before the end are answered, if the guest still reads.
    for _ = 1, why and 0 or guest.calls do
        if not slots:sendwithin(guest.seconds, true) then break end
    end
    answers:close()
    writer:join()
end

--- Serves a guest, until it or this side ends the connection. `guest` has stream, host, exported
--- (functions by name), memory, log, calls and seconds. Whatever happens, the stream is closed.
return function(guest)
    local fine, problem = pcall(serve, guest)
    if not fine then guest.log("guest %s: %s", guest.host, without_line(problem)) end
end
