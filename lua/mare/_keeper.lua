-- SPDX-License-Identifier: MIT
-- The process that keeps a node. It listens and dials, decides who is let in, knows which nodes are
-- there, and does what peers ask for, as far as they are allowed. Decisions are made here; what
-- runs with every message is in C (src/node). Processes of this program send it requests, see
-- node.lua:
--
--     reply, operation, ...   ->   true, ... | nil, message, code
--
-- Each peer sends its requests in the same way, through a channel of its own: the service of its
-- session.
local mare, net, tls = require "mare", require "mare.net", require "mare.tls"
local file, raw, address_of = require "mare.file", require "mare._node", require "mare._address"
local news, places = require "mare._keeper_members", require "mare._keeper_place"
local introductions, credentials = require "mare._keeper_introductions", require "mare._keeper_keys"
local failures = require "mare._keeper_failures"

local HANDSHAKE, DIAL, ASK = 5, 10, 1 -- seconds
local HASTE = 2 -- seconds that a dial has, before the node that is dialled may come in by itself
local HANDSHAKES = 256 -- of connections that come, at once: few enough to be over in time
local FIRST_PAUSE, LAST_PAUSE = 0.1, 10 -- seconds before an address that failed is tried again
local LINES = 100 -- lines of the log, at once, about one node or guest that is connected
local RENEWED = 5 -- seconds between looks at the key files, while nobody connects

local self         -- the options of this node, after checks
local events       -- the channel where sessions tell what happens
local members = news.by_name
local sessions = {} -- by session: {name = , dials = , stamp = , failed = channel}
local dialling = {} -- by name or address: a list of channels that wait for the outcome
local undecided = {} -- channels of those who asked for unknown nodes while others are dialled
local listeners = {} -- channels to be told of nodes
local exported = {} -- functions by name
local guests, guest_count = {}, 0 -- by stream: the certificate that the guest has shown, or ""
local stamp, listener = 0, nil

local NO_NAME = "a name has letters, digits, '.', '_' and '-', 63 at most"
local PARDONED = {duplicate = true, stale = true} -- codes that are nobody's mistake

local function next_stamp()
    stamp = stamp + 1
    return stamp
end

-- ---- What is told -------------------------------------------------------------------------------

-- Makes text from others safe in a line: it cannot begin another line or control a terminal.
local function shown(text)
    local function escape(bytes)
        return (bytes:gsub(".", function(c) return ("\\x%02x"):format(c:byte()) end))
    end
    text = text:gsub("[%c\x7f]", escape)
    return (text:gsub(utf8.len(text) and "\xc2[\x80-\x9f]" or "[\x80-\xff]", escape))
end

local function log(text, ...)
    if self.log then self.log:trysend(shown(text:format(...))) end
end

-- Logs something about a peer that is connected. Limited, because the peer could cause it all the
-- time.
local function complain(whom, text, ...)
    local more = failures.line(whom, mare.now(), LINES)
    if more then log("%s%s", text:format(...), more) end
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

-- The name that a peer has proved; nil: it need not prove one.
local function proved(stream)
    local facts = stream:tls()
    if not facts then return nil end
    if facts.identity then return nil end -- a peer that has the secret may use any name
    return facts.peer and facts.peer.names[1]
end

local function facts_of(stream)
    local facts = stream:tls()
    if not facts then return "" end
    if facts.identity then return "psk:" .. facts.identity end
    return "name:" .. (facts.peer and facts.peer.names[1] or "")
end

-- The certificate that a peer has shown, while it is connected; or nil.
local function certificate_of(stream)
    local facts = stream:tls()
    return facts and facts.peer and (facts.peer.certificate or "")
end

-- The name without what follows a +, which tells several programs of one name apart.
local function plain(name) return name and name:match "^[^+]*" end

-- What code a node may run here: "none", "source", "bytecode".
local function code_of(name)
    local allowed = self.code
    if type(allowed) == "table" then allowed = allowed[plain(name)] or "none" end
    return allowed
