-- SPDX-License-Identifier: MIT
-- The options of sockets, and what a program gives for them.
local raw, object = require "mare._socket", require "mare.luasocket._object"

local refuse = object.refuse

-- What each kind of value must look like; returns what the system is told. The level is that of
-- setoption, as `refuse` sees it.
local kinds = {}

function kinds.flag(value)
    if type(value) ~= "boolean" then
        refuse(3, 3, "boolean expected, got " .. (value == nil and "no value" or type(value)))
    end
    return value
end

function kinds.number(value) return math.floor(tonumber(value) or 0) end

local function fields(value)
    if type(value) ~= "table" then
        refuse(4, 3, "table expected, got " .. (value == nil and "no value" or type(value)))
    end
end

function kinds.linger(value)
    fields(value)
    if type(value.on) ~= "boolean" then refuse(3, 3, "boolean 'on' field expected") end
    if not tonumber(value.timeout) then refuse(3, 3, "number 'timeout' field expected") end
    return value.on, math.floor(tonumber(value.timeout))
end

-- A numeric IPv4 address; "*" is any.
local function four(text)
    if text == "*" then return "0.0.0.0" end
    return raw.numeric(text) == "inet" and text
end

function kinds.interface(value)
    if type(value) ~= "string" and type(value) ~= "number" then
        refuse(3, 3, "string expected, got " .. (value == nil and "no value" or type(value)))
    end
    return four(tostring(value)) or refuse(3, 3, "ip expected")
end

function kinds.group(value)
    fields(value)
    if type(value.multiaddr) ~= "string" then
        refuse(3, 3, "string 'multiaddr' field expected")
    elseif raw.numeric(value.multiaddr) ~= "inet" then
        refuse(3, 3, "invalid 'multiaddr' ip address")
    elseif type(value.interface) ~= "string" then
        refuse(3, 3, "string 'interface' field expected")
    end
    local interface = four(value.interface)
    if not interface then refuse(3, 3, "invalid 'interface' ip address") end
    return value.multiaddr, interface
end

function kinds.group6(value)
    fields(value)
    if type(value.multiaddr) ~= "string" then
        refuse(3, 3, "string 'multiaddr' field expected")
    elseif raw.numeric(value.multiaddr) ~= "inet6" then
        refuse(3, 3, "invalid 'multiaddr' ip address")
    elseif value.interface ~= nil and not tonumber(value.interface) then
        refuse(3, 3, "number 'interface' field expected")
    end
    local interface = math.tointeger(tonumber(value.interface or 0)) or 0
    return value.multiaddr, interface ~= 0 and tostring(interface) or nil
end

local kind_of = {
    linger = "linger", ["ip-multicast-if"] = "interface", ["ip-add-membership"] = "group",
    ["ip-drop-membership"] = "group", ["ipv6-add-membership"] = "group6",
    ["ipv6-drop-membership"] = "group6",
}
for name in ([[recv-buffer-size send-buffer-size tcp-keepidle tcp-keepcnt tcp-keepintvl
    tcp-defer-accept tcp-fastopen tcp-fastopen-connect ip-multicast-ttl ipv6-unicast-hops
    ipv6-multicast-hops]]):gmatch "%S+" do
    kind_of[name] = "number"
end

local function set_option(handle, name, ...) return handle:option(name, ...) end

-- Groups are joined and left by methods.
local function change_group(handle, name, group, interface)
    return handle[name:find "add" and "join" or "leave"](handle, group, interface)
end

local setters = {group = change_group, group6 = change_group}

-- An option that LuaSocket does not have, of an object and not of its socket.
local LIMIT <const> = "receive-limit"

local function limit_of(value)
    value = tonumber(value) or 0
    if value ~= value or value < 1 then refuse(3, 3, "a limit is positive") end
    return math.floor(value)
end

local function set_of(words)
    local set = {}
    for word in words:gmatch "%S+" do set[word] = true end
    return set
end

local function unsupported(name)
    refuse(3, 2, ("unsupported option `%.35s'"):format(name))
end

local options = {}

--- The method for the options in a list of names.
function options.setter(class, names)
    local known = set_of(names)
    return function(self, name, value)
        local state = object.check(self, class)
        name = object.string(name, 2)
        if name == LIMIT and state.limit then
            state.limit = limit_of(value)
            return 1.0
        end
        if not known[name] then unsupported(name) end
        local kind = kind_of[name] or "flag"
        local set = setters[kind] or set_option
        local ok, done = pcall(set, state.handle, name, kinds[kind](value))
        if not ok or not done then return nil, "setsockopt failed" end
        return 1.0
    end
end

function options.getter(class, names)
    local known = set_of(names)
    return function(self, name)
        local state = object.check(self, class)
        name = object.string(name, 2)
        if name == LIMIT and state.limit then return state.limit end
        if not known[name] then unsupported(name) end
        if not state.handle then return nil, "getsockopt failed" end
        local value, more, code = state.handle:option(name)
        if name == "error" then
            if code then return raw.words(more, code) end
            return
        end
        if value == nil then return nil, "getsockopt failed" end
        if name == "linger" then return {on = value, timeout = more} end
        return math.type(value) and value + 0.0 or value
    end
end

return options
