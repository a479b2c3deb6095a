-- SPDX-License-Identifier: MIT
-- Keeps programs running. One that ends is started again, after a pause that doubles, but not more
-- than a few times in a while. What they print is printed with their names before it. SIGHUP starts
-- all of them anew, SIGTERM and Ctrl-C end them in order.
--
--     mare 18_keep_running.lua web="python3 -m http.server" clock="while date; do sleep 1; done"
--
-- Without arguments it shows what it does on two programs of its own, and sends itself the signals.
local mare, child, signal = require "mare", require "mare.child", require "mare.signal"

local MOST, PERIOD = 3, 60           -- restarts, in so many seconds
local FIRST, LONGEST = 0.05, 10      -- seconds between two starts
local GRACE = 1                      -- from being asked to end to being killed

local function say(name, ...) print(("%-8s| %s"):format(name, table.concat({...}, " "))) end

-- Each line under the name of its program, until the program has closed its output.
local function pass_on(name, stream)
    while true do
        local line, _, code = stream:read "l"
        if code == "toobig" then line = stream:read() end -- in pieces
        if not line then return end
        say(name, line)
    end
end

-- Ends a program and all that it has started.
local function stop(c)
    c:kill "SIGTERM"
    if not c:wait(GRACE) then c:kill "SIGKILL" end
end

-- Runs a program once, until it ends or the bell rings. Returns whether that rang.
local function run(name, command, bell)
    local c <close>, message = child.spawn {"sh", "-c", command, stdout = "pipe", stderr = "stdout",
        group = true, grace = GRACE}
    if not c then
        say(name, "cannot be started:", message)
        return false
    end
    say(name, "started")
    local reader = mare.go(pass_on, name, c.stdout)
    local rang = mare.select {bell, c} == 1
    if rang then stop(c) end
    reader:join() -- its last words come before its end
    say(name, "ended:", c:wait())
    return rang
end

-- Keeps a program running until all shall stop, or it has ended too often.
local function keep(name, command, bell, all)
    local pause, ends = FIRST, {}
    while not all.stop do
        local begun = mare.now()
        if not run(name, command, bell) then
            ends[#ends + 1] = mare.now()
            if #ends > MOST and ends[#ends] - ends[#ends - MOST] < PERIOD then
                return say(name, "given up: it ended", MOST + 1, "times")
            end
            if mare.now() - begun > PERIOD then pause = FIRST end
            bell:receive(pause) -- the pause, unless there is something else to do
            pause = math.min(2 * pause, LONGEST)
        end
    end
    say(name, "stopped")
end

-- Keeps all of them running until none is left. A signal rings the bell of each.
local function supervise(programs)
    -- SIGPIPE: nobody reads what it says any more. It would end at once, without its programs.
    local watch <close> = signal.watch("SIGTERM", "SIGINT", "SIGHUP", "SIGPIPE")
    local bells, all, left, over = {}, {stop = false}, #programs, mare.channel()
    for i, program in ipairs(programs) do
        bells[i] = mare.channel(1)
        mare.go(function()
            keep(program.name, program.command, bells[i], all)
            over:send(true)
        end)
    end
    while left > 0 do
        local which, name = mare.select {watch, over}
        if which == 1 then
            if name ~= "SIGPIPE" then say("all", name) end
            if name ~= "SIGHUP" then all.stop = true end
            for _, bell in ipairs(bells) do bell:trysend(true) end -- if it does not ring already
        else
            left = left - 1
        end
    end
    say("all", "done")
end

local programs = {}
for _, argument in ipairs(arg) do
    local name, command = argument:match "^([^=]+)=(.*)$"
    if not name then error("expected name=command, got " .. argument, 0) end
    programs[#programs + 1] = {name = name, command = command}
end

if #programs == 0 then
    programs = {
        {name = "steady", command = "echo here I am; exec sleep 1000"},
        {name = "clumsy", command = "echo oh no >&2; exit 3"},
    }
    mare.go(function() -- a person would do this, with `kill`
        mare.sleep(0.3)
        signal.send(signal.pid(), "SIGHUP")
        mare.sleep(0.3)
        signal.send(signal.pid(), "SIGTERM")
    end)
end
supervise(programs)