end

local function trust_of(name)
    return code_of(name) == "bytecode" and "bytecode" or "values"
end

local function failed(host, why)
    failures.note(host, mare.now())
    log("refused %s: %s", host, why)
end

-- ---- Sessions -----------------------------------------------------------------------------------

local serve_peer

-- Begins a session over a stream that is secured already, if it has to be.
local function begin(stream, dials, name, host)
    local service = mare.channel(16)
    local facts, certificate, owner = facts_of(stream), certificate_of(stream), proved(stream)
    local session, message, code = raw._begin(stream, {name = self.name, group = self.group,
        incarnation = self.incarnation, stamp = dials and next_stamp() or 0, dials = dials,
        facts = facts, address = self.address, silence_us = self.silence_us,
        message_bytes = self.message_bytes},
        events, service)
    if not session then return nil, message, code end
    sessions[session] = {service = service, dials = dials, wanted = name, host = host,
        certificate = certificate, proved = owner, near = news.is_near(host or "", dials)}
    return session
end

-- Reads the key files again, and applies them to those who are connected, too.
local function renew()
    if not credentials.renew() then return end
    log("the files of keys were read again")
    for session, mine in pairs(sessions) do
        local why = credentials.doubt(mine.certificate)
        if why then
            log("refused %s: %s", mine.name or mine.host, why)
            session:_quit("denied", why)
        end
    end
    for stream, certificate in pairs(guests) do
        if credentials.doubt(certificate) then stream:close() end
    end
end

local reach

-- A dial is over, with this outcome. Also wakes those who asked for an unknown node: it may be
-- known now.
local function forget_dial(key, ...)
    local waiting, puzzled = dialling[key], undecided
    dialling[key], undecided = nil, {}
    for _, channel in ipairs(waiting or {}) do channel:trysend(...) end
    for _, item in ipairs(puzzled) do reach(item.name, nil, item.reply) end
end

-- Puts TLS on a stream, by what the key files say now. `name`: of the node that was dialled.
local function secure(stream, name)
    if self.insecure then return stream end
    renew()
    local before = credentials.version
    local ok, message, code = tls.wrap(stream, {context = credentials.context,
        name = name and plain(name), server = not name}, HANDSHAKE)
    if not ok then return nil, message, code end
    local why = before ~= credentials.version and credentials.doubt(certificate_of(stream))
    if not why then return stream end
    stream:close()
    return nil, why, "denied"
end

-- Opens a stream to an address, and secures it if it has to be.
local function open(address, name)
    local host, port = address, nil
    if not address:find "^[/.]" then host, port = address_of(address) end
    if not host then
        return nil, port, "invalid"
    elseif self.private and not require "mare.node"._is_local(address) then
        return nil, "not on this machine, and this node has neither keys nor a secret", "denied"
    end
    local stream, message, code = net.connect(host, port, DIAL)
    if not stream then return nil, message, code end
    return secure(stream, name or host)
end

-- Dials an address. The outcome is told when the session is up, or over.
local function dial(address, name, key)
    -- Other nodes may have sent an address or a name that is none. Then this raises an error, and
    -- the routine that waits is told.
    local fine, stream, message, code = pcall(open, address, name)
    if not fine then stream, message, code = nil, tostring(stream), "invalid" end
    local session
    local member = name and members[name]
    if stream and member and member.session then -- it has come in meanwhile
        stream:close()
        return forget_dial(key, true, name)
    end
    if stream then session, message, code = begin(stream, true, name, address) end
    if not session then
        if not message:find(address, 1, true) then message = address .. ": " .. message end
        forget_dial(key, nil, message, code == "denied" and code or "nonode")
        return
    end
    sessions[session].key = key
end

-- The name of the node at an address that we have a session with.
local function met_at(address)
    for _, mine in pairs(sessions) do
        local member = members[mine.name]
        local there = member and member.session and member.address
        if mine.up and member and (mine.dials and mine.host == address or there == address) then
            return mine.name
        end
    end
