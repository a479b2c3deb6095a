-- SPDX-License-Identifier: MIT
-- The authority's word on a certificate, stapled: given by our server to openssl's client and ours,
-- and by openssl's server to our client. openssl answers for the authority.
local mare, tls, child = require "mare", require "mare.tls", require "mare.child"
local t, shell = require "t", require "shell"
local HERE, patience = "127.0.0.1", t.patience
tls.handshake_time = patience

-- An authority (ca) and what it has signed, NAME.pem and NAME.key: `bad` is revoked, `must` says
-- that a response must be stapled, `clerk` may answer for the authority, `good` may not. And
-- responses, NAME.der: of each of these; `late`, which holds no more, `clerks`, signed by the
-- clerk, `forged`, by `good`, and `false`, by another authority of the same name, all of them about
-- `good`.
local COMMANDS = [[
    key='-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes'
    new() { # a name, extensions
        openssl req $key -subj /CN=$1 -keyout $1.key -out $1.csr
        echo "$2" >$1.ext
        openssl x509 -req -days 2 -CA ca.pem -CAkey ca.key -CAcreateserial -extfile $1.ext \
            -in $1.csr -out $1.pem
    }
    ask() { openssl ocsp -no_nonce -issuer ca.pem -cert $1.pem -reqout $1.req; }
    say() { # what, about whom, who signs, who says so
        openssl ocsp -index ca.db -CA ca.pem -rsigner $3.pem -rkey $3.key -ndays 1 \
            -reqin $2.req -respout $1.der
    }
    openssl req $key -subj /CN=ca -keyout ca.key -x509 -days 2 -out ca.pem
    new good 'subjectAltName=DNS:localhost'
    new bad 'subjectAltName=DNS:localhost'
    new must 'subjectAltName=DNS:localhost
tlsfeature=status_request'
    new clerk 'extendedKeyUsage=OCSPSigning'
    printf '[ca]\ndatabase=ca.db\ndefault_md=sha256\ncertificate=ca.pem\nprivate_key=ca.key\n' >conf
    : >ca.db
    for name in good must; do openssl ca -config conf -name ca -valid $name.pem; done
    openssl ca -config conf -name ca -revoke bad.pem -crl_reason keyCompromise
    for name in good bad must; do ask $name; say $name $name ca; done
    say clerks good clerk
    say forged good good
    (export LD_PRELOAD=$MARE_EARLIER; say late good ca)
    mkdir other
    openssl req $key -subj /CN=ca -keyout other/ca.key -x509 -days 2 -out other/ca.pem
    say false good other/ca
]]

local function slurp(name)
    local file <close> = assert(io.open(name, "rb"))
    return file:read "a"
end

-- Makes the files: `files / name` is the path of one, `files(name)` what is in it.
local function made()
    local folder = os.tmpname()
    os.remove(folder)
    local got = shell.run(("mkdir %s && cd %s && set -e && %s"):format(folder, folder, COMMANDS))
    local files = setmetatable({}, {
        __call = function(_, name) return slurp(folder .. "/" .. name) end,
        __div = function(_, name) return folder .. "/" .. name end,
        __close = function() os.execute("rm -rf " .. folder) end,
    })
    t.eq(got.code, 0, got.err)
    return files
end

-- A server of ours in a process of its own: its port; until the end of the scope.
local function serving(context)
    local ready = mare.channel(1)
    local process = mare.spawn(function(c)
        local listener = assert(tls.listen("127.0.0.1", 0, {context = c}))
        ready:send((select(2, listener:address())))
        require "mare.net".serve(listener, function(stream)
            stream:write "hello\n"
            stream:read "a"
        end)
    end, context)
    return setmetatable({port = ready:receive(patience)},
        {__close = function() process:kill() end})
end

local function server_of(files, name, staple)
    return assert(tls.context {certificate = files / (name .. ".pem"), staple = staple,
        key = files / (name .. ".key"), verify = false, resume = true})
end

-- openssl's server, with a response.
local function s_server(files, name, staple)
    local pipe = assert(io.popen(("echo $$ && exec timeout 100 openssl s_server -rev "
        .. "-accept 127.0.0.1:0 -cert %s -key %s -status_file %s 2>&1 </dev/null")
        :format(files / (name .. ".pem"), files / (name .. ".key"), files / (staple .. ".der"))))
    local pid = pipe:read "l"
    local port
    repeat port = assert(pipe:read "l"):match "^ACCEPT .*:(%d+)$" until port
    return setmetatable({port = tonumber(port)}, {__close = function()
        os.execute("kill " .. pid)
        pipe:close()
    end})
end

-- What a client of ours comes to: "fine", and whether there was a response; or code, and message.
local function visit(files, server, options)
    options.name, options.authorities = "localhost", files / "ca.pem"
    local stream <close>, message, code = tls.connect(HERE, server.port, options, patience)
    if not stream then return code, message end
    return "fine", stream:tls().stapled
end

-- What openssl's client has been told of the certificate. A worker that were held up by it could be
-- the one that the server waits for.
local function s_client(files, server)
    local got = assert(child.run {"openssl", "s_client", "-status", "-connect",
        HERE .. ":" .. server.port, "-CAfile", files / "ca.pem", input = "", timeout = patience})
    return got.out:match "OCSP response: (no response sent)"
        or got.out:match "Cert Status: (%w+)"
end

local checks = {}

