-- SPDX-License-Identifier: MIT
-- Keys and certificates: what `mare keys` makes, what it refuses, and what nodes, openssl and those
-- who check signatures make of it.
local mare, file, keys, tls = require "mare", require "mare.file", require "mare.keys",
    require "mare.tls"
local raw, secrets = require "mare._certificate", require "mare._secret"
local t, shell = require "t", require "shell"
local HERE, patience, LOOSE = "127.0.0.1", t.patience, 0x1a4

-- `mare keys` in a folder of the test; arguments are words of the shell.
local function run(folder, words)
    return shell.run(("cd %s && %s keys %s"):format(folder, shell.mare, words))
end

local function does(folder, words)
    local got = run(folder, words)
    t.eq({got.code, got.err}, {0, ""}, words)
    return got.out
end

local function refuses(folder, words, pattern, code)
    local got = run(folder, words)
    t.eq(got.code, code or 1, words)
    t.ok(got.err:find(pattern), got.err)
    t.eq(got.out, "")
end

local function openssl(folder, words)
    local got = shell.run(("cd %s && openssl %s"):format(folder, words))
    return got.out .. got.err, got.code
end

-- Everything in a folder, by name: what is in the files, and their permissions.
local function all_in(folder)
    local found = {}
    for _, name in ipairs(file.list(folder)) do
        local path = folder .. "/" .. name
        local info = file.stat(path)
        found[name] = {info.permissions, info.kind == "folder" and all_in(path) or file.read(path)}
    end
    return found
end

-- What a client and a server say that bring these along. Who is whose peer: the names in the
-- certificates.
local function meet(client, server, name)
    local listener <close> = assert(tls.listen(HERE, 0, server))
    local accepted = mare.go(function()
        local stream <close> = assert(listener:accept(patience))
        local ok, message, code = stream:handshake(patience)
        if not ok then return code, message end
        stream:write "hello\n"
        local facts = stream:tls()
        return facts.identity or facts.peer.names[1], facts.version
    end)
    client.name = name
    local stream <close>, message, code = tls.connect(HERE, select(2, listener:address()), client,
        patience)
    local heard, why, failed
    if stream then heard, why, failed = stream:read("l", patience) end
    local _, who, how = accepted:join(patience)
    return {heard or failed or code, message or why, who, how}
end

local function group(folder, ...)
    assert(keys.authority(folder, "tides"))
    for _, name in ipairs {...} do assert(keys.issue(folder, name)) end
end

local function both(folder, client, server)
    return meet(assert(keys.load(folder, client)), assert(keys.load(folder, server)), server)
end

local cases = {}

-- ---- Nodes --------------------------------------------------------------------------------------

function cases.two_programs_talk_with_what_the_command_has_made(folder)
    does(folder, "authority tides")
    does(folder, "issue ebb 127.0.0.1 && " .. shell.mare .. " keys issue flow localhost")
    t.eq(both(folder .. "/keys", "flow", "ebb"), {"hello", nil, "flow", "TLSv1.3"})
    -- Two operating-system processes, with files alone; the host is one of the certificate's.
    local server <close> = shell.file [[
        local keys, net, tls = require "mare.keys", require "mare.net", require "mare.tls"
        local listener = assert(tls.listen("127.0.0.1", 0, assert(keys.load(arg[1], "ebb"))))
        print(select(2, listener:address()))
        io.stdout:close()
        local stream = assert(listener:accept(60))
        stream:write("hello, ", assert(stream:handshake(60)):tls().peer.names[1], "\n")
        stream:close()
    ]]
    local client = [[
        local tls = require "mare.tls"
        local folder = arg[1]
        local stream = assert(tls.connect("127.0.0.1", tonumber(io.read()), {
            certificate = folder .. "/flow.pem", key = folder .. "/flow.key",
            authorities = folder .. "/trusted.pem"}, 60))
        print(stream:read("l", 60))
    ]]
    local code <close> = shell.file(client)
    local got = shell.run(("%s %s %s/keys | %s %s %s/keys"):format(shell.mare, server, folder,
        shell.mare, code, folder))
    t.eq({got.out, got.err, got.code}, {"hello, flow\n", "", 0})
