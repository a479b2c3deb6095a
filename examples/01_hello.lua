-- SPDX-License-Identifier: MIT
-- Hello: start a process, give it an argument, wait for its result.
-- A process is a Lua state of its own. What goes in and what comes out is copied.
local mare = require "mare"

local greeter = mare.spawn(function(name)
    print("hello, " .. name)
    return #name, "letters"
end, "world")

local ok, count, unit = greeter:join()
print(ok, count, unit)
