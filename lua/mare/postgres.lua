-- SPDX-License-Identifier: MIT
-- A client of PostgreSQL over libpq, whose calls do not block (src/lua/postgres.c): here is what is
-- waited for. A connection serves one call at a time; other routines of the process wait for their
-- turn (mare._sql).
--
-- A call that does not come to its end (its deadline passed, its loop was left) leaves the
-- connection busy: the server is asked at once to stop, and the next call waits for that and drops
-- what is left. So no connection is lost by it, and no answer goes to the wrong call.
local mare, raw, net = require "mare", require "mare._postgres", require "mare.net"
local check, json, sql = require "mare._check", require "mare.json", require "mare._sql"
local socket = require "mare._socket"

local postgres = {null = json.null}

local OPTIONS = check.set("uri", "host", "port", "path", "username", "password", "database", "name",
    "tls", "authorities", "timeout", "limit")
local POOL = setmetatable({size = true}, {__index = OPTIONS})
local LIMIT <const> = 64 << 20
local BATCH <const> = 100 -- rows that are made into tables at once

local methods = {}
local Connection = {__index = methods, __name = "postgres.connection"}
local Statement = {__name = "postgres.statement"}
Statement.__index = Statement

local function stays() error("a connection belongs to the process that made it", 0) end
Connection.__travel, Statement.__travel = stays, stays

-- ---- Values ------------------------------------------------------------------------------------

local Bytes = {__name = "postgres.bytes"}

--- Bytes for a parameter of the type bytea; a string alone is text.
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

-- ---- Connecting --------------------------------------------------------------------------------

