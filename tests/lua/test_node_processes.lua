-- SPDX-License-Identifier: MIT
-- Processes that one node starts on another, ties to its own, and sends code to.
local mare, node = require "mare", require "mare.node"
local t, peers, file = require "t", require "peers", require "mare.file"

return {
    a_node_may_be_this_one = function()
        local _ <close> = peers.home()
        t.ok(node.export("double", function(x) return 2 * x end))
        t.eq({t.ok(mare.spawn({node = "home"}, "double", 4)):join(t.patience)}, {true, 8})
        local process, told = mare.spawn({node = "home", monitor = true}, function() return 5 end)
        t.eq({process:join(t.patience)}, {true, 5})
        t.eq(select(2, told:receive(t.patience)), "normal")
        t.eq({mare.spawn({node = "home"}, {source = "return ..."}, 6):join(t.patience)}, {true, 6})
        t.fails("noname", mare.spawn({node = "home"}, "treble"))
        t.fails("syntax", mare.spawn({node = "home"}, {source = "return return"}))
    end,

    a_monitor_needs_nobody_who_keeps_the_process = function()
        local home <close> = peers.home()
        local _ <close> = peers.join(home, {name = "flow"}, [[
            node.export("wait", function(ch) ch:receive() end)
            mare.channel(0, "ready") mare.sleep(1000)
        ]])
        peers.find "ready@flow"
        local go = mare.channel(0)
        local monitor = select(2, t.ok(mare.spawn({node = "flow", monitor = true}, "wait", go)))
        collectgarbage()
        collectgarbage()
        t.ok(go:sendwithin(t.patience, true))
        t.eq(select(2, monitor:receive(t.patience)), "normal")
    end,

    a_peer_cannot_raise_its_limit = function()
        local home <close> = peers.home {memory = 1000000}
        node.export("eat", function() return pcall(string.rep, "x", 20000000) end)
        local told = mare.channel(1, "told")
        local _ <close> = peers.join(home, {name = "flow"}, [[
            local p = assert(mare.spawn({node = "home", memory = 1000000000}, "eat"))
            find "told@home":send(select(2, p:join(1000)))
            mare.sleep(1000)
        ]])
        t.eq(told:receive(t.patience), false)
        told:close()
    end,

    a_peer_does_not_choose_what_is_loaded = function()
        t.in_folder(function(folder)
            local mark = folder .. "/mark"
            local module = assert(io.open(folder .. "/chosen.lua", "w"))
            module:write(("io.open(%q, 'w'):close() return {arrive = type}"):format(mark))
            module:close()
            package.path = folder .. "/?.lua;" .. package.path
            local home <close> = peers.home()
            local got, done = mare.channel(1, "got"), mare.channel(1, "done")
            local _ <close> = peers.join(home, {name = "flow"}, [[
                local odd = setmetatable({}, {__travel = function() return "chosen", 1 end})
                local got, done = find "got@home", find "done@home"
                for _ = 1, 2 do got:send(odd) end
                mare.spawn({node = "home", timeout = 0.01}, "nothing", odd)
                for i = 1, 2 do got:send(odd) got:send(i) end
                done:receive()
                got:send(odd)
                mare.sleep(1000)
            ]])
            t.fails("badmsg", got:receive(t.patience))
            t.fails("badmsg", select(2, mare.select({got}, t.patience)))
            local count = 0
            for n in got:messages() do
                count = count + n
                if n == 2 then break end
            end
            t.eq(count, 3)
            t.eq(io.open(mark), nil)
            require "chosen" -- the program does
            done:send(true)
            t.eq(got:receive(t.patience), "number")
            got:close()
            done:close()
        end)()
    end,

    -- What others start here finds the modules of this program, and none of theirs.
    modules_are_found_where_the_node_finds_them = t.in_folder(function(folder)
        for _, name in ipairs {"here", "there"} do
            assert(file.mkdir(folder .. "/" .. name))
            t.ok(file.write(("%s/%s/whose.lua"):format(folder, name), ("return %q"):format(name)))
        end
        local before = package.path
        package.path = folder .. "/here/?.lua;" .. before
        local home <close> = peers.home {code = "source"}
        node.export("whose", function() return (require "whose") end)
        local told = mare.channel(2, "told")
        local _ <close> = peers.join(home, {name = "flow"}, ([[
            package.path = %q
            find "told@home":send(select(2, mare.spawn({node = "home"}, "whose"):join(1000)))
            local source = {source = "return (require 'whose')"}
            find "told@home":send(select(2, mare.spawn({node = "home"}, source):join(1000)))
            mare.sleep(1000)
        ]]):format(folder .. "/there/?.lua"))
        t.eq({told:receive(t.patience), told:receive(t.patience)}, {"here", "here"})
        package.path = before
        told:close()
    end),

    processes_are_started_and_end_on_other_nodes = function()
        local home <close> = peers.home()
        local _ <close> = peers.join(home, {name = "flow"}, [[
            node.export("add", function(a, b) return a + b end)
            node.export("fail", function() error "on purpose" end)
            node.export("wait", function() require "mare".sleep(1000) end)
            mare.channel(0, "ready") mare.sleep(1000)
        ]])
        peers.find "ready@flow"
        local p = t.ok(mare.spawn({node = "flow"}, "add", 3, 4))
        t.eq(node.home(p), "flow")
        local ok, sum = p:join(t.patience)
        t.eq(ok, true)
        t.eq(sum, 7)
        t.eq(p:alive(), false)
        local monitor
        p, monitor = t.ok(mare.spawn({node = "flow", monitor = true}, "fail"))
        local what, text, code = p:join(t.patience)
        t.eq(what, nil)
        t.ok(text:find "on purpose")
        t.eq(code, "died")
        local who, how, why = monitor:receive(t.patience)
        t.eq(who, p)
        t.eq(how, "died")
        t.ok(why:find "on purpose")
        p, monitor = t.ok(mare.spawn({node = "flow", monitor = true}, "wait"))
        t.fails("timeout", p:join(0.01))
        t.eq(p:alive(), true)
        t.eq(p:kill "enough", true)
        t.eq(table.concat({select(2, monitor:receive(t.patience))}, " "), "killed enough")
        t.fails("killed", p:join(t.patience))
        t.fails("noname", mare.spawn({node = "flow"}, "nothing"))
        t.fails("denied", mare.spawn({node = "flow"}, {source = "return 1"}))
        t.fails("nonode", mare.spawn({node = "nowhere"}, "add"))
    end,

    supervisors_have_children_on_other_nodes = function()
        local home <close> = peers.home()
        local _ <close> = peers.join(home, {name = "flow", code = {home = "bytecode"}})
        local told = mare.channel(10)
        local tree = t.ok(require "mare.supervisor".start {report = function() end, children = {
            {id = "far", spawn = {node = "flow"}, args = {told}, start = function(ch)
                local there = require "mare".channel(1)
                ch:send(there)
                there:receive()
                error "on purpose"
            end}}})
        local first = t.ok(told:receive(t.patience))
        t.eq((node.home(first)), "flow")
        first:send(true)
        local second = t.ok(told:receive(t.patience))
        t.ok(second ~= first)
        t.eq(tree:children()[1].restarts, 1)
        t.ok(tree:stop())
    end,

    links_go_both_ways = function()
        local home <close> = peers.home()
        local _ <close> = peers.join(home, {name = "flow"}, [[
            node.export("fail", function(ch) ch:receive() error "on purpose" end)
            node.export("wait", function() require "mare".sleep(1000) end)
            mare.channel(0, "ready") mare.sleep(1000)
        ]])
        peers.find "ready@flow"
        local go = mare.channel(1)
        local here = mare.spawn(function()
            local there = assert(mare.spawn({node = "flow", link = true}, "fail", go))
            there:join()
            mare.sleep(1000)
        end)
        go:send(true)
        local _, why, code = here:join(t.patience)
        t.eq(code, "killed")
        t.ok(why:find "on purpose")
        local started = mare.channel(1)
        here = mare.spawn(function()
            started:send(assert(mare.spawn({node = "flow", link = true}, "wait")))
            mare.sleep(1000)
        end)
        local there = started:receive(t.patience)
        here:kill()
        t.fails("killed", there:join(t.patience))
    end,

    -- By unlink, or because who was linked has ended well.
    who_is_not_linked_any_more_outlives_the_other_node = function()
        local home <close> = peers.home()
        t.ok(node.export("stay", function() require "mare".sleep(1000) end))
        local told = mare.channel(1, "told")
        local flow <close> = peers.join(home, {name = "flow"}, [[
            local function stay(name)
                return assert(mare.spawn({node = "home", name = name, link = true}, "stay"))
            end
            local first, third = stay "first", stay "third"
            first:unlink()
            mare.spawn(function() stay "second" end):join()
            find "told@home":send(true)
            mare.sleep(1000)
            third:kill()
        ]])
        t.ok(told:receive(t.patience))
        local found = {}
        for i, name in ipairs {"first", "second", "third"} do found[i] = t.ok(mare.find(name)) end
        flow.signal "KILL"
        t.eq(select(3, found[3]:join(t.patience)), "killed")
        for i = 1, 2 do
            t.ok(found[i]:alive())
            found[i]:kill()
        end
        told:close()
    end,

    code_crosses_as_far_as_the_policy_says = function()
        local home <close> = peers.home {code = {source = "source", bytes = "bytecode"}}
        local text = [[
            local told = find "told@home"
            local function try(body)
                local p, _, code = mare.spawn({node = "home", timeout = 1000}, body, 20)
                return p and select(2, p:join()) or code
            end
            told:send(options.name, try {source = "return 1 + ..."}, try {source = "1 +"},
                try {source = string.dump(function() return 1 end)},
                try(function(n) return 2 * n end))
            mare.sleep(1000)
        ]]
        local told = mare.channel(10, "told")
        for _, expected in ipairs {{"none", "denied", "denied", "denied", "denied"},
                {"source", 21, "syntax", "syntax", "denied"},
                {"bytes", 21, "syntax", "syntax", 40}} do
            local _ <close> = peers.join(home, {name = expected[1], code = "bytecode"}, text)
            t.eq(table.pack(told:receive(t.patience)), table.pack(table.unpack(expected)))
        end
        told:close()
    end,

    functions_of_libraries_are_code_too = function()
        -- The peer asks by hand, because its own `mare.spawn` would not even try.
        local log = mare.channel(100)
        local home <close> = peers.home {code = {source = "source", bytes = "bytecode"}, log = log}
        local told = mare.channel(10, "told")
        for name, expected in pairs {none = "denied", source = "denied", bytes = true} do
            local _ <close> = peers.join(home, {name = name}, [[
                local told, reply = find "told@home", mare.channel(1)
                local service = assert(node._service("home", nil, 100)).channel
                service:send(reply, "spawn", {}, os.getenv, "HOME")
                local ok, _, code = reply:receive()
                service:send(reply, "spawn", {name = "mare.mine"}, "none")
                told:send(ok or code, select(3, reply:receive()))
                mare.sleep(1000)
            ]])
            local got, reserved = told:receive(t.patience)
            t.eq(got, expected, name)
            t.eq(reserved, "denied")
            if expected == "denied" then
                t.eq(log:receive(t.patience),
                    ("a process of %s: node '%s' may not send code to 'home'"):format(name, name))
            end
            t.eq(log:receive(t.patience),
                ("a process of %s: names that begin with 'mare.' are reserved"):format(name))
        end
        told:close()
    end,
}
