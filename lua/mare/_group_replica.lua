-- SPDX-License-Identifier: MIT
-- The process behind a replica, or a multicast, of one member: it hosts the log (_group_log.lua),
-- and applies what is committed.
--
--     processes here ─▶ requests ──▶ bundle ──▶ leader's log ──▶ a majority's disks ──▶ committed
--                                                                                        │
--     who asked: the result ◀── applied here ◀───────────────────────────────────────────┘
--
-- What several ask for at a time goes as one bundle, numbered by the member and life that it is of.
-- A bundle is sent again until it comes back from the log; one that comes twice is applied once.
-- So nothing that was acknowledged is lost, and nothing is done twice.
local mare, party = require "mare", require "mare._party"
local group, log, disk = require "mare.group", require "mare._group_log", require "mare._group_disk"

local QUEUE, PATIENCE, TICK = 256, 1, 0.1 -- seconds
local MOST, FLYING = 200, 32 -- values in a bundle, bundles that are on their way
local STAMP = "<Bi8i8" -- of a bundle: whose it is, of which life, its number

local host = {}
host.__index = host

-- ---- To others ----------------------------------------------------------------------------------

-- What cannot be sent now is lost: it is said again.
local function deliver(self, queue, address)
    local channel
    for what, epoch, a, b, c, d, e in queue:messages() do
        channel = channel or mare.find(address, PATIENCE)
        if channel and not channel:sendwithin(PATIENCE, self.here, self.digest, what, epoch, a, b,
            c, d, e) then
            channel = nil
        end
    end
end

function host:send(peer, ...)
    self.queues[peer]:trysend(...)
end

-- ---- What is committed --------------------------------------------------------------------------

local function tell(caller, ...)
    if caller then caller.reply:trysend(...) end
end

local function note(caller, state, ok, new, ...)
    if not ok then
        tell(caller, nil, tostring(new), "failed")
        return state
    end
    tell(caller, true, ...)
    return new
end

local function apply_bundle(self, whose, payload, bundle)
    if self.change then
        local values, callers = table.pack(party._unpack(payload)), bundle and bundle.callers or {}
        for i = 1, values.n do
            self.state = note(callers[i], self.state, pcall(self.change, self.state, values[i]))
        end
    elseif self.from and self.applied > self.from and payload ~= "" then
        for channel in pairs(self.receivers) do
            if not channel:trysend(self.names[whose], payload) then
                channel:close() -- it is too far behind
                self.receivers[channel] = nil
            end
        end
    end
    for _, reply in ipairs(bundle and bundle.reads or {}) do reply:trysend(true, self.state) end
end

-- Whether this is the next of its sender; then it is noted.
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
            if bundle then
                self.flying[number], self.count = nil, self.count - 1
            end
        end
    end
end

-- ---- Bundles ------------------------------------------------------------------------------------

-- The leader's: takes one in, if it is the next of its sender.
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

