-- SPDX-License-Identifier: MIT
-- Functions that exclude each other, wherever they run; locks that survive the death of their
-- holder.
--
--     local mare, monitor = require "mare", require "mare.monitor"
--     local mnt = monitor.create()                      -- can be sent to other processes
--     local add = monitor.doWhenFree(mnt, function(account, sum)
--         return account:deposit(sum)                   -- alone, among all functions under mnt
--     end)
--     local fence = monitor.take(mnt, 5)                -- or by hand: a number that only grows
--     store:write(text, fence)                          -- who holds an older one is too late
--     monitor.release(mnt)
--
-- The process that created a monitor serves it (_monitor_server.lua); or a group of nodes does,
-- which survives the loss of any one of them (_monitor_group.lua). A holder that dies releases the
-- lock.
local mare, check, chains = require "mare", require "mare._check", require "mare._chain"
local service, serve = require "mare._service", require "mare._monitor_server"
local grouped = require "mare._monitor_group"
local insist, answer = service.insist, service.answer

local monitor = {}

-- By monitor, or by the key of a group's: its grant {fence, chain, mnt, and the lock of a group},
-- while it is held here. So every reference to the same monitor finds the same grant.
local held = {}
local grant_type = {}
local me -- this process
local servers = setmetatable({}, {__mode = "k"}) -- monitor -> what serves it, in this process
local monitor_type = service.type("monitor", "mare.monitor")

--- What makes a monitor again where it arrives.
monitor.arrive = monitor_type.arrive

--- A monitor without functions. It lives as long as the process that made it; with `group` and
--- `name`, as long as the group, whose lock of that name it is. With `algorithm`, the members must
--- have agreed on that for the lock.
function monitor.create(options)
    local of_group = options ~= nil and grouped.create(options)
    if of_group then return of_group end
    local channel, server = serve()
    local mnt = monitor.arrive {channel, mare.self()}
    servers[mnt] = server
    return mnt
end

local function is_grouped(mnt) return getmetatable(mnt) == grouped.type end

local function check_monitor(name, mnt)
    if getmetatable(mnt) ~= monitor_type and not is_grouped(mnt) then
        check.blame(("bad argument #1 to '%s' (monitor expected, got %s)"):format(name,
            mnt == nil and "no value" or type(mnt)))
    end
end

-- ---- The lock -----------------------------------------------------------------------------------

local function note(mnt, fence, chain, lock)
    held[mnt.key or mnt] = setmetatable({fence = fence, chain = chain, mnt = mnt, lock = lock},
        grant_type)
    return fence
end

-- Both functions return the number of the grant; false if this chain of calls has the lock already;
-- or nil, message, code.
local function take_served(mnt, deadline)
    local chain, server = chains.here(), servers[mnt]
    me = me or mare.self()
    local grabbed = server and server:grab(me, chain)
    if grabbed then return note(mnt, grabbed, chain) end
    local ticket, reply = service.ticket(mnt)
    local fence, message, code = service.tell(mnt, deadline, "take", ticket, reply, me, chain[1],
        chain[2])
    if not fence then return nil, message, code end
    fence, message, code = answer(mnt, ticket, reply, deadline)
    if fence then
        note(mnt, fence, chain)
    elseif fence == nil then
        insist(mnt, "drop", ticket, reply) -- it may have been granted just now
    end
    return fence, message, code
end

local function take_grouped(mnt, deadline)
    local chain = chains.here()
    local mine = held[mnt.key]
    if mine and chains.same(mine.chain, chain) then return false end
    local lock, message, code = mnt:lock(deadline)
    if not lock then return nil, message, code end
    local fence
    fence, message, code = lock:fence()
    if fence then return note(mnt, fence, chain, lock) end
    lock:release() -- it is ours all the same, if a cancel has ended the question about its number
    return nil, message, code
end

local function take(mnt, deadline)
    local fence, message, code = (is_grouped(mnt) and take_grouped or take_served)(mnt, deadline)
    if fence == false then
        error("the monitor is held by this very chain of calls: to wait would be a deadlock", 3)
    end
    return fence, message, code
end

-- Sends a message of the holder. If the server is in this process, calls it directly.
local function tell_server(mnt, kind, ...)
    local server = servers[mnt]
    if not server then return insist(mnt, kind, ...) end
    server[kind](server, ...)
    return true
end

