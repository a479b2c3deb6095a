-- SPDX-License-Identifier: MIT
-- The client of Redis: against the real server, and against one that answers what it should not.
local mare, t, net = require "mare", require "t", require "mare.net"
local child, file, redis, tls = require "mare.child", require "mare.file", require "mare.redis",
    require "mare.tls"
local server = require "redis_server"
local with_server = server.with

local function connect(path, options)
    options = options or {}
    options.path, options.timeout = path, options.timeout or t.patience
    return assert(redis.connect(options))
end

-- A server in this process that says what a function wants: f(stream, n), for each connection.
local function with_answers(f)
    local path = assert(file.tempfolder())
    local listener, n = assert(net.listen(path .. "/redis", nil)), 0
    mare.go(net.serve, listener, function(stream)
        n = n + 1
        f(stream, n)
    end):detach()
    return path .. "/redis", setmetatable({}, {__close = function()
        listener:close()
        file.remove(path, {tree = true})
    end})
end

-- f(i) in so many routines, to the end of each.
local function all(n, f)
    for _, routine in ipairs(t.in_routines(n, f)) do t.ok(routine:join(t.patience)) end
end

-- Takes the greeting as a server of before RESP 3.
local function greet_as_of_old(stream)
    t.eq(stream:read "l", "*2")
    for _ = 1, 4 do stream:read "l" end
    stream:write "-ERR unknown command 'HELLO'\r\n"
end

-- The words of a command.
local function command(stream)
    local words = {}
    local head = stream:read "l"
    if not head then return nil end
    for i = 1, tonumber(head:match "^%*(%d+)$") do
        words[i] = stream:read(tonumber(stream:read("l"):match "^%$(%d+)$"))
        stream:read "l"
    end
    return words
end

