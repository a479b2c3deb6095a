-- SPDX-License-Identifier: MIT
-- Physical clocks from Lua: what is computed is tested in C; here is the binding, and the examples
-- of the books.
local time, t = require "mare.time", require "t"

local SECOND = 1000000000
local MINUTE = 60 * SECOND
local FAR_FUTURE = 1 << 62 | 1 -- after 2116

-- A time and an error bound. Bounds are rounded up, by a nanosecond or two.
local function reads(clock, at, value, bound)
    local shown, error = clock:read(at)
    t.eq(shown, value)
    t.ok(error >= bound and error <= bound + 2, error)
end

-- An answer to the question `bytes` of a client, as a server at stratum 2 gives it.
local function answer(bytes, received, leaves, changes)
    local packet = {
        mode = 4, stratum = 2, precision = -30, origin = time.decode(bytes).transmit,
        receive = time.stamp(received), transmit = time.stamp(leaves),
    }
    for name, value in pairs(changes or {}) do packet[name] = value end
    packet.key = nil
    return time.encode(packet, changes and changes.key)
end

return {
    the_exercise_of_the_ticks = function()
        -- 990 ticks a millisecond in place of 1,000, corrected every minute: 600 ms.
        t.eq(time.skew(1000, 990), -10000000)
        t.eq(time.skew(1000, 1000), 0)
        t.eq(time.apart(5000000, MINUTE), 600 * 1000000) -- one fast, one slow by 5 in a thousand
        t.eq(time.resync(5000000, 600 * 1000000), MINUTE)
        t.eq(time.resync(0, 1), math.maxinteger)
        t.eq(time.apart(500000000, math.maxinteger), math.maxinteger)
    end,
    a_clock_is_slewed_and_never_goes_back = function()
        local clock = time.clock {drift = 0, slew = 100000000}
        clock:set(0, 100 * SECOND, 0)
        reads(clock, 0, 100 * SECOND, 0)
        clock:set(10 * SECOND, 111 * SECOND, 0) -- it shows 110
        reads(clock, 10 * SECOND, 110 * SECOND, SECOND)
        reads(clock, 15 * SECOND, 115500000000, SECOND // 2)
        reads(clock, 20 * SECOND, 121 * SECOND, 0)
        clock:move(20 * SECOND, -SECOND, 7)
        t.eq({clock:target(20 * SECOND)}, {120 * SECOND, 7})
        t.eq(clock:gap(20 * SECOND), -SECOND)
        reads(clock, 20 * SECOND, 121 * SECOND, SECOND + 7)
        reads(clock, 30 * SECOND, 130 * SECOND, 7)
        reads(clock, 29 * SECOND, 130 * SECOND, SECOND + 7) -- an oscillator that goes back
    end,
    a_clock_that_was_never_set_says_so = function()
        local clock = time.clock()
        t.eq({clock:read(5)}, {5, nil})
        clock:set(5, 50, 1)
        t.eq({clock:read(5)}, {50, 1})
        local _, error = clock:read(5 + SECOND)
        t.ok(error >= 1 + 15000 and error < 15010, "15 parts in a million") -- in a second: 15 µs
    end,
    a_clock_can_be_tuned = function()
        local clock = time.clock {drift = 1000}
        clock:set(0, 0, 0)
        clock:tune(0, 1000000, 0) -- a thousandth slow, and now exact
        reads(clock, 10 * SECOND, 10 * SECOND + SECOND // 100, 0)
    end,
    offset_and_delay_from_four_instants = function()
        t.eq({time.measure(0, 15, 17, 12)}, {10, 5})
        t.eq({time.measure(100, 95, 95, 110)}, {-10, 5})
    end,
    the_filter_takes_the_shortest_way_of_eight = function()
        local client = time.client {drift = 0, precision = 0}
        t.fails("empty", client:best(0))
        local function exchange(at, offset, there, back)
            return client:note(at, at + there + offset, at + there + offset, at + there + back, 3)
        end
        t.eq(exchange(1000, 500, 10, 30), "taken") -- delay 20, and 10 too early
        t.eq(exchange(2000, 500, 4, 4), "taken")
        t.eq(exchange(3000, 500, 50, 10), "taken")
        local best = client:best(5000)
        t.eq({best.time, best.delay, best.samples}, {5500, 4, 3})
        t.ok(best.error >= 4 + 3 and best.error <= 4 + 3 + 2, best.error)
        t.eq(best.age, 5000 - 2008)
        for i = 4, 11 do t.eq(exchange(i * 1000, 600, 6, 6), "taken") end
        best = client:best(20000)
        t.eq({best.time, best.delay, best.samples}, {20600, 6, 8})
        t.eq(client:note(30000, 30100, 30090, 30010, 0), "absurd")
        t.eq(client:note(30000, 30100, 30900, 30010, 0), "absurd")
    end,
    a_client_forgets_what_an_oscillator_that_stood_still_counted = function()
        local client = time.client {drift = 0, precision = 0}
        t.eq(client:note(1000, 1504, 1504, 1008, 3), "taken")
        local question = client:ask(2000, 77)
        client:forget()
        t.fails("empty", client:best(3000))
        t.eq(client:take(3000, answer(question, 2500, 2500)), "duplicate") -- it was given up
        t.fails("empty", client:best(3000))
        t.eq(client:take(5000, answer(client:ask(4000, 78), 4500, 4500)), "taken")
        t.eq(client:best(5000).samples, 1)
    end,
    servers_outvote_a_liar = function()
        local choice = time.select {
            {time = 100, error = 10}, {time = 102, error = 10}, {time = 500, error = 5},
        }
        t.eq(choice, {
            time = 101, error = 9, stratum = 0, peer = 1, survivors = {1, 2}, outliers = {3},
        })
        t.fails("invalid", time.select {{time = 0, error = 1}, {time = 100, error = 1}})
        t.fails("invalid", time.select {})
        t.fails("invalid", time.select({{time = 0, error = 1}}, 1))
        -- Two of three answer, and one of these may lie: the bound reaches over both.
        choice = time.select({{time = 0, error = 10}, {time = 4, error = 10}}, 1)
        t.eq({choice.time, choice.error, choice.survivors}, {2, 12, {1, 2}})
        t.fails("invalid", time.select({{time = 0, error = 1}, {time = 4, error = 1}}, 1))
    end,
    estimates_go_into_select = function()
        local client = time.client {drift = 0, precision = 0}
        client:note(0, 105, 105, 10, 0)
        local choice = time.select {client:best(20)}
        t.eq({choice.time, choice.peer}, {120, 1})
        t.ok(choice.error >= 5 and choice.error <= 7)
    end,
    berkeley_as_in_the_book = function()
        local three = 180 * MINUTE
        local clocks = {three, three - 10 * MINUTE, three + 25 * MINUTE}
        local mean, moves = time.berkeley(clocks)
        t.eq(mean, three + 5 * MINUTE)
        t.eq(moves, {5 * MINUTE, 15 * MINUTE, -20 * MINUTE})
        mean, moves = time.berkeley(clocks, 15 * MINUTE) -- the third is broken
        t.eq(mean, three - 5 * MINUTE)
        t.eq(moves, {-5 * MINUTE, 5 * MINUTE, -30 * MINUTE})
    end,
    broadcasts_give_a_mean_and_a_line = function()
        local rbs = time.rbs {jitter = 10, drift = 2000, wander = 0}
        t.fails("empty", rbs:mean(0))
        for k = 0, 3 do -- our clock gains a microsecond a second on theirs
            rbs:hear(k, k * SECOND)
            t.eq(rbs:match(k, k * SECOND - (100 + k * 1000)), true)
            t.eq(rbs:match(k, k * SECOND), false)
            if k == 1 then t.fails("empty", rbs:line(0)) end
        end
        local mean = rbs:mean(3 * SECOND // 2)
        t.eq({mean.offset, mean.alpha, mean.pairs}, {1600, 0, 4})
        local line = rbs:line(4 * SECOND)
        t.ok(math.abs(line.offset - 4100) <= 2, line.offset)
        t.ok(math.abs(line.alpha - 1000) <= 1, line.alpha)
        t.eq({line.origin, line.beta}, {3 * SECOND // 2, 1600})
        t.ok(line.error >= 10 and line.error < 40, line.error)
        t.eq(rbs:match(99, 0), false)
    end,
    packets_are_those_of_the_standard = function()
        local packet = {
            leap = 1, version = 4, mode = 4, stratum = 1, poll = 6, precision = -20,
            root_delay = 0x10000, root_dispersion = 0x8000, reference_id = 0x47505300,
            reference = 1, origin = 2, receive = -1, transmit = math.mininteger,
        }
        local bytes = string.pack(">BBbbI4I4c4i8i8i8i8", 0x64, 1, 6, -20, 0x10000, 0x8000, "GPS\0",
            1, 2, -1, math.mininteger)
        t.eq(time.encode(packet), bytes)
        t.eq(time.decode(bytes), packet)
        t.eq(time.encode {}:byte(), 0x23)
        t.fails("badmsg", time.decode(bytes:sub(1, 47)))
        t.fails("badmsg", time.decode "")
        t.fails("badmsg", time.decode(("x"):rep(100000)))
    end,
    keys_sign_packets = function()
        local key = {id = 7, secret = "sixteen-letters!"}
        local bytes = time.encode({}, key)
        t.eq({#bytes, time.decode(bytes).key_id}, {68, 7})
        t.eq(time.authentic(bytes, key), true)
        t.eq(time.authentic(bytes, {id = 8, secret = key.secret}), false)
        t.eq(time.authentic(bytes, {id = 7, secret = ("x"):rep(16)}), false)
        t.eq(time.authentic(time.encode {}, key), false)
        local signing = time.client {key = key, near = 0}
        local question = signing:ask(0, 1)
        t.eq(time.authentic(question, key), true)
        t.eq(signing:take(10, answer(question, 5, 5)), "forged")
        t.eq(signing:take(10, answer(question, 5, 5, {key = key})), "taken")
    end,
    a_client_asks_and_takes = function()
        local now = 1800000000 * SECOND
        local client = time.client {near = now, drift = 0, precision = 0}
        local question = client:ask(1000, 0x1234)
        t.eq(time.decode(question).transmit, 0x1234)
        t.eq(client:take(1010, answer(question, now, now, {origin = 9})), "bogus")
        t.eq(client:take(1020, answer(question, now, now)), "taken")
        t.eq(client:take(1030, answer(question, now, now)), "duplicate")
        t.eq(client:take(1030, "noise"), "malformed")
        local best = client:best(1020) -- the answer was under way for half of 20
        t.eq({best.time, best.delay, best.stratum}, {now + 10, 10, 2})
        t.eq(client:wait(), 64 * SECOND)
        question = client:ask(2000, 5)
        t.eq(client:take(2010, answer(question, now, now, {stratum = 16})), "unfit")
        question = client:ask(3000, 6)
        local deny = {stratum = 0, reference_id = 0x44454e59}
        t.eq(client:take(3010, answer(question, now, now, deny)), "kiss")
        t.fails("refused", client:ask(4000, 7))
    end,
    stamps_and_eras = function()
        t.eq(time.stamp(0), 2208988800 << 32)
        local rollover = 2085978496 * SECOND -- 7 February 2036, 06:28:16
        t.eq(time.stamp(rollover), 0)
        t.eq(time.unstamp(0, rollover - MINUTE), rollover)
        t.eq(time.unstamp(-1, rollover + MINUTE), rollover - 1)
    end,
    tai_is_37_seconds_ahead = function()
        local new_year = 1483228800 * SECOND -- 2017
        t.eq({time.tai(new_year)}, {new_year + 37 * SECOND, true})
        t.eq({time.tai(2 * new_year)}, {2 * new_year + 37 * SECOND, false}) -- in 2064, who knows
        t.eq({time.utc(new_year + 37 * SECOND)}, {new_year, false})
        t.eq({time.utc(new_year + 36 * SECOND)}, {new_year - SECOND, true})
        local client = time.client {tai = true, near = new_year, drift = 0, precision = 0}
        local question = client:ask(0, 1)
        t.eq(client:take(10, answer(question, new_year, new_year)), "ambiguous")
        question = client:ask(0, 1)
        local later = new_year + MINUTE
        t.eq(client:take(10, answer(question, later, later)), "taken")
        t.eq(client:best(10).time, later + 37 * SECOND + 5)
    end,
    leap_seconds_that_may_have_come = function()
        local new_year, july = 1483228800 * SECOND, 1814400000 * SECOND -- of 2017, of 2027
        t.eq(time.leaps(new_year - 1, new_year), 1)
        t.eq(time.leaps(new_year, new_year + 86400 * SECOND), 0)
        t.eq(time.leaps(new_year, new_year + 86400 * SECOND, 1), 1) -- announced
        t.eq(time.leaps(new_year, new_year + 86399 * SECOND, 2), 0)
        t.eq(time.leaps(july - SECOND, july), 1) -- the table has expired, a month ends
        t.eq(time.leaps(july, july + 30 * 86400 * SECOND), 0)
        t.raises("#3.*leap indicator", function() time.leaps(0, 0, 4) end)
        t.raises("#2.*instant", function() time.leaps(0, FAR_FUTURE) end)
    end,
    what_the_table_has_today = function()
        t.eq(time.leaptoday(1483228799 * SECOND), 1) -- the last of 2016
        t.eq(time.leaptoday(1483228800 * SECOND), 0)
        t.eq(time.leaptoday(1483228800 * SECOND - 86400 * SECOND - 1), 0) -- a day before
    end,
    a_server_answers_within_its_bounds = function()
        local key = {id = 4, secret = "sixteen letters!"}
        local server = time.server {stratum = 3, reference_id = 0x7f000001, keys = {key},
            root_delay = 2 * SECOND // 1000}
        local now = 1700000000 * SECOND
        local question = time.encode {transmit = 42}
        local said = time.decode(assert(server:answer(question, now, SECOND, now + 5000, SECOND)))
        t.eq({said.mode, said.stratum, said.origin, said.reference_id}, {4, 3, 42, 0x7f000001})
        t.eq(said.receive, time.stamp(now))
        t.eq(said.transmit, time.stamp(now + 5000))
        t.ok(said.root_delay / 2 + said.root_dispersion >= 65536) -- a second, of 65,536 parts
        server:tell {stratum = 9, leap = 2}
        said = time.decode(server:answer(question, now, 0, now, 0))
        t.eq({said.stratum, said.leap}, {9, 2})
        said = time.decode(server:answer(question, now, 0, now, nil)) -- nobody knows the time
        t.eq(said.leap, 3)
        local signed = server:answer(time.encode({transmit = 42}, key), now, 0, now, 0)
        t.eq(time.authentic(signed, key), true)
        t.fails("badmsg", server:answer("", now, 0, now, 0))
        t.fails("badmsg", server:answer(signed, now, 0, now, 0)) -- no question
        local strict = time.server {stratum = 3, keys = {key}, authenticated = true}
        t.fails("badmsg", strict:answer(question, now, 0, now, 0))
        local kiss = time.decode(server:refuse(question, "RATE"))
        t.eq({kiss.stratum, kiss.origin}, {0, 42})
        t.eq(string.pack(">I4", kiss.reference_id), "RATE")
        t.fails("badmsg", server:refuse("", "RATE"))
        t.raises("four letters", server.refuse, server, question, "NO")
        t.raises("option 'stratum'", time.server, {stratum = 0})
        local many = {}
        for i = 1, 17 do many[i] = key end
        t.raises("16 keys", time.server, {keys = many})
        t.raises("an instant", server.answer, server, question, FAR_FUTURE, 0, now, 0)
        t.raises("error bound", server.answer, server, question, now, -1, now, 0)
    end,
    strata_are_followed_downwards = function()
        t.eq({time.follows(16, 1), time.follows(3, 2), time.follows(3, 3), time.follows(2, 3),
            time.follows(16, 16)}, {true, true, false, false, false})
        t.raises("stratum", time.follows, 17, 1)
    end,
    a_client_tells_what_became_of_its_questions = function()
        local client = time.client {near = 0}
        t.eq(client:status(), {reach = 0, packets = {}})
        local question = client:ask(0, 1)
        t.eq({client:take(10, "nonsense")}, {"malformed", true}) -- still open
        t.eq({client:take(10, answer(question, 5, 5))}, {"taken", false})
        t.eq(client:status(), {reach = 1, packets = {malformed = 1, taken = 1}})
        question = client:ask(20, 2)
        t.eq((client:take(30, time.server():refuse(question, "RATE"))), "kiss")
        t.eq(client:status().kiss, "RATE")
    end,
    this_machine_has_clocks = function()
        local before = os.time()
        local here, utc, width = time.now()
        local later, later_utc = time.now()
        t.ok(later >= here and width >= 0)
        t.ok(utc // SECOND >= before - 2 and later_utc // SECOND <= os.time() + 2)
        local arrivals = time.arrivals()
        t.eq((arrivals:age()), 0) -- no stamp
        t.eq((arrivals:age(1)), 0) -- one that makes no sense
        local age, after = arrivals:age(nil)
        t.ok(age == 0 and after >= later)
        t.eq(arrivals:woke(), false)
        t.ok(time.nonce() ~= time.nonce())
        t.eq(time.reference "192.0.2.1", 0xc0000201)
        t.eq(time.reference "2001:db8::1:2", 0x00010002)
        t.raises("numeric", time.reference, "localhost")
    end,
    misuse_names_what_is_wrong = function()
        local clock, rbs, client = time.clock(), time.rbs(), time.client()
        t.raises("#1.*read", function() clock.read(rbs, 0) end)
        t.raises("#1.*integer", function() clock:read(0.5) end)
        t.raises("#1.*a local instant must be from", function() clock:read(math.maxinteger) end)
        t.raises("#2.*an instant must be from", function() clock:set(0, FAR_FUTURE, 0) end)
        t.raises("#3.*an error bound", function() clock:set(0, 0, -1) end)
        t.raises("#2.*correction", function() clock:move(0, math.mininteger, 0) end)
        clock:set(0, 1 << 62, 0)
        t.raises("after 2116", function() clock:move(0, 1, 0) end)
        t.raises("18 years", function() clock:read((1 << 59) + 1) end)
        t.raises("option 'slew' must be an integer from 1", function() time.clock {slew = 0} end)
        t.raises("option 'drift'", function() time.clock {drift = "fast"} end)
        t.raises("#1.*table", function() time.clock(5) end)
        t.raises("option 'jitter'", function() time.rbs {jitter = -1} end)
        t.raises("#2.*146 years", function()
            time.measure(-(1 << 61) + 1, 1 << 62, 1 << 62, -(1 << 61) + 1)
        end)
        t.raises("#1.*ticks", function() time.skew(0, 1) end)
        t.raises("#1.*1000 clocks", function() time.berkeley {} end)
        t.raises("clock 2", function() time.berkeley {0, "noon"} end)
        t.raises("`time` and `error`", function() time.select {{time = 1}} end)
        t.raises("estimate must be a table", function() time.select {1} end)
        t.raises("more than 32", function()
            local many = {}
            for i = 1, 33 do many[i] = {time = 0, error = 0} end
            time.select(many)
        end)
        t.raises("option 'stratum'", function() time.encode {stratum = 256} end)
        t.raises("16 bytes", function() time.encode({}, {id = 1, secret = "short"}) end)
        t.raises("`id`", function() time.encode({}, {secret = ("x"):rep(16)}) end)
        t.raises("#2", function() time.authentic("", nil) end)
        t.raises("#1.*local", function() client:ask(math.mininteger, 0) end)
        t.raises("`error` of an estimate", function() time.select {{time = 1, error = "x"}} end)
    end,
    wrong_options_are_refused_in_the_line_of_who_gave_them = function()
        local server = time.server()
        for _, f in ipairs {time.clock, time.client, time.server, time.rbs, time.broadcast,
            time.encode, function(options) server:tell(options) end} do
            t.raises("test_timing.lua:%d+: bad argument #1 to '%l+' %(unknown option 'drfit'%)",
                function() f {drfit = 1} end)
            t.raises("unknown option '1'", function() f {5} end)
        end
    end,
}
