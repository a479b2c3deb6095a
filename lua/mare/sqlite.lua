-- SPDX-License-Identifier: MIT
-- Databases of SQLite. Threads do what blocks (src/loop/sqlite.c). This file has the turns, how
-- often a statement is tried again after it met a lock, and transactions.
local mare, raw = require "mare", require "mare._sqlite"
local check, json, sql = require "mare._check", require "mare.json", require "mare._sql"

local sqlite = {null = json.null}

local OPTIONS = check.set("readonly", "create", "busy", "timeout", "limit")
local TRANSACTION = check.set("mode")
local MODES = check.set("deferred", "immediate", "exclusive")
local LIMIT <const>, BUSY <const> = 64 << 20, 5
local EVERY <const> = 1 << 16 -- rows that a thread brings at once

local methods = {}
local Database = {__index = methods, __name = "sqlite.database"}

function Database.__travel() error("a database belongs to the process that opened it", 0) end

-- ---- Values ------------------------------------------------------------------------------------

local Blob = {__name = "sqlite.blob"}

--- Bytes that become a BLOB; a plain string becomes TEXT.
function sqlite.blob(bytes)
    check.argument("blob", bytes, 1, "string")
    return setmetatable({bytes}, Blob)
end

-- The values of parameters and their number, which is -1 if they have names.
local function values_of(name, ...)
    local count, first = select("#", ...), ...
    if count == 1 and type(first) == "table" and getmetatable(first) ~= Blob then
        for key, value in pairs(first) do
            if type(key) ~= "string" then
                error(("bad argument #2 to '%s' (a table of parameters has names as keys)")
                    :format(name), 3)
            end
            sql.check_value(name, value, "'" .. key .. "'", sqlite.null, Blob, 4)
        end
        return first, -1
    end
    local values = {...}
    for i = 1, count do
        sql.check_value(name, values[i], "#" .. i + 1, sqlite.null, Blob, 4)
    end
    return values, count
end

-- ---- Calls -------------------------------------------------------------------------------------

-- Runs a statement or a script; tries again as long as another connection is in the way.
local function run(self, deadline, text, values, count, most)
    local shared, offset, changed, pause = self._shared, 0, 0, 0.001
    local patience = mare.now() + shared.busy
    while true do
        local a, b, c, d, busy, reached, changes =
            raw.run(shared.handle, text, offset, values, count, most, self._tx ~= nil, deadline)
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

local function exec(self, deadline, text) return run(self, deadline, text, {}, 0, 0) end

--- Runs a statement, or several in one string if there are no parameters: how many rows were
--- changed, and the number of the row that was inserted last.
function methods:exec(text, ...)
    sql.check_text("exec", text)
    local values, count = values_of("exec", ...)
    return sql.in_turn(self, run, text, values, count, 0)
end

-- Functions that ask for rows end with a tail call of this or of `all`, so that errors name the
-- line of their caller. `finish` turns the rows into the result.
local function first(self, finish, text, values, count)
    local rows, why, code, extended = sql.in_turn(self, run, text, values, count, 1)
    if not rows then return nil, why, code, extended end
    if extended then raw.forget(extended) end -- drop the cursor: there are more rows
    return finish(rows)[1]
end

--- The first row, or nil.
function methods:row(text, ...)
    sql.check_text("row", text)
    return first(self, sql.as_they_are, text, values_of("row", ...))
end

--- The same, by the names of the columns alone.
function methods:object(text, ...)
    sql.check_text("object", text)
    return first(self, sql.by_name, text, values_of("object", ...))
end

-- ---- Rows --------------------------------------------------------------------------------------

local function more(self, deadline, cursor, columns)
    return raw.more(self._shared.handle, cursor, columns, deadline)
end

