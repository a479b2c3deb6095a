-- SPDX-License-Identifier: MIT
-- The cookies of a client, and the servers that get them (RFC 6265 section 5). There is no list of
-- public suffixes: a cookie for a domain is accepted if the domain has a dot and the server is in
-- it.
local read_date, trim = require "mare.http._date".read, require "mare.http._text".trim

local Jar = {__name = "mare.http.jar"}
Jar.__index = Jar

-- How many cookies a jar keeps for one host, and in all; how many bytes one may have.
local host_most, all_most, size_most = 50, 1000, 4096

--- An empty jar.
local function new_jar() return setmetatable({cookies = {}, count = 0, of = {}}, Jar) end

local function is_number(host) return host:find "^[%d.]+$" or host:find ":" end

-- Whether a host is a domain, or in it.
local function is_in(host, domain)
    return host == domain or not is_number(host) and host:sub(-#domain - 1) == "." .. domain
end

-- Whether a path is another, or below it (section 5.1.4).
local function is_below(path, parent)
    return path == parent or path:sub(1, #parent) == parent
        and (parent:sub(-1) == "/" or path:sub(#parent + 1, #parent + 1) == "/")
end

local function path_of(place) return place.target:match "^[^?]*" end

-- The attributes of a Set-Cookie, by names in lower case.
local function attributes_of(text)
    local found = {}
    for name, value in text:gmatch ";%s*([^=;]*)=?([^;]*)" do
        found[trim(name):lower()] = trim(value)
    end
    return found
end

-- When a cookie expires. nil: with the jar.
local function end_of(attributes, now)
    local age = attributes["max-age"]
    if age and age:find "^%-?%d+$" then return now + math.min(tonumber(age), 1 << 40) end
    return attributes.expires and read_date(attributes.expires)
end

local function forget(jar, key)
    local one = jar.cookies[key]
    if not one then return end
    jar.cookies[key] = nil
    jar.count = jar.count - 1
    local left = jar.of[one.domain] - 1
    jar.of[one.domain] = left > 0 and left or nil
end

-- Makes room for another cookie of a domain, if necessary: removes expired ones, then the oldest.
local function make_room(jar, domain, now)
    local crowded = (jar.of[domain] or 0) >= host_most
    if not crowded and jar.count < all_most then return end
    local oldest
    for key, one in pairs(jar.cookies) do
        if one.over and one.over <= now then
            forget(jar, key)
        elseif (not crowded or one.domain == domain)
            and (not oldest or one.number < jar.cookies[oldest].number) then
            oldest = key
        end
    end
    forget(jar, oldest)
end

-- Takes one Set-Cookie of a server.
local function take_one(jar, place, text, now)
    local name, value = text:match "^%s*([^=;%s]+)%s*=%s*([^;]*)"
    if not name or #text > size_most then return end
    value = trim(value)
    local attributes, host = attributes_of(text), place.host:lower()
    local domain = (attributes.domain or ""):lower():gsub("^%.", "")
    local path, alone = attributes.path, domain == "" or domain == host
    if alone then domain = host end
    if not alone and (not is_in(host, domain) or not domain:find "%."
        or is_number(host)) or attributes.secure and not place.secure then
        return
    end
    if not path or path:sub(1, 1) ~= "/" then path = path_of(place):match "^(/.*)/[^/]*$" or "/" end
    local key = table.concat({domain, path, name}, "\0")
    local over = end_of(attributes, now)
    if over and over <= now then return forget(jar, key) end
    if not jar.cookies[key] then
        make_room(jar, domain, now)
        jar.count, jar.of[domain] = jar.count + 1, (jar.of[domain] or 0) + 1
    end
    jar.number = (jar.number or 0) + 1
    jar.cookies[key] = {name = name, value = value, domain = domain, path = path, over = over,
        alone = attributes.domain == nil or attributes.domain == "", number = jar.number,
        secure = attributes.secure ~= nil}
end

--- Takes the cookies that a server's answer sets. `place` is from `http.locate`.
function Jar:take(place, headers)
    local set, now = headers["set-cookie"], os.time()
    for _, text in ipairs(type(set) == "table" and set or {set}) do
        take_one(self, place, text, now)
    end
end

--- The Cookie header of a request to a place; nil: none. Longer paths come first.
function Jar:header(place)
    local host, path, now, found = place.host:lower(), path_of(place), os.time(), {}
    for _, one in pairs(self.cookies) do
        local for_it = one.alone and host == one.domain or not one.alone and is_in(host, one.domain)
        if for_it and is_below(path, one.path) and (place.secure or not one.secure)
            and not (one.over and one.over <= now) then
            found[#found + 1] = one
        end
    end
    if #found == 0 then return nil end
    table.sort(found, function(a, b)
        if #a.path ~= #b.path then return #a.path > #b.path end
        return a.number < b.number
    end)
    for i, one in ipairs(found) do found[i] = one.name .. "=" .. one.value end
    return table.concat(found, "; ")
end

return {new = new_jar, Jar = Jar}
