-- SPDX-License-Identifier: MIT
-- Nodes of other versions of the protocol, played byte by byte: they talk at a version that both
-- know, or refuse each other with a clear reason.
local mare, node, net = require "mare", require "mare.node", require "mare.net"
local t, peers = require "t", require "peers"

local LIMITS = "\x95\xcd\1\0\xcd\x10\0\xce\0\x2d\xc6\xc0\xcd\1\0\xce\0\x10\0\0"

local function frame(bytes) return (">s4"):pack(bytes) end

-- What a node called `later` says of itself; a later version may have more behind it.
local function self() return "\x95\xa5later\xa0\1\1\x90" .. LIMITS .. "\xc4\0" end

local function hello(lowest, highest)
    return frame(("\x9a\1\xa4mare%c%c\xcf\xff\xff\xff\xff\xff\xff\xff\xff"):format(lowest, highest)
        .. self() .. "\xa3new\x07")
end

local function frame_from(stream)
    local size = (">I4"):unpack(t.ok(stream:read(4, t.patience)))
    return t.ok(stream:read(size, t.patience))
end

local function call(home)
    local host, port = home.address:match "^(.*):(%d+)$"
    return t.ok(net.connect(host, tonumber(port), t.patience))
end

return {
    a_newer_node_is_answered_in_the_version_that_both_speak = function()
        local home <close> = peers.home()
        local stream <close> = call(home)
        local watch = t.ok(node.monitor())
        t.ok(stream:write(hello(1, 9)))
        t.eq(frame_from(stream):sub(1, 3), "\x97\2\1") -- WELCOME, version 1
        -- Kinds and requests that are not known yet are passed over: 0x40 is one that may be
        -- skipped, number 99 of flow 0 is another. Then it offers its service, and is there.
        t.ok(stream:write(frame "\x92\x40\xc0", frame "\x93\x20\0\xc4\x08\x95\x63\0\0\xc4\0\xc4\0",
            frame "\x93\x20\0\xc4\x08\x95\1\1\0\xc4\0\xc4\0"))
        local what, name = watch:receive(t.patience)
        t.eq(what, "up", name)
        t.eq(name, "later")
    end,

    one_that_speaks_no_version_of_ours_is_told_which_there_are = function()
        for versions, text in pairs {[{2, 3}] = "other 2 to 3", [{0, 0}] = "other 0 to 0"} do
            local log = mare.channel(10)
            local home <close> = peers.home {log = log}
            local stream <close> = call(home)
            t.ok(stream:write(hello(versions[1], versions[2])))
            local refusal = frame_from(stream)
            t.eq(refusal:sub(1, 3), "\x95\3\2") -- REFUSE, no common version
            t.eq(refusal:sub(-2), "\1\1") -- what is spoken here
            local line = t.ok(log:receive(t.patience))
            t.ok(line:find "this node speaks 1 to 1" and line:find(text, 1, true), line)
        end
    end,

    one_that_refuses_us_says_what_it_speaks = function()
        local home <close> = peers.home()
        local listener <close> = t.ok(net.listen("127.0.0.1", 0))
        local host, port = listener:address()
        local answer = mare.go(function()
            local stream <close> = t.ok(listener:accept(t.patience))
            t.eq(frame_from(stream):sub(1, 7), "\x98\1\xa4mare") -- HELLO
            t.ok(stream:write(frame "\x95\3\2\xa0\4\6")) -- REFUSE, it speaks 4 to 6
            stream:read("a", t.patience)
        end)
        local _, message, code = node.connect(("%s:%d"):format(host, port), t.patience)
        t.eq(code, "nonode")
        t.ok(message:find "this node speaks 1 to 1, the other 4 to 6", message)
        t.ok(answer:join(t.patience))
        t.ok(home)
    end,
}
