-- SPDX-License-Identifier: MIT
-- Who is not listened to, and for how long: lua/mare/_keeper_failures.lua, at times of our own.
local t = require "t"
local failures = require "mare._keeper_failures"

return {
    pauses_grow_and_end = function()
        local now = 1000
        for times, pause in ipairs {0, 0, 0, 1, 2, 4, 8, 16, 30, 30} do
            failures.note("10.0.0.1", now)
            t.eq({times, failures.penalty("10.0.0.1", now)}, {times, pause})
        end
        t.eq(failures.penalty("10.0.0.1", now + 29), 1)
        t.eq(failures.penalty("10.0.0.1", now + 30), 0)
        t.eq(failures.penalty("10.0.0.2", now), 0)
        now = now + 61 -- all is forgiven
        t.eq(failures.penalty("10.0.0.1", now), 0)
        failures.note("10.0.0.1", now)
        t.eq(failures.penalty("10.0.0.1", now), 0)
    end,

    who_comes_in_is_forgiven = function()
        for _ = 1, 5 do failures.note("10.0.0.3", 5000) end
        t.eq(failures.penalty("10.0.0.3", 5000), 2)
        failures.forgive "10.0.0.3"
        failures.forgive "10.0.0.4"
        t.eq(failures.penalty("10.0.0.3", 5000), 0)
    end,

    who_makes_lines_of_the_log_is_told_of_once_a_second = function()
        t.eq(failures.line("10.0.0.5", 7000, 1), "")
        for i = 1, 5 do t.eq(failures.line("10.0.0.5", 7000 + i / 10, 1), nil) end
        t.eq(failures.line("10.0.0.6", 7000.5, 1), "")
        t.eq(failures.line("10.0.0.5", 7001, 1), " (and 5 more since the last line)")
        t.eq(failures.line("10.0.0.5", 7002, 1), "")
        t.eq(failures.penalty("10.0.0.5", 7002), 0)
        for i = 1, 4 do failures.note("10.0.0.5", 7002 + i) end
        failures.line("10.0.0.5", 7006.5, 1)
        t.eq(failures.penalty("10.0.0.5", 7006.5), 0.5) -- it makes that no longer, nor shorter
    end,

    some_lines_may_come_at_once = function()
        for _ = 1, 10 do t.eq(failures.line("ana", 8000, 10), "") end
        for _ = 1, 3 do t.eq(failures.line("ana", 8000.5, 10), nil) end
        t.eq(failures.line("ben", 8000.5, 10), "")
        t.eq(failures.line("ana", 8001, 10), " (and 3 more since the last line)")
        t.eq(failures.line("ana", 8001, 10), nil)
        for _ = 1, 10 do t.ok(failures.line("ana", 8020, 10)) end
        t.eq(failures.line("ana", 8020, 10), nil)
    end,

    a_network_of_ipv6_is_one = function()
        for host, origin in pairs {["2001:db8:1:2:3:4:5:6"] = "2001:db8:1:2::/64",
            ["2001:db8::1"] = "2001:db8:0:0::/64", ["2001:db8:1:2::"] = "2001:db8:1:2::/64",
            ["2001:db8:0:1::7:8"] = "2001:db8:0:1::/64", ["2001::1:2:3:4:5:6"] = "2001:0:1:2::/64",
            ["::1"] = "::1", ["::ffff:10.0.0.1"] = "::ffff:10.0.0.1", ["fe80::1%eth0"] =
            "fe80::1%eth0", ["10.0.0.1"] = "10.0.0.1", ["a local program"] = "a local program"} do
            t.eq(failures.origin(host), origin)
        end
        for i = 1, 4 do failures.note(("2001:db8::%x"):format(i), 9000) end
        t.eq(failures.penalty("2001:db8::5", 9000), 1)
        t.eq(failures.penalty("2001:db8:0:1::5", 9000), 0)
    end,

    an_origin_has_its_share_of_handshakes = function()
        for _, hosts in ipairs {{"10.0.0.7", "10.0.0.7", "10.0.0.8"},
            {"2001:db8::1", "2001:db8::2", "2001:db8:1::1"}} do
            local places = {}
            for i = 1, 64 do places[i] = t.ok(failures.place(hosts[1 + i % 2])) end
            t.eq({failures.place(hosts[1]), failures.place(hosts[2])}, {})
            local _ <close> = t.ok(failures.place(hosts[3]))
            do local _ <close> = places[64] end
            local _ <close> = t.ok(failures.place(hosts[2]))
            t.eq(failures.place(hosts[1]), nil)
            for i = 1, 63 do local _ <close> = places[i] end
        end
        local many = {}
        for i = 1, 300 do many[i] = t.ok(failures.place "127.0.0.1") end
        for i = 1, 300 do local _ <close> = many[i] end
    end,

    those_who_are_remembered_are_few = function()
        t.eq(failures.most, 10000)
        failures.most = 100
        failures.note("10.0.0.9", 20000)
        for i = 1, 250 do
            failures.note(("2001:%x::1"):format(i), 20000 + i / 10)
            t.ok(failures.count <= 100, failures.count)
        end
        failures.note("10.0.0.9", 21000) -- those of long ago are forgotten
        t.eq(failures.count, 1)
        failures.forgive "10.0.0.9"
        t.eq(failures.count, 0)
        failures.most = 10000
    end,
}
