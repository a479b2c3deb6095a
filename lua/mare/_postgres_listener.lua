-- SPDX-License-Identifier: MIT
-- Notifications of PostgreSQL, over a connection of their own: see postgres.lua, which lends its
-- tools: open(options, deadline), exec, lose, wait.
local raw, check, sql = require "mare._postgres", require "mare._check", require "mare._sql"

local Listener = {__name = "postgres.listener"}
Listener.__index = Listener

local tools

local function quoted(name) return '"' .. name:gsub('"', '""') .. '"' end

local function listen(self, deadline)
    local shared, message, code = tools.open(self._options, deadline)
    if not shared then return nil, message, code end
    shared.hears = true
    for _, name in ipairs(self._channels) do
        local ok, why, word, state = tools.exec({_shared = shared}, deadline,
            "LISTEN " .. quoted(name))
        if not ok then
            tools.lose(shared)
            return nil, why, word, state
        end
    end
    self._shared = shared
    return true
end

-- A notification that is here already; or true; or nil, message, code.
local function look(self)
    local shared = self._shared
    local channel, payload, pid = raw.notice(shared.handle)
    if channel then return channel, payload, pid end
    local ok, why = raw.consume(shared.handle)
    channel, payload, pid = raw.notice(shared.handle)
    if channel then return channel, payload, pid end
    if ok then return true end
    tools.lose(shared)
    self._shared = nil -- the next call listens again
    return nil, why, "closed"
end

--- The next notification: its channel, its payload, and the process number of the sender in the
--- server.
function Listener:next(timeout)
    local deadline = check.deadline("next", timeout, 1)
    if self._closed then return nil, "the listener was closed", "closed" end
    if not self._shared then
        local ok, why, code = listen(self, deadline or sql.deadline_of {_shared = self._options})
        if not ok then return nil, why, code end
    end
    while true do
        local channel, payload, pid = look(self)
        if channel ~= true then return channel, payload, pid end
        local ok, why, code = tools.wait(self._shared.stream, false, deadline)
        if not ok then return nil, why, code end
    end
end

function Listener.__select(self)
    if self._closed then return true, nil, "the listener was closed", "closed" end
    if not self._shared then return true, nil, "the connection was lost", "closed" end
    local channel, payload, pid = look(self)
    if channel ~= true then return true, channel, payload, pid end
    return self._shared.stream
end

function Listener:close()
    self._closed = true
    if self._shared then tools.lose(self._shared) end
end
Listener.__close = Listener.close

--- Makes a listener for these channels; or nil, message, code, and the server's state.
return function(lent, stays, options, channels, deadline)
    tools, Listener.__travel = lent, stays
    local made = setmetatable({_options = options, _channels = channels}, Listener)
    local ok, why, code, state = listen(made, deadline)
    if not ok then return nil, why, code, state end
    return made
end
