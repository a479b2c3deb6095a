-- SPDX-License-Identifier: MIT
-- Certificates that are not to be believed though an authority has signed them: those that name a
-- host only as their subject, and those that are on a revocation list. openssl makes them.
local mare, tls = require "mare", require "mare.tls"
local t, shell = require "t", require "shell"
local HERE, patience = "127.0.0.1", t.patience

-- An authority (ca), another below it (sub), and what that has signed: NAME.pem and NAME.key. The
-- lists of both, ca.crl and sub.crl, on which `bad` is revoked, and one that expires, sub_late.crl.
local COMMANDS = [[
    list() { # of an authority, for so many seconds, into a file
        openssl ca -config conf -name $1 -gencrl -crlsec $2 -out $3.crl
    }
    new() { # a name, who signs, extensions
        openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=$1 -keyout $1.key \
            -out $1.csr
        echo "$3" >$1.ext
        openssl x509 -req -days 2 -CA $2.pem -CAkey $2.key -CAcreateserial -extfile $1.ext \
            -in $1.csr -out $1.pem
    }
    for name in ca sub; do
        echo "[$name]"; echo "database=$name.db"; echo default_md=sha256
        echo "certificate=$name.pem"; echo "private_key=$name.key"
        : >$name.db
    done >conf
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=ca -keyout ca.key \
        -x509 -days 2 -out ca.pem
    new sub ca 'basicConstraints=critical,CA:TRUE'
    new good sub 'subjectAltName=DNS:localhost'
    new bad sub 'subjectAltName=DNS:localhost'
    new localhost sub 'basicConstraints=CA:FALSE'
    new mailbox sub 'subjectAltName=email:a@localhost'
    openssl ca -config conf -name sub -revoke bad.pem
    list ca 86400 ca
    list sub 86400 sub
    list sub 1 sub_late
    mkdir folder
    cp ca.pem ca.crl sub.crl folder
    openssl rehash folder
]]

local function slurp(name)
    local file <close> = assert(io.open(name))
    return file:read "a"
end

-- Makes the files: a function that returns what is in those of these names, one after the other,
-- with `folder`, where they are.
local function made()
    local folder = os.tmpname()
    os.remove(folder)
    local got = shell.run(("mkdir %s && cd %s && set -e && %s"):format(folder, folder, COMMANDS))
    local files = setmetatable({folder = folder}, {
        __call = function(_, ...)
            local texts = {}
            for i, name in ipairs {...} do texts[i] = slurp(folder .. "/" .. name) end
            return table.concat(texts)
        end,
        __close = function() os.execute("rm -rf " .. folder) end,
    })
    t.eq(got.code, 0, got.err)
    return files
end

-- Whether a client with these options and a server with those come to terms: what each says.
local function meet(client, server)
    local listener <close> = assert(tls.listen(HERE, 0, server))
    local accepted = mare.go(function()
        local stream <close> = assert(listener:accept(patience))
        local ok, message, code = stream:handshake(patience)
        if ok then ok, message, code = stream:write "hello\n" end
        if ok then return "fine" end
        return code, message
    end)
    client.name = client.name or "localhost"
    local stream <close>, message, code = tls.connect(HERE, select(2, listener:address()), client,
        patience)
    if stream then stream:read("l", patience) end
    local _, how, why = accepted:join(patience)
    return stream and "fine" or code, message, how, why
end

-- As a server of whom the client trusts `trusted`.
local function shows(files, name, trusted)
    local how, message = meet({authorities = trusted},
        {certificate = files(name .. ".pem", "sub.pem"), key = files(name .. ".key")})
    return how, message
end

-- As a client of whom the server trusts `trusted`.
local function asks(files, name, trusted)
    local _, _, how, message = meet({authorities = files "ca.pem",
        certificate = files(name .. ".pem", "sub.pem"), key = files(name .. ".key")},
        {certificate = files("good.pem", "sub.pem"), key = files "good.key", verify = "require",
            authorities = trusted})
    return how, message
end

local checks = {}

