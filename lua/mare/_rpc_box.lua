-- SPDX-License-Identifier: MIT
-- Where answers to calls with callbacks arrive. All calls to one process share a channel, its box,
-- and one routine that takes answers out; so a call in flight is an entry in a table. (A channel
-- for each call is, between nodes, a proxy and a flow for each.)
--
--     async --enter--> box.calls[id] --answer, end of the process, deadline, cancel--> callback
--
-- Whoever answers does not wait for room. So a box has room for all the answers of its calls: one
-- answer a call, also for those that nobody waits for any more. A box that has such is not entered
-- again; its last call takes it along.
local mare, who = require "mare", require "mare._who"

local box_of = {} -- of this module: what rpc.lua calls

local ROOM = 1024

-- The call is over. False: it was before.
local function leave(call)
    local box = call.box
    if not box or box.calls[call.id] ~= call then return false end
    box.calls[call.id], box.count = nil, box.count - 1
    return true
end

-- What a call came to. In a routine of its own, so that the callback may wait.
local function conclude(call, ...)
    if leave(call) then mare.go(call.cb, ...) end
end

-- Nobody waits for the answer, but it may still come.
local function give_up(call, ...)
    if call.peer.box == call.box then call.peer.box = nil end
    call.peer.inbox:trysend("cancel", call.id, call.reply, mare.self()) -- it saves work, no more
    conclude(call, ...)
end

local function take(box, id, fine, ...)
    local call = id ~= nil and box.calls[id]
    if not call then return end -- a late one, or no answer at all
    if fine then conclude(call, ...) else conclude(call, nil, ...) end
end

local function take_all(box)
    while #box.channel > 0 do take(box, box.channel:tryreceive()) end
end

local function each(box, done, ...)
    for _, call in pairs(box.calls) do done(call, ...) end
end

-- Ends those whose time is over, and finds out when the next one's is.
local function expire(box, message)
    local soonest
    for _, call in pairs(box.calls) do
        local deadline = call.deadline
        if deadline and deadline:left() == 0 then
            give_up(call, nil, message, "timeout")
        elseif deadline and (not soonest or deadline:left() < soonest:left()) then
            soonest = deadline
        end
    end
    box.soonest = soonest
end

local function settle(box, which, ...)
    if which == 1 then
        take(box, ...)
        take_all(box)
        if box.channel:closed() then
            each(box, give_up, nil, ("%s closed the channel for the answer"):format(box.process),
                "badmsg")
        end
    elseif which == 2 then
        take_all(box) -- what it answered before its end
        each(box, conclude, who.ended(box.process, ...))
    else
        local message, code = ...
        if code == "timeout" then
            expire(box, message)
        elseif box.hurry then
            box.hurry = false
        else
            each(box, give_up, nil, message, code)
        end
    end
end

-- Takes answers while there are calls.
local function collect(box)
    while box.count > 0 do
        settle(box, mare.select({box.channel, box.process}, box.soonest))
    end
    box.routine = nil
end

--- The call waits in the box of its process from now on. Its answer comes to `call.reply`.
function box_of.enter(call)
    local peer = call.peer
    local box = peer.box
    if not box or box.count == ROOM then
        box = {process = peer.process, channel = mare.channel(ROOM), calls = {}, count = 0}
        peer.box = box
    end
    call.box, call.reply = box, box.channel
    box.calls[call.id], box.count = call, box.count + 1
    local sooner = call.deadline and not (box.soonest
        and box.soonest:left() <= call.deadline:left())
    if sooner then box.soonest = call.deadline end
    if not box.routine then
        box.routine = mare.go(collect, box)
    elseif sooner then
        box.hurry = true
        box.routine:cancel() -- it waits for too long
    end
end

--- It could not be sent: the callback is told.
function box_of.fail(call, ...)
    if call.box then conclude(call, ...) else mare.go(call.cb, ...) end
end

--- It could not be sent, and whoever tried is told by an error.
box_of.forget = leave

--- Ends the wait. False: it was over.
function box_of.cancel(call)
    if not call.box or call.box.calls[call.id] ~= call then return false end
    give_up(call, nil, "the call was cancelled", "cancelled")
    return true
end

return box_of
