-- SPDX-License-Identifier: MIT
-- Forms and queries: names and values as in URLs (`application/x-www-form-urlencoded`, as the URL
-- standard of the WHATWG reads it), and bodies in several parts (`multipart/form-data`, RFC 7578),
-- read part after part with a limit on everything.
local checks, text_of = require "mare._check", require "mare.http._text"

local form = {}

-- ---- Names and values ---------------------------------------------------------------------------

local function decode(text) return text_of.unescape((text:gsub("+", " "))) end

--- How many names and values are read, unless the caller says otherwise.
form.most = 1000

--- The values of a query or a form by name, the last of each; and all of them, as lists by name. Or
--- nil, message, code, if there are more than `most`.
function form.decode(text, most)
    checks.argument("decode", text, 1, "string")
    if most ~= nil then checks.argument("decode", most, 2, "number") end
    local values, all, count = {}, {}, 0
    for pair in text:gmatch "[^&]+" do
        count = count + 1
        if count > (most or form.most) then
            return nil, "the form has too many fields", "toobig"
        end
        local name, value = pair:match "^([^=]*)=?(.*)$"
        name, value = decode(name), decode(value)
        values[name] = value
        local list = all[name]
        if list then list[#list + 1] = value else all[name] = {value} end
    end
    return values, all
end

local function encode(text)
    return (tostring(text):gsub("[^%w*._ -]", function(byte)
        return ("%%%02X"):format(byte:byte())
    end):gsub(" ", "+"))
end

--- A query or form from values by name; a list is several of one name. In the order of names.
function form.encode(values)
    checks.argument("encode", values, 1, "table")
    local names, parts = {}, {}
    for name in pairs(values) do names[#names + 1] = name end
    table.sort(names, function(a, b) return tostring(a) < tostring(b) end)
    for _, name in ipairs(names) do
        local value = values[name]
        for _, one in ipairs(type(value) == "table" and value or {value}) do
            parts[#parts + 1] = encode(name) .. "=" .. encode(one)
        end
    end
    return table.concat(parts, "&")
end

--- The fields of a request: of its query, or with a body that is a form, of that. As form.decode.
function form.query(request, most) return form.decode(request.query or "", most) end

-- The media type of a message in lower case, and its parameters.
local function type_of(headers)
    local value = headers["content-type"] or ""
    return (value:match "^[^;]*"):lower():gsub("%s", ""), text_of.parameters(value)
end

function form.body(request, most)
    if type_of(request.headers) ~= "application/x-www-form-urlencoded" then
        return nil, "the body is not a form (application/x-www-form-urlencoded)", "badmsg"
    end
    local text, message, code = request:text()
    if not text then return nil, message, code end
    return form.decode(text, most)
end

-- ---- Several parts ------------------------------------------------------------------------------

local part_options = checks.set("parts", "part", "head", "all")

-- The bytes of a body that were read and not used yet. `fill` reads more: true, or nil, message,
-- code.
local Source = {}
Source.__index = Source

function Source:fill()
    local more, message, code = self.message:read()
    if not more then
        return nil, message or "the body ends before its last part does", code or "badmsg"
    end
    self.got = self.got + #more
    if self.got > self.all then return nil, "the parts are too large", "toobig" end
    self.text = self.text .. more
    return true
end

-- Everything up to a mark, if it comes within `most` bytes; or nil, …. Removes the mark, too.
function Source:up_to(mark, most)
    local from = 1
    while true do
        local first, last = self.text:find(mark, from, true)
        if first and first - 1 <= most then
            local taken = self.text:sub(1, first - 1)
            self.text = self.text:sub(last + 1)
            return taken
        end
        if #self.text > most + #mark then
            return nil, "the head of a part is too large", "toobig"
        end
        from = math.max(1, #self.text - #mark + 2)
        local ok, message, code = self:fill()
        if not ok then return nil, message, code end
    end
end

local Part = {}
Part.__index = Part

local function fail(part, message, code)
    part.over, part.reader.failed = true, {message, code}
    return nil, message, code
end

-- A part has ended: its boundary was read. Another part follows, or this was the last.
local function finish(part)
    part.over = true
    local source = part.reader.source
    while #source.text < 2 do
        local ok, message, code = source:fill()
        if not ok then return fail(part, message, code) end
    end
    local two = source.text:sub(1, 2)
    source.text = source.text:sub(3)
    if two == "--" then
        part.reader.over = true
    elseif two ~= "\r\n" then
        return fail(part, "a malformed boundary", "badmsg")
    end
    return nil
end

--- The next piece of the part's body; nil at its end; or nil, message, code.
function Part:read()
    if self.over then return nil end
    local source, mark = self.reader.source, self.reader.mark
    while true do
        local first = source.text:find(mark, 1, true)
        local sure = first and first - 1 or #source.text - #mark + 1
        if sure > 0 then
            local piece = source.text:sub(1, sure)
            source.text = source.text:sub(sure + 1)
            self.size = self.size + sure
            if self.size > self.reader.part_most then
                return fail(self, "a part is too large", "toobig")
            end
            return piece
        elseif first then
            source.text = source.text:sub(#mark + 1)
            return finish(self)
        end
        local ok, message, code = source:fill()
        if not ok then return fail(self, message, code) end
    end
end

--- The whole body of the part.
function Part:text()
    return text_of.gather(function() return self:read() end)
end

-- Browsers write %22 for a quote within quotes.
local function with_quotes(text) return text and text:gsub("%%22", '"') or nil end

local function read_head(text)
    local headers = {}
    for line in text:gmatch "[^\r\n]+" do
        local name, value = line:match "^([^%s:]+):(.*)$"
        if not name then return nil end
        headers[name:lower()] = text_of.trim(value)
    end
    return headers
end

-- The next part. Skips what is left of the part before.
local function next_part(reader)
    if reader.part then
        while true do
            local piece, message, code = reader.part:read()
            if message then return nil, message, code end
            if not piece then break end
        end
    end
    if reader.failed then return nil, table.unpack(reader.failed) end
    if reader.over then return nil end
    reader.count = reader.count + 1
    if reader.count > reader.most then return nil, "there are too many parts", "toobig" end
    local part = setmetatable({reader = reader, size = 0}, Part)
    local text, message, code = reader.source:up_to("\r\n\r\n", reader.head_most)
    if not text then return fail(part, message, code) end
    part.headers = read_head(text)
    local about = part.headers and part.headers["content-disposition"]
    if not about or not about:lower():find "^form%-data" then
        return fail(part, "a part without a Content-Disposition of form-data", "badmsg")
    end
    local said = text_of.parameters(about)
    part.name, part.filename = with_quotes(said.name), with_quotes(said.filename)
    if not part.name then return fail(part, "a part without a name", "badmsg") end
    part.type = part.headers["content-type"]
    reader.part = part
    return part
end

--- An iterator over the parts of a request's body (`multipart/form-data`), in their order, each
--- with `name`, `filename` (as the client says, which is no path to be used), `type`, `headers`,
--- `part:read()` and `part:text()`; what is not read of one is passed over. The iterator returns
--- nil at the end, or nil, message, code. Options, all in bytes but the first: `parts` (100),
--- `part` (1 MiB), `head` (8 KiB), `all` (what the server lets through). Or nil, message, code.
function form.parts(request, options)
    options = options or {}
    checks.argument("parts", options, 2, "table")
    checks.options("parts", options, 2, part_options)
    for name in pairs(part_options) do
        checks.option("parts", options, 2, name, function(value)
            return math.type(value) == "integer" and value > 0
        end, "a positive integer")
    end
    local kind, parameters = type_of(request.headers)
    local boundary = parameters.boundary
    if kind ~= "multipart/form-data" or not boundary or #boundary > 70 or boundary == "" then
        return nil, "the body is not in parts", "badmsg"
    end
    local source = setmetatable({message = request, text = "\r\n", got = 0,
        all = options.all or math.maxinteger}, Source)
    local reader = {source = source, mark = "\r\n--" .. boundary, count = 0,
        most = options.parts or 100, part_most = options.part or 1048576,
        head_most = options.head or 8192}
    local preamble = setmetatable({reader = reader, size = 0}, Part) -- its text is thrown away
    reader.part = preamble
    return function() return next_part(reader) end
end

return form