end

-- Waits until there is a session with a node, given by name or address. Dials if necessary.
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
        dialling[key] = {reply, began = mare.now()}
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
    elseif not news.is_name(name) then
        return "name", NO_NAME
    elseif group ~= self.group then
        return "group", ("this node belongs to the group '%s'"):format(self.group)
    elseif mine.proved and mine.proved ~= plain(name) then
        return "denied", ("the certificate is for '%s'"):format(mine.proved)
    elseif self.allow and not self.allow[plain(name)] then
        return "denied", "it is not in the list of those who may come in"
    end
    local member = members[name]
    -- A dial that takes long may be to a wrong address, or to one that never answers.
    if dialling[name] and self.name < name and mare.now() < dialling[name].began + HASTE then
        return "duplicate", "the other connection between the two is used"
    elseif not (member and member.session) then
        return nil
    elseif incarnation < member.life then
        return "stale", "a later life of the node is known here"
    elseif incarnation == member.life then
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

-- Judges the node that was dialled: whether to accept it.
local function judge_dialled(session, name)
    local mine = sessions[session]
    local wanted = mine.wanted
    if name == self.name then
        return "name", "it is this node itself, or another of its name"
    elseif not news.is_name(name) then
        return "name", NO_NAME
    elseif wanted and wanted ~= name then
        return "name", ("the node there is called '%s', not '%s'"):format(name, wanted)
    elseif mine.proved and mine.proved ~= plain(name) then
        return "denied", ("the certificate is for '%s'"):format(mine.proved)
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
    local mine = sessions[session] -- nil if it is over by now
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
    if mine.settled then mine.settled:close() end
    address = news.where(address or "", mine.host or "", mine.dials)
    news.learn(name, address, incarnation)
    local member = members[name]
    local other = member.session and member.session ~= session and sessions[member.session]
    if other and member.life == incarnation and
        (other.dials and self.name or name) < (mine.dials and self.name or name) then
        if mine.key then forget_dial(mine.key, true, name) end -- the node is reached all the same
        return session:_quit("replaced", "") -- both have dialled: both sides keep the same session
    elseif other then
        member.session:_quit("replaced", "")
    end
    member.session, member.service, member.stamp = session, service, their_stamp
    mine.over = mare.channel()
    member.over = mine.over -- a channel, closed when the session is over
    -- A node is believed about itself, whatever others have said or will say of it.
    member.incarnation, member.life = incarnation, incarnation
    if address ~= "" then member.address = address end
    if mine.proved == nil and mine.host then failures.forgive(mine.host) end
    introductions.come(name)
    mare.go(serve_peer, mine.service, name)
    news.greet(member)
    news.tell(name, name, member.address or "", incarnation)
    forget_dial(mine.key or name, true, name)
    if mine.key ~= name then forget_dial(name, true, name) end
    places.begin(session, self, sessions, members)
    tell("up", name)
end

local function on_over(session, word, text, by_peer)
    text = shown(text or "")
    local mine = sessions[session]
    sessions[session] = nil
    mine.service:close()
    if mine.settled then mine.settled:close() end
    local name = mine.name
    local member = name and members[name]
    if mine.over then mine.over:close() end
    if member and member.session == session then
        member.session, member.service = nil, nil
        local left = word == "bye" or word == "leaving"
        if left or not member.address then -- nobody could dial it any more
            news.forget(name)
            places.forget(name)
        end
        tell(left and "left" or "down", name, text)
    end
    if mine.key and not mine.up then
        local why = ("%s%s: %s"):format(mine.host, by_peer and " refuses" or "", text)
        if dialling[mine.key] and word == "duplicate" then -- the other session comes in, or not
            local waiting = dialling[mine.key]
            mare.go(function()
                mare.sleep(HASTE)
                if dialling[mine.key] ~= waiting then return end
                if mare.now() < waiting.began + DIAL then
                    return dial(mine.host, mine.wanted, mine.key)
                end
                forget_dial(mine.key, nil, why, "nonode")
            end)
        elseif dialling[mine.key] then
            forget_dial(mine.key, nil, why, word == "denied" and "denied" or word == "name"
                and "exists" or "nonode")
        end
    elseif not mine.up and not mine.refused and mine.host and
        not (mine.said and word == "broken") then -- a node that has waited too long will try again
        failed(mine.host, text)
    end
