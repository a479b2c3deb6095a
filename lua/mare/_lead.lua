-- SPDX-License-Identifier: MIT
-- A routine that serves a channel: it takes messages and handles them itself. If a handler waits,
-- another routine, the heir, takes messages in its place. So a handler that does not wait costs no
-- routine.
--
--   leads --message--> does it --it did not wait--> leads
--                           \----it waited--------> its heir leads; this one ends when it is done
local mare = require "mare"

local lead = {}

local BATCH = 64 -- messages to handle before other routines get a turn

-- A handler that fails ends only itself; its error is printed.
local function guarded(fine, err)
    if not fine then pcall(mare.go, error, err, 0) end -- without memory it cannot be printed
end

local serve

local function appoint(self)
    self.heir = nil
    local heir = mare._heir(serve, self)
    mare._appoint(heir)
    self.heir = heir
end

-- Handles one message, and those that arrive meanwhile. False: there will be no more, or the heir
-- leads now.
local function take(self, me, kind, ...)
    local box, dispatch = self.box, self.dispatch
    if kind == nil then return not box:closed() end
    local heir = self.heir -- unless the heir failed before it led
    if not (heir and mare._appoint(heir)) then pcall(appoint, self) end -- there may be no memory
    guarded(pcall(dispatch, kind, ...))
    local left = BATCH
    while #box > 0 and self.leader == me and left > 0 do
        guarded(pcall(dispatch, box:tryreceive()))
        left = left - 1
    end
    mare._appoint(nil) -- first: until here an interrupt may start the heir
    if self.leader ~= me then return false end
    if left == 0 then mare.yield() end
    return true
end

-- Closes the channel, however the process ends.
local serving_type = {__close = function(serving)
    local self = serving.lead
    if self.leader == serving.routine then self.box:close() end
end}

function serve(self)
    local me = mare._routine()
    local _ <close> = setmetatable({routine = me, lead = self}, serving_type)
    self.leader, self.heir = me, nil
    repeat until not take(self, me, self.box:receive())
    if self.leader == me and self.ended then self.ended() end
end

--- Begins to serve the channel: calls dispatch(...) for each message, and `ended` when the channel
--- is closed and empty. Returns a table whose field `heir` is set while dispatch may wait, and the
--- routine.
function lead.begin(box, dispatch, ended)
    local self = {box = box, dispatch = dispatch, ended = ended, leader = nil, heir = nil}
    return self, mare.go(serve, self)
end

return lead
