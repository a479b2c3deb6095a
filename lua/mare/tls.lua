-- SPDX-License-Identifier: MIT
-- TLS, client and server, as a property of streams: code that reads and writes them need not know
-- of it. OpenSSL does the work (src/platform/tls.c). This file has the defaults: what is allowed
-- and verified.
local net, raw, checks = require "mare.net", require "mare._tls", require "mare._check"

local tls = {}

--- How long a handshake may take unless one says otherwise, in seconds.
tls.handshake_time = 10

local VERSIONS = {["1.2"] = 2, ["1.3"] = 3}
local VERIFY = {[false] = 0, [true] = 1, request = 2, require = 3}

-- The options of a context, and the other options of the functions here.
local CONTEXT = {certificate = 1, key = 1, password = 1, authorities = 1, verify = 1, protocols = 1,
    min_version = 1, max_version = 1, ciphers = 1, suites = 1, names = 1, psk = 1,
    revoked = 1, resume = 1, staple = 1, ocsp = 1}
local NOT_WITH_PSK = {"certificate", "key", "password", "authorities", "verify", "ciphers",
    "suites", "names", "revoked", "resume", "staple", "ocsp"}
local NAMED = {certificate = 1, key = 1, password = 1, staple = 1}
local OCSP = {check = 1, require = 2}
local MORE = {context = 1, name = 1, server = 1, handshake_time = 1, backlog = 1, shared = 1,
    limit = 1, _http2 = 1}

local function version_of(options, name, usual)
    local value = options[name] or usual
    return VERSIONS[tostring(value)]
        or error(("option '%s' must be \"1.2\" or \"1.3\""):format(name), 4)
end

local function protocols_of(options)
    local parts = {}
    for i, name in ipairs(options.protocols or parts) do
        if type(name) ~= "string" or #name == 0 or #name > 255 then
            error("option 'protocols' must be a list of names of 1 to 255 bytes", 4)
        end
        parts[i] = string.pack("s1", name)
    end
    return table.concat(parts)
end

