-- SPDX-License-Identifier: MIT
-- References whose home is a third node, while there is no memory for a routine:
-- lua/mare/_keeper_introductions.lua.
local mare, t = require "mare", require "t"
local introductions = require "mare._keeper_introductions"

local SECRET = ("s"):rep(16)

-- Calls a function with another mare.go.
local function with_go(go, f, ...)
    local real <const> = mare.go
    mare.go = go
    local ok, message = pcall(f, ...)
    mare.go = real
    return ok, message
end

-- While no routine can begin, it fails.
local function without_routines(...)
    local ok, message = with_go(function() error("not enough memory", 0) end, ...)
    t.eq({ok, message}, {false, "not enough memory"})
end

return {
    a_claim_that_finds_no_memory_leaves_nothing_behind = function()
        local reply = mare.channel(1)
        introductions.come "flow"
        without_routines(introductions.claim, "ebb", reply, "flow", 1, SECRET)
        introductions.go "flow"
        t.eq({select(3, reply:tryreceive())}, {"empty"})
        introductions.come "flow"
        t.eq(introductions.claim("ebb", reply, "flow", 1, SECRET), false) -- it waits now
        introductions.go "flow"
        t.eq({reply:tryreceive()}, {nil, "nothing was introduced", "noname"})
    end,

    -- With names and addresses that it makes up, a node could look for programs in our network.
    who_introduces_nodes_that_are_not_there_is_not_followed_for_long = function()
        local dialled, answered = {}, 0
        local session = {_claimed = function(_, _, object)
            t.eq(object, nil)
            answered = answered + 1
        end}
        local function claim(introducer, home, address, near)
            local function reach(_, at, reply)
                dialled[#dialled + 1] = at or "nowhere"
                reply:trysend(nil, "nobody is there", "nonode")
            end
            introductions.claimed({}, reach, session, near, 1, introducer, home, 1, address, 1,
                SECRET)
        end
        for i = 1, 20 do claim("mole", "nobody" .. i, "a:" .. i) end
        t.eq({#dialled, dialled[16], answered}, {16, "a:16", 20})
        claim("mole+2", "somebody", "b:1") -- the same, by another of its names
        t.eq({#dialled, answered}, {16, 21})
        claim("honest", "one", "c:1")
        t.eq(dialled[17], "c:1")
        for i = 1, 20 do claim("remote", "here" .. i, "/run/database") end -- so nothing is dialled
        t.eq({#dialled, dialled[37]}, {37, "nowhere"})
        claim("honest", "two", "/run/ebb", true)
        t.eq(dialled[38], "/run/ebb")
    end,

    what_nobody_comes_for_is_forgotten_once_there_is_memory = function()
        local object, begun = mare.channel(1), 0
        without_routines(introductions.add, "flow", object, 1, SECRET, "ebb")
        local function begins() begun = begun + 1 end
        for number = 2, 3 do
            t.ok(with_go(begins, introductions.add, "flow", object, number, SECRET, "ebb"))
        end
        t.eq(begun, 1)
    end,
}
