-- SPDX-License-Identifier: MIT
-- What LuaSocket's objects have in common: classes, timeouts, options and the errors of wrong
-- arguments. They stand on the streams, listeners and sockets of mare.net. An object is a userdata;
-- its state is a table:
--
--   class           "tcp{client}", which methods ask for
--   handle          what it stands on, nil while there is none
--   family          "inet", "inet6", "unix"; "unspec" until it is known
--   block, total    seconds that one wait, and that a whole call may take; negative: any time
local mare, net, raw = require "mare", require "mare._net", require "mare._socket"
local debug = require "debug"

local object = {}

-- ---- Wrong arguments ----------------------------------------------------------------------------

local method_names = {} -- of functions, for those that were called last thing in a function

--- Raises what the C function would: the argument's number, and the name by which the function was
--- called. `level` is that of the method, as seen from here.
function object.refuse(level, index, text)
    local info = debug.getinfo(level, "nf")
    local method = method_names[info.func]
    local name = info.name or method or "?"
    if info.namewhat == "method" or method and not info.name then
        index = index - 1
        if index == 0 then
            error(("calling '%s' on bad self (%s)"):format(name, text), level + 1)
        end
    end
    error(("bad argument #%d to '%s' (%s)"):format(index, name, text), level + 1)
end

local refuse = object.refuse

local function type_of(value)
    if value == nil then return "no value" end
    local meta = getmetatable(value)
    return type(meta) == "table" and type(value) ~= "string" and meta.__name or type(value)
end

local function expect(expected, value, index)
    refuse(4, index, ("%s expected, got %s"):format(expected, type_of(value)))
end

--- The value as a string; a default, if there is one, for nil.
function object.string(value, index, default)
    if type(value) == "string" then return value end
    if type(value) == "number" then return tostring(value) end
    if value == nil and default then return default end
    expect("string", value, index)
end

--- The value as a number.
function object.number(value, index, default)
    if value == nil and default then return default end
    return tonumber(value) or expect("number", value, index)
end

function object.table(value, index)
    if type(value) ~= "table" then expect("table", value, index) end
    return value
end

--- One of a list of words.
function object.word(value, index, default, words)
    value = value == nil and default or value
    if type(value) ~= "string" then expect("string", value, index) end
    for _, word in ipairs(words) do
        if word == value then return word end
    end
    refuse(3, index, ("invalid option '%s'"):format(value))
end

-- ---- Classes ------------------------------------------------------------------------------------

local classes, groups = {}, {} -- metatables; for "tcp{any}", the set of these classes

--- The state of an object; of anything else nil.
local state_of = raw.state
object.state = state_of

local function describe(self)
    return ("%s: %p"):format(state_of(self).class, self)
end

-- In a mare.select: ready when there is something to read or accept; also without a socket, because
-- a call then returns an error. What woke the select may have been meant for an earlier wait.
local function ready(self)
    local handle = state_of(self).handle
    return not handle or raw.buffered(handle) > 0 or raw.look({handle}, {false}) > 0 or handle
end

--- Makes classes of objects with the same methods. The classes differ in what the methods allow.
function object.classes(names, methods)
    local group = {}
    groups[names[1]:match "^%w+" .. "{any}"] = group
    for _, name in ipairs(names) do
        local index = {class = name}
        group[name] = true
        for key, method in pairs(methods) do index[key], method_names[method] = method, key end
        classes[name] = {__index = index, __name = name, __tostring = describe,
            __close = methods.close, __select = ready}
    end
end

--- A new object around a state.
function object.new(class, state)
    state.class = class
    state.block, state.total = -1, -1
    return raw.object(state, classes[class])
end

--- The object becomes one of another class.
function object.become(self, class)
    state_of(self).class = class
    raw.become(self, classes[class])
end

--- The state of the object that a method was called on, which must be of the class, or, with a name
--- like "tcp{any}", of any in the group.
function object.check(self, class)
    local state = state_of(self)
    local own = state and state.class
    if own == class or own and groups[class] and groups[class][own] then return state end
    refuse(3, 1, class .. " expected")
end

-- ---- Failures -----------------------------------------------------------------------------------

--- What a method returns for a failure of the handle: nil, and why in LuaSocket's words.
function object.fail(_, message, code) return nil, raw.words(message, code) end

-- ---- Timeouts -----------------------------------------------------------------------------------
-- The time of one wait is the handle's own; that of a whole call is given to each.

local function set_time(state)
    if state.handle then state.handle:timeout(nil, state.block >= 0 and state.block or nil) end
end

--- When a call that begins now must be over; nil: no matter when.
function object.deadline(state)
    return state.total >= 0 and mare.deadline(state.total) or nil
end

--- The deadline for looking up names in a call. If the object must not wait, names still get time:
--- LuaSocket waits for them, too.
function object.patience(state, deadline)
    local seconds = deadline and deadline:left() or math.huge
    if state.block >= 0 then seconds = math.min(seconds, state.block) end
    return seconds > 0 and seconds < math.huge and mare.deadline(seconds) or nil
