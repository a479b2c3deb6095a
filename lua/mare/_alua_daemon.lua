-- SPDX-License-Identifier: MIT
-- The process behind `alua` in a program. It knows the ALua processes here, gives them what others
-- send, makes new ones, and talks to the daemons of other nodes. It waits for nothing but messages;
-- routines do what takes time. All messages come through one channel, so that a process's messages
-- are read before the news of its end:
--
--     "call", inbox, number, daemon, operation, ...   a process wants something done, see `calls`
--     "ask", channel, operation, ...                  the same, from who waits: see `asked`
--     "done", number, fine, message                   a process has run a chunk
--     "close", token                                  a process runs nothing more
--     "peer", from, memory, channel, number, operation, ...   another node's daemon, see `does`
--     process, how, ...                               one that is watched has ended
--
--      process -call-> daemon --(here)--> inbox of a process: "chunk"; later "done"
--                        | ^
--           queue of a   | |
--           peer         v +--answers---------+
--                      keeper there ------> daemon there
--                      (may we send code?)
local mare, node, child = require "mare", require "mare.node", require "mare.child"
local limits = require "mare._alua_limits"

local PATIENCE, START = 15, 60 -- seconds: for a connection; for a program that was started

local requests       -- the channel above
local me             -- the identifier of this daemon, once there is one
local processes = {} -- by identifier: {inbox =, token =, ...} here, {peer =, token =} elsewhere
local tokens = {}    -- the same by token
local chunks = {}    -- by number: chunks that a process has not run yet
local peers = {}     -- by identifier of a daemon, or name of a node
local linked = {}    -- daemons that are linked with this one
local puzzles = {}   -- by name: what to send once it is known where that process is
local last = 0

local function next_number()
    last = last + 1
    return last
end

local function failure(text, ...)
    return {status = "error", error = text:format(...)}
end

-- Returns a function. After `count` calls of it, `done` gets a list of their arguments.
local function gather(count, done)
    local results = {}
    return function(key, result)
        results[key] = result
        count = count - 1
        if count == 0 then done(results) end
    end
end

