-- SPDX-License-Identifier: MIT
-- Connections through an HTTP proxy. For http the proxy itself is asked, with the whole URL. For
-- https it is asked to connect (CONNECT), and TLS goes through that connection.
local net, raw = require "mare.net", require "mare._http"
local shared, unescape = require "mare.http._shared", require "mare.http._text".unescape
local http = shared.http

local proxy = {}

-- The place of a proxy, from "http://host:port", perhaps with "user:password@" before the host;
-- nil: this is no such URL.
local function locate(url)
    local scheme, user, rest = url:match "^(http://)([^/@]*)@(.*)$"
    local place = http.locate(scheme and scheme .. rest or url)
    if not place or place.scheme ~= "http" or place.target ~= "/" then return nil end
    if user then place.credentials = "Basic " .. raw.encode64(unescape(user)) end
    return place
end

-- Asks the proxy to connect to a place: true, or nil, message, code.
local function tunnel(stream, way, place, timeout)
    local target = (place.host:find ":" and "[%s]:%d" or "%s:%d"):format(place.host, place.port)
    local head = raw.request("CONNECT", target, target, way.credentials
        and {["proxy-authorization"] = way.credentials}, nil, true, false)
    local ok, message, code = stream:write(head)
    if not ok then return nil, message, code end
    local response
    response, message, code = http.read_response(stream, "CONNECT", timeout)
    if not response then return nil, message, code end
    if response.status // 100 == 2 then return true end
    return nil, ("the proxy answers %d"):format(response.status), "refused"
end

-- A stream to a place through a proxy, as http.open; or nil, message, code.
local function open(way, place, timeout, tls)
    local stream, message, code = net.connect(way.host, way.port, timeout)
    if not stream or not place.secure then return stream, message, code end
    stream:timeout(shared.seconds_of(timeout))
    local ok
    ok, message, code = tunnel(stream, way, place, timeout)
    if not ok then
        stream:close()
        return nil, message, code
    end
    local options = {name = place.host}
    if type(tls) == "userdata" then options.context = tls end
    for key, value in pairs(type(tls) == "table" and tls or {}) do options[key] = value end
    return require "mare.tls".wrap(stream, options, timeout)
end

-- The headers of a program, with the proxy's credentials unless it has its own. If it is not a
-- table, the check of requests refuses it later.
local function with_credentials(headers, credentials)
    if not credentials or headers ~= nil and type(headers) ~= "table" then return headers end
    local more = {}
    for name, value in pairs(headers or {}) do
        if type(name) == "string" and name:lower() == "proxy-authorization" then return headers end
        more[name] = value
    end
    more["proxy-authorization"] = credentials
    return more
end

--- How to use a proxy: `open(place, timeout, tls)` returns a stream to a place; `ask(place,
--- headers)` returns the target and the headers of an http request. nil: not the URL of a proxy.
function proxy.way(url)
    local way = locate(url)
    return way and {
        open = function(...) return open(way, ...) end,
        ask = function(place, headers)
            local target = ("http://%s%s"):format(place.name, place.target)
            return target, with_credentials(headers, way.credentials)
        end,
    }
end

return proxy
