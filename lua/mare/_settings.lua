-- SPDX-License-Identifier: MIT
-- What commands are told: options from a file, from the environment, from the command line, each
-- before the one before. A file has lines `option = value`; what follows a # is a comment; where a
-- command has sections, lines `[kind name]` begin one.
local arguments = require "mare._arguments"

local settings = {}

-- ---- What becomes of the text of an option ------------------------------------------------------

local YES = {[true] = true, ["true"] = true, yes = true, ["1"] = true}
local UNITS = {[""] = 1, k = 1 << 10, m = 1 << 20, g = 1 << 30}

function settings.text(text) return text end
function settings.number(text) return tonumber(text) or text end
function settings.flag(text) return YES[text] == true end

--- Bytes, perhaps with K, M or G behind the number.
function settings.bytes(text)
    local digits, unit = text:match "^(%d+)([kKmMgG]?)$"
    return digits and tonumber(digits) * UNITS[unit:lower()] or text
end

--- A list of words; an option that is given again adds to it.
function settings.list(text)
    local list = {}
    for word in text:gmatch "[^%s,]+" do list[#list + 1] = word end
    return list
end

-- ---- Gathering ----------------------------------------------------------------------------------

local function fail(spec, ...) arguments.fail(spec.command, ...) end

-- What is given again in a file adds to a list, and to what a command has for it.
local function set(spec, options, known, name, value, where)
    local make = known[name]
    if not make then
        fail(spec, 2, "%s: there is no option '%s'; %s'mare help %s' lists them", where, name,
            arguments.near(name, known), spec.command)
    end
    options[name] = make(value, options[name], where)
end

local function read_file(spec, options, path)
    local file, message = io.open(path)
    if not file then fail(spec, 1, "%s", message) end
    local number, into, known = 0, options, spec.options
    for line in file:lines() do
        number = number + 1
        line = line:gsub("#.*", "")
        local where = ("%s:%d"):format(path, number)
        local name, value = line:match "^%s*([%w_]+)%s*=%s*(.-)%s*$"
        local kind, title = line:match "^%s*%[%s*(%w+)%s+(%S+)%s*%]%s*$"
        if name then
            set(spec, into, known, name, value, where)
        elseif kind and spec.sections and spec.sections[kind] then
            into, known = {}, spec.sections[kind]
            options[kind] = options[kind] or {}
            options[kind][title] = into
        elseif line:find "%S" then
            fail(spec, 2, "%s: a line is 'option = value'%s", where,
                spec.sections and ", or '[kind name]'" or "")
        end
    end
    file:close()
end

--- Splits arguments into options and what follows them, and refuses what is no option.
function settings.split(spec, ...)
    local given, i = {...}, 1
    while i <= #given and given[i]:sub(1, 2) == "--" do
        local word = given[i]
        if not spec.flags[word] then
            if word ~= "--config" and not spec.options[word:sub(3)] then
                local near = arguments.near(word, spec.flags)
                if near == "" then near = arguments.near(word, spec.options) end
                fail(spec, 2, "there is no option '%s'; %s'mare help %s' lists them", word, near,
                    spec.command)
            end
            if not given[i + 1] then fail(spec, 2, "there is no value for '%s'", word) end
            i = i + 1
        end
        i = i + 1
    end
    return {table.unpack(given, 1, i - 1)}, {table.unpack(given, i)}
end

--- The options of a command, from everywhere; and the flags and options as they were given.
--- `spec`: command (its name), options (functions by name), flags, sections (options by kind).
function settings.gather(spec, given)
    local _, last, all = arguments.read(spec.flags, table.unpack(given))
    local options, prefix = {}, ("MARE_%s_"):format(spec.command:upper())
    local path = last["--config"] or os.getenv(prefix .. "CONFIG")
    if path then read_file(spec, options, path) end
    for name in pairs(spec.options) do
        local value = os.getenv(prefix .. name:upper())
        if value then
            options[name] = nil
            set(spec, options, spec.options, name, value, "the environment")
        end
    end
    for word, value in pairs(last) do
        local name = word:sub(3)
        if spec.options[name] then
            options[name] = nil
            for _, each in ipairs(all[word] or {value}) do
                if spec.options[name] == settings.list then
                    each = table.concat(all[word], ",")
                end
                set(spec, options, spec.options, name, each, "the command line")
            end
        end
    end
    return options, last
end

return settings
