-- SPDX-License-Identifier: MIT
-- Nodes: programs with a name, on one machine or many. Their processes reach each other as if they
-- were in one program. Two of them, in two terminals:
--
--     local node = require "mare.node"
--     node.start {name = "ebb", listen = "127.0.0.1:7000"}         -- the first
--     require "mare".channel(10, "tides"):receive()
--
--     node.start {name = "flow", join = {"127.0.0.1:7000"}}        -- the second
--     require "mare".find("tides@ebb"):send("high water", 12.5)
--
-- What the process behind it does is in _keeper.lua.
local mare, checks, keys = require "mare", require "mare._check", require "mare.keys"
local time, raw, address_of = require "mare.time", require "mare._node", require "mare._address"
local start_process = require "mare._launch"

local node = {}

local KEEPER, PATIENCE = "mare.node", 15
local allowed = checks.set("name", "group", "listen", "address", "join", "keys", "secret",
    "insecure", "code", "allow", "silence", "message", "memory", "log", "guests",
    "attach")
local guest_limits = {connections = 100, calls = 64, seconds = 60}

local function is_channel(value)
    return type(value) == "userdata" and tostring(value):find "^channel " ~= nil
end

local function check_options(options)
    checks.argument("start", options, 1, "table", 4)
    checks.options("start", options, 1, allowed, 4)
    local function option(key, good, expected)
        checks.option("start", options, 1, key, good, expected, 5)
    end
    local function code(value)
        if type(value) == "table" then
            for _, word in pairs(value) do
                if type(word) == "table" or not code(word) then return false end
            end
            return true
        end
        return value == "none" or value == "source" or value == "bytecode"
    end
    local function between(least, most)
        return function(value)
            return type(value) == "number" and value >= least and value <= most
        end
    end
    local function short(value) return type(value) == "string" and #value <= 255 end
    local function names(value)
        if type(value) ~= "table" then return false end
        for _, name in ipairs(value) do
            if type(name) ~= "string" then return false end
        end
        return true
    end
    option("name", function(name)
        return type(name) == "string" and #name <= 63
            and name:find "^[a-z][a-z0-9._-]*%+?[a-z0-9]*$"
    end, "a letter, then letters, digits, '.', '_' and '-', in lower case, 63 at most")
    if not options.name then error("bad argument #1 to 'start' (a node needs a 'name')", 3) end
    option("listen", "string", "a string")
    for _, key in ipairs {"keys", "secret"} do
        option(key, function(path) return type(path) == "string" and not path:find "\0" end,
            "a string without zero bytes")
    end
    if options.keys and options.secret then
        error("bad argument #1 to 'start' (a node has 'keys' or a 'secret', not both)", 3)
    end
    for _, key in ipairs {"group", "address"} do
        option(key, short, "a string of 255 bytes at most")
    end
    for _, key in ipairs {"join", "allow", "attach"} do option(key, names, "a list of strings") end
    option("insecure", "boolean", "a boolean")
    option("code", code, "'none', 'source' or 'bytecode', or a table of these by names of nodes")
    option("silence", between(0.2, 3600), "a number of seconds, 0.2 at least, 3600 at most")
    option("message", between(1024, 1 << 28), "a number of bytes, from 1024 to 268435456")
    option("memory", between(1, 1 << 50), "a number of bytes")
    option("log", is_channel, "a channel")
    option("guests", function(value)
        if type(value) == "boolean" then return true end
        if type(value) ~= "table" then return false end
        for key, limit in pairs(value) do
            if not guest_limits[key] or not between(0.01, 1e6)(limit) then return false end
        end
        return true
    end, "a boolean, or a table of 'connections', 'calls' and 'seconds'")
end

-- Whether only programs of this machine can connect to an address.
local function is_local(address)
    return address:find "^[/.]" or address:find "^127%.%d+%.%d+%.%d+:" or address:find "^%[::1%]:"
        or address:find "^localhost:"
end
node._is_local = is_local

