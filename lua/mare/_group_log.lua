-- SPDX-License-Identifier: MIT
-- The log of a replica or of a multicast: members agree on one list of entries, which only grows.
-- This module does no input or output itself, but calls `io`. So a test can run many members in one
-- process, and lose, repeat and reorder their messages (tests/lua/test_group_log.lua).
--
--     follower ── lead(epoch) ──▶ collecting ── a majority has promised ──▶ leading
--         ▲                          │  its log is the best of theirs         │ no-op, then entries
--         └──── follow(), or a later epoch is heard of ◀──────────────────────┘
--
-- The leader is the holder of the log's lock, which a lease protects. Its epoch is the lock's
-- fencing number. But the safety of the log does not depend on clocks. A new leader first asks a
-- majority to promise that they ignore earlier epochs. It takes over the best of their logs: the
-- one whose last entry has the latest epoch; among equals, the longest. An entry is committed when
-- a majority has it on disk, and the entry, or one after it, is of the leader's own epoch. From
-- then on it is in the best log of every majority.
--
--     PREPARE epoch                                    follower: promised; PROMISE its last entry
--     FETCH from                                       the best one: ENTRIES
--     APPEND/ENTRIES before, its epoch, commit, list   ACK up to; or NACK: I agree up to my commit
--     PIECE of a snapshot, where the log does not reach back any more      TAKEN so many bytes
--     STALE: a later epoch was promised
--
-- Sources: Lamport, "Paxos made simple" (2001); Ongaro and Ousterhout, "In search of an
-- understandable consensus algorithm" (2014): 5.3 (matching logs), 5.4 (what is committed), 7
-- (snapshots). Here the election is done elsewhere, and a leader fetches what it lacks itself.
--
-- io.send(peer, what, epoch, ...)       may be lost
-- io.is_busy(peer)                      whether some of that waits here still
-- io.promise(epoch), io.write(index, epoch, data), io.cut(index)   what is to be kept, in order
-- io.sync()                             returns when all that is on the disk
-- io.snapshot() -> text                 of the state at `base`
-- io.install(index, epoch, text, keeps) a state that came from another; the entries behind it stay,
--                                       or not; it is on the disk then
local log = {}
log.__index = log

local BATCH, WINDOW, PIECE = 64, 1024, 1 << 16 -- entries in a message; not acknowledged; bytes
local BYTES, WINDOW_BYTES = 1 << 20, 1 << 22 -- of several entries; not acknowledged

local function numbers_to(count)
    local list = {}
    for i = 1, count do list[i] = i end
    return list
end

--- A member's part: `here` of `members` (a list of numbers; or of 1 to `count`), whether it
--- `votes`, how many `voters` there are (all, if that is nil), and what was kept: `promised`,
--- `base`, `base_epoch`, `entries` (from base + 1 on: a list of {epoch =, data =}). `batch` is for
--- tests: the most entries in a message.
function log.new(io, kept)
    local self = setmetatable({io = io, here = kept.here, votes = kept.votes,
        promised = kept.promised or 0, base = kept.base or 0, base_epoch = kept.base_epoch or 0,
        data = {}, epochs = {}, stage = "following", patience = 0, batch = kept.batch or BATCH},
        log)
    self.last = self.base
    for i, entry in ipairs(kept.entries or {}) do
        self.last = self.base + i
        self.epochs[self.last], self.data[self.last] = entry.epoch, entry.data
    end
    self.commit, self.synced, self.known = self.base, self.last, 0
    self.members = kept.members or numbers_to(kept.count)
    self.voters = kept.voters
    return self
end

--- The members change. It is not known who leads.
function log:reform(members)
    self.members = members
    self:follow()
    self.giving, self.incoming, self.heard = nil, nil, nil
end

function log:epoch_at(index)
    return index == self.base and self.base_epoch or self.epochs[index]
end

local function put(self, index, epoch, data)
    self.epochs[index], self.data[index], self.last = epoch, data, index
    self.io.write(index, epoch, data)
    self.dirty = true
end

local function cut(self, index)
    assert(index > self.commit, "what is committed stays")
    for i = index, self.last do self.epochs[i], self.data[i] = nil, nil end
    self.last, self.synced = index - 1, math.min(self.synced, index - 1)
    self.io.cut(index)
end

local function promise(self, epoch)
    if epoch > self.promised then
        self.promised, self.dirty = epoch, true
        self.io.promise(epoch)
    end
end

-- ---- Leading ------------------------------------------------------------------------------------

local function each_peer(self, f)
    for _, peer in ipairs(self.members) do
        if peer ~= self.here then f(peer) end
    end
end

