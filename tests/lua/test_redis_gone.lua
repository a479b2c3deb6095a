-- SPDX-License-Identifier: MIT
-- A real Redis that goes away while something is under way, comes back, or stands still.
local mare, t, redis = require "mare", require "t", require "mare.redis"
local with_server = require "redis_server".with

local function connect(path, options)
    options = options or {}
    options.path, options.timeout = path, options.timeout or t.patience
    return assert(redis.connect(options))
end

-- Waits until that connection is in a command, as another one sees it.
local function await_command(watcher, name, command)
    t.reaches(function()
        local list = assert(watcher:call("CLIENT", "LIST"))
        for line in list:gmatch "[^\n]+" do
            if line:find(" name=" .. name .. " ", 1, true) and line:find "flags=b"
                and line:find(" cmd=" .. command, 1, true) then
                return true
            end
        end
    end, name .. " waits in " .. command)
end

return {
    a_server_that_restarts_is_found_again = with_server(function(path, server)
        local r <close> = connect(path)
        local stays <close> = connect(path, {reconnect = false})
        t.eq(r:set("k", 1), "OK")
        server:stop()
        t.fails("closed", r:get "k")
        t.fails("refused", r:get "k") -- nobody is there
        server:start()
        t.eq(r:set("k", 2), "OK")
        t.fails("closed", stays:get "k")
        t.fails("closed", stays:get "k")
    end),

    -- The call fails, those who wait for their turn find nobody, and nothing is sent twice.
    in_the_middle_of_a_call = with_server(function(path, server)
        local r <close> = connect(path, {name = "pops"})
        local watcher <close> = connect(path)
        local pop = mare.go(function() return r:blpop("list", 0) end)
        await_command(watcher, "pops", "blpop")
        local next_one = mare.go(function() return r:incr "n" end)
        mare.yield()
        server:stop()
        t.eq({select(4, pop:join(t.patience))}, {"closed"})
        local _, _, _, code = next_one:join(t.patience)
        t.ok(code == "refused" or code == "closed", code) -- it connects to one that is about to go
        server:start()
        t.eq(r:incr "n", 1)
        t.eq(r:llen "list", 0)
    end),

    in_the_middle_of_a_pipeline = with_server(function(path, server)
        local r <close> = connect(path, {name = "pipes"})
        local watcher <close> = connect(path)
        local pipe = mare.go(function()
            return r:pipeline {{"SET", "a", 1}, {"BLPOP", "list", 0}, {"SET", "a", 2}}
        end)
        await_command(watcher, "pipes", "blpop")
        t.eq(watcher:get "a", "1")
        server:stop()
        t.eq({select(4, pipe:join(t.patience))}, {"closed"})
        server:start()
        t.eq(r:pipeline {{"GET", "a"}, {"SET", "a", 3}}, {nil, "OK", n = 2})
    end),

    -- Its commands are still here when the server goes: none of them runs, nor on the next server.
    in_the_middle_of_a_transaction = with_server(function(path, server)
        local r <close> = connect(path)
        for _, watch in ipairs {false, {"k"}} do
            local calls = 0
            t.fails("closed", r:transaction(function(tx)
                calls = calls + 1
                tx:set("k", 1)
                server:stop()
                server:start()
            end, watch and {watch = watch} or nil))
            t.eq({calls, r:get "k"}, {1, nil})
        end
        t.eq(r:transaction(function(tx) tx:set("k", 2) end), {"OK", n = 1})
    end),

    in_the_middle_of_a_subscription = with_server(function(path, server)
        local r <close> = connect(path)
        local sub <close> = assert(r:subscribe {"news", patterns = {"w.*"}})
        local waits = mare.go(function() return sub:next(t.patience) end)
        server:stop()
        t.eq({select(4, waits:join(t.patience))}, {"closed"})
        t.fails("refused", sub:next(t.patience))
        server:start()
        local back = mare.go(function() return sub:next(t.patience) end)
        -- The connection was lost, and its next call connects again.
        local _ = r:get "k"
        t.reaches(function() return r:publish("news", "again") == 1 end, "it has subscribed again")
        t.eq({back:join(t.patience)}, {true, "news", "again"})
        t.eq(r:publish("w.1", "rain"), 1)
        t.eq({sub:next(t.patience)}, {"w.1", "rain", "w.*"})
    end),

    -- The answers that come late are nobody's: the connection they come over is given up.
    a_server_that_stands_still = with_server(function(path, server)
        local r <close> = connect(path)
        local other <close> = connect(path)
        local sub <close> = assert(other:subscribe "news")
        t.eq(r:set("k", "before"), "OK")
        server:freeze()
        t.fails("timeout", r:callwithin(0.1, "SET", "k", "late"))
        t.fails("timeout", r:callwithin(0.1, "GET", "k")) -- it connects, and is not greeted
        t.fails("timeout", other:pipeline({{"GET", "k"}, {"GET", "k"}}, 0.1))
        t.fails("timeout", sub:next(0.1))
        server:thaw()
        t.eq({r:echo "mine", other:echo "its"}, {"mine", "its"})
        local now = r:get "k" -- the server may have done what nobody waited for
        t.ok(now == "late" or now == "before", now)
        t.eq(r:publish("news", "thawed"), 1)
        t.eq({sub:next(t.patience)}, {"news", "thawed"})
    end),

    -- Whether it was done nobody knows; but not twice.
    a_transaction_on_a_server_that_stands_still = with_server(function(path, server)
        local r <close> = connect(path)
        local calls = 0
        t.fails("timeout", r:transaction(function(tx)
            calls = calls + 1
            tx:incr "n"
            server:freeze()
        end, {timeout = t.patience / 100}))
        server:thaw()
        local n = r:get "n"
        t.ok(n == nil or n == "1", n)
        t.eq({calls, r:echo "mine"}, {1, "mine"})
    end),
}
