-- SPDX-License-Identifier: MIT
-- Groups for C programs (include/mare/group.h, src/lua/group_api.c). For each thing that a C
-- program holds (a lock, election, multicast or replica) there is a process here that owns it. The
-- process gets `orders` from C and sends `news` to C. It ends when the orders are closed. An order
-- is a channel for the answer, a word, and its arguments. An answer is true, and then a second
-- message with the results; or false, a code and a message.
local mare, group = require "mare", require "mare.group"

local c = {}

-- Codes of groups that have another name in C.
local codes = {left = "closed", released = "closed", changed = "closed", failed = "died"}

local function outcome(fine, first, ...)
    if not fine then return false, "invalid", tostring(first) end
    if first ~= nil then return true, first, ... end
    local message, code = ...
    return false, codes[code] or code or "io", tostring(message)
end

--- Calls a function. Returns true and its results, or false, code, message.
function c.call(f, ...) return outcome(pcall(f, ...)) end

--- Calls a method of a group.
function c.ask(name, method, ...)
    local joined, message, code = group.find(name)
    if not joined then return false, code, message end
    return c.call(joined[method], joined, ...)
end

--- `found` or `join`. Options come as names and values; a list as its name with each value.
function c.enter(what, ...)
    local lists = {members = true, voters = true, engine = true, algorithm = true}
    local options, given = {}, table.pack(...)
    for i = 1, given.n, 2 do
        local key, value = given[i], given[i + 1]
        if lists[key] then
            options[key] = options[key] or {}
            local lock, algorithm = value:match "^(.+)=(%a+)$"
            if key == "algorithm" and lock then
                options[key][lock] = algorithm
            else
                table.insert(options[key], value)
            end
        else
            options[key] = value
        end
    end
    local name = options.name
    options.name = nil
    local fine, _, message = c.call(group[what], name, options)
    return fine, fine or _, message -- C needs no group object, only whether it worked
end

--- The members, as a flat list.
function c.members(name)
    local fine, list, message = c.ask(name, "members")
    if not fine then return false, list, message end
    local flat = {true}
    for _, member in ipairs(list) do
        flat[#flat + 1] = member.name
        flat[#flat + 1] = member.state
    end
    return table.unpack(flat)
end

-- Makes something by a method of a group, and tells C how that went. Returns it, or nil.
local function begin(started, name, method, ...)
    local answer = table.pack(c.ask(name, method, ...))
    started:send(answer[1], answer[1] or answer[2], answer[3])
    return answer[1] and answer[2] or nil
end

local function respond(reply, fine, first, ...)
    if not fine then return reply:trysend(false, first, ...) end
    reply:trysend(true)
    if first == true then reply:trysend(...) else reply:trysend(first) end
end

-- Answers an order in a routine of its own, so that other orders need not wait for it.
local function answer(reply, f, ...)
    mare.go(function(...) respond(reply, c.call(f, ...)) end, ...):detach()
end

function c.lock(started, orders, news, name, ...)
    local lock <close> = begin(started, name, "lock", ...)
    local cases = {orders, lock}
    while lock do
        local which, reply = mare.select(cases)
        if which == 2 then
            news:trysend(reply)
            cases[2] = nil
        elseif reply then
            answer(reply, lock.fence, lock)
        else
            return
        end
    end
end

function c.election(started, orders, news, name, which, algorithm, worth)
    local way = {candidate = algorithm ~= nil, algorithm = algorithm,
        worth = algorithm == "wireless" and worth or nil}
    local election <close> = begin(started, name, "election", which, way)
    local cases = {orders, election}
    while election do
        local case, leader, epoch = mare.select(cases)
        if case == 1 then
            return
        elseif leader == nil then -- the group was left, or this member is denied
            news:trysend(nil, tostring(epoch))
            news:close()
            cases[2] = nil
        else
            while not news:closed() and not news:trysend(leader, epoch) do
                news:tryreceive() -- drop the old state: only the latest counts
            end
        end
    end
end

-- Passes on what is delivered to C; closes `news` after the last message.
local function hand_on(multicast, news)
    for from, value in multicast:messages() do
        if not news:send(from, value) then break end
    end
    news:close()
end

function c.multicast(started, orders, news, name, which, order, timeout)
    local multicast = begin(started, name, "multicast", which, {order = order, timeout = timeout})
    if not multicast then return end
    mare.go(hand_on, multicast, news):detach()
    for reply, _, seconds, value in orders:messages() do
        respond(reply, c.call(multicast.send, multicast, value, seconds))
    end
    news:close()
    multicast:leave()
end

-- The function of a replica that calls the C program's function.
local function change_by(module, name)
    return function(state, value)
        local following, result = require(module)[name](state, value)
        if following == nil then error(result, 0) end
        return following, result
    end
end

function c.replica(started, orders, _, name, which, module, f, initial)
    local replica = begin(started, name, "replica", which, initial, change_by(module, f))
    if not replica then return end
    for reply, what, seconds, value in orders:messages() do
        if what == "apply" then
            answer(reply, replica.apply, replica, value, seconds)
        else
            answer(reply, replica.read, replica, seconds)
        end
    end
    replica:leave()
end

return c
