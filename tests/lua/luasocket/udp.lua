-- SPDX-License-Identifier: MIT
-- Datagrams with LuaSocket.
local say = dofile((arg[0]:gsub("[^/]*$", "say.lua")))
local socket = require "socket"
local values, try = say.values, say.try

local u = socket.udp()
values("a new one", type(u), u, u:getfd(), u:getfamily(), u:dirty())
say.members("its methods", getmetatable(u).__index)
values("no address", u:getsockname())
values("bound", u:setsockname("127.0.0.1", 0))
local host, port, family = u:getsockname()
values("to", host, type(port), family)
values("twice", u:setsockname("127.0.0.1", port))

local c = socket.udp()
values("to an address", c:sendto("hello", "127.0.0.1", port))
local data, from, from_port = u:receivefrom()
values("comes", data, from, math.type(from_port),
    from_port == tonumber((select(2, c:getsockname()))))
values("back", u:sendto("you too", from, from_port))
values("comes", c:receive())
values("a peer", c:setpeername("127.0.0.1", port))
values("connected", c)
local peer, peer_port, peer_family = c:getpeername()
values("to", peer, peer_port == tonumber(port), peer_family)
values("sends", c:send "abc")
values("comes", u:receive())
values("long", c:send "abcdef")
values("cut", u:receive(3))
u:settimeout(0)
values("the rest is lost", u:receive())
values("from nobody", u:receivefrom())
u:settimeout(0.01)
values("in time", u:receive())
u:settimeout(5)
values("timeouts", u:gettimeout())
values("empty", c:send "")
values("comes", u:receive())
c:send ""
values("from", (u:receivefrom()))
values("a number", c:send(12))
values("comes", u:receive())
c:send(("y"):rep(20000))
values("cut by default", #u:receive())
c:send(("y"):rep(20000))
values("whole", #u:receive(20000))
c:send "zero"
values("nothing of it", u:receive(0))
c:send "zero"
values("nothing of it", (u:receivefrom(0)))
values("nobody again", c:setpeername "*")
values("unconnected", c)
values("numbers only", c:sendto("x", "localhost", port))
values("numbers only", c:sendto("x", "127.0.0.1", "nosuchservice"))
local named = c:setpeername("localhost", port)
values("a name", named)
if named then values("comes", c:send "by name", u:receive()) end
c:setpeername "*"
values("too long", c:sendto(("x"):rep(70000), "127.0.0.1", port))

local lost = socket.udp()
lost:setpeername("127.0.0.1", 1)
values("to nobody", lost:send "x")
lost:settimeout(10)
values("refused", lost:receive())

local six = socket.udp6() -- nil on a machine without
values("families", socket.udp4():getfamily(), six and six:getfamily())
values("open", socket.udp4():getsockname())
values("the wrong one", socket.udp4():setpeername("::1", port))
if six then
    values("open", six:getsockname())
    values("the wrong one", six:sendto("x", "127.0.0.1", port))
    values("the wrong one", six:setsockname("127.0.0.1", 0))
end
local any = socket.udp()
values("anywhere", any:setsockname("*", 0))
values("is", (any:getsockname()))

-- Several, by select.
local readable = socket.select({u, any}, nil, 0.01)
values("none", #readable)
any:settimeout(0)
local sender = socket.udp()
sender:sendto("for any", "127.0.0.1", (select(2, any:getsockname())))
readable = socket.select({u, any}, nil, 10)
values("one", #readable, readable[1] == any, readable[any], any:receive())

-- Multicast, on the loopback interface.
local member = socket.udp4()
values("share", member:setoption("reuseaddr", true))
values("any", member:setsockname("0.0.0.0", 0))
local group = {multiaddr = "239.255.77.77", interface = "127.0.0.1"}
values("join", member:setoption("ip-add-membership", group))
local speaker = socket.udp4()
values("through", speaker:setoption("ip-multicast-if", "127.0.0.1"),
    speaker:getoption "ip-multicast-if")
values("not far", speaker:setoption("ip-multicast-ttl", 1))
values("back to us", speaker:setoption("ip-multicast-loop", true),
    speaker:getoption "ip-multicast-loop")
values("to all", speaker:sendto("everybody", group.multiaddr, (select(2, member:getsockname()))))
member:settimeout(10)
values("comes", (member:receivefrom()))
values("leave", member:setoption("ip-drop-membership", group))

for _, name in ipairs {"dontroute", "broadcast", "reuseaddr", "reuseport", "ip-multicast-loop",
    "ip-multicast-ttl", "ip-add-membership", "ipv6-unicast-hops", "ipv6-multicast-loop",
    "ipv6-v6only", "ipv6-add-membership", "error", "keepalive", "none"} do
    for _, make in ipairs {socket.udp4, six and socket.udp6} do
        local s = make()
        try("get " .. name, function() local is, err = s:getoption(name) return is, err end)
        for _, value in ipairs {true, 5, "x", {}, {multiaddr = "x"}, {multiaddr = "ff02::1"},
            {multiaddr = "239.1.1.1"}, {multiaddr = "239.1.1.1", interface = "x"}} do
            try("set " .. name, function()
                local ok, err = s:setoption(name, value)
                return ok, err
            end)
            try("get " .. name, function() local is, err = s:getoption(name) return is, err end)
        end
    end
end
for _, value in ipairs {true, "x", "127.0.0.1", "0.0.0.0", "*", {}} do
    try("interface", function()
        local ok, err = speaker:setoption("ip-multicast-if", value)
        return ok, err, speaker:getoption "ip-multicast-if"
    end)
end

-- Misuse.
try("send without a peer", function() socket.udp():send "x" end)
try("the peer of none", function() socket.udp():getpeername() end)
c:setpeername("127.0.0.1", port)
try("sendto with a peer", function() c:sendto("x", "127.0.0.1", port) end)
try("receivefrom with a peer", function() c:receivefrom() end)
try("setsockname with a peer", function() c:setsockname("127.0.0.1", 0) end)
try("no port", function() c:setpeername "127.0.0.1" end)
try("no port", function() u:sendto("x", "127.0.0.1") end)
try("no data", function() c:send() end)
try("no size", function() c:receive "x" end)
try("no self", function() c.send(c:getfd(), "x") end)
values("closed", u:close())
values("again", u:close())
values("what it was", u, u:getfd())
values("address", u:getsockname())
values("receive", u:receive())
values("timeout", u:settimeout(1))
