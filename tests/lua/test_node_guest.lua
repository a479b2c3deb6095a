-- SPDX-License-Identifier: MIT
-- Guests of a node: programs that call exported functions by MessagePack-RPC, byte by byte and with
-- a client that is not ours; and what they may not do.
local mare, node, net = require "mare", require "mare.node", require "mare.net"
local keys, tls, child = require "mare.keys", require "mare.tls", require "mare.child"
local file, t, peers = require "mare.file", require "t", require "peers"
local sockets = require "sockets"

local DOUBLE = "\x94\0\1\xa6double\x91\x15"         -- [0, 1, "double", [21]]
local DOUBLED = "\x94\1\1\xc0\x2a"                  -- [1, 1, nil, 42]

local function export()
    local functions = {
        double = function(n) return 2 * n end,
        several = function() return 1, "two", nil, {3} end,
        nothing = function() end,
        fails = function() error("on purpose", 0) end,
        fails_with = function(what)
            local odd = {[1] = what, f = function() end}
            odd[odd.f] = {}
            error(what == "function" and odd.f or odd)
        end,
        channel = function() return require "mare".channel() end,
        echo = function(value) return value end,
        tell = function(name, value) require "mare".find(name):send(value) end,
        wait = function(name) return require "mare".find(name):receive() end,
        forever = function() require "mare".sleep(1000) end,
    }
    for name, f in pairs(functions) do t.ok(node.export(name, f)) end
end

-- A node that lets guests in, and what it logs.
local function with_guests(f, options)
    local given = {guests = true, log = mare.channel(100)}
    for key, value in pairs(options or {}) do given[key] = value end
    local home <close> = peers.home(given)
    export()
    local host, port = home.address:match "^(.*):(%d+)$"
    f(function() return t.ok(net.connect(host, tonumber(port), t.patience)) end, given.log, home)
end

