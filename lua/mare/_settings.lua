-- SPDX-License-Identifier: MIT
-- The options of commands, from a file, the environment and the command line; each overrides the
-- one before. A file has lines `option = value`; a # begins a comment. If a command has sections,
-- lines `[kind name]` begin one.
local arguments, store = require "mare._arguments", require "mare._keystore"

local settings = {}

-- ---- What becomes of the text of an option ------------------------------------------------------

local YES = {[true] = true, ["true"] = true, yes = true, ["1"] = true}
local UNITS = {[""] = 1, k = 1 << 10, m = 1 << 20, g = 1 << 30}

function settings.text(text) return text end
function settings.number(text) return tonumber(text) or text end
function settings.flag(text) return YES[text] == true end

--- Reads a number of bytes, perhaps with K, M or G after it.
function settings.bytes(text)
    local digits, unit = text:match "^(%d+)([kKmMgG]?)$"
    return digits and tonumber(digits) * UNITS[unit:lower()] or text
end

--- A list of words; an option that is given again adds to it.
function settings.list(text, before)
    local list = before or {}
    for word in text:gmatch "[^%s,]+" do list[#list + 1] = word end
    return list
end

-- ---- Gathering ----------------------------------------------------------------------------------

local function fail(spec, ...) arguments.fail(spec.command, ...) end

-- If an option of a list is repeated in a file, that adds to the list.
local function set(spec, options, known, name, value, where)
    local make = known[name]
    if not make then
        fail(spec, 2, "%s: there is no option '%s'; %s'mare help %s' lists them", where, name,
            arguments.near(name, known), spec.command)
    end
    local ok, made = pcall(make, value, options[name], where)
    if not ok then fail(spec, 2, "%s", made) end
    options[name] = made
end

local function read_file(spec, options, path)
    local text, message, code = store.read(path)
    if not text then fail(spec, code == "invalid" and 2 or 1, "%s", message) end
    local number, into, known = 0, options, spec.options
    for line in text:gmatch "[^\n]*" do
        number = number + 1
        line = line:gsub("#.*", "")
        local where = ("%s:%d"):format(path, number)
        local name, value = line:match "^%s*([%w_]+)%s*=%s*(.-)%s*$"
        local kind, title = line:match "^%s*%[%s*(%w+)%s+(%S+)%s*%]%s*$"
        if name and into[name] ~= nil and type(into[name]) ~= "table" then
            fail(spec, 2, "%s: '%s' has a value already", where, name)
        elseif name then
            set(spec, into, known, name, value, where)
        elseif kind and spec.sections and spec.sections[kind] then
            into, known = {}, spec.sections[kind]
            options[kind] = options[kind] or {}
            if options[kind][title] then
                fail(spec, 2, "%s: there is a section '%s %s' already", where, kind, title)
            end
            options[kind][title] = into
        elseif line:find "%S" then
            fail(spec, 2, "%s: a line is 'option = value'%s", where,
                spec.sections and ", or '[kind name]'" or "")
        end
    end
end

--- Splits arguments into options and the words after them. Refuses unknown options.
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

--- The options of a command, from all sources; also the flags and options as they were given.
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
                set(spec, options, spec.options, name, each, "the command line")
            end
        end
    end
    return options, last
end

return settings
