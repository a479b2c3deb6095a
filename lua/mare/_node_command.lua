-- SPDX-License-Identifier: MIT
-- `mare node`, on the module mare.node: options from a file, the environment and the command line,
-- then the program, or none.
local mare, node = require "mare", require "mare.node"
local arguments, settings = require "mare._arguments", require "mare._settings"

local text, list, number, flag = settings.text, settings.list, settings.number, settings.flag
local SPEC = {command = "node", flags = {["--insecure"] = true, ["--guests"] = true,
    ["--json"] = true}, options = {name = text, listen = text, address = text, join = list,
    keys = text, secret = text, insecure = flag, guests = flag, group = text, allow = list,
    attach = list, code = text, memory = number, silence = number, message = number}}

local function fail(code, ...) arguments.fail("node", code, ...) end

-- ---- What is printed ----------------------------------------------------------------------------

local function say(json, what, fields)
    local parts = {}
    for _, pair in ipairs(fields) do
        if pair[2] ~= nil then
            parts[#parts + 1] = json
                and ("%s:%s"):format(arguments.quoted(pair[1]), arguments.quoted(pair[2]))
                or pair[2]
        end
    end
    if json then io.stdout:write(("{\"event\":%s,%s}\n"):format(arguments.quoted(what),
        table.concat(parts, ",")))
    else
        local word = what == "log" and "" or what .. " " -- a log line needs no more
        io.stderr:write(("mare node: %s%s\n"):format(word, table.concat(parts, " ")))
    end
    io.stdout:flush()
end

-- Splits the arguments: the options, and the program with its arguments. The program may also come
-- first; then options of the node may follow it.
local function divided(first, ...)
    if not first or first:sub(1, 2) == "--" then return settings.split(SPEC, first, ...) end
    local rest, i = {...}, 1
    while rest[i] do
        local option = rest[i]:match "^%-%-(.+)$"
        local bare = SPEC.flags[rest[i]]
        if not bare and not (option and (SPEC.options[option] or option == "config")) then break end
        i = i + (bare and 1 or 2)
    end
    local given = settings.split(SPEC, table.unpack(rest, 1, i - 1))
    return given, {first, table.unpack(rest, i)}
end

return function(...)
    local given, program = divided(...)
    local options, words = settings.gather(SPEC, given)
    local json = words["--json"]
    if not options.name then fail(2, "--name NAME is needed, as in 'mare node --name ebb'") end
    local log = mare.channel(100)
    options.log = log
    local ending = #program == 0 and arguments.ending()
    local ok, address, message = pcall(node.start, options)
    if not ok then fail(2, "%s", tostring(address):gsub("^.-%((.*)%)$", "%1")) end
    if not address then fail(1, "%s", message) end
    if options.insecure then
        io.stderr:write("mare node: WARNING: --insecure: all who reach this node can use it\n")
    end
    mare.go(function()
        for line in log:messages() do say(json, "log", {{"text", line}}) end
    end)
    if #program > 0 then
        local chunk, why = loadfile(program[1])
        if not chunk then fail(1, "%s", why) end
        local names = {}
        for i, word in ipairs(program) do names[i - 1] = word end
        arg = names -- luacheck: ignore
        chunk(table.unpack(program, 2))
    else
        say(json, "up", {{"name", options.name}, {"address", address ~= true and address or nil}})
        local watch = node.monitor()
        mare.go(function()
            for what, name, why in watch:messages() do
                say(json, what, {{"node", name}, {"why", why}})
            end
        end)
        ending()
    end
    node.stop(5)
    log:close()
    if #program == 0 then os.exit(0) end
end
