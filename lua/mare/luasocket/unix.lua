-- SPDX-License-Identifier: MIT
-- `socket.unix`: Unix-domain sockets, streams and datagrams, with LuaSocket's interface.
local raw = require "mare._socket"
local object, options = require "mare.luasocket._object", require "mare.luasocket._options"
local stream, datagram = require "mare.luasocket._stream", require "mare.luasocket._datagram"

local PATH_MAX <const> = 107 -- bytes of a path

-- A socket that could not be bound or connected is of no more use.
local function give_up(state, why)
    if state.handle then raw.close(state.handle) end
    state.handle = nil
    return nil, why
end

local function bind(class)
    return function(self, path)
        local state = object.check(self, class)
        path = object.string(path, 2)
        if #path > PATH_MAX then return nil, "path too long" end
        if not state.handle then return nil, "closed" end
        local done, why = raw.bind(state.handle, path)
        if not done then return give_up(state, why) end
        return 1.0
    end
end

-- ---- Streams ------------------------------------------------------------------------------------

local function connect_stream(self, path)
    local state = object.check(self, "unixstream{master}")
    path = object.string(path, 2)
    if #path > PATH_MAX then return nil, "path too long" end
    if not state.handle then return nil, "closed" end
    local done, why = object.connect_one(state, object.start(state), path)
    if not done then return give_up(state, why) end
    object.become(self, "unixstream{client}")
    return 1.0
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
    setfd = object.setfd "unixstream{any}",
    getsockname = object.getname("unixstream{any}", false),
    settimeout = object.settimeout "unixstream{any}",
    setoption = options.setter("unixstream{any}", "keepalive reuseaddr linger"),
})

-- ---- Datagrams ----------------------------------------------------------------------------------

local function connect_datagrams(self, path)
    local state = object.check(self, "unixdgram{any}")
    path = object.string(path, 2)
    if #path > PATH_MAX then return nil, "path too long" end
    if not state.handle then return nil, "closed" end
    local done, why = raw.connect(state.handle, path)
    if not done then return give_up(state, why) end
    object.become(self, "unixdgram{connected}")
    return 1.0
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
    setfd = object.setfd "unixdgram{any}",
    getsockname = object.getname("unixdgram{any}", false),
    settimeout = object.settimeout "unixdgram{any}",
    gettimeout = object.gettimeout "unixdgram{any}",
    setoption = options.setter("unixdgram{any}", "reuseaddr"),
})

-- ---- The module ---------------------------------------------------------------------------------

local unix = {}

function unix.stream()
    local handle, why = raw.open("unix", "stream")
    if not handle then return nil, why end
    return stream.new("unixstream{master}", handle, "unix")
end

function unix.dgram()
    local handle, why = raw.open("unix", "dgram")
    if not handle then return nil, why end
    return object.new("unixdgram{unconnected}", {handle = handle, family = "unix"})
end

unix.tcp, unix.udp = unix.stream, unix.dgram

-- Before it had two kinds, the module was a function.
function unix.__call() return unix.stream() end

return setmetatable(unix, unix)
