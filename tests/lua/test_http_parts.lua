-- SPDX-License-Identifier: MIT
-- The pieces of a web server, each by itself: routes, forms, cookies, proxies, rates, health,
-- events.
local mare, t = require "mare", require "t"
local net, http = require "mare.net", require "mare.http"
local route, form, cookie = require "mare.http.route", require "mare.http.form",
    require "mare.http.cookie"
local proxied, rate, health, events = require "mare.http.proxied", require "mare.http.rate",
    require "mare.http.health", require "mare.http.events"

local function asks(method, path, more)
    local request = {method = method, path = path, headers = {}, peer = "1.2.3.4", host = "h",
        stream = {tls = function() return nil end}}
    for key, value in pairs(more or {}) do request[key] = value end
    return request
end

-- A message whose body comes in pieces of a size.
local function in_pieces(text, size, content_type)
    local at = 1
    return {headers = {["content-type"] = content_type}, read = function()
        if at > #text then return nil end
        local piece = text:sub(at, at + size - 1)
        at = at + size
        return piece
    end, text = function() return text end}
end

local BOUNDARY = "multipart/form-data; boundary=XX"

local function parts_of(text, size, options, content_type)
    local found = {}
    local next_part, message, code = form.parts(in_pieces(text, size, content_type or BOUNDARY),
        options)
    if not next_part then return found, message, code end
    while true do
        local part, why, how = next_part()
        if not part then return found, why, how end
        local body
        body, why, how = part:text()
        if not body then return found, why, how end
        found[#found + 1] = {part.name, body, part.filename, part.type}
    end
end

local function part(about, body)
    return "--XX\r\nContent-Disposition: form-data; " .. about .. "\r\n\r\n" .. body .. "\r\n"
end

return {
    -- Routes.

    the_most_particular_route_answers = function()
        local said = function(what)
            return function(_, p) return what .. " " .. (p.id or p.rest or p.name or "-") end
        end
        local routes = route.new()
        routes:get("/files/*rest", said "rest"):get("/files/:id", said "one")
        routes:get("/files/new", said "new"):get("/", said "root")
        routes:get("/a/:id/b", said "ab"):get("/a/x/:name", said "ax"):add("*", "/any", said "any")
        routes:post("/files/:id", said "post")
        local handler = routes:handler()
        local function get(path, method) return handler(asks(method or "GET", path)) end
        t.eq(get "/files/new", "new -")
        t.eq(get "/files/7", "one 7")
        t.eq(get "/files/7/8", "rest 7/8")
        t.eq(get "/files/a%20b%2Fc", "one a b/c")
        t.eq(get "/files/", "rest ")
        t.eq(get "/", "root -")
        t.eq(get "/a/x/b", "ax b")
        t.eq(get "/a/y/b", "ab y")
        t.eq(get("/any", "BREW"), "any -")
        t.eq(get("/files/7", "POST"), "post 7")
        t.eq(get("/files/7", "HEAD"), "one 7")
        for _, path in ipairs {"/none", "/a/y/c", "/a//b", "//", "/any/", ("/x"):rep(100)} do
            t.eq(get(path).status, 404, path)
        end
        t.eq(handler(asks("OPTIONS", nil)).status, 404)
        t.eq(get("/files/7", "PUT"), {status = 405, headers = {allow = "GET, HEAD, POST"},
            body = "405 Method Not Allowed\n"})
        t.eq(get("/files/7", "OPTIONS"), {status = 204, headers = {allow = "GET, HEAD, POST"}})
    end,

    what_is_put_around_sees_every_request = function()
        local seen = {}
        local function noting(name)
            return function(handler)
                return function(request, ...)
                    seen[#seen + 1] = name
                    return handler(request, ...)
                end
            end
        end
        local inner = route.new():use(noting "c"):get("/in/:x", function(request, p)
            return request.route .. p.x
        end)
        local outer = route.new():use(noting "a"):use(noting "b")
        outer:add("*", "/in/*rest", inner:handler())
        local handler = outer:handler()
        t.eq(handler(asks("GET", "/in/1")), "/in/:x1")
        t.eq(handler(asks("GET", "/nowhere")).status, 404)
        t.eq(seen, {"a", "b", "c", "a", "b"})
    end,

    routes_travel = function()
        local routes = route.new():get("/:x", function(_, p) return p.x end)
        local ok, said = mare.spawn(function(given)
            return given:handler() {method = "GET", path = "/hi", headers = {}}
        end, routes):join(t.patience)
        t.eq({ok, said}, {true, "hi"})
    end,

    wrong_routes_are_refused = function()
        local routes = route.new():get("/x/:a", print)
        t.raises("a path begins with '/'", routes.get, routes, "x", print)
        t.raises("there is a route for GET /x/:b already", routes.get, routes, "/x/:b", print)
        t.raises("':1' is not a name", routes.get, routes, "/:1", print)
        t.raises("'%*a' must be the last", routes.get, routes, "/*a/b", print)
        t.raises("function expected", routes.get, routes, "/y", "no")
        t.raises("function expected", routes.use, routes, {})
        local err = t.raises("to 'get'", function() routes:get("y", print) end)
        t.ok(err:find "test_http_parts.lua", err)
    end,

    -- Forms.

    fields_are_decoded = function()
        t.eq({form.decode "a=1&b=x+y%21&a=2&c&=e&d=%zz%4"}, {{a = "2", b = "x y!", c = "",
            [""] = "e", d = "%zz%4"}, {a = {"1", "2"}, b = {"x y!"}, c = {""}, [""] = {"e"},
            d = {"%zz%4"}}})
        t.eq({form.decode ""}, {{}, {}})
        t.eq(form.query(asks("GET", "/", {query = "q=1"})), {q = "1"})
        t.eq(form.query(asks("GET", "/")), {})
        t.fails("toobig", form.decode(("a=1&"):rep(1001)))
        t.fails("toobig", form.decode("a&b&c", 2))
        t.eq(form.encode {b = "x y!é", a = {1, "&="}}, "a=1&a=%26%3D&b=x+y%21%C3%A9")
        t.eq(form.decode(form.encode {[" k"] = "v\0\n"}), {[" k"] = "v\0\n"})
        local kind = "Application/X-WWW-Form-Urlencoded; charset=utf-8"
        t.eq(form.body(in_pieces("a=b", 9, kind)), {a = "b"})
        t.fails("badmsg", form.body(in_pieces("a=b", 9, "text/plain")))
    end,

    parts_are_read_however_they_come = function()
        local long = ("0123456789\r\n--X"):rep(20)
        local text = "preamble\r\n" .. part('name="a"', "one")
            .. part('name="f"; filename="x\\".txt"' .. "\r\nContent-Type: text/csv", long)
            .. part("name=b", "") .. "--XX--\r\nepilogue"
        for _, size in ipairs {1, 2, 3, 7, 64, 10000} do
            t.eq({parts_of(text, size)}, {{{"a", "one"}, {"f", long, 'x".txt', "text/csv"},
                {"b", ""}}}, size)
        end
        t.eq({parts_of(text:gsub("^preamble\r\n", ""), 5, nil,
            'multipart/form-data; charset=x; boundary="XX"')}, {{{"a", "one"}, {"f", long,
            'x".txt', "text/csv"}, {"b", ""}}})
        local next_part = form.parts(in_pieces(text, 3, BOUNDARY)) -- unread is passed over
        t.eq(next_part().name, "a")
        t.eq(next_part():read(), "0")
        t.eq({next_part().name, next_part()}, {"b"})
    end,

    parts_have_limits = function()
        local text = part('name="a"', ("x"):rep(100)) .. part('name="b"', "y") .. "--XX--"
        t.eq(select(3, parts_of(text, 10, {part = 99})), "toobig")
        t.eq(#parts_of(text, 10, {part = 100}), 2)
        t.eq(select(3, parts_of(text, 10, {parts = 1})), "toobig")
        t.eq(select(3, parts_of(text, 10, {all = 150})), "toobig")
        t.eq(select(3, parts_of(text, 10, {head = 30})), "toobig")
        t.eq(select(3, parts_of("--XX\r\n" .. ("x"):rep(9000), 100)), "toobig")
        t.raises("option 'parts' must be a positive integer", form.parts, {}, {parts = 0})
        t.raises("unknown option 'size'", form.parts, {}, {size = 1})
    end,

    broken_parts_are_refused = function()
        local good = part('name="a"', "x")
        for _, text in ipairs {"", "--XX", good, good:sub(1, -3), good .. "--XX", good .. "--XXab",
            "--XX\r\n\r\nx\r\n--XX--", "--XX\r\nContent-Type: a/b\r\n\r\nx\r\n--XX--",
            part("filename=x", "x") .. "--XX--", "--XX\r\nno header\r\n\r\n--XX--",
            "--XX\r\nContent-Disposition: attachment; name=a\r\n\r\nx\r\n--XX--"} do
            local _, _, code = parts_of(text, 4)
            t.eq(code, "badmsg", text)
        end
        for _, kind in ipairs {"text/plain", "multipart/form-data", "multipart/mixed; boundary=XX",
            "multipart/form-data; boundary=" .. ("X"):rep(71)} do
            t.fails("badmsg", form.parts(in_pieces("", 1, kind)))
        end
    end,

    -- Cookies.

    cookies_are_read_and_set = function()
        t.eq(cookie.of {headers = {cookie = 'a=1; b="x y"; a=2;c=;  d = e=f ; g'}},
            {a = "1", b = "x y", c = "", d = "e=f"})
        t.eq(cookie.of {headers = {}}, {})
        t.eq(cookie.set("a", "1"), "a=1; Path=/; HttpOnly; SameSite=Lax")
        t.eq(cookie.set("a", "", {path = "/x", domain = "h", max_age = 0, secure = true,
            http_only = false, same_site = "none"}),
            "a=; Path=/x; Domain=h; Max-Age=0; Secure; SameSite=None")
        t.raises("#1 to 'set' %(a character", cookie.set, "a b", "1")
        t.raises("#1 to 'set' %(a character", cookie.set, "", "1")
        for _, value in ipairs {"a;b", "a b", 'a"', "a,b", "a\\", "é", "a\n"} do
            t.raises("#2 to 'set' %(a character", cookie.set, "a", value)
        end
        t.raises("option 'path' must be", cookie.set, "a", "1", {path = "/;x"})
        t.raises("test_http_parts.lua:%d+: bad argument #3 to 'set' %(option 'same_site' must be",
            function() local _ = cookie.set("a", "1", {same_site = "Lax"}) end)
        t.raises("for secure cookies only", cookie.set, "a", "1", {same_site = "none"})
        t.raises("unknown option 'Secure'", cookie.set, "a", "1", {Secure = true})
    end,

    signed_values_cannot_be_made_up = function()
        local key, other = ("k"):rep(32), ("o"):rep(70)
        local signer = cookie.signer(key)
        local signed = signer:sign("id", "user 7;\0é")
        t.ok(cookie.set("id", signed)) -- it can stand there
        t.eq(signer:check("id", signed), "user 7;\0é")
        t.fails("denied", signer:check("other", signed))
        t.fails("noname", signer:check("id", nil))
        for at = 1, #signed do
            local letter = signed:sub(at, at) == "a" and "b" or "a"
            t.fails("denied", signer:check("id", signed:sub(1, at - 1) .. letter
                .. signed:sub(at + 1)))
        end
        for _, broken in ipairs {"", ".", "..", signed:sub(1, -2), signed .. "0", "x"} do
            t.fails("denied", signer:check("id", broken))
        end
        t.eq(cookie.signer(other, key):check("id", signed), "user 7;\0é")
        t.fails("denied", cookie.signer(other):check("id", signed))
        t.eq(signer:check("id", signer:sign("id", "x", 1000)), "x")
        t.fails("denied", signer:check("id", signer:sign("id", "x", 0)))
        -- as `openssl dgst -sha256 -hmac KEY` has it of "id=v.", with keys below and above a block
        t.eq(signer:sign("id", "v"),
            "v..d3d57a6c8a8c83c205d6abf03dd3516b1dc1aa4e6c1c9f9ac7b930499ef3734a")
        t.eq(cookie.signer(other):sign("id", "v"),
            "v..9222d9bc2ea77cd365dcbd0692929f49cb041ad7813794651bc231afd1140cb8")
        t.raises("a secret of 32 bytes", cookie.signer, "short")
        t.raises("#1 to 'signer'", cookie.signer)
        for _, seconds in ipairs {1 / 0, 0 / 0, 1e300} do
            local err = t.raises("#3 to 'sign'", signer.sign, signer, "id", "v", seconds)
            t.ok(not err:find "cookie", err) -- it is no line of ours
        end
        t.eq({cookie.same("ab", "ab"), cookie.same("ab", "ac"), cookie.same("a", "ab")},
            {true, false, false})
    end,

    -- Proxies.

    only_proxies_on_the_list_are_believed = function()
        local function client(headers, peer, options, list)
            local request = asks("GET", "/", {headers = headers})
            request.peer = peer
            proxied.trust(list or {"10.0.0.0/8", "::1", "fd00::/9", "unix"}, options)(
                function() end)(request)
            return request.client, request.scheme, request.authority
        end
        local said = {["x-forwarded-for"] = "6.6.6.6, 9.9.9.9,10.1.1.1",
            ["x-forwarded-proto"] = "https", ["x-forwarded-host"] = "public"}
        t.eq({client(said, "1.2.3.4")}, {"1.2.3.4", "http", "h"})
        t.eq({client(said, "10.255.0.1")}, {"9.9.9.9", "https", "public"})
        t.eq({client(said, "::1")}, {"9.9.9.9", "https", "public"})
        t.eq({client(said, nil)}, {"9.9.9.9", "https", "public"})
        t.eq({client(said, nil, nil, {"10.0.0.0/8"})}, {nil, "http", "h"})
        t.eq({client(said, "::ffff:10.0.0.1")}, {"9.9.9.9", "https", "public"})
        -- What the client said himself stands before what his proxy has added.
        t.eq({client({["x-forwarded-for"] = "9.9.9.9", ["x-forwarded-proto"] = "http, https",
            ["x-forwarded-host"] = "evil.example, public"}, "10.0.0.1")},
            {"9.9.9.9", "https", "public"})
        t.eq({client({["x-forwarded-for"] = "9.9.9.9", ["x-forwarded-host"] = ""}, "10.0.0.1")},
            {"9.9.9.9", "http", "h"})
        t.eq(client(said, "fd7f::1"), "9.9.9.9")
        t.eq(client(said, "fd80::1"), "fd80::1")
        t.eq(client({["x-forwarded-for"] = "nonsense, unknown"}, "10.0.0.1"), "10.0.0.1")
        t.eq(client({["x-forwarded-for"] = "10.0.0.2, 10.0.0.3"}, "10.0.0.1"), "10.0.0.2")
        t.eq(client({["x-forwarded-for"] = "7.7.7.7:80"}, "10.0.0.1"), "7.7.7.7")
        t.eq(client({forwarded = "for=6.6.6.6"}, "10.0.0.1"), "10.0.0.1")
        local standard = {header = "forwarded"}
        t.eq({client({forwarded = 'for=1.1.1.1, for="[2001:db8::7]:47";proto=https;host=pub'},
            "10.0.0.1", standard)}, {"2001:db8::7", "https", "pub"})
        t.eq(client({forwarded = "for=_hidden"}, "10.0.0.1", standard), "10.0.0.1")
        -- What a client names as the host stands within quotes, also if it looks like an element.
        for _, before in ipairs {"", "for=1.1.1.1, ", 'for="1.1.1.1, ', 'x="\\, ', '\\", '} do
            t.eq({client({forwarded = before .. 'for=9.9.9.9;host="a\\"b,for=6.6.6.6;c=\\\\"'},
                "10.0.0.1", standard)}, {"9.9.9.9", "http", 'a"b,for=6.6.6.6;c=\\'}, before)
        end
        t.eq(client({["x-forwarded-for"] = '", 9.9.9.9'}, "10.0.0.1"), "9.9.9.9")
        t.raises("entry 2 is not an address", proxied.trust, {"::1", "10.0.0.0/33"})
        t.raises("entry 1 is not an address", proxied.trust, {"256.0.0.1"})
        t.raises("entry 1 is not an address", proxied.trust, {"1::2::3"})
        t.raises("option 'header' must be", proxied.trust, {}, {header = "x"})
    end,

    -- What others may read as another address is none.
    addresses_have_one_meaning = function()
        local is_in = proxied.list {"10.0.0.0/8", "::/0"}
        for _, text in ipairs {"10.0.0.1", "10.255.0.0", "::", "1::", "::1.2.3.4",
            "1:2:3:4:5:6:7::", "1:2:3:4:5:6:1.2.3.4"} do
            t.ok(is_in(text), text)
        end
        for _, text in ipairs {"10.0.0.01", "010.0.0.1", "10.0.0", "10.0.0.256", "1.2.3.4::",
            "::1.2.3.4:5", "::1.2.3.4.5", ":1::", "1:::2", "1:2:3:4:5:6:7:8::", "1::%1"} do
            t.ok(not is_in(text), text)
            t.raises("entry 1 is not an address", proxied.list, {text})
        end
    end,

    -- Rates.

    who_asks_too_often_is_told_when_to_come_back = function()
        local now = 0
        local handler = rate.limit(2, {burst = 3, now = function() return now end, most = 10})(
            function() return "ok" end)
        local function ask(who) return handler(asks("GET", "/", {client = who})) end
        for _ = 1, 3 do t.eq(ask "a", "ok") end
        t.eq(ask "a", {status = 429, headers = {["retry-after"] = 1},
            body = "429 Too Many Requests\n"})
        t.eq(ask "b", "ok")
        now = 0.5
        t.eq(ask "a", "ok")
        t.eq(ask("a").status, 429)
        now = 100
        for _ = 1, 3 do t.eq(ask "a", "ok") end
        t.eq(ask("a").status, 429) -- no more than the burst, however long it was
        for i = 1, 4 do ask("other" .. i) end
        t.eq(ask("a").status, 429) -- still known
        for i = 1, 20 do ask("stranger" .. i) end
        t.eq(ask "a", "ok") -- forgotten
        for i = 1, 3 do t.eq(ask(("2001:db8:0:7::%x"):format(i)), "ok") end
        t.eq(ask("2001:DB8::7:ffff:0:0:1").status, 429) -- the same network of 64 bits
        for _, other in ipairs {"2001:db8:0:8::1", "::ffff:1.2.3.4", "::ffff:1.2.3.5", "fe80::1%a",
            "fe80::1%b", "::1:" .. ("1:"):rep(100)} do
            for _ = 1, 3 do t.eq(ask(other), "ok") end
            t.eq(ask(other).status, 429)
        end
        local free = rate.limit(1, {key = function() return nil end})(function() return "ok" end)
        for _ = 1, 5 do t.eq(free(asks("GET", "/")), "ok") end
        t.raises("it must be above 0", rate.limit, 0)
        t.raises("option 'burst' must be", rate.limit, 1, {burst = 0.5})
        t.raises("unknown option 'size'", rate.limit, 1, {size = 1})
    end,

    -- Health.

    readiness_is_what_the_checks_say = function()
        local up = true
        local h = health.new {timeout = t.patience}
        h:check("database", function() return up, "no answer" end)
        local ready = h:handler()
        t.eq(h.alive()().status, 200)
        t.eq(ready().body, "ready\ndatabase: ok\n")
        up = false
        t.eq({ready().status, ready().body}, {503, "not ready\ndatabase: no answer\n"})
        up = true
        h:check("disk", function() error("broken", 0) end)
        t.eq(ready().body, "not ready\ndatabase: ok\ndisk: broken\n")
        local slow = health.new {timeout = 0.01}
        slow:check("disk", function() return mare.sleep(1000) end)
        t.eq(slow:handler()().body, "not ready\ndisk: it took too long\n")
        h:ready(false)
        t.eq({ready().status, ready().body}, {503, "not ready\n"})
        t.raises("option 'timeout' must be", health.new, {timeout = 0})
    end,

    -- Events.

    events_are_written_and_read = function()
        t.eq(events.encode "a\nb", "data: a\ndata: b\n\n")
        t.eq(events.encode {event = "tide", id = "7", retry = 100, data = ""},
            "event: tide\nid: 7\nretry: 100\ndata: \n\n")
        t.raises("whose id is not a line of text", events.encode, {id = "a\nb"})
        t.raises("unknown field 'dta'", events.encode, {dta = "x"})
        t.raises("that is a number", events.encode, 5)
        local text = ": hello\n\ndata: a\r\ndata:b\r\rid: 7\nevent: e\ndata\n\nretry: 5\n\ndata: x"
        for size = 1, 9 do
            local read = events.read(in_pieces(text, size))
            t.eq({read(), read(), read()}, {{data = "a\nb"}, {data = "", id = "7", event = "e"}},
                size)
        end
        t.fails("toobig", events.read(in_pieces("data: " .. ("x"):rep(100), 10), 50)())
    end,

    -- What is copied again with each line shows in the memory that was asked for.
    an_event_of_many_lines_costs_what_it_is_long = function()
        if t.gc_stress then t.skip "the collector does not rest" end
        local function cost(count)
            local read = events.read(in_pieces(("data\n"):rep(count) .. "\n", 4096), 1 << 30)
            collectgarbage()
            collectgarbage "stop"
            local before = collectgarbage "count"
            t.eq(read().data, ("\n"):rep(count - 1))
            local after = collectgarbage "count"
            collectgarbage "restart"
            return after - before
        end
        local once, twice = cost(3000), cost(6000)
        t.ok(twice < 3 * once, twice / once)
    end,

    events_go_through_a_server = function()
        local queue = mare.channel(10)
        local listener <close> = assert(net.listen("127.0.0.1", 0))
        mare.go(http.serve, listener, function()
            return events.answer(function(seconds) return queue:receive(seconds) end,
                {pause = 0.01})
        end)
        local response = assert(http.request("http://127.0.0.1:"
            .. select(2, listener:address()) .. "/"))
        t.eq(response.headers["content-type"], "text/event-stream")
        local read = events.read(response)
        queue:send "one"
        t.eq(read(), {data = "one"})
        queue:send {event = "two", data = "2"}
        queue:close()
        t.eq({read(), read()}, {{event = "two", data = "2"}})
    end,
}
