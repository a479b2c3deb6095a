-- SPDX-License-Identifier: MIT
-- The client of PostgreSQL, against a real server: one for all cases, each with a connection of its
-- own.
local mare, t, postgres = require "mare", require "t", require "mare.postgres"
local with_server = require "postgres_server"

-- It has no end, and the server makes its rows one by one.
local ENDLESS <const> = "SELECT generate_series(1, 2000000000) AS i"
local SLEEP <const> = "SELECT pg_sleep(600)"

-- How many queries of a name the server is busy with.
local function busy(c, name)
    return assert(c:row([[SELECT count(*) AS n FROM pg_stat_activity
        WHERE application_name = $1 AND state = 'active']], name)).n
end

local cases = {}

function cases.values_of_all_kinds(c)
    for _, case in ipairs {
        {"int8", math.maxinteger}, {"int8", math.mininteger}, {"int4", -5}, {"int2", 7},
        {"float8", 0.1}, {"float8", 1e300}, {"float8", math.huge}, {"float4", -0.5},
        {"bool", true}, {"bool", false}, {"text", ""}, {"text", "água '\\ \n"},
        {"bytea", postgres.bytes "\0\xff\\x", "\0\xff\\x"}, {"bytea", postgres.bytes "", ""},
        {"numeric", "12345678901234567890.5"}, {"date", "2026-11-16"}, {"json", '{"a":1}'},
        {"int4[]", "{1,2}"}, {"oid", 5},
    } do
        local row = assert(c:row(("SELECT $1::%s AS v"):format(case[1]), case[2]))
        local expected = case[3] or case[2]
        t.eq(row.v, expected)
        t.eq(row[1], expected)
        t.eq(math.type(row.v), math.type(expected))
    end
    local nan = c:row("SELECT $1::float8 AS v", 0 / 0).v
    t.ok(nan ~= nan)
    for _, none in ipairs {postgres.null, require "mare.json".null} do
        t.eq(c:row("SELECT $1::text AS v, $1::text IS NULL AS none", none),
            {[2] = true, none = true})
    end
    t.eq(c:row("SELECT $1::int IS NULL AS a, $2::int AS b, $3::int IS NULL AS c", nil, 2, nil),
        {true, 2, true, a = true, b = 2, c = true})
    t.eq(table.pack(c:row "SELECT 1 WHERE false"), {n = 1})
    t.eq(c:query "SELECT 1 AS a, 2 AS a", {{1, 2, a = 2}})
end

function cases.objects_are_ready_for_json(c, server)
    local encode = require "mare.json".encode
    local pool <close> = postgres.pool(server:options {size = 1})
    for _, one in ipairs {c, pool} do
        t.eq(encode(assert(one:objects("SELECT $1::int AS id, NULL AS v", 1))), '[{"id":1}]')
        t.eq(encode(assert(one:objects "SELECT 1 AS id WHERE false")), "[]")
        t.fails("remote", one:objects "SELECT nonsense")
        t.eq(encode(assert(one:object("SELECT $1::int AS id, NULL AS v", 1))), '{"id":1}')
        t.eq(one:object "SELECT 1 AS id WHERE false", nil)
        for _, name in ipairs {"query", "objects", "row", "object"} do -- at the caller's line
            t.raises("^[^\n]*test_postgres.lua:%d+: bad argument #1 to '" .. name .. "' %(string",
                function() return (one[name](one, 5)) end)
        end
    end
    local prepared = assert(c:prepare "SELECT 1 AS id")
    t.eq(encode(assert(prepared:objects())), '[{"id":1}]')
    t.eq({prepared:row(), prepared:object()}, {{1, id = 1}, {id = 1}})
end

