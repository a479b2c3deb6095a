-- SPDX-License-Identifier: MIT
-- What a client does beyond one request: redirections, cookies, gzip, tries, proxies.
local mare, t = require "mare", require "t"
local net, http, tls = require "mare.net", require "mare.http", require "mare.tls"
local cookie, gzip = require "mare.http.cookie", require "mare.http.gzip"
local follow, jars = require "mare.http._follow", require "mare.http._jar"
local zip = require "mare._zip"
local patience = t.patience

-- A handler in a server of its own, until the end of the scope.
local function server(handler, options, listener)
    listener = listener or assert(net.listen("127.0.0.1", 0))
    mare.go(http.serve, listener, handler, options)
    local _, port = listener:address()
    return setmetatable({port = port, base = "http://127.0.0.1:" .. port},
        {__close = function() listener:close() end})
end

-- What a handler saw: method, path, body and some headers.
local function mirror(request)
    local h = request.headers
    return table.concat({request.method, request.target, request:text(), h.authorization or "-",
        h.cookie or "-", h["content-type"] or "-"}, " ")
end

local function ask(client, what)
    what.timeout = what.timeout or patience
    local response, message, code = client:request(what)
    if not response then return nil, message, code end
    return response.status, response:text(), response
end

return {
    references_are_resolved = function()
        local place = http.locate "http://h:81/a/b/c?q"
        for reference, url in pairs {["http://x/y"] = "http://x/y", ["//x/y"] = "http://x/y",
            ["/y"] = "http://h:81/y", ["y"] = "http://h:81/a/b/y", ["../y?z"] = "http://h:81/a/y?z",
            ["?z"] = "http://h:81/a/b/c?z", ["../../../y"] = "http://h:81/y", [""] =
            "http://h:81/a/b/c?q", ["./"] = "http://h:81/a/b/", ["y#f"] = "http://h:81/a/b/y",
            ["/a/./b/../c"] = "http://h:81/a/c", [".."] = "http://h:81/a/"} do
            t.eq(follow.resolve(place, reference), url, reference)
        end
    end,

    redirections_are_followed = function()
        local s <close> = server(function(request)
            local status, to = request.target:match "^/(%d+)(.*)$"
            if not status then return mirror(request) end
            request:text()
            return {status = tonumber(status), headers = {location = to}, body = "moved"}
        end)
        local client <close> = http.client {redirects = 3}
        local status, text, response = ask(client, {url = s.base .. "/302/there?x"})
        t.eq({status, text, response.url}, {200, "GET /there?x  - - -", s.base .. "/there?x"})
        local form = {["content-type"] = "a/b", authorization = "me"}
        for code, expected in pairs {[301] = "GET /x  me - -", [302] = "GET /x  me - -",
            [303] = "GET /x  me - -", [307] = "POST /x body me - a/b",
            [308] = "POST /x body me - a/b"} do
            t.eq(select(2, ask(client, {url = s.base .. "/" .. code .. "/x", body = "body",
                headers = form})), expected, code)
        end
        t.eq(select(2, ask(client, {url = s.base .. "/302/x", body = "b", method = "PUT"})),
            "PUT /x b - - -")
        t.eq((
            ask(client, {url = s.base .. "/303/x", method = "HEAD"})), 200)
        t.eq((ask(client, {url = s.base .. "/300/x"})), 300)
        t.eq(select(2, ask(client, {url = s.base .. "/302/302/302/x"})), "GET /x  - - -")
        t.fails("badmsg", ask(client, {url = s.base .. "/302/302/302/302/x"}))
        local gone = {"part"} -- a body that is gone cannot be sent again
        t.eq((ask(client, {url = s.base .. "/307/x", body = function()
            return table.remove(gone)
        end})), 307)
        local plain <close> = http.client()
        t.eq((ask(plain, {url = s.base .. "/302/x"})), 302)
    end,

    credentials_stay_where_they_belong = function()
        local other <close> = server(mirror)
        local s <close> = server(function(request)
            if request.path == "/same" then return {status = 307, headers = {location = "/x"}} end
            if request.path == "/x" then return mirror(request) end
            return {status = 307, headers = {location = other.base .. "/y"}}
        end)
        local client <close> = http.client {redirects = 2}
        local secrets = {Authorization = "me", Cookie = "a=1", ["x-other"] = "y"}
        t.eq(select(2, ask(client, {url = s.base .. "/same", headers = secrets})),
            "GET /x  me a=1 -")
        t.eq(select(2, ask(client, {url = s.base .. "/other", headers = secrets})),
            "GET /y  - - -")
    end,

    nothing_leads_from_https_to_http_or_nowhere = function()
        local plain <close> = server(mirror)
        local certificate, key = tls.selfsigned "127.0.0.1"
        local listener = assert(tls.listen("127.0.0.1", 0, {certificate = certificate, key = key}))
        local s <close> = server(function(request)
            return {status = 302, headers = {location = request.path == "/down"
                and plain.base .. "/x" or "ftp://h/"}}
        end, nil, listener)
        local client <close> = http.client {redirects = 2, tls = {authorities = certificate}}
        local base = "https://127.0.0.1:" .. s.port
        t.fails("denied", ask(client, {url = base .. "/down"}))
        t.fails("badmsg", ask(client, {url = base .. "/nowhere"}))
    end,

    cookies_are_kept_and_given = function()
        local s <close> = server(function(request)
            if request.path == "/set" then
                return {status = 303, headers = {location = "/see",
                    ["set-cookie"] = {"a=1", "b=2"}}}
            end
            return mirror(request)
        end)
        local jar = cookie.jar()
        local client <close> = http.client {redirects = 1, cookies = jar}
        t.eq(select(2, ask(client, {url = s.base .. "/set"})), "GET /see  - a=1; b=2 -")
        t.eq(select(2, ask(client, {url = s.base .. "/x", headers = {Cookie = "own=1"}})),
            "GET /x  - own=1 -")
        local second <close> = http.client {cookies = jar}
        t.eq(select(2, ask(second, {url = s.base .. "/x"})), "GET /x  - a=1; b=2 -")
        local third <close> = http.client {cookies = true}
        t.eq(select(2, ask(third, {url = s.base .. "/x"})), "GET /x  - - -")
    end,

    a_jar_gives_cookies_to_whom_they_are_for = function()
        local function given(url, set_at, ...)
            local jar = jars.new()
            jar:take(http.locate(set_at), {["set-cookie"] = {...}})
            return jar:header(http.locate(url))
        end
        local at = "http://www.example.org/a/b"
        t.eq(given(at, at, "x=1"), "x=1")
        t.eq(given("http://www.example.org/a/c/d", at, "x=1"), "x=1")
        t.eq(given("http://www.example.org/ab", at, "x=1"), nil)
        t.eq(given("http://www.example.org/", at, "x=1; Path=/"), "x=1")
        t.eq(given("http://example.org/a/", at, "x=1"), nil)
        t.eq(given("http://b.example.org/a/", at, "x=1; Domain=.example.org"), "x=1")
        t.eq(given("http://badexample.org/a/", at, "x=1; Domain=example.org"), nil)
        t.eq(given(at, at, "x=1; Domain=other.org"), nil)
        t.eq(given(at, at, "x=1; Domain=org"), nil)
        t.eq(given("http://10.0.0.1/", "http://10.0.0.1/", "x=1; Domain=0.0.1"), nil)
        t.eq(given("https://h/", "https://h/", "x=1; Secure"), "x=1")
        t.eq(given("http://h/", "https://h/", "x=1; Secure"), nil)
        t.eq(given("https://h/", "http://h/", "x=1; Secure"), nil)
        t.eq(given(at, at, "x=1; Max-Age=0", "y=2; max-age=100", "z=3; Max-Age=-1"), "y=2")
        t.eq(given(at, at, "x=1", "x=2"), "x=2")
        t.eq(given(at, at, "x=1", "x=; Expires=Thu, 01 Jan 1970 00:00:00 GMT"), nil)
        t.eq(given(at, at, "x=1; Expires=Fri, 31-Dec-2400 23:59:59 GMT"), "x=1")
        t.eq(given("http://h/a/b", "http://h/a/b", "x=1; Path=/", "y=2; Path=/a"), "y=2; x=1")
        t.eq(given(at, at, "=1", "novalue", ("x"):rep(5000) .. "=1", ";"), nil)
        local jar, place = jars.new(), http.locate "http://h/"
        for i = 1, 100 do jar:take(place, {["set-cookie"] = {("c%d=1"):format(i)}}) end
        t.eq(jar.count, 50)
        t.ok(jar:header(place):find "c100=1" and not jar:header(place):find "c50=1")
        for i = 1, 1100 do
            jar:take(http.locate(("http://h%d/"):format(i)), {["set-cookie"] = {"a=1"}})
        end
        t.eq(jar.count, 1000)
    end,

    gzip_is_undone_within_the_limit = function()
        local text = ("tide "):rep(1000)
        local bomb = zip.deflater("gzip"):write(("\0"):rep(3000000), "end")
        local s <close> = server(function(request)
            if request.path == "/text" then
                return gzip.answers()(function() return text end)(request)
            end
            if request.path == "/slowly" then -- no part of it is too large
                local at = 0
                return {headers = {["content-encoding"] = "gzip"}, body = function()
                    at = at + 1
                    local part = bomb:sub(1000 * at - 999, 1000 * at)
                    mare.sleep(0.001)
                    return part ~= "" and part or nil
                end}
            end
            local body = ({["/bomb"] = bomb, ["/cut"] = bomb:sub(1, 1000), ["/no"] = "none at all"})
                [request.path]
            return {headers = {["content-encoding"] = "gzip"}, body = body}
        end)
        local client <close> = http.client {gzip = true}
        for _ = 1, 2 do
            local status, body, response = ask(client, {url = s.base .. "/text"})
            t.eq({status, body, response.headers["content-encoding"]}, {200, text})
        end
        t.eq(select(2, ask(client, {url = s.base .. "/text", method = "HEAD"})), "")
        local function fails(path, code, limits)
            local response = assert(client:request {url = s.base .. path, timeout = patience,
                limits = limits})
            t.fails(code, response:text())
            t.eq(response:text(), "")
        end
        fails("/bomb", "toobig")
        fails("/slowly", "toobig", {body = 2000000})
        fails("/cut", "badmsg")
        fails("/no", "badmsg")
        local large = {body = 3000000}
        t.eq(#select(2, ask(client, {url = s.base .. "/bomb", limits = large})), 3000000)
        local plain <close> = http.client()
        t.eq(select(2, ask(plain, {url = s.base .. "/text"})), text)
    end,

    only_what_can_be_repeated_is_tried_again = function()
        local count = 0
        local s <close> = server(function(request)
            count = count + 1
            request:text()
            if count < 3 then
                return {status = 503, headers = {["retry-after"] = request.query or "0"}}
            end
            return tostring(count)
        end)
        local client <close> = http.client {retries = 2}
        t.eq(select(2, ask(client, {url = s.base})), "3")
        count = 0
        t.eq(select(2, ask(client, {url = s.base, method = "PUT", body = "x"})), "3")
        for _, what in ipairs {{body = "x"}, {method = "PATCH"}, {method = "PUT", body = function()
            return nil
        end}} do
            count, what.url = 0, s.base
            t.eq((ask(client, what)), 503)
            t.eq(count, 1)
        end
        count = 0
        t.eq((ask(client, {url = s.base .. "/?1000"})), 503) -- that is too long to wait
        count = -2
        t.eq((ask(client, {url = s.base})), 503)
        t.eq(count, 1)
    end,

    a_connection_that_fails_is_tried_again = function()
        http.retry_time = 0.001
        local listener <close> = assert(net.listen("127.0.0.1", 0))
        local _, port = listener:address()
        mare.go(function()
            listener:accept(patience):close()
            local stream = listener:accept(patience)
            stream:read()
            stream:write "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
            stream:close()
        end)
        local client <close> = http.client {retries = 1}
        t.eq(select(2, ask(client, {url = "http://127.0.0.1:" .. port})), "ok")
        listener:close()
        t.fails("refused", ask(client, {url = "http://127.0.0.1:" .. port}))
        http.retry_time = 10 * patience -- longer than the deadline leaves: it is not waited for
        t.fails("refused", ask(client, {url = "http://127.0.0.1:" .. port,
            timeout = mare.deadline(patience)}))
    end,

    a_proxy_is_asked = function()
        local certificate, key = tls.selfsigned "127.0.0.1"
        local secure <close> = server(mirror, nil, assert(tls.listen("127.0.0.1", 0,
            {certificate = certificate, key = key})))
        local seen = {}
        local way <close> = server(function(request)
            seen[#seen + 1] = {request.method, request.target,
                request.headers["proxy-authorization"]}
            if request.method ~= "CONNECT" then return "by proxy" end
            if request.host:find "refused" then return {status = 403} end
            local host, port = request.host:match "^(.*):(%d+)$"
            local there <close> = assert(net.connect(host, tonumber(port), patience))
            request.taken = true
            request.stream:write "HTTP/1.1 200 OK\r\n\r\n"
            local back = mare.go(function()
                while true do
                    local part = there:read()
                    if not part or not request.stream:write(part) then break end
                end
            end)
            while true do
                local part = request.stream:read()
                if not part or not there:write(part) then break end
            end
            there:close()
            back:join()
        end, {targets = {"absolute", "authority"}})
        local client <close> = http.client {proxy = "http://me:p%40ss@127.0.0.1:" .. way.port,
            tls = {authorities = certificate}}
        t.eq(select(2, ask(client, {url = "http://nowhere.invalid/x?y"})), "by proxy")
        t.eq(select(2, ask(client, {url = "https://127.0.0.1:" .. secure.port .. "/z"})),
            "GET /z  - - -")
        t.fails("refused", ask(client, {url = "https://refused.invalid/"}))
        local credentials = "Basic bWU6cEBzcw=="
        t.eq(seen, {{"GET", "http://nowhere.invalid/x?y", credentials},
            {"CONNECT", "127.0.0.1:" .. secure.port, credentials},
            {"CONNECT", "refused.invalid:443", credentials}})
        ask(client, {url = "http://nowhere.invalid/", headers = {["Proxy-Authorization"] = "own"}})
        t.eq(seen[4], {"GET", "http://nowhere.invalid/", "own"})
        t.raises("test_http_follow.lua:%d+: bad argument #1 to 'request' %(headers must be a table",
            function()
                local _ = client:request {url = "http://nowhere.invalid/", headers = "x"}
            end)
    end,

    options_are_checked = function()
        for name, value in pairs {redirects = -1, retries = 1.5, gzip = 1, cookies = {},
            proxy = "https://h:1", most = -1, idle_time = "x", timeout = -1} do
            t.raises("test_http_follow.lua:%d+: bad argument #1 to 'client' %(option '" .. name
                .. "' must be", function() local _ = http.client {[name] = value} end)
        end
        for _, url in ipairs {"h:80", "http://h:80/path", "http://", 5} do
            t.raises("option 'proxy' must be", http.client, {proxy = url})
        end
        local client <close> = http.client {redirects = 1, cookies = true}
        local err = t.raises("unknown option 'bdy'", function()
            return client:request {url = "http://h/", bdy = 1} and nil
        end)
        t.ok(err:find "test_http_follow.lua", err)
        t.raises("header 'a b'", client.request, client, {url = "http://h/",
            headers = {["a b"] = "c"}})
        t.raises("headers must be a table", client.request, client, {url = "http://h/",
            headers = "x"})
        t.raises("table expected", client.request, client, 5)
    end,
}
