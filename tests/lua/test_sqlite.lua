-- SPDX-License-Identifier: MIT
-- Databases of SQLite: what goes in comes out, what is under way is stopped, nobody is held back.
local mare, t, sqlite = require "mare", require "t", require "mare.sqlite"

-- It has no end, and SQLite makes its rows one by one.
local COUNT <const> = "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c) "
local ENDLESS <const> = COUNT .. "SELECT i FROM c"
local NEVER <const> = COUNT .. "SELECT i FROM c WHERE i < 0"

local function memory(schema)
    local db = assert(sqlite.open ":memory:")
    if schema then assert(db:exec(schema)) end
    return db
end

local function count(db) return assert(db:row "SELECT count(*) AS n FROM t").n end

return {
    values_of_all_kinds = function()
        local db <close> = memory "CREATE TABLE t (v)"
        for _, case in ipairs {
            {math.maxinteger, "integer"}, {math.mininteger, "integer"}, {0, "integer"},
            {1.0, "real"}, {-0.5, "real"}, {math.huge, "real"}, {"", "text"}, {"a\0b", "text"},
            {true, "integer", 1}, {false, "integer", 0}, {sqlite.blob "\0\xff", "blob", "\0\xff"},
            {sqlite.blob "", "blob", ""}, {"5", "text"},
        } do
            local row = assert(db:row("SELECT ? AS v, typeof(?1) AS type", case[1]))
            t.eq(row.type, case[2])
            local expected = case[3] == nil and case[1] or case[3]
            t.eq(row.v, expected)
            t.eq(math.type(row.v), math.type(expected))
        end
        for _, none in ipairs {sqlite.null, require "mare.json".null} do
            t.eq(db:row("SELECT ? AS v, typeof(?1) AS type", none), {[2] = "null", type = "null"})
        end
        t.eq(db:row("SELECT ? IS NULL AS a, ? AS b, ? IS NULL AS c", nil, 2, nil),
            {1, 2, 1, a = 1, b = 2, c = 1})
        t.eq(table.pack(db:row "SELECT 1 WHERE 0"), {n = 1})
    end,

    objects_are_ready_for_json = function()
        local json = require "mare.json"
        local db <close> = assert(sqlite.open ":memory:")
        db:exec "CREATE TABLE t (id INTEGER, v TEXT)"
        t.eq(json.encode(assert(db:objects "SELECT * FROM t")), "[]")
        db:exec("INSERT INTO t VALUES (1, 'a'), (2, NULL)")
        t.eq(json.encode(assert(db:objects("SELECT * FROM t WHERE id < ?", 9)), {sorted = true}),
            '[{"id":1,"v":"a"},{"id":2}]')
        t.fails("error", db:objects "SELECT nonsense")
        t.eq(json.encode(assert(db:object("SELECT id, v FROM t WHERE id > ?", 1))), '{"id":2}')
        t.eq(db:object "SELECT * FROM t WHERE id > 9", nil)
        t.fails("error", db:object "SELECT nonsense")
        for _, name in ipairs {"query", "objects", "row", "object"} do -- at the caller's line
            t.raises("^[^\n]*test_sqlite.lua:%d+: bad argument #1 to '" .. name .. "' %(string",
                function() return (db[name](db, 5)) end)
            t.raises("^[^\n]*test_sqlite.lua:%d+: bad argument #2 to '" .. name .. "' %(a function",
                function() return (db[name](db, "SELECT ?", print)) end)
        end
        t.raises("bad argument #1 to 'mare.json.encode' %(value%[1%]: a list has "
            .. "the key '.-'%)", json.encode, db:query "SELECT * FROM t")
    end,

    what_exec_says = function()
        local db <close> = memory()
        t.eq({db:exec [[CREATE TABLE t (id INTEGER PRIMARY KEY, v); -- a comment; of its own
            INSERT INTO t (v) VALUES (';'), ('b'); INSERT INTO t (v) VALUES ('c'); /* the end */]]},
            {3, 3})
        t.eq({db:exec("UPDATE t SET v = ? WHERE id > ?", "x", 1)}, {2, 3})
        t.eq({db:exec "  -- nothing"}, {0, 3})
        t.eq(db:query "", {})
        t.eq(db:query "SELECT id, v FROM t ORDER BY id",
            {{1, ";", id = 1, v = ";"}, {2, "x", id = 2, v = "x"}, {3, "x", id = 3, v = "x"}})
        t.eq(db:query "SELECT 1 AS a, 2 AS a", {{1, 2, a = 2}})
    end,

    parameters_have_values_and_values_parameters = function()
        local db <close> = memory()
        t.eq(db:row("SELECT :a + @b + $c AS sum", {a = 1, b = 2, c = 3}).sum, 6)
        t.eq(db:row("SELECT :a IS NULL AS v", {a = sqlite.null}).v, 1)
        t.fails("invalid", db:row("SELECT :a", {}))
        sqlite.open(":memory:", {limit = 1e6}):close()
        t.fails("invalid", db:row("SELECT :a", {a = 1, b = 2}))
        t.fails("invalid", db:row("SELECT ?", {a = 1}))
        t.fails("invalid", db:row "SELECT ?")
        t.eq((select(2, db:row "SELECT ?")), "the statement takes 1 value, and got 0")
        t.eq((select(2, db:row("SELECT ?, ?", 1))), "the statement takes 2 values, and got 1")
        t.fails("invalid", db:row("SELECT ?", 1, 2))
        t.fails("invalid", db:query "SELECT 1; SELECT 2")
        t.fails("invalid", db:exec("SELECT ?; SELECT 2", 1))
        t.raises("a table of parameters has names as keys", db.exec, db, "SELECT 1", {1})
        t.raises("bad argument #3 to 'row' %(a function cannot be a parameter%)", db.row, db,
            "SELECT ?, ?", 1, print)
        t.raises("bad argument 'a' to 'row' %(a table cannot be a parameter%)", db.row, db,
            "SELECT :a", {a = {}})
        t.raises("bad argument #1 to 'exec'", db.exec, db)
        t.raises("contains zero bytes", db.exec, db, "SELECT 1\0")
    end,

    failures_have_sqlites_words = function()
        local db <close> = memory "CREATE TABLE t (id INTEGER PRIMARY KEY, v NOT NULL)"
        db:exec("INSERT INTO t VALUES (1, 1)")
        t.eq({db:exec "INSERT INTO t VALUES (1, 2)"},
            {nil, "UNIQUE constraint failed: t.id", "constraint", 1555})
        t.eq({db:exec "INSERT INTO t VALUES (2, NULL)"},
            {nil, "NOT NULL constraint failed: t.v", "constraint", 1299})
        t.eq({db:row "SELECT tide"}, {nil, "no such column: tide", "error", 1})
        t.eq({db:exec "INSERT INTO t VALUES (3, 3); nonsense; INSERT INTO t VALUES (4, 4)"},
            {nil, 'near "nonsense": syntax error', "error", 1})
        t.eq(count(db), 2)
        t.raises("no such table: u", function() for _ in db:rows "SELECT * FROM u" do end end)
    end,

    a_file_is_opened_as_it_is_said = t.in_folder(function(folder)
        local path = folder .. "/a.db"
        t.fails("cantopen", sqlite.open(path, {create = false}))
        t.fails("cantopen", sqlite.open(path, {readonly = true}))
        t.fails("cantopen", sqlite.open(folder .. "/none/a.db"))
        local db = assert(sqlite.open(path))
        db:exec "CREATE TABLE t (v); INSERT INTO t VALUES (1)"
        t.eq(db:close(), true)
        t.fails("closed", db:close())
        t.fails("closed", db:exec "SELECT 1")
        local reader <close> = assert(sqlite.open(path, {readonly = true}))
        t.eq(count(reader), 1)
        t.fails("readonly", reader:exec "INSERT INTO t VALUES (2)")
        t.eq(reader:transaction(count), 1)
        assert(require "mare.file".write(path .. "2", ("no database "):rep(100)))
        local other <close> = assert(sqlite.open(path .. "2"))
        t.fails("notadb", other:exec "CREATE TABLE t (v)")
        t.raises("unknown option 'read_only'", sqlite.open, path, {read_only = true})
        t.raises("option 'busy' must be", sqlite.open, path, {busy = -1})
        t.raises("option 'timeout' must be", sqlite.open, path, {timeout = 0})
    end),

    rows_come_one_by_one = function()
        local db <close> = memory "CREATE TABLE t (v)"
        local n = 0
        for row in db:rows(ENDLESS) do
            n = n + 1
            t.eq(row.i, n)
            if n == 1000 then break end
        end
        db:exec("INSERT INTO t " .. COUNT .. "SELECT i FROM c LIMIT 1000")
        for row in db:rows "SELECT v FROM t" do -- another statement meanwhile; and left early
            t.eq(db:row("SELECT v * 2 AS v FROM t WHERE v = ?", row.v).v, 2 * row.v)
            if row.v == 300 then break end
        end
        t.ok(db:exec "DROP TABLE t") -- which it could not if a statement still read from it
        n = 0
        for _ in db:rows("SELECT value FROM json_each('[1,2,3]')") do n = n + 1 end
        t.eq(n, 3)
    end,

    rows_need_no_memory_for_all = function()
        local p = mare.spawn({memory = 1 << 20}, function(sql)
            local db <close> = assert(require "mare.sqlite".open ":memory:")
            local n, last = 0, nil
            for row in db:rows(sql) do n, last = n + 1, row end
            return n, #last.v
        end, COUNT .. "SELECT i, printf('%1000s', 'x') AS v FROM c LIMIT 3000")
        t.eq({p:join(t.patience)}, {true, 3000, 1000})
    end,

    there_are_limits = function()
        local db <close> = assert(sqlite.open(":memory:", {limit = 10000}))
        local hundred = COUNT .. "SELECT printf('%100s', 'x') AS v FROM c LIMIT "
        t.eq(#assert(db:query(hundred .. 50)), 50)
        t.fails("toobig", db:query(hundred .. 100)) -- in one piece, and in many
        t.fails("toobig", db:query(hundred .. 500))
        t.fails("toobig", db:row "SELECT zeroblob(20000)")
        t.fails("toobig", db:row("SELECT ?", ("x"):rep(20000)))
        t.eq(db:row "SELECT 1 AS v".v, 1)
    end,

    statements_are_prepared_once = function()
        local db <close> = memory "CREATE TABLE t (v)"
        local insert = "INSERT INTO t VALUES (?)"
        for i = 1, 20 do db:exec(insert, i) end
        t.eq(db:query("SELECT run FROM sqlite_stmt WHERE sql = ?", insert), {{20, run = 20}})
        for i = 1, 100 do db:exec(("INSERT INTO t VALUES (?) -- %d"):format(i), i) end
        t.ok(db:row("SELECT count(*) AS n FROM sqlite_stmt").n <= 33)
        t.eq(db:row("SELECT v FROM t WHERE v = ? LIMIT 1", 7).v, 7)
        t.eq(db:row("SELECT v FROM t WHERE v = ? LIMIT 1", 8).v, 8)
    end,

    transactions_are_whole_or_not_at_all = function()
        local db <close> = memory "CREATE TABLE t (v)"
        local insert = "INSERT INTO t VALUES (1)"
        t.eq({db:transaction(function(tx) tx:exec(insert) return "a", 2 end)}, {"a", 2})
        t.eq({db:transaction(function(tx) tx:exec(insert) end)}, {true})
        t.eq(count(db), 2)
        t.eq({pcall(db.transaction, db, function(tx) tx:exec(insert) error({5}) end)}, {false, {5}})
        t.eq(count(db), 2)
        t.eq({db:transaction(function(tx) tx:exec(insert) return nil, "no", "denied" end)},
            {nil, "no", "denied"})
        t.eq(count(db), 2)
        local kept
        db:transaction(function(tx)
            kept = tx
            tx:exec(insert)
            t.fails("error", tx:transaction(function(inner)
                inner:exec(insert)
                t.fails("refused", tx:exec(insert))
                return inner:exec "nonsense"
            end))
            t.eq({tx:transaction(function(inner) return inner:exec(insert) end)}, {1, 4})
            t.raises("use what its function is given", db.exec, db, insert)
            for _, name in ipairs {"exec", "query", "row", "rows", "objects", "transaction"} do
                t.raises("^[^:]*test_sqlite.lua:%d+: a transaction has the database", function()
                    local result = db[name](db, name == "transaction" and print or "SELECT 1")
                    return result
                end)
            end
        end)
        t.eq(count(db), 4)
        t.fails("closed", kept:exec(insert))
        t.eq(count(db), 4)
        t.raises("option 'mode' must be", db.transaction, db, print, {mode = "eager"})
    end,

    what_sqlite_rolled_back_does_not_go_on = function()
        local db <close> = memory "CREATE TABLE t (v UNIQUE)"
        t.fails("refused", db:transaction(function(tx)
            tx:exec "INSERT INTO t VALUES (1)"
            t.fails("constraint", tx:exec "INSERT OR ROLLBACK INTO t VALUES (1)")
            t.fails("refused", tx:exec "INSERT INTO t VALUES (2)")
        end))
        t.eq(count(db), 0)
        db:exec [[PRAGMA foreign_keys = 1; CREATE TABLE p (id PRIMARY KEY);
            CREATE TABLE c (p REFERENCES p (id) DEFERRABLE INITIALLY DEFERRED)]]
        t.fails("constraint", db:transaction(function(tx) tx:exec "INSERT INTO c VALUES (1)" end))
        t.eq(db:transaction(function(tx) return tx:exec "INSERT INTO t VALUES (3)" end), 1)
    end,

    routines_take_turns = function()
        local db <close> = memory "CREATE TABLE t (v); INSERT INTO t VALUES (0)"
        for _, r in ipairs(t.in_routines(10, function()
            db:transaction(function(tx)
                local v = tx:row "SELECT v FROM t".v
                mare.yield()
                tx:exec("UPDATE t SET v = ?", v + 1)
            end)
        end)) do t.ok(r:join(t.patience)) end
        t.eq(db:row "SELECT v FROM t".v, 10)
    end,

    a_deadline_stops_what_is_under_way = function()
        local db <close> = memory "CREATE TABLE t (v)"
        t.fails("timeout", db:within(0.01):query(NEVER))
        t.ok(db:exec "INSERT INTO t VALUES (1)") -- or it would wait for ever
        t.fails("timeout", db:within(0.05):transaction(function(tx)
            tx:exec "INSERT INTO t VALUES (2)"
            return tx:exec("INSERT INTO t " .. NEVER)
        end))
        t.eq(count(db), 1)
        local quick <close> = assert(sqlite.open(":memory:", {timeout = 0.05}))
        t.fails("timeout", quick:row(NEVER))
        local r = mare.go(function() return db:row(NEVER) end)
        t.settle()
        r:cancel()
        t.eq({select(4, r:join(t.patience))}, {"cancelled"})
        t.eq(count(db), 1)
    end,

    a_routine_that_is_closed_rolls_back = function()
        local db <close> = memory "CREATE TABLE t (v)"
        local co = coroutine.create(function()
            db:transaction(function(tx)
                tx:exec "INSERT INTO t VALUES (1)"
                coroutine.yield "half"
            end)
        end)
        t.eq({coroutine.resume(co)}, {true, "half"})
        t.ok(coroutine.close(co))
        t.eq(count(db), 0)
        t.eq(db:transaction(function(tx) return tx:exec "INSERT INTO t VALUES (1)" end), 1)
    end,

    a_kill_rolls_back_and_stops = t.in_folder(function(folder)
        local path = folder .. "/a.db"
        local db <close> = assert(sqlite.open(path, {busy = t.patience}))
        db:exec "CREATE TABLE t (v)"
        for _, last in ipairs {NEVER, "wait"} do
            local half = mare.channel(1)
            local p = mare.spawn(function()
                local own = assert(require "mare.sqlite".open(path))
                own:transaction(function(tx)
                    assert(tx:exec "INSERT INTO t VALUES (1)")
                    half:send(true)
                    if last == "wait" then mare.channel():receive(600) end
                    tx:exec(last)
                end)
            end)
            t.ok(half:receive(t.patience))
            p:kill()
            t.ok(db:exec "INSERT INTO t VALUES (2)") -- when the lock is free
        end
        t.eq(db:query "SELECT v FROM t", {{2, v = 2}, {2, v = 2}})
    end),

    nobody_is_held_back = function()
        t.with_workers(1, function()
            local ready, ping = mare.channel(1), mare.channel()
            local p = mare.spawn(function()
                local db = assert(require "mare.sqlite".open ":memory:")
                ready:send(true)
                db:exec(NEVER)
            end)
            t.ok(ready:receive(t.patience))
            local echo = mare.spawn(function() for i in ping:messages() do ping:send(i) end end)
            for i = 1, 100 do
                ping:send(i)
                t.eq(ping:receive(t.patience), i)
            end
            t.eq(p:status(), "blocked")
            ping:close()
            t.ok(echo:join(t.patience))
            p:kill()
            t.fails("killed", p:join(t.patience))
        end)
    end,

    a_lock_is_waited_for = t.in_folder(function(folder)
        local path = folder .. "/a.db"
        local one <close> = assert(sqlite.open(path))
        local hasty <close> = assert(sqlite.open(path, {busy = 0}))
        local patient <close> = assert(sqlite.open(path, {busy = t.patience}))
        one:exec "CREATE TABLE t (v)"
        local script = "INSERT INTO t VALUES (3); INSERT INTO t VALUES (4)"
        one:transaction(function(tx)
            tx:exec "INSERT INTO t VALUES (1)"
            t.fails("busy", hasty:exec "INSERT INTO t VALUES (2)")
            t.fails("timeout", patient:within(0.01):exec "INSERT INTO t VALUES (2)")
            local r = mare.go(function() return patient:exec(script) end)
            t.settle()
            t.eq(r:status(), "alive")
            one._later = r
        end)
        t.eq({one._later:join(t.patience)}, {true, 2, 3})
        t.eq(count(one), 3)
    end),

    processes_share_a_file = t.in_folder(function(folder)
        local path, all = folder .. "/a.db", {}
        local db <close> = assert(sqlite.open(path))
        db:exec "PRAGMA journal_mode = WAL; CREATE TABLE t (v); INSERT INTO t VALUES (0)"
        for i = 1, 4 do
            all[i] = mare.spawn(function(patience)
                local own <close> = assert(require "mare.sqlite".open(path, {busy = patience}))
                own:exec "PRAGMA synchronous = off"
                for _ = 1, 10 do
                    assert(own:transaction(function(tx)
                        return tx:exec("UPDATE t SET v = ?", tx:row "SELECT v FROM t".v + 1)
                    end))
                end
            end, t.patience)
        end
        for _, p in ipairs(all) do t.eq({p:join(t.patience)}, {true}) end
        t.eq(db:row "SELECT v FROM t".v, 40)
    end),

    a_database_is_its_process_s = function()
        local db <close> = memory()
        t.raises("a database belongs to the process that opened it", mare.spawn, print, db)
        t.ok(tostring(db):find "^sqlite.database")
    end,

    what_is_closed_is_closed = function()
        local db = memory()
        local f, rows = db:rows(ENDLESS)
        t.eq(f(rows).i, 1)
        do local _ <close> = db end
        t.fails("closed", db:row "SELECT 1")
        t.raises("the database is closed", function() for _ = 1, 1000 do f(rows) end end)
        t.eq(tostring(db), "sqlite.database (closed)")
    end,
}
