-- SPDX-License-Identifier: MIT
-- Clients that go away while their requests are handled. Nobody reads the connection then, so it is
-- looked at, those of a server all at once, a few times a second, and only while a handler waits.
local mare, sockets = require "mare", require "mare._socket"
local http = require "mare.http._shared".http

--- How often, in seconds. Who has gone at two looks has.
http.look_time = 0.25

local gone = {}

-- Who has gone is cancelled, if he had at the look before; for one who only sends no more looks the
-- same, and an answer that comes soon is his.
local function look_at(inside)
    local routines, streams, ways = {}, {}, {}
    for routine, request in pairs(inside) do
        if not request.taken and not request.gone then
            local n = #streams + 1
            routines[n], streams[n], ways[n] = routine, request.stream, "leave"
        end
    end
    if #streams == 0 or sockets.look(streams, ways) == 0 then return end
    for i, left in ipairs(ways) do
        local request = inside[routines[i]]
        if left and request.leaving then
            request.gone = true
            routines[i]:cancel()
        end
        request.leaving = left
    end
end

-- As long as there is something to look at.
local function look(server)
    local _ <close> = setmetatable({}, {__close = function() server.looking = false end})
    while next(server.inside) do
        mare.sleep(http.look_time)
        look_at(server.inside)
    end
end

-- ---- A connection's guard -----------------------------------------------------------------------

local Guard = {}
Guard.__index = Guard

local function leave(guard, request, ...)
    guard.inside[guard.routine] = nil
    request.leaving = nil
    if request.gone then mare.sleep(0) end -- a cancellation for which there was no wait
    return ...
end

--- Calls a function of the program's, on behalf of a request: what it waits for is cancelled when
--- the client goes away, and `request.gone` is true then.
function Guard:call(request, f, ...)
    local server = self.server
    self.inside[self.routine] = request
    if not server.looking then
        server.looking = true
        mare.go(look, server):detach()
    end
    if request.gone then self.routine:cancel() end
    return leave(self, request, f(...))
end

function Guard:__close() self.inside[self.routine] = nil end

local Nobody = {call = function(_, _, f, ...) return f(...) end, __close = function() end}
Nobody.__index = Nobody

--- The guard of the connection that the calling routine serves; one that does nothing, if the
--- program wants that, or it is the main script, whom nobody can cancel.
function gone.guard(server, cancels)
    local routine = mare._routine()
    if not cancels or not routine then return setmetatable({}, Nobody) end
    return setmetatable({server = server, inside = server.inside, routine = routine}, Guard)
end

return gone
