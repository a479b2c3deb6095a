-- SPDX-License-Identifier: MIT
-- What becomes of children when what looks after them goes: none stays, no zombie, no descriptor.
local mare, child, t = require "mare", require "mare.child", require "t"

-- The state of an operating-system process and its parent; nil if it does not exist.
local function state(pid)
    local file <close> = io.open("/proc/" .. pid .. "/stat")
    if not file then return nil end
    local text = file:read "a" or ""
    return text:match "%) (%a) (%d+)"
end

local me = io.open("/proc/self/stat"):read "n"

-- Whether a child, or what a child started, is gone: a zombie of ours would not be.
local function gone(pid)
    local is, parent = state(pid)
    return not is or (is == "Z" and tonumber(parent) ~= me)
end

local function reaches_end(pid) t.reaches(function() return gone(pid) end, "it is gone") end

-- A shell that ignores requests to end, once it has said so.
local STUBBORN = "trap '' TERM; echo ready; while :; do sleep 0.05; done"

local function stubborn(more)
    local options = {"sh", "-c", STUBBORN, stdout = "pipe", grace = 0.1}
    for key, value in pairs(more or {}) do options[key] = value end
    local c = assert(child.spawn(options))
    t.eq(c.stdout:read("l", t.patience), "ready")
    return c
end

-- Each waits for ever with a child, of which it has told the number.
local waits = {
    wait = function(c) c:wait() end,
    read = function(c) c.stdout:read() end,
    write = function(c) c.stdin:write(("x"):rep(1 << 20)) end,
    select = function(c) require "mare".select {c, c.stdout} end,
    nothing = function() require "mare".channel():receive() end,
    run = function() require "mare.child".run {"sleep", "1000"} end,
}

