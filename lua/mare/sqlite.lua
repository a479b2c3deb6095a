-- SPDX-License-Identifier: MIT
-- Databases of SQLite. The work is done by threads for what blocks (src/loop/sqlite.c); here is who
-- has the database, how often a statement is tried that met a lock, and what a transaction is.
--
-- A database serves one call at a time; other routines of the process wait for their turn. A
-- transaction has the turn from its beginning to its end.
local mare, raw = require "mare", require "mare._sqlite"
local check, json = require "mare._check", require "mare.json"

local sqlite = {null = json.null}

local OPTIONS = check.set("readonly", "create", "busy", "timeout", "limit")
local TRANSACTION = check.set("mode")
local MODES = check.set("deferred", "immediate", "exclusive")
local LIMIT <const>, BUSY <const> = 64 << 20, 5
local EVERY <const> = 1 << 16 -- rows: as many at once as a thread brings

local methods = {}
local Database = {__index = methods, __name = "sqlite.database"}

function Database.__travel() error("a database belongs to the process that opened it", 0) end

-- ---- Values ------------------------------------------------------------------------------------

local Blob = {__name = "sqlite.blob"}

--- Bytes that become a BLOB; a string alone becomes TEXT.
function sqlite.blob(bytes)
    check.argument("blob", bytes, 1, "string")
    return setmetatable({bytes}, Blob)
end

local SIMPLE = check.set("nil", "boolean", "number", "string")

local function check_value(name, value, what)
    if SIMPLE[type(value)] or value == sqlite.null or getmetatable(value) == Blob then return end
    error(("bad argument %s to '%s' (a database has no %s)"):format(what, name, type(value)), 4)
end

local function check_text(name, text)
    check.argument(name, text, 1, "string", 4)
    if text:find("\0", 1, true) then
        error(("bad argument #1 to '%s' (it contains zero bytes)"):format(name), 3)
    end
end

-- The values of parameters and their number, which is -1 if they have names.
local function values_of(name, ...)
    local count, first = select("#", ...), ...
    if count == 1 and type(first) == "table" and getmetatable(first) ~= Blob then
        for key, value in pairs(first) do
            if type(key) ~= "string" then
                error(("bad argument #2 to '%s' (parameters in a table have names)"):format(name),
                    3)
            end
            check_value(name, value, "'" .. key .. "'")
        end
        return first, -1
    end
    local values = {...}
    for i = 1, count do check_value(name, values[i], "#" .. i + 1) end
    return values, count
end

-- ---- Calls -------------------------------------------------------------------------------------
-- What is common to a database, its views and its transactions is in _shared; _tx says of which
-- transaction they are.

local function deadline_of(self)
    return self._deadline or self._shared.timeout and mare.deadline(self._shared.timeout)
end

-- One statement, or a script, and again as long as another connection is in the way.
local function run(self, deadline, sql, values, count, most)
    local shared, offset, changed, pause = self._shared, 0, 0, 0.001
    local patience = mare.now() + shared.busy
    while true do
        local a, b, c, d, busy, reached, changes =
            raw.run(shared.handle, sql, offset, values, count, most, self._tx ~= nil, deadline)
        if not busy or mare.now() >= patience then
            if a and most == 0 then return a + changed, b end
            return a, b, c, d
        end
        offset, changed = reached, changed + changes
        local slept, why, code = mare.sleep(math.min(pause, deadline and deadline:left() or pause))
        if code then return slept, why, code end
        if deadline and deadline:left() == 0 then return nil, "the deadline passed", "timeout" end
        pause = math.min(pause * 2, 0.05)
    end
end

local function exec(self, deadline, sql) return run(self, deadline, sql, {}, 0, 0) end

-- Whoever had the database before was closed in the middle of a transaction.
local function clean(shared)
    if not shared.abandoned then return end
    shared.abandoned = false
    exec({_shared = shared}, nil, "ROLLBACK") -- there may be nothing to roll back any more
end

