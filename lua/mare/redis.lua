-- SPDX-License-Identifier: MIT
-- A client of Redis over Maré's streams: commands, pipelines, transactions, scripts, messages.
--
-- A connection serves one call at a time; other routines of the process wait for their turn. If a
-- call fails while its answer is on the way, the next call could read that answer. So the stream is
-- closed, and the next call connects again. No command is sent twice.
local mare, net = require "mare", require "mare.net"
local check, resp = require "mare._check", require "mare._resp"

local redis = {null = resp.null, failed = resp.failed}

local OPTIONS = check.set("host", "port", "path", "username", "password", "database", "name", "tls",
    "timeout", "limit", "reconnect")
local TRANSACTION = check.set("watch", "attempts", "timeout")
local LIMIT <const> = 64 << 20
local LONGEST_LINE <const> = 65536

local function is_integer(least, most)
    return function(value)
        return math.type(value) == "integer" and value >= least and value <= most
    end
end

local RULES = {
    port = {is_integer(1, 65535), "an integer between 1 and 65535"},
    database = {is_integer(0, math.maxinteger), "an integer that is not negative"},
    limit = {check.size, "a whole number of bytes above 0"},
    reconnect = {"boolean", "a boolean"},
    tls = {function(tls) return type(tls) ~= "string" and type(tls) ~= "number" end,
        "a boolean, or options for tls.connect"},
}

-- Commands that are refused, because they change the whole connection: answers would not match
-- calls any more; other routines would be in a transaction; or a new connection would be in another
-- state than this one.
local REFUSED = {}
for reason, words in pairs {
    ["use r:subscribe"] = "SUBSCRIBE PSUBSCRIBE SSUBSCRIBE UNSUBSCRIBE PUNSUBSCRIBE SUNSUBSCRIBE",
    ["its answers have no end"] = "MONITOR SYNC PSYNC",
    ["use r:transaction"] = "MULTI EXEC DISCARD WATCH UNWATCH",
    ["use the options of redis.connect"] = "SELECT AUTH HELLO RESET",
} do
    for word in words:gmatch "%S+" do REFUSED[word] = reason end
end

local function check_command(level, command, second)
    local word = type(command) == "string" and command:upper()
    local reason = REFUSED[word]
    if word == "CLIENT" and type(second) == "string" and second:upper() == "REPLY" then
        word, reason = "CLIENT REPLY", "every call needs its answer"
    end
    if reason then error(("%s cannot be a call (%s)"):format(word, reason), level + 1) end
end

local Connection, Subscription = {}, {}

-- ---- Connecting --------------------------------------------------------------------------------

local function open_stream(options, deadline)
    if options.path then return net.connect(options.path, nil, deadline) end
    local host, port = options.host or "127.0.0.1", options.port or 6379
    if not options.tls then return net.connect(host, port, deadline) end
    local tls = require "mare.tls"
    return tls.connect(host, port, options.tls ~= true and options.tls or nil, deadline)
end

-- Sends one command and reads its answer, on a stream that nobody else has yet.
local function say(stream, deadline, options, ...)
    local sent, why, code = stream:writewithin(deadline, resp.encode({...}, select("#", ...)))
    if not sent then return nil, why, code end
    local ok, value
    ok, value, code = resp.read(stream, deadline, options.limit or LIMIT)
    if not ok then return nil, value, code end
    if resp.failed(value) then return nil, value.message, "remote" end
    return value == nil and true or value
end

-- Older servers know no HELLO; then it is RESP 2, and AUTH.
local function greet(stream, deadline, o)
    local words = {"HELLO", "3"}
    if o.password then
        table.move({"AUTH", o.username or "default", o.password}, 1, 3, 3, words)
    end
    local ok, why, code = say(stream, deadline, o, table.unpack(words))
    if not ok and code == "remote" and (why:find "^NOPROTO" or why:find "unknown command") then
        ok = true
        if o.password then
            if o.username then
                ok, why, code = say(stream, deadline, o, "AUTH", o.username, o.password)
            else
                ok, why, code = say(stream, deadline, o, "AUTH", o.password)
            end
        end
    end
    if not ok then return nil, why, code == "remote" and "denied" or code end
    if o.name then
        ok, why, code = say(stream, deadline, o, "CLIENT", "SETNAME", o.name)
    end
    if ok and o.database then
        ok, why, code = say(stream, deadline, o, "SELECT", o.database)
    end
    if not ok then return nil, why, code end
    return true
