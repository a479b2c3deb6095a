-- SPDX-License-Identifier: MIT
-- A loop of one's own, with an observer: a game draws one frame after the other, and looks between
-- two frames for what the players did. Nobody else runs its code, and no frame waits for a player.
local mare, observer = require "mare", require "mare.observer"

local o <close> = observer.new()

-- Three sources, known by the names that the loop uses: keys, a clock, and a file of high scores on
-- a disk so slow that reading it gets a thread of its own.
local keys = mare.channel(8)
local second <close> = mare.timer(0.05)
o:register_source(keys, "keys")
o:register_source(second, "second")
o:register_source({wait = function() return 4200 end}, "scores")

mare.go(function()
    for _, key in ipairs {"left", "left", "jump"} do keys:send(key) end
    keys:close()
end)

local game = {x = 10, frames = 0}
local on = {}
function on.keys(ok, key)
    if not ok then
        game.left = true
        return print "the player has gone"
    end
    if key == "left" then game.x = game.x - 1 end
    print("key " .. key .. ": x = " .. game.x)
end
function on.second() game.over = true end
function on.scores(ok, best)
    if not ok then return end
    game.best = best
    o:remove_source "scores" -- one line is enough
end

repeat
    for _, id in ipairs(o:wait_for_events(0.01)) do -- until the next frame is due
        on[id](o:take(id))
    end
    game.frames = game.frames + 1
until game.over and game.left and game.best

print("the best score is " .. game.best)
assert(game.frames >= 3) -- an event of each source at the most between two frames
