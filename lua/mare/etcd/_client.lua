-- SPDX-License-Identifier: MIT
-- Requests to a cluster of etcd through its JSON gateway: which member is asked, how long it has,
-- as which user, and what a failure means. The other files of this folder add to the class
-- `Client`.
--
-- If a member gives no answer, or says that it cannot now, the next one is asked, until the
-- deadline. A request that did not get to a member is always repeated in this way. If it did, and
-- no answer came, it may have been done, or may be done later. Then it is repeated only if that is
-- harmless (`how.again`), and `how.doubtful` is set; else the result is "unsure".
local mare, json, http = require "mare", require "mare.json", require "mare.http"
local raw = require "mare._http"

local Client = {__name = "mare.etcd.client"}
Client.__index = Client

-- ---- Values in JSON -----------------------------------------------------------------------------

--- Bytes in the gateway's form, and back. Decoding raises an error for malformed text.
Client.encode = raw.encode64

function Client.bytes(text)
    if text == nil then return "" end
    return type(text) == "string" and raw.decode64(text) or error("bytes expected", 0)
end

--- An integer, which the gateway writes as a string, and leaves out if it is 0.
function Client.int(value)
    if value == nil then return 0 end
    return math.tointeger(tonumber(value)) or error("an integer expected", 0)
end

--- A list, which the gateway leaves out if it is empty.
function Client.list_of(value)
    if value == nil then return {} end
    return type(value) == "table" and value or error("a list expected", 0)
end

-- ---- What a failure means -----------------------------------------------------------------------
-- A failure is a table: `message`, `code`; `passing`: another member, or the same one a little
-- later, may do better; `odd`: not the same one; `unsure`: it may have been done; `expired`: the
-- token is of no use.

local function failure(message, code, more)
    local made = more or {}
    made.message, made.code = message, code
    return made
end

-- Codes of gRPC: for requests that were refused; and for requests whose outcome is unknown.
local INVALID, NOT_FOUND, EXISTS, DENIED, EXHAUSTED, PRECONDITION = 3, 5, 6, 7, 8, 9
local DEADLINE, OUT_OF_RANGE, UNAVAILABLE, UNAUTHENTICATED = 4, 11, 14, 16
local codes = {[INVALID] = "invalid", [NOT_FOUND] = "noname", [EXISTS] = "exists",
    [DENIED] = "denied", [EXHAUSTED] = "full", [PRECONDITION] = "failed",
    [OUT_OF_RANGE] = "invalid", [UNAUTHENTICATED] = "denied"}

-- Refusals that etcd makes before it does anything.
local before = {"no leader", "too many requests", "not supported for learner"}

local function says(message, ...)
    for _, words in ipairs {...} do
        if message:find(words, 1, true) then return true end
    end
    return false
end

--- Our failure for an error of etcd, which has a number and a text.
function Client.failure_of(number, message)
    message = type(message) == "string" and message or "an error without a text"
    if number == UNAUTHENTICATED or says(message, "invalid auth token", "revision in header is old",
        "user name is empty") then
        return failure(message, "denied", {expired = true})
    elseif says(message, "invalid user ID or password") then
        return failure(message, "denied")
    elseif says(message, "has been compacted") then
        return failure(message, "compacted")
    elseif says(message, "request is too large") then
        return failure(message, "toobig")
    elseif says(message, table.unpack(before)) then
        return failure(message, "unavailable", {passing = true})
    elseif number == UNAVAILABLE or number == DEADLINE or says(message, "context deadline exceeded",
        "context canceled") then -- etcd sends this with the code of an unknown error
        return failure(message, "unavailable", {passing = true, unsure = true})
    end
    return failure(message, codes[number] or "failed", {unsure = not codes[number]})
end

