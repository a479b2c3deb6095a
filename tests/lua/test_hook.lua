-- SPDX-License-Identifier: MIT
-- What a hook of the debug library sees is what it sees in the stock interpreter, to the letter; so
-- is what is said of misuse.
-- The programs in tests/lua/hooks print what they see: in lua5.4, as the main script, in a process
-- that is spawned, and in one from which the worker is taken all the time.
local t, shell = require "t", require "shell"

local folder = debug.getinfo(1, "S").source:match "^@(.*/)" .. "hooks/"

local spawned = [[
    local mare = require "mare"
    local ok, why = mare.spawn(assert(loadfile(...))):join()
    assert(ok, why)
]]

local pressed = [[
    local mare = require "mare"
    mare.workers(1)
    local rival = mare.spawn(function() while true do end end)
    local before = mare.stats().preemptions
    local ok, why = mare.spawn(assert(loadfile(...))):join()
    assert(ok, why)
    assert(mare.stats().preemptions > before)
    rival:kill()
]]

local environment = ("MARE_HOOKS_PART=%d "):format(t.slow)

-- The lines that a command prints; it must do well.
local function lines_of(command)
    local got = shell.run(environment .. command)
    t.eq({got.code, got.err}, {0, ""}, command)
    local lines = {}
    for line in got.out:gmatch "[^\n]+" do lines[#lines + 1] = line end
    return lines
end

local function same_as_stock(name, text)
    local path = folder .. name .. ".lua"
    if shell.run("lua5.4 -v").code ~= 0 then t.skip "there is no lua5.4" end
    local expected = lines_of("lua5.4 " .. path)
    local program <close> = shell.file(text or "")
    local got = lines_of(("%s %s %s"):format(shell.mare, text and program or path, path))
    for i = 1, math.max(#got, #expected) do
        t.eq(got[i], expected[i], ("line %d of %s"):format(i, name))
    end
end

local cases = {}
local names = {"events", "lines", "counts", "setting", "values", "long", "closing", "refusals"}
for _, name in ipairs(names) do
    cases[name .. "_in_the_main_script"] = function() same_as_stock(name) end
    cases[name .. "_in_a_process"] = function() same_as_stock(name, spawned) end
end
for _, name in ipairs {"counts", "long"} do
    cases[name .. "_without_rest"] = {function()
        t.needs_preemption()
        same_as_stock(name, pressed)
    end, timeout = 300}
end
return cases
