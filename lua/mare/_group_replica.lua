-- SPDX-License-Identifier: MIT
-- The process behind a replica, or a multicast, of one member: it hosts the log (_group_log.lua),
-- and applies what is committed.
--
--     processes here ─▶ requests ──▶ bundle ──▶ leader's log ──▶ a majority's disks ──▶ committed
--                                                                                        │
--     who asked: the result ◀── applied here ◀───────────────────────────────────────────┘
--
-- Values that several processes send at the same time go in one bundle. It carries the member, its
-- life, and a number. A member sends its bundle again until it comes back from the log, and one
-- that comes twice is applied once. So nothing acknowledged is lost, and nothing is done twice.
local mare, party = require "mare", require "mare._party"
local group, log, disk = require "mare.group", require "mare._group_log", require "mare._group_disk"
local group_state, outbox = require "mare._group_state", require "mare._group_outbox"
local show = require "mare._show"

local QUEUE, TICK = 256, 0.1 -- seconds
local MOST, FLYING = 200, 32 -- values in a bundle; bundles on their way
local BYTES = 1 << 18 -- bytes of several values in a bundle
local FLYING_BYTES, WAITING_BYTES = 1 << 22, 1 << 24 -- bytes on their way; bytes that wait
local BEHIND_BYTES = 1 << 26 -- bytes that a program has not received yet
local FIRST = 8 -- entries: the state is looked at after 8, 16, 32, ...
local BACKLOG = 4096 -- the most bundles that wait for a receiver (_group_shared.lua)
local NO_MEMORY = "not enough memory" -- as Lua says it
local STAMP = "<Bi8i8" -- the head of a bundle: its member, its life, its number

local host = {}
host.__index = host

-- ---- To others ----------------------------------------------------------------------------------

-- What cannot be sent now is lost: it is repeated later.
function host:send(peer, ...)
    if self.outboxes[peer] then self.outboxes[peer]:send(...) end
end

-- Whether messages to this member wait unsent.
function host:is_busy(peer) return self.outboxes[peer] and self.outboxes[peer].waiting > 0 end

-- Sets the members: `names` by their numbers. A member keeps its number as long as it is in.
local function set_members(self, settings)
    for _, box in pairs(self.outboxes) do box:close() end
    self.outboxes, self.numbers, self.names = {}, {}, {}
    self.digest, self.generation = settings.digest, settings.generation
    for slot, name in ipairs(settings.former or settings.names) do self.names[slot] = name end
    for i, name in ipairs(settings.names) do
        local slot = settings.slots and settings.slots[i] or i
        self.numbers[name] = slot
        if name ~= self.here then
            self.outboxes[slot] = outbox.new(("%s@%s"):format(self.address, name), self.here,
                self.digest)
        end
    end
end

local function slots_of(settings)
    local slots = {}
    for i in ipairs(settings.names) do slots[i] = settings.slots and settings.slots[i] or i end
    return slots
end

-- ---- What is committed --------------------------------------------------------------------------

-- Sends an answer. If the result cannot be sent, the caller gets this code instead: that is its
-- problem, and this member goes on.
local function respond(reply, otherwise, ...)
    local fine, sent, message, code = pcall(reply.trysend, reply, ...)
    if not fine then message = sent elseif sent or code ~= "badmsg" then return end
    reply:trysend(nil, "the answer cannot be sent: " .. tostring(message), otherwise)
end

local function tell(caller, ...)
    if caller then respond(caller.reply, "unsure", ...) end
end

-- Without memory this member cannot tell whether the others have applied the value. So it ends.
-- When it is started again, it goes on from its disk.
local function note(caller, state, ok, new, ...)
    if not ok and new == NO_MEMORY then error(new, 0) end
    if not ok then
        tell(caller, nil, type(new) == "string" and new or show(new), "failed")
        return state
    end
    tell(caller, true, ...)
    return new
end

-- Calls the program's function. From time to time, after the same values on each member, checks
-- that the state can be written to disk. If that were found only when the log is long, all members
-- would end.
local function changed_by(self, value)
    local results = table.pack(self.change(self.state, value))
    if self.applied <= FIRST or self.applied & (self.applied - 1) == 0 then
        local fine, message, code = party._pack(results[1])
        if not fine and code ~= "badmsg" then error(NO_MEMORY, 0) end
        if not fine then error("the state cannot be kept: " .. message, 0) end
    end
    return table.unpack(results, 1, math.max(results.n, 1))
end

