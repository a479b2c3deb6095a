-- SPDX-License-Identifier: MIT
-- The parsers of the web that are in Lua, for web.c: nothing that a stranger sends makes one raise;
-- what comes in pieces is the same however it is cut; what they read can be written and read again;
-- and where there is another way to read it, that agrees. The first byte says which parser, as its
-- letter in `parsers`, the second how the rest is cut.
local read_as_c = ...
local form, cookie, events = require "mare.http.form", require "mare.http.cookie",
    require "mare.http.events"
local proxied, gzip, route = require "mare.http.proxied", require "mare.http.gzip",
    require "mare.http.route"
local jars, follow, dates = require "mare.http._jar", require "mare.http._follow",
    require "mare.http._date"
local read_address, text_of = require "mare.http._address", require "mare.http._text"
local http, static, proxy = require "mare.http", require "mare.http.static",
    require "mare.http._proxy"
local deflate, zip, file = require "mare._deflate", require "mare._zip", require "mare.file"

-- ---- What must hold -----------------------------------------------------------------------------

local function must(good, what, ...)
    if good then return good end
    local words = {what}
    for i = 1, select("#", ...) do words[i + 1] = ("%q"):format(tostring((select(i, ...)))) end
    error(table.concat(words, " "), 2)
end

-- A value as a text that is the same for values that are equal.
local function show(value)
    if type(value) ~= "table" then return ("%s %q"):format(type(value), tostring(value)) end
    local shown = {}
    for key, one in pairs(value) do shown[#shown + 1] = show(key) .. "=" .. show(one) end
    table.sort(shown)
    return "{" .. table.concat(shown, ",") .. "}"
end

local function same(a, b, what)
    a, b = show(a), show(b)
    if a ~= b then error(("%s: %s is not %s"):format(what, a, b), 2) end
end

-- A message whose body comes in pieces of that size.
local function in_pieces(text, size, content_type)
    local at = 1
    return {headers = {["content-type"] = content_type}, read = function()
        local piece = text:sub(at, at + size - 1)
        at = at + #piece
        return piece ~= "" and piece or nil
    end}
end

-- All that an iterator returns, and the code of its end.
local function all(next_one)
    local found = {}
    while true do
        local one, message, code = next_one()
        if one == nil then return found, message and must(code, "no code", message) or "end" end
        found[#found + 1] = one
    end
end

-- The text up to the first line break, and what is behind it.
local function line_of(text)
    local first, rest = text:match "^([^\n]*)\n(.*)$"
    return first or text, rest or ""
end

-- ---- Forms --------------------------------------------------------------------------------------

local MULTIPART = "multipart/form-data; boundary=XX"

-- The parts of a body, each with its text or how that failed, and the code of their end.
local function parts_of(text, size, content_type, limits)
    local next_part, _, why = form.parts(in_pieces(text, size, content_type), limits)
    if not next_part then return {}, why end
    return all(function()
        local part, message, code = next_part()
        if not part then return nil, message, code end
        must(type(part.name) == "string", "a part without a name")
        local body, how = all(function() return part:read() end)
        body = table.concat(body)
        must(not limits or #body <= limits.part, "a part beyond its limit")
        return {part.name, part.filename or false, part.type or false, body, how}
    end)
end

local function quoted(text) return (text:gsub('["\\]', "\\%0")) end

-- A body with these parts.
local function body_of(parts)
    local pieces = {}
    local form_of_one = '--XX\r\nContent-Disposition: form-data; name="%s"%s\r\n%s\r\n%s\r\n'
    for _, part in ipairs(parts) do
        pieces[#pieces + 1] = form_of_one:format(quoted(part[1]),
            part[2] and ('; filename="%s"'):format(quoted(part[2])) or "",
            part[3] and ("Content-Type: %s\r\n"):format(part[3]) or "", part[4])
    end
    return table.concat(pieces) .. "--XX--"
end

local function multipart(text, cut)
    local limits = {part = 200, all = 2000, parts = 5, head = 200}
    local whole, how = parts_of(text, #text, MULTIPART, limits)
    must(#whole <= 5, "too many parts")
    if how ~= "toobig" then -- then how much was read before depends on the cut
        same({parts_of(text, cut, MULTIPART, limits)}, {whole, how}, "cut otherwise")
    end
    if how == "end" then
        same({parts_of(body_of(whole), cut, MULTIPART)}, {whole, how}, "written again")
    end
end

local function fields(text)
    local values, lists = form.decode(text, 50)
    if not values then return must(select(2, text:gsub("&", "")) >= 50, "refused", text) end
    same({form.decode(form.encode(lists))}, {values, lists}, "written again")
    for name, list in pairs(lists) do same(list[#list], values[name], "the last") end
end

-- ---- Events -------------------------------------------------------------------------------------

-- The events of a whole text, by the algorithm of the standard of the WHATWG.
local function all_events(text)
    local found, event, data = {}, {}, nil
    for line in text:gsub("\r\n", "\n"):gsub("\r", "\n"):gmatch "([^\n]*)\n" do
        local colon = line:find(":", 1, true)
        local name = colon and line:sub(1, colon - 1) or line
        local value = colon and line:sub(colon + 1):gsub("^ ", "") or ""
        if line == "" then
            event.data = data
            if data then found[#found + 1] = event end
            event, data = {}, nil
        elseif name == "data" then
            data = data and data .. "\n" .. value or value
        elseif name == "event" or name == "id" and not value:find("\0", 1, true) then
            event[name] = value
        elseif name == "retry" and value ~= "" and not value:find "[^0-9]" then
            event.retry = tonumber(value)
        end
    end
    return found
end

local function server_events(text, cut)
    local function read(one_text, size, most)
        return all(events.read(in_pieces(one_text, size), most))
    end
    local whole, how = read(text, cut)
    same({whole, how}, {all_events(text), "end"}, "by the standard")
    local written = {}
    for i, event in ipairs(whole) do
        if math.type(event.retry) == "float" then event.retry = nil end -- beyond integers
        if event.event and event.event:find "%z" then event.event = nil end
        written[i] = events.encode(event)
    end
    same(read(table.concat(written), cut), whole, "written again")
    read(text, cut, 30)
end

-- ---- Cookies ------------------------------------------------------------------------------------

local function cookies(text)
    for name, value in pairs(cookie.of {headers = {cookie = text}}) do
        must(not name:find "[%s=;]" and not value:find(";", 1, true), "a cookie", name, value)
        if not name:find "[^%w!#$%%&'*+.^_`|~-]" and not value:find '[%c ",;\\\127-\255]' then
            local set = cookie.set(name, value):match "^[^;]*"
            same(cookie.of {headers = {cookie = set}}, {[name] = value}, "set again")
        end
    end
end

local signer = cookie.signer(("k"):rep(32))

local function signatures(text)
    local name, value = line_of(text)
    must(signer:check(name, value) == nil, "a signature was made up", name, value)
    local signed = signer:sign(name, value)
    same(signer:check(name, signed), value, "signed")
    must(cookie.set("a", signed), "a signed value is that of a cookie")
    must(signer:check(name .. "x", signed) == nil, "signed for another name", name)
end

local here = http.locate "http://www.example.org/a/b"
local elsewhere = http.locate "http://www.example.com/a/b"

local function set_cookie(text)
    local jar = jars.new()
    jar:take(here, {["set-cookie"] = {text}})
    must(jar.count <= 1 and not jar:header(elsewhere), "a cookie for another", text)
    local given = jar:header(here)
    must(not given or jar.count == 1 and not given:find "[;\r\n]" or text:find "[\r\n]", "given",
        given)
    jar:take(here, {["set-cookie"] = {text, text .. "; Max-Age=0"}})
    must(jar.count == 0 or #text + 11 > 4096 or text:find(";", 1, true), "left over", text)
end

-- ---- Addresses ----------------------------------------------------------------------------------

local trusted = proxied.list {"10.0.0.0/8", "fd00::/8"}
local nothing = {tls = function() end}

local function proxies(text, options, headers)
    local client
    local handler = proxied.trust({"10.0.0.0/8", "fd00::/8"}, options)(function(request)
        client = request.client
        must(request.scheme == "http" or request.scheme == "https", "a scheme")
        must(request.authority, "an authority")
    end)
    handler {peer = "6.6.6.6", host = "h", headers = headers, stream = nothing}
    same(client, "6.6.6.6", "one who is not believed")
    handler {peer = "10.0.0.1", host = "h", headers = headers, stream = nothing}
    must(read_as_c(client), "no address", client)
    -- What a proxy adds behind it is what counts, whatever the client said.
    local name = options and options.header or "x-forwarded-for"
    local added = options and ';proto=https;host="a;b=\\"c,for=9.9.9.9;d="' or ""
    local more = {[name] = ("%s, %s%s"):format(text, options and "for=7.7.7.7" or "7.7.7.7", added)}
    handler {peer = "10.0.0.1", host = "h", headers = more, stream = nothing}
    same(client, "7.7.7.7", "what the proxy added")
end

local function forwarded(text) proxies(text, {header = "forwarded"}, {forwarded = text}) end

local function x_forwarded(text)
    local addresses, other = line_of(text)
    proxies(addresses, nil, {["x-forwarded-for"] = addresses, ["x-forwarded-proto"] = other,
        ["x-forwarded-host"] = other})
end

local function addresses(text)
    local bytes = read_as_c(text)
    if bytes and bytes:sub(1, 12) == ("\0"):rep(10) .. "\255\255" then bytes = bytes:sub(13) end
    same(read_address(text), bytes, "as the C library reads it")
    must(trusted(text) == (bytes ~= nil and (#bytes == 4 and bytes:byte() == 10
        or #bytes == 16 and bytes:byte() == 0xfd)), "in the list", text)
end

-- ---- URLs ---------------------------------------------------------------------------------------

local function urls(text)
    local place = http.locate(text)
    if not place then return end
    must(place.target:find "^/[\33-\126]*$", "a target", place.target)
    must(not place.host:find "[%c%s/?#@]" and place.host ~= "", "a host", place.host)
    must(math.type(place.port) == "integer" and place.port >= 0 and place.port <= 65535, "a port")
    same(http.locate(("%s://%s%s"):format(place.scheme, place.name, place.target)), place,
        "taken apart again")
    proxy.way(text)
end

local function references(text)
    local base, reference = line_of(text)
    local from = http.locate("http://h:81/" .. base)
    local place = from and http.locate(follow.resolve(from, reference))
    if not place then return end
    must(place.target:find "^/[\33-\126]*$", "a target", place.target)
    local path = place.target:match "^[^?]*"
    local relative = reference:match "^[^?#]*"
    if relative ~= "" and not relative:find ":" and not relative:find "^//" then
        same({place.scheme, place.name}, {"http", "h:81"}, "a relative one leads elsewhere")
        must(not (path .. "/"):find "/%.%.?/", "a path with dots", path)
    end
end

local function ways_of_proxies(text)
    local way = proxy.way(text)
    if way then must(way.ask({name = "h", target = "/"}, {}) == "http://h/", "a way") end
end

-- ---- Routes and files ---------------------------------------------------------------------------

local routes = route.new()
for _, path in ipairs {"/a/b", "/a/:x", "/:y/b/*rest", "/a/*rest", "/:x/:y/:z"} do
    routes:get(path, function(request, parameters)
        local again = request.route:gsub("[:*](%w+)", function(name)
            return (must(parameters[name], "a parameter", name))
        end)
        return again
    end)
end
local routed = routes:handler()

local function paths(text)
    local path = "/" .. text
    local answer = routed {method = "GET", path = path, headers = {}}
    if type(answer) == "string" then
        same(answer, text_of.unescape(path), "the route and its parameters")
    else
        must(answer.status == 404, "an answer")
    end
    must(routed({method = "PUT", path = path, headers = {}}).status // 100 == 4, "no such method")
end

local outer = assert(file.tempfolder())
local inner = outer .. "/in"
assert(file.mkdir(inner .. "/b", {parents = true}))
assert(file.write(outer .. "/c", "not for strangers"))
assert(file.write(inner .. "/c", "0123456789"))
assert(file.write(inner .. "/b/c", "0123456789"))
local served = static.files(inner)
local remover <const> = setmetatable({}, {__gc = function() file.remove(outer, {tree = true}) end})

-- Which bytes of a file of ten are asked for, by RFC 9110 section 14.1.2.
local function bytes_asked_for(text)
    local first, last = text:match "^bytes=%s*(%d*)%-(%d*)%s*$"
    if not first or first == "" and last == "" then return 200 end
    if first == "" then
        last = math.min(tonumber(last), 10)
        if last == 0 then return 416 end
        return 206, 10 - last // 1, 9
    end
    first, last = tonumber(first), tonumber(last) or 9
    if last < first and text:find "%-%s*%d" then return 200 end
    if first >= 10 then return 416 end
    return 206, first, math.min(last, 9) // 1 | 0
end

local function ranges(text)
    local range, others = line_of(text)
    local if_range, known = line_of(others)
    local function ask(headers)
        local answer = served {method = "GET", path = "/c", headers = headers}
        local body <close> = type(answer.body) == "userdata" and answer.body or nil
        local first, last = (answer.headers["content-range"] or ""):match "^bytes (%d)%-(%d)/10$"
        if answer.status == 206 then
            same(body:read(answer.length), ("0123456789"):sub(first + 1, last + 1), "the bytes")
        end
        return answer.status or 200, tonumber(first), tonumber(last)
    end
    local status, first, last = bytes_asked_for(range)
    same({ask {range = range}}, {status, first, last}, "the range")
    local other = ask {range = range, ["if-range"] = if_range, ["if-none-match"] = known,
        ["if-modified-since"] = known}
    must(other == 200 or other == 304 or other == status, "a status", other)
end

local function files(text)
    local answer = served({method = "GET", path = "/" .. text, headers = {}}, nil)
    local body <close> = type(answer.body) == "userdata" and answer.body or nil
    if body then
        same({body:read(20), answer.status}, {"0123456789"}, "what is served")
    else
        must(answer.status == 404 or answer.status == 301, "a status", answer.status)
    end
end

-- ---- Headers ------------------------------------------------------------------------------------

local function codings(text)
    must(type(gzip.is_wanted {headers = {["accept-encoding"] = text}}) == "boolean", "a boolean")
    must(not gzip.is_wanted {headers = {["accept-encoding"] = text .. ",gzip;q=0"}},
        "what is not wanted", text)
end

local function dates_of(text)
    local seconds = dates.read(text)
    if not seconds then return end
    must(math.type(seconds) == "integer", "an integer", seconds)
    -- os.date writes other years with other than four digits.
    if seconds < -30610224000 or seconds >= 253402300800 then return end
    same(dates.read(os.date("!%a, %d %b %Y %H:%M:%S GMT", seconds)), seconds, "written again")
    must(text:find(os.date("!%H:%M:%S", seconds), 1, true) or text:find(":60 ", 1, true),
        "another time", text)
    must(text:find(tonumber(os.date("!%d", seconds)), 1, true) or text:find(":60 ", 1, true),
        "another day", text)
end

local function extensions(text)
    local answer, bits = deflate.accept(text)
    must(answer == nil or bits >= 9 and bits <= 15, "bits", bits)
    if answer then same(deflate.check(answer), true, "our own answer") end
    local agreed = deflate.check(text)
    must(agreed == nil or agreed == true, "agreed")
end

local function parameters(text)
    local found, written = text_of.parameters(text), {}
    for name, value in pairs(found) do
        must(name == name:lower() and not name:find "[=;%s]", "a name", name)
        written[#written + 1] = ('; %s="%s"'):format(name, quoted(value))
    end
    same(text_of.parameters(table.concat(written)), found, "written again")
    local trimmed = text_of.trim(text)
    must(not trimmed:find "^%s" and not trimmed:find "%s$", "blanks", trimmed)
    must(text:find(trimmed, 1, true), "other text", trimmed)
    same(text_of.unescape(text:gsub(".", function(byte)
        return ("%%%02x"):format(byte:byte())
    end)), text, "unescaped")
end

-- What becomes of a compressed text: no more than 4,000 bytes, and how it ended.
local function inflated(text, size)
    local inflater, got, pieces = zip.inflater "gzip", "", in_pieces(text, size)
    local _ <close> = setmetatable({}, {__close = function() inflater:close() end})
    local how = "more"
    for piece in pieces.read do
        local part, over, code = inflater:write(piece, "more", 4000 - #got)
        if not part then return got, code end
        got, how = got .. part, over and "over" or "more"
    end
    return got, how
end

local function compressed(text, cut)
    local got, how = inflated(text, #text)
    must(#got <= 4000, "too much")
    local again, too = inflated(text, cut)
    same(too, how, "cut otherwise")
    if how == "over" or how == "more" then same(again, got, "cut otherwise") end
end

-- ---- Which --------------------------------------------------------------------------------------

local parsers = {
    A = multipart,
    B = function(text, cut) parts_of("--XX\r\n\r\n--XX--", cut, text) end,
    C = server_events,
    D = fields,
    E = cookies,
    F = signatures,
    G = set_cookie,
    H = forwarded,
    I = x_forwarded,
    J = addresses,
    K = codings,
    L = dates_of,
    M = urls,
    N = references,
    O = paths,
    P = ranges,
    Q = files,
    R = extensions,
    S = parameters,
    T = ways_of_proxies,
    U = compressed,
}

return function(bytes)
    local parser = remover and parsers[bytes:sub(1, 1)]
    if #bytes < 2 or not parser then return end
    parser(bytes:sub(3), 1 + bytes:byte(2) % 40)
end