end

function cases.another_authority_is_refused(folder)
    local ours, others = folder .. "/ours", folder .. "/others"
    group(ours, "ebb", "flow")
    group(others, "ebb", "flow")
    local stranger = assert(keys.load(others, "flow"))
    stranger.authorities = assert(keys.load(ours, "flow")).authorities -- it believes us
    local got = meet(stranger, assert(keys.load(ours, "ebb")), "ebb")
    t.eq({got[1], got[3]}, {"denied", "denied"})
    t.ok(got[4]:find "'CN = flow' is refused: unable to get local issuer", got[4])
    got = meet(assert(keys.load(others, "flow")), assert(keys.load(ours, "ebb")), "ebb")
    t.eq(got[1], "denied")
    -- A node is not another one, and one without a certificate is nobody.
    got = meet(assert(keys.load(ours, "flow")), assert(keys.load(ours, "ebb")), "flow")
    t.eq(got[1], "denied")
    t.ok(got[2]:find "another host: ebb, not flow", got[2])
    got = meet({authorities = file.read(ours .. "/trusted.pem")}, assert(keys.load(ours, "ebb")),
        "ebb")
    t.eq(got[3], "denied")
    local old = assert(keys.load(ours, "flow"))
    old.min_version, old.max_version = "1.2", "1.2"
    t.eq(meet(old, assert(keys.load(ours, "ebb")), "ebb")[3], "refused")
end

function cases.what_has_expired_is_refused(folder)
    group(folder, "ebb")
    assert(keys.issue(folder, "old", {days = -1}))
    local got = both(folder, "old", "ebb")
    t.eq(got[3], "denied")
    t.ok(got[4]:find "'CN = old' is refused: certificate has expired", got[4])
    got = both(folder, "ebb", "old")
    t.eq({got[1], got[2]},
        {"denied", "the certificate of 'CN = old' is refused: certificate has expired"})
    got = run(folder, "show --folder .")
    t.eq(got.code, 1)
    t.ok(got.out:find "old .* NOT GOOD: certificate has expired", got.out)
    got = run(folder, "show old.pem --folder none") -- also where nobody is trusted
    t.eq(got.code, 1)
    t.ok(got.out:find "NOT GOOD: certificate has expired", got.out)
end

-- openssl makes it with our authority, for a year that has not come.
function cases.what_is_not_valid_yet_is_refused(folder)
    group(folder, "ebb", "early")
    assert(file.write(folder .. "/conf", [[
        [ca]
        default_ca = ours
        [ours]
        database = ./db
        new_certs_dir = .
        rand_serial = yes
        default_md = default
        policy = any
        x509_extensions = node
        [any]
        commonName = supplied
        [node]
        basicConstraints = critical, CA:FALSE
        keyUsage = critical, digitalSignature
        extendedKeyUsage = serverAuth, clientAuth
        subjectAltName = DNS:early
    ]]))
    assert(file.write(folder .. "/db", ""))
    local said, code = openssl(folder, "req -new -key early.key -subj /CN=early -out early.csr")
    t.eq(code, 0, said)
    said, code = openssl(folder, "ca -config conf -batch -notext -in early.csr -out early.pem "
        .. "-keyfile authority.key -cert authority.pem -startdate 20990101000000Z "
        .. "-enddate 20990201000000Z")
    t.eq(code, 0, said)
    local got = both(folder, "early", "ebb")
    t.eq({got[3], got[4]},
        {"denied", "the certificate of 'CN = early' is refused: certificate is not yet valid"})
    got = both(folder, "ebb", "early")
    t.eq({got[1], got[2]},
        {"denied", "the certificate of 'CN = early' is refused: certificate is not yet valid"})
end

