-- SPDX-License-Identifier: MIT
-- Lua's patterns, matched by Lua code. The matcher of the string library is a C function that
-- nothing can interrupt, and some patterns take it practically forever. This one is slower, but can
-- be preempted, counted and killed like any other code. _sandbox_string.lua uses it where the one
-- in C might take too long. (The rules are those of the reference manual, section 6.4.1.)
local byte, sub, char, find = string.byte, string.sub, string.char, string.find
local format = string.format -- no methods: a program could put its own in their place

local PERCENT, OPEN, CLOSE, DOLLAR, CARET = byte("%()$^", 1, -1)
local LEFT, RIGHT, DASH, DOT, STAR, PLUS, QUESTION = byte("[]-.*+?", 1, -1)
local B, F, ZERO, NINE = byte("bf09", 1, -1)
local OPENED, POSITION = -1, -2 -- sizes of captures that have none
local MOST_CAPTURES = 32

-- For the byte after a %: a table of the bytes that belong to that class. A character that is not a
-- class stands for itself.
local classes = setmetatable({}, {__index = function(all, letter)
    local class, known = {}, find(char(letter), "[acdglpsuwxzACDGLPSUWXZ]")
    for value = 0, 255 do
        if known then class[value] = find(char(value), "%" .. char(letter)) ~= nil
        else class[value] = value == letter end
    end
    all[letter] = class
    return class
end})

-- The index after the single item that begins at `at`.
local function item_end(p, at)
    local first = byte(p, at)
    at = at + 1
    if first == PERCENT then
        if at > #p then error("malformed pattern (ends with '%')", 0) end
        return at + 1
    elseif first ~= LEFT then
        return at
    end
    if byte(p, at) == CARET then at = at + 1 end
    repeat -- a ']' that comes first is an ordinary letter
        if at > #p then error("malformed pattern (missing ']')", 0) end
        at = at + (byte(p, at) == PERCENT and 2 or 1)
    until byte(p, at) == RIGHT
    return at + 1
end

-- Whether a byte is in the set whose brackets are at `at` and `last`.
local function in_set(p, value, at, last)
    local found = true
    at = at + 1
    if byte(p, at) == CARET then found, at = false, at + 1 end
    while at < last do
        local this = byte(p, at)
        if this == PERCENT then
            if classes[byte(p, at + 1)][value] then return found end
            at = at + 2
        elseif byte(p, at + 1) == DASH and at + 2 < last then
            if this <= value and value <= byte(p, at + 2) then return found end
            at = at + 3
        else
            if this == value then return found end
            at = at + 1
        end
    end
    return not found
end

-- Whether the byte of the subject at `at` matches the item from `from` up to before `behind`.
local function fits(m, at, from, behind)
    local value, kind = byte(m.s, at), byte(m.p, from)
    if not value then return false end
    if kind == DOT then return true end
    if kind == PERCENT then return classes[byte(m.p, from + 1)][value] end
    if kind == LEFT then return in_set(m.p, value, from, behind - 1) end
    return kind == value
end

local match

-- ---- Captures -----------------------------------------------------------------------------------

local function with_capture(m, at, from, size)
    local level = m.level + 1
    if level > MOST_CAPTURES then error("too many captures", 0) end
    m.level, m.from[level], m.size[level] = level, at, size
    local last = match(m, at, from)
    if not last then m.level = level - 1 end
    return last
end

local function end_capture(m, at, from)
    for level = m.level, 1, -1 do
        if m.size[level] == OPENED then
            m.size[level] = at - m.from[level]
            local last = match(m, at, from)
            if not last then m.size[level] = OPENED end
            return last
        end
    end
    error("invalid pattern capture", 0)
end

local function captured(m, level)
    local size = m.size[level]
    if level > m.level or size == OPENED then
        error(format("invalid capture index %%%d", level), 0)
    end
    if size == POSITION then return m.from[level] end
    return sub(m.s, m.from[level], m.from[level] + size - 1)
end

-- ---- Items --------------------------------------------------------------------------------------

-- %bxy: the index after the balanced part.
local function balanced(m, at, from)
    local opens, closes = byte(m.p, from, from + 1)
    if not closes then error("malformed pattern (missing arguments to '%b')", 0) end
    if byte(m.s, at) ~= opens then return nil end
    local depth = 1
    for i = at + 1, #m.s do
        local value = byte(m.s, i)
        if value == closes then
            depth = depth - 1
            if depth == 0 then return i + 1 end
        elseif value == opens then
            depth = depth + 1
        end
    end
end

-- %f[set]: the index in the pattern after it, or nil if the subject has no such frontier here.
local function frontier(m, at, from)
    if byte(m.p, from) ~= LEFT then error("missing '[' after '%f' in pattern", 0) end
    local behind = item_end(m.p, from)
    local before, here = at > 1 and byte(m.s, at - 1) or 0, byte(m.s, at) or 0
    if in_set(m.p, before, from, behind - 1) or not in_set(m.p, here, from, behind - 1) then
        return nil
    end
    return behind
