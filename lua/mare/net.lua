-- SPDX-License-Identifier: MIT
-- Streams over TCP and Unix-domain sockets, and datagrams, by name or by number. The waiting is
-- done in C (src/lua/net.c, connect.c, udp.c). This file has the policy: the steps in which a
-- socket is made, which address is tried, and how a server goes on when it cannot accept.
local mare, raw = require "mare", require "mare._net"
local checks = require "mare._check"
local check, deadline_of = checks.argument, checks.deadline
local listen_options = checks.set("backlog", "shared", "limit")

local net = {resolve = raw.resolve}

local function is_path(host) return host:find "^[/.]" ~= nil end

-- A new socket for an address.
local function open(address, kind)
    return raw.open(is_path(address) and "unix" or address:find ":" and "inet6" or "inet", kind)
end

-- The result of the last step; if there is none, the socket is closed.
local function finish(socket, result, message, code)
    if result then return result end
    socket:close()
    return nil, message, code
end

-- What a person could try next, by the code of a failure.
local advice = {
    connect = {refused = " (is the server running, and does it listen there?)"},
    listen = {exists = " (another program listens there, or this one does already)"},
}

-- A failure with the action and the address: "cannot connect to 127.0.0.1:80: …".
local function explain(what, host, port, message, code)
    if code == "cancelled" then return nil, message, code end
    local at = port and (host:find ":" and "[%s]:%d" or "%s:%d"):format(host, port) or host
    local words = what == "connect" and "cannot connect to" or "cannot listen at"
    return nil, ("%s %s: %s%s"):format(words, at, message, advice[what][code] or ""), code
end

local function connect(address, port, deadline)
    local stream, message, code = open(address, "stream")
    if not stream then return nil, message, code end
    if port then stream:option("nodelay", true) end -- so that small writes leave at once
    return finish(stream, raw.connect(stream, address, port, deadline))
end

--- A stream to a host and port, or to the path of a Unix-domain socket (`connect(path, nil,
--- timeout)`). Every address of a name is tried in turn.
function net.connect(host, port, timeout)
    checks.address("connect", host, port)
    local deadline = deadline_of("connect", timeout, 3)
    local addresses, message, code = {host}, nil, nil
    if is_path(host) then port = nil else addresses, message, code = raw.resolve(host, deadline) end
    if not addresses then return nil, message, code end
    local stream
    for _, address in ipairs(addresses) do
        stream, message, code = connect(address, port, deadline)
        local over = code == "timeout" and deadline and deadline:left() == 0
        if stream then return stream end
        if over or code == "cancelled" then break end
    end
    return explain("connect", host, port, message, code)
end

-- Sets options, binds the socket and calls `rest`.
local function bind(socket, options, host, port, rest)
    local ok, message, code = true, nil, nil
    for _, name in ipairs(options) do
        if ok then ok, message, code = socket:option(name, true) end
    end
    if ok then ok, message, code = raw.bind(socket, host, port) end
    if ok then ok, message, code = rest(socket) end
    return finish(socket, ok, message, code)
end

