-- SPDX-License-Identifier: MIT
-- Checkers of what happened to a group. A history lists what was asked for, with the times at
-- which it began and ended by one clock; each checker raises an error that names what is wrong.
local history = {}

local function refuse(...) error((...):format(select(2, ...)), 0) end

--- Locks and their fencing numbers. `grants`: {who =, fence =, began =, ended =}, one for each time
--- that a lock was had, or found to be held still; all of one lock.
---
--- Whoever was told that it holds the lock did so at some moment between. So nobody may be told so
--- by a question that began after a later grant was known; and a number belongs to one holder.
function history.check_locks(grants)
    local holder = {}
    for _, one in ipairs(grants) do
        if holder[one.fence] and holder[one.fence] ~= one.who then
            refuse("%s and %s have both number %d", holder[one.fence], one.who, one.fence)
        end
        holder[one.fence] = one.who
    end
    table.sort(grants, function(a, b) return a.fence < b.fence end)
    local least -- the earliest time at which a later number was known, from the end on
    for i = #grants, 1, -1 do
        local one = grants[i]
        if least and least.fence > one.fence and one.began > least.ended then
            refuse("%s holds it by number %d at %f, and %s had %d at %f", one.who, one.fence,
                one.began, least.who, least.fence, least.ended)
        end
        if not least or one.ended < least.ended then least = one end
    end
    return #grants
end

--- Elections: {who =, leader = or false, epoch =} in the order in which each member heard it. One
--- leader an epoch, and epochs only grow.
function history.check_leaders(news)
    local leaders, latest = {}, {}
    for _, one in ipairs(news) do
        if one.leader then
            local known = leaders[one.epoch]
            if known and known ~= one.leader then
                refuse("%s and %s both lead in epoch %d", known, one.leader, one.epoch)
            end
            leaders[one.epoch] = one.leader
        end
        if one.epoch < (latest[one.who] or 0) then
            refuse("%s hears of epoch %d after %d", one.who, one.epoch, latest[one.who])
        end
        latest[one.who] = one.epoch
    end
    return #news
end

-- Operations in the order that they say: none may have ended before one that it follows began.
local function check_order(list)
    table.sort(list, function(a, b)
        if a.at ~= b.at then return a.at < b.at end
        return a.kind < b.kind -- "append" before "read"
    end)
    local latest, alike -- of all before, and of the reads that see the same: who began last
    for _, one in ipairs(list) do
        if alike and (alike.at ~= one.at or alike.kind ~= one.kind) then
            if not latest or alike.began > latest.began then latest = alike end
            alike = nil
        end
        if latest and one.ended < latest.began then
            refuse("%s at %d ended before %s at %d began", one.kind, one.at, latest.kind, latest.at)
        end
        if not alike or one.began > alike.began then alike = one end
    end
end

--- A replica that is a list to which values are appended, each once: is it linearizable?
--- `appends`: {value =, began =, ended =, at =}, `at` where the value is now, if that was told; or
--- `state` = "no" (told that it was not done), "maybe" (not told). `reads`: {list =, began =,
--- ended =}. `final`: the list in the end.
function history.check_list(appends, reads, final)
    local place, known, list = {}, {}, {}
    for i, value in ipairs(final) do
        if place[value] then refuse("%s is there twice", value) end
        place[value] = i
    end
    for _, one in ipairs(appends) do
        known[one.value] = true
        local at = place[one.value]
        if one.state == "no" then
            if at then refuse("%s was refused, and is there", one.value) end
        elseif one.at and at ~= one.at then
            refuse("%s was told to be at %d, and is at %s", one.value, one.at, tostring(at))
        elseif at then
            list[#list + 1] = {kind = "append", at = at, began = one.began,
                ended = one.at and one.ended or math.huge}
        end
    end
    for _, value in ipairs(final) do
        if not known[value] then refuse("nobody has appended %s", value) end
    end
    for _, one in ipairs(reads) do
        for i, value in ipairs(one.list) do
            if final[i] ~= value then
                refuse("a read has %s at %d, and in the end it is %s", value, i, tostring(final[i]))
            end
        end
        list[#list + 1] = {kind = "read", at = #one.list, began = one.began, ended = one.ended}
    end
    check_order(list)
    return #list
end

--- Multicasts: lists of what each life of a member was delivered, as "sender number". The same
--- order everywhere and nothing left out: whoever was delivered two in a row, all others were who
--- were delivered the first and went on. And the numbers of a sender's life follow each other.
function history.check_order(lists)
    local follows, count = {}, 0
    for which, list in ipairs(lists) do
        local last = {}
        for i, value in ipairs(list) do
            local sender, number = value:match "^(%S+) (%d+)$"
            number = tonumber(number)
            if last[sender] and number ~= last[sender] + 1 then
                refuse("list %d has %s after number %d of it", which, value, last[sender])
            end
            last[sender] = number
            local before = list[i - 1]
            if before then
                if follows[before] and follows[before] ~= value then
                    refuse("%s is followed by %s, and in list %d by %s", before, follows[before],
                        which, value)
                end
                follows[before] = value
            end
            count = count + 1
        end
    end
    return count
end

return history