-- RFC 9525 section 6.3, RFC 9110 section 4.3.4: a host is told by its alternative names alone.
function checks.a_common_name_is_no_name_of_a_host(files)
    for _, name in ipairs {"localhost", "mailbox"} do
        local how, message = shows(files, name, files "ca.pem")
        t.eq(how, "denied", name)
        t.ok(message:find "certificate is for another host: .*, not localhost", message)
    end
    t.eq(shows(files, "good", files "ca.pem"), "fine")
    t.eq(asks(files, "localhost", files "ca.pem"), "fine") -- a client need be no host
end

function checks.a_list_among_the_authorities_is_heeded(files)
    local trusted = files("ca.pem", "ca.crl", "sub.crl")
    for _, does in ipairs {shows, asks} do
        t.eq(does(files, "bad", files "ca.pem"), "fine") -- whom nobody has told
        t.eq(does(files, "good", trusted), "fine")
        t.eq({does(files, "bad", trusted)},
            {"denied", "the certificate of 'CN = bad' is refused: certificate revoked"})
    end
    t.eq(shows(files, "bad", files("sub.crl", "ca.crl", "ca.pem")), "denied") -- in any order
end

function checks.lists_can_be_given_apart(files)
    local function meets(name, revoked)
        return meet({authorities = files "ca.pem", revoked = revoked},
            {certificate = files(name .. ".pem", "sub.pem"), key = files(name .. ".key")})
    end
    local lists = files("ca.crl", "sub.crl")
    t.eq((meets("good", lists)), "fine")
    t.eq((meets("bad", lists)), "denied")
    t.eq((meets("bad", nil)), "fine")
    local function refused(pattern, code, revoked)
        local context, message, got = tls.context {authorities = files "ca.pem", revoked = revoked}
        t.eq({context, got}, {nil, code}, message)
        t.ok(message:find(pattern), message)
    end
    refused("revoked: no list in PEM form", "badmsg", "-----BEGIN nothing")
    refused("revoked: a certificate in", "badmsg", files("ca.pem", "ca.crl"))
    refused("revoked: /nowhere", "io", "/nowhere")
end

function checks.also_under_another_name_of_the_server(files)
    local both = {certificate = files("good.pem", "sub.pem"), key = files "good.key"}
    local server = {certificate = both.certificate, key = both.key, verify = "require",
        authorities = files("ca.pem", "ca.crl", "sub.crl"), names = {localhost = both}}
    for name, how in pairs {good = "fine", bad = "denied"} do
        local _, _, got = meet({authorities = files "ca.pem",
            certificate = files(name .. ".pem", "sub.pem"), key = files(name .. ".key")}, server)
        t.eq(got, how)
    end
end

function checks.with_one_list_every_authority_needs_its_own(files)
    local how, message = shows(files, "good", files("ca.pem", "ca.crl"))
    t.eq(how, "denied")
    t.ok(message:find "unable to get certificate CRL", message)
end

function checks.a_list_that_has_expired_is_none(files)
    t.reaches(function()
        local how, message = shows(files, "good", files("ca.pem", "ca.crl", "sub_late.crl"))
        return how == "denied" and message:find "CRL has expired"
    end)
end

function checks.lists_may_be_in_a_folder(files)
    for _, does in ipairs {shows, asks} do
        t.eq(does(files, "good", files.folder .. "/folder"), "fine")
        local how, message = does(files, "bad", files.folder .. "/folder")
        t.eq(how, "denied")
        t.ok(message:find "certificate revoked", message)
    end
end

function checks.what_is_wrong_with_a_list_is_said(files)
    local list = files "sub.crl"
    for _, wrong in ipairs {list:sub(1, 200), (list:gsub("M", "%%")), list:sub(1, -30)} do
        local context, message, code = tls.context {authorities = files "ca.pem" .. wrong}
        t.eq({context, code}, {nil, "badmsg"})
        t.ok(message:find "^authorities: the text given: ", message)
    end
    local _, message, code = tls.context {authorities = list} -- which signs nothing
    t.eq(code, "badmsg")
    t.ok(message:find "no certificate in PEM form", message)
end

return {
    believed_or_not = {function()
        local files <close> = made()
        for name, check in pairs(checks) do
            local ok, err = xpcall(check, debug.traceback, files)
            if not ok then error(name .. ": " .. err, 0) end
        end
    end, timeout = 120},
}
