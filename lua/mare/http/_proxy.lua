-- SPDX-License-Identifier: MIT
-- Connections through an HTTP proxy: what is not secure is asked of the proxy itself, with the
-- whole URL; for the rest it is asked to connect (CONNECT), and TLS goes through it.
local net, raw = require "mare.net", require "mare._http"
local shared = require "mare.http._shared"
local http = shared.http

local proxy = {}

local function decode(text)
    return (text:gsub("%%(%x%x)", function(hex) return string.char(tonumber(hex, 16)) end))
end

-- Where a proxy is: of "http://host:port", maybe with "user:password@" before the host; nil: it is
-- no such URL.
local function locate(url)
    local scheme, user, rest = url:match "^(http://)([^/@]*)@(.*)$"
    local place = http.locate(scheme and scheme .. rest or url)
    if not place or place.scheme ~= "http" or place.target ~= "/" then return nil end
    if user then place.credentials = "Basic " .. raw.encode64(decode(user)) end
    return place
end

-- Asks the proxy for a way to a place; true, or nil, message, code.
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

--- The way by a proxy: `open(place, timeout, tls)`, a stream to a place, and `ask(place, headers)`,
--- the target and the headers of a request to one that is not secure. nil: it is no URL of a proxy.
function proxy.way(url)
    local way = locate(url)
    return way and {
        open = function(...) return open(way, ...) end,
        ask = function(place, headers)
            local more = {["proxy-authorization"] = way.credentials}
            for name, value in pairs(headers or {}) do more[name] = value end
            return ("http://%s%s"):format(place.name, place.target), more
        end,
    }
end

return proxy
