-- SPDX-License-Identifier: MIT
-- Links tie fates; monitors bring news.
local mare, t = require "mare", require "t"

local function parked()
    return mare.spawn(function() mare.channel():receive() end)
end

return {
    -- Links.

    an_error_kills_whoever_is_linked = function()
        local fail = mare.channel()
        local p = mare.spawn(function()
            mare.spawn({link = true, name = "link-fails"}, function()
                fail:receive()
                error "oops"
            end)
            mare.channel():receive()
        end)
        fail:send()
        local ok, message, code = p:join(t.patience)
        t.eq({ok, code}, {nil, "killed"})
        t.ok(message:find "^linked process %d+ %(link%-fails%) died: .*oops$", message)
    end,

    the_other_way_round_too = function()
        local child = mare.channel(1)
        mare.spawn(function()
            child:send((mare.spawn({link = true}, function() mare.channel():receive() end)))
            error "parent"
        end):join(t.patience)
        local ok, message, code = child:receive(t.patience):join(t.patience)
        t.eq({ok, code}, {nil, "killed"})
        t.ok(message:find "linked process", message)
    end,

    a_kill_travels_along_a_chain = function()
        local ready = mare.channel(1)
        local function chain(n, all)
            all[#all + 1] = mare.self()
            if n == 0 then
                ready:send(all)
            else
                mare.spawn({link = true}, chain, n - 1, all)
            end
            mare.channel():receive()
        end
        mare.spawn(chain, 20, {})
        local all = ready:receive(t.patience)
        t.eq(#all, 21)
        all[11]:kill "the middle"
        for _, p in ipairs(all) do
            t.eq(select(3, p:join(t.patience)), "killed")
        end
    end,

    a_normal_end_does_not_matter = function()
        local p = mare.spawn(function()
            local child = mare.spawn({link = true}, function() return 1 end)
            child:join()
            return "alive"
        end)
        t.eq({p:join(t.patience)}, {true, "alive"})
    end,

    links_can_be_made_and_cut_later = function()
        local target = parked()
        local p = mare.spawn(function()
            target:link()
            target:unlink()
            target:kill()
            target:join()
            return "survived"
        end)
        t.eq({p:join(t.patience)}, {true, "survived"})
        local other = parked()
        local q = mare.spawn(function()
            other:link()
            other:kill()
            mare.channel():receive()
        end)
        t.eq(select(3, q:join(t.patience)), "killed")
    end,

    a_link_to_one_that_died_kills_at_once = function()
        local dead = mare.spawn(error, "long ago")
        dead:join(t.patience)
        local p = mare.spawn(function()
            dead:link()
            mare.channel():receive()
        end)
        t.eq(select(3, p:join(t.patience)), "killed")
    end,

    a_link_to_one_that_ended_well_is_harmless = function()
        local done = mare.spawn(function() end)
        done:join(t.patience)
        local p = mare.spawn(function()
            done:link()
            return true
        end)
        t.eq({p:join(t.patience)}, {true, true})
    end,

    a_link_to_oneself_is_harmless = function()
        t.eq({mare.spawn(function()
            mare.self():link()
            return 1
        end):join(t.patience)}, {true, 1})
    end,

    a_killed_link_runs_its_close_handlers = function()
        local said = mare.channel(1)
        mare.spawn(function()
            local function close() said:trysend "closed" end
            local _guard <close> = setmetatable({}, {__close = close})
            mare.spawn({link = true}, error, "child")
            mare.channel():receive()
        end)
        t.eq(said:receive(t.patience), "closed")
    end,

    a_ring_of_links_dies_whole = function()
        local ring, tell, made = {}, {}, mare.channel(10)
        for i = 1, 10 do
            tell[i] = mare.channel(1)
            ring[i] = mare.spawn(function(inbox)
                inbox:receive():link()
                made:send(true)
                mare.channel():receive()
            end, tell[i])
        end
        for i = 1, 10 do tell[i]:send(ring[i % 10 + 1]) end
        for _ = 1, 10 do made:receive(t.patience) end
        ring[1]:kill()
        for _, p in ipairs(ring) do t.eq(select(3, p:join(t.patience)), "killed") end
    end,

    -- Monitors.

    a_monitor_tells_how_it_ended = function()
        local _, a = mare.spawn({monitor = true}, function() return 1 end)
        t.eq({select(2, a:receive(t.patience))}, {"normal"})
        local _, b = mare.spawn({monitor = true}, "error('oops', 0)")
        local _, how, err, traceback = b:receive(t.patience)
        t.eq({how, err}, {"died", "oops"})
        t.ok(traceback:find "stack traceback", traceback)
        local p, c = mare.spawn({monitor = true}, function() mare.channel():receive() end)
        p:kill "because"
        t.eq({select(2, c:receive(t.patience))}, {"killed", "because"})
    end,

    an_error_of_any_type_comes_with_it = function()
        local _, m = mare.spawn({monitor = true}, error, {code = 1, list = {{}}})
        local _, how, err = m:receive(t.patience)
        t.eq({how, err}, {"died", {code = 1, list = {{}}}})
    end,

    an_error_that_holds_references_comes_with_it = function()
        local ch = mare.channel(0)
        local p, m = mare.spawn({monitor = true}, function() error {who = mare.self(), ch = ch} end)
        local who, how, err, traceback = m:receive(t.patience)
        t.eq({how, type(err), type(traceback)}, {"died", "table", "string"})
        t.ok(who == p and err.who == p and err.ch == ch)
    end,

    a_monitor_on_one_that_has_ended_tells_at_once = function()
        local p = mare.spawn(error, "gone")
        p:join(t.patience)
        local who, how, err = p:monitor():receive(t.patience)
        t.ok(who == p)
        t.eq({how, err}, {"died", "gone"})
    end,

    one_channel_hears_of_many = function()
        local ends = mare.channel(10)
        local expected = {}
        for _ = 1, 10 do
            local p = mare.spawn(function() end)
            t.ok(p:monitor(ends) == ends)
            expected[p:id()] = true
        end
        for _ = 1, 10 do
            local p, how = ends:receive(t.patience)
            t.eq(how, "normal")
            t.ok(expected[p:id()])
            expected[p:id()] = nil
        end
        t.eq(next(expected), nil)
    end,

    a_full_channel_holds_back_no_death = function()
        local news = mare.channel(1)
        news:send "in the way"
        local list = {}
        for i = 1, 5 do
            list[i] = mare.spawn({monitor = news}, function() end)
        end
        for _, p in ipairs(list) do t.ok(p:join(t.patience)) end
        t.eq(news:receive(), "in the way")
        for _ = 1, 5 do t.eq(select(2, news:receive(t.patience)), "normal") end
    end,

    a_rendezvous_as_monitor_waits_for_its_receiver = function()
        local news = mare.channel()
        local p = mare.spawn({monitor = news}, function() end)
        t.ok(p:join(t.patience))
        t.ok(news:receive(t.patience) == p)
    end,

    a_closed_channel_as_monitor_is_no_harm = function()
        local news = mare.channel(1)
        news:close()
        local p = mare.spawn({monitor = news}, function() return 1 end)
        t.eq({p:join(t.patience)}, {true, 1})
    end,

    one_process_is_monitored_by_many = function()
        local p = parked()
        local channels = {}
        for i = 1, 20 do channels[i] = p:monitor() end
        p:kill()
        for _, ch in ipairs(channels) do
            t.eq(select(2, ch:receive(t.patience)), "killed")
        end
    end,

    a_monitor_wants_a_channel = function()
        local p = parked()
        t.raises("#1 to 'monitor'.*channel expected", function() p:monitor(42) end)
        p:kill()
    end,

    select_hears_a_monitor = function()
        local p, news = mare.spawn({monitor = true}, error, "bad")
        local index, who, how = mare.select({mare.channel(), news}, t.patience)
        t.eq({index, how}, {2, "died"})
        t.ok(who == p)
    end,

    a_supervisor_restarts_what_dies = function()
        local tries = mare.channel(10)
        local supervisor = mare.spawn(function()
            for i = 1, 5 do
                local _, news = mare.spawn({monitor = true}, function(n)
                    tries:send(n)
                    if n < 4 then error "again" end
                end, i)
                local _, how = news:receive()
                if how == "normal" then return i end
            end
        end)
        t.eq({supervisor:join(t.patience)}, {true, 4})
        t.eq(#tries, 4)
    end,
}
