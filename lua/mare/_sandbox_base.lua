-- SPDX-License-Identifier: MIT
-- The basic functions, and the libraries `table` and `coroutine`, for code that is not trusted. A
-- loop in C that could be endless, or could call the program's functions, is written in Lua here:
-- in C it could be neither preempted nor killed (table.move of 2^60 elements takes years, and so
-- does table.concat of a table whose __index is a function in C). Nothing here calls a method of a
-- string: the program may have replaced it.
local raw_load, create, sethook = load, coroutine.create, debug.sethook
local metatable_of, plain_tostring = debug.getmetatable, tostring
local concat, insert, remove, move = table.concat, table.insert, table.remove, table.move
local format, find, sub, gsub = string.format, string.find, string.sub, string.gsub
local getinfo = debug.getinfo

local PIECE, MANY = 256, 100000

local function bad(name, index, expected, value)
    error(format("bad argument #%d to '%s' (%s expected, got %s)", index, name, expected,
        value == nil and "no value" or type(value)), 3)
end

local base = {assert = assert, error = error, getmetatable = getmetatable, next = next,
    pairs = pairs, pcall = pcall, rawequal = rawequal, rawget = rawget, rawlen = rawlen,
    rawset = rawset, select = select, tonumber = tonumber, type = type, _VERSION = _VERSION}

-- Raises an error of a library again, with the line of the program instead of one of Maré.
local function blame(message)
    if type(message) ~= "string" or message == "not enough memory" then error(message, 0) end
    message = gsub(message, "^mare%._[%l_]+:%d+: ", "")
    message = gsub(message, "^(bad argument #%d+ to ')%l+%.", "%1") -- C was called by pcall
    local level, frame = 2, getinfo(2, "Sl")
    while frame and (frame.currentline <= 0 or sub(frame.source, 1, 6) == "=mare.") do
        level = level + 1
        frame = getinfo(level, "Sl")
    end
    error(frame and format("%s:%d: %s", frame.short_src, frame.currentline, message) or message, 0)
end

--- For `return base.checked(pcall(f, ...))`, where f calls nothing of the program.
function base.checked(ok, ...)
    if ok then return ... end
    return blame((...))
end
local checked = base.checked

-- ---- Basic functions ----------------------------------------------------------------------------

local function step(list, i)
    i = i + 1
    local value = list[i]
    if value ~= nil then return i, value end
end

function base.ipairs(list)
    if list == nil then bad("ipairs", 1, "table", list) end
    return step, list, 0
end

-- The handler runs after the error, not where the error is: there it could not wait or be
-- preempted.
function base.xpcall(f, handler, ...)
    if type(handler) ~= "function" then bad("xpcall", 2, "function", handler) end
    local function outcome(ok, ...)
        if ok then return true, ... end
        local _, value = pcall(handler, ...)
        return false, value
    end
    return outcome(pcall(f, ...))
end

-- Refuses finalizers: one could run for ever where nothing can end it.
function base.setmetatable(value, metatable)
    if type(metatable) == "table" and rawget(metatable, "__gc") ~= nil then
        error("a metatable with '__gc' is not allowed here", 2)
    end
    return checked(pcall(setmetatable, value, metatable))
end

local COLLECTS = {collect = "collect", step = "step", count = "count"}

function base.collectgarbage(what)
    local option = COLLECTS[what == nil and "collect" or what]
    if not option then
        error(format("collectgarbage '%s' is not allowed here", base.tostring(what)), 2)
    end
    return collectgarbage(option)
end

-- Numbers instead of addresses: code must not learn those.
local numbers, count = setmetatable({}, {__mode = "k"}), 0
local ADDRESS = {table = true, ["function"] = true, thread = true, userdata = true}

function base.tostring(...)
    local value = ...
    if select("#", ...) == 0 then bad("tostring", 1, "value", nil) end
    local metatable = metatable_of(value)
    local own = metatable and rawget(metatable, "__tostring")
    if type(value) == "string" or not own and not ADDRESS[type(value)] then
        return plain_tostring(value)
    elseif own then
        local text = own(value)
        if type(text) ~= "string" then error("'__tostring' must return a string", 2) end
        return text
    end
    if not numbers[value] then
        count = count + 1
        numbers[value] = count
    end
    local name = metatable and rawget(metatable, "__name")
    return format("%s: %d", type(name) == "string" and name or type(value), numbers[value])
end

-- ---- Code ---------------------------------------------------------------------------------------

--- Compiles text, never bytecode. The compiler gets the text in pieces from a function that can be
--- killed: a text of some kilobytes can keep it busy for seconds.
function base.compile(text, name, environment)
    local at = 1
    local f, message = raw_load(function()
        local piece = sub(text, at, at + PIECE - 1)
        at = at + PIECE
        return piece
    end, name, "t", environment)
    if not f and type(message) ~= "string" then error(message, 0) end -- the compiler was killed
    return f, message
end

-- All that a reader returns, as one text.
local function gathered(reader, limit)
    local parts, size = {}, 0
    for i = 1, math.huge do
        local piece = reader()
        if piece == nil or piece == "" then return concat(parts) end
        if type(piece) ~= "string" then error("reader function must return a string", 0) end
        parts[i], size = piece, size + #piece
        if size > limit then return nil, "the chunk is too long" end
    end
end

