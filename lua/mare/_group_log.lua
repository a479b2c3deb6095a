-- SPDX-License-Identifier: MIT
-- The log of a replica or of a multicast: members agree on one list of entries, which only grows.
-- It does no input or output: what it wants done it says to `io`, so a test can run many of them in
-- one process and lose, repeat and reorder what they say (tests/lua/test_group_log.lua).
--
--     follower ── lead(epoch) ──▶ collecting ── a majority has promised ──▶ leading
--         ▲                          │  its log is the best of theirs         │ no-op, then entries
--         └──── follow(), or a later epoch is heard of ◀──────────────────────┘
--
-- Who leads is who holds the lease-protected lock of the log; the epoch is its fencing number. But
-- nothing here rests on a clock. A leader first gets the promise of a majority not to listen to any
-- earlier epoch, and takes over the best log that they have: that of the latest epoch, and of these
-- the longest. An entry is committed when a majority has it on disk and it, or one after it, is of
-- the leader's own epoch. So it is in the best log of every majority from then on.
--
--     PREPARE epoch                                    follower: promised; PROMISE its last entry
--     FETCH from                                       the best one: ENTRIES
--     APPEND/ENTRIES before, its epoch, commit, list   ACK up to; or NACK: I agree up to my commit
--     PIECE of a snapshot, where the log does not reach back any more      TAKEN so many bytes
--     STALE: a later epoch was promised
--
-- Sources: Lamport, "Paxos made simple" (2001); Ongaro and Ousterhout, "In search of an
-- understandable consensus algorithm" (2014): 5.3 (matching logs), 5.4 (what is committed), 7
-- (snapshots). The election is another one's work here, and catching up is the leader's.
--
-- io.send(peer, what, epoch, ...)       may be lost
-- io.promise(epoch), io.write(index, epoch, data), io.cut(index)   what is to be kept, in order
-- io.sync()                             returns when all that is on the disk
-- io.snapshot() -> text                 of the state at `base`
-- io.install(index, epoch, text, keeps) a state that came from another; the entries behind it stay,
--                                       or not; it is on the disk then
local log = {}
log.__index = log

local BATCH, WINDOW, PIECE = 64, 1024, 1 << 16 -- entries a message; not acknowledged; bytes

--- A member's part: `here` of `count`, whether it `votes`, and what was kept: `promised`, `base`,
--- `base_epoch`, `entries` (from base + 1 on: a list of {epoch =, data =}). `batch` is for tests:
--- how many entries a message has at most.
function log.new(io, kept)
    local self = setmetatable({io = io, here = kept.here, count = kept.count, votes = kept.votes,
        promised = kept.promised or 0, base = kept.base or 0, base_epoch = kept.base_epoch or 0,
        data = {}, epochs = {}, stage = "following", patience = 0, batch = kept.batch or BATCH},
        log)
    self.last = self.base
    for i, entry in ipairs(kept.entries or {}) do
        self.last = self.base + i
        self.epochs[self.last], self.data[self.last] = entry.epoch, entry.data
    end
    self.commit, self.synced, self.known = self.base, self.last, 0
    return self
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
    for peer = 1, self.count do
        if peer ~= self.here then f(peer) end
    end
end

--- Leads no more; `leader`: who does, if that is known.
function log:follow(leader)
    self.stage, self.leader, self.answer, self.agreed = "following", leader, nil, nil
    self.peers, self.best = nil, nil
end

-- The log is the best one: its own first entry commits what is before it.
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

-- With the promises of a majority: whose log is the best? If it is another's, it is fetched.
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
    if promised * 2 <= self.count then return end
    if not best then return begin(self) end
    self.best, self.patience = best, 0
    self.io.send(best, "fetch", self.promised, self.commit + 1)
end

--- This member has the lock, by this number.
function log:lead(epoch)
    if epoch <= self.promised then return end -- another one has it by now, or it is known
    promise(self, epoch)
    self.stage, self.leader, self.peers, self.best = "collecting", self.here, {}, nil
    self.answer, self.agreed = nil, nil
    each_peer(self, function(peer) self.peers[peer] = {votes = false} end)
    self.asks = true -- when the promise is on the disk