function cases.what_exec_says(c)
    t.eq({c:exec [[CREATE TEMP TABLE t (id serial PRIMARY KEY, v text UNIQUE);
        INSERT INTO t (v) VALUES ('a'), ('b'), ('c')]]}, {3})
    t.eq({c:exec("UPDATE t SET v = v || $1 WHERE id > $2", "x", 1)}, {2})
    t.eq({c:exec ""}, {0})
    t.eq({c:exec("INSERT INTO t (v) VALUES ($1)", "a")}, {nil,
        'duplicate key value violates unique constraint "t_v_key"', "remote", "23505"})
    t.eq({c:row "SELECT tide"}, {nil, 'column "tide" does not exist', "remote", "42703"})
    t.fails("remote", c:row("SELECT $1::int", "no number"))
    t.fails("remote", c:row("SELECT $1", 1, 2))
    t.fails("remote", c:query "SELECT 1; SELECT 2")
    t.fails("invalid", c:exec "COPY t FROM STDIN")
    t.eq(c:row "SELECT count(*) AS n FROM t".n, 3)
    t.raises("does not exist", function()
        for _ in c:rows "SELECT * FROM nowhere" do end
    end)
    t.raises("text cannot contain zero bytes: use bytes", c.row, c, "SELECT $1", "a\0b")
    t.raises("a table cannot be a parameter", c.row, c, "SELECT $1", {})
    t.raises("it contains zero bytes", c.exec, c, "SELECT 1\0")
end

function cases.rows_come_one_by_one(c)
    local n = 0
    for row in c:rows(ENDLESS) do
        n = n + 1
        t.eq(row.i, n)
        if n == 1 then t.raises("a loop over rows has the connection", c.exec, c, "SELECT 1") end
        if n == 1000 then break end
    end
    t.eq(c:row "SELECT 5 AS v".v, 5)
    n = 0
    for _ in c:rows "SELECT generate_series(1, 250)" do n = n + 1 end
    t.eq(n, 250)
    t.raises("division by zero", function()
        for row in c:rows "SELECT 1 / (3 - generate_series(1, 5)) AS v" do t.ok(row.v >= 0) end
    end)
    t.eq(c:transaction(function(tx)
        for row in tx:rows(ENDLESS) do
            t.fails("refused", tx:exec "SELECT 1")
            if row.i == 3 then break end
        end
        return nil, "the loop was left, and its query stopped: that fails a transaction"
    end), nil)
    t.eq(c:row "SELECT 6 AS v".v, 6)
end

