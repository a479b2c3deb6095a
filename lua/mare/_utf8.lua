-- SPDX-License-Identifier: MIT
-- Text from others, which may contain bytes that are not UTF-8.
local text = {}

--- Replaces each byte that is not part of a character by U+FFFD, because JSON cannot hold it.
function text.clean(bytes)
    local parts, from = {}, 1
    while true do
        local ok, bad = utf8.len(bytes, from)
        if ok then return table.concat(parts) .. bytes:sub(from) end
        parts[#parts + 1] = bytes:sub(from, bad - 1) .. "\u{FFFD}"
        from = bad + 1
    end
end

--- Splits text that arrives in pieces: the whole characters, and the beginning of one whose rest is
--- still to come.
function text.parted(bytes)
    for behind = 1, math.min(3, #bytes) do
        local byte = bytes:byte(-behind)
        local size = byte >= 0xf0 and 4 or byte >= 0xe0 and 3 or byte >= 0xc0 and 2 or 1
        if size > behind then return bytes:sub(1, -behind - 1), bytes:sub(-behind) end
        if byte < 0x80 or size > 1 then break end
    end
    return bytes, ""
end

return text