local function all(self, finish, text, values, count)
    local rows, size, columns, cursor = sql.in_turn(self, run, text, values, count, EVERY)
    if not rows then return nil, size, columns, cursor end
    local limit, batch = self._shared.limit, rows
    while true do
        if size > limit then
            if cursor then raw.forget(cursor) end
            return nil, ("the rows have more than %d bytes: take them one by one"):format(limit),
                "toobig"
        end
        if not cursor or #batch == 0 then return finish(rows) end
        local bytes, code, extended
        batch, bytes, code, extended = sql.in_turn(self, more, cursor, columns)
        if not batch then
            raw.forget(cursor)
            return nil, bytes, code, extended
        end
        size = size + bytes
        table.move(batch, 1, #batch, #rows + 1, rows)
    end
end

--- All rows in a list.
function methods:query(text, ...)
    sql.check_text("query", text)
    return all(self, sql.as_they_are, text, values_of("query", ...))
end

--- The same, by the names of the columns alone.
function methods:objects(text, ...)
    sql.check_text("objects", text)
    return all(self, sql.by_name, text, values_of("objects", ...))
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
    local batch, why = sql.in_turn(self.database, more, self.cursor, self.columns)
    if not batch then error(why, 2) end
    if #batch == 0 then self.cursor = nil end
    self.batch, self.at = batch, 1
    return batch[1]
end

--- For a loop over rows; only some of them are in memory. A failure raises an error.
function methods:rows(text, ...)
    sql.check_text("rows", text)
    local values, count = values_of("rows", ...)
    local batch, why, columns, cursor = sql.in_turn(self, run, text, values, count, EVERY)
    if not batch then error(why, 2) end
    local rows = setmetatable({database = self, batch = batch, at = 0, columns = columns,
        cursor = cursor}, Rows)
    return next_row, rows, nil, rows
end

-- ---- Transactions ------------------------------------------------------------------------------

--- Calls f(tx) in a transaction: see mare._sql.
function methods:transaction(f, options)
    check.argument("transaction", f, 1, "function")
    options = options or {}
    check.options("transaction", options, 2, TRANSACTION)
    check.option("transaction", options, 2, "mode", function(mode) return MODES[mode] end,
        "'deferred', 'immediate' or 'exclusive'")
    local usual = self._shared.readonly and "deferred" or "immediate"
    return sql.transaction(self, f, "BEGIN " .. (options.mode or usual))
end

-- ---- Beginning and end -------------------------------------------------------------------------

methods.within = sql.within

--- A database: see docs/reference/sqlite.md.
function sqlite.open(path, options)
    sql.check_text("open", path)
    options = options or {}
    check.options("open", options, 2, OPTIONS)
    check.option("open", options, 2, "timeout", check.span, "a number of seconds above 0")
    check.option("open", options, 2, "readonly", "boolean", "a boolean")
    check.option("open", options, 2, "create", "boolean", "a boolean")
    check.option("open", options, 2, "busy", function(busy)
        return type(busy) == "number" and busy >= 0
    end, "a number of seconds")
    check.option("open", options, 2, "limit", check.size, "a whole number of bytes above 0")
    local limit = options.limit or LIMIT
    local handle, why, code, extended = raw.open(path, options.readonly, options.create ~= false,
        limit, options.timeout and mare.deadline(options.timeout))
    if not handle then return nil, why, code, extended end
    local shared = {handle = handle, turn = mare.channel(1), limit = limit, what = "the database",
        busy = options.busy or BUSY, timeout = options.timeout, readonly = options.readonly,
        exec = exec}
    function shared.abandon()
        shared.abandoned = true
        raw.rollback(shared.handle)
    end
    function shared.clean()
        if shared.abandoned then
            shared.abandoned = false
            exec({_shared = shared}, nil, "ROLLBACK") -- unless that has been done meanwhile
        end
        return true
    end
    shared.turn:send(true)
    return setmetatable({_shared = shared}, Database)
end

-- Does not wait: stops a running statement, and rolls a transaction back.
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
    local ok, why, code, extended = raw.close(shared.handle, sql.deadline_of(self))
    raw.forget(shared.handle)
    return ok, why, code, extended
end

function Database.__tostring(self)
    return ("sqlite.database%s"):format(self._shared.closed and " (closed)" or "")
end

return sqlite
