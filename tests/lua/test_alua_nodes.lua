-- SPDX-License-Identifier: MIT
-- ALua's model between programs: daemons that are linked, who may send code, and what is told when
-- a node is lost.
local mare, alua = require "mare", require "alua"
local t, peers = require "t", require "peers"

-- A peer with a daemon, whose processes can find the channel `told` of this program.
local DAEMON = [[
    local alua = require "alua"
    alua.open({}, function(reply) print(reply.status, reply.error) end)
    alua.loop()
]]

local KILL = "local signal = require 'mare.signal' signal.send(signal.pid(), 'SIGKILL')"

local function fine(reply)
    t.eq(reply.status, "ok", reply.error)
    return reply
end

-- Runs f when this process is open, and the loop until it is closed.
local function run(f)
    alua.open({}, function(reply)
        fine(reply)
        f()
    end)
    alua.loop()
end

local function opened(f)
    -- A case is over before the silence: whoever is told, is told at once.
    local home <close> = peers.home {code = "source", silence = 120}
    run(f)
    t.ok(home)
end

-- With a daemon in another program, made by alua.create, and linked.
local function with_other(f)
    opened(function()
        alua.create({port = 0, code = "source", silence = 120}, function(reply)
            local other = fine(reply).daemon
            alua.link({other}, function(linked)
                fine(linked)
                t.eq(linked.daemons, {alua.daemonid, other})
                f(other)
            end)
        end)
    end)
end

