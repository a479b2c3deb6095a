-- SPDX-License-Identifier: MIT
-- Bodies to send: what they can be, how long they are, and how they are written.
local mare, raw, checks = require "mare", require "mare._http", require "mare._check"
local Message = require "mare.http._shared".Message

local body = {}

-- ---- Lengths ------------------------------------------------------------------------------------

--- What a length must be.
body.LENGTH = "an integer that is not negative"

--- The length of a body as the program gives it: an integer, also written as a float or in digits.
--- nil for anything else: a wrong length would make the peer look for the end of the body in the
--- wrong place.
function body.length_of(value)
    if type(value) == "string" then value = value:find "^%d+$" and tonumber(value) end
    local length = type(value) == "number" and math.tointeger(value)
    return length and length >= 0 and length or nil
end

-- ---- What can be read ---------------------------------------------------------------------------

local plain = checks.set("string", "number", "function")

--- What a body must be.
body.KINDS = "a string or a function, a file or a stream"

local function has_read(value) return type(value.read) == "function" end

--- Whether a value can be a body: a text, a function, or something to read (a file, a stream, a
--- message).
function body.is_one(value)
    local kind = type(value)
    if plain[kind] then return true end
    if kind == "table" then return getmetatable(value) == Message end
    local good, reads = pcall(has_read, value)
    return kind == "userdata" and good and reads
end

-- How many bytes a file has from its place on; nil if that is unknown, as with a pipe; or nil,
-- message, code.
local function rest_of(file)
    if io.type(file) then
        local here = file:seek()
        local size = here and file:seek "end"
        if size then file:seek("set", here) end
        return size and size - here
    end
    local facts, message, code = file:stat()
    if not facts then return nil, message, code end
    if facts.kind == "folder" then return nil, tostring(file) .. ": it is a folder", "io" end
    if facts.kind ~= "file" then return nil end
    local here
    here, message, code = file:seek()
    if not here then return nil, message, code end
    return math.max(0, facts.size - here)
end

-- Bytes that are read at a time.
local part_most = 65536

-- A stream that was cut off is an error: unlike the end of a function it must not look like a whole
-- body.
local function read_stream(stream, size)
    local part, message, code = stream:read(size)
    if code == "closed" and not raw.at_end(stream) then code = "io" end
    return part, message, code
end

--- Opens a body that can be read: returns a function that returns part after part, and the length,
--- if it is known or given; or nil, message, code. Texts and functions stay as they are. A file
--- that may be sent without being read has a fourth result, for `body.write_parts`: the `file`, and
--- how many bytes of it are `left`.
function body.open(value, length)
    if type(value) == "table" then
        return function() return value:read() end, length or value.length
    elseif type(value) ~= "userdata" then
        return value, length
    end
    local is_file = io.type(value) or value.stat ~= nil
    if is_file and not length then
        local message, code
        length, message, code = rest_of(value)
        if message then return nil, message, code end
    end
    local read, rest = is_file and value.read or read_stream, {file = value, left = length}
    return function()
        local left = rest.left
        if left == 0 then return nil end
        local size = left and math.min(left, part_most) or io.type(value) and part_most or nil
        local part, message, code = read(value, size)
        if part and left then rest.left = left - #part end
        return part, message, code
    end, length, nil, is_file and length and not io.type(value) and rest or nil
end

--- Opens the file of a path: the file, and its length unless the caller gives one; or nil, message,
--- code.
function body.open_file(path, length)
    if path:find("\0", 1, true) then return nil, "a path cannot have a zero byte", "invalid" end
    local near, size = require "mare._file".near(path)
    if near then return near, length or size end
    local real, facts, opened, message, code = require "mare._file".find(path)
    if not real then return nil, facts, opened end
    if opened then return opened, length or facts.size end
    if not code then opened, message, code = require "mare.file".open(path) end -- perhaps a pipe
    if not opened then return nil, message, code end
    return opened, length
end

local Closer = {}

function Closer:__close()
    local read_from, finally = self.body, self.finally
    local kind = type(read_from)
    local can_be = (kind == "userdata" or kind == "table") and body.is_one(read_from)
    if can_be and kind == "userdata" and not io.type(read_from) then
        local _ <close> = read_from -- a file whose close does not wait for a disk
    elseif can_be and read_from.close then
        read_from:close()
    end
    if type(finally) == "function" then finally() end
end

--- For a <close> variable: closes a body if it was opened for reading, and calls a function if
--- there is one. The body may be set later.
function body.closer(value, finally)
    return setmetatable({body = value, finally = finally}, Closer)
end

-- ---- Writing ------------------------------------------------------------------------------------

--- Writes a text, with what stands before and after it. With a deadline, by then. Without one, the
--- stream's time holds for each 64 KiB: a slow peer that keeps reading is not cut off because the
--- text is long. Nothing is copied.
function body.write(stream, deadline, before, text, after)
    if deadline then return stream:writewithin(deadline, before, text, after) end
    return raw.write(stream, before, text, after)
end

--- The next part: a string; false at the end, also if it is told as a read tells it; or nil,
--- message, code.
function body.take(next_part)
    local part, message, code = next_part()
    if type(part) == "string" then return part end
    if part ~= nil then
        return nil, "a part of a body must be a string, not a " .. type(part), "invalid"
    end
    if message == nil or code == "closed" then return false end
    return nil, message, code
end

-- Sends what the system has in memory of a file, without a copy in this process. True and the
-- number of bytes, or nil, message, code.
local function send_rest(stream, rest, deadline)
    local total = 0
    while rest.left > 0 do
        local sent, message, code = raw.send_file(stream, rest.file, rest.left, deadline)
        if not sent then return nil, message, code end
        if sent == 0 then break end
        total, rest.left = total + sent, rest.left - sent
        if rest.left > 0 then mare.yield() end -- the peer may be as fast as we are: let others run
    end
    return true, total
end

--- Writes what a function returns part after part: `length` bytes; with true instead of a length,
--- in chunks; with false, up to the connection's end. If the function fails, the body must not look
--- whole. The `rest` of a file is sent without being read where that is possible.
function body.write_parts(stream, next_part, length, deadline, rest)
    local chunked, left = length == true, math.type(length) and length
    while true do
        if rest then
            local ok, sent, why = send_rest(stream, rest, deadline)
            if not ok then return nil, sent, why end
            left = left - sent
        end
        local part, message, code = body.take(next_part)
        if part == nil then return nil, message, code end
        if not part then break end
        local ok = true
        if chunked and #part > 0 then
            ok, message, code = body.write(stream, deadline, ("%x\r\n"):format(#part), part, "\r\n")
        elseif not chunked then
            left = left and left - #part
            if left and left < 0 then return nil, "the body is too long", "badmsg" end
            ok, message, code = body.write(stream, deadline, "", part, "")
        end
        if not ok then return nil, message, code end
    end
    if left and left > 0 then return nil, "the body is too short", "badmsg" end
    return not chunked or body.write(stream, deadline, "", "0\r\n\r\n", "")
end

return body