end

--- Adds an entry; only where `stage` is "leading". Returns its index.
function log:append(data)
    put(self, self.last + 1, self.promised, data)
    return self.last
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

-- A member that is behind the beginning of the log gets the state, piece by piece.
local function send_piece(self, number, peer)
    if not peer.state or peer.state.base < self.base and peer.taken == 0 then
        peer.state, peer.taken = {base = self.base, epoch = self.base_epoch,
            text = self.io.snapshot()}, 0
    end
    local state = peer.state
    self.io.send(number, "piece", self.promised, state.base, state.epoch, peer.taken, #state.text,
        state.text:sub(peer.taken + 1, peer.taken + PIECE))
end

-- What a follower lacks, as much as may be on its way.
local function push(self, number, peer)
    if peer.next <= self.base then
        if not peer.asked then send_piece(self, number, peer) end
        peer.asked = true
        return
    end
    if peer.probing then
        if peer.asked then return end
        peer.asked = true
        return send_entries(self, number, "append", peer.next, math.min(self.last,
            peer.next + self.batch - 1))
    end
    while peer.next <= self.last and peer.next - peer.match <= WINDOW do
        local upto = math.min(self.last, peer.next + self.batch - 1)
        send_entries(self, number, "append", peer.next, upto)
        peer.next, peer.told = upto + 1, self.commit
    end
    if peer.told ~= self.commit and peer.next > self.last then
        peer.told = self.commit
        send_entries(self, number, "append", peer.next, peer.next - 1)
    end
end

-- Committed is what a majority has, from the first entry of this epoch on.
local function advance(self)
    local matches = {self.votes and self.synced or 0}
    for _, peer in pairs(self.peers) do
        matches[#matches + 1] = peer.votes and peer.match or 0
    end
    table.sort(matches, function(a, b) return a > b end)
    local index = matches[self.count // 2 + 1]
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
        local peer = self.giving[from] or {taken = 0}
        self.giving[from] = peer
        send_piece(self, from, peer)
    elseif index <= self.last + 1 then
        if self.giving then self.giving[from] = nil end
        send_entries(self, from, "entries", index, math.min(self.last, index + self.batch - 1))
    end
end

-- Takes entries behind one that both have; what differs here was never committed. Returns up to
-- where the logs agree; nil: they may not even do so before.
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

-- Of the best log, before this member leads.
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
    if not peer or commit < peer.match and votes then return end -- said before the last ACK
    peer.heard, peer.votes = true, votes
    if last <= self.last and last >= self.base and self:epoch_at(last) == last_epoch then
        commit = math.max(commit, last) -- they agree further than it knows
    end
    if peer.probing and peer.next == commit + 1 then return end -- on its way
    peer.match, peer.next, peer.state = commit, commit + 1, nil
    peer.probing, peer.asked = true, nil
end

-- A state in place of the log up to there. What is behind it stays, if it belongs to it: this
-- member may have acknowledged that, and others count on it.
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

--- What a member has said, as it came. Malformed words of a stranger raise, and change nothing that
--- counts.
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

--- After what was heard and appended: sends what there is to send, once it is on the disk.
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

--- Now and then: what was not answered is said again.
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
            if not peer.heard and not peer.probing and peer.match < self.last then
                peer.next, peer.probing = peer.match + 1, true
            elseif not peer.probing and peer.next > self.last and peer.next > self.base then
                send_entries(self, number, "append", peer.next, peer.next - 1)
            end
            peer.heard = nil
        end
    end
end

--- The state up to here was kept: the entries are not needed any more.
function log:compact(index)
    local epoch = self:epoch_at(index)
    for i = self.base + 1, index do self.epochs[i], self.data[i] = nil, nil end
    self.base, self.base_epoch = index, epoch
end

return log
