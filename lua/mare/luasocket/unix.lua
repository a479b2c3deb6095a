-- SPDX-License-Identifier: MIT
-- `socket.unix`: Unix-domain sockets, streams and datagrams, with LuaSocket's interface.
local net = require "mare._net"
local object, options = require "mare.luasocket._object", require "mare.luasocket._options"
local stream, datagram = require "mare.luasocket._stream", require "mare.luasocket._datagram"

local PATH_MAX <const> = 107 -- bytes of a path

-- Does something with the path. A socket that could not be bound or connected is of no more use.
local function try(state, path, step)
    if #path > PATH_MAX then return nil, "path too long" end
    local handle = state.handle
    if not handle then return nil, "closed" end
    local done, message, code = step(handle, path, nil, object.deadline(state))
    if done then return 1.0 end
    handle:close()
    state.handle = nil
    return object.fail(done, message, code)
end

local function bind(class)
    return function(self, path)
        local state = object.check(self, class)
        return try(state, object.string(path, 2), net.bind)
    end
end

-- ---- Streams ------------------------------------------------------------------------------------

local function connect_stream(self, path)
    local state = object.check(self, "unixstream{master}")
    local done, why = try(state, object.string(path, 2), net.connect)
    if not done then return nil, why end
    object.become(self, "unixstream{client}")
    return done
end

object.classes({"unixstream{master}", "unixstream{client}", "unixstream{server}"}, {
    bind = bind "unixstream{master}",
    setsockname = bind "unixstream{master}",
    connect = connect_stream,
    setpeername = connect_stream,
    listen = stream.listen("unixstream{master}", "unixstream{server}"),
    accept = stream.accept("unixstream{server}", "unixstream{client}"),
    send = stream.send "unixstream{client}",
    receive = stream.receive "unixstream{client}",
    shutdown = stream.shutdown "unixstream{client}",
    getstats = stream.getstats "unixstream{client}",
    setstats = stream.setstats "unixstream{client}",
    dirty = stream.dirty "unixstream{any}",
    close = object.close "unixstream{any}",
    getfd = object.getfd "unixstream{any}",
    setfd = object.setfd("unixstream{any}", "stream"),
    getsockname = object.getname("unixstream{any}", false),
    settimeout = object.settimeout "unixstream{any}",
    setoption = options.setter("unixstream{any}", "keepalive reuseaddr linger"),
})

-- ---- Datagrams ----------------------------------------------------------------------------------

local function connect_datagrams(self, path)
    local state = object.check(self, "unixdgram{any}")
    local done, why = try(state, object.string(path, 2), object.set_peer)
    if not done then return nil, why end
    object.become(self, "unixdgram{connected}")
    return done
end

local function send_to(self, data, path)
    local state = object.check(self, "unixdgram{unconnected}")
    data, path = object.string(data, 2), object.string(path, 3)
    if #path > PATH_MAX then return nil, "path too long" end
    return datagram.sendto(state, data, path)
end

object.classes({"unixdgram{unconnected}", "unixdgram{connected}"}, {
    bind = bind "unixdgram{unconnected}",
    setsockname = bind "unixdgram{unconnected}",
    connect = connect_datagrams,
    setpeername = connect_datagrams,
    sendto = send_to,
    send = datagram.send "unixdgram{connected}",
    receive = datagram.receive "unixdgram{any}",
    receivefrom = datagram.receivefrom "unixdgram{unconnected}",
    dirty = datagram.dirty "unixdgram{any}",
    close = object.close "unixdgram{any}",
    getfd = object.getfd "unixdgram{any}",
    setfd = object.setfd("unixdgram{any}", "dgram"),
    getsockname = object.getname("unixdgram{any}", false),
    settimeout = object.settimeout "unixdgram{any}",
    gettimeout = object.gettimeout "unixdgram{any}",
    setoption = options.setter("unixdgram{any}", "reuseaddr"),
})

-- ---- The module ---------------------------------------------------------------------------------

local unix = {}

function unix.stream()
    local handle, why = object.open("unix", "stream")
    if not handle then return nil, why end
    return stream.new("unixstream{master}", handle, "unix")
end

function unix.dgram()
    local handle, why = object.open("unix", "dgram")
    if not handle then return nil, why end
    return object.new("unixdgram{unconnected}", {handle = handle, family = "unix"})
end

unix.tcp, unix.udp = unix.stream, unix.dgram

-- Before it had two kinds, the module was a function.
function unix.__call() return unix.stream() end

return setmetatable(unix, unix)
