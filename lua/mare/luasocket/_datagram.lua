-- SPDX-License-Identifier: MIT
-- Sending and receiving of datagrams, for UDP and for Unix-domain sockets.
local raw, object = require "mare._socket", require "mare.luasocket._object"

local datagram = {SIZE = 8192}

-- Tries until it is possible. What the call returned, or nil and why not.
local function try(state, to_write, call, ...)
    local start = object.start(state)
    while state.handle do
        local result, a, b = call(state.handle, ...)
        if result then return result, a, b end
        if result == false then result, a = object.wait(state, start, to_write) end
        if not result then return nil, a end
    end
    return nil, "closed"
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
        size = math.max(0, math.floor(object.number(size, 2, datagram.SIZE)))
        local bytes, why = try(state, false, raw.receive, size, false)
        if not bytes then return not_received(why) end
        return bytes
    end
end

--- The method `receivefrom([size])`: the sender's address, too.
function datagram.receivefrom(class)
    return function(self, size)
        local state = object.check(self, class)
        size = math.max(0, math.floor(object.number(size, 2, datagram.SIZE)))
        local bytes, host, port = try(state, false, raw.receive, size, true)
        if not bytes then return not_received(host) end
        if port == nil then return bytes, host end
        return bytes, host, port
    end
end

--- The method `send(datagram)`, of one that has a peer.
function datagram.send(class)
    return function(self, data)
        local state = object.check(self, class)
        data = object.string(data, 2)
        local sent, why = try(state, true, raw.send, data, 1, #data)
        if not sent then return nil, why end
        return sent + 0.0
    end
end

--- To an address.
function datagram.sendto(state, data, host, port)
    local sent, why = try(state, true, raw.sendto, data, host, port)
    if not sent then return nil, why end
    return sent + 0.0
end

function datagram.dirty(class)
    return function(self)
        object.check(self, class)
        return false
    end
end

return datagram
