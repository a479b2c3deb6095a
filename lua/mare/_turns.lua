-- SPDX-License-Identifier: MIT
-- Two locks of a WebSocket: one routine at a time writes, and one reads. Keep both in <close>
-- variables.
local mare = require "mare"

local turns = {}

-- ---- The writers' lock ------------------------------------------------------------------------

-- Usually the lock is free, so taking it must cost next to nothing. When it is released, it goes to
-- the first routine in line: a message over a rendezvous. If that finds nobody, because the last
-- one has given up, the lock is free.
local Turn = {}
Turn.__index = Turn

--- Makes a lock for writers.
function turns.turn()
    return setmetatable({held = false, waiting = 0, line = mare.channel()}, Turn)
end

-- Takes the lock. Returns it, for a <close> variable; or nil, message, code.
function Turn:enter(deadline)
    if self.held then
        self.waiting = self.waiting + 1
        local ok, message, code = self.line:receive(deadline)
        self.waiting = self.waiting - 1
        if not ok then return nil, message, code end
    end
    self.held = true
    return self
end

function Turn:tryenter() return not self.held and self:enter() end

function Turn:__close() self.held = self.waiting > 0 and self.line:trysend(true) end

-- ---- The readers' lock ------------------------------------------------------------------------

-- A select can wait for this lock, so it is a channel with room for one message: whoever has put
-- one in has the lock. The channel is made when two first want the lock. Before that, `held` says
-- whether it is taken. A routine that receives in C (src/lua/websocket_read.c) does not use the
-- lock; the reader says whether there is one, and lets none begin while somebody has the lock.
local Lock = {}
Lock.__index = Lock

--- Makes a lock for a reader of frames.
function turns.lock(reader)
    return setmetatable({reader = reader, held = false, channel = false}, Lock)
end

-- The channel behind the lock.
function Lock:line()
    if not self.channel then
        self.channel = mare.channel(1)
        if self.reader:held() or self.held then self.channel:trysend(true) end
        self.held = false
    end
    return self.channel
end

function Lock:tryenter()
    self.reader:direct()
    if self.channel then return self.channel:trysend(true) and self end
    if self.held or self.reader:held() then return nil end
    self.held = true
    return self
end

function Lock:enter(deadline)
    local lock = self:tryenter()
    if lock then return lock end
    local ok, message, code = self:line():sendwithin(deadline, true)
    if ok then return self end
    return nil, message, code
end

-- After an error (in most cases memory has run out), what was read last may be lost. Then nothing
-- that follows may be received, because it would look like the rest.
function Lock:__close(err)
    if err ~= nil then self.reader:lose() end
    self.held = false
    if self.channel then self.channel:tryreceive() end
end

return turns
