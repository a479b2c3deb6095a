-- SPDX-License-Identifier: MIT
-- Keys leave nothing in memory when they are not used any more: other programs are looked into.
local keys = require "mare.keys"
local file, child = require "mare.file", require "mare.child"
local t, peers, shell = require "t", require "peers", require "shell"

local CHUNK = 1 << 20

-- Whether a program has a piece of text in memory that it can write to.
local function has(pid, text)
    local memory <close> = io.open(("/proc/%d/mem"):format(pid), "rb")
    if not memory then t.skip "other programs cannot be looked into here" end
    memory:setvbuf "no"
    for line in io.lines(("/proc/%d/maps"):format(pid)) do
        local first, last = line:match "^(%x+)%-(%x+) rw"
        local at, stop = tonumber(first or "0", 16), tonumber(last or "0", 16)
        while at < stop do
            memory:seek("set", at)
            local bytes = memory:read(math.min(CHUNK + #text, stop - at))
            if bytes and bytes:find(text, 1, true) then return true end
            at = at + CHUNK
        end
    end
    return false
end

local function from_base64(text)
    local alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    return (text:gsub("....", function(four)
        local bits = 0
        for letter in four:gmatch "." do
            bits = bits << 6 | alphabet:find(letter, 1, true) - 1
        end
        return (">I3"):pack(bits)
    end))
end

-- What to look for, of a file with a key: half of what is in the file, and half of the key itself.
-- (Of what is given back to the system's allocator, the first bytes are overwritten anyway.)
local function traces_of(path)
    local text = t.ok(file.read(path))
    local digits, body = text:match "^%w+:(%x+)\n$", text:match "KEY%-+\n([%w+/]+)\n"
    local key = digits and digits:gsub("%x%x", function(two)
        return string.char(tonumber(two, 16))
    end) or from_base64(body):sub(-32)
    t.eq(#key, 32)
    return {text = (digits or body):sub(-32), key = key:sub(-16)}
end

local function with_keys(f)
    t.in_folder(function(folder)
        if t.slow > 1 then t.skip "a sanitizer has too much memory to look through" end
        t.ok(keys.authority(folder, "tides"))
        for _, name in ipairs {"home", "flow"} do
            t.ok(keys.issue(folder, name, {hosts = {"127.0.0.1"}}))
        end
        t.ok(keys.secret(folder, "tide"))
        f(folder)
    end)()
end

-- A node that ends, in a program that goes on.
local STOPS = [[
    mare.channel(1, "go"):receive()
    node.stop(60)
    print "stopped"
    mare.sleep(1000)
]]

-- While it runs, a node has its key once, and no copy of the file; afterwards it has neither.
local function a_node_forgets(folder, path, options)
    local traces = traces_of(path)
    local given = {}
    for key, value in pairs(options) do given[key] = value end
    given.name = "flow"
    local home <close> = peers.home(options)
    local flow <close> = peers.join(home, given, STOPS)
    local pid = flow.child:pid()
    t.reaches(function() return not has(pid, traces.text) end, "no copy of the file")
    t.ok(has(pid, traces.key))
    t.ok(peers.find "go@flow":send(true))
    t.eq(flow.line(), "stopped")
    t.reaches(function() return not has(pid, traces.key) end, "no copy of the key")
    t.eq(has(pid, traces.text), false)
    t.ok(folder)
end

return {
    a_node_forgets_its_private_key = function()
        with_keys(function(folder)
            a_node_forgets(folder, folder .. "/flow.key", {keys = folder})
        end)
    end,

    a_node_forgets_its_secret = function()
        with_keys(function(folder)
            a_node_forgets(folder, folder .. "/tide.psk", {secret = folder .. "/tide.psk"})
        end)
    end,

    -- All that `mare keys` does, in a program that then goes on.
    keys_that_are_made_and_used_leave_nothing = function()
        with_keys(function(folder)
            local there = folder .. "/there"
            local program <close> = t.ok(child.spawn {shell.mare, "-e", [[
                local mare, keys, net = require "mare", require "mare.keys", require "mare.net"
                local file, tls = require "mare.file", require "mare.tls"
                local folder = arg[1]
                local function meet(server, client)
                    local listener <close> = assert(tls.listen("127.0.0.1", 0, server))
                    local host, port = listener:address()
                    local other = mare.go(tls.connect, host, port, client, 60)
                    local stream <close> = assert(listener:accept(60))
                    assert(stream:handshake(60))
                    assert(select(2, other:join())):close()
                end
                local function use()
                    assert(keys.authority(folder, "tides"))
                    assert(keys.issue(folder, "ebb", {hosts = {"127.0.0.1"}}))
                    assert(keys.issue(folder, "old"))
                    assert(keys.issue(folder, "ana", {code = true}))
                    assert(keys.secret(folder, "tide"))
                    assert(keys.sign(folder, "ana", "print 'high tide'"))
                    assert(keys.revoke(folder, "old"))
                    assert(keys.list(folder))
                    meet(assert(keys.load(folder, "ebb")), assert(keys.load(folder, "ebb")))
                    local psk = assert(keys.secrets(folder .. "/tide.psk"))
                    meet({psk = psk}, {psk = psk})
                    -- By their paths, too.
                    assert(tls.context {certificate = folder .. "/ebb.pem",
                        key = folder .. "/ebb.key"})
                end
                use()
                kept = assert(file.read(folder .. "/ebb.pem"))
                collectgarbage()
                print "used"
                mare.sleep(1000)
            ]], there, stdin = "null", stdout = "pipe", stderr = "inherit", grace = 0})
            t.eq(program.stdout:read("l", t.patience), "used")
            local pid = program:pid()
            t.ok(has(pid, t.ok(file.read(there .. "/ebb.pem")))) -- that much is found
            for _, name in ipairs {"authority.key", "ebb.key", "ana.key", "tide.psk"} do
                for what, trace in pairs(traces_of(there .. "/" .. name)) do
                    t.reaches(function() return not has(pid, trace) end,
                        ("no copy of %s: the %s"):format(name, what))
                end
            end
        end)
    end,
}
