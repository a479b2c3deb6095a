-- SPDX-License-Identifier: MIT
-- Nodes killed at any moment while they hold locks, take tuples, call and press buttons. What was
-- promised holds for those that are left. For seconds here, for as long as one likes by make chaos.
local mare, tuple = require "mare", require "mare.tuple"
local monitor, synchronizer = require "mare.monitor", require "mare.synchronizer"
local t, peers = require "t", require "peers"

local SECONDS = tonumber(os.getenv "MARE_CHAOS_SECONDS") or 1.5 * t.slow
local PEERS, TOKENS, BUTTONS = 3, 4, 3

-- Each writes two lines under the lock; takes a tuple, says so, and puts the next one back; and
-- presses buttons of which one may be lit.
local PEER = [[
    local rpc, monitor, tuple = require "mare.rpc", require "mare.monitor", require "mare.tuple"
    local lock, space, path, me = find "things@home":receive()
    local took, press, release = rpc.sync("judge@home", "took"), {}, {}
    local function write(file, ...)
        file:write(table.concat({...}, " "), "\n")
        file:flush()
    end
    local under_lock = monitor.doWhenFree(lock, function()
        local file <close> = assert(io.open(path, "a"))
        write(file, "in", monitor.fence(lock), me)
        write(file, "out", monitor.fence(lock), me)
    end)
    print "begins"
    local n = 0
    while true do
        n = n + 1
        under_lock()
        local what, id, turn = space:in_("token", tuple.integer, tuple.integer)
        if not what then error(("%s: %s"):format(turn, id), 0) end
        took(id, turn, me)
        space:out("token", id, turn + 1)
        local button = "button" .. n % BUTTONS .. "@home"
        rpc.sync(button, "on", SOON)() -- if none is lit
        rpc.sync(button, "off", SOON)() -- if it is, by whomever
    end
]]

-- The file: who goes in comes out, or was killed; and numbers grow.
local function check_file(path, killed)
    local inside, last, entries = nil, 0, 0
    for line in io.lines(path) do
        local what, fence, who = line:match "^(%a+) (%d+) (%d+)$"
        fence = tonumber(fence)
        if what == "in" then
            t.ok(not inside or killed[inside], line .. ", and somebody else was inside")
            t.ok(fence > last, line .. ": its number does not grow")
            inside, last, entries = who, fence, entries + 1
        else
            t.ok(what == "out" and who == inside and fence == last, line)
            inside = nil
        end
    end
    return entries
end

-- A button that notes in what order it was pressed: nobody turns on what is on.
local function button(lamp)
    local sc, on = require "mare.sc", false
    function _G.on() on = true lamp:send(1) return true end
    function _G.off() on = false lamp:send(-1) end
    sc.add_constraint("on", function() return not on end)
    sc.add_constraint("off", function() return on end)
    require "mare.rpc".serve()
end

-- At most one of them is lit.
local function one_lit(buttons, ready)
    local lit = 0
    for _, it in ipairs(buttons) do
        synchronizer.add_constraint(it, "on", function() return lit == 0 end)
        synchronizer.add_trigger(it, "on", function() lit = lit + 1 end)
        synchronizer.add_trigger(it, "off", function() lit = lit - 1 end)
    end
    ready:send(true)
end

return {
    what_is_promised_holds_for_those_who_are_left = function()
        t.seed()
        local home <close> = peers.home()
        local lock, space, path = monitor.create(), tuple.create(), os.tmpname()
        local things, taken, ready = mare.channel(0, "things"), mare.channel(100), mare.channel()
        local lamps, buttons = mare.channel(1000), {}
        local judge = mare.spawn({name = "judge"}, function()
            function _G.took(id, turn) taken:send(id, turn) return true end
            require "mare.rpc".serve()
        end)
        for i = 1, BUTTONS do
            buttons[i] = mare.spawn({name = "button" .. i - 1}, button, lamps)
        end
        local rules = mare.spawn(one_lit, buttons, ready)
        ready:receive()
        for id = 1, TOKENS do space:out("token", id, 1) end

        -- Each tuple was taken by one.
        local turns, takes = {}, 0
        local counter = mare.go(function()
            for id, turn in taken:messages() do
                local name = id .. ":" .. turn
                t.eq(turns[name], nil, name .. " was taken twice")
                turns[name], takes = true, takes + 1
            end
        end)
        -- At no time two are lit.
        local lit, pressed = 0, 0
        local watcher = mare.go(function()
            for change in lamps:messages() do
                lit, pressed = lit + change, pressed + 1
                t.ok(lit == 0 or lit == 1, lit .. " are lit")
            end
        end)

        local killed, number, running = {}, 0, {}
        local text = PEER:gsub("%u%u%u%u+", {BUTTONS = BUTTONS, SOON = 0.02 * t.slow})
        local function start(place)
            number = number + 1
            running[place] = peers.join(home, {name = "peer" .. number}, text)
            running[place].number = tostring(number)
            t.ok(things:sendwithin(t.patience, lock, space, path, number))
            t.eq(running[place].line(), "begins")
        end
        for place = 1, PEERS do start(place) end
        local deadline = mare.deadline(SECONDS)
        repeat
            mare.sleep(math.random() * 0.03)
            local place = math.random(PEERS)
            killed[running[place].number] = true
            running[place].signal "KILL"
            getmetatable(running[place]).__close()
            space:out("token", TOKENS + number, 1) -- it may have taken one with it
            start(place)
        until deadline:left() == 0

        -- Those who are left come in again, whatever the others held.
        local before = check_file(path, killed)
        t.reaches(function()
            return check_file(path, killed) > before + PEERS and takes > 0 and pressed > 0
        end, "entries, takes and presses")
        for place = 1, PEERS do
            killed[running[place].number] = true
            getmetatable(running[place]).__close()
        end
        t.ok(monitor.take(lock, t.patience))
        monitor.release(lock)
        taken:close()
        lamps:close()
        t.eq(counter:join(t.patience), true)
        t.eq(watcher:join(t.patience), true)
        print(("# %d programs killed, %d entries, %d takes, %d presses"):format(number,
            check_file(path, killed), takes, pressed))
        os.remove(path)
        for _, it in ipairs(buttons) do it:kill() end
        rules:kill()
        judge:kill()
        things:close()
    end,
}
