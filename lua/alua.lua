-- SPDX-License-Identifier: MIT
-- ALua's model over nodes: processes send each other pieces of Lua code, which the receiver runs
-- one after the other, each to its end; what came of them arrives as events.
--
--     local alua = require "alua"
--     alua.open({addr = "127.0.0.1", port = 6080}, function(reply)
--         alua.spawn(2, function(made)
--             for id in pairs(made.processes) do
--                 alua.send(id, "print(alua.id)", function(answer) print(answer.status) end)
--             end
--         end)
--     end)
--     alua.loop()
--
-- Here is what a process sees. A process of the runtime, the daemon of this program, does the rest:
-- mare/_alua_daemon.lua. Two kinds of messages come from it:
--
--     "chunk", token, number, code      to be run, and answered by "done", number
--     "reply", number, reply            what came of a call with this number
local mare, node, checks = require "mare", require "mare.node", require "mare._check"
local terminal, limits = require "mare.terminal", require "mare._alua_limits"

local alua = {codec = {}, timer = {}}

local DAEMON, PATIENCE = "mare.alua", 15

local inbox          -- what the daemon sends
local token          -- of what this process has opened
local calls = {}     -- by number: who is to be called back
local outstanding, last = 0, 0
local due = {}       -- callbacks that are to be called: {f, argument}
local timers = {}    -- {at =, period =, f =}
local current        -- the number of the chunk that runs
local looping = false

-- ---- Callbacks ----------------------------------------------------------------------------------

local function check_callback(name, cb, index)
    if cb ~= nil then checks.argument(name, cb, index, "function", 4) end
end