-- Calls f(self, deadline, ...) when it is this routine's turn.
local function in_turn(self, f, ...)
    local shared, tx, deadline = self._shared, self._tx, deadline_of(self)
    if shared.closed then return nil, "the database is closed", "closed" end
    if tx and tx.over then return nil, "the transaction is over", "closed" end
    if tx and tx.nested then return nil, "a transaction in this one is under way", "refused" end
    if tx then return f(self, deadline, ...) end
    if shared.owner and shared.owner == coroutine.running() then
        error("a transaction has the database: use what its function is given", 3)
    end
    local got, why, code = shared.turn:receive(deadline)
    if not got then return nil, why, code end
    local _ <close> = setmetatable({}, {__close = function() shared.turn:trysend(true) end})
    if shared.closed then return nil, "the database is closed", "closed" end
    clean(shared)
    return f(self, deadline, ...)
end

--- Runs a statement, or several in one string if there are no parameters: how many rows were
--- changed, and the number of the row that was inserted last.
function methods:exec(sql, ...)
    check_text("exec", sql)
    local values, count = values_of("exec", ...)
    return in_turn(self, run, sql, values, count, 0)
end

--- The first row, or nil.
function methods:row(sql, ...)
    check_text("row", sql)
    local values, count = values_of("row", ...)
    local rows, why, code, extended = in_turn(self, run, sql, values, count, 1)
    if not rows then return nil, why, code, extended end
    if extended then raw.forget(extended) end -- the cursor: there are more
    return rows[1]
end

-- ---- Rows --------------------------------------------------------------------------------------

local function more(self, deadline, cursor, columns)
    return raw.more(self._shared.handle, cursor, columns, deadline)
end

