-- SPDX-License-Identifier: MIT
-- A process is a sandbox: it has its own globals, and it can be given a memory limit. Neither what
-- it changes nor what it eats touches the others.
local mare = require "mare"

-- 1. Globals. This process breaks string.upper and sets a global; nobody else notices.
local vandal = mare.spawn(function()
    string.upper = function() return "broken" end -- luacheck: ignore
    colour = "red" -- luacheck: ignore
    return ("lua"):upper(), colour -- luacheck: ignore
end)
print("there", select(2, vandal:join()))
print("here", ("lua"):upper(), colour) -- luacheck: ignore

-- 2. Code from a stranger, with nothing but what it is given.
local function run(code)
    local allowed = {math = math, tostring = tostring}
    local chunk, problem = load(code, "=stranger", "t", allowed)
    if not chunk then error(problem, 0) end
    return chunk()
end
print(mare.spawn(run, "return math.max(3, 5)"):join())
local ok, message, code = mare.spawn(run, "os.remove('/etc/passwd')"):join()
print(ok, message, code)

-- 3. Memory. A megabyte at the most; the error stays inside.
local eater = mare.spawn({memory = 1024 * 1024}, function()
    local hoard = ""
    while true do hoard = hoard .. "more and more " end
end)
ok, message, code = eater:join()
print(ok, message, code)

-- 4. Time. A process that never ends does not hold back the others, and can be ended.
local spinner = mare.spawn(function() while true do end end)
print(spinner:join(0.05))
spinner:kill("enough")
print(spinner:join())
