-- SPDX-License-Identifier: MIT
-- Cookies (RFC 6265): those of a request, those that an answer sets, and signed values, which a
-- client cannot make or change.
local checks, raw = require "mare._check", require "mare._certificate"
local text_of = require "mare.http._text"

local cookie = {}

--- The cookies of a request, by name. Of two with one name the first counts: by RFC 6265 section
--- 5.4 it has the longer path.
function cookie.of(request)
    local found = {}
    for pair in (request.headers.cookie or ""):gmatch "[^;]+" do
        local name, value = pair:match "^%s*([^=%s]+)%s*=(.*)$"
        if name and not found[name] then
            value = text_of.trim(value)
            found[name] = value:match '^"(.*)"$' or value
        end
    end
    return found
end

local options_known = checks.set("path", "domain", "max_age", "secure", "http_only", "same_site")
local same_sites = {strict = "Strict", lax = "Lax", none = "None"}

local function is_value(text) return not text:find '[%c ",;\\\127-\255]' end

-- Whether it can be the value of an attribute: it has no semicolon and no control character.
local function is_attribute(text) return type(text) == "string" and not text:find "[;%c]" end

local function check(options, level)
    local function option(name, good, expected)
        checks.option("set", options, 3, name, good, expected, level + 1)
    end
    option("path", is_attribute, "a path")
    option("domain", is_attribute, "a name")
    option("max_age", function(value) return math.type(value) == "integer" end,
        "an integer of seconds")
    option("secure", "boolean", "true or false")
    option("http_only", "boolean", "true or false")
    option("same_site", function(value) return same_sites[value] end, "'strict', 'lax' or 'none'")
end

--- The value of a Set-Cookie header. It is for all paths (`path`), not for scripts (`http_only`),
--- and not for requests that other sites cause, but for links (`same_site`), unless options say
--- otherwise; `secure`, `domain` and `max_age` (seconds; 0 takes it away) are set if they are
--- given.
function cookie.set(name, value, options)
    options = options or {}
    checks.argument("set", name, 1, "string")
    checks.argument("set", value, 2, "string")
    checks.argument("set", options, 3, "table")
    checks.options("set", options, 3, options_known)
    check(options, 4)
    if name == "" or name:find "[^%w!#$%%&'*+.^_`|~-]" then
        error("bad argument #1 to 'set' (a character that cannot stand in a cookie's name)", 2)
    elseif not is_value(value) then
        error("bad argument #2 to 'set' (a character that cannot stand in a cookie; "
            .. "encode it, or sign it)", 2)
    elseif options.same_site == "none" and not options.secure then
        error("bad argument #3 to 'set' (same_site 'none' is for secure cookies only)", 2)
    end
    local parts = {name .. "=" .. value, "Path=" .. (options.path or "/")}
    if options.domain then parts[#parts + 1] = "Domain=" .. options.domain end
    if options.max_age then parts[#parts + 1] = ("Max-Age=%d"):format(options.max_age) end
    if options.secure then parts[#parts + 1] = "Secure" end
    if options.http_only ~= false then parts[#parts + 1] = "HttpOnly" end
    parts[#parts + 1] = "SameSite=" .. same_sites[options.same_site or "lax"]
    return table.concat(parts, "; ")
end

--- An empty jar, for clients that share their cookies (`http.client {cookies = jar}`).
function cookie.jar() return require "mare.http._jar".new() end

-- ---- Signed values ------------------------------------------------------------------------------

local function bytes_of(hex)
    return (hex:gsub("%x%x", function(pair) return string.char(tonumber(pair, 16)) end))
end

local function xored(text, byte)
    return (text:gsub(".", function(letter) return string.char(letter:byte() ~ byte) end))
end

-- HMAC with SHA-256 (RFC 2104), in hexadecimal digits.
local function mac(key, text)
    if #key > 64 then key = bytes_of(raw.digest(key)) end
    key = key .. ("\0"):rep(64 - #key)
    return raw.digest(xored(key, 0x5c) .. bytes_of(raw.digest(xored(key, 0x36) .. text)))
end

--- Whether two strings are equal, in a time that does not depend on where they differ.
function cookie.same(a, b)
    checks.argument("same", a, 1, "string")
    checks.argument("same", b, 2, "string")
    if #a ~= #b then return false end
    local different = 0
    for i = 1, #a do different = different | (a:byte(i) ~ b:byte(i)) end
    return different == 0
end

local function encode(text)
    return (text:gsub("[^%w_~-]", function(byte) return ("%%%02X"):format(byte:byte()) end))
end

local Signer = {}
Signer.__index = Signer

-- The name is signed, too, so that the value of one cookie is not valid for another.
local function signature(key, name, rest) return mac(key, name .. "=" .. rest) end

--- Signs a value: any string, and when it expires if `seconds` is given. Only somebody with the key
--- can make the result. It can be the value of the cookie with that name.
function Signer:sign(name, value, seconds)
    checks.argument("sign", name, 1, "string")
    checks.argument("sign", value, 2, "string")
    if seconds ~= nil then
        checks.argument("sign", seconds, 3, "number")
        if not math.tointeger(os.time() + seconds // 1) then
            error("bad argument #3 to 'sign' (a number of seconds expected)", 2)
        end
    end
    local until_when = seconds and ("%d"):format(os.time() + seconds // 1) or ""
    local rest = encode(value) .. "." .. until_when
    return rest .. "." .. signature(self.keys[1], name, rest)
end

--- The value that was signed under that name; or nil, message, code: it was not signed, or has
--- expired.
function Signer:check(name, signed)
    checks.argument("check", name, 1, "string")
    if signed == nil then return nil, "there is no such cookie", "noname" end
    checks.argument("check", signed, 2, "string")
    local rest, given = signed:match "^(.*)%.(%x+)$"
    local good = false
    for _, key in ipairs(self.keys) do
        good = rest and cookie.same(signature(key, name, rest), given) or good
    end
    if not good then return nil, "the signature is wrong", "denied" end
    local value, until_when = rest:match "^(.*)%.(%d*)$"
    if until_when ~= "" and os.time() >= tonumber(until_when) then
        return nil, "it is too old", "denied"
    end
    return text_of.unescape(value)
end

--- Signs and checks values with a secret of at least 32 bytes. With several secrets, the first one
--- signs, and all are valid for checks: so a new secret can be put before the old one.
function cookie.signer(...)
    local keys = {...}
    for i = 1, math.max(1, select("#", ...)) do
        if type(keys[i]) ~= "string" or #keys[i] < 32 then
            error(("bad argument #%d to 'signer' (a secret of 32 bytes or more expected)")
                :format(i), 2)
        end
    end
    return setmetatable({keys = keys}, Signer)
end

Signer.__travel = function(signer) return "mare.http.cookie", signer.keys end

--- Makes a signer from a message: processes can send each other signers.
function cookie.arrive(keys) return setmetatable({keys = keys}, Signer) end

return cookie
