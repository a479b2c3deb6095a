-- SPDX-License-Identifier: MIT
-- The first instructions of a process, and its last: what it starts with is loaded where it can be
-- preempted and killed, and a kill ends it wherever it is.
local mare, t, shell = require "mare", require "t", require "shell"

-- Runs a program in a folder with a module `slow`, whose text is the other.
local function with_module(module, program)
    return t.in_folder(function(folder)
        t.needs_preemption()
        local file = assert(io.open(folder .. "/slow.lua", "w"))
        file:write(module)
        file:close()
        local name = folder .. "/program.lua"
        file = assert(io.open(name, "w"))
        file:write('local mare = require "mare"\n',
            'local meta = {__travel = function() return "slow", 1 end}\n',
            'local function new() return setmetatable({}, meta) end\n',
            'local slow = new()\n', program)
        file:close()
        local result = shell.run(("cd %s && %s program.lua"):format(folder, shell.mare))
        t.eq({result.out, result.err, result.code}, {"fine\n", "", 0})
    end)
end

-- What a process does that is killed; each but the last loops where it cannot yield.
local stubborn = {
    pcall = function()
        while true do pcall(function() while true do end end) end
    end,
    xpcall = function()
        while true do
            xpcall(function() while true do end end, function() return "something else" end)
        end
    end,
    resume = function()
        while true do
            coroutine.resume(coroutine.create(function() while true do end end))
        end
    end,
    wrap = function()
        while true do pcall(coroutine.wrap(function() while true do end end)) end
    end,
    closing = function()
        while true do
            pcall(function()
                local _ <close> = setmetatable({}, {__close = function() end})
                while true do end
            end)
        end
    end,
}

-- Kills one that runs f in a callback of table.sort, when it has begun.
local function killed_in_a_callback(f)
    t.needs_preemption()
    local begun = mare.channel(1)
    local p = mare.spawn(function()
        table.sort({3, 2, 1}, function()
            begun:trysend(true)
            f()
        end)
    end)
    t.ok(begun:receive(t.patience))
    t.ok(p:kill())
    t.fails("killed", p:join(t.patience))
end

return {
    -- One worker: somebody else runs only if the module is preempted.
    a_module_is_preempted_while_a_process_starts = with_module(
        'local go = require "mare".find "go"\n' ..
        'while not go:tryreceive() do end\n' ..
        'return {arrive = type}', [[
        mare.workers(1)
        local go = mare.channel(1, "go")
        local p = mare.spawn(function(x) return x end, slow)
        mare.yield()
        go:send(true)
        print(select(2, p:join(60)) == "number" and "fine")
    ]]),

    a_module_may_wait_while_a_process_starts = with_module(
        'local function next() return require "mare".find "go":receive(60) end\n' ..
        'next()\n' ..
        'return {arrive = next}', [[
        local go = mare.channel(0, "go")
        local function count(x, ...) return x, select("#", ...) end
        local p = mare.spawn(count, {slow, new()}, nil, new(), nil)
        for i = 1, 4 do go:send(i) end
        local ok, list, more = p:join(60)
        print(ok and list[1] == 2 and list[2] == 3 and more == 3 and "fine")
    ]]),

    one_whose_module_does_not_end_is_killed = with_module(
        'require "mare".find "begun":trysend(true) while true do end', [[
        local begun = mare.channel(1, "begun")
        local p = mare.spawn(function() end, slow)
        begun:receive(60)
        assert(p:kill())
        print(select(3, p:join(60)) == "killed" and "fine")
    ]]),

    an_error_of_a_module_is_the_processes_own = with_module('error "not ready"', [[
        local ok, message, code, traceback = mare.spawn(function() end, slow):join(60)
        print(not ok and message:find "not ready" and code == "died"
            and traceback:find "slow.lua:1" and "fine")
    ]]),

    arrive_runs_before_the_function = with_module([[
        local m = {}
        function m.arrive(v) m.came = (m.came or 0) + v return m end
        return m]], [[
        local p = mare.spawn(function(a, b) return a == b and a.came end, slow, new())
        local ok, came = p:join(60)
        print(ok and came == 2 and "fine")
    ]]),

    a_kill_wins_over_pcall = function() killed_in_a_callback(stubborn.pcall) end,
    a_kill_wins_over_xpcall = function() killed_in_a_callback(stubborn.xpcall) end,
    a_kill_wins_over_resume = function() killed_in_a_callback(stubborn.resume) end,
    a_kill_wins_over_wrap = function() killed_in_a_callback(stubborn.wrap) end,
    a_kill_wins_over_handlers_on_its_way = function() killed_in_a_callback(stubborn.closing) end,

    a_kill_wins_over_a_handler_that_does_not_end = {function()
        t.needs_preemption()
        local begun = mare.channel(1)
        local p = mare.spawn(function(endless)
            local _ <close> = setmetatable({}, {__close = function() endless() end})
            begun:send(true)
            while true do end
        end, stubborn.pcall)
        t.ok(begun:receive(t.patience))
        p:kill()
        t.fails("killed", p:join(t.patience))
    end, timeout = 120},

    handlers_on_the_way_of_a_kill_run_to_their_end = function()
        t.needs_preemption()
        local begun, said = mare.channel(1), mare.channel(10)
        local p = mare.spawn(function()
            table.sort({3, 2, 1}, function()
                local _ <close> = setmetatable({}, {__close = function()
                    local ok, message = pcall(error, "its own", 0) -- which is none of the kill's
                    said:trysend(ok, message)
                end})
                begun:trysend(true)
                while true do pcall(function() while true do end end) end
            end)
        end)
        t.ok(begun:receive(t.patience))
        p:kill()
        t.fails("killed", p:join(t.patience))
        t.eq({said:tryreceive()}, {false, "its own"})
    end,

    pcall_and_xpcall_are_as_ever = function()
        local function all(...) return select("#", ...), ... end
        t.eq({pcall(all, 1, nil, 3)}, {true, 3, 1, nil, 3})
        t.eq({pcall(error, {code = 5})}, {false, {code = 5}})
        t.eq({pcall(error)}, {false, nil})
        t.eq({xpcall(function(...) return ... end, print, 1, 2)}, {true, 1, 2})
        t.eq({xpcall(error, function(m) return "handled " .. m end, "x", 0)}, {false, "handled x"})
        t.raises("value expected", pcall)
        t.raises("bad argument #2 to 'xpcall'", xpcall, print)
        local ch = mare.channel()
        mare.go(function() ch:send("waited") end)
        t.eq({pcall(ch.receive, ch)}, {true, "waited"})
        mare.go(function() ch:send("waited") end)
        t.eq({xpcall(ch.receive, print, ch)}, {true, "waited"})
        local function later() ch:receive(0) error("later", 0) end
        t.eq({xpcall(later, function(m) return m .. "!" end)}, {false, "later!"})
    end,
}
