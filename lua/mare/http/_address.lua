-- SPDX-License-Identifier: MIT
-- IP addresses, as bytes.

-- An IPv4 address as four bytes, or nil.
local function read_v4(text)
    local a, b, c, d = text:match "^(%d%d?%d?)%.(%d%d?%d?)%.(%d%d?%d?)%.(%d%d?%d?)$"
    if not a then return nil end
    local bytes = {tonumber(a), tonumber(b), tonumber(c), tonumber(d)}
    for _, byte in ipairs(bytes) do
        if byte > 255 then return nil end
    end
    return string.char(table.unpack(bytes))
end

-- The groups of one side of "::", as bytes.
local function read_groups(text)
    local bytes = ""
    if text == "" then return bytes end
    for group in (text .. ":"):gmatch "([^:]*):" do
        local v4 = read_v4(group)
        if v4 then
            bytes = bytes .. v4
        elseif group:find "^%x%x?%x?%x?$" then
            bytes = bytes .. string.pack(">I2", tonumber(group, 16))
        else
            return nil
        end
    end
    return bytes
end

--- An address as 4 or 16 bytes, or nil. An IPv4 address inside IPv6 (::ffff:1.2.3.4) counts as
--- IPv4.
return function(text)
    local v4 = read_v4(text)
    if v4 or #text > 45 then return v4 end -- addresses are never longer
    local before, after = text:match "^(.-)::(.*)$"
    local bytes
    if before then
        local left, right = read_groups(before), read_groups(after)
        local zeros = left and right and 16 - #left - #right
        bytes = zeros and zeros > 0 and left .. ("\0"):rep(zeros) .. right
    else
        bytes = read_groups(text)
    end
    if not bytes or #bytes ~= 16 then return nil end
    return bytes:sub(1, 12) == ("\0"):rep(10) .. "\255\255" and bytes:sub(13) or bytes
end
