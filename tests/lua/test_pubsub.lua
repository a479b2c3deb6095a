-- SPDX-License-Identifier: MIT
-- mare.pubsub: which topics match, the order, slow subscribers, and those that die.
local mare, t, pubsub = require "mare", require "t", require "mare.pubsub"
local countdown = require "countdown"

-- The topics that arrive at a subscription, of those given.
local function matching(pattern, topics)
    local broker, got = pubsub.create(), {}
    local sub = broker:subscribe(pattern)
    for _, topic in ipairs(topics) do broker:publish(topic) end
    broker:publish(pattern:gsub("[+#]", "x"), "end")
    while true do
        local topic, last = sub:receive(t.patience)
        if last then return got end
        got[#got + 1] = topic
    end
end

return {
    wildcards = function()
        local topics = {"a", "a/b", "a/b/c", "a/c", "b", "", "a/", "/a"}
        t.eq(matching("a", topics), {"a"})
        t.eq(matching("a/b", topics), {"a/b"})
        t.eq(matching("a/+", topics), {"a/b", "a/c", "a/"})
        t.eq(matching("+/b", topics), {"a/b"})
        t.eq(matching("+", topics), {"a", "b", ""})
        t.eq(matching("a/#", topics), {"a", "a/b", "a/b/c", "a/c", "a/"})
        t.eq(matching("a/+/c", topics), {"a/b/c"})
        t.eq(matching("#", topics), topics)
    end,

    values_and_order = function()
        local broker = pubsub.create()
        local sub = broker:subscribe("t", {size = 200})
        t.ok(broker:publish("t", 1, nil, {2}, nil))
        t.eq(table.pack(sub:receive(t.patience)), {"t", 1, nil, {2}, nil, n = 5})
        for i = 1, 100 do broker:publish("t", i) end
        for i = 1, 100 do t.eq({sub:receive(t.patience)}, {"t", i}) end
        t.fails("timeout", sub:receive(0.001))
    end,

    each_subscriber_gets_all_in_order = function()
        local broker, ready, list = pubsub.create(), mare.channel(), {}
        for i = 1, 5 do
            list[i] = mare.spawn(function()
                local sub = broker:subscribe("n", {size = 1000})
                ready:send()
                for k = 1, 200 do
                    local _, n = sub:receive()
                    assert(n == k, n)
                end
                return sub:lost()
            end)
            ready:receive(t.patience)
        end
        for k = 1, 200 do broker:publish("n", k) end
        for i = 1, 5 do t.eq({list[i]:join(t.patience)}, {true, 0}) end
    end,

    a_function_is_called_in_order = function()
        local broker, got = pubsub.create(), {}
        broker:subscribe("n", function(_, n)
            mare.yield()
            got[#got + 1] = n
        end)
        for i = 1, 20 do broker:publish("n", i) end
        t.reaches(function() return #got == 20 end)
        for i = 1, 20 do t.eq(got[i], i) end
    end,

    a_function_that_closes_is_not_called_again = function()
        local broker, count, sub = pubsub.create(), 0, nil
        sub = broker:subscribe("n", function()
            count = count + 1
            sub:close()
        end)
        local others = broker:subscribe("n")
        for i = 1, 5 do broker:publish("n", i) end
        for _ = 1, 5 do t.ok(others:receive(t.patience)) end
        t.reaches(function() return count > 0 end)
        t.settle()
        t.eq(count, 1)
    end,

    a_function_that_fails_is_called_again = function()
        local broker, got = pubsub.create(), {}
        broker:subscribe("n", function(_, n)
            got[#got + 1] = n
            if n == 1 then error "on purpose: the first" end
        end)
        for i = 1, 3 do broker:publish("n", i) end
        t.reaches(function() return #got == 3 end)
        t.eq(got, {1, 2, 3})
    end,

    who_is_slow_loses_by_its_policy = function()
        local broker = pubsub.create()
        local oldest = broker:subscribe("n", {size = 3})
        local newest = broker:subscribe("n", {size = 3, policy = "newest"})
        local closes = broker:subscribe("n", {size = 3, policy = "close"})
        local quick = broker:subscribe("n", {size = 10})
        for i = 1, 5 do broker:publish("n", i) end
        for i = 1, 5 do t.eq({quick:receive(t.patience)}, {"n", i}) end
        for i = 3, 5 do t.eq({oldest:receive(t.patience)}, {"n", i}) end
        t.eq(oldest:lost(), 2)
        for i = 1, 3 do t.eq({newest:receive(t.patience)}, {"n", i}) end
        broker:publish("n", 6)
        t.eq({newest:receive(t.patience)}, {"n", 6})
        t.eq(newest:lost(), 2)
        for i = 1, 3 do t.eq({closes:receive(t.patience)}, {"n", i}) end
        t.fails("closed", closes:receive(t.patience))
    end,

    what_has_one_owner_is_refused = function()
        local broker, text = pubsub.create(), mare.buffer "mine"
        local first, second = broker:subscribe "n", broker:subscribe "n"
        t.raises("bad argument #2 to 'publish' %(a buffer has one owner", broker.publish, broker,
            "n", text)
        t.eq(#text, 4) -- it has not left
        broker:publish("n", function() return #text end) -- and hidden, it reaches one
        broker:publish("n", 1)
        t.eq(select(2, first:receive(t.patience))(), 4)
        t.eq({first:receive(t.patience)}, {"n", 1})
        t.eq({second:receive(t.patience)}, {"n", 1})
    end,

    a_subscription_can_be_closed = function()
        local broker = pubsub.create()
        local sub, other = broker:subscribe "a/b", broker:subscribe "a/b"
        broker:publish("a/b", 1)
        t.ok(sub:close())
        broker:publish("a/b", 2)
        t.eq({sub:receive(t.patience)}, {"a/b", 1}, "what had arrived")
        t.fails("closed", sub:receive(t.patience))
        t.eq({other:receive(t.patience)}, {"a/b", 1})
        t.eq({other:receive(t.patience)}, {"a/b", 2})
        do
            local _ <close> = other
        end
        t.fails("closed", other:receive(t.patience))
    end,

    a_subscriber_is_killed_at_every_line = function()
        local broker = pubsub.create()
        local sub = broker:subscribe("n", {size = 10})
        local killed = countdown.each(countdown.step(3), function(n)
            local p = mare.spawn(countdown.body, n, function()
                local mine = broker:subscribe("n", {size = 1})
                broker:publish("n", mare.self():id())
                return (mine:receive())
            end)
            p:join(t.patience)
            while select(2, sub:receive(0)) == p:id() do end
            broker:publish("n", "next")
            repeat
                local topic, value = sub:receive(t.patience)
                t.eq(topic, "n", "the others go on")
            until value == "next"
            return p
        end)
        t.ok(killed > 5, killed)
    end,

    the_subscriptions_of_the_dead_are_closed = function()
        local broker, told = pubsub.create(), mare.channel(1)
        local p = mare.spawn(function() told:send(broker:subscribe("a/b").channel) end)
        local channel = told:receive(t.patience)
        p:join(t.patience)
        t.reaches(function() return channel:closed() end)
    end,

    the_broker_dies = function()
        local ready = mare.channel()
        local creator = mare.spawn(function()
            ready:send(require "mare.pubsub".create())
            mare.channel():receive()
        end)
        local broker = ready:receive(t.patience)
        local sub = broker:subscribe "x"
        broker:publish("x", 1)
        t.eq({sub:receive(t.patience)}, {"x", 1})
        local r = mare.go(sub.receive, sub)
        t.settle()
        creator:kill()
        t.eq({select(4, r:join(t.patience))}, {"noproc"})
        t.fails("noproc", broker:publish("x", 2))
        t.fails("noproc", broker:subscribe "x")
    end,

    misuse_names_the_argument = function()
        local broker = pubsub.create()
        t.raises("bad argument #1 to 'publish' %(string", broker.publish, broker)
        t.raises("a topic has no wildcards", broker.publish, broker, "a/#")
        t.raises("bad argument #1 to 'subscribe' %(string", broker.subscribe, broker)
        t.raises("nothing can follow a '#'", broker.subscribe, broker, "#/a")
        for _, pattern in ipairs {"tide#", "a/+b", "a+", "++", "+/b#"} do
            t.raises("a wildcard is a word of its own", broker.subscribe, broker, pattern)
        end
        t.raises("option 'size'", broker.subscribe, broker, "a", {size = 0})
        t.raises("option 'policy'", broker.subscribe, broker, "a", {policy = "pray"})
        t.raises("unknown option 'siez'", broker.subscribe, broker, "a", {siez = 1})
    end,
}
