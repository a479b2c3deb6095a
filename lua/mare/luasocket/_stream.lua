-- SPDX-License-Identifier: MIT
-- Reading and writing of connections, for TCP and for Unix-domain sockets. What was read and not
-- yet asked for is in the state: `bytes`, of which the first that is left is number `first`.
local mare, raw = require "mare", require "mare._socket"
local object = require "mare.luasocket._object"

local STEP <const> = 8192 -- bytes read at once

local stream = {}

local limit = 64 << 20 -- bytes that a call receives at the most, of objects made from now on

--- Which that is; or sets it, and returns what it was.
function stream.receivelimit(bytes)
    local before = limit
    if bytes ~= nil then
        bytes = object.number(bytes, 1)
        if bytes ~= bytes or bytes < 1 then object.refuse(2, 1, "a limit is positive") end
        limit = math.floor(bytes)
    end
    return before
end

--- A new object of a class, around a connection.
function stream.new(class, handle, family)
    return object.new(class, {handle = handle, family = family, bytes = "", first = 1,
        received = 0, sent = 0, birth = mare.now(), limit = limit})
end

local function is_empty(state) return state.first > #state.bytes end

-- Reads into the empty buffer. True, or nil and why not.
local function fill(state, start)
    while state.handle do
        local bytes, why = raw.receive(state.handle, STEP)
        if bytes then
            if bytes == "" then break end
            state.bytes, state.first = bytes, 1
            return true
        end
        if bytes == false then bytes, why = object.wait(state, start, false) end
        if not bytes then return nil, why end
        if not is_empty(state) then return true end -- another routine has read meanwhile
    end
    return nil, "closed"
end

-- Takes bytes from the buffer up to a position.
local function take(state, last)
    local bytes = state.bytes:sub(state.first, last)
    state.received = state.received + #bytes
    state.first = last + 1
    if is_empty(state) then state.bytes, state.first = "", 1 end
    return bytes
end

-- Reads until `enough(state)` says up to where in the buffer; it may say that more is to come. What
-- goes beyond the object's limit, but for the end of a line, stays in the buffer.
local function collect(state, parts, prefix, enough)
    local start, more, room = object.start(state), true, state.limit - #prefix
    while more do
        local last, ending
        if is_empty(state) then
            local ok, why = fill(state, start)
            if not ok then return why end
        end
        last, more, ending = enough(state)
        room = room - (last - state.first + 1) + (ending or 0)
        if room < 0 then
            parts[#parts + 1] = take(state, math.max(state.first - 1, last + room - (ending or 0)))
            return "toobig"
        end
        parts[#parts + 1] = take(state, last)
    end
end

local function line(state)
    local stop = state.bytes:find("\n", state.first, true)
    return stop or #state.bytes, not stop, stop and 1
end

local function everything(state) return #state.bytes, true end

local function receive_line(state, prefix)
    local parts = {}
    local why = collect(state, parts, prefix, line)
    local text = prefix .. table.concat(parts):gsub("[\r\n]", "")
    if why then return nil, why, text end
    return text, nil, nil
end

local function receive_all(state, prefix)
    local parts = {}
    local why = collect(state, parts, prefix, everything)
    local text = prefix .. table.concat(parts)
    if why == "closed" and #parts > 0 then return text, nil, nil end
    return nil, why, text
end

local function receive_number(state, wanted, prefix)
    local parts = {}
    if #prefix > 0 and wanted <= #prefix then return prefix, nil, nil end
    if wanted > state.limit then return nil, "toobig", prefix end
    local left = wanted - #prefix
    local why = collect(state, parts, prefix, function()
        local last = math.min(#state.bytes, state.first + left - 1)
        left = left - (last - state.first + 1)
        return last, left > 0
    end)
    local text = prefix .. table.concat(parts)
    if why then return nil, why, text end
    return text, nil, nil
end

--- The method `receive([pattern [, prefix]])`.
function stream.receive(class)
    return function(self, pattern, prefix)
        local state = object.check(self, class)
        prefix = object.string(prefix, 3, "")
        local number = tonumber(pattern)
        if number then
            if number < 0 then object.refuse(2, 2, "invalid receive pattern") end
            return receive_number(state, math.floor(number), prefix)
        end
        local letter = object.string(pattern, 2, "*l"):match "^%*(.)"
        if letter == "l" then return receive_line(state, prefix) end
        if letter == "a" then return receive_all(state, prefix) end
        object.refuse(2, 2, "invalid receive pattern")
    end
end

-- Sends a piece of the data. Why it could not be sent whole, if so, and the number of its last byte
-- that went.
local function send_piece(state, data, first, last)
    local start, sent = object.start(state), first - 1
    while sent < last do
        if not state.handle then return "closed", sent end
        local count, why = raw.send(state.handle, data, sent + 1, last)
        if count then
            sent = sent + count
            state.sent = state.sent + count
        else
            local ready
            if count == false then ready, why = object.wait(state, start, true) end
            if not ready then return why, sent end
        end
    end
    return nil, sent
end

local function position(value, size, default)
    value = math.floor(value or default)
    return value < 0 and size + value + 1 or value
end

--- The method `send(data [, i [, j]])`.
function stream.send(class)
    return function(self, data, i, j)
        local state = object.check(self, class)
        data = object.string(data, 2)
        local first = math.max(1, position(object.number(i, 3, 1), #data))
        local last = math.min(#data, position(object.number(j, 4, -1), #data))
        local why, sent = nil, first - 1
        if first <= last then why, sent = send_piece(state, data, first, last) end
        if why then return nil, why, sent + 0.0 end
        return sent + 0.0, nil, nil
    end
end

function stream.dirty(class)
    return function(self)
        local state = object.check(self, class)
        return state.bytes ~= nil and not is_empty(state)
    end
end

function stream.getstats(class)
    return function(self)
        local state = object.check(self, class)
        return state.received + 0.0, state.sent + 0.0, mare.now() - state.birth
    end
end

function stream.setstats(class)
    return function(self, received, sent, age)
        local state = object.check(self, class)
        state.received = object.number(received, 2, state.received)
        state.sent = object.number(sent, 3, state.sent)
        if age then state.birth = mare.now() - object.number(age, 4) end
        return 1.0
    end
end

--- The method `accept()`: the next connection, an object of the client's class.
function stream.accept(class, client)
    return function(self)
        local state = object.check(self, class)
        local start = object.start(state)
        while state.handle do
            local handle, why = raw.accept(state.handle)
            if handle then
                local new = stream.new(client, handle, state.family)
                raw.state(new).limit = state.limit
                return new
            end
            if handle == false then handle, why = object.wait(state, start, false) end
            if not handle then return nil, why end
        end
        return nil, "closed"
    end
end

--- The method `listen([backlog])`, which makes a server of a master.
function stream.listen(class, server)
    return function(self, backlog)
        local state = object.check(self, class)
        backlog = math.floor(object.number(backlog, 2, 32))
        if not state.handle then return nil, "Bad file descriptor" end
        local done, why = raw.listen(state.handle, backlog)
        if not done then return nil, why end
        object.become(self, server)
        return 1.0
    end
end

function stream.shutdown(class)
    return function(self, how)
        local state = object.check(self, class)
        how = object.word(how, 2, "both", {"receive", "send", "both"})
        if state.handle then raw.shutdown(state.handle, how) end
        return 1.0
    end
end

return stream
