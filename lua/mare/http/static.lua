-- SPDX-License-Identifier: MIT
-- Serves the files of a folder. A path cannot lead out of it: names that begin with a dot do not
-- count, and the file must lie in the folder after all links were followed.
local checks, file = require "mare._check", require "mare.file"
local find = require "mare._file".find
local time_of = require "mare.http._date".read
local trim, unescape = require "mare.http._text".trim, require "mare.http._text".unescape

local static = {}

local known = checks.set("index", "links", "hidden", "max_age", "types")

--- The media types, by the extension of the name.
static.types = {html = "text/html; charset=utf-8", htm = "text/html; charset=utf-8",
    css = "text/css; charset=utf-8", js = "text/javascript; charset=utf-8",
    mjs = "text/javascript; charset=utf-8", json = "application/json",
    map = "application/json", txt = "text/plain; charset=utf-8",
    md = "text/markdown; charset=utf-8",
    csv = "text/csv; charset=utf-8", xml = "application/xml", svg = "image/svg+xml",
    png = "image/png", jpg = "image/jpeg", jpeg = "image/jpeg", gif = "image/gif",
    webp = "image/webp", avif = "image/avif", ico = "image/x-icon", woff = "font/woff",
    woff2 = "font/woff2", ttf = "font/ttf", otf = "font/otf", pdf = "application/pdf",
    wasm = "application/wasm", zip = "application/zip", gz = "application/gzip",
    mp3 = "audio/mpeg", ogg = "audio/ogg", wav = "audio/wav", mp4 = "video/mp4",
    webm = "video/webm", webmanifest = "application/manifest+json"}

local function answer(status, text, headers)
    return {status = status, headers = headers, body = text}
end

local function missing() return answer(404, "404 Not Found\n") end

-- ---- Where it is --------------------------------------------------------------------------------

-- Whether a path may be looked for in the folder.
local function is_good(path, hidden)
    if path:find "[%z\\]" then return false end
    for piece in path:gmatch "[^/]+" do
        if piece == ".." or piece == "." or piece:sub(1, 1) == "." and not hidden then
            return false
        end
    end
    return true
end

