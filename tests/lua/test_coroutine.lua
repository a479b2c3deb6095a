-- SPDX-License-Identifier: MIT
-- The program's own coroutines, and waits inside them and wherever else Lua code is called from.
local mare, t = require "mare", require "t"

-- A channel from which a number can be received, later: the sender yields first.
local function soon(...)
    local ch = mare.channel()
    mare.spawn(function(...)
        mare.yield()
        ch:send(...)
    end, ...)
    return ch
end

return {
    -- Coroutines as they always were.

    resume_and_yield_pass_values = function()
        local co = coroutine.create(function(a, b)
            local c = coroutine.yield(a + b)
            local d, e = coroutine.yield(c * 2)
            return d, e, nil
        end)
        t.eq({coroutine.resume(co, 1, 2)}, {true, 3})
        t.eq({coroutine.resume(co, 5)}, {true, 10})
        t.eq(table.pack(coroutine.resume(co, 7)), {true, 7, nil, nil, n = 4})
        t.eq({coroutine.resume(co)}, {false, "cannot resume dead coroutine"})
    end,

    status_running_and_isyieldable_agree = function()
        local outer
        outer = coroutine.create(function()
            local inner = coroutine.create(function()
                t.eq(coroutine.status(outer), "normal")
                t.eq(coroutine.isyieldable(), true)
                t.eq(select(2, coroutine.running()), false)
                coroutine.yield()
            end)
            t.eq(coroutine.running(), outer)
            t.eq(coroutine.status(inner), "suspended")
            assert(coroutine.resume(inner))
            t.eq(coroutine.status(inner), "suspended")
            t.eq(coroutine.status(outer), "running")
            assert(coroutine.resume(inner))
            t.eq(coroutine.status(inner), "dead")
        end)
        assert(coroutine.resume(outer))
        t.eq(coroutine.status(outer), "dead")
        t.eq(select(2, coroutine.running()), true)
    end,

    errors_come_through_resume_and_wrap = function()
        local co = coroutine.create(function() error {code = 1} end)
        local ok, err = coroutine.resume(co)
        t.eq({ok, err}, {false, {code = 1}})
        t.eq(coroutine.status(co), "dead")
        t.raises("oops", coroutine.wrap(function() error "oops" end))
        local table_error = {}
        ok, err = pcall(coroutine.wrap(function() error(table_error) end))
        t.eq(ok, false)
        t.ok(err == table_error)
        local f = coroutine.wrap(function() end)
        f()
        t.raises("cannot resume dead coroutine", f)
    end,

    close_runs_pending_variables = function()
        local log = {}
        local co = coroutine.create(function()
            local _guard <close> = setmetatable({}, {__close = function() log[1] = "closed" end})
            coroutine.yield()
        end)
        coroutine.resume(co)
        t.eq({coroutine.close(co)}, {true})
        t.eq({log[1], coroutine.status(co)}, {"closed", "dead"})
        co = coroutine.create(function()
            local _guard <close> = setmetatable({}, {__close = function() error("bad", 0) end})
            coroutine.yield()
        end)
        coroutine.resume(co)
        t.eq({coroutine.close(co)}, {false, "bad"})
        t.raises("cannot close a running coroutine", coroutine.close, coroutine.running())
    end,

    a_coroutine_cannot_resume_itself_or_its_parent = function()
        local co
        co = coroutine.create(function() return coroutine.resume(co) end)
        t.eq({coroutine.resume(co)}, {true, false, "cannot resume non-suspended coroutine"})
        local wrapped
        wrapped = coroutine.wrap(function() return pcall(wrapped) end)
        local ok, err = wrapped()
        t.eq(ok, false)
        t.ok(err:find "non%-suspended", err)
    end,

    generators_nest = function()
        local function range(n)
            return coroutine.wrap(function() for i = 1, n do coroutine.yield(i) end end)
        end
        local sum = 0
        for i in range(10) do
            for j in range(i) do sum = sum + j end
        end
        t.eq(sum, 220)
    end,

    many_coroutines_deep = function()
        local function nest(n)
            if n == 0 then return 0 end
            return 1 + coroutine.wrap(nest)(n - 1)
        end
        t.eq(nest(150), 150)
        local ok, err = pcall(nest, 100000)
        t.eq(ok, false)
        t.ok(tostring(err):find "overflow", err)
    end,

    yield_across_pcall_and_metamethods = function()
        local object = setmetatable({}, {__index = function(_, k) return coroutine.yield(k) end})
        local f = coroutine.wrap(function()
            local ok, v = pcall(function() return object.key end)
            return ok, v
        end)
        t.eq(f(), "key")
        t.eq({f("value")}, {true, "value"})
    end,

    a_yield_at_the_top_level_gives_way = function()
        local p = mare.spawn(function()
            local got = table.pack(coroutine.yield("dropped"))
            return got.n
        end)
        t.eq({p:join(t.patience)}, {true, 0})
    end,

    wrap_as_an_iterator_with_close = function()
        local log = {}
        local closing = setmetatable({}, {__close = function() log[1] = "closed" end})
        for i in coroutine.wrap(function() for i = 1, 5 do coroutine.yield(i) end end), nil, nil,
            closing do
            if i == 3 then break end
        end
        t.eq(log, {"closed"})
    end,

    -- Waiting inside them.

    a_wait_inside_a_coroutine_suspends_the_routine_only = function()
        local ch = soon(42)
        local co = coroutine.create(function(a)
            local got = ch:receive()
            local b = coroutine.yield(got + a)
            return b
        end)
        t.eq({coroutine.resume(co, 1)}, {true, 43}, "resume returns at the program's own yield")
        t.eq(coroutine.status(co), "suspended")
        t.eq({coroutine.resume(co, "end")}, {true, "end"})
    end,

    a_wait_many_coroutines_deep = function()
        local ch = soon("deep")
        local function nest(n)
            if n == 0 then return ch:receive() end
            return coroutine.wrap(nest)(n - 1)
        end
        t.eq(nest(50), "deep")
    end,

    waits_and_yields_take_turns = function()
        local ch = mare.channel()
        mare.spawn(function() for i = 1, 100 do ch:send(i) end ch:close() end)
        local function pairs_of_messages()
            return coroutine.wrap(function()
                while true do
                    local a = ch:receive()
                    if not a then return end
                    coroutine.yield(a, (ch:receive()))
                end
            end)
        end
        local sum, count = 0, 0
        for a, b in pairs_of_messages() do
            t.eq(b, a + 1)
            sum, count = sum + a + b, count + 1
        end
        t.eq({sum, count}, {5050, 50})
    end,

    an_error_after_a_wait_comes_through = function()
        local ch = soon(1)
        local co = coroutine.create(function()
            ch:receive()
            error("after", 0)
        end)
        t.eq({coroutine.resume(co)}, {false, "after"})
        ch = soon(1)
        t.raises("after$", coroutine.wrap(function()
            ch:receive()
            error "after"
        end))
    end,

    two_coroutines_of_one_process_wait_in_turn = function()
        local a, b = soon("a"), soon("b")
        local f = coroutine.wrap(function() coroutine.yield(a:receive()) return "a2" end)
        local g = coroutine.wrap(function() coroutine.yield(b:receive()) return "b2" end)
        t.eq({f(), g(), g(), f()}, {"a", "b", "b2", "a2"})
    end,

    every_kind_of_wait_inside_a_coroutine = function()
        local p = mare.spawn(function() return "joined" end)
        local ch, sink = soon("received"), mare.channel()
        mare.spawn(function() sink:receive() end)
        t.eq({coroutine.wrap(function()
            local a = ch:receive()
            mare.sleep(0.001)
            local _, b = p:join()
            mare.yield()
            local c = sink:send(1)
            local d = mare.select({soon(1)})
            local e = select(3, mare.channel():receive(0.001))
            return a, b, c, d, e
        end)()}, {"received", "joined", true, 1, "timeout"})
    end,

    -- Waiting wherever Lua can be called from.

    inside_pcall_and_xpcall = function()
        t.eq({pcall(function() return soon(1):receive() end)}, {true, 1})
        local ok, err = xpcall(function()
            soon(1):receive()
            error("caught", 0)
        end, function(e) return e .. " and handled" end)
        t.eq({ok, err}, {false, "caught and handled"})
    end,

    inside_metamethods = function()
        local ch = soon("found")
        local object = setmetatable({}, {
            __index = function() return ch:receive() end,
            __add = function() return soon("added"):receive() end,
            __eq = function() return soon(true):receive() end,
            __lt = function() return soon(true):receive() end,
            __concat = function() return soon("joined"):receive() end,
            __call = function() return soon("called"):receive() end,
            __newindex = function(_, k, v) return soon(v):receive() end,
            __len = function() return soon(7):receive() end,
        })
        t.eq(object.x, "found")
        t.eq(object + 1, "added")
        t.eq(object == setmetatable({}, getmetatable(object)), true)
        t.eq(object < object, true)
        t.eq(object .. "x", "joined")
        t.eq(object(), "called")
        object.y = 1
        t.eq(#object, 7)
    end,

    inside_iterators = function()
        local ch = mare.channel()
        mare.spawn(function() for i = 1, 5 do ch:send(i) end ch:close() end)
        local sum = 0
        for i in function() return (ch:receive()) end do sum = sum + i end
        t.eq(sum, 15)
    end,

    inside_dofile_and_load = function()
        local name = os.tmpname()
        local file = assert(io.open(name, "w"))
        file:write "local mare = require 'mare'; mare.sleep(0.001); return 'slept'"
        file:close()
        t.eq(dofile(name), "slept")
        t.eq(load "require 'mare'.sleep(0.001); return 1" (), 1)
        os.remove(name)
    end,

    inside_a_close_handler = function()
        local ch, got = soon("late"), nil
        do
            local _guard <close> = setmetatable({}, {__close = function() got = ch:receive() end})
        end
        t.eq(got, "late")
    end,

    -- Where it cannot.

    not_inside_the_callbacks_of_c_functions = function()
        local ch = mare.channel()
        local function wait() ch:receive() end
        t.raises("cannot wait here", table.sort, {2, 1}, wait)
        t.raises("cannot wait here", string.gsub, "x", "x", wait)
        t.raises("cannot wait here", function()
            local _, err = load(function() wait() end)
            error(err, 0)
        end)
        t.raises("cannot wait here", table.sort, {2, 1}, function() mare.sleep(1) end)
        t.raises("cannot wait here", table.sort, {2, 1}, function() mare.select({ch}) end)
        t.raises("cannot wait here", table.sort, {2, 1}, function() ch:send(1) end)
        t.fails("full", ch:trysend(1))
        t.fails("empty", ch:tryreceive())
    end,

    not_in_a_coroutine_inside_such_a_callback = function()
        t.raises("cannot wait here", table.sort, {2, 1}, function()
            coroutine.wrap(function() mare.channel():receive() end)()
        end)
    end,

    what_needs_no_wait_works_even_there = function()
        local ch = mare.channel(5)
        local list = {3, 1, 2}
        table.sort(list, function(a, b)
            ch:trysend(a)
            ch:tryreceive()
            mare.yield()
            return a < b
        end)
        t.eq(list, {1, 2, 3})
        t.eq(("abc"):gsub(".", function(c)
            ch:send(c)
            return ch:receive():upper()
        end), "ABC")
    end,

    not_in_a_finalizer = function()
        local ok, err
        setmetatable({}, {__gc = function()
            ok, err = pcall(function() mare.channel():receive() end)
        end})
        collectgarbage()
        collectgarbage()
        t.eq(ok, false)
        t.ok(err:find "cannot wait here", err)
    end,
}
