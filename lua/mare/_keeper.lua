-- SPDX-License-Identifier: MIT
-- The process that keeps a node: it listens and dials, decides who is let in, knows who is there,
-- and does what peers ask for, as far as they may. What it decides is here; what runs with every
-- message is in C (src/node). Others talk to it through its channel of requests, see node.lua:
--
--     reply, operation, ...   ->   true, ... | nil, message, code
--
-- A peer talks to it through a channel of its own, the service of the session, in the same way.
local mare, net, tls = require "mare", require "mare.net", require "mare.tls"
local file, raw, address_of = require "mare.file", require "mare._node", require "mare._address"
local news, places = require "mare._keeper_members", require "mare._keeper_place"

local HANDSHAKE, DIAL, ASK = 5, 10, 1 -- seconds
local MISTAKES, PENALTY, FORGIVEN = 3, 1, 60 -- who failed to get in more often waits, for so long
local FIRST_PAUSE, LAST_PAUSE = 0.1, 10 -- before one who could not be joined is tried again

local self         -- options of this node, and what they were made into
local events       -- what sessions tell
local members = news.by_name
local sessions = {} -- by session: {name = , dials = , stamp = , failed = channel}
local dialling = {} -- by name or address: a list of channels to be told
local undecided = {} -- who asked for nodes that are not known yet, while some are dialled
local listeners = {} -- channels that want to know of nodes
local exported = {} -- functions by name
local failures = {} -- by host: when the last one failed to get in, and how often in a row
local stamp, listener = 0, nil

local PARDONED = {duplicate = true, stale = true} -- nobody's mistake

local function next_stamp()
    stamp = stamp + 1
    return stamp
end

-- ---- What is told -------------------------------------------------------------------------------

local function log(text, ...)
    if self.log then self.log:trysend(text:format(...)) end
end

local function tell(what, name, why)
    for channel in pairs(listeners) do
        local ok, _, code = channel:trysend(what, name, why)
        if not ok and code == "closed" then listeners[channel] = nil end
    end
end

local function answer(reply, ...)
    if reply then reply:trysend(...) end
end

-- ---- Security -----------------------------------------------------------------------------------

-- The name that a peer has proved, or nil: it need not.
local function proved(stream)
    local facts = stream:tls()
    if not facts then return nil end
    if facts.identity then return nil end -- who has the secret may have any name
    return facts.peer and facts.peer.names[1]
end

local function facts_of(stream)
    local facts = stream:tls()
    if not facts then return "" end
    if facts.identity then return "psk:" .. facts.identity end
    return "name:" .. (facts.peer and facts.peer.names[1] or "")
end

-- Several programs of one name are told apart by what follows a +.
local function plain(name) return name and name:match "^[^+]*" end

-- What a node may do here: "none", "source", "bytecode".
local function code_of(name)
    local allowed = self.code
    if type(allowed) == "table" then allowed = allowed[plain(name)] or "none" end
    return allowed
end

local function trust_of(name)
    return code_of(name) == "bytecode" and "bytecode" or "values"
end

-- Those who fail again and again wait longer and longer: how long from now.
local function penalty(host)
    local mine = failures[host]
    if not mine or mare.now() - mine.last > FORGIVEN or mine.times <= MISTAKES then return 0 end
    local pause = math.min(PENALTY * 2 ^ (mine.times - MISTAKES - 1), 30)
    return math.max(mine.last + pause - mare.now(), 0)
end

local function failed(host, why)
    local mine = failures[host]
    if not mine then -- one more to remember: those of long ago are forgotten
        for other, theirs in pairs(failures) do
            if mare.now() - theirs.last > FORGIVEN then failures[other] = nil end
        end
    end
    if not mine or mare.now() - mine.last > FORGIVEN then mine = {times = 0} end
    failures[host] = {times = mine.times + 1, last = mare.now()}
    log("refused %s: %s", host, why)
end

-- ---- Sessions -----------------------------------------------------------------------------------

local serve_peer

-- Begins one over a stream that is secure already, if it is to be.
local function begin(stream, dials, name, host)
    local service = mare.channel(16)
    local facts = facts_of(stream)
    local session, message, code = raw._begin(stream, {name = self.name, group = self.group,
        incarnation = self.incarnation, stamp = dials and next_stamp() or 0, dials = dials,
        facts = facts, address = self.address, silence_us = self.silence_us,
        message_bytes = self.message_bytes},
        events, service)
    if not session then return nil, message, code end
    sessions[session] = {service = service, dials = dials, wanted = name, host = host}
    return session
