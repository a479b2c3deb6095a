-- SPDX-License-Identifier: MIT
-- Answers made smaller, if the client wants that and it is worth it.
local checks, zip = require "mare._check", require "mare._zip"
local bodies = require "mare.http._body"

local gzip = {}

local known = checks.set("least", "level", "types")

-- What compresses well; images, sound and archives are compressed already.
local usual_types = {["application/json"] = true, ["application/javascript"] = true,
    ["application/xml"] = true, ["application/wasm"] = true, ["image/svg+xml"] = true,
    ["application/x-ndjson"] = true, ["application/manifest+json"] = true,
    ["application/x-javascript"] = true, ["font/ttf"] = true, ["font/otf"] = true}

local function is_usual(kind)
    return usual_types[kind] or kind:find "^text/" and kind ~= "text/event-stream"
        or kind:find "%+json$" or kind:find "%+xml$"
end

--- Whether a request wants gzip (RFC 9110 section 12.5.3): it names it, or "*", with a quality
--- above 0 that is not less than that of the text as it is, if that is named too.
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

-- A body in parts, compressed part after part. Each part can be read when it has come.
local function compressed_parts(next_part, level)
    local deflater = zip.deflater("gzip", level)
    local over = false
    return function()
        if over then return nil end
        while true do
            local part, message, code = next_part()
            if type(part) == "string" then
                local text = deflater:write(part, "sync")
                if text ~= "" then return text end
            elseif part == nil and (message == nil or code == "closed") then
                over = true
                return (deflater:write("", "end"))
            else
                return part, message, code
            end
        end
    end, function() deflater:close() end
end

-- The header of that name, however it is written: its value and its name.
local function header(headers, wanted)
    if headers[wanted] ~= nil then return headers[wanted], wanted end
    for name, value in pairs(headers) do
        if type(name) == "string" and name:lower() == wanted then return value, name end
    end
    return nil, wanted
end

-- A copy of the headers for what has been compressed: a strong tag is that of other bytes.
local function new_headers(headers)
    local copy = {}
    for name, value in pairs(headers) do copy[name] = value end
    local tag, tag_name = header(copy, "etag")
    if type(tag) == "string" and tag:sub(1, 2) ~= "W/" then copy[tag_name] = "W/" .. tag end
    copy["content-encoding"] = "gzip"
    return copy
end

-- That what is sent depends on what was asked for, whether it is compressed or not.
local function add_vary(headers)
    local vary, name = header(headers, "vary")
    if type(vary) == "table" then vary = table.concat(vary, ", ") end
    if not vary then
        headers[name] = "accept-encoding"
    elseif not tostring(vary):lower():find("accept-encoding", 1, true) and vary ~= "*" then
        headers[name] = vary .. ", accept-encoding"
    end
end

-- Whether an answer can be compressed at all, whoever asks.
local function is_worth_it(response, least, is_type)
    local headers, status = response.headers or {}, response.status or 200
    if status < 200 or status == 204 or status == 206 or status == 304 or response.upgrade then
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
    local body = response.body
    local length = type(body) == "string" and #body or bodies.length_of(response.length)
    return not length or length >= least
end

-- The answer with a compressed body.
local function compress(response, level)
    local new, body, length = {}, response.body, response.length
    for key, value in pairs(response) do new[key] = value end
    new.headers = new_headers(response.headers or {})
    new.length, new.file = nil, nil
    if type(body) == "string" or type(body) == "number" then
        local deflater = zip.deflater("gzip", level)
        new.body = deflater:write(tostring(body), "end")
        deflater:close()
        return new
    end
    local opened, message, code = body, nil, nil
    if response.file then opened, message, code = bodies.open_file(response.file) end
    if code then error(message, 0) end
    local next_part
    next_part, message, code = bodies.open(opened, bodies.length_of(length))
    if code then error(message, 0) end
    local close
    new.body, close = compressed_parts(next_part, level)
    new.finally = function()
        close()
        local _ <close> = bodies.closer(opened, response.finally)
    end
    return new
end

--- Puts around handlers: compresses what they answer, if the client wants gzip, the type is one
--- that becomes smaller by it, the body has at least `least` bytes (1,024), or nobody knows how
--- many, and it is neither encoded already nor part of something. Options: `level`, 1 (fast) to 9
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
            local response = handler(request, ...)
            if type(response) == "string" then response = {body = response} end
            if type(response) ~= "table" or (response.body == nil and response.file == nil)
                or not is_worth_it(response, least, is_type) then
                return response
            end
            if gzip.is_wanted(request) then
                response = compress(response, level)
            else
                local copy = {}
                for name, value in pairs(response.headers or {}) do copy[name] = value end
                response.headers = copy
            end
            add_vary(response.headers)
            return response
        end
    end
end

return gzip
