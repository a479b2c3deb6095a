-- SPDX-License-Identifier: MIT
-- IP addresses, as bytes.

-- An IPv4 address as four bytes, or nil. A number with a zero before it is refused: some take it
-- for octal, and would mean another address.
local function read_v4(text)
    local bytes = {text:match "^(%d%d?%d?)%.(%d%d?%d?)%.(%d%d?%d?)%.(%d%d?%d?)$"}
    if not bytes[1] then return nil end
    for i, digits in ipairs(bytes) do
        bytes[i] = tonumber(digits)
        if bytes[i] > 255 or digits:find "^0." then return nil end
    end
    return string.char(table.unpack(bytes))
end

-- The groups of one side of "::", as bytes. At the end of an address, the last one may be an IPv4
-- address.
local function read_groups(text, is_end)
    local bytes = ""
    if text == "" then return bytes end
    for group, behind in (text .. ":"):gmatch "([^:]*):()" do
        local v4 = is_end and behind > #text + 1 and read_v4(group)
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
        local left, right = read_groups(before), read_groups(after, true)
        local zeros = left and right and 16 - #left - #right
        bytes = zeros and zeros > 0 and left .. ("\0"):rep(zeros) .. right
    else
        bytes = read_groups(text, true)
    end
    if not bytes or #bytes ~= 16 then return nil end
    return bytes:sub(1, 12) == ("\0"):rep(10) .. "\255\255" and bytes:sub(13) or bytes
end
