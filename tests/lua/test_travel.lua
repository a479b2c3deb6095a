-- SPDX-License-Identifier: MIT
-- Functions, modules and objects in messages; and what is refused, with the place where it sits.
local mare, t = require "mare", require "t"

local function through(...)
    local ch = mare.channel(1)
    ch:send(...)
    return ch:receive()
end

-- Runs f in another process with what was sent to it.
local function there(f, ...)
    return select(2, assert(mare.spawn(f, ...):join(t.patience)))
end

local function refused(expected, ...)
    local ch = mare.channel(1)
    t.raises(expected, ch.send, ch, ...)
    t.eq(#ch, 0, "nothing was sent")
end

return {
    -- Functions.

    a_function_takes_its_upvalues_along = function()
        local n = 0
        local function count()
            n = n + 1
            return n
        end
        count()
        local copy = through(count)
        t.eq({copy(), copy(), count()}, {2, 3, 2}, "each has its own")
    end,

    functions_in_tables_share_their_upvalues = function()
        local function counter()
            local n = 0
            return {up = function() n = n + 1 end, get = function() return n end}
        end
        local got = through(counter())
        got.up()
        got.up()
        t.eq(got.get(), 2)
    end,

    a_function_sent_twice_arrives_once = function()
        local function f() end
        local a, b = through({f}, f)
        t.ok(a[1] == b)
    end,

    a_function_keeps_its_names_for_tracebacks = function()
        local f = through(function() error "with a place" end)
        local _, err = pcall(f)
        t.ok(err:find "test_travel.lua:%d+: with a place", err)
    end,

    a_closure_inside_a_closure = function()
        local function adder(a) return function(b) return a + b end end
        t.eq(through(adder)(1)(2), 3)
        t.eq(through(adder(10))(5), 15)
    end,

    a_function_that_holds_a_table_that_holds_it = function()
        local object = {n = 3}
        function object.get() return object.n end
        local got = through(object)
        got.n = 4
        t.eq(got.get(), 4)
    end,

    varargs_and_defaults_survive = function()
        local f = through(function(a, ...) return select("#", ...), a, ... end)
        t.eq({f(1, nil, 3)}, {2, 1, nil, 3})
    end,

    an_uninitialised_upvalue_is_nil = function()
        local later
        local f = through(function() return later end)
        later = 1
        t.eq(f(), nil)
        t.eq(later, 1)
    end,

    -- Libraries and modules.

    library_functions_arrive_as_the_receivers_own = function()
        t.ok(through(print) == print)
        t.ok(through(string.format) == string.format)
        t.ok(through(mare.spawn) == mare.spawn)
        t.eq(there(function(f, g) return f == math.floor, g == require "mare".channel end,
            math.floor, mare.channel), true)
    end,

    every_library_function_travels = function()
        for name, library in pairs(package.loaded) do
            if type(library) == "table" and _G[name] == library then
                for key, f in pairs(library) do
                    if type(f) == "function" then
                        t.ok(through(f) == f, name .. "." .. key)
                    end
                end
            end
        end
    end,

    library_tables_arrive_as_the_receivers_own = function()
        t.ok(through(string) == string)
        t.ok(through(mare) == mare)
        t.ok(through(_G) == _G)
        t.eq({there(function(s, m, g)
            return s == string, m == require "mare", g == _G
        end, string, mare, _G)}, {true, true, true})
    end,

    library_tables_inside_tables = function()
        local got = through {lib = string, deep = {mare}}
        t.ok(got.lib.format == string.format)
        t.ok(got.deep[1].spawn == mare.spawn)
    end,

    -- Objects that say how they travel.

    a_metatable_with_travel_takes_its_object_along = function()
        local code = [[
            local point = {}
            point.__index = point
            point.__travel = function(self) return "travel_point", {self.x, self.y} end
            function point.new(x, y) return setmetatable({x = x, y = y}, point) end
            function point.arrive(list) return point.new(list[1], list[2]) end
            function point:sum() return self.x + self.y end
            return point
        ]]
        package.preload.travel_point = load(code)
        local point = require "travel_point"
        local got = through(point.new(3, 4))
        t.eq(got:sum(), 7)
        t.eq(getmetatable(got), point)
        local inside = through {p = point.new(1, 2), point.new(5, 6)}
        t.eq({inside.p:sum(), inside[1]:sum()}, {3, 11})
        t.eq(there(function(source, p)
            return type(source), p
        end, code, 1), "string")
    end,

    what_travels_as_another_stays_one = function()
        package.preload.travel_box = load [[
            local box = {}
            box.__travel = function(self) return "travel_box", {self.value} end
            function box.new(value) return setmetatable({value = value}, box) end
            function box.arrive(list) return box.new(list[1]) end
            return box
        ]]
        local box = require "travel_box"
        local p, shared = box.new(1), {}
        local got = through {p, p, {p}, box.new(shared), shared, box.new(p)}
        t.ok(got[1] == got[2] and got[3][1] == got[1] and got[6].value == got[1])
        t.ok(got[4].value == got[5] and getmetatable(got[1]) == box)
        local loop = box.new()
        loop.value = {loop}
        refused("^arg 1, what __travel returned.*inside of what its own __travel returned", loop)
    end,

    objects_of_a_module = function()
        package.preload.travel_shapes = load [[
            local shapes = {made = {}}
            shapes.__index = shapes
            local Shape = {}
            Shape.__index = Shape
            function Shape:name() return "shape " .. self:kind() end
            local Circle = setmetatable({}, {__index = Shape})
            Circle.__index = Circle
            function Circle:kind() return "circle " .. self.r end
            local Hidden, Named = {__index = Shape}, {__name = "shapes.named"}
            shapes.Shape, shapes.round = Shape, {Circle = Circle}
            function shapes.circle(r) return setmetatable({r = r}, Circle) end
            function shapes.hidden() return setmetatable({}, Hidden) end
            function shapes.named() return setmetatable({}, Named) end
            function shapes.new(n) return setmetatable({n = n}, shapes) end
            function shapes:twice() return self.n * 2 end
            return shapes
        ]]
        local shapes = require "travel_shapes"
        local got = through(shapes.circle(2))
        t.eq({got:name(), getmetatable(got) == shapes.round.Circle}, {"shape circle 2", true})
        t.eq(through(shapes.new(4)):twice(), 8)
        local c = shapes.circle(1)
        c.me, c.list = c, {c, shapes.new(3), shapes.circle(5)}
        got = through {c, c}
        t.ok(got[1] == got[2] and got[1].me == got[1] and got[1].list[1] == got[1])
        t.eq({got[1].list[2]:twice(), got[1].list[3]:name()}, {6, "shape circle 5"})
        t.eq({there(function(o, n) return o:name() .. n, c.r end, shapes.circle(7), 1)},
            {"shape circle 71", 1})
        refused("arg 1, field 'h': a table with a metatable that is in no loaded module",
            {h = shapes.hidden()})
        refused("^arg 1, index 1: a table %(shapes.named%) with a metatable that is in no loaded "
            .. "module and has no __travel cannot travel$", {shapes.named()})
        local channel = mare.channel(2)
        channel:send(shapes.circle(1), {shapes.circle(2)}) -- a mixed table with handles beside it
        t.ok(channel:receive())
        shapes.round.Circle = nil
        refused("in no loaded module", shapes.circle(1))
    end,

    an_object_whose_class_is_not_there_fails_where_it_arrives = function()
        package.preload.travel_odd = load "return {Class = ... and {}}"
        local odd = require "travel_odd"
        local ok, err = mare.spawn(function(ch)
            package.preload.travel_odd = function() return {} end
            return pcall(ch.receive, ch)
        end, (function()
            local ch = mare.channel(1)
            ch:send(setmetatable({}, odd.Class))
            return ch
        end)()):join(t.patience)
        t.eq({ok, err}, {true, false})
    end,

    finalizers_of_objects_run_where_they_arrive = function()
        package.preload.travel_final = load [[
            local final = {}
            final.__gc = function(self) self.ch:trysend(self.n) end
            return final
        ]]
        local final, ch = require "travel_final", mare.channel(4)
        local p = mare.spawn(function(o) return o.n end, setmetatable({n = 7, ch = ch}, final))
        t.eq({p:join(t.patience)}, {true, 7})
        t.eq(ch:receive(t.patience), 7)
    end,

    a_travel_that_fails_is_refused = function()
        local function object(f) return setmetatable({}, {__travel = f}) end
        refused("^arg 1: its __travel failed: .*not today$",
            object(function() error "not today" end))
        refused("arg 2, field 'o'.*__travel does not return", 1, {o = object(function() end)})
        refused("what __travel returned: a file", object(function() return "m", io.stdout end))
    end,

    a_travel_that_returns_its_own_value_is_refused = function()
        local function object(f) return setmetatable({}, {__travel = f}) end
        local why = "inside of what its own __travel returned cannot travel"
        refused("^arg 1, what __travel returned: a value " .. why,
            object(function(self) return "m", self end))
        refused("field 'o', what __travel returned, field 'x', index 1: a value " .. why,
            {o = object(function(self) return "m", {x = {self}} end)})
        local other = {}
        local one = object(function() return "m", other end)
        setmetatable(other, {__travel = function() return "m", {one} end})
        refused(why, one)
        -- Twice, one beside the other, is no circle.
        one = object(function() return "m", 1 end)
        t.ok(mare.channel(1):send({one, one}, one, object(function() return "m", {one, one} end)))
    end,

    a_module_that_the_receiver_cannot_load_fails_there = function()
        local ch = mare.channel(1)
        ch:send(setmetatable({}, {__travel = function() return "travel.nosuch", 1 end}))
        t.raises("travel.nosuch", ch.receive, ch)
        t.eq(#ch, 0)
    end,

    -- Refusals.

    files_threads_and_objects_are_refused = function()
        refused("^arg 1: a file cannot travel", io.stdout)
        refused("^arg 1: a coroutine cannot travel", coroutine.create(print))
        refused("^arg 1: a table with a metatable", setmetatable({}, {}))
        refused("^arg 1: a C function that is not part of a library", coroutine.wrap(print))
        refused("^arg 1: a C function", ("x"):gmatch ".")
    end,

    the_place_is_named = function()
        refused("^arg 2, field 'log': a file", 1, {log = io.stdout})
        refused("^arg 1, index 3: a file", {1, 2, io.stdout})
        refused("^arg 1, field 'a', field 'b', index 1: a file", {a = {b = {io.stdout}}})
        refused("^arg 1, boolean key: a file", {[true] = io.stdout})
        refused("^arg 3, index %-7: a file", 1, 2, {[-7] = io.stdout})
    end,

    a_file_inside_a_table_inside_an_upvalue = function()
        local config = {outputs = {main = io.stdout}}
        local function f() return config end
        refused("^arg 1, upvalue 'config', field 'outputs', field 'main': a file", f)
        refused("^arg 1, field 'callback', upvalue 'config', field 'outputs', field 'main': a file",
            {callback = f})
    end,

    a_key_that_cannot_travel = function()
        refused("arg 1, .*key: a file cannot travel", {[io.stdout] = 1})
        refused("arg 1, .*key.*: a file cannot travel", {[{io.stdout}] = 1})
    end,

    a_very_deep_place_is_shortened = function()
        local deep = {io.stdout}
        for _ = 1, 100 do deep = {d = deep} end
        local err = t.raises("a file cannot travel", mare.channel(1).send, mare.channel(1), deep)
        t.ok(#err < 1000 and err:find("...", 1, true), err)
    end,

    a_refusal_leaves_the_channel_as_it_was = function()
        local ch = mare.channel()
        local p = mare.spawn(function() return ch:receive() end)
        t.reaches(function() return p:status() == "blocked" end)
        t.raises("cannot travel", ch.send, ch, io.stdout)
        t.raises("cannot travel", ch.trysend, ch, io.stdout)
        t.raises("cannot travel", ch.sendwithin, ch, 1, io.stdout)
        ch:send "good"
        t.eq({p:join(t.patience)}, {true, "good"})
    end,
}
