-- SPDX-License-Identifier: MIT
-- Logging. A call makes a line, and puts it into a queue of the runtime, which a thread writes
-- (src/loop/log.c); or it sends a record to the process that calls the program's function. Neither
-- waits. Records without room are lost and counted; the next record mentions them.
--
-- The settings belong to the program. Each process has a copy, and each call checks whether that is
-- still the latest.
local mare, raw, checks = require "mare", require "mare._log", require "mare._check"
local json, show = require "mare.json", require "mare._show"
local clean = require "mare._utf8".clean

local log = {}

local LEVELS = {debug = 1, info = 2, warn = 3, error = 4, off = 5}
local ROOM, KEEP, DEPTH = 10000, 5, 5
local OWN = {time = true, level = true, module = true, process = true, message = true}
local setup_known = checks.set("level", "levels", "format", "to", "size", "keep", "room")

-- ---- Settings -----------------------------------------------------------------------------------

local settings, known = {level = "info", levels = {}, format = "text"}, 0

local function refresh()
    local version = raw.version()
    if version == known then return end
    settings, known = raw.settings() or settings, version
end

local function is_level(value) return LEVELS[value] ~= nil end

local function is_count(value) return value == 0 or checks.size(value) end

local function are_levels(value)
    if type(value) ~= "table" then return false end
    for module, level in pairs(value) do
        if type(module) ~= "string" or not is_level(level) then return false end
    end
    return true
end

local function check_setup(options)
    checks.argument("setup", options, 1, "table", 4)
    checks.options("setup", options, 1, setup_known, 4)
    local function option(...) checks.option("setup", options, 1, ...) end
    local words = "'debug', 'info', 'warn', 'error' or 'off'"
    option("level", is_level, words, 5)
    option("levels", are_levels, "a table of modules and their levels, each " .. words, 5)
    option("format", function(value) return value == "text" or value == "json" end,
        "'text' or 'json'", 5)
    option("to", function(value) return type(value) == "string" or type(value) == "function" end,
        "'stderr', the path of a file, or a function", 5)
    option("size", checks.size, "a whole number of bytes above 0", 5)
    option("keep", is_count, "a whole number, 0 or more", 5)
    option("room", checks.size, "a whole number above 0", 5)
end

-- The process that calls the program's function, until its channel is closed. If the function
-- fails, its record is lost. `false` instead of a record asks for an answer: all records before it
-- were handled.
local function serve(f, records)
    local lost, text = require "mare._log".lose, require "mare._show"
    local failing = false -- the function has failed, and that was reported
    for record, says in records:messages() do
        if not record then
            says:trysend(true)
        else
            local ok, why = pcall(f, record)
            if not ok then
                why = type(why) == "string" and why or text(why)
                lost(says, why)
                if not failing then
                    io.stderr:write("mare: the function that gets the log fails: ", why,
                        " (what is logged meanwhile is lost, and counted)\n")
                end
            end
            failing = not ok
        end
    end
end

--- Says what is logged in the whole program, and where it goes: true, or nil, message, code.
function log.setup(options)
    check_setup(options)
    local to, room = options.to or "stderr", options.room or ROOM
    local made = {level = options.level or "info", levels = options.levels or {},
        format = options.format or "text"}
    if type(to) == "function" then
        made.channel = mare.channel(room)
        made.server = mare.spawn(serve, to, made.channel)
        raw.direct(nil, 0, 0, room, false)
    else
        local path = to ~= "stderr" and to or nil
        if path then
            local file, message, code = require "mare.file".open(path, "a")
            if not file then return nil, message, code end
            file:close()
        end
        raw.direct(path, options.size or 0, options.keep or KEEP, room, made.format == "json")
    end
    raw.set(made, made.channel)
    return true
end

-- ---- How a record looks -------------------------------------------------------------------------

local ESCAPES = {['"'] = '\\"', ["\\"] = "\\\\", ["\n"] = "\\n", ["\t"] = "\\t", ["\r"] = "\\r"}

local function escape(c) return ESCAPES[c] or ("\\u%04x"):format(c:byte()) end

local plain

local function plain_table(value, depth)
    if depth > DEPTH then return "..." end
    local copy, n, count = {}, rawlen(value), 0
    for i = 1, n do copy[i] = plain(rawget(value, i), depth + 1) end
    for _ in next, value do count = count + 1 end
    if count == n and n > 0 then return copy end
    copy = {} -- with names: {1, 2, a = 3} becomes {"1":1,"2":2,"a":3}
    for key, member in next, value do copy[clean(tostring(key))] = plain(member, depth + 1) end
    return copy
end

-- A value for JSON. What JSON cannot have becomes text.
function plain(value, depth)
    local kind = math.type(value)
    if kind == "integer" or type(value) == "boolean" then return value end
    if kind == "float" and value - value == 0 then return value end -- neither NaN nor infinite
    if value == nil then return json.null end
    if type(value) == "table" and not (getmetatable(value) and show(value):sub(1, 1) ~= "{") then
        return plain_table(value, depth)
    end
    return clean(type(value) == "string" and value or show(value))
end

local SORTED = {sorted = true, size = 1 << 30} -- a log must not fail
local function member(key, value)
    return json.encode(clean(key), SORTED) .. ":" .. json.encode(plain(value, 1), SORTED)
end

