-- SPDX-License-Identifier: MIT
-- What a client does beyond one request and its answer, if its options say so: it sends and keeps
-- cookies, decompresses gzip, repeats what can be repeated, and follows redirections.
local mare, zip = require "mare", require "mare._zip"
local shared = require "mare.http._shared"
local http = shared.http

local follow = {}

-- Failures and statuses that may go away on another try.
local passing = {closed = true, timeout = true, refused = true, unreachable = true, io = true}
local overloaded = {[429] = true, [502] = true, [503] = true, [504] = true}

-- The longest wait, in seconds, if the server says when to come back.
local wait_most = 30

-- ---- Before -------------------------------------------------------------------------------------

local function has_header(headers, wanted)
    for name in pairs(headers) do
        if type(name) == "string" and name:lower() == wanted then return true end
    end
    return false
end

--- Adds the client's headers to a request. A value that cannot be a request is returned unchanged;
--- the check of requests refuses it.
function follow.dress(client, what)
    if type(what) == "string" then what = {url = what} end
    if type(what) ~= "table" or what.headers ~= nil and type(what.headers) ~= "table" then
        return what
    end
    local dressed, headers = {}, {}
    for key, value in pairs(what) do dressed[key] = value end
    for name, value in pairs(what.headers or {}) do headers[name] = value end
    local place = type(what.url) == "string" and http.locate(what.url)
    local cookies = client.jar and place and not has_header(headers, "cookie")
        and client.jar:header(place)
    if cookies then headers.cookie = cookies end
    if client.gzip and not has_header(headers, "accept-encoding") then
        headers["accept-encoding"] = "gzip"
    end
    dressed.headers = headers
    return dressed
end

-- ---- After --------------------------------------------------------------------------------------

--- Makes the body of a compressed response readable, up to so many bytes.
local function undo(response, most)
    local coding = (response.headers["content-encoding"] or ""):lower()
    if coding ~= "gzip" and coding ~= "x-gzip" or not response.next_part then return end
    response.headers["content-encoding"], response.headers["content-length"] = nil, nil
    response.length = nil
    local inner, inflater, over = response.next_part, zip.inflater "gzip", false
    local function finish(...)
        inflater:close()
        response.next_part = function() return nil end
        return ...
    end
    response.next_part = function(own_time)
        while true do
            local part, message, code = inner(own_time)
            if own_time and code == "timeout" then return nil, message, code end
            if not part then
                if not message and not over then
                    message, code = "the compressed data was cut short", "badmsg"
                end
                return finish(nil, message, code)
            end
            local text
            text, over, code = inflater:write(part, "more", most)
            if not text then
                response:close()
                return finish(nil, over, code)
            end
            most = most - #text
            if text ~= "" then return text end
        end
    end
end

-- Reads the rest of an answer that nobody wants, if it is short, so that its connection can be used
-- again.
local function drain(response)
    for _ = 1, 8 do
        if not response:read() then return end
    end
    response:close()
end

-- ---- Again --------------------------------------------------------------------------------------

-- Whether a request can be sent again as it was: its body was not used up.
local function is_whole(what)
    local kind = type(what.body)
    return kind == "nil" or kind == "string"
end

-- How long to wait before the n-th try; nil: another try is useless.
local function pause(client, what, wanted, n, response, code)
    if n > client.retries or not is_whole(what) or not shared.idempotent[wanted.method] then
        return nil
    end
    if not response and not passing[code] or response and not overloaded[response.status] then
        return nil
    end
    local asked = response and tonumber((response.headers["retry-after"] or ""):match "^%d+$")
    if asked and asked > wait_most then return nil end
    local seconds = asked or http.retry_time * 2 ^ (n - 1) * (0.5 + math.random())
    if wanted.deadline and wanted.deadline:left() <= seconds then return nil end
    return seconds
end

-- Sends a request, and repeats it if that is safe and wanted.
local function send(client, what, wanted, prepare, perform)
    local n, sent = 1, nil
    while true do
        local response, message, code, got = perform(client, wanted)
        local seconds = pause(client, what, wanted, n, response, code)
        sent = sent or got
        if not seconds then return response, message, code, sent end
        if response then drain(response) end
        local _, why, how = mare.sleep(seconds)
        if how then return nil, why, how end
        n = n + 1
        wanted, message, code = prepare(what)
        if not wanted then return nil, message, code end
    end
