-- SPDX-License-Identifier: MIT
-- The extension permessage-deflate of WebSocket (RFC 7692), as it is agreed on and sent. No message
-- knows of the one before (no_context_takeover, both ways): a connection then needs memory only
-- while a message is under way, and one object that compresses does for all connections of a
-- process.
local zip = require "mare._zip"

local deflate = {}

-- What a client offers, and what its server must answer.
deflate.OFFER = "permessage-deflate; server_no_context_takeover; client_no_context_takeover"

-- The extensions of a header: a list of {name, parameters by name}; nil: it cannot be read.
local function read(value)
    local found = {}
    for element in (value .. ","):gmatch "%s*([^,]*)%s*," do
        local name, rest = element:match "^([^;%s]+)%s*(.*)$"
        if name then
            local parameters = {}
            for parameter in rest:gmatch ";%s*([^;]*)" do
                local key, said = parameter:match "^([^=%s]+)%s*=?%s*(.-)%s*$"
                if not key or parameters[key] ~= nil then return nil end
                parameters[key] = said:match '^"(.*)"$' or said
            end
            found[#found + 1] = {name:lower(), parameters}
        end
    end
    return found
end

-- How far back one may look: 9 to 15; nil: it is no such number (of 8 zlib makes 9).
local function bits_of(text)
    local bits = text:find "^%d+$" and tonumber(text)
    return bits and bits >= 9 and bits <= 15 and bits or nil
end

local function is_number(text) return text == "8" or bits_of(text) ~= nil end

-- What a server makes of an offer: its answer, and how far back it looks; nil: it declines.
local function accept_offer(parameters)
    local bits = 15
    for name, value in pairs(parameters) do
        if name == "server_max_window_bits" then
            bits = bits_of(value)
            if not bits then return nil end
        elseif name == "client_max_window_bits" then
            if value ~= "" and not is_number(value) then return nil end
        elseif name ~= "server_no_context_takeover" and name ~= "client_no_context_takeover"
            or value ~= "" then
            return nil
        end
    end
    local answer = deflate.OFFER
    if parameters.server_max_window_bits then
        answer = ("%s; server_max_window_bits=%d"):format(answer, bits)
    end
    return answer, bits
end

--- What a server answers to the header of a client, and how far back it looks when it compresses;
--- or nil: nothing is agreed on.
function deflate.accept(value)
    for _, one in ipairs(value and read(value) or {}) do
        if one[1] == "permessage-deflate" then
            local answer, bits = accept_offer(one[2])
            if answer then return answer, bits end
        end
    end
end

--- What a client makes of its server's answer: true, it is agreed on; false, it is not; nil: the
--- server has agreed to what was not offered.
function deflate.check(value)
    if not value then return false end
    local found = read(value)
    if not found or #found ~= 1 or found[1][1] ~= "permessage-deflate" then return nil end
    local parameters = found[1][2]
    for name, said in pairs(parameters) do
        local known = name == "server_max_window_bits" and is_number(said)
            or (name == "server_no_context_takeover" or name == "client_no_context_takeover")
            and said == ""
        if not known then return nil end
    end
    return parameters.server_no_context_takeover and true or nil
end

-- What compresses, by how far back it looks.
local deflaters = {}

--- Bytes of a message from which on it is worth it.
deflate.least = 128

--- A message, compressed, without the end that a receiver knows (section 7.2.1); nil: it stays as
--- it is, for it would not become smaller.
function deflate.message(data, bits)
    if #data < deflate.least then return nil end
    local deflater = deflaters[bits]
    if not deflater then
        deflater = assert(zip.deflater("raw", 6, bits))
        deflaters[bits] = deflater
    end
    deflater:reset()
    local text = deflater:write(data, "sync")
    return text and #text - 4 < #data and text:sub(1, -5) or nil
end

return deflate
