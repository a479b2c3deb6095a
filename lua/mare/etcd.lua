-- SPDX-License-Identifier: MIT
-- A client of etcd 3, over its JSON gateway. Keys and transactions are in etcd/_keys.lua, watches
-- in _watch.lua, leases in _lease.lua, locks and elections in _lock.lua and _election.lua. How a
-- request finds its way is in _client.lua.
local checks, http = require "mare._check", require "mare.http"
local Client = require "mare.etcd._client"
require "mare.etcd._keys"
require "mare.etcd._watch"
require "mare.etcd._lease"
require "mare.etcd._lock"
require "mare.etcd._election"

local etcd = {}

local options_of_clients = checks.set("timeout", "try_time", "silence", "ttl", "prefix", "user",
    "password", "tls", "most")

-- Checks the endpoints: a URL without a path, or a list of them.
local function check_endpoints(given)
    local endpoints = type(given) == "string" and {given} or given
    checks.argument("client", endpoints, 1, "table", 4)
    local good = {}
    for i, url in ipairs(endpoints) do
        local place = type(url) == "string" and http.locate(url)
        if not place or place.target ~= "/" or not place.scheme:find "^http" then
            error(("bad argument #1 to 'client' (endpoint %d: http://host:port or " ..
                "https://host:port expected)"):format(i), 3)
        end
        good[i] = place.scheme .. "://" .. place.name
    end
    if #good == 0 then error("bad argument #1 to 'client' (no endpoint)", 3) end
    return good
end

--- Makes a client of the cluster with these endpoints: a URL, or a list. Sends nothing yet.
function etcd.client(endpoints, options)
    endpoints, options = check_endpoints(endpoints), options or {}
    checks.options("client", options, 2, options_of_clients)
    local function option(name, good, expected)
        checks.option("client", options, 2, name, good, expected, 4)
    end
    for _, name in ipairs {"timeout", "try_time", "silence", "ttl"} do
        option(name, checks.span, "seconds above 0")
    end
    option("most", function(value) return math.type(value) == "integer" and value > 0 end,
        "a number of bytes")
    for _, name in ipairs {"prefix", "user", "password"} do option(name, "string", "a string") end
    if (options.user == nil) ~= (options.password == nil) then
        error("bad argument #2 to 'client' (a user and a password, or none of both)", 2)
    end
    return Client.new(endpoints, options)
end

--- Makes any request to the gateway: a path below /v3/, and a table. Returns the answer as a table;
--- or nil, message, code.
function Client:call(path, request, options)
    checks.argument("call", path, 1, "string")
    if request ~= nil then checks.argument("call", request, 2, "table") end
    options = Client.check("call", 3, options, checks.set("timeout", "again"))
    checks.option("call", options, 3, "again", "boolean", "true or false", 3)
    return self:ask(path, request or {}, {deadline = self:deadline(options.timeout),
        again = options.again})
end

--- Ends the watches and leases of this client, and with the leases its locks; then closes its
--- connections.
function Client:close(timeout)
    if self.closed then return false end
    local deadline, things = self:deadline(timeout), {}
    for thing in pairs(self.open) do things[#things + 1] = thing end
    for _, thing in ipairs(things) do
        if coroutine.isyieldable() or not thing.abandon then
            thing:close(deadline)
        else
            thing:abandon()
        end
    end
    self.closed = true
    self.http:close()
    return true
end

Client.__close = function(self) self:close() end

return etcd
