-- SPDX-License-Identifier: MIT
-- A client of PostgreSQL over libpq, whose calls do not block (src/lua/postgres.c). How a
-- connection is made: _postgres_dial.lua; how one call is waited for and ended: _postgres_call.lua.
-- A connection serves one call at a time; other routines of the process wait for their turn
-- (mare._sql).
local mare, raw = require "mare", require "mare._postgres"
local check, json, sql = require "mare._check", require "mare.json", require "mare._sql"
local dialling, call = require "mare._postgres_dial", require "mare._postgres_call"
local dial, wait, check_options = dialling.dial, dialling.wait, dialling.check_options
local event_of, complete, submit, stop = call.event_of, call.complete, call.submit, call.stop
local settle, lose, lost, BATCH = call.settle, call.lose, call.lost, call.BATCH

local postgres = {null = json.null}

local OPTIONS = check.set("uri", "host", "port", "path", "username", "password", "database", "name",
    "tls", "authorities", "timeout", "limit")
local POOL = setmetatable({size = true}, {__index = OPTIONS})
local LIMIT <const> = 64 << 20

local methods = {}
local Connection = {__index = methods, __name = "postgres.connection"}
local Statement = {__name = "postgres.statement"}
Statement.__index = Statement

local function stays() error("a connection belongs to the process that made it", 0) end
Connection.__travel, Statement.__travel = stays, stays

-- ---- Values ------------------------------------------------------------------------------------

local Bytes = {__name = "postgres.bytes"}

--- Bytes for a parameter of type bytea; a plain string is text.
function postgres.bytes(bytes)
    check.argument("bytes", bytes, 1, "string")
    return setmetatable({bytes}, Bytes)
end

local NUMBERS = {["inf"] = "Infinity", ["-inf"] = "-Infinity", ["nan"] = "NaN", ["-nan"] = "NaN"}

-- What libpq is given: text, bytes or nothing.
local function text_of(value)
    if value == nil or value == postgres.null then return nil end
    if type(value) == "boolean" then return value and "t" or "f" end
    if math.type(value) == "float" then
        local digits = ("%.17g"):format(value)
        return NUMBERS[digits] or digits
    end
    return type(value) == "number" and tostring(value) or value
end

local function values_of(name, ...)
    local count, values = select("#", ...), {...}
    for i = 1, count do
        sql.check_value(name, values[i], "#" .. i + 1, postgres.null, Bytes, 4)
        values[i] = text_of(values[i])
        if type(values[i]) == "string" and values[i]:find("\0", 1, true) then
            error(("bad argument #%d to '%s' (text cannot contain zero bytes: use bytes)"):format(
                i + 1, name), 3)
        end
    end
    return values, count
end

local function run(self, deadline, list, send, ...)
    local shared = self._shared
    local tx = self._tx
    if tx and shared.handle and raw.state(shared.handle) == "idle" then
        return nil, "the transaction was rolled back", "refused"
    end
    local ok, why, code = submit(shared, send, ...)
    if not ok then return nil, why, code end
    return complete(shared, deadline, list, shared.limit)
end

local function exec(self, deadline, text)
    local ok, why, code = settle(self._shared, deadline)
    if not ok then return nil, why, code end
    local handle = self._shared.handle
    if text == "COMMIT" and handle and raw.state(handle) == "failed" then
        return nil, "a statement has failed: the transaction was rolled back", "refused"
    end
    return run(self, deadline, nil, raw.send, text)
end

-- The `_shared` table for mare._sql, over a new connection.
local function share(options, handle, stream)
    local shared = {handle = handle, stream = stream, turn = mare.channel(1), options = options,
        what = "the connection", limit = options.limit or LIMIT, timeout = options.timeout,
        generation = 0, exec = exec}
    function shared.abandon()
        shared.abandoned = true
        stop(shared)
    end
    function shared.clean(deadline)
        if not shared.handle then return nil, shared.why, "closed" end
        local ok, why, code = settle(shared, deadline)
        if not ok then return nil, why, code end
        if not shared.abandoned then return true end
        shared.abandoned = false
        return exec({_shared = shared}, deadline, "ROLLBACK")
    end
    shared.turn:send(true)
    return shared
end

