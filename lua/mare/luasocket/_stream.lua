-- SPDX-License-Identifier: MIT
-- Reading and writing of connections, for TCP and for Unix-domain sockets. What was read and not
-- yet asked for is in the buffer of the stream underneath.
local mare, net, raw = require "mare", require "mare._net", require "mare._socket"
local object = require "mare.luasocket._object"

local stream = {}

local limit = 64 << 20 -- bytes that a call receives at the most, of objects made from now on

--- Returns that limit; or sets it, and returns the old one.
function stream.receivelimit(bytes)
    local before = limit
    if bytes ~= nil then
        bytes = object.number(bytes, 1)
        if bytes ~= bytes or bytes < 1 then object.refuse(2, 1, "a limit is positive") end
        limit = math.floor(bytes)
    end
    return before
end

--- A new object of a class, around a connection, or one to be made.
function stream.new(class, handle, family)
    return object.new(class, {handle = handle, family = family, received = 0, sent = 0,
        birth = mare.now(), limit = limit})
end

-- How many bytes a call may still receive, if it was given a prefix. Also tells the stream.
local function room_for(state, prefix)
    local room = state.limit - #prefix
    if room ~= state.room and room >= 1 then
        local bytes = math.tointeger(math.min(room, 1 << 53))
        state.handle:limit(bytes, bytes)
        state.room = room
    end
    return room
end

-- Reads from the stream: all that was asked for; else nil, why not, and the part that has come.
-- Bytes beyond the object's limit, apart from a line's end, stay in the buffer.
local function read(state, what, prefix)
    local handle = state.handle
    if not handle then return nil, "closed", "" end
    local room = room_for(state, prefix)
    if room < 1 then return nil, "toobig", "" end
    local bytes, message, code = handle:read(what, object.deadline(state))
    local part = bytes
    if code == "toobig" then
        part = handle:read(math.tointeger(room), 0)
    elseif what == "L" and bytes and bytes:find("\r\n", room + 1, true) then -- a CR counts
        raw.unread(handle, bytes:sub(room + 1))
        bytes, part, message, code = nil, bytes:sub(1, room), "", "toobig"
    elseif not bytes then
        part = raw.rest(handle)
    end
    state.received = state.received + #part
    if bytes then return bytes end
    return nil, raw.words(message, code), part
end

local function receive_line(state, prefix)
    local line, why, part = read(state, "L", prefix)
    line = line or part
    if line:byte(-1) == 10 then line = line:sub(1, -2) else why = why or "closed" end
    if line:find("\r", 1, true) then line = line:gsub("\r", "") end -- wherever one is
    if #prefix > 0 then line = prefix .. line end
    if why then return nil, why, line end
    return line, nil, nil
end

local function receive_all(state, prefix)
    local bytes, why, part = read(state, "a", prefix)
    part = bytes or part
    if (bytes or why == "closed") and #part > 0 then return prefix .. part, nil, nil end
    return nil, why or "closed", prefix .. part
end

-- As LuaSocket does: waits until there is something to receive, and takes none of it.
local function receive_nothing(state)
    local handle = state.handle
    if not handle then return nil, "closed", "" end
    local bytes, message, code = handle:read(1, object.deadline(state))
    if not bytes then return nil, raw.words(message, code), "" end
    raw.unread(handle, bytes)
    return "", nil, nil
end

local function receive_number(state, wanted, prefix)
    if #prefix > 0 and wanted <= #prefix then return prefix, nil, nil end
    if wanted > state.limit then return nil, "toobig", prefix end
    local left = math.tointeger(wanted) - #prefix
    if left == 0 then return receive_nothing(state) end
    local bytes, why, part = read(state, left, prefix)
    if bytes and #bytes == left then return prefix .. bytes, nil, nil end
    return nil, why or "closed", prefix .. (bytes or part)
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

-- Sends a piece of the data. If not all of it was sent, returns why, and the number of the last
-- byte that was.
local function send_piece(state, data, first, last)
    if not state.handle then return "closed", first - 1 end
    if first > 1 or last < #data then data = data:sub(first, last) end
    local ok, message, code, sent = state.handle:writewithin(object.deadline(state), data)
    sent = ok and #data or sent
    state.sent = state.sent + sent
    return not ok and raw.words(message, code) or nil, first - 1 + sent
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
        local handle = object.check(self, class).handle
        return handle ~= nil and raw.buffered(handle) > 0
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
        if not state.handle then return nil, "closed" end
        local handle, message, code = state.handle:accept(object.deadline(state))
        if not handle then return object.fail(handle, message, code) end
        local new = stream.new(client, handle, state.family)
        object.state(new).limit = state.limit
        return new
    end
end

--- The method `listen([backlog])`, which makes a server of a master.
function stream.listen(class, server)
    return function(self, backlog)
        local state = object.check(self, class)
        backlog = math.floor(object.number(backlog, 2, 32))
        if not state.handle then return nil, "Bad file descriptor" end
        backlog = math.max(1, math.min(backlog, 65535))
        local listener, message, code = net.listen(state.handle, backlog)
        if not listener then return object.fail(listener, message, code) end
        object.give(state, listener)
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
