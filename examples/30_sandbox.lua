-- SPDX-License-Identifier: MIT
-- Formulas that users type in, run in a sandbox: they can compute, and nothing else.
--
--     mare examples/30_sandbox.lua
local sandbox = require "mare.sandbox"

local policy = {
    allow = {"math", "string", {"os.date", "!%%Y"}}, -- the year, and no other use of os.date
    memory = 4 << 20, instructions = 1000000, time = 5,
}

local formulas = {
    "return 2 * math.pi * ...",
    "return ('tide '):rep(3)",
    "return #os.date '!%Y'",
    "return os.date '!%H'",
    "os.execute 'rm -rf /'",
    "while true do end",
    "local t = {} for i = 1, math.huge do t[i] = ('x'):rep(1000) .. i end",
    "return ('a'):rep(50):find(('a*'):rep(30) .. 'b')",
    "return load('\\27Lua')",
}
for _, formula in ipairs(formulas) do
    print(formula)
    print("", sandbox.run(policy, formula, 10))
end