-- Gives a bundle to those who receive a multicast. A receiver that is too far behind, in bundles or
-- in bytes, gets no more: what waits for it must not fill the memory.
local function hand_over(self, from, payload)
    local told = self.told -- the number of bytes after each of the last bundles
    told.count = told.count + 1
    told[told.count] = told[told.count - 1] + #payload
    told[told.count - BACKLOG - 1] = nil
    for channel in pairs(self.receivers) do
        local taken = told.count - 1 - #channel
        if told[told.count] - (told[taken] or 0) > BEHIND_BYTES and #channel > 0
            or not channel:trysend(from, payload) then
            channel:close()
            self.receivers[channel] = nil
        end
    end
end

local function apply_bundle(self, whose, payload, bundle)
    if self.change then
        local values, callers = table.pack(party._unpack(payload)), bundle and bundle.callers or {}
        for i = 1, values.n do
            self.state = note(callers[i], self.state, pcall(changed_by, self, values[i]))
        end
    elseif self.from and self.applied > self.from and payload ~= "" then
        hand_over(self, self.names[whose], payload)
    end
    for _, reply in ipairs(bundle and bundle.reads or {}) do
        respond(reply, "badmsg", true, self.state)
    end
end

-- Whether this is the next bundle of its sender; then notes that.
local function is_next(seen, whose, life, number)
    local last = seen[whose]
    if not last or last.life < life then
        last = {life = life, number = 0}
        seen[whose] = last
    end
    if last.life ~= life or number ~= last.number + 1 then return false, last end
    last.number = number
    return true
end

-- A bundle of this member has come back from the log.
local function land(self, number, bundle)
    self.flying[number], self.count = nil, self.count - 1
    self.flying_bytes = self.flying_bytes - #bundle.payload
end

local function apply(self)
    while self.applied < self.log.commit do
        self.applied = self.applied + 1
        local data = self.log.data[self.applied]
        if data ~= "" then
            local whose, life, number, at = STAMP:unpack(data)
            local bundle = whose == self.number and life == self.life and self.flying[number]
            if is_next(self.seen, whose, life, number) then
                apply_bundle(self, whose, data:sub(at), bundle)
            end
            if bundle then land(self, number, bundle) end
        end
    end
end

-- The log has bundles of a later life of this member: it has lost its disk, and its clock was set
-- back. The others accept nothing of the present life, so what is on its way is sent anew in a
-- later life.
local function outlive(self)
    local mine = self.seen[self.number]
    if not mine or mine.life < self.life then return end
    if mine.life == self.life and mine.number <= self.last then return end
    local flying, last = {}, 0
    for number = 1, self.last do
        if self.flying[number] then
            last = last + 1
            flying[last] = self.flying[number]
        end
    end
    self.life, self.flying, self.last, self.era = mine.life + 1, flying, last, nil
    self.disk:live(self.life)
end

-- ---- Bundles ------------------------------------------------------------------------------------

-- The leader takes a bundle into its log, if it is the next of its sender.
local function accept(self, whose, life, number, payload)
    local good, last = is_next(self.appended, whose, life, number)
    if good then
        self.log:append(STAMP:pack(whose, life, number) .. payload)
    elseif last.life == life and number > last.number + 1 and whose ~= self.number then
        self:send(whose, "resend", 0, life, last.number)
    end
end

local function submit(self, number)
    local bundle = self.flying[number]
    if not bundle then return end
    bundle.age = 0
    if self.log.stage == "leading" then
        accept(self, self.number, self.life, number, bundle.payload)
    elseif self.log.leader and self.log.leader ~= self.number then
        self:send(self.log.leader, "forward", 0, self.life, number, bundle.payload)
    end
end

local function submit_all(self)
    local mine = self.seen[self.number]
    local first = mine and mine.life == self.life and mine.number + 1 or 1
    for number = first, self.last do submit(self, number) end
end