return {
    processes_are_divided_among_daemons = function()
        with_other(function(other)
            alua.spawn(5, function(made)
                local count = {[alua.daemonid] = 0, [other] = 0}
                local list = {}
                for id, process in pairs(fine(made).processes) do
                    t.ok(id:find("@" .. process.daemon, 1, true), id)
                    count[process.daemon] = count[process.daemon] + 1
                    list[#list + 1] = id
                end
                t.eq(count, {[alua.daemonid] = 3, [other] = 2})
                alua.send(list, "assert(alua.id)", function(reply)
                    fine(reply)
                    -- By daemon, and by name; a name is found wherever it is.
                    alua.spawn({[other] = {"there"}, [alua.daemonid] = 1}, function(more)
                        t.eq(fine(more).processes.there.daemon, other)
                        alua.send("there", ("assert(alua.daemonid == %q)"):format(other),
                            function(found)
                                fine(found)
                                alua.exit(other, 0, function(last)
                                    fine(last)
                                    alua.close()
                                end)
                            end)
                    end)
                end)
            end)
        end)
    end,

    chunks_cross_in_order_and_so_do_answers = function()
        local COUNT = t.gc_stress and 30 or 300
        local seen, answers = {}, {}
        with_other(function(other)
            local function look()
                if #seen == COUNT and #answers == COUNT then alua.close() end
            end
            function _G.note(n)
                seen[#seen + 1] = n
                look()
            end
            alua.spawn({[other] = {"echo"}}, function(made)
                fine(made)
                alua.send("echo", ("home = %q"):format(alua.id))
                for i = 1, COUNT do
                    alua.send("echo", ("alua.send(home, 'note(%d)')"):format(i), function(reply)
                        fine(reply)
                        answers[#answers + 1] = i
                        look()
                    end)
                end
            end)
        end)
        t.eq(#seen, COUNT)
        for i = 1, COUNT do
            t.eq(seen[i], i)
            t.eq(answers[i], i)
        end
    end,

    a_node_that_dies_is_told_at_once = function()
        with_other(function(other)
            alua.spawn({[other] = {"victim", "bystander"}}, function(made)
                fine(made)
                local count = 0
                local function failed(reply)
                    t.eq(reply.status, "error")
                    t.ok(reply.error:find "cannot be reached", reply.error)
                    count = count + 1
                    if count < 2 then return end
                    alua.send({"victim", alua.id}, "", function(later)
                        t.eq(later[alua.id].status, "ok")
                        t.eq(later.victim.status, "error")
                        alua.spawn(2, function(here) -- only here: the other is linked no more
                            for _, process in pairs(fine(here).processes) do
                                t.eq(process.daemon, alua.daemonid)
                            end
                            alua.close()
                        end)
                    end)
                end
                alua.send("bystander", "require 'mare'.sleep(1000)", failed)
                alua.send("victim", KILL, failed)
            end)
        end)
    end,

    nobody_sends_code_who_may_not = function()
        -- It lets us in, and we do not let it: it can run nothing here.
        local log = mare.channel(100)
        local home <close> = peers.home {log = log}
        local peer <close> = peers.join(home, {name = "flow", code = "source",
            listen = "127.0.0.1:0"}, DAEMON)
        t.eq(peer.line(), "ok\tnil")
        run(function()
            alua.spawn({[peer.address] = {"flow1"}}, function(made)
                fine(made)
                alua.link({peer.address}, function(reply)
                    fine(reply)
                    alua.send("flow1", ("alua.send(%q, 'evil = true')"):format(alua.id))
                    t.ok(t.ok(log:receive(t.patience)):find "'flow' may not send code")
                    alua.send(alua.id, "", function() -- what came before has been looked at
                        t.eq(_G.evil, nil)
                        alua.close()
                    end)
                end)
            end)
        end)
    end,

    a_daemon_that_admits_nobody_runs_nothing = function()
        opened(function()
            alua.create({port = 0}, function(reply)
                local other = fine(reply).daemon
                local count = 0
                local function denied(answer)
                    t.eq(answer.status, "error")
                    t.ok(answer.error:find "may not send code", answer.error)
                    count = count + 1
                    if count == 3 then alua.close() end
                end
                alua.link({other}, denied)
                alua.spawn({[other] = 1}, denied)
                alua.send(other, "os.exit(3)", denied)
            end)
        end)
    end,

    a_process_can_open_a_daemon_elsewhere = function()
        local home <close> = peers.home {code = "source"}
        local told = mare.channel(10, "told")
        local peer <close> = peers.start({name = "flow", code = "source", join = {home.address}}, [[
            local alua = require "alua"
            local told = find "told@home"
            function greet(name) told:send(name) end
            told:send(true)
            local boss = mare.channel(1, "boss"):receive()
            alua.open(options.join[1], function(reply)
                alua.spawn({"made"}, function(made)
                    alua.send("made", ("alua.send(%q, 'hello(%q)')"):format(boss, alua.id))
                end)
            end)
            alua.loop()
            mare.sleep(1000)
        ]])
        t.eq(told:receive(t.patience), true)
        run(function()
            function _G.hello(id)
                t.ok(id:find("@" .. alua.daemonid, 1, true), id)
                -- Its own program says who may send to it, here all; then the process leaves.
                alua.send(id, "greet 'ebb'", function(reply)
                    fine(reply)
                    alua.send(id, "alua.close()", function(closed)
                        fine(closed)
                        alua.send(id, "", function(gone)
                            t.eq(gone.status, "error")
                            alua.close()
                        end)
                    end)
                end)
            end
            peers.find "boss@flow":send(alua.id)
        end)
        t.eq(told:receive(t.patience), "ebb")
        told:close()
        t.ok(peer)
    end,

    a_peer_that_sends_nonsense_harms_nobody = function()
        local home <close> = peers.home {code = "source"}
        local told = mare.channel(100, "told")
        run(function()
            local peer <close> = peers.join(home, {name = "flow"}, [[
                local told, service = find "told@home", node._service("home", nil, 1000).channel
                local answers, count = mare.channel(100), 0
                local function say(...)
                    count = count + 1
                    service:send(answers, "alua", count, ...)
                end
                for _, operation in ipairs {"make", "spawn", "link", "meet", "exists", "give",
                    "route", "run", "enter", "leave", "call", "done", "none"} do
                    for _, odd in ipairs {1, "x", {1}, {[2] = {}}, {names = {{}}}, {count = 1e300},
                        {count = -1}, print == nil} do
                        say(operation, odd, odd)
                    end
                end
                service:send(nil, "alua", 1, "make", {count = 1})
                service:send("x", "alua", 1, "make", {count = 1})
                say("give", "nobody", "")
                repeat local number, reply = answers:receive() until number == count
                told:send(true)
                mare.sleep(1000)
            ]])
            t.eq(told:receive(t.patience), true)
            told:close()
            alua.spawn({"here"}, function(made)
                fine(made)
                alua.send("here", "x = 1", function(reply)
                    fine(reply)
                    alua.close()
                end)
            end)
            t.ok(peer)
        end)
    end,

    what_cannot_be_opened_says_so = function()
        local errors = {}
        local function note(reply) errors[#errors + 1] = reply.error end
        alua.open("127.0.0.1:1", note)
        alua.loop()
        t.ok(errors[1]:find "refused", errors[1])
        t.eq(alua.id, nil)
        require "mare.node".stop(5)
        alua.open({addr = "0.0.0.0"}, note)
        alua.loop()
        t.ok(errors[2]:find "can be reached by others", errors[2])
        alua.create({addr = "0.0.0.0"}, note)
        alua.loop()
        t.ok(errors[3]:find "can be reached by others", errors[3])
        t.eq(#errors, 3)
    end,
}
