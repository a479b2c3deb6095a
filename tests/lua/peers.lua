-- SPDX-License-Identifier: MIT
-- Other nodes for tests: programs of their own, joined to the node of the test.
local mare, node, child = require "mare", require "mare.node", require "mare.child"
local file, t, shell = require "mare.file", require "t", require "shell"

local peers = {}

local SILENCE = 60 -- seconds: a machine that stands still for a while loses nobody

local HEAD = [[
local mare, node = require "mare", require "mare.node"
local options = load("return " .. arg[1])()
local address = assert(node.start(options))
io.stdout:setvbuf "line"
local function find(name) -- which may not be there yet
    local found = mare.find(name)
    while not found do
        mare.sleep(0.002)
        found = mare.find(name)
    end
    return found
end
print(address)
]]

--- A table of plain values, lists and strings, as source.
function peers.source(value)
    if type(value) ~= "table" then return ("%q"):format(value) end
    local parts = {}
    for key, item in pairs(value) do
        parts[#parts + 1] = ("[%q]=%s"):format(key, peers.source(item))
    end
    return "{" .. table.concat(parts, ",") .. "}"
end

--- Makes this program a node, for the time of a case: `local home <close> = peers.home()`.
function peers.home(options)
    local given = {name = "home", listen = "127.0.0.1:0", silence = SILENCE}
    for key, value in pairs(options or {}) do given[key] = value end
    node.stop(5) -- what a case that failed has left
    local address = t.ok(node.start(given))
    return setmetatable({address = address}, {__close = function() pcall(node.stop, 5) end})
end

-- Whether all threads of a program are stopped: the signal only asks them to, and meanwhile they
-- may answer.
local function stands_still(pid)
    local tasks = ("/proc/%d/task"):format(pid)
    for _, task in ipairs(assert(file.list(tasks))) do
        local stat = file.read(("%s/%s/stat"):format(tasks, task))
        if stat and stat:match "%) (%a)" ~= "T" then return false end
    end
    return true
end

--- Starts a program that is a node with these options and then runs the text. Its lines are read by
--- `peer:line()`. It is ended with the case. `inside`: words before the command, if it is to run
--- somewhere else.
function peers.start(options, text, inside)
    options.silence = options.silence or SILENCE
    local command = {table.unpack(inside or {})}
    table.move({shell.mare, "-e", HEAD .. (text or "mare.sleep(1000)"), peers.source(options)}, 1,
        4, #command + 1, command)
    command.stdin, command.stdout, command.stderr, command.grace = "null", "pipe", "inherit", 0
    local made = assert(child.spawn(command))
    local peer = {child = made}
    function peer.line() return made.stdout:read("l", t.patience) end
    function peer.signal(name)
        assert(made:kill(name))
        if name == "STOP" then t.reaches(function() return stands_still(made:pid()) end) end
    end
    peer.address = peer.line()
    return setmetatable(peer, {__close = function() made:close() end})
end

--- The same, joined to this node (and to those that `join` names besides), and known here.
function peers.join(home, options, text)
    options.join = {home.address, table.unpack(options.join or {})}
    local watch = mare.channel(100)
    assert(node.monitor(watch))
    local peer = peers.start(options, text)
    repeat
        local what, name = watch:receive(t.patience)
        if not what then
            error(("%s: %s has not come; it %s; known here: %s"):format(name, options.name,
                peer.child:wait(0) and "has ended" or "runs", t.show(node.list())))
        end
    until what == "up" and name == options.name
    return peer
end

--- What has a name on another node, which has just joined and may not have it yet.
function peers.find(name)
    local found
    t.reaches(function()
        found = mare.find(name)
        return found
    end, name)
    return found
end

return peers
