-- SPDX-License-Identifier: MIT
-- The WebSocket extension permessage-deflate (RFC 7692): negotiation, and compression of what is
-- sent. No message uses the text of the one before (no_context_takeover, both ways). So a
-- connection needs memory for it only while a message is sent or received, and one compressor
-- serves all connections of a process.
local zip, trim = require "mare._zip", require "mare.http._text".trim

local deflate = {}

-- What a client offers, and what its server must answer.
deflate.OFFER = "permessage-deflate; server_no_context_takeover; client_no_context_takeover"

-- Parses the header: a list of {name, parameters by name}; nil if it is malformed.
local function read(value)
    local found = {}
    for element in (value .. ","):gmatch "%s*([^,]*)%s*," do
        local name, rest = element:match "^([^;%s]+)%s*(.*)$"
        if name then
            local parameters = {}
            for parameter in rest:gmatch ";%s*([^;]*)" do
                local key, said = trim(parameter):match "^([^=%s]+)%s*=?%s*(.*)$"
                if not key or parameters[key] ~= nil then return nil end
                parameters[key] = said:match '^"(.*)"$' or said
            end
            found[#found + 1] = {name:lower(), parameters}
        end
    end
    return found
end

-- The number of bits of a window, 9 to 15; nil if it is not one (zlib makes 9 of 8).
local function bits_of(text)
    local bits = text:find "^%d+$" and tonumber(text)
    return bits and bits >= 9 and bits <= 15 and bits or nil
end

local function is_number(text) return text == "8" or bits_of(text) ~= nil end

-- A server's answer to one offer, and the window bits it uses; nil: it declines.
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

--- A server's answer to a client's header, and the window bits it compresses with; nil: no
--- compression.
function deflate.accept(value)
    for _, one in ipairs(value and read(value) or {}) do
        if one[1] == "permessage-deflate" then
            local answer, bits = accept_offer(one[2])
            if answer then return answer, bits end
        end
    end
end

--- How a client reads the server's answer: true, messages are compressed; false, they are not; nil:
--- the server accepted something that was not offered.
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

-- Compressors, by their window bits.
local deflaters = {}

--- Shorter messages are not compressed.
deflate.least = 128

--- Compresses a message, without the last four bytes, which the receiver adds (section 7.2.1); nil
--- if that would not make it smaller.
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
