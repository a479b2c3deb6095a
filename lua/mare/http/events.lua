-- SPDX-License-Identifier: MIT
-- Server-sent events (`text/event-stream` of the WHATWG): an answer that continues, event after
-- event; and how a client reads it.
local checks = require "mare._check"

local events = {}

local fields, known = checks.set("data", "event", "id", "retry"), checks.set("pause", "headers")

local function refuse(what) error("an event " .. what, 0) end

-- One line of a field. The value must not have a line break.
local function line(name, value)
    if type(value) ~= "string" or value:find "[\r\n\0]" then
        refuse(("whose %s is not a line of text"):format(name))
    end
    return name .. ": " .. value .. "\n"
end

--- An event as it is sent: a string, or a table with `data` (a string of any number of lines) and,
--- if they are wanted, `event` (its kind), `id` and `retry` (milliseconds until a client that has
--- lost its connection makes a new one).
function events.encode(event)
    if type(event) == "string" then event = {data = event} end
    if type(event) ~= "table" then refuse("that is a " .. type(event)) end
    for key in pairs(event) do
        if not fields[key] then refuse(("with an unknown field '%s'"):format(tostring(key))) end
    end
    local parts = {}
    if event.event ~= nil then parts[#parts + 1] = line("event", event.event) end
    if event.id ~= nil then parts[#parts + 1] = line("id", event.id) end
    if event.retry ~= nil then
        if math.type(event.retry) ~= "integer" then refuse("whose retry is not an integer") end
        parts[#parts + 1] = ("retry: %d\n"):format(event.retry)
    end
    if event.data ~= nil then
        if type(event.data) ~= "string" then refuse("whose data is not a string") end
        for text in (event.data:gsub("\r\n?", "\n") .. "\n"):gmatch "(.-)\n" do
            parts[#parts + 1] = "data: " .. text .. "\n"
        end
    end
    return table.concat(parts) .. "\n"
end

--- An answer that sends events for as long as there are some: `next_event(seconds)` returns the
--- next one, and may wait for it; nil at the end. If it returns nil, a message and "timeout",
--- because it has waited for so many seconds, a comment is sent, so that nobody on the way takes
--- the connection for dead. Options: `pause`, these seconds (15); `headers`.
function events.answer(next_event, options)
    options = options or {}
    checks.argument("answer", next_event, 1, "function")
    checks.argument("answer", options, 2, "table")
    checks.options("answer", options, 2, known)
    checks.option("answer", options, 2, "pause", checks.span, "a number of seconds")
    checks.option("answer", options, 2, "headers", "table", "a table")
    local headers = {["content-type"] = "text/event-stream", ["cache-control"] = "no-store",
        ["x-accel-buffering"] = "no"}
    for name, value in pairs(options.headers or {}) do headers[name:lower()] = value end
    local pause, begun = options.pause or 15, false
    return {headers = headers, body = function()
        if not begun then
            begun = true
            return ": \n\n" -- the client learns that it is connected
        end
        local event, message, code = next_event(pause)
        if event ~= nil then return events.encode(event) end
        if code == "timeout" then return ": \n\n" end
        return nil, message, code
    end}
end

-- Takes one line of the stream into the event that is being read. `lines` are the lines of its
-- data.
local function take_line(text, event, lines)
    local name, value = text:match "^([^:]*):? ?(.*)$"
    if name == "data" then
        lines[#lines + 1] = value
    elseif name == "event" then
        event.event = value
    elseif name == "id" and not value:find "\0" then
        event.id = value
    elseif name == "retry" and value:find "^%d+$" then
        event.retry = tonumber(value)
    end
end

-- A line may come in a million pieces of one byte: they are joined now and then.
local pieces_most = 4096

--- An iterator over the events of a response: tables with `data` and, if the server sent them,
--- `event`, `id` and `retry`; nil at the end, or nil, message, code. An event of more than `most`
--- bytes (1 MiB) is `toobig`.
function events.read(response, most)
    if most ~= nil then checks.argument("read", most, 2, "number") end
    most = most or 1048576
    local text, at, event, lines, size = "", 1, {}, {}, 0 -- what was read, and how far it was used
    local half = false -- a CR was the last byte: a LF after it belongs to the same line break

    -- Reads up to a line break: true, or nil, message, code.
    local function read_on()
        text, at = text:sub(at), 1
        local pieces, length = {text}, #text
        local more, message, code
        repeat
            if size + length > most then
                text = table.concat(pieces)
                return nil, "an event is too large", "toobig"
            end
            more, message, code = response:read()
            if half and more and more ~= "" then
                half, more = false, more:gsub("^\n", "")
            end
            pieces[#pieces + 1], length = more, length + #(more or "")
            if #pieces == pieces_most then pieces = {table.concat(pieces)} end
        until not more or more:find "[\r\n]"
        text = table.concat(pieces)
        return more and true, message, code
    end

    return function()
        while true do
            local first = text:find("[\r\n]", at)
            if first then
                local one = text:sub(at, first - 1)
                half = first == #text and text:sub(first) == "\r"
                at = first + (text:find("^\r\n", first) and 2 or 1)
                size = size + #one
                if one == "" then
                    local whole = event
                    if #lines > 0 then whole.data = table.concat(lines, "\n") end
                    event, lines, size = {}, {}, 0
                    if whole.data then return whole end
                elseif one:sub(1, 1) ~= ":" then
                    take_line(one, event, lines)
                end
            else
                local ok, message, code = read_on()
                if not ok then return nil, message, code end
            end
        end
    end
end

return events
