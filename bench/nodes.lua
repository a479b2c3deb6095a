-- SPDX-License-Identifier: MIT
-- Calls and messages between programs: a client, a server, and for some a third that keeps rules,
-- each a node in an operating-system process of its own.
--
--   nodes.lua call N        calls without arguments or results, one at a time
--   nodes.lua tls N         the same over TLS, with a shared secret
--   nodes.lua pipelined N   calls sent one after the other, answers as they come
--   nodes.lua messages N    the same with bare messages: a number there and a number back
--   nodes.lua big N         strings of 1 MiB, one after the other
--   nodes.lua monitor N     as `call`, of a function that runs under a monitor
--   nodes.lua queue N       … through the queue of mare.sc, without rules
--   nodes.lua constraint N  … with a rule in the server that says yes
--   nodes.lua remote N      … with a rule in a third program
--   nodes.lua get N         as `call`; get is free
--   nodes.lua parallel N    get, while another calls set, which a third program thinks about: 1 ms
--   nodes.lua serial N      the same, and requests are taken one at a time
--   nodes.lua busy N        as `parallel`, but the third program says yes at once
--   nodes.lua apart N       as `busy`, but set is a function of a fourth program: the same load, of
--                           which the server knows nothing
--
-- Of the last four, what is timed are the calls of get alone: set has been called before, and goes
-- on until they are over. `set_us` is what a set took meanwhile.
--
-- With a third argument, so many processes of the client call at the same time.
local mare, node, rpc = require "mare", require "mare.node", require "mare.rpc"
local child, file = require "mare.child", require "mare.file"

local ROLE, N, CALLERS = arg[1], tonumber(arg[2]), tonumber(arg[3] or 1)
local MIB = 1 << 20

local function wait_for(name)
    local deadline = mare.deadline(20)
    while true do
        local found, message = mare.find(name)
        if found then return found end
        if deadline:left() == 0 then error(message) end
        mare.sleep(0.01)
    end
end

-- ---- The programs that serve --------------------------------------------------------------------

local serve = {}

-- What the server does before it serves calls, by kind.
local prepare = {}

function prepare.monitor()
    local monitor = require "mare.monitor"
    nothing = monitor.doWhenFree(monitor.create(), function() end) -- luacheck: ignore
end

function prepare.queue() require "mare.sc".install() end

function prepare.constraint()
    require "mare.sc".add_constraint("nothing", function() return true end)
end

function prepare.serial() require "mare.sc".serial(true) end

