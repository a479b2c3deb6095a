-- SPDX-License-Identifier: MIT
-- Keys, ranges of keys, and transactions.
local mare, json, checks = require "mare", require "mare.json", require "mare._check"
local Client = require "mare.etcd._client"
local encode, bytes, int, list_of = Client.encode, Client.bytes, Client.int, Client.list_of

-- ---- Ranges -------------------------------------------------------------------------------------

-- The first key after all keys with the prefix; "\0" stands for the end of all keys.
local function after_prefix(prefix)
    local kept = prefix:match "^(.-)\xff*$"
    if kept == "" then return "\0" end
    return kept:sub(1, -2) .. string.char(kept:byte(-1) + 1)
end

--- The fields that name keys in a request: those from `key` up to `to`, or with the prefix `key`.
function Client.range_of(key, to, prefix)
    if to == nil and not prefix then return {key = encode(key)} end
    return {key = encode(key == "" and "\0" or key), range_end = encode(to or after_prefix(key))}
end

local orders = {key = "KEY", created = "CREATE", modified = "MOD", version = "VERSION",
    value = "VALUE"}

local function is_order(value) return orders[value] ~= nil end
local function is_revision(value) return math.type(value) == "integer" and value > 0 end
local function is_time(value) return type(value) == "userdata" or checks.span(value) end

--- The types of the options of this module, by name.
local kinds = {
    timeout = {is_time, "seconds or a deadline"}, to = {"string", "a string"},
    revision = {is_revision, "a revision"}, limit = {is_revision, "an integer above 0"},
    page = {is_revision, "an integer above 0"}, order = {is_order, "the name of an order"},
    keys_only = {"boolean", "true or false"}, descending = {"boolean", "true or false"},
    serializable = {"boolean", "true or false"}, previous = {"boolean", "true or false"},
    prefix = {"boolean", "true or false"},
}

--- Checks the options of a call. `allowed`: their names.
function Client.check(name, index, options, allowed, level)
    if options == nil then return {} end
    level = (level or 3) + 1
    checks.options(name, options, index, allowed, level)
    for key in pairs(options) do
        local kind = kinds[key]
        if kind then checks.option(name, options, index, key, kind[1], kind[2], level) end
    end
    return options
end

local check = Client.check

-- The fields of a request for a range, except the keys.
local function range_request(key, options, prefix)
    local request = Client.range_of(key, options.to, prefix)
    request.revision, request.limit = options.revision, options.limit
    request.serializable, request.keys_only = options.serializable, options.keys_only
    if options.order or options.descending then
        request.sort_target = orders[options.order or "key"]
        request.sort_order = options.descending and "DESCEND" or "ASCEND"
    end
    return request
end

--- A key with its value, for programs.
function Client.item_of(kv)
    return {key = bytes(kv.key), value = bytes(kv.value), created = int(kv.create_revision),
        modified = int(kv.mod_revision), version = int(kv.version),
        lease = kv.lease and int(kv.lease) or nil}
end

local function items_of(kvs, keys_only)
    local items = {}
    for i, kv in ipairs(list_of(kvs)) do
        items[i] = Client.item_of(kv)
        if keys_only then items[i].value = nil end
    end
    return items
end

local function revision_of(answer) return int(list_of(answer.header).revision) end

-- ---- Reading ------------------------------------------------------------------------------------

local get_options = checks.set("revision", "serializable", "timeout")

local function ask_range(self, request, deadline, decode)
    return self:ask("kv/range", request, {deadline = deadline, again = true, decode = decode})
end

--- The value of a key, and all that is known of the key; or nil, message, code: "noname" if there
--- is no such key.
function Client:get(key, options)
    checks.argument("get", key, 1, "string")
    options = check("get", 2, options, get_options)
    local item, message, code = ask_range(self, range_request(key, options),
        self:deadline(options.timeout), function(answer)
            local kv = list_of(answer.kvs)[1]
            return kv and Client.item_of(kv) or false
        end)
    if item then return item.value, item end
    if code then return nil, message, code end
    return nil, ("there is no key '%s'"):format(key), "noname"
end

local list_options = checks.set("to", "limit", "revision", "keys_only", "order", "descending",
    "serializable", "page", "timeout")

-- Keys that are asked for at a time.
local PAGE = 1000

