-- SPDX-License-Identifier: MIT
-- TLS with other people's programs: openssl's client and server, curl, and certificates that
-- openssl has made, of an authority, of one below it, and of what that has signed.
local mare, net, t, shell = require "mare", require "mare.net", require "t", require "shell"
local tls, http = require "mare.tls", require "mare.http"

local HERE, patience = "127.0.0.1", t.patience
tls.handshake_time = patience

-- Runs commands of the shell in a folder of their own.
local function sh(folder, commands)
    local got = shell.run(("cd %s && set -e && %s"):format(shell.quote(folder.name), commands))
    return got.code == 0, got.out .. got.err
end

-- A folder with an authority (ca), another (sub) that it has signed, a server's certificate for
-- localhost (leaf, chain: with sub's) and a client's (user), each NAME.pem and NAME.key.
local function certificates()
    local folder = {name = os.tmpname()}
    os.remove(folder.name)
    assert(os.execute("mkdir " .. folder.name))
    local new = "openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=$1 "
        .. "-keyout $1.key"
    local sign = "openssl x509 -req -days 2 -CA $2.pem -CAkey $2.key -CAcreateserial "
        .. "-extfile $1.ext -in $1.csr -out $1.pem"
    local ok, message = sh(folder, ([[
        child() { NEW -out $1.csr; echo "$3" >$1.ext; SIGN; }
        set -- ca
        NEW -x509 -days 2 -out ca.pem
        child sub ca 'basicConstraints=critical,CA:TRUE'
        child leaf sub 'subjectAltName=DNS:localhost,DNS:leaf.example,URI:spiffe://a/b'
        child user ca 'extendedKeyUsage=clientAuth'
        cat leaf.pem sub.pem >chain.pem
        openssl ec -aes128 -passout pass:secret -in leaf.key -out locked.key
    ]]):gsub("NEW", new):gsub("SIGN", sign))
    assert(ok, message)
    return setmetatable(folder, {
        __close = function() os.execute("rm -rf " .. folder.name) end,
        __div = function(_, name) return folder.name .. "/" .. name end,
    })
end

-- A server of ours in a process of its own, for this one blocks: it says a line back. What became
-- of each connection is in `ended`.
local function serving(options)
    local ready, ended = mare.channel(1), mare.channel(100)
    local process = mare.spawn(function(o)
        local listener = assert(tls.listen("127.0.0.1", 0, o))
        ready:send((select(2, listener:address())))
        net.serve(listener, function(stream)
            local ok, message, code = stream:handshake()
            local facts = stream:tls()
            local line = stream:read "l"
            while line do
                stream:write(line, "!\n")
                line = line ~= "last" and stream:read "l"
            end
            ended:send(ok and "served" or code, message or facts)
        end)
    end, options)
    return setmetatable({port = ready:receive(patience), ended = ended},
        {__close = function() process:kill() end})
end

-- What openssl's client makes of a server, told these lines.
local function s_client(folder, server, options, input)
    return select(2, sh(folder, ("printf %s | openssl s_client -connect 127.0.0.1:%d -ign_eof %s "
        .. "2>&1 || true"):format(shell.quote(input or "last\\n"), server.port, options)))
end

-- openssl's server, which says each line backwards, or something else.
local function s_server(folder, options, does, certified)
    local pipe = assert(io.popen(("cd %s && echo $$ && exec timeout 100 openssl s_server "
        .. "-accept 127.0.0.1:0 %s %s %s 2>&1 </dev/null"):format(folder.name,
            certified or "-cert leaf.pem -key leaf.key -cert_chain sub.pem", does or "-rev",
            options)))
    local pid = pipe:read "l"
    local port
    repeat
        local line = assert(pipe:read "l")
        port = line:match "^ACCEPT .*:(%d+)$"
    until port
    return setmetatable({port = tonumber(port)}, {__close = function()
        os.execute("kill " .. pid)
        pipe:close()
    end})
end

local function visit(server, options)
    local stream <close>, message, code = tls.connect(HERE, server.port, options, patience)
    if not stream then return nil, message, code end
    stream:write "hello\n"
    local line
    line, message, code = stream:read("l", patience)
    if not line then return nil, message, code end
    return line, stream:tls()
end

local function slurp(name)
    local file <close> = assert(io.open(name))
    return file:read "a"
end

-- Each is given the folder; to make one takes longer than any of them.
local ours, theirs = {}, {}

function ours.openssl_talks_to_our_server(folder)
    local server <close> = serving {certificate = folder / "chain.pem",
        key = folder / "leaf.key", protocols = {"one", "two"}}
    for _, version in ipairs {"1.2", "1.3"} do
        local said = s_client(folder, server, "-CAfile ca.pem -verify_return_error "
            .. "-verify_hostname localhost -servername leaf.example -alpn two,three -tls"
            .. version:gsub("%.", "_"), "first\\nlast\\n")
        t.ok(said:find "Verify return code: 0 %(ok%)", said) -- the chain was sent whole
        t.ok(said:find "first!\n" and said:find "last!\n", said)
        t.ok(said:find "ALPN protocol: two", said)
        t.ok(said:find("New, TLSv" .. version, 1, true), said)
        local how, facts = server.ended:receive(patience)
        t.eq({how, facts.version, facts.name, facts.protocol},
            {"served", "TLSv" .. version, "leaf.example", "two"})
    end
end

function ours.the_certificate_is_the_one_that_the_client_asks_for(folder)
    -- What openssl's client checks it against comes from the certificate, not from us.
    local function of(name)
        local certificate, key = tls.selfsigned(name)
        return {certificate = certificate, key = key}
    end
    local server <close> = serving {certificate = folder / "chain.pem", protocols = {"two"},
        key = folder / "leaf.key", names = {["b.example"] = of "b.example",
            ["*.b.example"] = of "star.example", ["x.b.example"] = of "x.b.example"}}
    local asked = {
        {"-servername b.example", "b.example"}, {"-servername B.EXAMPLE", "b.example"},
        {"-servername a.b.example", "star.example"}, {"-servername x.b.example", "x.b.example"},
        {"-servername y.a.b.example", "leaf"}, {"-servername other.example", "leaf"},
        {"-servername xb.example", "leaf"}, {"-noservername", "leaf"},
    }
    for _, version in ipairs {"-tls1_2", "-tls1_3"} do
        for _, one in ipairs(asked) do
            local said = s_client(folder, server, "-alpn two " .. one[1] .. " " .. version)
            t.eq(said:match "subject=CN = ([^\n]*)", one[2], one[1] .. version)
            t.ok(said:find "last!\n" and said:find "ALPN protocol: two", said)
            t.eq(server.ended:receive(patience), "served")
        end
    end
end

-- All else is as the context of all of them has it.
function ours.clients_are_verified_under_each_name(folder)
    local certificate, key = tls.selfsigned "b.example"
    local server <close> = serving {certificate = folder / "chain.pem", verify = "require",
        key = folder / "leaf.key", authorities = folder / "ca.pem",
        names = {["b.example"] = {certificate = certificate, key = key}}}
    for _, version in ipairs {"-tls1_2", "-tls1_3"} do
        local ask = version .. " -servername b.example"
        local said = s_client(folder, server, ask .. " -cert user.pem -key user.key")
        t.ok(said:find "last!\n" and said:find "subject=CN = b.example", said)
        local how, facts = server.ended:receive(patience)
        t.eq({how, facts.name, facts.peer.subject}, {"served", "b.example", "CN = user"})
        s_client(folder, server, ask)
        t.eq({server.ended:receive(patience)}, {"denied", "the peer has given no certificate"})
    end
end

function ours.an_old_client_is_refused_and_told_so(folder)
    local server <close> = serving {certificate = folder / "chain.pem",
        key = folder / "leaf.key"}
    local said = s_client(folder, server, "-tls1_1 -cipher ALL:@SECLEVEL=0")
    t.ok(said:find "alert protocol version", said)
    t.eq({server.ended:receive(patience)},
        {"refused", "there is no version of TLS that both sides allow"})
    t.ok(s_client(folder, server, ""):find "last!\n") -- others are served
end

function ours.openssl_shows_its_certificate(folder)
    local server <close> = serving {certificate = folder / "chain.pem", verify = "require",
        key = folder / "leaf.key", authorities = folder / "ca.pem"}
    for _, version in ipairs {"-tls1_2", "-tls1_3"} do
        local said = s_client(folder, server, version .. " -cert user.pem -key user.key")
        t.ok(said:find "last!\n", said)
        t.ok(said:find "CN = ca", said) -- whom we trust was sent
        local how, facts = server.ended:receive(patience)
        t.eq({how, facts.peer.subject, facts.peer.issuer, facts.verified},
            {"served", "CN = user", "CN = ca", true})
        s_client(folder, server, version)
        t.eq({server.ended:receive(patience)}, {"denied", "the peer has given no certificate"})
        s_client(folder, server, version .. " -cert leaf.pem -key leaf.key") -- without sub's
        local code, message = server.ended:receive(patience)
        t.eq(code, "denied")
        t.ok(message:find "'CN = leaf' is refused: unable to get local issuer", message)
    end
end

-- openssl's client acts on a letter at the beginning of what it reads, so the lines are given
-- to it one by one.
function ours.new_keys_are_agreed_on_and_renegotiation_is_not(folder)
    local server <close> = serving {certificate = folder / "chain.pem",
        key = folder / "leaf.key"}
    local function told(version, letter, answer)
        assert(sh(folder, "rm -f input output && mkfifo input && touch output"))
        local pipe = assert(io.popen(("cd %s && timeout 100 openssl s_client %s -connect "
            .. "127.0.0.1:%d <input >output 2>&1; echo over"):format(folder.name, version,
            server.port)))
        local input = assert(io.open(folder / "input", "w"))
        local function waits(text, after)
            local from
            t.reaches(function()
                from = slurp(folder / "output"):find(text, after or 1, true)
                return from
            end, text)
            return from
        end
        local from = waits "Verify return code"
        input:write(letter, "\n"):flush()
        from = waits(answer, from)
        return input, pipe, waits, from
    end
    local input, pipe, waits, from = told("-tls1_3", "K", "KEYUPDATE")
    input:write "hello\n":flush()
    from = waits("hello!", from)
    input:write "last\n":flush()
    waits("last!", from)
    input:close()
    t.ok(pipe:read "a":find "over")
    t.eq((server.ended:receive(patience)), "served")
    input, pipe = told("-tls1_2", "R", "no renegotiation")
    input:close()
    t.ok(pipe:read "a":find "over")
    server.ended:receive(patience)
    t.ok(s_client(folder, server, ""):find "last!\n") -- others are served
end

function theirs.we_talk_to_openssls_server(folder)
    local trust = folder / "ca.pem"
    for _, version in ipairs {"1.2", "1.3"} do
        local server <close> = s_server(folder, "-tls" .. version:gsub("%.", "_"))
        local line, facts = visit(server, {authorities = trust, name = "localhost"})
        t.eq({line, facts.version, facts.verified}, {"olleh", "TLSv" .. version, true})
        t.eq(facts.peer.names, {"localhost", "leaf.example", "spiffe://a/b"})
        t.eq({facts.peer.subject, facts.peer.issuer}, {"CN = leaf", "CN = sub"})
        local _, message, code = visit(server, {authorities = trust, name = "other.example"})
        t.eq(code, "denied")
        t.ok(message:find "another host: localhost leaf.example spiffe://a/b, not other.example",
            message)
        t.fails("denied", visit(server, {authorities = folder / "user.pem",
            name = "localhost"}))
    end
end

function theirs.an_old_server_is_refused(folder)
    local server <close> = s_server(folder, "-tls1_1 -cipher ALL:@SECLEVEL=0")
    t.eq({visit(server, {verify = false})},
        {nil, "there is no version of TLS that both sides allow", "refused"})
end

function theirs.we_show_our_certificate(folder)
    local trust = folder / "ca.pem"
    for _, version in ipairs {"-tls1_2", "-tls1_3"} do
        local server <close> = s_server(folder, version .. " -Verify 3 -verify_return_error "
            .. "-CAfile ca.pem")
        t.eq((visit(server, {authorities = trust, name = "localhost",
            certificate = folder / "user.pem", key = folder / "user.key"})), "olleh")
        t.fails("denied", visit(server, {authorities = trust, name = "localhost",
            certificate = folder / "leaf.pem", key = folder / "leaf.key"}))
    end
end

function ours.curl_asks_our_server(folder)
    local ready = mare.channel(1)
    local process = mare.spawn(function(o)
        local listener = assert(tls.listen("127.0.0.1", 0, o))
        ready:send((select(2, listener:address())))
        http.serve(listener, function(request)
            return {body = request:text():upper() .. request.host:match "^[^:]*"}
        end)
    end, {certificate = folder / "chain.pem", key = folder / "leaf.key",
        protocols = {"http/1.1"}})
    local port = ready:receive(patience)
    local function curl(host, options)
        return shell.run(("cd %s && curl -sS --max-time 50 --resolve %s:%d:127.0.0.1 %s "
            .. "https://%s:%d/ --next -sS --max-time 50 --resolve %s:%d:127.0.0.1 %s "
            .. "https://%s:%d/x"):format(folder.name, host, port, options, host, port, host,
            port, options, host, port))
    end
    local got = curl("localhost", "--cacert ca.pem -d hello")
    t.eq({got.out, got.code}, {"HELLOlocalhostHELLOlocalhost", 0}, got.err)
    assert(sh(folder, "head -c 900000 /dev/zero | tr '\\0' z >big"))
    got = curl("leaf.example", "--cacert ca.pem --data-binary @big -H Expect: --tls-max 1.2")
    t.ok(got.out == (("Z"):rep(900000) .. "leaf.example"):rep(2), got.err)
    t.eq(curl("other.example", "--cacert ca.pem").code, 60) -- not valid for that name
    t.eq(curl("localhost", "--cacert user.pem").code, 60)
    process:kill()
end

-- Thirty-two bytes, as openssl is given them and as we are.
local SECRET <const> = ("5ec1e7"):rep(10) .. "abcd"
local KEY <const> = SECRET:gsub("..", function(digits) return string.char(tonumber(digits, 16)) end)

function ours.a_pre_shared_key_of_openssls_client(folder)
    local server <close> = serving {psk = {tide = KEY, ebb = KEY:reverse()}}
    local ask = "-tls1_3 -psk_identity %s -psk " .. SECRET
    local said = s_client(folder, server, ask:format "tide", "first\\nlast\\n")
    t.ok(said:find "first!\n" and said:find "last!\n", said)
    t.ok(said:find "Reused, TLSv1.3", said)
    local how, facts = server.ended:receive(patience)
    t.eq({how, facts.identity, facts.verified}, {"served", "tide", true})
    for _, wrong in ipairs {ask:format "ebb", ask:format "nobody", "-tls1_3"} do
        s_client(folder, server, wrong)
        t.eq({server.ended:receive(patience)}, {"denied", "the peer does not have the key"})
    end
end

function theirs.a_pre_shared_key_of_openssls_server(folder)
    local server <close> = s_server(folder, "-tls1_3 -psk_identity tide -psk " .. SECRET, "-rev",
        "-nocert")
    local line, facts = visit(server, {psk = {tide = KEY}})
    t.eq({line, facts.identity, facts.verified, facts.peer}, {"olleh", "tide", true, nil})
    t.fails("denied", visit(server, {psk = {tide = KEY:reverse()}}))
    t.fails("denied", visit(server, {psk = {nobody = KEY}}))
    t.eq((visit(server, {psk = {tide = KEY}})), "olleh")
    local certified <close> = s_server(folder, "-tls1_3") -- which shows a certificate
    t.eq({visit(certified, {psk = {tide = KEY}})}, {nil, "the peer does not have the key",
        "denied"})
end

function theirs.we_ask_openssl_for_a_page(folder)
    local server <close> = s_server(folder, "", "-www")
    local status, page = http.get {url = ("https://127.0.0.1:%d/"):format(server.port),
        tls = {authorities = folder / "ca.pem", name = "localhost"}, timeout = patience}
    t.eq(status, 200, page)
    t.ok(page:find "TLSv1.3, Cipher", page)
end

function ours.a_key_may_have_a_password(folder)
    local options = {certificate = folder / "leaf.pem", key = folder / "locked.key"}
    local _, message, code = tls.context(options)
    t.eq(code, "denied", message)
    t.ok(message:find "locked.key: it is encrypted, and no password was given", message)
    options.password = "wrong"
    t.fails("badmsg", tls.context(options))
    options.password = "secret"
    t.ok(tls.context(options))
end

function ours.authorities_may_be_a_folder(folder)
    assert(sh(folder, "mkdir trust && cp ca.pem trust/ && openssl rehash trust"))
    local server <close> = serving {certificate = folder / "chain.pem",
        key = folder / "leaf.key"}
    t.ok(visit(server, {authorities = folder / "trust", name = "localhost"}))
    assert(sh(folder, "rm trust/*"))
    t.fails("denied", visit(server, {authorities = folder / "trust", name = "localhost"}))
end

local function run(checks)
    local folder <close> = certificates()
    local names = {}
    for name in pairs(checks) do names[#names + 1] = name end
    table.sort(names)
    for _, name in ipairs(names) do
        local ok, err = xpcall(checks[name], debug.traceback, folder)
        if not ok then error(name .. ": " .. err, 0) end
    end
end

return {
    -- The stock interpreter, which finds what is written in Lua beside these tests.
    a_host_serves_and_asks = function()
        if not shell.has_stock() then t.skip "no lua5.4 that can load mare.so" end
        local library = debug.getinfo(1, "S").source:match "^@(.*)tests/lua/" .. "lua/?.lua;"
        local got = shell.stock(("package.path = %q .. package.path\n"):format(library) .. [[
            local mare, net, tls = require "mare", require "mare.net", require "mare.tls"
            local certificate, key = assert(tls.selfsigned "localhost")
            local listener = assert(tls.listen("127.0.0.1", 0,
                {certificate = certificate, key = key}))
            local host, port = listener:address()
            local process = mare.spawn(function(certificate)
                local stream = assert(require "mare.tls".connect(host, port,
                    {authorities = certificate, name = "localhost"}))
                stream:write(("x"):rep(3000000))
                stream:shutdown()
                return #stream:read "a"
            end, certificate)
            local stream = assert(listener:accept(20))
            print(#stream:read "a", stream:tls().version)
            local text = ("y"):rep(5000000) -- waits often, on one stack
            print(stream:write(text), stream:close(), process:join())
            local server = mare.spawn(function(mine)
                return select(3, mine:accept():read "l")
            end, listener)
            print(select(3, tls.connect(host, port, {authorities = certificate}, 100)))
            print(server:join())
        ]])
        t.eq({got.out, got.err, got.code}, {"3000000\tTLSv1.3\ntrue\ttrue\ttrue\t5000000\n"
            .. "denied\ntrue\tdenied\n", "", 0})
    end,

    our_server = {function()
        t.needs_preemption() -- os.execute blocks a worker, which the tick must tell
        run(ours)
    end, timeout = 120},
    our_client = {function() run(theirs) end, timeout = 120},
}