--- A connection: see docs/reference/postgres.md.
function postgres.connect(options)
    if type(options) == "string" then options = {uri = options} end
    options = options or {}
    check_options("connect", options, OPTIONS)
    local deadline = options.timeout and mare.deadline(options.timeout)
    local handle, stream, code = dial(options, deadline)
    if not handle then return nil, stream, code end
    return setmetatable({_shared = share(options, handle, stream)}, Connection)
end

--- Runs one statement, or several without parameters: how many rows the last one has changed.
function methods:exec(text, ...)
    sql.check_text("exec", text)
    local values, count = values_of("exec", ...)
    if count == 0 then return sql.in_turn(self, run, nil, raw.send, text) end
    return sql.in_turn(self, run, nil, raw.send, text, values, count)
end

-- Functions that ask for rows end with a tail call of this, so that errors name the line of their
-- caller. `finish` turns the rows into the result.
local function query(self, finish, send, text, values, count)
    local list = {}
    local ok, why, code, state = sql.in_turn(self, run, list, send, text, values, count)
    list.bytes = nil
    if not ok then return nil, why, code, state end
    return finish(list)
end

local function first(list) return list[1] end
local function first_by_name(list) return sql.by_name(list)[1] end

--- How rows are asked for: all of them in a list, by position and by the names of their columns or
--- by these alone; and the first of them, or nil.
local FINISH = {query = sql.as_they_are, objects = sql.by_name, row = first, object = first_by_name}

for name, finish in pairs(FINISH) do
    methods[name] = function(self, text, ...)
        sql.check_text(name, text)
        return query(self, finish, raw.send, text, values_of(name, ...))
    end
end

-- ---- Rows, one by one --------------------------------------------------------------------------
-- The connection is theirs until the loop is over.

local Rows = {__name = "postgres.rows"}

function Rows.__close(self)
    if self.over then return end
    local connection = self.connection
    local shared, tx = connection._shared, connection._tx
    self.over = true
    if not self.whole then stop(shared) end
    if tx then tx.nested = nil else shared.owner = nil end
    sql.finish(connection)
end

local function next_row(self)
    self.at = self.at + 1
    local row = self.list[self.at]
    if row then return row end
    if self.whole or self.over then return nil end
    local shared, failed = self.connection._shared, nil
    self.list, self.at = {}, 1
    while true do
        local event, a = event_of(shared, self.deadline, self.list, BATCH)
        if not event then error(a, 2) end
        if event == "error" then failed = a end
        if event == "rows" then return self.list[1] end
        if event == "end" then
            self.whole = true
            if failed then error(failed, 2) end
            return self.list[1]
        end
    end
end

local function rows(self, send, text, values, count)
    local shared, deadline = self._shared, sql.deadline_of(self)
    local ok, why = sql.begin(self, deadline)
    if not ok then error(why, 3) end
    local made = setmetatable({connection = self, deadline = deadline, list = {}, at = 0,
        whole = true}, Rows)
    if self._tx then
        self._tx.nested = "rows of this transaction are still to come"
    else
        shared.owner, shared.busy_with = coroutine.running(), "a loop over rows has "
    end
    local _ <close> = setmetatable({}, {__close = function() if not ok then made:close() end end})
    ok, why = shared.clean(deadline)
    if ok then ok, why = submit(shared, send, text, values, count) end
    if not ok then error(why, 3) end
    made.whole = false
    return next_row, made, nil, made
end
Rows.__index = {close = Rows.__close}

--- For a loop over rows; only some of them are in memory. A failure raises an error.
function methods:rows(text, ...)
    sql.check_text("rows", text)
    return rows(self, raw.send, text, values_of("rows", ...))
end

-- ---- Prepared statements -----------------------------------------------------------------------

local function prepare(self, deadline, statement)
    local done, why, code, state = run(self, deadline, nil, raw.prepare, statement._name,
        statement._text)
    if not done then return nil, why, code, state end
    statement._generation = self._shared.generation
    return statement
end

--- A statement that the server keeps: it has the methods exec, query, objects, row, object, rows.
function methods:prepare(text)
    sql.check_text("prepare", text)
    local shared = self._shared
    shared.prepared = (shared.prepared or 0) + 1
    return sql.in_turn(self, prepare, setmetatable({_connection = self, _text = text,
        _name = "mare_" .. shared.prepared}, Statement))
