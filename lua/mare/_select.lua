-- SPDX-License-Identifier: MIT
-- mare.select if some of its cases are objects with a metamethod `__select`. Each object is asked
-- what to wait for in its place; and when that has come, whether it is ready now. The select in C
-- (src/lua/select.c) does everything else, and calls this one.
--
--     __select(object)            ->  true, ...         it is ready, and these are its results
--     __select(object, case, ...) ->  case [, seconds]  what to wait for; to be asked again then
--     __select(object, false)     ->  nil, message      it can be no case: an error
--
-- The second form is the call after that case has come, with its results; the third, after the
-- seconds.
local mare = require "mare"

local never = mare.channel() -- stands for an object that was not asked yet
local turn = 0               -- the first to be asked changes, so that no object has priority

-- Asks the object of a case. Returns its answer if it is ready.
local function ask(wait, i, ...)
    local answer = table.pack(wait.hooks[i](wait.cases[i], ...))
    local case, seconds = answer[1], answer[2]
    if case == true then return answer end
    if case == nil then
        error(("bad argument #1 to 'select' (case %d: %s)"):format(i,
            seconds or "it cannot be waited for"), 4)
    end
    if seconds ~= nil and not (type(seconds) == "number" and seconds >= 0) then
        error(("bad argument #1 to 'select' (case %d: its __select asks for %s seconds)"):format(i,
            tostring(seconds)), 4)
    end
    wait.plain[i], wait.due[i] = case, seconds and mare.now() + seconds
end

-- What the select returns for an object that is ready.
local function result(i, answer)
    if answer.n == 1 then return i, true end
    return i, table.unpack(answer, 2, answer.n)
end

-- How many seconds until an object must be asked again, if that is before the deadline.
local function time_to_ask(wait, deadline)
    local first = math.huge
    for _, time in pairs(wait.due) do first = math.min(first, time) end
    local seconds = math.max(0, first - mare.now())
    if first < math.huge and deadline ~= 0 and not (deadline and deadline:left() <= seconds) then
        return seconds
    end
end

-- The numbers of the objects, with another one first each time.
local function in_turn(hooks, count)
    local numbers = {}
    for i = 1, count do
        local number = (i + turn) % count + 1
        if hooks[number] then numbers[#numbers + 1] = number end
    end
    return numbers
end

return function(cases, timeout, hooks)
    local deadline, count = timeout, #cases -- a timeout of 0 must work where no wait is possible
    if type(timeout) == "number" then deadline = timeout > 0 and mare.deadline(timeout) or 0 end
    local plain, due = table.move(cases, 1, count, 1, {}), {}
    local wait = {cases = cases, hooks = hooks, plain = plain, due = due}
    for i in pairs(hooks) do plain[i] = never end
    turn = turn + 1
    if turn % 2 == 0 then -- not always: objects that are always ready would starve the other cases
        local got = table.pack(mare.select(plain, 0))
        if got[1] then return table.unpack(got, 1, got.n) end
    end
    for _, i in ipairs(in_turn(hooks, count)) do
        local answer = ask(wait, i)
        if answer then return result(i, answer) end
    end
    while true do
        local seconds = time_to_ask(wait, deadline)
        local got = table.pack(mare.select(plain, seconds or deadline))
        local i = got[1]
        if i and hooks[i] then
            local answer = ask(wait, i, plain[i], table.unpack(got, 2, got.n))
            if answer then return result(i, answer) end
        elseif i or not seconds or got[3] ~= "timeout" then
            return table.unpack(got, 1, got.n)
        else
            for number, time in pairs(due) do
                local answer = time <= mare.now() and ask(wait, number, false)
                if answer then return result(number, answer) end
            end
        end
    end
end