-- Makes bundles of what waits, while there is a leader and not too much on its way.
local function make_bundles(self)
    local first = 1
    while self.waiting[first] and self.log.leader and self.count < FLYING do
        local values, callers, reads = {}, {}, {}
        for i = first, math.min(#self.waiting, first + MOST - 1) do
            local one = self.waiting[i]
            if one.value then
                values[#values + 1], callers[#values + 1] = one.value, one.reply and one or false
            else
                reads[#reads + 1] = one.reply
            end
        end
        first = first + MOST
        self.last, self.count = self.last + 1, self.count + 1
        self.flying[self.last] = {payload = table.concat(values), callers = callers, reads = reads}
        submit(self, self.last)
    end
    if first > 1 then
        self.waiting = table.move(self.waiting, first, #self.waiting, 1, {})
    end
end

-- A leader knows what each member has in the log; a new leader is sent what is on its way.
local function look_who_leads(self)
    local log_now = self.log
    local era = log_now.leader and log_now.promised
    if log_now.stage == "leading" and self.led ~= log_now.promised then
        self.led, self.appended = log_now.promised, {}
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

function requests.apply(self, reply, value)
    self.waiting[#self.waiting + 1] = {reply = reply, value = value}
end

function requests.send(self, _, value) self.waiting[#self.waiting + 1] = {value = value} end

function requests.read(self, reply) self.waiting[#self.waiting + 1] = {reply = reply} end

function requests.peek(self, reply) reply:trysend(true, self.state) end

-- Answered when this member is in: what is ordered from then on comes.
function requests.receive(self, reply, channel, process)
    self.receivers[channel] = process
    process:monitor(self.requests)
    self.joining[#self.joining + 1] = reply
end

-- Who gives up learns whether what it wanted is on its way.
function requests.drop(self, answer, reply)
    for i, one in ipairs(self.waiting) do
        if one.reply == reply then
            table.remove(self.waiting, i)
            return answer:trysend(self.group:_epoch() and "timeout" or "noquorum")
        end
    end
    answer:trysend "unsure"
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

-- This member has lost its lease. Who waits is told: what is here goes nowhere, what is on its way
-- may be done. Messages of a multicast, which were taken, stay for when there is a majority again.
local function give_up(self)
    local kept = {}
    for _, one in ipairs(self.waiting) do
        if one.reply then
            one.reply:trysend(nil, "this member does not reach a majority of the group", "noquorum")
        else
            kept[#kept + 1] = one
        end
    end
    self.waiting = kept
    for _, bundle in pairs(self.flying) do
        for _, caller in ipairs(bundle.callers) do
            tell(caller, nil, "the majority was lost meanwhile: it may be done yet", "unsure")
        end
        for _, reply in ipairs(bundle.reads) do
            reply:trysend(nil, "this member does not reach a majority of the group", "noquorum")
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
        -- At the beginning nothing is lost yet: who waits has a deadline, or time.
        if not leader and self.led and not self.group:_epoch() then give_up(self) end
    end
    self.led = leader
end

-- ---- From others --------------------------------------------------------------------------------

local function hear(self, from, digest, what, epoch, a, ...)
    local peer = digest == self.digest and self.numbers[from]
    if not peer or peer == self.number or math.type(epoch) ~= "integer" then return end
    if what == "forward" then
        if self.log.stage == "leading" then accept(self, peer, a, ...) end
    elseif what == "resend" then
        if a == self.life then submit_all(self) end
    else
        self.log:hear(peer, what, epoch, a, ...)
    end
end

-- ---- Its life -----------------------------------------------------------------------------------

-- Keeps the state, and only what is behind it of the log.
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

-- Another member's state. A receiver of a multicast has missed something, and is told.
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
end

local function io_of(self)
    local io = {}
    function io.send(...) self:send(...) end
    function io.promise(...) self.disk:promise(...) end
    function io.write(...) self.disk:write(...) end
    function io.cut(...) self.disk:cut(...) end
    function io.sync() self.disk:sync() end
    function io.snapshot() return self.disk:text() end
    function io.install(...) install(self, ...) end
    return io
end

local function make(settings, channel, inbox, kept, state, change)
    local self = setmetatable({here = settings.here, names = settings.names, numbers = {},
        digest = settings.digest, requests = channel, inbox = inbox, queues = {}, state = state,
        change = change, seen = {}, appended = {}, waiting = {}, flying = {}, last = 0, count = 0,
        life = kept.life, applied = kept.base, receivers = {}, joining = {}, disk = settings.disk,
        log_bytes = settings.log_bytes, limit = settings.log_bytes}, host)
    for i, name in ipairs(self.names) do
        self.numbers[name] = i
        if name ~= self.here then
            self.queues[i] = mare.channel(QUEUE)
            mare.go(deliver, self, self.queues[i], ("%s@%s"):format(settings.inbox, name)):detach()
        end
    end
    self.number = self.numbers[self.here]
    kept.here, kept.count, kept.votes = self.number, #self.names, not kept.lost
    restore(self, kept.text)
    self.log = log.new(io_of(self), kept)
    return self
end

local function tick(self)
    self.log:tick()
    for number, bundle in pairs(self.flying) do
        bundle.age = (bundle.age or 0) + 1
        if bundle.age > 3 then submit(self, number) end
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
    if which == 3 then serve(self, ...) end
end

-- Takes what came, and what else is there already, so that one write to the disk is for all of it.
local function turn(self, election)
    local room = MOST * FLYING - #self.waiting
    local cases = {self.inbox, election, room > 0 and self.requests or nil}
    heard(self, mare.select(cases, math.max(0, self.ticks - mare.now())))
    local count = 0
    while count < QUEUE and give(self, hear, self.inbox:tryreceive()) do count = count + 1 end
    while room > 0 and give(self, serve, self.requests:tryreceive()) do room = room - 1 end
    if mare.now() >= self.ticks then tick(self) end
end

local function run(self)
    local election <close> = assert(self.group:election("\2" .. self.title))
    self.ticks = mare.now() + TICK
    while self.over == nil do
        turn(self, election)
        look_who_leads(self)
        make_bundles(self)
        self.log:flush()
        look_who_leads(self)
        apply(self)
        if self.disk.size > self.limit and self.applied > self.log.base then compact(self) end
    end
end

return function(settings, channel, started, state, change)
    local function fail(...)
        channel:close()
        return started:send(nil, ...)
    end
    local inbox, message, code = mare.channel(QUEUE, settings.inbox)
    if not inbox then return fail(message, code) end
    local kept
    settings.disk, kept, code = disk.open(settings.folder, settings.lost)
    if not settings.disk then return fail(kept, code) end
    local self = make(settings, channel, inbox, kept, state, change)
    self.group, self.title = group.find(settings.group), settings.title
    started:send(true)
    local ok, problem = xpcall(run, debug.traceback, self)
    give_up(self)
    for receiver in pairs(self.receivers) do receiver:close() end
    inbox:close()
    channel:close()
    self.disk:close()
    if not ok then error(problem, 0) end
    if self.over then self.over:trysend(true) end
end