end

-- The connection to run the statement on. After a reconnect the server must be told of it again.
local function ready(self)
    local connection = self._connection
    if self._generation == connection._shared.generation then return connection end
    local ok, why, code, state = sql.in_turn(connection, prepare, self)
    return ok and connection, why, code, state
end

function Statement:exec(...)
    local values, count = values_of("exec", ...)
    local connection, why, code, state = ready(self)
    if not connection then return nil, why, code, state end
    return sql.in_turn(connection, run, nil, raw.execute, self._name, values, count)
end

for name, finish in pairs(FINISH) do
    Statement[name] = function(self, ...)
        local values, count = values_of(name, ...)
        local connection, why, code, state = ready(self)
        if not connection then return nil, why, code, state end
        return query(connection, finish, raw.execute, self._name, values, count)
    end
end

function Statement:rows(...)
    local values, count = values_of("rows", ...)
    local connection, why = ready(self)
    if not connection then error(why, 2) end
    return rows(connection, raw.execute, self._name, values, count)
end

-- ---- COPY --------------------------------------------------------------------------------------

-- Sends the pieces of a list or function, and then the end, or the failure.
local function put_all(shared, deadline, pieces)
    local at = 0
    local function piece()
        at = at + 1
        if type(pieces) == "table" then return pieces[at] end
        return pieces()
    end
    for bytes in piece do
        local taken, why
        repeat
            taken, why = raw.put(shared.handle, bytes)
            if taken == nil then return lost(shared, why) end
            local flushed = raw.flush(shared.handle)
            while not flushed do -- so that at most one piece is kept here
                local ok, code
                ok, why, code = wait(shared.stream, true, deadline)
                if not ok then return nil, why, code end
                ok, why = raw.consume(shared.handle)
                if not ok then return lost(shared, why) end
                flushed, why = raw.flush(shared.handle)
                if flushed == nil then return lost(shared, why) end
            end
        until taken
    end
    return true
end

local function copy_in(self, deadline, text, pieces)
    local shared = self._shared
    local ok, why, code = submit(shared, raw.send, text)
    if not ok then return nil, why, code end
    local begun = false
    local _ <close> = setmetatable({}, {__close = function()
        if begun and shared.handle then
            raw.putend(shared.handle, "the program has stopped in the middle")
            stop(shared)
        end
    end})
    local event, a, b = event_of(shared, deadline, {}, BATCH)
    if not event then return nil, a, b end
    if event ~= "copyin" then
        local done, message, word, state = complete(shared, deadline, nil, shared.limit)
        if event == "error" then return nil, a, "remote", b end
        if not done then return nil, message, word, state end
        return nil, "the statement is not COPY ... FROM STDIN", "invalid"
    end
    begun = true
    ok, why, code = put_all(shared, deadline, pieces)
    if not ok then return nil, why, code end
    raw.putend(shared.handle)
    begun = false
    return complete(shared, deadline, nil, shared.limit)
end

--- COPY ... FROM STDIN: the pieces are strings, in a list or from a function that returns nil at
--- the end.
function methods:copyin(text, pieces)
    sql.check_text("copyin", text)
    if type(pieces) ~= "function" then check.argument("copyin", pieces, 2, "table") end
    return sql.in_turn(self, copy_in, text, pieces)
end

local function copy_out(self, deadline, text, f)
    local shared = self._shared
    local ok, why, code = submit(shared, raw.send, text)
    if not ok then return nil, why, code end
    local whole = false
    local _ <close> = setmetatable({}, {__close = function()
        if not whole then stop(shared) end
    end})
    local event, a, b = event_of(shared, deadline, {}, BATCH)
    if not event then return nil, a, b end
    while event == "copyout" do
        local bytes
        bytes, why, code = call.copied(shared, deadline)
        if bytes == false then return nil, why, code end
        if not bytes then break end
        f(bytes)
    end
    whole = true
    local done, message, word, state = complete(shared, deadline, nil, shared.limit)
    if event == "error" then return nil, a, "remote", b end
    if done and event ~= "copyout" then
        return nil, "the statement is not COPY ... TO STDOUT", "invalid"
    end
    return done, message, word, state
