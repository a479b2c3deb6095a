-- SPDX-License-Identifier: MIT
-- Sending and receiving of datagrams, for UDP and for Unix-domain sockets.
local object = require "mare.luasocket._object"

local datagram = {SIZE = 8192}

-- The next datagram, as much of it as is wanted, and who sent it; or nil and why not.
local function receive(state, size)
    if not state.handle then return nil, "closed" end
    local data, host, port = state.handle:receive(object.deadline(state))
    if not data then return object.fail(data, host, port) end
    return data:sub(1, math.max(0, math.floor(size))), host, port
end

-- A datagram may be empty, and LuaSocket takes a socket that is closed for one.
local function not_received(why)
    if why == "closed" then return "" end
    return nil, why
end

--- The method `receive([size])`.
function datagram.receive(class)
    return function(self, size)
        local state = object.check(self, class)
        local data, why = receive(state, object.number(size, 2, datagram.SIZE))
        if not data then return not_received(why) end
        return data
    end
end

--- The method `receivefrom([size])`: the sender's address, too.
function datagram.receivefrom(class)
    return function(self, size)
        local state = object.check(self, class)
        local data, host, port = receive(state, object.number(size, 2, datagram.SIZE))
        if not data then return not_received(host) end
        if port == nil then return data, host end
        return data, host, port
    end
end

local function outcome(data, ok, message, code)
    if not ok then return object.fail(ok, message, code) end
    return #data + 0.0
end

--- The method `send(datagram)`, of one that has a peer.
function datagram.send(class)
    return function(self, data)
        local state = object.check(self, class)
        data = object.string(data, 2)
        if not state.handle then return nil, "closed" end
        return outcome(data, state.handle:write(data, object.deadline(state)))
    end
end

--- To an address.
function datagram.sendto(state, data, host, port)
    if not state.handle then return nil, "closed" end
    return outcome(data, state.handle:send(data, host, port, object.deadline(state)))
end

function datagram.dirty(class)
    return function(self)
        object.check(self, class)
        return false
    end
end

return datagram