-- A request [0, id, method, params], of a small number and text; params are bytes.
local function request(id, method, params)
    return ("\x94\0%c%c%s%s"):format(id, 0xa0 + #method, method, params)
end

local function failure(id, text)
    local size = #text < 32 and string.char(0xa0 + #text) or ("\xd9%c"):format(#text)
    return ("\x94\1%c%s%s\xc0"):format(id, size, text)
end

local function answers(stream, bytes)
    t.eq(stream:read(#bytes, t.patience), bytes)
end

return {
    half_a_request_is_not_waited_for_longer_than_a_call = function()
        with_guests(function(connect, log)
            local idle <close> = connect()
            local half <close> = connect()
            t.ok(idle:write(DOUBLE))
            t.eq(idle:read(#DOUBLED, t.patience), DOUBLED)
            t.ok(half:write(DOUBLE, DOUBLE:sub(1, 5)))
            t.eq(half:read("a", t.patience), DOUBLED) -- and then the end
            t.ok(t.ok(log:receive(t.patience)):find "half a message")
            t.ok(idle:write(DOUBLE)) -- who says nothing in between may stay
            t.eq(idle:read(#DOUBLED, t.patience), DOUBLED)
        end, {guests = {seconds = 1}})
    end,

    a_call_is_answered_byte_by_byte = function()
        with_guests(function(connect)
            local stream <close> = connect()
            t.ok(stream:write(DOUBLE))
            answers(stream, DOUBLED)
            for i = 1, #DOUBLE do t.ok(stream:write(DOUBLE:sub(i, i))) end
            answers(stream, DOUBLED)
            for _, case in ipairs {
                {"nothing", "\x90", "\x94\1\7\xc0\xc0"},
                {"several", "\x90", "\x94\1\7\xc0\xdd\0\0\0\4\1\xa3two\xc0\xdd\0\0\0\1\3"},
                {"echo", "\x91\xa2hi", "\x94\1\7\xc0\xa2hi"},
                {"echo", "\x91\xc3", "\x94\1\7\xc0\xc3"},
                {"echo", "\x91\xcb\x3f\xf8\0\0\0\0\0\0", "\x94\1\7\xc0\xcb\x3f\xf8\0\0\0\0\0\0"},
                {"fails", "\x90", failure(7, "on purpose")},
                {"nobody", "\x90", failure(7, "no function 'nobody' is exported")},
                {"echo", "\x91\xd4\1\1", failure(7, "parameters that cannot be read here")},
                {"fails_with", "\x91\7",
                    failure(7, "{7, f = (a function), [(a function)] = {}}")},
                {"fails_with", "\x91\xa8function", failure(7, "(a function)")},
                {"channel", "\x90", failure(7,
                    "the result has something in it that MessagePack has no word for")},
            } do
                t.ok(stream:write(request(7, case[1], case[2])))
                answers(stream, case[3])
            end
            -- Also what came before the end, in one piece.
            t.ok(stream:write(DOUBLE .. DOUBLE))
            t.ok(stream:shutdown())
            t.eq(stream:read("a", t.patience), DOUBLED .. DOUBLED)
        end)
    end,

    the_example_of_the_documentation_is_true = function()
        local root = debug.getinfo(1, "S").source:match "^@(.*)tests/lua/"
        local text = t.ok(file.read(root .. "docs/reference/wire.md"))
        local count = 0
        with_guests(function(connect)
            local stream <close> = connect()
            for who, hex in text:gmatch "\n(%l+) +> ([%x ]+)%f[\n]" do
                local bytes = hex:gsub("(%x%x) ?", function(byte)
                    return string.char(tonumber(byte, 16))
                end)
                if who == "guest" then t.ok(stream:write(bytes)) else answers(stream, bytes) end
                count = count + 1
            end
        end)
        t.eq(count, 5)
    end,

    a_notification_has_no_answer = function()
        with_guests(function(connect)
            local told = mare.channel(1, "told")
            local stream <close> = connect()
            t.ok(stream:write("\x93\2\xa4tell\x92\xa4told\x07" .. DOUBLE))
            t.eq(told:receive(t.patience), 7)
            answers(stream, DOUBLED)
            told:close()
        end)
    end,

    calls_under_way_do_not_hold_back_others_up_to_the_limit = function()
        with_guests(function(connect)
            local gate = mare.channel(0, "gate")
            local stream <close> = connect()
            local wait = "\x91\xa4gate"
            t.ok(stream:write(request(2, "wait", wait) .. DOUBLE)) -- the second is answered first
            answers(stream, DOUBLED)
            t.ok(stream:write(request(3, "wait", wait) .. DOUBLE)) -- two wait: no more is read
            t.fails("timeout", stream:read(1, 0.02))
            t.ok(gate:sendwithin(t.patience, 5))
            local first = t.ok(stream:read(5, t.patience)) -- of 2 or of 3
            answers(stream, DOUBLED)
            t.ok(gate:sendwithin(t.patience, 5))
            local second = t.ok(stream:read(5, t.patience))
            t.ok(first:find "^\x94\1[\2\3]\xc0\5$" and second:find "^\x94\1[\2\3]\xc0\5$")
            t.ok(first ~= second)
            gate:close()
        end, {guests = {calls = 2}})
    end,

    parameters_that_are_no_values_are_an_error_and_nothing_else = function()
        local odd = {
            "\x91\x81\xc0\1",                           -- [{nil: 1}]
            "\x91\x81\xcb\x7f\xf8\0\0\0\0\0\0\1",       -- [{NaN: 1}]
            "\x92\xa4some\x91\x82\1\2\xc0\1",           -- ["some", [{1: 2, nil: 1}]]
            "\x91\x81\xc0\xda\2\0" .. ("x"):rep(0x200), -- of more than a few bytes
        }
        with_guests(function(connect, log)
            local stream <close> = connect()
            for _, params in ipairs(odd) do
                t.ok(stream:write(request(7, "echo", params) .. DOUBLE))
                local error = failure(7, "parameters that cannot be read here")
                local both = t.ok(stream:read(#error + #DOUBLED, t.patience)) -- in any order
                t.ok(both == error .. DOUBLED or both == DOUBLED .. error, both)
                t.ok(stream:write("\x93\2\xa4echo" .. params .. DOUBLE))
                answers(stream, DOUBLED)
                local line = t.ok(log:receive(t.patience))
                t.ok(line:find "^guest 127%.0%.0%.1: parameters that cannot be read here$", line)
            end
        end)
    end,

    whoever_goes_gives_back_place_and_descriptor = function()
        with_guests(function(connect)
            local function one_is_served()
                local stream <close> = connect()
                t.ok(stream:write(DOUBLE))
                answers(stream, DOUBLED)
            end
            local before = sockets.count()
            one_is_served()
            for _, bytes in ipairs {
                request(1, "echo", "\x91\x81\xc0\1"),
                "\x94\0\1\xa4echo\x91\xc1", -- no MessagePack
                DOUBLE .. "\x94\0\1", -- and half of another
            } do
                for _ = 1, 4 do
                    local stream <close> = connect()
                    t.ok(stream:write(bytes))
                    local some, _, code = stream:read(1, t.patience)
                    t.ok(some or code == "closed", code)
                end
                t.reaches(function() return sockets.count() <= before end, "descriptors are lost")
            end
            one_is_served()
        end, {guests = {connections = 6}})
    end,

    whatever_fails_the_connection_ends = function()
        local listener <close> = t.ok(net.listen("127.0.0.1", 0))
        local client <close> = t.ok(net.connect("127.0.0.1", select(2, listener:address()),
            t.patience))
        local stream = t.ok(listener:accept(t.patience))
        t.ok(client:write "\xc1")
        t.raises("no log today", require "mare._guest", {stream = stream, host = "here",
            exported = {}, memory = 1 << 20, calls = 2, seconds = t.patience,
            log = function() error("no log today", 0) end})
        t.fails("closed", client:read(1, t.patience))
    end,

    what_takes_too_long_is_ended = function()
        with_guests(function(connect)
            local stream <close> = connect()
            t.ok(stream:write(request(4, "forever", "\x90")))
            answers(stream, failure(4, "it took more than 0.05 seconds"))
        end, {guests = {seconds = 0.05}})
    end,

    garbage_ends_the_connection_and_nothing_else = function()
        with_guests(function(connect, log, home)
            for bytes, reason in pairs {
                ["\x94\0\1\xc1"] = "bytes that are no message",
                ["\x94\1\1\xc0\xc0"] = "an answer, where nothing was asked",
                ["\x94\0\1\7\x90"] = "a method whose name is no string",
                ["\x94\0\1\xdb\xff\xff\xff\xff"] = "a message that is too large",
                ["\xdd\0\0\0\4\9"] = "of a type that is not known",
            } do
                local stream <close> = connect()
                t.ok(stream:write(bytes .. ("\xc0"):rep(8)))
                t.fails("closed", stream:read(1, t.patience))
                local line = t.ok(log:receive(t.patience))
                t.ok(line:find(reason, 1, true) and line:find "^guest 127%.0%.0%.1", line)
            end
            local stream <close> = connect()
            t.ok(stream:write(DOUBLE))
            answers(stream, DOUBLED)
            local _ <close> = peers.join(home, {name = "flow"})
        end)
    end,

    nobody_is_a_guest_unless_the_node_says_so = function()
        with_guests(function(connect, log)
            local stream <close> = connect()
            t.ok(stream:write(DOUBLE))
            t.fails("closed", stream:read(1, t.patience))
            t.ok(t.ok(log:receive(t.patience)):find "'guests' lets none in")
        end, {guests = false})
        with_guests(function(connect, log)
            local first <close> = connect()
            local second <close> = connect()
            t.ok(first:write(DOUBLE))
            answers(first, DOUBLED)
            t.ok(second:write(DOUBLE))
            t.fails("closed", second:read(1, t.patience))
            t.ok(t.ok(log:receive(t.patience)):find "too many guests")
        end, {guests = {connections = 1}})
        t.raises("option 'guests' must be", node.start, {name = "a", guests = 1})
        t.raises("option 'guests' must be", node.start, {name = "a", guests = {call = 1}})
    end,

    with_keys_a_guest_needs_a_certificate = t.in_folder(function(folder)
        t.ok(keys.authority(folder, "tides"))
        for _, name in ipairs {"home", "app", "other"} do
            t.ok(keys.issue(folder, name, {hosts = {"127.0.0.1"}}))
        end
        local home <close> = peers.home {keys = folder, guests = true, allow = {"app"},
            log = mare.channel(100)}
        export()
        local host, port = home.address:match "^(.*):(%d+)$"
        local function call(options)
            local plain <close> = t.ok(net.connect(host, tonumber(port), t.patience))
            local stream = plain
            if options then
                options.name = "home"
                stream = t.ok(tls.wrap(plain, options, t.patience))
            end
            stream:write(DOUBLE)
            if not options then stream:shutdown() end -- or the handshake would wait for more
            return stream:read(#DOUBLED, t.patience)
        end
        t.eq(call(t.ok(keys.load(folder, "app"))), DOUBLED)
        t.ok(call(t.ok(keys.load(folder, "other"))) ~= DOUBLED) -- not in the list
        t.ok(call() ~= DOUBLED)
    end),

    a_client_that_is_not_ours_calls = function()
        local python = "/usr/bin/python3" -- Debian's modules are of Debian's
        if not file.stat "/usr/lib/python3/dist-packages/pynvim" then t.skip "needs pynvim" end
        with_guests(function(_, _, home)
            local result = t.ok(child.run {python, "-c", [==[
import sys
from pynvim.msgpack_rpc import tcp_session
host, port = sys.argv[1].rsplit(':', 1)
session = tcp_session(host, int(port))
session.error_wrapper = RuntimeError
print(session.request('double', 21), session.request('several'), session.request('nothing'))
value = {'list': [1, -2, 3.5, True], 'text': 'maré', 'big': 2 ** 40, 'deep': [[[{'x': 1}]]]}
print(session.request('echo', value) == value)
for method in 'fails', 'nobody':
    try:
        print(session.request(method))
    except RuntimeError as error:
        print(error)
            ]==], home.address, timeout = t.patience})
            t.eq(result.err, "")
            t.eq(result.out, "42 [1, 'two', None, [3]] None\nTrue\non purpose\n"
                .. "no function 'nobody' is exported\n")
        end)
    end,

    -- Many calls of one connection, before any of them is answered; and a notification.
    another_one_in_javascript_calls = function()
        local root = debug.getinfo(1, "S").source:match "^@(.*)tests/lua/"
        local modules = root .. "build-unpacked/node_modules"
        if not file.stat "/usr/bin/node" then t.skip "needs nodejs" end
        if not file.stat(modules .. "/msgpack-rpc-lite") then
            t.skip "needs msgpack-rpc-lite, which tools/setup.sh fetches with npm"
        end
        local told <close> = mare.channel(1, "told")
        with_guests(function(_, _, home)
            local result = t.ok(child.run {"/usr/bin/node", "--no-deprecation", "-e", [==[
const [host, port] = process.argv[1].split(':')
const client = require('msgpack-rpc-lite').createClient(Number(port), host)
const shown = value => console.log(JSON.stringify(value))
const value = {list: [1, -2, 3.5, true], text: 'maré', big: 2 ** 40, deep: [[[{x: 1}]]]}
const calls = [...Array(60).keys()].map(n => client.request('double', n))
Promise.all(calls).then(answers => {
    shown(answers.every(([answer], n) => answer === 2 * n))
    return client.request('echo', value)
}).then(([answer]) => {
    shown(require('util').isDeepStrictEqual(answer, value))
    return client.request('several')
}).then(([answer]) => {
    shown(answer)
    return client.notify('tell', 'told', value.text)
}).then(() => client.request('fails')).catch(problem => {
    shown(problem)
    return client.request('nobody')
}).catch(problem => {
    shown(problem)
    client.close()
})
            ]==], home.address, timeout = t.patience, env = {NODE_PATH = modules}})
            t.eq(result.err, "")
            t.eq(result.out, [==[
true
true
[1,"two",null,[3]]
"on purpose"
"no function 'nobody' is exported"
]==])
            t.eq(told:receive(t.patience), "maré")
        end)
    end,
}
