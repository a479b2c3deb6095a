-- SPDX-License-Identifier: MIT
-- Groups in which only some members vote: of two, the one that is named goes on alone, and the
-- other one never does.
local group, file, t = require "mare.group", require "mare.file", require "t"
local peers, cases = require "peers", require "group_cases"

local LONG, SHORT = 3600, 0.4 * t.slow

local PEER = [[
    local group = require "mare.group"
    if FOUNDS then assert(group.found("bank", OPTIONS)) end
    local bank = assert(group.join("bank", OPTIONS))
    local list = assert(bank:replica("list", 0, function(n, value) return n + value end))
    local orders = mare.channel(4, "orders")
    print "joined"
    for what in orders:messages() do
        if what == "lock" then
            local lock, _, code = bank:lock("x", 1)
            local fence = lock and lock:fence()
            if lock then lock:release() end
            print(fence or code or "lost")
        else
            local ok, _, code = list:apply(1, 1)
            print(ok and "applied" or code)
        end
    end
]]

local function options_of(folder, name, algorithm)
    return {members = {"flow", "home"}, voters = {"home"}, folder = folder .. "/" .. name,
        lease = SHORT, algorithm = algorithm}
end

local function start(home, options, founds)
    local words = {OPTIONS = peers.source(options), FOUNDS = tostring(founds)}
    local made = peers.join(home, {name = "flow", listen = "127.0.0.1:0"},
        PEER:gsub("%u%u%u+", words))
    t.eq(made.line(), "joined")
    made.orders = peers.find "orders@flow"
    return made
end

-- What the other member says in the end, whatever noise does to short leases.
local function says(flow, what, pattern)
    local line
    t.reaches(function()
        flow.orders:send(what)
        line = flow.line()
        return line:find(pattern)
    end, ("%s by flow"):format(pattern))
    return tonumber(line)
end

local function applied(list) t.reaches(function() return list:apply(1, 1) end, "to apply here") end

local function named_one_goes_on(algorithm)
    return {t.in_folder(function(folder)
        local home <close> = peers.home()
        local here = options_of(folder, "home", algorithm)
        local there = options_of(folder, "flow", algorithm)
        t.ok(group.found("bank", here))
        local bank = t.ok(group.join("bank", here))
        local list = t.ok(bank:replica("list", 0, function(n, value) return n + value end))
        local first = cases.fence(bank) -- alone
        applied(list)
        local flow = start(home, there, true)
        local second = says(flow, "lock", "^%d+$")
        t.ok(second > first, second)
        says(flow, "apply", "applied")
        flow.signal "KILL"
        t.ok(flow.child:wait(t.patience))
        local third = cases.fence(bank) -- alone again
        t.ok(third > second, third)
        applied(list)
        local again <close> = start(home, there, false)
        local fourth = says(again, "lock", "^%d+$")
        t.ok(fourth > third, fourth)
        t.ok(bank:leave())
        says(again, "lock", "noquorum") -- the other one does not
        again.orders:send "apply"
        t.ok(again.line() ~= "applied")
        local back <close> = cases.join("bank", here)
        t.ok(cases.fence(back) > fourth)
        says(again, "lock", "^%d+$")
    end), timeout = 120}
end

return {
    of_two_the_named_one_goes_on_alone_majority = named_one_goes_on "majority",
    of_two_the_named_one_goes_on_alone_central = named_one_goes_on "central",
    of_two_the_named_one_goes_on_alone_ricart = named_one_goes_on "ricart",

    members_that_name_others_do_not_hear_each_other = t.in_folder(function(folder)
        local home <close> = peers.home()
        local here = {members = {"flow", "home"}, folder = folder .. "/home", lease = LONG}
        t.ok(group.found("bank", here))
        local bank <close> = cases.join("bank", here)
        local there = options_of(folder, "flow")
        there.lease = LONG
        local flow <close> = start(home, there, true)
        t.reaches(function()
            local flow_here = t.ok(bank:members())[1]
            return flow_here.name == "flow" and flow_here.disagrees
        end, "the news of flow")
        t.fails("noquorum", bank:lock("x", 0.05))
        flow.signal "KILL"
        flow.child:wait(t.patience)
        file.remove(there.folder, {tree = true})
        there.voters = nil
        local again <close> = start(home, there, true)
        local lock <close> = t.ok(bank:lock("x", t.patience))
        t.eq(t.ok(bank:members())[1].disagrees, nil)
        t.ok(again and lock)
    end),

    what_cannot_be_is_refused = t.in_folder(function(folder)
        local _ <close> = peers.home()
        local options = {members = {"home"}, folder = folder, lease = LONG, voters = {"neap"}}
        t.raises("'neap' is not among the members", group.found, "bank", options)
        options.voters = {}
        t.raises("option 'voters' must be a list", group.found, "bank", options)
        options.voters, options.members = {"home"}, {"flow", "home"}
        t.ok(group.found("bank", options))
        local bank <close> = cases.join("bank", options)
        t.ok(bank:lock("x", t.patience))
        t.fails("denied", bank:remove("flow", t.patience))
        t.fails("denied", bank:add("neap", t.patience))
        options.voters = nil
        bank.group:leave()
        t.fails("denied", group.join("bank", options)) -- the folder is of a group by others
    end),
}
