-- SPDX-License-Identifier: MIT
-- The observer of the event scheduler, for use without the scheduler. It knows sources by
-- identifier, waits for changes, and says which sources have events. It runs no handler.
-- `mare.scheduler` is built on one.
--
--     source --event--> pump (a routine) --> line of events --> wait_for_events, then take
--                         ^----- the next event may come ---------------+
--
-- At most one event of a source is here; further events wait in the source. Polled sources have no
-- pump: the routine that waits asks them in turn.
--
-- A record is what the observer knows of a source: `id`, `source`, `pump`, `taken` (the channel by
-- which the pump hears that its event was taken), `place` (among the polled), `waits` (it has an
-- event in line), `release` (what is to do when it goes).
local mare, check = require "mare", require "mare._check"

local observer = {}
local Observer = {__name = "observer"}
Observer.__index = Observer

-- ---- Sources and their events -------------------------------------------------------------------

function Observer:_tell() self.changed:trysend(true) end

-- `removed`: by the program; otherwise it has ended by itself.
local function forget(self, record, removed)
    if self.sources[record.id] ~= record then return false end
    self.sources[record.id] = nil
    self.count = self.count - 1
    if record.place then -- the last one takes its place
        local other = table.remove(self.polled)
        if other ~= record then
            self.polled[record.place], other.place = other, record.place
        end
    end
    self:_tell()
    if record.release then record.release(removed) end
    return true
end

local function bring(self, record, ...)
    record.waits = true
    self.event(record, ...)
    self:_tell()
end

-- A source has ended by itself.
local function ended(self, record, message, code)
    if self.sources[record.id] ~= record then return end
    self.ended(record, message, code)
    forget(self, record)
end

-- The event of a source was taken: the next one may come.
function Observer:_took(record)
    record.waits = false
    if record.taken then record.taken:trysend(true) end
end

-- Whether a call has returned an event, and not nothing or `nil, message, code`.
local function is_event(got) return got[1] ~= nil end

-- In messages of a channel even nil is a value.
local function is_message(got)
    return got[1] ~= nil or got.n ~= 3 or got[3] ~= "closed" and got[3] ~= "cancelled"
end

-- Brings events, one at a time, until the source ends or is removed; or the process ends.
local function pump(self, record, take, is)
    local _ <close> = setmetatable({}, {__close = function() forget(self, record, true) end})
    while self.sources[record.id] == record do
        local got = table.pack(take(record.source))
        if is(got) then -- also after a removal: nobody else has this event
            bring(self, record, table.unpack(got, 1, got.n))
            record.taken:receive()
        elseif got[3] ~= "cancelled" then
            return ended(self, record, got[2], got[3] or "closed")
        end
    end
end

-- Asks a polled source, for its part of the time.
local function poll(self, record, seconds)
    local got = table.pack(pcall(record.source.poll, record.source, seconds))
    if not got[1] then
        ended(self, record, got[2], "died")
    elseif got[2] ~= nil then
        bring(self, record, table.unpack(got, 2, got.n))
    elseif got[4] and got[4] ~= "timeout" then
        ended(self, record, got[3], got[4])
    end
end

