-- SPDX-License-Identifier: MIT
-- examples/18_keep_running.lua at work: its programs are killed, it is told to start them anew and
-- to stop, it is killed; and what is left is counted.
local child, signal, t = require "mare.child", require "mare.signal", require "t"

local EXAMPLE = debug.getinfo(1, "S").source:match "^@(.*)tests/lua/"
    .. "examples/18_keep_running.lua"
local BINARY = os.getenv "MARE_BINARY"

-- A program that tells its number and goes on, with something that it has started beside it.
local STEADY = "sleep 1000 & echo here $$ $!; exec sleep 1000"

local function runs(pid)
    local file <close> = io.open("/proc/" .. pid .. "/stat")
    local state = file and (file:read "a" or ""):match "%) (%a)"
    return state ~= nil and state ~= "Z"
end

local function goes(pid) t.reaches(function() return not runs(pid) end, pid .. " goes") end

local function supervise(...)
    return assert(child.spawn {BINARY, EXAMPLE, stdout = "pipe", stderr = "stdout", ...})
end

-- The next line of a program that matches; what it captures.
local function says(supervisor, name, pattern)
    while true do
        local line = t.ok(supervisor.stdout:read("l", t.patience))
        local whose, text = line:match "^(%S+) *| (.*)$"
        if whose == name and text:find(pattern) then return text:match(pattern) end
    end
end

local function here(supervisor, name) return says(supervisor, name, "^here (%d+) (%d+)$") end

return {
    what_is_killed_is_started_again = function()
        local s <close> = supervise("one=" .. STEADY)
        local pid, beside = here(s, "one")
        for _ = 1, 2 do
            t.eq(signal.send(tonumber(pid), "SIGKILL"), true)
            t.eq(says(s, "one", "^ended: (.*)$"), "signal 9 SIGKILL")
            goes(beside) -- what it had started goes along
            local again, other = here(s, "one")
            t.ok(again ~= pid)
            pid, beside = again, other
        end
        s:kill "SIGTERM"
        says(s, "all", "^done$")
        t.eq({s:wait(t.patience)}, {"exit", 0})
        t.eq({runs(pid), runs(beside)}, {false, false})
    end,

    all_are_started_anew_and_stopped_in_order = function()
        local s <close> = supervise("one=" .. STEADY, "two=" .. STEADY)
        local before, pids = {}, {}
        local function meet()
            local found = {}
            while not (found.one and found.two) do
                local line = t.ok(s.stdout:read("l", t.patience))
                local name, pid, beside = line:match "^(%S+) *| here (%d+) (%d+)$"
                if name then
                    found[name] = pid
                    pids[#pids + 1], pids[#pids + 2] = pid, beside
                end
            end
            t.ok(found.one ~= before.one and found.two ~= before.two)
            before = found
        end
        meet()
        for _ = 1, 2 do
            s:kill "SIGHUP"
            meet()
        end
        t.eq(#pids, 12)
        s:kill "SIGINT"
        says(s, "all", "^done$")
        t.eq({s:wait(t.patience)}, {"exit", 0})
        for _, pid in ipairs(pids) do t.eq(runs(pid), false, pid) end
    end,

    what_ends_too_often_is_given_up = function()
        local s <close> = supervise("bad=echo oh; exit 3", "none=no-such-program")
        for _ = 1, 4 do t.eq(says(s, "bad", "^ended: (.*)$"), "exit 3") end
        says(s, "bad", "^given up: it ended 4 times$")
        -- When all have been, it has nothing left to do.
        t.eq({s:wait(t.patience)}, {"exit", 0})
        t.ok(s.stdout:read "a":find "all +| done\n$")
    end,

    who_does_not_want_to_end_is_killed = function()
        local s <close> = supervise("deaf=trap '' TERM; echo here $$ $$; "
            .. "while :; do sleep 0.05; done")
        local pid = here(s, "deaf")
        s:kill "SIGTERM"
        t.eq(says(s, "deaf", "^ended: (.*)$"), "signal 9 SIGKILL")
        t.eq({s:wait(t.patience)}, {"exit", 0})
        goes(pid)
    end,

    two_signals_at_once = function()
        local s <close> = supervise("one=" .. STEADY)
        local pid = here(s, "one")
        s:kill "SIGHUP"
        s:kill "SIGTERM"
        t.eq({s:wait(t.patience)}, {"exit", 0}) -- the one does not hide the other
        goes(pid)
    end,

    when_it_is_killed_itself_its_programs_stay = function()
        -- Nothing can be done any more by then: as docs/reference/child.md says.
        local s <close> = supervise("one=" .. STEADY)
        local pid, beside = here(s, "one")
        s:kill "SIGKILL"
        t.eq({s:wait(t.patience)}, {"signal", 9, "SIGKILL"})
        t.eq({runs(pid), runs(beside)}, {true, true})
        for _, left in ipairs {pid, beside} do
            signal.send(tonumber(left), "SIGKILL")
            goes(left)
        end
    end,

    when_its_owner_lets_go_nothing_is_left = function()
        local pid, beside
        do
            local s <close> = supervise("one=" .. STEADY) -- its output ends with it
            pid, beside = here(s, "one")
        end
        goes(pid)
        goes(beside)
    end,
}