-- The value of a field in a line of text: in quotes if it could be misread.
local function word(value)
    local text = type(value) == "string" and value or show(value)
    if type(value) == "string" and (text == "" or text:find '[%s%c"=]') or text:find "%c" then
        return '"' .. text:gsub('[%c"\\]', escape) .. '"'
    end
    return text
end

local function sorted(fields)
    local keys = {}
    for key in pairs(fields) do
        if type(key) == "string" and not OWN[key] then keys[#keys + 1] = key end
    end
    table.sort(keys)
    return keys
end

local function as_json(record, keys)
    local parts = {}
    for i, key in ipairs {"time", "level", "module", "process", "message"} do
        parts[i] = record[key] ~= nil and member(key, record[key]) or false
    end
    for _, key in ipairs(keys) do
        parts[#parts + 1] = member(key, record.fields[key])
    end
    local there = {}
    for _, part in ipairs(parts) do there[#there + 1] = part or nil end
    return "{" .. table.concat(there, ",") .. "}\n"
end

local function as_text(record, keys)
    local parts = {record.time, record.level,
        (record.module or "-") .. "[" .. record.process .. "]:",
        (record.message:gsub("%c", escape))}
    for _, key in ipairs(keys) do
        parts[#parts + 1] = key .. "=" .. word(record.fields[key])
    end
    return table.concat(parts, " ") .. "\n"
end

-- ---- Logging ------------------------------------------------------------------------------------

local who -- this process's name, or its number

local function identity()
    local self = mare.self()
    who = self:name() or self:id()
    return who
end

-- Sends a record to the program's function. Values that cannot be sent become text.
local function send(channel, record, keys, says)
    local flat = {time = record.time, level = record.level, module = record.module,
        process = record.process, message = record.message}
    for _, key in ipairs(keys) do flat[key] = record.fields[key] end
    local ok, sent = pcall(channel.trysend, channel, flat, says)
    if not ok then
        for _, key in ipairs(keys) do flat[key] = show(flat[key]) end
        ok, sent = pcall(channel.trysend, channel, flat, says)
    end
    if not ok or not sent then raw.lose(says) end
    return ok and sent == true
end

-- `says`: the number of losses that this record tells of, if it does that.
local function write(level, module, message, fields, says)
    local record = {time = raw.time(), level = level, module = module,
        process = who or identity(), message = message, fields = fields}
    local keys = sorted(fields)
    if settings.channel and not settings.channel:closed() then
        return send(settings.channel, record, keys, says)
    end
    return raw.put((settings.format == "json" and as_json or as_text)(record, keys), says)
end

local function put(level, module, base, message, fields)
    refresh()
    if LEVELS[level] < LEVELS[module and settings.levels[module] or settings.level] then
        return false
    end
    if fields ~= nil then checks.argument(level, fields, 2, "table", 3) end
    if base and fields then
        local both = {}
        for key, value in pairs(base) do both[key] = value end
        for key, value in pairs(fields) do both[key] = value end
        fields = both
    end
    local waiting, _, _, unsaid = raw.counts(false)
    if unsaid > 0 and waiting == 0 then
        local _, _, _, lost, why = raw.counts(true)
        if lost > 0 then -- else another process has just told of them
            write("warn", "mare.log", "records were lost", {count = lost, error = why}, lost)
        end
    end
    return write(level, module, tostring(message), fields or base or {})
end

-- The functions of a logger: log.info(message [, fields]). Each returns whether it was logged.
local function fill(logger, module, base)
    for level in pairs(LEVELS) do
        if level ~= "off" then
            logger[level] = function(message, fields)
                return put(level, module, base, message, fields)
            end
        end
    end
    --- Whether a record of this level would be logged. Ask before you compute something costly for
    --- it.
    function logger.enabled(level)
        if not LEVELS[level] or level == "off" then
            error("bad argument #1 to 'enabled' (no such level)", 2)
        end
        refresh()
        return LEVELS[level] >= LEVELS[module and settings.levels[module] or settings.level]
    end
    return logger
end

--- A logger for a module, whose level can be set apart; the fields go into each of its records.
function log.new(module, fields)
    checks.argument("new", module, 1, "string")
    if fields ~= nil then checks.argument("new", fields, 2, "table") end
    return fill({}, module, fields)
end

fill(log, nil, nil)

--- How many records wait, were written, and were lost; and why the last one was lost.
function log.stats()
    local waiting, written, lost, _, why = raw.counts(false)
    refresh()
    return {waiting = waiting + (settings.channel and #settings.channel or 0), written = written,
        lost = lost, error = why}
end

--- Waits until everything has been written; true, or nil, message, code.
function log.flush(timeout)
    local deadline = checks.deadline("flush", timeout, 1)
    refresh()
    local server = settings.server
    if server and server ~= mare.self() then -- the function cannot wait for itself
        local answer = mare.channel(1)
        local asks = {settings.channel, false, answer}
        local which, message, code = mare.select({asks, server}, deadline)
        if which == 1 and message then
            which, message, code = mare.select({answer, server}, deadline)
        end
        if not which then return nil, message, code end
    end
    while raw.counts(false) > 0 do
        if deadline and deadline:left() == 0 then
            return nil, "the deadline passed", "timeout"
        end
        mare.sleep(0.001)
    end
    return true
end

return log