end

local function dial(options, deadline)
    local stream, why, code = open_stream(options, deadline)
    if not stream then return nil, why, code end
    stream:limit(LONGEST_LINE, options.limit or LIMIT)
    local ok
    ok, why, code = greet(stream, deadline, options)
    if not ok then
        stream:close()
        return nil, why, code
    end
    return stream
end

local function deadline_of(options, timeout)
    timeout = timeout or options.timeout
    return type(timeout) == "number" and mare.deadline(timeout) or timeout
end

--- A connection: see docs/reference/redis.md.
function redis.connect(options)
    options = options or {}
    check.options("connect", options, 1, OPTIONS)
    check.option("connect", options, 1, "timeout", check.span, "a number of seconds above 0")
    for _, key in ipairs {"host", "path", "username", "password", "name"} do
        check.option("connect", options, 1, key, "string", "a string")
    end
    for key, rule in pairs(RULES) do
        check.option("connect", options, 1, key, rule[1], rule[2])
    end
    if options.path and options.tls then
        error("bad argument #1 to 'connect' (there is no TLS at a path)", 2)
    end
    local stream, why, code = dial(options, deadline_of(options))
    if not stream then return nil, why, code end
    local turn = mare.channel(1)
    turn:send(true)
    return setmetatable({_options = options, _stream = stream, _turn = turn, _scripts = {},
        _once = setmetatable({reconnect = false}, {__index = options})}, Connection)
end

-- ---- Calls -------------------------------------------------------------------------------------

local methods = {}

-- The stream of a connection, made anew if it was lost.
local function stream_of(self, deadline)
    if self._stream then return self._stream end
    if self._closed then return nil, "the connection was closed", "closed" end
    if self._options.reconnect == false then return nil, "the connection was lost", "closed" end
    local stream, why, code = dial(self._options, deadline)
    if not stream then return nil, why, code end
    if self._closed then -- it was closed meanwhile
        stream:close()
        return nil, "the connection was closed", "closed"
    end
    self._stream = stream
    return stream
end

local function lose(self)
    local stream = self._stream
    self._stream = nil
    if stream then stream:close() end
end

-- Runs f(stream, deadline) when it is this routine's turn. The first result of f says whether the
-- stream can be used again. If not, or if f does not end normally (an error, a kill), the stream is
-- closed.
local function in_turn(self, timeout, f)
    local deadline = deadline_of(self._options, timeout)
    local got, why, code = self._turn:receive(deadline)
    if not got then return nil, why, code end
    local whole = false
    local _ <close> = setmetatable({}, {__close = function()
        if not whole then lose(self) end
        self._turn:trysend(true)
    end})
    local stream
    stream, why, code = stream_of(self, deadline)
    if not stream then return nil, why, code end
    local results = table.pack(f(stream, deadline))
    whole = results[1]
    return table.unpack(results, 2, results.n)
end

-- Sends encoded commands, and reads so many answers: true and a list, or false, nil, message, code.
local function exchange_on(stream, deadline, limit, data, count)
    local sent, why, code = stream:writewithin(deadline, data)
    if not sent then return false, nil, why, code end
    local answers = {n = count}
    for i = 1, count do
        local ok, value
        ok, value, code = resp.read(stream, deadline, limit)
        if not ok then return false, nil, value, code end
        answers[i] = value
    end
    return true, answers
end

local function exchange(self, timeout, data, count)
    return in_turn(self, timeout, function(stream, deadline)
        return exchange_on(stream, deadline, self._options.limit or LIMIT, data, count)
    end)
end

local function result_of(value)
    if resp.failed(value) then return nil, value.message, "remote" end
    return value
end

local function call(self, timeout, ...)
    local data = resp.encode({...}, select("#", ...), 3) -- a mistake is in the caller's line
    local answers, why, code = exchange(self, timeout, data, 1)
    if not answers then return nil, why, code end
    return result_of(answers[1])
end

function methods:call(...)
    check.self("call", self, Connection)
    check_command(2, ...)
    return call(self, nil, ...)
end

function methods:callwithin(timeout, ...)
    check.self("callwithin", self, Connection)
    check_command(2, ...)
    return call(self, timeout, ...)
