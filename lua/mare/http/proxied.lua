-- SPDX-License-Identifier: MIT
-- Finds the client's address behind proxies. It believes only proxies on the list. In a chain of
-- proxies, it believes addresses up to the first one that is not on the list.
local checks, trim = require "mare._check", require "mare.http._text".trim
local read_address = require "mare.http._address"

local proxied = {}

-- ---- Addresses ----------------------------------------------------------------------------------

-- Reads "10.0.0.0/8": the bytes, and how many bits count; or nil.
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
--- "unix": clients that come through a Unix-domain socket and have none).
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

-- The address without port and brackets: "1.2.3.4:80", "[::1]:80", "::1".
local function bare(text)
    return text:match "^%[([^%]]*)%]" or text:match "^([^:]*):%d+$" or text
end

-- The pieces of a text, the last one first. A separator within quotes is none. The text is read
-- from its end, which the nearest proxy wrote: so what the client said before, be it half a quoted
-- string, does not change how that is read.
local function pieces_back(text, separator)
    local pieces, quoted, stop, at = {}, false, #text, #text
    while at > 0 do
        local byte = text:sub(at, at)
        if byte == '"' then
            local before = at - 1
            while quoted and text:sub(before, before) == "\\" do before = before - 1 end
            if (at - 1 - before) % 2 == 0 then quoted = not quoted end -- or it is escaped
            at = before + 1
        elseif byte == separator and not quoted then
            pieces[#pieces + 1] = text:sub(at + 1, stop)
            stop = at - 1
        end
        at = at - 1
    end
    pieces[#pieces + 1] = text:sub(1, stop)
    return pieces
end

-- A value without its quotes, if it has any (RFC 9110 section 5.6.4).
local function unquoted(said)
    local inner = said:match '^"(.*)"$'
    return inner and inner:gsub("\\(.)", "%1") or said
end

-- The elements of a Forwarded header (RFC 7239): {for, proto, host}. That of the nearest proxy
-- comes first.
local function forwarded(value)
    local chain = {}
    for i, element in ipairs(pieces_back(value, ",")) do
        local one = {}
        for _, pair in ipairs(pieces_back(element, ";")) do
            local name, said = pair:match "^%s*(%w+)%s*=(.*)$"
            if name then one[name:lower()] = unquoted(trim(said)) end
        end
        chain[i] = one
    end
    return chain
end

-- The last element of a header, or nil.
local function last_of(value)
    local said = trim(value and (value:match "^.*,(.*)$" or value) or "")
    return said ~= "" and said or nil
end

-- The same from X-Forwarded-For and its relatives.
local function x_forwarded(headers)
    local chain = {}
    for _, said in ipairs(pieces_back(headers["x-forwarded-for"] or "", ",")) do
        said = trim(said)
        if said ~= "" then chain[#chain + 1] = {["for"] = said} end
    end
    local nearest = chain[1]
    if nearest then -- before the proxy's own text there may be anything that the client sent
        nearest.proto = last_of(headers["x-forwarded-proto"])
        nearest.host = last_of(headers["x-forwarded-host"])
    end
    return chain
end

local known = checks.set("header")

--- A wrapper for handlers. It sets `request.client`, the client's address, and `request.scheme`
--- ("http" or "https") and `request.authority` (host and port) as the client has asked for them. A
--- proxy is believed if its own address is on the list; any other peer is the client itself.
--- Option: `header`, "forwarded" or "x-forwarded-for", which the proxies write (the second).
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
            for _, one in ipairs(chain) do
                local said = one["for"] and bare(one["for"])
                if not said or not read_address(said) then break end -- "unknown", or nonsense
                client = said
                local proto = (one.proto or ""):lower()
                if proto == "http" or proto == "https" then request.scheme = proto end
                request.authority = one.host or request.authority
                if not is_trusted(client) then break end
            end
            request.client, request.handler = client, handler
            return handler(request, ...)
        end
    end
end

return proxied
