-- SPDX-License-Identifier: MIT
-- The event scheduler of a process, under the names of the model it comes from: an observer that
-- knows sources by identifier and waits for changes; a pool that makes handler objects and keeps
-- those that are ready in line; a scheduler that runs each in a coroutine of its own. Routines and
-- channels do the waiting underneath, so that a handler may wait anywhere.
--
--     source -- event --> pump (a routine) --> line of ready objects --> step: a routine each
--
-- A program that registers sources and never steps gets a loop for free.
local mare = require "mare"

local scheduler = {}

-- ---- The observer: sources ----------------------------------------------------------------------

local sources, last_id, count = {}, 0, 0   -- by identifier
local polled = {}                          -- identifiers of those that are polled in turn
local poll_from = 1                        -- so that none has precedence
local changed = mare.channel(1)            -- something is ready, or a source has come or gone

--- How long all polled sources together may hold back the process, in seconds.
scheduler.poll_time = 0.01

local ready, first, last = {}, 1, 0        -- the line: objects
local objects = {}                         -- by identifier, while they wait or run
local running = 0                          -- handlers that have begun and not ended
local stopped, driven = false, false

local function make_ready(object)
    last = last + 1
    ready[last] = object
    changed:trysend(true)
end

local function forget(id)
    local source = sources[id]
    if not source then return false end
    sources[id] = nil
    count = count - 1
    for i, polled_id in ipairs(polled) do
        if polled_id == id then
            table.remove(polled, i)
            break
        end
    end
    changed:trysend(true)
    return true
end

-- ---- The pool: objects --------------------------------------------------------------------------

--- A handler object: a method, its parameters, an identifier. It runs when it is made ready.
function scheduler.create_object(method, ...)
    if type(method) ~= "function" then
        error(("bad argument #1 to 'create_object' (function expected, got %s)"):format(
            type(method)), 2)
    end
    last_id = last_id + 1
    local object = {id = last_id, method = method, parameters = table.pack(...)}
    objects[last_id] = object
    return object
end

--- The handler object of an identifier, while it waits to run or runs; or nil.
function scheduler.find_object(id) return objects[id] end

local function event(id, ...)
    local source = sources[id]
    if source then
        local object = scheduler.create_object(source.handler, ...)
        object.source = id
        make_ready(object)
    end
end

-- One turn of the polled sources: each gets its part of the time.
local function poll_all(time)
    local n = #polled
    for i = 0, n - 1 do
        local id = polled[(poll_from + i - 1) % n + 1]
        local source = id and sources[id]
        if source then
            local got = table.pack(source.source:poll(time / n))
            if got[1] ~= nil then event(id, table.unpack(got, 1, got.n)) end
        end
    end
    poll_from = n > 0 and poll_from % n + 1 or 1
end

--- The observer's part: waits until something is ready or the seconds have passed, and returns how
--- many handlers are.
function scheduler.wait_for_events(seconds)
    local deadline = seconds and mare.deadline(seconds)
    while first > last and not stopped do
        if #polled > 0 then
            poll_all(scheduler.poll_time)
            if first <= last then break end
            if deadline and deadline:left() == 0 then break end
            mare.yield() -- the others have their turn
            changed:tryreceive()
        else
            if count == 0 and running == 0 and not seconds then break end
            if not changed:receive(deadline) then break end
        end
    end
    return last - first + 1
end

--- The first ready object; when none is ready the observer is asked, for so many seconds at the
--- most. nil: none.
function scheduler.get_ready_object(seconds)
    if first > last then scheduler.wait_for_events(seconds) end
    if first > last then return nil end
    local object = ready[first]
    ready[first] = nil
    first = first + 1
    return object
end

-- ---- The scheduler ------------------------------------------------------------------------------

-- Signals that a handler may hand back when it yields: new sources, what comes after, a timer.
local function obey(object, signals)
    if type(signals) ~= "table" then return end
    for _, new in ipairs(signals.sources or {}) do scheduler.register_source(new[1], new[2]) end
    if signals.finally then object.finally = signals.finally end
    if signals.timer then mare.sleep(signals.timer) else mare.yield() end
end

-- Runs an object in its coroutine, the execution token, which waits and yields as it likes.
local function run(object)
    local parameters = object.parameters
    running = running + 1
    local _ <close> = setmetatable({}, {__close = function()
        objects[object.id] = nil
        running = running - 1
        changed:trysend(true)
    end})
    local co = coroutine.create(object.method)
    local got = table.pack(coroutine.resume(co, table.unpack(parameters, 1, parameters.n)))
    while got[1] and coroutine.status(co) ~= "dead" do
        obey(object, got[2])
        got = table.pack(coroutine.resume(co))
    end
    if not got[1] then
        local _, err = coroutine.close(co)
        error(err or got[2], 0)
    end
    if object.finally then object.finally(table.unpack(got, 2, got.n)) end
