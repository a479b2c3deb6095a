-- SPDX-License-Identifier: MIT
-- The string library for code that is not trusted. Work that takes long in C (patterns, searches,
-- `rep`) is done here in short pieces, so that the process can be preempted, counted and killed
-- between them. It calls functions of the program from Lua code, where they can wait. There is no
-- `dump`, and no text contains an address. (Nothing here calls a method of a string: the program
-- may have replaced it.)
local raw, pattern, checked = string, require "mare._pattern", require "mare._sandbox_base".checked
local find, sub, byte, rep, gsub = raw.find, raw.sub, raw.byte, raw.rep, raw.gsub
local format = raw.format
local concat, unpack, pack = table.concat, table.unpack, table.pack

local STEPS, PREFIX = 50000, 1000 -- that one call in C may take: well below a millisecond
local SPECIAL, REPEATS, LINEAR = "[%^%$%*%+%?%.%(%[%%%-]", "[%*%+%?%-]", "%%[b%d]"
local CARET = byte "^"

local function bad(name, index, expected, value)
    error(format("bad argument #%d to '%s' (%s expected, got %s)", index, name, expected,
        value == nil and "no value" or type(value)), 4)
end

local function text(name, index, value)
    if type(value) == "string" then return value end
    if type(value) == "number" then return format("%s", value) end
    bad(name, index, "string", value)
end

local function integer(name, index, value, default)
    if value == nil then return default end
    local number = math.tointeger(tonumber(value))
    if not number then bad(name, index, "integer", value) end
    return number
end

