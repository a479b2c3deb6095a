-- SPDX-License-Identifier: MIT
-- Members that join and leave while the group runs, in the process behind a member (_group.lua).
--
--     generation 3 ── a list is accepted here ──▶ stopped ── one is decided ──▶ generation 4
--                     (_group_agree.lua)                     of which others tell as well
--
-- A generation is like a group of its own: it has another digest on each message, another lease,
-- and new machines whose numbers begin above all numbers of the generation before. When a list is
-- decided, more than half of the old members have stopped; and each member of the next generation
-- waits for the length of a lease before it votes. So nothing is held in two generations at the
-- same time. Locks that were held before are lost.
--
-- One member comes or goes at a time, and the next change waits until each log works in the present
-- generation. So every majority of a list shares a member with every majority of the list before,
-- and no acknowledged entry is lost (Ongaro, "Consensus: bridging theory and practice", 2014, 4).
--
--     hello  of a newcomer, or of one that has missed a change: its generation and id
--     roll   the present list, for those who have an older one
local mare, party, file = require "mare", require "mare._party", require "mare.file"
local agree, roll, state = require "mare._group_agree", require "mare._group_roll",
    require "mare._group_state"
local sender = require "mare._group_host".sender

local members = {}

local TICK_US, HELLO = 100000, 0.5 -- between two ticks of an agreement; seconds between two hellos
local FRESH, PATIENCE = 10, 5 -- seconds: a newcomer counts as there; to send to a stranger
local MOST = 1000 -- the most names of others that are remembered
local BOUNDED = {"majority", "central", "ricart", "token"}
local LIMITS = {majority = 1 << 47, central = 1 << 31, ricart = 1 << 47, token = 1 << 31}
local LATEST = 1 << 47 -- honest members never get to this generation
local BOUND_AT = 33 -- the place of the bound in what a lock saves, after its head
local ALL_KEEP, KEEPERS = 15, 7 -- the most members that all keep the lease; how many of more do
local BEAT_US, FAR_BEAT_US, RETRY_US = 300000, 750000, 50000 -- at most, however long the lease is

-- ---- Digests ------------------------------------------------------------------------------------

--- The digest of one generation's members. The words at its end are the same for all generations. A
--- later generation also names its founders.
function members.digest(name, generation, list, rest)
    if generation > 0 then
        name = ("%s#%d:%s"):format(name, generation, roll.lineage(list.founders))
    end
    return name .. " " .. table.concat(list.names, ",") .. rest
end

-- Takes a digest apart: generation, rest and lineage. The names of members are not in the rest.
local function parse(digest)
    local name, generation, whose, names, rest =
        digest:match "^([^ #]+)#?(%d*):?(%x*) ([^ ]+)(.*)$"
    if not name then return nil end
    return math.tointeger(tonumber(generation)) or 0, name .. rest,
        whose ~= "" and whose or roll.lineage {names}
end

--- Whether `one` is an earlier generation of the same group or member as `other`.
function members.is_older(one, other)
    local generation, rest, lineage = parse(one)
    local later, same, its = parse(other)
    return generation and later and generation < later and rest == same and lineage == its
end

-- Whether both were joined with the same settings (lease, drift, algorithms), whoever the members
-- are.
local function is_alike(one, other)
    local _, rest = parse(one)
    local _, same = parse(other)
    return rest and rest == same
end

--- How many members vote: the first ones of the list. All do, unless the programs have named a
--- number; then the list of members cannot change.
function members.voters(self) return self.settings.voters or #self.names end

--- How many members keep the lease: the first ones of the list. In a large group only a few do, so
--- that a beat costs little (decision 405).
function members.keepers(self)
    local voters = members.voters(self)
    return voters > ALL_KEEP and KEEPERS or voters
end

--- Whether this member votes, as far as it remembers.
function members.votes(self)
    return self.kept.votes
        and (not self.settings.voters or self.numbers[self.here] <= self.settings.voters)
end

