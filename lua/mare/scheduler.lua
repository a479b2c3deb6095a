-- SPDX-License-Identifier: MIT
-- The event scheduler of a process, under the names of the model it comes from: an observer that
-- knows sources by identifier and waits for changes; a pool that makes handler objects and keeps
-- those that are ready in line; a scheduler that runs each in a coroutine of its own. Routines and
-- channels do the waiting underneath, so that a handler may wait anywhere.
--
--     source --event--> pump (a routine) --> line of ready objects --> step: a routine each
--                         ^----- the next event may come ---------------+
--
-- A source has one event in this line at the most; what else there is waits where it comes from. A
-- program that registers sources and never steps gets a loop for free.
local mare, check = require "mare", require "mare._check".argument

local scheduler = {}

local sources, count = {}, 0      -- by identifier, and how many
local last_id = 0
local polled, poll_from = {}, 1   -- records of those polled in turn; who is first, so that none has
local polled_at = 0               -- precedence; when that was
local objects = setmetatable({}, {__mode = "v"}) -- by identifier, while somebody refers to them
local ready, first, last = {}, 1, 0              -- the line
local running = 0                 -- handlers that were begun and have not ended
local stops, driven = 0, false    -- calls of stop; somebody has called step or loop
local changed = mare.channel(1)   -- something is ready, a source has come or gone, stop was called

--- How long all polled sources together may hold back the process, in seconds.
scheduler.poll_time = 0.01

--- How many events a source that calls `notify` may be ahead of its handler, before notify waits.
scheduler.room = 64

local function tell_change() changed:trysend(true) end

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

--- Puts an object at the end of the line of those that are ready. False: it has been there.
function scheduler.make_ready(object)
    check("make_ready", object, 1, "table")
    if objects[object.id] ~= object or object.stage then return false end
    enqueue(object)
    return true
end

-- ---- The observer: sources and their events -----------------------------------------------------

-- `removed`: it has not ended by itself.
local function forget(record, removed)
    if sources[record.id] ~= record then return false end
    sources[record.id] = nil
    count = count - 1
    if record.place then -- the last one comes there
        local other = table.remove(polled)
        if other ~= record then
            polled[record.place], other.place = other, record.place
        end
    end
    tell_change()
    if record.release then record.release(removed) end
    return true
end

local function event(record, ...)
    local object = scheduler.create_object(record.handler, ...)
    object.source, object.record = record.id, record
    record.waits = true
    enqueue(object)
end

-- A source has ended by itself: whoever wants to know is told, as a handler; a failure that nobody
-- asked about is reported as that of a routine is.
local function ended(record, message, code)
    if sources[record.id] ~= record then return end
    if record.ended then
        enqueue(scheduler.create_object(record.ended, message, code))
    elseif code ~= "closed" then
        mare.go(error, ("source %d failed: %s"):format(record.id, tostring(message)), 0)
    end
    forget(record)
end

-- What a call that produces events returned: an event, or `nil, message, code` (or nothing) when
-- there is none.
local function is_event(got) return got[1] ~= nil end

-- Of a channel even nil is a value.
local function is_message(got)
    return got[1] ~= nil or got.n ~= 3 or got[3] ~= "closed" and got[3] ~= "cancelled"
end

-- Brings events, one at a time, until the source ends or is removed; or the process ends.
local function pump(record, take, is)
    local _ <close> = setmetatable({}, {__close = function() forget(record, true) end})
    while sources[record.id] == record do
        local got = table.pack(take(record.source))
        if is(got) then -- though it was removed meanwhile: nobody else has it
            event(record, table.unpack(got, 1, got.n))
            record.taken:receive()
        elseif got[3] ~= "cancelled" then
            return ended(record, got[2], got[3] or "closed")
        end
    end
end

-- Asks a polled source, for its part of the time.
local function poll(record, seconds)
    local got = table.pack(pcall(record.source.poll, record.source, seconds))
    if not got[1] then
        ended(record, got[2], "died")
    elseif got[2] ~= nil then
        event(record, table.unpack(got, 2, got.n))
    elseif got[4] and got[4] ~= "timeout" then
        ended(record, got[3], got[4])
    end
end