end

-- ---- Guests -------------------------------------------------------------------------------------

local function refusal(mine)
    if not self.guests then
        return "a guest, and the node's option 'guests' lets none in"
    elseif mine.proved and self.allow and not self.allow[mine.proved] then
        return ("the guest '%s' is not in the list of those who may come in"):format(mine.proved)
    elseif guest_count >= self.guests.connections then
        return "there are too many guests"
    end
end

-- The peer is not a node: it wants to call exported functions.
local function on_guest(session, stream)
    local mine = sessions[session]
    sessions[session] = nil
    mine.service:close()
    if mine.settled then mine.settled:close() end
    local why = refusal(mine)
    if why then
        failed(mine.host, why)
        return stream:close()
    end
    guest_count, guests[stream] = guest_count + 1, mine.certificate or ""
    mare.go(function()
        local _ <close> = setmetatable({}, {__close = function()
            stream:close()
            guest_count, guests[stream] = guest_count - 1, nil
        end})
        require "mare._guest" {stream = stream, host = mine.host,
            exported = exported, memory = self.memory,
            log = function(...) complain(mine.host, ...) end,
            calls = math.ceil(self.guests.calls), seconds = self.guests.seconds}
    end):detach()
end

-- ---- What peers ask for -------------------------------------------------------------------------
-- A peer may send a table with a library function in it. So methods of a value are called only once
-- its type is known: else {find = debug.debug} for a name would run that function here.

local asked = {}

local function is(value, kind) return type(value) == kind or getmetatable(value) == kind end

local function expect(value, kind)
    if not is(value, kind) then error(("no %s, but a %s"):format(kind, type(value)), 0) end
end

function asked.ping(_, reply) answer(reply, true) end

function asked.gossip(from, _, items)
    local mine = members[from] and sessions[members[from].session]
    news.hear(items, from, mine and mine.near)
end

function asked.find(_, reply, name)
    expect(name, "string")
    if name:find "^mare%." then return answer(reply, nil, "nobody has that name", "noname") end
    local found, message, code = mare.find(name)
    if found then answer(reply, true, found) else answer(reply, nil, message, code) end
end

function asked.introduce(from, _, ...) introductions.add(from, ...) end

function asked.claim(from, reply, ...)
    if introductions.claim(from, reply, ...) then
        complain(from, "refused %s: it claims what it was not introduced to", from)
    end
end

-- A peer asks which code it may send.
function asked.code(from, reply) answer(reply, true, code_of(from)) end

-- Whether a peer may send such a body. The link lets a library function pass like any other value,
-- but `os.execute` is code all the same.
local function may_send(from, kind)
    local allowed = code_of(from)
    return kind == "string" or allowed == "bytecode" or kind == "table" and allowed == "source"
end

-- Starts a process for a peer: an exported function by its name, source text, or a function.
function asked.spawn(from, reply, options, body, ...)
    local kind = type(body)
    local run = kind == "string" and exported[body] or body
    if not may_send(from, kind) then
        local why = ("node '%s' may not send code to '%s'"):format(from, self.name)
        complain(from, "a process of %s: %s", from, why)
        return answer(reply, nil, why, "denied")
    elseif options.name and tostring(options.name):find "^mare%." then
        local why = "names that begin with 'mare.' are reserved"
        complain(from, "a process of %s: %s", from, why)
        return answer(reply, nil, why, "denied")
    elseif kind == "table" then
        local message
        expect(body.source, "string") -- load would call a function
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

