-- SPDX-License-Identifier: MIT
-- luacheck: globals late
-- Lua code that runs in the middle of an operation: finalizers and __travel that use channels
-- themselves, references used after their end.
local mare, t = require "mare", require "t"

return {
    a_finalizer_may_send_while_a_message_is_unpacked = function()
        local log, c = mare.channel(100000), mare.channel()
        local p = mare.spawn(function(said, from)
            for _ = 1, 100 do
                setmetatable({}, {__gc = function() said:trysend("gc") end})
                local list = from:receive()
                if #list ~= 100 or list[100].x ~= "v100" then error "spoilt" end
            end
            return "fine"
        end, log, c)
        for _ = 1, 100 do
            local list = {}
            for j = 1, 100 do list[j] = {x = "v" .. j} end
            c:sendwithin(t.patience, list)
        end
        t.eq({p:join(t.patience)}, {true, "fine"})
    end,

    a_travel_function_may_send = function()
        local ok, first, second = mare.spawn(function()
            local here, other = mare.channel(1), mare.channel(1)
            package.preload.stamp = function() return {arrive = function(v) return v end} end
            local stamp = setmetatable({}, {__travel = function()
                other:trysend("meanwhile")
                return "stamp", "posted"
            end})
            here:send({1, 2, stamp})
            return here:receive()[3], other:receive()
        end):join(t.patience)
        t.eq({ok, first, second}, {true, "posted", "meanwhile"})
    end,

    a_reference_used_after_its_finalizer_is_an_error = function()
        t.raises("finalized", function()
            local ch = mare.channel(1)
            debug.getmetatable(ch).__gc(ch)
            ch:send(1)
        end)
        -- Finalizers run in reverse order at the end: the channel goes first.
        t.ok(mare.spawn(function()
            local _late = setmetatable({}, {__gc = function() late:trysend(1) end})
            late = mare.channel(1)
        end):join(t.patience))
    end,

    a_refused_message_does_not_take_its_buffers_along_later = function()
        local ch, b = mare.channel(5), mare.buffer "abc"
        t.raises("file", function() ch:send(b, io.stdout) end)
        ch:send(1)
        t.eq(b:get(), "abc")
    end,

    two_links_are_one = function()
        local stop, patience = mare.channel(), t.patience
        local p = mare.spawn(function()
            local child = mare.spawn(function() stop:receive() error "bad" end)
            child:link()
            child:link()
            child:unlink()
            stop:send(true)
            child:join(patience)
            return "alive"
        end)
        t.eq({p:join(t.patience)}, {true, "alive"})
    end,

    an_error_object_that_cannot_be_shown = function()
        local _, err, code = mare.spawn(function()
            error(setmetatable({}, {__tostring = function() error("no words", 0) end}))
        end):join(t.patience)
        t.eq({err, code}, {"no words", "died"})
    end,
}
