-- SPDX-License-Identifier: MIT
-- The checkers of chaos (group_history.lua): a good history passes, and one with a violation that
-- was planted in it is refused.
local t, history = require "t", require "group_history"

local function grant(who, fence, began, ended)
    return {who = who, fence = fence, began = began, ended = ended}
end

local function append(value, began, ended, at)
    return {value = value, began = began, ended = ended, at = at}
end

local function read(began, ended, ...) return {began = began, ended = ended, list = {...}} end

return {
    locks_exclude_and_their_numbers_grow = function()
        t.eq(history.check_locks {grant("a", 1, 0, 2), grant("a", 1, 3, 4), grant("b", 2, 3, 5),
            grant("a", 7, 6, 7)}, 4)
        t.raises("have both number 2", history.check_locks,
            {grant("a", 2, 0, 1), grant("b", 2, 2, 3)})
        t.raises("a holds it by number 1", history.check_locks, -- still inside after the next one
            {grant("a", 1, 0, 1), grant("b", 2, 2, 3), grant("a", 1, 4, 5)})
        t.raises("a holds it by number 1", history.check_locks, -- whichever of these is looked at
            {grant("a", 1, 4, 5), grant("b", 2, 2, 3), grant("a", 1, 0, 1)})
        t.raises("b holds it by number 3", history.check_locks, -- a number that goes back
            {grant("a", 4, 0, 1), grant("b", 3, 2, 3)})
    end,

    one_leads_in_an_epoch = function()
        local function heard(who, leader, epoch)
            return {who = who, leader = leader, epoch = epoch}
        end
        t.eq(history.check_leaders {heard("a", "a", 1), heard("b", "a", 1), heard("b", false, 1),
            heard("b", "b", 3), heard("a", false, 1), heard("a", "b", 3)}, 6)
        t.raises("a and b both lead in epoch 1", history.check_leaders,
            {heard("a", "a", 1), heard("b", "b", 1)})
        t.raises("epoch 1 after 3", history.check_leaders, {heard("a", "b", 3), heard("a", "a", 1)})
    end,

    a_list_is_linearizable = function()
        local appends = {append("x", 0, 2, 1), append("y", 1, 3, 2),
            {value = "z", began = 4, ended = 5, state = "maybe"},
            {value = "n", began = 4, ended = 5, state = "no"}}
        local final = {"x", "y", "z"}
        local reads = {read(3, 4, "x", "y"), read(0, 3), read(2, 9, "x", "y", "z"),
            read(3.5, 3.6, "x", "y")}
        t.eq(history.check_list(appends, reads, final), 7)
        local function refused(why, seen, more, last)
            local all = table.move(appends, 1, #appends, 1, {})
            all[#all + 1] = more
            t.raises(why, history.check_list, all, seen or {}, last or final)
        end
        refused("y was told to be at 2", nil, nil, {"x", "z"}) -- lost
        refused("x is there twice", nil, nil, {"x", "y", "x"})
        refused("nobody has appended q", nil, nil, {"x", "y", "q"})
        refused("n was refused", nil, nil, {"x", "y", "n"})
        refused("a read has z at 2", {read(0, 9, "x", "z")}) -- another order
        refused("ended before", {read(5, 6)}, append("w", 1, 2, 3), {"x", "y", "w"}) -- too old
        refused("ended before", {read(8, 9, "x")}) -- does not know of y
        refused("ended before", {read(0, 0.5, "x", "y")}) -- of what had not begun
        refused("ended before", {read(1, 2, "x", "y"), read(2.5, 3, "x")}) -- goes back
        t.raises("ended before", history.check_list, -- against the time
            {append("late", 9, 10, 1), append("early", 1, 2, 2)}, {}, {"late", "early"})
    end,

    deliveries_are_in_one_order_without_gaps = function()
        t.eq(history.check_order {{"a 1", "b 1", "a 2"}, {"b 1", "a 2", "b 2"}, {}}, 6)
        t.raises("is followed by", history.check_order, {{"a 1", "b 1"}, {"a 1", "c 1"}})
        t.raises("is followed by", history.check_order, -- one was left out
            {{"a 1", "b 1", "c 1"}, {"a 1", "c 1"}})
        t.raises("has a 3 after number 1", history.check_order, {{"a 1", "a 3"}})
    end,
}