-- Calls back in the loop, where everything happens.
local function later(cb, reply)
    if cb then due[#due + 1] = {cb, reply} end
end

local function refuse(cb, text, ...)
    later(cb, {status = "error", error = text:format(...)})
end

-- A new number for a call, if there may be one more.
local function number_of(cb)
    last, outstanding = last + 1, outstanding + 1
    calls[last] = cb
    return last
end

-- ---- The daemon ---------------------------------------------------------------------------------

-- The channel of this program's daemon, which is started if need be.
local function daemon()
    local channel = mare.find(DAEMON)
    if channel then return channel end
    channel = mare.channel(limits.requests, DAEMON)
    if not channel then return daemon() end -- another process was faster
    assert(mare.spawn({_background = true},
        function(requests) return require "mare._alua_daemon"(requests) end, channel))
    return channel
end

local function box()
    inbox = inbox or mare.channel(limits.chunks + limits.calls)
    return inbox
end

-- Has something done by the daemon, or by the one that this process has opened; then calls back.
local function call(cb, operation, ...)
    if cb and outstanding >= limits.calls then
        return refuse(cb, "%d calls have not been answered yet", outstanding)
    end
    daemon():send("call", box(), cb and number_of(cb), alua.daemonid, operation, ...)
end

local function ask(...)
    local answer = mare.channel(1)
    daemon():send("ask", answer, ...)
    return answer:receive(PATIENCE)
end

-- ---- Opening and closing ------------------------------------------------------------------------

local function here()
    for _, member in ipairs(node.list() or {}) do
        if member.here then return member.address or member.name end
    end
end

-- What node.start is to be given for a table of alua.open.
local function settings_of(cfg)
    local options = {listen = ("%s:%d"):format(cfg.addr or "127.0.0.1", cfg.port or 6080)}
    for key, value in pairs(cfg) do
        if key ~= "addr" and key ~= "port" then options[key] = value end
    end
    options.name = options.name or ("alua-%08x"):format(math.random(0, 0xffffffff))
    return options
end

-- Makes this program a node, unless it is one: then its options are those that it has.
local function become(options)
    local address = here()
    if address then return address end
    local ok, message = node.start(options)
    address = here() -- also if another process was faster
    if not address then return nil, ok or message end
    return address
end

local function opened(cb, reply, problem)
    if not reply then reply = {status = "error", error = problem} end
    if reply.status == "ok" then
        alua.id, alua.daemonid, token = reply.id, reply.daemon, reply.token
    end
    later(cb, {status = reply.status, error = reply.error, id = reply.id, daemon = reply.daemon})
end

-- Opens the daemon of this program; `id` if it is not to be given a number.
local function open_here(options, cb, id)
    local address, problem = become(options)
    if not address then return refuse(cb, "%s", problem) end
    opened(cb, ask("open", mare.self(), box(), address, id))
end

--- Makes this process one that runs what others send: with a daemon in this program, or (a string)
--- with one at an address.
function alua.open(cfg, cb)
    check_callback("open", cb, 2)
    if alua.id then return refuse(cb, "this process is open already") end
    if type(cfg) == "string" then
        local fine, problem = become {name = settings_of({}).name}
        if not fine then return refuse(cb, "%s", problem) end
        return opened(cb, ask("join", mare.self(), box(), cfg))
    end
    if cfg ~= nil then checks.argument("open", cfg, 1, "table") end
    open_here(settings_of(cfg or {}), cb)
end

--- Starts another program, which is a daemon, and ends with this one.
function alua.create(cfg, cb)
    if cfg ~= nil then checks.argument("create", cfg, 1, "table") end
    check_callback("create", cb, 2)
    call(cb, "create", settings_of(cfg or {}))
end

-- What a program that was started by alua.create does.
function alua._serve(options)
    mare.go(function() -- which holds the other end of this pipe
        terminal.input():read "a"
        os.exit(0)
    end)
    open_here(options, function(reply)
        print(reply.error and "error " .. reply.error or "ok " .. reply.id)
        if reply.error then os.exit(1) end
    end, true)
    alua.loop()
    os.exit(0)
end

-- The main script of a process that was made by alua.spawn.
function alua._begin(...)
    inbox, token, alua.id, alua.daemonid = ...
    alua.loop()
end

-- Tells the sender of the chunk that runs, which has no more to say.
local function acknowledge()
    if current then daemon():send("done", current, true) end
    current = nil
end

--- Runs nothing more of what others send. Calls that were not answered have failed.
function alua.close()
    if not alua.id then return false, "this process is not open" end
    acknowledge()
    daemon():send("close", token)
    alua.id, alua.daemonid, token = nil, nil, nil
    for _, cb in pairs(calls) do refuse(cb, "this process has closed") end
    calls, outstanding = {}, 0
    return true
end

-- ---- Asking others ------------------------------------------------------------------------------

-- The destinations, each once; or nil.
local function list_of(dest)
    if type(dest) == "string" then return {dest} end
    if type(dest) ~= "table" or #dest == 0 then return nil end
    local list, seen = {}, {}
    for i, name in ipairs(dest) do
        if type(name) ~= "string" then return nil end
        if not seen[name] then list[#list + 1] = name end
        seen[name] = i
    end
    return list
end

--- Has a piece of Lua code run by one process, or several.
function alua.send(dest, chunk, cb)
    checks.argument("send", chunk, 2, "string")
    check_callback("send", cb, 3)
    local list = list_of(dest)
    if not alua.id then return refuse(cb, "this process is not open")
    elseif not list then return refuse(cb, "invalid destination") end
    call(cb and function(reply)
        -- Of its own it has an entry for each destination.
        return cb(setmetatable(reply.replies or {}, {__index = {status = reply.status,
            error = reply.error}}))
    end, "send", list, chunk)
end

--- Connects the daemon with others: `spawn` divides processes among all of them.
function alua.link(daemons, cb)
    check_callback("link", cb, 2)
    local list = type(daemons) == "table" and list_of(daemons)
    if not alua.id then return refuse(cb, "this process is not open")
    elseif not list then return refuse(cb, "invalid list of daemons") end
    call(cb, "link", list)
end

-- A number of processes, or their names.
local function share_of(value)
    if math.type(value) == "integer" and value > 0 then return {count = value} end
    local names = type(value) == "table" and list_of(value)
    if not names or #names ~= #value then return nil end
    for _, name in ipairs(names) do
        if not name:find "^[^@:/%c]+$" then return nil end
    end
    return {names = names}
end

--- Makes processes: so many, or with these names, divided among daemons; or as a table says, whose
--- keys are daemons.
function alua.spawn(what, cb)
    check_callback("spawn", cb, 2)
    if not alua.id then return refuse(cb, "this process is not open") end
    local share, shares = share_of(what), nil
    if not share and type(what) == "table" and next(what) and not what[1] then
        shares = {}
        for daemon_id, value in pairs(what) do
            shares[daemon_id] = type(daemon_id) == "string" and share_of(value) or nil
            if not shares[daemon_id] then return refuse(cb, "invalid request") end
        end
    end
    if not share and not shares then return refuse(cb, "invalid request") end
    call(cb, "spawn", share, shares)
end

-- Ends this process; if it is the main one, the program.
local function leave(code)
    local is_main = mare.self():id() == 1
    acknowledge()
    if alua.id then daemon():send("close", token) end
    if is_main and mare.find(DAEMON) then ask("flush") end -- others are waiting for answers
    if is_main then
        node.stop(PATIENCE)
        os.exit(code)
    end
    mare.self():kill("alua.exit")
end

--- Ends this process, or others.
function alua.exit(dest, code, cb)
    if dest == nil or type(dest) == "number" then return leave(dest or 0) end
    check_callback("exit", cb, 3)
    if code ~= nil and math.type(code) ~= "integer" then return refuse(cb, "invalid code") end
    alua.send(dest, ("alua.exit(%d)"):format(code or 0), cb)
end

-- ---- Values as text -----------------------------------------------------------------------------

local function write_number(value)
    if math.type(value) == "integer" or value ~= value or value - value ~= 0 then
        return ("%q"):format(value)
    end
    local text = ("%.15g"):format(value)
    if tonumber(text) ~= value then text = ("%.17g"):format(value) end
    return text:find "[.e]" and text or text .. ".0"
end

local write = {
    ["nil"] = tostring,
    boolean = tostring,
    string = function(value) return ("%q"):format(value) end,
    number = write_number,
}

-- Only trees of plain values: what cannot be written is left out.
function write.table(value, inside)
    if inside[value] then error("a table that contains itself cannot be written", 0) end
    inside[value] = true
    local parts = {}
    for key, item in pairs(value) do
        local writes, puts = write[type(key)], write[type(item)]
        if writes and puts then
            parts[#parts + 1] = ("[%s]=%s"):format(writes(key, inside), puts(item, inside))
        end
    end
    inside[value] = nil
    return "{" .. table.concat(parts, ",") .. "}"
end

--- A value as Lua code, to be put into a chunk.
function alua.codec.dump(value)
    local puts = write[type(value)]
    return puts and puts(value, {}) or ""
end

alua.tostring = alua.codec.dump

-- ---- The loop -----------------------------------------------------------------------------------

--- Calls a function every so many seconds, with the timer.
function alua.timer.create(seconds, f)
    if not checks.span(seconds) then
        error("bad argument #1 to 'create' (a number of seconds expected, above 0)", 2)
    end
    checks.argument("create", f, 2, "function")
    local timer = {at = mare.now() + seconds, period = seconds, f = f}
    timers[timer] = true
    return timer
end

function alua.timer.cancel(timer) timers[timer] = nil end

function alua.timer.flush() timers = {} end

-- The timer that is due first.
local function first_timer()
    local first
    for timer in pairs(timers) do
        if not first or timer.at < first.at then first = timer end
    end
    return first
end

local function run_timer(timer)
    timer.at = math.max(timer.at + timer.period, mare.now())
    timer.f(timer)
end

local function run_due()
    local now = due
    due = {}
    for _, item in ipairs(now) do item[1](item[2]) end
end

local on = {}

-- Text only: bytecode can do what no policy allows.
function on.chunk(mine, number, code)
    if mine ~= token then return end -- which has closed meanwhile
    local f, message = load(code, nil, "t")
    local fine = f ~= nil
    current = number
    if f then fine, message = pcall(f) end
    if not current then return end -- it was answered
    if not fine and type(message) ~= "string" then
        local shown, text = pcall(tostring, message)
        message = shown and text or "an error that cannot be shown"
    end
    current = nil
    daemon():send("done", number, fine, message)
end

function on.reply(number, reply)
    local cb = calls[number]
    if not cb then return end
    calls[number], outstanding = nil, outstanding - 1
    cb(reply)
end

local function dispatch(kind, ...)
    if kind then on[kind](...) end -- nil: a timer is due
end

--- Waits for events, and does what they ask for, until nothing more can come.
function alua.loop()
    if looping then error("a loop is already running", 2) end
    looping = true
    local _ <close> = setmetatable({}, {__close = function() looping = false end})
    while alua.id or outstanding > 0 or #due > 0 or next(timers) do
        run_due()
        local timer = first_timer()
        local wait = timer and math.max(timer.at - mare.now(), 0)
        if wait == 0 then run_timer(timer) end
        if #due > 0 then wait = 0 end
        if wait or alua.id or outstanding > 0 then dispatch(box():receive(wait)) end
    end
end

-- Chunks find it where those of ALua do.
rawset(_G, "alua", alua)

return alua
