-- SPDX-License-Identifier: MIT
-- `socket` for machines on which LuaSocket's own socket.lua is not installed: the conveniences
-- around `socket.core`, and the sources and sinks of LTN12.
local socket = require "socket.core"

socket.BLOCKSIZE = 2048 -- bytes that a source hands on at once
socket.try = socket.newtry()

function socket.connect4(host, port, local_host, local_port)
    return socket.connect(host, port, local_host, local_port, "inet")
end

function socket.connect6(host, port, local_host, local_port)
    return socket.connect(host, port, local_host, local_port, "inet6")
end

-- A server on one address, or nil and why not.
local function serve(address, port, backlog)
    local server, why = (address.family == "inet6" and socket.tcp6 or socket.tcp4)()
    if not server then return nil, why end
    local done
    server:setoption("reuseaddr", true)
    done, why = server:bind(address.addr, port)
    if done then done, why = server:listen(backlog) end
    if done then return server end
    server:close()
    return nil, why
end

--- A server on the first of the host's addresses that lets itself be bound; "*" is every address.
function socket.bind(host, port, backlog)
    local addresses, why = socket.dns.getaddrinfo(host == "*" and "0.0.0.0" or host)
    if not addresses then return nil, why end
    local server
    for _, address in ipairs(addresses) do
        server, why = serve(address, port, backlog)
        if server then return server end
    end
    return nil, why or "no info on address"
end

--- A function that calls one of a table's, by name; without a name, the one called "default".
function socket.choose(functions)
    return function(name, ...)
        if type(name) ~= "string" then return functions.default(name, ...) end
        local chosen = functions[name]
        if not chosen then error(("unknown key (%s)"):format(name), 2) end
        return chosen(...)
    end
end

-- Something that is called like a function and can be selected like the socket behind it.
local function around(connection, call)
    return setmetatable({
        getfd = function() return connection:getfd() end,
        dirty = function() return connection:dirty() end,
    }, {__call = function(_, ...) return call(...) end})
end

socket.sinkt = {}

socket.sinkt["keep-open"] = function(connection)
    return around(connection, function(chunk)
        if not chunk then return 1 end
        return connection:send(chunk)
    end)
end

socket.sinkt["close-when-done"] = function(connection)
    return around(connection, function(chunk)
        if chunk then return connection:send(chunk) end
        connection:close()
        return 1
    end)
end

socket.sinkt.default = socket.sinkt["keep-open"]
socket.sink = socket.choose(socket.sinkt)

socket.sourcet = {}

socket.sourcet["by-length"] = function(connection, length)
    return around(connection, function()
        if length <= 0 then return nil end
        local chunk, why = connection:receive(math.min(socket.BLOCKSIZE, length))
        if why then return nil, why end
        length = length - #chunk
        return chunk
    end)
end

socket.sourcet["until-closed"] = function(connection)
    local over = false
    return around(connection, function()
        if over then return nil end
        local chunk, why, rest = connection:receive(socket.BLOCKSIZE)
        if not why then return chunk end
        if why ~= "closed" then return nil, why end
        over = true
        connection:close()
        return rest
    end)
end

socket.sourcet.default = socket.sourcet["until-closed"]
socket.source = socket.choose(socket.sourcet)

return socket
