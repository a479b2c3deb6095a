-- SPDX-License-Identifier: MIT
-- Who a node knows of, and the news that it sends and takes: lua/mare/_keeper_members.lua, with
-- peers that only note what they are told.
local mare, t = require "mare", require "t"
local news = require "mare._keeper_members"

local ITEM = "<s1s1j"
local own = ITEM:pack("home", "1.2.3.4:5", 7)

-- A node that is connected, and takes news or does not.
local function peer(name, takes)
    news.begin {name = "home", address = "1.2.3.4:5", incarnation = 7}
    news.learn(name, "", 1)
    local member, told = news.by_name[name], {}
    member.session, member.service = true, {trysend = function(_, _, _, items)
        told[#told + 1] = items
        return takes
    end}
    return member, told
end

return {
    what_is_no_news_is_left_out = function()
        news.begin {name = "home", address = "1.2.3.4:5", incarnation = 7}
        local good = ITEM:pack("flow", "5.6.7.8:9", 3)
        for _, odd in ipairs {false, 12, {}, "", "\255", good:sub(1, -2)} do news.hear(odd, "x") end
        t.eq(next(news.by_name), nil)
        news.hear(ITEM:pack(("x"):rep(64), "", 1) .. good .. "\5abc", "x")
        news.hear(ITEM:pack("home", "", 99) .. ITEM:pack("flow", "old", 2), "x")
        t.eq(news.by_name, {flow = {address = "5.6.7.8:9", incarnation = 3}})
    end,

    who_listens_anywhere_can_be_dialled_where_it_was_met = function()
        for _, case in ipairs {
            {"1.2.3.4:5", "9.9.9.9", false, "1.2.3.4:5"}, {"/run/ebb", "9.9.9.9", false, ""},
            {"/run/ebb", "a local program", false, "/run/ebb"},
            {"/run/ebb", "/x", true, "/run/ebb"},
            {"127.0.0.1:5", "9.9.9.9:6", true, ""}, {"127.0.0.1:5", "::1", false, "127.0.0.1:5"},
            {"0.0.0.0:5", "9.9.9.9", false, "9.9.9.9:5"},
            {"[::]:5", "fe80::1", false, "[fe80::1]:5"},
            {"0.0.0.0:5", "ebb.example.org:6", true, "ebb.example.org:5"},
            {"[::]:5", "[::1]:6", true, "[::1]:5"}, {"[::]:5", "a local program", false, ""},
            {"0.0.0.0:5", "/run/ebb", true, ""}, {"", "9.9.9.9", false, ""},
        } do t.eq(news.where(case[1], case[2], case[3]), case[4]) end
        news.begin {name = "home", address = "0.0.0.0:5", incarnation = 7}
        t.eq(news.news(), ITEM:pack("home", "", 7))
        news.hear(ITEM:pack("late", "0.0.0.0:5", 3), "x")
        t.eq(news.by_name.late, {incarnation = 3})
    end,

    -- A node on another machine must not make us dial programs that only this machine can reach.
    what_means_this_machine_is_believed_of_this_machine_alone = function()
        local relative = {"/run/ebb", "./ebb", "127.0.0.1:1", "127.9.9.9:1", "localhost:1",
            "LocalHost:1", "db.localhost:1", "[::1]:1", "[::]:1", "[0:0:0:0:0:0:0:1]:1",
            "[::ffff:127.0.0.1]:1", "[0000::1]:1", "0.0.0.0:1", "0:1", "127.1:1", "2130706433:1",
            "0x7f000001:1", "0177.0.0.1:1", ":1", "x", ""}
        for _, address in ipairs(relative) do
            t.eq({news.believed(address, false), news.believed(address, true)}, {"", address})
        end
        for _, address in ipairs {"1.2.3.4:5", "10.127.0.1:1", "example.org:1", "3com.example:1",
            "[fe80::1]:1", "[2001:db8::1]:1", "a:1", "0xide.example:1"} do
            t.eq(news.believed(address, false), address)
        end
        for _, case in ipairs {{"127.0.0.1", false, true}, {"::1", false, true},
            {"::ffff:127.0.0.1", false, true}, {"a local program", false, true},
            {"9.9.9.9", false, false}, {"::2", false, false}, {"127.0.0.1:5", true, true},
            {"/run/ebb", true, true}, {"localhost:5", true, true}, {"[::1]:5", true, true},
            {"9.9.9.9:5", true, false}, {"127.0.0.1.example.org:5", true, false}} do
            t.eq(news.is_near(case[1], case[2]), case[3], case[1])
        end
        news.begin {name = "home", address = "1.2.3.4:5", incarnation = 7}
        local items = ITEM:pack("tide", "/run/tide", 3) .. ITEM:pack("wave", "9.9.9.9:1", 3)
        news.hear(items, "x", false)
        t.eq({news.by_name.tide, news.by_name.wave},
            {{incarnation = 3}, {address = "9.9.9.9:1", incarnation = 3}})
        news.hear(items, "x", true)
        t.eq(news.by_name.tide, {address = "/run/tide", incarnation = 3})
    end,

    who_comes_hears_of_all_and_all_hear_of_it = function()
        local _, told = peer("ebb", true)
        local member, all = peer("flow", true)
        news.greet(member)
        t.eq(#all, 1)
        t.eq(all[1]:sub(1, #own), own)
        t.eq(#all[1], #own + #ITEM:pack("ebb", "", 1) + #ITEM:pack("flow", "", 1))
        news.tell("flow", "flow", "", 1)
        t.eq({told, #all}, {{ITEM:pack("flow", "", 1)}, 1})
    end,

    -- The list of many is made once for all who come within a pause.
    where_there_are_many_it_hears_with_the_next_news = function()
        local member, all = peer("flow", true)
        for i = 1, 101 do news.learn("n" .. i, "", 1) end
        news.greet(member)
        t.eq(all, {})
        news.tell("ebb", "ebb", "", 1)
        t.eq(#all, 1)
        t.eq(all[1]:sub(1, #own), own)
    end,

    -- Its list would be made and packed for nothing each time.
    who_takes_none_is_tried_less_and_less_often = function()
        local result = mare.channel(1)
        local process = mare.spawn(function() -- which would go on trying
            local member, tried = peer("flow", false)
            news.greet(member)
            local pauses = {}
            for i = 1, 6 do
                pauses[i] = member.pause
                member.again = 0 -- as if it had passed
                local before, _, told = #tried, peer("ebb" .. i, true)
                news.tell("flow", "ebb" .. i, "", 1) -- which wait for no pause but their own
                t.reaches(function() return #told == 1 end)
                pauses[i] = #tried == before + 1 and pauses[i]
            end
            result:send(pauses)
        end)
        t.eq(result:receive(t.patience), {0.4, 0.8, 1.6, 3.2, 6.4, 10})
        process:kill()
    end,
}
