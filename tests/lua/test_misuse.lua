-- SPDX-License-Identifier: MIT
-- What keeps references safe cannot be undone: not by odd arguments, not by functions that are not
-- for programs, not by the debug library. In a build with AddressSanitizer this finds most.
local mare, t, shell = require "mare", require "t", require "shell"

local folder = debug.getinfo(1, "S").source:match "^@(.*/)"

-- A program must print what is expected, and nothing else.
local function prints(expected, text)
    local got = shell.lua(text)
    t.eq({got.out, got.err, got.code}, {expected .. "\n", "", 0})
end

return {
    every_function_with_odd_arguments = {function()
        local where = os.tmpname()
        os.remove(where)
        local got = shell.run(("mkdir %s && cd %s && %s %s %sodd_calls.lua %d %d; code=$?; "
            .. "cd / && rm -rf %s; exit $code"):format(where, where,
            "env -u MARE_GC_STRESS", shell.mare, -- it would take many minutes
            folder:match "^/" and folder or os.getenv "PWD" .. "/" .. folder, t.seed(),
            t.slow > 1 and 3 or 5, where))
        t.eq(got.code, 0, got.err)
        t.ok(got.out:find "called\t%d+\n", got.out)
    end, timeout = 300},

    -- Whatever function of a module notices it.
    a_wrong_argument_is_a_mistake_at_the_line_of_the_program = function()
        local file, jobs, keys = require "mare.file", require "mare.jobs", require "mare.keys"
        local monitor, net, node = require "mare.monitor", require "mare.net", require "mare.node"
        local ntp, rbs, rpc = require "mare.ntp", require "mare.rbs", require "mare.rpc"
        local scheduler, never = require "mare.scheduler", 0 / 0
        local synchronizer = require "mare.synchronizer"
        local terminal, tls = require "mare.terminal", require "mare.tls"
        local websocket, here = require "mare.websocket", debug.getinfo(1, "S").source:sub(2)
        for i, case in ipairs {
            {"#2 to 'lines' %(string expected", file.lines, here, {}},
            {"#1 to 'lines' %(string expected", file.lines, {}},
            {"#2 to 'read' %(a timeout cannot be NaN%)$", file.read, here, never},
            {"#2 to 'exists' %(a timeout cannot be NaN%)$", file.exists, here, never},
            {"#2 to 'list' %(a timeout cannot be NaN%)$", file.list, here, never},
            {"#2 to 'scan' %(a timeout cannot be NaN%)$", file.scan, here, never},
            {"#1 to 'tempfile' %(a timeout cannot be NaN%)$", file.tempfile, never},
            {"#1 to 'tempfile' %(option 'prefix' must be", file.tempfile, {prefix = {}}},
            {"#2 to 'write' %(string expected", file.write, "/nowhere/x", {}},
            {"#2 to 'append' %(string expected", file.append, "/nowhere/x", true},
            {"#2 to 'chmod' %(permissions are octal", file.chmod, "/nowhere/x", "rw"},
            {"#1 to 'list' %(string expected", jobs.list, {}},
            {"#3 to 'list' %(number expected", jobs.list, "here", "soon"},
            {"#1 to 'show' %(string expected", jobs.show, {}, "name"},
            {"#1 to 'cancel' %(string expected", jobs.cancel, {}, "name"},
            {"#1 to 'authority' %(string expected", keys.authority, {}},
            {"#2 to 'issue' %(string expected", keys.issue, "folder", {}},
            {"#2 to 'secret' %(string expected", keys.secret, "folder", {}},
            {"#2 to 'rotate' %(string expected", keys.rotate, "folder", {}},
            {"#3 to 'issue' %(option 'days' must be", keys.issue, "folder", "x", {days = "x"}},
            {"#1 to 'release' %(monitor expected", monitor.release, {}},
            {"#1 to 'wait' %(monitor expected", monitor.wait, {}},
            {"#1 to 'pair' %(number expected", net.pair, {}},
            {"#1 to 'serve' %(listener expected", net.serve, {}, print},
            {"#1 to 'start' %(a node needs a 'name'%)$", node.start, {}},
            {"#1 to 'start' %(a node has 'keys' or", node.start,
                {name = "x", keys = "k", secret = "s"}},
            {"#1 to 'keys' %(string expected", ntp.keys, {}},
            {"#2 to 'server' %(number expected", ntp.server, {}, "soon"},
            {"#1 to 'run' %(table expected", rpc.run, 5},
            {"#1 to 'refuse' %(table expected", rpc.refuse, 5},
            {"#1 to 'step' %(number expected", scheduler.step, {}},
            {"#1 to 'get_ready_object' %(number expected", scheduler.get_ready_object, {}},
            {"#1 to 'beacon' %(string expected", rbs.beacon, {}},
            {"#2 to 'receiver' %(number expected", rbs.receiver, "239.1.1.1", {}},
            {"#1 to 'add_constraint' %(process or name", synchronizer.add_constraint, {}},
            {"#2 to 'add_trigger' %(string expected", synchronizer.add_trigger, mare.self(), {}},
            {"#3 to 'add_trigger' %(function", synchronizer.add_trigger, mare.self(), "x"},
            {"#4 to 'add_trigger' %(number", synchronizer.add_trigger, mare.self(), "x", print, {}},
            {"#1 to 'size' %(number expected", terminal.size, {}},
            {"#1 to 'password' %(string expected", terminal.password, {}},
            {"#1 to 'selfsigned' %(between 1 and 64 names", tls.selfsigned, {}},
            {"#2 to 'selfsigned' %(number expected", tls.selfsigned, "localhost", {}},
            {"#1 to 'accept' %(table expected", websocket.accept},
        } do
            t.raises("^[^:]*test_misuse.lua:%d+: bad argument " .. case[1], function()
                local one, two = case[2](table.unpack(case, 3))
                return one, two, i
            end)
        end
    end,

    a_finalizer_cannot_be_taken_away = function()
        prints("alive", [[
            local mare = require "mare"
            local kept = mare.channel(1)
            for key, value in pairs(debug.getregistry()) do
                assert(key ~= "mare.deadline" and not tostring(key):find "^mare")
                if type(value) == "table" and rawget(value, "__name") == "channel" then
                    value.__gc = nil
                end
            end
            for _, value in pairs {kept, mare.deadline(1), mare.buffer(1), mare.timer(1)} do
                debug.getmetatable(value).__gc = nil
                local ok, why = pcall(debug.setmetatable, value, {})
                assert(not ok and why:find "cannot be changed", why)
                assert(not debug.setuservalue(value, {}, 1) and not debug.getuservalue(value, 1))
            end
            for _ = 1, 1000 do mare.channel(1) end
            collectgarbage()
            collectgarbage()
            local others = {}
            for i = 1, 1000 do others[i] = {mare.channel(1)} end
            print "alive"
        ]])
    end,

    an_object_of_luasocket_does_not_become_a_reference = function()
        prints("alive", [[
            local mare, socket = require "mare", require "mare._socket"
            local channel, object = mare.channel(1), socket.object({}, {})
            assert(not pcall(socket.become, channel, {}))
            assert(not pcall(socket.become, io.stdout, {}))
            assert(not pcall(socket.become, object, getmetatable(io.stdout)))
            assert(not pcall(socket.object, {}, getmetatable(io.stdout)))
            assert(not pcall(socket.object, {}, {__gc = print}))
            assert(not pcall(debug.setmetatable, object, getmetatable(io.stdout)))
            assert(socket.state(channel) == nil and socket.state(object))
            socket.become(object, {__index = {x = 1}})
            assert(object.x == 1 and io.type(object) == nil)
            debug.setmetatable(object, {__index = {x = 2}})
            assert(object.x == 2)
            debug.setmetatable(io.stdout, getmetatable(io.stdout))
            print "alive"
        ]])
    end,

    lists_are_as_long_as_they_are = function()
        prints("alive", [[
            local child = require "mare._child"
            for _, length in ipairs {-1, 1 << 40, math.mininteger, math.maxinteger} do
                local list = setmetatable({}, {__len = function() return length end})
                assert(not pcall(child.spawn, list, nil, nil, "inherit", "inherit", "inherit"))
                pcall(require "mare._socket".look, list, list)
                pcall(require "mare.time".select, list)
            end
            assert(not pcall(child.spawn, nil, nil, nil, "inherit", "inherit", "inherit"))
            assert(not pcall(child.spawn, {}, nil, nil, "inherit", "inherit", "inherit"))
            print "alive"
        ]])
    end,

    -- A list of strings that a finalizer changes while it is read.
    a_list_that_changes_meanwhile = function()
        prints("ended", [[
            local child = require "mare._child"
            collectgarbage("incremental", 1, 1000)
            for round = 1, 200 do
                local arguments, environment = {"true"}, {}
                for i = 2, 20 do arguments[i] = ("argument %d %d"):format(round, i) end
                for i = 1, 20 do environment[i] = ("A%d=%d"):format(i, round) end
                local function change() for i = 2, 20 do arguments[i] = nil end end
                for _ = 1, 10 do setmetatable({}, {__gc = change}) end
                pcall(child.spawn, arguments, environment, "/nowhere", "inherit", "inherit",
                    "inherit", false, false)
            end
            print "ended"
        ]])
    end,

    -- A hook, or __travel, finds C functions that are given pointers.
    functions_that_are_not_for_programs = function()
        prints("called", [[
            local mare = require "mare"
            local found, times = {}, {}
            local function look()
                for level = 2, 40 do
                    local info = debug.getinfo(level, "fS")
                    if not info then break end
                    local _, value = debug.getlocal(level, 1)
                    times[info.func] = (times[info.func] or 0) + 1
                    if info.what == "C" and type(value) == "userdata" and times[info.func] < 20 then
                        found[#found + 1] = {info.func, value}
                        assert(not debug.setlocal(level, 1, io.stdout))
                    end
                end
            end
            debug.sethook(look, "cr")
            local ch = mare.channel(10)
            ch:send({1, 2, 3}, ch)
            ch:send({{}})
            ch:receive()
            mare.select({ch}, 0.01)
            mare.select({{ch, {1}}, mare.timer(0.001)}, 0.01)
            mare.spawn(function(x) return x end, {ch}):join()
            mare.go(function() error {} end):join()
            require "mare.sim".run {algorithm = "ricart", n = 2, rounds = 1, see = look}
            debug.sethook()
            assert(#found > 20, #found)
            for _, call in ipairs(found) do
                pcall(call[1], call[2], 1, {})
                pcall(call[1], io.stdout, {})
                pcall(call[1], debug.upvalueid(look, 1), ch)
            end
            print "called"
        ]])
    end,

    upvalues_of_c_functions_cannot_be_set = function()
        prints("nil\tnil\tx", [[
            local gmatch, wrap = string.gmatch("x", "."), coroutine.wrap(print)
            print(debug.setupvalue(gmatch, 3, io.stdout), debug.setupvalue(wrap, 1, 1), gmatch())
        ]])
    end,

    the_registry_is_seen_through = function()
        prints("2\t1\tnil\tfalse\tfalse\ttrue", [[
            local registry = debug.getregistry()
            registry.mine, registry[print] = 1, 2
            local count = 0
            for key, value in pairs(registry) do
                if key == "mine" or key == print then count = count + 1 end
            end
            print(count, registry.mine, registry["mare.deadline"],
                (pcall(function() registry[2] = {} end)),
                (pcall(function() registry["mare.deadline"] = {} end)), #registry >= 2)
        ]])
    end,

    -- What a simulation is told is kept while it runs, and members are no more after it.
    a_simulation_and_what_is_left_of_it = function()
        prints("false\ttrue\ttrue", [[
            local sim = require "mare.sim"
            local kept
            local algorithm = {name = "n" .. "ame", title = ("t"):rep(100), source = ("s"):rep(99),
                messages = {{"HELLO" .. #arg, "x" .. #arg}}, params = {["p" .. #arg] = 1}}
            local spec = {algorithm = algorithm, n = 2, title = "tit" .. "le", seed = 1,
                names = {[0] = "a" .. #arg, "b" .. #arg}, notes = {{1, "no" .. "te"}}}
            function algorithm.init(self)
                kept = self
                for key in pairs(spec) do if key ~= "algorithm" then spec[key] = nil end end
                for _, key in ipairs {"name", "title", "source", "messages", "params"} do
                    algorithm[key] = nil
                end
                collectgarbage()
            end
            function algorithm.request(self) end
            function algorithm.release(self) end
            function algorithm.receive(self) end
            local ok, outcome = pcall(sim.run, spec)
            collectgarbage()
            collectgarbage()
            local others, why = pcall(kept.others, kept)
            print(others, why:find "run is over" ~= nil, not pcall(kept.send, kept, 1, "HELLO0"))
        ]])
    end,
}
