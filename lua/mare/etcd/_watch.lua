-- SPDX-License-Identifier: MIT
-- Watches: the changes of a key, or of a range of keys, from a revision on.
--
--     etcd ── stream of JSON ──▶ routine ──▶ channel with room for some events ──▶ watch:receive()
--
-- The routine belongs to the process that watches. It notes the revision up to which all events
-- were passed on. When the stream ends it asks another member to go on from the next revision. So
-- no event is missed, and none comes twice. If etcd has forgotten events meanwhile (a compaction),
-- the watch ends. A silent stream does not show whether its member still works, so the member is
-- asked from time to time.
local mare, json, checks = require "mare", require "mare.json", require "mare._check"
local Client = require "mare.etcd._client"
local int, list_of = Client.int, Client.list_of

local Watch = {__name = "mare.etcd.watch"}
Watch.__index = Watch

-- ---- The routine --------------------------------------------------------------------------------

-- Ends the watch. Those who wait are told why, after they have received the events before.
local function finish(state, message, code, revision)
    if state.code then return end
    state.message, state.code, state.compacted = message, code, revision
    state.client.open[state] = nil
    state.created:close()
    state.channel:close()
end

local function event_of(given)
    local kv = list_of(given.kv)
    local event = Client.item_of(kv)
    event.type = given.type == "DELETE" and "delete" or "put"
    event.revision = event.modified
    event.previous = given.prev_kv and Client.item_of(given.prev_kv) or nil
    if event.type == "delete" then event.value, event.created, event.version = nil, nil, nil end
    return event
end

-- Why etcd has ended the stream; and whether to go on with another member.
local function cancelled(state, answer)
    if int(answer.compact_revision) > 0 then
        finish(state, "what comes next has been compacted", "compacted",
            int(answer.compact_revision))
        return
    end
    local reason = tostring(answer.cancel_reason or "no reason is given")
    local why = Client.failure_of(nil, reason:match "desc = (.*)$" or reason)
    if why.expired and not state.renewed then
        state.client.token, state.renewed = nil, true
    elseif why.code == "denied" or reason:find("permission denied", 1, true) then
        finish(state, reason, "denied")
    end
end