end

-- As many repetitions as possible, at least so many; then the rest.
local function greedy(m, at, from, behind, least)
    local count = 0
    while fits(m, at + count, from, behind) do count = count + 1 end
    for n = count, least, -1 do
        local last = match(m, at + n, behind + 1)
        if last then return last end
    end
end

-- As few repetitions as possible; then the rest.
local function lazy(m, at, from, behind)
    while true do
        local last = match(m, at, behind + 1)
        if last then return last end
        if not fits(m, at, from, behind) then return nil end
        at = at + 1
    end
end

-- An item that begins with a %: returns where to go on in the subject and in the pattern; nil if it
-- does not match; false if it is an ordinary single item.
local function special(m, at, from)
    local kind = byte(m.p, from + 1)
    if kind == B then
        return balanced(m, at, from + 2), from + 4
    elseif kind == F then
        local behind = frontier(m, at, from + 2)
        return behind and at, behind
    elseif kind and kind >= ZERO and kind <= NINE then
        local text = captured(m, kind - ZERO)
        if type(text) == "number" then return nil end -- a position is no text
        return sub(m.s, at, at + #text - 1) == text and at + #text or nil, from + 2
    end
    return false
end

-- A single item, perhaps repeated: as above, or the end of the whole match.
local function single(m, at, from)
    local behind = item_end(m.p, from)
    local suffix = byte(m.p, behind)
    if suffix == STAR then return nil, nil, greedy(m, at, from, behind, 0) end
    if suffix == PLUS then return nil, nil, greedy(m, at, from, behind, 1) end
    if suffix == DASH then return nil, nil, lazy(m, at, from, behind) end
    local here = fits(m, at, from, behind)
    if suffix == QUESTION then
        local last = here and match(m, at + 1, behind + 1)
        if last then return nil, nil, last end
        return at, behind + 1
    end
    if here then return at + 1, behind end
end

-- Matches the pattern from an index on with the subject at a place: where the match ends, or nil.
function match(m, at, from)
    while from <= #m.p do
        local kind = byte(m.p, from)
        if kind == OPEN then
            if byte(m.p, from + 1) == CLOSE then return with_capture(m, at, from + 2, POSITION) end
            return with_capture(m, at, from + 1, OPENED)
        elseif kind == CLOSE then
            return end_capture(m, at, from + 1)
        elseif kind == DOLLAR and from == #m.p then
            return at == #m.s + 1 and at or nil
        end
        local next_at, next_from, last = false, nil, nil
        if kind == PERCENT then next_at, next_from = special(m, at, from) end
        if next_at == false then next_at, next_from, last = single(m, at, from) end
        if not next_at then return last end
        at, from = next_at, next_from
    end
    return at
end

-- ---- For others ---------------------------------------------------------------------------------

local pattern = {}

--- As string.find of a pattern, with an index from 1 to #s + 1.
function pattern.find(s, p, init)
    local m = {s = s, p = p, level = 0, from = {}, size = {}}
    local anchored = byte(p) == CARET
    for at = init, anchored and init or #s + 1 do
        m.level = 0
        local last = match(m, at, anchored and 2 or 1)
        if last then
            local captures = {}
            for level = 1, m.level do captures[level] = captured(m, level) end
            return at, last - 1, table.unpack(captures, 1, m.level)
        end
    end
    return nil
end

-- The item at an index: where it ends, and whether it opens a capture (or is one) or closes one.
local function item_at(p, at)
    local kind, following = byte(p, at, at + 1)
    if kind == OPEN and following == CLOSE then return at + 2, POSITION end
    if kind == OPEN or kind == CLOSE then return at + 1, kind end
    if kind == PERCENT and following == B then
        if at + 3 > #p then error("malformed pattern (missing arguments to '%b')", 0) end
        return at + 4
    elseif kind == PERCENT and following == F then
        if byte(p, at + 2) ~= LEFT then error("missing '[' after '%f' in pattern", 0) end
        return item_end(p, at + 2)
    elseif kind == PERCENT and following and following >= ZERO and following <= NINE then
        return at + 2, following
    end
    return item_end(p, at)
end

--- Raises an error for a malformed pattern. (A match raises one only when it reaches the mistake.)
function pattern.check(p)
    local at, level, open, closed = 1, 0, {}, {}
    while at <= #p do
        local behind, what = item_at(p, at)
        if what == OPEN or what == POSITION then
            level = level + 1
            if level > MOST_CAPTURES then error("too many captures", 0) end
            if what == OPEN then open[#open + 1] = level else closed[level] = true end
        elseif what == CLOSE then
            if #open == 0 then error("invalid pattern capture", 0) end
            closed[table.remove(open)] = true
        elseif what and not closed[what - ZERO] then
            error(format("invalid capture index %%%d", what - ZERO), 0)
        end
        at = behind
    end
    if #open > 0 then error("unfinished capture", 0) end
end

return pattern
