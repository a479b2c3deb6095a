-- SPDX-License-Identifier: MIT
-- Replicas and multicasts of a group: of one member, for what is on the disk, and of three.
local mare, group, file = require "mare", require "mare.group", require "mare.file"
local t, peers, cases = require "t", require "peers", require "group_cases"
local node = require "mare.node"

local join = cases.join
local LONG, SHORT = 3600, 0.4 * t.slow -- leases: one that no noise ends, and a short one
local MEMBERS = {"flow", "home", "neap"}

local function alone(folder) return {members = {"home"}, folder = folder, lease = LONG} end

-- A list of what was applied, in its order; "bad" is refused.
local function note(list, value)
    if value == "bad" then error "a bad one" end
    list[#list + 1] = value
    return list, #list
end

-- A group of one with the replica "list"; both are left with the case.
local function with_list(folder, options)
    local bank = join("bank", alone(folder))
    local list, message, code = bank:replica("list", {}, note, options)
    if not list then
        bank:leave()
        return nil, message, code
    end
    return setmetatable({bank = bank.group}, {__index = function(_, key)
        return function(_, ...) return list[key](list, ...) end
    end, __close = function()
        list:leave()
        bank.group:leave()
    end})
end

local function short(folder) -- the same, started again: it waits for a lease before it votes
    return {members = {"home"}, folder = folder, lease = SHORT}
end

-- The state, whenever noise ends a short lease.
local function read(list)
    local ok, state
    t.reaches(function()
        ok, state = list:read(t.patience)
        return ok
    end, "the state")
    return state
end

-- Another member: it does what it is told, and tells what came of it.
local PEER = [[
    local group = require "mare.group"
    local options = OPTIONS
    if FOUNDS then assert(group.found("bank", options)) end
    local bank = assert(group.join("bank", options))
    local list = assert(bank:replica("list", {}, function(list, value)
        list[#list + 1] = value
        return list, #list
    end, {log = 20000}))
    local orders = mare.channel(4, "orders")
    local cast
    print "in"
    for what, a, b in orders:messages() do
        if what == "cast" then
            cast = assert(bank:multicast("news", {order = "total", timeout = a}))
            print "listens"
        elseif what == "hear" then
            local heard = {}
            for i = 1, a do
                local from, value = assert(cast:receive(b))
                heard[i] = from .. " " .. value
            end
            print(table.concat(heard, ","))
        elseif what == "say" then
            for i = 1, a do assert(cast:send(i)) end
        elseif what == "apply" then
            for i = 1, a do
                local ok, at, code = list:apply(("NAME %d"):format(i), b)
                if not ok then print("failed", at, code) end
            end
            print "applied"
        elseif what == "read" then
            local ok, state = list:read(a)
            print(ok and #state .. " " .. table.concat(state, ","))
        elseif what == "peek" then
            local _, state = list:peek()
            print(#state .. " " .. table.concat(state, ","))
        end
    end
]]

-- A leader of the log that says what the test wants said; what it is sent it tells once.
local LEADER = [[
    local party = require "mare._party"
    local inbox = mare.channel(64, "group.bank.replica.far")
    local orders = mare.channel(4, "orders")
    local HOME, EPOCH = 2, 7
    local home, life, payloads = nil, nil, {}
    local function say(...) home:send("flow", DIGEST, ...) end
    mare.go(function()
        for _, _, what, _, its_life, number, payload in inbox:messages() do
            if what == "forward" and number == #payloads + 1 then
                life, payloads[number] = its_life, payload
                print(number)
            end
        end
    end):detach()
    print "in"
    for what, number in orders:messages() do
        if what == "lead" then
            home = find "group.bank.replica.far@home"
            say("append", EPOCH, 0, 0, 0, {})
        elseif what == "state" then
            local text = party._pack {state = {"from", "afar"}, seen = {{HOME, life, number}}}
            say("piece", EPOCH, 9, 6, 0, #text, text)
        elseif what == "entry" then
            local data = ("<Bi8i8"):pack(HOME, life, number) .. payloads[number]
            say("append", EPOCH, 9, 6, 10, {EPOCH, data})
        end
    end
]]

local function options_of(folder, name, lease)
    return {members = MEMBERS, folder = folder .. "/" .. name, lease = lease or SHORT}
end

-- `others`: the addresses of members besides this one. A member has to reach all others.
local function peer(home, folder, name, founds, others, lease)
    local words = {OPTIONS = peers.source(options_of(folder, name, lease)),
        FOUNDS = tostring(founds), NAME = name}
    local made = peers.join(home, {name = name, listen = "127.0.0.1:0", join = others},
        PEER:gsub("%u%u%u+", words))
    t.eq(made.line(), "in")
    made.orders = peers.find("orders@" .. name)
    return made
end

-- The list of a peer; noise may end a lease at any time, and then it is asked for again.
local function list_of(who)
    local line
    t.reaches(function()
        who.orders:send("read", t.patience)
        line = who.line()
        return line ~= "nil"
    end, "a list")
    return line
end

local function text_of(list)
    local state = read(list)
    return #state .. " " .. table.concat(state, ",")
end

return {
    a_state_may_be_a_list_with_keys_besides = t.in_folder(function(folder)
        local home <close> = peers.home()
        t.ok(group.found("bank", alone(folder)))
        local function count(state, value)
            state.n = state.n + 1
            state[#state % 10 + 1] = value
            return state, state.n
        end
        for life = 1, 2 do -- the second begins with what was kept
            local bank <close> = join("bank", life == 1 and alone(folder) or short(folder))
            local counted = t.ok(bank:replica("counted", {n = 0}, count, {log = 500}))
            for i = 1, 100 do
                local due = (life - 1) * 100 + i
                t.eq(cases.apply(counted, {i, what = "both"}) or due, due)
            end
            local state = read(counted)
            t.eq({state.n, #state, state[1].what}, {life * 100, 10, "both"})
            t.ok(counted:look().base > 0) -- only the state was kept of what is before
            counted:leave()
        end
        t.ok(home)
    end),

    what_is_applied_is_there_after_a_restart = t.in_folder(function(folder)
        local home <close> = peers.home()
        t.ok(group.found("bank", alone(folder)))
        do
            local list <close> = t.ok(with_list(folder))
            t.eq({list:apply("a", t.patience)}, {true, 1})
            t.eq({list:apply("b", t.patience)}, {true, 2})
            t.fails("failed", list:apply("bad", t.patience))
            t.eq({list:read(t.patience)}, {true, {"a", "b"}})
            t.eq({list:peek()}, {true, {"a", "b"}})
            t.fails("exists", list.bank:replica("list", {}, note))
            t.eq({list.bank:replica "list":apply("c", t.patience)}, {true, 3})
            t.fails("noname", list.bank:replica "other")
            t.raises("plain values expected", list.apply, list, print)
            t.raises("value expected", list.apply, list, nil)
            t.eq(list:look().leader, "home")
        end
        local log = folder .. "/group-bank/log-replica-list/log"
        local good = t.ok(file.read(log))
        t.ok(file.write(log, good .. "half of a rec")) -- written when the machine stopped
        do
            local bank <close> = join("bank", short(folder))
            local list = t.ok(bank:replica("list", {}, note))
            t.eq(cases.apply(list, "d") or 4, 4)
            t.eq(read(list), {"a", "b", "c", "d"})
            t.ok(list:leave())
        end
        t.ok(file.write(log, good:sub(1, 40) .. "X" .. good:sub(42))) -- no end that is missing
        t.fails("corrupt", with_list(folder))
        t.ok(home)
    end),

    who_has_lost_its_disk_votes_no_more = t.in_folder(function(folder)
        local disk = require "mare._group_disk"
        for start = 1, 3 do -- it is remembered, also when the log is written anew
            local opened, kept = t.ok(disk.open(folder .. "/new", start == 1))
            t.eq(kept.lost, true)
            t.eq(kept.promised, start > 1 and 7 or 0)
            opened:promise(7)
            opened:sync()
            if start == 2 then opened:replace(3, 7, "state", 7, function() end) end
            opened:close()
        end
        local opened, kept = t.ok(disk.open(folder .. "/other"))
        t.ok(not kept.lost)
        opened:close()
    end),

    a_long_log_becomes_a_state = t.in_folder(function(folder)
        local home <close> = peers.home()
        t.ok(group.found("bank", alone(folder)))
        do
            local list <close> = t.ok(with_list(folder, {log = 1000}))
            for i = 1, 50 do t.ok(list:apply(i, t.patience)) end
            t.ok(list:look().base > 10)
            t.ok(t.ok(file.stat(folder .. "/group-bank/log-replica-list/log")).size < 3000)
        end
        local bank <close> = join("bank", short(folder))
        local list = t.ok(bank:replica("list", {}, note))
        local state = read(list)
        t.eq(#state, 50)
        t.eq(state[50], 50)
        t.ok(list:leave())
        t.ok(home)
    end),

    a_multicast_comes_in_order_and_in_a_select = t.in_folder(function(folder)
        local home <close> = peers.home()
        t.ok(group.found("bank", alone(folder)))
        local bank <close> = join("bank", alone(folder))
        local news = t.ok(bank:multicast("news", {order = "causal"}))
        for i = 1, 500 do t.ok(news:send(i)) end
        for i = 1, 500 do t.eq({news:receive(t.patience)}, {"home", i}) end
        t.fails("timeout", news:receive(0.001))
        t.ok(news:send {deep = {true, "x"}})
        t.eq({mare.select({mare.channel(), news}, t.patience)}, {2, "home", {deep = {true, "x"}}})
        local other = t.ok(bank:multicast "news") -- hears what is sent from now on
        t.ok(other:send(false))
        t.eq({other:receive(t.patience)}, {"home", false})
        t.raises('"fifo", "causal" or "total"', bank.multicast, bank, "x", {order = "any"})
        t.ok(news:leave())
        t.eq({news:receive(t.patience)}, {"home", false})
        t.fails("closed", news:receive(t.patience))
        t.fails("closed", other:send(1))
        t.ok(home)
    end),

    three_agree_while_members_freeze_die_and_come_back = {t.in_folder(function(folder)
        local home <close> = peers.home()
        local flow <close> = peer(home, folder, "flow", true)
        local neap = peer(home, folder, "neap", true, {flow.address})
        local options = options_of(folder, "home")
        t.ok(group.found("bank", options))
        local bank <close> = join("bank", options)
        local list = t.ok(bank:replica("list", {}, note, {log = 20000}))
        for _, who in ipairs {flow, neap} do who.orders:send("cast", t.patience) end
        local news = t.ok(bank:multicast("news", {timeout = t.patience}))
        for _, who in ipairs {flow, neap} do t.eq(who.line(), "listens") end

        -- The same order everywhere, and each one's own as it was sent.
        flow.orders:send("say", 20)
        neap.orders:send("say", 20)
        for i = 1, 20 do t.ok(news:send(i)) end
        flow.orders:send("hear", 60, t.patience)
        neap.orders:send("hear", 60, t.patience)
        local heard, last = {}, {flow = 0, home = 0, neap = 0}
        for i = 1, 60 do
            local from, value = t.ok(news:receive(t.patience))
            t.eq(value, last[from] + 1)
            last[from], heard[i] = value, from .. " " .. value
        end
        t.eq(flow.line(), table.concat(heard, ","))
        t.eq(neap.line(), table.concat(heard, ","))

        -- Nothing that was acknowledged is lost when one of three is killed in the middle.
        local done = 0
        local function apply_more(count)
            for _ = 1, count do
                done = done + 1
                cases.apply(list, ("home %d"):format(done))
            end
        end
        flow.orders:send("apply", 30, t.patience)
        apply_more(10)
        neap.signal "KILL"
        neap.child:wait(t.patience)
        apply_more(10)
        local line = flow.line()
        while line ~= "applied" do
            t.ok(line:find "unsure" or line:find "noquorum", line)
            line = flow.line()
        end

        -- One that comes back gets what it has missed: here a state, for the log is short.
        cases.apply(list, ("x"):rep(30000))
        apply_more(5)
        local again <close> = peer(home, folder, "neap", false, {flow.address})
        local whole = text_of(list)
        t.eq(list_of(again), whole)
        t.eq(list_of(flow), whole)
        for i = 1, done do t.ok(whole:find(("home %d"):format(i), 1, true), i) end

        -- Without a majority nobody is told that anything was done.
        flow.signal "STOP"
        again.signal "STOP"
        local ok, _, code
        t.reaches(function()
            ok, _, code = list:apply("lonely", 0.05)
            return code == "noquorum"
        end, "noquorum")
        t.ok(not ok)
        flow.signal "CONT"
        again.signal "CONT"
        whole = text_of(list)
        t.eq(list_of(flow), whole)
        t.ok(list:leave())
    end), timeout = 120},

    -- What this member has sent comes back in a state that replaces the log, not one by one.
    who_gets_a_state_does_not_wait_for_what_it_has_sent = {t.in_folder(function(folder)
        local FLYING = 32 -- bundles on their way
        local home <close> = peers.home()
        local digest = ("%q"):format(("bank flow,home %d 1000"):format(LONG * 1000000))
        local flow <close> = peers.join(home, {name = "flow", listen = "127.0.0.1:0"},
            (LEADER:gsub("DIGEST", digest)))
        t.eq(flow.line(), "in")
        flow.orders = peers.find "orders@flow"
        local options = {members = {"flow", "home"}, folder = folder, lease = LONG}
        t.ok(group.found("bank", options))
        local bank <close> = join("bank", options)
        local list = t.ok(bank:replica("far", {}, note))
        local answers = mare.channel(2 * FLYING)
        local function start(what, value)
            mare.go(function() answers:send(what, list[what](list, value)) end):detach()
        end
        flow.orders:send "lead"
        for i = 1, FLYING do
            if i == FLYING then start "read" else start("apply", i) end
            t.eq(flow.line(), tostring(i))
        end
        start("apply", "after")
        flow.orders:send("state", FLYING)
        t.eq(flow.line(), tostring(FLYING + 1))
        for _ = 1, FLYING do
            local what, ok, state, code = answers:receive(t.patience)
            if what == "read" then
                t.eq({ok, state}, {true, {"from", "afar"}})
            else
                t.eq({what, ok, code}, {"apply", nil, "unsure"})
            end
        end
        flow.orders:send("entry", FLYING + 1)
        t.eq({answers:receive(t.patience)}, {"apply", true, 3})
        t.ok(list:leave())
    end), timeout = 60},

    -- A member that has not opened it asks the nearest one that answers.
    a_state_is_read_where_it_is_near = {t.in_folder(function(folder)
        local shared = require "mare._group_shared"
        local home <close> = peers.home()
        local flow <close> = peer(home, folder, "flow", true, nil, LONG)
        local neap <close> = peer(home, folder, "neap", true, {flow.address}, LONG)
        local options = options_of(folder, "home", LONG)
        t.ok(group.found("bank", options))
        local bank <close> = join("bank", options)
        flow.orders:send("apply", 3, t.patience)
        t.eq(flow.line(), "applied")
        local near = node.near
        local function reads(first, second)
            node.near = function() return {{name = first}, {name = second}} end
            local ok, state, from = bank:peek("list", t.patience)
            node.near = near
            t.ok(ok, state)
            return from, #state
        end
        shared.each = t.patience
        t.eq({reads("flow", "neap")}, {"flow", 3})
        t.eq(reads("neap", "flow"), "neap") -- which may be behind
        t.fails("noname", bank:peek("other", t.patience))
        flow.signal "STOP"
        shared.each = 0.01
        t.eq(reads("flow", "neap"), "neap")
        neap.signal "STOP"
        t.fails("timeout", bank:peek("list", 0.1))
        local waiting = mare.go(reads, "neap", "flow") -- both are asked, and both are waited for
        t.fails("timeout", waiting:join(0.2))
        flow.signal "CONT"
        t.eq({waiting:join(t.patience)}, {true, "flow", 3})
        neap.signal "CONT"
        local list = t.ok(bank:replica("list", {}, note, {log = 20000}))
        t.reaches(function() -- it gets what the others have
            local ok, state = list:peek()
            return t.ok(ok, state) and #state == 3
        end, "the state here")
        t.eq({reads("neap", "flow")}, {"home", 3})
    end), timeout = 120},

    -- Else the others would have a state that this one has not.
    who_lacks_memory_for_a_value_ends = t.in_folder(function(folder)
        local home <close> = peers.home()
        t.ok(group.found("bank", alone(folder)))
        local bank <close> = join("bank", alone(folder))
        local function make(fails)
            return t.ok(bank:replica("sum", 0, function(sum, value)
                if fails and value == 2 then error("not enough memory", 0) end
                return sum + value
            end))
        end
        local sum = make(true)
        t.ok(sum:apply(1, t.patience))
        t.fails("unsure", sum:apply(2, t.patience))
        t.fails("closed", sum:read(t.patience))
        local again
        t.reaches(function()
            local fine, made = pcall(make)
            again = fine and made
            return again
        end, "to have it again")
        t.eq({again:read(t.patience)}, {true, 3})
        t.ok(again:leave())
        t.ok(home)
    end),
}