-- The TLS options, from the files of `mare keys`. Without keys: allowed if that is safe, or wanted.
local function credentials(options)
    if options.keys then return keys.load(options.keys, options.name:match "^[^+]*") end
    if options.secret then
        local psk, message, code = keys.secrets(options.secret)
        if not psk then return nil, message, code end
        return {psk = psk, min_version = "1.3"}
    end
    if options.insecure then return false end
    local addresses = {options.listen}
    for _, address in ipairs(options.join or {}) do
        addresses[#addresses + 1] = address:gsub("^[%w._-]+@", "")
    end
    for _, address in pairs(addresses) do
        local ok, why = true, nil
        if not address:find "^[/.]" then ok, why = address_of(address, nil, true) end
        if not ok then return nil, why, "invalid" end
        if not is_local(address) then
            return nil, ("'%s' can be reached by others: give the node 'keys' or a 'secret' (see "
                .. "'mare help keys'), or 'insecure' if everybody may come in"):format(address),
                "denied"
        end
    end
    return false
end

-- ---- Asking -------------------------------------------------------------------------------------

local function patience_of(name, timeout, index, level)
    return checks.deadline(name, timeout or PATIENCE, index, level)
end

-- Sends a request, and waits for the answer.
local function ask(channel, deadline, ...)
    local reply = mare.channel(1)
    local ok, message, code = channel:sendwithin(deadline, reply, ...)
    if not ok then return nil, message, code end
    return reply:receive(deadline)
end

-- Asks another node. If that node is lost before it has answered, its `over` is closed.
local function ask_node(service, deadline, ...)
    local reply = mare.channel(1)
    local ok, message, code = service.channel:sendwithin(deadline, reply, ...)
    if not ok then return nil, message, code end
    local function outcome(which, ...)
        if which ~= 2 then return ... end
        local first, second, third = reply:tryreceive() -- in the same moment
        if third == "empty" then return nil, "the node cannot be reached", "nonode" end
        return first, second, third
    end
    local function answer(which, ...)
        if which == nil then return nil, ... end -- timeout
        return outcome(which, ...)
    end
    return answer(mare.select({reply, service.over}, deadline))
end

local function keeper()
    local channel = mare.find(KEEPER)
    if not channel then
        return nil, "this program is not a node: call node.start first", "nonode"
    end
    return channel
end

-- The service channel of another node, given by name or address. Dials if necessary.
local function service_of(name, deadline, address)
    local channel, message, code = keeper()
    if not channel then return nil, message, code end
    local ok, told, why = ask(channel, deadline, "reach", name, address)
    if not ok then return nil, told, why end
    local fine, service, over = ask(channel, deadline, "service", told)
    if not fine then return nil, service, over end
    return {channel = service, over = over}
end

function node._service(name, address, timeout)
    return service_of(name, mare.deadline(timeout), address)
end

-- ---- For programs -------------------------------------------------------------------------------

-- Starts the keeper, and waits until it has begun.
local function launch(settings)
    local requests, message, code = mare.channel(16, KEEPER)
    if code == "exists" then return nil, "this program is a node already", code end
    if not requests then return nil, message, code end
    local begun, address, why = start_process("node", "mare._keeper", settings, requests)
    if not begun then return nil, address, why end
    return address or true
end

-- Lets nodes of these names attach: see _console.lua.
local function offer_console(names)
    local rights = {names = {}}
    for _, name in ipairs(names) do rights.names[name] = true end
    node.export("mare.attach", function(...) return require "mare._console"(rights, ...) end)
end

--- Makes this program a node. Returns its address, where others can join it, or true if it does not
--- listen; or nil, message, code.
function node.start(options)
    check_options(options)
    local settings = {}
    for key, value in pairs(options) do settings[key] = value end
    local tls, message, code = credentials(options)
    if tls == nil then return nil, message, code end
    settings.tls, settings.insecure = tls or nil, not tls
    settings.private = not tls and not options.insecure
    settings.group, settings.code = options.group or "", options.code or "none"
    settings.silence_us = math.ceil((options.silence or 3) * 1e6)
    settings.message_bytes = math.ceil(options.message or 4 << 20)
    -- The wall clock, so that a later life of the node has a larger number.
    settings.incarnation = select(2, time.now())
    if options.guests then
        local given = options.guests == true and {} or options.guests
        settings.guests = {}
        for key, limit in pairs(guest_limits) do settings.guests[key] = given[key] or limit end
    end
    if options.allow then
        settings.allow = {}
        for _, name in ipairs(options.allow) do settings.allow[name] = true end
    end
    local address
    address, message, code = launch(settings)
    if tls then keys._forget(tls) end -- the keeper has them
    if not address then return nil, message, code end
    if options.attach then offer_console(options.attach) end
    return address
end

--- The name of the node that a channel or a process belongs to; nil if it is this one's.
node.home = raw.home

--- Connects to a node at an address, `host:port` or `name@host:port`. Returns its name.
function node.connect(address, timeout)
    checks.argument("connect", address, 1, "string")
    local deadline = patience_of("connect", timeout, 2)
    local channel, message, code = keeper()
    if not channel then return nil, message, code end
    local name, rest = address:match "^([%w._-]+)@(.+)$"
    local ok, told, why = ask(channel, deadline, "reach", name, rest or address)
    if not ok then return nil, told, why end
    return told
end

-- The C function mare.find or mare.spawn is between the program and these two.
local AROUND <const> = 4 -- the level of `error` for the program's line

--- The channel or process that has a name on another node: `name@node`.
function node.find(address, timeout)
    checks.argument("find", address, 1, "string", AROUND)
    local deadline = patience_of("find", timeout, 2, AROUND)
    local name, where = address:match "^(.*)@([^@]*)$"
    if not name then error("bad argument #1 to 'find' (a name is 'name@node')", AROUND - 1) end
    if where == raw._name() then return mare.find(name) end
    local service, message, code = service_of(where, deadline)
    if not service then return nil, message, code end
    local ok, found, why = ask_node(service, deadline, "find", name)
    if not ok then return nil, found, why end
    return found
end

local spawn_options = checks.set("node", "name", "memory", "link", "monitor", "timeout")

local function check_spawn(options, body)
    local level = AROUND + 1
    checks.argument("spawn", options, 1, "table", level)
    checks.options("spawn", options, 1, spawn_options, level)
    local function option(key, good, expected)
        checks.option("spawn", options, 1, key, good, expected, level + 1)
    end
    option("node", "string", "the name of a node")
    option("name", function(value) return type(value) == "string" and not value:find "\0" end,
        "a string without zero bytes")
    option("memory", function(value)
        return type(value) == "number" and (math.tointeger(value) or 0) > 0
    end, "a positive whole number of bytes")
    option("link", "boolean", "a boolean")
    option("monitor", function(value) return type(value) == "boolean" or is_channel(value) end,
        "true or a channel")
    local kind = type(body)
    if kind ~= "function" and kind ~= "string" and kind ~= "table" then
        error(("bad argument #2 to 'spawn' (function or string expected, got %s)"):format(kind),
            level - 1)
    end
    if kind ~= "table" then return end
    checks.option("spawn", body, 2, "source", "string", "a string", level)
    checks.option("spawn", body, 2, "name", "string", "a string", level)
    if not body.source then error("bad argument #2 to 'spawn' (it has no 'source')", level - 1) end
end

-- Starts the process here: the node turned out to be this one.
local function spawn_here(options, deadline, body, ...)
    local run, message = body
    if type(body) == "string" then
        local ok, code
        ok, run, code = ask(keeper(), deadline, "exported", body)
        if not ok then return nil, run, code end
    elseif type(body) == "table" then
        run, message = load(body.source, body.name or "=(sent)", "t")
        if not run then return nil, message, "syntax" end
    end
    return mare.spawn({name = options.name, memory = options.memory, link = options.link,
        monitor = options.monitor}, run, ...)
end

-- Calls f. If it raises an error, that is about an argument which cannot be sent: the error is
-- raised again for the program's line. `before`: how many values f sends before them.
local function blamed(before, f, ...)
    local function outcome(ok, ...)
        if ok then return ... end
        local why = tostring((...)):gsub("^mare%.node:%d+: ", "")
        checks.blame((why:gsub("^arg (%d+)", function(n) return "arg " .. n - before end)))
    end
    return outcome(pcall(f, ...))
end

--- A process on another node; options as those of mare.spawn, with `node` and `timeout`.
function node.spawn(options, body, ...)
    check_spawn(options, body)
    local kind, deadline = type(body), patience_of("spawn", options.timeout, 1, AROUND)
    if options.node == raw._name() then
        return blamed(0, spawn_here, options, deadline, body, ...)
    end
    local service, message, code = service_of(options.node, deadline)
    if not service then return nil, message, code end
    if kind == "function" then -- another node could not even read it
        local asked, level = ask_node(service, deadline, "code")
        if asked and level ~= "bytecode" then
            return nil, ("node '%s' takes no functions from this one (its option 'code' is '%s')")
                :format(options.node, level), "denied"
        end
    end
    local ok, process, why = blamed(2, ask_node, service, deadline, "spawn",
        {name = options.name, memory = options.memory}, body, ...)
    if not ok then return nil, process, why end
    if options.link then process:link() end
    if options.monitor then
        local monitor = process:monitor(options.monitor ~= true and options.monitor or nil)
        return process, monitor
    end
    return process
end

--- Lets other nodes start processes that run this function, by a name. A copy of the function is
--- kept.
function node.export(name, f)
    checks.argument("export", name, 1, "string")
    checks.argument("export", f, 2, "function")
    local channel, message, code = keeper()
    if not channel then return nil, message, code end
    return ask(channel, patience_of("export"), "export", name, f)
end

--- The nodes that are known here, this one among them.
function node.list()
    local channel, message, code = keeper()
    if not channel then return nil, message, code end
    local ok, list, why = ask(channel, patience_of("list"), "list")
    if not ok then return nil, list, why end
    return list
end

--- The nodes whose places are known, the nearest first, and at most so many.
function node.near(count)
    if count ~= nil then
        checks.argument("near", count, 1, "number")
        if count ~= count then error("bad argument #1 to 'near' (a count cannot be NaN)", 2) end
    end
    local all, message, code = node.list()
    if not all then return nil, message, code end
    local near = {}
    for _, member in ipairs(all) do
        if member.estimate then near[#near + 1] = member end
    end
    table.sort(near, function(a, b) return a.estimate < b.estimate end)
    return table.move(near, 1, math.floor(math.max(0, math.min(count or #near, #near))), 1, {})
end

-- Waits for the next message that another node sends to a channel here, or until that node is lost.
-- Messages that came before the loss are still received.
function node._await(channel, server, watch, deadline)
    while true do
        local outcome = table.pack(mare.select({channel, watch}, deadline))
        if outcome[1] ~= 2 then
            if outcome[1] == nil then return nil, outcome[2], outcome[3] end
            return table.unpack(outcome, 2, outcome.n)
        end
        local what, name, why = outcome[2], outcome[3], outcome[4]
        if name == server and (what == "down" or what == "left") then
            if #channel > 0 then return channel:tryreceive() end
            return nil, ("the node '%s' was lost: %s"):format(server, why or what), "nonode"
        end
    end
end

-- The name of this node, or nil.
function node._name() return raw._name() end

-- Whether others have proved their names to this node, by certificates.
function node._proves()
    local channel, message, code = keeper()
    if not channel then return nil, message, code end
    local ok, proves, why = ask(channel, patience_of("list"), "proves")
    if not ok then return nil, proves, why end
    return proves
end

--- Sends news of nodes to a channel: "up", "suspected", "trusted", "down" or "left", the name, and
--- why.
function node.monitor(channel)
    channel = channel or mare.channel(100)
    if not is_channel(channel) then
        error("bad argument #1 to 'monitor' (channel expected)", 2)
    end
    local requests, message, code = keeper()
    if not requests then return nil, message, code end
    local ok, text, why = ask(requests, patience_of("monitor"), "watch", channel)
    if not ok then return nil, text, why end
    return channel
end

--- Leaves: tells the other nodes. After that this program is not a node any more.
function node.stop(timeout)
    local requests, message, code = keeper()
    if not requests then return nil, message, code end
    local deadline = patience_of("stop", timeout, 1)
    local ok, text, why = ask(requests, deadline, "stop", deadline:left() / 2)
    requests:close()
    if not ok then return nil, text, why end
    return true
end

return node