function checks.ours_and_ours(files)
    for _, version in ipairs {"1.2", "1.3"} do
        local good <close> = serving(server_of(files, "good", files / "good.der"))
        local bad <close> = serving(server_of(files, "bad", files "bad.der"))
        local none <close> = serving(server_of(files, "good"))
        local clerks <close> = serving(server_of(files, "good", files "clerks.der"))
        for _, ocsp in ipairs {"check", "require"} do
            local function meet(server)
                return {visit(files, server, {ocsp = ocsp, max_version = version})}
            end
            t.eq(meet(good), {"fine", true})
            t.eq(meet(clerks), {"fine", true})
            t.eq(meet(bad), {"denied", "the certificate was revoked (keyCompromise)"})
            t.eq(meet(none), ocsp == "check" and {"fine", false} or
                {"denied", "the server has given no OCSP response for its certificate"})
        end
        t.eq({visit(files, bad, {max_version = version})}, {"fine", false}) -- who does not ask
    end
end

function checks.what_openssl_gives_is_verified(files)
    for name, expected in pairs {
        good = {"fine", true},
        clerks = {"fine", true},
        must = {"denied", "the OCSP response is about another certificate"},
        late = {"denied", "the OCSP response does not hold now"},
        forged = {"denied", "the OCSP response is not the authority's: its signature is not valid"},
        ["false"] = {"denied",
            "the OCSP response is not the authority's: its signature is not valid"},
    } do
        local server <close> = s_server(files, "good", name)
        t.eq({visit(files, server, {ocsp = "check"})}, expected, name)
    end
end

function checks.openssl_gets_what_ours_gives(files)
    local context = server_of(files, "good")
    local server <close> = serving(context)
    t.eq(s_client(files, server), "no response sent")
    for _, given in ipairs {files / "good.der", files "clerks.der"} do
        t.eq(context:staple(given), context) -- while it serves
        t.eq(s_client(files, server), "good")
    end
    context:staple(files "late.der") -- which would only do harm
    t.eq(s_client(files, server), "no response sent")
    context:replace(server_of(files, "bad", files "bad.der"))
    t.eq(s_client(files, server), "revoked")
end

function checks.a_certificate_can_demand_it(files)
    local none <close> = serving(server_of(files, "must"))
    local given <close> = serving(server_of(files, "must", files "must.der"))
    t.eq({visit(files, none, {ocsp = "check"})},
        {"denied", "the server has given no OCSP response for its certificate"})
    t.eq({visit(files, given, {ocsp = "check"})}, {"fine", true})
end

function checks.each_name_has_its_own(files)
    local context = assert(tls.context {certificate = files / "bad.pem", key = files / "bad.key",
        staple = files "bad.der", verify = false, names = {
            localhost = {certificate = files / "good.pem", key = files / "good.key",
                staple = files / "good.der"}}})
    local server <close> = serving(context)
    t.eq({visit(files, server, {ocsp = "require"})}, {"fine", true})
    context = assert(tls.context {certificate = files / "bad.pem", key = files / "bad.key",
        staple = files "bad.der", verify = false, names = {
            localhost = {certificate = files / "good.pem", key = files / "good.key"}}})
    local none <close> = serving(context)
    t.eq((visit(files, none, {ocsp = "require"})), "denied")
end

function checks.a_session_that_is_resumed_was_verified(files)
    local context = assert(tls.context {authorities = files / "ca.pem", ocsp = "require",
        resume = true})
    local server <close> = serving(server_of(files, "good", files "good.der"))
    local resumed = {}
    for i = 1, 2 do
        local stream <close> = assert(tls.connect(HERE, server.port,
            {context = context, name = "localhost"}, patience))
        t.eq(stream:read("l", patience), "hello") -- and the ticket before it
        resumed[i] = stream:tls().resumed
    end
    t.eq(resumed, {false, true})
end

function checks.what_cannot_be_is_said(files)
    local function refused(pattern, code, staple)
        local context, message, got = tls.context {certificate = files / "good.pem",
            key = files / "good.key", staple = staple}
        t.eq({context, got}, {nil, code}, message)
        t.ok(message:find(pattern), message)
    end
    local response = files "good.der"
    refused("about another certificate", "badmsg", files / "bad.der")
    refused("no OCSP response", "badmsg", files / "good.pem")
    refused("no OCSP response", "badmsg", response:sub(1, -2))
    refused("no OCSP response", "badmsg", response .. "x")
    refused("no OCSP response", "badmsg", "\x30\x03\x0a\x01\x06") -- "unauthorized"
    refused("staple: /nowhere: No such file", "io", "/nowhere")
    local context = server_of(files, "good", response)
    local ok, _, code = context:staple "/nowhere"
    t.eq({ok, code}, {nil, "io"})
    local server <close> = serving(context)
    t.eq(s_client(files, server), "good") -- nothing has changed
    t.raises("option 'staple' must be a string, and needs 'certificate'", tls.context,
        {staple = response})
    t.raises("option 'ocsp' must be", tls.context, {ocsp = true})
    t.raises("needs 'verify'", tls.context, {ocsp = "check", verify = false})
    t.fails("invalid", assert(tls.context()):staple(response))
end

return {
    stapled_responses = {function()
        if not os.getenv "MARE_EARLIER" then t.skip "meson does not run this" end
        local files <close> = made()
        for name, check in pairs(checks) do
            local ok, err = xpcall(check, debug.traceback, files)
            if not ok then error(name .. ": " .. err, 0) end
        end
    end, timeout = 120},
}
