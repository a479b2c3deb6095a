-- SPDX-License-Identifier: MIT
-- mare.json: what is read and written, what is refused and where, values out of parts.
local mare, json, t = require "mare", require "mare.json", require "t"

local decode, encode, null = json.decode, json.encode, json.null

local function refused(text, place, pattern, options)
    local value, message, code = decode(text, options)
    t.eq({value, code}, {nil, "badmsg"}, text)
    t.ok(message:find(place .. ": ", 1, true) == 1 and message:find(pattern),
        ("%s: %s"):format(text, message))
end

-- All values that a reader finds in a text fed in pieces of a size, members with their keys.
local function read_all(text, size, options)
    local reader, found = json.reader(options), {}
    local function drain()
        while true do
            local value, key, code = reader:next()
            if code then return key, code end
            if value == nil then return end
            found[#found + 1] = key and {key, value} or value
        end
    end
    for at = 1, #text, size do
        t.eq(reader:feed(text:sub(at, at + size - 1)), true)
        local message, code = drain()
        if code then return found, message, code end
    end
    reader:finish()
    return found, drain()
end

local function again(value) return (assert(decode(encode(value)))) end

return {
    values_are_what_they_were = function()
        for _, value in ipairs {0, -1, math.maxinteger, math.mininteger, 0.5, 100.0, 1e300, 5e-324,
            1.7976931348623157e308, 0.1, 1 / 3, 2.0 ^ 53, 1e15, 1e16, 123456.789, true, "",
            "é\u{1F600}\0\n\"\\/\u{7f}", {1, 2, {3}}, {a = {b = {}}}, {1.5, "x", {y = false}}} do
            t.eq(again(value), value)
        end
        t.eq({decode "false"}, {false})
        t.eq(again {null}[1], null)
        t.eq(tostring(null), "null")
        t.eq(1 / again(-0.0), -math.huge)
        t.eq(encode {1, 2.0, -0.0, 1e22, 0.1, 12345678.5}, "[1,2.0,-0.0,1e+22,0.1,12345678.5]")
    end,

    every_float_is_read_as_itself = function()
        t.seed()
        for _ = 1, 2000 do
            local value = string.unpack("<d", string.pack("<I8", math.random(0)))
            if value == value and math.abs(value) ~= math.huge then t.eq(again(value), value) end
            local between = math.random()
            t.eq(again(between), between)
            local short = math.random(-1000000, 1000000) / 10 ^ math.random(0, 8)
            t.eq(again(short), short)
            t.ok(#encode(short) <= 17, encode(short)) -- no 0.1000000000000000055
        end
    end,

    numbers_are_integers_if_they_can_be = function()
        t.eq(decode "[1, -1, 1.0, 1e2, 9223372036854775807, -9223372036854775808]",
            {1, -1, 1.0, 100.0, math.maxinteger, math.mininteger})
        t.eq(decode "[9223372036854775808, -9223372036854775809, 1e-400, 0e999]",
            {2.0 ^ 63, -2.0 ^ 63, 0.0, 0.0})
        -- in the middle between two floats: the even one; and just above it
        t.eq(decode "[9007199254740993.0, 9007199254740993.0000000000000000000000000001]",
            {9007199254740992.0, 9007199254740994.0})
        -- so little below the middle that 64 bits do not tell it from the middle
        for text, value in pairs {["3.634800532072256507"] = 3.6348005320722563,
            ["0.8993864905728227721"] = 0.8993864905728227,
            ["0.0009007486788419151783"] = 0.0009007486788419151,
            ["2.178274498215299948"] = 2.1782744982152997,
            ["1816.286666983293685"] = 1816.2866669832936,
            ["316896943.6050517261"] = 316896943.6050517} do
            t.eq(decode(text), value, text)
        end
        t.eq(decode("0." .. ("0"):rep(400) .. "1e401"), 1.0)
        t.eq(decode("1" .. ("0"):rep(5000) .. "e-5000"), 1.0)
        refused("[1e309]", "line 1, column 2", "beyond what a float")
    end,

    texts_are_unescaped = function()
        t.eq(decode [["\"\\\/\b\f\n\r\t\u0041\u00e9\u20AC\ud83d\ude00\u0000"]],
            "\"\\/\b\f\n\r\tAé€\u{1F600}\0")
        t.eq(encode "\1\31\"\\\b\f\n\r\té€/", [["\u0001\u001f\"\\\b\f\n\r\té€/"]])
        for size = 0, 20 do -- wherever in a word it is
            local text = ("x"):rep(size) .. "\n" .. ("y"):rep(size)
            t.eq(again(text), text)
        end
    end,

    what_is_wrong_is_said_with_its_place = function()
        refused("", "line 1, column 1", "ends before")
        refused(" \n [1,\n  2,]", "line 3, column 5", "a value expected")
        refused("[1 2]", "line 1, column 4", "',' or ']' expected")
        refused('{"a" 1}', "line 1, column 6", "':' expected")
        refused('{"a":1 "b":2}', "line 1, column 8", "',' or '}' expected")
        refused("{a:1}", "line 1, column 2", "a key in quotes expected")
        refused('{"a":1,}', "line 1, column 8", "a key in quotes expected")
        refused("1 2", "line 1, column 3", "the end expected")
        refused("[1", "line 1, column 3", "ends before")
        for _, text in ipairs {"01", "-", "1.", ".5", "+1", "1e", "1e+", "--1", "0x10", "NaN",
            "Infinity", "nul", "truex", "'a'", "// c\n1", "\239\187\1911", "]", "{]", "[}",
            "[1}", '{"a":1]', ",", "\0", "\f1"} do
            t.fails("badmsg", decode(text))
        end
        for _, text in ipairs {'"', '"a', '"\\', '"\\x"', '"\\u12g4"', '"\\ud800"', '"\\udc00"',
            '"\\ud800\\u0041"', '"\\ud83d\\ud83d"', '"a\nb"', '"\31"', '"\128"', '"\195"',
            '"\237\160\128"', '"\192\128"', '"\244\144\128\128"', '["a":1]'} do
            t.fails("badmsg", decode(text))
        end
    end,

    limits_hold = function()
        local deep = ("["):rep(128) .. ("]"):rep(128)
        t.ok(decode(deep))
        refused("[" .. deep .. "]", "line 1, column 129", "in each other")
        t.ok(decode("[" .. deep .. "]", {depth = 129}))
        refused("[[1]]", "line 1, column 2", "in each other", {depth = 1})
        t.ok(decode(('{"a":'):rep(1000) .. "1" .. ("}"):rep(1000), {depth = 1000}))
        t.fails("toobig", decode("[1,2]", {size = 4}))
        t.eq(decode("[1,2]", {size = 5}), {1, 2})
        t.raises("too large", encode, ("x"):rep(100), {size = 101})
        t.eq(#encode(("x"):rep(100), {size = 102}), 102)
        t.raises("too large", encode, ("\1"):rep(100), {size = 300})
        t.raises("value%[1%]%[1%]: tables are nested too deep", encode, {{{}, 1}}, {depth = 2})
    end,

    what_cannot_be_written_is_said_with_its_way = function()
        local function refuses(text, value)
            local err = t.raises("bad argument #1 to", encode, value)
            t.ok(err:find("(" .. text .. ")", 1, true), err)
        end
        refuses("value.list[3].f: a function cannot be JSON", {list = {1, 2, {f = print}}})
        refuses("value: a thread cannot be JSON", coroutine.create(print))
        refuses('value["a b"][1]: a userdata cannot be JSON', {["a b"] = {io.stdout}})
        refuses("value.x: JSON has no NaN", {x = 0 / 0})
        refuses("value[1]: JSON has no infinite numbers", {-math.huge})
        refuses("value: nil (use json.null)", nil)
        refuses("value[2]: nil in the middle of a list (use json.null)", {1, nil, 3})
        refuses("value.t: the key 1.5 is a number, not a string", {t = {[1.5] = 1}})
        refuses("value.t: a key is a boolean, not a string", {t = {[true] = 1}})
        refuses("value.name: a string that is not UTF-8", {name = "a\255"})
        refuses('value.t["?"]: a key that is not UTF-8', {t = {["\255"] = 1}})
        for _, mixed in ipairs {{1, 2, x = 3}, {x = 3, 1}, {[0] = 1, 2}, json.array {x = 1}} do
            local why = "value: .*key "
            t.raises(why, encode, mixed)
            t.raises(why, encode, mixed, {sorted = true})
        end
        local loop = {}
        loop.loop = {loop}
        t.raises("value%.loop%[1%]%.loop.* … .*: tables are nested too deep", encode, loop)
        local marked = json.array {1, {print}}
        refuses("value[2][1]: a function cannot be JSON", marked)
        t.raises("value%.b%.f: a function", encode, {b = {f = print}}, {sorted = true})
    end,

    arrays_and_objects_are_told_apart = function()
        t.eq(encode {}, "{}")
        t.eq(encode(json.array()), "[]")
        t.eq(encode {json.array {}, {}, {1}}, "[[],{},[1]]")
        t.eq(encode(decode '[[],{},{"a":[]}]'), '[[],{},{"a":[]}]')
        local list = json.array()
        list[1] = "x"
        t.eq(encode(list), '["x"]')
        t.raises("another metatable", json.array, setmetatable({}, {}))
        -- lists that are not in the part of the table that is an array, or not in order
        t.eq(encode {[3] = 3, [2] = 2, [1] = 1}, "[1,2,3]")
        local backwards = {}
        for i = 50, 1, -1 do backwards[i] = i end
        t.eq(again(backwards), backwards)
        for _, n in ipairs {1, 63, 64, 65, 127, 128, 129, 1000} do -- around what waits on the stack
            local numbers, names = {}, {}
            for i = 1, n do numbers[i], names["k" .. i] = i, {i} end
            t.eq(again(numbers), numbers)
            t.eq(again(names), names)
            t.eq(again {names, {x = numbers}}, {names, {x = numbers}})
        end
        t.eq(decode '{"a":1,"b":2,"a":3}', {a = 3, b = 2})
    end,

    finalizers_may_change_what_is_sorted = function()
        local value, times = {}, 0
        local function garbage() -- anew with each cycle of the collector
            setmetatable({}, {__gc = function()
                times = times + 1
                if times > 300 then return end
                value["more " .. times] = times
                value["name " .. times] = nil
                garbage()
            end})
        end
        for i = 1, 500 do value["name " .. i] = i end
        collectgarbage("incremental", 100, 100)
        garbage()
        for _ = 1, 5000 do
            local ok, text = pcall(encode, value, {sorted = true})
            t.ok(ok or text:find "nil %(use json%.null%)", text)
            if times > 300 then break end
        end
        t.eq(#decode(encode(value, {sorted = true})) == 0 and times, 301)
    end,

    texts_for_people_are_sorted_and_indented = function()
        local value = {b = {1, {c = null}}, a = json.array(), ["\u{e9}"] = {}, ["a b"] = 1}
        t.eq(encode(value, {sorted = true}), '{"a":[],"a b":1,"b":[1,{"c":null}],"é":{}}')
        t.eq(encode(value, {sorted = true, indent = 2}), [[{
  "a": [],
  "a b": 1,
  "b": [
    1,
    {
      "c": null
    }
  ],
  "é": {}
}]])
        t.eq(encode({1}, {indent = 0}), "[\n1\n]")
    end,

    values_come_out_of_parts = function()
        local text = ' {"a": "]}\\"", "b": [1, {}]}\n12 "x"[true]null\t-1.5e3 '
        local values = {{a = "]}\"", b = {1, {}}}, 12, "x", {true}, null, -1500.0}
        for _, size in ipairs {1, 2, 3, 7, 100} do
            t.eq({read_all(text, size)}, {values}, size)
        end
        t.eq({read_all("1 [2", 1)}, {{1}, "line 1, column 3: it ends before it is complete",
            "badmsg"})
        t.eq({read_all("1\n\n [2,\n3,]", 2)}, {{1}, "line 4, column 3: a value expected",
            "badmsg"})
        t.eq({read_all("[1] " .. ("x"):rep(50), 4, {size = 10})}, {{{1}},
            "line 1: a value has more than 10 bytes", "toobig"})
        t.eq({read_all("", 1)}, {{}})
    end,

    members_come_out_of_one_document = function()
        for _, size in ipairs {1, 2, 5, 100} do
            t.eq({read_all(' [1, {"x": [2]}, "three"]\n', size, {each = true})},
                {{1, {x = {2}}, "three"}})
            t.eq({read_all('{"a": 1, "b\\n": [2], "c":{}}', size, {each = true})},
                {{{"a", 1}, {"b\n", {2}}, {"c", {}}}})
            t.eq({read_all("[] {} [[]] [7]", size, {each = true})}, {{{}, 7}})
            for text, wrong in pairs {["[1 2]"] = "',' or ']' expected", ["[1,]"] = "a value",
                ["[,1]"] = "a value expected", ["12"] = "an array or an object expected",
                ['{"a" 1}'] = "':' expected", ['{"a":1,}'] = "a key in quotes expected",
                ["{1:2}"] = "a key in quotes expected", ["[1"] = "it ends before",
                ["[1}"] = "',' or ']' expected", ['{"a":1]'] = "',' or '}' expected",
                ['{"a":'] = "it ends before", ["]"] = "an array or an object"} do
                local _, message, code = read_all(text, size, {each = true})
                t.ok(code == "badmsg" and message:find(wrong, 1, true), text)
            end
        end
    end,

    a_reader_keeps_no_more_than_a_value = function()
        local reader, sum = json.reader {each = true, size = 100}, 0
        reader:feed "["
        for i = 1, 5000 do
            reader:feed(('{"number": %d, "text": "%s"},'):format(i, ("x"):rep(50)))
            sum = sum + reader:next().number
        end
        t.eq(sum, 5000 * 5001 // 2)
        reader:feed "1]"
        t.eq(reader:next(), 1)
        t.eq(reader:next(), nil)
        reader:finish()
        t.raises("nothing can follow the end", reader.feed, reader, "1")
        local broken = json.reader()
        broken:feed "]"
        broken:finish()
        t.fails("badmsg", broken:next())
        t.raises("nothing can be read after it", broken.next, broken)
    end,

    values_are_read_from_anything = function()
        local function collect(...)
            local found = {}
            for value, key in json.values(...) do found[#found + 1] = key or value end
            return found
        end
        t.eq(collect "1 2 false", {1, 2, false})
        t.eq(collect('{"a":1,"b":2}', {each = true}), {"a", "b"})
        local parts = {"[1,", "2", "2]"}
        t.eq(collect(function() return table.remove(parts, 1) end, {each = true}), {1, 22})
        local name = os.tmpname()
        local file = assert(io.open(name, "w"))
        file:write("{}\n{}\n"):close()
        t.eq(#collect(assert(io.open(name))), 2)
        t.eq(#collect(assert(require "mare.file".open(name))), 2)
        os.remove(name)
        t.raises("line 1, column 3: a value expected", collect, "1 x ")
        t.raises("no luck", collect, function() return nil, "no luck", "io" end)
        t.eq(collect(function() return nil, "closed", "closed" end), {})
    end,

    null_and_marked_arrays_travel = function()
        local channel = mare.channel(1)
        channel:send(decode '{"a": null, "b": [], "c": [[], 1]}')
        local value = channel:receive()
        t.eq(value.a, null)
        t.eq(encode(value, {sorted = true}), '{"a":null,"b":[],"c":[[],1]}')
        local other = mare.spawn(function(given)
            local j = require "mare.json"
            return given == j.null, j.encode {x = given}
        end, null)
        t.eq({other:join()}, {true, true, '{"x":null}'})
    end,

    want_of_memory_is_an_error_wherever_it_comes = function()
        local text = '[{"a": "\\n", "b": [1, 2.5, {}]}' .. (', {"c": "\\u0041"}'):rep(20000) .. "]"
        for limit = 150000, 1200000, 150000 do
            local ok, why = mare.spawn({memory = limit}, function(given)
                local j = require "mare.json"
                local value = assert(j.decode(given))
                return #j.encode(value)
            end, text):join(t.patience)
            t.ok(not ok and why == "not enough memory", why)
        end
    end,

    misuse_is_refused_by_name = function()
        t.raises("unknown option 'dept'", decode, "1", {dept = 1})
        t.raises("unknown option 'each'", decode, "1", {each = true})
        t.raises("option 'depth' must be an integer from 1 to 1000", decode, "1", {depth = 1001})
        t.raises("option 'size' must be", decode, "1", {size = "5"})
        t.raises("unknown option 'pretty'", encode, 1, {pretty = true})
        t.raises("option 'indent' must be", encode, 1, {indent = true})
        t.raises("option 'sorted' must be", encode, 1, {sorted = 1})
        t.raises("option 'each' must be", json.reader, {each = 1})
        t.raises("bad argument #2 to 'values' %(unknown option 'x'", json.values, "1", {x = 1})
        t.raises("something to be read expected, got no value", json.values, nil)
        t.raises("something to be read expected, got table", json.values, {})
        t.raises("string expected", decode, nil)
        t.raises("value expected", encode)
        local err = t.raises("test_json", function() decode("1", {dept = 1}) end)
        t.ok(err:find "test_json.lua:%d+: bad argument #2 to 'decode'", err)
    end,
}