function cases.what_is_revoked_is_refused(folder)
    group(folder, "ebb", "flow")
    local before = assert(keys.load(folder, "flow"))
    assert(keys.rotate(folder, "flow"))
    t.eq(meet(before, assert(keys.load(folder, "ebb")), "ebb")[1], "hello") -- it was not revoked
    t.eq(does(folder, "revoke flow --folder ."),
        "flow: 2 revoked; give all nodes ./trusted.pem\n")
    for _, flow in ipairs {before, assert(keys.load(folder, "flow"))} do
        local got = meet(flow, assert(keys.load(folder, "ebb")), "ebb")
        t.eq({got[3], got[4]},
            {"denied", "the certificate of 'CN = flow' is refused: certificate revoked"})
    end
    assert(keys.rotate(folder, "flow"))
    t.eq(both(folder, "flow", "ebb"), {"hello", nil, "flow", "TLSv1.3"})
    -- Others stay as they are, and lists do not forget.
    assert(keys.issue(folder, "neap"))
    t.eq(keys.revoke(folder, "neap"), 1)
    t.eq(meet(before, assert(keys.load(folder, "ebb")), "ebb")[3], "denied")
    refuses(folder, "revoke nobody --folder .", "no certificate of 'nobody' is valid")
end

function cases.an_authority_is_rotated_without_a_gap(folder)
    group(folder, "ebb", "flow", "neap")
    local early, old = assert(keys.load(folder, "neap")), assert(keys.load(folder, "flow"))
    does(folder, "rotate authority --folder .")
    refuses(folder, "rotate authority --folder .", "still trusted.*mare keys retire")
    does(folder, "rotate ebb --folder .")
    local ebb = assert(keys.load(folder, "ebb"))
    old.authorities = ebb.authorities -- trusted.pem is given to all first
    t.eq(meet(old, ebb, "ebb")[1], "hello")
    t.eq(both(folder, "ebb", "flow")[1], "hello")
    t.eq(meet(early, ebb, "ebb")[1], "denied") -- that is why
    t.eq(keys.revoke(folder, "neap"), 1) -- of the one before
    t.eq(both(folder, "neap", "ebb")[3], "denied")
    does(folder, "retire --folder .")
    t.eq(both(folder, "flow", "ebb")[3], "denied")
    does(folder, "rotate flow --folder .")
    t.eq(both(folder, "flow", "ebb")[1], "hello")
    refuses(folder, "retire --folder .", "there is no authority before")
    does(folder, "rotate authority --folder .")
end

