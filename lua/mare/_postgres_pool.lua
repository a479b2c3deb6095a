-- SPDX-License-Identifier: MIT
-- Connections to PostgreSQL that the routines of a process share. postgres.lua lends tools:
-- connect(options, deadline), is_idle(connection).
local mare, check = require "mare", require "mare._check"

local Pool = {__name = "postgres.pool"}
Pool.__index = Pool

-- An idle connection that still works: after a restart of the server the old ones do not.
local function take_free(self)
    while #self._free > 0 do
        local connection = table.remove(self._free)
        if connection:alive() then return connection end
        connection:close()
    end
end

--- Calls f(connection) with one of the connections, and returns what it returns.
function Pool:use(f, timeout)
    check.argument("use", f, 1, "function")
    if self._closed then return nil, "the pool is closed", "closed" end
    local deadline = check.deadline("use", timeout, 2)
        or self._options.timeout and mare.deadline(self._options.timeout)
    local ok, why, code = self._places:receive(deadline)
    if not ok then return nil, why, code end
    local connection
    local _ <close> = setmetatable({}, {__close = function()
        if connection and not self._closed and self._tools.is_idle(connection) then
            self._free[#self._free + 1] = connection
        elseif connection then
            connection:close()
        end
        self._places:trysend(true)
    end})
    if self._closed then return nil, "the pool is closed", "closed" end
    connection = take_free(self)
    if not connection then
        connection, why, code = self._tools.connect(self._options, deadline)
        if not connection then return nil, why, code end
    end
    return f(connection)
end

for _, name in ipairs {"exec", "query", "objects", "row", "object", "transaction", "copyin",
        "copyout"} do
    Pool[name] = function(self, ...)
        local arguments = table.pack(...)
        if name ~= "transaction" then require "mare._sql".check_text(name, arguments[1]) end
        return self:use(function(connection)
            return connection[name](connection, table.unpack(arguments, 1, arguments.n))
        end)
    end
end

function Pool:close()
    self._closed = true
    for _, connection in ipairs(self._free) do connection:close() end
    self._free = {}
end
Pool.__close = Pool.close

--- Makes a pool of at most so many connections.
return function(tools, stays, options, size)
    Pool.__travel = stays
    local places = mare.channel(size)
    for _ = 1, size do places:send(true) end
    return setmetatable({_tools = tools, _options = options, _places = places, _free = {}}, Pool)
end