-- Passes on the events of one message. True: the stream goes on.
local function pass_on(state, answer)
    local revision = int(list_of(answer.header).revision)
    if answer.canceled then return cancelled(state, answer) end
    if answer.created then
        state.next = state.next or revision + 1
        state.renewed, state.pause, state.begun = false, nil, true
        state.created:close()
        return true
    end
    local events = {}
    for i, given in ipairs(list_of(answer.events)) do events[i] = event_of(given) end
    for _, event in ipairs(events) do
        if event.revision >= state.next and not state.channel:send(event) then return false end
    end
    local last = events[#events]
    -- A message without events still tells up to which revision all events were sent.
    state.next = math.max(state.next, (last and last.revision or revision) + 1)
    return true
end

-- The next part of the stream; nil: it has ended, or its member is gone.
local function read(state, response, endpoint)
    while not state.code do
        local part, _, code = response:read(state.client.silence)
        if part then return part end
        if code ~= "timeout" or not state.client:is_there(endpoint) then return nil end
    end
end

-- Reads a stream to its end.
local function follow(state, response, endpoint)
    local reader = json.reader {size = state.client.most}
    while not state.code do
        local part = read(state, response, endpoint)
        if not part then return end
        reader:feed(part)
        while true do
            local value, message, code = reader:next()
            if value == nil and code then
                state.trouble = message
                return
            elseif value == nil then
                break
            end
            local answer, why = Client.message_of(value)
            if not answer then
                state.trouble = why.message
                if why.expired then state.client.token = nil end
                return
            end
            local good, more = pcall(pass_on, state, answer)
            if not good then state.trouble = tostring(more) end
            if not good or not more then return end
        end
    end
end

-- Seconds between two streams that brought nothing: the first, and the most.
local PAUSE <const>, PAUSE_MOST <const> = 0.02, 1

-- Makes sure that a connection which was cut silently is noticed.
local function probe(stream, seconds)
    local idle = math.max(1, math.ceil(seconds))
    stream:option("keepalive", true)
    stream:option("keepalive_idle", idle)
    stream:option("keepalive_interval", idle)
    stream:option("keepalive_count", 2)
end

local function run(state)
    local client = state.client
    while not state.code do
        state.request.start_revision = state.next
        local how = {deadline = client:deadline(), again = true, stream = true}
        local before = state.next
        local response, message, code = client:ask("watch", {create_request = state.request}, how)
        if response then
            probe(response.stream, client.silence)
            follow(state, response, how.endpoint)
            response:close()
        elseif code == "denied" or code == "closed" or code == "invalid" then
            finish(state, message, code)
        end
        state.trouble = not response and message or state.trouble
        if not state.code and state.next == before then
            state.pause = math.min(2 * (state.pause or PAUSE), PAUSE_MOST)
            mare.sleep(state.pause)
        end
    end
end

-- ---- The object ---------------------------------------------------------------------------------

local watch_options = checks.set("prefix", "to", "revision", "previous", "only", "buffer",
    "timeout")
local filters = {put = "NODELETE", delete = "NOPUT"}

local function check_options(options)
    options = Client.check("watch", 2, options, watch_options, 4)
    checks.option("watch", options, 2, "only", function(what) return filters[what] end,
        '"put" or "delete"', 4)
    checks.option("watch", options, 2, "buffer", function(count)
        return math.type(count) == "integer" and count > 0
    end, "an integer above 0", 4)
    return options
end

--- Watches a key, a prefix or a range, from a revision on or from now. Returns when the cluster has
--- begun: the watch, or nil, message, code.
function Client:watch(key, options)
    checks.argument("watch", key, 1, "string")
    options = check_options(options)
    local request = Client.range_of(key, options.to, options.prefix)
    request.prev_kv, request.progress_notify = options.previous, true
    if options.only then request.filters = json.array {filters[options.only]} end
    local state = {client = self, request = request, next = options.revision,
        channel = mare.channel(options.buffer or 64), created = mare.channel()}
    if self.closed then return nil, "the client is closed", "closed" end
    self.open[state], state.close = true, Watch.close
    state.routine = mare.go(run, state)
    state.routine:detach()
    local watch = setmetatable({state = state}, Watch)
    local _, message, code = state.created:receive(self:deadline(options.timeout))
    if code == "closed" and state.begun then return watch end
    if state.code then return nil, state.message, state.code, state.compacted end
    watch:close()
    return nil, state.trouble or message, code
end

local function failure_of(state)
    return nil, state.message, state.code, state.compacted
end

--- The next event; or nil, message, code: "timeout"; "compacted", with the oldest revision that can
--- still be watched from; "denied"; "closed". After the last three nothing comes any more.
function Watch:receive(timeout)
    local event, message, code = self.state.channel:receive(timeout)
    if event then return event end
    if code == "closed" then return failure_of(self.state) end
    return nil, message, code
end

--- An iterator over the events, until the watch is closed. Any other end is an error.
function Watch:events()
    return function()
        local event, message, code = self:receive()
        if event or code == "closed" then return event end
        error(message, 2)
    end
end

-- Ready when there is an event, or the watch has ended.
function Watch:__select(case, event)
    if case == nil then return self.state.channel end
    if event ~= nil then return true, event end
    return true, failure_of(self.state)
end

--- The next revision that it will pass on.
function Watch:next() return self.state.next end

--- Ends it.
function Watch:close()
    local state = self.state or self
    if state.code then return false end
    finish(state, "the watch is closed", "closed")
    state.routine:cancel()
    return true
end

Watch.__close = function(self) self:close() end
Watch.__gc = Watch.__close

return Client
