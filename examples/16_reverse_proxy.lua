-- SPDX-License-Identifier: MIT
-- A reverse proxy. `mare examples/16_reverse_proxy.lua 8080 http://127.0.0.1:9000` serves on port
-- 8080 what the server behind it has; a third argument is how many seconds that one may take.
--
-- Bodies go through in parts, both ways: who reads slowly makes the other side wait, and nothing is
-- collected here. WebSockets go through, too.
local mare, net, http = require "mare", require "mare.net", require "mare.http"
local websocket = require "mare.websocket"

local LIMITS = {body = 1 << 40} -- the server behind may have other ideas

-- Fields that are about one connection (RFC 9110 section 7.6.1), and those that are made anew.
local own = {}
for name in ([[connection keep-alive proxy-connection proxy-authenticate proxy-authorization te
    trailer transfer-encoding upgrade host content-length expect date]]):gmatch "%S+" do
    own[name] = true
end

local function passed_on(headers)
    local kept, named = {}, {}
    for name in (headers.connection or ""):gmatch "[^,%s]+" do named[name:lower()] = true end
    for name, value in pairs(headers) do
        if not own[name] and not named[name] and not name:find "^sec%-websocket%-" then
            kept[name] = value
        end
    end
    return kept
end

local function asked(request)
    local headers, before = passed_on(request.headers), request.headers["x-forwarded-for"]
    local client = request.stream:peer()
    headers["x-forwarded-for"] = before and before .. ", " .. client or client
    headers["x-forwarded-host"] = request.host
    return headers
end

local function failed(message, code)
    local status = code == "timeout" and 504 or 502
    return {status = status, body = ("%d: the server behind: %s\n"):format(status, message)}
end

-- What one side says, to the other; and how it ends.
local function relay(from, to)
    local data, kind, _, number, reason
    repeat
        data, kind, _, number, reason = from:receive()
        local send = kind == "binary" and to.sendbinary or to.send
    until not data or not send(to, data)
    to:close(number == 1006 and 1014 or number, reason)
end

local function pass_websocket(request, behind, seconds)
    local offered = {}
    for name in (request.headers["sec-websocket-protocol"] or ""):gmatch "[^,%s]+" do
        offered[#offered + 1] = name
    end
    local there <close>, message, code, status = websocket.connect(
        behind:gsub("^http", "ws") .. request.target,
        {headers = asked(request), protocols = offered[1] and offered, timeout = seconds})
    if not there then return status and {status = status} or failed(message, code) end
    local here <close> = websocket.accept(request, {origin = false, protocols = {there.protocol}})
    if not here then return end
    local backwards = mare.go(relay, there, here)
    relay(here, there)
    backwards:join()
end

local function pass(request, behind, client, seconds)
    if (request.upgrade or ""):lower() == "websocket" then
        return pass_websocket(request, behind, seconds)
    end
    local response, message, code = client:request {
        url = behind .. request.target, method = request.method, headers = asked(request),
        body = request.has_body and request or nil,
        length = request.length, timeout = seconds, limits = LIMITS,
    }
    if not response then return failed(message, code) end
    return {
        status = response.status, headers = passed_on(response.headers),
        body = response, -- which is closed then, also if the client has gone half way
        length = response.length or tonumber(response.headers["content-length"])
            or not response.has_body and 0 or nil,
    }
end

local function proxy(port, behind, seconds)
    local listener = assert(net.listen("127.0.0.1", port))
    local client = http.client {limits = LIMITS}
    local routine = mare.go(http.serve, listener, function(request)
        return pass(request, behind, client, seconds or 30)
    end, {limits = LIMITS})
    local function stop()
        listener:close()
        client:close()
    end
    return "http://127.0.0.1:" .. select(2, listener:address()), routine, stop
end

if arg[1] then
    local url, routine = proxy(tonumber(arg[1]), arg[2]:gsub("/$", ""), tonumber(arg[3]))
    print(url)
    io.stdout:flush()
    return routine:join()
end

-- Without arguments: before a server of our own, one that never answers, and none.
local listener, never = assert(net.listen("127.0.0.1", 0)), mare.channel()
mare.go(http.serve, listener, function(request)
    if request.path == "/slow" then
        never:receive()
    elseif request.path == "/socket" then
        local w <close> = websocket.accept(request)
        for text in w:messages() do w:send(text:upper()) end
        return
    end
    return ("%s %s for %s (%s)\n"):format(request.method, request.target,
        request.headers["x-forwarded-for"], request:text())
end)
local behind = "http://127.0.0.1:" .. select(2, listener:address())

local url, _, stop_patient = proxy(0, behind)
local _, text = http.get(url .. "/page?x=1")
io.write(text)
io.write(http.request {url = url .. "/form", body = "a body"}:text())
local w = assert(websocket.connect(url:gsub("^http", "ws") .. "/socket"))
w:send "through both"
print(w:receive(10))
w:close()

local hurried_url, _, stop_hurried = proxy(0, behind, 0.1)
print("slow:", (http.get(hurried_url .. "/slow")))
local nowhere_url, _, stop_nowhere = proxy(0, "http://127.0.0.1:1")
print("gone:", (http.get(nowhere_url .. "/page")))

never:close()
listener:close()
for _, stop in ipairs {stop_patient, stop_hurried, stop_nowhere} do stop() end