--- What party._member needs for this member.
function members.setup(self)
    local kept, settings, keepers = self.kept, self.settings, members.keepers(self)
    local votes = members.votes(self)
    local first = votes and kept.incarnation == 1 and self.list.generation == 0
    local beat_us = math.min(settings.lease_us // 5, BEAT_US)
    if keepers < members.voters(self) then
        beat_us = math.min(settings.lease_us // 4, FAR_BEAT_US)
    end
    return {members = #self.names, voters = members.voters(self), keepers = keepers,
        self = self.numbers[self.here], founds = votes and 1 or 0,
        incarnation = kept.incarnation, first = first and 1 or 0, seed = kept.incarnation,
        lease_us = settings.lease_us, beat_us = beat_us,
        drift_ppm = settings.drift_ppm, retry_us = math.min(settings.lease_us // 5, RETRY_US)}
end

-- ---- To others ----------------------------------------------------------------------------------

-- Sends to any node, on the list or not; at most once in a while to each.
local function send_to(self, name, kind, value)
    local now = mare.now()
    local key = ("%s %s %d"):format(kind, name, value.generation)
    if now - (self.said[key] or -math.huge) < HELLO then return end
    self.said[key], self.said.count = now, (self.said.count or 0) + 1
    if self.said.count > MOST then self.said = {} end -- strangers could make it grow for ever
    local digest, bytes = self.digest, party._pack(value)
    mare.go(function()
        local inbox = mare.find(("%s@%s"):format(self.settings.inbox, name), PATIENCE)
        if inbox then
            inbox:sendwithin(PATIENCE, self.here, digest, kind, "", 0, bytes)
        end
    end):detach()
end

-- The bounds of this member's locks: none has a larger number.
local function bounds_of(self)
    local bounds = {}
    for _, algorithm in ipairs(BOUNDED) do
        local saved = self.more[algorithm]
        if algorithm == "majority" then saved = self.kept.saved or self.saved end
        local number = saved and #saved >= BOUND_AT + 7 and ("<i8"):unpack(saved, BOUND_AT) or 0
        bounds[algorithm] = math.max(number, self.list.bounds[algorithm] or 0)
    end
    return bounds
end

-- Converts bounds to a generation of another size, so that its fencing numbers are larger. Locks
-- with stamps make a number of the stamp and the member's number; `central` makes one of an epoch
-- and less than the number of members.
local function beyond(bounds, count, next_count)
    local made = {}
    for algorithm, number in pairs(bounds) do
        if number == 0 or algorithm == "token" then
            made[algorithm] = number
        elseif algorithm == "central" then
            made[algorithm] = number + next_count
        else
            made[algorithm] = (number + 1) * count // next_count + 1
        end
    end
    return made
end

local function send_roll(self, name)
    send_to(self, name, "roll", {generation = self.list.generation, roll = self.list.roll,
        bounds = bounds_of(self)})
end

local function send_hello(self, name)
    send_to(self, name, "hello", {generation = self.list.generation, id = ""})
end

-- ---- The agreement ------------------------------------------------------------------------------

-- A log that has not worked in this generation yet: too few members may have its entries.
local function busy(self)
    if self.list.generation == 0 then return nil end
    for _, name in ipairs(file.list(self.folder) or {}) do
        local kind, title = name:match "^log%-(%a+)%-(.+)$"
        local text = kind and state.read(("%s/%s/settled"):format(self.folder, name))
        local settled = tonumber(text and text:match "^%d+") or 0
        if kind and settled < self.list.generation then
            return ("the %s '%s' has not worked since the members changed last: more than half of "
                .. "them must have it open, on '%s' as well"):format(kind, title, self.here)
        end
    end
end

local function keep(self, agreement)
    local list = self.list
    list.promised, list.ballot, list.value = agreement.promised, agreement.ballot, agreement.value
    roll.must_write(self.folder, list)
end

local function wake(self)
    if self.timers:has "members" then return end
    self.timers:set("members", math.floor(mare.now() * 1e6) + TICK_US,
        function() members.tick(self) end)
end

--- Begins the agreement of this generation, with what was kept of it.
function members.begin_agreement(self)
    local io = {}
    function io.send(name, what, ballot, a, b)
        self.outboxes[self.numbers[name]]:send("agree", what, ballot,
            party._pack {a or false, b or false})
    end
    function io.keep(agreement) keep(self, agreement) end
    function io.busy() return busy(self) end
    function io.stop()
        if not self.stopped then
            self.stopped = true
            self:rebuild "changed"
            wake(self)
        end
        return bounds_of(self)
    end
    function io.decided(value, bounds)
        io.stop()
        self.told = {}
        members.decided(self, self.list.generation + 1, value,
            beyond(bounds, #self.names, #value.names))
    end
    local list = self.list
    self.agreement = agree.new(io, {here = self.here, names = self.names,
        keepers = members.keepers(self), votes = members.votes(self), promised = list.promised,
        ballot = list.ballot, value = list.value,
        life = not self.kept.votes and self.kept.incarnation or nil})
    self.stopped = list.value and true or false
end

-- Begins the next generation. Only its list is on the disk so far.
local function begin(self)
    self.names, self.kept.saved, self.saved = self.list.roll.names, nil, nil
    self.more = {generation = self.list.generation}
    members.begin_agreement(self)
end

-- This member is out. If its own ballot decided that, perhaps nobody else knows; and the others may
-- be too few to decide without it. So it leaves only when more than half of them have said that
-- they know.
local function go(self)
    local told, names = 0, self.list.roll.names
    for _, name in ipairs(names) do
        if not self.told or self.told[name] then told = told + 1 end
    end
    if 2 * told > #names then
        members.answer(self)
        self.over = self.over or mare.channel(1)
        return
    end
    for _, name in ipairs(names) do send_roll(self, name) end
    wake(self)
end

--- The next list, decided here or told by another. This member is in it, or has left. The bounds
--- are converted to that generation.
function members.decided(self, generation, next_roll, bounds)
    local old, own = self.names, beyond(bounds_of(self), #self.names, #next_roll.names)
    for _, algorithm in ipairs(BOUNDED) do
        own[algorithm] = math.max(own[algorithm], bounds[algorithm] or 0)
    end
    local here = roll.find(next_roll, self.here)
    local mine = roll.find(self.list.roll, self.here)
    local out = not here or next_roll.ids[here] ~= self.list.roll.ids[mine]
    self.list = {generation = generation, roll = next_roll, bounds = own, out = out}
    roll.must_write(self.folder, self.list)
    self.digest = members.digest(self.settings.name, generation, next_roll,
        self.settings.rest)
    self.kept.digest = members.digest(self.settings.name, generation, next_roll,
        self.settings.own_rest)
    for _, name in ipairs(old) do
        if name ~= self.here then send_roll(self, name) end
    end
    for _, name in ipairs(next_roll.names) do
        if name ~= self.here then send_roll(self, name) end
    end
    if out then return go(self) end
    begin(self)
    self:connect()
    self:rebuild "changed"
    for channel in pairs(self.followers) do channel:trysend(self:log_settings()) end
    members.try(self)
end

--- Makes the machines begin above all numbers of the generations before.
function members.exceed(self)
    for _, algorithm in ipairs(BOUNDED) do
        local number = self.list.bounds[algorithm]
        local saved = number and number > 0 and self.member:_exceed(algorithm, number)
        if saved and algorithm == "majority" then
            self.saved = saved
        elseif saved then
            self.more[algorithm] = saved
        end
    end
end

-- ---- Changes that are wanted here ---------------------------------------------------------------

-- A newcomer of this name that said hello a moment ago.
local function guest_of(self, name)
    local guest = self.guests[name]
    return guest and mare.now() - guest.at <= FRESH and guest or nil
end

-- Whether the list already is as the caller wants it.
local function is_done(self, one)
    local at, guest = roll.find(self.list.roll, one.name), guest_of(self, one.name)
    if one.what == "remove" then return at == nil end
    local other = at and guest and guest.id ~= self.list.roll.ids[at] -- another of this name
    return at ~= nil and not other
end

-- Why this change is impossible with the present members; or nil.
local function objection(self, what, name)
    if self.settings.voters then
        return "members cannot change where only some of them vote"
    end
    for _, algorithm in pairs(self.algorithms) do
        if algorithm == "voting" then
            return "locks by 'voting' are bound to the members that the group was founded with"
        end
    end
    if what == "remove" and #self.names == 1 then return "it is the last member" end
    if what == "add" and #self.names >= 255 then return "there are 255 members" end
    local guest = guest_of(self, name)
    if what == "add" and guest and roll.find(self.list.roll, name) and not guest.known then
        return ("'%s' has come as a newcomer, and is a member: remove it first"):format(name)
    end
end

--- Answers the callers whose change is done, or has become impossible by another change. When this
--- member is out, answers all others too.
function members.answer(self)
    for i = #self.changes, 1, -1 do
        local one = self.changes[i]
        local done = is_done(self, one)
        local why = not done and objection(self, one.what, one.name)
        local ended = self.list.out and "this member was removed meanwhile"
        if done then
            one.reply:trysend(true)
        elseif ended or why then
            one.reply:trysend(false, ended or why, ended and "closed" or "denied")
        end
        if done or ended or why then table.remove(self.changes, i) end
    end
end

-- The list that a caller wants; nil while the newcomer has not said hello.
local function wanted(self, one)
    if one.what == "remove" then return roll.without(self.list.roll, one.name) end
    local guest = guest_of(self, one.name)
    return guest and roll.with(self.list.roll, one.name, guest.id)
end

--- Proposes what the callers want, one change at a time.
function members.try(self)
    members.answer(self)
    for _, one in ipairs(self.changes) do
        local value = not self.agreement.wanted and self:epoch() and wanted(self, one)
        if value then
            self.proposed = one
            self.agreement:propose(value)
        end
    end
    if self.changes[1] or self.agreement:is_busy() then wake(self) end
end

function members.tick(self)
    if self.list.out then return go(self) end
    if self.agreement:is_busy() then self.agreement:tick() end
    if not self.over then members.try(self) end
end

--- A caller here wants to add or remove a member.
function members.want(self, reply, what, name, process)
    table.insert(self.changes, {reply = reply, what = what, name = name, process = process})
    self:watch(process)
    members.try(self)
end

-- Takes changes back. Returns the last of them; and whether one was proposed, and may be decided
-- yet.
local function take_back(self, field, value)
    local found, is_open
    for i = #self.changes, 1, -1 do
        if self.changes[i][field] == value then
            found = table.remove(self.changes, i)
            if self.proposed == found then
                is_open = self.agreement:is_open()
                if not is_open then self.agreement:relent() end
            end
        end
    end
    return found, is_open
end

--- A process here has ended: nobody wants its changes any more.
function members.ended(self, process) take_back(self, "process", process) end

--- A caller stops waiting. It learns what may still happen.
function members.give_up(self, answer, reply)
    local found, is_open = take_back(self, "reply", reply)
    if is_open then
        return answer:trysend("unsure", "the change was proposed, and may be decided yet")
    end
    if not self:epoch() then
        return answer:trysend("noquorum", "this member does not reach a majority of the group")
    end
    local why = self.agreement.trouble
    if found and found.what == "add" and not self.guests[found.name] then
        why = self.notes[found.name]
            or ("'%s' has not come: join there with 'newcomer = true'"):format(found.name)
    end
    answer:trysend("timeout", why or "the members were not changed in time")
end

-- ---- What is heard ------------------------------------------------------------------------------

-- Forgets newcomers that have not said hello lately, and keeps their number small.
local function forget_guests(self)
    local count = 0
    for name, guest in pairs(self.guests) do
        count = count + 1
        if mare.now() - guest.at > FRESH or count > MOST then self.guests[name] = nil end
    end
end

local function hear_hello(self, from, value)
    if math.type(value.generation) ~= "integer" or not roll.is_id(value.id) then return end
    local at = roll.find(self.list.roll, from)
    if value.id ~= "" then
        forget_guests(self)
        self.guests[from] = {id = value.id, at = mare.now(),
            known = at and self.list.roll.ids[at] == value.id}
        if self.guests[from].known then send_roll(self, from) end
        members.try(self)
    elseif value.generation < self.list.generation then
        send_roll(self, from)
    end
end

-- Whether the value can be what a member tells of a generation. With bounds beyond EPOCH_LIMIT or
-- MARE__CLOCK_LIMIT its locks would never begin.
local function is_roll(value)
    if math.type(value.generation) ~= "integer" or value.generation < 0
        or value.generation >= LATEST or type(value.bounds) ~= "table" then
        return false
    end
    for algorithm, number in pairs(value.bounds) do
        local most = LIMITS[algorithm]
        if not most or math.type(number) ~= "integer" or number < 0 or number >= most then
            return false
        end
    end
    return roll.is_sound(value.roll)
end

-- Somebody says that there is a later generation. Anybody could say so: ask only members for its
-- list.
local function ask_for_roll(self, from)
    if self.numbers[from] then return send_hello(self, from) end
    for _, name in ipairs(self.names) do
        if name ~= self.here then send_hello(self, name) end
    end
end

-- Believes a list if a member sends it. A member that has left waits here for the others to know.
local function hear_roll(self, from, value)
    if not is_roll(value) or value.generation < self.list.generation then return end
    local lineage = roll.lineage(value.roll.founders)
    if lineage ~= roll.lineage(self.list.roll.founders) then return end
    if self.list.out then
        if self.told and roll.find(self.list.roll, from) then self.told[from] = true end
        members.tick(self)
    elseif value.generation > self.list.generation then
        if not self.numbers[from] then return ask_for_roll(self, from) end
        self.told = nil
        members.decided(self, value.generation, value.roll, value.bounds)
    elseif not roll.find(self.list.roll, from) then
        send_roll(self, from)
    end
end

--- Handles messages that do not depend on the sender's generation. Returns whether this was one.
function members.hear(self, from, digest, kind, data)
    if type(from) ~= "string" or type(digest) ~= "string" then return false end
    if kind == "hello" or kind == "roll" then
        if not is_alike(digest, self.digest) then return false end
        local value = type(data) == "string" and party._unpack(data)
        if type(value) ~= "table" then return true end
        if kind == "hello" then hear_hello(self, from, value) else hear_roll(self, from, value) end
        return true
    end
    if members.is_older(digest, self.digest) then
        send_roll(self, from)
        return true
    elseif members.is_older(self.digest, digest) then
        ask_for_roll(self, from)
        return true
    end
    return false
end

--- A message of the agreement from a member of this generation.
function members.agree(self, from, what, ballot, data)
    local value = party._unpack(data)
    if type(value) ~= "table" or self.list.out then return end
    self.agreement:hear(from, what, ballot, value[1] or nil, value[2] or nil)
    if self.agreement:is_busy() then wake(self) end
end

-- ---- What is on the disk ------------------------------------------------------------------------

-- The settings of a generation: its members, and the digest on each message and at the head of
-- files.
local function set_generation(settings, list)
    settings.list, settings.names = list, list.roll.names
    settings.digest = members.digest(settings.name, list.generation, list.roll, settings.rest)
    settings.own = members.digest(settings.name, list.generation, list.roll, settings.own_rest)
end

local function open_state(settings)
    local kept, more, message, code
    kept, message, code = state.open(settings.folder, settings.own, settings.lost)
    if not kept then return nil, message, code end
    more, message, code = state.open_more(settings.folder, settings.list.generation)
    if not more then return nil, message, code end
    settings.kept, settings.more = kept, more
    return true
end

-- The removed node may end before any other knows of the removal. So this tells those who try to
-- reach it.
local function tell_of_removal(settings, list)
    set_generation(settings, list)
    local self = {said = {}, here = settings.here, digest = settings.digest, settings = settings}
    for _, name in ipairs(settings.names) do
        send_to(self, name, "roll", {generation = list.generation, roll = list.roll,
            bounds = list.bounds})
    end
end

-- Opens what is in the folder; this program has it locked.
local function open_held(settings)
    local list, message, code = roll.read(settings.folder)
    if list == nil then return nil, message, code end
    if list and list.out then
        tell_of_removal(settings, list)
        return nil, ("%s is of a member that was removed: to come back, remove the folder, and "
            .. "join with 'newcomer = true'"):format(settings.folder), "denied"
    end
    local is_member
    is_member, message, code = file.exists(settings.folder .. "/member")
    if is_member == nil then return nil, message, code end
    local is_new = settings.newcomer and not is_member
    if is_new and not (list and list.generation) then
        list = list or {id = ("%x"):format(math.random(0) >> 1)}
        local ok, problem, word = state.make_folder(settings.folder)
        if ok then ok, problem, word = roll.write(settings.folder, list) end
        if not ok then return nil, problem, word end
        settings.id = list.id
        return true
    end
    if list and not list.roll and not list.generation then list = nil end -- it never got in
    if list and list.generation > 0 then
        set_generation(settings, list)
        local ok, problem, word = true, nil, nil
        if is_new then ok, problem, word = state.found(settings.folder, settings.own) end
        if not ok then return nil, problem, word end
    else
        local first = list or {generation = 0, bounds = {}}
        first.roll = first.roll or roll.first(settings.names)
        if table.concat(first.roll.names, ",") ~= table.concat(settings.names, ",") then
            return nil, ("%s is of a group with other members: %s"):format(settings.folder,
                table.concat(first.roll.names, ",")), "denied"
        end
        set_generation(settings, first)
    end
    return open_state(settings)
end

--- Opens the state of a member before its process begins: true; or nil, message, code. A newcomer
--- may have none yet: then `settings.id` says who it is.
function members.open(settings)
    local ok, message, code = true, nil, nil
    if settings.lost or settings.newcomer then
        ok, message, code = state.make_folder(settings.folder)
    end
    local is_there
    if ok then is_there, message, code = file.exists(settings.folder) end
    if is_there then
        settings.held, message, code = state.hold(settings.folder)
    end
    ok = settings.held or is_there == false
    if ok then ok, message, code = open_held(settings) end
    if not ok and settings.held then settings.held:close() end
    return ok, message, code
end

-- ---- Newcomers ----------------------------------------------------------------------------------

local function is_asked(settings, from)
    for _, name in ipairs(settings.names) do
        if name == from then return from ~= settings.here end
    end
    return false
end

--- Says hello to possible members, until one of them sends a list that this newcomer is in. Then
--- makes its state: true; or nil, message, code. Other nodes are not believed: whoever has heard
--- the newcomer's id could send a list of its own.
function members.enter(settings, inbox)
    local deadline = mare.deadline(settings.timeout)
    local own, trouble = members.digest(settings.name, 0, settings, settings.rest)
    local self = {said = {}, here = settings.here, digest = own, settings = settings}
    while deadline:left() > 0 do
        for _, name in ipairs(settings.names) do
            if name ~= self.here then
                send_to(self, name, "hello", {generation = -1, id = settings.id})
            end
        end
        local from, digest, kind, _, _, data =
            sender(inbox:receive(math.min(HELLO, deadline:left())))
        if not is_asked(settings, from) then kind = nil end
        local alike = type(digest) == "string" and is_alike(digest, own)
        local value = kind == "roll" and alike and party._unpack(data)
        if kind == "differs" and not alike then trouble = digest end
        local at = value and is_roll(value) and roll.find(value.roll, self.here)
        if at and value.roll.ids[at] == settings.id then
            local list = {generation = value.generation, roll = value.roll, bounds = value.bounds}
            local ok, message, code = roll.write(settings.folder, list)
            set_generation(settings, list)
            if ok then ok, message, code = state.found(settings.folder, settings.own) end
            if not ok then return nil, message, code end
            return open_state(settings)
        end
    end
    if trouble then
        return nil, ("lease, drift and algorithm must be as they are on each member ('%s' there, "
            .. "'%s' here)"):format(trouble, own), "denied"
    end
    return nil, ("no member has let '%s' in: call add there"):format(self.here), "timeout"
end

return members
