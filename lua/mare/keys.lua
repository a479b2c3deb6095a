-- SPDX-License-Identifier: MIT
-- Keys and certificates for nodes, in a folder: an authority, what it has issued, what it has
-- revoked, secrets that two sides share, signatures of code. `mare keys` is this on the command
-- line. The work is OpenSSL's (src/platform/keys.c), the care for files that of _keystore.lua.
--
--   authority.pem .key .crl   the authority: its certificate, its key, what it has revoked
--   previous.pem .key .crl    the one before, until it is retired
--   trusted.pem               whom every node trusts: certificates and lists of both
--   NAME.pem NAME.key         of a node, or of one who signs code
--   NAME.psk                  a secret
--   issued/NAME-SERIAL.pem    every certificate that was issued, for it may have to be revoked
local file, raw, secrets = require "mare.file", require "mare._certificate", require "mare._secret"
local checks, store = require "mare._check", require "mare._keystore"

local keys = {}

local DAY, ISSUER_DAYS, NODE_DAYS = 86400, 3650, 365
local RESERVED = {authority = true, previous = true, trusted = true}

-- ---- Arguments ----------------------------------------------------------------------------------

-- TLS ignores case in names. So two nodes must not have names that differ only in case.
local function check_name(name)
    if #name <= 63 and name:find "^[a-z][a-z0-9._-]*$" and not RESERVED[name] then return true end
    return nil, ("'%s' cannot be a name: a letter, then letters, digits, '.', '_' and '-', all in "
        .. "lower case, 63 at most; not authority, previous or trusted"):format(name), "invalid"
end

local function are_days(days)
    return type(days) == "number" and math.abs(days) < 36500
end

local function check(name, folder, subject, options, allowed)
    checks.argument(name, folder, 1, "string", 4)
    checks.argument(name, subject, 2, "string", 4)
    options = options or {}
    checks.options(name, options, 3, allowed, 4)
    checks.option(name, options, 3, "days", are_days, "a number below 36500", 4)
    return options
end

-- ---- The authority ------------------------------------------------------------------------------

local function look(path, text)
    local facts, message, code = raw.look(text)
    if not facts then return nil, ("%s: %s"):format(path, message), code end
    facts.file = path
    return facts
end

-- What has an authority's key in it: a variable with <close>, so that the key is wiped.
local owner = {__close = function(made)
    if made.key then secrets.forget(made.key) end
end}

-- The files of `authority`, or of `previous`, that exist: their texts and facts.
local function read_authority(folder, which)
    local path = ("%s/%s"):format(folder, which)
    local secret, message, code = store.read_secret(path .. ".key")
    if code == "noname" and which == "authority" then
        return nil, ("there is no authority in %s; 'mare keys authority' makes one"):format(folder),
            code
    elseif not secret then
        return nil, message, code
    end
    local made = {key = secret, path = path}
    local function complete()
        for field, suffix in pairs {certificate = ".pem", list = ".crl"} do
            local text, why, failed = store.read(path .. suffix)
            if not text then return nil, why, failed end
            made[field] = text
        end
        return look(path .. ".pem", made.certificate)
    end
    made.facts, message, code = complete()
    if made.facts then return setmetatable(made, owner) end
    secrets.forget(secret)
    return nil, message, code
end

-- A new authority. It gets a new subject, so that it cannot be mistaken for another one of the
-- group.
local function make_authority(folder, group, days)
    local mark, message, code = raw.random(4)
    local made = setmetatable({path = folder .. "/authority"}, owner)
    if mark then made.key, message, code = raw.key() end
    if made.key then
        local name = ("authority %08x"):format((string.unpack(">I4", mark)))
        made.certificate, message, code = raw.certificate("authority", group, name, days * DAY,
            made.key)
    end
    if made.certificate then
        made.list, message, code = raw.list(made.certificate, made.key)
    end
    if not made.list then return nil, message, code end
    return made
end

local function files_of(authority, path)
    return {path .. ".key", authority.key}, {path .. ".pem", authority.certificate},
        {path .. ".crl", authority.list}
end

