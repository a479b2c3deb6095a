-- SPDX-License-Identifier: MIT
-- A client for the web as it is: it follows redirections, keeps cookies, asks for gzip, and tries
-- again what can be repeated. It reads a large answer member by member, as it comes.
--
--   build/mare examples/27_client.lua
local mare, net, http, json = require "mare", require "mare.net", require "mare.http",
    require "mare.json"

-- A server that makes it difficult.
local tries = 0
local function handler(request)
    if request.path == "/tides" then
        return {status = 302, headers = {location = "/login?back=/v2/tides"}}
    elseif request.path == "/login" then
        return {status = 303, headers = {location = request.query:match "back=(.*)",
            ["set-cookie"] = "session=7; Path=/"}}
    end
    tries = tries + 1
    if tries == 1 then return {status = 503, headers = {["retry-after"] = 0}} end
    local station = 0
    return {headers = {["content-type"] = "application/json"}, body = function()
        station = station + 1
        if station > 1000 then return nil end
        return (station == 1 and "[" or ",") .. json.encode({cookie = request.headers.cookie,
            station = station}) .. (station == 1000 and "]" or "")
    end}
end
local listener = assert(net.listen("127.0.0.1", 0))
mare.go(http.serve, listener, require "mare.http.gzip".answers()(handler))

local client <close> = http.client {redirects = 5, retries = 3, cookies = true, gzip = true}
local response = assert(client:request("http://127.0.0.1:" .. select(2, listener:address())
    .. "/tides"))
local count, last = 0, nil
for tide in json.values(response, {each = true}) do count, last = count + 1, tide end
print(response.status, response.url:match "%d(/.*)", tries)
print(count, last.station, last.cookie)
listener:close()
