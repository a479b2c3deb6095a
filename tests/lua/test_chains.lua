-- SPDX-License-Identifier: MIT
-- Long chains of what refers to what through messages: they end one after the other, without a
-- stack. The programs run with a small one, which destruction that recurses fills at once.
local t, shell = require "t", require "shell"

local CHANNELS = [[
    local mare = require "mare"
    local function channels(n) -- each has the one before it in its buffer
        local mare = require "mare"
        local last
        for _ = 1, n do
            local c = mare.channel(1)
            if last then c:send(last) end
            last = c
        end
        return last
    end
    local n = tonumber(...)
]]

local function runs(text, length)
    local file <close> = shell.file(text .. '\nprint "done"')
    local ran = shell.run(("ulimit -s 1024 && %s %s %d"):format(shell.mare, file.name, length))
    t.eq(ran, {out = "done\n", err = "", code = 0})
end

return {
    channels_in_channels_end = function()
        runs(CHANNELS .. [[
            local head = channels(n)
            head = nil
            collectgarbage() collectgarbage()
        ]], t.slow > 1 and 200000 or 1000000)
    end,

    results_in_results_end = function()
        runs([[
            local mare = require "mare"
            local last
            for _ = 1, ... do
                local p = mare.spawn(function(before) return before end, last)
                p:join()
                last = p
            end
            last = nil
            collectgarbage() collectgarbage()
        ]], 40000)
    end,

    -- Channels in results in channels, and a buffer and a timer at each place.
    chains_of_different_kinds_end = function()
        runs([[
            local mare = require "mare"
            local last
            for _ = 1, ... do
                local c = mare.channel(4)
                c:send(last, mare.buffer "bytes", mare.timer(1000))
                local p = mare.spawn(function(inner) return inner end, c)
                p:join()
                last = p
            end
            last = nil
            collectgarbage() collectgarbage()
        ]], 20000)
    end,

    -- Whoever lets go: a process that is killed, one that waits to send when the channel is closed.
    a_chain_ends_with_a_process_that_is_killed = function()
        runs(CHANNELS .. [[
            local ready = mare.channel()
            local p = mare.spawn(function()
                local kept = channels(n)
                ready:send()
                mare.channel():receive()
                return kept
            end)
            ready:receive()
            p:kill()
            assert(select(3, p:join()) == "killed")
        ]], 40000)
    end,

    a_chain_in_line_ends_with_the_close = function()
        runs(CHANNELS .. [[
            local c = mare.channel()
            local p = mare.spawn(function() c:send(channels(n)) end)
            while p:status() ~= "blocked" do mare.yield() end
            c:close()
            p:join()
        ]], 40000)
    end,

    -- What is left is the runtime's to end: of names, of results that nobody asked for.
    a_chain_ends_with_the_program = function()
        runs([[
            local mare = require "mare"
            local first = mare.channel(1, "first") -- the first in the list of all channels, too
            local last = first
            for _ = 1, ... do
                local c = mare.channel(1)
                last:send(c)
                last = c
            end
            mare.spawn(function(x) return x end, first):join()
        ]], 40000)
    end,
}
