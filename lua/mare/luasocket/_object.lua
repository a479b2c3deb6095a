-- SPDX-License-Identifier: MIT
-- What LuaSocket's objects have in common: classes, timeouts, options and the errors of wrong
-- arguments. An object is a userdata; its state is a table:
--
--   class           "tcp{client}", which methods ask for
--   handle          the socket (mare._socket), nil while there is none
--   family          "inet", "inet6", "unix"; "unspec" until it is known
--   block, total    seconds that one wait, and that a whole call may take; negative: any time
local mare, raw = require "mare", require "mare._socket"

local object = {}

-- ---- Wrong arguments ----------------------------------------------------------------------------

local method_names = {} -- of functions, for those that were called last thing in a function

--- Raises what the C function would: the argument's number, and the name by which the function was
--- called. `level` is that of the method, as seen from here.
function object.refuse(level, index, text)
    local info = require "debug".getinfo(level, "nf")
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

local classes = {}

local function describe(self)
    return ("%s: %p"):format(raw.state(self).class, self)
end

-- In a mare.select: ready when there is something to read, or somebody to accept; or no socket, for
-- then a call has that to tell. What woke the select may have been meant for an earlier wait.
local function ready(self)
    local state = raw.state(self)
    local handle = state.handle
    local buffered = state.bytes and state.first <= #state.bytes
    return buffered or not handle or raw.look({handle}, {false}) > 0 or handle
end

--- Classes of objects that have the same methods, and differ in what these agree to.
function object.classes(names, methods)
    for _, name in ipairs(names) do
        local index = {class = name}
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
    raw.state(self).class = class
    raw.become(self, classes[class])
end

--- The state of the object that a method was called on, which must be of the class, or, with a name
--- like "tcp{any}", of any in the group.
function object.check(self, class)
    local state = raw.state(self)
    local own = state and state.class
    if own ~= class and not (own and class:match "^(%w+){any}$" == own:match "^(%w+){") then
        refuse(3, 1, class .. " expected")
    end
    return state
end

-- ---- Timeouts -----------------------------------------------------------------------------------

--- What a call notes when it begins, for `object.wait`.
function object.start(state)
    return state.total >= 0 and mare.now() or 0
end

-- How many seconds a wait may last; negative: any time.
local function patience(state, start)
    if state.total < 0 then return state.block end
    local left = math.max(0, state.total - (mare.now() - start))
    return state.block < 0 and left or math.min(state.block, left)
end

--- The deadline of what is about to begin; false: it may not wait at all.
function object.deadline(state, start)
    local seconds = patience(state, start)
    if seconds == 0 then return false end
    return seconds > 0 and mare.deadline(seconds) or nil
end

--- Waits until the socket can be read from, or written to. True, or nil and why not. A call that
--- may not wait lets others have their turn, or a program that polls would hold them back.
function object.wait(state, start, to_write)
    local deadline = object.deadline(state, start)
    if deadline == false then
        mare.yield()
        return nil, "timeout"
    end
    return raw.wait(state.handle, to_write, deadline)
end

function object.settimeout(class)
    return function(self, value, mode)
        local state = object.check(self, class)
        local seconds = object.number(value, 2, -1)
        mode = object.string(mode, 3, "b"):sub(1, 1)
        if mode == "b" then
            state.block = seconds
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

-- ---- Descriptors --------------------------------------------------------------------------------

--- The answer of a call on a socket that does not exist, as the system gives it.
local none = "Bad file descriptor"

function object.close(class)
    return function(self)
        local state = object.check(self, class)
        local handle = state.handle
        state.handle = nil
        if handle then raw.close(handle) end
        return 1.0
    end
end

function object.getfd(class)
    return function(self)
        local handle = object.check(self, class).handle
        return handle and raw.descriptor(handle) + 0.0 or -1.0
    end
end

--- Another descriptor for the object; the one that it had is the program's then.
function object.setfd(class)
    return function(self, value)
        local state = object.check(self, class)
        local fd = math.tointeger(object.number(value, 2)) or -1
        if state.handle then raw.lend(state.handle) end
        state.handle = fd >= 0 and raw.adopt(fd) or nil
    end
end

function object.getname(class, of_peer)
    return function(self)
        local handle = object.check(self, class).handle
        if not handle then return nil, none end
        local host, port, family = raw.name(handle, of_peer)
        if not host then return nil, port end
        if not family then return host end
        -- The port of this side is text in LuaSocket, that of the peer a number.
        return host, of_peer and port or tostring(port), family
    end
end

function object.getfamily(class)
    return function(self)
        return object.check(self, class).family == "inet6" and "inet6" or "inet4"
    end
end

--- A socket for the object, of a family. True, or nil and why not.
function object.open(state, family, kind)
    local handle, why = raw.open(family, kind)
    if not handle then return nil, why end
    if state.handle then raw.close(state.handle) end
    state.handle, state.family = handle, family
    return true
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

--- The addresses of a host that the object can use. Names are looked up without haste when the
--- object may not wait: LuaSocket waits for them, too.
function object.addresses(state, start, host)
    local family = state.family ~= "unspec" and state.family or nil
    return object.find(host, family, object.deadline(state, start) or nil)
end

--- The number of a port or a service.
function object.port(service, of_datagrams, deadline)
    local number, why = raw.service(service, of_datagrams, deadline)
    if not number then return nil, why or "service not supported for socket type" end
    return number
end

-- The same for a call that the object has begun, whose names share its time.
local function port_of(state, start, service, kind)
    return object.port(service, kind == "dgram", object.deadline(state, start) or nil)
end

--- Binds the object, which gets a socket if it has none, to one of the host's addresses.
function object.bind(state, kind, host, service)
    local start = object.start(state)
    local port, why = port_of(state, start, service, kind)
    if not port then return nil, why end
    local addresses
    if host == "*" then
        local six = state.family == "inet6"
        addresses = {{addr = six and "::" or "0.0.0.0", family = six and "inet6" or "inet"}}
    else
        addresses, why = object.addresses(state, start, host)
        if not addresses then return nil, why end
    end
    local done
    for _, address in ipairs(addresses) do
        done, why = true, nil
        if not state.handle or state.family ~= address.family then
            done, why = object.open(state, address.family, kind)
        end
        if done then done, why = raw.bind(state.handle, address.addr, port) end
        if done then break end
    end
    return done, why
end

--- Connects to one address, or path.
local function connect_one(state, start, address, port)
    local done, why = raw.connect(state.handle, address, port)
    if done == nil then return nil, why end
    while not done do
        done, why = object.wait(state, start, true)
        if not done then return nil, why end
        if not state.handle then return nil, "closed" end
        -- What woke it may have been meant for an earlier wait.
        done = raw.look({state.handle}, {true}) > 0
        if done then done, why = raw.connected(state.handle) end
        if done == nil then return nil, why end
    end
    return true
end

object.connect_one = connect_one

--- Connects the object, which gets a socket if it has none, to one of the host's addresses.
function object.connect(state, kind, host, service)
    local start = object.start(state)
    local port, why = port_of(state, start, service, kind)
    if not port then return nil, why end
    local addresses, reason = object.addresses(state, start, host)
    if not addresses then return nil, reason end
    local done
    for _, address in ipairs(addresses) do
        done, why = true, nil
        if not state.handle or state.family ~= address.family then
            done, why = object.open(state, address.family, kind)
        end
        if done then done, why = connect_one(state, start, address.addr, port) end
        if done or object.deadline(state, start) == false then break end
    end
    return done, why
end

return object
