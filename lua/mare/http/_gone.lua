-- SPDX-License-Identifier: MIT
-- Clients that go away while their requests are handled. Nobody reads the connection then, so it is
-- looked at, those of a server all at once, a few times a second, and only while a handler waits.
--
-- The reader of a connection knows whether it is inside of a function of the program's with a
-- request, and how often it was. Most handlers never wait, so to go in and out must cost next to
-- nothing.
local mare, sockets = require "mare", require "mare._socket"
local http = require "mare.http._shared".http

--- How often, in seconds. Who has gone at two looks has.
http.look_time = 0.25

local gone = {}

-- Who has gone is cancelled, if he had at the look before; for one who only sends no more looks the
-- same, and an answer that comes soon is his.
local function look_at(watched)
    local connections, streams, ways = {}, {}, {}
    for _, connection in pairs(watched) do
        local request = connection.reader:inside()
        if request and not request.taken and not request.gone then
            local n = #streams + 1
            connections[n], streams[n], ways[n] = connection, request.stream, "leave"
        end
    end
    if #streams == 0 or sockets.look(streams, ways) == 0 then return #streams > 0 end
    for i, connection in ipairs(connections) do
        local request, turn = connection.reader:inside()
        if ways[i] and connection.left == turn then
            request.gone = true
            connection.routine:cancel()
        end
        connection.left = ways[i] and turn
    end
    return true
end

--- Begins to look at the connections of a server, as long as there is something to look at.
function gone.look(server)
    server.looking = true
    mare.go(function()
        local _ <close> = setmetatable({}, {__close = function() server.looking = false end})
        repeat mare.sleep(http.look_time) until not look_at(server.watched)
    end):detach()
end

--- Calls a function that makes a body on behalf of a request; see serve_request for handlers.
function gone.call(connection, request, f)
    local server = connection.server
    connection.reader:enter(request)
    if not server.looking then gone.look(server) end
    if request.gone and connection.routine then connection.routine:cancel() end
    local part, message, code = f()
    connection.reader:leave()
    if request.gone then mare.sleep(0) end -- a cancellation for which there was no wait
    return part, message, code
end

local Watch = {}

function Watch:__close() self.watched[self.routine] = nil end

--- Watches over a connection that the calling routine serves, to the end of a <close> variable; but
--- not in the main script, whom nobody can cancel, and which may be in a host without routines.
function gone.watch(connection)
    local routine, watched = mare._routine(), connection.server.watched
    if not routine then connection.server.looking = true end -- and need not begin to
    if not routine or not watched then return nil end
    connection.routine = routine
    watched[routine] = connection
    return setmetatable({watched = watched, routine = routine}, Watch)
end

return gone
