-- SPDX-License-Identifier: MIT
-- TLS with keys that both sides have from elsewhere, instead of certificates.
local mare, net, t = require "mare", require "mare.net", require "t"
local tls, http = require "mare.tls", require "mare.http"

local HERE, patience = "127.0.0.1", t.patience
tls.handshake_time = patience
local ONE <const>, OTHER <const> = ("1"):rep(32), ("\0\255"):rep(16)
local certificate, certificate_key = assert(tls.selfsigned(HERE))

-- Connects two sides, in memory, and says something. What each knows of the other; or, by side, why
-- not.
local function meet(serving, asking)
    local client, server = net.pair()
    serving.server = true
    local served = mare.go(function()
        local ok, message, code = tls.wrap(server, serving, patience)
        if not ok then return {message, code} end
        server:write(server:read("l", patience), "!\n")
        return server:tls()
    end)
    local ok, message, code = tls.wrap(client, asking, patience)
    local knows = {message, code}
    if ok then
        client:write "hello\n"
        knows = client:tls()
        local line, why, how = client:read("l", patience)
        if line then t.eq(line, "hello!") else knows = {why, how} end
    end
    return select(2, served:join(patience)), knows
end

local NOT_THE_KEY <const> = {"the peer does not have the key", "denied"}

return {
    who_has_the_key_is_believed = function()
        local server, client = meet({psk = {one = ONE}}, {psk = {one = ONE}})
        for _, facts in ipairs {server, client} do
            t.eq({facts.version, facts.verified, facts.identity, facts.peer},
                {"TLSv1.3", true, "one", nil})
            t.ok(facts.cipher:find "SHA256$", facts.cipher)
        end
    end,

    a_server_knows_several = function()
        local keys = {one = ONE, other = OTHER}
        t.eq(meet({psk = keys}, {psk = {other = OTHER}}).identity, "other")
        t.eq(meet({psk = keys}, {psk = {one = ONE}}).identity, "one")
    end,

    -- And cannot tell from it whom the server knows.
    who_has_another_key_or_name_is_not = function()
        local refused = {"the peer refused the key: illegal parameter", "denied"}
        t.eq({meet({psk = {one = ONE}}, {psk = {one = OTHER}})}, {NOT_THE_KEY, refused})
        t.eq({meet({psk = {one = ONE}}, {psk = {two = ONE}})}, {NOT_THE_KEY, refused})
        t.eq({meet({psk = {one = ONE}}, {psk = {one = ONE .. "2"}})}, {NOT_THE_KEY, refused})
    end,

    who_has_none_is_not = function()
        local server, client = meet({psk = {one = ONE}}, {verify = false})
        t.eq(server, NOT_THE_KEY)
        t.eq(client, {"the peer refused: handshake failure", "refused"})
        server, client = meet({psk = {one = ONE}}, {verify = false, max_version = "1.2"})
        t.eq({server[2], client[2]}, {"refused", "refused"})
    end,

    a_certificate_is_no_key = function()
        local server, client = meet({certificate = certificate, key = certificate_key},
            {psk = {one = ONE}, name = HERE})
        t.eq(client, NOT_THE_KEY)
        t.eq(server[2], "denied")
    end,

    a_context_can_be_shared_and_replaced = function()
        local context = assert(tls.context {psk = {one = ONE}})
        local listener <close> = assert(tls.listen(HERE, 0, context))
        mare.go(net.serve, listener, function(stream) stream:write(stream:tls().identity or "") end)
        local host, port = listener:address()
        local function ask(key)
            return mare.spawn(function()
                local other = require "mare.tls"
                other.handshake_time = 60
                local stream <close> = assert(other.connect(host, port, {psk = {one = key}}))
                assert(stream:handshake())
                return stream:read("a", 60)
            end)
        end
        t.eq({ask(ONE):join(patience)}, {true, ""}) -- said before the handshake was over
        context:replace(assert(tls.context {psk = {one = OTHER}}))
        t.eq({ask(OTHER):join(patience)}, {true, ""})
        t.eq((ask(ONE):join(patience)), nil)
    end,

    http_over_it = function()
        local listener <close> = assert(tls.listen(HERE, 0, {psk = {web = ONE}}))
        mare.go(http.serve, listener, function(request) return {body = request.path} end)
        local _, port = listener:address()
        local status, body = http.get {url = ("https://%s:%d/page"):format(HERE, port),
            tls = {psk = {web = ONE}}, timeout = patience}
        t.eq({status, body}, {200, "/page"})
    end,

    misuse = function()
        for _, case in ipairs {
            {"a key is a string of 16 to 256 bytes", {psk = {a = ("x"):rep(15)}}},
            {"a key is a string of 16 to 256 bytes", {psk = {a = ("x"):rep(257)}}},
            {"a key is a string of 16 to 256 bytes", {psk = {a = 12345678901234567890}}},
            {"an identity is a text of 1 to 255 bytes", {psk = {[""] = ONE}}},
            {"an identity is a text of 1 to 255 bytes", {psk = {["a\0b"] = ONE}}},
            {"an identity is a text of 1 to 255 bytes", {psk = {[("x"):rep(256)] = ONE}}},
            {"an identity is a text of 1 to 255 bytes", {psk = {ONE}}},
            {"'psk' must be a table with a key", {psk = {}}},
            {"'psk' must be a table with a key", {psk = ONE}},
            {"'certificate' has no effect with 'psk'", {psk = {a = ONE}, certificate = "x"}},
            {"'verify' has no effect with 'psk'", {psk = {a = ONE}, verify = false}},
            {"'suites' has no effect with 'psk'", {psk = {a = ONE}, suites = "x"}},
            {"'psk' needs TLS 1.3", {psk = {a = ONE}, max_version = "1.2"}},
        } do
            t.raises(case[1], tls.context, case[2])
        end
        local raw = require "mare._tls"
        for _, psk in ipairs {{x = "abc"}, {[""] = ONE}, {x = ("x"):rep(257)},
            {[("x"):rep(300)] = ONE}, {x = ("x"):rep(65536)}} do
            t.fails("invalid", raw.context {oldest = 2, newest = 3, psk = psk})
        end
        for _, psk in ipairs {{ONE}, {x = 5}, {x = {}}, {[mare.self()] = ONE}} do
            t.raises("keys by identity", raw.context, {oldest = 2, newest = 3, psk = psk})
        end
    end,
}
