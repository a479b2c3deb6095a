-- SPDX-License-Identifier: MIT
-- Finds clients that go away while their requests are handled. Nobody reads from the connection
-- then. So a routine looks at all connections of a server at once, a few times a second, and only
-- while a handler waits.
--
-- The C reader of a connection counts the calls of the program's functions for a request, and knows
-- whether one is running. Most handlers never wait, so this must cost next to nothing.
local mare, sockets = require "mare", require "mare._socket"
local http = require "mare.http._shared".http

--- How often to look, in seconds. A client counts as gone after two looks in a row.
http.look_time = 0.25

local gone = {}

-- If a client was gone at the last look too, cancels its request. A client that has only stopped
-- sending looks the same: this gives it time for an answer that comes soon.
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

--- Looks at the connections of a server, as long as there are some to look at.
function gone.look(server)
    server.looking = true
    mare.go(function()
        local _ <close> = setmetatable({}, {__close = function() server.looking = false end})
        repeat mare.sleep(http.look_time) until not look_at(server.watched)
    end):detach()
end

--- Calls a function that makes a body for a request; serve_request does this for handlers.
function gone.call(connection, request, f)
    local server = connection.server
    connection.reader:enter(request)
    if not server.looking then gone.look(server) end
    if request.gone and connection.routine then connection.routine:cancel() end
    local part, message, code = f()
    connection.reader:leave()
    if request.gone then mare.sleep(0) end -- takes a cancellation that no wait has taken
    return part, message, code
end

local Watch = {}

function Watch:__close() self.watched[self.routine] = nil end

--- Watches the connection that the calling routine serves, until a <close> variable ends it. Not in
--- the main script: nobody can cancel that, and it may run in a host without routines.
function gone.watch(connection)
    local routine, watched = mare._routine(), connection.server.watched
    if not routine then connection.server.looking = true end -- nobody needs to start looking
    if not routine or not watched then return nil end
    connection.routine = routine
    watched[routine] = connection
    return setmetatable({watched = watched, routine = routine}, Watch)
end

return gone