end

local function start(object) return mare.go(run, object) end

--- Handles at most one event, waiting for it for so many seconds at the most. Returns whether there
--- was one.
function scheduler.step(seconds)
    driven = true
    local object = scheduler.get_ready_object(seconds)
    if not object then return false end
    start(object)
    mare.yield() -- it has run until it waits for the first time
    return true
end

--- Handles events until stop is called, or no source is left and every handler has ended.
function scheduler.loop()
    stopped, driven = false, true
    while not stopped and (count > 0 or first <= last or running > 0) do scheduler.step() end
end

--- Ends the loop, from a handler too; what runs goes on.
function scheduler.stop()
    stopped = true
    changed:trysend(true)
end

-- The loop for free, until the program drives its own.
local free
local function run_free()
    while not driven and (count > 0 or first <= last) do
        local object = scheduler.get_ready_object()
        if object and driven then
            first = first - 1
            ready[first] = object
        elseif object then
            start(object)
        end
    end
    free = nil
    changed:trysend(true) -- what it has taken note of is for who drives the loop now
end

local function pump_channel(id, channel)
    for message in function()
        local got = table.pack(channel:receive())
        if got[1] == nil and got[3] == "closed" then return nil end
        return got
    end do
        if not sources[id] then return end
        event(id, table.unpack(message, 1, message.n))
    end
    forget(id)
end

local function pump_waits(id, source, wait)
    while sources[id] do
        local got = table.pack(wait(source))
        if got[1] == nil then break end
        event(id, table.unpack(got, 1, got.n))
    end
    forget(id)
end

-- A datagram too long, or refused by a peer, is not the end of a socket.
local function receive(socket)
    local got
    repeat got = table.pack(socket:receive()) until got[3] ~= "toobig" and got[3] ~= "refused"
    return table.unpack(got, 1, got.n)
end

-- In a process with a thread of its own: it may block.
local function block(wait, out)
    while true do
        local got = table.pack(wait())
        if got[1] == nil or not out:send(table.unpack(got, 1, got.n)) then break end
    end
    out:close()
end

-- What a source does, by its kind.
local function begin(id, source)
    local kind = io.type(source) or type(source)
    local name = kind == "userdata" and tostring(source):match "^%a+" or kind
    if name == "channel" then
        return mare.go(pump_channel, id, source)
    elseif name == "listener" then
        return mare.go(pump_waits, id, source, source.accept)
    elseif name == "timer" then
        return mare.go(pump_waits, id, source, source.wait)
    elseif name == "stream" then
        return mare.go(pump_waits, id, source, source.read)
    elseif name == "socket" then
        return mare.go(pump_waits, id, source, receive)
    elseif kind == "table" and source.poll then
        polled[#polled + 1] = id
    elseif kind == "table" and source.wait then
        local out = mare.channel()
        sources[id].process = mare.spawn({thread = true, link = false}, block, source.wait, out)
        return mare.go(pump_channel, id, out)
    elseif kind == "table" and source.start then
        source:start(function(...) event(id, ...) end)
    else
        error("bad argument #1 to 'register_source' (expected a channel, timer, stream, listener, "
            .. "socket or a table with start, poll or wait)", 3)
    end
end

--- Calls the handler, in a coroutine of its own, for each event of the source; returns the source's
--- identifier. A source is a channel (its messages), a timer, a stream (what it reads), a listener
--- (its connections), a socket (its datagrams), or a table: asynchronous, with `start(self,
--- notify)`, which keeps `notify` and calls it with each event; synchronous with a time limit, with
--- `poll(self, seconds)`, which returns an event or nil; synchronous without one, with `wait()`,
--- which returns an event, or nil at the end, and runs in a thread of its own, in another Lua
--- state: it is copied there.
function scheduler.register_source(source, handler)
    if type(handler) ~= "function" then
        error(("bad argument #2 to 'register_source' (function expected, got %s)"):format(
            type(handler)), 2)
    end
    last_id = last_id + 1
    local id = last_id
    sources[id] = {source = source, handler = handler}
    count = count + 1
    local ok, pump = pcall(begin, id, source)
    if not ok then
        forget(id)
        error(pump, 0)
    end
    if sources[id] then sources[id].pump = pump end
    if not driven and not free then free = mare.go(run_free) end
    changed:trysend(true)
    return id
end

--- Forgets a source; its own handler may do so. Events that are ready are still handled. Returns
--- whether there was one.
function scheduler.remove_source(id)
    local source = sources[id]
    if not forget(id) then return false end
    if source.pump then source.pump:cancel() end
    if source.process then source.process:kill() end
    if type(source.source) == "table" and source.source.stop then source.source:stop() end
    return true
end

return scheduler
