-- SPDX-License-Identifier: MIT
-- Calls every function of every module in C, and every method, with every kind of odd argument.
-- What they answer does not matter here: nothing may crash, and the program must come to its end.
-- Run by test_misuse.lua, in a folder of its own:
--
--     mare odd_calls.lua SEED ROUNDS [NAME]    only functions whose names have NAME in them
local mare = require "mare"

local seed, rounds, only = tonumber(arg[1]), tonumber(arg[2]), arg[3]
local state = seed
local function random(n)
    state = (state * 6364136223846793005 + 1442695040888963407)
    return (state >> 33) % n + 1
end

local modules = {"luaproc", "mare", "mare._certificate", "mare._child", "mare._file", "mare._http",
    "mare._net", "mare._secret", "mare._sim", "mare._socket", "mare._source", "mare._terminal",
    "mare._tls", "mare._websocket", "mare.place", "mare.signal", "mare.time"}

-- What would end the program, or another; what is told to close descriptors that are in use; what
-- takes long by its nature.
local left_out = {}
for name in ([[mare.exit mare.signal.send mare._socket.adopt mare.wait luaproc.wait mare.workers
    luaproc.setnumworkers mare._tls.selfsigned process.kill process.link]]):gmatch "%S+" do
    left_out[name] = true
end

-- ---- References, of every kind and in every state -----------------------------------------------

local function finalized(value)
    local finalize = debug.getmetatable(value).__gc
    if finalize then finalize(value) end
    return value
end

local function away(value)
    local ch = mare.channel(1)
    pcall(ch.send, ch, value)
    return value
end

local function attempt(f, ...)
    local ok, value = pcall(f, ...)
    return ok and value or nil
end

local net, file = require "mare._net", require "mare._file"
local function listen()
    return net.listen(net.bind(net.open("inet", "stream"), "127.0.0.1", 0), 10)
