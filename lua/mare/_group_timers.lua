-- SPDX-License-Identifier: MIT
-- Timers: a heap with the next one on top. A timer that was cancelled or set anew
-- stays in the heap until its time comes, and is ignored then.
local timers = {}
timers.__index = timers

function timers.new() return setmetatable({heap = {}, known = {}}, timers) end

--- Sets the timer of a key: each key has one. `item` is returned when it is due.
function timers:set(key, due, item)
    local heap, new = self.heap, {key = key, due = due, item = item}
    self.known[key] = new
    local at = #heap + 1
    while at > 1 and heap[at // 2].due > due do
        heap[at] = heap[at // 2]
        at = at // 2
    end
    heap[at] = new
end

function timers:cancel(key) self.known[key] = nil end

function timers:has(key) return self.known[key] ~= nil end

--- New timers, with this one of those here if it is set.
function timers:only(key)
    local new, one = timers.new(), self.known[key]
    if one then new:set(key, one.due, one.item) end
    return new
end

-- Puts the last one in the place of the first, and lets it sink to where it belongs.
local function remove_first(heap)
    local last = table.remove(heap)
    if not heap[1] then return end
    local at, count = 1, #heap
    while 2 * at <= count do
        local child = 2 * at
        if child < count and heap[child + 1].due < heap[child].due then child = child + 1 end
        if heap[child].due >= last.due then break end
        heap[at] = heap[child]
        at = child
    end
    heap[at] = last
end

--- When the next timer is due; nil: there is none.
function timers:next()
    local heap = self.heap
    while heap[1] and self.known[heap[1].key] ~= heap[1] do remove_first(heap) end
    return heap[1] and heap[1].due
end

--- Removes the next timer, and returns its item.
function timers:take()
    self:next()
    local first = self.heap[1]
    remove_first(self.heap)
    self.known[first.key] = nil
    return first.item
end

return timers