--- A listener on a host and port (0: any that is free), or on the path of a Unix-domain socket.
--- Options: `backlog`; `shared`: other listeners, of other processes, may have the same port, and
--- connections are spread over them; `limit`, as `listener:limit`. The timeout is for the name of
--- the host.
function net.listen(host, port, options, timeout)
    checks.address("listen", host, port)
    options = options or {}
    check("listen", options, 3, "table")
    checks.options("listen", options, 3, listen_options)
    local deadline = deadline_of("listen", timeout, 4)
    local limit = options.limit
    if limit ~= nil and (math.type(limit) ~= "integer" or limit < 1) then
        error("bad argument #3 to 'listen' (option 'limit' must be a positive integer)", 2)
    end
    local address = host
    if is_path(host) then
        port = nil
    else
        local addresses, message, code = raw.resolve(host, deadline)
        if not addresses then return nil, message, code end
        address = addresses[1]
    end
    local socket, message, code = open(address, "stream")
    if not socket then return nil, message, code end
    local set = port and {"reuseaddr", "nodelay"} or {} -- what it accepts inherits them
    if options.shared then set[#set + 1] = "reuseport" end
    local listener
    listener, message, code = bind(socket, set, address, port, function()
        return raw.listen(socket, options.backlog or 1024)
    end)
    if not listener then return explain("listen", host, port, message, code) end
    if limit then listener:limit(limit) end
    return listener
end

--- Two streams joined in memory: what is written to one is read from the other. Each way has room
--- for so many bytes (65,536).
function net.pair(room)
    local one, other = checks.pass("pair", 1, 3, raw.pair, room or 65536)
    return one, other
end

-- Options of net.udp that must be set before the bind, and their names for the socket.
local early = {reuse = "reuseaddr", shared = "reuseport"}

-- Sets what the options of net.udp say besides. A wrong one is a mistake at the program's line.
local function set_option(socket, name, value)
    local ok, set, message, code
    if name == "limit" then
        ok, set = pcall(socket.limit, socket, value)
    else
        ok, set, message, code = pcall(socket.option, socket, name, value)
    end
    if ok then return set, message, code end
    local why = tostring(set):match "%((.*)%)$" or set
    local unknown = why:match "^invalid (option '.*')$"
    checks.blame(("bad argument #3 to 'udp' (%s)"):format(unknown and "unknown " .. unknown
        or ("option '%s': %s"):format(tostring(name), why)))
end

--- A socket for datagrams at a host and port, or at a path; without them, at any address of this
--- machine and a port that is free. Options: `reuse` and `shared` let others have the same port,
--- `both` speaks IPv4 too at "::", and all that `socket:option` and `socket:limit` know. The
--- timeout is for the name of the host.
function net.udp(host, port, options, timeout)
    host, options = host or "0.0.0.0", options or {}
    checks.address("udp", host, port or 0)
    if is_path(host) then port = nil else port = port or 0 end
    check("udp", options, 3, "table")
    if port then
        local addresses, message, code = raw.resolve(host, deadline_of("udp", timeout, 4))
        if not addresses then return nil, message, code end
        host = addresses[1]
    end
    local socket, message, code = open(host, "dgram")
    if not socket then return nil, message, code end
    if host:find ":" and port then socket:option("ipv6-v6only", not options.both) end
    local set = {}
    for name, meant in pairs(early) do
        if options[name] then set[#set + 1] = meant end
    end
    local bound
    bound, message, code = bind(socket, set, host, port, function()
        local ok = socket
        for name, value in pairs(options) do
            if ok and not early[name] and name ~= "both" then
                ok, message, code = set_option(socket, name, value)
            end
        end
        return ok, message, code
    end)
    if not bound then return explain("listen", host, port, message, code) end
    return bound
end

-- `served`: the connections of a listener that are being served or about to be accepted; `count` is
-- their number. This leaves them by <close>, however a connection ends.
local function leave(served)
    served.count = served.count - 1
    raw.left(served.listener)
end

local Served = {__close = leave}

local served_of = setmetatable({}, {__mode = "k"})

local function served_at(listener)
    local served = served_of[listener]
    if not served then
        served = setmetatable({listener = listener, count = 0}, Served)
        served_of[listener] = served
    end
    return served
end

-- The next connection, when one more is allowed. It is counted before it has come, because others
-- may serve the same listener.
local function accept(served)
    local listener = served.listener
    local room, message, code
    repeat room, message, code = raw.room(listener, served.count) until room ~= false
    if not room then return nil, message, code end
    served.count = served.count + 1
    local stream
    stream, message, code = listener:accept()
    if not stream then leave(served) end
    return stream, message, code
end

-- For a server whose connections are served in other processes: accepts the next one; then, says
-- that one has ended.
function net._accept(listener) return accept(served_at(listener)) end

function net._left(listener) leave(served_at(listener)) end

--- Accepts as long as the listener is open, and runs `handler(stream, ...)` for each connection in
--- a routine of its own, which closes the connection at the end. When `listener:limit` connections
--- are served, others wait in the system until one has ended. Without free descriptors it waits a
--- little until some are closed.
function net.serve(listener, handler, ...)
    mare._needs_routines "serve"
    checks.object("serve", listener, 1, "listener")
    check("serve", handler, 2, "function")
    checks.call("serve", 1, raw.room, listener, 0) -- refuses what is no listener of ours
    local served = served_at(listener)
    local function handle(stream, ...)
        local _ <close> = served
        local _ <close> = stream
        return handler(stream, ...)
    end
    while true do
        local stream, message, code = accept(served)
        if stream then
            local ok, err = pcall(mare.go, handle, stream, ...)
            if not ok then -- not enough memory: neither the handler nor its cleanup will run
                leave(served)
                stream:close()
                error(err, 0)
            end
        elseif code == "closed" or code == "cancelled" then
            return nil, message, code
        else
            local _, why, how = mare.sleep(0.05)
            if how then return nil, why, how end
        end
    end
end

--- Tells the peer that nothing more comes, and throws away what it still sends, for at most a
--- second. Closing with unread bytes would reset the connection, and the peer could lose the last
--- answer.
function net.linger(stream)
    checks.object("linger", stream, 1, "stream")
    local deadline = mare.deadline(1)
    stream:shutdown()
    for _ = 1, 64 do
        if not stream:read(nil, deadline) then return end
    end
end

return net
