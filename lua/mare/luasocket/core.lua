-- SPDX-License-Identifier: MIT
-- `socket.core`: LuaSocket's interface over Maré's scheduler. A call that waits holds back the
-- routine that made it, and nobody else. Debian's socket.lua, and what is built on it, runs over
-- this in place of the C module of the same name (docs/reference/luasocket.md).
local mare, raw = require "mare", require "mare._socket"
local object, options = require "mare.luasocket._object", require "mare.luasocket._options"
local stream, datagram = require "mare.luasocket._stream", require "mare.luasocket._datagram"

local core = {
    _VERSION = "LuaSocket 3.0.0",
    _DATAGRAMSIZE = datagram.SIZE,
    _SETSIZE = 1024, -- as there, though it is no limit here
    _SOCKETINVALID = -1,
}

-- ---- TCP ----------------------------------------------------------------------------------------

local function tcp_bind(self, host, service)
    local state = object.check(self, "tcp{any}")
    host, service = object.string(host, 2), object.string(service, 3)
    local done, why = object.bind(state, "stream", host, service)
    if not done then return nil, why end
    return 1.0
end

local function tcp_connect(self, host, service)
    local state = object.check(self, "tcp{any}")
    host, service = object.string(host, 2), object.string(service, 3)
    local done, why = object.connect(state, "stream", host, service)
    object.become(self, "tcp{client}") -- even if it is only under way
    if not done then return nil, why end
    return 1.0
end

object.classes({"tcp{master}", "tcp{client}", "tcp{server}"}, {
    bind = tcp_bind,
    setsockname = tcp_bind,
    connect = tcp_connect,
    setpeername = tcp_connect,
    listen = stream.listen("tcp{master}", "tcp{server}"),
    accept = stream.accept("tcp{server}", "tcp{client}"),
    send = stream.send "tcp{client}",
    receive = stream.receive "tcp{client}",
    shutdown = stream.shutdown "tcp{client}",
    getstats = stream.getstats "tcp{client}",
    setstats = stream.setstats "tcp{client}",
    dirty = stream.dirty "tcp{any}",
    close = object.close "tcp{any}",
    getfd = object.getfd "tcp{any}",
    setfd = object.setfd("tcp{any}", "stream"),
    getfamily = object.getfamily "tcp{any}",
    getsockname = object.getname("tcp{any}", false),
    getpeername = object.getname("tcp{any}", true),
    settimeout = object.settimeout "tcp{any}",
    gettimeout = object.gettimeout "tcp{any}",
    setoption = options.setter("tcp{any}", [[keepalive reuseaddr reuseport tcp-nodelay tcp-keepidle
        tcp-keepcnt tcp-keepintvl ipv6-v6only linger recv-buffer-size send-buffer-size
        tcp-defer-accept tcp-fastopen tcp-fastopen-connect]]),
    getoption = options.getter("tcp{any}", [[keepalive reuseaddr reuseport tcp-nodelay tcp-keepidle
        tcp-keepcnt tcp-keepintvl linger error recv-buffer-size send-buffer-size]]),
})

-- An object, with a socket of its family; of none, the socket comes with the address.
local function make(new, class, family, kind)
    local handle, why
    if family ~= "unspec" then
        handle, why = object.open(family, kind)
        if not handle then return nil, why end
    end
    return new(class, handle, family)
end

function core.tcp() return make(stream.new, "tcp{master}", "unspec", "stream") end
function core.tcp4() return make(stream.new, "tcp{master}", "inet", "stream") end
function core.tcp6() return make(stream.new, "tcp{master}", "inet6", "stream") end

--- A client that is connected: to a host and port, perhaps from a local address.
function core.connect(host, service, local_host, local_service, family)
    host, service = object.string(host, 1), object.string(service, 2)
    if local_host ~= nil then local_host = object.string(local_host, 3) end
    local_service = object.string(local_service, 4, "0")
    family = object.word(family, 5, "unspec", {"unspec", "inet", "inet6"})
    local self = stream.new("tcp{client}", nil, family)
    local state, done, why = object.state(self), true, nil
    if local_host then done, why = object.bind(state, "stream", local_host, local_service) end
    if done then done, why = object.connect(state, "stream", host, service) end
    if done then return self end
    self:close()
    return nil, why
end

-- ---- UDP ----------------------------------------------------------------------------------------

local function udp_setsockname(self, host, service)
    local state = object.check(self, "udp{unconnected}")
    host, service = object.string(host, 2), object.string(service, 3)
    local done, why = object.bind(state, "dgram", host, service)
    if not done then return nil, why end
    return 1.0
end

local function udp_setpeername(self, host, service)
    local state = object.check(self, "udp{any}")
    host = object.string(host, 2)
    local done, why = true, nil
    if host == "*" then
        if state.handle then
            local code
            done, why, code = state.handle:connect()
            if not done then why = raw.words(why, code) end
        end
    else
        done, why = object.connect(state, "dgram", host, object.string(service, 3))
    end
    if not done then return nil, why end
    object.become(self, host == "*" and "udp{unconnected}" or "udp{connected}")
    return 1.0
