-- SPDX-License-Identifier: MIT
-- TLS: sessions that are resumed, and ciphers without options.
local mare, net, t = require "mare", require "mare.net", require "t"
local tls, child = require "mare.tls", require "mare.child"
local HERE, patience = "127.0.0.1", t.patience
tls.handshake_time = patience
local certificate, key = assert(tls.selfsigned({"localhost", HERE}))

-- Echoes lines with these options until its scope ends; whether each session was resumed is in
-- `seen`.
local function serving(options)
    options.certificate, options.key = options.certificate or certificate, options.key or key
    local context = assert(tls.context(options))
    local listener = assert(tls.listen(HERE, 0, {context = context}))
    local seen = mare.channel(100)
    mare.go(net.serve, listener, function(stream)
        local line = stream:read("l", patience)
        seen:send(stream:tls().resumed)
        if line then stream:write(line, "!\n") end
    end)
    local _, port = listener:address()
    return setmetatable({port = port, seen = seen, context = context},
        {__close = function() listener:close() end})
end

-- What was agreed on, by a client with a context; both sides say the same of whether it is resumed.
local function visit(server, context, name)
    local stream <close>, message, code = tls.connect(HERE, server.port,
        {context = context, name = name}, patience)
    if not stream then return nil, message, code end
    assert(stream:write "hello\n")
    t.eq(stream:read("l", patience), "hello!")
    local facts = stream:tls()
    t.eq(server.seen:receive(patience), facts.resumed)
    return facts
end

return {
    sessions_are_resumed_where_both_sides_want_it = function()
        for _, version in ipairs {"1.2", "1.3"} do
            local server <close> = serving {resume = true, max_version = version}
            local client = assert(tls.context {authorities = certificate, resume = true})
            t.eq(visit(server, client).resumed, false)
            for _ = 1, 3 do
                local facts = visit(server, client)
                t.eq({facts.resumed, facts.verified, facts.peer.subject}, {true, true,
                    facts.peer.subject}, version)
            end
            t.eq(visit(server, client, "localhost").resumed, false) -- verified for another name
            t.eq(visit(server, client, "localhost").resumed, true)
            local plain = assert(tls.context {authorities = certificate})
            for _ = 1, 2 do t.eq(visit(server, plain).resumed, false) end
            local other = assert(tls.context {authorities = certificate, resume = true})
            t.eq(visit(server, other).resumed, false)
        end
        local server <close> = serving {}
        local client = assert(tls.context {authorities = certificate, resume = true})
        for _ = 1, 2 do t.eq(visit(server, client).resumed, false) end
    end,

    a_new_context_resumes_nothing_of_the_old_one = function()
        local server <close> = serving {resume = true}
        local client = assert(tls.context {authorities = certificate, resume = true})
        visit(server, client)
        t.eq(visit(server, client).resumed, true)
        server.context:replace(assert(tls.context {certificate = certificate, key = key,
            resume = true}))
        t.eq(visit(server, client).resumed, false)
        t.eq(visit(server, client).resumed, true)
        client:replace(assert(tls.context {authorities = certificate, resume = true}))
        t.eq(visit(server, client).resumed, false)
        local strict = assert(tls.context {resume = true}) -- the system's authorities: not ours
        client:replace(strict)
        t.fails("denied", visit(server, client))
    end,

    who_must_show_a_certificate_shows_it_each_time = function()
        local server <close> = serving {resume = true, verify = "require",
            authorities = certificate}
        local client = assert(tls.context {authorities = certificate, resume = true,
            certificate = certificate, key = key})
        for _ = 1, 3 do t.eq(visit(server, client).resumed, false) end
        local stranger = assert(tls.context {authorities = certificate, resume = true})
        local stream <close> = tls.connect(HERE, server.port, stranger, patience)
        if stream then t.fails("denied", stream:read("l", patience)) end
    end,

    many_hosts_do_not_fill_memory = function()
        local many, its_key = assert(tls.selfsigned "*.example.org")
        local server <close> = serving {certificate = many, key = its_key, resume = true}
        local client = assert(tls.context {authorities = many, resume = true})
        for i = 1, 65 do visit(server, client, ("h%d.example.org"):format(i)) end
        t.eq(visit(server, client, "h65.example.org").resumed, true)
        t.eq(visit(server, client, "h1.example.org").resumed, false) -- forgotten
    end,

    only_ciphers_as_good_as_those_of_1_3_are_allowed = function()
        local server <close> = serving {}
        local function cipher(list)
            local context = assert(tls.context {authorities = certificate, max_version = "1.2",
                ciphers = list})
            local facts, message, code = visit(server, context)
            return facts and facts.cipher, message, code
        end
        t.ok(cipher():find "GCM")
        t.eq(cipher "ECDHE-ECDSA-CHACHA20-POLY1305", "ECDHE-ECDSA-CHACHA20-POLY1305")
        t.fails("refused", cipher "ECDHE-ECDSA-AES128-SHA256")
        t.fails("refused", cipher "ECDHE-ECDSA-AES256-SHA")
        local old <close> = serving {ciphers = "ECDHE-ECDSA-AES128-SHA256", max_version = "1.2"}
        t.fails("refused", visit(old, assert(tls.context {authorities = certificate})))
    end,

    openssl_resumes_with_ours = function()
        local server <close> = serving {resume = true}
        local session = os.tmpname()
        local function connect(how)
            local done = assert(child.run {"openssl", "s_client", "-connect", HERE .. ":"
                .. server.port, "-quiet", how, session, input = "hello\n", timeout = patience})
            t.ok(done.out:find "hello!", done.err)
            return server.seen:receive(patience)
        end
        t.eq(connect "-sess_out", false)
        t.eq(connect "-sess_in", true)
        os.remove(session)
    end,

    options_are_checked = function()
        t.raises("option 'resume' must be true or false", tls.context, {resume = 1})
        t.raises("'resume' has no effect with 'psk'", tls.context, {resume = true,
            psk = {a = ("x"):rep(32)}})
    end,
}
