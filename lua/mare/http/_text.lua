-- SPDX-License-Identifier: MIT
-- Texts from others: headers, paths, URLs. They are read in a time that grows with their length. A
-- pattern such as `^(.-)%s*$` takes a time that grows with the square of it, if there are many
-- blanks in the middle, and nothing can interrupt a pattern: a few headers could hold up a worker
-- for seconds.
local text = {}

--- The text without blanks at its ends.
function text.trim(value)
    local first = value:find "%S"
    return first and value:match("^.*%S", first) or ""
end

--- The text with each `%` and two digits replaced by its byte.
function text.unescape(value)
    return (value:gsub("%%(%x%x)", function(hex) return string.char(tonumber(hex, 16)) end))
end

-- The text of a quoted string, from after the first quote (RFC 9110 section 5.6.4); nil: no quote
-- ends it.
local function unquote(value, from)
    local pieces = {}
    while true do
        local stop = value:find('["\\]', from)
        if not stop then return nil end
        pieces[#pieces + 1] = value:sub(from, stop - 1)
        if value:sub(stop, stop) == '"' then return table.concat(pieces), stop end
        pieces[#pieces + 1] = value:sub(stop + 1, stop + 1)
        from = stop + 2
    end
end

--- The parameters of a header's value, after its semicolons: by name in lower case; the first of
--- each name counts.
function text.parameters(value)
    local found, at = {}, value:find(";", 1, true)
    while at do
        local name, from = value:match("^;%s*([^=;%s]+)%s*=%s*()", at)
        local said, last
        if name and value:sub(from, from) == '"' then
            said, last = unquote(value, from + 1)
            if not said then break end
        elseif name then
            said = value:match("^[^;%s]+", from)
        end
        name = said and name:lower()
        if name and not found[name] then found[name] = said end
        at = value:find(";", (last or at) + 1, true)
    end
    return found
end

-- A text may come in a million parts of one byte: they are joined now and then.
local parts_most = 4096

--- Joins all that a function returns part after part into one text; or nil, message, code.
function text.gather(next_part)
    local whole, parts = {}, {}
    while true do
        local part, message, code = next_part()
        if message then return nil, message, code end
        parts[#parts + 1] = part
        if not part or #parts == parts_most then
            whole[#whole + 1], parts = table.concat(parts), {}
        end
        if not part then return table.concat(whole) end
    end
end

return text