end

function object.settimeout(class)
    return function(self, value, mode)
        local state = object.check(self, class)
        local seconds = object.number(value, 2, -1)
        mode = object.string(mode, 3, "b"):sub(1, 1)
        if mode == "b" then
            state.block = seconds
            set_time(state)
        elseif mode == "r" or mode == "t" then
            state.total = seconds
        else
            refuse(2, 3, "invalid timeout mode")
        end
        return 1.0
    end
end

function object.gettimeout(class)
    return function(self)
        local state = object.check(self, class)
        return state.block + 0.0, state.total + 0.0
    end
end

-- ---- Handles ------------------------------------------------------------------------------------

--- The object stands on this handle from now on.
function object.give(state, handle)
    state.handle, state.room = handle, nil
    set_time(state)
    return true
end

function object.close(class)
    return function(self)
        local state = object.check(self, class)
        local handle = state.handle
        state.handle = nil
        if handle then handle:close() end
        return 1.0
    end
end

function object.getfd(class)
    return function(self)
        local handle = object.check(self, class).handle
        return handle and raw.descriptor(handle) + 0.0 or -1.0
    end
end

--- Sets the object's descriptor. The old one then belongs to the program.
function object.setfd(class, kind)
    return function(self, value)
        local state = object.check(self, class)
        local fd = math.tointeger(object.number(value, 2)) or -1
        if state.handle then raw.lend(state.handle) end
        state.handle = nil
        local handle = fd >= 0 and raw.adopt(fd, state.class:find "server" and "listener" or kind)
        if handle then object.give(state, handle) end
    end
end

function object.getname(class, of_peer)
    return function(self)
        local state = object.check(self, class)
        local handle = state.handle
        if not handle then return nil, "Bad file descriptor" end
        local host, port, code = handle[of_peer and "peer" or "address"](handle)
        if not host then return object.fail(host, port, code) end
        if not port then return host end
        local family = state.family
        if family == "unspec" then family = host:find ":" and "inet6" or "inet" end
        -- The port of this side is text in LuaSocket, that of the peer a number.
        return host, of_peer and port or tostring(port), family
    end
end

function object.getfamily(class)
    return function(self)
        return object.check(self, class).family == "inet6" and "inet6" or "inet4"
    end
end

--- A new socket of a family, or nil and why not. That of IPv6 serves no IPv4 beside.
function object.open(family, kind)
    local handle, message, code = net.open(family, kind)
    if not handle then return object.fail(handle, message, code) end
    if family == "inet6" then handle:option("ipv6-v6only", true) end
    return handle
end

-- The object gets one, if it has none of that family.
local function reopen(state, family, kind)
    if state.handle and state.family == family then return true end
    local handle, why = object.open(family, kind)
    if not handle then return nil, why end
    if state.handle then state.handle:close() end
    state.family = family
    return object.give(state, handle)
end

-- ---- Addresses ----------------------------------------------------------------------------------

--- The addresses of a host, a list of {addr =, family =}, and its official name. A number is its
--- own address, and no thread need look for it.
function object.find(host, family, deadline)
    local numeric = raw.numeric(host)
    if numeric and (family or numeric) == numeric then
        return {{addr = host, family = numeric}}, host
    end
    return raw.find(host, family, deadline)
end

--- The number of a port or a service.
function object.port(service, of_datagrams, deadline)
    local number, why = raw.service(service, of_datagrams, deadline)
    if not number then return nil, why or "service not supported for socket type" end
    return number
end

-- Tries the addresses of a host, of the object's family if that is known, until `try` succeeds.
-- Before each try the object gets a socket of the address's family.
local function try_each(state, kind, host, service, try, waits)
    local deadline = object.deadline(state)
    local patience = object.patience(state, deadline)
    local port, why = object.port(service, kind == "dgram", patience)
    if not port then return nil, why end
    local family = state.family ~= "unspec" and state.family or nil
    local addresses, reason = object.find(host, family, patience)
    if not addresses then return nil, reason end
    local done
    for _, address in ipairs(addresses) do
        done, why = reopen(state, address.family, kind)
        if done then
            local message, code
            done, message, code = try(state.handle, address.addr, port, deadline)
            if done then return true end
            why = raw.words(message, code)
        end
        local over = state.block == 0 or deadline and deadline:left() == 0
        if waits and (over or why == "cancelled") then break end
    end
    return nil, why
end

--- Binds the object, which gets a socket if it has none, to one of the host's addresses.
function object.bind(state, kind, host, service)
    if host == "*" then host = state.family == "inet6" and "::" or "0.0.0.0" end
    return try_each(state, kind, host, service, net.bind)
end

--- The same as net.connect, for a handle that sends datagrams.
function object.set_peer(handle, ...) return handle:connect(...) end

--- Connects it to one of them.
function object.connect(state, kind, host, service)
    local connect = kind == "dgram" and object.set_peer or net.connect
    return try_each(state, kind, host, service, connect, true)
end

return object
