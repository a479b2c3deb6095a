-- SPDX-License-Identifier: MIT
-- TLS: contexts, who is believed, and what is agreed on.
local mare, net, t = require "mare", require "mare.net", require "t"
local tls, http = require "mare.tls", require "mare.http"

local HERE, patience = "127.0.0.1", t.patience
tls.handshake_time = patience
local certificate, key = assert(tls.selfsigned({"localhost", "*.wild.example", HERE}))
local other_certificate, other_key = assert(tls.selfsigned "other.example")

-- Serves with these options until its scope ends: what became of each connection is in `ended`.
local function serving(options)
    options.certificate = options.certificate or certificate
    options.key = options.key or key
    local listener = assert(tls.listen(HERE, 0, options))
    local ended = mare.channel(100)
    mare.go(net.serve, listener, function(stream)
        local _, message, code = stream:handshake(patience)
        local facts = stream:tls()
        local line = stream:read("l", patience)
        if line then stream:write(line, "!\n") end
        ended:send(code or "served", message or facts)
    end)
    local _, port = listener:address()
    return setmetatable({port = port, ended = ended},
        {__close = function() listener:close() end})
end

-- Connects, says something and hears it back.
local function visit(server, options)
    local stream <close>, message, code = tls.connect(HERE, server.port, options, patience)
    if not stream then return nil, message, code end
    stream:write "hello\n"
    local line
    line, message, code = stream:read("l", patience)
    if not line then return nil, message, code end
    t.eq(line, "hello!")
    return stream:tls()
end

local function refused(pattern, code, ...)
    local ok, message, got = ...
    t.eq({ok, got}, {nil, code}, message)
    t.ok(message:find(pattern), message)
end

local function file_of(text)
    local name = os.tmpname()
    local file <close> = assert(io.open(name, "w"))
    file:write(text)
    return setmetatable({name = name}, {__close = function() os.remove(name) end})
end

