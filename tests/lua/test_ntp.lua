-- SPDX-License-Identifier: MIT
-- NTP live over loopback: asking, following, serving, and servers that are not what they seem. Both
-- ends read the same clock, so an offset is all error. What chronyd thinks of it is asked in
-- tests/e2e.
local mare, net, t = require "mare", require "mare.net", require "t"
local ntp, time = require "mare.ntp", require "mare.time"
local sockets = require "sockets".count

local HERE, SECOND = "127.0.0.1", 1000000000
local KEY = {id = 7, secret = "sixteen letters!"}
local OTHER = {id = 7, secret = "sixteen numbers!"}

-- Quick questions. A test that wants no answer waits a little, one that wants one is patient.
local PATIENT = {samples = 4, interval = 0.001, wait = t.patience}
local BRIEF = {samples = 2, interval = 0.001, wait = 0.05}

local function with(options, more)
    local all = {}
    for name, value in pairs(options) do all[name] = value end
    for name, value in pairs(more) do all[name] = value end
    return all
end

-- Asks once, for longer each time until `enough` likes what `ntp.query` returns: where one who is
-- silent is waited for to the end, others may need more than a moment to be heard.
local function at_length(servers, options, enough)
    local wait, got = 0.1
    repeat
        got = table.pack(ntp.query(servers, with({samples = 1, wait = wait}, options)))
        wait = wait * 4
    until enough(table.unpack(got, 1, got.n)) or wait > t.patience
    return table.unpack(got, 1, got.n)
end

-- Whether the first server has sent anything at all.
local function was_heard(_, _, _, view) return next(view.servers[1].packets) ~= nil end

-- A good answer to a question at some time, with changes.
local function reply(question, utc, changes)
    return time.encode(with({
        mode = 4, stratum = 2, precision = -20, root_dispersion = 66, reference_id = 0x7f000001,
        reference = time.stamp(utc - 10 * SECOND), origin = question.transmit,
        receive = time.stamp(utc), transmit = time.stamp(utc),
    }, changes or {}))
end

-- Keeps the turn for so many seconds.
local function spin(seconds)
    local over = mare.now() + seconds
    while mare.now() < over do end
end

-- A server that answers as `answer(question, utc, send)` says: bytes, or nil.
local function fake(answer)
    local socket = assert(net.udp(HERE))
    local server = {asked = 0, name = HERE .. ":" .. select(2, socket:address()), socket = socket}
    mare.go(function()
        for data, host, port in function() return socket:receive() end do
            server.asked = server.asked + 1
            local bytes = answer(time.decode(data), (select(2, time.now())), function(now)
                socket:send(now, host, port)
            end)
            if bytes then socket:send(bytes, host, port) end
        end
    end)
    function server.close() socket:close() end
    return setmetatable(server, {__close = server.close})
end

-- One of ours, running.
local function serve(options)
    local server = assert(ntp.server(with({host = HERE, port = 0}, options or {})))
    mare.go(server.run, server)
    return server, HERE .. ":" .. select(2, server:address())
end

-- Follows servers until `condition`.
local function following(servers, options, condition)
    local follower = ntp.follower(servers, with({interval = 0.005, wait = t.patience}, options))
    local routine = mare.go(follower.run, follower)
    local deadline = mare.deadline(t.patience)
    while not condition(follower) do
        t.ok(deadline:left() > 0, "not reached in time")
        mare.sleep(0.005)
    end
    return follower, routine
end

-- Calls f while names have these addresses, and sockets are what `change` makes of them.
local function where(addresses, change, f)
    local resolve, udp = net.resolve, net.udp
    local _ <close> = setmetatable({}, {__close = function()
        net.resolve, net.udp = resolve, udp
    end})
    if addresses then net.resolve = function() return addresses end end
    if change then net.udp = function(...) return change(assert(udp(...))) end end
    return f()
end

-- A socket on which nonsense comes without end; that is, until it is clear that all is read.
local function flooded(socket)
    local over = mare.deadline(t.patience)
    return setmetatable({receive = function()
        if over:left() == 0 then return nil, "it reads for ever", "io" end
        return "nonsense", HERE, 1
    end}, {__index = function(_, name)
        return function(_, ...) return socket[name](socket, ...) end
    end})
end

local function is_set(follower) return select(2, follower:read()) ~= nil end