-- Whether a path without links lies in the folder.
local function is_below(root, real)
    return root == "/" or real == root or real:sub(1, #root + 1) == root .. "/"
end

-- ---- What is asked of it ------------------------------------------------------------------------

-- Whether a tag is in If-None-Match or If-Match, by the weak comparison.
local function names_tag(list, tag)
    if trim(list) == "*" then return true end
    for one in list:gmatch '"[^"]*"' do
        if one == tag then return true end
    end
    return false
end

-- Whether the client has this version already (RFC 9110 section 13.2.2).
local function is_known(headers, tag, time)
    local tags, since = headers["if-none-match"], headers["if-modified-since"]
    if tags then return names_tag(tags, tag) end
    local had = since and time_of(since)
    return had and time <= had
end

-- The range that the client wants: first and last byte. Nothing: the whole file; false: there is no
-- such range.
local function range_of(headers, size, tag, time)
    local range, condition = headers.range, headers["if-range"]
    if not range or condition and condition ~= tag and time_of(condition) ~= time then
        return nil
    end
    local first, last = range:match "^bytes=%s*(%d*)%-(%d*)%s*$"
    if not first or first == "" and last == "" then return nil end
    if #first > 15 then return false end
    first, last = tonumber(first), tonumber(#last <= 15 and last or 1 << 50)
    if not first then -- only a length: so many bytes at the end
        if last == 0 or size == 0 then return false end
        return math.max(0, size - last), size - 1
    end
    if last and last < first then return nil end
    if first >= size then return false end
    return first, math.min(last or size - 1, size - 1)
end

-- ---- The answer ---------------------------------------------------------------------------------

local function date_of(time) return os.date("!%a, %d %b %Y %H:%M:%S GMT", time) end

-- The answer with an open file; `facts` is what the file system knows of it.
local function serve_file(request, f, facts, path, options)
    local time, size = facts.written // 1 | 0, facts.size
    local tag = ('"%x-%x"'):format(facts.written * 1000 // 1 | 0, size)
    local extension = (path:match "%.(%w+)$" or ""):lower()
    local types = options.types or {}
    local headers = {etag = tag, ["last-modified"] = date_of(time), ["accept-ranges"] = "bytes",
        ["x-content-type-options"] = "nosniff",
        ["content-type"] = types[extension] or static.types[extension]
            or "application/octet-stream"}
    if options.max_age then headers["cache-control"] = ("max-age=%d"):format(options.max_age) end
    if is_known(request.headers, tag, time) then
        f:close()
        return {status = 304, headers = headers}
    end
    local first, last
    if request.method == "GET" then first, last = range_of(request.headers, size, tag, time) end
    if first == false then
        f:close()
        headers["content-range"] = ("bytes */%d"):format(size)
        return answer(416, "416 Range Not Satisfiable\n", headers)
    elseif not first then
        return {headers = headers, body = f, length = size}
    end
    local ok, message = f:seek("set", first)
    if not ok then
        f:close()
        error(message, 0)
    end
    headers["content-range"] = ("bytes %d-%d/%d"):format(first, last, size)
    return {status = 206, headers = headers, body = f, length = last - first + 1}
end

-- Redirects to the URL of a folder with a slash at its end, so that relative links in it work.
local function redirect(request)
    local path = request.path:gsub("^/+", "/") -- "//host/" would lead to another host
    return answer(301, "301 Moved Permanently\n",
        {location = path .. "/" .. (request.query and "?" .. request.query or "")})
end

--- A handler that serves the files of a folder: of a request's path, or of the parameter `rest` of
--- a route (`routes:get("/assets/*rest", static.files "public")`). GET and HEAD; types, ETag,
--- Last-Modified and what asks for them, one range. Options: `index` ("index.html"; false: none),
--- `links` (whether links may lead out of the folder), `hidden` (whether names with a dot in front
--- count), `max_age` (seconds, for Cache-Control), `types` (by ends of names, before the usual
--- ones).
function static.files(root, options)
    options = options or {}
    checks.argument("files", root, 1, "string")
    checks.argument("files", options, 2, "table")
    checks.options("files", options, 2, known)
    checks.option("files", options, 2, "index", function(value)
        return value == false or type(value) == "string"
    end, "a name, or false")
    checks.option("files", options, 2, "links", "boolean", "true or false")
    checks.option("files", options, 2, "hidden", "boolean", "true or false")
    checks.option("files", options, 2, "types", "table", "a table")
    checks.option("files", options, 2, "max_age", function(value)
        return math.type(value) == "integer" and value >= 0
    end, "an integer that is not negative")
    local index = options.index == nil and "index.html" or options.index
    local real_root

    -- The open file of a path, with its facts; or an answer.
    local function open(request, path)
        real_root = real_root or assert(file.realpath(root))
        local real, facts, f, _, code = find(path)
        if not real then return nil, missing() end
        if not is_below(options.links and "/" or real_root, real) then
            local _ <close> = f
            return nil, missing()
        elseif f then
            return f, facts, path
        elseif facts.kind == "folder" and index then
            if request.path:sub(-1) ~= "/" then return nil, redirect(request) end
            return open(request, real .. "/" .. index)
        end
        return nil, code == "denied" and answer(403, "403 Forbidden\n") or missing()
    end

    return function(request, parameters)
        if request.method ~= "GET" and request.method ~= "HEAD" then
            return answer(405, "405 Method Not Allowed\n", {allow = "GET, HEAD"})
        end
        local rest = parameters and parameters.rest
        local wanted = rest and "/" .. rest or unescape(request.path)
        if not is_good(wanted, options.hidden) then return missing() end
        local f, facts, path = open(request, root .. wanted)
        if not f then return facts end
        return serve_file(request, f, facts, path, options)
    end
end

return static