return {
    -- Servers.

    a_valid_certificate_is_believed = function()
        local server <close> = serving {}
        local facts = visit(server, {authorities = certificate})
        t.eq(facts.verified, true)
        t.eq(facts.peer.names, {"localhost", "*.wild.example", HERE})
        t.eq({facts.peer.subject, facts.peer.issuer}, {"CN = localhost", "CN = localhost"})
        t.ok(#facts.peer.fingerprint == 64 and not facts.peer.fingerprint:find "[^0-9a-f]")
        t.ok(facts.peer.expires > os.time() + 29 * 86400)
        t.ok(visit(server, {authorities = certificate, name = "localhost"}))
        t.ok(visit(server, {authorities = certificate, name = "a.wild.example"}))
        local _, seen = server.ended:receive(patience)
        t.eq({seen.name, seen.verified, seen.peer}, {nil, false, nil}) -- a number is no name
        t.eq(select(2, server.ended:receive(patience)).name, "localhost")
        t.eq(select(2, server.ended:receive(patience)).name, "a.wild.example")
    end,

    one_that_nobody_known_has_signed_is_not = function()
        local server <close> = serving {}
        refused("self%-signed", "denied", visit(server))
        refused("refused", "denied", visit(server, {authorities = other_certificate}))
        t.eq({server.ended:receive(patience)}, {"denied", "the peer refused: unknown CA"})
    end,

    nor_one_for_another_host = function()
        local server <close> = serving {}
        for _, name in ipairs {"example.org", "wild.example", "a.b.wild.example", "127.0.0.2",
            "localhost.", "::1"} do
            refused("for another host: localhost .*, not ", "denied",
                visit(server, {authorities = certificate, name = name}))
        end
    end,

    nor_one_that_has_expired = function()
        local old, old_key = assert(tls.selfsigned("localhost", -1))
        local server <close> = serving {certificate = old, key = old_key}
        refused("certificate has expired", "denied",
            visit(server, {authorities = old, name = "localhost"}))
        t.eq({server.ended:receive(patience)}, {"denied", "the peer refused: certificate expired"})
    end,

    whoever_wants_may_believe_anything = function()
        local server <close> = serving {}
        local facts = visit(server, {verify = false})
        t.eq(facts.verified, false)
        t.eq(facts.peer.subject, "CN = localhost") -- one may look at it oneself
    end,

    a_client_must_say_whom_it_wants = function()
        local server <close> = serving {}
        local stream = assert(net.connect(HERE, server.port))
        refused("name of the host", "invalid", tls.wrap(stream, {authorities = certificate}))
        t.fails("closed", stream:read())
        refused("cannot be the name", "invalid",
            visit(server, {authorities = certificate, name = ("x"):rep(300)}))
    end,

    a_server_needs_a_certificate = function()
        refused("needs a certificate", "invalid", tls.listen(HERE, 0, {}))
        refused("needs a certificate", "invalid", tls.listen(HERE, 0, assert(tls.context())))
        local context = assert(tls.context {certificate = certificate, key = key})
        local listener <close> = assert(tls.listen(HERE, 0, context))
        context:replace(assert(tls.context())) -- and by then it has none any more
        local client <close> = assert(net.connect(listener:address()))
        refused("needs a certificate", "invalid", listener:accept(patience))
        t.eq(client:read("a", patience), "")
    end,

    -- Clients.

    a_client_may_have_to_show_a_certificate = function()
        local server <close> = serving {verify = "require", authorities = other_certificate}
        local facts = visit(server, {authorities = certificate, certificate = other_certificate,
            key = other_key})
        t.eq(facts.verified, true)
        local how, seen = server.ended:receive(patience)
        t.eq({how, seen.verified, seen.peer.subject}, {"served", true, "CN = other.example"})
        refused("peer refused", "denied", visit(server, {authorities = certificate}))
        t.eq({server.ended:receive(patience)}, {"denied", "the peer has given no certificate"})
        refused("peer refused: unknown CA", "denied", visit(server, {authorities = certificate,
            certificate = certificate, key = key}))
        local code, message = server.ended:receive(patience)
        t.eq(code, "denied")
        t.ok(message:find "'CN = localhost' is refused: self%-signed", message)
    end,

    or_may_if_it_has_one = function()
        local server <close> = serving {verify = "request", authorities = other_certificate}
        t.ok(visit(server, {authorities = certificate}))
        t.eq(select(2, server.ended:receive(patience)).peer, nil)
        t.ok(visit(server, {authorities = certificate, certificate = other_certificate,
            key = other_key}))
        t.eq(select(2, server.ended:receive(patience)).peer.subject, "CN = other.example")
        refused("peer refused", "denied", visit(server, {authorities = certificate,
            certificate = certificate, key = key})) -- but a false one is worse than none
    end,

    -- What is agreed on.

    versions = function()
        local server <close> = serving {}
        local old <close> = serving {max_version = "1.2"}
        local new <close> = serving {min_version = 1.3}
        local function version(s, options)
            options.authorities = certificate
            local facts, message, code = visit(s, options)
            return facts and facts.version, message, code
        end
        t.eq(version(server, {}), "TLSv1.3")
        t.eq(version(server, {max_version = "1.2"}), "TLSv1.2")
        t.eq(version(server, {min_version = "1.3"}), "TLSv1.3")
        t.eq(version(old, {}), "TLSv1.2")
        t.eq(version(new, {}), "TLSv1.3")
        refused("no version of TLS that both", "refused", version(old, {min_version = "1.3"}))
        refused("no version of TLS that both", "refused", version(new, {max_version = "1.2"}))
        t.eq((old.ended:receive(patience)), "served")
        local code, message = old.ended:receive(patience)
        t.eq(code, "refused", message)
    end,

    ciphers = function()
        local server <close> = serving {ciphers = "ECDHE-ECDSA-AES128-GCM-SHA256",
            suites = "TLS_CHACHA20_POLY1305_SHA256"}
        t.eq(visit(server, {authorities = certificate}).cipher, "TLS_CHACHA20_POLY1305_SHA256")
        t.eq(visit(server, {authorities = certificate, max_version = "1.2"}).cipher,
            "ECDHE-ECDSA-AES128-GCM-SHA256")
        t.fails("refused", visit(server, {authorities = certificate,
            suites = "TLS_AES_128_GCM_SHA256", ciphers = "ECDHE-ECDSA-AES256-GCM-SHA384"}))
        refused("ciphers: 'nonsense'", "invalid", tls.context {ciphers = "nonsense"})
        refused("suites: 'nonsense'", "invalid", tls.context {suites = "nonsense"})
    end,

    protocols = function()
        local server <close> = serving {protocols = {"b", "http/1.1"}}
        local function protocol(names)
            local facts, message, code = visit(server,
                {authorities = certificate, protocols = names})
            return facts and facts.protocol or message, code
        end
        t.eq(protocol {"http/1.1", "b"}, "b") -- the server chooses
        t.eq(protocol {"a", "http/1.1"}, "http/1.1")
        t.eq({protocol {"a"}}, {"the peer refused: no application protocol", "refused"})
        t.eq({protocol(nil)}, {})
    end,

    -- Contexts.

    contexts_are_made_of_files_or_of_text = function()
        local one <close> = file_of(certificate)
        local other <close> = file_of(key)
        local both <close> = file_of(key .. certificate)
        for _, options in ipairs {{certificate = one.name, key = other.name},
            {certificate = both.name}, {certificate = certificate .. key},
            {certificate = certificate .. other_certificate, key = key}} do
            local server <close> = serving {context = assert(tls.context(options))}
            t.ok(visit(server, {authorities = one.name}))
        end
        t.ok(tls.context {authorities = "/etc/ssl"}) -- a folder
    end,

    what_is_wrong_with_files_is_said = function()
        local none = os.tmpname()
        os.remove(none)
        local empty <close> = file_of ""
        local text <close> = file_of "just words\n"
        refused("certificate: .*: No such file", "io", tls.context {certificate = none, key = key})
        refused("key: .*: No such file", "io", tls.context {certificate = certificate, key = none})
        refused("authorities: .*: No such file", "io", tls.context {authorities = none})
        refused("certificate: /: Is a directory", "io", tls.context {certificate = "/", key = key})
        refused("certificate: /dev/zero: File too large", "io",
            tls.context {certificate = "/dev/zero", key = key})
        for _, bad in ipairs {empty.name, text.name, key} do
            refused("certificate: no certificate in PEM form in ", "badmsg",
                tls.context {certificate = bad, key = key})
            refused("authorities: no certificate in PEM form in ", "badmsg",
                tls.context {authorities = bad})
        end
        for _, bad in ipairs {empty.name, text.name, certificate} do
            refused("key: no private key in PEM form in ", "badmsg",
                tls.context {certificate = certificate, key = bad})
        end
        refused("not the certificate's key", "badmsg",
            tls.context {certificate = certificate, key = other_key})
        refused("certificate: the text given: ", "badmsg",
            tls.context {certificate = certificate:sub(1, 200), key = key})
        refused("certificate: the text given: ", "badmsg",
            tls.context {certificate = certificate:gsub("M", "%%"), key = key})
        refused("authorities: the text given: ", "badmsg",
            tls.context {authorities = certificate .. certificate:sub(1, 300)})
        t.ok(not select(2, tls.context {certificate = certificate, key = key:sub(1, -80)})
            :find "BEGIN") -- keys are not for messages
    end,

    contexts_are_shared_between_processes = function()
        local context = assert(tls.context {certificate = certificate, key = key})
        local client = assert(tls.context {authorities = certificate})
        local ports, processes = mare.channel(1), {}
        mare.spawn(function(c)
            local listener = assert(tls.listen("127.0.0.1", 0, {context = c}))
            ports:send((select(2, listener:address())))
            for _ = 1, 8 do
                local stream = assert(listener:accept())
                mare.go(function() stream:write(stream:read "l", "!\n") stream:close() end)
            end
        end, context)
        local port = ports:receive(patience)
        for i = 1, 8 do
            processes[i] = mare.spawn(function(c)
                local stream = assert(tls.connect("127.0.0.1", port, c, patience))
                stream:write(i, "\n")
                return stream:read "a"
            end, client)
        end
        for i = 1, 8 do t.eq({processes[i]:join(patience)}, {true, i .. "!\n"}) end
    end,

    a_context_can_be_replaced_while_it_serves = function()
        local context = assert(tls.context {certificate = certificate, key = key})
        local server <close> = serving {context = context}
        local before = assert(tls.connect(HERE, server.port, {authorities = certificate}, patience))
        local renewed, renewed_key = assert(tls.selfsigned(HERE))
        t.eq(context:replace(assert(tls.context {certificate = renewed, key = renewed_key})),
            context)
        t.ok(visit(server, {authorities = renewed}))
        t.fails("denied", visit(server, {authorities = certificate}))
        before:write "still here\n" -- who came before stays
        t.eq(before:read("l", patience), "still here!")
        t.eq(before:tls().peer.names[1], "localhost")
    end,

    -- STARTTLS.

    a_stream_can_go_on_over_tls = function()
        local listener <close> = assert(net.listen(HERE, 0))
        mare.go(net.serve, listener, function(stream)
            if stream:read "l" ~= "STARTTLS" then return end
            stream:write "go on\n"
            if not tls.wrap(stream, {server = true, certificate = certificate, key = key}) then
                return
            end
            stream:write(stream:read "l", "!\n")
        end)
        local client <close> = assert(net.connect(listener:address()))
        t.eq(client:tls(), nil)
        client:write "STARTTLS\n"
        t.eq(client:read("l", patience), "go on")
        t.eq(tls.wrap(client, {name = "localhost", authorities = certificate}, patience), client)
        t.eq(client:tls().verified, true)
        client:write "hello\n"
        t.eq(client:read("a", patience), "hello!\n")
        t.raises("over TLS already", tls.wrap, client, {name = "x", verify = false})
        local hasty <close> = assert(net.connect(listener:address()))
        hasty:write "STARTTLS\nDELETE ALL\n" -- before TLS, to be taken for something said under it
        t.eq(hasty:read("l", patience), "go on")
        t.ok(not hasty:read("a", patience):find "ALL")
    end,

    what_came_with_the_last_line_is_part_of_the_handshake = function()
        local listener <close> = assert(net.listen(HERE, 0))
        local client <close> = assert(net.connect(listener:address()))
        local server <close> = assert(listener:accept(patience))
        client:write "STARTTLS\n"
        local shaking = mare.go(tls.wrap, client, {name = HERE, authorities = certificate})
        t.fails("timeout", shaking:join(0.05)) -- its first bytes have been sent with that line
        t.eq(server:read("l", patience), "STARTTLS")
        t.ok(tls.wrap(server, {server = true, certificate = certificate, key = key}, patience))
        t.eq(shaking:join(patience), true)
        client:write "hello\n"
        t.eq(server:read("l", patience), "hello")
    end,

    -- HTTP.

    http_is_served_and_asked_over_tls = function()
        local listener <close> = assert(tls.listen("localhost", 0,
            {certificate = certificate, key = key, protocols = {"http/1.1"}}))
        mare.go(http.serve, listener, function(request)
            return request.path == "/tls" and request.stream:tls().version
                or {headers = {["x-host"] = request.host}, body = request:text():rep(1000)}
        end)
        local _, port = listener:address()
        local base, trust = "https://localhost:" .. port, {authorities = certificate}
        t.eq(select(2, http.get {url = base .. "/tls", tls = trust}), "TLSv1.3")
        local response = assert(http.request {url = base, tls = trust, body = ("b"):rep(1000)})
        t.eq({#response:text(), response.headers["x-host"]}, {1000000, "localhost:" .. port})
        response:close()
        t.eq(select(3, http.get(base)), "denied") -- verified, unless one says otherwise
        t.eq((http.get {url = base .. "/tls", tls = {verify = false}}), 200)
        local plain = http.get("http://localhost:" .. port)
        t.eq(plain, nil)
        t.raises("https:// URL expected", http.get, "ftp://localhost/")
    end,

    -- Misuse.

    misuse_is_an_error = function()
        t.raises("unknown option 'certifcate'", tls.context, {certifcate = "x"})
        t.raises("unknown option 'name'", tls.context, {name = "x"})
        t.raises("test_tls_verify.lua:%d+: bad argument #3 to 'connect' %(unknown option 'tsl'",
            function() return (tls.connect(HERE, 1, {tsl = "x"})) end)
        t.raises("'verify' must be", tls.context, {verify = "maybe"})
        t.raises("'authorities' is needed", tls.context, {verify = "require"})
        t.raises("'certificate' is needed", tls.context, {key = key})
        local function named(names)
            return {certificate = certificate, key = key, names = names}
        end
        t.raises("needed with 'names'", tls.context, {names = {}})
        t.raises("'names' must be a table", tls.context, named "x")
        t.raises("a name, and a table", tls.context, named {"x"})
        t.raises("'x': option 'certificate' is needed", tls.context, named {x = {key = key}})
        t.raises("'x': unknown option 'verify'", tls.context,
            named {x = {certificate = certificate, key = key, verify = false}})
        for _, name in ipairs {"*", "*.", "a.*", "*a.b", "*.*.b"} do
            t.raises("is not a host name", tls.context, named {[name] = {certificate = "x"}})
        end
        t.fails("io", tls.context(named {x = {certificate = "/nowhere/x.pem"}}))
        t.raises("'min_version' must be", tls.context, {min_version = "1.1"})
        t.raises("'max_version' must be", tls.context, {max_version = 2})
        t.raises("'protocols' must be", tls.context, {protocols = {""}})
        t.raises("'certificate' must be a string", tls.context, {certificate = 5})
        t.raises("zero bytes", tls.context, {authorities = "a\0b"})
        t.raises("table expected, got string", tls.context, "x")
        t.raises("table or context expected, got string", tls.connect, HERE, 1, "x")
        t.raises("must be made by tls.context", tls.connect, HERE, 1, {context = {}})
        t.raises("stream expected", tls.wrap, 5, {name = "x"})
        t.raises("handshake is positive", tls.listen, HERE, 0, {handshake_time = 0})
        t.raises("string or table expected", tls.selfsigned)
        t.raises("names are possible", tls.selfsigned, {})
        t.raises("number expected", tls.selfsigned, "x", "y")
        local listener <close> = assert(net.listen(HERE, 0))
        local stream <close> = assert(net.connect(listener:address()))
        t.raises("it is not over TLS", stream.handshake, stream)
        local reader = mare.go(function() return stream:read() end)
        t.fails("timeout", reader:join(0.01))
        t.raises("a routine waits", tls.wrap, stream, {name = "x"})
        reader:cancel()
        local context = assert(tls.context())
        t.raises("tls context expected", context.replace, context, 5)
    end,
}
