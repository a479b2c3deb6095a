-- SPDX-License-Identifier: MIT
-- Arguments of functions written in Lua, refused in the words of the standard libraries.

--- Raises an error that blames the caller of the function, unless the value is of the type.
return function(name, value, index, expected)
    if type(value) ~= expected then
        error(("bad argument #%d to '%s' (%s expected, got %s)"):format(index, name, expected,
            value == nil and "no value" or type(value)), 3)
    end
end