return {
    who_is_killed_takes_its_children_along = function()
        local before = t.ways_to_children()
        for name, wait in pairs(waits) do
            local ch = mare.channel()
            local owner = mare.spawn(function(tell, f)
                local c = require "mare.child".spawn {"sleep", "1000", stdin = "pipe",
                    stdout = "pipe"}
                tell:send(c:pid())
                f(c)
            end, ch, wait)
            local pid = ch:receive(t.patience)
            t.reaches(function() return owner:status() == "blocked" end)
            t.eq(gone(pid), false, name)
            owner:kill()
            reaches_end(pid)
        end
        t.reaches(function() return t.ways_to_children() <= before end, "descriptors")
    end,

    a_process_that_ends_or_fails_ends_its_children = function()
        for _, text in ipairs {"return c:pid()", "error(c:pid(), 0)",
            "local _ <close> = c; return c:pid()"} do
            local owner = mare.spawn(load([[
                local c = require "mare.child".spawn {"sleep", "1000"}
            ]] .. text))
            local _, pid = owner:join(t.patience)
            reaches_end(pid)
        end
    end,

    close_asks_and_then_kills = function()
        local c = stubborn()
        t.eq(c:close(), true)
        t.eq({c:wait(t.patience)}, {"signal", 9, "SIGKILL"})
        t.eq(c:close(), false)
        t.fails("closed", c.stdout:read())
        local polite = assert(child.spawn {"sleep", "1000"})
        polite:close()
        polite:close()
        t.eq({polite:wait(t.patience)}, {"signal", 15, "SIGTERM"})
        local quick = stubborn {grace = 0}
        quick:close()
        t.eq({quick:wait(t.patience)}, {"signal", 9, "SIGKILL"})
    end,

    a_stopped_child_is_ended = function()
        local c = assert(child.spawn {"sleep", "1000"})
        c:kill "SIGSTOP"
        t.reaches(function() return state(c:pid()) == "T" end)
        c:close()
        t.eq({c:wait(t.patience)}, {"signal", 15, "SIGTERM"})
    end,

    what_nobody_refers_to_is_ended = function()
        local pid = assert(child.spawn {"sleep", "1000"}):pid()
        t.reaches(function()
            collectgarbage()
            return gone(pid)
        end)
    end,

    what_has_ended_is_reaped_though_nobody_waits = function()
        local c = assert(child.spawn {"true"})
        reaches_end(c:pid())
        t.eq({c:wait()}, {"exit", 0})
    end,

    a_group_ends_together = function()
        local function grandchild(text, group)
            local c = assert(child.spawn {"sh", "-c", text, stdout = "pipe", group = group})
            return c, c.stdout:read("l", t.patience)
        end
        local c, pid = grandchild("sleep 1000 & echo $!; wait", true)
        t.eq(gone(pid), false)
        c:close()
        reaches_end(pid)
        c, pid = grandchild("sleep 1000 & echo $!; wait", true)
        t.eq(c:kill "SIGKILL", true)
        reaches_end(pid)
        -- What the leader leaves behind does not stay.
        c, pid = grandchild("sleep 1000 & echo $!", true)
        t.eq({c:wait(t.patience)}, {"exit", 0})
        reaches_end(pid)
        -- Without a group it does.
        c, pid = grandchild("sleep 1000 & echo $!", false)
        t.eq({c:wait(t.patience)}, {"exit", 0})
        t.eq(gone(pid), false)
        t.eq(assert(child.run {"kill", pid}).ok, true)
        reaches_end(pid)
    end,

    what_runs_too_long_goes_with_all_it_started = function()
        local name, pid, time = os.tmpname(), nil, 0.1
        local commands = "sleep 1000 & echo $! >" .. name .. "; wait"
        while not pid and time < t.patience do -- until it has begun in time
            t.fails("timeout", child.run {"sh", "-c", commands, timeout = time})
            local file <close> = assert(io.open(name))
            pid, time = file:read "n", 2 * time
        end
        os.remove(name)
        reaches_end(t.ok(pid))
    end,

    what_is_detached_stays = function()
        local owner = mare.spawn(function()
            local c <close> = require "mare.child".spawn {"sleep", "1000", detached = true}
            return c:pid()
        end)
        local _, pid = owner:join(t.patience)
        local c = assert(child.spawn {"sleep", "1000", detached = true})
        c:close()
        t.eq(c:status(), "running")
        t.eq(gone(pid), false)
        t.eq(assert(child.run {"kill", "-9", pid, c:pid()}).ok, true)
        reaches_end(pid) -- reaped all the same
        t.eq({c:wait(t.patience)}, {"signal", 9, "SIGKILL"})
    end,

    many_in_a_row_leave_nothing = {function()
        local before, pids = t.ways_to_children(), {}
        for i = 1, 1000 do
            local c = assert(child.spawn {"true", stdin = "pipe", stdout = "pipe"})
            pids[i] = c:pid()
            if i % 3 > 0 then t.eq({c:wait(t.patience)}, {"exit", 0}) end
            if i % 3 == 2 then c:close() end
        end
        collectgarbage()
        collectgarbage()
        for _, pid in ipairs(pids) do reaches_end(pid) end
        t.reaches(function() return t.ways_to_children() <= before end, "descriptors")
    end, timeout = 120},

    the_scheduler_tells_of_the_end = function()
        local owner = mare.spawn(function()
            local m, scheduler = require "mare", require "mare.scheduler"
            local told = m.channel(9)
            local c = require "mare.child".spawn {"sh", "-c", "exit 6"}
            scheduler.register_source(c, function(...) told:send(...) end)
            scheduler.loop() -- until there is no source any more
            return told:receive()
        end)
        t.eq({owner:join(t.patience)}, {true, "exit", 6})
    end,

    many_at_once = function()
        local routines = {}
        for i = 1, 40 do
            routines[i] = mare.go(function()
                return assert(child.run {"sh", "-c", "cat; exit " .. i, input = "text " .. i})
            end)
        end
        for i = 1, 40 do
            local _, got = t.ok(routines[i]:join(t.patience))
            t.eq({got.out, got.code}, {"text " .. i, i})
        end
    end,

    from_many_processes = function()
        t.with_workers(4, function()
            local processes = {}
            for i = 1, 20 do
                processes[i] = mare.spawn(function()
                    local run = require "mare.child".run
                    local sum = 0
                    for k = 1, 5 do sum = sum + run {"sh", "-c", "exit " .. k}.code end
                    return sum
                end)
            end
            for i = 1, 20 do t.eq({processes[i]:join(t.patience)}, {true, 15}) end
        end)
    end,
}