--- The function `load` for an environment, of texts that are not longer than a limit.
function base.loader(environment, limit)
    return function(chunk, name, mode, ...)
        local message
        if type(chunk) == "function" then
            chunk, message = gathered(chunk, limit)
            if not chunk then return nil, message end
            name = name or "=(load)"
        elseif type(chunk) ~= "string" then
            bad("load", 1, "string", chunk)
        end
        if name ~= nil and type(name) ~= "string" then bad("load", 2, "string", name) end
        if mode ~= nil and type(mode) ~= "string" then bad("load", 3, "string", mode) end
        if #chunk > limit then return nil, "the chunk is too long" end
        if mode and not find(mode, "t", 1, true) then
            return nil, format("attempt to load a text chunk (mode is '%s')", mode)
        end
        local own = environment
        if select("#", ...) > 0 then own = ... end
        return base.compile(chunk, name or chunk, own)
    end
end

-- ---- Tables -------------------------------------------------------------------------------------

local tables = {pack = table.pack, unpack = table.unpack}

local function is_plain(list) return metatable_of(list) == nil end

-- Whether C may shift the items of a list from a place to its end. A table with a few items can
-- have a length near 2^63.
local function is_short(list, at)
    return is_plain(list) and (not at or #list - at < MANY)
end

local function check_table(name, list)
    if type(list) ~= "table" then
        error(format("bad argument #1 to '%s' (table expected, got %s)", name,
            list == nil and "no value" or type(list)), 3)
    end
end

-- The integer that C would read from a value, 1e15 and "1" included; or nil.
local function whole(value)
    local number = (type(value) == "number" or type(value) == "string") and tonumber(value)
    return number and math.tointeger(number)
end

function tables.concat(list, separator, first, last)
    check_table("concat", list)
    if is_plain(list) then return checked(pcall(concat, list, separator, first, last)) end
    local copy = {}
    for i = first or 1, last or #list do
        local value = list[i]
        if type(value) ~= "string" and type(value) ~= "number" then
            error(format("invalid value (at index %d) in table for 'concat'", i), 2)
        end
        copy[#copy + 1] = value
    end
    return checked(pcall(concat, copy, separator))
end

function tables.insert(list, ...)
    check_table("insert", list)
    if is_short(list, whole((...))) then return checked(pcall(insert, list, ...)) end
    local given, size = select("#", ...), #list + 1
    if given == 1 then
        list[size] = ...
    elseif given == 2 then
        local at, value = whole((...)), select(2, ...)
        if not at or at < 1 or at > size then
            error("bad argument #2 to 'insert' (position out of bounds)", 2)
        end
        for i = size, at + 1, -1 do list[i] = list[i - 1] end
        list[at] = value
    else
        error("wrong number of arguments to 'insert'", 2)
    end
end

function tables.remove(list, ...)
    check_table("remove", list)
    if is_short(list, whole((...))) then return checked(pcall(remove, list, ...)) end
    local size = #list
    local at = size
    if select("#", ...) > 0 then at = whole((...)) end
    if not at or at ~= size and (at < 1 or at > size + 1) then
        error("bad argument #2 to 'remove' (position out of bounds)", 2)
    end
    local value = list[at]
    for i = at, size - 1 do list[i] = list[i + 1] end
    if at <= size then list[size] = nil end
    return value
end

function tables.move(from, first, last, to, into)
    check_table("move", from)
    into = into == nil and from or into
    first, last, to = whole(first) or first, whole(last) or last, whole(to) or to
    local short = math.type(first) ~= "integer" or math.type(last) ~= "integer"
        or last < first or last - first >= 0 and last - first < MANY
    if type(into) ~= "table" or short and is_plain(from) and is_plain(into) then
        return checked(pcall(move, from, first, last, to, into))
    end
    checked(pcall(move, {}, first, first, to, {})) -- makes C check the arguments
    if to > last or to <= first or into ~= from then
        for i = 0, last - first do into[to + i] = from[first + i] end
    else
        for i = last - first, 0, -1 do into[to + i] = from[first + i] end
    end
    return into
end

local function less(a, b) return a < b end

-- Merges the halves [from, middle) and [middle, to) of a list into another.
local function merge(list, into, from, middle, to, before)
    local left, right = from, middle
    for i = from, to - 1 do
        if left < middle and (right >= to or not before(list[right], list[left])) then
            into[i], left = list[left], left + 1
        else
            into[i], right = list[right], right + 1
        end
    end
end

-- A merge sort: a wrong comparison does no harm.
local function sort(list, before)
    local size, here, there = #list, {}, {}
    for i = 1, size do here[i] = list[i] end
    local width = 1
    while width < size do
        for from = 1, size, 2 * width do
            local middle = math.min(from + width, size + 1)
            merge(here, there, from, middle, math.min(from + 2 * width, size + 1), before)
        end
        here, there, width = there, here, 2 * width
    end
    for i = 1, size do list[i] = here[i] end
end

function tables.sort(list, before)
    check_table("sort", list)
    if type(before) == "function" then return sort(list, before) end
    if before ~= nil then bad("sort", 2, "function", before) end
    local ok, message = pcall(sort, list, less)
    if ok then return end
    if type(message) == "string" and find(message, "^mare%._sandbox_base:") then blame(message) end
    error(message, 0) -- of a metamethod of the program
end

base.tables = tables

-- ---- Coroutines ---------------------------------------------------------------------------------

--- The library `coroutine`. If there is a hook, it counts the instructions of new coroutines, too.
function base.coroutines(hook, every)
    local library = {}
    for name, value in pairs(coroutine) do library[name] = value end
    if not hook then return library end
    local function counted(f)
        if type(f) ~= "function" then bad("create", 1, "function", f) end
        hook() -- count it now: a short coroutine would cost nothing
        return function(...)
            sethook(hook, "", every)
            return f(...)
        end
    end
    local wrap = coroutine.wrap
    function library.create(f) return create(counted(f)) end
    function library.wrap(f) return wrap(counted(f)) end
    return library
end

return base