-- Chunks of Lua, and what belongs to them, for the processes that take them: see alua.lua.
function asked.alua(from, reply, number, ...)
    local daemon = mare.find "mare.alua"
    local why = not daemon and ("no process of node '%s' takes chunks"):format(self.name)
        or code_of(from) == "none" and ("node '%s' may not send code to '%s'"):format(from,
            self.name)
    if why then
        complain(from, "chunks of %s: %s", from, why)
        reply:sendwithin(DIAL, number, {status = "error", error = why})
        return
    end
    daemon:send("peer", from, self.memory, reply, number, ...)
end

local function perform(from, reply, operation, ...)
    if reply ~= nil then expect(reply, "channel") end
    if type(operation) ~= "string" or not asked[operation] then error("no such request", 0) end
    asked[operation](from, reply, ...)
end

function serve_peer(service, from)
    local function one(ok, reply, operation, ...)
        if not ok then -- code that the peer may not send, or a name that is unknown here
            complain(from, "a request of %s: %s", from, reply)
            return true
        end
        if reply == nil and operation == nil then return false end
        local fine, why = pcall(perform, from, reply, operation, ...)
        if not fine then
            complain(from, "a request of %s: %s", from, why)
            if not is(reply, "channel") then reply = nil end
            pcall(answer, reply, nil, "that is no request, or lacks something", "invalid")
        end
        return true
    end
    local function received(reply, operation, ...)
        if reply == nil and ... == "closed" then return true, nil, nil end
        return true, reply, operation, ...
    end
    while one(pcall(function() return select(2, received(service:receive())) end)) do end
    introductions.go(from)
end

-- ---- What this node's own processes ask for -----------------------------------------------------

local requests = {}

function requests.reach(reply, name, address) reach(name, address, reply) end

-- Answers with the service channel of a node, once that is reached.
function requests.service(reply, name)
    local member = members[name]
    if member and member.service then return answer(reply, true, member.service, member.over) end
    answer(reply, nil, ("node '%s' cannot be reached"):format(name), "nonode")
end

function requests.export(reply, name, f)
    exported[name] = f
    answer(reply, true)
end

-- Whether nodes prove their names, by certificates.
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

-- Says goodbye, once nothing waits in any session; `anyway`: at once. All sessions must be empty
-- first: a reference that one of them has passed on is introduced through another.
local function part(anyway)
    for _, mine in pairs(sessions) do
        if mine.up and not mine.drained and not anyway then return end
    end
    for session in pairs(sessions) do session:_bye("leaving", "") end
end

-- Stops the node. A peer that takes nothing delays this by `grace` seconds at the most. The other
-- sessions wait with it: what it has yet to receive may be references to them, and they must be
-- told first.
function requests.stop(reply, grace)
    stopping = reply or true
    if listener then
        local path = listener:address()
        listener:close()
        if path and path:find "^[/.]" then os.remove(path) end
    end
    for session in pairs(sessions) do session:_drain() end
    part()
    mare.go(function()
        mare.sleep(grace)
        part(true)
    end)
end

-- ---- The process --------------------------------------------------------------------------------

-- Accepts one connection, and ends with its handshake. There are only so many of these at once; the
-- system queues other connections. If all began at once on a busy machine, each would be too late.
local function accept_one(stream)
    local host, port = stream:peer()
    if not port then host = "a local program" end -- its path says nothing, and is its to choose
    if failures.penalty(host, mare.now()) > 0 then return stream:close() end
    local place <close> = failures.place(host)
    if not place then
        local more = failures.line(host, mare.now(), 1)
        if more then log("refused %s: too many handshakes at once%s", host, more) end
        return stream:close()
    end
    local ok, message, code = secure(stream)
    if not ok then
        -- A peer that hangs up has shown no wrong key: it may have waited too long, and will come
        -- again.
        local more = code == "closed" and failures.line(host, mare.now(), 1)
        if more then log("refused %s: %s%s", host, message, more)
        elseif code ~= "closed" then failed(host, message) end
        return
    end
    local session = begin(stream, false, nil, host)
    if not session then return end
    local settled = mare.channel()
    sessions[session].settled = settled
    settled:receive(HANDSHAKE) -- it is closed, or the peer is let in
