-- SPDX-License-Identifier: MIT
-- A node that comes back under its name is another node: its processes have the numbers of those
-- before, and are not taken for them.
local mare, rpc, t, peers = require "mare", require "mare.rpc", require "t", require "peers"

local function sync(p, fname) return rpc.sync(p, fname, t.patience) end

-- Some processes, one after the other: in two lives of the program many numbers are the same.
local MANY = [[
    for i = 1, 30 do
        mare.spawn({name = "tide" .. i}, function()
            local runs = 0
            function run() runs = runs + 1 return true end
            function count() return runs end
            function rule() -- the lamp at home: at most once
                local synchronizer, lit, lamp = require "mare.synchronizer", false, find "lamp@home"
                assert(synchronizer.add_constraint(lamp, "on", function() return not lit end))
                assert(synchronizer.add_trigger(lamp, "on", function() lit = true end))
                return true
            end
            require "mare.rpc".serve()
        end)
    end
    mare.sleep(1000)
]]

local function lamp(name)
    return t.ok(mare.spawn({name = name}, function()
        function on() return "lit" end -- luacheck: ignore
        function forget(process) -- luacheck: ignore
            return require "mare.synchronizer".forget(process)
        end
        require "mare.rpc".serve()
    end))
end

-- The number of a process where it is at home.
local function number_of(process) return select(2, require "mare._node".home(process)) end

-- The process of the program "flow" that has the number.
local function numbered(id)
    for i = 1, 30 do
        local found = peers.find(("tide%d@flow"):format(i))
        if number_of(found) == id then return found end
    end
    error "no number is the same"
end

-- Calls first(process), kills the program of the process, and calls second(process, other): in
-- another program with the same name this other one has the same number.
local function two_lives(first, second)
    local home <close> = peers.home()
    local process
    do
        local peer <close> = peers.join(home, {name = "flow"}, MANY)
        process = peers.find "tide15@flow"
        first(process)
        peer.signal "KILL"
        t.reaches(function() return not process:alive() end)
    end
    local _ <close> = peers.join(home, {name = "flow"}, MANY)
    second(process, numbered(number_of(process)))
    t.ok(home)
end

return {
    who_has_the_number_of_the_dead_is_not_called_in_its_place = function()
        local run
        two_lives(function(process)
            run = sync(process, "run")
            t.eq(run(), true)
        end, function(process, other)
            t.fails("nonode", run())
            t.fails("nonode", sync(process, "run")())
            t.eq(sync(other, "count")(), 0)
            t.eq(sync(other, "run")(), true)
        end)
    end,

    a_synchronizer_that_comes_back_makes_rules_again = function()
        local it = lamp "lamp"
        local function works(process)
            t.eq(sync(process, "rule")(), true)
            t.eq(sync(it, "on")(), "lit")
            t.fails("timeout", rpc.sync(it, "on", 0.01)())
        end
        two_lives(works, function(process, other)
            t.fails("refused", sync(it, "on")())
            t.eq(sync(it, "forget")(process), true)
            works(other)
        end)
        it:kill()
    end,

    rules_from_before_there_was_a_node = function()
        local orders, done = mare.channel(), mare.channel(1)
        local here = lamp()
        local keeper = mare.spawn(function()
            local synchronizer, lit = require "mare.synchronizer", nil
            for it in orders:messages() do
                assert(synchronizer.add_constraint(it, "on", function() return not lit end))
                assert(synchronizer.add_trigger(it, "on", function() lit = it end))
                done:send(true)
            end
            mare.channel():receive()
        end)
        orders:send(here)
        t.ok(done:receive(t.patience))
        local home <close> = peers.home()
        local _ <close> = peers.join(home, {name = "flow"}, [[
            mare.spawn({name = "far"}, function()
                function on() return "lit" end
                require "mare.rpc".serve()
            end)
            mare.sleep(1000)
        ]])
        local far = peers.find "far@flow"
        orders:send(far)
        t.ok(done:receive(t.patience))
        t.eq(sync(far, "on")(), "lit")
        t.fails("timeout", rpc.sync(here, "on", 0.01)())
        keeper:kill()
        here:kill()
        t.ok(home)
    end,
}