function serve.server(kind)
    mare.spawn({name = "server"}, function()
        function nothing() end -- luacheck: ignore
        function get() end     -- luacheck: ignore
        function set() end     -- luacheck: ignore
        if prepare[kind] then prepare[kind]() end
        require "mare.rpc".serve()
    end)
    mare.spawn(function()
        for reply, value in mare.channel(64, "echo"):messages() do reply:send(value) end
    end)
    local sink = mare.channel(4, "sink")
    mare.spawn(function()
        for text, reply in sink:messages() do
            assert(#text == MIB)
            if reply then reply:send(true) end
        end
    end)
end

serve.other = serve.server

function serve.rules(kind)
    mare.spawn(function()
        local synchronizer = require "mare.synchronizer"
        local server = wait_for(kind == "apart" and "server@other" or "server@server")
        if kind == "remote" then
            synchronizer.add_constraint(server, "nothing", function() return true end)
        elseif kind == "busy" or kind == "apart" then
            synchronizer.add_constraint(server, "set", function() return true end)
        else
            synchronizer.add_constraint(server, "set", function()
                mare.sleep(0.001)
                return true
            end)
        end
        local ready = mare.channel(1, "ready")
        ready:send(true)
        rpc.serve()
    end)
end

if serve[ROLE] then
    local kind, address, secret = arg[2], arg[3], arg[4]
    assert(node.start {name = ROLE, listen = "127.0.0.1:0", join = {address},
        secret = secret ~= "" and secret or nil})
    serve[ROLE](kind)
    mare.sleep(3600)
end

-- ---- The client ---------------------------------------------------------------------------------

local folder = os.tmpname() -- a name; what it is of is a file, and keys want a folder of their own
os.remove(folder)
assert(file.mkdir(folder, {permissions = "700"}))
local secret = ROLE == "tls" and folder .. "/bench.psk" or nil
if secret then
    assert(child.run {arg[-1], "keys", "secret", "bench", "--folder", folder})
end
local address = assert(node.start {name = "client", listen = "127.0.0.1:0", secret = secret})

local function start(role)
    return assert(child.spawn {arg[-1], arg[0], role, ROLE, address, secret or "", stdin = "null",
        stdout = "inherit", stderr = "inherit", grace = 0})
end

local server <close> = start "server"
local process = wait_for "server@server"
local other <close> = ROLE == "apart" and start "other" or nil
local RULED = {remote = true, parallel = true, serial = true, busy = true, apart = true}
local rules <close> = RULED[ROLE] and start "rules" or nil
if rules then wait_for "ready@rules":receive() end

local measure = {}

function measure.call(n)
    local callers = {}
    for i = 1, CALLERS do
        callers[i] = mare.spawn(function()
            local nothing = require "mare.rpc".sync(process, "nothing")
            for _ = 1, n // CALLERS do assert(select("#", nothing()) == 0) end
        end)
    end
    for i = 1, CALLERS do assert(callers[i]:join()) end
end
for _, kind in ipairs {"tls", "monitor", "queue", "constraint", "remote"} do
    measure[kind] = measure.call
end

-- Calls set until `over` is closed. Returns how many microseconds a call took.
local function set_until(over, begun, target)
    local set, count, begin = require "mare.rpc".sync(target, "set"), 0, nil
    repeat
        assert(select("#", set()) == 0)
        if not begin then
            begun:send(true)
            begin = mare.now()
        else
            count = count + 1
        end
    until over:closed()
    return count > 0 and (mare.now() - begin) / count * 1e6 or 0
end

-- One calls get, and another set, from before the first get until after the last.
function measure.get(n)
    local over, begun = mare.channel(1), mare.channel(1)
    local target = other and wait_for "server@other" or process
    local setter = RULED[ROLE] and mare.spawn(set_until, over, begun, target)
    if setter then begun:receive() end
    local get = rpc.sync(process, "get")
    local begin = mare.now()
    for _ = 1, n do assert(select("#", get()) == 0) end
    local seconds, ok, set_us = mare.now() - begin, nil, nil
    over:close()
    if setter then ok, set_us = assert(setter:join()) end
    return seconds, ok and set_us
end
for _, kind in ipairs {"parallel", "serial", "busy", "apart"} do measure[kind] = measure.get end

function measure.pipelined(n)
    local done, left = mare.channel(1), n
    local nothing = rpc.async(process, "nothing", function(...)
        assert(select("#", ...) == 0)
        left = left - 1
        if left == 0 then done:send(true) end
    end)
    for _ = 1, n do nothing() end
    done:receive()
end

function measure.messages(n)
    local echo, reply = wait_for "echo@server", mare.channel(256)
    local all = mare.go(function()
        for i = 1, n do assert(reply:receive() == i) end
        return true
    end)
    for i = 1, n do echo:send(reply, i) end
    assert(all:join())
end

function measure.big(n)
    local sink, reply, text = wait_for "sink@server", mare.channel(1), ("x"):rep(MIB)
    for _ = 2, n do sink:send(text) end
    sink:send(text, reply)
    reply:receive()
end

measure[ROLE](math.max(1, N // 10))
local begin = mare.now()
local seconds, set_us = measure[ROLE](N)
seconds = seconds or mare.now() - begin
print(("us %.3f\nper_second %.1f"):format(seconds / N * 1e6, N / seconds))
if set_us then print(("set_us %.3f"):format(set_us)) end
file.remove(folder, {tree = true})
server:close()
if rules then rules:close() end
if other then other:close() end
os.exit(0)
