-- SPDX-License-Identifier: MIT
-- An outbox (_group_outbox.lua): what one member of a group says to another keeps its order,
-- whether it goes at once or waits; what cannot be sent is lost, and later messages go on.
local mare = require "mare"
local outbox, t, peers = require "mare._group_outbox", require "t", require "peers"

-- A peer that reads its inbox once it has been told where to pass on what it hears.
local INBOX = [[
    local inbox, go = mare.channel(1, "inbox"), mare.channel(1, "go")
    local to = go:receive()
    for _, _, kind, number in inbox:messages() do to:send(kind, number) end
]]

return {
    messages_keep_their_order_if_they_wait_or_not = function()
        outbox.patience = t.patience -- none is lost
        local home <close> = peers.home()
        local _ <close> = peers.join(home, {name = "ebb"}, INBOX)
        local heard, go = mare.channel(1000), peers.find "go@ebb"
        local box = outbox.new("inbox@ebb", "flow", "digest")
        for i = 1, 200 do box:send("early", i) end -- nobody reads: some go, the rest waits
        t.ok(box.waiting > 0, box.waiting)
        t.ok(box:busy())
        t.ok(go:send(heard))
        local sent = 200
        for i = 1, 400 do -- while some wait, and there is room again, none overtakes
            t.eq({heard:receive(t.patience)}, {"early", i})
            if sent < 400 then
                sent = sent + 1
                box:send("early", sent)
            end
        end
        t.reaches(function() return box.waiting == 0 end)
        t.eq(box:busy(), false)
        for i = 1, 10 do box:send("late", i) end
        t.eq(box.waiting, 0) -- these went at once
        for i = 1, 10 do t.eq({heard:receive(t.patience)}, {"late", i}) end
        box:close()
    end,

    what_waits_is_sent_although_the_outbox_is_closed = function()
        outbox.patience = t.patience
        local home <close> = peers.home()
        local _ <close> = peers.join(home, {name = "ebb"}, INBOX)
        local heard, go = mare.channel(10), peers.find "go@ebb"
        local box = outbox.new("inbox@ebb", "flow", "digest")
        for i = 1, 3 do box:send("last", i) end
        t.eq(box.waiting, 3) -- the other member has not even been looked for
        box:close()
        box:send("after", 4) -- nobody hears it, and nobody fails
        t.ok(go:send(heard))
        for i = 1, 3 do t.eq({heard:receive(t.patience)}, {"last", i}) end
    end,

    a_member_that_returns_is_found_again = function()
        local home <close> = peers.home()
        local box = outbox.new("inbox@ebb", "flow", "digest")
        for i = 1, 2 do
            local _ <close> = peers.join(home, {name = "ebb"}, INBOX)
            local heard = mare.channel(100)
            t.ok(peers.find "go@ebb":send(heard))
            t.reaches(function() -- those that are sent while it is away are lost
                box:send("life", i)
                return heard:tryreceive() == "life"
            end)
        end
        box:close()
    end,
}
