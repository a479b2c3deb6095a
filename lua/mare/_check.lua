-- SPDX-License-Identifier: MIT
-- Checks the arguments of functions written in Lua. Errors are worded like those of the standard
-- libraries.
local mare = require "mare"

local check = {}

local DEADLINE = getmetatable(mare.deadline(0))

--- Raises an error unless the value has this type. It names the line of the function's caller; the
--- level is that of `error`, 3 by default.
function check.argument(name, value, index, expected, level)
    if type(value) ~= expected then
        error(("bad argument #%d to '%s' (%s expected, got %s)"):format(index, name, expected,
            value == nil and "no value" or type(value)), level or 3)
    end
end

--- Raises an error unless the value can be an object of that kind, such as a stream or a listener.
--- Programs can make such objects too, so this only looks at the type: whether an object has the
--- methods turns out when they are called.
function check.object(name, value, index, expected, level)
    if type(value) ~= "userdata" and type(value) ~= "table" then
        check.argument(name, value, index, expected, (level or 3) + 1)
    end
end

--- Raises an error unless the first argument is a host, and the second a port (none for a path).
function check.address(name, host, port)
    check.argument(name, host, 1, "string", 4)
    local path = host:find "^[/.]" and true or false
    if host:find("\0", 1, true) or path and #host > 107 then
        check.blame(("bad argument #1 to '%s' (%s)"):format(name, host:find("\0", 1, true)
            and "a name cannot contain zero bytes" or "the path is too long"))
    end
    if path then return end
    check.argument(name, port, 2, "number", 4)
    local number = math.tointeger(port)
    if not number or number < 0 or number > 65535 then
        error(("bad argument #2 to '%s' (a port is an integer between 0 and 65535)"):format(
            name), 3)
    end
end

--- An optional timeout as a deadline, for several calls that share it; nil for none.
function check.deadline(name, timeout, index, level)
    if timeout == nil or getmetatable(timeout) == DEADLINE then return timeout end
    check.argument(name, timeout, index, "number", (level or 3) + 1)
    if timeout ~= timeout then
        error(("bad argument #%d to '%s' (a timeout cannot be NaN)"):format(index, name),
            level or 3)
    end
    return mare.deadline(timeout)
end

--- Makes a set of names, for the next function.
function check.set(...)
    local names = {}
    for _, name in ipairs {...} do names[name] = true end
    return names
end

--- Raises an error for an unknown option in a table of options. Otherwise a misspelt option would
--- have no effect, and nobody would notice. The level is as above.
function check.options(name, options, index, allowed, level)
    check.argument(name, options, index, "table", (level or 3) + 1)
    for key in pairs(options) do
        if not allowed[key] then
            error(("bad argument #%d to '%s' (unknown option '%s')"):format(index, name,
                tostring(key)), level or 3)
        end
    end
end

--- Raises an error unless an option is nil or valid. `good` is a type, or a function that judges
--- the value.
function check.option(name, options, index, key, good, expected, level)
    local value = options[key]
    if value == nil or type(value) == good then return end
    if type(good) == "function" and good(value) then return end
    error(("bad argument #%d to '%s' (option '%s' must be %s)"):format(index, name, key, expected),
        level or 3)
end

--- Whether it is a number of seconds that one can wait, above 0.
function check.span(value)
    return type(value) == "number" and value > 0
end

--- Whether it is a whole number above 0, perhaps written as a float: 1e6 bytes.
function check.size(value)
    return type(value) == "number" and (math.tointeger(value) or 0) > 0
end

--- Raises an error at the innermost line of the program, however many functions of Maré are above
--- it, and whatever they do in tail calls.
function check.blame(message)
    local getinfo, level = require "debug".getinfo, 2
    local frame = getinfo(level, "Sl")
    while frame and (frame.currentline <= 0 or frame.source:find "^=mare%.") do
        level = level + 1
        frame = getinfo(level, "Sl")
    end
    error(frame and ("%s:%d: %s"):format(frame.short_src, frame.currentline, message) or message, 0)
end

--- Raises an error unless a method got an object of its class: a dot was written for the colon. It
--- names the program's line.
function check.self(name, value, class)
    if getmetatable(value) == class then return end
    check.blame(("calling '%s' on bad self (%s expected, got %s; methods are called with a colon)")
        :format(name, class.__name, value == nil and "no value" or type(value)))
end

--- Calls a C function with the value that a program gave as argument `index` of `name`. If the C
--- function refuses it, the error names the program's line: the level is as above.
function check.pass(name, index, level, f, ...)
    local got = table.pack(pcall(f, ...))
    if got[1] then return table.unpack(got, 2, got.n) end
    local result = got[2]
    local why = tostring(result):match "%((.*)%)$" or result
    error(("bad argument #%d to '%s' (%s)"):format(index, name, why), level)
end

local function outcome(name, index, ok, ...)
    if ok then return ... end
    local result = ...
    local why = type(result) == "string" and result:match "^bad argument #%d+ to '[^']*' %((.*)%)$"
    if not why then error(result, 0) end
    check.blame(("bad argument #%d to '%s' (%s)"):format(index, name, why))
end

--- The same for a C function that may wait: only an argument that it refuses is the program's
--- mistake, and other errors pass. It names the program's line, also after tail calls.
function check.call(name, index, f, ...)
    return outcome(name, index, pcall(f, ...))
end

return check
