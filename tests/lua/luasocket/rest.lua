-- SPDX-License-Identifier: MIT
-- The functions of LuaSocket that are no object's: select, exceptions, names, sources and sinks.
local say = dofile((arg[0]:gsub("[^/]*$", "say.lua")))
local socket, ltn12 = require "socket", require "ltn12"
local values, try = say.values, say.try

for _, name in ipairs {"_VERSION", "_DATAGRAMSIZE", "_SETSIZE", "_SOCKETINVALID", "BLOCKSIZE"} do
    values(name, socket[name])
end

-- Select.
local function connect(server)
    return assert(socket.connect("127.0.0.1", (select(2, server:getsockname()))))
end
local function pair()
    local server = assert(socket.bind("127.0.0.1", 0))
    local client = connect(server)
    return client, assert(server:accept()), server
end
local client, peer, server = pair()
local function show(label, readable, writable, ...)
    local names = {[client] = "client", [peer] = "peer", [server] = "server"}
    local function list(t)
        local all = {}
        for key, value in pairs(t) do
            all[#all + 1] = (names[key] or key) .. "=" .. (names[value] or value)
        end
        table.sort(all)
        return table.concat(all, ",")
    end
    values(label, "(" .. list(readable) .. ")", "(" .. list(writable) .. ")", select("#", ...), ...)
end
show("nothing in no time", socket.select({peer, server}, {}, 0))
show("nothing in time", socket.select({peer, server}, nil, 0.01))
show("to be written", socket.select(nil, {client, peer}, 10))
show("a server is not", socket.select(nil, {client, server}, 10))
client:send "a\nb"
show("to be read", socket.select({client, peer, server}, nil, 10))
peer:receive()
show("what is left of it", socket.select({client, peer}, {client}, 10))
peer:receive(1)
show("no more", socket.select({client, peer}, nil, 0))
local other = connect(server)
show("a connection", socket.select({peer, server, client}, nil, 10))
server:accept()
client:close()
show("an end", socket.select({peer, client}, nil, 10))
show("one that is closed", socket.select({client}, {client}, 0))
show("twice the same", socket.select({peer, peer}, nil, 10))
show("no tables", socket.select(nil, nil, 0.01))
show("empty", socket.select({}, {}, 0))
local stands_for = setmetatable({getfd = function() return peer:getfd() end}, {})
local readable = socket.select({stands_for}, nil, 10)
values("what stands for it", readable[1] == stands_for, readable[stands_for])
local dirty = {getfd = function() return other:getfd() end, dirty = function() return true end}
readable = socket.select({dirty}, nil, 10)
values("what says it is dirty", readable[1] == dirty)
values("no descriptor", #socket.select({{getfd = function() return -1 end}}, nil, 0))
values("not a socket", #socket.select({{}, "text"}, nil, 0))
values("a number", (pcall(socket.select, {1}, nil, 0)))
values("no table", (pcall(socket.select, "x", nil, 0)))
values("no time", (pcall(socket.select, nil, nil, {})))
values("stops at a hole", #socket.select({nil, peer}, nil, 0))

-- Exceptions.
local ended = 0
local attempt = socket.newtry(function() ended = ended + 1 end)
values("passes", attempt(1, nil, 3))
values("caught", socket.protect(function() attempt(nil, "reason", "more") end)())
values("finalized", ended)
values("false", socket.protect(function() attempt(false, "reason") end)())
values("no reason", socket.protect(function() attempt() end)())
values("a table", socket.protect(function() attempt(nil, {1, 2}) end)())
values("results", socket.protect(function(...) return ... end)(1, nil, 3))
try("another error", function() socket.protect(function() error("mine", 0) end)() end)
try("another table", function() socket.protect(function() error {} end)() end)
try("not caught", function() attempt(nil, "reason") end)
values("deep", socket.protect(function()
    local inner = socket.protect(function() attempt(nil, "inner") end)
    return inner()
end)())
try("in a finalizer", function()
    socket.protect(function()
        socket.newtry(function() error("its own", 0) end)(nil, "outer")
    end)()
end)
values("inside a coroutine", coroutine.wrap(socket.protect(function()
    coroutine.yield "yields"
    attempt(nil, "reason")
end))())
values("try", socket.try(1, 2))
values("skip", socket.skip(0, 1, 2))
values("skip", socket.skip(1, 1, 2))
values("skip", socket.skip(5, 1, 2))

-- Names.
-- Aliases, and how often an address is listed, depend on /etc/hosts.
local function entry(label, first, second)
    if type(second) ~= "table" then return values(label, first, second) end
    values(label, first, second.name, second.ip[1], type(second.alias))
end
entry("toip", socket.dns.toip "localhost")
entry("toip", socket.dns.toip "127.0.0.1")
entry("toip", socket.dns.toip "name..invalid")
entry("tohostname", socket.dns.tohostname "localhost")
entry("tohostname", socket.dns.tohostname "127.0.0.1")
entry("tohostname", socket.dns.tohostname "name..invalid")
values("getaddrinfo", socket.dns.getaddrinfo "127.0.0.1")
values("getaddrinfo", socket.dns.getaddrinfo "::1")
values("getaddrinfo", socket.dns.getaddrinfo "localhost")
values("getaddrinfo", socket.dns.getaddrinfo "name..invalid")
values("getnameinfo", socket.dns.getnameinfo "127.0.0.1")
values("getnameinfo", socket.dns.getnameinfo("127.0.0.1", "80"))
values("getnameinfo", socket.dns.getnameinfo(nil, "80"))
values("getnameinfo", socket.dns.getnameinfo "name..invalid")
try("getnameinfo", socket.dns.getnameinfo)
values("gethostname", socket.dns.gethostname())

-- Time.
local before = socket.gettime()
values("time", before > 1.6e9, math.type(before))
values("sleep", socket.sleep(0.01))
values("has passed", socket.gettime() - before >= 0.01)
values("no time", socket.sleep(-1), socket.sleep "0")

-- Sources and sinks, pumped.
client, peer, server = pair()
values("to the end", ltn12.pump.all(ltn12.source.string(("data "):rep(1000)),
    socket.sink("close-when-done", client)))
local got = {}
values("from the other", ltn12.pump.all(socket.source("until-closed", peer),
    (ltn12.sink.table(got))))
values("all of it", table.concat(got) == ("data "):rep(1000))
client = connect(server)
peer = assert(server:accept())
values("kept open", ltn12.pump.all(ltn12.source.string(("data "):rep(1000)),
    socket.sink("keep-open", client)))
got = {}
values("so much", ltn12.pump.all(socket.source("by-length", peer, 3000), (ltn12.sink.table(got))))
values("all of it", #table.concat(got))
values("descriptors", socket.sink(client).getfd() == client:getfd(), socket.source(peer).dirty())
try("no such", function() socket.sink("none", client) end)
