-- SPDX-License-Identifier: MIT
-- What the database modules share: turns, and transactions.
--
-- An object is a database, a connection, a view of one for calls with a deadline, or a transaction.
-- It has _shared, which all objects of one connection have in common, and perhaps _tx, its
-- transaction. A transaction has the turn from its beginning to its end. In _shared are
--   turn, owner    the channel with the turn in it; the coroutine whose transaction has it
--   what, closed   "the database" or "the connection"; whether it is closed
--   timeout        of a call without its own, in seconds
--   exec           function(object, deadline, sql): runs a statement, and waits
--   abandon        function(): a transaction was closed in the middle, where nothing may wait
--   clean          function(deadline): called before the next one begins
local mare, check = require "mare", require "mare._check"

local sql = {}

--- Raises an error unless it is a string without zero bytes.
function sql.check_text(name, text)
    check.argument(name, text, 1, "string", 4)
    if text:find("\0", 1, true) then
        error(("bad argument #1 to '%s' (it contains zero bytes)"):format(name), 3)
    end
end

local SIMPLE = check.set("nil", "boolean", "number", "string")

--- Raises one unless a value can be a parameter: `what` names the argument.
function sql.check_value(name, value, what, null, bytes, level)
    if SIMPLE[type(value)] or value == null or getmetatable(value) == bytes then return end
    error(("bad argument %s to '%s' (a %s cannot be a parameter)"):format(what, name,
        type(value)), level)
end

--- Rows with only the names of their columns, as objects in JSON: changed in place. No rows are an
--- empty array.
function sql.by_name(rows)
    for _, row in ipairs(rows) do
        for key in pairs(row) do
            if math.type(key) then row[key] = nil end
        end
    end
    return require "mare.json".array(rows)
end

--- Rows with their values by position and by name.
function sql.as_they_are(rows) return rows end

function sql.deadline_of(self)
    return self._deadline or self._shared.timeout and mare.deadline(self._shared.timeout)
end

--- Takes the turn: true; or nil, a message and a code. A transaction has the turn already.
function sql.begin(self, deadline)
    local shared, tx = self._shared, self._tx
    if shared.closed then return nil, shared.what .. " is closed", "closed" end
    if tx and tx.over then return nil, "the transaction is over", "closed" end
    if tx and tx.nested then return nil, tx.nested, "refused" end
    if tx then return true end
    if shared.owner and shared.owner == coroutine.running() then
        check.blame(shared.busy_with .. shared.what .. ": use what its function is given")
    end
    local got, why, code = shared.turn:receive(deadline)
    if not got then return nil, why, code end
    if not shared.closed then return true end
    shared.turn:trysend(true)
    return nil, shared.what .. " is closed", "closed"
end

--- Gives the turn back.
function sql.finish(self)
    if not self._tx then self._shared.turn:trysend(true) end
end

--- Calls f(self, deadline, ...) when it is this routine's turn.
function sql.in_turn(self, f, ...)
    local deadline = sql.deadline_of(self)
    local ok, why, code = sql.begin(self, deadline)
    if not ok then return nil, why, code end
    local _ <close> = setmetatable({}, {__close = function() sql.finish(self) end})
    ok, why, code = self._shared.clean(deadline)
    if not ok then return nil, why, code end
    return f(self, deadline, ...)
end

-- The results of f, and whether they are a failure.
local function judge(ok, first, second, ...)
    if not ok then return true, false, first end
    local failed = not first and second ~= nil
    if first == nil and not failed then return false, true, true end
    return failed, true, first, second, ...
end

-- Runs f in the turn. `begin` is the statement that begins a transaction.
local function transact(self, deadline, f, begin)
    local shared, outer = self._shared, self._tx
    local depth = outer and outer.depth + 1 or 0
    local name = "mare_" .. depth
    local began, why, code, number =
        shared.exec(self, deadline, outer and "SAVEPOINT " .. name or begin)
    if not began then return nil, why, code, number end
    local tx, owner = {depth = depth, deadline = deadline}, shared.owner
    shared.owner, shared.busy_with = coroutine.running(), "a transaction has "
    if outer then outer.nested = "a transaction in this one is under way" end
    local whole = false
    local _ <close> = setmetatable({}, {__close = function()
        tx.over, shared.owner = true, owner
        if outer then outer.nested = nil end
        if not whole then shared.abandon() end
    end})
    local inner = setmetatable({_shared = shared, _tx = tx, _deadline = deadline},
        getmetatable(self))
    local results = table.pack(judge(pcall(f, inner)))
    if not results[1] then
        local done
        done, why, code, number = shared.clean(deadline) -- the last one may have been left halfway
        if done and deadline and deadline:left() == 0 then
            -- Too late: a commit that is sent now would be made, and nobody would wait to hear of
            -- it.
            done, why, code = nil, "the time was over before the commit", "timeout"
        end
        if done then
            done, why, code, number =
                shared.exec(inner, deadline, outer and "RELEASE SAVEPOINT " .. name or "COMMIT")
        end
        whole = done ~= nil
        if whole then return table.unpack(results, 3, results.n) end
        results = {true, true, nil, why, code, number, n = 6}
    end
    -- If a server does not answer in time, the connection's next user deals with that: see
    -- `abandon`. A part of a transaction is undone within the time of the whole, which can then go
    -- on.
    local undo, span = "ROLLBACK", deadline
    if outer then
        undo = ("ROLLBACK TO SAVEPOINT %s; RELEASE SAVEPOINT %s"):format(name, name)
        span = outer.deadline
    end
    local late = select(3, shared.exec(inner, span, undo))
    whole = late ~= "timeout" and late ~= "cancelled"
    if not results[2] then error(results[3], 0) end
    return table.unpack(results, 3, results.n)
end

--- Calls f(tx) in a transaction, or in a savepoint of one. If f fails, it is rolled back. f fails
--- by an error, which goes on, or by returning nil and a message, which are returned.
function sql.transaction(self, f, begin)
    return sql.in_turn(self, transact, f, begin)
end

--- The same object, whose calls must be over by then.
function sql.within(self, timeout)
    return setmetatable({_shared = self._shared, _tx = self._tx,
        _deadline = check.deadline("within", timeout, 1)}, getmetatable(self))
end

return sql
