-- SPDX-License-Identifier: MIT
-- Where nodes are. Heartbeats measure round trips, and carry the place of the node that answers.
-- From these each node finds its own place, see mare.place. No other messages are needed. Part of
-- the process that keeps a node: see _keeper.lua.
local mare, place = require "mare", require "mare.place"

local FORM = ">ddddd" -- three coordinates, height, error

local places = {}

local here -- the state of mare.place for this node
local placing = false

local function bytes_of_here()
    local mine = here:here()
    return FORM:pack(mine[1], mine[2], mine[3], mine.height, mine.error)
end

-- Takes what heartbeats have measured since the last time, and tells the new place.
local function measure(sessions, members)
    for session, mine in pairs(sessions) do
        local view = mine.up and session:look() or {}
        local measured = view.samples ~= mine.samples
        mine.samples = view.samples
        if measured and view.beat and #view.beat == FORM:packsize() then
            local x, y, z, height, wrong = FORM:unpack(view.beat)
            local there = {x, y, z, height = height, error = wrong}
            if here:update(mine.name, there, 1000 * view.round_trip) then
                members[mine.name].place = there
            end
        end
    end
    local bytes = bytes_of_here()
    for session, mine in pairs(sessions) do
        if mine.up then session:_beat(bytes) end
    end
end

--- There is a node to measure. Goes on while there are sessions.
function places.begin(session, options, sessions, members)
    here = here or place.vivaldi {dimensions = 3, seed = options.incarnation & 0x7fffffff}
    session:_beat(bytes_of_here())
    if placing then return end
    placing = true
    mare.go(function()
        while next(sessions) do
            mare.sleep(options.silence_us / 4e6) -- at most as often as heartbeats come
            measure(sessions, members)
        end
        placing = false
    end)
end

--- The place of this node, or nil: it has never had a session.
function places.here() return here and here:here() or nil end

--- The round trip to a node at that place, in seconds, calculated from both places.
function places.estimate(there) return there and here:estimate(there) / 1000 or nil end

function places.forget(name) here:forget(name) end

return places