end

local function listen()
    local host, port = self.listen, nil
    if not host:find "^[/.]" then host, port = address_of(host, nil, true) end
    if not host then return nil, port, "invalid" end
    local made, message, code
    if not port then -- a node that has crashed leaves a socket that nobody listens to
        local info = file.stat(host)
        local other = info and info.kind == "socket" and net.connect(host, nil, ASK)
        if other then other:close()
        elseif info and info.kind == "socket" then os.remove(host) end
    end
    made, message, code = net.listen(host, port)
    if not made then return nil, message, code end
    local at, number = made:address()
    if not self.address then
        self.address = number and (at:find ":" and "[%s]:%d" or "%s:%d"):format(at, number) or at
    end
    listener = made
    made:limit(HANDSHAKES)
    mare.go(net.serve, made, accept_one)
    return true
end

-- Keeps a session with a node that this one has to join, whenever that can be reached.
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
            local where = (rest or address) .. ": " -- the address once is enough
            log("cannot join %s: %s", address,
                who:sub(1, #where) == where and who:sub(#where + 1) or who)
            tell("unreachable", address, who)
        end
        if not stopping then mare.sleep(pause) end
        pause = math.min(2 * pause, LAST_PAUSE)
    end
end

-- Looks at the key files while nobody connects: keys may be revoked.
local function follow_files()
    while not stopping do
        mare.sleep(RENEWED)
        renew()
    end
end

local handlers = {hello = on_hello, up = on_up, over = on_over, guest = on_guest}

local function on_event(session, word, ...)
    if sessions[session] and handlers[word] then
        if word == "hello" then
            sessions[session].said = true
            mare.go(on_hello, session, ...) -- in a routine: it may take time
        else
            handlers[word](session, ...)
        end
    elseif word == "drained" then
        if sessions[session] then sessions[session].drained = true end
        if stopping then part() end
    elseif word == "introduce" then
        introductions.introduce(members, session, ...)
    elseif word == "claim" then
        local mine = sessions[session]
        mare.go(introductions.claimed, members, reach, session, mine and mine.near, ...)
    elseif word == "dropped" then
        log("a message could not go to %s: %s", sessions[session] and sessions[session].name, ...)
    elseif sessions[session] and sessions[session].name then
        tell(word, sessions[session].name)
    end
end

--- Runs the node until it is told to stop. `started` gets true and the address, or nil, message,
--- code.
return function(options, channel, started)
    -- Runs also if this process dies: then the program is not a node any more.
    local _ <close> = setmetatable({}, {__close = function() channel:close() end})
    self, events = options, mare.channel(1000)
    raw._gather() -- before it watches anything
    news.begin(options)
    introductions.begin(options.silence_us / 1e6)
    raw._name(self.name, self.incarnation)
    local ok, message, code = credentials.begin(options, log)
    if ok and self.listen then ok, message, code = listen() end
    if not ok then return started:send(nil, message, code) end
    for _, address in ipairs(self.join or {}) do mare.go(keep_joined, address) end
    if self.tls then mare.go(follow_files) end
    mare.yield() -- to those routines: the next request may depend on them
    started:send(true, self.address)
    repeat
        local which, first, second, third, fourth, fifth, sixth, seventh, eighth, ninth =
            mare.select {events, channel}
        if which == 1 and first then
            on_event(first, second, third, fourth, fifth, sixth, seventh, eighth, ninth)
        elseif which == 2 and first == nil and fourth == nil and third == "closed" then
            stopping, channel = stopping or true, mare.channel() -- a closed channel means: stop
            for session in pairs(sessions) do session:_quit("leaving", "") end
        elseif which == 2 and second and requests[second] then
            requests[second](first, third, fourth, fifth)
        end
    until stopping and not next(sessions)
    if stopping ~= true then answer(stopping, true) end
    mare.self():kill() -- ends this process and all its routines
end
