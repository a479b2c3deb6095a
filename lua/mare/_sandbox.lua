-- SPDX-License-Identifier: MIT
-- Runs in the process of a sandbox. It makes the environment that a policy describes, then compiles
-- and calls the text in it. sandbox.lua has checked the policy. Code in the environment cannot
-- reach anything of this file: its functions are closures, and there is no `debug`. This file calls
-- no method of a string, because the program may replace those.
local mare, base = require "mare", require "mare._sandbox_base"
local format, sub, match = string.format, string.sub, string.match

local PIECE = 8192 -- the most bytes of output in a message
local EVERY = 1000 -- instructions between two looks at the limit; a new coroutine counts as much

local strings = require "mare._sandbox_string"(base.tostring)

-- ---- Limits -------------------------------------------------------------------------------------

-- A function that ends the process, and tells the guard why. The process ends where it waits next,
-- or when its slice is over. (An error would not do: a hook that raises one each time would keep
-- the process from waiting.)
local function stopper(verdict)
    return function(reason)
        verdict:trysend(reason)
        mare.self():kill(reason)
    end
end

-- A hook that counts instructions, or nil.
local function counter(limit, stop)
    if not limit then return nil end
    local spent = 0
    return function()
        spent = spent + EVERY
        if spent >= limit then stop "instructions" end
    end
end

local function printer(output, limit, stop)
    local sent = 0
    return function(...)
        local words = table.pack(...)
        for i = 1, words.n do words[i] = base.tostring(words[i]) end
        local line = table.concat(words, "\t") .. "\n"
        local room = limit - sent
        sent = sent + #line
        for at = 1, math.min(#line, room), PIECE do
            output:send(sub(line, at, math.min(at + PIECE - 1, room)))
        end
        if sent > limit then
            stop "output"
            mare.yield()
        end
    end
end

-- ---- What the policy allows ---------------------------------------------------------------------

-- Whether an argument passes a check of the policy: a pattern for the whole text, the least and the
-- largest number, a function, or true.
local function passes(check, value)
    if check == true then return true end
    if type(check) == "function" then return check(value) end
    if type(check) == "table" then
        return type(value) == "number" and value >= check[1] and value <= check[2]
    end
    return type(value) == "string" and strings.find(value, "^" .. check .. "$") ~= nil
end

local function checked(name, f, checks, refused)
    return function(...)
        local given = select("#", ...)
        for i = 1, math.max(given, #checks) do
            local value = (select(i, ...))
            if i > #checks or not passes(checks[i], value) then
                refused:trysend(name, i)
                error(format("bad argument #%d to '%s' (the policy does not allow it)", i, name), 2)
            end
        end
        return f(...)
    end
end

-- A copy, so that changes to it do no harm to others that use the module.
local function copied(value)
    if type(value) ~= "table" then return value end
    local copy = {}
    for key, item in pairs(value) do copy[key] = item end
    return copy
end

-- What a name of the policy stands for: the library or module, and the name in it or nil.
local function resolve(name, safe)
    local owner, member = match(name, "^(.+)%.([^.]+)$")
    if safe[name] then return safe[name], name, nil end
    if safe[owner] and safe[owner][member] ~= nil then return safe[owner], owner, member end
    local found, module = pcall(require, owner or name)
    if found and owner and type(module) == "table" and module[member] ~= nil then
        return module, owner, member
    end
    found, module = pcall(require, name)
    if found then return module, name, nil end
    error(format("the policy allows '%s', which there is not", name), 0)
end

-- The modules that the policy lists, by name.
local function modules_of(settings, safe, refused)
    local modules = {}
    for _, entry in ipairs(settings.allow) do
        local name = type(entry) == "table" and entry[1] or entry
        local module, owner, member = resolve(name, safe)
        if not member then
            modules[owner] = copied(module)
        else
            local value = module[member]
            if type(entry) == "table" then
                value = checked(name, value, table.move(entry, 2, #entry, 1, {}), refused)
            end
            modules[owner] = modules[owner] or {}
            modules[owner][member] = value
        end
    end
    return modules
end

local STANDARD = {"coroutine", "debug", "io", "math", "os", "string", "table", "utf8"}
local BASIC = {"assert", "collectgarbage", "error", "getmetatable", "ipairs", "next", "pairs",
    "pcall", "rawequal", "rawget", "rawlen", "rawset", "select", "setmetatable", "tonumber",
    "tostring", "type", "xpcall", "_VERSION"}

-- Limits the methods of strings to the allowed ones. The program can add methods, but cannot change
-- one: modules that it may use call them.
local function protect_strings(library)
    local metatable, methods = debug.getmetatable "", copied(library)
    metatable.__metatable = false
    function metatable.__index(_, name)
        local method = methods[name]
        if method == nil then method = library[name] end
        return method
    end
end

-- Seeds the generator anew. Maré seeds all processes of a program from the same numbers, so code
-- that draws some could predict those of others.
local function seed_anew()
    local bytes = require "mare._certificate".random(16)
    if bytes then math.randomseed(string.unpack("jj", bytes)) end
end

local function environment(settings, hook, refused)
    local safe = {coroutine = base.coroutines(hook, EVERY), math = math, string = strings,
        table = base.tables, utf8 = utf8}
    local modules, world = modules_of(settings, safe, refused), {}
    seed_anew()
    for _, name in ipairs(BASIC) do world[name] = base[name] end
    for _, name in ipairs(STANDARD) do world[name] = modules[name] end
    world._G = world
    world.load = base.loader(world, settings.source)
    function world.require(name)
        local module = modules[name]
        if module == nil then
            error(format("module '%s' is not allowed here", base.tostring(name)), 2)
        end
        return module
    end
    protect_strings(modules.string or {})
    return world
end

-- ---- Results ------------------------------------------------------------------------------------

-- Whether a value contains only data.
local function is_data(value, seen)
    local kind = type(value)
    if kind ~= "table" then
        return kind == "nil" or kind == "boolean" or kind == "number" or kind == "string"
    end
    if debug.getmetatable(value) then return false end
    if seen[value] then return true end
    seen[value] = true
    for key, item in next, value do
        if not is_data(key, seen) or not is_data(item, seen) then return false end
    end
    return true
end

local function outcome(ok, ...)
    if ok then
        for i = 1, select("#", ...) do
            if not is_data((select(i, ...)), {}) then
                return nil, format("result %d is not plain data", i), "badmsg"
            end
        end
        return true, ...
    end
    if (...) == nil then return nil, "the program failed with nil", "failed" end
    local _, message = pcall(base.tostring, (...))
    if type(message) ~= "string" then message = "(an error that is no text)" end
    return nil, message, message == "not enough memory" and "memory" or "failed"
end

--- Runs a text. Returns true and its results, or nil, message, code.
return function(settings, text, channels, ...)
    local stop = stopper(channels.verdict)
    local hook = counter(settings.instructions, stop)
    local made, world = pcall(environment, settings, hook, channels.refused)
    if not made then return nil, world, "invalid" end
    world.print = printer(channels.output, settings.output, stop)
    world.arg = {[0] = settings.name, ...}
    local chunk, message = base.compile(text, "@" .. settings.name, world)
    if not chunk then return nil, message, "syntax" end
    if not hook then return outcome(pcall(chunk, ...)) end
    debug.sethook(hook, "", EVERY)
    return outcome(pcall(chunk, ...))
end
