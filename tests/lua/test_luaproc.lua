-- SPDX-License-Identifier: MIT
-- The published interface of luaproc: each call, its success and failure values, its messages.
local mare, t, luaproc = require "mare", require "t", require "luaproc"

-- A process that luaproc made, and has blocked: it is the one that was not there before.
local function blocked(f)
    local before = {}
    for _, row in ipairs(mare.processes()) do before[row.id] = true end
    t.eq({luaproc.newproc(f)}, {true})
    t.reaches(function()
        for _, row in ipairs(mare.processes()) do
            if not before[row.id] and row.status == "blocked" then return true end
        end
    end)
end

-- A new luaproc channel, deleted when closed.
local function channel(name)
    t.eq({luaproc.newchannel(name)}, {true})
    return setmetatable({}, {__close = function() luaproc.delchannel(name) end})
end

return {
    newproc_takes_a_function_or_a_string = function()
        local _c <close> = channel "lp.new"
        t.eq({luaproc.newproc(function() luaproc.send("lp.new", "function") end)}, {true})
        t.eq(luaproc.receive "lp.new", "function")
        t.eq({luaproc.newproc [[luaproc.send("lp.new", "string")]]}, {true})
        t.eq(luaproc.receive "lp.new", "string")
    end,

    newproc_refuses_anything_else = function()
        t.eq({luaproc.newproc(42)}, {nil, "cannot use 'number' to create a new process"})
        t.eq({luaproc.newproc({})}, {nil, "cannot use 'table' to create a new process"})
        t.eq({luaproc.newproc(nil)}, {nil, "cannot use 'nil' to create a new process"})
        t.eq({luaproc.newproc(true)}, {nil, "cannot use 'boolean' to create a new process"})
    end,

    a_syntax_error_raises = function()
        t.raises("unexpected symbol", luaproc.newproc, "x =")
    end,

    upvalues_are_copied_or_refused = function()
        local _c <close> = channel "lp.up"
        local n, s = 42, "up"
        luaproc.newproc(function() luaproc.send("lp.up", n, s) end)
        t.eq({luaproc.receive "lp.up"}, {42, "up"})
        local file, co = io.stdout, coroutine.create(print)
        t.eq({luaproc.newproc(function() return file end)},
            {nil, "failed to copy upvalue of unsupported type 'userdata'"})
        t.eq({luaproc.newproc(function() return co end)},
            {nil, "failed to copy upvalue of unsupported type 'thread'"})
    end,

    send_returns_true_when_it_was_received = function()
        local _c <close> = channel "lp.send"
        local _d <close> = channel "lp.done"
        blocked(function()
            luaproc.send("lp.done", luaproc.send("lp.send", 1, "two", true, nil))
        end)
        t.eq(table.pack(luaproc.receive "lp.send"), {1, "two", true, nil, n = 4})
        t.eq({luaproc.receive "lp.done"}, {true})
    end,

    integers_and_tables_are_sent_as_they_are = function()
        local _c <close> = channel "lp.values"
        luaproc.newproc(function()
            luaproc.send("lp.values", (1 << 53) + 1, math.maxinteger, 1.0, {list = {1, 2}}, print)
        end)
        local a, b, c, d, e = luaproc.receive "lp.values"
        t.eq({a, b, c, d}, {(1 << 53) + 1, math.maxinteger, 1.0, {list = {1, 2}}})
        t.ok(e == print)
    end,

    send_and_receive_on_a_channel_that_is_not_there = function()
        t.eq({luaproc.send("lp.none", 1)}, {nil, "channel 'lp.none' does not exist"})
        t.eq({luaproc.receive "lp.none"}, {nil, "channel 'lp.none' does not exist"})
        t.eq({luaproc.receive("lp.none", true)}, {nil, "channel 'lp.none' does not exist"})
        t.eq({luaproc.delchannel "lp.none"}, {nil, "channel 'lp.none' does not exist"})
    end,

    send_refuses_what_cannot_travel = function()
        local _c <close> = channel "lp.refuse"
        t.eq({luaproc.send("lp.refuse", io.stdout)},
            {nil, "failed to send value of unsupported type 'userdata'"})
        t.eq({luaproc.send("lp.refuse", 1, coroutine.create(print))},
            {nil, "failed to send value of unsupported type 'thread'"})
        t.eq({luaproc.receive("lp.refuse", true)},
            {nil, "no senders waiting on channel 'lp.refuse'"})
    end,

    receive_async_takes_what_is_there = function()
        local _c <close> = channel "lp.async"
        t.eq({luaproc.receive("lp.async", true)},
            {nil, "no senders waiting on channel 'lp.async'"})
        blocked(function() luaproc.send("lp.async", "waiting") end)
        t.eq({luaproc.receive("lp.async", true)}, {"waiting"})
    end,

    newchannel_twice = function()
        local _c <close> = channel "lp.twice"
        t.eq({luaproc.newchannel "lp.twice"}, {nil, "channel 'lp.twice' already exists"})
    end,

    delchannel_wakes_senders_and_receivers = function()
        local _r <close> = channel "lp.results"
        for _, call in ipairs {"send", "receive"} do
            luaproc.newchannel "lp.del"
            blocked(([[luaproc.send("lp.results", select(2, luaproc.%s("lp.del")))]]):format(call))
            t.eq({luaproc.delchannel "lp.del"}, {true})
            t.eq(luaproc.receive "lp.results", "channel 'lp.del' destroyed while waiting for "
                .. (call == "send" and "receiver" or "sender"))
            t.eq({luaproc.delchannel "lp.del"}, {nil, "channel 'lp.del' does not exist"})
        end
        t.eq({luaproc.newchannel "lp.del"}, {true})
        luaproc.delchannel "lp.del"
    end,

    workers_can_be_counted_and_set = function()
        local before = luaproc.getnumworkers()
        t.eq(math.type(before), "integer")
        t.eq(select("#", luaproc.setnumworkers(3)), 0)
        t.eq(luaproc.getnumworkers(), 3)
        luaproc.setnumworkers(1)
        t.eq(luaproc.getnumworkers(), 1)
        t.raises("#1", luaproc.setnumworkers, 0)
        t.raises("#1", luaproc.setnumworkers, -1)
        t.raises("#1", luaproc.setnumworkers, "x")
        luaproc.setnumworkers(before)
    end,

    recycle_takes_a_count = function()
        t.eq(select("#", luaproc.recycle(5)), 0)
        luaproc.recycle(0)
        t.raises("#1", luaproc.recycle, -1)
        t.raises("#1", luaproc.recycle)
    end,

    names_must_be_strings = function()
        t.raises("#1.*string expected", luaproc.send)
        t.raises("#1.*string expected", luaproc.receive, {})
        t.raises("#1.*string expected", luaproc.newchannel)
        t.raises("#1.*string expected", luaproc.delchannel, nil)
    end,

    the_global_luaproc_is_there_in_its_processes = function()
        local _c <close> = channel "lp.global"
        luaproc.newproc [[
            luaproc.newproc [=[
                luaproc.send("lp.global", type(luaproc), luaproc == require "luaproc")
            ]=]
        ]]
        t.eq({luaproc.receive "lp.global"}, {"table", true})
        t.eq({mare.spawn("return luaproc"):join(t.patience)}, {true})
    end,

    the_standard_libraries_are_there = function()
        local _c <close> = channel "lp.libs"
        luaproc.newproc [[luaproc.send("lp.libs", string.rep("x", 2), math.floor(2.5),
            #table.pack(1), type(io.write), type(os.time), type(debug.traceback))]]
        local f = "function"
        t.eq({luaproc.receive "lp.libs"}, {"xx", 2, 1, f, f, f})
    end,

    a_buffer_that_waits_to_be_sent_is_another_s_already = function()
        local _c <close> = channel "lp.buffer"
        local b = mare.buffer "bytes"
        local sender = mare.go(function() return luaproc.send("lp.buffer", b) end)
        mare.yield()
        t.raises("sent to another process", function() return b:get() end)
        local got = luaproc.receive "lp.buffer" -- in the same process, before the sender knows
        t.eq({sender:join(t.patience)}, {true, true})
        t.eq(got:get(), "bytes")
        t.raises("sent to another process", function() return b:get() end)
    end,
}
