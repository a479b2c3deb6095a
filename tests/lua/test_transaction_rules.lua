-- SPDX-License-Identifier: MIT
-- mare._transaction: one machine at a time, told what arrived. Each case is a rule of the protocol
-- that a search of small groups (test_transaction.lua) would seldom or never see broken.
local t, transaction = require "t", require "mare._transaction"

return {
    -- One of several synchronizers cannot answer for the others.
    who_says_that_it_only_reads_does_not_speak_for_all = function()
        local sent, outcome = {}, nil
        local asker = transaction.coordinator(function(to, kind) sent[#sent + 1] = kind .. to end,
            function(_, what) outcome = what end)
        local tx = asker:begin({"a", "b"}, {fname = "f"})
        asker:vote("a", tx.id, "shared")
        t.eq({sent, outcome}, {{"aska", "askb"}})
        asker:vote("b", tx.id, "yes")
        t.eq(outcome, "ready")
        asker:commit(tx)
        t.eq(sent, {"aska", "askb", "commita", "commitb"})
    end,

    a_trigger_that_comes_before_the_call_fires = function()
        local sent, triggers, fired = {}, false, 0
        local keeper = transaction.participant("s1", function(_, kind, _, answer)
            sent[#sent + 1] = kind .. (answer and " " .. answer or "")
        end, {
            guard = function() return "yes" end,
            changes = function() return triggers end,
            fire = function() fired = fired + 1 end,
        })
        for id = 1, 3 do keeper:ask("m" .. id, id, id, {"s1"}, {}, true) end
        triggers = true
        keeper:recall()
        keeper:commit("m1", 1) -- it begins only now
        keeper:abort("m2", 2)  -- it was over
        t.eq(sent, {"vote shared", "vote shared", "vote shared", "recall", "recall", "recall"})
        t.eq({fired, keeper.reading}, {1, 1})
    end,

    who_was_parked_goes_before_younger_ones = function()
        local lit, votes = true, {}
        local keeper = transaction.participant("s1", function(to, kind, _, answer)
            if kind == "vote" then votes[#votes + 1] = to .. " " .. answer end
        end, {
            guard = function(request) return (request.off or not lit) and "yes" or "no" end,
            changes = function() return true end,
            fire = function(request) lit = not request.off end,
        })
        keeper:ask("m1", 1, 1, {"s1"}, {}, true)
        keeper:ask("m2", 1, 1, {"s1"}, {off = true}, true)
        keeper:ask("m3", 1, 1, {"s1"}, {}, true)
        t.eq(votes, {"m1 parked", "m2 yes"})
        keeper:commit("m2", 1)
        t.eq(votes, {"m1 parked", "m2 yes", "m1 yes"})
        keeper:abort("m1", 1)
        t.eq(votes[4], "m3 yes")
    end,

    -- One waits for its vote for long, and the floor with it. What is over counts as read until the
    -- synchronizer hears of it.
    readers_that_are_over_are_told_before_there_are_many = function()
        local told = 0
        local asker = transaction.coordinator(function(_, kind)
            told = told + (kind == "commit" and 1 or 0)
        end, function() end)
        for i = 1, 200 do
            local tx = asker:begin({"a"}, {fname = "f"})
            if i > 1 then
                asker:vote("a", tx.id, "shared")
                asker:commit(tx)
            end
        end
        t.ok(told >= 100 and told < 199)
    end,

    a_member_tells_from_where_on_a_synchronizer_may_ask = function()
        local floors = {}
        local asker = transaction.coordinator(function(to, kind, _, floor)
            if kind == "ask" and to == "a" then floors[#floors + 1] = floor end
        end, function() end)
        local tx = asker:begin({"a", "b"}, {fname = "f"})
        asker:vote("a", tx.id, "yes")
        asker:vote("b", tx.id, "yes")
        asker:commit(tx)
        asker:begin({"a"}, {fname = "f"})
        asker:ack("a", tx.id)
        asker:begin({"a"}, {fname = "f"})
        asker:ack("b", tx.id)
        asker:begin({"a"}, {fname = "f"})
        t.eq(floors, {1, 1, 1, 2})
    end,

    what_is_committed_is_kept_up_to_there = function()
        local outcomes = {}
        local keeper = transaction.participant("s1", function(to, kind, _, _, outcome)
            if to == "s2" then outcomes[#outcomes + 1] = kind .. " " .. outcome end
        end, {
            guard = function() return "yes" end,
            changes = function() return true end,
            fire = function() end,
            knows = function() return true end,
        })
        keeper:ask("m1", 1, 1, {"s1", "s2"}, {}, true)
        keeper:commit("m1", 1)
        for id = 2, 3 do
            keeper:ask("m1", id, id - 1, {"s1"}, {}, true)
            keeper:abort("m1", id)
            keeper:query("s2", "m1", 1)
        end
        t.eq(outcomes, {"state committed", "state aborted"})
    end,

    -- m1 has ended, and s2 thinks that s1 has: s3 answers it when it has heard of both.
    an_arbiter_is_answered_by_who_has_heard_the_same = function()
        local sent, lives = {}, true
        local keeper = transaction.participant("s3", function(to, kind)
            sent[#sent + 1] = kind .. " " .. to
        end, {
            guard = function() return "yes" end,
            changes = function() return true end,
            ended = function() return false end,
            knows = function(key) return lives or key ~= "s1" end,
        })
        keeper:ask("m1", 1, 1, {"s1", "s2", "s3"}, {}, true)
        keeper:query("s2", "m1", 1)
        keeper:ended("m1")
        t.eq(sent, {"vote m1", "orphan s1"})
        lives = false
        keeper:ended("s1")
        t.eq(sent, {"vote m1", "orphan s1", "orphan s2", "state s2"})
    end,

    all_that_were_refused_are_told_of_a_change = function()
        local told = {}
        local keeper = transaction.participant("s1", function(to, kind)
            if kind == "changed" then told[#told + 1] = to end
        end, {
            guard = function(request) return request.off and "yes" or "no" end,
            changes = function() return true end,
            fire = function() end,
        })
        for id = 1, 2 do -- once each, however often they were refused
            for member = 1, 3 do keeper:ask("m" .. member, id, 1, {"s1"}, {}, false) end
        end
        keeper:ask("m4", 1, 1, {"s1"}, {off = true}, false)
        keeper:commit("m4", 1)
        t.eq(told, {"m1", "m2", "m3"})
    end,

    -- The last one to answer is the only one that has committed.
    an_arbiter_waits_for_all_answers = function()
        local fired, sent = 0, {}
        local keeper = transaction.participant("s1", function(to, kind)
            sent[#sent + 1] = kind .. " " .. to
        end, {
            guard = function() return "yes" end,
            changes = function() return true end,
            fire = function() fired = fired + 1 end,
            ended = function() return false end,
            knows = function() return true end,
        })
        keeper:ask("m1", 1, 1, {"s1", "s2", "s3"}, {}, true)
        keeper:ended("m1")
        t.eq(sent, {"vote m1", "query s2", "query s3"})
        keeper:state("s2", "m1", 1, "prepared")
        t.ok(keeper.lock)
        keeper:state("s3", "m1", 1, "committed")
        t.eq({fired, keeper.lock, sent[4], sent[5]}, {1, nil, "decide s2", "decide s3"})
    end,

    -- It was parked before; and the news, that another has committed, comes before the end.
    an_arbiter_acts_on_news_of_one_that_lives = function()
        for _, lives in ipairs {true, false} do
            local allowed, fired, sent = false, 0, {}
            local keeper = transaction.participant("s1", function(to, kind, _, _, outcome)
                sent[#sent + 1] = kind .. " " .. to .. (outcome and " " .. outcome or "")
            end, {
                guard = function() return allowed and "yes" or "no" end,
                changes = function() return true end,
                fire = function() fired = fired + 1 end,
                ended = function() return false end,
                knows = function(key) return lives or key ~= "s2" end,
            })
            keeper:ask("m1", 1, 1, {"s1", "s2"}, {}, true)
            allowed = true
            keeper:ask("m2", 1, 1, {"s1"}, {}, false)
            keeper:commit("m2", 1)
            keeper:state("s2", "m1", 1, "committed")
            t.eq(fired, 1)
            sent = {}
            if not lives then keeper:ended("s2") end
            keeper:ended("m1")
            t.eq(fired, lives and 2 or 1)
            t.eq(sent, lives and {"query s2", "decide s2 committed", "state s2 committed"} or {})
            t.ok(not keeper.lock)
        end
    end,
}
