-- SPDX-License-Identifier: MIT
-- Which lines a line hook is told of, for pieces of code of every shape.
local function trace(code, strip)
    local lines, f = {}, assert(load(code, "=code"))
    if strip then f = load(string.dump(f, true)) end
    local hook = function(event, line) lines[#lines + 1] = event:sub(1, 1) .. tostring(line) end
    collectgarbage()
    debug.sethook(hook, "l")
    f()
    debug.sethook()
    print(table.concat(lines, " "))
end

for _, code in ipairs {
    "return",
    "local a = 1 local b = 2",
    "if nil then\n  X = 1\nelse\n  X = 2\nend\nX = nil",
    "if math.abs(1)\nthen\n  X = 1\nend",
    "local n = 0\nrepeat\n  n = n + 1\nuntil n == 3\nX = n",
    "local n = 3\nwhile n > 0 do\n  n = n - 1\nend",
    "while true do\n  if math.abs(1) then\n    break\n  end\nend\nX = 1",
    "for i = 1, 3 do\n  X = i\nend",
    "for i = 1, 3 do X = i end",
    "for i = 3, 1 do\n  X = i\nend",
    "for k, v in pairs {1, 2} do\n  X = k\nend",
    "for k, v in next, {} do\n  X = k\nend\nX = 2",
    "local function f()\nend\nf()\nX = 1\nf() f()",
    "local function f(...)\n  return ...\nend\nX = f(1,\n2,\n3)",
    "local t = {\n  1,\n  2,\n  f = function()\n    return 3\n  end,\n}\nX = t.f()",
    "X = 1 +\n  2 *\n  #'x'\nX = (\n  X\n)\n",
    "goto a\n::b::\ngoto c\n::a::\ngoto b\n::c::\nX = 1",
    "local x = 1\n\n\n\nX = x\n--[[\n\n]] X = [[\n\n]]\nX = nil",
    "do\n  local c <close> = setmetatable({}, {__close = function()\n    X = 1\n  end})\n"
        .. "  X = 2\nend",
    "local c <close> = setmetatable({}, {__close = function()\n  X = 1\nend})\nreturn\n  1, 2",
    "local a = setmetatable({}, {__lt = function()\n  return true\nend})\n"
        .. "if a <\n  a\nthen\n  X = 1\nend",
    "X = nil " .. ("\n"):rep(300) .. "X = 1" .. ("\n"):rep(130) .. " X = nil",
} do
    trace(code)
    trace(code, true)
end
print(_G.X)
