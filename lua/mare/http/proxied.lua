-- SPDX-License-Identifier: MIT
-- Who the client is, if requests come through proxies: only what a proxy says that is on the list
-- is believed, and of a chain, what is said up to the first that is not.
local checks = require "mare._check"

local proxied = {}

-- ---- Addresses ----------------------------------------------------------------------------------

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

-- An address as 4 or 16 bytes, or nil. IPv4 as IPv6 (::ffff:1.2.3.4) is IPv4.
local function read_address(text)
    local v4 = read_v4(text)
    if v4 then return v4 end
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

-- What "10.0.0.0/8" means: the bytes, and how many bits of them count; or nil.
local function read_range(text)
    local address, bits = text:match "^([^/]+)/?(%d*)$"
    local bytes = address and read_address(address)
    local most = bytes and 8 * #bytes
    bits = bits ~= "" and tonumber(bits) or most
    if not bytes or bits > most then return nil end
    return {bytes = bytes, bits = bits}
end

local function is_in(bytes, range)
    local whole = range.bits // 8
    if #bytes ~= #range.bytes or bytes:sub(1, whole) ~= range.bytes:sub(1, whole) then
        return false
    end
    local rest = range.bits % 8
    if rest == 0 then return true end
    local shift = 8 - rest
    return bytes:byte(whole + 1) >> shift == range.bytes:byte(whole + 1) >> shift
end

--- A function that tells whether an address is among these ("127.0.0.1", "10.0.0.0/8", "fd00::/8";
--- "unix": who comes through a Unix-domain socket and has none).
function proxied.list(addresses, name, level)
    name, level = name or "list", level or 3
    checks.argument(name, addresses, 1, "table", level)
    local ranges, unix = {}, false
    for i, text in ipairs(addresses) do
        local range = type(text) == "string" and read_range(text)
        if text == "unix" then
            unix = true
        elseif range then
            ranges[#ranges + 1] = range
        else
            error(("bad argument #1 to '%s' (entry %d is not an address or a range)")
                :format(name, i), level)
        end
    end
    return function(address)
        if address == nil then return unix end
        local bytes = read_address(address)
        for _, range in ipairs(bytes and ranges or {}) do
            if is_in(bytes, range) then return true end
        end
        return false
    end
end

-- ---- What is said -------------------------------------------------------------------------------

-- "1.2.3.4:80", "[::1]:80", "::1" without a port and brackets.
local function bare(text)
    return text:match "^%[([^%]]*)%]" or text:match "^([^:]*):%d+$" or text
end

-- The elements of a Forwarded header (RFC 7239), the nearest proxy's last: {for, proto, host}.
local function forwarded(value)
    local chain = {}
    for element in (value .. ","):gmatch "([^,]*)," do
        local one = {}
        for name, said in element:gmatch '([%w]+)%s*=%s*"?([^";]*)"?' do
            one[name:lower()] = said:match "^%s*(.-)%s*$"
        end
        chain[#chain + 1] = one
    end
    return chain
end

-- The same from X-Forwarded-For and its relatives.
local function x_forwarded(headers)
    local chain = {}
    for said in ((headers["x-forwarded-for"] or "") .. ","):gmatch "%s*([^,]*)%s*," do
        if said ~= "" then chain[#chain + 1] = {["for"] = said} end
    end
    local last = chain[#chain]
    if last then
        last.proto = (headers["x-forwarded-proto"] or ""):match "([%a]+)%s*$"
        last.host = headers["x-forwarded-host"]
    end
    return chain
end

local known = checks.set("header")

--- Puts around handlers: sets `request.client`, the address of the client, and `request.scheme`
--- ("http" or "https") and `request.authority` (host and port), as it asked for them. What a proxy
--- says is believed if its own address is on the list; anybody else is the client himself. Option:
--- `header`, "forwarded" or "x-forwarded-for", which the proxies write (the second).
function proxied.trust(addresses, options)
    options = options or {}
    checks.argument("trust", options, 2, "table")
    checks.options("trust", options, 2, known)
    checks.option("trust", options, 2, "header", function(value)
        return value == "forwarded" or value == "x-forwarded-for"
    end, "'forwarded' or 'x-forwarded-for'")
    local is_trusted = proxied.list(addresses, "trust", 3)
    local standard = options.header == "forwarded"
    return function(handler)
        return function(request, ...)
            local headers, client = request.headers, request.peer
            request.scheme = request.stream:tls() and "https" or "http"
            request.authority = request.host
            local chain = not is_trusted(client) and {}
                or standard and forwarded(headers.forwarded or "") or x_forwarded(headers)
            for i = #chain, 1, -1 do
                local said = chain[i]["for"] and bare(chain[i]["for"])
                if not said or not read_address(said) then break end -- "unknown", or nonsense
                client = said
                local proto = (chain[i].proto or ""):lower()
                if proto == "http" or proto == "https" then request.scheme = proto end
                request.authority = chain[i].host or request.authority
                if not is_trusted(client) then break end
            end
            request.client = client
            return handler(request, ...)
        end
    end
end

return proxied
