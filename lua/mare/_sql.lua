-- SPDX-License-Identifier: MIT
-- What the databases have in common: whose turn it is, and what a transaction is.
--
-- An object (a database, a connection; a view of one for calls with a deadline; a transaction) has
-- _shared, which all of these have in common, and perhaps _tx, which says of which transaction it
-- is. A transaction has the turn from its beginning to its end. In _shared are
--   turn, owner    the channel with the turn in it; the coroutine whose transaction has it
--   what, closed   "the database" or "the connection"; whether it is closed
--   timeout        of a call that is given none, in seconds
--   exec           function(object, deadline, sql): runs a statement, and waits
--   abandon        function(): a transaction was closed in the middle, and nobody can wait here
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

--- Raises one unless a value can be that of a parameter: `what` names the argument.
function sql.check_value(name, value, what, null, bytes, level)
    if SIMPLE[type(value)] or value == null or getmetatable(value) == bytes then return end
    error(("bad argument %s to '%s' (a database has no %s)"):format(what, name, type(value)), level)
end

function sql.deadline_of(self)
    return self._deadline or self._shared.timeout and mare.deadline(self._shared.timeout)
end

--- Takes the turn: true; or nil, a message and a code. In a transaction there is nothing to take.
--- The level is that of `error`, for a routine that would wait for itself.
function sql.begin(self, deadline, level)
    local shared, tx = self._shared, self._tx
    if shared.closed then return nil, shared.what .. " is closed", "closed" end
    if tx and tx.over then return nil, "the transaction is over", "closed" end
    if tx and tx.nested then return nil, tx.nested, "refused" end
    if tx then return true end
    if shared.owner and shared.owner == coroutine.running() then
        error(shared.busy_with .. shared.what .. ": use what its function is given", level + 1)
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
    local ok, why, code = sql.begin(self, deadline, 3)
    if not ok then return nil, why, code end
    local _ <close> = setmetatable({}, {__close = function() sql.finish(self) end})
    ok, why, code = self._shared.clean(deadline)
    if not ok then return nil, why, code end
    return f(self, deadline, ...)
end

-- What f has returned: whether it is a failure, and all of it.
local function judge(ok, first, second, ...)
    if not ok then return true, false, first end
    local failed = not first and second ~= nil
    if first == nil and not failed then return false, true, true end
    return failed, true, first, second, ...
end

-- In the turn: `begin` is the statement that begins a transaction of its own.
local function transact(self, deadline, f, begin)
    local shared, outer = self._shared, self._tx
    local depth = outer and outer.depth + 1 or 0
    local name = "mare_" .. depth
    local began, why, code, number =
        shared.exec(self, deadline, outer and "SAVEPOINT " .. name or begin)
    if not began then return nil, why, code, number end
    local tx, owner = {depth = depth}, shared.owner
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
        done, why, code, number =
            shared.exec(inner, deadline, outer and "RELEASE SAVEPOINT " .. name or "COMMIT")
        whole = done ~= nil
        if whole then return table.unpack(results, 3, results.n) end
        results = {true, true, nil, why, code, number, n = 6}
    end
    shared.exec(inner, nil, outer and ("ROLLBACK TO SAVEPOINT %s; RELEASE SAVEPOINT %s"):format(
        name, name) or "ROLLBACK")
    whole = true
    if not results[2] then error(results[3], 0) end
    return table.unpack(results, 3, results.n)
end

--- Calls f(tx) in a transaction, or in a part of one that can be undone. It is rolled back if f
--- fails: by an error, which goes on, or with nil and a message, which are returned.
function sql.transaction(self, f, begin)
    return sql.in_turn(self, transact, f, begin)
end

--- The same object for calls that are over by then.
function sql.within(self, timeout)
    return setmetatable({_shared = self._shared, _tx = self._tx,
        _deadline = check.deadline("within", timeout, 1)}, getmetatable(self))
end

return sql
