-- SPDX-License-Identifier: MIT
-- Traces of several nodes: what one does is the cause of what another does, whoever looks at it: in
-- the files, in the drawing of them all, and by the vector clocks of the log for ShiViz.
local t, shell, peers = require "t", require "shell", require "peers"
local file, json = require "mare.file", require "mare.json"

local function traced(path, options, text)
    return peers.start(options, text,
        {"sh", "-c", ('exec "$0" --trace %s "$@"'):format(shell.quote(path))})
end

-- `till` answers three times and ends, which `clerk` waits for.
local EBB = [[
    local orders, over = mare.channel(4, "orders"), mare.channel(1, "over")
    local till = mare.spawn({name = "till"}, function(orders)
        for n, reply in orders:messages() do
            reply:send(n + 1, require "mare".self())
            if n == 3 then return "closed" end
        end
    end, orders)
    over:receive()
    node.stop(60)
]]
local FLOW = [[
    local orders, over = find "orders@ebb", find "over@ebb"
    local clerk = mare.spawn({name = "clerk"}, function(orders)
        local reply = require "mare".channel(1)
        local m, till
        for n = 1, 3 do
            orders:send(n, reply)
            m, till = reply:receive()
            assert(m == n + 1)
        end
        assert(till:join())
    end, orders)
    clerk:join()
    over:send(true)
    node.stop(60)
]]

local function read(path, node)
    local events = {by = {}, node = node}
    for line in t.ok(file.read(path)):gmatch "[^\n]+" do
        local event = json.decode(line)
        events[#events + 1], events.by[event.number] = event, event
        if event.event == "start" and event.name then events[event.name] = event.process end
        if event.event == "node" then t.eq(event.node, node) end
        event.of = node
    end
    return events
end

-- Both programs, run to their ends: what they have written.
local function run(folder)
    local paths = {ebb = folder .. "/ebb.trace", flow = folder .. "/flow.trace"}
    local ebb <close> = traced(paths.ebb, {name = "ebb", listen = "127.0.0.1:0"}, EBB)
    local flow <close> = traced(paths.flow, {name = "flow", join = {ebb.address}}, FLOW)
    t.eq({flow.child:wait(t.patience)}, {"exit", 0})
    t.eq({ebb.child:wait(t.patience)}, {"exit", 0})
    return {ebb = read(paths.ebb, "ebb"), flow = read(paths.flow, "flow")}, paths
end

-- The event that caused this one, through its arrival if it came from the other node.
local function source(traces, event)
    local cause = event.cause and traces[event.of].by[event.cause]
    if cause and cause.event == "arrive" then return traces[cause.node].by[cause.cause] end
    return cause
end

local function draw(paths, options)
    local got = shell.run(("%s trace draw %s %s %s"):format(shell.mare, shell.quote(paths.ebb),
        shell.quote(paths.flow), options))
    t.eq({got.code, got.err}, {0, ""})
end

-- A log for ShiViz: a list of {what =, host =, clock =}.
local function read_log(path)
    local log, lines = {}, {}
    for line in t.ok(file.read(path)):gmatch "[^\n]+" do lines[#lines + 1] = line end
    for i = 1, #lines, 2 do
        local host, clock = lines[i + 1]:match "^(%S+) ({.*})$"
        log[#log + 1] = {what = lines[i], host = host, clock = json.decode(clock)}
    end
    return log
end

return {
    what_one_node_does_is_caused_by_another = t.in_folder(function(folder)
        local traces = run(folder)
        local till, clerk = t.ok(traces.ebb.till), t.ok(traces.flow.clerk)
        local crossed = {}
        for _, trace in pairs(traces) do
            for _, event in ipairs(trace) do
                local from = source(traces, event)
                if from then t.ok(from.number < event.number, event.number) end
                if from and from.of ~= event.of and event.event == "receive" then
                    local who = ("%s %s %d to %d"):format(from.event, from.of, from.process,
                        event.process)
                    crossed[who] = (crossed[who] or 0) + 1
                end
            end
        end
        t.eq(crossed[("send flow %d to %d"):format(clerk, till)], 3)
        t.eq(crossed[("send ebb %d to %d"):format(till, clerk)], 3)
        t.eq(crossed[("end ebb %d to %d"):format(till, clerk)], 1)
    end),

    they_are_drawn_together = t.in_folder(function(folder)
        local traces, paths = run(folder)
        local svg = folder .. "/a.svg"
        draw(paths, "--process ebb/till,flow/clerk --out " .. shell.quote(svg))
        svg = t.ok(file.read(svg))
        local function count(what) return select(2, svg:gsub(what, "")) end
        -- Orders, whose channel has a name where they are received; answers, the end.
        t.eq({count 'class="m f3', count 'class="m f1', count 'class="m f2', count ">ended<"},
            {3, 3, 1, 2})
        t.eq(count "<title>orders channel=%d+[^<]* flow/", 3)
        local names = {("flow/%d:clerk"):format(traces.flow.clerk),
            ("ebb/%d:till"):format(traces.ebb.till)}
        t.eq(count(names[1] .. " → " .. names[2]), 3)
        t.eq(count(names[2] .. " → " .. names[1]), 4)
        t.eq(count("<text [^>]*>" .. names[1] .. "</text>"), 1)
        -- Of one node alone: what comes from the other one comes from outside.
        local got = shell.run(("%s trace draw %s --process till,0 --out %s/b.svg"):format(
            shell.mare, shell.quote(paths.ebb), shell.quote(folder)))
        t.eq({got.code, got.err}, {0, ""})
        svg = t.ok(file.read(folder .. "/b.svg"))
        t.eq(count(("outside → %d:till"):format(traces.ebb.till)), 3)
    end),

    vector_clocks_tell_what_happened_before = t.in_folder(function(folder)
        local traces, paths = run(folder)
        draw(paths, "--from 0 --shiviz " .. shell.quote(folder .. "/run.log"))
        local log, before = read_log(folder .. "/run.log"), {}
        local clerk = ("flow/%d:clerk"):format(traces.flow.clerk)
        local till = ("ebb/%d:till"):format(traces.ebb.till)
        local crossed = 0
        for _, entry in ipairs(log) do
            local mine = entry.clock[entry.host]
            local last = before[entry.host]
            t.eq(mine, (last and last.clock[entry.host] or 0) + 1) -- it ticks with each event
            for host, value in pairs(last and last.clock or {}) do
                t.ok(entry.clock[host] >= value, host)
            end
            before[entry.host] = entry
            local order = "^receive over channel %d+ %(orders%), by send of "
            if entry.host == till and entry.what:find(order .. clerk:gsub("%p", "%%%0") .. "$") then
                crossed = crossed + 1
                -- What the clerk has sent for the n-th time, it had received n - 1 answers before.
                t.ok(entry.clock[clerk] >= crossed, entry.clock[clerk])
                local sent = 0
                for _, other in ipairs(log) do
                    if other.host == clerk and other.clock[clerk] <= entry.clock[clerk]
                        and other.what:find "^send" then
                        sent = sent + 1
                    end
                end
                t.eq(sent, crossed)
            end
        end
        t.eq(crossed, 3)
        local last = before[clerk]
        t.eq(last.clock[till], before[till].clock[till]) -- its end was waited for
    end),
}
