-- SPDX-License-Identifier: MIT
-- What a stream remembers of its last read: that it took all there was, so that the next waits
-- before it tries. It must forget that as soon as there may be more.
local t = require "t"
local mare, net = require "mare", require "mare.net"

-- Calls f with the two ends of a connection, over a path: what is written has arrived.
local function with_pair(f)
    local path = os.tmpname()
    os.remove(path)
    local listener <close> = t.ok(net.listen(path))
    local here <close> = t.ok(net.connect(path))
    local there <close> = t.ok(listener:accept(t.patience))
    f(here, there)
    os.remove(path)
end

-- The same with one worker, and a process that has it for longer than a tick at a time: whoever
-- waits, be it for no time at all, waits until that has had its turn, and its time is over before
-- anybody looks at what is ready.
local function with_busy_pair(f)
    t.with_workers(1, function()
        local busy = mare.spawn(function()
            while true do
                local till = os.clock() + 0.006
                while os.clock() < till do local _ = {} end
                mare.yield()
            end
        end)
        local ok, err = pcall(with_pair, f)
        busy:kill()
        busy:join(t.patience)
        if not ok then error(err, 0) end
    end)
end

return {
    who_is_told_by_a_select_that_it_can_be_read_reads = function()
        with_busy_pair(function(here, there)
            for i = 1, 8 do
                there:write("message " .. i)
                t.eq(mare.select({here}, t.patience), 1)
                t.eq(here:read(nil, 0), "message " .. i) -- without another wait
            end
        end)
    end,

    after_a_read_that_was_full_there_may_be_more = function()
        with_busy_pair(function(here, there)
            for _ = 1, 5 do
                there:write "a little" -- takes all there was
                t.eq(here:read(nil, t.patience), "a little")
                there:write(("x"):rep(100000))
                t.eq(#here:read(nil, t.patience), 65536) -- all that is read at once
                t.eq(#t.ok(here:read(nil, 0)), 100000 - 65536)
            end
        end)
    end,

    after_a_read_that_took_all_the_next_waits_and_gets_what_comes = function()
        with_pair(function(here, there)
            for i = 1, 50 do
                there:write("message " .. i)
                t.eq(here:read(nil, t.patience), "message " .. i)
                t.fails("timeout", here:read(nil, 0))
            end
            there:write "the end"
            there:close()
            t.eq(here:read("a", t.patience), "the end")
        end)
    end,
}
