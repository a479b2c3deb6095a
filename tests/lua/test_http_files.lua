-- SPDX-License-Identifier: MIT
-- Files of a folder over HTTP: what is found and what is not, ranges, tags; and answers that are
-- compressed.
local mare, t = require "mare", require "t"
local net, http, file = require "mare.net", require "mare.http", require "mare.file"
local static, gzip, route = require "mare.http.static", require "mare.http.gzip",
    require "mare.http.route"
local zip = require "mare._zip"

-- A handler in a server of its own: a function that asks it for a path, and returns status, body,
-- headers.
local function server(handler)
    local listener = assert(net.listen("127.0.0.1", 0))
    mare.go(http.serve, listener, handler)
    local _, port = listener:address()
    return setmetatable({}, {__close = function() listener:close() end,
        __call = function(_, path, headers, method)
            return http.get {url = ("http://127.0.0.1:%d%s"):format(port, path), headers = headers,
                method = method, timeout = t.patience}
        end})
end

-- A folder with files in it, and a secret beside it, until the end of the scope.
local function folder()
    local top = assert(file.tempfolder())
    local root = top .. "/public"
    file.mkdir(root .. "/sub/.git", {parents = true})
    file.write(top .. "/secret", "secret")
    file.write(root .. "/a.txt", "0123456789")
    file.write(root .. "/sub/index.html", "<p>")
    file.write(root .. "/.hidden", "hidden")
    file.write(root .. "/sub/.git/config", "hidden")
    file.write(root .. "/ü %41", "odd")
    file.write(root .. "/empty.css", "")
    file.symlink("../secret", root .. "/out")
    file.symlink("..", root .. "/up")
    file.symlink("a.txt", root .. "/in")
    return setmetatable({root = root}, {__close = function() file.remove(top, {tree = true}) end})
end

local function inflate(text)
    return (assert(zip.inflater("gzip"):write(text)))
end