-- libpq would look names up while everybody waits: it is given addresses. A name that has several
-- is there several times.
local function resolve(parameters, deadline)
    local host = parameters.host or os.getenv "PGHOST"
    if parameters.hostaddr or not host then return true end
    local hosts, addresses, ports, at = {}, {}, {}, 0
    local port = parameters.port or os.getenv "PGPORT" or "5432"
    local given = {}
    for one in (port .. ","):gmatch "([^,]*)," do given[#given + 1] = one end
    for one in (host .. ","):gmatch "([^,]*)," do
        at = at + 1
        local found, why, code = {""}, nil, nil
        if one ~= "" and not one:find "^[/@]" then found, why, code = net.resolve(one, deadline) end
        if not found then return nil, why, code end
        for _, address in ipairs(found) do
            hosts[#hosts + 1], addresses[#addresses + 1] = one, address
            ports[#ports + 1] = given[at] or given[1]
        end
    end
    parameters.host, parameters.hostaddr = table.concat(hosts, ","), table.concat(addresses, ",")
    parameters.port = table.concat(ports, ",")
    return true
end

-- The words of libpq for our options; what they say goes before the URI.
local function parameters_of(options)
    local parameters, why, code = {}, nil, nil
    if options.uri then parameters, why, code = raw.parse(options.uri) end
    if not parameters then return nil, why, code end
    parameters.host = options.path or options.host or parameters.host
    if options.path or options.host then parameters.hostaddr = nil end
    parameters.port = options.port and tostring(options.port) or parameters.port
    parameters.user = options.username or parameters.user
    parameters.password = options.password or parameters.password
    parameters.dbname = options.database or parameters.dbname
    parameters.application_name = options.name or parameters.application_name or "mare"
    parameters.client_encoding = parameters.client_encoding or "UTF8"
    if options.tls ~= nil then
        parameters.sslmode = options.tls == true and "verify-full" or options.tls or "disable"
    end
    parameters.sslrootcert = options.authorities or parameters.sslrootcert
    return parameters
end

-- libpq has only text for why it could not connect.
local function reason_of(why)
    if why:find "refused" or why:find "No such file" then return "refused" end
    if why:find "authentication failed" or why:find "no password supplied"
        or why:find "pg_hba.conf" or why:find "does not exist" then
        return "denied"
    end
    return "io"
end

-- Waits until the socket can be read from or, if `writes`, written to.
local function wait(stream, writes, deadline)
    local streams, ways = {stream}, {writes == "only"}
    if writes == true then streams, ways = {stream, stream}, {false, true} end
    local ok, code = socket.waitany(streams, ways, deadline)
    if ok then return true end
    return nil, code == "timeout" and "the deadline passed" or "the wait was ended: " .. code, code
end

-- The socket may be another one after each step.
local function dial(options, deadline)
    local ok, why, code = raw.load(deadline)
    if not ok then return nil, why, code end
    local parameters
    parameters, why, code = parameters_of(options)
    if not parameters then return nil, why, code end
    ok, why, code = resolve(parameters, deadline)
    if not ok then return nil, why, code end
    local handle
    handle, why = raw.start(parameters)
    if not handle then return nil, why, reason_of(why) end
    local whole = false
    local _ <close> = setmetatable({}, {__close = function()
        if not whole then raw.finish(handle) end
    end})
    local want = "write"
    while want ~= true do
        local stream <close> = assert(socket.borrow(raw.descriptor(handle)))
        ok, why, code = wait(stream, want == "write" and "only", deadline)
        if not ok then return nil, why, code end
        want, why = raw.poll(handle)
        if not want then return nil, why, reason_of(why) end
    end
    local stream
    stream, why, code = socket.borrow(raw.descriptor(handle))
    if not stream then return nil, why, code end
    whole = true
    return handle, stream
end

-- ---- Calls -------------------------------------------------------------------------------------

local function lose(shared)
    if shared.handle then raw.finish(shared.handle) end
    if shared.stream then shared.stream:close() end
    shared.handle, shared.stream, shared.stopping, shared.abandoned = nil, nil, nil, nil
end

-- The connection is gone: what is said of it from now on.
local function lost(shared, why)
    lose(shared)
    shared.why = why and why ~= "" and why or "the connection was lost"
    return nil, shared.why, "closed"
end

-- What comes next, when it has: see `take` in src/lua/postgres.c.
local function event_of(shared, deadline, list, most)
    while true do
        local flushed, why = raw.flush(shared.handle)
        if flushed == nil then return lost(shared, why) end
        local event, a, b = raw.take(shared.handle, list, most)
        if event == "error" and raw.state(shared.handle) == "lost" then return lost(shared, a) end
        if event ~= "wait" then return event, a, b end
        local ok, code
        ok, why, code = wait(shared.stream, not flushed, deadline)
        if not ok then return nil, why, code end
        ok, why = raw.consume(shared.handle)
        if not ok then return lost(shared, why) end
    end
end

-- A call did not come to its end. The server is told at once; `settle` sees to the rest.
local function stop(shared)
    if shared.handle and not shared.stopping then shared.stopping = raw.cancel(shared.handle) end
end

-- The next row of a COPY that brings some, when it has come; nil at the end; false, a message and a
-- code.
local function copied(shared, deadline)
    while true do
        local bytes, why = raw.get(shared.handle)
        if why then return false, select(2, lost(shared, why)) end
        if bytes ~= false then return bytes end
        local ok, code
        ok, why, code = wait(shared.stream, false, deadline)
        if not ok then return false, why, code end
        ok, why = raw.consume(shared.handle)
        if not ok then return false, select(2, lost(shared, why)) end
    end
end

-- Waits for the server to have stopped, and drops what it has sent.
local function settle(shared, deadline)
    if not shared.stopping then return true end
    local ok, why, code = raw.await(shared.stopping, deadline)
    if not ok and code ~= "io" then return nil, why, code end
    repeat
        local event
        event, why, code = event_of(shared, deadline, {}, BATCH)
        if not event then return nil, why, code end
        if event == "copyin" then raw.putend(shared.handle, "stopped") end
        while event == "copyout" do
            local bytes
            bytes, why, code = copied(shared, deadline)
            if bytes == false then return nil, why, code end
            if not bytes then break end
        end
    until event == "end"
    shared.stopping = nil
    return true
end

-- Runs to the end what was sent: rows are added to the list, up to `limit` bytes. Returns how many
-- rows the last statement has changed, or nil, a message, a code, PostgreSQL's code.
local function complete(shared, deadline, list, limit)
    local changed, failed, state = 0, nil, nil
    local whole = false
    local _ <close> = setmetatable({}, {__close = function()
        if not whole then stop(shared) end
    end})
    while true do
        local event, a, b = event_of(shared, deadline, list, BATCH + #list)
        if not event then return nil, a, b end
        if event == "done" then changed = a end
        if event == "error" then failed, state = a, b end
        if event == "copyin" or event == "copyout" then
            return nil, "COPY needs copyin or copyout", "invalid"
        end
        if (list.bytes or 0) > limit then
            return nil, ("the rows have more than %d bytes: take them one by one"):format(limit),
                "toobig"
        end
        if event == "end" then
            whole = true
            if failed then return nil, failed, "remote", state end
            return changed
        end
    end
end

-- Sends by `send(handle, ...)`; what cannot be sent is the end of the connection.
local function submit(shared, send, ...)
    if not shared.handle then return nil, shared.why, "closed" end
    local ok, why = send(shared.handle, ...)
    if ok then return true end
    return lost(shared, why)
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
    if text == "COMMIT" and raw.state(self._shared.handle) == "failed" then
        return nil, "a statement has failed: the transaction was rolled back", "refused"
    end
    return run(self, deadline, {}, raw.send, text)
end

-- What `_shared` is, for mare._sql, over a connection that was made.
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

local function check_options(name, options, allowed)
    check.options(name, options, 1, allowed, 4)
    check.option(name, options, 1, "timeout", check.span, "a number of seconds above 0", 4)
    check.option(name, options, 1, "limit", function(limit)
        return math.type(limit) == "integer" and limit > 0
    end, "a number of bytes above 0", 4)
    check.option(name, options, 1, "tls", function(tls)
        return type(tls) == "boolean" or type(tls) == "string"
    end, "a boolean, or a word of libpq's sslmode", 4)
    for _, key in ipairs {"uri", "host", "path", "username", "password", "database", "name",
        "authorities"} do
        check.option(name, options, 1, key, "string", "a string", 4)
    end
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
    if count == 0 then return sql.in_turn(self, run, {}, raw.send, text) end
    return sql.in_turn(self, run, {}, raw.send, text, values, count)
end

local function query(self, send, text, values, count)
    local list = {}
    local ok, why, code, state = sql.in_turn(self, run, list, send, text, values, count)
    list.bytes = nil
    if not ok then return nil, why, code, state end
    return list
end

--- All rows in a list.
function methods:query(text, ...)
    sql.check_text("query", text)
    return query(self, raw.send, text, values_of("query", ...))
end

--- The first row, or nil.
function methods:row(text, ...)
    sql.check_text("row", text)
    local rows, why, code, state = query(self, raw.send, text, values_of("row", ...))
    if not rows then return nil, why, code, state end
    return rows[1]
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
    local ok, why = sql.begin(self, deadline, 4)
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

--- For a loop over rows, of which only some are in memory. A failure is an error.
function methods:rows(text, ...)
    sql.check_text("rows", text)
    return rows(self, raw.send, text, values_of("rows", ...))
end

-- ---- Prepared statements -----------------------------------------------------------------------

local function prepare(self, deadline, statement)
    local done, why, code, state = run(self, deadline, {}, raw.prepare, statement._name,
        statement._text)
    if not done then return nil, why, code, state end
    statement._generation = self._shared.generation
    return statement
end

--- A statement that the server keeps: it has the methods exec, query, row and rows.
function methods:prepare(text)
    sql.check_text("prepare", text)
    local shared = self._shared
    shared.prepared = (shared.prepared or 0) + 1
    return sql.in_turn(self, prepare, setmetatable({_connection = self, _text = text,
        _name = "mare_" .. shared.prepared}, Statement))
end

-- The connection to run it on: after a reconnect the server has to be told anew.
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
    return sql.in_turn(connection, run, {}, raw.execute, self._name, values, count)
end

function Statement:query(...)
    local values, count = values_of("query", ...)
    local connection, why, code, state = ready(self)
    if not connection then return nil, why, code, state end
    return query(connection, raw.execute, self._name, values, count)
end

function Statement:row(...)
    local found, why, code, state = self:query(...)
    if not found then return nil, why, code, state end
    return found[1]
end

function Statement:rows(...)
    local values, count = values_of("rows", ...)
    local connection, why = ready(self)
    if not connection then error(why, 2) end
    return rows(connection, raw.execute, self._name, values, count)
end

-- ---- COPY --------------------------------------------------------------------------------------

-- Sends pieces, which a list or a function gives, and ends well or not.
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
            while not flushed do -- so that no more is kept here than one piece
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
        local done, message, word, state = complete(shared, deadline, {}, shared.limit)
        if event == "error" then return nil, a, "remote", b end
        if not done then return nil, message, word, state end
        return nil, "it was no COPY ... FROM STDIN", "invalid"
    end
    begun = true
    ok, why, code = put_all(shared, deadline, pieces)
    if not ok then return nil, why, code end
    raw.putend(shared.handle)
    begun = false
    return complete(shared, deadline, {}, shared.limit)
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
        bytes, why, code = copied(shared, deadline)
        if bytes == false then return nil, why, code end
        if not bytes then break end
        f(bytes)
    end
    whole = true
    local done, message, word, state = complete(shared, deadline, {}, shared.limit)
    if event == "error" then return nil, a, "remote", b end
    if done and event ~= "copyout" then return nil, "it was no COPY ... TO STDOUT", "invalid" end
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

--- Whether it is there, as far as is known without asking the server.
function methods:alive()
    local shared = self._shared
    if shared.closed or not shared.handle then return false end
    for _ = 1, 3 do -- what the server said last, and then that it has gone
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

--- Connects anew, whatever there is of the old connection.
function methods:reconnect(timeout)
    local view = timeout and self:within(timeout) or self
    local shared, deadline = self._shared, sql.deadline_of(view)
    if self._tx then error("a transaction cannot be connected anew", 2) end
    local ok, why, code = sql.begin(view, deadline, 3)
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

-- Whether the next one can have it: nothing is under way.
function tools.is_idle(connection)
    local shared = connection._shared
    return shared.handle and not shared.stopping and not shared.abandoned
        and raw.state(shared.handle) == "idle"
end

--- Hears notifications, over a connection of its own.
function methods:listen(...)
    local channels = {...}
    for i = 1, math.max(#channels, 1) do
        check.argument("listen", channels[i], i, "string")
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