local function trusted_file(folder, ...)
    local parts = {}
    for _, authority in ipairs {...} do
        parts[#parts + 1] = authority.certificate .. authority.list
    end
    return {folder .. "/trusted.pem", table.concat(parts)}
end

-- Writes the files, and returns the facts of the certificate among them.
local function committed(path, certificate, files)
    local ok, message, code = store.commit(files)
    if not ok then return nil, message, code end
    return look(path, certificate)
end

local AUTHORITY = checks.set("days")

--- Makes an authority for a group of nodes, and the folder for all that it issues.
function keys.authority(folder, group, options)
    local days = check("authority", folder, group, options, AUTHORITY).days or ISSUER_DAYS
    local ok, message, code = check_name(group)
    if ok then ok, message, code = store.make_folder(folder) end
    if ok then ok, message, code = store.make_folder(folder .. "/issued") end
    if not ok then return nil, message, code end
    return store.locked(folder, function()
        for _, suffix in ipairs {".key", ".pem", ".crl"} do
            local path = folder .. "/authority" .. suffix
            if file.exists(path) then
                return nil, path .. ": there is an authority already; 'mare keys rotate authority' "
                    .. "makes another", "exists"
            end
        end
        local made <close>, why, failed = make_authority(folder, group, days)
        if not made then return nil, why, failed end
        local key, certificate, list = files_of(made, made.path)
        return committed(made.path .. ".pem", made.certificate, {key, certificate, list,
            trusted_file(folder, made)})
    end)
end

local function rotate_authority(folder, days)
    if file.exists(folder .. "/previous.key") then
        return nil, "the authority before this one is still trusted; when all nodes have "
            .. "certificates of this one: mare keys retire", "exists"
    end
    local old <close>, message, code = read_authority(folder, "authority")
    if not old then return nil, message, code end
    local group = old.facts.subject:match "^O = (.-), CN = " or "mare"
    local made <close>, why, failed = make_authority(folder, group, days)
    if not made then return nil, why, failed end
    -- The old one first: if this is interrupted in between, nothing is lost.
    local files = table.pack(files_of(old, folder .. "/previous"))
    files[#files + 1] = trusted_file(folder, made, old)
    for _, one in ipairs {files_of(made, made.path)} do files[#files + 1] = one end
    return committed(made.path .. ".pem", made.certificate, files)
end

--- Stops trusting the authority before the last rotation.
function keys.retire(folder)
    checks.argument("retire", folder, 1, "string")
    return store.locked(folder, function()
        local now <close>, message, code = read_authority(folder, "authority")
        if not now then return nil, message, code end
        if not file.exists(folder .. "/previous.key") then
            return nil, "there is no authority before this one", "noname"
        end
        local ok
        ok, message, code = store.commit {trusted_file(folder, now)}
        for _, suffix in ipairs {".pem", ".crl", ".key"} do
            if ok then ok, message, code = file.remove(folder .. "/previous" .. suffix) end
        end
        if not ok then return nil, message, code end
        return now.facts
    end)
end

-- ---- Certificates -------------------------------------------------------------------------------

-- A new key and a certificate for it, in place of what was there.
local function issue(folder, name, use, days, hosts)
    local authority <close>, message, code = read_authority(folder, "authority")
    if not authority then return nil, message, code end
    if authority.facts.expires <= os.time() then
        return nil, "the authority has expired; 'mare keys rotate authority' makes another",
            "denied"
    end
    local key <close>, why, failed = raw.key()
    if not key then return nil, why, failed end
    local certificate
    certificate, message, code = raw.certificate(use, nil, name, days * DAY, key,
        authority.certificate, authority.key, name, table.unpack(hosts))
    if not certificate then return nil, message, code end
    local path, facts = ("%s/%s"):format(folder, name), raw.look(certificate)
    return committed(path .. ".pem", certificate, {
        {("%s/issued/%s-%s.pem"):format(folder, name, facts.serial), certificate},
        {path .. ".key", key}, {path .. ".pem", certificate}})
end

local function check_hosts(hosts)
    for _, host in ipairs(hosts) do
        if type(host) ~= "string" or #host > 253 or not host:find "^[%w.:_-]+$" then
            return nil, ("'%s' cannot be a host"):format(tostring(host)), "invalid"
        end
    end
    if #hosts > 60 then return nil, "60 hosts are enough", "invalid" end
    return true
end

local ISSUE = checks.set("days", "hosts", "code")

--- Makes a key and a certificate for a node, or for one who signs `code`.
function keys.issue(folder, name, options)
    local o = check("issue", folder, name, options, ISSUE)
    local hosts = o.hosts or {}
    local ok, message, code = check_name(name)
    if ok then ok, message, code = check_hosts(hosts) end
    if not ok then return nil, message, code end
    return store.locked(folder, function()
        for _, suffix in ipairs {".pem", ".key"} do
            local path = ("%s/%s%s"):format(folder, name, suffix)
            if file.exists(path) then
                return nil, ("%s: it exists already; 'mare keys rotate %s' replaces it")
                    :format(path, name), "exists"
            end
        end
        return issue(folder, name, o.code and "code" or "node", o.days or NODE_DAYS, hosts)
    end)
end

local ROTATE = checks.set("days")

--- Makes a new key and certificate for a name that has one, or a new authority.
function keys.rotate(folder, name, options)
    local days = check("rotate", folder, name, options, ROTATE).days
    return store.locked(folder, function()
        if name == "authority" then return rotate_authority(folder, days or ISSUER_DAYS) end
        local ok, message, code = check_name(name)
        if not ok then return nil, message, code end
        local path = ("%s/%s.pem"):format(folder, name)
        local text, facts
        text, message, code = store.read(path)
        if text then facts, message, code = look(path, text) end
        if not facts then return nil, message, code end
        return issue(folder, name, facts.use, days or NODE_DAYS,
            table.move(facts.names, 2, #facts.names, 1, {}))
    end)
end

-- The certificates that were issued to a name, and have not expired.
local function issued_to(folder, name)
    local found, names = {}, nil
    local ok, message, code = store.check_folder(folder .. "/issued")
    if ok then names, message, code = file.list(folder .. "/issued") end
    if not names then return nil, message, code end
    for _, entry in ipairs(names) do
        if entry:match "^(.*)%-%x+%.pem$" == name then
            local path = folder .. "/issued/" .. entry
            local text, facts
            text, message, code = store.read(path)
            if text then facts, message, code = look(path, text) end
            if not facts then return nil, message, code end
            facts.text = text
            if facts.expires > os.time() then found[#found + 1] = facts end
        end
    end
    if #found > 0 then return found end
    return nil, ("no certificate of '%s' is valid; what there is: mare keys show"):format(name),
        "noname"
end

--- Revokes all certificates of a name. Returns how many. Nodes must then get the new trusted.pem.
function keys.revoke(folder, name)
    checks.argument("revoke", folder, 1, "string")
    checks.argument("revoke", name, 2, "string")
    return store.locked(folder, function()
        local found, message, code = issued_to(folder, name)
        if not found then return nil, message, code end
        local files, authorities, count = {}, {}, 0
        for i, which in ipairs {"authority", "previous"} do
            if i == 1 or file.exists(folder .. "/previous.key") then
                local one <close>, why, failed = read_authority(folder, which)
                if not one then return nil, why, failed end
                authorities[i] = one
                for _, facts in ipairs(found) do
                    if facts.issuer == one.facts.subject then
                        one.list, message, code = raw.list(one.certificate, one.key, one.list,
                            facts.text)
                        if not one.list then return nil, message, code end
                        count = count + 1
                    end
                end
                files[i] = {one.path .. ".crl", one.list}
            end
        end
        files[#files + 1] = trusted_file(folder, table.unpack(authorities))
        local ok
        ok, message, code = store.commit(files)
        if not ok then return nil, message, code end
        return count
    end)
end

--- The certificates that the nodes of a folder trust: the text of trusted.pem, which only the owner
--- may change.
function keys.trusted(folder)
    checks.argument("trusted", folder, 1, "string")
    return store.read_own(folder .. "/trusted.pem")
end

-- Checks options of mare.tls whose texts come from these files (`paths`, by option). mare.tls takes
-- a text without PEM for a path, and calls every other text "the text given": so the error names
-- the file.
local function check_files(options, paths)
    for name, what in pairs {certificate = "certificate", key = "private key",
        authorities = "certificate"} do
        local text = options[name]
        local is_text = name == "key" and secrets.is_pem(text) or name ~= "key"
            and not text:find("\0", 1, true) and text:find("-----BEGIN", 1, true)
        if not is_text then
            return nil, ("%s: no %s in PEM form"):format(paths[name], what), "badmsg"
        end
    end
    local context, message, code = require "mare.tls".context(options)
    if context then
        secrets.forget(context) -- it has the key, too
        return true
    end
    local name, why = message:match "^(%a+): (.*)$"
    if not paths[name] then return nil, message, code end
    why = why:gsub("^the text given: ", ""):gsub(" in the text given$", "")
    return nil, ("%s: %s"):format(paths[name], why), code
end

--- Forgets the keys in options that `load` returned, or `secrets` as their `psk`: they are wiped,
--- unless something else has them.
function keys._forget(options)
    if options.key then secrets.forget(options.key) end
    for _, key in pairs(options.psk or {}) do secrets.forget(key) end
    options.key, options.psk = nil, nil
end

--- The keys of a node, as options of mare.tls for both directions.
function keys.load(folder, name)
    checks.argument("load", folder, 1, "string")
    checks.argument("load", name, 2, "string")
    local path = ("%s/%s"):format(folder, name)
    local key, message, code = store.read_secret(path .. ".key")
    if not key then return nil, message, code end
    local made, ok, trusted = {key = key, verify = "require", min_version = "1.3"}, nil, nil
    made.certificate, message, code = store.read(path .. ".pem")
    if made.certificate then trusted, message, code = keys.trusted(folder) end
    if trusted then
        made.authorities = trusted
        ok, message, code = check_files(made, {certificate = path .. ".pem", key = path .. ".key",
            authorities = folder .. "/trusted.pem"})
    end
    if ok then return made end
    keys._forget(made)
    return nil, message, code
end

--- Whether the files differ by now from what `load` returned (`loaded`). Or nil, message, code.
function keys._differ(folder, name, loaded)
    local trusted, message, code = keys.trusted(folder)
    if not trusted then return nil, message, code end
    local certificate
    certificate, message, code = store.read(("%s/%s.pem"):format(folder, name))
    if not certificate then return nil, message, code end
    return trusted ~= loaded.authorities or certificate ~= loaded.certificate
end

--- Whether a node's certificate (a text) is valid, by the certificates trusted now.
function keys._vouch(certificate, trusted)
    return raw.verify(certificate, trusted, "node")
end

-- ---- Secrets ------------------------------------------------------------------------------------

local SECRET = checks.set("replace")

--- Makes a secret, for two sides to share: a file NAME.psk with one line, NAME:HEXADECIMAL.
function keys.secret(folder, name, options)
    local o = check("secret", folder, name, options, SECRET)
    local ok, message, code = check_name(name)
    if ok then ok, message, code = store.make_folder(folder) end
    if not ok then return nil, message, code end
    return store.locked(folder, function()
        local path = ("%s/%s.psk"):format(folder, name)
        if not o.replace and file.exists(path) then
            return nil, path .. ": it exists already; use --replace", "exists"
        end
        local made <close>, line, failed = secrets.make(name, 32)
        if not made then return nil, line, failed end
        local _ <close> = line
        local written, why, kind = store.commit {{path, line}}
        if not written then return nil, why, kind end
        return {file = path, name = name, use = "secret", fingerprint = raw.digest(made)}
    end)
end

--- The secrets in a file, by identity, as the option `psk` of mare.tls takes them: objects, because
--- a string could not be wiped.
function keys.secrets(path)
    checks.argument("secrets", path, 1, "string")
    local text <close>, message, code = store.read_secret(path)
    if not text then return nil, message, code end
    local found, at, failed = secrets.psk(text)
    if failed then return nil, at, failed end
    if not found then -- do not print anything of the file: it is secret
        return nil, ("%s:%d: a name, a colon, and 32 to 512 hexadecimal digits expected")
            :format(path, at), "badmsg"
    end
    if next(found) then return found end
    return nil, path .. ": there is no secret in it", "badmsg"
end

-- ---- Signatures ---------------------------------------------------------------------------------

--- Signs a text with a name's certificate for code. Returns the signature, which includes the
--- certificate.
function keys.sign(folder, name, text)
    checks.argument("sign", folder, 1, "string")
    checks.argument("sign", name, 2, "string")
    checks.argument("sign", text, 3, "string")
    local own, message, code = keys.load(folder, name)
    if not own then return nil, message, code end
    local _ <close> = own.key
    local path = ("%s/%s.pem"):format(folder, name)
    local signature, ok
    ok, message, code = raw.verify(own.certificate, own.authorities, "code")
    if ok then
        signature, message, code = raw.sign(own.key, text)
        ok = signature
    end
    if ok then ok, message, code = raw.check(own.certificate, text, signature) end
    if not ok then return nil, ("%s: %s"):format(path, message), code end
    local digits = signature:gsub(".", function(byte) return ("%02x"):format(byte:byte()) end)
    return ("ed25519 %s\n%s"):format(digits, own.certificate)
end

--- Checks a signature of a text. The signer must have a certificate for code by `trusted` (the text
--- of trusted.pem). Returns the signer's name, or nil, message, code.
function keys.check(text, signature, trusted)
    checks.argument("check", text, 1, "string")
    checks.argument("check", signature, 2, "string")
    checks.argument("check", trusted, 3, "string")
    local digits, certificate = signature:match "^ed25519 (%x+)\n(%-%-%-%-%-BEGIN CERT[^\0]*)$"
    if not digits or #digits ~= 128 then return nil, "it is no signature", "badmsg" end
    local bytes = digits:gsub("%x%x", function(pair) return string.char(tonumber(pair, 16)) end)
    local ok, message, code = raw.verify(certificate, trusted, "code")
    if ok then ok, message, code = raw.check(certificate, text, bytes) end
    if not ok then return nil, message, code end
    return raw.look(certificate)
end

-- ---- What there is ------------------------------------------------------------------------------

local function look_at_secrets(path, into)
    local found, message = keys.secrets(path)
    if not found then into[#into + 1] = {file = path, use = "secret", problem = message} end
    for identity, bytes in pairs(found or {}) do
        into[#into + 1] = {file = path, use = "secret", name = identity,
            fingerprint = raw.digest(bytes)}
        secrets.forget(bytes)
    end
end

local function look_at_certificates(path, trusted, into)
    local text, message, code = store.read(path)
    if not text then return nil, message, code end
    local before = #into
    for block in text:gmatch "%-%-%-%-%-BEGIN CERTIFICATE.-END CERTIFICATE%-%-%-%-%-" do
        local facts
        facts, message = look(path, block)
        facts = facts or {file = path, problem = message}
        facts.name = facts.names and facts.names[1] or facts.subject
        if trusted and not facts.problem then
            facts.problem = select(2, raw.verify(block, trusted, "other"))
        elseif not facts.problem and facts.expires <= os.time() then
            facts.problem = "certificate has expired"
        end
        into[#into + 1] = facts
    end
    if #into > before then return true end
    return nil, path .. ": there is no certificate in it", "badmsg"
end

--- What a file contains: a list of certificates, or of secrets without their secret part.
--- Certificates that `trusted` (a text) does not confirm have a `problem`.
function keys.look(path, trusted)
    checks.argument("look", path, 1, "string")
    local found = {}
    if path:find "%.psk$" then
        look_at_secrets(path, found)
        return found
    end
    local ok, message, code = look_at_certificates(path, trusted, found)
    if not ok then return nil, message, code end
    local secret = path:gsub("%.pem$", ".key")
    if secret ~= path and file.exists(secret) and not found[1].problem then
        local _ <close>, problem = store.read_secret(secret)
        found[1].problem = problem
    end
    return found
end

--- The same of all that is in a folder.
function keys.list(folder)
    checks.argument("list", folder, 1, "string")
    local names, message, code = file.list(folder)
    if not names then return nil, message, code end
    local all, trusted = {}
    trusted, message, code = keys.trusted(folder)
    if not trusted and code ~= "noname" then return nil, message, code end
    for _, name in ipairs(names) do
        if name:find "%.psk$" or name:find "%.pem$" and name ~= "trusted.pem" then
            local path = ("%s/%s"):format(folder, name)
            local found, why = keys.look(path, trusted)
            table.move(found or {{file = path, problem = why}}, 1, found and #found or 1,
                #all + 1, all)
        end
    end
    return all
end

return keys
