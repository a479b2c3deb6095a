-- SPDX-License-Identifier: MIT
-- ALua's model: chunks, what comes back of them, and what each fault does to those who wait.
local mare, alua = require "mare", require "alua"
local t, peers = require "t", require "peers"

-- Runs f when this process is open; f, or what it begins, closes it.
local function opened(f, options)
    local home <close> = peers.home(options)
    local problem
    alua.open({}, function(reply)
        t.eq(reply.status, "ok", reply.error)
        t.eq(reply.id, alua.id)
        t.eq(reply.daemon, home.address)
        local ok, message = pcall(f, home)
        if not ok then
            problem = message
            alua.close()
        end
    end)
    alua.loop()
    if problem then error(problem, 0) end
end

-- Where the processes of a case say something.
local function with_told(f, options)
    local told = mare.channel(1000, "told")
    local _ <close> = told
    opened(function(home) f(told, home) end, options)
end

local function ids_of(reply)
    local ids = {}
    for id in pairs(reply.processes) do ids[#ids + 1] = id end
    table.sort(ids)
    return ids
end

local function in_order(told, count)
    for i = 1, count do t.eq(told:receive(t.patience), i) end
end

return {
    chunks_run_one_after_the_other = function()
        with_told(function(told)
            alua.spawn({"worker"}, function(made)
                t.eq(made.status, "ok", made.error)
                t.eq(made.processes, {worker = {status = "ok", daemon = alua.daemonid}})
                alua.send("worker", "mare, n = require 'mare', 0; told = mare.find 'told'")
                for i = 1, 100 do -- each gives others a chance, and is alone nevertheless
                    alua.send("worker", ([[
                        n = n + 1
                        local mine = n
                        mare.yield()
                        assert(n == mine)
                        told:send(%d)
                    ]]):format(i), i == 100 and function(reply)
                        t.eq(reply.status, "ok", reply.error)
                        in_order(told, 100)
                        alua.close()
                    end or nil)
                end
            end)
        end)
    end,

    a_chunk_that_fails_says_why = function()
        opened(function()
            alua.spawn(1, function(made)
                local id = ids_of(made)[1]
                t.ok(id:find "^%d+@127%.0%.0%.1:%d+$", id)
                local expected = {{"1 +", "unexpected symbol"},
                    {"error 'on purpose'", "on purpose"}, {"error {}", "table: "},
                    {string.dump(function() end), "binary"},
                    {"error(setmetatable({}, {__tostring = error}))", "cannot be shown"},
                    {"x = alua.id", nil}}
                local count = 0
                for _, case in ipairs(expected) do
                    alua.send(id, case[1], function(reply)
                        t.eq(reply.status, case[2] and "error" or "ok", reply.error)
                        t.ok(not case[2] or reply.error:find(case[2], 1, true), reply.error)
                        t.eq(reply[id], {status = reply.status, error = reply[id].error})
                        count = count + 1
                        if count == #expected then alua.close() end
                    end)
                end
            end)
        end)
    end,

    each_of_several_destinations_has_an_answer = function()
        opened(function()
            alua.spawn({"one", "two"}, function()
                alua.send({"one", "nobody", "two", "one"}, "n = (n or 0) + 1", function(reply)
                    t.eq(reply.status, "error")
                    t.ok(reply.error:find "^nobody: there is no process", reply.error)
                    t.eq(reply.one.status, "ok")
                    t.eq(reply.two.status, "ok")
                    t.eq(reply.nobody.status, "error")
                    local count = 0
                    for _ in pairs(reply) do count = count + 1 end
                    t.eq(count, 3)
                    alua.send("one", "assert(n == 1)", function(once)
                        t.eq(once.status, "ok", once.error)
                        alua.close()
                    end)
                end)
            end)
        end)
    end,

    names_are_taken_once = function()
        opened(function()
            alua.spawn({"one"}, function()
                alua.spawn({"one", "two"}, function(made)
                    t.eq(made.status, "error")
                    t.ok(made.error:find "already", made.error)
                    t.eq(made.processes.one.status, "error")
                    t.eq(made.processes.two.status, "ok")
                    alua.close()
                end)
            end)
        end)
    end,

    chunks_send_chunks = function()
        opened(function()
            alua.spawn({"ping", "pong"}, function()
                local ROUNDS = t.gc_stress and 20 or 200
                _G.finished = function(n)
                    t.eq(n, ROUNDS)
                    _G.finished = nil
                    alua.close()
                end
                alua.send({"ping", "pong"}, ([[
                    function turn(n)
                        if n == %d then return alua.send(%q, "finished(" .. n .. ")") end
                        alua.send(alua.id == "ping" and "pong" or "ping", "turn(" .. n + 1 .. ")")
                    end
                ]]):format(ROUNDS, alua.id), function() alua.send("ping", "turn(0)") end)
            end)
        end)
    end,

    who_is_ended_is_not_there_any_more = function()
        opened(function()
            alua.spawn({"one", "two", "three"}, function()
                alua.exit({"one", "two"}, 0, function(reply)
                    t.eq(reply.status, "ok", reply.error)
                    -- What follows an exit in a chunk is not run; the sender is told all is well.
                    alua.send("three", "alua.exit() error 'not reached'", function(last)
                        t.eq(last.status, "ok", last.error)
                        alua.send({"one", "three"}, "", function(gone)
                            t.eq(gone.one.status, "error")
                            t.eq(gone.three.status, "error")
                            alua.close()
                        end)
                    end)
                end)
            end)
        end)
    end,

    who_waits_for_a_process_that_dies_is_told = function()
        opened(function()
            alua.spawn({"one"}, function()
                local count = 0
                local function failed(reply)
                    t.eq(reply.status, "error")
                    t.ok(reply.error:find "ended", reply.error)
                    count = count + 1
                    if count == 2 then alua.close() end
                end
                alua.send("one", "require 'mare'.self():kill()", failed)
                alua.send("one", "", failed) -- behind it
            end)
        end)
    end,

    closing_ends_what_is_outstanding = function()
        local status, error
        opened(function()
            alua.spawn({"busy"}, function()
                alua.send("busy", "require 'mare'.sleep(1000)", function(reply)
                    status, error = reply.status, reply.error
                end)
                t.eq(alua.close(), true)
                t.eq(alua.id, nil)
                t.eq(alua.daemonid, nil)
            end)
        end)
        t.eq(status, "error")
        t.ok(error:find "closed", error)
    end,

    who_closes_in_a_chunk_has_run_it = function()
        with_told(function(told)
            alua.spawn({"other"}, function()
                _G.stop = function()
                    alua.close()
                    t.eq(told:receive(t.patience), "ok")
                end
                alua.send("other", ([[alua.send(%q, "stop()", function(reply)
                    require "mare".find "told":send(reply.status)
                end)]]):format(alua.id))
            end)
        end)
    end,

    what_a_process_cannot_take_is_refused = function()
        opened(function()
            alua.spawn({"busy"}, function()
                local chunk = ("-"):rep(9 << 20)
                alua.send("busy", "require 'mare'.sleep(1000)")
                alua.send("busy", chunk)
                alua.send("busy", chunk, function(reply)
                    t.ok(reply.error:find "too many chunks", reply.error)
                    alua.close()
                end)
            end)
        end)
    end,

    calls_are_not_kept_without_end = function()
        if t.gc_stress then t.skip "takes long" end
        opened(function()
            alua.spawn({"busy"}, function()
                alua.send("busy", "require 'mare'.sleep(1000)", function() end)
                for _ = 1, 9999 do alua.send("busy", "", function() end) end
                alua.send("busy", "", function(reply)
                    t.ok(reply.error:find "10000 calls have not been answered", reply.error)
                    alua.close()
                end)
            end)
        end)
    end,

    misuse_is_answered = function()
        local errors, wrong = {}, {{"send", "x", ""}, {"spawn", 1}, {"link", {"x"}}}
        for _, case in ipairs(wrong) do
            case[#case + 1] = function(reply) errors[#errors + 1] = reply.error end
            alua[case[1]](table.unpack(case, 2))
        end
        alua.loop() -- nothing more can come
        for i = 1, 3 do t.ok(errors[i]:find "not open", errors[i]) end
        t.eq(#errors, 3)
        t.raises("string expected", alua.send, "x", 1)
        t.raises("function expected", alua.spawn, 1, 1)
        t.eq(alua.close(), false)
        opened(function()
            local count, cases = 0, {{"send", {}, ""}, {"send", {1}, ""}, {"spawn", 0},
                {"spawn", {}}, {"spawn", {"a@b"}}, {"spawn", {"a", "a"}}, {"spawn", {x = "y"}},
                {"link", {}},
                {"link", "x"}, {"exit", "x", "y"}, {"open", {}}}
            for _, case in ipairs(cases) do
                case[#case + 1] = function(reply)
                    t.eq(reply.status, "error", case[1])
                    count = count + 1
                    if count == #cases then alua.close() end
                end
                alua[case[1]](table.unpack(case, 2))
            end
        end)
    end,

    timers_run_in_the_loop = function()
        local count, other = 0, 0
        alua.timer.create(0.001, function(timer)
            count = count + 1
            if count == 3 then alua.timer.cancel(timer) end
        end)
        alua.timer.create(0.001, function()
            other = other + 1
            if count == 3 then alua.timer.flush() end
        end)
        alua.loop()
        t.eq(count, 3)
        t.ok(other > 0)
        t.raises("above 0", alua.timer.create, 0, print)
    end,

    values_are_written_as_code = function()
        local value = {1, -2.5, "three\n\0\"", {four = true}, [10] = false, [0.1] = 1 / 3,
            big = 1e300, whole = 2.0, least = math.mininteger, huge = math.huge}
        local back = t.ok(load("return " .. alua.codec.dump(value)))()
        t.eq(back, value)
        t.eq(math.type(back.whole), "float")
        t.eq(alua.tostring "x", '"x"')
        t.eq(alua.tostring {print, f = print}, "{}")
        t.eq(alua.tostring(print), "")
        t.eq(alua.tostring(nil), "nil")
        local nan = load("return " .. alua.tostring(0 / 0))()
        t.ok(nan ~= nan)
        value.self = value
        t.raises("contains itself", alua.codec.dump, value)
    end,
}