-- One turn of the polled sources without an event in line. Each turn begins with another one, so
-- that none has priority. Returns the time that they did not need.
local function poll_all(self, time)
    local due, n = {}, #self.polled
    for i = 0, n - 1 do
        local record = self.polled[(self.poll_from + i - 1) % n + 1]
        if not record.waits then due[#due + 1] = record end
    end
    self.poll_from = self.poll_from % math.max(n, 1) + 1
    self.polled_at = mare.now()
    for _, record in ipairs(due) do
        if self.sources[record.id] == record then poll(self, record, time / #due) end
    end
    return time - (mare.now() - self.polled_at)
end

-- Gives polled sources their turn, even if others keep the line full.
function Observer:_poll_if_due()
    if #self.polled > 0 and mare.now() - self.polled_at >= self.settings.poll_time then
        poll_all(self, 0)
    end
end

-- Waits until it is over, or the deadline has passed. Returns nothing, or nil, message,
-- "cancelled".
function Observer:_await(deadline, over)
    local ok, message, code
    mare.yield() -- lets pumps bring what there is
    while not over() do
        if #self.polled == 0 then
            ok, message, code = self.changed:receive(deadline)
        else
            local left = deadline and deadline:left() or math.huge
            local rest = poll_all(self, math.min(left, self.settings.poll_time))
            if over() or left == 0 then break end
            if rest > 0 then message, code = select(2, self.changed:receive(rest)) end
            ok = code ~= "cancelled"
        end
        if not ok then break end
        mare.yield()
    end
    self:_tell() -- wakes others that wait here: the news is for them, too
    if code == "cancelled" then return nil, message, code end
end

-- ---- Kinds of source ----------------------------------------------------------------------------

-- Runs in a process with a thread of its own, because it may block. However it ends, it closes the
-- channel.
local function block(wait, out)
    local _ <close> = out
    while true do
        local got = table.pack(wait())
        if got[1] == nil then return table.unpack(got, 2, 3) end
        if not out:send(table.unpack(got, 1, got.n)) then return end
    end
end

-- By the name of a kind: the function that begins to bring events of such a source.
local begin = {}

-- Starts a pump. The pump does not keep the process alive; the handlers of its events do.
local function start_pump(...)
    local routine = mare.go(pump, ...)
    routine:detach()
    return routine
end

function begin.channel(self, record)
    return start_pump(self, record, record.source.receive, is_message)
end

function begin.source(self, record)
    return start_pump(self, record, record.source.next, function(got)
        return got[1] ~= nil or got.n ~= 3 or type(got[3]) ~= "string"
    end)
end

function begin.timer(self, record)
    return start_pump(self, record, record.source.wait, is_event)
end

-- The default timeout of the stream does not count here: the observer waits.
function begin.stream(self, record)
    return start_pump(self, record, function(stream)
        return stream:read(nil, math.huge)
    end, is_event)
end

-- A socket goes on after a datagram that is too long, or that a peer refused.
function begin.socket(self, record)
    return start_pump(self, record, function(socket)
        local got
        repeat
            got = table.pack(socket:receive(math.huge))
        until got[3] ~= "toobig" and got[3] ~= "refused"
        return table.unpack(got, 1, got.n)
    end, is_event)
end

function begin.signals(self, record)
    return start_pump(self, record, function(signals) return signals:next(math.huge) end, is_event)
end

function begin.watcher(self, record)
    return start_pump(self, record, function(watcher) return watcher:next(math.huge) end, is_event)
end

-- One event, its end.
function begin.child(self, record)
    local told = false
    return start_pump(self, record, function(child)
        if told then return nil, "the child has ended", "closed" end
        told = true
        return child:wait(math.huge)
    end, is_event)
end

-- Without descriptors, it waits a little for some to be closed.
function begin.listener(self, record)
    return start_pump(self, record, function(listener)
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

function begin.poll(self, record)
    record.place = #self.polled + 1
    self.polled[record.place] = record
    record.release = function(removed) stop_if(record, removed) end
end

function begin.wait(self, record)
    local out = mare.channel()
    local process = mare.spawn({thread = true, link = false}, block, record.source.wait, out)
    record.release = function(removed)
        out:close()
        process:kill()
        stop_if(record, removed)
    end
    return start_pump(self, record, function()
        local got = table.pack(out:receive())
        if is_message(got) or got[3] ~= "closed" then return table.unpack(got, 1, got.n) end
        local well, message, code = process:join() -- its channel was closed, so it ends now
        if well then return nil, message or "the source has ended", code or "closed" end
        return nil, message, code
    end, is_event)
end

function begin.start(self, record)
    local out = mare.channel(self.settings.room)
    record.release = function(removed)
        out:close()
        stop_if(record, removed)
    end
    record.source:start(function(...) return out:send(...) end, function() out:close() end)
    return start_pump(self, record, function() return out:receive() end, is_message)
end

-- What kind of source it is, or an error that blames the caller of the caller.
local function kind_of(source)
    local kind
    if type(source) == "userdata" then
        kind = tostring(source):match "^%a+"
    elseif type(source) == "table" then
        kind = source.poll and "poll" or source.wait and "wait" or source.start and "start"
    end
    if kind and begin[kind] then return kind end
    error("bad argument #1 to 'register_source' (expected a channel, timer, stream, listener, "
        .. "socket, child, watch for signals, watcher, source, or a table with start, poll or "
        .. "wait)", 4)
end

-- Begins to bring the events of a source. To be called by the function that the program calls.
function Observer:_begin(source, record)
    local kind = kind_of(source)
    record.source = source
    if kind ~= "poll" then record.taken = mare.channel(1) end
    self.sources[record.id] = record
    self.count = self.count + 1
    local ok, routine = pcall(begin[kind], self, record)
    if not ok then
        forget(self, record)
        error(routine, 0)
    end
    record.pump = routine
    self:_tell()
end

-- An observer for a caller that keeps the line itself: `event(record, ...)` and `ended(record,
-- message, code)` are called, and must not wait.
function observer._new(settings, event, when_ended)
    return setmetatable({
        settings = settings, event = event, ended = when_ended,
        sources = {}, count = 0,                       -- records by identifier, and how many
        polled = {}, poll_from = 1, polled_at = 0,     -- who is asked in turn; who is first; when
        changed = mare.channel(1),                     -- an event has come, a source come or gone
    }, Observer)
end

-- ---- By itself ----------------------------------------------------------------------------------

local allowed = check.set("poll_time", "room")

local function is_room(value) return math.type(value) == "integer" and value >= 0 end

-- Puts an event, or the end of a source, at the end of the line.
local function line_up(self, record, event)
    if self.closed then return end
    local entry, id = {record = record, event = event}, record.id
    self.line[#self.line + 1] = entry
    if self.first[id] then
        self.last[id].next = entry
    else
        self.first[id] = entry
    end
    self.last[id] = entry
end

--- A new observer, without sources. Options: `poll_time`, the seconds that all polled sources
--- together may take in a turn; `room`, how many events a source that calls `notify` may be ahead.
function observer.new(options)
    if options ~= nil then check.options("new", options, 1, allowed) end
    options = options or {}
    check.option("new", options, 1, "poll_time", check.span, "a positive number of seconds")
    check.option("new", options, 1, "room", is_room, "an integer, 0 or more")
    local self
    self = observer._new({poll_time = options.poll_time or 0.01, room = options.room or 64},
        function(record, ...) line_up(self, record, table.pack(true, ...)) end,
        function(record, ...) line_up(self, record, table.pack(nil, ...)) end)
    self.last_id = 0
    self.line = {}  -- entries {record, event, next}; an entry whose event was taken is left here
    self.first = {} -- by identifier: the first entry; `next` is the next of the same identifier
    self.last = {}  -- of those, the last one, as long as there is a first
    return self
end

--- Watches a source. The identifier is any value but nil and NaN that no other source has here;
--- without one it is a number. Returns it.
function Observer:register_source(source, id)
    mare._needs_routines "register_source"
    if self.closed then error("the observer is closed: make another", 2) end
    if id == nil then
        repeat
            self.last_id = self.last_id + 1
            id = self.last_id
        until not self.sources[id]
    elseif id ~= id or self.sources[id] then
        error(("bad argument #2 to 'register_source' (the identifier '%s' %s)"):format(
            tostring(id), id ~= id and "is no number" or "is in use"), 2)
    end
    self:_begin(source, {id = id})
    return id
end

--- Stops watching a source. An event that is ready can still be taken. Returns whether there was
--- such a source.
function Observer:remove_source(id)
    local record = self.sources[id]
    if not record then return false end
    forget(self, record, true)
    if record.pump then record.pump:cancel() end
    return true
end

--- Waits until an event is ready, or the seconds have passed. Returns the identifiers of the
--- sources with an event to take, in the order in which the events came; or nil, message,
--- "cancelled".
function Observer:wait_for_events(seconds)
    mare._needs_routines "wait_for_events"
    local deadline = check.deadline("wait_for_events", seconds, 1)
    self:_poll_if_due()
    if not next(self.first) then
        local _, message, code = self:_await(deadline, function()
            return next(self.first) or self.closed or not deadline and self.count == 0
        end)
        if code then return nil, message, code end
    end
    local line, ids, listed = {}, {}, {}
    for _, entry in ipairs(self.line) do
        if entry.event then
            local id = entry.record.id
            line[#line + 1] = entry
            if not listed[id] then ids[#ids + 1] = id end
            listed[id] = true
        end
    end
    self.line = line
    return ids
end

--- Takes the event of a source: true and its values; or nil, message and code, when the source has
--- ended, or there is nothing to take ("empty").
function Observer:take(id)
    local entry = self.first[id]
    if not entry then
        return nil, ("no event of the source '%s' is ready"):format(tostring(id)), "empty"
    end
    local event = entry.event
    self.first[id], entry.event = entry.next, nil
    if not entry.next then self.last[id] = nil end
    self:_took(entry.record)
    return table.unpack(event, 1, event.n)
end

--- Removes all sources, drops their events, and ends the waits in progress. False: it was closed
--- before.
function Observer:close()
    if self.closed then return false end
    self.closed, self.line, self.first, self.last = true, {}, {}, {}
    for _, record in pairs(self.sources) do self:remove_source(record.id) end
    self:_tell()
    return true
end

Observer.__close = Observer.close

return observer