end

local reach

-- A dial is over, with this outcome. Who asked for a node that was not known may find it now.
local function forget_dial(key, ...)
    local waiting, puzzled = dialling[key], undecided
    dialling[key], undecided = nil, {}
    for _, channel in ipairs(waiting or {}) do channel:trysend(...) end
    for _, item in ipairs(puzzled) do reach(item.name, nil, item.reply) end
end

local function secure(stream, name)
    if self.insecure then return stream end
    local options = {name = plain(name)}
    for key, value in pairs(self.tls) do options[key] = value end
    return tls.wrap(stream, options, HANDSHAKE)
end

-- Dials an address; the outcome is told when the session is up, or over.
local function dial(address, name, key)
    local host, port = address, nil
    if not address:find "^[/.]" then host, port = address_of(address) end
    local stream, message, code
    if self.private and not require "mare.node"._is_local(address) then
        message, code = "not on this machine, and this node has neither keys nor a secret", "denied"
    elseif host then stream, message, code = net.connect(host, port, DIAL)
    else message, code = port, "invalid" end
    if stream then stream, message, code = secure(stream, name or host) end
    local session
    if stream then session, message, code = begin(stream, true, name, address) end
    if not session then
        if not message:find(address, 1, true) then message = address .. ": " .. message end
        forget_dial(key, nil, message, code == "denied" and code or "nonode")
        return
    end
    sessions[session].key = key
end

-- The name of the node that we have a session with at an address.
local function met_at(address)
    for _, mine in pairs(sessions) do
        local member = members[mine.name]
        local there = member and member.session and member.address
        if mine.up and member and (mine.dials and mine.host == address or there == address) then
            return mine.name
        end
    end
end