-- Our failure for an answer that is not from the gateway.
local function strange(response, text)
    local status = response.status
    local message = ("the server answers %d, not as etcd's gateway does: %s"):format(status,
        status // 100 == 3 and "go elsewhere" or text:match "^[%g ]+" or "nothing")
    if status == 429 or status == 502 or status == 503 or status == 504 then
        return failure(message, "unavailable", {passing = true, unsure = status ~= 429})
    end
    return failure(message, "badmsg", {passing = true, unsure = status // 100 == 2, odd = true})
end

local function is_json(response)
    return (response.headers["content-type"] or ""):lower():find "^application/json" ~= nil
end

--- The contents of one message of etcd: a table, or nil and a failure. In a stream the contents are
--- in `result` or `error`.
function Client.message_of(value)
    local wrong = type(value) == "table" and value.error
    if type(value) ~= "table" then
        return nil, failure("an answer that is not an object", "badmsg",
            {unsure = true, odd = true})
    elseif type(wrong) == "table" then
        return nil, Client.failure_of(wrong.grpc_code, wrong.message)
    elseif wrong then
        return nil, Client.failure_of(value.code, value.message or wrong)
    end
    return type(value.result) == "table" and value.result or value
end

-- Codes of mare.http that are passed on. All others become "unavailable": no member could be
-- reached.
local telling = {timeout = true, denied = true, badmsg = true, toobig = true, nomem = true}

-- The failure of a request without an answer, or with half of one. `sent`: a member may have got
-- it.
local function unanswered(message, code, sent)
    if code == "cancelled" then return failure(message, code, {unsure = sent}) end
    local cut = message:find("cut short", 1, true) -- the words of mare.http
    code = telling[code] and not cut and code or "unavailable"
    return failure(message, code, {passing = code ~= "toobig", unsure = sent,
        odd = code == "badmsg" or code == "denied"}) -- "denied" comes from TLS
end

-- Reads the whole answer: a table, or nil and a failure.
local function take_all(self, response)
    local text, message, code = response:text()
    response:close()
    if not text then
        return nil, unanswered(message, code, true)
    elseif not is_json(response) then
        return nil, strange(response, text:sub(1, 200))
    end
    local value
    value, message = json.decode(text, {size = self.most})
    if value == nil then
        return nil, failure("an answer that is not JSON: " .. message, "badmsg",
            {passing = true, unsure = true, odd = true})
    end
    local answer, why = Client.message_of(value)
    if answer and response.status ~= 200 then return nil, strange(response, text:sub(1, 200)) end
    return answer, why
end

-- Begins an answer that goes on as a stream: the response, or nil and a failure.
local function take_stream(self, response)
    if response.status == 200 and is_json(response) then return response end
    local _, why = take_all(self, response) -- an answer with the wrong status or type
    return nil, why
end

-- ---- One try ------------------------------------------------------------------------------------

-- A stream as a whole has no limit; its reader limits each message.
local ENDLESS <const> = {body = math.maxinteger}

-- Asks the member at an endpoint, which has so many seconds.
local function try(self, endpoint, path, text, how, token, seconds)
    local what = {url = endpoint .. "/v3/" .. path, body = text, kept = not how.stream,
        connect_time = math.max(0.001, math.min(seconds, how.time)),
        headers = {["content-type"] = "application/json", authorization = token or nil,
            ["grpc-metadata-hasleader"] = how.stream and "true" or nil},
        limits = how.stream and ENDLESS or self.limits,
        timeout = how.stream and seconds or mare.deadline(seconds)}
    local response, message, code, sent = self.http:request(what)
    if response then return (how.stream and take_stream or take_all)(self, response) end
    return nil, unanswered(("%s: %s"):format(endpoint, message), code, sent)
end

-- The token of the user; false if no token is needed; or nil and a failure.
local function authenticate(self, deadline)
    if not self.user then return false end
    if self.token == nil then
        local answer, message, code = self:ask("auth/authenticate",
            {name = self.user, password = self.password},
            {deadline = deadline, again = true, anonymous = true})
        if not answer and not message:find("authentication is not enabled", 1, true) then
            return nil, failure(message, code)
        end
        self.token = answer and type(answer.token) == "string" and answer.token or false
    end
    return self.token
end

-- ---- Until somebody answers ---------------------------------------------------------------------

-- Seconds between two rounds of all members: the first, and the most.
local PAUSE, PAUSE_MOST = 0.02, 0.5

-- Asks the members in turn, each once. Returns the first answer; or nil and the last failure, and
-- whether another round makes sense.
local function round(self, path, text, how)
    local why, hope
    for _ = 1, #self.endpoints do
        local at, token, wrong = self.at, false, nil
        if not how.anonymous then token, wrong = authenticate(self, how.deadline) end
        if token == nil then return nil, wrong, false end
        local left = how.deadline:left()
        local seconds = how.again and math.min(left, how.time) or left
        local answer
        answer, why = try(self, self.endpoints[at], path, text, how, token, seconds)
        if answer then
            how.endpoint = self.endpoints[at]
            return answer
        end
        how.doubtful = how.doubtful or why.unsure
        if why.expired and self.user and not how.anonymous and not how.renewed then
            how.renewed, hope = true, true
            if self.token == token then self.token = nil end
        elseif not why.passing or why.unsure and not how.again then
            return nil, why, false
        elseif self.at == at then -- else another routine has moved on already
            self.at = at % #self.endpoints + 1
        end
        hope = hope or not why.odd
        if how.deadline:left() == 0 then return nil, why, false end
    end
    return nil, why, hope
end

--- Makes a request until there is an answer, or the deadline has passed. Returns what `how.decode`
--- makes of the answer, or the answer; or nil, message, code.
function Client:ask(path, body, how)
    local text, pause = json.encode(body), PAUSE
    how.time = how.time or self.try_time
    while true do
        if self.closed and not how.last then return nil, "the client is closed", "closed" end
        local answer, why, hope = round(self, path, text, how)
        if answer and not how.decode then return answer end
        if answer then
            local results = table.pack(pcall(how.decode, answer))
            if results[1] then return table.unpack(results, 2, results.n) end
            why = failure("an answer that makes no sense: " .. tostring(results[2]), "badmsg",
                {unsure = true})
        end
        if why.unsure and not how.again and why.code ~= "cancelled" then
            return nil, ("no good answer came, and it may have been done (%s)"):format(why.message),
                "unsure"
        elseif not hope then
            return nil, why.message, why.code
        end
        local _, message, code = mare.sleep(math.min(pause, how.deadline:left()))
        if code then return nil, message, code end
        if how.deadline:left() == 0 then return nil, why.message, why.code end
        pause, how.time = math.min(2 * pause, PAUSE_MOST), 2 * how.time
    end
end

--- Whether the member at an endpoint still answers, after a long silence.
function Client:is_there(endpoint)
    return self.http:get(endpoint .. "/version", mare.deadline(self.try_time)) == 200
end

--- The deadline of a call: from its timeout, or from the client's.
function Client:deadline(timeout)
    if type(timeout) == "userdata" then return timeout end
    return mare.deadline(timeout or self.timeout)
end

--- Makes a client. The options were checked.
function Client.new(endpoints, options)
    local most = options.most or 16 << 20
    return setmetatable({
        endpoints = endpoints, options = options,
        at = math.random(#endpoints), -- so that not all clients ask the same member
        timeout = options.timeout or 5,
        try_time = options.try_time or 1,
        silence = options.silence or 3,
        ttl = options.ttl or 10,
        prefix = options.prefix or "mare/",
        user = options.user, password = options.password,
        most = most,
        limits = {body = most},
        http = http.client {tls = options.tls, limits = {body = most}},
        open = {}, -- watches and leases, which are closed with the client
    }, Client)
end

return Client