-- Makes bundles of the values that wait, while there is a leader and not too much is on its way.
local function make_bundles(self)
    local first = 1
    while self.waiting[first] and self.log.leader and self.count < FLYING
        and self.flying_bytes < FLYING_BYTES do
        local values, callers, reads, bytes = {}, {}, {}, 0
        repeat
            local one = self.waiting[first]
            if one.value then
                values[#values + 1], callers[#values + 1] = one.value, one.reply and one or false
                bytes = bytes + #one.value
            else
                reads[#reads + 1] = one.reply
            end
            first = first + 1
            local following = self.waiting[first]
        until not following or #values + #reads == MOST
            or following.value and bytes + #following.value > BYTES
        self.waiting_bytes = self.waiting_bytes - bytes
        self.last, self.count = self.last + 1, self.count + 1
        self.flying[self.last] = {payload = table.concat(values), callers = callers, reads = reads}
        self.flying_bytes = self.flying_bytes + bytes
        submit(self, self.last)
    end
    if first > 1 then
        self.waiting = table.move(self.waiting, first, #self.waiting, 1, {})
    end
end

-- A leader knows how far each member's log is; a new leader is sent all that is on its way.
local function look_who_leads(self)
    local log_now = self.log
    local era = log_now.leader and log_now.promised
    if log_now.stage == "leading" and self.tallied ~= log_now.promised then
        self.tallied, self.appended = log_now.promised, {}
        for whose, last in pairs(self.seen) do
            self.appended[whose] = {life = last.life, number = last.number}
        end
        for i = self.applied + 1, log_now.last do
            local data = log_now.data[i]
            if data ~= "" then is_next(self.appended, STAMP:unpack(data)) end
        end
        self.era = nil
    end
    if log_now.stage == "collecting" then era = nil end
    if era and era ~= self.era then submit_all(self) end
    self.era = era
    if not self.from and log_now.stage == "leading" then self.from = log_now.opening end
    if not self.from and log_now.heard then self.from = log_now.known end
    if self.from and self.joining[1] then
        for _, reply in ipairs(self.joining) do reply:trysend(true) end
        self.joining = {}
    end
end

-- ---- What is asked for --------------------------------------------------------------------------

local requests = {}

local function add_waiting(self, reply, value)
    self.waiting[#self.waiting + 1] = {reply = reply, value = value}
    self.waiting_bytes = self.waiting_bytes + #(value or "")
end

function requests.apply(self, reply, value) add_waiting(self, reply, value) end

function requests.send(self, _, value) add_waiting(self, nil, value) end

function requests.read(self, reply) add_waiting(self, reply) end

function requests.peek(self, reply) respond(reply, "badmsg", true, self.state) end

-- Answered when this member is in: the caller gets all that is ordered from then on.
function requests.receive(self, reply, channel, process)
    self.receivers[channel] = process
    process:monitor(self.requests)
    self.joining[#self.joining + 1] = reply
end

-- A caller gives up. It learns whether its value is on its way, and whether there is a majority.
function requests.drop(self, answer, reply)
    local why, on_its_way = self.group:_epoch() and "timeout" or "noquorum", true
    for i, one in ipairs(self.waiting) do
        if one.reply == reply then
            table.remove(self.waiting, i)
            self.waiting_bytes = self.waiting_bytes - #(one.value or "")
            on_its_way = false
            break
        end
    end
    answer:trysend(why, on_its_way)
end

function requests.look(self, answer)
    local log_now = self.log
    answer:trysend {leader = log_now.leader and self.names[log_now.leader], stage = log_now.stage,
        epoch = log_now.promised, last = log_now.last, committed = log_now.commit,
        applied = self.applied, base = log_now.base}
end

function requests.leave(self, reply) self.over = reply end

local function serve(self, what, ...)
    if requests[what] then return requests[what](self, ...) end
    for channel, process in pairs(self.receivers) do
        if process == what then self.receivers[channel] = nil end
    end
end

-- This member has lost its lease, or (`why`, `code`) this is the end. Callers are told: a value
-- that is still here is not sent; one that is on its way may be applied. Values of a multicast stay
-- until there is a majority again.
local function give_up(self, why, code)
    local kept = {}
    local message = why or "this member does not reach a majority of the group"
    for _, one in ipairs(self.waiting) do
        if one.reply then
            one.reply:trysend(nil, message, code or "noquorum")
            self.waiting_bytes = self.waiting_bytes - #(one.value or "")
        else
            kept[#kept + 1] = one
        end
    end
    self.waiting = kept
    for _, bundle in pairs(self.flying) do
        for _, caller in ipairs(bundle.callers) do
            tell(caller, nil, (why or "the majority was lost meanwhile") .. ": it may be done yet",
                "unsure")
        end
        for _, reply in ipairs(bundle.reads) do
            reply:trysend(nil, message, code or "noquorum")
        end
        bundle.callers, bundle.reads = {}, {}
    end
end

local function hear_leader(self, leader, epoch)
    if leader == nil then
        self.over = self.over or false -- the group was left
    elseif leader == self.here then
        self.log:lead(epoch)
    else
        if self.log.leader == self.number then self.log:follow() end
        -- At the beginning there is no lease to lose: callers have a deadline, or wait.
        if not leader and self.led and not self.group:_epoch() then give_up(self) end
    end
    self.led = leader
end

-- ---- From others --------------------------------------------------------------------------------

-- A message. Its node has proved that it is `from` (mare._node._box).
local function hear(self, from, said, digest, what, epoch, a, ...)
    local peer = digest == self.digest and said == from and self.numbers[from]
    if not peer or peer == self.number or math.type(epoch) ~= "integer" then return end
    if what == "peek" then
        if self.change and getmetatable(a) == "channel" then requests.peek(self, a) end
    elseif what == "forward" then
        if self.log.stage == "leading" then accept(self, peer, a, ...) end
    elseif what == "resend" then
        if a == self.life then submit_all(self) end
    else
        self.log:hear(peer, what, epoch, a, ...)
    end
end

-- ---- Its life -----------------------------------------------------------------------------------

-- Keeps the state, and of the log only what comes after it.
local function compact(self)
    local list, seen = self.log, {}
    for whose, last in pairs(self.seen) do seen[#seen + 1] = {whose, last.life, last.number} end
    local text = assert(party._pack {state = self.state, seen = seen})
    local epoch = list:epoch_at(self.applied)
    list:compact(self.applied)
    self.disk:replace(self.applied, epoch, text, list.promised, function(keep)
        for i = list.base + 1, list.last do keep(i, list.epochs[i], list.data[i]) end
    end)
    list.synced, self.limit = list.last, math.max(self.log_bytes, 2 * #text)
end

local function restore(self, text)
    local kept = text and party._unpack(text)
    if not kept then return end
    self.state, self.seen = kept.state, {}
    for _, one in ipairs(kept.seen) do self.seen[one[1]] = {life = one[2], number = one[3]} end
end

-- A whole state has come from another member. It contains bundles of this member: those were
-- applied, but the results of the function are unknown. Callers that read get the new state.
local function land_unseen(self)
    local mine = self.seen[self.number]
    if not mine or mine.life ~= self.life then return end
    for number = 1, mine.number do
        local bundle = self.flying[number]
        if bundle then
            land(self, number, bundle)
            for _, caller in ipairs(bundle.callers) do
                tell(caller, nil, "it was done while this member was behind: what came of it is "
                    .. "not known here", "unsure")
            end
            for _, reply in ipairs(bundle.reads) do respond(reply, "badmsg", true, self.state) end
        end
    end
end

-- Installs another member's state. A receiver of a multicast has missed values, and is told.
local function install(self, index, epoch, text, keeps)
    if not keeps then
        self.disk:cut(index + 1)
        self.disk:sync()
    end
    restore(self, text)
    self.applied = index
    self.disk:replace(index, epoch, text, self.log.promised, function(keep)
        for i = index + 1, self.log.last do keep(i, self.log.epochs[i], self.log.data[i]) end
    end)
    for channel in pairs(self.receivers) do channel:close() end
    self.receivers = {}
    land_unseen(self)
end

local function io_of(self)
    local io = {}
    function io.send(...) self:send(...) end
    function io.is_busy(peer) return self:is_busy(peer) end
    function io.promise(...) self.disk:promise(...) end
    function io.write(...) self.disk:write(...) end
    function io.cut(...) self.disk:cut(...) end
    function io.sync() self.disk:sync() end
    function io.snapshot() return self.disk:text() end
    function io.install(...) install(self, ...) end
    return io
end

-- Keeps two facts beside the log: the generation in which it has last worked; and the latest epoch
-- when the present generation began. A leader of this generation has a later one.
local function keep_settled(self)
    local text = ("%d %d %d"):format(self.settled, self.generation, self.before)
    assert(group_state.write(self.folder .. "/settled", text))
end

local function recall_settled(self, promised)
    self.settled, self.before = 0, promised
    local text = group_state.read(self.folder .. "/settled")
    local settled, since, before = (text or ""):match "^(%d+) (%d+) (%d+)$"
    if settled then self.settled = math.tointeger(tonumber(settled)) end
    if tonumber(since) == self.generation then
        self.before = math.tointeger(tonumber(before))
    elseif self.generation > 0 then
        keep_settled(self)
    end
end

local function make(settings, channel, inbox, kept, state, change)
    local self = setmetatable({here = settings.here, address = settings.inbox, requests = channel,
        inbox = inbox, outboxes = {}, state = state, change = change, news = mare.channel(QUEUE),
        folder = settings.folder, seen = {}, appended = {}, waiting = {}, flying = {}, last = 0,
        count = 0, waiting_bytes = 0, flying_bytes = 0, told = {count = 0, [0] = 0},
        life = kept.life, applied = kept.base, receivers = {}, joining = {}, disk = settings.disk,
        log_bytes = settings.log_bytes, limit = settings.log_bytes}, host)
    set_members(self, settings)
    self.number = self.numbers[self.here]
    kept.here, kept.members, kept.voters = self.number, slots_of(settings), settings.voters
    kept.votes = not kept.lost and self.number <= (settings.voters or math.huge)
    restore(self, kept.text)
    self.log = log.new(io_of(self), kept)
    recall_settled(self, kept.promised)
    return self
end

-- The group's members have changed, and with them the log's. What is on its way goes to the next
-- leader.
local function hear_members(self, settings)
    if settings.generation <= self.generation then return end
    set_members(self, settings)
    self.before, self.era, self.led = self.log.promised, nil, nil
    keep_settled(self)
    self.log:reform(slots_of(settings))
end

-- Once a leader of this generation has had an entry committed, a majority has all that was ever
-- committed. From then on the members may change again.
local function note_settled(self)
    if not self.log:has_worked_after(self.before) then return end
    self.settled = self.generation
    keep_settled(self)
end

local function tick(self)
    self.log:tick()
    for number, bundle in pairs(self.flying) do
        bundle.age = (bundle.age or 0) + 1
        if bundle.age > 3 and not self:is_busy(self.log.leader) then submit(self, number) end
    end
    self.ticks = mare.now() + TICK
end

local function give(self, f, first, ...)
    if first ~= nil then f(self, first, ...) end
    return first ~= nil
end

local function heard(self, which, ...)
    if which == 1 then hear(self, ...) end
    if which == 2 then hear_leader(self, ...) end
    if which == 3 then hear_members(self, ...) end
    if which == 4 then serve(self, ...) end
end

-- Whether this takes more values. If not, callers wait.
local function has_room(self)
    return #self.waiting < MOST * FLYING and self.waiting_bytes < WAITING_BYTES
end

-- Takes a message, and all others that are there already, so that one write to the disk serves all.
local function turn(self, election)
    local cases = {self.inbox, election, self.news, has_room(self) and self.requests or nil}
    heard(self, mare.select(cases, math.max(0, self.ticks - mare.now())))
    local count = 0
    while count < QUEUE and give(self, hear, self.inbox:tryreceive()) do count = count + 1 end
    while has_room(self) and give(self, serve, self.requests:tryreceive()) do end
    if mare.now() >= self.ticks then tick(self) end
end

-- Learns who the members are before it hears any message. The folder of the log exists by now. So
-- from here on the members do not change twice without this log, and it has acknowledged nothing
-- before.
local function follow(self, election)
    local which
    local function first(what, ...)
        which = what
        heard(self, what, ...)
    end
    self.group:_follow(self.news, self.title, self.requests)
    local nobody = mare.channel(1)
    repeat first(mare.select {nobody, election, self.news}) until which == 3 or self.over ~= nil
end

local function run(self)
    local election <close> = assert(self.group:_election("\2" .. self.title,
        {stands = true, algorithm = "first"}))
    follow(self, election)
    self.ticks = mare.now() + TICK
    while self.over == nil do
        turn(self, election)
        look_who_leads(self)
        make_bundles(self)
        self.log:flush()
        look_who_leads(self)
        apply(self)
        if self.settled < self.generation then note_settled(self) end
        outlive(self)
        if self.disk.size > self.limit and self.applied > self.log.base then compact(self) end
    end
end

-- Does what must be done at the end, however that comes: a function of the program may even kill
-- this process.
local function ends(self, inbox)
    return setmetatable({why = "it was killed here"}, {__close = function(ending)
        give_up(self, ending.why, "closed")
        for receiver in pairs(self.receivers) do receiver:close() end
        for _, reply in ipairs(self.joining) do reply:close() end
        inbox:close()
        self.requests:close()
        for _, reply in self.requests:messages() do -- nobody reads it any more
            if getmetatable(reply) == "channel" then reply:close() end
        end
        self.disk:close()
    end})
end

return function(settings, channel, started, state, change)
    local function fail(...)
        channel:close()
        return started:send(nil, ...)
    end
    local inbox <close> = settings.box -- its name is free again, also if this is killed
    local kept, code
    settings.disk, kept, code = disk.open(settings.folder, settings.lost)
    if not settings.disk then return fail(kept, code) end
    local self = make(settings, channel, inbox, kept, state, change)
    self.group, self.title = group.find(settings.group), settings.title
    started:send(true)
    local ok, problem
    do
        local ending <close> = ends(self, inbox)
        ok, problem = xpcall(run, debug.traceback, self)
        ending.why = ok and "this program has left it"
            or "it has failed here: " .. tostring(problem):match "^[^\n]*"
    end
    if not ok then error(problem, 0) end
    if self.over then self.over:trysend(true) end
end