function cases.there_are_limits(_, server)
    local c <close> = assert(postgres.connect(server:options {limit = 20000}))
    t.eq(#assert(c:query "SELECT repeat('x', 100), generate_series(1, 90)"), 90)
    t.fails("toobig", c:query "SELECT repeat('x', 100), generate_series(1, 2000000000)")
    t.fails("toobig", c:query "SELECT NULL FROM generate_series(1, 100000)")
    t.fails("toobig", c:query "SELECT FROM generate_series(1, 100000)")
    t.eq(c:row "SELECT 1 AS v".v, 1)
    -- What `exec` is not asked for takes no memory.
    t.eq(c:exec "SELECT generate_series(1, 100000)", 100000)
    t.eq(c:exec("SELECT generate_series(1, $1::int)", 100000), 100000)
    t.eq(c:exec "SELECT 1; SELECT generate_series(1, 70000)", 70000)
end

local function signal(name, pid)
    local words = {"kill", "-" .. name, tostring(pid), stdout = "null", stderr = "null"}
    t.eq({assert(require "mare.child".spawn(words)):wait(t.patience)}, {"exit", 0})
end

-- The request to stop reaches a server that has not read the query yet, and finds nothing to stop.
function cases.a_request_to_stop_that_comes_too_early(c, server)
    local other <close> = assert(postgres.connect(server:options {name = "early"}))
    local pid = other:row "SELECT pg_backend_pid() AS v".v
    local _ <close> = setmetatable({}, {__close = function() signal("CONT", pid) end})
    signal("STOP", pid)
    t.fails("timeout", other:within(0.02):row(SLEEP))
    t.fails("timeout", other:within(0.2):row "SELECT 1") -- the request has been sent
    signal("CONT", pid)
    t.eq(assert(other:within(t.patience):row "SELECT 1 AS v").v, 1)
    t.eq(busy(c, "early"), 0)
end

-- A server that stands still holds nobody beyond the deadline, not even by the rollback.
function cases.a_transaction_on_a_frozen_server(_, server)
    local c <close> = assert(postgres.connect(server:options()))
    c:exec "CREATE TEMP TABLE t (v int)"
    local pid = c:row "SELECT pg_backend_pid() AS v".v
    local _ <close> = setmetatable({}, {__close = function() signal("CONT", pid) end})
    t.fails("timeout", c:within(t.patience / 100):transaction(function(tx)
        assert(tx:exec "INSERT INTO t VALUES (1)")
        signal("STOP", pid)
        return tx:row "SELECT 1"
    end))
    t.fails("timeout", c:within(0.01):row "SELECT 1")
    signal("CONT", pid)
    t.eq(c:row "SELECT count(*) AS n FROM t".n, 0)
end

-- A part is undone in the time of the whole. If that is over, too, the whole is undone: a commit is
-- not even sent.
function cases.a_part_that_ran_out_of_time(c)
    c:exec "CREATE TEMP TABLE t (v int)"
    local function whole(deadline, tx)
        assert(tx:exec "INSERT INTO t VALUES (1)")
        t.fails("denied", tx:within(deadline):transaction(function(inner)
            assert(inner:exec "INSERT INTO t VALUES (2)")
            t.reaches(function() return deadline:left() == 0 end, "the end of its time")
            return nil, "no", "denied"
        end))
    end
    local deadline = mare.deadline(t.patience / 100)
    t.fails("timeout", c:within(deadline):transaction(function(tx) whole(deadline, tx) end))
    t.eq(c:query "SELECT v FROM t", {})
    t.eq(c:transaction(function(tx) whole(mare.deadline(t.patience / 100), tx) end), true)
    t.eq(c:query "SELECT v FROM t", {{1, v = 1}})
end

-- The function overlooks that the connection was lost: the transaction does not.
function cases.a_commit_without_a_connection(c, server)
    local other <close> = assert(postgres.connect(server:options()))
    t.fails("closed", other:transaction(function(tx)
        local pid = tx:row "SELECT pg_backend_pid() AS v".v
        assert(c:exec("SELECT pg_terminate_backend($1)", pid))
        t.reaches(function() return not tx:exec "SELECT 1" end, "the connection is lost")
    end))
end

function cases.what_nobody_hears_is_not_kept(c)
    c:exec "LISTEN tide"
    c:exec "NOTIFY tide"
    c:exec "SELECT 1"
    t.eq(require "mare._postgres".notice(c._shared.handle), nil)
    t.raises("bad argument #2 to 'listen' %(it contains zero bytes%)", c.listen, c, "a", "b\0c")
end

function cases.prepared_statements(c)
    local add = assert(c:prepare "SELECT $1::int + $2::int AS sum")
    t.eq(add:row(1, 2).sum, 3)
    t.eq(add:query(3, 4), {{7, sum = 7}})
    for row in add:rows(5, 6) do t.eq(row.sum, 11) end
    t.eq(add:exec(1, 1), 1)
    t.eq(c:row "SELECT count(*) AS n FROM pg_prepared_statements".n, 1)
    t.fails("remote", c:prepare "SELECT nonsense nonsense nonsense")
    t.fails("remote", add:row("x", 1))
    assert(c:reconnect())
    t.eq(add:row(2, 2).sum, 4)
end

function cases.transactions_are_whole_or_not_at_all(c)
    c:exec "CREATE TEMP TABLE t (v int UNIQUE)"
    local function count() return c:row "SELECT count(*) AS n FROM t".n end
    t.eq({c:transaction(function(tx) tx:exec "INSERT INTO t VALUES (1)" return "a", 2 end)},
        {"a", 2})
    t.eq(count(), 1)
    t.eq({pcall(c.transaction, c, function(tx)
        tx:exec "INSERT INTO t VALUES (2)"
        error {5}
    end)}, {false, {5}})
    t.eq({c:transaction(function(tx)
        tx:exec "INSERT INTO t VALUES (2)"
        return nil, "no", "denied"
    end)}, {nil, "no", "denied"})
    t.eq(count(), 1)
    local kept
    t.eq(c:transaction(function(tx)
        kept = tx
        t.fails("remote", tx:transaction(function(inner)
            t.fails("refused", tx:exec "SELECT 1")
            return inner:exec "INSERT INTO t VALUES (1)"
        end))
        t.raises("^[^:]*test_postgres.lua:%d+: a transaction has the connection: use what its ",
            function() local done = c:exec "SELECT 1" return done end)
        return tx:exec "INSERT INTO t VALUES (3)"
    end), 1)
    t.eq(count(), 2)
    t.fails("closed", kept:exec "SELECT 1")
    -- A failure that the function overlooks: PostgreSQL would answer a COMMIT by a rollback.
    t.fails("refused", c:transaction(function(tx)
        tx:exec "INSERT INTO t VALUES (4)"
        t.fails("remote", tx:exec "INSERT INTO t VALUES (1)")
        t.fails("remote", tx:exec "INSERT INTO t VALUES (5)")
    end))
    t.fails("refused", c:transaction(function(tx)
        tx:exec "ROLLBACK"
        t.fails("refused", tx:exec "INSERT INTO t VALUES (6)")
    end))
    t.eq(count(), 2)
    t.fails("remote", c:transaction(function(tx) return tx:exec "CREATE TABLE u (v int)" end,
        {isolation = "serializable", readonly = true}))
    t.raises("option 'isolation' must be", c.transaction, c, print, {isolation = "none"})
    local co = coroutine.create(function()
        c:transaction(function(tx)
            tx:exec "INSERT INTO t VALUES (6)"
            coroutine.yield()
        end)
    end)
    coroutine.resume(co)
    t.ok(coroutine.close(co))
    t.eq(count(), 2)
end

function cases.routines_take_turns(c)
    local all = t.in_routines(20, function(i) return c:row("SELECT $1::int AS v", i).v end)
    for i, r in ipairs(all) do t.eq({r:join(t.patience)}, {true, i}) end
end

function cases.a_deadline_stops_the_server(c, server)
    local other <close> = assert(postgres.connect(server:options {name = "sleeper"}))
    t.fails("timeout", other:within(0.02):row(SLEEP))
    t.eq(other:row "SELECT 1 AS v".v, 1)
    t.eq(busy(c, "sleeper"), 0)
    local r = mare.go(function() return other:row(SLEEP) end)
    t.reaches(function() return busy(c, "sleeper") == 1 end, "the query runs")
    r:cancel()
    t.eq({select(4, r:join(t.patience))}, {"cancelled"})
    t.reaches(function() return busy(c, "sleeper") == 0 end, "the query is stopped")
    t.fails("timeout", other:within(0.02):row(SLEEP))
    t.fails("timeout", other:within(0):row "SELECT 1") -- nobody waits for the server to stop
    t.eq(assert(other:row "SELECT 1 AS v").v, 1)
    t.fails("timeout", other:within(0.02):transaction(function(tx) return tx:row(SLEEP) end))
    t.eq(assert(other:row "SELECT 2 AS v").v, 2)
end

function cases.a_kill_stops_the_server(c, server)
    c:exec "CREATE TABLE killed (v int)"
    local p = mare.spawn(function(options)
        local own = assert(require "mare.postgres".connect(options))
        own:transaction(function(tx)
            tx:exec "INSERT INTO killed VALUES (1)"
            tx:exec "SELECT pg_sleep(600)"
        end)
    end, server:options {name = "killed"})
    t.reaches(function() return busy(c, "killed") == 1 end, "the query runs")
    p:kill()
    t.reaches(function() return busy(c, "killed") == 0 end, "the query is stopped")
    t.eq(c:row "SELECT count(*) AS n FROM killed".n, 0)
end

function cases.nobody_is_held_back(c, server)
    local before = mare.workers()
    local _ <close> = setmetatable({}, {__close = function() mare.workers(before) end})
    mare.workers(1) -- others only watch descriptors
    local p = mare.spawn(function(options)
        assert(require "mare.postgres".connect(options)):row "SELECT pg_sleep(600)"
    end, server:options {name = "held"})
    t.reaches(function() return busy(c, "held") == 1 end, "the query runs")
    local echo = mare.channel()
    local q = mare.spawn(function() for i in echo:messages() do echo:send(i) end end)
    for i = 1, 20 do
        echo:send(i)
        t.eq(echo:receive(t.patience), i)
    end
    t.eq(busy(c, "held"), 1)
    echo:close()
    t.ok(q:join(t.patience))
    p:kill()
end

function cases.notifications_can_be_selected(c)
    local heard <close> = assert(c:listen("tide", 'the "sea"'))
    c:exec "NOTIFY tide, 'high'"
    t.eq({heard:next(t.patience)}, {"tide", "high", c:row "SELECT pg_backend_pid() AS p".p})
    t.fails("timeout", heard:next(0))
    local other = mare.channel(1)
    c:exec("SELECT pg_notify($1, $2)", 'the "sea"', "calm")
    c:exec "NOTIFY tide"
    t.eq({select(2, mare.select({other, heard}, t.patience))}, {'the "sea"', "calm",
        c:row "SELECT pg_backend_pid() AS p".p})
    t.eq(heard:next(t.patience), "tide")
    other:send "first"
    t.eq(mare.select({other, heard}, t.patience), 1)
    heard:close()
    t.fails("closed", heard:next())
    t.raises("bad argument #1 to 'listen'", c.listen, c)
end

function cases.copies_in_and_out(c)
    c:exec "CREATE TEMP TABLE t (n int, v text)"
    t.eq(c:copyin("COPY t FROM STDIN", {"1\ta\n2\t", "b\n"}), 2)
    local n = 0
    t.eq(c:copyin("COPY t FROM STDIN", function() -- more than any buffer holds
        n = n + 1
        if n <= 50 then return ("7\t%s\n"):format(("x"):rep(20000)) end
    end), 50)
    local lines, size = {}, 0
    t.eq(c:copyout("COPY (SELECT * FROM t WHERE n < 5 ORDER BY n) TO STDOUT", function(line)
        lines[#lines + 1] = line
    end), 2)
    t.eq(lines, {"1\ta\n", "2\tb\n"})
    t.eq(c:copyout("COPY t TO STDOUT", function(line) size = size + #line end), 52)
    t.ok(size > 1000000)
    t.fails("remote", c:copyin("COPY t FROM STDIN", {"no number\ta\n"}))
    t.fails("remote", c:copyin("COPY nowhere FROM STDIN", {}))
    t.fails("invalid", c:copyin("SELECT 1", {}))
    t.fails("invalid", c:copyout("SELECT 1", print))
    t.raises("oh", c.copyin, c, "COPY t FROM STDIN", function() error "oh" end)
    t.raises("oh", c.copyout, c, "COPY t TO STDOUT", function() error "oh" end)
    t.eq(c:row "SELECT count(*) AS n FROM t".n, 52)
end

function cases.ways_to_connect(_, server)
    for _, uri in ipairs {"postgresql://mare@localhost:%d/postgres?application_name=tide",
        "host=127.0.0.1 port=%d user=mare dbname=postgres application_name=tide",
        "postgresql://mare@localhost:%d,localhost:%d/postgres?application_name=tide"} do
        local c <close> = assert(postgres.connect {uri = uri:format(server.port, server.port),
            timeout = t.patience})
        t.eq(c:row "SELECT current_setting('application_name') AS v".v, "tide")
    end
    t.fails("denied", postgres.connect(server:options {username = "nobody in particular"}))
    t.fails("denied", postgres.connect(server:options {database = "none"}))
    t.fails("refused", postgres.connect(server:options {path = server.folder .. "/none"}))
    t.fails("io", postgres.connect(server:options {path = "localhost", tls = "require"}))
    t.fails("invalid", postgres.connect "postgresql://[::1")
    local listener <close> = assert(require "mare.net".listen("127.0.0.1", 0))
    t.fails("timeout", postgres.connect {host = "127.0.0.1", timeout = 0.02,
        port = select(2, listener:address())}) -- it accepts, and says nothing
    t.raises("unknown option 'hosts'", postgres.connect, {hosts = "a"})
    t.raises("option 'tls' must be", postgres.connect, {tls = 1})
end

-- The last one but one, for it restarts the server with TLS.
local function certificates_are_verified(server)
    local file, tls = require "mare.file", require "mare.tls"
    local certificate = server:use_tls "localhost"
    local path = server.folder .. "/authority.pem"
    assert(file.write(path, certificate))
    assert(file.write(server.folder .. "/other.pem", (tls.selfsigned "localhost")))
    local function connect(host, tls_word, authority)
        return postgres.connect(server:options {path = host, tls = tls_word,
            authorities = authority and server.folder .. "/" .. authority})
    end
    local c <close> = assert(connect("localhost", true, "authority.pem"))
    t.eq(c:row "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()".ssl, true)
    t.fails("io", connect("localhost", true, "other.pem")) -- somebody else's
    t.fails("io", connect("127.0.0.1", true, "authority.pem")) -- for another name
    t.fails("io", connect("localhost", true)) -- nobody is trusted
    local unverified <close> = assert(connect("127.0.0.1", "require"))
    t.ok(unverified:alive())
    local plain <close> = assert(connect("localhost", false))
    t.eq(plain:row "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()".ssl, false)
end

function cases.a_connection_is_its_process_s(c)
    t.raises("a connection belongs to the process that made it", mare.spawn, print, c)
end

function cases.a_pool_has_a_limit(c, server)
    local pool <close> = postgres.pool(server:options {size = 2, name = "pool"})
    local most, now = 0, 0
    for _, r in ipairs(t.in_routines(8, function()
        return pool:use(function(one)
            now = now + 1
            most = math.max(most, now)
            assert(one:row "SELECT pg_sleep(0.001)")
            now = now - 1
        end)
    end)) do t.ok(r:join(t.patience)) end
    t.ok(most <= 2)
    pool:use(function()
        pool:use(function() t.fails("timeout", pool:use(print, 0.01)) end)
    end)
    t.eq(c:row "SELECT count(*) AS n FROM pg_stat_activity WHERE application_name = 'pool'".n, 2)
    t.eq(pool:row("SELECT $1::int AS v", 3).v, 3)
    pool:use(function(one)
        one:exec "BEGIN" -- left open: not for the next
    end)
    t.eq(pool:transaction(function(tx) return tx:row "SELECT now() = now() AS v".v end), true)
    t.raises("oh", pool.use, pool, function() error "oh" end)
    t.eq(#pool:query "SELECT 1", 1)
    pool:use(function(one)
        one:rows "SELECT 1" -- a loop that never began
    end)
    pool:use(function(one)
        local next_row, rows = one:rows "SELECT 1"
        while next_row(rows) do end -- and one that was not closed
    end)
    for _ = 1, 3 do t.eq(#pool:query "SELECT 1", 1) end
    t.fails("timeout", pool:use(function(one) return one:within(0.01):row(SLEEP) end))
    t.eq(pool:row "SELECT 4 AS v".v, 4)
    t.raises("option 'size' must be", postgres.pool, {size = 0})
end

-- Each is lost as a whole, and the next server has nothing of it.
function cases.the_server_goes_in_the_middle(_, server)
    -- Restarts may take long.
    local c <close> = assert(postgres.connect(server:options {timeout = 3600}))
    local heard <close> = assert(c:listen "tide")
    c:exec "CREATE TABLE gone (v int)"
    local function restart()
        server:stop()
        server:start()
    end
    local function is_empty()
        assert(c:reconnect(t.patience))
        t.eq(c:row "SELECT count(*) AS n FROM gone".n, 0)
    end
    local calls = 0
    t.fails("closed", c:transaction(function(tx)
        calls = calls + 1
        assert(tx:exec "INSERT INTO gone VALUES (1)")
        restart()
    end))
    is_empty()
    t.eq(calls, 1)
    t.fails("closed", c:copyin("COPY gone FROM STDIN", function()
        calls = calls + 1
        if calls == 10 then restart() end
        return calls < 1e6 and "1\n" or nil
    end))
    is_empty()
    local ok, why = pcall(function()
        for row in c:rows "SELECT generate_series(1, 10000000) AS v" do
            if row.v == 1 then restart() end
        end
    end)
    t.ok(not ok and tostring(why):find "test_postgres.lua:%d+: ", why)
    is_empty()
    -- One who listens is told once, and then hears the next server.
    t.fails("closed", heard:next(t.patience))
    local again = mare.go(function() return heard:next(t.patience) end)
    t.reaches(function()
        c:exec "NOTIFY tide, 'back'"
        return again:status() ~= "alive"
    end, "it listens again")
    t.eq({table.unpack({again:join(t.patience)}, 1, 3)}, {true, "tide", "back"})
end

-- A server that takes connections and says nothing: nobody waits longer than was said.
function cases.a_server_that_stands_still(c, server)
    local pool <close> = postgres.pool(server:options {size = 1})
    local pid = pool:row "SELECT pg_backend_pid() AS v".v
    local main = server.child:pid()
    local _ <close> = setmetatable({}, {__close = function()
        signal("CONT", main)
        signal("CONT", pid)
    end})
    signal("STOP", pid)
    t.fails("timeout", pool:use(function(one) return one:within(0.1):row "SELECT 1" end))
    t.eq(pool:row "SELECT 1 AS v".v, 1) -- over another connection
    signal("STOP", main)
    t.fails("timeout", postgres.connect(server:options {timeout = 0.1}))
    t.fails("timeout", c:reconnect(0.1))
    signal("CONT", main)
    assert(c:reconnect(t.patience))
    t.eq(c:row "SELECT 1 AS v".v, 1)
end

-- The last one, for it takes the server away from all.
local function goes_and_comes_back(c, server)
    local pool <close> = postgres.pool(server:options {size = 2})
    local heard <close> = assert(c:listen "tide")
    t.eq(pool:row "SELECT 1 AS v".v, 1)
    local r = mare.go(function() return c:row(SLEEP) end)
    t.reaches(function() return busy(pool, "mare") == 2 end, "the query runs")
    server:stop()
    t.eq({select(4, r:join(t.patience))}, {"closed"})
    t.fails("closed", c:row "SELECT 1")
    t.eq(c:alive(), false)
    t.fails("refused", c:reconnect())
    t.fails("refused", pool:row "SELECT 1")
    t.fails("closed", heard:next(t.patience))
    server:start()
    t.fails("closed", c:transaction(print))
    assert(c:reconnect(t.patience))
    t.eq(c:row "SELECT 1 AS v".v, 1)
    t.eq(pool:row "SELECT 2 AS v".v, 2)
    t.fails("timeout", heard:next(0.02))
    t.fails("timeout", heard:next(0.02))
    c:exec "NOTIFY tide, 'back'"
    c:close()
    t.fails("closed", c:row "SELECT 1")
end

return {
    with_a_server = {with_server(function(server)
        local names = {}
        for name in pairs(cases) do names[#names + 1] = name end
        table.sort(names)
        for _, name in ipairs(names) do
            local c <close> = assert(postgres.connect(server:options()))
            local ok, why = xpcall(cases[name], debug.traceback, c, server)
            if not ok then error(name .. ": " .. tostring(why), 0) end
        end
        certificates_are_verified(server)
        goes_and_comes_back(assert(postgres.connect(server:options())), server)
    end), timeout = 300},
}