-- The first error of several replies, with its key.
local function first_error(results)
    local keys = {}
    for key, result in pairs(results) do
        if result.status ~= "ok" then keys[#keys + 1] = key end
    end
    table.sort(keys)
    if keys[1] then return ("%s: %s"):format(keys[1], results[keys[1]].error) end
end

-- ---- Other nodes --------------------------------------------------------------------------------

local function lose(peer, why)
    if peers[peer.key] == peer then peers[peer.key] = nil end
    linked[peer.key] = nil
    peer.queue:close()
    for id, process in pairs(processes) do
        if process.peer == peer then processes[id] = nil end
    end
    local pending = peer.pending
    peer.pending = {}
    for _, done in pairs(pending) do done(failure("%s", why)) end
end

-- Whether an answer is well formed: its sender may be an enemy.
local function sane(reply)
    local function may_be(key, kind) return reply[key] == nil or type(reply[key]) == kind end
    return type(reply) == "table" and (reply.status == "ok" or type(reply.error) == "string")
        and may_be("processes", "table") and may_be("daemon", "string") and may_be("id", "string")
end

local function answered(peer, number, reply)
    local done = peer.pending[number]
    if not done then return end
    peer.pending[number], peer.count = nil, peer.count - 1
    done(sane(reply) and reply or failure("%s: an answer that is none", peer.key))
end

-- Reads the answers of a peer until it is gone.
local function hear(peer, over)
    while true do
        local which, number, reply = mare.select {peer.answers, over}
        if which == 2 then break end
        answered(peer, number, reply)
    end
    while #peer.answers > 0 do answered(peer, peer.answers:tryreceive()) end
    lose(peer, ("%s cannot be reached any more"):format(peer.key))
end

-- Connects to a peer, and sends what waits. Answers go through the channels that came with the
-- requests.
local function talk(peer)
    local is_address = peer.key:find "[:/]"
    local service, message = node._service(not is_address and peer.key or nil,
        is_address and peer.key or nil, PATIENCE)
    if not service then return lose(peer, message) end
    mare.go(hear, peer, service.over):detach()
    for channel, number, first, second, third in peer.queue:messages() do
        if channel then
            channel:send(number, first)
        else
            local ok, why = service.channel:send(peer.answers, "alua", number, first, second, third)
            if not ok then answered(peer, number, failure("%s: %s", peer.key, why)) end
        end
    end
end

local function peer_of(key)
    if type(key) ~= "string" then error("a daemon's identifier is text", 0) end
    local peer = peers[key]
    if not peer then
        -- Room for our requests there, and for as many answers to requests from there.
        peer = {key = key, queue = mare.channel(2 * limits.queue + 100),
            answers = mare.channel(64), pending = {}, count = 0}
        peers[key] = peer
        mare.go(talk, peer):detach()
    end
    return peer
end

-- Asks the daemon of another node to do something.
local function request(peer, done, operation, first, second)
    if peer.count >= limits.queue then
        return done(failure("%s: it has not answered %d requests yet", peer.key, peer.count))
    end
    local number = next_number()
    peer.pending[number], peer.count = done, peer.count + 1
    peer.queue:trysend(false, number, operation, first, second)
end

-- ---- Processes ----------------------------------------------------------------------------------

local function forget(process, why)
    if process.id and processes[process.id] == process then processes[process.id] = nil end
    tokens[process.token] = nil
    if process.home then -- its home must know, too
        request(peer_of(process.home), function() end, "leave", process.id)
    end
    for number, chunk in pairs(chunks) do
        if chunk.process == process then
            chunks[number] = nil
            chunk.done(failure("%s", why))
        end
    end
end

local function enter(handle, inbox, token, id)
    local process = {handle = handle, inbox = inbox, id = id, token = token, waiting = 0, bytes = 0}
    tokens[process.token] = process
    if id then processes[id] = process end
    handle:monitor(requests)
    return process
end

-- Makes a process. Its main script is the loop that runs chunks.
local function make(id, memory)
    local inbox, token = mare.channel(limits.chunks + limits.calls), next_number()
    local handle, message = mare.spawn({_background = true, memory = memory}, function(...)
        require "alua"._begin(...)
    end, inbox, token, id, me)
    if not handle then return nil, message end
    enter(handle, inbox, token, id).made = true
    return true
end

-- Gives a chunk to a process of this daemon.
local function give(process, code, done)
    if type(code) ~= "string" then return done(failure("a chunk is text")) end
    if process.peer then return request(process.peer, done, "run", process.token, code) end
    if process.waiting >= limits.chunks
        or process.waiting > 0 and process.bytes + #code > limits.bytes then
        return done(failure("too many chunks wait for the process"))
    end
    local number = next_number()
    process.waiting, process.bytes = process.waiting + 1, process.bytes + #code
    chunks[number] = {process = process, size = #code, done = done}
    process.inbox:trysend("chunk", process.token, number, code) -- there is always room
end

-- ---- Where a chunk goes -------------------------------------------------------------------------

-- As `give`, but only for processes of this daemon.
local function give_here(id, code, done)
    if id == me and not processes[id] then make(id) end -- also a process
    if not processes[id] then return done(failure("there is no process '%s'", id)) end
    give(processes[id], code, done)
end

-- A name that is not known here: asks the linked daemons.
local function search(name, code, done)
    local waiting = puzzles[name]
    if waiting then
        waiting[#waiting + 1] = {code, done}
        return
    end
    waiting = {{code, done}}
    local count = 0
    for _ in pairs(linked) do count = count + 1 end
    if count == 0 then return done(failure("there is no process '%s'", name)) end
    puzzles[name] = waiting
    local collect = gather(count, function(results)
        puzzles[name] = nil
        local found, many
        for key, result in pairs(results) do
            if result.exists then found, many = key, found ~= nil end
        end
        for _, item in ipairs(waiting) do
            if many then item[2](failure("several daemons have a process '%s'", name))
            elseif found then request(peer_of(found), item[2], "give", name, item[1])
            else item[2](failure("there is no process '%s'", name)) end
        end
    end)
    for key in pairs(linked) do
        request(peer_of(key), function(reply) collect(key, reply) end, "exists", name)
    end
end

-- Finds a process, for one of the daemon `home`.
local function route(home, id, code, done)
    if processes[id] or id == me then return give_here(id, code, done) end
    local at = id:match "@([^@]+)$" or id:find "[:/]" and id
    if at and at == me then return give_here(id, code, done)
    elseif at then return request(peer_of(at), done, "give", id, code)
    elseif home == me then return search(id, code, done) end
    request(peer_of(home), done, "route", id, code)
end

-- ---- What daemons do ----------------------------------------------------------------------------
-- does.NAME(done, from, memory, ...): `from` is the node that asks for it, nil for this one; its
-- processes may have so much memory.

local does = {}

-- The operations of another daemon. This one makes processes here.
function does.make(done, _, memory, share)
    if not me then return done(failure("there is no daemon here")) end
    local names, made = share.names, {}
    local count = math.tointeger(names and #names or share.count)
    if not count or count > limits.processes then return done(failure("too many processes")) end
    local function one(id)
        if processes[id] then
            made[id] = failure("there is a process '%s' already", id)
        else
            local ok, message = make(id, memory)
            made[id] = ok and {status = "ok"} or failure("%s", message)
        end
        made[id].daemon = me
    end
    for i = 1, count do
        one(names and tostring(names[i]) or ("%d@%s"):format(next_number(), me))
    end
    local problem = first_error(made)
    done {status = problem and "error" or "ok", error = problem, processes = made}
end

-- How many processes each of so many daemons makes.
local function divide(share, daemons)
    local total, shares, from = share.names and #share.names or share.count, {}, 1
    for i, daemon in ipairs(daemons) do
        local count = total // #daemons + (i <= total % #daemons and 1 or 0)
        if count > 0 then
            shares[daemon] = share.names and {names = table.move(share.names, from,
                from + count - 1, 1, {})} or {count = count}
        end
        from = from + count
    end
    return shares
end

-- Makes processes here and at the linked daemons.
function does.spawn(done, from, memory, share, shares)
    if not shares then
        local daemons = {}
        for daemon in pairs(linked) do daemons[#daemons + 1] = daemon end
        table.sort(daemons)
        table.insert(daemons, 1, me)
        shares = divide(share, daemons)
    end
    local count = 0
    for _ in pairs(shares) do count = count + 1 end
    local collect = gather(count, function(results)
        local all = {}
        for _, result in pairs(results) do
            for id, made in pairs(result.processes or {}) do all[id] = made end
        end
        local problem = first_error(results)
        done {status = problem and "error" or "ok", error = problem, processes = all}
    end)
    for daemon, part in pairs(shares) do
        local function collected(reply) collect(daemon, reply) end
        if daemon == me then does.make(collected, from, memory, part)
        else request(peer_of(daemon), collected, "make", part) end
    end
end

function does.link(done, _, _, list)
    local all, count = {me}, 0
    for _, daemon in ipairs(list) do
        if daemon ~= me then all[#all + 1], count = daemon, count + 1 end
    end
    if count == 0 then return done {status = "ok", daemons = all} end
    local collect = gather(count, function(results)
        local problem = first_error(results)
        done {status = problem and "error" or "ok", error = problem,
            daemons = not problem and all or nil}
    end)
    for i = 2, #all do
        request(peer_of(all[i]), function(reply)
            if reply.status == "ok" and reply.daemon then linked[reply.daemon] = true end
            collect(all[i], reply)
        end, "meet", all)
    end
end

-- Another daemon has linked these daemons with each other.
function does.meet(done, _, _, list)
    if not me then return done(failure("there is no daemon here")) end
    for _, daemon in ipairs(list) do
        if type(daemon) == "string" and daemon ~= me then linked[daemon] = true end
    end
    done {status = "ok", daemon = me}
end

function does.exists(done, _, _, name)
    done {status = "ok", exists = processes[name] ~= nil}
end

function does.give(done, _, _, id, code) give_here(id, code, done) end

-- A process of another program that has opened this daemon uses a name that its own program does
-- not know.
function does.route(done, _, _, id, code) route(me, id, code, done) end

-- A process here has opened the daemon that sends this: runs a chunk in it.
function does.run(done, _, _, token, code)
    local process = tokens[token]
    if not process then return done(failure("the process has closed")) end
    give(process, code, done)
end

-- A process of the node `from` opens this daemon.
function does.enter(done, from, _, token)
    if not me then return done(failure("there is no daemon here")) end
    local id = ("%d@%s"):format(next_number(), me)
    processes[id] = {peer = peer_of(from), token = token, id = id}
    done {status = "ok", id = id, daemon = me}
end

function does.leave(done, from, _, id)
    local process = processes[id]
    if process and process.peer and process.peer.key == from then processes[id] = nil end
    done {status = "ok"}
end

-- The operations that other nodes may ask for.
local OPEN = {make = true, spawn = true, link = true, meet = true, exists = true, give = true,
    route = true, run = true, enter = true, leave = true}

-- ---- What processes of this program ask for -----------------------------------------------------

-- Prints the output of a program that was started. The program ends with this process, which owns
-- it.
local function pass_on(made)
    local line = made.stdout:read "L"
    while line do
        io.write(line)
        io.flush()
        line = made.stdout:read "L"
    end
    made:close()
end

local function start(settings, done)
    local text = ("require 'alua'._serve(%s)"):format(require "alua".codec.dump(settings))
    local made, message = child.spawn {"/proc/self/exe", "-e", text, stdin = "pipe",
        stdout = "pipe", grace = 0}
    if not made then return done(failure("%s", message)) end
    local line, problem = made.stdout:read("l", START)
    local status, rest = (line or ""):match "^(%l+) (.*)$"
    if status == "ok" then
        mare.go(pass_on, made):detach()
        return done {status = "ok", daemon = rest}
    end
    made:close()
    done(failure("%s", rest or problem or "the program has ended"))
end

local calls = {}

function calls.create(done, _, settings) mare.go(start, settings, done):detach() end

function calls.send(done, home, list, code)
    local collect = gather(#list, function(results)
        local problem = first_error(results)
        if #list == 1 then problem = results[list[1]].error end -- only one destination
        done {status = problem and "error" or "ok", error = problem, replies = results}
    end)
    for _, id in ipairs(list) do
        route(home, id, code, function(reply) collect(id, reply) end)
    end
end

-- These are done by the daemon that the process has opened.
for _, operation in ipairs {"spawn", "link"} do
    calls[operation] = function(done, home, first, second)
        if home == me then return does[operation](done, nil, nil, first, second) end
        request(peer_of(home), done, operation, first, second)
    end
end

local asked = {}

-- The node was stopped, and started again with another address: processes that were made before
-- have ended.
local function begin_anew()
    for _, process in pairs(tokens) do
        if process.made then process.handle:kill("the node has stopped") end
        forget(process, "the node has stopped")
    end
end

function asked.open(done, handle, inbox, address, id)
    if me and me ~= address then begin_anew() end
    me = address
    id = id and me or ("%d@%s"):format(next_number(), me)
    done {status = "ok", id = id, daemon = me,
        token = enter(handle, inbox, next_number(), id).token}
end

function asked.join(done, handle, inbox, daemon)
    local process = enter(handle, inbox, next_number())
    request(peer_of(daemon), function(reply)
        if reply.status ~= "ok" then tokens[process.token] = nil end
        process.id, process.home = reply.id, daemon
        reply.token = process.token
        done(reply)
    end, "enter", process.token)
end

-- Answers when all that waited for other nodes has been sent.
function asked.flush(done)
    local flushed, count = mare.channel(limits.queue), 0
    for _, peer in pairs(peers) do
        if peer.queue:trysend(flushed, 0) then count = count + 1 end
    end
    mare.go(function()
        for _ = 1, count do flushed:receive(PATIENCE) end
        done(true)
    end):detach()
end

-- ---- The process --------------------------------------------------------------------------------

local kinds = {}

function kinds.call(inbox, number, home, operation, first, second)
    calls[operation](function(reply)
        if number then inbox:trysend("reply", number, reply) end
    end, home, first, second)
end

function kinds.ask(channel, operation, ...)
    asked[operation](function(reply) channel:trysend(reply) end, ...)
end

function kinds.done(number, fine, message)
    local chunk = chunks[number]
    if not chunk then return end
    chunks[number] = nil
    local process = chunk.process
    process.waiting, process.bytes = process.waiting - 1, process.bytes - chunk.size
    chunk.done(fine and {status = "ok"} or failure("%s", message))
end

function kinds.close(token)
    if tokens[token] then forget(tokens[token], "the process has closed") end
end

function kinds.peer(from, memory, channel, number, operation, ...)
    if getmetatable(channel) ~= "channel" then return end
    local function done(reply) peer_of(from).queue:trysend(channel, number, reply) end
    if not OPEN[operation] then return done(failure("no such request")) end
    local fine, message = pcall(does[operation], done, from, memory, ...)
    if not fine then done(failure("%s", message)) end
end

local function ended(handle, how, message)
    local why = how == "died" and ("the process has died: %s"):format(tostring(message))
        or "the process has ended"
    for _, process in pairs(tokens) do
        if process.handle == handle then forget(process, why) end
    end
end

local function dispatch(kind, ...)
    if kinds[kind] then kinds[kind](...)
    elseif getmetatable(kind) == "process" then ended(kind, ...) end
end

return function(channel)
    local _ <close> = channel
    requests = channel
    while true do
        local fine, message = pcall(dispatch, channel:receive())
        if not fine then mare.go(error, message, 0) end -- which prints it
    end
end