-- The next page that `state` asks for: a list, or nil, message, code. All pages are of one
-- revision. Pages work only in the order of keys: in another order a request cannot say where to go
-- on.
local function next_page(self, state)
    local options, request = state.options, state.request
    local page = options.page or PAGE
    if not state.whole then request.limit = math.min(page, state.left or page) end
    local items, more, revision = ask_range(self, request, self:deadline(options.timeout),
        function(answer)
            return items_of(answer.kvs, options.keys_only), answer.more == true, revision_of(answer)
        end)
    if not items then return nil, more, revision end
    state.revision = state.revision or options.revision or revision
    state.left = state.left and state.left - #items
    state.over = state.whole or not more or state.left == 0 or #items == 0
    request.revision = state.revision
    local last = items[#items]
    if last and options.descending then
        request.range_end = encode(last.key)
    elseif last then
        request.key = encode(last.key .. "\0")
    end
    return items
end

local function pages_of(prefix, options)
    if options.timeout and type(options.timeout) ~= "userdata" then -- one timeout for all pages
        local copy = {}
        for key, value in pairs(options) do copy[key] = value end
        copy.timeout = mare.deadline(options.timeout)
        options = copy
    end
    return {options = options, request = range_request(prefix, options, true),
        left = options.limit, whole = options.order and options.order ~= "key"}
end

--- The keys with a prefix, or from one up to the option `to`: a list, and its revision; or nil,
--- message, code.
function Client:list(prefix, options)
    checks.argument("list", prefix, 1, "string")
    local state = pages_of(prefix, check("list", 2, options, list_options))
    local all = {}
    repeat
        local items, message, code = next_page(self, state)
        if not items then return nil, message, code end
        table.move(items, 1, #items, #all + 1, all)
    until state.over
    return all, state.revision
end

--- An iterator over the same keys, a page at a time. A failure raises an error.
function Client:each(prefix, options)
    checks.argument("each", prefix, 1, "string")
    local state = pages_of(prefix, check("each", 2, options, list_options))
    local items, at = {}, 0
    return function()
        while at >= #items do
            if state.over then return nil end
            local page, message = next_page(self, state)
            if not page then error(message, 2) end
            items, at = page, 0
        end
        at = at + 1
        return items[at]
    end
end

local count_options = checks.set("to", "revision", "serializable", "timeout")

--- The number of these keys.
function Client:count(prefix, options)
    checks.argument("count", prefix, 1, "string")
    options = check("count", 2, options, count_options)
    local request = range_request(prefix, options, true)
    request.count_only = true
    return ask_range(self, request, self:deadline(options.timeout),
        function(answer) return int(answer.count) end)
end

-- ---- Writing ------------------------------------------------------------------------------------

local put_options = checks.set("lease", "previous", "timeout")
local delete_options = checks.set("prefix", "to", "previous", "timeout")

-- The number of a lease, given as a number or an object.
local function lease_number(name, lease)
    if lease == nil or math.type(lease) == "integer" then return lease end
    local number = type(lease) == "table" and lease.number
    return number or error(("bad argument #3 to '%s' (option 'lease' must be a lease)"):format(name)
        , 4)
end

local function put_request(name, key, value, options)
    return {key = encode(key), value = encode(value), prev_kv = options.previous,
        lease = lease_number(name, options.lease)}
end

local function delete_request(key, options)
    local request = Client.range_of(key, options.to, options.prefix)
    request.prev_kv = options.previous
    return request
end

--- Sets the value of a key. Returns the new revision, and with the option `previous` the old key;
--- or nil, message, code.
function Client:put(key, value, options)
    checks.argument("put", key, 1, "string")
    checks.argument("put", value, 2, "string")
    options = check("put", 3, options, put_options)
    local request = put_request("put", key, value, options)
    return self:ask("kv/put", request, {deadline = self:deadline(options.timeout),
        decode = function(answer)
            return revision_of(answer), answer.prev_kv and Client.item_of(answer.prev_kv) or nil
        end})
end

--- Deletes a key, or a range. Returns how many keys there were, the revision, and with the option
--- `previous` the old keys; or nil, message, code.
function Client:delete(key, options)
    checks.argument("delete", key, 1, "string")
    options = check("delete", 2, options, delete_options)
    return self:ask("kv/deleterange", delete_request(key, options), {
        deadline = self:deadline(options.timeout), decode = function(answer)
            return int(answer.deleted), revision_of(answer),
                options.previous and items_of(answer.prev_kvs) or nil
        end})
end

--- Makes the cluster forget all before a revision. Returns true, or nil, message, code.
function Client:compact(revision, options)
    if not is_revision(revision) then checks.argument("compact", nil, 1, "revision") end
    options = check("compact", 2, options, checks.set("timeout"))
    local answer, message, code = self:ask("kv/compaction", {revision = revision},
        {deadline = self:deadline(options.timeout), again = true})
    if answer or code == "compacted" then return true end
    return nil, message, code
end

-- ---- Transactions -------------------------------------------------------------------------------

-- By the word of a comparison: what etcd compares, the field of the value, and how the value is
-- encoded.
local targets = {value = {"VALUE", "value", encode}, version = {"VERSION", "version"},
    created = {"CREATE", "create_revision"}, modified = {"MOD", "mod_revision"},
    lease = {"LEASE", "lease"}}
local operators = {["="] = "EQUAL", ["~="] = "NOT_EQUAL", ["<"] = "LESS", [">"] = "GREATER"}

local function bad(which, i, why, ...)
    error(("bad argument #1 to 'transaction' (%s %d: %s)"):format(which, i, why:format(...)), 5)
end

local function comparison(i, given)
    local key, what, operator, value = table.unpack(given, 1, 4)
    local target = targets[what]
    if type(key) ~= "string" then bad("compare", i, "a key expected") end
    if not target then bad("compare", i, "no target '%s'", tostring(what)) end
    if not operators[operator] then bad("compare", i, "no operator '%s'", tostring(operator)) end
    local good = target[3] and type(value) == "string" or not target[3] and math.type(value)
    if not good then bad("compare", i, "a %s expected", target[3] and "string" or "number") end
    return {key = encode(key), target = target[1], result = operators[operator],
        [target[2]] = target[3] and target[3](value) or value}
end

local in_transaction = {get = checks.set("revision"),
    list = checks.set("to", "limit", "revision", "keys_only", "order", "descending"),
    put = checks.set("lease", "previous"), delete = checks.set("prefix", "to", "previous")}

-- One operation in the gateway's form, and whether it changes nothing.
local function operation(which, i, given)
    local name, key, third, fourth = table.unpack(given, 1, 4)
    local allowed = in_transaction[name]
    if not allowed then bad(which, i, "no operation '%s'", tostring(name)) end
    if type(key) ~= "string" then bad(which, i, "a key expected") end
    local options = third
    if name == "put" then
        if type(third) ~= "string" then bad(which, i, "a value expected") end
        options = fourth
    end
    options = check("transaction", 1, options, allowed, 6)
    if name == "put" then
        return {request_put = put_request("transaction", key, third, options)}, false
    elseif name == "delete" then
        return {request_delete_range = delete_request(key, options)}, false
    end
    return {request_range = range_request(key, options, name == "list")}, true
end

-- The result of an operation.
local function outcome(given, answer)
    local name = given[1]
    if name == "put" then
        local kv = list_of(answer.response_put).prev_kv
        return {previous = kv and Client.item_of(kv) or nil}
    elseif name == "delete" then
        local range = list_of(answer.response_delete_range)
        return {count = int(range.deleted), previous = range.prev_kvs and items_of(range.prev_kvs)}
    end
    local options = given[3] or {}
    local items = items_of(list_of(answer.response_range).kvs, options.keys_only)
    if name == "get" then return items[1] or false end
    return items
end

local transaction_fields = checks.set("compare", "success", "failure", "timeout")

--- In one step: if all in `compare` holds, does what is in `success`, else what is in `failure`.
--- Returns whether it held, a list of the operations' results, and the revision; or nil, message,
--- code.
function Client:transaction(what)
    check("transaction", 1, what or error("bad argument #1 to 'transaction' (table expected)", 2),
        transaction_fields)
    local request, reads = {compare = json.array()}, true
    for i, given in ipairs(what.compare or {}) do request.compare[i] = comparison(i, given) end
    for _, which in ipairs {"success", "failure"} do
        request[which] = json.array()
        for i, given in ipairs(what[which] or {}) do
            local made, harmless = operation(which, i, given)
            request[which][i], reads = made, reads and harmless
        end
    end
    return self:ask("kv/txn", request, {deadline = self:deadline(what.timeout), again = reads,
        decode = function(answer)
            local held, results = answer.succeeded == true, {}
            local given = what[held and "success" or "failure"] or {}
            for i, one in ipairs(list_of(answer.responses)) do
                results[i] = outcome(given[i] or error("an answer too many", 0), one)
            end
            return held, results, revision_of(answer)
        end})
end

return Client
