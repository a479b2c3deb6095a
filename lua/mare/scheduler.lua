-- SPDX-License-Identifier: MIT
-- The event scheduler of a process, under the names of the model it comes from: an observer that
-- knows sources by identifier and waits for changes (`mare.observer`); a pool that makes handler
-- objects and keeps those that are ready in line; a scheduler that runs each in a coroutine of its
-- own. Routines and channels do the waiting underneath, so that a handler may wait anywhere.
--
--     source --event--> observer --> line of ready objects --> step: a routine each
--                         ^----- the next event may come -----------+
--
-- At most one event of a source is in this line; further events wait in the source. If a program
-- never asks for what is ready (step, loop, wait_for_events, get_ready_object), a loop runs by
-- itself.
local mare, checks = require "mare", require "mare._check"
local check = checks.argument
local observer = require "mare.observer"

local scheduler = {}

local last_id = 0
local objects = setmetatable({}, {__mode = "v"}) -- by identifier, while something refers to them
local ready, first, last = {}, 1, 0              -- the line
local running = 0                 -- handlers that have begun and not ended
local stops, driven = 0, false    -- calls of stop; whether the program drives its own loop
local eye                         -- the observer of this process

--- The most seconds for which all polled sources together may hold up the process.
scheduler.poll_time = 0.01

--- How many events a source that calls `notify` may be ahead of its handler; then `notify` waits.
scheduler.room = 64

local function tell_change() eye:_tell() end

-- The program drives its own loop from now on. The one that runs by itself ends, and takes nothing.
local function drive()
    if driven then return end
    driven = true
    tell_change()
end

local run_by_itself

-- ---- The pool: objects --------------------------------------------------------------------------

local function next_id()
    last_id = last_id + 1
    return last_id
end

local function enqueue(object)
    object.stage = "ready"
    last = last + 1
    ready[last] = object
    tell_change()
end

--- A handler object: a method, its parameters, an identifier. It runs when it is made ready.
function scheduler.create_object(method, ...)
    check("create_object", method, 1, "function")
    local object = {id = next_id(), method = method, parameters = table.pack(...)}
    objects[object.id] = object
    return object
end

--- The handler object of an identifier, as long as somebody refers to it and it has not run; or
--- nil.
function scheduler.find_object(id) return objects[id] end

--- Puts an object at the end of the ready line. False: it is there already.
function scheduler.make_ready(object)
    mare._needs_routines "make_ready"
    check("make_ready", object, 1, "table")
    if objects[object.id] ~= object or object.stage then return false end
    run_by_itself()
    enqueue(object)
    return true
end

-- ---- The observer: sources and their events -----------------------------------------------------

local function event(record, ...)
    local object = scheduler.create_object(record.handler, ...)
    object.source, object.record = record.id, record
    enqueue(object)
end

-- A source has ended by itself: calls the handler for that, if there is one. Otherwise a failure is
-- reported like that of a routine.
local function ended(record, message, code)
    if record.ended then
        enqueue(scheduler.create_object(record.ended, message, code))
    elseif code ~= "closed" then
        mare.go(error, ("source %d failed: %s"):format(record.id, tostring(message)), 0)
    end
end

eye = observer._new(scheduler, event, ended)

-- Waits until an object is ready, the deadline has passed, or `goes_on` returns false.
local function await(deadline, goes_on)
    return eye:_await(deadline, function()
        local nothing_left = not deadline and eye.count == 0 and running == 0
        return first <= last or not goes_on() or nothing_left
    end)
end

-- The first object of the line, or nil.
local function dequeue()
    if first > last then return nil end
    local object = ready[first]
    ready[first] = nil
    first = first + 1
    return object
end

local function take(deadline, goes_on)
    if first > last then
        local _, message, code = await(deadline, goes_on)
        if code then return nil, message, code end
        if not goes_on() then return nil end -- what is in the line is for somebody else
    end
    if first <= last then eye:_poll_if_due() end
    return dequeue()
end

-- A function that is true until somebody calls stop.
local function until_stopped()
    local before = stops
    return function() return stops == before end
end

