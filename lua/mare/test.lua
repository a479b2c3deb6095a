-- SPDX-License-Identifier: MIT
-- What the cases of a test call: t.eq(got, expected), t.ok(value), t.raises(pattern, f, ...),
-- t.fails(code, f(...)), t.reaches(condition), t.skip(reason). A failed check raises an error that
-- says what it found instead. `mare test` runs them.
local show = require "mare._show"

local t = {}

--- The value as a line of text, tables as they would be written.
function t.show(value) return show(value) end

-- `partners` maps each table of `a` that was met to the one in `b`: cycles must agree.
local function same(a, b, partners)
    if a == b then
        return math.type(a) == math.type(b)
    elseif type(a) ~= "table" or type(b) ~= "table" then
        return a ~= a and b ~= b -- both are NaN
    elseif partners[a] then
        return partners[a] == b
    end
    partners[a] = b
    for key, value in pairs(a) do
        if not same(value, b[key], partners) then
            return false
        end
    end
    for key in pairs(b) do
        if a[key] == nil then
            return false
        end
    end
    return true
end

local function fail(message, text, level)
    error((message and message .. ": " or "") .. text, level + 1)
end

--- Equal: tables by content (shared references and cycles alike), integers apart from floats.
function t.eq(got, expected, message)
    if not same(got, expected, {}) then
        fail(message, "expected " .. t.show(expected) .. ", got " .. t.show(got), 2)
    end
end

--- True in the sense of `if`. Returns its arguments, as assert does.
function t.ok(value, message, ...)
    if not value then
        fail(type(message) == "string" and message or nil, "got " .. t.show(value), 2)
    end
    return value, message, ...
end

--- The call raises an error whose text matches the Lua pattern. Returns the error.
function t.raises(pattern, f, ...)
    local ok, err = pcall(f, ...)
    if ok then
        fail(nil, "expected an error like " .. t.show(pattern) .. ", got none", 2)
    elseif not tostring(err):find(pattern) then
        fail(nil, "expected an error like " .. t.show(pattern) .. ", got " .. t.show(err), 2)
    end
    return err
end

--- The values are `nil, message, code`, as operations that fail return them.
function t.fails(code, ...)
    local value, message, got = ...
    if value ~= nil or type(message) ~= "string" or got ~= code then
        fail(nil, "expected nil, a message, " .. t.show(code) .. "; got " .. t.show({...}), 2)
    end
end

--- Lets other processes run until the condition holds: for changes that send no message, such as a
--- status.
function t.reaches(condition, message)
    local mare = require "mare"
    local deadline = mare.deadline(t.patience)
    while not condition() do
        if deadline:left() == 0 then
            fail(message, "not reached in time", 2)
        end
        mare.yield()
    end
end

--- Ends the case here, neither passed nor failed.
function t.skip(reason)
    error({skip = reason or "no reason given"}, 0)
end

--- How many times slower than usual this run is: for the deadlines of a test, never for an assert.
t.slow = tonumber(os.getenv "MARE_TEST_SLOW" or "1")

--- A deadline for what must happen, in seconds: only a failing test waits that long.
t.patience = 20 * t.slow

--- A seed for a randomised case, new each time, or MARE_SEED. Prints the line that replays it.
function t.seed()
    local seed = tonumber(os.getenv "MARE_SEED" or "")
    if not seed then
        seed = math.random(0) >> 1
    end
    print(string.format("# replay with: MARE_SEED=%d", seed))
    math.randomseed(seed)
    return seed
end

return t
