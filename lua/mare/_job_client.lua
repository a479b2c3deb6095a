-- SPDX-License-Identifier: MIT
-- What `mare submit`, `mare jobs` and `mare attach` share: options, a small node of their own, and
-- how they end.
local node = require "mare.node"
local arguments, settings = require "mare._arguments", require "mare._settings"
local json = require "mare.json"

local REFUSED, UNREACHABLE = 120, 121 -- exit codes
local CODES = {nonode = UNREACHABLE, timeout = UNREACHABLE, noname = 1, ended = 1}

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

--- Says what failed at the server, or on the way to it, and ends.
function client.give_up(message, code)
    if words["--json"] then
        io.stdout:write(json.encode {event = "refused", code = code, message = message}, "\n")
    end
    client.fail(CODES[code] or REFUSED, "%s", message)
end

--- Becomes a node, and connects to an address: the name of the server. Several programs can have
--- one key at the same time: each has a mark of its own behind the name.
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

--- Leaves in good order, and ends.
function client.finish(code)
    node.stop(1)
    os.exit(code)
end

return client