return {
    files_are_found_and_nothing_else = function()
        local f <close> = folder()
        local get <close> = server(static.files(f.root))
        local status, text, headers = get "/a.txt"
        t.eq({status, text, headers["content-type"], headers["x-content-type-options"]},
            {200, "0123456789", "text/plain; charset=utf-8", "nosniff"})
        t.eq(select(2, get "/in"), "0123456789")
        t.eq(select(2, get "/sub/"), "<p>")
        t.eq(select(2, get "/%C3%BC%20%2541"), "odd")
        t.eq((get "/empty.css"), 200)
        status, text, headers = get "/sub?x"
        t.eq({status, text, headers.location}, {301, "301 Moved Permanently\n", "/sub/?x"})
        t.eq(select(3, get "//sub").location, "/sub/")
        for _, path in ipairs {"/out", "/up/secret", "/../secret", "/%2e%2e/secret",
            "/sub/../a.txt", "/..%2fsecret", "/%2e%2e%2fsecret", "/..%5csecret", "/a.txt%00",
            "/none", "/", "/a.txt/", "/.hidden", "/sub/.git/config", "/./a.txt",
            "/up/public/../secret"} do
            t.eq((get(path)), 404, path)
        end
        status, text, headers = get("/a.txt", nil, "DELETE")
        t.eq({status, text, headers.allow}, {405, "405 Method Not Allowed\n", "GET, HEAD"})
        status, text, headers = get("/a.txt", nil, "HEAD")
        t.eq({status, text, headers["content-length"]}, {200, "", "10"})
    end,

    options_let_more_through = function()
        local f <close> = folder()
        local routes = route.new():get("/x/*rest", static.files(f.root, {links = true,
            hidden = true, index = "a.txt", max_age = 60, types = {txt = "text/x"}}))
        local get <close> = server(routes:handler())
        t.eq(select(2, get "/x/out"), "secret")
        t.eq(select(2, get "/x/.hidden"), "hidden")
        t.eq((get "/x/../../secret"), 404)
        t.eq((get "/x/%2e%2e/secret"), 404)
        local status, text, headers = get "/x/"
        t.eq({status, text, headers["cache-control"], headers["content-type"]},
            {200, "0123456789", "max-age=60", "text/x"})
        t.eq(select(2, get "/x/%C3%BC%20%2541"), "odd")
        t.raises("unknown option 'link'", static.files, f.root, {link = true})
        t.raises("option 'max_age' must be", static.files, f.root, {max_age = -1})
    end,

    ranges_are_served = function()
        local f <close> = folder()
        local get <close> = server(static.files(f.root))
        local function range(value, more)
            local headers = {range = value}
            for k, v in pairs(more or {}) do headers[k] = v end
            local status, text, got = get("/a.txt", headers)
            return status, text, got["content-range"]
        end
        t.eq({range "bytes=2-4"}, {206, "234", "bytes 2-4/10"})
        t.eq({range "bytes=7-"}, {206, "789", "bytes 7-9/10"})
        t.eq({range "bytes=-3"}, {206, "789", "bytes 7-9/10"})
        t.eq({range "bytes=-99"}, {206, "0123456789", "bytes 0-9/10"})
        t.eq({range "bytes=9-99"}, {206, "9", "bytes 9-9/10"})
        t.eq({range "bytes=10-"}, {416, "416 Range Not Satisfiable\n", "bytes */10"})
        t.eq((range "bytes=-0"), 416)
        t.eq((range "bytes=99999999999999999999-"), 416)
        for _, whole in ipairs {"bytes=1-2,4-5", "bytes=4-2", "lines=1-2", "bytes=-",
            "bytes=a-b"} do
            t.eq({range(whole)}, {200, "0123456789"}, whole)
        end
        local _, _, headers = get "/a.txt"
        t.eq((range("bytes=0-0", {["if-range"] = headers.etag})), 206)
        t.eq((range("bytes=0-0", {["if-range"] = headers["last-modified"]})), 206)
        t.eq((range("bytes=0-0", {["if-range"] = '"other"'})), 200)
        t.eq((get("/empty.css", {range = "bytes=0-"})), 416)
    end,

    who_has_it_is_told_so = function()
        local f <close> = folder()
        local get <close> = server(static.files(f.root))
        local _, _, headers = get "/a.txt"
        local tag, date = headers.etag, headers["last-modified"]
        local function status(asked) return (get("/a.txt", asked)) end
        t.eq(status {["if-none-match"] = tag}, 304)
        t.eq(status {["if-none-match"] = '"x", W/' .. tag}, 304)
        t.eq(status {["if-none-match"] = "*"}, 304)
        t.eq(status {["if-none-match"] = '"x"', ["if-modified-since"] = date}, 200)
        t.eq(status {["if-modified-since"] = date}, 304)
        t.eq(status {["if-modified-since"] = "Thu, 01 Jan 1970 00:00:00 GMT"}, 200)
        t.eq(status {["if-modified-since"] = "Fri, 31 Dec 2400 23:59:59 GMT"}, 304)
        t.eq(status {["if-modified-since"] = "yesterday"}, 200)
        file.write(f.root .. "/a.txt", "new and longer")
        t.eq(status {["if-none-match"] = tag}, 200)
    end,

    dates_are_read_in_all_forms = function()
        local read = require "mare.http._date".read
        for text, seconds in pairs {["Sun, 06 Nov 1994 08:49:37 GMT"] = 784111777,
            ["Sunday, 06-Nov-94 08:49:37 GMT"] = 784111777, -- the three of RFC 9110
            ["Sun Nov  6 08:49:37 1994"] = 784111777,
            ["Sun, 06-Nov-1994 08:49:37 GMT"] = 784111777,
            ["Thu, 29 Feb 2024 23:59:59 GMT"] = 1709251199,
            ["Sat, 31 Dec 2016 23:59:60 GMT"] = 1483228800, -- a leap second
            ["Thu, 01 Jan 1970 00:00:00 GMT"] = 0} do
            t.eq(read(text), seconds, text)
        end
        for _, text in ipairs {"", "Sun, 06 Nov 1994 08:49:37", "Sun, 06 Nov 1994 08:49:37 CET",
            "Sun, 6 Nov 1994 08:49:37 GMT", "Sun, 06 Nvv 1994 08:49:37 GMT", "784111777",
            "Sun, 00 Nov 1994 08:49:37 GMT", "Sun, 31 Nov 1994 08:49:37 GMT",
            "Wed, 29 Feb 2023 08:49:37 GMT", "Mon, 32 Dec 2018 08:49:37 GMT",
            "Sun, 06 Nov 1994 24:00:00 GMT", "Sun, 06 Nov 1994 08:60:00 GMT",
            "Sunday, 06-Nov-94 08:49:61 GMT", "Sun Nov  0 08:49:37 1994"} do
            t.eq(read(text), nil, text)
        end
    end,

    answers_are_compressed_if_it_is_wanted = function()
        local f <close> = folder()
        local text = ("tide "):rep(1000)
        file.write(f.root .. "/long.txt", text)
        local done = mare.channel(10)
        local routes = route.new():use(gzip.answers())
        routes:get("/text", function()
            return {headers = {ETag = '"x"', Vary = "cookie"}, body = text}
        end):get("/string", function() return text end)
        routes:get("/parts", function()
            local n = 0
            return {body = function()
                n = n + 1
                return n <= 100 and text or nil
            end, length = 100 * #text, finally = function() done:send(true) end}
        end):get("/file", function() return {file = f.root .. "/long.txt"} end)
        routes:get("/static/*rest", static.files(f.root))
        routes:get("/small", function() return "small" end):get("/image", function()
            return {headers = {["content-type"] = "image/png"}, body = text}
        end):get("/none", function() return nil end):get("/encoded", function()
            return {headers = {["Content-Encoding"] = "br"}, body = text}
        end):get("/fixed", function()
            return {headers = {["cache-control"] = "private, no-transform"}, body = text}
        end)
        local get <close> = server(routes:handler())
        local wants = {["accept-encoding"] = "br;q=1.0, gzip;q=0.8"}
        for path, expected in pairs {["/text"] = text, ["/string"] = text, ["/file"] = text,
            ["/parts"] = text:rep(100), ["/static/long.txt"] = text} do
            local status, body, headers = get(path, wants)
            t.eq({status, headers["content-encoding"], inflate(body)}, {200, "gzip", expected},
                path)
            t.ok(#body < #expected / 10 and headers.vary:find "accept%-encoding", path)
            status, body, headers = get(path)
            t.eq({status, headers["content-encoding"], body}, {200, nil, expected}, path)
            t.ok(headers.vary:find "accept%-encoding", path)
        end
        t.ok(done:receive(t.patience))
        local _, _, headers = get("/text", wants)
        t.eq({headers.etag, headers.vary}, {'W/"x"', "cookie, accept-encoding"})
        for _, path in ipairs {"/small", "/image", "/none", "/encoded", "/fixed",
            "/static/a.txt"} do
            t.ok(({get(path, wants)})[3]["content-encoding"] ~= "gzip", path)
        end
        t.eq(({get("/static/long.txt", {["accept-encoding"] = "gzip", range = "bytes=0-1"})})[2],
            "ti")
        t.eq(select(2, get("/text", wants, "HEAD")), "")
    end,

    what_is_accepted_is_read_as_the_rfc_has_it = function()
        for value, expected in pairs {gzip = true, ["GZIP"] = true, ["*"] = true, [""] = false,
            ["gzip;q=0"] = false, ["gzip; q=0.0"] = false, ["*;q=0"] = false, identity = false,
            ["identity, gzip;q=0.5"] = false, ["deflate, gzip"] = true, ["*, gzip;q=0"] = false,
            ["gzipped"] = false} do
            t.eq(gzip.is_wanted {headers = {["accept-encoding"] = value}}, expected, value)
        end
        t.eq(gzip.is_wanted {headers = {}}, false)
        t.raises("option 'level' must be", gzip.answers, {level = 10})
        t.raises("unknown option 'min'", gzip.answers, {min = 1})
    end,

    -- The client is not told the length, and could not see that a body is not whole.
    what_is_compressed_has_the_length_that_was_said = function()
        local f <close> = folder()
        local part, name = ("tide "):rep(1000), f.root .. "/long.txt"
        file.write(name, part)
        local answers = {
            function() return {length = #part} end,
            function() return {length = #part + 1} end,
            function() return {length = #part - 1} end,
            function() return {length = #part + 1, body = assert(file.open(name))} end,
            function() return {length = #part - 1, body = assert(file.open(name))} end,
        }
        local get <close> = server(gzip.answers()(function(request)
            local answer, more = answers[tonumber(request.path:sub(2))](), part
            answer.body = answer.body or function()
                local one = more
                more = nil
                return one
            end
            return answer
        end))
        local wants = {["accept-encoding"] = "gzip"}
        for i, expected in ipairs {part, false, false, false, part:sub(1, -2)} do
            local status, body, headers = get("/" .. i, wants)
            if expected then
                t.eq({headers["content-encoding"], inflate(body)}, {"gzip", expected}, i)
            else
                t.eq({status, headers}, {nil, "badmsg"}, i)
            end
        end
    end,

    what_is_compressed_has_limits = function()
        local bomb = zip.deflater("gzip"):write(("\0"):rep(1000000), "end")
        t.fails("toobig", zip.inflater("gzip"):write(bomb, "more", 999999))
        t.eq(#zip.inflater("gzip"):write(bomb, "more", 1000000), 1000000)
        t.fails("badmsg", zip.inflater("gzip"):write("no gzip at all"))
        t.fails("badmsg", zip.inflater("gzip"):write(bomb:sub(1, -9) .. "12345678"))
        local whole, over = zip.inflater("gzip"):write(bomb:sub(1, 100))
        t.ok(#whole > 0 and not over)
        local two = zip.inflater("gzip")
        t.eq(#two:write(bomb .. bomb), 2000000) -- two members
        two:close()
        t.raises("it is closed", two.write, two, "x")
    end,
}
