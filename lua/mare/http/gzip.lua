-- SPDX-License-Identifier: MIT
-- Compresses answers, if the client wants that and it is worth it.
local checks, zip = require "mare._check", require "mare._zip"
local bodies, answers = require "mare.http._body", require "mare.http._answer"

local gzip = {}

local known = checks.set("least", "level", "types")

-- Types that compress well. Images, sound and archives are compressed already.
local usual_types = {["application/json"] = true, ["application/javascript"] = true,
    ["application/xml"] = true, ["application/wasm"] = true, ["image/svg+xml"] = true,
    ["application/x-ndjson"] = true, ["application/manifest+json"] = true,
    ["application/x-javascript"] = true, ["font/ttf"] = true, ["font/otf"] = true}

local function is_usual(kind)
    return usual_types[kind] or kind:find "^text/" and kind ~= "text/event-stream"
        or kind:find "%+json$" or kind:find "%+xml$"
end

--- Whether a request accepts gzip (RFC 9110 section 12.5.3): it names gzip or "*", with a quality
--- above 0, and not below the quality of the uncompressed text if it names that, too.
function gzip.is_wanted(request)
    local quality = {}
    for element in ((request.headers["accept-encoding"] or ""):lower() .. ","):gmatch "([^,]*)," do
        local name, rest = element:match "^%s*([^%s;]+)(.*)$"
        if name then
            local q = rest:match ";%s*q%s*=%s*([%d.]*)"
            quality[name] = q and (tonumber(q) or 0) or 1
        end
    end
    local q = quality.gzip or quality["x-gzip"] or quality["*"] or 0
    return q > 0 and q >= (quality.identity or 0)
end

-- Compresses a body part by part. The client can read each part as soon as it has come. If it has
-- not the length that was said, it fails. The client could not notice, because it does not get that
-- length.
local function compressed_parts(next_part, level, length)
    local deflater = zip.deflater("gzip", level)
    local over, left = false, length
    return function()
        if over then return nil end
        while true do
            local part, message, code = next_part()
            if type(part) == "string" then
                left = left and left - #part
                if left and left < 0 then return nil, "the body is too long", "badmsg" end
                local text = deflater:write(part, "sync")
                if text ~= "" then return text end
            elseif part == nil and (message == nil or code == "closed") then
                if left and left > 0 then return nil, "the body is too short", "badmsg" end
                over = true
                return (deflater:write("", "end"))
            else
                return part, message, code
            end
        end
    end, function() deflater:close() end
end

-- The value and the actual name of a header, in any case.
local function header(headers, wanted)
    if headers[wanted] ~= nil then return headers[wanted], wanted end
    for name, value in pairs(headers) do
        if type(name) == "string" and name:lower() == wanted then return value, name end
    end
    return nil, wanted
end

local function copy_of(values)
    local copy = {}
    for name, value in pairs(values) do copy[name] = value end
    return copy
end

-- A copy of the headers for a compressed body. A strong ETag must not stay: the bytes are others.
local function new_headers(headers)
    local copy = copy_of(headers)
    local tag, tag_name = header(copy, "etag")
    if type(tag) == "string" and tag:sub(1, 2) ~= "W/" then copy[tag_name] = "W/" .. tag end
    copy["content-encoding"] = "gzip"
    return copy
end

-- Adds Vary: what is sent depends on the request, even if it is not compressed.
local function add_vary(headers)
    local vary, name = header(headers, "vary")
    if type(vary) == "table" then vary = table.concat(vary, ", ") end
    if vary == nil then
        headers[name] = "accept-encoding"
    elseif vary ~= "*" and type(vary) == "string"
        and not vary:lower():find("accept-encoding", 1, true) then
        headers[name] = vary .. ", accept-encoding"
    end
end

-- Whether an answer could be compressed at all. If something is wrong with it, the server reports
-- that.
local function is_worth_it(response, least, is_type)
    local headers, status = response.headers or {}, response.status or 200
    if type(headers) ~= "table" or not pcall(answers.parts_of, response) then return false end
    if status < 200 or status == 204 or status == 205 or status == 206 or status == 304
        or response.upgrade then
        return false
    end
    local kind = header(headers, "content-type")
    local caching = header(headers, "cache-control")
    if header(headers, "content-encoding") or header(headers, "content-range")
        or type(caching) == "string" and caching:lower():find("no-transform", 1, true)
        or type(kind) ~= "string" and kind ~= nil then
        return false
    end
    if not is_type((kind or "text/plain"):match("^[^;%s]*"):lower()) then return false end
    local body, given = response.body, bodies.length_of(response.length)
    local length = type(body) == "string" and #body or given
    return not length or length >= least and (given or length) == length
end

-- The answer with a compressed body; nil: the body cannot be read.
local function compress(response, level)
    local new, body, length = copy_of(response), response.body, response.length
    new.headers = new_headers(response.headers or {})
    new.length, new.file = nil, nil
    if type(body) == "string" or type(body) == "number" then
        local deflater = zip.deflater("gzip", level)
        new.body = deflater:write(tostring(body), "end")
        deflater:close()
        return new
    end
    local opened, next_part, _, code = body, nil, nil, nil
    if response.file then opened, _, code = bodies.open_file(response.file) end
    if not code then next_part, length, code = bodies.open(opened, bodies.length_of(length)) end
    if code then
        local _ <close> = response.file and opened or nil
        return nil
    end
    local parts, close = compressed_parts(next_part, level, length)
    new.body = parts
    new.finally = function()
        close()
        local _ <close> = bodies.closer(opened, response.finally)
    end
    return new
end

--- A wrapper for handlers. It compresses their answers if all of this holds: the client wants gzip;
--- the type becomes smaller by it; the body has at least `least` bytes (1,024), or an unknown
--- number; it is not encoded already, and not a part of something. Options: `level`, 1 (fast) to 9
--- (6); `types`, a function of a media type, or a list of them.
function gzip.answers(options)
    options = options or {}
    checks.argument("answers", options, 1, "table")
    checks.options("answers", options, 1, known)
    checks.option("answers", options, 1, "least", function(value)
        return math.type(value) == "integer" and value >= 0
    end, "an integer that is not negative")
    checks.option("answers", options, 1, "level", function(value)
        return math.type(value) == "integer" and value >= 1 and value <= 9
    end, "an integer from 1 to 9")
    checks.option("answers", options, 1, "types", function(value)
        return type(value) == "function" or type(value) == "table"
    end, "a function or a list")
    local least, level = options.least or 1024, options.level or 6
    local is_type = options.types or is_usual
    if type(is_type) == "table" then
        local set = checks.set(table.unpack(is_type))
        is_type = function(kind) return set[kind] end
    end
    return function(handler)
        return function(request, ...)
            request.handler = handler
            local response = handler(request, ...)
            if type(response) == "string" then response = {body = response} end
            if type(response) ~= "table" or (response.body == nil and response.file == nil)
                or not is_worth_it(response, least, is_type) then
                return response
            end
            local new = gzip.is_wanted(request) and compress(response, level)
            if not new then
                new = response
                new.headers = copy_of(response.headers or {})
            end
            add_vary(new.headers)
            return new
        end
    end
end

return gzip
