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
    local least, alike -- who had a later number first, and who had the one that is looked at
    for i = #grants, 1, -1 do
        local one = grants[i]
        if alike and alike.fence ~= one.fence then
            if not least or alike.ended < least.ended then least = alike end
            alike = nil
        end
        if least and one.began > least.ended then
            refuse("%s holds it by number %d at %f, and %s had %d at %f", one.who, one.fence,
                one.began, least.who, least.fence, least.ended)
        end
        if not alike or one.ended < alike.ended then alike = one end
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
--- ended =, base =}, `base` how many are before those in the list (0). `final`: what is where, as
--- far as somebody has seen it: by default, what the reads and the answers of appends say.
function history.check_list(appends, reads, final)
    final = final or history.seen(appends, reads)
    local place, known, list = {}, {}, {}
    for i, value in pairs(final) do
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
    for _, value in pairs(final) do
        if not known[value] then refuse("nobody has appended %s", value) end
    end
    for _, one in ipairs(reads) do
        local base = one.base or 0
        for i, value in ipairs(one.list) do
            if final[base + i] ~= value then
                refuse("a read has %s at %d, and in the end it is %s", value, base + i,
                    tostring(final[base + i]))
            end
        end
        list[#list + 1] = {kind = "read", at = base + #one.list, began = one.began,
            ended = one.ended}
    end
    check_order(list)
    return #list
end

--- What is where by the reads, and by the answers of appends where no read tells.
function history.seen(appends, reads)
    local final = {}
    for _, one in ipairs(reads) do
        for i, value in ipairs(one.list) do
            local at = (one.base or 0) + i
            final[at] = final[at] or value
        end
    end
    for _, one in ipairs(appends) do
        if one.at then final[one.at] = final[one.at] or one.value end
    end
    return final
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

-- ---- Stories ------------------------------------------------------------------------------------

local function numbers(...)
    local list = table.pack(...)
    for i = 1, list.n do list[i] = tonumber(list[i]) end
    return table.unpack(list, 1, list.n)
end

local tells = {}

function tells.lock(h, who, fence, began, ended)
    fence, began, ended = numbers(fence, began, ended)
    table.insert(h.grants, {who = who, fence = fence, began = began, ended = ended})
end

function tells.leader(h, who, leader, epoch)
    table.insert(h.news, {who = who, leader = leader ~= "-" and leader, epoch = tonumber(epoch)})
end

-- Until its end is told, it may have been done.
tells["try"] = function(h, _, value, began)
    local one = {value = value, began = tonumber(began), ended = math.huge, state = "maybe"}
    h.trying[value] = one
    table.insert(h.appends, one)
end

function tells.append(h, _, value, _, ended, what)
    local one = h.trying[value]
    one.ended, one.at = tonumber(ended), tonumber(what)
    one.state = not one.at and (what == "unsure" and "maybe" or "no") or nil
end

function tells.read(h, _, began, ended, count, values)
    local list = {}
    for value in (values or ""):gmatch "[^,]+" do list[#list + 1] = value end
    began, ended, count = numbers(began, ended, count)
    table.insert(h.reads, {began = began, ended = ended, list = list, base = count - #list})
end

function tells.hears(h) table.insert(h.lists, {}) end

function tells.add(h) h.added = h.added + 1 end

function tells.heard(h, _, what) table.insert(h.lists[#h.lists], what) end

--- What the programs of group_world.lua wrote: `grants`, `news`, `appends`, `reads`, `lists`.
--- Each life of a member is somebody else, who has to hear of epochs in their order.
function history.read(stories)
    local h = {grants = {}, news = {}, appends = {}, trying = {}, reads = {}, lists = {}, added = 0}
    for life, story in ipairs(stories) do
        for _, line in ipairs(story) do
            local words = {}
            for word in line:gmatch "[^\t]*" do words[#words + 1] = word end
            local tell = tells[words[1]]
            if tell then tell(h, ("%s/%d"):format(story.name, life), table.unpack(words, 2)) end
        end
    end
    return h
end

--- Checks all of it. Returns how many of each there were: grants, news, operations, deliveries.
function history.check(h)
    return history.check_locks(h.grants), history.check_leaders(h.news),
        history.check_list(h.appends, h.reads), history.check_order(h.lists)
end

return history