--- The observer's part: waits until something is ready, or the seconds have passed. Returns the
--- identifiers of the handler objects, in the order of the line (the `source` of one tells whose
--- event it handles); or nil, message, "cancelled", as do the other functions that wait.
function scheduler.wait_for_events(seconds)
    local deadline = checks.deadline("wait_for_events", seconds, 1)
    drive()
    if first > last then
        local _, message, code = await(deadline, until_stopped())
        if code then return nil, message, code end
    end
    local ids = {}
    for i = first, last do ids[#ids + 1] = ready[i].id end
    return ids
end

--- The first ready object. If there is none, asks the observer, for at most so many seconds. nil:
--- none.
function scheduler.get_ready_object(seconds)
    local deadline = checks.deadline("get_ready_object", seconds, 1)
    drive()
    return take(deadline, until_stopped())
end

-- ---- The scheduler ------------------------------------------------------------------------------

-- Signals that a handler may hand back when it yields: new sources, what comes after, a timer.
local function obey(object, signals)
    if type(signals) ~= "table" then return mare.yield() end
    for _, new in ipairs(signals.sources or {}) do
        scheduler.register_source(table.unpack(new, 1, 3))
    end
    if signals.finally then object.finally = signals.finally end
    if signals.timer then mare.sleep(signals.timer) else mare.yield() end
end

-- Runs an object in its coroutine, the execution token, which may wait and yield.
local function run(object)
    local co = coroutine.create(object.method)
    local _ <close> = setmetatable({}, {__close = function()
        objects[object.id] = nil
        running = running - 1
        tell_change()
        if coroutine.status(co) == "suspended" then coroutine.close(co) end -- wrong signals
    end})
    local parameters = object.parameters
    local got = table.pack(coroutine.resume(co, table.unpack(parameters, 1, parameters.n)))
    while got[1] and coroutine.status(co) ~= "dead" do
        obey(object, got[2])
        got = table.pack(coroutine.resume(co))
    end
    if not got[1] then
        local err = got[2]
        local text = type(err) == "string" and debug.traceback(co, err)
        local _, final = coroutine.close(co) -- a closing handler may raise another error
        if object.finally then object.finally(nil, final, "died") end
        error(final == err and text or final, 0)
    end
    if object.finally then object.finally(table.unpack(got, 2, got.n)) end
    return table.unpack(got, 2, got.n)
end

--- Runs an object that was taken out of the line until it waits for the first time; returns its
--- routine, whose join has the results of the method.
function scheduler.run(object)
    check("run", object, 1, "table")
    if objects[object.id] ~= object then
        error("bad argument #1 to 'run' (a handler object that has not run expected)", 2)
    end
    object.stage = "runs"
    local routine, record = mare.go(run, object), object.record
    running = running + 1 -- now, before its first turn: another loop may look meanwhile
    mare.yield()
    if record then eye:_took(record) end
    return routine
end

-- Handles one event. False: there was none. Or nil, message, "cancelled".
local function turn(deadline, goes_on)
    local object, message, code = take(deadline, goes_on)
    if code then return nil, message, code end
    if not object then return false end
    scheduler.run(object)
    return true
end

-- The loop: as long as there is something to wait for.
local function serve(goes_on)
    local _, message, code
    while not code and goes_on() and (eye.count > 0 or first <= last or running > 0) do
        _, message, code = turn(nil, goes_on)
    end
    tell_change()
    if code then return nil, message, code end
    return true
end

--- Handles at most one event, waiting for it for so many seconds at the most. Returns whether there
--- was one.
function scheduler.step(seconds)
    mare._needs_routines "step"
    local deadline = checks.deadline("step", seconds, 1)
    drive()
    return turn(deadline, until_stopped())
end

--- Handles events until stop is called, or no source is left and every handler has ended. Returns
--- true.
function scheduler.loop()
    mare._needs_routines "loop"
    drive()
    return serve(until_stopped())
end

--- Ends the loops, and the waits of steps, that are under way, from a handler too; what runs goes
--- on.
function scheduler.stop()
    stops = stops + 1
    tell_change()
end

-- The loop that runs by itself, until the program drives its own.
local free
local function serve_for_free()
    serve(function() return not driven end)
    free = nil
end

function run_by_itself()
    if not driven and not free then free = mare.go(serve_for_free) end
end

-- ---- Sources ------------------------------------------------------------------------------------

--- Calls the handler, in a coroutine of its own, for each event of the source. Returns the source's
--- identifier. `ended(message, code)`, if given, is called when the source has ended by itself.
---
--- A source is a channel (its messages), a timer, a stream (what it reads), a listener (its
--- connections), a socket (its datagrams), a child (its end), a watch for signals, a watcher of
--- files, a source written in C, or a table with one of these functions:
---   start(self, notify, finish)  asynchronous: it keeps the two functions. It calls `notify` with
---                                each event, and `finish` at the end
---   poll(self, seconds)          synchronous with a time limit: returns an event, or nil
---   wait()                       synchronous without one: returns an event, or nil at the end. It
---                                runs in a thread of its own, in another Lua state, as a copy
function scheduler.register_source(source, handler, whenended)
    mare._needs_routines "register_source"
    check("register_source", handler, 2, "function")
    if whenended ~= nil then check("register_source", whenended, 3, "function") end
    local record = {id = next_id(), handler = handler, ended = whenended}
    eye:_begin(source, record)
    run_by_itself()
    return record.id
end

--- A source of what can be read from a device file, a FIFO or a terminal, as it comes; or nil,
--- message, code.
scheduler.device = require "mare._source".device

--- Forgets a source; its own handler may do so. An event that is ready is still handled. Returns
--- whether there was one.
function scheduler.remove_source(id) return eye:remove_source(id) end

return scheduler