-- Waits until there is a session with a node, by its name, or by an address. Dials if need be.
function reach(name, address, reply)
    name = name or met_at(address)
    local member = name and members[name]
    if member and member.session then return answer(reply, true, name) end
    address = address or member and member.address
    if not address and next(dialling) then
        undecided[#undecided + 1] = {name = name, reply = reply}
        return
    elseif not address then
        return answer(reply, nil, ("no node called '%s' is known here"):format(name), "nonode")
    end
    local key = name or address
    if dialling[key] then
        dialling[key][#dialling[key] + 1] = reply
    else
        dialling[key] = {reply}
        mare.go(dial, address, name, key)
    end
end

-- ---- Who is let in ------------------------------------------------------------------------------

-- Whether a node that we have a session with still answers.
local function answers(member)
    local reply = mare.channel(1)
    return member.service:sendwithin(ASK, reply, "ping") and reply:receive(ASK)
end

local function judge(session, name, group, incarnation, their_stamp)
    local mine = sessions[session]
    if name == self.name then
        return "name", ("this node is called '%s' itself"):format(name)
    elseif not name:find "^%w[%w._-]*%+?%w*$" then
        return "name", "a name has letters, digits, '.', '_' and '-'"
    elseif group ~= self.group then
        return "group", ("this node belongs to the group '%s'"):format(self.group)
    elseif mine.proved and mine.proved ~= plain(name) then
        return "denied", ("the certificate is for '%s'"):format(mine.proved)
    elseif self.allow and not self.allow[plain(name)] then
        return "denied", "it is not in the list of those who may come in"
    end
    local member = members[name]
    if dialling[name] and self.name < name then
        return "duplicate", "the other connection between the two is used"
    elseif not (member and member.session) then
        return nil
    elseif incarnation < member.incarnation then
        return "stale", "a later life of the node is known here"
    elseif incarnation == member.incarnation then
        if their_stamp < member.stamp then return "stale", "an earlier attempt" end
        member.session:_quit("replaced", "")
    elseif answers(member) then
        log("two nodes called '%s' at the same time", name)
        return "name", ("there is another node called '%s', and it is alive"):format(name)
    elseif member.session then
        member.session:_quit("replaced", "")
    end
    return nil
end

-- The same for a node that this one has dialled.
local function judge_dialled(session, name)
    local wanted = sessions[session].wanted
    if name == self.name then
        return "name", "it is this node itself, or another of its name"
    elseif wanted and wanted ~= name then
        return "name", ("the node there is called '%s', not '%s'"):format(name, wanted)
    elseif self.allow and not self.allow[plain(name)] then
        return "denied", ("'%s' is not in the list of those who may come in"):format(name)
    end
end

local function on_hello(session, name, group, incarnation, their_stamp)
    local code, text
    if not sessions[session] then return end
    if sessions[session].dials then
        code, text = judge_dialled(session, name)
    else
        code, text = judge(session, name, group, incarnation, their_stamp)
    end
    local mine = sessions[session] -- it may be over by now
    if code then
        if mine and not PARDONED[code] then failed(mine.host, text) end
        if mine then mine.refused = true end
        session:refuse(code, text)
    else
        session:accept(next_stamp(), trust_of(name))
    end
end

-- ---- Who is there -------------------------------------------------------------------------------

local function on_up(session, name, incarnation, their_stamp, _, service, address)
    local mine = sessions[session]
    mine.name, mine.up = name, true
    news.learn(name, address or "", incarnation)
    local member = members[name]
    local other = member.session and member.session ~= session and sessions[member.session]
    if other and member.incarnation == incarnation and
        (other.dials and self.name or name) < (mine.dials and self.name or name) then
        return session:_quit("replaced", "") -- both have dialled: the same one stays on both sides
    elseif other then
        member.session:_quit("replaced", "")
    end
    member.session, member.service, member.stamp = session, service, their_stamp
    mine.over = mare.channel()
    member.over = mine.over -- closed when it is
    member.incarnation = incarnation
    if mine.proved == nil and mine.host then failures[mine.host] = nil end
    mare.go(serve_peer, mine.service, name)
    news.greet(member)
    news.tell(name, name, member.address or "", incarnation)
    forget_dial(mine.key or name, true, name)
    if mine.key ~= name then forget_dial(name, true, name) end
    places.begin(session, self, sessions, members)
    tell("up", name)
end

local function on_over(session, word, text, by_peer)
    local mine = sessions[session]
    sessions[session] = nil
    mine.service:close()
    local name = mine.name
    local member = name and members[name]
    if mine.over then mine.over:close() end
    if member and member.session == session then
        member.session, member.service = nil, nil
        local left = word == "bye" or word == "leaving"
        if left or not member.address then -- nobody could dial it
            news.forget(name)
            places.forget(name)
        end
        tell(left and "left" or "down", name, text)
    end
    if mine.key and not mine.up then
        local why = by_peer and not mine.up and ("%s refuses: %s"):format(mine.host, text) or text
        if dialling[mine.key] and word == "duplicate" then -- the other one comes in, or does not
            local waiting = dialling[mine.key]
            mare.go(function()
                mare.sleep(DIAL)
                if dialling[mine.key] == waiting then forget_dial(mine.key, nil, why, "nonode") end
            end)
        elseif dialling[mine.key] then
            forget_dial(mine.key, nil, why, word == "denied" and "denied" or word == "name"
                and "exists" or "nonode")
        end
    elseif not mine.up and not mine.refused and mine.host then
        failed(mine.host, text)
    end
end

-- ---- Guests -------------------------------------------------------------------------------------

local guests = 0 -- that are there

local function refusal(mine)
    if not self.guests then
        return "a guest, and the node's option 'guests' lets none in"
    elseif mine.proved and self.allow and not self.allow[mine.proved] then
        return ("the guest '%s' is not in the list of those who may come in"):format(mine.proved)
    elseif guests >= self.guests.connections then
        return "there are too many guests"
    end
end

-- Who came is no node: it wants to call exported functions.
local function on_guest(session, stream)
    local mine = sessions[session]
    sessions[session] = nil
    mine.service:close()
    local why = refusal(mine)
    if why then
        failed(mine.host, why)
        return stream:close()
    end
    guests = guests + 1
    mare.go(function()
        local fine, message = pcall(require "mare._guest", {stream = stream, host = mine.host,
            exported = exported, memory = self.memory, log = log,
            calls = math.ceil(self.guests.calls), seconds = self.guests.seconds})
        guests = guests - 1
        if not fine then log("guest %s: %s", mine.host, message) end
    end):detach()
end

-- ---- What peers ask for -------------------------------------------------------------------------

local asked = {}

function asked.ping(_, reply) answer(reply, true) end

function asked.gossip(from, _, items) news.hear(items, from) end

function asked.find(_, reply, name)
    if name:find "^mare%." then return answer(reply, nil, "nobody has that name", "noname") end
    local found, message, code = mare.find(name)
    if found then answer(reply, true, found) else answer(reply, nil, message, code) end
end

-- What code it may send.
function asked.code(from, reply) answer(reply, true, code_of(from)) end

-- Whether it may send such a body. A function of a library is a value like others, which the link
-- lets through: `os.execute` is code nonetheless.
local function may_send(from, kind)
    local allowed = code_of(from)
    return kind == "string" or allowed == "bytecode" or kind == "table" and allowed == "source"
end

-- A new process: an exported function by its name, source text, or a function.
function asked.spawn(from, reply, options, body, ...)
    local kind = type(body)
    local run = kind == "string" and exported[body] or body
    if not may_send(from, kind) then
        local why = ("node '%s' may not send code to '%s'"):format(from, self.name)
        log("a process of %s: %s", from, why)
        return answer(reply, nil, why, "denied")
    elseif options.name and tostring(options.name):find "^mare%." then
        return answer(reply, nil, "names that begin with 'mare.' are reserved", "denied")
    elseif kind == "table" then
        local message
        run, message = load(body.source, body.name or "=(sent)", "t")
        if not run then return answer(reply, nil, message, "syntax") end
    elseif kind == "string" and not exported[body] then
        return answer(reply, nil, ("node '%s' exports no function '%s'"):format(self.name, body),
            "noname")
    end
    local memory = options.memory or self.memory
    if self.memory then memory = math.min(memory, self.memory) end
    local limits = {memory = memory, name = options.name}
    local ok, process, message, code = pcall(mare.spawn, limits, run, ...)
    if not ok then process, message, code = nil, process, "invalid" end
    if process then answer(reply, true, process) else answer(reply, nil, message, code) end
end

-- Chunks, and what belongs to them, for the processes that take some: see alua.lua.
function asked.alua(from, reply, number, ...)
    local daemon = mare.find "mare.alua"
    local why = not daemon and ("no process of node '%s' takes chunks"):format(self.name)
        or code_of(from) == "none" and ("node '%s' may not send code to '%s'"):format(from,
            self.name)
    if why then
        log("chunks of %s: %s", from, why)
        return reply:send(number, {status = "error", error = why})
    end
    daemon:send("peer", from, self.memory, reply, number, ...)
end

function serve_peer(service, from)
    local function one(ok, reply, operation, ...)
        if not ok then -- code that it may not send, or what is not known here
            log("a request of %s: %s", from, reply)
            return true
        end
        if reply == nil and operation == nil then return false end
        local fine, why = false, "no such request"
        if type(operation) == "string" and asked[operation] then
            fine, why = pcall(asked[operation], from, reply, ...)
        end
        if not fine then
            log("a request of %s: %s", from, why)
            pcall(answer, reply, nil, why, "invalid")
        end
        return true
    end
    local function received(reply, operation, ...)
        if reply == nil and ... == "closed" then return true, nil, nil end
        return true, reply, operation, ...
    end
    while one(pcall(function() return select(2, received(service:receive())) end)) do end
end

-- ---- What this node's own processes ask for -----------------------------------------------------

local requests = {}

function requests.reach(reply, name, address) reach(name, address, reply) end

-- The service channel of a node that is reached.
function requests.service(reply, name)
    local member = members[name]
    if member and member.service then return answer(reply, true, member.service, member.over) end
    answer(reply, nil, ("node '%s' cannot be reached"):format(name), "nonode")
end

function requests.export(reply, name, f)
    exported[name] = f
    answer(reply, true)
end

-- Whether the names of nodes are proved, by certificates.
function requests.proves(reply) answer(reply, true, self.tls ~= nil and not self.tls.psk) end

function requests.exported(reply, name)
    if exported[name] then return answer(reply, true, exported[name]) end
    answer(reply, nil, ("node '%s' exports no function '%s'"):format(self.name, name), "noname")
end

function requests.watch(reply, channel)
    listeners[channel] = true
    answer(reply, true)
end

function requests.list(reply)
    local list = {{name = self.name, address = self.address, here = true, state = "up",
        place = places.here()}}
    for name, member in pairs(members) do
        local view = member.session and member.session:look() or {}
        list[#list + 1] = {name = name, address = member.address,
            state = member.session and "up" or "known", round_trip = view.round_trip,
            bytes_in = view.bytes_in, bytes_out = view.bytes_out,
            messages_in = view.messages_in, messages_out = view.messages_out, place = member.place,
            estimate = places.estimate(member.place)}
    end
    table.sort(list, function(a, b) return a.name < b.name end)
    answer(reply, true, list)
end

local stopping

function requests.stop(reply)
    stopping = reply or true
    if listener then
        local path = listener:address()
        listener:close()
        if path and path:find "^[/.]" then os.remove(path) end
    end
    for session in pairs(sessions) do session:_bye("leaving", "") end
end

-- ---- The process --------------------------------------------------------------------------------

local function accept_one(stream)
    local host = stream:peer() or "a local program"
    if penalty(host) > 0 then return stream:close() end
    if not self.insecure then
        local ok, message = stream:handshake(HANDSHAKE)
        if not ok then
            failed(host, message)
            stream:close()
            return
        end
    end
    local name = proved(stream)
    local session = begin(stream, false, nil, host)
    if session then sessions[session].proved = name end
end

local function listen()
    local options = {}
    for key, value in pairs(self.tls or {}) do options[key] = value end
    local host, port = self.listen, nil
    if not host:find "^[/.]" then host, port = address_of(host, nil, true) end
    if not host then return nil, port, "invalid" end
    local made, message, code
    if not port then -- of a node that has crashed, a socket may be there that nobody listens to
        local info = file.stat(host)
        local other = info and info.kind == "socket" and net.connect(host, nil, ASK)
        if other then other:close()
        elseif info and info.kind == "socket" then os.remove(host) end
    end
    if self.insecure then made, message, code = net.listen(host, port)
    else made, message, code = tls.listen(host, port, options) end
    if not made then return nil, message, code end
    local at, number = made:address()
    if not self.address then
        self.address = number and (at:find ":" and "[%s]:%d" or "%s:%d"):format(at, number) or at
    end
    listener = made
    mare.go(net.serve, made, accept_one)
    return true
end

-- Keeps a session with a node that this one was told to join, whenever it can be reached.
local function keep_joined(address)
    local name, rest = address:match "^([%w._-]+)@(.+)$"
    local pause = FIRST_PAUSE
    while not stopping do
        local reply = mare.channel(1)
        reach(name, rest or address, reply)
        local ok, who, code = reply:receive()
        local member = ok and members[who]
        if member and member.session then
            member.over:receive()
            pause = FIRST_PAUSE
        elseif code then
            local where = (rest or address) .. ": " -- said once is enough
            log("cannot join %s: %s", address,
                who:sub(1, #where) == where and who:sub(#where + 1) or who)
            tell("unreachable", address, who)
        end
        if not stopping then mare.sleep(pause) end
        pause = math.min(2 * pause, LAST_PAUSE)
    end
end

local handlers = {hello = on_hello, up = on_up, over = on_over, guest = on_guest}

local function on_event(session, word, ...)
    if sessions[session] and handlers[word] then
        if word == "hello" then mare.go(on_hello, session, ...) -- it may take time
        else handlers[word](session, ...) end
    elseif word == "dropped" then
        log("a message could not go to %s: %s", sessions[session] and sessions[session].name, ...)
    elseif sessions[session] and sessions[session].name then
        tell(word, sessions[session].name)
    end
end

--- Runs until it is told to stop. `started` gets true and the address, or nil, message, code.
return function(options, channel, started)
    -- Also when it dies: then this program is no node any more.
    local _ <close> = setmetatable({}, {__close = function() channel:close() end})
    self, events = options, mare.channel(1000)
    news.begin(options)
    raw._name(self.name)
    local ok, message, code = true, nil, nil
    if self.listen then ok, message, code = listen() end
    if not ok then return started:send(nil, message, code) end
    for _, address in ipairs(self.join or {}) do mare.go(keep_joined, address) end
    mare.yield() -- to them: what is asked for now may depend on it
    started:send(true, self.address)
    repeat
        local which, first, second, third, fourth, fifth, sixth, seventh, eighth =
            mare.select {events, channel}
        if which == 1 and first then
            on_event(first, second, third, fourth, fifth, sixth, seventh, eighth)
        elseif which == 2 and first == nil and fourth == nil and third == "closed" then
            stopping, channel = stopping or true, mare.channel() -- whoever closed it wants the end
            for session in pairs(sessions) do session:_quit("leaving", "") end
        elseif which == 2 and second and requests[second] then
            requests[second](first, third, fourth, fifth)
        end
    until stopping and not next(sessions)
    if stopping ~= true then answer(stopping, true) end
    mare.self():kill() -- and with it all routines
end
