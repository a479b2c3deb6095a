-- SPDX-License-Identifier: MIT
-- The simulator from Lua: runs, hooks, algorithms written in Lua, and what is refused.
local sim, t = require "mare.sim", require "t"

-- Says yes to everybody: catches nothing by itself.
local function careless(more)
    local algorithm = {
        name = "careless", promises = {"EM1"},
        messages = {{"ASK", "number"}, {"DATA", tail = true}},
        enter = function(self) self:grant(1) end,
        exit = function() end,
        receive = function() end,
    }
    for key, value in pairs(more or {}) do algorithm[key] = value end
    return algorithm
end

local function quick(spec)
    spec.n, spec.rounds, spec.settle_us = spec.n or 3, 1, 0
    return spec
end

return {
    an_algorithm_in_c_by_name = function()
        local out = sim.run(quick {algorithm = "ricart", n = 5, params = {repair = 0}})
        t.eq({out.kept, out.grants, out.sent, out.by_kind.REQUEST}, {true, 5, 5 * 8, 5 * 4})
        t.ok(#sim.algorithms() >= 2)
    end,
    a_shrunk_run_can_be_run_again = function()
        local spec, found, quieter = {algorithm = "ricart", detector = "eager"}, 0, 0
        for from = 1, 40 do
            local broken, seed = sim.sweep(spec, 1, from)
            if broken then
                found = found + 1
                t.eq(broken.again.seed, seed)
                local out = sim.run(broken.again)
                t.eq({out.violation, out.detail, out.sent, out.time_us},
                     {broken.violation, broken.detail, broken.sent, broken.time_us})
                local drawn = sim.run {algorithm = "ricart", n = broken.n, seed = seed, vary = true}
                quieter = quieter + (drawn.loss_ppm > broken.loss_ppm and 1 or 0)
            end
        end
        t.ok(found > 0 and quieter > 0)
    end,
    -- Nothing arrives, so the one who asked waits when nothing is due any more.
    a_script_is_judged_alike_alone_and_in_sweeps = function()
        local spec = {algorithm = "ricart", params = {repair = 0}, n = 2,
                      requests = {{0, "enter"}}, route = function() return false end}
        local out, swept = sim.run(spec), sim.sweep(spec, 3)
        t.eq({out.kept, out.violation, out.time_us}, {false, "EM2", swept.time_us})
        t.eq(swept.violation, "EM2")
        spec.expect = "EM2"
        t.eq(table.pack(sim.sweep(spec, 3)), {nil, 3, 3, n = 3})
    end,
    what_makes_no_sense_is_raised_where_it_was_written = function()
        local line = debug.getinfo(1, "l").currentline + 2
        for _, case in ipairs {{"run"}, {"sweep", 3}} do
            local ok, err = pcall(function() return (sim[case[1]]({algorithm = "x"}, case[2])) end)
            t.ok(not ok)
            t.ok(err:find(("sim.lua:%d: there is no algorithm 'x'"):format(line), 1, true), err)
        end
        t.raises("test_sim.lua:%d+: a specification is a table", function() sim.run() end)
    end,
    a_sweep_of_nothing_is_refused = function() -- it would be said to break no promise
        for _, case in ipairs {{0}, {-1}, {1.5}, {"x"}, {2, math.maxinteger}, {1, -1}, {1, 0.5}} do
            t.raises("1 seed or more", sim.sweep, {algorithm = "ricart"}, table.unpack(case))
        end
        t.eq(table.pack(sim.sweep({algorithm = "ricart"}, 1, math.maxinteger)), {nil, 1, 0, n = 3})
    end,
    parameters_are_written_in_one_order = function() -- that of the table differs from run to run
        local params = {gamma = 1, alpha = 2, delta = 3, beta = 4, eta = 5, zeta = 6, mu = 7}
        local out = sim.run(quick {algorithm = careless {params = params}, n = 1, json = true})
        t.ok(out.text:find('{"alpha":2,"beta":4,"delta":3,"eta":5,"gamma":1,"mu":7,"zeta":6}', 1,
                           true), out.text)
    end,
    what_makes_no_sense_is_raised = function()
        local function refuses(words, spec)
            spec.algorithm, spec.n = "ricart", 3
            local ok, err = pcall(sim.run, spec)
            t.ok(not ok and tostring(err):find(words, 1, true), words .. ": " .. tostring(err))
        end
        refuses("'fault'", {fault = "crash:1@1+1"})
        refuses("'delay_us'", {delay_us = 5})
        refuses("'los_ppm'", {network = {los_ppm = 5}})
        refuses("`network`", {network = 5})
        refuses("`params`", {params = "repair"})
        refuses("`requests`", {requests = 1})
        refuses("`names`", {names = "a"})
        refuses("'at'", {requests = {{0, "enter", at = 5}}})
        for _, length in ipairs {-1, math.mininteger, math.maxinteger, 1 << 59} do
            local says = setmetatable({}, {__len = function() return length end})
            refuses("`requests` are more than", {requests = says})
        end
        refuses("`hold_us`", {requests = {{0, "enter", hold_us = -5}}})
        refuses("`hold_us`", {requests = {{0, "enter", hold_us = true}}})
        refuses("0 to 2", {members = {[9] = {repair = 0}}})
        refuses("0 to 2", {members = {[1] = 5}})
        refuses("clock is a whole number", {members = {[1] = {clock = "1"}}})
        refuses("'cluck', but repair, retry_us", {members = {[1] = {cluck = 1}}})
        refuses("'repair' of ricart is 0 to 1, not 7", {members = {[1] = {repair = 7}}})
        refuses("'repair' of ricart is 0 to 1, not 7", {params = {repair = 7}})
        refuses("'cluck', but repair, retry_us", {params = {cluck = 1}})
        refuses("repair is a whole number, not x", {params = {repair = "x"}})
        refuses("a request is a table, not 5", {requests = {5}})
        refuses("process of a request is a whole number, not x", {requests = {{"x", "enter"}}})
        refuses("EM9", {expect = "EM9"})
        refuses("`loss_ppm`", {network = {loss_ppm = 5000000}})
        refuses("`abandon_ppm`", {abandon_ppm = 1000001})
        refuses("`drift_ppm`", {drift_ppm = 100001})
        refuses("`rounds`", {rounds = 1 << 32})
        for _, answer in ipairs {-5, 1.5, "x", "5", {}} do
            refuses("`route`", {route = function() return answer end})
        end
        refuses("0 to 2", {faults = "crash:3@1+1"})
        t.ok(sim.run(quick {algorithm = "ricart", route = function() return true end}).kept)
    end,
    data_may_have_any_byte = function()
        local out = sim.run {
            algorithm = "fifo", n = 2, requests = {{0, "multicast", data = "a\0b"}},
            see = function(event, seen)
                if event.what == "deliver" then seen.data = event.data end
            end}
        t.eq(out.seen.data, "a\0b")
    end,
    numbers_go_back_under_a_wrong_detector = function() -- as docs/reference/coord.md says
        local function back(seed)
            return sim.run {
                algorithm = "token", n = 5, seed = seed, detector = "eager", hold_us = 3000,
                think_us = 3000, duration_us = 600000, faults = "partition:0.1@100000+300000",
                see = function(event, seen)
                    if event.what ~= "granted" then return end
                    seen.back = seen.back or event.number < (seen.last or 0)
                    seen.last = event.number
                end}.seen.back
        end
        local found = false
        for seed = 1, 50 do found = found or back(seed) end
        t.ok(found)
    end,
    a_minority_gets_no_coordinator_if_told_so = function() -- cut off, it takes the others for dead
        for majority = 0, 1 do
            local out = sim.run {
                algorithm = "central", n = 5, params = {majority = majority}, detector = "eager",
                duration_us = 600000, faults = "partition:0.1@100000+400000",
                see = function(event, seen)
                    local cut = event.time_us > 110000 and event.time_us < 500000
                    local serves = event.what == "elected" and event.process == 1
                    local enters = event.what == "granted" and event.process < 2
                    if cut and (serves or enters) then seen.active = true end
                end}
            t.eq({out.seen.active, out.violation}, majority == 0 and {true, "EM1"} or {})
        end
    end,
    the_same_seed_the_same_text = function()
        local function text(seed)
            return sim.run({algorithm = "central", seed = seed, vary = true, trace = true}).text
        end
        t.eq(text(7), text(7))
        t.ok(text(7) ~= text(8))
    end,
    a_lua_algorithm_is_checked = function()
        local out = sim.run {algorithm = careless(), n = 2, requests = {
            {0, "enter", at_us = 0, hold_us = 5000}, {1, "enter", at_us = 1000}}}
        t.eq(out.violation, "EM1")
        t.ok(not out.kept)
    end,
    a_sweep_shrinks_what_it_finds = function()
        local out, seed = sim.sweep({algorithm = careless {tolerates = {"crash", "pause"}}}, 50)
        t.eq(out.violation, "EM1")
        t.ok(seed <= 50)
        t.eq(out.faults, "")
    end,
    messages_carry_numbers_and_a_tail = function()
        local got = {}
        local algorithm = careless {
            enter = function(self)
                self:send(1, "ASK", {number = 42})
                self:broadcast("DATA", {tail = "words"})
                self:grant(1)
            end,
            receive = function(_, from, message)
                got[#got + 1] = {from, message.kind, message.number or message.tail}
            end}
        sim.run {algorithm = algorithm, n = 2, requests = {{0, "enter"}},
                 network = {delay = "fixed", fifo = true}}
        t.eq(got, {{0, "ASK", 42}, {0, "DATA", "words"}})
    end,
    timers_marks_and_peers = function()
        local seen = {}
        local algorithm = careless {
            start = function(self) self:after(2, 1000) self:after(3, 500) self:cancel(3) end,
            timer = function(self, timer) seen[#seen + 1] = timer self:mark "rang" end,
            peer = function(_, what, who) seen[#seen + 1] = what .. who end}
        local out = sim.run {algorithm = algorithm, n = 2, requests = {}, trace = true,
                             faults = "crash:1@500+0", duration_us = 100000}
        t.eq(seen[1], 2)
        t.ok(seen[2]:find "1$")
        t.ok(out.text:find "mark rang")
    end,
    memory_survives_a_crash_but_not_amnesia = function()
        for kind, lives in pairs {crash = 1, amnesia = 2} do
            local made = 0
            local algorithm = careless {init = function(self)
                if self.id == 1 then made = made + 1 end
            end}
            sim.run {algorithm = algorithm, n = 2, requests = {}, faults = kind .. ":1@500+500"}
            t.eq(made, lives)
        end
    end,
    routes_decide = function()
        local seen = {}
        local out = sim.run {algorithm = "ricart", n = 3, params = {repair = 0},
                             requests = {{0, "enter"}}, route = function(m)
            seen[#seen + 1] = m.kind
            if m.to == 2 then return false end
            return 100
        end}
        t.eq({out.sent, out.lost, out.time_us}, {3, 1, 200})
        t.eq(seen, {"REQUEST", "REQUEST", "GRANT"})
    end,
    links_decide = function()
        local out = sim.run {algorithm = "ricart", n = 3, params = {repair = 0},
                             requests = {{0, "enter"}},
                             linked = function(a, b) return math.abs(a - b) == 1 end}
        t.eq(out.sent, 2)
    end,
    names_and_notes_stand_in_the_text = function()
        local out = sim.run {algorithm = "ricart", n = 2, params = {repair = 0},
                             names = {[1] = "Ann"}, notes = {{0, "begins"}, {500, "asks\nboth"}},
                             network = {delay = "fixed", delay_us = 1000},
                             requests = {{0, "enter", at_us = 500}}, trace = true}
        t.ok(out.text:find("^\n# begins\n +0  p0   start"))
        t.ok(out.text:find("\n\n# asks\n# both\n +500  p0   enter"))
        t.ok(out.text:find("p0   %-> Ann  #1 REQUEST"))
        t.ok(out.text:find("1500  Ann  <%- p0  #1 REQUEST"))
    end,
    a_witness_sees_everything_once = function()
        local spec = {algorithm = "total", n = 2, params = {repair = 0}, trace = true,
                      requests = {{0, "multicast", data = "word", at_us = 10}},
                      see = function(event, seen)
                          seen[event.what] = (seen[event.what] or 0) + 1
                          if event.what == "deliver" then
                              t.eq({event.peer, event.number, event.data}, {0, 1, "word"})
                          elseif event.what == "sent" then
                              t.eq(event.message.clock, event.clock)
                          end
                      end}
        for _ = 1, 2 do
            local seen = sim.run(spec).seen
            t.eq({seen.start, seen.multicast, seen.sent, seen.message, seen.deliver, seen.ended},
                 {2, 1, 2, 2, 2, 1})
        end
        t.eq(sim.run({algorithm = "total", requests = {}}).seen, nil)
    end,
    what_a_witness_raises_is_raised = function()
        t.raises("seen enough", function()
            sim.run {algorithm = "ricart", see = function() error "seen enough" end}
        end)
    end,
    time_that_goes_back_is_caught = function()
        -- The clocks of the figure, uncorrected, under the eyes of the checker.
        local out = sim.run(require "mare._tickers" (false, "clock"))
        t.eq(out.violation, "CLOCK")
        t.ok(out.detail:find "left p2 at 60 and arrived at 56")
        t.ok(sim.run(require "mare._tickers" (true, "clock")).kept)
    end,
    replicas_are_where_their_names_hash_to = function()
        local function mix(z)
            z = (z ~ (z >> 30)) * 0xbf58476d1ce4e5b9
            z = (z ~ (z >> 27)) * 0x94d049bb133111eb
            return z ~ (z >> 31)
        end
        local function hash(text) -- FNV-1a
            local z = 0xcbf29ce484222325
            for i = 1, #text do z = (z ~ text:byte(i)) * 0x100000001b3 end
            return mix(z)
        end
        for name = 1, 20 do
            for index, home in ipairs(sim.replicas(7, name, 5)) do
                local key, best = hash(name .. "-" .. index - 1), 0
                for i = 1, 6 do
                    if math.ult(mix(i + 1) - key, mix(best + 1) - key) then best = i end
                end
                t.eq(home, best)
            end
        end
        t.eq(sim.replicas(6, 11, 3), {4, 2, 1})
    end,
    the_risk_is_the_formula = function()
        t.ok(math.abs(sim.risk(3, 2, 0.5) - 0.75) < 1e-12)
        t.ok(math.abs(sim.risk(5, 3, 0.1) - (1 - 0.9 ^ 3)) < 1e-12)
        local book = sim.risk(32, 24, 10 / 10800)
        t.ok(book > 0 and book < 1e-40)
        t.raises("half", sim.risk, 4, 2, 0.5)
        t.raises("probability", sim.risk, 3, 2, 1.5)
    end,
    places_are_all_different = function()
        local seen = {}
        local circle = sim.places("superpeer-dht", 256, 3, 8)
        for i = 0, 255 do
            t.ok(circle[i] >= 0 and circle[i] < 256 and not seen[circle[i]])
            seen[circle[i]] = true
        end
        local space = sim.places("superpeer-tokens", 4, 0, 3)
        t.eq(#space[3], 3)
        t.raises("bits", sim.places, "superpeer-dht", 4, 0, 0)
        t.raises("ring", sim.places, "ring", 4, 0, 8)
    end,
    errors_in_an_algorithm_are_raised = function()
        t.raises("broken here", function()
            sim.run {algorithm = careless {enter = function() error "broken here" end}}
        end)
        t.raises("itself", function()
            sim.run {algorithm = careless {enter = function(self) self:send(0, "NOPE") end}}
        end)
        t.raises("number", function()
            sim.run {algorithm = careless {enter = function(self) self:broadcast "ASK" end}}
        end)
        t.raises("init", function()
            sim.run {algorithm = careless {init = function(self) self:mark "early" end}}
        end)
    end,
    what_makes_no_sense_is_refused = function()
        for _, case in ipairs {
            {{}, "has an `algorithm`"}, {{algoritm = "ricart"}, "'algoritm'"},
            {{algorithm = "x"}, "'x'"}, {{algorithm = {}}, "messages"},
            {{algorithm = "ricart", n = 0}, "`n`"},
            {{algorithm = "ricart", n = -1}, "`n`"}, {{algorithm = "ricart", seed = "x"}, "seed"},
            {{algorithm = "ricart", network = {delay = "slow"}}, "slow"},
            {{algorithm = "ricart", faults = "crash"}, "faults"},
            {{algorithm = "ricart", route = 1}, "route"},
            {{algorithm = "ricart", see = "me"}, "see"},
            {{algorithm = "ricart", names = {[0] = "two words"}}, "name"},
            {{algorithm = "ricart", names = {[0] = 7}}, "names"},
            {{algorithm = "ricart", notes = {{5, "later"}, {4, "earlier"}}}, "order of time"},
            {{algorithm = "ricart", notes = {{5, 42}}}, "notes"},
            {{algorithm = careless {promises = {"all"}}}, "all"},
            {{algorithm = careless {family = "poets"}}, "poets"},
            {{algorithm = careless {name = 5}}, "name is a string, not 5"},
            {{algorithm = careless {messages = {{5}}}}, "name of a message is a string, not 5"},
            {{algorithm = careless {messages = {{"A", 5}}}}, "field of a message is a string"},
            {{algorithm = careless {promises = "EM1"}}, "promises is a table, not EM1"},
            {{algorithm = careless {room = -5}}, "room is 0 to"},
            {{algorithm = careless {room = 1 << 40}}, "room is 0 to"},
        } do
            t.raises(case[2], sim.run, case[1])
        end
    end,
    what_a_member_sees_of_itself_is_from_before_the_step = function()
        local seen = {}
        local function note(self, when) seen[#seen + 1] = {when, self.waiting, self.inside} end
        local algorithm = careless {
            enter = function(self)
                note(self, "enter")
                self:grant(1)
                note(self, "granted")
                t.raises("grant: this member is not waiting %(it may have given up",
                    function() self:grant(2) end)
            end,
            exit = function(self)
                note(self, "exit")
                self:after(0, 1)
            end,
            timer = function(self) note(self, "later") end,
        }
        t.ok(sim.run(quick {algorithm = algorithm, n = 1}).kept)
        t.eq(seen, {{"enter", true, false}, {"granted", true, false},
                    {"exit", false, true}, {"later", false, false}})
    end,
    -- A timer that waits for nothing: time stands still.
    a_runaway_is_a_violation = function()
        local algorithm = careless {
            enter = function(self) self:after(0, 0) end,
            timer = function(self) self:after(0, 0) end,
        }
        local out = sim.run {algorithm = algorithm, n = 1, seed = 7, duration_us = 1000}
        t.eq({out.violation, out.seed}, {"BUDGET", 7})
    end,
    too_many_effects_are_a_violation = function()
        local algorithm = careless {room = 1, enter = function(self)
            for _ = 1, 100 do self:broadcast("ASK", {number = 1}) end
        end}
        t.eq(sim.run({algorithm = algorithm, n = 2, requests = {{0, "enter"}}}).violation, "ROOM")
    end,
}