end
local makers = {
    channel = function() return mare.channel(random(3) - 1) end,
    process = function() return mare.spawn "return 1" end,
    living = function() return mare.spawn(function() mare.channel(0):receive(5) end) end,
    buffer = function() return mare.buffer(random(100)) end,
    timer = function() return mare.timer(random(100) / 1000) end,
    deadline = function() return mare.deadline(random(3)) end,
    routine = function() return mare.go(function() mare.sleep(0.001) end) end,
    listener = function() return attempt(listen) end,
    stream = function()
        local _, port = listen():address()
        return attempt(net.connect, net.open("inet", "stream"), "127.0.0.1", port, 1)
    end,
    pair = function() return attempt(net.pair, random(1000)) end,
    udp = function() return attempt(net.bind, net.open("inet", "dgram"), "127.0.0.1", 0) end,
    file = function() return attempt(file.open, "file", 7, 384) end,
    folder = function() return attempt(file.scan, ".") end,
    watcher = function() return attempt(file.watch, ".", false, 100) end,
    child = function()
        return attempt(require "mare._child".spawn, {"true"}, nil, nil, "inherit", "inherit",
            "inherit")
    end,
    signals = function() return attempt(require "mare.signal".watch, "USR1") end,
    context = function() return attempt(require "mare._tls".context, {}) end,
    secret = function() return attempt(require "mare._secret".make, "ebb", 32) end,
    reader = function() return attempt(require "mare._http".reader, "requests") end,
    frames = function() return attempt(require "mare._websocket".reader, "server", 1000) end,
    clock = function() return attempt(require "mare.time".clock, {}) end,
    rbs = function() return attempt(require "mare.time".rbs, {}) end,
    arrivals = function() return attempt(require "mare.time".arrivals) end,
    client = function() return attempt(require "mare.time".client, {}) end,
    server = function() return attempt(require "mare.time".server, {}) end,
    node = function() return attempt(require "mare.place".vivaldi, {}) end,
    agent = function() return attempt(require "mare.place".agent, {}) end,
    socket = function() return attempt(net.open, "unix", "stream") end,
    object = function() return attempt(require "mare._socket".object, {}, {}) end,
}
local kinds = {}
for kind in pairs(makers) do kinds[#kinds + 1] = kind end
table.sort(kinds)

-- In its prime, or after it.
local function aged(value)
    if type(value) ~= "userdata" then return value end
    local how = random(6)
    if how == 1 then
        finalized(value)
    elseif how == 2 then
        away(value)
    elseif how == 3 then
        pcall(function() value:close() end)
    end
    return value
end

local function reference() return aged(makers[kinds[random(#kinds)]]()) end

-- ---- Odd values ---------------------------------------------------------------------------------

local function with(metamethods) return setmetatable({}, metamethods) end
local dead, asleep = coroutine.create(type), coroutine.create(coroutine.yield)
coroutine.resume(dead, 1)
coroutine.resume(asleep)
local cycle = {}
cycle[1], cycle.self = cycle, cycle
local closed_file = io.tmpfile()
closed_file:close()

local odd = {
    function() return nil end, function() return false end, function() return true end,
    function() return 0 end, function() return 1 end, function() return -1 end,
    function() return 7 end, function() return random(1 << 20) end,
    function() return math.maxinteger end, function() return math.mininteger end,
    function() return 1 << 31 end, function() return -1 << 31 end, function() return 1 << 32 end,
    function() return (1 << 31) - 1 end, function() return 1 << 53 end,
    function() return 0.5 end, function() return 1e300 end, function() return -1e300 end,
    function() return 1 / 0 end, function() return -1 / 0 end, function() return 0 / 0 end,
    function() return "" end, function() return "a" end, function() return "\0" end,
    function() return "a\0b" end, function() return "10" end, function() return "0x7fffffff" end,
    function() return "127.0.0.1" end, function() return "inherit" end, function() return "r" end,
    function() return ("x"):rep(random(300)) end, function() return ("\255\254"):rep(5000) end,
    function() return {} end, function() return {1, 2, 3} end, function() return {"a", "b"} end,
    function() return {{}, {{}}} end, function() return cycle end,
    function() return {[0] = 1, [-1] = 2, [1e9] = 3} end,
    function() return with {__len = function() return -1 end} end,
    function() return with {__len = function() return math.maxinteger end} end,
    function() return with {__len = function() return 1 << 32 end} end,
    function() return with {__len = function() return "many" end} end,
    function() return with {__len = function() error "len" end} end,
    function() return with {__len = function() return 1000 end, __index = {}} end,
    function() return with {__index = function() error "index" end} end,
    function() return with {__index = function(_, key) return key end} end,
    function() return with {__newindex = error, __name = 5, __tostring = error} end,
    function() return with {__name = "channel", __close = error, __gc = type} end,
    function() return with {__call = error, __pairs = error, __eq = error} end,
    function() return type end, function() return function(...) return ... end end,
    function() return error end, function() return dead end, function() return asleep end,
    function() return coroutine.running() end, function() return io.stdout end,
    function() return closed_file end, function() return debug.upvalueid(reference, 1) end,
    function() return _G end, function() return debug.getregistry() end,
    function() return mare.self() end,
    reference, reference, reference, reference, reference, reference, reference, reference,
}

local function arguments(n)
    local list = {n = n}
    for i = 1, n do list[i] = odd[random(#odd)]() end
    return list
end

-- ---- The functions ------------------------------------------------------------------------------

local functions = {}
local function add(name, f, own)
    if type(f) == "function" and not left_out[name] and (not only or name:find(only, 1, true)) then
        functions[#functions + 1] = {name = name, f = f, own = own}
    end
end

for _, name in ipairs(modules) do
    local meta = getmetatable(require(name))
    for key, f in pairs(type(meta) == "table" and meta or {}) do add(name .. "<>" .. key, f) end
    for key, f in pairs(require(name)) do add(name .. "." .. key, f) end
end
-- Methods are supplied when they are named; so all names that C functions have are tried.
local names = {}
local folder = debug.getinfo(1, "S").source:match "^@(.*)tests/lua/" .. "src/lua"
for line in io.popen("cat " .. folder .. "/*.c"):lines() do
    for name in line:gmatch '{"([%w_]+)", [%w_]+}' do names[name] = true end
end
for _, kind in ipairs(kinds) do
    local sample = makers[kind]()
    assert(type(sample) == "userdata", kind)
    local meta = debug.getmetatable(sample)
    local methods = type(meta.__index) == "table" and debug.getmetatable(meta.__index) or {}
    for key, f in pairs(methods) do add(kind .. "<>" .. key, f) end
    for key, f in pairs(meta) do add(kind .. "." .. key, f, makers[kind]) end
    for name in pairs(names) do
        local ok, f = pcall(function() return sample[name] end)
        if ok then
            add((kind == "living" and "process" or kind) .. "." .. name, f, makers[kind])
        end
    end
end
table.sort(functions, function(a, b) return a.name < b.name end)
assert(#functions > 300 or only, #functions)

-- One call, in a routine, which is made to end if it waits.
local function call(f, list)
    local routine = mare.go(function()
        pcall(f, table.unpack(list, 1, list.n))
        return true
    end)
    for _ = 1, 3 do
        if not routine:join(0) then mare.yield() end
    end
    if not routine:join(0) then
        routine:cancel()
        routine:join(5)
    end
end

io.stdout:setvbuf "no"
for round = 1, rounds do
    for _, entry in ipairs(functions) do
        local list = arguments(random(8) - 1)
        if entry.own and random(4) > 1 then
            table.move(list, 1, list.n, 2)
            list[1], list.n = aged(entry.own()), list.n + 1
        end
        if only then print(round, entry.name, list.n) end
        call(entry.f, list)
    end
    if round % 3 == 0 then collectgarbage() end
end
print("called", #functions)
mare.exit(0)
