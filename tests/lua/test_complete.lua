-- SPDX-License-Identifier: MIT
-- What the REPL offers for the beginning of a name. That Tab asks for it is tested on a terminal.
local mare, t, complete = require "mare", require "t", require "mare._complete"

local function offers(text) return (select(2, complete(text)):gsub("\n", " ")) end

return {
    names_are_completed = function()
        _G.mare, _G.tide_channel, _G.tide_name = mare, mare.channel(), "Lisboa"
        for text, more in pairs {["string.for"] = "mat", ["print(string.by"] = "te", wh = "ile",
            ["mare.spaw"] = "n", ["tide_channel:rec"] = "eive", ["tide_name:upp"] = "er",
            ["require 'mare._comp"] = "", ["require 'strin"] = "g", ["x = tide_n"] = "ame",
            ["require(\"corouti"] = "ne", ["io.stdout:wri"] = "te", ["tide_channel:send"] = "",
            ["nowhere."] = "", [""] = "", ["1 + "] = "", ["tide_name..tide_n"] = "",
            ["f().x"] = "", ["math.pi:"] = ""} do
            t.eq({text, (complete(text))}, {text, more})
        end
        t.eq(offers "tide_", "tide_channel tide_name")
        t.eq(offers "tide_channel:s", "send sendwithin")
        t.eq(offers "string.re", "rep reverse")
        t.eq(offers "math.m", "max maxinteger min mininteger modf")
        t.eq(offers "math:m", "max min modf") -- methods only
        t.eq(offers "re", "repeat require return")
    end,

    nothing_is_called = function()
        local called = 0
        local function count() called = called + 1 end
        local trap = setmetatable({field = setmetatable({inner = 1}, {__index = count})},
            {__index = count, __pairs = count, __len = count, __name = "trap"})
        _G.tide_trap = trap
        t.eq(complete "tide_trap.fie", "ld")
        t.eq(complete "tide_trap.field.inn", "er")
        t.eq(complete "tide_trap.none.x", "")
        t.eq(complete "tide_trap:x", "")
        t.eq(called, 0)
        local base = {height = print}
        _G.tide_object = setmetatable({}, {__index = setmetatable({}, {__index = base})})
        t.eq(complete "tide_object:hei", "ght")
        local loop = {}
        _G.tide_loop = setmetatable(loop, {__index = loop})
        t.eq(complete "tide_loop.x", "")
    end,
}