-- Where a search begins: 1 to #s + 1; nil if that is after the end.
local function start_of(s, init)
    if init < 0 then init = math.max(#s + init + 1, 1) end
    if init > #s + 1 then return nil end
    return math.max(init, 1)
end

-- Finds a text in a text. In C this takes up to the product of both lengths.
local function find_text(s, p, init)
    if #p > PREFIX then
        local prefix, at = sub(p, 1, PREFIX), init
        while true do
            at = find_text(s, prefix, at)
            if not at then return nil end
            if sub(s, at, at + #p - 1) == p then return at, at + #p - 1 end
            at = at + 1
        end
    end
    local room = STEPS // math.max(#p, 1) -- try so many places at a time
    if #s - init < room then return find(s, p, init, true) end
    for at = init, #s - #p + 1, room do
        local from, to = find(sub(s, at, at + room + #p - 2), p, 1, true)
        if from then return at + from - 1, at + to - 1 end
    end
    return nil
end

local exponents, remembered = {}, 0 -- by pattern

-- The time that C needs grows at most with this power of the length: each item that repeats may end
-- at any place. False: the pattern has no special characters.
local function exponent_of(p)
    local exponent = exponents[p]
    if exponent == nil then
        local _, repeats = gsub(p, REPEATS, "")
        local _, linear = gsub(p, LINEAR, "")
        exponent = find(p, SPECIAL) ~= nil and repeats + linear
        if remembered >= 100 then exponents, remembered = {}, 0 end
        exponents[p], remembered = exponent, remembered + 1
    end
    return exponent
end

local function find_pattern(s, p, init)
    local exponent = exponent_of(p)
    if not exponent then return find_text(s, p, init) end
    local steps = (#s - init + 2) ^ exponent * #p -- the steps from one start
    if steps * (#s - init + 2) <= STEPS then return find(s, p, init) end
    if steps > STEPS then return pattern.find(s, p, init) end
    local anchored = byte(p) == CARET
    if anchored then return find(s, p, init) end
    p = "^" .. p
    for at = init, #s + 1 do
        local found = pack(find(s, p, at))
        if found[1] then return unpack(found, 1, found.n) end
    end
    return nil
end

-- As string.find, with an index in the subject.
local function search(s, p, init) return checked(pcall(find_pattern, s, p, init)) end

-- ---- Finding ------------------------------------------------------------------------------------

local safe = {}
for _, name in ipairs {"byte", "char", "len", "lower", "pack", "packsize", "reverse", "sub",
    "unpack", "upper"} do
    safe[name] = raw[name]
end

function safe.find(s, p, init, plain)
    s, p = text("find", 1, s), text("find", 2, p)
    init = start_of(s, integer("find", 3, init, 1))
    if not init then return nil end
    if plain then return find_text(s, p, init) end
    return search(s, p, init)
end

-- The results of a match: its captures, or the whole match.
local function values(s, from, to, ...)
    if not from then return nil end
    if ... == nil then return sub(s, from, to) end
    return ...
end

function safe.match(s, p, init)
    s, p = text("match", 1, s), text("match", 2, p)
    init = start_of(s, integer("match", 3, init, 1))
    if not init then return nil end
    return values(s, search(s, p, init))
end

-- The next match from `at` on; but not an empty one at `last`, where the match before ended.
local function next_match(s, p, at, last)
    local found = pack(search(s, p, at))
    if found[1] and found[2] + 1 == last then
        if at > #s then return nil end
        found = pack(search(s, p, at + 1))
    end
    return found[1] and found
end

function safe.gmatch(s, p, init)
    s, p = text("gmatch", 1, s), text("gmatch", 2, p)
    local at, last = start_of(s, integer("gmatch", 3, init, 1)), nil
    if byte(p) == CARET then p = "%" .. p end -- gmatch has no anchor
    return function()
        local found = at and next_match(s, p, at, last)
        if not found then
            at = nil
            return nil
        end
        at = found[2] + 1
        last = at
        return values(s, unpack(found, 1, found.n))
    end
end

-- ---- Replacing ----------------------------------------------------------------------------------

-- Replaces %0, %1, ... in the replacement for a match.
local function expanded(s, replacement, found)
    return (gsub(replacement, "%%(.?)", function(letter)
        if letter == "%" then return "%" end
        local number = tonumber(letter)
        if not number then error("invalid use of '%' in replacement string", 0) end
        local whole = number == 0 or number == 1 and found.n == 2
        local value = whole and sub(s, found[1], found[2]) or found[number + 2]
        if value == nil then
            error(format("invalid capture index %%%d in replacement string", number), 0)
        end
        return tostring(value)
    end))
end

local function replaced(s, replacement, found)
    local whole, kind = sub(s, found[1], found[2]), type(replacement)
    if kind == "string" then return expanded(s, replacement, found) end
    local first = found[3] == nil and whole or found[3]
    local value
    if kind == "table" then value = replacement[first]
    elseif found.n == 2 then value = replacement(whole)
    else value = replacement(unpack(found, 3, found.n)) end
    if not value then return whole end
    if type(value) ~= "string" and type(value) ~= "number" then
        error(format("invalid replacement value (a %s)", type(value)), 0)
    end
    return value
end

local REPLACEMENTS = {string = true, number = true, table = true, ["function"] = true}

function safe.gsub(s, p, replacement, most)
    s, p = text("gsub", 1, s), text("gsub", 2, p)
    if not REPLACEMENTS[type(replacement)] then
        bad("gsub", 3, "string/function/table", replacement)
    end
    if type(replacement) == "number" then replacement = tostring(replacement) end
    most = integer("gsub", 4, most, #s + 1)
    local out, at, last, count = {}, 1, nil, 0
    while count < most do
        local found = next_match(s, p, at, last)
        if not found then break end
        count = count + 1
        out[#out + 1] = sub(s, at, found[1] - 1)
        out[#out + 1] = replaced(s, replacement, found)
        at = found[2] + 1
        last = at
        if byte(p) == CARET then break end
    end
    out[#out + 1] = sub(s, at)
    return concat(out), count
end

-- ---- Making -------------------------------------------------------------------------------------

-- C takes a step for each repetition, even of an empty string, and there is no limit to those.
function safe.rep(s, count, separator)
    s, count = text("rep", 1, s), integer("rep", 2, count)
    if not count then bad("rep", 2, "number", nil) end
    separator = separator == nil and "" or text("rep", 3, separator)
    if count <= 0 or #s + #separator == 0 then return "" end
    local BLOCK = 1000
    if count <= BLOCK then return rep(s, count, separator) end
    local block = safe.rep(s .. separator, BLOCK) -- the last separator is removed later
    local whole = rep(block, (count - 1) // BLOCK)
    return whole .. rep(s, (count - 1) % BLOCK + 1, separator)
end

--- Makes the library, with the `tostring` of the sandbox.
return function(show)
    local library = {}
    for name, value in pairs(safe) do library[name] = value end
    function library.format(template, ...)
        template = text("format", 1, template)
        for letter in raw.gmatch(template, "%%[^%a%%]*([%a%%])") do
            if letter == "p" then error("bad argument #1 to 'format' ('%p' is not allowed)", 2) end
        end
        local given = pack(...)
        for i = 1, given.n do
            local kind = type(given[i])
            if kind ~= "number" and kind ~= "string" and kind ~= "boolean" and kind ~= "nil" then
                given[i] = show(given[i])
            end
        end
        return checked(pcall(format, template, unpack(given, 1, given.n)))
    end
    return library
end