end

-- ---- Elsewhere ----------------------------------------------------------------------------------

-- The path with "." and ".." resolved (RFC 3986 section 5.2.4).
local function clean(path)
    local pieces, last = {}, nil
    for piece in path:gmatch "/([^/]*)" do
        last = piece
        if piece == ".." then
            pieces[#pieces] = nil
        elseif piece ~= "." then
            pieces[#pieces + 1] = piece
        end
    end
    if last == "." or last == ".." then pieces[#pieces + 1] = "" end
    return "/" .. table.concat(pieces, "/")
end

--- The URL that a reference means at a place (RFC 3986 section 5.2).
function follow.resolve(place, reference)
    reference = reference:match "^[^#]*"
    local origin = place.scheme .. "://" .. place.name
    if reference:find "^%a[%w+.-]*:" then return reference end
    if reference:find "^//" then return place.scheme .. ":" .. reference end
    if reference == "" then return origin .. place.target end
    local path = place.target:match "^[^?]*"
    if reference:find "^%?" then return origin .. path .. reference end
    local own, query = reference:match "^([^?]*)(.*)$"
    if own:sub(1, 1) ~= "/" then own = path:match "^(.*/)" .. own end
    return origin .. clean(own) .. query
end

local secret = {authorization = true, cookie = true, ["proxy-authorization"] = true}
local about_body = {["content-type"] = true, ["content-encoding"] = true,
    ["content-language"] = true, ["content-location"] = true}

-- The headers, except those named in a set.
local function without(headers, names)
    local kept = {}
    for name, value in pairs(headers or {}) do
        if not (type(name) == "string" and names[name:lower()]) then kept[name] = value end
    end
    return kept
end

-- The request that a redirection asks for. nil: it cannot be followed; with a message and a code if
-- it must not be.
local function next_request(what, wanted, response)
    local status, location = response.status, response.headers.location
    if not (status == 301 or status == 302 or status == 303 or status == 307 or status == 308)
        or not location then
        return nil
    end
    local url = follow.resolve(wanted.place, location)
    local place = http.locate(url)
    if not place or not place.scheme:find "^http" then
        return nil, "a redirection that leads nowhere: " .. location, "badmsg"
    elseif wanted.place.secure and not place.secure then
        return nil, "a redirection from https to http", "denied"
    end
    local new, method = {}, wanted.method
    for key, value in pairs(what) do new[key] = value end
    new.url, new.method = url, method
    if status == 303 and method ~= "HEAD" or status <= 302 and method == "POST" then
        new.method, new.body, new.file, new.length = "GET", nil, nil, nil
        new.headers = without(new.headers, about_body)
    elseif not is_whole(what) then
        return nil -- the body was used up
    end
    if place.scheme ~= wanted.place.scheme or place.name ~= wanted.place.name then
        new.headers, new.tls = without(new.headers, secret), nil
    end
    return new
end

--- Sends the request `wanted`, and does what the client's options say. `given` is what the program
--- gave; `what` is that with the client's headers; `wanted` was prepared from `what`.
--- `prepare(what)` prepares another request, `perform(client, wanted)` sends one.
function follow.run(client, given, what, wanted, prepare, perform)
    local count = 0
    if type(given) == "string" then given = {url = given} end
    while true do
        local response, message, code, sent = send(client, what, wanted, prepare, perform)
        if not response then return nil, message, code, sent end
        if client.jar then client.jar:take(wanted.place, response.headers) end
        if client.gzip then undo(response, (wanted.limits or {}).body or shared.body_most) end
        local new
        if client.redirects > 0 then new, message, code = next_request(given, wanted, response) end
        if not new and not code then
            response.url = wanted.place.scheme .. "://" .. wanted.place.name .. wanted.place.target
            return response
        end
        drain(response)
        if code then return nil, message, code end
        count = count + 1
        if count > client.redirects then return nil, "too many redirections", "badmsg" end
        given, what = new, follow.dress(client, new)
        wanted, message, code = prepare(what)
        if not wanted then return nil, message, code end
    end
end

return follow