end

-- Only numbers are taken, as by LuaSocket, in the words of the C library.
local function udp_sendto(self, data, host, service)
    local state = object.check(self, "udp{unconnected}")
    data, host = object.string(data, 2), object.string(host, 3)
    local port, why = raw.service(object.string(service, 4), true,
        object.patience(state, object.deadline(state)))
    local family = raw.numeric(host)
    if why then return nil, why end
    if not family or not port then return nil, "Name or service not known" end
    if state.family ~= "unspec" and state.family ~= family then
        return nil, "Address family for hostname not supported"
    end
    if not state.handle then
        if state.family ~= "unspec" then return nil, "closed" end
        local handle
        handle, why = object.open(family, "dgram")
        if not handle then return nil, why end
        state.family = family
        object.give(state, handle)
    end
    return datagram.sendto(state, data, host, port)
end

object.classes({"udp{unconnected}", "udp{connected}"}, {
    setsockname = udp_setsockname,
    setpeername = udp_setpeername,
    sendto = udp_sendto,
    send = datagram.send "udp{connected}",
    receive = datagram.receive "udp{any}",
    receivefrom = datagram.receivefrom "udp{unconnected}",
    dirty = datagram.dirty "udp{any}",
    close = object.close "udp{any}",
    getfd = object.getfd "udp{any}",
    setfd = object.setfd("udp{any}", "dgram"),
    getfamily = object.getfamily "udp{any}",
    getsockname = object.getname("udp{any}", false),
    getpeername = object.getname("udp{connected}", true),
    settimeout = object.settimeout "udp{any}",
    gettimeout = object.gettimeout "udp{any}",
    setoption = options.setter("udp{any}", [[dontroute broadcast reuseaddr reuseport ip-multicast-if
        ip-multicast-ttl ip-multicast-loop ip-add-membership ip-drop-membership ipv6-unicast-hops
        ipv6-multicast-hops ipv6-multicast-loop ipv6-add-membership ipv6-drop-membership
        ipv6-v6only recv-buffer-size send-buffer-size]]),
    getoption = options.getter("udp{any}", [[dontroute broadcast reuseaddr reuseport ip-multicast-if
        ip-multicast-loop error ipv6-unicast-hops ipv6-multicast-hops ipv6-multicast-loop
        ipv6-v6only recv-buffer-size send-buffer-size]]),
})

local function new_udp(class, handle, family)
    return object.new(class, {handle = handle, family = family})
end

function core.udp() return make(new_udp, "udp{unconnected}", "unspec", "dgram") end
function core.udp4() return make(new_udp, "udp{unconnected}", "inet", "dgram") end
function core.udp6() return make(new_udp, "udp{unconnected}", "inet6", "dgram") end

-- ---- Select -------------------------------------------------------------------------------------

-- The descriptor of an object that is not ours but behaves like one of ours; nil if it has none.
local function descriptor_of(thing)
    local getfd = thing.getfd
    local fd = getfd and tonumber((getfd(thing)))
    return fd and fd >= 0 and math.floor(fd) or nil
end

local function is_dirty(thing)
    local dirty = thing.dirty
    return dirty and dirty(thing)
end

-- The sockets to watch, and the objects of the program's lists that they stand for. Copies of
-- foreign descriptors are closed with the list.
local function watch_list()
    local list = {handles = {}, to_write = {}, things = {}, borrowed = {}}
    return setmetatable(list, {__close = function()
        for _, handle in ipairs(list.borrowed) do handle:close() end
    end})
end

local function add(list, thing, to_write)
    local state = object.state(thing)
    local handle = state and state.handle
    if not (state and state.class) then
        local fd = descriptor_of(thing)
        if not fd then return end
        handle = raw.borrow(fd)
        if not handle then error("select failed", 3) end
        table.insert(list.borrowed, handle)
    end
    if handle then
        local index = #list.handles + 1
        list.handles[index], list.to_write[index], list.things[index] = handle, to_write, thing
    end
end

local function note(result, thing)
    if result[thing] then return end -- it is in the list twice
    local index = #result + 1
    result[index] = thing
    result[thing] = index + 0.0
end

