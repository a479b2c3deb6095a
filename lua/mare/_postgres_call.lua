-- SPDX-License-Identifier: MIT
-- One call of a connection to PostgreSQL, from the request to the server's last word about it.
--
-- A call may end early: its deadline has passed, or the program has left its loop. Then the
-- connection is still busy. This module asks the server at once to stop. The next call waits for
-- that, and drops what is left. So no connection is lost, and no answer goes to the wrong call.
--
--     submit --> event_of: rows, done, error ... --> end        the next call begins at once
--                   '--> stop: asked to stop --> settle         the next call waits for this first
local mare, raw, wait = require "mare", require "mare._postgres", require "mare._postgres_dial".wait

local BATCH <const> = 100 -- rows that are made into tables at once

local function lose(shared)
    if shared.handle then raw.finish(shared.handle) end
    if shared.stream then shared.stream:close() end
    shared.handle, shared.stream, shared.stopping, shared.abandoned = nil, nil, nil, nil
end

-- Notes that the connection is lost. From now on every call returns this.
local function lost(shared, why)
    lose(shared)
    shared.why = why and why ~= "" and why or "the connection was lost"
    return nil, shared.why, "closed"
end

-- Waits for the next event: see `take` in src/lua/postgres.c. Notifications are kept only for
-- listeners.
local function event_of(shared, deadline, list, most)
    while true do
        local flushed, why = raw.flush(shared.handle)
        if flushed == nil then return lost(shared, why) end
        local event, a, b = raw.take(shared.handle, list, most)
        if event == "error" and raw.state(shared.handle) == "lost" then return lost(shared, a) end
        if event == "copyboth" then return lost(shared, "the server began a replication") end
        if not shared.hears then
            while raw.notice(shared.handle) do end
        end
        if event ~= "wait" then return event, a, b end
        local ok, code
        ok, why, code = wait(shared.stream, not flushed, deadline)
        if not ok then return nil, why, code end
        ok, why = raw.consume(shared.handle)
        if not ok then return lost(shared, why) end
    end
end

-- A call did not come to its end. Asks the server to stop now; `settle` does the rest.
local function stop(shared)
    if shared.handle and not shared.stopping then shared.stopping = raw.cancel(shared.handle) end
end

-- Waits for the next row of a COPY; nil at the end; false, a message and a code.
local function copied(shared, deadline)
    while true do
        local bytes, why = raw.get(shared.handle)
        if why then return false, select(2, lost(shared, why)) end
        if bytes ~= false then return bytes end
        local ok, code
        ok, why, code = wait(shared.stream, false, deadline)
        if not ok then return false, why, code end
        ok, why = raw.consume(shared.handle)
        if not ok then return false, select(2, lost(shared, why)) end
    end
end

-- Drops what the server sends until it has finished the call. After a failure, call it again.
local function drain(shared, deadline)
    local event, why, code
    repeat
        event, why, code = event_of(shared, deadline, {}, BATCH)
        if not event then return nil, why, code end
        if event == "copyin" then raw.putend(shared.handle, "stopped") end
        while event == "copyout" do
            local bytes
            bytes, why, code = copied(shared, deadline)
            if bytes == false then return nil, why, code end
            if not bytes then break end
        end
    until event == "end"
    return true
end

-- A request to stop that reaches the server before it has begun the query has no effect. So if the
-- query has not ended after this many seconds, the server is asked again.
local ASKED_AGAIN <const> = 1

-- Waits until the server has stopped, and drops what it has sent.
local function settle(shared, deadline)
    while shared.stopping do
        local ok, why, code = raw.await(shared.stopping, deadline)
        if not ok and code ~= "io" then
            if raw.dropped(shared.stopping) then shared.stopping = raw.cancel(shared.handle) end
            return nil, why, code
        end
        local left = deadline and deadline:left() or math.huge
        ok, why, code = drain(shared, left > ASKED_AGAIN and mare.deadline(ASKED_AGAIN) or deadline)
        if ok then
            shared.stopping = nil
        elseif code ~= "timeout" or left <= ASKED_AGAIN then
            return nil, why, code
        else
            shared.stopping = raw.cancel(shared.handle)
        end
    end
    return true
end

-- Runs the call to its end. Adds rows to the list, up to `limit` bytes; without a list, drops them.
-- Returns how many rows the last statement has changed; or nil, message, code, PostgreSQL's code.
local function complete(shared, deadline, list, limit)
    local changed, failed, state = 0, nil, nil
    local whole = false
    local _ <close> = setmetatable({}, {__close = function()
        if not whole then stop(shared) end
    end})
    while true do
        local event, a, b = event_of(shared, deadline, list or {}, BATCH + (list and #list or 0))
        if not event then return nil, a, b end
        if event == "done" then changed = a end
        if event == "error" then failed, state = a, b end
        if event == "copyin" or event == "copyout" then
            return nil, "COPY needs copyin or copyout", "invalid"
        end
        if list and (list.bytes or 0) > limit then
            return nil, ("the rows have more than %d bytes: take them one by one"):format(limit),
                "toobig"
        end
        if event == "end" then
            whole = true
            if failed then return nil, failed, "remote", state end
            return changed
        end
    end
end

-- Sends a request by `send(handle, ...)`. If that fails the connection is lost.
local function submit(shared, send, ...)
    if not shared.handle then return nil, shared.why, "closed" end
    local ok, why = send(shared.handle, ...)
    if ok then return true end
    return lost(shared, why)
end

return {
    BATCH = BATCH, complete = complete, copied = copied, event_of = event_of, lose = lose,
    lost = lost, settle = settle, stop = stop, submit = submit,
}
