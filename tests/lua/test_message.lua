-- SPDX-License-Identifier: MIT
-- What a message carries: each value arrives as what it was.
local mare, t = require "mare", require "t"

-- Through a channel and back: to another process, which returns what it got.
local echo_in, echo_out

local function echo(...)
    if not echo_in then
        echo_in, echo_out = mare.channel(), mare.channel()
        mare.spawn(function(from, to)
            while true do to:send(from:receive()) end
        end, echo_in, echo_out)
    end
    echo_in:send(...)
    return echo_out:receive(t.patience)
end

-- What only the same value satisfies: -0.0 is not 0.0, a NaN is itself.
local function bits(n) return string.pack(math.type(n) == "integer" and "j" or "n", n) end

return {
    nil_and_booleans = function()
        t.eq(table.pack(echo(nil, true, false, nil)), {nil, true, false, nil, n = 4})
    end,

    integers_keep_all_their_bits = function()
        local list = {0, -1, math.maxinteger, math.mininteger}
        for shift = 0, 63 do
            for delta = -1, 1 do
                list[#list + 1] = (1 << shift) + delta
                list[#list + 1] = -(1 << shift) + delta
            end
        end
        for _, n in ipairs(list) do
            local got = echo(n)
            t.eq(math.type(got), "integer")
            t.eq(got, n)
        end
        t.eq(echo(list), list)
    end,

    floats_stay_floats = function()
        for _, x in ipairs {0.0, -0.0, 1.0, 0.1, 2 ^ 53, 2 ^ 63, -2 ^ 63, 1e308, 5e-324, 1 / 3,
                            math.huge, -math.huge, math.pi} do
            local got = echo(x)
            t.eq(math.type(got), "float")
            t.eq(bits(got), bits(x))
        end
        local nan = echo(0 / 0)
        t.ok(nan ~= nan)
        t.eq(math.type(nan), "float")
    end,

    strings_of_any_bytes = function()
        local all = {}
        for byte = 0, 255 do all[#all + 1] = string.char(byte) end
        for _, s in ipairs {"", "a", "\0", "a\0b\0", table.concat(all), "maré", "\xff\xfe"} do
            t.eq(echo(s), s)
        end
    end,

    strings_of_every_length_around_the_limits_of_the_encoding = function()
        for _, around in ipairs {0, 15, 31, 32, 40, 255, 256, 4096, 65535, 65536} do
            for n = math.max(0, around - 2), around + 2 do
                local s = ("x"):rep(n)
                t.ok(echo(s) == s, n)
            end
        end
    end,

    a_megabyte_in_one_string = function()
        local s = ("0123456789abcdef"):rep(65536)
        t.ok(echo(s) == s)
        local a, b = echo({s, s}, s)
        t.ok(a[1] == s and a[2] == s and b == s)
    end,

    numbers_that_look_alike_stay_apart_as_keys = function()
        t.eq(echo {[1] = "one", [1.5] = "float", ["1"] = "string", [-1] = "minus"},
            {[1] = "one", [1.5] = "float", ["1"] = "string", [-1] = "minus"})
    end,

    arrays_with_and_without_holes = function()
        t.eq(echo {}, {})
        t.eq(echo {1, 2, 3}, {1, 2, 3})
        t.eq(echo {1, nil, 3, nil, 5}, {1, nil, 3, nil, 5})
        t.eq(echo {nil, nil, 3}, {nil, nil, 3})
        t.eq(echo {[1000000] = 1, [1] = 2}, {[1000000] = 1, [1] = 2})
        t.eq(echo {[0] = 0, [-5] = -5, 1, 2}, {[0] = 0, [-5] = -5, 1, 2})
        t.eq(echo {[math.mininteger] = 1, [math.maxinteger] = 2},
            {[math.mininteger] = 1, [math.maxinteger] = 2})
    end,

    arrays_and_fields_in_one_table = function()
        t.eq(echo {1, 2, 3, x = 1, y = {1, z = 2}, [true] = false, [2.5] = "f"},
            {1, 2, 3, x = 1, y = {1, z = 2}, [true] = false, [2.5] = "f"})
        local mixed = {}
        for i = 1, 300 do
            mixed[i] = i
            mixed["k" .. i] = {i, name = i}
        end
        t.eq(echo(mixed), mixed)
    end,

    arrays_and_fields_deep_in_each_other = function()
        local channels, deep = {}, {}
        for i = 1, 200 do
            channels[i] = mare.channel()
            local half = {deep[1], channels[i], name = i}
            deep = {i, deep, channels[i], {i}, level = i, [i + 0.5] = half}
        end
        local got = echo(deep)
        for i = 200, 1, -1 do
            local half = got[i + 0.5]
            t.eq({got[1], got[3] == channels[i], got[4], got.level}, {i, true, {i}, i})
            t.eq({half[1], half[2] == channels[i], half.name}, {i > 1 and i - 1 or nil, true, i})
            got = got[2]
        end
        t.eq(got, {})
    end,

    tables_as_keys = function()
        local key = {"key"}
        local got, same = echo({[key] = "value", [{}] = {}}, key)
        t.eq(got[same], "value", "the key is the other argument")
        local count = 0
        for k in pairs(got) do
            t.eq(type(k), "table")
            count = count + 1
        end
        t.eq(count, 2)
    end,

    functions_and_references_as_keys = function()
        local ch = mare.channel()
        local got, f = echo({[ch] = 1, [print] = 2}, print)
        t.eq(got[ch], 1)
        t.eq(got[f], 2)
    end,

    shared_references_stay_shared = function()
        local shared = {1}
        local a, b, c = echo({shared, shared}, shared, {x = {shared}})
        t.ok(a[1] == a[2] and a[1] == b and c.x[1] == b)
        t.ok(b ~= shared)
        t.eq(b, {1})
    end,

    cycles_stay_cycles = function()
        local loop = {name = "loop"}
        loop.self = loop
        loop[1] = {up = loop}
        loop[loop] = loop
        local got = echo(loop)
        t.ok(got.self == got and got[1].up == got and got[got] == got)
        local a, b = {}, {}
        a.b, b.a = b, a
        local x, y = echo(a, b)
        t.ok(x.b == y and y.a == x)
    end,

    many_shared_references = function()
        local list = {}
        for i = 1, 2000 do list[i] = {i} end
        for i = 1, 2000 do list[2000 + i] = list[i] end
        local got = echo(list)
        for i = 1, 2000 do
            t.ok(got[i] == got[2000 + i])
            t.eq(got[i][1], i)
        end
    end,

    ten_thousand_deep = function()
        local deep = {"bottom"}
        local levels = t.gc_stress and 2000 or 10000
        for i = 1, levels do deep = i % 2 == 0 and {deep} or {down = deep, level = i} end
        local got = echo(deep)
        for i = levels, 1, -1 do
            if i % 2 == 1 then t.eq(got.level, i) end
            got = i % 2 == 0 and got[1] or got.down
        end
        t.eq(got, {"bottom"})
    end,

    ten_thousand_functions_deep = function()
        local f = function() return "bottom" end
        for _ = 1, 10000 do
            local inner = f
            f = function() return inner end
        end
        local got = echo(f)
        for _ = 1, 10000 do got = got() end
        t.eq(got(), "bottom")
    end,

    a_hundred_thousand_elements = function()
        local list = {}
        for i = 1, t.gc_stress and 10000 or 100000 do list[i] = i % 3 == 0 and tostring(i) or i end
        t.eq(echo(list), list)
    end,

    a_thousand_small_records = function()
        local records = {}
        for i = 1, 1000 do
            records[i] = {id = i, name = "n" .. i, score = i / 7, tags = {"a", "b"}}
        end
        t.eq(echo(records), records)
    end,

    two_hundred_values_in_one_message = function()
        local list = {}
        for i = 1, 200 do list[i] = i % 2 == 0 and {i} or i end
        t.eq({echo(table.unpack(list))}, list)
    end,

    the_receiver_gets_a_copy = function()
        local ch = mare.channel(1)
        local sent = {1, {2}}
        ch:send(sent)
        sent[1], sent[2][1] = "changed", "changed"
        t.eq(ch:receive(), {1, {2}})
    end,

    a_message_to_oneself_is_a_copy_too = function()
        local ch = mare.channel(1)
        local sent = {}
        ch:send(sent)
        t.ok(ch:receive() ~= sent)
    end,

    a_sender_that_waits_sends_what_it_had = function()
        local ch = mare.channel()
        local p = mare.spawn(function()
            local list = {1}
            coroutine.wrap(function() ch:send(list) end)()
            list[1] = 2
        end)
        t.reaches(function() return p:status() == "blocked" end)
        t.eq(ch:receive(t.patience), {1})
    end,

    references_inside_tables = function()
        local ch, me = mare.channel(3), mare.self()
        local got = echo {a = {ch, {me}}, [1] = ch, list = {me, me}}
        t.ok(got.a[1] == ch and got[1] == ch and got.a[2][1] == me and got.list[2] == me)
    end,

    deadlines_stay_where_they_are_or_travel_whole = function()
        local ok, err = pcall(echo, mare.deadline(1))
        t.eq(ok, false)
        t.ok(err:find "arg 1: a userdata %(mare.deadline%) cannot travel", err)
    end,
}
