-- SPDX-License-Identifier: MIT
-- New versions of a module in processes that run. A process that follows a module has a routine
-- that receives new versions from a channel with the process's id in its name. So a new version is
-- put in place only while the other routines of the process wait, never in the middle of their
-- work.
--
-- The module's table stays the same one and gets the new fields, as do the tables in it that both
-- versions have under the same name (classes, say). The new functions then refer to the old tables:
-- there is only one of each, whoever refers to it.
local mare, check = require "mare", require "mare._check"

local reload = {}

local OPTIONS = check.set("processes", "timeout")
local PATIENCE <const>, KEPT <const> = 10, 16
local LOOK <const> = 0.02 -- seconds between two checks for processes that have ended

local followed -- the modules that this process follows: a set of names; nil: none

-- ---- In the process that follows ---------------------------------------------------------------

-- Tables that belong to other modules: those are left alone.
local function foreign()
    local others = {[_G] = true, [package] = true}
    for _, module in pairs(package.loaded) do
        if type(module) == "table" then others[module] = true end
    end
    return others
end

-- Finds the old table of each new one: the one under the same name.
local function match(old, new, into, others)
    if into[new] or old == new or others[new] then return end
    into[new] = old
    for key, value in next, new do
        local before = rawget(old, key)
        if type(value) == "table" and type(before) == "table" then
            match(before, value, into, others)
        end
    end
end

-- Replaces new tables by old ones in all that can be reached from a value of the new version.
local function replace(value, into, seen, others)
    local kind = type(value)
    if kind ~= "table" and kind ~= "function" or seen[value] or others[value] then return end
    seen[value] = true
    if kind == "function" then
        for i = 1, math.maxinteger do
            local name, inner = debug.getupvalue(value, i)
            if not name then break end
            if into[inner] then debug.setupvalue(value, i, into[inner]) end
            replace(inner, into, seen, others)
        end
        return
    end
    local changed = {}
    for key, inner in next, value do
        if into[inner] then changed[key] = into[inner] end
        replace(inner, into, seen, others)
    end
    for key, inner in pairs(changed) do rawset(value, key, inner) end
    local meta = debug.getmetatable(value)
    if into[meta] then debug.setmetatable(value, into[meta]) end
    replace(meta, into, seen, others)
end

-- Makes the contents of the old table those of the new one.
local function become(old, new)
    local gone = {}
    for key in next, old do
        if rawget(new, key) == nil then gone[#gone + 1] = key end
    end
    for _, key in ipairs(gone) do rawset(old, key, nil) end
    for key, value in next, new do rawset(old, key, value) end
    debug.setmetatable(old, debug.getmetatable(new))
end

-- Runs the new version. If that works, puts it in the place of the old one.
local function switch(name, code, path)
    local old = package.loaded[name]
    local chunk = assert(load(code, "@" .. path))
    local new = chunk(name, path)
    if type(new) ~= "table" or type(old) ~= "table" then
        error(("module '%s' is not a table but a %s"):format(name,
            type(type(old) ~= "table" and old or new)), 0)
    end
    if type(new.__reload) == "function" then new.__reload(old) end
    local into, others = {}, foreign()
    others[old] = nil
    match(old, new, into, others)
    replace(new, into, {}, others)
    for fresh, before in pairs(into) do become(before, fresh) end
end

local function hear(channel, id)
    local news <close> = channel -- while it exists, others see that this process lives
    for name, code, path, answers in news:messages() do
        local ok, why = nil, nil
        if followed[name] then ok, why = xpcall(switch, debug.traceback, name, code, path) end
        answers:trysend(id, ok, why)
    end
end

--- Requires a module, whose new versions this process gets from now on.
function reload.follow(name)
    check.argument("follow", name, 1, "string")
    local found, module = pcall(require, name)
    if not found then check.blame((tostring(module):gsub("^mare%.reload:%d+: ", ""))) end
    if not followed then
        local id = mare.self():id()
        followed = {}
        mare.go(hear, assert(mare.channel(KEPT, "mare.reload " .. id)), id):detach()
    end
    followed[name] = true
    return module
end

-- ---- In the process that tells -----------------------------------------------------------------

-- The new version, if it compiles: its text, and where it was found.
local function find(name)
    local path, why = package.searchpath(name, package.path)
    if not path then return nil, ("module '%s' not found:\n\t%s"):format(name, why), "noname" end
    local code, code_of_failure
    code, why, code_of_failure = require "mare.file".read(path)
    if not code then return nil, why, code_of_failure end
    local chunk
    chunk, why = load(code, "@" .. path, "t")
    if not chunk then return nil, why, "syntax" end
    return code, path
end

local function news_of(id) return mare.find("mare.reload " .. id) end

-- Sends it to each process that may follow the module. Returns the set of those that will answer,
-- and its size.
local function tell(ids, name, code, path, answers, failures)
    local told, count = {}, 0
    for _, id in ipairs(ids) do
        local news = news_of(id)
        local ok, why, word
        if news then ok, why, word = news:trysend(name, code, path, answers) end
        if ok then told[id], count = true, count + 1 end
        if word == "full" then failures[#failures + 1] = {process = id, message = why} end
    end
    return told, count
end

-- Waits for the answers of those that live, until the deadline. Returns how many have the new
-- version.
local function collect(told, count, answers, deadline, failures)
    local done = 0
    while count > 0 do
        local id, ok, why = answers:receive(math.min(LOOK, deadline:left()))
        if id then
            told[id], count = nil, count - 1
            if ok then done = done + 1 end
            if ok == false then failures[#failures + 1] = {process = id, message = why} end
        elseif deadline:left() == 0 then
            break
        else
            for one in pairs(told) do
                if not news_of(one) then told[one], count = nil, count - 1 end
            end
        end
    end
    for id in pairs(told) do
        failures[#failures + 1] = {process = id,
            message = "it did not wait in time: it will have the new version when it does"}
    end
    return done
end

-- The ids of all processes, or of those that are given.
local function ids_of(processes)
    local ids = {}
    for i, p in ipairs(processes or mare.processes()) do
        ids[i] = processes and p:id() or p.id
    end
    return ids
end

--- Loads the module again in all processes that follow it, or in some. Returns how many have the
--- new version, and a list of the others, each with `process` and `message`.
local function call(_, name, options)
    check.argument("reload", name, 1, "string")
    options = options or {}
    check.options("reload", options, 2, OPTIONS)
    check.option("reload", options, 2, "processes", "table", "a list of processes")
    check.option("reload", options, 2, "timeout", check.span, "a number of seconds above 0")
    local code, path, failure = find(name)
    if not code then return nil, path, failure end
    local ids, failures = ids_of(options.processes), {}
    local answers = mare.channel(#ids + 1)
    local told, count = tell(ids, name, code, path, answers, failures)
    local done = collect(told, count, answers, mare.deadline(options.timeout or PATIENCE), failures)
    return done, failures
end

return setmetatable(reload, {__call = call})