-- Puts what is ready now into the results; returns how many that are.
local function look(list, readable, writable)
    if #list.handles == 0 then return 0 end
    local ready = table.move(list.to_write, 1, #list.to_write, 1, {})
    local count = raw.look(list.handles, ready)
    for index, is_ready in ipairs(ready) do
        if is_ready then
            note(list.to_write[index] and writable or readable, list.things[index])
        end
    end
    return count
end

local function wait_for(list, deadline)
    if #list.handles > 0 then return raw.waitany(list.handles, list.to_write, deadline) end
    local _, _, code = mare.sleep(deadline or 1e9)
    return nil, code or "timeout"
end

-- A list, or nothing.
local function list_of(value, index)
    if value == nil then return {} end
    if type(value) ~= "table" then
        object.refuse(3, index, "table expected, got " .. type(value))
    end
    return value
end

--- Waits until one of the objects can be read from, or one can be written to. Two tables of those,
--- indexed by number and by object; and "timeout".
function core.select(receivers, senders, timeout)
    receivers, senders = list_of(receivers, 1), list_of(senders, 2)
    local seconds = object.number(timeout, 3, -1)
    local deadline = seconds >= 0 and mare.deadline(seconds) or nil
    local list <close> = watch_list()
    local readable, writable, dirty = {}, {}, 0
    for _, thing in ipairs(receivers) do
        if is_dirty(thing) then
            dirty = dirty + 1
            note(readable, thing)
        else
            add(list, thing, false)
        end
    end
    for _, thing in ipairs(senders) do add(list, thing, true) end
    while look(list, readable, writable) + dirty == 0 do
        local ok, why
        if seconds == 0 then -- let others run: they may send something
            mare.yield()
            ok, why = nil, "timeout"
        else
            ok, why = wait_for(list, deadline)
        end
        if not ok then return readable, writable, why end
    end
    return readable, writable
end

-- ---- Names --------------------------------------------------------------------------------------

core.dns = {}

-- toip and tohostname report the same failures in other words: those of an older C function.
local older = {
    ["host or service not provided, or not known"] = "host not found",
    ["temporary failure in name resolution"] = "Host name lookup failure",
    ["non-recoverable failure in name resolution"] = "Unknown server error",
    ["No address associated with hostname"] = "No address associated with name",
}

-- What they tell: the official name, no others, and the addresses.
local function host_entry(host)
    if raw.numeric(host) then
        local name, why = raw.nameof(host, true)
        if not name then return nil, older[why] or why end
        return {name = name, alias = {}, ip = {host}}
    end
    local addresses, name = object.find(host, "inet")
    if not addresses then return nil, older[name] or name end
    local entry = {name = name ~= "" and name or host, alias = {}, ip = {}}
    for index, address in ipairs(addresses) do entry.ip[index] = address.addr end
    return entry
end

function core.dns.toip(host)
    local entry, why = host_entry(object.string(host, 1))
    if not entry then return nil, why end
    return entry.ip[1], entry
end

function core.dns.tohostname(host)
    local entry, why = host_entry(object.string(host, 1))
    if not entry then return nil, why end
    return entry.name, entry
end

function core.dns.gethostname() return raw.hostname() end

--- A list of {family =, addr =}.
function core.dns.getaddrinfo(host)
    local addresses, why = object.find(object.string(host, 1))
    if not addresses then return nil, why end
    return addresses
end

--- The names of a host's addresses, and the name of a service.
function core.dns.getnameinfo(host, service)
    if host == nil and service == nil then error("host and serv cannot be both nil", 2) end
    local names = {}
    if host ~= nil then
        local addresses, why = object.find(object.string(host, 1))
        if not addresses then return nil, why end
        for index, address in ipairs(addresses) do
            names[index] = raw.nameof(address.addr, false) or address.addr
        end
    end
    if service == nil then return names end
    local number, why = object.port(object.string(service, 2))
    if not number then return nil, why end
    return names, raw.servicename(number)
end

-- ---- Exceptions ---------------------------------------------------------------------------------

local raised = setmetatable({}, {__mode = "k"}) -- the exceptions that are under way
local exception = {__metatable = false}

--- Returns a function that returns its arguments, unless the first is false. Then it calls the
--- finalizer, and raises the second for `protect` to catch.
function core.newtry(finalizer)
    return function(...)
        if (...) then return ... end
        if finalizer then finalizer() end
        local _, reason = ...
        local thrown = setmetatable({reason}, exception)
        raised[thrown] = true
        error(thrown, 0)
    end
end

local function caught(ok, ...)
    if ok then return ... end
    local reason = ...
    if reason ~= nil and raised[reason] then return nil, reason[1] end
    error(reason, 0)
end

--- Wraps a function: where it raises an error of `newtry`, the wrapper returns nil and the reason.
function core.protect(f)
    return function(...) return caught(pcall(f, ...)) end
end

-- ---- The rest -----------------------------------------------------------------------------------

--- All arguments after the first so many.
function core.skip(count, ...)
    count = math.floor(object.number(count, 1))
    if count < 0 then return count, ... end
    return select(count + 1, ...)
end

function core.sleep(seconds)
    seconds = object.number(seconds, 1)
    if seconds > 0 then mare.sleep(seconds) else mare.yield() end
end

function core.gettime() return raw.time() end

--- Not LuaSocket's: the most that one call of `receive` takes, of objects made from now on.
core.receivelimit = stream.receivelimit

function core.__unload() end

return core
