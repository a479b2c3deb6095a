-- SPDX-License-Identifier: MIT
-- Whatever strangers send through the readers of HTTP that are in Lua: they come to an end within
-- their limits, raise nothing, and what comes in pieces is the same however it is cut. (Fuzzers
-- try these, too, and those in C: tests/fuzz.)
local t, http, file = require "t", require "mare.http", require "mare.file"
local form, cookie, events = require "mare.http.form", require "mare.http.cookie",
    require "mare.http.events"
local proxied, gzip, static = require "mare.http.proxied", require "mare.http.gzip",
    require "mare.http.static"
local jars, follow, dates = require "mare.http._jar", require "mare.http._follow",
    require "mare.http._date"
local route, zip, deflate = require "mare.http.route", require "mare._zip", require "mare._deflate"

-- With a collector that never rests each takes far longer.
local TIMES = os.getenv "MARE_GC_STRESS" and 300 or 2000

-- A text with some bytes lost, changed, said twice, or others between them.
local function changed(text, others)
    for _ = 1, math.random(0, 6) do
        local at, how = math.random(0, #text), math.random(4)
        local before, after = text:sub(1, at), text:sub(at + 1)
        local from = math.random(#others)
        if how == 1 then
            after = text:sub(at + math.random(9))
        elseif how == 2 then
            before = before .. others:sub(from, from + math.random(0, 3))
        elseif how == 3 then
            local byte = math.random(2) == 1 and others:byte(from) or math.random(0, 255)
            before, after = before .. string.char(byte), text:sub(at + 2)
        else
            before = before .. text:sub(from, from + math.random(20))
        end
        text = before .. after
    end
    return text
end

-- Calls a function with many changed texts; what it raises is told with the text.
local function try(text, others, f)
    t.seed()
    for _ = 1, TIMES do
        local new = changed(text, others)
        local ok, err = xpcall(f, debug.traceback, new)
        if not ok then
            error((("%q: %s"):format(new, err):gsub("[\128-\255]", function(byte)
                return ("\\%d"):format(byte:byte())
            end)), 0)
        end
    end
end

-- A message whose body comes in pieces of random sizes up to one.
local function in_pieces(text, most, content_type)
    local at = 1
    return {headers = {["content-type"] = content_type}, read = function()
        local piece = text:sub(at, at + math.random(most) - 1)
        at = at + #piece
        return piece ~= "" and piece or nil
    end}
end

-- All that an iterator returns, and the code of its end.
local function all(next_one, most)
    local found = {}
    for i = 1, most do
        local one, _, code = next_one()
        if one == nil then return found, code or "end" end
        found[i] = one
    end
    error "it does not end"
end

local PARTS = '--XX\r\nContent-Disposition: form-data; name="f"; filename="x\\".txt"\r\n'
    .. "Content-Type: text/csv\r\n\r\n0123\r\n--X\r\n--XX\r\nContent-Disposition: form-data; "
    .. "name=b\r\n\r\n\r\n--XX--\r\nend"

-- The parts of a body, each with its text or how that failed, and the code of their end.
local function parts_of(text, most, content_type)
    local limits = {part = 200, all = 1000, parts = 5, head = 200}
    local next_part, _, why = form.parts(in_pieces(text, most, content_type), limits)
    if not next_part then return {}, why end
    return all(function()
        local part, message, code = next_part()
        if not part then return nil, message, code end
        local body, how = all(function() return part:read() end, 300)
        return {part.name, part.filename, part.type, table.concat(body), how}
    end, 6)
end

return {
    parts = function()
        local kind = "multipart/form-data; boundary=XX"
        t.eq({parts_of(PARTS, 3, kind)}, {{{"f", 'x".txt', "text/csv", "0123\r\n--X", "end"},
            {"b", nil, nil, "", "end"}}, "end"}) -- as it should be
        try(PARTS, '-X\r\n";=: name', function(text)
            local whole, how = parts_of(text, 2000, kind)
            if how == "toobig" then return end -- then how much was read before depends on the cut
            t.eq({parts_of(text, 1, kind)}, {whole, how})
            t.eq({parts_of(text, 9, kind)}, {whole, how})
        end)
        try('multipart/form-data; charset=x; boundary="XX"', '"\\;= boundary', function(text)
            parts_of(PARTS, 9, text)
        end)
    end,

    events = function()
        local function read(text, most) return all(events.read(in_pieces(text, most)), 100) end
        local text = ": hi\n\ndata: a\r\ndata:b\r\rid: 7\nevent: e\ndata\nretry: 5\n\n"
        t.eq({read(text, 3)}, {{{data = "a\nb"}, {data = "", id = "7", event = "e", retry = 5}},
            "end"})
        try(text, "\r\n:data", function(new)
            local whole = read(new, 2000)
            t.eq(read(new, 1), whole)
            t.eq(read(new, 9), whole)
        end)
    end,

    fields = function()
        try("a=1&b=x+y%21&a=2&c&=e", "&=%+0a", function(text)
            local values, lists = form.decode(text)
            t.eq({form.decode(form.encode(lists))}, {values, lists})
        end)
    end,

    cookies = function()
        local signer = cookie.signer(("k"):rep(32))
        local signed = signer:sign("id", "value", 1000)
        try('a=1; b="x y"; a=2;c=;  d = e=f ; g', '; ="', function(text)
            for name, value in pairs(cookie.of {headers = {cookie = text}}) do
                t.eq({type(name), type(value)}, {"string", "string"})
            end
        end)
        try(signed, ".0a", function(text)
            t.eq(signer:check("id", text), text == signed and "value" or nil)
        end)
        local there = http.locate "http://www.example.org/a/b"
        try("x=1; Domain=.example.org; Path=/; Max-Age=100; Expires=Fri, 31-Dec-2400 23:59:59 GMT",
            ";=, .", function(text)
                local jar = jars.new()
                jar:take(there, {["set-cookie"] = {text}})
                local given = jar:header(there)
                t.ok(jar.count == 0 and not given or jar.count == 1, given)
                t.ok(not given or text:find(given:match "^[^=]*", 1, true), given)
            end)
    end,

    proxies = function()
        for _, options in ipairs {{}, {header = "forwarded"}} do
            local handler = proxied.trust({"10.0.0.0/8"}, options)(function() end)
            try('for=6.6.6.6, for="[2001:db8::7]:47";proto=https;host=pub', ',;="[]:.',
                function(text)
                    for _, peer in ipairs {"10.0.0.1", "6.6.6.6"} do
                        local request = {peer = peer, host = "h", headers = {forwarded = text,
                            ["x-forwarded-for"] = text, ["x-forwarded-proto"] = text,
                            ["x-forwarded-host"] = text}, stream = {tls = function() end}}
                        handler(request)
                        t.ok(peer == "10.0.0.1" or request.client == peer, request.client)
                        t.ok(request.scheme == "http" or request.scheme == "https")
                    end
                end)
        end
    end,

    files = function()
        local folder = assert(file.tempfolder())
        assert(file.write(folder .. "/a", "0123456789"))
        local handler = static.files(folder)
        try("bytes=2-4", "bytes=,-0123456789 ", function(text)
            local answer = handler {method = "GET", path = "/a", headers = {range = text}}
            local _ <close> = type(answer.body) == "userdata" and answer.body or nil
            local status, range = answer.status or 200, answer.headers["content-range"]
            t.ok(status == 200 or status == 416 or status == 206, status)
            local first, last = (range or ""):match "^bytes (%d)%-(%d)/10$"
            t.ok(status ~= 206 or tonumber(first) <= tonumber(last), range)
        end)
        assert(file.remove(folder, {tree = true}))
    end,

    paths = function()
        local outer = assert(file.tempfolder())
        local inner = outer .. "/in"
        assert(file.mkdir(inner .. "/b", {parents = true}))
        assert(file.write(outer .. "/c", "not for strangers"))
        assert(file.write(inner .. "/c", "fine"))
        assert(file.write(inner .. "/b/c", "fine"))
        local handler = static.files(inner)
        local met = 0
        local routes = route.new():get("/a/:x/c", function(_, parameters)
            return parameters.x
        end):get("/files/*rest", function(request, parameters)
            local answer = handler(request, parameters)
            if type(answer.body) ~= "userdata" then return answer end
            local body <close> = answer.body
            met = met + 1
            t.eq(body:read(20), "fine")
            return "fine"
        end):handler()
        for _, path in ipairs {"files/b/../%2e%2e/c", "files/b/c"} do
            try(path, "/.%2e%2fb", function(text)
                t.ok(routes {method = "GET", path = "/" .. text, headers = {}})
            end)
        end
        t.ok(met > 0) -- some do lead to a file
        try("a/b%2Fc%zz/c", "%2f/c", function(text)
            local answer = routes {method = "GET", path = "/" .. text, headers = {}}
            t.ok(type(answer) == "string" or answer.status == 404)
        end)
        assert(file.remove(outer, {tree = true}))
    end,

    compressed = function()
        local plain = ("abcabcd"):rep(40) .. ("x"):rep(3000)
        local packed = zip.deflater("gzip"):write(plain, "end")
        -- What becomes of a text in pieces of random sizes up to one: no more than 4,000 bytes, and
        -- how it ended.
        local function undo(text, most)
            local inflater, got, pieces = zip.inflater "gzip", "", in_pieces(text, most)
            local _ <close> = setmetatable({}, {__close = function() inflater:close() end})
            local how = "more"
            for piece in pieces.read do
                local part, over, code = inflater:write(piece, "more", 4000 - #got)
                if not part then return got, code end
                got, how = got .. part, over and "over" or "more"
            end
            return got, how
        end
        t.eq({undo(packed, 9)}, {plain, "over"})
        try(packed, packed, function(text)
            local got, how = undo(text, 1)
            t.ok(#got <= 4000, #got)
            local again, too = undo(text, 9)
            t.eq(too, how)
            if how == "over" or how == "more" then t.eq(again, got) end
        end)
        -- A bomb is left where it is too large.
        t.eq(select(2, undo(zip.deflater("gzip"):write(("x"):rep(1 << 20), "end"), 9)), "toobig")
    end,

    extensions = function()
        local text = 'x-a, permessage-deflate; client_max_window_bits; server_max_window_bits="10"'
        t.eq({deflate.accept(text)}, {deflate.OFFER .. "; server_max_window_bits=10", 10})
        try(text, ",;= \"09_", function(new)
            local answer, bits = deflate.accept(new)
            t.ok(answer == nil or bits >= 9 and bits <= 15, bits)
            if answer then t.eq(deflate.check(answer), true) end
            local agreed = deflate.check(new)
            t.ok(agreed == nil or agreed == true)
        end)
    end,

    others = function()
        try("br;q=1.0, gzip;q=0.8, *;q=0", ";,=q.0*", function(text)
            t.eq(type(gzip.is_wanted {headers = {["accept-encoding"] = text}}), "boolean")
        end)
        try("Sun, 06-Nov-1994 08:49:37 GMT", ", -:0", function(text)
            local seconds = dates.read(text)
            t.ok(seconds == nil or math.type(seconds) == "integer", seconds)
        end)
        try("http://h:81/a/b/c?q#x", ":/?#[]@%", function(text)
            local place = http.locate(follow.resolve(http.locate "http://h:81/a/b", text))
            t.ok(not place or not place.target:find "[^\33-\126]", text)
        end)
    end,
}