return {
    values_of_all_kinds = with_server(function(path)
        local r <close> = connect(path, {name = "test"})
        t.eq(r:set("key", "\0\r\n$5"), "OK")
        t.eq(r:get "key", "\0\r\n$5")
        t.eq(table.pack(r:get "none"), {n = 1})
        t.eq({r:incrby("n", 41), r:incr "n"}, {41, 42})
        t.eq(r:set("float", 0.1), "OK")
        t.eq(tonumber(r:get "float"), 0.1)
        t.eq(r:rpush("list", "a", 2, "c"), 3)
        t.eq(r:lrange("list", 0, -1), {"a", "2", "c"})
        t.eq(r:mget("key", "none"), {"\0\r\n$5", redis.null})
        t.eq(r:hset("hash", "a", 1, "b", 2), 2)
        t.eq(r:hgetall "hash", {a = "1", b = "2"}) -- a map, by RESP 3
        t.eq(r:call("ZADD", "z", 1.5, "m"), 1)
        t.eq(r:zscore("z", "m"), 1.5)
        t.eq(r:call("CLIENT", "GETNAME"), "test")
        local none, why, code = r:lpush("key", 1)
        t.eq({none, code}, {nil, "remote"})
        t.ok(why:find "^WRONGTYPE", why)
        t.eq(r:get "n", "42") -- and the connection goes on
        for _, misuse in ipairs {
            function() r:set("key", {}) end,
            function() r:call("set", "key", {}) return true end,
            function() r:callwithin(9, "set", "key", {}) return true end,
            function() r:pipeline {{"PING"}, {"set", "key", {}}} return true end,
        } do
            t.raises("test_redis.lua:%d+: bad argument #2 to 'SET' %(string or number expected, "
                .. "got table%)", misuse)
        end
    end),

    large_values = with_server(function(path)
        local r <close> = connect(path)
        local text = ("0123456789"):rep(100000)
        t.eq(r:set("large", text), "OK")
        t.eq(r:get "large", text)
        local small <close> = connect(path, {limit = 10000})
        t.fails("toobig", small:get "large")
        t.eq(small:set("s", 1), "OK") -- over a new connection
    end),

    a_pipeline_answers_in_order = with_server(function(path)
        local r <close> = connect(path)
        local answers = r:pipeline {{"SET", "a", 1}, {"LPUSH", "a", 1}, {"GET", "none"},
            {"INCR", "a"}}
        t.eq({answers.n, answers[1], answers[3], answers[4]}, {4, "OK", nil, 2})
        t.ok(redis.failed(answers[2]) and answers[2].message:find "^WRONGTYPE", answers[2])
        t.eq(r:pipeline {}, {n = 0})
        local many = {}
        for i = 1, 2000 do many[i] = {"INCR", "count"} end
        t.eq(r:pipeline(many)[2000], 2000)
    end),

    routines_take_turns = with_server(function(path)
        local r <close> = connect(path)
        all(20, function(i)
            for j = 1, 5 do
                r:set("k" .. i, j)
                t.eq(r:get("k" .. i), tostring(j))
            end
        end)
    end),

    a_transaction_is_done_as_one = with_server(function(path)
        local r <close> = connect(path)
        local other <close> = connect(path)
        local got = r:transaction(function(tx)
            tx:set("a", 1)
            tx:get "none"
            tx:incrby("a", 9)
        end)
        t.eq(got, {n = 3, "OK", nil, 10})
        t.eq(r:transaction(function() end), {n = 0})
        local none, why, code = r:transaction(function(tx) tx:nosuch() tx:incr "a" end)
        t.eq({none, code, r:get "a"}, {nil, "remote", "10"})
        t.ok(why:find "unknown command", why)
        -- What is watched changes once in between: it is tried again.
        local tries = 0
        got = r:transaction(function(tx, inner)
            tries = tries + 1
            local value = tonumber(inner:get "a")
            if tries == 1 then other:set("a", 20) end
            tx:set("a", value + 1)
        end, {watch = {"a"}})
        t.eq({tries, got[1], r:get "a"}, {2, "OK", "21"})
        t.fails("refused", r:transaction(function(tx)
            other:incr "a"
            tx:set("a", 0)
        end, {watch = {"a"}, attempts = 3}))
        t.raises("mine", function() r:transaction(function() error "mine" end, {watch = {"a"}}) end)
        t.eq(r:get "a", "24")
    end),

    counters_survive_a_crowd = with_server(function(path)
        local r <close> = connect(path)
        r:set("c", 0)
        all(4, function()
            for _ = 1, 5 do
                assert(r:transaction(function(tx, inner)
                    tx:set("c", tonumber(inner:get "c") + 1)
                end, {watch = {"c"}, attempts = 100}))
            end
        end)
        t.eq(r:get "c", "20")
    end),

    scripts_are_sent_once = with_server(function(path)
        local r <close> = connect(path)
        local script = "return {KEYS[1], ARGV[1] + 1, #ARGV}"
        t.eq(r:eval(script, {"k"}, {41, "x"}), {"k", 42, 2})
        t.eq(r:call("SCRIPT", "FLUSH"), "OK") -- the server has forgotten it
        t.eq(r:eval(script, {"k"}, {1}), {"k", 2, 1})
        t.fails("remote", r:eval "return nonsense(")
    end),

    messages_come_to_who_subscribes = with_server(function(path)
        local r <close> = connect(path)
        local sub <close> = assert(r:subscribe {"news", "sport", patterns = {"w*"}})
        t.eq(r:publish("news", "one"), 1)
        r:publish("weather", "rain")
        r:publish("sport", "two")
        t.eq({sub:next(t.patience)}, {"news", "one"})
        t.eq({sub:next(t.patience)}, {"weather", "rain", "w*"})
        t.eq({sub:next(t.patience)}, {"sport", "two"})
        t.fails("timeout", sub:next(0))
        r:publish("news", "after a timeout")
        t.eq({sub:next(t.patience)}, {"news", "after a timeout"})
        r:call("CLIENT", "KILL", "TYPE", "PUBSUB")
        t.fails("closed", sub:next(t.patience))
        local heard = false
        local speaker = mare.go(function() -- until it listens again: the server counts who was sent
            repeat r:publish("news", "again") until heard -- away for a moment longer
        end)
        t.eq({sub:next(t.patience)}, {"news", "again"})
        heard = true
        t.ok(speaker:join(t.patience))
        sub:close()
        t.fails("closed", sub:next())
        t.raises("no channel", function() r:subscribe {} end)
    end),

    who_is_sent_away_says_so = with_server(function(path)
        t.fails("denied", redis.connect {path = path, timeout = t.patience, password = "wrong"})
        t.fails("denied", redis.connect {path = path, timeout = t.patience})
        local r <close> = connect(path, {password = "secret", database = 3})
        t.eq(r:set("k", 1), "OK")
        t.ok(r:call("CLIENT", "INFO"):find "db=3")
        t.fails("remote", redis.connect {path = path, timeout = t.patience, password = "secret",
            database = 99})
    end, "--requirepass", "secret"),

    over_tls = t.in_folder(function(folder)
        if not file.exists(server.program) then t.skip "there is no Redis" end
        local certificate, key = tls.selfsigned {"127.0.0.1"}
        assert(file.write(folder .. "/c.pem", certificate))
        assert(file.write(folder .. "/k.pem", key))
        assert(file.symlink(server.program, folder .. "/redis-server"))
        local probe = assert(net.listen("127.0.0.1", 0))
        local _, port = probe:address()
        probe:close()
        local _ <close> = assert(child.spawn {folder .. "/redis-server", "--port", "0",
            "--tls-port", port, "--tls-cert-file", folder .. "/c.pem", "--tls-key-file",
            folder .. "/k.pem", "--tls-auth-clients", "no", "--save", "", "--dir", folder,
            stdout = "null"}):grace(0)
        local r
        t.reaches(function()
            r = redis.connect {port = port, timeout = t.patience, tls = {authorities = certificate}}
            return r
        end, "Redis listens")
        t.eq({r:set("k", "v"), r:get "k"}, {"OK", "v"})
        t.fails("denied", redis.connect {port = port, tls = true, timeout = t.patience})
        r:close()
        t.fails("closed", r:get "k")
    end),

    -- Faults.

    an_older_server_is_spoken_to_as_it_wants = function()
        local heard = {}
        local path, over = with_answers(function(stream)
            greet_as_of_old(stream)
            for words in command, stream do
                heard[#heard + 1] = table.concat(words, " ")
                stream:write(#heard == 2 and "*2\r\n$-1\r\n*-1\r\n" or "+OK\r\n")
            end
        end)
        local _ <close> = over
        local r <close> = connect(path, {database = 2})
        t.eq(r:nosuch(), {redis.null, redis.null})
        t.eq(heard, {"SELECT 2", "NOSUCH"})
    end,

    a_server_that_goes_in_the_middle_of_an_answer = function()
        local path, over = with_answers(function(stream, n)
            greet_as_of_old(stream)
            command(stream)
            stream:write(n == 1 and "*3\r\n$5\r\nhel" or "$5\r\nhello\r\n")
        end)
        local _ <close> = over
        local r <close> = connect(path)
        t.fails("closed", r:get "k")
        t.eq(r:get "k", "hello")
    end,

    a_server_that_says_nothing_costs_the_time_and_the_connection = function()
        local path, over = with_answers(function(stream, n)
            greet_as_of_old(stream)
            command(stream)
            if n == 1 then return stream:read "l" end -- until it is closed
            stream:write "$3\r\nnew\r\n"
        end)
        local _ <close> = over
        local r <close> = connect(path)
        t.fails("timeout", r:callwithin(0.01, "GET", "k"))
        t.eq(r:get "k", "new") -- the late answer to the first can confuse nobody
    end,

    one_who_is_cancelled_leaves_nothing_behind = function()
        local asked = mare.channel()
        local path, over = with_answers(function(stream, n)
            greet_as_of_old(stream)
            command(stream)
            if n == 1 then
                asked:send(true)
                return stream:read "l"
            end
            stream:write "$3\r\nnew\r\n"
        end)
        local _ <close> = over
        local r <close> = connect(path)
        local routine = mare.go(function() return r:get "k" end)
        asked:receive()
        routine:cancel()
        local ok, none, _, code = routine:join(t.patience)
        t.eq({ok, none, code}, {true, nil, "cancelled"})
        t.eq(r:get "k", "new")
    end,

    nonsense_is_refused = function()
        local answers = {"hello\r\n", ":x\r\n", "$x\r\n", "$3\r\nabcdef\r\n", "*99999999999\r\n",
            "$99999999999\r\n", ("*1\r\n"):rep(100) .. "+x\r\n", "$-7\r\n", ",y\r\n",
            "%1\r\n+a\r\n?\r\n", "\r\n"}
        local path, over = with_answers(function(stream, n)
            greet_as_of_old(stream)
            command(stream)
            stream:write(answers[n] or "+fine\r\n")
            stream:read "l"
        end)
        local _ <close> = over
        local r <close> = connect(path)
        for i = 1, #answers do
            local none, why, code = r:get "k"
            t.ok(none == nil and (code == "badmsg" or code == "toobig"), ("%d: %s"):format(i, why))
        end
        t.eq(r:get "k", "fine")
    end,

    kinds_of_resp_3 = function()
        local path, over = with_answers(function(stream)
            command(stream)
            stream:write "%1\r\n+server\r\n+x\r\n"
            command(stream)
            stream:write(">2\r\n+push\r\n:1\r\n|1\r\n+ttl\r\n:1\r\n*8\r\n_\r\n#t\r\n#f\r\n,-1.5\r\n"
                .. "(12345678901234567890\r\n=7\r\ntxt:hey\r\n~2\r\n:1\r\n:2\r\n!5\r\nERR x\r\n")
        end)
        local _ <close> = over
        local r <close> = connect(path)
        local got = r:all()
        t.ok(redis.failed(got[8]) and tostring(got[8]) == "ERR x", got[8])
        got[8] = nil
        t.eq(got, {redis.null, true, false, -1.5, "12345678901234567890", "hey", {1, 2}})
    end,

    what_would_mix_up_answers_is_no_call = function()
        local path, over = with_answers(function(stream)
            greet_as_of_old(stream)
            while command(stream) do stream:write "+fine\r\n" end
        end)
        local _ <close> = over
        local r <close> = connect(path)
        for _, word in ipairs {"monitor", "psubscribe", "ssubscribe", "sync", "multi", "exec",
            "watch", "select", "auth", "hello", "reset"} do
            local expected = word:upper() .. " cannot be a call"
            t.raises(expected, function() r[word](r, "x") end)
            t.raises(expected, r.call, r, word, "x")
            t.raises(expected, r.callwithin, r, 1, word, "x")
            t.raises(expected, r.pipeline, r, {{"GET", "k"}, {word, "x"}})
            t.raises(expected, r.transaction, r, function(tx) tx[word](tx, "x") end)
        end
        t.raises("test_redis.lua:%d+: SUBSCRIBE cannot be a call %(use r:subscribe%)", function()
            r:call("subscribe", "news")
        end)
        t.raises("CLIENT REPLY cannot be a call", r.call, r, "client", "reply", "off")
        t.eq({r:client("info"), r:get "k"}, {"fine", "fine"})
    end,

    a_routine_that_a_transaction_left_behind = function()
        local asked = mare.channel()
        local path, over = with_answers(function(stream, n)
            greet_as_of_old(stream)
            command(stream)
            if n > 1 then return stream:write "$3\r\nnew\r\n" end
            asked:send(true)
            command(stream)
            stream:write "$4\r\nlate\r\n" -- to who asked first
        end)
        local _ <close> = over
        local r <close> = connect(path)
        t.fails("timeout", r:transaction(function(tx, inner)
            mare.go(function() inner:get "slow" end)
            t.ok(asked:receive(t.patience))
            tx:set("k", 1)
        end, {timeout = 0.05 * t.slow}))
        t.eq(r:get "k", "new")
    end,

    a_server_that_only_pushes_has_no_more_time = function()
        local path, over = with_answers(function(stream)
            greet_as_of_old(stream)
            command(stream)
            local pushes = (">1\r\n+x\r\n"):rep(10000)
            mare.spawn(function() repeat until not stream:write(pushes) end) -- faster than we read
        end)
        local _ <close> = over
        local r <close> = connect(path)
        t.fails("timeout", r:callwithin(0.05, "GET", "k"))
    end,

    few_bytes_do_not_ask_for_much_memory = function()
        local path, over = with_answers(function(stream, n)
            greet_as_of_old(stream)
            command(stream)
            stream:write(n == 1 and "*2000\r\n" .. ("*0\r\n"):rep(2000)
                or "*2000\r\n" .. (":1\r\n"):rep(2000))
        end)
        local _ <close> = over
        local r <close> = connect(path, {limit = 100000})
        t.fails("toobig", r:get "k")
        t.eq(#r:get "k", 2000)
    end,

    who_closes_while_it_connects_anew = function()
        local begun, go_on, over_there = mare.channel(), mare.channel(), mare.channel()
        local path, over = with_answers(function(stream, n)
            if n == 1 then return greet_as_of_old(stream) end
            begun:send(true)
            go_on:receive()
            greet_as_of_old(stream)
            over_there:send(command(stream) == nil)
        end)
        local _ <close> = over
        local r = connect(path)
        t.fails("closed", r:get "k") -- the server has gone
        local routine = mare.go(function() return r:get "k" end)
        begun:receive(t.patience)
        r:close()
        go_on:send(true)
        t.eq({select(4, routine:join(t.patience))}, {"closed"})
        t.eq(over_there:receive(t.patience), true)
    end,

    a_subscription_that_is_closed_while_full = function()
        local path, over = with_answers(function(stream)
            command(stream)
            stream:write "%1\r\n+server\r\n+x\r\n"
            if (command(stream) or {})[1] ~= "SUBSCRIBE" then return end
            stream:write ">3\r\n+subscribe\r\n+news\r\n:1\r\n"
            repeat until not stream:write ">3\r\n+message\r\n+news\r\n+rain\r\n"
        end)
        local _ <close> = over
        local r <close> = connect(path)
        local known = setmetatable({}, {__mode = "k"})
        do
            local sub = assert(r:subscribe "news")
            known[sub] = true
            local messages = sub._messages
            t.reaches(function() return #messages == messages:capacity() end, "it is full")
            sub:close()
        end
        t.reaches(function() -- the routine that hears has ended, and so nobody knows it
            collectgarbage()
            return next(known) == nil
        end, "nothing is left")
    end,

    -- A user writes r.get("k") for r:get("k").
    a_connection_stays_in_its_process = function()
        local path, over = with_answers(function(stream)
            greet_as_of_old(stream)
            if command(stream) then stream:write "*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n" end
            stream:read "l" -- until it is closed
        end)
        local _ <close> = over
        local r <close> = connect(path)
        local sub <close> = assert(r:subscribe "a")
        for _, mine in ipairs {r, sub} do
            t.raises("a connection belongs to the process that made it", mare.spawn, print, mine)
        end
    end,

    a_dot_in_the_place_of_a_colon_is_told_of = function()
        local path, over = with_answers(greet_as_of_old)
        local _ <close> = over
        local r <close> = connect(path)
        for _, name in ipairs {"get", "call", "callwithin", "pipeline", "transaction", "eval",
                "subscribe"} do
            t.raises("^[^:]*test_redis.lua:%d+: calling '" .. name .. "' on bad self "
                .. "%(redis.connection expected, got string; methods are called with a colon%)",
                function() r[name]("k", 1) end)
        end
    end,

    wrong_options_are_refused = function()
        t.raises("option 'port' must be an integer", function() redis.connect {port = "6379"} end)
        t.raises("option 'database' must be", function() redis.connect {database = -1} end)
        t.raises("option 'limit' must be", function() redis.connect {limit = 0} end)
        t.raises("option 'reconnect' must be", function() redis.connect {reconnect = 1} end)
        t.raises("option 'tls' must be", function() redis.connect {tls = "yes"} end)
        t.raises("there is no TLS at a path", function()
            redis.connect {path = "/tmp/none", tls = true}
        end)
        t.raises("unknown option 'hots'", function() redis.connect {hots = "x"} end)
        t.raises("option 'timeout' must be", function() redis.connect {timeout = -1} end)
        t.raises("option 'password' must be a string", function() redis.connect {password = 1} end)
        t.fails("refused", redis.connect {port = 1, timeout = t.patience})
    end,
}
