-- SPDX-License-Identifier: MIT
-- The keys that a node uses and the peers that it believes, by what its files say now: keys may be
-- renewed and revoked while it runs. Part of the process that keeps a node: see _keeper.lua.
local mare, keys, tls = require "mare", require "mare.keys", require "mare.tls"
local secrets = require "mare._secret"

local credentials = {
    context = nil, -- the TLS context for connections that come
    version = 0,   -- how often it was renewed
}

local self, log
local turn = mare.channel(1) -- a lock: the routine that has put a value in may look at the files
local trouble                -- the last problem with the files that was logged

-- Gives the turn back, however the look ends.
local looked = setmetatable({}, {__close = function() turn:receive() end})

local function plain(name) return name:match "^[^+]*" end

local function same(mine, theirs)
    for identity, key in pairs(mine) do
        if not (theirs[identity] and secrets.same(theirs[identity], key)) then return false end
    end
    return true
end

-- Reads the files: options of mare.tls if there is something new, false if not; or nil and why they
-- cannot be used.
local function read()
    local made, message
    if self.secret then
        made, message = keys.secrets(self.secret)
        if not made then return nil, message end
        local options = {psk = made, min_version = "1.3"}
        if not (same(made, self.tls.psk) and same(self.tls.psk, made)) then return options end
        keys._forget(options)
        return false
    end
    made, message = keys._differ(self.keys, plain(self.name), self.tls)
    if not made then return made, message end
    return keys.load(self.keys, plain(self.name))
end

-- The context for options. It has the private key from now on, and nothing else does. (Secrets that
-- are shared are still compared with those in the file.)
local function context_of(options)
    local context, message, code = tls.context(options)
    if options.key then keys._forget(options) end
    return context, message, code
end

function credentials.begin(options, writes)
    self, log = options, writes
    if not self.tls then return true end
    local message, code
    credentials.context, message, code = context_of(self.tls)
    if not credentials.context then return nil, message, code end
    return true
end

--- Uses what the files say now: true if that is new. Files that cannot be used change nothing: one
--- may be half written.
function credentials.renew()
    if not self.tls then return false end
    turn:send(true)
    local _ <close> = looked
    local made, message = read()
    local context
    if made then context, message = context_of(made) end
    if context then
        credentials.context:replace(context)
        secrets.forget(context)
        keys._forget(self.tls)
        self.tls, credentials.version = made, credentials.version + 1
    end
    local why = made ~= false and not context and message or nil
    if why and why ~= trouble then log("what was loaded before counts: %s", why) end
    trouble = why
    return context ~= nil
end

--- What is wrong with a peer's certificate by now; nil: nothing, or it uses a secret instead.
function credentials.doubt(certificate)
    if not certificate or self.tls.psk then return nil end
    local ok, message = keys._vouch(certificate, self.tls.authorities)
    return not ok and message or nil
end

return credentials
