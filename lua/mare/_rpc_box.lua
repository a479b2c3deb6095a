-- SPDX-License-Identifier: MIT
-- Receives the answers to calls with callbacks. All calls to one process share a channel, its box,
-- and one routine that reads it. So a call without an answer yet is only an entry in a table. (A
-- channel for each call would cost a proxy and a flow for each between nodes.)
--
--     async --enter--> box.calls[id] --answer, end of the process, deadline, cancel--> callback
--
-- The process that answers does not wait for room. So a box has room for the answers of all its
-- calls, also of calls that nobody waits for any more. A box with such calls takes no new calls,
-- and goes away with its last one.
local mare, who, chains = require "mare", require "mare._who", require "mare._chain"

local box_of = {} -- of this module: what rpc.lua calls

local ROOM = 1024
local BATCH = 64 -- answers to read before other routines have their turn

-- Ends a call. False: it had ended before.
local function leave(call)
    local box = call.box
    if not box or box.calls[call.id] ~= call then return false end
    box.calls[call.id], box.count = nil, box.count - 1
    return true
end

-- Gives a result to the callback, in a routine of its own, so that the callback may wait. (The
-- routine that reads answers calls it directly. If the callback waits, its heir goes on reading:
-- see take_all.)
local function conclude(call, ...)
    if leave(call) then mare.go(call.cb, ...) end
end

local function withdraw_later(peer, ...)
    local own = peer.process == mare.self()
    mare.select({{peer.inbox, "cancel", ...}, not own and peer.process or nil})
end

--- Tells the process that nobody waits for the answer any more. Without this message a function
--- that waits without end would go on, and count as open, as long as the caller lives. So when
--- there is no room for it, a routine waits.
function box_of.withdraw(call)
    local me = mare.self()
    if call.peer.inbox:trysend("cancel", call.id, call.reply, me) then return end
    local fine, routine = pcall(mare.go, withdraw_later, call.peer, call.id, call.reply, me)
    if fine then routine:detach() end
end

-- Nobody waits for the answer any more, but it may still come.
local function give_up(call, ...)
    if call.peer.box == call.box then call.peer.box = nil end
    box_of.withdraw(call)
    conclude(call, ...)
end

local function take(box, run, id, fine, ...)
    local call = id ~= nil and box.calls[id]
    if not call then return end -- too late, or not an answer at all
    if run then
        leave(call)
        chains.enter(nil) -- each callback begins a chain of its own
        if fine then call.cb(...) else call.cb(nil, ...) end
    elseif fine then
        conclude(call, ...)
    else
        conclude(call, nil, ...)
    end
end

local function take_rest(box)
    while #box.channel > 0 do take(box, false, box.channel:tryreceive()) end
end

local collect

local function appoint(box)
    if box.heir and mare._appoint(box.heir) then return end -- unless the heir failed before it led
    box.heir = mare._heir(collect, box)
    mare._appoint(box.heir)
end

-- Handles the answers that have come, beginning with this one. False: the heir reads from now on.
local function take_all(box, me, ...)
    box.inherits = pcall(appoint, box)
    if not box.inherits then box.heir = nil end -- no memory for an heir
    take(box, box.inherits, ...)
    local left = BATCH
    while box.leader == me and left > 0 and #box.channel > 0 do
        take(box, box.inherits, box.channel:tryreceive())
        left = left - 1
    end
    mare._appoint(nil) -- first: until here an interrupt may start the heir
    if box.leader ~= me then return false end
    box.inherits = false
    if left == 0 then mare.yield() end
    return true
end

local function each(box, done, ...)
    for _, call in pairs(box.calls) do done(call, ...) end
end

-- Ends the calls whose time is over, and finds the next deadline.
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

-- Handles one event. False: another routine reads the answers from now on.
local function settle(box, me, which, ...)
    box.waiter = nil
    if which == 1 then
        if box.hurry then -- this routine was told not to wait; hide that from its callbacks
            take(box, false, ...)
            take_rest(box)
        elseif not take_all(box, me, ...) then
            return false
        end
        if box.channel:closed() then
            each(box, give_up, nil, ("%s closed the channel for the answer"):format(box.process),
                "badmsg")
        end
    elseif which == 2 then
        take_rest(box) -- answers that it sent before its end
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
    return true
end

-- If the reader fails for want of memory, and has no heir, the next caller starts another one.
local box_type = {__close = function(box)
    if box.leader == mare._routine() and not box.inherits then box.leader = nil end
end}

-- Reads answers while there are calls.
function collect(box)
    local me, _ <close> = mare._routine(), box
    box.leader, box.heir, box.inherits = me, nil, false
    while box.count > 0 do
        box.waiter = me
        if not settle(box, me, mare.select(box.cases, box.soonest)) then return end
    end
    box.leader = nil
end

--- Enters a call into the box of its process. Its answer comes to `call.reply`.
function box_of.enter(call)
    local peer = call.peer
    local box = peer.box
    if not box or box.count == ROOM then
        local channel = mare.channel(ROOM)
        box = setmetatable({process = peer.process, channel = channel, inherits = false,
            cases = {channel, peer.process}, calls = {}, count = 0}, box_type)
        peer.box = box
    end
    call.box, call.reply = box, box.channel
    box.calls[call.id], box.count = call, box.count + 1
    local sooner = call.deadline and not (box.soonest
        and box.soonest:left() <= call.deadline:left())
    if sooner then box.soonest = call.deadline end
    if not box.leader then
        box.leader = mare.go(collect, box)
    elseif sooner and box.waiter then
        box.hurry = true
        box.waiter:cancel() -- its wait is too long now: it must look at the deadlines again
    end
end

--- The call could not be sent: tells the callback.
function box_of.fail(call, ...)
    if call.box then conclude(call, ...) else mare.go(call.cb, ...) end
end

--- The call could not be sent, and its caller gets an error instead.
box_of.forget = leave

--- Cancels a call. False: it had ended already.
function box_of.cancel(call)
    if not call.box or call.box.calls[call.id] ~= call then return false end
    give_up(call, nil, "the call was cancelled", "cancelled")
    return true
end

return box_of