end

--- COPY ... TO STDOUT: calls f with each row, as the server writes it.
function methods:copyout(text, f)
    sql.check_text("copyout", text)
    check.argument("copyout", f, 2, "function")
    return sql.in_turn(self, copy_out, text, f)
end

-- ---- Transactions, beginning and end -----------------------------------------------------------

local LEVELS = {["read committed"] = 1, ["repeatable read"] = 1, serializable = 1}
local TRANSACTION = check.set("isolation", "readonly")

--- Calls f(tx) in a transaction: see mare._sql.
function methods:transaction(f, options)
    check.argument("transaction", f, 1, "function")
    options = options or {}
    check.options("transaction", options, 2, TRANSACTION)
    check.option("transaction", options, 2, "isolation", function(level) return LEVELS[level] end,
        "'read committed', 'repeatable read' or 'serializable'")
    local begin = "BEGIN"
    if options.isolation then begin = begin .. " ISOLATION LEVEL " .. options.isolation end
    if options.readonly then begin = begin .. " READ ONLY" end
    return sql.transaction(self, f, begin)
end

methods.within = sql.within

--- Whether the connection is open, as far as is known without asking the server.
function methods:alive()
    local shared = self._shared
    if shared.closed or not shared.handle then return false end
    for _ = 1, 3 do -- reads the server's last messages, then that it has gone
        local ok, why = raw.consume(shared.handle)
        if not ok or raw.state(shared.handle) == "lost" then
            lost(shared, why)
            return false
        end
    end
    return true
end

local function redial(self, deadline)
    local shared = self._shared
    lose(shared)
    local handle, stream, code = dial(shared.options, deadline)
    if not handle then
        shared.why = stream
        return nil, stream, code
    end
    shared.handle, shared.stream = handle, stream
    shared.generation = shared.generation + 1
    return true
end

--- Connects again, whatever the state of the old connection.
function methods:reconnect(timeout)
    local view = timeout and self:within(timeout) or self
    local shared, deadline = self._shared, sql.deadline_of(view)
    if self._tx then error("a transaction cannot be connected anew", 2) end
    local ok, why, code = sql.begin(view, deadline)
    if not ok then return nil, why, code end
    local _ <close> = setmetatable({}, {__close = function() sql.finish(self) end})
    return redial({_shared = shared}, deadline)
end

function methods:close()
    local shared = self._shared
    if shared.closed then return end
    shared.closed = true
    lose(shared)
end
Connection.__close = methods.close

-- ---- Notifications and pools --------------------------------------------------------------------

-- A connection's shared part; or nil, message, code.
local function open(options, deadline)
    local handle, stream, code = dial(options, deadline)
    if not handle then return nil, stream, code end
    return share(options, handle, stream)
end

local tools = {open = open, exec = exec, lose = lose, wait = wait}

function tools.connect(options, deadline)
    local shared, why, code = open(options, deadline)
    if not shared then return nil, why, code end
    return setmetatable({_shared = shared}, Connection)
end

-- Whether the connection can be given out: no call is under way, and nobody has the turn.
function tools.is_idle(connection)
    local shared = connection._shared
    return shared.handle and not shared.stopping and not shared.abandoned
        and #shared.turn == 1 and raw.state(shared.handle) == "idle"
end

--- Hears notifications, over a connection of its own.
function methods:listen(...)
    local channels = {...}
    for i = 1, math.max(#channels, 1) do
        check.argument("listen", channels[i], i, "string")
        if channels[i]:find("\0", 1, true) then
            error(("bad argument #%d to 'listen' (it contains zero bytes)"):format(i), 2)
        end
    end
    return require "mare._postgres_listener"(tools, stays, self._shared.options, channels,
        sql.deadline_of(self))
end

--- Some connections that the routines of a process share: see docs/reference/postgres.md.
function postgres.pool(options)
    check.argument("pool", options, 1, "table")
    check_options("pool", options, POOL)
    check.option("pool", options, 1, "size", function(size)
        return math.type(size) == "integer" and size > 0
    end, "a number above 0")
    local own = {}
    for key, value in pairs(options) do own[key] = value end
    own.size = nil
    return require "mare._postgres_pool"(tools, stays, own, options.size or 10)
end

return postgres
