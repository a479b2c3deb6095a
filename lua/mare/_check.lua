-- SPDX-License-Identifier: MIT
-- Arguments of functions written in Lua, refused in the words of the standard libraries.
local mare = require "mare"

local check = {}

--- Raises an error that blames the caller of the function, unless the value is of the type. The
--- level is that of `error`, 3 unless it is given.
function check.argument(name, value, index, expected, level)
    if type(value) ~= expected then
        error(("bad argument #%d to '%s' (%s expected, got %s)"):format(index, name, expected,
            value == nil and "no value" or type(value)), level or 3)
    end
end

--- Raises one unless the value can be an object of that kind, a stream or a listener say, whoever
--- has made it: what it is for is seen when it is used.
function check.object(name, value, index, expected, level)
    if type(value) ~= "userdata" and type(value) ~= "table" then
        check.argument(name, value, index, expected, (level or 3) + 1)
    end
end

--- Raises one unless the first argument is a host, and the second a port if the host is no path.
function check.address(name, host, port)
    check.argument(name, host, 1, "string", 4)
    if host:find "^[/.]" then return end
    check.argument(name, port, 2, "number", 4)
    local number = math.tointeger(port)
    if not number or number < 0 or number > 65535 then
        error(("bad argument #2 to '%s' (a port is an integer between 0 and 65535)"):format(
            name), 3)
    end
end

--- An optional timeout as a deadline, for several calls that share it; nil for none.
function check.deadline(name, timeout, index)
    if timeout == nil or type(timeout) == "userdata" then return timeout end
    check.argument(name, timeout, index, "number", 4)
    return mare.deadline(timeout)
end

--- The names as a set, for the next.
function check.set(...)
    local names = {}
    for _, name in ipairs {...} do names[name] = true end
    return names
end

--- Raises one if a table of options has an option that there is not: a misspelt one would have no
--- effect, and nobody would know. The level is as above.
function check.options(name, options, index, allowed, level)
    check.argument(name, options, index, "table", (level or 3) + 1)
    for key in pairs(options) do
        if not allowed[key] then
            error(("bad argument #%d to '%s' (unknown option '%s')"):format(index, name,
                tostring(key)), level or 3)
        end
    end
end

--- Raises one unless an option is nil, or `good` (a type, or a function of the value) says that it
--- can be what it is.
function check.option(name, options, index, key, good, expected, level)
    local value = options[key]
    if value == nil or type(value) == good then return end
    if type(good) == "function" and good(value) then return end
    error(("bad argument #%d to '%s' (option '%s' must be %s)"):format(index, name, key, expected),
        level or 3)
end

--- Whether it is a number of seconds that can be waited, above 0.
function check.span(value)
    return type(value) == "number" and value > 0
end

--- Calls a function in C with what a program gave as argument `index` of `name`. If that is
--- refused, it is refused in the program's line: the level is as above.
function check.pass(name, index, level, f, ...)
    local ok, result = pcall(f, ...)
    if ok then return result end
    local why = tostring(result):match "%((.*)%)$" or result
    error(("bad argument #%d to '%s' (%s)"):format(index, name, why), level)
end

return check
