-- SPDX-License-Identifier: MIT
-- Key files of chronyd: lines of `NUMBER AES128 HEX:32 digits` or `ASCII:16 letters`. It skips keys
-- of other kinds, which cannot be used. If a program asks for one of those, the error names its
-- kind.

local check, store = require "mare._check", require "mare._keystore"

-- The bytes of a secret from its text in the file, or nil.
local function secret_of(text)
    local digits = text:match "^HEX:(.*)$"
    if not digits then return text:gsub("^ASCII:", "") end
    return #digits % 2 == 0 and digits:match "^%x+$" and digits:gsub("%x%x", function(two)
        return string.char(tonumber(two, 16))
    end) or nil
end

-- Reads one line: a key goes into `keys`; the kind of another key into `others`. Returns why it is
-- wrong, or nil.
local function read_key(line, keys, others)
    local id, kind, text = line:match "^%s*(%S+)%s*(%S*)%s*(%S*)"
    if not id or id:find "^[#!;%%]" then return nil end
    local number = id:find "^%d+$" and math.tointeger(tonumber(id))
    if text == "" and kind ~= "AES128" then kind, text = "MD5", kind end -- without a kind it is MD5
    if not number or number < 1 or number > 0xffffffff or text == "" then
        return "a key is NUMBER AES128 HEX:32 digits"
    end
    if kind ~= "AES128" then
        others[number] = kind
        return nil
    end
    local secret = secret_of(text)
    if not secret or #secret ~= 16 then return ("key %s is not of 16 bytes"):format(id) end
    keys[number] = {id = number, secret = secret}
end

--- The keys by their numbers; or the one key that has a number. Or nil, message, code.
return function(path, number)
    check.argument("keys", path, 1, "string")
    local text, why = store.read(path)
    if not text then return nil, why, "io" end
    local keys, others, at = {}, {}, 0
    for line in text:gmatch "[^\n]*" do
        at = at + 1
        local wrong = read_key(line, keys, others)
        if wrong then return nil, ("%s:%d: %s"):format(path, at, wrong), "badmsg" end
    end
    if number == nil then return keys end
    if keys[number] then return keys[number] end
    if others[number] then
        return nil, ("key %d in %s is of the kind %s; only AES128 can be used"):format(number, path,
            others[number]), "invalid"
    end
    return nil, ("there is no key %s in %s"):format(tostring(number), path), "invalid"
end
