-- SPDX-License-Identifier: MIT
-- HTTP/2: a hundred requests at once on one connection, and a body that goes both ways at the same
-- time. Client and server agree on it by themselves; neither the handler nor who asks does anything
-- that HTTP/1.1 would have otherwise.
local mare, tls, http = require "mare", require "mare.tls", require "mare.http"

local connections, seen = 0, {}
local all_here = mare.channel()
local waiting = 0

local function handler(request)
    if not seen[request.stream] then
        seen[request.stream] = true
        connections = connections + 1
    end
    if request.path == "/shout" then -- part after part, as they come
        return {body = function()
            local part, message, code = request:read()
            return part and part:upper(), message, code
        end}
    elseif request.path:find "^/together" then -- none is answered before all are there
        waiting = waiting + 1
        if waiting == 100 then all_here:close() end
        all_here:receive()
    end
    return request.http2 and "by HTTP/2" or "by HTTP/1.1"
end

local certificate, key = assert(tls.selfsigned "localhost")
local listener = assert(tls.listen("localhost", 0, {certificate = certificate, key = key}))
local serving = mare.go(http.serve, listener, handler, {end_time = 0.1})
local base = "https://localhost:" .. select(2, listener:address())
local client <close> = http.client {tls = {authorities = certificate}}

local _, answer = client:get(base .. "/")
print("one", answer)

local asking = {}
for i = 1, 100 do asking[i] = mare.go(client.get, client, base .. "/together/" .. i) end
local good = 0
for _, routine in ipairs(asking) do
    local _, status = routine:join()
    if status == 200 then good = good + 1 end
end
print(good .. " at once", connections .. " connection")

-- The second word is sent when the answer to the first has come.
local words, heard = mare.channel(1), {}
words:send "ebb "
local response = assert(client:request {url = base .. "/shout", body = function()
    return (words:receive())
end})
heard[1] = response:read()
words:send "and flow"
heard[2] = response:read()
words:close()
print(table.concat(heard), response:read())

-- Another client need not speak it.
local old <close> = http.client {tls = {authorities = certificate}, http2 = false}
_, answer = old:get(base .. "/")
print("another", answer)

-- The client is told that the server ends, and asks no more there.
listener:close()
print(select(4, serving:join()))