function cases.a_secret_opens_a_link(folder)
    does(folder, "secret tide")
    local path = folder .. "/keys/tide.psk"
    t.ok(file.read(path):find "^tide:%x+\n$" and #file.read(path) == 5 + 64 + 1)
    local psk = assert(keys.secrets(path))
    t.eq(meet({psk = psk}, {psk = psk}, nil), {"hello", nil, "tide", "TLSv1.3"})
    refuses(folder, "secret tide", "tide.psk: it exists already; use %-%-replace")
    t.ok(secrets.same(assert(keys.secrets(path)).tide, psk.tide))
    does(folder, "secret tide --replace")
    t.eq(meet({psk = assert(keys.secrets(path))}, {psk = psk}, nil)[1], "denied")
    file.write(path, "\nebb:" .. ("0A"):rep(16) .. "\r\nflow:" .. ("62"):rep(256))
    local two = assert(keys.secrets(path))
    t.ok(secrets.same(two.ebb, ("\n"):rep(16)) and secrets.same(two.flow, ("b"):rep(256)))
    t.ok(not secrets.same(two.ebb, ("\n"):rep(17)) and not secrets.same(two.ebb, two.flow))
    for _, text in ipairs {"", "ebb", "ebb:", "ebb:" .. ("0"):rep(31), "ebb:" .. ("0"):rep(33),
        "ebb:" .. ("z"):rep(32), "ebb:" .. ("0"):rep(514), ":" .. ("0"):rep(32),
        "#ff:" .. ("0"):rep(32), "ebb:" .. ("0"):rep(32) .. "\n# a comment"} do
        file.write(path, text)
        t.fails("badmsg", keys.secrets(path))
    end
    file.write(path, "ok:" .. ("0"):rep(32) .. "\nsecretwords")
    local _, message = keys.secrets(path)
    t.ok(message:find "tide.psk:2: " and not message:find "secretwords", message)
end

-- What is taken for a path would be in messages, and so in logs.
function cases.a_secret_in_the_place_of_another_is_not_shown(folder)
    group(folder, "ebb")
    assert(keys.secret(folder, "tide"))
    local function told(options)
        local _, ok, message = pcall(tls.context, options)
        return tostring(ok) .. tostring(message)
    end
    local psk, good = assert(keys.secrets(folder .. "/tide.psk")), assert(keys.load(folder, "ebb"))
    local why = told {certificate = good.certificate, key = psk.tide}
    t.ok(why:find("option 'key': this secret is no private key", 1, true), why)
    for _, name in ipairs {"certificate", "password", "authorities", "ciphers", "suites"} do
        local options = {certificate = good.certificate, key = good.key}
        options[name] = psk.tide
        t.ok(told(options):find("option '" .. name, 1, true), told(options))
    end
    -- Two bytes would say that this one has 20, and that others follow.
    file.write(folder .. "/ebb.key", ("x"):rep(20) .. ("\1y\0\252" .. ("z"):rep(252)):rep(256))
    local long = assert(secrets.read(folder .. "/ebb.key", 0))
    t.fails("invalid", tls.context {psk = {tide = long}})
end

function cases.a_secret_that_was_closed_is_named_so(folder)
    assert(keys.secret(folder, "tide"))
    local psk, ch = assert(keys.secrets(folder .. "/tide.psk")), mare.channel(1)
    do local _ <close> = psk.tide end
    t.raises("a secret that was closed cannot travel", ch.send, ch, psk.tide)
end

-- ---- Other people's programs --------------------------------------------------------------------

function cases.openssl_believes_it(folder)
    group(folder, "ebb", "flow")
    assert(keys.issue(folder, "spring", {hosts = {"sea.example", "127.0.0.1", "::1"}, days = 7}))
    t.eq(openssl(folder, "verify -x509_strict -purpose sslserver -CAfile trusted.pem spring.pem"),
        "spring.pem: OK\n")
    t.eq(openssl(folder, "verify -x509_strict -crl_check_all -purpose sslclient -CAfile trusted.pem"
        .. " ebb.pem"), "ebb.pem: OK\n")
    t.eq(openssl(folder, "verify -x509_strict -crl_check_all -CAfile trusted.pem authority.pem"),
        "authority.pem: OK\n")
    local text = openssl(folder, "x509 -in spring.pem -noout -text")
    for _, words in ipairs {"Public Key Algorithm: ED25519", "Subject: CN = spring",
        "DNS:spring, DNS:sea.example, IP Address:127.0.0.1, IP Address:0:0:0:0:0:0:0:1",
        "CA:FALSE", "Digital Signature\n"} do
        t.ok(text:find(words, 1, true), text)
    end
    t.eq(select(2, openssl(folder, "x509 -in spring.pem -noout -checkend " .. 6 * 86400)), 0)
    t.eq(select(2, openssl(folder, "x509 -in spring.pem -noout -checkend " .. 8 * 86400)), 1)
    local names = keys.look(folder .. "/spring.pem")[1].names
    t.eq(assert(keys.rotate(folder, "spring")).names, names) -- its hosts stay
    local ours = keys.look(folder .. "/spring.pem")[1].fingerprint
    local theirs = openssl(folder, "x509 -in spring.pem -noout -fingerprint -sha256")
    t.eq(theirs:match "=(.*)\n":gsub(":", ""):lower(), ours)
    t.eq(openssl(folder, "pkey -in spring.key -pubout"),
        (openssl(folder, "x509 -in spring.pem -noout -pubkey")))
    keys.revoke(folder, "ebb")
    text = openssl(folder, "verify -crl_check -CAfile trusted.pem ebb.pem")
    t.ok(text:find "certificate revoked", text)
    t.eq(openssl(folder, "verify -crl_check -CAfile trusted.pem flow.pem"), "flow.pem: OK\n")
    text = openssl(folder, "crl -in authority.crl -noout -text -CAfile authority.pem")
    t.ok(text:find "verify OK" and text:find("X509v3 CRL Number: \n                2\n", 1, true),
        text)
end

function cases.nobody_below_an_authority_is_one(folder)
    group(folder, "ebb")
    -- What a node signs with its own key is nothing, as openssl sees it too.
    local ebb, key = assert(keys.load(folder, "ebb")), raw.key()
    local forged = raw.certificate("node", nil, "flow", 86400, key, ebb.certificate, ebb.key,
        "flow")
    file.write(folder .. "/forged.pem", forged)
    local text = openssl(folder, "verify -CAfile trusted.pem -untrusted ebb.pem forged.pem")
    t.ok(text:find "invalid CA certificate", text)
    local got = meet({certificate = forged .. ebb.certificate, key = key,
        authorities = ebb.authorities}, ebb, "ebb")
    t.eq(got[3], "denied")
end

-- ---- Code ---------------------------------------------------------------------------------------

function cases.signed_code_is_told_from_other_code(folder)
    group(folder, "ebb")
    does(folder, "issue ana --code --folder .")
    file.write(folder .. "/app.lua", "print 'high tide'\n")
    t.eq(does(folder, "sign ana app.lua --folder ."), "app.lua.sig\n")
    t.eq(does(folder, "check app.lua --folder ."), "app.lua: signed by ana\n")
    t.eq(openssl(folder, "verify -CAfile trusted.pem app.lua.sig"), "app.lua.sig: OK\n")
    local got = shell.run(("cd %s && openssl x509 -in app.lua.sig -noout -pubkey >pub && "
        .. "sed -n 's/^ed25519 //p' app.lua.sig | python3 -c 'import sys; sys.stdout.buffer.write("
        .. "bytes.fromhex(sys.stdin.read()))' >bytes && openssl pkeyutl -verify -pubin -inkey pub "
        .. "-rawin -in app.lua -sigfile bytes"):format(folder))
    t.eq({got.out, got.code}, {"Signature Verified Successfully\n", 0}, got.err)
    refuses(folder, "sign ana app.lua --folder .", "app.lua.sig: it exists already")
    does(folder, "sign ana app.lua --replace --folder .")
    refuses(folder, "sign ebb app.lua --replace --folder .", "ebb.pem: .* for another use")

    local function says(pattern)
        got = run(folder, "check app.lua --folder .")
        t.eq(got.code, 1)
        t.ok(got.out:find("^app.lua: NOT GOOD: " .. pattern), got.out)
    end
    local signature = file.read(folder .. "/app.lua.sig")
    file.write(folder .. "/app.lua", "print 'low tide'\n")
    says "the signature is not of this text"
    file.write(folder .. "/app.lua", "print 'high tide'\n")
    file.write(folder .. "/app.lua.sig", "ed25519 00\n" .. signature)
    says "it is no signature"
    -- A node's certificate signs links, not code.
    local ebb = keys.load(folder, "ebb")
    local digits = raw.sign(ebb.key, "print 'high tide'\n"):gsub(".", function(byte)
        return ("%02x"):format(byte:byte())
    end)
    file.write(folder .. "/app.lua.sig", ("ed25519 %s\n%s"):format(digits, ebb.certificate))
    says "the certificate is for another use"
    file.write(folder .. "/app.lua.sig", signature)
    does(folder, "check app.lua --folder .")
    keys.revoke(folder, "ana")
    says "certificate revoked"
    refuses(folder, "sign ana app.lua --replace --folder .", "ana.pem: certificate revoked")
    file.remove(folder .. "/app.lua.sig")
    says ".*app.lua.sig: No such file"
end

function cases.no_part_and_no_change_of_a_signature_is_one(folder)
    group(folder, "ebb")
    t.ok(keys.issue(folder, "ana", {code = true}))
    local text, trusted = "print 'high tide'\n", t.ok(keys.trusted(folder))
    local signature = t.ok(keys.sign(folder, "ana", text))
    t.eq(t.ok(keys.check(text, signature, trusted)).names[1], "ana")
    for size = 0, #(signature:gsub("%s+$", "")) - 1 do
        local facts, why = keys.check(text, signature:sub(1, size), trusted)
        t.ok(not facts and type(why) == "string", ("cut after %d bytes"):format(size))
    end
    local first, last = signature:match "^ed25519 ()%x+()\n"
    for at = 1, #signature do
        local changed = signature:sub(1, at - 1) .. string.char(signature:byte(at) ~ 1)
            .. signature:sub(at + 1)
        local facts, why = keys.check(text, changed, trusted)
        -- A bit that PEM does not look at may change.
        local may = (at < first or at >= last) and facts and facts.names[1] == "ana"
        t.ok(may or not facts and type(why) == "string", ("byte %d is changed"):format(at))
    end
    local facts, why = keys.check(text:sub(1, -2), signature, trusted)
    t.ok(not facts and why:find "not of this text", why)
end

function cases.who_signs_code_opens_no_link(folder)
    group(folder, "ebb")
    assert(keys.issue(folder, "ana", {code = true}))
    local got = both(folder, "ana", "ebb")
    t.eq(got[3], "denied")
    t.ok(got[4]:find "unsuitable certificate purpose" or got[4]:find "unsupported certificate",
        got[4])
    assert(keys.rotate(folder, "ana")) -- and does not become a node
    t.eq(keys.look(folder .. "/ana.pem")[1].use, "code")
end

-- ---- Files --------------------------------------------------------------------------------------

function cases.keys_are_for_their_owner_alone(folder)
    local got = shell.run(("cd %s && umask 0 && M=%s && $M keys authority tides && "
        .. "$M keys issue ebb && $M keys secret tide && $M keys rotate ebb"):format(folder,
        shell.mare))
    t.eq({got.code, got.err}, {0, ""})
    local wanted = {["authority.crl"] = 0x1a4, ["authority.key"] = 0x180, ["authority.pem"] = 0x1a4,
        ["ebb.key"] = 0x180, ["ebb.pem"] = 0x1a4, issued = 0x1c0, ["tide.psk"] = 0x180,
        ["trusted.pem"] = 0x1a4}
    for name, info in pairs(all_in(folder .. "/keys")) do
        t.eq(info[1], wanted[name], name)
        wanted[name] = nil
    end
    t.eq(wanted, {})
    t.eq(file.stat(folder .. "/keys").permissions, 0x1c0)
end

function cases.loose_permissions_are_refused_with_what_mends_them(folder)
    group(folder, "ebb")
    assert(keys.secret(folder, "tide"))
    local function mended(path, permissions, words, pattern)
        local old = file.stat(path).permissions
        assert(file.chmod(path, permissions))
        local got = run(folder, words .. " --folder .")
        t.eq(got.code, 1)
        local command = (got.err .. got.out):match "mend it with: ([^\n]*)"
        t.ok(command and command:find(pattern), got.err .. got.out)
        t.eq(shell.run(("cd %s && %s"):format(folder, command)).code, 0)
        does(folder, words .. " --folder .")
        assert(file.chmod(path, old))
    end
    mended(folder .. "/authority.key", LOOSE, "rotate ebb", "^chmod 600 ./authority.key$")
    mended(folder .. "/authority.key", 0x190, "rotate ebb", "^chmod 600 ") -- its group
    mended(folder, 0x1ff, "rotate ebb", "^chmod go%-w .$")
    mended(folder, 0x1f0, "rotate ebb", "^chmod go%-w .$")
    mended(folder .. "/ebb.key", LOOSE, "show", "^chmod 600 ./ebb.key$")
    mended(folder .. "/tide.psk", 0x184, "show", "^chmod 600 ./tide.psk$")
    mended(folder .. "/trusted.pem", 0x1b4, "show", "^chmod go%-w ./trusted.pem$")
    file.write(folder .. "/app.lua", "")
    assert(keys.issue(folder, "ana", {code = true}))
    does(folder, "sign ana app.lua --folder .")
    mended(folder .. "/trusted.pem", 0x1a6, "check app.lua", "^chmod go%-w ./trusted.pem$")
    mended(folder .. "/issued", 0x1ff, "revoke ana", "^chmod go%-w ./issued$")
    file.chmod(folder .. "/trusted.pem", 0x1b6)
    t.fails("denied", keys.load(folder, "ebb"))
    file.chmod(folder .. "/trusted.pem", LOOSE)
    file.chmod(folder .. "/ebb.key", LOOSE)
    t.fails("denied", keys.load(folder, "ebb"))
    file.chmod(folder .. "/tide.psk", LOOSE)
    t.fails("denied", keys.secrets(folder .. "/tide.psk"))
    -- What a rotation puts there is no looser than it should be.
    assert(keys.rotate(folder, "ebb"))
    t.eq(file.stat(folder .. "/ebb.key").permissions, 0x180)
    local odd = folder .. "/it's odd"
    group(odd, "ebb")
    mended(odd .. "/authority.key", LOOSE, "rotate ebb --json --folder \"it's odd\" #",
        "^chmod 600 'it'\\''s odd/authority.key'$")
end

function cases.what_is_there_is_not_replaced(folder)
    group(folder, "ebb")
    local before = all_in(folder)
    refuses(folder, "authority tides --folder .", "authority already; 'mare keys rotate authority'")
    refuses(folder, "issue ebb --folder .", "ebb.pem: it exists already; 'mare keys rotate ebb'")
    refuses(folder, "rotate flow --folder .", "flow.pem: No such file")
    t.eq(all_in(folder), before)
    file.remove(folder .. "/ebb.pem")
    refuses(folder, "issue ebb --folder .", "ebb.key: it exists already")
    t.eq(file.read(folder .. "/ebb.key"), before["ebb.key"][2])
    file.write(folder .. "/lock", "")
    refuses(folder, "rotate authority --folder .", "lock: another program .* rm ./lock")
    file.remove(folder .. "/lock")
    does(folder, "rotate authority --folder .")
end

-- A limit on the size of files is as a full disk: so many blocks of 512 bytes, in which a key fits,
-- but no certificate.
function cases.a_full_disk_leaves_all_as_it_was(folder)
    group(folder, "ebb")
    assert(keys.secret(folder, "tide"))
    file.write(folder .. "/app.lua", "")
    assert(keys.issue(folder, "ana", {code = true}))
    local before = all_in(folder)
    for _, words in ipairs {"0 issue flow", "1 issue flow", "0 rotate ebb", "1 rotate ebb",
        "0 rotate authority", "1 rotate authority", "0 revoke ebb", "0 secret tide --replace",
        "0 secret new", "1 sign ana app.lua"} do
        local blocks, command = words:match "^(%d) (.*)$"
        local got = shell.run(("cd %s && (trap '' XFSZ; ulimit -f %s; %s keys %s --folder .; "
            .. "echo $?) 2>&1 | cat"):format(folder, blocks, shell.mare, command))
        t.ok(got.out:find "File too large\n1\n$", words .. ": " .. got.out)
        t.eq(all_in(folder), before, words)
    end
    local got = shell.run(("cd %s && (trap '' XFSZ; ulimit -f 1; %s keys authority a --folder new; "
        .. "echo $?) 2>&1 | cat"):format(folder, shell.mare))
    t.ok(got.out:find "File too large\n1\n$", got.out)
    t.eq(file.list(folder .. "/new"), {"issued"})
end

-- ---- The command line ---------------------------------------------------------------------------

function cases.what_there_is_is_shown(folder)
    group(folder .. "/keys", "ebb")
    assert(keys.secret(folder .. "/keys", "tide"))
    assert(keys.issue(folder .. "/keys", "flow", {days = 10, hosts = {"sea.example"}}))
    local facts = keys.look(folder .. "/keys/flow.pem")[1]
    local out = does(folder, "show")
    local digits = file.read(folder .. "/keys/tide.psk"):match ":(%x+)"
    t.ok(not out:find(digits, 1, true))
    for _, pattern in ipairs {"authority  O = tides, CN = authority %x+  ", "node       ebb   ",
        "secret     tide   ", "node       flow  .*for sea.example\n",
        os.date("!flow  +%Y%%-%m%%-%d", facts.expires)} do
        t.ok(out:find(pattern), out)
    end
    local lines = {}
    for line in does(folder, "show --json"):gmatch "[^\n]+" do
        lines[line:match '"name":"([^"]*)"'] = line
    end
    t.eq(lines.flow, ('{"file":"keys/flow.pem","use":"node","name":"flow","subject":"CN = flow",'
        .. '"issuer":"%s","serial":"%s","begins":%d,"expires":%d,"fingerprint":"%s",'
        .. '"names":["flow","sea.example"]}'):format(facts.issuer, facts.serial, facts.begins,
        facts.expires, facts.fingerprint))
    t.ok(lines.tide:find '"use":"secret"', lines.tide)
    does(folder, "show --within 9 keys/flow.pem")
    local got = run(folder, "show --within 11")
    t.eq(got.code, 1)
    t.eq(select(2, got.out:gsub("NOT GOOD: it expires soon", "")), 1)
    t.eq(select(2, does(folder, "show keys/trusted.pem keys/ebb.pem"):gsub(("%x"):rep(64), "")), 2)
    refuses(folder, "show --folder none", "none: No such file")
    refuses(folder, "show keys/authority.crl", "there is no certificate in it")
end

function cases.what_makes_no_sense_is_refused(folder)
    group(folder .. "/keys", "ebb")
    local before = all_in(folder)
    for words, pattern in pairs {["dance"] = "there is no 'dance'", ["issue"] = "to whom?",
        ["issue a --day 3"] = "no option '%-%-day'", ["issue a --days"] = "no value for '%-%-days'",
        ["issue a --days -1"] = "cannot be '%-1'", ["issue a --days nan"] = "cannot be 'nan'",
        ["show --days 3"] = "not for show", ["retire now"] = "one word too many: 'now'",
        ["sign ana"] = "as whom, and which file?", ["authority"] = "which group?"} do
        refuses(folder, words, pattern, 2)
    end
    for _, name in ipairs {"Ebb", "../ebb", "a/b", "''", "1", "127.0.0.1", "authority", "trusted",
        "previous", "a\\ b", "'*'", ("a"):rep(64)} do
        refuses(folder, "issue " .. name, "cannot be a name")
        refuses(folder, "secret " .. name, "cannot be a name")
    end
    refuses(folder, "issue a 'b c'", "'b c' cannot be a host")
    refuses(folder, "issue a --folder none", "none: No such file")
    file.mkdir(folder .. "/empty")
    refuses(folder, "issue a --folder empty", "no authority in empty; 'mare keys authority'")
    file.remove(folder .. "/empty")
    t.eq(all_in(folder), before)
    t.eq(run(folder, "").code, 2)
    t.ok(does(folder, "--help"):find "^mare keys authority GROUP")
    t.raises("unknown option 'day'", keys.issue, folder, "a", {day = 3})
    t.raises("'days' must be a number", keys.issue, folder, "a", {days = "x"})
    t.raises("bad argument #2 to 'issue'", keys.issue, folder)
end

function cases.an_authority_with_a_wrong_key_signs_nothing(folder)
    group(folder, "ebb")
    local before = all_in(folder)
    for text, pattern in pairs {[before["ebb.key"][2]] = "not that of its certificate",
        ["nonsense"] = "not a private key",
        [select(2, tls.selfsigned "a")] = "not an Ed25519 key"} do
        file.write(folder .. "/authority.key", text)
        refuses(folder, "issue flow --folder .", pattern)
        refuses(folder, "revoke ebb --folder .", pattern)
    end
    -- An encrypted one asks nobody for its password.
    openssl(folder, "genpkey -algorithm ed25519 -aes256 -pass pass:tide -out authority.key")
    local got = shell.run(("cd %s && echo tide | setsid -w %s keys issue flow --folder ."):format(
        folder, shell.mare))
    t.eq(got.code, 1)
    t.ok(got.err:find "not a private key", got.err)
    file.write(folder .. "/authority.key", before["authority.key"][2])
    t.eq(all_in(folder), before)
    -- None outlives its authority.
    local short = folder .. "/short"
    assert(keys.authority(short, "tides", {days = 2}))
    local facts = assert(keys.issue(short, "ebb", {days = 30}))
    t.eq(facts.expires, keys.look(short .. "/authority.pem")[1].expires)
    assert(keys.authority(folder .. "/late", "tides", {days = -1}))
    t.fails("denied", keys.issue(folder .. "/late", "ebb"))
end

for name, f in pairs(cases) do
    cases[name] = {t.in_folder(f), timeout = 300 * t.slow}
end
return cases