-- One turn of those that have no event in line.
local function poll_all(time)
    local due, n = {}, #polled
    for i = 0, n - 1 do
        local record = polled[(poll_from + i - 1) % n + 1]
        if not record.waits then due[#due + 1] = record end
    end
    poll_from = poll_from % math.max(n, 1) + 1
    polled_at = mare.now()
    for _, record in ipairs(due) do
        if sources[record.id] == record then poll(record, time / #due) end
    end
    return time - (mare.now() - polled_at) -- what they did not need
end

-- Waits until something is ready, the deadline has passed, or it shall not go on. Returns nothing,
-- or nil, message, "cancelled".
local function await(deadline, goes_on)
    local ok, message, code
    mare.yield() -- so that pumps bring what there is
    while first > last and goes_on() do
        if not deadline and count == 0 and running == 0 then break end
        if #polled == 0 then
            ok, message, code = changed:receive(deadline)
        else
            local left = deadline and deadline:left() or math.huge
            local rest = poll_all(math.min(left, scheduler.poll_time))
            if first <= last or left == 0 then break end
            if rest > 0 then message, code = select(2, changed:receive(rest)) end
            ok = code ~= "cancelled"
        end
        if not ok then break end
        mare.yield()
    end
    tell_change() -- others may wait here too, and what was told is for them as well
    if code == "cancelled" then return nil, message, code end
end

-- The first object of the line, or nil.
local function dequeue()
    if first > last then return nil end
    local object = ready[first]
    ready[first] = nil
    first = first + 1
    return object
end

local function deadline_of(seconds)
    return type(seconds) == "number" and mare.deadline(seconds) or seconds
end

local function take(seconds, goes_on)
    if first > last then
        local _, message, code = await(deadline_of(seconds), goes_on)
        if code then return nil, message, code end
    end
    -- Those that are polled have their turn though others keep the line full.
    if #polled > 0 and first <= last and mare.now() - polled_at >= scheduler.poll_time then
        poll_all(0)
    end
    return dequeue()
end

-- Until somebody calls stop, from now on.
local function until_stopped()
    local before = stops
    return function() return stops == before end
end

--- The observer's part: waits until something is ready, or the seconds have passed. Returns the
--- identifiers of the handler objects, in the order of the line (the `source` of one tells whose
--- event it handles); or nil, message, "cancelled", as do the other functions that wait.
function scheduler.wait_for_events(seconds)
    if first > last then
        local _, message, code = await(deadline_of(seconds), until_stopped())
        if code then return nil, message, code end
    end
    local ids = {}
    for i = first, last do ids[#ids + 1] = ready[i].id end
    return ids
end

--- The first ready object; when none is ready the observer is asked, for so many seconds at the
--- most. nil: none.
function scheduler.get_ready_object(seconds) return take(seconds, until_stopped()) end

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

-- Runs an object in its coroutine, the execution token, which waits and yields as it likes.
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
        local _, final = coroutine.close(co) -- a closing handler may fail with another
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
    running = running + 1 -- from now on, though its turn is to come: another loop may look
    mare.yield()
    if record then -- its source may bring the next, if it still is one
        record.waits = false
        if record.taken then record.taken:trysend(true) end
    end
    return routine
end

-- Handles one event. False: there was none. Or nil, message, "cancelled".
local function turn(seconds, goes_on)
    local object, message, code = take(seconds, goes_on)
    if code then return nil, message, code end
    if not object then return false end
    scheduler.run(object)
    return true
end

-- The loop, for whoever runs it: as long as there is something to wait for.
local function serve(goes_on)
    local _, message, code
    while not code and goes_on() and (count > 0 or first <= last or running > 0) do
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
    driven = true
    return turn(seconds, until_stopped())
end

--- Handles events until stop is called, or no source is left and every handler has ended. Returns
--- true.
function scheduler.loop()
    mare._needs_routines "loop"
    driven = true
    return serve(until_stopped())
end

--- Ends the loops, and the waits of steps, that are under way, from a handler too; what runs goes
--- on.
function scheduler.stop()
    stops = stops + 1
    tell_change()
end

-- The loop for free, until the program drives its own.
local free
local function serve_for_free()
    serve(function() return not driven end)
    free = nil
end

-- ---- Kinds of source ----------------------------------------------------------------------------

-- In a process with a thread of its own: it may block. Its end, however it comes, closes the
-- channel.
local function block(wait, out)
    local _ <close> = out
    while true do
        local got = table.pack(wait())
        if got[1] == nil then return table.unpack(got, 2, 3) end
        if not out:send(table.unpack(got, 1, got.n)) then return end
    end
end

-- What begins to bring the events of a source of each kind, by the kind's name.
local begin = {}

-- The process does not wait for a pump: it lives as long as somebody handles what it brings.
local function start_pump(...)
    local routine = mare.go(pump, ...)
    routine:detach()
    return routine
end

function begin.channel(record)
    return start_pump(record, record.source.receive, is_message)
end

function begin.source(record)
    return start_pump(record, record.source.next, function(got)
        return got[1] ~= nil or got.n ~= 3 or type(got[3]) ~= "string"
    end)
end

function begin.timer(record)
    return start_pump(record, record.source.wait, is_event)
end

-- Whatever timeout the stream has by default: the scheduler waits.
function begin.stream(record)
    return start_pump(record, function(stream) return stream:read(nil, math.huge) end, is_event)
end

-- A datagram too long, or refused by a peer, is not the end of a socket.
function begin.socket(record)
    return start_pump(record, function(socket)
        local got
        repeat
            got = table.pack(socket:receive(math.huge))
        until got[3] ~= "toobig" and got[3] ~= "refused"
        return table.unpack(got, 1, got.n)
    end, is_event)
end

function begin.signals(record)
    return start_pump(record, function(signals) return signals:next(math.huge) end, is_event)
end

function begin.watcher(record)
    return start_pump(record, function(watcher) return watcher:next(math.huge) end, is_event)
end

-- One event, its end.
function begin.child(record)
    local told = false
    return start_pump(record, function(child)
        if told then return nil, "the child has ended", "closed" end
        told = true
        return child:wait(math.huge)
    end, is_event)
end

-- Without descriptors, it waits a little for some to be closed.
function begin.listener(record)
    return start_pump(record, function(listener)
        while true do
            local stream, message, code = listener:accept(math.huge)
            local over = stream or code == "closed" or code == "cancelled"
            if over then return stream, message, code end
            mare.sleep(0.05)
        end
    end, is_event)
end

local function stop_if(record, removed)
    if removed and record.source.stop then record.source:stop() end
end

function begin.poll(record)
    record.place = #polled + 1
    polled[record.place] = record
    record.release = function(removed) stop_if(record, removed) end
end

function begin.wait(record)
    local out = mare.channel()
    local process = mare.spawn({thread = true, link = false}, block, record.source.wait, out)
    record.release = function(removed)
        out:close()
        process:kill()
        stop_if(record, removed)
    end
    return start_pump(record, function()
        local got = table.pack(out:receive())
        if is_message(got) or got[3] ~= "closed" then return table.unpack(got, 1, got.n) end
        local well, message, code = process:join() -- it has closed it, so it ends now
        if well then return nil, message or "the source has ended", code or "closed" end
        return nil, message, code
    end, is_event)
end

function begin.start(record)
    local out = mare.channel(scheduler.room)
    record.release = function(removed)
        out:close()
        stop_if(record, removed)
    end
    record.source:start(function(...) return out:send(...) end, function() out:close() end)
    return start_pump(record, function() return out:receive() end, is_message)
end

-- What kind of source it is, or nil.
local function kind_of(source)
    if type(source) == "userdata" then
        local name = tostring(source):match "^%a+"
        return begin[name] and name
    elseif type(source) == "table" then
        return source.poll and "poll" or source.wait and "wait" or source.start and "start" or nil
    end
end

--- Calls the handler, in a coroutine of its own, for each event of the source; returns the source's
--- identifier. A source is a channel (its messages), a timer, a stream (what it reads), a listener
--- (its connections), a socket (its datagrams), a child (its end), a watch for signals, a watcher
--- of files, a source written in C, or a table: asynchronous, with `start(self, notify, finish)`,
--- which keeps them, calls `notify` with each event and `finish` at the end; synchronous with a
--- time limit, with `poll(self, seconds)`, which returns an event or nil; synchronous without one,
--- with `wait()`, which returns an event, or nil at the end, and runs in a thread of its own, in
--- another Lua state: it is copied there. `ended(message, code)`, if given, is called when the
--- source has ended by itself.
function scheduler.register_source(source, handler, whenended)
    mare._needs_routines "register_source"
    local kind = kind_of(source)
    if not kind then
        error("bad argument #1 to 'register_source' (expected a channel, timer, stream, listener, "
            .. "socket, child, watch for signals, watcher, source, or a table with start, poll or "
            .. "wait)", 2)
    end
    check("register_source", handler, 2, "function")
    if whenended ~= nil then check("register_source", whenended, 3, "function") end
    local record = {id = next_id(), source = source, handler = handler, ended = whenended}
    if kind ~= "poll" then record.taken = mare.channel(1) end
    sources[record.id] = record
    count = count + 1
    local ok, routine = pcall(begin[kind], record)
    if not ok then
        forget(record)
        error(routine, 0)
    end
    record.pump = routine
    if not driven and not free then free = mare.go(serve_for_free) end
    tell_change()
    return record.id
end

--- A source of what can be read from a device file, a FIFO or a terminal, as it comes; or nil,
--- message, code.
scheduler.device = require "mare._source".device

--- Forgets a source; its own handler may do so. An event that is ready is still handled. Returns
--- whether there was one.
function scheduler.remove_source(id)
    local record = sources[id]
    if not record then return false end
    forget(record, true)
    if record.pump then record.pump:cancel() end
    return true
end

return scheduler