local function release(mnt)
    local mine = held[mnt.key or mnt]
    held[mnt.key or mnt] = nil
    if mine.lock then return mine.lock:release() end
    local server = servers[mnt]
    if not server then return insist(mnt, "release", mine.fence) end
    server:release(mine.fence)
    return true
end

--- Waits for the lock. Returns the number of the grant, its fence; or nil, message, code.
function monitor.take(mnt, timeout)
    check_monitor("take", mnt)
    local fence, message, code = take(mnt, check.deadline("take", timeout, 2))
    return fence, message, code
end

local function check_held(name, mnt)
    check_monitor(name, mnt)
    if not held[mnt.key or mnt] then
        error(("bad argument #1 to '%s' (this process does not hold the monitor)"):format(name), 3)
    end
end

--- Gives the lock to the next in line.
function monitor.release(mnt)
    check_held("release", mnt)
    return release(mnt)
end

--- The number of the present grant; nil if this process does not hold the lock (any more).
function monitor.fence(mnt)
    check_monitor("fence", mnt)
    local mine = held[mnt.key or mnt]
    if mine and mine.lock then return mine.lock:fence() end
    return mine and mine.fence
end

-- Runs at the end of the function, however that ends. By then the lock may be released, or, after a
-- wait, held by a later grant.
function grant_type.__close(grant)
    local mnt = grant.mnt
    local now = held[mnt.key or mnt]
    if now and (now == grant or chains.same(now.chain, grant.chain)) then release(mnt) end
end

--- A function that runs f while no other function under the monitor runs, anywhere.
function monitor.doWhenFree(mnt, f, timeout)
    check_monitor("doWhenFree", mnt)
    check.argument("doWhenFree", f, 2, "function")
    check.deadline("doWhenFree", timeout, 3)
    return function(...)
        local deadline = type(timeout) == "number" and mare.deadline(timeout) or timeout
        local fence, message, code = take(mnt, deadline)
        if not fence then return nil, message, code end
        local _ <close> = held[mnt.key or mnt]
        return f(...)
    end
end

monitor.dowhenfree = monitor.doWhenFree

-- ---- Conditions ---------------------------------------------------------------------------------

-- With the monitor of a group. Its lock may be lost meanwhile, or cannot be had again.
local function wait_grouped(mnt, name, deadline)
    local mine = held[mnt.key]
    local it, message, code = grouped.enter(mnt, name)
    if not it then return nil, message, code end
    if held[mnt.key] == mine then release(mnt) end
    local ok, why, what = grouped.await(it, deadline)
    local fence
    repeat
        fence, message, code = take_grouped(mnt)
    until fence ~= nil or code ~= "cancelled"
    if fence == nil then return nil, message, code end
    return ok, why, what
end

--- Releases the lock, waits for a signal, and takes the lock again. Returns true; or, with the lock
--- taken again all the same, nil, message, code ("timeout", "cancelled").
function monitor.wait(mnt, name, timeout)
    check_held("wait", mnt)
    local deadline = check.deadline("wait", timeout, 3)
    if is_grouped(mnt) then return wait_grouped(mnt, name or "", deadline) end
    local ticket, reply = service.ticket(mnt)
    local mine = held[mnt]
    held[mnt] = nil
    local fence, message, code = insist(mnt, "wait", mine.fence, name or "", ticket, reply)
    if not fence then return nil, message, code end
    fence, message, code = answer(mnt, ticket, reply, deadline)
    local why, what = message, code
    if fence == nil and (code == "timeout" or code == "cancelled") then
        insist(mnt, "wake", ticket, reply)
        repeat
            fence, message, code = answer(mnt, ticket, reply)
        until fence or code ~= "cancelled"
    end
    if not fence then return nil, message, code end -- the monitor has ended
    note(mnt, fence, mine.chain)
    if what then return nil, why, what end
    return true
end

--- Wakes one that waits; it goes on when it has got the lock.
function monitor.signal(mnt, name)
    check_held("signal", mnt)
    if is_grouped(mnt) then return grouped.signal(mnt, name or "", false) end
    return tell_server(mnt, "signal", held[mnt].fence, name or "", false)
end

--- Wakes all that wait.
function monitor.broadcast(mnt, name)
    check_held("broadcast", mnt)
    if is_grouped(mnt) then return grouped.signal(mnt, name or "", true) end
    return tell_server(mnt, "signal", held[mnt].fence, name or "", true)
end

return monitor
