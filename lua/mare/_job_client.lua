-- SPDX-License-Identifier: MIT
-- What `mare submit`, `mare jobs` and `mare attach` share: options, a small node of their own, and
-- how they end.
local node = require "mare.node"
local arguments, settings = require "mare._arguments", require "mare._settings"
local json, utf = require "mare.json", require "mare._utf8"

local REFUSED, UNREACHABLE = 120, 121 -- exit codes
local CODES = {nonode = UNREACHABLE, timeout = UNREACHABLE, badmsg = UNREACHABLE, noname = 1,
    ended = 1}

local client = {largest = 16 << 20} -- bytes of a message

local text = settings.text
local options, words, command

function client.fail(code, ...) arguments.fail(command, code, ...) end

--- The options of a command, its flags, and the words behind them.
function client.gather(name, flags, more, ...)
    local spec = {command = name, flags = flags, options = {name = text, keys = text,
        secret = text, group = text, insecure = settings.flag, timeout = settings.number}}
    for option, make in pairs(more) do spec.options[option] = make end
    command = name
    local given, rest = settings.split(spec, ...)
    options, words = settings.gather(spec, given)
    if options.timeout and type(options.timeout) ~= "number" then
        client.fail(2, "--timeout is a number of seconds")
    end
    return options, words, rest
end

--- Makes text from others safe to print: no part of it can be a command to the terminal. Some
--- terminals also obey U+0080 to U+009F, and the bytes 0x80 to 0x9F.
function client.harmless(said)
    said = tostring(said):gsub("[^%g \n\t\128-\255]", "?")
    return (said:gsub(utf8.len(said) and "\xc2[\x80-\x9f]" or "[\x80-\xff]", "?"))
end

--- A line of JSON from a table of text from others, which may contain any bytes.
function client.write_json(said)
    local line = {}
    for key, value in pairs(said) do
        line[key] = type(value) == "string" and utf.clean(value) or value
    end
    return io.stdout:write(json.encode(line), "\n")
end

--- Returns a function that takes a text piece by piece, and returns each piece up to its last whole
--- character. Called without a piece, it returns the rest.
function client.joiner()
    local rest = ""
    return function(piece)
        local whole = rest
        if piece then whole, rest = utf.parted(rest .. piece) else rest = "" end
        return whole
    end
end

--- Reports a failure of the server, or of the connection to it, and ends the program.
function client.give_up(message, code)
    if words["--json"] then
        client.write_json {event = "refused", code = code, message = tostring(message)}
    end
    client.fail(CODES[code] or REFUSED, "%s", client.harmless(message))
end

--- Becomes a node, connects to an address, and returns the name of the server. Several programs can
--- use one key at the same time, so each adds a suffix to the name.
function client.connect(address)
    if options.keys and not options.name then
        client.fail(2, "--name NAME is needed with --keys: whose key it is")
    end
    local name = ("%s+%08x"):format(options.name or "submit", math.random(0) & 0xffffffff)
    local ok, started, message = pcall(node.start, {name = name, keys = options.keys,
        secret = options.secret, group = options.group, message = client.largest,
        insecure = options.insecure})
    if not ok then client.fail(2, "%s", tostring(started):gsub("^.-%((.*)%)$", "%1")) end
    if not started then client.fail(1, "%s", message) end
    local code
    started, message, code = node.connect(address, options.timeout)
    if not started then client.give_up(message, code == "denied" and code or "nonode") end
    return started
end

--- Leaves in order, and ends the program.
function client.finish(code)
    node.stop(1)
    os.exit(code)
end

return client
