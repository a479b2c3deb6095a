-- SPDX-License-Identifier: MIT
-- Publish and subscribe: a publisher does not know its readers, and does not wait for them.
--
--     local mare, pubsub = require "mare", require "mare.pubsub"
--     local broker = pubsub.create()                        -- can be sent to other processes
--     local sub = broker:subscribe "tide/+/level"           -- + is any one word, # all that follow
--     broker:publish("tide/recife/level", 2.1)
--     print(sub:receive(5))                                 --> tide/recife/level  2.1
--     broker:subscribe("tide/#", function(topic, ...) print(topic, ...) end)
--     sub:close()
--
-- Each subscription has a channel of its own, which the broker fills in the order in which messages
-- came to it. When it is full, its policy says what is lost: see `subscribe`.
--
--   "publish", topic, packed values      "subscribe", ticket, reply, process, pattern, size, policy
--   "close", channel                     to a subscription:  lost, topic, values...
local mare, check, service = require "mare", require "mare._check", require "mare._service"
local lent = require "mare._lent"

local pubsub = {}

-- ---- Topics -------------------------------------------------------------------------------------

local function words_of(topic)
    local words = {}
    for word in (topic .. "/"):gmatch "([^/]*)/" do words[#words + 1] = word end
    return words
end

-- Patterns are kept as a tree by their words, so that a message meets only those that may match.
-- Returns the nodes of a pattern, from the root to the node of its subscriptions.
local function path_of(tree, pattern)
    local path = {tree}
    for i, word in ipairs(words_of(pattern)) do
        path[i][word] = path[i][word] or {}
        path[i + 1] = path[i][word]
    end
    return path
end

-- Removes nodes without subscriptions at them or below them.
local function prune(path, words)
    for i = #words, 1, -1 do
        if next(path[i + 1]) then return end
        path[i][words[i]] = nil
    end
end

-- Calls f for each subscription whose pattern matches words[i] and those after it. Subscriptions
-- are under the key true, which no word can be.
local function meet(tree, words, i, f)
    if not tree then return end
    for _, sub in ipairs(tree["#"] and tree["#"][true] or {}) do f(sub) end
    if i > #words then
        for _, sub in ipairs(tree[true] or {}) do f(sub) end
        return
    end
    if words[i] ~= "+" and words[i] ~= "#" then meet(tree[words[i]], words, i + 1, f) end
    meet(tree["+"], words, i + 1, f)
end

-- ---- The broker ---------------------------------------------------------------------------------

local methods = {}
local server_type = {__index = methods}
local KINDS = {
    publish = {"string", "table"},
    subscribe = {"number", "channel", "process", "string", "number", "string"},
    close = {"channel"},
}
local MOST = 1 << 20 -- messages that may wait at a subscription

local FULL = {} -- policy -> what to do when a subscription has no room

function FULL.oldest(_, sub, ...)
    sub.channel:tryreceive()
    sub.lost = sub.lost + 1
    sub.channel:trysend(sub.lost, ...)
end

function FULL.newest(_, sub)
    sub.lost = sub.lost + 1
end

function FULL.close(self, sub)
    self:close(sub.channel)
end

function methods:publish(topic, values)
    local met = {} -- collect all first: one that is closed on the way leaves the tree
    meet(self.tree, words_of(topic), 1, function(sub) met[#met + 1] = sub end)
    for _, sub in ipairs(met) do
        local sent, fine = service.give(sub.channel, sub.lost, topic,
            table.unpack(values, 1, values.n))
        if not fine then return end
        if not sent then FULL[sub.policy](self, sub, topic, table.unpack(values, 1, values.n)) end
    end
end

local function is_size(n) return math.type(n) == "integer" and n > 0 and n <= MOST end

function methods:subscribe(ticket, reply, from, pattern, size, policy)
    if not is_size(size) or not FULL[policy] then return end
    local sub = {from = from, channel = mare.channel(size), policy = policy, lost = 0,
                 path = path_of(self.tree, pattern), words = words_of(pattern)}
    local place = sub.path[#sub.path]
    service.watch(self, from)
    place[true] = place[true] or {}
    table.insert(place[true], sub)
    self.subs[sub.channel] = sub
    reply:trysend(ticket, sub.channel)
end

function methods:close(channel)
    local sub = self.subs[channel]
    if not sub then return end
    self.subs[channel] = nil
    local place = sub.path[#sub.path]
    for i, other in ipairs(place[true]) do
        if other == sub then
            table.remove(place[true], i)
            break
        end
    end
    if not place[true][1] then
        place[true] = nil
        prune(sub.path, sub.words)
    end
    channel:close()
end

function methods:ended(process)
    local gone = {}
    for channel, sub in pairs(self.subs) do
        if sub.from == process then gone[#gone + 1] = channel end
    end
    for _, channel in ipairs(gone) do self:close(channel) end
end

-- ---- A subscription -----------------------------------------------------------------------------

local subscription = {__name = "subscription"}
subscription.__index = subscription

local function told(self, which, lost, ...)
    if which == 1 and lost then
        self.count = lost
        return ...
    elseif which == 1 then
        return nil, "the subscription is closed", "closed"
    elseif not which then
        return nil, lost, ...
    elseif #self.channel > 0 then
        return told(self, 1, self.channel:tryreceive())
    end
    local _, code = ...
    return nil, "the broker has ended", code == "nonode" and code or "noproc"
end

--- The next message: its topic and its values; or nil, message, code.
function subscription:receive(timeout)
    return told(self, mare.select({self.channel, self.ends}, check.deadline("receive", timeout, 1)))
end

--- How many messages this subscription had missed when it last received one.
function subscription:lost()
    return self.count
end

--- Ends it. What has arrived can still be received; a function is not called any more.
function subscription:close()
    self.closed = true
    return service.insist(self.broker, "close", self.channel)
end

subscription.__close = subscription.close

-- ---- The others' side ---------------------------------------------------------------------------

local broker = service.type("broker", "mare.pubsub")
broker.__index = {}
pubsub.arrive = broker.arrive

--- A new broker. It lives as long as the process that made it.
function pubsub.create()
    local channel = service.serve(setmetatable({
        tree = {},
        subs = {}, -- channel -> subscription
    }, server_type), KINDS)
    return broker.arrive {channel, mare.self()}
end

local function check_topic(name, topic)
    check.argument(name, topic, 1, "string", 4)
end

--- Sends the values to all who have subscribed to the topic by now.
function broker.__index:publish(topic, ...)
    check_topic("publish", topic)
    if topic:find "[+#]" then
        error("bad argument #1 to 'publish' (a topic has no wildcards)", 2)
    end
    local values = lent.refuse("publish", table.pack(...), 2)
    return service.insist(self, "publish", topic, values)
end

local never = mare.channel()
local OPTIONS = check.set("size", "policy")

-- If the function fails, the error is printed, and it is still called for the next message.
local function deliver(sub, cb, ...)
    if ... == nil or sub.closed then return false end
    local fine, err = pcall(cb, ...)
    if not fine then pcall(mare.go, error, err, 0) end
    return true
end

--- Subscribes to all topics that match. With a function, that is called with each message, in
--- order, in a routine of its own. Options: `size`, how many messages may wait (64), and `policy`,
--- what happens when so many do: "oldest" (it is lost), "newest" (that is), "close" (no more
--- come).
function broker.__index:subscribe(pattern, cb, options)
    check_topic("subscribe", pattern)
    if type(cb) == "table" then cb, options = nil, cb end
    options = options or {}
    check.options("subscribe", options, 2, OPTIONS)
    check.option("subscribe", options, 2, "size", is_size, "a whole number from 1 to 2^20")
    check.option("subscribe", options, 2, "policy", function(p) return FULL[p] ~= nil end,
        "'oldest', 'newest' or 'close'")
    if pattern:find "#." then
        error("bad argument #1 to 'subscribe' (nothing can follow a '#')", 2)
    elseif ("/" .. pattern .. "/"):find "[^/][+#]" or pattern:find "[+][^/]" then
        error("bad argument #1 to 'subscribe' (a wildcard is a word of its own)", 2)
    end
    local ticket, reply = service.ticket(self)
    local sent, message, code = service.insist(self, "subscribe", ticket, reply, mare.self(),
        pattern, options.size or 64, options.policy or "oldest")
    if not sent then return nil, message, code end
    local channel
    repeat
        channel, message, code = service.answer(self, ticket, reply)
    until channel or code ~= "cancelled"
    if not channel then return nil, message, code end
    local sub = setmetatable({broker = self, channel = channel, count = 0,
        ends = self.from ~= mare.self() and self.from or never}, subscription)
    if cb then
        mare.go(function() repeat until not deliver(sub, cb, sub:receive()) end):detach()
    end
    return sub
end

return pubsub