-- The keys that both sides have, by identity; nil: there are certificates.
local function keys_of(options)
    local psk, made = options.psk, {}
    if psk == nil then return nil end
    for _, name in ipairs(NOT_WITH_PSK) do
        if options[name] ~= nil then
            error(("option '%s' has no effect with 'psk'"):format(name), 4)
        end
    end
    if options.max_version and tostring(options.max_version) ~= "1.3" then
        error("option 'psk' needs TLS 1.3, but 'max_version' is lower", 4)
    end
    for identity, key in pairs(type(psk) == "table" and psk or {}) do
        if type(identity) ~= "string" or #identity == 0 or #identity > 255
            or identity:find("\0", 1, true) then
            error("option 'psk': an identity is a text of 1 to 255 bytes", 4)
        elseif getmetatable(key) ~= "secret" -- of keys.secrets, and of such a size
            and (type(key) ~= "string" or #key < 16 or #key > 256) then
            error("option 'psk': a key is a string of 16 to 256 bytes", 4)
        end
        made[identity] = key
    end
    if not next(made) then error("option 'psk' must be a table with a key", 4) end
    return made
end

local make

-- Adds the other certificates of a server to its context. Each gets all other options of the
-- context.
local function add_names(context, options, deadline)
    for name, given in pairs(options.names) do
        local own = {}
        for key in pairs(CONTEXT) do own[key] = options[key] end
        own.names = nil
        for key in pairs(NAMED) do own[key] = given[key] end -- also if it is given none
        local named, message, code = make(own, deadline)
        if not named then return nil, ("%s: %s"):format(name, message), code end
        named, message, code = raw.name(context, name, named)
        if not named then return nil, message, code end
    end
    return context
end

local function check_named(names)
    if type(names) ~= "table" then error("option 'names' must be a table", 4) end
    for name, given in pairs(names) do
        if type(name) ~= "string" or type(given) ~= "table" then
            error("option 'names': a name, and a table for it, expected", 4)
        elseif not given.certificate then
            error(("option 'names': '%s': option 'certificate' is needed"):format(name), 4)
        elseif name:find("*", 2, true) or name:find "^%*" and not name:find "^%*%.[^.]" then
            error(("option 'names': '%s' is not a host name"):format(name), 4)
        end
        for key in pairs(given) do
            if not NAMED[key] then
                error(("option 'names': '%s': unknown option '%s'"):format(name,
                    tostring(key)), 4)
            end
        end
    end
end

function make(options, deadline)
    local verify = options.verify
    if verify == nil then verify = true end
    if not VERIFY[verify] then
        error("option 'verify' must be true, false, \"request\" or \"require\"", 3)
    elseif VERIFY[verify] >= 2 and not options.authorities then
        error("option 'authorities' is needed: the signers of the clients' certificates", 3)
    elseif options.key and not options.certificate then
        error("option 'certificate' is needed with a key", 3)
    elseif options.names and not options.certificate then
        error("option 'certificate' is needed with 'names': for all others", 3)
    elseif options.ocsp ~= nil and (not OCSP[options.ocsp] or not verify) then
        error("option 'ocsp' must be \"check\" or \"require\", and needs 'verify'", 3)
    elseif options.staple ~= nil and (type(options.staple) ~= "string"
        or not options.certificate) then
        error("option 'staple' must be a string, and needs 'certificate'", 3)
    elseif options.resume ~= nil and type(options.resume) ~= "boolean" then
        error("option 'resume' must be true or false", 3)
    end
    if options.names ~= nil then check_named(options.names) end
    -- A server that asks for no certificates need not load the system's authorities.
    local context, message, code = raw.context({
        certificate = options.certificate, key = options.key,
        password = options.password, authorities = options.authorities,
        ciphers = options.ciphers, suites = options.suites, verify = VERIFY[verify],
        revoked = options.revoked, staple = options.staple, ocsp = OCSP[options.ocsp or 0] or 0,
        resumes = options.resume and 1 or 0,
        oldest = version_of(options, "min_version", "1.2"),
        newest = version_of(options, "max_version", "1.3"),
        protocols = protocols_of(options), psk = keys_of(options)}, deadline)
    if not context or not options.names then return context, message, code end
    return add_names(context, options, deadline)
end

local function check_names(options, name, index, also)
    for key in pairs(options) do
        if not CONTEXT[key] and not (also and MORE[key]) then
            error(("bad argument #%d to '%s' (unknown option '%s')"):format(index, name,
                tostring(key)), also and 4 or 3)
        end
    end
end

--- What one side brings along. The timeout is for reading all files. Options:
---   certificate, key          paths of PEM files, or their text (a key also as in `keys.load`);
---                             `password` is that of the key
---   psk                       instead of certificates: keys that both sides have, by identity
---   authorities               a file, a folder or text; without it, those of the system
---   verify                    whether to verify the peer (true)
---   protocols                 for ALPN
---   min_version, max_version  "1.2" and "1.3"
---   ciphers, suites           which ones are allowed
---   revoked                   lists of certificates that the authorities have revoked
---   resume                    whether sessions are resumed
---   staple                    the OCSP response that a server gives: a path, or DER
---   ocsp                      "check" or "require": whether a client wants an OCSP response
---   names                     other certificates of a server, by the name that a client asks for
function tls.context(options, timeout)
    options = options or {}
    if type(options) ~= "table" then
        error("bad argument #1 to 'context' (table expected, got " .. type(options) .. ")", 2)
    end
    check_names(options, "context", 1)
    return make(options, checks.deadline("context", timeout, 2))
end

local usual -- the context of clients without options of their own

-- The context and the other options of an argument, which is a context, a table with or without
-- one, or nil.
local function settle(options, name, index, serves, deadline)
    if type(options) == "userdata" then return options, {} end
    if options ~= nil and type(options) ~= "table" then
        error(("bad argument #%d to '%s' (table or context expected, got %s)"):format(index, name,
            type(options)), 3)
    end
    options = options or {}
    check_names(options, name, index, true)
    if type(options.context) == "userdata" then return options.context, options end
    if options.context ~= nil then error("option 'context' must be made by tls.context", 3) end
    local own, message, code = {}, nil, nil
    for key in pairs(CONTEXT) do own[key] = options[key] end
    if serves and own.verify == nil and not own.psk then own.verify = false end
    if next(own) == nil then
        if not usual then usual, message, code = make(own, deadline) end
        return usual, options, message, code
    end
    local context
    context, message, code = make(own, deadline)
    return context, options, message, code
end

-- Makes the handshake of a stream that has a context. Closes the stream if it fails.
local function begin(stream, context, options, name, deadline)
    local ok, message, code = true, nil, nil
    if not options.server then ok, message, code = raw.trust(context, deadline) end
    if not ok then
        stream:close()
        return nil, message, code
    end
    ok, message, code = raw.secure(stream, context,
        options.handshake_time or tls.handshake_time, options.server, name)
    if ok and options._http2 then raw.offer(stream) end -- for mare.http
    if ok then ok, message, code = stream:handshake(deadline) end
    if ok then return stream end
    stream:close()
    return nil, message, code
end

--- A stream over TLS to a host and port, whose certificate is valid for that name. Options: those
--- of `tls.context`, or a `context`; `name`, if the certificate is for another; `handshake_time`.
function tls.connect(host, port, options, timeout)
    checks.address("connect", host, port)
    local deadline = checks.deadline("connect", timeout, 4)
    local context, more, message, code = settle(options, "connect", 3, false, deadline)
    if not context then return nil, message, code end
    local stream
    stream, message, code = net.connect(host, port, deadline)
    if not stream then return nil, message, code end
    return begin(stream, context, more, more.name or host, deadline)
end

--- Goes on over TLS with a stream that began without. Options as for `tls.connect`; `server` if
--- this side is the server; else a client needs the `name` of the host. If it fails, the stream is
--- closed.
function tls.wrap(stream, options, timeout)
    local serves = type(options) == "table" and options.server
    local deadline = checks.deadline("wrap", timeout, 3)
    local context, more, message, code = settle(options, "wrap", 2, serves, deadline)
    if not context then
        stream:close()
        return nil, message, code
    end
    return begin(stream, context, more, more.name, deadline)
end

--- A listener; the streams that it accepts are over TLS. Options: those of `net.listen` and of
--- `tls.context`, or a `context`; `handshake_time`. The timeout is for the files of the context and
--- the name of the host.
function tls.listen(host, port, options, timeout)
    checks.address("listen", host, port)
    local deadline = checks.deadline("listen", timeout, 4)
    local context, more, message, code = settle(options, "listen", 3, true, deadline)
    if not context then return nil, message, code end
    local listener
    listener, message, code = net.listen(host, port,
        {backlog = more.backlog, shared = more.shared, limit = more.limit}, deadline)
    if not listener then return nil, message, code end
    local ok
    ok, message, code = raw.listen(listener, context, more.handshake_time or tls.handshake_time)
    if ok then return listener end
    listener:close()
    return nil, message, code
end

--- A certificate and its key, as text, for a name or a list of them, signed by that key itself: for
--- tests and for development. Valid for so many days (30).
function tls.selfsigned(names, days)
    if type(names) == "string" then names = {names} end
    if type(names) ~= "table" then
        error("bad argument #1 to 'selfsigned' (string or table expected, got " .. type(names)
            .. ")", 2)
    end
    days = days == nil and 30 or days
    checks.argument("selfsigned", days, 2, "number")
    local certificate, key, code = checks.pass("selfsigned", 1, 3, raw.selfsigned, days,
        table.unpack(names))
    return certificate, key, code
end

return tls