--- This member does not lead any more. `leader`: the one that does, if that is known.
function log:follow(leader)
    self.stage, self.leader, self.answer, self.agreed = "following", leader, nil, nil
    self.peers, self.best = nil, nil
end

-- This member's log is the best one. A first entry of its own commits what is before it.
local function begin(self)
    self.stage, self.best = "leading", nil
    for _, peer in pairs(self.peers) do
        peer.next, peer.match, peer.probing = self.last + 1, 0, true
    end
    put(self, self.last + 1, self.promised, "")
    self.opening = self.last
end

local function is_better(a_epoch, a_last, b_epoch, b_last)
    return a_epoch > b_epoch or a_epoch == b_epoch and a_last > b_last
end

-- A majority has promised: finds the best log. If that is another member's, fetches it.
local function choose(self)
    local promised, best = self.votes and 1 or 0, nil
    local epoch, last = self:epoch_at(self.last), self.last
    for number, peer in pairs(self.peers) do
        if peer.promised and peer.votes then
            promised = promised + 1
            if is_better(peer.epoch, peer.last, epoch, last) then
                best, epoch, last = number, peer.epoch, peer.last
            end
        end
    end
    if promised * 2 <= (self.voters or #self.members) then return end
    if not best then return begin(self) end
    self.best, self.patience = best, 0
    self.io.send(best, "fetch", self.promised, self.commit + 1)
end

--- This member has the lock, with this fencing number.
function log:lead(epoch)
    if epoch <= self.promised then return end -- another leads by now, or this is known
    promise(self, epoch)
    self.stage, self.leader, self.peers, self.best = "collecting", self.here, {}, nil
    self.answer, self.agreed = nil, nil
    each_peer(self, function(peer) self.peers[peer] = {votes = false} end)
    self.asks = true -- ask the others once the promise is on the disk
end

--- Adds an entry; allowed only while `stage` is "leading". Returns its index.
function log:append(data)
    put(self, self.last + 1, self.promised, data)
    return self.last
end

local function bytes_of(self, first, last)
    local bytes = 0
    for i = first, last do bytes = bytes + #(self.data[i] or "") end
    return bytes
end

-- The last entry of a message that begins with entry `from`.
local function end_of_batch(self, from)
    local limit = math.min(self.last, from + self.batch - 1)
    local upto, bytes = from, #(self.data[from] or "")
    while upto < limit do
        bytes = bytes + #self.data[upto + 1]
        if bytes > BYTES then break end
        upto = upto + 1
    end
    return math.min(upto, limit)
end

-- Sends a message with the entries from `from` on.
local function send_entries(self, peer, what, from, upto)
    local list, before = {}, from - 1
    for i = from, upto do
        list[#list + 1] = self.epochs[i]
        list[#list + 1] = self.data[i]
    end
    self.io.send(peer, what, self.promised, before, self:epoch_at(before), self.commit, list)
end

-- Sends the next piece of the state to a member that needs entries which are not in the log any
-- more.
local function send_piece(self, number, peer)
    if not peer.state or peer.state.base < self.base and peer.taken == 0 then
        peer.state, peer.taken = {base = self.base, epoch = self.base_epoch,
            text = self.io.snapshot()}, 0
    end
    local state = peer.state
    self.io.send(number, "piece", self.promised, state.base, state.epoch, peer.taken, #state.text,
        state.text:sub(peer.taken + 1, peer.taken + PIECE))
end

-- Sends a follower what it lacks, as far as its window allows.
local function push(self, number, peer)
    if peer.next <= self.base then
        if not peer.asked then send_piece(self, number, peer) end
        peer.asked = true
        return
    end
    if peer.probing then
        if peer.asked then return end
        peer.asked = true
        return send_entries(self, number, "append", peer.next, end_of_batch(self, peer.next))
    end
    local bytes = peer.next <= self.last and bytes_of(self, peer.match + 1, peer.next - 1) or 0
    while peer.next <= self.last and peer.next - peer.match <= WINDOW and bytes < WINDOW_BYTES do
        local upto = end_of_batch(self, peer.next)
        send_entries(self, number, "append", peer.next, upto)
        bytes = bytes + bytes_of(self, peer.next, upto)
        peer.next, peer.told = upto + 1, self.commit
    end
    if peer.told ~= self.commit and peer.next > self.last then
        peer.told = self.commit
        send_entries(self, number, "append", peer.next, peer.next - 1)
    end
end

-- Moves `commit` to the last entry that a majority has, if that is of this epoch.
local function advance(self)
    local matches = {self.votes and self.synced or 0}
    for _, peer in pairs(self.peers) do
        matches[#matches + 1] = peer.votes and peer.match or 0
    end
    table.sort(matches, function(a, b) return a > b end)
    local index = matches[(self.voters or #self.members) // 2 + 1]
    if index > self.commit and self.epochs[index] == self.promised then
        self.commit, self.known = index, index
    end
end

-- ---- What is heard ------------------------------------------------------------------------------

local hears = {}

function hears.prepare(self, from)
    self.answer = {from, "promise"}
end

function hears.promise(self, from, epoch, last_epoch, last, votes)
    local peer = self.stage == "collecting" and epoch == self.promised and self.peers[from]
    if not peer then return end
    peer.promised, peer.epoch, peer.last, peer.votes = true, last_epoch, last, votes
    if not self.best then choose(self) end
end

function hears.fetch(self, from, _, index)
    if index <= self.base then
        self.giving = self.giving or {}
        local peer = self.giving[from]
        if not peer or peer.state and index > peer.state.base then peer = {taken = 0} end
        self.giving[from] = peer -- if it got that state in another way, it needs a later one
        send_piece(self, from, peer)
    elseif index <= self.last + 1 then
        if self.giving then self.giving[from] = nil end
        send_entries(self, from, "entries", index, end_of_batch(self, index))
    end
end

-- Takes entries after an entry that both logs should have. Own entries that differ were never
-- committed. Returns the index up to which the logs agree; nil: they may differ even before that.
local function take(self, before, before_epoch, list)
    if before > self.last then return nil end
    if before >= self.base and self:epoch_at(before) ~= before_epoch then return nil end
    for i = 1, #list, 2 do
        local index = before + (i + 1) // 2
        if index > self.base and self.epochs[index] ~= list[i] then
            if index <= self.last then cut(self, index) end
            put(self, index, list[i], list[i + 1])
        end
    end
    return math.max(before + #list // 2, self.base)
end

function hears.append(self, from, _, before, before_epoch, commit, list)
    if self.stage ~= "following" or self.leader ~= from then self:follow(from) end
    local agreed = take(self, before, before_epoch, list)
    self.heard, self.known = true, math.max(self.known, commit)
    if agreed then
        self.agreed = math.max(self.agreed or 0, agreed)
        self.commit = math.max(self.commit, math.min(commit, agreed))
        self.answer = {from, "ack"}
    elseif not (self.answer and self.answer[2] == "ack") then
        self.answer = {from, "nack"}
    end
end

-- Entries of the best log, fetched before this member leads.
function hears.entries(self, from, _, before, before_epoch, _, list)
    if self.stage ~= "collecting" or self.best ~= from then return end
    local agreed, best = take(self, before, before_epoch, list), self.peers[from]
    self.patience = 0
    if agreed and agreed >= best.last then return begin(self) end
    if agreed and #list > 0 then self.io.send(from, "fetch", self.promised, agreed + 1) end
end

function hears.ack(self, from, epoch, upto, votes)
    local peer = self.stage == "leading" and epoch == self.promised and self.peers[from]
    if not peer then return end
    peer.match, peer.votes = math.max(peer.match, upto), votes
    if peer.probing then peer.next, peer.probing = peer.match + 1, nil end
    peer.next, peer.heard = math.max(peer.next, peer.match + 1), true
end

function hears.nack(self, from, epoch, commit, votes, last, last_epoch)
    local peer = self.stage == "leading" and epoch == self.promised and self.peers[from]
    if not peer or commit < peer.match and votes then return end -- it was sent before the last ACK
    peer.heard, peer.votes = true, votes
    if last <= self.last and last >= self.base and self:epoch_at(last) == last_epoch then
        commit = math.max(commit, last) -- the logs agree further than the sender knows
    end
    if peer.probing and peer.next == commit + 1 then return end -- that was sent already
    peer.match, peer.next, peer.state = commit, commit + 1, nil
    peer.probing, peer.asked = true, nil
end

-- Puts a state in place of the log up to `base`. Entries after it stay if they belong to it: this
-- member may have acknowledged them, and others count on that.
local function install(self, base, base_epoch, text)
    local keeps = self:epoch_at(base) == base_epoch
    for i = self.base + 1, keeps and base or self.last do
        self.epochs[i], self.data[i] = nil, nil
    end
    self.base, self.base_epoch = base, base_epoch
    if not keeps then self.last, self.synced = base, base end
    self.commit, self.agreed = base, base
    self.io.install(base, base_epoch, text, keeps)
end

function hears.piece(self, from, epoch, base, base_epoch, offset, size, text)
    local fetching = self.stage == "collecting" and self.best == from
    if not fetching and (self.stage ~= "following" or self.leader ~= from) then
        if self.stage == "leading" then return end
        self:follow(from)
    end
    local whole = self.incoming
    if not whole or whole.base ~= base or whole.from ~= from then
        whole = {base = base, from = from, size = 0}
        self.incoming = whole
    end
    if offset == whole.size then
        whole[#whole + 1], whole.size = text, whole.size + #text
    end
    self.heard, self.patience = true, 0
    if whole.size == size and base > self.commit then
        self.incoming = nil
        install(self, base, base_epoch, table.concat(whole))
    end
    if fetching then
        if self.commit < base then
            return self.io.send(from, "taken", epoch, base, whole.size, self.votes)
        end
        return self.io.send(from, "fetch", epoch, self.commit + 1)
    end
    self.io.send(from, "taken", epoch, base, self.incoming and whole.size or size, self.votes)
end

function hears.taken(self, from, epoch, base, taken)
    local peer = self.stage == "leading" and epoch == self.promised and self.peers[from]
        or self.giving and self.giving[from]
    if not peer or not peer.state or peer.state.base ~= base then return end
    peer.taken, peer.asked, peer.heard = taken, nil, true
    if taken >= #peer.state.text then
        peer.next, peer.match, peer.state = base + 1, math.max(peer.match or 0, base), nil
        peer.probing = true
    elseif self.stage ~= "leading" then
        send_piece(self, from, peer)
    end
end

local answers = {promise = true, ack = true, nack = true, taken = true}

--- A message of a member, unchecked. A malformed one raises an error, and changes nothing that
--- matters.
function log:hear(from, what, epoch, ...)
    if what == "stale" then
        if epoch > self.promised and self.stage ~= "following" then self:follow() end
    elseif epoch < self.promised then
        if not answers[what] then self.io.send(from, "stale", self.promised) end
    elseif hears[what] then
        if epoch > self.promised then
            if answers[what] then return end
            promise(self, epoch)
            self:follow(from)
        end
        hears[what](self, from, epoch, ...)
    end
end

-- ---- The end of a turn --------------------------------------------------------------------------

local function reply(self)
    local to, what = self.answer[1], self.answer[2]
    self.answer = nil
    if what == "promise" then
        self.io.send(to, what, self.promised, self:epoch_at(self.last), self.last, self.votes)
    elseif what == "ack" then
        self.io.send(to, what, self.promised, self.agreed, self.votes)
    else
        self.io.send(to, what, self.promised, self.commit, self.votes, self.last,
            self:epoch_at(self.last))
    end
end

--- Call it after messages were heard and entries appended: sends what there is to send, once all is
--- on the disk.
function log:flush()
    if self.stage == "leading" then
        for number, peer in pairs(self.peers) do push(self, number, peer) end
    end
    if self.dirty then
        local last = self.last
        self.dirty = false
        self.io.sync()
        self.synced = math.min(last, self.last)
    end
    if self.answer then reply(self) end
    if self.asks and self.stage == "collecting" then
        self.asks = false
        each_peer(self, function(peer) self.io.send(peer, "prepare", self.promised) end)
        choose(self)
        if self.dirty then return self:flush() end
    end
    if self.stage == "leading" then
        local before = self.commit
        advance(self)
        if self.commit > before then
            for number, peer in pairs(self.peers) do push(self, number, peer) end
        end
    end
end

--- Whether a leader of a later epoch than this is known to have had an entry of its own committed.
--- Then a majority of the present members has all that was ever committed.
function log:has_worked_after(epoch)
    if self.promised <= epoch then return false end
    if self.stage == "leading" then return self.commit >= self.opening end
    return self.stage == "following" and self.leader ~= nil
        and self:epoch_at(self.commit) == self.promised
end

--- Call it now and then: what was not answered is sent again.
function log:tick()
    if self.stage == "collecting" then
        self.patience = self.patience + 1
        if self.best and self.patience > 4 then -- it is gone: perhaps there is another majority
            self.peers[self.best].promised, self.best = nil, nil
        end
        if self.best then
            self.io.send(self.best, "fetch", self.promised, self.commit + 1)
        else
            self.asks = true
        end
    elseif self.stage == "leading" then
        for number, peer in pairs(self.peers) do
            peer.asked = nil
            if self.io.is_busy(number) then
                peer.heard = nil -- the last message has not left yet: do not repeat it
            elseif not peer.heard and not peer.probing and peer.match < self.last then
                peer.next, peer.probing = peer.match + 1, true
            elseif not peer.probing and peer.next > self.last and peer.next > self.base then
                send_entries(self, number, "append", peer.next, peer.next - 1)
            end
            peer.heard = nil
        end
    end
end

--- The state up to this index was kept: drops the entries up to there.
function log:compact(index)
    local epoch = self:epoch_at(index)
    for i = self.base + 1, index do self.epochs[i], self.data[i] = nil, nil end
    self.base, self.base_epoch = index, epoch
end

return log