end

local function encode_all(commands)
    local parts = {}
    for i = 1, #commands do
        local words = rawget(commands, i)
        check.argument("pipeline", words, 1, "table", 4)
        check_command(3, words[1], words[2])
        parts[i] = resp.encode(words, #words, 4)
    end
    return table.concat(parts)
end

--- Sends many commands at once, and returns their answers in order.
function methods:pipeline(commands, timeout)
    check.self("pipeline", self, Connection)
    check.argument("pipeline", commands, 1, "table")
    if #commands == 0 then return {n = 0} end
    return exchange(self, timeout, encode_all(commands), #commands)
end

-- ---- Transactions ------------------------------------------------------------------------------

local Queue = {__name = "redis.transaction"}
function Queue.__index(_, name)
    return function(queue, ...)
        check_command(2, name, ...)
        queue[#queue + 1] = {name:upper(), ...}
    end
end

-- The answer of EXEC as a list; or nil, message, code.
local function committed(answers, count)
    local results = answers[count + 2]
    if resp.failed(results) then
        for i = 2, count + 1 do -- the refused command says more than EXEC
            if resp.failed(answers[i]) then results = answers[i] break end
        end
        return nil, results.message, "remote"
    end
    if results == nil then return nil, "a watched key has changed", "refused" end
    for i = 1, count do
        if results[i] == resp.null then results[i] = nil end
    end
    results.n = count
    return results
end

-- One attempt, in the turn of the transaction. `inner` is the connection for what f wants to read.
local function attempt(inner, f, watch, deadline)
    if watch then
        local ok, why, code = call(inner, deadline, "WATCH", table.unpack(watch))
        if not ok then return nil, why, code end
    end
    local queue = setmetatable({}, Queue)
    f(queue, inner)
    local data = resp.encode({"MULTI"}, 1) .. encode_all(queue) .. resp.encode({"EXEC"}, 1)
    local answers, why, code = exchange(inner, deadline, data, #queue + 2)
    if not answers then return nil, why, code end
    return committed(answers, #queue)
end

--- f(tx, r) collects commands in tx, which are then run together; with `watch`, only if those keys
--- have not changed since f began. Nobody else has the connection until the end.
function methods:transaction(f, options)
    check.self("transaction", self, Connection)
    check.argument("transaction", f, 1, "function")
    options = options or {}
    check.options("transaction", options, 2, TRANSACTION)
    return in_turn(self, options.timeout, function(stream, deadline)
        local inner = setmetatable({_stream = stream, _turn = mare.channel(1),
            _scripts = self._scripts, _options = self._once}, Connection)
        inner._turn:send(true)
        local results, why, code
        for _ = 1, options.watch and options.attempts or 10 do
            results, why, code = attempt(inner, f, options.watch, deadline)
            if results or code ~= "refused" then break end
        end
        -- A routine that f has started may still wait for an answer: then the stream cannot be used
        -- again.
        local whole = inner._stream ~= nil and inner._turn:tryreceive() == true
        inner._stream = nil -- the outer connection keeps it
        return whole, results, why, code
    end)
end

-- ---- Scripts -----------------------------------------------------------------------------------

--- Runs a script in the server, which keeps it: it is sent once.
function methods:eval(script, keys, arguments, timeout)
    check.self("eval", self, Connection)
    check.argument("eval", script, 1, "string")
    keys, arguments = keys or {}, arguments or {}
    local deadline = deadline_of(self._options, timeout)
    for _ = 1, 2 do
        local digest = self._scripts[script]
        if not digest then
            local why, code
            digest, why, code = call(self, deadline, "SCRIPT", "LOAD", script)
            if not digest then return nil, why, code end
            self._scripts[script] = digest
        end
        local words = {"EVALSHA", digest, #keys}
        table.move(keys, 1, #keys, #words + 1, words)
        table.move(arguments, 1, #arguments, #words + 1, words)
        local value, why, code = call(self, deadline, table.unpack(words, 1, #words))
        if code ~= "remote" or not why:find "^NOSCRIPT" then return value, why, code end
        self._scripts[script] = nil -- the server has forgotten it
    end
    return nil, "the server does not keep scripts", "remote"
end

function methods:close()
    self._closed = true
    lose(self)
end

local function stays() error("a connection belongs to the process that made it", 0) end

Connection.__name = "redis.connection"
Connection.__travel = stays
Connection.__close = methods.close

-- Any other name is a command: r:get "key".
function Connection.__index(_, name)
    local method = methods[name]
    if method or type(name) ~= "string" or name:find "^_" then return method end
    return function(self, ...)
        check.self(name, self, Connection)
        check_command(2, name, ...)
        return call(self, nil, name:upper(), ...)
    end
end

-- ---- Messages ----------------------------------------------------------------------------------

-- How many messages are kept here until they are taken; further ones stay in the server.
local KEPT <const> = 1000
local NOTED = check.set("subscribe", "psubscribe")

-- What the server says next, as push (RESP 3) or as an answer (RESP 2): a list.
local function hear(self, stream, deadline)
    local ok, value, code = resp.next(stream, deadline, self._options.limit or LIMIT)
    if not ok then return nil, value, code end
    if resp.failed(value) then return nil, value.message, "remote" end
    return type(value) == "table" and value or {}
end

local function pass_on(messages, heard)
    if heard[1] == "message" then return messages:send(heard[2], heard[3]) end
    if heard[1] == "pmessage" then return messages:send(heard[3], heard[4], heard[2]) end
    return true
end

-- Asks for channels, and waits until the server has noted each.
local function tell(self, deadline, command, names)
    if #names == 0 then return true end
    local words = {command, table.unpack(names)}
    local ok, why, code = self._stream:writewithin(deadline, resp.encode(words, #words))
    local wanted = #names
    while ok and wanted > 0 do
        ok, why, code = hear(self, self._stream, deadline)
        if ok and NOTED[ok[1]] then wanted = wanted - 1 end
        if ok and not NOTED[ok[1]] then pass_on(self._messages, ok) end
    end
    return ok, why, code
end

-- The routine that reads messages. So the timeout of `next` never cuts a message.
local function hear_all(self, stream, messages)
    local heard, why, code
    repeat
        heard, why, code = hear(self, stream)
    until not heard or not pass_on(messages, heard)
    self._why, self._code = why, code
    messages:close()
end

local function subscribe_all(self, deadline)
    local why, code, ok
    self._stream, why, code = dial(self._options, deadline)
    if not self._stream then return nil, why, code end
    self._messages = mare.channel(KEPT)
    ok, why, code = tell(self, deadline, "SUBSCRIBE", self._channels)
    if ok then ok, why, code = tell(self, deadline, "PSUBSCRIBE", self._patterns) end
    if not ok then
        lose(self)
        return nil, why, code
    end
    mare.go(hear_all, self, self._stream, self._messages):detach()
    return true
end

--- Listens to channels, and to patterns, over a connection of its own.
function methods:subscribe(options, timeout)
    check.self("subscribe", self, Connection)
    if type(options) == "string" then options = {options} end
    check.argument("subscribe", options, 1, "table")
    if #options == 0 and #(options.patterns or {}) == 0 then
        error("bad argument #1 to 'subscribe' (no channel and no pattern)", 2)
    end
    local made = setmetatable({_options = self._options, _channels = {table.unpack(options)},
        _patterns = options.patterns or {}}, Subscription)
    local ok, why, code = subscribe_all(made, deadline_of(self._options, timeout))
    if not ok then return nil, why, code end
    return made
end

Subscription.__name = "redis.subscription"
Subscription.__travel = stays
Subscription.__index = Subscription

--- The next message: its channel, its text, and the pattern that it fits, if it was one.
function Subscription:next(timeout)
    local deadline = type(timeout) == "number" and mare.deadline(timeout) or timeout
    if self._closed then return nil, "the subscription was closed", "closed" end
    if not self._stream then
        local ok, why, code = subscribe_all(self, deadline or deadline_of(self._options))
        if not ok then return nil, why, code end
    end
    local channel, message, pattern = self._messages:receive(deadline)
    if channel or pattern ~= "closed" then return channel, message, pattern end
    lose(self) -- the next call subscribes again
    return nil, self._why or message, self._code or pattern
end

function Subscription:close()
    self._closed = true
    lose(self)
    self._messages:close() -- the reading routine may wait for room there
end
Subscription.__close = Subscription.close

return redis
