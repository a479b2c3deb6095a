-- SPDX-License-Identifier: MIT
-- mare.tuple: what matches, who gets it, and that exactly one does, whoever dies.
local mare, t, tuple = require "mare", require "t", require "mare.tuple"
local countdown = require "countdown"

return {
    patterns = function()
        local space = tuple.create()
        local function found(...) return (select(3, space:rdp(...))) ~= "empty" end
        space:out("a", 1, nil, true)
        t.ok(found("a", 1, nil, true))
        t.ok(found(tuple.any, tuple.any, tuple.any, tuple.any))
        t.ok(found(tuple.string, tuple.integer, nil, tuple.boolean))
        t.ok(found("a", tuple.number, tuple.any, true))
        for _, wrong in ipairs {{"a", 1, nil}, {"a", 1.0, nil, true}, {"b", 1, nil, true},
                                {"a", tuple.float, nil, true}, {"a", 1, false, true},
                                {tuple.table, 1, nil, true}, {"a", 1, nil, true, false}} do
            t.ok(not found(table.unpack(wrong, 1, #wrong)), t.show(wrong))
        end
        space:out({x = {1, 2}})
        t.ok(found({x = {1, 2}}))
        t.ok(found(tuple.table))
        t.ok(not found({x = {1}}))
        t.ok(not found({x = {1, 2}, y = 1}))
        space:out()
        t.ok(found())
    end,

    circles_of_different_lengths_match = function()
        local space = tuple.create()
        local function circle(length, last)
            local first = {}
            local at = first
            for _ = 2, length do
                at.next = {}
                at = at.next
            end
            at.next, at.last = first, last
            return first
        end
        space:out(circle(2))
        space:out(circle(3, "other"))
        t.eq(select("#", space:rdwithin(t.patience, circle(1))), 1)
        t.eq(select("#", space:rdwithin(t.patience, circle(3))), 1)
        t.fails("empty", space:rdp(circle(1, "another")))
    end,

    tables_that_lie_deep_in_each_other_match = function()
        local space, depth = tuple.create(), t.gc_stress and 5000 or 190000
        local function deep(last)
            local at = {last}
            for _ = 1, depth do at = {at} end
            return at
        end
        t.ok(space:out("deep", deep(1)))
        t.fails("empty", space:rdp("deep", deep(2)))
        t.eq(space:inwithin(t.patience, "deep", deep(1)), "deep")
    end,

    in_takes_and_rd_leaves = function()
        local space = tuple.create()
        space:out("n", 1)
        space:out("n", 2)
        t.eq({space:rd("n", tuple.any)}, {"n", 1}, "the oldest")
        t.eq({space:in_("n", tuple.any)}, {"n", 1})
        t.eq({space["in"](space, "n", tuple.any)}, {"n", 2})
        t.fails("empty", space:inp("n", tuple.any))
        t.fails("empty", space:rdp("n", tuple.any))
        t.fails("timeout", space:inwithin(0.001, "n", tuple.any))
        t.fails("timeout", space:rdwithin(0.001, "n", tuple.any))
        space:out("n", 3)
        t.eq({space:inwithin(t.patience, "n", 3)}, {"n", 3})
    end,

    who_waits_is_served_when_it_comes = function()
        local space = tuple.create()
        local reader, first, second = mare.go(space.rd, space, "x"), mare.go(space.in_, space, "x"),
            mare.go(space.in_, space, "x")
        t.settle()
        space:out("x")
        t.eq({reader:join(t.patience)}, {true, "x"})
        t.eq({first:join(t.patience)}, {true, "x"})
        t.eq(second:status(), "alive")
        second:cancel()
        t.eq({select(4, second:join(t.patience))}, {"cancelled"})
        space:out("x")
        t.eq({space:inp("x")}, {"x"}, "who was cancelled has left the line")
    end,

    a_tuple_is_taken_by_exactly_one = function()
        local space, done = tuple.create(), mare.channel(1000)
        local list = {}
        for i = 1, 6 do
            list[i] = mare.spawn(function()
                while true do
                    local _, n = space:in_("job", require "mare.tuple".integer)
                    if n == 0 then return end
                    done:send(n)
                end
            end)
        end
        for n = 1, 150 do space:out("job", n) end
        for _ = 1, 6 do space:out("job", 0) end
        for _, p in ipairs(list) do t.ok(p:join(t.patience)) end
        local seen = {}
        while #done > 0 do
            local n = done:receive()
            t.ok(not seen[n], "taken twice")
            seen[n] = true
        end
        t.eq(#seen, 150)
    end,

    a_deadline_never_loses_a_tuple = function()
        local space, got = tuple.create(), 0
        local n = t.gc_stress and 20 or 150
        for i = 1, n do
            local r = mare.go(space.inwithin, space, 0.0001, "x", tuple.any)
            mare.yield()
            space:out("x", i)
            local _, word = r:join(t.patience)
            if word or space:inp("x", tuple.any) then got = got + 1 end
        end
        t.eq(got, n)
    end,

    who_takes_is_killed_at_every_line = function()
        local space, done = tuple.create(), mare.channel(1)
        local lost = 0
        local killed = countdown.each(countdown.step(2), function(n)
            space:out("x", n)
            local p = mare.spawn(countdown.body, n, function(x)
                local _, y = space:in_("x", x)
                done:send(y)
            end, n)
            p:join(t.patience)
            -- It was put back, or taken for good; never both.
            local taken = #done > 0 and done:receive()
            local back = space:inp("x", n)
            t.ok(not (taken and back), "two have it")
            if not taken and not back then lost = lost + 1 end
            return p
        end)
        t.ok(killed > 5, killed)
        -- Only between the word that it arrived and the next line that the program runs.
        t.ok(lost <= 12, lost)
    end,

    a_tuple_that_did_not_arrive_is_put_back = function()
        local space, reply = tuple.create(), mare.channel(1)
        space:out("x", 1)
        mare.spawn(function() -- asks for it, is given it, and never says that it has it
            space.channel:send("find", 1, reply, mare.self(), {"x", 1, n = 2}, true, false)
            while #reply == 0 do mare.yield() end
        end):join(t.patience)
        t.eq({space:inwithin(t.patience, "x", 1)}, {"x", 1})
        t.fails("empty", space:inp("x", 1))
    end,

    what_has_one_owner_is_refused = function()
        local space, text = tuple.create(), mare.buffer "mine"
        t.raises("bad argument #2 to 'out' %(a buffer has one owner", space.out, space, "x", text)
        t.raises("bad argument #1 to 'out'", space.out, space, {"deep", {text}})
        t.eq(#text, 4) -- it has not left
        space:out("x", 1)
        t.eq({space:rdp("x", tuple.any)}, {"x", 1})
    end,

    -- A function may hide such a value, and a message made by hand has it.
    a_tuple_that_cannot_be_given_twice_keeps_nobody = function()
        local space, hidden = tuple.create(), mare.buffer "hidden"
        space:out("f", function() return #hidden end)
        space.channel:send("out", {"b", mare.buffer "by hand", n = 2})
        for _, name in ipairs {"f", "b"} do
            local _, what = space:rdwithin(t.patience, name, tuple.any)
            t.ok(what)
            t.fails("empty", space:rdp(name, tuple.any)) -- it left with who read it
            local r = mare.go(space.inwithin, space, t.patience, name, tuple.any)
            t.settle()
            space:out(name, 1)
            t.eq({r:join(t.patience)}, {true, name, 1})
        end
    end,

    the_creator_dies = function()
        local ready = mare.channel()
        local creator = mare.spawn(function()
            ready:send(require "mare.tuple".create())
            mare.channel():receive()
        end)
        local space = ready:receive(t.patience)
        t.ok(space:out("x"))
        t.eq(space:in_("x"), "x")
        local r = mare.go(space.in_, space, "y")
        t.settle()
        creator:kill()
        t.eq({select(4, r:join(t.patience))}, {"noproc"})
        t.fails("noproc", space:out("z"))
        t.fails("noproc", space:rdp("z"))
    end,

    spaces_and_patterns_travel = function()
        local space, ch = tuple.create(), mare.channel(2)
        ch:send(space, tuple.any)
        local again, any = ch:receive()
        t.ok(rawequal(again, space) and rawequal(any, tuple.any))
        local p = mare.spawn(function(s) s:out("from", mare.self()) end, space)
        t.eq({space:in_("from", p)}, {"from", p})
    end,
}