-- A server that follows one which begins at `utc` and announces a leap second; with `once` that
-- one answers a single question. Returns both, and the follower.
local function relay(utc, leap, once)
    local began = time.now()
    local upstream
    upstream = fake(function(q)
        if upstream.asked > 1 and once then return nil end
        return reply(q, utc + time.now() - began, {leap = leap})
    end)
    local follower = following(upstream.name, {}, is_set)
    return upstream, (serve {follow = follower}), follower
end

-- What a server tells of itself: the leap indicator, and the error bound in seconds.
local function told_by(server)
    local socket <close> = assert(net.udp(HERE))
    socket:send(time.encode {transmit = 42}, server:address())
    local packet = assert(time.decode(assert(socket:receive(t.patience))))
    return packet.leap, (packet.root_dispersion + packet.root_delay / 2) / 65536
end

local function noon(year, month, day)
    return os.time {year = year, month = month, day = day, hour = 12} * SECOND
end

return {
    -- Asking.

    our_client_asks_our_server = function()
        local server <close>, name = serve {stratum = 3, error = 1000000}
        local said = assert(ntp.query(name, PATIENT))
        t.ok(math.abs(said.offset) <= said.error, t.show(said))
        t.ok(said.error >= 1000000) -- the server's own is in it
        t.eq({said.stratum, said.server, said.leap}, {3, name, 0})
        local one = said.servers[1]
        t.eq({one.server, one.samples, one.survivor}, {name, 4, true})
        t.eq(one.packets, {taken = 4})
        t.eq(server.answered, 4)
    end,

    a_liar_is_found_out = function()
        local liar <close> = fake(function(q, utc) return reply(q, utc + 5 * SECOND) end)
        local a <close>, first = serve {stratum = 2}
        local b <close>, second = serve {stratum = 3}
        local said = assert(ntp.query({liar.name, first, second}, PATIENT))
        t.ok(math.abs(said.offset) <= said.error)
        t.ok(said.offset < SECOND)
        t.eq({said.servers[1].outlier, said.servers[2].outlier}, {true, nil})
        t.ok(said.servers[1].offset > 4 * SECOND)
        t.ok(a.answered > 0 and b.answered > 0)
        t.fails("invalid", ntp.query({liar.name, first}, PATIENT)) -- whom to believe?
    end,

    answers_to_other_questions_are_not_taken = function()
        local forger <close> = fake(function(q, utc) return reply(q, utc, {origin = 17}) end)
        local _, message, code, view = at_length(forger.name, {}, was_heard)
        t.eq({code, message}, {"timeout", forger.name .. ": bogus"})
        t.eq(view.servers[1].packets, {bogus = 1})
    end,

    a_server_that_is_not_synchronised_is_not_believed = function()
        for _, changes in ipairs {{stratum = 16}, {leap = 3}} do
            local lost <close> = fake(function(q, utc) return reply(q, utc, changes) end)
            local _, _, code, view = ntp.query(lost.name, PATIENT)
            t.eq({code, view.servers[1].why}, {"timeout", "unfit"})
        end
    end,

    who_is_told_to_go_away_goes = function()
        local core = time.server {stratum = 2}
        for _, kiss in ipairs {"DENY", "RATE"} do
            local rude <close> = fake(function(q) return core:refuse(time.encode(q), kiss) end)
            local began = mare.now()
            local _, _, code, view = ntp.query(rude.name, with(PATIENT, {samples = 2}))
            t.eq(view.servers[1].why, "kiss " .. kiss)
            t.eq(view.servers[1].kiss, kiss)
            -- Once, then never, or after two seconds, for which the machine may have stood still.
            local most = kiss == "DENY" and 1 or 1 + (mare.now() - began) // 2
            t.ok(rude.asked >= 1 and rude.asked <= most, kiss .. ": " .. rude.asked)
            t.eq(code, "refused")
        end
    end,

    with_a_key_only_who_knows_it_is_believed = function()
        local server <close>, name = serve {keys = {KEY}}
        local said = assert(ntp.query(name, with(PATIENT, {key = KEY})))
        t.ok(math.abs(said.offset) <= said.error)
        t.ok(ntp.query(name, PATIENT)) -- who wants none needs none
        local before = server.answered
        t.fails("timeout", ntp.query(name, with(BRIEF, {key = OTHER})))
        t.eq(server.answered, before) -- a wrong MAC deserves no answer
        local plain <close>, unsigned = serve()
        local _, _, code, view = ntp.query(unsigned, with(BRIEF, {key = KEY}))
        t.eq({code, view.servers[1].packets.taken}, {"timeout", nil})
        t.eq(plain.answered, 0)
        local forger <close> = fake(function(q, utc) return reply(q, utc) end)
        local seen = select(4, at_length(forger.name, {key = KEY}, was_heard))
        t.eq(seen.servers[1].why, "forged")
    end,

    a_server_may_want_a_key_of_everybody = function()
        local server <close>, name = serve {keys = {OTHER, {id = 9, secret = KEY.secret}},
            authenticated = true}
        t.fails("timeout", ntp.query(name, BRIEF))
        t.eq(server.answered, 0)
        t.ok(ntp.query(name, with(PATIENT, {key = {id = 9, secret = KEY.secret}})))
    end,

    who_does_not_answer_is_not_waited_for_longer_than_that = function()
        local silent <close> = fake(function() end)
        local good <close>, name = serve()
        local began = mare.now()
        local _, message, code = ntp.query(silent.name, with(BRIEF, {samples = 100}))
        t.eq({code, message}, {"timeout", silent.name .. ": no answer"})
        t.reaches(function() return silent.asked >= 2 end)
        t.eq(silent.asked, 2) -- silent twice: not worth more
        t.fails("timeout", ntp.query(silent.name, {wait = 1000}, 0.05)) -- all of it
        t.fails("timeout", ntp.query(silent.name, {wait = 1000}, mare.deadline(0.05)))
        local said = assert(ntp.query({silent.name, name}, with(PATIENT, {wait = 0.3, liars = 0})))
        t.eq({said.servers[1].why, said.server}, {"no answer", name})
        t.ok(mare.now() - began < 100)
        t.ok(good.answered > 0)
    end,

    of_three_or_five_one_may_be_silent = function()
        local silent <close> = fake(function() end)
        local liar <close> = fake(function(q, now) return reply(q, now + 1000 * SECOND) end)
        local gone = assert(net.udp(HERE)) -- as silent, but at once
        local nobody = {name = HERE .. ":" .. select(2, gone:address())}
        gone:close()
        local good = {}
        for i = 1, 4 do good[i] = fake(function(q, now) return reply(q, now) end) end
        local function ask(more, ...)
            local names = {}
            for i, one in ipairs {...} do names[i] = one.name end
            return ntp.query(names, with({samples = 1, wait = t.patience}, more))
        end
        local said = assert(at_length({good[1].name, silent.name, good[2].name}, {},
            function(found) return found end))
        t.ok(math.abs(said.offset) <= said.error)
        t.eq({said.servers[2].why, said.servers[1].why}, {"no answer"})
        said = assert(ask({}, good[1], nobody, good[2], good[3], liar))
        t.ok(math.abs(said.offset) <= said.error)
        t.eq(said.servers[5].outlier, true)
        -- One of three is no majority; two that do not agree are none either.
        t.fails("invalid", ask({}, good[1], nobody, nobody))
        t.fails("invalid", ask({}, good[1], nobody, liar))
        -- Who trusts them says so.
        t.ok(ask({liars = 0}, good[1], nobody, nobody))
        t.fails("invalid", ask({liars = 2}, good[1], good[2], nobody))
        for _, one in ipairs(good) do one.close() end
    end,

    an_asker_goes_on_asking = function()
        local _ <close>, name = serve()
        local asker <close> = ntp.asker(name, {wait = t.patience})
        for round = 1, 10 do
            local said = assert(asker:ask())
            t.eq(said.servers[1].samples, math.min(round, 8))
            t.ok(math.abs(said.offset) <= said.error)
        end
        local silent <close> = fake(function() end)
        local other <close> = ntp.asker({silent.name}, {wait = t.patience})
        local _, message, code, view = other:ask(0.01)
        t.eq({code, view.servers[1].why}, {"timeout", "no answer"})
        t.ok(message:find "no answer")
        local routine = mare.go(other.ask, other)
        mare.yield()
        routine:cancel()
        t.fails("cancelled", select(2, routine:join(t.patience)))
    end,

    a_server_tells_of_its_answers = function()
        local told = {}
        local server <close>, name = serve {stratum = 4, told = function(host, port, bytes)
            told[#told + 1] = {host, port > 0, time.decode(bytes).stratum}
        end}
        assert(ntp.query(name, with(PATIENT, {samples = 2})))
        t.eq(told, {{HERE, true, 4}, {HERE, true, 4}})
        t.eq(server.answered, 2)
    end,

    who_sends_nonsense_without_end_is_not_listened_to_for_ever = function()
        local silent <close> = fake(function() end)
        where(nil, flooded, function()
            t.fails("timeout", ntp.query(silent.name, {samples = 1, wait = 0.02}))
            t.fails("timeout", ntp.query(silent.name, {wait = 1000}, 0.02))
        end)
    end,

    where_nobody_is_the_next_address_of_a_name_is_asked = function()
        local server <close> = serve()
        local name = "localhost:" .. select(2, server:address())
        where({"127.0.0.2", HERE}, nil, function()
            t.eq(assert(ntp.query(name, PATIENT)).server, name)
        end)
    end,

    nobody_there_and_no_such_name_are_told_apart = function()
        local gone = assert(net.udp(HERE))
        local port = select(2, gone:address())
        gone:close()
        t.fails("refused", ntp.query(HERE .. ":" .. port, PATIENT))
        t.fails("noname", ntp.query("a..b", PATIENT))
        local server <close>, name = serve()
        local said = assert(ntp.query({"a..b", name}, with(PATIENT, {liars = 0})))
        t.ok(said.servers[1].why:find "resolve", said.servers[1].why)
        t.eq(said.server, name)
        t.ok(server.answered > 0)
    end,

    asking_can_be_cancelled_and_leaves_nothing = function()
        local silent <close> = fake(function() end)
        local before = sockets()
        for _, servers in ipairs {{silent.name}, {silent.name, silent.name, "localhost:9"}} do
            local routine = mare.go(ntp.query, servers, {wait = 1000})
            t.reaches(function() return silent.asked > 0 end)
            routine:cancel()
            t.fails("cancelled", select(2, routine:join(t.patience)))
            silent.asked = 0
        end
        local asks, name = mare.channel(), silent.name
        local process = mare.spawn(function()
            mare.go(function() asks:send(true) end)
            require "mare.ntp".query(name, {wait = 1000})
        end)
        t.eq(asks:receive(t.patience), true)
        process:kill()
        t.fails("killed", process:join(t.patience))
        t.reaches(function() return sockets() <= before end, "sockets are left")
    end,

    six_as_four = function()
        local server, _, code = ntp.server {host = "::1", port = 0}
        if not server then t.skip("no IPv6 on this machine: " .. code) end
        mare.go(server.run, server)
        local name = "[::1]:" .. select(2, server:address())
        local said = assert(ntp.query(name, PATIENT))
        t.ok(math.abs(said.offset) <= said.error)
        local follower <close> = following(name, {}, is_set)
        t.eq(follower.reference_id, 1) -- the end of its address
        server:close()
    end,

    others_go_on_while_one_asks = function()
        local silent <close> = fake(function() end)
        local ticks, over = 0, false
        mare.go(function()
            while not over do
                mare.sleep(0.001)
                ticks = ticks + 1
            end
        end)
        ntp.query(silent.name, BRIEF)
        over = true
        t.ok(ticks > 0)
    end,

    it_does_not_matter_how_late_an_answer_is_read = function()
        local delay
        local busy <close> = fake(function(q, utc, reply_to)
            reply_to(reply(q, utc))
            spin(0.05) -- nobody else has a turn meanwhile: the answer lies there
        end)
        local deadline = mare.deadline(t.patience)
        repeat -- the system, too, may have let it lie
            delay = assert(ntp.query(busy.name, with(PATIENT, {samples = 1}))).delay
        until delay < SECOND // 100 or deadline:left() == 0
        t.ok(delay < SECOND // 100, delay .. " ns") -- else half of what it lay, at the least
    end,

    it_does_not_matter_how_late_a_question_is_read = function()
        local server <close> = serve()
        local socket <close> = assert(net.udp(HERE))
        local deadline = mare.deadline(t.patience)
        local lay
        repeat -- right after it was told to, the kernel may not note it yet
            socket:send(time.encode {transmit = 42}, server:address())
            spin(0.05)
            local said = time.decode(assert(socket:receive(deadline)))
            lay = time.unstamp(said.transmit, 0) - time.unstamp(said.receive, 0)
        until lay >= SECOND // 25 or deadline:left() == 0
        t.ok(lay >= SECOND // 25, lay .. " ns")
    end,

    -- Following.

    a_follower_is_set_by_its_servers = function()
        local server <close>, name = serve {stratum = 3, error = 1000000}
        local fresh = ntp.follower(name)
        t.eq(select(2, fresh:read()), nil) -- nothing is known
        t.eq(fresh.stratum, 16)
        fresh:close()
        local follower, routine = following({name, name}, {}, is_set)
        local last = 0
        for _ = 1, 100 do
            local before = select(2, time.now())
            local now, bound = follower:read()
            local after = select(2, time.now())
            t.ok(now >= last)
            t.ok(now >= before - bound and now <= after + bound, "out of its bound")
            last = now
        end
        t.eq({follower.stratum, follower.reference_id}, {4, 0x7f000001})
        t.eq(follower:look().server, name)
        t.eq(follower:close(), true)
        t.fails("closed", select(2, routine:join(t.patience)))
        t.ok(server.answered > 0)
    end,

    who_follows_one_that_falls_silent_says_so = function()
        local answers = true
        local server <close> = fake(function(q, utc) return answers and reply(q, utc) or nil end)
        -- It waits long enough for an answer not to be late, and be taken for one to another.
        local follower <close> = following(server.name, {wait = 0.5}, is_set)
        t.reaches(function() mare.sleep(0.01) return follower.stratum == 3 end)
        answers = false
        t.reaches(function() mare.sleep(0.01) return follower.stratum == 16 end)
        t.ok(select(2, follower:read())) -- it goes on by itself
        t.eq(follower:look().servers[1].why, "no answer") -- however many came before
        answers = true
        t.reaches(function() mare.sleep(0.01) return follower.stratum == 3 end)
    end,

    an_address_that_is_silent_for_long_is_given_up = function()
        local server <close> = serve {stratum = 3}
        local _, port = server:address()
        local silent <close> = assert(net.udp("127.0.0.2", port))
        where({"127.0.0.2", HERE}, nil, function()
            -- The first is asked eight times; an answer of the second may come late a few times.
            local follower <close> = following("localhost:" .. port, {wait = 0.05}, is_set)
            t.eq(follower.reference_id, 0x7f000001)
        end)
        for _ = 1, 8 do t.ok(silent:receive(0)) end
    end,

    who_was_asked_for_patience_keeps_it = function()
        local core = time.server {stratum = 2}
        local busy
        busy = fake(function(q, utc)
            return busy.asked == 1 and core:refuse(time.encode(q), "RATE") or reply(q, utc)
        end)
        local follower <close> = following(busy.name, {}, function(one)
            return one.servers[1].client:status().kiss
        end)
        local began = mare.now()
        follower.servers[1].rest = math.mininteger -- as if two seconds had passed
        t.reaches(function() mare.sleep(0.005) return is_set(follower) end)
        mare.sleep(0.05) -- time for ten questions at the old pace
        t.ok(busy.asked <= 2 + (mare.now() - began) // 2, busy.asked) -- one each two seconds
        busy:close()
    end,

    a_follower_can_be_cancelled = function()
        local server <close>, name = serve()
        local before = sockets()
        local follower, routine = following({name, name}, {}, is_set)
        routine:cancel()
        t.fails("cancelled", select(2, routine:join(t.patience)))
        follower:close()
        t.reaches(function() return sockets() <= before end, "sockets are left")
        t.ok(server.answered > 0)
    end,

    -- Serving.

    a_server_that_follows_is_one_stratum_below = function()
        local server <close>, name = serve {stratum = 3, error = 1000000}
        local unset <close> = ntp.follower(name)
        local lost <close>, nowhere = serve {follow = unset}
        t.eq(select(4, ntp.query(nowhere, PATIENT)).servers[1].why, "unfit") -- not synchronised
        t.ok(lost.answered > 0)
        local follower <close> = following(name, {}, is_set)
        local second <close>, its = serve {follow = follower}
        local said = assert(ntp.query(its, PATIENT))
        t.eq(said.stratum, 4)
        t.eq(said.servers[1].reference_id, 0x7f000001)
        t.ok(math.abs(said.offset) <= said.error)
        t.ok(said.error > 1000000)
        t.ok(server.answered > 0 and second.answered > 0)
    end,

    leap_seconds_are_announced = function()
        -- The table of leap seconds ends on 28 June 2027: later nobody knows of one but by
        -- announcement. The day, what upstream announces, what is announced.
        for i, case in ipairs {
            {noon(2028, 6, 30), 1, 1}, {noon(2028, 6, 30), 2, 2}, {noon(2028, 6, 30), 0, 0},
            {noon(2026, 12, 31), 0, 0}, -- the table knows that none comes
            {noon(2016, 12, 31), 0, 1}, -- and of this one
        } do
            local utc, announced, expected = table.unpack(case)
            local upstream, server, follower = relay(utc, announced)
            t.eq((told_by(server)), expected, i)
            for _, one in ipairs {upstream, server, follower} do one:close() end
        end
    end,

    a_second_that_may_have_come_is_allowed_for = function()
        -- Whom the servers follow answers once, a little more than a second before the day ends,
        -- and never again.
        local almost = 43200 * SECOND - 3 * SECOND // 2
        local days, servers = {
            {noon(2028, 6, 30), 1, true}, -- it was announced
            {noon(2028, 6, 30), 0, true}, -- it is a month's end: it may have come unannounced
            {noon(2028, 6, 15), 0, false},
            {noon(2028, 6, 15), 1, true},
            {noon(2026, 12, 31), 0, false}, -- the table knows that none came
        }, {}
        for i, day in ipairs(days) do
            servers[i] = {relay(day[1] + almost, day[2], true)}
            day.before = select(2, told_by(servers[i][2]))
        end
        for i, day in ipairs(days) do
            local follower = servers[i][3]
            t.reaches(function()
                mare.sleep(0.01)
                return (follower:read()) > day[1] + 43200 * SECOND
            end)
            local leap, bound = told_by(servers[i][2])
            t.eq(leap, 0, i) -- that is over
            if day[3] then
                t.ok(bound >= 1, ("case %d: %s s"):format(i, bound))
            else
                t.ok(bound - day.before < 0.5, ("case %d: %s s"):format(i, bound))
            end
            for _, one in ipairs(servers[i]) do one:close() end
        end
    end,

    a_closed_server_ends = function()
        local server = assert(ntp.server {host = HERE, port = 0})
        local routine = mare.go(server.run, server)
        local _, port = server:address()
        t.fails("exists", ntp.server {host = HERE, port = port})
        t.eq({server:close(), server:close()}, {true, false})
        t.fails("closed", select(2, routine:join(t.patience)))
        local second <close> = assert(ntp.server {host = HERE, port = port})
        routine = mare.go(second.run, second)
        t.fails("timeout", routine:join(0.01))
        routine:cancel()
        t.fails("cancelled", select(2, routine:join(t.patience)))
    end,

    nonsense_gets_no_answer_and_does_no_harm = function()
        local server <close>, name = serve()
        local socket <close> = assert(net.udp(HERE))
        local _, port = server:address()
        for _, text in ipairs {"", "x", ("\0"):rep(48), ("\255"):rep(68), ("x"):rep(60000)} do
            socket:send(text, HERE, port)
        end
        t.ok(ntp.query(name, PATIENT))
        t.fails("timeout", socket:receive(0))
    end,

    -- Keys and misuse.

    keys_are_read_as_chronyd_has_them = function()
        local path = os.tmpname()
        local function keys(text)
            local file = assert(io.open(path, "w"))
            file:write(text)
            file:close()
            return ntp.keys(path)
        end
        t.eq(keys("# keys\n\n3 SHA1 HEX:00\n 7 AES128 HEX:000102030405060708090a0B0c0D0e0f\n"
            .. "9 AES128 ASCII:sixteen-letters!\r\n11 AES128 sixteen_letters!\n"), {
            [7] = {id = 7, secret = "\0\1\2\3\4\5\6\7\8\9\10\11\12\13\14\15"},
            [9] = {id = 9, secret = "sixteen-letters!"},
            [11] = {id = 11, secret = "sixteen_letters!"},
        })
        local function fails(code, message, ...)
            t.fails(code, ...)
            t.ok(select(2, ...):find(message, 1, true), select(2, ...))
        end
        -- One of a kind that cannot be used is called that, and not a key that is not there.
        t.ok(keys "\n3 SHA1 HEX:00\n4 some_secret\n7 AES128 ASCII:sixteen-letters!\n")
        t.eq(ntp.keys(path, 7), {id = 7, secret = "sixteen-letters!"})
        fails("invalid", "is of the kind SHA1; only AES128", ntp.keys(path, 3))
        fails("invalid", "is of the kind MD5; only AES128", ntp.keys(path, 4))
        fails("invalid", "there is no key 5", ntp.keys(path, 5))
        fails("badmsg", ":2: a key is NUMBER", keys "# keys\nseven AES128 x\n")
        fails("badmsg", ":1: key 7 is not of 16 bytes", keys "7 AES128 HEX:0001\n")
        t.fails("badmsg", keys "7 AES128 HEX:xx0102030405060708090a0b0c0d0e0f\n")
        t.fails("badmsg", keys "7 AES128 ASCII:short\n")
        os.remove(path)
        t.fails("io", ntp.keys(path))
        t.fails("io", ntp.keys "/")
    end,

    -- Words.

    an_offset_is_as_fine_as_its_bound = function()
        local span = require "mare._clock_words".span
        for _, case in ipairs {
            {"0 ns", 0}, {"999 ns", 999}, {"1 us", 1000}, {"12.3 us", 12345}, {"2.03 ms", 2034000},
            {"100 ms", 100000000}, {"16 s", 16 * SECOND}, {"1234 s", 1234 * SECOND},
            {"+5 ns", 5, true}, {"-1.5 ms", -1500000, true},
            {"-3.00001 s", -3 * SECOND - 12345, true, 1040000}, -- a bound of 1.04 ms
            {"+600.00000 s", 600 * SECOND, true, 1070000},
            {"3.0000000 s", 3 * SECOND, false, 12800}, -- 12.8 us
            {"3.000000012 s", 3 * SECOND + 12, false, 7}, -- never finer than is known
            {"-4.77 us", -4770, true, 12800}, {"7.00 us", 7000, false, 543000000},
            {"+359 ns", 359, true, 100000000}, {"2.034 ms", 2034000, false, 100000},
        } do
            t.eq(span(case[2], case[3], case[4]), case[1])
        end
    end,

    misuse_is_told = function()
        t.raises("#1 to 'query'", ntp.query)
        t.raises("#1 to 'query'", ntp.query, {})
        t.raises("HOST:PORT", ntp.query, "[::1")
        t.raises("65535", ntp.query, "localhost:65536")
        t.raises("nobody is at port 0", ntp.query, "localhost:0")
        t.raises("253", ntp.query, ("x"):rep(254))
        t.raises("table expected", ntp.query, HERE, 5)
        t.raises("#1 to 'follower'", ntp.follower, {5})
        t.raises("table expected", ntp.server, 5)
    end,

    wrong_options_are_refused_in_the_line_of_who_gave_them = function()
        local function refused(index, what, f)
            t.raises("test_ntp.lua:%d+: bad argument #" .. index .. " to '%l+' %(" .. what, f)
        end
        refused(2, "unknown option 'colour'", function() ntp.query(HERE, {colour = 1}) end)
        refused(2, "unknown option 'samples'", function() ntp.follower(HERE, {samples = 1}) end)
        refused(1, "unknown option '1'", function() ntp.server {HERE} end)
        refused(2, "unknown option 'wiat'", function() ntp.asker(HERE, {wiat = 1}) end)
        for _, wrong in ipairs {{samples = 0}, {samples = "many"}, {interval = -1}, {wait = 0},
            {liars = -1}, {liars = 0.5}, {drift = "x"}, {drift = -1}} do
            local option = next(wrong)
            local must = ("option '%s' must be"):format(option)
            refused(2, must, function() ntp.query(HERE, wrong) end)
            refused(2, must, function() ntp.asker(HERE, wrong) end)
        end
        refused(2, "a key must have a `secret`", function()
            ntp.query(HERE, {key = {id = 1}})
        end)
        refused(2, "a key must have a `secret`, a string of 16 bytes", function()
            ntp.follower(HERE, {key = {id = 1, secret = "short"}})
        end)
        refused(2, "a key must be a table, not a string", function()
            ntp.asker(HERE, {key = "sixteen-letters!"})
        end)
        refused(2, "option 'interval'", function() ntp.follower(HERE, {interval = 0}) end)
        refused(2, "option 'slew'", function() ntp.follower(HERE, {slew = 0}) end)
        refused(1, "option 'stratum'", function() ntp.server {port = 0, stratum = 17} end)
        refused(1, "option 'follow' must be a follower", function() ntp.server {follow = {}} end)
        refused(1, "option 'told'", function() ntp.server {told = 1} end)
        refused(1, "option 'error'", function() ntp.server {error = -1} end)
        refused(1, "a key must be", function() ntp.server {port = 0, keys = {5}} end)
    end,
}
