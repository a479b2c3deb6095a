-- SPDX-License-Identifier: MIT
-- What comes before a WebSocket: the options of both sides, and their handshake over HTTP (RFC 6455
-- section 4). What is agreed on becomes a WebSocket in websocket.lua.
local http, raw = require "mare.http", require "mare._websocket"
local checks, is_token = require "mare._check", require "mare.http._shared".is_token

local handshake = {}

-- Those of each side.
local known = {
    accept = checks.set("protocols", "origin", "headers", "limit", "ping_time", "close_time",
        "compress"),
    connect = checks.set("protocols", "headers", "timeout", "limit", "ping_time", "close_time",
        "tls", "compress"),
}

local function is_time(value) return type(value) == "number" and value >= 0 end

-- What each option can be, and in words.
local possible = {
    compress = {"boolean", "true or false"},
    headers = {"table", "a table"},
    close_time = {is_time, "a number of seconds"},
    ping_time = {function(value) return value == false or is_time(value) end,
        "a number of seconds, or false"},
    timeout = {function(value) return is_time(value) or type(value) == "userdata" end,
        "seconds or a deadline"},
    limit = {function(value) return (math.tointeger(value) or 0) > 0 end, "a positive integer"},
    origin = {function(value)
        return value == false or type(value) == "table" or type(value) == "function"
    end, "a list, a function or false"},
    protocols = {function(value)
        if type(value) ~= "table" then return false end
        for _, name in ipairs(value) do
            if type(name) ~= "string" or not is_token(name) then return false end
        end
        return true
    end, "a list of names"},
}

--- The table of options that `accept` or `connect` was given, checked, or an empty one.
function handshake.options(name, options)
    if options == nil then return {} end
    checks.argument(name, options, 2, "table", 4)
    checks.options(name, options, 2, known[name], 4)
    for key, what in pairs(possible) do
        checks.option(name, options, 2, key, what[1], what[2], 4)
    end
    return options
end

--- The headers of a program, with an extension.
function handshake.headers(headers, extension)
    if not extension then return headers end
    local more = {["sec-websocket-extensions"] = extension}
    for name, value in pairs(headers or {}) do more[name] = value end
    return more
end

--- The first protocol of ours that the client offers.
function handshake.protocol(request, ours)
    local offered = {}
    for name in (request.headers["sec-websocket-protocol"] or ""):gmatch "[^,%s]+" do
        offered[name] = true
    end
    for _, name in ipairs(ours or {}) do
        if offered[name] then return name end
    end
end

--- Whether a page may ask. Browsers send the origin of the page, and allow all pages to ask. So by
--- default the page must come from this host. Programs other than browsers send no origin.
function handshake.is_welcome(request, allowed)
    local origin = request.headers.origin
    if allowed == false or not origin then return true end
    if type(allowed) == "function" then return allowed(origin, request) end
    for _, one in ipairs(allowed or {}) do
        if one == origin then return true end
    end
    local host = origin:match "^%a[%w+.-]*://([^/]+)$"
    return not allowed and host ~= nil and host:lower() == (request.host or ""):lower()
end

local refusals = {
    [400] = "not a WebSocket handshake",
    [403] = "not from that origin",
    [405] = "a WebSocket handshake is a GET",
    [426] = "a WebSocket handshake of version 13 was expected here",
}

--- Answers a request that is no handshake, or not welcome: nil, message, code, status.
function handshake.refuse(request, status)
    local headers = {["content-type"] = "text/plain"}
    if status == 405 then headers.allow = "GET" end
    if status == 426 then headers["sec-websocket-version"] = "13" end
    request:answer {status = status, headers = headers, body = refusals[status] .. "\n",
        upgrade = status == 426 and "websocket" or nil}
    return nil, refusals[status], status == 403 and "denied" or "badmsg", status
end

--- Asks, and reads the answer: its head, or nil, message, code and perhaps its status.
function handshake.ask(stream, head, key, protocols, deadline, compress)
    local ok, message, code = stream:writewithin(deadline, head)
    if not ok then return nil, message, code end
    local response
    response, message, code = http.read_response(stream, "GET", deadline:left())
    if not response then return nil, message, code end
    if response.status ~= 101 then
        return nil, ("the server answers %d %s"):format(response.status, response.reason or ""),
            "denied", response.status
    end
    if compress then
        local agreed = response.headers["sec-websocket-extensions"]
        response.deflates = require "mare._deflate".check(agreed)
        if response.deflates then response.headers["sec-websocket-extensions"] = nil end
    end
    local wrong = raw.check_response(response, key, protocols)
    if wrong then return nil, wrong, "badmsg" end
    return response
end

return handshake
