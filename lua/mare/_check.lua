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
    for key in pairs(options) do
        if not allowed[key] then
            error(("bad argument #%d to '%s' (unknown option '%s')"):format(index, name,
                tostring(key)), level or 3)
        end
    end
end

return check