--- All rows in a list.
function methods:query(sql, ...)
    check_text("query", sql)
    local values, count = values_of("query", ...)
    local rows, size, columns, cursor = in_turn(self, run, sql, values, count, EVERY)
    if not rows then return nil, size, columns, cursor end
    local limit, batch = self._shared.limit, rows
    while true do
        if size > limit then
            if cursor then raw.forget(cursor) end
            return nil, ("the rows have more than %d bytes: take them one by one"):format(limit),
                "toobig"
        end
        if not cursor or #batch == 0 then return rows end
        local bytes, code, extended
        batch, bytes, code, extended = in_turn(self, more, cursor, columns)
        if not batch then
            raw.forget(cursor)
            return nil, bytes, code, extended
        end
        size = size + bytes
        table.move(batch, 1, #batch, #rows + 1, rows)
    end
end

local Rows = {__name = "sqlite.rows"}
function Rows.__close(self)
    if self.cursor then raw.forget(self.cursor) end
    self.cursor, self.batch = nil, {}
end

local function next_row(self)
    self.at = self.at + 1
    local row = self.batch[self.at]
    if row or not self.cursor then return row end
    local batch, why = in_turn(self.database, more, self.cursor, self.columns)
    if not batch then error(why, 2) end
    if #batch == 0 then self.cursor = nil end
    self.batch, self.at = batch, 1
    return batch[1]
end

--- For a loop over rows, of which only some are in memory. A failure is an error.
function methods:rows(sql, ...)
    check_text("rows", sql)
    local values, count = values_of("rows", ...)
    local batch, why, columns, cursor = in_turn(self, run, sql, values, count, EVERY)
    if not batch then error(why, 2) end
    local rows = setmetatable({database = self, batch = batch, at = 0, columns = columns,
        cursor = cursor}, Rows)
    return next_row, rows, nil, rows
end

-- ---- Transactions ------------------------------------------------------------------------------

-- What f has returned: whether it is a failure, and all of it.
local function judge(ok, first, second, ...)
    if not ok then return true, false, first end
    local failed = not first and second ~= nil
    if first == nil and not failed then return false, true, true end
    return failed, true, first, second, ...
end

local function transact(self, deadline, f, mode)
    local shared, outer = self._shared, self._tx
    local depth = outer and outer.depth + 1 or 0
    local name = "mare_" .. depth
    local began, why, code, extended =
        exec(self, deadline, outer and "SAVEPOINT " .. name or "BEGIN " .. mode)
    if not began then return nil, why, code, extended end
    local tx, owner = {depth = depth}, shared.owner
    shared.owner = coroutine.running()
    if outer then outer.nested = true end
    local whole = false
    local _ <close> = setmetatable({}, {__close = function()
        tx.over, shared.owner = true, owner
        if outer then outer.nested = false end
        if whole then return end
        shared.abandoned = true -- closed in the middle: nobody can wait here
        raw.rollback(shared.handle)
    end})
    local inner = setmetatable({_shared = shared, _tx = tx, _deadline = deadline}, Database)
    local results = table.pack(judge(pcall(f, inner)))
    if outer then outer.nested = false end
    if not results[1] then
        local done
        done, why, code, extended = exec(inner, deadline, outer and "RELEASE " .. name or "COMMIT")
        whole = done ~= nil
        if whole then return table.unpack(results, 3, results.n) end
        results = {true, true, nil, why, code, extended, n = 6}
    end
    exec(inner, nil, outer and ("ROLLBACK TO %s; RELEASE %s"):format(name, name) or "ROLLBACK")
    whole = true
    if not results[2] then error(results[3], 0) end
    return table.unpack(results, 3, results.n)
end

--- Calls f(tx) in a transaction, or in a part of one that can be undone. It is rolled back if f
--- fails: by an error, which goes on, or with nil and a message, which are returned.
function methods:transaction(f, options)
    check.argument("transaction", f, 1, "function")
    options = options or {}
    check.options("transaction", options, 2, TRANSACTION)
    check.option("transaction", options, 2, "mode", function(mode) return MODES[mode] end,
        "'deferred', 'immediate' or 'exclusive'")
    local usual = self._shared.readonly and "deferred" or "immediate"
    return in_turn(self, transact, f, options.mode or usual)
end

-- ---- Beginning and end -------------------------------------------------------------------------

--- The same database, or transaction, for calls that are over by then.
function methods:within(timeout)
    local deadline = check.deadline("within", timeout, 1)
    return setmetatable({_shared = self._shared, _tx = self._tx, _deadline = deadline}, Database)
end

--- A database: see docs/reference/sqlite.md.
function sqlite.open(path, options)
    check_text("open", path)
    options = options or {}
    check.options("open", options, 2, OPTIONS)
    check.option("open", options, 2, "timeout", check.span, "a number of seconds above 0")
    check.option("open", options, 2, "readonly", "boolean", "a boolean")
    check.option("open", options, 2, "create", "boolean", "a boolean")
    check.option("open", options, 2, "busy", function(busy)
        return type(busy) == "number" and busy >= 0
    end, "a number of seconds")
    check.option("open", options, 2, "limit", function(limit)
        return math.type(limit) == "integer" and limit > 0
    end, "a number of bytes above 0")
    local limit = options.limit or LIMIT
    local handle, why, code, extended = raw.open(path, options.readonly, options.create ~= false,
        limit, options.timeout and mare.deadline(options.timeout))
    if not handle then return nil, why, code, extended end
    local turn = mare.channel(1)
    turn:send(true)
    return setmetatable({_shared = {handle = handle, turn = turn, limit = limit,
        busy = options.busy or BUSY, timeout = options.timeout, readonly = options.readonly}},
        Database)
end

-- Without waiting: a statement that is under way is stopped, a transaction rolled back.
function Database.__close(self)
    local shared = self._shared
    if shared.closed then return end
    shared.closed = true
    raw.forget(shared.handle)
end

--- Closes it, and waits for that.
function methods:close()
    local shared = self._shared
    if shared.closed then return nil, "the database is closed", "closed" end
    shared.closed = true
    local ok, why, code, extended = raw.close(shared.handle, deadline_of(self))
    raw.forget(shared.handle)
    return ok, why, code, extended
end

function Database.__tostring(self)
    return ("sqlite.database%s"):format(self._shared.closed and " (closed)" or "")
end

return sqlite
